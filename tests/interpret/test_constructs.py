"""What the constructs of core compute, against NumPy written by hand: reads, guards, loops, sizes."""

from itertools import pairwise

import ml_dtypes
import numpy as np
import pytest

from axon.base.element import Element
from axon.base.errors import AxonError, ShapeError
from axon.base.names import fresh
from axon.core.ir import Bind, Convert, Scalar, Select, Unary
from axon.core.verify import CoreInvalid, verify
from axon.interpret import box, run
from axon.shapes.contracts.contract import ContractBroken
from axon.shapes.dimension import Dim, maximum, minimum
from tests.core.build import (
    BF16,
    BOOL,
    F32,
    I32,
    I64,
    SOURCE,
    Build,
    R,
    X,
    at,
    call,
    code_of,
    dim,
    gather,
    index,
    ix,
    lit,
    local,
    matrix,
    op,
    sizes,
)

# ── reads ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_transpose(blocks):
    b, x, i, j = matrix()
    np.testing.assert_array_equal(call(b, b.compute([j, i], at(x, i, j)), X), X.T)


def test_diagonal(blocks):
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", F32, n, n), ix("i", n)
    np.testing.assert_array_equal(call(b, b.compute([i], at(x, i, i)), X[:, :4]), X.diagonal())


def test_reverse_and_stride(blocks):
    b, x, i, _ = matrix()
    n, m = x.shape
    k = ix("k", m // 2)
    y = b.compute([i, k], at(x, n - 1 - dim(i), 2 * dim(k) + 1))
    np.testing.assert_array_equal(call(b, y, X), X[::-1, 1::2])


def test_merge_and_split_of_a_dimension(blocks):
    b, x, i, j = matrix()
    n, m = x.shape
    flat = ix("f", n * m)
    y = b.compute([flat], at(x, dim(flat) // m, dim(flat) % m))
    back = b.compute([i, j], at(y, dim(i) * m + dim(j)))
    merged, split = call(b, (y, back), X)
    np.testing.assert_array_equal(merged, X.ravel())
    np.testing.assert_array_equal(split, X)


def test_index_with_minimum_and_maximum(blocks):
    b, x, i, j = matrix()
    n = x.shape[0]
    y = b.compute([i, j], at(x, minimum(dim(i) + 1, n - 1), maximum(dim(j) - 1, 0)))
    expected = X[np.minimum(np.arange(4) + 1, 3)][:, np.maximum(np.arange(5) - 1, 0)]
    np.testing.assert_array_equal(call(b, y, X), expected)


@pytest.mark.parametrize("shift", [-100, -2, 0, 3, 100])
def test_padding(blocks, shift):
    b, x, i, j = matrix()
    y = b.compute([i, j], at(x, i, dim(j) + shift, padding=lit(9.0)))
    expected = [[row[k + shift] if 0 <= k + shift < 5 else 9.0 for k in range(5)] for row in X]
    np.testing.assert_array_equal(call(b, y, X), np.array(expected, np.float32))


def test_padding_that_varies(blocks):
    b, x, i, j = matrix()
    y = b.compute([i, j], at(x, i, dim(j) - 1, padding=Convert(index(i), F32)))
    expected = np.concatenate([np.arange(4, dtype=np.float32)[:, None], X[:, :-1]], axis=1)
    np.testing.assert_array_equal(call(b, y, X), expected)


def test_padding_far_away_copies_no_huge_window():
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", F32, n), ix("i", n)
    y = b.compute([i], at(x, 1_000_000_000 * dim(i), padding=lit(0.5)))
    assert call(b, y, np.ones(4, np.float32)).tolist() == [1.0, 0.5, 0.5, 0.5]


def test_padding_of_an_empty_tensor():
    b = Build()
    n, m = sizes("nm")
    x, e, i = b.input("x", BF16, n), b.input("e", F32, m), ix("i", m)
    y = b.compute([i], at(x, i, padding=lit(2.0, BF16)))
    out = call(b, y, np.zeros(0, ml_dtypes.bfloat16), np.zeros(3, np.float32))
    assert out.tolist() == [2.0, 2.0, 2.0]
    assert e.element is F32


def test_gather(blocks):
    b, x, _, j = matrix()
    (k,) = sizes("k")
    ids, i = b.input("ids", I64, k), ix("i", k)
    y = b.compute([i, j], at(x, at(ids, i), j, checked=SOURCE.span()))
    chosen = np.array([3, 0, 0, 2, 1, 3, 2])
    np.testing.assert_array_equal(call(b, y, X, chosen), X[chosen])


@pytest.mark.parametrize("bad", [-1, 3, 2**31 - 1, -(2**31)])
def test_a_checked_index_outside_is_an_error(blocks, bad):
    b, i, _, read = gather()
    with pytest.raises(ShapeError) as raised:
        call(b, b.compute([i], read), np.ones(3, np.float32), np.array([0, bad], np.int32))
    assert code_of(raised) == "AX0502"
    (diagnostic,) = raised.value.diagnostics
    assert diagnostic.message == f"index {bad} is outside dimension 1 of `x`, which has size 3"
    assert diagnostic.labels[0].span.text == "ids[i]"
    assert f"this index is {bad}" in diagnostic.labels[0].text


def test_an_unchecked_index_outside_is_a_bug_and_does_not_wrap(blocks):
    b, x, i, j = matrix()
    with pytest.raises(CoreInvalid, match="index -1 in dimension 2 of size 5"):
        call(b, b.compute([i, j], at(x, i, dim(j) - 1)), X)


@pytest.mark.parametrize("guard", ["then", "else", "and", "or"])
def test_what_is_not_taken_is_not_checked(blocks, guard):
    b, i, ids, read = gather()
    inside = op("lt", at(ids, i), lit(3, I32))
    positive = op("gt", read, lit(0.0))
    body: Scalar = {
        "then": Select(inside, read, lit(-1.0)),
        "else": Select(Unary("not", inside), lit(-1.0), read),
        "and": op("and", inside, positive),
        "or": op("or", Unary("not", inside), positive),
    }[guard]
    y = call(b, b.compute([i], body), np.array([5, 6, -7], np.float32), np.array([0, 9, 2], np.int32))
    expected = {"then": [5, -1, -7], "else": [5, -1, -7], "and": [True, False, False], "or": [True, True, False]}
    assert y.tolist() == expected[guard]


def test_guards_nest(blocks):
    b, i, ids, read = gather()
    low, high = op("ge", at(ids, i), lit(0, I32)), op("lt", at(ids, i), lit(3, I32))
    y = b.compute([i], Select(low, Select(high, read, lit(8.0)), lit(9.0)))
    assert call(b, y, np.array([5, 6, 7], np.float32), np.array([-1, 1, 4], np.int32)).tolist() == [9, 6, 8]


def test_a_guard_does_not_protect_what_is_taken(blocks):
    b, i, ids, read = gather()
    body = Select(op("gt", at(ids, i), lit(0, I32)), read, lit(0.0))
    with pytest.raises(ShapeError):
        call(b, b.compute([i], body), np.ones(3, np.float32), np.array([0, 9, 2], np.int32))


def test_a_read_of_an_empty_tensor_that_is_not_taken():
    b = Build()
    (n,) = sizes("n")
    x = b.input("x", F32, n)
    y = b.compute([], Select(op("gt", index(n), lit(0, I32)), at(x, 0), lit(4.0)))
    assert call(b, y, np.zeros(0, np.float32)) == 4.0


# ── arithmetic that fails ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(("name", "bad", "words"), [("div", 0, "by zero"), ("mod", 0, "by zero"), ("pow", -1, "negative")])
def test_integer_arithmetic_fails_with_a_diagnostic(blocks, name, bad, words):
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", I32, n), ix("i", n)
    y = b.compute([i], op(name, lit(7, I32), at(x, i)), span=SOURCE.span(0, 3))
    with pytest.raises(AxonError) as raised:
        call(b, y, np.array([1, 2, bad], np.int32))
    assert code_of(raised) == "AX0503"
    (diagnostic,) = raised.value.diagnostics
    assert words in diagnostic.message
    assert diagnostic.labels[0].span.start == 0


@pytest.mark.parametrize("name", ["div", "mod", "pow"])
def test_guarded_integer_arithmetic_does_not_fail(blocks, name):
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", I32, n), ix("i", n)
    body = Select(op("gt", at(x, i), lit(0, I32)), op(name, lit(7, I32), at(x, i)), lit(-1, I32))
    expected = {"div": [7, -1, 3], "mod": [0, -1, 1], "pow": [7, -1, 49]}[name]
    assert call(b, b.compute([i], body), np.array([1, -5 if name == "pow" else 0, 2], np.int32)).tolist() == expected


def test_float_division_by_zero_is_infinite():
    b, x, i, j = matrix()
    y = b.compute([i, j], op("div", lit(1.0), at(x, i, j)))
    assert call(b, y, np.zeros((1, 2), np.float32)).tolist() == [[np.inf, np.inf]]


# ── loops, sort, compress, check ────────────────────────────────────────────────────────────────────────────────────────


def fibonacci(stacked: bool, trip):
    b = Build()
    n, m = sizes("nm")
    a, c, e = b.input("a", I64, n), b.input("c", I64, n), b.input("e", F32, m)

    def step(inner, counter, states):
        i, j = ix("i", n), ix("j", n)
        return [
            inner.compute([i], at(states[1], i)),
            inner.compute([j], op("add", at(states[0], j), at(states[1], j))),
        ]

    return b, b.loop([a, c], trip(m, e), step, stacked=stacked)


@pytest.mark.parametrize("count", [0, 1, 5])
def test_loop(count):
    b, outs = fibonacci(False, lambda m, e: index(m))
    x, y = call(b, outs, np.array([0, 1]), np.array([1, 1]), np.zeros(count, np.float32))
    state = np.array([[0, 1], [1, 1]])
    for _ in range(count):
        state = np.array([state[1], state[0] + state[1]])
    np.testing.assert_array_equal([x, y], state)


@pytest.mark.parametrize("count", [0, 1, 4])
def test_unfold(count):
    b, outs = fibonacci(True, lambda m, e: index(m))
    x, y = call(b, outs, np.array([0]), np.array([1]), np.zeros(count, np.float32))
    assert x.shape == (count, 1)
    assert y[:, 0].tolist() == [1, 2, 3, 5][:count]


def test_loop_with_a_trip_from_data_and_its_counter():
    b = Build()
    x, t = b.input("x", I32), b.input("t", I32)

    def step(inner, counter, states):
        k = ix("k", Dim.of(counter.symbol) + 1)  # the counter as a size, and as a value
        total = inner.compute([], index(k), over=[k], by="sum")
        return [inner.compute([], op("add", op("add", at(states[0]), at(total)), at(counter)))]

    y = b.loop([x], at(t), step)
    for trip in (-3, 0, 1, 5):
        expected = sum(i * (i + 1) // 2 + i for i in range(max(0, trip)))
        assert call(b, y, np.array(0, np.int32), np.array(trip, np.int32)) == expected


@pytest.mark.parametrize("element", list(Element))
def test_sort(element):
    b, x, _, _ = matrix(element)
    values = R.integers(0, 2 if element is BOOL else 5, (3, 9)).astype(element.dtype)
    if element.is_float:
        values[1, 4] = np.nan
    ordered, indices = call(b, b.sort(x), values)
    wide = values.astype(np.float64)
    expected = np.argsort(wide, axis=-1, kind="stable")
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(ordered.astype(np.float64), np.take_along_axis(wide, expected, -1))


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1)])
def test_sort_of_little(shape):
    b, x, _, _ = matrix()
    ordered, indices = call(b, b.sort(x), np.zeros(shape, np.float32))
    assert ordered.shape == indices.shape == shape


@pytest.mark.parametrize("mask", [[], [False], [True], [False, True, True, False, True]])
def test_compress_defines_a_size(mask):
    b = Build()
    (n,) = sizes("n")
    m = b.input("m", BOOL, n)
    ix_ = b.compress(m)
    i = ix("i", ix_.shape[0])
    twice = b.compute([i], op("mul", at(ix_, i), index(ix_.shape[0])))
    found, scaled = call(b, (ix_, twice), np.array(mask, bool))
    expected = np.flatnonzero(mask)
    assert found.tolist() == expected.tolist()
    assert scaled.tolist() == (expected * len(expected)).tolist()


def test_check():
    b, x, i, j = matrix()
    n, m = x.shape
    b.check(n, "=", m, "`x` is not square", SOURCE.span(0, 1))
    y = b.compute([i, j], at(x, j, i))
    np.testing.assert_array_equal(call(b, y, X[:, :4]), X[:, :4].T)
    with pytest.raises(ShapeError) as raised:
        call(b, y, X)
    (diagnostic,) = raised.value.diagnostics
    assert (diagnostic.code, diagnostic.message) == ("AX0501", "`x` is not square")
    assert diagnostic.labels[0].text == "4 = 5 does not hold"


# ── sizes, ranks, depth ─────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("element", list(Element))
def test_every_element_type_passes_through(blocks, element):
    b, x, i, j = matrix(element)
    values = np.array([[0, 1, 1], [1, 0, 1]]).astype(element.dtype)
    np.testing.assert_array_equal(call(b, b.compute([j, i], at(x, i, j)), values), values.T)


def test_rank_0():
    b = Build()
    x, y = b.input("x", F32), b.input("y", F32)
    total = b.compute([], op("add", at(x), at(y)))
    out = call(b, total, np.array(1.5, np.float32), np.array(2.0, np.float32))
    assert out.shape == ()
    assert out == 3.5


def test_rank_20(blocks):
    b = Build()
    dims = sizes("abcdefghijklmnopqrst")
    x = b.input("x", F32, *dims)
    axes = [ix(f"i{k}", d) for k, d in enumerate(dims)]
    reverse = b.compute(axes[::-1], op("mul", at(x, *axes), lit(2.0)))
    axes = [ix(f"i{k}", d) for k, d in enumerate(dims)]
    total = b.compute(axes[:10], at(x, *axes), over=axes[10:], by="sum")
    shape = [2, 1, 3] * 2 + [1] * 14
    values = R.standard_normal(shape).astype(np.float32)
    flipped, summed = call(b, (reverse, total), values)
    np.testing.assert_array_equal(flipped, 2 * values.transpose())
    np.testing.assert_allclose(summed, values.sum(tuple(range(10, 20))), rtol=1e-6)


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0), (1, 1)])
def test_little_matrices(blocks, shape):
    b, x, i, j = matrix()
    y = b.compute([i, j], Unary("exp", at(x, i, j)))
    values = np.zeros(shape, np.float32)
    np.testing.assert_array_equal(call(b, y, values), np.exp(values))


