"""Memory for what a program makes on its way, kept from call to call: fresh memory of the system costs as much as filling it.

Results are never made here; the caller owns those.
"""

from __future__ import annotations

from math import prod
from threading import RLock, local
from typing import Any

import numpy as np

from axon.interpret.box import allocate

LARGE = 1 << 16  # bytes, below which allocating costs little
KEPT = 1 << 28  # bytes that stay between calls, of all programs together
SCRATCH = 1 << 24  # bytes that a thread keeps for one purpose

Array = Any

_BYTE = np.dtype(np.uint8)
_lock = RLock()  # an array may be forgotten by whatever the thread that holds it does
_free: dict[int, list[Array]] = {}
_kept = 0


def make(shape: tuple[int, ...], dtype: Any) -> Array:
    """An array to fill. Its memory is free again when the last array in it is forgotten."""
    size = prod(shape) * dtype.itemsize
    if size < LARGE:
        return np.empty(shape, dtype)
    return np.asarray(_Taken(_take(size)))[:size].view(dtype).reshape(shape)


class _Taken:
    """Memory that is in use."""

    __slots__ = ("__array_interface__", "memory")

    def __init__(self, memory: Array) -> None:
        self.memory = memory
        self.__array_interface__ = memory.__array_interface__

    def __del__(self) -> None:
        global _kept
        with _lock:
            if _kept + self.memory.size <= KEPT:
                _free.setdefault(self.memory.size, []).append(self.memory)
                _kept += self.memory.size


def _take(size: int) -> Array:
    """Memory of at least so many bytes, in steps of an eighth, so that sizes that differ a little share it."""
    global _kept
    step = max(LARGE, 1 << (size.bit_length() - 4))
    rounded = (size + step - 1) // step * step
    with _lock:
        found = _free.get(rounded)
        if found:
            _kept -= rounded
            return found.pop()
    return allocate((rounded,), _BYTE)


class Scratch(local):
    """Memory of one thread for what lives no longer than a piece of a kernel: one array for each slot, used by every kernel."""

    def __init__(self) -> None:
        self.slots: dict[str, Array] = {}

    def array(self, slot: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array to fill, until the slot is asked for again."""
        size = prod(shape) * dtype.itemsize
        memory = self.slots.get(slot)
        if memory is None or memory.size < size:
            memory = allocate((size,), _BYTE)
            if size <= SCRATCH:
                self.slots[slot] = memory
        return memory[:size].view(dtype).reshape(shape)
