"""SymPy as a second opinion on polynomials: normal forms, and membership in the ideal of what is known to be 0."""

from __future__ import annotations

import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from axon.base.names import fresh
from axon.shapes.algebra.budget import Budget
from axon.shapes.algebra.groebner import Basis
from axon.shapes.dimension import Dim

NAMES = [fresh(name) for name in "abcd"]
TWINS = sympy.symbols("x0:4")

monomials = st.tuples(st.integers(-3, 3), st.lists(st.integers(0, 3), max_size=2))
polynomials = st.lists(monomials, min_size=1, max_size=3)


def dim(terms: list[tuple[int, list[int]]]) -> Dim:
    total = Dim.of(0)
    for coefficient, factors in terms:
        product = Dim.of(coefficient)
        for f in factors:
            product = product * Dim.of(NAMES[f])
        total = total + product
    return total


def twin(terms: list[tuple[int, list[int]]]) -> sympy.Expr:
    return sympy.Add(*(sympy.Mul(coefficient, *(TWINS[f] for f in factors)) for coefficient, factors in terms))


@given(polynomials, polynomials)
def test_products(a: list[tuple[int, list[int]]], b: list[tuple[int, list[int]]]) -> None:
    product = dim(a) * dim(b)
    theirs = sympy.Poly(twin(a) * twin(b), *TWINS)
    mine = {tuple(m.count(n) for n in NAMES): c for c, m in product.terms}
    assert mine == {powers: int(c) for powers, c in theirs.terms() if c}


@settings(max_examples=60, deadline=None)
@given(st.lists(polynomials, min_size=1, max_size=2), st.lists(polynomials, min_size=2, max_size=2), polynomials)
def test_membership(
    known: list[list[tuple[int, list[int]]]], factors: list[list[tuple[int, list[int]]]], other: list[tuple[int, list[int]]]
) -> None:
    """A combination of what is 0 reduces to 0, and anything else does just when SymPy says so."""
    basis = Basis([dim(k) for k in known], Budget(200_000))
    theirs = sympy.groebner([twin(k) for k in known], *TWINS, order="grevlex")
    inside = sum((dim(k) * dim(f) for k, f in zip(known, factors, strict=False)), Dim.of(0))
    for goal, expression in ((inside, None), (dim(other), twin(other))):
        member = expression is None or theirs.contains(expression)
        assert (basis.reduce(goal, Budget(200_000)) == Dim.of(0)) == bool(member)
