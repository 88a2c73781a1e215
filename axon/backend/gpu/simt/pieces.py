"""Rows that do not fit the registers of a block: the blocks of a cluster each bring a piece of a row into their shared memory.

A piece comes by a bulk copy, which one thread asks for and no register waits for. A cluster takes rows in turn, and has asked for
the next ones while it computes: there is room for several *stages*. What several steps of a nest read is brought once for all, into
registers if the mapping holds rows there; what is the same in each row (the scale of a layer norm) is brought once for all rows if
it is *kept*. The blocks exchange what they reduced by stores into each other's shared memory that a barrier there counts (see
`reductions`): a barrier of the whole cluster would wait for all of memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from axon.backend.gpu.layout.memory import Tensor
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.simt.access import ACCESS, Access, Width, accesses
from axon.backend.kernel.ir import Constant, Expression, Given, Like, Name, call, lift, product, same
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Read, Value
from axon.core.scalar_facts import is_inside
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter
    from axon.backend.gpu.simt.mapping import Mapping

GRID = Given("cuda.gridDim.x")  # how many blocks there are
BLOCKS = (1, 2, 4, 8)  # of a cluster
PIECE = 32 * 1024  # bytes of a block, so that a multiprocessor has six blocks
MOST = 192 * 1024  # bytes of a block, where eight blocks have too little otherwise
BARRIER = 8  # bytes of shared memory
TEAM = 128  # threads of a block
SHARED = HOPPER.shared_per_block  # bytes of a block that has a multiprocessor to itself
EXCHANGED = 4096  # bytes of a block for what it exchanges with others
ROOM = SHARED // 2 - EXCHANGED  # bytes of a block that shares a multiprocessor with another
MULTIPROCESSORS = HOPPER.multiprocessors
REGISTERS = HOPPER.registers_per_multiprocessor


@dataclass(frozen=True, slots=True)
class Pieces:
    """Into how many pieces a row is cut, for how many vectors of each thread they have room, and what is brought."""

    blocks: int
    chunks: int
    reads: frozenset[int] = frozenset()  # the accesses, by number
    bytes: int = 0  # of all that is brought for one vector
    stages: int = 1
    kept: frozenset[int] = frozenset()  # the accesses of what is the same in every row: it is brought once
    kept_bytes: int = 0  # of that, for one vector

    @property
    def room(self) -> int:
        """Bytes of shared memory for one vector of each thread."""
        return self.stages * self.bytes + self.kept_bytes

    def __str__(self) -> str:
        rows = f" · {self.stages} rows at once" if self.stages > 1 else ""
        same = " · with what is the same in each row" if self.kept else ""
        return f"{self.chunks} times in shared memory{rows}{same}"


Shared = tuple[Symbol, tuple[Dim, ...]]  # what several accesses have in common


def _brought(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, Tensor], width: Width
) -> dict[Shared, list[tuple[int, Access]]]:
    """What bulk copies can bring of a row, and the accesses to it, by number."""
    found: dict[Shared, list[tuple[int, Access]]] = {}
    whole = set(wholly(nest, values))
    for number, access in enumerate(accesses(nest, False)):
        if access.store or number not in width.beside or (access.tensor, access.subscripts, access.lane.symbol) not in whole:
            continue
        if width.vector * tensors[access.tensor].element.bits % (8 * ACCESS) == 0:
            shared = access.tensor, canonical(access.subscripts, access.lane.symbol)
            found.setdefault(shared, []).append((number, access))
    return found


def pieces(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], width: Width
) -> Pieces | None:
    """How a row is cut; None if there is nothing that several steps read, if bulk copies cannot bring it, and if it is too long."""
    found = _brought(nest, values, tensors, width)
    brought = {shared: made for shared, made in found.items() if len({access.lane.symbol for _, access in made}) > 1}
    if not brought:
        return None
    extent = max(access.lane.extent.evaluate(sizes) for made in brought.values() for _, access in made)
    reads = frozenset(number for made in brought.values() for number, _ in made)
    size = sum(width.vector * tensors[tensor].element.bits // 8 for tensor, _ in brought)
    vectors = -(-extent // width.vector)
    for blocks in BLOCKS:
        chunks = -(-vectors // (blocks * TEAM))
        room = chunks * TEAM * size
        if room <= (PIECE if blocks < BLOCKS[-1] else MOST):
            return Pieces(blocks, chunks, reads, size)
    return None


def keeping(
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, Tensor], width: Width, cut: Pieces, vectors: int
) -> Pieces | None:
    """The same pieces, of so many vectors for each block, and beside them what is the same in each row. None if there is nothing,
    or no room."""
    rows = {axis.symbol for axis in nest.rows}
    for (tensor, subscripts), made in _brought(nest, values, tensors, width).items():
        if all(rows.isdisjoint(subscript.variables) for subscript in subscripts):
            numbers = frozenset(number for number, _ in made)
            size = width.vector * tensors[tensor].element.bits // 8
            once = size if numbers <= cut.reads else 0  # it was to be brought with each row
            reads, bytes_ = cut.reads - numbers, cut.bytes - once
            cut = replace(cut, reads=reads, bytes=bytes_, kept=cut.kept | numbers, kept_bytes=cut.kept_bytes + size)
    return cut if cut.kept and cut.reads and vectors * cut.room <= ROOM else None


_LANE = Symbol("lane", -1)


def canonical(subscripts: tuple[object, ...], lane: Symbol) -> tuple[Dim, ...]:
    """Subscripts of sizes, with one name for the lane of every step."""
    return tuple(s.substitute({lane: Dim.of(_LANE)}) for s in subscripts if isinstance(s, Dim))


def wholly(nest: Nest, values: MappingOf[Symbol, Value]) -> Iterator[tuple[Symbol, tuple[object, ...], Symbol]]:
    """The reads, by tensor, subscripts and lane, that are inside of a tensor from outside for every element of the row."""
    made = {out.symbol for step in nest.steps for out in step.outs}
    for step in nest.steps:
        axes = reduced(step) or inner(step, len(nest.rows))
        extents = {a.symbol: a.extent for a in (*step.axes, *reduced(step))}
        for read in (n for s in scalars(step) for n in nodes(s) if axes and isinstance(n, Read)):
            plain = read.padding is None and read.tensor not in made and all(isinstance(s, Dim) for s in read.subscripts)
            if plain and is_inside(read, values[read.tensor], extents):
                yield read.tensor, read.subscripts, axes[-1].symbol


def barriers(nest: Nest, cut: Pieces) -> int:
    """Bytes of shared memory: a barrier for each stage, and two for each reduction."""
    count = cut.stages + 2 * sum(bool(reduced(step)) for step in nest.steps) + bool(cut.kept)
    return -(-count * BARRIER // ACCESS) * ACCESS


def wholes(emitter: PlainEmitter, reads: frozenset[int]) -> list[Access]:
    """Of these accesses one for each piece of memory: several steps read the same."""
    found: dict[object, Access] = {}
    for number, access in enumerate(accesses(emitter.nest, False)):
        if number in reads:
            found.setdefault((access.tensor, canonical(access.subscripts, access.lane.symbol)), access)
    return list(found.values())


@contextmanager
def at_row(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression], row: Expression) -> Iterator[None]:
    """What is written inside is for another row, if there is one."""
    with emitter.writer.branch(emitter.code.when(row < emitter.code.local("rows"))):
        before = dict(emitter.places)
        emitter.places |= {axis.symbol: emitter.code.name(f"{axis.symbol.name}_") for axis in rows}
        emitter.indices(rows, extents, row)
        yield
        emitter.places = before


def place_in_row(emitter: PlainEmitter, access: Access, lane: Expression) -> Expression:
    """The place of an element of a row, counted in elements."""
    emitter.places[access.lane.symbol] = lane
    emitter.writer.extents[access.lane.symbol] = access.lane.extent
    first = emitter.writer.place(access.tensor, access.subscripts)
    del emitter.writer.extents[access.lane.symbol], emitter.places[access.lane.symbol]
    return first


def ask(
    emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression], row: Expression, begin: Expression, count: Expression
) -> None:
    """Ask for a part of a row that is needed soon: memory works for it while this one is finished."""
    code, writer = emitter.code, emitter.writer
    with writer.branch(code.when(same(code.local("thread"), 0))), at_row(emitter, rows, extents, writer.let(row)):
        for access in wholes(emitter, emitter.mapping.later):
            first = place_in_row(emitter, access, begin)
            with code.when(count > 0):
                code.call(f"ask_{emitter.values[access.tensor].element.value}", emitter.pointer(access.tensor), first, count)


def resident(mapping: Mapping) -> int:
    """How many blocks that hold a row in registers share a multiprocessor: beside each element a thread needs a register."""
    words = mapping.chunks * max(ACCESS // 4, mapping.vector)
    if mapping.by != "cluster":
        return REGISTERS // (mapping.team * (128 if words > 16 else 50))
    room = mapping.pieces.room * mapping.chunks * mapping.team + EXCHANGED if mapping.pieces is not None else EXCHANGED
    return max(1, min(REGISTERS // (2 * mapping.team * max(32, words)), SHARED // room))


def ask_ahead(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression]) -> None:
    """Where few blocks fit a multiprocessor: ask for a row that a later block will have in registers.

    Rows that are asked for too early push others out of the L2 cache, rows that are asked for too late have been fetched.
    """
    mapping = emitter.mapping
    if not mapping.later:
        return
    code, cut = emitter.code, mapping.pieces
    lane = wholes(emitter, mapping.later)[0].lane
    end = emitter.writer._let_dim(lane.extent)
    each = mapping.chunks * mapping.team * mapping.vector
    local = code.local
    code.assign(local("rows"), product(*extents))
    begin = local("begin") if cut is not None else Constant(0)
    code.assign(local("stop"), call("min_int", begin + each if cut is not None else each, end))
    distance = max(1, MULTIPROCESSORS * resident(mapping) // (cut.blocks if cut is not None else 1))
    count = local("stop") - begin if cut is not None else local("stop")
    emitter.asking = partial(ask, emitter, rows, extents, local("row") + distance, begin, count)


@contextmanager
def cut_rows(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression], limit: Dim) -> Iterator[None]:
    """The piece of each row that this block has: its elements are those from `begin` to before `stop`."""
    code, writer, mapping, nest = emitter.code, emitter.writer, emitter.mapping, emitter.nest
    cut, vector = mapping.pieces, mapping.vector
    assert cut is not None
    several = cut.blocks > 1
    each = cut.chunks * mapping.team * vector
    local, shared = code.local, code.local("shared")
    group, rank, groups, row = local("group"), local("rank"), local("groups"), local("row")
    begin, stop, slot, phase = local("begin"), local("stop"), local("slot"), local("phase")
    grid = call("as_i64", GRID)
    code.assign(local("member"), local("thread"))
    code.assign(group, call("unsigned_divide", local("block"), cut.blocks) if several else local("block"))
    code.assign(rank, local("block") - group * cut.blocks if several else 0)
    code.assign(groups, call("unsigned_divide", grid, cut.blocks) if several else grid)
    code.assign(local("rows"), product(*extents))
    end = writer._let_dim(limit)
    if mapping.chunks:
        code.assign(begin, call("min_int", rank * each, end))
        code.assign(stop, call("min_int", begin + each, end))
    else:
        piece = local("piece")
        code.assign(piece, call("unsigned_divide", end + (vector * cut.blocks - 1), vector * cut.blocks) * vector)
        code.assign(begin, call("min_int", rank * piece, end))
        code.assign(stop, call("min_int", begin + piece, end))
        code.assign(local("own"), begin + local("member") * vector)
    at = barriers(nest, cut)

    def placed(reads: frozenset[int], base: Name) -> list[tuple[Access, int, int]]:
        nonlocal at
        found = []
        for access in wholes(emitter, reads):
            size = emitter.values[access.tensor].element.bits // 8
            emitter.brought[access.tensor, canonical(access.subscripts, access.lane.symbol)] = base + at, size
            found.append((access, at, size))
            at += each * size
        return found

    kept = placed(cut.kept, shared)
    first_stage = at
    places = placed(cut.reads, local("held"))
    stage = at - first_stage
    emitter.bytes = first_stage + cut.stages * stage

    def copies(found: list[tuple[Access, int, int]], moved: Expression | None, barrier: Expression) -> None:
        """Begin to copy this block's part of some tensors."""
        code.call("barrier_expect", barrier, (stop - begin) * sum(size for _, _, size in found))
        for access, place, _ in found:
            first = place_in_row(emitter, access, begin)
            name = f"bring_{emitter.values[access.tensor].element.value}"
            with code.when(stop > begin):
                to = shared + place if moved is None else shared + place + moved
                code.call(name, to, emitter.pointer(access.tensor), first, stop - begin, barrier)

    def bring(row: Expression, slot: Like) -> None:
        """Begin the copies of a row, if there is one."""
        with at_row(emitter, rows, extents, row):
            copies(places, stage * lift(slot), shared + BARRIER * lift(slot))

    once = shared + (barriers(nest, cut) - BARRIER)  # the last barrier, which counts what is kept
    first_thread = same(local("thread"), 0)

    def following() -> None:
        """What is in shared memory was read: begin to bring the row that takes its place."""
        code.call("block_sync")
        with writer.branch(code.when(first_thread)):
            bring(writer.let(row + cut.stages * groups), slot)

    with writer.branch(code.when(first_thread)):
        begin_barriers(emitter, barriers(nest, cut))
        for ahead in range(cut.stages):
            bring(group + ahead * groups, ahead)
        if kept:
            copies(kept, None, once)
    if several:
        code.call("cluster_arrive")
        code.call("cluster_wait")
    else:
        code.call("block_sync")
    for name in ("slot", "phase", "turn", "half"):
        code.assign(local(name), 0)
    with writer.branch(code.loop(row, group, local("rows"), groups)):
        emitter.indices(rows, extents, row)
        emitter.ahead()
        if mapping.later:
            emitter.asking = partial(ask, emitter, rows, extents, row + cut.stages * groups, begin, stop - begin)
        if kept:
            emitter.kept = {access.tensor for access, _, _ in kept}, call("barrier_wait", once, 0)
        code.call("barrier_wait", shared + BARRIER * slot, phase)
        code.assign(local("held"), shared + stage * slot)
        if mapping.chunks:
            emitter.taken = following
        yield
        if not mapping.chunks:
            following()
        if cut.stages > 1:
            code.assign(slot, slot + 1)
            code.assign(phase, call("select", call("eq_int", slot, cut.stages), 1 - phase, phase))
            code.assign(slot, call("select", call("eq_int", slot, cut.stages), 0, slot))
        else:
            code.assign(phase, 1 - phase)
        if several:
            half, turn = local("half"), local("turn")
            code.assign(half, call("select", call("eq_int", turn, 1), 1 - half, half))
            code.assign(turn, 1 - turn)


