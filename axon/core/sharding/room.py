"""Which programs leave room for what is exchanged meanwhile.

A GPU's links are driven by kernels, as NCCL's are, that need multiprocessors of their own. A product's blocks hold all of them from
its beginning to its end, so what is exchanged beside it would only begin behind it, and nothing is hidden. A program that leaves
some free takes that much longer, and is asked to where this costs less than what is hidden.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction

from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Value
from axon.core.known import present
from axon.core.operation_count import flops
from axon.core.sharding.ir import Collective, Local, Mesh, Repeat, Step, read_by
from axon.core.sharding.layouts import Rates, exchanged, guessed, rings
from axon.core.walk import results_of

SHARE = Fraction(1, 8)  # of a device that is left free: 16 multiprocessors of 132, where 1,024 tiles take a ninth turn for eight


def leaving_room(
    steps: Sequence[Step], values: Mapping[Symbol, Value], mesh: Mesh, rates: Rates, sizes: Mapping[Symbol, int]
) -> tuple[Step, ...]:
    """The steps, with programs `beside` what is under way where that pays at these sizes. `values` are there before them."""
    known, made = dict(values), list[Step]()
    open_: dict[Symbol, float] = {}  # seconds that are left of what is under way, by what it gives

    for step in steps:
        for symbol in read_by(step):
            open_.pop(symbol, None)
        match step:
            case Collective():
                known[step.result.symbol] = step.result
                source, link = known[step.source], rates.over(step.axis)
                count = guessed(exchanged(step.kind, source.shape, step.dimension, step.left + step.right), sizes)
                sent = rings(step.kind, mesh.size(step.axis)) * count * (source.element.bits // 8)
                open_[step.result.symbol] = link.latency + float(sent) / link.bandwidth if sent else 0.0
            case Local(program=program):
                known |= {v.symbol: v for v in results_of(program)}
                known |= {} if step.part is None else {step.part.of.symbol: step.part.of}
                computed = sum(guessed(flops(op), sizes) for op in present(program).block.ops) / rates.flops
                hidden = min(computed, sum(open_.values()))
                step = replace(step, beside=computed > rates.latency and computed * SHARE < hidden)
                open_ = {symbol: max(0.0, left - computed) for symbol, left in open_.items()}
            case Repeat():
                inside = {**known, **{v.symbol: v for v in step.states}}
                step = replace(step, steps=leaving_room(step.steps, inside, mesh, rates, {**sizes, step.counter: 0}))
                known |= {v.symbol: v for v in step.outs}
                open_ = {}
        made.append(step)
    return tuple(made)
