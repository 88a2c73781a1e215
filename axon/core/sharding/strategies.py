"""How an operation may be shared among the devices of a mesh, and which layouts of what it reads each way needs.

Along each axis of the mesh an operation is cut along one of its own axes, or passes on what is partial, or is done alike by all:

    an axis of the result         the result is split there
    an axis that is reduced       the result is partial: its monoid has yet to combine the devices' values
    none, of linear operations    what is partial by a sum stays so: it is scaled, and added to what is partial as well
    none                          every device does it, of the whole

A reduction by argmax, argmin or a monoid of the user combines the devices' values in their order, at once; a scan along a cut axis
adds to each block what the ones before it come to. For that the axis is the first that is reduced, and is cut into equal blocks.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Axis, Binary, Compute, Const, Index, Read, Reduction, Scalar, Scan, Select, Sort, Unary, Value
from axon.core.sharding.access import ZERO, Cut, Grid, Reach, Residue, cut, reach, shifted, unwound
from axon.core.sharding.ir import REDUCED, Layout, Split
from axon.core.sharding.layouts import held_as, whole
from axon.core.walk import all_axes, children, nodes, scalars
from axon.shapes.dimension import Dim, Quotient, maximum

Key = tuple[Symbol, tuple[object, ...]]  # a read: its tensor and subscripts


@dataclass(frozen=True, slots=True)
class Need:
    """What an operation asks of a tensor that it reads: one of some layouts. `why` says of axes of the mesh along which it must be
    whole what stands against a split."""

    key: Key
    accepts: tuple[Layout, ...]
    why: tuple[tuple[str, str], ...] = ()

    @property
    def tensor(self) -> Symbol:
        return self.key[0]


@dataclass(frozen=True, slots=True)
class Strategy:
    """One way. `joined` is the cut of a reduced axis, or of a scan's, after which the devices' values are combined at once."""

    cuts: tuple[Cut, ...]
    layout: Layout  # of the results
    needs: tuple[Need, ...]
    passed: tuple[str, ...] = ()
    joined: Cut | None = None


def strategies(
    op: Compute | Scan, values: Mapping[Symbol, Value], grid: Grid, partial: Mapping[Symbol, frozenset[str]]
) -> tuple[Strategy, ...]:
    """Every legal way. `partial` says of tensors over which axes they are there as sums that are yet to be combined."""
    choices: list[list[Cut | str | None]] = []
    for mesh in grid.names:
        legal: list[Cut | str | None] = []
        for axis in all_axes(op):
            found = cut(axis, mesh, grid)
            if found is not None and _may_cut(op, axis, found):
                legal.append(found)
        if _passes(op, grid, frozenset(t for t, axes in partial.items() if mesh in axes)):
            legal.append(mesh)
        choices.append([*legal, None])
    cached: dict[tuple[Key, int, Cut], Reach | None] = {}
    found_all = []
    for chosen in product(*choices):
        cuts = tuple(c for c in chosen if isinstance(c, Cut))
        if len({c.axis for c in cuts}) == len(cuts):
            passed = tuple(c for c in chosen if isinstance(c, str))
            found_all.append(strategy_of(op, cuts, passed, values, grid, partial, cached))
    return tuple(found_all)


def strategy_of(
    op: Compute | Scan,
    cuts: tuple[Cut, ...],
    passed: tuple[str, ...],
    values: Mapping[Symbol, Value],
    grid: Grid,
    partial: Mapping[Symbol, frozenset[str]],
    cached: dict[tuple[Key, int, Cut], Reach | None],
) -> Strategy:
    by_axis = {c.axis: c for c in cuts}
    splits = tuple(Split(by_axis[a.symbol].mesh) if a.symbol in by_axis else None for a in op.axes)
    inner = [by_axis[a.symbol] for a in reduced(op) if a.symbol in by_axis]
    joined = next((c for c in inner if isinstance(op, Scan) or kind_of(op) not in REDUCED), None)
    combining = {c.mesh: kind_of(op) for c in inner if c is not joined} | dict.fromkeys(passed, "sum")
    layout = Layout(splits, tuple((m, combining[m]) for m in grid.names if m in combining))
    return Strategy(cuts, layout, needs(op, cuts, passed, values, grid, partial, cached), passed, joined)


def reduced(op: Compute | Scan) -> tuple[Axis, ...]:
    """The axes along which an operation combines values."""
    if isinstance(op, Scan):
        return op.axes[-1:]
    return op.reduction.axes if op.reduction is not None else ()


def kind_of(op: Compute | Scan) -> str:
    if isinstance(op, Scan):
        return op.monoid.kind
    assert op.reduction is not None
    return op.reduction.monoid.kind


def narrow(op: Compute | Scan) -> bool:
    """Whether sums accumulate in another element type than they give."""
    return kind_of(op) in ("sum", "prod") and op.outs[0].element.accumulator is not op.outs[0].element


def _may_cut(op: Compute | Scan, axis: Axis, found: Cut) -> bool:
    if not axis.extent.variables.isdisjoint(a.symbol for a in all_axes(op)):
        return False
    monoid = op.monoid if isinstance(op, Scan) else op.reduction.monoid if op.reduction is not None else None
    if axis not in reduced(op):  # behind the end nothing is evaluated, which of units cannot be said
        return not (found.beyond and monoid is not None and any(isinstance(n, Read) for u in monoid.units for n in nodes(u)))
    if isinstance(op, Scan):
        return not found.beyond and not narrow(op)
    assert op.reduction is not None
    complete = op.reduction.where is None and not found.beyond  # every device has something to reduce
    kind = op.reduction.monoid.kind
    if kind not in REDUCED:
        return complete and axis == op.reduction.axes[0]
    return complete or kind not in ("max", "min") or op.outs[0].element.is_float


# ── what is read ────────────────────────────────────────────────────────────────────────────────────────────────────────


def key_of(read: Read) -> Key:
    return read.tensor, tuple(read.subscripts)


def needs(
    op: Compute | Scan,
    cuts: tuple[Cut, ...],
    passed: tuple[str, ...],
    values: Mapping[Symbol, Value],
    grid: Grid,
    partial: Mapping[Symbol, frozenset[str]],
    cached: dict[tuple[Key, int, Cut], Reach | None],
) -> tuple[Need, ...]:
    moved = shifted(cuts)
    extents = local_extents(op, cuts, moved)
    found: dict[Key, Read] = {}
    guards: dict[Key, frozenset[Residue]] = {}
    axes = frozenset(extents) - {c.axis for c in cuts}
    for read, held in (pair for s in scalars(op) for pair in _guarded(s, axes)):
        found.setdefault(key_of(read), read)
        guards[key_of(read)] = guards.get(key_of(read), held) & held
    reaches: dict[tuple[Key, str], list[tuple[int, Reach]]] = {}
    borders: dict[tuple[Symbol, str, int], Split] = {}
    for key, read in found.items():
        value = values[read.tensor]
        for c in cuts:
            matched = []
            for d, subscript in enumerate(read.subscripts):
                at = _reach(key, d, c, subscript, value.shape[d], grid, moved, extents, cached, cuts, guards[key])
                if at is not None and (at.inside or read.checked is None):
                    matched.append((d, at))
                    split = borders.get((read.tensor, c.mesh, d), Split(c.mesh))
                    left, right = _widest(split.left, at.left), _widest(split.right, at.right)
                    borders[read.tensor, c.mesh, d] = Split(c.mesh, left, right, split.around or at.around)
            reaches[key, c.mesh] = matched
    made = []
    for key, read in found.items():
        rank = len(values[read.tensor].shape)
        alternatives: list[list[tuple[int, Split] | str | None]] = []
        why = []
        for mesh in grid.names:
            if mesh in passed and mesh in partial.get(read.tensor, ()):
                alternatives.append([mesh])
                continue
            matched = reaches.get((key, mesh), [])
            ways: list[tuple[int, Split] | str | None] = []
            for d, at in matched:
                if at.inside:
                    ways.append((d, Split(mesh)))
                border = borders[read.tensor, mesh, d]
                alike = at.around or not border.around or not _unwinds(read, d, values)
                if alike and (border.left, border.right) != (ZERO, ZERO):
                    ways.append((d, border))
            alternatives.append([*ways, None])
            if not matched:
                why.append((mesh, _why(op, read, mesh, cuts)))
        layouts = []
        for chosen in product(*alternatives):
            layout: list[Split | None] = [None] * rank
            places = [c for c in chosen if isinstance(c, tuple)]
            for d, split in places:
                layout[d] = split
            if len({d for d, _ in places}) == len(places):
                layouts.append(Layout(tuple(layout), tuple((c, "sum") for c in chosen if isinstance(c, str))))
        made.append(Need(key, tuple(layouts), tuple(why)))
    return tuple(made)


def local_extents(op: Compute | Scan, cuts: Sequence[Cut], moved: Mapping[Symbol, Dim]) -> dict[Symbol, Dim]:
    """The extents of an operation's axes on a device."""
    blocks = {c.axis: c.block for c in cuts}
    return {a.symbol: blocks.get(a.symbol, a.extent.substitute(moved)) for a in all_axes(op)}


