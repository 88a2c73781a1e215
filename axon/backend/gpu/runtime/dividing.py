"""Which streams are divided (`tile.divided`), by cost: those of few rows and many keys; of which index tiles have rows; and what
becomes of factors of 8 bits (`tile.eight_bits`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from functools import lru_cache
from math import prod

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.products import EIGHT_BIT_FLOATS
from axon.backend.gpu.layout.roofline import KernelWork, Loads
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.prepare import problem_of, shown
from axon.backend.gpu.tile.divided import ROWS, Divided, Division, divided
from axon.backend.gpu.tile.families import Tiled, results_of, with_operands
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol

FEW = 64  # rows, of a tile that may be worth to be divided
WAVES = (1, 2)  # tiles for each multiprocessor that parts are to make
RESULT_BYTES = 4
WIDE_BYTES = 2  # of an element of 8 bits that is widened
GAIN = 0.95  # of the time of a stream as it is, above which two kernels in its place are not worth it


def division(kernel: Stream, decided: Set[Symbol], sizes: Mapping[Symbol, int], target: Target) -> Division | None:
    """How a stream is best divided at these sizes; None if it is not, or that has been `decided` by what it stores. Keys in limbs
    are worth it for many rows alone."""
    if kernel.further or results_of(kernel)[0].symbol in decided or kernel.rows.extent.evaluate(sizes) > FEW:
        return None
    if any(axis.extent.evaluate(sizes) < 1 for axis in (*kernel.outer, kernel.rows, kernel.columns, *kernel.reduced)):
        return None
    costs = dict(_costs(kernel, sizes, target))
    best = min(costs, key=costs.__getitem__, default=None)
    return best if best is not None and costs[best] < GAIN * _seconds(kernel, sizes, target) else None


def better_rows(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> int | None:
    """Which of the axes of what a stream makes its tiles should have rows of at these sizes, by its place; None if that is so."""
    if kernel.made is None or not kernel.may_be_rows:
        return None
    problem = problem_of(kernel, sizes)
    axes = {axis.symbol: axis.extent.evaluate(sizes) for axis in (*kernel.may_be_rows, kernel.rows)}
    if any(extent < 1 for extent in axes.values()):
        return None
    outer = problem.outer * problem.rows
    costs = {
        symbol: fastest(replace(problem, rows=extent, outer=outer // extent), traits(kernel), target)
        for symbol, extent in axes.items()
    }
    best = min(costs, key=costs.__getitem__)
    return kernel.made[1].index(best) if costs[best] < GAIN * costs[kernel.rows.symbol] else None


def _costs(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> Iterator[tuple[Division, float]]:
    """Seconds of the ways to divide a stream: rows that share keys are one tile's where any do, so that keys are loaded once."""
    together = _divided(kernel, Division(None, grouped=True))
    grouped = together is not None and _fits(kernel, together.stream, sizes)
    for times in (0, *WAVES):
        how = Division(times * target.multiprocessors or None, grouped)
        made = _divided(kernel, how) if times or grouped else None
        if made is not None:
            yield how, _seconds(made.stream, sizes, target) + _joining(made, sizes, target)


@lru_cache(maxsize=256)
def _divided(kernel: Stream, how: Division) -> Divided | None:
    """A stream that is divided so, if it can be: the same at all sizes, of which decoding has another for each token."""
    try:
        return divided(kernel, how)
    except Unsupported:
        return None


def _fits(kernel: Stream, grouped: Stream, sizes: Mapping[Symbol, int]) -> bool:
    """Whether the grouped stream has each row of the other once, as groups of heads are whole, in fewer tiles."""
    outer, others = (prod(a.extent.evaluate(sizes) for a in k.outer) for k in (kernel, grouped))
    rows, more = (k.rows.extent.evaluate(sizes) for k in (kernel, grouped))
    return outer * rows == others * more and others * -(-more // ROWS) < outer * -(-rows // ROWS)


def _seconds(kernel: Tiled, sizes: Mapping[Symbol, int], target: Target) -> float:
    return fastest(problem_of(kernel, sizes), traits(kernel), target)


def _joining(made: Divided, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of the kernel that puts parts together: it reads what they wrote, of which statistics are a small part."""
    (product,) = made.stream.results
    return KernelWork(2 * 4 * prod(extent.evaluate(sizes) for extent in product.value.shape)).seconds(target)


# ── factors of 8 bits ─────────────────────────────────────────────────────────────────────────────────────────────────────


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
    why = "at these sizes its operations are done sooner one by one than its factors of 8 bits are copied"
    return why if apart < together else None


def making(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of the copies that a stream reads."""
    found = 0.0
    for copy in dict.fromkeys(kernel.copies):
        elements = prod(max(0, extent.evaluate(sizes)) for extent in copy.shape)
        found += KernelWork((1 + copy.element.bits // 8) * elements).seconds(target)
    return found
