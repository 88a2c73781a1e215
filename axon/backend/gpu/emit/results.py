"""What a kernel does with its results: from accumulators to values, and from there to memory (`granted` says in which ways)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.gpu.tile.ir import Store, StoreRows
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import (
    Assign,
    Choice,
    Constant,
    Expression,
    Function,
    Like,
    Name,
    Return,
    Several,
    call,
    filled,
    lift,
    mentions,
)
from axon.backend.kernel.tensor_core_scalars import EpilogueWriter, address, loaded
from axon.backend.kernel.tidy import inlined
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Convert, Local, Read, Scalar
from axon.core.walk import nodes, reads
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

_HALVES = (Element.BF16, Element.F16)  # of which a word has two


@dataclass(frozen=True, slots=True)
class _Result:
    """What computes a quad of results: its function, none for the product itself, and what that is given of the kernel: the first
    column before all else, if `by_column`."""

    name: Name | None = None
    given: tuple[Name, ...] = ()
    by_column: bool = False


class ResultEmitter:
    """Writes how results are computed and stored, through the emitter of everything else. Two neighbours of the tensors in `paired`
    are loaded as one word."""

    def __init__(self, emitter: Emitter, paired: frozenset[Symbol]) -> None:
        self.out, self.program, self.paired = emitter, emitter.program, paired
        self.results: dict[Symbol, _Result] = {}
        self.functions: dict[Symbol, Function] = {}  # of one element
        self.uses: dict[Symbol, tuple[Read | Symbol | Dim, ...]] = {}  # what they take: reads, index variables and sizes
        local = emitter.code.local
        self.base, self.place, self.row, self.column = local("base"), local("place"), local("row"), local("column")
        self.stands = local("stands")  # where a row of a ragged tile does, or -1

    @property
    def quarter(self) -> Expression:
        """The first of the 16 rows of a thread's warp."""
        return self.out.lane // 32 * 16

    def write(self, op: b.Write) -> None:
        code, lane, place, base = self.out.code, self.out.lane, self.place, self.out.slot(op.buffer, op.slot)
        self.places(op.store, op.block)
        if op.store.element.bits == 32:
            # Each thread has two neighbouring columns of two rows; chunks of 16 bytes are swizzled by the row.
            first = self.quarter + lane % 32 // 4
            # Beside two sums there are no registers to carry along what follows from it.
            code.assign(place, call("ptx.opaque", first) if self.program.promoted else first)
            rows = [base + (place + 8 * half) * 128 + lane % 2 * 8 for half in range(2)]
            self.store(op, "write_floats", *rows, lane % 4 // 2, place & 7)
        else:
            code.assign(place, self.quarter + lane % 16)
            self.store(op, "write_words", base + place * 128, lane % 32 // 16, place & 7)

    def rows(self, op: b.Scatter, buffer: b.Buffer) -> None:
        """Lay out 16 rows of each warp, and store them from there, see `ptx_rows`."""
        out, code, lane, base, place = self.out, self.out.code, self.out.lane, self.base, self.place
        order, store = self.program.order, op.store
        size, warps = store.element.bits // 8, self.program.target.warpgroup // 32
        line = op.width * size
        lanes = line // 16
        self.places(store, op.block)
        if out.ragged is not None:  # each of 16 threads knows where a row of its warp stands
            code.assign(self.stands, out.ragged.inside(self.first_row(op.block) + self.quarter + lane % 16))
        code.assign(base, out.slot(replace(buffer, slots=warps, slot=buffer.slots * buffer.slot // warps), lane // 32))
        if store.element.bits == 32:
            rows = [base + (lane % 32 // 4 + 8 * half) * line + lane % 2 * 8 for half in range(2)]
            self.store(op, "write_floats", *rows, lane % 4 // 2, lane % 32 // 4)
        else:
            self.store(op, "write_words", base + lane % 16 * line, lane % 32 // 16, lane & 7)
        code.call("ptx.warp_sync")
        step = 32 // lanes
        store_row = out.made("store_row", "ptx_rows.store_row", size, line)
        row, column = self.row, self.column
        code.assign(column, out.name(order.columns.symbol) * order.columns.step + op.column)
        part = code.local("part")
        rolled = out.ragged is not None  # there are no registers for what follows from rows that tables say
        with self.counting(part, 16 // step) if rolled else code.loop(part, 16 // step):
            code.assign(place, part * step + lane % 32 // lanes)
            if out.ragged is None:
                code.assign(row, self.first_row(op.block) + self.quarter + place)
                there = row < out.size(order.rows.extent)
            else:
                code.assign(row, call("ptx.from_lane", self.stands, place))
                there = row >= 0
            offsets = [*self.outer(store, row), column]
            to = address(out.pointer(store.tensor), size, offsets)
            inside = call("min", out.size(order.columns.extent) - column, op.width)
            count = Choice(there, inside, Constant(0))
            code.call(store_row, to, base + place * line, place & 7, lane % lanes, count)
        code.call("ptx.warp_sync")

    @contextmanager
    def counting(self, number: Name, count: int) -> Iterator[None]:
        """A loop that is not unrolled."""
        code = self.out.code
        code.assign(number, Constant(0))
        with code.repeat(number < count):
            yield
            code.assign(number, call("ptx.opaque", number + 1))

    def store(self, op: b.Write | b.Scatter, way: str, *places: Expression) -> None:
        """Compute results and store them in one of the ways of `ptx_results`."""
        out, made = self.out, self.result(op.store)
        element = [] if way == "write_floats" else [op.store.element.value]
        given = [self.in_block(name, op.block) for name in made.given]
        sums = len(op.store.sums)
        function: list[Name | int] = [made.name, len(given) - made.by_column] if made.name else []
        function += [made.by_column, sums] if sums > 1 else [True] if made.by_column else []
        like = f"{way}_{op.column}" if op.column else way
        store = out.made(like, f"ptx_results.{way}", *element, op.column, op.width, *function)
        out.code.call(store, *places, *(out.accumulators(acc)[op.block] for _, acc in op.store.sums), *given)

    def in_block(self, name: Name, block: int) -> Name:
        """What a quad's function takes, of another 64 rows than the first."""
        for symbol in self.out.stream.finals:
            for half in range(2):
                if name is self.out.stream.row(symbol, 0, half):
                    return self.out.stream.row(symbol, block, half)
        return name

    def outer(self, store: Store, row: Expression) -> list[Expression]:
        """The offsets of a row of a result along its dimensions but the columns."""
        order = self.program.order
        axes = ((d, axis) for d, axis in enumerate(store.axes) if axis != order.columns.symbol)
        places = ((d, row if axis == order.rows.symbol else self.out.name(axis)) for d, axis in axes)
        return [call("int64", place) * self.out.stride(store.tensor, d) for d, place in places]

    def scatter(self, op: b.Scatter) -> None:
        if op.buffer is not None:
            self.rows(op, op.buffer)
            return
        order, store, out, code = self.program.order, op.store, self.out, self.out.code
        self.places(store, op.block, always=True)
        size = store.element.bits // 8
        starts, insides = ([code.local(f"{what}_{half}") for half in range(2)] for what in ("start", "inside"))
        for half in range(2):
            at = self.row + 8 * half
            stands = at if out.ragged is None else out.ragged.stands(at)
            code.assign(starts[half], address(out.pointer(store.tensor), size, self.outer(store, stands)))
            code.assign(insides[half], call("int32", at < self.rows_end))
        step = out.stride(store.tensor, store.axes.index(order.columns.symbol)) * size
        self.store(op, "scatter", *starts, self.column, step, out.size(order.columns.extent), *insides)

    def row_values(self, op: StoreRows) -> None:
        """Store a value of each row, which the first thread of a quad has: as the first of eight columns, of which one is there."""
        out, code, order = self.out, self.out.code, self.program.order
        size = op.element.bits // 8
        scatter = out.made("scatter_rows", "ptx_results.scatter", op.element.value, 0, 8)
        for block in range(self.program.blocks):
            starts, insides = ([code.local(f"{what}_{half}") for half in range(2)] for what in ("start", "inside"))
            code.assign(self.row, self.first_row(block) + self.quarter + out.lane % 32 // 4)
            for half in range(2):
                at = self.row + 8 * half
                places = (at if axis == order.rows.symbol else out.name(axis) for axis in op.axes)
                offsets = [call("int64", place) * out.stride(op.tensor, d) for d, place in enumerate(places)]
                code.assign(starts[half], address(out.pointer(op.tensor), size, offsets))
                code.assign(insides[half], call("int32", at < out.size(order.rows.extent)))
            pairs = (out.stream.row(op.final, block, half) for half in range(2) for _ in range(2))
            code.call(scatter, *starts, out.lane % 4 * 2, size, 1, *insides, Several(tuple(pairs)))

    def first_row(self, block: int) -> Expression:
        """The first of the 64 rows of a block."""
        rows = self.program.order.rows
        ragged = self.out.ragged
        first = self.out.name(rows.symbol) * rows.step if ragged is None else ragged.first
        return first + (self.out.share * self.program.blocks + block) * 64

    @property
    def rows_end(self) -> Expression:
        """Behind the last row that is stored."""
        ragged = self.out.ragged
        return self.out.size(self.program.order.rows.extent) if ragged is None else ragged.last

    def row_inside(self, half: int) -> Expression:
        """A thread's row of an accumulator, or the last that there is."""
        row, ragged = self.row + 8 * half, self.out.ragged
        return call("min", row, self.rows_end - 1) if ragged is None else ragged.stands(row)

    def places(self, store: Store, block: int, *, always: bool = False) -> None:
        """The place in the result of this thread's first accumulator, `row` and `column`, and what is read there, as far as the
        results ask; `always`: the place in any case."""
        order, out, code = self.program.order, self.out, self.out.code
        given = self.result(store).given
        with code.aside() as loads:
            for use in self.uses[store.tensor]:
                if isinstance(use, Read) and order.columns.symbol not in (bare(use) or ()):
                    for half in range(2) if order.rows.symbol in (bare(use) or ()) else (0,):
                        code.assign(self.read_name(store, use, half, 0), self.load(use, half, None))
        asked = {*given, *mentions(tuple(loads))}
        rows = [(self.half_row(half), self.row_inside(half)) for half in range(2)]
        rows = [(name, value) for name, value in rows if name in asked]
        if always or rows or self.row in asked:
            code.assign(self.row, self.first_row(block) + self.quarter + out.lane % 32 // 4)
        if always or self.column in asked:
            column = out.name(order.columns.symbol) * order.columns.step + out.lane % 4 * 2
            # From this thread itself, which the compiler does not know: else it keeps the addresses of all operands from one
            # result to the next, and spills them.
            code.assign(self.column, call("ptx.from_lane", column, out.lane % 32))
        for name, value in rows:
            code.assign(name, value)
        code.extend(loads)

    def half_row(self, half: int) -> Name:
        return self.out.code.local(f"row_{half}")

    def quad(self, store: Store) -> _Result:
        """The function that makes a quad of results, see `ptx_results`: it is given what of the kernel it mentions."""
        order, code, uses = self.program.order, self.out.code, self.uses[store.tensor]
        columns = order.columns
        values = [code.local(f"{'yzuvw'[n]}{i}") for n in range(len(store.sums)) for i in range(4)]
        with code.aside() as body:
            for use in uses:
                if isinstance(use, Read) and columns.symbol in (bare(use) or ()):
                    for half in range(2) if order.rows.symbol in (bare(use) or ()) else (0,):
                        self.read_quad(store, use, half)
            made = [
                self.element(store, values[2 * half + e :: 4], [self.argument(store, use, half, e) for use in uses])
                for half in range(2)
                for e in range(2)
            ]
            code.give(Several(tuple(made)))
        assigned = {s.target for s in body if isinstance(s, Assign)}
        given = [n for n in dict.fromkeys(mentions(tuple(body))) if n not in {*assigned, *values, *self.out.own}]
        given.sort(key=lambda name: name is not self.column)
        name = self.out.global_name(f"quad_{store.tensor.name}")
        self.out.functions.append(Function(name, (*values, *given), tuple(body), tuple(code.names)))
        return _Result(name, tuple(given), self.column in given)

    def element(self, store: Store, products: Sequence[Expression], given: Sequence[Expression]) -> Expression:
        """One element of a result: what is one expression needs no function."""
        function = self.functions[store.tensor]
        match function.body:
            case (Return(value=value),):
                return filled(value, dict(zip(function.parameters, (*products, *given), strict=True)))
        if function not in self.out.functions:
            self.out.functions.append(function)
        assert isinstance(function.name, Name)
        return call(function.name, *products, *given)

    def read_quad(self, store: Store, use: Read, half: int) -> None:
        """What a quad reads at two neighbouring columns."""
        code, last = self.out.code, self.out.size(self.program.order.columns.extent)
        if self.in_pairs(use):
            pair = code.local("pair")
            code.assign(pair, self.load(use, half, call("min", self.column, last - 2)))
            for e, which in enumerate(("low", "high")):
                code.assign(self.read_name(store, use, half, e), call(f"ptx.{which}_{use.element.value}", pair))
            return
        for e in range(2):
            code.assign(self.read_name(store, use, half, e), self.load(use, half, call("min", self.column + e, last - 1)))

    def argument(self, store: Store, use: Read | Symbol | Dim, half: int, e: int) -> Expression:
        """What a result's function takes of an element: the one in row `half` and column `e` of a quad."""
        order, out = self.program.order, self.out
        match use:
            case Read():
                axes = bare(use) or ()
                return self.read_name(store, use, half * (order.rows.symbol in axes), e * (order.columns.symbol in axes))
            case Dim():
                return out.size(use)
            case order.rows.symbol:
                return self.row + 8 * half if out.ragged is None else self.half_row(half)
            case order.columns.symbol:
                return self.column + e
            case _ if any(use == a.symbol for a in order.outer):
                return out.name(use)
            case _ if use in out.stream.finals:
                return out.stream.row(use, 0, half)
            case _:
                return out.size(Dim.of(use))

    def in_pairs(self, use: Read) -> bool:
        """Whether two neighbouring columns of this operand are loaded as one word."""
        return (
            use.tensor in self.paired and use.element in _HALVES and (bare(use) or ())[-1:] == (self.program.order.columns.symbol,)
        )

    def read_name(self, store: Store, use: Read, half: int, e: int) -> Name:
        return self.out.part(use.tensor, f"{self.uses[store.tensor].index(use)}_{half}{e}")

    def load(self, use: Read, half: int, column: Expression | None) -> Expression:
        """The value of an epilogue's read at this thread's row `half` and a column. Rows and columns are kept inside the tensor."""
        order, offsets = self.program.order, list[Expression]()
        paired = self.in_pairs(use) and column is not None
        for d, axis in enumerate(bare(use) or ()):
            place: Like = self.half_row(half) if axis == order.rows.symbol else self.out.name(axis)
            if axis == order.columns.symbol:
                place = lift(0) if column is None else column
            at = call("int64", place)
            offsets.append(at if paired and axis == order.columns.symbol else at * self.out.stride(use.tensor, d))
        size = max(8, use.element.bits) // 8
        return loaded(Element.I32 if paired else use.element, address(self.out.pointer(use.tensor), size, offsets))

    def result(self, store: Store) -> _Result:
        """What computes the results of a store."""
        if store.tensor not in self.results:
            self.uses[store.tensor] = ()
            plain: Scalar = store.expression
            while isinstance(plain, Convert):
                plain = plain.operand
            self.results[store.tensor] = _Result() if isinstance(plain, Local) else self.make_result(store)
        return self.results[store.tensor]

    def make_result(self, store: Store) -> _Result:
        rows = [n.symbol for n in nodes(store.expression) if isinstance(n, Local) and n.symbol in self.out.stream.finals]
        code = Code()
        products = tuple(code.named("product") for _ in store.sums)
        arguments: dict[Read | Symbol | Dim, Name] = {}

        def given(use: Read | Symbol | Dim, like: str) -> Name:
            if use not in arguments:
                arguments[use] = code.named(like)
            return arguments[use]

        for read in reads(store.expression):
            given(read, read.tensor.name)
        sums = dict(zip((symbol for symbol, _ in store.sums), products, strict=True))
        known = sums | {symbol: given(symbol, symbol.name) for symbol in rows}

        def size(dim: Dim) -> Expression | None:
            return given(dim, "size") if self.out.is_size(dim) else None

        narrow = store.element.bits == 16
        writer = EpilogueWriter(code, lambda r: arguments[r], lambda s: given(s, s.name), size, known, narrow=narrow)
        code.give(writer.value(store.expression))
        name, parameters = self.out.global_name(f"result_{store.tensor.name}"), (*products, *arguments.values())
        function = Function(name, parameters, code.body, tuple(code.names), decorator="ptx.scalar")
        self.functions[store.tensor] = inlined(function)
        self.uses[store.tensor] = tuple(arguments)
        return self.quad(store)
