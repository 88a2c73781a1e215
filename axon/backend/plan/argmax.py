"""The place of the best value of a row, in a loop that vectorizes: values that are not merely read are kept in a buffer of the row.

Taking the place along with the value makes each step wait for the one before it. So who writes such a step (`is_plain`) looks for
the best value of a block, and for its place only in the block that had it first. The first NaN is best of all.
"""

from __future__ import annotations

from axon.backend.plan.ir import Nest
from axon.base.names import fresh
from axon.core.ir import Axis, Compute, Index, Read, Scan, Value, element_of
from axon.core.scalar_facts import is_trivial, renamed
from axon.shapes.dimension import Dim


def split_best(nest: Nest) -> Nest:
    """The nest with the values of every plain `argmax` and `argmin` along one axis in a step of their own, if they are computed."""
    steps: list[Compute | Scan] = []
    for step in nest.steps:
        steps.extend(_split(step) if isinstance(step, Compute) and is_plain(step) else [step])
    return Nest(nest.rows, tuple(steps), nest.stored, nest.reasons)


def is_plain(step: Compute) -> bool:
    """Whether a step gives the place of the best value along one axis."""
    reduction = step.reduction
    if reduction is None or reduction.monoid.kind not in ("argmax", "argmin") or reduction.where is not None:
        return False
    if len(reduction.axes) != 1 or step.body[1:] != (Index(Dim.of(reduction.axes[0].symbol)),):
        return False
    return reduction.axes[0].extent.variables.isdisjoint(a.symbol for a in step.axes)


def _split(step: Compute) -> list[Compute]:
    assert step.reduction is not None
    (axis,), (value, index) = step.reduction.axes, step.body
    if is_trivial(value):
        return [step]
    element = element_of(value)
    shape = tuple(a.extent for a in step.axes)
    places = tuple(Dim.of(a.symbol) for a in step.axes)
    kept = Value(fresh("values"), element, (*shape, axis.extent))
    made = _over(axis, Compute((kept,), (*step.axes, axis), None, (value,), step.span))
    found = Read(kept.symbol, (*places, Dim.of(axis.symbol)), element)
    return [made, Compute(step.outs, step.axes, step.reduction, (found, index), step.span)]


def _over(axis: Axis, made: Compute) -> Compute:
    """With an axis of its own in place of the step's."""
    renamed_op = renamed(made, {axis.symbol: fresh(axis.symbol.name)})
    assert isinstance(renamed_op, Compute)
    return renamed_op
