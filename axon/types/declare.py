"""Declarations: patterns, `val`, `fun`, `type`, `sig`, and the generalization of what they define."""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.chance.desugar import Made, desugared
from axon.chance.model import SUMMED, Model, Unsummed
from axon.chance.sites import Called, is_model, latents_of
from axon.grammar import syntax as S
from axon.shapes.constraint import Context, Obligation, Reason, Side
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.annotate import (
    Mentions,
    agree,
    bind_dimension,
    header_of,
    introduce,
    met,
    note_sig,
    parameter_types,
    stripped,
    to_type,
)
from axon.types.generalize import enter, generalize
from axon.types.inference import Env, Inference, defaults_at, infer, instantiate_type, unify, wrong
from axon.types.names import distribution, named_model, open_size
from axon.types.patterns import bind_pattern
from axon.types.resolve import (
    OF_NAMES,
    Alias,
    BrokenName,
    BuiltinName,
    Entity,
    ModelName,
    ModuleName,
    RunName,
    Scope,
    ValueName,
)
from axon.types.scalars import marks, or_scalar, pointwise
from axon.types.symbolic import says, size_of
from axon.types.trouble import NO_DISTRIBUTION, NO_VALUES, Rule, RuleBroken, TypeTooLarge
from axon.types.type import POISON, ElementVar, Exists, Poison, Scheme, Tensor, TupleType, Type, function
from axon.types.undetermined import known_by_product, square_by_broadcast
from axon.types.unify import State, size, subtypes

_MAX_TYPE = 100_000


# ── let ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def infer_let(inf: Inference, env: Env, e: S.Let, expected: Type | None) -> T.Expr:
    scope = env.scope.child()
    inner = env.within(scope)
    decls = declarations(inf, inner, e.decls, top=False)
    body = infer(inf, inner, e.body, expected)
    return T.Let(decls, body, type=body.type, span=e.span)


def declarations(inf: Inference, env: Env, decls: Sequence[S.Decl], top: bool) -> tuple[T.Decl, ...]:
    """Check declarations in order; names come into scope after their own declaration."""
    sigs = {d.name.text: d for d in decls if isinstance(d, S.Sig)}
    if top:
        inf.unknown.clear()
        inf.defaults.clear()
    used: set[str] = set()
    out: list[T.Decl] = []
    for decl in decls:
        match decl:
            case S.Val():
                out.append(_val(inf, env, decl, top, sigs, used))
            case S.Fun() if top and is_model(decl):
                used.add(decl.name.text)
                out += _model(inf, env, decl, sigs.get(decl.name.text))
            case S.Fun():
                used.add(decl.name.text)
                out.append(_fun(inf, env, decl, sigs.get(decl.name.text)))
            case S.TypeDecl(name):
                said = len(inf.diagnostics)
                _type_decl(inf, env, decl)
                broken = any(d.severity == "error" for d in inf.diagnostics[said:])
                env.scope.aliases[name.text] = Alias(decl, env.scope, broken)
            case S.Sig():
                pass
            case S.Draw() | S.Observe():
                _misplaced(inf, env, decl)
            case S.Import(name):
                if not top:
                    wrong(inf, RuleBroken(Rule.IMPORT_INSIDE, decl.span))
    for lonely, sig in sigs.items():
        if lonely not in used:
            wrong(inf, RuleBroken(Rule.LONELY_SIG, sig.name.span, (lonely, " below")))
    return tuple(out)


