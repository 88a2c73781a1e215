"""One process's part of a sharded program: its local programs in order, and the collectives between them.

A collective begins when its operand is there, and is waited for when a step needs its result: what stands in between runs
meanwhile. Where the next program leaves room for it, that is launched first: its blocks then have what they count on, and no
multiprocessor on which a collective's would keep one of them waiting. All processes take the same steps, so they begin and end
collectives in the same order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from axon.base.data import dataclass, field
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Program, Value
from axon.core.sharding.ir import Collective, Local, Part, Repeat, Sharded, Step, made_by, read_by
from axon.host.devices import collectives as c
from axon.host.devices.places import Place
from axon.host.devices.watch import Watch


class Pending:
    """A collective under way; or, `later`, one that is to begin when what stands beside it is launched, where a place has that."""

    def __init__(self, steps: c.Steps, place: Place, watch: Watch, later: bool) -> None:
        self._steps, self._place, self._watch = steps, place, watch
        self._result: Any = None
        self._work: Any = None
        self._operation: c.Begin | None = None
        self._advance()
        self._mark = place.mark() if later else None
        if self._mark is None:
            self.begin()

    @property
    def under_way(self) -> bool:
        return self._operation is not None

    def _advance(self) -> None:
        self._work = self._mark = None
        try:
            self._operation = next(self._steps)
        except StopIteration as done:
            self._operation, self._result = None, self._place.value(done.value)

    def begin(self) -> None:
        """Exchange, if that has not begun."""
        if self._operation is not None and self._work is None:
            try:
                self._work = self._place.begun(self._operation, self._mark)
            except RuntimeError as error:  # a connection that is known to be broken
                self._watch.broken(error)

    def result(self) -> Any:
        while self._operation is not None:
            self.begin()
            self._place.wait(self._work, self._watch)
            self._advance()
        return self._result


LastUses: TypeAlias = "IdentityMap[Sequence[Step], list[list[Symbol]]]"


@dataclass(slots=True)
class Running:
    """A call of a sharded program in this process. `sizes` are those of this device, its coordinates among them."""

    lines: Mapping[str, c.Line]
    place: Place
    watch: Watch
    settle: Callable[[], None]  # raises AxonError where processes make different calls
    sizes: dict[Symbol, int]
    values: dict[Symbol, Any]
    last_uses: LastUses = field(default_factory=IdentityMap)  # known from calls before
    step: int = 0
    exchanges: list[Pending] = field(default_factory=list)  # perhaps under way

    def call(self, sharded: Sharded, inputs: Sequence[Any]) -> list[Any]:
        """The results as this device has them, of its blocks of the inputs."""
        self.values.update(zip((placed.local.symbol for placed in sharded.inputs), inputs, strict=True))
        results = [placed.local.symbol for placed in sharded.results]
        self._block(sharded.steps, results)
        return [self._value(symbol) for symbol in results]

    def _block(self, steps: Sequence[Step], results: Sequence[Symbol]) -> None:
        last = self.last_uses.get(steps)
        if last is None:
            last = self.last_uses[steps] = _last_uses(steps, results)
        for n, step in enumerate(steps):
            self.step += 1
            match step:
                case Local():
                    self.watch.at(self.step, f"`{', '.join(s.name for s in step.results)}`")
                    self._local(step)
                case Collective():
                    self.watch.at(self.step, f"{step.kind} of `{step.source.name}` over `{step.axis}`")
                    self.values[step.result.symbol] = self._exchanged(step, _program_after(steps, n))
                case Repeat():
                    self._repeat(step)
            for symbol in last[n]:
                self.values.pop(symbol, None)

    def _value(self, symbol: Symbol) -> Any:
        value = self.values[symbol]
        if isinstance(value, Pending):
            self._begin()
            value = self.values[symbol] = value.result()
        return value

    def _local(self, step: Local) -> None:
        explicit = [self.sizes[symbol] for symbol in step.program.explicit]
        inputs = [self._value(symbol) for symbol in step.reads]
        self.exchanges = [one for one in self.exchanges if one.under_way]
        beside = step.beside and bool(self.exchanges)
        if step.part is not None:
            self._part(step.part, step.program, inputs, explicit, beside)
            self._begin()
            return
        found = self.place.run(step.program, inputs, explicit, beside)
        self._begin()
        self.values.update(zip(step.results, found, strict=True))
        for size, result in step.defines:
            self.sizes[size] = int(self.values[result].shape[0])

    def _begin(self) -> None:
        """Begin, in order, the exchanges that were left for later."""
        for one in self.exchanges:
            one.begin()

    def _part(self, part: Part, program: Program, inputs: Sequence[Any], explicit: Sequence[int], beside: bool) -> None:
        if part.first:
            self.values[part.of.symbol] = self.place.empty(part.of.element, self._shape(part.of))
        begin = part.begin.evaluate(self.sizes)
        self.place.run_into(program, inputs, explicit, self.values[part.of.symbol], part.dimension, begin, beside)

    def _exchanged(self, step: Collective, after: Local | None) -> Any:
        x, line = self.place.tensor(self._value(step.source)), self.lines[step.axis]
        extent = step.extent.evaluate(self.sizes)
        shape = self._shape(step.result)
        if step.kind == "slice":
            assert step.dimension is not None
            return self.place.value(c.sliced(line, x, step.dimension, shape[step.dimension]))
        if step.kind == "shift" and not step.left.evaluate(self.sizes):
            return self.place.value(x)
        self.settle()
        later = after is not None and after.beside and step.result.symbol not in after.reads
        if not later:
            self._begin()
        made = Pending(self._steps(step, line, x, extent, shape), self.place, self.watch, later)
        self.exchanges.append(made)
        return made

    def _steps(self, step: Collective, line: c.Line, x: Any, extent: int, shape: tuple[int, ...]) -> c.Steps:
        if step.kind == "all_reduce":
            assert step.monoid is not None
            return c.all_reduce(line, x, step.monoid)
        if step.kind == "shift":
            return c.shift(line, x, step.left.evaluate(self.sizes))
        assert step.dimension is not None
        match step.kind:
            case "reduce_scatter":
                assert step.monoid is not None
                return c.reduce_scatter(line, x, step.monoid, step.dimension, shape[step.dimension])
            case "all_gather":
                return c.all_gather(line, x, step.dimension, extent)
            case "all_to_all":
                assert step.target is not None
                return c.all_to_all(line, x, step.dimension, extent, step.target, shape[step.target])
            case "halo":
                left, right = step.left.evaluate(self.sizes), step.right.evaluate(self.sizes)
                return c.halo(line, x, step.dimension, extent, left, right, around=step.around)
        raise AssertionError(step.kind)

    def _shape(self, value: Value) -> tuple[int, ...]:
        return tuple(max(0, extent.evaluate(self.sizes)) for extent in value.shape)

    def _repeat(self, step: Repeat) -> None:
        trip = self.place.item(self._value(step.trip)) if isinstance(step.trip, Symbol) else step.trip.evaluate(self.sizes)
        states = [self._value(symbol) for symbol in step.initial]
        stacks: list[list[Any]] = [[] for _ in states]
        for i in range(max(0, trip)):
            if step.conditional and not self.place.item(states[-1]):
                break
            self.sizes[step.counter] = i
            self.values[step.counter] = self.place.scalar(i)
            self.values.update(zip((state.symbol for state in step.states), states, strict=True))
            self._block(step.steps, step.results)
            states = [self._value(symbol) for symbol in step.results]
            for stack, state in zip(stacks, states, strict=True):
                stack.append(state)
        if step.stacked:
            outs = zip(stacks, step.outs, strict=True)
            states = [self.place.stack(stack, value.element, self._shape(value)) for stack, value in outs]
        self.values.update(zip((value.symbol for value in step.outs), states, strict=True))


def foreseen(steps: Sequence[Step], sizes: Mapping[Symbol, int]) -> Iterator[tuple[Program, dict[Symbol, int], bool]]:
    """The programs of steps with the sizes of their calls, and whether they may stand beside an exchange: those of loops at their
    middle; without programs of which data decide a size."""
    for step in steps:
        match step:
            case Local(program=program):
                own = {*program.explicit, *(s for value in program.inputs for dim in value.shape for s in dim.variables)}
                if own <= sizes.keys():
                    yield program, {symbol: sizes[symbol] for symbol in own}, step.beside
            case Repeat(trip=trip):
                trips = 0 if isinstance(trip, Symbol) else trip.evaluate(sizes)
                yield from foreseen(step.steps, {**sizes, step.counter: max(0, trips) // 2})


def _program_after(steps: Sequence[Step], n: int) -> Local | None:
    """The program that comes next, behind collectives alone."""
    for step in steps[n + 1 :]:
        if not isinstance(step, Collective):
            return step if isinstance(step, Local) else None
    return None


def _last_uses(steps: Sequence[Step], results: Sequence[Symbol]) -> list[list[Symbol]]:
    """For each step, which of the values that these steps make are not read after it."""
    made = [set(made_by(step)) for step in steps]
    own = set().union(*made) - set(results)
    out: list[list[Symbol]] = [[] for _ in steps]
    seen: set[Symbol] = set()
    for n in reversed(range(len(steps))):
        for symbol in (*read_by(steps[n]), *made_by(steps[n])):
            if symbol in own and symbol not in seen:
                seen.add(symbol)
                out[n].append(symbol)
    return out
