"""Index notation: binders and their ranges, accesses, reductions and loops."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from math import prod

from axon import builtins
from axon import syntax as S
from axon import typed as T
from axon.diagnostics import Diagnostic, Label, Suggestion
from axon.element import Element
from axon.names import Symbol, fresh
from axon.resolve import ANONYMOUS_RUN, RunName, Scope, ValueName, unknown
from axon.shapes.constraint import Context, Obligation, Range, Reason, Side, Use
from axon.shapes.dimension import Dim, dim_sum
from axon.shapes.relation import Relation
from axon.source import Span
from axon.types import errors
from axon.types.annotate import Annotations, not_a_dimension
from axon.types.constraint import Indexed
from axon.types.elaborator import Env
from axon.types.places import Binding
from axon.types.symbolic import exact, facts, impossible_divisors, only_sizes, symbolic
from axon.types.type import (
    BOOL,
    I32,
    POISON,
    Exists,
    Function,
    Poison,
    RecordType,
    Row,
    Scheme,
    Shape,
    ShapeItem,
    Tensor,
    TupleType,
    Type,
    TypeVar,
    function,
    which,
)

_INDEX = frozenset({Element.I32, Element.I64})


@dataclass(frozen=True, slots=True, eq=False)
class _Bound:
    """What the binders of a comprehension come to."""

    binders: tuple[T.Binder, ...]
    items: Shape
    ranges: tuple[Range | None, ...]  # of each binder, where its range is one that a declared result can decide
    env: Env


class Comprehensions(Annotations):
    # ── binders ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _bind(self, env: Env, groups: tuple[S.BinderGroup, ...], makes_dimensions: bool) -> _Bound:
        """`makes_dimensions`: of a `for`, whose ranges become dimensions; a reduction's may be empty or depend on others."""
        binders: list[T.Binder] = []
        items: list[ShapeItem] = []
        ranges: list[Range | None] = []
        inner = env.indexed((), env.scope.child())
        seen: dict[str, Span] = {}
        for group in groups:
            if group.bound is not None and len(group.binders) != 1:
                self._bad_binder(group.span, "a bound stands with one index alone", "separate the others with a comma: `i, j < n`")
            for binder in group.binders:
                bound = group.bound if len(group.binders) == 1 else None
                for name, span in _names(binder):
                    if name != "_" and name in seen:
                        self.report(
                            Diagnostic(
                                "AX0217",
                                f"the index `{name}` is bound twice",
                                (Label(span, "here again"), Label(seen[name], "first here")),
                            )
                        )
                    seen[name] = span
                match binder:
                    case S.RunBinder(run_name):
                        run = self._bind_run(inner.scope, run_name, bound, binder.span)
                        binders.append(run)
                        items.append(run.row)
                        ranges.append(None)
                    case S.ProductBinder(names):
                        if bound is not None:
                            self._bad_binder(
                                binder.span, "the indices of a product take no bound together", "bound what they index"
                            )
                        found = [self._bind_index(inner, n.text, n.span, None, n.span) for n in names]
                        inner = inner.indexed(tuple((r.symbol, r.extent) for r in found), inner.scope)
                        binders.append(T.Indices(tuple(r.symbol for r in found), tuple(r.extent for r in found)))
                        items.append(prod((r.extent for r in found), start=Dim.of(1)))
                        ranges.append(None)
                    case S.IndexBinder(name):
                        extent = self._extent(inner, bound, makes_dimensions) if bound is not None else None
                        r = self._bind_index(inner, name, binder.span, extent, binder.span if bound is None else group.span)
                        if r.stated and makes_dimensions:
                            text = f"the range of `{name}` cannot be negative: {{}}"
                            self.oblige(Relation(r.extent, ">=", Dim.of(0)), env.context, Reason(group.span, text), sized=True)
                        inner = inner.indexed(((r.symbol, r.extent),), inner.scope)
                        binders.append(T.Indices((r.symbol,), (r.extent,)))
                        items.append(r.extent)
                        ranges.append(r)
        return _Bound(tuple(binders), tuple(items), tuple(ranges), inner)

    def _bad_binder(self, span: Span, message: str, help_: str) -> None:
        self.report(Diagnostic("AX0308", message, (Label(span, "here"),), (), (Suggestion(help_),)))

    def _bind_run(self, scope: Scope, name: str | None, bound: S.Expr | S.ShapeRun | None, span: Span) -> T.Run:
        row: Row | None = None
        if isinstance(bound, S.ShapeRun):
            found = scope.run(bound.name)
            if found is None:
                self.report(unknown("shape variable", f"..{bound.name}", bound.span, ()))
            else:
                row = found.row
        elif bound is not None:
            self._bad_binder(span, "a run of indices is bounded by a shape variable", "write `..i < ..s`")
        if row is None:
            row = self.state.row(name or "s")
            self.state.named_dims.add(row.symbol)
        symbol = fresh(name or "..")
        scope.runs[name if name is not None else ANONYMOUS_RUN] = RunName(row, symbol)
        return T.Run(symbol, row)

    def _bind_index(self, env: Env, name: str, span: Span, extent: Dim | None, whole: Span) -> Range:
        """Put an index in scope; `whole` is what binds it, with its bound."""
        symbol = fresh(name)
        found = Range(symbol, self.state.dim(name, named=True) if extent is None else extent, span, extent is not None, env.context)
        self.state.ranges.append(found)
        self.binders[symbol] = Binding(found, whole)
        self.ended[name] = span
        if name != "_":
            env.scope.values[name] = ValueName(symbol, Scheme(I32), span, Dim.of(symbol))
        return found

    def _extent(self, env: Env, bound: S.Expr | S.ShapeRun, rectangular: bool) -> Dim | None:
        """The stated bound of an index; reports what is not a dimension."""
        if isinstance(bound, S.ShapeRun):
            self._bad_binder(
                bound.span, "an index is bounded by a dimension, not by a shape variable", "write `..i < ..s` for a run"
            )
            return None
        if bound.span in self.blanks:
            return self.left_blank(env.scope, bound.span)
        value = self.infer(env, bound)
        if isinstance(self.state.prune(value.type), Poison):
            return self.state.dim("")
        dim = symbolic(value, whole=True)
        if dim is None and only_sizes(value):
            if not self._needs_divisors(env, value):
                self.too_complex(bound.span)
            return self.state.dim("")
        if dim is None:
            likely = self._as_parameter(bound.name, env.scope.value(bound.name)) if isinstance(bound, S.Var) else ()
            self.report(not_a_dimension(f"`{_excerpt(bound.span)}`", bound.span, likely))
            return self.state.dim("")
        self.unify(value.type, I32, Reason(bound.span, "a bound is an i32"))
        indices = {s for s, _ in env.context.indices}
        ragged = dim.variables & indices if rectangular else frozenset()
        if ragged:
            name = next(iter(ragged)).name
            self.report(
                Diagnostic(
                    "AX0308",
                    f"the size of a dimension cannot depend on the index `{name}`",
                    (Label(bound.span, f"this differs from one `{name}` to the next"),),
                    suggestions=(Suggestion("range over the largest size, and choose with `if` what lies inside"),),
                )
            )
            return self.state.dim("")
        return dim

    def _needs_divisors(self, env: Env, value: T.Expr) -> bool:
        """Write down what a division by 0 lacks, if there is one in an integer expression."""
        found = list(impossible_divisors(value))
        for divisor, span in found:
            self.oblige(Relation(divisor, ">=", Dim.of(1)), env.context, Reason(span, "the divisor must be at least 1: {}"))
        return bool(found)

    # ── for ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def for_(self, env: Env, e: S.For, expected: Type | None) -> T.Expr:
        bound = self._bind(env, e.groups, makes_dimensions=True)
        inside = self._declare_ranges(bound, expected)
        body = self.infer(bound.env, e.body, inside)
        result = self.prepend(bound.items, body.type, e.body.span, "an array")
        if isinstance(self.state.prune(body.type), Exists):
            self.existential_under_for(body.span)
        return T.For(bound.binders, body, type=result, span=e.span)

    def _declare_ranges(self, bound: _Bound, expected: Type | None) -> Type | None:
        """Match a declared result with the binders; gives what it declares of the body."""
        expected = None if expected is None else self.state.prune(expected)
        if not isinstance(expected, Tensor):
            return None
        shape = list(self.state.shape(expected.shape))
        for item, found in zip(bound.items, bound.ranges, strict=True):
            if not shape or isinstance(item, Row) != isinstance(shape[0], Row):
                return None
            declared = shape.pop(0)
            if found is not None and not found.stated and isinstance(declared, Dim):
                found.declared = declared
        return Tensor(expected.element, tuple(shape))

    def existential_under_for(self, span: Span) -> None:
        self.report(
            Diagnostic(
                "AX0307",
                "a size that only the data decide cannot be opened inside a comprehension or loop",
                (Label(span, "each index would give another size"),),
                suggestions=(Suggestion("bind it with `val` outside, or keep all elements and mark those that count"),),
            )
        )

    # ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def reduce(self, env: Env, e: S.Reduce) -> T.Expr:
        bound = self._bind(env, e.groups, makes_dimensions=e.kind.text == "scan")
        where = None
        inner = bound.env
        if e.where is not None:
            where = self.condition(inner, e.where, "a reduction's `where`")
            inner = inner.guarded(facts(where, True), exact(where, True))
        with self.only_where(inner.context):
            body = self.infer(inner, e.body)
        if e.kind.text in ("reduce", "scan"):
            return self._reduce_by(env, e, bound, where, body)
        kind = e.kind.text
        found = self.as_tensor(body.type, e.body.span, f"`{kind}` reduces numbers")
        reason = Reason(e.body.span, f"what `{kind}` reduces")
        result: Type = POISON
        if found is not None and self.narrow(found, builtins.REDUCTIONS[kind], reason):
            result = found
            if kind in ("argmax", "argmin"):
                if not self.unify(found, Tensor(found.element, ()), Reason(e.body.span, f"`{kind}` compares single numbers")):
                    result = POISON
                else:
                    result = self._positions(e, bound)
            if kind in ("max", "min", "argmax", "argmin"):
                self._needs_elements(env, e, bound, found)
        return T.Reduce(kind, False, None, bound.binders, where, body, env.context, type=result, span=e.span)

    def _positions(self, e: S.Reduce, bound: _Bound) -> Type:
        """What argmax gives: an i32 for one index, a tuple in the order of the binders for several."""
        count = 0
        for binder in bound.binders:
            if isinstance(binder, T.Run):
                self._bad_binder(e.span, f"`{e.kind.text}` cannot give a run of indices", "name each index")
                return POISON
            count += len(binder.symbols)
        return I32 if count == 1 else TupleType((I32,) * count)

    def _needs_elements(self, env: Env, e: S.Reduce, bound: _Bound, found: Tensor) -> None:
        """Integer extremes and positions have no unit: their ranges must not be empty."""
        element = Element.I32 if e.kind.text.startswith("arg") else found.element
        own = {s for s, _ in bound.env.context.indices} - {s for s, _ in env.context.indices}
        for item in bound.items:
            if isinstance(item, Dim) and not item.variables & own:
                text = f"`{e.kind.text}` of nothing has no value: {{}}"
                need = Obligation(Relation(item, ">=", Dim.of(1)), env.context, Reason(e.span, text))
                self.state.nonempty.append((element, need))

    def _reduce_by(self, env: Env, e: S.Reduce, bound: _Bound, where: T.Expr | None, body: T.Expr) -> T.Expr:
        assert e.monoid is not None
        scan = e.kind.text == "scan"
        t = body.type
        if isinstance(self.state.prune(t), Function):
            self.report(errors.stored_function(f"`{e.kind.text}`", e.body.span))
            t = POISON
        monoid = self.infer(env, e.monoid)
        wanted = TupleType((function((t, t), t), t))
        text = f"`{e.kind.text}` takes (function, unit): t -> t -> t and t, where t is the type of its body"
        result: Type = t
        if not self.unify(monoid.type, wanted, Reason(e.monoid.span, text)):
            result = POISON
        if scan:
            if len(bound.binders) != 1 or isinstance(bound.binders[0], T.Run) or len(bound.binders[0].symbols) != 1:
                self._bad_binder(e.span, "`scan` runs along one index", "put the other indices in a `for` around it")
            if where is not None:
                self._bad_binder(
                    where.span, "`scan` takes no `where`", "use the unit where the condition fails: `if p then e else unit`"
                )
            result = self.prepend(bound.items, result, e.body.span, "an array")
        return T.Reduce("custom", scan, monoid, bound.binders, where, body, env.context, type=result, span=e.span)

    def condition(self, env: Env, e: S.Expr, what: str) -> T.Expr:
        """A single bool."""
        value = self.infer(env, e)
        t = self.state.prune(value.type)
        ok = isinstance(t, (TypeVar, Poison)) or (
            isinstance(t, Tensor)
            and not any(isinstance(i, Dim) for i in self.state.shape(t.shape))
            and Element.BOOL in self.state.allowed_of(t.element)
        )
        if ok:
            self.unify(t, BOOL, Reason(e.span, "this must be a single bool"))
        else:
            self.report(errors.condition(self.state, t, e.span, what))
        return value

    # ── loops ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def loop(self, env: Env, e: S.Loop) -> T.Expr:
        stacked = e.kind == "unfold"
        scope = env.scope.child()
        states: list[tuple[T.Pattern, T.Expr]] = []
        types: list[Type] = []
        seen: dict[str, Span] = {}
        for pattern, init in e.states:
            value = self.infer(env, init)
            if isinstance(self.state.prune(value.type), Function):
                self.report(errors.stored_function("the state of a loop", init.span))
                value = T.Literal(0, type=POISON, span=init.span)
            states.append((self.bind_pattern(scope, pattern, value.type, seen), value))
            types.append(value.type)
        t: Type = types[0] if len(types) == 1 else TupleType(tuple(types))
        group = e.groups[0]
        binder = group.binders[0]
        if len(e.groups) != 1 or len(group.binders) != 1 or not isinstance(binder, S.IndexBinder):
            self._bad_binder(e.span, f"`{e.kind}` counts with one index", "write it as `for i < n`")
            return T.Literal(0, type=POISON, span=e.span)
        trip, extent = self._trip(env, e, group)
        counter = self._bind_index(env.within(scope), binder.name, binder.span, extent, group.span)
        inner = env.indexed(((counter.symbol, counter.extent),), scope)
        body = self.infer(inner, e.body)
        if not self._keeps_state(e, body, t, [value for _, value in states]):
            t = POISON
        if trip is None:
            trip = T.Dimension(counter.extent, type=I32, span=binder.span)
        result = self.prepend((counter.extent,), t, e.body.span, "an array") if stacked else t
        return T.Loop(stacked, tuple(states), counter.symbol, trip, body, type=result, span=e.span)

    def _keeps_state(self, e: S.Loop, body: T.Expr, t: Type, first: list[T.Expr]) -> bool:
        """See that a step gives what it takes; of several states, each by itself, which says more of what is wrong."""
        new: tuple[tuple[Span, Type, T.Expr], ...] = ()
        given = self.state.prune(body.type)
        if isinstance(given, TupleType) and len(given.items) == len(first) > 1:
            written = body.items if isinstance(body, T.Tuple) else (body,) * len(first)
            new = tuple((w.span, i, f) for w, i, f in zip(written, given.items, first, strict=True))
        text = "the new state must have the type and shape of the old one"
        for span, item, old in new or ((e.body.span, body.type, first[0]),):
            sides = (Side(span, "the new state has {}"), Side(old.span, "the first state has {}"))
            if not self.unify(item, old.type if new else t, Reason(span, text, sides)):
                return False
        return True

    def _trip(self, env: Env, e: S.Loop, group: S.BinderGroup) -> tuple[T.Expr | None, Dim | None]:
        """How often a loop runs: an expression and a size for it; neither if uses must tell."""
        if group.bound is None:
            return None, None
        if e.kind == "unfold" or isinstance(group.bound, S.ShapeRun):
            extent = self._extent(env, group.bound, True)
            if extent is not None and e.kind == "unfold":
                self.oblige(Relation(extent, ">=", Dim.of(0)), env.context, Reason(group.span, "a range cannot be negative: {}"))
            return None, extent
        value = self.infer(env, group.bound)
        self.unify(value.type, I32, Reason(group.bound.span, "a loop's bound is an i32"))
        dim = symbolic(value, whole=True)
        if dim is None:  # known only when the program runs
            symbol = fresh("trip")
            self.state.data_sizes[symbol] = ()
            dim = Dim.of(symbol)
        return value, dim

    @abstractmethod
    def bind_pattern(self, scope: Scope, pattern: S.Pattern, t: Type, seen: dict[str, Span]) -> T.Pattern: ...

    # ── accesses ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def access(self, env: Env, e: S.Access) -> T.Expr:
        base = self.infer(env, e.base)
        subscripts = tuple(self._subscript(env, s) for s in e.subscripts)
        rests = [written.span for written, s in zip(e.subscripts, subscripts, strict=True) if isinstance(s, T.Keep)]
        if len(rests) > 1:
            self.report(errors.rests(e.span, rests))
            return T.Literal(0, type=POISON, span=e.span)
        default = None if e.default is None else self.infer(env, e.default)
        name = _excerpt(e.base.span)

        def of(t: Type, part: bool = False) -> Type:
            match t:
                case TupleType(items):
                    return TupleType(tuple(of(self.state.prune(i), True) for i in items))
                case RecordType(fields):
                    return RecordType(tuple((n, of(self.state.prune(f), True)) for n, f in fields))
                case Tensor(element, shape):
                    shape, rest = self._parted(shape, subscripts) if part else (shape, ())
                    found = self._access_tensor(env.context, e, Tensor(element, shape), subscripts, default, name)
                    return Tensor(found.element, (*found.shape, *rest)) if isinstance(found, Tensor) else found
                case TypeVar():
                    new = self.state.tensor()
                    self.unify(t, new, Reason(e.base.span, "this is indexed"))
                    return self._access_tensor(env.context, e, new, subscripts, default, name)
                case Poison():
                    return POISON
                case _:
                    self.report(errors.cannot_index(self.state, t, e.base.span))
                    return POISON

        known = self.state.prune(base.type)
        if isinstance(known, TypeVar):
            out: Type = self.state.type_var()
            self.defer(Indexed(known, of, out, e.span))
        else:
            out = of(known)
        return T.Access(base, subscripts, default, env.context, type=out, span=e.span)

    def _parted(self, shape: Shape, subscripts: tuple[T.Subscript, ...]) -> tuple[Shape, Shape]:
        """A part of a record may have more dimensions than there are subscripts: the rest is kept."""
        shape = self.state.shape(shape)
        known = not any(isinstance(i, Row) for i in shape) and not any(isinstance(s, T.Run | T.Keep) for s in subscripts)
        return (shape[: len(subscripts)], shape[len(subscripts) :]) if known else (shape, ())

    def _subscript(self, env: Env, s: S.Subscript) -> T.Subscript:
        match s:
            case S.IndexAt(value):
                return T.At((self._index(env, value),))
            case S.IndexSplit(items):
                return T.At(tuple(self._index(env, i) for i in items), tuple(self.state.dim("") for _ in items))
            case S.IndexRun(name):
                run = env.scope.run(name)
                if run is None or run.symbol is None:
                    self.report(unknown("run of indices", f"..{name}", s.span, ()))
                    return T.Keep(self.state.row())
                return T.Run(run.symbol, run.row)
            case S.IndexRest():
                run = env.scope.run(ANONYMOUS_RUN)
                if run is not None and run.symbol is not None:
                    return T.Run(run.symbol, run.row)
                return T.Keep(self.state.row())
            case S.IndexSlice(start, stop, step):
                a = self._slice_part(env, start, Dim.of(0), s.span)
                c = self._slice_part(env, step, Dim.of(1), s.span)
                b = None if stop is None else self._slice_part(env, stop, Dim.of(0), s.span)
                return T.Slice(a, b, c)

    def _slice_part(self, env: Env, e: S.Expr | None, missing: Dim, span: Span) -> Dim:
        if e is None:
            return missing
        value = self._index(env, e)
        dim = symbolic(value, whole=True)
        if dim is None:
            if only_sizes(value):
                if not self._needs_divisors(env, value):
                    self.too_complex(e.span)
            elif not isinstance(self.state.prune(value.type), Poison):
                self.report(not_a_dimension(f"`{_excerpt(e.span)}`", e.span))
            return self.state.dim("")
        return dim

    def _index(self, env: Env, e: S.Expr) -> T.Expr:
        """One index: an i32, or an i64 computed from data."""
        value = self.infer(env, e)
        self._needs_divisors(env, value)
        t = self.state.prune(value.type)
        match t:
            case Poison():
                return value
            case Tensor(element, shape) if not any(isinstance(i, Dim) for i in self.state.shape(shape)):
                allowed = self.state.allowed_of(element)
                if allowed == frozenset({Element.I64}):
                    self.unify(t, Tensor(Element.I64, ()), Reason(e.span, "an index is a single integer"))
                    return value
                if Element.I32 in allowed:
                    self.unify(t, I32, Reason(e.span, "an index is a single i32"))
                    return value
            case TypeVar():
                self.unify(t, I32, Reason(e.span, "an index is an i32"))
                return value
        self.report(errors.bad_subscript(self.state, t, e.span))
        return T.Literal(0, type=POISON, span=e.span)

    def _access_tensor(
        self, context: Context, e: S.Access, base: Tensor, subscripts: tuple[T.Subscript, ...], default: T.Expr | None, name: str
    ) -> Type:
        """The type of an access to one tensor, with the uses of its indices noted."""
        shape = self.state.shape(base.shape)
        whole = not any(isinstance(i, Row) for i in shape) and not any(isinstance(x, T.Run | T.Keep) for x in subscripts)
        if any(isinstance(x, T.At) and any(isinstance(v.type, Poison) for v in x.values) for x in subscripts):
            return POISON
        if whole and len(shape) != len(subscripts):
            self.report(errors.subscript_count(self.state, shape, len(subscripts), e.span, name))
            return POISON
        items = self._items(base, subscripts)
        kept: list[ShapeItem] = []
        extents: dict[Symbol | None, Dim] = dict(context.indices)
        flat = self.state.shape(tuple(i for item in items for i in item))
        for n, (written, subscript, item) in enumerate(zip(e.subscripts, subscripts, items, strict=True)):
            axis = which(flat, len(self.state.shape(tuple(i for before in items[:n] for i in before))))
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
                        self.equal(target, prod(sizes, start=Dim.of(1)), Reason(written.span, text, parts))
                    for value, size in zip(values, sizes or (target,), strict=True):
                        index = symbolic(value, whole=True)
                        extent = None if index is None else extents.get(index.symbol)
                        if sizes and extent is not None:  # a part of a split is as large as the range of its index
                            self.equal(size, extent, Reason(value.span, f"part of {axis} of `{name}`"))
                        if index is not None:
                            use = Use(index, size, context, value.span, name, axis, default is not None)
                            self.state.uses.append(use)
                case T.Slice():
                    assert len(item) == 1
                    assert isinstance(item[0], Dim)
                    sliced = Side(e.base.span, f"{axis} of `{name}` is {{}}")
                    kept.append(self._slice(context, subscript, item[0], written.span, name, axis, sliced, default is not None))
                case T.Keep():
                    kept.extend(item)
                case T.Run():
                    pass
        shape = tuple(i for item in items for i in item)
        rank = sum(isinstance(i, Dim) for i in shape)
        text = f"`{name}` is indexed here" + (f" with {rank} subscript{'s' * (rank != 1)}" if rank or not shape else "")
        found = Tensor(base.element, shape)
        if shape != base.shape and not self.unify(base, found, Reason(e.span, text)):
            return POISON
        if default is not None:
            self.unify(default.type, Tensor(base.element, ()), Reason(default.span, f"the padding is an element of `{name}`"))
        return Tensor(base.element, tuple(kept))

    def _items(self, base: Tensor, subscripts: tuple[T.Subscript, ...]) -> list[Shape]:
        """What of the base's shape each subscript stands for: the known dimensions where they line up, else fresh ones."""
        shape = self.state.shape(base.shape)
        fresh_: list[Shape] = [(s.row,) if isinstance(s, T.Run | T.Keep) else (self.state.dim(""),) for s in subscripts]
        runs = [n for n, s in enumerate(subscripts) if isinstance(s, T.Run | T.Keep)]
        if any(isinstance(i, Row) for i in shape):
            return fresh_
        if not runs and len(shape) == len(subscripts):
            return [(i,) for i in shape]
        if len(runs) == 1 and len(shape) >= len(subscripts) - 1:
            (n,) = runs
            after = len(subscripts) - n - 1
            middle = shape[n : len(shape) - after]
            if isinstance(subscripts[n], T.Keep):
                self.state.rows[subscripts[n].row.symbol] = middle  # type: ignore[union-attr]
            else:
                middle = (subscripts[n].row,)  # type: ignore[union-attr]
            return [*((i,) for i in shape[:n]), middle, *((i,) for i in shape[len(shape) - after :])]
        return fresh_

    def _slice(
        self, context: Context, s: T.Slice, size: Dim, span: Span, name: str, axis: str, sliced: Side, padded: bool
    ) -> Dim:  # fmt: skip
        """The length of a slice; start <= stop <= size are obligations (padded: start <= stop), and so is a positive step."""
        wrong = self._impossible_slice(s, size, span, name)
        if wrong is not None:
            self.report(wrong)
            return self.state.dim("")
        stop = size if s.stop is None else s.stop
        what = f"the slice of {axis} of `{name}`"
        if not padded:
            self.oblige(Relation(s.start, ">=", Dim.of(0)), context, Reason(span, f"{what} starts before it: it needs {{}}"), True)
            ends = Reason(span, f"{what} ends after it: it needs {{}}", (sliced,))
            self.oblige(Relation(stop, "<=", size), context, ends, True)
        self.oblige(Relation(s.start, "<=", stop), context, Reason(span, f"{what} ends before it starts: it needs {{}}"), True)
        self.oblige(Relation(s.step, ">=", Dim.of(1)), context, Reason(span, f"the step of {what} must be positive: {{}}"), True)
        length = dim_sum((stop, -s.start))
        extent = length if s.step.constant == 1 else (length + s.step - 1) // s.step
        indices = {i for i, _ in context.indices}
        if extent.variables & indices:
            self._bad_binder(span, "the length of a slice cannot depend on an index", "slice a fixed length: `x[i : i + 3]`")
        return extent

    def _impossible_slice(self, s: T.Slice, size: Dim, span: Span, name: str) -> Diagnostic | None:
        """Slices as in Python that count from the end or run backwards."""
        if s.step.constant is not None and s.step.constant < 1:
            label = Label(span, f"this step is {s.step.constant}")
            help_ = Suggestion(f"to reverse, write `for i < n => {name}[n - 1 - i]`")
            return Diagnostic("AX0303", "the step of a slice is at least 1", (label,), (), (help_,))
        if any(d is not None and d.constant is not None and d.constant < 0 for d in (s.start, s.stop)):
            label = Label(span, "positions count from 0, also in slices")
            shown = self.state.dimension(size)
            n = str(shown) if shown.variables <= self.state.rigid else "n"
            help_ = Suggestion(f"counted from the end, a position is `{n} - 1`, `{n} - 2`, …")
            return Diagnostic("AX0303", "a slice cannot begin or end at a negative position", (label,), (), (help_,))
        return None


def _names(binder: S.Binder) -> tuple[tuple[str, Span], ...]:
    match binder:
        case S.IndexBinder(name):
            return ((name, binder.span),)
        case S.RunBinder(name):
            return ((f"..{name or ''}", binder.span),)
        case S.ProductBinder(names):
            return tuple((n.text, n.span) for n in names)


def _excerpt(span: Span) -> str:
    """A few words of source, on one line."""
    text = " ".join(span.text.split())
    return text if len(text) <= 40 else text[:37] + "…"