def _reach(
    key: Key,
    d: int,
    c: Cut,
    subscript: Dim | Scalar,
    extent: Dim,
    grid: Grid,
    moved: Mapping[Symbol, Dim],
    extents: Mapping[Symbol, Dim],
    cached: dict[tuple[Key, int, Cut], Reach | None],
    cuts: tuple[Cut, ...],
    guards: frozenset[Residue],
) -> Reach | None:
    if not isinstance(subscript, Dim) or c.axis not in subscript.variables:
        return None
    seen = subscript.variables.union(*(extents[axis].variables for axis in subscript.variables if axis in extents))
    alone = sum(other.axis in seen for other in cuts) == 1  # then the other cuts change nothing
    if not alone or (key, d, c) not in cached:
        cached[key, d, c] = reach(subscript, extent, c.mesh, grid, moved, extents, sorted(guards, key=lambda r: r.axis.id))
    return cached[key, d, c]


def _guarded(
    scalar: Scalar, axes: frozenset[Symbol], held: frozenset[Residue] = frozenset()
) -> Iterator[tuple[Read, frozenset[Residue]]]:
    """The reads of an expression, each with what holds of axes wherever it is evaluated."""
    if isinstance(scalar, Read):
        yield scalar, held
    if isinstance(scalar, Select) and (found := _residue(scalar.condition, axes)) is not None:
        yield from _guarded(scalar.condition, axes, held)
        yield from _guarded(scalar.then, axes, held | {found})
        other = {Residue(found.axis, 2, 1 - found.rest)} if found.step == 2 else set()
        yield from _guarded(scalar.otherwise, axes, held | other)
        return
    for child in children(scalar):
        yield from _guarded(child, axes, held)


