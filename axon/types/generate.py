"""Expressions: from surface syntax to typed syntax, generating constraints on the way."""

from __future__ import annotations

from typing import assert_never

from axon.base.element import FLOAT, INT, NUM, Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Reason, Side
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.types import typed as T
from axon.types.access import infer_access
from axon.types.annotate import to_type
from axon.types.application import infer_application
from axon.types.comprehension import infer_for, infer_loop, infer_reduce, is_single_bool
from axon.types.constraint import Member
from axon.types.declare import infer_let
from axon.types.inference import Env, Inference, Words, as_tensor, broken, clash, infer, only_where, too_complex, unify, wrong
from axon.types.literals import Literal
from axon.types.names import infer_operator, infer_variable, member_of, packed
from axon.types.operators import infer_binary, infer_unary
from axon.types.patterns import bind_pattern
from axon.types.solve import defer, prepend
from axon.types.symbolic import says, size_of
from axon.types.trouble import Choice, Mismatched, NotBool, NotDrawn, Rule, RuleBroken, StoredFunction, UnknownElement
from axon.types.type import UNIT, Function, Poison, RecordType, Row, Tensor, TupleType, Type, TypeVar, function, scalar
from axon.types.unify import State


def inference(words: Words) -> Inference:
    """The inference of a module, before its first declaration. `words` says what is wrong."""
    return Inference(words, expression)


def expression(inf: Inference, env: Env, expr: S.Expr, expected: Type | None = None) -> T.Expr:
    """The typed form of an expression: see `infer`."""
    try:
        match expr:
            case S.Var():
                return infer_variable(inf, env, expr)
            case S.Int(value):
                number = scalar(inf.state.element_var(NUM))
                inf.literals.append(Literal(value, number.element, expr.span))
                return T.Literal(value, type=number, span=expr.span)
            case S.Float(value):
                return T.Literal(value, type=scalar(inf.state.element_var(FLOAT)), span=expr.span)
            case S.Operator(op):
                return infer_operator(inf, op, expr.span)
            case S.Apply() | S.ApplyDims():
                return infer_application(inf, env, expr)
            case S.Unary():
                return infer_unary(inf, env, expr)
            case S.Binary("|>", left, right):
                return infer_application(inf, env, S.Apply(right, left, span=expr.span))
            case S.Binary():
                return infer_binary(inf, env, expr)
            case S.Tuple(items):
                parts = tuple(infer(inf, env, i) for i in items)
                return T.Tuple(parts, type=TupleType(tuple(p.type for p in parts)) if parts else UNIT, span=expr.span)
            case S.Record():
                return _record(inf, env, expr)
            case S.Field():
                return _field(inf, env, expr)
            case S.Project(value, position):
                inner = infer(inf, env, value)
                out = _part(inf, inner.type, position, expr.span)
                return T.Project(inner, position, type=out, span=expr.span)
            case S.Access():
                return infer_access(inf, env, expr)
            case S.Ascribe(value, written):
                t = to_type(inf, env.scope, written)
                inner = infer(inf, env, value, t)
                _conform(inf, inner.type, t, value, written.span)
                return inner
            case S.Coerce():
                return _coerce(inf, env, expr)
            case S.Cast():
                return _cast(inf, env, expr)
            case S.Let():
                return infer_let(inf, env, expr, expected)
            case S.Fn(params, body):
                scope = env.scope.child()
                seen: dict[str, Span] = {}
                types: list[Type] = [inf.state.type_var() for _ in params]
                patterns = tuple(bind_pattern(inf, scope, p, t, seen) for p, t in zip(params, types, strict=True))
                opened = len(inf.state.data_sizes)
                inner = infer(inf, env.within(scope), body)
                own = tuple(inf.state.data_sizes)[opened:]
                t = function(tuple(types), packed(inf.state, inner.type, own))
                if own:
                    inf.closures.append((t, own, expr.span))
                return T.Fn(patterns, inner, type=t, span=expr.span)
            case S.If():
                return _if(inf, env, expr, expected)
            case S.For():
                return infer_for(inf, env, expr, expected)
            case S.Reduce():
                return infer_reduce(inf, env, expr)
            case S.Loop():
                return infer_loop(inf, env, expr)
            case S.Array():
                return _array(inf, env, expr)
            case S.Like():
                return _like(inf, env, expr)
            case _:
                assert_never(expr)

    except DimensionTooLarge:
        too_complex(inf, expr.span)
        return broken(expr.span)


