"""Lowering of expressions: evaluation at compile time, where tensors are descriptions of how to compute their elements.

Functions are applied, so higher-order programs leave no trace; comprehensions, reductions and loops put operations into the
builder's block; the scalar code between them becomes scalar expressions of core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Const, Convert, Index, Monoid, Scalar, Select, Unary, element_of
from axon.core.ir import Binary as CoreBinary
from axon.core.scalar_facts import conjunction
from axon.lower import kept_calls
from axon.lower.builder import Context
from axon.lower.call_count import MAX_CALLS, too_many_calls
from axon.lower.derivatives import ARITY, Derivatives
from axon.lower.extents import divides
from axon.lower.scalars import as_scalar, integer, negated, simplified, zero
from axon.lower.tensors import (
    ONE,
    broadcast,
    choice,
    is_guarded,
    is_plain,
    leaves,
    name_of,
    ordered,
    rebuild,
    scalar_value,
    spread,
    stretched,
)
from axon.lower.value import Closure, Env, Frame, Primitive, RecordValue, Subscripts, TensorValue, TupleValue, Value
from axon.shapes.dimension import Dim
from axon.types import builtins
from axon.types import typed as T
from axon.types.type import Exists, Function, RecordType, Row, Tensor, TupleType, Type

_BINARY_PRIMITIVES = {op for op, _, _ in builtins.OPERATORS.values()} | set(builtins.BINARY)
_ARITY = {"nonzero": 1, "sort": 1, "argsort": 1, "filter": 2, "matmul": 2} | ARITY


class Evaluator(Derivatives):
    # ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def eval(self, env: Env, e: T.Expr, c: Context) -> Value:
        before = self.b.risk
        while isinstance(e, T.Let):  # here, so that functions whose bodies are `let`s may call one another more often in a row
            for decl in e.decls:
                env = self.declare(env, decl, c)
            e = e.body
        value = self._eval(env, e, c)
        if not isinstance(value, TensorValue):
            return value
        if (value.lazy or not value.shape) and not value.guarded and self.b.risk > before:
            value = replace(value, guarded=True)  # whoever stores or names it has not seen the risk
        if value.symbol is not None or value.span is not None:
            return value
        return TensorValue(value.element, value.shape, value.at, value.lazy, value.guarded, None, e.span)

    def _eval(self, env: Env, e: T.Expr, c: Context) -> Value:
        match e:
            case T.Literal(value=written) | T.Unary(folded=int() as written) | T.Binary(folded=int() as written):
                element = self._element_of(env, e.type)
                number = written if element is Element.BOOL else float(written) if element.is_float else int(written)
                return scalar_value(Const(number, element), element)
            case T.Dimension(dim=dim):
                size = self.dim(env, dim)
                if (c.guards or c.axes) and divides(size, self.b.known):
                    self.b.risk += 1
                return scalar_value(Index(size), Element.I32)
            case T.Variable():
                return self._variable(env, e, c)
            case T.Builtin(name=name):
                return Primitive(name, _ARITY.get(name, 1 if name in builtins.UNARY else 2))
            case T.Call():
                return self._call(env, e, c)
            case T.Unary(op=op, operand=operand):
                return self._unary(op, self._tensor(env, operand, c))
            case T.Binary(op=op, left=left, right=right):
                found = self._binary_expr(env, op, left, right, c)
                if op in ("div", "mod", "pow") and found.element.is_integer:
                    self.b.here = e.span
                return found
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
                return self._coerce(env, e, self.eval(env, inner, c), c)
            case T.Let():
                raise AssertionError("`eval` has taken it apart")
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
            found = self._global(e.symbol)
        if is_guarded(found):
            self.b.risk += 1
        if e.instance is not None and isinstance(found, Closure):
            frame = self.instance(env, found.env.frame, e.instance)
            found = Closure(found.params, found.body, found.env.in_frame(frame), found.given)
        if isinstance(found, Closure) and not found.params:  # `fun zeros {n} = …`: its dimensions are all it takes
            return self.eval(found.env, found.body, c)
        return found

    def _global(self, symbol: Symbol) -> Value:
        """A declaration at the top of a module. Values are computed once."""
        if symbol not in self.globals:
            decl, state = self.definitions[symbol]
            env = Env(Frame(state))
            if isinstance(decl, T.Fun):
                self.globals[symbol] = Closure(decl.params, decl.body, env)
            else:
                saved = self.b.risk
                with self.b.outside():
                    self.globals |= self.bind(env, decl.pattern, self._keep(self.eval(env, decl.value, Context()), Context(), "v"))
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
                return env.with_values(self.bind(env, pattern, self._keep(found, c, name_of(pattern), self.b.risk > before)))
            case _:
                assert_never(decl)

    def bind(self, env: Env, pattern: T.Pattern, value: Value) -> dict[Symbol, Value]:
        match pattern:
            case T.PatternName(symbol=symbol):
                return {symbol: value}
            case T.PatternTuple(items=items):
                assert isinstance(value, TupleValue)
                return {s: v for p, i in zip(items, value.items, strict=True) for s, v in self.bind(env, p, i).items()}
            case T.PatternRecord(fields=fields):
                assert isinstance(value, RecordValue)
                return {s: v for n, p in fields for s, v in self.bind(env, p, value.fields[n]).items()}
            case _:
                assert_never(pattern)

    def _keep(self, value: Value, c: Context, name: str, risky: bool = False) -> Value:
        """A value that may be used more than once: computed once. One that costs nothing is itself wherever it is used, and as
        risky there."""
        match value:
            case TensorValue(shape=()):
                risky = (risky or value.guarded) and bool(c.guards or c.axes)
                if not value.lazy and is_plain(value.at(())):
                    return replace(value, guarded=risky)
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
        if is_plain(scalar):
            return value
        return scalar_value(self.b.name(scalar, name, c, risky or self.b.risk > before), value.element)

    # ── application ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _call(self, env: Env, e: T.Call, c: Context) -> Value:
        # Data first, functions last: data open sizes that the dimensions of functions may be.
        order = sorted(range(len(e.arguments)), key=lambda n: self._is_function(env, e.arguments[n]))
        before = self.b.risk
        found = {n: self.eval(env, e.arguments[n], c) for n in order}
        arguments = [found[n] for n in range(len(e.arguments))]
        f = self.eval(env, e.function, c)
        for n, shape in self._spread(env, e):
            arguments[n] = self._whole(arguments[n], shape, c)
        if self._lifts(env, e, arguments):
            return self._lifted(f, arguments, c, e.span)
        return self.apply(f, arguments, c, e.span, self.b.risk > before)

    def _spread(self, env: Env, e: T.Call) -> Iterator[tuple[int, tuple[Dim, ...]]]:
        """The arguments that may be scalars, and the shapes of their parameters."""
        t = env.frame.state.prune(e.function.type)
        for n in range(e.scalars[-1] + 1 if e.scalars else 0):
            assert isinstance(t, Function)
            param = env.frame.state.prune(t.param)
            if n in e.scalars:
                assert isinstance(param, Tensor)
                yield n, self.shape(env, param.shape)
            t = env.frame.state.prune(t.result)

    def _whole(self, value: Value, shape: tuple[Dim, ...], c: Context) -> Value:
        """A tensor of a shape: itself, or a scalar that is each of its elements."""
        if not isinstance(value, TensorValue) or value.shape or not shape:
            return value
        kept = self._keep(value, c, "scalar", value.guarded)
        assert isinstance(kept, TensorValue)
        return spread(kept, shape)

    @staticmethod
    def _is_function(env: Env, e: T.Expr) -> bool:
        return isinstance(env.frame.state.prune(e.type), Function)

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
        return self._collect(result, axes, c, self.b.risk > before, span)

    def apply(self, f: Value, arguments: Sequence[Value], c: Context, span: Span, risky: bool = False) -> Value:
        """A function applied to some arguments, risky ones if only guards make them right; with too few it waits for the others."""
        rest = list(arguments)
        while True:
            match f:
                case Closure(params, body, env, given):
                    needed = len(params) - len(given)
                    if len(rest) < needed:
                        return Closure(params, body, env, (*given, *rest))
                    self._count_call(span)
                    values = [*given, *rest[:needed]]
                    rest = rest[needed:]
                    call = kept_calls.about(self.b, f, values, c, risky)
                    found = None if call is None else call.again()
                    if found is None:
                        bound: dict[Symbol, Value] = {}
                        for pattern, value in zip(params, values, strict=True):
                            bound |= self.bind(env, pattern, self._keep(value, c, name_of(pattern), risky))
                        found = self.eval(env.with_values(bound), body, c)
                        if call is not None:
                            call.keep(found)
                    f = found
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

    def _count_call(self, span: Span) -> None:
        """Functions are gone from core: what one does stands there once for each call, and for each call of what calls it."""
        self.b.calls += 1
        if self.b.calls > MAX_CALLS:
            raise too_many_calls(span)

    def _primitive(self, name: str, values: Sequence[Value], c: Context, span: Span) -> Value:
        if name in ARITY:
            return self.derive(name, values, c, span)
        tensors = [v for v in values if isinstance(v, TensorValue)]
        assert len(tensors) == len(values)
        if any(v.guarded for v in tensors):  # they may have been given before
            self.b.risk += 1
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
                return scalar_value(negated(inner), x.element)
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
            return simplified(op, a.at(stretched(s, a.shape, shape)), b.at(stretched(s, b.shape, shape)))

        pairs = zip(reversed(a.shape), reversed(b.shape), strict=False)
        agree = all(x == ONE or y == ONE or self.b.equal(x, y) for x, y in pairs)  # else a guard says that they do
        return TensorValue(element, shape, at, lazy=True, guarded=a.guarded or b.guarded or not agree)

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
        pairs = zip((*(a.shape[:-2] if len(b.shape) > 2 else ()), a.shape[-1]), b.shape[:-1], strict=True)
        risky = a.guarded or b.guarded or not all(self.b.equal(x, y) for x, y in pairs)
        return self.b.compute(axes, (body,), c, risky, ("product",), ((k,), Monoid("sum"), None), span)[0]

    def _if(self, env: Env, e: T.If, c: Context) -> Value:
        before = self.b.risk
        condition = self.scalar(env, e.condition, c)
        if isinstance(condition, Const):  # sizes decide it, whatever they are
            return self.eval(env, e.then if condition.value else e.otherwise, c)
        if not is_plain(condition) and not isinstance(condition, CoreBinary):
            condition = self.b.name(condition, "c", c, self.b.risk > before)
        then = self.eval(env, e.then, c.guarded(condition))
        otherwise = self.eval(env, e.otherwise, c.guarded(Unary("not", condition)))
        pairs = list(zip(leaves(then), leaves(ordered(otherwise, then)), strict=True))
        return rebuild(then, [choice(condition, a, b) for a, b in pairs])

    def _coerce(self, env: Env, e: T.Coerce, value: Value, c: Context) -> Value:
        wanted = self._leaf_types(env, e.type)
        out: list[TensorValue] = []
        for leaf, t in zip(leaves(value), wanted, strict=True):
            shape = self.shape(env, t.shape)
            equal: list[Scalar] = []
            for n, (have, want) in enumerate(zip(leaf.shape, shape, strict=True), 1):
                if have != want:
                    message = f"dimension {n} is not what `as` says"
                    equal += self.b.check(have, want, message, c, e.span)
            condition = conjunction(tuple(equal))
            if condition is None:
                out.append(TensorValue(leaf.element, shape, leaf.at, leaf.lazy, leaf.guarded, leaf.symbol))
            else:
                out.append(_where(condition, leaf, shape))
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
        columns = list(zip(*(leaves(ordered(i, items[0])) for i in items), strict=True))

        def stacked(column: tuple[TensorValue, ...]) -> TensorValue:
            def choose(at: Scalar, low: int, high: int, s: Subscripts) -> Scalar:
                if high - low == 1:
                    return column[low].at(s)
                middle = (low + high) // 2
                below = CoreBinary("lt", at, Index(Dim.of(middle), element_of(at)))
                return Select(below, choose(at, low, middle, s), choose(at, middle, high, s))

            def at(s: Subscripts) -> Scalar:
                position = integer(as_scalar(s[0]))
                if position is not None and position.constant is not None:
                    return column[position.constant].at(s[1:])
                return choose(as_scalar(s[0]), 0, count, s[1:])

            return TensorValue(column[0].element, (Dim.of(count), *column[0].shape), at, lazy=True)

        return rebuild(items[0], [stacked(column) for column in columns])


def _where(condition: Scalar, value: TensorValue, shape: tuple[Dim, ...]) -> TensorValue:
    """A tensor of a shape that it has only where a condition holds: read there alone."""

    def at(s: Subscripts) -> Scalar:
        return Select(condition, value.at(s), zero(value.element))

    return TensorValue(value.element, shape, at, lazy=True, guarded=value.guarded)
