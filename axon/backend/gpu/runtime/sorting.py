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

from collections.abc import Sequence
from dataclasses import dataclass
from string import Template
from textwrap import dedent, indent

from axon.backend.gpu.build.pipeline import Plain
from axon.backend.gpu.emit.kernel import Emitted, ExtentParameter, Parameter, PointerParameter, StrideParameter
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

    @property
    def text(self) -> str:
        """`bits`, as loaded, to `key`."""
        half, element = 1 << (self.bits - 1), self.element
        if not element.is_float:
            signed = element not in (Element.U8, Element.BOOL) and not self.wide
            return "key = bits\n" + (f"if bits > {half - 1}:\n    key = bits - {2 * half}\n" if signed else "")
        negative = "bits < 0" if self.wide else f"bits > {half - 1}"
        return (
            f"key = bits & {half - 1}  # without the sign\n"
            f"if key > {_INFINITY[element]}:\n    key = int64({half - 1})  # NaN\n"
            f"elif {negative}:\n    key = -key\n"
        )


_INFINITY = {  # the bits of the largest value that is a number
    Element.F64: 0x7FF0000000000000, Element.F32: 0x7F800000, Element.F16: 0x7C00, Element.BF16: 0x7F80, Element.F8E4M3: 0x7E,
    Element.F8E5M2: 0x7C,
}  # fmt: skip
_LAST = (1 << 63) - 1  # after every pair
_LAST_PLACE = (1 << 31) - 1


def _kernel(what: str, parameters: Sequence[Parameter], threads: int, body: str) -> Plain:
    names = []
    for parameter in parameters:
        match parameter:
            case PointerParameter(tensor=tensor):
                names.append(tensor.name)
            case StrideParameter(dimension=dimension):
                names.append(f"stride{dimension}")
            case ExtentParameter(size=size):
                assert size.symbol is not None
                names.append(size.symbol.name)
            case _:
                raise AssertionError(f"no kernel here has {parameter}")
    head = "from numba import cuda, int32, int64\n\nfrom axon.backend.gpu.intrinsics import ptx_memory\n\n\n"
    text = f"{head}def kernel({', '.join(names)}):  # {what}\n{indent(body, '    ')}"
    return Plain(Emitted(text, tuple(parameters), threads, 1, 0))


def _pointers(*tensors: Symbol) -> list[Parameter]:
    return [PointerParameter(tensor) for tensor in tensors]


def _extents(*symbols: Symbol) -> list[Parameter]:
    return [ExtentParameter(Dim.of(symbol)) for symbol in symbols]


def _strided(rank: int) -> list[Parameter]:
    """How the input lies: the extents before the last, and all strides."""
    return [*_extents(*LEADING[: rank - 1]), *(StrideParameter(INPUT, d) for d in range(rank))]


def _start(keys: Keys, rank: int) -> str:
    """`start`: the address at which a `row` of the input begins."""
    if rank == 1:
        return "start = source\n"
    lines = ["rest = row", "start = source"]
    for d in reversed(range(1, rank - 1)):
        lines += [f"start += rest % extent{d} * stride{d} * {keys.size}", f"rest = rest // extent{d}"]
    return "\n".join([*lines, f"start += rest * stride0 * {keys.size}\n"])


def _result(keys: Keys, rank: int) -> str:
    """Writes the results at `place` of a `row`: the element that was at `origin`."""
    last = f"start + origin * stride{rank - 1} * {keys.size}"
    return (
        f"{_start(keys, rank)}"
        "at = row * length + place\n"
        f"ptx_memory.store_{keys.bits}(values + at * {keys.size}, ptx_memory.load_{keys.bits}({last}))\n"
        "ptx_memory.store_32(indices + at * 4, origin)\n"
    )