# ── data ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _record(inf: Inference, env: Env, e: S.Record) -> T.Expr:
    fields = tuple((n, infer(inf, env, v)) for n, v in e.fields)
    seen: dict[str, Span] = {}
    for name, _ in fields:
        if name.text in seen:
            wrong(inf, RuleBroken(Rule.FIELD_GIVEN_TWICE, name.span, (name.text,), seen[name.text]))
            return broken(e.span)
        seen[name.text] = name.span
    t = RecordType(tuple((n.text, v.type) for n, v in fields))
    return T.Record(tuple((n.text, v) for n, v in fields), type=t, span=e.span)


def _field(inf: Inference, env: Env, e: S.Field) -> T.Expr:
    member = member_of(inf, env, e, None, e.span)
    if member is not None:
        return member
    record = infer(inf, env, e.record)
    return T.Field(record, e.name.text, type=_part(inf, record.type, e.name.text, e.name.span), span=e.span)


def _part(inf: Inference, t: Type, member: str | int, span: Span) -> Type:
    out = inf.state.type_var()
    defer(inf, Member(t, member, out, span))
    return out


def _array(inf: Inference, env: Env, e: S.Array) -> T.Expr:
    items = tuple(infer(inf, env, i) for i in e.items)
    t: Type = items[0].type if items else scalar(inf.state.element_var())
    for item in items[1:]:
        sides = (Side(item.span, "this element has {}"), Side(items[0].span, "the first has {}"))
        if not unify(inf, item.type, t, Reason(item.span, "the elements of an array have one type and shape", sides)):
            return broken(e.span)
    if isinstance(inf.state.prune(t), Function):
        wrong(inf, StoredFunction("an array", e.items[0].span))
        return broken(e.span)
    return T.Array(items, type=prepend(inf, (Dim.of(len(items)),), t, e.span, "an array"), span=e.span)


def _like(inf: Inference, env: Env, e: S.Like) -> T.Expr:
    """What is drawn decides types and sizes, and is nothing that is evaluated."""
    drawn = infer(inf, env, e.drawn)
    value = infer(inf, env, e.value, drawn.type)
    what = "these data have" if e.observed else "this latent has"
    sides = (Side(e.value.span, f"{what} {{}}"), Side(e.drawn.span, "its distribution gives {}"))
    reason = Reason(e.value.span, "data and latents are of the type that their distribution gives", sides)
    if isinstance(inf.state.prune(drawn.type), Poison):
        return broken(e.span)
    found = clash(inf, value.type, drawn.type, reason)
    if found is None:
        return value
    sorts = tuple(_sort(inf.state, t) for t in (value.type, drawn.type))
    if found.kind in ("element", "class") and None not in sorts and sorts[0] != sorts[1]:
        wrong(inf, NotDrawn(sorts, reason))  # type: ignore[arg-type]
    else:
        wrong(inf, Mismatched(found, value.type, drawn.type, reason))
    return broken(e.span)


def _sort(state: State, t: Type) -> str | None:
    """Whether a tensor is of floats, of integers or of bool, in words; None where that is open."""
    t = state.prune(t)
    allowed = state.allowed_of(t.element) if isinstance(t, Tensor) else frozenset()
    element = next(iter(allowed)) if len(allowed) == 1 else None
    for sort, members in (("floats", FLOAT), ("integers", INT)):
        if allowed and allowed <= members:
            return element.value if element is not None else sort
    return Element.BOOL.value if element is Element.BOOL else None


