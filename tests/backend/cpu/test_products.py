"""Contractions through BLAS against einsum: which axis is where, strides, windows, padding, and what is copied."""

import threading
import weakref

import numpy as np
import pytest

import axon
from axon.backend.cpu import blas, products, threads
from axon.backend.tiles import gemm
from axon.base.element import Element

rng = np.random.default_rng(0)


def f32(*shape):
    return rng.standard_normal(shape).astype(np.float32)


PRODUCTS = {
    "ij,jk->ik": "for i j => sum k => a[i, k] * b[k, j]",
    "ji,jk->ik": "for i j => sum k => a[k, i] * b[k, j]",
    "ij,kj->ik": "for i j => sum k => a[i, k] * b[j, k]",
    "ij,kj->ki": "for j i => sum k => a[i, k] * b[j, k]",
    "bij,bjk->bik": "for b2 i j => sum k => a[b2, i, k] * b[b2, k, j]",
    "bij,jk->bik": "for b2 i j => sum k => a[b2, i, k] * b[k, j]",
    "bshd,bthd->bhst": "for b2 h s t => sum d => a[b2, s, h, d] * b[b2, t, h, d]",
    "bhst,bthd->bshd": "for b2 s h d => sum t => a[b2, h, s, t] * b[b2, t, h, d]",
    "ijk,jkl->il": "for i l => sum j k => a[i, j, k] * b[j, k, l]",
    "ijk,kjl->il": "for i l => sum j k => a[i, j, k] * b[k, j, l]",
    "ij,j->i": "for i => sum j => a[i, j] * b[j]",
    "j,jk->k": "for k => sum j => a[j] * b[j, k]",
    "bij,bj->bi": "for b2 i => sum j => a[b2, i, j] * b[b2, j]",
    "ijkl,kl->ij": "for i j => sum k l => a[i, j, k, l] * b[k, l]",
    "ijk,kl->jil": "for j i l => sum k => a[i, j, k] * b[k, l]",
    "bsij,bstj->bist": "for b2 i s t => sum j => a[b2, s, i, j] * b[b2, s, t, j]",
}


def fitting(formula):
    sizes = dict(zip("bijklhstdm", (2, 3, 4, 5, 6, 2, 3, 4, 5, 7), strict=True))
    return [f32(*(sizes[c] for c in operand)) for operand in formula.split("->")[0].split(",")]


@pytest.mark.parametrize("formula", PRODUCTS)
def test_products(formula):
    a, b = fitting(formula)
    function = axon.compile(f"fun f a b = {PRODUCTS[formula]}").f
    for x, y in ((a, b), (np.asfortranarray(a), b[::-1][::-1]), (a.astype(np.float64), b.astype(np.float64))):
        got = function(x, y, target="cpu")
        assert got.dtype == x.dtype
        np.testing.assert_allclose(got, np.einsum(formula, x, y), rtol=1e-5, atol=1e-5)
    empty = [np.zeros([0 if i == 0 else n for i, n in enumerate(x.shape)], np.float32) for x in (a, b)]
    if formula[0] == formula.split(",")[1][0]:  # the first dimension of both is one
        assert (function(*empty, target="cpu") == 0).all()


IN_PLACE = ["ij,jk->ik", "ij,kj->ik", "ji,jk->ik", "bij,bjk->bik", "bshd,bthd->bhst", "bhst,bthd->bshd", "ijk,jkl->il"]


@pytest.mark.parametrize("formula", IN_PLACE)
def test_blas_reads_operands_and_writes_results_where_they_lie(formula, monkeypatch):
    copies = []
    monkeypatch.setattr(products._scratch, "array", lambda slot, shape, dtype: copies.append(slot) or np.empty(shape, dtype))
    a, b = fitting(formula)
    axon.compile(f"fun f a b = {PRODUCTS[formula]}").f(a, b, target="cpu")
    assert not copies


RUNS = {  # the operand's rows (or columns) are no single dimension: products for each place along one of them
    "ijk,jb->ikb": "for i k b2 => sum j => a[i, j, k] * b[j, b2]",
    "jb,ijk->bik": "for b2 i k => sum j => a[j, b2] * b[i, j, k]",
    "ijk,jb->kib": "for k i b2 => sum j => a[i, j, k] * b[j, b2]",
}


