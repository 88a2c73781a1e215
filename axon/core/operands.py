"""Operations over other tensors than they were written over."""

from __future__ import annotations

from collections.abc import Mapping, Set
from operator import is_
from typing import overload

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Block, Check, Compress, Compute, Convert, Index, Loop, Op, Read, Scalar, Scan, Sort
from axon.core.scalar_facts import mapped
from axon.core.walk import children, converted, rewrite, tensors_of, widened, with_children
from axon.shapes.dimension import Dim


@overload
def with_tensors(op: Compute | Scan, names: Mapping[Symbol, Symbol]) -> Compute | Scan: ...
@overload
def with_tensors(op: Op, names: Mapping[Symbol, Symbol]) -> Op: ...
def with_tensors(op: Op, names: Mapping[Symbol, Symbol]) -> Op:
    """The operation with tensors replaced by others."""
    if not names or names.keys().isdisjoint(tensors_of(op)):
        return op
    match op:
        case Compute() | Scan():
            return mapped(op, lambda scalar: _reading(scalar, names))
        case Loop():
            initial = tuple(names.get(symbol, symbol) for symbol in op.initial)
            inner = tuple(with_tensors(x, names) for x in op.body.ops)
            results = tuple(names.get(symbol, symbol) for symbol in op.body.results)
            return replace(op, initial=initial, trip=_reading(op.trip, names), body=Block(inner, results))
        case Sort():
            return replace(op, input=names.get(op.input, op.input))
        case Compress():
            return replace(op, mask=names.get(op.mask, op.mask))
        case Check():
            return op


def _reading(scalar: Scalar, names: Mapping[Symbol, Symbol]) -> Scalar:
    """An expression that reads other tensors."""
    if isinstance(scalar, Read):
        subscripts = tuple([s if isinstance(s, Dim) else _reading(s, names) for s in scalar.subscripts])
        padding = None if scalar.padding is None else _reading(scalar.padding, names)
        tensor = names.get(scalar.tensor, scalar.tensor)
        if tensor is scalar.tensor and padding is scalar.padding and all(map(is_, subscripts, scalar.subscripts)):
            return scalar
        return Read(tensor, subscripts, scalar.element, padding, scalar.checked)
    if isinstance(scalar, Binary):
        left, right = _reading(scalar.left, names), _reading(scalar.right, names)
        return scalar if left is scalar.left and right is scalar.right else Binary(scalar.op, left, right)
    old = children(scalar)
    if not old:
        return scalar
    parts = [_reading(child, names) for child in old]
    return scalar if all(map(is_, parts, old)) else with_children(scalar, parts)


def recast(scalar: Scalar, names: Mapping[Symbol, Symbol], dims: Mapping[Symbol, Dim]) -> Scalar:
    """An expression that reads other tensors, with variables of its Dims replaced."""
    if isinstance(scalar, Read):
        tensor, padding = scalar.tensor, scalar.padding
        subscripts = tuple([s.substitute(dims) if isinstance(s, Dim) else recast(s, names, dims) for s in scalar.subscripts])
        inside = None if padding is None else recast(padding, names, dims)
        return Read(names.get(tensor, tensor), subscripts, scalar.element, inside, scalar.checked)
    if isinstance(scalar, Binary):
        return Binary(scalar.op, recast(scalar.left, names, dims), recast(scalar.right, names, dims))
    if isinstance(scalar, Index):
        return Index(scalar.dim.substitute(dims), scalar.element)
    old = children(scalar)
    return with_children(scalar, [recast(child, names, dims) for child in old]) if old else scalar


def in_f32(op: Op, wide: Set[Symbol]) -> Op:
    """The operation with these floats of 16 bits in f32: what it reads of them is rounded there, so it computes what it did. A sum
    of products multiplies its factors in f32, as it did."""
    if not isinstance(op, Compute) or not (wide & (set(tensors_of(op)) | {out.symbol for out in op.outs})):
        return op

    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Read) and node.tensor in wide and node.element is not Element.F32:
            return Convert(replace(node, element=Element.F32), node.element)
        return None

    made = mapped(op, lambda scalar: rewrite(scalar, visit))
    assert isinstance(made, Compute)
    outs = tuple(replace(out, element=Element.F32) if out.symbol in wide else out for out in op.outs)
    if outs == op.outs:
        return made
    if made.reduction is not None and made.reduction.monoid.kind == "sum":
        return replace(made, outs=outs, body=tuple(map(widened, made.body)))
    return replace(made, outs=outs, body=tuple(converted(scalar, out.element) for scalar, out in zip(made.body, outs, strict=True)))
