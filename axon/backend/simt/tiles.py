"""Maps that read across: a block takes a square of the result, and brings what lies the other way through shared memory.

`y[j, i] = x[i, j]` stores along i and reads along j. The threads of a block fetch a square of `x` along j, keep it in shared
memory, and then each takes neighbours along i from there: both sides of memory see whole lines. A row of the square has four bytes
more than its elements, so that a column of it lies in different banks.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from axon.backend.lanes import inner, reduced
from axon.backend.memory import Tensor
from axon.backend.plan import Nest
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


@dataclass(frozen=True, slots=True)
class Across:
    """The axis that lies side by side in what is read across, the numbers of those reads, and how many are fetched together."""

    axis: Symbol
    reads: frozenset[int]
    vector: int


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
