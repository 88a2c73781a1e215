"""Kernels that follow each other and are small at a call's sizes, as one native function.

A launch from Python takes as long as some 100,000 additions: a program of many kernels on little data would do little else. So
what one thread computes alone anyway is put together, in the form of a loop of one step without states (see `loops`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from axon.backend.plan.ir import Kernel, Kernels, Repeat, reads_of, values_of
from axon.base.names import fresh
from axon.core.ir import Block, Index, Loop, Value
from axon.shapes.dimension import Dim

LONGEST = 32  # kernels in a function, which takes long to compile otherwise


def together(body: Kernels, small: Sequence[bool]) -> Kernels:
    """The same kernels, of which those that are small and follow each other are one."""
    made: list[Kernel] = []
    groups = list(_groups(body.kernels, small))
    for position, group in enumerate(groups):
        if len(group) == 1:
            made += group
            continue
        later = frozenset(body.results).union(*(reads_of(kernel) for other in groups[position + 1 :] for kernel in other))
        made.append(_straight(group, tuple(v for kernel in group for v in values_of(kernel) if v.symbol in later)))
    return Kernels(tuple(made), body.results)


def _straight(kernels: Sequence[Kernel], outs: tuple[Value, ...]) -> Repeat:
    once = Loop(outs, (), (), fresh("once"), Index(Dim.of(1)), Block((), ()), stacked=False)
    return Repeat(once, Kernels(tuple(kernels), ()))


def is_straight(kernel: Repeat) -> bool:
    return not kernel.op.states


def _groups(kernels: Sequence[Kernel], small: Sequence[bool]) -> Iterator[list[Kernel]]:
    group: list[Kernel] = []
    for kernel, little in zip(kernels, small, strict=True):
        if group and (not little or len(group) == LONGEST):
            yield group
            group = []
        if little:
            group.append(kernel)
        else:
            yield [kernel]
    if group:
        yield group
