"""Sizes that satisfy relations: whatever is answered is held against all small sizes, tried one by one."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Sequence
from itertools import product

import pytest

from axon.base.names import Symbol, fresh
from axon.shapes.algebra.budget import Budget
from axon.shapes.contracts.inverse import Every, Family, Nothing, Unknown, inverse
from axon.shapes.contracts.legal import satisfied
from axon.shapes.contracts.narrow import Box, Empty, narrow
from axon.shapes.dimension import Dim, minimum
from axon.shapes.relation import Relation
from tests.shapes.generate import parse

NAMES = {name: Dim.of(fresh(name)) for name in "abchnmkrsw"}
SMALL = 13


def relations(*texts: str) -> list[Relation]:
    found = []
    for text in texts:
        left, op, right = text.split("  ")
        found.append(Relation(parse(left, NAMES), op, parse(right, NAMES)))
    return found


def variables_of(asked: Sequence[Relation]) -> list[Symbol]:
    return sorted({v for r in asked for v in r.variables}, key=lambda v: v.id)


def holds(r: Relation, values: dict[Symbol, int]) -> bool:
    """By itself: evaluated, with every divisor at least 1."""
    return satisfied(r, values)


def brute(asked: Sequence[Relation], variables: Sequence[Symbol], most: int) -> Iterator[dict[Symbol, int]]:
    for sizes in product(range(most), repeat=len(variables)):
        values = dict(zip(variables, sizes, strict=True))
        if all(holds(r, values) for r in asked):
            yield values


def check(asked: Sequence[Relation], variables: Sequence[Symbol], most: int = SMALL) -> str:
    """An answer is held against every assignment of small sizes; what kind it is."""
    expected = list(brute(asked, variables, most))
    answer = inverse(asked, variables, 300, 20_000)
    match answer:
        case Every(values):
            assert [v for v in values if all(n < most for n in v.values())] == expected
            assert all(holds(r, v) for v in values for r in asked)
            assert len({tuple(v.items()) for v in values}) == len(values)
        case Family(free, sizes, remaining, example):
            assert all(holds(r, example) for r in asked)
            for values in brute(remaining, free, most):  # each member satisfies what was asked …
                whole = values | {v: dim.evaluate(values) for v, dim in sizes.items()}
                if all(0 <= n < 2**31 for n in whole.values()):
                    assert all(holds(r, whole) for r in asked), (whole, remaining)
            for values in expected:  # … and whatever satisfies it is a member
                assert all(holds(r, values) for r in remaining), (values, remaining)
                assert all(dim.evaluate(values) == values[v] for v, dim in sizes.items())
        case Nothing(core):
            assert not expected
            assert not list(brute([asked[i] for i in core], variables, most))
        case Unknown():
            pass
    return type(answer).__name__


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["n * m  =  12"], "Every"),
        (["2 * n  =  3 * m"], "Family"),
        (["2 * n  =  3 * m", "n + m  =  10"], "Every"),
        (["(h + 1) / 2  =  7"], "Every"),
        (["(h - r) / s + 1  =  5", "s  =  2", "r  =  3"], "Every"),
        (["(h - r) / s + 1  =  5", "s  >=  1", "r  <=  s + h"], "Family"),
        (["n % 2  =  1", "n  =  2 * m"], "Nothing"),
        (["4 * a  =  2 * b + 1"], "Nothing"),
        (["6 * a + 10 * b  =  15 * c + 1"], "Family"),
        (["n * n  =  50"], "Nothing"),
        (["n * n - n  =  20", "n  >=  1"], "Every"),
        (["n % 64  =  0", "n  <=  5000"], "Every"),
        (["a * a + b * b  =  c * c", "c  =  10"], "Every"),
        (["a * b  =  c", "a + b  =  7", "c  =  13"], "Nothing"),
        (["min a b  =  5", "a + b  =  12"], "Every"),
        (["max a b  =  5", "a  <>  b"], "Every"),
        (["n / m  =  3", "n  <  20"], "Every"),
        (["n / m / 2  =  3", "m  =  2"], "Every"),
        (["h * c  =  k", "k % 3  =  1", "k  <=  12", "h  >=  2", "c  >=  2"], "Every"),
        (["a  >=  5", "a  <  5"], "Nothing"),
        (["a  >=  5"], "Family"),
        (["a * a * a + b * b * b  =  c * c * c", "a  >=  1", "b  >=  1"], "Unknown"),
    ],
)
def test_examples(texts: list[str], kind: str) -> None:
    asked = relations(*texts)
    variables = variables_of(asked)
    assert check(asked, variables, 40 if len(variables) == 1 else SMALL) == kind


def test_large_numbers() -> None:
    (asked,) = relations("a * b  =  600000000019")
    found = inverse([asked], variables_of([asked]), 100)
    assert isinstance(found, Every)
    assert [tuple(v.values()) for v in found.values] == [(96079, 6244861), (672553, 892123), (892123, 672553), (6244861, 96079)]
    assert all(a * b == 600000000019 for a, b in (v.values() for v in found.values))


def test_a_core_is_what_contradicts() -> None:
    asked = relations("a  =  3", "b  =  8", "b % 3  =  0", "c  >=  b")
    found = inverse(asked, variables_of(asked), 10)
    assert found == Nothing((1, 2))


def test_sizes_end() -> None:
    asked = relations("a  =  2147483647 + b", "b  >=  1")
    assert isinstance(inverse(asked, variables_of(asked), 10), Nothing)


def random_dim(rng: random.Random, depth: int) -> Dim:
    match rng.randrange(7 if depth else 3):
        case 0:
            return Dim.of(rng.randrange(8))
        case 1 | 2:
            return NAMES[rng.choice("abc")]
        case 3:
            return random_dim(rng, depth - 1) + random_dim(rng, depth - 1) * rng.choice((1, 2, -1, 3))
        case 4:
            return random_dim(rng, depth - 1) * random_dim(rng, depth - 1)
        case 5:
            below = Dim.of(rng.randrange(1, 5)) if rng.random() < 0.7 else random_dim(rng, depth - 1)
            return random_dim(rng, depth - 1) // below
        case _:
            return minimum(random_dim(rng, depth - 1), random_dim(rng, depth - 1))


def random_question(rng: random.Random) -> list[Relation]:
    return [
        Relation(random_dim(rng, 2), rng.choice(("=", "=", "=", "<=", ">=", "<>", "<", ">")), random_dim(rng, 1))
        for _ in range(rng.randrange(1, 4))
    ]


@pytest.mark.parametrize("seed", range(4))
def test_random_relations(seed: int) -> None:
    rng = random.Random(seed)
    kinds: dict[str, int] = {}
    for _ in range(1_000 if os.environ.get("AXON_SOAK") else 15):
        asked = random_question(rng)
        kind = check(asked, variables_of(asked), 9)
        kinds[kind] = kinds.get(kind, 0) + 1
    assert len(kinds) > 1
    assert kinds.get("Unknown", 0) <= sum(kinds.values()) // 5, kinds


def test_narrowing_loses_nothing() -> None:
    rng = random.Random(7)
    for _ in range(500 if os.environ.get("AXON_SOAK") else 60):
        asked = random_question(rng)
        variables = variables_of(asked)
        about = {v: [r for r in asked if v in r.variables] for v in variables}
        box = Box(dict.fromkeys(variables, (0, 8)))
        divisors = [q.divisor for r in asked for side in (r.left, r.right) for q in side.quotients]
        expected = list(brute([*asked, *(Relation(d, ">=", Dim.of(1)) for d in divisors)], variables, 9))
        try:
            narrow(box, about, asked, Budget(10_000))
        except Empty:
            assert not expected, asked
        else:
            for values in expected:
                assert all(low <= values[v] <= high for v, (low, high) in box.ranges.items()), asked
