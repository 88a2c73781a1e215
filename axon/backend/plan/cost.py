"""What a planned program costs, as Dims over the sizes of a call: operations, bytes moved, and the memory that it needs at once.

A backend says which steps there are, and what each counts; see `of`. Where only the data decide a size, the largest it can be is
taken, and of a size that a loop's counter decides the largest of all steps; what is an upper bound therefore is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set

from axon.backend.plan.ended import DATA_END
from axon.backend.plan.ir import size_in_bytes
from axon.backend.plan.walk import lives
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Compress, Loop, Value
from axon.core.operation_count import at_least_zero
from axon.core.walk import trip_of
from axon.shapes.algebra.prove import Facts, reduced
from axon.shapes.algebra.upper_bound import upper_bound
from axon.shapes.dimension import Dim, DimensionTooLarge

_ZERO, _ONE = Dim.of(0), Dim.of(1)
DATA = "data decide a size: the largest that it can be is counted"
STEPS = "data decide how many steps a loop takes: one is counted"
WHILE = "data decide when a loop ends: as many steps are counted as it may take"
COUNTER = "a size changes from step to step of a loop: the largest is counted"


@dataclass(frozen=True, slots=True)
class CostedStep:
    """What becomes a kernel, with what it reads, stores and counts; or a loop around `inside`, whose states end as `results`."""

    title: str
    reads: frozenset[Symbol]
    stores: tuple[Value, ...]
    flops: Dim = _ZERO
    moved: Dim = _ZERO
    loop: Loop | None = None
    inside: tuple[CostedStep, ...] = ()
    results: tuple[Symbol, ...] = ()
    data: Compress | None = None  # what decides a size
    ends: bool = False  # whether data end a loop inside
    placed: bool = True  # whether it makes results where they are wanted; else these are copied there


@dataclass(frozen=True, slots=True)
class KernelCost:
    """Of all times that a kernel runs; `held` are the bytes that are held meanwhile."""

    title: str
    flops: Dim
    moved: Dim
    held: Dim = _ZERO


@dataclass(frozen=True, slots=True)
class PlanCost:
    """The kernels in order; `peaks` are the bytes that are held while each runs, of which the largest is needed; `bounds` say why
    something is an upper bound."""

    kernels: tuple[KernelCost, ...]
    peaks: tuple[Dim, ...]
    bounds: tuple[str, ...]

    def peaks_at(self, sizes: Mapping[Symbol, Dim]) -> tuple[Dim, ...]:
        """The peaks with sizes put in, without those that another one is never below then."""
        try:
            return _undominated(dim.substitute(sizes) for dim in self.peaks)
        except DimensionTooLarge:
            return self.peaks


def of(inputs: Iterable[Value], steps: Sequence[CostedStep], results: Sequence[Symbol], facts: Facts) -> PlanCost:
    """The cost of steps. The inputs are held all the time; what is made, from its kernel to the last that reads it. What a caller
    gets is its own: an argument that is a result, and what is one twice, are copied. See Note [Where values lie] in `walk`."""
    values = {value.symbol: value for value in inputs}
    account = _Account(facts, dict(values))
    base = _total(reduced(facts, size_in_bytes(value)) for value in values.values())
    account.peaks.append(base)
    account.block(steps, results, base, _ONE, [True] * len(results), _ONE)
    return PlanCost(tuple(account.kernels), _undominated(account.peaks), tuple(account.bounds))


class _Account:
    def __init__(self, facts: Facts, values: dict[Symbol, Value]) -> None:
        self.facts, self.values = facts, values
        self.kernels: list[KernelCost] = []
        self.peaks: list[Dim] = []
        self.bounds: dict[str, None] = {}
        self._ranges: dict[Symbol, Dim] = {}  # of counters, and of sizes that data decide: what they are below
        self._counters: set[Symbol] = set()

    def block(
        self,
        steps: Sequence[CostedStep],
        results: Sequence[Symbol],
        base: Dim,
        times: Dim,
        makers: Sequence[bool],
        copied: Dim,
        *,
        stacked: bool = False,
    ) -> None:
        """A block that runs so many `times`. `makers` are of results whether somebody makes room for them: what no step makes
        there is copied so often. Room in a stack is counted already."""
        wanted = {symbol for symbol, make in zip(results, makers, strict=True) if make}
        found = lives(steps, results, _reads, lambda step: [value.symbol for value in step.stores])
        held: dict[Symbol, Dim] = {}
        for step, dying in zip(found.items, found.dying, strict=True):
            self.values.update((value.symbol, value) for value in step.stores)
            if step.data is not None:
                self._ranges[step.data.size] = self._most(self.values[step.data.mask].shape[0]) + 1
            if step.ends:
                self.bounds[DATA_END] = None
            there = wanted if stacked and step.placed else frozenset[Symbol]()
            made = {v.symbol: self._most(size_in_bytes(v)) for v in step.stores if v.symbol not in there}
            before = base + _total(held.values())
            if step.loop is not None:
                self._loop(step, step.loop, before, times, wanted)
            else:
                flops, moved = self._most(step.flops) * times, self._most(step.moved) * times
                self.kernels.append(KernelCost(step.title, flops, moved, before + _total(made.values())))
            self.peaks.append(before + _total(made.values()))
            wanted -= {value.symbol for value in step.stores} if step.placed else set()
            held |= made
            for symbol in dying:
                held.pop(symbol, None)
        direct = set(results) - wanted
        copies = _ZERO
        for symbol, make in zip(results, makers, strict=True):
            if make and symbol not in direct:
                size = self._most(size_in_bytes(self.values[symbol]))
                copies = copies if stacked else copies + size
                self.kernels.append(KernelCost("copy", _ZERO, 2 * size * copied, base + _total(held.values()) + copies))
            direct.discard(symbol)
        self.peaks.append(base + _total(held.values()) + copies)

    def _loop(self, step: CostedStep, loop: Loop, before: Dim, times: Dim, wanted: Set[Symbol]) -> None:
        trip = trip_of(loop)
        count = self._most(at_least_zero(trip)) if isinstance(trip, Dim) else _ONE
        if not isinstance(trip, Dim):
            self.bounds[STEPS] = None
        else:
            if loop.conditional:
                self.bounds[WHILE] = None
            self._ranges[loop.counter] = count
            self._counters.add(loop.counter)
        self.values.update((state.symbol, state) for state in loop.states)
        room = _total(self._most(size_in_bytes(value)) for value in (loop.outs if loop.stacked else loop.states))
        if loop.stacked:
            makers = [number < len(loop.outs) for number in range(len(step.results))]
            self.block(step.inside, step.results, before + room, times * count, makers, times * count, stacked=True)
        else:  # what is wanted of its last states is made there
            makers = [out.symbol in wanted for out in loop.outs]
            makers += [False] * (len(step.results) - len(makers))
            self.block(step.inside, step.results, before + room, times * count, makers, times)

    def _most(self, dim: Dim) -> Dim:
        """What a Dim does not exceed, whatever data decide, in any step; as simple as the contract allows."""
        dim = reduced(self.facts, dim)
        inner = dim.variables & self._ranges.keys()
        if not inner:
            return dim
        self.bounds.update(dict.fromkeys(COUNTER if s in self._counters else DATA for s in sorted(inner, key=lambda s: s.id)))
        return upper_bound(dim, {s: extent for s, extent in self._ranges.items() if s in inner}, self.facts)


def _reads(step: CostedStep) -> frozenset[Symbol]:
    if step.loop is None:
        return step.reads
    return step.reads.union(step.loop.initial, step.results, *map(_reads, step.inside))


def _total(dims: Iterable[Dim]) -> Dim:
    return sum(dims, start=_ZERO)


def _undominated(dims: Iterable[Dim]) -> tuple[Dim, ...]:
    """Without those that another one is never below, as far as the coefficients show."""
    kept: list[Dim] = []
    for dim in dict.fromkeys(dims):
        if not any(_never_below(other, dim) for other in kept):
            kept = [other for other in kept if not _never_below(dim, other)] + [dim]
    return tuple(kept)


def _never_below(a: Dim, b: Dim) -> bool:
    difference = a - b
    return all(c > 0 for c in difference.mapping.values()) and all(isinstance(atom, Symbol) for atom in difference.atoms)
