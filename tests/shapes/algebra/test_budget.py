"""Budgets: what is spent of a part is spent of the whole, whether or not the part ends first."""

from __future__ import annotations

import pytest

from axon.base.names import fresh
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import prove
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation


def test_a_part_is_charged_to_the_whole() -> None:
    whole = Budget(10)
    part = whole.part(4)
    part.spend(3)
    with pytest.raises(OutOfBudget):
        part.spend(2)
    assert (part.spent, whole.spent, whole.left) == (True, False, 5)
    assert whole.part(100).left == 5
    whole.charge(6)
    assert whole.spent


def test_giving_up_leaves_the_whole() -> None:
    whole = Budget(10)
    with pytest.raises(OutOfBudget):
        whole.part(4).give_up()
    assert whole.left == 10


def test_questions_about_facts_are_charged_alike_each_time() -> None:
    left = []
    for _ in range(2):
        a, b, c = (Dim.of(fresh(name)) for name in "abc")
        budget = Budget(1_000)
        known = Facts(budget).assume(Relation(a, "<=", b), Relation(b, "<=", c))
        own = Budget(1_000, budget)
        prove(known.charged_to(own), Relation(a * a, "<=", b * c))
        left.append(budget.left)
        assert budget.left == own.left < 1_000
        prove(known, Relation(a * a, "<=", b * c))  # what has been answered costs nothing
        assert budget.left == own.left
    assert left[0] == left[1]
