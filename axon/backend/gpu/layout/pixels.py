"""Pixels of a view, as the tensor memory accelerator's copies of them (im2col mode) address images: see `views`.

pixels_of    a View -> what the dimensions of its source are
addressed    a View, and the source as it lies -> the view as copies of pixels see it
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.axes import ONE, ZERO, AxisPart, ScatteredAxes, only, stepped
from axon.backend.gpu.layout.memory import DeviceTensor, Im2col
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim, dim_sum
from axon.shapes.width import of_dim

if TYPE_CHECKING:
    from axon.backend.gpu.layout.views import View

MOST_PLACES = 3  # dimensions in which pixels lie


@dataclass(frozen=True, slots=True)
class PixelPlace:
    """A dimension of images in which pixels lie: how many, their step, how many a window has there, and how far apart. Axes around
    a copy may number places in windows too, each so many so far apart: `around`."""

    dimension: int
    pixels: Dim
    step: int
    window: Dim
    dilation: int
    around: tuple[tuple[Dim, Dim], ...] = ()

    @property
    def reach(self) -> Dim:
        """From the first element of a window to its last."""
        return dim_sum((self.dilation * (self.window - 1), *(apart * (count - 1) for count, apart in self.around)))


@dataclass(frozen=True, slots=True)
class Pixels:
    """What the dimensions of images are: those of examples with their extents, of which pixels go on through the innermost, those
    in which pixels lie, both outermost first, and channels. Of `joined` ones, the last of those in which pixels lie has a row of a
    window beside the channels."""

    examples: tuple[tuple[int, Dim], ...]
    places: tuple[PixelPlace, ...]
    channel: int
    joined: bool


def pixels_of(view: View) -> Pixels:
    """What the dimensions of images are. Raises `Unsupported` where copies of pixels cannot step through them so."""
    *outer, rows, depth = view.parts
    channel = only(depth[-1])
    own = {only(part): part for part in rows}
    within = {only(part): part for part in depth[:-1]}
    first = only(rows[0])
    pieces = [part for (part,) in outer if first in moves(part)]  # of a sum that is cut, each of which goes on where one ends
    if first not in within and rows[0].step[first] == ONE and all(part.step[first] == rows[0].extent for part in pieces):
        del own[first]  # pixels go on through it: it is the innermost of examples
    around = [part for (part,) in outer if is_offset(part, (*own, *within))]
    examples = {d: part.extent for (part,) in outer if part not in around for d in moves(part) if d != channel}
    if first not in (*own, *within):
        examples.pop(first, None)
        examples[first] = rows[0].extent * prod((part.extent for part in pieces), start=ONE)
    places = [d for d in range(len(view.start)) if d not in (*own, *examples, channel)] + list(own)
    steps = [part.step[d].constant for parts in (own, within) for d, part in parts.items()]
    moved = {d: [part for parts in view.parts for part in parts if part.step[d] != ZERO] for d in examples}
    fine = (
        len(own) + (first in examples) == len(rows)  # each moves through a dimension of its own,
        and len(within) == len(depth) - 1
        and all(len(parts) == 1 or (d == first and len(pieces) == len(examples) == 1) for d, parts in moved.items())
        and {channel, *examples}.isdisjoint((*within, *own))
        and depth[-1].step[channel] == ONE  # forwards,
        and all(step is not None and step > 0 for step in steps)
        and all(of_dim(part.step[only(part)])[0] >= 0 for part in around)  # as offsets must be,
        and 1 <= len(places) <= MOST_PLACES  # and the last with a row of windows
        and (not view.joined or (only(depth[-2]) == places[-1] and depth[-2].step[places[-1]] == ONE))
        and (not view.joined or all(only(part) != places[-1] for part in around))
    )
    if not fine:
        raise Unsupported(f"windows of `{view.source.name}` that copies of pixels do not step through")
    order = sorted(examples.items(), key=lambda item: (item[0] == first, item[0]))
    found = (
        PixelPlace(
            d,
            *_extent_and_step(own.get(d), d),
            *_extent_and_step(within.get(d), d),
            tuple((part.extent, part.step[d]) for part in around if only(part) == d),
        )
        for d in places
    )
    return Pixels(tuple(order), tuple(found), channel, view.joined)


def moves(part: AxisPart) -> list[int]:
    """The dimensions that an axis steps through."""
    return [d for d, step in enumerate(part.step) if step != ZERO]


def is_offset(part: AxisPart, places: Container[int]) -> bool:
    """Whether an axis around a copy moves the place in windows, not where these begin: it steps through one dimension in which
    pixels lie, of which these are."""
    return len(moved := moves(part)) == 1 and moved[0] in places


def _extent_and_step(part: AxisPart | None, dimension: int) -> tuple[Dim, int]:
    return (ONE, 1) if part is None else (part.extent, part.step[dimension].constant or 0)


@dataclass(frozen=True, slots=True)
class _Lying:
    """A dimension of `Im2col` in which pixels lie, and how many."""

    extent: int
    stride: int
    count: int
    lower: int
    upper: int
    step: int
    reach: int


def addressed(view: View, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> DeviceTensor:
    """The view as copies of pixels see its source as it lies. Raises as `View.of`."""
    seen, (*_, depth) = pixels_of(view), view.parts
    try:
        start = [place.evaluate(sizes) for place in view.start]
        shape = tuple(max(0, prod(part.extent.evaluate(sizes) for part in parts)) for parts in view.parts)
        lying = [_lying(place, start[place.dimension], tensor, sizes) for place in seen.places]
        extents = [extent.evaluate(sizes) for _, extent in seen.examples]
        inner = depth[-1].extent.evaluate(sizes)
        filled = depth[-2].extent.evaluate(sizes) if seen.joined else 1
        row = depth[-2].there.evaluate(sizes) if seen.joined and depth[-2].there is not None else filled
    except KeyError:
        raise Unsupported(f"what is read of `{view.source.name}` moves with a loop's counter") from None
    held = depth[-2] if seen.joined else None  # behind the end of a row the descriptor has zeros
    if any(part.there is not None for parts in view.parts for part in parts if part is not held):
        raise ScatteredAxes(f"memory does not hold the zeros behind what is read of `{view.source.name}`")
    begin = 0
    if seen.joined:
        last, place = lying[-1], seen.places[-1]
        beside = tensor.shape[seen.channel] == inner == last.stride and start[seen.channel] == 0
        if not beside or last.lower < 0 or last.lower + (last.count - 1) * place.step + row > last.extent:
            raise ScatteredAxes(f"rows of windows of `{view.source.name}` do not lie side by side")
        begin = last.lower * inner
        lying[-1] = _Lying(last.count, place.step * inner, last.count, 0, 0, 1, 0)
    many, stride = _through_examples(view, seen, tensor, start, extents)
    found = Im2col(
        (many, *(one.extent for one in lying), tensor.shape[seen.channel] * row),
        (stride, *(one.stride for one in lying), tensor.strides[seen.channel]),
        tuple(one.lower for one in lying),
        tuple(one.upper for one in lying),
        tuple(one.step for one in lying),
        tuple(one.reach for one in lying),
        inner * filled if len(depth) > 1 else 0,
    )
    refused = found.refused(tensor.element)
    if refused is not None:
        raise ScatteredAxes(refused)
    pointer = tensor.pointer + begin * tensor.element.bits // 8
    return DeviceTensor(pointer, shape, (0,) * len(shape), tensor.element, found)


def _lying(place: PixelPlace, start: int, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> _Lying:
    extent, count = tensor.shape[place.dimension], max(1, place.pixels.evaluate(sizes))
    reach = max(0, place.reach.evaluate(sizes))
    upper = start + (count - 1) * place.step - (extent - 1)
    return _Lying(extent, tensor.strides[place.dimension], count, start, upper, place.step, reach)


def _through_examples(
    view: View, seen: Pixels, tensor: DeviceTensor, start: Sequence[int], extents: Sequence[int]
) -> tuple[int, int]:
    """How many examples there are, and the stride from one to the next. Of several dimensions all are seen whole, and memory steps
    through them as one."""
    if not seen.examples:
        return 1, 1
    if len(seen.examples) == 1:
        ((d, _),) = seen.examples
        return tensor.shape[d], tensor.strides[d]
    one = stepped([(extent, tensor.strides[d]) for (d, _), extent in zip(seen.examples, extents, strict=True)])
    steps = (part.step[d] for parts in view.parts for part in parts for d, _ in seen.examples)
    whole = all(start[d] == 0 and tensor.shape[d] == extent for (d, _), extent in zip(seen.examples, extents, strict=True))
    if one is None or not whole or any(step not in (ZERO, ONE) for step in steps):
        raise ScatteredAxes(f"memory does not step through several axes of `{view.source.name}` as one")
    return one
