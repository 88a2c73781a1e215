"""Reductions of pairs, of what a row and a column have: which nests are some, and how a block brings both sides.

    groups          a Nest -> its axes by side, and what of the reduced expression each side has by itself
    register_tiles  a Nest as its tensors lie -> the tile for it, if it is one that tiles make quicker

See Note [Register tiles] in `layout.register_tiles`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from math import prod
from typing import Literal

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.register_tiles import TOGETHER, Pairs, RegisterTile, best, seconds
from axon.backend.gpu.layout.roofline import KernelWork, Loads
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import Access, aligned, divides, is_beside, is_ordered, unit_of
from axon.backend.kernel.reducers import reducer
from axon.backend.plan.ended import at_sizes, done, ended
from axon.backend.plan.ir import Nest, bytes_read, reads_of, size_in_bytes, values_of
from axon.backend.plan.loads import loaded_again
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Convert, Local, Op, Read, Scalar, Unary, Value, element_of
from axon.core.operation_count import flops, other_operations
from axon.core.scalar_facts import axes_of, may_fail
from axon.core.walk import children, nodes, reads, with_children
from axon.shapes.dimension import Dim, DimensionTooLarge

Side = Literal["rows", "columns"]
FETCHED = 4  # neighbours that a thread brings at once, at most
TAKEN = 8  # likewise of factors of 16 bits that tensor instructions take
NARROW_ELEMENTS = (Element.BF16, Element.F16)
FEWEST = 4  # rows and columns: of fewer, a tile is mostly empty
# So many times the roofline's time were measured of kernels without tiles: at least, where what they load does not lie side by side
# for neighbouring threads, and where they find indices along several axes.
SIMPLE, ACROSS, SEVERAL = 1.6, 4.0, 8.0


@dataclass(frozen=True, slots=True)
class Leaf:
    """What a side has by itself at each of its places and depths: it stands in the reduced expression as a local."""

    scalar: Scalar
    local: Local
    side: Side


@dataclass(frozen=True, slots=True)
class Groups:
    """The axes of a reduction of pairs, and its expressions with the leaves as locals. `neutral`: where all leaves are 0, it adds
    nothing."""

    outer: tuple[Axis, ...]
    rows: tuple[Axis, ...]
    columns: tuple[Axis, ...]
    depth: tuple[Axis, ...]
    leaves: tuple[Leaf, ...]
    body: tuple[Scalar, ...]
    neutral: bool

    def axes(self, side: Side) -> tuple[Axis, ...]:
        return self.rows if side == "rows" else self.columns


@dataclass(frozen=True, slots=True)
class Fetch:
    """How a leaf is brought: neighbouring threads along its side or along the depth, each so many neighbours at once."""

    along: Literal["side", "depth"]
    vector: int = 1


@dataclass(frozen=True, slots=True)
class TiledMapping:
    """A tile, how each leaf is brought, and how many blocks of a multiprocessor must have registers."""

    tile: RegisterTile
    fetches: tuple[Fetch, ...]
    resident: int

    def __str__(self) -> str:
        return str(self.tile)


# ── what is one ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def groups(nest: Nest) -> Groups | None:
    """The groups of a nest that reduces pairs and then computes at each place; None for any other."""
    first, *rest = nest.steps
    if not isinstance(first, Compute) or first.reduction is None or not _is_plain(first, nest):
        return None
    if any(not isinstance(s, Compute) or s.reduction is not None or len(s.axes) != len(nest.rows) for s in rest):
        return None
    depth = first.reduction.axes
    sides = _sides(first, nest.rows, frozenset(axis.symbol for axis in depth))
    if sides is None:
        return None
    rows, columns = sides
    symbols = (frozenset(a.symbol for a in axes) for axes in (rows, columns, (*nest.rows, *depth)))
    cut = _Cut(*symbols)
    body = tuple(cut.cut(scalar) for scalar in first.body)
    if cut.rest or {leaf.side for leaf in cut.leaves.values()} != {"rows", "columns"}:
        return None
    outer = tuple(a for a in nest.rows if a not in rows and a not in columns)
    neutral = first.reduction.monoid.kind == "sum" and _vanishes(body[0])
    return Groups(outer, rows, columns, depth, tuple(cut.leaves.values()), body, neutral)


def _is_plain(step: Compute, nest: Nest) -> bool:
    """Whether every place of a reduction has the same depth, nothing of it can stop the program, and its order is free."""
    reduction = step.reduction
    assert reduction is not None
    axes = {axis.symbol for axis in (*nest.rows, *reduction.axes)}
    return (
        len(step.axes) == len(nest.rows) >= 2
        and reduction.where is None
        and reduction.monoid.kind in ("sum", "prod", "max", "min", "any", "all")
        and not is_ordered(step)
        and all(axes.isdisjoint(axis.extent.variables) for axis in (*nest.rows, *reduction.axes))
        and not any(map(may_fail, step.body))
    )


def _sides(step: Compute, rows: tuple[Axis, ...], depth: frozenset[Symbol]) -> tuple[tuple[Axis, ...], tuple[Axis, ...]] | None:
    """The axes along which some reads vary and others do not, by the reads: those of the columns with the last such axis."""
    own = frozenset(axis.symbol for axis in rows)
    varying = [axes_of(read, own | depth) for scalar in step.body for read in reads(scalar)]
    varying = [axes & own for axes in varying if axes & depth]
    if not varying:
        return None
    free = [axis for axis in rows if not all(axis.symbol in axes for axes in varying)]
    if not free:
        return None
    right: set[Symbol] = {free[-1].symbol}
    names = {axis.symbol for axis in free}
    grown = True
    while grown:  # axes that a read has in common are of one side
        more = {symbol for axes in varying if axes & right for symbol in axes & names} - right
        right |= more
        grown = bool(more)
    left = tuple(axis for axis in free if axis.symbol not in right)
    return (left, tuple(axis for axis in free if axis.symbol in right)) if left else None


class _Cut:
    """Cuts expressions into the largest parts that vary along one side alone. `rest`: something varies along both and is none."""

    def __init__(self, rows: frozenset[Symbol], columns: frozenset[Symbol], axes: frozenset[Symbol]) -> None:
        self.rows, self.columns, self.axes = rows, columns, axes
        self.leaves: dict[Scalar, Leaf] = {}
        self.rest = False

    def cut(self, scalar: Scalar) -> Scalar:
        varying = axes_of(scalar, self.axes)
        if not varying:
            return scalar  # sizes and literals; a local's value is cut where it is bound
        if not any(isinstance(n, Local) for n in nodes(scalar)):
            if varying.isdisjoint(self.columns):
                return self.leaf(scalar, "rows")
            if varying.isdisjoint(self.rows):
                return self.leaf(scalar, "columns")
        parts = children(scalar)
        if isinstance(scalar, Read) or not parts:
            self.rest = True
            return scalar
        return with_children(scalar, tuple(map(self.cut, parts)))

    def leaf(self, scalar: Scalar, side: Side) -> Local:
        if scalar not in self.leaves:
            self.leaves[scalar] = _leaf(scalar, side)
        return self.leaves[scalar].local


def in_products(found: Groups) -> Groups | None:
    """The same where a sum is one of products that tensor instructions take: of one leaf for each side."""
    return _doubles(found) or _narrow(found)


def _narrow(found: Groups) -> Groups | None:
    """A sum of products of bf16 or f16, as they are or widened, whose states are f32."""
    match found.body:
        case (Binary(op="mul", left=left, right=right),) if found.neutral and len(found.leaves) == 2:
            sides = [_bare(part, found.leaves) for part in (left, right)]
        case _:
            return None
    by_side = {leaf.side: leaf for leaf in sides if leaf is not None}
    if len(by_side) < 2 or len({leaf.local.element for leaf in by_side.values()}) > 1:
        return None
    rows, columns = by_side["rows"], by_side["columns"]
    element = element_of(found.body[0])
    wide = [leaf.local if element is leaf.local.element else Convert(leaf.local, element) for leaf in (rows, columns)]
    return replace(found, leaves=(rows, columns), body=(Binary("mul", *wide),))


def _bare(scalar: Scalar, leaves: Iterable[Leaf]) -> Leaf | None:
    """What of 16 bits a factor of a sum is, without the conversion to f32, where that is."""
    leaf = next((leaf for leaf in leaves if leaf.local == _unwidened(scalar)), None)
    if leaf is None:
        return None
    inside = _unwidened(leaf.scalar)
    if element_of(inside) not in NARROW_ELEMENTS:
        return None
    return leaf if inside is leaf.scalar else _leaf(inside, leaf.side)


def _unwidened(scalar: Scalar) -> Scalar:
    return scalar.operand if isinstance(scalar, Convert) and scalar.element is Element.F32 else scalar


def _doubles(found: Groups) -> Groups | None:
    """A sum of products in f64: a side's leaf has all factors of that side. In which order they are multiplied is open."""
    sides: dict[Side, list[Scalar]] = {"rows": [], "columns": []}
    known = {leaf.local.symbol: leaf for leaf in found.leaves}

    def factors(scalar: Scalar) -> bool:
        match scalar:
            case Local(symbol=symbol):
                sides[known[symbol].side].append(known[symbol].scalar)
                return True
            case Binary(op="mul", left=left, right=right):
                return factors(left) and factors(right)
            case _:
                return False

    (body, *more) = found.body
    if not found.neutral or more or element_of(body) is not Element.F64 or not factors(body):
        return None
    rows, columns = (_leaf(reduce(lambda x, y: Binary("mul", x, y), own), side) for side, own in sides.items())
    return replace(found, leaves=(rows, columns), body=(Binary("mul", rows.local, columns.local),))


