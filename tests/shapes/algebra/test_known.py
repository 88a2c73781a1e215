"""Answers that are kept by the form of a question are those that it has where nothing was kept, and cost what they cost then."""

from __future__ import annotations

from contextlib import suppress
from random import Random

from axon.base.names import fresh
from axon.shapes.algebra import known
from axon.shapes.algebra.budget import Budget
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import Answer, prove
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation
from tests.shapes.generate import relation, sets


def asked(seed: int) -> tuple[Answer, int]:
    """The answer to a question that the seed makes, about sizes of its own, and how many steps were charged for it."""
    random = Random(seed)
    symbols = tuple(fresh(name) for name in "abc")
    budget = Budget(100_000)
    facts = Facts(budget)
    for _ in range(random.randrange(5)):
        facts = facts.assume(relation(random, symbols, 2))
    answer = prove(facts, relation(random, symbols, 2))
    return answer, 100_000 - budget.left


def test_kept_answers_are_those_that_are_sought() -> None:
    seeds, first = [], {}
    for seed in range(sets(150)):
        known._answers.clear()
        try:
            first[seed] = asked(seed)
        except (DimensionTooLarge, ZeroDivisionError):
            continue
        seeds.append(seed)
    known._answers.clear()
    for _ in range(2):  # the second time all are known
        for seed in seeds:
            assert asked(seed) == first[seed], seed
    assert known._answers


def test_what_an_answer_costs_does_not_follow_from_numbers_of_variables() -> None:
    """By which sets are in another order."""
    for seed in (*range(30), 44, 68, 191):
        found = set()
        for more in range(8):
            for _ in range(37 * more % 101):
                fresh("other")
            known._answers.clear()
            with suppress(DimensionTooLarge, ZeroDivisionError):
                found.add(asked(seed))
        assert len(found) <= 1, seed


def test_the_order_of_variables_is_part_of_a_question() -> None:
    """With numbers in place of variables `a <= b` under `a < b` is not `b <= a` under it."""
    a, b = (Dim.of(fresh(name)) for name in "ab")
    facts = Facts().assume(Relation(a * a, "<", b * b))
    assert prove(facts, Relation(a, "<=", b)) is not Answer.REFUTED
    assert prove(facts, Relation(a * a, "<=", b * b)) is Answer.PROVED
    assert prove(facts, Relation(b * b, "<=", a * a)) is Answer.REFUTED


def test_what_is_true_at_the_ends_of_ranges() -> None:
    """An access of a chain of windows: nothing is found among small sizes, and no one fact says it."""
    d, r, p, q = (fresh(name) for name in "drpq")
    long, width = Dim.of(d), Dim.of(r)
    facts = Facts().assume(Relation(long - 200 * width + 200, ">=", Dim.of(0)))
    facts = facts.index(p, long - 100 * width + 100).index(q, width)
    place = Dim.of(p) + Dim.of(q)
    assert prove(facts, Relation(place, "<", long - 99 * width + 99)) is Answer.PROVED
    assert prove(facts, Relation(place, "<", long - 100 * width + 100)) is Answer.UNKNOWN
    assert prove(facts, Relation(Dim.of(p) - Dim.of(q), ">=", Dim.of(0))) is Answer.UNKNOWN
