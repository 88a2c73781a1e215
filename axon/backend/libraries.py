"""Arrays of other libraries (PyTorch, JAX, CuPy, …), used where they lie: on a GPU by address and stream, else as NumPy's.

No library is imported here: where there is an array, its library is loaded. An array is known by the package of its type, so that
asking costs a dictionary's look-up. Strides are in elements, as in core; a device is the number of a GPU.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import Any, Protocol, TypeVar

from axon.base.data import dataclass
from axon.base.element import Element

Shape = tuple[int, ...]


def is_masked(x: Any) -> bool:
    """Whether it is a masked array of NumPy's: whose module, which takes long to import, is loaded where there is one."""
    masked = sys.modules.get("numpy.ma")
    return masked is not None and isinstance(x, masked.MaskedArray)


@dataclass(frozen=True, slots=True)
class Memory:
    """Where an array lies. `keep` holds what must live until the memory has been used."""

    pointer: int
    shape: Shape
    strides: Shape
    keep: Any = None


class Library(Protocol):
    """What Axon asks of an array library. All arrays are its own, and on a GPU, except in `device`."""

    @property
    def name(self) -> str: ...

    @property
    def writable(self) -> bool:
        """Whether results can be written into an array of the caller's (`out=`)."""

    @property
    def ordered(self) -> bool:
        """Whether memory that its arrays let go serves what is launched later on the same stream, though work on it is queued."""

    @property
    def full(self) -> tuple[type[BaseException], ...]:
        """What it raises when a GPU has no room."""

    def device(self, x: Any) -> int | None:
        """The GPU on which an array lies; None on the host. Raises TypeError for what is no array that can be used."""

    def element(self, x: Any) -> Element | None:
        """Its element type; None if Axon has none for it."""

    def shape(self, x: Any) -> Shape: ...

    def memory(self, x: Any, stream: int) -> Memory:
        """Where it lies, once its making is ordered before what is next put on `stream`. Raises TypeError as `device`."""

    def address(self, x: Any, stream: int) -> int:
        """The address of `memory` alone."""

    def key(self, x: Any) -> Hashable:
        """All of an array that decides how it is used: element type, shape, strides, alignment, GPU."""

    def maker(self, shape: Shape, element: Element, device: int) -> Callable[[], Any]:
        """What makes room for a result, contiguous, on the current GPU and stream. TypeError for an element type that it lacks."""

    def to_host(self, x: Any) -> Any:
        """An array on the host as NumPy's, without a copy if that can be. Raises TypeError for one that lies elsewhere."""

    def from_host(self, array: Any) -> Any:
        """A fresh NumPy array as this library's, on the host. Raises TypeError where the library cannot hold it."""

    def reads(self, x: Any, name: str) -> None:
        """Raises TypeError for an array whose gradient the library would pass on, and no gradient passes through a call.

        `name` is what the caller writes for it. `key` tells such an array from one that may be read.
        """

    def writes(self, outs: Sequence[Any]) -> None:
        """Tells the library that these arrays, a caller's `out`, are written now. Raises TypeError where one must not be."""

    def stream(self, device: int, /) -> int:
        """The handle of the current stream of a GPU."""

    def current(self) -> int | None:
        """The GPU that is this thread's current one for the library and the driver; None if nobody knows."""

    def on(self, device: int) -> AbstractContextManager[Any]:
        """Makes a GPU the library's current one meanwhile."""

    def capturing(self) -> bool | None:
        """Whether someone records the current stream; None if the library does not know."""

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        """The results as the caller gets them, after the work that writes them was put on `stream`; `used` are what it reads."""


# ── PyTorch ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

_TORCH = {
    Element.F64: "float64", Element.F32: "float32", Element.F16: "float16", Element.BF16: "bfloat16", Element.I64: "int64",
    Element.I32: "int32", Element.I16: "int16", Element.I8: "int8", Element.U64: "uint64", Element.U32: "uint32",
    Element.U16: "uint16", Element.U8: "uint8", Element.BOOL: "bool", Element.F8E4M3: "float8_e4m3fn",
    Element.F8E5M2: "float8_e5m2",
}  # fmt: skip
_WORDS = {Element.BF16: "int16", Element.F8E4M3: "uint8", Element.F8E5M2: "uint8"}  # NumPy's own types lack these


