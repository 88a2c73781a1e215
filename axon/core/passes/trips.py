"""Trip counts that sizes decide, though no dimension says so, as programs of their own: whoever steps loops runs them instead of
reading back what a device computes.

    counts    operations, and trip counts that they make -> those that sizes alone decide, each with its program
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from axon.base.names import Symbol
from axon.core.ir import Block, Compute, Leaf, Op, Program, Scan
from axon.core.walk import dimensions_of, outs_of, tensors_of
from axon.shapes.contracts.contract import Contract


def counts(ops: Iterable[Op], trips: Iterable[Symbol]) -> dict[Symbol, Program]:
    """Programs without inputs, whose explicit dimensions are all that they mention. What reads a tensor is decided by data."""
    makers = {out.symbol: op for op in ops if isinstance(op, Compute | Scan) for out in outs_of(op)}
    found = {}
    for trip in trips:
        made = _made(trip, makers)
        if made is not None:
            sizes = tuple(sorted(frozenset().union(*map(dimensions_of, made)), key=lambda s: (s.name, s.id)))
            found[trip] = Program("steps", sizes, (), (), Contract(sizes, ()), Block(tuple(made), (trip,)), Leaf(0))
    return found


def _made(symbol: Symbol, makers: Mapping[Symbol, Compute | Scan]) -> list[Op] | None:
    """The operations that make a tensor out of sizes, in order; None if one of them needs anything else."""
    order: dict[Symbol, Op] = {}  # by the first that each makes

    def visit(symbol: Symbol) -> bool:
        op = makers.get(symbol)
        if op is None:
            return False
        first = outs_of(op)[0].symbol
        if first not in order and all(map(visit, tensors_of(op))):
            order[first] = op
        return first in order

    return list(order.values()) if visit(symbol) else None
