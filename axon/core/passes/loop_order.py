"""Core to core: what a sum goes through last lies side by side in memory.

    in_memory_order    a program -> one with the same operations, whose sums go through their axes as the largest tensor lies
    ordered            a reduction -> the same with its axes in that order

In `sum a b c => x[b, c, a] * y[a]` the order of `a b c` is a matter of taste for who writes it, and of ten times the time for a
loop. So the axes stand in the order in which the subscripts of the read with the most axes mention them, and first those that it
does not mention. An axis along which another read lies side by side comes last but one: in `sum d a b c => x[d, a, b, c] * y[b, c,
a, d]` each line of the cache in which `y` lies serves several steps of `d` while it is there. The order of additions is open
(docs/core.md); integers wrap, and give the same.
"""

from __future__ import annotations

from collections.abc import Set

from axon.base.data import replace
from axon.base.functions import MonoidKind
from axon.base.names import Symbol
from axon.base.passes import verified
from axon.core.ir import Block, Compute, Loop, Op, Program, Read
from axon.core.scalar_facts import may_fail
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, reads
from axon.shapes.dimension import Dim


@verified("loop_order", verify_rewritten)
def in_memory_order(program: Program) -> Program:
    """Sums over several axes whose extents do not depend on each other, and which cannot stop the program."""
    block = _block(program.block)
    return program if block is program.block else replace(program, block=block)


def _block(block: Block) -> Block:
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, Compute):
            op = ordered(op)
        elif isinstance(op, Loop) and (body := _block(op.body)) is not op.body:
            op = replace(op, body=body)
        ops.append(op)
    return block if unchanged(ops, block.ops) else replace(block, ops=tuple(ops))


def ordered(op: Compute, kinds: Set[MonoidKind] = frozenset({"sum"})) -> Compute:
    """A reduction of one of these kinds, if its axes may be in any order."""
    reduction = op.reduction
    if reduction is None or reduction.monoid.kind not in kinds or reduction.asked is not None or any(map(may_fail, op.body)):
        return op
    mine = frozenset(axis.symbol for axis in reduction.axes)
    found = [read for scalar in op.body for read in reads(scalar)]
    if not found or any(not axis.extent.variables.isdisjoint(mine) for axis in reduction.axes):
        return op
    every = [axis.symbol for axis in all_axes(op)]
    largest = max(found, key=lambda read: sum(_place(read, axis) >= 0 for axis in every))
    *outer, last = sorted(reduction.axes, key=lambda axis: _place(largest, axis.symbol))
    beside = {axis.symbol for axis in outer for read in found if _lies_along(read, axis.symbol) and _place(read, last.symbol) >= 0}
    axes = (*(a for a in outer if a.symbol not in beside), *(a for a in outer if a.symbol in beside), last)
    return op if axes == reduction.axes else replace(op, reduction=replace(reduction, axes=axes))


def _lies_along(read: Read, axis: Symbol) -> bool:
    """Whether neighbours along an axis lie side by side in what is read."""
    return bool(read.subscripts) and _place(read, axis) == len(read.subscripts) - 1


def _place(read: Read, axis: Symbol) -> int:
    """The last of the subscripts that mention an axis; -1 where none does, as far as subscripts are sizes."""
    return max((n for n, s in enumerate(read.subscripts) if isinstance(s, Dim) and axis in s.variables), default=-1)
