"""Walking and rewriting the scalar expressions of core."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from axon.core import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary, element_of
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    match scalar:
        case Const() | Index() | Local():
            return ()
        case Read(subscripts=subscripts, padding=padding):
            computed = tuple(s for s in subscripts if not isinstance(s, Dim))
            return (*computed, padding) if padding is not None else computed
        case Unary(operand=operand) | Convert(operand=operand):
            return (operand,)
        case Binary(left=left, right=right):
            return (left, right)
        case Select():
            return (scalar.condition, scalar.then, scalar.otherwise)
        case Bind(bindings=bindings, body=body):
            return (*(value for _, value in bindings), body)
        case _:
            assert_never(scalar)


def nodes(scalar: Scalar) -> Iterator[Scalar]:
    """Every part of an expression, the outer ones first, from left to right; in linear time however deep it is."""
    pending = [scalar]
    while pending:
        node = pending.pop()
        yield node
        pending.extend(reversed(children(node)))


def reads(scalar: Scalar) -> Iterator[Read]:
    return (node for node in nodes(scalar) if isinstance(node, Read))


def rewrite(scalar: Scalar, visit: Callable[[Scalar], Scalar | None]) -> Scalar:
    """The expression with every node for which `visit` gives another replaced by it, from the top."""
    changed = visit(scalar)
    if changed is not None:
        return changed
    match scalar:
        case Const() | Index() | Local():
            return scalar
        case Read():
            subscripts = tuple(s if isinstance(s, Dim) else rewrite(s, visit) for s in scalar.subscripts)
            padding = None if scalar.padding is None else rewrite(scalar.padding, visit)
            return replace(scalar, subscripts=subscripts, padding=padding)
        case Unary() | Convert():
            return replace(scalar, operand=rewrite(scalar.operand, visit))
        case Binary():
            return replace(scalar, left=rewrite(scalar.left, visit), right=rewrite(scalar.right, visit))
        case Select():
            parts = (rewrite(s, visit) for s in (scalar.condition, scalar.then, scalar.otherwise))
            return Select(*parts)
        case Bind():
            bindings = tuple((name, rewrite(value, visit)) for name, value in scalar.bindings)
            return Bind(bindings, rewrite(scalar.body, visit))
        case _:
            assert_never(scalar)


def rename(scalar: Scalar, names: Mapping[Symbol, Dim]) -> Scalar:
    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Read(subscripts=subscripts) if all(isinstance(s, Dim) for s in subscripts):
                return replace(node, subscripts=tuple(s.substitute(names) for s in subscripts if isinstance(s, Dim)))
            case Index(dim=dim):
                return replace(node, dim=dim.substitute(names))
            case _:
                return None

    return rewrite(scalar, visit)


def mentions(scalar: Scalar, axis: Symbol) -> bool:
    for node in nodes(scalar):
        match node:
            case Read(subscripts=subscripts) if any(isinstance(s, Dim) and axis in s.variables for s in subscripts):
                return True
            case Index(dim=dim) if axis in dim.variables:
                return True
    return False


def converted(scalar: Scalar, element: Element) -> Scalar:
    return scalar if element_of(scalar) == element else Convert(scalar, element)
