"""Which discrete latents of a model are summed out in what order, or why they cannot be.

Note [Summing out]
    The density of the other latents is a sum over all values of the discrete ones: z in a plate of n has k ** n of them. It is a
    product of *factors*, one of each site, and each looks at few elements. So it is summed one latent at a time, as far as what
    looks at it: eliminated (Zhang & Poole 1994). A factor is a tensor with a dimension for each latent that it looks at, counting
    its values, and then those of its plates. To eliminate z, each factor that looks at it is summed over the plates that z does
    not have, since logarithms are; then they are added; and the logarithm of the sum of exponentials over z's own values is a
    factor with z's plates. In a chain z looks at the element before it as well, which is another such dimension, and the steps are
    gone through by the forward algorithm.

    That is right if an element of z matters only to elements of other sites that have its indices: see Note [What an element looks
    at]. A latent that a factor with z looks at besides z must not tell elements of z apart that z's plates do not: where z[i] and
    w[j] meet in y[i, j], no order is right. In a chain, none may have the steps' index.

    Draws of what was summed out go the other way: the last one that was eliminated is drawn first, from its own factor, in which
    those that it looks at have their values by then.
"""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.data import dataclass
from axon.base.source import Span
from axon.chance.dependence import Axis, Known, Look, Looks, Scope, axes_of, declared, hidden, joined, latent, looks_of
from axon.chance.model import Unsummed
from axon.chance.sites import Called, bound_in, head_of, leaf_of, name_of
from axon.chance.supports import InLibrary, is_fixed
from axon.grammar import syntax as S


