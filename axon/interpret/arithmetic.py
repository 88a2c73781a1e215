"""What the scalar operators of core do to whole arrays, for every element type.

Arrays have exactly the dtype of their element type. Operations on 16- and 8-bit floats are computed in f32 and rounded once.
Integers wrap; the caller has excluded zero divisors and negative exponents. Nothing here looks at shapes: everything broadcasts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from axon.base.data import dataclass
from axon.base.element import Element
from axon.core.ir import COMPARISONS, LOGIC
from axon.interpret import special

Array = npt.NDArray[Any]


def is_narrow(element: Element) -> bool:
    """Whether arithmetic on it happens in f32."""
    return element.accumulator is not element


def widen(array: Array, element: Element) -> Array:
    """The array in the element type that arithmetic and accumulation use; exact."""
    return array.astype(np.float32) if is_narrow(element) else array


def narrow(array: Array, element: Element) -> Array:
    """An f32 result of arithmetic on a narrow element type, rounded to it; others unchanged."""
    return array.astype(element.dtype) if is_narrow(element) else array


def constant(value: float | int | bool, element: Element, rank: int) -> Array:
    """A literal as an array of `rank` dimensions of size 1."""
    if element.is_float:
        array = convert(np.array(value, np.float64), Element.F64, element)
    else:
        array = np.array(value, element.dtype)
    return array.reshape((1,) * rank)


# ── operators ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def shift_left(x: Array, y: Array) -> Array:
    """All bits are gone where the amount is negative or not below the width."""
    inside = (y >= 0) & (y < 8 * x.itemsize)
    return np.where(inside, np.left_shift(x, np.where(inside, y, y.dtype.type(0))), x.dtype.type(0))


def shift_right(x: Array, y: Array) -> Array:
    """Of a type with a sign, copies of it come in from the left."""
    width = 8 * x.itemsize
    inside = (y >= 0) & (y < width)
    shifted = np.right_shift(x, np.where(inside, y, y.dtype.type(width - 1)))
    return np.where(inside | (x.dtype.kind == "i"), shifted, x.dtype.type(0))


def power(x: Array, y: Array) -> Array:
    """x ** y as IEEE 754 and C have it; a single exponent of 0.5 is a square root to NumPy, which -inf and -0 do not have."""
    result: Array = np.power(x, y)
    if result.dtype.kind != "f" or not (halves := y == 0.5).any():
        return result
    signless = halves & ((x == 0) | (x == -np.inf))
    return np.where(signless, np.abs(x), result) if signless.any() else result


@dataclass(frozen=True, slots=True)
class Extreme:
    """A ufunc for `max` or `min`; +0 is the greater of two zeros (IEEE 754-2019 `maximum`, `minimum`), where NumPy gives either."""

    of: np.ufunc
    zero: float  # the one that wins

    def __call__(self, x: Array, y: Array, /) -> Array:
        return self._signed(self.of(x, y), lambda: self._wins(x) | self._wins(y))

    def reduce(self, x: Array, /, axis: int | tuple[int, ...] = 0, dtype: Any = None, *, keepdims: bool = False) -> Array:
        result = np.asarray(self.of.reduce(x, axis, dtype, keepdims=keepdims))
        return self._signed(result, lambda: np.any(self._wins(x), axis=axis, keepdims=keepdims))

    def accumulate(self, x: Array, /, axis: int = 0, dtype: Any = None) -> Array:
        result = self.of.accumulate(x, axis=axis, dtype=dtype)
        return self._signed(result, lambda: np.logical_or.accumulate(self._wins(x), axis=axis))

    def _wins(self, x: Array) -> Array:
        found: Array = (x == 0) & (np.signbit(x) == np.signbit(self.zero))
        return found

    def _signed(self, result: Array, wins: Callable[[], Array]) -> Array:
        """The result with its zeros replaced: `wins` says where one that wins was among them."""
        if result.dtype.kind != "f" or not (zeros := result == 0).any():
            return result
        winner = result.dtype.type(self.zero)
        return np.where(zeros, np.where(wins(), winner, -winner), result)


MAXIMUM, MINIMUM = Extreme(np.maximum, 0.0), Extreme(np.minimum, -0.0)
UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative,
    "not": np.logical_not,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: np.reciprocal(np.sqrt(x)),
    "sin": np.sin,
    "cos": np.cos,
    "tanh": np.tanh,
    "erf": special.erf,
    "expm1": np.expm1,
    "log1p": np.log1p,
    "cbrt": np.cbrt,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "asinh": np.arcsinh,
    "acosh": np.arccosh,
    "atanh": np.arctanh,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.lgamma,
    "digamma": special.digamma,
    "bit_not": np.invert,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.rint,
}
BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "mod": np.mod,
    "pow": power,
    "atan2": np.arctan2,
    "bit_and": np.bitwise_and,
    "bit_or": np.bitwise_or,
    "bit_xor": np.bitwise_xor,
    "shift_left": shift_left,
    "shift_right": shift_right,
    "max": MAXIMUM,
    "min": MINIMUM,
    "eq": np.equal,
    "ne": np.not_equal,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "and": np.logical_and,
    "or": np.logical_or,
}


def unary(op: str, x: Array, element: Element) -> Array:
    return narrow(UNARY[op](widen(x, element)), element)


def binary(op: str, x: Array, y: Array, element: Element) -> Array:
    """`element` is the operands'. Integer `div` and `mod` want divisors other than 0, integer `pow` exponents of at least 0."""
    if op == "div":
        apply: Callable[[Array, Array], Array] = np.true_divide if element.is_float else np.floor_divide
    else:
        apply = BINARY[op]
    result = apply(widen(x, element), widen(y, element))
    return result if op in COMPARISONS or op in LOGIC else narrow(result, element)


