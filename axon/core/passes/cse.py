"""Common subexpressions: operations that compute the same are computed once.

Two operations are the same if they are equal after their axes, and the operations they read, are called the same. What fails at run
time keeps its place: only sorts and pure `Compute` operations are merged, into the earlier of the two, which may stand around the
loop of the later one. It is the first pass of every target: nothing behind it looks for equal operations again.
"""

from __future__ import annotations

from collections.abc import Mapping

from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Block, Compute, Loop, Op, Program, Read, Scalar, Sort, Value
from axon.core.passes.dissolve import with_tensors
from axon.core.verify import verify_rewritten
from axon.core.walk import children, outs_of, rename
from axon.shapes.dimension import Dim

_CANONICAL = [fresh("axis") for _ in range(32)]


@verified("core_cse", verify_rewritten)
def deduplicated(program: Program) -> Program:
    """The program without operations that another one has computed before. Its results keep their symbols: two that are computed
    alike stay two, since results never share memory."""
    return replace(program, block=_block(program.block, {}))


def _block(block: Block, around: Mapping[object, Compute | Sort]) -> Block:
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
        if not isinstance(op, Compute | Sort):
            ops.append(op)
            continue
        key = _key(op)
        first = seen.setdefault(key, op) if key is not None else op
        pairs = [(out.symbol, other.symbol) for out, other in zip(outs_of(op), outs_of(first), strict=True)]
        taken = any(key in around or other in results or other in final for out, other in pairs if out in results)
        if first is op or taken:
            ops.append(op)
            continue
        same |= dict(pairs)
        final |= {other: out for out, other in pairs if out in results}
    if final:
        ops = [_called(with_tensors(op, final), final) for op in ops]
    return Block(tuple(ops), block.results)


def _called(op: Op, names: Mapping[Symbol, Symbol]) -> Op:
    """An operation whose results have other names."""

    def called(out: Value) -> Value:
        return replace(out, symbol=names.get(out.symbol, out.symbol))

    match op:
        case Compute():
            return replace(op, outs=tuple(map(called, op.outs)))
        case Sort():
            return replace(op, values=called(op.values), indices=called(op.indices))
        case _:
            return op


def _key(op: Compute | Sort) -> object | None:
    """What is equal for operations that compute the same; None for those that are left alone."""
    if isinstance(op, Sort):
        return "sort", op.input
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
