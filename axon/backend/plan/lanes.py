"""Whether the work of a nest is cut along its rows or into blocks of lanes: which accesses lie side by side in memory.

    by_lanes    a Nest -> whether it goes by lanes

Note [Rows and lanes]
    In a nest *by rows* an item is a row: its scalars are variables, its buffers belong to the thread, and what is vectorized is
    each step's innermost loop. In a nest *by lanes* the last row axis is cut into blocks, an item is a block, and every innermost
    loop runs over its lanes: what was a variable of the row has a place for every lane. The sum of a column goes by lanes, the
    sum of a row by rows. A step by rows whose result has further axes may likewise keep its accumulators along the last of them.
    The choice counts the accesses that do not lie side by side (`strides`); those that do but for a border count as if they did,
    since the loop over lanes alone is cut there.
"""

from __future__ import annotations

from axon.backend.plan.interior import linear
from axon.backend.plan.ir import Nest
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Read, Scalar, Scan
from axon.core.scalar_facts import varies
from axon.core.walk import nodes, scalars
from axon.shapes.dimension import Dim


def strides(
    step: Compute | Scan,
    axis: Axis,
    made: frozenset[Symbol] = frozenset(),
    kept: frozenset[Symbol] = frozenset(),
    *,
    inside: bool = False,
) -> int:
    """How many accesses of a step do not lie side by side along an axis; reads of what the nest makes, and writes of what it keeps
    for itself, aside. `inside`: as it is where no index wraps around or is clamped (`interior`)."""
    count = 0
    for node in (n for s in scalars(step) for n in nodes(s)):
        if isinstance(node, Read) and node.tensor not in made:
            count += not side_by_side(_inside(node.subscripts, axis.symbol) if inside else node.subscripts, axis.symbol)
    if axis in step.axes and not all(out.symbol in kept for out in step.outs):
        count += step.axes[-1] != axis
    return count


def _inside(subscripts: tuple[Dim | Scalar, ...], axis: Symbol) -> tuple[Dim | Scalar, ...]:
    return tuple(linear(subscript, axis) or subscript for subscript in subscripts)


def side_by_side(subscripts: tuple[Dim | Scalar, ...], axis: Symbol) -> bool:
    """Whether neighbours along an axis are neighbours in memory, or the same element."""
    if any(not isinstance(s, Dim) and varies(s, frozenset((axis,))) for s in subscripts):
        return False
    using = [i for i, s in enumerate(subscripts) if isinstance(s, Dim) and axis in s.variables]
    if not using:
        return True
    last = subscripts[-1]
    split = last.linear_in(axis) if using == [len(subscripts) - 1] and isinstance(last, Dim) else None
    return split is not None and split[0].constant == 1


def inner(step: Compute | Scan, rows: int) -> tuple[Axis, ...]:
    """The axes of a step's result after the nest's rows."""
    return step.axes[rows:]


def reduced(step: Compute | Scan) -> tuple[Axis, ...]:
    """The axes that a step sums over."""
    return step.reduction.axes if isinstance(step, Compute) and step.reduction else ()


def by_lanes(nest: Nest) -> bool:
    """Whether a nest goes by lanes. See Note [Rows and lanes]."""
    if not nest.rows:
        return False
    made = frozenset(out.symbol for step in nest.steps for out in step.outs)
    kept = made - set(nest.stored)
    looping = [step for step in nest.steps if inner(step, len(nest.rows)) or reduced(step)]
    if not looping:
        return True
    lanes = rows = 0
    for step in looping:
        lanes += strides(step, nest.rows[-1], made, kept, inside=True)
        innermost = (reduced(step) or step.axes)[-1]
        choices = [innermost, *([step.axes[-1]] if inner(step, len(nest.rows)) else [])]
        rows += min(strides(step, axis, made, kept) for axis in choices)
        constant = [axis.extent.constant for axis in reduced(step)]
        if constant and all(c is not None and c <= 16 for c in constant):
            rows += 1  # too short a loop to be worth vectorizing
    return lanes < rows
