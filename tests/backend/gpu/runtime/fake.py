"""A driver and an array library without a GPU: device memory is the host's, and a launch runs the kernel's barrier program.

What a launch does is read from the memory that the real driver would read: a wrong address, offset or descriptor gives wrong
results.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import count
from typing import Any

import numpy as np

from axon.backend.gpu.emit.source import MapParameter, SizeParameter, StrideParameter
from axon.backend.gpu.launching.driver import DeviceError, LaunchConfig, NodeParameters, OutOfDeviceMemory
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.runtime.binding import Binder
from axon.backend.gpu.runtime.building import Ready
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.kernel_cache import LinkedKernel
from axon.backend.libraries import Memory
from axon.base.element import Element, of_dtype
from axon.core.ir import Block
from axon.interpret.program import _block as interpret


class FakeDriver:
    """What `axon.backend.gpu.launching.driver.Driver` has."""

    def __init__(self) -> None:
        self.plans: dict[int, tuple[Ready, dict[Any, Any], dict[Any, int]]] = {}  # by function: what was bound
        self.launched: list[tuple[int, int]] = []  # function, stream
        self.replayed: list[int] = []  # streams
        self.pointed = 0  # nodes that were given arguments again
        self.fail: dict[str, list[int]] = {}  # statuses that the next calls give
        self.recording: set[int] = set()
        self.graphs: dict[int, list[NodeParameters]] = {}
        self.held: dict[int, Any] = {}
        self.contexts: list[int] = []
        self.dropped = 0
        self.waited = 0
        self.uploaded: list[int] = []  # bytes

    def check(self, call: str, status: int) -> None:
        if status == 2:
            raise OutOfDeviceMemory(call)
        if status:
            raise DeviceError(
                call, {700: "CUDA_ERROR_ILLEGAL_ADDRESS", 201: "CUDA_ERROR_INVALID_CONTEXT"}.get(status, "CUDA_ERROR_UNKNOWN")
            )

    def _status(self, name: str) -> int:
        return self.fail[name].pop(0) if self.fail.get(name) else 0

    def context(self, device: int) -> int:
        return 1000 + device

    @contextmanager
    def entered(self, context: int) -> Iterator[None]:
        self.contexts.append(context)
        yield

    def set_context(self, context: int) -> int:
        self.contexts.append(context)
        return 0

    def load(self, cubin: bytes, entry: str, shared: int, cluster: int, device: int) -> tuple[int, Any]:
        return 5000 + len(self.plans) + 100 * device, cubin

    def clusters(self, function: int, blocks: int, threads: int, shared: int, cluster: int) -> int:
        return 64

    def tensor_map(self, pointer: int, shape: Any, strides: Any, element: Element, box: Any, rounds: bool = False) -> bytes:
        assert element is Element.F32 or not rounds
        assert pointer % 16 == 0
        return pointer.to_bytes(8, "little") + bytes(120)

    def pixel_map(self, pointer: int, images: Any, element: Element, pixels: int, channels: int, rounds: bool = False) -> bytes:
        assert images.refused(element) is None
        return self.tensor_map(pointer, images.shape, images.strides, element, (pixels, channels), rounds)

    def replace_address(self, place: int, address: int) -> int:
        assert place % 64 == 0
        assert address % 16 == 0
        ctypes.c_uint64.from_address(place).value = address
        return 0

    def capturing(self, stream: int) -> bool:
        return stream in self.recording

    def launch(self, config: int, function: int, arguments: int, extra: None) -> int:
        status = self._status("launch")
        if status:
            return status
        made = LaunchConfig.from_address(config)
        self.launched.append((function, made.stream))
        self._run(function, (tuple(made.grid), tuple(made.block), made.shared), arguments)
        return 0

    def graph(self, nodes: Any) -> tuple[int, list[int], Any]:
        handle = 9000 + len(self.graphs)
        self.graphs[handle] = [self._taken(n) for n in nodes]
        return handle, list(range(len(nodes))), None

    def set_node(self, graph: int, node: int, parameters: int) -> int:
        self.pointed += 1
        self.graphs[graph][node] = self._taken(NodeParameters.from_address(parameters))
        return 0

    def drop_graph(self, ready: int, graph: Any) -> None:
        self.dropped += 1

    def _taken(self, node: NodeParameters) -> Any:
        """The driver copies arguments when a node is made or changed."""
        plan, _, _ = self.plans[node.function]
        sizes = [_size(p) for p in plan.stages.source.parameters]
        pointers = (ctypes.c_uint64 * len(sizes)).from_address(node.arguments)
        return (
            node.function,
            (tuple(node.grid), tuple(node.block), node.shared),
            [ctypes.string_at(p, s) for p, s in zip(pointers, sizes, strict=True)],
        )

    def launch_graph(self, graph: int, stream: int) -> int:
        self.replayed.append(stream)
        for function, size, values in self.graphs[graph]:
            kept = [ctypes.create_string_buffer(v, len(v)) for v in values]
            pointers = (ctypes.c_uint64 * len(kept))(*map(ctypes.addressof, kept))
            self._run(function, size, ctypes.addressof(pointers))
        return 0

    def _run(self, function: int, size: Any, arguments: int) -> None:
        plan, tensors, sizes = self.plans[function]
        source = plan.stages.source
        assert size == ((plan.blocks, 1, 1), (plan.threads, 1, 1), source.shared)
        pointers = (ctypes.c_uint64 * len(source.parameters)).from_address(arguments)
        places: dict[Any, int] = {}
        for parameter, at in zip(source.parameters, pointers, strict=True):
            value = int.from_bytes(ctypes.string_at(at, min(8, _size(parameter))), "little", signed=True)
            match parameter:
                case MapParameter(descriptor=descriptor):
                    assert places.setdefault(descriptor.tensor, value) == value
                case PointerParameter(tensor=tensor):
                    assert places.setdefault(tensor, value) == value
                case StrideParameter(tensor=tensor, dimension=dimension):
                    assert value == tensors[tensor].strides[dimension]
                case SizeParameter(size=dim):
                    assert value == dim.evaluate(sizes)
        held = {s: view(p, tensors[s].shape, tensors[s].strides, tensors[s].element) for s, p in places.items()}
        if plan.stages.barriers is None:
            _interpret(plan.kernel, held, sizes)
        else:
            simulate(plan.stages.barriers, held, sizes, seed=0)

    # memory
    def allocate(self, size: int) -> int:
        memory = np.full(size + 256, 0xAB, np.uint8)
        at = -(-memory.ctypes.data // 256) * 256
        self.held[at] = memory
        return at

    def free(self, pointer: int) -> None:
        self.held.pop(pointer)[:] = 0xCD

    def take(self, size: int, stream: int) -> int:
        return self.allocate(size)

    def give_back(self, pointer: int, stream: int) -> None:
        self.free(pointer)

    def upload(self, pointer: int, address: int, size: int) -> None:
        self.uploaded.append(size)
        ctypes.memmove(pointer, address, size)

    def download(self, pointer: int, address: int, size: int) -> None:
        ctypes.memmove(pointer, address, size)

    def pinned(self, size: int) -> int:
        return self.allocate(size)

    def wait(self) -> None:
        self.waited += 1

    def wait_for(self, stream: int) -> int:
        self.waited += 1
        return 0

    def move(self, to: int, source: int, size: int, stream: int) -> None:
        ctypes.memmove(to, source, size)

    def _fill(self, at: int, bits: int, size: int) -> int:
        ctypes.memmove(at, bits.to_bytes(size, "little"), size)
        return 0

    def fill8(self, at: int, bits: int, count: int, stream: int) -> int:
        return self._fill(at, bits, 1)

    def fill16(self, at: int, bits: int, count: int, stream: int) -> int:
        return self._fill(at, bits, 2)

    def fill32(self, at: int, bits: int, count: int, stream: int) -> int:
        return self._fill(at, bits, 4)


def _interpret(nest: Any, held: dict[Any, Any], sizes: dict[Any, int]) -> None:
    """A plain kernel, whose threads wait for nothing: its operations, and what it stores."""
    made = dict(held)
    with np.errstate(all="ignore"):
        interpret(Block(nest.steps, ()), sizes, made)
    for symbol in nest.stored:
        held[symbol][...] = made[symbol]


def _size(parameter: Any) -> int:
    return {MapParameter: 128, SizeParameter: 4}.get(type(parameter), 8)


def view(pointer: int, shape: Any, strides: Any, element: Element) -> Any:
    """The array at an address."""
    size = element.dtype.itemsize
    count = 0 if 0 in shape else 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))
    if count == 0:
        return np.zeros(shape, element.dtype)
    raw = (ctypes.c_uint8 * (count * size)).from_address(pointer)
    return np.ndarray(shape, element.dtype, raw, 0, [s * size for s in strides])


def recorded(fake: FakeDriver, original: Callable[..., Any]) -> Callable[..., Any]:
    """`Binder.launch`, noting which kernel a function is of. Each binding is a function of its own."""

    functions = count(7000)  # several threads bind at once

    def launch(self: Binder, cuda: Any, device: int, plan: Ready, tensors: Any, sizes: Any, places: Any) -> Any:
        from dataclasses import replace

        made = original(self, cuda, device, plan, tensors, sizes, places)
        function = next(functions)
        fake.plans[function] = (plan, dict(tensors), dict(sizes))
        return replace(made, function=function, blocks=plan.blocks)

    return launch


class Builds:
    """`build_all` without a compiler; `refuse` says which mappings do not fit their registers, `refused` of which that is known."""

    def __init__(self) -> None:
        self.made: list[Any] = []
        self.refuse: Callable[[Any], bool] = lambda stages: False
        self.refused: Callable[[Any], bool] = lambda stages: False

    def __call__(self, wanted: Any, target: Any) -> list[Any]:
        out: list[Any] = []
        for stages in wanted:
            if self.refuse(stages):
                out.append(self._refusal())
            else:
                self.made.append(stages)
                out.append(LinkedKernel(b"cubin %d" % len(self.made), f"kernel_{len(self.made)}", 168, 0))
        return out

    def known(self, wanted: Any, target: Any) -> list[Any]:
        return [self._refusal() if self.refused(stages) else None for stages in wanted]

    def _refusal(self) -> Any:
        from axon.backend.gpu.build.cubin import RegistersExhausted

        return RegistersExhausted("it does not fit its registers", "the kernel spills 8 bytes")


class DeviceArray:
    """An array that claims to lie on a GPU."""

    def __init__(self, array: Any, device: int | None = 0) -> None:
        self.array, self.gpu = array, device

    def __bool__(self) -> bool:
        raise RuntimeError("the truth of an array is ambiguous")


class Full(Exception):
    """What the library raises when its GPU has no room."""


class FakeLibrary:
    """What `axon.backend.libraries.Library` asks, over NumPy."""

    name, full, ordered = "fake", (Full,), True

    def __init__(self, writable: bool = True) -> None:
        self.writable = writable
        self.current_stream, self.current_device = 77, 0
        self.entered: list[int] = []
        self.made: list[tuple[int, ...]] = []
        self.room = 1 << 40
        self.written: list[Any] = []
        self.recorded: list[Any] = []  # arrays of which the library records what is computed from them

    def reads(self, x: Any, name: str) -> None:
        if any(x is other for other in self.recorded):
            raise TypeError(f"a recorded array; pass {name}.plain()")

    def writes(self, outs: Sequence[Any]) -> None:
        self.written += outs

    def device(self, x: Any) -> int | None:
        return x.gpu  # type: ignore[no-any-return]

    def element(self, x: Any) -> Element | None:
        return of_dtype(x.array.dtype)

    def shape(self, x: Any) -> tuple[int, ...]:
        return tuple(x.array.shape)

    def memory(self, x: Any, stream: int) -> Memory:
        return Memory(self.address(x, stream), x.array.shape, tuple(s // x.array.itemsize for s in x.array.strides))

    def address(self, x: Any, stream: int) -> int:
        return int(x.array.ctypes.data)

    def key(self, x: Any) -> Hashable:
        recorded = any(x is other for other in self.recorded)
        return (x.array.dtype.name, x.array.shape, x.array.strides, x.gpu, x.array.ctypes.data & 15, recorded)

    def maker(self, shape: tuple[int, ...], element: Element, device: int) -> Callable[[], Any]:
        return lambda: self._empty(shape, element, device)

    def _empty(self, shape: tuple[int, ...], element: Element, device: int) -> DeviceArray:
        if int(np.prod(shape)) * element.dtype.itemsize > self.room:
            raise Full("out of memory: tried to allocate 5 GiB")
        self.made.append(shape)
        return DeviceArray(aligned(shape, element), device)

    def to_host(self, x: Any) -> Any:
        raise TypeError("an array on a GPU")

    def from_host(self, array: Any) -> Any:
        raise TypeError("its arrays lie on GPUs alone")

    def stream(self, device: int, /) -> int:
        return self.current_stream

    def current(self) -> int | None:
        return self.current_device

    def on(self, device: int) -> AbstractContextManager[Any]:
        self.entered.append(device)
        return nullcontext()

    def capturing(self) -> bool | None:
        return None

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        return results


def aligned(shape: tuple[int, ...], element: Element) -> Any:
    """Rubbish at a multiple of 256 bytes."""
    size = int(np.prod(shape)) * element.dtype.itemsize
    raw = np.full(size + 256, 0x7F, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + size].view(element.dtype).reshape(shape)
