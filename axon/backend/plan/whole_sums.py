"""Which steps of nests are products of tensors that are read at their indices, or sums of such products.

    is_sum        a step -> whether it is one, in f32 or f64
    factors_of    what a step computes -> the factors, if it is a product of tensors

Each index of a tensor is a number, or one of the step's own times a number and moved by one: so every factor and the result lie at
fixed strides along the step's indices, and in which order these are gone through is open.
"""

from __future__ import annotations

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Const, Read, Scalar, Scan, Select
from axon.core.scalar_facts import operands
from axon.core.walk import all_axes
from axon.shapes.dimension import Dim


def is_sum(step: Compute | Scan) -> bool:
    if not isinstance(step, Compute):
        return False
    reduction, element = step.reduction, step.outs[0].element
    if len(step.outs) != 1 or element not in (Element.F32, Element.F64):
        return False
    if reduction is not None and (reduction.monoid.kind != "sum" or reduction.asked is not None):
        return False
    own = frozenset(axis.symbol for axis in all_axes(step))
    if any(not axis.extent.variables.isdisjoint(own) for axis in all_axes(step)):
        return False
    found = factors_of(step.body[0])
    return bool(found) and all(read.element is element and _is_plain(read, own) for read in found)


def factors_of(scalar: Scalar) -> tuple[Read, ...]:
    """Of a product that may stand under a condition, and be 0 without it; none of what is no product of tensors."""
    if isinstance(scalar, Select) and isinstance(scalar.otherwise, Const) and scalar.otherwise.value == 0:
        scalar = scalar.then
    found = tuple(operands("mul", scalar))
    reads = tuple(part for part in found if isinstance(part, Read))
    return reads if len(reads) == len(found) else ()


def _is_plain(read: Read, own: frozenset[Symbol]) -> bool:
    if read.padding is not None or read.checked is not None:
        return False
    for subscript in read.subscripts:
        if not isinstance(subscript, Dim) or len(subscript.variables & own) > 1:
            return False
        for axis in subscript.variables & own:
            split = subscript.linear_in(axis)
            if split is None or split[0].constant is None or split[0].constant < 1:
                return False
    return True
