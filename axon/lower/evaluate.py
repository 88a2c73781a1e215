"""Lowering of expressions: evaluation at compile time, where tensors are descriptions of how to compute their elements.

Functions are applied, so higher-order programs leave no trace; comprehensions, reductions and loops put operations into the
builder's block; the scalar code between them becomes scalar expressions of core.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, prod
from typing import assert_never

from axon import builtins
from axon import typed as T
from axon.core import Axis, Check, Const, Convert, Index, Local, Monoid, Read, Scalar, Select, Unary, element_of
from axon.core import Binary as CoreBinary
from axon.element import Element
from axon.lower.builder import Builder, Context
from axon.lower.scalars import as_scalar, integer, simplified
from axon.lower.value import (
    Closure,
    Env,
    Frame,
    Primitive,
    RecordValue,
    Subscripts,
    TensorValue,
    TupleValue,
    Value,
)
from axon.names import Symbol, fresh
from axon.shapes.dimension import Dim
from axon.source import Span
from axon.types.type import ElementType, ElementVar, Exists, Function, RecordType, Row, Shape, Tensor, TupleType, Type
from axon.types.unify import State

Definitions = dict[Symbol, tuple[T.Decl, State]]

_ONE = Dim.of(1)
_BINARY_PRIMITIVES = {op for op, _, _ in builtins.OPERATORS.values()} | set(builtins.BINARY)
_ARITY = {"nonzero": 1, "sort": 1, "argsort": 1, "filter": 2, "matmul": 2}


def scalar_value(scalar: Scalar, element: Element) -> TensorValue:
    return TensorValue(element, (), lambda _: scalar)


def leaves(value: Value) -> list[TensorValue]:
    match value:
        case TensorValue():
            return [value]
        case TupleValue(items):
            return [x for i in items for x in leaves(i)]
        case RecordValue(fields):
            return [x for i in fields.values() for x in leaves(i)]
        case _:
            raise AssertionError("a function where data is needed")


def rebuild(value: Value, new: Sequence[TensorValue]) -> Value:
    """The structure of a value with other tensors as its leaves."""
    rest = iter(new)

    def go(v: Value) -> Value:
        match v:
            case TensorValue():
                return next(rest)
            case TupleValue(items):
                return TupleValue(tuple(go(i) for i in items))
            case RecordValue(fields):
                return RecordValue({n: go(f) for n, f in fields.items()})
            case _:
                return v

    return go(value)


class Evaluator:
    def __init__(self, builder: Builder, definitions: Definitions) -> None:
        self.b = builder
        self.definitions = definitions
        self.globals: dict[Symbol, Value] = {}

    # ── what the checker's variables stand for ─────────────────────────────────────────────────────────────────────────

    def dim(self, env: Env, dim: Dim) -> Dim:
        dim = env.frame.state.dimension(dim)
        image = {s: env.dims.get(s) or env.frame.dims.get(s) or Dim.of(s) for s in dim.variables}
        return dim.substitute(image)

    def element(self, env: Env, element: ElementType) -> Element:
        element = env.frame.state.element(element)
        if isinstance(element, ElementVar):
            found = env.frame.elements.get(element.symbol)
            return found if found is not None else Element.F32
        return element

    def shape(self, env: Env, shape: Shape) -> tuple[Dim, ...]:
        out: list[Dim] = []
        for item in env.frame.state.shape(shape):
            if isinstance(item, Row):
                out.extend(env.frame.rows.get(item.symbol, ()))
            else:
                out.append(self.dim(env, item))
        return tuple(out)

    def instance(self, env: Env, target: Frame, instance: T.Instance) -> Frame:
        """The frame of a function's activation: its variables are what they are at this use."""
        return Frame(
            target.state,
            {**target.elements, **{s: self.element(env, e) for s, e in instance.elements.items()}},
            {**target.rows, **{s: self.shape(env, r) for s, r in instance.rows.items()}},
            {**target.dims, **{s: self.dim(env, d) for s, d in instance.dims.items()}},
        )

    def _element_of(self, env: Env, t: Type) -> Element:
        t = env.frame.state.prune(t)
        assert isinstance(t, Tensor)
        return self.element(env, t.element)

    # ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def scalar(self, env: Env, e: T.Expr, c: Context) -> Scalar:
        value = self.eval(env, e, c)
        assert isinstance(value, TensorValue)
        return value.at(())

    def eval(self, env: Env, e: T.Expr, c: Context) -> Value:
        match e:
            case T.Literal(value=written):
                element = self._element_of(env, e.type)
                number = written if element is Element.BOOL else float(written) if element.is_float else int(written)
                return scalar_value(Const(number, element), element)
            case T.Dimension(dim=dim):
                return scalar_value(Index(self.dim(env, dim)), Element.I32)
            case T.Variable():
                return self._variable(env, e, c)
            case T.Builtin(name=name):
                return Primitive(name, _ARITY.get(name, 1 if name in builtins.UNARY else 2))
            case T.Call():
                return self._call(env, e, c)
            case T.Unary(op=op, operand=operand):
                return self._unary(op, self._tensor(env, operand, c))
            case T.Binary(op=op, left=left, right=right):
                return self._binary_expr(env, op, left, right, c)
            case T.MatMul(left=left, right=right):
                return self.matmul(self._tensor(env, left, c), self._tensor(env, right, c), c, e.span)
            case T.Tuple(items=items):
                return TupleValue(tuple(self.eval(env, i, c) for i in items))
            case T.Record(fields=fields):
                return RecordValue({n: self.eval(env, f, c) for n, f in fields})
            case T.Field(record=record, name=name):
                value = self.eval(env, record, c)
                assert isinstance(value, RecordValue)
                return value.fields[name]
            case T.Project(value=inner, position=position):
                value = self.eval(env, inner, c)
                assert isinstance(value, TupleValue)
                return value.items[position - 1]
            case T.Access():
                return self._access(env, e, c)
            case T.Cast(value=inner):
                return self._cast(self._tensor(env, inner, c), self._element_of(env, e.type))
            case T.Coerce(value=inner):
                return self._coerce(env, e, self.eval(env, inner, c))
            case T.Let(decls=decls, body=body):
                for decl in decls:
                    env = self.declare(env, decl, c)
                return self.eval(env, body, c)
            case T.Fn(params=params, body=body):
                return Closure(params, body, env)
            case T.If():
                return self._if(env, e, c)
            case T.For():
                return self._for(env, e, c)
            case T.Reduce():
                return self._reduce(env, e, c)
            case T.Loop():
                return self._loop(env, e, c)
            case T.Array(items=items):
                return self._array(env, e, [self.eval(env, i, c) for i in items])
            case T.Open(value=inner, symbol=symbol):
                value = self.eval(env, inner, c)
                self._name_sizes(env, e.type, value, symbol)
                return value
            case _:
                assert_never(e)

    def _tensor(self, env: Env, e: T.Expr, c: Context) -> TensorValue:
        value = self.eval(env, e, c)
        assert isinstance(value, TensorValue), e
        return value

    def _variable(self, env: Env, e: T.Variable, c: Context) -> Value:
        found = env.values.get(e.symbol)
        if found is None:
            found = self._global(e.symbol, c)
        if e.instance is not None and isinstance(found, Closure):
            frame = self.instance(env, found.env.frame, e.instance)
            found = Closure(found.params, found.body, found.env.in_frame(frame), found.given)
        if isinstance(found, Closure) and not found.params:  # `fun zeros {n} = …`: its dimensions are all it takes
            return self.eval(found.env, found.body, c)
        return found

    def _global(self, symbol: Symbol, c: Context) -> Value:
        """A declaration at the top of a module. Values are computed once."""
        if symbol not in self.globals:
            decl, state = self.definitions[symbol]
            env = Env(Frame(state))
            if isinstance(decl, T.Fun):
                self.globals[symbol] = Closure(decl.params, decl.body, env)
            else:
                saved = self.b.risk
                self.globals |= self._bind(env, decl.pattern, self._keep(self.eval(env, decl.value, Context()), Context(), "v"))
                self.b.risk = saved
        return self.globals[symbol]

    # ── declarations and patterns ──────────────────────────────────────────────────────────────────────────────────────

    def declare(self, env: Env, decl: T.Decl, c: Context) -> Env:
        match decl:
            case T.Fun(symbol=symbol, params=params, body=body):
                return env.with_values({symbol: Closure(params, body, env)})
            case T.Val(pattern=pattern, value=value):
                before = self.b.risk
                found = self.eval(env, value, c)
                return env.with_values(self._bind(env, pattern, self._keep(found, c, _name(pattern), self.b.risk > before)))
            case _:
                assert_never(decl)

    def _bind(self, env: Env, pattern: T.Pattern, value: Value) -> dict[Symbol, Value]:
        match pattern:
            case T.PatternName(symbol=symbol):
                return {symbol: value}
            case T.PatternTuple(items=items):
                assert isinstance(value, TupleValue)
                return {s: v for p, i in zip(items, value.items, strict=True) for s, v in self._bind(env, p, i).items()}
            case T.PatternRecord(fields=fields):
                assert isinstance(value, RecordValue)
                return {s: v for n, p in fields for s, v in self._bind(env, p, value.fields[n]).items()}
            case _:
                assert_never(pattern)

    def _keep(self, value: Value, c: Context, name: str, risky: bool = False) -> Value:
        """A value that may be used more than once: computed once."""
        match value:
            case TensorValue(shape=()) if not value.lazy:
                return value if _plain(value.at(())) else self._named(value, c, name, risky)
            case TensorValue(shape=()):
                return self._named(value, c, name, risky)
            case TensorValue():
                return self.b.store(value, c, name) if value.lazy else value
            case TupleValue(items):
                return TupleValue(tuple(self._keep(i, c, name, risky) for i in items))
            case RecordValue(fields):
                return RecordValue({n: self._keep(f, c, n, risky) for n, f in fields.items()})
            case _:
                return value

    def _named(self, value: TensorValue, c: Context, name: str, risky: bool) -> TensorValue:
        before = self.b.risk
        scalar = value.at(())
        if _plain(scalar):
            return value
        return scalar_value(self.b.name(scalar, name, c, risky or self.b.risk > before), value.element)

    # ── application ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, env: Env, e: T.Call, c: Context) -> Value:
        f = self.eval(env, e.function, c)
        arguments = [self.eval(env, a, c) for a in e.arguments]
        if self._lifts(env, e, arguments):
            return self._lifted(f, arguments, c, e.span)
        return self.apply(f, arguments, c, e.span)

    def _lifts(self, env: Env, e: T.Call, arguments: list[Value]) -> bool:
        """Whether a function of scalars is applied to tensors."""
        state = env.frame.state
        t = state.prune(e.function.type)
        ranked = False
        for argument in arguments:
            if not isinstance(t, Function):
                return False
            param = state.prune(t.param)
            if not isinstance(param, Tensor) or self.shape(env, param.shape) or not isinstance(argument, TensorValue):
                return False
            ranked |= bool(argument.shape)
            t = state.prune(t.result)
        return ranked

    def _lifted(self, f: Value, arguments: list[Value], c: Context, span: Span) -> Value:
        tensors = [a for a in arguments if isinstance(a, TensorValue)]
        shape: tuple[Dim, ...] = ()
        for tensor in tensors:
            shape = broadcast(shape, tensor.shape)
        tensors = [self._stored(t, c) for t in tensors]
        axes = [Axis(fresh("i"), extent) for extent in shape]
        at = tuple(Dim.of(a.symbol) for a in axes)
        scalars = [scalar_value(t.at(stretched(at, t.shape, shape)), t.element) for t in tensors]
        before = self.b.risk
        inside = c.with_axes(axes)
        result = self.apply(f, scalars, inside, span)
        return self._collect(result, axes, c, self.b.risk > before)

    def apply(self, f: Value, arguments: Sequence[Value], c: Context, span: Span) -> Value:
        """A function applied to some arguments; with too few it waits for the others."""
        rest = list(arguments)
        while True:
            match f:
                case Closure(params, body, env, given):
                    needed = len(params) - len(given)
                    if len(rest) < needed:
                        return Closure(params, body, env, (*given, *rest))
                    values = [*given, *rest[:needed]]
                    rest = rest[needed:]
                    bound: dict[Symbol, Value] = {}
                    for pattern, value in zip(params, values, strict=True):
                        bound |= self._bind(env, pattern, self._keep(value, c, _name(pattern)))
                    f = self.eval(env.with_values(bound), body, c)
                case Primitive(name, arity, given):
                    if len(given) + len(rest) < arity:
                        return Primitive(name, arity, (*given, *rest))
                    values = [*given, *rest[: arity - len(given)]]
                    rest = rest[arity - len(given) :]
                    f = self._primitive(name, values, c, span)
                case _:
                    return f
            if not rest and not (isinstance(f, Closure) and not f.params):
                return f

    def _primitive(self, name: str, values: Sequence[Value], c: Context, span: Span) -> Value:
        tensors = [v for v in values if isinstance(v, TensorValue)]
        assert len(tensors) == len(values)
        if name in builtins.UNARY:
            return self._unary(name, tensors[0])
        if name in _BINARY_PRIMITIVES:
            return self._pointwise(name, tensors[0], tensors[1])
        match name:
            case "matmul":
                return self.matmul(tensors[0], tensors[1], c, span)
            case "nonzero":
                return self.b.compress(tensors[0], c, span)
            case "filter":
                kept, x = self.b.compress(tensors[0], c, span), self._stored(tensors[1], c)
                shape = (kept.shape[0], *x.shape[1:])
                return TensorValue(x.element, shape, lambda s: x.at((kept.at((s[0],)), *s[1:])), lazy=True)
            case "sort" | "argsort":
                return self.b.sort(tensors[0], c, span, name == "argsort")
        raise AssertionError(name)

    # ── pointwise ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _unary(self, op: str, x: TensorValue) -> TensorValue:
        if not x.shape:
            inner = x.at(())
            if op == "neg" and isinstance(inner, Const) and not isinstance(inner.value, bool):
                return scalar_value(Const(-inner.value, inner.element), x.element)
            return scalar_value(Unary(op, inner), x.element)
        return TensorValue(x.element, x.shape, lambda s: Unary(op, x.at(s)), lazy=True, guarded=x.guarded)

    def _binary_expr(self, env: Env, op: str, left: T.Expr, right: T.Expr, c: Context) -> TensorValue:
        a = self._tensor(env, left, c)
        inside = c
        if op in ("and", "or") and not a.shape:
            condition = a.at(())
            inside = c.guarded(condition if op == "and" else Unary("not", condition))
        return self._pointwise(op, a, self._tensor(env, right, inside))

    def _pointwise(self, op: str, a: TensorValue, b: TensorValue) -> TensorValue:
        gives_bool = op in ("eq", "ne", "lt", "le", "gt", "ge", "and", "or")
        element = Element.BOOL if gives_bool else a.element
        if op in ("div", "mod") and a.element.is_integer:
            self.b.risk += 1  # may divide by 0
        shape = broadcast(a.shape, b.shape)
        if not shape:
            return scalar_value(simplified(op, a.at(()), b.at(())), element)

        def at(s: Subscripts) -> Scalar:
            return CoreBinary(op, a.at(stretched(s, a.shape, shape)), b.at(stretched(s, b.shape, shape)))

        return TensorValue(element, shape, at, lazy=True, guarded=a.guarded or b.guarded)

    def _cast(self, x: TensorValue, element: Element) -> TensorValue:
        if x.element is element:
            return x
        if not x.shape:
            return scalar_value(Convert(x.at(()), element), element)
        return TensorValue(element, x.shape, lambda s: Convert(x.at(s), element), lazy=True, guarded=x.guarded)

    def matmul(self, a: TensorValue, b: TensorValue, c: Context, span: Span) -> TensorValue:
        a, b = self._stored(a, c), self._stored(b, c)
        axes = [Axis(fresh("b"), d) for d in a.shape[:-2]]
        axes += [Axis(fresh("i"), a.shape[-2]), Axis(fresh("j"), b.shape[-1])]
        k = Axis(fresh("k"), a.shape[-1])
        *batch, i, j = (Dim.of(x.symbol) for x in axes)
        inner = Dim.of(k.symbol)
        left, right = a.at((*batch, i, inner)), b.at((*(batch if len(b.shape) > 2 else ()), inner, j))
        body = CoreBinary("mul", left, right)
        return self.b.compute(axes, (body,), c, a.guarded or b.guarded, ("product",), ((k,), Monoid("sum"), None), span)[0]

    def _if(self, env: Env, e: T.If, c: Context) -> Value:
        condition = self.scalar(env, e.condition, c)
        if not _plain(condition) and not isinstance(condition, CoreBinary):
            condition = self.b.name(condition, "c", c, False)
        then = self.eval(env, e.then, c.guarded(condition))
        otherwise = self.eval(env, e.otherwise, c.guarded(Unary("not", condition)))
        pairs = list(zip(leaves(then), leaves(_ordered(otherwise, then)), strict=True))
        return rebuild(then, [_choice(condition, a, b) for a, b in pairs])

    def _coerce(self, env: Env, e: T.Coerce, value: Value) -> Value:
        wanted = self._leaf_types(env, e.type)
        out: list[TensorValue] = []
        for leaf, t in zip(leaves(value), wanted, strict=True):
            shape = self.shape(env, t.shape)
            for n, (have, want) in enumerate(zip(leaf.shape, shape, strict=True), 1):
                if have != want:
                    message = f"dimension {n} is not what `as` says"
                    self.b.ops.append(Check(have, "=", want, message, e.span))
            out.append(TensorValue(leaf.element, shape, leaf.at, leaf.lazy, leaf.guarded, leaf.symbol))
        return rebuild(value, out)

    def _leaf_types(self, env: Env, t: Type) -> list[Tensor]:
        t = env.frame.state.prune(t)
        match t:
            case Tensor():
                return [t]
            case TupleType(items):
                return [x for i in items for x in self._leaf_types(env, i)]
            case RecordType(fields):
                return [x for _, f in fields for x in self._leaf_types(env, f)]
            case Exists(_, _, body):
                return self._leaf_types(env, body)
            case _:
                return []

    def _name_sizes(self, env: Env, t: Type, value: Value, symbol: Symbol) -> None:
        """Find what a size that only the data decide is in a value, for the rest of the activation."""
        for leaf_type, leaf in zip(self._leaf_types(env, t), leaves(value), strict=False):
            items = env.frame.state.shape(leaf_type.shape)
            if any(isinstance(i, Row) and i.symbol not in env.frame.rows for i in items):
                continue
            flat: list[Dim | None] = []
            for item in items:
                flat += [None] * len(env.frame.rows[item.symbol]) if isinstance(item, Row) else [item]
            for written, actual in zip(flat, leaf.shape, strict=True):
                if written is not None and written.symbol == symbol:
                    env.frame.dims[symbol] = actual

    def _array(self, env: Env, e: T.Array, items: list[Value]) -> Value:
        count = len(items)
        if not items:
            t = env.frame.state.prune(e.type)
            assert isinstance(t, Tensor)
            element = self.element(env, t.element)
            return TensorValue(element, (Dim.of(0),), lambda _: Const(0, element))
        columns = list(zip(*(leaves(_ordered(i, items[0])) for i in items), strict=True))

        def stacked(column: tuple[TensorValue, ...]) -> TensorValue:
            def choose(at: Scalar, low: int, high: int, s: Subscripts) -> Scalar:
                if high - low == 1:
                    return column[low].at(s)
                middle = (low + high) // 2
                below = CoreBinary("lt", at, Index(Dim.of(middle)))
                return Select(below, choose(at, low, middle, s), choose(at, middle, high, s))

            def at(s: Subscripts) -> Scalar:
                position = integer(as_scalar(s[0]))
                if position is not None and position.constant is not None:
                    return column[position.constant].at(s[1:])
                return choose(as_scalar(s[0]), 0, count, s[1:])

            return TensorValue(column[0].element, (Dim.of(count), *column[0].shape), at, lazy=True)

        return rebuild(items[0], [stacked(column) for column in columns])

    # ── index notation ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _axes(self, env: Env, binders: tuple[T.Binder, ...]) -> tuple[Env, list[Axis], list[list[Axis]]]:
        """Axes for binders, in scope; and which of them make each dimension of the result."""
        axes: list[Axis] = []
        groups: list[list[Axis]] = []
        for binder in binders:
            match binder:
                case T.Indices(symbols=symbols, extents=extents):
                    new = [Axis(fresh(s.name), self.dim(env, x)) for s, x in zip(symbols, extents, strict=True)]
                    env = env.with_indices({s: Dim.of(a.symbol) for s, a in zip(symbols, new, strict=True)}, {})
                    groups.append(new)
                case T.Run(symbol=symbol, row=row):
                    shape = self.shape(env, (row,))
                    new = [Axis(fresh(symbol.name.strip(".") or "i"), x) for x in shape]
                    env = env.with_indices({}, {symbol: tuple(Dim.of(a.symbol) for a in new)})
                    groups += [[a] for a in new]
                case _:
                    assert_never(binder)
            axes += new
        return env, axes, groups

    def _for(self, env: Env, e: T.For, c: Context) -> Value:
        inner, axes, groups = self._axes(env, e.binders)
        before = self.b.risk
        body = self.eval(inner, e.body, c.with_axes(axes))
        risky = self.b.risk > before
        if all(len(g) == 1 for g in groups):
            return self._collect(body, axes, c, risky)
        return rebuild(body, [self._flattened(leaf, axes, groups, c, risky) for leaf in leaves(body)])

    def _collect(self, body: Value, axes: list[Axis], c: Context, risky: bool) -> Value:
        """The tensors of a comprehension's body, for all indices."""
        return rebuild(body, [self._collected(leaf, axes, c, risky) for leaf in leaves(body)])

    def _collected(self, leaf: TensorValue, axes: list[Axis], c: Context, risky: bool) -> TensorValue:
        own = [Axis(fresh("i"), extent) for extent in leaf.shape]
        before = self.b.risk
        scalar = leaf.at(tuple(Dim.of(a.symbol) for a in own))
        risky = risky or self.b.risk > before or leaf.guarded
        every = [*axes, *own]
        view = self._as_view(scalar, every)
        if view is not None and not (risky and c.guards):
            return view
        return self.b.compute(every, (scalar,), c, risky, ("t",))[0]

    def _as_view(self, scalar: Scalar, axes: list[Axis]) -> TensorValue | None:
        """A comprehension that only reads each element from somewhere needs no storage: a transposition, a slice, a row."""
        if not isinstance(scalar, Read) or scalar.padding is not None or scalar.checked is not None:
            return None
        own = {a.symbol: n for n, a in enumerate(axes)}
        plan: list[Dim] = []
        for subscript in scalar.subscripts:
            if not isinstance(subscript, Dim):
                return None
            plan.append(subscript)

        def at(s: Subscripts) -> Scalar:
            if all(isinstance(x, Dim) for x in s):
                image = {symbol: s[n] for symbol, n in own.items()}
                return Read(scalar.tensor, tuple(d.substitute(image) for d in plan), scalar.element)  # type: ignore[arg-type]
            subscripts = tuple(self._shifted(d, own, s) for d in plan)
            return Read(scalar.tensor, subscripts, scalar.element)

        return TensorValue(scalar.element, tuple(a.extent for a in axes), at)

    def _shifted(self, d: Dim, own: dict[Symbol, int], s: Subscripts) -> Dim | Scalar:
        """A symbolic subscript where some of its axes stand for computed indices."""
        computed = [x for x in own if x in d.variables and not isinstance(s[own[x]], Dim)]
        image = {x: s[n] for x, n in own.items() if x in d.variables and x not in computed}
        d = d.substitute(image)  # type: ignore[arg-type]
        out: Scalar | None = None
        for x in computed:
            split = d.linear_in(x)
            assert split is not None, "a view's subscripts are linear in its axes"
            index = as_scalar(s[own[x]])
            if element_of(index) is not Element.I32:
                index = Convert(index, Element.I32)
            term = index if split[0] == _ONE else CoreBinary("mul", index, Index(split[0]))
            out = term if out is None else CoreBinary("add", out, term)
            d = split[1]
        if out is None:
            return d
        return out if d == Dim.of(0) else CoreBinary("add", out, Index(d))

    def _flattened(self, leaf: TensorValue, axes: list[Axis], groups: list[list[Axis]], c: Context, risky: bool) -> TensorValue:
        """A comprehension in which several indices make one dimension: the first of them varies slowest."""
        own = [Axis(fresh("i"), extent) for extent in leaf.shape]
        before = self.b.risk
        scalar = leaf.at(tuple(Dim.of(a.symbol) for a in own))
        risky = risky or self.b.risk > before or leaf.guarded
        outer = [Axis(fresh("_".join(a.symbol.name for a in g)), prod((a.extent for a in g), start=_ONE)) for g in groups]
        image: dict[Symbol, Dim] = {}
        for axis, group in zip(outer, groups, strict=True):
            rest = Dim.of(axis.symbol)
            for part in reversed(group[1:]):
                image[part.symbol], rest = rest % part.extent, rest // part.extent
            image[group[0].symbol] = rest
        return self.b.compute([*outer, *own], (scalar,), c, risky, ("t",), image=image)[0]

    def _stored(self, value: TensorValue, c: Context) -> TensorValue:
        return self.b.store(value, c) if value.lazy else value

    def _access(self, env: Env, e: T.Access, c: Context) -> Value:
        base = self.eval(env, e.base, c)
        default = None if e.default is None else self.scalar(env, e.default, c)
        return rebuild(base, [self._access_leaf(env, e, leaf, default, c) for leaf in leaves(base)])

    def _access_leaf(self, env: Env, e: T.Access, base: TensorValue, default: Scalar | None, c: Context) -> TensorValue:
        base = self._stored(base, c)
        shape: list[Dim] = []
        plan: list[Dim | Scalar | tuple[Dim, Dim]] = []  # a subscript, or (start, step) of a kept dimension
        position = 0
        others = [s for s in e.subscripts if not isinstance(s, T.Keep)]
        fixed = sum(len(env.runs[s.symbol]) if isinstance(s, T.Run) else 1 for s in others)
        for subscript in e.subscripts:
            match subscript:
                case T.At(values=values, sizes=sizes):
                    scalars = [self.scalar(env, v, c) for v in values]
                    plan.append(self._subscript(env, scalars, sizes))
                    position += 1
                case T.Run(symbol=symbol):
                    plan += env.runs[symbol]
                    position += len(env.runs[symbol])
                case T.Keep():
                    count = len(base.shape) - fixed
                    for extent in base.shape[position : position + count]:
                        plan.append((Dim.of(0), _ONE))
                        shape.append(extent)
                    position += count
                case T.Slice(start=start, stop=stop, step=step):
                    a, s = self.dim(env, start), self.dim(env, step)
                    b = base.shape[position] if stop is None else self.dim(env, stop)
                    plan.append((a, s))
                    shape.append(b - a if s == _ONE else (b - a + s - 1) // s)
                    position += 1
                case _:
                    assert_never(subscript)
        for extent in base.shape[position:]:  # a part of a record with more dimensions than subscripts
            plan.append((Dim.of(0), _ONE))
            shape.append(extent)

        def subscripts(kept: Subscripts) -> Subscripts:
            rest = iter(kept)
            return tuple(_along(p, next(rest)) if isinstance(p, tuple) else p for p in plan)

        if default is not None:
            return self._padded(base, tuple(shape), subscripts, default, c)
        own = [Axis(fresh("i"), extent) for extent in shape]
        before = self.b.risk
        probe = self.b.read(base, subscripts(tuple(Dim.of(a.symbol) for a in own)), c.with_axes(own), e.span)
        risky = self.b.risk > before
        if not shape:
            return scalar_value(probe, base.element)
        if isinstance(probe, Read) and probe.checked is not None:
            return self.b.compute(own, (probe,), c, True, ("t",))[0]
        return TensorValue(base.element, tuple(shape), lambda s: base.at(subscripts(s)), guarded=risky)

    def _subscript(self, env: Env, scalars: list[Scalar], sizes: tuple[Dim, ...]) -> Dim | Scalar:
        """One subscript; of a split, the indices with the first varying slowest."""
        whole = scalars[0]
        for scalar, size in zip(scalars[1:], sizes[1:], strict=False):
            extent = self.dim(env, size)
            whole = simplified("add", simplified("mul", whole, Index(extent)), scalar)
        found = integer(whole)
        return whole if found is None else found

    def _padded(self, base: TensorValue, shape: tuple[Dim, ...], subscripts, default: Scalar, c: Context) -> TensorValue:  # type: ignore[no-untyped-def]
        stored = base

        def at(s: Subscripts) -> Scalar:
            found = stored.at(subscripts(s))
            if isinstance(found, Read) and stored.symbol is not None:
                return Read(found.tensor, found.subscripts, found.element, default)
            inside: Scalar | None = None
            for subscript, size in zip(subscripts(s), stored.shape, strict=True):
                i = as_scalar(subscript)
                ok = CoreBinary("and", CoreBinary("ge", i, Index(Dim.of(0))), CoreBinary("lt", i, Index(size)))
                inside = ok if inside is None else CoreBinary("and", inside, ok)
            return found if inside is None else Select(inside, found, default)

        if not shape:
            return scalar_value(at(()), base.element)
        return TensorValue(base.element, shape, at, lazy=True)

    # ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reduce(self, env: Env, e: T.Reduce, c: Context) -> Value:
        inner, axes, _ = self._axes(env, e.binders)
        inside = c.with_axes(axes)
        before = self.b.risk
        where = None
        if e.where is not None:
            where = self.scalar(inner, e.where, inside)
            inside = inside.guarded(where)
        if e.kind == "custom":
            return self._reduce_by(env, inner, axes, e, c, inside, where, before)
        body = self.eval(inner, e.body, inside)
        assert isinstance(body, TensorValue)
        own = [Axis(fresh("i"), extent) for extent in body.shape]
        scalar = body.at(tuple(Dim.of(a.symbol) for a in own))
        risky = self.b.risk > before or body.guarded
        if e.kind in ("argmax", "argmin"):
            positions = [Index(Dim.of(a.symbol)) for a in axes]
            found = self.b.compute(
                own, (scalar, *positions), c, risky, [e.kind] * len(axes), (axes, Monoid(e.kind), where), e.span
            )  # fmt: skip
            return found[0] if len(found) == 1 else TupleValue(tuple(found))
        if not axes:  # over a shape variable that stands for no dimensions: one element
            return body if where is None else _choice(where, body, _unit(e.kind, body))
        return self.b.compute(own, (scalar,), c, risky, (e.kind,), (axes, Monoid(e.kind), where), e.span)[0]

    def _reduce_by(
        self, env: Env, inner: Env, axes: list[Axis], e: T.Reduce, c: Context, inside: Context, where: Scalar | None, before: int
    ) -> Value:  # fmt: skip
        assert e.monoid is not None
        monoid = self.eval(env, e.monoid, c)
        assert isinstance(monoid, TupleValue)
        f, unit = monoid.items
        body = self.eval(inner, e.body, inside)
        parts = leaves(_ordered(body, unit))
        if not axes and where is None:
            return body
        if any(p.shape for p in parts) or not axes:
            return self._fold(axes, f, unit, body, where, e, c)
        left, right = ([fresh(n) for _ in parts] for n in ("a", "b"))
        elements = [p.element for p in parts]

        def locals_(symbols: list[Symbol]) -> Value:
            return rebuild(unit, [scalar_value(Local(s, x), x) for s, x in zip(symbols, elements, strict=True)])

        combined = self.apply(f, [locals_(left), locals_(right)], Context(), e.span)
        results = tuple(p.at(()) for p in leaves(_ordered(combined, unit)))
        units = tuple(p.at(()) for p in leaves(unit))
        form = Monoid("custom", units, tuple(left), tuple(right), results)
        scalars = [p.at(()) for p in parts]
        risky = self.b.risk > before
        names = ["r"] * len(parts)
        if e.scan:
            return rebuild(unit, self.b.scan(axes[0], scalars, form, c, risky, names, e.span))
        return rebuild(unit, self.b.compute((), scalars, c, risky, names, (axes, form, where), e.span))

    def _fold(self, axes: list[Axis], f: Value, unit: Value, body: Value, where: Scalar | None, e: T.Reduce, c: Context) -> Value:
        """A reduction or scan of tensors, one element after the other."""
        count = prod((a.extent for a in axes), start=_ONE)
        counter = fresh("n")
        elements = self._collect(body, axes, c, True)
        chosen = None if where is None else self._collected(scalar_value(where, Element.BOOL), axes, c, True)
        rest, at = Dim.of(counter), []
        for axis in reversed(axes):
            at.append(rest % axis.extent if axis is not axes[0] else rest)
            rest = rest // axis.extent
        position = tuple(reversed(at))
        shapes = [leaf.shape[len(axes) :] for leaf in leaves(elements)]

        def step(states: list[TensorValue]) -> list[TensorValue]:
            here = [
                TensorValue(x.element, shape, lambda s, x=x: x.at((*position, *s)))  # type: ignore[misc]
                for x, shape in zip(leaves(elements), shapes, strict=True)
            ]
            old = rebuild(unit, states)
            new = self.apply(f, [old, rebuild(unit, here)], c, e.span)
            after = leaves(_ordered(new, unit))
            if chosen is None:
                return after
            taken = chosen.at(position)
            return [_choice(taken, a, b) for a, b in zip(after, states, strict=True)]

        first = [_widened(leaf, shape) for leaf, shape in zip(leaves(unit), shapes, strict=True)]
        found = self.b.loop(first, Index(count), count, counter, e.scan, c, e.span, step)
        return rebuild(unit, found)

    # ── loops ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self, env: Env, e: T.Loop, c: Context) -> Value:
        starts = [self.eval(env, init, c) for _, init in e.states]
        whole: Value = starts[0] if len(starts) == 1 else TupleValue(tuple(starts))
        trip = self.scalar(env, e.trip, c)
        counter = fresh(e.counter.name if e.counter.name != "_" else "n")
        size = integer(trip)
        extent = size if size is not None else Dim.of(fresh("trip"))
        inner = env.with_indices({e.counter: Dim.of(counter)}, {})

        def step(states: list[TensorValue]) -> list[TensorValue]:
            old = rebuild(whole, states)
            parts = old.items if len(starts) > 1 and isinstance(old, TupleValue) else (old,)
            scope = inner
            for (pattern, _), part in zip(e.states, parts, strict=True):
                scope = scope.with_values(self._bind(scope, pattern, part))
            new = self.eval(scope, e.body, c)
            return leaves(_ordered(new, whole))

        return rebuild(whole, self.b.loop(leaves(whole), trip, extent, counter, e.stacked, c, e.span, step))


# ── small things ────────────────────────────────────────────────────────────────────────────────────────────────────────


def broadcast(a: tuple[Dim, ...], b: tuple[Dim, ...]) -> tuple[Dim, ...]:
    """The shape of a pointwise operation; the checker has seen that the dimensions agree."""
    longer, shorter = (a, b) if len(a) >= len(b) else (b, a)
    lead = len(longer) - len(shorter)
    tail = tuple(y if x == _ONE else x for x, y in zip(longer[lead:], shorter, strict=True))
    return (*longer[:lead], *tail)


def stretched(s: Subscripts, shape: tuple[Dim, ...], out: tuple[Dim, ...]) -> Subscripts:
    """The subscripts into an operand of a pointwise operation, given those into its result."""
    tail = s[len(s) - len(shape) :]
    sizes = out[len(out) - len(shape) :]
    return tuple(Dim.of(0) if d == _ONE and x != _ONE else i for i, d, x in zip(tail, shape, sizes, strict=True))


def _along(plan: tuple[Dim, Dim], at: Dim | Scalar) -> Dim | Scalar:
    start, step = plan
    if isinstance(at, Dim):
        return start + step * at
    scaled = at if step == _ONE else CoreBinary("mul", at, Index(step))
    return scaled if start == Dim.of(0) else CoreBinary("add", scaled, Index(start))


def _choice(condition: Scalar, a: TensorValue, b: TensorValue) -> TensorValue:
    if not a.shape:
        return scalar_value(Select(condition, a.at(()), b.at(())), a.element)
    return TensorValue(a.element, a.shape, lambda s: Select(condition, a.at(s), b.at(s)), lazy=True)


def _widened(value: TensorValue, shape: tuple[Dim, ...]) -> TensorValue:
    return TensorValue(value.element, shape, lambda s: value.at(stretched(s, value.shape, shape)), lazy=True)


def _ordered(value: Value, like: Value) -> Value:
    """The value with its records' fields in the order of another of the same type."""
    match value, like:
        case RecordValue(fields), RecordValue(order):
            return RecordValue({n: _ordered(fields[n], x) for n, x in order.items()})
        case TupleValue(items), TupleValue(others):
            return TupleValue(tuple(_ordered(a, b) for a, b in zip(items, others, strict=True)))
        case _:
            return value


def _unit(kind: str, like: TensorValue) -> TensorValue:
    """What a reduction of nothing gives. Integers have no largest and smallest; a contract keeps those from being empty."""
    value: float | bool = {"sum": 0, "prod": 1, "any": False, "all": True, "max": -inf, "min": inf}[kind]
    if like.element.is_integer and kind in ("max", "min"):
        bits = like.element.bits - 1
        value = 0 if like.element is Element.U8 and kind == "max" else -(2**bits) if kind == "max" else 2**bits - 1
    return TensorValue(like.element, like.shape, lambda _: Const(value, like.element), lazy=True)


def _plain(scalar: Scalar) -> bool:
    """Whether evaluating a scalar again costs nothing worth a name."""
    return isinstance(scalar, (Const, Index, Local)) or (
        isinstance(scalar, Read) and scalar.padding is None and all(isinstance(s, Dim) for s in scalar.subscripts)
    )


def _name(pattern: T.Pattern) -> str:
    return pattern.symbol.name if isinstance(pattern, T.PatternName) and pattern.symbol.name != "_" else "t"