def _fill(template: str, **parts: str) -> str:
    """A template with each line `<name>` replaced by a part, as deep as the line, and each `$NAME` by its number."""
    lines = []
    for line in dedent(template).strip("\n").splitlines():
        name = line.strip()
        if name.startswith("<") and name.endswith(">"):
            lines.append(indent(parts[name[1:-1]].strip("\n"), line[: len(line) - len(line.lstrip())]))
        else:
            lines.append(line)
    numbers = {
        "TILE": TILE, "THREADS": THREADS, "TURNS": TILE // THREADS, "EXCHANGES": TILE // 2 // THREADS, "STRETCH": STRETCH,
        "MERGERS": MERGERS, "PIECE": PIECE, "COUNTERS": COUNTERS, "EACH": PIECE // COUNTERS, "PLACERS": PLACERS,
        "LAST": _LAST, "LAST_PLACE": _LAST_PLACE,
    }  # fmt: skip
    return Template("\n".join(lines) + "\n").substitute(numbers)


_TILES = """
    thread = int64(cuda.threadIdx.x)
    block = int64(cuda.blockIdx.x)
    <shared>
    for turn in range($TURNS):
        slot = thread + turn * $THREADS
        piece = (block * $TILE + slot) // width
        row = piece // blocks
        place = piece % blocks * width + (slot & (width - 1))
        <nothing>
        if row < rows and place < length:
            <load>
    cuda.syncthreads()
    size = int64(2)
    while size <= width:  # pieces of `size` are made of two that run in opposite directions
        step = size >> 1
        while step > 0:
            for turn in range($EXCHANGES):
                pair = thread + turn * $THREADS
                low = ((pair & ~(step - 1)) << 1) | (pair & (step - 1))
                high = low | step
                up = (low & (width - 1) & size) == 0
                <exchange>
            cuda.syncthreads()
            step = step >> 1
        size = size << 1
    for turn in range($TURNS):
        slot = thread + turn * $THREADS
        piece = (block * $TILE + slot) // width
        row = piece // blocks
        place = piece % blocks * width + (slot & (width - 1))
        if row < rows and place < length:
            <store>
"""
_EXCHANGE = """
x, y = keys_here[low], keys_here[high]
if (x > y) == up:
    keys_here[low], keys_here[high] = y, x
"""
_EXCHANGE_WIDE = """
x, y = keys_here[low], keys_here[high]
m, n = places_here[low], places_here[high]
if (x > y or (x == y and m > n)) == up:
    keys_here[low], keys_here[high] = y, x
    places_here[low], places_here[high] = n, m
"""


def tiles(element: Element, rank: int, *, whole: bool) -> Plain:
    """Sorts pieces of rows in shared memory. If a row is one piece, the results are written, else pairs.

    `width`, a power of two of at most TILE, is how much of a block one piece has; a row has `blocks` pieces.
    """
    keys = Keys(element)
    shared = "keys_here = cuda.shared.array($TILE, int64)\n"
    nothing = "keys_here[slot] = $LAST\n"
    last = f"start + place * stride{rank - 1} * {keys.size}"
    load = f"{_start(keys, rank)}bits = ptx_memory.load_{keys.bits}({last})\n{keys.text}"
    if keys.wide:
        shared += "places_here = cuda.shared.array($TILE, int32)\n"
        nothing += "places_here[slot] = $LAST_PLACE\n"
        load += "keys_here[slot] = key\nplaces_here[slot] = place\n"
    else:
        load += "keys_here[slot] = (key << 32) | place\n"
    if whole:
        origin = "int64(places_here[slot])" if keys.wide else f"keys_here[slot] & {_LAST_PLACE}"
        store = f"origin = {origin}\n{_result(keys, rank)}"
    else:
        store = "ptx_memory.store_64(pairs + (row * length + place) * 8, keys_here[slot])\n"
        store += "ptx_memory.store_32(places + (row * length + place) * 4, places_here[slot])\n" if keys.wide else ""
    exchange = _EXCHANGE_WIDE if keys.wide else _EXCHANGE
    written = _pointers(VALUES, INDICES) if whole else _pointers(PAIRS, *([PLACES] if keys.wide else []))
    parameters = [*_pointers(INPUT), *written, *_extents(LENGTH, ROWS, WIDTH, BLOCKS), *_strided(rank)]
    body = _fill(_TILES, shared=shared, nothing=nothing, load=load, exchange=exchange, store=store)
    what = "short rows, several in a block" if whole else f"pieces of {TILE}"
    return _kernel(f"sort {element.value}: {what}", parameters, THREADS, body)


