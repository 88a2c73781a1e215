"""Contractions through BLAS: NumPy's `matmul` on views of the operands, which are copied only where their strides demand it.

An operand is read at affine subscripts, so over the contraction's axes it is a strided view of its tensor (of a padded copy of it,
where it is read with padding). The axes of the batch, of the rows (or columns) and of the depth become one dimension each, if their
strides allow without a copy; then BLAS takes a matrix or a transposed one as it lies, and writes where the result lies.

Note [Pieces]
    BLAS's own threads are not used. Among how many it shares a product decides how it cuts it, and so the bits of the result; and
    they are as many as nobody else in the process asks for just then. In a batch they would also wait for each other after every
    product, and spin beside ours. So what is large is cut into pieces along the result's axes, never along the depth; our threads
    take the pieces, and BLAS computes each on the thread that asks (`blas`). Into which pieces is decided by sizes alone: bits are
    the same on one thread and on many. One product is cut into tiles, a batch along its own axes, and one with few elements along
    its rows too, in strips that repay packing the other operand once more.

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

from collections.abc import Callable, Mapping, Sequence
from itertools import product as box
from math import prod
from typing import Any

import numpy as np

from axon.backend.cpu import blas, threads
from axon.backend.cpu.arena import Scratch
from axon.backend.cpu.views import Dims, Piece, View, is_matrix, matrix, mergeable, must_copy, ordered, view_of
from axon.backend.plan.ir import Contraction
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Axis
from axon.interpret.strided import strided
from axon.shapes.dimension import Dim

Array = Any
_scratch = Scratch()
BLOCK = 1 << 18  # elements of a window that are copied at a time: about a core's cache; less costs more products
STRIP = 128  # rows of a product that repay packing its other operand
SIDE = 192  # rows or columns of a tile, at least
PIECE = 16  # what a piece costs at least, in what is worth sharing: about 0.1 ms
PIECES = 64  # into which a product is cut, at most: enough for so many threads
TAP = 4  # how many elements are copied in the time in which a product is added
MULTIPLIED = 4  # products that BLAS computes in the time of an addition elsewhere
BEGIN = 8  # elements that are copied in the time in which a nest begins a sum along the last axis of the depth


def contract(kernel: Contraction, tensors: Mapping[Symbol, Array], dims: Dims, result: Array, has_nest: bool) -> bool:
    """The contraction into its result; or False, where it has a nest and that is cheaper."""
    sizes = {axis.symbol: max(0, axis.extent.evaluate(dims)) for axis in (*kernel.op.axes, *kernel.depth)}
    order = _symbols(kernel.op.axes)
    if 0 in sizes.values() or any(extent.evaluate(dims) <= 0 for extent in kernel.given):
        result[...] = 0
        return True
    with np.errstate(all="ignore"):
        left, right = (view_of(o, tensors[o.read.tensor], dims, sizes) for o in (kernel.left, kernel.right))
        out = View(result, dict(zip(order, result.strides, strict=True)), sizes)
        problem = _Problem(left, right, out, *map(_symbols, (kernel.batch, kernel.rows, kernel.columns, kernel.depth)))
        way = _way(problem, has_nest)
        if way is None:
            return False
        _run(problem, *way)
    return True


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


Compute = Callable[[Piece], None]  # computes a piece of the result
Steps = Mapping[Symbol, int]  # how long pieces are along the axes that are cut


def _run(problem: _Problem, compute: Compute, steps: Steps) -> None:
    """All pieces, each on one thread. See Note [Pieces]."""
    sizes = problem.out.sizes
    cuts = [[slice(i, min(i + step, sizes[s])) for i in range(0, sizes[s], step)] for s, step in steps.items()]
    pieces = [dict(zip(steps, cut, strict=True)) for cut in box(*cuts)]

    def work(thread: int, first: int, last: int) -> int:
        blas.alone()
        with np.errstate(all="ignore"):
            for piece in pieces[first:last]:
                compute(piece)
        return 0

    with blas.one_thread():
        threads.share(work, len(pieces), _cost(problem))


def _cost(problem: _Problem) -> int:
    return prod(problem.out.sizes.values()) // MULTIPLIED


def _way(problem: _Problem, has_nest: bool) -> tuple[Compute, Steps] | None:
    """How to compute, and in which pieces; None: as a nest."""
    left, right, sizes = problem.left, problem.right, problem.out.sizes
    if has_nest and not (problem.rows and problem.columns) and _copied(problem, left if problem.rows else right):
        return None  # a copy would cost what the sum does
    wanted = max(1, min(PIECES, _cost(problem) // (PIECE * threads.WORTH_SHARING)))
    taps = [s for s in problem.depth if s in left.shared | right.shared]
    windows = [view for view in (left, right) if not view.shared.isdisjoint(taps)]
    if len(windows) != 1 or not _copied(problem, windows[0]):
        if problem.count(problem.batch) == 1:
            return _product(problem), _tiles(problem, wanted)
        steps = _steps(problem.batch, sizes, wanted)
        elements = prod(-(-sizes[s] // step) for s, step in steps.items())
        strips = min(-(-wanted // elements), problem.count(problem.rows) // STRIP)
        return _product(problem), steps | _steps(problem.rows[:1], sizes, strips)
    own, other = (problem.rows, problem.columns) if windows[0] is left else (problem.columns, problem.rows)
    deep = problem.count(problem.depth)
    if TAP * problem.count(other) < deep // problem.count(taps):
        lead, compute = _tapped(problem, taps)
        return compute, _steps(lead, sizes, wanted)
    if has_nest and BEGIN * problem.count(other) < problem.count(problem.depth[-1:]):
        return None
    whole = [*problem.batch, *own]
    limit = min(BLOCK, -(-deep * problem.count(whole) // wanted))
    return _product(problem), _blocks(whole, sizes, deep, limit)


def _copied(problem: _Problem, view: View) -> bool:
    """Whether BLAS takes an operand only from a copy."""
    depth = ordered(problem.left, problem.right, problem.depth)
    before, after = (problem.rows, depth) if view is problem.left else (depth, problem.columns)
    return must_copy(view.over((*problem.batch, *before, *after)), len(problem.batch), len(before))


def _steps(axes: Sequence[Symbol], sizes: Mapping[Symbol, int], pieces: int) -> dict[Symbol, int]:
    """Steps along axes, the first ones first, that give so many pieces if the axes are long enough."""
    steps = dict[Symbol, int]()
    for s in axes:
        if pieces <= 1:
            break
        steps[s] = -(-sizes[s] // min(sizes[s], pieces))
        pieces = -(-pieces // -(-sizes[s] // steps[s]))
    return steps


def _tiles(problem: _Problem, pieces: int) -> dict[Symbol, int]:
    """Steps along the rows and the columns of one product that give tiles, about as high as wide: a power of two of them."""
    high, wide = problem.count(problem.rows), problem.count(problem.columns)
    rows = columns = 1
    while 2 * rows * columns <= pieces:
        if high // rows >= max(2 * SIDE, wide // columns):
            rows *= 2
        elif wide // columns >= 2 * SIDE:
            columns *= 2
        else:
            break
    return _steps(problem.rows[:1], problem.out.sizes, rows) | _steps(problem.columns[:1], problem.out.sizes, columns)


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


def _product(problem: _Problem) -> Compute:
    """A piece as products of matrices."""
    left, right, out = problem.left, problem.right, problem.out
    depth = ordered(left, right, problem.depth)
    lead, high = len(problem.batch), len(problem.rows)
    of_left, of_right = (*problem.batch, *problem.rows, *depth), (*problem.batch, *depth, *problem.columns)
    of_out = (*problem.batch, *problem.rows, *problem.columns)
    x, y, z = left.over(of_left), right.over(of_right), out.over(of_out)

    def compute(piece: Piece) -> None:
        a = matrix(left.cut(x, of_left, piece), lead, high, "left", _scratch)
        b = matrix(right.cut(y, of_right, piece), lead, len(depth), "right", _scratch)
        _multiply(a, b, out.cut(z, of_out, piece), lead, high)

    return compute


def _multiply(a: Array, b: Array, out: Array, lead: int, high: int) -> None:
    """Matrix products into an array whose dimensions after the first `lead` are `high` of rows, and those of columns."""
    shape = (*out.shape[:lead], a.shape[-2], b.shape[-1])
    if out.dtype == a.dtype and mergeable(out, lead, high):
        joined = out.reshape(shape)
        if is_matrix(joined):
            np.matmul(a, b, out=joined)
            return
    made = _scratch.array("made", shape, a.dtype)
    out[...] = np.matmul(a, b, out=made).reshape(out.shape)


def _tapped(problem: _Problem, taps: list[Symbol]) -> tuple[tuple[Symbol, ...], Compute]:
    """A contraction over windows, tap by tap, and the axes along which it can be cut. See Note [Convolutions]."""
    left, right, out = problem.left, problem.right, problem.out
    rest = ordered(left, right, tuple(s for s in problem.depth if s not in taps))
    height, width = _Wide.of(problem.rows, left), _Wide.of(problem.columns, right)
    lead = (*problem.batch, *height.lead, *width.lead)
    x = height.view(left, (*taps, *lead), rest, before=True)
    y = width.view(right, (*taps, *lead), rest, before=False)
    z = out.over((*lead, *height.axes, *width.axes))

    def compute(piece: Piece) -> None:
        mine = out.cut(z, lead, piece)
        start = mine.shape[: len(lead)]
        total = _scratch.array("total", (*start, height.padded, width.padded), left.array.dtype)
        part = _scratch.array("part", (*start, height.count, width.count), left.array.dtype)
        sums = total[..., : height.count, : width.count]
        for number, tap in enumerate(np.ndindex(*[out.sizes[s] for s in taps])):
            a = matrix(left.cut(x[tap], lead, piece), len(lead), 1, "left", _scratch)
            b = matrix(right.cut(y[tap], lead, piece), len(lead), len(rest), "right", _scratch)
            np.matmul(a, b, out=sums if number == 0 else part)
            if number:
                np.add(sums, part, out=sums)
        whole = total.reshape((*start, *height.shape, *width.shape))
        mine[...] = whole[tuple(slice(size) for size in mine.shape)]

    return lead, compute


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

    def view(self, view: View, lead: Sequence[Symbol], depth: Sequence[Symbol], *, before: bool) -> Array:
        """The operand with the merged dimension before or after the depth's."""
        start = [view.sizes[s] if s in view.strides else 1 for s in lead]
        steps = [view.strides.get(s, 0) for s in lead]
        deep, deep_steps = [view.sizes[s] for s in depth], [view.strides[s] for s in depth]
        own, own_step = [self.count], [self.step]
        shape = [*start, *own, *deep] if before else [*start, *deep, *own]
        strides = [*steps, *own_step, *deep_steps] if before else [*steps, *deep_steps, *own_step]
        return strided(view.array, shape, strides, writeable=True)
