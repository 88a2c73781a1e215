"""Sorting by comparing: short rows, several in a block, by a bitonic network (Batcher 1968) in shared memory. Two pairs are never
equal, so it is stable."""

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
from axon.backend.gpu.sorting.writing import BLOCK, THREAD, KernelCode, extents, i64, pointers
from axon.backend.kernel.ir import Expression, Name, Operator, Several, both, same
from axon.base.element import Element
from axon.base.names import fresh

TILE = 512  # pairs of a block
THREADS = 128
WIDTH = fresh("width")
_LAST = (1 << 63) - 1  # after every pair


def short_rows(element: Element, rank: int) -> Plain:
    """Sorts rows of at most `width` elements, a power of two, which is how much of a block each has."""
    keys = Keys(element)
    code = KernelCode(*pointers(INPUT, VALUES, INDICES), *extents(LENGTH, ROWS, WIDTH), *strided(rank))
    length, rows, width = map(code.extent, (LENGTH, ROWS, WIDTH))
    thread, block = code.set("thread", i64(THREAD)), code.set("block", i64(BLOCK))
    here = code.shared("keys_here", TILE, "int64")
    places = code.shared("places_here", TILE, "int32") if keys.wide else None

    def slots() -> tuple[Name, Name, Name]:
        """A slot of the block, and the row and the place of its element."""
        slot = code.set("slot", thread + code.local("turn") * THREADS)
        row = code.set("row", (block * TILE + slot) // width)
        return slot, row, code.set("place", slot & (width - 1))

    with code.loop(code.local("turn"), TILE // THREADS):
        slot, row, place = slots()
        code.assign(here[slot], _LAST)
        if places is not None:
            code.assign(places[slot], LAST_PLACE)
        with code.when(both(row < rows, place < length)):
            start = row_start(code, keys, rank)
            key = keys.key(code, code.set("bits", element_at(code, keys, rank, start, place)))
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
            origin = code.set("origin", here[slot] & LAST_PLACE if places is None else i64(places[slot]))
            row_start(code, keys, rank)
            write_result(code, keys, rank, origin)
    return code.plain(f"sort {element.value}: short rows, several in a block", THREADS)


def _exchange(code: KernelCode, here: Name, places: Name | None, low: Name, high: Name, up: Name) -> None:
    """Two pairs of the network change places if they are not as `up` says."""
    x, y, m, n = map(code.local, "xymn")
    code.assign(Several((x, y)), Several((here[low], here[high])))
    if places is not None:
        code.assign(Several((m, n)), Several((places[low], places[high])))
    with code.when(same(_compared(">", (x, m), (y, n), places is not None), up)):
        code.assign(Several((here[low], here[high])), Several((y, x)))
        if places is not None:
            code.assign(Several((places[low], places[high])), Several((n, m)))


Pair = tuple[Expression, Expression]  # a key, and its place where that stands apart


def _compared(op: str, left: Pair, right: Pair, wide: bool) -> Expression:
    """Whether a pair comes before another one, by `<`, or after it, by `>`."""
    keys, places = (Operator(op, *both) for both in zip(left, right, strict=True))
    return Operator("or", keys, both(same(left[0], right[0]), places)) if wide else keys
