"""Element types: what a tensor holds."""

from __future__ import annotations

from enum import Enum
from functools import cache
from typing import Any


class Element(Enum):
    """An element type of the language; the value is its name in source text."""

    F64 = "f64"
    F32 = "f32"
    F16 = "f16"
    BF16 = "bf16"
    F8E4M3 = "f8e4m3"
    F8E5M2 = "f8e5m2"
    I64 = "i64"
    I32 = "i32"
    I16 = "i16"
    I8 = "i8"
    U64 = "u64"
    U32 = "u32"
    U16 = "u16"
    U8 = "u8"
    BOOL = "bool"

    def __repr__(self) -> str:
        return self.value

    @property
    def is_float(self) -> bool:
        return self in FLOAT

    @property
    def is_integer(self) -> bool:
        return self in INT

    @property
    def is_unsigned(self) -> bool:
        """Whether it is an integer type without a sign."""
        return self in _UNSIGNED

    @property
    def bits(self) -> int:
        return _BITS[self]

    @property
    def limits(self) -> tuple[int, int]:
        """The least and the greatest number of an integer type."""
        assert self.is_integer
        return (0, 2**self.bits - 1) if self.is_unsigned else (-(2 ** (self.bits - 1)), 2 ** (self.bits - 1) - 1)

    def holds(self, value: int) -> bool:
        """Whether an integer literal can be of this type: floats round it."""
        return not self.is_integer or self.limits[0] <= value <= self.limits[1]

    @property
    def accumulator(self) -> Element:
        """The element type in which sums and products over this one accumulate: f32 for 16- and 8-bit floats."""
        return Element.F32 if self.is_float and self.bits < 32 else self

    @property
    def dtype(self) -> Any:
        """The NumPy dtype (of ml_dtypes for bf16 and the 8-bit floats)."""
        return _dtype(self)


FLOAT = frozenset({Element.F64, Element.F32, Element.F16, Element.BF16, Element.F8E4M3, Element.F8E5M2})
_UNSIGNED = frozenset({Element.U64, Element.U32, Element.U16, Element.U8})
INT = frozenset({Element.I64, Element.I32, Element.I16, Element.I8}) | _UNSIGNED
NUM = FLOAT | INT
BOOL = frozenset({Element.BOOL})
ANY = frozenset(Element)
USUAL = (Element.F32, Element.I32, *Element)  # which comes first where several will do

_BITS = dict(zip(Element, (64, 32, 16, 16, 8, 8, 64, 32, 16, 8, 64, 32, 16, 8, 8), strict=True))
_NUMPY = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "float16", Element.I64: "int64",
    Element.I32: "int32", Element.I16: "int16", Element.I8: "int8", Element.U64: "uint64", Element.U32: "uint32",
    Element.U16: "uint16", Element.U8: "uint8", Element.BOOL: "bool",
}  # fmt: skip
_ML_DTYPES = {Element.BF16: "bfloat16", Element.F8E4M3: "float8_e4m3fn", Element.F8E5M2: "float8_e5m2"}


def usual(allowed: frozenset[Element]) -> Element:
    """What stands for an element type of a class where nothing says which."""
    found: Element = next(e for e in USUAL if e in allowed)
    return found


@cache
def _dtype(element: Element) -> Any:
    import numpy as np

    if element in _NUMPY:
        return np.dtype(_NUMPY[element])
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[element]))


def of_dtype(dtype: Any) -> Element | None:
    """The element type of a NumPy dtype, or None when the language has none for it."""
    return next((e for e in Element if _dtype(e) == dtype), None)
