"""Reductions, sums of products, monoids and scans of core, against NumPy written by hand."""

import ml_dtypes
import numpy as np
import pytest

from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import fresh
from axon.core.ir import Bind, Convert, Monoid, Select, Unary
from axon.shapes.dimension import Dim, minimum
from tests.core.build import (
    BF16,
    BOOL,
    F8E4M3,
    F16,
    F32,
    F64,
    I8,
    I32,
    I64,
    U8,
    Build,
    R,
    X,
    at,
    call,
    code_of,
    custom,
    dim,
    gather,
    index,
    ix,
    like,
    lit,
    local,
    matrix,
    op,
    sizes,
)

# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────

FOLDS = {"sum": np.sum, "prod": np.prod, "max": np.max, "min": np.min}


@pytest.mark.parametrize("kind", sorted(FOLDS))
def test_named_reductions(blocks, kind):
    b, x, i, j = matrix()
    rows = b.compute([i], at(x, i, j), over=[j], by=kind)
    i, j = like(i, j)
    columns = b.compute([j], at(x, i, j), over=[i], by=kind)
    i, j = like(i, j)
    every = b.compute([], at(x, i, j), over=[i, j], by=kind)
    results = call(b, (rows, columns, every), X)
    for actual, axis in zip(results, (1, 0, None), strict=True):
        np.testing.assert_allclose(actual, FOLDS[kind](X, axis=axis), rtol=1e-5)


@pytest.mark.parametrize("kind", ["any", "all"])
def test_any_and_all(blocks, kind):
    b, x, i, j = matrix(BOOL)
    values = np.array([[True, False], [True, True], [False, False]])
    y = call(b, b.compute([i], at(x, i, j), over=[j], by=kind), values)
    assert y.tolist() == getattr(np, kind)(values, axis=1).tolist()


def test_a_reduction_of_nothing(blocks):
    b, x, i, j = matrix()
    kinds = ("sum", "prod", "max", "min")
    ys = [b.compute([i2], at(x, i2, j2), over=[j2], by=k) for k in kinds for i2, j2 in [like(i, j)]]
    outs = call(b, tuple(ys), np.zeros((2, 0), np.float32))
    assert [out.tolist() for out in outs] == [[0, 0], [1, 1], [-np.inf] * 2, [np.inf] * 2]


@pytest.mark.parametrize(("kind", "value"), [("any", False), ("all", True)])
def test_a_logical_reduction_of_nothing(kind, value):
    b, x, i, j = matrix(BOOL)
    assert call(b, b.compute([i], at(x, i, j), over=[j], by=kind), np.zeros((2, 0), bool)).tolist() == [value] * 2


def test_f8e4m3_has_no_infinity_for_the_maximum_of_nothing():
    b, x, i, j = matrix(F8E4M3)
    y = call(b, b.compute([i], at(x, i, j), over=[j], by="max"), np.zeros((1, 0), F8E4M3.dtype))
    assert y.astype(np.float32).tolist() == [-448.0]


@pytest.mark.parametrize("kind", ["max", "min", "argmax", "argmin"])
def test_integers_have_no_best_of_nothing(blocks, kind):
    b, x, i, j = matrix(I32)
    bodies = [at(x, i, j)] + ([index(j)] if kind.startswith("arg") else [])
    y = b.compute([i], *bodies, over=[j], by=kind)
    with pytest.raises(AxonError) as raised:
        call(b, y, np.zeros((2, 0), np.int32))
    assert code_of(raised) == "AX0503"


@pytest.mark.parametrize("kind", ["max", "min", "argmax"])
def test_integers_have_no_best_where_nothing_is_kept(blocks, kind):
    b, x, i, j = matrix(I32)
    bodies = [at(x, i, j)] + ([index(j)] if kind.startswith("arg") else [])
    y = b.compute([i], *bodies, over=[j], by=kind, where=op("lt", at(x, i, j), lit(3, I32)))
    with pytest.raises(AxonError):
        call(b, y, np.array([[1, 2], [7, 8]], np.int32))
    np.testing.assert_array_equal(call(b, y, np.array([[-5, -5], [7, -5]], np.int32)), [0, 1] if "arg" in kind else -5)


