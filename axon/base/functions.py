"""The pointwise functions and the reductions, by their names in the language and in core, with the element types that they take."""

from __future__ import annotations

from typing import Literal, TypeAlias

from axon.base.element import BOOL, FLOAT, INT, NUM, Element

FLOAT_FUNCTIONS = (
    "exp", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "sin", "cos", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh",
    "acosh", "atanh", "erf", "erfc", "erfinv", "lgamma", "digamma", "floor", "ceil", "round",
)  # fmt: skip
BITS = ("bit_and", "bit_or", "bit_xor", "shift_left", "shift_right")

# Of one argument, and of two.
UNARY = dict.fromkeys(FLOAT_FUNCTIONS, FLOAT) | {"abs": NUM, "sign": NUM, "bit_not": INT}
BINARY = {"max": NUM, "min": NUM, "pow": NUM, "atan2": FLOAT} | dict.fromkeys(BITS, INT)

# Reductions; argmax and argmin give indices. What combines their elements is the monoid of that name, and a user's own is "custom".
NamedMonoid: TypeAlias = Literal["sum", "prod", "max", "min", "any", "all", "argmax", "argmin"]
MonoidKind: TypeAlias = Literal[NamedMonoid, "custom"]
REDUCTIONS: dict[str, frozenset[Element]] = {
    "sum": NUM, "prod": NUM, "max": NUM, "min": NUM, "any": BOOL, "all": BOOL, "argmax": NUM, "argmin": NUM,
}  # fmt: skip
