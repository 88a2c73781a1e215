"""Arithmetic on single elements, as docs/reference.md §16 and docs/core.md have it: NumPy's scalars, computed one by one.

A Python number is a literal whose type is *open*: it takes the type of what it meets, as in the language.

An Arithmetic also says how well its results are known. `exact` stays true while every float fits its type with room to spare, so
that the order of additions cannot matter: then all targets must give the same bits. Otherwise the program is computed again with
`noise`, which moves each rounded result by a few units in the last place: what differs between such runs is what rounding may do.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from random import Random
from typing import Any

import ml_dtypes
import mpmath
import numpy as np

DTYPES = {
    "f64": np.dtype(np.float64), "f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8e4m3": np.dtype(ml_dtypes.float8_e4m3fn), "f8e5m2": np.dtype(ml_dtypes.float8_e5m2), "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32), "i16": np.dtype(np.int16), "i8": np.dtype(np.int8), "u64": np.dtype(np.uint64),
    "u32": np.dtype(np.uint32), "u16": np.dtype(np.uint16), "u8": np.dtype(np.uint8), "bool": np.dtype(np.bool_),
}  # fmt: skip
DIGITS = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8, "float8_e4m3fn": 4, "float8_e5m2": 3}
OPEN = (int, float)  # what a literal is until it meets a type; bool is np.bool_ from the start

Scalar = Any


class Stops(Exception):
    """The program stops here: what it asks for has no value."""


def is_open(x: Any) -> bool:
    return isinstance(x, OPEN) and not isinstance(x, np.generic)


def is_float(x: Scalar) -> bool:
    return isinstance(x, float) if is_open(x) else x.dtype.name in DIGITS


def wrapped(value: int, dtype: Any) -> Scalar:
    bits = 8 * dtype.itemsize
    value &= 2**bits - 1
    return dtype.type(value - 2**bits if dtype.kind == "i" and value >= 2 ** (bits - 1) else value)


def typed(x: Scalar, dtype: Any) -> Scalar:
    """A literal at the type that its context asks for; anything else must have it already."""
    if not is_open(x):
        assert x.dtype == dtype, f"{x.dtype} where {dtype} is asked for"
        return x
    return dtype.type(x)


def together(x: Scalar, y: Scalar) -> tuple[Scalar, Scalar]:
    """Two operands of one type, which a literal takes from the other one."""
    if is_open(x) and is_open(y):
        return (float(x), float(y)) if isinstance(x, float) or isinstance(y, float) else (x, y)
    return (typed(x, y.dtype), y) if is_open(x) else (x, typed(y, x.dtype))


def _divide(x: float, y: float) -> float:
    if y == 0.0:
        return math.nan if x == 0.0 or math.isnan(x) else math.copysign(math.inf, x) * math.copysign(1.0, y)
    return x / y


def _remainder(x: float, y: float) -> float:
    if math.isinf(x) or y == 0.0 or math.isnan(x) or math.isnan(y):
        return math.nan
    r = math.fmod(x, y)
    return r + y if r != 0.0 and (r < 0.0) != (y < 0.0) else r


def _power(x: float, y: float) -> float:
    with np.errstate(all="ignore"):
        return float(np.power(np.float64(x), np.float64(y)))


def largest(x: float, y: float) -> float:
    if math.isnan(x) or math.isnan(y):
        return math.nan
    return max(x, y) if x != y or x != 0.0 else (x if math.copysign(1.0, x) > 0 else y)


def smallest(x: float, y: float) -> float:
    return -largest(-x, -y)


def _whole_power(x: int, y: int) -> int:
    if y < 0:
        raise Stops("a negative power of an integer")
    return x**y


def _shifted(op: str, x: int, y: int, width: int) -> int:
    """An amount that is negative or not below the width leaves what a long shift leaves."""
    far = not 0 <= y < width
    if op == "shift_left":
        return 0 if far else x << y
    return x >> (width if far else y)


def _whole(f: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def divide(x: int, y: int) -> int:
        if y == 0:
            raise Stops("a division by zero")
        return f(x, y)

    return divide


FLOATS: dict[str, Callable[[float, float], float]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _divide, "%": _remainder, "**": _power,
    "max": largest, "min": smallest, "atan2": math.atan2,
}  # fmt: skip
WHOLE: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _whole(operator.floordiv), "%": _whole(operator.mod),
    "**": _whole_power, "max": max, "min": min, "bit_and": operator.and_, "bit_or": operator.or_, "bit_xor": operator.xor,
}  # fmt: skip
SHIFTS = ("shift_left", "shift_right")
NAMED = ("max", "min", "pow", "atan2", "bit_and", "bit_or", "bit_xor", *SHIFTS)  # functions of two arguments
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


def _guarded(f: Callable[[float], float]) -> Callable[[float], float]:
    """math's function, which raises where IEEE gives NaN or infinity."""

    def apply(x: float) -> float:
        try:
            return f(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return apply


def _log(x: float) -> float:
    return -math.inf if x == 0.0 else math.log(x)


def _rounded(f: Callable[[float], float]) -> Callable[[float], float]:
    return lambda x: math.copysign(float(f(x)), x) if math.isfinite(x) else x


def _log1p(x: float) -> float:
    return -math.inf if x == -1.0 else math.log1p(x)


def _atanh(x: float) -> float:
    return math.copysign(math.inf, x) if abs(x) == 1.0 else math.atanh(x)


def _lgamma(x: float) -> float:
    return math.inf if x <= 0.0 and x == math.floor(x) else math.lgamma(x)


def _cbrt(x: float) -> float:
    return float(np.cbrt(np.float64(x)))


def _signed_overflow(f: Callable[[float], float]) -> Callable[[float], float]:
    def apply(x: float) -> float:
        try:
            return f(x)
        except OverflowError:
            return math.copysign(math.inf, x)

    return apply


def _exact(f: Callable[[float], float]) -> Callable[[float], float]:
    """A function that mpmath has, where it is finite."""

    @cache
    def apply(x: float) -> float:
        return x if math.isnan(x) else f(x)

    return apply


def _erfinv(x: float) -> float:
    if abs(x) >= 1.0:
        return math.copysign(math.inf, x) if abs(x) == 1.0 else math.nan
    return float(mpmath.erfinv(x)) if x else x


def _digamma(x: float) -> float:
    if x == 0.0:
        return -math.copysign(math.inf, x)
    if math.isinf(x) or (x < 0.0 and x == math.floor(x)):
        return math.inf if x > 0.0 else math.nan
    return float(mpmath.digamma(x))


FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": _guarded(math.exp), "log": _guarded(_log), "sqrt": _guarded(math.sqrt), 
    "rsqrt": _guarded(lambda x: _divide(1.0, math.sqrt(x))),
    "sin": _guarded(math.sin), "cos": _guarded(math.cos), "tanh": math.tanh, "erf": math.erf,
    "expm1": _guarded(math.expm1), "log1p": _guarded(_log1p), "cbrt": math.cbrt if hasattr(math, "cbrt") else _cbrt,
    "asin": _guarded(math.asin), "acos": _guarded(math.acos), "atan": math.atan, "sinh": _signed_overflow(math.sinh),
    "cosh": _guarded(math.cosh), "asinh": math.asinh, "acosh": _guarded(math.acosh), "atanh": _guarded(_atanh),
    "erfc": math.erfc, "erfinv": _exact(_erfinv), "lgamma": _guarded(_lgamma), "digamma": _exact(_digamma),
    "floor": _rounded(math.floor), "ceil": _rounded(math.ceil), "round": _rounded(round),
    "abs": abs, "sign": lambda x: x if x == 0.0 or math.isnan(x) else math.copysign(1.0, x), "-": operator.neg,
}  # fmt: skip
WHOLE_FUNCTIONS: dict[str, Callable[[int], int]] = {
    "bit_not": operator.invert, "abs": abs, "sign": lambda v: (v > 0) - (v < 0), "-": operator.neg,
}  # fmt: skip
TRANSCENDENTAL = set(FUNCTIONS) - {"sqrt", "floor", "ceil", "round", "abs", "sign", "-"}