_MERGE = """
    number = int64(cuda.blockIdx.x) * $MERGERS + int64(cuda.threadIdx.x)
    stretches = (length + $STRETCH - 1) // $STRETCH
    row = number // stretches
    if row < rows:
        first = number % stretches * $STRETCH
        base = first & ~(2 * run - 1)  # of two runs, which begin there and at `middle`
        middle = min(base + run, length)
        end = min(base + 2 * run, length)
        ahead = first - base  # outputs before the first one
        low = max(ahead - (end - middle), int64(0))  # how many of these are of the first run
        high = min(ahead, middle - base)
        offset = row * length
        while low < high:
            half = (low + high) >> 1
            i = offset + base + half
            j = offset + middle + ahead - 1 - half
            <bisect>
        i = offset + base + low
        j = offset + middle + ahead - low
        i_end = offset + middle
        j_end = offset + end
        <begin>
        for output in range(offset + first, offset + min(first + $STRETCH, end)):
            <step>
"""
_LOADS = """
x = int64($LAST)
if i < i_end:
    x = ptx_memory.load_64(pairs + i * 8)
y = int64($LAST)
if j < j_end:
    y = ptx_memory.load_64(pairs + j * 8)
"""
_LOADS_WIDE = """
m = int64($LAST_PLACE)
if i < i_end:
    m = ptx_memory.load_32(places + i * 4)
n = int64($LAST_PLACE)
if j < j_end:
    n = ptx_memory.load_32(places + j * 4)
"""
_STEP = """
if x < y:
    ptx_memory.store_64(merged + output * 8, x)
    i += 1
    x = int64($LAST)
    if i < i_end:
        x = ptx_memory.load_64(pairs + i * 8)
else:
    ptx_memory.store_64(merged + output * 8, y)
    j += 1
    y = int64($LAST)
    if j < j_end:
        y = ptx_memory.load_64(pairs + j * 8)
"""
_STEP_WIDE = """
if x < y or (x == y and m < n):
    ptx_memory.store_64(merged + output * 8, x)
    ptx_memory.store_32(merged_places + output * 4, m)
    i += 1
    x = int64($LAST)
    m = int64($LAST_PLACE)
    if i < i_end:
        x = ptx_memory.load_64(pairs + i * 8)
        m = ptx_memory.load_32(places + i * 4)
else:
    ptx_memory.store_64(merged + output * 8, y)
    ptx_memory.store_32(merged_places + output * 4, n)
    j += 1
    y = int64($LAST)
    n = int64($LAST_PLACE)
    if j < j_end:
        y = ptx_memory.load_64(pairs + j * 8)
        n = ptx_memory.load_32(places + j * 4)
"""
_BISECT = """
if ptx_memory.load_64(pairs + i * 8) < ptx_memory.load_64(pairs + j * 8):
    low = half + 1
else:
    high = half
"""
_BISECT_WIDE = """
x = ptx_memory.load_64(pairs + i * 8)
y = ptx_memory.load_64(pairs + j * 8)
if x < y or (x == y and ptx_memory.load_32(places + i * 4) < ptx_memory.load_32(places + j * 4)):
    low = half + 1
else:
    high = half
"""


def merge(wide: bool) -> Plain:
    """Merges sorted runs of `run` pairs, a power of two, two at a time."""
    begin = _LOADS + _LOADS_WIDE if wide else _LOADS
    body = _fill(_MERGE, bisect=_BISECT_WIDE if wide else _BISECT, begin=begin, step=_STEP_WIDE if wide else _STEP)
    pointers = _pointers(PAIRS, PLACES, MERGED, MERGED_PLACES) if wide else _pointers(PAIRS, MERGED)
    return _kernel("merge sorted runs", [*pointers, *_extents(LENGTH, ROWS, RUN)], MERGERS, body)


_SORTED = """
    number = int64(cuda.blockIdx.x) * $MERGERS + int64(cuda.threadIdx.x)
    row = number // length
    if row < rows:
        place = number % length
        <origin>
        <store>
"""


