"""Where what is read lies: whether a block of a result needs only a block of a tensor, and how far beyond it its indices reach.

With the axis `i` of an operation cut into blocks of B, its index is `c * B + i` on the device at coordinate c. A dimension of a
tensor cut into blocks of A begins there at `c * A`. So a subscript is local if, less `c * A`, it no longer mentions c: `i`, and
`i * k + j` of a merged dimension, `i / k` of a split one; Dim's normal form decides, and the prover where it needs a fact of the
contract (`h % g = 0`). How far it ranges says whether it stays inside the block: `i + 1` reaches one element beyond. On a torus,
`(i + 1) % n`, it is read as `i + 1`, one element beyond an end behind which the other end is; and `min (i + 1) (n - 1)`, which
mentions where the ends are, is bounded by what it is the least of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis
from axon.shapes.algebra.facts import Facts
from axon.shapes.algebra.prove import nonnegative, proves
from axon.shapes.dimension import Dim, Minimum, Quotient, maximum, replaced
from axon.shapes.relation import Relation

ZERO = Dim.of(0)


@dataclass(frozen=True, slots=True)
class Grid:
    """A mesh as the pass sees it: of each axis its devices, its coordinate, and the local sizes that are split over it."""

    axes: tuple[tuple[str, int, Symbol, frozenset[Symbol]], ...]
    facts: Facts  # of the contract, in local sizes
    sizes: frozenset[Symbol]  # of a call, local ones in place of those that are split
    wide: bool = False  # devices' sums of 16-bit floats are combined before they are rounded

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(name for name, *_ in self.axes)

    def devices(self, axis: str) -> int:
        return next(p for name, p, _, _ in self.axes if name == axis)

    def coordinate(self, axis: str) -> Symbol:
        return next(c for name, _, c, _ in self.axes if name == axis)

    def block(self, extent: Dim, axis: str) -> Dim | None:
        """The size of the blocks into which an axis of the mesh cuts an extent; None where it does not: no size that is split over
        it makes the extent. The blocks hold at least the extent: those of `n - 2` are those of `n`, so that they begin alike."""
        p, sizes = next((p, sizes) for name, p, _, sizes in self.axes if name == axis)
        if extent.variables.isdisjoint(sizes):
            return None
        rest, offset = extent - extent.offset, extent.offset
        if any(k % p for k in rest.mapping.values()):
            return None
        return Dim({m: k // p for m, k in rest.mapping.items()}) + max(0, -(-offset // p))

    def exact(self, extent: Dim, axis: str) -> bool:
        """Whether the blocks hold no more than the extent."""
        block = self.block(extent, axis)
        return block is not None and block * self.devices(axis) == extent


@dataclass(frozen=True, slots=True)
class Cut:
    """An axis of an operation, split over one of the mesh: `begin` is where a device's block begins, `beyond` whether blocks may
    reach beyond the extent."""

    axis: Symbol
    mesh: str
    block: Dim
    begin: Dim
    extent: Dim
    beyond: bool


def cut(axis: Axis, mesh: str, grid: Grid) -> Cut | None:
    block = grid.block(axis.extent, mesh)
    if block is None:
        return None
    return Cut(axis.symbol, mesh, block, block * grid.coordinate(mesh), axis.extent, not grid.exact(axis.extent, mesh))


def shifted(cuts: Sequence[Cut]) -> dict[Symbol, Dim]:
    """Where the index of each cut axis is in the whole."""
    return {c.axis: c.begin + c.axis for c in cuts}


@dataclass(frozen=True, slots=True)
class Residue:
    """That wherever something is read the index of an axis is `rest` more than a multiple of `step`."""

    axis: Symbol
    step: int
    rest: int


@dataclass(frozen=True, slots=True)
class Reach:
    """A subscript in a block: the local index, and how far it goes beyond the block's ends."""

    index: Dim
    left: Dim
    right: Dim
    around: bool = False  # beyond the first block is the last

    @property
    def inside(self) -> bool:
        return self.left == ZERO == self.right


def reach(
    subscript: Dim,
    extent: Dim,
    mesh: str,
    grid: Grid,
    moved: Mapping[Symbol, Dim],
    extents: Mapping[Symbol, Dim],
    residues: Sequence[Residue] = (),
) -> Reach | None:
    """How a subscript reaches into the blocks of a dimension of so many elements; None if it follows no block. `moved` are the cut
    axes as they are in the whole, `extents` those of all axes, of cut ones the blocks'. Only axes that are not cut have
    `residues`."""
    block = grid.block(extent, mesh)
    if block is None:
        return None
    straight = _reach(subscript, block, mesh, grid, moved, extents, residues)
    turned = unwound(subscript, extent) if grid.exact(extent, mesh) else None
    if turned is None or (straight is not None and straight.inside):
        return straight
    found = _reach(turned, block, mesh, grid, moved, extents, residues)
    return straight if found is None else replace(found, around=True)