@pytest.mark.parametrize("kind", ["max", "min", "argmax"])
def test_an_extreme_of_nothing_fails_only_where_it_is_asked_for(blocks, kind):
    b, x, i, j = matrix(I32)
    bodies = [at(x, i, j)] + ([index(j)] if kind.startswith("arg") else [])
    kept, asked = op("lt", at(x, i, j), lit(3, I32)), op("ge", index(i), lit(1, I32))
    y = b.compute([i], *bodies, over=[j], by=kind, where=kept, asked=asked)
    out = call(b, y, np.array([[9, 9], [7, -5]], np.int32))
    assert out[1] == (1 if kind == "argmax" else -5)
    with pytest.raises(AxonError):
        call(b, y, np.array([[7, -5], [9, 9]], np.int32))
    with pytest.raises(AxonError):
        call(b, y, np.zeros((2, 0), np.int32))
    assert call(b, y, np.zeros((1, 0), np.int32)).shape == (1,)


def test_an_empty_domain_evaluates_nothing():
    b, x, i, j = matrix(I32)
    y = b.compute([i], at(x, i, j), over=[j], by="max")
    assert call(b, y, np.zeros((0, 0), np.int32)).shape == (0,)


def test_where_keeps_what_is_evaluated(blocks):
    b, x, i, j = matrix()
    kept = op("le", index(j), index(i))
    total = b.compute([i], at(x, i, j), over=[j], by="sum", where=kept)
    np.testing.assert_allclose(call(b, total, X), np.tril(X).sum(1), rtol=1e-6)


def test_where_is_evaluated_first(blocks):
    b, i, ids, read = gather()
    y = b.compute([], read, over=[i], by="sum", where=op("lt", at(ids, i), lit(3, I32)))
    assert call(b, y, np.array([1, 2, 4], np.float32), np.array([2, 9, 0], np.int32)) == 5.0


def test_excluded_nan_does_not_count(blocks):
    b, x, i, j = matrix()
    values = np.array([[1, np.nan, 2]], np.float32)
    for kind, expected in (("sum", 3), ("prod", 2), ("max", 2), ("min", 1)):
        b.ops.clear()
        i2, j2 = like(i, j)
        y = b.compute([i2], at(x, i2, j2), over=[j2], by=kind, where=op("eq", at(x, i2, j2), at(x, i2, j2)))
        assert call(b, y, values).tolist() == [expected]


def test_nan_wins(blocks):
    b, x, i, j = matrix()
    values = np.array([[1, np.nan, 2], [3, 4, 5]], np.float32)
    y = b.compute([i], at(x, i, j), over=[j], by="max")
    np.testing.assert_array_equal(call(b, y, values), [np.nan, 5])


@pytest.mark.parametrize("kind", ["argmax", "argmin"])
@pytest.mark.parametrize("where", [False, True])
def test_ties_take_the_lowest_index_and_the_first_nan_wins(blocks, kind, where):
    b, x, i, j = matrix()
    kept = op("ge", index(j), lit(1, I32)) if where else None
    y = b.compute([i], at(x, i, j), index(j), over=[j], by=kind, where=kept)
    values = np.array([[9, 2, 5, 5, 2], [0, 1, np.nan, 7, np.nan], [4, 4, 4, 4, 4]], np.float32)
    if kind == "argmax":
        expected = [2, 2, 1] if where else [0, 2, 0]
    else:
        expected = [1, 2, 1] if where else [1, 2, 0]
    assert call(b, y, values).tolist() == expected


def test_argmax_over_two_axes_gives_two_indices(blocks):
    b, x, i, j = matrix()
    ys = b.compute([], at(x, i, j), index(i), index(j), over=[i, j], by="argmax")
    a, c = call(b, ys, X)
    assert (a, c) == np.unravel_index(X.argmax(), X.shape)


def test_argmax_of_minus_infinity_that_is_kept(blocks):
    b, x, i, j = matrix()
    y = b.compute([i], at(x, i, j), index(j), over=[j], by="argmax", where=op("ge", index(j), lit(2, I32)))
    assert call(b, y, np.full((1, 4), -np.inf, np.float32)).tolist() == [2]


def test_triangular_extent(blocks):
    b, x, i, _ = matrix()
    k = ix("k", minimum(dim(i) + 1, x.shape[1]))
    y = b.compute([i], at(x, i, k), over=[k], by="sum")
    np.testing.assert_allclose(call(b, y, X), np.tril(X).sum(1), rtol=1e-6)


