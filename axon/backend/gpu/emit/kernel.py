"""The barrier program as Python that numba-cuda compiles and a person can read.

Nothing is decided here: every operation of the barrier program becomes a line or two, in order, but products of one left factor
with right factors that lie behind each other are one instruction; what has a place in shared memory has a name at the head. The
layout of accumulators among threads and the encoding of matrix descriptors are the hardware's.

Note [Accumulators]
    In the accumulators of 64 rows, thread 32 w + l of a warpgroup holds, at 4 g + 2 h + e, row 16 w + l / 4 + 8 h and column
    8 g + 2 (l % 4) + e.

Note [Matrix descriptors]
    Bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride offset / 16, 62-63 the swizzle (1: 128 bytes). Stored with the
    reduced axis contiguous, 8 rows are 1024 bytes apart and the next 16 of the reduced axis 32 bytes further. Stored across, the
    leading offset leads to the next panel of 64, and the next 16 are 16 rows of 128 bytes further.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, nullcontext
from functools import reduce
from operator import mul
from typing import assert_never

from axon.backend.gpu.emit.computed import ComputedEmitter
from axon.backend.gpu.emit.issued import issued, pages_of
from axon.backend.gpu.emit.pages import PageEmitter
from axon.backend.gpu.emit.pixels import PixelEmitter
from axon.backend.gpu.emit.ragged import RaggedEmitter
from axon.backend.gpu.emit.results import ResultEmitter
from axon.backend.gpu.emit.scales import ScaleEmitter
from axon.backend.gpu.emit.segments import SegmentEmitter
from axon.backend.gpu.emit.source import Emitted, MapParameter, Parameter, SizeParameter, StrideParameter, emitted
from axon.backend.gpu.emit.stream import StreamEmitter
from axon.backend.gpu.layout.pixels import pixels_of
from axon.backend.gpu.layout.products import MULTIPLIED
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Coordinate, Op, Ring, Role
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.ir import Tile, TileAxis, views_text
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import (
    Assign,
    Call,
    Choice,
    Comment,
    Constant,
    Expression,
    ExpressionOperators,
    External,
    Function,
    Import,
    Like,
    Module,
    Name,
    Operator,
    Several,
    both,
    call,
    lift,
    same,
    surroundings,
)
from axon.backend.kernel.parameters import PointerParameter
from axon.backend.kernel.tensor_core_scalars import EpilogueWriter
from axon.backend.kernel.tidy import inlined, tidied
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Read
from axon.shapes.dimension import Dim

_FOUND = (  # where what a kernel mentions is found, in groups
    (("numba", ("cuda", "float32", "int32", "int64")), ("numba.cuda", ("libdevice",))),
    (("axon.backend.gpu.intrinsics", ("ptx", "ptx_computed", "ptx_results", "ptx_rows", "ptx_scalar", "ptx_tiles")),),
)


NONE: frozenset[Symbol] = frozenset()


def emit(
    program: BarrierProgram, paired: frozenset[Symbol] = NONE, comments: Sequence[str] = (), runs: frozenset[Symbol] = NONE
) -> Emitted:
    """The kernel's source, headed by comments. The last dimension of the tensors in `runs` is contiguous.

    The tensors in `paired` have a contiguous last dimension of even extent, and rows that start at even elements of an aligned
    word: neighbours are loaded together, by an epilogue if they have 16 bits, for the keys of a stream if they have 32.
    """
    return Emitter(program, paired, runs).run(comments)


@dataclass(frozen=True, slots=True)
class _Places:
    """The names of a ring's addresses in shared memory, of the first stage, and of how many bytes a stage has."""

    full: Name
    empty: Name
    fields: tuple[Name, ...]
    stage: Name


