"""What the roles of a kernel do when: the simulator with a clock, for pictures.

The roles and engines are `simulate`'s, and so is what they wait for; here nothing happens at random, but as soon as it can. What a
step takes is estimated from the rates and latencies below. A picture shows who waits for whom,
not how long a kernel takes: `explain` predicts that, with what this leaves out (power, caches, other blocks).
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from itertools import count
from random import Random
from typing import Any

import numpy as np

from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.target import HOPPER, Target
from axon.backend.gpu.proof.accumulate import rounded
from axon.backend.gpu.proof.simulate import _Agent, _Cluster
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.roles.flow import Instruction
from axon.backend.gpu.runtime.prepare import blocks, is_empty, prepare
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import Tiled
from axon.backend.gpu.tile.ir import Store
from axon.backend.gpu.tile.schedule import FEED_RATE, RATE, TileMapping
from axon.backend.gpu.tile.schedule_file import NOTHING, Fixed, Schedule
from axon.backend.gpu.tile.segments import even_starts
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Program

# Of one multiprocessor of an H200, beside the rates that `schedule` has for a step.
WEIGHT_RATE = 1.5e10  # scores per second that a warpgroup turns into weights
COPY_LATENCY = 0.6e-6  # seconds from the issue of a bulk copy to its first bytes in shared memory, from the L2 cache
STORE_LATENCY = 0.5e-6  # until a bulk store has read its buffer and been taken
ISSUE = 0.02e-6  # of a copy or a product by the thread that asks for it
RESULT_RATE = 60e9  # elements per second that a warpgroup computes in an epilogue and writes to shared memory or beyond
BIG = 1 << 20  # stands for an integer argument whose value is not given


@dataclass(frozen=True, slots=True)
class Stretch:
    """Seconds from `start` to `end` in which a lane does one thing. `stage` is the ring's slot that it is about."""

    start: float
    end: float
    kind: str  # wait copy product compute store
    text: str
    stage: int | None = None


