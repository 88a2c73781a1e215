"""How devices share a loop over blocks: each keeps its rows, and the blocks of columns go round.

A loop over blocks (`blocked`) runs over an axis that no mesh has: its coordinate is the loop's counter, the number of a block.
What operations of the body read along that axis lies, on the mesh, over the axis of the rows, so a device has one block of it, and
gets the next one from its neighbour while it computes with this: in step t, the device at c has block (c + t) % p. What is summed
for columns goes with its block, gets a part from each device, and is at home after p steps.

    k, v : blocks of keys and values         shift   1 further, but for the last step
    m, l, o : of the device's own rows       stay
    dk, dv : sums for the block's columns    shift   1 further
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Block, Compute, Index, Loop, Scalar, Value
from axon.core.scalar_facts import mapped, substitute
from axon.core.sharding.access import ZERO, Cut, Grid, cut, extremes, reach, shifted
from axon.core.sharding.blocked import Blocked, reads_of
from axon.core.sharding.ir import Collective, Layout, Repeat, Split
from axon.core.sharding.layouts import local_shape, with_split
from axon.core.sharding.local import Held, Localizer, operation
from axon.core.sharding.strategies import Key, Need, Strategy, local_extents, strategy_of
from axon.core.walk import all_axes, rewrite
from axon.shapes.dimension import Dim, maximum, minimum

Place: TypeAlias = "tuple[Symbol, int]"  # a dimension of a value, or an index, as -1
Versions: TypeAlias = "Mapping[tuple[Symbol, Layout], Value]"


@dataclass(frozen=True, slots=True)
class Break:
    """Between operations that are not of one program: what the later ones read is waited for after the others."""


@dataclass(frozen=True, slots=True)
class Way:
    """One way to share a loop: of each operation of the body how it is shared, and in which layouts it reads. These layouts and
    those of `states` may split over `blocks`, the axis that the loop stands for."""

    grid: Grid  # with that axis
    axis: str
    blocks: str
    strategies: tuple[Strategy, ...]
    reads: tuple[tuple[tuple[Key, Layout], ...], ...]
    states: tuple[Layout, ...]

    def on_mesh(self, layout: Layout) -> Layout:
        """Where a layout's blocks lie."""
        return Layout(tuple(Split(self.axis) if s == Split(self.blocks) else s for s in layout.splits), layout.partial)

    def goes_round(self, layout: Layout) -> bool:
        return layout.dimension(self.blocks) is not None

    def outside(self, op: Loop) -> Iterator[tuple[Symbol, Layout]]:
        """What is read from before the loop, as the body has it."""
        own = {v.symbol for v in op.states} | {out.symbol for o in op.body.ops if isinstance(o, Compute) for out in o.outs}
        yield from dict.fromkeys((key[0], layout) for reads in self.reads for key, layout in reads if key[0] not in own)


def ways(op: Loop, known: Blocked, values: Mapping[Symbol, Value], grid: Grid) -> list[Way]:
    """Every way that is legal: rows over the axis of the columns, over each other one an index of all results, or nothing."""
    blocks = f"{known.axis} blocks"
    mine = next(axis for axis in grid.axes if axis[0] == known.axis)
    wide = replace(grid, axes=(*grid.axes, (blocks, mine[1], op.counter, mine[3])))
    ops = [o for o in op.body.ops if isinstance(o, Compute)]
    everything = {**values, **{v.symbol: v for v in op.states}, **{o.outs[0].symbol: o.outs[0] for o in ops}}
    groups = _groups(op, ops, known)
    others = [name for name in grid.names if name != known.axis]
    choices = [[*(g for g in groups if _may_split(g, ops, name, grid)), frozenset[Symbol]()] for name in others]
    found = []
    for chosen in product(*choices):
        if len({*filter(None, chosen)}) == sum(map(bool, chosen)):
            over = {symbol: name for name, group in zip(others, chosen, strict=True) for symbol in group}
            way = _way(op, ops, known, everything, wide, blocks, over | dict.fromkeys(known.rows, known.axis))
            found += [way] if way is not None else []
    return found


