"""Expressions as sizes: which integer expressions are sizes, and what conditions say about sizes."""

from __future__ import annotations

from collections.abc import Iterator

from axon import typed as T
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum
from axon.shapes.relation import Relation
from axon.source import Span

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


def facts(e: T.Expr, holds: bool) -> tuple[Relation, ...]:
    """What a condition says about sizes and indices if it holds, or if it does not."""
    match e:
        case T.Binary(op=op, left=left, right=right) if op in _RELATIONS:
            whole = _has_size(left) or _has_size(right)  # what a size is compared with is a whole number, too
            a, b = symbolic(left, whole), symbolic(right, whole)
            if a is None or b is None:
                return ()
            relation = Relation(a, _RELATIONS[op], b)
            return (relation if holds else relation.negated,)
        case T.Binary(op="and" | "or" as op, left=left, right=right) if (op == "and") == holds:
            return facts(left, holds) + facts(right, holds)
        case T.Unary(op="not", operand=operand):
            return facts(operand, not holds)
    return ()


def exact(e: T.Expr, holds: bool) -> bool:
    """Whether `facts` says all that a condition says about sizes; what it says about data does not matter."""
    match e:
        case T.Binary(op="and" | "or" as op, left=left, right=right):
            if (op == "and") == holds:
                return exact(left, holds) and exact(right, holds)
            return not (_about_sizes(left) or _about_sizes(right))  # an alternative
        case T.Unary(op="not", operand=operand):
            return exact(operand, not holds)
    return True


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


def _about_sizes(e: T.Expr) -> bool:
    match e:
        case T.Binary(op="and" | "or", left=left, right=right):
            return _about_sizes(left) or _about_sizes(right)
        case T.Unary(op="not", operand=operand):
            return _about_sizes(operand)
    return bool(facts(e, True))