class Torch:
    """PyTorch. What is read and written here has no gradient history: `axon.host.recorded` is for arguments that have one."""

    name, writable, ordered = "torch", True, True

    def __init__(self, device_type: str = "cuda") -> None:
        self.torch = sys.modules["torch"]
        self.device_type = device_type
        self.dtypes = {element: getattr(self.torch, name) for element, name in _TORCH.items() if hasattr(self.torch, name)}
        self.elements = {dtype: element for element, dtype in self.dtypes.items()}
        self.full = (self.torch.OutOfMemoryError,)
        # What is asked at every call is asked below PyTorch's Python layer, as Triton's launcher does: 0.1 µs each instead of 1.
        below = self.torch._C
        self.stream: Callable[[int], int] = getattr(below, "_cuda_getCurrentRawStream", None) or self._stream
        self.current: Callable[[], int] = getattr(below, "_cuda_getDevice", self.torch.cuda.current_device)
        self.capturing: Callable[[], bool] = getattr(below, "_cuda_isCurrentStreamCapturing", lambda: False)
        written = getattr(below, "_increment_version", None) or self.torch.autograd.graph.increment_version
        self.note_written: Callable[[Sequence[Any]], None] = written
        self.wrapped: Callable[[Any], bool] = getattr(below._functorch, "is_functorch_wrapped_tensor", lambda x: False)
        self.forward = self.torch.autograd.forward_ad
        self.python = below.DispatchKey.Python
        hide_from_torch()

    def device(self, x: Any) -> int | None:
        return (x.device.index or 0) if x.device.type == self.device_type else None

    def element(self, x: Any) -> Element | None:
        return self.elements.get(x.dtype)

    def shape(self, x: Any) -> Shape:
        return tuple(x.shape)

    def memory(self, x: Any, stream: int) -> Memory:
        fake = sys.modules.get("torch._subclasses.fake_tensor")
        if x.is_meta or (fake is not None and isinstance(x, fake.FakeTensor)):
            raise TypeError("a PyTorch tensor that has a shape and no elements (device meta, FakeTensorMode)")
        if x.is_nested:
            raise TypeError("a nested tensor; pass torch.nested.to_padded_tensor(x, 0.0)")
        if x.layout != self.torch.strided:
            raise TypeError(f"a tensor of layout {x.layout}; pass x.to_dense()")
        if x.is_neg():  # a view whose values are negated when they are read
            raise TypeError("a tensor with PyTorch's negative bit; pass x.resolve_neg()")
        return Memory(self.pointer(x), tuple(x.shape), tuple(x.stride()))

    def pointer(self, x: Any) -> int:
        try:
            return int(x.data_ptr())
        except RuntimeError:  # a tensor that stands for others, in a transformation that asks no rules of ours
            what = "a tensor inside a PyTorch transformation that cannot look into Axon's functions"
            raise TypeError(f"{what}: call them outside of it, or use torch.func (vmap, grad, jacrev, jvp)") from None

    def address(self, x: Any, stream: int) -> int:
        return int(x.data_ptr())

    def key(self, x: Any) -> Hashable:
        read = self.recorded(x) or self.tangent(x), x.is_neg()
        return (x.dtype, x.shape, x.stride(), x.get_device(), x.data_ptr() & 15, read)

    def recorded(self, x: Any) -> bool:
        """Whether PyTorch records what is computed from a tensor, for gradients."""
        return bool(x.requires_grad and self.torch.is_grad_enabled())

    def tangent(self, x: Any) -> bool:
        """Whether it carries a tangent, of forward-mode differentiation; PyTorch cannot say so inside its older vmap."""
        try:
            return self.forward._current_level >= 0 and self.forward.unpack_dual(x).tangent is not None
        except RuntimeError:
            return True

    def differentiates(self, x: Any) -> bool:
        """Whether PyTorch passes on derivatives of what is computed from a tensor, or it stands for others in a transformation."""
        return self.wrapped(x) or self.recorded(x) or self.tangent(x)

    def watches(self, x: Any) -> bool:
        """Whether PyTorch watches what is computed from a tensor, in a mode or by its class, or asks for its shape alone: see
        `axon.host.pytorch`."""
        while self.wrapped(x):
            x = self.torch._C._functorch.get_unwrapped(x)
        return (
            modes() > 0
            or bool(tracing())
            or x.is_meta
            or self.torch._C._dispatch_keys(x).has(self.python)
            or self.torch._is_functional_tensor(x)
        )

    def reads(self, x: Any, name: str) -> None:
        if self.wrapped(x):
            return  # what stands for others has no memory, and is refused for that
        lost = "and no gradient passes through `out=`: leave `out` out, or"
        if self.recorded(x):
            raise TypeError(f"a tensor that requires grad, {lost} pass {name}.detach(), or call under `with torch.no_grad():`")
        if self.tangent(x):
            raise TypeError(f"a tensor with a tangent, {lost} pass torch.autograd.forward_ad.unpack_dual({name}).primal")

    def to_host(self, x: Any) -> Any:
        self.memory(x, 0)  # raises for what is no plain memory
        if x.device.type != "cpu":
            raise TypeError(f"a PyTorch tensor on {x.device}: pass x.cpu(), or leave out the target")
        import ctypes

        import numpy as np

        # As x.detach().numpy(), but for a flag that this leaves on the storage: it could never be freed before the tensor, as FSDP
        # frees the parameters that it has gathered.
        element, shape = self.elements[x.dtype], tuple(x.shape)
        if 0 in shape:
            return np.empty(shape, element.dtype)
        size = element.dtype.itemsize
        strides = [size * stride for stride in x.stride()]
        last = sum((n - 1) * stride for n, stride in zip(shape, strides, strict=True))
        held = (ctypes.c_byte * (last + size)).from_address(x.data_ptr())
        held.tensor = x  # lives as long as the array
        return np.ndarray(shape, element.dtype, held, 0, strides)

    def from_host(self, array: Any) -> Any:
        element = _element_of(array.dtype)
        assert element is not None, "results have Axon's element types"
        if element not in self.dtypes:
            raise TypeError(f"this PyTorch has no {element.value}")
        if element in _WORDS:
            return self.torch.from_numpy(array.view(_WORDS[element])).view(self.dtypes[element])
        return self.torch.from_numpy(array)

    def writes(self, outs: Sequence[Any]) -> None:
        """As PyTorch's own functions with `out`: autograd finds at `backward` that a tensor it saved has been written since."""
        for x in outs:
            if self.recorded(x):
                raise TypeError("a tensor that requires grad, and no gradient passes through the call: pass out.detach()")
        self.note_written(outs)

    def guard(self, tensors: Sequence[Any]) -> Callable[..., bool] | None:
        """A test whether other tensors are of the same types, element types, shapes, strides, GPUs and bits, one by one.

        It is the one with which torch.compile guards its code, and costs a third of asking for each of these. None where this
        PyTorch has no such test. It raises TypeError for another number of tensors.
        """
        try:
            made = self.torch._C._dynamo.guards.TensorGuards(*tensors, dynamic_dims_sizes=None, dynamic_dims_strides=None)
            check: Callable[..., bool] = made.check
            other = self.torch.empty((2, 3), dtype=self.torch.float64)
            return check if check(*tensors) and not check(*[other for _ in tensors]) else None
        except (AttributeError, TypeError):
            return None

    def maker(self, shape: Shape, element: Element, device: int) -> Callable[[], Any]:
        if element not in self.dtypes:
            raise TypeError(f"this PyTorch has no {element.value}")
        dtype = self.dtypes[element]
        try:
            # What torch.compile's code calls for its results, on the current GPU: a third of the time of torch.empty.
            below = getattr(self.torch._C._dynamo.guards, f"_empty_strided_{self.device_type}")
            below((0,), (1,), dtype)
        except (AttributeError, TypeError):
            return partial(self.torch.empty, shape, dtype=dtype, device=self.torch.device(self.device_type, device))
        return partial(below, shape, self.torch.empty(shape, device="meta").stride(), dtype)

    def _stream(self, device: int) -> int:
        return int(self.torch.cuda.current_stream(device).cuda_stream)

    def on(self, device: int) -> AbstractContextManager[Any]:
        current: AbstractContextManager[Any] = self.torch.cuda.device(device)
        return current

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        return results


