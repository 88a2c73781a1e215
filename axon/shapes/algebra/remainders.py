"""Equations between polynomials that no sizes satisfy, by the remainders that they can have, or by trying all sizes."""

from __future__ import annotations

from itertools import product
from math import prod

from axon.base.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.relation import integer_root

_MAX_MODULUS = 16
_MAX_CASES = 512  # remainders, or sizes, of all variables together that are tried


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
