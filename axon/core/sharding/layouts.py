"""From one layout to another: which collectives, and what they move.

Bytes are those that one device sends, by rings: of a tensor of n bytes, (p - 1) / p of n in an all-gather and a reduce-scatter,
twice that in an all-reduce, which is the two one after the other, and (p - 1) / p of the n / p that it holds in an all-to-all.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Value
from axon.core.sharding.access import ZERO, Grid
from axon.core.sharding.ir import Layout, Split
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Move:
    """One collective on the way from a layout to another."""

    kind: str
    axis: str
    before: Layout
    after: Layout
    dimension: int | None = None
    target: int | None = None


def whole(rank: int) -> Layout:
    """The layout in which every device has everything."""
    return Layout((None,) * rank)


def natural(shape: tuple[Dim, ...], grid: Grid) -> Layout:
    """The layout of parameters and results: each axis of the mesh splits the first dimension that is made of a size split over it
    into equal parts, if an earlier axis does not split that."""
    splits: list[Split | None] = [None] * len(shape)
    for axis in grid.names:
        free = (d for d, extent in enumerate(shape) if splits[d] is None and grid.exact(extent, axis))
        first = next(free, None)
        if first is not None:
            splits[first] = Split(axis)
    return Layout(tuple(splits))


def with_split(layout: Layout, dimension: int, split: Split | None) -> Layout:
    splits = list(layout.splits)
    splits[dimension] = split
    return replace(layout, splits=tuple(splits))


def without_partial(layout: Layout, axis: str) -> Layout:
    return replace(layout, partial=tuple(p for p in layout.partial if p[0] != axis))


def local_shape(shape: tuple[Dim, ...], layout: Layout, grid: Grid) -> tuple[Dim, ...]:
    """What a device holds of a tensor."""
    found = []
    for extent, split in zip(shape, layout.splits, strict=True):
        if split is None:
            found.append(extent)
            continue
        block = grid.block(extent, split.axis)
        assert block is not None
        found.append(block + split.left + split.right)
    return tuple(found)


def held_as(element: Element, layout: Layout, grid: Grid) -> Element:
    """What a device holds of a tensor, and sends: of sums of 16-bit floats that are yet to be combined its own, rounded, unless the
    grid is `wide`; of other sums and products of narrow floats what they accumulate in."""
    kinds = {kind for _, kind in layout.partial}
    rounded = "prod" not in kinds and element.bits == 16 and not grid.wide
    return element if rounded or kinds.isdisjoint(("sum", "prod")) else element.accumulator


def path(before: Layout, after: Layout) -> tuple[Move, ...] | None:
    """The collectives that bring a value from one layout to another; None where there are none: nothing becomes partial, and what
    has elements of other blocks stays as it is."""
    if before == after:
        return ()
    if any(p not in before.partial for p in after.partial):
        return None
    if any(split is not None and split != Split(split.axis) for split in before.splits):
        return None
    moves: list[Move] = []
    now = before

    def move(kind: str, axis: str, made: Layout, dimension: int | None = None, target: int | None = None) -> None:
        nonlocal now
        moves.append(Move(kind, axis, now, made, dimension, target))
        now = made

    for axis, _ in before.partial:  # a part is enough where only a part is asked for
        if after.monoid(axis) is not None:
            continue
        place = after.dimension(axis)
        if place is not None and now.splits[place] is None:
            move("reduce_scatter", axis, without_partial(with_split(now, place, Split(axis)), axis), place)
    for place, split in enumerate(after.splits):
        if split is not None and now.dimension(split.axis) is None and now.monoid(split.axis) is None and now.splits[place] is None:
            move("slice", split.axis, with_split(now, place, Split(split.axis)), place)
    for axis, _ in before.partial:
        if now.monoid(axis) is not None and after.monoid(axis) is None:
            move("all_reduce", axis, without_partial(now, axis))
    pending = [s.axis for d, s in enumerate(now.splits) if s is not None and after.dimension(s.axis) != d]
    while pending:
        for axis in pending:
            place, target = now.dimension(axis), after.dimension(axis)
            assert place is not None
            if target is None or now.splits[target] is None:
                break
        else:  # they stand in one another's way
            axis, target = pending[0], None
            place = now.dimension(axis)
            assert place is not None
        pending.remove(axis)
        if target is None:
            move("all_gather", axis, with_split(now, place, None), place)
        else:
            move("all_to_all", axis, with_split(with_split(now, place, None), target, Split(axis)), place, target)
    for place, split in enumerate(after.splits):
        if split is not None and now.splits[place] is None:
            move("slice", split.axis, with_split(now, place, Split(split.axis)), place)
    for place, split in enumerate(after.splits):
        if split is not None and split != now.splits[place]:
            move("halo", split.axis, with_split(now, place, split), place)
    assert now == after, (before, after, moves)
    return tuple(moves)


# ── what they cost ──────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Rates:
    """What devices and the links between them are taken to do."""

    name: str
    bandwidth: float  # bytes a second, of one device to the others
    latency: float  # seconds of one collective
    flops: float  # a second
    memory: float  # bytes a second
    axes: tuple[tuple[str, Rates], ...] = ()  # of the mesh, over which devices exchange by another link

    def over(self, axis: str) -> Rates:
        """Those of the link along an axis of the mesh."""
        return dict(self.axes).get(axis, self)


# NVLink 4 of eight H100: 450 GB/s each way, about 370 after protocol in rings; InfiniBand NDR: 400 Gbit/s for each device.
# Latencies are those of small messages through NCCL, which are tens of microseconds.
LINKS = {
    "nvlink": Rates("nvlink", 370e9, 15e-6, 400e12, 3.35e12),
    "infiniband": Rates("infiniband", 48e9, 30e-6, 400e12, 3.35e12),
}


def rings(kind: str, devices: int) -> Fraction:
    """How many times what it holds a device sends; of borders, those elements alone; of a shift, all of it."""
    p = devices
    factors = {"all_reduce": Fraction(2 * (p - 1), p), "all_gather": Fraction(p - 1), "slice": Fraction(0)}
    factors |= {"halo": Fraction(1), "shift": Fraction(1)}
    return factors.get(kind, Fraction(p - 1, p))


def exchanged(kind: str, held: tuple[Dim, ...], dimension: int | None, borders: Dim) -> Dim:
    """The elements of which a device sends so many times as many: those it holds, or its borders."""
    if kind != "halo" or dimension is None:
        return elements(held)
    return elements((*held[:dimension], borders, *held[dimension + 1 :]))


def elements(shape: tuple[Dim, ...]) -> Dim:
    total = Dim.of(1)
    for extent in shape:
        total = total * extent
    return total


def guessed(dim: Dim, sizes: Mapping[Symbol, int]) -> int:
    """An extent or a count at these sizes; 1 where it depends on what only a call knows."""
    try:
        return max(0, dim.evaluate(sizes))
    except (KeyError, ZeroDivisionError):
        return 1


def seconds(move: Move, value: Value, grid: Grid, element_bytes: int, sizes: Mapping[Symbol, int], rates: Rates) -> float:
    """How long a collective takes at these sizes."""
    if move.kind == "slice":
        return 0.0
    split = None if move.dimension is None else move.after.splits[move.dimension]
    borders = ZERO if split is None else split.left + split.right
    count = exchanged(move.kind, local_shape(value.shape, move.before, grid), move.dimension, borders)
    sent = rings(move.kind, grid.devices(move.axis)) * element_bytes * max(0, count.evaluate(sizes))
    link = rates.over(move.axis)
    return link.latency + float(sent) / link.bandwidth