@dataclass(frozen=True, slots=True)
class Lane:
    """A role or an engine of one thread block."""

    name: str
    stretches: tuple[Stretch, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """The first `seconds` of the first block of a kernel; `stages` of its widest ring. `number` counts the kernels
    with roles from 1."""

    number: int
    kernel: Tiled
    mapping: TileMapping
    lanes: tuple[Lane, ...]
    seconds: float
    stages: int


def timelines(
    program: Program, sizes: Mapping[Symbol, int], seconds: float, schedule: Schedule = NOTHING, target: Target = HOPPER
) -> tuple[Timeline, ...]:
    """For each GPU kernel of a program that has roles at these sizes, what its first block does in its first seconds; for empty
    results nothing.

    Raises `Unsupported` for what has no kernel.
    """
    out: list[Timeline] = []
    number = 0
    for _, executable, own in Ordered(program, target, schedule).at(sizes).foreseen(sizes):
        builder = executable.serving({}, own)
        for kernel, fixed in zip(builder.planned.kernels, builder.fixed, strict=True):
            if isinstance(kernel, Nest):
                continue
            number += 1
            if not is_empty(kernel, own):
                out.append(_timeline(number, kernel, builder.planned, own, seconds, fixed, target))
    return tuple(out)


def _timeline(
    number: int, kernel: Tiled, planned: Planned, sizes: Mapping[Symbol, int], seconds: float, fixed: Fixed, target: Target
) -> Timeline:
    values, lying = planned.values, planned.lying(sizes)
    ready = prepare(kernel, lying, sizes)
    mapping = fixed.ranked(ready.problem, traits(ready.kernel), target)[0]
    made = stages(ready.kernel, mapping, target, values, ready.granted).barriers
    held = {v.symbol: _stand_in(v.element, lying[v.symbol].shape) for v in values}
    if isinstance(kernel, Stream):
        held |= {reach.table.symbol: _sees_all(lying[reach.table.symbol].shape) for reach in kernel.reaches}
    if isinstance(kernel, MatrixProduct) and kernel.segments is not None:
        table = kernel.segments.start.symbol
        starts = even_starts(lying[table].shape[0], kernel.depth.extent.evaluate(sizes))
        held[table] = np.array(starts, np.int32)
    clusters = max(1, blocks(mapping, ready.problem, target) // mapping.cluster)
    run = _Timed(made, held, sizes, clusters, seconds)
    run.run()
    return Timeline(number, kernel, mapping, run.lanes(), run.ended, max(ring.depth for ring in made.rings))


def _stand_in(element: Element, shape: tuple[int, ...]) -> Any:
    """An array that takes no memory: of its numbers nothing depends but the bounds of a mask."""
    value = BIG if element.is_integer and element.bits >= 32 and not shape else 0
    return np.broadcast_to(np.full((), value, element.dtype), shape)


def _sees_all(shape: tuple[int, ...]) -> Any:
    """A table by which each row sees all keys, after comparing them."""
    return np.broadcast_to(np.array([0, BIG, BIG, 0], np.int32), shape)


class _Timed(_Cluster):
    """The first cluster of a grid, with a clock. Only what its first block does is kept."""

    def __init__(
        self, program: BarrierProgram, tensors: Mapping[Symbol, Any], sizes: Mapping[Symbol, int], clusters: int, limit: float
    ) -> None:
        super().__init__(program, tensors, sizes, Random(0), 0, clusters, rounded)
        self.limit = limit
        self.now = self.ended = 0.0
        self.numbers = count()
        self.queue: list[tuple[float, int, Callable[[], None]]] = []
        self.waiting: IdentityMap[_Agent, tuple[float, Instruction]] = IdentityMap()
        self.free: dict[tuple[str, int], float] = {}  # when an engine of a block is free again
        self.kept: dict[str, list[Stretch]] = {"copies": [], "products": [], "stores": []}
        for agent in self.agents:
            if agent.block == 0:
                self.kept[self.lane(agent)] = []

    def lane(self, agent: _Agent) -> str:
        role = agent.name.partition(" ")[0]
        return role if sum(a.name.startswith(f"{role} ") and a.block == 0 for a in self.agents) == 1 else f"{role} {agent.instance}"

    def lanes(self) -> tuple[Lane, ...]:
        roles = [name for name in self.kept if name not in ("copies", "products", "stores")]
        order = [*roles[:1], "copies", *roles[1:], "products", "stores"]
        return tuple(Lane(name, tuple(self.kept[name])) for name in order if self.kept[name])

    # ── the clock ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self) -> None:
        for agent in self.agents:
            self.at(0.0, lambda agent=agent: self.go(agent))  # type: ignore[misc]
        while self.queue and self.queue[0][0] <= self.limit:
            self.now, _, action = heapq.heappop(self.queue)
            action()
        for agent, (since, op) in self.waiting.items():
            self.keep(self.lane(agent), agent.block, since, min(self.now, self.limit), "wait", _waits(op), None)
        self.ended = max((s.end for lane in self.kept.values() for s in lane), default=0.0)

    def at(self, time: float, action: Callable[[], None]) -> None:
        heapq.heappush(self.queue, (time, next(self.numbers), action))

    def wake(self) -> None:
        """Something was done that others may wait for."""
        for agent in self.waiting:
            self.at(self.now, lambda agent=agent: self.go(agent) if agent in self.waiting else None)  # type: ignore[misc]

    def keep(self, lane: str, block: int, start: float, end: float, kind: str, text: str, stage: int | None) -> None:
        if block == 0 and end > start:
            self.kept[lane].append(Stretch(start, end, kind, text, stage))

    def go(self, agent: _Agent) -> None:
        """Let an agent go on until it must wait or something takes time."""
        while agent.at < len(agent.code):
            op = agent.code[agent.at]
            copies, products, stores = len(self.copies), len(agent.products), len(agent.stores)
            stage = self.stage(agent, op)
            if not self.step(agent):
                self.waiting.setdefault(agent, (self.now, op))
                return
            if agent in self.waiting:
                since, waited = self.waiting.pop(agent)
                self.keep(self.lane(agent), agent.block, since, self.now, "wait", _waits(waited), stage)
            if len(self.copies) > copies and isinstance(op, b.Copy):
                self.copied(agent, op, self.copies[copies:], stage)
                del self.copies[copies:]
            for _ in range(len(agent.products) - products):
                self.multiplied(agent, op, stage)
            for _ in range(len(agent.stores) - stores):
                self.stored(agent, op)
            if isinstance(op, b.Expect | b.Release | b.PassTurn | b.Depart):
                self.wake()
            takes, kind, text = self.cost(op)
            if takes:
                self.keep(self.lane(agent), agent.block, self.now, self.now + takes, kind, text, stage)
                self.at(self.now + takes, lambda: self.go(agent))
                return
        self.wake()

    def stage(self, agent: _Agent, op: Instruction) -> int | None:
        match op:
            case b.Copy() | b.Await() | b.Expect():
                return self.ahead(agent, op)[0]
            case b.Product():
                return agent.cursors[op.right.ring.symbol][0]
            case _:
                return None

    # ── engines ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def copied(self, agent: _Agent, op: b.Copy, landing: list[Callable[[], None]], stage: int | None) -> None:
        """The block's copies share its feed; a copy to every block of a cluster is loaded once."""
        start = max(self.now, self.free.get(("feed", agent.block), 0.0))
        end = start + op.bytes / FEED_RATE
        self.free["feed", agent.block] = end
        name = op.descriptor.tensor.name
        self.keep("copies", agent.block, start + COPY_LATENCY, end + COPY_LATENCY, "copy", f"{name}, {op.bytes:,} bytes", stage)

        def land() -> None:
            for one in landing:
                one()
            self.wake()

        self.at(end + COPY_LATENCY, land)

    def multiplied(self, agent: _Agent, op: Instruction, stage: int | None) -> None:
        """The products of a block take turns at its matrix units; a commit is over with what was issued before it."""
        start = max(self.now, self.free.get(("products", agent.block), 0.0))
        end = start
        if isinstance(op, b.Product):
            rows, columns = 64, op.accumulator.shape[1]
            depth = next(n for axis, n in zip(op.right.tile.axes, op.right.tile.shape, strict=True) if axis == op.over)
            end = start + 2.0 * rows * columns * depth * op.right.tile.element.bits / 16 / RATE
            self.free["products", agent.block] = end
            text = f"{self.lane(agent)}: {rows} × {columns} × {depth}"
            self.keep("products", agent.block, start, end, "product", text, stage)

        def done() -> None:
            event = agent.products.pop(0)
            if event is not None:
                event()
            self.wake()

        self.at(end, done)

    def stored(self, agent: _Agent, op: Instruction) -> None:
        size = _sent(op)
        start = max(self.now, self.free.get(("stores", agent.block), 0.0))
        end = start + size / FEED_RATE
        self.free["stores", agent.block] = end
        text = f"{op.descriptor.tensor.name}, {size:,} bytes" if isinstance(op, b.Send) else "store"
        self.keep("stores", agent.block, start, end + STORE_LATENCY, "store", text, None)

        def left() -> None:
            agent.stores.pop(0)()
            self.wake()

        self.at(end + STORE_LATENCY, left)

    def cost(self, op: Instruction) -> tuple[float, str, str]:
        """What an operation takes of its role's own time."""
        match op:
            case b.Copy():
                return ISSUE, "copy", f"asks for {op.descriptor.tensor.name}"
            case b.Product():
                return ISSUE, "product", "issues a product"
            case b.Write(width=width) | b.Scatter(width=width):
                return 64 * width / RESULT_RATE, "compute", "computes results"
            case t.Fold(scores=scores, others=others):
                return 64 * scores.shape[1] * (1 + len(others)) / WEIGHT_RATE, "compute", "scores to weights"
            case t.Rescale(accumulator=accumulator) | t.Promote(accumulator=accumulator):
                return 64 * accumulator.shape[1] / RESULT_RATE / 8, "compute", "corrects its sums"
            case _:
                return 0.0, "", ""

    # Numbers are left out: what happens when does not depend on them, the bounds of masks apart.

    def copy(self, agent: _Agent, op: b.Copy) -> None:
        stage, _ = self.ahead(agent, op)
        for block in range(self.program.cluster) if op.multicast else (agent.block,):
            barrier = self.barriers[block, op.ring.symbol, "full", stage]
            self.copies.append(lambda barrier=barrier: barrier.arrive(-op.bytes, 0))  # type: ignore[misc]

    def product(self, agent: _Agent, op: b.Product) -> None:
        agent.products.append(lambda: None)

    def work(self, agent: _Agent, op: Any, block: int) -> None:
        pass

    def result(self, agent: _Agent, store: Store, block: int, column: int, width: int) -> Any:
        return np.zeros((64, width), np.float32)

    def put(self, tensor: Symbol, start: list[int], box: list[int], axes: tuple[Symbol, ...], values: Any) -> None:
        pass


def _sent(op: Instruction) -> int:
    """What a bulk store moves."""
    return int(np.prod(op.descriptor.box)) * 2 if isinstance(op, b.Send) else 0


def _waits(op: Instruction) -> str:
    match op:
        case b.Await(ring=ring, side=side):
            return f"waits for {'an' if side == 'empty' else 'a'} {side} slot of {ring.symbol.name}"
        case b.Retire():
            return "waits for products"
        case b.Reclaim():
            return "waits for a buffer that a store still reads"
        case b.Drain():
            return "waits for its stores"
        case b.Turn() | b.LastTurn():
            return "waits for its turn"
        case b.Depart():
            return "waits for the cluster"
        case _:
            return "waits"
