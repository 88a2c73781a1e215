"""A nest and its mapping as one kernel in Python that numba-cuda compiles.

Each step of the nest becomes its loops, in order; the mapping says which loop the threads of a team share, and how many neighbours
a thread holds. See Note [Teams] in `mapping`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from contextlib import ExitStack, contextmanager
from functools import reduce
from operator import or_

from axon.backend.gpu.emit.source import Emitted, Parameter, StatusParameter, StrideParameter, emitted
from axon.backend.gpu.layout.register_tiles import NARROW as NARROW_FACTOR
from axon.backend.gpu.layout.target import Target
from axon.backend.gpu.simt.access import accesses, following, swept
from axon.backend.gpu.simt.fragments import FragmentReduction
from axon.backend.gpu.simt.general import alone, conditions
from axon.backend.gpu.simt.halves import halves
from axon.backend.gpu.simt.mapping import THREADS, Mapping
from axon.backend.gpu.simt.narrow_fragments import NarrowFragmentReduction
from axon.backend.gpu.simt.pieces import GRID, Pieces, ask_ahead, canonical, cut_rows, resident, spread_rows, wholly
from axon.backend.gpu.simt.reductions import UNROLL, Reductions
from axon.backend.gpu.simt.running_maximum import peaks
from axon.backend.gpu.simt.tiled_reduction import TiledReduction
from axon.backend.gpu.simt.tiles import Staged, staged, tiled_rows
from axon.backend.gpu.simt.writer import NARROW, Lane, LaneWriter, Mask
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import (
    FALSE,
    TRUE,
    Assign,
    Call,
    Constant,
    Do,
    Expression,
    External,
    Function,
    Import,
    Kind,
    Module,
    Name,
    around,
    call,
    expressions,
    mentions,
    product,
)
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.kernel.places import placed
from axon.backend.kernel.writer import Held, is_narrow
from axon.backend.plan import ir as plans
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import LOGIC, Axis, Binary, Bind, Compute, Convert, Read, Scan, Select, Value, element_of
from axon.core.scalar_facts import at_least_0
from axon.core.walk import all_axes, nodes, scalars, tensors_of
from axon.shapes.dimension import Dim


def emit(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    mapping: Mapping,
    units: MappingOf[Symbol, int],
    target: Target,
    comments: Sequence[str] = (),
) -> Emitted:
    """The kernel's source. `units` says along which dimension of each tensor elements lie side by side (-1 for none)."""
    return PlainEmitter(nest, values, mapping, units, target).run(comments)


