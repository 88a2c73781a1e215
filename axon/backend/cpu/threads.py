"""One pool of threads for every kernel of the process: they share a kernel by taking pieces of its work, one after the other.

Machine code runs without Python's lock, so the caller's thread and the pool's compute at once, and takes its pieces by itself
(`kernel.taking`); what is the host's to do (`share`) comes back to Python after each piece. Sharing costs about ten microseconds:
small kernels stay in the calling thread.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from axon.backend.cpu import build
from axon.backend.kernel import taking
from axon.backend.kernel.taking import Taking
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError

PIECES = 4, 16  # for each thread, so that one that is late, or rows that differ, do not hold up the others: the more it is worth
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


class _Task:
    """Work of the host's that is shared: who takes part takes the next of its pieces until there are none."""

    __slots__ = ("done", "items", "numbers", "pieces", "raised", "stopped", "work")

    def __init__(self, work: Work, items: int, pieces: int) -> None:
        self.work, self.items, self.pieces = work, items, pieces
        self.numbers = count()  # taking the next one is atomic
        self.stopped = False
        self.raised: BaseException | None = None
        self.done: SimpleQueue[None] = SimpleQueue()

    def take(self, thread: int) -> None:
        work, items, pieces = self.work, self.items, self.pieces
        while not self.stopped and (piece := next(self.numbers)) < pieces:
            if work(thread, items * piece // pieces, items * (piece + 1) // pieces):
                self.stopped = True

    def help_out(self, thread: int) -> None:
        try:
            self.take(thread)
        except BaseException as error:
            self.raised = error
            self.stopped = True
        finally:
            self.done.put(None)


class _KernelTask:
    """A kernel that is shared. `arguments` are those of the calling thread."""

    __slots__ = ("arguments", "done", "raised", "state")

    def __init__(self, state: Taking, arguments: Callable[[], Sequence[int]]) -> None:
        self.state, self.arguments = state, arguments
        self.raised: BaseException | None = None
        self.done: SimpleQueue[None] = SimpleQueue()

    def help_out(self, thread: int) -> None:
        try:
            if self.state.left:
                self.state.take(self.arguments(), began=False)
        except BaseException as error:
            self.raised = error
        finally:
            self.done.put(None)


class _Pool:
    """Threads that wait for tasks; they start when there is something to share, and again in a child process."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.tasks: SimpleQueue[tuple[_Task | _KernelTask, int]] = SimpleQueue()
        self.started = 0
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Threads do not survive a fork."""
        self.lock, self.tasks, self.started = Lock(), SimpleQueue(), 0

    def want(self, threads: int) -> SimpleQueue[tuple[_Task | _KernelTask, int]]:
        if self.started < threads:
            with self.lock:
                while self.started < threads:
                    Thread(target=self._serve, args=(self.tasks,), daemon=True, name=f"axon-{self.started}").start()
                    self.started += 1
        return self.tasks

    @staticmethod
    def _serve(tasks: SimpleQueue[tuple[_Task | _KernelTask, int]]) -> None:
        while True:
            task, thread = tasks.get()
            task.help_out(thread)
            del task  # and what it holds, until the next one comes


_pool = _Pool()


def share(work: Work, items: int, cost: int) -> int:
    """Do the work for items 0 to items - 1 on as many threads as it is worth; 1 if any piece says to stop.

    What a piece raises on another thread is raised here. The others are called before anything else is done: they take longer to
    come than this thread to begin.
    """
    threads, pieces = _parts(items, cost)
    if threads <= 1:
        return work(0, 0, items)
    task = _Task(work, items, pieces)
    _call(task, threads)
    try:
        task.take(0)
    except BaseException:
        task.stopped = True
        raise
    finally:
        for _ in range(1, threads):
            task.done.get()
    if task.raised is not None:
        raise task.raised
    return int(task.stopped)


def share_kernel(kernel: build.Native, arguments: Callable[[], Sequence[int]], items: int, cost: int) -> int:
    """The same of machine code, of a kernel with these arguments: each thread's, since it may have memory of its own."""
    threads, pieces = _parts(items, cost)
    mine = arguments()
    if threads <= 1:
        return kernel.call(*mine, 0, items)
    task = _KernelTask(Taking(_taker(len(mine)), kernel.address, items, pieces), arguments)
    _call(task, threads)
    try:
        task.state.take(mine, began=True)
    except BaseException:
        task.state.stop()
        raise
    finally:
        while task.state.at_work:  # whoever is will say when it is not
            task.done.get()
    if task.raised is not None:
        raise task.raised
    return task.state.answer


def _parts(items: int, cost: int) -> tuple[int, int]:
    """How many threads work of this cost is worth, and into how many pieces they cut it."""
    wanted = min(items, cost // WORTH_SHARING)
    threads = min(available(), wanted) if wanted > 1 else 1
    least, most = PIECES
    return threads, min(items, threads * max(least, min(most, wanted // threads)))


def _call(task: _Task | _KernelTask, threads: int) -> None:
    tasks = _pool.want(threads - 1)
    for thread in range(1, threads):
        tasks.put((task, thread))


@cache
def _taker(arguments: int) -> Callable[..., None]:
    """What takes pieces of kernels with so many arguments, and a range of items after them (Note [Convention] in `lowering`)."""
    text = Path(taking.__file__).read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join((build.machine_tools(), text, str(arguments))).encode()).hexdigest()
    address = build.linked(*build.kept(key, lambda: _compiled(arguments)))
    pointer = ctypes.c_void_p
    return ctypes.CFUNCTYPE(None, pointer, pointer, pointer, ctypes.c_int64)(address)


def _compiled(arguments: int) -> tuple[str, bytes]:
    import llvmlite.binding as llvm

    with build.alone:
        machine = build.this_machine()
        module = llvm.parse_assembly(str(taking.taker(arguments, llvm.get_process_triple())))
        module.verify()
        return taking.NAME, bytes(machine.emit_object(module))
