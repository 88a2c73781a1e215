"""One call of a program in parts: straight parts are launched, and the host does what lies between them.

Note [Memory of parts]
    What passes between parts lies in blocks, which come from whoever makes the results (a library's allocator knows the stream).
    A block is free when the last tensor in it is forgotten, which is after its last reader was launched, and the next one that fits
    takes it: all work of a call is on one stream, so what is launched later runs later. The states of a loop therefore alternate
    between two blocks each. A large block goes back to an allocator that orders memory by streams, which cuts it for whatever comes
    next, results too. What the caller gets is written where the caller wants it, by whichever part makes it last.

Note [Steps of a loop]
    The host launches the kernels of each step. A counter that stands in scalar expressions alone is written into arguments that are
    bound already; where an axis or a shape depends on it, a part is bound for each of its values, and what was bound is kept.

Note [Waiting]
    The host waits for the GPU where data decide what comes next: for a trip count that is a tensor, for the size of a `compress`,
    and before each step of a `while` for whether there is one. A trip count that the caller gave as a number costs no wait, nor
    does one that sizes decide, which the host computes itself.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, TypeVar, assert_never

from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.failures import Copies, Watch, interpreted
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.plan.walk import Lives, Make, Walk, steps_of
from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Sort, Value
from axon.core.passes.parts import HostLoop, Part, PartsBody, Straight
from axon.shapes.dimension import Dim

T = TypeVar("T")
GRANULE = 512  # bytes
LARGE = 1 << 24  # bytes, from which to ask an allocator takes no time beside that of the kernels which move as many


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor on the device, and what keeps its memory."""

    tensor: DeviceTensor
    keep: Any = None


class Pool:
    """Memory of one call. See Note [Memory of parts]. `allocate` gives what keeps some bytes, and their address; `ordered`: what is
    kept no more serves what is launched later on the same stream."""

    def __init__(self, allocate: Callable[[int], tuple[Any, int]], *, ordered: bool = False) -> None:
        self.allocate, self.ordered = allocate, ordered
        self.kept: list[Any] = []
        self.free: dict[int, list[int]] = {}

    def take(self, size: int) -> Taken | LargeBlock:
        """Memory until what is returned is forgotten."""
        if self.ordered and size >= LARGE:
            return LargeBlock(*self.allocate(size))
        rounded = _rounded(size)
        free = self.free.setdefault(rounded, [])
        if not free:
            keep, address = self.allocate(rounded)
            self.kept.append(keep)
            free.append(address)
        return Taken(free, free.pop())


@dataclass(frozen=True, slots=True)
class LargeBlock:
    """A block of the allocator's: forgotten, it is that one's again."""

    keep: Any
    address: int


class Taken:
    """A block that is in use; forgotten, it is free again."""

    __slots__ = ("address", "free")

    def __init__(self, free: list[int], address: int) -> None:
        self.free, self.address = free, address

    def __del__(self) -> None:
        self.free.append(self.address)


