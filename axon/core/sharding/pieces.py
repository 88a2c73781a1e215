"""An all-gather in pieces, beside the product that reads it: while a device computes with one block, the others are under way.

    X = all_gather x                          x1 = shift x, 1 further;  …
    y[.., i, ..] = sum k => X[i, k] * w …     y[.., i in block c, ..]      of x, which is here
                                              y[.., i in block c + 1, ..]  of x1 …

The index along which blocks lie is one of the product's result, so each block makes a part of that, in place, with what is done to
each element afterwards: nothing is computed twice, or copied, and no sum is in another order.

It is done where it is predicted to pay: where the product takes long, and the gather longer than what more programs cost.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Read, Scalar, Value
from axon.core.operation_count import flops
from axon.core.scalar_facts import freshened, mapped, may_stop, substitute
from axon.core.sharding.access import Grid
from axon.core.sharding.emit import Parted, Raw, each_row, read_of_raw
from axon.core.sharding.ir import Collective, Part
from axon.core.sharding.layouts import Rates, elements, guessed
from axon.core.walk import all_axes, nodes, rewrite, scalars
from axon.shapes.dimension import Dim

LAUNCH = 10e-6  # seconds that one more program costs
Values: TypeAlias = "Mapping[Symbol, Value]"


@dataclass(frozen=True, slots=True)
class _Pair:
    """A gather in a row of items, the product that alone reads what it makes, and what is done to each element of that, by their
    places in the row. `along` is the dimension of the product's result along which blocks lie."""

    gather: Collective
    ops: tuple[Compute, ...]
    places: tuple[int, ...]
    along: int

    @property
    def product(self) -> Compute:
        return self.ops[0]


def in_pieces(
    raw: Sequence[Raw], results: Sequence[Symbol], values: Values, grid: Grid, rates: Rates, sizes: Mapping[Symbol, int]
) -> list[Raw]:
    """The items with gathers beside products where that pays at these sizes. `values` are those that a device has from before."""

    def row(raw: Sequence[Raw], results: Sequence[Symbol]) -> list[Raw]:
        known = {**values, **{item.result.symbol: item.result for item in raw if isinstance(item, Collective)}}
        known |= {out.symbol: out for item in raw if isinstance(item, Compute) for out in item.outs}
        instead: dict[int, list[Raw]] = {}
        for n, item in enumerate(raw):
            pair = _pair(n, raw, results, known, grid) if isinstance(item, Collective) and item.kind == "all_gather" else None
            source = None if pair is None else known[pair.gather.source]
            if pair is None or source is None or not instead.keys().isdisjoint(pair.places):
                continue
            if _pays(pair, source, grid, rates, sizes):
                instead |= {place: [] for place in pair.places}
                instead[n], instead[pair.places[-1]] = _split(pair, source, grid)
        return [made for n, item in enumerate(raw) for made in instead.get(n, [item])]

    return each_row(raw, results, row)


def _pair(at: int, raw: Sequence[Raw], results: Sequence[Symbol], values: Values, grid: Grid) -> _Pair | None:
    """The product that a gather may stand beside: a sum that alone reads it, at one index of its result, along equal blocks."""
    gather = raw[at]
    assert isinstance(gather, Collective)
    assert gather.dimension is not None
    d, found = gather.dimension, only_reader(gather.result.symbol, at, raw, results)
    if found is None or gather.source not in values:
        return None
    place, product = found
    sums = product.reduction is not None and product.reduction.monoid.kind == "sum" and not may_stop(product)
    equal = values[gather.source].shape[d] * grid.devices(gather.axis) == gather.extent
    if not sums or not equal or len(product.outs) != 1:
        return None
    read = {n.subscripts[d] for s in scalars(product) for n in nodes(s) if isinstance(n, Read) and n.tensor == gather.result.symbol}
    along = [n for n, a in enumerate(product.axes) if read == {Dim.of(a.symbol)} and a.extent == gather.extent]
    if not along:
        return None
    ops, places = [product], [place]
    while (after := only_reader(ops[-1].outs[0].symbol, places[-1], raw, results)) is not None and of_each(after[1], ops[-1]):
        places.append(after[0])
        ops.append(after[1])
    return _Pair(gather, tuple(ops), tuple(places), along[0])