def _way(
    op: Loop,
    ops: Sequence[Compute],
    known: Blocked,
    values: Mapping[Symbol, Value],
    grid: Grid,
    blocks: str,
    over: Mapping[Symbol, str],
) -> Way | None:
    layouts = _states(op, ops, known, over, blocks)
    made = {v.symbol: one for v, one in zip(op.states, layouts, strict=True)}
    placed = {symbol: column for symbol, column in zip(op.body.results, known.columns, strict=True) if column is not None}
    strategies: list[Strategy] = []
    reads = []
    for each in ops:
        out, cuts = each.outs[0], list[Cut]()
        for axis in all_axes(each):
            if axis.symbol in over:
                one = cut(axis, over[axis.symbol], grid)
                if one is None or one.beyond:
                    return None
                cuts.append(one)
        if out.symbol in placed:
            axis = each.axes[placed[out.symbol]]
            block = grid.block(axis.extent, blocks)
            assert block is not None
            cuts.append(Cut(axis.symbol, blocks, block, block * op.counter, axis.extent, False))
        strategy = strategy_of(each, tuple(cuts), (), values, grid, {}, {})
        found = [(need.key, _read(each, need, tuple(cuts), values, made, grid, known.axis, blocks)) for need in strategy.needs]
        if any(layout is None for _, layout in found):
            return None
        strategies.append(strategy)
        reads.append(tuple((key, layout) for key, layout in found if layout is not None))
        made[out.symbol] = replace(strategy.layout, partial=())  # a part of what goes round
    if any(made[symbol] != one for symbol, one in zip(op.body.results, layouts, strict=True)):
        return None
    return Way(grid, known.axis, blocks, tuple(strategies), tuple(reads), layouts)


def _read(
    op: Compute,
    need: Need,
    cuts: tuple[Cut, ...],
    values: Mapping[Symbol, Value],
    made: Mapping[Symbol, Layout],
    grid: Grid,
    axis: str,
    blocks: str,
) -> Layout | None:
    """In which layout a tensor is read: what the body makes as it is, what goes round in blocks, the rest as split as may be."""
    if need.tensor in made:
        return made[need.tensor] if made[need.tensor] in need.accepts else None
    layout = next((one for one in need.accepts if one.plain), None)
    if layout is None or layout.dimension(axis) is not None:
        return layout
    moved, counter = shifted(cuts), grid.coordinate(blocks)
    for d, subscript in enumerate(need.key[1]):
        if isinstance(subscript, Dim) and counter in subscript.variables and layout.splits[d] is None:
            at = reach(subscript, values[need.tensor].shape[d], blocks, grid, moved, local_extents(op, cuts, moved))
            if at is not None and at.inside:
                return with_split(layout, d, Split(blocks))
    return layout


def _states(op: Loop, ops: Sequence[Compute], known: Blocked, over: Mapping[Symbol, str], blocks: str) -> tuple[Layout, ...]:
    by = {o.outs[0].symbol: o for o in ops}
    found = []
    for symbol, column in zip(op.body.results, known.columns, strict=True):
        axes = by[symbol].axes
        splits = [blocks if d == column else over.get(a.symbol) for d, a in enumerate(axes)]
        found.append(Layout(tuple(None if name is None else Split(name) for name in splits)))
    return tuple(found)


# ── indices that are one ────────────────────────────────────────────────────────────────────────────────────────────────


