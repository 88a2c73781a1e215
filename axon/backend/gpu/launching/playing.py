"""Scripts played: kernels that follow each other are launched as one, and the host does nothing between but to point registers.

Note [Graphs of steps]
    Kernels that follow each other are launched one by one at first, and as a CUDA graph when they were launched some times at the
    same addresses. Of a loop's steps there are a few kinds by where their states lie: each has a graph of its own. Where addresses
    are always others, as in the stack of an unfold, the graph that was used longest ago is told of them; see Note [Replays] in
    `launches`. Where there is no memory for a graph, there is none.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from threading import Lock
from typing import Protocol, assert_never

from axon.backend.gpu.launching.driver import Driver, OutOfDeviceMemory
from axon.backend.gpu.launching.launches import Replay
from axon.backend.gpu.launching.scripts import Action, Alternating, Move, Place, Repeat, Script, Stacked, Together
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.shapes.dimension import Dim

ONE_BY_ONE = 3  # launches at the same addresses before there is a graph: that takes as long as some five of each kernel
FEWEST = 3  # kernels that are worth a graph
KINDS = 8  # of the same kernels at other addresses, each with its own graph
NEW_KINDS = 2  # the same while no addresses came again


class Host(Protocol):
    """What the host knows and does in a call."""

    sizes: dict[Symbol, int]

    def steps(self, trip: Dim | Symbol) -> int | None:
        """A trip count; None if data decide it."""

    def read(self, address: int, element: Element, what: str = ...) -> int:
        """A number that the GPU computes. The host waits for it."""


class Player:
    """A script, and what is kept of it between calls. One call at a time."""

    def __init__(self, driver: Driver, script: Script, context: int) -> None:
        self.driver, self.script, self.context = driver, script, context
        self.lock = Lock()
        self.kept: IdentityMap[Together, Kinds] = IdentityMap()

    def __call__(self, host: Host, bases: Sequence[int], stream: int) -> None:
        """Put everything on the stream; `bases` are the addresses, of registers anything."""
        _Playing(self, host, list(bases), stream).all(self.script.actions)

    def kinds(self, together: Together) -> Kinds:
        found = self.kept.get(together)
        if found is None:
            found = self.kept[together] = Kinds(self.driver, together, self.context)
        return found

    @property
    def has_graphs(self) -> bool:
        return any(kinds.has_graphs for kinds in self.kept.values())

    def forget(self, stream: int) -> None:
        """Drop all graphs, which are of no stream. Later calls make others."""
        self.kept = IdentityMap()


class Kinds:
    """Kernels that follow each other, at the addresses at which they were launched last. See Note [Graphs of steps]."""

    def __init__(self, driver: Driver, together: Together, context: int) -> None:
        self.driver, self.together, self.context = driver, together, context
        self.replays: OrderedDict[tuple[int, ...], Replay] = OrderedDict()  # what was used longest ago first
        self.again = False  # whether any were used again
        self.has_graphs = False

    def __call__(self, bases: list[int], sizes: dict[Symbol, int], stream: int) -> None:
        together = self.together
        addresses = [bases[base] for base in together.bases]
        addresses.append(stream)
        key = tuple(addresses)
        replay = self.replays.get(key)
        if replay is None:
            replay = self.replays[key] = self._other(addresses)
        else:
            self.again = True
            self.replays.move_to_end(key)
        now = sizes if together.changing else None
        try:
            replay(addresses, stream, together.changing, now)
        except OutOfDeviceMemory:
            if replay.after > 0:  # it was launched without a graph
                raise
            replay.after = math.inf
            replay(addresses, stream, together.changing, now)
        self.has_graphs = self.has_graphs or replay.graph is not None

    def _other(self, addresses: list[int]) -> Replay:
        """What is launched at addresses that were not seen lately."""
        count = len(self.replays)
        if count >= KINDS or (count >= NEW_KINDS and not self.again):
            return self.replays.popitem(last=False)[1]
        launches = self.together.launches
        after = math.inf if len(launches) < FEWEST else ONE_BY_ONE
        return Replay(self.driver, launches, len(addresses), self.context, None, after=after)


class _Playing:
    """One call."""

    def __init__(self, player: Player, host: Host, bases: list[int], stream: int) -> None:
        self.player, self.host, self.bases, self.stream = player, host, bases, stream

    def all(self, actions: Sequence[Action]) -> None:
        for action in actions:
            match action:
                case Together():
                    self.player.kinds(action)(self.bases, self.host.sizes, self.stream)
                case Move(target=target, source=source, size=size):
                    self.player.driver.move(self.at(target), self.at(source), size, self.stream)
                case Repeat():
                    self.repeat(action)
                case _:
                    assert_never(action)

    def at(self, place: Place) -> int:
        return self.bases[place.base] + place.offset

    def repeat(self, loop: Repeat) -> None:
        """See Note [States of a script]."""
        trip, bases, sizes = self.trip(loop), self.bases, self.host.sizes
        alternating = [self.turns(state, loop, trip) for state in loop.states if isinstance(state, Alternating)]
        stacked = [state for state in loop.states if isinstance(state, Stacked)]
        stacks = [(s.source, s.target, self.at(s.initial) - s.low, self.at(s.stack) - s.low, s.step) for s in stacked]
        slices = [(one.target, self.at(one.stack), one.step) for one in loop.slices]
        step = 0
        while step < trip:
            for source, target, initial, even, odd in alternating:
                bases[target] = odd if step & 1 else even
                bases[source] = (even if step & 1 else odd) if step else initial
            for source, target, initial, begin, size in stacks:
                bases[target] = begin + step * size
                bases[source] = begin + (step - 1) * size if step else initial
            if loop.condition is not None and not self.flag(loop.condition[1 if step else 0]):
                break
            for target, begin, size in slices:
                bases[target] = begin + step * size
            if loop.several is not None and step and trip - step >= loop.several[1]:
                together, count = loop.several
                self.player.kinds(together)(bases, sizes, self.stream)
                step += count
                continue
            sizes[loop.counter] = step
            self.all(loop.body if step or loop.first is None else loop.first)
            step += 1
        sizes.pop(loop.counter, None)
        if not step:
            self.all(loop.none)
        elif loop.condition is not None and step % 2 == 0:
            self.all([Move(s.last, s.other, s.size) for s in loop.states if isinstance(s, Alternating)])

    def turns(self, state: Alternating, loop: Repeat, trip: int) -> tuple[int, int, int, int, int]:
        """The registers of a state, where it is read in the first step, and where even and odd steps write it."""
        last, other = self.at(state.last), self.at(state.other)
        if loop.condition is None and trip % 2 == 0:
            last, other = other, last
        return state.source, state.target, self.at(state.initial), last, other

    def flag(self, place: Place) -> bool:
        return bool(self.host.read(self.at(place), Element.BOOL, "whether a loop goes on"))

    def trip(self, loop: Repeat) -> int:
        found = self.host.steps(loop.trip)
        if found is not None:
            return found
        assert loop.number is not None, "a number that the host does not know lies somewhere"
        place, element = loop.number
        return max(0, self.host.read(self.at(place), element))
