"""Contractions through BLAS: NumPy's `matmul` on views of the operands, which are copied only where their strides demand it.

An operand is read at affine subscripts, so over the contraction's axes it is a strided view of its tensor (of a padded copy of it,
where it is read with padding). The axes of the batch, of the rows (or columns) and of the depth become one dimension each, if their
strides allow without a copy; then BLAS takes a matrix or a transposed one as it lies, and writes where the result lies.

Note [Pieces]
    BLAS's own threads are not used. Among how many it shares a product decides how it cuts it, and so the bits of the result; and
    they are as many as nobody else in the process asks for just then. In a batch they would also wait for each other after every
    product, and spin beside ours. So what is large is cut into pieces along the result's axes, never along the depth; our threads
    take the pieces, and BLAS computes each on the thread that asks (`blas`), called from machine code where it takes all of them as
    they lie (Note [Called from machine code] there): one operand twice is left to NumPy, which then computes half of the result.
    Into which pieces is decided by sizes alone: bits are the same on one thread and on many. One product is cut into tiles, a batch
    along its own axes, and one with few elements along its rows too, in strips that repay packing the other operand once more.

Note [Prepared]
    How a contraction is computed (which views, copies, pieces) follows from its sizes and strides. To find that out takes longer
    than many products do, so it is kept for the next call with the same ones, for MOST of them; a call that is prepared asks for
    three views and multiplies.

Note [Convolutions]
    If an operand is a window (a subscript such as `p + r` with `r` among the depth's axes and `p` of the result), its matrix has
    every element many times over. Where it does not lie as BLAS reads a matrix (it may not overlap itself), it must be copied, and
    there are two ways to do that with less.
      by blocks   The window is copied and multiplied for so much of the image at a time that the copy stays in a cache.
      by taps     The contraction is done once for each tap, that is each value of those `r`, and the products are added up. For one
                  tap the window is the tensor moved by a number of elements, so rows and columns of an image stay one dimension:
                  the image's rows are kept at their full width, and what the extra columns hold is left out at the end.
    The first copies as many elements as the depth has for each place of the result, the second adds as many as the result has
    channels for each tap: the cheaper one is taken. Where few products are made of an element that is copied, as in a filter of one
    dimension, a nest that reads the window where it lies is cheaper still, if its sums are long: it is vectorized, and loses time
    only where it begins a sum.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import product as box
from math import prod
from typing import Any, TypeAlias

import numpy as np

from axon.backend.cpu import blas, threads
from axon.backend.cpu.arena import Scratch
from axon.backend.cpu.launch import address
from axon.backend.cpu.sums import SHARED, Loops
from axon.backend.cpu.windows import Tiled, tiled
from axon.backend.plan.ir import Contraction
from axon.backend.tiles import gemm
from axon.backend.tiles.sums import Sum
from axon.backend.tiles.views import Dims, PaddedSource, Piece, View, is_buffer, joined, must_copy, ordered, view_of
from axon.base.data import dataclass, replace
from axon.base.element import Element, of_dtype
from axon.base.names import Symbol
from axon.core.ir import Axis
from axon.interpret.strided import strided
from axon.shapes.dimension import Dim

Array = Any
_scratch = Scratch()
BLOCK = 1 << 18  # elements of a window that are copied at a time: about a core's cache; less costs more products
MOST = 64  # preparations of a contraction that are kept; then they are forgotten, and made anew
STRIP = 128  # rows of a product that repay packing its other operand
HALF = 32  # rows or columns of a tile, at least, where there are two
SIDE = 160  # the same for each tile that there is, where there are more
EARNED = 16  # the same, of tiles that the machine's processors take at once
PIECE = 3  # what a piece costs at least, in what is worth sharing: about 0.05 ms
PIECES = 64  # into which a product is cut, at most: enough for so many threads
TAP = 4  # how many elements are copied in the time in which a product is added
LINE = 512  # the same in a product with a vector, however many tiles there are
COPIES = 100_000  # what a product is worth, in additions, that is copied by machine code
DEEP = 1 << 16  # products that BLAS sums at a time: with a vector it loses digits with every one
MANY = 16  # sums of so many that are added in f32
THIN = 4  # rows or columns of a product that takes as long as its other operand takes to be read
SMALL = 1 << 11  # multiply-adds of one of many products that BLAS takes as long to be asked for
RUN = 24  # rows or columns of an operand, at least, that are multiplied by themselves rather than copied
PACKED = 4  # elements of an operand that BLAS packs in the time in which one is copied from afar
MULTIPLIED = 4  # products that BLAS computes in the time of an addition elsewhere
MOVED = 3  # additions in whose time BLAS reads or writes an element of an operand or of the result
BEGIN = 8  # elements that are copied in the time in which a nest begins a sum along the last axis of the depth


@dataclass(frozen=True, slots=True)
class Prepared:
    """A contraction at sizes and strides: what is decided of it before anything is computed. See Note [Prepared]."""

    sources: tuple[PaddedSource, PaddedSource] | None  # None where the operands are not read
    begin: Begin
    pieces: int
    cost: int
    native: _Native | None = None  # the same in machine code, for operands that are two

    def run(self, left: Array, right: Array, result: Array) -> None:
        """All pieces, each on one thread. See Note [Pieces]."""
        if self.sources is not None:
            left, right = self.sources[0].of(left), self.sources[1].of(right)
        if self.native is not None and left.ctypes.data != right.ctypes.data:
            self.native.run(left, right, result, self.cost)
            return
        compute = self.begin(left, right, result)
        if self.pieces == 1:
            with blas.one_thread(), np.errstate(all="ignore"):
                compute(0)
            return

        def work(thread: int, first: int, last: int) -> int:
            if thread:
                blas.alone()
            with np.errstate(all="ignore"):
                for piece in range(first, last):
                    compute(piece)
            return 0

        with blas.one_thread():
            threads.share(work, self.pieces, self.cost)


@dataclass(frozen=True, slots=True)
class Looped:
    """The same by loops that suit the sizes: see `sums`."""

    sources: tuple[PaddedSource, PaddedSource]
    loops: Loops

    def run(self, left: Array, right: Array, result: Array) -> None:
        held = [source.of(array) for source, array in zip(self.sources, (left, right), strict=True)]
        self.loops.run([address(array) for array in held], result)


Way: TypeAlias = "Prepared | Looped | Tiled"


class Products:
    """A contraction's preparations, by sizes and strides. Several threads may share it."""

    def __init__(self, kernel: Contraction, has_nest: bool) -> None:
        extents = [axis.extent for axis in (*kernel.op.axes, *kernel.depth)]
        subscripts = [s for o in (kernel.left, kernel.right) for s in o.read.subscripts if isinstance(s, Dim)]
        own = _all_axes(kernel)
        asked = frozenset[Symbol]().union(*(dim.variables for dim in (*extents, *subscripts, *kernel.given))) - own
        self.kernel, self.has_nest = kernel, has_nest
        self._dims = tuple(sorted(asked, key=lambda s: s.id))
        self._prepared: dict[tuple[Any, ...], Way | None] = {}

    def contract(self, left: Array, right: Array, dims: Dims, result: Array) -> bool:
        """The contraction into its result; or False, where it has a nest and that is cheaper."""
        prepared = self.prepared(left, right, dims, result)
        if prepared is not None:
            prepared.run(left, right, result)
        return prepared is not None

    def prepared(self, left: Array, right: Array, dims: Dims, result: Array) -> Way | None:
        """How it is computed; None as a nest."""
        key = (*[dims[s] for s in self._dims], left.shape, right.shape, left.strides, right.strides, result.strides)
        try:
            return self._prepared[key]
        except KeyError:
            if len(self._prepared) >= MOST:
                self._prepared.clear()
            zero = self._is_zero(dims)
            found = _ZERO if zero else prepare(self.kernel, left, right, dims, result, self.has_nest)
            self._prepared[key] = found
            return found

    def _is_zero(self, dims: Dims) -> bool:
        extents = (axis.extent for axis in (*self.kernel.op.axes, *self.kernel.depth))
        return any(extent.evaluate(dims) <= 0 for extent in (*extents, *self.kernel.given))