def _type_decl(inf: Inference, env: Env, decl: S.TypeDecl) -> None:
    """A type declaration is checked where it stands, with its parameters as variables."""
    scope = env.scope.child()
    twice = False
    inf.state.level += 1
    for n, param in enumerate(decl.params):
        first = next((p for p in decl.params[:n] if type(p) is type(param) and p.name == param.name), None)
        if first is not None:
            wrong(inf, RuleBroken(Rule.TYPE_PARAMETER_TWICE, param.span, (param.span.text,), first.span))
            twice = True
        match param:
            case S.DimName(name):
                bind_dimension(inf, scope, name, param.span, rigid=True)
            case S.ShapeRun(name):
                scope.runs[name] = RunName(inf.state.row(name))
            case S.TypeVar(name):
                scope.variables[name] = inf.state.element_var(name=name[1:])
    scope.aliases[decl.name.text] = Alias(decl, env.scope)  # so that a type that contains itself is seen
    said = len(inf.diagnostics)
    to_type(inf, scope, decl.type, (scope.aliases[decl.name.text],))
    if twice:  # the name that the second one replaced is missing below
        inf.diagnostics[said:] = [d for d in inf.diagnostics[said:] if d.code not in OF_NAMES]
    inf.state.level -= 1


# ── val ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _val(inf: Inference, env: Env, d: S.Val, top: bool, sigs: dict[str, S.Sig], used: set[str]) -> T.Val:
    single = _single(d.pattern)
    sig = sigs.get(single.name) if single is not None else None
    used.update(_bound_names(d.pattern))
    lambda_ = stripped(d.value)
    own = lambda_.params if isinstance(lambda_, S.Fn) and single is not None else ()
    marked = marks(own, sig)
    inf.marked.update(t.span for _, t in marked)
    parts = {} if single is not None else {n: sigs[n] for n in _bound_names(d.pattern) if n in sigs}
    generalizes = single is not None and _is_function(env.scope, stripped(d.value))
    if not top and not generalizes:
        return _bind_val(inf, env, d, sig, parts, env.scope, Mentions(), False)
    mark = enter(inf)
    scope = env.scope.child()
    inside = Mentions()
    if top or isinstance(stripped(d.value), S.Fn):
        inside.expr(d.value)
    val = _bind_val(inf, replace(env, scope=scope), d, sig, parts, scope, inside, generalizes)
    names = [n for n in scope.values if n not in env.scope.values or scope.values[n] is not env.scope.values[n]]
    untold = set() if generalizes else {n for n in names if _is_untold(inf.state, scope.values[n])}
    scheme, ok = generalize(inf, mark, val.value.type, (), [], d.span, None, generalizes, (), val.value)
    if ok and generalizes and isinstance(val.value, T.Fn):
        candidates = pointwise(val.value.params, val.value.body) if sig is None and d.pattern is single else set[int]()
        candidates &= {n for n, p in enumerate(own) if isinstance(p, S.PatternName)}
        scheme, ok = _with_scalars(inf, scheme, candidates, marked, val.value.params)
    for name in names:
        entity: Entity = scope.values[name]
        if isinstance(entity, ValueName) and entity.is_dimension and (top or _generic(inf.state, entity.symbol)):
            if single is not None:
                inf.private[name] = single.name, entity.span
            continue  # a size that an annotation names belongs to its declaration
        if ok and isinstance(entity, ValueName) and top:
            entity = replace(entity, by_default=_by_default(inf, entity, name in untold, d.value.span))
        if not ok:
            entity = BrokenName()
        elif isinstance(entity, ValueName):
            if single is not None and name == single.name:
                entity = replace(entity, scheme=scheme)
            value = inf.values.get(entity.symbol) if _is_i32(inf.state, entity.scheme.type) else None
            dim = size_of(inf, value) if value is not None else None
            if dim is not None and dim.constant is not None:
                entity = replace(entity, dim=dim)
        env.scope.values[name] = entity
    return T.Val(val.pattern, val.value, scheme if generalizes and ok else None)


def _is_untold(state: State, entity: Entity) -> bool:
    """Whether a name stands for a tensor of which nothing has said the element type."""
    t = state.prune(entity.scheme.type) if isinstance(entity, ValueName) else None
    return isinstance(t, Tensor) and isinstance(state.element(t.element), ElementVar)


