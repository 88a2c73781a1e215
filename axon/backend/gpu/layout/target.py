"""What a chip can hold and do, as one table. Every limit that a phase obeys is read from here.

A row is for one compute capability. Its limits are those of every such chip; how many multiprocessors it has and how fast it is
are those of one, in whose place a machine's driver may say what is there. Sources: limits, the table "Technical Specifications per
Compute Capability" of the CUDA programming guide, and `cuda_occupancy.h` of CUDA 13, with which a test compares; features, the
"Target ISA Notes" of each instruction in the PTX ISA 9.0, with which the assembler is compared; speeds, what NVIDIA states of the
chip that a row names.
"""

from __future__ import annotations

from typing import TypeAlias

from axon.base.data import dataclass, replace

Capability: TypeAlias = "tuple[int, int, str]"  # a chip's instructions: 9.0, and "a" for those that no later chip has


def architecture(capability: Capability) -> str:
    """What the tools call it, such as `sm_90a`."""
    major, minor, own = capability
    return f"sm_{major}{minor}{own}"


@dataclass(frozen=True, slots=True)
class Feature:
    """Instructions that not every chip has: what they are, and since which compute capability. `own`: no later one has them."""

    name: str
    since: tuple[int, int]
    own: bool = False

    def on(self, capability: Capability) -> bool:
        return capability == (*self.since, "a") if self.own else capability[:2] >= self.since


