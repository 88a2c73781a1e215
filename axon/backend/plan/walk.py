"""One way to run blocks on the host: items in order, loops around them, and what they make where it is wanted.

A block is that of a plan or of a program in parts; a backend says how an item runs, where values lie, and how one is copied.

Note [Where values lie]
    Who wants a result says so by what makes room for it, and whichever item makes the result last makes it there. Everything else
    lies where the backend's `allocate` puts it, and is forgotten after its last reader: its memory is free then. The states of a
    loop therefore alternate between two places each, and those of an `unfold` lie in the stack of all of them from the start,
    where items can write there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Generic, TypeVar

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Loop, Value
from axon.core.walk import trip_of
from axon.shapes.dimension import Dim

H = TypeVar("H")
Make = Callable[[tuple[int, ...]], H]  # room for a value of this shape


@dataclass(frozen=True, slots=True)
class Lives:
    """Of a block: what of it nobody reads after each of its items, which of its results it has made, and all that it reads."""

    items: tuple[Any, ...]
    results: tuple[Symbol, ...]
    dying: tuple[frozenset[Symbol], ...]
    made: tuple[Symbol, ...]
    needs: frozenset[Symbol]


def lives(
    items: Sequence[Any],
    results: Sequence[Symbol],
    reads: Callable[[Any], Iterable[Symbol]],
    writes: Callable[[Any], Iterable[Symbol]],
) -> Lives:
    last: dict[Symbol, int] = {}
    for position, item in enumerate(items):
        last.update((symbol, position) for symbol in writes(item))
        last.update((symbol, position) for symbol in reads(item) if symbol in last)
    dying: list[set[Symbol]] = [set() for _ in items]
    for symbol, position in last.items():
        if symbol not in results:
            dying[position].add(symbol)
    own = tuple(symbol for symbol in dict.fromkeys(results) if symbol in last)
    needs = frozenset(results).union(*map(reads, items))
    return Lives(tuple(items), tuple(results), tuple(map(frozenset, dying)), own, needs)


def steps_of(trip: Dim, sizes: Mapping[Symbol, int]) -> int:
    """A trip count that sizes decide, as an i32."""
    return max(0, (trip.evaluate(sizes) + 2**31) % 2**32 - 2**31)


@dataclass(slots=True)
class Walk(ABC, Generic[H]):
    """One call: the dimensions and tensors known so far."""

    sizes: dict[Symbol, int]
    held: dict[Symbol, H]

    # ── what backends differ in ─────────────────────────────────────────────────────────────────────────────────────────

    @abstractmethod
    def lives(self, block: Any) -> Lives: ...

    @abstractmethod
    def item(self, item: Any, wanted: dict[Symbol, Make[H]], dying: frozenset[Symbol]) -> None:
        """Run an item: what it makes is held then. What it makes where it is wanted, it takes out of `wanted`."""

    @abstractmethod
    def allocate(self, value: Value, shape: tuple[int, ...]) -> H:
        """Room for a value until it is forgotten."""

    @abstractmethod
    def copied(self, held: H, make: Make[H]) -> H:
        """A copy of a tensor in the room that is made for it."""

    @abstractmethod
    def slot(self, stack: H, step: int) -> tuple[Make[H], bool]:
        """Room for the state of a step in the stack of all of them, and whether items can write there."""

    @abstractmethod
    def number(self, symbol: Symbol) -> int:
        """A trip count that data decide."""

    @abstractmethod
    def flag(self, held: H) -> bool:
        """The condition of a loop, which data decide."""

    # ── what they share ─────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, block: Any, makers: Sequence[Make[H] | None]) -> list[H]:
        """Run a block; each result lies where its maker wants it, if it has one. See Note [Where values lie]."""
        found = self.lives(block)
        wanted: dict[Symbol, Make[H]] = {}
        first: dict[Symbol, int] = {}
        for number, (symbol, make) in enumerate(zip(found.results, makers, strict=True)):
            if make is not None and symbol not in wanted:
                wanted[symbol], first[symbol] = make, number
        for item, dying in zip(found.items, found.dying, strict=True):
            self.item(item, wanted, dying)
            for symbol in dying:
                self.held.pop(symbol, None)
        results = []
        for number, (symbol, make) in enumerate(zip(found.results, makers, strict=True)):
            held = self.held[symbol]
            direct = first.get(symbol) == number and symbol not in wanted
            results.append(held if make is None or direct else self.copied(held, make))
        for symbol in found.made:
            self.held.pop(symbol, None)
        return results

    def loop(self, op: Loop, body: Any, wanted: dict[Symbol, Make[H]], dying: frozenset[Symbol]) -> None:
        """A loop or an unfold, step by step."""
        trip = self.trip(op)
        states = [self.held[symbol] for symbol in op.initial]
        for symbol in dying.intersection(op.initial).difference(self.lives(body).needs):  # after the first step nobody needs it
            self.held.pop(symbol, None)
        stacks = [self.room(out, wanted) for out in op.outs] if op.stacked else []
        for step in range(trip):
            if op.conditional and not self.flag(states[-1]):
                break
            self.begin(op, step)
            self.held.update((state.symbol, held) for state, held in zip(op.states, states, strict=True))
            makers: list[Make[H] | None] = [None] * len(states)
            slots = [self.slot(stack, step) for stack in stacks]
            if op.stacked:
                makers = [make if writable else None for make, writable in slots]
            elif step == trip - 1:
                makers = [wanted.pop(out.symbol) if out.symbol in wanted else None for out in op.outs]
            states = self.block(body, makers)
            for (make, writable), held in zip(slots, states, strict=False):
                if not writable:
                    self.copied(held, make)
        for symbol in (op.counter, *(state.symbol for state in op.states)):
            self.held.pop(symbol, None)
        self.sizes.pop(op.counter, None)
        if op.stacked:
            return
        for out, held in zip(op.outs, states, strict=True):  # still wanted is what had no last step
            self.held[out.symbol] = self.copied(held, wanted.pop(out.symbol)) if out.symbol in wanted else held

    def begin(self, op: Loop, step: int) -> None:
        """The counter of a step."""
        self.sizes[op.counter] = step

    def trip(self, op: Loop) -> int:
        """How many steps a loop takes: an i32, computed from sizes or read from data."""
        trip = trip_of(op)
        if isinstance(trip, Dim):
            return steps_of(trip, self.sizes)
        return max(0, self.number(trip))

    def shape(self, value: Value) -> tuple[int, ...]:
        return tuple([max(0, d.evaluate(self.sizes)) for d in value.shape])

    def room(self, value: Value, wanted: dict[Symbol, Make[H]]) -> H:
        """Room for a value, where it is wanted if it is; it is held from now on."""
        shape = self.shape(value)
        make = wanted.pop(value.symbol, None)
        held = self.held[value.symbol] = self.allocate(value, shape) if make is None else make(shape)
        return held
