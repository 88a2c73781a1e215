"""Calls of programs in parts, with arrays of a GPU library or of NumPy, and copies of arguments for the interpreter.

`SteppedCall` is to such a program what `arrays.Call` is to a straight one: described once for arguments of one kind, and called
again and again. `HostCall` copies NumPy's arrays to the first GPU, runs any program there, and copies its results back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any
from weakref import ref

import numpy as np

from axon.backend.gpu.launching.driver import Driver, driver
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.failures import Copies
from axon.backend.gpu.runtime.given import (
    Given,
    check_apart,
    check_room,
    downloaded,
    extent,
    fill,
    lying,
    maker,
    note_written,
    packer,
    tensor_of,
)
from axon.backend.gpu.runtime.kept_graphs import allocated
from axon.backend.gpu.runtime.replaying import results as results_of
from axon.backend.gpu.runtime.stepping import GRANULE, GpuRun, Held, Pool
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.libraries import Library
from axon.backend.plan.walk import Make
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Program, Value

NUMBER = 16  # bytes for a number
SLAB = 1 << 24  # bytes that a call on NumPy's arrays asks the driver for at once


class Copier:
    """Copies a call's arguments to the host, for the interpreter."""

    def __init__(self, cuda: Driver, library: Library, program: Program, arrays: Sequence[int]) -> None:
        self.cuda, self.library, self.program, self.arrays = cuda, library, program, arrays

    def weakly(self, inputs: Sequence[Any]) -> Copies:
        """Copies of a call's arguments, of which it keeps no array alive."""
        try:
            held = [ref(inputs[n]) for n in self.arrays]
        except TypeError:  # a library whose arrays cannot be held weakly
            return lambda: None
        numbers = {n: x for n, x in enumerate(inputs) if n not in self.arrays} if len(held) < len(inputs) else {}
        return partial(self._alive, held, numbers)

    def _alive(self, held: Sequence[Callable[[], Any]], numbers: Mapping[int, Any]) -> list[Any] | None:
        alive = [reference() for reference in held]
        return None if any(x is None for x in alive) else self._copied(numbers, alive)

    def now(self, inputs: Sequence[Any]) -> Copies:
        """The same, for while the call lasts."""
        numbers = {n: x for n, x in enumerate(inputs) if n not in self.arrays}
        return lambda: self._copied(numbers, [inputs[n] for n in self.arrays])

    def _copied(self, numbers: Mapping[int, Any], arrays: Sequence[Any]) -> list[Any]:
        self.cuda.wait()
        found: dict[int, Any] = {}
        for n, x in zip(self.arrays, arrays, strict=True):
            memory = self.library.memory(x, 0)
            tensor = DeviceTensor(memory.pointer, memory.shape, memory.strides, self.program.inputs[n].element)
            found[n] = downloaded(self.cuda, tensor)
        for n, x in numbers.items():
            found[n] = np.asarray(x, self.program.inputs[n].element.dtype)
        return [found[n] for n in range(len(self.program.inputs))]


