"""Reductions and scans of a nest: what each thread of a team has, and how a team puts it together.

Note [Order]
    Members take a loop's elements in turn, so a sum is taken in another order than its axis has. Where order matters (a custom
    monoid, the place of the first best, a running combination), the team takes its elements stretch by stretch: each member a few
    neighbours, then a scan over the members, then what came before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from axon.backend.lanes import inner
from axon.backend.reducers import Reducer, State, reducer
from axon.backend.simt.access import is_ordered
from axon.backend.simt.mapping import MOST, WARP
from axon.backend.simt.writer import Lane
from axon.backend.writer import Code
from axon.core import Axis, Compute, Scalar, Scan
from axon.element import Element

if TYPE_CHECKING:
    from axon.backend.simt.emit import Emitter

UNROLL = 4  # turns of a loop that fetch before any of them computes
SLOT = 8  # bytes of shared memory for a scalar of one warp


class Reductions:
    """Writes the reductions and scans of one kernel. `slots`: scalars of each warp that have a place in shared memory."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter, self.code, self.writer, self.mapping = emitter, emitter.code, emitter.writer, emitter.mapping
        self.slots = 0

    @property
    def team(self) -> str:
        return self.emitter.team

    def reduction(self, step: Compute) -> None:
        reduction, writer, rows = step.reduction, self.writer, len(self.emitter.nest.rows)
        assert reduction is not None
        reduce = reducer(reduction.monoid, step.body)
        axes = inner(step, rows)
        if self.ordered(step) and self.team:
            with self.emitter.loops(axes):
                total = self.in_order(step, reduce, reduction.axes, None)
                self.finish(step, reduce, total)
            return
        with self.emitter.loops(axes):
            state = self.accumulators(reduce)
            with self.emitter.loops(reduction.axes[:-1]):
                for there in self.emitter.sweep(reduction.axes[-1], unroll=UNROLL):
                    where = there if there != "True" else ""
                    if reduction.where is None:
                        self.take(reduce, state, where)
                    else:
                        condition = writer.value(reduction.where)
                        with writer.masked(condition, writer.along(reduction.where)):
                            self.take(reduce, state, writer.let(f"both({condition}, {where})") if where else condition)
            total = self.joined(reduce, state)
            if self.team:
                total = self.across(reduce, total)
            self.finish(step, reduce, total)

    def finish(self, step: Compute, reduce: Reducer, total: State) -> None:
        assert step.reduction is not None
        found = reduce.finish(self.writer, total, step.reduction.asked)
        self.emitter.define(step, [value if value.isidentifier() else self.code.let(value) for value in found])

    def ordered(self, step: Compute) -> bool:
        """Whether a reduction must be taken in the order of its axes. See Note [Order]."""
        return step.reduction is not None and is_ordered(step.reduction.monoid)

    def accumulators(self, reduce: Reducer) -> State:
        """Variables with what there is before anything is reduced."""
        made = []
        for value in reduce.nothing(self.writer):
            name = self.code.name("a")
            self.code.line(f"{name} = {self.emitter.spread(value)}")
            made.append(name)
        return tuple(made)

    def take(self, reduce: Reducer, state: State, where: str) -> None:
        """Take the values at this place in."""
        writer = self.writer
        values = reduce.values(writer)
        with writer.forgotten():
            for name, value in zip(state, reduce.combine(writer, state, values, where), strict=True):
                self.code.line(f"{name} = {self.emitter.spread(value)}")

    def joined(self, reduce: Reducer, state: State) -> State:
        """One state of a thread's: by rows, its neighbours' together."""
        if not self.team or self.emitter.width == 1:
            return tuple(self.code.let(name) for name in state)
        parts = [tuple(self.code.let(f"{name}[{n}]") for name in state) for n in range(self.emitter.width)]
        total = parts[0]
        for part in parts[1:]:
            total = self.merged(reduce, total, part)
        return total

    def merged(self, reduce: Reducer, left: State, right: State) -> State:
        """Two states as one, the left one's elements before the right one's."""
        writer = self.writer
        flagged = reduce.elements[-1] is Element.BOOL and len(reduce.elements) > 1 and hasattr(reduce, "kind")
        if flagged:
            return reduce.combine(writer, left, right[:-1], right[-1])
        return reduce.combine(writer, left, right, "")

    def across(self, reduce: Reducer, state: State) -> State:
        """A state of the whole team, in every member."""
        code = self.code
        names = self.named(state)
        with self.writer.branch(f"for step in range({f'bits({self.team})' if self.mapping.by == 'warp' else 5}):"):
            other = tuple(code.let(f"shuffle_xor({name}, 1 << step)") for name in names)
            self.assign(names, self.merged(reduce, names, other))
        if self.mapping.by == "warp":
            return names
        # The first lane of each warp hands its own on; then every warp joins all of them.
        base, each = self.exchange(len(names)), SLOT * len(names)
        with code.block("if thread % 32 == 0:"):
            for n, name in enumerate(names):
                code.line(f"keep({base} + {each} * (thread // 32) + {SLOT * n}, {name})")
        code.line("block_sync()")
        code.line("there = lt_int(thread % 32, team // 32)")
        code.line("place = select(there, thread % 32, 0)")
        for n, (name, element, unit) in enumerate(zip(names, reduce.elements, reduce.nothing(self.writer), strict=True)):
            kept = code.let(f"kept_{element.accumulator.value}({base} + {each} * place + {SLOT * n})")
            code.line(f"{name} = select(there, {kept}, {unit})")
        with self.writer.branch("for step in range(5):"):
            other = tuple(code.let(f"shuffle_xor({name}, 1 << step)") for name in names)
            self.assign(names, self.merged(reduce, names, other))
        return names

    def named(self, state: State) -> State:
        """Variables of their own, to be assigned."""
        names = tuple(self.code.name("t") for _ in state)
        self.assign(names, state)
        return names

    def assign(self, names: State, state: State) -> None:
        for name, value in zip(names, state, strict=True):
            self.code.line(f"{name} = {value}")

    def exchange(self, states: int) -> str:
        """Shared memory for the states of all warps, of its own. There are two places, which take turns: none is written while a
        slow warp still reads it, since all warps meet in between."""
        size = states * SLOT * (MOST // WARP)
        at = self.slots * SLOT * (MOST // WARP)
        self.slots += 2 * states
        self.code.line("flip = 1 - flip")
        return self.code.let(f"shared + {at} + {size} * flip", "exchange_")

    # ── in order ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def scan(self, step: Scan) -> None:
        axes = inner(step, len(self.emitter.nest.rows))
        reduce = reducer(step.monoid, step.body)
        if self.team:
            with self.emitter.loops(axes[:-1]):
                self.in_order(step, reduce, axes[-1:], step)
            return
        with self.emitter.loops(axes[:-1]):
            state = self.accumulators(reduce)
            with self.emitter.loops(axes[-1:]):
                self.take(reduce, state, "")
                found = reduce.finish(self.writer, tuple(self.code.let(name) for name in state), None)
                self.emitter.define(step, found)

    def in_order(self, step: Compute | Scan, reduce: Reducer, axes: Sequence[Axis], running: Scan | None) -> State:
        """The combination of everything in order; of a scan, every running one is defined on the way. See Note [Order]."""
        code, writer, vector = self.code, self.writer, self.mapping.vector
        carry = self.named(reduce.nothing(writer))
        where = step.reduction.where if isinstance(step, Compute) and step.reduction else None
        with self.emitter.loops(axes[:-1]):
            axis = axes[-1]
            limit = writer._let_dim(axis.extent)
            name = self.emitter.names[axis.symbol]
            stride = f"{self.team} * {vector}" if vector > 1 else self.team
            writer.extents[axis.symbol] = axis.extent
            # What the next stretch needs is fetched before this one is combined.
            coming = self.named(self.stretch(reduce, where, axis, "0", limit))
            with writer.branch(f"for stretch in range(0, {limit}, {stride}):"):
                own = tuple(code.let(value) for value in coming)
                self.assign(coming, self.stretch(reduce, where, axis, f"stretch + {stride}", limit))
                sums = self.running(reduce, own)
                before, whole = self.prefixes(reduce, self.named(sums[-1]))
                before = self.named(self.merged(reduce, carry, before))
                if running is not None:
                    code.line(f"{name} = stretch + member * {vector}" if vector > 1 else f"{name} = stretch + member")
                    writer.lane = Lane(axis.symbol, name, vector)
                    parts = [reduce.finish(writer, self.merged(reduce, before, one), None) for one in sums]
                    with writer.masked(writer.let(f"lt_int({name}, {limit})"), False):
                        self.emitter.define(running, [_together(code, column) for column in zip(*parts, strict=True)])
                    writer.lane = None
                self.assign(carry, tuple(code.let(text) for text in self.merged(reduce, carry, whole)))
            del writer.extents[axis.symbol]
        return carry

    def stretch(self, reduce: Reducer, where: Scalar | None, axis: Axis, first: str, limit: str) -> State:
        """What a member's neighbours have, in the stretch that begins there."""
        code, writer, vector = self.code, self.writer, self.mapping.vector
        name = code.let(f"{first} + member * {vector}" if vector > 1 else f"{first} + member", f"{axis.symbol.name}_")
        writer.lane = Lane(axis.symbol, name, vector)
        there = writer.let(f"lt_int({name}, {limit})")
        with writer.masked(there, False):
            condition, varies = there, False
            if where is not None:
                condition, varies = writer.let(f"both({there}, {writer.value(where)})"), writer.along(where)
            with writer.masked(condition, varies):
                own = reduce.combine(writer, reduce.nothing(writer), reduce.values(writer), condition)
        writer.lane = None
        return tuple(self.code.let(self.emitter.spread(value)) for value in own)

    def running(self, reduce: Reducer, own: State) -> list[State]:
        """The running combinations of a thread's neighbours."""
        if self.emitter.width == 1:
            return [own]
        sums = [tuple(self.code.let(f"{value}[0]") for value in own)]
        for n in range(1, self.emitter.width):
            item = tuple(self.code.let(f"{value}[{n}]") for value in own)
            sums.append(self.merged(reduce, sums[-1], item))
        return sums

    def prefixes(self, reduce: Reducer, own: State) -> tuple[State, State]:
        """What the members before this one have together, and what all have."""
        code, writer = self.code, self.writer
        block = self.mapping.by == "block"
        lane = code.let("thread % 32" if block else "member")
        sums = self.named(own)
        with writer.branch(f"for step in range({5 if block else f'bits({self.team})'}):"):
            other = tuple(code.let(f"shuffle_up({name}, 1 << step)") for name in sums)
            code.line(f"reached = ge_int({lane}, 1 << step)")
            self.assign(sums, self.chosen("reached", self.merged(reduce, other, sums), sums))
        nothing = reduce.nothing(writer)
        first = writer.let(f"eq_int({lane}, 0)")
        before = tuple(code.let(f"shuffle_up({name}, 1)") for name in sums)
        before = self.named(self.chosen(first, nothing, before))
        last = "31" if block else f"(thread % 32 - member) + {self.team} - 1"
        whole = self.named(tuple(code.let(f"shuffle_at({name}, {last})") for name in sums))
        if not block:
            return before, whole
        # The last lane of each warp hands its sum on; then every warp runs over all of them.
        base = self.exchange(len(sums))
        with code.block("if thread % 32 == 31:"):
            for n, name in enumerate(sums):
                code.line(f"keep({base} + {SLOT * len(sums)} * (thread // 32) + {SLOT * n}, {name})")
        code.line("block_sync()")
        code.line("warps = team // 32")
        code.line(f"place = select(lt_int({lane}, warps), {lane}, 0)")
        totals = self.named(tuple(
            f"kept_{element.accumulator.value}({base} + {SLOT * len(sums)} * place + {SLOT * n})"
            for n, element in enumerate(reduce.elements)
        ))  # fmt: skip
        with writer.branch("for step in range(5):"):
            other = tuple(code.let(f"shuffle_up({name}, 1 << step)") for name in totals)
            code.line(f"reached = ge_int({lane}, 1 << step)")
            self.assign(totals, self.chosen("reached", self.merged(reduce, other, totals), totals))
        whole = self.named(tuple(code.let(f"shuffle_at({name}, warps - 1)") for name in totals))
        above = tuple(code.let(f"shuffle_at({name}, max_int(thread // 32 - 1, 0))") for name in totals)
        lowest = writer.let("lt_int(thread, 32)")
        above = self.chosen(lowest, nothing, above)
        return self.merged(reduce, above, before), whole

    def chosen(self, condition: str, yes: State, no: State) -> State:
        return tuple(self.code.let(f"select({condition}, {x}, {y})") for x, y in zip(yes, no, strict=True))


def _together(code: Code, values: Sequence[str]) -> str:
    """The values of neighbours as one."""
    return values[0] if len(values) == 1 else code.let(f"({', '.join(values)})")