def unwound(subscript: Dim, extent: Dim) -> Dim | None:
    """A subscript less what a quotient in it says of multiples of an extent: `i + 1` of `(i + 1) % n`. None where there is none."""
    found = subscript
    for atom in sorted(subscript.quotients, key=lambda q: (q.dividend.sort_key, q.divisor.sort_key)):
        split = found.split(atom)
        times = None if split is None or split[0] == ZERO else split[0].plain_quotient(extent)
        if split is not None and times is not None:
            found = split[1]
    return None if found == subscript else found


def _reach(
    subscript: Dim,
    block: Dim,
    mesh: str,
    grid: Grid,
    moved: Mapping[Symbol, Dim],
    extents: Mapping[Symbol, Dim],
    residues: Sequence[Residue],
) -> Reach | None:
    there = subscript.substitute(moved)
    if any(c in there.variables for name, _, c, _ in grid.axes if name != mesh):
        return None  # it follows another axis of the mesh as well
    index = placed(there, block, mesh, grid)
    begin, coordinate = (ZERO, None) if index is not None else (block * grid.coordinate(mesh), grid.coordinate(mesh))
    place, extents = _thinned(there if index is None else index, extents, residues)
    extents = {c: Dim.of(p) for _, p, c, _ in grid.axes} | dict(extents)  # borders are as wide on all devices, extents may not be
    used = {axis: extent for axis, extent in extents.items() if axis in place.variables}
    facts = grid.facts.assume(*(Relation(e, ">=", Dim.of(1)) for e in used.values() if e.variables.isdisjoint(extents)))
    ends = extremes(place, extents, facts) if coordinate is None else _clamped(place, begin, coordinate, extents, facts)
    if ends is None:
        return None
    low, high = ends
    index = place - begin if index is None else index
    left, right = _over(-low, facts), _over(high - block + 1, facts)
    return Reach(index, left, right) if left.variables | right.variables <= grid.sizes else None  # not those of a step of a loop


def placed(index: Dim, block: Dim, mesh: str, grid: Grid) -> Dim | None:
    """An index of the whole, less where a device's block begins; None where the coordinate does not go away."""
    coordinate = grid.coordinate(mesh)
    local = index - block * coordinate
    if coordinate not in local.variables:
        return local
    split = local.linear_in(coordinate)
    if split is not None and proves(grid.facts, Relation(split[0], "=", ZERO)):
        return split[1]
    for q in sorted(local.quotients, key=lambda q: (q.dividend.sort_key, q.divisor.sort_key)):
        size = q.dividend.symbol  # h, where h % g = 0, is g * (h / g)
        times = Dim({(q,): 1})
        if size in grid.sizes and size is not None and proves(grid.facts, Relation(Dim.of(size), "=", q.divisor * times)):
            one = fresh("")
            local = replaced(local, q, Dim.of(one)).substitute({size: q.divisor * one}).substitute({one: times})
    return None if coordinate in local.variables else local


def _clamped(index: Dim, begin: Dim, coordinate: Symbol, extents: Mapping[Symbol, Dim], facts: Facts) -> tuple[Dim, Dim] | None:
    """Between which sizes an index less `begin` lies, where it is the least or the greatest of some of which one follows `begin`,
    and others say where the whole ends; None where there are none such, or that is not found."""
    for atom in sorted((a for a in index.atoms if isinstance(a, Minimum)), key=lambda a: [i.sort_key for i in a.items]):
        split = index.split(atom)
        if split is None or split[0].constant not in (1, -1) or all(coordinate not in item.variables for item in atom.items):
            continue
        sign, rest = split
        ends = []
        for item in atom.items:
            one = sign * item + rest
            alone = coordinate in (one - begin).variables and any(isinstance(a, Minimum) for a in one.atoms)
            end = _clamped(one, begin, coordinate, extents, facts) if alone else extremes(one - begin, extents, facts)
            if end is None:
                return None
            ends.append(end)
        joined = _least if sign.constant == 1 else _greatest
        return joined([low for low, _ in ends], facts), joined([high for _, high in ends], facts)
    return None


def _least(dims: Sequence[Dim], facts: Facts) -> Dim:
    """The least of some, without those that another is never above."""
    found: list[Dim] = []
    for dim in dims:
        if not any(_at_least_0(dim - other, facts) for other in found):
            found = [other for other in found if not _at_least_0(other - dim, facts)] + [dim]
    return -reduce(maximum, [-dim for dim in found])


def _greatest(dims: Sequence[Dim], facts: Facts) -> Dim:
    return -_least([-dim for dim in dims], facts)


