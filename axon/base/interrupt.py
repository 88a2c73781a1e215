"""Ctrl-C in the main thread: it stops what runs there, but no import.

Half of a package like Numba can neither be used nor imported again. What may run long in machine code, which Ctrl-C does not stop,
runs in a process of its own, which is started so that it never hears of Ctrl-C, and is killed: see `computing`, `backend.worker`.
"""

from __future__ import annotations

import _thread
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_AGAIN = 0.05  # seconds until an import is looked at again


@contextmanager
def interruptible() -> Iterator[None]:
    """Ctrl-C stops what runs in the main thread, but no import."""
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler or threading.current_thread() is not threading.main_thread():
        yield
        return

    later: list[threading.Timer] = []

    def interrupt(number: int, frame: FrameType | None) -> None:
        if _imports(frame):
            later.append(threading.Timer(_AGAIN, _interrupt, (threading.get_ident(),)))
            later[-1].start()
            return
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        for timer in later:
            timer.cancel()


@contextmanager
def without_interruptions() -> Iterator[None]:
    """What is started inside never hears of Ctrl-C, which the terminal sends to everything that runs in it."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _interrupt(main: int) -> None:
    """Like Ctrl-C: `_thread.interrupt_main`, which is all that Windows has, does not end a system call that waits."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(main, signal.SIGINT)


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame stands in an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
