"""Plain kernels in every way in which they may be spread over threads, run by `emulate` and compared with the interpreter."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from axon import AxonError
from axon.backend.gpu.emit.source import Emitted
from axon.backend.gpu.layout.memory import SPACED, DeviceTensor, aligned, contiguous
from axon.backend.gpu.layout.register_tiles import NARROW, RegisterTile
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.runtime import plain_variants as variants
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import is_empty
from axon.backend.gpu.runtime.ways import Way
from axon.backend.gpu.simt.access import ALONE, Width, held_in_registers, is_ordered, lies_flat, uniform, width_anywhere, width_of
from axon.backend.gpu.simt.halves import halves
from axon.backend.gpu.simt.mapping import (
    CHUNKS,
    CLUSTERS,
    MOST,
    WARP,
    By,
    Grid,
    Mapping,
    by_register_tiles,
    grid,
    in_halves,
    longest,
    nest_sweeps,
    plainest,
    shareable,
    uneven,
    where_it_ends,
    widest,
)
from axon.backend.gpu.simt.pieces import Pieces, keeping, pieces
from axon.backend.gpu.simt.register_tiles import (
    NARROW_ELEMENTS,
    TiledMapping,
    fetch,
    groups,
    groups_for,
    in_products,
    scalar_fetches,
)
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.gpu.simt.tiles import SIDES, across
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import reduced
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Program, Scan, Value
from axon.interpret import run as interpret
from axon.shapes.contracts.guard import ContractBroken
from tests.backend.gpu.simt.emulate import Storage, launch

TOLERANCE = {Element.F32: 2e-5, Element.BF16: 3e-2, Element.F16: 4e-3, Element.F64: 1e-12, Element.F8E4M3: 0.2, Element.F8E5M2: 0.3}
Sizes = dict[Symbol, int]
Tensors = dict[Symbol, DeviceTensor]
Layout = Callable[[int, int], tuple[tuple[int, int], int]]


def plain(program: Program, target: Target = HOPPER) -> Executable:
    """The program's kernels, none of them for the tensor cores."""
    return Executable(program, target, way=Way(plain=frozenset(out.symbol for op in program.block.ops for out in op.outs)))


# ── all ways to spread a kernel ─────────────────────────────────────────────────────────────────────────────────────────


def legal(given: Case, nest: Nest) -> list[Mapping]:
    """Every mapping of a kernel that is right at these sizes, chosen or not; the one that is chosen comes first."""
    ready, tensors, sizes = given.ready(nest), given.tensors, given.sizes
    nest, known, target = ready.kernel, ready.values, ready.target
    tensors = {**tensors, **{symbol: tensors[symbol].merged(several) for symbol, several in ready.dimensions}}
    found = [ready.wanted, ready.general(), plainest(nest)]
    by_lanes = width_of(nest, known, tensors, sizes, True)
    if nest.rows:
        same = frozenset(uniform(nest, by_lanes.vector, sizes)) if by_lanes.vector > 1 else frozenset()
        wide = Mapping("lanes", by_lanes.vector, by_lanes.beside, uniform=same)
        found += [wide, replace(wide, uniform=frozenset()), Mapping("lanes")]
        through = across(nest, known, tensors, sizes, target)
        if through is not None:
            tiles = replace(wide, by="tiles", across=through)
            found += [tiles, replace(tiles, across=through.alone), Mapping("tiles", across=through)]
            long, short = SIDES
            found += [replace(tiles, across=replace(through, tall=long, wide=short))]
            found += [Mapping("tiles", across=replace(through, tall=short, wide=long))]
        elif not nest_sweeps(nest):
            found += [replace(wide, turns=3), Mapping("lanes", turns=2)]
            apart = width_of(nest, known, tensors, sizes, True, divided=True)
            if apart.regular:
                divided = Mapping("lanes", apart.vector, apart.beside, uniform=apart.regular)
                found += [divided, replace(divided, uniform=apart.regular | set(uniform(nest, apart.vector, sizes)), turns=3)]
            if lies_flat(nest, tensors):
                found += [replace(wide, flat=True), replace(wide, flat=True, turns=2)]
            cut = halves(nest)
            if cut is not None:
                halved = in_halves(cut, known, tensors, sizes)
                found += [halved, replace(halved, uniform=frozenset()), Mapping("lanes", halved=True), replace(halved, turns=2)]
        if nest_sweeps(nest) and shareable(nest):
            found += [replace(wide, team=8), replace(wide, team=32), Mapping("lanes", team=4)]
    loops = [reduced(step) for step in nest.steps if reduced(step)]
    if loops and all(len(axes) > 1 for axes in loops) and not any(isinstance(s, Scan) or is_ordered(s) for s in nest.steps):
        along = width_of(nest, known, tensors, sizes, False)
        found += [Mapping("block", along.vector, along.beside, team=64, deep=deep) for deep in (2, 16, 64)]
    found += _tiled(nest, known, tensors, sizes, target)
    if nest_sweeps(nest):
        by_rows = list(_by_rows(nest, known, tensors, sizes, target, width_of(nest, known, tensors, sizes, False)))
        found += by_rows
        if peaks(nest):
            found += [replace(mapping, below=True) for mapping in by_rows]
    return list(dict.fromkeys(found))