def test_extents_that_mention_reduced_axes(blocks):
    b = Build()
    (n,) = sizes("n")
    x = b.input("x", F32, n)
    i = ix("i", n)
    j = ix("j", dim(i))
    k = ix("k", dim(j))
    y = b.compute([], Convert(index(dim(i) * 100 + dim(j) * 10 + dim(k)), F32), over=[i, j, k], by="sum")
    expected = sum(100 * i + 10 * j + k for i in range(5) for j in range(i) for k in range(j))
    assert call(b, y, np.zeros(5, np.float32)) == expected
    assert x.element is F32


@pytest.mark.parametrize("element", [F16, BF16])
def test_narrow_sums_accumulate_in_f32(blocks, element):
    b, x, i, j = matrix(element)
    y = b.compute([i], at(x, i, j), over=[j], by="sum")
    values = np.full((2, 5000), 1.0).astype(element.dtype)
    values[:, 0] = 0.5
    assert call(b, y, values).astype(np.float32).tolist() == [np.float32(4999.5).astype(element.dtype)] * 2


def test_narrow_products_in_a_sum_are_not_rounded(blocks):
    b, x, i, j = matrix(F8E4M3)
    y = b.compute([i], op("mul", at(x, i, j), at(x, i, j)), over=[j], by="sum")
    values = np.array([[32.0, 0.0], [0.125, 0.125]]).astype(F8E4M3.dtype)  # 32 * 32 has no f8e4m3
    np.testing.assert_array_equal(call(b, y, values).astype(np.float32), [np.nan, 0.03125])


@pytest.mark.parametrize("element", [I8, U8, I32])
def test_integer_sums_wrap(blocks, element):
    b, x, i, j = matrix(element)
    top = np.iinfo(element.dtype).max
    values = np.full((1, 3), top, element.dtype)
    with np.errstate(all="ignore"):
        expected = values.sum(1, dtype=element.dtype)
    assert call(b, b.compute([i], at(x, i, j), over=[j], by="sum"), values).tolist() == expected.tolist()


def test_a_body_that_does_not_depend_on_the_reduced_axis(blocks):
    b, x, i, j = matrix()
    y = b.compute([i], Convert(index(i), F32), over=[j], by="sum")
    assert call(b, y, X).tolist() == [0, 5, 10, 15]
    assert x.element is F32


# ── sums of products ────────────────────────────────────────────────────────────────────────────────────────────────────


def product(element: Element, where=None):
    b = Build()
    n, m, k = sizes("nmk")
    x, y = b.input("x", element, n, k), b.input("y", element, k, m)
    i, j, c = ix("i", n), ix("j", m), ix("c", k)
    kept = where(i, j, c) if where else None
    return b, b.compute([i, j], op("mul", at(x, i, c), at(y, c, j)), over=[c], by="sum", where=kept)


@pytest.mark.parametrize("element", [e for e in Element if e is not BOOL])
def test_matrix_products(element):
    b, y = product(element)
    a, c = (R.integers(0, 4, shape).astype(element.dtype) for shape in ((17, 23), (23, 19)))
    with np.errstate(all="ignore"):
        expected = a.astype(np.float64) @ c.astype(np.float64)
        expected = expected.astype(np.int64).astype(element.dtype) if element.is_integer else expected.astype(element.dtype)
    np.testing.assert_array_equal(call(b, y, a, c).astype(np.float64), expected.astype(np.float64))


def test_large_integers_wrap_in_matrix_products():
    b, y = product(I64)
    a, c = (R.integers(-(2**62), 2**62, shape) for shape in ((12, 13), (13, 14)))
    np.testing.assert_array_equal(call(b, y, a, c), a @ c)


@pytest.mark.parametrize("special", [None, np.inf, np.nan])
def test_a_masked_matrix_product_excludes_exactly(blocks, special):
    b, y = product(F32, where=lambda i, j, c: op("le", index(c), index(i)))
    a, c = R.standard_normal((12, 12)).astype(np.float32), R.standard_normal((12, 15)).astype(np.float32)
    if special is not None:
        c[7] = special
        a[:, 11] = special
    with np.errstate(all="ignore"):
        rows = [[sum(a[i, k] * c[k, j] for k in range(i + 1)) for j in range(15)] for i in range(12)]
    expected = np.array(rows)
    np.testing.assert_allclose(call(b, y, a, c), expected, rtol=1e-4, atol=1e-5)


