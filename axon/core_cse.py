"""Common subexpressions: operations that compute the same are computed once.

Two operations are the same if they are equal after their axes, and the operations they read, are called the same. What fails at run
time keeps its place: only pure `Compute` operations are merged, into the earlier of the two.
"""

from __future__ import annotations

from dataclasses import replace

from axon.core import Block, Compute, Op, Program, Read, Scalar
from axon.core_walk import children, rename, rewrite
from axon.names import Symbol, fresh
from axon.shapes.dimension import Dim

_CANONICAL = [fresh("axis") for _ in range(32)]


def deduplicated(program: Program) -> Program:
    """The program without operations of its outermost block that another one has computed before."""
    same: dict[Symbol, Symbol] = {}
    seen: dict[object, Compute] = {}
    ops: list[Op] = []
    for op in program.block.ops:
        if isinstance(op, Compute):
            op = replace(op, body=tuple(_reading(s, same) for s in op.body))
            key = _key(op)
            first = seen.setdefault(key, op) if key is not None else op
            if first is not op:
                same |= {mine.symbol: other.symbol for mine, other in zip(op.outs, first.outs, strict=True)}
                continue
            ops.append(op)
        elif same:
            return program  # what stands in loops would have to be renamed too
        else:
            ops.append(op)
    results = tuple(same.get(symbol, symbol) for symbol in program.block.results)
    return replace(program, block=Block(tuple(ops), results))


def _reading(scalar: Scalar, same: dict[Symbol, Symbol]) -> Scalar:
    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Read) and node.tensor in same and all(isinstance(s, Dim) for s in node.subscripts):
            return replace(node, tensor=same[node.tensor])
        return None

    return rewrite(scalar, visit)


def _key(op: Compute) -> object | None:
    """What is equal for operations that compute the same; None for those that are left alone."""
    if op.reduction is not None and (op.reduction.monoid.kind == "custom" or op.reduction.where is not None or op.reduction.asked):
        return None
    if any(_checks(s) for s in op.body):
        return None
    axes = (*op.axes, *(op.reduction.axes if op.reduction else ()))
    if len(axes) > len(_CANONICAL):
        return None
    names = {axis.symbol: Dim.of(other) for axis, other in zip(axes, _CANONICAL, strict=False)}
    extents = tuple(axis.extent.substitute(names) for axis in axes)
    kind = op.reduction.monoid.kind if op.reduction else ""
    return len(op.axes), kind, extents, tuple(rename(s, names) for s in op.body), tuple(out.element for out in op.outs)


def _checks(scalar: Scalar) -> bool:
    """Whether a read may fail, or is at a place that is computed."""
    if isinstance(scalar, Read) and (scalar.checked is not None or not all(isinstance(s, Dim) for s in scalar.subscripts)):
        return True
    return any(_checks(child) for child in children(scalar))
