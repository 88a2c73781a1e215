"""Which nests have so few and so long rows that each is worth many blocks: see `plan.spread`."""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from math import prod

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.mapping import choose, over_fewer_axes
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import by_lanes, reduced
from axon.backend.plan.spread import Cut, can_spread
from axon.base.names import Symbol
from axon.core.ir import Value

LONG = 32_768  # elements of a row that is worth many blocks
BLOCKS = 4  # of a multiprocessor, that are wanted
PART = 2048  # elements of a part of a row, at least


def rows_to_spread(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> Cut | None:
    """How the rows of a nest are cut so that the chip is busy; None where they are many enough, short, or held by clusters."""
    rows = prod(max(0, axis.extent.evaluate(sizes)) for axis in nest.rows)
    if not 0 < rows < target.multiprocessors or not can_spread(nest):
        return None
    extents = next([axis.extent.evaluate(sizes) for axis in reduced(step)] for step in nest.steps if reduced(step))
    if prod(extents) < LONG or _held(nest, values, tensors, sizes, target):
        return None
    return Cut.of(extents, min(BLOCKS * target.multiprocessors // rows, prod(extents) // PART))


def _held(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> bool:
    """Whether a cluster holds a row, or threads go along rows."""
    made, lying = over_fewer_axes(nest, values, tensors)
    return by_lanes(nest) or choose(made.nest, made.values, lying, sizes, target).by != "block"
