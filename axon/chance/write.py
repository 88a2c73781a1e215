"""Syntax that the functions of models are written with. See the notes of `desugar`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import TypeAlias

from axon.base.data import replace
from axon.base.source import Span
from axon.chance.model import Model
from axon.grammar import syntax as S

# They stand for functions of the standard library, wherever a model stands.
USED = FOLD_IN, CATEGORICAL, LOG_SUM_EXP, FORWARD, PATH = (
    "random.fold_in", "random.categorical", "special.log_sum_exp", "hmm.forward", "hmm.path",
)  # fmt: skip
Index: TypeAlias = tuple[str, ...]  # the names of one dimension's indices: several, where it is their product
At: TypeAlias = Callable[[S.Expr, tuple[Index, ...]], S.Expr]  # what is made of a distribution, at the indices around it


def number(name: str) -> int:
    """What is folded into a key for a site: 31 bits, so that it is an integer of any type that has as many."""
    return int.from_bytes(hashlib.sha256(name.encode()).digest()[:4], "big") >> 1


class Named:
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
        return self.val("key", call(S.Var(FOLD_IN, span=self.span), S.Var("key.given", span=self.span), digest))


def over(
    site: S.Expr, at: At, total: bool = False, chain: S.Expr | None = None, indices: tuple[Index, ...] = ()
) -> S.Expr:  # fmt: skip
    """What is made of each distribution of a site, in its place; `total`: summed over the plates. `chain` is what was drawn, if all
    of it is known: see Note [Chains]."""
    match site:
        case S.For(groups, body):
            groups, own = _with_names(groups, len(indices))
            return plate(groups, over(body, at, total, chain, (*indices, *own)), total, site.span)
        case S.If(condition, then, otherwise):
            return S.If(condition, *(over(branch, at, total, chain, indices) for branch in (then, otherwise)), span=site.span)
        case S.Loop("unfold", ((state, start),), None, groups, body):
            groups, own = _with_names(groups, len(indices))
            inner = over(body, at, total, chain, (*indices, *own))
            if chain is None:
                return replace(site, groups=groups, body=inner)
            first = S.Var(f"_.start.{len(indices)}", span=start.span)
            before = S.If(_first(own, site.span), first, _before(chain, indices, own), span=start.span)
            steps = plate(groups, S.Let((S.Val(state, before, span=start.span),), inner, span=site.span), total, site.span)
            return S.Let((S.Val(S.PatternName(first.name, span=start.span), start, span=start.span),), steps, span=site.span)
        case _:
            return at(site, indices)


def added(terms: list[S.Expr]) -> S.Expr:
    total, *rest = terms
    for term in rest:
        total = S.Binary("+", total, term, term.span, span=term.span)
    return total


def plate(groups: tuple[S.BinderGroup, ...], body: S.Expr, total: bool, span: Span) -> S.Expr:
    if total:
        return S.Reduce(S.Name("sum", span), None, groups, None, body, span=span)
    return S.For(groups, body, span=span)


def _first(step: list[Index], span: Span) -> S.Expr:
    """Whether a step is the first."""
    return S.Binary("=", S.Var(step[-1][-1], span=span), S.Int(0, span=span), span, span=span)


def _before(chain: S.Expr, indices: tuple[Index, ...], step: list[Index]) -> S.Expr:
    """What was drawn in the step before one."""
    at = element(chain, (*indices, *step), None)
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


def element(x: S.Expr, indices: tuple[Index, ...], model: Model | None) -> S.Expr:
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


def member(leaf: S.Expr, *names: str) -> S.Expr:
    for name in names:
        leaf = S.Field(leaf, S.Name(name, leaf.span), span=leaf.span)
    return leaf


def of_model(leaf: S.Expr, function: str, *more: S.Expr) -> S.Expr:
    """A function of a model in the place of the model, applied to what that is applied to, and to more."""

    def replaced(e: S.Expr) -> S.Expr:
        match e:
            case S.Apply() | S.ApplyDims():
                return replace(e, function=replaced(e.function))
            case _:
                return S.Field(e, S.Name(function, e.span), span=e.span)

    return call(replaced(leaf), *more)


def call(function: S.Expr, *arguments: S.Expr) -> S.Expr:
    for argument in arguments:
        function = S.Apply(function, argument, span=function.span)
    return function


def folded(key: S.Expr, indices: tuple[Index, ...]) -> S.Expr:
    for name in (n for index in indices for n in index):
        key = call(S.Var(FOLD_IN, span=key.span), key, S.Var(name, span=key.span))
    return key


def no_key(span: Span) -> S.Expr:
    """Of what is drawn for its type alone."""
    return S.Array((S.Int(0, span=span), S.Int(0, span=span)), span=span)
