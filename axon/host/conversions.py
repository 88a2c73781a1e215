"""How a caller converts arguments whose element types do not fit, so that the call succeeds and no value is lost.

A float among integers is never cut short: where there are fractions, or an array of floats, the integers become floats. Floats may
be rounded to narrower ones, as literals are; integers must stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from string import ascii_letters, digits
from typing import Any, TypeAlias

import numpy as np

from axon.backend import libraries
from axon.base.data import dataclass
from axon.base.element import FLOAT, INT, USUAL, Element

Array: TypeAlias = "np.ndarray[Any, Any]"

NUMPY_NAME = {
    Element.F64: "np.float64", Element.F32: "np.float32", Element.F16: "np.float16", Element.BF16: "ml_dtypes.bfloat16",
    Element.F8E4M3: "ml_dtypes.float8_e4m3fn", Element.F8E5M2: "ml_dtypes.float8_e5m2", Element.I64: "np.int64",
    Element.I32: "np.int32", Element.I16: "np.int16", Element.I8: "np.int8", Element.U64: "np.uint64", Element.U32: "np.uint32",
    Element.U16: "np.uint16", Element.U8: "np.uint8", Element.BOOL: "bool",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ArgumentPart:
    """An argument, or a part of one: its name as the caller writes it, what the caller passed, and that as an array.

    `element` is its element type; of a Python number or a list, which is `weak` and takes one, the default of its kind.
    """

    name: str
    given: Any
    array: Array
    element: Element
    weak: bool

    def fits(self, element: Element) -> bool:
        """Whether it is accepted where an element type is wanted."""
        if not self.weak or self.element is Element.BOOL or element is Element.BOOL:
            return self.element is element
        return element in FLOAT if self.element in FLOAT else element in FLOAT or self.keeps(element)

    def keeps(self, element: Element) -> bool:
        """Whether its values are the same in an element type; of floats among themselves, to the nearest."""
        with np.errstate(all="ignore"):
            turned = self.array.astype(element.dtype)
            if self.element in FLOAT and element in FLOAT:
                return np.array_equal(np.isfinite(turned), np.isfinite(self.array))
            back = turned.astype(self.array.dtype)
        limits = np.iinfo(element.dtype) if element in INT and self.array.size else None
        if limits is not None and not (limits.min <= float(self.array.min()) <= float(self.array.max()) <= limits.max):
            return False  # also NaN
        return np.array_equal(back, self.array)

    def becomes_number(self, element: Element) -> bool:
        """Whether its conversion is a number of Python's, which takes any element type of its kind."""
        if self.weak:
            return not isinstance(self.given, list)
        return isinstance(self.given, np.generic) or (isinstance(self.given, np.ndarray) and self.given.ndim == 0)

    def converted(self, element: Element) -> str:
        """How the caller writes its conversion."""
        if self.becomes_number(element):
            return f"{_python(element)}({self.name})"
        if isinstance(self.given, list):
            return f"np.array({self.name}).astype({NUMPY_NAME[element]})"
        return _of_array(self.given, self.name, element)


def conversion(parts: Sequence[ArgumentPart], allowed: frozenset[Element], known: Element | None) -> str:
    """What to pass for arguments that share an element type, one of `allowed`; empty if values would be lost.

    The first array's is preferred, then `known`, which something has decided.
    """
    arrays = sorted((p for p in parts if not p.weak), key=lambda p: p.array.ndim == 0)
    wide = [Element.F64] if any(p.element in INT for p in arrays) else []
    order = dict.fromkeys([*(p.element for p in arrays), *([known] if known else []), *wide, *USUAL])
    floats = any(p.element in FLOAT and (p.array.ndim or not arrays or not p.keeps(Element.I64)) for p in parts)
    for element in sorted((e for e in order if e in allowed), key=lambda e: floats and e not in FLOAT):
        turned = [p for p in parts if not p.fits(element)]
        if not all(p.keeps(element) for p in turned):
            continue
        ways = dict.fromkeys(p.converted(element) for p in turned)
        decided = any((p not in turned and not p.weak) or (p in turned and not p.becomes_number(element)) for p in parts)
        if not decided and parts[0].element in INT and element in FLOAT:  # the first number decides
            ways = dict.fromkeys([parts[0].converted(element), *ways])
        return " and ".join(ways)
    return ""


def fixed(part: ArgumentPart, element: Element) -> Iterator[str]:
    """What may be done about an argument where its parameter has one element type: also what loses something, and then what."""
    way = part.converted(element)
    if part.keeps(element):
        yield f"pass {way}"
    elif part.element in FLOAT and element in INT:
        with np.errstate(all="ignore"):
            whole = ArgumentPart(part.name, part.given, np.trunc(part.array.astype(np.float64)), Element.F64, part.weak)
        if whole.keeps(element):
            yield f"if its fractions may be dropped, pass {way}"
    elif part.element in INT and element in FLOAT:
        yield f"if it may be rounded, pass {way}"


def _of_array(value: Any, name: str, element: Element) -> str:
    """The conversion of an array, in its own library's words; of a text that stands for one, the right text."""
    if isinstance(value, str):
        return f'"{element.value}{value.strip().lstrip(ascii_letters + digits)}"'
    library, numpy = libraries.of(value), NUMPY_NAME[element]
    own = element.dtype.name
    match library.name if library is not None else "numpy":
        case "torch":
            return f"{name}.to(torch.{own})"
        case "jax":
            return f"{name}.astype(jnp.{own})"
        case "numba":
            return f"cuda.to_device({name}.copy_to_host().astype({numpy}))"
        case _:
            return f"{name}.astype({numpy})"


def _python(element: Element) -> str:
    """What Python calls numbers of such a type."""
    return "bool" if element is Element.BOOL else "int" if element in INT else "float"
