"""Common subexpressions: operations that compute the same are computed once.

Two operations are the same if they are equal after their axes, and the operations they read, are called the same. What fails at run
time keeps its place: only pure `Compute` operations are merged, into the earlier of the two, which may stand around the loop of the
later one. It is the first pass of every target: nothing behind it looks for equal operations again.
"""

from __future__ import annotations

from collections.abc import Mapping

from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Block, Compute, Loop, Op, Program, Read, Scalar
from axon.core.passes.dissolve import with_tensors
from axon.core.verify import verify_rewritten
from axon.core.walk import children, rename
from axon.shapes.dimension import Dim

_CANONICAL = [fresh("axis") for _ in range(32)]


@verified("core_cse", verify_rewritten)
def deduplicated(program: Program) -> Program:
    """The program without operations that another one has computed before. Its results keep their symbols: two that are computed
    alike stay two, since results never share memory."""
    return replace(program, block=_block(program.block, {}))


def _block(block: Block, around: Mapping[object, Compute]) -> Block:
    """`around` are the operations before the block, by what is equal for those that compute the same."""
    same: dict[Symbol, Symbol] = {}
    seen = dict(around)
    final: dict[Symbol, Symbol] = {}  # what is computed first takes the symbol of the result that is computed like it
    results = set(block.results)
    ops: list[Op] = []
    for op in block.ops:
        op = with_tensors(op, same)
        if isinstance(op, Loop):
            op = replace(op, body=_block(op.body, seen))
        if not isinstance(op, Compute):
            ops.append(op)
            continue
        key = _key(op)
        first = seen.setdefault(key, op) if key is not None else op
        mine = {out.symbol for out in op.outs} & results
        taken = key in around or any(out.symbol in results or out.symbol in final for out in first.outs)
        if first is op or (mine and taken):
            ops.append(op)
            continue
        pairs = [(out.symbol, other.symbol) for out, other in zip(op.outs, first.outs, strict=True)]
        same |= dict(pairs)
        final |= {other: out for out, other in pairs if out in results}
    if final:
        ops = [_called(with_tensors(op, final), final) for op in ops]
    return Block(tuple(ops), block.results)


def _called(op: Op, names: Mapping[Symbol, Symbol]) -> Op:
    """An operation whose results have other names."""
    if not isinstance(op, Compute):
        return op
    return replace(op, outs=tuple(replace(out, symbol=names.get(out.symbol, out.symbol)) for out in op.outs))


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
