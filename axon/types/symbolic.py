"""Expressions as sizes: which integer expressions are sizes, and what conditions say about sizes.

Note [Conditions of functions]
    `if inside n i then x[i]` says what the body of `inside` says of its arguments. Sizes are whole numbers without an end; but a
    parameter is an i32, whose sums and products may wrap. So a comparison in a function says something only where its sides are
    parameters, sizes and numbers as they are; `i + 1` as an argument is a size, and may be one of those. What a function compares
    otherwise is like an alternative: it says nothing by itself, and what is read is looked at while running.

Note [Functions of sizes]
    `half n` of a `fun half n = n / 2` is the size that its body is, as if it were written out: what is a size is found by
    evaluating, with sizes for numbers. Names stand for what a `val` gave them, functions are values, tuples and records have parts.
    What is evaluated is dropped, so nothing may happen in it: an `as`, or anything that is not looked into, is left out of no
    argument. All integers must be i32, which a literal's type may not be yet: so a call becomes a size where it is applied, if all
    is known there, and else where a size is needed.

    A division asks for a divisor of at least 1. A number that a function divides by a size stays one where no size is needed,
    and fails when it runs; where one is, the call of the whole program is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from types import MappingProxyType
from typing import Any, TypeAlias

from axon.base.data import dataclass, fields, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import MAX_COEFFICIENT, Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.inference import Definition, Inference, Says
from axon.types.type import ElementType, ElementVar, Function, RecordType, Scheme, Tensor, TupleType, Type, TypeVar
from axon.types.unify import State

_RELATIONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MAX_CALLS = 8  # functions within functions, in a condition
_MAX_DEPTH = 60  # and in a size
MAX_STEPS = 5_000  # that one size takes

_MAX_COMPARED = 4  # comparisons in alternatives
_NOTHING = Says()
_ALTERNATIVE = Says((), False)


# ── sizes ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Divisor:
    """What a size divides by: `where` it is written or, if a function divides, where that is called."""

    size: Dim
    where: Span
    called: bool


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The size that an expression is, if it is one, and what it divides by that may be less than 1; `impossible` are."""

    size: Dim | None
    divisors: tuple[Divisor, ...] = ()
    impossible: tuple[Divisor, ...] = ()


def evaluated(inf: Inference, e: T.Expr) -> Evaluated:
    """Raises DimensionTooLarge. See Note [Functions of sizes]."""
    evaluation = _Evaluation(inf)
    value = evaluation.of(e, _Place())
    impossible = tuple(evaluation.impossible)
    return Evaluated(value.dim, value.divisors, impossible) if isinstance(value, _Size) else Evaluated(None, (), impossible)


def size_of(inf: Inference, e: T.Expr) -> Dim | None:
    """The size that an expression is, if that asks for nothing."""
    if isinstance(e, T.Dimension):
        return e.dim
    try:
        known = evaluated(inf, e)
    except DimensionTooLarge:
        return None
    return None if known.divisors else known.size


def unfolded(inf: Inference, e: T.Expr) -> Dim | None:
    """The size that a call of a function is, if its result is an i32."""
    t = inf.state.prune(e.type)
    if not (isinstance(t, Tensor) and not inf.state.shape(t.shape) and inf.state.element(t.element) is Element.I32):
        return None
    return size_of(inf, e)


def tells_sizes(state: State, scheme: Scheme) -> bool:
    """Whether what a function does, and not its type alone, may say something of sizes where it is used: what it gives, or a part
    of that, may be an integer, a truth value or a function."""
    allowed = dict(scheme.elements)

    def may(t: Type) -> bool:
        t = state.prune(t)
        match t:
            case Function(result=result):
                return may(result)
            case Tensor(element, shape):
                known = state.element(element)
                elements = {known} if isinstance(known, Element) else allowed.get(known.symbol, state.allowed_of(known))
                return not elements.isdisjoint((Element.I32, Element.BOOL)) and not any(isinstance(i, Dim) for i in shape)
            case TupleType(items):
                return any(map(may, items))
            case RecordType(fields=members):
                return any(may(member) for _, member in members)
            case _:
                return isinstance(t, TypeVar)

    return isinstance(state.prune(scheme.type), Function) and may(scheme.type)


@dataclass(frozen=True, slots=True)
class _Size:
    dim: Dim
    divisors: tuple[Divisor, ...] = ()


@dataclass(frozen=True, slots=True)
class _Parts:
    """Of a tuple, by their positions from 1, or a record."""

    of: Mapping[str | int, _Value]