def _by_default(inf: Inference, entity: Entity, untold: bool, value: Span) -> tuple[tuple[Span, Tensor], ...]:
    """Of a name that a `val` binds: those whose element type, a default, it has, itself (`untold`) or of what its value uses."""
    t = inf.state.zonk(entity.scheme.type) if isinstance(entity, ValueName) else None
    if not isinstance(entity, ValueName) or not isinstance(t, Tensor):
        return ()
    return ((entity.span, t),) if untold else defaults_at(inf, value, t.element)


def _generic(state: State, size: Symbol) -> bool:
    """Whether each use of a declaration has a size of its own."""
    return bool(state.dimension(Dim.of(size)).variables & state.generic)


def _is_function(scope: Scope, e: S.Expr) -> bool:
    """Whether an expression is a function by its form, or names one that is polymorphic: such a `val` is generalized."""
    match e:
        case S.Fn() | S.Operator():
            return True
        case S.Var(name):
            entity = scope.value(name)
            return isinstance(entity, BuiltinName) or (isinstance(entity, ValueName) and entity.scheme.quantified)
        case S.Field(S.Var(name)):
            return isinstance(scope.value(name), ModuleName)
    return False


def _bind_val(
    inf: Inference, env: Env, d: S.Val, sig: S.Sig | None, sigs: dict[str, S.Sig], scope: Scope, inside: Mentions, rigid: bool
) -> T.Val:
    """`sig` is of the name that a single one binds, `sigs` of those that a pattern binds.

    `inside` is what annotations in the value mention, if it is not the business of the declaration around.
    """
    mentions = Mentions()
    mentions.pattern(d.pattern)
    expected: Type | None = None
    if sig is not None:
        mentions.type(sig.type)
    introduce(inf, scope, mentions, rigid=False)
    around = scope.child()
    introduce(inf, around, inside, rigid)
    written = d.pattern.type if isinstance(d.pattern, S.PatternTyped) else sig.type if sig is not None else None
    if written is not None:
        before = len(inf.diagnostics)
        expected = to_type(inf, scope, written)
        del inf.diagnostics[before:]  # the pattern itself reports them
    value = infer(inf, env.within(around), d.value, expected)
    if sig is not None:
        declared = to_type(inf, scope, sig.type)
        reason = Reason(d.value.span, "this must have the type of its `sig`")
        unify(inf, value.type, _packed(inf.state, declared, reason), reason)
    value = _opened_parts(inf, env, value)
    t = inf.state.prune(value.type)
    if size(inf.state, t) > _MAX_TYPE:
        if not any(isinstance(part, Poison) for part in subtypes(inf.state, t)):  # else it has been said of a part
            wrong(inf, TypeTooLarge(d.value.span))
        value = T.Literal(0, type=POISON, span=d.value.span)
        t = POISON
    target = replace(env, scope=scope).scope
    pattern = bind_pattern(inf, target, d.pattern, t, {}, value.dim if isinstance(value, T.Dimension) else None)
    _name_parts(inf, pattern, value)
    _name_conditions(inf, pattern, value)
    _conform_parts(inf, scope, sigs, pattern)
    single = d.pattern
    if isinstance(single, S.PatternName) and sig is None and scope is env.scope and isinstance(d.value, S.Int):
        entity = scope.values.get(single.name)
        if isinstance(entity, ValueName):
            scope.values[single.name] = replace(entity, literal=d.value.value)
    return T.Val(pattern, value)


def _name_conditions(inf: Inference, pattern: T.Pattern, value: T.Expr) -> None:
    """Keep what the conditions among a value's parts say, by the names that they get."""
    match pattern, value:
        case T.PatternName(symbol=symbol), _:
            said = says(inf, value, False), says(inf, value, True)
            if any(s.facts or not s.exact for s in said):
                inf.named[symbol] = said
        case T.PatternTuple(items=parts), T.Tuple(items=items):
            for part, item in zip(parts, items, strict=False):
                _name_conditions(inf, part, item)


