"""The plan by which the CPU backend runs a program, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from axon.backend.plan import cost
from axon.backend.plan.cost import CostedStep, PlanCost
from axon.backend.plan.ended import total
from axon.backend.plan.fuse import Policy, fuse
from axon.backend.plan.ir import Kernels, Plan, Repeat, Whole, bytes_moved, operations, reads_of, title, values_in, values_of
from axon.backend.plan.totals import split_totals
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Compute, Index, Program, Scalar, Value
from axon.core.passes.cse import deduplicated
from axon.core.passes.factor import HOST, choices, factored
from axon.core.passes.hoist import HOST as WORTH
from axon.core.passes.loop_order import in_memory_order
from axon.core.passes.narrow import narrowed
from axon.core.passes.orders import DEFAULT, Order, OrderChoice
from axon.core.passes.parts import as_size
from axon.core.passes.tables import without_tables
from axon.shapes.dimension import Dim

POLICY = Policy(epilogues=frozenset(), hoist=WORTH)


def planned(program: Program, order: Order = DEFAULT) -> tuple[Plan, tuple[Compute, ...]]:
    """The plan, whose last inputs are the program's tables, and the operations that make these. `order` is that of sums which have
    `choices`."""
    rest, tables = without_tables(in_memory_order(factored(_before_sums(program), HOST, order)))
    return split_totals(fuse(rest, POLICY)), tables


def choices_of(program: Program) -> tuple[OrderChoice, ...]:
    """The sums of products in whose order the sizes of a call decide."""
    return choices(_before_sums(program), HOST)


def _before_sums(program: Program) -> Program:
    """What the orders of sums are chosen in: what `factored` is given and what `choices` looks at are the same."""
    return deduplicated(narrowed(program))


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