def _groups(op: Loop, ops: Sequence[Compute], known: Blocked) -> list[frozenset[Symbol]]:
    """The axes of the body that are one index, read as such everywhere: those of which every result has one."""
    parent: dict[Place, Place] = {}

    def root(x: Place) -> Place:
        while parent.get(x, x) != x:
            x = parent[x]
        return x

    inner = {v.symbol for v in op.states} | {o.outs[0].symbol for o in ops}
    for o in ops:
        own = {a.symbol for a in all_axes(o)}
        for d, a in enumerate(o.axes):
            parent[root((o.outs[0].symbol, d))] = root((a.symbol, -1))
        for read in reads_of(o):
            for d, s in enumerate(read.subscripts):
                if read.tensor in inner and isinstance(s, Dim) and s.symbol is not None and s.symbol in own:
                    parent[root((read.tensor, d))] = root((s.symbol, -1))
    for value, symbol in zip(op.states, op.body.results, strict=True):
        for d in range(len(value.shape)):
            parent[root((value.symbol, d))] = root((symbol, d))
    groups: dict[Place, set[Symbol]] = {}
    for a in (a for o in ops for a in all_axes(o)):
        groups.setdefault(root((a.symbol, -1)), set()).add(a.symbol)
    everywhere = [{root((v.symbol, d)) for d in range(len(v.shape))} for v in op.states]
    kept = [place for place in groups if all(place in each for each in everywhere)]
    return [frozenset(groups[place]) for place in kept if groups[place].isdisjoint(known.rows)]


def _may_split(group: frozenset[Symbol], ops: Sequence[Compute], axis: str, grid: Grid) -> bool:
    reduced = {a.symbol for o in ops if o.reduction is not None for a in o.reduction.axes}
    return group.isdisjoint(reduced) and all(grid.exact(a.extent, axis) for o in ops for a in o.axes if a.symbol in group)


# ── as steps ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def ring(
    op: Loop, known: Blocked, way: Way, values: Mapping[Symbol, Value], versions: Versions, outs: Sequence[Value]
) -> tuple[Repeat, list[Compute | Loop | Collective]]:
    """The loop as one of steps in which blocks go round, and the body's steps. `versions` are values from before it, on the mesh;
    `outs` its results there."""
    grid, p, here, step = way.grid, way.grid.devices(way.axis), way.grid.coordinate(way.axis), fresh("step")
    at = (Dim.of(here) + step) % p  # the block that a device has
    rest = minimum(1, p - 1 - Dim.of(step))  # there is a next step
    reason = f"blocks of `{{}}` go round the {p} devices of {way.axis}, each of which computes with one while the next is under way"
    raw: list[Compute | Loop | Collective] = []
    held: dict[tuple[Symbol, Layout], Held] = {}
    initial: list[Symbol] = []
    states: list[Value] = []
    results: list[Symbol] = []
    gone: list[Value] = []  # what went round, at the end
    for symbol, layout in way.outside(op):
        before = versions[symbol, way.on_mesh(layout)]
        if way.goes_round(layout):
            state, moved, last = (replace(before, symbol=fresh(symbol.name)) for _ in range(3))
            why = reason.format(symbol.name)
            raw.append(Collective("shift", way.axis, state.symbol, moved, left=rest, reason=why, span=op.span))
            initial.append(before.symbol)
            states.append(state)
            results.append(moved.symbol)
            gone.append(last)
            before = state
        held[symbol, layout] = Held(values[symbol], layout, before)
    shapes = [local_shape(v.shape, one, grid) for v, one in zip(op.states, way.states, strict=True)]
    own = [Value(fresh(v.symbol.name), v.element, shape) for v, shape in zip(op.states, shapes, strict=True)]
    ops, nexts = loop_body(op, way, held, values, [replace(v, symbol=fresh(v.symbol.name)) for v in own], {op.counter: at})
    trip = needed(known, way, op.counter)
    inside = [v for v, _ in nexts]
    ended = tuple(replace(v, symbol=fresh(v.symbol.name)) for v in own)
    count = Index(Dim.of(1) if trip is None else trip.substitute({op.counter: at}))
    body = Block(tuple(ops), tuple(symbol for _, symbol in nexts))
    raw.append(Loop(ended, tuple(v.symbol for v in own), tuple(inside), fresh("once"), count, body, stacked=False, span=op.span))
    for v, symbol, one, new in zip(own, op.initial, way.states, ended, strict=True):
        initial.append(versions[symbol, way.on_mesh(one)].symbol)
        states.append(v)
        if way.goes_round(one):
            moved = replace(v, symbol=fresh(v.symbol.name))
            why = f"what is summed for a block of `{v.symbol.name}` goes round the {p} devices of {way.axis} with it"
            raw.append(Collective("shift", way.axis, new.symbol, moved, left=Dim.of(1), reason=why, span=op.span))
            new = moved
        results.append(new.symbol)
    made = (*gone, *outs)
    return Repeat(made, tuple(initial), tuple(states), step, Dim.of(p), (), tuple(results), False, False, op.span), raw


