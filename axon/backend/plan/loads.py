"""What a reduction loads again for each of its rows: the factors of a product that is not cut into tiles.

For each element of a @ b a row and a column are read. Neighbouring elements of the result have the row in common, which stays close
by; the column is another one for each, and every element of b is loaded once for each row of a.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import reduced
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Axis, Read, Value
from axon.core.operation_count import largest, points
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Again:
    """Of one read: bytes that are loaded in all, and bytes between an element and the next time it is loaded."""

    bytes: int
    between: int


def loaded_again(nest: Nest, values: Mapping[Symbol, Value], sizes: Mapping[Symbol, int]) -> Iterator[Again]:
    """What a nest's reductions load more than once at these sizes, of each tensor the first such read: others find its elements
    close by. Sizes are put in before points are counted: as a formula they may have too many parts.

    That is a read which follows the last axis of a result, but not every one before it. What a scatter reads belongs to one
    row alone.
    """
    if nest.family == "scatter":
        return
    seen: set[Symbol] = set()
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
    for step in nest.steps:
        if not reduced(step):
            continue
        axes, inner = ([Axis(a.symbol, a.extent.substitute(known)) for a in some] for some in (step.axes, reduced(step)))
        for node in (n for scalar in scalars(step) for n in nodes(scalar)):
            if not isinstance(node, Read) or node.tensor not in values or node.tensor in seen:
                continue
            follows = [_follows(node, axis) for axis in step.axes]
            if all(follows) or not follows[-1]:
                continue
            seen.add(node.tensor)
            size = max(1, node.element.bits // 8)
            inside = len(follows) - follows[::-1].index(False)
            yield Again(size * points(axes, inner).evaluate({}), size * _points_inside(axes, inner, inside))


def _points_inside(axes: Sequence[Axis], inner: Sequence[Axis], number: int) -> int:
    """The points of the axes from a number on, and of those that are reduced, at each index of the ones before: at most so many."""
    last: dict[Symbol, Dim] = {}
    for axis in axes[:number]:
        last[axis.symbol] = largest(axis.extent, last) - 1
    within, reduced = ([Axis(axis.symbol, largest(axis.extent, last)) for axis in some] for some in (axes[number:], inner))
    return points(within, reduced).evaluate({})


def _follows(read: Read, axis: Axis) -> bool:
    """Whether a read is at another element for another index of an axis; where data say so, it may be."""
    return any(not isinstance(s, Dim) or axis.symbol in s.variables for s in read.subscripts)
