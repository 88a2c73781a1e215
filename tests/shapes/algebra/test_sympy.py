"""SymPy as a second opinion on the normal form of polynomials."""

from __future__ import annotations

import sympy
from hypothesis import given
from hypothesis import strategies as st

from axon.base.names import fresh
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