@pytest.mark.parametrize("formula", RUNS)
def test_rows_that_are_no_single_dimension_are_multiplied_where_they_lie(formula, monkeypatch):
    copies, array = [], products._scratch.array
    monkeypatch.setattr(products._scratch, "array", lambda slot, *x: copies.append(slot) or array(slot, *x))
    sizes = {"i": 3, "j": 20, "k": 30, "b": 5}
    function = axon.compile(f"fun f a b = {RUNS[formula]}").f
    for dtype in (np.float32, np.float64):
        a, b = [f32(*(sizes[c] for c in operand)).astype(dtype) for operand in formula.split("->")[0].split(",")]
        got = function(a, b, target="cpu")
        np.testing.assert_allclose(got, np.einsum(formula, *[x.astype(np.float64) for x in (a, b)]), rtol=1e-4, atol=1e-4)
    assert not {"left", "right"} & set(copies)
    short = [x[..., :7] if x.ndim == 3 else x for x in (a, b)]
    np.testing.assert_allclose(function(*short, target="cpu"), np.einsum(formula, *short), rtol=1e-4, atol=1e-4)
    assert {"left", "right"} & set(copies)  # of so few rows a copy is cheaper


def test_a_product_is_prepared_once_for_its_sizes_and_strides(monkeypatch):
    made, prepare = [], products.prepare
    monkeypatch.setattr(products, "prepare", lambda *x: made.append(1) or prepare(*x))
    monkeypatch.setattr(products, "MOST", 4)
    function = axon.compile(f"fun f a b = {PRODUCTS['ij,jk->ik']}").f
    for _ in range(3):
        a, b = f32(4, 5), f32(5, 6)
        np.testing.assert_allclose(function(a, b, target="cpu"), a @ b, rtol=1e-5)
    assert len(made) == 1
    np.testing.assert_allclose(function(np.asfortranarray(a), b, target="cpu"), a @ b, rtol=1e-5)
    assert len(made) == 2
    for n in [*range(1, 9), *range(1, 9)]:  # more than are kept
        np.testing.assert_allclose(function(a[:, :n], b[:n], target="cpu"), a[:, :n] @ b[:n], rtol=1e-5)


