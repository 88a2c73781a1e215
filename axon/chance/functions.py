"""One function of a model. See the notes of `desugar`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import TypeAlias

from axon.base.data import replace
from axon.base.source import Span
from axon.chance.model import Model
from axon.chance.sites import Called, bound_in, head_of, inside, leaf_of, name_of
from axon.grammar import syntax as S

FOLD_IN = "random.fold_in"  # stands for the function of the standard library, wherever a model stands
Index: TypeAlias = tuple[str, ...]  # the names of one dimension's indices: several, where it is their product
At: TypeAlias = Callable[[S.Expr, tuple[Index, ...]], S.Expr]  # what is made of a distribution, at the indices around it


def function_of(decl: S.Fun, model: Model, function: str, called: Called) -> S.Fun:
    """`schools.log_density` of `schools`."""
    return _Maker(decl, model, function, called).function()


def number(name: str) -> int:
    """What is folded into a key for a site: 31 bits, so that it is an integer of any type that has as many."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


class _Maker:
    def __init__(self, decl: S.Fun, model: Model, kind: str, called: Called) -> None:
        self.decl, self.model, self.kind, self.called = decl, model, kind, called
        self.terms: list[S.Expr] = []  # of the density that is asked for
        self.densities: list[S.Expr] = []  # of all sites
        self.parts: list[tuple[S.Name, S.Expr]] = []  # of the record that is asked for

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
        names = [site.name for site in self.model.latents]
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
        if not isinstance(body.body, S.Let) and len(self.densities) > 1:
            decls.append(S.Val(S.PatternName("_.density", span=body.body.span), _sum(self.densities), span=body.body.span))
        return S.Let(tuple(decls), self._spine(body.body), span=body.span)

    def _result(self, body: S.Expr) -> S.Expr:
        match self.kind:
            case "value":
                return body
            case "log_density" | "likelihood" | "unconstrained":
                return _sum(self.terms)
            case _:
                return S.Record(tuple(self.parts), span=body.span) if self.parts else S.Tuple((), span=body.span)

    # ── sites ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _draw(self, pattern: S.Pattern, site: S.Expr) -> Iterator[S.Decl]:
        bound = name_of(pattern)
        assert bound is not None
        name, at = bound.name, bound.span
        model = self.called(head_of(leaf_of(site)))
        here = _Named(name, at, site)
        latents = here.var("latents")  # not by its own name, which may be another value's in the site
        drawn = _over(site, lambda leaf, i: self._sampled(leaf, _no_key(site.span), i))
        if self.kind == "prior":
            yield here.key()
            value = _over(site, lambda leaf, i: self._sampled(leaf, here.var("key"), i))
        elif self.kind in ("unconstrained", "constrain"):
            yield here.val("drawn", drawn)
            free = _over(site, lambda leaf, i: self._free(leaf, _at(here.var("drawn"), i, model)), chain=here.var("drawn"))
            yield here.val("free", S.Like(here.var("given"), free, False, span=here.span))
            value = _over(site, lambda leaf, i: self._constrained(leaf, _at(here.var("free"), i, model)))
        else:
            value = S.Like(here.var("given"), drawn, False, span=here.span)
        yield here.val("latents", value)
        drawn_at: At = lambda leaf, i: _at(latents, i, model)
        density: At = lambda leaf, i: self._density(leaf, "log_density", drawn_at(leaf, i))
        yield here.val("density", _over(site, density, total=True, chain=latents))
        self.densities.append(here.var("density"))
        if self.kind == "unconstrained":
            free_at: At = lambda leaf, i: _at(here.var("free"), i, model)
            both: At = lambda leaf, i: self._with_jacobian(leaf, drawn_at(leaf, i), free_at(leaf, i))
            moved = _over(site, both, total=True, chain=latents)
            yield here.val("unconstrained", moved)
            self.terms.append(here.var("unconstrained"))
        elif self.kind == "log_density":
            self.terms.append(here.var("density"))
        elif self.kind == "densities":
            self.parts.append((S.Name(name, at), here.var("density")))
        elif self.kind == "likelihood" and model is not None and "likelihood" in model.functions:
            yield here.val("likelihood", _over(site, lambda leaf, i: _of_model(leaf, "likelihood", drawn_at(leaf, i)), total=True))
            self.terms.append(here.var("likelihood"))
        elif self.kind == "free":
            yield here.val("free", _over(site, lambda leaf, i: self._free(leaf, drawn_at(leaf, i)), chain=latents))
            self.parts.append((S.Name(name, at), here.var("free")))
        elif self.kind in ("prior", "constrain"):
            self.parts.append((S.Name(name, at), latents))
        elif self.kind == "pointwise" and model is not None and "pointwise" in model.functions:
            yield here.val("pointwise", _over(site, lambda leaf, i: _of_model(leaf, "pointwise", drawn_at(leaf, i))))
            self.parts.append((S.Name(name, at), here.var("pointwise")))
        elif self.kind == "predict" and model is not None and "predict" in model.functions:
            yield here.key()
            new = _over(site, lambda leaf, i: _of_model(leaf, "predict", drawn_at(leaf, i), _folded(here.var("key"), i)))
            yield here.val("new", new)
            self.parts.append((S.Name(name, at), here.var("new")))
        inner = latents if model is None else _over(site, lambda leaf, i: _of_model(leaf, "value", drawn_at(leaf, i)))
        yield S.Val(pattern, inner, span=site.span)

    def _observe(self, name: S.Name, site: S.Expr) -> Iterator[S.Decl]:
        here = _Named(name.text, name.span, site)
        data = S.Var(f"{name.text}.data", span=name.span)
        yield S.Val(S.PatternName(data.name, span=name.span), S.Var(name.text, span=name.span), span=name.span)
        # Each element beside its draw gives an index its range, and the whole the data theirs.
        drawn = _over(
            site, lambda leaf, i: S.Like(_at(data, i, None), self._sampled(leaf, _no_key(site.span), i), True, span=name.span)
        )
        yield here.val("seen", S.Like(data, drawn, True, span=name.span))
        seen = here.var("seen")
        density: At = lambda leaf, i: self._density(leaf, "log_density", _at(seen, i, None))
        yield here.val("density", _over(site, density, total=True, chain=seen))
        self.densities.append(here.var("density"))
        if self.kind == "densities":
            self.parts.append((name, here.var("density")))
        elif self.kind == "pointwise":
            yield here.val("pointwise", _over(site, density, chain=seen))
            self.parts.append((name, here.var("pointwise")))
        elif self.kind in ("log_density", "likelihood", "unconstrained"):
            self.terms.append(here.var("density"))
        elif self.kind == "predict":
            yield here.key()
            new = _over(
                site, lambda leaf, i: S.Like(self._sampled(leaf, here.var("key"), i), _at(seen, i, None), True, span=name.span)
            )
            yield here.val("new", new)
            self.parts.append((name, here.var("new")))

    # ── what a distribution, or a model that is called, gives ───────────────────────────────────────────────────────────

    def _sampled(self, leaf: S.Expr, key: S.Expr, indices: tuple[Index, ...]) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return _of_model(leaf, "prior", _folded(key, indices))
        *before, counter = [n for index in indices for n in index] or [""]
        i: S.Expr = S.Var(counter, span=leaf.span) if counter else S.Int(0, span=leaf.span)
        return _call(_member(leaf, "sample"), _folded(key, tuple((n,) for n in before)), i)

    def _density(self, leaf: S.Expr, function: str, x: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return _of_model(leaf, function, x)
        return _call(_member(leaf, function), x)

    def _with_jacobian(self, leaf: S.Expr, x: S.Expr, free: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return _of_model(leaf, "unconstrained", free)
        jacobian = _call(_member(leaf, "support", "log_jacobian"), free)
        return S.Binary("+", self._density(leaf, "log_density", x), jacobian, leaf.span, span=leaf.span)

    def _constrained(self, leaf: S.Expr, free: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return _of_model(leaf, "constrain", free)
        return _call(_member(leaf, "support", "constrain"), free)

    def _free(self, leaf: S.Expr, x: S.Expr) -> S.Expr:
        if self.called(head_of(leaf)) is not None:
            return _of_model(leaf, "free", x)
        return _call(_member(leaf, "support", "unconstrain"), x)


_TAKES = {
    "value": ("latents",), "log_density": ("latents",), "likelihood": ("latents",), "free": ("latents",), "prior": ("key",),
    "densities": ("latents",), "pointwise": ("latents",),
    "predict": ("latents", "key"), "unconstrained": ("u",), "constrain": ("u",),
}  # fmt: skip


class _Named:
    """What is made for one site, with names after its own. Its place is that of `mu ~ dist.normal 0.0 1.0`, and no other's."""

    def __init__(self, name: str, at: Span, site: S.Expr) -> None:
        self.name, self.span = name, at.to(site.span)

    def var(self, of: str) -> S.Expr:
        return S.Var(f"{self.name}.{of}", span=self.span)

    def val(self, of: str, value: S.Expr) -> S.Decl:
        return S.Val(S.PatternName(f"{self.name}.{of}", span=self.span), value, span=self.span)

    def key(self) -> S.Decl:
        """See Note [Keys]."""
        digest = S.Int(number(self.name), span=self.span)
        return self.val("key", _call(S.Var(FOLD_IN, span=self.span), S.Var("key.given", span=self.span), digest))


# ── syntax ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def _over(
    site: S.Expr, at: At, total: bool = False, chain: S.Expr | None = None, indices: tuple[Index, ...] = ()
) -> S.Expr:  # fmt: skip
    """What is made of each distribution of a site, in its place; `total`: summed over the plates. `chain` is what was drawn, if all
    of it is known: see Note [Chains]."""
    match site:
        case S.For(groups, body):
            groups, own = _with_names(groups, len(indices))
            return _plate(groups, _over(body, at, total, chain, (*indices, *own)), total, site.span)
        case S.If(condition, then, otherwise):
            return S.If(condition, *(_over(branch, at, total, chain, indices) for branch in (then, otherwise)), span=site.span)
        case S.Loop("unfold", ((state, start),), None, groups, body):
            groups, own = _with_names(groups, len(indices))
            inner = _over(body, at, total, chain, (*indices, *own))
            if chain is None:
                return replace(site, groups=groups, body=inner)
            first = S.Var(f"_.start.{len(indices)}", span=start.span)
            before = S.If(_first(own, site.span), first, _before(chain, indices, own), span=start.span)
            steps = _plate(groups, S.Let((S.Val(state, before, span=start.span),), inner, span=site.span), total, site.span)
            return S.Let((S.Val(S.PatternName(first.name, span=start.span), start, span=start.span),), steps, span=site.span)
        case _:
            return at(site, indices)


def _sum(terms: list[S.Expr]) -> S.Expr:
    total, *rest = terms
    for term in rest:
        total = S.Binary("+", total, term, term.span, span=term.span)
    return total


def _plate(groups: tuple[S.BinderGroup, ...], body: S.Expr, total: bool, span: Span) -> S.Expr:
    if total:
        return S.Reduce(S.Name("sum", span), None, groups, None, body, span=span)
    return S.For(groups, body, span=span)


def _first(step: list[Index], span: Span) -> S.Expr:
    """Whether a step is the first."""
    return S.Binary("=", S.Var(step[-1][-1], span=span), S.Int(0, span=span), span, span=span)


def _before(chain: S.Expr, indices: tuple[Index, ...], step: list[Index]) -> S.Expr:
    """What was drawn in the step before one."""
    at = _at(chain, (*indices, *step), None)
    assert isinstance(at, S.Access)
    *outer, _, rest = at.subscripts
    s = S.Binary("-", S.Var(step[-1][-1], span=chain.span), S.Int(1, span=chain.span), chain.span, span=chain.span)
    return replace(at, subscripts=(*outer, S.IndexAt(s, span=chain.span), rest))


def _with_names(groups: tuple[S.BinderGroup, ...], count: int) -> tuple[tuple[S.BinderGroup, ...], list[Index]]:
    """Binders with a name for each index, and these names; `count` indices are around them."""
    indices: list[Index] = []

    def named(binder: S.Binder) -> S.Binder:
        match binder:
            case S.ProductBinder(names):
                indices.append(tuple(n.text for n in names))
            case S.IndexBinder("_"):
                indices.append((f"_.{count + len(indices)}",))
                return replace(binder, name=indices[-1][0])
            case _:
                indices.append((binder.name or "",))
        return binder

    return tuple(replace(g, binders=tuple(map(named, g.binders))) for g in groups), indices


def _at(x: S.Expr, indices: tuple[Index, ...], model: Model | None) -> S.Expr:
    """An element of what a plate has, with all its dimensions; of what a model has, each of its parts."""
    if not indices:
        return x
    subscripts: list[S.Subscript] = []
    for index in indices:
        names: list[S.Expr] = [S.Var(n, span=x.span) for n in index]
        subscripts.append(S.IndexSplit(tuple(names), span=x.span) if len(names) > 1 else S.IndexAt(names[0], span=x.span))
    if model is None:
        subscripts.append(S.IndexRest(span=x.span))
    return S.Access(x, tuple(subscripts), None, span=x.span)


def _member(leaf: S.Expr, *names: str) -> S.Expr:
    for name in names:
        leaf = S.Field(leaf, S.Name(name, leaf.span), span=leaf.span)
    return leaf


def _of_model(leaf: S.Expr, function: str, *more: S.Expr) -> S.Expr:
    """A function of a model in the place of the model, applied to what that is applied to, and to more."""

    def replaced(e: S.Expr) -> S.Expr:
        match e:
            case S.Apply() | S.ApplyDims():
                return replace(e, function=replaced(e.function))
            case _:
                return S.Field(e, S.Name(function, e.span), span=e.span)

    return _call(replaced(leaf), *more)


def _call(function: S.Expr, *arguments: S.Expr) -> S.Expr:
    for argument in arguments:
        function = S.Apply(function, argument, span=function.span)
    return function


def _folded(key: S.Expr, indices: tuple[Index, ...]) -> S.Expr:
    for name in (n for index in indices for n in index):
        key = _call(S.Var(FOLD_IN, span=key.span), key, S.Var(name, span=key.span))
    return key


def _no_key(span: Span) -> S.Expr:
    """Of what is drawn for its type alone."""
    return S.Array((S.Int(0, span=span), S.Int(0, span=span)), span=span)
