"""Sorting by digits: the kernels for rows that are longer than what is sorted by comparing (see `elements`).

Note [Digits]
    Pairs of a key and its place are sorted by one byte of the key after the other, the lowest first, each time without changing the
    order of those whose bytes are equal (LSD radix sort; Satish, Harris and Garland 2009). A byte that is the same in all keys is
    left out, so that small integers cost what they are worth.

    Within a block each warp has several times 32 pairs one after the other. The lanes whose bytes are equal find each other by a
    vote on each bit, and the first of them counts all: so a pair knows how many of its byte come before it in its warp, and with
    running sums over warps and bytes, where it goes in the block. No addition depends on the order in which threads run.

    A row that fits a block stays in its shared memory for all bytes. Of longer rows three kernels do each byte: blocks count their
    pieces (of the first byte while the pairs are made), the counts become places, and blocks move their pairs there, in order
    through shared memory, so that neighbours are written together. The last move writes the results. Which bytes differ is found
    while the pairs are made; the kernels of others return at once.
"""

from __future__ import annotations

from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.sorting.elements import (
    INDICES,
    INPUT,
    LAST_PLACE,
    LENGTH,
    ROWS,
    VALUES,
    Keys,
    element_at,
    row_start,
    strided,
    write_result,
)
from axon.backend.gpu.sorting.writing import BLOCK, THREAD, KernelCode, extents, i32, i64, load, pointers, running
from axon.backend.kernel.ir import Constant, Expression, Like, Name, Operator, both, call, lift, same
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol, fresh

BITS = 8  # of a digit
SIZES = ((8, 4), (8, 8), (16, 8), (32, 8))  # warps of a block that sorts a row, and pairs of each of its threads
PIECE = (16, 8)  # of a block that moves a piece of one
RESIDENT = 1024  # threads of these blocks, for which a multiprocessor must have registers
ADDERS = 256  # threads of the blocks that add up
FEW = 8  # pieces that one thread adds up
LANES, ALL = 32, 0xFFFFFFFF

PAIRS, PLACES = fresh("pairs"), fresh("places")  # of wide elements keys alone, and their places
MOVED, MOVED_PLACES = fresh("moved"), fresh("moved_places")
COUNTS, TOTALS = fresh("counts"), fresh("totals")  # of each digit: in each piece of a row, and in the row
DIFFERING, NEEDED = fresh("differing"), fresh("needed")  # which digits differ: in each block, and at all
DIGIT, PIECES, BLOCKS = (fresh(name) for name in ("digit_number", "pieces", "blocks"))


@dataclass(frozen=True, slots=True)
class SortBlock:
    """A block of threads that sorts what it holds by one digit, and where things lie in its shared memory, in words of 32 bits."""

    warps: int
    items: int
    wide: bool

    @property
    def threads(self) -> int:
        return self.warps * LANES

    @property
    def tile(self) -> int:
        return self.threads * self.items

    @property
    def resident(self) -> int:
        return RESIDENT // self.threads

    @property
    def places(self) -> int:
        return 2 * self.tile

    @property
    def counters(self) -> int:
        return self.places + (self.tile if self.wide else 0)

    @property
    def starts(self) -> int:
        return self.counters + self.warps * (1 << BITS)

    @property
    def shared(self) -> int:
        """Bytes."""
        return 4 * (self.starts + (1 << BITS))


def digits_of(keys: Keys) -> int:
    return keys.bits // BITS


def blocks_of_rows(keys: Keys, shared: int) -> list[SortBlock]:
    """The blocks that sort rows, by the lengths that they take: as shared memory and, of wide keys, registers allow."""
    blocks = [SortBlock(warps, items, keys.wide) for warps, items in SIZES]
    return [block for block in blocks if block.shared <= shared and not (keys.wide and block.warps > 16)]


