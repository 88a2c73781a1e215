"""How long a plain kernel takes, by a roofline: a launch, and its memory, its caches, or its arithmetic, whichever takes longest.

The rates were measured on one H200. That of the L2 cache is fitted to a product of 256×256×256 in f32, 8.5 µs; 64×4096×4096, whose
factor of 64 MiB comes from memory for each of 64 rows, is predicted to take 1024 µs and took 919.
"""

from __future__ import annotations

from axon.backend.gpu.layout.target import Target
from axon.base.data import dataclass

LAUNCH = 2e-6  # seconds that a plain kernel takes if it does nothing
MEMORY_RATE = 4.2e12  # bytes per second, of what is not in a cache
CACHE_RATE = 10.3e12  # bytes per second from the L2 cache, with what of them is still closer by
FLOP_RATE = 6e13  # per second, of plain kernels: a product and the sum that it goes into are one instruction
OTHER_RATE = 3e13  # comparisons, choices and arithmetic on integers per second


INDEX = 64  # operations that find one index of what a thread makes: a division
TOGETHER = 8  # elements that a thread makes together, where a row has a multiple of them


@dataclass(frozen=True, slots=True)
class Loads:
    """Bytes that are loaded of one tensor again and again, and bytes of it that come between an element and the same element."""

    bytes: int
    between: int

    def seconds(self, target: Target) -> float:
        """From memory, if what comes between has pushed it out of the L2 cache."""
        return self.bytes / (CACHE_RATE if self.between <= target.l2 else MEMORY_RATE)


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a plain kernel does: bytes that it must move at least, what it loads more often, and operations."""

    moved: int
    loads: tuple[Loads, ...] = ()
    flops: int = 0
    others: int = 0

    @property
    def arithmetic(self) -> float:
        """Seconds of its arithmetic."""
        return self.flops / FLOP_RATE + self.others / OTHER_RATE

    def memory(self, target: Target) -> float:
        """Seconds of what it moves."""
        return max(self.moved / MEMORY_RATE, sum(loads.seconds(target) for loads in self.loads))

    def seconds(self, target: Target) -> float:
        return LAUNCH + max(self.memory(target), self.arithmetic)


def copying(moved: int, elements: int, rank: int, row: int) -> KernelWork:
    """What a copy of so many elements in other rows does, of which a thread finds the place of each, or of several side by side."""
    return KernelWork(moved, others=elements * rank * INDEX // (TOGETHER if row % TOGETHER == 0 else 1))
