"""Buffers that XLA lends to a call inside a program that it runs on a GPU, as arrays of a library: used where they lie, on XLA's
stream.

A buffer is lent for one call: `borrowed` describes it, and nothing of it is kept. What lies between kernels is memory of the
driver's, which is taken and given back in the order of the stream.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from threading import local
from typing import Any, Protocol

from axon.backend import libraries
from axon.base.element import Element


class Taking(Protocol):
    """A driver whose memory is taken for what is put on a stream from now on, and given back behind what is on it."""

    def take(self, size: int, stream: int) -> int: ...

    def give_back(self, pointer: int, stream: int) -> None: ...


class Lent:
    """A buffer, or memory between kernels, which `keep` holds. (A dataclass would be a record of the caller's.)"""

    __slots__ = ("element", "gpu", "keep", "pointer", "shape")

    def __init__(self, pointer: int, shape: tuple[int, ...], element: Element, gpu: int, keep: Any = None) -> None:
        self.pointer, self.shape, self.element, self.gpu, self.keep = pointer, shape, element, gpu, keep


class Lending:
    """What `libraries.Library` asks, of `Lent`. `full` is what the driver raises when a GPU has no room."""

    name, writable, ordered = "xla", True, False

    def __init__(self, driver: Callable[[], Taking], full: tuple[type[BaseException], ...]) -> None:
        self.driver, self.full = driver, full
        self.now = local()  # the stream of the call that a thread makes
        libraries.know(Lent, self)

    @contextmanager
    def on_stream(self, stream: int) -> Iterator[None]:
        """Calls of this thread work on a stream of XLA's meanwhile."""
        before = getattr(self.now, "stream", 0)
        self.now.stream = stream
        try:
            yield
        finally:
            self.now.stream = before

    def borrowed(self, buffer: Any, element: Element) -> Lent:
        """A buffer of `jax.experimental.buffer_callback`, which lies in rows; `element` is what it holds."""
        _, device = buffer.__dlpack_device__()
        pointer, _ = libraries.dlpack_memory(buffer.__dlpack__(), buffer.ndim)
        return Lent(pointer, tuple(buffer.shape), element, int(device))

    def device(self, x: Lent) -> int | None:
        return x.gpu

    def element(self, x: Lent) -> Element | None:
        return x.element

    def shape(self, x: Lent) -> tuple[int, ...]:
        return x.shape

    def memory(self, x: Lent, stream: int) -> libraries.Memory:
        return libraries.Memory(x.pointer, x.shape, libraries.contiguous_strides(x.shape))

    def address(self, x: Lent, stream: int) -> int:
        return x.pointer

    def key(self, x: Lent) -> Hashable:
        return (x.element, x.shape, x.gpu, x.pointer & 15)

    def maker(self, shape: tuple[int, ...], element: Element, device: int) -> Callable[[], Lent]:
        size = element.dtype.itemsize
        for extent in shape:
            size *= extent
        return partial(self._made, size, shape, element, device)

    def _made(self, size: int, shape: tuple[int, ...], element: Element, device: int) -> Lent:
        taken = _Taken(self.driver(), size, self.stream(device))
        return Lent(taken.pointer, shape, element, device, taken)

    def to_host(self, x: Lent) -> Any:
        raise TypeError("a buffer on a GPU")

    def from_host(self, array: Any) -> Any:
        raise TypeError("its arrays are lent")

    def reads(self, x: Lent, name: str) -> None:
        pass

    def writes(self, outs: Sequence[Lent]) -> None:
        pass

    def stream(self, device: int) -> int:
        stream: int = self.now.stream
        return stream

    def current(self) -> int | None:
        return None  # XLA's threads have whatever context they had

    def on(self, device: int) -> AbstractContextManager[Any]:
        return nullcontext()

    def capturing(self) -> bool | None:
        return None

    def finish(self, results: list[Any], used: list[Any], stream: int, device: int) -> list[Any]:
        return results


class _Taken:
    """Memory that is given back behind what is on its stream when nobody holds it any more."""

    def __init__(self, cuda: Taking, size: int, stream: int) -> None:
        self.cuda, self.stream = cuda, stream
        self.pointer = cuda.take(size, stream)

    def __del__(self) -> None:
        if hasattr(self, "pointer"):
            self.cuda.give_back(self.pointer, self.stream)
