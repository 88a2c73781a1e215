"""A size that an expression over indices never exceeds, found part by part.

`reach` says what is reached, where that is clear. Room for results, one for each index, only has to be large enough: so here each
part is taken between its own ends, whatever the others are then. What is found may be larger than what is reached, i * (n - i) at
most n * n, but there always is one. Divisors are at least 1 where anything is evaluated, and so are those of what is found.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient, atom_key, maximum, minimum, variables_of
from axon.shapes.relation import Relation

Ends: TypeAlias = "tuple[Dim, Dim]"  # what a value is not below, and not above

_ZERO, _ONE = Dim.of(0), Dim.of(1)


def upper_bound(dim: Dim, ranges: Mapping[Symbol, Dim], facts: Facts) -> Dim:
    """What a Dim does not exceed over 0 <= index < extent, for ranges of which each may mention those before it."""
    ends: dict[Symbol, Ends] = {}
    for symbol, extent in ranges.items():
        ends[symbol] = _ZERO, _Parts(ends, facts).of(extent)[1] - 1
    return _Parts(ends, facts).of(dim)[1]


class _Parts:
    def __init__(self, ends: Mapping[Symbol, Ends], facts: Facts) -> None:
        self.ends = dict(ends)
        self.facts = facts

    def of(self, dim: Dim) -> Ends:
        dim = self._with_remainders(dim)
        low = high = _ZERO
        for coefficient, monomial in dim.terms:
            term = Dim.of(coefficient), Dim.of(coefficient)
            for atom in monomial:
                term = self._times(self._of_atom(atom), term)
            low, high = low + term[0], high + term[1]
        return low, high

    def _with_remainders(self, dim: Dim) -> Dim:
        """With an r from 0 to b - 1 for a % b, which is a - b * (a / b): both parts by themselves go much further."""
        for atom in sorted(dim.quotients, key=atom_key):
            split = dim.split(atom) if variables_of(atom) & self.ends.keys() else None
            if split is None or (times := exact_quotient(split[0], -atom.divisor)) is None:
                continue
            rest = fresh("r")
            new = split[1] + times * (Dim.of(rest) - atom.dividend)
            if new.weight < dim.weight:
                self.ends[rest] = _ZERO, self._at_least_one(self.of(atom.divisor)[1]) - 1
                dim = new
        return dim

    def _of_atom(self, atom: Atom) -> Ends:
        if variables_of(atom).isdisjoint(self.ends):
            itself = Dim({(atom,): 1})
            return itself, itself
        match atom:
            case Symbol():
                return self.ends[atom]
            case Quotient(dividend, divisor):
                low, high = self.of(dividend)
                least = self._at_least_one(self.of(divisor)[0])
                if self._positive(low):
                    return _ZERO, high // least
                return minimum(low, _ZERO), maximum(high, _ZERO) // least
            case Minimum(items):
                low, high = self.of(items[0])
                for ends in map(self.of, items[1:]):
                    low, high = minimum(low, ends[0]), minimum(high, ends[1])
                return low, high

    def _times(self, a: Ends, b: Ends) -> Ends:
        """The ends of a product; b is a number, or a product of what came before."""
        for one, other in ((a, b), (b, a)):
            if one[0] == one[1] and self._positive(one[0]):
                return one[0] * other[0], one[0] * other[1]
            if one[0] == one[1] and self._positive(-one[0]):
                return one[0] * other[1], one[0] * other[0]
        if self._positive(a[0]) and self._positive(b[0]):
            return a[0] * b[0], a[1] * b[1]
        most = maximum(a[1], -a[0]) * maximum(b[1], -b[0])
        return -most, most

    def _at_least_one(self, dim: Dim) -> Dim:
        return dim if self._positive(dim - 1) else maximum(dim, _ONE)

    def _positive(self, dim: Dim) -> bool:
        """Whether a value is known to be 0 or more."""
        if dim.constant is not None:
            return dim.constant >= 0
        return proves(self.facts, Relation(dim, ">=", _ZERO))