def tailed(given: Case, nest: Nest) -> list[Mapping]:
    """The mapping that is chosen, and all with vectors of which the last of a row counts in part."""
    ready, sizes = given.ready(nest), given.sizes
    nest, known, target = ready.kernel, ready.values, ready.target
    tensors = {**given.tensors, **{symbol: given.tensors[symbol].merged(several) for symbol, several in ready.dimensions}}
    found = [ready.wanted]
    wide = width_of(nest, known, tensors, sizes, True, tails=True) if nest.rows else ALONE
    if wide.tail:
        by_lanes = Mapping("lanes", wide.vector, wide.beside, uniform=frozenset(uniform(nest, wide.vector, sizes)), tail=True)
        found += [by_lanes, replace(by_lanes, uniform=frozenset())]
        if not nest_sweeps(nest):
            found += [replace(by_lanes, turns=2), replace(by_lanes, turns=3)]
        elif shareable(nest):
            found += [replace(by_lanes, team=8), replace(by_lanes, team=32)]
    along = width_of(nest, known, tensors, sizes, False, tails=True)
    if along.tail and nest_sweeps(nest):
        by_rows = [m for m in _by_rows(nest, known, tensors, sizes, target, along) if m.tail]
        found += by_rows
        loops = [reduced(step) for step in nest.steps if reduced(step)]
        if loops and all(len(axes) > 1 for axes in loops) and not any(isinstance(s, Scan) or is_ordered(s) for s in nest.steps):
            found += [Mapping("block", along.vector, along.beside, team=64, deep=deep, tail=True) for deep in (2, 16)]
        if peaks(nest):
            found += [replace(mapping, below=True) for mapping in by_rows]
    return list(dict.fromkeys(found))


def headed(given: Case, nest: Nest) -> list[Mapping]:
    """The mapping that is chosen, and all by rows with vectors that begin where memory's do."""
    ready, sizes = given.ready(nest), given.sizes
    nest, known, target = ready.kernel, ready.values, ready.target
    tensors = {**given.tensors, **{symbol: given.tensors[symbol].merged(several) for symbol, several in ready.dimensions}}
    wide = width_anywhere(nest, known, tensors, sizes)
    found = [m for m in _by_rows(nest, known, tensors, sizes, target, wide) if m.head] if wide.head and nest_sweeps(nest) else []
    if peaks(nest):
        found += [replace(mapping, below=True) for mapping in found]
    return list(dict.fromkeys([ready.wanted, *found]))


SMALL = (  # tiles of so few threads that they are soon emulated
    RegisterTile(8, 32, 4, 2, 4),
    RegisterTile(8, 16, 8, 2, 4, 2),
    RegisterTile(32, 8, 4, 4, 2, 1, 2),
    RegisterTile(8, 32, 8, 4, 2, 1, 4),
    RegisterTile(16, 8, 8, 2, 2, 2, 2),
)
WARPS = (
    RegisterTile(16, 8, 16, 16, 8, stages=4, warps=True),
    RegisterTile(32, 16, 8, 16, 16, stages=4, warps=True),
    RegisterTile(16, 16, 16, 16, 8, 2, 2, stages=4, warps=True),
)


