"""What no result needs is left out of a block: what nothing uses is not evaluated, and so cannot fail.

A `Check` stays, since it stands for itself, and so does a loop around one: an `as` is asked wherever it stands, unless a branch
leaves it out. Of an operation that makes several tensors (a reduction or scan of several values, a loop's states) all are made
where one is needed.
"""

from __future__ import annotations

from collections.abc import Set
from operator import is_

from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Loop, Op
from axon.core.walk import around_of, needs_of, outs_of


def needed(block: Block, sizes: Set[Symbol] = frozenset()) -> Block:
    """The block with only those operations that its results need, or `sizes`, which may be defined in it; loops' bodies too."""
    return _needed(block, sizes)[0]


def _needed(block: Block, sizes: Set[Symbol]) -> tuple[Block, frozenset[Symbol]]:
    """The same, and what those operations name."""
    wanted = {*block.results, *sizes}
    named: set[Symbol] = set()
    kept: list[Op] = []
    for op in reversed(block.ops):
        defined = {out.symbol for out in outs_of(op)} | ({op.size} if isinstance(op, Compress) else set())
        if wanted.isdisjoint(defined) and not _checks(op):
            continue
        if isinstance(op, Loop):
            body, inside = _needed(op.body, _sizes(op))
            if len(body.ops) < len(op.body.ops) or not all(map(is_, body.ops, op.body.ops)):
                op = replace(op, body=body)
            mine = (around_of(op) | inside) - {op.counter}
        else:
            mine = needs_of(op)
        wanted |= mine
        named |= mine
        kept.append(op)
    return Block(tuple(reversed(kept)), block.results), frozenset(named)


def _checks(op: Op) -> bool:
    return isinstance(op, Check) or (isinstance(op, Loop) and any(map(_checks, op.body.ops)))


def _sizes(loop: Loop) -> frozenset[Symbol]:
    """The sizes that the states of a loop mention."""
    return frozenset(v for state in loop.states for dim in state.shape for v in dim.variables)
