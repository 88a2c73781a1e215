"""An all-reduce, or a reduce-scatter, in pieces behind the product that it combines: each is under way while the next is computed.

    y[.., i, ..] = sum k => x[i, k] * w …      y1[.., i, ..] = sum k => …   of the first half of i
    Y = all_reduce y                           Y1 = all_reduce y1           while
    z[i] = … Y[i] …                            y2[.., i, ..] = sum k => …   is computed;  Y2 = all_reduce y2
                                               z[i in each half] = … Y1[i] …, … Y2[i] …

What is cut is an index of the product's result, along which nothing is combined or scattered: so nothing is computed twice, no sum
is in another order, and as many bytes are sent. What is done to each element afterwards makes its part of a value in place.

In how many pieces follows from what is predicted: of the product and the collective, the shorter is hidden but for a piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Read, Value
from axon.core.operation_count import flops
from axon.core.scalar_facts import may_stop
from axon.core.sharding.access import ZERO, Grid
from axon.core.sharding.emit import Parted, Raw, each_row, read_of_raw
from axon.core.sharding.ir import Collective, Part
from axon.core.sharding.layouts import Rates, elements, guessed, rings
from axon.core.sharding.pieces import LAUNCH, of_block, of_each, only_reader
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim

MOST = 8  # pieces


@dataclass(frozen=True, slots=True)
class _Behind:
    """A collective at a place of a row, what makes what it combines, in order, and what is done to each element of its result."""

    collective: Collective
    place: int
    before: tuple[tuple[int, Compute], ...]
    after: tuple[tuple[int, Compute], ...]

    @property
    def places(self) -> frozenset[int]:
        return frozenset((self.place, *(n for n, _ in (*self.before, *self.after))))


def behind(raw: Sequence[Raw], results: Sequence[Symbol], grid: Grid, rates: Rates, sizes: Mapping[Symbol, int]) -> list[Raw]:
    """The items with collectives in pieces behind their products where that pays at these sizes."""

    def row(raw: Sequence[Raw], results: Sequence[Symbol]) -> list[Raw]:
        instead: dict[int, list[Raw]] = {}
        for n, item in enumerate(raw):
            found = _found(n, item, raw, results) if isinstance(item, Collective) else None
            if found is None or not found.places.isdisjoint(instead):
                continue
            choice = _choice(found, grid, rates, sizes)
            if choice is not None:
                instead |= {place: [] for place in found.places}
                made, parts = _pieces(found, *choice)
                instead[n] += made
                instead[max(found.places)] += parts
        return [made for n, item in enumerate(raw) for made in instead.get(n, [item])]

    return each_row(raw, results, row)


def _found(at: int, item: Collective, raw: Sequence[Raw], results: Sequence[Symbol]) -> _Behind | None:
    if item.kind not in ("all_reduce", "reduce_scatter") or item.monoid != "sum" or item.piece is not None:
        return None
    before = _makers(at, item.source, raw, results)
    if not any(op.reduction is not None for _, op in before):
        return None
    after: list[tuple[int, Compute]] = []
    last, place, like = item.result.symbol, at, before[-1][1]
    axes = tuple(Axis(a.symbol, extent) for a, extent in zip(like.axes, item.result.shape, strict=True))
    shaped = replace(like, outs=(item.result,), axes=axes)
    while (reader := only_reader(last, place, raw, results)) is not None and of_each(reader[1], shaped):
        after.append(reader)
        place, shaped = reader
        last = shaped.outs[0].symbol
    return _Behind(item, at, before, tuple(after))


def _makers(at: int, source: Symbol, raw: Sequence[Raw], results: Sequence[Symbol]) -> tuple[tuple[int, Compute], ...]:
    """What makes a value that the item at a place alone reads: its operation, and those whose elements it alone reads, at its own
    indices; in order."""
    made = {out.symbol: (n, op) for n, op in enumerate(raw[:at]) if isinstance(op, Compute) for out in op.outs}
    readers: dict[Symbol, int] = {}
    for item in raw:
        for symbol in set(read_of_raw(item)):
            readers[symbol] = readers.get(symbol, 0) + 1
    found: dict[int, Compute] = {}

    def take(symbol: Symbol, by: Compute | None) -> None:
        place, op = made.get(symbol, (0, None))
        if op is None or readers[symbol] > 1 or symbol in results or len(op.outs) > 1 or may_stop(op):
            return
        other = op.reduction is not None and op.reduction.monoid.kind != "sum"
        if other or (by is not None and not of_each(by, op)):
            return
        found[place] = op
        for name in sorted({n.tensor for s in scalars(op) for n in nodes(s) if isinstance(n, Read)}, key=lambda s: s.id):
            if op.reduction is None:
                take(name, op)

    take(source, None)
    return tuple(sorted(found.items()))


def _choice(found: _Behind, grid: Grid, rates: Rates, sizes: Mapping[Symbol, int]) -> tuple[int, int] | None:
    """Along which dimension, and in how many pieces, it takes the least time; None where it is best in one."""

    item, of = found.collective, found.before[-1][1].outs[0]
    link, factor = rates.over(item.axis), rings(item.kind, grid.devices(item.axis))
    exchanged = float(factor * guessed(elements(of.shape), sizes)) * (of.element.bits // 8) / link.bandwidth
    computed = sum(guessed(flops(op), sizes) for _, op in found.before) / rates.flops
    copied = 0.0 if found.after else 2 * guessed(elements(item.result.shape), sizes) * (of.element.bits // 8) / rates.memory

    def time(pieces: int) -> float:
        hidden = max(exchanged, computed) * (pieces - 1) / pieces
        more = (pieces - 1) * (link.latency + LAUNCH) + (copied if pieces > 1 else 0.0)
        return hidden + (exchanged + computed) / pieces + more

    along = [d for d, extent in enumerate(of.shape) if d != item.dimension and guessed(extent, sizes) >= MOST]
    best = min((n for n in (1, 2, 4, MOST)), key=time)
    return (along[0], best) if along and best > 1 else None


def _pieces(found: _Behind, at: int, many: int) -> tuple[list[Raw], list[Raw]]:
    """The products and collectives in turn, and what is made of the pieces."""
    item, of = found.collective, found.collective.result
    size, why = of.shape[at] // many, f"{item.reason}; in {many} pieces, each under way while a device computes the next"
    ops = [op for _, op in found.after]
    if not ops:  # put in place
        axes = tuple(Axis(fresh("i"), extent) for extent in of.shape)
        ops = [Compute((of,), axes, None, (Read(of.symbol, tuple(Dim.of(a.symbol) for a in axes), of.element),))]
    whole, made, parts = ops[-1].outs[0], list[Raw](), list[Raw]()
    for t in range(many):
        begin, extent = size * t, size if t < many - 1 else of.shape[at] - size * (many - 1)
        read: dict[Symbol, tuple[Symbol, int]] = {}
        for _, op in found.before:
            made.append(of_block(op, at, begin, extent, read))
            read[op.outs[0].symbol] = _out(made[-1]).symbol, at
        shape = (*of.shape[:at], extent, *of.shape[at + 1 :])
        own = replace(of, symbol=fresh(of.symbol.name), shape=shape)
        made.append(replace(item, source=read[item.source][0], result=own, piece=(t, many), reason=why))
        read, some = {of.symbol: (own.symbol, at)}, list[Compute]()
        for op in ops:
            some.append(of_block(op, at, begin, extent, read))
            read[op.outs[0].symbol] = some[-1].outs[0].symbol, at
        parts.append(Parted(tuple(some), Part(whole, at, begin if t else ZERO, first=not t)))
    return made, parts


def _out(item: Raw) -> Value:
    assert isinstance(item, Compute)
    return item.outs[0]
