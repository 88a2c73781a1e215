"""Reduction of polynomials by the equalities that are known: Buchberger's algorithm over the rationals, within a budget.

Atoms are opaque here. Coefficients stay integers: a polynomial is only known up to a rational factor, which is enough to tell
whether it is 0. SymPy's Gröbner bases cannot be stopped when they take minutes, and importing it costs a quarter of a second.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from math import gcd
from typing import TypeAlias

from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.dimension import Atom, Dim, Monomial, atom_key

_Powers: TypeAlias = "tuple[int, ...]"  # (total degree, negated exponents from the last atom to the first): compares as grevlex
_Poly: TypeAlias = "dict[_Powers, int]"

_MAX_TERMS = 200
_MAX_BITS = 256


class Basis:
    """A set of polynomials known to be 0, saturated as far as the budget of its making allowed. `reduce` is always sound."""

    def __init__(self, known: Sequence[Dim], budget: Budget) -> None:
        """Spends at most the budget, and stops there with what it has."""
        self._atoms: list[Atom] = sorted({a for dim in known for a in dim.atoms}, key=atom_key)
        self._place = {a: i for i, a in enumerate(self._atoms)}
        self._polys: list[tuple[_Powers, _Poly]] = []
        self.inconsistent = False
        with suppress(OutOfBudget):
            for dim in sorted(known, key=lambda dim: dim.degree):
                self._add(self._reduced(self._of(dim), budget))
            self._saturate(budget)

    def reduce(self, dim: Dim, budget: Budget) -> Dim:
        """A multiple, by a positive rational, of a Dim that equals this one wherever the known ones are 0."""
        outside = [a for a in dim.atoms if a not in self._place]
        if outside:  # new atoms order after the old ones, so the basis stays a basis
            for atom in sorted(outside, key=atom_key):
                self._place[atom] = len(self._atoms)
                self._atoms.append(atom)
            self._polys = [(self._widen(lead), {self._widen(m): c for m, c in p.items()}) for lead, p in self._polys]
        return self._to_dim(self._reduced(self._of(dim), budget, full=True))

    # ── conversion ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _of(self, dim: Dim) -> _Poly:
        return {self._powers(m): c for m, c in dim.mapping.items()}

    def _powers(self, monomial: Monomial) -> _Powers:
        exponents = [0] * len(self._atoms)
        for atom in monomial:
            exponents[self._place[atom]] -= 1
        return (len(monomial), *reversed(exponents))

    def _widen(self, powers: _Powers) -> _Powers:
        return (powers[0], *([0] * (len(self._atoms) + 1 - len(powers))), *powers[1:])

    def _to_dim(self, poly: _Poly) -> Dim:
        terms: dict[Monomial, int] = {}
        for powers, c in poly.items():
            atoms: list[Atom] = []
            for atom, exponent in zip(self._atoms, reversed(powers[1:]), strict=True):
                atoms += [atom] * -exponent
            terms[tuple(sorted(atoms, key=atom_key))] = c
        return Dim(terms)

    # ── the algorithm ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _reduced(self, poly: _Poly, budget: Budget, full: bool = False) -> _Poly:
        """The remainder by the basis: no term (the leading one only, unless `full`) is a multiple of a leading term."""
        done: _Poly = {}
        while poly:
            top = max(poly)
            for lead, divisor in self._polys:
                if all(map(_reaches, top, lead)):
                    budget.spend(len(divisor))
                    a, b = poly[top], divisor[lead]
                    common = gcd(a, b)
                    scale, factor = abs(b) // common, (a if b > 0 else -a) // common
                    shift = tuple(map(_minus, top, lead))
                    poly = {m: c * scale for m, c in poly.items()}
                    done = {m: c * scale for m, c in done.items()}
                    for m, c in divisor.items():
                        m = tuple(map(_plus, m, shift))
                        total = poly.get(m, 0) - c * factor
                        if total:
                            poly[m] = total
                        else:
                            poly.pop(m, None)
                    if len(poly) > _MAX_TERMS or any(c.bit_length() > _MAX_BITS for c in poly.values()):
                        budget.give_up()
                    break
            else:
                if not full:
                    return poly
                done[top] = poly.pop(top)
        return done

    def _add(self, poly: _Poly) -> None:
        if not poly:
            return
        common = gcd(*poly.values())
        poly = {m: c // common for m, c in poly.items()}
        lead = max(poly)
        self.inconsistent |= lead[0] == 0
        self._polys.append((lead, poly))

    def _saturate(self, budget: Budget) -> None:
        done = 0
        pairs: list[tuple[int, int, int]] = []
        while not self.inconsistent:
            for j in range(done, len(self._polys)):
                for i in range(j):
                    union = _union(self._polys[i][0], self._polys[j][0])
                    if union[0] < self._polys[i][0][0] + self._polys[j][0][0]:  # else they are coprime: reduces to 0
                        pairs.append((union[0], i, j))
            done = len(self._polys)
            if not pairs:
                return
            pair = min(pairs)
            pairs.remove(pair)
            budget.spend(len(pairs))
            self._add(self._reduced(self._s_polynomial(pair[1], pair[2]), budget))

    def _s_polynomial(self, i: int, j: int) -> _Poly:
        (left_lead, left), (right_lead, right) = self._polys[i], self._polys[j]
        union = _union(left_lead, right_lead)
        a, b = left[left_lead], right[right_lead]
        common = gcd(a, b)
        result: _Poly = {}
        for poly, lead, scale in ((left, left_lead, b // common), (right, right_lead, -(a // common))):
            shift = tuple(map(_minus, union, lead))
            for m, c in poly.items():
                m = tuple(map(_plus, m, shift))
                total = result.get(m, 0) + c * scale
                if total:
                    result[m] = total
                else:
                    result.pop(m, None)
        return result


def _union(a: _Powers, b: _Powers) -> _Powers:
    exponents = tuple(map(min, a[1:], b[1:]))  # exponents are negated
    return (-sum(exponents), *exponents)


def _reaches(x: int, y: int) -> bool:
    return abs(x) >= abs(y)


def _plus(x: int, y: int) -> int:
    return x + y


def _minus(x: int, y: int) -> int:
    return x - y
