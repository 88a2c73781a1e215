"""Programs in parts on a device: straight parts are launched, and the host does what lies between them.

    Stepped    a program, its parts, and the kernels of each
    run        one call of it

Note [Memory of parts]
    What passes between parts lies in blocks, which come from whoever makes the results (a library's allocator knows the stream).
    A block is free when the last tensor in it is forgotten, which is after its last reader was launched, and the next one that fits
    takes it: all work of a call is on one stream, so what is launched later runs later. The states of a loop therefore alternate
    between two blocks each. What the caller gets is written where the caller wants it, by whichever part makes it last.

Note [Steps of a loop]
    The host launches the kernels of each step. A counter that stands in scalar expressions alone is written into arguments that are
    bound already; where an axis or a shape depends on it, a part is bound for each of its values, and what was bound is kept.

Note [Waiting]
    The host waits for the GPU where data decide what comes next: for a trip count that is a tensor, and for the size of a
    `compress`. A trip count that the caller gave as a number costs no wait.
"""

from __future__ import annotations

import ctypes
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from threading import RLock
from typing import Any, assert_never

from axon.backend.algorithms import Algorithms
from axon.backend.driver import Driver
from axon.backend.failures import Copies, Watch, interpreted
from axon.backend.memory import Tensor, contiguous
from axon.backend.parts import Body, Part, Repeat, Straight, outs, parts, straights, tensors
from axon.backend.runtime import Bound, Executable
from axon.backend.schedule import Mapping as KernelMapping
from axon.backend.schedule_file import NOTHING, Schedule
from axon.backend.target import HOPPER, Target
from axon.core import Axis, Block, Check, Compress, Compute, Leaf, Param, Program, Read, Scan, Sort, Value
from axon.diagnostics import AxonError, Diagnostic, ShapeError, Suggestion
from axon.element import Element
from axon.names import Symbol, fresh
from axon.shapes.contract import Contract, ParameterShape
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

