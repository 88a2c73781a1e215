"""NumPy's BLAS on the thread that asks: our own threads share a product, whose bits then do not depend on how many they are.

How many threads BLAS uses decides how it cuts a product, and so the last bits of its results. The count is BLAS's, of the whole
process, or of each thread where BLAS is built on OpenMP. It is 1 while a kernel runs, and put back when the last kernel is done:
products that others in the process ask for meanwhile take longer, and may differ by the order of sums.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_before: list[int] = []  # how many threads each library used when no kernel ran
_running = 0  # kernels


@cache
def _libraries() -> list[Any]:
    """NumPy's BLAS, and others that are loaded."""
    from threadpoolctl import ThreadpoolController

    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def _set(library: Any, threads: int) -> None:
    if library.get_num_threads() != threads:
        library.set_num_threads(threads)


def _of_each_thread(library: Any) -> bool:
    return bool(getattr(library, "threading_layer", "") == "openmp")


@contextmanager
def one_thread() -> Iterator[None]:
    """BLAS computes what this thread asks of it on this thread."""
    global _running
    libraries = _libraries()
    own = [library.get_num_threads() for library in libraries]
    with _lock:
        if _running == 0:
            _before[:] = own
        _running += 1
        for library in libraries:
            _set(library, 1)
    try:
        yield
    finally:
        with _lock:
            _running -= 1
            for library, count, mine in zip(libraries, _before, own, strict=True):
                if _of_each_thread(library):
                    _set(library, mine)
                elif _running == 0:
                    _set(library, count)


def alone() -> None:
    """In a thread of the pool, whose caller holds `one_thread`: there too, where the count is of each thread."""
    for library in _libraries():
        if _of_each_thread(library):
            _set(library, 1)