def only_reader(symbol: Symbol, at: int, raw: Sequence[Raw], results: Sequence[Symbol]) -> tuple[int, Compute] | None:
    """The operation that alone reads a value made at a place, and where it stands."""
    readers = [(n, item) for n, item in enumerate(raw) if n > at and symbol in read_of_raw(item)]
    match readers:
        case [(n, Compute() as op)] if symbol not in results:
            return n, op
        case _:
            return None


def of_each(op: Compute, product: Compute) -> bool:
    """Whether an operation makes of each element of a product one of its own, at the same place."""
    own = tuple(Dim.of(a.symbol) for a in op.axes)
    read = {n.subscripts for s in scalars(op) for n in nodes(s) if isinstance(n, Read) and n.tensor == product.outs[0].symbol}
    shaped = [a.extent for a in op.axes] == [a.extent for a in product.axes]
    return op.reduction is None and len(op.outs) == 1 and shaped and read == {own} and not may_stop(op)


def _pays(pair: _Pair, source: Value, grid: Grid, rates: Rates, sizes: Mapping[Symbol, int]) -> bool:
    p, link = grid.devices(pair.gather.axis), rates.over(pair.gather.axis)
    exchanged = (p - 1) * guessed(elements(source.shape), sizes) * (source.element.bits // 8) / link.bandwidth
    computed = guessed(flops(pair.product), sizes) / rates.flops
    return p > 1 and min(exchanged, computed * (p - 1) / p) > (p - 1) * (link.latency + LAUNCH)


def _split(pair: _Pair, source: Value, grid: Grid) -> tuple[list[Raw], list[Raw]]:
    """What brings the blocks, and what is made of them."""
    gather, of, at = pair.gather, pair.ops[-1].outs[0], pair.along
    assert gather.dimension is not None
    p, here, size = grid.devices(gather.axis), grid.coordinate(gather.axis), source.shape[gather.dimension]
    why = f"{gather.reason}; in pieces, of which each is under way while a device computes with the one before"
    blocks, shifts, parts = [source], list[Raw](), list[Raw]()
    for t in range(1, p):
        blocks.append(replace(source, symbol=fresh(source.symbol.name)))
        shifts.append(Collective("shift", gather.axis, source.symbol, blocks[t], left=Dim.of(t), reason=why, span=gather.span))
    for t, block in enumerate(blocks):
        begin = ((Dim.of(here) + t) % p if t else Dim.of(here)) * size
        read, made = {gather.result.symbol: (block.symbol, gather.dimension)}, list[Compute]()
        for op in pair.ops:
            made.append(of_block(op, at, begin, size, read))
            read = {**read, op.outs[0].symbol: (made[-1].outs[0].symbol, at)}
        parts.append(Parted(tuple(made), Part(of, at, begin, first=not t)))
    return shifts, parts


def of_block(op: Compute, at: int, begin: Dim, size: Dim, pieces: Mapping[Symbol, tuple[Symbol, int]]) -> Compute:
    """An operation along one block of an axis of its result. `pieces` are what stands for tensors along that block, each with the
    dimension in which it has only the block."""
    axis, out = op.axes[at], op.outs[0]
    names = {a.symbol: fresh(a.symbol.name) for a in all_axes(op)}
    own = names[axis.symbol]
    dims = {old: Dim.of(new) for old, new in names.items()} | {axis.symbol: begin + own}

    def here(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in pieces:
            return None
        tensor, d = pieces[node.tensor]
        return replace(node, tensor=tensor, subscripts=(*node.subscripts[:d], Dim.of(own), *node.subscripts[d + 1 :]))

    def renamed(a: Axis) -> Axis:
        return Axis(own, size) if a == axis else Axis(names[a.symbol], a.extent.substitute(dims))

    made = mapped(op, lambda scalar: substitute(freshened(rewrite(scalar, here)), dims))
    assert isinstance(made, Compute)
    if made.reduction is not None:
        made = replace(made, reduction=replace(made.reduction, axes=tuple(map(renamed, made.reduction.axes))))
    shape = (*out.shape[:at], size, *out.shape[at + 1 :])
    return replace(made, outs=(Value(fresh(out.symbol.name), out.element, shape),), axes=tuple(map(renamed, made.axes)))
