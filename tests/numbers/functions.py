"""The functions of floats, by mpmath: their values to many digits, and how far a target may be off (docs/reference.md §17)."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from typing import Any

import mpmath
import numpy as np

from tests.numbers.formats import FLOATS, computed_in
from tests.numbers.intervals import NAN, Float, held, hull, point, rounded, settled

INF, PI = math.inf, math.pi
# Of each function: its value at -inf, -0, +0 and inf, and the points inside of which an interval must stay to be known.
_ODD = (-0.0, 0.0)
SPECIAL: dict[str, tuple[float, float, float, float]] = {
    "exp": (0.0, 1.0, 1.0, INF), "expm1": (-1.0, *_ODD, INF), "log": (math.nan, -INF, -INF, INF),
    "log1p": (math.nan, *_ODD, INF), "sqrt": (math.nan, *_ODD, INF), "rsqrt": (math.nan, -INF, INF, 0.0),
    "cbrt": (-INF, *_ODD, INF), "sin": (math.nan, *_ODD, math.nan), "cos": (math.nan, 1.0, 1.0, math.nan),
    "asin": (math.nan, *_ODD, math.nan), "acos": (math.nan, PI / 2, PI / 2, math.nan),
    "atan": (-PI / 2, *_ODD, PI / 2), "sinh": (-INF, *_ODD, INF), "cosh": (INF, 1.0, 1.0, INF), "tanh": (-1.0, *_ODD, 1.0),
    "asinh": (-INF, *_ODD, INF), "acosh": (math.nan, math.nan, math.nan, INF), "atanh": (math.nan, *_ODD, math.nan),
    "erf": (-1.0, *_ODD, 1.0), "erfc": (2.0, 1.0, 1.0, 0.0), "erfinv": (math.nan, *_ODD, math.nan),
    "lgamma": (INF, INF, INF, INF), "digamma": (math.nan, INF, -INF, INF),
}  # fmt: skip
# Outside of these a function is NaN; at an end it is what is written there, if that is no ordinary value.
DOMAIN: dict[str, tuple[float, float]] = {
    "log": (0.0, INF), "log1p": (-1.0, INF), "sqrt": (0.0, INF), "rsqrt": (0.0, INF), "asin": (-1.0, 1.0), "acos": (-1.0, 1.0),
    "acosh": (1.0, INF), "atanh": (-1.0, 1.0), "erfinv": (-1.0, 1.0),
}  # fmt: skip
POLES = {("log1p", -1.0): -INF, **{(n, s * 1.0): s * INF for n in ("atanh", "erfinv") for s in (-1, 1)}}
_VALUES: dict[str, Callable[[Any], Any]] = {
    "rsqrt": lambda x: 1 / mpmath.sqrt(x), "cbrt": lambda x: mpmath.sign(x) * mpmath.cbrt(abs(x)),
    "lgamma": lambda x: mpmath.log(mpmath.pi / abs(mpmath.sinpi(x))) - mpmath.loggamma(1 - x) if x < 0 else mpmath.loggamma(x),
}  # fmt: skip
ULPS = 8  # of f32 and f64, at most: more than the reference states of any
POWER_ULPS = 16
WORKING = 100  # bits
BEYOND = 4000  # as an exponent of 2: out of the range of every type


def _value(name: str, x: float) -> Fraction | float:
    """A function at a double: a rational that is right to `WORKING` bits, or one of the values that are no numbers."""
    if x == 0.0 or math.isinf(x):
        at = SPECIAL[name][(x == INF) * 3 if math.isinf(x) else 1 + (math.copysign(1.0, x) > 0)]
        return Fraction(at) if math.isfinite(at) and at != 0.0 else at
    return _ordinary(name, x)


@cache
def _ordinary(name: str, x: float) -> Fraction | float:
    low, high = DOMAIN.get(name, (-INF, INF))
    if not low <= x <= high:
        return math.nan
    if (name, x) in POLES:
        return POLES[name, x]
    if name in ("lgamma", "digamma") and x < 0.0 and x == math.floor(x):
        return INF if name == "lgamma" else math.nan
    if name in ("exp", "expm1", "sinh", "cosh") and abs(x) > 800.0:
        x = math.copysign(800.0, x)  # beyond every range already
    with mpmath.workprec(WORKING + 40):
        made = _VALUES.get(name, getattr(mpmath, name, None))
        assert made is not None, name
        return _rational(made(mpmath.mpf(x)))


def _rational(x: Any) -> Fraction:
    """Exactly, but for what is beyond every range: that stays beyond."""
    sign, mantissa, exponent, _ = x._mpf_
    exponent = max(-BEYOND, min(BEYOND, int(exponent)))
    return (-1 if sign else 1) * Fraction(int(mantissa)) * Fraction(2) ** int(exponent)


def _near(element: str, name: str, x: float, value: Fraction, ulps: int) -> tuple[Fraction, Fraction]:
    """From where to where a target's value may lie."""
    form = computed_in(element)
    if value == 0:  # an exact one: log 1
        return value, value
    error = ulps * form.unit * abs(value) + ulps * form.tiny
    if name in ("lgamma", "digamma") and x < 0.0:
        error = max(error, ulps * form.unit)
    return value - error, value + error


