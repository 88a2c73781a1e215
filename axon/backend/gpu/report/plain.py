"""How long a plain kernel is expected to take, and why: by a roofline of what it does, or by what its threads wait for."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.roofline import LAUNCH, KernelWork
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.runtime.plain_variants import PreparedNest, prepare
from axon.backend.gpu.runtime.prepare import is_empty
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.simt.mapping import Mapping
from axon.backend.gpu.simt.register_tiles import predicted, untiled
from axon.backend.gpu.simt.turns import Turns, turns
from axon.backend.plan.ir import Nest
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Program, Value


@dataclass(frozen=True, slots=True)
class PlainTime:
    """A nest's mapping, what it does, the turns of its steps' loops, and how many seconds that takes: by the roofline, and as
    its threads wait. Of register tiles a model of their own says it, and nothing is said of turns."""

    mapping: Mapping
    work: KernelWork
    turns: tuple[Turns, ...]
    target: Target
    roofline: float

    @property
    def waiting(self) -> float:
        return LAUNCH + sum(each.seconds(self.target) for each in self.turns)

    @property
    def seconds(self) -> float:
        return max(self.roofline, self.waiting)

    @property
    def waits(self) -> bool:
        """Whether it takes longer than what it does."""
        return self.waiting > self.roofline

    @property
    def worded(self) -> str:
        """Why it takes longer."""
        longest = max(self.turns, key=lambda each: each.seconds(self.target))
        count = f"goes through {longest.count:,} turn{'s' * (longest.count != 1)} of its loop"
        if longest.few(self.target):
            return f"few threads: each of {longest.threads:,} {count}, and waits for memory in each"
        return f"each thread {count}, and asks for little in each"


def time_of(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    tensors: MappingOf[Symbol, DeviceTensor],
    sizes: MappingOf[Symbol, int],
    target: Target,
    mapping: Mapping | None = None,
) -> PlainTime:
    """Of a nest over all of its axes, for tensors that lie like these; without a mapping, with the one that suits the sizes."""
    prepared = prepare(nest, values, tensors, sizes, target)
    return _time(prepared, mapping or prepared.wanted, untiled(nest, values, sizes), nest, sizes)


def _time(ready: PreparedNest, mapping: Mapping, work: KernelWork, nest: Nest, sizes: MappingOf[Symbol, int]) -> PlainTime:
    target = ready.target
    if mapping.tiled is not None:
        return PlainTime(mapping, work, (), target, predicted(nest, mapping.tiled, sizes, target))
    return PlainTime(mapping, work, turns(mapping, ready.kernel, ready.values, sizes, target), target, work.seconds(target))


def times_of(program: Program, sizes: MappingOf[Symbol, int], target: Target = HOPPER) -> Iterator[PlainTime]:
    """Of each plain kernel that runs at these sizes, of tensors without gaps. Nothing is built."""
    for _, executable, own in Ordered(program, target).at(sizes).foreseen(sizes):
        planned = executable.serving({}, own).planned
        for kernel in planned.kernels:
            if isinstance(kernel, Nest) and not is_empty(kernel, own):
                yield time_of(kernel, planned.known, planned.lying(own), own, target)