def block_of_piece(wide: bool, shared: int) -> SortBlock:
    """The block that moves a piece of a row: of half the warps where a block has too little shared memory for all."""
    warps, items = PIECE
    whole = SortBlock(warps, items, wide)
    return whole if whole.shared <= shared else SortBlock(warps // 2, items, wide)


class _Sorter(KernelCode):
    """A kernel whose blocks sort by digits. Each thread holds pairs in variables, `pair0` and so on."""

    def begin(self, block: SortBlock) -> None:
        self.block = block
        self.thread = self.set("thread", i32(THREAD))
        self.lane, self.warp = self.set("lane", i32(self.thread & (LANES - 1))), self.set("warp", i32(self.thread >> 5))
        self.below = self.set("below", i32((1 << self.lane) - 1), "the lanes before this one")
        self.here = self.shared("here", 0, "int64")
        self.words = self.shared("words", 0, "int32")

    def slot(self, n: int) -> Expression:
        """Where in the block the n-th pair of a thread stands."""
        return self.warp * (LANES * self.block.items) + (n * LANES + self.lane)

    def pair(self, n: int) -> tuple[Name, Name]:
        return self.local(f"pair{n}"), self.local(f"place{n}")

    def take(self, n: int, pair: Like, place: Like) -> None:
        own = self.pair(n)
        self.assign(own[0], pair)
        if self.block.wide:
            self.assign(own[1], i32(place))

    def padding(self, n: int) -> None:
        """After every pair that was before it."""
        self.take(n, i64(-1), i64(LAST_PLACE))

    def digit(self, pair: Expression, shift: Expression) -> Expression:
        return (pair >> shift) & ((1 << BITS) - 1)

    def arrange(self, shift: Expression) -> None:
        """What the threads hold goes in order of the digit into shared memory; `starts` tell where each digit begins."""
        block, words, digits = self.block, self.words, 1 << BITS
        with self.loop(turn := self.local("turn"), self.thread, block.warps * digits, block.threads):
            self.assign(words[block.counters + turn], 0)
        self.wait()
        for n in range(self.block.items):
            digit = self.set("digit", i32(self.digit(self.pair(n)[0], shift)))
            peers = self.set("peers", i32(-1), "the lanes that have this digit")
            with self.loop(bit := self.local("bit"), BITS):
                own = self.set("own", i32((digit >> bit) & 1))
                votes = self.set("votes", call("cuda.ballot_sync", ALL, own))
                self.assign(peers, i32(peers & (votes ^ (own - 1))))
            at = self.set("at", i32(block.counters + self.warp * digits + digit))
            before = self.set("before", words[at])
            self.set(f"rank{n}", i32(before + call("cuda.popc", peers & self.below)))
            self.call("cuda.syncwarp")
            with self.when(same(peers & self.below, 0)):
                self.assign(words[at], before + call("cuda.popc", peers))
            self.call("cuda.syncwarp")
        self.wait()
        own = self.set("own", i64(0))
        with self.when(self.thread < digits, "how many of a digit each warp has become how many the warps before it have"):
            with self.loop(turn, block.warps):
                at = self.set("at", block.counters + turn * digits + self.thread)
                count = self.set("count", i64(words[at]))
                self.assign(words[at], own)
                self.assign(own, own + count)
            self.assign(words[block.starts + self.thread], own)
        self.wait()
        running(self, words, self.thread, digits, block.threads, block.starts)
        with self.when(self.thread < digits):
            self.assign(words[block.starts + self.thread], words[block.starts + self.thread] - own)
        self.wait()
        for n in range(self.block.items):
            pair, place = self.pair(n)
            digit = self.set("digit", self.digit(pair, shift))
            ahead = words[block.starts + digit] + words[block.counters + self.warp * digits + digit]
            to = self.set("to", i32(self.local(f"rank{n}") + ahead))
            self.assign(self.here[to], pair)
            if block.wide:
                self.assign(words[block.places + to], place)
        self.wait()

    def taken_in(self, keys: Keys, rank: int, n: int, place: Expression, first: Expression) -> None:
        """The n-th pair of a thread, of an element of a row; `unlike` collects in which bits keys are not as the first one."""
        bits = self.set("bits", element_at(self, keys, rank, self.local("start"), place))
        key = keys.unsigned(self, bits)
        self.assign(self.local("unlike"), self.local("unlike") | (key ^ first))
        self.take(n, key if keys.wide else (key << 32) | place, place)

    def first_key(self, keys: Keys, rank: int, start: Expression) -> Name:
        """The key that others are compared with."""
        key = keys.unsigned(self, self.set("bits", element_at(self, keys, rank, start, 0)))
        return self.set("first_key", key)

    def differs(self, number: Expression) -> Expression:
        """Whether a digit differs in any thread's keys. All threads wait."""
        of_own = Operator("!=", self.digit(self.local("unlike"), number * BITS), i64(0))
        return call("cuda.syncthreads_or", self.set("mine", i32(of_own)))

    def no_counts(self, thread: Expression) -> None:
        """None is counted yet."""
        counts = self.shared("counts_here", 1 << BITS, "int32")
        with self.when(thread < 1 << BITS):
            self.assign(counts[thread], 0)
        self.wait()

    def counted(self, pair: Expression, shift: Like) -> None:
        self.call("cuda.atomic.add", self.local("counts_here"), self.set("digit", self.digit(pair, lift(shift))), 1)

    def store_counts(self, thread: Expression, pieces: Expression, piece: Expression) -> None:
        """Once all threads have counted."""
        self.wait()
        with self.when(thread < 1 << BITS):
            at = (self.local("row") * (1 << BITS) + thread) * pieces + piece
            self.store(32, COUNTS, at, i64(self.local("counts_here")[thread]))

    def where_needed(self) -> Expression:
        """Whether a digit has to be sorted by, of the number that the kernel is given."""
        needed = self.set("digits_needed", self.load(32, NEEDED, i64(0)))
        return same((needed >> self.extent(DIGIT)) & 1, 1)

    def exchanged(self, tensors: tuple[Symbol, Symbol], names: tuple[str, str], number: Expression) -> tuple[Name, Name]:
        """The addresses of two buffers by what they are before a digit: each digit that is needed exchanges them."""
        first, second = (self.set(name, self.pointer(tensor)) for name, tensor in zip(names, tensors, strict=True))
        moves = call("cuda.popc", self.local("digits_needed") & ((1 << number) - 1))
        with self.when(same(moves & 1, 1)):
            for name, tensor in zip(names, reversed(tensors), strict=True):
                self.set(name, self.pointer(tensor))
        return first, second

    def sources(self, wide: bool, number: Expression) -> tuple[Name, Name]:
        """Where the pairs are before a digit, and, of wide ones, their places."""
        source, _ = self.exchanged((PAIRS, MOVED), ("from_pairs", "to_pairs"), number)
        if wide:
            self.exchanged((PLACES, MOVED_PLACES), ("from_places", "to_places"), number)
        return source, self.local("from_places")


def row(element: Element, rank: int, block: SortBlock) -> Plain:
    """Sorts each row of at most `block.tile` elements in one block."""
    keys = Keys(element)
    code = _Sorter(*pointers(INPUT, VALUES, INDICES), *extents(LENGTH), *strided(rank))
    length = code.extent(LENGTH)
    code.begin(block)
    code.set("row", i64(BLOCK))
    start = row_start(code, keys, rank)
    first = code.first_key(keys, rank, start)
    code.set("unlike", i64(0))
    place = code.local("place")
    for n in range(block.items):
        code.assign(place, code.slot(n))
        with code.when(place < length):
            code.taken_in(keys, rank, n, place, first)
        with code.otherwise():
            code.padding(n)
    number = code.local("number")
    with code.loop(number, digits_of(keys)), code.when(Operator("!=", code.differs(number), Constant(0))):
        code.arrange(code.set("shift", number * BITS if keys.wide else number * BITS + 32))
        for n in range(block.items):
            at = code.set("at", code.slot(n))
            code.take(n, code.here[at], i64(code.words[block.places + at]) if keys.wide else 0)
    for n in range(block.items):
        code.assign(place, code.slot(n))
        with code.when(place < length):
            pair, own = code.pair(n)
            origin = code.set("origin", i64(own) if keys.wide else pair & LAST_PLACE)
            write_result(code, keys, rank, origin, pair if keys.wide else (pair >> 32) & 0xFFFFFFFF)
    return code.plain(f"sort {element.value}: a row in each block", block.threads, block.shared, block.resident)


def pairs(element: Element, rank: int, shared: int) -> Plain:
    """Makes pairs of elements, counts their first digit, and finds in which digits a piece differs from the first key of all."""
    keys = Keys(element)
    block = block_of_piece(keys.wide, shared)
    made = pointers(PAIRS, PLACES) if keys.wide else pointers(PAIRS)
    code = _Sorter(*pointers(INPUT), *made, *pointers(DIFFERING, COUNTS), *extents(LENGTH, PIECES), *strided(rank))
    length, pieces = code.extent(LENGTH), code.extent(PIECES)
    thread, number = code.set("thread", i64(THREAD)), code.set("block", i64(BLOCK))
    code.block = block
    code.no_counts(thread)
    first = code.first_key(keys, rank, code.pointer(INPUT))
    code.set("row", number // pieces)
    row_start(code, keys, rank)
    begin = code.set("begin", number % pieces * block.tile)
    code.set("unlike", i64(0))
    with code.loop(turn := code.local("turn"), block.items):
        place = code.set("place", begin + turn * block.threads + thread)
        with code.when(place < length):
            code.taken_in(keys, rank, 0, place, first)
            at = code.set("at", code.local("row") * length + place)
            pair, own = code.pair(0)
            code.store(64, PAIRS, at, pair)
            if keys.wide:
                code.store(32, PLACES, at, own)
            code.counted(pair, 0 if keys.wide else 32)
    found, digit = code.set("found", i64(0)), code.local("number")
    with code.loop(digit, digits_of(keys)), code.when(Operator("!=", code.differs(digit), Constant(0))):
        code.assign(found, found | (i64(1) << digit))
    with code.when(same(thread, 0)):
        code.store(32, DIFFERING, number, found)
    code.store_counts(thread, pieces, number % pieces)
    return code.plain(f"sort {element.value}: pairs of keys and places, and counts of the first digit", block.threads)


def needs() -> Plain:
    """Which digits differ in any block. One block."""
    code = _Sorter(*pointers(DIFFERING, NEEDED), *extents(BLOCKS))
    thread = code.set("thread", i64(THREAD))
    own, found = code.set("own", i64(0)), code.set("found", i64(0))
    with code.loop(turn := code.local("turn"), thread, code.extent(BLOCKS), ADDERS):
        code.assign(own, own | code.load(32, DIFFERING, turn))
    with code.loop(digit := code.local("number"), 64 // BITS):
        mine = code.set("mine", i32((own >> digit) & 1))
        with code.when(Operator("!=", call("cuda.syncthreads_or", mine), Constant(0))):
            code.assign(found, found | (i64(1) << digit))
    with code.when(same(thread, 0)):
        code.store(32, NEEDED, i64(0), found)
    return code.plain("sort: which digits differ", ADDERS)


def count(wide: bool, shared: int) -> Plain:
    """How many pairs of each piece have each value of a digit."""
    block = block_of_piece(wide, shared)
    code = _Sorter(*pointers(PAIRS, MOVED, NEEDED, COUNTS), *extents(LENGTH, PIECES, DIGIT))
    length, pieces = code.extent(LENGTH), code.extent(PIECES)
    thread, number = code.set("thread", i64(THREAD)), code.set("block", i64(BLOCK))
    code.block = block
    with code.when(code.where_needed()):
        code.no_counts(thread)
        source, _ = code.sources(False, code.extent(DIGIT))
        row = code.set("row", number // pieces)
        begin = code.set("begin", number % pieces * block.tile)
        shift = code.set("shift", code.extent(DIGIT) * BITS + (0 if wide else 32))
        with code.loop(turn := code.local("turn"), block.items):
            place = code.set("place", begin + turn * block.threads + thread)
            with code.when(place < length):
                code.counted(load(64, source + (row * length + place) * 8), shift)
        code.store_counts(thread, pieces, number % pieces)
    return code.plain("sort: counts of a digit", block.threads)


def places() -> Plain:
    """Counts of the pieces of a row become how many are in the pieces before, of one value of a digit in each block."""
    code = _Sorter(*pointers(NEEDED, COUNTS, TOTALS), *extents(PIECES, DIGIT))
    pieces = code.extent(PIECES)
    thread, number = code.set("thread", i64(THREAD)), code.set("block", i64(BLOCK))
    sums = code.shared("sums", ADDERS, "int64")
    with code.when(code.where_needed()):
        before = code.set("before", i64(0))
        with code.loop(first := code.local("first"), 0, pieces, ADDERS):
            place = code.set("place", first + thread)
            own = code.set("own", i64(0))
            with code.when(place < pieces):
                code.assign(own, code.load(32, COUNTS, number * pieces + place))
            code.assign(sums[thread], own)
            code.wait()
            running(code, sums, thread, ADDERS, ADDERS)
            with code.when(place < pieces):
                code.store(32, COUNTS, number * pieces + place, before + sums[thread] - own)
            code.assign(before, before + sums[ADDERS - 1])
            code.wait()
        with code.when(same(thread, 0)):
            code.store(32, TOTALS, number, before)
    return code.plain("sort: places of a digit", ADDERS)


def few_places() -> Plain:
    """The same for few pieces: each thread adds up those of one value."""
    code = _Sorter(*pointers(NEEDED, COUNTS, TOTALS), *extents(ROWS, PIECES, DIGIT))
    pieces = code.extent(PIECES)
    number = code.set("number", i64(BLOCK) * ADDERS + i64(THREAD))
    with code.when(code.where_needed()), code.when(number < code.extent(ROWS) * (1 << BITS)):
        before = code.set("before", i64(0))
        with code.loop(piece := code.local("piece"), pieces):
            own = code.set("own", code.load(32, COUNTS, number * pieces + piece))
            code.store(32, COUNTS, number * pieces + piece, before)
            code.assign(before, before + own)
        code.store(32, TOTALS, number, before)
    return code.plain("sort: places of a digit, of few pieces", ADDERS)


def move(element: Element, rank: int, shared: int) -> Plain:
    """Moves the pairs of a piece to where they are in the order of a digit; of the last one, writes what they stand for."""
    keys = Keys(element)
    wide, block, digits = keys.wide, block_of_piece(keys.wide, shared), 1 << BITS
    apart = pointers(PLACES, MOVED_PLACES) if wide else []
    tensors = pointers(INPUT, PAIRS, MOVED, NEEDED, COUNTS, TOTALS, VALUES, INDICES)
    code = _Sorter(*tensors, *apart, *extents(LENGTH, PIECES, DIGIT), *strided(rank))
    length, pieces = code.extent(LENGTH), code.extent(PIECES)
    code.begin(block)
    thread, number = code.thread, code.set("block", i64(BLOCK))
    bases = code.shared("bases", digits, "int32")
    with code.when(code.where_needed()):
        source, source_places = code.sources(wide, code.extent(DIGIT))
        target, target_places = code.local("to_pairs"), code.local("to_places")
        row = code.set("row", number // pieces)
        piece = code.set("piece", number % pieces)
        begin, offset = code.set("begin", piece * block.tile), code.set("offset", row * length)
        shift = code.set("shift", code.extent(DIGIT) * BITS + (0 if wide else 32))
        for n in range(block.items):
            place = code.set("place", begin + code.slot(n))
            with code.when(place < length):
                at = code.set("at", offset + place)
                code.take(n, load(64, source + at * 8), load(32, source_places + at * 4) if wide else 0)
            with code.otherwise():
                code.padding(n)
        total = code.set("total", i64(0))
        with code.when(thread < digits, "where each digit begins in the row"):
            code.assign(total, code.load(32, TOTALS, row * digits + thread))
            code.assign(bases[thread], total)
        code.wait()
        running(code, bases, thread, digits, block.threads)
        code.arrange(shift)
        with code.when(thread < digits, "less where it begins in the block"):
            before = code.load(32, COUNTS, (row * digits + thread) * pieces + piece)
            code.assign(bases[thread], bases[thread] - total + before - code.words[block.starts + thread])
        code.wait()
        count = code.set("count", call("min", i64(block.tile), length - begin))
        row_start(code, keys, rank)
        last = code.set("last", same(code.local("digits_needed") >> (code.extent(DIGIT) + 1), 0))
        with code.loop(turn := code.local("turn"), block.items):
            here = code.set("slot", turn * block.threads + thread)
            with code.when(here < count):
                pair = code.set("pair", code.here[here])
                place = code.set("place", here + bases[code.set("digit", code.digit(pair, shift))])
                origin = code.set("origin", i64(code.words[block.places + here]) if wide else pair & LAST_PLACE)
                with code.when(last):
                    write_result(code, keys, rank, origin, pair if wide else (pair >> 32) & 0xFFFFFFFF)
                with code.otherwise():
                    at = code.set("at", offset + place)
                    code.call("ptx_memory.store_64", target + at * 8, pair)
                    if wide:
                        code.call("ptx_memory.store_32", target_places + at * 4, origin)
    return code.plain(f"sort {element.value}: pairs go where a digit says", block.threads, block.shared, block.resident)


def finish(element: Element, rank: int) -> Plain:
    """Writes rows whose elements are all equal, and so moved nowhere."""
    keys = Keys(element)
    code = _Sorter(*pointers(INPUT, NEEDED, VALUES, INDICES), *extents(LENGTH, ROWS), *strided(rank))
    number = code.set("number", i64(BLOCK) * ADDERS + i64(THREAD))
    row = code.set("row", number // code.extent(LENGTH))
    with code.when(both(row < code.extent(ROWS), same(code.load(32, NEEDED, i64(0)), 0))):
        origin = code.set("origin", code.set("place", number % code.extent(LENGTH)))
        row_start(code, keys, rank)
        write_result(code, keys, rank, origin)
    return code.plain(f"sort {element.value}: equal elements", ADDERS)
