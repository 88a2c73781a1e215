"""Facts that no sizes satisfy together: few of them that already cannot hold, none of which can be left out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from axon.shapes.algebra.alike import exchanged
from axon.shapes.algebra.budget import Budget
from axon.shapes.algebra.counterexample import counterexample
from axon.shapes.algebra.facts import claims_of
from axon.shapes.algebra.grid import MAX_VARIABLES, seen
from axon.shapes.algebra.minimal import minimal
from axon.shapes.algebra.prove import Facts, unsatisfiable
from axon.shapes.relation import Relation
from axon.shapes.solving.simplify import in_order, independent

_STEPS = 24_000  # of one search
_MAX_ALONE = 40  # facts of which each is looked at by itself


def contradictory(relations: Iterable[Relation], budget: Budget | None = None) -> bool:
    """Whether it is shown that no sizes satisfy relations as `normal` gives them, as they are or simplified together."""
    every = in_order(relations)
    if _satisfied_somewhere(every, budget):
        return False
    return _shown(every, budget) or (len(every) > 1 and _shown(independent(dict.fromkeys(every), Facts(budget)), budget))


def _plainly(relations: Sequence[Relation], budget: Budget) -> bool:
    """Whether it is shown without simplifying them, which takes longer."""
    return not _satisfied_somewhere(relations, budget) and _shown(relations, budget)


def _shown(relations: Sequence[Relation], budget: Budget | None) -> bool:
    return any(r.trivial is False for r in relations) or unsatisfiable(Facts(budget).assume(*exchanged(relations)[0]))


def _satisfied_somewhere(relations: Sequence[Relation], budget: Budget | None) -> bool:
    """Whether small sizes were seen that satisfy them all, which is soon found where there are such."""
    if any(r.trivial is False for r in relations):
        return False
    claims = [claim for r in relations for claim in claims_of(r)]
    variables = sorted({v for _, p in claims for v in p.variables}, key=lambda v: v.id)
    if len(variables) <= MAX_VARIABLES:
        return not variables or seen(claims, claims[0], tuple(variables))[0]
    found = counterexample(Facts(budget).assume(*relations[1:]), relations[0].negated)
    return found is not None and found.keys() == set(variables)  # else some are not connected with the first


def core(relations: Iterable[Relation]) -> tuple[Relation, ...]:
    """Of relations as `normal` gives them that contradict each other, some that do and none of which can be left out.

    One that cannot hold by itself is found first, the shortest; else the complicated ones are left out where they can be. When so
    many steps are done, what was found by then is the answer.
    """
    plain_first = sorted(relations, key=_complexity)
    budget = Budget(_STEPS)
    for r in plain_first[:_MAX_ALONE]:
        if r.trivial is False:
            return (r,)
    for r in plain_first[:_MAX_ALONE]:
        if not budget.spent and contradictory((r,), budget):
            return (r,)
    found = plain_first[::-1]
    if _plainly(found, budget):
        found, _ = minimal(found, True, lambda some: _plainly(some, budget) or None, budget)
    found, _ = minimal(found, True, lambda some: contradictory(some, budget) or None, budget)
    return tuple(r for r in plain_first if r in found)


def _complexity(relation: Relation) -> tuple[int, ...]:
    """As `form.complexity`, without what tells apart sizes by their age: what is alike stays in the order of the source."""
    slack = relation.slack
    return slack.depth, slack.degree, len(slack.mapping)
