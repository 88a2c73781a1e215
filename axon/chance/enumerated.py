"""What sums the discrete latents of a model out, and what draws them given the others: the syntax of a plan. See `summed`.

    val z ~ for i < n => dist.bernoulli p
    observe y ~ for i => dist.normal mu[z[i]] 1.0

is, in the density of the others,

    val z.values = for i < n => (dist.bernoulli p).support.values
    val z.factor = for z.j => let val z.now = for z.0 => z.values[z.0, z.j] in for i < n => (…).log_density z.now[i, ..] end
    val y.factor = for z.j => let val z.now = … val z = z.now in for i => (dist.normal mu[z[i]] 1.0).log_density y.seen[i, ..] end
    val z.joint = for z.0 z.j => z.factor[z.j, z.0] + y.factor[z.j, z.0]
    val z.summed = for z.0 => special.log_sum_exp z.joint[z.0, ..]

and `sum _.0 => z.summed[_.0]` is a term. So a factor is computed with every element at its first value, then at its second: what
stands between the sites is written again for each factor, and nobody has to look into it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.base.data import replace
from axon.base.source import Span
from axon.chance.sites import Called, bound_in, head_of, leaf_of, name_of
from axon.chance.summed import Factor, Plan, Step, before
from axon.chance.write import CATEGORICAL, FOLD_IN, FORWARD, LOG_SUM_EXP, PATH, added, call, element, member, number, of_model, over
from axon.grammar import syntax as S


class Enumerated:
    """What is written for a plan in one function; `span` is the model's."""

    def __init__(self, plan: Plan, called: Called, span: Span) -> None:
        self.plan, self.called, self.span = plan, called, span
        self.spine: list[S.Decl] = []  # what stands before, in its order

    # ── factors ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def values(self, name: str, site: S.Expr) -> S.Decl:
        """The values of each element: of a chain, those of its first step."""
        return self._val(f"{name}.values", _values(site, 0))

    def factor(self, name: str, terms: S.Expr) -> S.Decl:
        """The factor of a site, of which `terms` are those of its elements."""
        factor = self.plan.factors[name]
        decls = [*self._again(factor)]
        if name in factor.over:
            decls.append(self._val(f"{name}.now", self._at_place(name, name)))
        if before(name) in factor.over:
            decls.append(self._val(f"{before(name)}.now", self._at_place(name, before(name))))
        return self._val(factor.name, self._for([f"{v}.j" for v in factor.over], S.Let(tuple(decls), terms, span=self.span)))

    def _again(self, factor: Factor) -> Iterator[S.Decl]:
        """What the site looks through, with each latent at the value that is counted."""
        over = {*factor.over}
        bound: set[str] = set()
        for decl in self.spine:
            match decl:
                case S.Draw(pattern, site):
                    target = name_of(pattern)
                    assert target is not None
                    name = target.name
                    looks = self.plan.looks.get(pattern.span.start, frozenset())
                    if name in self.plan.latents and name in over and factor.name != f"{name}.factor":
                        yield self._val(f"{name}.now", self._at_place(name, name))
                        yield S.Val(pattern, self._var(f"{name}.now"), span=self.span)
                        bound.add(name)
                    elif looks and looks <= over:
                        latents = self._var(f"{name}.latents")
                        body = over_model(site, latents, self.called)
                        yield S.Val(pattern, body, span=self.span)
                        bound.add(name)
                    elif name in bound:
                        yield S.Val(pattern, self._var(name), span=self.span)
                case S.Val() | S.Fun():
                    names = {decl.name.text} if isinstance(decl, S.Fun) else {p.name for p in bound_in(decl.pattern)}
                    looks = self.plan.looks.get(decl.span.start, frozenset())
                    if (looks and looks <= over) or names & bound:
                        bound |= names
                        yield decl

    def _at_place(self, name: str, counted: str) -> S.Expr:
        """A latent, all of whose elements have the value that is counted."""
        axes = [f"{name}.{n}" for n in range(len(self.plan.factors[name].at[name]))]
        return self._for(axes, self._get(f"{name}.values", [*axes, f"{counted}.j"]))

    # ── elimination ────────────────────────────────────────────────────────────────────────────────────────────────────

    def steps(self) -> Iterator[S.Decl]:
        for step in self.plan.steps:
            yield from self._step(step)

    def terms(self) -> list[S.Expr]:
        """Of the density, with nothing left to look at."""
        return [self._summed(f, [], {}) for f in self.plan.left]

    def _step(self, step: Step) -> Iterator[S.Decl]:
        name = step.latent
        others = [f"{v}.j" for v in step.others]
        axes = [f"{name}.{n}" for n in range(step.plates)]
        own = [*([f"{before(name)}.j"] if step.chain else []), f"{name}.j"]
        terms = added([self._summed(f, axes, {p: axes[n] for n, p in enumerate(f.at[name])}) for f in step.factors])
        yield self._val(f"{name}.joint", self._for([*others, *axes, *own], terms))
        around = [*others, *(axes[:-1] if step.chain else axes)]
        joint = self._get(f"{name}.joint", around, rest=True)
        total = call(self._var(FORWARD if step.chain else LOG_SUM_EXP), joint)
        yield self._val(f"{name}.summed", self._for(around, total))

    def _summed(self, factor: Factor, axes: Sequence[str], kept: dict[int, str]) -> S.Expr:
        """An element of a factor, summed over the plates that are not kept."""
        plates = [kept.get(p, f"_.{p}") for p in range(factor.plates)]
        rest = [n for n in plates if n not in axes]
        body = self._get(factor.name, [*(f"{v}.j" for v in factor.over), *plates])
        if not rest:
            return body
        return S.Reduce(S.Name("sum", self.span), None, self._groups(rest), None, body, span=self.span)

    # ── draws ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def draws(self) -> Iterator[S.Decl]:
        for step in reversed(self.plan.steps):
            name = step.latent
            axes = [f"{name}.{n}" for n in range(step.plates)]
            around = axes[:-1] if step.chain else axes
            others = [self._place(v, [axes[p] for p in step.at[v]]) for v in step.others]
            joint = self._get(f"{name}.joint", around, rest=True, first=others)
            key: S.Expr = call(self._var(FOLD_IN), self._var("key.given"), S.Int(number(name), span=self.span))
            folded = around if step.chain else around[:-1]
            for index in folded:
                key = call(self._var(FOLD_IN), key, self._var(index))
            if step.chain:
                place = call(self._var(PATH), joint, key)
            else:
                counter: S.Expr = self._var(around[-1]) if around else S.Int(0, span=self.span)
                place = call(self._var(CATEGORICAL), joint, key, counter)
            yield self._val(f"{name}.place", self._for(around, place))
            at = self._get(f"{name}.place", axes)
            yield self._val(f"{name}.drawn", self._for(axes, self._get(f"{name}.values", axes, last=[at])))

    def _place(self, counted: str, axes: list[str]) -> S.Expr:
        """The place of a latent's value among its values, where it has been drawn; of a chain's element before, if there is one."""
        if counted in self.plan.latents:
            return self._get(f"{counted}.place", axes)
        name = next(n for n in self.plan.latents if before(n) == counted)
        *outer, t = axes
        zero, one = S.Int(0, span=self.span), S.Int(1, span=self.span)
        step = S.Binary("-", self._var(t), one, self.span, span=self.span)
        first = S.Binary("=", self._var(t), zero, self.span, span=self.span)
        return S.If(first, zero, self._get(f"{name}.place", outer, last=[step]), span=self.span)

    # ── syntax ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _var(self, name: str) -> S.Expr:
        return S.Var(name, span=self.span)

    def _val(self, name: str, value: S.Expr) -> S.Decl:
        return S.Val(S.PatternName(name, span=self.span), value, span=self.span)

    def _groups(self, names: Sequence[str]) -> tuple[S.BinderGroup, ...]:
        return (S.BinderGroup(tuple(S.IndexBinder(n, span=self.span) for n in names), None, span=self.span),)

    def _for(self, names: Sequence[str], body: S.Expr) -> S.Expr:
        return S.For(self._groups(names), body, span=self.span) if names else body

    def _get(
        self, name: str, names: Sequence[str], rest: bool = False, first: Sequence[S.Expr] = (), last: Sequence[S.Expr] = ()
    ) -> S.Expr:  # fmt: skip
        values = [*first, *map(self._var, names), *last]
        if not values:
            return self._var(name)
        at: list[S.Subscript] = [S.IndexAt(v, span=self.span) for v in values]
        return S.Access(self._var(name), (*at, *([S.IndexRest(span=self.span)] if rest else [])), None, span=self.span)


def over_model(site: S.Expr, latents: S.Expr, called: Called) -> S.Expr:
    """The value of a model's body at each of a site's indices."""
    return over(site, lambda leaf, i: of_model(leaf, "value", element(latents, i, called(head_of(leaf_of(site))))))


def _values(site: S.Expr, depth: int) -> S.Expr:
    """The values of a site's distributions, with plates in the place of chains, whose steps are all the first."""
    match site:
        case S.For(_, body):
            return replace(site, body=_values(body, depth + 1))
        case S.If(_, then, otherwise):
            return replace(site, then=_values(then, depth), otherwise=_values(otherwise, depth))
        case S.Loop(_, ((state, start),), _, groups, body):
            first = f"_.start.{depth}"
            inner = S.Let((S.Val(state, S.Var(first, span=start.span), span=start.span),), _values(body, depth + 1), span=body.span)
            plates = S.For(groups, inner, span=site.span)
            return S.Let((S.Val(S.PatternName(first, span=start.span), start, span=start.span),), plates, span=site.span)
        case _:
            return member(site, "support", "values")
