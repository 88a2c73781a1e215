"""How a nest is spread over threads. See Note [Teams].

Note [Teams]
    By *lanes*, a thread holds `vector` neighbours along the last row axis and does for them all that the nest does: a map, the sum
    of columns. By *rows*, a team of threads shares a row, and its members take the elements of each inner loop in turn, `vector`
    neighbours at a time: the sum of a row, a softmax. A team is some lanes of a warp, or a block.

    Threads of a warp exchange values all together. Where they do so within loops that are longer in some rows than in others
    (`uneven`), a team is a whole warp or a block.

    A team of a nest that is *held* has all vectors of the row in registers (at most `chunks` for each thread): what several steps
    read is then read once. Otherwise each step goes through the row again, and what passes between steps elsewhere than at the same
    element goes through memory.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from math import prod
from typing import Literal

from axon.backend.lanes import by_lanes, inner, reduced
from axon.backend.memory import Tensor
from axon.backend.plan import Nest
from axon.backend.simt.access import held_in_registers, is_ordered, uniform, width_of
from axon.backend.simt.tiles import SIDE, Across, across
from axon.backend.simt.tiles import THREADS as TILED
from axon.core import Scalar, Scan, Value
from axon.names import Symbol
from axon.shapes.dimension import Dim, Minimum

FEW = 132 * 256  # threads, below which the chip is not busy
LONG = 64  # turns of a loop that is worth a team
By = Literal["lanes", "tiles", "warp", "block"]
WARP = 32
THREADS = 256  # of a block whose teams are parts of warps, or single threads
MOST = 512  # threads of a block that shares a row: more would have too few registers each
CHUNKS = (4, 8)  # vectors of a row that a thread holds


_TEAMS: dict[By, str] = {
    "lanes": "a thread for each row",
    "tiles": "a block for each square",
    "warp": "part of a warp for each row",
    "block": "a block for each row",
}


@dataclass(frozen=True, slots=True)
class Mapping:
    """A choice for one nest. `chunks` is 0 if rows are not held in registers."""

    by: By
    vector: int = 1
    beside: frozenset[int] = frozenset()  # the accesses that move neighbours together, by number
    chunks: int = 0
    whole: bool = False  # a team has exactly as many vectors as a row
    across: Across | None = None  # by tiles: what comes through shared memory
    uniform: frozenset[Scalar] = frozenset()  # comparisons of indices that come out the same for all neighbours

    def __str__(self) -> str:
        team = _TEAMS[self.by]
        wide = f"{self.vector} neighbours at a time" if self.vector > 1 else "one element at a time"
        held = f" · {self.chunks} times in registers" if self.chunks else ""
        return f"{team} · {wide}{held}"


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch: blocks, threads of each, and how many threads share a row (of a mapping by rows)."""

    blocks: int
    threads: int
    team: int


def choose(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]
) -> Mapping:
    """The mapping for tensors that lie like these."""
    lanes = not nest_sweeps(nest) or (by_lanes(nest) and not too_few(nest, sizes))
    width = width_of(nest, values, tensors, sizes, lanes)
    if lanes:
        through = across(nest, tensors, sizes)
        same = frozenset(uniform(nest, width.vector, sizes)) if width.vector > 1 else frozenset()
        return Mapping("tiles" if through else "lanes", width.vector, width.beside, across=through, uniform=same)
    vectors = -(-widest(nest, sizes) // width.vector)
    held = held_in_registers(nest)
    teams: tuple[tuple[By, int], ...] = (("warp", WARP), ("block", MOST))
    if uneven(nest):
        teams = teams[1:]
    for by, team in teams:
        for chunks in CHUNKS[:1] if by == "warp" else CHUNKS:
            if held and vectors <= team * chunks:
                found = Mapping(by, width.vector, width.beside, chunks)
                exact = grid(found, nest, sizes).team * chunks == vectors and not _ragged(nest, width.vector, sizes)
                return replace(found, whole=exact)
    return Mapping("warp" if vectors <= WARP and not uneven(nest) else "block", width.vector, width.beside)


def _ragged(nest: Nest, vector: int, sizes: MappingOf[Symbol, int]) -> bool:
    """Whether rows end within a vector."""
    return widest(nest, sizes) % vector != 0


def plainest(nest: Nest) -> Mapping:
    """The mapping that takes nothing for granted, and serves all sizes."""
    return Mapping("lanes" if by_lanes(nest) or not nest_sweeps(nest) else "block")


def too_few(nest: Nest, sizes: MappingOf[Symbol, int]) -> bool:
    """Whether so few threads would each go through so long loops that teams are better, however what they read lies."""
    items = prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows)
    return items < FEW and widest(nest, sizes) >= LONG


def nest_sweeps(nest: Nest) -> bool:
    """Whether there is anything in a row for a team to share."""
    return any(inner(step, len(nest.rows)) or reduced(step) for step in nest.steps)


def uneven(nest: Nest) -> bool:
    """Whether a team puts something together within a loop whose extent differs from row to row."""
    rows = {axis.symbol for axis in nest.rows}
    for step in nest.steps:
        axes = (*inner(step, len(nest.rows)), *reduced(step))
        within = isinstance(step, Scan) or (
            step.reduction is not None and (is_ordered(step.reduction.monoid) or axes != reduced(step))
        )
        if within and any(not rows.isdisjoint(axis.extent.variables) for axis in axes):
            return True
    return False


def widest(nest: Nest, sizes: MappingOf[Symbol, int]) -> int:
    """The longest loop that a team shares, or a bound of it where it differs from row to row."""
    found = [1]
    for step in nest.steps:
        axes = reduced(step) or inner(step, len(nest.rows))
        if axes:
            found.append(bound(axes[-1].extent, sizes))
    return max(found)


def bound(extent: Dim, sizes: MappingOf[Symbol, int]) -> int:
    """An extent, or of one that only the rows decide a bound: the least part of a minimum that sizes decide."""
    if extent.variables <= sizes.keys():
        return extent.evaluate(sizes)
    atom = extent.atom
    items = atom.items if isinstance(atom, Minimum) else ()
    known = [item.evaluate(sizes) for item in items if item.variables <= sizes.keys()]
    return min(known, default=LONG)


def grid(mapping: Mapping, nest: Nest, sizes: MappingOf[Symbol, int]) -> Grid:
    """The launch for these sizes; no blocks where there are no rows."""
    extents = [max(0, axis.extent.evaluate(sizes)) for axis in nest.rows]
    rows = prod(extents)
    if mapping.across is not None:
        cut = (nest.rows[-1].symbol, mapping.across.axis)
        squares = [-(-n // (SIDE if axis.symbol in cut else 1)) for axis, n in zip(nest.rows, extents, strict=True)]
        return Grid(prod(squares), TILED, 1)
    if mapping.by == "lanes":
        items = prod(extents[:-1]) * -(-extents[-1] // mapping.vector) if extents else 1
        threads = THREADS if items >= THREADS else max(WARP, -(-items // WARP) * WARP)
        return Grid(-(-items // threads), threads, 1)
    vectors = max(1, -(-widest(nest, sizes) // mapping.vector))
    each = max(1, mapping.chunks)
    if mapping.by == "warp":
        team = WARP if uneven(nest) else 1
        while team < WARP and team * each < vectors:
            team *= 2
        return Grid(-(-rows * team // THREADS), THREADS, team)
    threads = min(MOST, max(WARP, -(-vectors // each // WARP) * WARP))
    while threads * each < vectors and threads < MOST:
        threads += WARP
    return Grid(rows, threads, threads)
