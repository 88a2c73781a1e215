"""A plan as steps: programs of core over blocks, and collectives between them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import (
    Axis,
    Block,
    Check,
    Compress,
    Compute,
    Convert,
    Known,
    Leaf,
    Loop,
    Op,
    Param,
    Program,
    Read,
    Scan,
    Sort,
    TupleOf,
    Value,
)
from axon.core.scalar_facts import may_stop
from axon.core.sharding.access import Grid
from axon.core.sharding.blocked import Blocked
from axon.core.sharding.halves import halves, may_share
from axon.core.sharding.ir import Collective, Layout, Local, Part, Repeat, Step, made_by
from axon.core.sharding.layouts import Move, held_as, local_shape
from axon.core.sharding.local import Held, Localizer, combined, cut_of, fixed, operation, parts, prefixes, totals
from axon.core.sharding.plan import Decision, Moving, Plan
from axon.core.sharding.ring import Break, Way, ring
from axon.core.sharding.strategies import Strategy, narrow
from axon.core.walk import dimensions_of, needs_of, outs_of, tensors_of, trip_of
from axon.shapes.contracts.contract import Contract, ParameterShape
from axon.shapes.dimension import Dim
from axon.shapes.pretty import render
from axon.shapes.relation import Relation

_WORDS = {"sum": "sum", "prod": "product", "max": "maximum", "min": "minimum", "any": "`any`", "all": "`all`"}
Raw: TypeAlias = "Compute | Scan | Loop | Sort | Compress | Check | Known | Collective | Parted | Break | _Body"

Change: TypeAlias = "Callable[[Sequence[Raw], Sequence[Symbol]], list[Raw]]"


@dataclass(frozen=True, slots=True)
class Parted:
    """Operations of which the last makes a part of a value: a program of its own."""

    ops: tuple[Compute, ...]
    part: Part


@dataclass(frozen=True, slots=True)
class _Body:
    """A loop whose body exchanges something, before its operations are grouped."""

    repeat: Repeat
    raw: tuple[Raw, ...]


class Emitter:
    """Writes the steps of a plan. `values` are the unsharded tensors, in local sizes."""

    def __init__(self, name: str, values: Mapping[Symbol, Value], grid: Grid, rings: Mapping[Symbol, Blocked]) -> None:
        self.name, self.values, self.grid, self.rings = name, values, grid, rings
        self.versions: dict[tuple[Symbol, Layout], Value] = {}
        self.requires: dict[Relation, None] = {}
        self.raw: list[Raw] = []
        self.spans: dict[Symbol, Span | None] = {}  # of what makes a value
        self.origins: dict[tuple[Symbol, str], str] = {}  # of what is partial over an axis, in words

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def version(self, symbol: Symbol, layout: Layout) -> Value:
        """A tensor as a device has it in a layout."""
        return self.versions[symbol, layout]

    def place(self, value: Value, layout: Layout) -> Value:
        """A new version of a tensor."""
        key = (value.symbol, layout)
        if key not in self.versions:
            self.versions[key] = self._local(value, layout, held_as(value.element, layout, self.grid))
        return self.versions[key]

    def _local(self, value: Value, layout: Layout, element: Element) -> Value:
        return Value(fresh(value.symbol.name), element, local_shape(value.shape, layout, self.grid))

    # ── moves ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def bring(self, moving: Moving, reader: Op | None, what: str) -> None:
        """Emit the moves, those that have not been made, for an operation or for `what`."""
        value = self.values[moving.tensor]
        if reader is not None:
            what = f"`{outs_of(reader)[0].symbol.name}`"
        for move in moving.moves:
            if (moving.tensor, move.after) not in self.versions:
                self._move(move, value, self._reason(move, value, moving.reason, what), reader)

    def _reason(self, move: Move, value: Value, why: str, what: str) -> str:
        """Why something is exchanged, in words."""
        name = f"`{value.symbol.name}`"
        split = None if move.dimension is None else move.after.splits[move.dimension]
        match move.kind:
            case "all_reduce":
                return f"{self.origins[value.symbol, move.axis]}; {what} needs it whole{self._rounded(move, value)}"
            case "reduce_scatter":
                return f"{self.origins[value.symbol, move.axis]}; {what} needs a block of it{self._rounded(move, value)}"
            case "halo":
                assert split is not None
                sides = [(split.left, "before"), (split.right, "behind")]
                reach = " and ".join(f"{render(n)} {side}" for n, side in sides if n.mapping)
                ends = ", around the ends" if split.around else ""
                return f"{what} reads its block of {name} and, of its neighbours', {reach}{ends}"
            case "all_to_all":
                return f"{what} reads {name} split along dimension {move.target}, and it is split along {move.dimension}"
            case "slice":
                return f"{what} takes its block of {name}"
            case _:
                return why or f"{what} needs {name} whole"

    def _rounded(self, move: Move, value: Value) -> str:
        """In what narrow floats are sent that are yet to be combined."""
        if value.element.accumulator is value.element or move.before.monoid(move.axis) not in ("sum", "prod"):
            return ""
        held = held_as(value.element, move.before, self.grid)
        return f"; each device's part is {'rounded to' if held is value.element else 'sent as'} {held.value}"

    def _move(self, move: Move, value: Value, reason: str, reader: Op | None) -> None:
        source = self.version(value.symbol, move.before)
        made = self.place(value, move.after)
        exchanged = made
        if made.element is not source.element:
            exchanged = replace(made, symbol=fresh(value.symbol.name), element=source.element)
        shape = local_shape(value.shape, move.before, self.grid)

        def extent(d: int | None) -> Dim:
            """Of a dimension, what a line of devices along the axis has together."""
            return Dim.of(0) if d is None else value.shape[d] if d in (move.dimension, move.target) else shape[d]

        split = None if move.dimension is None or move.kind != "halo" else move.after.splits[move.dimension]
        self.raw.append(
            Collective(
                move.kind,
                move.axis,
                source.symbol,
                exchanged,
                move.dimension,
                extent(move.dimension),
                move.target,
                extent(move.target),
                move.before.monoid(move.axis) if move.kind in ("all_reduce", "reduce_scatter") else None,
                split.left if split is not None else Dim.of(0),
                split.right if split is not None else Dim.of(0),
                split is not None and split.around,
                reason=reason,
                span=reader.span if reader is not None else self.spans.get(value.symbol),
            )
        )
        if split is not None and move.dimension is not None:
            for border in (split.left, split.right):
                if border.mapping:
                    self.requires[Relation(border, "<=", shape[move.dimension])] = None
        if exchanged is not made:  # rounded once
            axes = tuple(Axis(fresh("i"), extent) for extent in made.shape)
            read = Read(exchanged.symbol, tuple(Dim.of(a.symbol) for a in axes), exchanged.element)
            self.raw.append(Compute((made,), axes, None, (Convert(read, made.element),)))

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def plan(self, plan: Plan, block: Block, what: str) -> None:
        """Emit a block; `what` is what its results are."""
        for decision in plan.decisions:
            for moving in decision.moving:
                self.bring(moving, decision.op, "")
            self.decision(decision)
            for moving in decision.settled:
                self.bring(moving, None, what)
        for moving in plan.moving:
            self.bring(moving, None, what)

    def decision(self, decision: Decision) -> None:
        op, strategy = decision.op, decision.strategy
        self.spans.update({out.symbol: op.span for out in outs_of(op)})
        match op:
            case Check():
                self.raw.append(op)
            case Loop() if decision.ring is not None:
                self._ring(op, decision.ring)
            case Loop():
                self._loop(op, decision)
            case Sort():
                assert strategy is not None
                ((key, layout),) = decision.reads
                values, indices = (self.place(v, strategy.layout) for v in (op.values, op.indices))
                self.raw.append(Sort(values, indices, self.version(key[0], layout).symbol, op.span))
            case Compress():
                assert strategy is not None
                ((key, layout),) = decision.reads
                out, mask = self.place(op.out, strategy.layout), self.version(key[0], layout)
                self.raw.append(Compress(out, op.size, mask.symbol, op.span))
            case Compute() | Scan():
                assert strategy is not None
                self._computed(op, strategy, decision)

    def _computed(self, op: Compute | Scan, strategy: Strategy, decision: Decision) -> None:
        held = {key: Held(self.values[key[0]], one, self.version(key[0], one)) for key, one in decision.reads}
        localizer = Localizer(strategy, held, self.grid)
        if isinstance(op, Compute) and op.reduction is not None and strategy.layout.partial and narrow(op):
            outs = tuple(self.place(out, strategy.layout) for out in op.outs)
        else:
            outs = tuple(self._plain(out, strategy.layout) for out in op.outs)
        if strategy.joined is None:
            self.raw.append(operation(op, outs, localizer))
            self._partial(op, strategy, [key[0] for key, _ in decision.reads])
            return
        axis = cut_of(localizer).mesh
        coordinate, devices = self.grid.coordinate(axis), self.grid.devices(axis)
        name = op.outs[0].symbol.name
        if isinstance(op, Compute):
            made, rows = parts(op, localizer.axes(op.axes), localizer)
            self.raw += made
            kind = op.reduction.monoid.kind if op.reduction is not None else ""
            how = "its monoid" if kind == "custom" else kind
            along = cut_of(localizer).axis.name
            reason = f"`{name}` reduces along `{along}`, which is split over {axis}: {how} of the devices' in their order"
            gathered = [self._gather(row, axis, devices, reason, op) for row in rows]
            self.raw.append(combined(op, outs, gathered, devices, localizer))
            return
        running = tuple(Value(fresh(out.symbol.name), out.element, out.shape) for out in outs)
        self.raw.append(operation(op, running, localizer))
        last, rows = totals(op, running, localizer)
        self.raw.append(last)
        reason = f"`{name}` runs along `{cut_of(localizer).axis.name}`, which is split over {axis}: what each block comes to"
        gathered = [self._gather(row, axis, devices, reason, op) for row in rows]
        before, sums = prefixes(op, gathered, coordinate, localizer)
        self.raw += (before, fixed(op, outs, sums, running, coordinate, localizer))

    def _partial(self, op: Compute | Scan, strategy: Strategy, reads: Sequence[Symbol]) -> None:
        """Say of partial results why they are: by their own reduction, or because what they are linear in is."""
        along = {c.mesh: c.axis.name for c in strategy.cuts}
        for out in op.outs:
            name = f"`{out.symbol.name}`"
            for axis, kind in strategy.layout.partial:
                if axis in strategy.passed:
                    told = next(self.origins[s, axis] for s in reads if (s, axis) in self.origins)
                else:
                    told = f"{name} is the {_WORDS[kind]} along `{along[axis]}`, which is split over {axis}"
                self.origins[out.symbol, axis] = told

    def _plain(self, out: Value, layout: Layout) -> Value:
        """A version of a result that holds what the operation gives."""
        key = (out.symbol, layout)
        self.versions[key] = self._local(out, layout, out.element)
        return self.versions[key]

    def _gather(self, row: Value, axis: str, devices: int, reason: str, op: Compute | Scan) -> Value:
        made = Value(fresh(row.symbol.name), row.element, (Dim.of(devices), *row.shape[1:]))
        self.raw.append(Collective("all_gather", axis, row.symbol, made, 0, Dim.of(devices), reason=reason, span=op.span))
        return made

    def _ring(self, op: Loop, way: Way) -> None:
        outs = [self.place(out, way.on_mesh(one)) for out, one in zip(op.outs, way.states, strict=True)]
        known = self.rings[op.counter]
        if may_share(op, known, way):
            made = halves(op, known, way, self.values, self.versions, outs)
            self.raw += (*made.before, _Body(made.repeat, made.raw), *made.after)
            return
        repeat, raw = ring(op, known, way, self.values, self.versions, outs)
        self.raw.append(_Body(repeat, tuple(raw)))

    def _loop(self, op: Loop, decision: Decision) -> None:
        plan, layouts = decision.body, decision.states
        assert plan is not None
        initial = tuple(self.version(s, one).symbol for s, one in zip(op.initial, layouts, strict=True))
        states = tuple(self.place(value, one) for value, one in zip(op.states, layouts, strict=True))
        self.versions[op.counter, Layout(())] = Value(op.counter, Element.I32, ())
        around, self.raw = self.raw, []
        self.plan(plan, op.body, "the next step")
        body, self.raw = tuple(self.raw), around
        results = tuple(self.version(s, one).symbol for s, one in zip(op.body.results, layouts, strict=True))
        lead: tuple[None, ...] = (None,) if op.stacked else ()
        outs = tuple(self.place(out, Layout((*lead, *one.splits))) for out, one in zip(op.outs, layouts, strict=True))
        trip = trip_of(op)
        if not any(isinstance(item, Collective | _Body) for item in body):
            count = op.trip
            if isinstance(trip, Symbol):
                count = Read(self.version(trip, Layout(())).symbol, (), Element.I32)
            ops = tuple(item for item in body if not isinstance(item, Known | Collective | Parted | Break | _Body))
            self.raw.append(replace(op, outs=outs, initial=initial, states=states, trip=count, body=Block(ops, results)))
            return
        many = trip if isinstance(trip, Dim) else self.version(trip, Layout(())).symbol
        repeat = Repeat(outs, initial, states, op.counter, many, (), results, op.stacked, op.conditional, op.span)
        self.raw.append(_Body(repeat, body))


# ── operations in a row as programs ─────────────────────────────────────────────────────────────────────────────────────


def grouped(name: str, raw: Sequence[Raw], results: Iterable[Symbol], around: Mapping[Symbol, Value]) -> tuple[Step, ...]:
    """The steps, with operations in a row as one program each, which gives what later ones or the results name."""
    values = dict(around)
    for item in raw:
        for value in _made(item):
            values[value.symbol] = value
    steps: list[Step] = []
    needed = set(results)
    at = len(raw)
    while at:
        item = raw[at - 1]
        if isinstance(item, Break):
            at -= 1
        elif isinstance(item, Collective):
            at -= 1
            if item.result.symbol in needed:
                needed |= {item.source, *_sizes(item)}
                steps.append(item)
        elif isinstance(item, Parted):
            at -= 1
            step = _program(name, item.ops, {out.symbol for out in item.ops[-1].outs}, values)
            if item.part.of.symbol in needed and step is not None:
                steps.append(replace(step, part=item.part))
                sizes = (s for dim in (item.part.begin, *item.part.of.shape) for s in dim.variables)
                needed |= {*step.reads, *step.program.explicit, *sizes}
        elif isinstance(item, _Body):
            at -= 1
            inside = {**values, **{v.symbol: v for v in item.repeat.states}}
            inside[item.repeat.counter] = Value(item.repeat.counter, Element.I32, ())
            inner = grouped(name, item.raw, item.repeat.results, inside)
            own = {item.repeat.counter, *(v.symbol for v in item.repeat.states)}
            needed |= {*item.repeat.initial, *(_reads(inner, item.repeat.results) - own), *_trip(item.repeat)}
            steps.append(replace(item.repeat, steps=inner))
        else:
            ops: list[Op] = []
            known: list[Known] = []
            while at and not isinstance(op := raw[at - 1], Collective | Parted | Break | _Body):
                if isinstance(op, Known):
                    known.append(op)
                else:
                    ops.append(op)
                at -= 1
            step = _program(name, ops[::-1], needed, values, known[::-1])
            if step is not None:
                steps.append(step)
                needed |= {*step.reads, *step.program.explicit}
    return tuple(reversed(steps))


def _made(item: Raw) -> tuple[Value, ...]:
    match item:
        case Collective(result=result):
            return (result,)
        case _Body(repeat=repeat):
            return repeat.outs
        case Parted(part=part):
            return (part.of,)
        case Break() | Known():
            return ()
        case _:
            return outs_of(item)


def read_of_raw(item: Raw) -> Iterable[Symbol]:
    """The values that an item reads; of a loop also those that it makes itself."""
    match item:
        case Collective(source=source):
            return (source,)
        case Break():
            return ()
        case Known(holds=holds):
            return (holds,)
        case Parted(ops=ops):
            return {s for op in ops for s in tensors_of(op)} - {out.symbol for op in ops for out in op.outs}
        case _Body(repeat=repeat, raw=raw):
            trip = [repeat.trip] if isinstance(repeat.trip, Symbol) else []
            return (*trip, *repeat.initial, *repeat.results, *(s for inner in raw for s in read_of_raw(inner)))
        case _:
            return tensors_of(item)


def each_row(raw: Sequence[Raw], results: Sequence[Symbol], change: Change) -> list[Raw]:
    """A row of items, and those in its loops, changed; `results` are what is needed of a row."""

    def inside(item: Raw) -> Raw:
        return replace(item, raw=tuple(each_row(item.raw, item.repeat.results, change))) if isinstance(item, _Body) else item

    return change(list(map(inside, raw)), results)


def _reads(steps: Sequence[Step], results: Iterable[Symbol]) -> set[Symbol]:
    """The values that steps read and do not make, and the sizes that they mention."""
    needed = set(results)
    for step in reversed(steps):
        match step:
            case Local():
                needed = (needed - {*made_by(step), *dict(step.defines)}) | {*step.reads, *step.program.explicit}
                if step.part is not None:
                    needed |= step.part.begin.variables.union(*(dim.variables for dim in step.part.of.shape))
            case Collective():
                needed = (needed - {step.result.symbol}) | {step.source, *_sizes(step)}
            case Repeat():
                own = {step.counter, *(v.symbol for v in step.states)}
                inner = _reads(step.steps, step.results) - own
                needed = (needed - {v.symbol for v in step.outs}) | inner | {*step.initial, *_trip(step)}
    return needed


def _sizes(step: Collective) -> Iterable[Symbol]:
    """Those that a collective mentions."""
    dims = (*step.result.shape, step.extent, step.target_extent, step.left, step.right)
    return (symbol for dim in dims for symbol in dim.variables)


def _trip(step: Repeat) -> Iterable[Symbol]:
    """The value, or the sizes, that say how often a loop runs; and the sizes of what it gives."""
    sizes = (symbol for value in step.outs for dim in value.shape for symbol in dim.variables)
    return {*sizes, *({step.trip} if isinstance(step.trip, Symbol) else step.trip.variables)}


def _program(
    name: str, ops: Sequence[Op], needed: set[Symbol], values: Mapping[Symbol, Value], given: Sequence[Known] = ()
) -> Local | None:
    """Operations as a program, without what nobody needs, by its values or by its size; checks stay, and what may stop the program
    where it is needed."""
    wanted = set(needed)
    kept: list[Op] = []
    for op in reversed(ops):
        stops = isinstance(op, Check) or (isinstance(op, Compute | Scan) and may_stop(op))
        counts = isinstance(op, Compress) and op.size in wanted
        if stops or counts or any(out.symbol in wanted for out in outs_of(op)):
            kept.append(op)
            wanted |= needs_of(op)
    if not kept:
        return None
    kept.reverse()
    own = {out.symbol: out for op in kept for out in outs_of(op)}
    local = {s for op in kept if isinstance(op, Loop) for s in _inside(op)}
    read = dict.fromkeys(
        s for op in kept for s in sorted(tensors_of(op), key=lambda s: s.id) if s not in own and s not in local and s in values
    )
    known = tuple(one for one in given if one.made in own)
    inputs = tuple(values[s] for s in dict.fromkeys([*read, *(one.holds for one in known)]))
    defined = {op.size: op.out.symbol for op in kept if isinstance(op, Compress)}
    shaped = frozenset(v for value in inputs for dim in value.shape for v in dim.variables)
    inner = {op.size for loop in kept if isinstance(loop, Loop) for op in _deep(loop) if isinstance(op, Compress)}
    dims = shaped.union(*map(dimensions_of, kept)) - defined.keys() - inner
    explicit = tuple(sorted(dims - local, key=lambda s: s.id))
    results = tuple(s for s in own if s in needed or s in defined.values())
    leaves = tuple(Leaf(n) for n in range(len(results)))
    program = Program(
        name,
        explicit,
        tuple(Param(v.symbol.name, Leaf(n)) for n, v in enumerate(inputs)),
        inputs,
        Contract(explicit, tuple(ParameterShape(v.symbol.name, v.shape) for v in inputs)),
        Block(tuple(kept), results),
        leaves[0] if len(leaves) == 1 else TupleOf(leaves),
        known=known,
    )
    return Local(program, tuple(defined.items()))


def _deep(op: Loop) -> Iterable[Op]:
    for inner in op.body.ops:
        yield inner
        if isinstance(inner, Loop):
            yield from _deep(inner)


def _inside(op: Loop) -> set[Symbol]:
    """What a loop introduces: its counter, states, and what its body makes."""
    found = {op.counter, *(v.symbol for v in op.states)}
    for inner in op.body.ops:
        found |= {out.symbol for out in outs_of(inner)}
        if isinstance(inner, Loop):
            found |= _inside(inner)
    return found
