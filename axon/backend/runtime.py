"""Load and launch built kernels on device memory that someone else owns, on the stream they are working on.

This module knows addresses, shapes and strides; what library a tensor comes from is its caller's business. TMA descriptors are made
on the host, passed by value, and kept for as long as address, shape and strides stay the same.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from axon.backend.barriers import Descriptor
from axon.backend.build import Kernel, RegistersExhausted, build
from axon.backend.contraction import Contraction
from axon.backend.emit import MapParameter, Parameter, PointerParameter, SizeParameter, StrideParameter
from axon.backend.families import kernels
from axon.backend.memory import Tensor
from axon.backend.pipeline import Stages, stages, traits
from axon.backend.prepare import Prepared, blocks, is_empty, prepare
from axon.backend.schedule import Mapping, ranked
from axon.backend.target import HOPPER, Target
from axon.backend.unsupported import Unsupported
from axon.core import Program, Value
from axon.element import Element
from axon.names import Symbol


class DeviceError(Exception):
    """The driver refused a call; the message names the call and its error."""


# ── plans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Plan:
    """One kernel of a program at given sizes: its mapping, all its forms, its machine code, and how many blocks run it."""

    kernel: Contraction
    mapping: Mapping
    stages: Stages
    built: Kernel
    blocks: int


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
