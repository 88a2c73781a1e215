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

from axon.backend.gpu.layout.axes import ONE, ZERO, AxisPart, Merge, ScatteredAxes, stepped
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.pixels import addressed, pixels_of
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Const, Read, Scalar, Select, Value
from axon.core.walk import rewrite
from axon.shapes.dimension import Dim, Quotient, dim_sum
from axon.shapes.width import of_dim


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
            return addressed(self, tensor, sizes)
        if self.padding is not None:
            raise ScatteredAxes(f"memory does not hold the padding of `{self.source.name}`")
        apart = self.unmerged(tensor, sizes)
        given = iter(zip(apart.shape, apart.strides, strict=True))
        whole = []
        for parts in self.parts:
            one = stepped([next(given) for _ in parts])
            if one is None:
                raise ScatteredAxes(f"memory does not step through several axes of `{self.source.name}` as one")
            whole.append(one)
        shape, strides = tuple(n for n, _ in whole), tuple(step for _, step in whole)
        spare = tensor.spare if tensor.spare and self._has_rows(shape, tensor) else 0
        return DeviceTensor(apart.pointer, shape, strides, tensor.element, spare=spare)

    def _has_rows(self, shape: tuple[int, ...], tensor: DeviceTensor) -> bool:
        """Whether its rows are the source's, from the first element to the last."""
        *outer, row = (part for parts in self.parts for part in parts)
        own = len(self.parts[-1]) == 1 and row.step[-1] == ONE and all(step == ZERO for step in row.step[:-1])
        others = all(part.step[-1] == ZERO for part in outer)
        return own and others and self.start[-1] == ZERO and shape[-1] == tensor.shape[-1]

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
        return found or itself(self.values[read.tensor], at)

    def bare(self, scalar: Scalar, *, guarded: bool = False) -> Scalar:
        """The scalar with its reads at bare indices, as far as that goes.

        A kernel loads what it may need before it knows whether it does. So a read that a condition guards (all of them, if
        `guarded`) is left as it is, unless it is inside the tensor for all indices.
        """

        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Read():
                    return self.seen(node) if not guarded or self.inside(node) else None
                case Select(condition=condition, then=then, otherwise=otherwise):
                    inner = (self.bare(branch, guarded=True) for branch in (then, otherwise))
                    return Select(self.bare(condition, guarded=guarded), *inner)
                case Binary(op="and" | "or" as op, left=left, right=right):
                    return Binary(op, self.bare(left, guarded=guarded), self.bare(right, guarded=True))
                case _:
                    return None

        return rewrite(scalar, visit)

    def inside(self, read: Read) -> bool:
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
        view = replace(through(seen, along, read.element), window=window)
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
        view = replace(through(seen, {a: along[a] for a in axes}, read.element), im2col=True, joined=joined)
        pixels_of(view)
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


def itself(value: Value, axes: tuple[Symbol, ...]) -> View:
    """A tensor that is read or stored at bare indices, as a view."""
    unit = tuple(tuple(ONE if d == k else ZERO for d in range(len(value.shape))) for k in range(len(value.shape)))
    parts = tuple((AxisPart(extent, step),) for extent, step in zip(value.shape, unit, strict=True))
    return View(value, value.symbol, axes, parts, (ZERO,) * len(value.shape))


def through(seen: View, along: Mapping[Symbol, tuple[AxisPart, ...]], element: Element) -> View:
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


def stored_merged(value: Value, axes: Sequence[Symbol], merges: Iterable[Merge]) -> View | None:
    """The view of a tensor that is stored at bare indices, with one index in place of several; None if these are not side by side
    among its own."""
    seen = itself(value, tuple(axes))
    along = dict(zip(seen.axes, seen.parts, strict=True))
    for merge in merges:
        within = merge.within(tuple(along))
        if within is None:
            return None
        whole = tuple(part for axis in merge.symbols for part in along[axis])
        along = {axis: whole if axis == merge.axis.symbol else along[axis] for axis in within}
    return through(seen, along, value.element)
