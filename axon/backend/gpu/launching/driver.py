"""The CUDA driver, as little of it as running kernels takes, and its errors in words.

What is called once goes through cuda.bindings. What a launch repeats goes through ctypes, to functions of few arguments that take
addresses of structures made beforehand: 0.3 µs beside the driver's own time, where cuda.bindings takes over 1. Both release
Python's lock.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

from axon.backend.gpu.layout.memory import Im2col
from axon.backend.gpu.layout.products import EIGHT_BITS
from axon.backend.gpu.layout.target import HOPPER
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.element import Element
from axon.base.errors import AxonError

PORTABLE = (
    8  # blocks of a cluster that every GPU takes; more must be allowed, and `layout.target` says how many a chip has room for
)


class DeviceError(AxonError):
    """The driver refused a call, or a kernel failed."""

    def __init__(self, call: str, name: str) -> None:
        code, message, helps = _said(name)
        super().__init__((Diagnostic(code, message, notes=(f"{call}: {name}",), suggestions=tuple(map(Suggestion, helps))),))
        self.name = name


class OutOfDeviceMemory(DeviceError):
    """The GPU has no room for results or for what a program keeps between its kernels."""

    def __init__(self, call: str, said: str = "CUDA_ERROR_OUT_OF_MEMORY") -> None:
        super().__init__(call, "CUDA_ERROR_OUT_OF_MEMORY")
        if said != "CUDA_ERROR_OUT_OF_MEMORY":
            first = said.strip().splitlines()[0] if said.strip() else said
            (diagnostic,) = self.diagnostics
            self.diagnostics = (Diagnostic(diagnostic.code, diagnostic.message, (), (first,), diagnostic.suggestions),)


_FAILED = (
    "a kernel that was launched earlier failed on the GPU, and the process can no longer use it",
    (
        "start the process again; CUDA_LAUNCH_BLOCKING=1 makes the launch that fails raise the error itself",
        "kernels of other libraries count too: `compute-sanitizer python …` names the kernel and the address",
    ),
)
_NEWER = ("the driver is older than the kernels need", ("install a driver of CUDA 13 or newer (nvidia-smi says which it is)",))
_WORDS: dict[str, tuple[str, tuple[str, ...]]] = {
    "CUDA_ERROR_ILLEGAL_ADDRESS": _FAILED,
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": _FAILED,
    "CUDA_ERROR_MISALIGNED_ADDRESS": _FAILED,
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": _FAILED,
    "CUDA_ERROR_LAUNCH_FAILED": _FAILED,
    "CUDA_ERROR_ASSERT": _FAILED,
    "CUDA_ERROR_LAUNCH_TIMEOUT": (
        "a kernel that was launched earlier ran longer than this machine allows",
        ("start the process again; a GPU that also drives a display stops long kernels",),
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": ("the GPU reports a memory error", ("the GPU needs a reset: ask whoever runs the machine",)),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": _NEWER,
    "CUDA_ERROR_NO_BINARY_FOR_GPU": ("the kernel is for another kind of GPU", ('run it on that, or with target="cpu"',)),
    "CUDA_ERROR_INVALID_SOURCE": _NEWER,
    "CUDA_ERROR_INVALID_IMAGE": _NEWER,
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": (
        "the GPU has too few registers or too little shared memory free for this kernel",
        ("another process may hold them under MPS; this is also a mistake in Axon if it does not",),
    ),
    "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED": (
        "the first call at new sizes cannot be part of a stream capture",
        ("call the function once, or its `warmup`, before the capture begins",),
    ),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": ("the GPU is in use by another process alone", ("nvidia-smi shows which one",)),
    "CUDA_ERROR_DEINITIALIZED": ("the process is ending, and its GPU is closed", ("let no thread outlive the main one",)),
}  # fmt: skip


def _said(name: str) -> tuple[str, str, tuple[str, ...]]:
    """Code, message and help for an error of the driver."""
    if name == "CUDA_ERROR_OUT_OF_MEMORY":
        more = (
            "free arrays that nothing needs, or make the arguments smaller; what a program keeps between kernels counts too",
            "torch.cuda.empty_cache() gives back what PyTorch holds and does not use",
        )
        return "AX0613", "the GPU has no room for the results", more
    message, helps = _WORDS.get(name, ("the GPU's driver refused to run a kernel", ("please report it with the source",)))
    return "AX0612", message, helps


# ── structures that launches read ───────────────────────────────────────────────────────────────────────────────────────


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig. Of the stream only the place matters here: it is patched from call to call."""

    _fields_ = (
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("stream", ctypes.c_uint64),
        ("attributes", ctypes.c_uint64),
        ("count", ctypes.c_uint32),
    )


