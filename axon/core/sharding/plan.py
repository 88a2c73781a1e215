"""Which way each operation is shared, and what is exchanged between them: the cheapest found for the whole program.

A search goes through the operations in order. Its states say in which layouts each value that is still needed is there; from each
state, every strategy of the next operation leads to another, which costs what is moved and what is computed. Two states with the
same layouts are one, the cheaper (dynamic programming); of the rest the BEAM cheapest go on. Nothing depends on anything but the
program, the mesh and the sizes: all devices decide alike.

What a loop's body moves of a value from before the loop is moved once, before it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.core.ir import Block, Check, Compress, Compute, Const, Loop, Op, Read, Scan, Sort, Value
from axon.core.operation_count import flops, other_operations
from axon.core.sharding.access import Grid
from axon.core.sharding.blocked import Blocked
from axon.core.sharding.ir import Layout
from axon.core.sharding.layouts import Move, Rates, elements, held_as, local_shape, natural, path, seconds, whole
from axon.core.sharding.order import early, last_uses
from axon.core.sharding.ring import Way, ways
from axon.core.sharding.strategies import Key, Need, Strategy, all_of, of_sort, strategies
from axon.core.walk import nodes, outs_of, tensors_of, trip_of
from axon.shapes.dimension import Dim

BEAM = 16
INSIDE = 4  # of those in the body of a loop, which is planned for several layouts of its states; and that come to one
TRIPS = 8  # of a loop of which data say how often it runs
Available: TypeAlias = "dict[Symbol, int]"  # by the numbers that a planner gives to sets of layouts: states are compared often


@dataclass(frozen=True, slots=True)
class Moving:
    """A value that is brought to a layout, for an operation. `reason` says why it must be whole, where it must."""

    tensor: Symbol
    moves: tuple[Move, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class Decision:
    """How one operation is shared: what is moved before it, and in which layout it reads each tensor."""

    op: Op
    strategy: Strategy | None  # of what has several
    reads: tuple[tuple[Key, Layout], ...]
    moving: tuple[Moving, ...]
    body: Plan | None = None  # of a loop
    states: tuple[Layout, ...] = ()
    ring: Way | None = None  # of a loop over blocks
    settled: tuple[Moving, ...] = ()  # after it, of results of the block that nobody reads any more


@dataclass(frozen=True, slots=True)
class Plan:
    """The decisions of a block, and how its results come to the layouts that are asked for."""

    decisions: tuple[Decision, ...]
    moving: tuple[Moving, ...]  # of the results
    hoisted: tuple[Moving, ...]  # of values from before the block
    results: tuple[Layout, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class _State:
    cost: float
    available: Available
    decided: _State | None
    decision: Decision | None
    hoisted: tuple[Moving, ...] = ()


class Planner:
    """A search through one program. `sizes` are those, whole and local, for which costs are counted."""

    def __init__(
        self, values: dict[Symbol, Value], grid: Grid, sizes: dict[Symbol, int], rates: Rates, rings: Mapping[Symbol, Blocked]
    ) -> None:
        self.values, self.grid, self.sizes, self.rates, self.rings = values, grid, sizes, rates, rings
        self.weights: dict[Symbol, float] = {}  # how often the block runs that a value is made in
        self.bodies: dict[object, tuple[Plan, Available]] = {}
        self.known: IdentityMap[Op, dict[object, tuple[tuple[Strategy, float], ...]]] = IdentityMap()
        self.paths: dict[tuple[Symbol, Layout, Layout], tuple[float, tuple[Move, ...]] | None] = {}
        self.sets: list[tuple[Layout, ...]] = []
        self.numbers: dict[tuple[Layout, ...], int] = {}
        self.pending: dict[tuple[Symbol, int], float] = {}
        self.counts: dict[Symbol, int] = {}  # of scalars that are literals
        self.ways: dict[Symbol, list[tuple[Way, float]]] = {}  # of loops over blocks
        self.first: dict[Symbol, int] = {}  # in which layouts a value was first seen
        self.varying: set[Symbol] = set()  # those that were seen in others: states do not differ in the rest

    def seen(self, symbol: Symbol, number: int) -> int:
        """A value is there in these layouts in some state."""
        if self.first.setdefault(symbol, number) != number:
            self.varying.add(symbol)
        return number

    def number(self, *layouts: Layout) -> int:
        """What stands for a set of layouts in which a value is there."""
        found = self.numbers.get(layouts)
        if found is None:
            found = self.numbers[layouts] = len(self.sets)
            self.sets.append(layouts)
        return found

    def block(
        self,
        block: Block,
        available: Available,
        wanted: Sequence[Layout | None],
        weight: float = 1.0,
        inside: frozenset[Symbol] | None = None,
    ) -> tuple[Plan, Available]:
        """The plan of a block whose results are wanted in some layouts, and where its values and those before it are afterwards.
        `inside` are those that the block itself begins with; what moves of others moves before it."""
        own = set(available if inside is None else inside)
        block = early(block)
        live, over = self._live(block), last_uses(block)
        states = [_State(0.0, dict(available), None, None)]
        beam = BEAM if inside is None else INSIDE
        for number, op in enumerate(block.ops):
            for out in outs_of(op):
                self.values[out.symbol] = out
                self.weights[out.symbol] = weight
                own.add(out.symbol)
            if isinstance(op, Compress):
                self.sizes[op.size] = self._guess(self.values[op.mask].shape[0])
            if isinstance(op, Compute) and (count := literal(op)) is not None:
                self.counts[op.outs[0].symbol] = count
            found: list[_State] = []
            for state in states[:INSIDE] if isinstance(op, Loop) else states:
                found += self._after(op, state, weight, own)
            for symbol, one in zip(block.results, wanted, strict=True):
                if symbol in over[number] and one is not None:
                    found = [self._settled(state, symbol, one) for state in found]
            states = self._kept(found, live[number + 1], available, beam)
        ends = []
        for state in states:
            mover = _Mover(self, state.available)
            results = []
            for symbol, layout in zip(block.results, wanted, strict=True):
                if layout is None:  # as it comes, if it comes whole or split
                    plain = [one for one in self.sets[mover.available[symbol]] if one.plain]
                    layout = plain[0] if plain else whole(len(self.values[symbol].shape))
                mover.bring(Need((symbol, ()), (layout,)))
                results.append(layout)
            inner = tuple(m for m in mover.moving if m.tensor in own)
            hoisted = (*state.hoisted, *(m for m in mover.moving if m.tensor not in own))
            ends.append((state.cost + mover.cost, state, inner, hoisted, tuple(results), mover.available))
        cost, state, moving, hoisted, layouts, after = min(ends, key=lambda end: end[0])
        decisions: list[Decision] = []
        at: _State | None = state
        while at is not None and at.decision is not None:
            decisions.append(at.decision)
            at = at.decided
        return Plan(tuple(reversed(decisions)), moving, hoisted, layouts, cost), after

    def _settled(self, state: _State, symbol: Symbol, layout: Layout) -> _State:
        """The state in which a result of the block is there as it is wanted."""
        mover = _Mover(self, state.available)
        mover.bring(Need((symbol, ()), (layout,)))
        if not mover.moving:
            return state
        decision = state.decision
        assert decision is not None
        decision = replace(decision, settled=(*decision.settled, *mover.moving))
        return replace(state, cost=state.cost + mover.cost, available=mover.available, decision=decision)

    def _live(self, block: Block) -> list[frozenset[Symbol]]:
        """Before each operation, and at the end, the tensors that are still named."""
        found = [frozenset(block.results)]
        for op in reversed(block.ops):
            found.append(found[-1] | tensors_of(op))
        return found[::-1]

    def _kept(self, states: list[_State], live: frozenset[Symbol], before: Available, beam: int) -> list[_State]:
        """The cheapest states, one for each choice of layouts. What is partial will have to be combined: that is counted before."""
        kept = [s for s in states[0].available if s in live or s in before]
        looked = [s for s in kept if s in live and s in self.varying]
        best: dict[tuple[int, ...], tuple[float, int, _State]] = {}
        combining: dict[tuple[int, ...], frozenset[Symbol]] = {}  # what is only partial
        for number, state in enumerate(states):
            available = state.available
            key = tuple([available[s] for s in looked])
            cost = state.cost + self._all_pending(zip(looked, key, strict=True))
            if key not in best or cost < best[key][0]:
                best[key] = (cost, number, state)
                combining[key] = frozenset(s for s, n in zip(looked, key, strict=True) if self._pending(s, n) > 0.0)
        ordered = sorted(best, key=lambda key: best[key][:2])
        first = {combining[key]: key for key in reversed(ordered)}  # the cheapest of each: they differ in what matters later
        ordered.sort(key=lambda key: first[combining[key]] != key)
        chosen = [best[key][2] for key in ordered[:beam]]
        return [replace(state, available={s: state.available[s] for s in kept}) for state in chosen]

    def _all_pending(self, there: Iterable[tuple[Symbol, int]]) -> float:
        """What it will cost at least to combine all values that are only partial: those of one shape may be added before."""
        found: dict[tuple[tuple[Dim, ...], tuple[Layout, ...]], float] = {}
        for symbol, number in there:
            if (cost := self._pending(symbol, number)) > 0.0:
                key = (self.values[symbol].shape, self.sets[number])
                found[key] = max(found.get(key, 0.0), cost)
        return sum(found.values())

    def _pending(self, symbol: Symbol, number: int) -> float:
        """At least half of what it costs to combine a value that is only partial."""
        cost = self.pending.get((symbol, number))
        if cost is None:
            layouts, cost = self.sets[number], 0.0
            if all(one.partial for one in layouts):
                moves = (self.move(symbol, one, replace(one, partial=())) for one in layouts)
                cost = min(found[0] for found in moves if found is not None) / 2
            self.pending[symbol, number] = cost
        return cost

    # ── one operation ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _after(self, op: Op, state: _State, weight: float, own: set[Symbol]) -> list[_State]:
        match op:
            case Loop():
                goes_round = op.counter in self.rings and self._ring(op, state, weight, own)
                return goes_round or self._loop(op, state, weight, own)  # it is a loop, too
            case Check():
                return [replace(state, decided=state, decision=Decision(op, None, (), ()))]
            case Compress():
                need = all_of(op.mask, 1, f"`{op.out.symbol.name}` counts what is true along all of it", self.grid)
                ways: Sequence[tuple[Strategy, float]] = [(Strategy((), whole(1), (need,)), 0.0)]
            case Compute() | Scan() | Sort():
                ways = self._ways(op, state.available)
        return [self._taken(op, strategy, work * weight, state, own) for strategy, work in ways]

    def _ways(self, op: Compute | Scan | Sort, available: Available) -> tuple[tuple[Strategy, float], ...]:
        partial = {
            t: axes
            for t in sorted(tensors_of(op), key=lambda s: s.id)
            if (axes := frozenset(a for layout in self.sets[available[t]] for a, monoid in layout.partial if monoid == "sum"))
        }
        cached = self.known.setdefault(op, {})
        key = tuple(partial.items())
        if key not in cached:
            if isinstance(op, Sort):
                found = of_sort(op, self.values, self.grid)
            else:
                found = strategies(op, self.values, self.grid, partial)
            cached[key] = tuple((self._possible(s), self._work(op, s, self.grid)) for s in found)
        return cached[key]

    def _ring(self, op: Loop, state: _State, weight: float, own: set[Symbol]) -> list[_State]:
        """A loop over blocks: what goes round is under way while a device computes with what it has. None where no way is legal."""
        self.sizes[op.counter] = 0
        if op.counter not in self.ways:
            found = ways(op, self.rings[op.counter], self.values, self.grid)
            self.ways[op.counter] = [(way, self._turns(op, way)) for way in found]
        states = []
        for way, time in self.ways[op.counter]:
            mover = _Mover(self, state.available)
            for symbol, layout in way.outside(op):
                mover.bring(Need((symbol, ()), (way.on_mesh(layout),)))
            for symbol, layout in zip(op.initial, way.states, strict=True):
                mover.bring(Need((symbol, ()), (way.on_mesh(layout),)))
            for out, layout in zip(op.outs, way.states, strict=True):
                mover.available[out.symbol] = self.seen(out.symbol, self.number(way.on_mesh(layout)))
            inner = tuple(m for m in mover.moving if m.tensor in own)
            hoisted = (*state.hoisted, *(m for m in mover.moving if m.tensor not in own))
            decision = Decision(op, None, (), inner, ring=way)
            states.append(_State(state.cost + mover.cost + time * weight, mover.available, state, decision, hoisted))
        return states

    def _turns(self, op: Loop, way: Way) -> float:
        """How long a loop over blocks takes in all: in each step as long as what computes, or as what goes round."""
        ops = [o for o in op.body.ops if isinstance(o, Compute)]
        computed = sum(self._work(o, strategy, way.grid) for o, strategy in zip(ops, way.strategies, strict=True))
        moving = [(self.values[s], one) for s, one in way.outside(op)] + list(zip(op.states, way.states, strict=True))
        sent = [self._bytes(value, way.on_mesh(one), self.grid) for value, one in moving if way.goes_round(one)]
        link = self.rates.over(way.axis)
        exchanged = len(sent) * link.latency + sum(sent) / link.bandwidth
        return self.grid.devices(way.axis) * max(computed, exchanged)

    def _possible(self, strategy: Strategy) -> Strategy:
        """The strategy without layouts whose borders reach beyond the neighbours."""
        needs = tuple(replace(n, accepts=tuple(a for a in n.accepts if self._near(n.tensor, a))) for n in strategy.needs)
        return replace(strategy, needs=needs)

    def _near(self, tensor: Symbol, layout: Layout) -> bool:
        for extent, split in zip(self.values[tensor].shape, layout.splits, strict=True):
            if split is not None:
                block = self.grid.block(extent, split.axis)
                assert block is not None
                if max(self._guess(split.left), self._guess(split.right)) > self._guess(block):
                    return False
        return True

    def _work(self, op: Compute | Scan | Sort, strategy: Strategy, grid: Grid) -> float:
        """What a device computes, and moves between itself and its memory; of what is joined, also over the link."""
        shared = 1
        for split in strategy.layout.splits if isinstance(op, Sort) else ():
            shared *= grid.devices(split.axis) if split is not None else 1
        for c in strategy.cuts:
            shared *= grid.devices(c.mesh)
        count = self._guess(flops(op)) + self._guess(other_operations(op)) / 4
        moved = sum(self._bytes(out, strategy.layout, grid) for out in outs_of(op))
        needs = (n for n in strategy.needs if n.accepts and n.tensor in self.values)
        moved += sum(self._bytes(self.values[n.tensor], n.accepts[0], grid) for n in needs)
        time = max(count / shared / self.rates.flops, moved / self.rates.memory)
        if strategy.joined is not None:
            sent = sum(self._bytes(out, strategy.layout, grid) for out in outs_of(op)) * (grid.devices(strategy.joined.mesh) - 1)
            link = self.rates.over(strategy.joined.mesh)
            time += link.latency * len(outs_of(op)) + sent / link.bandwidth
        return time

    def _bytes(self, value: Value, layout: Layout, grid: Grid) -> float:
        return self._guess(elements(local_shape(value.shape, layout, grid))) * held_as(value.element, layout, grid).bits // 8

    def _guess(self, dim: Dim) -> int:
        try:
            return max(0, dim.evaluate(self.sizes))
        except (KeyError, ZeroDivisionError):
            return 1

    def _taken(self, op: Op, strategy: Strategy, work: float, state: _State, own: set[Symbol]) -> _State:
        mover = _Mover(self, state.available)
        reads = tuple((need.key, mover.bring(need)) for need in strategy.needs)
        for out in outs_of(op):
            mover.available[out.symbol] = self.seen(out.symbol, self.number(strategy.layout))
        inner = tuple(m for m in mover.moving if m.tensor in own)
        hoisted = (*state.hoisted, *(m for m in mover.moving if m.tensor not in own))
        return _State(state.cost + work + mover.cost, mover.available, state, Decision(op, strategy, reads, inner), hoisted)

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self, op: Loop, state: _State, weight: float, own: set[Symbol]) -> list[_State]:
        trip = trip_of(op)
        trips = max(1, self._guess(trip) if isinstance(trip, Dim) else self.counts.get(trip, TRIPS))
        self.sizes[op.counter] = trips // 2
        self.values[op.counter] = Value(op.counter, op.states[0].element, ())
        for value in op.states:
            self.values[value.symbol] = value
            self.weights[value.symbol] = weight * trips
        made = tuple(natural(value.shape, self.grid) for value in op.states)
        alike = tuple(whole(len(value.shape)) for value in op.states)
        as_is = tuple(
            next((one for one in self.sets[state.available[s]] if one.plain), whole(len(v.shape)))
            for s, v in zip(op.initial, op.states, strict=True)
        )
        found = []
        for layouts in dict.fromkeys((made, as_is, alike)):
            if op.conditional and layouts[-1] != whole(0):
                continue
            mover = _Mover(self, state.available)
            for symbol, layout in zip(op.initial, layouts, strict=True):
                mover.bring(Need((symbol, ()), (layout,)))
            for read in (n for n in nodes(op.trip) if isinstance(n, Read)):
                mover.bring(all_of(read.tensor, 0, "it says how often a loop runs", self.grid))
            named = tensors_of(op)
            outer = {s: found for s, found in mover.available.items() if s in named}
            inside = frozenset((op.counter, *(v.symbol for v in op.states)))
            begins: Available = {**outer, op.counter: self.number(whole(0))}
            begins |= {v.symbol: self.seen(v.symbol, self.number(one)) for v, one in zip(op.states, layouts, strict=True)}
            key = (op.counter, layouts, tuple(outer.items()))
            if key not in self.bodies:
                self.bodies[key] = self.block(op.body, begins, layouts, weight * trips, inside)
            plan, after = self.bodies[key]
            for symbol in outer:
                mover.available[symbol] = after.get(symbol, mover.available[symbol])
            lead: tuple[None, ...] = (None,) if op.stacked else ()
            for out, layout in zip(op.outs, layouts, strict=True):
                mover.available[out.symbol] = self.seen(out.symbol, self.number(Layout((*lead, *layout.splits))))
            moving = (*mover.moving, *plan.hoisted)
            inner = tuple(m for m in moving if m.tensor in own)
            hoisted = (*state.hoisted, *(m for m in moving if m.tensor not in own))
            decision = Decision(op, None, (), inner, plan, layouts)
            found.append(_State(state.cost + mover.cost + plan.seconds, mover.available, state, decision, hoisted))
        return found

    # ── moves ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def move(self, tensor: Symbol, before: Layout, after: Layout) -> tuple[float, tuple[Move, ...]] | None:
        """The collectives from one layout of a value to another, and how long they take in all runs of the program."""
        key = (tensor, before, after)
        if key not in self.paths:
            moves = path(before, after)
            value = self.values[tensor]
            if moves is None:
                self.paths[key] = None
            else:
                each = held_as(value.element, before, self.grid).bits // 8
                time = sum(seconds(m, value, self.grid, each, self.sizes, self.rates) for m in moves)
                self.paths[key] = (time * self.weights.get(tensor, 1.0), moves)
        return self.paths[key]


def literal(op: Compute) -> int | None:
    """The whole number that an operation gives, if it gives no other."""
    match op.body:
        case (Const(value=int() as value),) if not op.axes and op.reduction is None:
            return int(value)
        case _:
            return None


class _Mover:
    """The moves of one operation: each makes a layout available to those after it."""

    def __init__(self, planner: Planner, available: Available) -> None:
        self.planner, self.available = planner, dict(available)
        self.moving: list[Moving] = []
        self.cost = 0.0

    def bring(self, need: Need) -> Layout:
        """The layout in which a tensor is read: of those that will do the cheapest."""
        have = self.planner.sets[self.available[need.tensor]]
        for layout in need.accepts:
            if layout in have:
                return layout
        best: tuple[float, tuple[Move, ...], Layout] | None = None
        for layout in need.accepts:
            for before in have:
                found = self.planner.move(need.tensor, before, layout)
                if found is not None and (best is None or found[0] < best[0]):
                    best = (*found, layout)
        assert best is not None, "every operation can read the whole"
        cost, moves, layout = best
        made = dict.fromkeys((*have, *(m.after for m in moves)))
        self.available[need.tensor] = self.planner.number(*made)
        self.planner.varying.add(need.tensor)
        self.cost += cost
        why = dict(need.why)
        axes = {m.axis for m in moves}
        told = "; ".join(dict.fromkeys(why[a] for a in self.planner.grid.names if a in axes and a in why))
        self.moving.append(Moving(need.tensor, moves, told))
        return layout