KEPT = 256  # bindings of one program
TYPICAL_TRIP = 8  # steps that kernels are built for where data decide how many there are
GRANULE = 512  # bytes


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor on the device, and what keeps its memory."""

    tensor: Tensor
    keep: Any = None


Make = Callable[[tuple[int, ...]], Held]  # room for a value of this shape


@dataclass(frozen=True, slots=True)
class Known:
    """What each launch of a straight part needs. `steady` are the dimensions that its bindings depend on, `changing` the others."""

    executable: Executable
    inputs: tuple[Symbol, ...]
    results: tuple[Value, ...]
    steady: tuple[Symbol, ...]
    changing: frozenset[Symbol]


class Stepped:
    """A core program on one target: its parts, and the kernels of each. Safe to use from several threads.

    A program that is straight, but for checks in front, has one executable, `straight`; its calls need nothing of what is here.
    """

    def __init__(
        self,
        program: Program,
        target: Target = HOPPER,
        mapping: KernelMapping | None = None,
        *,
        exact: bool = False,
        schedule: Schedule = NOTHING,
    ) -> None:
        """Raises `Unsupported` as `Executable` does, and AX0605 for a kernel of the schedule that is not there."""
        self.program, self.target = program, target
        self.parts = parts(program)
        self.checks = self.parts.checks
        self.algorithms = Algorithms(target)
        self.values = _values(program, self.parts.body)
        self._lock = RLock()
        self._bound: OrderedDict[tuple[Any, ...], Bound] = OrderedDict()
        self._watches: dict[int, Watch] = {}
        self._lives: dict[int, tuple[frozenset[Symbol], ...]] = {}
        self._results: dict[int, tuple[Symbol, ...]] = {}
        self._known: dict[int, Known] = {}
        self._copies: dict[tuple[Element, int], Straight] = {}
        whole = self.parts.straight
        found = list(straights(self.parts.body))
        self.straight: Executable | None = None
        if whole is not None:
            self.straight = Executable(whole, target, mapping, exact=exact, schedule=schedule)
            self.executables = {id(part): self.straight for part in found}
            self._know(self.parts.body, frozenset())
            return
        self.executables = {id(part): Executable(part.program, target, mapping, exact=exact) for part in found}
        fixed = iter(schedule.of(len(self.kernels)))
        for executable in self.executables.values():
            executable.fixed = tuple(next(fixed) for _ in executable.kernels)
        self._know(self.parts.body, frozenset())

    # ── as an executable ────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def kernels(self) -> tuple[Any, ...]:
        """The kernels of all straight parts, in order; those of sorts and compresses have no mapping to choose."""
        return tuple(kernel for executable in dict.fromkeys(self.executables.values()) for kernel in executable.kernels)

    @property
    def fixed(self) -> tuple[Any, ...]:
        return tuple(fixed for executable in dict.fromkeys(self.executables.values()) for fixed in executable.fixed)

    def made(self) -> list[tuple[int, Any, int]]:
        """The kernels that are built: the number of each, its variant, its registers."""
        rows, before = [], 0
        for executable in dict.fromkeys(self.executables.values()):
            rows += [(before + number, variant, registers) for number, variant, registers in executable.made()]
            before += len(executable.kernels)
        return rows

    def warm(self, sizes: Mapping[Symbol, int]) -> None:
        """Build all kernels, mapped for these sizes, for contiguous tensors. Needs no GPU.

        Sizes that data decide are taken to be as large as they can be, and loops to be at their middle.
        """
        for op in self.checks:
            self.check(op, sizes)
        self._warm(self.parts.body, dict(sizes))

    def _warm(self, body: Body, sizes: dict[Symbol, int]) -> None:
        for part in body.parts:
            match part:
                case Straight():
                    self.executables[id(part)].warm(sizes)
                case Repeat():
                    trip = part.trip.evaluate(sizes) if isinstance(part.trip, Dim) else TYPICAL_TRIP
                    self._warm(part.body, {**sizes, part.op.counter: max(0, trip) // 2})
                case Sort(values=values):
                    self.algorithms.warm(values.element, len(values.shape))
                case Compress(size=size, mask=mask):
                    self.algorithms.warm(None, 1)
                    sizes[size] = self.values[mask].shape[0].evaluate(sizes)
                case Check():
                    pass
                case _:
                    assert_never(part)

    # ── what is kept ────────────────────────────────────────────────────────────────────────────────────────────────────

    def check(self, op: Check, sizes: Mapping[Symbol, int]) -> None:
        """Raises what the interpreter raises where a relation between dimensions does not hold."""
        from axon.interpret.frame import diagnostic, size_of

        if Relation(op.left, op.relation, op.right).holds(sizes):
            return
        left, right = (size_of(side, sizes, op.span) for side in (op.left, op.right))
        raise ShapeError((diagnostic("AX0501", op.message, f"{left} {op.relation} {right} does not hold", op.span),))

    def holds(self, sizes: Mapping[Symbol, int]) -> bool:
        """Whether the checks in front hold."""
        return all(Relation(op.left, op.relation, op.right).holds(sizes) for op in self.checks)

    def watch(self, cuda: Driver, device: int) -> Watch:
        """Where the program's kernels note failures on a GPU."""
        with self._lock:
            if device not in self._watches:
                self._watches[device] = Watch(self.program, cuda, device)
            return self._watches[device]

    @property
    def fails(self) -> bool:
        """Whether a kernel may note a failure."""
        return any(part.fails for part in straights(self.parts.body))

    def lives(self, body: Body) -> tuple[frozenset[Symbol], ...]:
        """For each part of a body, what the body made and nobody reads after it."""
        found = self._lives.get(id(body))
        if found is None:
            found = self._lives[id(body)] = _deaths(body)
        return found

    def results(self, body: Body) -> tuple[Symbol, ...]:
        """What a body made of what it gives."""
        found = self._results.get(id(body))
        if found is None:
            own = {value.symbol for part in body.parts for value in made(part)}
            found = self._results[id(body)] = tuple(own.intersection(body.results))
        return found

    def _know(self, body: Body, counters: frozenset[Symbol]) -> None:
        """Note what is known of the straight parts inside loops with these counters."""
        for part in body.parts:
            if isinstance(part, Repeat):
                self._know(part.body, counters | {part.op.counter})
            elif isinstance(part, Straight):
                self._known[id(part)] = self._known_of(part, counters)

    def _known_of(self, part: Straight, counters: frozenset[Symbol]) -> Known:
        executable, explicit = self.executables[id(part)], part.program.explicit
        changing = counters.intersection(explicit) - _of_extents(part.program)
        inputs = tuple(value.symbol for value in executable.program.inputs)
        return Known(executable, inputs, part.results, tuple(s for s in explicit if s not in changing), changing)

    def known(self, part: Straight) -> Known:
        return self._known[id(part)]

    def bind(self, part: Straight, given: Mapping[Symbol, Tensor], sizes: Mapping[Symbol, int], device: int) -> Bound:
        """The launches of a straight part for tensors that lie like these; kept. See Note [Steps of a loop]."""
        known = self._known[id(part)]
        lies = [(t.pointer & 15, t.strides) for t in given.values()]  # their shapes follow from the sizes
        key = (id(part), device, *lies, *[sizes[s] for s in known.steady])
        with self._lock:
            found = self._bound.get(key)
            if found is None:
                own = {symbol: sizes[symbol] for symbol in part.program.explicit}
                found = self._bound[key] = known.executable.bind(given, own, device, (), known.changing)
                if len(self._bound) > KEPT:
                    self._bound.popitem(last=False)
            return found

    def copying(self, element: Element, rank: int) -> Straight:
        """A straight part that copies a tensor, however it lies."""
        with self._lock:
            if (element, rank) not in self._copies:
                made = self._copies[element, rank] = _copy(element, rank)
                self.executables[id(made)] = Executable(made.program, self.target)
                self._known[id(made)] = self._known_of(made, frozenset())
            return self._copies[element, rank]