def _name_parts(inf: Inference, pattern: T.Pattern, value: T.Expr) -> None:
    """Keep what the names of a pattern stand for."""
    match pattern:
        case T.PatternName(symbol=symbol):
            inf.values[symbol] = value
        case T.PatternTuple(items=parts):
            for n, part in enumerate(parts, 1):
                _name_parts(inf, part, T.Project(value, n, type=part.type, span=value.span))
        case T.PatternRecord(fields=members):
            for name, part in members:
                _name_parts(inf, part, T.Field(value, name, type=part.type, span=value.span))


def _opened_parts(inf: Inference, env: Env, value: T.Expr) -> T.Expr:
    """A tuple with sizes that only the data decide opened where it is bound, and not again at each use of a part."""
    t = inf.state.prune(value.type)
    if not isinstance(t, TupleType) or not any(isinstance(inf.state.prune(i), Exists) for i in t.items) or env.repeated:
        return value
    whole = fresh("whole")
    parts: list[T.Expr] = []
    for n, item in enumerate(t.items, 1):
        name = T.Variable(whole, None, type=t, span=value.span)
        parts.append(open_size(inf, env, T.Project(name, n, type=item, span=value.span)))
    items = T.Tuple(tuple(parts), type=TupleType(tuple(p.type for p in parts)), span=value.span)
    pattern = T.PatternName(whole, type=t, span=value.span)
    return T.Let((T.Val(pattern, value),), items, type=items.type, span=value.span)


def _conform_parts(inf: Inference, scope: Scope, sigs: dict[str, S.Sig], pattern: T.Pattern) -> None:
    """Names that a pattern for a tuple or record binds have the types of their `sig`s."""
    match pattern:
        case T.PatternName(symbol=symbol, type=t, span=span) if symbol.name in sigs:
            sig = sigs[symbol.name]
            mentions = Mentions()
            mentions.type(sig.type)
            introduce(inf, scope, mentions, rigid=False)
            reason = Reason(span, "this must have the type of its `sig`")
            unify(inf, t, _packed(inf.state, to_type(inf, scope, sig.type), reason), reason)
        case T.PatternTuple(items=items):
            for item in items:
                _conform_parts(inf, scope, sigs, item)
        case T.PatternRecord(fields=fields):
            for _, item in fields:
                _conform_parts(inf, scope, sigs, item)


def _is_i32(state: State, t: Type) -> bool:
    t = state.prune(t)
    return isinstance(t, Tensor) and not t.shape and state.element(t.element) is Element.I32


# ── models ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _model(inf: Inference, env: Env, decl: S.Fun, sig: S.Sig | None) -> list[T.Fun]:
    """The functions that a model is made into, each of which is inferred as one that a user writes.

    What is wrong with a model is said of the first of them, which has all of its text. Latents that have no transform to the reals
    are summed out of the functions of the others, as far as that is possible; a model where it is not has none of these.
    """
    name, values = decl.name.text, env.scope.values
    if sig is not None:
        wrong(inf, RuleBroken(Rule.SIG_OF_MODEL, sig.name.span, (name,), decl.name.span))
    called: Called = lambda e: named_model(env.scope, e)
    made = desugared(decl, called, lambda e: distribution(env.scope, e))
    for m in made.mistakes:
        wrong(inf, RuleBroken(Rule[m.mistake.name], m.span, m.words, m.also))
    out: list[T.Fun] = []
    for kind, fun in zip(made.model.functions, made.functions, strict=True):
        if kind in SUMMED:
            continue
        typed, errors = _function_of(inf, env, fun, first=not out)
        if errors:
            break
        out.append(typed)
    else:
        if not made.mistakes:
            whole = _without_bounds(inf, env, decl, made, called)
            if whole is not None:
                values[name] = ModelName(whole[0])
                return out + whole[1]
    for fun in made.functions:
        values.pop(fun.name.text, None)
    values[name] = BrokenName()
    return []


