"""Which dimension variables a call determines, and how: the plan that the guard of a contract follows.

The explicit dimensions are given, and a variable that is alone in a shape (`n`) is what is found there. Then, repeatedly, the first
of these that gives one more:

    an equation with one unknown left, linear in it             n + 3, 2 * n, h * c where h is known: a division without remainder
    one in whose terms that unknown only makes it grow          n * n, n * n + k * n: the root, found by bisection
    several equations together, by elimination                  [n + m, n - m], [n / 2, n % 2], [n + m] where n = 2 * m
    one that is proved to grow with its unknown (see `grows`)   n + n / 2, n * (n + 1) / 2, n * n - n where n >= 1

Equations are the extents that are not variables, and the contract's own equalities. Elimination combines them without dividing:
from c * v + r = 0 and d * v + s = 0 follows c * s - d * r = 0, where v is gone. What it finds therefore holds in every solution,
and determines a variable wherever its coefficient is not 0, which becomes part of the contract (`needs`). What is still unknown
then is undetermined: `[n + m]` alone says nothing of n.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.names import Symbol, fresh
from axon.shapes.algebra.monotone import Growth, proved, shown
from axon.shapes.algebra.prove import Facts
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Monomial, atom_key, variables_of, without
from axon.shapes.relation import Relation

Place: TypeAlias = "tuple[int, int]"  # which parameter, which dimension

_MAX_SYSTEM = 24  # equations, and unknowns, that are solved together
_ONE = Dim.of(1)


@dataclass(frozen=True, slots=True)
class Equation:
    """`slack` = 0: of an extent (at a place, and minus the symbol that stands for what is found there), or of a fact."""

    slack: Dim
    place: Place | None = None
    fact: int | None = None
    factors: tuple[Dim, ...] = ()  # what it was divided by, which therefore must not be 0


@dataclass(frozen=True, slots=True)
class Divide:
    """symbol = -rest / coefficient, without remainder; both are over what is known before. `source` is what says so."""

    symbol: Symbol
    coefficient: Dim
    rest: Dim
    source: Equation


@dataclass(frozen=True, slots=True)
class Root:
    """The only size for which a Dim that grows with it is 0."""

    symbol: Symbol
    dim: Dim
    growth: Growth
    source: Equation


Step: TypeAlias = "Divide | Root"


@dataclass(slots=True)
class Determination:
    """How the dimensions of a call are found. Steps mention the symbols of `extents` for what is found at a place."""

    order: list[Symbol]  # of the variables, as they become known: explicit, loaded, solved
    loads: list[Place] = field(default_factory=list)
    equal: list[tuple[Place, Symbol]] = field(default_factory=list)  # places of variables that are known from elsewhere
    extents: dict[Place, Symbol] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    checks: list[Place] = field(default_factory=list)  # extents to be compared with what they should be
    needs: list[tuple[Symbol, Relation]] = field(default_factory=list)  # what must hold so that a variable is determined


def plan(
    explicit: Sequence[Symbol],
    shapes: Sequence[tuple[Dim, ...]],
    equalities: Sequence[tuple[int, Relation]],
    facts: Callable[[], Facts],
) -> Determination:
    """The plan for parameters of these shapes; `equalities` are those among the facts of a contract, with their positions. Most
    plans do not ask for the facts, which are then not made."""
    found = Determination(list(explicit))
    places = [((p, d), dim) for p, shape in enumerate(shapes) for d, dim in enumerate(shape)]
    known = set(explicit)
    for place, dim in places:
        if dim.symbol is None:
            found.extents[place] = fresh("extent")
        elif dim.symbol in known:
            found.equal.append((place, dim.symbol))
        else:
            known.add(dim.symbol)
            found.loads.append(place)
            found.order.append(dim.symbol)
    formulas = {place: dim for place, dim in places if place in found.extents}
    waiting = [Equation(dim - Dim.of(found.extents[place]), place) for place, dim in formulas.items() if not dim.variables <= known]
    waiting += [Equation(r.slack, fact=i) for i, r in equalities if not r.slack.variables <= known]
    known.update(found.extents.values())
    meaning = {found.extents[place]: dim for place, dim in formulas.items()}
    solved: set[Place | None] = set()
    while step := _next(waiting, known, meaning, facts):
        known.add(step.symbol)
        found.order.append(step.symbol)
        found.steps.append(step)
        if step.source in waiting:  # else it was made of several, each of which is still to be compared
            waiting.remove(step.source)
            solved.add(step.source.place)
        for need in _needs(step):
            inside = need.substitute(meaning)
            if inside.constant is None:
                grows = all(c > 0 and all(isinstance(a, Symbol) for a in m) for m, c in inside.mapping.items())
                found.needs.append((step.symbol, Relation(inside, ">=", _ONE) if grows else Relation(inside, "<>", Dim.of(0))))
    found.checks = [place for place, dim in formulas.items() if place not in solved and dim.variables <= known]
    return found


def _needs(step: Step) -> tuple[Dim, ...]:
    """What must not be 0 for a step to determine its variable."""
    match step:
        case Divide(coefficient=coefficient, source=source):
            return (coefficient, *source.factors)
        case Root(growth=growth):
            return (growth.factor,)


def _next(equations: list[Equation], known: set[Symbol], meaning: dict[Symbol, Dim], facts: Callable[[], Facts]) -> Step | None:
    """How to find one more variable: rather in a way that asks nothing of the others."""
    alone = [(e, v) for e in equations if len(unknown := e.slack.variables - known) == 1 for v in unknown]
    divided = [Divide(v, *split, e) for e, v in alone if (split := e.slack.linear_in(v)) is not None and split[0].mapping]
    if (asking_nothing := next(filter(_asks_nothing, divided), None)) is not None:
        return asking_nothing
    combined: list[Divide] = []
    with suppress(DimensionTooLarge):
        for e in _combined(equations, known):
            (v,) = e.slack.variables - known
            split = e.slack.linear_in(v)
            if split is not None and split[0].substitute(meaning).mapping:  # else it is another way to write 0
                combined.append(Divide(v, *split, e))
                if _asks_nothing(combined[-1]):
                    return combined[-1]
    if divided:
        return divided[0]
    if (root := _root(alone, shown)) is not None:
        return root
    return combined[0] if combined else _root(alone, lambda dim, v: proved(dim, v, facts()))


def _asks_nothing(step: Divide) -> bool:
    return all(need.constant is not None for need in _needs(step))


def _root(alone: list[tuple[Equation, Symbol]], grows: Callable[[Dim, Symbol], Growth | None]) -> Root | None:
    """The first of equations with one unknown that grows with it, or falls."""
    for e, v in alone:
        for dim in (e.slack, -e.slack):
            if (growth := grows(dim, v)) is not None:
                return Root(v, dim, growth, e)
    return None


# ── elimination ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _combined(equations: list[Equation], known: set[Symbol]) -> Iterator[Equation]:
    """Consequences of several equations in which one unknown is left."""
    system = [e for e in equations if not e.slack.variables <= known]
    unknown = sorted(frozenset[Symbol]().union(*(e.slack.variables for e in system)) - known, key=lambda v: v.id)
    if not 1 < len(system) <= _MAX_SYSTEM or len(unknown) > _MAX_SYSTEM:
        return
    for wanted in unknown:
        others: list[Atom] = [v for v in unknown if v is not wanted]
        for e in _eliminated(system, others, known):
            if e.slack.variables - known == {wanted}:
                yield e


def _eliminated(system: list[Equation], symbols: list[Atom], known: set[Symbol]) -> list[Equation]:
    """What is left of equations when unknowns are eliminated from them: first quotients and minima that hide some, then symbols."""
    compound = {a for e in system for a in e.slack.atoms if not isinstance(a, Symbol) and not variables_of(a) <= known}
    rows = system
    for atom in (*sorted(compound, key=atom_key), *symbols):
        splits = [(row, _split(row.slack, atom)) for row in rows]
        usable = [(row, s) for row, s in splits if s is not None and s[0].mapping]
        if not usable:
            continue
        pivot, (c, r) = min(usable, key=lambda item: (item[1][0].constant is None, item[1][0].weight, item[0].slack.weight))
        made = []
        for row, split in splits:
            if row is pivot:
                continue
            if split is None or not split[0].mapping:
                made.append(row)
                continue
            slack, factor = _cancelled(c * split[1] - split[0] * r, known)
            factors = (*row.factors, *pivot.factors, *factor)
            made.append(Equation(slack, row.place or pivot.place, pivot.fact if row.fact is None else row.fact, factors))
        rows = made
    return rows


def _split(slack: Dim, atom: Atom) -> tuple[Dim, Dim] | None:
    return slack.linear_in(atom) if isinstance(atom, Symbol) else slack.split(atom)


def _cancelled(slack: Dim, known: set[Symbol]) -> tuple[Dim, tuple[Dim, ...]]:
    """A polynomial without the number and the unknowns that its terms share, and those unknowns."""
    if not slack.mapping:
        return slack, ()
    step = slack.content
    slack = Dim({m: c // step for m, c in slack.mapping.items()})
    shared: Monomial = next(iter(slack.mapping))
    for m in slack.mapping:
        shared = tuple(a for a in shared if isinstance(a, Symbol) and a not in known and a in m)
    for atom in dict.fromkeys(shared):
        slack = Dim({over: c for m, c in slack.mapping.items() if (over := without(m, (atom,))) is not None})
    return slack, tuple(Dim({(a,): 1}) for a in dict.fromkeys(shared))