def _over(reach: Dim, facts: Facts) -> Dim:
    """How many elements beyond an end are read."""
    return ZERO if _at_least_0(-reach, facts) else reach if _at_least_0(reach, facts) else maximum(reach, 0)


def _thinned(index: Dim, extents: Mapping[Symbol, Dim], residues: Sequence[Residue]) -> tuple[Dim, Mapping[Symbol, Dim]]:
    """An index over axes of which some have residues, as one over how often the step fits into them."""
    for r in residues:
        if r.axis in index.variables and not any(r.axis in extent.variables for extent in extents.values()):
            index = index.substitute({r.axis: r.step * Dim.of(r.axis) + r.rest})
            extents = {**extents, r.axis: (extents[r.axis] - r.rest + r.step - 1) // r.step}
    return index, extents


def extremes(dim: Dim, extents: Mapping[Symbol, Dim], facts: Facts) -> tuple[Dim, Dim] | None:
    """Between which sizes a Dim over axes lies, both ends free of them; None where that is not found."""
    dim, extents = _remainders(dim, dict(extents), facts)
    low = high = dim
    for axis in reversed(list(extents)):  # the extent of one may mention those before it
        ends = []
        for end, is_low in ((low, True), (high, False)):
            at = _turned(end, axis, extents[axis], is_low, facts)
            if at is None:
                return None
            ends.append(at)
        low, high = ends
    return low, high


def _remainders(dim: Dim, extents: dict[Symbol, Dim], facts: Facts) -> tuple[Dim, dict[Symbol, Dim]]:
    """Remainders of axes, `a - b * (a / b)`, as axes of their own that run from 0 to b - 1."""
    for atom in sorted((a for a in dim.atoms if isinstance(a, Quotient)), key=lambda q: (q.dividend.sort_key, q.divisor.sort_key)):
        if atom.dividend.variables.isdisjoint(extents) or not _at_least_0(atom.divisor - 1, facts):
            continue
        split = dim.split(atom)
        times = None if split is None else (-split[0]).plain_quotient(atom.divisor)
        if split is None or times is None or not times.mapping:
            continue
        rest = split[1] - times * atom.dividend
        before = {v for v in dim.variables if v in extents}
        if {v for v in rest.variables if v in extents} < before:
            remainder = Symbol("remainder", -1 - len(extents))
            dim, extents = rest + times * remainder, {**extents, remainder: atom.divisor}
    return dim, extents


def _turned(dim: Dim, axis: Symbol, extent: Dim, low: bool, facts: Facts) -> Dim | None:
    """The least (or greatest) a Dim is along an axis."""
    if axis not in dim.variables:
        return dim
    split = dim.linear_in(axis)
    if split is not None:
        coefficient, rest = split
        if _at_least_0(coefficient, facts):
            return rest if low else rest + coefficient * (extent - 1)
        if _at_least_0(-coefficient, facts):
            return rest + coefficient * (extent - 1) if low else rest
        return None
    for atom in dim.atoms:  # a quotient or a minimum grows with what is in it
        if isinstance(atom, Symbol) or all(axis not in v.variables for v in _inner(atom)):
            continue
        by = dim.split(atom)
        if by is None or axis in by[0].variables:
            return None
        upward = _at_least_0(by[0], facts)
        if not upward and not _at_least_0(-by[0], facts):
            return None
        image = _turned_atom(atom, axis, extent, low == upward, facts)
        return None if image is None else _turned(replaced(dim, atom, image), axis, extent, low, facts)
    return None


def _inner(atom: Quotient | Minimum) -> tuple[Dim, ...]:
    return (atom.dividend, atom.divisor) if isinstance(atom, Quotient) else atom.items


def _turned_atom(atom: Quotient | Minimum, axis: Symbol, extent: Dim, low: bool, facts: Facts) -> Dim | None:
    if isinstance(atom, Minimum):
        items = [_turned(item, axis, extent, low, facts) for item in atom.items]
        found = [item for item in items if item is not None]
        if len(found) < len(items):
            return None
        total = found[0]
        for item in found[1:]:
            total = -maximum(-total, -item)
        return total
    if axis in atom.divisor.variables or not _at_least_0(atom.divisor - 1, facts):
        return None
    dividend = _turned(atom.dividend, axis, extent, low, facts)
    return None if dividend is None else dividend // atom.divisor


def _at_least_0(dim: Dim, facts: Facts) -> bool:
    constant = dim.constant
    if constant is not None:
        return constant >= 0
    if all(k > 0 for k in dim.mapping.values()) and all(isinstance(a, Symbol) for a in dim.atoms):
        return True  # of sizes
    return nonnegative(facts, dim)
