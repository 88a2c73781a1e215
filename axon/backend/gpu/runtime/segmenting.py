"""What the sizes of a call decide before a program is cut into parts: orders of sums, and what becomes of scatters.

A scatter is made of segments of sorted indices where that takes less time than to ask of every element for every place (see
`core.passes.segments`); but one that sums products by group stays as it stands where the tensor cores take it so, and are faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.target import WGMMA, Target
from axon.backend.gpu.runtime.merging import Pricer
from axon.backend.gpu.tile.contraction import Merging, factors_of
from axon.backend.gpu.tile.segments import grouped_sum
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Loop, Op, Program, Sort, Value
from axon.core.passes.parts import Decided, PartChoices
from axon.core.passes.segments import SegmentedScatter
from axon.core.walk import outs_of, tensors_of


def decided(program: Program, choices: PartChoices, sizes: Mapping[Symbol, int], target: Target, *, tf32: bool = False) -> Decided:
    """What is best at these sizes, of a program's choices, on a chip."""
    found = choices.at(sizes)
    if not found.segmented or not target.has(WGMMA):
        return found
    ops = tuple(_ops(program.block))
    values = {value.symbol: value for value in program.inputs}
    values |= {out.symbol: out for op in ops for out in outs_of(op)}
    values |= {state.symbol: state for op in ops if isinstance(op, Loop) for state in op.states}
    ascending = frozenset(op.values.symbol for op in ops if isinstance(op, Sort) and len(op.values.shape) == 1)
    pricer = Pricer(values, {}, sizes, target, ascending, tf32)
    products = {one.symbol for one in choices.scatters if one.symbol in found.segmented and _is_product(one, values, pricer)}
    return replace(found, segmented=found.segmented - products)


def _ops(block: Block) -> Iterator[Op]:
    for op in block.ops:
        yield op
        if isinstance(op, Loop):
            yield from _ops(op.body)


def _is_product(one: SegmentedScatter, values: Mapping[Symbol, Value], pricer: Pricer) -> bool:
    """Whether the tensor cores sum a scatter sooner than segments are summed."""
    deep, _ = factors_of(one.op)
    found = grouped_sum(one.op, deep)
    if found is None:
        return False
    try:
        read = [values[symbol] for symbol in tensors_of(one.op) if symbol in values]
        lying = {value.symbol: contiguous(ALIGNMENT, pricer.shape(value), value.element) for value in read}
        merging = Merging(segments=True, ascending=pricer.is_ascending(found))
        return replace(pricer, tensors=lying).of_segments(one.op, merging) < one.microseconds(pricer.sizes) * 1e-6
    except KeyError:  # sizes that data or loops decide
        return False