class Emitter:
    def __init__(self, program: BarrierProgram, paired: frozenset[Symbol], runs: frozenset[Symbol] = NONE) -> None:
        self.program, self.runs = program, runs
        self.code = Code()
        local = self.code.local
        self.thread, self.lane, self.group = local("thread"), local("lane"), local("group")
        self.consumer: Expression = Constant(0)  # which of its role a group of warps is
        self.shared, self.rank, self.steps = local("shared"), local("rank"), local("steps")
        self.owner = local("owner")  # the consumer that a tile is for, if each has its own
        self.names: dict[Symbol, Name] = {}
        self.parts: dict[tuple[Name, str], Name] = {}
        self.own: list[Name] = []  # the module's names
        self.constants: dict[Name, int] = {}  # bytes
        self.intrinsics: dict[Call, Name] = {}  # by what makes them
        self.functions: list[Function] = []
        self.rings: dict[Ring, _Places] = {}
        self.layouts: dict[int, Name] = {}
        self.buffers: dict[int, Name] = {}  # addresses, by where they are
        self.slots: dict[int, Name] = {}  # sizes
        self.parameters: dict[Parameter, Name] = {}
        self.filling: b.Ring | None = None  # the ring at whose stage `filled` one thread works alone
        self.stream = StreamEmitter(self)
        self.results = ResultEmitter(self, paired)
        self.paired = paired
        self.pixels = PixelEmitter(self)
        self.pages = PageEmitter(self)
        self.computed = ComputedEmitter(self)
        self.scales = ScaleEmitter(self)
        self.ragged = None if program.ragged is None else RaggedEmitter(self, program.ragged)
        self.segments = None if program.segments is None else SegmentEmitter(self, program.segments)

    def run(self, comments: Sequence[str] = ()) -> Emitted:
        program, code = self.program, self.code
        for value in program.tensors:
            self.name(value.symbol)
        for descriptor in program.descriptors:
            self.parameters[MapParameter(descriptor)] = code.named("_map", self.name(descriptor.tensor))
        stepped = (program.steps,) if program.segments is None else ()  # a table says how many steps there are
        for axis in (*program.order.outer, program.order.rows, program.order.columns, *stepped):
            self.size(axis.extent)
        self.prologue()
        self.roles(program.roles, 0)
        code.call("ptx.cluster_arrive" if program.cluster > 1 else "ptx.block_sync")
        if program.cluster > 1:
            code.call("ptx.cluster_wait")
        return emitted(self.module(comments), self.parameters, program.threads, program.cluster, program.shared)

    def module(self, comments: Sequence[str]) -> Module:
        kernel = tidied(Function("kernel", tuple(self.parameters.values()), self.code.body, tuple(self.code.names)))
        made = (Assign(name, maker) for maker, name in self.intrinsics.items())
        functions = map(inlined, self.functions)
        high = tuple(External(f"{layout:#x}") for layout in self.layouts)
        constants = (
            Assign(Several(tuple(self.constants)), Several(tuple(map(Constant, self.constants.values()))), "of one stage"),
            Assign(Several(tuple(self.layouts.values())), Several(high), "how factors lie"),
        )
        whole = Module((), (*constants, *functions, *made, inlined(kernel)), tuple(self.own), tuple(comments))
        used = surroundings(whole.statements)
        groups = ((Import(m, tuple(n for n in names if n in used)) for m, names in group) for group in _FOUND)
        return replace(whole, imports=tuple(tuple(one for one in group if one.names) for group in groups))

    # ── names ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def constant(self, like: str, value: int) -> Name:
        """A constant of the module: how many bytes something has."""
        name = self.global_name(like)
        self.constants[name] = value
        return name

    def lay_out(self, ring: Ring) -> None:
        """Say where a ring's barriers and fields are, and how large its stages."""
        like = ring.symbol.name.removesuffix("_ring")
        fields = ((f"{field.tile.symbol.name}_data", ring.data + field.offset) for field in ring.fields)
        places = ((f"{like}_full", ring.barriers), (f"{like}_empty", ring.barriers + 8), *fields)
        full, empty, *data = names = tuple(self.code.named(name) for name, _ in places)
        self.code.assign(Several(names), Several(tuple(self.shared + offset for _, offset in places)))
        self.rings[ring] = _Places(full, empty, tuple(data), self.constant(f"{like}_bytes", ring.stage))

    def slot(self, buffer: b.Buffer, number: Like) -> Expression:
        """The address of a consumer's slot of a buffer."""
        if buffer.slot not in self.slots:
            self.slots[buffer.slot] = self.constant("slot_bytes", buffer.slot)
        return self.buffers[buffer.offset] + (self.consumer * buffer.slots + number) * self.slots[buffer.slot]

    def name(self, symbol: Symbol) -> Name:
        """The variable of a symbol, or what others are called after: the current piece of an axis, a tensor's address."""
        if symbol not in self.names:
            self.names[symbol] = self.code.named(symbol.name)
        return self.names[symbol]

    @property
    def share(self) -> Expression:
        """Which part of a tile's rows is this consumer's."""
        return Constant(0) if self.program.mapping.apart else self.consumer

    def part(self, symbol: Symbol, part: object) -> Name:
        """A variable that is called after a symbol."""
        key = self.name(symbol), f"_{part}"
        if key not in self.parts:
            self.parts[key] = self.code.named(key[1], key[0])
        return self.parts[key]

    def global_name(self, like: str) -> Name:
        """A name that all functions of the kernel's text see."""
        self.own.append(Name(like))
        return self.own[-1]

    def made(self, name: str, maker: str, *arguments: float | str | ExpressionOperators) -> Name:
        """An intrinsic that is made by a function of these arguments, once."""
        made = call(maker, *(Constant(a) if isinstance(a, str) else a for a in arguments))
        if made not in self.intrinsics:
            self.intrinsics[made] = self.global_name(name)
        return self.intrinsics[made]

    def size(self, size: Dim) -> Expression:
        constant = size.constant
        if constant is not None:
            return Constant(constant)
        key = SizeParameter(size)
        if key not in self.parameters:
            symbol = size.symbol
            self.parameters[key] = self.code.named(f"size_{symbol.name}" if symbol else "size")
        return self.parameters[key]

    def is_size(self, dim: Dim) -> bool:
        """Whether a Dim has one value for the whole kernel."""
        order = self.program.order
        axes = {a.symbol for a in (*order.outer, order.rows, order.columns, self.program.steps)}
        return dim.variables.isdisjoint(axes)

    def pointer(self, tensor: Symbol) -> Name:
        return self.parameters.setdefault(PointerParameter(tensor), self.name(tensor))

    def stride(self, tensor: Symbol, dimension: int) -> Name:
        key = StrideParameter(tensor, dimension)
        if key not in self.parameters:
            self.parameters[key] = self.part(tensor, f"stride{dimension}")
        return self.parameters[key]

    def pieces(self, axis: TileAxis) -> Expression:
        """How many pieces rows or columns have: as many as all blocks of a cluster make together are one."""
        order = self.program.order
        if self.ragged is not None and axis == order.rows:
            return self.ragged.pieces()
        unit = axis.step * (order.cluster if (order.cluster_over == "rows") == (axis == order.rows) else 1)
        if axis.extent.constant is not None:
            return Constant(-(-axis.extent.constant // unit))
        key = self.name(axis.symbol), "count"
        if key not in self.parts:
            self.parts[key] = self.code.named(f"count_{axis.symbol.name}")
            self.code.assign(self.parts[key], call("ptx.divide", self.size(axis.extent) + (unit - 1), unit))
        return self.parts[key]

    def dim(self, dim: Dim, variables: dict[Symbol, Name]) -> Expression:
        """A size or index, where some symbols are variables of the kernel."""

        def size(dim: Dim) -> Expression | None:
            return None if dim.variables & variables.keys() else self.size(dim)

        return EpilogueWriter(self.code, _no_read, lambda s: variables.get(s) or self.size(Dim.of(s)), size, {}).dim(dim)

    # ── what every thread does ──────────────────────────────────────────────────────────────────────────────────────────

    def prologue(self) -> None:
        program, order, code = self.program, self.program.order, self.code
        marks = _Marks(self)
        for text in views_text(program.views, marks):
            code.write(Comment(text, tuple(marks.found)))
        code.assign(self.thread, External("cuda.threadIdx.x"))
        code.assign(self.group, call("ptx.uniform", call("int32", self.thread // 128)))
        # Of 32 bits, as tiles and their number: what is wider holds another register for as long as the kernel runs.
        code.assign(self.lane, call("int32", self.thread & 127))
        code.assign(self.shared, call(self.made("shared_memory", "ptx.shared_memory")))
        if program.cluster > 1:
            code.call(self.made("cluster_of", "ptx.cluster_of", program.cluster))
            code.assign(self.rank, call("ptx.cluster_rank"))
        for ring in program.rings:
            self.lay_out(ring)
        for buffer in program.buffers:
            self.buffers[buffer.offset] = code.named("buffer_data")
            code.assign(self.buffers[buffer.offset], self.shared + buffer.offset)
        with code.when(same(self.thread, 0)):
            for ring in program.rings:
                stage = code.local("stage") if ring.depth > 1 else Constant(0)
                with code.loop(stage, ring.depth) if isinstance(stage, Name) else nullcontext():
                    code.call("ptx.barrier_init", self.barrier(ring, "full", stage), ring.full)
                    code.call("ptx.barrier_init", self.barrier(ring, "empty", stage), ring.empty)
            if program.fenced:
                code.call("ptx.barrier_init_fence")
        if program.cluster > 1:
            code.call("ptx.cluster_arrive")
            code.call("ptx.cluster_wait")
        else:
            code.call("ptx.block_sync")
        rows, columns = self.pieces(order.rows), self.pieces(order.columns)
        tiles = ((rows + 1) >> 1) * 2 if order.paired else rows * columns
        code.assign(code.local("tiles"), call("int32", reduce(mul, (self.size(a.extent) for a in order.outer), tiles)))
        steps = program.steps
        if self.segments is None:
            code.assign(self.steps, call("ptx.divide", self.size(steps.extent) + (steps.step - 1), steps.step))

    def roles(self, roles: Sequence[Role], first: int) -> None:
        """Each group of warps does what its role says."""
        role, *others = roles
        with self.code.when(self.group < first + role.instances, role.name):
            self.role(role, first)
        if others:
            with self.code.otherwise():
                self.roles(others, first + role.instances)

    def role(self, role: Role, first: int) -> None:
        self.current = role
        if role.registers:
            self.code.call(
                self.made(f"registers_{role.registers}", "ptx.registers", role.registers, External(f"grow={not role.elected}"))
            )
        self.consumer = Constant(0)
        if role.instances > 1:
            self.consumer = self.code.local("consumer")
            self.code.assign(self.consumer, self.group - first)
        with ExitStack() as stack:
            if role.elected:
                stack.enter_context(self.code.when(same(self.lane, 0)))
            cursors = tuple(name for ring in self.program.rings for name in self.cursor(ring))
            self.code.assign(Several(cursors), Several((Constant(0),) * len(cursors)))
            assert isinstance(role.body[-1], b.Depart), "a role that does not depart"
            self.block(role.body[:-1])

    def counted(self, ring: Ring) -> bool:
        """Whether one number holds both stage and phase of a cursor: the producer of a stream has few registers."""
        return self.program.bounds is not None and self.current.elected and ring.depth & (ring.depth - 1) == 0

    def stage(self, ring: Ring) -> Expression:
        if ring == self.filling:
            return self.code.local("filled")
        if ring.depth == 1:
            return Constant(0)
        return self.part(ring.symbol, "passed") & (ring.depth - 1) if self.counted(ring) else self.part(ring.symbol, "stage")

    def phase(self, ring: Ring) -> Expression:
        if ring == self.filling:
            return self.code.local("filled_phase")
        if self.counted(ring):
            return (self.part(ring.symbol, "passed") >> (ring.depth.bit_length() - 1)) & 1
        return self.part(ring.symbol, "phase")

    def cursor(self, ring: Ring) -> tuple[Name, ...]:
        """The variables of a cursor."""
        if self.counted(ring):
            return (self.part(ring.symbol, "passed"),)
        phase = self.part(ring.symbol, "phase")
        return (self.part(ring.symbol, "stage"), phase) if ring.depth > 1 else (phase,)

    def advance(self, ring: Ring) -> None:
        code = self.code
        if self.counted(ring):
            # What follows from the number is to be computed, not carried along.
            (passed,) = self.cursor(ring)
            code.assign(passed, call("ptx.opaque", passed + 1))
        elif ring.depth > 1:
            cursor = self.cursor(ring)
            code.assign(Several(cursor), call(self.made(f"after_{ring.depth}", "ptx.advance", ring.depth), *cursor))
        else:
            (phase,) = self.cursor(ring)
            code.assign(phase, phase ^ 1)

    def pass_by(self, ring: Ring) -> None:
        """Advance by all steps of a tile at once."""
        code, cursor = self.code, self.cursor(ring)
        if ring.depth > 1:
            code.assign(
                Several(cursor), call(self.made(f"after_more_{ring.depth}", "ptx.advance_by", ring.depth), *cursor, self.steps)
            )
        else:
            code.assign(cursor[0], (cursor[0] + self.steps) & 1)

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, body: tuple[Op, ...]) -> None:
        _, most, _ = self.program.target.product_columns
        for op, *beside in issued(body, most):
            pages = pages_of(op)
            if isinstance(op, b.Copy) and pages is not None:
                self.pages.copies([op, *(each for each in beside if isinstance(each, b.Copy))], pages)
            elif isinstance(op, b.Product):
                self.product(op, [each for each in beside if isinstance(each, b.Product)])
            else:
                self.op(op)

    def op(self, op: Op) -> None:
        code, consumer = self.code, self.consumer
        elected = same(self.lane, 0)
        match op:
            case b.Await(ring=ring, side=side, first=first):
                phase = self.phase(ring)
                code.call("ptx.barrier_wait", self.barrier(ring, side), phase ^ 1 if first else phase)
            case b.Look():
                self.pages.look(op)
            case b.Expect(ring=ring, bytes=size):
                announced = self.rings[ring].stage if size == ring.stage else size
                code.call("ptx.barrier_expect", self.barrier(ring, "full"), announced)
                if self.segments is not None:
                    self.segments.another()
            case b.Copy():
                self.copy(op)
            case b.Advance(ring=ring):
                self.advance(ring)
            case b.Release(ring=ring, back=back, cluster=cluster):
                self.release(ring, back, cluster)
            case b.Clear(accumulator=acc):
                self.stream.clear(acc)
                for name in self.accumulators(acc):
                    code.assign(name, call(self.made("zeros", "ptx.accumulators", acc.shape[1], *_kind(acc.element))))
            case b.Evaluate():
                self.computed.evaluate(op)
            case b.ProductFence():
                code.call("ptx.product_fence")
            case b.Product():
                self.product(op, [])
            case b.Commit():
                code.call("ptx.product_commit")
            case b.Retire(accumulator=acc, pending=pending):
                retire = self.made(f"retire_{pending}", "ptx.retire", acc.shape[1], pending)
                for name in self.accumulators(acc):
                    code.assign(name, call(retire, name))
            case b.Reclaim(pending=pending):
                with code.when(elected):
                    code.call(self.made(f"store_wait_read_{pending}", "ptx.store_wait_read", pending))
            case b.Meet(barrier=barrier, threads=threads):
                code.call("ptx.named_sync", consumer + barrier, threads)
            case b.Write():
                self.results.write(op)
            case b.AsyncFence():
                code.call("ptx.fence_async")
            case b.Send():
                self.send(op)
            case b.Scatter():
                self.results.scatter(op)
            case b.Drain():
                with code.when(elected):
                    code.call("ptx.store_wait_all")
            case b.Depart():
                raise AssertionError("a role departs before its end")
            case b.Tiles(body=body):
                self.tiles(body)
            case b.Turn(first=first, threads=threads):
                code.call("ptx.named_sync", consumer + first, threads)
            case b.PassTurn():
                self.pass_on(op)
            case b.LastTurn(first=first, threads=threads):
                apart = self.program.mapping.apart
                with code.when(same(self.owner, consumer) if apart else same(consumer, 0)):
                    code.call("ptx.named_sync", consumer + first if apart else first, threads)
            case t.Settle(tile=tile):
                for name in self.accumulators(tile):
                    code.assign(name, call(self.made("settle", "ptx_tiles.settle", tile.shape[1]), name))
            case t.ReadScales():
                self.scales.read(op)
            case t.Promote(scales=scales) if scales is not None:
                self.scales.promote(op)
            case t.Promote(correction=correction) if correction is not None:
                self.stream.promote(op)
            case t.Promote(accumulator=acc, partial=partial):
                for total, name in zip(self.accumulators(acc), self.accumulators(partial), strict=True):
                    code.assign(total, call(self.made("promote", "ptx_tiles.promote", acc.shape[1]), total, name))
            case t.Reset() | t.Fold() | t.Narrow() | t.Rescale() | t.Hold() | t.Finish():
                self.stream.op(op)
            case t.StoreRows():
                self.results.row_values(op)
            case b.Last(axis=axis):
                code.assign(self.name(axis.symbol), self.stream.last_piece - 1)
            case b.Steps():
                self.each_step(op)
            case b.IfOwn(own=own, body=body):
                with code.when(same(self.owner, consumer) if own else Operator("!=", self.owner, consumer)):
                    self.block(body)
            case b.AfterSteps(axis=axis, count=count, body=body):
                with code.when((self.name(axis.symbol) if self.in_steps(axis, op) else self.steps) >= count):
                    self.block(body)
            case b.IfPiece(axis=axis, number=number, current=current, body=body):
                there = self.name(axis.symbol) + number < self.steps if current else self.steps > number
                with code.when(there):
                    self.block(body)
            case b.Alone(body=body):
                with code.when(both(same(consumer, 0), elected) if isinstance(consumer, Name) else elected):
                    self.alone(body)
            case _:
                assert_never(op)

    def pass_on(self, op: b.PassTurn) -> None:
        """The next consumer's turn."""
        code, consumer, count = self.code, self.consumer, self.current.instances
        if op.only is None:
            following = Choice(consumer < count - 1, consumer + (op.first + 1), Constant(op.first)) if count > 1 else op.first
            code.call("ptx.named_arrive", following, op.threads)
        else:
            with code.when(same(consumer, op.only)):
                code.call("ptx.named_arrive", op.first + (op.only + 1) % count, op.threads)

    def each_step(self, op: b.Steps) -> None:
        """Forwards from the first, or backwards from the last piece that there is."""
        code, piece = self.code, self.name(op.axis.symbol)
        if all(isinstance(o, b.Advance) for o in op.body):
            for ring in dict.fromkeys(o.ring for o in op.body if isinstance(o, b.Advance)):
                self.pass_by(ring)
            return
        if not op.backwards:
            stepped = self.pixels.stepped(op)
            with code.loop(piece, self.steps):
                self.block(op.body)
                self.pixels.move_on(stepped)
            return
        if not op.peeled:
            code.assign(piece, self.stream.last_piece)
        with code.repeat(piece > self.stream.first_piece):
            code.assign(piece, call("ptx.opaque", piece - 1))
            self.block(op.body)

    def alone(self, body: tuple[Op, ...]) -> None:
        ((ring, ahead),) = {(o.ring, o.ahead) for o in b.operations(body) if isinstance(o, b.Await | b.Expect | b.Copy)}
        if ahead:
            code = self.code
            filled, phase = code.local("filled"), code.local("filled_phase")
            code.assign(filled, self.stage(ring) + ahead)
            code.assign(phase, self.phase(ring))
            with code.when(filled >= ring.depth):
                code.assign(filled, filled - ring.depth)
                code.assign(phase, phase ^ 1)
            self.filling = ring
        self.block(body)
        self.filling = None

    def in_steps(self, axis: TileAxis, op: b.AfterSteps) -> bool:
        loops = (o for o in b.operations(self.current.body) if isinstance(o, b.Steps) and o.axis == axis)
        return any(o is op for loop in loops for o in b.operations(loop.body))  # an equal one may stand behind the loop

    def barrier(self, ring: Ring, side: b.Side, stage: Expression | None = None) -> Expression:
        places = self.rings[ring]
        return (places.full if side == "full" else places.empty) + (stage or self.stage(ring)) * 16

    def release(self, ring: Ring, back: int, cluster: bool) -> None:
        code, stage = self.code, self.stage(ring)
        if back:
            freed = code.local("freed")
            code.assign(freed, Choice(stage >= back, stage - back, stage + (ring.depth - back)))
            stage = freed
        barrier = self.barrier(ring, "empty", stage)
        if cluster:
            with code.when(self.lane < self.program.cluster):
                code.call("ptx.barrier_arrive_at", barrier, self.lane)
        else:
            with code.when(same(self.lane, 0)):
                code.call("ptx.barrier_arrive", barrier)

    def copy(self, op: b.Copy, places: Sequence[Expression] | None = None, moved: Expression | None = None) -> None:
        """A copy, perhaps from other places than its own, which are innermost first, to so many bytes behind its own."""
        ring = op.ring
        inside = op.offset - ring.fields[op.field].offset
        to = self.rings[ring].fields[op.field] + inside + self.stage(ring) * self.rings[ring].stage
        if op.by_rank:
            to = to + self.rank * op.by_rank
        if moved is not None:
            to = to + moved
        given: list[Like] = [to, self.parameters[MapParameter(op.descriptor)], self.barrier(ring, "full")]
        seen = self.pixels.seen(op)
        at = places or self.places(op) if seen is None else self.pixels.place(op, seen)
        what, rank = ("in", len(op.at)) if seen is None else ("pixels", len(pixels_of(seen).places) + 2)
        if op.multicast:
            copy = self.made(f"copy_{what}_multicast_{rank}d", f"ptx.copy_{what}_multicast", rank)
            self.code.call(copy, *given, (1 << self.program.cluster) - 1, *at)
        else:
            self.code.call(self.made(f"copy_{what}_{rank}d", f"ptx.copy_{what}", rank), *given, *at)

    def places(self, op: b.Copy) -> list[Expression]:
        """Where a box begins, innermost first."""
        return list(reversed([self.coordinate(c) for c in op.at] if self.segments is None else self.segments.places(op)))

    def coordinate(self, c: Coordinate) -> Expression:
        if c.step == 0:
            return Constant(c.offset)
        piece = self.name(c.axis)
        found: Expression = piece * c.step if c.step != 1 else piece
        if self.ragged is not None and c.axis == self.program.order.rows.symbol:
            found = self.ragged.first
        for factor, variable in ((c.by_rank, self.rank), (c.by_consumer, self.consumer)):
            found = found + variable * factor if factor else found
        return found + c.offset if c.offset else found

    def tiles(self, body: tuple[Op, ...]) -> None:
        order, program, code = self.program.order, self.program, self.code
        clusters = program.cluster > 1
        count = call("int32", call("ptx.cluster_count") if clusters else External("cuda.gridDim.x"))
        place = call("int32", call("ptx.cluster_index") if clusters else External("cuda.blockIdx.x"))
        tile, inside = code.local("tile"), code.local("inside")
        alternate = any(isinstance(op, b.IfOwn) for op in body)
        code.assign(tile, call("int32", place * 2) if order.paired else place)
        if alternate:
            code.assign(self.owner, Constant(0))
        with code.repeat(tile < code.local("tiles")):
            self.decode_pair(tile, inside, count) if order.paired else self.decode(tile, inside)
            following = code.local("next_outer")
            for axis in reversed(order.outer[1:]):
                size = self.size(axis.extent)
                # The last outer axis varies fastest among them.
                code.assign(following, call("ptx.divide", inside, size))
                code.assign(self.name(axis.symbol), inside - following * size)
                code.assign(inside, following)
            if order.outer:
                code.assign(self.name(order.outer[0].symbol), inside)
            variables = {axis.symbol: self.name(axis.symbol) for axis in order.outer}
            if self.ragged is not None:
                self.ragged.tile()
                variables[self.ragged.ragged.group] = self.name(self.ragged.ragged.group)
            for symbol, dim in program.derived:
                code.assign(self.name(symbol), self.dim(dim, variables))
            if program.bounds is not None:
                self.stream.bounds(program.bounds)
            if self.segments is not None:
                self.segments.tile()
            self.pages.tile()
            self.pixels.first(body)
            self.block(body)
            code.assign(tile, call("int32", code.local("following") if order.paired else tile + count))
            if alternate:
                code.assign(self.owner, Choice(self.owner < self.current.instances - 1, self.owner + 1, Constant(0)))

    def decode(self, tile: Name, inside: Name) -> None:
        """Rows and columns of a tile; what is left `inside` numbers the outer indices."""
        order, code = self.program.order, self.code
        rows, columns = self.name(order.rows.symbol), self.name(order.columns.symbol)
        across, down = self.pieces(order.columns), self.pieces(order.rows)
        band, height, outer = code.local("band"), code.local("height"), code.local("next_outer")
        if order.outer:
            code.assign(outer, call("ptx.divide", tile, down * across))
            code.assign(inside, tile - outer * down * across)
        within = inside if order.outer else tile
        code.assign(band, call("ptx.divide", within, order.group * across))
        code.assign(inside, within - band * order.group * across)
        code.assign(height, call("min", down - band * order.group, order.group))
        code.assign(columns, call("ptx.divide", inside, height))
        code.assign(rows, band * order.group + inside - columns * height)
        if order.cluster > 1:
            split = rows if order.cluster_over == "rows" else columns
            code.assign(split, split * order.cluster + self.rank)
        if order.outer:
            code.assign(inside, outer)

    def decode_pair(self, tile: Name, inside: Name, count: Expression) -> None:
        order, code = self.program.order, self.code
        rows, columns, down = self.name(order.rows.symbol), self.name(order.columns.symbol), self.pieces(order.rows)
        following, half = code.local("following"), call("int32", (down + 1) >> 1)
        code.assign(inside, call("ptx.divide", tile >> 1, half))
        code.assign(rows, (tile >> 1) - inside * half)
        code.assign(columns, 0)
        with code.when(tile & 1):
            code.assign(following, tile + 2 * count - 1)
        with code.otherwise():
            code.assign(rows, down - 1 - rows)
            code.assign(following, tile + 1)
            with code.when(same(rows * 2 + 1, down), "the tile in the middle is alone"):
                code.assign(following, tile + 2 * count)

    # ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def accumulators(self, acc: Tile) -> list[Name]:
        """One tuple of accumulators for each 64 rows of a consumer."""
        blocks = acc.shape[0] // (64 * self.program.mapping.sharing)
        return [self.part(acc.symbol, block) for block in range(blocks)]

    def product(self, op: b.Product, beside: Sequence[b.Product]) -> None:
        """A product, and those of the same left factor that one instruction makes with it."""
        code, name = self.code, self.accumulators(op.accumulator)[op.block]
        names = (name, *(self.accumulators(other.accumulator)[other.block] for other in beside))
        columns, right = op.accumulator.shape[1], op.right
        extent = dict(zip(right.tile.axes, right.tile.shape, strict=True))[op.over]
        across = right.tile.axes[-1] != op.over
        later = call("int32", self.name(op.over) > 0)
        keep = {"never": Constant(0), "always": Constant(1), "later": later}[op.keep]
        factors = (op.left.tile if isinstance(op.left, b.StageField) else op.left, right.tile)
        pair = [MULTIPLIED[factor.element].name for factor in factors]
        element = ".".join(dict.fromkeys(pair))
        right_steps = self.depth_steps(right.ring.fields[right.field], across, extent)
        from_right = code.local("right")
        if isinstance(op.left, b.StageField):
            blocks = self.program.blocks
            field = op.left.ring.fields[op.left.field]
            left_across = op.left.tile.axes[-1] != op.over
            unit = field.panel if left_across else 64 * 128  # bytes from 64 rows to the next
            from_left = code.local("left")
            first_left, first_right = _first_limb(op.left), _first_limb(right)
            if op.keep == "never" or not self.program.promoted or blocks > 1:  # what follows lies behind the first limbs
                self.descriptor(from_left, first_left, left_across, (self.share * blocks + op.block) * unit)
                self.descriptor(from_right, first_right, across)
            left_steps = self.depth_steps(field, left_across, extent)
            steps = _behind(op.left, first_left, left_steps), _behind(right, first_right, right_steps)
            sums = (len(names),) if beside else ()
            multiply = self.made("multiply", "ptx.multiply", columns, element, left_across, across, *steps, *sums)
            made = call(multiply, *names, from_left, from_right, keep)
            code.assign(Several(names) if beside else name, made)
            return
        self.descriptor(from_right, right, across)
        steps_held = Several(tuple(map(Constant, right_steps)))
        multiply = self.made("multiply_held", "ptx_tiles.multiply_held", columns, element, across, steps_held)
        code.assign(name, call(multiply, name, self.accumulators(op.left)[op.block], from_right, keep))

    def descriptor(self, name: Name, part: b.StageField, across: bool, offset: Like | None = None) -> None:
        """The matrix descriptor of a part's first 32 bytes of the reduced axis."""
        field = part.ring.fields[part.field]
        high = (1 << 62) | (64 << 32) | ((field.panel >> 4 if across else 1) << 16)
        places = self.rings[part.ring]
        at = places.fields[part.field] + self.stage(part.ring) * places.stage
        at = at if offset is None else at + lift(offset)
        self.code.assign(name, call("int64", (at & External("0x3FFFF")) >> 4) | self.layout(high, across))

    def layout(self, high: int, across: bool) -> Name:
        """What a matrix descriptor says besides the address. See Note [Matrix descriptors]."""
        if high not in self.layouts:
            self.layouts[high] = self.global_name("across" if across else "along")
        return self.layouts[high]

    def depth_steps(self, field: b.Field, across: bool, extent: int) -> tuple[int, ...]:
        """From the field's first 32 bytes of the reduced axis to each, in 16 bytes, as descriptors count. Across are 16 bits."""
        one = self.program.target.product_depth * 8 // field.tile.element.bits
        per_panel = field.width // one
        steps = (k * 128 if across else (k // per_panel * field.panel >> 4) + k % per_panel * 2 for k in range(extent // one))
        return tuple(steps)

    # ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, op: b.Send) -> None:
        code, rank = self.code, len(op.at)
        source = self.slot(op.buffer, op.slot)
        at = [self.coordinate(c) for c in reversed(op.at)]
        with code.when(same(self.lane, 0)):
            copy = self.made(f"copy_out_{rank}d", "ptx.copy_out", rank)
            code.call(copy, source, self.parameters[MapParameter(op.descriptor)], *at)
            code.call("ptx.store_commit")


def _kind(element: Element) -> tuple[str, ...]:
    """What is said of accumulators that are no floats."""
    return ("s32",) if element is Element.I32 else ()


def _first_limb(part: b.StageField) -> b.StageField:
    """The field of the same stage in which the first limb of a part's factor lies: the part itself, if it is none."""
    fields = part.ring.fields
    return b.StageField(part.ring, next(n for n, field in enumerate(fields) if field.tile.axes == part.tile.axes))


def _behind(part: b.StageField, first: b.StageField, steps: Sequence[int]) -> Several:
    """Steps from the place of the first limb to those of a part, see `depth_steps`."""
    distance = (part.ring.fields[part.field].offset - first.ring.fields[first.field].offset) >> 4
    return Several(tuple(Constant(distance + step) for step in steps))


class _Marks:
    """Stands for names in a text that is a comment: a place for each, and the names that belong there."""

    def __init__(self, emitter: Emitter) -> None:
        self.emitter, self.found = emitter, list[Name]()

    def __getitem__(self, symbol: Symbol) -> str:
        self.found.append(self.emitter.name(symbol))
        return f"{{{len(self.found) - 1}}}"


def _no_read(read: Read) -> Expression:
    raise AssertionError(f"{read} in a Dim")