def _function_of(inf: Inference, env: Env, fun: S.Fun, first: bool) -> tuple[T.Fun, list[Diagnostic]]:
    """One of its functions, and the errors in it. What the first has said is not said again."""
    said, bound = len(inf.diagnostics), len(inf.inner)
    typed = _fun(inf, env, fun, None)
    inf.inner[bound:] = [entry for entry in inf.inner[bound:] if "." not in entry[0]] if first else []
    found = inf.diagnostics[said:]
    inf.diagnostics[said:] = [d for n, d in enumerate(found) if d not in found[:n] and (first or d.severity != "warning")]
    return typed, [d for d in found if d.severity == "error"]


def _without_bounds(inf: Inference, env: Env, decl: S.Fun, made: Made, called: Called) -> tuple[Model, list[T.Fun]] | None:
    """The model with the functions of unconstrained latents that it has, and these; None if there are errors in them.

    Of which latents there is no transform, errors tell, of which nothing is said: those are summed out, which may show others.
    """
    discrete = frozenset[str]()
    while True:
        out: list[T.Fun] = []
        errors: list[Diagnostic] = []
        said = len(inf.diagnostics)
        for kind, fun in zip(made.model.functions, made.functions, strict=True):
            if kind in SUMMED and not errors:
                typed, errors = _function_of(inf, env, fun, first=False)
                out.append(typed)
        if not errors:
            return made.model, out
        at = errors[0].labels[0].span if errors[0].labels else decl.name.span
        sites = {n: site.span for n, site in latents_of(decl.body)}
        more = {n for e in errors if e.code == NO_DISTRIBUTION for x in e.labels[:1] for n, s in sites.items() if s.covers(x.span)}
        if not discrete and not more:
            return None
        del inf.diagnostics[said:]
        for kind in SUMMED:
            env.scope.values.pop(f"{made.model.name}.{kind}", None)
        if more - discrete:
            discrete |= more
            made = desugared(decl, called, lambda e: distribution(env.scope, e), discrete)
            continue
        infinite = next((n for n, s in sites.items() if errors[0].code == NO_VALUES and s.covers(at)), None)
        why = Unsummed("typed", (*made.model.summed, errors[0].message), at)
        if infinite is not None:
            why = Unsummed("infinite", (infinite,), at)
        functions = tuple(f for f in made.model.functions if f not in SUMMED)
        return replace(made.model, functions=functions, summed=(), unsummed=why), []


def _misplaced(inf: Inference, env: Env, decl: S.Draw | S.Observe) -> None:
    """A `~` that belongs to no model: the names that it would bind say nothing more."""
    names = _bound_names(decl.pattern) if isinstance(decl, S.Draw) else []
    place = Span(decl.span.file, decl.span.start, decl.site.span.start)
    wrong(inf, RuleBroken(Rule.SITE_OUTSIDE, place, (names[0] if names else "x", "model")))
    env.scope.values.update({name: BrokenName() for name in names})


