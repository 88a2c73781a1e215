"""A nest and its mapping as one kernel in Python that numba-cuda compiles.

Each step of the nest becomes its loops, in order; the mapping says which loop the threads of a team share, and how many neighbours
a thread holds. See Note [Teams] in `mapping`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from collections.abc import Mapping as MappingOf
from contextlib import ExitStack, contextmanager

from axon.backend.gpu.emit.kernel import Emitted, ExtentParameter, Parameter, PointerParameter, StatusParameter, StrideParameter
from axon.backend.gpu.simt.access import accesses, swept
from axon.backend.gpu.simt.general import alone, conditions
from axon.backend.gpu.simt.halves import halves
from axon.backend.gpu.simt.mapping import THREADS, Mapping
from axon.backend.gpu.simt.peaks import peaks
from axon.backend.gpu.simt.pieces import Pieces, ask_ahead, canonical, cut_rows, resident, spread_rows, wholly
from axon.backend.gpu.simt.reductions import UNROLL, Reductions
from axon.backend.gpu.simt.tiles import Staged, staged, tiled_rows
from axon.backend.gpu.simt.writer import Lane, LaneWriter, Mask
from axon.backend.kernel.places import placed
from axon.backend.kernel.render import Names
from axon.backend.kernel.writer import Code, Held, is_narrow
from axon.backend.plan import ir as plans
from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import LOGIC, Axis, Binary, Bind, Compute, Convert, Read, Scan, Select, Value, element_of
from axon.core.scalar_facts import at_least_0
from axon.core.walk import nodes, scalars, tensors_of
from axon.shapes.dimension import Dim

_RESERVED = frozenset({
    "kernel", "thread", "block", "member", "team", "row", "rows", "active", "bad", "status", "shared", "warp", "lane",
    "item", "items", "across", "below", "above", "left", "outer", "top", "turn", "place", "band", "nth", "down", "over",
    "there", "stretch", "reached", "step", "warps", "flip", "rank", "piece", "begin", "stop", "sharer", "half", "group",
    "groups", "slot", "phase", "held", "own", "cuda", "ptx", "range", "inf", "nan", "shared_memory", "cluster_of",
})  # fmt: skip


def emit(
    nest: Nest,
    values: MappingOf[Symbol, Value],
    mapping: Mapping,
    units: MappingOf[Symbol, int],
    comments: Sequence[str] = (),
) -> Emitted:
    """The kernel's source. `units` says along which dimension of each tensor elements lie side by side (-1 for none)."""
    reserved = _RESERVED
    while True:
        emitter = Emitter(nest, values, mapping, units, reserved)
        made = emitter.run(comments)
        clashing = emitter.called & (emitter.names.used - reserved)
        if not clashing:
            return made
        reserved |= clashing  # a tensor, a size or an index is called as a function is that the kernel calls


