"""In which order the operations of a block are shared: what nobody reads but the block's end comes as early as it can.

So it is decided at once in which layout a result lies, and a search carries few layouts along; and what is exchanged for it, a
gradient's sum over devices, is under way while the rest is computed.
"""

from __future__ import annotations

from axon.base.names import Symbol
from axon.core.ir import Block, Compress, Compute, Op, Scan
from axon.core.scalar_facts import may_stop
from axon.core.walk import needs_of, outs_of, tensors_of


def early(block: Block) -> Block:
    """The block with operations that only its results need directly behind what they read. What may stop the program stays, in
    its order."""
    read = frozenset[Symbol]().union(*map(tensors_of, block.ops))
    placed: list[list[Op]] = [[]]  # behind each operation that stays
    made: dict[Symbol, int] = {}  # by which of those
    for op in block.ops:
        if isinstance(op, Compute | Scan) and not may_stop(op) and read.isdisjoint(out.symbol for out in outs_of(op)):
            placed[max((made[s] for s in needs_of(op) if s in made), default=0)].append(op)
            continue
        defined = [out.symbol for out in outs_of(op)]
        made |= dict.fromkeys([*defined, op.size] if isinstance(op, Compress) else defined, len(placed))
        placed.append([op])
    return Block(tuple(op for ops in placed for op in ops), block.results)


def last_uses(block: Block) -> list[tuple[Symbol, ...]]:
    """Of each operation, the block's results that are there after it, and that no later one reads."""
    last = {out.symbol: n for n, op in enumerate(block.ops) for out in outs_of(op)}
    for n, op in enumerate(block.ops):
        last |= dict.fromkeys((s for s in tensors_of(op) if s in last), n)
    found: list[tuple[Symbol, ...]] = [() for _ in block.ops]
    for symbol in dict.fromkeys(block.results):
        if symbol in last:
            found[last[symbol]] += (symbol,)
    return found
