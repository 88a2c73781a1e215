"""Core -> core: what has a row and a column of one mesh axis, as the scores of attention, in loops over blocks of the columns.

    max j => s[i, j]                              n = max r => s[i, r];  m' = max (m, n)
    sum j => exp (s[i, j] - m[i])                 l' = l * exp (m - m') + exp (n - m') * sum r => exp (s[i, r] - n[i])
    sum j => exp (s[i, j] - m[i]) / l[i] * v[j]   o' likewise of sum r => exp (s[i, r] - n[i]) * v[r], at the end o / l
    sum i => e[i, j]                              block t of the columns gets sum i => e[i, r]

Values with both indices are computed again in each loop, block by block, and nobody holds a row of them. Reductions that need
others whole stand in loops of their own, but for those by which they are only scaled: factors `exp (… - m)` of a maximum and
`1 / l` of a sum, found in the expressions (the online softmax). Nothing here knows of attention. A loop is an ordinary one;
`ring` beside this says how devices share it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Loop,
    Op,
    Read,
    Scalar,
    Select,
    Unary,
    Value,
    identity,
)
from axon.core.scalar_facts import above_0, freshened, mapped, substitute
from axon.core.sharding.access import Grid, extremes
from axon.core.sharding.scaling import Weights, masks, scaled, vanishes
from axon.core.walk import all_axes, converted, needs_of, nodes, outs_of, rewrite, scalars, tensors_of, widened
from axon.shapes.algebra.prove import nonnegative
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

Places: TypeAlias = "dict[Symbol, tuple[int, int]]"  # of values with a row and a column, which dimensions these are


@dataclass(frozen=True, slots=True)
class Blocked:
    """What is known of a loop over blocks, by its counter. `rows` are the indices of rows in its body. Of each state, `columns` is
    the dimension that lies in blocks of columns; of others None. With `mask`, over `row` and `column`, a block adds nothing where
    it is below 0 throughout."""

    axis: str
    rows: frozenset[Symbol]
    columns: tuple[int | None, ...]
    extents: tuple[Dim, Dim]
    mask: Dim | None
    row: Symbol
    column: Symbol


def blocked(block: Block, grid: Grid, axis: str) -> tuple[Block, dict[Symbol, Blocked]]:
    """The block, and those inside its loops, with such loops; and of each of them what is known, by its counter."""
    made: dict[Symbol, Blocked] = {}
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, Loop):
            body, inner = blocked(op.body, grid, axis)
            made |= inner
            op = replace(op, body=body)
        ops.append(op)
    whole = Block(tuple(ops), block.results)
    places = _places(whole, grid, axis)
    if not places:
        return whole, made
    schedule = _Schedule(whole, grid, axis, places)
    found = schedule.run()
    return (whole, made) if not schedule.made else (found, made | schedule.made)


# ── which values have a row and a column ────────────────────────────────────────────────────────────────────────────────


def _places(block: Block, grid: Grid, axis: str) -> Places:
    """The values with two dimensions over the axis that only operations read which keep both, or reduce one of them, all of it."""
    refused = set(block.results)
    shapes = {out.symbol: out.shape for op in block.ops for out in outs_of(op)}
    while True:
        found: Places = {}
        more: set[Symbol] = set()
        for op in block.ops:
            mine = tensors_of(op) & found.keys()
            pair = pair_of(op, found) if isinstance(op, Compute) and len(op.outs) == 1 else None
            if pair is not None and isinstance(op, Compute) and not _whole(op, pair, found, shapes):
                pair = None
            if mine and (pair is None or not isinstance(op, Compute)):
                more |= mine
            elif isinstance(op, Compute) and len(op.outs) == 1:
                names = [a.symbol for a in op.axes]
                if pair is None:
                    both = [d for d, a in enumerate(op.axes) if grid.exact(a.extent, axis)]
                    if len(both) == 2 and op.outs[0].symbol not in refused:
                        found[op.outs[0].symbol] = (both[0], both[1])
                elif pair[0] in names and pair[1] in names and op.outs[0].symbol not in refused:
                    found[op.outs[0].symbol] = (names.index(pair[0]), names.index(pair[1]))
                elif not is_reduction(op, pair):
                    more |= mine
        if more <= refused:
            return found
        refused |= more


def pair_of(op: Compute, places: Places) -> tuple[Symbol, Symbol] | None:
    """The row and the column of an operation, as what it reads has them."""
    own = {a.symbol for a in all_axes(op)}
    pairs = set()
    for read in reads_of(op):
        if read.tensor in places:
            pair = tuple(s.symbol if isinstance(s, Dim) else None for s in (read.subscripts[d] for d in places[read.tensor]))
            pairs.add(pair)
    if len(pairs) != 1:
        return None
    ((row, column),) = pairs
    return (row, column) if row in own and column in own and row is not None and column is not None else None


def _whole(op: Compute, pair: tuple[Symbol, Symbol], places: Places, shapes: Mapping[Symbol, tuple[Dim, ...]]) -> bool:
    """Whether an operation's rows and columns are all that the values have which it reads: blocks of fewer would not be theirs."""
    extents = {a.symbol: a.extent for a in all_axes(op)}
    mine = [(shapes[s][row], shapes[s][column]) for s, (row, column) in places.items() if s in tensors_of(op)]
    return all(each == (extents[pair[0]], extents[pair[1]]) for each in mine)


