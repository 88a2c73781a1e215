"""A register tile of a sum of products as LLVM's IR: some rows by some vectors, along a depth, of operands that lie as tables say.

    c[rows[m].c + vectors[v].c + step * l]  =  sum d => a[rows[m].a + depth[d].a] * b[vectors[v].b + depth[d].b + l]

An element of the left operand is broadcast, `l` runs along a vector of the right one, which is read where it lies: windows that
overlap are no more than offsets. The tables are of i64: (a, c) for each row, (b, c, loaded, kept, whole, read, behind) for each
vector, (a, b) for each place of the depth. `loaded` and `kept` are masks of lanes, by bits: what is not loaded is 0, and of a
vector's sums those that are kept stand in the result one after the other, side by side or `step` elements apart. So many vectors
are `whole` from this one on, all their lanes are kept, and so many may be `read` with all their lanes, whatever is kept. The sums
of so many vectors `behind` this one lie where its other lanes would: if they follow in the same piece, it is written as a whole,
and they write over it, since instructions that write some lanes are slow on many processors.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from llvmlite import ir

from axon.backend.kernel.llvm import F32, I32, I64, Builder, Value, call, whole

ROW, VECTOR, DEPTH, PIECE = 2, 7, 2, 6  # entries of a table's lines
MOST = 8  # vectors of a tile


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
    pairs = ((rows, vectors) for vectors in range(1, MOST + 1) for rows in range(1, 17))
    return tuple((rows, vectors) for rows, vectors in pairs if rows * vectors + vectors < registers)


def _cost(rows: int, vectors: int) -> int:
    """Of a place of the depth, in halves of a cycle: products, elements that are read (vectors twice: they cross lines of the
    cache), or how long a sum waits for itself."""
    return max(rows * vectors, rows + 2 * vectors, 8) + 3


def _results(rows: int, vectors: int) -> int:
    """Of a tile, in halves of a cycle: tables that are read, and sums that are written."""
    return 30 + 4 * (rows + vectors) + 3 * rows * vectors


Tiling = tuple[tuple[int, int, int, int], ...]  # first row, one after the last, rows and vectors of a tile


@cache
def tiling(rows: int, vectors: int, deep: int) -> Tiling:
    """The cheapest tiles for rows and vectors along a depth. Two kinds at most."""
    return _cheapest(rows, vectors, deep)[1]


@cache
def cost(rows: int, vectors: int, deep: int) -> int:
    """What they cost, in halves of a cycle."""
    return _cheapest(rows, vectors, deep)[0]


@cache
def _cheapest(rows: int, vectors: int, deep: int) -> tuple[int, Tiling]:
    def once(high: int, wide: int) -> int:
        return -(-vectors // wide) * (_cost(high, wide) * deep + _results(high, wide))

    def rest(high: int) -> tuple[int, int]:
        return min((once(high, wide), wide) for own, wide in shapes() if own == high) if high else (0, 0)

    whole = (
        (rows // high * once(high, wide) + rest(rows % high)[0], rows % high > 0, -high, wide)
        for high, wide in shapes()
        if high <= rows
    )
    total, _, negative, wide = min(whole)
    high = -negative
    left = rows % high
    first = (0, rows - left, high, wide)
    return total, (first, (rows - left, rows, left, rest(left)[1])) if left else (first,)


class _Tile:
    """The function of one tile, in the module of `b`; its sums are written side by side or `apart`."""

    def __init__(self, element: Any, lanes: int, rows: int, vectors: int, apart: bool) -> None:
        self.element, self.lanes, self.rows, self.vectors, self.apart = element, lanes, rows, vectors, apart
        self.vector = ir.VectorType(element, lanes)
        self.mask = ir.VectorType(ir.IntType(1), lanes)
        self.name = f"axon.tile.{self.suffix}.{rows}x{vectors}{'.apart' if apart else ''}"

    @property
    def suffix(self) -> str:
        return f"v{self.lanes}{'f32' if self.element == F32 else 'f64'}"

    def function(self, module: Any) -> Any:
        found = module.globals.get(self.name)
        return found or self.write(module)

    def write(self, module: Any) -> Any:
        data, table = self.element.as_pointer(), I64.as_pointer()
        # a, b, c from an element of the batch on; tables from the tile on; where the depth begins and ends; vectors that there are;
        # how far apart a vector's sums are written
        type = ir.FunctionType(ir.VoidType(), [data, data, data, table, table, table, I64, I64, I64, I64])
        function = ir.Function(module, type, self.name)
        function.linkage = "internal"
        for attribute in ("noinline", "nounwind"):
            function.attributes.add(attribute)
        for argument in function.args[:6]:
            argument.add_attribute("noalias")
        b = ir.IRBuilder(function.append_basic_block("entry"))
        vectors, left = function.args[4], function.args[8]
        names = ("full", "partly", "read", "over", "some", "part")
        whole_tile, partly, read, over, some, part = (function.append_basic_block(name) for name in names)
        enough = b.icmp_signed("<=", whole(I64, self.vectors), left)
        b.cbranch(b.and_(enough, self.so_many(b, vectors, 4)), whole_tile, partly)
        b.position_at_end(partly)
        b.cbranch(self.so_many(b, vectors, 5), read, part)
        b.position_at_end(read)
        if overwrites() and not self.apart:
            for v in range(self.vectors):
                last = b.add(self.entry(b, vectors, VECTOR * v + 6), whole(I64, v))
                enough = b.and_(enough, b.icmp_signed("<", last, left))
            b.cbranch(enough, over, some)
        else:
            b.branch(some)
            b.position_at_end(over)
            b.unreachable()
        for block in (whole_tile, over, some, part):
            if block is over and not (overwrites() and not self.apart):
                continue
            b.position_at_end(block)
            loaded, kept = [], []
            for v in range(self.vectors) if block is not whole_tile else ():
                there = b.icmp_signed("<", whole(I64, v), left)
                kept.append(b.select(there, self.entry(b, vectors, VECTOR * v + 3), whole(I64, 0)))
                if block is part:
                    loaded.append(b.select(there, self.entry(b, vectors, VECTOR * v + 2), whole(I64, 0)))
            self.body(b, function, loaded, kept, over=block is over)
            b.ret_void()
        return function

    def so_many(self, b: Builder, vectors: Value, at: int) -> Value:
        """Whether as many vectors as a tile has are of a kind, whose number stands in this place of a line."""
        return b.icmp_signed(">=", self.entry(b, vectors, at), whole(I64, self.vectors))

    def entry(self, b: Builder, table: Value, at: int) -> Value:
        return b.load(b.gep(table, [whole(I64, at)], inbounds=True))

    def lanes_of(self, b: Builder, bits: Value) -> Value:
        return b.bitcast(b.trunc(bits, ir.IntType(self.lanes)), self.mask)

    def body(self, b: Builder, function: Any, masks: list[Value], kept: list[Value], *, over: bool) -> None:
        a, right, _, rows, vectors, depth, first, last, _, _ = function.args
        zero = ir.Constant(self.vector, None)
        lefts = [b.gep(a, [self.entry(b, rows, ROW * m)]) for m in range(self.rows)]
        rights = [b.gep(right, [self.entry(b, vectors, VECTOR * v)]) for v in range(self.vectors)]
        loaded = [self.lanes_of(b, mask) for mask in masks]
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
            lines.append(self.masked_load(b, place, loaded[v]) if loaded else self.load(b, place))
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
        if self.apart:
            self.results_apart(b, function, sums, kept)
        else:
            self.results(b, function, sums, kept, over)

    # ── results ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def results(self, b: Builder, function: Any, sums: list[list[Value]], kept: list[Value], over: bool) -> None:
        """Into memory, side by side; or, after a part of the depth, added to what is there."""
        _, _, c, rows, vectors, _, first, _, _, _ = function.args
        order = [self.order(b, bits) for bits in kept] if packs() else []
        new, more, done = (b.append_basic_block(name) for name in ("new", "more", "done"))
        b.cbranch(b.icmp_signed("==", first, whole(I64, 0)), new, more)
        for block in (new, more):
            b.position_at_end(block)
            for m in range(self.rows):
                row = b.gep(c, [self.entry(b, rows, ROW * m + 1)])
                for v in range(self.vectors):
                    place = b.gep(row, [self.entry(b, vectors, VECTOR * v + 1)])
                    if not kept:
                        self.put(b, place, sums[m][v], add=block is more)
                    elif packs():
                        self.put_packed(b, place, sums[m][v], *order[v], add=block is more, over=over)
                    else:
                        self.put_kept(b, place, sums[m][v], self.lanes_of(b, kept[v]), add=block is more)
            b.branch(done)
        b.position_at_end(done)

    def put(self, b: Builder, place: Value, total: Value, *, add: bool) -> None:
        place = self.place(b, place)
        total = b.fadd(self.load(b, place), total) if add else total
        b.store(total, place, align=self.align)

    def put_kept(self, b: Builder, place: Value, total: Value, kept: Value, *, add: bool) -> None:
        if add:
            total = b.fadd(self.ask(b, "expandload", self.vector, place, kept, ir.Constant(self.vector, None)), total)
        self.ask(b, "compressstore", ir.VoidType(), total, place, kept)

    def put_packed(self, b: Builder, place: Value, total: Value, order: Value, count: Value, *, add: bool, over: bool) -> None:
        """The same where lanes are put side by side first, of which so many are stored; or all, `over` what is still to be written.
        What is added to is left as it is there: it is not new."""
        there = self.lanes_of(b, b.sub(b.shl(whole(I64, 1), count), whole(I64, 1)))
        place, total = self.place(b, place), self.packed(b, total, order)
        if over and add:
            old = self.load(b, place)
            total = b.select(there, b.fadd(old, total), old)
        elif add:
            total = b.fadd(self.masked_load(b, place, there), total)
        if over:
            b.store(total, place, align=self.align)
            return
        name = f"llvm.masked.store.{self.suffix}.p0"
        self.declared(b, name, ir.VoidType(), total, place, whole(I32, self.align), there)

    def results_apart(self, b: Builder, function: Any, sums: list[list[Value]], kept: list[Value]) -> None:
        """The same, lane by lane: those of a vector go to places that lie apart."""
        _, _, c, rows, vectors, _, first, _, _, step = function.args
        count = self.rows * self.vectors
        entry = ir.IRBuilder(function.blocks[0])
        entry.position_at_start(function.blocks[0])
        held = entry.bitcast(entry.alloca(self.vector, count), self.element.as_pointer())
        orders = [self.order(b, bits) for bits in kept]
        for v in range(self.vectors):
            for m in range(self.rows):
                place = b.gep(held, [whole(I64, (v * self.rows + m) * self.lanes)])
                if not kept or packs():
                    total = self.packed(b, sums[m][v], orders[v][0]) if kept else sums[m][v]
                    b.store(total, self.place(b, place), align=self.align)
                else:
                    self.put_kept(b, place, sums[m][v], self.lanes_of(b, kept[v]), add=False)
        new = b.icmp_signed("==", first, whole(I64, 0))
        starts = [b.gep(c, [self.entry(b, rows, ROW * m + 1)]) for m in range(self.rows)]
        for v in range(self.vectors):
            at = self.entry(b, vectors, VECTOR * v + 1)
            end = orders[v][1] if kept else whole(I64, self.lanes)
            before, loop, after = (b.append_basic_block(name) for name in ("before", "lane", "after"))
            b.branch(before)
            b.position_at_end(before)
            b.cbranch(b.icmp_signed("<", whole(I64, 0), end), loop, after)
            b.position_at_end(loop)
            lane, to = b.phi(I64), b.phi(I64)
            for m in range(self.rows):
                place = b.gep(starts[m], [to])
                total = b.load(b.gep(held, [b.add(lane, whole(I64, (v * self.rows + m) * self.lanes))]))
                b.store(b.select(new, total, b.fadd(b.load(place), total)), place)
            lane.add_incoming(whole(I64, 0), before)
            to.add_incoming(at, before)
            following = b.add(lane, whole(I64, 1))
            lane.add_incoming(following, b.block)
            to.add_incoming(b.add(to, step), b.block)
            b.cbranch(b.icmp_signed("<", following, end), loop, after)
            b.position_at_end(after)

    def order(self, b: Builder, bits: Value) -> tuple[Value, Value]:
        """What puts lanes side by side that are kept (an order of them, or the mask itself), and how many are."""
        count = call(b, "llvm.ctpop.i64", bits)
        if not packs():
            return bits, count
        if not overwrites():
            return self.lanes_of(b, bits), count
        table = _orders(b.module, self.lanes)
        line = b.load(b.gep(table, [whole(I64, 0), bits]), align=8)
        return b.zext(line, ir.VectorType(I32, 8)), count

    def packed(self, b: Builder, total: Value, order: Value) -> Value:
        if not overwrites():
            return self.declared(b, f"llvm.x86.avx512.mask.compress.{self.suffix}", self.vector, total, total, order)
        words = ir.VectorType(F32, 8)
        moved = self.declared(b, "llvm.x86.avx2.permps", words, b.bitcast(total, words), order)
        return b.bitcast(moved, self.vector)

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


def packs() -> bool:
    """Whether lanes are put side by side in a register before they are stored. AVX2 has no instruction that stores those of a mask
    so; that of AVX-512 takes a hundred cycles on some processors (Zen 4)."""
    return vector_bits() >= 256


def overwrites() -> bool:
    """Whether a vector's lanes are put side by side by an order of theirs, and stored as a whole where that may be: AVX2, whose
    stores of some lanes are slow."""
    return vector_bits() == 256


def _orders(module: Any, lanes: int) -> Any:
    """For each mask of lanes which halves of these (wholes, of f32) stand side by side where they are kept."""
    name = f"axon.tile.orders.{lanes}"
    found = module.globals.get(name)
    if found is not None:
        return found
    words, line = 8 // lanes, ir.VectorType(ir.IntType(8), 8)
    rows = []
    for bits in range(1 << lanes):
        own = [lane * words + n for lane in range(lanes) if bits >> lane & 1 for n in range(words)]
        rows.append(ir.Constant(line, [*own, *[0] * (8 - len(own))]))
    made = ir.GlobalVariable(module, ir.ArrayType(line, len(rows)), name)
    made.linkage, made.global_constant = "internal", True
    made.initializer = ir.Constant(made.type.pointee, rows)
    return made


def tile(element: Any, lanes: int, rows: int, vectors: int, apart: bool) -> Any:
    """An operation of emitted kernels: (a, b, c, table of rows, of vectors, of the depth, start of a, b, c, row, vector, first and
    last place of the depth, one after the last vector, how far apart a vector's sums are written)."""
    made = _Tile(element, lanes, rows, vectors, apart)

    def emit(b: Builder, *given: Value) -> None:
        a, right, c, of_rows, of_vectors, depth, start_a, start_b, start_c, row, vector, first, last, end, step = given
        pointers = [b.gep(p, [o]) for p, o in ((a, start_a), (right, start_b), (c, start_c))]
        at_row = b.gep(of_rows, [b.mul(row, whole(I64, ROW))])
        at_vector = b.gep(of_vectors, [b.mul(vector, whole(I64, VECTOR))])
        b.call(made.function(b.module), [*pointers, at_row, at_vector, depth, first, last, b.sub(end, vector), step])

    return emit


def name(element: str, rows: int, vectors: int, apart: bool) -> str:
    """Of that operation."""
    return f"tile_{element}_{rows}x{vectors}{'_apart' if apart else ''}"


def text(element: str, tiles: Sequence[tuple[int, int]], apart: bool) -> str:
    """The function that computes some pieces in tiles of so many rows and vectors, in the words of kernels: in those of the second
    kind the rows from `split` on, if there are two."""
    return f"""\
def tiles(a, b, c, batch, of_rows, of_vectors, depth, pieces, split, deep, chunk, step, first, last):
    for piece in range(first, last):
        row = load_i64(pieces, {PIECE} * piece + 2)
        end = load_i64(pieces, {PIECE} * piece + 3)
        vector = load_i64(pieces, {PIECE} * piece + 4)
        limit = load_i64(pieces, {PIECE} * piece + 5)
        for e in range(load_i64(pieces, {PIECE} * piece), load_i64(pieces, {PIECE} * piece + 1)):
            a0 = load_i64(batch, 3 * e)
            b0 = load_i64(batch, 3 * e + 1)
            c0 = load_i64(batch, 3 * e + 2)
            for d in range(0, deep, chunk):
                until = min_int(d + chunk, deep)
{"".join(_loops(element, *tile, n, apart) for n, tile in enumerate(tiles))}    return 0
"""


def _loops(element: str, rows: int, vectors: int, kind: int, apart: bool) -> str:
    bounds = "max_int(row, split), end" if kind else "row, min_int(end, split)"
    tile = name(element, rows, vectors, apart)
    return f"""\
                for v{kind} in range(vector, limit, {vectors}):
                    for m{kind} in range({bounds}, {rows}):
                        {tile}(a, b, c, of_rows, of_vectors, depth, a0, b0, c0, m{kind}, v{kind}, d, until, limit, step)
"""
