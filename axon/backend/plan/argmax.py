"""The place of the best value of a row in two loops that vectorize: what the best value is, and where it is first.

Taking both along in one loop makes each step wait for the one before it. Values that are not merely read are kept in a buffer of
the row. The first NaN is best of all: the maximum of a row that has one is NaN, and then NaNs are what is looked for.
"""

from __future__ import annotations

from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import fresh
from axon.core.ir import Axis, Binary, Compute, Const, Index, Monoid, Read, Reduction, Scalar, Scan, Select, Value, element_of
from axon.core.scalar_facts import is_trivial, renamed
from axon.shapes.dimension import Dim

_NOWHERE = 2**31 - 2  # the last place that may be; a number neutral to `min` would be taken for a branch, and not be a vector


def split_best(nest: Nest) -> Nest:
    """The nest with every plain `argmax` and `argmin` along one axis as such steps."""
    steps: list[Compute | Scan] = []
    for step in nest.steps:
        steps.extend(_split(step) if isinstance(step, Compute) else [step])
    return Nest(nest.rows, tuple(steps), nest.stored, nest.reasons)


def _split(step: Compute) -> list[Compute]:
    reduction = step.reduction
    if reduction is None or reduction.monoid.kind not in ("argmax", "argmin") or reduction.where is not None:
        return [step]
    if len(reduction.axes) != 1 or step.body[1:] != (Index(Dim.of(reduction.axes[0].symbol)),):
        return [step]
    (axis,), (value, index) = reduction.axes, step.body
    if not axis.extent.variables.isdisjoint(a.symbol for a in step.axes):
        return [step]
    element = element_of(value)
    kind: MonoidKind = "max" if reduction.monoid.kind == "argmax" else "min"
    shape = tuple(a.extent for a in step.axes)
    places = tuple(Dim.of(a.symbol) for a in step.axes)
    made: list[Compute] = []
    if not is_trivial(value):
        kept = Value(fresh("values"), element, (*shape, axis.extent))
        made.append(_over(axis, Compute((kept,), (*step.axes, axis), None, (value,), step.span)))
        value = Read(kept.symbol, (*places, Dim.of(axis.symbol)), element)
    best = Value(fresh("best"), element, shape)
    search = Reduction((axis,), Monoid(kind), None, reduction.asked)
    made.append(_over(axis, Compute((best,), step.axes, search, (value,), step.span)))
    found: Scalar = Binary("eq", value, Read(best.symbol, places, element))
    if element.is_float:
        found = Binary("or", found, Binary("ne", value, value))
    where = Reduction((axis,), Monoid("min"), None, reduction.asked)
    made.append(Compute(step.outs, step.axes, where, (Select(found, index, Const(_NOWHERE, Element.I32)),), step.span))
    return made


def _over(axis: Axis, made: Compute) -> Compute:
    """With an axis of its own in place of the step's."""
    renamed_op = renamed(made, {axis.symbol: fresh(axis.symbol.name)})
    assert isinstance(renamed_op, Compute)
    return renamed_op
