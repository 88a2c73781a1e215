"""What a program costs on a GPU: the kernels that serve it at given sizes, counted as `axon explain` counts them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from axon.backend.gpu.build.recipe import tensors
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.report.show import product_flops, sizes_of
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile.families import Kernel, family_of, results_of
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan import cost
from axon.backend.plan.cost import CostedStep, PlanCost
from axon.backend.plan.ended import total
from axon.backend.plan.ir import Nest, Whole, bytes_moved, reads_of, size_in_bytes, values_of
from axon.base.data import replace
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Program, Sort, Value
from axon.core.passes.parts import HostLoop, PartsBody, Straight
from axon.core.walk import outs_of
from axon.shapes.dimension import Dim


def cost_of(
    program: Program, sizes: Mapping[Symbol, int] | None = None, schedule: Schedule | None = None, target: Target = HOPPER
) -> PlanCost:
    """Operations, bytes and memory of a program with the kernels that serve at these sizes; None stands for typical ones.

    Of products on tensor cores their operations alone are counted, what a mask leaves out included. Raises `Unsupported`.
    """
    given = sizes_of(program, sizes)
    stepped = Ordered(program, target, schedule or NOTHING).at(given)
    served = IdentityMap((p, executable.serving({}, own).planned) for p, executable, own in stepped.foreseen(given))
    values = dict(stepped.values)

    def steps(body: PartsBody) -> Iterator[CostedStep]:
        for part in body.parts:
            match part:
                case Straight():
                    planned = served[part]
                    yield from _in_memory(planned, (_step(kernel, planned.values, planned.known) for kernel in planned.kernels))
                case HostLoop(op=op, body=inner):
                    yield CostedStep("loop", frozenset(), op.outs, loop=op, inside=tuple(steps(inner)), results=inner.results)
                case Check():
                    pass
                case Sort() | Compress():
                    whole = Whole(part)
                    moved = bytes_moved(whole, values | {v.symbol: v for v in outs_of(part)})
                    data = part if isinstance(part, Compress) else None
                    yield CostedStep(type(part).__name__.lower(), reads_of(whole), values_of(whole), moved=moved, data=data)
                case _:
                    assert_never(part)

    body = stepped.parts.body
    return cost.of(stepped.parts.rest.inputs, tuple(steps(body)), body.results, program.contract.proven())


def _in_memory(planned: Planned, steps: Iterable[CostedStep]) -> Iterator[CostedStep]:
    """Kernels with the tensors in whose memory they read and store: what others are parts of is there with the first."""
    made: set[Symbol] = set()
    for step in steps:
        stored = dict.fromkeys(planned.memory(value.symbol) for value in step.stores)
        new = tuple(planned.known[symbol] for symbol in stored if symbol not in made)
        made |= {*stored}
        yield replace(step, reads=frozenset(map(planned.memory, step.reads)), stores=new)


def _step(kernel: Kernel, values: tuple[Value, ...], known: Mapping[Symbol, Value]) -> CostedStep:
    if isinstance(kernel, Nest):
        flops, ends = total(kernel.steps, known)
        return CostedStep(kernel.family, reads_of(kernel), values_of(kernel), flops, bytes_moved(kernel, known), ends=ends)
    used = tensors(kernel, values)
    rows = kernel.row_results if isinstance(kernel, Stream) else ()
    places = (*(result.place for result in kernel.results), *(row.value for row in rows))  # perhaps views of what is stored
    views = {view.value.symbol: view.source for view in kernel.views}
    reads = frozenset(views.get(v.symbol, v.symbol) for v in used if v not in places)
    moved = sum(map(size_in_bytes, used), start=Dim.of(0))
    return CostedStep(family_of(kernel), reads, results_of(kernel), product_flops(kernel), moved)
