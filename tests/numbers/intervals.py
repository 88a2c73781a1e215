"""Floats as what is known of them: an interval that holds the value on every target, however it rounds where it may.

A result of an operation lies between the exact one and the rounded one, for inside one kernel values may keep more precision than
their type; where the exact result is a number of the type, it is a point. `None` is a value of which nothing is known: what hangs
on a rounding in a way that an interval does not express. The same None stands for integers and truth values that hang on one.
A zero of unknown sign is the interval from -0.0 to 0.0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tests.numbers.formats import FLOATS, computed_in


@dataclass(frozen=True)
class Float:
    """Ends are exact doubles; NaN is the point of NaN."""

    low: float
    high: float

    @property
    def point(self) -> bool:
        return _key(self.low) == _key(self.high) or self.nan

    @property
    def nan(self) -> bool:
        return math.isnan(self.low)

    @property
    def finite(self) -> bool:
        return math.isfinite(self.low) and math.isfinite(self.high)


def _key(x: float) -> tuple[float, float]:
    return x, math.copysign(1.0, x)


def point(x: float) -> Float:
    return Float(x, x)


NAN = point(math.nan)


def hull(*values: float) -> Float | None:
    """The smallest interval around some ends; nothing is known where only some are NaN."""
    nans = sum(map(math.isnan, values))
    if nans:
        return NAN if nans == len(values) else None
    low, high = min(values, key=_key), max(values, key=_key)
    if low != high:  # a zero at an end may have either sign
        low, high = low if low else -0.0, high if high else 0.0
    return Float(low, high)


def union(*values: Float | None) -> Float | None:
    if any(v is None for v in values):
        return None
    return hull(*(end for v in values if v is not None for end in (v.low, v.high)))


def below(x: Fraction) -> float:
    """The greatest double that is not above x."""
    try:
        near = float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf
    return math.nextafter(near, -math.inf) if math.isfinite(near) and Fraction(near) > x else near


def above(x: Fraction) -> float:
    return -below(-x)


def settled(element: str, low: Fraction, high: Fraction, zero: float = 0.0) -> Float | None:
    """A result that lies from `low` to `high`, rounded or not; an exact 0 has the sign of `zero`."""
    if low == high == 0:
        return point(zero)
    form = FLOATS[element]
    ends = (form.nearest(low), form.nearest(high))
    return hull(below(low), above(high), *ends)


def held(element: str, x: float) -> Float | None:
    """A result that is no number or exact; an infinity of a type without one is NaN where it is rounded."""
    return None if math.isinf(x) and not FLOATS[element].infinite else point(x)


def rounded(element: str, x: Float | None) -> Float | None:
    """A value that is certainly rounded to an element type: by a cast, or since it is stored."""
    if x is None or x.nan:
        return x
    form = FLOATS[element]

    def end(value: float) -> float:
        if math.isinf(value):
            return value if form.infinite else math.nan
        return form.nearest(Fraction(value)) if value else value

    return hull(end(x.low), end(x.high))


# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _exact(ieee: Callable[[float, float], float], corners: Callable[[Fraction, Fraction], Fraction]) -> Callable[..., Float | None]:
    """An operation that is monotone in each argument, from what it means of doubles that are no numbers, and of rationals."""

    def apply(element: str, x: Float, y: Float) -> Float | None:
        if not (x.finite and y.finite):
            return held(element, ieee(x.low, y.low)) if x.point and y.point else None
        found = [corners(Fraction(a), Fraction(b)) for a in {x.low, x.high} for b in {y.low, y.high}]
        known = x.point and y.point
        made = settled(element, min(found), max(found), ieee(x.low, y.low) if known else 0.0)
        return made if known or made is None else hull(made.low, made.high, *([-0.0, 0.0] if 0 in found else []))

    return apply


def _ieee_divide(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.divide(np.float64(x), np.float64(y)))


def _ieee_multiply(x: float, y: float) -> float:
    return x * y


add = _exact(lambda x, y: x + y, lambda x, y: x + y)
subtract = _exact(lambda x, y: x - y, lambda x, y: x - y)
multiply = _exact(_ieee_multiply, lambda x, y: x * y)
_quotient = _exact(_ieee_divide, lambda x, y: x / y)


def divide(element: str, x: Float, y: Float) -> Float | None:
    if y.low <= 0.0 <= y.high:
        return held(element, _ieee_divide(x.low, y.low)) if x.point and y.point else None
    return _quotient(element, x, y)


def remainder(element: str, x: Float, y: Float) -> Float | None:
    """Floored: with the sign of the divisor."""
    if not (x.point and y.point):
        return None
    a, b = x.low, y.low
    if math.isnan(a) or math.isnan(b) or math.isinf(a) or b == 0.0:
        return NAN
    if a == 0.0:  # of which sign is not said, as of every remainder that is 0
        return Float(-0.0, 0.0)
    if math.isinf(b):
        return point(a if (a < 0.0) == (b < 0.0) else b)
    exact = Fraction(a) % Fraction(b)
    return settled(element, exact, exact) if exact else Float(-0.0, 0.0)


def maximum(_: str, x: Float, y: Float) -> Float | None:
    if x.nan or y.nan:
        return NAN
    return Float(max(x.low, y.low, key=_key), max(x.high, y.high, key=_key))


def minimum(element: str, x: Float, y: Float) -> Float | None:
    greatest = maximum(element, negated(x), negated(y))
    return None if greatest is None else negated(greatest)


def negated(x: Float) -> Float:
    return Float(-x.high, -x.low)


def magnitude(x: Float) -> Float | None:
    if x.low < 0.0 < x.high:
        return Float(0.0, max(-x.low, x.high))
    return hull(abs(x.low), abs(x.high))


def _monotone(f: Callable[[float], float]) -> Callable[[Float], Float | None]:
    return lambda x: hull(f(x.low), f(x.high))


def _whole(f: Callable[[float], int]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(f(x)), x) if math.isfinite(x) else x


floor, ceil, round_ = _monotone(_whole(math.floor)), _monotone(_whole(math.ceil)), _monotone(_whole(round))
sign = _monotone(lambda x: x if math.isnan(x) else float((x > 0.0) - (x < 0.0)))


def compared(op: str, x: Float, y: Float) -> bool | None:
    """A comparison; None if it hangs on rounding."""
    if x.nan or y.nan:
        return op == "<>"
    if op in (">", ">="):
        return compared({">": "<", ">=": "<="}[op], y, x)
    if op == "<":
        return True if x.high < y.low else False if x.low >= y.high else None
    if op == "<=":
        return True if x.high <= y.low else False if x.low > y.high else None
    equal = True if x.low == x.high == y.low == y.high else False if x.high < y.low or y.high < x.low else None
    return equal if op == "=" or equal is None else not equal


# ── many at once ────────────────────────────────────────────────────────────────────────────────────────────────────────


def total(element: str, values: Sequence[Float]) -> Float | None:
    """A sum in any order, in the type's accumulator. The sign of a zero hangs on the order."""
    if any(v.nan for v in values):
        return NAN
    infinite = {v.low for v in values if v.point and math.isinf(v.low)}
    if infinite and all(v.point for v in values):
        return point(infinite.pop()) if len(infinite) == 1 else NAN
    if not all(v.finite for v in values):
        return None
    form = computed_in(element)
    low, high = sum(Fraction(v.low) for v in values), sum(Fraction(v.high) for v in values)
    weight = sum(max(abs(Fraction(v.low)), abs(Fraction(v.high))) for v in values)
    if weight > form.largest:
        return None
    quantum = max((Fraction(v.low).denominator for v in values), default=1)
    exact = low == high and weight * quantum < 2**form.digits
    if exact and low == 0:
        return Float(-0.0, 0.0) if values else point(0.0)
    error = 0 if exact else (len(values) + 1) * weight * form.unit
    return settled(element, low - error, high + error)


def product(element: str, values: Sequence[Float]) -> Float | None:
    """A product in any order: exact where it is so in every order, else with an error for each factor."""
    made: Float | None = point(1.0)
    sizes = [abs(Fraction(v.low)) for v in values if v.finite]
    form = computed_in(element)
    if any(v.nan for v in values):
        return NAN
    if not all(v.point for v in values) or len(sizes) < len(values):
        if not values or all(v.point for v in values):
            return point(math.prod(v.low for v in values)) if all(v.low for v in values) else NAN
        return None
    largest = math.prod((max(s, Fraction(1)) for s in sizes), start=Fraction(1))
    least = math.prod((min(s, Fraction(1)) for s in sizes if s), start=Fraction(1))
    if largest > form.largest or least < Fraction(2) ** form.lowest:
        return None
    value = math.prod((Fraction(v.low) for v in values), start=Fraction(1))
    digits = sum(_odd(s).bit_length() for s in sizes)
    error = 0 if digits <= form.digits else abs(value) * (len(values) + 1) * form.unit
    made = settled(element, value - error, value + error, math.prod(v.low for v in values))
    return made


def _odd(x: Fraction) -> int:
    """The odd part of a dyadic number's numerator."""
    n = x.numerator
    return n // (n & -n) if n else 0
