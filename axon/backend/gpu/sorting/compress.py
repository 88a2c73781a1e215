"""The kernels of `compress`: which indices of a row of flags are true.

Blocks count what is true in their pieces; one block turns these counts into places; then each block writes its own indices, every
thread behind those of the threads before it.
"""

from __future__ import annotations

from axon.backend.gpu.build.recipe import Plain
from axon.backend.gpu.emit.source import StrideParameter
from axon.backend.gpu.sorting.writing import BLOCK, THREAD, KernelCode, extents, i32, i64, load, pointers, running
from axon.backend.kernel.ir import Constant, Expression, Operator, call, same
from axon.base.names import fresh

PIECE = 4096  # flags of one block
COUNTERS = 256  # its threads
PLACERS = 1024  # threads of the block that adds up

# What the sources' parameters stand for; one source serves all programs.
INPUT, INDICES, COUNTS, TOTAL = (fresh(name) for name in ("source", "indices", "counts", "total"))
LENGTH, BLOCKS = fresh("length"), fresh("blocks")


def _flag(code: KernelCode, at: Expression) -> Expression:
    return Operator("!=", load(8, code.pointer(INPUT) + at * code.stride(INPUT, 0)), Constant(0))


def count() -> Plain:
    """How many flags each block's piece has."""
    code = KernelCode(*pointers(INPUT, COUNTS), *extents(LENGTH), StrideParameter(INPUT, 0))
    thread = code.set("thread", i64(THREAD))
    first = code.set("first", i64(BLOCK) * PIECE)
    total = code.set("count", i64(0))
    turn = code.local("turn")
    with code.loop(turn, PIECE // COUNTERS):
        at = code.set("at", first + turn * COUNTERS + thread)
        flag = code.set("flag", i32(0))
        with code.when(at < code.extent(LENGTH)):
            code.assign(flag, i32(_flag(code, at)))
        code.assign(total, total + call("cuda.syncthreads_count", flag))
    with code.when(same(thread, 0)):
        code.store(32, COUNTS, i64(BLOCK), total)
    return code.plain("compress: count", COUNTERS)


def place() -> Plain:
    """Counts of blocks become places, and their sum the size of the result. One block."""
    code = KernelCode(*pointers(COUNTS, TOTAL), *extents(BLOCKS))
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
        running(code, sums, thread, PLACERS, PLACERS)
        with code.when(at < blocks):
            code.store(32, COUNTS, at, before + sums[thread] - own)
        code.assign(before, before + sums[PLACERS - 1])
        code.wait()
    with code.when(same(thread, 0)):
        code.store(32, TOTAL, None, before)
    return code.plain("compress: places", PLACERS)


def write() -> Plain:
    """The indices of flags, each block's from its place on."""
    code = KernelCode(*pointers(INPUT, COUNTS, INDICES), *extents(LENGTH), StrideParameter(INPUT, 0))
    each = PIECE // COUNTERS
    thread = code.set("thread", i64(THREAD))
    sums = code.shared("sums", COUNTERS, "int32")
    first = code.set("first", i64(BLOCK) * PIECE + thread * each)
    own = code.set("own", i32(0))
    at, mine = code.local("at"), (first, call("min", first + each, code.extent(LENGTH)))
    with code.loop(at, *mine), code.when(_flag(code, at)):
        code.assign(own, own + 1)
    code.assign(sums[thread], own)
    code.wait()
    running(code, sums, thread, COUNTERS, COUNTERS)
    to = code.set("to", code.load(32, COUNTS, i64(BLOCK)) + sums[thread] - own)
    with code.loop(at, *mine), code.when(_flag(code, at)):
        code.store(32, INDICES, to, at)
        code.assign(to, to + 1)
    return code.plain("compress: indices", COUNTERS)
