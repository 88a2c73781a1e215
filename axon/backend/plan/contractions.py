"""Which sums of products separate: matrix products, batches of them, and convolutions, whatever the source calls them.

    contraction    a Compute -> its Contraction, or None where it is an ordinary reduction

The factors of the summed product are split into two operands by the axes that they mention. The sum is a contraction if each
operand is one tensor read at affine subscripts (perhaps converted to a wider floating type), every reduced axis occurs in both, and
some axis of the result occurs in one of them alone: otherwise each product is used once, and nothing is gained by separating them.
A condition that only asks whether there are indices of other ranges stays with it.
"""

from __future__ import annotations

from collections.abc import Mapping

from axon.backend.plan.ir import Contraction, Factor
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Const, Convert, Read, Scalar, Value, element_of
from axon.core.scalar_facts import axes_of, operands, present
from axon.shapes.dimension import Dim, variables_of


def contraction(op: Compute, values: Mapping[Symbol, Value], *, floats_only: bool = True) -> Contraction | None:
    reduction = op.reduction
    if reduction is None or reduction.monoid.kind != "sum" or len(op.body) != 1:
        return None
    given = present(reduction.where)
    if given is None:
        return None
    element = element_of(op.body[0])
    if floats_only and not element.is_float:
        return None
    domain = frozenset(axis.symbol for axis in op.axes)
    reduced = frozenset(axis.symbol for axis in reduction.axes)
    if any(not axis.extent.variables.isdisjoint(domain | reduced) for axis in reduction.axes):
        return None
    parts = list(operands("mul", op.body[0]))
    if len(parts) != 2:
        return None
    first, second = (_operand(part, element, domain | reduced) for part in parts)
    if first is None or second is None or not (reduced <= first.axes and reduced <= second.axes):
        return None
    left, right = _ordered(op.axes, first, second)
    rows = tuple(axis for axis in op.axes if axis.symbol in left.axes and axis.symbol not in right.axes)
    columns = tuple(axis for axis in op.axes if axis.symbol in right.axes and axis.symbol not in left.axes)
    batch = tuple(axis for axis in op.axes if axis.symbol in left.axes and axis.symbol in right.axes)
    if len(rows) + len(columns) + len(batch) != len(op.axes) or not (rows or columns):
        return None
    stored = (op.outs[0].symbol,)
    return Contraction(op, left, right, batch, rows, columns, reduction.axes, (), stored, given=given)


def _ordered(axes: tuple[Axis, ...], first: Factor, second: Factor) -> tuple[Factor, Factor]:
    """The right operand is the one in which the result's last separated axis stands alone."""
    for axis in reversed(axes):
        if (axis.symbol in first.axes) != (axis.symbol in second.axes):
            return (second, first) if axis.symbol in first.axes else (first, second)
    return first, second


def _operand(factor: Scalar, element: Element, axes: frozenset[Symbol]) -> Factor | None:
    """A factor as a tensor, if it is one read at affine subscripts, through conversions that lose nothing."""
    while isinstance(factor, Convert) and _widens(element_of(factor.operand), factor.element):
        factor = factor.operand
    if not isinstance(factor, Read) or factor.checked is not None:
        return None
    if factor.padding is not None and not isinstance(factor.padding, Const):
        return None
    if any(not isinstance(s, Dim) or not _affine(s, axes) for s in factor.subscripts):
        return None
    return Factor(factor, element, axes_of(factor, axes))


def _widens(narrow: Element, wide: Element) -> bool:
    """Whether every value of the first element type is one of the second, exactly."""
    if not wide.is_float or not narrow.is_float:
        return False
    return narrow is wide or (wide.bits >= 32 and wide.bits > narrow.bits)


def _affine(dim: Dim, axes: frozenset[Symbol]) -> bool:
    """Whether a subscript is linear in the axes, with coefficients that do not vary along them."""
    for monomial in dim.mapping:
        varying = [a for a in monomial if (a in axes if isinstance(a, Symbol) else not variables_of(a).isdisjoint(axes))]
        if len(varying) > 1 or any(not isinstance(a, Symbol) for a in varying):
            return False
    return True
