"""Expressions as sizes: which integer expressions are sizes, and what conditions say about sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import typed as T

_RELATIONS = {"eq": "=", "ne": "<>", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}


def symbolic(e: T.Expr, whole: bool = False) -> Dim | None:
    """The size that an integer expression is, if it is one over dimensions and indices.

    `whole`: its literals are known to be integers, so that `1 / 2` is 0.
    """
    match e:
        case T.Dimension(dim=dim):
            return dim
        case T.Literal(value=int() as value) if not isinstance(value, bool):
            return Dim.of(value)
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


@dataclass(frozen=True, slots=True)
class Says:
    """What a condition says about sizes and indices. `exact`: that is all; what it says about data does not matter."""

    facts: tuple[Relation, ...] = ()
    exact: bool = True


Named = Mapping[Symbol, tuple[Says, Says]]  # what names that a `val` binds say if they are false, and if they are true

_NOTHING = Says()
_ALTERNATIVE = Says((), False)


def says(e: T.Expr, holds: bool, named: Named) -> Says:
    """What a condition says if it holds, or if it does not. Names never change: what one stands for holds where it is in scope."""
    match e:
        case T.Binary(op=op, left=left, right=right) if op in _RELATIONS:
            for side, other in ((left, right), (right, left)):
                if isinstance(side, T.Literal) and isinstance(side.value, bool) and op in ("eq", "ne"):
                    return says(other, (side.value == (op == "eq")) == holds, named)
            relation = _relation(op, left, right)
            if relation is not None:
                return Says((relation if holds else relation.negated,))
        case T.Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
            return _both(says(left, holds, named), says(right, holds, named))
        case T.Unary(op="not", operand=operand):
            return says(operand, not holds, named)
        case T.If(condition=condition, then=then, otherwise=otherwise):
            for taken, never in ((True, otherwise), (False, then)):
                if isinstance(never, T.Literal) and never.value is (not holds):  # else it would be that
                    return _both(says(condition, taken, named), says(then if taken else otherwise, holds, named))
        case T.Let(body=body):
            return says(body, holds, named)
        case T.Variable(symbol=symbol):
            return named[symbol][holds] if symbol in named else _NOTHING
    return _ALTERNATIVE if _about_sizes(e, named) else _NOTHING


def _both(a: Says, b: Says) -> Says:
    return Says(tuple(dict.fromkeys((*a.facts, *b.facts))), a.exact and b.exact)


def _relation(op: str, left: T.Expr, right: T.Expr) -> Relation | None:
    """A comparison of sizes."""
    whole = _has_size(left) or _has_size(right)  # what a size is compared with is a whole number, too
    a, b = symbolic(left, whole), symbolic(right, whole)
    return None if a is None or b is None else Relation(a, _RELATIONS[op], b)


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


def _has_size(e: T.Expr) -> bool:
    match e:
        case T.Unary(op="neg", operand=operand):
            return _has_size(operand)
        case T.Binary(op="add" | "sub" | "mul" | "div" | "mod" | "max" | "min", left=left, right=right):
            return _has_size(left) or _has_size(right)
    return isinstance(e, T.Dimension)


def _about_sizes(e: T.Expr, named: Named) -> bool:
    match e:
        case T.Binary(op=op, left=left, right=right) if op in ("and", "or") or op in _RELATIONS:
            known = op in _RELATIONS and _relation(op, left, right) is not None
            return known or _about_sizes(left, named) or _about_sizes(right, named)
        case T.Unary(op="not", operand=operand):
            return _about_sizes(operand, named)
        case T.If(condition=condition, then=then, otherwise=otherwise):
            return any(_about_sizes(part, named) for part in (condition, then, otherwise))
        case T.Let(body=body):
            return _about_sizes(body, named)
        case T.Variable(symbol=symbol):
            return symbol in named
    return False