def finish(element: Element, rank: int) -> Plain:
    """Writes what sorted pairs stand for: where each element was, and the element."""
    keys = Keys(element)
    read = "load_32(places + number * 4)" if keys.wide else f"load_64(pairs + number * 8) & {_LAST_PLACE}"
    body = _fill(_SORTED, origin=f"origin = ptx_memory.{read}", store=_result(keys, rank))
    sorted_ = PLACES if keys.wide else PAIRS
    parameters = [*_pointers(INPUT, sorted_, VALUES, INDICES), *_extents(LENGTH, ROWS), *_strided(rank)]
    return _kernel(f"sort {element.value}: results", parameters, MERGERS, body)


# ── compress ────────────────────────────────────────────────────────────────────────────────────────────────────────────

_COUNT = """
    thread = int64(cuda.threadIdx.x)
    first = int64(cuda.blockIdx.x) * $PIECE
    count = int64(0)
    for turn in range($EACH):
        at = first + turn * $COUNTERS + thread
        flag = int32(0)
        if at < length:
            flag = int32(ptx_memory.load_8(source + at * stride0) != 0)
        count += cuda.syncthreads_count(flag)
    if thread == 0:
        ptx_memory.store_32(counts + int64(cuda.blockIdx.x) * 4, count)
"""
_PLACE = """
    thread = int64(cuda.threadIdx.x)
    sums = cuda.shared.array($PLACERS, int64)
    before = int64(0)
    for first in range(0, blocks, $PLACERS):
        at = first + thread
        own = int64(0)
        if at < blocks:
            own = ptx_memory.load_32(counts + at * 4)
        sums[thread] = own
        cuda.syncthreads()
        step = 1
        while step < $PLACERS:  # running sums, each over twice as many (Hillis and Steele 1986)
            other = int64(0)
            if thread >= step:
                other = sums[thread - step]
            cuda.syncthreads()
            sums[thread] += other
            cuda.syncthreads()
            step = step * 2
        if at < blocks:
            ptx_memory.store_32(counts + at * 4, before + sums[thread] - own)
        before += sums[$PLACERS - 1]
        cuda.syncthreads()
    if thread == 0:
        ptx_memory.store_32(total, before)
"""
_WRITE = """
    thread = int64(cuda.threadIdx.x)
    sums = cuda.shared.array($COUNTERS, int32)
    first = int64(cuda.blockIdx.x) * $PIECE + thread * $EACH
    own = int32(0)
    for at in range(first, min(first + $EACH, length)):
        if ptx_memory.load_8(source + at * stride0) != 0:
            own += 1
    sums[thread] = own
    cuda.syncthreads()
    step = 1
    while step < $COUNTERS:
        other = int32(0)
        if thread >= step:
            other = sums[thread - step]
        cuda.syncthreads()
        sums[thread] += other
        cuda.syncthreads()
        step = step * 2
    to = ptx_memory.load_32(counts + int64(cuda.blockIdx.x) * 4) + sums[thread] - own
    for at in range(first, min(first + $EACH, length)):
        if ptx_memory.load_8(source + at * stride0) != 0:
            ptx_memory.store_32(indices + to * 4, at)
            to += 1
"""


def count() -> Plain:
    """How many flags each block's piece has."""
    parameters = [*_pointers(INPUT, COUNTS), *_extents(LENGTH), StrideParameter(INPUT, 0)]
    return _kernel("compress: count", parameters, COUNTERS, _fill(_COUNT))


def place() -> Plain:
    """Counts of blocks become places, and their sum the size of the result. One block."""
    return _kernel("compress: places", [*_pointers(COUNTS, TOTAL), *_extents(BLOCKS)], PLACERS, _fill(_PLACE))


def write() -> Plain:
    """The indices of flags, each block's from its place on."""
    parameters = [*_pointers(INPUT, COUNTS, INDICES), *_extents(LENGTH), StrideParameter(INPUT, 0)]
    return _kernel("compress: indices", parameters, COUNTERS, _fill(_WRITE))
