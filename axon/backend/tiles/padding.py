"""A copy of a tensor with padding around it and each remainder of its last dimension as a run of its own: its text, and its tables.

text       element types of the tensor and of the copy -> the function that copies some rows, in the words of kernels
places     where in the tensor each row of the copy begins, or NOWHERE of one that is all padding
inside     in each remainder's run, the columns that are of the tensor
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = Any
NOWHERE = 1 << 62


NEAR = 3  # elements apart, at most, of which vectors are made by shuffles: for each there is a loop


def text(source: str, held: str) -> str:
    """Rows of `phases` runs of `width` columns; in the tensor a column's neighbour is `gap` elements on, a phase's `apart`."""
    alike = "copy(out, to + low, source, start + low, high - low)"
    near = "".join(f"            elif gap == {gap}:\n{_loop(source, held, str(gap))}" for gap in range(2, NEAR + 1))
    return f"""\
def pad(out, source, rows, columns, padding, phases, width, gap, apart, first, last):
    value = load_{held}(padding, 0)
    for row in range(first, last):
        begin = load_i64(rows, row)
        for phase in range(phases):
            to = (row * phases + phase) * width
            low = 0
            high = 0
            if begin != {NOWHERE}:
                low = load_i64(columns, 2 * phase)
                high = load_i64(columns, 2 * phase + 1)
            for k in range(low):
                store_{held}(out, to + k, value)
            start = begin + phase * apart
            if gap == 1:
{f"                {alike}" if source == held else _loop(source, held, "1").rstrip()}
{near}            else:
{_loop(source, held, "gap")}            for k in range(high, width):
                store_{held}(out, to + k, value)
    return 0
"""


def _loop(source: str, held: str, gap: str) -> str:
    return f"""\
                for k in range(low, high):
                    store_{held}(out, to + k, load_{source}(source, start + k * {gap}))
"""


def places(counts: Sequence[int], inside: Sequence[tuple[int, int]], strides: Sequence[int], start: int) -> Array:
    """Of rows with so many indices along each dimension, of which those `inside` are of the tensor."""
    found, held = np.full(tuple(counts), start, np.int64), np.full(tuple(counts), True)
    for index, (low, high), stride in zip(np.indices(tuple(counts), np.int64), inside, strides, strict=True):
        found += index * stride
        held &= (low <= index) & (index < high)
    return np.where(held, found, NOWHERE).reshape(-1)


def inside(low: int, high: int, phases: int, width: int) -> Array:
    """Of columns of which those from `low` on, below `high`, are of the tensor: the first and one after the last of each phase."""
    first = [min(width, max(0, -(-(low - phase) // phases))) for phase in range(phases)]
    last = [min(width, -(-(high - phase) // phases)) for phase in range(phases)]
    return np.array([(at, max(at, end)) for at, end in zip(first, last, strict=True)], np.int64).reshape(-1)