def is_reduction(op: Compute, pair: tuple[Symbol, Symbol]) -> bool:
    """Whether it reduces rows or columns, one of them, by a sum or a maximum of floats."""
    if op.reduction is None or op.reduction.asked is not None or not op.outs[0].element.is_float:
        return False
    kind, names = op.reduction.monoid.kind, {a.symbol for a in op.axes}
    if pair[0] in names:
        return kind in ("sum", "max") and pair[1] not in names
    return kind == "sum" and pair[1] in names


def reads_of(op: Compute) -> Iterator[Read]:
    return (n for s in scalars(op) for n in nodes(s) if isinstance(n, Read))


# ── which reductions share a loop ───────────────────────────────────────────────────────────────────────────────────────


class _Schedule:
    """Operations in order, but what needs a loop's results waits until it is closed."""

    def __init__(self, block: Block, grid: Grid, axis: str, places: Places) -> None:
        self.block, self.grid, self.axis, self.places = block, grid, axis, places
        self.inner = {op.outs[0].symbol: op for op in block.ops if isinstance(op, Compute) and op.outs[0].symbol in places}
        self.made: dict[Symbol, Blocked] = {}
        self.ops: list[Op] = []
        self.open: list[tuple[Compute, Weights]] = []
        self.waiting: list[Op] = []
        self.later: set[Symbol] = set()  # what is not there yet

    def run(self) -> Block:
        for op in self.block.ops:
            if isinstance(op, Compute) and op.outs[0].symbol in self.places:
                continue
            if isinstance(op, Compute) and any(r.tensor in self.places for r in reads_of(op)):
                self._reduction(op)
            elif needs_of(op).isdisjoint(self.later):
                self.ops.append(op)
            else:
                self._wait(op)
        self._close()
        return Block(tuple(self.ops), self.block.results)

    def _wait(self, op: Op) -> None:
        self.waiting.append(op)
        self.later |= {out.symbol for out in outs_of(op)}
        if isinstance(op, Compress):
            self.later.add(op.size)

    def _reduction(self, op: Compute) -> None:
        weights: Weights | None = {}
        needed = self._needed(op) & self.later
        if self.open and self.extents(op) != self.extents(self.open[0][0]):
            weights = None
        elif needed:
            reductions = [(o.outs[0].symbol, o.reduction) for o, _ in self.open]
            kinds = {s: r.monoid.kind for s, r in reductions if r is not None and r.where is None}
            row, _ = self.pair(op)
            rows = row in {a.symbol for a in op.axes}
            weights = scaled(op, self.inner, kinds) if rows and needed <= kinds.keys() else None
        if weights is None:
            self._close()
            weights = {}
        self.open.append((op, weights))
        self.later |= {out.symbol for out in op.outs}

    def _needed(self, op: Compute) -> frozenset[Symbol]:
        """What an operation names, also through values that are computed in the loop."""
        names = needs_of(op)
        return names.union(*(self._needed(self.inner[s]) for s in names if s in self.inner))

    def pair(self, op: Compute) -> tuple[Symbol, Symbol]:
        if op.outs[0].symbol in self.places:
            row, column = self.places[op.outs[0].symbol]
            return op.axes[row].symbol, op.axes[column].symbol
        found = pair_of(op, self.places)
        assert found is not None
        return found

    def extents(self, op: Compute) -> tuple[Dim, Dim]:
        extents = {a.symbol: a.extent for a in all_axes(op)}
        row, column = self.pair(op)
        return extents[row], extents[column]

    def _close(self) -> None:
        if self.open:
            ops, counter, known = _Builder(self).loop()
            self.ops += ops
            self.made[counter] = known
        self.ops += self.waiting
        self.open, self.waiting, self.later = [], [], set()


