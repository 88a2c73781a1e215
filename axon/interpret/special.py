"""Functions that NumPy lacks, in float64 to a few units in the last place; other dtypes are computed there and rounded.

Where `lgamma` and `digamma` are near a zero left of 0, that is said of the absolute error: see docs/reference.md.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
import numpy.typing as npt

from axon.core import coefficients as known

Array = npt.NDArray[Any]


def _wide(function: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """A function of float64 as one of any float dtype."""

    @wraps(function)
    def apply(x: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(function(x.astype(np.float64))).astype(x.dtype)

    return apply


def _polynomial(coefficients: known.Polynomial, x: Array) -> Array:
    result = np.full_like(x, coefficients[0])
    for c in coefficients[1:]:
        result = result * x + c
    return result


def _rational(coefficients: known.Rational, x: Array) -> Array:
    above, below = (_polynomial(part, x) for part in coefficients)
    quotient: Array = above / below
    return quotient


def _bell(x: Array) -> Array:
    """exp (-x**2) of a positive x: its square in two parts, the first of which is exact."""
    coarse = np.trunc(x * 16.0) / 16.0
    value: Array = np.exp(-coarse * coarse) * np.exp(-(x - coarse) * (x + coarse))
    return value


@_wide
def erf(x: Array) -> Array:
    size = np.abs(x)
    result = np.where(np.isnan(x), np.nan, 1.0)  # what stays 1 where |x| >= 6: erfc(6) is below half an ulp of 1
    small = size <= 0.46875
    result[small] = size[small] * _rational(known.ERF_SMALL, size[small] ** 2)
    rest = (size > 0.46875) & (size < 6.0)
    result[rest] = 1.0 - _erfc_positive(size[rest])
    return np.copysign(result, x)


@_wide
def erfc(x: Array) -> Array:
    small = np.abs(x) <= 0.46875
    far = _erfc_positive(np.where(small, 1.0, np.abs(x)))
    near: Array = x * _rational(known.ERF_SMALL, np.where(small, x, 0.0) ** 2)
    return np.where(small, 1.0 - near, np.where(x < 0, 2.0 - far, far))


def _erfc_positive(x: Array) -> Array:
    """Of x above 0.46875. What is 0 in float64 is cut off before squares overflow."""
    x = np.minimum(x, 30.0)
    z = 1.0 / (x * x)
    large = (known.INVERSE_SQRT_PI - z * _rational(known.ERFC_LARGE, z)) / x
    return _bell(x) * np.where(x <= 4.0, _rational(known.ERFC_MIDDLE, x), large)


@_wide
def erfinv(x: Array) -> Array:
    """The quantile of a normal distribution of variance 1/2 at (1 + x) / 2; ±inf at ±1, NaN beyond."""
    q = 0.5 * x
    centre = q * _rational(known.QUANTILE_CENTRE, 0.180625 - q * q)
    r = np.sqrt(-np.log(0.5 - np.abs(q)))
    tail = np.where(r <= 5.0, _rational(known.QUANTILE_SIDE, r - 1.6), _rational(known.QUANTILE_TAIL, r - 5.0))
    tail = np.where(np.abs(x) == 1.0, np.inf, tail)
    value: Array = np.where(np.abs(q) <= 0.425, centre, np.copysign(tail, x)) * np.sqrt(0.5)
    return value


@_wide
def lgamma(x: Array) -> Array:
    """The logarithm of the absolute value of the gamma function; inf at 0 and at negative integers."""
    reflected = x < -0.5
    y = np.abs(x)
    below = ~reflected & (x < 0.5)  # lgamma (1 + x) - log |x|
    positive = _lgamma_positive(np.where(below, 1.0 + x, y))
    sine = np.abs(np.sin(np.pi * (y - np.rint(y))))
    value = np.where(below, positive - np.log(y), positive)
    value = np.where(reflected, np.log(np.pi / (y * sine)) - positive, value)
    return np.where(np.isinf(x) | (reflected & (y == np.rint(y))), np.inf, value)


def _lgamma_positive(x: Array) -> Array:
    """Of x from 0.5: about 2 by a series without cancellation, to which others below 10 are led; beyond by Stirling's."""
    low = np.minimum(x, 10.0)
    factor = np.ones_like(low)
    for _ in range(8):
        step = low > 2.5
        low = np.where(step, low - 1.0, low)
        factor = np.where(step, factor * low, factor)
    z = np.where(low < 1.5, low - 1.0, low - 2.0)
    series = z * (known.ONE_LESS_GAMMA + z * _polynomial(known.LGAMMA_MIDDLE, z))
    near = np.where(low < 1.5, series - np.log1p(z), series + np.log(factor))
    far = (x - 0.5) * np.log(x) - x + known.HALF_LOG_TWO_PI + _polynomial(known.LGAMMA_LARGE, 1.0 / (x * x)) / x
    return np.where(x < 10.0, near, far)


@_wide
def digamma(x: Array) -> Array:
    """The derivative of lgamma; at 0 an infinity of the other sign, NaN at negative integers and -inf."""
    y = np.where(x < 0.0, 1.0 - x, x)
    r = x - np.rint(x)
    square = r * r
    turned = 1.0 / r + 2.0 * r * (1.0 / (square - 1.0) - _polynomial(known.COTANGENT, square))
    result = np.where(x < 0.0, np.where(r == 0.0, np.nan, -turned), 0.0)
    small = y < 1.0
    result = np.where(small, result - 1.0 / y, result)
    y = np.where(small, y + 1.0, y)
    large = y >= 10.0
    z = 1.0 / (y * y)
    far = np.log(y) - 0.5 / y - _polynomial(known.DIGAMMA_LARGE, z)
    for _ in range(8):
        step = ~large & (y > 2.0)
        y = np.where(step, y - 1.0, y)
        result = np.where(step, result + 1.0 / y, result)
    first, second, third = known.DIGAMMA_ROOT
    beyond = y - first - second - third
    near = beyond * (known.DIGAMMA_OFFSET + _rational(known.DIGAMMA_MIDDLE, y - 1.0))
    value: Array = result + np.where(large, far, near)
    return value