def _residue(condition: Scalar, axes: frozenset[Symbol]) -> Residue | None:
    """What `i % k = r` says."""
    match condition:
        case Binary(op="eq", left=Index(dim=dim), right=Const(value=int() as rest) | Index(dim=Dim(constant=int() as rest))):
            quotients = [a for a in dim.atoms if isinstance(a, Quotient)]
            if len(quotients) == 1 and (axis := quotients[0].dividend.symbol) in axes and axis is not None:
                step = quotients[0].divisor.constant
                if step is not None and dim == Dim.of(axis) % step and 0 <= rest < step:
                    return Residue(axis, step, rest)
    return None


def _unwinds(read: Read, d: int, values: Mapping[Symbol, Value]) -> bool:
    subscript = read.subscripts[d]
    return isinstance(subscript, Dim) and unwound(subscript, values[read.tensor].shape[d]) is not None


def _widest(a: Dim, b: Dim) -> Dim:
    return b if a == ZERO else a if b == ZERO else maximum(a, b)


def _why(op: Compute | Scan, read: Read, mesh: str, cuts: Sequence[Cut]) -> str:
    """Why a read needs all that lies along an axis of the mesh, in words."""
    name = op.outs[0].symbol.name
    mine = next((c for c in cuts if c.mesh == mesh), None)
    if any(not isinstance(s, Dim) for s in read.subscripts):
        return f"`{name}` reads `{read.tensor.name}` at indices that data decide"
    if mine is None:
        return f"`{name}` is not split over {mesh}, and reads all of `{read.tensor.name}`"
    return f"`{name}` is split along `{mine.axis.name}`, and each device reads more of `{read.tensor.name}` than its block"