class Emitter:
    def __init__(
        self,
        nest: Nest,
        values: MappingOf[Symbol, Value],
        mapping: Mapping,
        units: MappingOf[Symbol, int],
        reserved: frozenset[str],
    ) -> None:
        self.in_turn = mapping.general  # by lanes, a thread goes on until there are no more neighbours to take
        self.conditions = conditions(nest, mapping, units, values) if mapping.general else []
        self.halves = halves(nest) if mapping.halved else None
        nest = self.halves.nest if self.halves else nest
        self.nest, self.mapping, self.units = nest, mapping, units
        self.values = dict(values) | {out.symbol: out for step in nest.steps for out in step.outs}
        self.names = Names(reserved)
        self.code = Code(self.names.used)
        self.called: set[str] = set()
        self.parameters: dict[Parameter, str] = {}
        self.read = frozenset().union(*map(tensors_of, nest.steps))
        self.made = {out.symbol for step in nest.steps for out in step.outs}
        self.registers: dict[tuple[Symbol, str], str] = {}  # a value of the row at the place of a lane
        self.variables: dict[Symbol, str] = {}  # scalars of the row
        self.places: dict[Symbol, str] = {}  # variables of axes that have several
        self.staged: dict[tuple[Symbol, object], Staged] = {}  # what is read across
        self.brought: dict[tuple[Symbol, object], tuple[str, int]] = {}  # where a row's piece lies, and bytes of its elements
        self.kept: tuple[set[Symbol], str] | None = None  # what stays in shared memory, and what waits until it is there
        self.taken: Callable[[], None] | None = None  # writes what follows when a row has come into registers
        self.asking: Callable[[], None] | None = None  # writes what asks for a later row
        self.spot = ""  # where the neighbours of a thread are within a piece
        self.bytes = 0  # of shared memory for squares and pieces
        self.team: str = ""
        self.writer = LaneWriter(
            self.code, self.variable, self.size, self.held, self.stride, self.moves_together, self.made.__contains__, self.register
        )
        self.reductions = Reductions(self)
        stored = [self.values[symbol].element for symbol in nest.stored]
        self.writer.uniform = mapping.uniform
        read = [self.values[s].element for s in plans.reads_of(nest)]
        self.writer.narrow = _narrow(stored) or _narrow(read)
        found = list(accesses(nest, mapping.by in ("lanes", "tiles")))
        self.together = {(a.tensor, a.subscripts, a.lane.symbol) for n, a in enumerate(found) if n in mapping.beside}

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def parameter(self, parameter: Parameter, stem: str) -> str:
        if parameter not in self.parameters:
            self.parameters[parameter] = self.names.free(stem)
        return self.parameters[parameter]

    def variable(self, symbol: Symbol) -> str:
        if symbol in self.places:
            return self.places[symbol]
        return self.names[symbol] if symbol in self.writer.extents else self.size(Dim.of(symbol))

    def size(self, dim: Dim) -> str:
        constant = dim.constant
        if constant is not None:
            return str(constant)
        return self.parameter(ExtentParameter(dim), dim.symbol.name if dim.symbol else "size")

    def pointer(self, symbol: Symbol) -> str:
        return self.parameters.setdefault(PointerParameter(symbol), self.names[symbol])

    def stride(self, tensor: Symbol, dimension: int) -> str:
        if self.units.get(tensor, len(self.values[tensor].shape) - 1) == dimension:
            return "1"
        return self.parameter(StrideParameter(tensor, dimension), f"{self.names[tensor]}_step{dimension}")

    def held(self, symbol: Symbol) -> Held:
        value = self.values[symbol]
        variable = self.variables.get(symbol, "")
        in_registers = symbol in self.made and self.mapping.chunks and len(value.shape) > len(self.nest.rows)
        return Held(value, "" if variable or in_registers else self.pointer(symbol), variable)

    def register(self, read: Read) -> str | None:
        lane = self.writer.lane
        square = self.staged.get((read.tensor, read.subscripts))
        if square is not None:
            return self.writer.let(staged(self, read.element.value, square))
        if self.brought and lane is not None:
            at, size = self.piece_of(read, lane.axis)
            if at:
                name = f"taken_{self.values[read.tensor].element.value}" + (f"_{lane.vector}" if lane.vector > 1 else "")
                return self.writer.let(f"{name}({at} + ({self.spot}) * {size}, {self.writer.mask(steady_only=True)})")
        return self.registers.get((read.tensor, lane.start)) if lane else None

    def piece_of(self, read: Read, lane: Symbol) -> tuple[str, int]:
        """Where in shared memory what is read along a lane lies, if it does, and the bytes of its elements."""
        piece = self.brought.get((read.tensor, canonical(read.subscripts, lane)))
        return piece if piece is not None and (read.tensor, read.subscripts, lane) in self.together else ("", 0)

    def moves_together(self, read: Read, lane: Lane) -> bool:
        return (read.tensor, read.subscripts, lane.axis) in self.together

    # ── the kernel ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def run(self, comments: Sequence[str]) -> Emitted:
        for value in self.values.values():
            if value.symbol in self.made:
                self.names[value.symbol]
        code, mapping = self.code, self.mapping
        code.line("bad = False")
        code.line("flip = 0")
        code.line("shared = as_i64(shared_memory())")
        code.line("thread = as_i64(cuda.threadIdx.x)")
        code.line("block = as_i64(cuda.blockIdx.x)")
        cluster = self.mapping.pieces.blocks if self.mapping.pieces else 1
        if cluster > 1:
            code.line("cluster_of()")
        if self.mapping.general:
            self.both()
        else:
            self.form()
        body = code.lines
        if self.writer.fails:
            code.line("if bad:")
            code.line(f"    store_i32({self.parameter(StatusParameter(), 'status')}, 0, i32(1), True)")
        else:
            body.remove("    bad = False")
        shared = self.bytes + self.reductions.bytes
        if not self.reductions.flips:
            body.remove("    flip = 0")
        if not shared:
            body.remove("    shared = as_i64(shared_memory())")
        parameters = tuple(self.parameters)
        said = "\n".join(line for line in body if not line.lstrip().startswith("#"))
        used = set(re.findall(r"\b[a-z]\w*(?=\()", said)) | {"inf", "nan"} & set(re.findall(r"\w+", said))
        self.called = set(used)
        used -= {"range", "shared_memory", "cluster_of"}
        head = ["from numba import cuda", ""]
        head += ["from axon.backend.gpu.intrinsics import ptx"] if shared else []
        for module, beginnings in INTRINSICS.items():
            here = sorted(name for name in used if name.startswith(beginnings))
            used -= set(here)
            head += [f"from axon.backend.gpu.intrinsics.{module} import (", *_wrapped(here), ")"] if here else []
        head += [""]
        head += ["shared_memory = ptx.shared_memory()"] if shared else []
        head += [f"cluster_of = ptx.cluster_of({cluster})"] if cluster > 1 else []
        head += [""] if shared else []
        notes = [f"# {line}".rstrip() for line in (*comments, str(mapping))]
        text = "\n".join([*notes, *head, "", f"def kernel({', '.join(self.parameters.values())}):", *body, ""])
        threads = mapping.team if mapping.by in ("block", "cluster") else mapping.across.threads if mapping.across else THREADS
        together = resident(mapping) if mapping.by == "cluster" and mapping.chunks else 1
        return Emitted(text, parameters, threads, cluster, shared, together)

    def form(self) -> None:
        """All that is done, by the mapping."""
        if self.mapping.by == "lanes" and self.mapping.turns > 1:
            self.turns()
        else:
            with self.rows():
                self.steps()

    def both(self) -> None:
        """A kernel for any size: in the form for neighbours that move together, and in the one for what does not lie for that."""
        groups: dict[int, list[str]] = {}
        for condition in self.conditions:
            match condition.of:
                case Dim() as size:
                    text = self.size(size)
                case (symbol, dimension):
                    text = self.stride(symbol, dimension)
                case Symbol() as symbol:
                    text = self.pointer(symbol)
            groups.setdefault(condition.modulus, []).append(text)
        fits = "True"
        for modulus, texts in groups.items():
            one = self.code.let(f"eq_int(({' | '.join(dict.fromkeys(texts))}) & {modulus - 1}, 0)")
            fits = one if fits == "True" else self.code.let(f"both({fits}, {one})")
        with self.writer.branch(f"if {fits}:"):
            self.form()
        self.mapping = self.reductions.mapping = alone(self.mapping)
        self.together = set()
        for known in (self.variables, self.places, self.registers, self.staged):
            known.clear()
        self.writer.lane = None
        with self.writer.branch("else:"):
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
        self.team = str(self.mapping.team)
        if self.mapping.by == "cluster" and not self.mapping.persistent:
            spread_rows(self, rows, extents)
            yield
            return
        if self.mapping.by == "cluster":
            axes = (swept(step, len(rows)) for step in self.nest.steps)
            with cut_rows(self, rows, extents, next(a.extent for a in axes if a is not None)):
                yield
            return
        if self.mapping.by == "block":
            code.line("row, member = block, thread")
            ask_ahead(self, rows, extents)
        else:
            code.line(f"row = block * {THREADS // self.mapping.team} + unsigned_divide(thread, {self.mapping.team})")
            code.line(f"member = unsigned_remainder(thread, {self.mapping.team})")
            code.line(f"active = lt_int(row, {' * '.join(extents) or '1'})")
            code.line("row = select(active, row, 0)  # its threads take part in what warps do together")
        self.indices(rows, extents, "row")
        if self.mapping.by == "warp":
            with writer.masked("active", False, clamped=True):
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
        pieces = ""
        if lane is not None:
            pieces = self.extent(lane)
            pieces = writer.let(f"unsigned_divide({pieces} + {vector - 1}, {vector})") if vector > 1 else pieces
        items = " * ".join([*extents, *([pieces] if pieces else [])]) or "1"
        active = ""
        if team > 1:
            each = THREADS // team
            code.line(f"sharer = unsigned_divide(thread, {each})")
            code.line(f"item = block * {each} + unsigned_remainder(thread, {each})")
        else:
            times = f"{THREADS * self.mapping.turns}" if turn is not None else f"{THREADS}"
            code.line(f"item = block * {times} + thread" + (f" + {turn * THREADS}" if turn else ""))
        if team > 1 or turn is not None:
            active = writer.code.let(f"lt_int(item, {items})", "active_")
            if team > 1:
                code.line(f"item = select({active}, item, 0)  # its thread takes part in what all do together")
        with ExitStack() as stack:
            head = (
                f"for item in range(item, {items}, {THREADS} * as_i64(cuda.gridDim.x)):" if self.in_turn else f"if item < {items}:"
            )
            stack.enter_context(writer.masked(active, False) if active else code.block(head))
            rest = "item"
            if lane is not None:
                start = self.names[lane.symbol] if turn is None else code.name(f"{lane.symbol.name}_")
                self.places[lane.symbol] = start
                own = "item"
                if outer and not self.mapping.flat:
                    rest = code.let(f"unsigned_divide(item, {pieces})", "above_")
                    own = f"(item - {rest} * {pieces})"
                code.line(f"{start} = {own} * {vector}" if vector > 1 else f"{start} = {own}")
                writer.extents[lane.symbol] = lane.extent
                writer.lane = Lane(lane.symbol, start, vector)
            if self.mapping.flat:
                rest = "0"
            for axis in outer if turn is not None else ():
                self.places[axis.symbol] = code.name(f"{axis.symbol.name}_")
            self.indices(outer, extents, rest)
            yield

    def turns(self) -> None:
        """A map whose threads take neighbours several times: what each time reads is asked for before anything is computed."""
        places: list[tuple[dict[Symbol, str], Lane | None, list[Mask]]] = []
        for turn in range(self.mapping.turns):
            with self.lanes(turn):
                self.ahead_of(self.nest.steps)
                places.append((dict(self.places), self.writer.lane, list(self.writer.masks)))
        for self.places, self.writer.lane, self.writer.masks in places:
            self.variables.clear()
            self.steps()

    def extent(self, axis: Axis) -> str:
        return self.size(at_least_0(axis.extent))

    def indices(self, axes: Sequence[Axis], extents: Sequence[str], rest: str) -> None:
        """Indices from the number of a row."""
        for position in reversed(range(len(axes))):
            symbol = axes[position].symbol
            name = self.places.get(symbol) or self.names[symbol]
            if position == 0 or rest == "0":
                self.code.line(f"{name} = {rest}")
            else:
                above = self.code.let(f"unsigned_divide({rest}, {extents[position]})", "above_")
                self.code.line(f"{name} = {rest} - {above} * {extents[position]}")
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
            self.code.line("cluster_wait()")
        below = peaks(self.nest) if self.mapping.below else {}
        for step in self.nest.steps:
            if step is self.nest.steps[-1] and self.asking is not None:
                self.asking()
            if self.team and not self.mapping.chunks and self.mapping.by != "cluster":
                used = {n.tensor for s in scalars(step) for n in nodes(s) if isinstance(n, Read)}
                if used & waiting:
                    self.code.line("block_sync()" if self.mapping.by == "block" else "warp_sync()")
                    waiting.clear()
            if self.kept is not None and self.kept[0] & set(tensors_of(step)):
                self.code.line(self.kept[1])
                self.kept = None
            self.code.line(f"# {placed((out.symbol.name for out in step.outs), step.span)}")
            total = below.get(step.outs[0].symbol)
            if isinstance(step, Compute) and total is not None:
                self.reductions.below(step, total)
            elif step not in below.values():
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
                mine = [r for r in mine if self.piece_of(r, lane.symbol)[0].startswith("held")]
            for _ in self.sweep(lane):
                for read in mine:
                    self.writer.value(read)
                if not streamed:
                    self.ahead_of([step])
            if not streamed:
                break
        if self.taken is not None:
            self.taken()

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
    def loops(self, axes: Sequence[Axis]) -> Iterator[None]:
        """Loops that every thread goes through alone."""
        with ExitStack() as stack:
            for axis in axes:
                limit = self.writer._let_dim(axis.extent)
                name = self.names[axis.symbol]
                stack.enter_context(self.writer.branch(f"for {name} in range({limit}):"))
                self.writer.extents[axis.symbol] = axis.extent
            yield
        for axis in axes:
            del self.writer.extents[axis.symbol]

    def sweep(self, axis: Axis, *, unroll: int = 1) -> Iterator[str]:
        """The elements of a loop that a team shares, or that a thread goes through; gives the condition that there is one.

        What is done with `unroll` elements one after the other is written so many times, so that all are fetched before the first
        is used; then comes a loop for what is left.
        """
        writer, mapping = self.writer, self.mapping
        limit = writer._let_dim(axis.extent)
        writer.extents[axis.symbol] = axis.extent
        vector = mapping.vector if self.team else 1
        if self.team and mapping.chunks:
            for chunk in range(mapping.chunks):
                place = f"member * {vector}" if vector > 1 else "member"
                self.spot = f"{place} + {chunk * mapping.team * vector}"
                place = f"begin + {place}" if mapping.pieces is not None else place
                base, further = writer.let(f"{place} + 0"), chunk * mapping.team * vector
                start = writer.let(f"{place} + {further}")
                there = "True" if mapping.whole else writer.let(f"lt_int({start}, {limit})")
                writer.lane = Lane(axis.symbol, start, vector, base, further)
                with writer.masked(there, False):
                    yield there
        elif mapping.pieces is not None:
            yield from self.piece(axis, mapping.pieces, unroll)
        else:
            first, step = ("member", mapping.team) if self.team else ("sharer", mapping.team) if mapping.team > 1 else ("0", 1)
            if vector > 1:
                first, step = f"member * {vector}", mapping.team * vector
            if unroll > 1:
                turns = self.code.let(f"turns({first}, {limit}, {step})", "turns_")
                whole = self.code.let(f"{turns} - {turns} % {unroll}", "whole_")
                ranges = (f"range(0, {whole}, {unroll})", unroll), (f"range({whole}, {turns})", 1)
                for span, count in ranges:
                    turn = self.code.name("turn_")
                    with writer.branch(f"for {turn} in {span}:"):
                        for n in range(count):
                            at = f"{turn} + {n}" if n else turn
                            at = at if step == 1 else f"{first} + ({at}) * {step}"
                            yield from self.placed(axis, self.code.let(at, f"{axis.symbol.name}_"), vector)
            else:
                name = self.names[axis.symbol]
                with writer.branch(f"for {name} in range({first}, {limit}, {step}):"):
                    yield from self.placed(axis, name, vector)
        if self.team:
            writer.lane = None
        del writer.extents[axis.symbol]

    def piece(self, axis: Axis, cut: Pieces, unroll: int) -> Iterator[str]:
        """The elements of a row that a thread has in its block's piece."""
        writer, mapping = self.writer, self.mapping
        stride = mapping.team * mapping.vector
        member = f"member * {mapping.vector}" if mapping.vector > 1 else "member"
        several, rest = divmod(cut.chunks, unroll)
        for first, turns, count in ((0, several, unroll), (several * unroll, rest, 1)):
            with ExitStack() as stack:
                before = f"{first * stride}"
                if turns > 1:
                    turn = self.code.name("turn_")
                    stack.enter_context(writer.branch(f"for {turn} in range({turns}):"))
                    before = f"{turn} * {count * stride}" + (f" + {first * stride}" if first else "")
                for n in range(count if turns else 0):
                    at = before + (f" + {n * stride}" if n else "")
                    self.spot = f"{member} + {at}"
                    start = self.code.let(f"own + {at}", f"{axis.symbol.name}_")
                    there = "True" if mapping.whole else writer.let(f"lt_int({start}, stop)")
                    self.places[axis.symbol] = start
                    writer.lane = Lane(axis.symbol, start, mapping.vector)
                    with writer.masked(there, False):
                        yield there
                    del self.places[axis.symbol]

    def placed(self, axis: Axis, place: str, vector: int) -> Iterator[str]:
        """At one place of a loop."""
        if self.team:
            self.writer.lane = Lane(axis.symbol, place, vector)
        self.places[axis.symbol] = place
        yield "True"
        del self.places[axis.symbol]

    def bodies(self, step: Compute) -> list[str]:
        """The values of a pointwise step. What rounds a result to its own element type is left to the store if no step reads it."""
        found = []
        for out, body in zip(step.outs, step.body, strict=True):
            alone = is_narrow(out.element) and out.symbol not in self.read
            if alone and isinstance(body, Convert) and body.element is out.element and element_of(body.operand) is Element.F32:
                body = body.operand
            found.append(self.writer.value(body))
        return found

    # ── values ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def define(self, step: Compute | Scan, found: Sequence[str]) -> None:
        """A step's values at this place: stored, and kept for the steps after it."""
        writer, rows = self.writer, len(self.nest.rows)
        at = tuple(Dim.of(a.symbol) for a in step.axes)
        for out, value in zip(step.outs, found, strict=True):
            scalar = len(step.axes) == rows
            lane = writer.lane
            if scalar:
                self.variables[out.symbol] = value
            elif self.mapping.chunks and lane is not None:
                self.registers[out.symbol, lane.start] = value
            if out.symbol in self.nest.stored or (not scalar and not self.mapping.chunks):
                together = lane is not None and (out.symbol, at, lane.axis) in self.together
                symbol, place = self.halves.place(out.symbol, at) if self.halves else (out.symbol, at)
                held = Held(out, self.pointer(symbol))
                if (self.team and lane is None) or (not self.team and self.mapping.team > 1):  # all members have it
                    with writer.masked(writer.let(self.chosen), False):
                        writer.put(symbol, place, value, held, together)
                else:
                    writer.put(symbol, place, value, held, together)

    @property
    def chosen(self) -> str:
        """Whether a thread is the one that stores what its whole team has."""
        if not self.team:
            return "eq_int(sharer, 0)"
        several = self.mapping.pieces is not None and self.mapping.pieces.blocks > 1
        return "eq_int(member + rank, 0)" if several else "eq_int(member, 0)"

    @property
    def width(self) -> int:
        """Accumulators of a thread: by rows those of neighbours are joined after the loop, by lanes each neighbour has its own."""
        return self.mapping.vector

    def spread(self, value: str) -> str:
        return f"spread_{self.width}({value})" if self.width > 1 else value


INTRINSICS = {  # how the names of a module begin
    "ptx_pieces": ("barrier", "ask_", "bring_", "taken_", "send", "cluster_"),
    "ptx_shared": ("keep", "kept_", "stage", "packed_", "unpacked_"),
    "ptx_scalar": ("",),
}


def _narrow(elements: Sequence[Element]) -> bool:
    """Whether there are floats of 16 or 8 bits, and no others."""
    floats = [element for element in elements if element.is_float]
    return bool(floats) and all(element.bits <= 16 for element in floats)


def _wrapped(names: Sequence[str]) -> list[str]:
    lines = ["   "]
    for name in names:
        if len(lines[-1]) + len(name) > 120:
            lines.append("   ")
        lines[-1] += f" {name},"
    return lines
