"""Which streams are divided (`tile.divided`), by cost: those of few rows and many keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from itertools import product
from math import prod

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.roofline import KernelWork
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.prepare import problem_of
from axon.backend.gpu.tile.divided import Divided, Division, divided
from axon.backend.gpu.tile.families import Tiled, results_of
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.base.names import Symbol

FEW = 64  # rows, of a tile that may be worth to be divided
WAVES = (1, 2)  # tiles for each multiprocessor that parts are to make
GAIN = 0.95  # of the time of a stream as it is, above which two kernels in its place are not worth it


def division(kernel: Stream, decided: Set[Symbol], sizes: Mapping[Symbol, int], target: Target) -> Division | None:
    """How a stream is best divided at these sizes; None if it is not, or that has been `decided` by what it stores."""
    if results_of(kernel)[0].symbol in decided or kernel.rows.extent.evaluate(sizes) > FEW:
        return None
    if any(axis.extent.evaluate(sizes) < 1 for axis in (*kernel.outer, kernel.rows, kernel.columns, *kernel.reduced)):
        return None
    costs = dict(_costs(kernel, sizes, target))
    best = min(costs, key=costs.__getitem__, default=None)
    return best if best is not None and costs[best] < GAIN * _seconds(kernel, sizes, target) else None


def _costs(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> Iterator[tuple[Division, float]]:
    for times, grouped in product((0, *WAVES), (False, True)):
        how = Division(times * target.multiprocessors or None, grouped)
        if times or grouped:
            try:
                made = divided(kernel, how)
            except Unsupported:
                continue
            if _fits(kernel, made, sizes):
                yield how, _seconds(made.stream, sizes, target) + _joining(made, sizes, target)


def _fits(kernel: Stream, made: Divided, sizes: Mapping[Symbol, int]) -> bool:
    """Whether the divided stream has each row of the other once: groups of heads are whole."""
    parts = made.stream.outer[0].extent.evaluate(sizes) if made.stream.part is not None else 1
    rows, others = (prod(a.extent.evaluate(sizes) for a in (*k.outer, k.rows)) for k in (kernel, made.stream))
    return rows * parts == others


def _seconds(kernel: Tiled, sizes: Mapping[Symbol, int], target: Target) -> float:
    return fastest(problem_of(kernel, sizes), traits(kernel), target)


def _joining(made: Divided, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Seconds of the kernel that puts parts together."""
    stored = results_of(made.stream)
    return KernelWork(2 * sum(4 * prod(extent.evaluate(sizes) for extent in value.shape) for value in stored)).seconds(target)
