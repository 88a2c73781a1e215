"""Legal sizes: what is found satisfies all facts, and nothing nearer does."""

from __future__ import annotations

import random
from itertools import combinations

from generate import assignments, relation, sets

from axon.names import Symbol, fresh
from axon.shapes.dimension import Dim
from axon.shapes.legal import alone, satisfied, together
from axon.shapes.relation import Relation

SIZE = 10  # up to which sizes are enumerated; what is given is smaller


def changed(values: dict[Symbol, int], found: dict[Symbol, int]) -> tuple[int, int]:
    """How many sizes differ, and by how much in all."""
    return sum(values[s] != n for s, n in found.items()), sum(abs(values[s] - n) for s, n in found.items())


def test_against_brute_force() -> None:
    some = missed = 0
    for seed in range(sets(150)):
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "abc"[: rng.choice((1, 2, 2, 3))])
        ops = rng.choice(("+ -", "+ - *", "+ - / %", "+ + - * / % min max"))
        facts: list[Relation] = [relation(rng, symbols, rng.choice((1, 1, 2)), ops) for _ in range(rng.randrange(1, 4))]
        values = {s: rng.randrange(1, 8) for s in symbols}
        text = f"seed {seed}: {', '.join(map(str, facts))} at {list(values.values())}"
        legal = [v for v in assignments(symbols, SIZE) if all(v.values()) and all(satisfied(f, v) for f in facts)]
        for s in symbols:
            near = sorted(v[s] for v in legal if all(v[o] == values[o] for o in symbols if o != s) and v[s] != values[s])
            below, above = [n for n in near if n < values[s]], [n for n in near if n > values[s]]
            found = alone(s, values, facts)
            assert all(all(satisfied(f, {**values, s: n}) for f in facts) for n in found), text
            assert [n for n in found if n < SIZE] == [*below[-1:], *above[:1]], text
        best = together(values, facts)
        assert best is None or all(satisfied(f, best) for f in facts), text
        best_known = min((changed(values, v) for v in legal), default=None)
        if best_known is not None:
            some += 1
            missed += best is None or changed(values, best) > best_known
            assert best is None or changed(values, best)[0] <= best_known[0], text
    assert missed <= some // 50


def test_as_few_as_possible_are_changed() -> None:
    symbols = tuple(fresh(f"v{i}") for i in range(4))
    for first, second in combinations(symbols, 2):
        values = dict.fromkeys(symbols, 5)
        found = together(values, [Relation(Dim.of(first) * Dim.of(second), "=", Dim.of(42))])
        assert found == values | {first: 6, second: 7}
