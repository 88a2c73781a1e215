"""Dims and relations as SymPy has them: the same numbers for all sizes, in the form in which they are printed."""

from __future__ import annotations

import os
import random

import pytest
import sympy

from axon.base.names import fresh
from axon.shapes.algebra.polynomials import expression, largest, relation, size_symbol
from axon.shapes.dimension import Dim, minimum
from axon.shapes.relation import Relation
from tests.shapes.generate import parse

NAMES = {name: Dim.of(fresh(name)) for name in "abn"}
SYMBOLS = {dim.symbol: size_symbol(name) for name, dim in NAMES.items() if dim.symbol is not None}
a, b, n = (size_symbol(name) for name in "abn")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2 * n + 1", 2 * n + 1),
        ("(n - 1) / 2 + 1", sympy.floor((n + 1) / 2)),
        ("2 * ((n - 1) / 2)", 2 * sympy.floor((n - 1) / 2)),
        ("n % 4", sympy.Mod(n, 4)),
        ("a * (n % 4)", a * sympy.Mod(n, 4)),
        ("n / a", sympy.floor(n / a)),
        ("min n 3", sympy.Min(n, 3)),
        ("max a (b + 1)", sympy.Max(a, b + 1)),
        ("n + 2 - max n 3", sympy.Min(2, n - 1)),
        ("0", sympy.Integer(0)),
    ],
)
def test_forms(text: str, expected: sympy.Expr) -> None:
    assert expression(parse(text, NAMES), SYMBOLS) == expected


@pytest.mark.parametrize(
    ("left", "op", "right", "expected"),
    [
        ("n % 2", "=", "0", sympy.Eq(sympy.Mod(n, 2), 0)),
        ("(n + 1) % 2", "=", "0", sympy.Eq(sympy.Mod(n, 2), 1)),
        ("a", "<=", "b + 1", sympy.Le(a, b + 1)),
        ("b - a + 1", ">=", "0", sympy.Le(a, b + 1)),
        ("n", "<>", "a", sympy.Ne(n, a)),
        ("n", ">=", "3", sympy.Ge(n, 3)),
        ("n + 2", ">=", "0", sympy.true),
    ],
)
def test_relations(left: str, op: str, right: str, expected: sympy.Basic) -> None:
    assert relation(Relation(parse(left, NAMES), op, parse(right, NAMES)), SYMBOLS) == expected


def test_the_largest() -> None:
    assert largest([n, n]) == n
    assert largest([n, a]).subs({n: 3, a: 4}) == 4


def random_dim(rng: random.Random, depth: int) -> Dim:
    match rng.randrange(6 if depth else 2):
        case 0:
            return Dim.of(rng.randrange(6))
        case 1:
            return NAMES[rng.choice("abn")]
        case 2:
            return random_dim(rng, depth - 1) - random_dim(rng, depth - 1) * rng.choice((1, 2, -1))
        case 3:
            return random_dim(rng, depth - 1) * random_dim(rng, depth - 1)
        case 4:
            return random_dim(rng, depth - 1) // rng.randrange(1, 5)
        case _:
            return minimum(random_dim(rng, depth - 1), random_dim(rng, depth - 1)) * rng.choice((1, -1))


@pytest.mark.parametrize("seed", range(3))
def test_the_same_numbers(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300 if os.environ.get("AXON_SOAK") else 15):
        left, right = random_dim(rng, 3), random_dim(rng, 2)
        said = Relation(left, rng.choice(("=", "<>", "<", "<=", ">", ">=")), right)
        shown, told = expression(left, SYMBOLS), relation(said, SYMBOLS)
        for _ in range(4):
            values = {dim.symbol: rng.randrange(12) for dim in NAMES.values() if dim.symbol is not None}
            put = {SYMBOLS[s]: v for s, v in values.items()}
            assert shown.subs(put) == left.evaluate(values)
            assert bool(told.subs(put)) == said.holds(values)
