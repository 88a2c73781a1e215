"""A progress bar on standard error, for building kernels when it takes more than a second and someone watches."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

AFTER = 1.0  # seconds


@contextmanager
def bar(total: int, what: str = "building kernels") -> Iterator[Callable[[], None]]:
    """Gives what to call when one of `total` pieces is done. Shows nothing on a standard error that is no terminal."""
    if not sys.stderr or not sys.stderr.isatty():
        yield lambda: None
        return
    state = _Bar(total, what)
    timer = Timer(AFTER, state.start)
    timer.daemon = True
    timer.start()
    try:
        yield state.step
    finally:
        timer.cancel()
        state.stop()


class _Bar:
    def __init__(self, total: int, what: str) -> None:
        self.total, self.what, self.done, self.over = total, what, 0, False
        self.lock = Lock()
        self.shown: Any = None

    def start(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        with self.lock:
            if self.over:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
            self.shown = Progress(*columns, console=Console(stderr=True), transient=True)
            self.shown.add_task(self.what, total=self.total, completed=self.done)
            self.shown.start()

    def step(self) -> None:
        with self.lock:
            self.done += 1
            if self.shown is not None:
                self.shown.update(self.shown.task_ids[0], completed=self.done)

    def stop(self) -> None:
        with self.lock:
            self.over = True
            if self.shown is not None:
                self.shown.stop()
