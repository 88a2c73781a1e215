"""Contractions over windows in register tiles, without BLAS: what is decided of one at sizes and strides, and its run.

    tiled    a contraction and its tensors -> how it is computed in register tiles, or None

The result's contiguous axis belongs to one operand, whose vectors are read where they lie; the other operand's elements are
broadcast. So a window is never copied out: neighbouring windows overlap in memory, and every place of the depth is an offset.

What is copied, once, is a tensor with padding around it, one of which windows take every so many-th element (each remainder becomes
a run of its own, in which neighbours lie side by side), and filters of which the wrong axis is contiguous.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from itertools import pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from axon.backend.cpu import build, threads
from axon.backend.cpu.arena import make
from axon.backend.plan.ir import Contraction, Factor
from axon.backend.tiles import padding as padding_of
from axon.backend.tiles.places import Places, vectors
from axon.backend.tiles.views import Dims, affine_of, range_of, view_of
from axon.base.data import dataclass
from axon.base.element import Element, of_dtype
from axon.base.names import Symbol
from axon.core.ir import Const

Array = Any
Axes = Sequence[Symbol]
Sizes = Mapping[Symbol, int]
CHUNK = 256  # places of the depth that are added up in registers; then sums of sums
USED = 0.4  # of the lanes of vectors, at least
PIECES = 64
WORTH = 8  # what a piece computes at least, in what is worth sharing
MULTIPLIED = 8  # products in the time of an addition elsewhere


_NARROW = (Element.F16, Element.BF16, Element.F8E4M3, Element.F8E5M2)  # which kernels read as f32


@dataclass(frozen=True, slots=True)
class Operand:
    """An operand: what is made of its tensor (an array whose memory is read), and where in that its elements are."""

    of: Callable[[Array], Array]
    places: Places


@dataclass(frozen=True, slots=True)
class Tiled:
    """A contraction in register tiles: operands and tables. A piece is a line of a table: the first element of the batch and the
    one after the last, and so of rows and of vectors."""

    left: Operand
    right: Operand
    swapped: bool  # the vectors are the left operand's
    element: Element
    tables: tuple[Array, ...]  # of the batch, of rows, of vectors, of the depth, of pieces
    pieces: int
    tiles: tuple[tuple[int, int, int, int], ...]
    deep: int
    cost: int

    def run(self, left: Array, right: Array, result: Array) -> None:
        """All pieces, each on one thread."""
        if self.swapped:
            left, right = right, left
        memory = (self.left.of(left), self.right.of(right), result)
        arrays = [array.ctypes.data for array in (*memory, *self.tables)]
        for start, stop, high, wide in self.tiles:
            cost = self.cost * (stop - start) // max(1, self.tiles[-1][1])
            given = partial(_same, [*arrays, start, stop, self.deep, CHUNK])
            threads.share_kernel(_native(self.element, high, wide), given, self.pieces, cost)


def _same(arguments: list[int], thread: int) -> list[int]:
    return arguments


@cache
def _native(element: Element, rows: int, vectors: int) -> build.Native:
    from axon.backend.tiles import microkernel  # late, as llvmlite is

    name = element.value
    types = (element, element, element, *[Element.I64] * 5, *[None] * 6)
    return build.build(build.ModuleSource("tiles", microkernel.text(name, rows, vectors), types))


def tiled(kernel: Contraction, left: Array, right: Array, dims: Dims, sizes: Sizes, result: Array) -> Tiled | None:
    """None where tiles would be mostly idle, where the result is not kept in what is added up, or for other forms."""
    element = kernel.left.element.accumulator
    if kernel.op.outs[0].element is not element or element not in (Element.F32, Element.F64):
        return None
    from axon.backend.tiles import microkernel

    item = result.itemsize
    out = Places({axis.symbol: stride // item for axis, stride in zip(kernel.op.axes, result.strides, strict=True)})
    batch, rows, columns, depth = (
        tuple(a.symbol for a in axes) for axes in (kernel.batch, kernel.rows, kernel.columns, kernel.depth)
    )
    side = _contiguous(out, sizes, rows, columns)
    if side is None:
        return None
    swapped = side is rows
    (other, first), (own, second) = (
        ((kernel.left, left), (kernel.right, right)) if not swapped else ((kernel.right, right), (kernel.left, left))
    )
    lines, runs = (rows, columns) if not swapped else (columns, rows)
    runs = tuple(sorted((s for s in runs if sizes[s] > 1), key=lambda s: -out.strides[s]))
    spread, along = _as_it_lies(other, first, dims, sizes), _along(own, second, dims, sizes, batch, runs, depth)
    if along is None:
        return None
    lanes = microkernel.vector_bits() // (8 * item)
    of_vectors = vectors(runs, sizes, along.places, out, lanes)
    if prod(sizes[s] for s in runs) < USED * lanes * len(of_vectors):
        return None
    of_batch = np.stack([places.of(batch, sizes) for places in (spread.places, along.places, out)], axis=-1)
    of_rows = np.stack([places.of(lines, sizes) for places in (spread.places, out)], axis=-1)
    of_depth = np.stack([spread.places.of(depth, sizes, started=True), along.places.of(depth, sizes, started=True)], axis=-1)
    cost = prod(sizes.values()) // MULTIPLIED + prod(sizes[a.symbol] for a in kernel.op.axes)
    tiles = microkernel.tiling(len(of_rows), len(of_vectors))
    pieces = _pieces(len(of_batch), len(of_rows), len(of_vectors), tiles[0][2:], cost)
    beyond = np.zeros((8, microkernel.VECTOR), np.int64)
    tables = (of_batch, of_rows, np.concatenate([of_vectors, beyond]), of_depth, np.array(pieces, np.int64))
    return Tiled(spread, along, swapped, element, tuple(map(np.ascontiguousarray, tables)), len(pieces), tiles, len(of_depth), cost)


def _contiguous(out: Places, sizes: Sizes, rows: Axes, columns: Axes) -> Axes | None:
    """The side with the axis along which the result is contiguous."""
    for side in (columns, rows):
        if any(out.strides[s] == 1 and sizes[s] > 1 for s in side):
            return side
    return None


def _pieces(batch: int, rows: int, lines: int, tile: tuple[int, int], cost: int) -> tuple[tuple[int, ...], ...]:
    """Parts of a batch; if these are few, of the vectors, and if those are few, of the rows. Sizes alone decide."""
    wanted = max(1, min(PIECES, cost // (WORTH * threads.WORTH_SHARING)))
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
    source, view, memory = view_of(factor, tensor, dims, sizes)
    item = memory.itemsize
    return Operand(source.of, Places({s: stride // item for s, stride in view.strides.items()}))


def _along(factor: Factor, tensor: Array, dims: Dims, sizes: Sizes, batch: Axes, runs: Axes, depth: Axes) -> Operand | None:
    """The operand whose vectors are read: with neighbours along the innermost of its own axes side by side."""
    inner = runs[-1]
    affine = affine_of(factor, dims)
    using = [n for n, (_, terms) in enumerate(affine) if inner in terms]
    if len(using) != 1:
        return None
    (at,) = using
    if all(len(terms) <= 1 for _, terms in affine):  # no window: in the order of the vectors
        found = _as_it_lies(factor, tensor, dims, sizes)
        return (
            found
            if found.places.step(inner) == 1
            else _transposed(factor, tensor, dims, sizes, (*batch, *runs[:-1], *depth, inner))
        )
    shown = [Shown.of(offset, terms, sizes) for offset, terms in affine]
    step = shown[at].terms[inner]
    if at != len(affine) - 1 or step < 1 or any(s in shown[at].terms for s in (*batch, *runs[:-1])):
        return None
    outside = any(one.low < 0 or one.last >= size for one, size in zip(shown, tensor.shape, strict=True))
    held = factor.element.accumulator.dtype
    if step == shown[-1].gap == 1 and not outside and tensor.dtype == held and tensor.strides[-1] == tensor.itemsize:
        return _as_it_lies(factor, tensor, dims, sizes)
    padding = factor.read.padding
    return _by_phases(shown, tensor.shape, step, padding.value if isinstance(padding, Const) else 0, factor.element.accumulator)


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


def _transposed(factor: Factor, tensor: Array, dims: Dims, sizes: Sizes, axes: Axes) -> Operand:
    """A copy with the axes in this order."""
    source, view, _ = view_of(factor, tensor, dims, sizes)
    own = [s for s in axes if view.strides.get(s, 0)]
    strides = {s: prod(sizes[t] for t in own[n + 1 :]) for n, s in enumerate(own)}
    return Operand(lambda tensor: np.ascontiguousarray(view.over(source.of(tensor), own)), Places(strides))


def _by_phases(shown: Sequence[Shown], sizes: Sequence[int], step: int, padding: float, held: Element) -> Operand:
    """A copy of what is read, with padding around it, and each remainder by `step` of the last dimension as a run of its own."""
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
    rows = prod(shape[:-1])
    columns = padding_of.inside(*into[-1], step, width)
    value = np.array([padding], held.dtype)
    begins: dict[tuple[int, ...], Array] = {}  # of rows, by the tensor's strides in elements

    def of(tensor: Array) -> Array:
        made = make(kept, held.dtype)
        element = of_dtype(tensor.dtype)
        if element is None or (element is not held and (held is not Element.F32 or element not in _NARROW)):
            tensor, element = tensor.astype(held.dtype), held
        item = tensor.itemsize
        if not tensor.flags.aligned or any(stride % item for stride in tensor.strides):
            tensor = np.array(tensor, order="C")
        strides = tuple(stride // item for stride in tensor.strides)
        found = begins.get(strides)
        if found is None:
            start = sum(one.low * stride for one, stride in zip(shown, strides, strict=True))
            steps = [one.gap * stride for one, stride in zip(shown, strides, strict=True)]
            found = begins[strides] = padding_of.places(shape[:-1], into[:-1], steps[:-1], start)
        apart = shown[-1].gap * strides[-1]
        memory = [array.ctypes.data for array in (made, tensor, found, columns, value)]
        arguments = [*memory, step, width, apart * step, apart]
        threads.share_kernel(_padding(element, held), partial(_same, arguments), rows, made.size)
        return made

    return Operand(of, places)


@cache
def _padding(element: Element, held: Element) -> build.Native:
    types = (held, element, Element.I64, Element.I64, held, *[None] * 6)
    return build.build(build.ModuleSource("pad", padding_of.text(element.value, held.value), types))
