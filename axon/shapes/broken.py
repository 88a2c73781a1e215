"""A contract that a call breaks: the sizes that its fact speaks of as the call has them, and the nearest that would do.

An equation among the facts of a function, `n * 3 = m * 2`, is solved like those of its types, since it may decide a size. Where it
contradicts the others it is not they that are to blame: what the fact asks is then compared with the sizes that the others make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from axon.nearest import nearest_sizes
from axon.shapes.constraint import Equal, Obligation, Side
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.legal import alone, together
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
    names = {symbol: name for symbol, (name, _) in zip(asked[1], broken.given, strict=True)}
    values = {symbol: number or 0 for symbol, number in zip(asked[1], numbers, strict=True)}
    facts = [asked[0]]  # and all else that the call needs
    for other in (*problem.obligations, *(o for e in problem.equals if (o := e.asked) is not None)):
        if other.asked is None or other.reason.span != broken.obligation.reason.span:
            continue
        facts.append(other.asked[0])
        for symbol, (name, size) in zip(other.asked[1], other.subject, strict=True):
            number = problem.resolve(size).constant
            if symbol not in values and number is not None:
                values[symbol], names[symbol] = number, name
    facts = [fact for fact in dict.fromkeys(facts) if fact.variables <= values.keys()]
    found = False
    for symbol in asked[1]:
        beside = " and ".join(f"{names[s]} = {values[s]}" for s in asked[1] if s != symbol)
        if note := nearest_sizes(names[symbol], alone(symbol, values, facts)):
            found = True
            yield f"with {beside}, {note}" if beside else note
    pair = None if found else together(values, facts)
    if pair is not None:
        changed = [f"{names[s]} = {n}" for s, n in pair.items() if n != values[s]]
        yield f"the nearest that fit together are {', '.join(changed[:-1])} and {changed[-1]}"


def _sides(slack: Dim) -> tuple[Dim, Dim]:
    """slack = 0 with no negative term on either side."""
    left = Dim({m: c for m, c in slack.mapping.items() if c > 0})
    return left, left - slack
