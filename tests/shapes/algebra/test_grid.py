"""What is seen at many small assignments at once, against one after the other."""

from __future__ import annotations

import random
from itertools import product

import pytest

from axon.base.names import fresh
from axon.shapes.algebra import grid
from axon.shapes.algebra.facts import claims_of
from tests.shapes.generate import holds, relation, sets


@pytest.mark.parametrize("count", [1, 2, 3])
def test_the_same_as_one_by_one(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grid, "_SIDES", ((), *[(0, 1, 2, 3, 7)] * 3))
    monkeypatch.setattr(grid, "_MAX_WEIGHT", 10_000)
    grid._satisfied.cache_clear(), grid._assigned.cache_clear()
    rng = random.Random(count)
    outcomes = set()
    for _ in range(sets(60)):
        symbols = tuple(fresh(name) for name in "abc"[:count])
        given = [relation(rng, symbols, 2) for _ in range(rng.randrange(3))]
        goal = relation(rng, symbols, 3)
        every = [dict(zip(symbols, values, strict=True)) for values in product((0, 1, 2, 3, 7), repeat=count)]
        admitted = [values for values in every if all(holds(r, values) for r in given)]
        op = goal.op if goal.op in ("=", "<>") else ">="
        expected = [any(holds(goal, values) is wanted for values in admitted) for wanted in (True, False)]
        found = grid.seen([claim for r in given for claim in claims_of(r)], (op, goal.slack), symbols)
        assert found == tuple(expected), (str(goal), [str(r) for r in given])
        outcomes.add(found)
    grid._satisfied.cache_clear(), grid._assigned.cache_clear()
    assert len(outcomes) == 4
