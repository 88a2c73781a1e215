"""`scan (op +, 0)` and its like are what their names say: sums that accumulate in f32, and a greatest of any element type."""

import ml_dtypes
import numpy as np
import pytest

import axon

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
MODULE = axon.compile("""
fun sums x = for ..b => scan (op +, 0) i => x[..b, i]
fun products x = for ..b => scan (op *, 1) i => x[..b, i]
fun largest x = for ..b => scan (max, -inf) i => x[..b, i]
fun smallest x = for ..b => scan (min, inf) i => x[..b, i]
fun turned x = for ..b => scan (fn a b => b + a, 0.0) i => x[..b, i]
fun total (x : 'a[n]) = reduce (op +, 0) i => x[i]
fun greatest (x : 'a[n]) = reduce (max, -inf) i => x[i]
fun some (x : bool[n]) = reduce (fn a b => a orelse b, false) i => x[i]
fun ever (x : bool[n]) = scan (fn a b => a andalso b, true) i => x[i]
fun integers (x : 'a[n]) = scan (max, -100) i => x[i]
""")
TARGETS = ["interpret", "cpu", "simulate"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 9, 700])
def test_of_floats(element, size, target):
    x = np.random.default_rng(size).standard_normal((3, size)).astype(element)
    x[1, size // 2] = np.nan
    wide = x.astype(np.float64)
    for got, wanted in [
        (MODULE.largest(x, target=target), np.maximum.accumulate(wide, -1)),
        (MODULE.smallest(x, target=target), np.minimum.accumulate(wide, -1)),
    ]:
        assert got.dtype == element
        np.testing.assert_array_equal(got.astype(np.float64), wanted)
    # Each result is rounded once, so even of 700 ones of 8 bits.
    ones = np.full((2, size), 0.5).astype(element)
    held = np.float64 if element is np.float64 else np.float32
    exact = np.cumsum(ones.astype(held), -1).astype(element).astype(np.float64)
    for got in (MODULE.sums(ones, target=target), MODULE.turned(ones, target=target)):
        np.testing.assert_array_equal(got.astype(np.float64), exact)
    np.testing.assert_array_equal(MODULE.products(2 * ones, target=target), 2 * ones)


@pytest.mark.parametrize("target", TARGETS)
def test_what_is_recognized_keeps_its_meaning(target):
    def run(name, x):
        return MODULE[name](x, target=target)

    for size in (0, 1, 5, 100):
        x = np.arange(size, dtype=np.float32) - 3
        assert run("total", x) == x.sum()
        assert run("greatest", x) == (x.max() if size else -np.inf)
        flags = x > 0
        assert run("some", flags) == flags.any()
        np.testing.assert_array_equal(run("ever", flags), np.logical_and.accumulate(flags))
        for dtype in (np.int64, np.int32, np.int8):
            ints = (np.arange(size) % 7 - 50).astype(dtype)
            np.testing.assert_array_equal(run("integers", ints), np.maximum.accumulate(ints))
    assert run("sums", np.full((1, 300), 100, np.int8))[0, -1] == np.int8((300 * 100 + 128) % 256 - 128)
