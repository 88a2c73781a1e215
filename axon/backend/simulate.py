"""Run a barrier program on the CPU, on real data, with roles and engines interleaved at random.

Every warpgroup is an agent; copies, products and stores are events that happen at any time between their issue and what waits for
them. Shared memory starts as NaN and is addressed in bytes, as the hardware would, except for the swizzle, which permutes within a
panel on both sides alike. A wrong count, parity or order shows as a deadlock or as a wrong result in some interleaving: `verify`
is the proof, this is the check that the proof is about the right program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from axon.backend import barriers as b
from axon.backend.barriers import BarrierProgram, Coordinate, Ring
from axon.backend.flow import BeginSteps, Instruction, Jump, NextStep, NextTile, Unless, flatten
from axon.backend.tile import Store
from axon.core import Binary, Bind, Const, Convert, Index, Local, Read, Scalar, Select, Unary
from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim

Array = Any  # numpy.ndarray


class SimulationError(Exception):
    """The program deadlocked or touched something it must not, in this interleaving."""


def simulate(
    program: BarrierProgram, tensors: Mapping[Symbol, Array], sizes: Mapping[Symbol, int], *, seed: int = 0, clusters: int = 2
) -> None:
    """Run the program; results are written into their arrays in `tensors`, in place.

    `tensors` holds NumPy arrays of every tensor, `sizes` every dimension; `clusters` is the size of the grid. Raises
    `SimulationError` where the program goes wrong in the interleaving that `seed` picks.
    """
    for index in range(clusters):
        _Cluster(program, tensors, sizes, Random(f"{seed}.{index}"), index, clusters).run()


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
    pieces: dict[Symbol, int] = field(default_factory=dict)
    cursors: dict[Symbol, list[int]] = field(default_factory=dict)  # stage, wraps
    accumulators: dict[tuple[Symbol, int], Array] = field(default_factory=dict)
    products: list[Callable[[], None] | None] = field(default_factory=list)  # None: a commit
    stores: list[Callable[[], None]] = field(default_factory=list)
    blocks: int = 1


class _Cluster:
    def __init__(
        self,
        program: BarrierProgram,
        tensors: Mapping[Symbol, Array],
        sizes: Mapping[Symbol, int],
        random: Random,
        index: int,
        clusters: int,
    ) -> None:
        self.program, self.tensors, self.sizes, self.random = program, tensors, sizes, random
        self.index, self.clusters = index, clusters
        self.barriers = {
            (block, ring.symbol, side, stage): _Barrier(ring.full if side == "full" else ring.empty)
            for block in range(program.cluster)
            for ring in program.rings
            for side in ("full", "empty")
            for stage in range(ring.depth)
        }
        # Stages in elements of two bytes, buffers as they are stored.
        self.stages = {
            (block, ring.symbol): np.full((ring.depth, ring.stage // 2), np.nan, np.float32)
            for block in range(program.cluster)
            for ring in program.rings
        }
        self.slots: dict[tuple[int, Symbol, int, int], Array] = {}
        self.copies: list[Callable[[], None]] = []
        self.agents = []
        for block in range(program.cluster):
            for role in program.roles:
                for instance in range(role.instances):
                    agent = _Agent(block, instance, flatten(role.body), f"{role.name} {instance} of block {block}")
                    agent.cursors = {r.symbol: [0, 0] for r in program.rings}
                    agent.blocks = program.order.rows.step // (64 * program.mapping.consumers)
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
                agent.tile = self.index if agent.tile is None else agent.tile + self.clusters
                agent.at = agent.at + 1 if self.decode(agent) else exit_
                return True
            case BeginSteps(axis=axis):
                agent.pieces[axis] = 0
            case NextStep(axis=axis, back=back):
                agent.pieces[axis] += 1
                if agent.pieces[axis] < self.steps:
                    agent.at = back
                    return True
            case Unless(axis=axis, count=count, exit=exit_):
                if agent.pieces[axis] < count:
                    agent.at = exit_
                    return True
            case b.Await(ring=ring, side=side, first=first):
                stage, wraps = agent.cursors[ring.symbol]
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
        depth = self.program.depth
        return -(-self.size(depth.extent) // depth.step)

    def size(self, extent: Dim) -> int:
        return extent.evaluate(self.sizes)

    def decode(self, agent: _Agent) -> bool:
        """Set the pieces of the axes for the agent's tile; False if there is no such tile."""
        order = self.program.order
        counts = {}
        for axis, over in ((order.rows, "rows"), (order.columns, "columns")):
            unit = axis.step * (order.cluster if order.cluster_over == over else 1)
            counts[over] = -(-self.size(axis.extent) // unit)
        per = counts["rows"] * counts["columns"]
        assert agent.tile is not None
        outer, inside = divmod(agent.tile, per)
        for axis in reversed(order.outer[1:]):
            outer, agent.pieces[axis.symbol] = divmod(outer, self.size(axis.extent))
        if order.outer:
            agent.pieces[order.outer[0].symbol] = outer
            if outer >= self.size(order.outer[0].extent):
                return False
        elif outer:
            return False
        band, inside = divmod(inside, order.group * counts["columns"])
        height = min(counts["rows"] - band * order.group, order.group)
        column, row = divmod(inside, height)
        row += band * order.group
        if order.cluster_over == "rows":
            row = row * order.cluster + agent.block
        else:
            column = column * order.cluster + agent.block
        agent.pieces[order.rows.symbol], agent.pieces[order.columns.symbol] = row, column
        return True

    def place(self, agent: _Agent, c: Coordinate) -> int:
        return c.step * agent.pieces[c.axis] + c.offset + c.by_rank * agent.block + c.by_consumer * agent.instance

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def act(self, agent: _Agent, op: Instruction) -> None:
        match op:
            case b.Expect(ring=ring, bytes=size):
                self.barriers[agent.block, ring.symbol, "full", agent.cursors[ring.symbol][0]].arrive(size, 1)
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
                    agent.accumulators[acc.symbol, block] = np.zeros((64, acc.shape[1]), np.float32)
            case b.Product():
                self.product(agent, op)
            case b.Commit():
                agent.products.append(None)
            case b.Write():
                values = self.result(agent, op.store, op.block, op.column, op.width)
                self.slots[agent.block, op.buffer.symbol, agent.instance, op.slot] = values.astype(op.store.element.dtype)
            case b.Send():
                self.send(agent, op)
            case b.Scatter():
                order = self.program.order
                row = order.rows.step * agent.pieces[order.rows.symbol] + (agent.instance * agent.blocks + op.block) * 64
                column = order.columns.step * agent.pieces[order.columns.symbol] + op.column
                values = self.result(agent, op.store, op.block, op.column, op.width)
                at = [
                    row if a == order.rows.symbol else column if a == order.columns.symbol else agent.pieces[a]
                    for a in op.store.axes
                ]
                box = [64 if a == order.rows.symbol else op.width if a == order.columns.symbol else 1 for a in op.store.axes]
                self.put(op.store.tensor, at, box, op.store.axes, values)

    def copy(self, agent: _Agent, op: b.Copy) -> None:
        start = [self.place(agent, c) for c in op.at]
        stage = agent.cursors[op.ring.symbol][0]
        offset = (op.offset + op.by_rank * agent.block) // 2
        values = _box(self.tensors[op.descriptor.tensor].transpose(op.descriptor.order), start, op.descriptor.box).reshape(-1)
        for block in range(self.program.cluster) if op.multicast else (agent.block,):

            def land(block: int = block) -> None:
                self.stages[block, op.ring.symbol][stage, offset : offset + values.size] = values
                self.barriers[block, op.ring.symbol, "full", stage].arrive(-op.bytes, 0)

            self.copies.append(land)

    def product(self, agent: _Agent, op: b.Product) -> None:
        ring, stage = op.ring, agent.cursors[op.ring.symbol][0]
        memory = self.stages[agent.block, ring.symbol]
        first = agent.pieces[op.over] == 0
        rows = (agent.instance * agent.blocks + op.block) * 64

        def compute() -> None:
            left = self.operand(ring, op.left, memory[stage], op.over)[rows : rows + 64]
            right = self.operand(ring, op.right, memory[stage], op.over)
            value = left @ right.T
            key = (op.accumulator.symbol, op.block)
            agent.accumulators[key] = value if first else agent.accumulators[key] + value

        agent.products.append(compute)

    def operand(self, ring: Ring, number: int, stage: Array, over: Symbol) -> Array:
        """A field of a stage as a matrix whose second axis is the reduced one."""
        item = ring.fields[number]
        outer, inner = item.tile.shape
        panels = [
            stage[(item.offset + p * item.panel) // 2 :][: outer * item.width].reshape(outer, item.width)
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
        row = order.rows.step * agent.pieces[order.rows.symbol] + (agent.instance * agent.blocks + block) * 64
        first = order.columns.step * agent.pieces[order.columns.symbol] + column
        axes: dict[Symbol, Array] = {a.symbol: np.int64(agent.pieces[a.symbol]) for a in order.outer}
        axes[order.rows.symbol] = (row + np.arange(64))[:, None]
        axes[order.columns.symbol] = (first + np.arange(width))[None, :]
        product = agent.accumulators[store.accumulator.symbol, block][:, column : column + width]
        value = _Values(self.tensors, self.sizes, axes, {store.product: product}).value(store.expression)
        return np.broadcast_to(value, (64, width))


def _box(tensor: Array, start: list[int], box: tuple[int, ...]) -> Array:
    """A box of a tensor in f32; 0 outside."""
    out = np.zeros(box, np.float32)
    keep = tuple(slice(0, max(0, min(n, extent - s))) for n, s, extent in zip(box, start, tensor.shape, strict=True))
    if all(k.stop for k in keep):
        out[keep] = tensor[tuple(slice(s, s + k.stop) for s, k in zip(start, keep, strict=True))].astype(np.float32)
    return out


# ── epilogues ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _erf(x: Array) -> Array:
    from math import erf

    return np.vectorize(erf, otypes=[np.float32])(x)


_UNARY: dict[str, Callable[[Array], Array]] = {
    "neg": np.negative, "not": np.logical_not, "exp": np.exp, "log": np.log, "sqrt": np.sqrt, "rsqrt": lambda x: 1 / np.sqrt(x),
    "sin": np.sin, "cos": np.cos, "tanh": np.tanh, "erf": _erf, "abs": np.abs, "sign": np.sign, "floor": np.floor, "ceil": np.ceil,
    "round": np.rint,
}  # fmt: skip
_BINARY: dict[str, Callable[[Array, Array], Array]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power, "max": np.maximum, "min": np.minimum,
    "eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal,
    "and": np.logical_and, "or": np.logical_or,
}  # fmt: skip


@dataclass(slots=True)
class _Values:
    """Evaluates an epilogue over a piece of a tile, with floats in f32 as the device does."""

    tensors: Mapping[Symbol, Array]
    sizes: Mapping[Symbol, int]
    axes: dict[Symbol, Array]
    locals: dict[Symbol, Array]

    def value(self, scalar: Scalar) -> Array:
        match scalar:
            case Const(value=value, element=element):
                return np.float32(value) if element.is_float else value
            case Local(symbol=symbol):
                return self.locals[symbol]
            case Index(dim=dim):
                return dim.evaluate({**self.sizes, **self.axes})
            case Read(tensor=tensor, subscripts=subscripts):
                array = self.tensors[tensor]
                at = [self.axes[s.symbol] for s in subscripts if isinstance(s, Dim) and s.symbol is not None]
                # Beyond the edges values do not matter: they are never stored.
                clipped = tuple(np.minimum(i, n - 1) for i, n in zip(at, array.shape, strict=True))
                value = array[clipped]
                return value.astype(np.float32) if scalar.element.is_float else value
            case Unary(op=op, operand=operand):
                return _UNARY[op](self.value(operand))
            case Binary(op=op, left=left, right=right):
                return _BINARY[op](self.value(left), self.value(right))
            case Select(condition=condition, then=then, otherwise=otherwise):
                return np.where(self.value(condition), self.value(then), self.value(otherwise))
            case Convert(operand=operand, element=element):
                source: Array = np.asarray(self.value(operand))
                if element.is_float:
                    return source.astype(np.float32)
                return source != 0 if element == Element.BOOL else source.astype(np.int32)
            case Bind(bindings=bindings, body=body):
                for symbol, bound in bindings:
                    self.locals[symbol] = self.value(bound)
                return self.value(body)
