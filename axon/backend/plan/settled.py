"""Choices that the sizes of a call make: what is not chosen is not computed.

    t[i] = if stride = 1 then a[i] else b[i]      where the stride is 1      t[i] = a[i]      and nobody makes b

    conditions    the kernels of a block -> the conditions of sizes on which they choose
    settled       the same kernels where these hold, or do not

What is left out may not be able to stop the program.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence, Set

from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, operations, reads_of, values_of
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Binary, Compute, Const, Index, Op, Scalar, Scan, Select, Unary
from axon.core.scalar_facts import mapped, may_fail, substitute
from axon.core.walk import nodes, rewrite, scalars
from axon.shapes.dimension import Dim

_COMPARED: dict[str, Callable[[int, int], bool]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


def decided(condition: Scalar, sizes: Mapping[Symbol, int]) -> bool | None:
    """Whether a condition holds that asks of sizes alone; None for others."""
    match condition:
        case Const(value=bool(value)):
            return value
        case Unary(op="not", operand=operand):
            inner = decided(operand, sizes)
            return None if inner is None else not inner
        case Binary(op="and" | "or" as op, left=left, right=right):
            first, second = decided(left, sizes), decided(right, sizes)
            if first is None or second is None:
                return None
            return first and second if op == "and" else first or second
        case Binary(op=op, left=left, right=right) if op in _COMPARED:
            x, y = _number(left, sizes), _number(right, sizes)
            return None if x is None or y is None else _COMPARED[op](x, y)
        case _:
            return None


def _number(scalar: Scalar, sizes: Mapping[Symbol, int]) -> int | None:
    match scalar:
        case Const(value=int(value)):
            return value
        case Index(dim=dim) if dim.variables <= sizes.keys():
            number = dim.evaluate(sizes)
            return number if scalar.element.limits[0] <= number <= scalar.element.limits[1] else None
        case _:
            return None


def conditions(kernels: Kernels, known: Set[Symbol]) -> tuple[Scalar, ...]:
    """What kernels choose by, of sizes that are known before: each once."""
    found: dict[Scalar, None] = {}
    for kernel in kernels.kernels:
        if isinstance(kernel, Nest):
            for step in kernel.steps:
                for scalar in scalars(step):
                    for node in nodes(scalar):
                        if isinstance(node, Select) and _asks_sizes(node.condition, known):
                            found.setdefault(node.condition)
    return tuple(found)


def _asks_sizes(condition: Scalar, known: Set[Symbol]) -> bool:
    every = list(nodes(condition))
    sizes = [node for node in every if isinstance(node, Index)]
    return (
        bool(sizes)
        and all(isinstance(node, Const | Unary | Binary | Index) for node in every)
        and all(node.dim.variables <= known for node in sizes)
        and not may_fail(condition)
    )


def without_failures(kernel: Kernel, sizes: Mapping[Symbol, int]) -> bool:
    """Whether a kernel cannot stop the program at these sizes, so that it may be left out."""
    return isinstance(kernel, Nest | Contraction) and not any(_stops(op, sizes) for op in operations(kernel))


def _stops(op: Op, sizes: Mapping[Symbol, int]) -> bool:
    if not isinstance(op, Compute | Scan):
        return True
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
    return any(may_fail(scalar) and may_fail(substitute(scalar, known)) for scalar in scalars(op))


def settled(kernels: Kernels, answers: Mapping[Scalar, bool | None], droppable: Sequence[bool]) -> Kernels:
    """The kernels with what these conditions choose; without those of the `droppable` that nobody needs then."""
    known = {condition: answer for condition, answer in answers.items() if answer is not None}

    def chosen(node: Scalar) -> Scalar | None:
        match node:
            case Select(condition=condition, then=then, otherwise=otherwise) if condition in known:
                return rewrite(then if known[condition] else otherwise, chosen)
            case _:
                return None

    def change(kernel: Kernel) -> Kernel:
        if not isinstance(kernel, Nest):
            return kernel
        steps = tuple(mapped(step, lambda scalar: rewrite(scalar, chosen)) for step in kernel.steps)
        return kernel if steps == kernel.steps else replace(kernel, steps=steps)

    made: list[Kernel] = []
    needed = set(kernels.results)
    for kernel, may_go in reversed(list(zip(map(change, kernels.kernels), droppable, strict=True))):
        if may_go and needed.isdisjoint(value.symbol for value in values_of(kernel)):
            continue
        made.append(kernel)
        needed |= reads_of(kernel)
    return Kernels(tuple(reversed(made)), kernels.results)
