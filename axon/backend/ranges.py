"""Between which numbers integer expressions lie, whatever the sizes are: what decides the width of their arithmetic.

Every dimension and every index is in 0 … 2^31 - 1; a size of which it is known is at least 1.
"""

from __future__ import annotations

from itertools import product
from typing import TypeAlias

from axon.core import Binary, Const, Convert, Index, Read, Scalar, Select, Unary, element_of
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient

Range: TypeAlias = "tuple[int, int]"  # the least and the greatest value, both possible or beyond what is

MOST = 2**31 - 1  # a size, an index
WIDE = 2**62  # what arithmetic in 64 bits holds, sums of two included
ANYTHING: Range = (-(2**100), 2**100)


def of_element(element: Element) -> Range:
    """The values of an integer element type."""
    if element is Element.BOOL:
        return 0, 1
    if element is Element.U8:
        return 0, 255
    return -(2 ** (element.bits - 1)), 2 ** (element.bits - 1) - 1


def of_dim(dim: Dim) -> Range:
    """The exact values of a Dim, before they are brought into an element type."""
    for coefficient, monomial in dim.terms:
        if len(monomial) == 1 and isinstance(monomial[0], Minimum):  # c min(a, b) + r = min(c a + r, c b + r), or the maximum
            rest = dim - Dim({monomial: coefficient})
            found = [of_dim(item * coefficient + rest) for item in monomial[0].items]
            pick = min if coefficient > 0 else max
            return pick(low for low, _ in found), pick(high for _, high in found)
    low = high = 0
    for coefficient, monomial in dim.terms:
        term = (coefficient, coefficient)
        for atom in monomial:
            term = _times(term, _of_atom(atom))
        low, high = low + term[0], high + term[1]
    return low, high


def _of_atom(atom: Atom) -> Range:
    if isinstance(atom, Symbol):
        return 0, MOST
    if isinstance(atom, Quotient):
        above, below = of_dim(atom.dividend), of_dim(atom.divisor)
        if below[0] < 1:
            return ANYTHING
        found = [a // b for a, b in product(above, below)]
        return min(found), max(found)
    items = [of_dim(item) for item in atom.items]
    return min(low for low, _ in items), min(high for _, high in items)


def _times(a: Range, b: Range) -> Range:
    found = [x * y for x, y in product(a, b)]
    return min(found), max(found)


def divides_by_zero(dim: Dim) -> bool:
    """Whether a Dim divides by what may be 0 or less, at any depth."""
    for atom in dim.atoms:
        if isinstance(atom, Quotient):
            if of_dim(atom.divisor)[0] < 1 or divides_by_zero(atom.dividend) or divides_by_zero(atom.divisor):
                return True
        elif not isinstance(atom, Symbol) and any(divides_by_zero(item) for item in atom.items):
            return True
    return False


def within(dim: Dim) -> bool:
    """Whether arithmetic in 64 bits is exact for a Dim, each of its terms included."""
    return all(low > -WIDE and high < WIDE for low, high in (of_dim(Dim({m: c})) for c, m in dim.terms)) and len(dim.terms) < 64


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
            exact = _times((-1, -1), of_scalar(operand))
        case Binary(op="add", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = a + c, b + d
        case Binary(op="sub", left=left, right=right):
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = a - d, b - c
        case Binary(op="mul", left=left, right=right):
            exact = _times(of_scalar(left), of_scalar(right))
        case Binary(op="max" | "min" as op, left=left, right=right):
            pick = max if op == "max" else min
            (a, b), (c, d) = of_scalar(left), of_scalar(right)
            exact = pick(a, c), pick(b, d)
        case Select(then=then, otherwise=otherwise):
            (a, b), (c, d) = of_scalar(then), of_scalar(otherwise)
            exact = min(a, c), max(b, d)
        case _:
            pass
    return exact if fits(exact, element) else of_element(element)
