"""Tensors as a kernel sees them: with one dimension for each index at which it steps through them.

    seen     a read at subscripts that are linear in the axes -> the same read at bare indices of a view
    stored   a tensor that is written at such subscripts -> the view that is written at bare indices

`t[b, i, 64 * h + c + 768]` reads the memory of `t` from element 768 on, in steps of `t`'s strides along b and i, of 64 along h and
of 1 along c: it is `v[b, i, h, c]` of a view, which bulk copies address as they do any tensor. A view has the extents of its
indices. So where a sum runs over a part of a dimension, what lies outside that part is outside the view, which copies fill with 0.

Several axes that a kernel steps through as one are *merged*: `v[i, m]` is `t[i, h, c]` with h = m / extent of c and c = m % it.
Memory shows such a view only where t's stride along h is that along c as many times as c goes. Whether it does is known with the
call; where it does not, the elements are copied first (see `runtime.packed`).

The last axis of a view may be a *window*: merged of several, of which the first moves along the same dimension as another axis,
as in `x[n, c, p + i, q + j]` along q and (j, i, c). Memory does not step through those as one, but through a copy it does that has
the dimension of q and j once, and behind it those of i and c: `copy[n, p, w, i, c]` with w = q + j, in which the windows of
neighbours overlap (Im2win, Lu et al. 2021, has such a copy of an image for each i, where im2col has one for each i and j). The
copy also holds the zeros of a padded read.

Or the last two axes of a view are *im2col*: the one before the last are pixels, merged of the indices at which windows begin, and
the last what a window shows there, merged of the indices that move within it and of channels. No strides express that, but copies
of pixels do, which the tensor memory accelerator has for convolutions: images lie with channels innermost, or are copied so, each
element once; what lies outside is 0. Where channels are few, a row of a window is *joined* with them: its pixels lie side by side,
and windows overlap as those of a copy do.

A subscript that is linear in no axis (`h / g`, a loop's counter) is an index of its own, which follows from the others: it is
*derived*, and its dimension stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from math import prod

from axon.backend.gpu.layout.memory import DeviceTensor, Im2col
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Const, Index, Read, Scalar, Select, Value
from axon.core.walk import rewrite
from axon.shapes.dimension import Dim, Quotient, dim_sum
from axon.shapes.width import of_dim

ZERO, ONE = Dim.of(0), Dim.of(1)


class ScatteredAxes(Unsupported):
    """Memory does not step through several axes as one; a copy of their elements could lie so."""


@dataclass(frozen=True, slots=True)
class Merge:
    """An axis that stands for several, the outermost first."""

    axis: Axis
    parts: tuple[Axis, ...]

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(part.symbol for part in self.parts)

    @property
    def indices(self) -> dict[Symbol, Dim]:
        """Where each of the several is, by the one."""
        index, found = Dim.of(self.axis.symbol), {}
        for part in reversed(self.parts[1:]):
            found[part.symbol], index = index % part.extent, index // part.extent
        return {**found, self.parts[0].symbol: index}

    def within(self, axes: Sequence[Symbol]) -> tuple[Symbol, ...] | None:
        """These axes with the one in place of the several; None if these are not side by side among them, in their order."""
        if self.symbols[0] not in axes:
            return None
        start = axes.index(self.symbols[0])
        end = start + len(self.parts)
        return (*axes[:start], self.axis.symbol, *axes[end:]) if tuple(axes[start:end]) == self.symbols else None


def merge(axes: Sequence[Axis]) -> Merge:
    """A new axis in place of several, the outermost first."""
    extent = prod((axis.extent for axis in axes), start=ONE)
    return Merge(Axis(fresh("_".join(axis.symbol.name for axis in axes)), extent), tuple(axes))


@dataclass(frozen=True, slots=True)
class AxisPart:
    """One of the axes that a merged axis stands for: how far it goes, and its step in each dimension of the source. Beyond what is
    `there` are zeros, whatever memory has there."""

    extent: Dim
    step: tuple[Dim, ...]
    there: Dim | None = None


@dataclass(frozen=True, slots=True)
class PixelPlace:
    """A dimension of images in which pixels lie: how many, their step, how many a window has there, and how far apart."""

    dimension: int
    pixels: Dim
    step: int
    window: Dim
    dilation: int


@dataclass(frozen=True, slots=True)
class Pixels:
    """What the dimensions of images are: those of examples with their extents, of which pixels go on through the innermost, those
    in which pixels lie, both outermost first, and channels. Of `joined` ones, the last of those in which pixels lie has a row of a
    window beside the channels."""

    examples: tuple[tuple[int, Dim], ...]
    places: tuple[PixelPlace, ...]
    channel: int
    joined: bool


MOST_SPATIAL = 3


@dataclass(frozen=True, slots=True)
class _Place:
    """A dimension of `Im2col`, and how many pixels lie there."""

    extent: int
    stride: int
    count: int
    lower: int
    upper: int
    step: int
    reach: int


def _place(place: PixelPlace, start: int, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> _Place:
    extent, count = tensor.shape[place.dimension], max(1, place.pixels.evaluate(sizes))
    reach = (max(1, place.window.evaluate(sizes)) - 1) * place.dilation
    upper = start + (count - 1) * place.step - (extent - 1)
    return _Place(extent, tensor.strides[place.dimension], count, start, upper, place.step, reach)


def _only(part: AxisPart) -> int:
    """The dimension that an axis steps through. Raises `Unsupported` where it is not one."""
    found = [d for d, step in enumerate(part.step) if step != ZERO]
    if len(found) != 1:
        raise Unsupported("a window that moves along several dimensions at once")
    return found[0]


def _extent_and_step(part: AxisPart | None, dimension: int) -> tuple[Dim, int]:
    return (ONE, 1) if part is None else (part.extent, part.step[dimension].constant or 0)


@dataclass(frozen=True, slots=True)
class View:
    """A tensor through other strides: its element at x is the source's at `start` + the sum of x[k] · step of the axis k.

    A step has a place for each dimension of the source. `axes` are the indices at which the view is read or stored. Each has one
    part, or is merged of several, the outermost first. Of a `window` the last axis is one, and outside of the source is `padding`.
    If it is `im2col`, the last two axes are pixels and what windows show there, of which a row may be `joined` with channels.
    """

    value: Value
    source: Symbol
    axes: tuple[Symbol, ...]
    parts: tuple[tuple[AxisPart, ...], ...]
    start: tuple[Dim, ...]
    window: bool = False
    padding: Const | None = None
    im2col: bool = False
    joined: bool = False

    @property
    def places(self) -> tuple[Dim, ...]:
        """Where in the source the view's element at its axes is."""
        terms = [self.start]
        for axis, parts in zip(self.axes, self.parts, strict=True):
            index = Dim.of(axis)
            for number, part in reversed(tuple(enumerate(parts))):
                own, index = (index % part.extent, index // part.extent) if number else (index, index)
                terms.append(tuple(step * own for step in part.step))
        return tuple(map(dim_sum, zip(*terms, strict=True)))

    def of(self, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> DeviceTensor:
        """The view of the source as it lies. Raises `Unsupported` if it moves with a loop's counter, which is no size here, and
        `ScatteredAxes` if memory does not step through the parts of an axis as one."""
        if self.im2col:
            return self._of_pixels(tensor, sizes)
        if self.padding is not None:
            raise ScatteredAxes(f"memory does not hold the padding of `{self.source.name}`")
        apart = self.unmerged(tensor, sizes)
        given = iter(zip(apart.shape, apart.strides, strict=True))
        whole = []
        for parts in self.parts:
            one = _merged([next(given) for _ in parts])
            if one is None:
                raise ScatteredAxes(f"memory does not step through several axes of `{self.source.name}` as one")
            whole.append(one)
        return DeviceTensor(apart.pointer, tuple(n for n, _ in whole), tuple(step for _, step in whole), tensor.element)

    @property
    def pixels(self) -> Pixels:
        """What the dimensions of images are. Raises `Unsupported` where copies of pixels cannot step through them so."""
        *outer, rows, depth = self.parts
        channel = _only(depth[-1])
        own = {_only(part): part for part in rows}
        within = {_only(part): part for part in depth[:-1]}
        apart = {d: part.extent for (part,) in outer for d, step in enumerate(part.step) if step != ZERO and d != channel}
        first = _only(rows[0])
        if first not in within and rows[0].step[first] == ONE:
            apart.pop(first, None)  # pixels go on through it: it is the innermost
            apart[first] = own.pop(first).extent
        alone = all(sum(part.step[d] != ZERO for parts in self.parts for part in parts) == 1 for d in apart)
        spatial = [d for d in range(len(self.start)) if d not in (*own, *apart, channel)] + list(own)
        steps = [part.step[d].constant for parts in (own, within) for d, part in parts.items()]
        plain = len(own) + (first in apart) == len(rows) and len(within) == len(depth) - 1 and depth[-1].step[channel] == ONE
        beside = not self.joined or (spatial and _only(depth[-2]) == spatial[-1] and depth[-2].step[spatial[-1]] == ONE)
        if not (plain and beside and alone and {channel, *apart}.isdisjoint((*within, *own))):
            raise Unsupported(f"windows of `{self.source.name}` that copies of pixels do not step through")
        if not 1 <= len(spatial) <= MOST_SPATIAL or any(step is None or step <= 0 for step in steps):
            raise Unsupported(f"windows of `{self.source.name}` that copies of pixels do not step through")
        places = tuple(PixelPlace(d, *_extent_and_step(own.get(d), d), *_extent_and_step(within.get(d), d)) for d in spatial)
        return Pixels(tuple(sorted(apart.items(), key=lambda item: (item[0] == first, item[0]))), places, channel, self.joined)

    def _of_pixels(self, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> DeviceTensor:
        """See `of`."""
        seen, of = self.pixels, self.parts[-1]
        try:
            start = [place.evaluate(sizes) for place in self.start]
            shape = tuple(max(0, prod(part.extent.evaluate(sizes) for part in parts)) for parts in self.parts)
            places = [_place(place, start[place.dimension], tensor, sizes) for place in seen.places]
            examples = _merged([(extent.evaluate(sizes), tensor.strides[d]) for d, extent in seen.examples] or [(1, 1)])
            channels, depth = tensor.shape[seen.channel], of[-1].extent.evaluate(sizes)
            row = (of[-2].there or of[-2].extent).evaluate(sizes) if seen.joined else 1
            begin = 0
            if seen.joined:
                place, depth = seen.places[-1], depth * of[-2].extent.evaluate(sizes)
                beside = channels == of[-1].extent.evaluate(sizes) == tensor.strides[place.dimension] and start[seen.channel] == 0
                first, last = start[place.dimension], start[place.dimension] + (places[-1].count - 1) * place.step + row
                if not beside or first < 0 or last > tensor.shape[place.dimension]:
                    raise ScatteredAxes(f"rows of windows of `{self.source.name}` do not lie side by side")
                begin, stride = first * channels, place.step * channels
                places[-1] = _Place(places[-1].count, stride, places[-1].count, 0, 0, 1, 0)
        except KeyError:
            raise Unsupported(f"what is read of `{self.source.name}` moves with a loop's counter") from None
        several = seen.examples if len(seen.examples) > 1 else ()
        unit = all(step in (ZERO, ONE) for parts in self.parts for part in parts for d, _ in several for step in (part.step[d],))
        whole = unit and all(start[d] == 0 and tensor.shape[d] == extent.evaluate(sizes) for d, extent in several)
        if examples is None or not whole:
            raise ScatteredAxes(f"memory does not step through several axes of `{self.source.name}` as one")
        if any(part.there is not None for parts in self.parts for part in parts if not (seen.joined and part is of[-2])):
            raise ScatteredAxes(f"memory does not hold the zeros behind what is read of `{self.source.name}`")
        found = Im2col(
            (
                examples[0] if len(seen.examples) != 1 else tensor.shape[seen.examples[0][0]],
                *(p.extent for p in places),
                channels * row,
            ),
            (examples[1], *(p.stride for p in places), tensor.strides[seen.channel]),
            tuple(p.lower for p in places),
            tuple(p.upper for p in places),
            tuple(p.step for p in places),
            tuple(p.reach for p in places),
            depth,
        )
        refused = found.refused(tensor.element)
        if refused is not None:
            raise ScatteredAxes(refused)
        pointer = tensor.pointer + begin * tensor.element.bits // 8
        return DeviceTensor(pointer, shape, (0,) * len(shape), tensor.element, found)

    def overlaps(self, symbol: Symbol, summed: Set[Symbol]) -> bool:
        """Whether a summed axis moves a window: it goes forwards along one dimension, by a constant step, and along the same one
        other axis, of the result, by a multiple of that. (Each has one part.)"""
        own = dict(zip(self.axes, self.parts, strict=True))
        found = [(d, step.constant) for d, step in enumerate(own[symbol][0].step) if step != ZERO]
        if len(found) != 1 or len(own[symbol]) != 1 or (unit := found[0][1] or 0) <= 0:
            return False
        along = found[0][0]
        others = [s for s, parts in own.items() if s != symbol and any(part.step[along] != ZERO for part in parts)]
        if len(others) != 1 or len(own[others[0]]) != 1 or others[0] in summed:
            return False
        step = own[others[0]][0].step[along].constant
        return step is not None and step > 0 and step % unit == 0

    def reached(self, sizes: Mapping[Symbol, int]) -> int:
        """How many elements of the source lie between the first and the last that it shows, along each dimension. Raises KeyError
        if it moves with a loop's counter."""
        ends = [1] * len(self.start)
        for part in (part for parts in self.parts for part in parts):
            for d, step in enumerate(part.step):
                ends[d] += abs(step.evaluate(sizes)) * max(0, part.extent.evaluate(sizes) - 1)
        return prod(ends)

    def unmerged(self, tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> DeviceTensor:
        """The same with a dimension for each part of an axis. Raises `Unsupported` if it moves with a loop's counter."""
        try:
            shape = tuple(max(0, part.extent.evaluate(sizes)) for parts in self.parts for part in parts)
            strides = tuple(_along(part.step, tensor, sizes) for parts in self.parts for part in parts)
            start = _along(self.start, tensor, sizes)
        except KeyError:
            raise Unsupported(f"what is read of `{self.source.name}` moves with a loop's counter") from None
        return DeviceTensor(tensor.pointer + start * max(8, tensor.element.bits) // 8, shape, strides, tensor.element)


def _merged(parts: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The extent and the stride of an axis from those of its parts, the outermost first; None where they do not go on as one."""
    extent, stride = parts[-1]
    for times, step in reversed(parts[:-1]):
        if extent == 1 < times:
            stride = step
        elif times > 1 and extent and step != extent * stride:
            return None
        extent *= times
    return extent, stride


def _along(step: Iterable[Dim], tensor: DeviceTensor, sizes: Mapping[Symbol, int]) -> int:
    return sum(d.evaluate(sizes) * stride for d, stride in zip(step, tensor.strides, strict=True))


def with_views(
    views: Iterable[View], tensors: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]
) -> dict[Symbol, DeviceTensor]:
    """The tensors as they lie, views among them."""
    return {**tensors, **{view.value.symbol: view.of(tensors[view.source], sizes) for view in views}}


class Views:
    """The views that one kernel needs, made as its reads are looked at; equal reads see the same view."""

    def __init__(self, values: Mapping[Symbol, Value], axes: Iterable[Axis]) -> None:
        self.values = values
        self.extents = {axis.symbol: axis.extent for axis in axes}
        self.made: dict[tuple[Symbol, tuple[Dim, ...]], tuple[View | None, Read]] = {}
        self.by_dim: dict[Dim, Symbol] = {}

    def copy(self) -> Views:
        """To go on from here, and perhaps to come back."""
        other = Views(self.values, ())
        other.extents, other.made, other.by_dim = self.extents, dict(self.made), dict(self.by_dim)
        return other

    @property
    def all(self) -> tuple[View, ...]:
        return tuple(view for view, _ in self.made.values() if view is not None)

    @property
    def derived(self) -> tuple[tuple[Symbol, Dim], ...]:
        """The indices that follow from others, and how."""
        return tuple((symbol, dim) for dim, symbol in self.by_dim.items())

    def value(self, symbol: Symbol) -> Value:
        """A tensor, or a view that was seen."""
        return next((view.value for view in self.all if view.value.symbol == symbol), None) or self.values[symbol]

    def seen(self, read: Read, *, padded: bool = False) -> Read | None:
        """The read at bare indices, of the tensor itself where it is read so as a whole; None if no strides express it. One that is
        `padded` with a constant is one of a view that has to be copied."""
        subscripts = tuple(s for s in read.subscripts if isinstance(s, Dim))
        if read.checked is not None or len(subscripts) != len(read.subscripts):
            return None
        if read.padding is not None and not (padded and isinstance(read.padding, Const)):
            return None
        if read.tensor not in self.values:
            return None
        key = read.tensor, subscripts
        if key not in self.made:
            self.made[key] = self._look(read, subscripts)
        return self.made[key][1]

    def view(self, read: Read) -> View:
        """The view that a read at bare indices is of; of a tensor by itself, one that shows all of it."""
        found = next((view for view in self.all if view.value.symbol == read.tensor), None)
        at = tuple(s.symbol for s in read.subscripts if isinstance(s, Dim) and s.symbol)
        return found or _itself(self.values[read.tensor], at)

    def bare(self, scalar: Scalar, *, guarded: bool = False) -> Scalar:
        """The scalar with its reads at bare indices, as far as that goes.

        A kernel loads what it may need before it knows whether it does. So a read that a condition guards (all of them, if
        `guarded`) is left as it is, unless it is inside the tensor for all indices.
        """

        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Read():
                    return self.seen(node) if not guarded or self._inside(node) else None
                case Select(condition=condition, then=then, otherwise=otherwise):
                    inner = (self.bare(branch, guarded=True) for branch in (then, otherwise))
                    return Select(self.bare(condition, guarded=guarded), *inner)
                case Binary(op="and" | "or" as op, left=left, right=right):
                    return Binary(op, self.bare(left, guarded=guarded), self.bare(right, guarded=True))
                case _:
                    return None

        return rewrite(scalar, visit)

    def _inside(self, read: Read) -> bool:
        """Whether a read is seen to be inside its tensor wherever the kernel's axes are."""
        if read.tensor not in self.values:
            return False
        for subscript, size in zip(read.subscripts, self.values[read.tensor].shape, strict=True):
            ends = self._ends(subscript) if isinstance(subscript, Dim) else None
            if ends is None or of_dim(ends[0])[0] < 0 or of_dim(size - 1 - ends[1])[0] < 0:
                return False
        return True

    def _ends(self, subscript: Dim) -> tuple[Dim, Dim] | None:
        """The least and the greatest value of a subscript over the axes, if it rises or falls along each of them."""
        atom = subscript.atom
        if isinstance(atom, Quotient) and atom.divisor.variables.isdisjoint(self.extents):
            ends = self._ends(atom.dividend)
            return None if ends is None else (ends[0] // atom.divisor, ends[1] // atom.divisor)
        found = _linear(subscript, self.extents)
        if found is None:
            return None
        steps, least = found
        greatest = least
        for axis, step in steps.items():
            low, high = of_dim(step)
            if low < 0 < high:
                return None
            far = step * (self.extents[axis] - 1)
            least, greatest = (least, greatest + far) if low >= 0 else (least + far, greatest)
        return least, greatest

    def _look(self, read: Read, subscripts: tuple[Dim, ...]) -> tuple[View | None, Read]:
        shape = self.values[read.tensor].shape
        steps: dict[Symbol, dict[int, Dim]] = {}
        extents: dict[Symbol, Dim] = {}
        start = [ZERO] * len(shape)
        for d, subscript in enumerate(subscripts):
            found = _linear(subscript, self.extents)
            if found is None:
                index = self._derived(subscript)
                steps.setdefault(index, {})[d] = ONE
                extents[index] = shape[d]
                continue
            terms, start[d] = found
            # The smallest step last, as memory lies.
            for index, step in sorted(terms.items(), key=lambda item: (item[1] == ONE, item[1].constant is not None)):
                steps.setdefault(index, {})[d] = step
                extents[index] = self.extents[index]
        at = tuple(map(Dim.of, steps))
        whole = tuple(extents.values()) == shape and all(part == ZERO for part in start)
        if whole and list(steps.values()) == [{d: ONE} for d in range(len(shape))]:
            return None, Read(read.tensor, at, read.element)
        value = Value(fresh(f"{read.tensor.name}_view"), read.element, tuple(extents.values()))
        full = tuple(
            (AxisPart(extents[index], tuple(step.get(d, ZERO) for d in range(len(shape)))),) for index, step in steps.items()
        )
        padding = read.padding if isinstance(read.padding, Const) else None
        return View(value, read.tensor, tuple(steps), full, tuple(start), padding=padding), Read(value.symbol, at, read.element)

    def merged(self, read: Read, merge: Merge, *, window: bool = False) -> Read:
        """A read at bare indices with one index in place of the several of which it is merged: the last one of a `window`. Where
        one of the several goes further than it did, there are zeros."""
        seen = self.view(read)
        parts = dict(zip(seen.axes, seen.parts, strict=True))
        whole = tuple(part for a in merge.symbols for part in parts[a])
        longer = (
            [n for n, axis in enumerate(merge.parts) if whole[n].extent != axis.extent] if len(whole) == len(merge.parts) else []
        )
        whole = tuple(self._longer(seen, part, merge.parts[n].extent) if n in longer else part for n, part in enumerate(whole))
        last = max(merge.symbols, key=seen.axes.index)  # where the one stands
        axes = [merge.axis.symbol if a == last else a for a in seen.axes if a == last or a not in merge.symbols]
        if window:
            axes = [*(a for a in axes if a != merge.axis.symbol), merge.axis.symbol]
        along = {a: parts.get(a, whole) for a in axes}
        view = replace(_through(seen, along, read.element), window=window)
        if longer and view.padding is None:
            view = replace(view, padding=Const(0.0, read.element))
        if seen.padding is not None:  # no kernel reads it as it was
            self.made = {key: made for key, made in self.made.items() if made[0] is not seen}
        made = Read(view.value.symbol, tuple(map(Dim.of, along)), read.element)
        return self.made.setdefault((seen.source, (*view.places, *map(Dim.of, along))), (view, made))[1]

    def im2col(self, read: Read, rows: Symbol, depth: Symbol, *, joined: bool) -> Read:
        """A read at bare indices, of which these are pixels and what windows show there, perhaps a row `joined` with channels.
        Raises `Unsupported` where copies of pixels do not step through the tensor so."""
        seen = self.view(read)
        axes = (*(a for a in seen.axes if a not in (rows, depth)), rows, depth)
        along = dict(zip(seen.axes, seen.parts, strict=True))
        view = replace(_through(seen, {a: along[a] for a in axes}, read.element), im2col=True, joined=joined)
        assert view.pixels
        made = Read(view.value.symbol, tuple(map(Dim.of, axes)), read.element)
        self.made[seen.source, (*view.places, *map(Dim.of, axes), ONE)] = view, made
        return made

    def keep(self, read: Set[Symbol]) -> None:
        """Forget the views that are none of these: what they were made for is read through others."""
        self.made = {key: (view, made) for key, (view, made) in self.made.items() if view is None or view.value.symbol in read}

    def _longer(self, seen: View, part: AxisPart, extent: Dim) -> AxisPart:
        """A part that goes on beyond its end, where that is the end of the source or what is there is not to be seen."""
        (d, *more) = (d for d, step in enumerate(part.step) if step != ZERO)
        others = sum(other.step[d] != ZERO for parts in seen.parts for other in parts)
        size = self.values[seen.source].shape[d] if seen.source in self.values else None
        ends = not more and others == 1 and seen.start[d] == ZERO and part.step[d] == ONE and size == part.extent
        return replace(part, extent=extent, there=None if ends else part.extent)

    def _derived(self, dim: Dim) -> Symbol:
        if dim.symbol is not None and dim.symbol in self.by_dim.values():
            return dim.symbol  # an expression is looked at again when another operation takes it in
        like = min(dim.variables, key=lambda s: (s not in self.extents, s.id), default=None)
        return self.by_dim.setdefault(dim, fresh(like.name if like else "index"))


def _itself(value: Value, axes: tuple[Symbol, ...]) -> View:
    """A tensor that is read or stored at bare indices, as a view."""
    unit = tuple(tuple(ONE if d == k else ZERO for d in range(len(value.shape))) for k in range(len(value.shape)))
    parts = tuple((AxisPart(extent, step),) for extent, step in zip(value.shape, unit, strict=True))
    return View(value, value.symbol, axes, parts, (ZERO,) * len(value.shape))


def _through(seen: View, along: Mapping[Symbol, tuple[AxisPart, ...]], element: Element) -> View:
    """What a view shows, through another with these axes."""
    shape = tuple(prod((part.extent for part in parts), start=ONE) for parts in along.values())
    value = Value(fresh(f"{seen.source.name}_view"), element, shape)
    return View(value, seen.source, tuple(along), tuple(along.values()), seen.start, padding=seen.padding)


def _linear(subscript: Dim, axes: Mapping[Symbol, Dim]) -> tuple[dict[Symbol, Dim], Dim] | None:
    """The steps of a subscript along each axis in it, and the rest; None where it is not linear, or has no axis but a size."""
    steps: dict[Symbol, Dim] = {}
    rest = subscript
    for axis in sorted(subscript.variables & axes.keys(), key=lambda s: s.id):
        found = rest.linear_in(axis)
        if found is None:
            return None
        steps[axis], rest = found
    if any(not step.variables.isdisjoint(axes) for step in (*steps.values(), rest)):
        return None
    return None if not steps and rest.constant is None else (steps, rest)


def stored(value: Value, subscripts: Iterable[Dim], extents: Mapping[Symbol, Dim], axes: tuple[Symbol, ...]) -> View:
    """The view of a tensor whose elements at these subscripts are made at `axes`, each once, and all of them."""
    found = [_linear(subscript, extents) for subscript in subscripts]
    assert all(found), "a place that is not linear"
    parts = tuple((AxisPart(extents[axis], tuple(terms.get(axis, ZERO) for terms, _ in filter(None, found))),) for axis in axes)
    start = tuple(rest for _, rest in filter(None, found))
    shown = Value(fresh(f"{value.symbol.name}_view"), value.element, tuple(extents[a] for a in axes))
    return View(shown, value.symbol, axes, parts, start)


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
        if len(self.parts) == len(self.dimensions) and all(len(parts) == 1 for parts in self.parts):
            return None
        value = Value(fresh(f"{copy.symbol.name}_view"), copy.element, tuple(map(_extent, self.parts)))
        return View(value, copy.symbol, axes, self.parts, (ZERO,) * len(self.dimensions), im2col=self.im2col, joined=self.joined)


def _extent(parts: Iterable[AxisPart]) -> Dim:
    return prod((part.extent for part in parts), start=ONE)


def spread(value: Value, view: View | None, order: Sequence[int]) -> CopyLayout:
    """A copy with a tensor's dimensions, or those of a view of one, in this order."""
    seen = view or _itself(value, ())
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
    pixels, of = seen.pixels, seen.parts[-1]
    rank = len(seen.start)
    parts = [part for parts in seen.parts for part in parts]
    groups = [part for part in parts if part is not of[-1] and part.step[pixels.channel] != ZERO]
    dimensions, at = list(groups), {}
    for d, _ in pixels.examples:
        at[d] = len(dimensions)
        dimensions.append(next(part for part in parts if part.step[d] != ZERO))
    for place in pixels.places:
        at[place.dimension] = len(dimensions)
        reach = place.step * (place.pixels - 1) + place.dilation * (place.window - 1) + 1
        dimensions.append(AxisPart(reach, _along_one(place.dimension, ONE, rank)))
    at[pixels.channel] = len(dimensions)
    dimensions.append(of[-1])

    def moved(part: AxisPart) -> AxisPart:
        if part in groups:
            return AxisPart(part.extent, _along_one(groups.index(part), ONE, len(dimensions)))
        d = _only(part)
        step = ONE if any(d == example for example, _ in pixels.examples) else part.step[d]
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


def stored_merged(value: Value, axes: Sequence[Symbol], merges: Iterable[Merge]) -> View | None:
    """The view of a tensor that is stored at bare indices, with one index in place of several; None if these are not side by side
    among its own."""
    seen = _itself(value, tuple(axes))
    along = dict(zip(seen.axes, seen.parts, strict=True))
    for merge in merges:
        within = merge.within(tuple(along))
        if within is None:
            return None
        whole = tuple(part for axis in merge.symbols for part in along[axis])
        along = {axis: whole if axis == merge.axis.symbol else along[axis] for axis in within}
    return _through(seen, along, value.element)
