"""Running a plan on arrays: memory for what kernels make, kernels in order, and loops around them.

Note [Two kinds of loops]
    A loop whose steps cost little is one native function (`loops`), which never comes back to Python between steps. A loop whose
    steps are large is stepped by the host: each kernel of its body is then shared by all threads, and products are BLAS's. The cost
    of a step at the call's sizes decides.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock, local
from typing import Any, assert_never

import numpy as np

from axon.backend.cpu import build, loops, threads
from axon.backend.cpu.nests import BufferParameter, Function, SizeParameter, TensorParameter, write
from axon.backend.cpu.products import contract
from axon.backend.fuse import Policy, fuse
from axon.backend.plan import Contraction, Kernel, Kernels, Nest, Plan, Repeat, Whole, as_program, kernels_in, operations, values_in
from axon.core import Check, Compress, Index, Loop, Program, Read, Sort, Value
from axon.core_print import print_op
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

Array = Any
SMALL_STEP = 100_000  # additions of a loop's step, below which the loop is one native function
POLICY = Policy(epilogues=False)


class Stopped(Exception):
    """The program stops with an error, which the interpreter words."""


@dataclass(slots=True)
class Compiled:
    """A nest's function, and its machine code from the first launch on."""

    function: Function
    source: build.Source
    native: build.Native | None = None


class Executable:
    """A program's plan with its functions; compiled when first launched. Safe to call from several threads."""

    def __init__(self, program: Program) -> None:
        self.plan: Plan = fuse(program, POLICY)
        self.program = program
        self.values = values_in(self.plan)
        self.lock = Lock()
        self.compiled: dict[int, Compiled] = {}  # by the identity of the nest, which the plan keeps
        self.loops: dict[int, NativeLoop | str] = {}  # likewise; a text says why a loop has no function

    def __call__(self, inputs: Sequence[Array], explicit: Sequence[int] = ()) -> list[Array]:
        """The flat results for flat inputs, as fresh arrays. Raises what `interpret.run` raises."""
        program = self.program
        if len(inputs) != len(program.inputs):
            raise TypeError(f"{program.name} takes {len(program.inputs)} tensors, not {len(inputs)}")
        for value, array in zip(program.inputs, inputs, strict=True):
            if array.dtype != value.element.dtype:
                raise TypeError(f"{value.symbol.name} of {program.name} holds {value.element.value}, not {array.dtype}")
        dims = program.contract.bind(explicit, [array.shape for array in inputs])
        run = _Run(self, dims, dict(zip((v.symbol for v in program.inputs), inputs, strict=True)))
        try:
            run.kernels(self.plan.body)
        except (Stopped, ZeroDivisionError):
            return self._interpreted(inputs, explicit)
        given = list(inputs)
        fresh: list[Array] = []
        for symbol in self.plan.body.results:
            result = run.tensors[symbol]
            shared = any(result is other for other in fresh) or any(np.may_share_memory(result, array) for array in given)
            fresh.append(np.array(result, order="C") if shared or not result.flags.c_contiguous else result)
        return fresh

    def _interpreted(self, inputs: Sequence[Array], explicit: Sequence[int]) -> list[Array]:
        """What the interpreter raises for a program that must stop."""
        from axon.interpret import run

        run(self.program, inputs, explicit)
        raise AssertionError("a kernel stopped the program, and the interpreter did not")

    def function(self, nest: Nest) -> Compiled:
        with self.lock:
            found = self.compiled.get(id(nest))
            if found is None:
                found = self.compiled[id(nest)] = self._write(nest)
            return found

    def loop(self, kernel: Repeat) -> NativeLoop | str:
        """A loop's function, or why the host steps it."""
        with self.lock:
            found = self.loops.get(id(kernel))
            if found is None:
                found = self.loops[id(kernel)] = self._write_loop(kernel)
            return found

    def _write_loop(self, kernel: Repeat) -> NativeLoop | str:
        program = as_program(self.plan)
        written = loops.write(kernel, self.values, "loop", print_op(program, kernel.op).splitlines())
        if isinstance(written, str):
            return written
        source = build.source_of(written.function, self._element, tuple(name for name, _ in written.helpers))
        return NativeLoop(Compiled(written.function, source), written.made)

    def _element(self, parameter: TensorParameter) -> Element:
        return self.values[parameter.tensor].element

    def _write(self, nest: Nest) -> Compiled:
        name = f"kernel_{'_'.join(symbol.name for symbol in nest.stored) or 'nothing'}"
        name = "".join(c if c.isalnum() and c.isascii() else "_" for c in name)
        program = as_program(self.plan)
        comments = [line for op in operations(nest) for line in print_op(program, op).splitlines()]
        function = write(nest, self.values, name, comments)
        return Compiled(function, build.source_of(function, self._element))