class Arithmetic:
    def __init__(self, noise: Random | None = None) -> None:
        self.noise = noise
        self.exact = True
        self.finite = True  # whether + - * / met numbers alone: 0 * inf hangs on where a unit or a masked term comes in

    def binary(self, op: str, x: Scalar, y: Scalar) -> Scalar:
        x, y = together(x, y)
        if op in COMPARISONS:
            return np.bool_(COMPARISONS[op](x, y))
        if is_open(x):
            if op in SHIFTS:  # of an i32, if nothing says otherwise
                return int(wrapped(_shifted(op, x, y, 32), np.dtype(np.int32)))
            return self._open(op, FLOATS[op](x, y)) if isinstance(x, float) else WHOLE[op](x, y)
        if not is_float(x):
            assert x.dtype != np.bool_, f"{op} of bool"
            if op in SHIFTS:
                return wrapped(_shifted(op, int(x), int(y), 8 * x.dtype.itemsize), x.dtype)
            if op == "**" and y >= 0:
                return wrapped(pow(int(x), int(y), 2**64), x.dtype)
            return wrapped(WHOLE[op](int(x), int(y)), x.dtype)
        a, b = float(x), float(y)
        self.finite &= op in ("max", "min") or (math.isfinite(a) and math.isfinite(b))
        return self.rounded(FLOATS[op](a, b), x.dtype, sure=self._same(op, a, b, x.dtype), wide=op in ("**", "atan2"))

    def unary(self, op: str, x: Scalar) -> Scalar:
        if is_open(x):
            return self._open(op, FUNCTIONS[op](x)) if isinstance(x, float) else int(WHOLE_FUNCTIONS[op](x))
        if not is_float(x):
            return wrapped(WHOLE_FUNCTIONS[op](int(x)), x.dtype)
        value = FUNCTIONS[op](float(x))
        sure = op not in TRANSCENDENTAL and (op != "sqrt" or value * value == float(x))
        return self.rounded(value, x.dtype, sure=sure, wide=op in TRANSCENDENTAL)

    def _open(self, op: str, value: float) -> float:
        """What literals alone give, whose type is found later: it may have been rounded to the narrowest that is usual."""
        if math.isfinite(value) and op not in TRANSCENDENTAL and self._fits(float(np.float32(value)), value, np.dtype(np.float32)):
            return value
        self.exact = False
        return value if self.noise is None else value * (1.0 + 2.0**-21 * self.noise.uniform(-1.0, 1.0))

    def rounded(self, value: float, dtype: Any, sure: bool = True, wide: bool = False) -> Scalar:
        """A float at its type; `sure`: `value` has no error of its own, `wide`: it may be off by some units in the last place."""
        with np.errstate(all="ignore"):
            out = dtype.type(value)
        if not math.isfinite(value) or (sure and self._fits(float(out), value, dtype)):
            return out
        self.exact = False
        if self.noise is None:
            return out
        unit = 2.0 ** -DIGITS[dtype.name] * (4.0 if wide else 1.0)
        with np.errstate(all="ignore"):
            return dtype.type(value * (1.0 + 2.0 * unit * self.noise.uniform(-1.0, 1.0)))

    @staticmethod
    def _fits(out: float, value: float, dtype: Any) -> bool:
        """Whether a result is exact, and would be with two thirds of the digits."""
        digits = DIGITS[dtype.name] * 2 // 3
        return out == value and (math.frexp(value)[0] * 2**digits).is_integer()

    @staticmethod
    def _same(op: str, a: float, b: float, dtype: Any) -> bool:
        """Whether an operation on doubles made no error."""
        if op in ("max", "min"):
            return True
        if op in ("/", "%", "**", "atan2"):
            return op == "/" and math.isfinite(a) and b != 0.0 and math.frexp(abs(b))[0] == 0.5
        value = FLOATS[op](a, b)
        if not math.isfinite(value) or (op == "*" and dtype != np.float64):  # two factors of 24 digits
            return math.isfinite(a) and math.isfinite(b)
        if op == "*":
            return Fraction(a) * Fraction(b) == Fraction(value)
        b = b if op == "+" else -b
        return value - a == b and value - b == a

    def cast(self, dtype: Any, x: Scalar) -> Scalar:
        if dtype == np.bool_:
            return np.bool_(x != 0)
        if dtype.name in DIGITS:
            return self.rounded(float(x), dtype, sure=is_open(x) or is_float(x) or abs(int(x)) < 2**53)
        if not is_float(x):
            return wrapped(int(x), dtype)
        value, limits = float(x), np.iinfo(dtype)
        if math.isnan(value):
            return dtype.type(0)
        return dtype.type(limits.max if value >= limits.max else limits.min if value <= limits.min else math.trunc(value))
