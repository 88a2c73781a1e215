"""A loop of a plan as one native function: its kernels are called one after the other, step by step, without Python in between.

    write    a Repeat -> its Loop: text, parameters, and the tensors that need memory; or the reason why it has none

Every tensor that the loop makes has memory of its own, for one step; what a step gives is copied into the states, and, of an
`unfold`, into its place in the stack. Contractions become ordinary nests: where a step is so small that this function is used,
they are too.

The function makes the steps from `first` to `last`, its range of work items. All that passes from step to step is in memory, so
that the host can look between two ranges whether the user has interrupted it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from axon.backend.cpu import nests, scatters
from axon.backend.cpu.function import BufferParameter, Function, LanesParameter, Parameters, SizeParameter, TensorParameter
from axon.backend.plan import Contraction, Kernel, Nest, Repeat, Whole, kernels_in, values_of
from axon.backend.scalar_facts import at_least_0
from axon.backend.writer import Code, Held, Writer
from axon.core import Compute, Index, Read, Value
from axon.core import Loop as LoopOp
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Loop:
    """`function.cost` is that of one step. `made` are the tensors that the host allocates before a launch; `helpers` the
    functions of the text that the entry calls, with the element types of their pointers (None for an i64)."""

    function: Function
    made: tuple[Value, ...]
    helpers: tuple[tuple[str, tuple[Element | None, ...]], ...]


def write(kernel: Repeat, values: dict[Symbol, Value], name: str, comments: Sequence[str] = ()) -> Loop | str:
    """The native function of a loop, or why it has none: then the host steps it."""
    reason = _reason(kernel)
    return reason or _Writer(values, name).write(kernel, comments)


def _reason(kernel: Repeat) -> str:
    counters = {kernel.op.counter}
    for inner in kernels_in(kernel.body):
        if isinstance(inner, Repeat):
            counters.add(inner.op.counter)
    for inner in kernels_in(kernel.body):
        if isinstance(inner, Whole):
            return f"its body has a {type(inner.op).__name__.lower()}"
        for value in _values(inner):
            if any(not extent.variables.isdisjoint(counters) for extent in value.shape):
                return f"the size of {value.symbol.name} differs from step to step"
    return ""


def _values(kernel: Kernel) -> tuple[Value, ...]:
    match kernel:
        case Nest(steps=steps):
            return tuple(out for step in steps for out in step.outs)
        case Repeat(op=op):
            return (*op.states, *op.outs)
        case _:
            return values_of(kernel)


def as_nest(kernel: Contraction) -> Nest:
    """A contraction as an ordinary reduction."""
    steps: tuple[Compute, ...] = (kernel.op, *kernel.epilogue)
    return Nest(kernel.op.axes, steps, kernel.stored)


class _Writer(Parameters):
    def __init__(self, values: dict[Symbol, Value], name: str) -> None:
        super().__init__()
        self.values, self.name = values, name
        self.code = Code()
        self.functions: list[Function] = []
        self.made: dict[Symbol, Value] = {}
        self.counters: dict[Symbol, str] = {}

    def write(self, kernel: Repeat, comments: Sequence[str]) -> Loop:
        cost = self.loop(kernel)
        self.code.line("return 0")
        parameters, head = self.head(self.name)
        own = [*(f"# {line}" for line in comments), head, "    bad = False", *self.code.lines, ""]
        text = "\n\n".join([*(f.text for f in self.functions), "\n".join(own)])
        one = Dim.of(1)
        function = Function(self.name, text, parameters, one, None, 0, cost, one, "one native function")
        return Loop(function, tuple(self.made.values()), tuple((f.name, self.types(f)) for f in self.functions))

    def types(self, function: Function) -> tuple[Element | None, ...]:
        found: list[Element | None] = []
        for parameter in function.parameters:
            match parameter:
                case TensorParameter(tensor=tensor):
                    found.append(self.values[tensor].element)
                case BufferParameter(element=element):
                    found.append(element)
                case SizeParameter() | LanesParameter():
                    found.append(None)
                case _:
                    assert_never(parameter)
        return (*found, None, None)

    def expression(self, dim: Dim) -> str:
        """The value of a Dim, which may mention counters."""
        scope = {counter: Dim.of(0) for counter in self.counters}
        writer = Writer(self.code, scope, self.variable, self.size, lambda symbol: _never(symbol))
        text = writer.dim(dim)
        if writer.fails:
            with self.code.block("if bad:"):
                self.code.line("return 1")
        return text

    def variable(self, symbol: Symbol) -> str:
        return self.counters[symbol] if symbol in self.counters else self.size(Dim.of(symbol))

    # ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def kernel(self, kernel: Kernel) -> Dim:
        """Call a kernel; its cost."""
        match kernel:
            case Nest():
                return self.nest(kernel)
            case Contraction():
                return self.nest(as_nest(kernel))
            case Repeat():
                trip = kernel.op.trip.dim if isinstance(kernel.op.trip, Index) else Dim.of(1)
                return self.loop(kernel) * trip
            case Whole():
                raise AssertionError(kernel)
            case _:
                assert_never(kernel)

    def nest(self, nest: Nest) -> Dim:
        write_nest = scatters.write if nest.family == "scatter" else nests.write
        function = write_nest(nest, self.values, f"kernel_{len(self.functions) + 1}")
        self.functions.append(function)
        for step in nest.steps:
            self.made.update((out.symbol, out) for out in step.outs if out.symbol in nest.stored)
        arguments = []
        for parameter in function.parameters:
            match parameter:
                case TensorParameter(tensor=tensor):
                    arguments.append(self.pointer(tensor))
                case BufferParameter(name=name, element=element, size=size):
                    arguments.append(self.buffer(name, element, size))
                case SizeParameter(size=size):
                    arguments.append(self.expression(size))
                case LanesParameter():
                    arguments.append(str(function.most))
                case _:
                    assert_never(parameter)
        items = function.rows
        if function.lane is not None:
            items = items * at_least_0((function.lane + (function.most - 1)) // function.most)
        with self.code.block(f"if {function.name}({', '.join([*arguments, '0', self.expression(items)])}):"):
            self.code.line("return 1")
        return function.cost

    def loop(self, kernel: Repeat) -> Dim:
        """A loop around its kernels, the outermost over a range of its steps; the cost of one step."""
        op, code = kernel.op, self.code
        counter = self.unique(op.counter.name)
        for value in (*op.states, *op.outs, Value(op.counter, Element.I32, ())):
            self.made[value.symbol] = value
        steps = "first, last"
        if self.counters:
            self.begin(op)
            steps = self.trip(op)
        else:
            with code.block("if first == 0:"):
                self.begin(op)
        cost = Dim.of(1)
        with code.block(f"for {counter} in range({steps}):"):
            self.counters[op.counter] = counter
            code.line(f"store_i32({self.pointer(op.counter)}, 0, as_i32({counter}))")
            for inner in kernel.body.kernels:
                cost = cost + self.kernel(inner)
            self.results(kernel, counter)
            del self.counters[op.counter]
        if not op.stacked:
            for out, state in zip(op.outs, op.states, strict=True):
                self.copy(out, self.pointer(out.symbol), self.pointer(state.symbol))
        return cost

    def begin(self, op: LoopOp) -> None:
        for state, initial in zip(op.states, op.initial, strict=True):
            self.copy(state, self.pointer(state.symbol), self.pointer(initial))

    def trip(self, op: LoopOp) -> str:
        """How many steps a loop inside has."""
        if isinstance(op.trip, Index):
            return self.expression(op.trip.dim)
        assert isinstance(op.trip, Read)
        return self.code.let(f"as_i64(load_{op.trip.element.value}({self.pointer(op.trip.tensor)}, 0))", "trip_")

    def results(self, kernel: Repeat, counter: str) -> None:
        """What a step gives, into the states and the stacks. A result that is a state is set aside first."""
        op = kernel.op
        states = {state.symbol for state in op.states}
        sources = []
        for state, result in zip(op.states, kernel.body.results, strict=True):
            source = self.pointer(result)
            if result in states and result != state.symbol:
                aside = self.buffer(f"{result.name}_aside", state.element, _elements(state))
                self.copy(state, aside, source)
                source = aside
            sources.append(source)
        for position, (state, source) in enumerate(zip(op.states, sources, strict=True)):
            if source != self.pointer(state.symbol):
                self.copy(state, self.pointer(state.symbol), source)
            if op.stacked:
                length = self.size(_elements(state))
                stack = self.pointer(op.outs[position].symbol)
                self.code.line(f"copy({stack}, {counter} * {length}, {source}, 0, {length})")

    def copy(self, value: Value, target: str, source: str) -> None:
        self.code.line(f"copy({target}, 0, {source}, 0, {self.size(_elements(value))})")


def _elements(value: Value) -> Dim:
    total = Dim.of(1)
    for extent in value.shape:
        total = total * extent
    return total


def _never(symbol: Symbol) -> Held:
    raise AssertionError(f"{symbol!r} is read outside of kernels")
