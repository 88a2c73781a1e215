"""One call of an executable: kernels in order, memory for what they make, and loops around them.

Note [Two kinds of loops]
    A loop whose steps cost little is one native function (`loops`), which comes back to Python after many of them. A loop whose
    steps are large is stepped by the host: each kernel of its body is then shared by all threads, and products are BLAS's. The cost
    of a step at the call's sizes decides, and how many kernels it has: to launch one takes the time of some 250,000 additions, half
    of that for a product, and threads or BLAS make of what is left a half.

Note [Replayed]
    What a call does besides computing (which kernels, in how many pieces, on how much memory) follows from its sizes, and finding
    that out takes Python longer than a small kernel takes. So calls that only run kernels, of tensors that lie in one piece, are
    kept as steps on numbered places (`Replay`). Checks are not among the steps: they are of sizes, and have held. A loop that the
    host steps and a sort are each a step that goes the ordinary way. Calls in which data decide sizes go that way as a whole.

Note [Memory]
    What a kernel makes is forgotten after its last reader, and its memory is used again: within the call, and by the next one.
    What the caller gets is memory of its own, in which kernels make it (see Note [Where values lie] in `walk`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from operator import itemgetter
from threading import local
from typing import Any, assert_never

import numpy as np

from axon.backend.cpu import build, threads
from axon.backend.cpu.arena import LARGE, make
from axon.backend.cpu.executable import Compiled, CpuExecutable, NativeLoop
from axon.backend.cpu.function import AGAIN
from axon.backend.cpu.launch import BRIEF, FIELDS, Launch, address, alone
from axon.backend.cpu.pooling import Pooling
from axon.backend.cpu.products import Way
from axon.backend.cpu.straight import is_straight
from axon.backend.cpu.sums import Summing
from axon.backend.kernel.taking import BUFFER, NUMBER, OF_ARRAY
from axon.backend.plan.independent import Independent
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Repeat, Whole, kernels_in, reads_of, values_of
from axon.backend.plan.walk import Lives, Make, Walk, steps_of
from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Index, Loop, Sort, Value
from axon.core.walk import trip_of
from axon.interpret.box import allocate
from axon.interpret.program import bound
from axon.interpret.program import run as interpret
from axon.shapes.dimension import Dim

Array = Any
LONG = 100_000_000  # additions, about a tenth of a second, after which a native loop comes back: Ctrl-C is seen then
SMALL_STEP = 500_000  # additions of a loop's step for each launch that it would take, below which the loop is one native function
MANY = 8  # of what goes its own way, from which threads share a native loop
ON_STACK = 1 << 15  # bytes of buffers that a kernel has on the stack


class Stopped(Exception):
    """The program stops with an error, which the interpreter words."""


class _Scratch(local):
    """Memory of one thread for buffers of rows, reused by every kernel: its own, and that of each of its helpers."""

    def __init__(self) -> None:
        self.memory: dict[int, Array] = {}

    def address(self, size: int, thread: int) -> int:
        memory = self.memory.get(thread)
        if memory is None or memory.size < size + 64:
            memory = self.memory[thread] = np.empty(size + 64, np.uint8)
        return (int(memory.ctypes.data) + 63) // 64 * 64


_scratch = _Scratch()
_EMPTY = ctypes.create_string_buffer(64)  # what pointers of empty tensors point to


def run(executable: CpuExecutable, inputs: Sequence[Array], explicit: Sequence[int] = ()) -> list[Array]:
    """The flat results for flat inputs, as fresh arrays. Raises what the interpreter raises."""
    program = executable.program
    dims = bound(program, inputs, explicit)
    given = dict(zip((v.symbol for v in program.inputs), inputs, strict=True))
    call = CpuRun.of(executable, dims, {**executable.tables, **given})
    try:
        return call.block(executable.body(dims), [_fresh(executable.values[symbol]) for symbol in executable.plan.body.results])
    except (Stopped, ZeroDivisionError):
        interpret(program, inputs, explicit)  # raises it in words
        raise AssertionError("a kernel stopped the program, and the interpreter did not") from None


def _fresh(value: Value) -> Make[Array]:
    """Room for a result, which the caller owns."""
    return lambda shape: allocate(shape, value.element.dtype)


# ── calls that ran before ───────────────────────────────────────────────────────────────────────────────────────────────

Step = Callable[[list[Any]], Any]  # makes what a kernel makes of the tensors that are held, or room for it


@dataclass(frozen=True, slots=True)
class Replay:
    """A call on arrays in one piece, of sizes for which a call has run. See Note [Replayed]."""

    constants: tuple[Array | None, ...]  # what is held beside the inputs: tables, and nothing yet of what is made
    steps: tuple[Step, ...]
    results: tuple[int, ...]

    def __call__(self, inputs: Sequence[Array]) -> list[Array] | None:
        """The flat results; None for a call that stops, which the ordinary way tells in words."""
        held: list[Any] = [*inputs, *self.constants]
        try:
            for step in self.steps:
                step(held)
        except (Stopped, ZeroDivisionError):
            return None
        return [held[place] for place in self.results] if len(self.results) != 1 else [held[self.results[0]]]


def replay(executable: CpuExecutable, inputs: Sequence[Array], explicit: Sequence[int]) -> Replay | None:
    """How calls with inputs like these are computed, if that follows from their sizes. One has run."""
    sizes = bound(executable.program, inputs, explicit)
    body = executable.body(sizes)
    symbols = [*(v.symbol for v in executable.program.inputs), *executable.tables]
    constants: list[Array | None] = list(executable.tables.values())
    if not {*body.results}.isdisjoint(symbols) or len({*body.results}) < len(body.results):
        return None
    places = {symbol: n for n, symbol in enumerate(symbols)}
    shapes: dict[int, tuple[int, ...]] = {n: array.shape for n, array in enumerate((*inputs, *executable.tables.values()))}
    replayed = _Replayed(executable, sizes, places, shapes, executable.reshapes(body), set())
    steps: list[Step] = []
    for kernel, dying in zip(body.kernels, executable.lives(body).dying, strict=True):
        made = replayed.steps(kernel, frozenset(body.results), dying)
        if made is None:
            return None
        steps += made
        if dying and kernel is not body.kernels[-1]:
            steps.append(_forgetting([places[symbol] for symbol in dying]))
    return Replay((*constants, *[None] * (len(places) - len(symbols))), tuple(steps), tuple(places[s] for s in body.results))


def _forgetting(places: Sequence[int]) -> Step:
    def step(held: list[Any]) -> None:
        for place in places:
            held[place] = None

    return step


@dataclass(frozen=True, slots=True)
class _Replayed:
    """Kernels at some sizes as steps; `places` are those of the tensors, of the shapes in `shapes`."""

    executable: CpuExecutable
    sizes: dict[Symbol, int]
    places: dict[Symbol, int]
    shapes: dict[int, tuple[int, ...]]
    reshaped: dict[Symbol, Value]
    made: set[Symbol]  # what lies where something else was made

    def steps(self, kernel: Kernel, results: frozenset[Symbol], dying: frozenset[Symbol]) -> list[Step] | None:
        """None where data decide sizes. `dying` is what nobody reads after the kernel."""
        match kernel:
            case Nest() if not self.made.isdisjoint(kernel.stored):
                return []
            case Nest():
                values = [out for step in kernel.steps for out in step.outs if out.symbol in kernel.stored]
                made = self.rooms(values, results)
                return None if made is None else [*made, *self.nest(kernel)]
            case Contraction(op=op):
                made = self.rooms(op.outs, results)
                return None if made is None else [*made, self.product(kernel)]
            case Repeat(op=op) if isinstance(trip := trip_of(op), Dim) and (loop := self.native(kernel, trip)) is not None:
                made = self.rooms(loop.written.made, results)
                return None if made is None else [*made, *self.loop(kernel, loop, trip)]
            case Whole(op=Check()):
                return []
            case Repeat() | Whole():
                return self.ordinary(kernel, results, dying)
            case _:
                assert_never(kernel)

    def rooms(self, values: Sequence[Value], results: frozenset[Symbol]) -> list[Step] | None:
        """Room for what a kernel makes."""
        if not all(map(self.executable.is_settled, values)):
            return None
        return [step for value in values for step in self.room_or_other(value, results)]

    def room_or_other(self, value: Value, results: frozenset[Symbol]) -> list[Step]:
        """Of what is shown in another shape: its room is that of the other."""
        other = self.reshaped.get(value.symbol)
        if other is None or not self.executable.is_settled(other) or value.symbol in results:
            return [self.room(value, value.symbol in results)]
        room = self.room(other, other.symbol in results)
        shape = tuple([max(0, d.evaluate(self.sizes)) for d in value.shape])
        if prod(shape) != prod(self.shapes[self.places[other.symbol]]):
            return [self.room(value, False)]
        self.made.add(other.symbol)
        place, source = self.places.setdefault(value.symbol, len(self.places)), self.places[other.symbol]
        self.shapes[place] = shape

        def step(held: list[Any]) -> None:
            held[place] = held[source].reshape(shape)

        return [room, step]

    def room(self, value: Value, is_result: bool) -> Step:
        place = self.places.setdefault(value.symbol, len(self.places))
        shape, dtype = tuple([max(0, d.evaluate(self.sizes)) for d in value.shape]), value.element.dtype
        self.shapes[place] = shape
        maker: Callable[[tuple[int, ...], Any], Array] = allocate if is_result else make
        if prod(shape) * dtype.itemsize < LARGE:  # neither asks anything of so little
            maker = np.empty

        def step(held: list[Any]) -> None:
            held[place] = maker(shape, dtype)

        return step

    def nest(self, kernel: Nest) -> list[Step]:
        pooling = self.executable.pooling(kernel, self.sizes)
        if pooling is not None:
            return self.pooled(kernel, pooling)
        summing = self.executable.summing(kernel, self.sizes)
        if summing is not None:
            return [self.summed(summing)]
        remainders = self.executable.remainders(kernel, self.sizes)
        if remainders is None:
            return self.launch(self.executable.function(kernel), self.sizes)
        left, right, out = (self.places[symbol] for symbol in (remainders.left, remainders.right, kernel.stored[0]))

        def step(held: list[Any]) -> None:
            remainders.run(held[left], held[right], held[out])

        return [step]

    def summed(self, summing: Summing) -> Step:
        reads, stored = ([self.places[symbol] for symbol in symbols] for symbols in (summing.reads, summing.stored))

        def step(held: list[Any]) -> None:
            summing.run([held[place] for place in reads], [held[place] for place in stored])

        return step

    def pooled(self, kernel: Nest, pooling: Pooling) -> list[Step]:
        rest = self.executable.after_pooling(kernel)
        between = rest is not None and pooling.output not in kernel.stored
        steps = [self.room(self.executable.values[pooling.output], False)] if between else []
        source, out = self.places[pooling.input], self.places[pooling.output]

        def step(held: list[Any]) -> None:
            pooling.run(held[source], held[out])

        steps.append(step)
        if rest is not None:
            steps += self.launch(rest, self.sizes)
        return [*steps, _forgetting([out])] if between else steps

    def product(self, kernel: Contraction) -> Step:
        products, nest = self.executable.product(kernel)
        symbols = (kernel.left.read.tensor, kernel.right.read.tensor, kernel.op.outs[0].symbol)
        left, right, out = (self.places[symbol] for symbol in symbols)
        launches = self.launch(nest, self.sizes) if nest is not None else []
        found: list[Way | None] = []  # when it has run: the strides are those of arrays in one piece each time

        def step(held: list[Any]) -> None:
            if not found:
                found.append(products.prepared(held[left], held[right], self.sizes, held[out]))
            if found[0] is not None:
                found[0].run(held[left], held[right], held[out])
            else:
                for launch in launches:
                    launch(held)

        return step

    def native(self, kernel: Repeat, trip: Dim) -> NativeLoop | None:
        """A loop that is one native function of one thread at these sizes. See Note [Two kinds of loops]."""
        loop = self.executable.loop(kernel)
        if isinstance(loop, str):
            return None
        run = CpuRun.of(self.executable, self.sizes | _begun(kernel), {})
        if run.parts(kernel, loop, steps_of(trip, self.sizes)) > 1:
            return None
        return loop if is_straight(kernel) or run.small(kernel, loop) else None

    def loop(self, kernel: Repeat, loop: NativeLoop, trip: Dim) -> list[Step]:
        progress = self.places[loop.written.progress.symbol]
        (count,) = self.shapes[progress]
        begin = np.array([LONG, *[0] * (count - 1)], np.int64)
        launches = self.launch(loop.compiled, self.sizes | _begun(kernel), steps_of(trip, self.sizes))

        def step(held: list[Any]) -> None:
            held[progress] = begin.copy()
            for launch in launches:
                while launch(held):
                    pass

        outs = {out.symbol for out in kernel.op.outs}
        return [step, _forgetting([self.places[value.symbol] for value in loop.written.made if value.symbol not in outs])]

    def ordinary(self, kernel: Repeat | Whole, results: frozenset[Symbol], dying: frozenset[Symbol]) -> list[Step] | None:
        """What asks data how it goes on, if its results have sizes that they do not decide."""
        values = values_of(kernel)
        if not all(map(self.executable.is_settled, values)):
            return None
        given = [(symbol, self.places[symbol]) for symbol in reads_of(kernel) if symbol in self.places]
        free = [self.places[symbol] for symbol in dying if symbol in self.places]  # the loop may forget them after its first step
        outs = []
        for value in values:
            place = self.places.setdefault(value.symbol, len(self.places))
            self.shapes[place] = tuple([max(0, d.evaluate(self.sizes)) for d in value.shape])
            outs.append((value.symbol, place))

        def step(held: list[Any]) -> None:
            run = CpuRun.of(self.executable, dict(self.sizes), {symbol: held[place] for symbol, place in given})
            for place in free:
                held[place] = None
            run.item(kernel, {value.symbol: _fresh(value) for value in values if value.symbol in results}, dying)
            for symbol, place in outs:
                held[place] = run.held.get(symbol)

        return [step]

    def launch(self, compiled: Compiled, sizes: dict[Symbol, int], steps: int | None = None) -> list[Step]:
        """Steps that run a function, and say whether it came back before its end; none where it has nothing to do."""
        one = compiled.at(sizes, 1)
        if one.items <= 0:
            return []
        shared = steps is None and one.cost >= 2 * threads.WORTH_SHARING
        pointers = [(position, self.places[symbol]) for position, symbol in one.pointers]
        quick = self.alone(compiled, one, steps)
        if quick is not None and (steps is not None or not threads.is_shared(one.items, one.cost)):
            return [quick]

        def step(held: list[Any]) -> bool:
            if quick is not None and threads.available() == 1:
                return quick(held) is True
            found = compiled.at(sizes, threads.available() if compiled.function.lane is not None else 1) if shared else one
            arguments = list(found.arguments)
            for position, place in pointers:
                arguments[position] = _address(held[place])
            return _launched(compiled, found, arguments, steps)

        return [step]

    def alone(self, compiled: Compiled, launch: Launch, steps: int | None) -> Step | None:
        """The same for one thread, by machine code that reads off arrays where they lie; None where it does not."""
        places = tuple(self.places[symbol] for _, symbol in launch.pointers)
        empty = any(0 in self.shapes.get(place, (0,)) for place in places)
        brief = launch.cost < BRIEF if steps is None else launch.cost * steps < worth_sharing_steps()
        if not FIELDS or not brief or empty or launch.scratch > ON_STACK or not places:
            return None
        kinds = {position: (OF_ARRAY, n) for n, (position, _) in enumerate(launch.pointers)}
        kinds |= {position: (BUFFER, offset) for position, offset in launch.buffers}
        words = [kinds.get(position, (NUMBER, value)) for position, value in enumerate(launch.arguments)]
        if compiled.native is None:
            compiled.native = build.build(compiled.source)
        call = alone(compiled.native.address, words, launch.scratch, launch.items if steps is None else steps)
        given = itemgetter(*places) if len(places) > 1 else lambda held: (held[places[0]],)

        def step(held: list[Any]) -> bool:
            answer = call(*given(held))
            if answer not in (0, AGAIN):
                raise Stopped
            return answer == AGAIN

        return step


def worth_sharing_steps() -> int:
    """Additions of a loop's steps that are worth a thread: few of them are by vectors."""
    return max(1, threads.WORTH_SHARING // 2)


def _begun(kernel: Repeat) -> dict[Symbol, int]:
    """The counters of a loop and of those inside it before their first steps."""
    return {each.op.counter: 0 for each in (kernel, *kernels_in(kernel.body)) if isinstance(each, Repeat)}


def _address(array: Array) -> int:
    return address(array) if array.size else ctypes.addressof(_EMPTY)


def _of_thread(launch: Launch, arguments: list[int], thread: int) -> list[int]:
    """The arguments for a thread, which has buffers of its own."""
    if not launch.buffers:
        return arguments
    mine = list(arguments)
    start = _scratch.address(launch.scratch, thread)
    for position, offset in launch.buffers:
        mine[position] = start + offset
    return mine


def _launched(compiled: Compiled, launch: Launch, arguments: list[int], steps: int | None) -> bool:
    """Run a function on all of its items, or a loop of so many steps; whether that came back before its end."""
    if compiled.native is None:
        compiled.native = build.build(compiled.source)
    if steps is None:
        own = partial(_of_thread, launch, arguments)
        answer = threads.share_kernel(compiled.native, own, launch.items, launch.cost)
    else:
        answer = compiled.native.call(*_of_thread(launch, arguments, 0), 0, steps)
    if answer not in (0, AGAIN):
        raise Stopped
    return answer == AGAIN


def _all_differ(array: Array) -> bool:
    """Whether elements that are sorted as equal have the same bits, so that nobody sees in which order they stand: there is no NaN,
    and no zero with a sign. NumPy's sort that keeps no order is thirty times as fast."""
    if array.dtype.kind in "iub":
        return True
    if array.dtype.kind != "f":  # narrow floats of ml_dtypes
        return False
    return not bool(np.isnan(array).any() or np.signbit(array[array == 0]).any())


@dataclass(slots=True)
class CpuRun(Walk[Array]):
    """One call."""

    executable: CpuExecutable
    threads: int
    shapes: dict[Symbol, tuple[int, ...]]  # of what was made in calls of these sizes

    reshaped: dict[Symbol, Value] = field(default_factory=dict)  # see `reshapes`
    made: set[Symbol] = field(default_factory=set)  # what lies where something else was made

    @classmethod
    def of(cls, executable: CpuExecutable, dims: dict[Symbol, int], held: dict[Symbol, Array]) -> CpuRun:
        return cls(dims, held, executable, threads.available(), executable.shapes(dims))

    def lives(self, block: Kernels) -> Lives:
        self.reshaped.update(self.executable.reshapes(block))
        return self.executable.lives(block)

    def item(self, item: Kernel, wanted: dict[Symbol, Make[Array]], dying: frozenset[Symbol]) -> None:
        match item:
            case Nest():
                self.nest(item, wanted)
            case Contraction():
                self.contraction(item, wanted)
            case Repeat():
                self.repeat(item, wanted, dying)
            case Whole(op=op):
                self.whole(op, dying)
            case _:
                assert_never(item)

    def whole(self, op: Sort | Compress | Check, dying: frozenset[Symbol]) -> None:
        match op:
            case Sort(values=values, indices=indices, input=input) if indices.symbol in dying and _all_differ(self.held[input]):
                self.held[values.symbol] = np.sort(self.held[input], axis=-1)
            case Sort(values=values, indices=indices, input=input):
                source = self.held[input]
                wide = source.astype(np.float32) if values.element.accumulator is not values.element else source
                order = np.argsort(wide, axis=-1, kind="stable")
                self.held[values.symbol] = np.take_along_axis(source, order, axis=-1)
                self.held[indices.symbol] = order.astype(np.int32)
            case Compress(out=out, size=size, mask=mask):
                self.held[out.symbol] = np.flatnonzero(self.held[mask]).astype(np.int32)
                self.sizes[size] = len(self.held[out.symbol])
            case Check():
                if not op.holds(self.sizes):
                    raise Stopped
            case _:
                assert_never(op)

    def contraction(self, kernel: Contraction, wanted: dict[Symbol, Make[Array]]) -> None:
        (out,) = kernel.op.outs
        result = self.room(out, wanted)
        products, nest = self.executable.product(kernel)
        left, right = self.held[kernel.left.read.tensor], self.held[kernel.right.read.tensor]
        if not products.contract(left, right, self.sizes, result) and nest is not None:
            self.launch(nest)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def room(self, value: Value, wanted: dict[Symbol, Make[Array]]) -> Array:
        """Of what is shown in another shape: its room is that of the other."""
        other = self.reshaped.get(value.symbol)
        shape = self.shape(value)
        if other is None or value.symbol in wanted or prod(shape) != prod(self.shape(other)):
            return Walk.room(self, value, wanted)
        room = Walk.room(self, other, wanted)
        if not room.flags.c_contiguous:
            wanted[other.symbol] = lambda shape: room
            return Walk.room(self, value, wanted)
        self.made.add(other.symbol)
        held = self.held[value.symbol] = room.reshape(shape)
        return held

    def allocate(self, value: Value, shape: tuple[int, ...]) -> Array:
        return make(shape, value.element.dtype)

    def shape(self, value: Value) -> tuple[int, ...]:
        found = self.shapes.get(value.symbol)
        if found is None:
            found = Walk.shape(self, value)
            if self.executable.is_settled(value):
                self.shapes[value.symbol] = found
        return found

    def copied(self, held: Array, make: Make[Array]) -> Array:
        room = make(held.shape)
        room[...] = held
        return room

    def slot(self, stack: Array, step: int) -> tuple[Make[Array], bool]:
        state = stack[step, ...]
        return lambda shape: state, True

    def number(self, symbol: Symbol) -> int:
        return int(self.held[symbol])

    def flag(self, held: Array) -> bool:
        return bool(held)

    def begin(self, op: Loop, step: int) -> None:
        self.sizes[op.counter] = step
        self.held[op.counter] = np.array(step, np.int32)

    def contiguous(self, symbol: Symbol) -> Array:
        array = self.held[symbol]
        if not array.flags.c_contiguous or not array.flags.aligned:
            array = self.held[symbol] = np.array(array, order="C")
        return array

    # ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def nest(self, nest: Nest, wanted: dict[Symbol, Make[Array]]) -> None:
        if len(nest.stored) == 1 and nest.stored[0] in self.made:
            self.made.remove(nest.stored[0])
            return
        pooling = self.executable.pooling(nest, self.sizes)
        summing = self.executable.summing(nest, self.sizes) if pooling is None else None
        remainders = self.executable.remainders(nest, self.sizes) if pooling is None and summing is None else None
        compiled = self.executable.function(nest) if remainders is None and pooling is None and summing is None else None
        for step in nest.steps:
            for out in step.outs:
                if out.symbol in nest.stored:
                    self.room(out, wanted)
        if compiled is not None:
            self.launch(compiled)
        elif pooling is not None and all(self.held[symbol].flags.c_contiguous for symbol in nest.stored):
            self.pool(nest, pooling)
        elif summing is not None and all(self.held[symbol].flags.c_contiguous for symbol in nest.stored):
            summing.run([self.contiguous(s) for s in summing.reads], [self.held[s] for s in summing.stored])
        elif pooling is not None or summing is not None:
            self.launch(self.executable.function(nest))
        elif remainders is not None:
            remainders.run(self.held[remainders.left], self.held[remainders.right], self.held[nest.stored[0]])

    def pool(self, nest: Nest, pooling: Pooling) -> None:
        rest = self.executable.after_pooling(nest)
        between = rest is not None and pooling.output not in nest.stored
        if between:
            self.room(self.executable.values[pooling.output], {})
        pooling.run(self.contiguous(pooling.input), self.held[pooling.output])  # its bits are those of what lies in one piece
        if rest is not None:
            self.launch(rest)
        if between:
            del self.held[pooling.output]

    def launch(self, compiled: Compiled, steps: int | None = None) -> bool:
        """Run a function on all of its items, or a loop of so many steps; whether that came back before its end."""
        ready = compiled.at(self.sizes, self.threads if compiled.function.lane is not None else 1)
        if ready.items <= 0:
            return False
        arguments = list(ready.arguments)
        for position, tensor in ready.pointers:
            array = self.contiguous(tensor)
            arguments[position] = _address(array)
        return _launched(compiled, ready, arguments, steps)

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def repeat(self, kernel: Repeat, wanted: dict[Symbol, Make[Array]], dying: frozenset[Symbol]) -> None:
        """A loop. See Note [Two kinds of loops]."""
        loop = self.executable.loop(kernel)
        if not isinstance(loop, str):
            self.sizes.update(_begun(kernel))
            if is_straight(kernel) or self.small(kernel, loop):
                self.native_loop(kernel, loop, wanted)
                return
        self.loop(kernel.op, kernel.body, wanted, dying)

    def small(self, kernel: Repeat, loop: NativeLoop) -> bool:
        """Whether machine code takes less for a step than the host for launching what is in it; or it is shared by threads, who
        then wait for each other once and not for each kernel, unless its products are such that BLAS is faster."""
        shared = self.executable.independent(kernel)
        if shared is not None and self.sizes[shared.size] >= MANY:
            count = sum(isinstance(inner, Contraction) for inner in kernels_in(kernel.body))
            if self.executable.products_work(kernel).evaluate(self.sizes) < SMALL_STEP / 2 * max(1, count):
                return True
        return loop.compiled.function.cost.evaluate(self.sizes) < SMALL_STEP * self.launches(kernel.body)

    def launches(self, body: Kernels) -> float:
        """How many kernels the host launches for a step: those of a loop inside with every step of it, unless it is native. A
        product counts half: BLAS is called at once."""
        count = 0.0
        for kernel in body.kernels:
            if isinstance(kernel, Repeat) and isinstance(kernel.op.trip, Index):
                loop = self.executable.loop(kernel)
                native = not isinstance(loop, str) and self.small(kernel, loop)
                count += 1 if native else self.trip(kernel.op) * self.launches(kernel.body)
            else:
                count += 0.5 if isinstance(kernel, Contraction) else 1
        return max(0.5, count)

    def native_loop(self, kernel: Repeat, loop: NativeLoop, wanted: dict[Symbol, Make[Array]]) -> None:
        for value in loop.written.made:
            self.room(value, wanted)
        progress = self.held[loop.written.progress.symbol]
        progress[...] = 0
        progress[0] = LONG
        trip = self.trip(kernel.op)
        parts, shared = self.parts(kernel, loop, trip), self.executable.independent(kernel)
        if shared is not None and parts > 1:
            self.shared_loop(loop, shared, trip, parts)
        else:
            while self.launch(loop.compiled, trip):  # a loop without steps is launched too: it gives its states
                pass
        outs = {out.symbol for out in kernel.op.outs}
        for value in loop.written.made:
            if value.symbol not in outs:
                del self.held[value.symbol]

    def parts(self, kernel: Repeat, loop: NativeLoop, trip: int) -> int:
        """Among how many threads it is worth to share a native loop."""
        shared = self.executable.independent(kernel)
        if shared is None:
            return 1
        cost = loop.compiled.function.cost.evaluate(self.sizes) * (1 if kernel.op.conditional else trip)
        return min(self.threads, self.sizes[shared.size], cost // worth_sharing_steps())

    def shared_loop(self, loop: NativeLoop, shared: Independent, trip: int, parts: int) -> None:
        """Run a loop on several threads, each for a range of the indices that go their own way."""
        count = self.sizes[shared.size]
        if loop.compiled.native is None:
            loop.compiled.native = build.build(loop.compiled.source)
        native = loop.compiled.native
        own = {value.symbol for value in loop.written.made} - shared.tensors
        kept: list[Array] = []  # as long as threads write to it
        calls: list[tuple[Launch, list[int]]] = []
        for part in range(parts):
            first, last = count * part // parts, count * (part + 1) // parts
            launch = loop.compiled.at(self.sizes | {shared.size: last - first}, 1)
            arguments = list(launch.arguments)
            for position, tensor in launch.pointers:
                array = self.contiguous(tensor)
                if tensor in shared.tensors:
                    arguments[position] = _address(array) + array.nbytes // count * first
                    continue
                if tensor in own and part > 0:
                    array = array.copy()
                    kept.append(array)
                arguments[position] = _address(array)
            calls.append((launch, arguments))
        again = list(range(parts))
        while again:
            answers = [0] * parts

            def work(thread: int, first: int, last: int, now: list[int] = again, answers: list[int] = answers) -> int:
                for part in now[first:last]:
                    answers[part] = native.call(*_of_thread(*calls[part], thread), 0, trip)
                return int(any(answers[part] not in (0, AGAIN) for part in now[first:last]))

            if threads.share(work, len(again), parts * threads.WORTH_SHARING):
                raise Stopped
            again = [part for part in again if answers[part] == AGAIN]
