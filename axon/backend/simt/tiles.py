"""Maps that read across: what lies the other way is turned in registers, or on its way through shared memory.

`y[j, i] = x[i, j]` stores along i and reads along j. Where both sides move 16 bytes at a time, a thread fetches as many neighbours
along j of as many rows, which makes a square; its columns are neighbours along i. Nothing is exchanged, and so nobody waits. The
lanes of a warp lie such that each quarter of it, which memory serves at once, touches whole sectors on both sides, and all of it
whole lines. Warps go through the result in strips of some lines, so that those at work at one time have long runs on both sides.

Else the threads of a block fetch a square of `x` along j, keep it in shared memory, and then each takes neighbours along i from
there. A row of the square has four bytes more than its elements, so that a column of it lies in different banks.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import TYPE_CHECKING

from axon.backend.lanes import inner, reduced
from axon.backend.memory import Tensor
from axon.backend.plan import Nest
from axon.backend.scalar_facts import weight
from axon.backend.simt.access import ACCESS, Access, accesses, aligned, divides, is_beside, is_steady, steady, unit_of
from axon.backend.simt.writer import Lane
from axon.core import Axis, Read, Scan
from axon.core_walk import nodes, scalars
from axon.names import Symbol
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.simt.emit import Emitter

SIDE = 64  # elements of a square
THREADS = 256
MOST = 160 * 1024  # bytes of shared memory for the squares
WARP = 32
WARPS = 4  # of a block whose threads have squares of their own
ALONG = 8  # lanes of a warp along the axis that is read across: 128 bytes
STRIP = 16  # squares of a warp beside each other in a strip
LEAST = 4  # elements of a side of a thread's square: fewer are too little work for what it takes to find them
SQUARES = 128  # elements that a thread holds of what it reads across, at most
LIGHT = 16  # what is computed for an element, where it is written anew for each that a thread has


@dataclass(frozen=True, slots=True)
class Across:
    """The axis that lies side by side in what is read across, the numbers of those reads, and how many are fetched together.

    `along` says how many lanes of a warp lie along that axis if each thread has squares of its own, in registers; 0 if a block has
    them in shared memory. `strip` is how many squares of a warp lie beside each other in a strip.
    """

    axis: Symbol
    reads: frozenset[int]
    vector: int
    along: int = 0
    strip: int = STRIP


def across(nest: Nest, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Across | None:
    """What a map reads across, if it reads anything so."""
    if len(nest.rows) < 2 or any(isinstance(s, Scan) or inner(s, len(nest.rows)) or reduced(s) for s in nest.steps):
        return None
    lane = nest.rows[-1]
    whole = {(n.tensor, n.subscripts) for n in _reads(nest) if n.padding is None and n.checked is None}
    found: dict[Symbol, set[int]] = {}
    for number, access in enumerate(accesses(nest, True)):
        unit = unit_of(tensors[access.tensor]) if access.tensor in tensors else -1
        if access.store or (access.tensor, access.subscripts) not in whole or is_steady(access.subscripts, lane.symbol):
            continue
        if is_beside(access.subscripts, lane.symbol, unit) or unit < 0 or not steady(access.subscripts[unit], lane.symbol):
            continue
        for axis in nest.rows[:-1]:
            if is_beside(access.subscripts, axis.symbol, unit) and _plain(access.subscripts, lane.symbol):
                found.setdefault(axis.symbol, set()).add(number)
    if not found:
        return None
    chosen, reads = max(found.items(), key=lambda pair: len(pair[1]))
    extents = {a.symbol: a.extent for a in nest.rows}
    made = [a for n, a in enumerate(accesses(nest, True)) if n in reads]
    bytes_ = [max(1, tensors[a.tensor].element.bits // 8) for a in made]
    if sum(SIDE * (SIDE * b + 4) for b in bytes_) > MOST:
        return None
    vector = min(8, ACCESS // min(bytes_))
    straight = divides(vector, extents[chosen], sizes) and all(
        aligned(Access(a.tensor, a.subscripts, Axis(chosen, extents[chosen])), tensors[a.tensor], sizes, vector) for a in made
    )
    return Across(chosen, frozenset(reads), vector if straight else 1)


def held(nest: Nest, through: Across, vector: int) -> Across:
    """The same with squares in registers, if both sides of memory move so many neighbours, and that is not too much code."""
    found = {(a.tensor, a.subscripts) for n, a in enumerate(accesses(nest, True)) if n in through.reads}
    axes = frozenset(a.symbol for a in nest.rows)
    work = sum(weight(body, axes) for step in nest.steps for body in scalars(step))
    fits = through.vector == vector >= LEAST and len(found) * vector**2 <= SQUARES and work <= LIGHT
    return replace(through, along=ALONG) if fits else through


def squares(nest: Nest, through: Across, vector: int, sizes: MappingOf[Symbol, int]) -> tuple[int, int]:
    """The blocks of a launch, and their threads."""
    extents = {a.symbol: max(0, a.extent.evaluate(sizes)) for a in nest.rows}
    lane = nest.rows[-1].symbol
    rest = prod(n for symbol, n in extents.items() if symbol not in (lane, through.axis))
    if not through.along:
        return rest * -(-extents[lane] // SIDE) * -(-extents[through.axis] // SIDE), THREADS
    wide = -(-extents[lane] // (WARP // through.along * vector))
    tall = -(-extents[through.axis] // (through.along * vector))
    strip = max(1, min(wide, through.strip))
    return -(-rest * -(-wide // strip) * strip * tall // WARPS), WARPS * WARP


def _reads(nest: Nest) -> Iterator[Read]:
    for step in nest.steps:
        for scalar in scalars(step):
            yield from (node for node in nodes(scalar) if isinstance(node, Read))


def _plain(subscripts: tuple[object, ...], lane: Symbol) -> bool:
    """Whether a lane stands in one subscript, alone."""
    using = [s for s in subscripts if not isinstance(s, Dim) or lane in s.variables]
    return len(using) == 1 and isinstance(using[0], Dim) and using[0] == Dim.of(lane)


@contextmanager
def tiled_rows(emitter: Emitter) -> Iterator[None]:
    """The elements of a square that a thread takes, after what is read across was brought."""
    code, writer, mapping, nest = emitter.code, emitter.writer, emitter.mapping, emitter.nest
    assert mapping.across is not None
    lane = nest.rows[-1]
    (other,) = (a for a in nest.rows if a.symbol == mapping.across.axis)
    rest_axes = tuple(a for a in nest.rows if a not in (lane, other))
    limit, high = emitter.extent(lane), emitter.extent(other)
    code.line(f"wide = unsigned_divide({limit} + {SIDE - 1}, {SIDE})")
    code.line(f"tall = unsigned_divide({high} + {SIDE - 1}, {SIDE})")
    code.line("above = unsigned_divide(block, wide)")
    code.line(f"left = (block - above * wide) * {SIDE}")
    code.line("outer = unsigned_divide(above, tall)")
    code.line(f"top = (above - outer * tall) * {SIDE}")
    emitter.indices(rest_axes, [emitter.extent(a) for a in rest_axes], "outer")
    for axis in (lane, other):
        writer.extents[axis.symbol] = axis.extent
    i, j = emitter.names[other.symbol], emitter.names[lane.symbol]
    emitter.bytes = 0
    vector = mapping.across.vector
    for number, access in enumerate(accesses(nest, True)):
        key = access.tensor, access.subscripts
        if number not in mapping.across.reads or key in emitter.staged:
            continue
        value = emitter.values[access.tensor]
        size = max(1, value.element.bits // 8)
        pitch = SIDE * size + 4
        base = f"shared + {emitter.bytes}"
        emitter.bytes += SIDE * pitch
        each = SIDE // vector
        with writer.branch(f"for turn in range({SIDE * SIDE // vector // THREADS}):"):
            code.line(f"place = turn * {THREADS} + thread")
            code.line(f"down = unsigned_divide(place, {each})")
            code.line(f"over = (place - down * {each}) * {vector}")
            code.line(f"{i} = top + over")
            code.line(f"{j} = left + down")
            there = writer.let(f"both(lt_int({i}, {high}), lt_int({j}, {limit}))")
            writer.lane = Lane(other.symbol, i, vector)
            at = writer.first_offset(access.tensor, access.subscripts)
            writer.lane = None
            name = f"fetch_{value.element.value}" + (f"_{vector}" if vector > 1 else "")
            brought = writer.let(f"{name}({emitter.pointer(access.tensor)}, {at}, {there})")
            kept = f"stage_{value.element.value}" + (f"_{vector}" if vector > 1 else "")
            code.line(f"{kept}({base} + down * {pitch} + over * {size}, {brought})")
        emitter.staged[key] = (base, pitch, size)
    code.line("block_sync()")
    vector = mapping.vector
    each = SIDE // vector
    with writer.branch(f"for turn in range({SIDE * SIDE // vector // THREADS}):"):
        code.line(f"place = turn * {THREADS} + thread")
        code.line(f"down = unsigned_divide(place, {each})")
        code.line(f"over = (place - down * {each}) * {vector}")
        code.line(f"{i} = top + down")
        code.line(f"{j} = left + over")
        there = writer.let(f"both(lt_int({i}, {high}), lt_int({j}, {limit}))")
        writer.lane = Lane(lane.symbol, j, vector)
        with writer.masked(there, False):
            yield
        writer.lane = None


def held_squares(emitter: Emitter) -> None:
    """The kernel of a map whose threads have squares of their own: each fetches what is read across, and takes its rows in turn."""
    code, writer, nest, through, vector = emitter.code, emitter.writer, emitter.nest, emitter.mapping.across, emitter.mapping.vector
    assert through is not None
    lane = nest.rows[-1]
    (other,) = (a for a in nest.rows if a.symbol == through.axis)
    rest_axes = tuple(a for a in nest.rows if a not in (lane, other))
    limit, high = emitter.extent(lane), emitter.extent(other)
    along, beside = through.along, WARP // through.along
    code.line(f"item = block * {WARPS} + (thread >> 5)")
    code.line(f"wide = unsigned_divide({limit} + {beside * vector - 1}, {beside * vector})")
    code.line(f"tall = unsigned_divide({high} + {along * vector - 1}, {along * vector})")
    code.line(f"each = min_int(wide, {through.strip})  # squares beside each other in a strip")
    code.line("outer = unsigned_divide(item, tall * each)")
    code.line("place = item - outer * tall * each")
    code.line("down = unsigned_divide(place, each)")
    code.line("over = place - down * each")
    there = []
    if rest_axes:
        code.line("strips = unsigned_divide(wide + each - 1, each)")
        code.line("above = unsigned_divide(outer, strips)")
        code.line("over = over + (outer - above * strips) * each")
        extents = [emitter.extent(a) for a in rest_axes]
        there.append(f"lt_int(above, {' * '.join(extents)})")
        emitter.indices(rest_axes, extents, "above")
    else:
        code.line("over = over + outer * each")
    i, j = emitter.names[other.symbol], emitter.names[lane.symbol]
    bits = beside.bit_length() - 1
    code.line(f"{i} = (down * {along} + ((thread & 1) | (thread >> {bits} & {along - 2}))) * {vector}")
    code.line(f"{j} = (over * {beside} + (thread >> 1 & {beside - 1})) * {vector}")
    for axis in (lane, other):
        writer.extents[axis.symbol] = axis.extent
    for condition in (f"lt_int({i}, {high})", f"lt_int({j}, {limit})"):
        there.append(condition)
    condition = there[0]
    for more in there[1:]:
        condition = f"both({condition}, {more})"
    with code.block(f"if {condition}:"):
        _fetched(emitter, through, other, lane)
        for turn in range(vector):
            emitter.places = {other.symbol: code.let(f"{i} + {turn}", f"{other.symbol.name}_") if turn else i}
            for key, rows in emitter.fetched.items():
                emitter.turned[key] = f"({', '.join(f'{row}[{turn}]' for row in rows)})"
            writer.lane = Lane(lane.symbol, j, vector)
            emitter.variables.clear()
            emitter.steps()


def _fetched(emitter: Emitter, through: Across, other: Axis, lane: Axis) -> None:
    """Fetch the rows of a thread's squares."""
    writer, vector = emitter.writer, through.vector
    for number, access in enumerate(accesses(emitter.nest, True)):
        key = access.tensor, access.subscripts
        if number not in through.reads or key in emitter.fetched:
            continue
        rows = []
        for n in range(vector):
            name = emitter.names[lane.symbol]
            emitter.places[lane.symbol] = writer.let(f"{name} + {n}") if n else name
            writer.lane = Lane(other.symbol, emitter.names[other.symbol], vector)
            at = writer.first_offset(access.tensor, access.subscripts)
            writer.lane = None
            kind = emitter.values[access.tensor].element.value
            rows.append(writer.let(f"fetch_{kind}_{vector}({emitter.pointer(access.tensor)}, {at}, True)"))
        emitter.fetched[key] = rows
        del emitter.places[lane.symbol]
