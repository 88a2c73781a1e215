"""Factors that bulk copies cannot read as they lie: a plain kernel copies them first, rows at multiples of 16 bytes.

That moves a factor twice more, which is little beside a product that uses each of its elements `LEAST` times or more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from functools import lru_cache

from axon.backend.families import Kernel, Tiled, copy, with_operands
from axon.backend.memory import Tensor
from axon.backend.plan import Nest, Reason
from axon.backend.prepare import problem_of, unreadable
from axon.backend.views import with_views
from axon.core import Value
from axon.names import Symbol, fresh

LEAST = 64  # rows, and columns or keys: below, plain kernels compute the product
Factor = tuple[Symbol, int]  # the first result of a kernel, and which of its operands


def wanted(kernel: Tiled, tensors: Mapping[Symbol, Tensor], sizes: Mapping[Symbol, int]) -> frozenset[Factor]:
    """The factors to copy for a kernel; none if it can read all, or if it is not worth it.

    Raises `Unsupported` for a view that cannot be made.
    """
    problem = problem_of(kernel, sizes)
    if min(problem.rows, problem.keys or problem.columns) < LEAST or problem.depth < 1:
        return frozenset()
    found = unreadable(kernel, with_views(kernel.views, tensors, sizes))
    return frozenset((kernel.results[0].value.symbol, number) for number in found)


def with_copies(kernels: Iterable[Kernel], factors: Set[Factor]) -> tuple[tuple[Kernel, ...], frozenset[Symbol]]:
    """The kernels with copies of these factors in front, and the copies, whose rows are to be laid out at multiples of 16 bytes."""
    copies: dict[Symbol, Value] = {}  # of a tensor, or of a view
    return tuple(_copied(kernels, factors, copies)), frozenset(value.symbol for value in copies.values())


def _copied(kernels: Iterable[Kernel], factors: Set[Factor], copies: dict[Symbol, Value]) -> Iterator[Kernel]:
    for kernel in kernels:
        if isinstance(kernel, Nest):
            yield kernel
            continue
        operands = list(kernel.operands)
        for number, operand in enumerate(operands):
            if (kernel.results[0].value.symbol, number) not in factors:
                continue
            value = operand.value
            if value.symbol not in copies:
                copies[value.symbol] = replace(value, symbol=_symbol(kernel.results[0].value.symbol, number, value.symbol.name))
                yield _copy(kernel, value, copies[value.symbol])
            operands[number] = replace(operand, value=copies[value.symbol])
        yield with_operands(kernel, tuple(operands))


@lru_cache(maxsize=4096)
def _symbol(result: Symbol, number: int, name: str) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(name)


def _copy(kernel: Tiled, value: Value, made: Value) -> Nest:
    view = next((v for v in kernel.views if v.value == value), None)
    source = value.symbol if view is None else view.source
    why = Reason("a copy of {0} for the tensor cores, which cannot read it as it lies", (source,))
    return copy(made, source, view, (why,), kernel.span)
