"""A contract that a call breaks: the sizes that its fact speaks of as the call has them, and the nearest that would do.

An equation among the facts of a function, `n * 3 = m * 2`, is solved like those of its types, since it may decide a size. Where it
contradicts the others it is not they that are to blame: what the fact asks is then compared with the sizes that the others make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from axon.names import Symbol
from axon.nearest import legal_pair, legal_sizes, nearest_sizes
from axon.shapes.constraint import Equal, Obligation, Side
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.prove import Facts
from axon.shapes.relation import Relation
from axon.shapes.settle import Clash, Problem, Refuted
from axon.shapes.solve import Equation, solve

_MAX_EQUATIONS = 400


@dataclass(frozen=True, slots=True)
class Broken:
    """A fact of a called function, and the sizes that the call gives to its variables, in the order of `obligation.subject`."""

    obligation: Obligation
    sizes: tuple[Dim, ...]
    relation: Relation  # of those sizes

    @property
    def given(self) -> list[tuple[str, Dim]]:
        return [(name, size) for (name, _), size in zip(self.obligation.subject, self.sizes, strict=True)]


def refuted(r: Refuted, problem: Problem) -> Broken:
    return Broken(r.obligation, tuple(problem.resolve(d) for _, d in r.obligation.subject), r.relation)


def by_fact(c: Clash, problem: Problem) -> Broken | None:
    """A conflict with an equation of a called function's contract as that broken contract, if the other equations make sizes."""
    asking = [e for e in c.equals if e.asked is not None]
    if not asking or len(c.around) > _MAX_EQUATIONS:
        return None
    obligation = asking[0].asked
    assert obligation is not None
    assert obligation.asked is not None
    asked = obligation.asked
    rest = [Equation(e.left, e.right, e) for e in c.around if e not in asking]
    try:
        known = solve(rest, problem.flexible, Facts().assume(*(r for r, _ in problem.assumed))).substitution
        sizes = tuple(problem.resolve(size.substitute(known)) for _, size in obligation.subject)
        values = dict(zip(asked[1], sizes, strict=True))
        left, right = (d.substitute(values) for d in _sides(asked[0].slack))
    except DimensionTooLarge:
        return None
    relation = Relation(left, "=", right)
    return None if relation.trivial is True else Broken(obligation, sizes, relation)


def arguments(broken: Broken, equals: Iterable[Equal]) -> Iterator[tuple[Side, Dim, Dim]]:
    """The sides of equations that give the fact's variables their sizes: each with the size as it stands there and as it is."""
    for (_, raw), size in zip(broken.obligation.subject, broken.sizes, strict=True):
        for e in equals:
            if raw.symbol is not None and raw in (e.left, e.right) and len(e.reason.sides) == 2 and e.asked is None:
                yield (e.reason.sides[0], e.left, size) if e.right == raw else (e.reason.sides[1], e.right, size)
                break


def nearest(broken: Broken, problem: Problem) -> Iterator[str]:
    """The nearest numbers for which a called function's contract would hold, where it is about numbers alone."""
    asked, numbers = broken.obligation.asked, [size.constant for size in broken.sizes]
    if asked is None or None in numbers:
        return
    names, symbols = [name for name, _ in broken.given], asked[1]
    values = {symbol: number or 0 for symbol, number in zip(symbols, numbers, strict=True)}
    others = [o for e in problem.equals if (o := e.asked) is not None]
    same = [o.asked[0] for o in (*problem.obligations, *others) if o.asked and o.reason.span == broken.obligation.reason.span]
    facts = [fact for fact in dict.fromkeys((asked[0], *same)) if fact.variables <= values.keys()]  # all that the call needs
    found = False
    for name, symbol in zip(names, symbols, strict=True):
        fits = legal_sizes(values[symbol], lambda n, s=symbol: all(_holds(f, {**values, s: n}) for f in facts))  # type: ignore[misc]
        fitting = [n for n in fits if n]  # a size of 0 is nobody's wish
        beside = " and ".join(f"{n} = {values[s]}" for n, s in zip(names, symbols, strict=True) if s != symbol)
        if note := nearest_sizes(name, fitting):
            found = True
            yield f"with {beside}, {note}" if beside else note
    if not found and len(symbols) == 2:
        first, second = symbols
        pair = legal_pair(values[first], values[second], lambda n, m: all(_holds(f, {first: n, second: m}) for f in facts))
        if pair is not None:
            yield f"the nearest that fit together are {names[0]} = {pair[0]} and {names[1]} = {pair[1]}"


def _sides(slack: Dim) -> tuple[Dim, Dim]:
    """slack = 0 with no negative term on either side."""
    left = Dim({m: c for m, c in slack.mapping.items() if c > 0})
    return left, left - slack


def _holds(relation: Relation, values: Mapping[Symbol, int]) -> bool:
    try:
        return relation.holds(values)
    except ZeroDivisionError:
        return False
