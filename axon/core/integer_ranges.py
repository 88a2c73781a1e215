"""Between which numbers integer expressions lie, whatever the sizes are: what decides the width of their arithmetic.

Every dimension and every index is in 0 … 2^31 - 1; `shapes.width` says what follows for sizes.
"""

from __future__ import annotations

from axon.base.element import Element
from axon.core.ir import Binary, Const, Convert, Index, Read, Scalar, Select, Unary, element_of
from axon.shapes.width import ANYTHING, MOST, WIDE, Range, divides_by_zero, of_dim, times, within

__all__ = ["ANYTHING", "MOST", "WIDE", "Range", "divides_by_zero", "fits", "of_dim", "of_element", "of_scalar", "within"]


def of_element(element: Element) -> Range:
    """The values of an integer element type."""
    return (0, 1) if element is Element.BOOL else element.limits


def fits(range_: Range, element: Element) -> bool:
    low, high = of_element(element)
    return low <= range_[0] and range_[1] <= high


def of_scalar(scalar: Scalar) -> Range:
    """The values of an integer expression, as far as they are easily known; they have wrapped where they do."""
    element = element_of(scalar)
    exact = ANYTHING
    match scalar:
        case Const(value=value):
            exact = int(value), int(value)
        case Index(dim=dim):
            exact = of_dim(dim)
        case Read():
            exact = of_element(element)
        case Convert(operand=operand) if not element_of(operand).is_float:
            exact = of_scalar(operand)
        case Unary(op="neg", operand=operand):
            exact = times((-1, -1), of_scalar(operand))
        case Binary(op="add", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = a + c, b + d
        case Binary(op="sub", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = a - d, b - c
        case Binary(op="mul", left=left, right=right):
            exact = times(of_scalar(left), of_scalar(right))
        case Binary(op="max" | "min" as op, left=left, right=right):
            pick = max if op == "max" else min
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = pick(a, c), pick(b, d)
        case Binary(op="bit_and", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            tops = [top for low, top in ((a, b), (c, d)) if low >= 0]
            exact = (0, min(tops)) if tops else ANYTHING
        case Binary(op="bit_or" | "bit_xor", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = (0, (1 << max(b, d).bit_length()) - 1) if min(a, c) >= 0 else ANYTHING
        case Binary(op="shift_right", left=left):
            low, high = of_scalar(left)
            exact = (0, high) if low >= 0 else ANYTHING
        case Select(then=then, otherwise=otherwise):
            (a, b), (c, d) = of_scalar(then), of_scalar(otherwise)
            exact = min(a, c), max(b, d)
        case _:
            pass
    return exact if fits(exact, element) else of_element(element)
