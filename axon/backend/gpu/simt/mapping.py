"""How a nest is spread over threads: `choose` says by which team, `grid` over how many threads and blocks. See Note [Teams].

Note [Teams]
    By *lanes*, a thread holds `vector` neighbours along the last row axis and does for them all that the nest does: a map, the sum
    of columns. Of a map whose last axis has two halves that read the same, a thread takes neighbours in both (see `halves`). Where
    there are few columns and long loops, the threads of a block share the loops of some columns. By *rows*, a team of threads
    shares a row, and its members take the elements of each inner loop in turn, `vector` neighbours at a time: the sum of a row, a
    softmax. A team is some lanes of a warp, a block, or the blocks of a cluster. Of loops within each other whose innermost is
    short, a block's threads share two (`deep`): some groups of threads take turns of the longest of the others.

    A row need not have a multiple of `vector` elements where what lies behind it is spare (see `DeviceTensor`): those that are read
    together are still vectors, of which the last one of a row, its *tail*, counts in part. A loop of a team has its whole vectors
    first, then the thread whose turn it is has the tail; of a row in registers, its place among a thread's vectors is known. So
    nothing else asks which neighbours there are.

    Where rows begin anywhere in memory (50,257 elements of 16 bits each, one row after the other), their vectors begin where those
    of memory do: the first one of a row, its *head*, may begin before the row, and counts in part like its tail. What counts in
    part is moved element by element, by the one thread that has it.

    Threads of a warp exchange values all together. Where they do so within loops that are longer in some rows than in others
    (`uneven`), a team is a whole warp or a block.

    A team of a nest that is *held* has the row close by: what several steps read is then read once. Of a row that fits, all
    vectors are in registers (at most `chunks` for each thread), of one block or of those of a cluster. Of a longer one, each
    block of a cluster brings a piece into its shared memory by bulk copies (see `pieces`), and what a step makes at an element
    lies in memory until its thread reads it again.
    Otherwise each step goes through the row again, and what passes between steps elsewhere than at the same element goes through
    memory.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from math import prod
from typing import Any, Literal

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import CLUSTERS as HAS_CLUSTERS
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import (
    ALONE,
    Width,
    accesses,
    held_in_registers,
    is_ordered,
    least_of,
    lies_flat,
    uniform,
    width_anywhere,
    width_of,
)
from axon.backend.gpu.simt.halves import Halves, halved, halves
from axon.backend.gpu.simt.pieces import EXCHANGED, TEAM, Pieces, keeping, pieces, read_again
from axon.backend.gpu.simt.register_tiles import TiledMapping, groups, pairs_of, register_tiles
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.gpu.simt.tiles import Across, across, power
from axon.backend.plan.collapse import Collapsed, collapsed
from axon.backend.plan.ended import mean_of
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import by_lanes, inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Compute, Convert, Read, Scalar, Scan, Value
from axon.core.scalar_facts import ends_early
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim, Quotient

LONG = 64  # turns of a loop that is worth a team
MISALIGNED = 64  # vectors of a row that begins anywhere, of which the first and the last are moved one by one
By = Literal["lanes", "tiles", "warp", "block", "cluster"]
WARP = 32
THREADS = 256  # of a block whose teams are parts of warps, or single threads
MOST = 512  # threads of a block that shares a row: more would have too few registers for as many elements
EACH = 16  # elements of a short row that a thread holds: fewer do not hide what an exchange costs, more need too many registers
HELD = 32  # elements that a thread combines in order, at most
LONGEST = 16_384  # elements of a row in the registers of one block: the next block must fit beside it
COMBINED = 64  # elements that a thread holds of a row that is combined once
CLUSTERS = (1, 2, 4, 8, 16)  # blocks
SPREAD = 8192  # elements of a block of a cluster, so that four share a multiprocessor
CHUNKS = (1, 2, 4, 8)  # vectors of a row that a thread holds
LEAST = 8  # threads side by side of a block that shares columns: 128 bytes, a line of memory
TURNS = 2  # vectors of a thread of a map, where there are enough
SECTOR = 32  # bytes that memory moves at least
LINE = 128  # bytes of the L1 cache
WINDOW = 4096  # elements of a window whose reduction is worth no team


@dataclass(frozen=True, slots=True)
class Mapping:
    """A choice for one nest. `chunks` is 0 if rows are not held in registers."""

    by: By
    vector: int = 1
    beside: frozenset[int] = frozenset()  # the accesses that move neighbours together, by number
    chunks: int = 0
    whole: bool = False  # a team has exactly as many vectors as a row
    across: Across | None = None  # by tiles: what comes through shared memory
    # Comparisons of indices that come out the same for all neighbours, and quotients that are regular for them.
    uniform: frozenset[Scalar | Quotient] = frozenset()
    team: int = 1  # threads that share a row; by lanes, those that share a column; of a cluster, those of one block
    turns: int = 1  # how many times a thread takes neighbours: of a map, and of what is combined in order
    once: bool = False  # what is combined in order is so the whole row
    flat: bool = False  # by lanes: the rows are one long row
    halved: bool = False  # by lanes: a thread takes neighbours in both halves of the last row axis
    below: bool = False  # maxima and the sums of exponentials below them are found together
    later: frozenset[int] = frozenset()  # the accesses whose row is asked for by a block before the one that needs it
    general: bool = False  # neighbours move together where a call allows it, else the kernel takes one element at a time
    tiled: TiledMapping | None = None  # by tiles: a reduction of pairs
    pieces: Pieces | None = None  # by clusters: how a row is cut, and what of it comes into shared memory
    deep: int = 1  # groups of a block's threads that share a loop around the innermost one, the one with the number
    around: int = 0
    tail: bool = False  # the last neighbours of a row may be fewer
    head: bool = False  # so may the first ones, which may begin before the row
    elsewhere: frozenset[int] = frozenset()  # then: the accesses whose neighbours begin between two vectors, by number
    ends: frozenset[int] = frozenset()  # which of a thread's vectors in registers may be the last of a row, if it has them

    @property
    def persistent(self) -> bool:
        """Whether as many blocks are launched as the chip holds, which take rows in turn."""
        return self.pieces is not None and bool(self.pieces.reads)

    def __str__(self) -> str:
        team = "a thread for each row"
        if self.by == "lanes" and self.team > 1:
            team = f"{self.team} threads for each column"
        elif self.tiled is not None:
            team = str(self.tiled)
        elif self.across is not None:
            team = f"a block for each {self.across.tall} × {self.across.wide} elements"
        elif self.pieces is not None and self.pieces.blocks == 1:
            team = "a block for each row"
        elif self.pieces is not None:
            team = f"{self.pieces.blocks} blocks of a cluster for each row"
        elif self.by in ("warp", "block"):
            team = f"{self.team} thread{'s' * (self.team != 1)} of a {self.by} for each row"
            team += f" in {self.deep} groups" if self.deep > 1 else ""
        wide = f"{self.vector} neighbours at a time" if self.vector > 1 else "one element at a time"
        wide += ", at both ends of a row what is left" if self.head else ", at the end of a row what is left" if self.tail else ""
        more = f" · {self.chunks} time{'s' * (self.chunks != 1)} in registers" if self.chunks else ""
        more += f" · {self.pieces}" if self.persistent else ""
        more += f" · {self.turns} times" if self.turns > 1 else ""
        more += " · as one long row" if self.flat else ""
        more += " · maxima with the sums below them" if self.below else ""
        more += " · asks for later rows" if self.later else ""
        more += " · in both halves" if self.halved else ""
        more += " · where they lie for it" if self.general else ""
        return f"{team} · {wide}{more}"


@dataclass(frozen=True, slots=True)
class Grid:
    """A launch: blocks, and threads of each."""

    blocks: int
    threads: int


def few(target: Target) -> int:
    """Threads, below which a chip is not busy."""
    return target.multiprocessors * 256


def full(target: Target) -> int:
    """Threads that keep a chip busy."""
    return target.multiprocessors * 1024


def choose(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Mapping:
    """The mapping for tensors that lie like these, on a chip."""
    if not nest_sweeps(nest):
        return _map(nest, values, tensors, sizes, target)
    if is_map(nest) and _width_by_rows(nest, values, tensors, sizes) == ALONE:
        return _elements(nest, widest(nest, sizes), sizes)
    tiled = register_tiles(nest, values, tensors, sizes, target)
    if tiled is not None:
        return by_register_tiles(nest, tiled, width_of(nest, values, tensors, sizes, True))
    if by_lanes(nest):
        width = width_of(nest, values, tensors, sizes, True, tails=True)
        team = sharers(nest, width, sizes, target)
        if team is not None:
            return _lanes(nest, width, sizes, team=team)
    if windows(nest, tensors, sizes, target):
        return _lanes(nest, width_of(nest, values, tensors, sizes, True), sizes)
    if any(map(ends_early, nest.steps)) and shareable(nest):
        return _ended(nest, values, tensors, sizes, target)
    width = _width_by_rows(nest, values, tensors, sizes)
    vectors = -(-(widest(nest, sizes) + (width.vector - 1 if width.head else 0)) // width.vector)
    if held_in_registers(nest) and not uneven(nest):
        cut = None if width.head else pieces(nest, values, tensors, sizes, width, target)
        found = _in_registers(nest, width, vectors, sizes, cut)
        if found is None and (cut is not None or (target.has(HAS_CLUSTERS) and read_again(nest))) and not _at_once(nest):
            found = _in_cluster(nest, values, tensors, width, vectors, sizes, cut, target)
        if found is not None:
            return found
    if _at_once(nest):
        return _shared("block", width, block_of(vectors), below=True)
    if any(isinstance(s, Scan) or is_ordered(s) for s in nest.steps):
        return _in_order(width, vectors, uneven(nest))
    deep, around = _groups(nest, vectors, sizes, target)
    if deep > 1:
        team = deep * power(vectors)
        return _shared("block", width, team, deep=deep, around=around)
    if vectors <= WARP and not uneven(nest):
        return _shared("warp", width, power(vectors))
    return _shared("block", width, block_of(vectors))


def _shared(by: By, width: Width, team: int, **more: Any) -> Mapping:
    """A row for a team."""
    found = Mapping(by, width.vector, width.beside, team=team, tail=width.tail, head=width.head, elsewhere=width.elsewhere)
    return replace(found, **more)


def _width_by_rows(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]
) -> Width:
    """How many neighbours are moved together; of rows that begin anywhere, if they are long beside what moves one by one."""
    width = width_of(nest, values, tensors, sizes, False, tails=True)
    if width == ALONE:
        width = width_anywhere(nest, values, tensors, sizes)
    return width if not width.head or widest(nest, sizes) >= MISALIGNED * width.vector else ALONE


def _groups(nest: Nest, vectors: int, sizes: MappingOf[Symbol, int], target: Target) -> tuple[int, int]:
    """Groups of a block's threads that are worth to share a loop around the innermost one, as many as keep the chip busy, and the
    number of that loop; 1 where there is none."""
    loops = [reduced(step) for step in nest.steps if reduced(step)]
    rows = max(1, prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows))
    beside = power(vectors)
    if not loops or any(len(axes) != len(loops[0]) or len(axes) < 2 for axes in loops):
        return 1, 0
    extents = [min(bound(axes[n].extent, sizes) for axes in loops) for n in range(len(loops[0]) - 1)]
    around = max(range(len(extents)), key=extents.__getitem__)
    count = 1
    while 2 * count * beside <= MOST and 2 * count <= extents[around]:
        if count * beside >= 2 * WARP and rows * count * beside >= 2 * full(target):
            break
        count *= 2
    return (count, around) if count * beside >= 2 * WARP else (1, 0)


def _ended(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Mapping:
    """Rows whose loops end where data say: a team for each as large as such a loop is in the mean (see `plan.ended`), and larger
    where that would not fill the chip. Of many short ones each has one thread."""
    rows = max(1, prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows))
    most, typical = 1, 1
    for step in nest.steps:
        if axes := reduced(step):
            long = max(1, bound(axes[-1].extent, sizes))
            most, typical = max(most, long), max(typical, min(long, bound(mean_of(step, values), sizes)))
    width = width_of(nest, values, tensors, sizes, False)
    team = power(-(-typical // (2 * width.vector)))
    while team < MOST and 2 * rows * team <= full(target) and team * width.vector < most:
        team *= 2
    if team == 1 and nest.rows:
        return _lanes(nest, width_of(nest, values, tensors, sizes, True), sizes)
    if team <= WARP:
        return Mapping("warp", width.vector, width.beside, team=team)
    return Mapping("block", width.vector, width.beside, team=min(MOST, team))


def by_register_tiles(nest: Nest, tiled: TiledMapping, width: Width) -> Mapping:
    """A reduction of pairs; results are stored as wide as a tile allows, if neighbours in it are neighbours along the last axis."""
    found = groups(nest)
    assert found is not None
    width = width if width.vector <= tiled.tile.columns and found.columns[-1] is nest.rows[-1] else ALONE
    return Mapping("tiles", width.vector, width.beside, tiled=tiled)


def _map(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Mapping:
    through = across(nest, values, tensors, sizes, target)
    if through:
        return replace(_lanes(nest, width_of(nest, values, tensors, sizes, True), sizes), by="tiles", across=through)
    width = width_of(nest, values, tensors, sizes, True, divided=True, tails=True)
    cut = halves(nest)
    if cut is not None:
        found = in_halves(cut, values, tensors, sizes, divided=True)
        least = min(max(1, tensors[s].element.bits // 8) for s in nest.stored)
        if found.vector >= width.vector and cut.half.evaluate(sizes) * least >= SECTOR:
            return found
    items = prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows) // width.vector
    reads = sum(not access.store for access in accesses(nest, True))
    made = _lanes(nest, width, sizes, turns=TURNS if items >= 2 * TURNS * full(target) and reads <= 2 else 1)
    return replace(made, flat=width.vector > 1 and lies_flat(nest, tensors))


def is_map(nest: Nest) -> bool:
    """Whether each step makes elements from those at the same place, and nothing else."""
    return all(isinstance(s, Compute) and s.reduction is None and s.axes == nest.steps[0].axes for s in nest.steps)


def over_fewer_axes(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, DeviceTensor]
) -> tuple[Collapsed, MappingOf[Symbol, DeviceTensor]]:
    """A nest over as few axes as its tensors allow as they lie, and the tensors with as few dimensions."""
    made = collapsed(
        nest, values, lambda tensor, dimension: tensors[tensor].goes_on(dimension), rows=not nest_sweeps(nest), loops=True
    )
    return made, {**tensors, **{symbol: tensors[symbol].merged(several) for symbol, several in made.dimensions.items()}}


def in_rows(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Nest:
    """A map of which neighbours cannot move together as a nest of rows, which teams share, if they are long enough: then only
    its rows are found by division, not each element. Rows too long for that are shared by a block, if there are enough of them to
    keep the chip busy."""
    if nest_sweeps(nest) or not is_map(nest) or len(nest.rows) < 2 or nest.rows[-1].extent.evaluate(sizes) < 2 * WARP:
        return nest
    *several, row = (max(0, axis.extent.evaluate(sizes)) for axis in nest.rows)
    if row > CHUNKS[-1] * MOST and prod(several) * MOST < full(target):
        return nest
    if across(nest, values, tensors, sizes, target) is not None:
        return nest
    if width_of(nest, values, tensors, sizes, True, divided=True, tails=True) != ALONE:
        return nest
    return replace(nest, rows=nest.rows[:-1])


def _elements(nest: Nest, extent: int, sizes: MappingOf[Symbol, int]) -> Mapping:
    """Of a map in rows: an element of each thread beside the next thread's, so that memory sees whole lines."""
    chunks = next((n for n in CHUNKS if extent <= n * WARP), CHUNKS[-1])
    if extent <= chunks * WARP:
        return _held(nest, ALONE, "warp", WARP, chunks, sizes)
    team = -(-extent // (chunks * WARP)) * WARP
    return _held(nest, ALONE, "block", team, -(-extent // team), sizes) if team <= MOST else Mapping("block", team=MOST)


def in_halves(
    cut: Halves,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    *,
    divided: bool = False,
) -> Mapping:
    """A map of which a thread takes neighbours in both halves; `divided` as of `width_of`."""
    width = width_of(cut.nest, {**values, **cut.values()}, cut.lying(tensors, sizes), sizes, True, divided=divided)
    return replace(_lanes(cut.nest, width, sizes), halved=True)


def _lanes(nest: Nest, width: Width, sizes: MappingOf[Symbol, int], *, team: int = 1, turns: int = 1) -> Mapping:
    same = frozenset(uniform(nest, width.vector, sizes)) if width.vector > 1 else frozenset()
    return Mapping("lanes", width.vector, width.beside, uniform=same | width.regular, team=team, turns=turns, tail=width.tail)


def _in_registers(nest: Nest, width: Width, vectors: int, sizes: MappingOf[Symbol, int], cut: Pieces | None) -> Mapping | None:
    """Rows in registers: by parts of warps if they are short, by as few threads of a block as can hold them if not too long."""
    chunks = min(power(vectors), max(1, EACH // width.vector))
    most = min(CHUNKS[-1], (HELD if _reductions(nest) > 1 else COMBINED) // width.vector)
    if vectors > WARP * chunks and vectors <= WARP * most and not _stores(nest):
        chunks = most
    if vectors <= WARP * chunks:
        return _held(nest, width, "warp", power(-(-vectors // chunks)), chunks, sizes)
    for chunks in reversed(CHUNKS):
        team = -(-vectors // (chunks * WARP)) * WARP
        if 2 * WARP <= team <= MOST and team * chunks * width.vector <= LONGEST:
            made = _held(nest, width, "block", team, chunks, sizes)
            if not _stores(nest):
                return replace(made, below=bool(peaks(nest)))
            return replace(made, later=cut.reads if cut else frozenset())
    return None


def _registers(nest: Nest, tensors: MappingOf[Symbol, DeviceTensor]) -> int:
    """How many times the registers of a row's elements it takes to compute with them: in f64 with narrower ones the compiler keeps
    both."""
    wide = any(isinstance(n, Convert) and n.element.bits == 64 for step in nest.steps for s in scalars(step) for n in nodes(s))
    return 2 if wide and any(tensors[a.tensor].element.bits < 64 for a in accesses(nest, False) if a.tensor in tensors) else 1


def _at_once(nest: Nest) -> bool:
    """Whether a row is met once, though it is read for a maximum and for the sum below it."""
    return bool(peaks(nest)) and _reductions(nest) == 2 and not _stores(nest)


def _stores(nest: Nest) -> bool:
    """Whether what is computed at the elements of a row is stored."""
    return any(access.store for access in accesses(nest, False))


def _reductions(nest: Nest) -> int:
    return sum(bool(reduced(step)) for step in nest.steps)


def _held(nest: Nest, width: Width, by: By, team: int, chunks: int, sizes: MappingOf[Symbol, int], blocks: int = 1) -> Mapping:
    extent = longest(nest, sizes)
    whole = team * chunks * blocks * width.vector == extent and not width.head
    cut = Pieces(blocks, chunks) if blocks > 1 else None
    found = _shared(by, width, team, chunks=chunks, whole=whole, pieces=cut)
    return replace(found, ends=where_it_ends(extent, found))


def where_it_ends(extent: int, mapping: Mapping) -> frozenset[int]:
    """Of a row that each block holds in so many of each thread's vectors: which of those may be its tail."""
    if not mapping.tail:
        return frozenset()
    before = mapping.vector - 1 if mapping.head else 0
    vectors = {extent // mapping.vector, (extent + before) // mapping.vector}
    return frozenset(n % (mapping.team * mapping.chunks) // mapping.team for n in vectors)


def _in_cluster(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    width: Width,
    vectors: int,
    sizes: MappingOf[Symbol, int],
    cut: Pieces | None,
    target: Target,
) -> Mapping | None:
    """Rows across a cluster, in registers if they are not too long for that, else in shared memory if bulk copies can bring them.

    What is the same in each row (the scale of a layer norm) would come from the L2 cache for each, which takes as long as the row
    itself. If it fits into shared memory, blocks keep it there and take rows in turn, the next of which comes meanwhile. Else a
    cluster has one row, and several share a multiprocessor, so that one computes while others wait for memory. Which of these gain
    by asking for later rows was measured: those of 16 bits.
    """
    chunks = max(CHUNKS[-1], EACH // width.vector) // _registers(nest, tensors)
    for blocks in (n for n in CLUSTERS if cut is not None and n <= target.largest_cluster):
        assert cut is not None
        team = -(-vectors // (blocks * chunks * WARP)) * WARP
        kept = keeping(nest, values, tensors, width, replace(cut, blocks=blocks, chunks=chunks), team * chunks, target)
        if kept is not None and team <= MOST // 2:
            return replace(_held(nest, width, "cluster", team, chunks, sizes, blocks), pieces=kept)
    for team in (min(THREADS, SPREAD // (chunks * width.vector)), min(MOST, 2 * SPREAD // (chunks * width.vector))):
        blocks = power(-(-vectors // (team * chunks)))
        if blocks <= target.largest_cluster:
            team = -(-vectors // (blocks * chunks * WARP)) * WARP
            made = _held(nest, width, "cluster", team, chunks, sizes, blocks)
            return replace(made, later=cut.reads if cut is not None and cut.bytes < 4 * width.vector else frozenset())
    if cut is None:
        return None
    whole = TEAM * cut.chunks * cut.blocks * width.vector == longest(nest, sizes)
    return Mapping("cluster", width.vector, width.beside, whole=whole, team=TEAM, pieces=cut, tail=width.tail)


def _in_order(width: Width, vectors: int, uneven: bool) -> Mapping:
    """Rows whose elements are combined in order: at once if the team is large enough, else stretch by stretch."""
    most = max(1, EACH // width.vector)
    if not uneven and vectors <= WARP * most:
        turns = min(most, -(-vectors // WARP))
        team = power(-(-vectors // turns))
        return Mapping("warp", width.vector, width.beside, team=team, turns=turns, once=True, tail=width.tail)
    for turns in range(min(8, HELD // width.vector), 0, -1):
        team = -(-vectors // (turns * WARP)) * WARP
        if not uneven and 2 * WARP <= team <= MOST:
            times = -(-vectors // team)
            return Mapping("block", width.vector, width.beside, team=team, turns=times, once=True, tail=width.tail)
    return Mapping("block", width.vector, width.beside, team=block_of(vectors), tail=width.tail)


def block_of(vectors: int) -> int:
    """The threads of a block that goes through a row of so many vectors."""
    return min(MOST, max(WARP, -(-vectors // WARP) * WARP))


def plainest(nest: Nest) -> Mapping:
    """The mapping that takes nothing for granted, and serves all sizes."""
    if by_lanes(nest) or not nest_sweeps(nest):
        return Mapping("lanes")
    return Mapping("block", team=THREADS)


def roomier(mapping: Mapping) -> Mapping | None:
    """The same with all the registers that a thread can have, with a tile that needs fewer, with more threads that hold fewer
    elements of a row each, or with rows that are not held; None if there is none."""
    tiled = mapping.tiled
    if tiled is None and mapping.chunks % 2 == 0 < mapping.chunks and 2 * mapping.team <= MOST and mapping.pieces is None:
        by: By = "warp" if mapping.by == "warp" and 2 * mapping.team <= WARP else "block"
        ends = frozenset(n // 2 for n in mapping.ends)
        return replace(mapping, by=by, team=2 * mapping.team, chunks=mapping.chunks // 2, ends=ends)
    if tiled is None:
        if not (mapping.chunks or mapping.pieces is not None) or mapping.by not in ("block", "cluster"):
            return None
        width = Width(mapping.vector, mapping.beside, tail=mapping.tail, head=mapping.head, elsewhere=mapping.elsewhere)
        return _shared("block", width, MOST)
    smaller = tiled.tile.smaller
    if tiled.resident > 1:
        return replace(mapping, tiled=replace(tiled, resident=1))
    return replace(mapping, tiled=replace(tiled, tile=smaller)) if smaller is not None else None


def sharers(nest: Nest, width: Width, sizes: MappingOf[Symbol, int], target: Target) -> int | None:
    """How many threads share the loops of a column; None if there are too few columns for threads to lie along them."""
    columns = prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows)
    long = widest(nest, sizes)
    if any(axis.extent.atom is None and not axis.extent.variables <= sizes.keys() for step in nest.steps for axis in reduced(step)):
        long = max(LONG, long)  # parts of columns: how many threads share one was measured so
    if columns >= full(target) * width.vector or long < LONG // 4:
        return 1
    if not shareable(nest):
        return None if columns < few(target) and long >= LONG else 1
    items = -(-columns // width.vector)
    if items < LEAST and long >= LONG:
        return None
    # Where fewer lie side by side than a line of memory has, the next index of their loop lies beside them.
    beside = -(-max(1, nest.rows[-1].extent.evaluate(sizes)) // width.vector)
    most, team = THREADS // min(LEAST, 1 << (beside.bit_length() - 1)), 1
    while team < most and 3 * items * team < 2 * full(target) and long >= 8 * team:
        team *= 2
    return team


def windows(nest: Nest, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int], target: Target) -> bool:
    """Whether a nest reduces short pieces of rows, of which those of neighbours lie near each other, and there are enough rows to
    keep the chip busy without a team for each: then lines of memory that several threads read stay in the L1 cache."""
    if not nest.rows or prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows) < full(target):
        return False
    lane = nest.rows[-1].symbol
    several = False
    for step in nest.steps:
        if isinstance(step, Scan) or inner(step, len(nest.rows)) or is_ordered(step):
            return False
        if axes := reduced(step):
            extents = [bound(axis.extent, sizes) for axis in axes]
            if extents[-1] >= WARP or prod(extents) > WINDOW:
                return False
            several = several or len(axes) > 1
        for read in (n for s in scalars(step) for n in nodes(s) if isinstance(n, Read)):
            if not _near(read, lane, tensors, sizes):
                return False
            along = axes[-1].symbol if axes else None
            several = several or any(isinstance(s, Dim) and {lane, along} <= s.variables for s in read.subscripts)
    return several


def _near(read: Read, lane: Symbol, tensors: MappingOf[Symbol, DeviceTensor], sizes: MappingOf[Symbol, int]) -> bool:
    """Whether an element and that of the next lane are in one line of memory, or in two that follow each other."""
    tensor = tensors.get(read.tensor)
    if tensor is None:
        return False
    step = 0
    for subscript, stride in zip(read.subscripts, tensor.strides, strict=True):
        found = subscript.linear_in(lane) if isinstance(subscript, Dim) else None
        if found is None or not found[0].variables <= sizes.keys():
            return False
        step += found[0].evaluate(sizes) * stride
    return abs(step) * tensor.element.bits // 8 <= LINE


def shareable(nest: Nest) -> bool:
    """Whether threads may share a nest's loops by lanes: each is a reduction whose parts can be joined in any order."""
    for step in nest.steps:
        if isinstance(step, Scan) or inner(step, len(nest.rows)):
            return False
        if is_ordered(step):
            return False
    return True


def nest_sweeps(nest: Nest) -> bool:
    """Whether there is anything in a row for a team to share."""
    return any(inner(step, len(nest.rows)) or reduced(step) for step in nest.steps)


def uneven(nest: Nest) -> bool:
    """Whether a team puts something together within a loop whose extent differs from row to row."""
    rows = {axis.symbol for axis in nest.rows}
    for step in nest.steps:
        axes = (*inner(step, len(nest.rows)), *reduced(step))
        within = isinstance(step, Scan) or (step.reduction is not None and (is_ordered(step) or axes != reduced(step)))
        if within and any(not rows.isdisjoint(axis.extent.variables) for axis in axes):
            return True
    return False


def widest(nest: Nest, sizes: MappingOf[Symbol, int]) -> int:
    """The longest loop, and at least 1: what a team is made for."""
    return max(1, longest(nest, sizes))


def longest(nest: Nest, sizes: MappingOf[Symbol, int]) -> int:
    """The longest loop that a team shares, or a bound of it where it differs from row to row. It may be empty."""
    found = [0]
    for step in nest.steps:
        axes = reduced(step) or inner(step, len(nest.rows))
        if axes:
            found.append(bound(axes[-1].extent, sizes))
    return max(found)


def bound(extent: Dim, sizes: MappingOf[Symbol, int]) -> int:
    """An extent, or of one that only the rows decide a bound: the least part of a minimum that sizes decide."""
    if extent.variables <= sizes.keys():
        return extent.evaluate(sizes)
    known = [item.evaluate(sizes) for item in least_of(extent) if item.variables <= sizes.keys()]
    return min(known, default=LONG)


def grid(mapping: Mapping, nest: Nest, sizes: MappingOf[Symbol, int], target: Target) -> Grid:
    """The launch for these sizes on a chip; no blocks where there are no rows."""
    half = halved(nest.rows[-1]) if mapping.halved else None
    axes = nest.rows if half is None else (*nest.rows[:-1], half)
    extents = [max(0, axis.extent.evaluate(sizes)) for axis in axes]
    rows = prod(extents)
    found = groups(nest) if mapping.tiled is not None else None
    if mapping.tiled is not None and found is not None:
        tile, pairs = mapping.tiled.tile, pairs_of(nest, found, sizes)
        count = -(-pairs.rows // tile.rows) * -(-pairs.columns // tile.columns)
        return Grid(pairs.outer * count * tile.splits, tile.threads)
    if mapping.across is not None:
        sides = {nest.rows[-1].symbol: mapping.across.wide, mapping.across.axis: mapping.across.tall}
        cut = [-(-n // sides.get(axis.symbol, 1)) for axis, n in zip(nest.rows, extents, strict=True)]
        return Grid(prod(cut), mapping.across.threads)
    match mapping.by:
        case "lanes":
            items = prod(extents[:-1]) * -(-extents[-1] // mapping.vector) if extents else 1
            each = THREADS // mapping.team * mapping.turns
            alone = mapping.team == mapping.turns == 1 and not mapping.general
            return Grid(-(-items // each), min(THREADS, max(WARP, -(-items // WARP) * WARP)) if alone else THREADS)
        case "warp":
            return Grid(-(-rows * mapping.team // THREADS), THREADS)
        case "cluster":
            held = mapping.pieces
            assert held is not None
            if not mapping.persistent:
                return Grid(rows * held.blocks, mapping.team)
            room = held.chunks * mapping.team * held.room + EXCHANGED
            at_once = min(target.shared_per_block // room, target.threads_per_multiprocessor // mapping.team)
            resident = max(1, at_once) * target.multiprocessors
            return Grid(min(rows, max(1, resident // held.blocks)) * held.blocks, mapping.team)
        case _:
            return Grid(rows, mapping.team)