def _rounded(size: int) -> int:
    """Up to a fourth more, so that blocks fit again."""
    step = max(GRANULE, 1 << max(0, size.bit_length() - 3))
    return max(GRANULE, -(-size // step) * step)


@dataclass(slots=True)
class GpuRun(Walk[Held]):
    """One call.

    `numbers` are inputs of rank 0 that the caller gave as numbers. `watch` is where kernels note failures, `copies` what gives
    the call's arguments to the interpreter.
    """

    stepped: Stepped
    cuda: Driver
    device: int
    stream: int
    pool: Pool
    numbers: Mapping[Symbol, Any]
    watch: Watch | None
    copies: Copies
    explicit: Sequence[int]
    word: Any = field(default_factory=ctypes.c_int64)
    steady: frozenset[Symbol] = frozenset()  # sizes that were known at first, which no step changes
    shapes: dict[Symbol, tuple[int, ...]] = field(default_factory=dict)  # of values that depend on no others
    replay: Callable[[GpuRun, HostLoop, dict[Symbol, Make[Held]]], bool] | None = None  # runs a loop some other way, if it can

    def __call__(self, makers: Sequence[Make[Held]]) -> list[Held]:
        """The results; `makers` make room for each."""
        self.steady = frozenset(self.sizes)
        return self.stopping(lambda: self.block(self.stepped.parts.body, list(makers)))

    def stopping(self, work: Callable[[], T]) -> T:
        """What some work gives; where sizes stop the program, the error that it has."""
        try:
            return work()
        except (CheckFailed, ZeroDivisionError) as stop:
            self.cuda.check("cuStreamSynchronize", self.cuda.wait_for(self.stream))
            if self.watch is not None:
                self.watch.word.taken()
            error = interpreted(self.stepped.program, self.copies, self.explicit)
            if error is not None:
                raise error from None
            if isinstance(stop, CheckFailed):
                self.stepped.check(stop.op, self.sizes)
            raise

    def lives(self, block: PartsBody) -> Lives:
        return self.stepped.lives(block)

    def item(self, item: Part, wanted: dict[Symbol, Make[Held]], dying: frozenset[Symbol]) -> None:
        match item:
            case Straight():
                self.straight(item, wanted)
            case HostLoop(op=op, body=body):
                if self.replay is None or not self.replay(self, item, wanted):
                    self.loop(op, body, wanted, dying)
            case Sort(values=values, indices=indices, input=input):
                self.sort(self.held[input], self.room(values, wanted), self.room(indices, wanted))
            case Compress():
                self.compress(item, wanted)
            case Check():
                if not item.holds(self.sizes):
                    if self.stepped.fails:  # something that stands before may fail too: the interpreter knows what is first
                        raise CheckFailed(item)
                    self.stepped.check(item, self.sizes)
            case _:
                assert_never(item)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def shape(self, value: Value) -> tuple[int, ...]:
        found = self.shapes.get(value.symbol)
        if found is None:
            found = Walk.shape(self, value)
            if all(self.steady.issuperset(d.variables) for d in value.shape):
                self.shapes[value.symbol] = found
        return found

    def allocate(self, value: Value, shape: tuple[int, ...]) -> Held:
        block = self.pool.take(prod(shape) * max(1, value.element.bits // 8))
        return Held(contiguous(block.address, shape, value.element), block)

    def copied(self, held: Held, make: Make[Held]) -> Held:
        """A copy of a tensor."""
        source = held.tensor
        target = make(source.shape)
        if 0 in source.shape:
            return target
        plain = contiguous(0, source.shape, source.element).strides
        if same_place(source, plain) and same_place(target.tensor, plain):
            size = prod(source.shape) * max(1, source.element.bits // 8)
            self.cuda.move(target.tensor.pointer, source.pointer, size, self.stream)
        else:
            part = self.stepped.copying(source.element, len(source.shape))
            sizes = dict(zip(part.program.explicit, source.shape, strict=True))
            (symbol,) = part.program.block.results
            given = {part.program.inputs[0].symbol: source, symbol: target.tensor}
            self.launch(part, given, sizes)
        return target

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def straight(self, part: Straight, wanted: dict[Symbol, Make[Held]]) -> None:
        known, held = self.stepped.known(part), self.held
        given = {symbol: held[symbol].tensor for symbol in known.inputs}
        for value in known.results:
            given[value.symbol] = self.room(value, wanted).tensor
        self.launch(part, given, self.sizes)

    def launch(self, part: Straight, given: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]) -> None:
        bound = self.stepped.bind(part, given, sizes, self.device)
        room = self.pool.take(bound.room) if bound.room else None
        addresses = [tensor.pointer for tensor in given.values()]
        addresses += (room.address if room else 0, self.watch.address if self.watch else 0, self.stream)
        changing = self.stepped.known(part).changing
        if changing:
            bound.launches(addresses, changing, sizes)
        else:
            bound.launches(addresses)

    def slot(self, stack: Held, step: int) -> tuple[Make[Held], bool]:
        tensor, size = stack.tensor, max(1, stack.tensor.element.bits // 8)
        pointer = tensor.pointer + step * tensor.strides[0] * size
        held = Held(DeviceTensor(pointer, tensor.shape[1:], tensor.strides[1:], tensor.element), stack.keep)
        return lambda shape: held, writable(tensor)

    def steps(self, trip: Dim | Symbol) -> int | None:
        """A trip count; None if data decide it."""
        if isinstance(trip, Dim):
            return steps_of(trip, self.sizes)
        found = self.numbers[trip] if trip in self.numbers else self.stepped.count(trip, self.sizes)
        return None if found is None else max(0, int(found))

    def number(self, symbol: Symbol) -> int:
        known = self.steps(symbol)
        if known is not None:
            return known
        return self.read(self.held[symbol].tensor.pointer, self.stepped.values[symbol].element)

    def flag(self, held: Held) -> bool:
        return bool(self.read(held.tensor.pointer, Element.BOOL, "whether a loop goes on"))

    def read(self, address: int, element: Element, what: str = "a size") -> int:
        """A number that the GPU computes. The host waits for it. See Note [Waiting]."""
        if self.cuda.capturing(self.stream):
            message = f"`{self.stepped.program.name}` reads {what} back from the GPU, which cannot be part of a stream capture"
            raise AxonError((Diagnostic("AX0612", message, suggestions=(Suggestion("call it outside of the capture"),)),))
        word = self.word
        word.value = 0
        self.cuda.move(ctypes.addressof(word), address, element.bits // 8, self.stream)
        self.cuda.check("cuStreamSynchronize", self.cuda.wait_for(self.stream))
        if self.watch is not None:
            self.watch.finished(self.copies, self.explicit)
        return word.value if element is Element.I64 else ctypes.c_int32(word.value).value

    def sort(self, source: Held, values: Held, indices: Held) -> None:
        if 0 in source.tensor.shape:
            return
        bound = self.stepped.algorithms.sort(self.cuda, self.device, source.tensor)
        room = self.pool.take(bound.room) if bound.room else None
        place = room.address if room is not None else 0
        bound.launches([source.tensor.pointer, values.tensor.pointer, indices.tensor.pointer, place, self.stream])

    def compress(self, op: Compress, wanted: dict[Symbol, Make[Held]]) -> None:
        source = self.held[op.mask].tensor
        if 0 in source.shape:
            self.sizes[op.size] = 0
            self.room(op.out, wanted)
            return
        found = self.stepped.algorithms.compress(self.cuda, self.device, source)
        room = self.pool.take(found.count.room)
        found.count.launches([source.pointer, room.address, self.stream])
        self.sizes[op.size] = self.read(room.address + found.total, Element.I32)
        out = self.room(op.out, wanted)
        if self.sizes[op.size]:
            found.write.launches([source.pointer, out.tensor.pointer, room.address, self.stream])


class CheckFailed(Exception):
    """A check fails, and the interpreter says whether something before it fails first."""

    def __init__(self, op: Check) -> None:
        super().__init__(op.message)
        self.op = op


def writable(stack: DeviceTensor) -> bool:
    """Whether items write the states of an unfold where they lie in the stack: if all lie alike for kernels, at multiples of 16
    bytes, or where none of their accesses is wide."""
    return len(stack.shape) == 1 or stack.strides[0] * max(1, stack.element.bits // 8) % 16 == 0


def same_place(tensor: DeviceTensor, strides: tuple[int, ...]) -> bool:
    """Whether a tensor lies as contiguous ones do; strides of dimensions of one index mean nothing."""
    return all(a == b or n == 1 for a, b, n in zip(tensor.strides, strides, tensor.shape, strict=True))