@pytest.mark.parametrize("formula", [f for f in PRODUCTS if f[0] == "b"])
def test_threads_share_a_batch_in_pieces_and_in_strips(formula, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setattr(products, "STRIP", 2)
    monkeypatch.setattr(products, "PIECE", 1)
    function = axon.compile(f"fun f a b = {PRODUCTS[formula]}").f
    a, b = fitting(formula)
    for count in (1, 2, 3, 5, 64):
        monkeypatch.setenv("AXON_THREADS", str(count))
        np.testing.assert_allclose(function(a, b, target="cpu"), np.einsum(formula, a, b), rtol=1e-5, atol=1e-5)


FORMS = [  # of what BLAS is given where it lies: in rows or in columns, vectors, batches of several dimensions
    "ij,jk->ik", "ji,jk->ik", "ij,kj->ki", "ji,kj->ik", "j,jk->k", "j,kj->k", "bij,bj->bi", "bcij,cbjk->bcik",
    "ibj,bjk->bik", "bij,jk->bik", "ijc,jck->ik",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("formula", FORMS)
def test_machine_code_multiplies_as_python_does(formula, dtype, monkeypatch):
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    for name in ("STRIP", "PIECE", "HALF", "LINE"):
        monkeypatch.setattr(products, name, 1)
    operands, result = formula.split("->")
    left, right = operands.split(",")
    summed = sorted((set(left) | set(right)) - set(result))
    body = f"sum {' '.join(summed)} => x[{', '.join(left)}] * y[{', '.join(right)}]"
    source = f"fun f (x : 'a[{', '.join(left)}]) (y : 'a[{', '.join(right)}]) = for {' '.join(result)} => {body}"
    sizes = {"b": 3, "c": 4, "i": 10, "j": 6, "k": 8}
    wide = [rng.standard_normal([2 * sizes[c] for c in operand]) for operand in (left, right)]
    ran, multiply, close = [], blas.multiply, 1e-5 if dtype is np.float32 else 1e-13
    monkeypatch.setattr(blas, "multiply", lambda products, *x: ran.append(products.kind) or multiply(products, *x))
    found = []
    for address in (blas.function, lambda name: None):  # None: another BLAS than NumPy's OpenBLAS
        monkeypatch.setattr(blas, "function", address)
        function = axon.compile(source).f
        ran.clear()
        for shown in (lambda x: np.ascontiguousarray(x), lambda x: x):
            x, y = [shown(x[tuple(slice(n // 2) for n in x.shape)]).astype(dtype, copy=False) for x in wide]
            for count in ("1", "3"):
                monkeypatch.setenv("AXON_THREADS", count)
                found.append(function(x, y, target="cpu"))
        assert bool(ran) == (address("cblas_sgemm") is not None)
    wanted = np.einsum(formula, x.astype(np.float64), y.astype(np.float64))
    for got in found:
        np.testing.assert_allclose(got, wanted, rtol=close, atol=close)
    for n in (0, 2, 4, 6):  # on one thread and on three
        np.testing.assert_array_equal(found[n], found[n + 1])


@pytest.mark.parametrize("seed", range(24))
def test_machine_code_copies_what_blas_does_not_take(seed, monkeypatch):
    """Axes in any order, of operands and of the result."""
    chance = np.random.default_rng(seed)
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setattr(products, "COPIES", 0)
    for name in ("STRIP", "PIECE", "HALF", "LINE"):
        monkeypatch.setattr(products, name, int(chance.integers(4, 9)))
    left, right, result = ("".join(chance.permutation(list(axes))) for axes in ("abijk", "abkjmn", "abimn"))
    sizes = {"a": 3, "b": 2, "i": 19, "j": 3, "k": 18, "m": 5, "n": 17}
    copied, lay = [], blas.lay
    monkeypatch.setattr(blas, "lay", lambda *x: copied.append(1) or lay(*x))
    source = f"fun f (x : 'e[{', '.join(left)}]) (y : 'e[{', '.join(right)}]) = for {' '.join(result)} => sum j k => "
    function = axon.compile(source + f"x[{', '.join(left)}] * y[{', '.join(right)}]").f
    for dtype, close in ((np.float32, 1e-4), (np.float64, 1e-12)):
        x, y = (rng.standard_normal([sizes[c] for c in axes]).astype(dtype) for axes in (left, right))
        wanted = np.einsum(f"{left},{right}->{result}", x.astype(np.float64), y.astype(np.float64), optimize=True)
        found = []
        for count in ("1", "3", "2"):
            monkeypatch.setenv("AXON_THREADS", count)
            found.append(function(x, y, target="cpu"))
            np.testing.assert_allclose(found[-1], wanted, rtol=close, atol=close)
            np.testing.assert_array_equal(found[-1], found[0])
    assert copied or not blas.function("cblas_sgemm")


def test_copies_live_until_they_are_multiplied(monkeypatch):
    """Scratch memory for what is large is forgotten with the last array in it."""
    if blas.function("cblas_sgemm") is None:
        pytest.skip("NumPy has another BLAS")
    monkeypatch.setattr(products, "COPIES", 0)
    made, multiply, living = [], blas.multiply, []

    def array(slot, shape, dtype):
        copy = np.empty(shape, dtype)
        made.append(weakref.ref(copy))
        return copy

    monkeypatch.setattr(products._scratch, "array", array)
    monkeypatch.setattr(blas, "multiply", lambda *x: living.extend(ref() is not None for ref in made) or multiply(*x))
    function = axon.compile("fun f a b = for k j i => sum m n => a[m, i, n, j] * b[n, k, m]").f
    a, b = f32(9, 9, 9, 9), f32(9, 9, 9)
    np.testing.assert_allclose(function(a, b, target="cpu"), np.einsum("minj,nkm->kji", a, b), rtol=1e-4, atol=1e-4)
    assert len(made) >= 2
    assert all(living)
    assert len(living) == len(made)


@pytest.mark.parametrize("order", ["abc", "acb", "bac", "bca", "cab", "cba"])
@pytest.mark.parametrize("shape", [(40, 33, 17), (1, 5, 9000), (9000, 1, 3), (1, 1, 1), (70, 2, 64)])
def test_copies_in_blocks(shape, order):
    for element in (Element.F32, Element.F64):
        x = rng.standard_normal(shape).astype(element.dtype)
        shown = x.transpose(["abc".index(c) for c in order])
        for source, target in (
            (shown, np.empty(shown.shape, x.dtype)),
            (np.ascontiguousarray(shown), np.empty_like(x).transpose(["abc".index(c) for c in order])),
        ):
            copy = gemm.laid(shown.shape, source.strides, target.strides, x.itemsize)
            assert copy is not None
            assert copy.count == x.size == int(np.prod(copy.table[:, 2:], axis=1).sum())
            blas.lay(copy, element, source.ctypes.data, target.ctypes.data)
            np.testing.assert_array_equal(target, shown)
    assert gemm.laid((4, 4), (18, 4), (16, 4), 4) is None
    assert gemm.laid((1 << 9, 1 << 9, 1 << 9), (1 << 10, 1 << 20, 1 << 30), (1 << 30, 1 << 20, 1 << 10), 4) is None, (
        "too many blocks"
    )


def test_what_machine_code_is_not_given():
    """Not what lies between elements, nor what is too many lines, nor other types."""
    place = gemm.Place(0, (4, 4), (16, 4))
    assert gemm.multiplied([(place, place, place)], np.dtype(np.float32)) is not None
    assert gemm.multiplied([(place, place, place)], np.dtype(np.float16)) is None
    for offset, *strides in ((0, 18, 4), (2, 16, 4), (0, 32, 8), (0, 8, 4)):
        apart = gemm.Place(offset, (4, 4), tuple(strides))
        assert gemm.multiplied([(apart, place, place)], np.dtype(np.float32)) is None
        assert gemm.multiplied([(place, place, apart)], np.dtype(np.float32)) is None
    laid = ((1 << 24, 1 << 16, 1 << 8, 16, 4), (64, 6400, 1 << 20, 16, 4))
    many, other = (gemm.Place(0, (100, 100, 100, 4, 4), strides) for strides in laid)
    assert gemm.multiplied([(many, many, other)], np.dtype(np.float32)) is None


def blas_threads():
    return [library.count() for library in blas._libraries()]


def test_products_are_computed_by_one_blas_thread_for_each_of_ours(monkeypatch):
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setenv("AXON_THREADS", "2")
    seen, multiply, native = [], products._multiply, blas.multiply
    monkeypatch.setattr(blas, "multiply", lambda *arguments: seen.append(blas_threads()) or native(*arguments))
    before = blas_threads()
    axon.compile(f"fun f a b = {PRODUCTS['bij,bjk->bik']}").f(f32(8, 32, 32), f32(8, 32, 32), target="cpu")
    assert seen == [[1 for _ in before]]
    assert blas_threads() == before
    seen.clear()
    monkeypatch.setattr(gemm, "multiplied", lambda *x: None)
    monkeypatch.setattr(products, "_multiply", lambda *arguments: seen.append(blas_threads()) or multiply(*arguments))
    axon.compile(f"fun f a b = {PRODUCTS['bij,bjk->bik']}").f(f32(8, 32, 32), f32(8, 32, 32), target="cpu")
    assert len(seen) == 8
    assert all(count == 1 for counts in seen for count in counts)
    assert blas_threads() == before
    seen.clear()
    monkeypatch.setattr(products, "HALF", 0)
    monkeypatch.setattr(products, "SIDE", 0)
    monkeypatch.setattr(products, "PIECES", 16)
    axon.compile(f"fun f a b = {PRODUCTS['ij,jk->ik']}").f(f32(32, 32), f32(32, 32), target="cpu")
    assert seen == [[1 for _ in before]] * 16


def test_limits_of_several_kernels_are_put_back_after_the_last():
    before = blas_threads()
    first, second = blas.one_thread(), blas.one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert set(blas_threads()) <= {1}
    second.__exit__(None, None, None)
    assert blas_threads() == before


def test_what_a_piece_raises_on_another_thread_is_raised(monkeypatch):
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setenv("AXON_THREADS", "2")
    monkeypatch.setattr(gemm, "multiplied", lambda *x: None)  # as of what is copied
    function, (a, b) = axon.compile(f"fun f a b = {PRODUCTS['bij,bjk->bik']}").f, (f32(8, 4, 4), f32(8, 4, 4))
    caller, multiply = threading.get_ident(), products._multiply

    def fail(*arguments):
        if threading.get_ident() != caller:
            failed.set()
            raise MemoryError("of the other thread")
        failed.wait(10)
        multiply(*arguments)

    failed = threading.Event()
    monkeypatch.setattr(products, "_multiply", fail)
    with pytest.raises(axon.AxonError, match="too large for this machine"):
        function(a, b, target="cpu")
    monkeypatch.setattr(products, "_multiply", multiply)
    np.testing.assert_allclose(function(a, b, target="cpu"), a @ b, rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("error")
def test_infinities_do_not_warn():
    function = axon.compile(f"fun f a b = {PRODUCTS['ij,jk->ik']}").f
    a, b = np.full((3, 3), np.inf, np.float32), np.array([[1, 0, -1]] * 3, np.float32)
    with np.errstate(invalid="ignore"):
        wanted = np.stack([[np.inf, np.nan, -np.inf]] * 3)
    np.testing.assert_array_equal(function(a, b, target="cpu"), wanted)
    batch = axon.compile(f"fun f a b = {PRODUCTS['bij,bjk->bik']}").f
    np.testing.assert_array_equal(batch(np.stack([a] * 64), np.stack([b] * 64), target="cpu"), np.stack([wanted] * 64))
    narrow = axon.compile("fun f (a : f16[n, k]) (b : f16[k, m]) = a @ b").f
    assert np.isinf(narrow(np.full((2, 2), 6e4, np.float16), np.full((2, 2), 6e4, np.float16), target="cpu")).all()


CONVOLUTIONS = {
    "plain": ("for n o p q => sum c r s => x[n, c, p + r, q + s] * k[o, c, r, s]", 1, 1, 0),
    "strided": ("for n o p q => sum c r s => x[n, c, 2 * p + r, 2 * q + s] * k[o, c, r, s]", 2, 1, 0),
    "flipped": ("for n o p q => sum for c, i < r, j < s => x[n, c, p + i, q + j] * k[o, c, r - 1 - i, s - 1 - j]", 1, 1, 0),
    "dilated": ("for n o p q => sum c r s => x[n, c, p + 2 * r, q + 2 * s] * k[o, c, r, s]", 1, 2, 0),
    "padded": ("for n o, p < h, q < w => sum c r s => x[n, c, p + r - 1, q + s - 1 | 0.0] * k[o, c, r, s]", 1, 1, 1),
}


def convolved(x, k, stride, dilation, padding):
    """By definition."""
    x = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, _, h, w = x.shape
    o, _, r, s = k.shape
    rows, columns = (h - dilation * (r - 1) - 1) // stride + 1, (w - dilation * (s - 1) - 1) // stride + 1
    out = np.zeros((n, o, rows, columns))
    for i in range(r):
        for j in range(s):
            part = x[:, :, i * dilation :: stride, j * dilation :: stride][:, :, :rows, :columns]
            out += np.einsum("nchw,oc->nohw", part, k[:, :, i, j])
    return out


@pytest.mark.parametrize("way", ["tiles", "taps", "blocks", "small blocks", "nest"])
@pytest.mark.parametrize("kind", CONVOLUTIONS)
def test_convolutions(kind, way, monkeypatch):
    body, *geometry = CONVOLUTIONS[kind]
    if way != "tiles":  # as of narrow floats
        monkeypatch.setattr(products, "tiled", lambda *arguments: None)
    monkeypatch.setattr(products, "TAP", 0 if way == "taps" else 10**9)
    monkeypatch.setattr(products, "BLOCK", 30 if way == "small blocks" else 1 << 18)
    monkeypatch.setattr(products, "BEGIN", 0 if way == "nest" else 10**9)
    monkeypatch.setattr(threads, "WORTH_SHARING", 1)
    monkeypatch.setenv("AXON_THREADS", "3")
    function = axon.compile(f"fun f (x : f32[n, c, h, w]) (k : f32[o, c, r, s]) = {body}").f
    for x, k in ((f32(2, 3, 9, 8), f32(4, 3, 3, 3)), (f32(1, 2, 7, 7), f32(1, 2, 3, 3)), (f32(3, 1, 5, 9), f32(2, 1, 3, 3))):
        wanted = convolved(x, k[:, :, ::-1, ::-1] if kind == "flipped" else k, *geometry)
        np.testing.assert_allclose(function(x, k, target="cpu"), wanted, rtol=1e-4, atol=1e-4)


def test_the_window_of_a_filter_is_never_copied_as_a_whole(monkeypatch):
    """A window of one dimension merges trivially, and yet BLAS cannot read it: its rows overlap."""
    monkeypatch.setattr(products, "tiled", lambda *arguments: None)  # as of narrow floats
    copied, array = [], products._scratch.array
    record = lambda slot, shape, dtype: copied.append(int(np.prod(shape))) or array(slot, shape, dtype)
    monkeypatch.setattr(products._scratch, "array", record)
    m = axon.compile("""
        fun few (x : 'a[n]) (k : 'a[r]) = for p => sum r => x[p + r] * k[r]
        fun many (x : 'a[n]) (k : 'a[o, r]) = for o p => sum r => x[p + r] * k[o, r]
        fun apart (x : 'a[n]) (k : 'a[4]) = for p < n / 4 => sum r => x[4 * p + r] * k[r]
    """)
    x, short, long, rows = f32(60_000), f32(4), f32(50), f32(30, 50)
    np.testing.assert_allclose(m.few(x, long, target="cpu"), np.correlate(x, long), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(m.few(x[::2], long, target="cpu"), np.correlate(x[::2], long), rtol=1e-3, atol=1e-3)
    np.testing.assert_allclose(m.apart(x, short, target="cpu"), x.reshape(-1, 4) @ short, rtol=1e-4, atol=1e-4)
    assert not copied, "long sums are a nest, and rows that do not overlap a matrix"
    wanted = np.stack([np.correlate(x, row) for row in rows])
    np.testing.assert_allclose(m.many(x, rows, target="cpu"), wanted, rtol=1e-3, atol=1e-3)
    assert 50 < max(copied) <= products.BLOCK + 50 * 50


def test_convolutions_of_one_dimension_and_of_batches_of_kernels():
    m = axon.compile("""
        fun one (x : f32[n]) (k : f32[o, r]) = for o p => sum r => x[p + r] * k[o, r]
        fun each (x : f32[b, n]) (k : f32[b, o, r]) = for b o p => sum r => x[b, p + r] * k[b, o, r]
        fun depthwise (x : f32[c, h, w]) (k : f32[c, r, s]) = for c p q => sum r s => x[c, p + r, q + s] * k[c, r, s]
    """)
    x, k = f32(20), f32(3, 4)
    wanted = np.stack([np.correlate(x, row) for row in k])
    np.testing.assert_allclose(m.one(x, k, target="cpu"), wanted, rtol=1e-4, atol=1e-5)
    xs, ks = f32(2, 20), f32(2, 3, 4)
    wanted = np.stack([np.stack([np.correlate(x, row) for row in k]) for x, k in zip(xs, ks, strict=True)])
    np.testing.assert_allclose(m.each(xs, ks, target="cpu"), wanted, rtol=1e-4, atol=1e-5)
    x, k = f32(3, 8, 9), f32(3, 3, 3)
    windows = np.lib.stride_tricks.sliding_window_view(x, (3, 3), axis=(1, 2))
    np.testing.assert_allclose(m.depthwise(x, k, target="cpu"), np.einsum("cpqrs,crs->cpq", windows, k), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("n", [1 << 16, (1 << 16) + 1, 200_001, 1_200_000])
def test_long_sums_of_products_keep_their_digits(n):
    """BLAS would be wrong by 1e-4 where it strides along a vector."""
    f = axon.compile("fun f (x : f32[n, d]) = for t < 2 => sum i => x[i, t] * x[i, 1]").f
    x = np.random.default_rng(n).random((n, 4), dtype=np.float32)
    exact = x[:, :2].astype(np.float64).T @ x[:, 1].astype(np.float64)
    np.testing.assert_allclose(f(x, target="cpu"), exact, rtol=1e-5)
