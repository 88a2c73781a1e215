"""Ctrl-C: what it stops, and when.

Python delivers it to the main thread, between two steps of Python: machine code that runs there would hold it up. So what computes
runs in a thread of its own (`apart`) while the main thread waits. Interrupted, that thread stops at its next step of Python: at
once, or where the machine code that it runs comes to its end. Nobody waits for that; what it still computes is dropped.

No import is interrupted: half of a package like Numba can neither be used nor imported again.
"""

from __future__ import annotations

import _thread
import ctypes
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any, Generic, TypeVar

_GRACE = 0.5  # seconds that an interrupted computation has to stop before it is left behind
_STACK = 64 << 20  # bytes; programs may nest deeply
_LOOK = 0.1  # seconds between two looks for Ctrl-C, where waiting does not end by itself (Windows)
_AGAIN = 0.05  # seconds until an import is looked at again

_R = TypeVar("_R")


class Abandoned(KeyboardInterrupt):
    """An interruption of machine code that still runs: to the end of its kernel, and for nothing."""


class _Computation(threading.Thread, Generic[_R]):
    def __init__(self, work: Callable[[], _R]) -> None:
        super().__init__(daemon=True, name="axon-computation")
        self.work = work
        self.result: list[_R] = []
        self.error: BaseException | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self.result.append(self.work())
        except BaseException as error:
            self.error = error
        finally:
            self.done.set()

    def interrupt(self) -> None:
        """Have it raise KeyboardInterrupt at its next step, but in no import."""
        while not self.done.wait(_AGAIN):
            pause = sys.getswitchinterval()
            sys.setswitchinterval(60.0)  # so that no import begins between the look and the interruption
            try:
                if not _imports(sys._current_frames().get(self.ident or 0)):
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self.ident or 0), ctypes.py_object(KeyboardInterrupt))
                    return
            finally:
                sys.setswitchinterval(pause)


_left: list[_Computation[Any]] = []  # behind, still running


def apart(work: Callable[[], _R]) -> _R:
    """The result of some work, which Ctrl-C interrupts also while it runs machine code. Raises what the work raises; interrupted,
    KeyboardInterrupt, or Abandoned if some of it still runs. Off the main thread it is plain work."""
    if threading.current_thread() is not threading.main_thread():
        return work()
    before = threading.stack_size(_STACK)
    try:
        computation = _Computation(work)
        computation.start()
    finally:
        threading.stack_size(before)
    try:
        while not computation.done.wait(_LOOK):
            pass
    except KeyboardInterrupt:
        _left.append(computation)
        computation.interrupt()
        if computation.done.wait(_GRACE):
            raise
        raise Abandoned from None
    if computation.error is not None:
        raise computation.error
    return computation.result[0]


def is_running() -> bool:
    """Whether something that was interrupted still runs."""
    _left[:] = [computation for computation in _left if not computation.done.is_set()]
    return bool(_left)


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
            later.append(threading.Timer(_AGAIN, _thread.interrupt_main))
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


def _imports(frame: FrameType | None) -> bool:
    """Whether a frame stands in an import."""
    while frame is not None:
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False
