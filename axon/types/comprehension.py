"""Index notation: binders and their ranges, reductions and loops."""

from __future__ import annotations

from math import prod
from typing import cast

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.functions import NamedMonoid
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Obligation, Range, Reason, Side
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.types import builtins
from axon.types import typed as T
from axon.types.annotate import left_blank, to_size
from axon.types.inference import (
    Binding,
    Env,
    Inference,
    as_tensor,
    clash,
    infer,
    narrow,
    oblige,
    only_where,
    unify,
    wrong,
)
from axon.types.names import existential_under_for
from axon.types.patterns import bind_pattern
from axon.types.resolve import ANONYMOUS_RUN, RunName, Scope, ValueName
from axon.types.solve import prepend
from axon.types.symbolic import says, size_of
from axon.types.trouble import Mismatched, NotBool, Rule, RuleBroken, ScalarUnit, StatesLacking, StoredFunction, UnknownName
from axon.types.type import (
    BOOL,
    I32,
    POISON,
    Exists,
    Function,
    Poison,
    Row,
    Scheme,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    function,
)
from axon.types.unify import State


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """What the binders of a comprehension come to."""

    binders: tuple[T.Binder, ...]
    items: Shape
    ranges: tuple[Range | None, ...]  # of each binder, where its range is one that a declared result can decide
    env: Env


# ── binders ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _bind(inf: Inference, env: Env, groups: tuple[S.BinderGroup, ...], makes_dimensions: bool) -> _Bound:
    """`makes_dimensions`: of a `for`, whose ranges become dimensions; a reduction's may be empty or depend on others."""
    binders: list[T.Binder] = []
    items: list[ShapeItem] = []
    ranges: list[Range | None] = []
    inner = env.indexed((), env.scope.child())
    seen: dict[str, Span] = {}
    for group in groups:
        if group.bound is not None and len(group.binders) != 1:
            wrong(inf, RuleBroken(Rule.BOUND_OF_SEVERAL, group.span))
        for binder in group.binders:
            bound = group.bound if len(group.binders) == 1 else None
            for name, span in _names(binder):
                if name != "_" and name in seen:
                    wrong(inf, RuleBroken(Rule.INDEX_BOUND_TWICE, span, (name,), seen[name]))
                seen[name] = span
            match binder:
                case S.RunBinder(run_name):
                    run = _bind_run(inf, inner.scope, run_name, bound, binder.span)
                    binders.append(run)
                    items.append(run.row)
                    ranges.append(None)
                case S.ProductBinder(names):
                    if bound is not None:
                        wrong(inf, RuleBroken(Rule.BOUND_OF_PRODUCT, binder.span))
                    found = [_bind_index(inf, inner, n.text, n.span, None, n.span) for n in names]
                    inner = inner.indexed(tuple((r.symbol, r.extent) for r in found), inner.scope)
                    binders.append(T.Indices(tuple(r.symbol for r in found), tuple(r.extent for r in found)))
                    items.append(prod((r.extent for r in found), start=Dim.of(1)))
                    ranges.append(None)
                case S.IndexBinder(name):
                    extent = _extent(inf, inner, bound, makes_dimensions) if bound is not None else None
                    r = _bind_index(inf, inner, name, binder.span, extent, binder.span if bound is None else group.span)
                    if r.stated and makes_dimensions:
                        text = f"the range of `{name}` cannot be negative: {{}}"
                        oblige(inf.state, Relation(r.extent, ">=", Dim.of(0)), env.context, Reason(group.span, text), sized=True)
                    inner = inner.indexed(((r.symbol, r.extent),), inner.scope)
                    binders.append(T.Indices((r.symbol,), (r.extent,)))
                    items.append(r.extent)
                    ranges.append(r)
    return _Bound(tuple(binders), tuple(items), tuple(ranges), inner)


def _bind_run(inf: Inference, scope: Scope, name: str | None, bound: S.Expr | S.ShapeRun | None, span: Span) -> T.IndexRun:
    row: Row | None = None
    if isinstance(bound, S.ShapeRun):
        found = scope.run(bound.name)
        if found is None:
            wrong(inf, UnknownName("shape variable", f"..{bound.name}", bound.span))
        else:
            row = found.row
    elif bound is not None:
        wrong(inf, RuleBroken(Rule.BOUND_OF_RUN, span))
    if row is None:
        row = inf.state.row(name or "s")
        inf.state.named_dims.add(row.symbol)
        inf.runs.append(row)
    symbol = fresh(name or "..")
    scope.runs[name if name is not None else ANONYMOUS_RUN] = RunName(row, symbol)
    return T.IndexRun(symbol, row)


