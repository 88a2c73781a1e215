"""How many elements of a tensor a kernel reads: all of them, unless its subscripts leave some out that no call's sizes bring back.

A row (`x[0, j]`), a diagonal (`x[i, i]`) and part of a dimension (`x[i]` below half of it) are counted as what they are. Where data
decide what is read, no more is than there are indices for it: of `table[ids[i], j]` an element for each i and j. Where several
different parts are read, the whole tensor is counted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import prod

from axon.base.names import Symbol
from axon.core.ir import Compute, Local, Read, Scalar, Scan, Value
from axon.core.operation_count import at_least_zero
from axon.core.walk import mentions, nodes
from axon.shapes.dimension import Dim, minimum

Part = tuple[tuple[object, ...], Dim]  # what tells it from other parts, and how many elements it has


def elements_read(reads: Iterable[tuple[Compute | Scan, Read]], value: Value) -> Dim:
    """Of a tensor, by these reads of it, each with the operation that it stands in."""
    whole = prod(value.shape, start=Dim.of(1))
    parts = {_part(op, read, value) for op, read in reads}
    if len(parts) != 1:
        return whole
    (part,) = parts
    return whole if part is None else part[1]


def _part(op: Compute | Scan, read: Read, value: Value) -> Part | None:
    """The part of a tensor at a read's subscripts; None for all of it, or where that is not known."""
    if read.padding is not None:
        return None
    extents = {axis.symbol: axis.extent for axis in op.axes}
    if isinstance(op, Compute) and op.reduction is not None:
        extents |= {axis.symbol: at_least_zero(axis.extent) for axis in op.reduction.axes}
    if not all(isinstance(subscript, Dim) for subscript in read.subscripts):
        return _gathered(read, value, extents)
    mentioned: list[frozenset[Symbol]] = []
    for subscript in read.subscripts:
        assert isinstance(subscript, Dim)
        mentioned.append(subscript.variables & extents.keys())
    total = Dim.of(1)
    key: list[object] = []
    counted: set[Symbol] = set()
    seen: set[Dim] = set()
    for subscript, extent, mine in zip(read.subscripts, value.shape, mentioned, strict=True):
        assert isinstance(subscript, Dim)
        shared = [other for other, its in zip(read.subscripts, mentioned, strict=True) if other != subscript and mine & its]
        if not mine:  # one index
            key.append(subscript)
        elif len(mine) == 1 and all(len(other) <= 1 for other in mentioned if mine & other):
            (axis,) = mine
            linear = subscript.linear_in(axis)
            if linear is None or not linear[0].constant or not extents[axis].variables.isdisjoint(extents):
                return None
            key.append((extents[axis], *linear))
            if axis not in counted:  # a diagonal has as many elements as its axis
                counted.add(axis)
                total = total * extents[axis]
        elif not shared:  # a window: all of the dimension, or of its diagonal
            total = total * (1 if subscript in seen else extent)
            seen.add(subscript)
            key.append(None)
        else:
            return None
    return tuple(key), total


def _gathered(read: Read, value: Value, extents: Mapping[Symbol, Dim]) -> Part | None:
    """What is read where data decide: an element for each point of the axes that its subscripts mention, or the whole tensor."""
    points = Dim.of(1)
    for axis, extent in extents.items():
        if any(axis in s.variables if isinstance(s, Dim) else _may_mention(s, axis) for s in read.subscripts):
            if not extent.variables.isdisjoint(extents):
                return None
            points = points * extent
    return read.subscripts, minimum(points, prod(value.shape, start=Dim.of(1)))


def _may_mention(scalar: Scalar, axis: Symbol) -> bool:
    return mentions(scalar, axis) or any(isinstance(node, Local) for node in nodes(scalar))