# ── fun ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _fun(inf: Inference, env: Env, d: S.Fun, sig: S.Sig | None) -> T.Fun:
    mark = enter(inf)
    inf.defining.append(d.name.text)
    inf.heading.append(d)
    scope = env.scope.child()
    marked = marks(d.params, sig)
    inf.marked.update(t.span for _, t in marked)
    header = header_of(inf, scope, d, sig)
    params = tuple(p for p in d.params if not isinstance(p, S.DimParams))
    types, result = parameter_types(inf, header.declared, params, d, sig)
    note_sig(inf, sig, params, d.result)
    seen: dict[str, Span] = {}
    patterns = tuple(bind_pattern(inf, scope, p, t, seen) for p, t in zip(params, types, strict=True))
    if d.result is not None:
        declared = to_type(inf, scope, d.result)
        if result is None:
            result = declared
        elif d.result.span in inf.signed:
            agree(inf, result, declared, inf.signed[d.result.span], d.result.span)
    facts = met(inf, scope, header)
    inner = Env(scope, env.context, env.repeated)
    body = infer(inf, inner, d.body, result)
    if result is not None:
        written = d.result.span if d.result is not None else sig.type.span if sig is not None else d.body.span
        sides = (Side(d.body.span, "the body has {}"), Side(written, "the declared result has {}"))
        reason = Reason(d.body.span, "the body must have the declared type", sides)
        unify(inf, body.type, _packed(inf.state, result, reason), reason)
    t = function(tuple(types), result if result is not None else body.type)
    if size(inf.state, t) > _MAX_TYPE:
        if not any(isinstance(part, Poison) for part in subtypes(inf.state, t)):
            wrong(inf, TypeTooLarge(d.name.span))
        t = POISON
    scheme, ok = generalize(inf, mark, t, header.explicit, facts, d.name.span, d, True, patterns, body)
    if ok:
        candidates = pointwise(patterns, body) if sig is None else set[int]()
        candidates &= {n for n, p in enumerate(params) if isinstance(p, S.PatternName)}
        scheme, ok = _with_scalars(inf, scheme, candidates, marked, patterns)
    inf.defining.pop()
    inf.heading.pop()
    if ok and sig is None and inf.state.level == 0 and inf.explains:
        squares = square_by_broadcast(scheme, params, scheme.definition.whole()) if scheme.definition is not None else ()
        for found in (*known_by_product(inf.state, scheme, params), *squares):
            wrong(inf, found)
    symbol = fresh(d.name.text)
    if inf.state.level > 0 and sig is None and d.result is None and not d.where and all(map(_plain, d.params)):
        inf.local[symbol] = d, env.scope
    entity: Entity = ValueName(symbol, scheme, d.name.span) if ok else BrokenName()
    env.scope.values[d.name.text] = entity
    inf.inner.append((d.name.text, d.name.span, scheme.type))
    inf.parameters[symbol] = patterns
    return T.Fun(symbol, patterns, body, scheme)


def _plain(param: S.Param) -> bool:
    """Whether a parameter is without a type."""
    match param:
        case S.PatternName():
            return True
        case S.PatternTuple(items):
            return all(map(_plain, items))
        case S.PatternRecord(fields):
            return all(_plain(item) for _, item in fields)
    return False


def _with_scalars(
    inf: Inference, scheme: Scheme, candidates: set[int], marked: Sequence[tuple[int, S.TypeOrScalar]],
    patterns: Sequence[T.Pattern],
) -> tuple[Scheme, bool]:  # fmt: skip
    """A function's scheme with the parameters for which a scalar will do: those which the text marks must be among them."""
    groups = or_scalar(inf.state, scheme, candidates | {n for n, _ in marked})
    scheme = replace(scheme, scalars=groups)
    left = [(n, t.span) for n, t in marked if n not in scheme.or_scalar]
    for n, span in left:
        pattern = patterns[n] if n < len(patterns) else None
        name = pattern.symbol.name if isinstance(pattern, T.PatternName) else f"argument {n + 1}"
        wrong(inf, RuleBroken(Rule.SCALAR_UNTOLD, span, (name,)))
    return scheme, not left


def _packed(state: State, t: Type, reason: Reason) -> Type:
    """What a body must have to be of a declared type: for `?k <= n. t`, a t of some size that is at most n."""
    t = state.prune(t)
    while isinstance(t, Exists):
        size = state.dim("")
        instance = T.Instance({}, {}, {}, {t.symbol: size})
        for bound in t.bounds:
            subject = ((t.symbol.name, size),)
            state.obligations.append(Obligation(bound.substitute(instance.dims), Context(), reason, subject=subject))
        t = state.prune(instantiate_type(state, t.body, instance))
    return t


def _bound_names(pattern: S.Pattern) -> list[str]:
    match pattern:
        case S.PatternName(name):
            return [name] if name != "_" else []
        case S.PatternTyped(inner):
            return _bound_names(inner)
        case S.PatternTuple(items):
            return [n for item in items for n in _bound_names(item)]
        case S.PatternRecord(fields):
            return [n for _, item in fields for n in _bound_names(item)]


def _single(pattern: S.Pattern) -> S.PatternName | None:
    while isinstance(pattern, S.PatternTyped):
        pattern = pattern.pattern
    return pattern if isinstance(pattern, S.PatternName) else None
