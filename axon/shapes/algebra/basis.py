"""Gröbner bases that know how each of their polynomials is made of those that were given.

Buchberger's algorithm over the rings of `polynomials`, with the pairs that Gebauer and Möller leave (T. Becker, V. Weispfenning,
Gröbner Bases, 1993, page 230). SymPy's own, `groebner`, forgets the multiples, and its `sdm_groebner` keeps them, but leaves out no
pairs of coprime polynomials, and has nothing to show when it is stopped.

Note [Multiples]
    A division says what was taken away: p = q * f + r. So each polynomial of a basis has beside it its multiples of those that were
    given, as a vector: what is done to the one is done to the other. They are not written into the polynomials, with a variable for
    each that was given, since a basis would put sizes for products of these variables again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from axon.base.data import dataclass
from axon.shapes.algebra.budget import OutOfBudget

Poly: TypeAlias = Any  # an element of a SymPy ring over a field
Exponents: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class BasisElement:
    """A polynomial that is the sum of these multiples of the given ones."""

    poly: Poly
    multiples: tuple[Poly, ...]


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two elements by number, and the least common multiple of their leading monomials."""

    one: int
    other: int
    lcm: Exponents


class Basis:
    """A reduced Gröbner basis of polynomials, the greatest first; of a stopped search, what was given and made until then."""

    def __init__(self, given: Sequence[Poly], ring: Any, charge: Callable[[int], None]) -> None:
        """`charge` is told of products of terms, and may raise OutOfBudget, as the order of the ring may: it then stops."""
        self._ring, self._charge, self._count = ring, charge, len(given)
        self._made: list[BasisElement] = []
        self._leads: list[Exponents] = []  # the greatest monomial of each
        self._live: list[int] = []  # whose greatest monomial that of no later one divides
        self._pairs: list[_Pair] = []
        unit = [tuple(ring.one if i == j else ring.zero for j in range(len(given))) for i in range(len(given))]
        start = [BasisElement(poly, multiples) for poly, multiples in zip(given, unit, strict=True) if poly]
        try:
            for element in start:
                self._add(self._reduced(element, self._living()))
            while self._pairs:
                pair = min(self._pairs, key=lambda p: (ring.order(p.lcm), p.other, p.one))
                self._pairs.remove(pair)
                self._add(self._reduced(self._subtracted(pair), self._living()))
            self.elements = self._least()
        except OutOfBudget:
            self.elements = [*start, *self._made]

    def divided(self, poly: Poly) -> tuple[Poly, tuple[Poly, ...]]:
        """What the basis leaves of a polynomial, and the multiples of the given ones that were taken. May raise OutOfBudget."""
        return self._divided(poly, self.elements)

    def _divided(self, poly: Poly, elements: Sequence[BasisElement]) -> tuple[Poly, tuple[Poly, ...]]:
        if not elements or not poly:
            return poly, (self._ring.zero,) * self._count
        quotients, rest = poly.div([e.poly for e in elements])
        taken = [self._ring.zero] * self._count
        for quotient, element in zip(quotients, elements, strict=True):
            for i, multiple in enumerate(element.multiples if quotient else ()):
                self._charge(len(quotient) * len(multiple))
                taken[i] += quotient * multiple
        return rest, tuple(taken)

    def _reduced(self, element: BasisElement, others: Sequence[BasisElement]) -> BasisElement | None:
        """What others leave of an element, with 1 as its leading coefficient."""
        rest, taken = self._divided(element.poly, others)
        if not rest:
            return None
        scale = 1 / rest.LC
        multiples = tuple((a - b).mul_ground(scale) for a, b in zip(element.multiples, taken, strict=True))
        return BasisElement(rest.mul_ground(scale), multiples)

    def _subtracted(self, pair: _Pair) -> BasisElement:
        """The one minus the other, multiplied so that their greatest terms are equal."""
        one, other = self._made[pair.one], self._made[pair.other]
        up, down = (self._ring.term_new(_over(pair.lcm, self._leads[i]), self._ring.domain.one) for i in (pair.one, pair.other))
        multiples = tuple(a * up - b * down for a, b in zip(one.multiples, other.multiples, strict=True))
        return BasisElement(one.poly * up - other.poly * down, multiples)

    def _add(self, new: BasisElement | None) -> None:
        """Another element, and the pairs with it that others do not make needless."""
        if new is None:
            return
        lead, leads, number = new.poly.LM, self._leads, len(self._made)
        with_new = [_lcm(other, lead) for other in leads]
        self._pairs = [p for p in self._pairs if not _divides(lead, p.lcm) or p.lcm in (with_new[p.one], with_new[p.other])]
        groups: dict[Exponents, list[int]] = {}
        for i in self._live:
            groups.setdefault(with_new[i], []).append(i)
        for lcm, members in groups.items():
            coprime = any(sum(lcm) == sum(leads[i]) + sum(lead) for i in members)
            if not coprime and not any(other != lcm and _divides(other, lcm) for other in groups):
                self._pairs.append(_Pair(members[0], number, lcm))
        self._live = [*(i for i in self._live if not _divides(lead, leads[i])), number]
        self._made.append(new)
        leads.append(lead)

    def _living(self) -> list[BasisElement]:
        """Those by which others are reduced, the least first."""
        return [self._made[i] for i in sorted(self._live, key=lambda i: self._ring.order(self._leads[i]))]

    def _least(self) -> list[BasisElement]:
        """Each living one, reduced by the others."""
        living = self._living()
        reduced = (self._reduced(e, [other for other in living if other is not e]) for e in reversed(living))
        return [e for e in reduced if e is not None]


def _lcm(a: Exponents, b: Exponents) -> Exponents:
    return tuple(map(max, a, b))


def _divides(a: Exponents, b: Exponents) -> bool:
    return all(i <= j for i, j in zip(a, b, strict=True))


def _over(a: Exponents, b: Exponents) -> Exponents:
    return tuple(i - j for i, j in zip(a, b, strict=True))
