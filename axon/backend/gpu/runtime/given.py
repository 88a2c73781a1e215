"""What is asked of a call's arguments and of the room for its results: where they lie, whether they fit, and the words if not."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from axon.backend import libraries
from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.libraries import Library
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Program, Value

ALIGNMENT = 256  # bytes, of what a library's allocator gives at least

Given = Sequence[tuple[str, Any]]


def maker(library: Library, shape: tuple[int, ...], element: Element, device: int) -> Callable[[], Any]:
    try:
        return library.maker(shape, element, device)
    except TypeError as error:
        raise wrong(f"a result of {element.value} cannot be given: {error}") from None


def device_of(library: Library, path: str, x: Any) -> int | None:
    try:
        return library.device(x)
    except TypeError as error:
        raise wrong(f"`{path}` is {error}") from None


def tensor_of(library: Library, path: str, x: Any, element: Element, stream: int) -> DeviceTensor:
    try:
        memory = library.memory(x, stream)
    except TypeError as error:
        raise wrong(f"`{path}` is {error}") from None
    if any(stride < 0 for stride in memory.strides):
        raise wrong(f"`{path}` runs backwards along a dimension", "make a copy of it")
    return DeviceTensor(memory.pointer, memory.shape, memory.strides, element)


@dataclass(frozen=True, slots=True)
class Lying:
    """A call's arguments as they lie: which inputs are arrays, where each is and what it touches from its address on, and which are
    numbers."""

    arrays: tuple[int, ...]
    tensors: dict[Symbol, DeviceTensor]
    extents: list[tuple[int, int]]
    numbers: dict[Symbol, Any]


def lying(library: Library, program: Program, given: Given, matched: Sequence[Any], stream: int) -> Lying:
    """How the arguments of a call lie. `matched` hold the values of those on the host, in their element types."""
    arrays: list[int] = []
    tensors: dict[Symbol, DeviceTensor] = {}
    extents: list[tuple[int, int]] = []
    numbers: dict[Symbol, Any] = {}
    for number, (value, (path, x), host) in enumerate(zip(program.inputs, given, matched, strict=True)):
        if libraries.of(x) is None:
            numbers[value.symbol] = host
            continue
        tensors[value.symbol] = tensor = tensor_of(library, path, x, value.element, stream)
        arrays.append(number)
        extents.append(extent(tensor))
    return Lying(tuple(arrays), tensors, extents, numbers)


def check_apart(inputs: Sequence[tuple[int, int]], outs: Sequence[tuple[int, int]]) -> None:
    """Kernels read arguments while they write results, so these must not share memory: each is from one address up to another."""
    for number, (low, high) in enumerate(outs):
        for other_low, other_high in (*inputs, *outs[:number]):
            if low < other_high and other_low < high:
                raise wrong("`out` shares memory with an argument, or with another result", "give an array of its own")


def downloaded(cuda: Driver, tensor: DeviceTensor) -> Any:
    """A tensor as an array of NumPy, once all work before it is done."""
    _, end = extent(tensor)
    bytes_ = np.empty(end, np.uint8)
    cuda.download(bytes_.ctypes.data, tensor.pointer, end)
    if not end:
        return np.empty(tensor.shape, tensor.element.dtype)
    size = tensor.element.dtype.itemsize
    words = bytes_.view(f"u{size}")  # NumPy itself cannot lay out 8-bit floats by strides
    strides = [stride * size for stride in tensor.strides]
    return np.array(np.lib.stride_tricks.as_strided(words, tensor.shape, strides)).view(tensor.element.dtype)


def fill(cuda: Driver, at: int, bits: int, size: int, stream: int) -> None:
    """Write the bits of a number."""
    if size == 8:
        cuda.check("cuMemsetD32Async", cuda.fill32(at + 4, bits >> 32, 1, stream))
    set_ = {1: cuda.fill8, 2: cuda.fill16}.get(size, cuda.fill32)
    cuda.check("cuMemsetAsync", set_(at, bits & 0xFFFFFFFF, 1, stream))


def extent(tensor: DeviceTensor) -> tuple[int, int]:
    """The bytes that a tensor touches, from its address on."""
    size = max(1, tensor.element.bits // 8)
    if 0 in tensor.shape:
        return 0, 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.strides, strict=True))
    return 0, (last + 1) * size


def check_room(library: Library | None, given: tuple[str, Any], value: Value, shape: tuple[int, ...]) -> None:
    path, x = given
    wanted = f"{value.element.value}[{', '.join(map(str, shape))}]" if shape else value.element.value
    if library is None:
        plain = isinstance(x, np.ndarray) and not libraries.is_masked(x)
        fits = plain and (x.shape, x.dtype) == (shape, value.element.dtype) and x.flags.writeable
        if not fits:
            raise wrong(f"`{path}` must be a NumPy array of {wanted} that can be written, not {described(x)}")
        return
    if not library.writable:
        raise wrong(f"`out` cannot be given with arrays of {library.name}, which are never written")
    if libraries.of(x) is not library or library.element(x) is not value.element or library.shape(x) != shape:
        raise wrong(f"`{path}` must be {worded(library, None)} of {wanted}, not {described(x)}")
    if libraries.overlaps_itself(shape, library.memory(x, 0).strides, 1):
        raise wrong(f"`{path}` has several indices at one place, so it cannot be written")


def note_written(library: Library, outs: Sequence[Any]) -> None:
    """Tell a library that arrays of it are written now. Raises AxonError where it forbids that."""
    try:
        library.writes(outs)
    except TypeError as error:
        raise wrong(f"`out` is {error}") from None


_NAMES = {"torch": "a PyTorch tensor", "cupy": "a CuPy array", "numba": "a numba device array", "jax": "a JAX array"}


def worded(library: Library, device: int | None) -> str:
    return _NAMES.get(library.name, f"an array of {library.name}") + (f" on GPU {device}" if device is not None else "")


def described(x: Any) -> str:
    library = libraries.of(x)
    if library is None:
        if isinstance(x, np.ndarray):
            return f"a NumPy array of {x.dtype} with shape {x.shape}"
        return f"a value of the Python type {type(x).__name__}"
    device = library.device(x)
    element = library.element(x)
    kind = f" of {element.value}[{', '.join(map(str, library.shape(x)))}]" if element else ""
    return f"{_NAMES.get(library.name, library.name)}{kind} {f'on GPU {device}' if device is not None else 'on the host'}"


def wrong(message: str, help: str = "") -> AxonError:
    return AxonError((Diagnostic("AX0505", message, suggestions=(Suggestion(help),) if help else ()),))


_FORMATS = {
    Element.F64: "<d", Element.F16: "<e", Element.I64: "<q", Element.I32: "<i", Element.I16: "<h", Element.I8: "<b",
    Element.U64: "<Q", Element.U32: "<I", Element.U16: "<H", Element.U8: "<B", Element.BOOL: "<?",
}  # fmt: skip


_EXACT = 2**53  # up to which a double holds every integer


def packer(element: Element) -> Callable[[Any], int]:
    """The bits of a number in an element type. Raises OverflowError or struct.error for a number that it cannot hold."""
    format = _FORMATS.get(element)
    if format is not None:
        pack = struct.Struct(format).pack
        return lambda value: int.from_bytes(pack(value), "little")
    single = struct.Struct("<f").pack

    def bits(value: Any) -> int:
        large = type(value) is int and abs(value) > _EXACT  # such an integer is rounded once, and not to a double before
        if element is Element.F32 and not large:
            return int.from_bytes(single(value), "little")
        with np.errstate(over="ignore"):
            whole = np.int64 if value < 1 << 63 else np.uint64
            made = np.asarray(value, whole if large else np.float64).astype(element.dtype)
        if np.isfinite(value) and not np.isfinite(made.astype(np.float64)):
            raise OverflowError
        return int.from_bytes(made.tobytes(), "little")

    return bits
