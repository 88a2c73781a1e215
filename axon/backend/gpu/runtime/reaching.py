"""Which streams leave out keys by tables (`tile.reach`), by cost, and the kernels that make these.

What data hide is not known before the call: it may be nothing. So tables are made where they cost little beside the stream.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from functools import lru_cache
from math import prod

from axon.backend.gpu.build.recipe import traits
from axon.backend.gpu.layout.roofline import LAUNCH, KernelWork, Loads
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.runtime.prepare import problem_of
from axon.backend.gpu.tile.bounds import BLOCK, Reach
from axon.backend.gpu.tile.families import Kernel, nests, results_of
from axon.backend.gpu.tile.reach import reaching
from axon.backend.gpu.tile.schedule import fastest
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Reason
from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Program
from axon.core.walk import outs_of

MOST = 0.2  # of a stream's time, that its tables may take
PASSES = 5  # over the keys, of the kernel that makes tables
STEP = 8  # operations of each
LAUNCHES = 2
_TABLES = Reason("for tiles that leave out the keys that none of their rows sees")


def worth_reaching(kernel: Stream, sizes: Mapping[Symbol, int], target: Target) -> bool:
    """Whether a stream without tables is better with them, if data leave anything out at all."""
    reaches = () if kernel.reaches else _reaching(kernel).reaches
    if not reaches or kernel.rows.extent.evaluate(sizes) < 1 or any(a.extent.evaluate(sizes) < 1 for a in kernel.reduced):
        return False
    costs = sum(_seconds(reach, kernel.keys.extent.evaluate(sizes), sizes, target) for reach in reaches)
    return costs < MOST * fastest(problem_of(kernel, sizes), traits(kernel), target)


@lru_cache(maxsize=256)
def _reaching(kernel: Stream) -> Stream:
    return reaching(kernel)


def _seconds(reach: Reach, keys: int, sizes: Mapping[Symbol, int], target: Target) -> float:
    """Of the kernels that make a table."""
    blocks = prod(extent.evaluate(sizes) for extent in reach.table.shape[:-1])
    steps = PASSES * blocks * keys
    read = 4 * (keys + BLOCK * blocks)
    return LAUNCHES * LAUNCH + KernelWork(read, (Loads(4 * steps, read),), others=STEP * steps).seconds(target)


def with_reaches(made: Iterable[Kernel], wanted: Set[Symbol], program: Program) -> Iterator[Kernel]:
    """The kernels, of which streams that make one of those `wanted` leave out keys by tables, and what makes these, each once."""
    values = {v.symbol: v for v in program.inputs} | {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    there: set[Symbol] = set()
    for kernel in made:
        if not isinstance(kernel, Stream) or results_of(kernel)[0].symbol not in wanted:
            yield kernel
            continue
        kernel = reaching(kernel)
        for reach in kernel.reaches:
            if reach.table.symbol in there:
                continue
            there.add(reach.table.symbol)
            held = values | {out.symbol: out for op in reach.made for out in op.outs}
            before = replace(program, block=Block(reach.made, (reach.table.symbol,)))
            for nest in nests(before, reach.made, {reach.table.symbol}, held, whole=True):
                yield replace(nest, reasons=(*nest.reasons, _TABLES))
        yield kernel