# ── what may stay partial ───────────────────────────────────────────────────────────────────────────────────────────────


def _passes(op: Compute | Scan, grid: Grid, partial: frozenset[Symbol]) -> bool:
    """Whether an operation of sums that are yet to be combined, and of other values, is the combination of it of each part."""
    if not isinstance(op, Compute) or (op.reduction is not None and op.reduction.monoid.kind != "sum") or len(op.outs) != 1:
        return False
    out = op.outs[0]
    if held_as(out.element, Layout((None,) * len(out.shape), tuple((m, "sum") for m in grid.names)), grid) is not out.element:
        return False  # what is partial is of another element type than the operation computes with
    if op.reduction is not None and any(not free_of(c, partial) for c in _conditions(op.reduction)):
        return False
    return not free_of(op.body[0], partial) and linear(op.body[0], partial)


def _conditions(reduction: Reduction) -> Iterator[Scalar]:
    return (c for c in (reduction.where, reduction.asked) if c is not None)


def free_of(scalar: Scalar, tensors: frozenset[Symbol]) -> bool:
    return not any(isinstance(n, Read) and n.tensor in tensors for n in nodes(scalar))


def linear(scalar: Scalar, tensors: frozenset[Symbol]) -> bool:
    """Whether an expression is linear in the elements of some tensors, without a term that has none of them."""
    match scalar:
        case Read(tensor=tensor, padding=padding):
            inside = all(isinstance(s, Dim) or free_of(s, tensors) for s in scalar.subscripts)
            return tensor in tensors and inside and (padding is None or linear(padding, tensors))
        case Const(value=value):
            return value == 0
        case Unary(op="neg", operand=operand):
            return linear(operand, tensors)
        case Binary(op="add" | "sub", left=left, right=right):
            return linear(left, tensors) and linear(right, tensors)
        case Binary(op="mul", left=left, right=right):
            return (linear(left, tensors) and free_of(right, tensors)) or (free_of(left, tensors) and linear(right, tensors))
        case Select(condition=condition, then=then, otherwise=otherwise):
            return free_of(condition, tensors) and linear(then, tensors) and linear(otherwise, tensors)
        case _:
            return False


# ── other operations ────────────────────────────────────────────────────────────────────────────────────────────────────


def of_sort(op: Sort, values: Mapping[Symbol, Value], grid: Grid) -> tuple[Strategy, ...]:
    """A sort of rows is shared by rows; along a row every device needs all of it."""
    shape = values[op.input].shape
    choices = [[*(d for d in range(len(shape) - 1) if grid.block(shape[d], m) is not None), None] for m in grid.names]
    found = []
    for chosen in product(*choices):
        places = [d for d in chosen if d is not None]
        if len(set(places)) < len(places):
            continue
        splits = {d: Split(m) for d, m in zip(chosen, grid.names, strict=True) if d is not None}
        layout = Layout(tuple(splits.get(d) for d in range(len(shape))))
        why = tuple(
            (m, f"`{op.values.symbol.name}` sorts along the split dimension")
            for m, d in zip(grid.names, chosen, strict=True)
            if d is None
        )
        found.append(Strategy((), layout, (Need((op.input, ()), (layout,), why),)))
    return tuple(found)


def all_of(tensor: Symbol, rank: int, reason: str, grid: Grid) -> Need:
    """The need of an operation that looks at everything."""
    return Need((tensor, ()), (whole(rank),), tuple((m, reason) for m in grid.names))
