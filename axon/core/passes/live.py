"""What of a block somebody needs: not operations whose results nobody reads, nor states of loops that only their own steps read.

What may stop the program stays. Derivatives ask this of the loops that they make: these hold a copy of the whole step, of which
they often need a part.
"""

from __future__ import annotations

from collections.abc import Set

from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Compute, Loop, Op, Scan, Sort
from axon.core.scalar_facts import may_stop
from axon.core.walk import outs_of, tensors_of


def live(block: Block) -> Block:
    """The block with what its results need, and what may stop the program."""
    needed = set(block.results)
    kept: list[Op] = []
    for op in reversed(block.ops):
        found = _live(op, needed)
        if found is not None:
            kept.append(found)
            needed |= tensors_of(found)
    return Block(tuple(reversed(kept)), block.results)


def _live(op: Op, needed: Set[Symbol]) -> Op | None:
    asked = any(out.symbol in needed for out in outs_of(op))
    if not asked and not may_stop_inside(op):
        return None
    return _loop(op, needed) if isinstance(op, Loop) and asked else op


def may_stop_inside(op: Op) -> bool:
    """Whether an operation may stop the program, or defines a size."""
    match op:
        case Compute() | Scan():
            return may_stop(op)
        case Loop():
            return any(map(may_stop_inside, op.body.ops))
        case Sort():
            return False
        case Compress() | Check():
            return True


def _loop(op: Loop, needed: Set[Symbol]) -> Loop:
    """A loop with the states that somebody needs, be it another of them or the condition."""
    last = len(op.states) - 1
    kept = {n for n, out in enumerate(op.outs) if out.symbol in needed or (op.conditional and n == last)}
    while True:
        order = sorted(kept)
        body = live(Block(op.body.ops, tuple(op.body.results[n] for n in order)))
        reads = frozenset(body.results).union(*map(tensors_of, body.ops))
        more = kept | {n for n, state in enumerate(op.states) if state.symbol in reads}
        if more == kept:
            break
        kept = more
    outs, states = (tuple(values[n] for n in order) for values in (op.outs, op.states))
    return replace(op, outs=outs, initial=tuple(op.initial[n] for n in order), states=states, body=body)
