"""Accesses: subscripts, slices, and the uses of indices that they note."""

from __future__ import annotations

from math import prod

from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Context, Reason, Side, Use
from axon.shapes.dimension import Dim, dim_sum
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.annotate import divides_by_none, to_size
from axon.types.constraint import Indexed
from axon.types.inference import Env, Inference, equate, infer, oblige, unify, wrong
from axon.types.resolve import ANONYMOUS_RUN
from axon.types.solve import defer
from axon.types.symbolic import size_of
from axon.types.trouble import (
    BadSubscript,
    CannotIndex,
    LengthByIndex,
    NegativePosition,
    PartByIndex,
    Rule,
    RuleBroken,
    SubscriptCount,
    TwoRests,
    UnknownName,
)
from axon.types.type import (
    I32,
    POISON,
    Function,
    Poison,
    RecordType,
    Row,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    which,
)
from axon.types.unify import State


def infer_access(inf: Inference, env: Env, e: S.Access) -> T.Expr:
    base = infer(inf, env, e.base)
    subscripts = tuple(_subscript(inf, env, s) for s in e.subscripts)
    rests = [written.span for written, s in zip(e.subscripts, subscripts, strict=True) if isinstance(s, T.Keep)]
    if len(rests) > 1:
        wrong(inf, TwoRests(e.span, tuple(rests)))
        return T.Literal(0, type=POISON, span=e.span)
    default = None if e.default is None else infer(inf, env, e.default)
    access = _Access(inf, env.context, e, base, subscripts, default)
    known = inf.state.prune(base.type)
    if isinstance(known, TypeVar):
        out: Type = inf.state.type_var()
        defer(inf, Indexed(known, access.of, out, e.span))
    else:
        out = access.of(known)
    return T.Access(base, subscripts, default, env.context, type=out, span=e.span)


@dataclass(frozen=True, slots=True, eq=False)
class _Access:
    """What is read at subscripts, by the type of what it is read of, which may be known later."""

    inf: Inference
    context: Context
    written: S.Access
    base: T.Expr
    subscripts: tuple[T.Subscript, ...]
    default: T.Expr | None

    def of(self, t: Type, way: str = "") -> Type:
        inf, e, subscripts = self.inf, self.written, self.subscripts
        match t:
            case TupleType(items):
                if not way and _is_position(inf.state, items, subscripts):
                    wrong(inf, PartByIndex(e, items, self.base))
                    return POISON
                parts = tuple(self.of(inf.state.prune(i), f"{way}.{n}") for n, i in enumerate(items, 1))
                return POISON if any(isinstance(p, Poison) for p in parts) else TupleType(parts)
            case RecordType(fields):
                named = tuple((n, self.of(inf.state.prune(f), f"{way}.{n}")) for n, f in fields)
                return POISON if any(isinstance(f, Poison) for _, f in named) else RecordType(named)
            case Tensor(element, shape):
                shape, rest = _parted(inf.state, shape, subscripts) if way else (shape, ())
                out = self.of_tensor(Tensor(element, shape), way)
                return Tensor(out.element, (*out.shape, *rest)) if isinstance(out, Tensor) else out
            case TypeVar():
                new = inf.state.tensor()
                unify(inf, t, new, Reason(e.base.span, "this is indexed"))
                return self.of_tensor(new, way="")
            case Poison():
                return POISON
            case _:
                wrong(inf, CannotIndex(t, e.base.span))
                return POISON

    def of_tensor(self, base: Tensor, way: str) -> Type:
        name = self.written.base.span.excerpt
        return _access_tensor(self.inf, self.context, self.written, base, self.subscripts, self.default, name, way)


def _is_position(state: State, items: tuple[Type, ...], subscripts: tuple[T.Subscript, ...]) -> bool:
    """Whether subscripts are one position, and not of a row in each part of a tuple, since there is a part without any."""
    numbers = [v for s in subscripts for v in (s.values if isinstance(s, T.At) else (None,))]
    parts = (state.prune(i) for i in items)
    rowless = any(isinstance(p, Function) or (isinstance(p, Tensor) and not state.shape(p.shape)) for p in parts)
    return rowless and len(numbers) == 1 and numbers[0] is not None


def _parted(state: State, shape: Shape, subscripts: tuple[T.Subscript, ...]) -> tuple[Shape, Shape]:
    """A part of a record may have more dimensions than there are subscripts: the rest is kept."""
    shape = state.shape(shape)
    known = not any(isinstance(i, Row) for i in shape) and not any(isinstance(s, T.IndexRun | T.Keep) for s in subscripts)
    return (shape[: len(subscripts)], shape[len(subscripts) :]) if known else (shape, ())


def _kept(inf: Inference) -> Row:
    """The shape of dimensions that are left as they are."""
    row = inf.state.row()
    inf.runs.append(row)
    return row


