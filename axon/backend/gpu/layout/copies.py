"""Copies of what a view shows, in which bulk copies find it: how they lie, and how they are seen.

    spread    a tensor or a view of one -> how a copy of it lies

Of plain views a copy has a dimension for each part of an axis; of windows one in which they overlap; of pixels it is the image,
each element once, with channels innermost (see `views`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from axon.backend.gpu.layout.axes import ONE, ZERO, AxisPart, only
from axon.backend.gpu.layout.pixels import pixels_of
from axon.backend.gpu.layout.views import View, itself
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Binary, Const, Index, Read, Scalar, Select, Value
from axon.shapes.dimension import Dim, dim_sum


@dataclass(frozen=True, slots=True)
class CopyLayout:
    """How a copy of what a view shows lies: its dimensions, each with how far it goes and its step in each dimension of the source;
    and the parts of the view's axes, with their steps in the dimensions of the copy. There is a dimension for each part, so that a
    kernel that makes the copy divides no index and memory goes on from each part of an axis into the next; but of a window, the
    first part and the axis that moves along the same dimension have one. `row` dimensions at the end are to lie side by side."""

    dimensions: tuple[AxisPart, ...]
    parts: tuple[tuple[AxisPart, ...], ...]
    start: tuple[Dim, ...]
    row: int
    padding: Const | None = None
    im2col: bool = False
    joined: bool = False

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(dimension.extent for dimension in self.dimensions)

    @property
    def memory(self) -> CopyLayout:
        """What two copies have in common that are the same in memory, though views show other things of them."""
        return replace(self, parts=(), joined=False)

    def read(self, source: Symbol, element: Element, at: Sequence[Dim]) -> Scalar:
        """What of the source the copy's element at these indices is."""
        terms = [self.start, *(tuple(step * i for step in part.step) for part, i in zip(self.dimensions, at, strict=True))]
        found: Scalar = Read(source, tuple(map(dim_sum, zip(*terms, strict=True))), element, self.padding)
        for part, index in zip(self.dimensions, at, strict=True):
            if part.there is not None:
                found = Select(Binary("lt", Index(index), Index(part.there)), found, Const(0.0, element))
        return found

    def seen(self, copy: Value, axes: tuple[Symbol, ...]) -> View | None:
        """The copy with one dimension for each axis; None if it has."""
        if not self.im2col and len(self.parts) == len(self.dimensions) and all(len(parts) == 1 for parts in self.parts):
            return None
        value = Value(fresh(f"{copy.symbol.name}_view"), copy.element, tuple(map(_extent, self.parts)))
        return View(value, copy.symbol, axes, self.parts, (ZERO,) * len(self.dimensions), im2col=self.im2col, joined=self.joined)


def _extent(parts: Iterable[AxisPart]) -> Dim:
    return prod((part.extent for part in parts), start=ONE)


def spread(value: Value, view: View | None, order: Sequence[int]) -> CopyLayout:
    """A copy with a tensor's dimensions, or those of a view of one, in this order."""
    seen = view or itself(value, ())
    axes = [seen.parts[d] for d in order]
    if seen.im2col:
        return _images(seen)
    if seen.window:
        return _windows(seen, axes)
    dimensions = tuple(part for parts in axes for part in parts)
    number = iter(range(len(dimensions)))
    own = tuple(tuple(AxisPart(part.extent, _along_one(next(number), ONE, len(dimensions))) for part in parts) for parts in axes)
    return CopyLayout(dimensions, own, seen.start, len(axes[-1]), seen.padding)


def _images(seen: View) -> CopyLayout:
    """A copy of images for copies of pixels: as far as windows reach, the zeros outside in it, with channels innermost. Groups of
    channels are examples, and what an axis moves besides pixels and windows has a dimension of its own."""
    pixels, of = pixels_of(seen), seen.parts[-1]
    rank = len(seen.start)
    parts = [part for parts in seen.parts for part in parts]
    groups = [part for part in parts if part is not of[-1] and part.step[pixels.channel] != ZERO]
    dimensions, at = list(groups), {}
    for d, extent in pixels.examples:
        at[d] = len(dimensions)
        dimensions.append(replace(next(part for part in reversed(parts) if part.step[d] != ZERO), extent=extent))
    for place in pixels.places:
        at[place.dimension] = len(dimensions)
        reach = place.step * (place.pixels - 1) + place.reach + 1
        dimensions.append(AxisPart(reach, _along_one(place.dimension, ONE, rank)))
    at[pixels.channel] = len(dimensions)
    dimensions.append(of[-1])

    def moved(part: AxisPart) -> AxisPart:
        if part in groups:
            return AxisPart(part.extent, _along_one(groups.index(part), ONE, len(dimensions)))
        d = only(part)
        alone = any(d == example for example, _ in pixels.examples) and sum(p.step[d] != ZERO for p in parts) == 1
        step = ONE if alone else part.step[d]
        joined = part.there if seen.joined and part is of[-2] else None
        return AxisPart(part.extent, _along_one(at[d], step, len(dimensions)), joined)

    own = tuple(tuple(map(moved, of)) for of in seen.parts)
    row = 2 if seen.joined else 1
    return CopyLayout(tuple(dimensions), own, seen.start, row, seen.padding, im2col=True, joined=seen.joined)


def _windows(seen: View, axes: Sequence[tuple[AxisPart, ...]]) -> CopyLayout:
    """A copy of a view whose last axis is a window: it has the dimension along which windows overlap once, behind those of the
    other axes and before those of the window's other parts."""
    first, *others = axes[-1]
    ((along, unit),) = ((d, step.constant or 1) for d, step in enumerate(first.step) if step != ZERO)  # see `View.overlaps`
    (partner,) = (n for n, parts in enumerate(axes[:-1]) if len(parts) == 1 and parts[0].step[along] != ZERO)
    moving = axes[partner][0]
    times = Dim.of((moving.step[along].constant or 0) // unit)
    shared = AxisPart(times * (moving.extent - 1) + first.extent, first.step)
    before = [part for n, parts in enumerate(axes[:-1]) for part in parts if n != partner]
    dimensions = (*before, shared, *others)
    rank, at = len(dimensions), len(before)
    number = iter(range(at))
    own = [
        (AxisPart(moving.extent, _along_one(at, times, rank)),)
        if n == partner
        else tuple(AxisPart(part.extent, _along_one(next(number), ONE, rank)) for part in parts)
        for n, parts in enumerate(axes[:-1])
    ]
    own.append(tuple(AxisPart(part.extent, _along_one(at + n, ONE, rank)) for n, part in enumerate((first, *others))))
    return CopyLayout(dimensions, tuple(own), seen.start, len(others), seen.padding)


def _along_one(dimension: int, step: Dim, rank: int) -> tuple[Dim, ...]:
    return tuple(step if d == dimension else ZERO for d in range(rank))
