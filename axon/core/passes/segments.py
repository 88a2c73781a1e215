"""Core to core: scatters as sums over segments of sorted indices, for machines on which threads cannot share accumulators.

    scatters    the scatters of a program that can be made so, each with what decides whether that is worth it
    segmented   a program -> one with the same results, in which the chosen scatters are made so

Note [Segments]
    `y[b, d] = sum i where ids[i] = b => x[i, d]` asks of every i for every b. Sorted, the indices of one place lie side by side:

      keys[t]      = ids[t], or the number of places if that is none                       (where a further condition holds)
      order, from  = sort keys
      start[b]     = how many keys are less than b, by bisection
      part[q, d]   = the sum of x[from[t], d] over the q-th CHUNK positions, if all of these have one place
      more[q, d]   = the sum of part[r, d] over the q-th CHUNK of these, likewise
      y[b, d]      = the sum over start[b] <= t < start[b + 1]: where these are whole chunks of chunks, or chunks, of their sums

    So a place that has most of the indices is summed in parallel too, and every element is read once. The order of additions
    depends on nothing but the indices: results are the same each time. Conditions that vary with nothing but what the index varies
    with are asked when the keys are made, others where elements are taken. A reduced axis that the index does not vary with is
    reduced first. An index that may fail is asked where core asks it, so such a scatter stays as it is; so does one over no axes
    of its own, and one whose reduced extents depend on other axes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from math import log2, prod

from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Block,
    Compute,
    Const,
    Index,
    Local,
    Loop,
    Monoid,
    Op,
    Program,
    Read,
    Reduction,
    Scalar,
    Select,
    Sort,
    Value,
    identity,
)
from axon.core.scalar_facts import (
    Scatter,
    at_least_0,
    axes_of,
    conjunction,
    freshened,
    may_fail,
    operands,
    renamed,
    scatter,
    substitute,
    with_data,
)
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, converted
from axon.shapes.dimension import Dim

CHUNK = 64  # positions of which one sum is made if they all have one place, and of these sums again
LEVELS = 2  # of sums
LARGEST = 2**31 - 2**20  # positions: their numbers and what is added to them stay in 32 bits
I32 = Element.I32

# Measured on an H100, in microseconds, for each element: of comparing an index with a place, of taking an element in or storing it.
_ASKED, _TAKEN = 5e-7, 2.2e-6


@dataclass(frozen=True)
class SegmentedScatter:
    """A scatter that can be made of segments. `keyed` are the reduced axes that the index varies with, `rest` the others, `outer`
    the axes of the result that it varies with; `folded` are the conditions that are asked with it, `asked` the others."""

    op: Compute
    form: Scatter
    keyed: tuple[Axis, ...]
    rest: tuple[Axis, ...]
    outer: tuple[Axis, ...]
    folded: tuple[Scalar, ...] = field(repr=False)
    asked: tuple[Scalar, ...] = field(repr=False)

    @property
    def symbol(self) -> Symbol:
        return self.op.outs[0].symbol

    @cached_property
    def positions(self) -> Dim:
        return reduce(Dim.__mul__, (at_least_0(axis.extent) for axis in self.keyed))

    def is_worth(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether to sort takes less time at these sizes."""
        rows, reduced = (
            prod(max(0, axis.extent.evaluate(sizes)) for axis in axes) for axes in (self.op.axes, (*self.keyed, *self.rest))
        )
        if not rows or not 1 < self.positions.evaluate(sizes) <= LARGEST:
            return False
        return self.microseconds(sizes) < 3 + _ASKED * rows * reduced

    def microseconds(self, sizes: Mapping[Symbol, int]) -> float:
        """How long it takes at these sizes, of which none is 0."""
        rows, reduced, outer = (
            prod(max(0, axis.extent.evaluate(sizes)) for axis in axes)
            for axes in (self.op.axes, (*self.keyed, *self.rest), self.outer)
        )
        positions = self.positions.evaluate(sizes)
        keys = outer * positions
        places = max(1, self.form.axis.extent.evaluate(sizes))
        taken = _TAKEN * (rows + rows // places * reduced)
        return sorting_time(positions, keys) + 15 + taken


def sorting_time(length: int, keys: int) -> float:
    """Microseconds of a sort of so many small integers, in rows of a length, measured on an H100. See Note [Digits] in
    `gpu.runtime.radix`."""
    if length <= 512:
        return 3 + 8 * (log2(max(2, length)) / 9) ** 2 + keys / 15_000
    return 10 + length / 700 + keys / 50_000 if length <= 8192 else 40 + keys / 30_000


def scatters(program: Program) -> tuple[SegmentedScatter, ...]:
    """Those whose sizes are known before a call."""
    known = frozenset(program.explicit).union(*(d.variables for value in program.inputs for d in value.shape))

    def visit(block: Block) -> Iterator[SegmentedScatter]:
        for op in block.ops:
            if isinstance(op, Loop):
                yield from visit(op.body)
            elif isinstance(op, Compute) and all(axis.extent.variables <= known for axis in all_axes(op)):
                yield from filter(None, [_scattered(op)])

    return tuple(visit(program.block))


def _scattered(op: Compute) -> SegmentedScatter | None:
    found = scatter(op)
    if found is None or op.reduction is None or may_fail(found.index) or (found.also is not None and may_fail(found.also)):
        return None
    reduction = op.reduction
    names = frozenset(axis.symbol for axis in all_axes(op))
    if any(not names.isdisjoint(axis.extent.variables) for axis in reduction.axes):
        return None
    by_index = axes_of(found.index, names)
    keyed = tuple(axis for axis in reduction.axes if axis.symbol in by_index)
    rest = tuple(axis for axis in reduction.axes if axis not in keyed)
    outer = tuple(axis for axis in op.axes if axis.symbol in by_index)
    conditions = list(operands("and", found.also)) if found.also is not None else []
    folded = tuple(c for c in conditions if axes_of(c, names) <= by_index)
    asked = tuple(c for c in conditions if c not in folded)
    if _needs_some(op) and (rest or asked):  # whether there is any is then not what the segments say
        return None
    if rest and (
        any(map(may_fail, op.body)) or found.axis.symbol in axes_of(op.body[0], names).union(*(axes_of(c, names) for c in asked))
    ):
        return None
    return SegmentedScatter(op, found, keyed, rest, outer, folded, asked)


def _needs_some(op: Compute) -> bool:
    """Whether a reduction of nothing has no value."""
    assert op.reduction is not None
    return op.reduction.monoid.kind in ("max", "min") and not op.outs[0].element.is_float


@verified("segments", lambda made, given, *_: verify_rewritten(made, given))
def segmented(program: Program, chosen: frozenset[Symbol]) -> Program:
    """See Note [Segments]. `chosen` are what the scatters make."""
    return replace(program, block=_block(program.block, chosen, {})) if chosen else program


def _block(block: Block, chosen: frozenset[Symbol], around: Mapping[object, _Sorted]) -> Block:
    known = dict(around)
    ops: list[Op] = []
    for op in block.ops:
        if isinstance(op, Loop):
            body = _block(op.body, chosen, known)
            ops.append(op if unchanged(body.ops, op.body.ops) else replace(op, body=body))
        elif isinstance(op, Compute) and op.outs[0].symbol in chosen and (found := _scattered(op)) is not None:
            ops += _Segments(found, known).made()
        else:
            ops.append(op)
    return Block(tuple(ops), block.results)


@dataclass(frozen=True, slots=True)
class _Sorted:
    """The indices of one scatter, or of several with the same: see Note [Segments]. What belongs to one place or chunk stands at
    `first` for each level, from 0 on, and at `whole` from 1 on: of a place's positions, of its whole chunks, of its whole chunks of
    chunks the first, and how many there are. `count` is how many terms a place's sum has. Of each chunk of a level, `ends` is CHUNK
    if all of it has one place, and else 0."""

    order: Value
    source: Value
    first: tuple[Value, ...]
    whole: tuple[Value, ...]
    count: Value
    ends: tuple[Value, ...]


# What is equal for scatters with the same indices: these in place of their axes.
_POSITION = fresh("position")
_OUTER = tuple(fresh("outer") for _ in range(32))


class _Segments:
    """Makes one scatter of segments."""

    def __init__(self, found: SegmentedScatter, known: dict[object, _Sorted]) -> None:
        self.found, self.known = found, known
        self.op, self.place = found.op, found.form.axis
        self.ops: list[Op] = []
        self.positions = found.positions
        self.places = at_least_0(self.place.extent)
        (self.out,) = self.op.outs
        assert self.op.reduction is not None
        self.kind = self.op.reduction.monoid.kind
        # An extreme needs no more bits than its elements.
        self.held = self.out.element if self.kind in ("max", "min") else self.out.element.accumulator
        self.unit = Const(identity(self.kind, self.held), self.held)

    def made(self) -> list[Op]:
        body, asked = self._reduced_first()
        rows = self._sorted()
        self._joined(rows, self._parts(rows, body, asked), body, asked)
        return self.ops

    # ── the reduced axes that the index does not vary with ──────────────────────────────────────────────────────────────

    def _reduced_first(self) -> tuple[Scalar, tuple[Scalar, ...]]:
        """The body and the conditions left over the keyed axes alone."""
        found, (body,) = self.found, self.op.body
        body = converted(body, self.held)
        if not found.rest:
            return body, found.asked
        names = frozenset(axis.symbol for axis in all_axes(self.op))
        varying = axes_of(body, names).union(*(axes_of(c, names) for c in found.asked))
        axes = tuple(a for a in (*found.keyed, *self.op.axes) if a.symbol in varying or a in found.keyed)
        inner = Reduction(found.rest, Monoid(self.kind), conjunction(found.asked))
        mine = {axis.symbol: fresh(axis.symbol.name) for axis in (*axes, *found.rest)}
        value = Value(fresh(self.out.symbol.name), self.held, tuple(axis.extent for axis in axes))
        self._add(Compute((value,), axes, inner, (body,), self.op.span), mine)
        return Read(value.symbol, tuple(Dim.of(axis.symbol) for axis in axes), self.held), ()

    # ── the indices ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _sorted(self) -> _Sorted:
        found = self.found
        at: dict[Symbol, Dim] = {axis.symbol: Dim.of(mine) for axis, mine in zip(found.outer, _OUTER, strict=False)}
        after = Dim.of(1)
        for number, axis in reversed(list(enumerate(found.keyed))):  # the position as an index of each of the keyed axes
            above = Dim.of(_POSITION) // after
            at[axis.symbol] = above % at_least_0(axis.extent) if number else above
            after = after * at_least_0(axis.extent)
        index, folded = substitute(found.form.index, at), tuple(substitute(c, at) for c in found.folded)
        key = index, folded, tuple(axis.extent for axis in (*found.outer, *found.keyed)), self.places
        if key not in self.known:
            self.known[key] = self._sort(index, folded)
        return self.known[key]

    def _sort(self, index: Scalar, folded: tuple[Scalar, ...]) -> _Sorted:
        element, name = self.found.form.element, self.place.symbol.name
        bound = Local(fresh("index"), element)
        inside = (Binary("ge", bound, Const(0, element)), Binary("lt", bound, Index(self.places, element)))
        place = Select(conjunction((*inside, *folded)) or inside[0], converted(bound, I32), Index(self.places))
        outer = tuple(Axis(mine, axis.extent) for axis, mine in zip(self.found.outer, _OUTER, strict=False))
        shape = (*(axis.extent for axis in outer), self.positions)
        keys = Value(fresh("keys"), I32, shape)
        axes = (*outer, Axis(_POSITION, self.positions))
        self._add(Compute((keys,), axes, None, (Bind(((bound.symbol, index),), place),), self.op.span))
        order, source = (Value(fresh(f"{name}_{what}"), I32, shape) for what in ("order", "source"))
        self.ops.append(Sort(order, source, keys.symbol, self.op.span))
        start = self._starts(order, outer)
        ends = tuple(self._ends(order, outer, CHUNK**level) for level in range(1, LEVELS + 1))
        return _Sorted(order, source, *self._segments(start, outer), ends)

    def _starts(self, order: Value, outer: tuple[Axis, ...]) -> Value:
        """By bisection: how many keys are less, for every place and the one after the last."""
        axis = Axis(fresh(self.place.symbol.name), self.places + 1)
        out = Value(fresh("start"), I32, (*(a.extent for a in outer), axis.extent))
        bindings: list[tuple[Symbol, Scalar]] = []
        below: Scalar = Const(0, I32)
        for bit in reversed(range((self.positions.constant or LARGEST).bit_length())):
            further = Binary("add", below, Const(1 << bit, I32)) if bindings else Const(1 << bit, I32)
            last = Binary("add", below, Const((1 << bit) - 1, I32)) if bindings else Const((1 << bit) - 1, I32)
            less = Binary("lt", Read(order.symbol, (*_at(outer), last), I32), Index(Dim.of(axis.symbol)))
            there = Binary("and", Binary("le", further, Index(self.positions)), less)
            bindings.append((fresh("below"), Select(there, further, below)))
            below = Local(bindings[-1][0], I32)
        self._add(Compute((out,), (*outer, axis), None, (Bind(tuple(bindings), below),), self.op.span))
        return out

    def _segments(self, start: Value, outer: tuple[Axis, ...]) -> tuple[tuple[Value, ...], tuple[Value, ...], Value]:
        """The first, the whole, and the count of each place: see `_Sorted`."""
        axis = Axis(fresh(self.place.symbol.name), self.place.extent)
        shape = (*(a.extent for a in outer), axis.extent)
        begin, end = (Read(start.symbol, (*_at(outer), Dim.of(axis.symbol) + n), I32) for n in (0, 1))
        firsts: list[Scalar] = [begin]
        wholes: list[Scalar] = []
        count: Scalar = Binary("sub", end, begin)
        for level in range(1, LEVELS + 1):
            chunk = Const(CHUNK**level, I32)
            firsts.append(Binary("div", Binary("add", begin, Const(CHUNK**level - 1, I32)), chunk))
            wholes.append(Binary("max", Binary("sub", Binary("div", end, chunk), firsts[-1]), Const(0, I32)))
            count = Binary("sub", count, _times(wholes[-1], CHUNK - 1))
        bodies = (*firsts, *wholes, count)
        named = (*(f"first{level}" for level in range(LEVELS + 1)), *(f"whole{level + 1}" for level in range(LEVELS)), "count")
        outs = tuple(Value(fresh(name), I32, shape) for name in named)
        self._add(Compute(outs, (*outer, axis), None, bodies, self.op.span))
        return outs[: LEVELS + 1], outs[LEVELS + 1 : -1], outs[-1]

    def _ends(self, order: Value, outer: tuple[Axis, ...], length: int) -> Value:
        axis = Axis(fresh("chunk"), self.positions // length)
        out = Value(fresh("ends"), I32, (*(a.extent for a in outer), axis.extent))
        first, last = (Read(order.symbol, (*_at(outer), Dim.of(axis.symbol) * length + n), I32) for n in (0, length - 1))
        whole = Binary("and", Binary("eq", first, last), Binary("lt", first, Index(self.places)))
        self._add(Compute((out,), (*outer, axis), None, (Select(whole, Const(CHUNK, I32), Const(0, I32)),), self.op.span))
        return out

    # ── what is reduced ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _parts(self, rows: _Sorted, body: Scalar, asked: tuple[Scalar, ...]) -> list[Value]:
        """The reductions of whole chunks, of each level."""
        outer = _at(self.found.outer)
        made: list[Value] = []
        for level in range(1, LEVELS + 1):
            chunk, within = Axis(fresh("chunk"), self.positions // CHUNK**level), Axis(fresh("within"), Dim.of(CHUNK))
            position = Dim.of(chunk.symbol) * CHUNK + Dim.of(within.symbol)
            end = Read(rows.ends[level - 1].symbol, (*outer, Dim.of(chunk.symbol)), I32)
            conditions: list[Scalar] = [Binary("lt", Index(Dim.of(within.symbol)), end)]
            if made:
                value: Scalar = Read(made[-1].symbol, self._instead(position), self.held)
            else:
                there = self._keyed(Read(rows.source.symbol, (*outer, position), I32))
                there[self.place.symbol] = Read(rows.order.symbol, (*outer, Dim.of(chunk.symbol) * CHUNK), I32)
                value = _placed(body, there)
                conditions += [_placed(c, there) for c in asked]
            axes = tuple(chunk if axis == self.place else axis for axis in self.op.axes)
            out = Value(fresh(f"{self.out.symbol.name}_part{level}"), self.held, tuple(axis.extent for axis in axes))
            nobody = Const(False, Element.BOOL) if _needs_some(self.op) else None
            taken = Reduction((within,), Monoid(self.kind), conjunction(tuple(conditions)), nobody)
            self._add(Compute((out,), axes, taken, (value,), self.op.span), self._own())
            made.append(out)
        return made

    def _instead(self, place: Dim | Scalar) -> tuple[Dim | Scalar, ...]:
        """The indices of the result with something else in place of that of the place."""
        return tuple(place if axis == self.place else Dim.of(axis.symbol) for axis in self.op.axes)

    def _joined(self, rows: _Sorted, parts: Sequence[Value], body: Scalar, asked: tuple[Scalar, ...]) -> None:
        """The reduction of each place: of whole chunks of the highest level, then of those of the next that are in none of these,
        then of positions that are in no whole chunk. Nothing is bound: backends see what does not vary along the other axes."""
        reduction, outer = self.op.reduction, self.found.outer
        assert reduction is not None
        here = (*_at(outer), Dim.of(self.place.symbol))
        first, whole = ([Read(v.symbol, here, I32) for v in values] for values in (rows.first, rows.whole))
        term = Axis(fresh("term"), self.positions)
        number: Scalar = Index(Dim.of(term.symbol))  # among the terms of a level
        taken_in: list[tuple[Scalar, Scalar]] = []  # of each level: whether a term is one of its, and what it is
        for level in reversed(range(LEVELS + 1)):
            at: Scalar = Binary("add", first[level], number)
            if level < LEVELS:  # past what the level above has taken
                above = _times(whole[level], CHUNK)
                inside = Binary("ge", at, _times(first[level + 1], CHUNK))
                at = Binary("add", at, Select(inside, above, Const(0, I32)))
            if level:
                mine = whole[level - 1] if level == LEVELS else Binary("sub", whole[level - 1], above)
                taken_in.append((Binary("lt", number, mine), Read(parts[level - 1].symbol, self._instead(at), self.held)))
                number = Binary("sub", number, mine)
        there = self._keyed(Read(rows.source.symbol, (*_at(outer), at), I32))
        value = _placed(body, there)
        if asked:
            value = Select(conjunction(tuple(_placed(c, there) for c in asked)) or self.unit, value, self.unit)
        for condition, part in reversed(taken_in):
            value = Select(condition, part, value)
        where = Binary("lt", Index(Dim.of(term.symbol)), Read(rows.count.symbol, here, I32))
        taken = Reduction((term,), Monoid(self.kind), where, reduction.asked)
        if self.held is self.out.element:
            self.ops.append(replace(self.op, reduction=taken, body=(value,)))
            return
        wide = replace(self.out, symbol=fresh(self.out.symbol.name), element=self.held)
        self._add(replace(self.op, outs=(wide,), reduction=taken, body=(value,)), self._own())
        back = Read(wide.symbol, _at(self.op.axes), self.held)
        self.ops.append(replace(self.op, reduction=None, body=(converted(back, self.out.element),)))

    def _keyed(self, position: Scalar) -> dict[Symbol, Scalar]:
        """The indices of the keyed axes at a position in their order."""
        if len(self.found.keyed) == 1:
            return {self.found.keyed[0].symbol: position}
        found: dict[Symbol, Scalar] = {}
        after = Dim.of(1)
        for number, axis in reversed(list(enumerate(self.found.keyed))):
            extent = at_least_0(axis.extent)
            above = position if after == Dim.of(1) else Binary("div", position, Index(after))
            found[axis.symbol] = Binary("mod", above, Index(extent)) if number else above
            after = after * extent
        return found

    def _own(self) -> dict[Symbol, Symbol]:
        return {axis.symbol: fresh(axis.symbol.name) for axis in self.op.axes}

    def _add(self, op: Compute, names: Mapping[Symbol, Symbol] | None = None) -> None:
        """An operation over axes of its own, with what it binds."""
        self.ops.append(renamed(op, names or {axis.symbol: fresh(axis.symbol.name) for axis in all_axes(op)}))


def _times(scalar: Scalar, factor: int) -> Scalar:
    return Binary("mul", scalar, Const(factor, I32))


def _at(axes: Iterable[Axis]) -> tuple[Dim, ...]:
    return tuple(Dim.of(axis.symbol) for axis in axes)


def _placed(scalar: Scalar, there: Mapping[Symbol, Scalar]) -> Scalar:
    """An expression with data in place of axes, and names of its own."""
    return freshened(with_data(scalar, there))
