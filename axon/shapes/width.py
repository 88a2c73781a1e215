"""Between which numbers sizes lie, whatever the sizes are that they are made of: what decides how many bits hold them.

Every dimension and every index is in 0 … 2^31 - 1. What an expression over them must hold exactly, and may not in 64 bits, a call
sees to: `limits` says what.
"""

from __future__ import annotations

from collections.abc import Iterator, Set
from itertools import product
from typing import TypeAlias

from axon.base.names import Symbol
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, parts, variables_of

Range: TypeAlias = "tuple[int, int]"  # the least and the greatest value, both possible or beyond what is

MOST = 2**31 - 1  # a size, an index
WIDE = 2**62  # what arithmetic in 64 bits holds, sums of two included
ANYTHING: Range = (-(2**100), 2**100)


def of_dim(dim: Dim) -> Range:
    """The exact values of a Dim, before they are brought into an element type."""
    for coefficient, monomial in dim.terms if dim.compound else ():
        if len(monomial) == 1 and isinstance(monomial[0], Minimum):  # c min(a, b) + r = min(c a + r, c b + r), or the maximum
            rest = dim - Dim({monomial: coefficient})
            found = [of_dim(item * coefficient + rest) for item in monomial[0].items]
            pick = min if coefficient > 0 else max
            return pick(low for low, _ in found), pick(high for _, high in found)
    low = high = 0
    for monomial, coefficient in dim.mapping.items():
        term = (coefficient, coefficient)
        for atom in monomial:
            term = times(term, _of_atom(atom))
        low, high = low + term[0], high + term[1]
    return low, high


def _of_atom(atom: Atom) -> Range:
    if isinstance(atom, Symbol):
        return 0, MOST
    if isinstance(atom, Quotient):
        above, below = of_dim(atom.dividend), of_dim(atom.divisor)
        if below[0] < 0 or below[1] < 1:
            return ANYTHING
        below = max(1, below[0]), below[1]  # where it has a value
        found = [a // b for a, b in product(above, below)]
        return min(found), max(found)
    items = [of_dim(item) for item in atom.items]
    return min(low for low, _ in items), min(high for _, high in items)


def times(a: Range, b: Range) -> Range:
    if a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], a[1] * b[1]
    found = [x * y for x, y in product(a, b)]
    return min(found), max(found)


def divides_by_zero(dim: Dim, varying: Set[Symbol] | None = None) -> bool:
    """Whether a Dim divides by what may be 0 or less, at any depth; of what does not vary, if that is given, nothing is asked."""
    for atom in dim.atoms:
        if isinstance(atom, Symbol) or (varying is not None and variables_of(atom).isdisjoint(varying)):
            continue
        if isinstance(atom, Quotient) and of_dim(atom.divisor)[0] < 1:
            return True
        if any(divides_by_zero(part, varying) for part in parts(atom)):
            return True
    return False


def within(dim: Dim) -> bool:
    """Whether arithmetic in 64 bits is exact for a Dim, each of its terms included."""
    return all(low > -WIDE and high < WIDE for low, high in (of_dim(Dim({m: c})) for c, m in dim.terms)) and len(dim.terms) < 64


def exact(dim: Dim, bits: int) -> bool:
    """Whether so many bits hold every value of a Dim."""
    limit: int = 2 ** (bits - 1)
    if dim.symbol is not None:
        return limit > MOST
    low, high = of_dim(dim)
    return -limit <= low and high < limit


def held(dim: Dim, varying: Set[Symbol] | None = None) -> Iterator[Dim]:
    """What of a Dim must be held exactly: the parts of its quotients and minima. Sums and products may wrap on the way.

    Without what does not vary, if that is given.
    """
    for atom in dim.atoms:
        if isinstance(atom, Symbol) or (varying is not None and variables_of(atom).isdisjoint(varying)):
            continue
        for part in parts(atom):
            yield part
            yield from held(part, varying)


def majorant(dim: Dim) -> Dim:
    """A polynomial in the same variables without negative terms, which is at least as large as the Dim and as its negative."""
    total = Dim.of(0)
    for coefficient, monomial in dim.terms:
        term = Dim.of(abs(coefficient))
        for atom in monomial:
            match atom:
                case Symbol():
                    term *= Dim.of(atom)
                case Quotient(dividend):  # the divisor is at least 1 where it is evaluated
                    term *= majorant(dividend)
                case Minimum(items):
                    term *= sum(map(majorant, items), Dim.of(0))
        total += term
    return total