# ── CuPy and numba ──────────────────────────────────────────────────────────────────────────────────────────────────────


class _Strided:
    """Libraries whose arrays have NumPy's dtypes, and strides in bytes, and lie on GPUs alone."""

    def to_host(self, x: Any) -> Any:
        raise TypeError("an array on a GPU: copy it to the host first, or leave out the target")

    def from_host(self, array: Any) -> Any:
        raise TypeError("its arrays lie on GPUs alone")

    def element(self, x: Any) -> Element | None:
        return _element_of(x.dtype)

    def shape(self, x: Any) -> Shape:
        return tuple(x.shape)

    def reads(self, x: Any, name: str) -> None:
        pass

    def writes(self, outs: Sequence[Any]) -> None:
        pass

    def current(self) -> int | None:
        return None  # the library may not have told the driver

    def capturing(self) -> bool | None:
        return None

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        return results


class CuPy(_Strided):
    name, writable, ordered = "cupy", True, True

    def __init__(self) -> None:
        self.cupy = sys.modules["cupy"]
        self.full = (self.cupy.cuda.memory.OutOfMemoryError,)

    def device(self, x: Any) -> int | None:
        return int(x.device.id)

    def memory(self, x: Any, stream: int) -> Memory:
        return Memory(x.data.ptr, tuple(x.shape), tuple(s // x.dtype.itemsize for s in x.strides))

    def address(self, x: Any, stream: int) -> int:
        return int(x.data.ptr)

    def key(self, x: Any) -> Hashable:
        return (x.dtype, x.shape, x.strides, x.device.id, x.data.ptr & 15)

    def maker(self, shape: Shape, element: Element, device: int) -> Callable[[], Any]:
        self.cupy.dtype(element.dtype)  # raises TypeError for one that it lacks
        return partial(self.cupy.empty, shape, element.dtype)

    def stream(self, device: int) -> int:
        return int(self.cupy.cuda.get_current_stream(device).ptr)

    def on(self, device: int) -> AbstractContextManager[Any]:
        current: AbstractContextManager[Any] = self.cupy.cuda.Device(device)
        return current


class Numba(_Strided):
    """numba-cuda's device arrays, which all work on its default stream."""

    name, writable, ordered = "numba", True, False

    def __init__(self) -> None:
        self.cuda = sys.modules["numba.cuda"]
        self.full = (self.cuda.cudadrv.driver.CudaAPIError,)

    def device(self, x: Any) -> int | None:
        return int(x.gpu_data.context.device.id) if x.gpu_data is not None else int(self.cuda.get_current_device().id)

    def memory(self, x: Any, stream: int) -> Memory:
        return Memory(self.address(x, stream), tuple(x.shape), tuple(s // x.dtype.itemsize for s in x.strides))

    def address(self, x: Any, stream: int) -> int:
        return int(x.__cuda_array_interface__["data"][0])

    def key(self, x: Any) -> Hashable:
        return (x.dtype, x.shape, x.strides, self.device(x), self.address(x, 0) & 15)

    def maker(self, shape: Shape, element: Element, device: int) -> Callable[[], Any]:
        return partial(self.cuda.device_array, shape, element.dtype)

    def stream(self, device: int) -> int:
        return 0

    def on(self, device: int) -> AbstractContextManager[Any]:
        current: AbstractContextManager[Any] = self.cuda.gpus[device]
        return current


# ── JAX ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Jax:
    """JAX, whose arrays are written once and order their work themselves.

    It has no current stream. What another library does is ordered by DLPack: exporting an array makes a stream wait until it is
    made, importing one waits for what is on a stream that JAX names. Axon works on that stream. A result is room that JAX made,
    imported again once the kernels that fill it are on the stream. Arguments are held until those kernels have run, since JAX would
    otherwise give their memory to others at once.
    """

    name, writable, ordered = "jax", False, False

    def __init__(self) -> None:
        self.jax = sys.modules["jax"]
        self.full = (self.jax.errors.JaxRuntimeError,)
        self.held: list[tuple[Any, Any]] = []  # an event, and what must live until it has passed

    def device(self, x: Any) -> int | None:
        if self.traces(x):  # beside `out`, or a target that is no place for it
            raise TypeError("a value inside a JAX transformation (jit, grad, vmap), which is called without `out` and `target`")
        if x.is_deleted():
            raise TypeError("a JAX array that was deleted, or donated to a function")
        devices = x.devices()
        if len(devices) != 1:
            raise TypeError(f"a JAX array over {len(devices)} devices; Axon runs on one")
        (device,) = devices
        return int(device.local_hardware_id) if device.platform in ("gpu", "cuda") else None

    def element(self, x: Any) -> Element | None:
        return _element_of(x.dtype)

    def shape(self, x: Any) -> Shape:
        return tuple(x.shape)

    def memory(self, x: Any, stream: int) -> Memory:
        capsule = x.__dlpack__(stream=stream or 1)
        pointer, strides = dlpack_memory(capsule, len(x.shape))
        shape = tuple(x.shape)
        return Memory(pointer, shape, strides or contiguous_strides(shape), (x, capsule))

    def _device(self, device: int) -> Any:
        return next(d for d in self.jax.local_devices() if d.local_hardware_id == device and d.platform in ("gpu", "cuda"))

    def to_host(self, x: Any) -> Any:
        import numpy as np

        if self.device(x) is not None:
            raise TypeError("a JAX array on a GPU: pass np.asarray(x), or leave out the target")
        return np.asarray(x)

    def from_host(self, array: Any) -> Any:
        if self.jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
            raise TypeError(f'JAX has no {array.dtype} here; jax.config.update("jax_enable_x64", True) gives it')
        return self.jax.numpy.asarray(array, device=self.jax.devices("cpu")[0])

    def address(self, x: Any, stream: int) -> int:
        return self.memory(x, stream).pointer

    def reads(self, x: Any, name: str) -> None:
        pass  # what JAX records is a tracer, which `device` refuses

    def writes(self, outs: Sequence[Any]) -> None:
        raise TypeError("an array of jax, and those are never written")

    def traces(self, x: Any) -> bool:
        """Whether it stands for arrays inside a transformation."""
        return isinstance(x, self.jax.core.Tracer)

    def key(self, x: Any) -> Hashable:
        memory = self.memory(x, 0)  # it may have a layout of its own, or memory that another library gave
        return (x.dtype, x.shape, memory.strides, x.sharding, memory.pointer & 15)

    def maker(self, shape: Shape, element: Element, device: int) -> Callable[[], Any]:
        if self.jax.dtypes.canonicalize_dtype(element.dtype) != element.dtype:
            raise TypeError(f'JAX has no {element.value} here; jax.config.update("jax_enable_x64", True) gives it')
        return partial(self.jax.numpy.empty, shape, element.dtype, device=self._device(device))

    def stream(self, device: int) -> int:
        return int(self._device(device).get_stream_for_external_ready_events())

    def current(self) -> int | None:
        return None

    def on(self, device: int) -> AbstractContextManager[Any]:
        current: AbstractContextManager[Any] = self.jax.default_device(self._device(device))
        return current

    def capturing(self) -> bool | None:
        return None

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        from cuda.bindings import driver

        _, event = driver.cuEventCreate(driver.CUevent_flags.CU_EVENT_DISABLE_TIMING)
        driver.cuEventRecord(event, stream)
        held = [*self.held, (event, used)]
        self.held = []
        for past, kept in held:  # what is done is let go; the order of streams differs, so each is asked
            if int(driver.cuEventQuery(past)[0]):
                self.held.append((past, kept))
            else:
                driver.cuEventDestroy(past)
        return [self.jax.dlpack.from_dlpack(_Made(result)) for result in results]


class _Made:
    """Room that JAX made, now filled: what `from_dlpack` imports."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(stream=options.get("stream"))


def dlpack_memory(capsule: Any, rank: int) -> tuple[int, Shape | None]:
    """The address in a DLPack capsule, and its strides; None stands for contiguous ones. The capsule keeps what it holds."""
    import ctypes

    get = ctypes.pythonapi.PyCapsule_GetPointer
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    # DLTensor: data, device (2 × i32), ndim i32, dtype (4 bytes), shape*, strides*, byte_offset
    words = ctypes.cast(get(capsule, b"dltensor"), ctypes.POINTER(ctypes.c_uint64))
    strides = ctypes.cast(words[4], ctypes.POINTER(ctypes.c_int64)) if words[4] else None
    return int(words[0] + words[5]), None if strides is None else tuple(strides[:rank])


def contiguous_strides(shape: Shape) -> Shape:
    """Of an array laid out in rows."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


def overlaps_itself(shape: Shape, strides: Shape, size: int) -> bool:
    """Whether two elements lie at one place. Where each stride steps over all that smaller strides reach, none do."""
    if 0 in shape:
        return False
    steps = sorted((abs(stride), extent) for stride, extent in zip(strides, shape, strict=True) if extent > 1)
    reach = size
    for stride, extent in steps:
        if stride == 0:
            return True
        if stride < reach:
            break
        reach += (extent - 1) * stride
    else:
        return False
    import numpy as np

    starts = np.zeros((), np.int64)
    for stride, extent in steps:
        starts = np.add.outer(starts, stride * np.arange(extent))
    return bool(np.diff(np.sort(starts, axis=None)).min() < size)


# ── which library an array is of ────────────────────────────────────────────────────────────────────────────────────────

_MAKERS: dict[str, tuple[str, Callable[[], Library], str]] = {
    # the package of an array's type: the module that must be loaded, what to make, and the type's attribute that tells an array
    "torch": ("torch", Torch, "requires_grad"),
    "cupy": ("cupy", CuPy, "__cuda_array_interface__"),
    "numba": ("numba.cuda", Numba, "__cuda_array_interface__"),
    "jaxlib": ("jax", Jax, "addressable_shards"),
    "jax": ("jax", Jax, "aval"),
}


F = TypeVar("F", bound=Callable[..., Any])
_untraced: list[Callable[..., Any]] = []


def untraced(function: F) -> F:
    """Have torch.compile end its graph before a call of this function, as torch.compiler.disable has it; see `hide_from_torch`."""
    function.__dict__["_torchdynamo_disable"] = True
    _untraced.append(function)
    return function


def _compiling() -> bool:
    return "torch" in sys.modules and bool(sys.modules["torch"].compiler.is_dynamo_compiling())


def _modes() -> int:
    return 0


def _tracing() -> Any:
    return None


# Whether torch.compile traces what asks, how many of PyTorch's modes watch operators, and what `torch.jit.trace` writes into, if it
# does; asked at every call.
compiling: Callable[[], bool] = _compiling
modes: Callable[[], int] = _modes
tracing: Callable[[], Any] = _tracing


@untraced
def hide_from_torch() -> None:
    """Have torch.compile trace nothing of what the functions so marked call, once PyTorch is imported; and ask it itself from then
    on what is asked at every call.

    torch.compiler.disable does this as well, but imports torch.compile first, which takes seconds.
    """
    global compiling, modes, tracing
    torch = sys.modules.get("torch")
    frames = getattr(getattr(torch, "_C", None), "_dynamo", None)
    if frames is not None and _untraced:
        with suppress(AttributeError, TypeError, IndexError):  # another PyTorch: torch.compiler.disable is left to the caller
            skip = frames.eval_frame._FrameAction.SKIP
            while _untraced:  # each once
                function = _untraced.pop()
                frames.eval_frame.set_code_exec_strategy(function.__code__, frames.eval_frame._FrameExecStrategy(skip, skip))
    if torch is not None and modes is _modes:
        with suppress(AttributeError):  # while it is being imported
            compiling, modes = torch.compiler.is_dynamo_compiling, torch._C._len_torch_dispatch_stack
            tracing = torch._C._get_tracing_state


def constant(function: F) -> F:
    """Have torch.compile call this function while it traces, and take its result for constant, as
    torch.compiler.assume_constant_result has it: the arguments are constants, or objects that it guards by identity."""
    function.__dict__["_dynamo_marked_constant"] = True
    return function


_made: dict[str, Library] = {}
_by_type: dict[type, Library | None] = {}


def of(x: Any) -> Library | None:
    """The library whose array this is; None for everything else, NumPy's arrays included."""
    kind = type(x)
    try:
        return _by_type[kind]
    except KeyError:
        return of_type(kind)


def of_type(kind: type) -> Library | None:
    """The library whose arrays are of this type."""
    if kind not in _by_type:
        _by_type[kind] = _find(kind)
    return _by_type[kind]


def know(kind: type, library: Library) -> None:
    """Arrays of a type of Axon's own are of this library."""
    _by_type[kind] = library


def _find(kind: type) -> Library | None:
    for base in kind.__mro__:
        package = base.__module__.partition(".")[0]
        module, make, attribute = _MAKERS.get(package, ("", Torch, ""))
        if module in sys.modules and hasattr(kind, attribute):
            if module not in _made:
                _made[module] = make()
            return _made[module]
    return None


def arrays(value: Any) -> Iterator[tuple[Library, Any]]:
    """The arrays of these libraries in an argument, each with its library."""
    if isinstance(value, tuple | Mapping):
        if type(value).__module__.startswith("numpy"):
            return  # an opened archive, which would read its arrays, all of them NumPy's
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from arrays(item)
        return
    library = of(value)
    if library is not None:
        yield library, value


def is_symbol(value: Any) -> bool:
    """Whether a size stands for a number while PyTorch traces."""
    return "torch" in sys.modules and isinstance(value, sys.modules["torch"].SymInt)


def differentiated(given: Sequence[Any]) -> bool:
    """Whether a library passes on derivatives of what is computed from these arguments: see `axon.host.recorded`."""
    if "torch" not in sys.modules:
        return False
    return any(isinstance(library, Torch) and library.differentiates(x) for value in given for library, x in arrays(value))


def transformed(given: Sequence[Any]) -> bool:
    """Whether an argument is a value inside one of JAX's transformations: see `axon.host.traced`."""
    if "jax" not in sys.modules:
        return False
    return any(isinstance(library, Jax) and library.traces(x) for value in given for library, x in arrays(value))


def watched(given: Sequence[Any]) -> bool:
    """Whether PyTorch watches what is computed from these arguments: see `axon.host.pytorch`."""
    if "torch" not in sys.modules:
        return False
    return any(isinstance(library, Torch) and library.watches(x) for value in given for library, x in arrays(value))


def autocast(given: Sequence[Any]) -> bool:
    """Whether these arguments are used under `torch.autocast`: see `axon.host.pytorch.autocast`."""
    if "torch" not in sys.modules or not sys.modules["torch"]._C._is_any_autocast_enabled():
        return False
    return any(isinstance(library, Torch) for value in given for library, _ in arrays(value))


def check_readable(value: Any, name: str) -> None:
    """That a call loses nothing that a library records of an argument, which the caller writes as `name`. Raises TypeError."""
    if isinstance(value, tuple | Mapping):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            check_readable(item, f'{name}["{key}"]' if isinstance(value, Mapping) else f"{name}[{key}]")
        return
    library = of(value)
    if library is not None:
        library.reads(value, name)


def hosted(value: Any) -> Any:
    """An argument with the arrays of these libraries, which must lie on the host, as NumPy's. Raises TypeError for others."""
    if isinstance(value, tuple):
        return tuple(map(hosted, value))
    if isinstance(value, Mapping):
        return {name: hosted(item) for name, item in value.items()}
    library = of(value)
    # Of a type that Axon lacks, the array itself stays: matching names it.
    return value if library is None or library.element(value) is None else library.to_host(value)


def on_gpu(value: Any) -> bool:
    """Whether an argument holds an array that lies on a GPU."""
    return any(library.device(x) is not None for library, x in arrays(value))


_elements: dict[Any, Element] = {}


def _element_of(dtype: Any) -> Element | None:
    if not _elements:
        _elements.update((element.dtype, element) for element in Element)
    return _elements.get(dtype)
