"""Contractions over windows in register tiles, without BLAS: what is decided of one at sizes and strides, and its run.

    tiled    a contraction and its tensors -> how it is computed in register tiles, or None

Vectors run along an axis of one operand, where they are read as they lie; the other operand's elements are broadcast. So a window
is never copied out: neighbouring windows overlap in memory, and every place of the depth is an offset.

What is copied, once, is a tensor with padding around it, one of which windows take every so many-th element (each remainder becomes
a run of its own, in which neighbours lie side by side), and one in which neighbours along the vectors' axis lie apart.

Note [Along which axis]
    Mostly that along which the result lies side by side. But where it is short, most lanes of its vectors would be idle, and
    where an operand would have to be turned round for it, that may cost more than it gains: images of 6 x 6 pixels are better
    computed for all filters, or all images, at once, and one filter along a row of the image, also if channels lie innermost. So
    each axis of the result is asked what it would cost (`_ways`): tiles, lanes that are written apart, and copies. The cheapest is
    taken, unless BLAS would be cheaper still.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from itertools import pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from axon.backend.cpu import build
from axon.backend.cpu.arena import make
from axon.backend.cpu.launch import address, caller
from axon.backend.plan.ir import Contraction, Factor
from axon.backend.tiles import padding as padding_of
from axon.backend.tiles.places import Places, Vectors
from axon.backend.tiles.views import Dims, affine_of, range_of, view_of
from axon.base.data import dataclass
from axon.base.element import Element, of_dtype
from axon.base.names import Symbol
from axon.core.ir import Const

Array = Any
Axes = Sequence[Symbol]
Sizes = Mapping[Symbol, int]
SPARE = 16  # elements behind a copy that may be read, and are not kept
CHUNK = 256  # places of the depth that are added up in registers; then sums of sums
PIECES = 64
PIECE = 20_000  # what a piece computes at least, in additions
ADDITION = 1.5  # additions elsewhere in half a cycle

# In halves of a cycle:
COPIED = 2  # an element that is copied to its neighbour
TURNED = 6  # one that lies apart from it
BEGUN = 16  # a row of a copy
PACKED = 6  # a vector of which some lanes are kept
APART = 8  # a lane that is written apart from its neighbour
GATHERED = 6  # an element of a window that is copied out for BLAS
FILLED = 0.7  # of the lanes of BLAS's products
CALLED = 300_000  # what leads to BLAS


_NARROW = (Element.F16, Element.BF16, Element.F8E4M3, Element.F8E5M2)  # which kernels read as f32


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: what is made of its tensor (an array whose memory is read), where in that its elements are, and its cost."""

    of: Callable[[Array], Array]
    places: Places
    cost: int = 0
    ample: bool = False  # there is memory for a vector behind it


@dataclass(frozen=True, slots=True)
class Tiled:
    """A contraction in register tiles: operands and tables. A piece is a line of a table: the first element of the batch and the
    one after the last, and so of rows and of vectors."""

    left: Operand
    right: Operand
    swapped: bool  # the vectors are the left operand's
    element: Element
    tables: tuple[Array, ...]  # of the batch, of rows, of vectors, of the depth, of pieces
    call: Callable[..., object]  # of what is made of both operands, and the result

    def run(self, left: Array, right: Array, result: Array) -> None:
        """All pieces, each on one thread."""
        if self.swapped:
            left, right = right, left
        self.call(self.left.of(left), self.right.of(right), result)


@cache
def _native(element: Element, tiles: tuple[tuple[int, int], ...], apart: bool) -> build.Native:
    from axon.backend.tiles import microkernel  # late, as llvmlite is

    types = (element, element, element, *[Element.I64] * 5, *[None] * 6)
    return build.build(build.ModuleSource("tiles", microkernel.text(element.value, tiles, apart), types))


@dataclass(frozen=True, slots=True)
class _Way:
    """Vectors along an axis: whose they are, the operands, and what it costs. See Note [Along which axis]."""

    swapped: bool
    lines: Axes  # the axes of the operand whose elements are broadcast
    inner: Symbol
    spread: Operand
    along: Operand
    vectors: Vectors
    cost: int


