"""Operations over other tensors than they were written over."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import overload

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Compute, Convert, Loop, Op, Read, Scalar, Scan, Sort
from axon.core.scalar_facts import mapped
from axon.core.walk import converted, rewrite, tensors_of
from axon.shapes.dimension import Dim


@overload
def with_tensors(op: Compute | Scan, names: Mapping[Symbol, Symbol]) -> Compute | Scan: ...
@overload
def with_tensors(op: Op, names: Mapping[Symbol, Symbol]) -> Op: ...
def with_tensors(op: Op, names: Mapping[Symbol, Symbol]) -> Op:
    """The operation with tensors replaced by others."""
    if not names:
        return op

    def scalar(s: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if not isinstance(node, Read) or (node.tensor not in names and all(isinstance(x, Dim) for x in node.subscripts)):
                return None
            subscripts = tuple(x if isinstance(x, Dim) else rewrite(x, visit) for x in node.subscripts)
            padding = None if node.padding is None else rewrite(node.padding, visit)
            return replace(node, tensor=names.get(node.tensor, node.tensor), subscripts=subscripts, padding=padding)

        return rewrite(s, visit)

    match op:
        case Compute() | Scan():
            return mapped(op, scalar)
        case Loop():
            initial = tuple(names.get(symbol, symbol) for symbol in op.initial)
            inner = tuple(with_tensors(x, names) for x in op.body.ops)
            results = tuple(names.get(symbol, symbol) for symbol in op.body.results)
            return replace(op, initial=initial, trip=scalar(op.trip), body=Block(inner, results))
        case Sort():
            return replace(op, input=names.get(op.input, op.input))
        case Compress():
            return replace(op, mask=names.get(op.mask, op.mask))
        case Check():
            return op


def in_f32(op: Op, wide: Set[Symbol]) -> Op:
    """The operation with these floats of 16 bits in f32: what it reads of them is rounded there, so it computes what it did."""
    if not isinstance(op, Compute) or not (wide & (set(tensors_of(op)) | {out.symbol for out in op.outs})):
        return op

    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Read) and node.tensor in wide and node.element is not Element.F32:
            return Convert(replace(node, element=Element.F32), node.element)
        return None

    made = mapped(op, lambda scalar: rewrite(scalar, visit))
    outs = tuple(replace(out, element=Element.F32) if out.symbol in wide else out for out in op.outs)
    if outs == op.outs:
        return made
    return replace(made, outs=outs, body=tuple(converted(scalar, out.element) for scalar, out in zip(made.body, outs, strict=True)))
