"""NumPy's BLAS on the thread that asks: our own threads share a product, whose bits then do not depend on how many they are.

How many threads BLAS uses decides how it cuts a product, and so the last bits of its results. The count is BLAS's, of the whole
process, or of each thread where BLAS is built on OpenMP. It is 1 while a kernel runs, and put back when the last kernel is done:
products that others in the process ask for meanwhile take longer, and may differ by the order of sums.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from threading import Lock
from types import TracebackType
from typing import Any

from axon.base.data import dataclass

_lock = Lock()
_before: list[int] = []  # how many threads each library used when no kernel ran
_running = 0  # kernels


@dataclass(frozen=True, slots=True)
class _Library:
    """How many threads a BLAS uses; `each`, whether every thread has a count of its own."""

    count: Callable[[], int]
    use: Callable[[int], Any]
    each: bool


@cache
def _libraries() -> tuple[_Library, ...]:
    """NumPy's BLAS, and others that are loaded."""
    from threadpoolctl import ThreadpoolController

    return tuple(map(_library, ThreadpoolController().select(user_api="blas").lib_controllers))


def _library(found: Any) -> _Library:
    """OpenBLAS's own functions where it has its own threads: threadpoolctl looks them up by name in every call, which takes as
    long as a small product does, and lets no second thread set the count."""
    count, use = found.get_num_threads, found.set_num_threads
    layer = getattr(found, "threading_layer", "")
    if found.internal_api == "openblas" and layer == "pthreads":
        count = found._get_symbol("openblas_get_num_threads") or count
        use = found._get_symbol("openblas_set_num_threads") or use
    return _Library(count, use, layer == "openmp")


class one_thread:
    """BLAS computes what this thread asks of it on this thread."""

    __slots__ = ("own",)

    def __enter__(self) -> None:
        global _running
        with _lock:
            self.own = [library.count() for library in _libraries()]
            if not _running:
                _before[:] = self.own
            _running += 1
            if max(self.own, default=1) > 1:
                for library in _libraries():
                    library.use(1)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        global _running
        with _lock:
            _running -= 1
            for library, before, mine in zip(_libraries(), _before, self.own, strict=True):
                if library.each:
                    library.use(mine)
                elif not _running and before > 1:
                    library.use(before)


def alone() -> None:
    """In a thread of the pool, whose caller holds `one_thread`: there too, where the count is of each thread."""
    for library in _libraries():
        if library.each and library.count() != 1:
            library.use(1)