def test_negative_extents_are_empty():
    b = Build()
    (n,) = sizes("n")
    x = b.input("x", F32, n)
    i = ix("i", n - 3)
    assert call(b, b.compute([i], at(x, i)), np.zeros(1, np.float32)).shape == (0,)


@pytest.mark.parametrize("count", [0, 2])
def test_a_guarded_division_of_dimensions(count):
    b = Build()
    n, m = sizes("nm")
    x, e, i = b.input("x", F32, n), b.input("e", F32, m), ix("i", n)
    body = Select(op("gt", index(m), lit(0, I32)), op("add", index(n // m), index(dim(i) % m)), lit(-1, I32))
    out = call(b, b.compute([i], body), np.zeros(3, np.float32), np.zeros(count, np.float32))
    assert out.tolist() == ([-1, -1, -1] if count == 0 else [1, 2, 1])
    assert (x.shape, e.shape) == ((n,), (m,))


@pytest.mark.parametrize("where", ["body", "extent", "check"])
def test_a_division_of_dimensions_by_zero(where):
    b = Build()
    n, m = sizes("nm")
    _, _, i = b.input("x", F32, n), b.input("e", F32, m), ix("i", n // m if where == "extent" else n)
    if where == "check":
        b.check(n // m, ">=", 0)
    y = b.compute([i], index(n // m if where == "body" else n))
    with pytest.raises(AxonError) as raised:
        call(b, y, np.zeros(3, np.float32), np.zeros(0, np.float32))
    assert code_of(raised) == "AX0503"


def test_more_indices_than_numpy_has_dimensions():
    b = Build()
    axes = [ix("i", 1) for _ in range(70)]
    with pytest.raises(AxonError) as raised:
        call(b, b.compute([], index(axes[0]), over=axes, by="sum"))
    assert code_of(raised) == "AX0002"


def test_deep_expressions():
    b, x, i, j = matrix()
    body: Scalar = at(x, i, j)
    for _ in range(250):
        body = op("add", body, lit(1.0))
    np.testing.assert_allclose(call(b, b.compute([i, j], body), X), X + 250, rtol=1e-6)


def test_long_binds():
    """5,000 bindings on 100,000 points: in blocks, so that they fit into memory; not recursive."""
    b = Build()
    (n,) = sizes("n")
    x, i = b.input("x", F32, n), ix("i", n)
    names = [fresh("v") for _ in range(5_000)]
    bindings = [(names[0], at(x, i))]
    for before, name in pairwise(names):
        bindings.append((name, op("add", local(before), lit(1.0))))
    nested: Scalar = local(names[-1])
    for k in range(4, -1, -1):
        nested = Bind(tuple(bindings[1000 * k : 1000 * (k + 1)]), nested)
    out = call(b, b.compute([i], nested), np.zeros(10_000, np.float32))
    assert (out == 4_999).all()


def test_results_are_fresh():
    b, x, i, j = matrix()
    y = b.compute([i, j], at(x, i, j))
    outs = call(b, (x, x, y, y), X)
    for k, out in enumerate(outs):
        assert not np.may_share_memory(out, X)
        assert not any(np.may_share_memory(out, other) for other in outs[:k])
        assert out.flags.writeable
        np.testing.assert_array_equal(out, X)


def test_inputs_need_not_be_contiguous():
    b, x, i, j = matrix()
    wide = np.repeat(np.repeat(X, 2, 0), 3, 1)
    y = b.compute([i, j], at(x, dim(i) % x.shape[0], j))
    np.testing.assert_array_equal(call(b, y, wide[::2, ::3]), X)
    np.testing.assert_array_equal(call(b, y, X.T), X.T)


def test_wrong_inputs():
    b, x, i, j = matrix()
    program = b.program(b.compute([i, j], at(x, i, j)))
    with pytest.raises(TypeError, match="holds f32, not float64"):
        run(program, [X.astype(np.float64)])
    with pytest.raises(TypeError, match="takes 1 tensors, not 2"):
        run(program, [X, X])
    with pytest.raises(ContractBroken):
        run(program, [X[0]])


def test_explicit_dimensions():
    b = Build()
    h = b.param("h")
    (n,) = sizes("n")
    x = b.input("x", F32, h * n)
    i, j = ix("i", h), ix("j", n)
    program = b.program(b.compute([i, j], at(x, dim(i) * n + dim(j))))
    verify(program)
    (out,) = run(program, [np.arange(6, dtype=np.float32)], (2,))
    assert out.tolist() == [[0, 1, 2], [3, 4, 5]]


def test_blocks_stay_small():
    big = box.Box(tuple(fresh("i") for _ in range(4)), (7, 1000, 3000, 2))
    chunk = big.chunk([range(4)], box.POINTS)
    assert np.prod(chunk) <= box.POINTS
    covered = sum(np.prod([high - low for low, high in block]) for block in big.blocks(chunk))
    assert covered == np.prod(big.sizes)
