"""Views of arrays by strides, and windows that show an array with padding around it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.lib.stride_tricks import as_strided

from axon.core.ir import Const
from axon.interpret.arithmetic import Array, constant


def strided(array: Array, shape: Sequence[int], strides: Sequence[int], *, writeable: bool = False) -> Array:
    """A view with these extents and steps in bytes. NumPy cannot describe the types of ml_dtypes to `as_strided`: they go as
    integers."""
    if array.dtype.isbuiltin == 1:
        return as_strided(array, shape, strides, writeable=writeable)
    return as_strided(array.view(f"u{array.itemsize}"), shape, strides, writeable=writeable).view(array.dtype)


def padded(array: Array, ranges: Sequence[tuple[int, int]], padding: Const) -> Array:
    """A copy of what the ranges show of an array, the last index included, with padding where they leave it."""
    shape = [high - low + 1 for low, high in ranges]
    shown = np.empty(shape, array.dtype)
    shown[...] = constant(padding.value, padding.element, len(shape))
    into, out_of = [], []
    for (low, high), size in zip(ranges, array.shape, strict=True):
        first, last = max(low, 0), min(high + 1, size)
        if first >= last:
            return shown
        into.append(slice(first - low, last - low))
        out_of.append(slice(first, last))
    shown[tuple(into)] = array[tuple(out_of)]
    return shown
