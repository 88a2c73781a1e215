"""A loop of a plan as one native function: its kernels are called one after the other, step by step, without Python in between.

    write    a Repeat -> its Loop: text, parameters, and the tensors that need memory; or the reason why it has none

Every tensor that the loop makes has memory of its own, for one step; what a step gives is copied into the states, and, of an
`unfold`, into its place in the stack. What is made of a state element by element, after all that looks at other elements of it, is
written over it at once (`_over_states`). Contractions become ordinary nests: where a step is so small that this function is used,
they are too.

Note [Coming back]
    What a step costs may be known only in the midst of a step: a loop inside may run as often as data say, and a sum over as many
    as the step's number. So the function itself counts the additions that it makes, and comes back to the host after so many of
    them, between two steps of any of its loops: the host sees then whether the user has interrupted it, and calls again. All that
    passes from step to step is in memory anyway; `progress` holds what remains:
      0        after how many additions to come back
      1        the number of the loop between whose steps the function came back; 0 where it begins
      1 + q    the step at which loop `q` goes on, of that loop and of those around it
    Loops count from 1, outer ones before those inside. A body is taken up again in the midst: what stands before the loop that the
    function came back from is left out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import assert_never

from axon.backend.cpu import nests, scatters
from axon.backend.cpu.function import AGAIN, BufferParameter, Function, LanesParameter, LoopFunction, WorkAmount
from axon.backend.cpu.parameters import Parameters
from axon.backend.cpu.straight import is_straight
from axon.backend.kernel.ir import FALSE, Expression, Like, Name, Operator, both, call, same
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel.writer import Held, Writer
from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Repeat, Whole, kernels_in, reads_of, values_of, writes_of
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Compute, Index, Read, Value
from axon.core.ir import Loop as LoopOp
from axon.core.scalar_facts import at_least_0
from axon.core.walk import reads, scalars
from axon.shapes.dimension import Dim


def write(kernel: Repeat, values: dict[Symbol, Value], name: str, comments: Sequence[str] = ()) -> LoopFunction | str:
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


def _loops(kernel: Repeat) -> int:
    """How many loops a loop is, those inside and itself."""
    return 1 + sum(isinstance(inner, Repeat) for inner in kernels_in(kernel.body))


def _over_states(kernel: Repeat) -> dict[Symbol, Symbol]:
    """Which results of a step are written over which states. A kernel makes such a one of each element of the state at its own
    place; nobody looks at the state afterwards, nor is it what another state becomes."""
    found: dict[Symbol, Symbol] = {}
    states = {state.symbol for state in kernel.op.states}
    for state, result in zip(kernel.op.states, kernel.body.results, strict=True):
        if state.symbol in kernel.body.results or result in found or result in states:
            continue
        maker = next((n for n, inner in enumerate(kernel.body.kernels) if result in writes_of(inner)), None)
        if maker is None or any(state.symbol in reads_of(later) for later in kernel.body.kernels[maker + 1 :]):
            continue
        nest = kernel.body.kernels[maker]
        if isinstance(nest, Nest) and result in nest.stored and _is_made_in_place(nest, state.symbol):
            found[result] = state.symbol
    return found


def _is_made_in_place(nest: Nest, state: Symbol) -> bool:
    """Whether a nest is one map that reads a tensor, if at all, at the place that it writes."""
    if nest.family != "map" or len(nest.steps) != 1:
        return False
    (step,) = nest.steps
    here = tuple(Dim.of(axis.symbol) for axis in step.axes)
    own = [read for body in scalars(step) for read in reads(body) if read.tensor == state]
    return all(read.subscripts == here for read in own)


def _renamed(nest: Nest, over: Mapping[Symbol, Symbol]) -> Nest:
    """A nest that writes over states."""
    if over.keys().isdisjoint(nest.stored):
        return nest
    (step,) = nest.steps
    outs = tuple(replace(out, symbol=over.get(out.symbol, out.symbol)) for out in step.outs)
    return replace(nest, steps=(replace(step, outs=outs),), stored=tuple(over.get(s, s) for s in nest.stored))


def as_nest(kernel: Contraction) -> Nest:
    """A contraction as an ordinary reduction."""
    steps: tuple[Compute, ...] = (kernel.op, *kernel.epilogue)
    return Nest(kernel.op.axes, steps, kernel.stored)


class _Writer(Parameters):
    def __init__(self, values: dict[Symbol, Value], name: str) -> None:
        super().__init__()
        self.values, self.name = values, name
        self.functions: list[Function] = []
        self.made: dict[Symbol, Value] = {}
        self.inner: dict[Symbol, Name] = {}  # what nobody needs afterwards, in memory of the thread alone
        self.needed: frozenset[Symbol] | None = None  # all; else those of what is made that somebody needs afterwards
        self.counters: dict[Symbol, Name] = {}
        self.over: dict[Symbol, Symbol] = {}  # results of steps that are written over states: over which
        self.loops = 0
        self.progress = fresh("progress")
        self.spent, self.place, self.enough = (self.code.named(name) for name in ("spent", "place", "enough"))

    def write(self, kernel: Repeat, comments: Sequence[str]) -> LoopFunction:
        size = 2 + _loops(kernel)
        if is_straight(kernel):
            self.needed = frozenset(out.symbol for out in kernel.op.outs)
        progress = self.made[self.progress] = Value(self.progress, Element.I64, (Dim.of(size),))
        self.code.assign(self.code.bad, FALSE)
        self.code.assign(self.spent, 0)
        self.code.assign(self.enough, self.load(0))
        self.code.assign(self.place, self.load(1))
        cost = self.loop(kernel)
        self.code.give(0)
        parameters, own = self.written(self.name, comments)
        text = "\n\n".join([*(f.text for f in self.functions), own])
        function = Function(self.name, text, parameters, Dim.of(1), None, 0, cost, WorkAmount.of(1), "one native function")
        helpers = tuple((f.name, self.types(f)) for f in self.functions)
        return LoopFunction(function, tuple(self.made.values()), progress, helpers)

    def types(self, function: Function) -> tuple[Element | None, ...]:
        found: list[Element | None] = []
        for parameter in function.parameters:
            match parameter:
                case PointerParameter(tensor=tensor):
                    found.append(self.values[tensor].element)
                case BufferParameter(element=element):
                    found.append(element)
                case ExtentParameter() | LanesParameter():
                    found.append(None)
                case _:
                    assert_never(parameter)
        return (*found, None, None)

    def expression(self, dim: Dim) -> Expression:
        """The value of a Dim, which may mention counters."""
        scope = {counter: Dim.of(0) for counter in self.counters}
        writer = Writer(self.code, scope, self.variable, self.size, lambda symbol: _never(symbol))
        found = writer.dim(dim)
        if writer.fails:
            with self.code.when(self.code.bad):
                self.code.give(1)
        return found

    def variable(self, symbol: Symbol) -> Expression:
        return self.counters[symbol] if symbol in self.counters else self.size(Dim.of(symbol))

    def hold(self, value: Value) -> None:
        """What is made, once for each tensor: the host makes room for it, if it is needed afterwards."""
        if self.needed is None or value.symbol in self.needed:
            self.made[value.symbol] = value
        elif value.symbol not in self.inner:
            self.inner[value.symbol] = self.buffer(value.symbol.name, value.element, _elements(value))

    def pointer(self, tensor: Symbol) -> Name:
        tensor = self.over.get(tensor, tensor)
        return self.inner.get(tensor) or super().pointer(tensor)

    # ── progress ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def load(self, at: int) -> Expression:
        return call("load_i64", self.pointer(self.progress), at)

    def store(self, at: int, value: Like) -> None:
        self.code.call("store_i64", self.pointer(self.progress), at, value)

    def added(self, cost: WorkAmount) -> Like:
        """What a step adds to `spent`."""
        if cost.constant is not None:
            return cost.constant
        found = self.expression(cost.whole)
        for first, *others in cost.products:
            product = self.expression(first)
            for dim in others:
                product = product * self.expression(dim)
            found = found + product
        return self.code.let(call("max_int", found, 1), "cost_")

    def come_back(self, number: int, step: Expression, when: Expression) -> None:
        """Come back to the host; the loop goes on at `step`. See Note [Coming back]."""
        with self.code.when(when):
            self.store(1, number)
            self.store(1 + number, step)
            self.code.give(AGAIN)

    @contextmanager
    def taken_up(self, inside: bool) -> Iterator[None]:
        """What a body makes between loops: left out where the function goes on in one of these."""
        if not inside:
            yield
            return
        with self.code.when(same(self.place, 0)):
            yield

    # ── kernels ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def body(self, kernels: Kernels) -> tuple[WorkAmount, WorkAmount]:
        """Call the kernels of a body; the cost of all, and of those outside of loops inside."""
        inside = any(isinstance(kernel, Repeat) for kernel in kernels.kernels)
        total, own = WorkAmount.of(1), WorkAmount.of(1)
        for kernel in kernels.kernels:
            match kernel:
                case Nest() | Contraction():
                    with self.taken_up(inside):
                        cost = self.nest(kernel if isinstance(kernel, Nest) else as_nest(kernel))
                    total, own = total + cost, own + cost
                case Repeat():
                    trip = kernel.op.trip.dim if isinstance(kernel.op.trip, Index) else Dim.of(1)
                    number = self.loops + 1
                    here = both(self.place >= number, self.place < number + _loops(kernel))
                    with self.code.when(Operator("or", same(self.place, 0), here)):
                        total = total + self.loop(kernel) * trip
                case Whole():
                    raise AssertionError(kernel)
                case _:
                    assert_never(kernel)
        return total, own

    def nest(self, nest: Nest) -> WorkAmount:
        nest = _renamed(nest, self.over)
        write_nest = scatters.write if nest.family == "scatter" else nests.write
        function = write_nest(nest, self.values, f"kernel_{len(self.functions) + 1}")
        self.functions.append(function)
        for step in nest.steps:
            for out in step.outs:
                if out.symbol in nest.stored:
                    self.hold(out)
        arguments: list[Like] = []
        for parameter in function.parameters:
            match parameter:
                case PointerParameter(tensor=tensor):
                    arguments.append(self.pointer(tensor))
                case BufferParameter(like=like, element=element, size=size):
                    arguments.append(self.buffer(like, element, size))
                case ExtentParameter(size=size):
                    arguments.append(self.expression(size))
                case LanesParameter():
                    arguments.append(function.most)
                case _:
                    assert_never(parameter)
        items = function.rows
        if function.lane is not None:
            items = items * at_least_0((function.lane + (function.most - 1)) // function.most)
        with self.code.when(call(function.name, *arguments, 0, self.expression(items))):
            self.code.give(1)
        return function.cost

    def loop(self, kernel: Repeat) -> WorkAmount:
        """A loop around its kernels; the cost of one step. See Note [Coming back]."""
        op, code = kernel.op, self.code
        self.loops += 1
        number = self.loops
        counter = code.named(op.counter.name)
        for value in (*op.states, *(() if is_straight(kernel) else op.outs), Value(op.counter, Element.I32, ())):
            self.hold(value)
        start = code.let(0, "start_")
        with code.when(same(self.place, 0)):
            self.begin(op)
        with code.otherwise():
            code.assign(start, self.load(1 + number))
        with code.when(same(self.place, number)):
            code.assign(self.place, 0)
        steps = self.trip(op) if self.counters else code.local("last")
        stop = code.name("stop_")
        with code.aside() as written, self.steps(op, counter, start, stop):
            self.counters[op.counter] = counter
            code.call("store_i32", self.pointer(op.counter), 0, call("as_i32", counter))
            if _loops(kernel) > 1:
                self.store(1 + number, counter)
            self.over |= _over_states(kernel)
            cost, own = self.body(kernel.body)
            self.results(kernel, counter)
            alike = _loops(kernel) == 1 and op.counter not in own.variables and not op.conditional
            if not alike:
                code.assign(self.spent, self.spent + self.added(own))
                self.come_back(number, counter + 1, self.spent >= self.enough)
            del self.counters[op.counter]
        if alike:  # then how many steps may be made is known before, and nothing is counted between them
            added = self.added(own)
            possible = call("unsigned_divide", call("max_int", self.enough - self.spent, 0), added) + 1
            code.assign(stop, call("min_int", steps, start + possible))
            code.extend(written)
            code.assign(self.spent, self.spent + call("max_int", stop - start, 0) * added)
            self.come_back(number, stop, stop < steps)
        else:
            code.assign(stop, steps)
            code.extend(written)
        if not op.stacked and not is_straight(kernel):
            for out, state in zip(op.outs, op.states, strict=True):
                self.copy(out, self.pointer(out.symbol), self.pointer(state.symbol))
        return cost

    @contextmanager
    def steps(self, op: LoopOp, counter: Name, start: Name, stop: Name) -> Iterator[None]:
        """Around a step: from `start` to `stop`, or for as long as the condition, which is the last state, holds."""
        if not op.conditional:
            with self.code.loop(counter, start, stop):
                yield
            return
        self.code.assign(counter, start)
        going = call("load_bool", self.pointer(op.states[-1].symbol), 0)
        with self.code.repeat(both(counter < stop, going)):
            yield
            self.code.assign(counter, counter + 1)

    def begin(self, op: LoopOp) -> None:
        for state, initial in zip(op.states, op.initial, strict=True):
            self.copy(state, self.pointer(state.symbol), self.pointer(initial))

    def trip(self, op: LoopOp) -> Expression:
        """How many steps a loop inside has."""
        if isinstance(op.trip, Index):
            return self.expression(op.trip.dim)
        assert isinstance(op.trip, Read)
        count = call(f"load_{op.trip.element.value}", self.pointer(op.trip.tensor), 0)
        return self.code.let(call("as_i64", count), "trip_")

    def results(self, kernel: Repeat, counter: Name) -> None:
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
                self.code.call("copy", stack, counter * length, source, 0, length)

    def copy(self, value: Value, target: Name, source: Name) -> None:
        self.code.call("copy", target, 0, source, 0, self.size(_elements(value)))


def _elements(value: Value) -> Dim:
    total = Dim.of(1)
    for extent in value.shape:
        total = total * extent
    return total


def _never(symbol: Symbol) -> Held:
    raise AssertionError(f"{symbol!r} is read outside of kernels")
