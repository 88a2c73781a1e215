"""How long a plain kernel moves what it reads and stores: memory takes its time for bytes, and threads for each load and store.

A row of 50,257 elements of 16 bits that are loaded one by one takes twice as long as memory does; of 32 bits, hardly longer. What
lies at the same element for all of a row is not counted, nor what is in registers when a step reads it again. Register tiles and
squares bring what they read in their own way: of them bytes are counted alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from math import prod

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.roofline import LAUNCH, access_rate, memory_rate
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import Access, accesses, is_steady
from axon.backend.gpu.simt.halves import halves
from axon.backend.gpu.simt.mapping import Mapping, bound, choose, in_rows, over_fewer_axes
from axon.backend.gpu.simt.pieces import canonical
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.gpu.simt.turns import turns
from axon.backend.plan.ir import Nest, reads_of
from axon.backend.plan.lanes import reduced
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Value


def moving(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
) -> float:
    """Seconds that it moves, or waits for, what it reads and stores, with the mapping that is chosen for tensors that lie so."""
    made, lying = over_fewer_axes(nest, values, tensors)
    own = in_rows(made.nest, made.values, lying, sizes, target)
    mapping = choose(own, made.values, lying, sizes, target)
    moved = sum(tensors[symbol].bytes for symbol in reads_of(nest) | set(nest.stored))
    waiting = sum(each.seconds(target) for each in turns(mapping, own, made.values, sizes, target))
    return LAUNCH + max(moved / memory_rate(target), count(own, mapping, sizes) / access_rate(target), waiting)


def count(nest: Nest, mapping: Mapping, sizes: MappingOf[Symbol, int]) -> int:
    """The loads and stores that threads make one by one."""
    if mapping.by == "tiles":
        return 0
    cut = halves(nest) if mapping.halved else None
    nest = cut.nest if cut is not None else nest
    below = peaks(nest).values() if mapping.below else ()
    total, known = 0, set[object]()
    for number, access, elements, met in _made(nest, mapping, sizes, [step.outs[0].symbol for step in below]):
        if met or is_steady(access.subscripts, access.lane.symbol):
            continue
        what = access.tensor, canonical(access.subscripts, access.lane.symbol)
        if mapping.chunks and not access.store and len(what[1]) == len(access.subscripts):
            if what in known:
                continue
            known.add(what)
        times = 2 if number in mapping.elsewhere else 1
        total += times * -(-elements // mapping.vector) if number in mapping.beside else elements
    return total


def _made(
    nest: Nest, mapping: Mapping, sizes: MappingOf[Symbol, int], below: list[Symbol]
) -> Iterator[tuple[int, Access, int, bool]]:
    """The accesses by number, how many elements each is of, and whether another step has them at hand: of a sum below a maximum,
    what that is of."""
    number = 0
    for step in nest.steps:
        elements = prod(max(0, bound(axis.extent, sizes)) for axis in (*step.axes, *reduced(step)))
        for access in accesses(replace(nest, steps=(step,)), mapping.by == "lanes"):
            yield number, access, elements, step.outs[0].symbol in below
            number += 1