@dataclass(frozen=True, slots=True, eq=False)
class _Function:
    params: tuple[T.Pattern, ...]
    body: T.Expr
    place: _Place
    given: tuple[_Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class _Operator:
    builtin: T.Builtin
    given: tuple[_Value, ...] = ()


_Value: TypeAlias = "_Size | _Parts | _Function | _Operator | None"  # None of what is not known


@dataclass(frozen=True, slots=True, eq=False)
class _Place:
    """Where an expression stands: what names and the variables of schemes are there; `call` is what led into a function."""

    names: Mapping[Symbol, _Value] = MappingProxyType({})
    dims: Mapping[Symbol, Dim] = MappingProxyType({})
    elements: Mapping[Symbol, ElementType] = MappingProxyType({})
    call: Span | None = None
    depth: int = 0
    source: Definition | None = None  # of another function, where the expression is its own: it knows what that uses


class _Evaluation:
    def __init__(self, inf: Inference) -> None:
        self.inf, self.steps = inf, MAX_STEPS
        self.impossible: list[Divisor] = []

    def of(self, e: T.Expr, at: _Place) -> _Value:
        self.steps -= 1
        if self.steps < 0 or at.depth > _MAX_DEPTH:
            raise DimensionTooLarge("a size that takes too many steps")
        match e:
            case T.Dimension(dim=dim):
                return _Size(dim.substitute(at.dims) if at.dims else dim)
            case T.Literal(value=int() as number) if not isinstance(number, bool):
                return self.whole(e, _constant(number), at)
            case T.Unary(folded=int() as number) | T.Binary(folded=int() as number):
                return self.whole(e, _constant(number), at)
            case T.Unary(op="neg", operand=operand):
                value = self.of(operand, at)
                return self.whole(e, replace(value, dim=-value.dim), at) if isinstance(value, _Size) else None
            case T.Binary(op=op, left=left, right=right):
                return self.whole(e, self.binary(op, self.of(left, at), self.of(right, at), right.span, at), at)
            case T.Variable(symbol=symbol):
                return self.name(e, symbol, at)
            case T.Builtin():
                return _Operator(e)
            case T.Call(function=function, arguments=arguments):
                return self.call(e, function, arguments, at)
            case T.Fn(params=params, body=body):
                return _Function(params, body, at)
            case T.Tuple(items=items):
                return _Parts({n: self.of(item, at) for n, item in enumerate(items, 1)})
            case T.Record(fields=members):
                return _Parts({name: self.of(item, at) for name, item in members})
            case T.Project(value=whole, position=part) | T.Field(record=whole, name=part):
                value = self.of(whole, at)
                return value.of.get(part) if isinstance(value, _Parts) else None
            case T.Cast(value=inner) if self.element(e, at) is Element.I32:
                return self.whole(inner, self.of(inner, at), at)
            case T.Let(decls=decls, body=body):
                inside = self.let(decls, at)
                return None if inside is None else self.of(body, inside)
            case T.If(condition=condition, then=then, otherwise=otherwise):
                return self.branch(condition, then, otherwise, at)
            case _:
                return None

    def whole(self, e: T.Expr, value: _Value, at: _Place) -> _Value:
        """The value of arithmetic, if its type is not known to be another than i32."""
        return value if self.element(e, at) in (Element.I32, None) else None

    def element(self, e: T.Expr, at: _Place) -> Element | None:
        t = self.inf.state.prune(e.type)
        element = self.resolved(t.element, at) if isinstance(t, Tensor) else None
        return element if isinstance(element, Element) else None

    def resolved(self, element: ElementType, at: _Place) -> ElementType:
        element = self.inf.state.element(element)
        if isinstance(element, ElementVar) and element.symbol in at.elements:
            element = self.inf.state.element(at.elements[element.symbol])
        return element

    def binary(self, op: str, left: _Value, right: _Value, where: Span, at: _Place) -> _Value:
        if not isinstance(right, _Size):
            return None
        a, b = left.dim if isinstance(left, _Size) else Dim.of(0), right.dim
        divisors = (*(left.divisors if isinstance(left, _Size) else ()), *right.divisors)
        if op in ("div", "mod"):
            divisor = Divisor(b, at.call or where, at.call is not None)
            if b.constant is None:
                divisors = (*divisors, divisor)
            elif b.constant < 1:
                self.impossible.append(divisor)
                return None
        if not isinstance(left, _Size):
            return None
        match op:
            case "add":
                dim = a + b
            case "sub":
                dim = a - b
            case "mul":
                dim = a * b
            case "div":
                dim = a // b
            case "mod":
                dim = a % b
            case "max":
                dim = maximum(a, b)
            case "min":
                dim = minimum(a, b)
            case _:
                return None
        return _Size(dim, tuple(dict.fromkeys(divisors)))

    def name(self, e: T.Variable, symbol: Symbol, at: _Place) -> _Value:
        value: _Value
        if symbol in at.names:
            value = at.names[symbol]
        elif symbol in self.inf.values:
            value = self.of(self.inf.values[symbol], _Place(depth=at.depth + 1))
            if isinstance(value, _Size) and self.element(e, at) is not Element.I32:  # nor is it known that it will be
                return None
        else:
            definition = self.inf.used.definition(symbol) if at.source is None else at.source.inside(symbol)
            value = None
            if definition is not None:
                (params, body), place = definition.written(), _Place(depth=at.depth + 1, source=definition)
                value = _Function(params, body, place) if params else self.of(body, place)
        return self.instance(value, e.instance, at) if isinstance(value, _Function) and e.instance is not None else value

    def instance(self, f: _Function, of: T.Instance, at: _Place) -> _Function:
        """A function at one use. What it is may be over the variables of the `val` that names it."""
        dims = {s: d.substitute(at.dims) for s, d in of.dims.items()}
        elements = {s: self.resolved(element, at) for s, element in of.elements.items()}
        own = replace(at, elements=elements)
        known = {s: self.inf.state.dimension(d).substitute(dims) for s, d in f.place.dims.items()}
        at_known = {s: self.resolved(element, own) for s, element in f.place.elements.items()}
        return replace(f, place=replace(f.place, dims=known | dims, elements=at_known | elements))

    def call(self, e: T.Call, function: T.Expr, arguments: Sequence[T.Expr], at: _Place) -> _Value:
        called, values = self.of(function, at), tuple(self.of(a, at) for a in arguments)
        if any(value is None and not _is_name(a) for value, a in zip(values, arguments, strict=True)):
            return None
        return self.applied(called, values, replace(at, call=at.call or e.span, depth=at.depth + 1))

    def applied(self, f: _Value, values: tuple[_Value, ...], at: _Place) -> _Value:
        if not isinstance(f, _Function | _Operator):
            return None
        given = (*f.given, *values)
        if isinstance(f, _Operator):
            if len(given) == 1 and f.builtin.name == "neg" and isinstance(given[0], _Size):
                return replace(given[0], dim=-given[0].dim)
            if len(given) < 2:
                return replace(f, given=given)
            return self.binary(f.builtin.name, *given, f.builtin.span, at) if len(given) == 2 else None
        count = len(f.params)
        if len(given) < count:
            return replace(f, given=given)
        names = dict(f.place.names)
        for pattern, value in zip(f.params, given[:count], strict=True):
            _bind(names, pattern, value)
        result = self.of(f.body, replace(f.place, names=names, call=at.call, depth=at.depth))
        return self.applied(result, given[count:], at) if given[count:] else result

    def let(self, decls: Sequence[T.Decl], at: _Place) -> _Place | None:
        """What is in scope in a `let`; None if something happens in it."""
        for d in decls:
            names = dict(at.names)
            if isinstance(d, T.Fun):
                names[d.symbol] = _Function(d.params, d.body, at)
            else:
                value = self.of(d.value, at)
                if value is None and any(isinstance(node, T.Coerce | T.Call) for node in T.nodes(d.value)):
                    return None
                _bind(names, d.pattern, value)
            at = replace(at, names=names)
        return at

    def branch(self, condition: T.Expr, then: T.Expr, otherwise: T.Expr, at: _Place) -> _Value:
        """A branch that a condition decides for all sizes, or the smaller or larger one."""
        holds = self.truth(condition, at)
        if holds is not None:
            return self.of(then if holds else otherwise, at)
        if not isinstance(condition, T.Binary):
            return None
        sides = tuple(self.of(e, at) for e in (condition.left, condition.right, then, otherwise))
        a, b, x, y = sides
        if not (isinstance(a, _Size) and isinstance(b, _Size) and isinstance(x, _Size) and isinstance(y, _Size)):
            return None
        dim = chosen(condition.op, a.dim, b.dim, x.dim, y.dim)
        return None if dim is None else _Size(dim, tuple(dict.fromkeys((*a.divisors, *b.divisors, *x.divisors, *y.divisors))))

    def truth(self, e: T.Expr, at: _Place) -> bool | None:
        """Whether a comparison holds, if that is the same for all sizes."""
        if not isinstance(e, T.Binary) or e.op not in _RELATIONS:
            return None
        a, b = self.of(e.left, at), self.of(e.right, at)
        if not isinstance(a, _Size) or not isinstance(b, _Size) or a.divisors or b.divisors:
            return None
        return Relation(a.dim, _RELATIONS[e.op], b.dim).trivial


def _constant(number: int) -> _Size | None:
    return _Size(Dim.of(number)) if abs(number) < MAX_COEFFICIENT else None  # a u64 that is compared, and no size


def _bind(names: dict[Symbol, _Value], pattern: T.Pattern, value: _Value) -> None:
    match pattern:
        case T.PatternName(symbol=symbol):
            names[symbol] = value
        case T.PatternTuple(items=items):
            for n, item in enumerate(items, 1):
                _bind(names, item, value.of.get(n) if isinstance(value, _Parts) else None)
        case T.PatternRecord(fields=members):
            for name, item in members:
                _bind(names, item, value.of.get(name) if isinstance(value, _Parts) else None)


def _is_name(e: T.Expr) -> bool:
    """Whether an argument is a name or a part of one: nothing happens when it is evaluated."""
    while isinstance(e, T.Field | T.Project):
        e = e.record if isinstance(e, T.Field) else e.value
    return isinstance(e, T.Variable)


def chosen(op: str, a: Dim, b: Dim, x: Dim, y: Dim) -> Dim | None:
    """The size that `if a < b then x else y` is: the smaller one; or the larger, also with what both have besides, as in
    `if a < b then b - a else 0`. None if it is neither.
    """
    if x == y:
        return x
    if op not in ("lt", "le", "gt", "ge"):
        return None
    if any(q.divisor.constant is None for q in (x.quotients | y.quotients) - (a.quotients | b.quotients)):
        return None  # the condition may be what keeps the divisor from 0
    gap = a - b if op in ("lt", "le") else b - a  # below 0 where the condition holds, or at most 0
    rises, falls = (x - y - gap).constant, (y - x - gap).constant
    # The two are equal where they meet, so it does not matter on which side of that the condition changes.
    ends = (0, 1) if op in ("lt", "gt") else (0, -1)
    return minimum(x, y) if rises in ends else maximum(x, y) if falls in ends else None


# ── conditions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def says(inf: Inference, e: T.Expr, holds: bool) -> Says:
    """What a condition says if it holds, or if it does not. Names never change: what one stands for holds where it is in scope."""
    return _Reading(inf.named, inf).says(e, holds)


@dataclass(frozen=True, slots=True)
class _Reading:
    """How a condition is read: in a function, only what cannot wrap is. See Note [Conditions of functions]."""

    named: Mapping[Symbol, tuple[Says, Says]]  # what names that a `val` binds say if they are false, and if they are true
    inf: Inference
    calls: int = 0

    def says(self, e: T.Expr, holds: bool) -> Says:
        match e:
            case T.Binary(op=op, left=left, right=right) if op in _RELATIONS:
                for side, other in ((left, right), (right, left)):
                    if isinstance(side, T.Literal) and isinstance(side.value, bool) and op in ("eq", "ne"):
                        return self.says(other, (side.value == (op == "eq")) == holds)
                relation = self._relation(op, left, right)
                if relation is not None:
                    return Says((relation if holds else relation.negated,))
            case T.Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
                return _both(self.says(left, holds), self.says(right, holds))
            case T.Binary(op="and" | "or", left=left, right=right):
                return _either(self.says(left, holds), self.says(right, holds))
            case T.Unary(op="not", operand=operand):
                return self.says(operand, not holds)
            case T.If(condition=condition, then=then, otherwise=otherwise):
                for taken, never in ((True, otherwise), (False, then)):
                    if isinstance(never, T.Literal) and never.value is (not holds):  # else it would be that
                        return _both(self.says(condition, taken), self.says(then if taken else otherwise, holds))
            case T.Let(body=body):
                return self.says(body, holds)
            case T.Variable(symbol=symbol):
                if symbol in self.named and not self.calls:
                    return self.named[symbol][holds]
            case T.Call():
                inside = self._inside(e)
                if inside is not None:
                    return replace(self, calls=self.calls + 1).says(inside, holds)
        return _ALTERNATIVE if self._about_sizes(e) else _NOTHING

    def _relation(self, op: str, left: T.Expr, right: T.Expr) -> Relation | None:
        """A comparison of sizes."""
        if self.calls and not all(isinstance(side, T.Dimension | T.Literal) for side in (left, right)):
            return None
        a, b = size_of(self.inf, left), size_of(self.inf, right)
        return None if a is None or b is None else Relation(a, _RELATIONS[op], b)

    def _inside(self, call: T.Call) -> T.Expr | None:
        """The body of a function that is called with all its arguments, with those put in, if it gives a truth value."""
        t = self.inf.state.prune(call.type)
        if not (isinstance(t, Tensor) and not self.inf.state.shape(t.shape) and self.inf.state.element(t.element) is Element.BOOL):
            return None
        if self.calls == _MAX_CALLS:
            return None
        sizes = [(size_of(self.inf, a), a) for a in call.arguments]
        arguments = tuple(a if dim is None else T.Dimension(dim, type=a.type, span=a.span) for dim, a in sizes)
        return _put_into(self.inf, replace(call, arguments=arguments))

    def _about_sizes(self, e: T.Expr) -> bool:
        match e:
            case T.Binary(op=op, left=left, right=right) if op in ("and", "or") or op in _RELATIONS:
                known = op in _RELATIONS and (self._relation(op, left, right) is not None or (self.calls > 0 and _sized(e)))
                return known or self._about_sizes(left) or self._about_sizes(right)
            case T.Unary(op="not", operand=operand):
                return self._about_sizes(operand)
            case T.If(condition=condition, then=then, otherwise=otherwise):
                return any(map(self._about_sizes, (condition, then, otherwise)))
            case T.Let(body=body):
                return self._about_sizes(body)
            case T.Variable(symbol=symbol):
                return symbol in self.named or self.calls > 0
            case T.Call(arguments=arguments):
                return any(map(_sized, arguments))
        return False


def _put_into(inf: Inference, call: T.Call) -> T.Expr | None:
    """The body of a function that is called with all its arguments, with those put in."""
    function = call.function
    definition = inf.used.definition(function.symbol) if isinstance(function, T.Variable) else None
    if definition is None:
        return None
    params, expr = definition.written()
    names = [p.symbol for p in params if isinstance(p, T.PatternName)]
    if not len(names) == len(params) == len(call.arguments):
        return None
    assert isinstance(function, T.Variable)
    dims = function.instance.dims if function.instance is not None else {}
    try:
        inside: T.Expr = _put_in(expr, dict(zip(names, call.arguments, strict=True)), dims)
        return inside
    except DimensionTooLarge:
        return None


def _both(a: Says, b: Says) -> Says:
    alternatives, compared = [], 0
    for relation, count in dict.fromkeys((*a.alternatives, *b.alternatives)):
        compared += count
        alternatives += [(relation, count)] if compared <= _MAX_COMPARED else []
    return Says(tuple(dict.fromkeys((*a.facts, *b.facts))), a.exact and b.exact, tuple(alternatives))


def _either(a: Says, b: Says) -> Says:
    """What two say of which one holds. It is not exact, so that accesses under it are looked at while running."""
    if a == _NOTHING and b == _NOTHING:
        return _NOTHING
    said = [(*((r, 1) for r in side.facts), *side.alternatives) for side in (a, b)]
    compared = sum(count for side in said for _, count in side)
    if not all(said) or compared > _MAX_COMPARED:
        return _ALTERNATIVE
    try:
        least, other = (reduce(minimum, (_at_least_zero(r) for r, _ in side)) for side in said)
        return Says((), False, ((Relation(maximum(least, other), ">=", Dim.of(0)), compared),))
    except DimensionTooLarge:
        return _ALTERNATIVE


def _at_least_zero(relation: Relation) -> Dim:
    """The Dim that is at least 0 where a relation holds, and nowhere else."""
    slack = relation.slack
    match relation.op:
        case "=":
            return minimum(slack, -slack)
        case "<>":
            return maximum(slack - 1, -slack - 1)
        case _:
            return slack


def _sized(e: T.Expr) -> bool:
    """Whether a size stands in an expression."""
    return any(isinstance(node, T.Dimension) for node in T.nodes(e))


def _put_in(e: Any, values: dict[Symbol, T.Expr], dims: Mapping[Symbol, Dim]) -> Any:
    """An expression with values in place of names, those of its `let`s too, and with sizes in place of sizes."""
    match e:
        case tuple():
            return tuple(_put_in(part, values, dims) for part in e)
        case T.Variable(symbol=symbol) if symbol in values:
            return values[symbol]
        case T.Dimension(dim=dim):
            return replace(e, dim=dim.substitute(dims))
        case T.Let(decls=decls, body=body):
            for d in decls:
                if isinstance(d, T.Val) and isinstance(d.pattern, T.PatternName):
                    values[d.pattern.symbol] = _put_in(d.value, values, dims)
            return _put_in(body, values, dims)
        case T.Binary() | T.Unary() | T.If() | T.Call():
            changed = {f.name: _put_in(getattr(e, f.name), values, dims) for f in fields(e) if f.name in T.CHILDREN}
            return replace(e, **changed)
    return e
