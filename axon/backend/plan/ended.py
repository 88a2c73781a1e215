"""How much of a loop is done that data end: `sum for j where j < lengths[i] => x[i, j]`, and sums over segments of sorted indices.

Its extent says how long it may be, and of most such programs no loop is: of 50,000 segments of 8,000 sorted indices each could have
all, and all together have them once. So what is read along the loop is taken to be read once, each element, by the loops that may
read it. Where each reads all there is (`x[j]`, whatever i is), that is the whole extent, and so it is where nothing is read.

    done     how many operations a step does, as `counts` counts them
    ended    a Nest -> the same with loops as long as they are in the mean: so long as a typical thread's are
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from math import prod

from axon.backend.plan.ir import Nest
from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Local, Op, Read, Scalar, Scan, Value
from axon.core.operation_count import flops, points
from axon.core.scalar_facts import ends_early
from axon.core.walk import mentions, nodes, scalars
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum

DATA_END = "data end loops: each element of what these read is counted once"


@dataclass(frozen=True, slots=True)
class _Along:
    """Of a tensor that is read along a loop, its elements, and how many such loops read each another part."""

    elements: Dim
    loops: Dim


def total(ops: Iterable[Op], values: Mapping[Symbol, Value]) -> tuple[Dim, bool]:
    """The floating-point operations of several, and whether data end a loop in them."""
    ops = tuple(ops)
    return sum((done(op, values, flops) for op in ops), start=Dim.of(0)), any(map(ends_early, ops))


def done(step: Op, values: Mapping[Symbol, Value], counts: Callable[[Op], Dim]) -> Dim:
    """What `counts` finds of a step, whose loops end where data say."""
    whole = counts(step)
    found = list(_along(step, values))
    if not found:
        return whole
    turn = counts(_as_long(step, Dim.of(1)))
    with suppress(DimensionTooLarge):
        most = Dim.of(0)
        for each in found:
            most = maximum(most, turn * each.elements // maximum(each.loops, 1))
        return minimum(whole, most)
    return whole


def ended(nest: Nest, values: Mapping[Symbol, Value]) -> Nest:
    """A nest in which loops that data end are as long as they are in the mean."""
    return replace(nest, steps=tuple(_as_long(step, mean_of(step, values)) if ends_early(step) else step for step in nest.steps))


def mean_of(step: Op, values: Mapping[Symbol, Value]) -> Dim:
    """How many turns the innermost loop of a reduction has that data end, in the mean; one where there is anything to read."""
    assert isinstance(step, Compute)
    assert step.reduction is not None
    extent = step.reduction.axes[-1].extent
    found = list(_along(step, values))
    with suppress(DimensionTooLarge):
        most = Dim.of(0)
        for each in found:
            loops = maximum(each.loops, 1)
            most = maximum(most, (each.elements + loops - 1) // loops)
        return minimum(extent, most) if found else extent
    return extent


def at_sizes(step: Compute | Scan, known: Mapping[Symbol, Dim]) -> Compute | Scan:
    """A step over axes of known sizes."""

    def put(axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(Axis(axis.symbol, axis.extent.substitute(known)) for axis in axes)

    if isinstance(step, Scan) or step.reduction is None:
        return replace(step, axes=put(step.axes))
    return replace(step, axes=put(step.axes), reduction=replace(step.reduction, axes=put(step.reduction.axes)))


def _along(step: Op, values: Mapping[Symbol, Value]) -> Iterator[_Along]:
    """What is read along the innermost loop of a reduction that data end."""
    if not ends_early(step):
        return
    assert isinstance(step, Compute)
    assert step.reduction is not None
    *outer, inner = (*step.axes, *step.reduction.axes)
    for read in (n for scalar in scalars(step) for n in nodes(scalar) if isinstance(n, Read)):
        if read.tensor in values and _may_mention(read, inner.symbol):
            own = tuple(axis for axis in outer if _may_mention(read, axis.symbol))
            yield _Along(prod(values[read.tensor].shape, start=Dim.of(1)), points(own))


def _as_long(step: Op, extent: Dim) -> Compute:
    """A step whose innermost loop has another extent."""
    assert isinstance(step, Compute)
    assert step.reduction is not None
    *others, last = step.reduction.axes
    return replace(step, reduction=replace(step.reduction, axes=(*others, Axis(last.symbol, extent))))


def _may_mention(scalar: Scalar, axis: Symbol) -> bool:
    return mentions(scalar, axis) or any(isinstance(node, Local) for node in nodes(scalar))