def _cast(inf: Inference, env: Env, e: S.Cast) -> T.Expr:
    name = e.element.text
    if name == "_":
        target = inf.state.element_var()
    elif name.startswith("'"):
        variable = env.scope.variable(name)
        if variable is None or isinstance(variable, TypeVar):
            wrong(inf, UnknownElement(e))
            return broken(e.span)
        target = variable  # type: ignore[assignment]
    else:
        known = {x.value: x for x in Element}
        if name not in known:
            wrong(inf, UnknownElement(e, e.value is None and env.scope.value(name) is not None))
            return broken(e.span)
        target = known[name]  # type: ignore[assignment]
    if e.value is None:
        source = inf.state.tensor()
        x = fresh("x")
        body = T.Cast(T.Variable(x, None, type=source, span=e.span), type=Tensor(target, source.shape), span=e.span)
        pattern = T.PatternName(x, type=source, span=e.span)
        return T.Fn((pattern,), body, type=Function(source, body.type), span=e.span)
    value = infer(inf, env, e.value)
    t = as_tensor(inf, value.type, e.value.span, "`cast` converts elements")
    if t is None:
        return broken(e.span)
    return T.Cast(value, type=Tensor(target, t.shape), span=e.span)


def _coerce(inf: Inference, env: Env, e: S.Coerce) -> T.Expr:
    value = infer(inf, env, e.value)
    t = to_type(inf, env.scope, e.type)
    written: dict[Symbol, Dim] = {}
    loose = _loosen(inf.state, t, written)
    if not unify(inf, value.type, loose, Reason(e.value.span, "`as` changes what is known of sizes, nothing else"), written):
        return broken(e.span)
    inf.coercions.append((value.type, t, e.span))
    return T.Coerce(value, type=t, span=e.span)


def _loosen(state: State, t: Type, written: dict[Symbol, Dim]) -> Type:
    """The type with a fresh size for every dimension; `written` takes what stood there."""

    def loose(size: Dim) -> Dim:
        free = state.dim("")
        written.update(dict.fromkeys(free.variables, size))
        return free

    t = state.prune(t)
    match t:
        case Tensor(element, shape):
            return Tensor(element, tuple(i if isinstance(i, Row) else loose(i) for i in state.shape(shape)))
        case TupleType(items):
            return TupleType(tuple(_loosen(state, i, written) for i in items))
        case RecordType(fields):
            return RecordType(tuple((n, _loosen(state, f, written)) for n, f in fields))
        case _:
            return t


def _conform(inf: Inference, found: Type, t: Type, value: S.Expr, written: Span) -> bool:
    sides = (Side(value.span, "this has {}"), Side(written, "its type says {}"))
    return unify(inf, found, t, Reason(value.span, "this must have the type that is written", sides))


def _if(inf: Inference, env: Env, e: S.If, expected: Type | None) -> T.Expr:
    condition = infer(inf, env, e.condition)
    single = is_single_bool(inf, condition)
    yes, no = (env.guarded(says(inf, condition, holds)) for holds in (True, False))
    with only_where(inf, yes.context):
        then = infer(inf, yes, e.then, expected)
    with only_where(inf, no.context):
        otherwise = infer(inf, no, e.otherwise, expected)
    choice = Choice(e.span, condition, then, otherwise, tuple(s.name for s, _ in env.context.indices))
    if not single:
        wrong(inf, NotBool(inf.state.prune(condition.type), e.condition.span, "the condition of `if`", choice))
        return broken(e.span)
    sides = (Side(e.otherwise.span, "the `else` branch has {}"), Side(e.then.span, "the `then` branch has {}"))
    text = "the branches of an `if` have one type and shape"
    reason = Reason(e.otherwise.span, text, sides)
    clashing = clash(inf, otherwise.type, then.type, reason)
    if clashing is not None:
        wrong(inf, Mismatched(clashing, otherwise.type, then.type, reason, choice))
        return broken(e.span)
    t = inf.state.prune(then.type)
    if isinstance(t, Function):
        wrong(inf, StoredFunction("the result of an `if`", e.then.span))
        return broken(e.span)
    found = T.If(condition, then, otherwise, type=t, span=e.span)
    if isinstance(then, T.Dimension) or isinstance(otherwise, T.Dimension):
        dim = size_of(inf, found)
        if dim is not None and dim.variables.isdisjoint(i for i, _ in env.context.indices):
            return T.Dimension(dim, type=t, span=e.span)
    return found
