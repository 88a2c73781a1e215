"""How many threads NumPy's BLAS uses: all of them for one large product, one where our own threads share many.

The count is BLAS's, of the whole process, or of each thread where BLAS is built on OpenMP. It is lowered while a kernel runs and
put back when the last kernel that wants it is done: other products in the process meanwhile take longer, and give the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_lock = Lock()
_wanted: list[int] = []  # by the kernels that run now
_before: list[int] = []  # of each library, when none ran


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
def at_most(threads: int) -> Iterator[None]:
    """BLAS uses no more threads than so many for what this thread asks of it."""
    libraries = _libraries()
    own = [library.get_num_threads() for library in libraries]
    with _lock:
        if not _wanted:
            _before[:] = own
        _wanted.append(threads)
        for library, count in zip(libraries, _before, strict=True):
            _set(library, min(count, *_wanted) if not _of_each_thread(library) else min(count, threads))
    try:
        yield
    finally:
        with _lock:
            _wanted.remove(threads)
            for library, count, mine in zip(libraries, _before, own, strict=True):
                _set(library, mine if _of_each_thread(library) else min(count, *_wanted, count))


def alone() -> None:
    """In a thread of the pool, whose caller holds `at_most(1)`: there too, where the count is of each thread."""
    for library in _libraries():
        if _of_each_thread(library):
            _set(library, 1)
