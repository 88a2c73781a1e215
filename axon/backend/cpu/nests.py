"""A nest of a plan as one function in Python, which becomes machine code (`lowering`).

    write    a Nest -> its Function: text, parameters, and into how many pieces of work it can be cut

Note [Interior]
    An index that wraps around (`x[(j + 1) % n]`) or is clamped would be divided or compared for every lane, and what it reads be
    gathered. So the loop over lanes is cut where a quotient changes and where a limit begins to matter (`plan.interior`): inside,
    subscripts are linear and vectors are read; the lanes beside, of which there are few, are computed as they stand. Where
    quotients change every few lanes there is no inside, and all are.

The function takes pointers to contiguous tensors, sizes, and a range of work items, so that threads share a kernel by calling it on
ranges of their own. It returns 0, or 1 where the program must stop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from axon.backend.cpu.function import Function, work
from axon.backend.cpu.runs import Runs, Vector
from axon.backend.kernel.ir import FALSE, Constant, Expression, Name, both, call
from axon.backend.kernel.ordered import Places, ordered
from axon.backend.kernel.reducers import Reducer, Slots, reducer
from axon.backend.kernel.writer import Held, Writer, literal
from axon.backend.plan import lanes
from axon.backend.plan.argmax import is_plain, split_best
from axon.backend.plan.collapse import collapsed
from axon.backend.plan.interior import Interior, interior
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Read, Reduction, Scan, Value, element_of
from axon.core.scalar_facts import at_least_0, is_trivial
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim

LANES = 4096  # at most, of a block in a nest by lanes that keeps something for each: what it keeps stays in the cache
BLOCK = 8192  # lanes where nothing is kept
BESIDE = 16  # lanes that are computed as they stand before it is looked whether an interior begins, and the least of one
SEARCHED = 256  # elements among which the place of the best one is looked for
NOWHERE = 2**31 - 2  # the last place that may be; a number neutral to `min` would be taken for a branch, and not be a vector
JAM = 4  # reductions of a row that are computed at once
TURN = 8  # what is reduced in the places of lanes at once: they are read and written once
FEW_NODES = 4  # of a body that is written so often


def write(nest: Nest, values: dict[Symbol, Value], name: str, comments: Sequence[str] = ()) -> Function:
    """The function of a nest. `values` are all tensors that it names; `comments` head the text."""
    made = collapsed(nest, values, loops=True)
    several = _reduced(made.nest) - _reduced(nest)
    nest, values = made.nest, dict(made.values)
    if not lanes.by_lanes(nest):
        nest = split_best(nest)
    return NestWriter(nest, values, name, several).write(comments)


def _reduced(nest: Nest) -> frozenset[Symbol]:
    return frozenset(axis.symbol for step in nest.steps for axis in lanes.reduced(step))


class NestWriter(Runs):
    """Writes the function of one nest."""

    def __init__(self, nest: Nest, values: dict[Symbol, Value], name: str, several: frozenset[Symbol] = frozenset()) -> None:
        """`several` are the axes that were more than one."""
        super().__init__()
        self.nest, self.name, self.several = nest, name, several
        self.values = values | {out.symbol: out for step in nest.steps for out in step.outs}
        self.names: dict[Symbol, Name] = {}
        self.held: dict[Symbol, Held] = {}
        self.choose(lanes.by_lanes(nest))
        self.lane: Vector | None = None
        self.lane_count = 0
        self.quotients: list[Symbol] = []  # that an interior takes as they are: variables, and no sizes
        self.kept: dict[Symbol, Held | None] = {}  # variables of the loop over lanes, and where they are after it; None: in memory

    def choose(self, lanes: bool) -> None:
        """By rows or by lanes. See Note [Rows and lanes]."""
        self.lanes = lanes
        self.rows = self.nest.rows[:-1] if lanes else self.nest.rows

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def variable(self, symbol: Symbol) -> Expression:
        """Of an axis in scope, or of a dimension."""
        return self.names[symbol] if symbol in self.names else self.size(Dim.of(symbol))

    def place(self, symbol: Symbol) -> Held:
        """Where a tensor is that the nest reads."""
        found = self.held.get(symbol)
        return found or Held(self.values[symbol], self.pointer(symbol))

    def writer(self, axes: Sequence[Axis], locals: dict[Symbol, Expression] | None = None) -> Writer:
        extents = {axis.symbol: axis.extent for axis in axes} | dict.fromkeys(self.quotients, Dim.of(-1))
        return Writer(self.code, extents, self.variable, self.size, self.place, locals)

    # ── the function ────────────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, comments: Sequence[str]) -> Function:
        code = self.code
        code.assign(code.bad, FALSE)
        blocks: Expression | None = None
        rows = Dim.of(1)
        for axis in self.rows:
            rows = rows * at_least_0(axis.extent)
        if self.lanes:
            self.lane_count = LANES if self.keeps_lanes() else BLOCK
            self.step = self.lanes_parameter()
            extent = self.size(self.nest.rows[-1].extent)
            if self.rows:
                blocks = code.named("blocks")
                code.assign(blocks, call("unsigned_divide", extent + self.step - 1, self.step))
        with code.loop(code.local("item"), code.local("first"), code.local("last")):
            self._rows(blocks)
            self.steps()
        code.give(0)
        parameters, text = self.written(self.name, comments)
        how = f"by lanes of {self.nest.rows[-1].symbol.name}" if self.lanes else "by rows"
        lane = self.nest.rows[-1].extent if self.lanes else None
        cost, points = work(self.nest.steps)
        return Function(self.name, text, parameters, rows, lane, self.lane_count, cost, points, how)

    def _rows(self, blocks: Expression | None) -> None:
        """The row's indices from the item's number."""
        code = self.code
        rest = item = code.local("item")
        if self.lanes:
            axis = self.nest.rows[-1]
            extent = self.size(axis.extent)
            block = item
            if blocks is not None:
                rest = code.let(call("unsigned_divide", item, blocks), "r")
                block = code.let(item - rest * blocks, "r")
            start = code.let(block * self.step, "start_")
            stop = code.let(call("min_int", start + self.step, extent), "stop_")
            self.names[axis.symbol] = code.named(axis.symbol.name)
            self.lane = Vector(axis, start, stop, self.step)
        for position, axis in reversed(list(enumerate(self.rows))):
            name = self.names[axis.symbol] = code.named(axis.symbol.name)
            if position == 0:
                code.assign(name, rest)
            else:
                extent = self.size(axis.extent)
                above = code.let(call("unsigned_divide", rest, extent), "r")
                code.assign(name, rest - above * extent)
                rest = above

    def _groups(self) -> list[list[Compute | Scan]]:
        """Steps that share a loop over lanes: pointwise ones without further axes, after what they follow."""
        groups: list[list[Compute | Scan]] = []
        for step in self.nest.steps:
            alone = isinstance(step, Scan) or bool(lanes.inner(step, len(self.nest.rows))) or bool(lanes.reduced(step))
            follows = bool(groups) and not isinstance(groups[-1][0], Scan) and not lanes.inner(groups[-1][0], len(self.nest.rows))
            if alone or not follows:
                groups.append([step])
            else:
                groups[-1].append(step)
        return groups

    def keeps_lanes(self) -> bool:
        return len(self._groups()) > 1 or any(lanes.reduced(s) or isinstance(s, Scan) for s in self.nest.steps)

    def steps(self) -> None:
        if self.lanes:
            groups = self._groups()
            for position, group in enumerate(groups):
                later = frozenset(
                    n.tensor
                    for other in groups[position + 1 :]
                    for step in other
                    for s in scalars(step)
                    for n in nodes(s)
                    if isinstance(n, Read)
                )
                self._group(group, later)
        else:
            for step in self.nest.steps:
                self._group([step], frozenset(out.symbol for out in step.outs))

    def stop(self) -> None:
        """End where something failed."""
        with self.code.when(self.code.bad):
            self.code.give(1)

    def comment(self, step: Compute | Scan) -> None:
        self.code.comment(", ".join(out.symbol.name for out in step.outs))

    def _group(self, group: list[Compute | Scan], later: frozenset[Symbol]) -> None:
        step = group[0]
        for each in group:
            self.comment(each)
        failed = False
        if isinstance(step, Scan):
            failed = self._scan(step)
        elif lanes.reduced(step):
            failed = self._reduction(step, group[1:], later)
        else:
            failed = self._pointwise(group, later)
        for symbol, held in self.kept.items():
            if held is None:
                del self.held[symbol]
            else:
                self.held[symbol] = held
        self.kept.clear()
        if failed:
            self.stop()

    @contextmanager
    def loops(self, axes: Sequence[Axis], scope: Sequence[Axis]) -> Iterator[bool]:
        """Loops over axes, whose extents may mention those around them. What they evaluate may fail: `fails` of the last writer."""
        failed = False
        around = list(scope)
        with ExitStack() as stack:
            for axis in axes:
                writer = self.writer(around)
                extent = writer.dim(axis.extent)
                failed |= writer.fails
                name = self.names[axis.symbol] = self.code.named(axis.symbol.name)
                stack.enter_context(self.code.loop(name, extent))
                around.append(axis)
            yield failed

    @contextmanager
    def lane_loop(self, vector: Vector | None) -> Iterator[None]:
        if vector is None:
            yield
            return
        name = self.names.get(vector.axis.symbol) or self.code.named(vector.axis.symbol.name)
        self.names[vector.axis.symbol] = name
        with self.code.loop(name, vector.start, vector.stop):
            yield

    def over_lanes(
        self,
        vector: Vector | None,
        steps: Sequence[Compute | Scan],
        scope: Sequence[Axis],
        write: Callable[[Sequence[Compute | Scan]], bool],
    ) -> bool:
        """The loop over lanes around what `write` writes of steps. See Note [Interior]."""
        found = None if vector is None else interior(steps, vector.axis.symbol, self.values)
        if vector is None or found is None:
            with self.lane_loop(vector):
                return write(steps)
        code, lane = self.code, self.names.get(vector.axis.symbol) or self.code.named(vector.axis.symbol.name)
        at = code.named("at")
        code.assign(at, vector.start)
        with code.repeat(at < vector.stop):
            self.names[vector.axis.symbol] = at
            self.quotients += [symbol for symbol, _ in found.quotients]
            writer = self.writer(scope)
            for symbol, quotient in found.quotients:
                self.names[symbol] = writer.let(writer.dim(Dim({(quotient,): 1})))
            holds, high = self._range(found, writer, at, vector.stop)
            self.names[vector.axis.symbol] = lane
            with code.when(holds):
                with code.loop(lane, at, high):
                    failed = write(found.steps)
                code.assign(at, high)
            with code.otherwise():
                until = code.let(call("min_int", at + BESIDE, vector.stop))
                with code.loop(lane, at, until):
                    failed |= write(steps)
                code.assign(at, until)
        return failed | writer.fails

    def _range(self, found: Interior, writer: Writer, at: Name, stop: Expression) -> tuple[Expression, Name]:
        """Whether an interior begins at a lane and goes on for some, and where it ends."""
        high = self.code.let(stop, "high_")
        holds: Expression = high >= at + BESIDE
        for bound in found.bounds:
            rest = writer.dim(bound.rest)
            if bound.coefficient < 0:
                last = rest if bound.coefficient == -1 else call("floor_divide", writer.let(rest), -bound.coefficient)
                self.code.assign(high, call("min_int", high, last + 1))
            else:
                holds = both(holds, rest + at * bound.coefficient >= 0)
        for scalar, extent in found.inside:
            place = writer.convert(writer.value(scalar), element_of(scalar), Element.I64)
            holds = both(holds, both(place >= 0, place < writer.dim(extent)))
        return holds, high

    # ── pointwise ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _pointwise(self, group: list[Compute | Scan], later: frozenset[Symbol]) -> bool:
        """Pointwise steps over the same axes, in one loop."""
        inner = lanes.inner(group[0], len(self.nest.rows))
        scope = [*self.nest.rows, *inner]
        with self.loops(inner, self.nest.rows) as failed:
            fails = self.over_lanes(self.lane, group, scope, lambda steps: self._pointwise_body(steps, later, scope))
        return failed or fails

    def _pointwise_body(self, group: Sequence[Compute | Scan], later: frozenset[Symbol], scope: list[Axis]) -> bool:
        failed = False
        writer = self.writer(scope)
        for step in group:
            for out, body in zip(step.outs, step.body, strict=True):
                self.define(writer, out, writer.value(body), step.axes, out.symbol in later)
            failed |= writer.fails
        return failed

    def define(self, writer: Writer, out: Value, value: Expression, axes: tuple[Axis, ...], keep: bool) -> None:
        """Put one element of a step's value where it belongs, and remember where later steps find it."""
        rows = len(self.nest.rows)
        subscripts: list[Expression] = [self.names[axis.symbol] for axis in axes]
        stored = out.symbol in self.nest.stored
        if stored:
            writer.store(Held(out, self.pointer(out.symbol)), subscripts, value)
        if len(axes) == rows:  # a scalar of the row
            if self.lanes and keep and not stored:
                held = self.kept.get(out.symbol) or self._lane_buffer(out)
                writer.store(held, subscripts, value)
                self.kept[out.symbol] = held
            elif self.lanes:
                self.kept[out.symbol] = None
            self.held[out.symbol] = Held(out, variable=value)
            return
        if not stored:
            held = self._row_buffer(out)
            self.held[out.symbol] = held
            writer.store(held, subscripts, value)

    def _row_buffer(self, out: Value) -> Held:
        found = self.held.get(out.symbol)
        if found:
            return found
        rows = len(self.nest.rows)
        size = Dim.of(1)
        for extent in out.shape[rows:]:
            size = size * extent
        if self.lane is None:
            return Held(out, self.buffer(f"{out.symbol.name}_row", out.element, size), skip=rows)
        name = self.buffer(f"{out.symbol.name}_lanes", out.element, size * self.lane_count, self.lane_count)
        return Held(out, name, skip=rows, lane=self._lane_place(), lanes=self.lane.lanes)

    def _lane_buffer(self, out: Value) -> Held:
        assert self.lane is not None
        name = self.buffer(f"{out.symbol.name}_lanes", out.element, Dim.of(self.lane_count), self.lane_count)
        return Held(out, name, skip=len(out.shape), lane=self._lane_place(), lanes=self.lane.lanes)

    def _lane_place(self) -> Expression:
        assert self.lane is not None
        return self.names[self.lane.axis.symbol] - self.lane.start

    # ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _vector(self, step: Compute | Scan) -> tuple[Vector | None, tuple[Axis, ...]]:
        """The axis along which a step's accumulators lie, and its inner axes outside that."""
        inner = lanes.inner(step, len(self.nest.rows))
        if self.lane is not None:
            return self.lane, inner
        if isinstance(step, Scan):
            inner = inner[:-1]
        if not inner:
            return None, ()
        made = frozenset(out.symbol for s in self.nest.steps for out in s.outs)
        deep = (lanes.reduced(step) or step.axes)[-1]
        alone = all(inner[-1].symbol not in axis.extent.variables for axis in lanes.reduced(step))
        if not alone or lanes.strides(step, inner[-1], made) >= lanes.strides(step, deep, made):
            return None, inner
        extent = self.size(inner[-1].extent)
        return Vector(inner[-1], Constant(0), extent, extent), inner[:-1]

    def slots(self, elements: tuple[Element, ...], vector: Vector | None, stem: str) -> Slots:
        """Where a step's accumulators are: variables, or buffers with a place for every lane."""
        if vector is None:
            return Slots(tuple(self.code.name("a") for _ in elements))
        lanes = self.lane_count if vector is self.lane else 0
        size = Dim.of(lanes) if lanes else vector.axis.extent
        return Slots(tuple(self.buffer(f"{stem}_acc", element, size, lanes) for element in elements), elements)

    def _reduction(self, step: Compute, after: Sequence[Compute | Scan], later: frozenset[Symbol]) -> bool:
        reduction = step.reduction
        assert reduction is not None
        vector, inner = self._vector(step)
        if vector is None and is_plain(step) and is_trivial(step.body[0]) and element_of(step.body[0]) is not Element.BOOL:
            return self._best(step, inner)
        reduce = reducer(reduction.monoid, step.body)
        if vector is None:
            reduce = ordered(reduction.monoid, step.body, reduce)
        rows = self.nest.rows
        if vector is None and inner and self._jams(reduction, inner[-1]):
            return self._jammed(step, reduce, inner)
        slots = self.slots(reduce.elements, vector, step.outs[0].symbol.name)
        scope = [*rows, *inner] if vector is None or vector is self.lane else [*rows, *inner, vector.axis]
        ragged = vector is not None and any(vector.axis.symbol in axis.extent.variables for axis in reduction.axes)
        failed = False
        with self.loops(inner, rows) as fails:
            failed |= fails
            with self.lane_loop(vector):
                writer = self.writer(scope)
                slots.set(writer, self.place_of(vector), reduce.nothing(writer))
                failed |= writer.fails
            if ragged:  # the ranges differ from lane to lane: the loop over lanes stands outside
                with self.lane_loop(vector), self.loops(reduction.axes, scope) as fails:
                    failed |= fails | self._accumulate(step, reduce, slots, vector, scope)
            elif vector is None:
                accumulate = partial(self._accumulate, step, reduce, vector=None, scope=scope)
                failed |= self.runs(step, reduce, [slots], scope, lambda own: accumulate(own[0]))
            else:
                body = partial(self._accumulated, step, reduce, slots, vector, scope)
                turn = TURN if self._turns(step, reduce, vector) else 1
                failed |= self.lane_runs(reduction.axes, reduce, slots, vector, scope, turn, body)
            with self.lane_loop(vector):
                writer = self.writer(scope)
                state = slots.get(writer, self.place_of(vector))
                for out, value in zip(step.outs, reduce.finish(writer, state, reduction.asked), strict=True):
                    self.define(writer, out, value, step.axes, out.symbol in later)
                failed |= writer.fails
                if after:
                    failed |= self._pointwise_body(after, later, scope)
        return failed

    def _best(self, step: Compute, inner: tuple[Axis, ...]) -> bool:
        """The place of the best value: the best one of a block, until one is better than those before; then its place there."""
        assert step.reduction is not None
        code, rows, (axis,) = self.code, self.nest.rows, step.reduction.axes
        scope, value = [*rows, *inner], step.body[0]
        how = Places("max" if step.reduction.monoid.kind == "argmax" else "min", element_of(value))
        best, at, start, own, found = code.name("a"), code.named("at"), code.named("start"), code.name("a"), code.name("a")
        with self.loops(inner, rows) as failed:
            writer = self.writer(scope)
            extent = code.let(writer.dim(axis.extent), "extent_")
            code.assign(best, how.nothing)
            code.assign(at, 0)
            name = self.names[axis.symbol] = code.named(axis.symbol.name)
            with code.loop(start, 0, extent, SEARCHED):
                code.assign(own, how.nothing)
                with code.loop(name, start, call("min_int", start + SEARCHED, extent)):
                    inside = self.writer([*scope, axis])
                    code.assign(own, how.better(inside, own, how.placed(inside, inside.value(value))))
                failed |= inside.fails
                after = self.writer(scope)
                with code.when(how.is_better(after, own, best)):
                    code.assign(best, own)
                    code.assign(at, start)
            code.assign(found, literal(NOWHERE, Element.I32))
            name = self.names[axis.symbol] = code.named(axis.symbol.name)
            with code.loop(name, at, call("min_int", at + SEARCHED, extent)):
                inside = self.writer([*scope, axis])
                is_there = how.is_one(inside, how.placed(inside, inside.value(value)), best)
                here = inside.where(is_there, inside.call("as_i32", name), literal(NOWHERE, Element.I32))
                code.assign(found, code.let(call("min_int", found, here), "a"))
            reduce = reducer(step.reduction.monoid, step.body)
            state = (*[best for _ in reduce.elements[:-2]], found, code.let(extent > 0))
            for out, result in zip(step.outs, reduce.finish(writer, state, step.reduction.asked), strict=True):
                self.define(writer, out, result, step.axes, False)
        return failed | writer.fails

    def _jams(self, reduction: Reduction, last: Axis) -> bool:
        return reduction.where is None and all(last.symbol not in axis.extent.variables for axis in reduction.axes)

    def _jammed(self, step: Compute, reduce: Reducer, inner: tuple[Axis, ...]) -> bool:
        """A reduction for several indices of the last inner axis at once, which read what they share once; then for the rest."""
        code, rows, last = self.code, self.nest.rows, inner[-1]
        scope = [*rows, *inner]
        failed = False
        with self.loops(inner[:-1], rows) as fails:
            failed |= fails
            extent = code.let(call("max_int", self.size(last.extent), 0), "extent_")
            whole = code.let(extent - call("unsigned_remainder", extent, JAM), "whole_")
            for count, bounds in ((JAM, (0, whole, JAM)), (1, (whole, extent))):
                name = code.named(last.symbol.name)
                with code.loop(name, *bounds):
                    places = [name, *(code.let(name + i) for i in range(1, count))]
                    failed |= self._together(step, reduce, last, places, scope)
        return failed

    def _together(self, step: Compute, reduce: Reducer, last: Axis, places: list[Name], scope: list[Axis]) -> bool:
        """The reductions for these indices of an axis, in one loop over what is reduced."""
        assert step.reduction is not None
        failed = False
        slots = [self.slots(reduce.elements, None, "") for _ in places]
        writer = self.writer(scope)
        for place, mine in zip(places, slots, strict=True):
            self.names[last.symbol] = place
            mine.set(writer, None, reduce.nothing(writer))
        axes = step.reduction.axes

        def combine(own: Sequence[Slots]) -> bool:
            inside = self.writer([*scope, *axes])
            for place, mine in zip(places, own, strict=True):
                self.names[last.symbol] = place
                self._combine(inside, reduce, mine, None, None)
            return inside.fails

        failed |= self.runs(step, reduce, slots, scope, combine)
        for place, mine in zip(places, slots, strict=True):
            self.names[last.symbol] = place
            after = self.writer(scope)
            for out, value in zip(step.outs, reduce.finish(after, mine.names, step.reduction.asked), strict=True):
                self.define(after, out, value, step.axes, False)
            failed |= after.fails
        return failed | writer.fails

    def place_of(self, vector: Vector | None) -> Expression | None:
        if vector is None:
            return None
        name = self.names[vector.axis.symbol]
        return name - vector.start

    def _accumulate(self, step: Compute, reduce: Reducer, slots: Slots, vector: Vector | None, scope: list[Axis]) -> bool:
        reduction = step.reduction
        assert reduction is not None
        writer = self.writer([*scope, *reduction.axes])
        if reduction.where is None:
            self._combine(writer, reduce, slots, vector, None)
            return writer.fails
        where = writer.value(reduction.where)
        if all(writer.speculable(body) for body in step.body) and reduce.speculable(writer):
            self._combine(writer, reduce, slots, vector, where)
        else:
            with writer.branch(self.code.when(where)):
                self._combine(writer, reduce, slots, vector, None)
        return writer.fails

    def _turns(self, step: Compute, reduce: Reducer, vector: Vector) -> bool:
        """Whether several indices of what is reduced are taken at once for every lane."""
        assert step.reduction is not None
        brief = sum(1 for scalar in scalars(step) for _ in nodes(scalar)) <= FEW_NODES
        alone = step.reduction.where is None and len(reduce.elements) == 1 and step.reduction.monoid.kind != "custom"
        return brief and alone and interior([step], vector.axis.symbol, self.values) is None

    def _accumulated(
        self, step: Compute, reduce: Reducer, slots: Slots, vector: Vector, scope: list[Axis], indices: Sequence[Name]
    ) -> bool:
        """What a loop over lanes combines with their places, for some indices of the innermost axis that is reduced."""
        assert step.reduction is not None
        axes = step.reduction.axes
        inside = [*scope, *axes]
        if len(indices) == 1:
            return self.over_lanes(vector, [step], inside, partial(self._accumulated_once, slots, vector, scope))
        with self.lane_loop(vector):
            writer, place = self.writer(inside), self.place_of(vector)
            state, alone = slots.get(writer, place), []
            for index in indices:
                self.names[axes[-1].symbol] = index
                values = reduce.values(writer)
                if len(values) == 1:
                    alone.append(reduce.alone(writer, values, None))
                else:
                    state = reduce.combine(writer, state, values, None)
            while len(alone) > 1:  # by pairs: what waits for the places of few lanes is one step
                alone = [reduce.combine(writer, one, other, None) for one, other in zip(alone[::2], alone[1::2], strict=True)]
            for one in alone:
                state = reduce.combine(writer, state, one, None)
            slots.set(writer, place, state)
        return writer.fails

    def _accumulated_once(self, slots: Slots, vector: Vector, scope: list[Axis], steps: Sequence[Compute | Scan]) -> bool:
        (step,) = steps
        assert isinstance(step, Compute)
        assert step.reduction is not None
        return self._accumulate(step, reducer(step.reduction.monoid, step.body), slots, vector, scope)

    def _combine(self, writer: Writer, reduce: Reducer, slots: Slots, vector: Vector | None, where: Expression | None) -> None:
        place = self.place_of(vector)
        values = reduce.values(writer)
        state = slots.get(writer, place)
        combined = reduce.combine(writer, state, values, where)
        slots.set(writer, place, combined)

    # ── scans ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _scan(self, step: Scan) -> bool:
        vector, inner = self._vector(step)
        if self.lane is not None:
            inner = inner[:-1]
        reduce = reducer(step.monoid, step.body, running=True)
        slots = self.slots(reduce.elements, vector, step.outs[0].symbol.name)
        rows = self.nest.rows
        scope = [*rows, *inner] if vector is None or vector is self.lane else [*rows, *inner, vector.axis]
        running = step.axes[-1]
        failed = False
        with self.loops(inner, rows) as fails:
            failed |= fails
            with self.lane_loop(vector):
                writer = self.writer(scope)
                slots.set(writer, self.place_of(vector), reduce.nothing(writer))
                failed |= writer.fails
            with self.loops((running,), scope) as fails, self.lane_loop(vector):
                failed |= fails
                writer = self.writer([*scope, running])
                self._combine(writer, reduce, slots, vector, None)
                state = slots.get(self.writer(scope), self.place_of(vector))
                for out, value in zip(step.outs, reduce.finish(writer, state, None), strict=True):
                    self.define(writer, out, value, step.axes, True)
                failed |= writer.fails
        return failed
