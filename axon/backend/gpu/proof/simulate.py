"""Run a barrier program on the CPU, on real data, with roles and engines interleaved at random.

Every warpgroup is an agent; copies, products and stores are events that happen at any time between their issue and what waits for
them. Shared memory starts as NaN and is addressed in bytes, as the hardware would, except for the swizzle, which permutes within a
panel on both sides alike. A wrong count, parity or order shows as a deadlock or as a wrong result in some interleaving: `verify`
is the proof, this is the check that the proof is about the right program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from random import Random
from typing import Any, TypeAlias, assert_never

import numpy as np

from axon.backend.gpu.layout.pages import REACH, Pages
from axon.backend.gpu.layout.products import MULTIPLIED, key_of
from axon.backend.gpu.layout.scales import Scale
from axon.backend.gpu.proof.accumulate import Accumulate, rounded, wrapped
from axon.backend.gpu.proof.values import Values
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Coordinate, Ring
from axon.backend.gpu.roles.flow import (
    BeginSteps,
    Instruction,
    Jump,
    MoreSteps,
    NextStep,
    NextTile,
    Unless,
    UnlessOwn,
    UnlessPiece,
    flatten,
)
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.bounds import BLOCK, Bounds
from axon.backend.gpu.tile.ir import Store, Tile
from axon.backend.gpu.tile.segments import Segments
from axon.backend.gpu.tile.stream import Stream
from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Scalar
from axon.shapes.dimension import Dim

Array = Any  # numpy.ndarray
Act: TypeAlias = (  # operations that wait for nobody here, where products are computed one after the other
    "b.Look | b.Expect | b.Copy | b.Advance | b.Release | b.Clear | b.Evaluate | b.ProductFence | b.Product | b.Commit | t.Work"
    " | b.PassTurn | b.Meet | b.Write | b.AsyncFence | b.Send | b.Scatter"
)


class SimulationError(Exception):
    """The program deadlocked or touched something it must not, in this interleaving."""


def simulate(
    program: BarrierProgram,
    tensors: Mapping[Symbol, Array],
    sizes: Mapping[Symbol, int],
    *,
    seed: int = 0,
    clusters: int = 2,
    accumulate: Accumulate = rounded,
) -> None:
    """Run the program; results are written into their arrays in `tensors`, in place.

    `tensors` holds NumPy arrays of every tensor, `sizes` every dimension; `clusters` is the size of the grid; `accumulate` is how
    products are summed. Raises `SimulationError` where the program goes wrong in the interleaving that `seed` picks.
    """
    for index in range(clusters):
        _Cluster(program, tensors, sizes, Random(f"{seed}.{index}"), index, clusters, accumulate).run()


@dataclass(slots=True)
class _Barrier:
    count: int
    parity: int = 1
    pending: int = 0
    bytes: int = 0

    def __post_init__(self) -> None:
        self.pending = self.count

    def arrive(self, size: int, arrivals: int) -> None:
        self.bytes += size
        self.pending -= arrivals
        if self.pending < 0:
            raise SimulationError("a barrier has more arrivals than it counts")
        if self.pending == 0 and self.bytes == 0:
            self.parity ^= 1
            self.pending = self.count


@dataclass(slots=True)
class _Agent:
    block: int
    instance: int
    code: tuple[Instruction, ...]
    name: str
    at: int = 0
    tile: int | None = None
    owner: int = 0  # the consumer that its next tile is for, if consumers have tiles of their own
    own: bool = True  # whether the current one is its
    pieces: dict[Symbol, int] = field(default_factory=dict)
    cursors: dict[Symbol, list[int]] = field(default_factory=dict)  # stage, wraps
    accumulators: dict[tuple[Symbol, int], Array] = field(default_factory=dict)
    products: list[Callable[[], None] | None] = field(default_factory=list)  # None: a commit
    stores: list[Callable[[], None]] = field(default_factory=list)
    blocks: int = 1
    limits: tuple[int, int, int, int] = (0, 0, 0, 0)  # pieces of the streamed axis: some from, to, every from, to
    rows: dict[tuple[Symbol, int], Array] = field(default_factory=dict)  # one value per row: statistics, corrections
    looked: dict[tuple[Symbol, Coordinate], int] = field(default_factory=dict)  # pages, by places


class _Cluster:
    def __init__(
        self,
        program: BarrierProgram,
        tensors: Mapping[Symbol, Array],
        sizes: Mapping[Symbol, int],
        random: Random,
        index: int,
        clusters: int,
        accumulate: Accumulate,
    ) -> None:
        self.program, self.tensors, self.sizes, self.random = program, tensors, sizes, random
        self.index, self.clusters, self.accumulate = index, clusters, accumulate
        self.barriers = {
            (block, ring.symbol, side, stage): _Barrier(ring.full if side == "full" else ring.empty)
            for block in range(program.cluster)
            for ring in program.rings
            for side in ("full", "empty")
            for stage in range(ring.depth)
        }
        # Stages by bytes, of which each element has its first, buffers as they are stored.
        self.stages = {
            (block, ring.symbol): np.full((ring.depth, ring.stage), np.nan, np.float32)
            for block in range(program.cluster)
            for ring in program.rings
        }
        self.slots: dict[tuple[int, Symbol, int, int], Array] = {}
        self.turns: dict[tuple[int, int], int] = {}
        self.copies: list[Callable[[], None]] = []
        self.agents = []
        for block in range(program.cluster):
            for role in program.roles:
                for instance in range(role.instances):
                    code = flatten(role.body, alone=instance == 0)
                    agent = _Agent(block, instance, code, f"{role.name} {instance} of block {block}")
                    agent.cursors = {r.symbol: [0, 0] for r in program.rings}
                    agent.blocks = program.blocks
                    self.agents.append(agent)

    def run(self) -> None:
        while True:
            ready = [a for a in self.agents if a.at < len(a.code)]
            moves: list[Callable[[], bool]] = [lambda a=a: self.step(a) for a in ready]  # type: ignore[misc]
            moves += [lambda i=i: self.happen(self.copies, i) for i in range(len(self.copies))]  # type: ignore[misc]
            for agent in self.agents:
                if agent.products:
                    moves.append(lambda a=agent: self.happen(a.products, 0))  # type: ignore[misc]
                if agent.stores:
                    moves.append(lambda a=agent: self.happen(a.stores, 0))  # type: ignore[misc]
            if not moves:
                return
            self.random.shuffle(moves)
            if not any(move() for move in moves):
                raise SimulationError("deadlock: " + "; ".join(f"{a.name} at {type(a.code[a.at]).__name__}" for a in ready))

    def happen(self, events: Any, index: int) -> bool:
        """Let an engine do what was asked of it."""
        event = events.pop(index)
        if event is not None:
            event()
        return True

    def step(self, agent: _Agent) -> bool:
        """Run an agent to its next operation that others can see; False if it must wait."""
        op = agent.code[agent.at]
        match op:
            case Jump(to=to):
                agent.at = to
                return True
            case NextTile(exit=exit_):
                agent.tile = self.following(agent)
                there = self.decode(agent)
                agent.at = agent.at + 1 if there else exit_
                if there and self.program.mapping.apart:
                    agent.own = agent.owner == agent.instance
                    agent.owner = (agent.owner + 1) % self.program.mapping.consumers
                return True
            case UnlessOwn(own=own, exit=exit_):
                agent.at = agent.at + 1 if agent.own == own else exit_
                return True
            case BeginSteps(axis=axis, backwards=backwards):
                agent.pieces[axis] = agent.limits[1] - 1 if backwards else 0
            case NextStep(axis=axis, back=back, backwards=True):
                if agent.pieces[axis] > agent.limits[0]:
                    agent.pieces[axis] -= 1
                    agent.at = back
                    return True
            case NextStep(axis=axis, back=back):
                agent.pieces[axis] += 1
                if agent.pieces[axis] < self.steps_of(agent):
                    agent.at = back
                    return True
            case MoreSteps(axis=axis, exit=exit_):
                if agent.pieces[axis] == agent.limits[0]:
                    agent.at = exit_
                    return True
                agent.pieces[axis] -= 1
            case b.Turn() | b.LastTurn():
                if isinstance(op, b.Turn) or agent.instance == agent.owner:
                    key = (agent.block, agent.instance)
                    if not self.turns.get(key):
                        return False
                    self.turns[key] -= 1
            case UnlessPiece(axis=axis, number=number, current=current, exit=exit_):
                agent.at = agent.at + 1 if number + (agent.pieces[axis] if current else 0) < self.steps_of(agent) else exit_
                return True
            case Unless(axis=axis, count=count, exit=exit_):
                if agent.pieces[axis] < count:
                    agent.at = exit_
                    return True
            case b.Await(ring=ring, side=side, first=first):
                stage, wraps = self.ahead(agent, op)
                if self.barriers[agent.block, ring.symbol, side, stage].parity != first ^ wraps:
                    return False
            case b.Retire(pending=pending):
                if sum(p is None for p in agent.products) > pending:
                    return False
            case b.Reclaim(pending=pending):
                if len(agent.stores) > pending:
                    return False
            case b.Drain():
                if agent.stores:
                    return False
            case b.Depart():
                if any(a.at < len(a.code) and not isinstance(a.code[a.at], b.Depart) for a in self.agents):
                    return False
            case _:
                self.act(agent, op)
        agent.at += 1
        return True

    @property
    def steps(self) -> int:
        steps = self.program.steps
        return -(-self.size(steps.extent) // steps.step)

    def steps_of(self, agent: _Agent) -> int:
        """How many steps an agent's tile has."""
        if self.program.segments is None:
            return self.steps
        first, last = self.segment(agent, self.program.segments)
        return max(1, -(-(last - first) // self.program.steps.step))

    def segment(self, agent: _Agent, parts: Segments) -> tuple[int, int]:
        """The rows that an agent's tile sums: the first, and the one behind the last."""
        group, start = agent.pieces[parts.group], self.tensors[parts.start.symbol]
        return int(start[group]), int(start[group + 1])

    def size(self, extent: Dim) -> int:
        return extent.evaluate(self.sizes)

    def following(self, agent: _Agent) -> int:
        """The number of an agent's next tile. In pairs, even numbers are the heavy half."""
        order = self.program.order
        if agent.tile is None:
            return 2 * self.index if order.paired else self.index
        if not order.paired:
            return agent.tile + self.clusters
        if agent.tile % 2:
            return agent.tile + 2 * self.clusters - 1
        alone = 2 * agent.pieces[order.rows.symbol] + 1 == -(-self.size(order.rows.extent) // order.rows.step)
        return agent.tile + (2 * self.clusters if alone else 1)

    def decode(self, agent: _Agent) -> bool:
        """Set the pieces of the axes for the agent's tile; False if there is no such tile."""
        order, program = self.program.order, self.program
        counts = {}
        for axis, over in ((order.rows, "rows"), (order.columns, "columns")):
            unit = axis.step * (order.cluster if order.cluster_over == over else 1)
            counts[over] = -(-self.size(axis.extent) // unit)
        if program.ragged is not None:
            counts["rows"] = int(self.tensors[program.ragged.before.symbol][self.size(program.ragged.groups)])
        assert agent.tile is not None
        outers = prod(self.size(axis.extent) for axis in order.outer)
        if order.paired:
            pairs = (counts["rows"] + 1) // 2
            outer, row = divmod(agent.tile // 2, pairs)
            if outer >= outers:
                return False
            row, column = row if agent.tile % 2 else counts["rows"] - 1 - row, 0
        else:
            outer, inside = divmod(agent.tile, counts["rows"] * counts["columns"])
            if outer >= outers:
                return False
            band, inside = divmod(inside, order.group * counts["columns"])
            column, row = divmod(inside, min(counts["rows"] - band * order.group, order.group))
            row += band * order.group
        for axis in reversed(order.outer):
            outer, agent.pieces[axis.symbol] = divmod(outer, self.size(axis.extent))
        if order.cluster_over == "rows":
            row = row * order.cluster + agent.block
        else:
            column = column * order.cluster + agent.block
        agent.pieces[order.rows.symbol], agent.pieces[order.columns.symbol] = row, column
        if program.ragged is not None:
            agent.pieces[program.ragged.group] = int(self.tensors[program.ragged.tile_group.symbol][row])
        agent.pieces |= {axis.symbol: 0 for axis in program.whole}
        agent.pieces |= {symbol: dim.evaluate({**self.sizes, **agent.pieces}) for symbol, dim in program.derived}
        if program.bounds is not None:
            agent.limits = self.limits(agent, program.bounds)
        return True

    def limits(self, agent: _Agent, bounds: Bounds) -> tuple[int, int, int, int]:
        """The pieces of the streamed axis that the mask leaves for a tile, at least one; and those in which it always holds."""
        rows, step = self.program.order.rows, self.program.steps.step
        first = rows.step * agent.pieces[rows.symbol]
        last = min(first + rows.step, self.size(rows.extent)) - 1
        known = {bounds.first_row: np.int64(first), bounds.last_row: np.int64(last)}
        fixed = (*(a.symbol for a in self.program.order.outer), *(symbol for symbol, _ in self.program.derived))
        axes = {symbol: np.int64(agent.pieces[symbol]) for symbol in fixed}
        for lookup in bounds.looked:
            table = self.tensors[lookup.table.symbol][tuple(agent.pieces[axis] for axis in lookup.axes)]
            blocks = table[first // BLOCK : last // BLOCK + 1].T
            for symbol, greatest, found in zip(lookup.locals, lookup.GREATEST, blocks, strict=True):
                known[symbol] = np.int64(found.max() if greatest else found.min())
        ends = (*bounds.some, *bounds.every)
        some, to, every, until = (int(Values(self.tensors, self.sizes, axes, dict(known), wide=True).value(e)) for e in ends)
        start = max(0, min(some // step, self.steps - 1))
        stop = max(start + 1, min(-(-to // step), self.steps))
        return start, stop, -(-every // step), min(until, self.size(self.program.steps.extent)) // step

    def place(self, agent: _Agent, c: Coordinate) -> int:
        piece = c.step * agent.pieces[c.axis] if c.step else 0
        if c.axis == self.program.order.rows.symbol:
            piece = self.first_row(agent)
        return piece + c.offset + c.by_rank * agent.block + c.by_consumer * agent.instance

    def first_row(self, agent: _Agent) -> int:
        """Of an agent's tile, in the order of rows in which tiles are cut."""
        rows, ragged = self.program.order.rows, self.program.ragged
        piece = agent.pieces[rows.symbol]
        return rows.step * piece if ragged is None else int(self.tensors[ragged.first.symbol][piece])

    def inside(self, agent: _Agent, block: int) -> int:
        """Where the 64 rows of a block begin in a tile."""
        share = 0 if self.program.mapping.apart else agent.instance
        return (share * agent.blocks + block) * 64

    def rows(self, agent: _Agent, block: int) -> tuple[Array, int]:
        """The 64 rows of a block, where they stand in results, and how many of them are the tile's."""
        order, ragged = self.program.order, self.program.ragged
        rows = self.first_row(agent) + self.inside(agent, block) + np.arange(64)
        if ragged is None:
            return rows, int(np.clip(self.size(order.rows.extent) - rows[0], 0, 64))
        last = int(self.tensors[ragged.last.symbol][agent.pieces[order.rows.symbol]])
        inside = np.minimum(rows, last - 1)
        stands = inside if ragged.order is None else self.tensors[ragged.order.symbol][inside]
        return stands, int(np.clip(last - rows[0], 0, 64))

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def act(self, agent: _Agent, op: Act) -> None:
        match op:
            case b.Expect(ring=ring, bytes=size):
                self.barriers[agent.block, ring.symbol, "full", self.ahead(agent, op)[0]].arrive(size, 1)
            case b.Look(pages=pages, at=at):
                agent.looked |= {(pages.page, c): self.page(agent, pages, c) for c in at}
            case b.Copy():
                self.copy(agent, op)
            case b.Advance(ring=ring):
                cursor = agent.cursors[ring.symbol]
                cursor[0] += 1
                if cursor[0] == ring.depth:
                    cursor[0], cursor[1] = 0, cursor[1] ^ 1
            case b.Release(ring=ring, back=back, cluster=cluster):
                stage = (agent.cursors[ring.symbol][0] - back) % ring.depth
                for block in range(self.program.cluster) if cluster else (agent.block,):
                    self.barriers[block, ring.symbol, "empty", stage].arrive(0, 1)
            case b.Clear(accumulator=acc):
                for block in range(agent.blocks):
                    agent.accumulators[acc.symbol, block] = np.zeros((64, acc.shape[1]), acc.element.dtype)
            case b.Evaluate():
                self.evaluate(agent, op)
            case b.Product():
                self.product(agent, op)
            case b.PassTurn(only=only):
                if only is None or only == agent.instance:
                    key = (agent.block, (agent.instance + 1) % self.program.mapping.consumers)
                    self.turns[key] = self.turns.get(key, 0) + 1
            case (
                t.Settle()
                | t.ReadScales()
                | t.Promote()
                | t.Reset()
                | t.Fold()
                | t.Narrow()
                | t.Rescale()
                | t.Hold()
                | t.Finish()
                | t.StoreRows()
            ):
                for block in range(agent.blocks):
                    self.work(agent, op, block)
            case b.Commit():
                agent.products.append(None)
            case b.Write():
                values = self.result(agent, op.store, op.block, op.column, op.width)
                self.slots[agent.block, op.buffer.symbol, agent.instance, op.slot] = values.astype(op.store.element.dtype)
            case b.Send():
                self.send(agent, op)
            case b.Scatter():
                self.scatter(agent, op)
            case b.ProductFence() | b.Meet() | b.AsyncFence():
                pass  # what they order is proved, and here happens in one order
            case _:
                assert_never(op)

    def ahead(self, agent: _Agent, op: b.Await | b.Expect | b.Copy) -> tuple[int, int]:
        """The stage that an operation is about, and how often the cursor will have wrapped there mod 2."""
        stage, wraps = agent.cursors[op.ring.symbol]
        rounds, stage = divmod(stage + op.ahead, op.ring.depth)
        return stage, (wraps + rounds) % 2

    def copy(self, agent: _Agent, op: b.Copy) -> None:
        start = self.start(agent, op)
        stage, _ = self.ahead(agent, op)
        size = op.ring.fields[op.field].tile.element.bits // 8
        offset = op.offset + op.by_rank * agent.block
        values = _box(self.tensors[op.descriptor.tensor].transpose(op.descriptor.order), start, op.descriptor.box).reshape(-1)
        values = to_tf32(values) if op.descriptor.rounds else values
        for block in range(self.program.cluster) if op.multicast else (agent.block,):

            def land(block: int = block) -> None:
                self.stages[block, op.ring.symbol][stage, offset : offset + size * values.size : size] = values
                self.barriers[block, op.ring.symbol, "full", stage].arrive(-op.bytes, 0)

            self.copies.append(land)

    def start(self, agent: _Agent, op: b.Copy) -> list[int]:
        """Where a copy begins: in a segment of rows at its front, or so far before it; in pages in the one that was looked up."""
        pages = op.ring.fields[op.field].load.pages
        if pages is not None:
            return self.in_page(agent, op, pages)
        parts, steps = self.program.segments, self.program.steps
        found = {c.axis: self.place(agent, c) for c in op.at if parts is None or c.axis != parts.front}
        if parts is not None:
            first, last = self.segment(agent, parts)
            row = last - self.steps_of(agent) * steps.step + found[steps.symbol]
            found |= {parts.front: max(first, row), steps.symbol: row - max(first, row)}
        return [found[c.axis] for c in op.at]

    def page(self, agent: _Agent, pages: Pages, c: Coordinate) -> int:
        """Which page a table has for the row at a place; -1 behind the last."""
        number = self.place(agent, c) // self.size(pages.rows)
        if number >= self.size(pages.count):
            return -1
        return int(Values(self.tensors, self.sizes, self.fixed(agent) | {pages.number: np.int64(number)}, {}).value(pages.index))

    def in_page(self, agent: _Agent, op: b.Copy, pages: Pages) -> list[int]:
        """Where a box of a page begins; of the view in which it ends with the rows, if it has one."""
        steps, box = self.program.steps.symbol, self.program.mapping.box
        at = next(c for c in op.at if c.axis == steps)
        first = self.place(agent, at)
        slot = first % self.size(pages.rows)
        found = {c.axis: self.place(agent, c) for c in op.at if c.axis not in pages.own}
        found |= {pages.page: agent.looked[pages.page, at], steps: slot}
        if pages.front is not None:
            until = self.size(pages.extent)
            if pages.until is not None:
                until = min(until, int(Values(self.tensors, self.sizes, self.fixed(agent), {}).value(pages.until)))
            rows = max(0, min(until - first, box))
            found |= {pages.front: slot + rows, steps: REACH - rows}
        return [found[c.axis] for c in op.at]

    def product(self, agent: _Agent, op: b.Product) -> None:
        overwrite = op.keep == "never" or (op.keep == "later" and agent.pieces[op.over] == 0)
        rows = self.inside(agent, op.block)
        left, right = (self.factor(agent, part, op) for part in (op.left, op.right))
        element = op.right.tile.element
        depth = self.program.target.product_depth * 8 // element.bits
        accumulate = partial(self.accumulate, kept=MULTIPLIED[element].kept, own=MULTIPLIED[element].own)

        @np.errstate(invalid="ignore", over="ignore")
        def compute() -> None:
            own = left()[rows if isinstance(op.left, b.StageField) else 0 :][:64]
            key = (op.accumulator.symbol, op.block)
            total = None if overwrite else agent.accumulators[key]
            if op.accumulator.element.is_integer:
                agent.accumulators[key] = wrapped(total, own, right(), depth)
            else:
                agent.accumulators[key] = accumulate(total, own, right(), depth)

        agent.products.append(compute)

    def factor(self, agent: _Agent, part: b.StageField | Tile, op: b.Product) -> Callable[[], Array]:
        """A factor as it will be when the product runs."""
        if not isinstance(part, b.StageField):
            held = agent.accumulators
            return lambda: held[part.symbol, op.block][:, _places(part)]
        memory, stage = self.stages[agent.block, part.ring.symbol], agent.cursors[part.ring.symbol][0]
        return lambda: self.operand(part.ring, part.field, memory[stage], op.over)

    def evaluate(self, agent: _Agent, op: b.Evaluate) -> None:
        """A factor of 64 rows, of what stages hold now."""
        steps, rows = self.program.steps, agent.instance * 64
        at = steps.step * agent.pieces[steps.symbol] + np.arange(steps.step)[None, :]
        inside = at < self.size(steps.extent)
        axes = self.axes(agent, 0)
        known: dict[Symbol, Array] = {}
        for one, part in zip(op.computed.staged, op.staged, strict=True):
            stage = self.stages[agent.block, part.ring.symbol][agent.cursors[part.ring.symbol][0]]
            element = part.tile.element
            values = self.operand(part.ring, part.field, stage, op.over)[rows : rows + 64].repeat(one.per, axis=1)
            if np.isnan(values).any() and not element.is_float:
                raise SimulationError("a factor is computed of what no copy has brought")
            known[one.local] = values if element.is_float else values.astype(element.dtype)
        # Beyond an edge it is computed as if on it; what lies outside the depth is 0.
        last = {symbol: np.minimum(index, self.size(self.extent(symbol)) - 1) for symbol, index in axes.items() if index.ndim}
        axes = axes | last | {steps.symbol: np.minimum(at, self.size(steps.extent) - 1)}
        value = Values(self.tensors, self.sizes, axes, known).value(op.computed.expression)
        value = np.where(inside, np.broadcast_to(value, (64, steps.step)), np.float32(0))
        agent.accumulators[op.tile.symbol, 0] = value.astype(op.tile.element.dtype).astype(np.float32)

    def extent(self, symbol: Symbol) -> Dim:
        """Of an axis along which tiles are cut."""
        order = self.program.order
        return next(axis.extent for axis in (order.rows, order.columns) if axis.symbol == symbol)

    # ── streams ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def work(self, agent: _Agent, op: t.Work, block: int) -> None:
        """What a consumer does with the registers of 64 rows."""
        held = agent.accumulators
        match op:
            case t.Settle(tile=tile):
                held[tile.symbol, block] = np.where(np.isfinite(held[tile.symbol, block]), held[tile.symbol, block], np.float32(0))
            case t.ReadScales(symbol=symbol, scales=scales, over=over):
                agent.rows[symbol, block] = self.scales(agent, scales, over, block)
            case t.Hold(stream=stream, symbol=symbol):
                agent.rows[symbol, block] = agent.rows[stream.product, block]
            case t.Promote(accumulator=acc, partial=own, correction=correction) if correction is not None:
                before = held[acc.symbol, block].astype(np.float64) * agent.rows[correction, block][:, None]
                held[acc.symbol, block] = (before + held[own.symbol, block]).astype(np.float32)
            case t.Promote(accumulator=acc, partial=own, scales=symbol):
                with np.errstate(invalid="ignore", over="ignore"):
                    if symbol is None:
                        held[acc.symbol, block] = held[acc.symbol, block] + held[own.symbol, block]
                    else:  # rounded once
                        scaled = held[own.symbol, block].astype(np.float64) * agent.rows[symbol, block]
                        held[acc.symbol, block] = (held[acc.symbol, block] + scaled).astype(np.float32)
            case t.Reset(stream=stream):
                if stream.peak is not None:
                    agent.rows[stream.peak, block] = np.full(64, -np.inf, np.float32)
                for symbol, _ in stream.totals:
                    agent.rows[symbol, block] = np.zeros(64, np.float32)
            case t.Fold():
                self.fold(agent, op, block)
            case t.Narrow(source=source, targets=targets):
                rest = held[source.symbol, block]
                for number, target in enumerate(targets):
                    whole = _towards_zero(rest) if target.element is Element.BF16 and number < len(targets) - 1 else rest
                    part = held[target.symbol, block] = whole.astype(target.element.dtype).astype(np.float32)
                    with np.errstate(invalid="ignore"):
                        rest = rest - part
            case t.Rescale(stream=stream, accumulator=acc):
                held[acc.symbol, block] = held[acc.symbol, block] * agent.rows[stream.product, block][:, None]
            case t.Finish(stream=stream):
                known = self.row_locals(agent, stream, block)
                for symbol, value in stream.finals:
                    values = Values(self.tensors, self.sizes, self.axes(agent, block), dict(known)).value(value)
                    agent.rows[symbol, block] = np.broadcast_to(np.asarray(values, np.float32), (64, 1))[:, 0]
            case t.StoreRows(tensor=tensor, axes=axes, final=final):
                rows = self.program.order.rows
                first = rows.step * agent.pieces[rows.symbol] + self.inside(agent, block)
                count = max(0, min(64, self.size(rows.extent) - first))
                at = tuple(slice(first, first + count) if a == rows.symbol else agent.pieces[a] for a in axes)
                out = self.tensors[tensor]
                out[at] = agent.rows[final, block][:count].astype(out.dtype)
            case _:
                assert_never(op)

    def scales(self, agent: _Agent, scales: tuple[Scale, ...], over: Symbol, block: int) -> Array:
        """The scales of 64 rows at the current step; of what lies beyond the edges those of the last."""
        order = self.program.order
        columns = order.columns.step * agent.pieces[order.columns.symbol] + np.arange(order.columns.step)[None, :]
        axes = self.axes(agent, block) | {order.columns.symbol: columns}
        axes |= {axis.symbol: np.minimum(axes[axis.symbol], self.size(axis.extent) - 1) for axis in (order.rows, order.columns)}
        axes[over] = np.int64(self.program.steps.step * agent.pieces[over])
        made = np.float32(1)
        for scale in scales:
            made = made * Values(self.tensors, self.sizes, axes, {}).value(scale.read)
        return np.broadcast_to(made, (64, order.columns.step))

    def row_locals(self, agent: _Agent, stream: Stream, block: int) -> dict[Symbol, Array]:
        """The statistics of 64 rows, as columns."""
        symbols = [symbol for symbol, _ in stream.totals] + ([stream.peak] if stream.peak else [])
        return {symbol: agent.rows[symbol, block][:, None] for symbol in symbols}

    def axes(self, agent: _Agent, block: int) -> dict[Symbol, Array]:
        """The indices of 64 rows, as a column, and those of which the tile has one."""
        return self.fixed(agent) | {self.program.order.rows.symbol: self.rows(agent, block)[0][:, None]}

    def fixed(self, agent: _Agent) -> dict[Symbol, Array]:
        """The indices of which the tile has one."""
        fixed = (*(a.symbol for a in self.program.order.outer), *(symbol for symbol, _ in self.program.derived))
        return {symbol: np.int64(agent.pieces[symbol]) for symbol in fixed}

    def fold(self, agent: _Agent, op: t.Fold, block: int) -> None:
        stream, steps = op.stream, self.program.steps
        scores = agent.accumulators[op.scores.symbol, block]
        others = {o.symbol: agent.accumulators[t.symbol, block] for o, t in zip(stream.others, op.others, strict=True)}
        keys = (steps.step * agent.pieces[steps.symbol] + np.arange(steps.step))[None, :]
        axes = self.axes(agent, block) | {steps.symbol: keys}

        def value(scalar: Scalar, known: dict[Symbol, Array]) -> Array:
            computed = Values(self.tensors, self.sizes, axes, dict(known)).value(scalar)
            return np.broadcast_to(np.asarray(computed), (64, steps.step))

        with np.errstate(invalid="ignore", over="ignore"):
            changed = value(stream.change, {stream.score: scores})
            keep = np.broadcast_to(keys < self.size(steps.extent), scores.shape)
            if stream.vanishing:
                changed = np.where(keep, changed, np.float32(-np.inf))
            elif stream.condition is not None:
                keep = keep & value(stream.condition, {stream.score: scores, stream.changed: changed})
            before, after = {}, {}
            if stream.peak is not None:
                old = agent.rows[stream.peak, block]
                new = np.maximum(old, changed.max(axis=1, where=keep, initial=-np.inf))
                agent.rows[stream.peak, block] = new
                before[stream.peak] = old[:, None]
                after[stream.peak] = np.where(np.isneginf(new), np.float32(0), new)[:, None]
            weights: dict[Symbol, Array] = {}
            for symbol, term in (*stream.totals, (stream.product, stream.weight)):
                weight: Array = np.float32(1)
                correction = np.ones(64, np.float32)
                if term.scale is not None:
                    weight = np.exp(value(term.scale, {}) * changed + value(term.bias, after))
                    if stream.peak is not None:
                        shift = value(term.bias, after) - value(term.bias, before)
                        correction = np.exp(shift[:, 0]).astype(np.float32)
                        if not term.falls:
                            correction = np.where(np.isneginf(old), np.float32(1), correction)
                weight = np.where(keep, weight * value(term.factor, {stream.changed: changed, **others}), np.float32(0))
                weights[symbol] = weight.astype(np.float32)
                if symbol == stream.product:
                    agent.rows[symbol, block] = correction
                else:
                    agent.rows[symbol, block] = agent.rows[symbol, block] * correction + weights[symbol].sum(axis=1)
            agent.accumulators[op.weights.symbol, block] = weights[stream.product]

    def operand(self, ring: Ring, number: int, stage: Array, over: Symbol) -> Array:
        """A field of a stage as a matrix whose second axis is the reduced one."""
        item = ring.fields[number]
        outer, inner = item.tile.shape
        size = item.tile.element.bits // 8
        panels = [
            stage[item.offset + p * item.panel :][: outer * item.width * size : size].reshape(outer, item.width)
            for p in range(inner // item.width)
        ]
        matrix = np.concatenate(panels, axis=1)
        return matrix if item.tile.axes[-1] == over else matrix.T

    def send(self, agent: _Agent, op: b.Send) -> None:
        start = [self.place(agent, c) for c in op.at]
        order = self.program.order
        store = next(
            o.store
            for role in self.program.roles
            for o in b.operations(role.body)
            if isinstance(o, b.Write) and o.store.tensor == op.descriptor.tensor
        )
        axes = store.axes
        assert order.rows.symbol in axes

        def leave() -> None:
            values = self.slots[agent.block, op.buffer.symbol, agent.instance, op.slot]
            self.put(op.descriptor.tensor, start, list(op.descriptor.box), axes, values)

        agent.stores.append(leave)

    def scatter(self, agent: _Agent, op: b.Scatter) -> None:
        order, (rows, count) = self.program.order, self.rows(agent, op.block)
        column = order.columns.step * agent.pieces[order.columns.symbol] + op.column
        values = self.result(agent, op.store, op.block, op.column, op.width)
        width = max(0, min(op.width, self.size(order.columns.extent) - column))
        at = {order.rows.symbol: rows[:count, None], order.columns.symbol: column + np.arange(width)[None, :]}
        out = self.tensors[op.store.tensor]
        out[tuple(at.get(axis, agent.pieces.get(axis)) for axis in op.store.axes)] = values[:count, :width].astype(out.dtype)

    def put(self, tensor: Symbol, start: list[int], box: list[int], axes: tuple[Symbol, ...], values: Array) -> None:
        """Write rows × columns into the box of a tensor, clipped at its edges."""
        out = self.tensors[tensor]
        rows, columns = self.program.order.rows.symbol, self.program.order.columns.symbol
        if axes.index(rows) > axes.index(columns):
            values = values.T
        values = values.reshape(box)
        keep = tuple(slice(0, max(0, min(n, extent - s))) for n, s, extent in zip(box, start, out.shape, strict=True))
        where = tuple(slice(s, s + k.stop) for s, k in zip(start, keep, strict=True))
        out[where] = values[keep].astype(out.dtype)

    def result(self, agent: _Agent, store: Store, block: int, column: int, width: int) -> Array:
        if any(p is not None for p in agent.products):
            raise SimulationError("accumulators are read while products still run")
        order = self.program.order
        first = order.columns.step * agent.pieces[order.columns.symbol] + column
        axes = self.axes(agent, block) | {order.columns.symbol: (first + np.arange(width))[None, :]}
        known = {symbol: values[:, None] for (symbol, number), values in agent.rows.items() if number == block}
        known |= {s: agent.accumulators[acc.symbol, block][:, column : column + width] for s, acc in store.sums}
        value = Values(self.tensors, self.sizes, axes, known).value(store.expression)
        return np.broadcast_to(value, (64, width))


def _places(tile: Tile) -> Array:
    """In which order matrix instructions take the columns of a factor that registers hold as they were made. See Note [Interleaved
    keys] in `layout.products`."""
    count = tile.shape[1]
    return np.array([key_of(n) for n in range(count)] if tile.element.bits == 8 else range(count))


def _towards_zero(values: Array) -> Array:
    """f32 values cut off to bf16; NaN as it is."""
    cut = (np.ascontiguousarray(values).view(np.uint32) & np.uint32(0xFFFF0000)).view(np.float32)
    return np.where(np.isnan(values), values, cut)


def to_tf32(values: Array) -> Array:
    """f32 values rounded to tf32, to nearest, ties to even; infinities and NaN as they are. See Note [tf32], in `tile.limbs`."""
    words = np.ascontiguousarray(values, np.float32).view(np.uint32)
    rounded = (words + np.uint32(0xFFF) + (words >> np.uint32(13) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded.view(np.float32), values)


def _box(tensor: Array, start: list[int], box: tuple[int, ...]) -> Array:
    """A box of a tensor in f32; 0 outside."""
    out = np.zeros(box, np.float32)
    keep = tuple(slice(max(0, -s), max(0, min(n, extent - s))) for n, s, extent in zip(box, start, tensor.shape, strict=True))
    if all(k.start < k.stop for k in keep):
        out[keep] = tensor[tuple(slice(s + k.start, s + k.stop) for s, k in zip(start, keep, strict=True))].astype(np.float32)
    return out
