"""Tensors as others are read: what reshapes, transpositions and selections make of the result of a step.

An axis of a view is a product of digits, the last running fastest, as `(i, c)` is in Axon; so is a dimension of what it reads.
A reshape only takes digits apart and puts them together, a transposition moves them, and what one undoes of another is gone:
splitting features into heads and merging them again is the identity before anything is written. A digit that nothing reads
stretches; one that is read but stands in no axis is fixed at a place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Digit:
    """One index, with so many places."""

    symbol: Symbol
    extent: Dim


@dataclass(frozen=True, slots=True)
class Fixed:
    """A digit at one place."""

    place: Dim
    extent: Dim


Digits: TypeAlias = "tuple[Digit, ...]"


@dataclass(frozen=True, slots=True)
class View:
    """What is read of a step's result, times a number: `scale` goes along until something cannot be done before it."""

    step: int
    reads: tuple[tuple[Digit | Fixed, ...], ...]  # of each dimension of the result
    axes: tuple[Digits, ...]
    scale: float = 1.0

    @property
    def shape(self) -> tuple[Dim, ...]:
        return tuple(product(axis) for axis in self.axes)

    @property
    def whole(self) -> bool:
        """Whether it is the result itself, but for the scale."""
        return self.reads == self.axes

    @property
    def stretched(self) -> bool:
        read = {d for r in self.reads for d in r}
        return any(d not in read for axis in self.axes for d in axis)

    @property
    def fixed(self) -> bool:
        return any(isinstance(d, Fixed) for r in self.reads for d in r)


def leading(digits: Sequence[Digit | Fixed]) -> bool:
    """Whether what is fixed of a dimension comes first, so that what is left is one part of it."""
    free = [i for i, d in enumerate(digits) if isinstance(d, Digit)]
    return not free or all(isinstance(d, Digit) for d in digits[free[0] :])


def product(digits: Iterable[Digit | Fixed]) -> Dim:
    total = Dim.of(1)
    for digit in digits:
        total *= digit.extent
    return total


def digit(extent: Dim) -> Digit:
    return Digit(fresh("i"), extent)


def of(step: int, shape: Sequence[Dim]) -> View:
    """All of a result. A dimension of 1 has a digit as well, so that it is read as it is."""
    axes = tuple((digit(extent),) for extent in shape)
    return View(step, axes, axes)


def _split(view: View, images: Mapping[Digit, Digits]) -> View:
    def image(digits: tuple[Digit | Fixed, ...]) -> tuple[Digit | Fixed, ...]:
        return tuple(new for d in digits for new in (images.get(d, (d,)) if isinstance(d, Digit) else (d,)))

    def plain(digits: Digits) -> Digits:
        return tuple(new for d in digits for new in images.get(d, (d,)))

    return replace(view, reads=tuple(map(image, view.reads)), axes=tuple(map(plain, view.axes)))


def reshaped(view: View, shape: Sequence[Dim]) -> View | None:
    """The same elements in another shape; None where no digits can be taken apart that way."""
    images: dict[Digit, Digits] = {}
    waiting = [d for axis in reversed(view.axes) for d in reversed(axis)]
    axes: list[Digits] = []
    for extent in shape:
        need, taken = extent, list[Digit]()
        while need != Dim.of(1):
            while waiting and waiting[-1].extent == Dim.of(1):
                waiting.pop()
            if not waiting:
                return None
            next_ = waiting.pop()
            rest = exact_quotient(need, next_.extent)
            if rest is not None:
                taken.append(next_)
                need = rest
                continue
            rest = exact_quotient(next_.extent, need)
            if rest is None:
                return None
            high, low = digit(need), digit(rest)
            images = {d: tuple(x for i in image for x in ((high, low) if i == next_ else (i,))) for d, image in images.items()}
            images[next_] = (high, low)
            taken.append(high)
            waiting.append(low)
            need = Dim.of(1)
        axes.append(tuple(taken))
    if any(d.extent != Dim.of(1) for d in waiting):
        return None
    gone = {d: () for d in (d for axis in view.axes for d in axis) if d.extent == Dim.of(1)}
    return _split(_without(replace(view, axes=tuple(axes)), gone), images)


def _without(view: View, gone: Mapping[Digit, Digits]) -> View:
    """Digits of one place that no axis has any longer are read at 0."""
    kept = {d for axis in view.axes for d in axis}

    def image(d: Digit | Fixed) -> Digit | Fixed:
        return Fixed(Dim.of(0), Dim.of(1)) if isinstance(d, Digit) and d in gone and d not in kept else d

    return replace(view, reads=tuple(tuple(map(image, r)) for r in view.reads))


def transposed(view: View, order: Sequence[int]) -> View:
    return replace(view, axes=tuple(view.axes[i] for i in order))


def inserted(view: View, places: Iterable[int]) -> View:
    """With axes of one place, where they stand in the result."""
    axes = list(view.axes)
    for place in sorted(places):
        axes.insert(place, ())
    return replace(view, axes=tuple(axes))


def removed(view: View, places: Iterable[int]) -> View:
    """Without axes, which have one place each."""
    gone = {*places}
    dropped = {d: () for i in gone for d in view.axes[i]}
    return _without(replace(view, axes=tuple(axis for i, axis in enumerate(view.axes) if i not in gone)), dropped)


def expanded(view: View, shape: Sequence[Dim]) -> View:
    """Axes of one place stretched, and new ones before."""
    axes = [()] * (len(shape) - len(view.axes)) + [*view.axes]
    dropped: dict[Digit, Digits] = {}
    for i, extent in enumerate(shape):
        if product(axes[i]) == Dim.of(1) and extent != Dim.of(1):
            dropped |= dict.fromkeys(axes[i], ())
            axes[i] = (digit(extent),)
    return _without(replace(view, axes=tuple(axes)), dropped)


def selected(view: View, axis: int, place: Dim) -> View:
    """One place of an axis, which is gone."""
    images: dict[Digit, Fixed] = {}
    rest = place
    for d in reversed(view.axes[axis]):
        images[d] = Fixed(rest if d is view.axes[axis][0] else rest % d.extent, d.extent)
        rest = rest // d.extent if d is not view.axes[axis][0] else rest
    reads = tuple(tuple(images.get(d, d) if isinstance(d, Digit) else d for d in r) for r in view.reads)
    return replace(view, reads=reads, axes=view.axes[:axis] + view.axes[axis + 1 :])


def sliced(view: View, axis: int, start: Dim, count: Dim) -> View | None:
    """A part of an axis where its places are those of a digit: the second third of 3 * d. None where they are not."""
    if len(view.axes[axis]) != 1:
        return None
    (whole,) = view.axes[axis]
    if whole.extent == count:
        return view
    parts, which = exact_quotient(whole.extent, count), exact_quotient(start, count)
    if parts is None or which is None or which.constant is None:
        return None
    high, low = digit(parts), digit(count)
    split = _split(view, {whole: (high, low)})
    reads = tuple(tuple(Fixed(which, parts) if d == high else d for d in r) for r in split.reads)
    return replace(split, reads=reads, axes=(*split.axes[:axis], (low,), *split.axes[axis + 1 :]))