_ZERO = Prepared(None, lambda left, right, out: lambda piece: out.fill(0), 1, 0)


def prepare(kernel: Contraction, left: Array, right: Array, dims: Dims, result: Array, has_nest: bool) -> Way | None:
    """For tensors with the shapes and strides of these; None where a nest is cheaper."""
    sizes = {axis.symbol: axis.extent.evaluate(dims) for axis in (*kernel.op.axes, *kernel.depth)}
    of_left, x, first = view_of(kernel.left, left, dims, sizes)
    of_right, y, second = view_of(kernel.right, right, dims, sizes)
    out = View(dict(zip(_symbols(kernel.op.axes), result.strides, strict=True)), sizes)
    problem = _Problem(x, y, out, *map(_symbols, (kernel.batch, kernel.rows, kernel.columns, kernel.depth)))
    memory = (first, second, result)
    problem = _in_place(problem, memory)
    if is_window(kernel) and any(_copied(problem, memory, left=side) for side in (True, False)):
        in_tiles = tiled(kernel, left, right, dims, sizes, result)
        if in_tiles is not None:
            return in_tiles
    looped = _loops(problem, memory)
    if looped is not None:
        return Looped((of_left, of_right), looped)
    way = _way(problem, memory, has_nest)
    if way is None:
        return None
    begin_with, steps = way
    cuts = [[slice(i, min(i + step, sizes[s])) for i in range(0, sizes[s], step)] for s, step in steps.items()]
    pieces = [dict(zip(steps, cut, strict=True)) for cut in box(*cuts)]
    begin = begin_with(problem, memory, pieces)
    copied = _cost(problem, memory) >= COPIES and (
        any(_copied(problem, memory, left=side) for side in (True, False)) or not _written(problem, memory)
    )
    shared = begin_with is _product and (copied or len(pieces) > 1)  # what is called once is called as fast from Python
    native = _native(problem, memory, pieces) if shared else None
    return Prepared((of_left, of_right), begin, len(pieces), _cost(problem, memory), native)