def groups_for(nest: Nest, tile: RegisterTile) -> Groups:
    """The groups of a nest as a tile takes them."""
    found = groups(nest)
    assert found is not None
    made = in_products(found) if tile.warps else found
    assert made is not None
    return made


def _leaf(scalar: Scalar, side: Side) -> Leaf:
    return Leaf(scalar, Local(fresh("row" if side == "rows" else "column"), element_of(scalar)), side)


def _vanishes(scalar: Scalar) -> bool:
    """Whether an expression is a product of leaves."""
    match scalar:
        case Local():
            return True
        case Binary(op="mul", left=left, right=right):
            return _vanishes(left) and _vanishes(right)
        case Convert(operand=operand) | Unary(op="neg", operand=operand):
            return _vanishes(operand)
        case _:
            return False


# ── with which tile ─────────────────────────────────────────────────────────────────────────────────────────────────────


def register_tiles(
    nest: Nest,
    values: Mapping[Symbol, Value],
    tensors: Mapping[Symbol, DeviceTensor],
    sizes: Mapping[Symbol, int],
    target: Target,
    alone: bool = False,
) -> TiledMapping | None:
    """The tile with which a nest takes least time, if it takes less than without. `alone`: it will bring one element at a time."""
    found = groups(nest)
    if found is None:
        return None
    pairs, products = pairs_of(nest, found, sizes), in_products(found)
    if products is not None:
        most = 1 if alone and pairs.narrow else _most(pairs)
        pairs = _together(pairs, tuple(fetch(leaf, products, tensors, sizes, most) for leaf in products.leaves))
    chosen = best(pairs, target) if min(pairs.rows, pairs.columns) >= FEWEST else None
    if chosen is None:
        return None
    time, tile = chosen
    found = groups_for(nest, tile)
    most = _most(pairs) if tile.warps else FETCHED
    fetches = tuple(fetch(leaf, found, tensors, sizes, most) for leaf in found.leaves)
    across = any(one.along == "depth" for one, leaf in zip(fetches, found.leaves, strict=True) if leaf.side == "columns")
    times = SEVERAL if pairs.axes > 3 else ACROSS if across else SIMPLE
    try:
        if time >= times * untiled(nest, values, sizes).seconds(target):
            return None
    except DimensionTooLarge:  # of sizes that no memory holds
        return None
    lacking = pairs.narrow and tile.warps and min(pairs.together) == 1  # registers: they go to what is brought one by one
    return TiledMapping(tile, fetches, 1 if lacking else tile.resident(pairs.words, pairs.axes, target))


