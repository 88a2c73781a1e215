"""Load and launch built kernels on device memory that someone else owns, on the stream they are working on.

This module knows addresses, shapes and strides; what library a tensor comes from is its caller's business. TMA descriptors are made
on the host, passed by value, and kept for as long as address, shape and strides stay the same.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from axon.backend.barriers import Descriptor
from axon.backend.build import Kernel, RegistersExhausted, build
from axon.backend.contraction import Contraction, Operand
from axon.backend.emit import MapParameter, Parameter, PointerParameter, SizeParameter, StrideParameter
from axon.backend.families import kernels
from axon.backend.pipeline import Stages, stages, traits
from axon.backend.schedule import Mapping, Problem, ranked
from axon.backend.target import HOPPER, Target
from axon.backend.unsupported import Unsupported
from axon.core import Program, Value
from axon.element import Element
from axon.names import Symbol


class DeviceError(Exception):
    """The driver refused a call; the message names the call and its error."""


@dataclass(frozen=True, slots=True)
class Tensor:
    """Device memory: its address, and for each dimension its extent and the elements from one index to the next."""

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: Element

    @property
    def copyable(self) -> str | None:
        """Why bulk copies cannot address it, if they cannot."""
        size = self.element.bits // 8
        align = HOPPER.tensor_map_alignment
        if self.pointer % align:
            return f"its address is not a multiple of {align} bytes"
        if len(self.shape) > HOPPER.tensor_map_rank:
            return f"it has more than {HOPPER.tensor_map_rank} dimensions"
        if self.strides[-1] != 1 and self.shape[-1] > 1:
            return "its last dimension is not contiguous"
        for d, (extent, stride) in enumerate(zip(self.shape[:-1], self.strides[:-1], strict=True)):
            if extent > 1 and (stride * size % align or stride <= 0):
                return f"dimension {d} steps by {stride * size} bytes, which is not a multiple of {align}"
        return None

    @property
    def order(self) -> tuple[int, ...]:
        """Its dimensions by stride, the smallest last; dimensions of one index, whose stride means nothing, first."""
        return tuple(
            sorted(range(len(self.shape)), key=lambda d: (self.shape[d] > 1, -self.strides[d] if self.shape[d] > 1 else 0))
        )

    def arranged(self, order: tuple[int, ...]) -> Tensor:
        """The same memory with its dimensions in another order."""
        return Tensor(self.pointer, tuple(self.shape[d] for d in order), tuple(self.strides[d] for d in order), self.element)

    @property
    def paired(self) -> bool:
        """Whether two neighbours along the last dimension, from an even one on, are one aligned word of 16-bit elements."""
        if self.element.bits != 16 or not self.shape:
            return False
        even = all(stride % 2 == 0 for stride in self.strides[:-1])
        return even and self.strides[-1] == 1 and self.shape[-1] % 2 == 0 and self.pointer % 4 == 0


def contiguous(pointer: int, shape: tuple[int, ...], element: Element) -> Tensor:
    """A tensor laid out in rows."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return Tensor(pointer, shape, tuple(reversed(strides)), element)


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel of a program at given sizes: its mapping, all its forms, its machine code, and how many blocks run it."""

    kernel: Contraction
    mapping: Mapping
    stages: Stages
    built: Kernel
    blocks: int


@dataclass(frozen=True, slots=True)
class Prepared:
    """A kernel as its tensors lie: the sizes it is mapped for, what bulk copies can store, what is read in pairs."""

    kernel: Contraction
    problem: Problem
    boxed: frozenset[Symbol]
    paired: frozenset[Symbol]


def prepare(kernel: Contraction, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Prepared:
    """A kernel for these tensors. Raises `Unsupported` for operands that bulk copies cannot read, and for a sum over nothing."""
    left, right = (_as_it_lies(operand, tensors[operand.value.symbol]) for operand in (kernel.left, kernel.right))
    kernel = replace(kernel, left=left, right=right)
    for operand in (left, right):
        why = tensors[operand.value.symbol].arranged(operand.order).copyable
        if why:
            raise Unsupported(f"`{operand.value.symbol.name}` cannot be read by bulk copies: {why}", kernel.span)
    problem = problem_of(kernel, sizes)
    if problem.depth < 1:
        raise Unsupported("a sum over nothing", kernel.span)
    boxed = frozenset(r.value.symbol for r in kernel.results if tensors[r.value.symbol].copyable is None)
    return Prepared(kernel, problem, boxed, frozenset(symbol for symbol, tensor in tensors.items() if tensor.paired))


def is_empty(kernel: Contraction, sizes: MappingOf[Symbol, int]) -> bool:
    """Whether its results have no elements, so that nothing is to be done."""
    return min(axis.extent.evaluate(sizes) for axis in (*kernel.outer, kernel.rows, kernel.columns)) <= 0


class Executable:
    """A core program's kernels on one target. Plans, loaded kernels and launches are kept between calls."""

    def __init__(self, program: Program, target: Target = HOPPER, mapping: Mapping | None = None) -> None:
        """Raises `Unsupported` for a program with an operation outside the families. A given mapping holds for every kernel."""
        self.program, self.target, self.mapping = program, target, mapping
        self.kernels = kernels(program)
        stored = (r.value for k in self.kernels for r in k.results)
        self.values: tuple[Value, ...] = tuple(dict.fromkeys([*program.inputs, *stored]))
        self._plans: dict[tuple[object, ...], Plan] = {}
        self._loaded: dict[Kernel, Loaded] = {}
        self._launches: OrderedDict[tuple[object, ...], tuple[Launch, ...]] = OrderedDict()

    def __call__(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int], stream: int) -> None:
        """Launch every kernel in order on a stream. `tensors` holds all inputs and all results; `sizes` every dimension."""
        key = (*(tensors[v.symbol] for v in self.values), *sizes.values())
        launches = self._launches.get(key)
        if launches is None:
            launches = self._launches[key] = tuple(self._prepare(tensors, sizes))
            if len(self._launches) > KEPT_LAUNCHES:
                self._launches.popitem(last=False)
        for launch in launches:
            launch(stream)

    def _prepare(self, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Iterator[Launch]:
        for number, kernel in enumerate(self.kernels):
            if is_empty(kernel, sizes):
                continue
            plan = self.plan(number, tensors, sizes)
            if plan.built not in self._loaded:
                self._loaded[plan.built] = Loaded(plan.built, plan.stages)
            arguments = [argument(p, tensors, sizes) for p in plan.stages.source.parameters]
            yield Launch(self._loaded[plan.built], plan.blocks, arguments, persistent=plan.mapping.persistent)

    def plan(self, number: int, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> Plan:
        """The plan of a kernel for these tensors: built, but not loaded; needs no GPU.

        Raises `Unsupported` for operands that bulk copies cannot read, `BuildError` where no mapping gives a sound kernel.
        """
        ready = prepare(self.kernels[number], tensors, sizes)
        key = (number, ready.problem, ready.boxed, ready.paired, ready.kernel.left.order, ready.kernel.right.order)
        if key not in self._plans:
            self._plans[key] = self._plan(ready)
        return self._plans[key]

    def _plan(self, ready: Prepared) -> Plan:
        """The best mapping whose kernel fits its registers. Only the compiler knows which do, when an epilogue is long."""
        kernel, problem = ready.kernel, ready.problem
        mappings = (self.mapping,) if self.mapping else ranked(problem, traits(kernel), self.target)
        failure: RegistersExhausted | None = None
        for mapping in mappings:
            made = stages(kernel, mapping, self.target, self.values, ready.boxed, ready.paired)
            try:
                built = build(made, self.target)
            except RegistersExhausted as exhausted:
                failure = failure or exhausted
                continue
            return Plan(kernel, mapping, made, built, blocks(mapping, problem, self.target))
        raise failure or Unsupported("no mapping fits this kernel", kernel.span)


def _as_it_lies(operand: Operand, tensor: Tensor) -> Operand:
    """The operand with its dimensions in the order of its strides, if only so its last dimension is contiguous."""
    return operand if tensor.copyable is None else operand.arranged(tensor.order)


def problem_of(kernel: Contraction, sizes: MappingOf[Symbol, int]) -> Problem:
    """The sizes on which the choice of a mapping depends."""
    outer = 1
    for axis in kernel.outer:
        outer *= axis.extent.evaluate(sizes)
    rows, columns, depth = (axis.extent.evaluate(sizes) for axis in (kernel.rows, kernel.columns, kernel.depth))
    return Problem(rows, columns, depth, outer)


def blocks(mapping: Mapping, problem: Problem, target: Target) -> int:
    """How many thread blocks to launch: one for each tile, or as many as the chip holds if the mapping is persistent."""
    rows, columns = -(-problem.rows // mapping.rows), -(-problem.columns // mapping.columns)
    if mapping.cluster_over == "rows":
        rows = -(-rows // mapping.cluster)
    else:
        columns = -(-columns // mapping.cluster)
    clusters = rows * columns * problem.outer
    held = target.multiprocessors // mapping.cluster
    return mapping.cluster * (min(clusters, held) if mapping.persistent else clusters)


# ── the driver ──────────────────────────────────────────────────────────────────────────────────────────────────────────

KEPT_LAUNCHES = 1024


class Loaded:
    """A kernel in the device's memory."""

    def __init__(self, kernel: Kernel, stages: Stages) -> None:
        from cuda.core import ObjectCode

        driver = _driver()
        self.source = stages.source
        self.module = ObjectCode.from_cubin(kernel.cubin)
        handle = self.module.get_kernel(kernel.entry).handle
        device = _checked("cuCtxGetDevice", driver.cuCtxGetDevice())
        attribute = driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        _checked("cuKernelSetAttribute", driver.cuKernelSetAttribute(attribute, self.source.shared, handle, device))
        self.function = _checked("cuKernelGetFunction", driver.cuKernelGetFunction(handle))

    def resident(self, wanted: int) -> int:
        """As many of the blocks wanted as run at once: a cluster that had to wait for another would start its tiles late."""
        driver, source = _driver(), self.source
        if source.cluster == 1:
            return wanted
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = wanted, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = source.threads, 1, 1
        config.sharedMemBytes = source.shared
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = source.cluster, 1, 1
        config.attrs, config.numAttrs = [attribute], 1
        most = _checked("cuOccupancyMaxActiveClusters", driver.cuOccupancyMaxActiveClusters(self.function, config))
        return min(wanted, int(most) * source.cluster)


class Launch:
    """A kernel with its arguments, ready to go."""

    def __init__(self, kernel: Loaded, blocks: int, arguments: list[bytes], *, persistent: bool) -> None:
        self.kernel, self.driver = kernel, _driver()
        self.blocks = kernel.resident(blocks) if persistent else blocks
        self.arguments = _Arguments(arguments)

    def __call__(self, stream: int) -> None:
        source = self.kernel.source
        size = (self.blocks, 1, 1, source.threads, 1, 1, source.shared)
        result = self.driver.cuLaunchKernel(self.kernel.function, *size, stream, self.arguments.address, 0)
        if result[0]:
            _checked("cuLaunchKernel", result)


class _Arguments:
    """A launch's arguments in memory, as the driver wants them: an array of pointers to values."""

    def __init__(self, values: list[bytes]) -> None:
        size = sum(-(-len(v) // 64) * 64 for v in values) + 64
        self.memory = ctypes.create_string_buffer(size)
        at = -(-ctypes.addressof(self.memory) // 64) * 64
        pointers = []
        for value in values:
            ctypes.memmove(at, value, len(value))
            pointers.append(at)
            at += -(-len(value) // 64) * 64
        self.pointers = (ctypes.c_void_p * len(pointers))(*pointers)
        self.address = ctypes.addressof(self.pointers)


def argument(parameter: Parameter, tensors: MappingOf[Symbol, Tensor], sizes: MappingOf[Symbol, int]) -> bytes:
    """The bytes of one kernel argument."""
    match parameter:
        case MapParameter(descriptor=descriptor):
            return tensor_map(tensors[descriptor.tensor].arranged(descriptor.order), descriptor)
        case PointerParameter(tensor=tensor):
            return tensors[tensor].pointer.to_bytes(8, "little")
        case StrideParameter(tensor=tensor, dimension=dimension):
            return tensors[tensor].strides[dimension].to_bytes(8, "little", signed=True)
        case SizeParameter(size=size):
            return size.evaluate(sizes).to_bytes(4, "little", signed=True)


@lru_cache(maxsize=4096)
def tensor_map(tensor: Tensor, descriptor: Descriptor) -> bytes:
    """The 128 bytes of a TMA descriptor. Outside the tensor, copies read 0 and write nothing."""
    driver = _driver()
    size = tensor.element.bits // 8
    kinds = driver.CUtensorMapDataType
    kind = {
        Element.BF16: kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
        Element.F16: kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
        Element.F32: kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
    }[tensor.element]
    rank = len(tensor.shape)
    align = HOPPER.tensor_map_alignment
    # A dimension of one index may have any stride; the driver wants an aligned one.
    steps = [s * size if n > 1 else align for n, s in zip(tensor.shape[:-1], tensor.strides[:-1], strict=True)]
    made = driver.cuTensorMapEncodeTiled(
        kind,
        rank,
        tensor.pointer,
        [driver.cuuint64_t(n) for n in reversed(tensor.shape)],
        [driver.cuuint64_t(n) for n in reversed(steps)],
        [driver.cuuint32_t(n) for n in reversed(descriptor.box)],
        [driver.cuuint32_t(1)] * rank,
        driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
        driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
        driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
        driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
    )
    encoded = _checked("cuTensorMapEncodeTiled", made)
    return ctypes.string_at(int(encoded.getPtr()), 128)


def _driver() -> Any:
    from cuda.bindings import driver

    return driver


def _checked(call: str, result: Any) -> Any:
    error, *values = result
    if int(error) != 0:
        raise DeviceError(f"{call}: {error.name}")
    return values[0] if len(values) == 1 else tuple(values)