def _subscript(inf: Inference, env: Env, s: S.Subscript) -> T.Subscript:
    match s:
        case S.IndexAt(value):
            return T.At((_index(inf, env, value),))
        case S.IndexSplit(items):
            return T.At(tuple(_index(inf, env, i) for i in items), tuple(inf.state.dim("", loose=True) for _ in items))
        case S.IndexRun(name):
            run = env.scope.run(name)
            if run is None or run.symbol is None:
                wrong(inf, UnknownName("run of indices", f"..{name}", s.span))
                return T.Keep(_kept(inf))
            return T.IndexRun(run.symbol, run.row)
        case S.IndexRest():
            run = env.scope.run(ANONYMOUS_RUN)
            if run is not None and run.symbol is not None:
                return T.IndexRun(run.symbol, run.row)
            return T.Keep(_kept(inf))
        case S.IndexSlice(start, stop, step):
            a = _slice_part(inf, env, start, Dim.of(0))
            c = _slice_part(inf, env, step, Dim.of(1))
            b = None if stop is None else _slice_part(inf, env, stop, Dim.of(0))
            return T.Slice(a, b, c)


def _slice_part(inf: Inference, env: Env, e: S.Expr | None, missing: Dim) -> Dim:
    if e is None:
        return missing
    return to_size(inf, env, e, _integer(inf, env, e))


def _index(inf: Inference, env: Env, e: S.Expr) -> T.Expr:
    """One index: an i32, or an integer of another type computed from data."""
    value = _integer(inf, env, e)
    divides_by_none(inf, value)
    return value


def _integer(inf: Inference, env: Env, e: S.Expr) -> T.Expr:
    value = infer(inf, env, e)
    t = inf.state.prune(value.type)
    match t:
        case Poison():
            return value
        case Tensor(element, shape) if not any(isinstance(i, Dim) for i in inf.state.shape(shape)):
            allowed = inf.state.allowed_of(element)
            own = next(iter(allowed)) if len(allowed) == 1 else None
            if own is not None and own.is_integer:
                unify(inf, t, Tensor(own, ()), Reason(e.span, "an index is a single integer"))
                return value
            if Element.I32 in allowed:
                unify(inf, t, I32, Reason(e.span, "an index is a single i32"))
                return value
        case TypeVar():
            unify(inf, t, I32, Reason(e.span, "an index is an i32"))
            return value
    named = e.base if isinstance(e, S.Access) else e
    wrong(inf, BadSubscript(t, e.span, env.scope.value(named.name) if isinstance(named, S.Var) else None))
    return T.Literal(0, type=POISON, span=e.span)


def _access_tensor(
    inf: Inference, context: Context, e: S.Access, base: Tensor, subscripts: tuple[T.Subscript, ...], default: T.Expr | None,
    name: str, way: str = "",
) -> Type:  # fmt: skip
    """The type of an access to one tensor, or to the part of something to which a way leads, with the uses of its indices
    noted."""
    shape = inf.state.shape(base.shape)
    whole = not any(isinstance(i, Row) for i in shape) and not any(isinstance(x, T.IndexRun | T.Keep) for x in subscripts)
    if any(isinstance(x, T.At) and any(isinstance(v.type, Poison) for v in x.values) for x in subscripts):
        return POISON
    if whole and len(shape) != len(subscripts):
        wrong(inf, SubscriptCount(e, f"{name}{way}", shape, len(subscripts), context))
        return POISON
    items = _items(inf.state, base, subscripts)
    kept: list[ShapeItem] = []
    extents: dict[Symbol | None, Dim] = dict(context.indices)
    flat = inf.state.shape(tuple(i for item in items for i in item))
    for n, (written, subscript, item) in enumerate(zip(e.subscripts, subscripts, items, strict=True)):
        axis = which(flat, len(inf.state.shape(tuple(i for before in items[:n] for i in before))))
        match subscript:
            case T.At(values, sizes):
                assert len(item) == 1
                assert isinstance(item[0], Dim)
                target = item[0]
                if sizes:
                    text = f"{axis} of `{name}` is split"
                    parts = (
                        Side(e.base.span, f"{axis} of `{name}` is {{}}", name),
                        Side(written.span, "these make {}"),
                    )
                    equate(inf.state, target, prod(sizes, start=Dim.of(1)), Reason(written.span, text, parts))
                for part, (value, size) in enumerate(zip(values, sizes or (target,), strict=True), 1):
                    index = size_of(inf, value)
                    extent = None if index is None else extents.get(index.symbol)
                    if sizes and extent is not None:  # a part of a split is as large as the range of its index
                        equate(inf.state, size, extent, Reason(value.span, f"part of {axis} of `{name}`"))
                    if index is not None:
                        where = f"part {part} of {axis}" if sizes else axis
                        use = Use(index, size, context, value.span, name, where, default is not None)
                        inf.state.uses.append(use)
            case T.Slice():
                assert len(item) == 1
                assert isinstance(item[0], Dim)
                sliced = Side(e.base.span, f"{axis} of `{name}` is {{}}")
                kept.append(_slice(inf, context, subscript, item[0], written.span, name, axis, sliced, default is not None))
            case T.Keep():
                kept.extend(item)
            case T.IndexRun():
                pass
    shape = tuple(i for item in items for i in item)
    rank = sum(isinstance(i, Dim) for i in shape)
    text = f"`{name}` is indexed here" + (f" with {rank} subscript{'s' * (rank != 1)}" if rank or not shape else "")
    found = Tensor(base.element, shape)
    if shape != base.shape and not unify(inf, base, found, Reason(e.span, text)):
        return POISON
    if default is not None:
        unify(inf, default.type, Tensor(base.element, ()), Reason(default.span, f"the padding is an element of `{name}`"))
    return Tensor(base.element, tuple(kept))