def _bind_index(inf: Inference, env: Env, name: str, span: Span, extent: Dim | None, whole: Span) -> Range:
    """Put an index in scope; `whole` is what binds it, with its bound."""
    symbol = fresh(name)
    stated = extent is not None
    if extent is None:
        extent = inf.state.dim(name, named=True, loose=True)
    found = Range(symbol, extent, span, stated, env.context)
    inf.state.ranges.append(found)
    inf.binders[symbol] = Binding(found, whole)
    inf.ended[name] = span
    if name != "_":
        env.scope.values[name] = ValueName(symbol, Scheme(I32), span, Dim.of(symbol))
    return found


def _extent(inf: Inference, env: Env, bound: S.Expr | S.ShapeRun, rectangular: bool) -> Dim | None:
    """The stated bound of an index; reports what is not a dimension."""
    if isinstance(bound, S.ShapeRun):
        wrong(inf, RuleBroken(Rule.RUN_AS_BOUND, bound.span))
        return None
    if bound.span in inf.blanks:
        return left_blank(inf, env.scope, bound.span)
    value = infer(inf, env, bound)
    if isinstance(inf.state.prune(value.type), Poison):
        return inf.state.dim("")
    dim = to_size(inf, env, bound, value)
    indices = {s for s, _ in env.context.indices}
    ragged = dim.variables & indices if rectangular else frozenset()
    if ragged:
        name = min(ragged, key=lambda s: s.id).name
        wrong(inf, RuleBroken(Rule.SIZE_BY_INDEX, bound.span, (name,)))
        return inf.state.dim("")
    return dim


# ── for ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def infer_for(inf: Inference, env: Env, e: S.For, expected: Type | None) -> T.Expr:
    bound = _bind(inf, env, e.groups, makes_dimensions=True)
    inside = _declare_ranges(inf.state, bound, expected)
    body = infer(inf, bound.env, e.body, inside)
    if _made(body):
        inf.bodies.append(body.type)
    result = prepend(inf, bound.items, body.type, e.body.span, "an array")
    if isinstance(inf.state.prune(body.type), Exists):
        existential_under_for(inf, body.span)
    return T.For(bound.binders, body, type=result, span=e.span)


def _made(body: T.Expr, inside: frozenset[Symbol] = frozenset()) -> bool:
    """Whether an operation makes an element, which is no value from outside as it is."""
    match body:
        case T.Unary() | T.Binary() | T.Cast() | T.Reduce() | T.Call():
            return True
        case T.Let(decls, inner):
            named = {s for d in decls if isinstance(d, T.Val) for s in T.bound(d.pattern)}
            return _made(inner, inside | named)
        case T.If(_, yes, no):
            return _made(yes, inside) or _made(no, inside)
        case T.Variable(symbol):
            return symbol in inside
    return False


def _declare_ranges(state: State, bound: _Bound, expected: Type | None) -> Type | None:
    """Match a declared result with the binders; gives what it declares of the body."""
    expected = None if expected is None else state.prune(expected)
    if not isinstance(expected, Tensor):
        return None
    shape = list(state.shape(expected.shape))
    for item, found in zip(bound.items, bound.ranges, strict=True):
        if not shape or isinstance(item, Row) != isinstance(shape[0], Row):
            return None
        declared = shape.pop(0)
        if found is not None and not found.stated and isinstance(declared, Dim):
            found.declared = declared
    return Tensor(expected.element, tuple(shape))


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def infer_reduce(inf: Inference, env: Env, e: S.Reduce) -> T.Expr:
    bound = _bind(inf, env, e.groups, makes_dimensions=e.kind.text == "scan")
    where = None
    inner = bound.env
    if e.where is not None:
        where = to_condition(inf, inner, e.where, "a reduction's `where`")
        inner = inner.guarded(says(inf, where, True))
    with only_where(inf, inner.context):
        body = infer(inf, inner, e.body)
    if _made(body):
        inf.bodies.append(body.type)
    if e.kind.text in ("reduce", "scan"):
        return _reduce_by(inf, env, e, bound, where, body)
    kind = cast("NamedMonoid", e.kind.text)
    found = as_tensor(inf, body.type, e.body.span, f"`{kind}` reduces numbers")
    reason = Reason(e.body.span, f"what `{kind}` reduces")
    result: Type = POISON
    if found is not None and narrow(inf, found, builtins.REDUCTIONS[kind], reason):
        result = found
        if kind in ("argmax", "argmin"):
            if not unify(inf, found, Tensor(found.element, ()), Reason(e.body.span, f"`{kind}` compares single numbers")):
                result = POISON
            else:
                result = _positions(inf, e, bound)
        if kind in ("max", "min", "argmax", "argmin"):
            _needs_elements(inf.state, env, e, bound, found)
    return T.Reduce(kind, False, None, bound.binders, where, body, env.context, type=result, span=e.span)