def begin_barriers(emitter: PlainEmitter, size: int) -> None:
    """Barriers in so many bytes of shared memory, each for one arrival."""
    code = emitter.code
    slot = code.local("slot")
    with code.loop(slot, size // BARRIER):
        code.call("barrier_begin", code.local("shared") + BARRIER * slot)
    code.call("barriers_ready")


def spread_rows(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression]) -> None:
    """The part of a row that this block holds in registers, from `begin` on."""
    code, mapping = emitter.code, emitter.mapping
    cut = mapping.pieces
    assert cut is not None
    block, row, rank = code.local("block"), code.local("row"), code.local("rank")
    code.assign(code.local("member"), code.local("thread"))
    code.assign(row, call("unsigned_divide", block, cut.blocks))
    code.assign(rank, block - row * cut.blocks)
    emitter.indices(rows, extents, row)
    code.assign(code.local("begin"), rank * (cut.chunks * mapping.team * mapping.vector))
    ask_ahead(emitter, rows, extents)
    emitter.bytes = barriers(emitter.nest, cut)
    with emitter.writer.branch(code.when(same(code.local("thread"), 0))):
        begin_barriers(emitter, emitter.bytes)
    code.call("cluster_arrive" if cut.blocks > 1 else "block_sync")
    code.assign(code.local("turn"), 0)
    code.assign(code.local("half"), 0)