def narrow(rows: int, columns: int, depth: int, own_rows: int, own_columns: int, groups: int = 1, splits: int = 1, stages: int = 4
           ) -> RegisterTile:  # fmt: skip
    return RegisterTile(rows, columns, depth, own_rows, own_columns, groups, splits, stages, warps=True, size=NARROW)


NARROW_WARPS = (  # with one portion and several, lines of 2 to 8 pieces
    narrow(16, 16, 16, 16, 16), narrow(32, 32, 32, 32, 32), narrow(64, 64, 16, 64, 64), narrow(16, 64, 32, 16, 32),
    narrow(16, 16, 32, 16, 16, 2), narrow(16, 32, 64, 16, 32, 1, 2), narrow(64, 64, 16, 32, 64),
    narrow(32, 16, 16, 16, 16, stages=3), narrow(16, 16, 16, 16, 16, 1, 2, 3), narrow(32, 32, 32, 16, 32, stages=2),
)  # fmt: skip


def _tiled(nest: Nest, known: MappingOf[Symbol, Value], tensors: Tensors, sizes: Sizes, target: Target) -> Iterator[Mapping]:
    """A reduction of pairs by small register tiles, with its own way to bring both sides and without."""
    found = groups(nest)
    if found is None:
        return
    width = width_of(nest, known, tensors, sizes, True)
    products = in_products(found)
    small = SMALL
    if products is not None:
        small += NARROW_WARPS if products.leaves[0].local.element in NARROW_ELEMENTS else WARPS
    for tile in (tile for tile in small if tile.splits <= target.largest_cluster):
        leaves = groups_for(nest, tile).leaves
        tiled = TiledMapping(tile, tuple(fetch(leaf, found, tensors, sizes) for leaf in leaves), 1)
        yield by_register_tiles(nest, tiled, width)
        yield by_register_tiles(nest, scalar_fetches(tiled), ALONE)


def _ending(nest: Nest, mapping: Mapping, sizes: Sizes) -> Mapping:
    return replace(mapping, ends=where_it_ends(longest(nest, sizes), mapping))


