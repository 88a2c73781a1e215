"""Inequalities with cases, and what two of them say together."""

from __future__ import annotations

import random

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.clauses import clauses, shared
from axon.shapes.algebra.form import normal
from axon.shapes.dimension import Dim, maximum
from axon.shapes.relation import Relation
from tests.shapes.generate import assignments, parse, sets

NAMES = {name: Dim.of(fresh(name)) for name in "nmk"}


@pytest.mark.parametrize(
    ("clause", "other", "common"),
    [
        (["n", "n + m - k"], ["n", "n + k - m"], ["n"]),
        (["n", "m - k"], ["n", "k - m"], []),  # 2 * n may be more
        (["n - 3", "n + m"], ["n - 3", "n - 5 - m"], ["n - 3"]),
        (["n - 3", "n + m"], ["n - 3", "n - 4 - m"], []),
        (["n", "m", "n - k"], ["n", "m", "n + k + 1"], ["n", "m"]),
        (["n", "m", "n - k"], ["n", "n + k"], []),
        (["n", "m"], ["k", "2 * n - m"], []),
        (["n", "m"], ["n", "m"], []),
    ],
)
def test_shared(clause: list[str], other: list[str], common: list[str]) -> None:
    found = shared(*([parse(part, NAMES) for part in parts] for parts in (clause, other)))
    assert list(found) == [parse(part, NAMES) for part in common]


def test_shared_against_brute_force() -> None:
    """What is shared says as much as the two together."""
    rng = random.Random(1)
    symbols = tuple(fresh(name) for name in "ab")
    found = 0

    def part() -> Dim:
        return sum((rng.randrange(-1, 2) * Dim.of(v) for v in symbols), Dim.of(rng.randrange(-2, 3)))

    for _ in range(10 * sets(300)):
        p, *parts = (part() for _ in range(rng.randrange(2, 4)))
        clause = [p, *parts]
        other = [p, *parts[:-1], 2 * p - parts[-1] + rng.randrange(-2, 4)]
        if common := shared(clause, other):
            found += 1
            for values in assignments(symbols, 6):
                both, alone = (all(any(d.evaluate(values) >= 0 for d in c) for c in cs) for cs in ((clause, other), (common,)))
                assert both == alone, (clause, other, values)
    assert found > sets(300)


@pytest.mark.parametrize(("terms", "conjuncts"), [(1, 2), (6, 64), (9, 512), (10, None), (40, None)])
def test_a_sum_of_maxima_is_taken_apart_while_its_cases_are_few(terms: int, conjuncts: int | None) -> None:
    """A sum of k maxima has 2 ** k cases: from some k on it stays as it was written, and costs nothing."""
    n, *sizes = (Dim.of(fresh(name)) for name in ("n", *"abcdefg" * 6))
    slack = n - sum((maximum(size, Dim.of(2)) for size in sizes[:terms]), Dim.of(0))
    found = clauses(slack)
    assert (found if found is None else len(found)) == conjuncts
    assert len(normal(Relation(slack, ">=", Dim.of(0)))) == (conjuncts or 1)
