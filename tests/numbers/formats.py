"""The element types, by hand: integers wrapped and rationals rounded, without NumPy and without Axon (docs/reference.md §16)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import ml_dtypes
import numpy as np


@dataclass(frozen=True)
class Whole:
    bits: int
    signed: bool

    @property
    def least(self) -> int:
        return -(2 ** (self.bits - 1)) if self.signed else 0

    @property
    def greatest(self) -> int:
        return 2 ** (self.bits - self.signed) - 1

    def wrapped(self, x: int) -> int:
        return (x - self.least) % 2**self.bits + self.least


@dataclass(frozen=True)
class Binary:
    """A binary floating-point format; `infinite`: it has infinities, else what overflows is NaN."""

    digits: int
    lowest: int  # the exponent of the least normal number
    largest: Fraction
    infinite: bool = True

    def nearest(self, x: Fraction) -> float:
        """The nearest value, ties to even: rounded once."""
        if x == 0:
            return 0.0
        exponent = max(_exponent(abs(x)), self.lowest)
        step = Fraction(2) ** (exponent - self.digits + 1)
        value = round(x / step) * step
        if abs(value) <= self.largest:
            return float(value) or (0.0 if x > 0 else -0.0)
        return (math.inf if x > 0 else -math.inf) if self.infinite else math.nan

    @property
    def unit(self) -> Fraction:
        """One unit in the last place of numbers from 1 to 2."""
        return Fraction(1, 2 ** (self.digits - 1))

    @property
    def tiny(self) -> Fraction:
        """The least number above 0."""
        return Fraction(2) ** (self.lowest - self.digits + 1)


def _exponent(x: Fraction) -> int:
    """e with 2 ** e <= x < 2 ** (e + 1)."""
    e = x.numerator.bit_length() - x.denominator.bit_length()
    return e if Fraction(2) ** e <= x else e - 1


def _ieee(digits: int, lowest: int) -> Binary:
    return Binary(digits, lowest, (2 - Fraction(1, 2 ** (digits - 1))) * Fraction(2) ** (1 - lowest))


FLOATS = {
    "f64": _ieee(53, -1022), "f32": _ieee(24, -126), "f16": _ieee(11, -14), "bf16": _ieee(8, -126), "f8e5m2": _ieee(3, -14),
    "f8e4m3": Binary(4, -6, Fraction(448), infinite=False),
}  # fmt: skip
WHOLE = {f"{'i' if signed else 'u'}{bits}": Whole(bits, signed) for signed in (True, False) for bits in (8, 16, 32, 64)}
ELEMENTS = (*FLOATS, *WHOLE, "bool")
DTYPES = {
    "f64": np.dtype("f8"), "f32": np.dtype("f4"), "f16": np.dtype("f2"), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e5m2": np.dtype(ml_dtypes.float8_e5m2), "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "bool": np.dtype("?"),
    **{name: np.dtype(f"{name[0]}{w.bits // 8}") for name, w in WHOLE.items()},
}  # fmt: skip


def computed_in(element: str) -> Binary:
    """The format in which operations on an element type are carried out, before they are rounded to it."""
    return FLOATS[element if element in ("f64", "f32") else "f32"]