def _by_rows(
    nest: Nest, known: MappingOf[Symbol, Value], tensors: Tensors, sizes: Sizes, target: Target, wide: Width
) -> Iterator[Mapping]:
    teams: tuple[tuple[By, int, tuple[int, ...]], ...] = (("warp", WARP, (1, 4, WARP)), ("block", MOST, (WARP, 2 * WARP)))
    held = held_in_registers(nest)
    for by, most, choices in teams[1:] if uneven(nest) else teams:
        for vector, beside in dict.fromkeys([(wide.vector, wide.beside), (1, frozenset())]):
            vectors = -(-widest(nest, sizes) // vector)
            tail, head = wide.tail and vector > 1, wide.head and vector > 1
            vectors += head
            row = Mapping(by, vector, beside, tail=tail, head=head, elsewhere=wide.elsewhere if head else frozenset())
            for team in choices if not head else [team for team in choices if team > 1]:
                yield replace(row, team=team)
                yield replace(row, team=team, turns=2)
                if not uneven(nest) and vectors <= 4 * team:
                    yield replace(row, team=team, turns=4, once=True)
            for chunks in CHUNKS if held else ():
                if vectors <= most * chunks:
                    team = -(-vectors // chunks)
                    team = 1 << (team - 1).bit_length() if by == "warp" else -(-team // WARP) * WARP
                    yield _ending(nest, replace(row, team=team, chunks=chunks), sizes)
                    if team * chunks * vector == longest(nest, sizes) and not head:
                        yield Mapping(by, vector, beside, chunks, whole=True, team=team)
    if wide.tail and held:
        for blocks in (2, 4):
            chunks = -(-(widest(nest, sizes) + wide.vector * wide.head) // (wide.vector * blocks * WARP))
            cut = Pieces(blocks, chunks)
            made = Mapping(
                "cluster",
                wide.vector,
                wide.beside,
                chunks,
                team=WARP,
                pieces=cut,
                tail=True,
                head=wide.head,
                elsewhere=wide.elsewhere,
            )
            yield _ending(nest, made, sizes)
    if wide.head:
        return
    cut = pieces(nest, known, tensors, sizes, wide, target) if held else None
    if cut is not None:
        vectors = -(-widest(nest, sizes) // wide.vector)
        for blocks in (n for n in CLUSTERS if n <= target.largest_cluster):
            for team in (WARP, 2 * WARP):
                least = -(-vectors // (blocks * team))
                for chunks in (least, least + 1):
                    smaller = replace(cut, blocks=blocks, chunks=chunks, stages=1 + (blocks + chunks) % 3)
                    whole = blocks * chunks * team == vectors
                    yield Mapping("cluster", wide.vector, wide.beside, whole=whole, team=team, pieces=smaller, tail=wide.tail)
                    yield Mapping(
                        "cluster", wide.vector, wide.beside, whole=whole, team=team, pieces=smaller, later=cut.reads, tail=wide.tail
                    )
                    if chunks < 8:
                        held = replace(smaller, reads=frozenset())
                        found = [smaller, held] if blocks > 1 else [smaller]
                        kept = keeping(nest, known, tensors, wide, smaller, chunks * team, target)
                        if kept is not None:
                            yield Mapping("cluster", wide.vector, wide.beside, whole=whole, team=team, pieces=kept, tail=wide.tail)
                            found.append(kept)
                        for one in found:
                            registers = Mapping("cluster", wide.vector, wide.beside, chunks, whole, team=team, pieces=one)
                            registers = _ending(nest, replace(registers, tail=wide.tail), sizes)
                            yield registers
                            yield replace(registers, later=cut.reads)


# ── running them ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Case:
    """Kernels with tensors for their arguments. `tensors` says how all of them lie, each in a range of addresses of its own."""

    made: Executable
    arrays: list[Any]
    sizes: Sizes
    tensors: Tensors
    prepared: IdentityMap[Nest, variants.PreparedNest] = field(default_factory=IdentityMap)

    def ready(self, nest: Nest) -> variants.PreparedNest:
        """A kernel as these tensors lie: mappings of it name the axes that were merged then."""
        if nest not in self.prepared:
            self.prepared[nest] = variants.prepare(nest, self.made.planned.known, self.tensors, self.sizes, self.made.target)
        return self.prepared[nest]

    @property
    def todo(self) -> list[Nest]:
        return [kernel for kernel in self.made.kernels if isinstance(kernel, Nest) and not is_empty(kernel, self.sizes)]


def case(made: Executable, size: tuple[int, int], *, seed: int = 0, layout: Layout | None = None) -> Case:
    """Random arguments. A layout gives strides for those of rank 2, and how far behind an aligned address they begin."""
    chance = np.random.default_rng(seed)
    wanted = dict(zip(("n", "d"), size, strict=True))
    symbols = {s for v in made.program.inputs for d in v.shape for s in d.variables} | set(made.program.explicit)
    sizes = {s: wanted[s.name] for s in symbols}
    arrays = []
    tensors: Tensors = {}
    for number, value in enumerate(made.values):
        shape = tuple(max(0, d.evaluate(sizes)) for d in value.shape)
        pointer = (number + 1) << 40
        tensors[value.symbol] = contiguous(pointer, shape, value.element)
        if value in made.program.inputs:
            x = chance.standard_normal(shape) if value.element.is_float else chance.integers(-100, 100, shape)
            arrays.append(x.astype(value.element.dtype))
            if len(shape) == 2 and layout is not None:
                strides, skipped = layout(*size)
                arrays[-1][...] = arrays[-1][:1] if strides[0] == 0 else arrays[-1]
                pointer += skipped * value.element.dtype.itemsize
                tensors[value.symbol] = DeviceTensor(pointer, shape, strides, value.element)
    return Case(made, arrays, sizes, tensors)


def side_by_side(made: Executable, arrays: list[Any], sizes: Sizes) -> Case:
    """Given arguments, each tensor in rows."""
    shapes = [tuple(max(0, d.evaluate(sizes)) for d in v.shape) for v in made.values]
    lying = enumerate(zip(made.values, shapes, strict=True), 1)
    return Case(made, arrays, sizes, {value.symbol: contiguous(n << 40, shape, value.element) for n, (value, shape) in lying})


def with_spare(given: Case) -> Case:
    """The same with spare elements behind the rows of all tensors of several dimensions, as there are between kernels."""
    lying = {s: aligned(t.pointer, t.shape, t.element, least=SPACED) if len(t.shape) > 1 else t for s, t in given.tensors.items()}
    return Case(given.made, given.arrays, given.sizes, lying)


def admitted(given: Case) -> bool:
    """Whether the program's contract has these sizes: a maximum is of at least one."""
    program = given.made.program
    try:
        program.contract.bind([given.sizes[s] for s in program.explicit], [x.shape for x in given.arrays])
    except ContractBroken:
        return False
    return True


def form(given: Case, nest: Nest, mapping: Mapping) -> tuple[Emitted, Grid]:
    """A kernel and its launch; one that takes rows in turn with so few blocks that it has several rows."""
    ready = given.ready(nest)
    source = variants.forms(ready, variants.Variant(mapping, "")).source
    launched = grid(mapping, ready.kernel, given.sizes, ready.target)
    if mapping.persistent:
        launched = replace(launched, blocks=min(launched.blocks, 2 * mapping.pieces.blocks))
    return source, launched


def emulated(given: Case, kernels: Sequence[tuple[Emitted, Grid]], chance: random.Random) -> list[Any] | None:
    """The results; None where a kernel noted that the program must stop."""
    storages = {symbol: Storage(tensor) for symbol, tensor in given.tensors.items()}
    for value, array in zip(given.made.program.inputs, given.arrays, strict=True):
        storages[value.symbol].put(array)
    status = Storage(contiguous(1 << 60, (1,), Element.I32), anyone=True)
    status.put(np.zeros(1, np.int32))
    for source, launched in kernels:
        launch(source, launched, storages, status, given.sizes, chance)
    return None if status.get()[0] else [storages[symbol].get() for symbol in given.made.program.block.results]


def expected(given: Case) -> list[Any] | None:
    try:
        return interpret(given.made.program, given.arrays, [given.sizes[s] for s in given.made.program.explicit])
    except AxonError:
        return None


def compare(given: Case, mappings: Sequence[Mapping], want: list[Any] | None, seed: int = 0) -> None:
    kernels = [form(given, nest, mapping) for nest, mapping in zip(given.todo, mappings, strict=True)]
    shapes = [array.shape for array in given.arrays]
    try:
        got = emulated(given, kernels, random.Random(seed))
        assert (got is None) == (want is None)
        tolerance = max((TOLERANCE.get(v.element, 0) for v in given.made.program.inputs), default=0)
        for mine, theirs in zip(got or (), want or (), strict=True):
            assert mine.dtype == theirs.dtype
            wide = theirs.astype(np.float64)
            scale = max(1.0, float(np.abs(wide[np.isfinite(wide)]).max(initial=0)))
            np.testing.assert_allclose(mine.astype(np.float64), wide, atol=tolerance * scale, rtol=0)
    except Exception as failure:
        failure.add_note("\n".join([f"of {shapes}, {given.tensors}", *(source.text for source, _ in kernels)]))
        raise


def choices(given: Case) -> list[list[Mapping]]:
    """So many choices for all kernels together that each mapping of each is among them."""
    each = [legal(given, nest) for nest in given.todo]
    return [[options[n % len(options)] for options in each] for n in range(max(map(len, each), default=1))]


def threads(given: Case, mappings: Sequence[Mapping]) -> int:
    grids = (grid(mapping, nest, given.sizes, given.made.target) for nest, mapping in zip(given.todo, mappings, strict=True))
    return sum(g.blocks * g.threads for g in grids)
