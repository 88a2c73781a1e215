"""What would make sizes equal that were named apart."""

from __future__ import annotations

import random
import re
from itertools import pairwise

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import Answer
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving import named
from axon.shapes.solving.named import forced, never_equal
from axon.shapes.solving.simplify import independent, normal
from tests.shapes.generate import assignments, holds, parse, relation, sets

NAMES = {name: Dim.of(fresh(name)) for name in "hwrijn"}


def fact(text: str) -> Relation:
    left, op, right = re.split(r" (<=|>=|<>|=|<|>) ", text)
    return Relation(parse(left, NAMES), op, parse(right, NAMES))


@pytest.mark.parametrize(
    ("contract", "stated", "equal"),
    [
        (["h <= w", "w <= h"], [], True),
        (["h <= w", "w <= h"], ["h = w"], False),
        (["h <= w", "w <= h + 3"], [], True),
        (["h <= w", "w <= h + 3"], ["w <= h + 3"], False),
        (["2 * (h / 2) <= w", "2 * (w / 2) <= h"], [], True),
        (["r * (h / r) <= w", "r * (w / r) <= h", "r >= 1"], [], True),
        (["h <= w", "w <= 3 * h"], [], False),
        (["h <= w", "w <= r * h"], [], False),
        (["h <= w", "h >= r", "w >= r"], [], False),
        (["h * w <= n", "n <= h * w + h"], [], False),
        (["i <= h", "j <= w", "h <= i + r", "w <= j + r"], [], False),
        (["h % r = 0", "w % r = 0"], [], False),
        (["h < 2 * w", "w < 2 * h"], [], False),
        (["h <= max w 2", "min h (r + 3) <= max r 2"], [], False),  # w = 9 beside h = 1
        (["min h w < 2 * r", "h < 2 * i", "w < 2 * h", "i < 2 * r + max 0 (h - w)", "i < 2 * r + max 0 (w - h)"], [], False),
    ],
)
def test_equal_together(contract: list[str], stated: list[str], equal: bool) -> None:
    reasons = [r for text in contract for r in normal(fact(text))]
    kept = independent(reasons, Facts())
    found = forced(kept, reasons.__contains__, frozenset(), frozenset(), Facts().assume(*map(fact, stated)))
    assert (found is not None) == equal, str(found)


@pytest.mark.parametrize(
    ("left", "right", "stated", "why"),
    [
        ("2 * n", "2 * i + 1", [], "never"),
        ("n", "2 * n", [], "empty"),
        ("n", "7", ["n <= 3"], "never"),
        ("n", "1", [], None),
        ("n * h", "n", [], None),
        ("n", "h / 2", [], None),
        ("n", "n", [], None),
    ],
)
def test_coercions(left: str, right: str, stated: list[str], why: str | None) -> None:
    assert never_equal(parse(left, NAMES), parse(right, NAMES), map(fact, stated)) == why


def test_coercions_against_brute_force() -> None:
    """What is never equal is equal for no small sizes; what is only if some size is 0, for none above."""
    found = 0
    for seed in range(sets(300)):
        rng = random.Random(seed)
        symbols = tuple(fresh(name) for name in "ab")
        equal = relation(rng, symbols, 2)
        stated = [relation(rng, symbols, 1) for _ in range(rng.randrange(2))]
        why = never_equal(equal.left, equal.right, stated)
        if why is not None:
            found += 1
            goal = Relation(equal.left, "=", equal.right)
            for values in assignments(symbols, 7):
                if all(holds(r, values) for r in stated) and (why == "never" or min(values.values()) > 0):
                    assert holds(goal, values) is not True, (seed, str(goal), why)
    assert found > sets(300) / 10


def test_what_is_only_not_proved_is_nobodys_mistake(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the prover runs out of time: neither what follows, nor what so many facts say that no assignment can be tried."""
    monkeypatch.setattr(named, "prove", lambda facts, relation: Answer.UNKNOWN)
    chain = [Dim.of(fresh("n")) for _ in range(300)]
    stated = Facts().assume(*(Relation(a, "=", b + 1) for a, b in pairwise(chain)))
    for end in (chain[2], chain[-1]):
        steps = chain.index(end)
        implied = Relation(chain[0], "=", end + steps)
        assert forced([implied], lambda r: False, frozenset(), frozenset(), stated) is None
    more = Relation(chain[0], "=", chain[2] + 1)
    assert forced([more], lambda r: False, frozenset(), frozenset(), Facts()) == more