class SteppedCall:
    """A program in parts at one choice of element types, shapes, strides and alignments on one GPU. Safe for several threads."""

    def __init__(
        self,
        stepped: Stepped,
        library: Library,
        device: int,
        given: Given,
        matched: Sequence[Any],
        sizes: Mapping[Symbol, int],
        room: Given | None,
    ) -> None:
        self.stepped, self.library, self.device, self.sizes = stepped, library, device, dict(sizes)
        self.driver = driver()
        stepped.build(sizes)
        self.context = self.driver.context(device)
        self.tables = stepped.tables.on(self.driver, device)
        program = stepped.program
        lies = lying(library, program, given, matched, library.stream(device))
        self.tensors, self.extents = lies.tensors, lies.extents
        self.arrays = {program.inputs[n].symbol: n for n in lies.arrays}
        self.numbers = {v.symbol: (n, packer(v.element)) for n, v in enumerate(program.inputs) if v.symbol in lies.numbers}
        self.results = [stepped.values[symbol] for symbol in program.block.results]
        self.paths = None if room is None else [path for path, _ in room]
        for value, out in zip(self.results, room or (), strict=False):
            if all(d.variables <= sizes.keys() for d in value.shape):
                check_room(library, out, value, tuple(d.evaluate(sizes) for d in value.shape))
        self.copier = Copier(self.driver, library, program, lies.arrays)
        self.explicit = [sizes[symbol] for symbol in program.explicit]
        self.watch = stepped.watch(self.driver, device) if stepped.fails else None

    def __call__(self, inputs: Sequence[Any], outs: list[Any] | None) -> list[Any]:
        """The results for arrays like those that it was made for, in the order of the program's inputs."""
        stream = self.library.stream(self.device)
        arrays = set(self.arrays.values())
        leaves = [self.library.address(x, stream) if n in arrays else x for n, x in enumerate(inputs)]
        return self.run(leaves, inputs, outs, [])

    def run(self, leaves: list[Any], inputs: Sequence[Any], outs: list[Any] | None, written: list[int]) -> list[Any]:
        """As a call; `leaves` are the addresses of arrays, and numbers."""
        if self.library.current() == self.device:
            return self._run(leaves, inputs, outs)
        with self.library.on(self.device), self.driver.entered(self.context):
            return self._run(leaves, inputs, outs)

    def _run(self, leaves: list[Any], inputs: Sequence[Any], outs: list[Any] | None) -> list[Any]:
        if self.watch is not None:
            self.watch.look()
        library, stream = self.library, self.library.stream(self.device)
        pool = Pool(lambda size: self._made((size,), Element.U8, stream), ordered=library.ordered)
        held = {symbol: Held(tensor) for symbol, tensor in self.tables.items()}
        held |= {symbol: Held(_at(tensor, leaves[self.arrays[symbol]])) for symbol, tensor in self.tensors.items()}
        numbers: dict[Symbol, Any] = {}
        for symbol, (number, pack) in self.numbers.items():
            value = self.stepped.values[symbol]
            block = pool.take(NUMBER)
            fill(self.driver, block.address, pack(leaves[number]), max(1, value.element.bits // 8), stream)
            held[symbol] = Held(contiguous(block.address, (), value.element), block)
            numbers[symbol] = leaves[number]
        results: list[Any] = [None] * len(self.results)
        makers: list[Make[Held]] = [partial(self._result, results, n, stream) for n in range(len(results))]
        rooms: list[DeviceTensor] | None = None
        if outs is not None:
            makers, rooms = self._given(outs, stream, held)
            note_written(library, outs)
            results[:] = outs
        program, now = self.stepped, self.copier.now(inputs)
        run = GpuRun(
            dict(self.sizes), held, program, self.driver, self.device, stream, pool, numbers, self.watch, now, self.explicit
        )
        results_of(run, makers, rooms)
        if self.watch is not None:
            self.watch.note(self.copier.weakly(inputs), self.explicit)
        return library.finish(results, [*inputs, *pool.kept], stream, self.device)

    def _made(self, shape: tuple[int, ...], element: Element, stream: int) -> tuple[Any, int]:
        made = allocated(self.library, maker(self.library, shape, element, self.device))
        return made, self.library.address(made, stream)

    def _result(self, results: list[Any], number: int, stream: int, shape: tuple[int, ...]) -> Held:
        """Room for a result, of the caller's library."""
        element = self.results[number].element
        results[number], address = self._made(shape, element, stream)
        return Held(contiguous(address, shape, element))

    def _given(self, outs: list[Any], stream: int, held: Mapping[Symbol, Held]) -> tuple[list[Make[Held]], list[DeviceTensor]]:
        """The room that the caller gave for results, which shares no memory with arguments."""
        assert self.paths is not None
        given = list(zip(self.paths, outs, strict=True))
        tensors = [tensor_of(self.library, *out, v.element, stream) for out, v in zip(given, self.results, strict=True)]
        check_apart([_touched(held[symbol].tensor) for symbol in self.arrays], list(map(_touched, tensors)))

        def make(number: int, shape: tuple[int, ...]) -> Held:
            check_room(self.library, given[number], self.results[number], shape)
            return Held(tensors[number])

        return [partial(make, number) for number in range(len(outs))], tensors


def _at(tensor: DeviceTensor, address: int) -> DeviceTensor:
    return DeviceTensor(address, tensor.shape, tensor.strides, tensor.element)


def _touched(tensor: DeviceTensor) -> tuple[int, int]:
    low, high = extent(tensor)
    return tensor.pointer + low, tensor.pointer + high


class HostCall:
    """A program on NumPy arrays: copied to the first GPU, computed there, and copied back."""

    def __init__(self, stepped: Stepped, matched: Sequence[Any], sizes: Mapping[Symbol, int], room: Given | None) -> None:
        self.stepped, self.sizes = stepped, dict(sizes)
        stepped.build(sizes)
        self.host = [np.ascontiguousarray(x).reshape(np.shape(x)) for x in matched]
        self.results = [stepped.values[s] for s in stepped.program.block.results]
        self.room = room
        for value, target in zip(self.results, room or (), strict=False):
            if all(d.variables <= sizes.keys() for d in value.shape):
                check_room(None, target, value, tuple(d.evaluate(sizes) for d in value.shape))

    def __call__(self, inputs: Sequence[Any], outs: list[Any] | None) -> list[Any]:
        cuda = driver()
        with cuda.entered(cuda.context(0)):
            return self._run(cuda, outs)

    def _run(self, cuda: Driver, outs: list[Any] | None) -> list[Any]:
        stepped, taken = self.stepped, list[int]()
        slab, left = 0, 0

        def allocate(size: int) -> tuple[None, int]:
            """To ask the driver takes a tenth of a millisecond, and each loop has dozens of small tensors: they share slabs."""
            nonlocal slab, left
            size = -(-max(size, 1) // GRANULE) * GRANULE
            if size > SLAB // 4:
                taken.append(cuda.allocate(size))
                return None, taken[-1]
            if size > left:
                taken.append(cuda.allocate(SLAB))
                slab, left = taken[-1], SLAB
            slab, left = slab + size, left - size
            return None, slab - size

        def copies() -> list[Any]:
            return self.host

        program = stepped.program
        try:
            held = {symbol: Held(tensor) for symbol, tensor in stepped.tables.on(cuda, 0).items()}
            numbers: dict[Symbol, Any] = {}
            for value, x in zip(program.inputs, self.host, strict=True):
                _, address = allocate(x.nbytes)
                cuda.upload(address, x.ctypes.data, x.nbytes)
                held[value.symbol] = Held(contiguous(address, x.shape, value.element))
                if not x.shape:
                    numbers[value.symbol] = x[()]
            watch = stepped.watch(cuda, 0) if stepped.fails else None
            explicit = [self.sizes[symbol] for symbol in program.explicit]
            run = GpuRun(dict(self.sizes), held, stepped, cuda, 0, 0, Pool(allocate), numbers, watch, copies, explicit)
            makers: list[Make[Held]] = [partial(_room, allocate, value) for value in self.results]
            made = [self._back(cuda, result.tensor) for result in results_of(run, makers, None)]
            if watch is not None:
                cuda.wait()
                watch.finished(copies, explicit)
        finally:
            for pointer in taken:
                cuda.free(pointer)
        if outs is None:
            return made
        for value, target, x in zip(self.results, self.room or (), made, strict=True):
            check_room(None, target, value, x.shape)
        for out, x in zip(outs, made, strict=True):
            np.asarray(out)[...] = x
        return outs

    def _back(self, cuda: Driver, tensor: DeviceTensor) -> Any:
        return downloaded(cuda, tensor)


def _room(allocate: Any, value: Value, shape: tuple[int, ...]) -> Held:
    size = max(1, value.element.bits // 8) * int(np.prod(shape, dtype=np.int64))
    _, address = allocate(size)
    return Held(contiguous(address, shape, value.element))
