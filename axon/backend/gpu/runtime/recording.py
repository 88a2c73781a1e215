"""A program in parts to a script: the walk of a call, with places instead of addresses, and every loop's body walked once.

    record    a program in parts, how its tensors lie, their sizes -> a Script; Unrecorded says why there is none

What a script launches is what the walk of `stepping` launches, in the same order; where values lie between kernels is another
matter (see Note [States of a script] in `launching.scripts`).

Note [What is not recorded]
    Places are fixed before the call. So nothing is recorded where data decide a size (`compress`), nor where a shape or the extent
    of a sum depends on the counter of a loop that is not unrolled: such a program is walked, step by step. So is a loop that passes
    large states on as they are, from one to another, which the walk does by name and a script by copies.

Note [Places as numbers]
    A place is a number while a script is recorded: bases lie so far apart that no offset, which may be below 0, reaches half
    the way to another. Modulo 16 it is what the address will be, of which kernels take something for granted.

Note [Unrolled loops]
    A loop of a few steps, of which sizes decide how many, is written down step by step, so that what stands around it and all of
    its steps are one graph. Its counter is a number then. Of other loops some steps are one graph, if they have few kernels, of
    which none looks at the counter, and nothing is read between them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import inf, prod
from typing import Any, assert_never

from axon.backend.gpu.launching.arena import Arena, Block
from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.launching.launches import Launch, Slot
from axon.backend.gpu.launching.scripts import Action, Alternating, Move, Place, Repeat, Script, Slice, Stacked, Together
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.gpu.runtime.foreseen import lives_of
from axon.backend.gpu.runtime.stepping import Held, same_place, writable
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.plan.walk import Lives, Make, Walk, steps_of
from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Loop, Sort, Value
from axon.core.passes.parts import HostLoop, Part, PartsBody, Straight
from axon.core.walk import trip_of
from axon.shapes.dimension import Dim

SPACE = 1 << 38  # bytes from one base to the next
BASES = 1 << 9  # so that a place is no larger than an address
ALIGNED = 16  # bytes, of which kernels take something for granted
UNROLLED = 96  # kernels of all steps of a loop that is unrolled
LAUNCHES = 1 << 11  # of a script
SEVERAL = 32  # kernels of steps that are launched as one
PASSED = 1 << 20  # bytes that a step may copy because a state becomes another: a copy of them takes as long as a launch
OF_SORT = 8  # kernels of a sort, or so
OF_DATA = "data decide a size"


class Unrecorded(Exception):
    """Why a program is walked in each call."""


def record(
    stepped: Stepped,
    cuda: Driver,
    device: int,
    sizes: Mapping[Symbol, int],
    given: Mapping[Symbol, DeviceTensor],
    rooms: Sequence[DeviceTensor],
    numbers: frozenset[Symbol],
    body: PartsBody,
) -> Script:
    """The script of a program's body, or of a loop in it, for tensors that lie like these, with results like `rooms`, and these
    inputs given as numbers.

    Raises `Unrecorded`; and whatever a walk raises where the program must stop.
    """
    call = _Call(stepped, _Bound(stepped, cuda, device), sizes, given, rooms, numbers, body)
    planned = _recorded(call, Arena(None)).arena.plan()
    if planned.size > SPACE // 2:
        raise Unrecorded("it needs too much memory")
    return _recorded(call, Arena(planned)).script(planned.size)


def why_walked(stepped: Stepped, sizes: Mapping[Symbol, int]) -> str | None:
    """Why calls of these sizes are walked, if they are: for arrays that lie in order. Needs no GPU."""
    values = [stepped.values[symbol] for symbol in (*(v.symbol for v in stepped.program.inputs), *stepped.tables.values)]
    results = [stepped.values[symbol] for symbol in stepped.program.block.results]
    if not all(dim.variables <= sizes.keys() for value in (*values, *results) for dim in value.shape):
        return OF_DATA

    def lies(value: Value) -> DeviceTensor:
        return contiguous(ALIGNED, tuple(max(0, dim.evaluate(sizes)) for dim in value.shape), value.element)

    given = {value.symbol: lies(value) for value in values}
    try:
        rooms = [lies(value) for value in results]
        _recorded(_Call(stepped, None, sizes, given, rooms, frozenset(), stepped.parts.body), Arena(None))
    except Unrecorded as reason:
        return str(reason)
    except (AxonError, ZeroDivisionError):  # so does a call
        return None
    return None


@dataclass(frozen=True, slots=True)
class _Bound:
    """What is launched on a GPU for a part, or for a sort: kernels, and the bytes between them."""

    stepped: Stepped
    cuda: Driver
    device: int

    def part(
        self, part: Straight, given: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]
    ) -> tuple[Sequence[Launch], int]:
        bound = self.stepped.bind(part, given, sizes, self.device)
        return bound.kernels, bound.room

    def sort(self, source: DeviceTensor) -> tuple[Sequence[Launch], int]:
        bound = self.stepped.algorithms.sort(self.cuda, self.device, source)
        return bound.launches.launches, bound.room


@dataclass(frozen=True, slots=True)
class _Call:
    """What `record` is given. Without a GPU nothing is bound, and what is recorded has no kernels."""

    stepped: Stepped
    bound: _Bound | None
    sizes: Mapping[Symbol, int]
    given: Mapping[Symbol, DeviceTensor]
    rooms: Sequence[DeviceTensor]
    numbers: frozenset[Symbol]
    body: PartsBody


def _recorded(call: _Call, arena: Arena) -> _Recorder:
    """A walk with memory that is planned, or is to be."""
    recorder = _Recorder(dict(call.sizes), {}, call, arena)
    recorder.block(call.body, [_into(target) for target in recorder.enter()])
    return recorder


@dataclass(slots=True)
class _Recorder(Walk[Held]):
    """A walk that writes down what would be launched. `counters` are those of loops that are not unrolled: no size depends on
    them."""

    call: _Call
    arena: Arena
    counters: set[Symbol] = field(default_factory=set)
    writing: list[Action | list[Launch]] = field(default_factory=list)  # kernels that follow each other are a list
    bases: int = 0
    own: int = 0  # the base of all that lies between kernels
    given: dict[Symbol, int] = field(default_factory=dict)
    status: int = 0
    results: tuple[int, ...] = ()
    launches: int = 0

    def enter(self) -> list[Held]:
        """Bases for what a call brings; where its results are wanted."""
        self.own = self.base()
        self.given = {symbol: self.base() for symbol in self.call.given}
        self.held = {symbol: Held(moved(tensor, self.given[symbol])) for symbol, tensor in self.call.given.items()}
        self.status = self.base()
        self.results = tuple(self.base() for _ in self.call.rooms)
        return [Held(moved(room, base)) for room, base in zip(self.call.rooms, self.results, strict=True)]

    def script(self, size: int) -> Script:
        return Script(finished(self.writing), self.bases, self.given, self.results, self.status, self.own, size)

    # ── places ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def base(self) -> int:
        if self.bases == BASES:
            raise Unrecorded("it has too many tensors")
        self.bases += 1
        return self.bases - 1

    def take(self, size: int) -> tuple[Block, int]:
        """Memory until the block is forgotten, and its place."""
        block = self.arena.take(size)
        return block, _begin(self.own) + block.at

    def allocate(self, value: Value, shape: tuple[int, ...]) -> Held:
        return self.room_of(shape, value.element)

    def room_of(self, shape: tuple[int, ...], element: Element) -> Held:
        block, place = self.take(prod(shape) * _size(element))
        return Held(contiguous(place, shape, element), block)

    def shape(self, value: Value) -> tuple[int, ...]:
        if any(not self.counters.isdisjoint(dim.variables) for dim in value.shape):
            raise Unrecorded("a shape depends on the counter of a loop")
        return Walk.shape(self, value)

    def copied(self, held: Held, make: Make[Held]) -> Held:
        source = held.tensor
        target = make(source.shape)
        if 0 in source.shape:
            return target
        plain = contiguous(0, source.shape, source.element).strides
        if same_place(source, plain) and same_place(target.tensor, plain):
            self.writing.append(Move(_place(target.tensor), _place(source), _bytes(source)))
        else:
            part = self.call.stepped.copying(source.element, len(source.shape))
            (symbol,) = part.program.block.results
            sizes = dict(zip(part.program.explicit, source.shape, strict=True))
            self.launch(part, {part.program.inputs[0].symbol: source, symbol: target.tensor}, sizes)
        return target

    # ── parts ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def lives(self, block: PartsBody) -> Lives:
        return lives_of(block) if block is self.call.body else self.call.stepped.lives(block)

    def item(self, item: Part, wanted: dict[Symbol, Make[Held]], dying: frozenset[Symbol]) -> None:
        match item:
            case Straight():
                known = self.call.stepped.known(item)
                given = {symbol: self.held[symbol].tensor for symbol in known.inputs}
                given |= {value.symbol: self.room(value, wanted).tensor for value in known.results}
                self.launch(item, given, self.sizes)
            case HostLoop(op=op, body=body):
                self.loop(op, body, wanted, dying)
            case Sort(values=values, indices=indices, input=input):
                made = self.held[input].tensor, self.room(values, wanted).tensor, self.room(indices, wanted).tensor
                if 0 not in made[0].shape and self.call.bound is not None:
                    kernels, room = self.call.bound.sort(made[0])
                    self.put(kernels, [t.pointer for t in made], room)
            case Compress():
                raise Unrecorded(OF_DATA)
            case Check():
                if not self.counters.isdisjoint(item.left.variables | item.right.variables):
                    raise Unrecorded("a check depends on the counter of a loop")
                if not item.holds(self.sizes):
                    raise Unrecorded("a check fails")
            case _:
                assert_never(item)

    def launch(self, part: Straight, given: Mapping[Symbol, DeviceTensor], sizes: Mapping[Symbol, int]) -> None:
        known = self.call.stepped.known(part)
        if not self.counters.isdisjoint(known.steady):
            raise Unrecorded("the extent of a sum or of an axis depends on the counter of a loop")
        if self.call.bound is not None:
            kernels, room = self.call.bound.part(part, given, sizes)
            kernels = [self.sized(kernel, known.changing, sizes) for kernel in kernels]
            self.put(kernels, [tensor.pointer for tensor in given.values()], room)

    def sized(self, kernel: Launch, changing: frozenset[Symbol], sizes: Mapping[Symbol, int]) -> Launch:
        """A kernel whose arguments mention counters of loops alone: of loops that are unrolled, these are numbers."""
        arguments, left = list(kernel.arguments), []
        for number, dim in kernel.sized:
            if self.counters.isdisjoint(dim.variables):
                if not changing.isdisjoint(dim.variables):
                    width = len(arguments[number])
                    arguments[number] = (dim.evaluate(sizes) % (1 << 8 * width)).to_bytes(width, "little")
            else:
                known = {s: Dim.of(sizes[s]) for s in dim.variables - self.counters}
                left.append((number, dim.substitute(known)))
        return replace(kernel, arguments=tuple(arguments), sized=tuple(left))

    def put(self, kernels: Sequence[Launch], addresses: Sequence[int], room: int) -> None:
        """Kernels with addresses as `BoundProgram.launches` takes them, or `BoundAlgorithm.launches`."""
        self.launches += len(kernels)
        if self.launches > LAUNCHES:
            raise Unrecorded("it has too many kernels")
        _held, place = self.take(room) if room else (None, _begin(self.own))  # until what comes next is launched
        places = [*addresses, place, _begin(self.status)]
        if kernels and not (self.writing and isinstance(self.writing[-1], list)):
            self.writing.append([])
        for kernel in kernels:
            slots = [(slot, _placed(places[slot.address] + slot.offset)) for slot in kernel.slots]
            made = tuple(Slot(slot.argument, slot.descriptor, place.base, place.offset) for slot, place in slots)
            together = self.writing[-1]
            assert isinstance(together, list)
            together.append(replace(kernel, slots=made))

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def known(self, op: Loop) -> int | None:
        """A trip count, if it is the same in every call and step."""
        trip = trip_of(op)
        if isinstance(trip, Dim):
            return steps_of(trip, self.sizes) if self.counters.isdisjoint(trip.variables) else None
        program = self.call.stepped.counted.get(trip)
        if trip in self.call.numbers or program is None or not self.counters.isdisjoint(program.explicit):
            return None
        return self.call.stepped.count(trip, self.sizes)

    def weight(self, body: PartsBody) -> float:
        """How many kernels a step has, or so; infinite where that is not known."""
        total: float = 0
        for part in body.parts:
            match part:
                case Straight():
                    total += len(self.call.stepped.executables[part].kernels) or 1
                case HostLoop(op=op, body=inner):
                    trip = trip_of(op)
                    counted = isinstance(trip, Dim) and trip.variables <= self.sizes.keys() and not op.conditional
                    steps = self.known(op) if counted else None
                    total += inf if steps is None else steps * self.weight(inner)
                case Sort() | Compress():
                    total += OF_SORT
                case Check():
                    pass
                case _:
                    assert_never(part)
        return total

    def trip(self, op: Loop) -> int:
        found = self.known(op)
        assert found is not None, "a loop that is unrolled has a known number of steps"
        return found

    def loop(self, op: Loop, body: Any, wanted: dict[Symbol, Make[Held]], dying: frozenset[Symbol]) -> None:
        trip = self.known(op)
        if trip is not None and not op.conditional and (trip <= 1 or trip * self.weight(body) <= UNROLLED):
            Walk.loop(self, op, body, wanted, dying)
        else:
            self.repeat(op, body, wanted, may_be_none=op.conditional or trip is None)

    def told(self, op: Loop) -> Dim | Symbol:
        """A trip count as the host of a call knows it, who has not heard of loops that are unrolled."""
        known, trip = self.known(op), trip_of(op)
        if known is not None:
            return Dim.of(known)
        if isinstance(trip, Dim):
            return trip.substitute({s: Dim.of(self.sizes[s]) for s in trip.variables - self.counters})
        program = self.call.stepped.counted.get(trip)
        if program is not None and not (self.call.sizes.keys() | self.counters).issuperset(program.explicit):
            raise Unrecorded("the number of steps of a loop depends on the counter of one that is unrolled")
        return trip

    def slot(self, stack: Held, step: int) -> tuple[Make[Held], bool]:
        tensor = stack.tensor
        pointer = tensor.pointer + step * _row(tensor)
        return _into(Held(DeviceTensor(pointer, tensor.shape[1:], tensor.strides[1:], tensor.element))), writable(tensor)

    def number(self, symbol: Symbol) -> int:
        raise AssertionError("no number is read while a script is written")

    def flag(self, held: Held) -> bool:
        raise AssertionError("no number is read while a script is written")

    def repeat(self, op: Loop, body: PartsBody, wanted: dict[Symbol, Make[Held]], *, may_be_none: bool) -> None:
        """A loop as such. See Note [States of a script]."""
        initial = [self.held[symbol] for symbol in op.initial]
        if op.stacked:
            states = [self.stacked(begin, self.room(out, wanted)) for begin, out in zip(initial, op.outs, strict=True)]
        else:
            self.refuse_passed(op, body)
            stays = [state.symbol == made for state, made in zip(op.states, body.results, strict=True)]
            states = [
                _Carried(begin, None, begin) if same else self.alternating(begin, self.wanted(out, wanted))
                for begin, out, same in zip(initial, op.outs, stays, strict=True)
            ]
        condition = (_place(initial[-1].tensor), _place(states[-1].read.tensor)) if op.conditional else None
        trip = self.told(op)
        number = None
        if not isinstance(trip, Dim) and trip in self.held:
            number = _place(self.held[trip].tensor), self.call.stepped.values[trip].element
        like = all(serves(one.read.tensor, begin.tensor) for one, begin in zip(states, initial, strict=True))
        first = None if like else self.step(op, body, states, initial)
        step = self.step(op, body, states, [one.read for one in states])
        none = self.apart(lambda: _copies(self, initial, states)) if may_be_none and not op.stacked else ()
        carried = tuple(one.state for one in states if one.state is not None)
        slices = tuple(one.slice for one in states if one.slice is not None)
        several = None if condition is not None or slices else _several(op.counter, step, carried)
        self.writing.append(Repeat(op.counter, trip, number, condition, carried, slices, first, step, none, several))
        if op.stacked:
            return
        for out, one in zip(op.outs, states, strict=True):
            self.held[out.symbol] = self.copied(one.last, wanted.pop(out.symbol)) if out.symbol in wanted else one.last

    def refuse_passed(self, op: Loop, body: PartsBody) -> None:
        """What becomes another state as it is is copied."""
        made, size = set(self.lives(body).made), 0
        for state, symbol in zip(op.states, body.results, strict=True):
            if symbol not in made and symbol != state.symbol:
                size += prod(self.shape(state)) * max(1, state.element.bits // 8)
            made.discard(symbol)
        if size > PASSED:
            raise Unrecorded("a step passes large states on as they are")

    def wanted(self, out: Value, wanted: dict[Symbol, Make[Held]]) -> Held:
        """Where the last state of a loop lies: where it is wanted, if steps that alternate can write and read there."""
        shape = self.shape(out)
        if out.symbol in wanted:
            found = wanted[out.symbol](shape)
            if serves(contiguous(0, shape, out.element), found.tensor):
                del wanted[out.symbol]
                return found
        return self.allocate(out, shape)

    def alternating(self, begin: Held, last: Held) -> _Carried:
        tensor = last.tensor
        other = self.room_of(tensor.shape, tensor.element)
        source, target = self.base(), self.base()
        plain = contiguous(0, tensor.shape, tensor.element)
        places = _place(begin.tensor), _place(tensor), _place(other.tensor)
        state = Alternating(source, target, *places, _bytes(tensor))
        return _Carried(Held(moved(plain, source)), Held(moved(plain, target)), last, state, other=other)

    def stacked(self, begin: Held, stack: Held) -> _Carried:
        """A state that lies in the stack, if items can write there; else a copy of it does."""
        tensor, row = stack.tensor, _row(stack.tensor)
        if writable(tensor):
            # Of a single element no more is taken for granted than that it lies at a multiple of its size.
            low = tensor.pointer % ALIGNED if row % ALIGNED == 0 else _size(tensor.element)
            tail = DeviceTensor(low, tensor.shape[1:], tensor.strides[1:], tensor.element)
            source, target = self.base(), self.base()
            state = Stacked(source, target, _place(begin.tensor), _place(tensor), row, low)
            return _Carried(Held(moved(tail, source)), Held(moved(tail, target)), stack, state)
        plain = contiguous(0, tensor.shape[1:], tensor.element)
        if not same_place(replace(plain, strides=tensor.strides[1:]), plain.strides):
            raise Unrecorded("a state of an unfold has no place of its own in `out`")
        made = self.alternating(begin, self.room_of(plain.shape, tensor.element))
        register = self.base()
        return replace(made, slice=Slice(register, _place(tensor), row), copy=Held(moved(plain, register)))

    def step(self, op: Loop, body: PartsBody, states: Sequence[_Carried], read: Sequence[Held]) -> tuple[Action, ...]:
        """A step that reads its states there."""

        def write() -> None:
            self.counters.add(op.counter)
            self.sizes[op.counter] = 0  # no size depends on it
            self.held.update((state.symbol, held) for state, held in zip(op.states, read, strict=True))
            made = self.block(body, [None if one.write is None else _into(one.write) for one in states])
            for one, held in zip(states, made, strict=True):
                if one.copy is not None:
                    self.copied(held, _into(one.copy))
            for state in op.states:
                del self.held[state.symbol]
            del self.sizes[op.counter]
            self.counters.remove(op.counter)

        return self.apart(write)

    def apart(self, write: Callable[[], None]) -> tuple[Action, ...]:
        """What is written down meanwhile."""
        before, self.writing = self.writing, []
        write()
        written, self.writing = self.writing, before
        return finished(written)


@dataclass(frozen=True, slots=True)
class _Carried:
    """A state of a loop: where a step reads it, and writes it unless it stays where it is; where the last one lies; and where a
    copy of each goes."""

    read: Held
    write: Held | None
    last: Held
    state: Alternating | Stacked | None = None
    slice: Slice | None = None
    copy: Held | None = None
    other: Held | None = None


def _copies(recorder: _Recorder, initial: Sequence[Held], states: Sequence[_Carried]) -> None:
    """What a loop without a step gives."""
    for begin, one in zip(initial, states, strict=True):
        if one.write is not None:
            recorder.copied(begin, _into(one.last))


def finished(written: Sequence[Action | list[Launch]]) -> tuple[Action, ...]:
    """Actions, with kernels that follow each other as one."""
    return tuple(_together(one) if isinstance(one, list) else one for one in written)


def _together(launches: Sequence[Launch]) -> Together:
    """Kernels with slots that name bases, as kernels with slots that name those of them that there are."""
    bases = sorted({slot.address for launch in launches for slot in launch.slots})
    number = {base: n for n, base in enumerate(bases)}
    own = (replace(n, slots=tuple(replace(slot, address=number[slot.address]) for slot in n.slots)) for n in launches)
    changing = frozenset(v for launch in launches for _, dim in launch.sized for v in dim.variables)
    return Together(tuple(own), tuple(bases), changing)


def _several(counter: Symbol, step: Sequence[Action], states: Sequence[Alternating | Stacked]) -> tuple[Together, int] | None:
    """Some steps as one, if a step is kernels that follow each other, which are as many as a graph is worth and all alike."""
    if len(step) != 1 or not isinstance(step[0], Together) or counter in step[0].changing:
        return None
    together, turned = step[0], dict[int, int]()
    for state in states:
        if isinstance(state, Stacked):
            return None
        turned |= {state.source: state.target, state.target: state.source}
    pairs = SEVERAL // (2 * len(together.launches))
    if not pairs:
        return None
    there = [_turned(launch, dict(enumerate(together.bases))) for launch in together.launches]
    back = [_turned(launch, turned) for launch in there]
    return _together((there + back) * pairs), 2 * pairs


def _turned(launch: Launch, bases: Mapping[int, int]) -> Launch:
    """A kernel with other bases in the place of some."""
    return replace(launch, slots=tuple(replace(slot, address=bases.get(slot.address, slot.address)) for slot in launch.slots))


# ── places as numbers ───────────────────────────────────────────────────────────────────────────────────────────────────


def _begin(base: int) -> int:
    return (base + 1) * SPACE


def _placed(pointer: int) -> Place:
    """Whose base is nearest: a view may begin before its tensor (`layout.pages`)."""
    base, offset = divmod(pointer + SPACE // 2, SPACE)
    return Place(base - 1, offset - SPACE // 2)


def _place(tensor: DeviceTensor) -> Place:
    """Of a tensor without elements any place."""
    return _placed(tensor.pointer) if 0 not in tensor.shape else Place(0)


def moved(tensor: DeviceTensor, base: int) -> DeviceTensor:
    """A tensor that lies at the beginning of a base, as far as its address allows."""
    return replace(tensor, pointer=_begin(base) + tensor.pointer % ALIGNED)


def _into(held: Held) -> Make[Held]:
    return lambda shape: held


def _size(element: Element) -> int:
    return max(1, element.bits // 8)


def _bytes(tensor: DeviceTensor) -> int:
    return prod(tensor.shape) * _size(tensor.element)


def _row(tensor: DeviceTensor) -> int:
    """Bytes from one row of a stack to the next."""
    return tensor.strides[0] * _size(tensor.element)


def serves(assumed: DeviceTensor, given: DeviceTensor) -> bool:
    """Whether what is launched for one tensor is right for another one of its shape, too: it lies alike, or is an element of which
    nothing was assumed."""
    if not assumed.shape and assumed.pointer % ALIGNED == _size(assumed.element):
        return True
    return same_place(given, assumed.strides) and (given.pointer - assumed.pointer) % ALIGNED == 0