@dataclass(frozen=True, slots=True)
class Factor:
    """What a site, or a latent that was eliminated, adds to the density: a tensor with a dimension for each of `over`, and so many
    `plates`. `at` says which of the plates are the dimensions of a latent that it looks at."""

    name: str
    over: tuple[str, ...]
    plates: int
    at: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Step:
    """A latent is eliminated from the factors that look at it; `others` are those that these look at besides, and `at` which of
    the latent's own plates are theirs."""

    latent: str
    plates: int
    chain: bool
    factors: tuple[Factor, ...]
    others: tuple[str, ...]
    at: dict[str, tuple[int, ...]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The factors of sites, by their names, the steps in their order, and the factors that are left, which look at nothing.
    `looks` says at which latents the declarations before and between the sites look, by their places."""

    latents: tuple[str, ...]
    factors: dict[str, Factor]
    steps: tuple[Step, ...]
    left: tuple[Factor, ...]
    looks: dict[int, frozenset[str]]


def before(name: str) -> str:
    """What the values of a chain's element before are counted as."""
    return f"{name}.before"


def planned(decl: S.Fun, latents: frozenset[str], called: Called, in_library: InLibrary) -> Plan | Unsummed:
    """How to sum the discrete latents of a model out."""
    return _Planner(latents, called, in_library).plan(decl)


class _Cannot(Exception):
    def __init__(self, why: Unsummed) -> None:
        self.why = why


class _Planner:
    def __init__(self, latents: frozenset[str], called: Called, in_library: InLibrary) -> None:
        self.latents, self.called, self.in_library = latents, called, in_library
        self.plates: dict[str, int] = {}
        self.chains: set[str] = set()
        self.places: dict[str, Span] = {}
        self.factors: dict[str, Factor] = {}
        self.looks: dict[int, frozenset[str]] = {}

    def plan(self, decl: S.Fun) -> Plan | Unsummed:
        try:
            self._spine(decl.body)
            steps, left = self._steps()
        except _Cannot as cannot:
            return cannot.why
        return Plan(tuple(self.plates), self.factors, tuple(steps), tuple(left), self.looks)

    def _spine(self, body: S.Expr) -> None:
        scope: Scope = {}
        while isinstance(body, S.Let):
            for decl in body.decls:
                match decl:
                    case S.Draw(pattern, site):
                        scope = self._draw(pattern, site, scope)
                    case S.Observe(name, site):
                        self._factor(name.text, site, scope)
                    case S.Val() | S.Fun():
                        scope, _ = declared(decl, scope)
                        names = [decl.name.text] if isinstance(decl, S.Fun) else [p.name for p in bound_in(decl.pattern)]
                        scope = {**scope, **{n: _closed(scope[n]) for n in names if n in scope}}
                        self.looks[decl.span.start] = frozenset(d for n in names if n in scope for d in scope[n].looks)
            body = body.body

    def _draw(self, pattern: S.Pattern, site: S.Expr, scope: Scope) -> Scope:
        bound = name_of(pattern)
        assert bound is not None
        name = bound.name
        if name in self.latents:
            (axes, inside), *others = _chains(site, 0)
            if any(other != (axes, inside) for other in others) or (inside is not None and inside != axes - 1):
                raise _Cannot(Unsummed("site", (name,), bound.span))
            self.plates[name], self.places[name] = axes, bound.span
            if inside is not None:
                self.chains.add(name)
        looks, count = self._factor(name, site, scope)
        if looks and not is_fixed(site, self.in_library):
            raise _Cannot(Unsummed("support", (next(iter(looks)), name), leaf_of(site).span))
        scope = hidden(scope, [name])
        axes_ = tuple((f"{name}.{n}",) for n in range(count))
        if name in self.latents:
            return {**scope, name: latent(name, axes_, bound.span)}
        if looks and self.called(head_of(leaf_of(site))) is not None:  # the value of its body
            self.looks[pattern.span.start] = frozenset(looks)
            at = {d: Look(tuple(axes_[p] for p in places), bound.span) for d, places in looks.items()}
            return {**scope, name: Known(axes_, at)}
        return scope

    def _factor(self, name: str, site: S.Expr, scope: Scope) -> tuple[dict[str, tuple[int, ...]], int]:
        """The factor of a site, if it looks at anything: where, and its number of plates."""
        found, count = self._site(site, scope)
        at: dict[str, tuple[int, ...]] = {}
        for d, (places, span) in found.items():
            if places is None or len({*places}) < len(places):
                raise _Cannot(Unsummed("look", (d, name), span))
            at[d] = places
        own = [name] if name in self.latents else []
        own += [before(name)] if name in self.chains else []
        over = (*own, *(d for d in self.plates if d in at))
        if over:
            everywhere = tuple(range(count))
            self.factors[name] = Factor(f"{name}.factor", over, count, {**at, **dict.fromkeys(own, everywhere)})
        return at, count

    def _site(self, site: S.Expr, scope: Scope) -> tuple[dict[str, tuple[tuple[int, ...] | None, Span]], int]:
        found: dict[str, tuple[tuple[int, ...] | None, Span]] = {}
        count = 0
        for axes, looks in _leaves(site, scope, []):
            for d, look in looks.items():
                places = None if look.at is None or any(a not in axes for a in look.at) else tuple(map(axes.index, look.at))
                known = found.get(d, (places, look.span))
                found[d] = known if known[0] == places else (None, look.span)
            count = max(count, len(axes))
        return found, count

    # ── the order ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _steps(self) -> tuple[list[Step], list[Factor]]:
        factors, steps = [*self.factors.values()], list[Step]()
        waiting = [*self.plates]
        while waiting:
            step = next((s for d in reversed(waiting) if (s := self._step(d, factors)) is not None), None)
            if step is None:
                raise _Cannot(Unsummed("meet", tuple(waiting), self.places[waiting[-1]]))
            waiting.remove(step.latent)
            steps.append(step)
            plates = step.plates - step.chain
            made = Factor(f"{step.latent}.summed", step.others, plates, step.at)
            factors = [*(f for f in factors if f not in step.factors), made]
        return steps, factors

    def _step(self, name: str, factors: list[Factor]) -> Step | None:
        mine = tuple(f for f in factors if name in f.over)
        count, chain = self.plates[name], name in self.chains
        at: dict[str, tuple[int, ...]] = {}
        for f in mine:
            own = f.at[name]
            for other in f.over:
                if other in (name, before(name)):
                    continue
                if any(p not in own for p in f.at[other]):
                    return None
                places = tuple(own.index(p) for p in f.at[other])
                if at.setdefault(other, places) != places or (chain and count - 1 in places):
                    return None
        others = tuple(v for d in self.plates for v in (d, before(d)) if v in at)
        return Step(name, count, chain, mine, others, at)


def _closed(known: Known) -> Known:
    """Of what is declared in the spine: names that are no dimensions of its own are values, not indices."""
    return Known(
        known.axes,
        {d: x if x.at is None or all(a in known.axes for a in x.at) else Look(None, x.span) for d, x in known.looks.items()},
        known.applied,
    )


def _leaves(site: S.Expr, scope: Scope, axes: list[Axis]) -> Iterator[tuple[list[Axis], Looks]]:
    """The distributions of a site, each with the dimensions around it and what it looks at."""
    match site:
        case S.For(groups, body):
            own = axes_of(groups) or []
            bounds = joined(*(looks_of(g.bound, scope) for g in groups if isinstance(g.bound, S.Node)))
            for inner, looks in _leaves(body, hidden(scope, (n for a in own for n in a)), [*axes, *own]):
                yield inner, joined(bounds, looks)
        case S.Loop(_, ((state, start),), _, groups, body):
            own = axes_of(groups) or []
            around = joined(looks_of(start, scope), *(looks_of(g.bound, scope) for g in groups if isinstance(g.bound, S.Node)))
            names = [*(n for a in own for n in a), *(p.name for p in bound_in(state))]
            for inner, looks in _leaves(body, hidden(scope, names), [*axes, *own]):
                yield inner, joined(around, looks)
        case S.If(condition, then, otherwise):
            chosen = looks_of(condition, scope)
            for branch in (then, otherwise):
                for inner, looks in _leaves(branch, scope, axes):
                    yield inner, joined(chosen, looks)
        case _:
            yield axes, looks_of(site, scope)


def _chains(site: S.Expr, count: int) -> Iterator[tuple[int, int | None]]:
    """For each branch of a site, how many dimensions it has, and which of them are the steps of a chain, if any."""
    match site:
        case S.For(groups, body) | S.Loop(_, _, _, groups, body):
            own = sum(len(g.binders) for g in groups)
            for total, chain in _chains(body, count + own):
                yield total, count if isinstance(site, S.Loop) else chain
        case S.If(_, then, otherwise):
            yield from _chains(then, count)
            yield from _chains(otherwise, count)
        case _:
            yield count, None
