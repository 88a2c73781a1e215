"""The kernels of `sort` and `compress`: their source, as Python that numba-cuda compiles.

Note [Sorting]
    Elements become integers whose order is that of the elements, NaN last and the zeros equal; beside each stands its place in its
    row. Two such pairs are never equal, so any way of sorting them is stable. Elements of up to 32 bits make one i64 with their
    place in the low half; wider ones keep it apart.

    Pieces of TILE elements are sorted in shared memory by a bitonic network (Batcher 1968); rows that are shorter share a block.
    Of longer rows sorted runs are merged, two at a time, until one is left: each thread finds by bisection which part of both runs
    its outputs come from ("merge path", Green, McColl and Bader 2012), and merges these one by one. So n elements cost
    n log n comparisons beyond the pieces, and each pass reads and writes all pairs once.

Note [Compressing]
    Blocks count what is true in their pieces; one block turns these counts into places; then each block writes its own indices,
    every thread behind those of the threads before it.

Indices are i64, and element counts below 2³¹ a row.
"""

from __future__ import annotations

from axon.backend.gpu.build.pipeline import Plain
from axon.backend.gpu.emit.source import Parameter, StrideParameter, emitted
from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Constant, Expression, Given, Import, Like, Module, Name, Operator, Several, both, call, same
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.shapes.dimension import Dim

TILE = 2048  # pairs that a block sorts in shared memory
THREADS = 512  # of a block that sorts
STRETCH = 8  # pairs that a thread merges
MERGERS = 256  # threads of a block that merges
PIECE = 4096  # flags of one block of a compress
COUNTERS = 256  # its threads
PLACERS = 1024  # threads of the block that adds up

# What the sources' parameters stand for; one source serves all programs.
INPUT, VALUES, INDICES = fresh("source"), fresh("values"), fresh("indices")
PAIRS, PLACES = fresh("pairs"), fresh("places")  # sorted so far; of wide elements keys alone, and their places
MERGED, MERGED_PLACES = fresh("merged"), fresh("merged_places")
COUNTS, TOTAL = fresh("counts"), fresh("total")
LENGTH, ROWS, WIDTH, RUN, BLOCKS = (fresh(name) for name in ("length", "rows", "width", "run", "blocks"))
LEADING = tuple(fresh(f"extent{d}") for d in range(32))  # the extents of the dimensions before the last


@dataclass(frozen=True, slots=True)
class Keys:
    """How elements become integers."""

    element: Element

    @property
    def bits(self) -> int:
        return max(8, self.element.bits)

    @property
    def size(self) -> int:
        return self.bits // 8

    @property
    def wide(self) -> bool:
        """Whether a place does not fit beside the element in 64 bits."""
        return self.bits == 64

    def key(self, code: Code, bits: Expression) -> Name:
        """The key of an element whose bits were loaded."""
        half, element, key = 1 << (self.bits - 1), self.element, code.local("key")
        if not element.is_float:
            if element.is_unsigned and self.bits >= 32:  # so that keys of 32 bits, too, have a sign to spare
                code.assign(key, bits ^ -half if self.wide else bits - half)
                return key
            code.assign(key, bits)
            if element is not Element.BOOL and not element.is_unsigned and not self.wide:
                with code.when(bits > half - 1):
                    code.assign(key, bits - 2 * half)
            return key
        code.assign(key, bits & (half - 1), "without the sign")
        with code.when(key > _INFINITY[element]):
            code.assign(key, i64(half - 1), "NaN")
        with code.otherwise(), code.when(bits < 0 if self.wide else bits > half - 1):
            code.assign(key, -key)
        return key


_INFINITY = {  # the bits of the largest value that is a number
    Element.F64: 0x7FF0000000000000, Element.F32: 0x7F800000, Element.F16: 0x7C00, Element.BF16: 0x7F80, Element.F8E4M3: 0x7E,
    Element.F8E5M2: 0x7C,
}  # fmt: skip
_LAST = (1 << 63) - 1  # after every pair
_LAST_PLACE = (1 << 31) - 1