class PlainEmitter:
    def __init__(
        self,
        nest: Nest,
        values: MappingOf[Symbol, Value],
        mapping: Mapping,
        units: MappingOf[Symbol, int],
        target: Target,
    ) -> None:
        self.target = target
        self.in_turn = mapping.general  # by lanes, a thread goes on until there are no more neighbours to take
        self.conditions = conditions(nest, mapping, units, values) if mapping.general else []
        self.halves = halves(nest) if mapping.halved else None
        nest = self.halves.nest if self.halves else nest
        self.nest, self.mapping, self.units = nest, mapping, units
        self.values = dict(values) | {out.symbol: out for step in nest.steps for out in step.outs}
        self.code = Code()
        self.names: dict[Symbol, Name] = {}
        self.parameters: dict[Parameter, Name] = {}
        self.read = frozenset().union(*map(tensors_of, nest.steps))
        self.following = following(nest) if mapping.by != "lanes" else {}
        self.made = {out.symbol for step in nest.steps for out in step.outs}
        met = [step for steps in self.following.values() for step in steps]
        elsewhere = frozenset().union(*(tensors_of(step) for step in nest.steps if step not in met))
        # What of slices nobody reads but from registers, or nobody at all.
        self.passed = self.made - elsewhere - set(nest.stored) if nest.slices is not None else set[Symbol]()
        self.registers: dict[tuple[Symbol, Name], Expression] = {}  # a value of the row at the place of a lane
        self.variables: dict[Symbol, Expression] = {}  # scalars of the row
        self.places: dict[Symbol, Expression] = {}  # variables of axes that have several
        self.staged: dict[tuple[Symbol, object], Staged] = {}  # what is read across
        self.brought: dict[tuple[Symbol, object], tuple[Expression, int]] = {}  # where a row's piece lies, and bytes of elements
        self.kept: tuple[set[Symbol], Call] | None = None  # what stays in shared memory, and what waits until it is there
        self.taken: Callable[[], None] | None = None  # writes what follows when a row has come into registers
        self.asking: Callable[[], None] | None = None  # writes what asks for a later row
        self.spot: Expression = Constant(0)  # where the neighbours of a thread are within a piece
        self.bytes = 0  # of shared memory for squares and pieces
        self.team = 0  # threads that share a row
        self.beside = 0  # and of these, those that share the innermost loop
        self.writer = LaneWriter(
            self.code, self.variable, self.size, self.held, self.stride, self.moves_together, self.made.__contains__, self.register,
            self.begins_elsewhere,
        )  # fmt: skip
        self.reductions = Reductions(self)
        stored = [self.values[symbol].element for symbol in nest.stored]
        self.writer.uniform = mapping.uniform
        read = [self.values[s].element for s in plans.reads_of(nest)]
        if _narrow(stored) or _narrow(read):  # the floats that are stored, or all that are read, have 16 bits or fewer
            self.writer.forms = NARROW
        found = list(accesses(nest, mapping.by in ("lanes", "tiles")))
        self.together = {(a.tensor, a.subscripts, a.lane.symbol) for n, a in enumerate(found) if n in mapping.beside}
        self.elsewhere = {(a.tensor, a.subscripts, a.lane.symbol) for n, a in enumerate(found) if n in mapping.elsewhere}
        self.whole = next((a for n, a in enumerate(found) if n in mapping.beside - mapping.elsewhere), None)

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def name(self, symbol: Symbol) -> Name:
        if symbol not in self.names:
            self.names[symbol] = self.code.named(symbol.name)
        return self.names[symbol]

    def parameter(self, parameter: Parameter, like: str, of: Name | None = None) -> Name:
        if parameter not in self.parameters:
            self.parameters[parameter] = self.code.named(like, of)
        return self.parameters[parameter]

    def variable(self, symbol: Symbol) -> Expression:
        if symbol in self.places:
            return self.places[symbol]
        return self.name(symbol) if symbol in self.writer.extents else self.size(Dim.of(symbol))

    def size(self, dim: Dim) -> Expression:
        if dim.constant is not None:
            return Constant(dim.constant)
        return self.parameter(ExtentParameter(dim), dim.symbol.name if dim.symbol else "size")

    def pointer(self, symbol: Symbol) -> Name:
        return self.parameters.setdefault(PointerParameter(symbol), self.name(symbol))

    def stride(self, tensor: Symbol, dimension: int) -> Expression:
        if self.units.get(tensor, len(self.values[tensor].shape) - 1) == dimension:
            return Constant(1)
        return self.parameter(StrideParameter(tensor, dimension), f"_step{dimension}", self.name(tensor))

    def held(self, symbol: Symbol) -> Held:
        value = self.values[symbol]
        variable = self.variables.get(symbol)
        chunks = symbol in self.made and self.mapping.chunks and len(value.shape) > len(self.nest.rows)
        in_registers = chunks or symbol in self.passed
        return Held(value, 0 if variable or in_registers else self.pointer(symbol), variable)

    def register(self, read: Read) -> Expression | None:
        lane = self.writer.lane
        square = self.staged.get((read.tensor, read.subscripts))
        if square is not None:
            return self.writer.let(staged(self, read.element.value, square))
        if self.brought and lane is not None:
            piece = self.piece_of(read, lane.axis)
            if piece is not None:
                at, size = piece
                name = f"taken_{self.values[read.tensor].element.value}" + (f"_{lane.vector}" if lane.vector > 1 else "")
                return self.writer.call(name, at + self.spot * size, self.writer.mask(steady_only=True))
        return self.registers.get((read.tensor, lane.start)) if lane else None

    def piece_of(self, read: Read, lane: Symbol) -> tuple[Expression, int] | None:
        """Where in shared memory what is read along a lane lies, if it does, and the bytes of its elements."""
        piece = self.brought.get((read.tensor, canonical(read.subscripts, lane)))
        return piece if (read.tensor, read.subscripts, lane) in self.together else None

    def moves_together(self, read: Read, lane: Lane) -> bool:
        return (read.tensor, read.subscripts, lane.axis) in self.together

    def begins_elsewhere(self, read: Read, lane: Lane) -> bool:
        return (read.tensor, read.subscripts, lane.axis) in self.elsewhere

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, comments: Sequence[str]) -> Emitted:
        for value in self.values.values():
            if value.symbol in self.made:
                self.name(value.symbol)
        code, mapping, local = self.code, self.mapping, self.code.local
        code.assign(code.bad, FALSE)
        code.assign(local("flip"), 0)
        code.assign(local("shared"), call("as_i64", call("shared_memory")))
        code.assign(local("thread"), call("as_i64", External("cuda.threadIdx.x")))
        code.assign(local("block"), call("as_i64", External("cuda.blockIdx.x")))
        tile = self.mapping.tiled.tile if self.mapping.tiled else None
        cluster = tile.splits if tile else self.mapping.pieces.blocks if self.mapping.pieces else 1
        if cluster > 1:
            code.call("cluster_of")
        if self.mapping.general:
            self.both()
        else:
            self.form()
        if self.writer.fails:
            with code.when(code.bad):
                code.call("store_i32", self.parameter(StatusParameter(), "status"), 0, call("i32", 1), True)
        function = code.function("kernel", tuple(self.parameters.values()))
        module = _module(function, cluster, (*comments, str(mapping)))
        threads = mapping.team if mapping.by in ("block", "cluster") else mapping.across.threads if mapping.across else THREADS
        together = resident(mapping, self.target) if mapping.by == "cluster" and mapping.chunks else 1
        if mapping.tiled is not None:
            threads, together = mapping.tiled.tile.threads, mapping.tiled.resident
        shared = self.bytes + self.reductions.bytes
        return emitted(module, self.parameters, threads, cluster, shared, together)

    def form(self) -> None:
        """All that is done, by the mapping."""
        if self.mapping.tiled is not None:
            tile = self.mapping.tiled.tile
            by_warps = NarrowFragmentReduction if tile.size == NARROW_FACTOR else FragmentReduction
            reduction = (by_warps if tile.warps else TiledReduction)(self)
            reduction.write()
            self.bytes = reduction.bytes
        elif self.mapping.by == "lanes" and self.mapping.turns > 1:
            self.turns()
        else:
            with self.rows():
                self.steps()

    def both(self) -> None:
        """A kernel for any size: in the form for neighbours that move together, and in the one for what does not lie for that."""
        groups: dict[int, dict[Expression, None]] = {}
        for condition in self.conditions:
            match condition.of:
                case Dim() as size:
                    value = self.size(size)
                case (symbol, dimension):
                    value = self.stride(symbol, dimension)
                case Symbol() as symbol:
                    value = self.pointer(symbol)
            groups.setdefault(condition.modulus, {})[value] = None
        fits: Expression = TRUE
        for modulus, found in groups.items():
            one = self.code.let(call("eq_int", reduce(or_, found) & (modulus - 1), 0))
            fits = one if fits == TRUE else self.code.let(call("both", fits, one))
        with self.writer.branch(self.code.when(fits)):
            self.form()
        self.mapping = self.reductions.mapping = alone(self.mapping)
        self.together = set()
        for known in (self.variables, self.places, self.registers, self.staged):
            known.clear()
        self.writer.lane = None
        with self.writer.branch(self.code.otherwise()):
            self.form()

    @contextmanager
    def rows(self) -> Iterator[None]:
        """The row that this thread works at, and whether there is one."""
        code, writer, rows = self.code, self.writer, self.nest.rows
        if self.mapping.by == "tiles":
            with tiled_rows(self):
                yield
            return
        if self.mapping.by == "lanes":
            with self.lanes():
                yield
            return
        extents = [self.extent(a) for a in rows]
        self.team = self.beside = self.mapping.team
        if self.mapping.by == "cluster" and not self.mapping.persistent:
            spread_rows(self, rows, extents)
            yield
            return
        if self.mapping.by == "cluster":
            axes = (swept(step, len(rows)) for step in self.nest.steps)
            with cut_rows(self, rows, extents, next(a.extent for a in axes if a is not None)):
                yield
            return
        local = code.local
        row, member, block, thread, active = local("row"), local("member"), local("block"), local("thread"), local("active")
        if self.mapping.by == "block":
            code.assign(row, block)
            code.assign(member, thread)
            ask_ahead(self, rows, extents)
        else:
            team = self.mapping.team
            code.assign(row, block * (THREADS // team) + call("unsigned_divide", thread, team))
            code.assign(member, call("unsigned_remainder", thread, team))
            code.assign(active, call("lt_int", row, product(*extents)))
            code.assign(row, call("select", active, row, 0), "its threads take part in what warps do together")
        self.indices(rows, extents, row)
        if self.mapping.by == "warp":
            with writer.masked(active, False, clamped=True):
                yield
        else:
            yield

    @contextmanager
    def lanes(self, turn: int | None = None) -> Iterator[None]:
        """The columns of this thread; of several that it takes in turn, those of one turn."""
        code, writer, rows, team = self.code, self.writer, self.nest.rows, self.mapping.team
        vector = self.mapping.vector
        outer, lane = (rows[:-1], rows[-1]) if rows else ((), None)
        extents = [self.extent(a) for a in outer]
        pieces: Expression | None = None
        if lane is not None:
            pieces = self.extent(lane)
            pieces = writer.call("unsigned_divide", pieces + (vector - 1), vector) if vector > 1 else pieces
        items = product(*extents, *([pieces] if pieces is not None else []))
        active: Name | None = None
        item, block, thread = code.local("item"), code.local("block"), code.local("thread")
        if team > 1:
            each = THREADS // team
            code.assign(code.local("sharer"), call("unsigned_divide", thread, each))
            code.assign(item, block * each + call("unsigned_remainder", thread, each))
        else:
            first = block * (THREADS * self.mapping.turns if turn is not None else THREADS) + thread
            code.assign(item, first + (turn or 0) * THREADS)
        if team > 1 or turn is not None:
            active = code.let(call("lt_int", item, items), "active_")
            if team > 1:
                code.assign(item, call("select", active, item, 0), "its thread takes part in what all do together")
        with ExitStack() as stack:
            if active is not None:
                stack.enter_context(writer.masked(active, False))
            elif self.in_turn:
                stack.enter_context(code.loop(item, item, items, THREADS * call("as_i64", GRID)))
            else:
                stack.enter_context(code.when(item < items))
            rest: Expression = item
            if lane is not None:
                start = self.name(lane.symbol) if turn is None else code.name(f"{lane.symbol.name}_")
                self.places[lane.symbol] = start
                own: Expression = item
                if outer and not self.mapping.flat:
                    assert pieces is not None
                    rest = code.let(call("unsigned_divide", item, pieces), "above_")
                    own = item - rest * pieces
                code.assign(start, own * vector)
                writer.extents[lane.symbol] = lane.extent
                writer.lane = Lane(lane.symbol, start, vector)
                if self.mapping.tail:
                    some = writer.tail(start, self.extent(lane), vector)
                    stack.enter_context(writer.masked(some, True, tail=True))
            if self.mapping.flat:
                rest = Constant(0)
            for axis in outer if turn is not None else ():
                self.places[axis.symbol] = code.name(f"{axis.symbol.name}_")
            self.indices(outer, extents, rest)
            yield

    def turns(self) -> None:
        """A map whose threads take neighbours several times: what each time reads is asked for before anything is computed."""
        places: list[tuple[dict[Symbol, Expression], Lane | None, list[Mask]]] = []
        for turn in range(self.mapping.turns):
            with self.lanes(turn):
                self.ahead_of(self.nest.steps)
                places.append((dict(self.places), self.writer.lane, list(self.writer.masks)))
        for self.places, self.writer.lane, self.writer.masks in places:
            self.variables.clear()
            self.steps()

    def extent(self, axis: Axis) -> Expression:
        return self.size(at_least_0(axis.extent))

    def indices(self, axes: Sequence[Axis], extents: Sequence[Expression], rest: Expression) -> None:
        """Indices from the number of a row."""
        for position in reversed(range(len(axes))):
            symbol = axes[position].symbol
            name = self.places.get(symbol) or self.name(symbol)
            assert isinstance(name, Name)
            if position == 0 or rest == Constant(0):
                self.code.assign(name, rest)
            else:
                above = self.code.let(call("unsigned_divide", rest, extents[position]), "above_")
                self.code.assign(name, rest - above * extents[position])
                rest = above
        for axis in axes:
            self.writer.extents[axis.symbol] = axis.extent

    def steps(self) -> None:
        """Each step in order; a team waits where a step reads what other members stored."""
        waiting: set[Symbol] = set()
        if self.mapping.chunks:
            self.first()
        if not self.mapping.persistent:
            self.ahead()
        if self.halves:
            self.ahead_of(self.nest.steps)
        if not self.mapping.persistent and self.mapping.pieces is not None and self.mapping.pieces.blocks > 1:
            self.code.call("cluster_wait")
        below = peaks(self.nest) if self.mapping.below else {}
        for step in self.nest.steps:
            if step is self.nest.steps[-1] and self.asking is not None:
                self.asking()
            if self.team and not self.mapping.chunks and self.mapping.by != "cluster":
                used = {n.tensor for s in scalars(step) for n in nodes(s) if isinstance(n, Read)}
                if used & waiting:
                    self.code.call("block_sync" if self.mapping.by == "block" else "warp_sync")
                    waiting.clear()
            if self.kept is not None and self.kept[0] & set(tensors_of(step)):
                self.code.write(Do(self.kept[1]))
                self.kept = None
            met = any(step in steps for steps in self.following.values())
            if not met:
                self.code.comment(placed((out.symbol.name for out in step.outs), step.span))
            total = below.get(step.outs[0].symbol)
            if isinstance(step, Compute) and total is not None:
                self.reductions.below(step, total)
            elif step not in below.values() and not met:
                self.step(step)
            waiting |= {out.symbol for out in step.outs if out.symbol not in self.variables}

    def first(self) -> None:
        """Ask for the whole row, of which all vectors come into registers, before anything else."""
        whole = set(wholly(self.nest, self.values))
        streamed = self.mapping.persistent  # the row comes through shared memory
        for step in self.nest.steps:
            lane = swept(step, len(self.nest.rows))
            if lane is None or not (streamed or self.made.isdisjoint(tensors_of(step))):
                continue
            reads = [r for s in scalars(step) for r in nodes(s) if isinstance(r, Read)]
            mine = [r for r in reads if (r.tensor, r.subscripts, lane.symbol) in whole]
            if streamed:
                mine = [r for r in mine if self.streamed(r, lane.symbol)]
            for _ in self.sweep(lane):
                for read in mine:
                    self.writer.value(read)
                if not streamed:
                    self.ahead_of([step])
            if not streamed:
                break
        if self.taken is not None:
            self.taken()

    def streamed(self, read: Read, lane: Symbol) -> bool:
        """Whether what is read along a lane comes anew with each row."""
        piece = self.piece_of(read, lane)
        return piece is not None and self.code.local("held") in expressions(piece[0])

    def ahead(self) -> None:
        """Ask early for what steps that have one value per row will read: it takes its time."""
        if self.team:
            rows = len(self.nest.rows)
            self.ahead_of([s for s in self.nest.steps if len(s.axes) == rows and isinstance(s, Compute) and s.reduction is None])

    def ahead_of(self, steps: Sequence[Compute | Scan]) -> None:
        """Ask for what steps read, unless it depends on what is computed, or on a condition."""
        for step in steps:
            if isinstance(step, Compute) and step.reduction is not None and step.reduction.where is not None:
                continue
            found = [n for body in step.body for n in nodes(body)]
            if any(isinstance(n, Select | Bind) or (isinstance(n, Binary) and n.op in LOGIC) for n in found):
                continue
            for read in found:
                if isinstance(read, Read) and self.made.isdisjoint(r.tensor for r in nodes(read) if isinstance(r, Read)):
                    self.writer.value(read)

    def step(self, step: Compute | Scan) -> None:
        rows = len(self.nest.rows)
        if isinstance(step, Scan):
            self.reductions.scan(step)
        elif step.reduction is not None:
            self.reductions.reduction(step)
        else:
            axes = inner(step, rows)
            if not axes:
                self.define(step, self.bodies(step))
                return
            with self.loops(axes[:-1]):
                for _ in self.sweep(axes[-1], unroll=UNROLL if self.team and not self.mapping.chunks else 1):
                    self.define(step, self.bodies(step))

    # ── loops ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    @contextmanager
    def loops(self, axes: Sequence[Axis], *, shared: bool = False) -> Iterator[None]:
        """Loops that every thread goes through alone, but for one that groups of threads share."""
        mapping = self.mapping
        groups = mapping.deep if shared else 1
        with ExitStack() as stack:
            for number, axis in enumerate(axes):
                limit = self.writer._let_dim(axis.extent)
                first: Expression = Constant(0)
                step = 1
                if groups > 1 and number == mapping.around:
                    self.beside, step = mapping.team // groups, groups
                    first = self.code.local("member") >> (self.beside.bit_length() - 1)
                bounds = (first, limit, step) if step > 1 else (limit,)
                stack.enter_context(self.writer.branch(self.code.loop(self.name(axis.symbol), *bounds)))
                self.writer.extents[axis.symbol] = axis.extent
            yield
        self.beside = self.team
        for axis in axes:
            del self.writer.extents[axis.symbol]

    def sweep(
        self, axis: Axis, *, unroll: int = 1, run: tuple[Expression, Expression] | None = None, end: Expression | None = None
    ) -> Iterator[Expression]:
        """The elements of a loop that a team shares, or that a thread goes through; gives the condition that there is one.

        What is done with `unroll` elements one after the other is written so many times, so that all are fetched before the first
        is used; then comes a loop for what is left. A thread may go through a `run` alone; data may say that the loop has an
        earlier `end`.
        """
        writer, mapping = self.writer, self.mapping
        start, limit = run or (Constant(0), writer._let_dim(axis.extent))
        if end is not None:
            limit = writer.let(call("min_int", limit, end))
        writer.extents[axis.symbol] = axis.extent
        vector = mapping.vector if self.team else 1
        if self.team and mapping.chunks:
            for chunk in range(mapping.chunks):
                further = chunk * mapping.team * vector
                self.spot = self.member + further
                place = self.code.local("begin") + self.member if mapping.pieces is not None else self.member
                place = place - self.before() if mapping.head else place
                base = writer.let(place + 0)
                start = writer.let(place + further)
                there: Expression = TRUE if mapping.whole else writer.there((start, limit))
                writer.lane = Lane(axis.symbol, start, vector, base, further)
                with writer.masked(there, False), self.edges(there, start, limit, chunk == 0, chunk in mapping.ends) as some:
                    yield some
        elif mapping.pieces is not None:
            yield from self.piece(axis, mapping.pieces, unroll)
        else:
            first = start
            if mapping.team > 1 or self.team:
                own = self.member if self.team else self.code.local("sharer")
                first = own if run is None else self.code.let(start + own, "first_")
            step = (self.beside or mapping.team) * vector if mapping.team > 1 or self.team else 1
            stop, tail = limit, bool(self.team) and mapping.tail
            begin: Expression = Constant(0)
            before: Expression = Constant(0)
            if tail:
                stop = self.code.let(call("max_int", limit, 0), "stop_")
                if mapping.head:  # whole vectors begin behind the head
                    before = self.before()
                    begin = self.code.let(call("min_int", (0 - before) & (vector - 1), stop), "begin_")
                    first = self.code.let(begin + own, "first_")
                limit = self.code.let(stop - (stop - begin) % vector, "vectors_")
            if unroll > 1:
                turns = self.code.let(call("turns", first, limit, step), "turns_")
                whole = self.code.let(turns - turns % unroll, "whole_")
                for bounds, count in (((0, whole, unroll), unroll), ((whole, turns), 1)):
                    turn = self.code.name("turn_")
                    with writer.branch(self.code.loop(turn, *bounds)):
                        for n in range(count):
                            at = turn + n if step == 1 and run is None else first + (turn + n) * step
                            yield from self.placed(axis, self.code.let(at, f"{axis.symbol.name}_"), vector)
            else:
                name = self.name(axis.symbol)
                with writer.branch(self.code.loop(name, first, limit, step)):
                    yield from self.placed(axis, name, vector)
            if tail:
                if mapping.head:  # one thread has the head, the next one the tail
                    heads = self.code.let(call("both", call("eq_int", own, 0), call("gt_int", begin, 0)))
                    tails = self.code.let(call("both", call("eq_int", own, vector), call("lt_int", limit, stop)))
                    mine, place = call("either", heads, tails), call("select", heads, 0 - before, limit)
                else:  # the thread whose turn it is
                    mine = call("both", call("eq_int", first, limit % step), call("lt_int", limit, stop))
                    place = limit + 0
                with writer.branch(self.code.when(self.code.let(mine))):
                    at = self.code.let(place, f"{axis.symbol.name}_")
                    with self.edges(TRUE, at, stop) as some:
                        for _ in self.placed(axis, at, vector):
                            yield some
        if self.team:
            writer.lane = None
        del writer.extents[axis.symbol]

    @contextmanager
    def edges(
        self, there: Expression, start: Expression, limit: Expression, begins: bool = True, ends: bool = True
    ) -> Iterator[Expression]:
        """Where a row may begin or end in the midst of neighbours: which of them are there; else whether they are."""
        writer, mapping, found = self.writer, self.mapping, list[Expression]()
        if mapping.head and begins:
            found.append(writer.head(start, mapping.vector))
        if mapping.tail and ends:
            found.append(writer.tail(start, limit, mapping.vector))
        if not found:
            yield there
            return
        some = writer.let(writer.call("both", *found)) if len(found) == 2 else found[0]
        with writer.masked(some, True, tail=True, edge=mapping.head):
            yield some

    def before(self) -> Expression:
        """How many elements lie between the beginning of a vector of memory and that of the row; one vector for all that moves
        together."""
        writer, access = self.writer, self.whole
        assert access is not None
        loops = {axis.symbol for step in self.nest.steps for axis in all_axes(step)[len(self.nest.rows) :]}
        # Where it is the loop of another step, an index makes no difference to where vectors begin.
        start = {symbol: Dim.of(0) for symbol in loops if symbol == access.lane.symbol or symbol not in writer.extents}
        at = tuple(s.substitute(start) if isinstance(s, Dim) else s for s in access.subscripts)
        lane, writer.lane = writer.lane, None
        found = writer.let(writer.place(access.tensor, at) & (self.mapping.vector - 1))
        writer.lane = lane
        return found

    def piece(self, axis: Axis, cut: Pieces, unroll: int) -> Iterator[Expression]:
        """The elements of a row that a thread has in its block's piece."""
        writer, mapping = self.writer, self.mapping
        stride = mapping.team * mapping.vector
        end: Expression = self.code.local("stop")
        if mapping.tail:  # the last piece has all of its last vector
            end = writer.let(call("min_int", end, writer._let_dim(axis.extent)))
        several, rest = divmod(cut.chunks, unroll)
        for first, turns, count in ((0, several, unroll), (several * unroll, rest, 1)):
            with ExitStack() as stack:
                before: Expression = Constant(first * stride)
                if turns > 1:
                    turn = self.code.name("turn_")
                    stack.enter_context(writer.branch(self.code.loop(turn, turns)))
                    before = turn * (count * stride) + first * stride
                for n in range(count if turns else 0):
                    at = before + n * stride
                    self.spot = self.member + at
                    start = self.code.let(self.code.local("own") + at, f"{axis.symbol.name}_")
                    there = TRUE if mapping.whole else writer.there((start, self.code.local("stop")))
                    self.places[axis.symbol] = start
                    writer.lane = Lane(axis.symbol, start, mapping.vector)
                    with writer.masked(there, False), self.edges(there, start, end) as some:
                        yield some
                    del self.places[axis.symbol]

    @property
    def member(self) -> Expression:
        """The first neighbour of a thread among those that its team has at once."""
        member: Expression = self.code.local("member")
        member = member if self.beside == self.team else member & (self.beside - 1)
        return member * self.mapping.vector

    def placed(self, axis: Axis, place: Name, vector: int) -> Iterator[Expression]:
        """At one place of a loop."""
        if self.team:
            self.writer.lane = Lane(axis.symbol, place, vector)
        self.places[axis.symbol] = place
        yield TRUE
        del self.places[axis.symbol]

    def bodies(self, step: Compute) -> list[Expression]:
        """The values of a pointwise step. What rounds a result to its own element type is left to the store if no step reads it."""
        found = []
        for out, body in zip(step.outs, step.body, strict=True):
            alone = is_narrow(out.element) and out.symbol not in self.read
            if alone and isinstance(body, Convert) and body.element is out.element and element_of(body.operand) is Element.F32:
                body = body.operand
            found.append(self.writer.value(body))
        return found

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def define(self, step: Compute | Scan, found: Sequence[Expression]) -> None:
        """A step's values at this place: stored, and kept for the steps after it."""
        writer, rows = self.writer, len(self.nest.rows)
        at = self.nest.place(step)
        for out, value in zip(step.outs, found, strict=True):
            scalar = len(step.axes) == rows
            lane = writer.lane
            if scalar:
                self.variables[out.symbol] = value
            elif (self.mapping.chunks or self.following) and lane is not None:
                self.registers[out.symbol, lane.start] = value
            kept = not (self.mapping.chunks or out.symbol in self.passed)
            if out.symbol in self.nest.stored or (not scalar and kept):
                together = lane is not None and (out.symbol, at, lane.axis) in self.together
                symbol, place = self.halves.place(out.symbol, at) if self.halves else (out.symbol, at)
                held = Held(out, self.pointer(symbol))
                if (self.team and lane is None) or (not self.team and self.mapping.team > 1):  # all members have it
                    with writer.masked(writer.let(self.chosen), False):
                        writer.put(symbol, place, value, held, together)
                else:
                    writer.put(symbol, place, value, held, together)

    @property
    def chosen(self) -> Expression:
        """Whether a thread is the one that stores what its whole team has."""
        if not self.team:
            return call("eq_int", self.code.local("sharer"), 0)
        several = self.mapping.pieces is not None and self.mapping.pieces.blocks > 1
        member = self.code.local("member")
        return call("eq_int", member + self.code.local("rank") if several else member, 0)

    @property
    def width(self) -> int:
        """Accumulators of a thread: by rows those of neighbours are joined after the loop, by lanes each neighbour has its own."""
        return self.mapping.vector

    def spread(self, value: Expression) -> Expression:
        return call(f"spread_{self.width}", value) if self.width > 1 else value


_INTRINSICS = "axon.backend.gpu.intrinsics"
INTRINSICS = {  # how the names of a module begin
    "ptx_pieces": ("barrier", "ask_", "bring_", "taken_", "send", "cluster_", "remote_"),
    "ptx_fragments": ("copy_", "copies_", "left_", "right_", "matrices", "multiply_"),
    "ptx_shared": ("keep", "kept_", "stage", "realign_", "packed_", "unpacked_", "aligned_"),
    "ptx_scalar": ("",),
}


def _module(function: Function, cluster: int, comments: Sequence[str]) -> Module:
    """A kernel with what it takes from where."""
    used = around(function.body)
    made = {"shared_memory": call("ptx.shared_memory"), "cluster_of": call("ptx.cluster_of", cluster)}
    before = tuple(Assign(Name(name, Kind.FIXED), maker) for name, maker in made.items() if name in used)
    used -= made.keys()
    imports = [Import(_INTRINSICS, ("ptx",))] if before else []
    for module, beginnings in INTRINSICS.items():
        here = tuple(sorted(name for name in used if name.startswith(beginnings)))
        used -= set(here)
        imports += [Import(f"{_INTRINSICS}.{module}", here)] if here else []
    return Module(((Import("numba", ("cuda",)),), tuple(imports)), (*before, function), tuple(mentions(before)), tuple(comments))


def _narrow(elements: Sequence[Element]) -> bool:
    """Whether there are floats of 16 or 8 bits, and no others."""
    floats = [element for element in elements if element.is_float]
    return bool(floats) and all(element.bits <= 16 for element in floats)