def loop_body(
    op: Loop,
    way: Way,
    held: Mapping[tuple[Symbol, Layout], Held],
    values: Mapping[Symbol, Value],
    states: Sequence[Value],
    at: Mapping[Symbol, Dim],
) -> tuple[list[Compute], list[tuple[Value, Symbol]]]:
    """The body's operations over blocks, with sizes substituted; of each state, as they read it, what it becomes.

    Where an index is a number, as in a mask, a place on the axis is written so that it is seen to be one of few: `min c (p - 1)`.
    Else `c * s` might be any product of two sizes, and a backend would not know which columns a tile of rows sees.
    """
    most = Dim.of(way.grid.devices(way.axis) - 1)
    places = {way.grid.coordinate(way.axis)}.union(*(dim.variables for dim in at.values()))
    few = {place: minimum(Dim.of(place), most) for place in places}

    def numbered(node: Scalar) -> Scalar | None:
        return replace(node, dim=node.dim.substitute(few)) if isinstance(node, Index) else None

    inner = {v.symbol: Held(v, one, local) for v, one, local in zip(op.states, way.states, states, strict=True)}
    made: list[Compute] = []
    ops = [o for o in op.body.ops if isinstance(o, Compute)]
    for each, strategy, reads in zip(ops, way.strategies, way.reads, strict=True):
        mine = {key: inner.get(key[0]) or held[key[0], layout] for key, layout in reads}
        whole, layout = each.outs[0], replace(strategy.layout, partial=())
        out = Value(fresh(whole.symbol.name), whole.element, local_shape(whole.shape, layout, way.grid))
        inner[whole.symbol] = Held(whole, layout, out)
        found = mapped(operation(each, (out,), Localizer(strategy, mine, way.grid)), lambda s: rewrite(substitute(s, at), numbered))
        assert isinstance(found, Compute)
        made.append(_ends_at(found, at))
    return made, [(local, inner[symbol].local.symbol) for local, symbol in zip(states, op.body.results, strict=True)]


def _ends_at(op: Compute, at: Mapping[Symbol, Dim]) -> Compute:
    """An operation of which ranges may end at a column, where that is."""
    if op.reduction is None:
        return op
    axes = tuple(replace(a, extent=a.extent.substitute(at)) for a in op.reduction.axes)
    return replace(op, reduction=replace(op.reduction, axes=axes))


def needed(known: Blocked, way: Way, counter: Symbol, begin: Dim = ZERO, extent: Dim | None = None) -> Dim | None:
    """1 where any row of a device, or of a part of them, looks at any column of a block, else 0; None where that is not known."""
    sizes = [way.grid.block(size, way.axis) for size in known.extents]
    if known.mask is None or None in sizes:
        return None
    rows, columns = (size for size in sizes if size is not None)
    first = rows * way.grid.coordinate(way.axis) + begin
    begins = {known.row: first + known.row, known.column: columns * counter + known.column}
    many = {known.row: rows if extent is None else extent, known.column: columns}
    ends = extremes(known.mask.substitute(begins), many, way.grid.facts)
    return None if ends is None else minimum(1, maximum(ends[1] + 1, ZERO))