def is_window(kernel: Contraction) -> bool:
    """Whether an operand is a window. See Note [Convolutions]."""
    depth = frozenset(axis.symbol for axis in kernel.depth)
    subscripts = (s for o in (kernel.left, kernel.right) for s in o.read.subscripts if isinstance(s, Dim))
    return any(len(s.variables & o) > 1 and not s.variables.isdisjoint(depth) for s in subscripts for o in [_all_axes(kernel)])


def is_with_vector(kernel: Contraction) -> bool:
    """Whether an operand has no axis of its own: each element of the other one is then used once."""
    return not kernel.rows or not kernel.columns


def _all_axes(kernel: Contraction) -> frozenset[Symbol]:
    return frozenset(axis.symbol for axis in (*kernel.op.axes, *kernel.depth))


def _symbols(axes: Sequence[Axis]) -> tuple[Symbol, ...]:
    return tuple(axis.symbol for axis in axes)


# ── pieces ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Problem:
    """out = sum over `depth` of left * right, over views of all three, with the axes of a `Contraction`."""

    left: View
    right: View
    out: View
    batch: tuple[Symbol, ...]
    rows: tuple[Symbol, ...]
    columns: tuple[Symbol, ...]
    depth: tuple[Symbol, ...]

    def count(self, axes: Sequence[Symbol]) -> int:
        return prod(self.out.sizes[s] for s in axes)


Memory = tuple[Array, Array, Array]  # what the views of the operands and of the result are of
Compute = Callable[[int], None]  # computes the piece of the result with this number
Begin = Callable[[Array, Array, Array], Compute]  # in such memory
Pieces = Callable[["_Problem", Memory, Sequence[Piece]], Begin]  # in memory that is laid out like this, and these pieces
Steps = Mapping[Symbol, int]  # how long pieces are along the axes that are cut


def _cost(problem: _Problem, memory: Memory) -> int:
    """In additions of f32. A product with a short side takes as long as its operands and its result take to be read and written."""
    left, right, out = (set(view.strides) for view in (problem.left, problem.right, problem.out))
    moved = sum(problem.count(tuple(axes)) for axes in (left, right, out))
    added = prod(problem.out.sizes.values()) // MULTIPLIED
    return (added + MOVED * moved) * int(memory[0].itemsize) // 4


