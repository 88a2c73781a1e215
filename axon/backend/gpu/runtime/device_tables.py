"""Literal tables in the memory of GPUs: put there once, and read there by every kernel that mentions them.

Note [Tables stay]
    A table's address stands in the arguments of launches, and in graphs that a caller may have recorded. So its memory is given
    back as little as a kernel's machine code is: with the process. It is as large as the text that states it, and programs with
    equal tables share it, so that a program that is loaded again and again takes no more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from threading import Lock
from weakref import WeakKeyDictionary

import numpy as np

from axon.backend.gpu.launching.driver import Driver
from axon.backend.gpu.layout.memory import DeviceTensor, contiguous
from axon.backend.plan.scratch import ALIGNMENT
from axon.base.names import Symbol
from axon.core.ir import Compute
from axon.core.passes.tables import values_of

_lock = Lock()
_placed: WeakKeyDictionary[Driver, dict[tuple[int, bytes], int]] = WeakKeyDictionary()  # by GPU and content: addresses


class DeviceTables:
    """The tables of a program on the GPUs on which it is called. Safe to use from several threads."""

    def __init__(self, tables: Sequence[Compute]) -> None:
        self._tables = tuple(tables)
        self.values = {out.symbol: out for op in self._tables for out in op.outs}
        self._on: dict[tuple[Driver, int], dict[Symbol, DeviceTensor]] = {}
        self._lock = Lock()

    def on(self, cuda: Driver, device: int) -> dict[Symbol, DeviceTensor]:
        """The tables in the memory of a GPU whose context is current; the first time, the host waits until they are there."""
        if not self._tables:
            return {}
        with self._lock:
            found = self._on.get((cuda, device))
            if found is None:
                found = self._on[cuda, device] = self._put(cuda, device)
            return found

    def _put(self, cuda: Driver, device: int) -> dict[Symbol, DeviceTensor]:
        arrays = values_of(self._tables)
        places: dict[Symbol, int] = {}
        content = bytearray()
        for symbol, array in arrays.items():
            places[symbol] = len(content)
            content += array.tobytes()
            content += bytes(-len(content) % ALIGNMENT)
        address = _address(cuda, device, bytes(content))
        return {s: contiguous(address + places[s], array.shape, self.values[s].element) for s, array in arrays.items()}


NONE = DeviceTables(())


def _address(cuda: Driver, device: int, content: bytes) -> int:
    """Where these bytes lie on a GPU. See Note [Tables stay]."""
    key = device, hashlib.sha256(content).digest()
    with _lock:
        placed = _placed.setdefault(cuda, {})
        if key not in placed:
            address = cuda.allocate(len(content))
            source = np.frombuffer(content, np.uint8)
            cuda.upload(address, source.ctypes.data, len(content))
            # What comes from pageable memory may still be on its way, and a caller's stream does not wait for it.
            cuda.check("cuStreamSynchronize", cuda.wait_for(0))
            placed[key] = address
        return placed[key]
