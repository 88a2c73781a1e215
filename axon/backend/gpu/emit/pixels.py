"""Copies of pixels: where each begins in an image, and the offset that is its place in a window (see `layout.pixels`).

What the tile decides is found once for all its steps. What goes on with every step, the place in a window or, where pixels are
summed, the first pixel, is counted, since a division takes longer than a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from axon.backend.gpu.layout.axes import ZERO, AxisPart
from axon.backend.gpu.layout.pixels import is_offset, pixels_of
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import Coordinate, Op
from axon.backend.kernel.ir import Constant, Expression, Name, call, same
from axon.base.data import replace
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

Parts: TypeAlias = "tuple[AxisPart, ...]"


class PixelEmitter:
    def __init__(self, emitter: Emitter) -> None:
        self.emitter, self.code = emitter, emitter.code
        self.views = {view.value.symbol: view for view in emitter.program.views if view.im2col}
        self.of_tile: dict[Coordinate, list[Name]] = {}  # the indices of its first pixels
        self.of_step: dict[Coordinate, list[Name]] = {}  # and of its place in windows, or of the step's first pixels

    def seen(self, op: b.Copy) -> View | None:
        """The view that a copy of pixels is of; None for any other copy."""
        return self.views.get(op.descriptor.tensor)

    def copies(self, body: tuple[Op, ...]) -> Iterator[tuple[Coordinate, Coordinate, View]]:
        """The copies of pixels in a body: their places along pixels and in windows, and what they are of."""
        for op in b.operations(body):
            view = self.seen(op) if isinstance(op, b.Copy) else None
            if view is not None and isinstance(op, b.Copy):
                yield op.at[-2], op.at[-1], view

    def place(self, op: b.Copy, view: View) -> list[Expression]:
        """Where a copy begins, and what is added for its place in windows, both innermost first."""
        seen, (*outer, rows, depth) = pixels_of(view), op.at
        *around, own, deep = view.parts
        start, within = list(view.start), [ZERO] * len(view.start)
        windows = {place.dimension for place in seen.places if place.around}
        for axis, (part,) in zip(outer, around, strict=True):
            to = within if is_offset(part, windows) else start
            to[:] = (place + step * Dim.of(axis.axis) for place, step in zip(to, part.step, strict=True))
        moving = {axis.axis: self.emitter.name(axis.axis) for axis in outer}
        first: list[Expression] = [self.emitter.dim(place, moving) for place in start]
        offsets: list[Expression] = [self.emitter.dim(place, moving) for place in within]
        beside = seen.places[-1].dimension if seen.joined else -1
        pixel = self.found(rows, own)
        place = self.found(depth, deep)
        for index, part in zip(pixel, own, strict=True):
            first = [index if d == beside and step != ZERO else _moved(first[d], index, step) for d, step in enumerate(part.step)]
        for index, part in zip(place, deep, strict=True):
            offsets = [_moved(offset, index, step) for offset, step in zip(offsets, part.step, strict=True)]
        channel = first[seen.channel] + offsets[seen.channel]
        if seen.joined:
            channel = channel + offsets[beside] * self.emitter.size(deep[-1].extent)
            offsets[beside] = Constant(0)
        example: Expression = Constant(0)
        for number, (d, extent) in enumerate(seen.examples):
            example = example * self.emitter.size(extent) + first[d] if number else first[d]
        inside = [place.dimension for place in reversed(seen.places)]
        return [channel, *(first[d] for d in inside), example, *(offsets[d] for d in inside)]

    def found(self, coordinate: Coordinate, parts: Parts) -> Sequence[Expression]:
        """The indices of which the one at a coordinate is merged, if they are known."""
        return self.of_tile.get(coordinate) or self.of_step.get(coordinate) or self.indices(coordinate, parts)

    def indices(self, coordinate: Coordinate, parts: Parts) -> list[Expression]:
        """The indices of which the one at a coordinate is merged."""
        rest, found = self.emitter.coordinate(coordinate), []
        if len(parts) > 1:
            rest = self.code.let(rest, "place")
        for part in reversed(parts[1:]):
            extent = self.emitter.size(part.extent)
            before = self.code.let(call("ptx.divide", rest, extent), "place")
            found.append(rest - before * extent)
            rest = before
        return [rest, *reversed(found)]

    def first(self, body: tuple[Op, ...]) -> None:
        """The first pixels of a tile."""
        self.of_tile = {}
        stepped = {op.axis.symbol for op in b.operations(body) if isinstance(op, b.Steps)}
        for rows, _, view in self.copies(body):
            parts = view.parts[-2]
            if rows in self.of_tile or rows.axis in stepped:
                continue
            found = self.indices(rows, parts)
            if any(parts[0].step[place.dimension] != ZERO for place in pixels_of(view).places):
                # A copy from outside of all pixels is an illegal instruction; beyond the last example it reads zeros.
                found[0] = call("min", found[0], self.emitter.size(parts[0].extent) - 1)
            self.of_tile[rows] = [self.code.let(index, "pixel") for index in found]

    def stepped(self, op: b.Steps) -> Mapping[Coordinate, Parts]:
        """The places in windows, or the pixels, with which a loop begins, of which indices are merged."""
        moving = ((at, parts) for *both, view in self.copies(op.body) for at, parts in zip(both, view.parts[-2:], strict=True))
        found = {at: parts for at, parts in moving if at.axis == op.axis.symbol and len(parts) > 1}
        for depth, parts in found.items():
            first = self.indices(replace(depth, step=0), parts) if depth.offset else [Constant(0)] * len(parts)
            self.of_step[depth] = [self.code.let(index, "place") for index in first]
        return found

    def move_on(self, found: Mapping[Coordinate, Parts]) -> None:
        """To the places of the next step."""
        for depth, parts in found.items():
            *outer, last = self.of_step[depth]
            extent = self.emitter.size(parts[-1].extent)
            self.code.assign(last, last + depth.step)
            with self.code.repeat(last >= extent):
                self.code.assign(last, last - extent)
                self.count(outer, parts[:-1])

    def count(self, place: Sequence[Name], parts: Parts) -> None:
        """To the next place, the last index fastest."""
        *outer, last = place
        self.code.assign(last, last + 1)
        if outer:
            with self.code.when(same(last, self.emitter.size(parts[-1].extent))):
                self.code.assign(last, 0)
                self.count(outer, parts[:-1])


def _moved(place: Expression, index: Expression, step: Dim) -> Expression:
    """So many constant steps further."""
    if step.constant == 0:
        return place
    return place + (index if step.constant == 1 else index * (step.constant or 0))