@dataclass(frozen=True, slots=True)
class NativeLoop:
    """A loop's function, and the tensors to allocate for it."""

    compiled: Compiled
    made: tuple[Value, ...]


def _loops_in(kernel: Repeat) -> list[Repeat]:
    return [kernel, *(k for k in kernels_in(kernel.body) if isinstance(k, Repeat))]


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


class _Run:
    """One call: the dimensions and tensors known so far."""

    def __init__(self, executable: Executable, dims: dict[Symbol, int], tensors: dict[Symbol, Array]) -> None:
        self.executable, self.dims, self.tensors = executable, dims, tensors

    def kernels(self, kernels: Kernels) -> None:
        for kernel in kernels.kernels:
            self.kernel(kernel)

    def kernel(self, kernel: Kernel) -> None:
        match kernel:
            case Nest():
                self.nest(kernel)
            case Contraction():
                self.tensors[kernel.op.outs[0].symbol] = contract(kernel, self.tensors, self.dims)
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
                if not Relation(op.left, op.relation, op.right).holds(self.dims):
                    raise Stopped
            case _:
                assert_never(op)

    # ── nests ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def size(self, dim: Dim) -> int:
        return dim.evaluate(self.dims)

    def contiguous(self, symbol: Symbol) -> Array:
        array = self.tensors[symbol]
        if not array.flags.c_contiguous or not array.flags.aligned:
            array = self.tensors[symbol] = np.array(array, order="C")
        return array

    def allocate(self, value: Value) -> Array:
        return allocate([max(0, self.size(extent)) for extent in value.shape], value.element)

    def nest(self, nest: Nest) -> None:
        compiled = self.executable.function(nest)
        function = compiled.function
        for step in nest.steps:
            for out in step.outs:
                if out.symbol in nest.stored:
                    self.tensors[out.symbol] = self.allocate(out)
        self.launch(compiled, self.size(function.items))

    def launch(self, compiled: Compiled, items: int) -> None:
        """Run a function on all of its items."""
        function = compiled.function
        if items <= 0:
            return
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

        if threads.share(work, items, self.size(function.cost)):
            raise Stopped

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def repeat(self, kernel: Repeat) -> None:
        op = kernel.op
        loop = self.executable.loop(kernel)
        if not isinstance(loop, str):
            self.dims.update((inner.op.counter, 0) for inner in _loops_in(kernel))
            if self.size(loop.compiled.function.cost) < SMALL_STEP:
                self.native_loop(kernel, loop)
                return
        trip = max(0, self.number(op))
        states = [self.tensors[symbol] for symbol in op.initial]
        stacks = [allocate([trip, *s.shape], v.element) for s, v in zip(states, op.states, strict=True)] if op.stacked else []
        for i in range(trip):
            self.dims[op.counter] = i
            self.tensors[op.counter] = np.array(i, np.int32)
            self.tensors.update(zip((state.symbol for state in op.states), states, strict=True))
            self.kernels(kernel.body)
            states = [self.tensors[symbol] for symbol in kernel.body.results]
            for stack, state in zip(stacks, states, strict=False):
                stack[i] = state
        self.tensors.update(zip((out.symbol for out in op.outs), stacks if op.stacked else states, strict=True))

    def native_loop(self, kernel: Repeat, loop: NativeLoop) -> None:
        for value in loop.made:
            self.tensors[value.symbol] = self.allocate(value)
        self.launch(loop.compiled, 1)
        inner = {value.symbol for value in loop.made} - {out.symbol for out in kernel.op.outs}
        for symbol in inner:
            del self.tensors[symbol]

    def number(self, op: Loop) -> int:
        """A loop's trip count: `fuse` leaves a dimension or a scalar tensor."""
        if isinstance(op.trip, Index):
            return self.size(op.trip.dim)
        assert isinstance(op.trip, Read)
        return int(self.tensors[op.trip.tensor])


def allocate(shape: list[int], element: Element) -> Array:
    return np.empty(shape, element.dtype)