class NodeParameters(ctypes.Structure):
    """CUDA_KERNEL_NODE_PARAMS, second version."""

    _fields_ = (
        ("function", ctypes.c_uint64),
        ("grid", ctypes.c_uint32 * 3),
        ("block", ctypes.c_uint32 * 3),
        ("shared", ctypes.c_uint32),
        ("arguments", ctypes.c_uint64),
        ("extra", ctypes.c_uint64),
        ("kernel", ctypes.c_uint64),
        ("context", ctypes.c_uint64),
    )


_REPEATED: dict[str, tuple[str, int]] = {  # attribute: the driver's name, and how many arguments
    "launch": ("cuLaunchKernelEx", 4),  # config*, function, arguments**, 0
    "replace_address": ("cuTensorMapReplaceAddress", 2),  # map*, address
    "launch_graph": ("cuGraphLaunch", 2),  # graph, stream
    "set_node": ("cuGraphExecKernelNodeSetParams_v2", 3),  # graph, node, NodeParameters*
    "fill8": ("cuMemsetD8Async", 4),  # address, value, count, stream
    "fill16": ("cuMemsetD16Async", 4),
    "fill32": ("cuMemsetD32Async", 4),
    "capture_status": ("cuStreamIsCapturing", 2),  # stream, int*
    "set_context": ("cuCtxSetCurrent", 1),
    "copy": ("cuMemcpyAsync", 4),  # to, from, bytes, stream
    "wait_for": ("cuStreamSynchronize", 1),
    "add_node": ("cuGraphAddKernelNode_v2", 5),  # node*, graph, nodes*, count, NodeParameters*
}


