"""Sums of many elements, in runs whose sums are added.

Note [Sums of sums]
    A sum in one accumulator loses digits with every element: what it adds is rounded to the size of all before it. So long sums are
    made in runs, each with an accumulator of its own, and what runs give is added in f64: the error grows with the length of a run.
    Of several axes, a run is the sum over the inner ones. Axes that every access takes together are one (see `collapsed`), since
    a short run costs a vectorized loop more than its sums; one axis is summed in runs of RUN where the accumulator is a variable,
    of FEW where every lane has one in memory. If a body is BRIEF, no more than one run is a loop of its own, whose bounds the rows
    share: that is quicker for short rows, but LLVM takes twice as long.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext

from axon.backend.cpu.parameters import Parameters
from axon.backend.kernel.ir import Constant, Expression, Name, call
from axon.backend.kernel.reducers import Reducer, Slots, State
from axon.backend.kernel.writer import Writer
from axon.backend.plan import lanes
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute
from axon.core.walk import nodes, scalars

RUN = 2048  # elements that are summed in one variable
BRIEF = 3  # nodes of a body
FEW = 128  # that are summed in a lane's place

WIDE = (Element.F64,)
NOTHING: State = (Constant(0.0),)
Body = Callable[[Sequence[Slots]], bool]  # writes what a loop combines with accumulators; whether it may fail
LaneBody = Callable[[Sequence[Name]], bool]  # the same for these indices of an axis, with those of lanes


@dataclass(frozen=True, slots=True)
class Vector:
    """The axis along which accumulators lie: its variable runs from `start` to `stop`, `lanes` at once."""

    axis: Axis
    start: Expression
    stop: Expression
    lanes: Expression


class Runs(Parameters):
    """Writes the loops over what is reduced."""

    names: dict[Symbol, Name]
    several: frozenset[Symbol]  # axes that were more than one

    @abstractmethod
    def writer(self, axes: Sequence[Axis]) -> Writer:
        """Of scalars, in the scope of some axes."""

    @abstractmethod
    def loops(self, axes: Sequence[Axis], scope: Sequence[Axis]) -> AbstractContextManager[bool]:
        """Loops over axes; whether their extents may fail."""

    @abstractmethod
    def lane_loop(self, vector: Vector | None) -> AbstractContextManager[None]:
        """The loop over lanes, if there are any."""

    @abstractmethod
    def slots(self, elements: tuple[Element, ...], vector: Vector | None, stem: str) -> Slots:
        """New accumulators: variables, or buffers with a place for every lane."""

    @abstractmethod
    def place_of(self, vector: Vector | None) -> Expression | None:
        """Where a lane's place is in a buffer."""

    def runs(self, step: Compute, reduce: Reducer, slots: Sequence[Slots], scope: list[Axis], body: Body) -> bool:
        """Loops over what a step reduces, with accumulators in variables."""
        axes = lanes.reduced(step)
        if len(axes) == 1 and reduce.in_parts and not _few(axes[0], RUN):
            brief = len(slots) == 1 and sum(1 for scalar in scalars(step) for _ in nodes(scalar)) <= BRIEF
            return self._in_runs(axes[0], reduce, slots, scope, body, brief)
        return self._nested(axes, reduce, slots, scope, body)

    def _nested(self, axes: tuple[Axis, ...], reduce: Reducer, slots: Sequence[Slots], scope: list[Axis], body: Body) -> bool:
        """The sum over an axis of the sums over those inside it."""
        if len(axes) == 1 and reduce.in_parts and axes[0].symbol in self.several:
            return self._in_runs(axes[0], reduce, slots, scope, body)
        if len(axes) == 1 or not reduce.in_parts:
            with self.loops(axes, scope) as fails:
                return body(slots) | fails
        inside = [*scope, axes[0]]
        with self._total(reduce, slots, scope) as add, self.loops(axes[:1], scope) as failed:
            failed |= add(lambda own: self._nested(axes[1:], reduce, own, inside, body))
        return failed

    def _in_runs(
        self, axis: Axis, reduce: Reducer, slots: Sequence[Slots], scope: list[Axis], body: Body, brief: bool = False
    ) -> bool:
        """A loop over an axis, in runs of RUN."""
        code, writer = self.code, self.writer(scope)
        extent = code.let(writer.dim(axis.extent), "extent_")
        start, name = code.named("start"), code.named(axis.symbol.name)
        self.names[axis.symbol] = name

        def run(own: Sequence[Slots]) -> bool:
            with code.loop(name, start, call("min_int", start + RUN, extent)):
                return body(own)

        if brief:
            with code.when(extent <= RUN), code.loop(name, 0, extent):
                body(slots)
        longer = code.otherwise() if brief else nullcontext()
        with longer, self._total(reduce, slots, scope) as add, code.loop(start, 0, extent, RUN):
            failed = add(run)
        return failed | writer.fails

    @contextmanager
    def _total(self, reduce: Reducer, slots: Sequence[Slots], scope: list[Axis]) -> Iterator[Callable[[Body], bool]]:
        """Around a loop whose step adds what a body sums; in the end `slots` have the whole."""
        writer = self.writer(scope)
        totals = [self.slots(WIDE, None, "") for _ in slots]
        for total in totals:
            total.set(writer, None, NOTHING)

        def add(body: Body) -> bool:
            parts = [self.slots(reduce.elements, None, "") for _ in slots]
            for part in parts:
                part.set(writer, None, reduce.nothing(writer))
            failed = body(parts)
            after = self.writer(scope)
            for total, part in zip(totals, parts, strict=True):
                total.set(after, None, _plus(after, total.names, part.names, reduce))
            return failed

        yield add
        for mine, total in zip(slots, totals, strict=True):
            mine.set(writer, None, _rounded(writer, total.names, reduce))

    def lane_runs(
        self, axes: tuple[Axis, ...], reduce: Reducer, slots: Slots, vector: Vector, scope: list[Axis], jam: int, body: LaneBody
    ) -> bool:
        """Loops over what is reduced, around a loop over lanes that have places in `slots`, which `body` writes for some indices of
        the innermost one at once: `jam` of them as long as there are so many. Whether they may fail."""
        if len(axes) > 1 or not reduce.in_parts or _few(axes[0], FEW):
            with self.loops(axes[:-1], scope) as failed:
                writer = self.writer([*scope, *axes[:-1]])
                extent = writer.dim(axes[-1].extent)
                return failed | self._jammed_loop(axes[-1], Constant(0), extent, jam, body) | writer.fails
        code, writer = self.code, self.writer(scope)
        extent = code.let(writer.dim(axes[0].extent), "extent_")
        start = code.named("start")
        totals = self.slots(WIDE, vector, axes[0].symbol.name)
        with code.when(extent > FEW), self.lane_loop(vector):
            totals.set(writer, self.place_of(vector), NOTHING)
        with code.loop(start, 0, extent, FEW):
            with code.when(start > 0), self.lane_loop(vector):
                writer, place = self.writer(scope), self.place_of(vector)
                totals.set(writer, place, _plus(writer, totals.get(writer, place), slots.get(writer, place), reduce))
                slots.set(writer, place, reduce.nothing(writer))
            failed = self._jammed_loop(axes[0], start, call("min_int", start + FEW, extent), jam, body)
        with code.when(extent > FEW), self.lane_loop(vector):
            writer, place = self.writer(scope), self.place_of(vector)
            whole = _plus(writer, totals.get(writer, place), slots.get(writer, place), reduce)
            slots.set(writer, place, _rounded(writer, whole, reduce))
        return failed | writer.fails

    def _jammed_loop(self, axis: Axis, start: Expression, end: Expression, jam: int, body: LaneBody) -> bool:
        """A loop over an axis, in turns of so many of its indices; then one by one."""
        code, failed = self.code, False
        if jam > 1:
            end = code.let(end)
            between = code.let(end - call("unsigned_remainder", call("max_int", end - start, 0), jam))
            name = self.names[axis.symbol] = code.named(axis.symbol.name)
            with code.loop(name, start, between, jam):
                failed |= body([name, *(code.let(name + i) for i in range(1, jam))])
            start = between
        name = self.names[axis.symbol] = code.named(axis.symbol.name)
        with code.loop(name, start, end):
            failed |= body([name])
        return failed


def _plus(writer: Writer, total: State, part: State, reduce: Reducer) -> State:
    """A total with the sum of a part."""
    (element,) = reduce.elements
    return (writer.let(call("sum_float", total[0], writer.convert(part[0], element, Element.F64))),)


def _rounded(writer: Writer, total: State, reduce: Reducer) -> State:
    (element,) = reduce.elements
    return (writer.convert(total[0], Element.F64, element),)


def _few(axis: Axis, count: int) -> bool:
    """Whether it is known that an axis has no more elements."""
    extent = axis.extent.constant
    return extent is not None and extent <= count