def pairs_of(nest: Nest, found: Groups, sizes: Mapping[Symbol, int]) -> Pairs:
    """Its extents and what it holds."""

    def extent(axes: Iterable[Axis]) -> int:
        return prod(max(0, axis.extent.evaluate(sizes)) for axis in axes)

    step = nest.steps[0]
    assert isinstance(step, Compute)
    assert step.reduction is not None
    held = {side: sum(_bytes(leaf) for leaf in found.leaves if leaf.side == side) for side in ("rows", "columns")}
    words = sum(-(-e.bits // 32) for e in reducer(step.reduction.monoid, found.body).elements)
    points = max(1, extent(nest.rows) * extent(found.depth))
    operations = flops(step).evaluate(sizes) + other_operations(step).evaluate(sizes)
    extents = (extent(axes) for axes in (found.outer, found.rows, found.columns, found.depth))
    axes = len(found.rows) + len(found.columns) + len(found.depth)
    outer, rows, columns, depth = extents
    double, products = any(leaf.local.element.accumulator is Element.F64 for leaf in found.leaves), in_products(found)
    narrow = products is not None and products.leaves[0].local.element in NARROW_ELEMENTS
    doubles, work = products is not None and not narrow, max(1, operations // points)
    return Pairs(outer, rows, columns, depth, held["rows"], held["columns"], words, work, axes, double, doubles, narrow)


def predicted(nest: Nest, tiled: TiledMapping, sizes: Mapping[Symbol, int], target: Target) -> float:
    """The seconds that a nest takes with a tile."""
    found = groups(nest)
    assert found is not None
    pairs = pairs_of(nest, found, sizes)
    return seconds(tiled.tile, _together(pairs, tiled.fetches) if tiled.tile.warps else pairs, target)


def _together(pairs: Pairs, fetches: tuple[Fetch, ...]) -> Pairs:
    """With how many elements are copied at once, of products: each side is one leaf."""
    rows, columns = (one.vector for one in fetches)
    return replace(pairs, together=(rows, columns))


def untiled(nest: Nest, values: Mapping[Symbol, Value], sizes: Mapping[Symbol, int]) -> KernelWork:
    """What a nest does without tiles; of loops that data end, what they do in the mean."""
    again = loaded_again(ended(nest, values), values, sizes)
    loads = tuple(Loads(a.bytes, a.between) for a in again if a.bytes > a.between)
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
    every = [at_sizes(step, known) for step in nest.steps]  # before points are counted: formulas may have too many parts

    def total(count: Callable[[Op], Dim], steps: Iterable[Op]) -> int:
        return sum(done(step, values, count).evaluate(sizes) for step in steps)

    wide = [step for step in every if any(element_of(s) is Element.F64 for s in step.body)]
    moved = sum(bytes_read(nest.steps, values[symbol]).evaluate(sizes) for symbol in reads_of(nest))
    moved += sum(size_in_bytes(value).evaluate(sizes) for value in values_of(nest))
    return KernelWork(moved, loads, total(flops, every), total(other_operations, every), total(flops, wide))


def _bytes(leaf: Leaf) -> int:
    """Of a leaf's value in shared memory, where it lies as it is accumulated."""
    return max(1, leaf.local.element.accumulator.bits // 8)


def _most(pairs: Pairs) -> int:
    """Neighbours of a factor of tensor instructions that a thread brings at once, at most."""
    return TAKEN if pairs.narrow else FETCHED


def fetch(
    leaf: Leaf, found: Groups, tensors: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int], most: int = FETCHED
) -> Fetch:
    """How a leaf is brought from tensors that lie like these, at most so many neighbours at once."""
    made = [read for read in reads(leaf.scalar) if read.tensor in tensors]
    lanes: tuple[tuple[Literal["side", "depth"], Axis], ...]
    lanes = (("side", found.axes(leaf.side)[-1]), ("depth", found.depth[-1]))
    for along, axis in lanes:
        beside = [r for r in made if is_beside(r.subscripts, axis.symbol, unit_of(tensors[r.tensor]))]
        if beside:
            size = min(max(1, r.element.bits // 8) for r in beside)
            vector = min(most, TOGETHER // size)
            while vector > 1 and not _lie(beside, axis, tensors, sizes, vector):
                vector = vector // 2 if most == TAKEN else 1
            return Fetch(along, vector)
    return Fetch("side")


def _lie(
    made: Iterable[Read], axis: Axis, tensors: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int], vector: int
) -> bool:
    """Whether reads along an axis lie as it takes to bring so many neighbours at once."""
    fit = (aligned(Access(r.tensor, r.subscripts, axis), tensors[r.tensor], sizes, vector) for r in made)
    return all(fit) and divides(vector, axis.extent, sizes)


def scalar_fetches(tiled: TiledMapping) -> TiledMapping:
    """The same for any size: one element at a time."""
    return replace(tiled, fetches=tuple(Fetch(one.along) for one in tiled.fetches))
