"""Equations that no sizes satisfy, against enumeration."""

from __future__ import annotations

import random
from itertools import product

import pytest

from axon import compiler
from axon.base.names import fresh
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.polynomials import roots_of
from axon.shapes.algebra.prove import unsatisfiable
from axon.shapes.algebra.remainders import beside_all_sums, without_remainder
from axon.shapes.dimension import Dim, dim_sum
from axon.shapes.relation import Relation
from tests.shapes.generate import holds, relation, sets

SYMBOLS = tuple(fresh(name) for name in "nmk")
N, M, K = map(Dim.of, SYMBOLS)


def test_roots() -> None:
    """All of those that are small, and none that is not one; products of linear factors have many."""
    rng = random.Random(3)
    many = 0
    for _ in range(sets(500)):
        p = Dim.of(rng.choice([1, 2, -3]))
        for _ in range(rng.randrange(5)):
            p = p * (N - rng.choice([rng.randrange(-3, 8), rng.randrange(-3, 60), 10 ** rng.randrange(5)]))
        p += rng.choice([0, 0, 1, -2, 7, N])
        found = roots_of(p)
        if found is None:
            assert not p.variables
            continue
        assert all(p.evaluate({SYMBOLS[0]: n}) == 0 for n in found)
        near = {*range(70), *(10**i + d for i in range(5) for d in (-1, 0, 1))}
        assert {n for n in near if p.evaluate({SYMBOLS[0]: n}) == 0} <= set(found), str(p)
        many += len(found) > 1
    assert many > sets(500) // 10


def test_remainders() -> None:
    rng = random.Random(4)
    found = 0
    for _ in range(sets(300)):
        monomials = [N, M, K, N * N, N * M, M * M, N * N * N, Dim.of(1)]
        p = dim_sum(rng.choice(monomials) * rng.choice([1, 1, -1, 2, 3, 4, -6, 8]) for _ in range(rng.randrange(2, 5)))
        if without_remainder(p):
            found += 1
            zeros = (v for v in product(range(12), repeat=3) if p.evaluate(dict(zip(SYMBOLS, v, strict=True))) == 0)
            assert next(zeros, None) is None, str(p)
    assert found > sets(300) // 30


def test_sums_beside_a_number() -> None:
    rng = random.Random(6)
    never = sometimes = 0
    for _ in range(sets(500)):
        monomials = [N, M, K, N * N, N * M, M * M, K * K, N * N * N]
        p = dim_sum(rng.choice(monomials) * rng.choice([1, 1, 2, 3, 4, 7]) for _ in range(rng.randrange(2, 5)))
        p -= rng.randrange(1, 20)
        zeros = (v for v in product(range(20), repeat=3) if p.evaluate(dict(zip(SYMBOLS, v, strict=True))) == 0)
        any_ = next(zeros, None) is not None
        for equation in (p, -p):
            assert not (any_ and beside_all_sums(equation)), str(p)
        never += beside_all_sums(p)
        sometimes += any_
    assert min(never, sometimes) > sets(500) // 30


@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_facts_that_sizes_satisfy_are_called_unsatisfiable(count: int) -> None:
    rng = random.Random(5 + count)
    never, count_sets = 0, min(sets(80), 2_000)  # each is a search
    for _ in range(count_sets):
        symbols = SYMBOLS[: rng.choice([1, count])]
        given = [relation(rng, symbols, 2, rng.choice(["+ - *", "+ * / %", "+ - min *"])) for _ in range(rng.randrange(1, 4))]
        if unsatisfiable(Facts().assume(*given)):
            never += 1
            each = product(range(9 if count > 1 else 200), repeat=count)
            every = (dict(zip(SYMBOLS[:count], values, strict=True)) for values in each)
            assert not any(all(holds(r, values) for r in given) for values in every), [str(r) for r in given]
    assert never > count_sets // 20


@pytest.mark.parametrize(
    "fact",
    ["n * n = 7", "n * n * n = n + 5", "n * n + 1 = 5 * n", "n * n = 3 * m + 2", "n * n + m * m = 4 * k + 3",
     "n * n + n = 2 * m + 1", "n * n = 2 * n + 1000000000000", "n * n = 49, n / 2 = 4", "n % 4 = 1, n % 6 = 2",
     "n * n + m * m = 3", "3 * n * n + 5 * m * k + 7 * k + 4 * m = 6"],
)  # fmt: skip
def test_what_no_sizes_satisfy_is_no_contract(fact: str) -> None:
    checked = compiler.check_text(f"fun f (x : f32[n]) (y : f32[m]) (z : f32[k]) where {fact} = 0")
    assert [d.code for d in checked.diagnostics] == ["AX0310"]


def test_roots_beyond_all_tables() -> None:
    checked = compiler.check_text("fun f (x : f32[n]) where n * n = 1000000000000 = 0")
    assert checked.signatures["f"].endswith(" where n = 1000000")
    assert Relation(N * N, "=", Dim.of(49)).trivial is None
