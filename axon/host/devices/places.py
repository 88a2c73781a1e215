"""Where a process computes: on its processor, in NumPy's arrays, or on its GPU, in PyTorch's tensors on the current stream."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, Protocol, TypeAlias

import numpy as np
import torch

from axon import compiler
from axon.backend import libraries
from axon.base.data import replace
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Program
from axon.core.known import present
from axon.core.sharding.room import SHARE
from axon.core.walk import results_of
from axon.host import values
from axon.host.call import Callee, Session, wrong
from axon.host.devices.collectives import Begin
from axon.host.devices.watch import Watch

KEPT = 512  # prepared calls of one program
Foreseen: TypeAlias = "tuple[Program, Mapping[Symbol, int], bool]"  # a program, the sizes of its call, whether beside an exchange


class Place(Protocol):
    """Values are what programs run on there, whatever that is."""

    def taken(self, session: Session, callee: Callee, blocks: Sequence[Any]) -> tuple[Program, list[Any]]:
        """The specialization for these arguments, and the values of its inputs. Raises AxonError for arguments that do not fit."""

    def foresee(self, programs: Sequence[Foreseen]) -> None:
        """Make ready what programs need before they run, side by side."""

    def run(self, program: Program, inputs: Sequence[Any], explicit: Sequence[int], beside: bool) -> list[Any]:
        """The results of a program; `beside` what is exchanged, for which it leaves a part of the device."""

    def empty(self, element: Element, shape: tuple[int, ...]) -> Any:
        """A value to be made in parts."""

    def run_into(
        self,
        program: Program,
        inputs: Sequence[Any],
        explicit: Sequence[int],
        whole: Any,
        dimension: int,
        begin: int,
        beside: bool,
    ) -> None:
        """Run a program of one result, which is a part of a value that is being made, from `begin` on along a dimension."""

    def given_back(self, results: Sequence[Any], inputs: Sequence[Any], blocks: Sequence[Any]) -> list[Any]:
        """Results of a call as the caller gets them, which share no memory with what was given."""

    def tensor(self, value: Any) -> torch.Tensor:
        """A value as PyTorch has it, perhaps in the same memory; it is only read."""

    def value(self, tensor: torch.Tensor) -> Any:
        """A value of a tensor."""

    def begin(self, watch: Watch) -> None:
        """A call begins."""

    def finish(self) -> None:
        """A call has ended, or failed."""

    def mark(self) -> Any:
        """What the device has been given to do so far; None where nothing is launched ahead of what runs."""

    def begun(self, operation: Begin, mark: Any) -> Any:
        """The work of an operation that waits for what is before a mark alone, or, without one, for all."""

    def wait(self, work: Any, watch: Watch) -> None:
        """Have what comes next see what a collective makes."""

    def stack(self, found: Sequence[Any], element: Element, shape: tuple[int, ...]) -> Any:
        """Values one after the other along a new first dimension: a value of this shape, also if there are none."""

    def scalar(self, number: int) -> Any:
        """An i32 of rank 0."""

    def item(self, value: Any) -> int:
        """The number in a value of rank 0."""


class Processor:
    """NumPy's arrays, on which programs are interpreted or compiled as their sizes ask for, or as a target says."""

    def __init__(self, target: str | None, chip: str | None) -> None:
        self._target, self._chip = target, chip
        self._hosts: IdentityMap[Program, Any] = IdentityMap()
        self._library: Any = libraries.of(torch.empty(0))

    def taken(self, session: Session, callee: Callee, blocks: Sequence[Any]) -> tuple[Program, list[Any]]:
        try:
            hosted = [libraries.hosted(x) for x in blocks]
        except TypeError as error:
            raise wrong(callee, "AX0505", f"an argument of `{callee.name}` is {error}") from None
        matched, program = session.specialize(callee, hosted, blocks)
        flat = values.flatten(program.params, matched)
        return program, [flat[n][1] for n in range(len(flat))]

    def foresee(self, programs: Sequence[Foreseen]) -> None:
        pass

    def run(self, program: Program, inputs: Sequence[Any], explicit: Sequence[int], beside: bool) -> list[Any]:
        given = [np.asarray(x) for x in inputs]
        if self._target == "simulate":
            return compiler.simulate(program, given, explicit, chip=self._chip)
        if program not in self._hosts:
            read = present(program)
            self._hosts[program] = read, compiler.host(read)
        read, host = self._hosts[program]
        if self._target == "interpret":
            return compiler.interpret(read, given, explicit)
        return compiler.run(host, given, explicit, compiled=self._target == "cpu")

    def empty(self, element: Element, shape: tuple[int, ...]) -> Any:
        return np.empty(shape, element.dtype)

    def run_into(
        self,
        program: Program,
        inputs: Sequence[Any],
        explicit: Sequence[int],
        whole: Any,
        dimension: int,
        begin: int,
        beside: bool,
    ) -> None:
        (found,) = self.run(program, inputs, explicit, beside)
        np.moveaxis(whole, dimension, 0)[begin : begin + found.shape[dimension]] = np.moveaxis(found, dimension, 0)

    def given_back(self, results: Sequence[Any], inputs: Sequence[Any], blocks: Sequence[Any]) -> list[Any]:
        arrays = map(np.asarray, results)
        own = [x.copy() if any(np.may_share_memory(x, given) for given in inputs) else x for x in arrays]
        if any(library is self._library for x in blocks for library, _ in libraries.arrays(x)):
            return [self._library.from_host(x if x.flags.c_contiguous else x.copy()) for x in own]
        return list(map(values.number, own))

    def tensor(self, value: Any) -> torch.Tensor:
        array = np.asarray(value)
        plain = array if array.flags.writeable and all(s >= 0 for s in array.strides) else array.copy()  # which PyTorch asks for
        made: torch.Tensor = self._library.from_host(plain)
        return made

    def value(self, tensor: torch.Tensor) -> Any:
        return self._library.to_host(tensor)

    def begin(self, watch: Watch) -> None:
        pass

    def finish(self) -> None:
        pass

    def mark(self) -> None:
        return None

    def begun(self, operation: Begin, mark: None) -> Any:
        return operation()

    def wait(self, work: Any, watch: Watch) -> None:
        watch.wait(work)

    def stack(self, found: Sequence[Any], element: Element, shape: tuple[int, ...]) -> Any:
        out = np.empty(shape, element.dtype)
        for n, value in enumerate(found):
            out[n] = value
        return out

    def scalar(self, number: int) -> Any:
        return np.array(number, np.int32)

    def item(self, value: Any) -> int:
        return int(np.asarray(value))


