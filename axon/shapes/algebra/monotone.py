"""Where a size grows strictly with one of its variables, so that what it is tells what the variable is.

Often the terms of a polynomial show it: n * n + k * n. Else it is proved of each step of the variable, if need be within the bounds
that the facts give it: n + n / 2, n * (n + 1) / 2, n * n - n where n >= 1.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum, without
from axon.shapes.relation import Relation

_ZERO, _ONE = Dim.of(0), Dim.of(1)
_MAX_BOUNDS = 4  # of a variable, from below and from above


@dataclass(frozen=True, slots=True)
class Growth:
    """From `least` to `most` (None: to the largest size) a Dim grows at each step, by at least `factor`, which must not be 0."""

    factor: Dim
    least: Dim = _ZERO
    most: Dim | None = None


def shown(dim: Dim, symbol: Symbol) -> Growth | None:
    """The growth of a Dim with a variable where its terms show it."""
    varying = _varying(dim, symbol)
    if not varying.mapping or any(c < 0 or not all(isinstance(a, Symbol) for a in m) for m, c in varying.mapping.items()):
        return None
    return Growth(sum((Dim({tuple(a for a in m if a != symbol): c}) for m, c in varying.mapping.items()), _ZERO))


def proved(dim: Dim, symbol: Symbol, facts: Facts) -> Growth | None:
    """The growth of a Dim with one variable, of which the others are known."""
    varying, factor = _varying(dim, symbol), _ONE
    others = sorted(varying.variables - {symbol}, key=lambda v: v.id)
    try:
        for v in others:
            while varying.mapping and all(v in m for m in varying.mapping):
                varying = Dim({over: c for m, c in varying.mapping.items() if (over := without(m, (v,))) is not None})
                factor *= v
        if _proved(varying, symbol, facts, [], []):
            return Growth(factor)
        low, high = _bounds(symbol, frozenset(others), facts.relations)
        if (low or high) and _proved(varying, symbol, facts, low, high):
            return Growth(factor, reduce(maximum, low, _ZERO), reduce(minimum, high) if high else None)
    except DimensionTooLarge:
        pass
    return None


def _varying(dim: Dim, symbol: Symbol) -> Dim:
    """The terms in which a variable is."""
    return Dim({m: c for m, c in dim.mapping.items() if symbol in Dim({m: 1}).variables})


def _proved(dim: Dim, symbol: Symbol, facts: Facts, low: Iterable[Dim], high: Iterable[Dim]) -> bool:
    """Whether a Dim grows from each value of a variable that is at least `low` to the next, which is at most `high`."""
    here = Dim.of(fresh(symbol.name))  # not the variable itself: what the facts say of that is true of one value alone
    facts = facts.assume(*(Relation(here, ">=", bound) for bound in low), *(Relation(here, "<", bound) for bound in high))
    before, after = dim.substitute({symbol: here}), dim.substitute({symbol: here + 1})
    changing = [q.divisor for q in before.quotients | after.quotients if not here.variables.isdisjoint(q.divisor.variables)]
    wanted = [*(Relation(divisor, ">=", _ONE) for divisor in changing), Relation(after, ">", before)]
    return all(proves(facts, relation) for relation in wanted)


def _bounds(symbol: Symbol, known: frozenset[Symbol], facts: Iterable[Relation]) -> tuple[list[Dim], list[Dim]]:
    """What a variable is at least and at most, in terms of those that are known, by facts that are linear in it."""
    low: list[Dim] = []
    high: list[Dim] = []
    for fact in facts:
        split = fact.slack.linear_in(symbol) if fact.op not in ("=", "<>") else None
        if split is None or (c := split[0].constant) is None or not c or not split[1].variables <= known:
            continue
        if c > 0:
            low.append(-(split[1] // c))
        else:
            high.append(split[1] // -c)
    return low[:_MAX_BOUNDS], high[:_MAX_BOUNDS]