_IMPORTS = (
    (Import("numba", ("cuda", "int32", "int64")),),
    (Import("axon.backend.gpu.intrinsics", ("ptx_memory",)),),
)
THREAD, BLOCK = Given("cuda.threadIdx.x"), Given("cuda.blockIdx.x")


def i64(value: Like) -> Expression:
    return call("int64", value)


class Kernel(Code):
    """A kernel being written; parameters are called as what they stand for."""

    def __init__(self, *parameters: Parameter) -> None:
        super().__init__()
        self.parameters = {parameter: self.local(_called(parameter)) for parameter in parameters}

    def pointer(self, tensor: Symbol) -> Name:
        return self.parameters[PointerParameter(tensor)]

    def stride(self, dimension: int) -> Name:
        return self.parameters[StrideParameter(INPUT, dimension)]

    def extent(self, symbol: Symbol) -> Name:
        return self.parameters[ExtentParameter(Dim.of(symbol))]

    def set(self, name: str, value: Like, note: str = "") -> Name:
        """A variable of this name with a value: it may have had another."""
        self.assign(self.local(name), value, note)
        return self.local(name)

    def shared(self, name: str, size: int, element: str) -> Name:
        return self.set(name, call("cuda.shared.array", size, Given(element)))

    def wait(self) -> None:
        """For the other threads of the block."""
        self.call("cuda.syncthreads")

    def store(self, bits: int, tensor: Symbol, at: Expression | None, value: Expression) -> None:
        """At a place that counts elements, or at the first."""
        place = self.pointer(tensor) if at is None else self.pointer(tensor) + at * (bits // 8)
        self.call(f"ptx_memory.store_{bits}", place, value)

    def load(self, bits: int, tensor: Symbol, at: Expression) -> Expression:
        return _load(bits, self.pointer(tensor) + at * (bits // 8))

    def swap(self, of: Name, low: Expression, high: Expression, values: tuple[Name, Name]) -> None:
        """What is at two places, which was read before, changes places."""
        self.assign(Several((of[low], of[high])), Several(values[::-1]))

    def plain(self, what: str, threads: int) -> Plain:
        """The kernel as it is built."""
        function = self.function("kernel", tuple(self.parameters.values()), what)
        return Plain(emitted(Module(_IMPORTS, (function,)), self.parameters, threads, 1, 0))


def _load(bits: int, address: Expression) -> Expression:
    return call(f"ptx_memory.load_{bits}", address)


def _called(parameter: Parameter) -> str:
    match parameter:
        case PointerParameter(tensor=tensor):
            return tensor.name
        case StrideParameter(dimension=dimension):
            return f"stride{dimension}"
        case ExtentParameter(size=size):
            assert size.symbol is not None
            return size.symbol.name
        case _:
            raise AssertionError(f"no kernel here has {parameter}")


def _pointers(*tensors: Symbol) -> list[Parameter]:
    return [PointerParameter(tensor) for tensor in tensors]


def _extents(*symbols: Symbol) -> list[Parameter]:
    return [ExtentParameter(Dim.of(symbol)) for symbol in symbols]


def _strided(rank: int) -> list[Parameter]:
    """How the input lies: the extents before the last, and all strides."""
    return [*_extents(*LEADING[: rank - 1]), *(StrideParameter(INPUT, d) for d in range(rank))]


def _start(code: Kernel, keys: Keys, rank: int) -> Expression:
    """The address at which a `row` of the input begins."""
    source, row = code.pointer(INPUT), code.local("row")
    if rank == 1:
        return code.set("start", source)
    rest = code.set("rest", row)
    start = code.set("start", source)
    for d in reversed(range(1, rank - 1)):
        extent = code.extent(LEADING[d])
        code.assign(start, start + rest % extent * code.stride(d) * keys.size)
        code.assign(rest, rest // extent)
    code.assign(start, start + rest * code.stride(0) * keys.size)
    return start


def _element(code: Kernel, keys: Keys, rank: int, start: Expression, place: Expression) -> Expression:
    """The bits of an element of a row of the input."""
    return _load(keys.bits, start + place * code.stride(rank - 1) * keys.size)


def _result(code: Kernel, keys: Keys, rank: int, origin: Expression) -> None:
    """Writes the results at `place` of a `row`: the element that was at `origin`."""
    start = _start(code, keys, rank)
    at = code.set("at", code.local("row") * code.extent(LENGTH) + code.local("place"))
    code.store(keys.bits, VALUES, at, _element(code, keys, rank, start, origin))
    code.store(32, INDICES, at, origin)


def tiles(element: Element, rank: int, *, whole: bool) -> Plain:
    """Sorts pieces of rows in shared memory. If a row is one piece, the results are written, else pairs.

    `width`, a power of two of at most TILE, is how much of a block one piece has; a row has `blocks` pieces.
    """
    keys = Keys(element)
    made = _pointers(VALUES, INDICES) if whole else _pointers(PAIRS, *([PLACES] if keys.wide else []))
    code = Kernel(*_pointers(INPUT), *made, *_extents(LENGTH, ROWS, WIDTH, BLOCKS), *_strided(rank))
    length, rows, width, blocks = map(code.extent, (LENGTH, ROWS, WIDTH, BLOCKS))
    thread, block = code.set("thread", i64(THREAD)), code.set("block", i64(BLOCK))
    here = code.shared("keys_here", TILE, "int64")
    places = code.shared("places_here", TILE, "int32") if keys.wide else None

    def slots() -> tuple[Name, Name, Name]:
        """A slot of the block, and the row and the place of its element."""
        slot = code.set("slot", thread + code.local("turn") * THREADS)
        piece = code.set("piece", (block * TILE + slot) // width)
        return slot, code.set("row", piece // blocks), code.set("place", piece % blocks * width + (slot & (width - 1)))

    with code.loop(code.local("turn"), TILE // THREADS):
        slot, row, place = slots()
        code.assign(here[slot], _LAST)
        if places is not None:
            code.assign(places[slot], _LAST_PLACE)
        with code.when(both(row < rows, place < length)):
            start = _start(code, keys, rank)
            key = keys.key(code, code.set("bits", _element(code, keys, rank, start, place)))
            code.assign(here[slot], (key << 32) | place if places is None else key)
            if places is not None:
                code.assign(places[slot], place)
    code.wait()
    size = code.set("size", i64(2))
    with code.repeat(size <= width, "pieces of `size` are made of two that run in opposite directions"):
        step = code.set("step", size >> 1)
        with code.repeat(step > 0):
            with code.loop(code.local("turn"), TILE // 2 // THREADS):
                pair = code.set("pair", thread + code.local("turn") * THREADS)
                low = code.set("low", ((pair & ~(step - 1)) << 1) | (pair & (step - 1)))
                high = code.set("high", low | step)
                _exchange(code, here, places, low, high, code.set("up", same(low & (width - 1) & size, 0)))
            code.wait()
            code.assign(step, step >> 1)
        code.assign(size, size << 1)
    with code.loop(code.local("turn"), TILE // THREADS):
        slot, row, place = slots()
        with code.when(both(row < rows, place < length)):
            at = row * length + place
            if whole:
                origin = here[slot] & _LAST_PLACE if places is None else i64(places[slot])
                _result(code, keys, rank, code.set("origin", origin))
            else:
                code.store(64, PAIRS, at, here[slot])
                if places is not None:
                    code.store(32, PLACES, at, places[slot])
    what = "short rows, several in a block" if whole else f"pieces of {TILE}"
    return code.plain(f"sort {element.value}: {what}", THREADS)


def _exchange(code: Kernel, here: Name, places: Name | None, low: Name, high: Name, up: Name) -> None:
    """Two pairs of the network change places if they are not as `up` says."""
    x, y, m, n = map(code.local, "xymn")
    code.assign(Several((x, y)), Several((here[low], here[high])))
    if places is not None:
        code.assign(Several((m, n)), Several((places[low], places[high])))
    with code.when(same(_compared(">", (x, m), (y, n), places is not None), up)):
        code.swap(here, low, high, (x, y))
        if places is not None:
            code.swap(places, low, high, (m, n))


Pair = tuple[Expression, Expression]  # a key, and its place where that stands apart


def _compared(op: str, left: Pair, right: Pair, wide: bool) -> Expression:
    """Whether a pair comes before another one, by `<`, or after it, by `>`."""
    keys, places = (Operator(op, *both) for both in zip(left, right, strict=True))
    return Operator("or", keys, both(same(left[0], right[0]), places)) if wide else keys


def merge(wide: bool) -> Plain:
    """Merges sorted runs of `run` pairs, a power of two, two at a time."""
    pointers = _pointers(PAIRS, PLACES, MERGED, MERGED_PLACES) if wide else _pointers(PAIRS, MERGED)
    code = Kernel(*pointers, *_extents(LENGTH, ROWS, RUN))
    length, rows, run = map(code.extent, (LENGTH, ROWS, RUN))
    number = code.set("number", i64(BLOCK) * MERGERS + i64(THREAD))
    stretches = code.set("stretches", (length + STRETCH - 1) // STRETCH)
    row = code.set("row", number // stretches)

    def pair_at(place: Expression) -> Pair:
        return code.load(64, PAIRS, place), code.load(32, PLACES, place) if wide else Constant(0)

    def fetch(key: Name, place: Name, at: Name, end: Name) -> None:
        """The pair at a place of a run, or the last of all behind its end."""
        code.assign(key, i64(_LAST))
        if wide:
            code.assign(place, i64(_LAST_PLACE))
        with code.when(at < end):
            found = pair_at(at)
            code.assign(key, found[0])
            if wide:
                code.assign(place, found[1])

    with code.when(row < rows):
        first = code.set("first", number % stretches * STRETCH)
        base = code.set("base", first & ~(2 * run - 1), "of two runs, which begin there and at `middle`")
        middle = code.set("middle", call("min", base + run, length))
        end = code.set("end", call("min", base + 2 * run, length))
        ahead = code.set("ahead", first - base, "outputs before the first one")
        low = code.set("low", call("max", ahead - (end - middle), i64(0)), "how many of these are of the first run")
        high = code.set("high", call("min", ahead, middle - base))
        offset = code.set("offset", row * length)
        with code.repeat(low < high):
            half = code.set("half", (low + high) >> 1)
            i = code.set("i", offset + base + half)
            j = code.set("j", offset + middle + ahead - 1 - half)
            of_i, of_j = pair_at(i), pair_at(j)
            if wide:  # keys are compared twice
                of_i, of_j = (code.set("x", of_i[0]), of_i[1]), (code.set("y", of_j[0]), of_j[1])
            with code.when(_compared("<", of_i, of_j, wide)):
                code.assign(low, half + 1)
            with code.otherwise():
                code.assign(high, half)
        code.assign(i, offset + base + low)
        code.assign(j, offset + middle + ahead - low)
        ends = code.set("i_end", offset + middle), code.set("j_end", offset + end)
        x, y, m, n = map(code.local, "xymn")
        runs = (x, m, i, ends[0]), (y, n, j, ends[1])
        for run_ in runs:
            fetch(*run_)
        output = code.local("output")
        with code.loop(output, offset + first, offset + call("min", first + STRETCH, end)):
            for (key, place, at, end), block in zip(
                runs, (code.when(_compared("<", (x, m), (y, n), wide)), code.otherwise()), strict=True
            ):
                with block:
                    code.store(64, MERGED, output, key)
                    if wide:
                        code.store(32, MERGED_PLACES, output, place)
                    code.assign(at, at + 1)
                    fetch(key, place, at, end)
    return code.plain("merge sorted runs", MERGERS)


def finish(element: Element, rank: int) -> Plain:
    """Writes what sorted pairs stand for: where each element was, and the element."""
    keys = Keys(element)
    pairs = PLACES if keys.wide else PAIRS
    code = Kernel(*_pointers(INPUT, pairs, VALUES, INDICES), *_extents(LENGTH, ROWS), *_strided(rank))
    number = code.set("number", i64(BLOCK) * MERGERS + i64(THREAD))
    row = code.set("row", number // code.extent(LENGTH))
    with code.when(row < code.extent(ROWS)):
        code.set("place", number % code.extent(LENGTH))
        origin = code.load(32, PLACES, number) if keys.wide else code.load(64, PAIRS, number) & _LAST_PLACE
        _result(code, keys, rank, code.set("origin", origin))
    return code.plain(f"sort {element.value}: results", MERGERS)


# ── compress ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _flag(code: Kernel, at: Expression) -> Expression:
    return Operator("!=", _load(8, code.pointer(INPUT) + at * code.stride(0)), Constant(0))


def count() -> Plain:
    """How many flags each block's piece has."""
    code = Kernel(*_pointers(INPUT, COUNTS), *_extents(LENGTH), StrideParameter(INPUT, 0))
    thread = code.set("thread", i64(THREAD))
    first = code.set("first", i64(BLOCK) * PIECE)
    total = code.set("count", i64(0))
    turn = code.local("turn")
    with code.loop(turn, PIECE // COUNTERS):
        at = code.set("at", first + turn * COUNTERS + thread)
        flag = code.set("flag", call("int32", 0))
        with code.when(at < code.extent(LENGTH)):
            code.assign(flag, call("int32", _flag(code, at)))
        code.assign(total, total + call("cuda.syncthreads_count", flag))
    with code.when(same(thread, 0)):
        code.store(32, COUNTS, i64(BLOCK), total)
    return code.plain("compress: count", COUNTERS)


def _running(code: Kernel, sums: Name, thread: Name, threads: int, nothing: Expression) -> None:
    """Running sums of what the threads of a block have, each over twice as many (Hillis and Steele 1986)."""
    step = code.set("step", 1)
    with code.repeat(step < threads):
        other = code.set("other", nothing)
        with code.when(thread >= step):
            code.assign(other, sums[thread - step])
        code.wait()
        code.assign(sums[thread], sums[thread] + other)
        code.wait()
        code.assign(step, step * 2)


def place() -> Plain:
    """Counts of blocks become places, and their sum the size of the result. One block."""
    code = Kernel(*_pointers(COUNTS, TOTAL), *_extents(BLOCKS))
    blocks = code.extent(BLOCKS)
    thread = code.set("thread", i64(THREAD))
    sums = code.shared("sums", PLACERS, "int64")
    before = code.set("before", i64(0))
    first = code.local("first")
    with code.loop(first, 0, blocks, PLACERS):
        at = code.set("at", first + thread)
        own = code.set("own", i64(0))
        with code.when(at < blocks):
            code.assign(own, code.load(32, COUNTS, at))
        code.assign(sums[thread], own)
        code.wait()
        _running(code, sums, thread, PLACERS, i64(0))
        with code.when(at < blocks):
            code.store(32, COUNTS, at, before + sums[thread] - own)
        code.assign(before, before + sums[PLACERS - 1])
        code.wait()
    with code.when(same(thread, 0)):
        code.store(32, TOTAL, None, before)
    return code.plain("compress: places", PLACERS)


def write() -> Plain:
    """The indices of flags, each block's from its place on."""
    code = Kernel(*_pointers(INPUT, COUNTS, INDICES), *_extents(LENGTH), StrideParameter(INPUT, 0))
    each = PIECE // COUNTERS
    thread = code.set("thread", i64(THREAD))
    sums = code.shared("sums", COUNTERS, "int32")
    first = code.set("first", i64(BLOCK) * PIECE + thread * each)
    own = code.set("own", call("int32", 0))
    at, mine = code.local("at"), (first, call("min", first + each, code.extent(LENGTH)))
    with code.loop(at, *mine), code.when(_flag(code, at)):
        code.assign(own, own + 1)
    code.assign(sums[thread], own)
    code.wait()
    _running(code, sums, thread, COUNTERS, call("int32", 0))
    to = code.set("to", code.load(32, COUNTS, i64(BLOCK)) + sums[thread] - own)
    with code.loop(at, *mine), code.when(_flag(code, at)):
        code.store(32, INDICES, to, at)
        code.assign(to, to + 1)
    return code.plain("compress: indices", COUNTERS)
