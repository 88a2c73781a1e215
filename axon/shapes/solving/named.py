"""Sizes that the user named apart, and what would make them equal all the same: contracts must not, and coercions cannot."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from itertools import combinations, islice
from typing import TypeAlias

from axon.base.names import Symbol
from axon.shapes.algebra.counterexample import MAX_FACTS, counterexample
from axon.shapes.algebra.divisibility import is_divisibility
from axon.shapes.algebra.prove import Answer, Facts, prove, proves, unsatisfiable
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving.simplify import independent, normal

_Same: TypeAlias = "tuple[Symbol, Symbol, Relation]"  # two sizes, and the equation that makes them one

_MAX_ROOTS = 24  # sizes, and equations, among which a root is looked for
_MAX_PAIRS = 6  # of sizes that are compared
_MAX_BOUNDS = 40  # inequalities among which they are looked for
_TIMES = 16  # how much larger than that sizes can be that are equal but for rounding


def forced(
    kept: Iterable[Relation], given: Callable[[Relation], bool], free: frozenset[Symbol], others: frozenset[Symbol], facts: Facts
) -> Relation | None:
    """An equation that the facts of a contract make together between sizes that are not `free` to be solved for.

    `given`: what one of them says by itself, which is judged elsewhere; what the user states (`facts`) is meant. Of sizes that are
    almost equal also those are found that nobody named, as long as they belong to this declaration and not to `others`.
    """
    kept = tuple(kept)
    own = [r for r in kept if r.op == "=" and r.variables.isdisjoint(free) and not is_divisibility(r) and not given(r)]
    bounds = [r for r in kept if r.op == ">=" and len(r.variables - others) > 1][:_MAX_BOUNDS]
    if not own and len(bounds) < 2:
        return None
    stated = dict.fromkeys(independent(dict.fromkeys(n for r in facts.relations for n in normal(r)), Facts()))  # as `kept` has it
    known = facts.assume(*stated)
    own, bounds = ([r for r in some if r not in stated and not proves(known, r)] for some in (own, bounds))
    found = tuple(r for r in kept if r not in stated)
    return next((r for r in own if _is_more(known, r)), None) or _nearly(found, bounds, others)


def _is_more(known: Facts, relation: Relation) -> bool:
    """Whether a relation certainly says more than is known: what is only not proved, for want of time, is nobody's mistake."""
    variables = relation.variables
    small = len(known.relevant(variables, MAX_FACTS)) < MAX_FACTS  # else a counterexample would leave facts out
    return small and counterexample(known, relation) is not None


def _nearly(found: Iterable[Relation], bounds: list[Relation], others: frozenset[Symbol]) -> Relation | None:
    """Two sizes that inequalities nobody stated make equal but for rounding: 2 * (h / 2) <= w and 2 * (w / 2) <= h.

    Neither is then more than the other but for numbers and what these inequalities divide by, than which both can be much larger.
    """
    shared = (_by_age(r.variables & o.variables - others) for r, o in combinations(bounds, 2))
    pairs = dict.fromkeys(pair for variables in shared for pair in combinations(variables, 2))
    known = Facts().assume(*found)
    for v, w in list(pairs)[:_MAX_PAIRS]:
        about = [r for r in bounds if {v, w} <= r.variables]
        by = frozenset[Symbol]().union(*(q.divisor.variables for r in about for q in r.slack.quotients)) - {v, w}
        rounding = sum((4 * Dim.of(u) for u in _by_age(by)), Dim.of(4 + 2 * max(abs(r.left.offset) for r in about)))
        huge = known.assume(*(Relation(Dim.of(x), ">=", _TIMES * rounding) for x in (v, w)))
        more = [Relation(Dim.of(a), ">=", Dim.of(b) + rounding) for a, b in ((v, w), (w, v))]
        if not unsatisfiable(huge, (v, w)) and all(unsatisfiable(known.assume(r), (v, w)) for r in more):
            return Relation(Dim.of(v), "=", Dim.of(w))
    return None


def never_equal(left: Dim, right: Dim, stated: Iterable[Relation]) -> str | None:
    """Why sizes cannot be taken for equal: they "never" are, or only where some size is 0 ("empty")."""
    equal = Relation(left, "=", right)
    facts = Facts().assume(*stated)
    if left == right:
        return None
    if prove(facts, equal) is Answer.REFUTED:
        return "never"
    some = facts.assume(*(Relation(Dim.of(v), ">=", Dim.of(1)) for v in _by_age(equal.variables)))
    return "empty" if prove(some, equal) is Answer.REFUTED else None


def _by_age(symbols: Iterable[Symbol]) -> list[Symbol]:
    return sorted(symbols, key=lambda v: v.id)


def same_roots(equations: Collection[Relation], free: Collection[Symbol], unnamed: Collection[Symbol]) -> list[_Same]:
    """Free sizes that equations make equal to ones that are named: p and k, of p * p = n beside k * k = n."""
    known = sorted({w for r in equations for w in r.variables if w not in unnamed}, key=lambda w: w.id)[:_MAX_ROOTS]
    slacks = {slack for r in equations for slack in (r.slack, -r.slack)}
    found: list[_Same] = []
    for r in list(equations)[:_MAX_ROOTS]:
        for v in sorted((v for v in r.variables if v in free and r.slack.linear_in(v) is None), key=lambda v: v.id):
            alike = (w for w in known if r.slack.substitute({v: Dim.of(w)}) in slacks)
            same = (w for w in alike if proves(Facts().assume(*equations), Relation(Dim.of(v), "=", Dim.of(w))))
            found += [(v, w, r) for w in islice(same, 1)]
    return found
