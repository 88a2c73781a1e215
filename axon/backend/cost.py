"""How many floating-point operations a piece of core asks for, by the convention of papers: a product and a sum are one each, so is
`exp`; comparisons, selections, conversions and arithmetic on integers are none. A matrix product has 2 · rows · columns · depth.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import permutations
from typing import assert_never

from axon.core import (
    COMPARISONS,
    LOGIC,
    Axis,
    Binary,
    Bind,
    Check,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Local,
    Loop,
    Op,
    Read,
    Scalar,
    Scan,
    Select,
    Sort,
    Unary,
    element_of,
)
from axon.names import Symbol
from axon.shapes.dimension import Dim, Minimum


def flops(op: Op) -> Dim:
    """The operations of one operation of core, over its dimensions; of extents that vary the largest counts.

    Of a loop, those of one step times its trips; where only the data know these, of one step.
    """
    match op:
        case Compute(axes=axes, reduction=reduction, body=body):
            each = sum(map(_count, body))
            inner: tuple[Axis, ...] = ()
            if reduction is not None:
                inner = reduction.axes
                each += (
                    sum(map(_count, reduction.monoid.combine))
                    if reduction.monoid.combine
                    else _combining(reduction.monoid.kind, body)
                )
            return _points((*axes, *inner)) * each
        case Scan(axes=axes, monoid=monoid, body=body):
            each = sum(map(_count, body))
            each += sum(map(_count, monoid.combine)) if monoid.combine else _combining(monoid.kind, body)
            return _points(axes) * each
        case Loop(trip=trip, body=block):
            step = total(block.ops)
            return step * trip.dim if isinstance(trip, Index) else step
        case Sort() | Compress() | Check():
            return Dim.of(0)
        case _:
            assert_never(op)


def total(ops: Iterable[Op]) -> Dim:
    out = Dim.of(0)
    for op in ops:
        out = out + flops(op)
    return out


def _combining(kind: str, body: tuple[Scalar, ...]) -> int:
    return int(kind in ("sum", "prod") and element_of(body[0]).is_float)


def _points(axes: Iterable[Axis]) -> Dim:
    """How many points a domain has. An extent that mentions an axis before it is taken at that axis's last index, unless the two
    go through a range in parts: then they have the points of the range."""
    extents: dict[Symbol, Dim] = {}
    last: dict[Symbol, Dim] = {}
    for axis in axes:
        whole = _in_parts(axis.extent, last)
        if whole is not None:
            part, extents[axis.symbol] = whole
            extents[part] = Dim.of(1)
        else:
            extents[axis.symbol] = axis.extent.substitute(last) if axis.extent.variables & last.keys() else axis.extent
        last[axis.symbol] = extents[axis.symbol] - 1
    points = Dim.of(1)
    for extent in extents.values():
        points = points * extent
    return points


def _in_parts(extent: Dim, before: Iterable[Symbol]) -> tuple[Symbol, Dim] | None:
    """Of `min length (n - part * length)` the axis `part` and n: all parts together are the range."""
    for length, left in permutations(least_of(extent), 2):
        for part in before:
            split = left.linear_in(part)
            if split is not None and split[0] == -length and part not in length.variables:
                return part, split[1]
    return None


def least_of(size: Dim) -> tuple[Dim, ...]:
    """What a size is the least of, if it is a minimum, however it is written."""
    for atom in size.atoms:
        split = size.split(atom) if isinstance(atom, Minimum) else None
        if isinstance(atom, Minimum) and split is not None and (split[0].constant or 0) > 0:
            return tuple(split[0] * item + split[1] for item in atom.items)
    return ()


def _count(scalar: Scalar) -> int:
    match scalar:
        case Const() | Index() | Local():
            return 0
        case Read(subscripts=subscripts, padding=padding):
            inner = [s for s in subscripts if not isinstance(s, Dim)]
            return sum(map(_count, inner)) + (_count(padding) if padding is not None else 0)
        case Unary(op=op, operand=operand):
            return _count(operand) + int(op != "not" and element_of(operand).is_float)
        case Binary(op=op, left=left, right=right):
            own = int(op not in COMPARISONS and op not in LOGIC and element_of(left).is_float)
            return own + _count(left) + _count(right)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _count(condition) + max(_count(then), _count(otherwise))
        case Convert(operand=operand):
            return _count(operand)
        case Bind(bindings=bindings, body=body):
            return sum(_count(value) for _, value in bindings) + _count(body)
        case _:
            assert_never(scalar)