class CallsThere:
    """How many calls have begun on a GPU, and how many have ended, as it tells itself; recorded in graphs as well."""

    def __init__(self, device: torch.device) -> None:
        self._marks = torch.zeros(2, dtype=torch.int64, device=device)
        self._seen = torch.zeros(2, dtype=torch.int64, pin_memory=device.type == "cuda")

    def count(self, which: int) -> None:
        self._marks[which].add_(1)
        self._seen.copy_(self._marks, non_blocking=True)

    def under_way(self) -> int | None:
        """The number of the call that has begun and not ended."""
        begun, ended = self._seen.tolist()
        return begun if begun != ended else None


@cache
def calls_on(device: torch.device) -> CallsThere:
    return CallsThere(device)


class Gpu:
    """PyTorch's tensors on a GPU. A call is prepared once for each form of its inputs."""

    def __init__(self, device: torch.device, chip: str | None, *, on_stream: bool = True, room: bool = False) -> None:
        """`on_stream`: collectives are waited for on the stream, as NCCL's are; others here, as on processors. With `room`,
        programs that stand beside them leave multiprocessors free, and are launched first."""
        self._device, self._on_stream, self._room = device, on_stream, room
        self._target = compiler.chip(chip, device.index or 0)
        self._made: dict[bool, IdentityMap[Program, Any]] = {False: IdentityMap(), True: IdentityMap()}  # those beside something
        self._calls: IdentityMap[Program, dict[Hashable, Any]] = IdentityMap()
        self._aside: torch.cuda.Stream | None = None  # on which collectives begin that are not to wait for all that was launched
        self._library: Any = libraries.of(torch.empty(0))
        self._calls_there = calls_on(device)

    def taken(self, session: Session, callee: Callee, blocks: Sequence[Any]) -> tuple[Program, list[Any]]:
        matched, program = session.specialize(callee, list(map(values.stand_in, blocks)), blocks)
        given, stood = values.flatten(program.params, blocks), values.flatten(program.params, matched)
        return program, [self._there(given[n][1], stood[n][1]) for n in range(len(given))]

    def _there(self, given: Any, matched: Any) -> torch.Tensor:
        tensor = given if isinstance(given, torch.Tensor) else self._library.from_host(np.array(matched))
        if tensor.device.type == "cpu" and not tensor.ndim:  # by a kernel, which a CUDA graph records
            return torch.full((), tensor.item(), dtype=tensor.dtype, device=self._device)
        there: torch.Tensor = tensor.to(self._device)
        return there

    def foresee(self, programs: Sequence[Foreseen]) -> None:
        """Kernels of all programs are built together: one after the other, each program would take as long as its slowest."""
        with suppress(ZeroDivisionError):  # a size that has no value stops the program where it is needed
            compiler.build_together([(self._executable(p, beside and self._room), sizes) for p, sizes, beside in programs])

    def run(self, program: Program, inputs: Sequence[Any], explicit: Sequence[int], beside: bool) -> list[Any]:
        if inputs:
            return self._run(program, inputs, explicit, None, beside)
        sizes = program.contract.bind(explicit, [])  # without arguments nothing but results says where it runs
        rooms = [self.empty(v.element, tuple(d.evaluate(sizes) for d in v.shape)) for v in results_of(program)]
        return self._run(program, inputs, explicit, rooms, beside)

    def _executable(self, program: Program, beside: bool) -> Any:
        """A program for this device, or for as much of it as is left beside what is exchanged."""
        made = self._made[beside]
        if program not in made:
            left = self._target.multiprocessors - int(self._target.multiprocessors * SHARE) * beside
            made[program] = compiler.executable(program, replace(self._target, multiprocessors=left))
        return made[program]

    def _run(
        self,
        program: Program,
        inputs: Sequence[Any],
        explicit: Sequence[int],
        rooms: Sequence[torch.Tensor] | None,
        beside: bool,
    ) -> list[Any]:
        """The results of a program, in fresh memory or in `rooms`."""
        beside, calls = beside and self._room, self._calls.setdefault(program, {})
        key = (beside, *explicit, *map(self._library.key, (*inputs, *(rooms or ()))))
        out = None if rooms is None else [(v.symbol.name, room) for v, room in zip(results_of(program), rooms, strict=True)]
        if (call := calls.get(key)) is None:
            shapes = [self._library.shape(x) for x in inputs]
            given = [(value.symbol.name, x) for value, x in zip(program.inputs, inputs, strict=True)]
            matched = list(map(values.stand_in, inputs))
            call = compiler.prepare(self._executable(program, beside), given, matched, program.contract.bind(explicit, shapes), out)
            if len(calls) >= KEPT:
                calls.pop(next(iter(calls)))
            calls[key] = call
        return compiler.launch(call, inputs, out)

    def empty(self, element: Element, shape: tuple[int, ...]) -> Any:
        return torch.empty(shape, dtype=self._library.dtypes[element], device=self._device)

    def run_into(
        self,
        program: Program,
        inputs: Sequence[Any],
        explicit: Sequence[int],
        whole: Any,
        dimension: int,
        begin: int,
        beside: bool,
    ) -> None:
        extent = results_of(program)[0].shape[dimension]
        sizes = program.contract.bind(explicit, [self._library.shape(x) for x in inputs])
        self._run(program, inputs, explicit, [whole.narrow(dimension, begin, extent.evaluate(sizes))], beside)

    def given_back(self, results: Sequence[Any], inputs: Sequence[Any], blocks: Sequence[Any]) -> list[Any]:
        memories = {x.untyped_storage().data_ptr() for x in inputs}
        return [x.clone() if x.untyped_storage().data_ptr() in memories else x for x in results]

    def tensor(self, value: Any) -> torch.Tensor:
        made: torch.Tensor = value
        return made

    def value(self, tensor: torch.Tensor) -> Any:
        return tensor

    def begin(self, watch: Watch) -> None:
        watch.busy = self._calls_there.under_way
        self._calls_there.count(0)

    def finish(self) -> None:
        self._calls_there.count(1)

    def mark(self) -> torch.cuda.Event | None:
        if self._device.type != "cuda" or not self._room:
            return None
        event = torch.cuda.Event()
        event.record()
        return event

    def begun(self, operation: Begin, mark: torch.cuda.Event | None) -> Any:
        if mark is None:
            return operation()
        if self._aside is None:
            self._aside = torch.cuda.Stream(self._device)
        self._aside.wait_event(mark)
        with torch.cuda.stream(self._aside):
            work = operation()  # on a stream of the backend's own, which waits for this one; what it takes was made before
        torch.cuda.current_stream().wait_stream(self._aside)  # on which nothing runs: a CUDA graph asks for it
        return work

    def wait(self, work: Any, watch: Watch) -> None:
        if not self._on_stream:
            watch.wait(work)
            return
        try:
            work.wait()  # on the stream, not here: who hangs is found by the next call, which begins on processors
        except RuntimeError as error:
            watch.broken(error)

    def stack(self, found: Sequence[Any], element: Element, shape: tuple[int, ...]) -> Any:
        return torch.stack(list(found)) if found else torch.empty(shape, dtype=self._library.dtypes[element], device=self._device)

    def scalar(self, number: int) -> Any:
        return torch.full((), number, dtype=torch.int32, device=self._device)  # by a kernel, which a CUDA graph records

    def item(self, value: Any) -> int:
        return int(value.item())
