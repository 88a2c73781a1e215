"""Calls with arrays of a GPU library, or of NumPy: described where they lie, results made by that library, launched on its stream.

Note [Quick calls]
    Everything that a call's arguments decide (contract, specialization, variants, descriptors) depends on their element types,
    shapes, strides, alignment and GPU alone. `Quick` keeps a `ArrayCall` for each of those that it saw, and finds it again without
    asking anything else: what is left is to make room for results, to write addresses, and to launch. A tensor whose gradient
    would be lost is told apart from those that were seen (PyTorch's own guard does so too): the slow way refuses it.

Results are fresh arrays, without gradient history. NumPy's arrays are copied to the GPU and back, and such a call waits for its
result.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from typing import Any

import numpy as np

from axon.backend import libraries
from axon.backend.gpu.launching.driver import driver
from axon.backend.gpu.launching.launches import Replay
from axon.backend.gpu.layout.memory import contiguous
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.runtime.binding import BoundProgram
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.given import (
    ALIGNMENT,
    Given,
    check_apart,
    check_room,
    described,
    device_of,
    extent,
    fill,
    lying,
    maker,
    note_written,
    packer,
    tensor_of,
    worded,
    wrong,
)
from axon.backend.gpu.runtime.kept_graphs import allocated, keep
from axon.backend.gpu.runtime.stepped_call import Copier, HostCall, SteppedCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.libraries import Library, Torch
from axon.backend.needs import Missing, gpu
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Leaf, Param, RecordOf, Structure, TupleOf

KEPT_CALLS = 512  # of one function
STREAMS = 4  # on which one call is kept as a graph


def place_of(given: Given) -> int:
    """The GPU on which a call with these arguments runs: that of the first array that lies on one."""
    for path, x in given:
        library = libraries.of(x)
        device = None if library is None else device_of(library, path, x)
        if device is not None:
            return device
    return 0


def prepare(
    stepped: Stepped, given: Given, matched: Sequence[Any], sizes: MappingOf[Symbol, int], room: Given | None
) -> ArrayCall | SteppedCall | HostCall:
    """A call of a program, with its kernels built and loaded.

    `given` are the arguments in the order of the program's inputs, each with its path; `matched` NumPy arrays of their element
    types and shapes, which hold the values of those on the host; `room` arrays for the results. Raises AxonError for arrays that
    lie in different places, `Unsupported` for what has no kernel, `Missing` for another kind of GPU, `DeviceError` where the
    driver refuses.
    """
    try:
        gpu(0)
    except Missing as missing:
        # What can be done here, so that the first call where there is a GPU is quick: what that would build, and no more.
        stepped.warm(sizes, exact=False)
        raise missing.noting("the program's kernels are built, and kept for a machine that can run them") from None
    first: tuple[str, Library, int] | None = None
    for path, x in (*given, *(room or ())):
        library = libraries.of(x)
        device = None if library is None else device_of(library, path, x)
        if library is not None and device is None:
            message = f"`{path}` must lie on a GPU to run on `cuda`, and is {described(x)}"
            raise wrong(message, 'move it there, or run with target="cpu"')
        if library is not None and device is not None:
            first = first or (path, library, device)
            if (library, device) != first[1:]:
                raise wrong(f"`{path}` must be {worded(*first[1:])}, as `{first[0]}` is, not {described(x)}")
    if first is None:
        return HostCall(stepped, matched, sizes, room)
    path, library, device = first
    for (name, x), host in zip(given, matched, strict=True):
        if libraries.of(x) is None and np.ndim(host):
            helps = "move it there first: nothing is copied to a GPU in silence, unless all arguments are NumPy arrays"
            raise wrong(f"`{name}` must be {worded(library, device)}, as `{path}` is, not {described(x)}", helps)
    gpu(device)
    if stepped.straight is None or not stepped.holds(sizes):
        return SteppedCall(stepped, library, device, given, matched, sizes, room)
    return ArrayCall(stepped, stepped.straight, library, device, given, matched, sizes, room)


class ArrayCall:
    """A program at one choice of element types, shapes, strides and alignments on one GPU. Safe to use from several threads."""

    def __init__(
        self,
        stepped: Stepped,
        executable: Executable,
        library: Library,
        device: int,
        given: Given,
        matched: Sequence[Any],
        sizes: MappingOf[Symbol, int],
        room: Given | None,
    ) -> None:
        self.library, self.device, self.driver = library, device, driver()
        self.stream_of, self.current, self.capturing = library.stream, library.current, library.capturing
        self.finishes = not library.writable
        program = stepped.program
        inputs = {v.symbol: number for number, v in enumerate(program.inputs)}
        values = {v.symbol: v for v in executable.values}
        stream = library.stream(device)
        lies = lying(library, program, given, matched, stream)
        tensors, scalars = dict(lies.tensors), lies.numbers
        self.arrays, self.extents = lies.arrays, lies.extents
        self.alone = not scalars  # every argument is an array
        self.written: list[tuple[int, int]] = []
        self.makers: list[Callable[[], Any]] = []
        for number, symbol in enumerate(program.block.results):
            if symbol in tensors or symbol in scalars:
                raise Unsupported("a result that is an argument, or another result")  # lowering makes a copy of it
            value = values[symbol]
            shape = tuple(d.evaluate(sizes) for d in value.shape)
            if room is None:
                self.makers.append(maker(library, shape, value.element, device))
                tensors[symbol] = contiguous(ALIGNMENT, shape, value.element)
            else:
                check_room(library, room[number], value, shape)
                tensors[symbol] = tensor_of(library, *room[number], value.element, stream)
            self.written.append(extent(tensors[symbol]))
        fresh = program.block.results if room is None else ()
        self.bound: BoundProgram = executable.bind(tensors, sizes, device, tuple(scalars), fresh=fresh)
        self.context = self.driver.context(device)
        self.room = self.bound.room
        self.make_room = maker(library, (self.room,), Element.U8, device)
        self.scalars = [
            (inputs[s], packer(values[s].element), at, values[s].element.bits // 8) for s, at in self.bound.scalars.items()
        ]
        self.watch = stepped.watch(self.driver, device) if self.bound.fails else None
        self.status = 0 if self.watch is None else self.watch.address
        self.copier = Copier(self.driver, library, program, self.arrays)
        self.explicit = [sizes[symbol] for symbol in program.explicit]
        self.several = len(self.bound.kernels) > 1
        self.replays: dict[int, tuple[Replay, int]] = {}  # by stream, with the address of the room
        self.calls = 0
        self.apart: list[int] = []  # addresses that were found not to overlap

    def __call__(self, inputs: Sequence[Any], outs: list[Any] | None) -> list[Any]:
        """The results for arrays like those that it was made for, in the order of the program's inputs; the first, slow way."""
        stream = self.stream_of(self.device)
        arrays = set(self.arrays)
        leaves = [self.library.address(x, stream) if n in arrays else x for n, x in enumerate(inputs)]
        return self.run(leaves, inputs, outs, [self.library.address(x, stream) for x in outs or ()])

    def run(self, leaves: list[Any], inputs: Sequence[Any], outs: list[Any] | None, written: list[int]) -> list[Any]:
        """As a call; `leaves` are the addresses of arrays, and numbers; `written` the addresses of `outs`."""
        if self.current() == self.device:
            return self._run(leaves, inputs, outs, written)
        with self.library.on(self.device), self.driver.entered(self.context):
            return self._run(leaves, inputs, outs, written)

    def _run(self, leaves: list[Any], inputs: Sequence[Any], outs: list[Any] | None, written: list[int]) -> list[Any]:
        if self.watch is not None:
            self.watch.look()
        stream = self.stream_of(self.device)
        addresses = leaves[:] if self.alone else [leaves[n] for n in self.arrays]
        if outs is None:
            try:
                results = [make() for make in self.makers]
            except self.library.full:
                results = [allocated(self.library, make) for make in self.makers]
            address = self.library.address
            for result in results:
                addresses.append(address(result, stream))
        else:
            results = outs
            addresses += written
            if addresses != self.apart:
                self._check_apart(addresses)
            note_written(self.library, outs)
        replay = self._replay(stream) if self.several else None
        if replay is not None:
            graph, place = replay
            addresses += (place, self.status, 0)
            if self.scalars:
                self._fill(leaves, place, stream)
            graph(addresses, stream)
        else:
            _held, place = self._space(stream)  # until the kernels are on the stream, which its allocator knows
            addresses += (place, self.status, stream)
            if self.scalars:
                self._fill(leaves, place, stream)
            self.bound.launches(addresses)
        if self.watch is not None:
            self.watch.note(self.copier.weakly(inputs), self.explicit)
        return self.library.finish(results, list(inputs), stream, self.device) if self.finishes else results

    def _replay(self, stream: int) -> tuple[Replay, int] | None:
        """The kernels as a graph, from the second call on; None while someone records the stream. See Note [Replays]."""
        known = self.capturing()
        if known or (known is None and self.driver.capturing(stream)):
            return None
        found = self.replays.get(stream)
        if found is None:
            self.calls += 1
            if self.calls < 2 or len(self.replays) >= STREAMS:
                return None
            space, place = self._space(stream)
            bound = self.bound
            found = Replay(self.driver, bound.kernels, bound.launches.count, self.context, space), place
            self.replays[stream] = found
            keep(self, stream)
        return found

    def _space(self, stream: int) -> tuple[Any, int]:
        """Memory between the kernels, and its address."""
        if not self.room:
            return None, 0
        space = allocated(self.library, self.make_room)
        return space, self.library.address(space, stream)

    def forget(self, stream: int) -> None:
        """Drop the graph of a stream; the next two calls there make another."""
        self.replays.pop(stream, None)
        self.calls = 0

    def _fill(self, leaves: list[Any], place: int, stream: int) -> None:
        for number, pack, offset, size in self.scalars:
            fill(self.driver, place + offset, pack(leaves[number]), size, stream)

    def _check_apart(self, addresses: list[int]) -> None:
        inputs = [(a + low, a + high) for a, (low, high) in zip(addresses, self.extents, strict=False)]
        written = addresses[len(self.extents) :]
        check_apart(inputs, [(a + low, a + high) for a, (low, high) in zip(written, self.written, strict=True)])
        self.apart = list(addresses)


