"""Which nests have rows so few, or so long, that each is worth many blocks: see `plan.spread`.

Rows that are many enough to keep the chip busy, but too long to be held, are gone through once for each step. A block that does
this alone has the registers of all steps and few loads under way; where the cache holds none of it for the next step either, a
kernel for each step is faster.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from math import prod

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.roofline import LAUNCH, memory_rate
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.mapping import choose, over_fewer_axes
from axon.backend.gpu.simt.turns import turns
from axon.backend.plan.ir import Nest, reads_of
from axon.backend.plan.lanes import by_lanes, inner, reduced
from axon.backend.plan.spread import Cut, can_spread, in_any_parts
from axon.base.names import Symbol
from axon.core.ir import Scan, Value
from axon.core.walk import tensors_of

LONG = 32_768  # elements of a row that is worth many blocks
BLOCKS = 4  # of a multiprocessor, that are wanted
PART = 2048  # elements of a part of a row, at least
PARTS = 2  # of a row, where rows are many


def rows_to_spread(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Cut | None:
    """How the rows of a nest are cut so that the chip is busy; None where they are many enough, short, or held by clusters."""
    rows = prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows)
    if not rows or not can_spread(nest):
        return None
    step = next(step for step in nest.steps if reduced(step) or isinstance(step, Scan))
    extents = [axis.extent.evaluate(sizes) for axis in reduced(step) or inner(step, len(nest.rows))]
    few, parts = rows < target.multiprocessors, BLOCKS * target.multiprocessors // rows
    if any(map(in_any_parts, nest.steps)):
        parts = min(parts, prod(extents) // PART)
        worth = few and parts > 1 and _worth(nest, values, tensors, sizes, parts, target)
        return Cut.of(extents, parts) if worth else None
    if prod(extents) < LONG or not (few or _again(nest, tensors, prod(extents), target)):
        return None
    if _held(nest, values, tensors, sizes, target):
        return None
    return Cut.of(extents, min(parts, prod(extents) // PART) if few else PARTS)


def _worth(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    parts: int,
    target: Target,
) -> bool:
    """Whether it takes less time in parts that a team waits for a row which it goes through in order: of a scan, or of what `split`
    leaves whole. In parts a row is read twice, by three kernels."""
    made, lying = over_fewer_axes(nest, values, tensors)
    mapping = choose(made.nest, made.values, lying, sizes, target)
    waiting = sum(each.seconds(target) for each in turns(mapping, made.nest, made.values, sizes, target))
    moved = sum(tensors[symbol].bytes for symbol in reads_of(nest)) / memory_rate(target)
    stored = sum(tensors[symbol].bytes for symbol in nest.stored) / memory_rate(target)
    alone = LAUNCH + max(waiting, moved + stored)
    return 3 * LAUNCH + max(2 * waiting / parts, 2 * moved + stored) < alone


def _again(nest: Nest, tensors: MappingOf[Symbol, DeviceTensor], elements: int, target: Target) -> bool:
    """Whether several steps go through a row, and the cache does not hold what is read of one on each multiprocessor until then."""
    loops = [step for step in nest.steps if reduced(step) or inner(step, len(nest.rows))]
    outside = frozenset[Symbol]().union(*map(tensors_of, loops)) & tensors.keys()
    return len(loops) > 1 and target.multiprocessors * elements * sum(tensors[s].element.bits // 8 for s in outside) > target.l2


def _held(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> bool:
    """Whether a cluster holds a row, or threads go along rows. Parts of a warp hold no long row: of several loops they share the
    innermost one, which is short."""
    made, lying = over_fewer_axes(nest, values, tensors)
    return by_lanes(nest) or choose(made.nest, made.values, lying, sizes, target).by not in ("block", "warp")
