"""Relations: negation, decision by normal form, and how they read."""

from __future__ import annotations

import random

import pytest

from axon.base.names import fresh
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.shapes.generate import RELATIONS, assignments, holds, parse, relation, sets

h, r, n, m, d, i = (Dim.of(fresh(name)) for name in "hrnmdi")
ZERO = Dim.of(0)


@pytest.mark.parametrize(
    ("left", "op", "right", "text"),
    [
        (h - r + 1, ">=", ZERO, "r <= h + 1"),
        (h - 1, ">=", ZERO, "h >= 1"),
        (ZERO, "<=", h - 1, "h >= 1"),
        (Dim.of(1), "<=", h, "h >= 1"),
        (n % 2, "=", ZERO, "n % 2 = 0"),
        (n, "=", 2 * (n // 2), "n % 2 = 0"),
        (2 * ((n - 1) // 2), "=", n - 1, "n % 2 = 1"),
        ((n + m + 3) % 8, "<>", ZERO, "(n + m) % 8 <> 5"),
        (h * (d // h), "=", d, "d % h = 0"),
        (n - i - 1, ">=", ZERO, "i < n"),
        (4 * d, "=", 3 * d, "4 * d = 3 * d"),
        (d - r, "=", ZERO, "d = r"),
        (-d, "<>", -r + 1, "r <> d + 1"),
        (n + m, "=", Dim.of(10), "n + m = 10"),
        (ZERO, "=", n + m - 10, "n + m = 10"),
        (-n, ">=", Dim.of(-5), "n <= 5"),
    ],
)
def test_rendering(left: Dim, op: str, right: Dim, text: str) -> None:
    assert str(Relation(left, op, right)) == text


def test_meaning() -> None:
    """A relation, its negation, its flip, its slack, its triviality and its text agree, everywhere."""
    symbols = tuple(fresh(name) for name in "abc")
    names = {s.name: Dim.of(s) for s in symbols}
    for seed in range(sets(400)):
        given = relation(random.Random(seed), symbols, 2)
        text = str(given)
        op = next(op for op in sorted(RELATIONS, key=len, reverse=True) if f" {op} " in text)
        left, right = text.split(f" {op} ")
        read = Relation(parse(left, names), op, parse(right, names))
        for values in assignments(symbols, 4):
            truth = holds(given, values)
            if truth is None:
                continue
            assert holds(given.negated, values) is not truth
            assert holds(given.flipped, values) is truth
            assert given.trivial in (None, truth)
            assert holds(read, values) is truth, text
            slack = given.slack.evaluate(values)
            assert truth == {"=": slack == 0, "<>": slack != 0}.get(given.op, slack >= 0)
