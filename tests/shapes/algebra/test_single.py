"""Facts of one variable in their normal form: the same sizes, said in one way."""

from __future__ import annotations

import random
import re

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.single import of_one_variable
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.shapes.generate import holds, parse, relation, sets

N = fresh("n")
NAMES = {"n": Dim.of(N)}
SIZE = 200


def fact(text: str) -> Relation:
    left, op, right = re.split(r" (=|<>|<=|>=|<|>) ", text)
    return Relation(parse(left, NAMES), op, parse(right, NAMES))


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("n / 2 = 0; n >= 1", "n = 1"),
        ("n / 3 = 2; n % 3 = 1", "n = 7"),
        ("n - n / 2 >= 3", "n >= 5"),
        ("n <= n / 2", "n = 0"),
        ("n <= n % 2", "n <= 1"),
        ("n * n <= n; n >= 1", "n = 1"),
        ("n % 4 = 0; n % 6 = 0", "n % 12 = 0"),
        ("n % 4 = 0; n / 4 >= 1", "n >= 4; n % 4 = 0"),
        ("n % 4 = 0; n >= 3", "n >= 3; n % 4 = 0"),
        ("n % 4 = 2; n >= 3; n <= 20", "n >= 3; n <= 20; n % 4 = 2"),
        ("n <= 7; n <> 7; 2 * n >= 3", "n >= 2; n <= 6"),
        ("n >= 3; n <= 7; n <> 5", "n >= 3; n <= 7; n <> 5"),
        ("n % 4 >= 2; n <= 8; n / 4 >= 0", "n <= 8; n % 4 >= 2"),
        ("n * (12 / n) = 12; n >= 4", "n >= 4; 12 % n = 0"),
        ("min n 5 >= 5", "n >= 5"),
        ("max n 5 <= 7", "n <= 7"),
        ("n >= 100000; n % 2 = 0; n <= 2000000001", "n >= 100000; n <= 2000000001; n % 2 = 0"),
        ("n % 1000003 = 0; n >= 1", "n >= 1; n % 1000003 = 0"),
        ("n >= 3; n <= 2", "n >= 3; n <= 2"),
    ],
)
def test_is_said_in_one_way(facts: str, expected: str) -> None:
    given = [fact(text) for text in facts.split("; ")]
    assert "; ".join(map(str, of_one_variable(N, given, given))) == expected


def test_against_brute_force() -> None:
    said = 0
    for seed in range(sets(400)):
        rng = random.Random(seed)
        ops = rng.choice(("+ -", "+ - *", "+ - / %", "+ - min max", "+ + - * / % min max"))
        given = [relation(rng, (N,), rng.choice((1, 2, 3)), ops) for _ in range(rng.randrange(1, 5))]
        found = of_one_variable(N, given, given)
        again = of_one_variable(N, found, found)
        text = f"seed {seed}: {', '.join(map(str, given))} is {', '.join(map(str, found))}, then {', '.join(map(str, again))}"
        legal = [n for n in range(SIZE) if all(holds(r, {N: n}) for r in given)]
        assert legal == [n for n in range(SIZE) if all(holds(r, {N: n}) for r in found)], text
        assert again == found or not legal, text
        said += found != given
    assert said > sets(400) // 4
