"""What is known to have happened before what: states of the proof, where each agent stands and how each barrier counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.roles.flow import Instruction, flatten
from axon.base.data import dataclass, field
from axon.base.names import Symbol

Place: TypeAlias = "tuple[int, Symbol, b.Side, int]"  # block, ring, side, stage of a barrier
Facts: TypeAlias = int  # a set of facts, one bit each


@dataclass(slots=True)
class Barrier:
    count: int
    parity: int  # of the newest complete phase; 1 before the first
    pending: int
    bytes: int
    gathered: Facts  # what arrivals of the open phase knew
    released: Facts  # what arrivals of the newest complete phase knew
    # Where consumers have tiles of their own: whose the open phase is about; and the newest complete one, while not all of its
    # agents have seen it: so many have.
    filling: int | None = None
    owner: int | None = None
    seen: int = 0

    def copy(self) -> Barrier:
        counts = (self.count, self.parity, self.pending, self.bytes, self.gathered, self.released)
        return Barrier(*counts, self.filling, self.owner, self.seen)


@dataclass(frozen=True, slots=True)
class Flight:
    """A group of products: what was known at issue, what it reads (to be known once retired), the register tiles it uses."""

    known: Facts = 0
    reads: tuple[Facts, ...] = ()
    registers: frozenset[Symbol] = frozenset()

    def knowing(self, known: Facts) -> Flight:
        return Flight(known, self.reads, self.registers)


@dataclass(frozen=True, slots=True)
class Who:
    """An agent's identity."""

    block: int
    role: int
    instance: int
    leader: bool
    name: str
    code: tuple[Instruction, ...]
    peers: tuple[int, ...]  # the agents of its warpgroup, itself included


def agents(program: BarrierProgram) -> Iterator[Who]:
    """Each warpgroup is two, its first thread and the others; a role of one thread is one."""
    number = 0
    for block in range(program.cluster):
        for at, role in enumerate(program.roles):
            for instance in range(role.instances):
                name = f"{role.name} {instance}" if role.instances > 1 else role.name
                name += f" of block {block}" if program.cluster > 1 else ""
                leaders = (True,) if role.elected else (True, False)
                peers = tuple(range(number, number + len(leaders)))
                for leader in leaders:
                    part = "" if role.elected else (", first thread" if leader else ", other threads")
                    code = flatten(role.body, alone=leader and instance == 0)
                    yield Who(block, at, instance, leader, name + part, code, peers)
                number += len(leaders)


@dataclass(slots=True)
class Agent:
    at: int
    decided: int  # how many loop decisions it has followed, relative
    steps: tuple[tuple[Symbol, int], ...]
    cursors: dict[Symbol, tuple[int, int, int]]  # stage, wraps mod 2, pieces passed (relative)
    knows: Facts
    groups: tuple[Flight, ...]  # committed products that may still run, the oldest first
    open: Flight | None  # products since the last commit
    fenced: bool  # a product fence since the last commit
    stores: tuple[int, ...]  # facts of stores not known to have read their buffer
    holds: frozenset[Symbol] = frozenset()  # the register tiles, and corrections, that something has computed and nothing used up
    tile: int = -1  # the consumer that its current tile is for, if these have tiles of their own; before the first, the last one

    def copy(self) -> Agent:
        flights = (self.knows, self.groups, self.open, self.fenced, self.stores, self.holds, self.tile)
        return Agent(self.at, self.decided, self.steps, dict(self.cursors), *flights)


@dataclass(slots=True)
class State:
    agents: list[Agent]
    barriers: dict[Place, Barrier]
    content: dict[tuple[object, ...], object]  # what a stage or a slot holds
    decisions: list[bool]
    turns: dict[tuple[int, int], int] = field(default_factory=dict)  # agents that have arrived for a block's consumer's turn
    passed: dict[tuple[int, int], Facts] = field(default_factory=dict)  # what they knew
    asked: list[Symbol | None] = field(default_factory=list)  # which loop each decision is about: over an axis, or over tiles

    def copy(self) -> State:
        return State(
            [a.copy() for a in self.agents],
            {k: v.copy() for k, v in self.barriers.items()},
            dict(self.content),
            list(self.decisions),
            dict(self.turns),
            dict(self.passed),
            list(self.asked),
        )


def knowledge(state: State) -> tuple[Facts, ...]:
    """What every agent, product and barrier knows, in a fixed order."""
    out = []
    for agent in state.agents:
        out += [agent.knows, *(flight.known for flight in agent.groups), *((agent.open.known,) if agent.open else ())]
    for barrier in state.barriers.values():
        out += [barrier.gathered, barrier.released]
    out += state.passed.values()
    return tuple(out)


def learn(state: State, knowledge: tuple[Facts, ...]) -> None:
    """Put knowledge in the order of `knowledge` back into a state."""
    rest = iter(knowledge)
    for agent in state.agents:
        agent.knows = next(rest)
        agent.groups = tuple(flight.knowing(next(rest)) for flight in agent.groups)
        if agent.open:
            agent.open = agent.open.knowing(next(rest))
    for barrier in state.barriers.values():
        barrier.gathered, barrier.released = next(rest), next(rest)
    state.passed = {key: next(rest) for key in state.passed}