def _way(problem: _Problem, memory: Memory, has_nest: bool) -> tuple[Pieces, Steps] | None:
    """How to compute, and in which pieces; None: as a nest."""
    left, right, sizes = problem.left, problem.right, problem.out.sizes
    if has_nest and not (problem.rows and problem.columns) and _copied(problem, memory, left=bool(problem.rows)):
        return None  # a copy would cost what the sum does
    wanted = max(1, min(PIECES, _cost(problem, memory) // (PIECE * threads.WORTH_SHARING)))
    taps = [s for s in problem.depth if s in left.shared | right.shared]
    windows = [view for view in (left, right) if not view.shared.isdisjoint(taps)]
    if len(windows) != 1 or not _copied(problem, memory, left=windows[0] is left):
        if problem.count(problem.batch) == 1:
            return _product, _tiles(problem, wanted)
        steps = _steps(problem.batch, sizes, wanted)
        elements = prod(-(-sizes[s] // step) for s, step in steps.items())
        strips = min(-(-wanted // elements), problem.count(problem.rows) // STRIP)
        return _product, steps | _steps(problem.rows, sizes, strips)
    own, other = (problem.rows, problem.columns) if windows[0] is left else (problem.columns, problem.rows)
    deep = problem.count(problem.depth)
    if TAP * problem.count(other) < deep // problem.count(taps):
        tapped = _Tapped.of(problem, taps)
        return tapped.begin_with, _steps(tapped.lead, sizes, wanted)
    if has_nest and BEGIN * problem.count(other) < problem.count(problem.depth[-1:]):
        return None
    whole = [*problem.batch, *own]
    limit = min(BLOCK, -(-deep * problem.count(whole) // wanted))
    return _product, _blocks(whole, sizes, deep, limit)


def _loops(problem: _Problem, memory: Memory) -> Loops | None:
    """What loops are faster at than BLAS: many small products, or such with vectors, and products with a vector that BLAS does not
    take or write as they lie. None of others."""
    element, count = of_dtype(memory[2].dtype), problem.count
    if element is None or len({array.dtype for array in memory}) > 1 or memory[2].dtype not in gemm.TYPES:
        return None
    views = (problem.left, problem.right, problem.out)
    axes = (*problem.batch, *problem.rows, *problem.columns, *problem.depth)
    each = [[view.strides.get(s, 0) for s in axes] for view in views]
    if any(view.shared for view in views) or any(step < 0 or step % memory[2].itemsize for strides in each for step in strides):
        return None
    points, batch = count(axes), count(problem.batch)
    if points < SHARED:
        return None
    if min(count(problem.rows), count(problem.columns)) <= THIN:
        copied = any(_copied(problem, memory, left=side) for side in (True, False)) or not _written(problem, memory)
        if batch == 1 and not copied:
            return None
    elif batch == 1 or points > SMALL * batch:
        return None
    left, right, out = (tuple(step // memory[2].itemsize for step in strides) for strides in each)
    kept = tuple(s not in problem.depth for s in axes)
    return Loops.of(Sum(tuple(problem.out.sizes[s] for s in axes), kept, (left, right), out), element)


def _copied(problem: _Problem, memory: Memory, *, left: bool) -> bool:
    """Whether BLAS takes an operand only from a copy."""
    depth = ordered(problem.left, problem.right, problem.depth)
    before, after = (problem.rows, depth) if left else (depth, problem.columns)
    view, held = (problem.left, memory[0]) if left else (problem.right, memory[1])
    return must_copy(view.over(held, (*problem.batch, *before, *after)), len(problem.batch), len(before))


def _written(problem: _Problem, memory: Memory) -> bool:
    """Whether BLAS writes the result where it lies."""
    axes = (*problem.batch, *problem.rows, *problem.columns)
    return not must_copy(problem.out.over(memory[2], axes), len(problem.batch), len(problem.rows))


def _in_place(problem: _Problem, memory: Memory) -> _Problem:
    """An operand that BLAS would take from a copy, since its rows (or columns) are no single dimension, as one for each place along
    one of them, where BLAS takes those as they lie. That packs the other operand for each: so what is left must be long enough."""
    if problem.left.shared or problem.right.shared:
        return problem
    for left, own, other in ((True, problem.rows, problem.columns), (False, problem.columns, problem.rows)):
        if not _copied(problem, memory, left=left):
            continue
        for s in own:
            rest = tuple(t for t in own if t != s)
            if rest and problem.count(rest) >= max(RUN, problem.count(other) // PACKED):
                batch = (*problem.batch, s)
                moved = replace(problem, batch=batch, rows=rest) if left else replace(problem, batch=batch, columns=rest)
                if not _copied(moved, memory, left=left) and _written(moved, memory) >= _written(problem, memory):
                    problem = moved
                    break
    return problem


def _steps(axes: Sequence[Symbol], sizes: Mapping[Symbol, int], pieces: int) -> dict[Symbol, int]:
    """Steps along axes, the first ones first, that give about so many pieces if the axes are long enough. An axis is cut only where
    those before it are single indices: so what a piece takes of axes that are one dimension is one too."""
    steps = dict[Symbol, int]()
    for s in axes:
        if pieces <= 1 or any(step > 1 for step in steps.values()):
            break
        steps[s] = -(-sizes[s] // min(sizes[s], pieces))
        pieces = -(-pieces // -(-sizes[s] // steps[s]))
    return steps


def _tiles(problem: _Problem, pieces: int) -> dict[Symbol, int]:
    """Steps along the rows and the columns of one product that give tiles, about as high as wide: a power of two of them.

    Each operand is packed again for every tile along it, which costs as much as some fifty rows of products (and more, where it is
    cut along the columns). For a second thread that is worth it; the more tiles there are, the less a further cut gains: so the
    sides of more than two tiles are at least SIDE times their number, or EARNED times it where the machine has so many processors
    (all that it has, however many threads there are: bits do not follow from the process). A product with a vector packs nothing:
    its tiles are at least LINE long, however many there are.
    """
    high, wide = problem.count(problem.rows), problem.count(problem.columns)
    rows = columns = 1
    while (count := 2 * rows * columns) <= pieces:
        along_rows = 2 * (high // rows) >= wide // columns
        side = high // (2 * rows) if along_rows else wide // (2 * columns)
        each = min(SIDE, EARNED) if count <= _processors() else SIDE
        if side < (LINE if min(high, wide) == 1 else HALF if count == 2 else each * count):
            break
        rows, columns = (2 * rows, columns) if along_rows else (rows, 2 * columns)
    return _steps(problem.rows, problem.out.sizes, rows) | _steps(problem.columns, problem.out.sizes, columns)


@cache
def _processors() -> int:
    return os.cpu_count() or 1


def _blocks(axes: Sequence[Symbol], sizes: Mapping[Symbol, int], deep: int, limit: int) -> dict[Symbol, int]:
    """Steps along axes, the first ones first, that leave at most `limit` elements in a piece, each place of which has `deep`."""
    steps = dict[Symbol, int]()
    for i, s in enumerate(axes):
        rest = deep * prod(sizes[t] for t in axes[i + 1 :])
        if rest * sizes[s] <= limit:
            break
        count = -(-sizes[s] // max(1, limit // rest))
        steps[s] = -(-sizes[s] // count)
        if rest <= limit:
            break
    return steps


# ── ways to compute a piece ─────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Part:
    """A piece's part of an operand: what it takes, and its shape as a matrix; and its own shape, if BLAS needs a copy."""

    taken: tuple[slice, ...]
    shape: tuple[int, ...]
    copied: tuple[int, ...] | None

    @staticmethod
    def of(array: Array, taken: tuple[slice, ...], lead: int, over: int) -> _Part:
        part = array[taken]
        return _Part(taken, joined(part.shape, lead, over), part.shape if must_copy(part, lead, over) else None)

    def matrix(self, array: Array, slot: str) -> Array:
        part = array[self.taken]
        if self.copied is not None:
            copy = _scratch.array(slot, self.copied, array.dtype)
            np.copyto(copy, part)
            part = copy
        return part.reshape(self.shape)

    def place(self, array: Array) -> _Place:
        """Where the matrix lies, of a part that BLAS needs no copy of."""
        matrix = array[self.taken].reshape(self.shape)
        return _Place(self.shape, matrix.ctypes.data - array.ctypes.data, matrix.strides)


@dataclass(frozen=True, slots=True)
class _Place:
    """A matrix in a tensor that is all in one piece: its shape, after how many bytes it begins, and its strides."""

    shape: tuple[int, ...]
    offset: int
    strides: tuple[int, ...]

    def of(self, memory: Array) -> Array:
        return np.ndarray(self.shape, memory.dtype, memory, self.offset, self.strides)


def _product(problem: _Problem, memory: Memory, pieces: Sequence[Piece]) -> Begin:
    """Pieces as products of matrices."""
    left, right, out = problem.left, problem.right, problem.out
    depth = ordered(left, right, problem.depth)
    lead, high = len(problem.batch), len(problem.rows)
    of_left, of_right = (*problem.batch, *problem.rows, *depth), (*problem.batch, *depth, *problem.columns)
    of_out = (*problem.batch, *problem.rows, *problem.columns)
    x, y, z = left.over(memory[0], of_left), right.over(memory[1], of_right), out.over(memory[2], of_out)
    parts = [
        (
            _Part.of(x, left.cut(of_left, piece), lead, high),
            _Part.of(y, right.cut(of_right, piece), lead, len(depth)),
            _Part.of(z, out.cut(of_out, piece), lead, high),
        )
        for piece in pieces
    ]
    if x.dtype == z.dtype and all(map(is_buffer, memory)) and all(part.copied is None for found in parts for part in found):
        places = [tuple(part.place(array) for part, array in zip(found, (x, y, z), strict=True)) for found in parts]
        return lambda x, y, z: lambda number: _multiply(*[place.of(m) for place, m in zip(places[number], (x, y, z), strict=True)])

    def begin(x: Array, y: Array, z: Array) -> Compute:
        x, y, z = left.over(x, of_left), right.over(y, of_right), out.over(z, of_out)

        def compute(number: int) -> None:
            of_x, of_y, of_z = parts[number]
            _multiply(of_x.matrix(x, "left"), of_y.matrix(y, "right"), z, of_z)

        return compute

    return begin


@dataclass(frozen=True, slots=True)
class _Native:
    """A contraction in machine code: what is copied before and after, and the products between."""

    copies: tuple[gemm.Laid | None, gemm.Laid | None]
    products: gemm.Multiplied
    back: gemm.Laid | None
    element: Element

    def run(self, left: Array, right: Array, result: Array, cost: int) -> None:
        dtype, element = result.dtype, self.element
        held: list[Array] = []  # until all is computed
        for array, copy, slot in zip((left, right), self.copies, ("left", "right"), strict=True):
            held.append(array if copy is None else _scratch.array(slot, (copy.count,), dtype))
            if copy is not None:
                blas.lay(copy, element, array.ctypes.data, held[-1].ctypes.data)
        made = result if self.back is None else _scratch.array("made", (self.back.count,), dtype)
        with blas.one_thread():
            blas.multiply(self.products, held[0].ctypes.data, held[1].ctypes.data, made.ctypes.data, cost)
        if self.back is not None:
            blas.lay(self.back, element, made.ctypes.data, result.ctypes.data)


def _native(problem: _Problem, memory: Memory, pieces: Sequence[Piece]) -> _Native | None:
    """Pieces in machine code, of copies of what BLAS does not take or write as it lies; None where the copy would be of a window,
    or of what has no steps of whole elements."""
    depth = ordered(problem.left, problem.right, problem.depth)
    dtype, element = memory[2].dtype, of_dtype(memory[2].dtype)
    if len({array.dtype for array in memory}) > 1 or dtype not in gemm.TYPES or element is None:
        return None
    if problem.count(depth) > DEEP and dtype == np.float32:
        return None
    lead = len(problem.batch)
    operands = [
        _held(problem.left, memory[0], problem.batch, problem.rows, depth),
        _held(problem.right, memory[1], problem.batch, depth, problem.columns),
        _held(problem.out, memory[2], problem.batch, problem.rows, problem.columns, back=True),
    ]
    found = []
    for piece in pieces:
        places = []
        for operand in operands:
            if operand is None:
                return None
            part = operand.array[operand.view.cut(operand.axes, piece)]
            offset = part.ctypes.data - operand.array.ctypes.data
            shape = joined(part.shape, lead, operand.over)
            if must_copy(part, lead, operand.over):
                return None
            matrix = part.reshape(shape)
            places.append(gemm.Place(offset, matrix.shape, matrix.strides))
        found.append((places[0], places[1], places[2]))
    products = gemm.multiplied(found, dtype)
    if products is None or blas.function(f"cblas_{products.kind}") is None:
        return None
    left, right, out = [operand.copy for operand in operands if operand is not None]
    return _Native((left, right), products, out, element)


@dataclass(frozen=True, slots=True)
class _Held:
    """An operand or the result as BLAS reads or writes it: an array that lies as it does (of nothing, if it is a copy)."""

    view: View
    axes: tuple[Symbol, ...]
    over: int
    array: Array
    copy: gemm.Laid | None


def _held(
    view: View,
    memory: Array,
    batch: tuple[Symbol, ...],
    first: tuple[Symbol, ...],
    second: tuple[Symbol, ...],
    *,
    back: bool = False,
) -> _Held | None:
    """Where it lies; or as a copy in one piece, whose rows are the first axes or the second, whichever lie side by side before. For
    the result it goes back from there."""
    axes = (*batch, *first, *second)
    array = view.over(memory, axes)
    if not must_copy(array, len(batch), len(first)):
        return _Held(view, axes, len(first), array, None)
    if view.shared or any(view.strides[s] <= 0 for s in axes if s in view.strides and view.sizes[s] > 1):
        return None
    inner = min((s for s in axes if s in view.strides and view.sizes[s] > 1), key=lambda s: view.strides[s])
    last = first if inner in first else second
    order = (*batch, *(s for s in (*first, *second) if s not in last), *last)
    shape = view.shape(order)
    dense = np.empty(0, memory.dtype)
    strides = [memory.itemsize * prod(shape[n + 1 :]) for n in range(len(shape))]
    before = [view.strides.get(s, 0) for s in order]
    copy = gemm.laid(shape, strides, before, memory.itemsize) if back else gemm.laid(shape, before, strides, memory.itemsize)
    if copy is None:
        return None
    at = dict(zip(order, strides, strict=True))
    laid_out = np.lib.stride_tricks.as_strided(dense, view.shape(axes), [at[s] for s in axes])
    return _Held(view, axes, len(first), laid_out, copy)


def _multiply(a: Array, b: Array, out: Array, part: _Part | None = None) -> None:
    """Products of matrices into an array, or into a part of it."""
    if part is None:
        _matmul(a, b, out)
    elif out.dtype == a.dtype and part.copied is None:
        _matmul(a, b, out[part.taken].reshape(part.shape))
    else:
        made = _scratch.array("made", part.shape, a.dtype)
        mine = out[part.taken]
        _matmul(a, b, made)
        mine[...] = made.reshape(mine.shape)


def _matmul(a: Array, b: Array, out: Array) -> None:
    """Products of matrices; long sums in f32 in runs, whose sums are added (Note [Sums of sums] in `runs`)."""
    depth = a.shape[-1]
    if depth <= DEEP or out.dtype != np.float32:
        np.matmul(a, b, out=out)
        return
    part = _scratch.array("run", out.shape, out.dtype)
    np.matmul(a[..., :DEEP], b[..., :DEEP, :], out=out)
    total = out if depth <= MANY * DEEP else out.astype(np.float64)
    for start in range(DEEP, depth, DEEP):
        np.matmul(a[..., start : start + DEEP], b[..., start : start + DEEP, :], out=part)
        np.add(total, part, out=total)
    if total is not out:
        out[...] = total


@dataclass(frozen=True, slots=True)
class _Tapped:
    """A contraction over windows, tap by tap, and the axes along which it can be cut. See Note [Convolutions]."""

    taps: tuple[Symbol, ...]
    rest: tuple[Symbol, ...]
    height: _Wide
    width: _Wide
    lead: tuple[Symbol, ...]

    @staticmethod
    def of(problem: _Problem, taps: Sequence[Symbol]) -> _Tapped:
        rest = ordered(problem.left, problem.right, tuple(s for s in problem.depth if s not in taps))
        height, width = _Wide.of(problem.rows, problem.left), _Wide.of(problem.columns, problem.right)
        return _Tapped(tuple(taps), rest, height, width, (*problem.batch, *height.lead, *width.lead))

    def begin_with(self, problem: _Problem, memory: Memory, pieces: Sequence[Piece]) -> Begin:
        left, right, out = problem.left, problem.right, problem.out
        height, width, lead, rest = self.height, self.width, self.lead, self.rest
        taps = list(np.ndindex(*[out.sizes[s] for s in self.taps]))

        def begin(x: Array, y: Array, z: Array) -> Compute:
            x = height.view(left, x, (*self.taps, *lead), rest, before=True)
            y = width.view(right, y, (*self.taps, *lead), rest, before=False)
            z = out.over(z, (*lead, *height.axes, *width.axes))

            def compute(number: int) -> None:
                piece = pieces[number]
                mine = z[out.cut(lead, piece)]
                start = mine.shape[: len(lead)]
                total = _scratch.array("total", (*start, height.padded, width.padded), x.dtype)
                part = _scratch.array("part", (*start, height.count, width.count), x.dtype)
                sums = total[..., : height.count, : width.count]
                of_x, of_y = left.cut(lead, piece), right.cut(lead, piece)
                for number, tap in enumerate(taps):
                    a = _Part.of(x[tap], of_x, len(lead), 1).matrix(x[tap], "left")
                    b = _Part.of(y[tap], of_y, len(lead), len(rest)).matrix(y[tap], "right")
                    np.matmul(a, b, out=sums if number == 0 else part)
                    if number:
                        np.add(sums, part, out=sums)
                whole = total.reshape((*start, *height.shape, *width.shape))
                mine[...] = whole[tuple(slice(size) for size in mine.shape)]

            return compute

        return begin


@dataclass(frozen=True, slots=True)
class _Wide:
    """The rows or the columns of a matrix as one dimension: `axes`, whose inner ones are kept at the width that they have in
    memory.

    `lead` are axes before them that cannot be merged; then products are taken for each of them. `shape` are the extents in memory,
    `count` how many elements the merged dimension has, and `padded` that with the last row filled up.
    """

    lead: tuple[Symbol, ...]
    axes: tuple[Symbol, ...]
    shape: tuple[int, ...]
    count: int
    step: int

    @property
    def padded(self) -> int:
        return prod(self.shape)

    @staticmethod
    def of(axes: tuple[Symbol, ...], view: View) -> _Wide:
        sizes, strides = view.sizes, view.strides
        if not axes:
            return _Wide((), (), (), 1, 0)
        first = len(axes) - 1
        step = strides[axes[first]]
        shape = [sizes[axes[first]]]
        while first > 0 and step > 0:
            above, width = strides[axes[first - 1]], prod(shape)
            inner = prod(shape[1:])
            if above % (step * inner) or above < step * width:
                break
            shape[0] = above // (step * inner)
            if prod(shape) > 2 * width:  # more of it would be thrown away than kept
                shape[0] = sizes[axes[first]]
                break
            first -= 1
            shape.insert(0, sizes[axes[first]])
        last = 1 + sum((sizes[s] - 1) * prod(shape[i + 1 :]) for i, s in enumerate(axes[first:]))
        return _Wide(axes[:first], axes[first:], tuple(shape), last, step)

    def view(self, view: View, memory: Array, lead: Sequence[Symbol], depth: Sequence[Symbol], *, before: bool) -> Array:
        """The operand with the merged dimension before or after the depth's."""
        start = [view.sizes[s] if s in view.strides else 1 for s in lead]
        steps = [view.strides.get(s, 0) for s in lead]
        deep, deep_steps = [view.sizes[s] for s in depth], [view.strides[s] for s in depth]
        own, own_step = [self.count], [self.step]
        shape = [*start, *own, *deep] if before else [*start, *deep, *own]
        strides = [*steps, *own_step, *deep_steps] if before else [*steps, *deep_steps, *own_step]
        return strided(memory, shape, strides, writeable=True)
