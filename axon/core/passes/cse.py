"""Common subexpressions: operations that compute the same are computed once.

Two operations are the same if they are equal after their axes, and the operations they read, are called the same. What fails at run
time keeps its place: only pure `Compute` operations are merged, into the earlier of the two.
"""

from __future__ import annotations

from dataclasses import replace

from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Block, Compute, Op, Program, Read, Scalar
from axon.core.verify import verify_rewritten
from axon.core.walk import children, rename, rewrite
from axon.shapes.dimension import Dim

_CANONICAL = [fresh("axis") for _ in range(32)]


@verified("core_cse", verify_rewritten)
def deduplicated(program: Program) -> Program:
    """The program without operations of its outermost block that another one has computed before. Its results keep their symbols:
    two that are computed alike stay two, since results never share memory."""
    same: dict[Symbol, Symbol] = {}
    seen: dict[object, Compute] = {}
    final: dict[Symbol, Symbol] = {}  # what is computed first takes the symbol of the result that is computed like it
    results = set(program.block.results)
    ops: list[Op] = []
    for op in program.block.ops:
        if isinstance(op, Compute):
            op = _over(op, same)
            key = _key(op)
            first = seen.setdefault(key, op) if key is not None else op
            mine = {out.symbol for out in op.outs} & results
            if first is op or (mine and any(out.symbol in results or out.symbol in final for out in first.outs)):
                ops.append(op)
                continue
            pairs = [(out.symbol, other.symbol) for out, other in zip(op.outs, first.outs, strict=True)]
            same |= dict(pairs)
            final |= {other: out for out, other in pairs if out in results}
        elif same:
            return program  # what stands in loops would have to be renamed too
        else:
            ops.append(op)
    if final:
        ops = [_over(op, final) if isinstance(op, Compute) else op for op in ops]
    return replace(program, block=Block(tuple(ops), program.block.results))


def _over(op: Compute, names: dict[Symbol, Symbol]) -> Compute:
    """An operation over tensors of other names."""
    if not names:
        return op
    outs = tuple(replace(out, symbol=names.get(out.symbol, out.symbol)) for out in op.outs)
    reduction = op.reduction
    if reduction is not None:
        where, asked = (None if s is None else _reading(s, names) for s in (reduction.where, reduction.asked))
        units = tuple(_reading(s, names) for s in reduction.monoid.units)
        reduction = replace(reduction, where=where, asked=asked, monoid=replace(reduction.monoid, units=units))
    return replace(op, outs=outs, reduction=reduction, body=tuple(_reading(s, names) for s in op.body))


def _reading(scalar: Scalar, names: dict[Symbol, Symbol]) -> Scalar:
    def visit(node: Scalar) -> Scalar | None:
        if isinstance(node, Read) and node.tensor in names:
            inner = tuple(s if isinstance(s, Dim) else _reading(s, names) for s in node.subscripts)
            padding = None if node.padding is None else _reading(node.padding, names)
            return replace(node, tensor=names[node.tensor], subscripts=inner, padding=padding)
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
