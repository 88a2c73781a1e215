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

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import BULK_COPIES, CLUSTERS, Target
from axon.backend.gpu.simt.access import ACCESS, Access, Width, accesses
from axon.backend.kernel.ir import Constant, Expression, External, Like, call, lift, product, same
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Read, Scan, Value
from axon.core.scalar_facts import certain, is_inside
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter
    from axon.backend.gpu.simt.mapping import Mapping

GRID = External("cuda.gridDim.x")  # how many blocks there are
BLOCKS = (1, 2, 4, 8, 16)  # of a cluster
PIECE = 32 * 1024  # bytes of a block, so that a multiprocessor has six blocks
MOST = 192 * 1024  # bytes of a block, where so many blocks as a cluster can have have too little otherwise
BARRIER = 8  # bytes of shared memory
TEAM = 128  # threads of a block
EXCHANGED = 4096  # bytes of a block for what it exchanges with others


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
    nest: Nest, values: MappingOf[Symbol, Value], tensors: MappingOf[Symbol, DeviceTensor], width: Width
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


def read_again(nest: Nest) -> bool:
    """Whether several steps read the same of a row."""
    found: dict[Shared, Symbol] = {}
    reads = (access for access in accesses(nest, False) if not access.store)
    return any(found.setdefault((a.tensor, canonical(a.subscripts, a.lane.symbol)), a.lane.symbol) != a.lane.symbol for a in reads)


