"""A contract that a call breaks: the sizes that its fact speaks of as the call has them, and the nearest that would do.

An equation among the facts of a function, `n * 3 = m * 2`, is solved like those of its types, since it may decide a size. Where it
contradicts the others it is not they that are to blame: what the fact asks is then compared with the sizes that the others make.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.nearest import nearest_sizes
from axon.shapes.algebra.prove import Facts
from axon.shapes.constraint import Equal, Obligation, Problem, Side
from axon.shapes.contracts.legal import alone, together
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.pretty import render
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import Equation, sides, solve
from axon.shapes.solving.trouble import Clash, Refuted

_MAX_EQUATIONS = 400


@dataclass(frozen=True, slots=True)
class Broken:
    """A fact of a called function, and the sizes that the call gives to its variables, in the order of `obligation.subject`."""

    obligation: Obligation
    sizes: tuple[Dim, ...]
    relation: Relation  # of those sizes


@dataclass(frozen=True, slots=True)
class Measure:
    """What a call gives that decides a variable of a fact: the side of an equation that has it, and the size there as the function
    takes it, `2 * i` of the variable `i`.
    """

    side: Side
    raw: Dim
    taken: Dim


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
        known = solve(rest, problem.flexible, Facts().assume(*(r for r, _ in problem.assumed)), blame=False).substitution
        sizes = tuple(problem.resolve(size.substitute(known)) for _, size in obligation.subject)
        values = dict(zip(asked[1], sizes, strict=True))
        left, right = (d.substitute(values) for d in sides(asked[0].slack))
    except DimensionTooLarge:
        return None
    relation = Relation(left, "=", right)
    return None if relation.trivial is True else Broken(obligation, sizes, relation)


def measure(variable: Dim, equals: Iterable[Equal]) -> Measure | None:
    """What decides a variable at a call: something of its very size, else of one that only it and numbers make."""
    computed: Measure | None = None
    for e in equals:
        for n, (own, other) in enumerate(((e.left, e.right), (e.right, e.left))):
            if variable.symbol is None or len(e.reason.sides) != 2 or e.asked is not None:
                continue
            if other == variable:
                return Measure(e.reason.sides[n], own, variable)
            split = other.linear_in(variable.symbol) if other.variables == {variable.symbol} else None
            if computed is None and split is not None and split[0].constant is not None and split[1].constant is not None:
                computed = Measure(e.reason.sides[n], own, other)
    return computed


def as_taken(name: str, variable: Dim, size: Dim, equals: Iterable[Equal]) -> tuple[str, Dim]:
    """A variable as the call gives it: `2 * i` and 100 for i and 50, of a parameter that takes 2 * i."""
    found = measure(variable, equals)
    if found is None or variable.symbol is None:
        return name, size
    return render(found.taken, lambda _: name), found.taken.substitute({variable.symbol: size})


def nearest(broken: Broken, problem: Problem) -> Iterator[str]:
    """The nearest numbers for which a called function's contract would hold, where it is about numbers alone."""
    asked, numbers = broken.obligation.asked, [size.constant for size in broken.sizes]
    if asked is None or None in numbers:
        return
    names = {symbol: name for symbol, (name, _) in zip(asked[1], broken.obligation.subject, strict=True)}
    raw = dict(zip(asked[1], (variable for _, variable in broken.obligation.subject), strict=True))
    values = {symbol: number or 0 for symbol, number in zip(asked[1], numbers, strict=True)}
    facts = [asked[0]]  # and all else that the call needs
    for other in (*problem.obligations, *(o for e in problem.equals if (o := e.asked) is not None)):
        if other.asked is None or other.reason.span != broken.obligation.reason.span:
            continue
        facts.append(other.asked[0])
        for symbol, (name, size) in zip(other.asked[1], other.subject, strict=True):
            number = problem.resolve(size).constant
            if symbol not in values and number is not None:
                values[symbol], names[symbol], raw[symbol] = number, name, size
    facts = [fact for fact in dict.fromkeys(facts) if fact.variables <= values.keys()]
    found = False

    def told(symbol: Symbol, number: int) -> tuple[str, int]:
        name, size = as_taken(names[symbol], raw[symbol], Dim.of(number), problem.equals)
        return name, size.constant or 0

    def equal(symbol: Symbol, number: int) -> str:
        return "{} = {}".format(*told(symbol, number))

    for symbol in asked[1]:
        beside = " and ".join(equal(s, values[s]) for s in asked[1] if s != symbol)
        fitting = [told(symbol, n) for n in alone(symbol, values, facts)]
        if note := nearest_sizes(fitting[0][0] if fitting else "", [size for _, size in fitting]):
            found = True
            yield f"with {beside}, {note}" if beside else note
    pair = None if found else together(values, facts)
    if pair is not None:
        *others, last = [equal(s, n) for s, n in pair.items() if n != values[s]] or [""]
        if others:
            yield f"the nearest that fit together are {', '.join(others)} and {last}"
        elif last:
            yield f"the nearest that fits is {last}"
