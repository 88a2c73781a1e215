"""One pool of threads for every kernel of the process: they share a kernel by taking pieces of its work, one after the other.

Machine code runs without Python's lock, so the caller's thread and the pool's compute at once, and takes its pieces by itself
(`kernel.taking`); what is the host's to do (`share`) comes back to Python after each piece. Sharing costs about ten microseconds:
small kernels stay in the calling thread.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import time
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Lock, Thread

from axon.backend.cpu import build
from axon.backend.kernel import taking as emitted
from axon.backend.kernel.taking import LISTENING, Offer, Taking
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError

PIECES = 4, 16  # for each thread, so that one that is late, or rows that differ, do not hold up the others: the more it is worth
MOST = 1024  # threads
WORTH_SHARING = 200_000  # additions by vectors, about what a thread does in the time that sharing costs

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

    def help_out(self, thread: int, box: int) -> None:
        try:
            self.take(thread)
        except BaseException as error:
            self.raised = error
            self.stopped = True
        finally:
            self.done.put(None)


class _KernelTask:
    """A kernel that is shared, of which a helper hears from Python: one that does not wait for offers."""

    __slots__ = ("offer",)

    def __init__(self, offer: Offer) -> None:
        self.offer = offer

    def help_out(self, thread: int, box: int) -> None:
        _taking("serve")(self.offer.address, box)


class _Pool:
    """Threads that wait for tasks; they start when there is something to share, and again in a child process. Each has a box, of
    which `boxes` are the addresses (Note [Boxes] in `kernel.taking`)."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._forget()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self._forget)

    def _forget(self) -> None:
        """Threads do not survive a fork."""
        self.lock = Lock()
        self.tasks: SimpleQueue[tuple[_Task | _KernelTask, int]] = SimpleQueue()
        self.boxes: list[int] = []

    def want(self, threads: int) -> SimpleQueue[tuple[_Task | _KernelTask, int]]:
        if len(self.boxes) < threads:
            with self.lock:
                while len(self.boxes) < threads:
                    box = (ctypes.c_int64 * 16)()  # two cache lines, of which one is whole
                    address = (ctypes.addressof(box) + 63) // 64 * 64
                    name = f"axon-{len(self.boxes)}"
                    Thread(target=self._serve, args=(self.tasks, box, address), daemon=True, name=name).start()
                    self.boxes.append(address)
        return self.tasks

    @staticmethod
    def _serve(tasks: SimpleQueue[tuple[_Task | _KernelTask, int]], box: object, address: int) -> None:
        while True:
            task, thread = tasks.get()
            task.help_out(thread, address)
            del task  # and what it holds, until the next one comes


def _listens(box: int) -> bool:
    return ctypes.c_int64.from_address(box).value == LISTENING


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
    tasks = _pool.want(threads - 1)
    for thread in range(1, threads):
        tasks.put((task, thread))
    for box in _pool.boxes:
        if _listens(box):
            _taking("dismiss")(box)
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


def share_kernel(kernel: build.Native, arguments: Callable[[int], Sequence[int]], items: int, cost: int) -> int:
    """The same of machine code, of a kernel with these arguments for each number of a thread: it may have memory of its own."""
    threads, pieces = _parts(items, cost)
    mine = arguments(0)
    if threads <= 1:
        return kernel.call(*mine, 0, items)
    taking, work = Taking(items, pieces), address(f"work {len(mine)}")
    own = Offer(work, kernel.address, mine, taking)
    given = [arguments(thread) for thread in range(1, threads)]
    offers = [own if one is mine else Offer(work, kernel.address, one, taking) for one in given]
    tasks = _pool.want(threads - 1)
    boxes = _pool.boxes[: threads - 1]
    words = ctypes.c_int64 * len(offers)
    to_boxes, to_offers = words(*boxes), words(*[offer.address for offer in offers])
    try:
        for thread, (box, offer) in enumerate(zip(boxes, offers, strict=True), 1):
            if not _listens(box):
                tasks.put((_KernelTask(offer), thread))
        _taking("begin")(own.address, ctypes.addressof(to_boxes), ctypes.addressof(to_offers), len(offers))
    except BaseException:
        taking.stop()
        raise
    finally:
        _wait(taking)
    return taking.answer


def _wait(taking: Taking) -> None:
    """Until nobody is at work, whatever happens: memory of the call is written until then."""
    interrupted: BaseException | None = None
    seconds = 2e-5
    while taking.at_work:
        try:
            time.sleep(seconds)
            seconds = min(2 * seconds, 1e-3)
        except BaseException as error:
            taking.stop()
            interrupted = error
    if interrupted is not None:
        raise interrupted


def _parts(items: int, cost: int) -> tuple[int, int]:
    """How many threads work of this cost is worth, and into how many pieces they cut it."""
    wanted = min(items, cost // WORTH_SHARING)
    threads = min(available(), wanted) if wanted > 1 else 1
    least, most = PIECES
    return threads, min(items, threads * max(least, min(most, wanted // threads)))


def is_shared(items: int, cost: int) -> bool:
    """Whether a kernel is worth more than one thread, where there are some."""
    return min(items, cost // WORTH_SHARING) > 1


@cache
def address(name: str) -> int:
    """Where machine code of `kernel.taking` is, by its name there, and by the number of arguments of kernels where it asks that."""
    text = Path(emitted.__file__).read_text(encoding="utf-8")
    key = hashlib.sha256("\0".join((build.machine_tools(), text, name)).encode()).hexdigest()
    return build.linked(*build.kept(key, lambda: _compiled(name)))


@cache
def _taking(name: str) -> Callable[..., None]:
    words = {"begin": 4, "serve": 2, "dismiss": 1}[name]
    return ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * words)(address(name))


def _compiled(name: str) -> tuple[str, bytes]:
    import llvmlite.binding as llvm

    kind, *arguments = name.split()
    with build.alone:
        machine = build.this_machine()
        written = getattr(emitted, kind)(llvm.get_process_triple(), *map(int, arguments))
        module = llvm.parse_assembly(str(written))
        module.verify()
        return emitted.NAME, bytes(machine.emit_object(module))
