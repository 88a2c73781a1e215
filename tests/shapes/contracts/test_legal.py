"""Legal sizes: what is found satisfies all facts, and nothing nearer does."""

from __future__ import annotations

import random
from itertools import combinations

from axon.base.names import Symbol, fresh
from axon.shapes.contracts.legal import alone, satisfied, together
from axon.shapes.dimension import Dim, minimum
from axon.shapes.relation import Relation
from tests.shapes.generate import assignments, relation, sets

SIZE = 10  # up to which sizes are enumerated together; what is given is smaller
ALONE = 2 * SIZE  # up to which one is


def changed(values: dict[Symbol, int], found: dict[Symbol, int]) -> tuple[int, int, int]:
    """How many sizes differ, how many of them are 0, and by how much in all."""
    differ = [(values[s], n) for s, n in found.items() if values[s] != n]
    return len(differ), sum(n == 0 for _, n in differ), sum(abs(old - n) for old, n in differ)


def nearest(actual: int, legal: list[int]) -> list[int]:
    """The nearest below and above; 0 where there is no other."""
    below, above = [n for n in legal if 0 < n < actual][-1:], [n for n in legal if n > actual][:1]
    return [0] * (0 in legal and not below and not above) + below + above


def test_against_brute_force() -> None:
    some = missed = 0
    for seed in range(sets(150)):
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "abc"[: rng.choice((1, 2, 2, 3))])
        ops = rng.choice(("+ -", "+ - *", "+ - / %", "+ + - * / % min max"))
        facts: list[Relation] = [relation(rng, symbols, rng.choice((1, 1, 2)), ops) for _ in range(rng.randrange(1, 4))]
        values = {s: rng.randrange(1, 8) for s in symbols}
        text = f"seed {seed}: {', '.join(map(str, facts))} at {list(values.values())}"
        legal = [v for v in assignments(symbols, SIZE) if all(satisfied(f, v) for f in facts)]
        for s in symbols:
            near = [n for n in range(ALONE) if n != values[s] and all(satisfied(f, {**values, s: n}) for f in facts)]
            found = alone(s, values, facts)
            assert all(all(satisfied(f, {**values, s: n}) for f in facts) for n in found), text
            wanted = nearest(values[s], near)
            if wanted == [0] and any(n >= ALONE for n in found):  # 0 is named only where nothing else fits
                wanted = []
            assert [n for n in found if n < ALONE] == wanted, text
        best = together(values, facts)
        assert best is None or all(satisfied(f, best) for f in facts), text
        best_known = min((changed(values, v) for v in legal), default=None)
        if best_known is not None:
            some += 1
            missed += best is None or changed(values, best) > best_known
            assert best is None or changed(values, best)[0] <= best_known[0], text
    assert missed <= some // 50


def test_the_most_constrained_size_is_chosen_first() -> None:
    a, b, c = symbols = tuple(fresh(name) for name in "abc")
    values = dict(zip(symbols, (3, 5, 3), strict=True))
    facts = [Relation(Dim.of(c), ">=", Dim.of(b)), Relation(Dim.of(a) + 6, "<=", Dim.of(b))]
    assert together(values, facts) == {a: 3, b: 9, c: 9}


def test_nothing_where_no_other_fits() -> None:
    a, b = fresh("a"), fresh("b")
    multiple = [Relation(Dim.of(a) % 64, "=", Dim.of(0))]
    assert alone(a, {a: 20}, multiple) == (64,)
    assert alone(a, {a: 100}, multiple) == (64, 128)
    assert alone(a, {a: 40}, multiple) == (64,)
    assert alone(a, {a: 4}, [Relation(2 * Dim.of(a), "<", Dim.of(1))]) == (0,)
    total = Dim.of(a) + Dim.of(b)
    assert together({a: 3, b: 5}, [Relation(total, "=", Dim.of(1))]) == {a: 1, b: 0}
    assert together({a: 3, b: 5}, [Relation(total, "=", Dim.of(2))]) == {a: 1, b: 1}
    assert together({a: 600, b: 500}, [Relation(total, "<=", Dim.of(0))]) == {a: 0, b: 0}
    least = [Relation(Dim.of(b) + minimum(Dim.of(a), 4), "<", Dim.of(4)), Relation(Dim.of(b) // 3, ">=", Dim.of(1))]
    for n in (5, 5_000):  # a is chosen first, and for none of the sizes near it is there a b
        assert together({a: n, b: 5}, least) == {a: 0, b: 3}


def test_as_few_as_possible_are_changed() -> None:
    symbols = tuple(fresh(f"v{i}") for i in range(4))
    for first, second in combinations(symbols, 2):
        values = dict.fromkeys(symbols, 5)
        found = together(values, [Relation(Dim.of(first) * Dim.of(second), "=", Dim.of(42))])
        assert found == values | {first: 6, second: 7}
