"""What is known of a `fun` before its body: what its annotations mention, and what its `sig` states.

Note [Names of a sig]
    The names of a `sig` are its own, and they are what signatures, errors and `m.f.sizes` call sizes. A name in the annotations of
    the function below it stands for what the `sig` has at its place. It is unknown until both types meet, which is before the body
    is inferred, and then only another name: `sig f : f32[k] -> f32[k]` over `fun f (x : f32[n]) = …` makes n another name of k.
    A definition less general than its `sig`, as `(x : f32[n]) (y : f32[n])` is than `f32[j] -> f32[k]`, is one for which j = k does
    not follow. The body sees the names of both, those of the function first.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.types.annotate import Mentions, bind_dimension, introduce, to_facts, to_type
from axon.types.inference import Inference, clash, wrong
from axon.types.resolve import Scope, ValueName
from axon.types.trouble import Mismatched, Rule, RuleBroken
from axon.types.type import I32, POISON, Function, Poison, Scheme, Type


@dataclass(frozen=True, slots=True, eq=False)
class Header:
    """`own` are the names of sizes in the annotations below a `sig`, `signed` is where the names of that are."""

    explicit: tuple[Symbol, ...]
    facts: tuple[tuple[Relation, Span], ...]
    declared: Type | None = None
    own: tuple[str, ...] = ()
    signed: Scope | None = None


def header_of(inf: Inference, scope: Scope, d: S.Fun, sig: S.Sig | None) -> Header:
    """Introduce the variables that a function's annotations and its `sig` mention, in the scope of the function, which is new."""
    groups = [p for p in d.params if isinstance(p, S.DimParams)]
    if groups and not isinstance(d.params[0], S.DimParams):
        wrong(inf, RuleBroken(Rule.DIMENSIONS_FIRST, groups[0].span))
    if len(groups) > 1:
        wrong(inf, RuleBroken(Rule.DIMENSIONS_TOGETHER, groups[1].span))
    braced = [name for group in groups for name in group.names]
    mentions = Mentions()
    for p in d.params:
        mentions.pattern(p)
    if d.result is not None:
        mentions.type(d.result)
    if sig is None:
        explicit = _explicit(inf, scope, braced)
        mentions.expr(d.body)
        introduce(inf, scope, mentions, rigid=True)
        return Header(explicit, tuple(to_facts(inf, scope, d.where)))
    outer = scope.parent
    assert outer is not None
    annotated, signed = outer.child(), outer.child()
    scope.parent = signed
    written, stated = sig.type, list[S.Name]()
    while isinstance(written, S.TypeDimFun):
        stated += written.names
        written = written.result
    explicit = _explicit(inf, signed, [*stated, *braced[len(stated) :]])
    for name, symbol in zip(braced, explicit, strict=False):
        annotated.values[name.text] = ValueName(symbol, Scheme(I32), name.span, Dim.of(symbol), is_dimension=True)
    introduce(inf, annotated, mentions, rigid=False)
    of_sig, of_body = Mentions(), Mentions()
    of_sig.type(written)
    introduce(inf, signed, of_sig, rigid=True)
    scope.values.update(annotated.values)
    scope.runs.update(annotated.runs)
    scope.variables.update(annotated.variables)
    of_body.expr(d.body)
    introduce(inf, scope, of_body, rigid=True)
    facts = (*to_facts(inf, scope, d.where), *to_facts(inf, signed, sig.where))
    return Header(explicit, facts, to_type(inf, signed, written), tuple(mentions.dims), signed)


def _explicit(inf: Inference, scope: Scope, names: Sequence[S.Name]) -> tuple[Symbol, ...]:
    explicit: list[Symbol] = []
    for name in names:
        if any(s.name == name.text for s in explicit):
            wrong(inf, RuleBroken(Rule.DIMENSION_PARAMETER_TWICE, name.span, (name.text,)))
            continue
        explicit.append(bind_dimension(inf, scope, name.text, name.span, rigid=True))
    return tuple(explicit)


def agree(inf: Inference, stated: Type, annotated: Type, at: Span, written: Span) -> None:
    """Let what an annotation says be what the `sig` states there; from then on its names are those of the `sig`."""
    state, before = inf.state, len(inf.state.equals)
    sides = (Side(at, "the `sig` has {}"), Side(written, "the annotation has {}"))
    reason = Reason(written, "the annotation must say what the `sig` states", sides)
    found = clash(inf, stated, annotated, reason)
    for equal in state.equals[before:]:
        own, size = state.dimension(equal.right).symbol, state.dimension(equal.left)
        if own is not None and own not in state.rigid and own not in size.variables:
            state.dims[own] = size
    if found is not None:
        wrong(inf, Mismatched(found, stated, annotated, reason))


def met(inf: Inference, scope: Scope, header: Header) -> list[tuple[Relation, Span]]:
    """The facts that both state, when all types have met; the names that are in scope stand for what was found."""
    state, signed = inf.state, header.signed
    if signed is None:
        return list(header.facts)
    names = {name: e for name in header.own if isinstance(e := scope.values.get(name), ValueName) and e.is_dimension}
    for name, entity in names.items():
        same = signed.values.get(name)
        taken = {state.dimension(Dim.of(e.symbol)).symbol for e in names.values()}
        if entity.symbol in taken - state.rigid and isinstance(same, ValueName) and same.symbol not in taken:  # a part of a product
            state.dims[entity.symbol] = Dim.of(same.symbol)
        size = state.dimension(Dim.of(entity.symbol))
        scope.values[name] = replace(entity, symbol=size.symbol or entity.symbol, dim=size)
    return [(Relation(state.dimension(r.left), r.op, state.dimension(r.right)), span) for r, span in header.facts]


def note_sig(inf: Inference, sig: S.Sig | None, params: tuple[S.Pattern, ...], result: S.Type | None) -> None:
    """Where the `sig` writes the type of each parameter, and of an annotated result."""
    if sig is None:
        return
    written = sig.type
    while isinstance(written, S.TypeDimFun):
        written = written.result
    for param in params:
        if isinstance(written, S.TypeFun):
            inf.signed[param.span] = written.param.span
            written = written.result
    if result is not None:
        inf.signed[result.span] = written.span
    inf.annotations.append(sig.span)


def parameter_types(
    inf: Inference, declared: Type | None, params: tuple[S.Pattern, ...], d: S.Fun, sig: S.Sig | None
) -> tuple[list[Type], Type | None]:
    """The types of the parameters as far as the `sig` says them, and that of the result."""
    types: list[Type] = []
    rest = declared
    for param in params:
        if rest is None or isinstance(rest, Poison):
            types.append(inf.state.type_var())
            continue
        rest = inf.state.prune(rest)
        if not isinstance(rest, Function):
            assert sig is not None
            wrong(inf, RuleBroken(Rule.PARAMETERS_OF_SIG, param.span, (d.name.text,), sig.name.span))
            types.append(POISON)
            rest = POISON
            continue
        types.append(rest.param)
        rest = rest.result
    return types, rest