def _items(state: State, base: Tensor, subscripts: tuple[T.Subscript, ...]) -> list[Shape]:
    """What of the base's shape each subscript stands for: the known dimensions where they line up, else fresh ones."""
    shape = state.shape(base.shape)
    fresh_: list[Shape] = [(s.row,) if isinstance(s, T.IndexRun | T.Keep) else (state.dim(""),) for s in subscripts]
    runs = [n for n, s in enumerate(subscripts) if isinstance(s, T.IndexRun | T.Keep)]
    if any(isinstance(i, Row) for i in shape):
        return fresh_
    if not runs and len(shape) == len(subscripts):
        return [(i,) for i in shape]
    if len(runs) == 1 and len(shape) >= len(subscripts) - 1:
        (n,) = runs
        after = len(subscripts) - n - 1
        middle = shape[n : len(shape) - after]
        if isinstance(subscripts[n], T.Keep):
            state.rows[subscripts[n].row.symbol] = middle  # type: ignore[union-attr]
        else:
            middle = (subscripts[n].row,)  # type: ignore[union-attr]
        return [*((i,) for i in shape[:n]), middle, *((i,) for i in shape[len(shape) - after :])]
    return fresh_


def _slice(
    inf: Inference, context: Context, s: T.Slice, size: Dim, span: Span, name: str, axis: str, sliced: Side, padded: bool
) -> Dim:  # fmt: skip
    """The length of a slice; start <= stop <= size are obligations (padded: start <= stop), and so is a positive step."""
    if s.step.constant is not None and s.step.constant < 1:  # slices as in Python that run backwards, or count from the end
        wrong(inf, RuleBroken(Rule.STEP, span, (s.step.constant, name)))
        return inf.state.dim("")
    if any(d is not None and d.constant is not None and d.constant < 0 for d in (s.start, s.stop)):
        wrong(inf, NegativePosition(span, size))
        return inf.state.dim("")
    stop = size if s.stop is None else s.stop
    what = f"the slice of {axis} of `{name}`"
    if not padded:
        oblige(
            inf.state, Relation(s.start, ">=", Dim.of(0)), context, Reason(span, f"{what} starts before it: it needs {{}}"), True
        )
        ends = Reason(span, f"{what} ends after it: it needs {{}}", (sliced,))
        oblige(inf.state, Relation(stop, "<=", size), context, ends, True)
    start = _interleaved(context, s, stop)
    oblige(inf.state, Relation(start, "<=", stop), context, Reason(span, f"{what} ends before it starts: it needs {{}}"), True)
    oblige(inf.state, Relation(s.step, ">=", Dim.of(1)), context, Reason(span, f"the step of {what} must be positive: {{}}"), True)
    length = dim_sum((stop, -start))
    if start != s.start:
        even = Reason(span, f"the step of {what} must divide what it runs over: {{}}")
        oblige(inf.state, Relation(length % s.step, "=", Dim.of(0)), context, even)
    extent = length if s.step.constant == 1 else (length + (s.step - 1 if start == s.start else 0)) // s.step
    if extent.variables & dict(context.indices).keys():
        wrong(inf, LengthByIndex(span, name, s.start, s.step))
    return extent


def _interleaved(context: Context, s: T.Slice, stop: Dim) -> Dim:
    """Where a slice starts, without an index: those of x[i : n : 2] over i < 2 have one length, n / 2, if 2 divides n."""
    for i, extent in context.indices:
        within = (s.step - extent).constant  # seen at once
        first = s.start - i
        if within is not None and within >= 0 and i not in (first + stop + s.step).variables:
            return first
    return s.start
