"""The mapping of a nest that serves every size: neighbours move together where a call's sizes, strides and addresses allow it.

    general     a Nest, and along which dimension of each tensor elements lie side by side -> its Mapping
    conditions  what must be a multiple of what for a kernel's first form; with anything else it takes its second one

A kernel for any size is written twice: for neighbours that move together, and for one element at a time. It finds out by itself
which of both is right, from its arguments, so the grid is the same for both: a block or a part of a warp for each row, however long
it is; a square; or threads that take neighbours in turn until there are none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from collections.abc import Mapping as MappingOf
from typing import Literal

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import ACCESS, ALONE, Access, accesses, width_of
from axon.backend.gpu.simt.access import cut as extents_cut
from axon.backend.gpu.simt.halves import halved, halves
from axon.backend.gpu.simt.mapping import THREADS, WARP, Mapping, by_register_tiles, in_halves, nest_sweeps, uneven, widest
from axon.backend.gpu.simt.register_tiles import groups, register_tiles, scalar_fetches
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.gpu.simt.tiles import across
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import by_lanes, inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Value
from axon.core.scalar_facts import at_least_0
from axon.shapes.dimension import Dim, Minimum, variables_of

SHORT = 32  # vectors of a row for each lane of a warp that goes through it alone, if there are many rows
MANY = 16  # rows for each multiprocessor


@dataclass(frozen=True, slots=True)
class DivisibleBy:
    """The address of a tensor, the stride of one of its dimensions, or a size, that must be a multiple of a power of two."""

    modulus: int
    kind: Literal["address", "stride", "size"]
    of: Symbol | tuple[Symbol, int] | Dim


def general(
    nest: Nest, values: MappingOf[Symbol, Value], units: MappingOf[Symbol, int], sizes: MappingOf[Symbol, int], target: Target
) -> Mapping:
    """The mapping for all sizes on a chip. Those at hand only say whether a row is one for a warp."""
    easy = {symbol: 1024 * (n + 1) for n, symbol in enumerate(sizes)}
    tensors = {symbol: _easy(values[symbol], unit) for symbol, unit in units.items()}
    tiled = register_tiles(nest, values, tensors, sizes, target, alone=True)
    if tiled is not None:
        return by_register_tiles(nest, scalar_fetches(tiled), ALONE)
    if nest_sweeps(nest) and not by_lanes(nest):
        found = _by_rows(nest, sizes, target)
        width = width_of(nest, values, tensors, easy, False)
    else:
        found = Mapping("lanes")
        width = width_of(nest, values, tensors, easy, True)
        through = None if nest_sweeps(nest) else across(nest, values, tensors, easy, target)
        cut = None if through or nest_sweeps(nest) else halves(nest)
        if through is not None:
            found = Mapping("tiles", across=through.alone if through.shifted else through)
        elif cut is not None:
            found = replace(in_halves(cut, values, tensors, easy), uniform=frozenset())
            width = None
    if width is not None:
        found = replace(found, vector=width.vector, beside=width.beside)
    if found.vector == 1 and found.across is None:
        return found
    found = replace(found, general=True)
    return found if _conditions(nest, found, units, tensors) is not None else alone(found)


def _by_rows(nest: Nest, sizes: MappingOf[Symbol, int], target: Target) -> Mapping:
    rows = 1
    for axis in nest.rows:
        rows *= max(0, axis.extent.evaluate(sizes))
    below = bool(peaks(nest))
    if not uneven(nest) and rows >= MANY * target.multiprocessors and widest(nest, sizes) <= SHORT * WARP * 8:
        return Mapping("warp", team=WARP, below=below)
    return Mapping("block", team=THREADS, below=below)


def launched(nest: Nest, mapping: Mapping) -> tuple[Dim, int]:
    """Blocks and threads of a mapping that `general` made, or of the plainest one, for all sizes: what `grid` counts at some, but
    that a block is never cut short."""
    half = halved(nest.rows[-1]) if mapping.halved else None
    extents = [at_least_0(axis.extent) for axis in (nest.rows if half is None else (*nest.rows[:-1], half))]
    if mapping.tiled is not None:
        tile, found = mapping.tiled.tile, groups(nest)
        assert found is not None
        sides = (_product(at_least_0(axis.extent) for axis in axes) for axes in (found.outer, found.rows, found.columns))
        outer, rows, columns = sides
        return outer * _cut(rows, tile.rows) * _cut(columns, tile.columns) * tile.splits, tile.threads
    if mapping.across is not None:
        wide = {nest.rows[-1].symbol: mapping.across.wide, mapping.across.axis: mapping.across.tall}
        cut = (_cut(n, wide.get(axis.symbol, 1)) for axis, n in zip(nest.rows, extents, strict=True))
        return _product(cut), mapping.across.threads
    match mapping.by:
        case "lanes":
            items = _product(extents[:-1]) * _cut(extents[-1], mapping.vector) if extents else Dim.of(1)
            return _cut(items, THREADS // mapping.team * mapping.turns), THREADS
        case "warp":
            return _cut(_product(extents) * mapping.team, THREADS), THREADS
        case _:
            assert mapping.by == "block", mapping.by
            return _product(extents), mapping.team


def _product(dims: Iterable[Dim]) -> Dim:
    found = Dim.of(1)
    for dim in dims:
        found *= dim
    return found


def _cut(extent: Dim, into: int) -> Dim:
    """How many pieces of at most so many."""
    return (extent + (into - 1)) // into


def alone(mapping: Mapping) -> Mapping:
    """The same one element at a time."""
    through = None if mapping.across is None else mapping.across.alone
    return replace(mapping, vector=1, beside=frozenset(), uniform=frozenset(), across=through, general=False)


def _easy(value: Value, unit: int) -> DeviceTensor:
    strides = tuple(1 if d == unit else 1 << 20 for d in range(len(value.shape)))
    return DeviceTensor(1 << 20, tuple(1024 for _ in value.shape), strides, value.element)


def conditions(nest: Nest, mapping: Mapping, units: MappingOf[Symbol, int], values: MappingOf[Symbol, Value]) -> list[DivisibleBy]:
    """See above; of a mapping that `general` made."""
    found = _conditions(nest, mapping, units, {symbol: _easy(values[symbol], unit) for symbol, unit in units.items()})
    assert found is not None
    return found


def _conditions(
    nest: Nest, mapping: Mapping, units: MappingOf[Symbol, int], tensors: MappingOf[Symbol, DeviceTensor]
) -> list[DivisibleBy] | None:
    """None where something must hold that sizes do not decide."""
    cut = halves(nest) if mapping.halved else None
    whole = cut.nest if cut is not None else nest
    found: dict[DivisibleBy, None] = {}
    lanes = mapping.by in ("lanes", "tiles")
    moved = list(accesses(whole, lanes))
    loops = extents_cut(whole, lanes)
    together = [(a, mapping.vector) for n, a in enumerate(moved) if n in mapping.beside]
    if mapping.across is not None:
        (axis,) = (a for a in nest.rows if a.symbol == mapping.across.axis)
        reads = [Access(a.tensor, a.subscripts, axis) for n, a in enumerate(moved) if n in mapping.across.reads]
        together += [(a, mapping.across.vector) for a in reads]
        found |= dict.fromkeys(DivisibleBy(mapping.across.vector, "size", part) for part in _parts(axis.extent))
    for extent in loops:
        found |= dict.fromkeys(DivisibleBy(mapping.vector, "size", part) for part in _parts(extent))
    for access, vector in together:
        symbol, subscripts = access.tensor, access.subscripts
        symbol = cut.views.get(symbol, symbol) if cut is not None else symbol
        size = max(1, tensors[symbol].element.bits // 8)
        step = min(vector, ACCESS // size)
        found[DivisibleBy(step * size, "address", symbol)] = None
        for d, subscript in enumerate(subscripts):
            if d != units[symbol]:
                found[DivisibleBy(step, "stride", (symbol, d))] = None
            elif isinstance(subscript, Dim):
                rest = subscript - Dim.of(access.lane.symbol)
                found |= dict.fromkeys(DivisibleBy(step, "size", part) for part in _parts(rest))
    axes = {a.symbol for a in nest.rows} | {a.symbol for s in nest.steps for a in (*inner(s, len(nest.rows)), *reduced(s))}
    kept = []
    for condition in found:
        if not isinstance(condition.of, Dim):
            kept.append(condition)
            continue
        for part in _without(condition.of, axes):
            if part is None or (part.constant is not None and part.constant % condition.modulus):
                return None
            if part.constant is None:
                kept.append(replace(condition, of=part))
    return [c for c in dict.fromkeys(kept) if c.modulus > 1]


def _parts(dim: Dim) -> tuple[Dim, ...]:
    """Dims that are all multiples if one is."""
    atom = dim.atom
    return tuple(part for item in atom.items for part in _parts(item)) if isinstance(atom, Minimum) else (dim,)


def _without(dim: Dim, axes: set[Symbol]) -> Iterator[Dim | None]:
    """Sizes that are all multiples if a Dim is one wherever its axes are; None for what is not so simple."""
    rest = Dim.of(0)
    for coefficient, monomial in dim.terms:
        if any(not isinstance(atom, Symbol) and not axes.isdisjoint(variables_of(atom)) for atom in monomial):
            yield None
            return
        own = tuple(atom for atom in monomial if atom not in axes)
        if own == monomial:
            rest = rest + Dim({monomial: coefficient})
        else:
            yield Dim({own: coefficient})
    yield rest
