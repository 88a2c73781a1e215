"""How often a thread of a plain kernel goes through its loops, one turn after the other, each of which waits for memory.

What a thread asks for at once is one turn: all vectors of a row that registers or shared memory hold, the stretches of a row that
are combined in order together. A map without loops has none. Of loops that differ from thread to thread the longest counts, of
those that data end the mean. What was read before is in a cache: of a step that goes through the same elements again and again, as
many turns wait as there are elements; of one that reads what a step before it read of the same rows, none, if the L2 cache holds
the rows that the chip is at.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf
from math import prod

from axon.backend.gpu.layout.roofline import waiting
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import following, is_ordered
from axon.backend.gpu.simt.mapping import Mapping, full, grid
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.plan.ended import ended
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Axis, Compute, Scan, Value
from axon.core.operation_count import largest
from axon.core.walk import tensors_of
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Turns:
    """Of one step: how often each thread that has anything to do goes through its loops, how many such threads there are, and what
    part of the turns is the first to read its elements."""

    count: int
    threads: int
    anew: float = 1.0

    def seconds(self, target: Target) -> float:
        return waiting(self.count * self.anew, self.threads, target)

    def few(self, target: Target) -> bool:
        """Whether there are fewer threads than keep the chip busy."""
        return self.threads < full(target)


def turns(
    mapping: Mapping, nest: Nest, values: MappingOf[Symbol, Value], sizes: MappingOf[Symbol, int], target: Target
) -> tuple[Turns, ...]:
    """Those of the steps that have loops, by a mapping that is no register tile, at these sizes."""
    rows = prod(_extents(nest.rows, sizes))
    if mapping.by == "tiles" or not rows:
        return ()
    if mapping.pieces is not None or mapping.chunks:
        launched = grid(mapping, nest, sizes, target)
        times = 1  # rows that a team takes one after the other, if as many blocks are launched as a chip holds
        if mapping.persistent and mapping.pieces is not None:
            times = -(-rows * mapping.pieces.blocks // max(1, launched.blocks))
        return (Turns(times, launched.blocks * launched.threads),)
    below = peaks(nest).values() if mapping.below else ()
    met = () if mapping.by == "lanes" else [step for steps in following(nest).values() for step in steps]
    # A sum below its maximum is met with that, and so is what is made of an element of a slice with the element.
    steps = (step for step in ended(nest, values).steps if step not in below and step not in met)
    return tuple(_of_steps(mapping, steps, nest, values, sizes, target))


def _of_steps(
    mapping: Mapping,
    steps: Iterator[Compute | Scan],
    nest: Nest,
    values: MappingOf[Symbol, Value],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Iterator[Turns]:
    before = set[Symbol]()
    for step in steps:
        made, taken = inner(step, len(nest.rows)), reduced(step)
        if not made and not taken:
            continue
        extents = _extents((*step.axes, *taken), sizes)
        rows, loops = extents[: len(nest.rows)], extents[len(nest.rows) :]
        count, threads = _shared(mapping, step, rows, loops, len(made))
        used = [values[s] for s in tensors_of(step) if s in values]
        at_once = min(prod(rows), 2 * full(target) * (mapping.vector if mapping.by == "lanes" else 1) // mapping.team)
        held = at_once * prod(loops) * sum(max(1, v.element.bits // 8) for v in used) <= target.l2
        fresh = [value for value in used if not (held and value.symbol in before)]
        elements = max((prod(d.evaluate(sizes) for d in value.shape) for value in fresh), default=0)
        yield Turns(count, threads, min(1.0, elements / max(1, prod(extents))))
        before |= {value.symbol for value in used}


def _shared(mapping: Mapping, step: Compute | Scan, rows: Sequence[int], loops: Sequence[int], made: int) -> tuple[int, int]:
    """The turns of a thread through loops, of which the first so many are of a result; and the threads that have any."""
    if mapping.by == "lanes":
        columns = prod(rows[:-1]) * -(-rows[-1] // mapping.vector) if rows else 1
        last = loops[-1] if len(loops) > made else 1  # a loop of the result is not shared
        team = min(mapping.team, max(1, last))
        return prod(loops) // max(1, last) * -(-last // team), columns * team
    *others, last = loops
    beside, vector, around = mapping.team, mapping.vector, 1
    if isinstance(step, Scan) or is_ordered(step):
        vector *= mapping.turns
    elif mapping.deep > 1 and len(loops) > made:
        at = made + mapping.around
        beside //= mapping.deep
        around = min(mapping.deep, max(1, others[at]))
        others[at] = -(-others[at] // mapping.deep)
    return prod(others) * -(-last // (beside * vector)), prod(rows) * around * min(beside, -(-last // mapping.vector))


def _extents(axes: Sequence[Axis], sizes: MappingOf[Symbol, int]) -> list[int]:
    """Extents where they are largest."""
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
    last: dict[Symbol, Dim] = {}
    found = []
    for axis in axes:
        extent = max(0, largest(axis.extent.substitute(known), last).evaluate({}))
        last[axis.symbol] = Dim.of(max(0, extent - 1))
        found.append(extent)
    return found