# ── quick calls ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class QuickCall:
    """A call that `Quick` knows. Without an order, its arguments are the program's inputs, one by one."""

    call: ArrayCall | SteppedCall
    order: list[int] | None  # for each input of the program, which leaf of the arguments it is
    outs: list[int] | None  # likewise for each result, which leaf of `out`; None if `out` is the one array
    structure: Structure
    simple: bool  # PyTorch's tensors in order, and one result: nothing is left to arrange
    like: Callable[..., bool] | None  # whether other tensors, and `out`, are like these; known for some that are simple
    out: bool  # whether `out` is given
    grads: bool  # whether a tensor requires grad, which `like` compares, and not whether PyTorch records gradients


class Quick:
    """The calls of one function, found by what their arguments are. See Note [Quick calls]."""

    def __init__(self, names: tuple[str, ...]) -> None:
        self.names = names
        self.calls: dict[tuple[Any, ...], QuickCall] = {}
        self.last: QuickCall | None = None  # whose `like` is asked first
        torch = sys.modules.get("torch")
        self.tensors: frozenset[type] = frozenset((torch.Tensor, torch.nn.Parameter)) if torch is not None else frozenset()
        self.recording: Callable[[], bool] = torch.is_grad_enabled if torch is not None else bool
        self.forward: Any = torch.autograd.forward_ad if torch is not None else _NoTangents

    def __call__(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        """The result, or this object itself for arguments that it has not seen."""
        if self.forward._current_level >= 0:  # tensors may have tangents, which nothing cheap shows
            return self
        last = self.last
        like = None if last is None or kwargs or last.out is (out is None) else last.like
        if last is not None and like is not None and not (last.grads and self.recording()):
            try:
                if like(*args) if out is None else like(*args, out):
                    leaves = [x.data_ptr() for x in args]
                    bits = 0 if out is None else out.data_ptr()
                    written = [bits]
                    for address in leaves:
                        bits |= address
                    if not bits & 15:
                        if out is None:
                            return last.call.run(leaves, args, None, written)[0]
                        last.call.run(leaves, args, [out], written)
                        return out
            except TypeError:  # of another number of arguments
                pass
        return self._look_up(args, kwargs, out)

    def _look_up(self, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any) -> Any:
        key: list[Any] = []
        leaves: list[Any] = []
        try:
            if kwargs:
                args = self._positional(args, kwargs)
            if out is None:
                bits = self._read(args, key, leaves)
            else:
                bits = self._read((*args, out), key, leaves)
                key.append(None)
            if bits & 15:
                key.append(_offsets(leaves))
            seen = self.calls[tuple(key)]
        except (KeyError, TypeError, RuntimeError):  # PyTorch's RuntimeError: a sparse tensor has no strides, or no address
            return self
        self.last = seen
        if not seen.simple:
            return self._arranged(seen, args, out, leaves)
        if out is None:
            return seen.call.run(leaves, args, None, leaves)[0]
        written = leaves[-1:]
        leaves.pop()
        seen.call.run(leaves, args, [out], written)
        return out

    def _arranged(self, seen: QuickCall, args: tuple[Any, ...], out: Any, leaves: list[Any]) -> Any:
        """A call whose arguments or results have a structure, are numbers, or are of another library than PyTorch."""
        call = seen.call
        arrays = list(_leaves(args))
        written = leaves[len(arrays) :]
        leaves = leaves[: len(arrays)]
        if seen.order is not None:
            arrays, leaves = [arrays[n] for n in seen.order], [leaves[n] for n in seen.order]
        room = None
        if out is not None:
            room = list(_leaves(out))
            if seen.outs is not None:
                room, written = [room[n] for n in seen.outs], [written[n] for n in seen.outs]
        if call.library.name != "torch":
            stream = call.library.stream(call.device)
            leaves = [call.library.address(x, stream) if libraries.of(x) else x for x in leaves]
            written = [call.library.address(x, stream) for x in written]
        try:
            results = call.run(leaves, arrays, room, written)
        except (OverflowError, struct.error):  # a number that its element type cannot hold: the slow way says so
            return self
        return out if out is not None else _assembled(seen.structure, results)

    def _read(self, values: Any, key: list[Any], leaves: list[Any]) -> int:
        """Append what decides a call to `key`, and addresses, numbers or arrays to `leaves`; the addresses' bits, or-ed."""
        bits = 0
        tensors = self.tensors
        for x in values:
            kind = type(x)
            if kind in tensors:
                key += (x.dtype, x.shape, x.stride(), x.get_device(), x.requires_grad and self.recording(), x.is_neg())
                address = x.data_ptr()
                leaves.append(address)
                bits |= address
            elif kind is float or kind is int or kind is bool:
                key.append(kind)
                leaves.append(x)
            elif kind is tuple:
                key.append(len(x))
                bits |= self._read(x, key, leaves)
            elif kind is dict:
                key.append(tuple(x))
                bits |= self._read(x.values(), key, leaves)
            else:
                library = libraries.of(x)
                if library is None:
                    raise TypeError(kind)
                key.append(library.key(x))
                leaves.append(x.data_ptr() if isinstance(library, Torch) else x)  # the first of a subclass of its tensors
        return bits

    def _positional(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        rest = self.names[len(args) :]
        if len(rest) != len(kwargs):
            raise KeyError
        return (*args, *[kwargs[name] for name in rest])

    def learn(
        self, given: Sequence[Any], out: Any, call: ArrayCall | SteppedCall | HostCall, params: tuple[Param, ...], result: Structure
    ) -> None:
        """Keep a call for arguments like these."""
        if isinstance(call, HostCall):
            return
        key: list[Any] = []
        leaves: list[Any] = []
        try:
            bits = self._read(given if out is None else (*given, out), key, leaves)
        except (TypeError, RuntimeError):
            return
        if out is not None:
            key.append(None)
        if bits & 15:
            key.append(_offsets(leaves))
        # In the order of the walk each leaf has a number; the program's inputs, and the results, are in the order of structures.
        numbers = iter(range(len(leaves)))
        counted = [_counted(x, numbers) for x in given]
        order = [n for p, x in zip(params, counted, strict=True) for n in _flat(p.structure, x)]
        positions = [n for p in params for n in _positions(p.structure)]
        arranged = [n for _, n in sorted(zip(positions, order, strict=True))]
        outs = None
        if isinstance(out, tuple | dict):
            places = _flat(result, _counted(out, iter(range(len(leaves)))))
            outs = [n for _, n in sorted(zip(_positions(result), places, strict=True))]
        plain = arranged == list(range(len(given))) and not any(isinstance(x, tuple | dict) for x in given)
        easy = plain and all(type(x) in self.tensors for x in given)
        if len(self.calls) >= KEPT_CALLS:
            self.calls.pop(next(iter(self.calls)))
        simple = easy and isinstance(result, Leaf)
        tensors = given if out is None else (*given, out)
        like = call.library.guard(tensors) if simple and not bits & 15 and isinstance(call.library, Torch) else None
        grads = like is not None and any(x.requires_grad for x in tensors)
        self.calls[tuple(key)] = QuickCall(call, None if plain else arranged, outs, result, simple, like, out is not None, grads)


class _NoTangents:
    """What PyTorch's module of tangents says where none are made."""

    _current_level = -1


def _offsets(leaves: Sequence[Any]) -> tuple[int, ...]:
    """How addresses lie between multiples of 16 bytes."""
    return tuple([leaf & 15 for leaf in leaves if type(leaf) is int])


def _leaves(value: Any) -> Iterator[Any]:
    """The leaves of an argument in the order in which `Quick` reads them."""
    if type(value) is tuple or type(value) is dict:
        for item in value.values() if type(value) is dict else value:
            yield from _leaves(item)
    else:
        yield value


def _counted(value: Any, numbers: Iterator[int]) -> Any:
    """An argument with each leaf replaced by its number."""
    if isinstance(value, tuple):
        return tuple(_counted(item, numbers) for item in value)
    if isinstance(value, dict):
        return {name: _counted(item, numbers) for name, item in value.items()}
    return next(numbers)


def _flat(structure: Structure, value: Any) -> list[Any]:
    match structure:
        case Leaf():
            return [value]
        case TupleOf(items=items):
            return [leaf for item, part in zip(items, value, strict=True) for leaf in _flat(item, part)]
        case RecordOf(fields=fields):
            return [leaf for name, item in fields for leaf in _flat(item, value[name])]


def _positions(structure: Structure) -> list[int]:
    match structure:
        case Leaf(position=position):
            return [position]
        case TupleOf(items=items):
            return [n for item in items for n in _positions(item)]
        case RecordOf(fields=fields):
            return [n for _, item in fields for n in _positions(item)]


def _assembled(structure: Structure, results: Sequence[Any]) -> Any:
    match structure:
        case Leaf(position=position):
            return results[position]
        case TupleOf(items=items):
            return tuple([_assembled(item, results) for item in items])
        case RecordOf(fields=fields):
            return {name: _assembled(item, results) for name, item in fields}
