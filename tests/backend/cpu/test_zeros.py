"""The sign of a zero is the same on every target and at every size."""

import ml_dtypes
import numpy as np
import pytest

import axon

FLOATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2]
FUNCTIONS = ["tanh", "erf", "sin", "sqrt", "round", "floor", "ceil", "abs"]
MODULE = axon.compile(
    "\n".join(f"fun {name}_ x = {name} x" for name in FUNCTIONS)
    + """
fun maximum (a : 'a[n]) (b : 'a[n]) = max a b
fun minimum (a : 'a[n]) (b : 'a[n]) = min a b
fun greatest (x : 'a[..b, n]) = for ..b => max i => x[..b, i]
fun least (x : 'a[..b, n]) = for ..b => min i => x[..b, i]
fun running_maximum x = scan (max, cast _ (-448.0)) i => x[i]
fun running_minimum x = scan (min, cast _ 448.0) i => x[i]
fun total x = reduce (op +, -0.0) i => x[i]
fun running_total x = scan (op +, -0.0) i => x[i]
"""
)
PAIRS = [(0.0, 0.0), (0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0)]


def negative(x):
    return np.signbit(np.asarray(x).astype(np.float32))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("size", [1, 9, 1000])
def test_odd_functions_keep_the_sign(element, size, target):
    for zero in (0.0, -0.0):
        x = np.full(size, zero).astype(element)
        for name in FUNCTIONS:
            wanted = np.full(size, name != "abs" and bool(negative(zero)))
            np.testing.assert_array_equal(negative(MODULE[f"{name}_"](x, target=target)), wanted)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("size", [4, 36, 1000])
def test_plus_zero_is_greater_than_minus_zero(element, size, target):
    a, b = (np.resize([pair[side] for pair in PAIRS], size).astype(element) for side in (0, 1))
    np.testing.assert_array_equal(negative(MODULE.maximum(a, b, target=target)), negative(a) & negative(b))
    np.testing.assert_array_equal(negative(MODULE.minimum(a, b, target=target)), negative(a) | negative(b))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("size", [1, 2, 9, 1000])
def test_of_many_zeros(element, size, target):
    rows = np.full((4, size), -0.0)
    rows[1], rows[2, -1], rows[3, 0] = 0.0, 0.0, 0.0
    x = rows.astype(element)
    plus = ~negative(x)
    np.testing.assert_array_equal(negative(MODULE.greatest(x, target=target)), ~plus.any(1))
    np.testing.assert_array_equal(negative(MODULE.least(x, target=target)), ~plus.all(1))
    for row, signs in zip(x, plus, strict=True):
        found = MODULE.running_maximum(row, target=target), MODULE.running_minimum(row, target=target)
        np.testing.assert_array_equal(negative(found[0]), ~np.logical_or.accumulate(signs))
        np.testing.assert_array_equal(negative(found[1]), ~np.logical_and.accumulate(signs))


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("element", [np.float64, np.float32, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [0, 1, 9, 1000])
def test_a_reduction_from_negative_zero_is_no_sum(element, size, target):
    """`-0.0` leaves every number unchanged, which `0.0`, the unit of sums, does not."""
    x = np.full(size, -0.0).astype(element)
    assert negative(MODULE.total(x, target=target)).all()
    assert negative(MODULE.running_total(x, target=target)).all()
