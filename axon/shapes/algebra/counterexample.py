"""Small assignments that satisfy facts and violate a relation; `explain.wording` says which sizes an error would rather show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.algebra.facts import Claim, Facts, claim_holds, claims_of
from axon.shapes.relation import Relation

MAX_FACTS = 200  # of those connected with a relation, the closest: beyond, an assignment may break one
_SIZES = (2, 3, 4, 5, 6, 7, 8, 1, 0, 9, 10, 12, 16, 24, 32, 64)
_AFTER = 8  # sizes that are tried from where a fact of one size begins or ends to hold
_MAX_NODES = 6_000
_LOOKS = 32  # at claims that cost as much as a node


def counterexample(
    facts: Facts, relation: Relation, wish: Mapping[Symbol, int] | Iterable[tuple[Symbol, int]] = ()
) -> dict[Symbol, int] | None:
    """A small assignment that satisfies the facts and not the relation, if a short search finds one.

    Sizes are distinct and at least 2 where they can be; `wish` is tried first. Only variables connected with the relation get
    values.
    """
    goal = relation.negated
    claims = [*claims_of(goal), *facts.relevant(goal.variables, MAX_FACTS)]
    variables = sorted(goal.variables.union(*(p.variables for _, p in claims)), key=lambda v: v.id)
    return _satisfy(claims, variables, dict(wish), Budget(_MAX_NODES, facts.budget))


def _satisfy(claims: list[Claim], variables: list[Symbol], wish: Mapping[Symbol, int], budget: Budget) -> dict[Symbol, int] | None:
    """Backtracking over small sizes; an equation with one variable left, linear in it, gives its value."""
    ends = _ends(claims)
    waiting: dict[Symbol, list[Claim]] = {v: [] for v in variables}
    for claim in claims:
        for v in claim[1].variables:
            waiting[v].append(claim)
    values: dict[Symbol, int] = {}
    equations = [p for kind, p in claims if kind == "="]

    def consistent(variable: Symbol) -> bool:
        for kind, p in waiting[variable]:
            if p.variables <= values.keys():
                try:
                    if not claim_holds((kind, p), values):
                        return False
                except ZeroDivisionError:
                    return False
        return True

    def forced() -> tuple[Symbol, int] | None:
        for p in equations:
            open_ = p.variables - values.keys()
            if len(open_) == 1:
                (variable,) = open_
                split = p.linear_in(variable)
                if split is not None:
                    try:
                        a, b = (part.evaluate(values) for part in split)
                    except ZeroDivisionError:
                        return variable, -1
                    if a:
                        return variable, -b // a if b % a == 0 else -1
        return None

    def search() -> bool:
        if len(values) == len(variables):
            return True
        determined = forced()
        budget.spend(len(equations) // _LOOKS)
        candidates: tuple[int, ...]
        if determined is not None:
            variable, candidates = determined[0], (determined[1],)
        else:
            variable = next(v for v in variables if v not in values)
            used = set(values.values())
            sizes = sorted((*_SIZES, *ends), key=lambda n: (n < 2, n in used))
            candidates = (*([wish[variable]] if variable in wish else ()), *sizes)
        for value in candidates:
            budget.spend(1 + len(waiting[variable]) // _LOOKS)
            if value >= 0:
                values[variable] = value
                if consistent(variable) and search():
                    return True
                del values[variable]
        return False

    try:
        return values if search() else None
    except OutOfBudget:
        return None


def _ends(claims: list[Claim]) -> list[int]:
    """Sizes near those at which a claim of one size, linear in it, begins or ends to hold, and beyond all of these."""
    found: dict[int, None] = {}
    for _, p in claims:
        if len(p.variables) == 1 and (split := p.linear_in(*p.variables)) is not None:
            factor, offset = split[0].constant, split[1].constant
            if factor and offset is not None and abs(offset // factor) > max(_SIZES):
                found |= dict.fromkeys(range(abs(offset // factor), abs(offset // factor) + _AFTER))
    return list(found)
