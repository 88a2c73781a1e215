"""Expressions as sizes: which integer expressions are sizes, and what conditions say about sizes.

Note [Conditions of functions]
    `if inside n i then x[i]` says what the body of `inside` says of its arguments. Sizes are whole numbers without an end; but a
    parameter is an i32, whose sums and products may wrap. So a comparison in a function says something only where its sides are
    parameters, sizes and numbers as they are; `i + 1` as an argument is a size, and may be one of those. What a function compares
    otherwise is like an alternative: it says nothing by itself, and what is read is looked at while running.

Note [Functions of sizes]
    `half n` of a `fun half n = n / 2` is the size that its body is, with n put in: a function that does nothing but arithmetic on
    what it is given, or on the sizes of it, is written out where it is applied to sizes. Then its result is one as `n / 2` is,
    exact where sizes are compared. Its arguments must be sizes, names and parts of these: an `as` in one is not left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from axon.base.data import dataclass, fields, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import MAX_COEFFICIENT, Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import typed as T
from axon.types.inference import Inference, Says
from axon.types.type import Tensor

_RELATIONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_MAX_CALLS = 8  # functions within functions

_NOTHING = Says()
_ALTERNATIVE = Says((), False)


def symbolic(e: T.Expr, whole: bool = False) -> Dim | None:
    """The size that an integer expression is, if it is one over dimensions and indices.

    `whole`: its literals are known to be integers, so that `1 / 2` is 0.
    """
    match e:
        case T.Dimension(dim=dim):
            return dim
        case T.Literal(value=int() as value) if not isinstance(value, bool):
            return Dim.of(value) if abs(value) < MAX_COEFFICIENT else None  # a u64 that is compared, and no size
        case T.Unary(op="neg", operand=operand):
            inner = symbolic(operand, whole)
            return None if inner is None else -inner
        case T.Binary(op="div" | "mod" as op, left=left, right=right) if whole:
            a, b = symbolic(left, True), symbolic(right, True)
            if a is None or b is None or b.constant is None or b.constant < 1:
                return None
            return a // b if op == "div" else a % b
        case T.Binary(op="max" | "min" as op, left=left, right=right) if whole:
            a, b = symbolic(left, True), symbolic(right, True)
            return None if a is None or b is None else maximum(a, b) if op == "max" else minimum(a, b)
        case T.Binary(op="add" | "sub" | "mul" as op, left=left, right=right):
            a, b = symbolic(left, whole), symbolic(right, whole)
            if a is None or b is None:
                return None
            try:
                return a + b if op == "add" else a - b if op == "sub" else a * b
            except DimensionTooLarge:  # then it is a number like any other
                return None
    return None


def unfolded(inf: Inference, e: T.Expr) -> Dim | None:
    """The size that a call of a function is, if its result is an i32. See Note [Functions of sizes]."""
    t = inf.state.prune(e.type)
    if not (isinstance(t, Tensor) and not inf.state.shape(t.shape) and inf.state.element(t.element) is Element.I32):
        return None
    written = _written_out(inf, e, _MAX_CALLS)
    try:
        return None if written is None else symbolic(written, whole=True)
    except (DimensionTooLarge, ZeroDivisionError):
        return None


def _written_out(inf: Inference, e: T.Expr, calls: int) -> T.Expr | None:
    """Arithmetic with the bodies of functions in place of their calls; None of what is no arithmetic."""
    match e:
        case T.Dimension() | T.Literal():
            return e
        case T.Call(arguments=arguments) if calls and all(map(_is_there, arguments)):
            inside = _put_into(inf, e)
            return None if inside is None else _written_out(inf, inside, calls - 1)
        case T.If(condition=T.Binary(left=left, right=right) as condition, then=then, otherwise=otherwise):
            parts = [_written_out(inf, part, calls) for part in (left, right, then, otherwise)]
            if any(part is None for part in parts):
                return None
            a, b, c, d = (part for part in parts if part is not None)
            size = chosen(replace(condition, left=a, right=b), c, d)
            return None if size is None else T.Dimension(size, type=e.type, span=e.span)
        case T.Unary(operand=operand):
            inner = _written_out(inf, operand, calls)
            return None if inner is None else replace(e, operand=inner)
        case T.Binary(left=left, right=right):
            one, two = _written_out(inf, left, calls), _written_out(inf, right, calls)
            return None if one is None or two is None else replace(e, left=one, right=two)
        case _:
            return None


def _is_there(e: T.Expr) -> bool:
    """Whether an argument is a size, a name or a part of one: nothing happens when it is evaluated."""
    while isinstance(e, T.Field | T.Project):
        e = e.record if isinstance(e, T.Field) else e.value
    return isinstance(e, T.Variable) or symbolic(e, whole=True) is not None


def _put_into(inf: Inference, call: T.Call) -> T.Expr | None:
    """The body of a function that is called with all its arguments, with those put in."""
    function = call.function
    found = inf.used.written(function.symbol) if isinstance(function, T.Variable) else None
    if found is None:
        return None
    params, expr = found
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


def chosen(condition: T.Expr, then: T.Expr, otherwise: T.Expr) -> Dim | None:
    """The size that `if a < b then a else b` is: the smaller one; or the larger, also with what both have besides, as in
    `if a < b then b - a else 0`. None if it is neither.
    """
    if not isinstance(condition, T.Binary) or condition.op not in ("lt", "le", "gt", "ge"):
        return None
    a, b, x, y = (symbolic(e, True) for e in (condition.left, condition.right, then, otherwise))
    if a is None or b is None or x is None or y is None:
        return None
    if any(q.divisor.constant is None for q in (x.quotients | y.quotients) - (a.quotients | b.quotients)):
        return None  # the condition may be what keeps the divisor from 0
    gap = a - b if condition.op in ("lt", "le") else b - a  # below 0 where the condition holds, or at most 0
    rises, falls = (x - y - gap).constant, (y - x - gap).constant
    # The two are equal where they meet, so it does not matter on which side of that the condition changes.
    ends = (0, 1) if condition.op in ("lt", "gt") else (0, -1)
    return minimum(x, y) if rises in ends else maximum(x, y) if falls in ends else None


def only_sizes(e: T.Expr) -> bool:
    """Whether an expression is arithmetic on sizes alone; then only its own size keeps it from being one."""
    match e:
        case T.Binary(op="add" | "sub" | "mul" | "div" | "mod" | "max" | "min", left=left, right=right):
            return only_sizes(left) and only_sizes(right)
    return symbolic(e) is not None


def impossible_divisors(e: T.Expr) -> Iterator[tuple[Dim, Span]]:
    """The numbers below 1 by which an integer expression divides."""
    if isinstance(e, T.Binary):
        divisor = symbolic(e.right, True) if e.op in ("div", "mod") else None
        if divisor is not None and divisor.constant is not None and divisor.constant < 1:
            yield divisor, e.right.span
        yield from impossible_divisors(e.left)
        yield from impossible_divisors(e.right)


def has_size(e: T.Expr) -> bool:
    match e:
        case T.Unary(op="neg", operand=operand):
            return has_size(operand)
        case T.Binary(op="add" | "sub" | "mul" | "div" | "mod" | "max" | "min", left=left, right=right):
            return has_size(left) or has_size(right)
    return isinstance(e, T.Dimension)


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
        whole = has_size(left) or has_size(right)  # what a size is compared with is a whole number, too
        a, b = symbolic(left, whole), symbolic(right, whole)
        return None if a is None or b is None else Relation(a, _RELATIONS[op], b)

    def _inside(self, call: T.Call) -> T.Expr | None:
        """The body of a function that is called with all its arguments, with those put in, if it gives a truth value."""
        t = self.inf.state.prune(call.type)
        if not (isinstance(t, Tensor) and not self.inf.state.shape(t.shape) and self.inf.state.element(t.element) is Element.BOOL):
            return None
        return None if self.calls == _MAX_CALLS else _put_into(self.inf, call)

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


def _both(a: Says, b: Says) -> Says:
    return Says(tuple(dict.fromkeys((*a.facts, *b.facts))), a.exact and b.exact)


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
