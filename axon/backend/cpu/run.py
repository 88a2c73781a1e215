"""One call of an executable: kernels in order, memory for what they make, and loops around them.

Note [Two kinds of loops]
    A loop whose steps cost little is one native function (`loops`), which comes back to Python after many of them. A loop whose
    steps are large is stepped by the host: each kernel of its body is then shared by all threads, and products are BLAS's. The cost
    of a step at the call's sizes decides.

Note [Memory]
    What a kernel makes dies with its last reader, and its memory is used again: within the call, and by the next call. What the
    caller gets is memory of its own. A state that a loop only hands on is copied, so that each tensor has one owner.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from threading import local
from typing import Any, assert_never

import numpy as np

from axon.backend.cpu import build, threads
from axon.backend.cpu.arena import Arena
from axon.backend.cpu.executable import Compiled, CpuExecutable, NativeLoop
from axon.backend.cpu.function import BufferParameter, LanesParameter, SizeParameter, TensorParameter
from axon.backend.cpu.loops import AGAIN
from axon.backend.cpu.products import contract
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Repeat, Whole, kernels_in, writes_of
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Index, Loop, Read, Sort, Value
from axon.interpret.box import allocate
from axon.interpret.program import run as interpret
from axon.shapes.dimension import Dim

Array = Any
LONG = 100_000_000  # additions, about a tenth of a second, after which a native loop comes back: Ctrl-C is seen then
SMALL_STEP = 100_000  # additions of a loop's step, below which the loop is one native function


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
    if len(inputs) != len(program.inputs):
        raise TypeError(f"{program.name} takes {len(program.inputs)} tensors, not {len(inputs)}")
    for value, array in zip(program.inputs, inputs, strict=True):
        if array.dtype != value.element.dtype:
            raise TypeError(f"{value.symbol.name} of {program.name} holds {value.element.value}, not {array.dtype}")
    dims = program.contract.bind(explicit, [array.shape for array in inputs])
    given = dict(zip((v.symbol for v in program.inputs), inputs, strict=True))
    call = Run(executable, dims, {**executable.tables, **given})
    try:
        memory = call.kernels(executable.plan.body)
    except (Stopped, ZeroDivisionError):
        interpret(program, inputs, explicit)  # raises it in words
        raise AssertionError("a kernel stopped the program, and the interpreter did not") from None
    fresh = call.fresh(inputs)
    call.arena.give_back(memory)
    return fresh


class Run:
    """The dimensions and tensors known so far. `owned` are results whose memory is not the arena's."""

    def __init__(self, executable: CpuExecutable, dims: dict[Symbol, int], tensors: dict[Symbol, Array]) -> None:
        self.executable, self.dims, self.tensors = executable, dims, tensors
        self.arena = Arena()
        self.owned: set[Symbol] = set()

    def fresh(self, inputs: Sequence[Array]) -> list[Array]:
        """The results as contiguous arrays of their own."""
        fresh: list[Array] = []
        for symbol in self.executable.plan.body.results:
            result = self.tensors[symbol]
            shared = any(result is other for other in fresh) or any(np.may_share_memory(result, array) for array in inputs)
            owned = symbol in self.owned and result.flags.c_contiguous
            fresh.append(result if owned and not shared else np.array(result, order="C"))
        return fresh

    def kernels(self, kernels: Kernels) -> list[Array]:
        """Run a block; the memory of what it gives, which the caller gives back. See Note [Memory]."""
        held: list[tuple[set[Symbol], list[Array]]] = []  # what lives of a kernel, and the memory that it took
        for kernel, dying in zip(kernels.kernels, self.executable.deaths(kernels), strict=True):
            self.arena.taken = []
            self.kernel(kernel)
            held.append((set(writes_of(kernel)), self.arena.taken))
            for symbol in dying:
                del self.tensors[symbol]
            if dying:
                for living, memory in held:
                    living -= dying
                    if not living and memory:
                        self.arena.give_back(memory)
                        memory.clear()
        self.arena.taken = []
        return [block for _, memory in held for block in memory]

    def kernel(self, kernel: Kernel) -> None:
        match kernel:
            case Nest():
                self.nest(kernel)
            case Contraction():
                self.contraction(kernel)
            case Repeat():
                self.repeat(kernel)
            case Whole(op=op):
                self.whole(op)
            case _:
                assert_never(kernel)

    def whole(self, op: Sort | Compress | Check) -> None:
        match op:
            case Sort(values=values, indices=indices, input=input):
                source = self.tensors[input]
                wide = source.astype(np.float32) if values.element.accumulator is not values.element else source
                order = np.argsort(wide, axis=-1, kind="stable")
                self.tensors[values.symbol] = np.take_along_axis(source, order, axis=-1)
                self.tensors[indices.symbol] = order.astype(np.int32)
            case Compress(out=out, size=size, mask=mask):
                self.tensors[out.symbol] = np.flatnonzero(self.tensors[mask]).astype(np.int32)
                self.dims[size] = len(self.tensors[out.symbol])
            case Check():
                if not op.holds(self.dims):
                    raise Stopped
            case _:
                assert_never(op)

    def contraction(self, kernel: Contraction) -> None:
        (out,) = kernel.op.outs
        result = self.tensors[out.symbol] = self.allocate(out)
        nest = self.executable.as_nest(kernel)
        if not contract(kernel, self.tensors, self.dims, result, nest is not None) and nest is not None:
            self.launch(nest)

    # ── memory ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def size(self, dim: Dim) -> int:
        return dim.evaluate(self.dims)

    def maker(self, value: Value) -> Any:
        """What makes an array for a value: the arena, unless the caller gets it."""
        if value.symbol in self.executable.results:
            self.owned.add(value.symbol)
            return allocate
        return self.arena.make

    def allocate(self, value: Value) -> Array:
        shape = tuple(max(0, self.size(extent)) for extent in value.shape)
        return self.maker(value)(shape, value.element.dtype)

    def contiguous(self, symbol: Symbol) -> Array:
        array = self.tensors[symbol]
        if not array.flags.c_contiguous or not array.flags.aligned:
            array = self.tensors[symbol] = np.array(array, order="C")
        return array

    # ── functions ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def nest(self, nest: Nest) -> None:
        compiled = self.executable.function(nest)
        for step in nest.steps:
            for out in step.outs:
                if out.symbol in nest.stored:
                    self.tensors[out.symbol] = self.allocate(out)
        self.launch(compiled)

    def launch(self, compiled: Compiled, steps: int | None = None) -> bool:
        """Run a function on all of its items, or a loop of so many steps; whether that came back before its end."""
        function = compiled.function
        cost = self.size(function.cost)
        items, lanes = function.pieces(self.dims, threads.available() if function.lane is not None else 1, cost)
        if items <= 0:
            return False
        if compiled.native is None:
            compiled.native = build.build(compiled.source)
        arguments: list[int] = []
        buffers: list[tuple[int, int]] = []  # position among the arguments, bytes before it in the scratch
        total = 0
        for parameter in function.parameters:
            match parameter:
                case TensorParameter(tensor=tensor):
                    array = self.contiguous(tensor)
                    arguments.append(array.ctypes.data if array.size else ctypes.addressof(_EMPTY))
                case BufferParameter(element=element, size=size):
                    buffers.append((len(arguments), total))
                    arguments.append(0)
                    total += (max(0, self.size(size)) * max(1, element.bits // 8) + 63) // 64 * 64
                case SizeParameter(size=dim):
                    arguments.append(self.size(dim))
                case LanesParameter():
                    arguments.append(lanes)
                case _:
                    assert_never(parameter)
        call = compiled.native.call

        def work(thread: int, first: int, last: int) -> int:
            mine = arguments
            if buffers:
                mine = list(arguments)
                start = _scratch.address(total)
                for position, offset in buffers:
                    mine[position] = start + offset
            return call(*mine, first, last)

        answer = threads.share(work, items, cost) if steps is None else work(0, 0, steps)
        if answer not in (0, AGAIN):
            raise Stopped
        return answer == AGAIN

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def repeat(self, kernel: Repeat) -> None:
        """A loop. See Note [Two kinds of loops]."""
        loop = self.executable.loop(kernel)
        if not isinstance(loop, str):
            self.dims.update((inner.op.counter, 0) for inner in kernels_in(kernel.body) if isinstance(inner, Repeat))
            self.dims[kernel.op.counter] = 0
            if self.size(loop.compiled.function.cost) < SMALL_STEP:
                self.native_loop(kernel, loop)
                return
        self.stepped(kernel)

    def native_loop(self, kernel: Repeat, loop: NativeLoop) -> None:
        for value in loop.made:
            self.tensors[value.symbol] = self.allocate(value)
        progress = self.tensors[loop.progress.symbol]
        progress[...] = 0
        progress[0] = LONG
        trip = max(0, self.number(kernel.op))
        while self.launch(loop.compiled, trip):  # a loop without steps is launched too: it gives its states
            pass
        outs = {out.symbol for out in kernel.op.outs}
        for value in loop.made:
            if value.symbol not in outs:
                del self.tensors[value.symbol]

    def stepped(self, kernel: Repeat) -> None:
        """A loop, step by step."""
        op, mine = kernel.op, self.arena.taken
        trip = max(0, self.number(op))
        fresh = {symbol for inner in kernel.body.kernels for symbol in writes_of(inner)}
        states = [np.array(self.tensors[symbol], order="C") for symbol in op.initial] if trip == 0 else []
        states = states or [self.tensors[symbol] for symbol in op.initial]
        stacks = [self.stack(trip, state, out) for state, out in zip(states, op.outs, strict=True)] if op.stacked else []
        mine = [*mine, *self.arena.taken]
        before: list[Array] = []
        for i in range(trip):
            self.dims[op.counter] = i
            self.tensors[op.counter] = np.array(i, np.int32)
            self.tensors.update(zip((state.symbol for state in op.states), states, strict=True))
            after = self.kernels(kernel.body)
            states = [np.array(self.tensors[s], order="C") if s not in fresh else self.tensors[s] for s in kernel.body.results]
            self.arena.give_back(before)
            before = after
            for stack, state in zip(stacks, states, strict=False):
                stack[i] = state
        self.tensors.update(zip((out.symbol for out in op.outs), stacks if op.stacked else states, strict=True))
        self.arena.taken = [*mine, *before]

    def stack(self, trip: int, state: Array, out: Value) -> Array:
        return self.maker(out)((trip, *state.shape), state.dtype)

    def number(self, op: Loop) -> int:
        """A loop's trip count: `fuse` leaves a dimension or a scalar tensor."""
        if isinstance(op.trip, Index):
            return self.size(op.trip.dim)
        assert isinstance(op.trip, Read)
        return int(self.tensors[op.trip.tensor])
