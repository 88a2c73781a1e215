"""One function of a model. See the notes of `desugar`."""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.source import Span
from axon.chance.enumerated import Enumerated
from axon.chance.model import SUMMED, Model
from axon.chance.sites import Called, bound_in, head_of, inside, leaf_of, name_of
from axon.chance.summed import Plan
from axon.chance.write import At, Index, Named, added, call, element, folded, member, no_key, of_model, over
from axon.grammar import syntax as S


def function_of(decl: S.Fun, model: Model, function: str, called: Called, plan: Plan | None = None) -> S.Fun:
    """`schools.log_density` of `schools`. `plan` says how its discrete latents are summed out, if they are."""
    return _Maker(decl, model, function, called, plan).function()


class _Maker:
    def __init__(self, decl: S.Fun, model: Model, kind: str, called: Called, plan: Plan | None) -> None:
        self.decl, self.model, self.kind, self.called = decl, model, kind, called
        self.terms: list[S.Expr] = []  # of the density that is asked for
        self.densities: list[S.Expr] = []  # of all sites
        self.parts: list[tuple[S.Name, S.Expr]] = []  # of the record that is asked for
        self.without = frozenset(model.summed) if kind in SUMMED else frozenset[str]()  # of the record that is given
        self.sums = Enumerated(plan, called, decl.name.span) if plan is not None and kind in _SUMS else None

    def function(self) -> S.Fun:
        decl, span = self.decl, self.decl.name.span
        taken = {p.name for param in decl.params for p in bound_in(param)} | _from_around(decl.body)

        def own(name: str) -> str:
            while name in taken:
                name += "_"
            return name

        first: list[S.Decl] = []
        params: list[S.Param] = [*decl.params]
        for takes in _TAKES[self.kind]:
            params.append(S.PatternName(own(takes), span=span))
            pattern = S.PatternName("key.given", span=span) if takes == "key" else self._given(span)
            first.append(S.Val(pattern, S.Var(own(takes), span=span), span=span))
        body = S.Let(tuple(first), self._spine(decl.body), span=decl.body.span)
        name, result = S.Name(f"{decl.name.text}.{self.kind}", span), decl.result if self.kind == "value" else None
        return S.Fun(name, tuple(params), result, decl.where, body, span=decl.span)

    def _given(self, span: Span) -> S.Pattern:
        names = [site.name for site in self.model.latents if site.name not in self.without]
        if not names:
            return S.PatternTuple((), span=span)
        return S.PatternRecord(tuple((S.Name(n, span), S.PatternName(f"{n}.given", span=span)) for n in names), span=span)

    def _spine(self, body: S.Expr) -> S.Expr:
        if not isinstance(body, S.Let):
            return self._result(body)
        decls: list[S.Decl] = []
        for decl in body.decls:
            match decl:
                case S.Draw(pattern, site):
                    decls += self._draw(pattern, site)
                case S.Observe(name, site):
                    decls += self._observe(name, site)
                case _:
                    decls.append(decl)
            if self.sums is not None:
                self.sums.spine.append(decl)
        if not isinstance(body.body, S.Let):
            if len(self.densities) > 1:
                decls.append(S.Val(S.PatternName("_.density", span=body.body.span), added(self.densities), span=body.body.span))
            if self.sums is not None:
                decls += [*self.sums.steps(), *(self.sums.draws() if self.kind == "complete" else ())]
                self.terms += self.sums.terms()
        return S.Let(tuple(decls), self._spine(body.body), span=body.span)

    def _result(self, body: S.Expr) -> S.Expr:
        match self.kind:
            case "value":
                return body
            case "log_density" | "likelihood" | "unconstrained" | "marginal":
                return added(self.terms)
            case _:
                return S.Record(tuple(self.parts), span=body.span) if self.parts else S.Tuple((), span=body.span)

    # ── sites ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self, pattern: S.Pattern, site: S.Expr) -> Iterator[S.Decl]:
        bound = name_of(pattern)
        assert bound is not None
        name, at = bound.name, bound.span
        if name in self.without:
            yield from self._without(pattern, name, site)
            return
        model = self.called(head_of(leaf_of(site)))
        here = Named(name, at, site)
        latents = here.var("latents")  # not by its own name, which may be another value's in the site
        drawn = over(site, lambda leaf, i: self._sampled(leaf, no_key(site.span), i))
        if self.kind == "prior":
            yield here.key()
            value = over(site, lambda leaf, i: self._sampled(leaf, here.var("key"), i))
        elif self.kind in ("unconstrained", "constrain"):
            yield here.val("drawn", drawn)
            free = over(site, lambda leaf, i: self._free(leaf, element(here.var("drawn"), i, model)), chain=here.var("drawn"))
            yield here.val("free", S.Like(here.var("given"), free, False, span=here.span))
            value = over(site, lambda leaf, i: self._constrained(leaf, element(here.var("free"), i, model)))
        else:
            value = S.Like(here.var("given"), drawn, False, span=here.span)
        yield here.val("latents", value)
        drawn_at: At = lambda leaf, i: element(latents, i, model)
        density: At = lambda leaf, i: self._density(leaf, "log_density", drawn_at(leaf, i))
        yield here.val("density", over(site, density, total=True, chain=latents))
        self.densities.append(here.var("density"))
        if self.kind == "unconstrained":
            free_at: At = lambda leaf, i: element(here.var("free"), i, model)
            both: At = lambda leaf, i: self._with_jacobian(leaf, drawn_at(leaf, i), free_at(leaf, i))
            if self._looks(name):
                yield self._factor(name, over(site, both, chain=latents))
            else:
                yield here.val("unconstrained", over(site, both, total=True, chain=latents))
                self.terms.append(here.var("unconstrained"))
        elif self._looks(name):
            yield self._factor(name, over(site, density, chain=latents))
        elif self.kind in ("log_density", "marginal"):
            self.terms.append(here.var("density"))
        elif self.kind == "densities":
            self.parts.append((S.Name(name, at), here.var("density")))
        elif self.kind == "likelihood" and model is not None and "likelihood" in model.functions:
            yield here.val("likelihood", over(site, lambda leaf, i: of_model(leaf, "likelihood", drawn_at(leaf, i)), total=True))
            self.terms.append(here.var("likelihood"))
        elif self.kind == "free":
            yield here.val("free", over(site, lambda leaf, i: self._free(leaf, drawn_at(leaf, i)), chain=latents))
            self.parts.append((S.Name(name, at), here.var("free")))
        elif self.kind in ("prior", "constrain"):
            self.parts.append((S.Name(name, at), latents))
        elif self.kind == "pointwise" and model is not None and "pointwise" in model.functions:
            yield here.val("pointwise", over(site, lambda leaf, i: of_model(leaf, "pointwise", drawn_at(leaf, i))))
            self.parts.append((S.Name(name, at), here.var("pointwise")))
        elif self.kind == "predict" and model is not None and "predict" in model.functions:
            yield here.key()
            new = over(site, lambda leaf, i: of_model(leaf, "predict", drawn_at(leaf, i), folded(here.var("key"), i)))
            yield here.val("new", new)
            self.parts.append((S.Name(name, at), here.var("new")))
        if self.kind == "complete":
            self.parts.append((S.Name(name, at), latents))
        inner = latents if model is None else over(site, lambda leaf, i: of_model(leaf, "value", drawn_at(leaf, i)))
        yield S.Val(pattern, inner, span=site.span)

    def _without(self, pattern: S.Pattern, name: str, site: S.Expr) -> Iterator[S.Decl]:
        """A latent that is summed out: where a value of it is asked for a type, it is one that was drawn."""
        here = Named(name, pattern.span, site)
        latents = here.var("latents")
        yield here.val("latents", over(site, lambda leaf, i: self._sampled(leaf, no_key(site.span), i)))
        density = over(
            site, lambda leaf, i: self._density(leaf, "log_density", element(latents, i, None)), total=True, chain=latents
        )
        yield here.val("density", density)
        self.densities.append(here.var("density"))
        if self.sums is not None:
            yield self.sums.values(name, site)
            now: At = lambda leaf, i: self._density(leaf, "log_density", element(here.var("now"), i, None))
            yield self._factor(name, over(site, now, chain=here.var("before.now")))
        if self.kind == "complete":
            self.parts.append((S.Name(name, pattern.span), here.var("drawn")))
        yield S.Val(pattern, latents, span=site.span)

    def _looks(self, name: str) -> bool:
        """Whether a site looks at a latent that is summed out here."""
        return self.sums is not None and name in self.sums.plan.factors

    def _factor(self, name: str, terms: S.Expr) -> S.Decl:
        assert self.sums is not None
        return self.sums.factor(name, terms)

    def _observe(self, name: S.Name, site: S.Expr) -> Iterator[S.Decl]:
        here = Named(name.text, name.span, site)
        data = S.Var(f"{name.text}.data", span=name.span)
        yield S.Val(S.PatternName(data.name, span=name.span), S.Var(name.text, span=name.span), span=name.span)
        # Each element beside its draw gives an index its range, and the whole the data theirs.
        drawn = over(
            site, lambda leaf, i: S.Like(element(data, i, None), self._sampled(leaf, no_key(site.span), i), True, span=name.span)
        )
        yield here.val("seen", S.Like(data, drawn, True, span=name.span))
        seen = here.var("seen")
        density: At = lambda leaf, i: self._density(leaf, "log_density", element(seen, i, None))
        yield here.val("density", over(site, density, total=True, chain=seen))
        self.densities.append(here.var("density"))
        if self.kind == "densities":
            self.parts.append((name, here.var("density")))
        elif self.kind == "pointwise":
            yield here.val("pointwise", over(site, density, chain=seen))
            self.parts.append((name, here.var("pointwise")))
        elif self._looks(name.text):
            yield self._factor(name.text, over(site, density, chain=seen))
        elif self.kind in ("log_density", "likelihood", "unconstrained", "marginal"):
            self.terms.append(here.var("density"))
        elif self.kind == "predict":
            yield here.key()
            new = over(
                site, lambda leaf, i: S.Like(self._sampled(leaf, here.var("key"), i), element(seen, i, None), True, span=name.span)
            )
            yield here.val("new", new)
            self.parts.append((name, here.var("new")))

    # ── what a distribution, or a model that is called, gives ───────────────────────────────────────────────────────────

    def _sampled(self, leaf: S.Expr, key: S.Expr, indices: tuple[Index, ...]) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return of_model(leaf, "prior", folded(key, indices))
        *before, counter = [n for index in indices for n in index] or [""]
        i: S.Expr = S.Var(counter, span=leaf.span) if counter else S.Int(0, span=leaf.span)
        return call(member(leaf, "sample"), folded(key, tuple((n,) for n in before)), i)

    def _density(self, leaf: S.Expr, function: str, x: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return of_model(leaf, function, x)
        return call(member(leaf, function), x)

    def _with_jacobian(self, leaf: S.Expr, x: S.Expr, free: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return of_model(leaf, "unconstrained", free)
        jacobian = call(member(leaf, "support", "log_jacobian"), free)
        return S.Binary("+", self._density(leaf, "log_density", x), jacobian, leaf.span, span=leaf.span)

    def _constrained(self, leaf: S.Expr, free: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return of_model(leaf, "constrain", free)
        return call(member(leaf, "support", "constrain"), free)

    def _free(self, leaf: S.Expr, x: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return of_model(leaf, "free", x)
        return call(member(leaf, "support", "unconstrain"), x)


_TAKES = {
    "value": ("latents",), "log_density": ("latents",), "likelihood": ("latents",), "free": ("latents",), "prior": ("key",),
    "densities": ("latents",), "pointwise": ("latents",),
    "predict": ("latents", "key"), "unconstrained": ("u",), "constrain": ("u",), "marginal": ("rest",), "complete": ("rest", "key"),
}  # fmt: skip
_SUMS = ("unconstrained", "marginal", "complete")  # which need the sum over discrete latents


def _from_around(body: S.Expr) -> set[str]:
    """The names that a model's body may have from outside: those that it mentions before they are bound in its `let`s."""
    found: set[str] = set()
    bound: set[str] = set()

    def mentioned(node: S.Node) -> None:
        names = {n.name for n in inside(node) if isinstance(n, S.Var)}
        if isinstance(node, S.Observe):
            names.add(node.name.text)
        found.update(names - bound)

    while isinstance(body, S.Let):
        for decl in body.decls:
            mentioned(decl)
            if isinstance(decl, S.Val | S.Draw):
                bound |= {p.name for p in bound_in(decl.pattern)}
            elif isinstance(decl, S.Fun):
                bound.add(decl.name.text)
        body = body.body
    mentioned(body)
    return found
