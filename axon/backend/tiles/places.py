"""Where the operands of a sum of products lie, as offsets of elements: lines of tables for register tiles.

    Places      a tensor's offsets by the indices of axes
    Vectors     the innermost axes of a result as vectors: where each begins in the operand and in the result, and its lanes

Note [Rows as one]
    Vectors run along the innermost axis. Where that is short they may run on, across the operand's rows, into the next row: at the
    operand's full width, of which the result keeps a part. The lanes in between are computed and left out (`kept`), if that is less
    than what the ends of single rows would leave idle.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from axon.base.data import dataclass
from axon.base.names import Symbol

Array = Any
Sizes = Mapping[Symbol, int]


@dataclass(frozen=True, slots=True)
class Places:
    """`strides` in elements over axes, from `start`. With `phases` above 1 the last dimension is kept by its remainders: what is
    at `column` lies in the run of `column % phases`, runs being `width` long; `columns` are the steps of axes along it."""

    strides: Mapping[Symbol, int]
    start: int = 0
    phases: int = 1
    width: int = 0
    columns: Mapping[Symbol, int] | None = None
    column: int = 0

    def of(self, axes: Sequence[Symbol], sizes: Sizes, *, started: bool = False) -> Array:
        """The offset at each combination of indices, the last axis fastest; from the first element if it is `started`."""
        shape = [sizes[s] for s in axes]
        found = np.full(shape, self.start if started else 0, np.int64)
        column = np.full(shape, self.column if started else 0, np.int64)
        for s, index in zip(axes, np.indices(shape, np.int64), strict=True):
            found += self.strides.get(s, 0) * index
            if self.columns is not None:
                column += self.columns.get(s, 0) * index
        if self.columns is not None:
            found += column % self.phases * self.width + column // self.phases
        return found.reshape(-1)

    def step(self, axis: Symbol) -> int:
        """How far apart neighbours along an axis are that no other axis moves between runs; 0 if that is not the same for all."""
        if self.columns is None or axis not in self.columns:
            return self.strides.get(axis, 0)
        return 0 if self.columns[axis] % self.phases or self.strides.get(axis, 0) else self.columns[axis] // self.phases


@dataclass(frozen=True, slots=True)
class Vectors:
    """The innermost axes of a result as vectors: those of `run`, lines of (operand, result, loaded, kept), for each combination of
    indices of `outer`."""

    outer: tuple[Symbol, ...]
    run: Array

    @staticmethod
    def of(own: Sequence[Symbol], sizes: Sizes, operand: Places, out: Places, lanes: int) -> Vectors:
        """Along the innermost of an operand's own axes. See Note [Rows as one]."""
        *outer, inner = own
        width, step = sizes[inner], out.step(inner)
        single = Vectors(tuple(outer), _run(width, width, width, lanes, step))
        if not outer:
            return single
        *rest, above = outer
        full, high = operand.step(above), sizes[above]
        if full < width or out.step(above) != width * step:
            return single
        joined = Vectors(tuple(rest), _run((high - 1) * full + width, full, width, lanes, step))
        return joined if len(joined.run) < high * len(single.run) else single

    def count(self, sizes: Sizes) -> int:
        return len(self.run) * prod(sizes[s] for s in self.outer)

    def lines(self, sizes: Sizes, operand: Places, out: Places, lanes: int, spare: int, *, all_read: bool) -> Array:
        """The lines of the table of vectors, and so many more of which nothing is kept. Where not all lanes may be read, those may
        up to the last that any vector needs."""
        starts = np.stack((operand.of(self.outer, sizes), out.of(self.outer, sizes)), axis=-1)
        lines = np.repeat(self.run[None], len(starts), axis=0)
        lines[..., :2] += starts[:, None, :]
        lines = np.ascontiguousarray(lines.reshape(-1, 4))
        more = np.repeat(lines[:1], spare, axis=0)
        more[:, 3] = 0
        lines = np.concatenate([lines, more])
        needed = np.array([int(bits).bit_length() for bits in self.run[:, 2]], np.int64)
        end = int((lines[: len(starts) * len(needed), 0] + np.tile(needed, len(starts))).max())
        kinds = (lines[:, 3] == (1 << lanes) - 1, (lines[:, 0] + lanes <= end) | all_read)
        return np.concatenate([lines, *[_following(kind)[:, None] for kind in kinds], _behind(lines, lanes)[:, None]], axis=1)


def _following(holds: Array) -> Array:
    """For each place, for how many from this one on it holds."""
    at = np.arange(len(holds))
    ends = np.where(holds, len(holds), at)
    return np.minimum.accumulate(ends[::-1])[::-1] - at


def _behind(lines: Array, lanes: int) -> Array:
    """How many vectors follow each whose results lie side by side, from its last one to where its last lane would be written; more
    than there are, where others lie there."""
    counts = np.array([int(bits).bit_count() for bits in lines[:, 3]], np.int64)
    starts, number = lines[:, 1], len(lines)
    apart = np.ones(number, np.bool_)  # whether the next vector's results do not follow this one's
    apart[:-1] = (starts[:-1] + counts[:-1] != starts[1:]) | (counts[1:] == 0)
    ends = np.cumsum(counts)
    needed = np.searchsorted(ends, ends - counts + lanes)  # the first vector with which so many results are written
    first_apart = np.minimum.accumulate(np.where(apart, np.arange(number), number)[::-1])[::-1]
    return np.where(needed <= first_apart, needed - np.arange(number), number)


def _run(length: int, full: int, width: int, lanes: int, step: int) -> Array:
    """Vectors along a run of so many elements, of which in each `full` ones the first `width` are kept, `step` apart."""
    found = []
    for start in range(0, length, lanes):
        kept = [i for i in range(min(lanes, length - start)) if (start + i) % full < width]
        if kept:
            before = start // full * width + min(start % full, width)
            found.append((start, before * step, (1 << (kept[-1] + 1)) - 1, sum(1 << i for i in kept)))
    return np.array(found, np.int64)
