"""A register tile of a sum of products as LLVM's IR: some rows by some vectors, along a depth, of operands that lie as tables say.

    c[rows[m].c + vectors[v].c + l]  =  sum d => a[rows[m].a + depth[d].a] * b[vectors[v].b + depth[d].b + l]

An element of the left operand is broadcast, `l` runs along a vector of the right one, which is read where it lies: windows that
overlap are no more than offsets. The tables are of i64: (a, c) for each row, (b, c, loaded, kept, whole) for each vector,
(a, b) for each place of the depth. `loaded` and `kept` are masks of lanes, by bits: what is not loaded is 0, and of a vector's
sums those that are kept stand side by side in the result. So many vectors are `whole` from this one on: all their lanes are kept.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from llvmlite import ir

from axon.backend.kernel.llvm import F32, I32, I64, Builder, Value, call, whole

ROW, VECTOR, DEPTH, PIECE = 2, 5, 2, 6  # entries of a table's lines


@cache
def vector_bits() -> int:
    """Of this processor's widest vectors of floats."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 512 if features.get("avx512f") and features.get("avx512vl") else 256 if features.get("avx2") else 128


@cache
def shapes() -> tuple[tuple[int, int], ...]:
    """Rows and vectors of tiles that fit into the registers, beside a line of the right operand and an element of the left one."""
    registers = 16 if vector_bits() == 256 else 32
    pairs = ((rows, vectors) for vectors in range(1, 9) for rows in range(1, 17))
    return tuple((rows, vectors) for rows, vectors in pairs if rows * vectors + vectors < registers)


def _cost(rows: int, vectors: int) -> int:
    """Of a place of the depth, in halves of a cycle: products, elements that are read (vectors twice: they cross lines of the
    cache), or how long a sum waits for itself."""
    return max(rows * vectors, rows + 2 * vectors, 8) + 3


