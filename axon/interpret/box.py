"""Boxes of indices, cut into blocks so that no intermediate array grows large."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from itertools import product
from math import inf, prod
from typing import Any, TypeAlias

import numpy as np

from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Axis, Bind, Scalar
from axon.interpret.arithmetic import Array
from axon.interpret.frame import Frame, Range, diagnostic, size_of

Block: TypeAlias = "tuple[tuple[int, int], ...]"  # (low, high) of each axis

POINTS = 2**19  # of one block where every point becomes an element of an array
OPERAND = 2**23  # elements of one operand of a matrix product
MAX_ELEMENTS = 2**59  # NumPy counts bytes in 63 bits, also those of an array with a dimension of 0
MAX_RANK: int = getattr(np, "MAXDIMS", 64)  # of an array; before NumPy 2 the constant has a name


@dataclass(frozen=True, slots=True)
class Box:
    """Axes with their sizes; axis i is dimension i + 1 of every array. `rank` counts the spare dimension 0."""

    symbols: tuple[Symbol, ...]
    sizes: tuple[int, ...]

    @property
    def rank(self) -> int:
        return 1 + len(self.symbols)

    @property
    def empty(self) -> bool:
        return 0 in self.sizes

    def frame(self, block: Block, dims: Mapping[Symbol, int], tensors: Mapping[Symbol, Array], span: Span | None) -> Frame:
        """Where to evaluate over one block."""
        self.check(span)
        pairs = enumerate(zip(self.symbols, block, strict=True), start=1)
        axes = {symbol: Range(position, low, high) for position, (symbol, (low, high)) in pairs}
        return Frame(dims, tensors, axes, self.rank, span)

    def check(self, span: Span | None) -> None:
        """That NumPy can have arrays of this shape at all. Raises AxonError, or MemoryError as for any array that is too large."""
        if self.rank > MAX_RANK:
            message = f"an operation over {len(self.symbols)} indices; NumPy allows {MAX_RANK - 1}"
            raise AxonError((diagnostic("AX0002", message, "", span),))
        if prod(size for size in self.sizes if size) > MAX_ELEMENTS:
            raise MemoryError

    def blocks(self, chunk: tuple[int, ...]) -> Iterator[Block]:
        """The box in pieces of at most `chunk`, the last axis running fastest."""
        ranges = [
            [(low, min(low + step, size)) for low in range(0, size, max(1, step))]
            for size, step in zip(self.sizes, chunk, strict=True)
        ]
        return product(*ranges)

    def chunk(self, groups: Iterable[Iterable[int]], limit: int) -> tuple[int, ...]:
        """Sizes of blocks in which each group of axes spans at most `limit` points; outer axes are cut first."""
        sizes = list(self.sizes)
        for group in groups:
            order = sorted(group)
            while prod(sizes[i] for i in order) > limit:
                widest = next(i for i in order if sizes[i] > 1)
                sizes[widest] = (sizes[widest] + 1) // 2
        return tuple(sizes)


def box_of(axes: tuple[Axis, ...], dims: Mapping[Symbol, int], span: Span | None) -> Box:
    """The box of axes whose extents do not depend on other axes."""
    box = Box(tuple(axis.symbol for axis in axes), tuple(max(0, size_of(axis.extent, dims, span)) for axis in axes))
    box.check(span)
    return box


def points(bodies: tuple[Scalar, ...]) -> int:
    """How many points a block may have: fewer where a `let` keeps many values alive."""
    live = 0
    for body in bodies:
        while isinstance(body, Bind):
            live += len(body.bindings)
            body = body.body
    return max(2**12, POINTS * 8 // (8 + live))


def allocate(sizes: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array to fill. Raises MemoryError where the machine has not so much memory left: the system would end the process."""
    size = prod(sizes) * dtype.itemsize
    if 0 < size <= _WORTH_ASKING:
        return np.empty(sizes, dtype)
    if prod(n for n in sizes if n) > MAX_ELEMENTS or size > max(_WORTH_ASKING, _free_memory()):
        raise too_large(sizes, size)
    return np.empty(sizes, dtype)


def too_large(sizes: tuple[int, ...], size: int) -> MemoryError:
    return MemoryError(f"an array of shape {sizes} takes {size / 2**30:,.0f} GiB, which is more than there is room for")


_WORTH_ASKING = 1 << 30


def _free_memory() -> float:
    """Bytes of memory that can be had, as far as the system tells; what it caches of files can, where it says how much that is."""
    try:
        with open("/proc/meminfo", encoding="ascii") as told:
            known = dict(line.split(":") for line in told)
        return int(known["MemAvailable"].split()[0]) * 1024
    except (OSError, ValueError, KeyError):
        pass
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):
        return inf
