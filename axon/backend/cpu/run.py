"""One call of an executable: kernels in order, memory for what they make, and loops around them.

Note [Two kinds of loops]
    A loop whose steps cost little is one native function (`loops`), which comes back to Python after many of them. A loop whose
    steps are large is stepped by the host: each kernel of its body is then shared by all threads, and products are BLAS's. The cost
    of a step at the call's sizes decides, and how many kernels it has: to launch one takes the time of some 100,000 additions, and
    one that takes less is not shared.

Note [Memory]
    What a kernel makes is forgotten after its last reader, and its memory is used again: within the call, and by the next one.
    What the caller gets is memory of its own, in which kernels make it (see Note [Where values lie] in `walk`).
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from threading import local
from typing import Any, assert_never

import numpy as np

from axon.backend.cpu import build, threads
from axon.backend.cpu.arena import make
from axon.backend.cpu.executable import Compiled, CpuExecutable, NativeLoop
from axon.backend.cpu.function import AGAIN
from axon.backend.cpu.straight import is_straight
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Repeat, Whole, kernels_in
from axon.backend.plan.walk import Lives, Make, Walk
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Index, Loop, Sort, Value
from axon.interpret.box import allocate
from axon.interpret.program import bound
from axon.interpret.program import run as interpret

Array = Any
LONG = 100_000_000  # additions, about a tenth of a second, after which a native loop comes back: Ctrl-C is seen then
SMALL_STEP = 100_000  # additions of a loop's step for each launch that it would take, below which the loop is one native function


class Stopped(Exception):
    """The program stops with an error, which the interpreter words."""


class _Scratch(local):
    """Memory of one thread for buffers of rows, reused by every kernel."""

    def __init__(self) -> None:
        self.memory = np.empty(0, np.uint8)

    def address(self, size: int) -> int:
        if self.memory.size < size + 64:
            self.memory = np.empty(size + 64, np.uint8)
        return (self.memory.ctypes.data + 63) // 64 * 64


_scratch = _Scratch()
_EMPTY = ctypes.create_string_buffer(64)  # what pointers of empty tensors point to


def run(executable: CpuExecutable, inputs: Sequence[Array], explicit: Sequence[int] = ()) -> list[Array]:
    """The flat results for flat inputs, as fresh arrays. Raises what the interpreter raises."""
    program = executable.program
    dims = bound(program, inputs, explicit)
    given = dict(zip((v.symbol for v in program.inputs), inputs, strict=True))
    call = CpuRun(dims, {**executable.tables, **given}, executable, threads.available(), executable.shapes(dims))
    try:
        return call.block(executable.body(dims), [_fresh(executable.values[symbol]) for symbol in executable.plan.body.results])
    except (Stopped, ZeroDivisionError):
        interpret(program, inputs, explicit)  # raises it in words
        raise AssertionError("a kernel stopped the program, and the interpreter did not") from None


def _fresh(value: Value) -> Make[Array]:
    """Room for a result, which the caller owns."""
    return lambda shape: allocate(shape, value.element.dtype)


@dataclass(slots=True)
class CpuRun(Walk[Array]):
    """One call."""

    executable: CpuExecutable
    threads: int
    shapes: dict[Symbol, tuple[int, ...]]  # of what was made in calls of these sizes

    def lives(self, block: Kernels) -> Lives:
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
                self.whole(op)
            case _:
                assert_never(item)

    def whole(self, op: Sort | Compress | Check) -> None:
        match op:
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
        if not products.contract(self.held, self.sizes, result) and nest is not None:
            self.launch(nest)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

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
        compiled = self.executable.function(nest)
        for step in nest.steps:
            for out in step.outs:
                if out.symbol in nest.stored:
                    self.room(out, wanted)
        self.launch(compiled)

    def launch(self, compiled: Compiled, steps: int | None = None) -> bool:
        """Run a function on all of its items, or a loop of so many steps; whether that came back before its end."""
        ready = compiled.at(self.sizes, self.threads if compiled.function.lane is not None else 1)
        if ready.items <= 0:
            return False
        if compiled.native is None:
            compiled.native = build.build(compiled.source)
        arguments = list(ready.arguments)
        for position, tensor in ready.pointers:
            array = self.contiguous(tensor)
            arguments[position] = array.ctypes.data if array.size else ctypes.addressof(_EMPTY)
        call = compiled.native.call

        def work(thread: int, first: int, last: int) -> int:
            mine = arguments
            if ready.buffers:
                mine = list(arguments)
                start = _scratch.address(ready.scratch)
                for position, offset in ready.buffers:
                    mine[position] = start + offset
            return call(*mine, first, last)

        answer = threads.share(work, ready.items, ready.cost) if steps is None else work(0, 0, steps)
        if answer not in (0, AGAIN):
            raise Stopped
        return answer == AGAIN

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def repeat(self, kernel: Repeat, wanted: dict[Symbol, Make[Array]], dying: frozenset[Symbol]) -> None:
        """A loop. See Note [Two kinds of loops]."""
        loop = self.executable.loop(kernel)
        if not isinstance(loop, str):
            self.sizes.update((inner.op.counter, 0) for inner in kernels_in(kernel.body) if isinstance(inner, Repeat))
            self.sizes[kernel.op.counter] = 0
            if is_straight(kernel) or self.small(kernel, loop):
                self.native_loop(kernel, loop, wanted)
                return
        self.loop(kernel.op, kernel.body, wanted, dying)

    def small(self, kernel: Repeat, loop: NativeLoop) -> bool:
        """Whether machine code takes less for a step than the host for launching what is in it."""
        return loop.compiled.function.cost.evaluate(self.sizes) < SMALL_STEP * self.launches(kernel.body)

    def launches(self, body: Kernels) -> int:
        """How many kernels the host launches for a step: those of a loop inside with every step of it, unless it is native."""
        count = 0
        for kernel in body.kernels:
            if isinstance(kernel, Repeat) and isinstance(kernel.op.trip, Index):
                loop = self.executable.loop(kernel)
                native = not isinstance(loop, str) and self.small(kernel, loop)
                count += 1 if native else self.trip(kernel.op) * self.launches(kernel.body)
            else:
                count += 1
        return max(1, count)

    def native_loop(self, kernel: Repeat, loop: NativeLoop, wanted: dict[Symbol, Make[Array]]) -> None:
        for value in loop.written.made:
            self.room(value, wanted)
        progress = self.held[loop.written.progress.symbol]
        progress[...] = 0
        progress[0] = LONG
        trip = self.trip(kernel.op)
        while self.launch(loop.compiled, trip):  # a loop without steps is launched too: it gives its states
            pass
        outs = {out.symbol for out in kernel.op.outs}
        for value in loop.written.made:
            if value.symbol not in outs:
                del self.held[value.symbol]