def test_three_factors(blocks):
    b = Build()
    n, m, k = sizes("nmk")
    x, y, w = b.input("x", F64, n, k), b.input("y", F64, k, m), b.input("w", F64, k)
    i, j, c = ix("i", n), ix("j", m), ix("c", k)
    out = b.compute([i, j], op("mul", op("mul", at(x, i, c), at(w, c)), at(y, c, j)), over=[c], by="sum")
    a, d, e = R.standard_normal((6, 9)), R.standard_normal((9, 8)), R.standard_normal(9)
    np.testing.assert_allclose(call(b, out, a, d, e), (a * e) @ d)


def test_factors_under_a_bind_and_casts(blocks):
    b = Build()
    n, m, k = sizes("nmk")
    x, y = b.input("x", BF16, n, k), b.input("y", BF16, k, m)
    i, j, c = ix("i", n), ix("j", m), ix("c", k)
    s = fresh("s")
    wide = [Convert(at(x, i, c), F32), Convert(at(y, c, j), F32)]
    body = Bind(((s, op("mul", wide[0], lit(0.5))),), op("mul", local(s), wide[1]))
    a, d = (R.integers(-3, 4, shape).astype(ml_dtypes.bfloat16) for shape in ((6, 9), (9, 8)))
    expected = (a.astype(np.float32) * 0.5) @ d.astype(np.float32)
    np.testing.assert_array_equal(call(b, b.compute([i, j], body, over=[c], by="sum"), a, d), expected)


@pytest.mark.parametrize("letters", ["bij,bjk->bik", "bshd,bthd->bhst", "ij,j->i", "i,j->ij", "ik,jk->ij", "aij,bij->ab"])
def test_contractions(blocks, letters):
    inputs, result = letters.split("->")
    left, right = inputs.split(",")
    extents = {c: Dim.of(fresh(c)) for c in left + right}
    axes = {c: ix(c, d) for c, d in extents.items()}
    b = Build()
    x, y = (b.input(n, F64, *[extents[c] for c in cs]) for n, cs in (("x", left), ("y", right)))
    reduced = [axes[c] for c in dict.fromkeys(left + right) if c not in result] or [ix("one", 1)]
    body = op("mul", at(x, *[axes[c] for c in left]), at(y, *[axes[c] for c in right]))
    out = b.compute([axes[c] for c in result], body, over=reduced, by="sum")
    size = dict(zip(extents, (2, 3, 4, 5, 3), strict=False))
    a, c = (R.standard_normal([size[k] for k in cs]) for cs in (left, right))
    np.testing.assert_allclose(call(b, out, a, c), np.einsum(letters, a, c))


@pytest.mark.parametrize("same", [False, True])
def test_convolution(blocks, same):
    b = Build()
    n, c, h, w, o, r, s = sizes("nchwors")
    x, k = b.input("x", F64, n, c, h, w), b.input("k", F64, o, c, r, s)
    big_n, big_o, cc, rr, ss = ix("n", n), ix("o", o), ix("c", c), ix("r", r), ix("s", s)
    p, q = (ix("p", h), ix("q", w)) if same else (ix("p", h - r + 1), ix("q", w - s + 1))
    offset = 1 if same else 0
    image = at(x, big_n, cc, dim(p) + dim(rr) - offset, dim(q) + dim(ss) - offset, padding=lit(0.0, F64) if same else None)
    out = b.compute([big_n, big_o, p, q], op("mul", image, at(k, big_o, cc, rr, ss)), over=[cc, rr, ss], by="sum")
    images, kernel = R.standard_normal((2, 2, 6, 7)), R.standard_normal((3, 2, 3, 3))
    padded = np.pad(images, ((0, 0), (0, 0), (1, 1), (1, 1))) if same else images
    windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(2, 3))
    np.testing.assert_allclose(call(b, out, images, kernel), np.einsum("ncpqrs,ocrs->nopq", windows, kernel))


# ── custom monoids and scans ────────────────────────────────────────────────────────────────────────────────────────────


def online_softmax() -> Monoid:
    """(maximum, sum of exponentials relative to it)."""

    def join(a, b):
        m = op("max", a[0], b[0])
        scaled = [op("mul", side[1], Unary("exp", op("sub", side[0], m))) for side in (a, b)]
        return m, op("add", *scaled)

    return custom((lit(-1e300, F64), lit(0.0, F64)), join)


