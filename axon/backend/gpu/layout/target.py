"""What a chip can hold and do, as one table. Every limit that a phase obeys is read from here."""

from __future__ import annotations

from typing import TypeAlias

from axon.base.data import dataclass

Capability: TypeAlias = "tuple[int, int, str]"  # a chip's instructions: 9.0, and "a" for those that no later chip has


def architecture(capability: Capability) -> str:
    """What the tools call it, such as `sm_90a`."""
    major, minor, own = capability
    return f"sm_{major}{minor}{own}"


@dataclass(frozen=True, slots=True)
class Target:
    """Limits of one chip. Sizes are bytes unless a name says otherwise."""

    compute_capability: Capability
    multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int
    registers_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    register_granule: int  # setmaxnreg takes multiples of this
    max_registers: int  # of one thread
    warpgroup: int  # threads
    max_warpgroups: int  # of a block that takes a whole multiprocessor
    named_barriers: int  # 0 is the block's own
    max_cluster: int
    max_barrier_count: int  # of an mbarrier's pending arrivals
    max_transaction: int  # bytes one mbarrier phase can expect
    tensor_map_rank: int
    tensor_map_alignment: int  # of addresses and strides
    box_extent: int  # elements along one dimension of a copy
    swizzle: int  # widest row that a swizzled tile may have, in bytes; `runtime.driver` and `emit.kernel` know no other than 128
    swizzle_period: int  # alignment of a swizzled tile
    product_rows: int  # m of one matrix instruction
    product_columns: tuple[int, int, int]  # smallest n, largest n, granule
    product_depth: int  # k of one matrix instruction, in bytes
    l2: int

    def occupancy(self, threads: int, registers: int, shared: int) -> int:
        """How many blocks of so many threads, of so many registers each, and bytes of shared memory a multiprocessor holds at once.

        Source: the CUDA programming guide's table of compute capability 9.0. A warp's registers come in units of 256; a block's
        shared memory in units of 128 bytes, of which the driver takes 1,024 more for each block.
        """
        warps = -(-threads // 32)
        by_registers = self.registers_per_multiprocessor // (-(-registers * 32 // 256) * 256 * warps)
        by_shared = self.shared_per_multiprocessor // (-(-shared // 128) * 128 + 1024)
        return min(by_registers, by_shared, self.threads_per_multiprocessor // (32 * warps), self.blocks_per_multiprocessor)

    def resident(self, cluster: int) -> int:
        """How many blocks run at once in clusters of this size, one per multiprocessor: larger clusters fit its groups worse."""
        left_over = 12 if cluster > 2 else 0  # seen with clusters of 4
        return (self.multiprocessors - left_over) // cluster * cluster


HOPPER = Target(
    compute_capability=(9, 0, "a"),
    multiprocessors=132,
    shared_per_block=227 * 1024,
    shared_per_multiprocessor=228 * 1024,
    registers_per_multiprocessor=65536,
    threads_per_multiprocessor=2048,
    blocks_per_multiprocessor=32,
    register_granule=8,
    max_registers=255,
    warpgroup=128,
    max_warpgroups=4,
    named_barriers=16,
    max_cluster=8,
    max_barrier_count=(1 << 20) - 1,
    max_transaction=(1 << 20) - 1,
    tensor_map_rank=5,
    tensor_map_alignment=16,
    box_extent=256,
    swizzle=128,
    swizzle_period=1024,
    product_rows=64,
    product_columns=(8, 256, 8),
    product_depth=32,
    l2=60 * 1000 * 1000,
)