NAN_EXTREMES = Feature("`max` and `min` in which a NaN wins", (8, 0))
BF16 = Feature("conversions to bf16, and of two floats to 16 bits at once", (8, 0))
FLOATS_OF_8_BITS = Feature("conversions of two floats to 8 bits at once", (8, 9))
ASYNC_COPIES = Feature("asynchronous copies into shared memory (cp.async)", (8, 0))
BARRIERS = Feature("barriers in shared memory (mbarrier)", (8, 0))
CLUSTERS = Feature("clusters of blocks, which see each other's shared memory", (9, 0))
PRODUCTS = Feature("products of 16 × 8 elements of 16 bits, and of 8 × 8 of f64, on tensor cores (mma)", (8, 0))
F64_PRODUCTS = Feature("products of 16 × 8 elements of f64 on tensor cores (mma)", (9, 0))
BULK_COPIES = Feature("bulk copies and tensor maps (TMA)", (9, 0))
MATRIX_STORES = Feature("stores of matrices (stmatrix)", (9, 0))
WGMMA = Feature("products of a warpgroup on tensor cores (wgmma)", (9, 0), own=True)
FEATURES = (
    NAN_EXTREMES, BF16, FLOATS_OF_8_BITS, ASYNC_COPIES, BARRIERS, PRODUCTS, CLUSTERS, F64_PRODUCTS, BULK_COPIES, MATRIX_STORES,
    WGMMA,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Target:
    """Limits and speeds of one chip. Sizes are bytes and rates are per second, unless a name says otherwise."""

    compute_capability: Capability  # whose instructions kernels are made of
    generation: str
    chip: str  # whose number of multiprocessors and speeds these are
    multiprocessors: int
    shared_per_block: int
    shared_per_multiprocessor: int
    threads_per_multiprocessor: int
    blocks_per_multiprocessor: int
    max_cluster: int  # blocks, of which every such chip has room for a cluster; 1 without clusters
    largest_cluster: int  # that can be allowed
    clock: float
    l2: int
    dram: float  # of memory
    f32: float  # FLOPs outside of tensor cores
    f64: float  # likewise
    tensor: float  # FLOPs of bf16 (before 8.0, of f16), summed in f32, without sparsity
    tensor_f64: float = 0.0  # likewise of f64; 0 where they are no faster than others
    mma: float = 0.0  # `tensor` by instructions of a warp (mma), where others are faster
    code: Capability | None = None  # what the linker makes, if a chip runs what was made for an earlier one
    shared_granule: int = 128
    shared_taken: int = 1024  # by the driver, of each block
    registers_per_multiprocessor: int = 65536
    max_registers: int = 255  # of one thread
    # Of warp-specialized kernels, which take chips that have WGMMA.
    register_granule: int = 8  # setmaxnreg takes multiples of this
    warpgroup: int = 128  # threads
    max_warpgroups: int = 4  # of a block that takes a whole multiprocessor
    named_barriers: int = 16  # 0 is the block's own
    max_barrier_count: int = (1 << 20) - 1  # of an mbarrier's pending arrivals
    max_transaction: int = (1 << 20) - 1  # bytes one mbarrier phase can expect
    tensor_map_rank: int = 5
    tensor_map_alignment: int = 16  # of addresses and strides
    box_extent: int = 256  # elements along one dimension of a copy
    swizzle: int = 128  # widest row that a swizzled tile may have, in bytes; `launching.driver` and `emit.kernel` know no other
    swizzle_period: int = 1024  # alignment of a swizzled tile
    product_rows: int = 64  # m of one matrix instruction
    product_columns: tuple[int, int, int] = (8, 256, 8)  # smallest n, largest n, granule
    product_depth: int = 32  # k of one matrix instruction, in bytes

    @property
    def name(self) -> str:
        """What users call it: `sm_90`."""
        return architecture((*self.compute_capability[:2], ""))

    @property
    def linked(self) -> Capability:
        """The capability of the machine code."""
        return self.compute_capability if self.code is None else self.code

    @property
    def by_warps(self) -> float:
        """FLOPs of bf16 on tensor cores, summed in f32, by instructions of a warp."""
        return self.mma or self.tensor

    def has(self, feature: Feature) -> bool:
        return feature.on(self.compute_capability)

    def on(self, capability: Capability) -> Target:
        """The same instructions and limits, as machine code for another chip: but for instructions that no other one has."""
        own = self.compute_capability[:2]
        return self if capability[:2] == own else replace(self, compute_capability=(*own, ""), code=capability)

    def occupancy(self, threads: int, registers: int, shared: int) -> int:
        """How many blocks of so many threads, of so many registers each, and bytes of shared memory a multiprocessor holds at once.
        A warp's registers come in units of 256, of one of four parts of a multiprocessor."""
        warps = -(-threads // 32)
        by_registers = 4 * (self.registers_per_multiprocessor // 4 // (-(-registers * 32 // 256) * 256)) // warps
        own = -(-(shared + self.shared_taken) // self.shared_granule) * self.shared_granule
        by_shared = self.shared_per_multiprocessor // own if own else by_registers
        return min(by_registers, by_shared, self.threads_per_multiprocessor // (32 * warps), self.blocks_per_multiprocessor)

    def resident(self, cluster: int) -> int:
        """How many blocks run at once in clusters of this size, one per multiprocessor: larger clusters fit its groups worse."""
        left_over = 12 if cluster > 2 else 0  # seen with clusters of 4
        return (self.multiprocessors - left_over) // cluster * cluster


HOPPER = Target(
    compute_capability=(9, 0, "a"),
    generation="Hopper",
    chip="H200",  # data sheet of the H200 SXM; rates at 1.98 GHz, those of the tensor cores at 1.83
    multiprocessors=132,
    shared_per_block=227 * 1024,
    shared_per_multiprocessor=228 * 1024,
    threads_per_multiprocessor=2048,
    blocks_per_multiprocessor=32,
    max_cluster=8,
    largest_cluster=16,
    clock=1.98e9,
    l2=60 * 1000 * 1000,
    dram=4.8e12,
    f32=66.9e12,
    f64=33.5e12,
    tensor=989e12,
    tensor_f64=66.9e12,
    mma=620e12,  # 0.62 of the others, as contributors of CUTLASS and FlashAttention measured
)
CHIPS = (
    Target(
        compute_capability=(7, 5, ""),
        generation="Turing",
        chip="T4",  # data sheet of the T4
        multiprocessors=40,
        shared_per_block=64 * 1024,
        shared_per_multiprocessor=64 * 1024,
        threads_per_multiprocessor=1024,
        blocks_per_multiprocessor=16,
        max_cluster=1,
        largest_cluster=1,
        clock=1.59e9,
        l2=4 << 20,
        dram=320e9,
        f32=8.1e12,
        f64=0.25e12,
        tensor=65e12,
        shared_granule=256,
        shared_taken=0,
    ),
    Target(
        compute_capability=(8, 0, ""),
        generation="Ampere",
        chip="A100",  # data sheet of the A100 80 GB SXM
        multiprocessors=108,
        shared_per_block=163 * 1024,
        shared_per_multiprocessor=164 * 1024,
        threads_per_multiprocessor=2048,
        blocks_per_multiprocessor=32,
        max_cluster=1,
        largest_cluster=1,
        clock=1.41e9,
        l2=40 << 20,
        dram=2.04e12,
        f32=19.5e12,
        f64=9.7e12,
        tensor=312e12,
        tensor_f64=19.5e12,
    ),
    Target(
        compute_capability=(8, 6, ""),
        generation="Ampere",
        chip="RTX 3090",  # "NVIDIA Ampere GA102 GPU Architecture", appendix A
        multiprocessors=82,
        shared_per_block=99 * 1024,
        shared_per_multiprocessor=100 * 1024,
        threads_per_multiprocessor=1536,
        blocks_per_multiprocessor=16,
        max_cluster=1,
        largest_cluster=1,
        clock=1.695e9,
        l2=6 << 20,
        dram=936e9,
        f32=35.6e12,
        f64=0.556e12,
        tensor=71e12,
    ),
    Target(
        compute_capability=(8, 9, ""),
        generation="Ada",
        chip="RTX 4090",  # "NVIDIA Ada GPU Architecture", appendix A
        multiprocessors=128,
        shared_per_block=99 * 1024,
        shared_per_multiprocessor=100 * 1024,
        threads_per_multiprocessor=1536,
        blocks_per_multiprocessor=24,
        max_cluster=1,
        largest_cluster=1,
        clock=2.52e9,
        l2=72 << 20,
        dram=1.008e12,
        f32=82.6e12,
        f64=1.29e12,
        tensor=165.2e12,
    ),
    HOPPER,
    Target(
        compute_capability=(10, 0, ""),
        generation="Blackwell",
        chip="B200",  # data sheet of the HGX B200, an eighth of it
        multiprocessors=148,
        shared_per_block=227 * 1024,
        shared_per_multiprocessor=228 * 1024,
        threads_per_multiprocessor=2048,
        blocks_per_multiprocessor=32,
        max_cluster=8,
        largest_cluster=16,
        clock=1.965e9,
        l2=126 << 20,
        dram=8e12,
        f32=74.5e12,
        f64=37e12,
        tensor=2250e12,
        mma=690e12,  # not stated: each multiprocessor is taken to do as much as one of Hopper
    ),
    Target(
        compute_capability=(12, 0, ""),
        generation="Blackwell",
        chip="RTX 5090",  # "NVIDIA RTX Blackwell GPU Architecture", appendix A
        multiprocessors=170,
        shared_per_block=99 * 1024,
        shared_per_multiprocessor=100 * 1024,
        threads_per_multiprocessor=1536,
        blocks_per_multiprocessor=24,
        max_cluster=8,
        largest_cluster=8,
        clock=2.407e9,
        l2=96 << 20,
        dram=1.792e12,
        f32=104.8e12,
        f64=1.64e12,
        tensor=209.5e12,
    ),
)


def row_of(capability: tuple[int, int]) -> Target | None:
    """The row for a chip, or, of one that has none, that of the nearest before it; None before the first."""
    return next((row for row in reversed(CHIPS) if row.compute_capability[:2] <= capability), None)
