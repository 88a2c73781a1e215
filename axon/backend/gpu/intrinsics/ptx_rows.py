"""Rows from shared to global memory, wherever they start there, as numba-cuda intrinsics.

A row of so many bytes lies in shared memory in chunks of 16 bytes; chunk c of it at c ^ (row & 7), so that eight rows written at
once go to different banks. In global memory it starts at a multiple of its elements' size and no more. Each of some neighbouring
threads, one for each chunk, stores one of the row's chunks of 16 bytes *there*, which it puts together from two of those here; and
then at most one element in front of the first of them, or behind the last.
"""

from __future__ import annotations

from typing import Any

from axon.backend.gpu.intrinsics.ptx import Instruction, instruction

CHUNK = 16  # bytes that a thread stores at once


def store_row(size: int, row: int) -> Any:
    """(address of the row in global memory, in shared memory, row & 7, place among the threads of the row, elements inside): store
    the row's first elements, of `size` bytes each. There may be none of them inside.
    """
    each = CHUNK // size
    step = row // CHUNK  # threads of a row
    shift = size.bit_length() - 1
    lines = [
        "{ .reg .pred whole, some, behind; .reg .b32 count, front, chunks, at, here, next, moved, index; .reg .b64 there, wide;",
        f".reg .b32 {', '.join(f'w{i}' for i in range(8))}; .reg .b{8 * size} one;",
        "max.s32 count, $4, 0;",
        # Elements before the first multiple of 16 bytes, and chunks from there on.
        f"cvt.u32.u64 front, $0; neg.s32 front, front; and.b32 front, front, {CHUNK - 1}; shr.u32 front, front, {shift};",
        f"min.s32 front, front, count; sub.s32 chunks, count, front; shr.s32 chunks, chunks, {each.bit_length() - 1};",
        # This thread's chunk there begins `at` bytes into the row, in the middle of two chunks here.
        f"shl.b32 at, front, {shift}; shl.b32 moved, $3, 4; add.s32 at, at, moved; setp.lt.s32 whole, $3, chunks;",
        "and.b32 moved, at, 15; shr.u32 here, at, 4;",
        "setp.ne.s32 some, moved, 0; selp.b32 next, 1, 0, some; add.s32 next, here, next;",
        *(f"xor.b32 {c}, {c}, $2; shl.b32 {c}, {c}, 4; add.s32 {c}, {c}, $1;" for c in ("here", "next")),
        "@whole ld.shared.v4.b32 {w0, w1, w2, w3}, [here]; @whole ld.shared.v4.b32 {w4, w5, w6, w7}, [next];",
    ]
    for bit, count in ((8, 6), (4, 5)):
        lines.append(f"and.b32 index, moved, {bit}; setp.ne.s32 some, index, 0;")
        lines += [f"selp.b32 w{i}, w{i + bit // 4}, w{i}, some;" for i in range(count)]
    if size < 4:
        lines.append("and.b32 moved, moved, 3; shl.b32 moved, moved, 3;")
        lines += [f"shf.r.wrap.b32 w{i}, w{i}, w{i + 1}, moved;" for i in range(4)]
    lines.append("cvt.u64.u32 wide, at; add.s64 there, $0, wide; @whole st.global.v4.b32 [there], {w0, w1, w2, w3};")
    # Element `place` in front, or that many behind: of each there are fewer than a chunk has.
    lines.append("max.s32 chunks, chunks, 0;")
    for round_ in range(-(-2 * each // step)):
        lines += [
            f"add.s32 index, $3, {round_ * step}; setp.ge.s32 behind, index, {each};",
            f"mad.lo.s32 at, chunks, {each}, front; sub.s32 at, at, {each}; add.s32 at, at, index; selp.b32 at, at, index, behind;",
            "selp.b32 moved, count, front, behind; setp.lt.s32 some, at, moved;",
            f"shl.b32 at, at, {shift}; shr.u32 here, at, 4; xor.b32 here, here, $2; shl.b32 here, here, 4; and.b32 moved, at, 15;",
            "add.s32 here, here, moved; add.s32 here, here, $1; cvt.u64.u32 wide, at; add.s64 there, $0, wide;",
            f"@some ld.shared.b{8 * size} one, [here]; @some st.global.b{8 * size} [there], one;",
        ]
    return instruction(Instruction(" ".join([*lines, "}"]), "lrrrr"))