def apply(name: str, element: str, x: Float) -> Float | None:
    """A function of an interval: at its ends and its middle, and as much wider as these lie apart."""
    if x.nan:
        return NAN
    if x.point:
        value = _value(name, x.low)
        if isinstance(value, float):
            return held(element, value)
        return _shown(element, *_near(element, name, x.low, value, ULPS))
    if not x.finite or _crosses(name, x):
        return None
    found = [_value(name, at) for at in (x.low, (x.low + x.high) / 2, x.high)]
    if any(isinstance(v, float) and v != 0.0 for v in found):
        return None
    values = [Fraction(v) for v in found]
    spread = max(values) - min(values)
    if spread > Fraction(1, 64) * (1 + min(map(abs, values))):
        return None
    ends = [_near(element, name, x.low, v, ULPS) for v in values]
    return _shown(element, min(e[0] for e in ends) - spread, max(e[1] for e in ends) + spread)


def _shown(element: str, low: Fraction, high: Fraction) -> Float | None:
    form = computed_in(element)  # beyond its range a function has given infinity already
    ends = [form.nearest(low), form.nearest(high)]
    if any(map(math.isinf, ends)):
        made = hull(*(e if math.isinf(e) else form.nearest(v) for e, v in zip(ends, (low, high), strict=True)))
        return None if made is None or not FLOATS[element].infinite else rounded(element, made)
    return settled(element, low, high)


def _crosses(name: str, x: Float) -> bool:
    """Whether an interval holds the end of a domain, or a pole."""
    low, high = DOMAIN.get(name, (-INF, INF))
    if x.low <= low <= x.high or x.low <= high <= x.high:
        return True
    return name in ("lgamma", "digamma") and x.low <= 0.0 and math.floor(x.low) != math.floor(x.high)


def power(element: str, x: Float, y: Float) -> Float | None:
    if x.point and y.point:
        a, b = x.low, y.low
        if a == 0.0 or not (math.isfinite(a) and math.isfinite(b)) or b == 0.0 or (a < 0.0 and b != math.floor(b)):
            with np.errstate(all="ignore"):
                return held(element, float(np.power(np.float64(a), np.float64(b))))
        corners = [_power(a, b)]
    elif x.low > 0.0 and x.finite and y.finite:
        corners = [_power(a, b) for a in (x.low, x.high) for b in (y.low, y.high)]
    else:
        return None
    error = POWER_ULPS * computed_in(element).unit
    widest = max(abs(c) for c in corners) * error + FLOATS[element].tiny * (element not in ("f64", "f32"))
    return _shown(element, min(corners) - widest, max(corners) + widest)


@cache
def _power(a: float, b: float) -> Fraction:
    with mpmath.workprec(WORKING + 80):
        scale = mpmath.log(abs(mpmath.mpf(a))) * b
        size = mpmath.exp(max(min(scale, mpmath.mpf(1000)), mpmath.mpf(-1000)))
    return _rational(size) * (-1 if a < 0.0 and b % 2.0 else 1)


def angle(element: str, y: Float, x: Float) -> Float | None:
    """atan2."""
    if y.nan or x.nan:
        return NAN
    if not (y.point and x.point):
        if not (y.finite and x.finite and (x.low > 0.0 or y.low > 0.0 or y.high < 0.0)):
            return None  # near the cut, or the origin
        corners = [_angle(b, a) for b in (y.low, y.high) for a in (x.low, x.high)]
        low, high = min(corners), max(corners)
    elif (y.low == 0.0 and (x.low > 0.0 or (x.low == 0.0 and math.copysign(1.0, x.low) > 0))) or (
        math.isfinite(y.low) and x.low == INF
    ):
        return point(math.copysign(0.0, y.low))
    else:
        low = high = _angle(y.low, x.low)
    return _shown(element, _near(element, "atan2", 0.0, low, ULPS)[0], _near(element, "atan2", 0.0, high, ULPS)[1])


def _angle(y: float, x: float) -> Fraction:
    if not (math.isfinite(y) and math.isfinite(x)) or y == 0.0 or x == 0.0:
        turns = round(math.atan2(y, x) / (PI / 4))  # a multiple of an eighth of a turn
        with mpmath.workprec(WORKING):
            return turns * _rational(mpmath.pi / 4)
    with mpmath.workprec(WORKING):
        return _rational(mpmath.atan2(mpmath.mpf(y), mpmath.mpf(x)))
