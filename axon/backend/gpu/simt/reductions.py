"""Reductions and scans of a nest: what each thread of a team has, and how a team puts it together.

Note [Order]
    Members take a loop's elements in turn, so a sum is taken in another order than its axis has. Where order matters (a custom
    monoid, a running combination, the first best by indices that are not the axes'), it takes its elements stretch by stretch:
    each member a few neighbours, then a scan over the members, then what came before.

Note [Runs]
    A sum in one accumulator loses digits with every element. Where a thread has a column to itself, or shares it with few, it sums
    runs of RUN elements, and adds what these give in f64. Rows of a team are cut finely enough by its threads and their neighbours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from math import nan
from typing import TYPE_CHECKING

from axon.backend.gpu.simt.access import is_ordered
from axon.backend.gpu.simt.mapping import THREADS, WARP
from axon.backend.gpu.simt.pieces import BARRIER
from axon.backend.gpu.simt.running_maximum import LEAST, ZERO, Below
from axon.backend.gpu.simt.writer import Lane
from axon.backend.kernel.ir import TRUE, Expression, Name, Several, call, lift, same
from axon.backend.kernel.reducers import Best, Combiner, Reducer, State, reducer
from axon.backend.kernel.writer import literal
from axon.backend.plan.lanes import inner, reduced
from axon.base.element import Element
from axon.core.ir import Axis, Binary, Compute, Index, Read, Scalar, Scan
from axon.core.scalar_facts import ends_of, varies
from axon.core.walk import nodes, rename
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.simt.emit import PlainEmitter

UNROLL = 4  # turns of a loop that fetch before any of them computes
ENDED = 2  # likewise, where data say where a loop ends: it may be short, and registers that wait cost threads
SLOT = 8  # bytes of shared memory for a scalar of one warp
RUN = 256  # elements that a thread of a column sums in f32. See Note [Runs]
CHAIN = 16  # elements that a thread takes in one after the other; other warps work while it waits


Names = tuple[Name, ...]


class Reductions:
    """Writes the reductions and scans of one kernel. `bytes`: shared memory that they exchange through, `flips`: in turn."""

    def __init__(self, emitter: PlainEmitter) -> None:
        self.emitter, self.code, self.writer, self.mapping = emitter, emitter.code, emitter.writer, emitter.mapping
        self.bytes = 0
        self.flips = False
        self.sends = 0  # exchanges among blocks

    @property
    def team(self) -> int:
        return self.emitter.team

    def reduction(self, step: Compute) -> None:
        reduction, writer, rows = step.reduction, self.writer, len(self.emitter.nest.rows)
        assert reduction is not None
        reduce = reducer(reduction.monoid, step.body, anywhere=not self.ordered(step))
        axes = inner(step, rows)
        if self.ordered(step) and self.team:
            with self.emitter.loops(axes):
                total = self.in_order(step, reduce, reduction.axes, None)
                self.finish(step, reduce, total)
            return
        with self.emitter.loops(axes):
            state = self.accumulators(reduce)
            with self.emitter.loops(reduction.axes[:-1], shared=True):
                end, asked = self.end(step)
                with self.ended(step, end), self.run(step, reduce, state, end) as run:
                    unroll = UNROLL if end is None else ENDED
                    for there in self.emitter.sweep(reduction.axes[-1], unroll=unroll, run=run, end=end):
                        where = there if there != TRUE else None
                        if asked is None:
                            self.take(reduce, state, where)
                        else:
                            condition = writer.value(asked)
                            with writer.masked(condition, writer.along(asked)):
                                both = writer.call("both", condition, where) if where is not None else condition
                                self.take(reduce, state, both)
            total = self.joined(reduce, state)
            if self.team:
                total = self.across(reduce, total)
            elif self.mapping.team > 1:
                total = self.down(reduce, total)
            self.finish(step, reduce, total)

    def end(self, step: Compute) -> tuple[Expression | None, Scalar | None]:
        """Where the innermost loop of a reduction ends by its condition, if that says so, and what the condition asks besides."""
        reduction, writer, mapping = step.reduction, self.writer, self.mapping
        assert reduction is not None
        axis = reduction.axes[-1]
        ends, rest = ends_of(reduction.where, axis.symbol, frozenset())
        if not ends or mapping.chunks or mapping.pieces is not None:
            return None, reduction.where
        found: Expression | None = None
        for end in ends:  # which core asks only where there is an index to ask for
            anywhere = all(writer.is_within(node) for node in nodes(end) if isinstance(node, Read))
            there = TRUE if anywhere else writer.call("gt_int", writer._let_dim(axis.extent), 0)
            with writer.masked(there, False):
                value = self.over_lanes("max_int", writer.value(end), writer.along(end))
            found = value if found is None else writer.let(call("min_int", found, value))
        exact = mapping.vector == 1 or not (self.team or any(map(writer.along, ends)))  # else some neighbours are behind it
        return found, rest if exact else reduction.where

    @contextmanager
    def ended(self, step: Compute, end: Expression | None) -> Iterator[None]:
        """Around a loop that has an `end` by data. What is read at the same place in all turns is read before the first: the
        compiler would not move it."""
        if end is None:
            yield
            return
        lane = frozenset((reduced(step)[-1].symbol,))
        with self.writer.branch(self.code.when(call("gt_int", end, 0))):
            for read in (n for s in step.body for n in nodes(s) if isinstance(n, Read) and not varies(n, lane)):
                if self.writer.is_within(read):
                    self.writer.value(read)
            yield

    @contextmanager
    def run(
        self, step: Compute, reduce: Reducer, state: Names, end: Expression | None
    ) -> Iterator[tuple[Expression, Expression] | None]:
        """Around the loop of a long sum: the range of a run; None where all is summed at once. See Note [Runs]."""
        code, writer, (axis, *others) = self.code, self.writer, reduced(step)
        length = RUN * self.mapping.team
        few = axis.extent.constant is not None and axis.extent.constant <= length
        if self.team or others or few or not reduce.in_parts or end is not None:
            yield None
            return
        limit, start = writer._let_dim(axis.extent), code.name("start_")
        (element,) = reduce.elements
        totals = [code.let(literal(0.0, Element.F64), "total_") for _ in range(self.emitter.width)]
        with writer.branch(code.loop(start, 0, limit, length)):
            for name, value in zip(state, reduce.nothing(writer), strict=True):
                code.assign(name, self.emitter.spread(value))
            yield start, code.let(call("min_int", start + length, limit), "stop_")
            for total, own in zip(totals, self.lanes(state[0]), strict=True):
                code.assign(total, call("sum_float", total, writer.convert(own, element, Element.F64)))
        self.assign(state, (self.together([writer.convert(total, Element.F64, element) for total in totals]),))

    def lanes(self, name: Name) -> list[Expression]:
        """What a thread has of its neighbours."""
        return [name] if self.emitter.width == 1 else [name[n] for n in range(self.emitter.width)]

    def below(self, peak: Compute, total: Compute) -> None:
        """A maximum, and the sum of exponentials below it. See `peaks`."""
        writer = self.writer
        made = [reducer(step.reduction.monoid, step.body) for step in (peak, total) if step.reduction is not None]
        held = self.mapping.chunks or self.mapping.pieces is not None
        own = self.one_by_one(peak, total, made) if held else self.at_once(peak, total)
        both = Below()
        found = self.across(both, own)
        highest = made[0].finish(writer, found[:1], None)[0]
        some = writer.call("gt_int", writer._let_dim(reduced(peak)[0].extent), 0)
        nowhere = writer.call("both", some, writer.call("eq_float", highest, LEAST))
        lowered = both.lowered(writer, found[1], found[0], highest)
        below = writer.call("select", nowhere, literal(nan, Element.F32), lowered)
        for step, reduce, value in zip((peak, total), made, (found[0], below), strict=True):
            self.finish(step, reduce, (value,))

    def one_by_one(self, peak: Compute, total: Compute, made: Sequence[Reducer]) -> State:
        """A thread's maximum, then its sum below that: of elements that it holds."""
        states = []
        for step, reduce in zip((peak, total), made, strict=True):
            state = self.accumulators(reduce)
            for there in self.emitter.sweep(reduced(step)[0], unroll=UNROLL):
                self.take(reduce, state, there if there != TRUE else None)
            states.append(self.joined(reduce, state)[0])
            self.emitter.variables[peak.outs[0].symbol] = self.finite(states[-1])
        return states[0], states[1]

    def at_once(self, peak: Compute, total: Compute) -> State:
        """A thread's maximum and its sum below that, of elements that it meets once: as the maximum grows, the sum is lowered."""
        writer, axis = self.writer, reduced(peak)[0]
        body = rename(total.body[0], {reduced(total)[0].symbol: Dim.of(axis.symbol)})
        state = self.named(Below().nothing(writer))
        for there in self.emitter.sweep(axis, unroll=UNROLL):
            some = there if there != TRUE else None
            items = writer.where(some, writer.value(peak.body[0]), LEAST)
            with writer.forgotten():
                varies = some is not None or writer.along(peak.body[0])
                highest = writer.call("max_float", state[0], self.over_lanes("max_float", items, varies))
                above = self.emitter.variables[peak.outs[0].symbol] = self.finite(highest)
                fall = writer.unary("exp", writer.call("sub", state[0], above), Element.F32)
                below = writer.where(some, writer.value(body), ZERO)
                more = self.over_lanes("sum_float", below, some is not None or writer.along(body))
                self.assign(state, (highest, writer.call("sum_product", more, state[1], fall)))
        return state

    def over_lanes(self, op: str, value: Expression, varies: bool) -> Expression:
        """One value of all neighbours'."""
        lane = self.writer.lane
        if lane is None or not varies:
            return value
        parts = [self.code.let(value[n]) for n in range(lane.vector)]
        while len(parts) > 1:
            parts = [self.code.let(call(op, x, y)) for x, y in zip(parts[::2], parts[1::2], strict=True)]
        return parts[0]

    def finite(self, peak: Expression) -> Expression:
        """Below minus infinity there is nothing: 0 stands for it, so that a thread without elements has the sum 0."""
        return self.writer.call("select", self.writer.call("eq_float", peak, LEAST), ZERO, peak)

    def finish(self, step: Compute, reduce: Reducer, total: State) -> None:
        assert step.reduction is not None
        found = reduce.finish(self.writer, total, step.reduction.asked)
        self.emitter.define(step, [value if isinstance(value, Name) else self.code.let(value) for value in found])

    def ordered(self, step: Compute) -> bool:
        """Whether a reduction must be taken in the order of its axes. See Note [Order]."""
        return is_ordered(step)

    def chained(self, reduce: Reducer) -> bool:
        """Whether a thread has one accumulator: of one or two vectors, joining those of neighbours is half the work. It is of
        more where they are joined by places too: one accumulator meets them in rising order."""
        mapping = self.mapping
        few = 0 < mapping.chunks <= (CHAIN if isinstance(reduce, Best) else 2) and mapping.chunks * mapping.vector <= CHAIN
        return mapping.by == "warp" and mapping.vector > 1 and few

    def accumulators(self, reduce: Reducer) -> Names:
        """Variables with what there is before anything is reduced."""
        made = []
        for value in reduce.nothing(self.writer):
            made.append(self.code.let(value if self.chained(reduce) else self.emitter.spread(value), "a"))
        return tuple(made)

    def take(self, reduce: Reducer, state: Names, where: Expression | None) -> None:
        """Take the values at this place in."""
        code, writer = self.code, self.writer
        values = reduce.values(writer)
        with writer.forgotten():
            if not self.chained(reduce):
                for name, value in zip(state, reduce.combine(writer, state, values, where), strict=True):
                    code.assign(name, self.emitter.spread(value))
                return
            lanes = [code.let(self.emitter.spread(value)) for value in (*values, *([where] if where is not None else []))]
            found: State = state
            for n in range(self.emitter.width):
                own = tuple(code.let(lane[n]) for lane in lanes)
                found = reduce.combine(writer, found, own[: len(values)], own[-1] if where is not None else None)
            self.assign(state, found)

    def joined(self, reduce: Reducer, state: State) -> State:
        """One state of a thread's: by rows, its neighbours' together."""
        if not self.team or self.emitter.width == 1 or self.chained(reduce):
            return tuple(self.code.let(name) for name in state)
        parts: list[State] = [tuple(self.code.let(name[n]) for name in state) for n in range(self.emitter.width)]
        total = parts[0]
        for part in parts[1:]:
            total = self.merged(reduce, total, part)
        return total

    def merged(self, reduce: Combiner, left: State, right: State) -> State:
        """Two states as one, the left one's elements before the right one's."""
        writer = self.writer
        if isinstance(reduce, Best):
            return reduce.joined(writer, left, right)
        flagged = reduce.elements[-1] is Element.BOOL and len(reduce.elements) > 1 and hasattr(reduce, "kind")
        if flagged:
            return reduce.combine(writer, left, right[:-1], right[-1])
        return reduce.combine(writer, left, right, None)

    def across(self, reduce: Combiner, state: State) -> Names:
        """A state of the whole team, in every member."""
        code, mapping = self.code, self.mapping
        names = self.named(state)
        self.exchanged(reduce, names, min(mapping.team, WARP))
        if mapping.by == "warp":
            return names
        # The first lane of each warp hands its own on; then every warp joins all of them.
        blocks = mapping.pieces.blocks if mapping.pieces else 1
        warps = mapping.team // WARP
        slots, each = warps * blocks, SLOT * len(names)
        if blocks == 1:
            base: Expression = self.exchange(len(names), slots)
            with code.when(same(self.thread % 32, 0)):
                for n, name in enumerate(names):
                    code.call("keep", base + each * (self.thread // 32) + SLOT * n, name)
            code.call("block_sync")
        else:
            base = self.sent(names, blocks, warps)
        lanes = min(WARP, 1 << (slots - 1).bit_length())
        place, there = code.local("place"), code.local("there")
        for first in range(0, slots, WARP):
            code.assign(place, self.thread % lanes + first)
            full = slots - first >= lanes
            if not full:
                code.assign(there, call("lt_int", place, slots))
                code.assign(place, call("select", there, place, 0))
            found = []
            for n, (element, unit) in enumerate(zip(reduce.elements, reduce.nothing(self.writer), strict=True)):
                kept = code.let(call(f"kept_{element.accumulator.value}", base + each * place + SLOT * n))
                found.append(kept if full else code.let(call("select", there, kept, unit)))
            with self.writer.forgotten():
                self.assign(names, self.merged(reduce, names, tuple(found)) if first else tuple(found))
        self.exchanged(reduce, names, lanes)
        return names

    def sent(self, names: Names, blocks: int, warps: int) -> Expression:
        """Send the states of each warp to all blocks of the cluster, and wait for theirs; where they are then.

        There are two places and barriers, for rows in turn: a block that is ahead cannot be ahead by two rows.
        """
        code, cut = self.code, self.mapping.pieces
        assert cut is not None
        size = SLOT * len(names) * warps * blocks
        at = self.emitter.bytes + self.bytes
        self.bytes += 2 * size
        shared, turn, thread = code.local("shared"), code.local("turn"), self.thread
        barrier = code.let(shared + BARRIER * (cut.stages + 2 * self.sends) + BARRIER * turn, "count_")
        base = code.let(shared + at + size * turn, "exchange_")
        self.sends += 1
        with code.when(same(thread, 0)):
            code.call("barrier_expect", barrier, size)
        with code.when(thread % 32 < blocks, "one lane for each block"):
            for n, name in enumerate(names):
                to = base + SLOT * len(names) * (code.local("rank") * warps + thread // 32) + SLOT * n
                code.call("send", to, name, thread % 32, barrier)
        code.call("barrier_wait", barrier, code.local("half"))
        return base

    def exchanged(self, reduce: Combiner, names: Names, lanes: int) -> None:
        """Join the states of so many neighbouring lanes, in each of them."""
        if lanes == 1:
            return
        step = self.code.local("step")
        with self.writer.branch(self.code.loop(step, lanes.bit_length() - 1)):
            other = tuple(self.code.let(call("shuffle_xor", name, 1 << step)) for name in names)
            self.assign(names, self.merged(reduce, names, other))

    def down(self, reduce: Reducer, state: State) -> Names:
        """By lanes, a state of all threads that share a column, in each of them: by halves, through shared memory."""
        code, mapping = self.code, self.mapping
        names = self.named(state)
        suffix = f"_{mapping.vector}" if mapping.vector > 1 else ""
        held = [element.accumulator for element in reduce.elements]
        sizes = [max(1, element.bits // 8) for element in held]
        places, used = [], 0
        for size in sizes:
            places.append(used)
            used += -(-size * mapping.vector * THREADS // SLOT) * SLOT
        if self.bytes:
            code.call("block_sync")  # what was there before is read
        self.bytes = max(self.bytes, used)
        base, thread = code.local("shared"), self.thread
        pairs = list(zip(names, held, sizes, places, strict=True))

        def keep() -> None:
            for name, element, size, place in pairs:
                code.call(f"stage_{element.value}{suffix}", base + place + thread * (size * mapping.vector), name)

        def taken(of: Expression) -> State:
            return tuple(
                code.let(call(f"staged_{element.value}{suffix}", base + place + of * (size * mapping.vector), size))
                for _, element, size, place in pairs
            )

        each = THREADS // mapping.team
        keep()
        half = mapping.team // 2
        while half:
            code.call("block_sync")
            with self.writer.branch(code.when(code.local("sharer") < half)):
                self.assign(names, self.merged(reduce, names, taken(thread + half * each)))
                keep()
            half //= 2
        code.call("block_sync")
        self.assign(names, taken(call("unsigned_remainder", thread, each)))
        return names

    @property
    def thread(self) -> Name:
        return self.code.local("thread")

    def named(self, state: State) -> Names:
        """Variables of their own, to be assigned."""
        names = tuple(self.code.name("t") for _ in state)
        self.assign(names, state)
        return names

    def assign(self, names: Names, state: State) -> None:
        for name, value in zip(names, state, strict=True):
            self.code.assign(name, value)

    def exchange(self, states: int, slots: int) -> Name:
        """Shared memory for so many scalars of each warp, of its own."""
        return self.room(states * SLOT * slots)

    def room(self, size: int) -> Name:
        """Shared memory of its own for what threads exchange. There are two places, which take turns: none is written while a slow
        warp still reads it, since all warps meet in between."""
        at = self.emitter.bytes + self.bytes
        self.bytes += 2 * size
        self.flips = True
        flip = self.code.local("flip")
        self.code.assign(flip, 1 - flip)
        return self.code.let(self.code.local("shared") + at + size * flip, "exchange_")

    # ── in order ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def scan(self, step: Scan) -> None:
        axes = inner(step, len(self.emitter.nest.rows))
        reduce = reducer(step.monoid, step.body, running=True)
        if self.team:
            with self.emitter.loops(axes[:-1]):
                self.in_order(step, reduce, axes[-1:], step)
            return
        with self.emitter.loops(axes[:-1]):
            state = self.accumulators(reduce)
            if self.emitter.nest.slices is not None:
                self.assign(state, tuple(map(self.emitter.spread, self.before(reduce, step))))
            with self.emitter.loops(axes[-1:]):
                self.take(reduce, state, None)
                found = reduce.finish(self.writer, tuple(self.code.let(name) for name in state), None)
                self.emitter.define(step, found)

    def before(self, reduce: Reducer, step: Compute | Scan) -> State:
        """What a scan begins with: nothing, or of a slice the slices before it."""
        slices, writer, nothing = self.emitter.nest.slices, self.writer, reduce.nothing(self.writer)
        if slices is None or not isinstance(step, Scan):
            return nothing
        (reads,) = (reads for first, reads in slices.before if first == step.outs[0].symbol)
        later = writer.value(Binary("gt", Index(Dim.of(slices.part)), Index(Dim.of(0))))
        return self.choice(later, tuple(map(writer.value, reads)), nothing)

    def in_order(self, step: Compute | Scan, reduce: Reducer, axes: Sequence[Axis], running: Scan | None) -> State:
        """The combination of everything in order; of a scan, every running one is defined on the way. See Note [Order]."""
        code, writer, mapping = self.code, self.writer, self.mapping
        carry = self.named(self.before(reduce, step))
        where = step.reduction.where if isinstance(step, Compute) and step.reduction else None
        each = mapping.team * mapping.vector
        firsts = [each * turn for turn in range(mapping.turns)]
        with self.emitter.loops(axes[:-1]):
            axis = axes[-1]
            limit = writer._let_dim(axis.extent)
            writer.extents[axis.symbol] = axis.extent
            coming = [self.named(self.stretch(reduce, where, axis, lift(first), limit)) for first in firsts]
            if mapping.once:
                self.stretches(reduce, axis, lift(0), limit, coming, carry, running)
            else:
                # What the next stretches need is fetched before these are combined.
                stretch = code.local("stretch")
                with writer.branch(code.loop(stretch, 0, limit, each * mapping.turns)):
                    own = [tuple(code.let(value) for value in one) for one in coming]
                    for one, first in zip(coming, firsts, strict=True):
                        after = self.stretch(reduce, where, axis, stretch + (first + each * mapping.turns), limit)
                        self.assign(one, after)
                    self.stretches(reduce, axis, stretch, limit, own, carry, running)
            del writer.extents[axis.symbol]
        return carry

    def stretches(
        self,
        reduce: Reducer,
        axis: Axis,
        start: Expression,
        limit: Expression,
        own: Sequence[State],
        carry: Names,
        running: Scan | None,
    ) -> None:
        """Take in stretches of a row, one after the other."""
        code, writer, mapping = self.code, self.writer, self.mapping
        sums = [self.running(reduce, one) for one in own]
        found = self.prefixes(reduce, [self.named(one[-1]) for one in sums])
        for turn, (parts, (before, whole)) in enumerate(zip(sums, found, strict=True)):
            earlier = tuple(code.let(name) for name in carry)  # whose name changes its value
            before = self.named(self.merged(reduce, earlier, before))
            if running is not None:
                at = start + turn * mapping.team * mapping.vector + self.emitter.member
                name = code.let(at, f"{axis.symbol.name}_")
                self.emitter.places[axis.symbol] = name
                writer.lane = Lane(axis.symbol, name, mapping.vector)
                there = writer.there((name, limit))
                with writer.masked(there, False), self.emitter.edges(there, name, limit):  # what is not there may have no value
                    stored = self.emitter.read.isdisjoint(out.symbol for out in running.outs)  # alone, by no step after this
                    finished = [reduce.finish(writer, self.merged(reduce, before, one), None, stored=stored) for one in parts]
                    self.emitter.define(running, [self.together(column) for column in zip(*finished, strict=True)])
                    for step in self.emitter.following.get(running.outs[0].symbol, ()):
                        self.emitter.define(step, self.emitter.bodies(step))
                writer.lane = None
                del self.emitter.places[axis.symbol]
            self.assign(carry, tuple(code.let(value) for value in self.merged(reduce, earlier, whole)))

    def stretch(self, reduce: Reducer, where: Scalar | None, axis: Axis, first: Expression, limit: Expression) -> State:
        """What a member's neighbours have, in the stretch that begins there."""
        code, writer, vector = self.code, self.writer, self.mapping.vector
        name = code.let(first + self.emitter.member, f"{axis.symbol.name}_")
        writer.lane = Lane(axis.symbol, name, vector)
        there = writer.there((name, limit))
        with ExitStack() as stack:
            stack.enter_context(writer.masked(there, False))
            there = stack.enter_context(self.emitter.edges(there, name, limit))
            condition: Expression = there
            if where is not None:
                condition = writer.call("both", there, writer.value(where))
                stack.enter_context(writer.masked(condition, writer.along(where)))
            own = reduce.alone(writer, reduce.values(writer), condition)
        writer.lane = None
        return tuple(self.code.let(self.emitter.spread(value)) for value in own)

    def running(self, reduce: Reducer, own: State) -> Sequence[State]:
        """The running combinations of a thread's neighbours."""
        if self.emitter.width == 1:
            return [own]
        sums: list[State] = [tuple(self.code.let(value[0]) for value in own)]
        for n in range(1, self.emitter.width):
            item = tuple(self.code.let(value[n]) for value in own)
            sums.append(self.merged(reduce, sums[-1], item))
        return sums

    def prefixes(self, reduce: Reducer, own: Sequence[State]) -> Sequence[tuple[State, State]]:
        """Of each of several stretches, what the members before this one have together, and what all have."""
        code, writer, team = self.code, self.writer, self.mapping.team
        block = self.mapping.by == "block"
        thread, member = self.thread, code.local("member")
        lane = writer.let(call("unsigned_remainder", thread, 32) if block else member + 0)
        nothing = reduce.nothing(writer)
        least = writer.call("eq_int", lane, 0)
        sums = [self.named(one) for one in own]
        for one in sums:
            self.scanned(reduce, one, lane, min(WARP, team))
        before = []
        for one in sums:
            shifted = one if team == 1 else tuple(code.let(call("shuffle_up", name, 1)) for name in one)
            before.append(self.named(self.choice(least, nothing, shifted)))
        if not block:
            last = call("unsigned_remainder", thread, 32) - member + (team - 1)
            return [
                (first, one if team == 1 else self.named(tuple(code.let(call("shuffle_at", name, last)) for name in one)))
                for first, one in zip(before, sums, strict=True)
            ]
        # The last lane of each warp hands its sums on; then every warp runs over those of all.
        warps, states = team // WARP, len(sums[0])
        base, each = self.exchange(states * len(sums), warps), SLOT * states
        with code.when(same(thread % 32, 31)):
            for turn, one in enumerate(sums):
                for n, name in enumerate(one):
                    code.call("keep", base + each * (thread // 32 + turn * warps) + SLOT * n, name)
        code.call("block_sync")
        place = code.local("place")
        code.assign(place, call("select", call("lt_int", lane, warps), lane, 0))
        lowest = writer.call("lt_int", thread, 32)
        out = []
        for turn, first in enumerate(before):
            totals = self.named(tuple(
                call(f"kept_{element.accumulator.value}", base + each * (place + turn * warps) + SLOT * n)
                for n, element in enumerate(reduce.elements)
            ))  # fmt: skip
            self.scanned(reduce, totals, lane, 1 << (warps - 1).bit_length())
            whole = self.named(tuple(code.let(call("shuffle_at", name, warps - 1)) for name in totals))
            above: State = tuple(code.let(call("shuffle_at", name, call("max_int", thread // 32 - 1, 0))) for name in totals)
            above = self.choice(lowest, nothing, above)
            out.append((self.merged(reduce, above, first), whole))
        return out

    def scanned(self, reduce: Reducer, names: Names, lane: Expression, lanes: int) -> None:
        """The running combinations of so many neighbouring lanes."""
        if lanes == 1:
            return
        step, reached = self.code.local("step"), self.code.local("reached")
        with self.writer.branch(self.code.loop(step, lanes.bit_length() - 1)):
            other = tuple(self.code.let(call("shuffle_up", name, 1 << step)) for name in names)
            self.code.assign(reached, call("ge_int", lane, 1 << step))
            self.assign(names, self.choice(reached, self.merged(reduce, other, names), names))

    def choice(self, condition: Expression, yes: State, no: State) -> State:
        return tuple(self.code.let(call("select", condition, x, y)) for x, y in zip(yes, no, strict=True))

    def together(self, values: Sequence[Expression]) -> Expression:
        """The values of neighbours as one."""
        return values[0] if len(values) == 1 else self.code.let(Several(tuple(values)))
