"""A scatter of a plan as a function: one pass over what is reduced, each value taken into the place that its index names.

`sum for i where ids[i] = b => x[i]` over `b` would look at every `i` for every `b`. Here all places have an accumulator, and `i`
runs once.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.cpu.function import Function
from axon.backend.cpu.nests import NestWriter
from axon.backend.kernel.ir import TRUE, Constant, Expression, call
from axon.backend.kernel.reducers import Slots, reducer
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import side_by_side
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Read, Scalar, Value
from axon.core.scalar_facts import Scatter, at_least_0, scatter, varies
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim, minimum


def write(nest: Nest, values: dict[Symbol, Value], name: str, comments: Sequence[str] = ()) -> Function:
    """The function of a nest whose family is scatter."""
    (step,) = nest.steps
    assert isinstance(step, Compute)
    found = scatter(step)
    assert found is not None
    rows = tuple(axis for axis in nest.rows if axis != found.axis)
    function = _Scatter(replace(nest, rows=rows), values, name, found).write(comments)
    # Where there are no places, nothing is evaluated.
    return replace(function, rows=function.rows * minimum(1, at_least_0(found.axis.extent)))


class _Scatter(NestWriter):
    def __init__(self, nest: Nest, values: dict[Symbol, Value], name: str, found: Scatter) -> None:
        super().__init__(nest, values, name)
        self.found = found
        self.step_op = nest.steps[0]
        self.width: Expression = Constant(0)  # how many lanes an accumulator has
        self.choose(bool(nest.rows) and self._fits(nest.rows[-1]))

    def _fits(self, lane: Axis) -> bool:
        """Whether lanes along an axis lie side by side, and share what is reduced and its index."""
        step = self.step_op
        assert isinstance(step, Compute)
        assert step.reduction is not None
        shared: tuple[Scalar, ...] = (self.found.index, *((self.found.also,) if self.found.also is not None else ()))
        if any(varies(s, frozenset((lane.symbol,))) for s in shared) or step.axes[-1] != lane:
            return False
        if any(lane.symbol in reduced.extent.variables for reduced in step.reduction.axes):
            return False
        return all(side_by_side(n.subscripts, lane.symbol) for s in scalars(step) for n in nodes(s) if isinstance(n, Read))

    def keeps_lanes(self) -> bool:
        return True

    def steps(self) -> None:
        step, found, code = self.step_op, self.found, self.code
        assert isinstance(step, Compute)
        assert step.reduction is not None
        reduce = reducer(step.reduction.monoid, step.body)
        lanes = minimum(self.lane.axis.extent, self.lane_count) if self.lane is not None else Dim.of(1)
        self.width = self.size(lanes)
        names = tuple(self.buffer(f"{step.outs[0].symbol.name}_acc", e, found.axis.extent * lanes) for e in reduce.elements)
        slots = Slots(names, reduce.elements)
        rows, place = self.nest.rows, code.named(found.axis.symbol.name)
        self.names[found.axis.symbol] = place
        scope = [*rows, found.axis]
        extent = self.size(found.axis.extent)
        self.comment(step)
        with code.loop(place, extent), self.lane_loop(self.lane):
            writer = self.writer(scope)
            slots.set(writer, self._slot(place), reduce.nothing(writer))
        with self.loops(step.reduction.axes, rows):
            writer = self.writer([*rows, *step.reduction.axes])
            index = writer.convert(writer.value(found.index), found.element, Element.I64)
            code.assign(place, index)
            inside = writer.call("both", call("ge_int", place, 0), call("lt_int", place, extent))
            failed = writer.fails
            with code.when(inside):
                writer = self.writer([*scope, *step.reduction.axes])
                also: Expression = TRUE
                if found.also is not None:
                    also = code.local("also")
                    code.assign(also, writer.value(found.also))
                with self.lane_loop(self.lane):
                    inner = self.writer([*scope, *step.reduction.axes])
                    with inner.branch(code.when(also)):
                        state, values = slots.get(inner, self._slot(place)), reduce.values(inner)
                        slots.set(inner, self._slot(place), reduce.combine(inner, state, values, None))
                failed = failed or writer.fails or inner.fails
        with code.loop(place, extent), self.lane_loop(self.lane):
            writer = self.writer(scope)
            state = slots.get(writer, self._slot(place))
            for out, value in zip(step.outs, reduce.finish(writer, state, step.reduction.asked), strict=True):
                self.define(writer, out, value, step.axes, False)
        if failed or writer.fails:
            self.stop()

    def _slot(self, place: Expression) -> Expression:
        if self.lane is None:
            return place
        return place * self.width + self.names[self.lane.axis.symbol] - self.lane.start
