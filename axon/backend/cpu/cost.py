"""What a program costs on this machine's processor: the plan by which it runs there, counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.backend.cpu.plan import planned
from axon.backend.plan import cost
from axon.backend.plan.cost import CostedStep, PlanCost
from axon.backend.plan.ended import total
from axon.backend.plan.ir import Kernels, Repeat, Whole, bytes_moved, operations, reads_of, title, values_in, values_of
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Compute, Index, Program, Scalar, Value
from axon.core.passes.parts import as_size
from axon.shapes.dimension import Dim


def cost_of(program: Program) -> PlanCost:
    """Operations, bytes and memory of a program; its tables, made once, are held like arguments."""
    plan, _ = planned(program)
    values = values_in(plan)
    return cost.of(plan.program.inputs, tuple(_steps(plan.body, values, {})), plan.body.results, program.contract.proven())


def _steps(body: Kernels, values: Mapping[Symbol, Value], scalars: Mapping[Symbol, Scalar]) -> Iterator[CostedStep]:
    """What a body runs. `scalars` are tensors of rank 0 made before, of which some say how often a loop does."""
    scalars = dict(scalars)
    for kernel in body.kernels:
        match kernel:
            case Repeat(op=op, body=inner):
                trip = as_size(op.trip, scalars)
                op = op if trip is None else replace(op, trip=Index(trip))
                inside = tuple(_steps(inner, values, scalars))
                yield CostedStep(title(kernel), frozenset(), op.outs, loop=op, inside=inside, results=inner.results)
            case Whole(op=Check()):
                pass  # the host asks it, of sizes
            case _:
                data = kernel.op if isinstance(kernel, Whole) and isinstance(kernel.op, Compress) else None
                moved: Dim = bytes_moved(kernel, values)
                flops, ends = total(operations(kernel), values)
                for made in operations(kernel):
                    if isinstance(made, Compute) and not made.axes and made.reduction is None:
                        scalars.update((out.symbol, body) for out, body in zip(made.outs, made.body, strict=True))
                placed = not isinstance(kernel, Whole)
                reads, stores = reads_of(kernel), values_of(kernel)
                yield CostedStep(title(kernel), reads, stores, flops, moved, data=data, ends=ends, placed=placed)