def _values(program: Program, body: Body) -> dict[Symbol, Value]:
    """Every tensor that lies between parts, or is an input."""
    found = {value.symbol: value for value in program.inputs}

    def visit(body: Body) -> None:
        for part in body.parts:
            if isinstance(part, Repeat):
                found.update((state.symbol, state) for state in part.op.states)
                visit(part.body)
            found.update((value.symbol, value) for value in made(part))

    visit(body)
    return found


def made(part: Part) -> tuple[Value, ...]:
    """The tensors that a part leaves in memory."""
    return part.results if isinstance(part, Straight) else outs(part.op if isinstance(part, Repeat) else part)


def _reads(part: Part) -> frozenset[Symbol]:
    match part:
        case Straight(program=program):
            return frozenset(value.symbol for value in program.inputs)
        case Repeat(op=op, trip=trip, body=body):
            count = frozenset() if isinstance(trip, Dim) else frozenset((trip,))
            return count.union(op.initial, body.results, *map(_reads, body.parts))
        case Sort() | Compress() | Check():
            return tensors(part)
        case _:
            assert_never(part)


def _deaths(body: Body) -> tuple[frozenset[Symbol], ...]:
    own = {value.symbol for part in body.parts for value in made(part)}
    last: dict[Symbol, int] = {}
    for number, part in enumerate(body.parts):
        last.update((symbol, number) for symbol in _reads(part) & own)
        last.update((value.symbol, number) for value in made(part))
    for symbol in body.results:
        last.pop(symbol, None)
    return tuple(frozenset(s for s, at in last.items() if at == number) for number in range(len(body.parts)))


def _of_extents(program: Program) -> frozenset[Symbol]:
    """The dimensions on which a shape or an extent depends."""
    found = {v for value in program.inputs for d in value.shape for v in d.variables}
    for op in program.block.ops:
        assert isinstance(op, Compute | Scan), "a straight part is straight"
        axes = op.axes if isinstance(op, Scan) or op.reduction is None else (*op.axes, *op.reduction.axes)
        found |= {v for axis in axes for v in axis.extent.variables}
    return frozenset(found)


def _copy(element: Element, rank: int) -> Straight:
    extents = [fresh("n") for _ in range(rank)]
    shape = tuple(map(Dim.of, extents))
    source, out = Value(fresh("source"), element, shape), Value(fresh("copy"), element, shape)
    axes = tuple(Axis(fresh("i"), extent) for extent in shape)
    body = Read(source.symbol, tuple(Dim.of(a.symbol) for a in axes), element)
    block = Block((Compute((out,), axes, None, (body,)),), (out.symbol,))
    contract = Contract(tuple(extents), (ParameterShape("source", shape),))
    return Straight(Program("copy", tuple(extents), (Param("source", Leaf(0)),), (source,), contract, block, Leaf(0)))


