"""Streams of 8-bit factors, by cost: whether these are widened to 16 bits first, or a stream's operations run one by one."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.products import EIGHT_BIT_FLOATS
from axon.backend.gpu.layout.roofline import KernelWork, Loads
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime.prepare import problem_of, shown
from axon.backend.gpu.tile.families import with_operands
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol

RESULT_BYTES = 4
WIDE_BYTES = 2


def better_widened(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> str | None:
    """Why a stream that multiplies factors of 8 bits had better have them widened at these sizes, if it had."""
    short = [operand for operand in kernel.operands if operand.value.element in EIGHT_BIT_FLOATS]
    if not short:
        return None
    wide = with_operands(kernel, [replace(o, value=replace(o.value, element=Element.BF16)) for o in kernel.operands])
    assert isinstance(wide, Stream)
    wide = replace(wide, promotion=0)
    copies = sum(KernelWork((1 + WIDE_BYTES) * shown(kernel, [operand], sizes)).seconds(target) for operand in dict.fromkeys(short))
    widened = copies + fastest(problem_of(wide, sizes), replace(traits(wide), value_across=True), target)
    if widened < making(kernel, sizes, target) + fastest(problem_of(kernel, sizes), traits(kernel), target):
        return "at these sizes its factors of 8 bits are widened and multiplied sooner"
    return None


def better_one_by_one(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> str | None:
    """Why a stream for which factors of 8 bits are copied had better be made one operation after the other at these sizes, if it
    had: a row or two read them as they lie, each once, in less time than a copy takes."""
    if not kernel.copies:
        return None
    problem = problem_of(kernel, sizes)
    scores = problem.outer * problem.rows * problem.keys
    apart = 0.0
    for operand, extent in ((kernel.key, problem.depth), (kernel.value, problem.columns)):
        own = shown(kernel, [operand], sizes)
        moved = own + RESULT_BYTES * (scores + problem.outer * problem.rows * problem.columns)
        again = Loads(scores * extent, own // max(1, problem.outer))
        apart += KernelWork(moved, (again,), 2 * scores * extent).seconds(target)
    together = making(kernel, sizes, target) + fastest(problem, traits(kernel), target)
    return "at these sizes its operations are done sooner one by one than its factors of 8 bits are copied" if apart < together else None


def making(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of the copies that a stream reads."""
    found = 0.0
    for copy in dict.fromkeys(kernel.copies):
        elements = prod(max(0, extent.evaluate(sizes)) for extent in copy.shape)
        found += KernelWork((1 + copy.element.bits // 8) * elements).seconds(target)
    return found
