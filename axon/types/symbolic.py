"""Expressions as sizes: which integer expressions are sizes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from axon.base.source import Span
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.types import typed as T


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