@cache
def tiling(rows: int, vectors: int) -> tuple[tuple[int, int, int, int], ...]:
    """The cheapest tiles for rows and vectors: first row, one after the last, rows and vectors of a tile. Two kinds at most."""

    def cost(high: int, wide: int) -> int:
        return -(-vectors // wide) * _cost(high, wide)

    def rest(high: int) -> tuple[int, int]:
        return min((cost(high, wide), wide) for own, wide in shapes() if own == high) if high else (0, 0)

    most = max(high for high, _ in shapes())
    whole = ((rows // high * cost(high, wide) + rest(rows % high)[0], -high, wide) for high, wide in shapes() if high <= rows)
    _, negative, wide = min(whole)
    high = -negative
    first = (0, rows // high * high, high, wide)
    left = rows % high
    assert left < most
    return (first, (rows - left, rows, left, rest(left)[1])) if left else (first,)


class _Tile:
    """The function of one tile, in the module of `b`."""

    def __init__(self, element: Any, lanes: int, rows: int, vectors: int) -> None:
        self.element, self.lanes, self.rows, self.vectors = element, lanes, rows, vectors
        self.vector = ir.VectorType(element, lanes)
        self.mask = ir.VectorType(ir.IntType(1), lanes)
        self.name = f"axon.tile.{self.suffix}.{rows}x{vectors}"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}{'f32' if self.element == F32 else 'f64'}"

    def function(self, module: Any) -> Any:
        found = module.globals.get(self.name)
        return found or self.write(module)

    def write(self, module: Any) -> Any:
        data, table = self.element.as_pointer(), I64.as_pointer()
        # a, b, c from an element of the batch on; tables from the tile on; where the depth begins and ends; vectors that there are
        type = ir.FunctionType(ir.VoidType(), [data, data, data, table, table, table, I64, I64, I64])
        function = ir.Function(module, type, self.name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[:6]:
            argument.add_attribute("noalias")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        vectors, left = function.args[4], function.args[8]
        enough = b.icmp_signed("<=", whole(I64, self.vectors), left)
        full = b.and_(enough, b.icmp_signed(">=", self.entry(b, vectors, 4), whole(I64, self.vectors)))
        whole_tile, part = function.append_basic_block("full"), function.append_basic_block("part")
        b.cbranch(full, whole_tile, part)
        for block in (whole_tile, part):
            b.position_at_end(block)
            masks = []
            for v in range(self.vectors) if block is part else ():
                there = b.icmp_signed("<", whole(I64, v), left)
                masks.append([b.select(there, self.entry(b, vectors, VECTOR * v + n), whole(I64, 0)) for n in (2, 3)])
            self.body(b, function, masks or None)
            b.ret_void()
        return function

    def entry(self, b: Builder, table: Value, at: int) -> Value:
        return b.load(b.gep(table, [whole(I64, at)], inbounds=True))

    def lanes_of(self, b: Builder, bits: Value) -> Value:
        return b.bitcast(b.trunc(bits, ir.IntType(self.lanes)), self.mask)

    def body(self, b: Builder, function: Any, masks: list[list[Value]] | None) -> None:
        a, right, _, rows, vectors, depth, first, last, _ = function.args
        zero = ir.Constant(self.vector, None)
        lefts = [b.gep(a, [self.entry(b, rows, ROW * m)]) for m in range(self.rows)]
        rights = [b.gep(right, [self.entry(b, vectors, VECTOR * v)]) for v in range(self.vectors)]
        loaded = [self.lanes_of(b, mask[0]) for mask in masks or ()]
        before, loop, after = b.block, b.append_basic_block("along"), b.append_basic_block("after")
        b.branch(loop)
        b.position_at_end(loop)
        d = b.phi(I64)
        d.add_incoming(first, before)
        sums = [[b.phi(self.vector) for _ in range(self.vectors)] for _ in range(self.rows)]
        line = b.shl(d, whole(I64, 1))
        of_left = b.load(b.gep(depth, [line], inbounds=True))
        of_right = b.load(b.gep(depth, [b.add(line, whole(I64, 1))], inbounds=True))
        lines = []
        for v in range(self.vectors):
            place = self.place(b, b.gep(rights[v], [of_right]))
            lines.append(self.load(b, place) if masks is None else self.masked_load(b, place, loaded[v]))
        for m in range(self.rows):
            one = b.load(b.gep(lefts[m], [of_left]))
            spread = b.insert_element(ir.Constant(self.vector, ir.Undefined), one, whole(I32, 0))
            spread = b.shuffle_vector(
                spread, ir.Constant(self.vector, ir.Undefined), ir.Constant(ir.VectorType(I32, self.lanes), None)
            )
            for v in range(self.vectors):
                total = self.pinned(b, call(b, f"llvm.fma.{self.suffix}", spread, lines[v], sums[m][v]))
                sums[m][v].add_incoming(zero, before)
                sums[m][v].add_incoming(total, b.block)
                sums[m][v] = total
        following = b.add(d, whole(I64, 1))
        d.add_incoming(following, b.block)
        b.cbranch(b.icmp_signed("<", following, last), loop, after)
        b.position_at_end(after)
        self.results(b, function, sums, [self.lanes_of(b, mask[1]) for mask in masks or ()])

    def results(self, b: Builder, function: Any, sums: list[list[Value]], kept: list[Value]) -> None:
        """Into memory; or, after a part of the depth, added to what is there."""
        _, _, c, rows, vectors, _, first, _, _ = function.args
        new, more, done = (b.append_basic_block(name) for name in ("new", "more", "done"))
        b.cbranch(b.icmp_signed("==", first, whole(I64, 0)), new, more)
        for block in (new, more):
            b.position_at_end(block)
            for m in range(self.rows):
                row = b.gep(c, [self.entry(b, rows, ROW * m + 1)])
                for v in range(self.vectors):
                    place = b.gep(row, [self.entry(b, vectors, VECTOR * v + 1)])
                    self.put(b, place, sums[m][v], kept[v] if kept else None, add=block is more)
            b.branch(done)
        b.position_at_end(done)

    def put(self, b: Builder, place: Value, total: Value, kept: Value | None, *, add: bool) -> None:
        if kept is None:
            place = self.place(b, place)
            total = b.fadd(self.load(b, place), total) if add else total
            b.store(total, place, align=self.align)
            return
        if add:
            total = b.fadd(self.ask(b, "expandload", self.vector, place, kept, ir.Constant(self.vector, None)), total)
        self.ask(b, "compressstore", ir.VoidType(), total, place, kept)

    @property
    def align(self) -> int:
        return 4 if self.element == F32 else 8

    def pinned(self, b: Builder, sums: Value) -> Value:
        """The same, computed before what follows is read. LLVM reads all rows' elements first, and has no registers for them."""
        if vector_bits() < 256:
            return sums
        kind = "v" if vector_bits() == 512 else "x"
        return b.asm(ir.FunctionType(self.vector, [self.vector]), "", f"={kind},0,~{{memory}}", [sums], True)

    def place(self, b: Builder, pointer: Value) -> Value:
        return b.bitcast(pointer, self.vector.as_pointer())

    def load(self, b: Builder, place: Value) -> Value:
        return b.load(place, align=self.align)

    def masked_load(self, b: Builder, place: Value, mask: Value) -> Value:
        name = f"llvm.masked.load.{self.suffix}.p0"
        nothing = ir.Constant(self.vector, None)
        return self.declared(b, name, self.vector, place, whole(I32, self.align), mask, nothing)

    def ask(self, b: Builder, name: str, result: Any, *arguments: Value) -> Value:
        return self.declared(b, f"llvm.masked.{name}.{self.suffix}", result, *arguments)

    def declared(self, b: Builder, name: str, result: Any, *arguments: Value) -> Value:
        function = b.module.globals.get(name)
        if function is None:
            function = ir.Function(b.module, ir.FunctionType(result, [x.type for x in arguments]), name)
        return b.call(function, arguments)


def tile(element: Any, lanes: int, rows: int, vectors: int) -> Any:
    """An operation of emitted kernels: (a, b, c, table of rows, of vectors, of the depth, start of a, b, c, row, vector, first and
    last place of the depth, one after the last vector)."""
    made = _Tile(element, lanes, rows, vectors)

    def emit(b: Builder, *given: Value) -> None:
        a, right, c, of_rows, of_vectors, depth, start_a, start_b, start_c, row, vector, first, last, end = given
        pointers = [b.gep(p, [o]) for p, o in ((a, start_a), (right, start_b), (c, start_c))]
        at_row = b.gep(of_rows, [b.mul(row, whole(I64, ROW))])
        at_vector = b.gep(of_vectors, [b.mul(vector, whole(I64, VECTOR))])
        b.call(made.function(b.module), [*pointers, at_row, at_vector, depth, first, last, b.sub(end, vector)])

    return emit


def text(element: str, rows: int, vectors: int) -> str:
    """The function that computes some pieces in tiles of so many rows and vectors, in the words of kernels: of their rows those
    from `start` on, below `stop`."""
    return f"""\
def tiles(a, b, c, batch, of_rows, of_vectors, depth, pieces, start, stop, deep, chunk, first, last):
    for piece in range(first, last):
        row = max_int(start, load_i64(pieces, {PIECE} * piece + 2))
        end = min_int(stop, load_i64(pieces, {PIECE} * piece + 3))
        vector = load_i64(pieces, {PIECE} * piece + 4)
        limit = load_i64(pieces, {PIECE} * piece + 5)
        for e in range(load_i64(pieces, {PIECE} * piece), load_i64(pieces, {PIECE} * piece + 1)):
            a0 = load_i64(batch, 3 * e)
            b0 = load_i64(batch, 3 * e + 1)
            c0 = load_i64(batch, 3 * e + 2)
            for d in range(0, deep, chunk):
                until = min_int(d + chunk, deep)
                for v in range(vector, limit, {vectors}):
                    for m in range(row, end, {rows}):
                        tile_{element}_{rows}x{vectors}(a, b, c, of_rows, of_vectors, depth, a0, b0, c0, m, v, d, until, limit)
    return 0
"""
