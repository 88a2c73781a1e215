"""What a program costs on this machine's processor: the plan by which it runs there, counted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.backend.cpu.plan import planned
from axon.backend.plan import cost
from axon.backend.plan.cost import Cost, Step
from axon.backend.plan.ir import Kernels, Repeat, Whole, bytes_moved, operations, reads_of, title, values_in, values_of
from axon.base.names import Symbol
from axon.core import operation_count
from axon.core.ir import Check, Compress, Program, Value
from axon.shapes.dimension import Dim


def cost_of(program: Program) -> Cost:
    """Operations, bytes and memory of a program; its tables, made once, are held like arguments."""
    plan, _ = planned(program)
    values = values_in(plan)
    return cost.of(plan.program.inputs, tuple(_steps(plan.body, values)), plan.body.results, program.contract.proven())


def _steps(body: Kernels, values: Mapping[Symbol, Value]) -> Iterator[Step]:
    for kernel in body.kernels:
        match kernel:
            case Repeat(op=op, body=inner):
                inside = tuple(_steps(inner, values))
                yield Step(title(kernel), frozenset(), op.outs, loop=op, inside=inside, results=inner.results)
            case Whole(op=Check()):
                pass  # the host asks it, of sizes
            case _:
                data = kernel.op if isinstance(kernel, Whole) and isinstance(kernel.op, Compress) else None
                moved: Dim = bytes_moved(kernel, values)
                flops = operation_count.total(operations(kernel))
                yield Step(title(kernel), reads_of(kernel), values_of(kernel), flops, moved, data=data)
