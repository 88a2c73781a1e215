"""How long a plain kernel takes, by a roofline: a launch, and its memory, its caches, its arithmetic, or the turns that a thread
goes through one after the other, whichever takes longest.

The rates were measured on one H200, and stand here as parts of what it can do at most: other chips are taken to reach as much of
theirs. That of the L2 cache, which grows with multiprocessors and clock, is fitted to a product of 256×256×256 in f32, 8.5 µs;
64×4096×4096, whose factor of 64 MiB comes from memory for each of 64 rows, is predicted to take 1024 µs and took 919.
"""

from __future__ import annotations

from axon.backend.gpu.layout.target import HOPPER, Target
from axon.base.data import dataclass

LAUNCH = 2e-6  # seconds that a plain kernel takes if it does nothing
MEMORY = 4.2e12 / HOPPER.dram  # of what is not in a cache
CACHE = 10.3e12 / (HOPPER.multiprocessors * HOPPER.clock)  # bytes from the L2 cache, with what of them is still closer by
FLOPS = 6e13 / HOPPER.f32  # of plain kernels: a product and the sum that it goes into are one instruction
OTHER = 3e13 / HOPPER.f32  # comparisons, choices and arithmetic on integers
# Loads and stores of single threads per second: 8192 rows of 50,257 numbers in bf16, read one by one and stored one by one, took
# 831 µs; read for a cross entropy, 510 µs.
ACCESSES = 1e12 / (HOPPER.multiprocessors * HOPPER.clock)
# Seconds of one turn of a loop, most of which a thread waits for memory: measured of a sum over (12, 768, 3072) on an H200, each of
# whose rows had 16 threads. They went through 36,864 turns in 4,200 µs, a few turns' loads under way at once.
TURN = 0.12e-6
FULL = 1024  # threads of a multiprocessor, beside which more wait for each other
WIDE = HOPPER.f32 / HOPPER.f64  # so many times as long takes f64 on the chip of which constants were fitted


def memory_rate(target: Target) -> float:
    """Bytes per second."""
    return MEMORY * target.dram


def cache_rate(target: Target) -> float:
    """Bytes per second from the L2 cache."""
    return CACHE * target.multiprocessors * target.clock


def access_rate(target: Target) -> float:
    """Loads and stores of single threads per second, however wide they are."""
    return ACCESSES * target.multiprocessors * target.clock


def flop_rate(target: Target) -> float:
    """FLOPs per second, of f32."""
    return FLOPS * target.f32


def other_rate(target: Target) -> float:
    """Other operations per second."""
    return OTHER * target.f32


def slower(target: Target) -> float:
    """So many times as long as on the measured chip takes f64, beside f32."""
    return target.f32 / target.f64 / WIDE


def waiting(turns: float, threads: int, target: Target) -> float:
    """Seconds that threads wait of which each goes through so many turns: of more threads than keep a chip busy, in waves."""
    return turns * TURN * max(1.0, threads / (target.multiprocessors * FULL))


INDEX = 64  # operations that find one index of what a thread makes: a division
TOGETHER = 8  # elements that a thread makes together, where a row has a multiple of them


@dataclass(frozen=True, slots=True)
class Loads:
    """Bytes that are loaded of one tensor again and again, and bytes of it that come between an element and the same element."""

    bytes: int
    between: int

    def seconds(self, target: Target) -> float:
        """From memory, if what comes between has pushed it out of the L2 cache."""
        return self.bytes / (cache_rate(target) if self.between <= target.l2 else memory_rate(target))


@dataclass(frozen=True, slots=True)
class KernelWork:
    """What a plain kernel does: bytes that it must move at least, what it loads more often, and operations, `doubles` of them in
    f64."""

    moved: int
    loads: tuple[Loads, ...] = ()
    flops: int = 0
    others: int = 0
    doubles: int = 0

    def arithmetic(self, target: Target) -> float:
        """Seconds of its arithmetic."""
        flops = self.flops - self.doubles + self.doubles * slower(target)
        return flops / flop_rate(target) + self.others / other_rate(target)

    def memory(self, target: Target) -> float:
        """Seconds of what it moves."""
        return max(self.moved / memory_rate(target), sum(loads.seconds(target) for loads in self.loads))

    def seconds(self, target: Target) -> float:
        return LAUNCH + max(self.memory(target), self.arithmetic(target))


def copying(moved: int, elements: int, rank: int, row: int) -> KernelWork:
    """What a copy of so many elements in other rows does, of which a thread finds the place of each, or of several side by side."""
    return KernelWork(moved, others=elements * rank * INDEX // (TOGETHER if row % TOGETHER == 0 else 1))