def tiled(kernel: Contraction, left: Array, right: Array, dims: Dims, sizes: Sizes, result: Array) -> Tiled | None:
    """None where BLAS is cheaper, where the result is not kept in what is added up, or for other forms."""
    element = kernel.left.element.accumulator
    if kernel.op.outs[0].element is not element or element not in (Element.F32, Element.F64):
        return None
    from axon.backend.tiles import microkernel

    item = result.itemsize
    out = Places({axis.symbol: stride // item for axis, stride in zip(kernel.op.axes, result.strides, strict=True)})
    ways = list(_ways(kernel, (left, right), dims, sizes, out, microkernel.vector_bits() // (8 * item)))
    if not ways:
        return None
    way = min(ways, key=lambda way: way.cost)
    batch, depth = (tuple(a.symbol for a in axes) for axes in (kernel.batch, kernel.depth))
    lanes = microkernel.vector_bits() // (8 * item)
    if way.cost > _by_blas(kernel, sizes, lanes):
        return None
    spread, along = way.spread, way.along
    of_vectors = way.vectors.lines(sizes, along.places, out, lanes, microkernel.MOST, all_read=along.ample)
    of_batch = np.stack([places.of(batch, sizes) for places in (spread.places, along.places, out)], axis=-1)
    of_rows = np.stack([places.of(way.lines, sizes) for places in (spread.places, out)], axis=-1)
    of_depth = np.stack([o.places.of(depth, sizes, started=True) for o in (spread, along)], axis=-1)
    cost = int(ADDITION * (way.cost - spread.cost - along.cost))
    count = len(of_vectors) - microkernel.MOST
    tiles = microkernel.tiling(len(of_rows), count, len(of_depth))
    pieces = _pieces(len(of_batch), len(of_rows), count, tiles[0][2:], cost)
    tables = (of_batch, of_rows, of_vectors, of_depth, np.array(pieces, np.int64))
    kept = tuple(map(np.ascontiguousarray, tables))
    step = out.strides[way.inner]
    numbers = [*(address(table) for table in kept), tiles[0][1], len(of_depth), CHUNK, step]
    call = caller(_native(element, tuple(tile[2:] for tile in tiles), step != 1), 3, numbers, len(pieces), cost)
    return Tiled(spread, along, way.swapped, element, kept, call)


def _ways(kernel: Contraction, tensors: tuple[Array, Array], dims: Dims, sizes: Sizes, out: Places, lanes: int) -> Iterator[_Way]:
    """Vectors along each axis of the result that one operand has alone."""
    from axon.backend.tiles import microkernel

    factors = (kernel.left, kernel.right)
    batch, rows, columns, depth = (
        tuple(a.symbol for a in axes) for axes in (kernel.batch, kernel.rows, kernel.columns, kernel.depth)
    )
    deep, often = prod(sizes[s] for s in depth), prod(sizes[s] for s in batch)
    for swapped, lines, own in ((False, rows, columns), (True, columns, rows)):
        other, mine = (0, 1) if not swapped else (1, 0)
        runs = sorted((s for s in own if sizes[s] > 1), key=lambda s: -out.strides[s])
        spread = _as_it_lies(factors[other], tensors[other], dims, sizes) if runs else None
        for inner in runs:
            ordered = (*(s for s in runs if s != inner), inner)
            along = laid_along(factors[mine], tensors[mine], dims, sizes, batch, ordered)
            if along is None or spread is None:
                continue
            vectors = Vectors.of(ordered, sizes, along.places, out, lanes)
            high, count = prod(sizes[s] for s in lines), vectors.count(sizes)
            written = sum(
                APART * int(kept).bit_count() if out.strides[inner] != 1 else PACKED * (int(kept) != (1 << lanes) - 1)
                for kept in vectors.run[:, 3]
            )
            written *= count // len(vectors.run) * high * -(-deep // CHUNK)
            cost = often * (microkernel.cost(high, count, deep) + written) + spread.cost + along.cost
            yield _Way(swapped, lines, inner, spread, along, vectors, cost)


def _by_blas(kernel: Contraction, sizes: Sizes, lanes: int) -> float:
    """What a product of copies costs, of the operand that has the smaller copy."""
    batch, rows, columns, depth = (
        prod(sizes[a.symbol] for a in axes) for axes in (kernel.batch, kernel.rows, kernel.columns, kernel.depth)
    )
    products = batch * rows * columns * depth
    windows = max(rows, columns)
    return CALLED + GATHERED * batch * windows * depth + products / (FILLED * lanes)


def _pieces(batch: int, rows: int, lines: int, tile: tuple[int, int], cost: int) -> tuple[tuple[int, ...], ...]:
    """Parts of a batch; if these are few, of the vectors, and if those are few, of the rows. Sizes alone decide."""
    wanted = max(1, min(PIECES, cost // PIECE))
    high, wide = tile
    parts = [min(batch, wanted)]
    wanted = -(-wanted // parts[0])
    along = min(wanted, max(1, lines // (2 * wide)))
    across = min(-(-wanted // along), max(1, rows // high))
    cuts = [_cut(batch, parts[0], 1), _cut(rows, across, high), _cut(lines, along, wide)]
    return tuple((*b, *r, *v) for b in cuts[0] for r in cuts[1] for v in cuts[2])


def _cut(count: int, parts: int, unit: int) -> list[tuple[int, int]]:
    units = -(-count // unit)
    bounds = [min(count, units * i // parts * unit) for i in range(parts + 1)]
    return [(low, high) for low, high in pairwise(bounds) if high > low]


# ── operands ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _as_it_lies(factor: Factor, tensor: Array, dims: Dims, sizes: Sizes) -> Operand:
    """The operand whose elements are broadcast, in the order in which it lies."""
    shown = [Shown.of(offset, terms, sizes) for offset, terms in affine_of(factor, dims)]
    if not _is_outside(shown, tensor) and tensor.dtype == factor.element.accumulator.dtype:
        return _view(factor, tensor, dims, sizes)
    return _copy(factor, shown, tensor, 1, range(len(shown)))


def _view(factor: Factor, tensor: Array, dims: Dims, sizes: Sizes) -> Operand:
    source, view, memory = view_of(factor, tensor, dims, sizes)
    item = memory.itemsize
    return Operand(source.of, Places({s: stride // item for s, stride in view.strides.items()}))


def _is_outside(shown: Sequence[Shown], tensor: Array) -> bool:
    return any(one.low < 0 or one.last >= size for one, size in zip(shown, tensor.shape, strict=True))


def laid_along(factor: Factor, tensor: Array, dims: Dims, sizes: Sizes, batch: Axes, runs: Axes, most: int = 1) -> Operand | None:
    """The operand whose vectors are read: with neighbours along the innermost of its own axes side by side, or in a copy `most`
    elements apart; None if it has none."""
    shown = [Shown.of(offset, terms, sizes) for offset, terms in affine_of(factor, dims)]
    at = innermost(shown, batch, runs)
    if at is None:
        return None
    step = shown[at].terms[runs[-1]]
    held = factor.element.accumulator.dtype
    lies = tensor.dtype == held and tensor.strides[at] == tensor.itemsize and not _is_outside(shown, tensor)
    if lies and step == shown[at].gap == 1:
        return _view(factor, tensor, dims, sizes)
    above = [n for n, one in enumerate(shown) if n != at and runs[-2:-1] and runs[-2] in one.terms]
    order = (*(n for n in range(len(shown)) if n != at and n not in above), *above, at)
    return _copy(factor, shown, tensor, 1 if step <= most else step, order)


def laid_near(factor: Factor, tensor: Array, sizes: Sizes, runs: Axes, most: int) -> tuple[Operand, int] | None:
    """An operand as it lies, and how far apart neighbours along the innermost of its own axes are in it: so many elements at most;
    None if that would need a copy."""
    affine = affine_of(factor, {})
    shown = [Shown.of(offset, terms, sizes) for offset, terms in affine]
    at = innermost(shown, (), runs)
    if at is None or _is_outside(shown, tensor) or tensor.dtype != factor.element.accumulator.dtype:
        return None
    step = affine[at][1][runs[-1]]
    return (_view(factor, tensor, {}, sizes), step) if step <= most and tensor.strides[at] == tensor.itemsize else None


def innermost(shown: Sequence[Shown], batch: Axes, runs: Axes) -> int | None:
    """The dimension along which the innermost of an operand's own axes moves, if it alone does, among these, and forwards."""
    using = [n for n, one in enumerate(shown) if runs[-1] in one.terms]
    if len(using) != 1 or any(s in shown[using[0]].terms for s in (*batch, *runs[:-1])):
        return None
    return using[0] if shown[using[0]].terms[runs[-1]] >= 1 else None


@dataclass(frozen=True, slots=True)
class Shown:
    """Which indices along a dimension are read: so many from `low` on, each `gap` after the one before; the axes' steps in those,
    and where they begin."""

    low: int
    gap: int
    count: int
    terms: Mapping[Symbol, int]
    start: int

    @property
    def last(self) -> int:
        return self.low + self.gap * (self.count - 1)

    @staticmethod
    def of(offset: int, terms: Mapping[Symbol, int], sizes: Sizes) -> Shown:
        long = {s: c for s, c in terms.items() if sizes[s] > 1} or terms
        low, high = range_of(offset, long, sizes)
        gap = gcd(*long.values()) or 1
        return Shown(low, gap, (high - low) // gap + 1, {s: c // gap for s, c in long.items()}, (offset - low) // gap)

    def inside(self, size: int) -> tuple[int, int]:
        """Of those indices, by their number, the first and one after the last that a dimension of this size has."""
        first = max(0, -(self.low // self.gap)) if self.low < 0 else 0
        return first, max(first, min(self.count, (size - 1 - self.low) // self.gap + 1))


def _copy(factor: Factor, shown: Sequence[Shown], tensor: Array, step: int, order: Sequence[int]) -> Operand:
    padding = factor.read.padding
    value = padding.value if isinstance(padding, Const) else 0
    return _by_phases(shown, tensor.shape, step, value, factor.element.accumulator, order)


def _by_phases(
    shown: Sequence[Shown], sizes: Sequence[int], step: int, padding: float, held: Element, order: Sequence[int]
) -> Operand:
    """A copy of what is read, with padding around it, its dimensions in an order, and each remainder by `step` of the last of them
    as a run of its own."""
    sizes, shown = [sizes[n] for n in order], [shown[n] for n in order]
    shape = [one.count for one in shown]
    width = -(-shape[-1] // step)
    kept = (*shape[:-1], step, width)
    strides: dict[Symbol, int] = {}
    start = 0
    for n, one in enumerate(shown[:-1]):
        size = prod(kept[n + 1 :])
        start += one.start * size
        for s, coefficient in one.terms.items():
            strides[s] = strides.get(s, 0) + coefficient * size
    places = Places(strides, start, step, width, shown[-1].terms, shown[-1].start)
    into = [one.inside(size) for one, size in zip(shown, sizes, strict=True)]
    rows, size = prod(shape[:-1]), prod(kept)
    turned = order[-1] != len(order) - 1 or shown[-1].gap * step > 1
    cost = rows * step * BEGUN + size * (TURNED if turned else COPIED)
    copies: dict[tuple[Any, tuple[int, ...]], tuple[Callable[..., object], tuple[Array, ...]]] = {}  # and their tables

    ample, dtype = (size + SPARE,), held.dtype

    def of(tensor: Array) -> Array:
        made = make(ample, dtype)
        copy = copies.get((tensor.dtype, tensor.strides)) if tensor.flags.aligned else None
        if copy is not None:
            copy[0](made, tensor)
            return made
        element = of_dtype(tensor.dtype)
        if element is None or (element is not held and (held is not Element.F32 or element not in _NARROW)):
            tensor, element = tensor.astype(dtype), held
        item = tensor.itemsize
        if not tensor.flags.aligned or any(stride % item for stride in tensor.strides):
            tensor = np.array(tensor, order="C")
        strides = tuple(tensor.strides[n] // item for n in order)
        copy = copies.get((tensor.dtype, tensor.strides))
        if copy is None:
            start = sum(one.low * stride for one, stride in zip(shown, strides, strict=True))
            steps = [one.gap * stride for one, stride in zip(shown, strides, strict=True)]
            of_rows = padding_of.places(shape[:-1], into[:-1], steps[:-1], start)
            tables = (of_rows, padding_of.inside(*into[-1], step, width), np.array([padding], dtype))
            apart = shown[-1].gap * strides[-1]
            numbers = [*map(address, tables), step, width, apart * step, apart]
            call = caller(_padding(element, held), 2, numbers, rows, int(ADDITION * cost))
            copy = copies[tensor.dtype, tensor.strides] = (call, tables)
        copy[0](made, tensor)
        return made

    return Operand(of, places, cost, ample=True)


@cache
def _padding(element: Element, held: Element) -> build.Native:
    types = (held, element, Element.I64, Element.I64, held, *[None] * 6)
    return build.build(build.ModuleSource("pad", padding_of.text(element.value, held.value), types))
