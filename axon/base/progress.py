"""Progress on standard error: what takes more than a second says what it does and how far it is, where someone watches.

What is inside of something else has a line of its own. A line goes when its work is done, so that results stand alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock, Timer
from typing import Any

AFTER = 1.0  # seconds


@contextmanager
def progress(what: str, total: int | None = None) -> Iterator[Callable[[], None]]:
    """Gives what to call when one of `total` pieces is done; without a total only the time is shown.

    Shows nothing on a standard error that is no terminal.
    """
    if not sys.stderr or not sys.stderr.isatty():
        yield lambda: None
        return
    line = _Line(what, total)
    timer = Timer(AFTER, line.start)
    timer.daemon = True
    timer.start()
    try:
        yield line.step
    finally:
        timer.cancel()
        line.stop()


class _Display:
    """The lines that are shown, which share one place on the screen."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.lines = 0
        self.shown: Any = None

    def add(self, what: str, total: int | None, done: int) -> Any:
        if self.shown is None:
            self.shown = _display()
            self.shown.start()
        self.lines += 1
        return self.shown.add_task(what, total=total, completed=done)

    def remove(self, line: Any) -> None:
        self.lines -= 1
        if self.lines:
            self.shown.remove_task(line)
        else:
            self.shown.stop()
            self.shown = None


_shown = _Display()


class _Line:
    def __init__(self, what: str, total: int | None) -> None:
        self.what, self.total, self.done, self.over = what, total, 0, False
        self.task: Any = None

    def start(self) -> None:
        with _shown.lock:
            if not self.over:
                self.task = _shown.add(self.what, self.total, self.done)

    def step(self) -> None:
        with _shown.lock:
            self.done += 1
            if self.task is not None:
                _shown.shown.update(self.task, completed=self.done)

    def stop(self) -> None:
        with _shown.lock:
            self.over = True
            if self.task is not None:
                _shown.remove(self.task)


def _display() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
    from rich.text import Text

    class Counted(MofNCompleteColumn):
        """`3/10`, and nothing where nothing is counted."""

        def render(self, task: Any) -> Text:
            return super().render(task) if task.total is not None else Text()

    columns: tuple[ProgressColumn, ...] = (
        *(SpinnerColumn(), TextColumn("{task.description}", markup=False)),
        *(BarColumn(bar_width=24), Counted(), TimeElapsedColumn()),
    )
    # What is printed meanwhile goes where it would: a result must not come out of standard error.
    return Progress(*columns, console=Console(stderr=True), transient=True, redirect_stdout=False, redirect_stderr=False)