def test_custom_reduction(blocks):
    b, x, i, j = matrix(F64)
    m, z = call(b, b.compute([i], at(x, i, j), lit(1.0, F64), over=[j], by=online_softmax()), X.astype(np.float64))
    np.testing.assert_allclose(m, X.max(1))
    np.testing.assert_allclose(z, np.exp(X.astype(np.float64) - X.max(1, keepdims=True)).sum(1))


def test_custom_reduction_keeps_the_order(blocks):
    """Digits joined to a number: associative as a monoid of (value, power of ten), not commutative."""
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", I64, n), ix("i", n)
    join = custom((lit(0, I64), lit(1, I64)), lambda a, c: (op("add", op("mul", a[0], c[1]), c[0]), op("mul", a[1], c[1])))
    y, _ = b.compute([], at(x, i), lit(10, I64), over=[i], by=join)
    for digits in ("", "7", "12", "314159", "2718281828"):
        b.ops[:] = b.ops[:1]
        assert call(b, y, np.array([int(d) for d in digits], np.int64)) == int(digits or "0")


def test_custom_reduction_where(blocks):
    b, x, i, j = matrix(F64)
    kept = op("gt", at(x, i, j), lit(0.0, F64))
    last = custom((lit(0.0, F64), lit(False, BOOL)), lambda a, c: (Select(c[1], c[0], a[0]), op("or", a[1], c[1])))
    y, some = b.compute([i], at(x, i, j), lit(True, BOOL), over=[j], by=last, where=kept)
    values = np.array([[1.0, 2, -3], [-1, -2, -3], [5, -1, 7]])
    y, some = call(b, (y, some), values)
    assert y.tolist() == [2, 0, 7]
    assert some.tolist() == [True, False, True]


def test_a_monoid_may_read_at_outer_axes(blocks):
    b, x, i, j = matrix(F64)
    (n, _) = x.shape
    w = b.input("w", F64, n)
    clipped = custom((lit(-1e9, F64),), lambda a, c: (op("min", op("max", a[0], c[0]), at(w, i)),))
    y = b.compute([i], at(x, i, j), over=[j], by=clipped)
    bound = np.array([0.0, 0.5, 1.0, 9.0])
    np.testing.assert_allclose(call(b, y, X.astype(np.float64), bound), np.minimum(X.max(1), bound), rtol=1e-6)


def test_units_may_read_at_outer_axes():
    b, x, i, j = matrix(F64)
    (n, _) = x.shape
    w = b.input("w", F64, n)
    y = b.compute([i], at(x, i, j), over=[j], by=custom((at(w, i),), lambda a, c: (op("add", a[0], c[0]),)))
    assert call(b, y, np.zeros((3, 0)), np.array([1.0, 2, 3])).tolist() == [1, 2, 3]


SCANS = {"sum": np.cumsum, "prod": np.cumprod, "max": np.maximum.accumulate, "min": np.minimum.accumulate}


@pytest.mark.parametrize("kind", sorted(SCANS))
def test_named_scans(blocks, kind):
    b, x, i, j = matrix()
    np.testing.assert_allclose(call(b, b.scan([i, j], at(x, i, j), by=kind), X), SCANS[kind](X, axis=1), rtol=1e-5)


@pytest.mark.parametrize("length", [0, 1, 2, 3, 7, 8, 100])
def test_custom_scan(blocks, length):
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", I64, n), ix("i", n)
    compose = custom((lit(1, I64), lit(0, I64)), lambda f, g: (op("mul", f[0], g[0]), op("add", op("mul", f[1], g[0]), g[1])))
    ys = b.scan([i], lit(2, I64), at(x, i), by=compose)
    _, actual = call(b, ys, np.arange(length))
    expected, state = [], 0
    for k in range(length):
        state = (2 * state + k + 2**63) % 2**64 - 2**63
        expected.append(state)
    assert actual.tolist() == expected


def test_narrow_scan_rounds_each_result_once(blocks):
    b, x, i, j = matrix(F16)
    values = np.full((1, 3000), 1.0, np.float16)
    y = call(b, b.scan([i, j], at(x, i, j), by="sum"), values)
    np.testing.assert_array_equal(y[0], np.arange(1, 3001).astype(np.float16))
