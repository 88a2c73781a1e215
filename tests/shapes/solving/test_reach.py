"""How far expressions over indices reach, against enumeration."""

from __future__ import annotations

import random
from itertools import product

import pytest

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import Answer, prove
from axon.shapes.dimension import Dim, maximum, minimum
from axon.shapes.relation import Relation
from axon.shapes.solving.reach import Reach
from tests.shapes.generate import sets

P, Q, N, M = (Dim.of(fresh(name)) for name in "pqnm")


def symbol(dim: Dim) -> Symbol:
    assert dim.symbol is not None
    return dim.symbol


@pytest.mark.parametrize(
    ("dim", "extent", "low", "high"),
    [
        (P % N, N * M, Dim.of(0), N - 1),
        (P // M, N * M, Dim.of(0), N - 1),
        (M * (P % N) + P // N, N * M, Dim.of(0), N * M - 1),
        (N * (P // N) + (P % N), N * M, Dim.of(0), N * M - 1),
        ((P + M) % N, N, Dim.of(0), N - 1),
        (3 * ((M - P) % N), N, Dim.of(0), 3 * N - 3),
        ((3 * P + M) % 5, Dim.of(7), Dim.of(0), Dim.of(4)),
        ((5 * P + M) % 10, N, None, None),
        (P % N, M, Dim.of(0), minimum(N, M) - 1),
        ((P + 1) % N, M, None, minimum(M, N - 1)),
        ((P + 2) % N, M, None, None),  # n may be 2, or less
        ((P + 2) % 5, M, None, minimum(M + 1, Dim.of(4))),
        ((4 - P) % 5, M, maximum(5 - M, Dim.of(0)), None),
        (N * (P // N) + N - 1 - P % N, M, N - minimum(N, M), N * ((M - 1) // N) + N - 1),
        (N * (P // N) + (P % N + 1) % N, M, None, minimum(M, N * ((M - 1) // N) + N - 1)),
        (3 * (P // 3) + 2 - P % 3, M, 3 - minimum(M, Dim.of(3)), 3 * ((M - 1) // 3) + 2),
        ((P % N + 1) % N, M, None, minimum(M, N - 1)),
        (P // N - P % N, M, 1 - minimum(M, N), None),  # the last block, if it is short, or the one before
        (P % N - P // N, M, None, minimum(M, N) - 1),
        (maximum(P, Dim.of(3)), N, Dim.of(3), maximum(Dim.of(3), N - 1)),
        (P - minimum(P + 1, Dim.of(3)), N, Dim.of(-1), maximum(Dim.of(-1), N - 4)),
        (maximum(P, N - 1 - P), N, None, N - 1),
        (minimum(P, N - 1 - P), N, Dim.of(0), None),
        (P - P // 2, N, Dim.of(0), N // 2),
        (2 * P - (3 * P) // 2, N, Dim.of(0), 2 * N - 2 - (3 * N - 3) // 2),
        (P - 2 * (P // 2) - P // 3, N, None, None),
        (P * (P // 2), N, Dim.of(0), (N - 1) * ((N - 1) // 2)),
        (maximum(Dim.of(0), minimum(P - 1, N - 1)), N + 2, Dim.of(0), N - 1),
        (maximum(Dim.of(0), minimum(P - 3, N - 1)), N + 6, Dim.of(0), N - 1),
        (minimum(2 * P, N + 3) % N, Dim.of(3), None, None),  # the minimum leaves values out
        (P % N * M + P // N, M * N, Dim.of(0), N * M - 1),
    ],
)
def test_reaches(dim: Dim, extent: Dim, low: Dim | None, high: Dim | None) -> None:
    facts = Facts().assume(*(Relation(d, ">=", Dim.of(1)) for d in (N, M)))
    reach = Reach(facts, {symbol(P): extent})
    for expected, upper in ((low, False), (high, True)):
        found = reach.extreme(dim, upper)
        if expected is None:
            assert found is None
        else:
            assert found is not None
            assert prove(facts, Relation(found, "=", expected)) is Answer.PROVED, str(found)


def test_conditions_move_ends() -> None:
    guards = (Relation(P, "<=", M), Relation(P, ">=", Dim.of(2)))
    reach = Reach(Facts(), {symbol(P): N}, guards, True)
    assert reach.extreme(2 * P, upper=True) == 2 * minimum(N - 1, M)
    assert reach.extreme(2 * P, upper=False) == Dim.of(4)
    assert reach.extreme(P % M, upper=True) is None


@pytest.mark.parametrize(
    ("guard", "dim", "low", "high"),
    [
        (Relation(P % 2, "=", Dim.of(0)), P, Dim.of(0), 2 * ((N + 1) // 2) - 2),
        (Relation(P % 2, "<>", Dim.of(0)), P, Dim.of(1), 2 * (N // 2) - 1),
        (Relation(P % 3, "=", Dim.of(2)), P // 3, Dim.of(0), N // 3 - 1),
        (Relation(P % M, "=", Dim.of(0)), P // M, Dim.of(0), (N + M - 1) // M - 1),
        (Relation(P, "=", Dim.of(3)), 2 * P, Dim.of(6), Dim.of(6)),
        (Relation(P, "=", Q), P + Q, Dim.of(0), 2 * minimum(N, M) - 2),
        (Relation(2 * P, "<", M), P, Dim.of(0), minimum(N - 1, (M - 1) // 2)),
        (Relation(3 * P, ">=", M), P, (M + 2) // 3, N - 1),
        (Relation(P % 4, "<", Dim.of(2)), P, Dim.of(0), minimum(4 * ((N + 3) // 4) - 3, N - 1)),
        (Relation(P % 4, "<>", Dim.of(3)), P % 4, Dim.of(0), minimum(N, Dim.of(3)) - 1),
        (Relation(P % M, "<", Dim.of(2)), P // M, Dim.of(0), (N + M - 1) // M - 1),
        (Relation(P // 4, "<", M), P, Dim.of(0), minimum(4 * M - 1, N - 1)),
        (Relation(Q % 3, ">=", Dim.of(1)), P, Dim.of(0), N - 1),
    ],
)
def test_conditions_that_are_taken_into_account(guard: Relation, dim: Dim, low: Dim, high: Dim) -> None:
    facts = Facts().assume(*(Relation(d, ">=", Dim.of(1)) for d in (N, M)))
    reach = Reach(facts, {symbol(P): N, symbol(Q): M}, (guard,), True)
    within, _ = reach.solved(dim)
    assert within.conditions(Relation(dim, ">=", Dim.of(0))) is not None
    for expected, upper in ((low, False), (high, True)):
        found = reach.extreme(dim, upper)
        assert found is not None
        assert prove(facts, Relation(found, "=", expected)) is Answer.PROVED, str(found)


@pytest.mark.parametrize("guard", [Relation(P % 3, "<>", Dim.of(0)), Relation(P * Q, "<", N), Relation(P % M, "<", N)])
def test_conditions_that_are_not(guard: Relation) -> None:
    reach = Reach(Facts(), {symbol(P): N, symbol(Q): M}, (guard,), True)
    assert reach.conditions(Relation(P, "<", M)) is None


def test_what_conditions_say_of_sizes() -> None:
    reach = Reach(Facts(), {symbol(P): N}, (Relation(P, ">", M), Relation(M, ">=", Dim.of(2))), True)
    assert reach.conditions(Relation(P, "<", M)) == [Relation(M, ">=", Dim.of(2))]
    some = reach.conditions(Relation(M, ">", N))
    assert some is not None
    assert some[0].slack == N - M - 2  # an index is beyond m


def _condition(rng: random.Random) -> Relation:
    end = rng.choice([N, M, Dim.of(rng.randrange(4)), N - 1, M - 2, N + M])
    index = rng.choice([P, Q])
    small = Dim.of(rng.randrange(3))
    return rng.choice([
        Relation(index % rng.choice([2, 3]), rng.choice(["=", "<>"]), small),
        Relation(index % rng.choice([N, M]), rng.choice(["=", "<", ">="]), small),
        Relation(index % rng.choice([2, 3, 4]), rng.choice(["<", ">=", "<=", "<>"]), small + rng.randrange(2)),
        Relation(index // rng.choice([N, 2, 3]), rng.choice(["<", ">=", "<>"]), rng.choice([small, M])),
        Relation(index, "=", rng.choice([end, P])),
        Relation(rng.choice([1, 2, 3]) * index, rng.choice(["<", ">=", "<>", ">"]), end),
        Relation(P, rng.choice(["<", "<=", "="]), Q + small),
        Relation(P + Q, rng.choice(["<", ">="]), end),
        Relation(rng.choice([N, M]), rng.choice(["<", ">=", "="]), rng.choice([N, M, small])),
    ])  # fmt: skip


def test_conditions_against_enumeration() -> None:
    """Nothing that satisfies the conditions is beyond what is given; it is reached where one condition is all there is."""
    rng = random.Random(11)
    facts = Facts().assume(*(Relation(d, ">=", Dim.of(1)) for d in (N, M)))
    found = exact = 0
    for _ in range(sets(400)):
        extents = {symbol(P): rng.choice([N, M, N * M, 2 * N]), symbol(Q): rng.choice([N, M, Dim.of(3)])}
        guards = tuple(_condition(rng) for _ in range(rng.randrange(1, 4)))
        dim = rng.choice([P, P, 2 * P + 1, P + Q, P - Q, P // 2, P % 2 + P, N - P, maximum(P, Q), _generated(rng, 2, [P, Q, N])])
        reach = Reach(facts, extents, guards, True)
        for upper in (False, True):
            end = reach.extreme(dim, upper)
            if end is None:
                continue
            found += 1
            assert end.variables <= {symbol(N), symbol(M)}
            within, solved = reach.solved(dim)
            conditions = within.conditions(Relation(solved, ">=", Dim.of(0)))
            reached = conditions is not None and len(guards) == 1 and guards[0].op != "<>" and dim in (P, 2 * P + 1, N - P)
            for n, m in product(range(1, 6), repeat=2):
                sizes = {symbol(N): n, symbol(M): m}
                places = (
                    sizes | {symbol(P): i, symbol(Q): j}
                    for i in range(extents[symbol(P)].evaluate(sizes))
                    for j in range(extents[symbol(Q)].evaluate(sizes))
                )
                values = [dim.evaluate(at) for at in places if all(g.holds(at) for g in guards)]
                if not values:
                    continue
                best, said = max(values) if upper else min(values), end.evaluate(sizes)
                shown = (str(dim), [str(g) for g in guards], {s.name: str(e) for s, e in extents.items()}, upper, n, m, str(end))
                assert said >= best if upper else said <= best, shown
                exact += reached
                assert said == best or not reached, shown
                assert conditions is None or all(c.holds(sizes) for c in conditions if c.variables <= set(sizes)), shown
    assert found > sets(400) / 3
    assert exact > sets(400)


def _generated(rng: random.Random, depth: int, leaves: list[Dim]) -> Dim:
    if depth == 0 or rng.random() < 0.2:
        return rng.choice([*leaves, Dim.of(rng.randrange(-2, 4))])
    a, b = (_generated(rng, depth - 1, leaves) for _ in range(2))
    divisor = rng.choice([N, M, Dim.of(2), Dim.of(3), N * M])
    return rng.choice([a + b, a - b, a + b, a * rng.choice([N, Dim.of(2), Dim.of(3), Dim.of(-1)]), minimum(a, b), maximum(a, b),
                       a // divisor, a % divisor, a % divisor])  # fmt: skip


def _of_digits(rng: random.Random) -> Dim:
    """What people make of i / d and i % d: blocks read backwards, or turned by one."""
    divisor = rng.choice([N, M, Dim.of(2), Dim.of(3), Dim.of(4), N * M])
    digit, low = P // divisor, P % divisor
    turned = (rng.choice([low, P, -low, -P]) + rng.randrange(-1, 4)) % divisor
    factors = [divisor, divisor, -divisor, Dim.of(rng.randrange(-2, 3)), M]
    return rng.choice(factors) * digit + rng.randrange(-2, 3) * low + rng.randrange(-1, 3) * turned + rng.randrange(-1, 2) * divisor


@pytest.mark.parametrize("digits", [False, True])
def test_against_enumeration(digits: bool) -> None:
    """What is given is reached, and nothing is beyond it, for all sizes for which no range is empty."""
    rng = random.Random(7)
    facts = Facts().assume(*(Relation(d, ">=", Dim.of(1)) for d in (N, M)))
    found = 0
    for _ in range(sets(400)):
        inner = rng.choice([N, M, N * M, Dim.of(3), N + M, 2 * N, minimum(P + 1, N), N - 1])
        extents = {symbol(P): rng.choice([N, M, N * M, 2 * N, Dim.of(4)]), symbol(Q): inner}
        dim = _of_digits(rng) if digits else _generated(rng, 3, [P, Q, P, N])
        for upper in (False, True):
            end = Reach(facts, extents).extreme(dim, upper)
            if end is None:
                continue
            found += 1
            assert end.variables <= {symbol(N), symbol(M)}
            for n, m in product(range(1, 6), repeat=2):
                sizes = {symbol(N): n, symbol(M): m}
                values = [
                    dim.evaluate(sizes | {symbol(P): i, symbol(Q): j})
                    for i in range(extents[symbol(P)].evaluate(sizes))
                    for j in range(extents[symbol(Q)].evaluate(sizes | {symbol(P): i}))
                ]
                if not values or (inner == N - 1 and n == 1):
                    continue
                best = max(values) if upper else min(values)
                assert end.evaluate(sizes) == best, (str(dim), {s.name: str(e) for s, e in extents.items()}, upper, n, m)
    assert found > sets(400) / 2
