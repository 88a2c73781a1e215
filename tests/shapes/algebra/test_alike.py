"""Sizes are put in an order that neither their names nor their age decide."""

from __future__ import annotations

import random
from itertools import permutations

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.alike import exchanged
from axon.shapes.algebra.form import normal
from axon.shapes.contracts.legal import satisfied
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from tests.shapes.generate import assignments, parse, relation, sets

SYMBOLS = [fresh(name) for name in "abcd"]
NAMES = {s.name: Dim.of(s) for s in SYMBOLS}


def facts(text: str) -> list[Relation]:
    return [n for fact in text.split(", ") for n in normal(_fact(fact))]


def _fact(text: str) -> Relation:
    left, op, right = text.split(" ", 2)
    return Relation(parse(left, NAMES), op, parse(right, NAMES))


def turned(relations: list[Relation], order: tuple[int, ...]) -> list[Relation]:
    images = {s: Dim.of(SYMBOLS[i]) for s, i in zip(SYMBOLS, order, strict=True)}
    return [n for r in relations for n in normal(r.substitute(images))]


@pytest.mark.parametrize(
    "text",
    [
        "a <= b, b <= c, c <= d",
        "a%b = 0, b%c = 0, d >= 2",
        "a+b <= c, c <> d",  # a and b may be exchanged
        "a = b*c, a = c*d, b <= 3",
        "a <> b, c <> d, a*d <= b*c",  # a and d, and b and c
        "a <> b, c <> d",  # and these pairs
        "a/b+c <= d, b/a+d <= c",
        "(a-b)%3 <> 1, (c-d)%5 <= 3",
        "(a-b)%3 >= 1, (b-a)%4 <> 2, c <= d",
    ],
)
def test_whatever_is_older_the_same_comes_out(text: str) -> None:
    relations = facts(text)
    wanted, _ = exchanged(relations)
    for order in permutations(range(len(SYMBOLS))):
        assert set(exchanged(turned(relations, order))[0]) == set(wanted), order


def test_generated_relations_are_the_same_whatever_is_older() -> None:
    distinct, otherwise, count = 0, 0, sets(200)
    for seed in range(count):
        rng = random.Random(seed)
        relations = [n for _ in range(4) for n in normal(relation(rng, tuple(SYMBOLS), 2))]
        order = tuple(rng.sample(range(len(SYMBOLS)), len(SYMBOLS)))
        other = turned(relations, order)
        if {v for r in relations for v in r.variables} != set(SYMBOLS) or len(relations) != len(other):
            continue
        distinct += 1
        assert set(exchanged(relations)[0]) == set(exchanged(other)[0]), seed
        written, back = exchanged(relations)
        returned = {n for r in written for n in normal(r.substitute(back))}
        if returned != {n for r in relations for n in normal(r)}:
            otherwise += 1  # that something is never negative may be seen of sizes in one order and not in another
            for values in assignments(tuple(SYMBOLS), 5):
                assert all(satisfied(r, values) for r in returned) == all(satisfied(r, values) for r in relations), seed
    assert distinct > count // 4
    assert otherwise <= distinct // 1_000
