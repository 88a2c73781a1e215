"""One pool of threads for every kernel of the process: they share a kernel by taking pieces of its work, one after the other.

Machine code runs without Python's lock, so the caller's thread and the pool's compute at once. Sharing costs about ten
microseconds: small kernels stay in the calling thread.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from itertools import count
from queue import SimpleQueue
from threading import Event, Lock, Thread

from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError

PIECES = 4  # for each thread, so that one that is slow, or rows that differ, do not hold up the others
MOST = 1024  # threads
WORTH_SHARING = 100_000  # additions, about what a thread does in the time that sharing costs

Work = Callable[[int, int, int], int]  # the number of the thread, the first item, the last but one: 0, or 1 to stop the program


def available() -> int:
    """How many threads to use: AXON_THREADS, or as many as this process has processors. AX0505 if that is no number of them."""
    chosen = os.environ.get("AXON_THREADS", "")
    if chosen.isdecimal() and 1 <= int(chosen) <= MOST:
        return int(chosen)
    if chosen:
        raise AxonError((Diagnostic("AX0505", f"AXON_THREADS must be a number from 1 to {MOST}, not {chosen!r}"),))
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class _Pool:
    """Threads that wait for tasks; they start when there is something to share, and again in a child process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.started = 0
        self.process = os.getpid()

    def want(self, threads: int) -> SimpleQueue[Callable[[], None]]:
        with self.lock:
            if self.process != os.getpid():  # threads do not survive a fork
                self.tasks, self.started, self.process = SimpleQueue(), 0, os.getpid()
            while self.started < threads:
                Thread(target=self._serve, args=(self.tasks,), daemon=True, name=f"axon-{self.started}").start()
                self.started += 1
            return self.tasks

    @staticmethod
    def _serve(tasks: SimpleQueue[Callable[[], None]]) -> None:
        while True:
            tasks.get()()


_pool = _Pool()


def share(work: Work, items: int, cost: int) -> int:
    """Do the work for items 0 to items - 1 on as many threads as it is worth; 1 if any piece says to stop.

    What a piece raises on another thread is raised here.
    """
    wanted = min(items, cost // WORTH_SHARING)
    threads = min(available(), wanted) if wanted > 1 else 1
    if threads <= 1:
        return work(0, 0, items)
    pieces = min(items, threads * PIECES)
    bounds = [items * i // pieces for i in range(pieces + 1)]
    numbers = count()  # taking the next one is atomic
    stopped: list[int] = []
    raised: list[BaseException] = []

    def take(thread: int) -> None:
        while not stopped and (piece := next(numbers)) < pieces:
            if work(thread, bounds[piece], bounds[piece + 1]):
                stopped.append(1)

    done = [Event() for _ in range(threads - 1)]

    def help_out(thread: int) -> None:
        try:
            take(thread)
        except BaseException as error:
            raised.append(error)
            stopped.append(1)
        finally:
            done[thread - 1].set()

    tasks = _pool.want(threads - 1)
    for thread in range(1, threads):
        tasks.put(partial(help_out, thread))
    try:
        take(0)
    except BaseException:
        stopped.append(1)
        raise
    finally:
        for event in done:
            event.wait()
    if raised:
        raise raised[0]
    return 1 if stopped else 0
