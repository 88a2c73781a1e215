"""Equations between polynomials that no sizes satisfy: of one size, by its roots; of several, by remainders, or by trying all."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise, product
from math import prod

from axon.base.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.relation import integer_root

_MAX_MODULUS = 16
_MAX_CASES = 512  # remainders, or sizes, of all variables together that are tried
_MAX_DEGREE = 6


def roots_of(equation: Dim) -> list[int] | None:
    """The sizes for which a polynomial of one size is 0; None if it is none, or of too high a degree."""
    if len(equation.variables) != 1 or equation.degree > _MAX_DEGREE or not all(isinstance(a, Symbol) for a in equation.atoms):
        return None
    coefficients = [0] * (equation.degree + 1)
    for monomial, c in equation.mapping.items():
        coefficients[len(monomial)] = c
    near = (n for k in _changes(coefficients) for n in (k, k + 1))
    return sorted({n for n in near if not _value(coefficients, n)})


def _changes(p: Sequence[int]) -> list[int]:
    """Integers k such that each root that is not negative lies between a k and k + 1: at most one is between two of its turns."""
    if len(p) < 2:
        return []
    turns = _changes([i * c for i, c in enumerate(p)][1:])
    bound = 2 + max(map(abs, p)) // abs(p[-1])  # Cauchy's: beyond all roots
    ends = sorted({0, bound, *turns, *(k + 1 for k in turns)})
    found = {*turns, *(n for n in ends if not _value(p, n))}
    for low, high in pairwise(ends):
        rises = _value(p, low) < 0
        if _value(p, low) * _value(p, high) < 0:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if (_value(p, middle) < 0) == rises else (low, middle)
            found.add(low)
    return sorted(found)


def _value(p: Sequence[int], n: int) -> int:
    total = 0
    for c in reversed(p):
        total = total * n + c
    return total


def without_remainder(equation: Dim) -> bool:
    """Whether a polynomial is never 0 because it is not a multiple of some number: n * n = 3 * m + 2, where squares are 0 or 1."""
    return equation.degree > 1 and never_multiple(equation) is not None


def never_multiple(equation: Dim) -> int | None:
    """The least number of which a polynomial is never a multiple, if a small one is found."""
    if not all(isinstance(a, Symbol) for a in equation.atoms):
        return None
    moduli = (k for k in range(2, _MAX_MODULUS + 1) if any(c % k == 0 for c in equation.mapping.values()))
    return next((k for k in moduli if _never_divides(equation, k)), None)


def _never_divides(equation: Dim, k: int) -> bool:
    terms = [(c % k, m) for m, c in equation.mapping.items() if c % k]
    variables = list(dict.fromkeys(v for _, m in terms for v in m))
    if k ** len(variables) > _MAX_CASES:
        return False
    for values in product(range(k), repeat=len(variables)):
        known = dict(zip(variables, values, strict=True))
        total = 0
        for c, m in terms:
            for v in m:
                c = c * known[v] % k
            total += c
        if total % k == 0:
            return False
    return True


def beside_all_sums(equation: Dim) -> bool:
    """Whether terms of one sign never make up for a number: n * n + m * m = 3, where n and m are 1 at most. All sizes are tried."""
    whole = abs(equation.offset)
    varying = {m: c for m, c in equation.mapping.items() if m}
    plain = all(isinstance(a, Symbol) for a in equation.atoms)
    if not whole or not plain or any(c * equation.offset > 0 for c in varying.values()):
        return False
    most: dict[Symbol, int] = {}
    for m, c in varying.items():
        if len(set(m)) == 1 and isinstance(m[0], Symbol):
            bound = integer_root(whole // abs(c), len(m))
            most[m[0]] = min(most.get(m[0], bound), bound)
    if most.keys() != equation.variables or prod(n + 1 for n in most.values()) > _MAX_CASES:
        return False
    every = product(*(range(n + 1) for n in most.values()))
    return all(equation.evaluate(dict(zip(most, values, strict=True))) for values in every)