def _positions(inf: Inference, e: S.Reduce, bound: _Bound) -> Type:
    """What argmax gives: an i32 for one index, a tuple in the order of the binders for several."""
    count = 0
    for binder in bound.binders:
        if isinstance(binder, T.IndexRun):
            wrong(inf, RuleBroken(Rule.POSITION_OF_RUN, e.span, (e.kind.text,)))
            return POISON
        count += len(binder.symbols)
    return I32 if count == 1 else TupleType((I32,) * count)


def _needs_elements(state: State, env: Env, e: S.Reduce, bound: _Bound, found: Tensor) -> None:
    """Integer extremes and positions have no unit: their ranges must not be empty."""
    element = Element.I32 if e.kind.text.startswith("arg") else found.element
    own = {s for s, _ in bound.env.context.indices} - {s for s, _ in env.context.indices}
    for item in bound.items:
        if isinstance(item, Dim) and not item.variables & own:
            text = f"`{e.kind.text}` of nothing has no value: {{}}"
            need = Obligation(Relation(item, ">=", Dim.of(1)), env.context, Reason(e.span, text))
            state.nonempty.append((element, need))


def _reduce_by(inf: Inference, env: Env, e: S.Reduce, bound: _Bound, where: T.Expr | None, body: T.Expr) -> T.Expr:
    assert e.monoid is not None
    scan = e.kind.text == "scan"
    t = body.type
    if isinstance(inf.state.prune(t), Function):
        wrong(inf, StoredFunction(f"`{e.kind.text}`", e.body.span))
        t = POISON
    monoid = infer(inf, env, e.monoid)
    wanted = TupleType((function((t, t), t), t))
    text = f"`{e.kind.text}` takes (function, unit): t -> t -> t and t, where t is the type of its body"
    result: Type = t
    reason = Reason(e.monoid.span, text)
    if (found := clash(inf, monoid.type, wanted, reason)) is not None:
        whole = inf.state.prune(t)
        of_tensors = isinstance(whole, Tensor) and found.kind == "rank" and _has_scalar_unit(inf.state, monoid)
        meant = ScalarUnit(e, whole) if isinstance(whole, Tensor) and of_tensors else None
        wrong(inf, Mismatched(found, monoid.type, wanted, reason, meant))
        result = POISON
    if scan:
        if len(bound.binders) != 1 or isinstance(bound.binders[0], T.IndexRun) or len(bound.binders[0].symbols) != 1:
            wrong(inf, RuleBroken(Rule.SCAN_ONE_INDEX, e.span))
        if where is not None:
            wrong(inf, RuleBroken(Rule.SCAN_WHERE, where.span))
        result = prepend(inf, bound.items, result, e.body.span, "an array")
    return T.Reduce("custom", scan, monoid, bound.binders, where, body, env.context, type=result, span=e.span)


def _has_scalar_unit(state: State, monoid: T.Expr) -> bool:
    unit = state.prune(monoid.items[1].type) if isinstance(monoid, T.Tuple) and len(monoid.items) == 2 else None
    return isinstance(unit, Tensor) and not state.shape(unit.shape)


def to_condition(inf: Inference, env: Env, e: S.Expr, what: str) -> T.Expr:
    """A single bool."""
    value = infer(inf, env, e)
    if not is_single_bool(inf, value):
        wrong(inf, NotBool(inf.state.prune(value.type), e.span, what))
    return value


def is_single_bool(inf: Inference, value: T.Expr) -> bool:
    """Whether a value is a single bool, or may be made one."""
    t = inf.state.prune(value.type)
    ok = isinstance(t, (TypeVar, Poison)) or (
        isinstance(t, Tensor)
        and not any(isinstance(i, Dim) for i in inf.state.shape(t.shape))
        and Element.BOOL in inf.state.allowed_of(t.element)
    )
    return ok and unify(inf, t, BOOL, Reason(value.span, "this must be a single bool"))


# ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def infer_loop(inf: Inference, env: Env, e: S.Loop) -> T.Expr:
    stacked = e.kind == "unfold"
    scope = env.scope.child()
    states: list[tuple[T.Pattern, T.Expr]] = []
    types: list[Type] = []
    seen: dict[str, Span] = {}
    for pattern, init in e.states:
        value = infer(inf, env, init)
        if isinstance(inf.state.prune(value.type), Function):
            wrong(inf, StoredFunction("the state of a loop", init.span))
            value = T.Literal(0, type=POISON, span=init.span)
        states.append((bind_pattern(inf, scope, pattern, value.type, seen), value))
        types.append(value.type)
    t: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
    group = e.groups[0]
    binder = group.binders[0]
    if len(e.groups) != 1 or len(group.binders) != 1 or not isinstance(binder, S.IndexBinder):
        wrong(inf, RuleBroken(Rule.ONE_COUNTER, e.span, (e.kind,)))
        return T.Literal(0, type=POISON, span=e.span)
    condition = _while(inf, env.indexed((), scope), e)
    trip, extent = _trip(inf, env, e, group)
    counter = _bind_index(inf, env.within(scope), binder.name, binder.span, extent, group.span)
    inner = env.indexed(((counter.symbol, counter.extent),), scope)
    body = infer(inf, inner, e.body)
    if not _keeps_state(inf, e, body, t, [value for _, value in states]):
        t = POISON
    if trip is None:
        trip = T.Dimension(counter.extent, type=I32, span=binder.span)
    result = prepend(inf, (counter.extent,), t, e.body.span, "an array") if stacked else t
    return T.Loop(stacked, tuple(states), condition, counter.symbol, trip, body, type=result, span=e.span)


def _while(inf: Inference, env: Env, e: S.Loop) -> T.Expr | None:
    """The condition of a loop, which sees the states; what it says of sizes helps nobody, for states are data."""
    if e.condition is None:
        return None
    if e.kind == "unfold":
        wrong(inf, RuleBroken(Rule.UNFOLD_WHILE, e.condition.span))
    (binder,) = e.groups[0].binders
    if isinstance(binder, S.IndexBinder):
        inf.ended[binder.name] = binder.span
    return to_condition(inf, env, e.condition, "the condition of `while`")


def _keeps_state(inf: Inference, e: S.Loop, body: T.Expr, t: Type, first: list[T.Expr]) -> bool:
    """See that a step gives what it takes; of several states, each by itself, which says more of what is wrong."""
    new: tuple[tuple[Span, Type, T.Expr], ...] = ()
    given = inf.state.prune(body.type)
    parts = len(given.items) if isinstance(given, TupleType) else 1 if isinstance(given, Tensor) else len(first)
    if len(first) > 1 and parts != len(first):
        wrong(inf, StatesLacking(e, parts))
        return False
    if isinstance(given, TupleType) and len(given.items) == len(first) > 1:
        written = body.items if isinstance(body, T.Tuple) else (body,) * len(first)
        new = tuple((w.span, i, f) for w, i, f in zip(written, given.items, first, strict=True))
    text = "the new state must have the type and shape of the old one"
    for span, item, old in new or ((e.body.span, body.type, first[0]),):
        sides = (Side(span, "the new state has {}"), Side(old.span, "the first state has {}"))
        if not unify(inf, item, old.type if new else t, Reason(span, text, sides)):
            return False
    return True


def _trip(inf: Inference, env: Env, e: S.Loop, group: S.BinderGroup) -> tuple[T.Expr | None, Dim | None]:
    """How often a loop runs: an expression and a size for it; neither if uses must tell."""
    if group.bound is None:
        return None, None
    if e.kind == "unfold" or isinstance(group.bound, S.ShapeRun):
        extent = _extent(inf, env, group.bound, True)
        if extent is not None and e.kind == "unfold":
            oblige(inf.state, Relation(extent, ">=", Dim.of(0)), env.context, Reason(group.span, "a range cannot be negative: {}"))
        return None, extent
    value = infer(inf, env, group.bound)
    unify(inf, value.type, I32, Reason(group.bound.span, "a loop's bound is an i32"))
    dim = size_of(inf, value)
    if dim is None:  # known only when the program runs
        symbol = fresh("trip")
        inf.state.data_sizes[symbol] = ()
        dim = Dim.of(symbol)
    return value, dim


def _names(binder: S.Binder) -> tuple[tuple[str, Span], ...]:
    match binder:
        case S.IndexBinder(name):
            return ((name, binder.span),)
        case S.RunBinder(name):
            return ((f"..{name or ''}", binder.span),)
        case S.ProductBinder(names):
            return tuple((n.text, n.span) for n in names)