class Driver:
    """The driver of this machine. Its functions from `_REPEATED` return a status; `check` raises for one that is not 0."""

    launch: Callable[..., int]
    replace_address: Callable[..., int]
    launch_graph: Callable[..., int]
    set_node: Callable[..., int]
    fill8: Callable[..., int]
    fill16: Callable[..., int]
    fill32: Callable[..., int]
    capture_status: Callable[..., int]
    set_context: Callable[..., int]
    copy: Callable[..., int]
    wait_for: Callable[..., int]
    add_node: Callable[..., int]

    def __init__(self) -> None:
        from cuda.bindings import driver

        self.bindings = driver
        self.ask("cuInit", 0)
        library = ctypes.CDLL("libcuda.so.1")
        for attribute, (name, count) in _REPEATED.items():
            prototype = ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * count)
            setattr(self, attribute, prototype((name, library)))

    def ask(self, call: str, *arguments: Any) -> Any:
        """A call through cuda.bindings: its values. Raises DeviceError."""
        error, *values = getattr(self.bindings, call)(*arguments)
        if error:
            raise _error(call, error.name)
        return values[0] if len(values) == 1 else tuple(values)

    def check(self, call: str, status: int) -> None:
        if status:
            raise _error(call, self.bindings.CUresult(status).name)

    # ── devices and kernels ─────────────────────────────────────────────────────────────────────────────────────────────

    def context(self, device: int) -> int:
        """The context that every library shares on a GPU, which stays for the life of the process; made current."""
        context = int(self.ask("cuDevicePrimaryCtxRetain", self.ask("cuDeviceGet", device)))
        self.check("cuCtxSetCurrent", self.set_context(context))
        return context

    @contextmanager
    def entered(self, context: int) -> Iterator[None]:
        """Makes a context this thread's current one meanwhile."""
        self.ask("cuCtxPushCurrent", self.bindings.CUcontext(context))
        try:
            yield
        finally:
            self.ask("cuCtxPopCurrent")

    def load(self, cubin: bytes, entry: str, shared: int, cluster: int, device: int) -> tuple[int, Any]:
        """A kernel's function in the current context, which may use so much shared memory and so large clusters, and what keeps it
        loaded."""
        library = self.ask("cuLibraryLoadData", cubin, None, None, 0, None, None, 0)
        kernel = self.ask("cuLibraryGetKernel", library, entry.encode())
        attributes = self.bindings.CUfunction_attribute
        asked = {attributes.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: shared}
        if cluster > PORTABLE:
            asked[attributes.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED] = 1
        for attribute, value in asked.items():
            self.ask("cuKernelSetAttribute", attribute, value, kernel, self.ask("cuDeviceGet", device))
        return int(self.ask("cuKernelGetFunction", kernel)), library

    def clusters(self, function: int, blocks: int, threads: int, shared: int, cluster: int) -> int:
        """How many clusters of a kernel run at once."""
        driver = self.bindings
        config = driver.CUlaunchConfig()
        config.gridDimX, config.gridDimY, config.gridDimZ = blocks, 1, 1
        config.blockDimX, config.blockDimY, config.blockDimZ = threads, 1, 1
        config.sharedMemBytes = shared
        attribute = driver.CUlaunchAttribute()
        attribute.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = cluster, 1, 1
        config.attrs, config.numAttrs = [attribute], 1
        return int(self.ask("cuOccupancyMaxActiveClusters", driver.CUfunction(function), config))

    def tensor_map(
        self,
        pointer: int,
        shape: Sequence[int],
        strides: Sequence[int],
        element: Element,
        box: Sequence[int],
        rounds: bool = False,
    ) -> bytes:
        """The 128 bytes of a TMA descriptor; strides in bytes, of all but the last dimension. Outside, copies read 0 and write
        nothing. They may round f32 to tf32.
        """
        driver = self.bindings
        boxes = [driver.cuuint32_t(n) for n in reversed(box)], [driver.cuuint32_t(1)] * len(shape)
        return self._encoded("cuTensorMapEncodeTiled", pointer, shape, strides, element, rounds, *boxes)

    def pixel_map(self, pointer: int, images: Im2col, element: Element, pixels: int, channels: int, rounds: bool = False) -> bytes:
        """The 128 bytes of a TMA descriptor of copies of so many pixels, and so many channels of each. Outside, they read 0."""
        driver = self.bindings
        strides = [s * element.bits // 8 for s in images.strides[:-1]]
        corners = [list(reversed(corner)) for corner in (images.lower, images.upper)]
        steps = [driver.cuuint32_t(n) for n in (1, *reversed(images.steps), 1)]
        sizes = channels, pixels
        return self._encoded("cuTensorMapEncodeIm2col", pointer, images.shape, strides, element, rounds, *corners, *sizes, steps)

    def _encoded(
        self, how: str, pointer: int, shape: Sequence[int], strides: Sequence[int], element: Element, rounds: bool, *boxes: object
    ) -> bytes:
        driver = self.bindings
        kinds = driver.CUtensorMapDataType
        kind = {
            Element.BF16: kinds.CU_TENSOR_MAP_DATA_TYPE_BFLOAT16,
            Element.F16: kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT16,
            Element.F32: kinds.CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 if rounds else kinds.CU_TENSOR_MAP_DATA_TYPE_FLOAT32,
            **dict.fromkeys(EIGHT_BITS, kinds.CU_TENSOR_MAP_DATA_TYPE_UINT8),  # bits are copied as they are
            Element.I32: kinds.CU_TENSOR_MAP_DATA_TYPE_INT32,
            **dict.fromkeys((Element.U16, Element.I16), kinds.CU_TENSOR_MAP_DATA_TYPE_UINT16),
        }[element]
        # A dimension of one index may have any stride; the driver wants an aligned one.
        steps = [s if n > 1 else HOPPER.tensor_map_alignment for n, s in zip(shape[:-1], strides, strict=True)]
        encoded = self.ask(
            how,
            kind,
            len(shape),
            pointer,
            [driver.cuuint64_t(n) for n in reversed(shape)],
            [driver.cuuint64_t(n) for n in reversed(steps)],
            *boxes,
            driver.CUtensorMapInterleave.CU_TENSOR_MAP_INTERLEAVE_NONE,
            driver.CUtensorMapSwizzle.CU_TENSOR_MAP_SWIZZLE_128B,
            driver.CUtensorMapL2promotion.CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
            driver.CUtensorMapFloatOOBfill.CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE,
        )
        return ctypes.string_at(int(encoded.getPtr()), 128)

    def capturing(self, stream: int) -> bool:
        """Whether someone records what is put on a stream."""
        status = ctypes.c_int()
        self.check("cuStreamIsCapturing", self.capture_status(stream, ctypes.addressof(status)))
        return status.value != 0

    # ── graphs ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def graph(self, nodes: Sequence[NodeParameters]) -> tuple[int, list[int], Any]:
        """A graph of kernels that run one after the other, ready to launch; its nodes, which live as long as what comes third."""
        graph = self.ask("cuGraphCreate", 0)
        handles: list[int] = []
        node, before = ctypes.c_void_p(), ctypes.c_void_p()
        for number, parameters in enumerate(nodes):
            before.value = node.value
            made = (ctypes.addressof(node), int(graph), ctypes.addressof(before), min(number, 1), ctypes.addressof(parameters))
            self.check("cuGraphAddKernelNode", self.add_node(*made))
            handles.append(int(node.value or 0))
        return int(self.ask("cuGraphInstantiate", graph, 0)), handles, graph

    def drop_graph(self, ready: int, graph: Any) -> None:
        self.ask("cuGraphExecDestroy", self.bindings.CUgraphExec(ready))
        self.ask("cuGraphDestroy", graph)

    # ── memory, for arrays that are on the host ─────────────────────────────────────────────────────────────────────────

    def allocate(self, size: int) -> int:
        return int(self.ask("cuMemAlloc", max(size, 1)))

    def free(self, pointer: int) -> None:
        self.ask("cuMemFree", pointer)

    def take(self, size: int, stream: int) -> int:
        """Memory for what is put on a stream from now on, which `give_back` frees behind it."""
        return int(self.ask("cuMemAllocAsync", max(size, 1), self.bindings.CUstream(stream)))

    def give_back(self, pointer: int, stream: int) -> None:
        self.bindings.cuMemFreeAsync(pointer, self.bindings.CUstream(stream))  # refused where the process is ending

    def pinned(self, size: int) -> int:
        """Host memory that every GPU sees at the same address; it is never given back."""
        flags = self.bindings.CU_MEMHOSTALLOC_PORTABLE | self.bindings.CU_MEMHOSTALLOC_DEVICEMAP
        return int(self.ask("cuMemHostAlloc", size, flags))

    def wait(self) -> None:
        """Until all work in the current context is done."""
        self.ask("cuCtxSynchronize")

    def move(self, to: int, source: int, size: int, stream: int) -> None:
        """Copy on a stream, between any two places in memory."""
        if size:
            self.check("cuMemcpyAsync", self.copy(to, source, size, stream))

    def upload(self, pointer: int, address: int, size: int) -> None:
        if size:
            self.ask("cuMemcpyHtoD", pointer, address, size)

    def download(self, address: int, pointer: int, size: int) -> None:
        """Copies once all work on the device's default stream is done."""
        if size:
            self.ask("cuMemcpyDtoH", address, pointer, size)


def _error(call: str, name: str) -> DeviceError:
    return OutOfDeviceMemory(call) if name == "CUDA_ERROR_OUT_OF_MEMORY" else DeviceError(call, name)


@cache
def driver() -> Driver:
    """The driver of this machine; one for the process."""
    return Driver()
