"""What a kernel does with its results: from accumulators to values, and from there to memory (`granted` says in which ways)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.gpu.tile.ir import Store
from axon.backend.kernel.render import Names
from axon.backend.kernel.scalars import Writer, loaded
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Convert, Local, Read, Scalar
from axon.core.walk import nodes, reads
from axon.shapes.dimension import Dim

if TYPE_CHECKING:
    from axon.backend.gpu.emit.kernel import Emitter

_PACKS = {Element.BF16: "pack_bf16", Element.F16: "pack_f16"}


@dataclass(frozen=True, slots=True)
class _Result:
    """What computes one element of a result: its function, and the reads, index variables and sizes it takes after the product."""

    name: str | None
    uses: tuple[Read | Symbol | Dim, ...]


class ResultEmitter:
    """Writes how results are computed and stored, through the emitter of everything else. Two neighbours of the tensors in `paired`
    are loaded as one word."""

    def __init__(self, emitter: Emitter, paired: frozenset[Symbol]) -> None:
        self.out, self.program, self.paired = emitter, emitter.program, paired
        self.functions: dict[Symbol, _Result] = {}

    def write(self, op: b.Write) -> None:
        element = op.store.element
        at = f"base = shared + {op.buffer.offset} + (consumer * {op.buffer.slots} + {op.slot}) * {op.buffer.slot}"
        self.out.line(at)
        self.places(op.store, op.block)
        if element == Element.F32:
            # Each thread has two neighbouring columns of two rows; chunks of 16 bytes are swizzled by the row.
            self.out.line("place = lane // 32 * 16 + lane % 32 // 4")
            for group in range(op.width // 8):
                values = self.values(op.store, op.block, op.column // 8 + group)
                for half in range(2):
                    chunk = f"({2 * group} + lane % 4 // 2) ^ (place & 7)"
                    to = f"base + (place + {8 * half}) * 128 + ({chunk}) * 16 + lane % 2 * 8"
                    self.out.line(f"ptx.store_shared_2f32({to}, {values[2 * half]}, {values[2 * half + 1]})")
            return
        self.out.line("place = lane // 32 * 16 + lane % 16")
        for pair in range(op.width // 16):
            to = f"base + place * 128 + (({2 * pair} + lane % 32 // 16) ^ (place & 7)) * 16"
            self.out.line(f"ptx.stmatrix({to}, {', '.join(self.words(op, pair))})")

    def rows(self, op: b.Scatter, buffer: b.Buffer) -> None:
        """Lay out 16 rows of each warp, and store them from there, see `ptx_rows`."""
        order, store = self.program.order, op.store
        size, warps = store.element.bits // 8, self.program.target.warpgroup // 32
        row = op.width * size
        lanes = row // 16
        self.places(store, op.block)
        self.out.line(
            f"base = shared + {buffer.offset} + (consumer * {warps} + lane // 32) * {buffer.slots * buffer.slot // warps}"
        )
        if store.element == Element.F32:
            for half in range(2):
                place = f"(lane % 32 // 4 + {8 * half})"
                self.out.line(f"place_{half} = base + {place} * {row} + lane % 2 * 8")
            for group in range(op.width // 8):
                values = self.values(store, op.block, op.column // 8 + group)
                for half in range(2):
                    chunk = f"({2 * group} + lane % 4 // 2) ^ (lane % 32 // 4)"
                    pair = f"{values[2 * half]}, {values[2 * half + 1]}"
                    self.out.line(f"ptx.store_shared_2f32(place_{half} + ({chunk}) * 16, {pair})")
        else:
            self.out.line(f"place = base + lane % 16 * {row}")
            for pair_ in range(op.width // 16):
                chunk = f"({2 * pair_} + lane % 32 // 16) ^ (lane & 7)"
                self.out.line(f"ptx.stmatrix(place + ({chunk}) * 16, {', '.join(self.words(op, pair_))})")
        self.out.line("ptx.warp_sync()")
        step = 32 // lanes
        store_row = self.out.made(f"ptx_rows.store_row({size}, {row})", "store_row")
        self.out.line(f"column = {self.out.piece(order.columns.symbol)} * {order.columns.step} + {op.column}")
        self.out.line(f"for part in range({16 // step}):")
        self.out.depth += 1
        self.out.line(f"place = part * {step} + lane % 32 // {lanes}")
        self.out.line(f"row = {self.first_row(op.block)} + lane // 32 * 16 + place")
        outer = ((d, "row" if axis == order.rows.symbol else self.out.piece(axis)) for d, axis in enumerate(store.axes[:-1]))
        terms = [f"int64({place}) * {self.out.stride(store.tensor, d)}" for d, place in outer]
        to = f"{self.out.pointer(store.tensor)} + {size} * ({' + '.join([*terms, 'column'])})"
        count = (
            f"min({self.out.size(order.columns.extent)} - column, {op.width}) if row < {self.out.size(order.rows.extent)} else 0"
        )
        self.out.line(f"{store_row}({to}, base + place * {row}, place & 7, lane % {lanes}, {count})")
        self.out.depth -= 1
        self.out.line("ptx.warp_sync()")

    def words(self, op: b.Scatter | b.Write, pair: int) -> list[str]:
        """Four words for a matrix store: of two groups of 8 columns, two halves each."""
        pack, out = f"ptx.{_PACKS[op.store.element]}", []
        for group in (2 * pair, 2 * pair + 1):
            v = self.values(op.store, op.block, op.column // 8 + group)
            out += [f"{pack}({v[0]}, {v[1]})", f"{pack}({v[2]}, {v[3]})"]
        return out

    def scatter(self, op: b.Scatter) -> None:
        if op.buffer is not None:
            self.rows(op, op.buffer)
            return
        order, store = self.program.order, op.store
        self.places(store, op.block, always=True)
        pointer, size = self.out.pointer(store.tensor), store.element.bits // 8
        last = len(store.axes) - 1
        for half in range(2):
            terms = []
            for d, axis in enumerate(store.axes[:-1]):
                place = f"(row + {8 * half})" if axis == order.rows.symbol else self.out.piece(axis)
                terms.append(f"int64({place}) * {self.out.stride(store.tensor, d)}")
            self.out.line(f"start_{half} = {pointer} + {size} * ({' + '.join(terms) or '0'})")
            self.out.line(f"inside_{half} = int32(row + {8 * half} < {self.out.size(order.rows.extent)})")
        for group in range(op.width // 8):
            values = self.values(store, op.block, op.column // 8 + group)
            where = f"start_0, start_1, column + {op.column + 8 * group}, {self.out.stride(store.tensor, last)} * {size}"
            inside = f"{self.out.size(order.columns.extent)}, inside_0, inside_1"
            self.out.line(f"ptx.scatter_{store.element.value}({where}, {inside}, {', '.join(values)})")

    def first_row(self, block: int) -> str:
        """The first of the 64 rows of a block."""
        rows = self.program.order.rows
        blocks = rows.step // (64 * self.out.current.instances)
        return f"{self.out.piece(rows.symbol)} * {rows.step} + (consumer * {blocks} + {block}) * 64"

    def places(self, store: Store, block: int, *, always: bool = False) -> None:
        """The place in the result of this thread's first accumulator: `row` and `column`."""
        order = self.program.order
        if not always and not self.result(store).uses:
            return
        self.out.line(f"row = {self.first_row(block)} + lane // 32 * 16 + lane % 32 // 4")
        self.out.line(f"column = {self.out.piece(order.columns.symbol)} * {order.columns.step} + lane % 4 * 2")
        if not self.result(store).uses:
            return
        for half in range(2):
            self.out.line(f"row_{half} = min(row + {8 * half}, {self.out.size(order.rows.extent)} - 1)")
        for use in self.result(store).uses:
            if isinstance(use, Read) and order.columns.symbol not in (bare(use) or ()):
                for half in range(2) if order.rows.symbol in (bare(use) or ()) else (0,):
                    self.out.line(f"{self.read_name(store, use, half, 0)} = {self.load(use, half, '0')}")

    def values(self, store: Store, block: int, group: int) -> list[str]:
        """The result's four values at a group of 8 columns, as expressions; writes the lines that load what they need."""
        order = self.program.order
        acc = self.out.accumulators(store.accumulator)[block]
        result = self.result(store)
        if result.name is None:
            return [f"{acc}[{4 * group + i}]" for i in range(4)]
        for use in result.uses:
            if isinstance(use, Read) and order.columns.symbol in (bare(use) or ()):
                for half in range(2) if order.rows.symbol in (bare(use) or ()) else (0,):
                    if self.in_pairs(use):
                        place = f"min(column + {8 * group}, {self.out.size(order.columns.extent)} - 2)"
                        self.out.line(f"pair = {self.load(use, half, place)}")
                        for e in range(2):
                            unpack = f"ptx.{('low', 'high')[e]}_{use.element.value}"
                            self.out.line(f"{self.read_name(store, use, half, e)} = {unpack}(pair)")
                        continue
                    for e in range(2):
                        place = f"min(column + {8 * group + e}, {self.out.size(order.columns.extent)} - 1)"
                        self.out.line(f"{self.read_name(store, use, half, e)} = {self.load(use, half, place)}")
        out = []
        for half in range(2):
            for e in range(2):
                arguments = [f"{acc}[{4 * group + 2 * half + e}]"]
                for use in result.uses:
                    if isinstance(use, Read):
                        axes = bare(use) or ()
                        arguments.append(
                            self.read_name(store, use, half * (order.rows.symbol in axes), e * (order.columns.symbol in axes))
                        )
                    elif isinstance(use, Dim):
                        arguments.append(self.out.size(use))
                    elif use == order.rows.symbol:
                        arguments.append(f"row + {8 * half}")
                    elif use == order.columns.symbol:
                        arguments.append(f"column + {8 * group + e}")
                    elif any(use == a.symbol for a in order.outer):
                        arguments.append(self.out.piece(use))
                    elif use in self.out.stream.finals:
                        arguments.append(self.out.stream.row(use, block, half))
                    else:
                        arguments.append(self.out.size(Dim.of(use)))
                # Named at once: the next group's loads reuse the names of these arguments.
                out.append(f"y{group % 2}_{2 * half + e}")
                self.out.line(f"{out[-1]} = {result.name}({', '.join(arguments)})")
        return out

    def in_pairs(self, use: Read) -> bool:
        """Whether two neighbouring columns of this operand are loaded as one word."""
        return (
            use.tensor in self.paired and use.element in _PACKS and (bare(use) or ())[-1:] == (self.program.order.columns.symbol,)
        )

    def read_name(self, store: Store, use: Read, half: int, e: int) -> str:
        number = self.result(store).uses.index(use)
        return f"{self.out.names[use.tensor]}_{number}_{half}{e}"

    def load(self, use: Read, half: int, column: str) -> str:
        """The value of an epilogue's read at this thread's row `half` and a column. Rows and columns are kept inside the tensor."""
        order = self.program.order
        terms = []
        for d, axis in enumerate(bare(use) or ()):
            place = {order.rows.symbol: f"row_{half}", order.columns.symbol: column}.get(axis) or self.out.piece(axis)
            stride = "" if self.in_pairs(use) and axis == order.columns.symbol else f" * {self.out.stride(use.tensor, d)}"
            terms.append(f"int64({place}){stride}")
        offset = " + ".join(terms) or "0"
        size = max(8, use.element.bits) // 8
        paired = self.in_pairs(use) and column != "0"
        return loaded(Element.I32 if paired else use.element, f"{self.out.pointer(use.tensor)} + {size} * ({offset})")

    def result(self, store: Store) -> _Result:
        """The device function of a store's expression; none if the expression is the product itself."""
        if store.tensor not in self.functions:
            self.functions[store.tensor] = self.make_result(store)
        return self.functions[store.tensor]

    def make_result(self, store: Store) -> _Result:
        plain: Scalar = store.expression
        while isinstance(plain, Convert):
            plain = plain.operand
        if isinstance(plain, Local):
            return _Result(None, ())
        rows = [n.symbol for n in nodes(store.expression) if isinstance(n, Local) and n.symbol in self.out.stream.finals]
        inner = Names(self.out.reserved)
        arguments: dict[Read | Symbol | Dim, str] = {}

        def given(use: Read | Symbol | Dim, like: str) -> str:
            if use not in arguments:
                arguments[use] = inner.free(like)
            return arguments[use]

        for read in reads(store.expression):
            given(read, read.tensor.name)
        known = {store.product: "product"} | {symbol: given(symbol, symbol.name) for symbol in rows}

        def size(dim: Dim) -> str | None:
            return given(dim, "size") if self.out.is_size(dim) else None

        narrow = store.element.bits == 16
        writer = Writer(lambda r: arguments[r], lambda s: given(s, s.name), size, known, narrow=narrow)
        value = writer.value(store.expression)
        name = self.out.names.free(f"result_{self.out.names[store.tensor]}")
        head = f"def {name}({', '.join(['product', *arguments.values()])}):"
        body = [f"    {line}" for line in [*writer.lines, f"return {value}"]]
        self.out.functions += ["@ptx.scalar", head, *body, "", ""]
        return _Result(name, tuple(arguments))