# ── one loop ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Builder:
    """Makes the loop of the reductions that are open."""

    def __init__(self, schedule: _Schedule) -> None:
        self.schedule, self.grid, self.axis = schedule, schedule.grid, schedule.axis
        self.counter = fresh("block")
        self.extents = schedule.extents(schedule.open[0][0])
        block = self.grid.block(self.extents[1], self.axis)
        assert block is not None
        self.size = block
        self.rows: set[Symbol] = set()
        self.body: list[Op] = []
        self.copies: dict[Symbol, Symbol] = {}  # of values with a row and a column
        self.running: dict[Symbol, Value] = {}  # maxima of the block alone
        self.factors: dict[Symbol, tuple[Value, Value]] = {}  # of sums that a maximum scaled before, and of the block's
        self.sums: set[Symbol] = set()

    def loop(self) -> tuple[list[Op], Symbol, Blocked]:
        before: list[Op] = []
        after: list[Op] = []
        states: list[Value] = []
        nexts: list[Symbol] = []
        outs: list[Value] = []
        columns: list[int | None] = []
        for op, weights in self.schedule.open:
            own, kind = op.outs[0], op.reduction.monoid.kind if op.reduction is not None else ""
            element = own.element.accumulator if kind == "sum" else own.element
            state = Value(fresh(own.symbol.name), element, own.shape)
            start = _filled(state, float(identity(kind, element)))
            before.append(start)
            states.append(state)
            row, column = self.schedule.pair(op)
            names = [a.symbol for a in op.axes]
            columns.append(names.index(column) if column in names else None)
            part = self._copy(op, element)
            if columns[-1] is not None:
                nexts.append(self._placed(state, part, columns[-1]))
            elif kind == "max":
                nexts.append(self._greater(op, state, part))
            else:
                nexts.append(self._added(op, state, part, weights, row))
                self.sums.add(own.symbol)
            if element is own.element and not weights:
                outs.append(own)
            else:
                outs.append(Value(fresh(own.symbol.name), element, own.shape))
                after.append(self._finished(op, outs[-1], weights))
        initial = tuple(start.outs[0].symbol for start in before if isinstance(start, Compute))
        trip = Index(Dim.of(self.grid.devices(self.axis)))
        body = Block(tuple(self.body), tuple(nexts))
        made = Loop(tuple(outs), initial, tuple(states), self.counter, trip, body, stacked=False, span=op.span)
        row, column = fresh("row"), fresh("column")
        mask = self._mask(row, column)
        known = Blocked(self.axis, frozenset(self.rows), tuple(columns), self.extents, mask, row, column)
        return [*before, made, *after], self.counter, known

    def _copy(self, op: Compute, element: Element) -> Value:
        """An operation for a block of columns, behind what it reads; what it gives."""
        for read in reads_of(op):
            if read.tensor in self.schedule.inner and read.tensor not in self.copies:
                below = self.schedule.inner[read.tensor]
                self.copies[read.tensor] = self._copy(below, below.outs[0].element).symbol
        row, column = self.schedule.pair(op)
        names = {a.symbol: fresh(a.symbol.name) for a in all_axes(op)}
        own = names.pop(column)
        self.rows.add(names[row])
        dims = {old: Dim.of(new) for old, new in names.items()} | {column: self.size * self.counter + own}

        def change(scalar: Scalar) -> Scalar:
            return substitute(freshened(rewrite(scalar, lambda node: self._read(node, own))), dims)

        def axis(a: Axis) -> Axis:
            return Axis(own, self.size) if a.symbol == column else Axis(names[a.symbol], a.extent.substitute(dims))

        copy = mapped(op, change)
        assert isinstance(copy, Compute)
        if element is not op.outs[0].element:
            copy = replace(copy, body=tuple(map(widened, copy.body)))
        axes = tuple(map(axis, op.axes))
        if copy.reduction is not None:
            copy = replace(copy, reduction=replace(copy.reduction, axes=tuple(map(axis, copy.reduction.axes))))
        out = Value(fresh(op.outs[0].symbol.name), element, tuple(a.extent for a in axes))
        self.body.append(replace(copy, outs=(out,), axes=axes))
        return out

    def _read(self, node: Scalar, column: Symbol) -> Scalar | None:
        if not isinstance(node, Read):
            return None
        if node.tensor in self.copies:
            at = self.schedule.places[node.tensor][1]
            subscripts = (*node.subscripts[:at], Dim.of(column), *node.subscripts[at + 1 :])
            return replace(node, tensor=self.copies[node.tensor], subscripts=subscripts)
        if node.tensor in self.running:
            return replace(node, tensor=self.running[node.tensor].symbol)
        return Const(1.0, node.element) if node.tensor in self.sums else None

    def _pointwise(self, like: Value, body: Sequence[Scalar], axes: tuple[Axis, ...], row: int | None) -> Value:
        out = Value(fresh(like.symbol.name), like.element, like.shape)
        if row is not None:
            self.rows.add(axes[row].symbol)
        self.body.append(Compute((out,), axes, None, tuple(body)))
        return out

    def _row(self, op: Compute) -> int:
        return [a.symbol for a in op.axes].index(self.schedule.pair(op)[0])

    def _greater(self, op: Compute, state: Value, part: Value) -> Symbol:
        """The next of a running maximum. The block reads its own, so that it is a program without the loop, which a backend knows
        as it knows the whole; where that is -inf, it is subtracted from -inf alone, so any finite number will do. Sums that the
        maximum before scaled, or the block's, are multiplied by what makes of it the next."""
        row, least = self._row(op), Const(float("-inf"), state.element)
        wide = replace(state, element=state.element.accumulator)

        def pair(a: Value, b: Value, body: str) -> Value:
            axes = _axes(state)
            old, new = _at(a, axes), _at(b, axes)
            made: Scalar = Binary("max", old, new)
            if body == "used":
                made = Select(Binary("eq", new, least), Const(0.0, state.element), new)
            elif body == "factor":
                apart = Binary("sub", converted(old, wide.element), converted(new, wide.element))
                made = Select(Binary("eq", old, new), Const(1.0, wide.element), Unary("exp", apart))
            return self._pointwise(wide if body == "factor" else state, (made,), axes, row)

        grown = pair(state, part, "greater")
        self.running[op.outs[0].symbol] = pair(part, part, "used")
        self.factors[op.outs[0].symbol] = (pair(state, grown, "factor"), pair(part, grown, "factor"))
        return grown.symbol

    def _added(self, op: Compute, state: Value, part: Value, weights: Weights, row: Symbol) -> Symbol:
        axes = _axes(state)
        dims = {a.symbol: Dim.of(b.symbol) for a, b in zip(op.axes, axes, strict=True)}
        terms: list[Scalar] = [_at(state, axes), _at(part, axes)]
        for (symbol, subscripts), power in weights.items():
            for n, factor in enumerate(self.factors.get(symbol, ())):
                read = Read(factor.symbol, tuple(s.substitute(dims) for s in subscripts), factor.element)
                for _ in range(power):
                    terms[n] = Binary("mul", terms[n], converted(read, state.element))
        return self._pointwise(state, (Binary("add", *terms),), axes, self._row(op)).symbol

    def _placed(self, state: Value, part: Value, column: int) -> Symbol:
        """A block of columns gets its part."""
        axes = _axes(state)
        at = Dim.of(axes[column].symbol)
        inside = [Dim.of(a.symbol) for a in axes]
        inside[column] = at - self.size * self.counter
        old = _at(state, axes)
        here = Binary("eq", Index(at // self.size), Index(Dim.of(self.counter)))
        new = Select(here, Binary("add", old, Read(part.symbol, tuple(inside), part.element)), old)
        return self._pointwise(state, (new,), axes, None).symbol

    def _finished(self, op: Compute, total: Value, weights: Weights) -> Compute:
        """The result of a sum that was not yet divided. Where a maximum is -inf, `exp (… - m)` is NaN."""
        own = op.outs[0]
        axes = _axes(own)
        dims = {a.symbol: Dim.of(b.symbol) for a, b in zip(op.axes, axes, strict=True)}
        body: Scalar = _at(total, axes)
        for (symbol, subscripts), power in weights.items():
            by = next(o.outs[0] for o, _ in self.schedule.open if o.outs[0].symbol == symbol)
            read = Read(symbol, tuple(s.substitute(dims) for s in subscripts), by.element)
            if symbol in self.sums:
                for _ in range(power):
                    body = Binary("div", body, converted(read, total.element))
            else:
                nothing = Binary("eq", read, Const(float("-inf"), by.element))
                asked = Binary("and", above_0(self.extents[1]), nothing)
                body = Select(asked, Const(float("nan"), total.element), body)
        return Compute((own,), axes, None, (body if own.element is total.element else Convert(body, own.element),), op.span)

    def _mask(self, row: Symbol, column: Symbol) -> Dim | None:
        """A condition without which no reduction of the loop gets anything."""
        inner, pairs = self.schedule.inner, {s: self.schedule.pair(op) for s, op in self.schedule.inner.items()}
        for mask in masks(inner, pairs, row, column):
            nothing = (vanishes(op, self.schedule.pair(op), inner, pairs, mask, row, column) for op, _ in self.schedule.open)
            if self._sees(mask, row, column) and all(nothing):
                return mask
        return None

    def _sees(self, mask: Dim, row: Symbol, column: Symbol) -> bool:
        """Whether each row has a column where a mask is at least 0: else it is NaN, and so is what it adds to columns."""
        rows, columns = self.extents
        facts = self.grid.facts.assume(Relation(rows, ">=", Dim.of(1)), Relation(columns, ">=", Dim.of(1)))
        best = extremes(mask, {column: columns}, facts)
        worst = best and extremes(best[1], {row: rows}, facts)
        return worst is not None and nonnegative(facts, worst[0])


def _axes(value: Value) -> tuple[Axis, ...]:
    return tuple(Axis(fresh("i"), extent) for extent in value.shape)


def _at(value: Value, axes: Sequence[Axis]) -> Read:
    return Read(value.symbol, tuple(Dim.of(a.symbol) for a in axes), value.element)


def _filled(like: Value, number: float) -> Compute:
    axes = _axes(like)
    return Compute((Value(fresh(like.symbol.name), like.element, like.shape),), axes, None, (Const(number, like.element),))