# ── conversions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def convert(x: Array, source: Element, target: Element) -> Array:
    """`cast`. Floats round to nearest even; floats into integers truncate and saturate, NaN gives 0; integers wrap."""
    if source is target:
        return x
    if target is Element.BOOL:
        return np.not_equal(widen(x, source), 0)
    if target.is_integer:
        return _float_to_integer(x, target) if source.is_float else x.astype(target.dtype)
    if (source is Element.F64 or (source.is_integer and source.bits >= 32)) and is_narrow(target) and target is not Element.F16:
        return _round_to_odd(x, source).astype(target.dtype)
    return (x.astype(np.float64) if is_narrow(target) and source.bits > 16 else widen(x, source)).astype(target.dtype)


def _float_to_integer(x: Array, target: Element) -> Array:
    wide = np.trunc(x.astype(np.float64))
    limits = np.iinfo(target.dtype)
    # float(limits.max) may round up to 2.0**63, which is just outside, so >= is right for it and harmless for the others.
    high, low = wide >= float(limits.max), wide <= float(limits.min)
    inside = np.where(high | low | np.isnan(wide), 0.0, wide).astype(target.dtype)
    return np.where(high, limits.max, np.where(low, limits.min, inside)).astype(target.dtype)


def _round_to_odd(x: Array, source: Element) -> Array:
    """To f32 such that rounding again to a narrower type rounds correctly once: inexact results get an odd last bit."""
    if source.is_integer:
        # From 2**53 on, integers are made multiples of 2048 first, also to odd; then they are exact in float64.
        floor = x & ~x.dtype.type(2047)
        large = (x >= 2**53) | (x <= -(2**53))
        x = np.where(large & (floor != x), floor | x.dtype.type(2048), x).astype(np.float64)
    y = x.astype(np.float32)
    bits = y.view(np.uint32)
    away = np.abs(y.astype(np.float64)) > np.abs(x)
    inexact = (y.astype(np.float64) != x) & ~np.isnan(x)
    odd: Array = ((bits - away) | inexact).astype(np.uint32).view(np.float32)
    return odd


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────

FOLDS: dict[str, np.ufunc | Extreme] = {
    "sum": np.add,
    "prod": np.multiply,
    "max": MAXIMUM,
    "min": MINIMUM,
    "any": np.logical_or,
    "all": np.logical_and,
}
