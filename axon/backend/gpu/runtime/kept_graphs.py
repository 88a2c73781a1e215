"""Which calls of a process are kept as CUDA graphs, each with the memory between its kernels: the oldest go when there are many.

All go when memory runs out: whoever asked for it asks once more, before anybody is told. A graph is made again by later calls.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol, TypeVar
from weakref import ReferenceType, ref

from axon.backend.gpu.launching.driver import OutOfDeviceMemory
from axon.backend.libraries import Library

KEPT_GRAPHS = 16
T = TypeVar("T")


class Replayed(Protocol):
    """A call that has graphs, one for each stream."""

    def forget(self, stream: int) -> None: ...


_graphs: OrderedDict[tuple[ReferenceType[Replayed], int], None] = OrderedDict()  # the oldest first


def keep(call: Replayed, stream: int) -> None:
    """Note a new graph of a call on a stream."""
    _graphs[ref(call), stream] = None
    while len(_graphs) > KEPT_GRAPHS:
        _forget_oldest()


def allocated(library: Library, make: Callable[[], T]) -> T:
    """What `make` makes in the memory of a GPU.

    Raises:
        OutOfDeviceMemory: there is no room, also when no call is kept as a graph.
    """
    try:
        return make()
    except library.full as error:
        said = str(error)
    if _graphs:
        while _graphs:
            _forget_oldest()
        try:
            return make()
        except library.full as error:
            said = str(error)
    raise OutOfDeviceMemory(library.name, said)


def _forget_oldest() -> None:
    try:
        (reference, stream), _ = _graphs.popitem(last=False)
    except KeyError:  # another thread was quicker
        return
    call = reference()
    if call is not None:
        call.forget(stream)