def pieces(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    width: Width,
    target: Target,
) -> Pieces | None:
    """How a row is cut; None if there is nothing that several steps read, if bulk copies cannot bring it, and if it is too long. Of
    a row's tail the whole vector is brought."""
    if not (target.has(BULK_COPIES) and target.has(CLUSTERS)):
        return None
    found = _brought(nest, values, tensors, width)
    brought = {shared: made for shared, made in found.items() if len({access.lane.symbol for _, access in made}) > 1}
    if not brought:
        return None
    extent = max(access.lane.extent.evaluate(sizes) for made in brought.values() for _, access in made)
    reads = frozenset(number for made in brought.values() for number, _ in made)
    size = sum(width.vector * tensors[tensor].element.bits // 8 for tensor, _ in brought)
    vectors = -(-extent // width.vector)
    most = min(MOST, target.shared_per_block - EXCHANGED)
    possible = [blocks for blocks in BLOCKS if blocks <= target.largest_cluster]
    for blocks in possible:
        chunks = -(-vectors // (blocks * TEAM))
        room = chunks * TEAM * size
        if room <= (PIECE if blocks < possible[-1] else most):
            return Pieces(blocks, chunks, reads, size)
    return None


def keeping(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    width: Width,
    cut: Pieces,
    vectors: int,
    target: Target,
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
    room = target.shared_per_block // 2 - EXCHANGED  # of a block that shares a multiprocessor with another
    return cut if cut.kept and cut.reads and vectors * cut.room <= room else None


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
        always = _always(step)
        for read in (n for s in scalars(step) for n in nodes(s) if axes and isinstance(n, Read)):
            plain = read.padding is None and read.tensor not in made and all(isinstance(s, Dim) for s in read.subscripts)
            evaluated = read.checked is None and any(read is other for other in always)
            if plain and (evaluated or is_inside(read, values[read.tensor], extents)):
                yield read.tensor, read.subscripts, axes[-1].symbol


def _always(step: Compute | Scan) -> list[Read]:
    """What a step reads at each element, whatever data say: that is inside, or the checker had refused it."""
    if isinstance(step, Scan) or (step.reduction is not None and step.reduction.where is not None):
        return []
    return [node for body in step.body for node in certain(body) if isinstance(node, Read)]


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


def resident(mapping: Mapping, target: Target) -> int:
    """How many blocks that hold a row in registers share a multiprocessor: beside each element a thread needs a register."""
    words, registers = mapping.chunks * max(ACCESS // 4, mapping.vector), target.registers_per_multiprocessor
    if mapping.by != "cluster":
        return registers // (mapping.team * (128 if words > 16 else 50))
    room = mapping.pieces.room * mapping.chunks * mapping.team + EXCHANGED if mapping.pieces is not None else EXCHANGED
    return max(1, min(registers // (2 * mapping.team * max(32, words)), target.shared_per_block // room))


def ask_ahead(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression]) -> None:
    """Where few blocks fit a multiprocessor: ask for a row that a later block will have in registers.

    Rows that are asked for too early push others out of the L2 cache, rows that are asked for too late have been fetched.
    """
    mapping = emitter.mapping
    if not mapping.later:
        return
    code, cut, target = emitter.code, mapping.pieces, emitter.target
    lane = wholes(emitter, mapping.later)[0].lane
    end = _end(emitter, lane.extent)
    each = mapping.chunks * mapping.team * mapping.vector
    local = code.local
    code.assign(local("rows"), product(*extents))
    begin = local("begin") if cut is not None else Constant(0)
    code.assign(local("stop"), call("min_int", begin + each if cut is not None else each, end))
    distance = max(1, target.multiprocessors * resident(mapping, target) // (cut.blocks if cut is not None else 1))
    count = local("stop") - begin if cut is not None else local("stop")
    emitter.asking = partial(ask, emitter, rows, extents, local("row") + distance, begin, count)


def _end(emitter: PlainEmitter, extent: Dim) -> Expression:
    """Where the last vector of a row ends, which may have spare elements."""
    end, mapping = emitter.writer._let_dim(extent), emitter.mapping
    if not mapping.tail:
        return end
    return emitter.writer.let(call("unsigned_divide", end + (mapping.vector - 1), mapping.vector) * mapping.vector)


@dataclass(frozen=True, slots=True)
class SharedPart:
    """A block's part of a tensor in shared memory: from which byte on (of the first stage), and bytes of an element."""

    access: Access
    at: int
    size: int


@dataclass(frozen=True, slots=True)
class Layout:
    """The shared memory of a block: its barriers, what is kept, and a stage for each row that is there at once."""

    kept: tuple[SharedPart, ...]
    held: tuple[SharedPart, ...]  # of one row
    stage: int  # bytes of each
    bytes: int  # of everything


def laid_out(emitter: PlainEmitter, cut: Pieces) -> Layout:
    """What lies where."""
    elements = cut.chunks * emitter.mapping.team * emitter.mapping.vector
    kept, first_stage = _parts(emitter, cut.kept, elements, barriers(emitter.nest, cut))
    held, end = _parts(emitter, cut.reads, elements, first_stage)
    stage = end - first_stage
    return Layout(kept, held, stage, first_stage + cut.stages * stage)


def _parts(emitter: PlainEmitter, reads: frozenset[int], elements: int, at: int) -> tuple[tuple[SharedPart, ...], int]:
    """Parts of so many elements one after the other, and where they end."""
    found = []
    for access in wholes(emitter, reads):
        size = emitter.values[access.tensor].element.bits // 8
        found.append(SharedPart(access, at, size))
        at += elements * size
    return tuple(found), at


@dataclass(frozen=True, slots=True)
class _Cut:
    """Rows of which this block has a piece: what writes their kernel, how they are cut, and where pieces lie."""

    emitter: PlainEmitter
    rows: tuple[Axis, ...]
    extents: list[Expression]
    pieces: Pieces
    layout: Layout

    @property
    def once(self) -> Expression:
        """The last barrier, which counts what is kept."""
        return self.emitter.code.local("shared") + (barriers(self.emitter.nest, self.pieces) - BARRIER)


@contextmanager
def cut_rows(emitter: PlainEmitter, rows: tuple[Axis, ...], extents: list[Expression], limit: Dim) -> Iterator[None]:
    """The piece of each row that this block has: its elements are those from `begin` to before `stop`."""
    code, writer, pieces, local = emitter.code, emitter.writer, emitter.mapping.pieces, emitter.code.local
    assert pieces is not None
    _place_block(emitter, pieces, extents)
    _place_piece(emitter, pieces, limit)
    cut = _Cut(emitter, rows, extents, pieces, laid_out(emitter, pieces))
    emitter.bytes = cut.layout.bytes
    for base, parts in (("shared", cut.layout.kept), ("held", cut.layout.held)):
        for part in parts:
            key = part.access.tensor, canonical(part.access.subscripts, part.access.lane.symbol)
            emitter.brought[key] = local(base) + part.at, part.size
    _begin(cut)
    with writer.branch(code.loop(local("row"), local("group"), local("rows"), local("groups"))):
        _await_row(cut)
        if emitter.mapping.chunks:
            emitter.taken = partial(_bring_following, cut)
        yield
        if not emitter.mapping.chunks:
            _bring_following(cut)
        _turn(emitter, pieces)


def _place_block(emitter: PlainEmitter, cut: Pieces, extents: list[Expression]) -> None:
    """Which cluster this is of how many, and the block's rank in it."""
    code, local = emitter.code, emitter.code.local
    group, block, grid = local("group"), local("block"), call("as_i64", GRID)
    several = cut.blocks > 1
    code.assign(local("member"), local("thread"))
    code.assign(group, call("unsigned_divide", block, cut.blocks) if several else block)
    code.assign(local("rank"), block - group * cut.blocks if several else 0)
    code.assign(local("groups"), call("unsigned_divide", grid, cut.blocks) if several else grid)
    code.assign(local("rows"), product(*extents))


def _place_piece(emitter: PlainEmitter, cut: Pieces, limit: Dim) -> None:
    """From where to where the block's piece of a row goes: of a fixed length if it is held in registers, else of equal ones."""
    code, local, mapping = emitter.code, emitter.code.local, emitter.mapping
    end = _end(emitter, limit)
    length: Expression | int = cut.chunks * mapping.team * mapping.vector
    if not mapping.chunks:
        unit = mapping.vector * cut.blocks
        length = local("piece")
        code.assign(length, call("unsigned_divide", end + (unit - 1), unit) * mapping.vector)
    code.assign(local("begin"), call("min_int", local("rank") * length, end))
    code.assign(local("stop"), call("min_int", local("begin") + length, end))
    if not mapping.chunks:
        code.assign(local("own"), local("begin") + local("member") * mapping.vector)


def _begin(cut: _Cut) -> None:
    """Barriers, and the first rows, which one thread asks for; no block stores into another's memory before all have begun."""
    code, local, pieces = cut.emitter.code, cut.emitter.code.local, cut.pieces
    with cut.emitter.writer.branch(code.when(same(local("thread"), 0))):
        begin_barriers(cut.emitter, barriers(cut.emitter.nest, pieces))
        for ahead in range(pieces.stages):
            _bring(cut, local("group") + ahead * local("groups"), ahead)
        if cut.layout.kept:
            _copy(cut, cut.layout.kept, None, cut.once)
    if pieces.blocks > 1:
        code.call("cluster_arrive")
        code.call("cluster_wait")
    else:
        code.call("block_sync")
    for name in ("slot", "phase", "turn", "half"):
        code.assign(local(name), 0)


def _await_row(cut: _Cut) -> None:
    """The row's indices, and its piece in shared memory."""
    emitter, local = cut.emitter, cut.emitter.code.local
    emitter.indices(cut.rows, cut.extents, local("row"))
    emitter.ahead()
    if emitter.mapping.later:
        row, count = local("row") + cut.pieces.stages * local("groups"), local("stop") - local("begin")
        emitter.asking = partial(ask, emitter, cut.rows, cut.extents, row, local("begin"), count)
    if cut.layout.kept:
        emitter.kept = {part.access.tensor for part in cut.layout.kept}, call("barrier_wait", cut.once, 0)
    emitter.code.call("barrier_wait", local("shared") + BARRIER * local("slot"), local("phase"))
    emitter.code.assign(local("held"), local("shared") + cut.layout.stage * local("slot"))


def _bring_following(cut: _Cut) -> None:
    """What is in shared memory was read: begin to bring the row that takes its place."""
    emitter, local = cut.emitter, cut.emitter.code.local
    emitter.code.call("block_sync")
    with emitter.writer.branch(emitter.code.when(same(local("thread"), 0))):
        _bring(cut, emitter.writer.let(local("row") + cut.pieces.stages * local("groups")), local("slot"))


def _bring(cut: _Cut, row: Expression, slot: Like) -> None:
    """Begin the copies of a row, if there is one."""
    with at_row(cut.emitter, cut.rows, cut.extents, row):
        barrier = cut.emitter.code.local("shared") + BARRIER * lift(slot)
        _copy(cut, cut.layout.held, cut.layout.stage * lift(slot), barrier)


def _copy(cut: _Cut, parts: tuple[SharedPart, ...], moved: Expression | None, barrier: Expression) -> None:
    """Begin to copy this block's part of some tensors."""
    emitter, code, local = cut.emitter, cut.emitter.code, cut.emitter.code.local
    begin, stop, shared = local("begin"), local("stop"), local("shared")
    code.call("barrier_expect", barrier, (stop - begin) * sum(part.size for part in parts))
    for part in parts:
        first = place_in_row(emitter, part.access, begin)
        name = f"bring_{emitter.values[part.access.tensor].element.value}"
        with code.when(stop > begin):
            to = shared + part.at if moved is None else shared + part.at + moved
            code.call(name, to, emitter.pointer(part.access.tensor), first, stop - begin, barrier)


def _turn(emitter: PlainEmitter, cut: Pieces) -> None:
    """The next stage, and the other phase of barriers that have been passed."""
    code, local = emitter.code, emitter.code.local
    slot, phase, half, turn = local("slot"), local("phase"), local("half"), local("turn")
    if cut.stages > 1:
        code.assign(slot, slot + 1)
        code.assign(phase, call("select", call("eq_int", slot, cut.stages), 1 - phase, phase))
        code.assign(slot, call("select", call("eq_int", slot, cut.stages), 0, slot))
    else:
        code.assign(phase, 1 - phase)
    if cut.blocks > 1:
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
