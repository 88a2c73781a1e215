"""How many operations a piece of core asks for. Floating-point operations are counted as papers do: a product and a sum are one
each, so is `exp`; a matrix product has 2 · rows · columns · depth. Comparisons, selections and arithmetic on integers are others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations
from typing import assert_never

from axon.base.names import Symbol
from axon.core.ir import (
    COMPARISONS,
    LOGIC,
    Axis,
    Binary,
    Check,
    Compress,
    Compute,
    Index,
    Loop,
    Monoid,
    Op,
    Scalar,
    Scan,
    Select,
    Sort,
    Unary,
    element_of,
)
from axon.core.walk import children
from axon.shapes.dimension import Dim, Minimum, atom_key, maximum

Counts = Callable[[Scalar], bool]


def flops(op: Op) -> Dim:
    """The floating-point operations of one operation of core, over its dimensions; of extents that vary the largest counts.

    Of a loop, those of one step times its trips; where only the data know these, of one step.
    """
    return _of(op, _is_flop)


def other_operations(op: Op) -> Dim:
    """Comparisons, selections, and arithmetic on integers, likewise."""
    return _of(op, _is_other)


def _of(op: Op, counts: Counts) -> Dim:
    match op:
        case Compute(axes=axes, reduction=reduction, body=body):
            each = sum(_count(scalar, counts) for scalar in body)
            inner: tuple[Axis, ...] = ()
            if reduction is not None:
                inner = reduction.axes
                each += _combining(reduction.monoid, body, counts)
                each += _count(reduction.where, counts) if reduction.where is not None else 0
            return points(axes, inner) * each
        case Scan(axes=axes, monoid=monoid, body=body):
            return points(axes) * (sum(_count(scalar, counts) for scalar in body) + _combining(monoid, body, counts))
        case Loop(trip=trip, body=block):
            step = sum((_of(inner, counts) for inner in block.ops), start=Dim.of(0))
            return step * at_least_zero(trip.dim) if isinstance(trip, Index) else step
        case Sort() | Compress() | Check():
            return Dim.of(0)
        case _:
            assert_never(op)


def total(ops: Iterable[Op]) -> Dim:
    """The floating-point operations of several."""
    return sum(map(flops, ops), start=Dim.of(0))


def _is_flop(scalar: Scalar) -> bool:
    match scalar:
        case Unary(op=op, operand=operand):
            return op != "not" and element_of(operand).is_float
        case Binary(op=op, left=left):
            return op not in COMPARISONS and op not in LOGIC and element_of(left).is_float
    return False


def _is_other(scalar: Scalar) -> bool:
    return isinstance(scalar, Unary | Binary | Select) and not _is_flop(scalar)


def _combining(monoid: Monoid, body: tuple[Scalar, ...], counts: Counts) -> int:
    """What putting one element to those before it takes."""
    if monoid.combine:
        return sum(_count(scalar, counts) for scalar in monoid.combine)
    arithmetic = monoid.kind in ("sum", "prod") and element_of(body[0]).is_float
    return int(arithmetic == (counts is _is_flop))


def points(axes: Sequence[Axis], reduced: Sequence[Axis] = ()) -> Dim:
    """How many points a domain has; what is reduced over fewer than none is reduced over none. An extent that mentions axes before
    it is taken where it is largest, unless the two go through a range in parts: then they have the points of the range."""
    extents: dict[Symbol, Dim] = {}
    last: dict[Symbol, Dim] = {}
    for i, axis in enumerate((*axes, *reduced)):
        longest = extents[axis.symbol] = largest(axis.extent, last)
        whole = _in_parts(axis.extent, last)
        if whole is not None:
            part, extents[axis.symbol] = whole
            extents[part] = Dim.of(1)
        if i >= len(axes) and not _plain(extents[axis.symbol]):
            extents[axis.symbol] = at_least_zero(extents[axis.symbol])
        last[axis.symbol] = longest - 1
    points = Dim.of(1)
    for extent in extents.values():
        points = points * extent
    return points


def largest(extent: Dim, last: Mapping[Symbol, Dim]) -> Dim:
    """An extent at the first or last indices of the axes that it mentions."""
    for axis, index in last.items():
        if axis in extent.variables:
            split = extent.linear_in(axis)
            first, end = extent.substitute({axis: Dim.of(0)}), extent.substitute({axis: index})
            if split is not None and _plain(split[0]):
                extent = end
            elif split is not None and _plain(-split[0]):
                extent = first
            else:
                extent = maximum(first, end)
    return extent


def at_least_zero(count: Dim) -> Dim:
    """How often something is done so many times: never, if that is below 0."""
    return count if _plain(count) else maximum(count, Dim.of(0))


def _plain(dim: Dim) -> bool:
    """A sum of sizes, which is at least 0 for all of them."""
    return all(c > 0 for c in dim.mapping.values()) and all(isinstance(atom, Symbol) for atom in dim.atoms)


def _in_parts(extent: Dim, last: Mapping[Symbol, Dim]) -> tuple[Symbol, Dim] | None:
    """Of `min length (n - part * length)`, and of `(part + 1) * n / parts - part * n / parts`, the axis `part` and n: all parts
    together are the range."""
    for length, left in permutations(least_of(extent), 2):
        for part in last:
            split = left.linear_in(part)
            if split is not None and split[0] == -length and part not in length.variables:
                return part, split[1]
    for part in last:
        starts = Dim({m: -c for m, c in extent.mapping.items() if c < 0 and part in Dim({m: 1}).variables})
        rest = extent - starts.substitute({part: Dim.of(part) + 1}) + starts  # of every part the same
        if starts.variables and part not in rest.variables:
            parts = last[part] + 1
            return part, rest * parts + starts.substitute({part: parts}) - starts.substitute({part: Dim.of(0)})
    return None


def least_of(size: Dim) -> tuple[Dim, ...]:
    """What a size is the least of, if it is a minimum, however it is written."""
    for atom in sorted(size.atoms, key=atom_key):
        split = size.split(atom) if isinstance(atom, Minimum) else None
        if isinstance(atom, Minimum) and split is not None and (split[0].constant or 0) > 0:
            return tuple(split[0] * item + split[1] for item in atom.items)
    return ()


def _count(scalar: Scalar, counts: Counts) -> int:
    """Of a choice, the longer branch."""
    if isinstance(scalar, Select):
        branches = max(_count(scalar.then, counts), _count(scalar.otherwise, counts))
        return counts(scalar) + _count(scalar.condition, counts) + branches
    return counts(scalar) + sum(_count(child, counts) for child in children(scalar))
