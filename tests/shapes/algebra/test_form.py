"""Minima taken apart, and sizes that inequalities make equal: the same assignments, said otherwise."""

from __future__ import annotations

import random
from itertools import pairwise

from axon.base.names import fresh
from axon.shapes.algebra.clauses import clauses, joined
from axon.shapes.algebra.cycles import made_equal
from axon.shapes.algebra.form import normal
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from tests.shapes.generate import assignments, holds, relation, sets

SYMBOLS = tuple(fresh(name) for name in "abc")


def test_clauses_mean_what_the_minima_meant() -> None:
    apart = 0
    for seed in range(sets(300)):
        rng = random.Random(seed)
        slack = relation(rng, SYMBOLS, 3, rng.choice(("+ - min max", "+ - * min max", "min max"))).slack
        found = clauses(slack)
        if found is None:
            continue
        apart += len(found) > 1
        for values in assignments(SYMBOLS, 5):
            meant = slack.evaluate(values) >= 0
            assert meant == all(any(p.evaluate(values) >= 0 for p in clause) for clause in found), (seed, str(slack))
            assert meant == all(joined(clause).evaluate(values) >= 0 for clause in found), (seed, str(slack))
    assert apart > sets(300) // 20


def test_one_relation_in_its_form() -> None:
    for seed in range(sets(300)):
        rng = random.Random(seed)
        given = relation(rng, SYMBOLS, 3, rng.choice(("+ - min max", "+ - *", "+ - / %", "+ + - * / % min max")))
        found = normal(given)
        text = f"seed {seed}: {given} is {', '.join(map(str, found))}"
        assert {n for r in found for n in normal(r)} == set(found), text
        for values in assignments(SYMBOLS, 5):
            assert bool(holds(given, values)) == all(holds(r, values) for r in found), text


def test_one_remainder_is_left_out_in_one_way() -> None:
    a, b, _ = map(Dim.of, SYMBOLS)
    for said, others in (
        (Relation((a - b) % 3, "<>", Dim.of(1)), [Relation((b - a) % 3, "<>", Dim.of(2)), Relation((b - a) % 3, "<=", Dim.of(1))]),
        (Relation((a - b) % 5, ">=", Dim.of(1)), [Relation((b - a) % 5, ">", Dim.of(0)), Relation((a - b) % 5, "<>", Dim.of(0))]),
        (Relation(a % 4, "<=", Dim.of(2)), [Relation(3 * a % 4, "<>", Dim.of(1)), Relation(3 * a % 4, "<>", Dim.of(5) % 4)]),
    ):
        for other in others:
            assert normal(other) == normal(said), (str(other), str(said))
    assert render(normal(Relation((a - b) % 3, "<>", Dim.of(1)))[0].left) == "(a - b) % 3 - 1"


def test_cycles_make_equal_what_they_make_equal() -> None:
    some = 0
    for seed in range(sets(300)):
        rng = random.Random(seed)
        given = []
        for _ in range(rng.randrange(2, 7)):
            a, b = (Dim.of(rng.choice((*SYMBOLS, 0))) for _ in range(2))
            given.append(Relation(a, rng.choice(("<=", "<=", "<", "=")), b + rng.choice((0, 0, 0, 1, -1, 2))))
        given = [n for r in given for n in normal(r)]
        found = made_equal(given)
        text = f"seed {seed}: {', '.join(map(str, given))} make {', '.join(str(e) for e, _ in found)}"
        some += bool(found)
        replaced = {r for _, inside in found for r in inside}
        after = [*(e for e, _ in found), *(r for r in given if r not in replaced)]
        for values in assignments(SYMBOLS, 6):
            assert all(holds(r, values) for r in given) == all(holds(r, values) for r in after), text
    assert some > sets(300) // 40


def test_cycles_of_any_length() -> None:
    for count in (2, 3, 5, 20, 60, 3_000):
        sizes = [Dim.of(fresh(f"v{i}")) for i in range(count)]
        cycle = [Relation(a, "<=", b + 1) for a, b in pairwise(sizes)]
        (found, *others) = made_equal([*cycle, Relation(sizes[-1] + (count - 1), "<=", sizes[0])])
        assert len(others) == count - 2
        assert str(found[0]) == "v1 + 1 = v0"
        assert not made_equal(cycle)
