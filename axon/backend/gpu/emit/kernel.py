"""The barrier program as Python that numba-cuda compiles and a person can read.

Nothing is decided here: every operation of the barrier program becomes a line or two, in order. The layout of accumulators among
threads and the encoding of matrix descriptors are the hardware's.

Note [Accumulators]
    In the accumulators of 64 rows, thread 32 w + l of a warpgroup holds, at 4 g + 2 h + e, row 16 w + l / 4 + 8 h and column
    8 g + 2 (l % 4) + e.

Note [Matrix descriptors]
    Bits 0-13 address / 16, 16-29 leading offset / 16, 32-45 stride offset / 16, 62-63 the swizzle (1: 128 bytes). Stored with the
    reduced axis contiguous, 8 rows are 1024 bytes apart and the next 16 of the reduced axis 32 bytes further. Stored across, the
    leading offset leads to the next panel of 64, and the next 16 are 16 rows of 128 bytes further.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from axon.backend.gpu.emit.results import ResultEmitter
from axon.backend.gpu.emit.stream import StreamEmitter
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram, Coordinate, Descriptor, Op, Ring, Role
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.ir import Tile, TileAxis, views_text
from axon.backend.kernel.render import Names
from axon.backend.kernel.scalars import Writer
from axon.base.names import Symbol
from axon.core.ir import Read
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class MapParameter:
    """A TMA descriptor, passed by value."""

    descriptor: Descriptor


@dataclass(frozen=True, slots=True)
class PointerParameter:
    tensor: Symbol


@dataclass(frozen=True, slots=True)
class StrideParameter:
    """Elements between neighbours along a dimension of a tensor."""

    tensor: Symbol
    dimension: int


@dataclass(frozen=True, slots=True)
class SizeParameter:
    size: Dim


@dataclass(frozen=True, slots=True)
class ExtentParameter:
    """A size of 64 bits, of plain kernels."""

    size: Dim


@dataclass(frozen=True, slots=True)
class StatusParameter:
    """Where a kernel notes that the program must stop."""


Parameter: TypeAlias = "MapParameter | PointerParameter | StrideParameter | SizeParameter | ExtentParameter | StatusParameter"


@dataclass(frozen=True, slots=True)
class Emitted:
    """A kernel's source and what its parameters are, in order. Calling `kernel` in the source's name space is the entry."""

    text: str
    parameters: tuple[Parameter, ...]
    threads: int
    cluster: int
    shared: int
    resident: int = 1  # blocks for which a multiprocessor must have registers

    @property
    def bounds(self) -> tuple[int, int]:
        """Its launch bounds: threads of a block, and blocks of a multiprocessor."""
        return self.threads, self.resident


_RESERVED = frozenset({  # the emitter's own names, and Python's
    "ptx", "cuda", "libdevice", "int32", "int64", "float32", "kernel", "shared", "thread", "lane", "group", "consumer", "rank",
    "base", "steps", "tile", "tiles", "clusters", "min", "max", "abs", "range", "row", "row_0", "row_1", "column", "place",
    "freed", "inside", "band", "height", "next_outer", "y0_0", "y0_1", "y0_2", "y0_3", "y1_0", "y1_1", "y1_2", "y1_3", "pair",
    "inside_0", "inside_1", "start_0", "start_1", "count", "warp", "stage", "phase", "left", "right", "product", "stride",
    "level", "first_row", "last_row", "following", "some_from", "some_to", "all_from", "all_to", "first_piece", "last_piece",
    "every_from", "every_to", "old_0", "old_1", "peak_0", "peak_1", "bias_0", "bias_1", "scale_0", "scale_1", "before",
    "filled", "filled_phase", "place_0", "place_1", "part",
    "ptx_rows", "ptx_tiles", "not", "and", "or", "if", "else", "while", "for", "in", "is", "def", "return", "None", "True", "False",
})  # fmt: skip


def emit(program: BarrierProgram, paired: frozenset[Symbol] = frozenset(), comments: Sequence[str] = ()) -> Emitted:
    """The kernel's source, headed by comments.

    The 16-bit tensors in `paired` have a contiguous last dimension of even extent, and rows that start at even elements of an
    aligned word: an epilogue loads their neighbours together.
    """
    return Emitter(program, paired).run(comments)


class Emitter:
    reserved = _RESERVED

    def __init__(self, program: BarrierProgram, paired: frozenset[Symbol]) -> None:
        self.program = program
        self.names = Names(_RESERVED)
        self.lines: list[str] = []
        self.body: list[str] = []  # the lines of the kernel, when it has run
        self.depth = 0
        self.intrinsics: dict[str, str] = {}  # expression → name
        self.functions: list[str] = []
        self.parameters: dict[Parameter, str] = {}
        self.filling: b.Ring | None = None  # the ring at whose stage `filled` one thread works alone
        self.stream = StreamEmitter(self)
        self.results = ResultEmitter(self, paired)

    def run(self, comments: Sequence[str] = ()) -> Emitted:
        program = self.program
        for value in program.tensors:
            self.names[value.symbol]
        for descriptor in program.descriptors:
            self.parameters[MapParameter(descriptor)] = self.names.free(f"{self.names[descriptor.tensor]}_map")
        for axis in (*program.order.outer, program.order.rows, program.order.columns, program.steps):
            self.size(axis.extent)
        self.depth = 1
        self.prologue()
        first = 0
        for number, role in enumerate(program.roles):
            self.line(f"{'if' if number == 0 else 'elif'} group < {first + role.instances}:  # {role.name}")
            self.indented(self.role(role, first))
            first += role.instances
        self.line("ptx.cluster_arrive()" if program.cluster > 1 else "ptx.block_sync()")
        if program.cluster > 1:
            self.line("ptx.cluster_wait()")
        self.body, self.lines = self.lines, []
        parameters = ", ".join(self.parameters.values())
        made = [f"{name} = {expression}" for expression, name in self.intrinsics.items()]
        used = {expression.partition(".")[0] for expression in self.intrinsics}
        modules = ["ptx", *sorted(used & {"ptx_rows", "ptx_tiles"})]
        head = [
            *(f"# {line}" for line in comments),
            "from numba import cuda, float32, int32, int64",
            "from numba.cuda import libdevice",
            "",
            f"from axon.backend.gpu.intrinsics import {', '.join(modules)}",
            "",
        ]
        text = "\n".join([*head, *self.functions, *made, "", "", f"def kernel({parameters}):", *self.body]) + "\n"
        return Emitted(text, tuple(self.parameters), program.threads, program.cluster, program.shared)

    # ── text ────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def indented(self, body: Iterator[None]) -> None:
        """Run a generator that writes lines, one level deeper."""
        self.depth += 1
        before = len(self.lines)
        for _ in body:
            pass
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def made(self, expression: str, name: str) -> str:
        """The module-level name of an intrinsic made by `expression`."""
        if expression not in self.intrinsics:
            self.intrinsics[expression] = self.names.free(name)
        return self.intrinsics[expression]

    def size(self, size: Dim) -> str:
        constant = size.constant
        if constant is not None:
            return str(constant)
        key = SizeParameter(size)
        if key not in self.parameters:
            symbol = size.symbol
            self.parameters[key] = self.names.free(f"size_{symbol.name}" if symbol else "size")
        return self.parameters[key]

    def is_size(self, dim: Dim) -> bool:
        """Whether a Dim has one value for the whole kernel."""
        order = self.program.order
        axes = {a.symbol for a in (*order.outer, order.rows, order.columns, self.program.steps)}
        return dim.variables.isdisjoint(axes)

    def pointer(self, tensor: Symbol) -> str:
        return self.parameters.setdefault(PointerParameter(tensor), self.names[tensor])

    def stride(self, tensor: Symbol, dimension: int) -> str:
        key = StrideParameter(tensor, dimension)
        if key not in self.parameters:
            self.parameters[key] = self.names.free(f"{self.names[tensor]}_stride{dimension}")
        return self.parameters[key]

    def piece(self, axis: Symbol) -> str:
        """The variable that holds the current piece of an axis."""
        return self.names[axis]

    def dim(self, dim: Dim, variables: dict[Symbol, str]) -> str:
        """A size or index, where some symbols are variables of the kernel."""

        def size(dim: Dim) -> str | None:
            return None if dim.variables & variables.keys() else self.size(dim)

        return Writer(_no_read, lambda s: variables.get(s) or self.size(Dim.of(s)), size, {}).dim(dim)

    # ── what every thread does ──────────────────────────────────────────────────────────────────────────────────────────

    def prologue(self) -> None:
        program, order = self.program, self.program.order
        for text in views_text(program.views, self.names):
            self.line(f"# {text}")
        self.line("thread = cuda.threadIdx.x")
        self.line("group = ptx.uniform(int32(thread // 128))")
        self.line("lane = thread % 128")
        self.line(f"shared = {self.made('ptx.shared_memory()', 'shared_memory')}()")
        if program.cluster > 1:
            self.line(f"{self.made(f'ptx.cluster_of({program.cluster})', 'cluster_of')}()")
            self.line("rank = ptx.cluster_rank()")
        self.line("if thread == 0:")
        self.depth += 1
        for ring in program.rings:
            for stage in range(ring.depth):
                self.line(f"ptx.barrier_init(shared + {ring.barriers + 16 * stage}, {ring.full})")
                self.line(f"ptx.barrier_init(shared + {ring.barriers + 16 * stage + 8}, {ring.empty})")
        if program.fenced:
            self.line("ptx.barrier_init_fence()")
        self.depth -= 1
        if program.cluster > 1:
            self.line("ptx.cluster_arrive()")
            self.line("ptx.cluster_wait()")
        else:
            self.line("ptx.block_sync()")
        for axis in (order.rows, order.columns):
            shared = order.cluster if (order.cluster_over == "rows") == (axis == order.rows) else 1
            unit = axis.step * shared
            self.line(f"count_{self.piece(axis.symbol)} = ptx.divide({self.size(axis.extent)} + {unit - 1}, {unit})")
        rows, columns = (self.piece(a.symbol) for a in (order.rows, order.columns))
        outer = "".join(f" * {self.size(a.extent)}" for a in order.outer)
        if order.paired:
            self.line(f"tiles = (count_{rows} + 1 >> 1) * 2{outer}")
        else:
            self.line(f"tiles = count_{rows} * count_{columns}{outer}")
        steps = self.program.steps
        self.line(f"steps = ptx.divide({self.size(steps.extent)} + {steps.step - 1}, {steps.step})")

    def role(self, role: Role, first: int) -> Iterator[None]:
        self.current = role
        if role.registers:
            grow = not role.elected
            expression = f"ptx.registers({role.registers}, grow={grow})"
            self.line(f"{self.made(expression, f'registers_{role.registers}')}()")
        if role.instances > 1:
            self.line(f"consumer = group - {first}")
        else:
            self.line("consumer = 0")
        if role.elected:
            self.line("if lane == 0:")
            self.depth += 1
        for ring in self.program.rings:
            self.start_cursor(ring)
        assert isinstance(role.body[-1], b.Depart), "a role that does not depart"
        yield from self.block(role.body[:-1])
        if role.elected:
            self.depth -= 1

    def counted(self, ring: Ring) -> bool:
        """Whether one number holds both stage and phase of a cursor: the producer of a stream has few registers."""
        return self.program.bounds is not None and self.current.elected and ring.depth & (ring.depth - 1) == 0

    def stage(self, ring: Ring) -> str:
        if ring == self.filling:
            return "filled"
        if ring.depth == 1:
            return "0"
        name = self.names[ring.symbol]
        return f"({name}_passed & {ring.depth - 1})" if self.counted(ring) else f"{name}_stage"

    def phase(self, ring: Ring) -> str:
        if ring == self.filling:
            return "filled_phase"
        name = self.names[ring.symbol]
        return f"({name}_passed >> {ring.depth.bit_length() - 1} & 1)" if self.counted(ring) else f"{name}_phase"

    def start_cursor(self, ring: Ring) -> None:
        if self.counted(ring):
            self.line(f"{self.names[ring.symbol]}_passed = 0")
            return
        if ring.depth > 1:
            self.line(f"{self.stage(ring)} = 0")
        self.line(f"{self.phase(ring)} = 0")

    def advance(self, ring: Ring) -> None:
        if self.counted(ring):
            # What follows from the number is to be computed, not carried along.
            self.line(f"{self.names[ring.symbol]}_passed = ptx.opaque({self.names[ring.symbol]}_passed + 1)")
            return
        if ring.depth > 1:
            self.line(f"{self.stage(ring)} += 1")
            self.line(f"if {self.stage(ring)} == {ring.depth}:")
            self.line(f"    {self.stage(ring)} = 0")
        self.line(f"{'    ' if ring.depth > 1 else ''}{self.phase(ring)} ^= 1")

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, body: tuple[Op, ...]) -> Iterator[None]:
        for op in body:
            self.op(op)
            yield

    def op(self, op: Op) -> None:
        match op:
            case b.Await(ring=ring, side=side, first=first):
                parity = f"{self.phase(ring)} ^ 1" if first else self.phase(ring)
                self.line(f"ptx.barrier_wait({self.barrier(ring, side)}, {parity})")
            case b.Expect(ring=ring, bytes=size):
                self.line(f"ptx.barrier_expect({self.barrier(ring, 'full')}, {size})")
            case b.Copy():
                self.copy(op)
            case b.Advance(ring=ring):
                self.advance(ring)
            case b.Release(ring=ring, back=back, cluster=cluster):
                self.release(ring, back, cluster)
            case b.Clear(accumulator=acc):
                for name in self.accumulators(acc):
                    self.line(f"{name} = {self.made(f'ptx.accumulators({self.columns(acc)})', 'zeros')}()")
            case b.ProductFence():
                self.line("ptx.product_fence()")
            case b.Product():
                self.product(op)
            case b.Commit():
                self.line("ptx.product_commit()")
            case b.Retire(accumulator=acc, pending=pending):
                retire = self.made(f"ptx.retire({self.columns(acc)}, {pending})", f"retire_{pending}")
                for name in self.accumulators(acc):
                    self.line(f"{name} = {retire}({name})")
            case b.Reclaim(pending=pending):
                self.line("if lane == 0:")
                self.line(f"    {self.made(f'ptx.store_wait_read({pending})', f'store_wait_read_{pending}')}()")
            case b.Meet(barrier=barrier, threads=threads):
                self.line(f"ptx.named_sync(consumer + {barrier}, {threads})")
            case b.Write():
                self.results.write(op)
            case b.AsyncFence():
                self.line("ptx.fence_async()")
            case b.Send():
                self.send(op)
            case b.Scatter():
                self.results.scatter(op)
            case b.Drain():
                self.line("if lane == 0:")
                self.line("    ptx.store_wait_all()")
            case b.Depart():
                raise AssertionError("a role departs before its end")
            case b.Tiles(body=body):
                self.tiles(body)
            case b.Turn(first=first, threads=threads):
                self.line(f"ptx.named_sync(consumer + {first}, {threads})")
            case b.Pass(first=first, threads=threads, only=only):
                count = self.current.instances
                if only is None:
                    following = f"consumer + {first + 1} if consumer < {count - 1} else {first}" if count > 1 else f"{first}"
                    self.line(f"ptx.named_arrive({following}, {threads})")
                else:
                    self.line(f"if consumer == {only}:")
                    self.line(f"    ptx.named_arrive({first + (only + 1) % count}, {threads})")
            case b.LastTurn(first=first, threads=threads):
                self.line("if consumer == 0:")
                self.line(f"    ptx.named_sync({first}, {threads})")
            case t.Reset() | t.Fold() | t.Narrow() | t.Rescale() | t.Finish():
                self.stream.op(op)
            case b.Last(axis=axis):
                self.line(f"{self.piece(axis.symbol)} = {self.stream.limits[1]} - 1")
            case b.Steps(axis=axis, body=body, backwards=True, peeled=peeled):
                piece, (start, stop) = self.piece(axis.symbol), self.stream.limits[:2]
                if not peeled:
                    self.line(f"{piece} = {stop}")
                self.line(f"while {piece} > {start}:")
                self.line(f"    {piece} = ptx.opaque({piece} - 1)")
                self.indented(self.block(body))
            case b.Steps(axis=axis, body=body):
                self.line(f"for {self.piece(axis.symbol)} in range(steps):")
                self.indented(self.block(body))
            case b.AfterSteps(axis=axis, count=count, body=body):
                inside = self.piece(axis.symbol) if self.in_steps(axis, op) else "steps"
                self.line(f"if {inside} >= {count}:")
                self.indented(self.block(body))
            case b.IfPiece(axis=axis, number=number, current=current, body=body):
                self.line(f"if {self.piece(axis.symbol)} + {number} < steps:" if current else f"if steps > {number}:")
                self.indented(self.block(body))
            case b.Alone(body=body):
                self.line("if consumer == 0 and lane == 0:")
                self.indented(self.alone(body))
            case _:
                assert_never(op)

    def alone(self, body: tuple[Op, ...]) -> Iterator[None]:
        ((ring, ahead),) = {(o.ring, o.ahead) for o in b.operations(body) if isinstance(o, b.Await | b.Expect | b.Copy)}
        if ahead:
            self.line(f"filled = {self.stage(ring)} + {ahead}")
            self.line(f"filled_phase = {self.phase(ring)}")
            self.line(f"if filled >= {ring.depth}:")
            self.line(f"    filled -= {ring.depth}")
            self.line("    filled_phase ^= 1")
            self.filling = ring
        yield from self.block(body)
        self.filling = None

    def in_steps(self, axis: TileAxis, op: b.AfterSteps) -> bool:
        loops = (o for o in b.operations(self.current.body) if isinstance(o, b.Steps) and o.axis == axis)
        return any(o is op for loop in loops for o in b.operations(loop.body))  # an equal one may stand behind the loop

    def barrier(self, ring: Ring, side: b.Side, stage: str | None = None) -> str:
        offset = ring.barriers + (8 if side == "empty" else 0)
        return f"shared + {offset} + {stage or self.stage(ring)} * 16"

    def release(self, ring: Ring, back: int, cluster: bool) -> None:
        stage = self.stage(ring)
        if back:
            self.line(f"freed = {stage} - {back} if {stage} >= {back} else {stage} + {ring.depth - back}")
            stage = "freed"
        if cluster:
            self.line(f"if lane < {self.program.cluster}:")
            self.line(f"    ptx.barrier_arrive_at({self.barrier(ring, 'empty', stage)}, lane)")
        else:
            self.line("if lane == 0:")
            self.line(f"    ptx.barrier_arrive({self.barrier(ring, 'empty', stage)})")

    def copy(self, op: b.Copy) -> None:
        ring, rank = op.ring, len(op.at)
        to = f"shared + {ring.data + op.offset} + {self.stage(ring)} * {ring.stage}" + (
            f" + rank * {op.by_rank}" if op.by_rank else ""
        )
        source = self.parameters[MapParameter(op.descriptor)]
        at = ", ".join(self.coordinate(c) for c in reversed(op.at))
        full = self.barrier(ring, "full")
        if op.multicast:
            copy = self.made(f"ptx.copy_in_multicast({rank})", f"copy_in_multicast_{rank}d")
            self.line(f"{copy}({to}, {source}, {full}, {(1 << self.program.cluster) - 1}, {at})")
        else:
            self.line(f"{self.made(f'ptx.copy_in({rank})', f'copy_in_{rank}d')}({to}, {source}, {full}, {at})")

    def coordinate(self, c: Coordinate) -> str:
        if c.step == 0:
            return str(c.offset)
        step = f" * {c.step}" if c.step != 1 else ""
        text = f"{self.piece(c.axis)}{step}"
        for factor, variable in ((c.by_rank, "rank"), (c.by_consumer, "consumer")):
            text += f" + {variable} * {factor}" if factor else ""
        return text + (f" + {c.offset}" if c.offset else "")

    def tiles(self, body: tuple[Op, ...]) -> None:
        order, program = self.program.order, self.program
        clusters = program.cluster > 1
        count, place = ("ptx.cluster_count()", "ptx.cluster_index()") if clusters else ("cuda.gridDim.x", "cuda.blockIdx.x")
        self.line(f"tile = int32({place})" + (" * 2" if order.paired else ""))
        self.line("while tile < tiles:")
        self.depth += 1
        self.decode_pair(count) if order.paired else self.decode()
        for axis in reversed(order.outer[1:]):
            name, size = self.piece(axis.symbol), self.size(axis.extent)
            # The last outer axis varies fastest among them.
            self.line(f"next_outer = ptx.divide(inside, {size})")
            self.line(f"{name} = inside - next_outer * {size}")
            self.line("inside = next_outer")
        if order.outer:
            self.line(f"{self.piece(order.outer[0].symbol)} = inside")
        variables = {axis.symbol: self.piece(axis.symbol) for axis in order.outer}
        for symbol, dim in program.derived:
            self.line(f"{self.piece(symbol)} = {self.dim(dim, variables)}")
        if program.bounds is not None:
            self.stream.bounds(program.bounds)
        self.depth -= 1
        self.indented(self.block(body))
        self.line("    tile = following" if order.paired else f"    tile += int32({count})")

    def decode(self) -> None:
        """Rows and columns of a tile; what is left `inside` numbers the outer indices."""
        order = self.program.order
        rows, columns = self.piece(order.rows.symbol), self.piece(order.columns.symbol)
        self.line("inside = tile")
        if order.outer:
            self.line(f"next_outer = ptx.divide(tile, count_{rows} * count_{columns})")
            self.line(f"inside = tile - next_outer * count_{rows} * count_{columns}")
        self.line(f"band = ptx.divide(inside, {order.group} * count_{columns})")
        self.line(f"inside = inside - band * {order.group} * count_{columns}")
        self.line(f"height = min(count_{rows} - band * {order.group}, {order.group})")
        self.line(f"{columns} = ptx.divide(inside, height)")
        self.line(f"{rows} = band * {order.group} + inside - {columns} * height")
        if order.cluster > 1:
            split = rows if order.cluster_over == "rows" else columns
            self.line(f"{split} = {split} * {order.cluster} + rank")
        if order.outer:
            self.line("inside = next_outer")

    def decode_pair(self, count: str) -> None:
        rows, columns = (self.piece(axis.symbol) for axis in (self.program.order.rows, self.program.order.columns))
        self.line(f"inside = ptx.divide(tile >> 1, count_{rows} + 1 >> 1)")
        self.line(f"{rows} = (tile >> 1) - inside * (count_{rows} + 1 >> 1)")
        self.line(f"{columns} = 0")
        self.line("if tile & 1:")
        self.line(f"    following = tile + 2 * int32({count}) - 1")
        self.line("else:")
        self.line(f"    {rows} = count_{rows} - 1 - {rows}")
        self.line("    following = tile + 1")
        self.line(f"    if {rows} * 2 + 1 == count_{rows}:  # the tile in the middle is alone")
        self.line(f"        following = tile + 2 * int32({count})")

    # ── products ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def columns(self, acc: Tile) -> int:
        return acc.shape[1]

    def accumulators(self, acc: Tile) -> list[str]:
        """One tuple of accumulators for each 64 rows of a consumer."""
        blocks = acc.shape[0] // (64 * self.current.instances)
        return [f"{self.names[acc.symbol]}_{block}" for block in range(blocks)]

    def product(self, op: b.Product) -> None:
        name = self.accumulators(op.accumulator)[op.block]
        columns, right = self.columns(op.accumulator), op.right
        extent = dict(zip(right.tile.axes, right.tile.shape, strict=True))[op.over]
        across = right.tile.axes[-1] != op.over
        keep = {"never": "0", "always": "1", "later": f"int32({self.piece(op.over)} > 0)"}[op.keep]
        keeps = [keep] + ["1"] * (extent // 16 - 1)
        element = right.tile.element.value
        if isinstance(op.left, b.Part):
            blocks = op.left.tile.shape[op.left.tile.axes.index(op.accumulator.axes[0])] // (64 * self.current.instances)
            field = op.left.ring.fields[op.left.field]
            left_across = op.left.tile.axes[-1] != op.over
            unit = field.panel if left_across else 64 * 128  # bytes from 64 rows to the next
            self.descriptor("left", op.left, left_across, f" + (consumer * {blocks} + {op.block}) * {unit}")
            self.descriptor("right", right, across)
            multiply = self.made(f"ptx.multiply({columns}, {element!r}, {left_across}, {across})", "multiply")
            for k, kept in enumerate(keeps):
                a, c = self.depth_offset(field, left_across, k), self.depth_offset(right.ring.fields[right.field], across, k)
                self.line(f"{name} = {multiply}({name}, left + {a >> 4}, right + {c >> 4}, {kept})")
            return
        self.descriptor("right", right, across)
        held = self.accumulators(op.left)[op.block]
        for k, kept in enumerate(keeps):
            expression = f"ptx_tiles.multiply_held({columns}, {element!r}, {across}, {extent}, {k})"
            offset = self.depth_offset(right.ring.fields[right.field], across, k) >> 4
            self.line(f"{name} = {self.made(expression, f'multiply_held_{k}')}({name}, {held}, right + {offset}, {kept})")

    def descriptor(self, name: str, part: b.Part, across: bool, offset: str = "") -> None:
        """The matrix descriptor of a part's first 16 of the reduced axis."""
        field = part.ring.fields[part.field]
        high = (1 << 62) | (64 << 32) | ((field.panel >> 4 if across else 1) << 16)
        at = f"shared + {part.ring.data + field.offset} + {self.stage(part.ring)} * {part.ring.stage}{offset}"
        self.line(f"{name} = int64((({at}) & 0x3FFFF) >> 4) | {high:#x}")

    def depth_offset(self, field: b.Field, across: bool, k: int) -> int:
        """Bytes from the field's first 16 of the reduced axis to its k-th."""
        if across:
            return k * 16 * 128
        per_panel = field.width // 16
        return k // per_panel * field.panel + k % per_panel * 32

    # ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def send(self, op: b.Send) -> None:
        rank = len(op.at)
        source = f"shared + {op.buffer.offset} + (consumer * {op.buffer.slots} + {op.slot}) * {op.buffer.slot}"
        at = ", ".join(self.coordinate(c) for c in reversed(op.at))
        target = self.parameters[MapParameter(op.descriptor)]
        self.line("if lane == 0:")
        self.line(f"    {self.made(f'ptx.copy_out({rank})', f'copy_out_{rank}d')}({source}, {target}, {at})")
        self.line("    ptx.store_commit()")


def _no_read(read: Read) -> str:
    raise AssertionError(f"{read} in a Dim")
