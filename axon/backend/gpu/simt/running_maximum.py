"""The sum of exponentials below a maximum, found together with that maximum: what a team exchanges is exchanged once.

A sum over j of exp (t j - m), with m the maximum of all t j, seems to need m before it begins. But each thread may take the
maximum of its own elements in place of m: of two threads' (maximum, sum), the sum of the lower one is repaired by the exponential
of the difference of the maxima (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). So a softmax and a cross
entropy make their threads and blocks wait for each other once less.
"""

from __future__ import annotations

from math import inf

from axon.backend.kernel.ir import Expression
from axon.backend.kernel.reducers import State
from axon.backend.kernel.writer import Writer, literal
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Binary, Compute, Read, Unary, element_of
from axon.core.walk import rename
from axon.shapes.dimension import Dim

LEAST, ZERO = literal(-inf, Element.F32), literal(0, Element.F32)


def peaks(nest: Nest) -> dict[Symbol, Compute]:
    """The maxima, each with the sum of exponentials below it that comes next."""
    found = {}
    for peak, total in zip(nest.steps, nest.steps[1:], strict=False):
        if isinstance(peak, Compute) and isinstance(total, Compute) and _is_below(nest, total, peak):
            found[peak.outs[0].symbol] = total
    return found


def _is_plain(nest: Nest, step: Compute, kind: str) -> bool:
    """Whether a step reduces one axis of each row, all of it, in f32."""
    reduction = step.reduction
    if reduction is None or reduction.monoid.kind != kind or reduction.where is not None or inner(step, len(nest.rows)):
        return False
    return len(reduction.axes) == 1 and element_of(step.body[0]).accumulator is Element.F32


def _is_below(nest: Nest, total: Compute, peak: Compute) -> bool:
    """Whether a step is the sum of `exp (t - m)` over all that `m`, the maximum, is of."""
    if not _is_plain(nest, peak, "max") or not _is_plain(nest, total, "sum") or reduced(total)[0].extent != reduced(peak)[0].extent:
        return False
    match total.body[0]:
        case Unary("exp", Binary("sub", item, Read() as read)):
            same = rename(peak.body[0], {reduced(peak)[0].symbol: Dim.of(reduced(total)[0].symbol)})
            rows = tuple(Dim.of(axis.symbol) for axis in nest.rows)
            return item == same and read.tensor == peak.outs[0].symbol and read.subscripts == rows
        case _:
            return False


class Below:
    """A maximum and the sum of exponentials below it, as what a team puts together."""

    elements: tuple[Element, ...] = (Element.F32, Element.F32)

    def nothing(self, writer: Writer) -> State:
        return LEAST, ZERO

    def combine(self, writer: Writer, state: State, values: State, where: Expression | None) -> State:
        peak = writer.call("max_float", state[0], values[0])
        mine, theirs = (self.lowered(writer, total, own, peak) for own, total in (state, values))
        return peak, writer.call("sum_float", mine, theirs)

    def lowered(self, writer: Writer, total: Expression, own: Expression, peak: Expression) -> Expression:
        """The sum below one maximum as that below a higher one; equal ones may be infinite."""
        fall = writer.unary("exp", writer.call("sub", own, peak), Element.F32)
        same = writer.call("eq_float", own, peak)
        return writer.call("mul", total, writer.call("select", same, literal(1, Element.F32), fall))
