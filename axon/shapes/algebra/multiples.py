"""What divides a size, by the equations that are known: what a scheduler asks before it vectorizes.

Equations are solved over the integers: from n = 4 * (n / 4), which is `n % 4 = 0`, n becomes 4 * z, where z is any integer; from
6 * a = 4 * b, a becomes 2 * z and b becomes 3 * z. A size in terms of such z is a polynomial, and what divides all values of a
polynomial in any integers is what divides its values where each runs from 0 to its degree (G. Pólya, 1915): n * (n + 1) is even.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import product
from math import gcd

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.polynomials import solutions
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Monomial, rebuilt
from axon.shapes.relation import Relation

_MAX_POINTS = 3_000
_MAX_EQUATIONS = 60


class Multiples:
    """The integer solutions of the equations among some relations."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        self._monomials: dict[Monomial, Symbol] = {}  # what stands for products, quotients and minima
        equations = sorted((r.slack for r in relations if r.op == "="), key=lambda dim: dim.sort_key)
        self._images: dict[Symbol, Dim] = {}
        with suppress(DimensionTooLarge):  # what was learnt so far is right
            self._learn([self._linear(slack) for slack in equations[:_MAX_EQUATIONS]])

    def of(self, dim: Dim) -> int:
        """The greatest number that is seen to divide every value of a size; 0 for the size 0."""
        try:
            found = [_fixed_divisor(self._substituted(dim)), _fixed_divisor(self._now(self._linear(dim)))]
        except DimensionTooLarge:
            found = [dim.content]
        result = 1
        for divisor in found:
            if divisor == 0:
                return 0
            result = result * divisor // gcd(result, divisor)
        return result

    def _linear(self, dim: Dim) -> Dim:
        """The Dim with a variable for each of its monomials that is not one."""
        terms: dict[Monomial, int] = {}
        for monomial, c in dim.mapping.items():
            if len(monomial) > 1 or (monomial and not isinstance(monomial[0], Symbol)):
                if monomial not in self._monomials:
                    self._monomials[monomial] = fresh("product")
                monomial = (self._monomials[monomial],)
            terms[monomial] = c
        return Dim(terms)

    def _now(self, dim: Dim) -> Dim:
        return dim.substitute(self._images)

    def _learn(self, equations: Sequence[Dim]) -> None:
        """Linear equations = 0: variables that stand alone in one are eliminated, the rest is solved over the integers."""
        while (found := next(((e, v) for e in equations if (v := _alone(e)) is not None), None)) is not None:
            equation, v = found
            self._put_in({v: equation.plus(Dim.of(v), -equation.mapping[(v,)]) * -equation.mapping[(v,)]})
            equations = [left for e in equations if (left := self._now(e)).mapping]
        self._put_in(solutions(equations) or {})

    def _put_in(self, images: dict[Symbol, Dim]) -> None:
        self._images = {v: dim.substitute(images) for v, dim in self._images.items()} | images

    def _substituted(self, dim: Dim) -> Dim:
        """The Dim with variables replaced, also inside quotients: (8 * z) / 2 is 4 * z."""

        def image(atom: Atom) -> Dim:
            if isinstance(atom, Symbol):
                return self._images.get(atom, Dim.of(atom))
            if (atom,) in self._monomials and (known := self._images.get(self._monomials[(atom,)])) is not None:
                return known
            return rebuilt(atom, lambda part: part.rewrite(image))

        return dim.rewrite(image)


def _alone(equation: Dim) -> Symbol | None:
    """The youngest variable with a coefficient of 1 or -1."""
    found = [m[0] for m, c in equation.mapping.items() if m and abs(c) == 1 and isinstance(m[0], Symbol)]
    return max(found, key=lambda v: v.id, default=None)


def _fixed_divisor(dim: Dim) -> int:
    """What divides all values of a polynomial at integers; its atoms count as variables."""
    degrees: dict[Atom, int] = {}
    for monomial in dim.mapping:
        for atom in monomial:
            degrees[atom] = max(degrees.get(atom, 0), monomial.count(atom))
    points = 1
    for degree in degrees.values():
        points *= degree + 1
    if points > _MAX_POINTS or all(degree == 1 for degree in degrees.values()):
        return dim.content  # of a polynomial without powers, it is that
    divisor = 0
    for point in product(*(range(degree + 1) for degree in degrees.values())):
        divisor = gcd(divisor, _value(dim, dict(zip(degrees, point, strict=True))))
    return divisor


def _value(dim: Dim, values: Mapping[Atom, int]) -> int:
    total = 0
    for monomial, c in dim.mapping.items():
        for atom in monomial:
            c *= values[atom]
        total += c
    return total