# ── one call ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Pool:
    """Memory of one call. See Note [Memory of parts]. `allocate` gives what keeps some bytes, and their address."""

    def __init__(self, allocate: Callable[[int], tuple[Any, int]]) -> None:
        self.allocate = allocate
        self.kept: list[Any] = []
        self.free: dict[int, list[int]] = {}

    def take(self, size: int) -> Taken:
        """Memory until what is returned is forgotten."""
        rounded = _rounded(size)
        free = self.free.setdefault(rounded, [])
        if not free:
            keep, address = self.allocate(rounded)
            self.kept.append(keep)
            free.append(address)
        return Taken(free, free.pop())


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
class Run:
    """One call: the dimensions and tensors known so far.

    `numbers` are inputs of rank 0 that the caller gave as numbers. `watch` is where kernels note failures, `copies` what gives
    the call's arguments to the interpreter.
    """

    stepped: Stepped
    cuda: Driver
    device: int
    stream: int
    pool: Pool
    sizes: dict[Symbol, int]
    held: dict[Symbol, Held]
    numbers: Mapping[Symbol, Any]
    watch: Watch | None
    copies: Copies
    explicit: Sequence[int]
    word: Any = field(default_factory=ctypes.c_int64)

    def __call__(self, makers: Sequence[Make]) -> list[Held]:
        """The results; `makers` make room for each."""
        body = self.stepped.parts.body
        try:
            return self.body(body, list(makers))
        except (Stopped, ZeroDivisionError) as stop:
            self.cuda.check("cuStreamSynchronize", self.cuda.wait_for(self.stream))
            if self.watch is not None:
                self.watch.word.taken()
            error = interpreted(self.stepped.program, self.copies, self.explicit)
            if error is not None:
                raise error from None
            if isinstance(stop, Stopped):
                self.stepped.check(stop.op, self.sizes)
            raise

    def body(self, body: Body, makers: Sequence[Make | None]) -> list[Held]:
        """Run a body; each result lies where its maker wants it, if it has one."""
        wanted: dict[Symbol, Make] = {}
        first: dict[Symbol, int] = {}
        for number, (symbol, make) in enumerate(zip(body.results, makers, strict=True)):
            if make is not None and symbol not in wanted:
                wanted[symbol], first[symbol] = make, number
        for part, dying in zip(body.parts, self.stepped.lives(body), strict=True):
            self.part(part, wanted, dying)
            for symbol in dying:
                self.held.pop(symbol, None)
        results = []
        for number, (symbol, make) in enumerate(zip(body.results, makers, strict=True)):
            held = self.held[symbol]
            direct = first.get(symbol) == number and symbol not in wanted
            results.append(held if make is None or direct else self.copied(held, make))
        for symbol in self.stepped.results(body):
            self.held.pop(symbol, None)
        return results

    def part(self, part: Part, wanted: dict[Symbol, Make], dying: frozenset[Symbol]) -> None:
        match part:
            case Straight():
                self.straight(part, wanted)
            case Repeat():
                self.repeat(part, wanted, dying)
            case Sort(values=values, indices=indices, input=input):
                self.sort(self.held[input], self.room(values, wanted), self.room(indices, wanted))
            case Compress():
                self.compress(part, wanted)
            case Check():
                if not Relation(part.left, part.relation, part.right).holds(self.sizes):
                    if self.stepped.fails:  # something that stands before may fail too: the interpreter knows what is first
                        raise Stopped(part)
                    self.stepped.check(part, self.sizes)
            case _:
                assert_never(part)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def room(self, value: Value, wanted: dict[Symbol, Make]) -> Held:
        """Room for a value, where it is wanted or in a block; it is held from now on."""
        shape = tuple([max(0, d.evaluate(self.sizes)) for d in value.shape])
        if value.symbol in wanted:
            held = wanted.pop(value.symbol)(shape)
        else:
            held = self.block(shape, value.element)
        self.held[value.symbol] = held
        return held

    def block(self, shape: tuple[int, ...], element: Element) -> Held:
        block = self.pool.take(prod(shape) * max(1, element.bits // 8))
        return Held(contiguous(block.address, shape, element), block)

    def copied(self, held: Held, make: Make) -> Held:
        """A copy of a tensor."""
        source = held.tensor
        target = make(source.shape)
        if 0 in source.shape:
            return target
        plain = contiguous(0, source.shape, source.element).strides
        if _same_place(source, plain) and _same_place(target.tensor, plain):
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

    def straight(self, part: Straight, wanted: dict[Symbol, Make]) -> None:
        known, held = self.stepped.known(part), self.held
        given = {symbol: held[symbol].tensor for symbol in known.inputs}
        for value in known.results:
            given[value.symbol] = self.room(value, wanted).tensor
        self.launch(part, given, self.sizes)

    def launch(self, part: Straight, given: Mapping[Symbol, Tensor], sizes: Mapping[Symbol, int]) -> None:
        bound = self.stepped.bind(part, given, sizes, self.device)
        room = self.pool.take(bound.room) if bound.room else None
        addresses = [tensor.pointer for tensor in given.values()]
        addresses += (room.address if room else 0, self.watch.address if self.watch else 0, self.stream)
        changing = self.stepped.known(part).changing
        if changing:
            bound.launches(addresses, changing, sizes)
        else:
            bound.launches(addresses)

    def repeat(self, part: Repeat, wanted: dict[Symbol, Make], dying: frozenset[Symbol]) -> None:
        op = part.op
        trip = self.trip(part)
        states = [self.held[symbol] for symbol in op.initial]
        for symbol in dying.intersection(op.initial).difference(*map(_reads, part.body.parts)):
            self.held.pop(symbol, None)  # after the first step nobody needs it
        stacks = [self.room(out, wanted) for out in op.outs] if op.stacked else []
        for step in range(trip):
            self.sizes[op.counter] = step
            self.held.update((state.symbol, held) for state, held in zip(op.states, states, strict=True))
            makers: list[Make | None] = [None] * len(states)
            slices = [_slice_maker(stack, step) for stack in stacks]
            if op.stacked:
                makers = [make if _is_steady(stack) else None for make, stack in zip(slices, stacks, strict=True)]
            elif step == trip - 1:
                makers = [wanted.pop(out.symbol) if out.symbol in wanted else None for out in op.outs]
            states = self.body(part.body, makers)
            for make, direct, held in zip(slices, makers, states, strict=False):
                if direct is None:
                    self.copied(held, make)
        for state in op.states:
            self.held.pop(state.symbol, None)
        self.sizes.pop(op.counter, None)
        if op.stacked:
            return
        for out, held in zip(op.outs, states, strict=True):  # still wanted is what had no last step
            self.held[out.symbol] = self.copied(held, wanted.pop(out.symbol)) if out.symbol in wanted else held

    def trip(self, part: Repeat) -> int:
        if isinstance(part.trip, Dim):
            trip = part.trip.evaluate(self.sizes)
            return max(0, (trip + 2**31) % 2**32 - 2**31)
        if part.trip in self.numbers:
            return max(0, int(self.numbers[part.trip]))
        return max(0, self.read(self.held[part.trip].tensor.pointer, self.stepped.values[part.trip].element))

    def read(self, address: int, element: Element) -> int:
        """An integer that the GPU computes. The host waits for it. See Note [Waiting]."""
        if self.cuda.capturing(self.stream):
            message = f"`{self.stepped.program.name}` reads a size back from the GPU, which cannot be part of a stream capture"
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

    def compress(self, op: Compress, wanted: dict[Symbol, Make]) -> None:
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


class Stopped(Exception):
    """A check fails, and the interpreter says whether something before it fails first."""

    def __init__(self, op: Check) -> None:
        super().__init__(op.message)
        self.op = op


def _same_place(tensor: Tensor, strides: tuple[int, ...]) -> bool:
    """Whether a tensor lies as contiguous ones do; strides of dimensions of one index mean nothing."""
    return all(a == b or n == 1 for a, b, n in zip(tensor.strides, strides, tensor.shape, strict=True))


def _is_steady(stack: Held) -> bool:
    """Whether all states in a stack lie alike for kernels: at multiples of 16 bytes, or where none of their accesses is wide."""
    size = max(1, stack.tensor.element.bits // 8)
    return len(stack.tensor.shape) == 1 or stack.tensor.strides[0] * size % 16 == 0


def _slice_maker(stack: Held, step: int) -> Make:
    """Room for a state inside the stack of all of them."""

    def make(shape: tuple[int, ...]) -> Held:
        size = max(1, stack.tensor.element.bits // 8)
        pointer = stack.tensor.pointer + step * stack.tensor.strides[0] * size
        return Held(Tensor(pointer, stack.tensor.shape[1:], stack.tensor.strides[1:], stack.tensor.element), stack.keep)

    return make
