"""The element types of a stream's factors: which go together, and whether a program rounds weights to 8 bits itself."""

from __future__ import annotations

from collections.abc import Sequence, Set

from axon.backend.gpu.layout.products import EIGHT_BIT_FLOATS
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.tile.contraction import LIMB_ELEMENTS, refused
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Binary, Convert, Read, Scalar, element_of


def element_types(elements: Sequence[Element], span: Span | None) -> tuple[Element, bool]:
    """The one of factors that have more than 8 bits, bf16 if none has; and whether some have 8. Raises `Unsupported` for others
    than matrix instructions take: as they are, in limbs, or widened."""
    for element in elements:
        if element not in LIMB_ELEMENTS and element not in EIGHT_BIT_FLOATS:
            raise Unsupported(refused(element), span)
    wide = {element for element in elements if element not in EIGHT_BIT_FLOATS}
    if len(wide) > 1 or (Element.F32 in wide and len(set(elements)) > 1):
        raise Unsupported("the factors of the two products have different element types", span)
    return wide.pop() if wide else Element.BF16, any(element in EIGHT_BIT_FLOATS for element in elements)


def rounds_to_8_bits(weight: Scalar, inside: Set[Symbol]) -> bool:
    """Whether a factor of a product is rounded to an 8-bit float as it stands, or in the tensor that it is, if that is made `inside`
    of a stream."""
    match weight:
        case Binary(op="mul", left=left, right=right):
            return rounds_to_8_bits(left, inside) or rounds_to_8_bits(right, inside)
        case Convert(operand=operand, element=element) if element in EIGHT_BIT_FLOATS and element_of(operand) is not element:
            return element_of(operand).is_float
        case Convert(operand=operand, element=element) if element.is_float:
            return rounds_to_8_bits(operand, inside)
        case Read(tensor=tensor, element=element):
            return element in EIGHT_BIT_FLOATS and tensor in inside
        case _:
            return False
