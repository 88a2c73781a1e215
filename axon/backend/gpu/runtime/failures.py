"""Failures that kernels note while they run, and the errors that they become.

Note [Failures on a GPU]
    A kernel that meets what stops a program (an index outside a tensor, a division by zero) writes 1 into a word of host memory
    that the GPU sees. Nobody waits for it: the word is looked at where the host waits anyway (results of NumPy, trip counts, sizes
    that are read back), else at the next call of the function, or when `axon.synchronize()` asks. To look costs a read of memory.

    The error is the interpreter's, run on copies of the arguments; so it has the words that the CPU has. Where it is found by a
    later call, the arguments of the last calls are tried, if they are still alive: they are held weakly, and may have been
    overwritten since. Without them the error says which function failed, and how to learn more.
"""

from __future__ import annotations

import ctypes
from collections import deque
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any
from weakref import WeakSet

from axon.backend.gpu.launching.driver import Driver, driver
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.core.ir import Program

PAGE = 4096  # bytes
RECENT = 4  # calls whose arguments are tried


@dataclass(frozen=True, slots=True)
class FailureWord:
    """An i32 of host memory that all GPUs see. It lives as long as the process, since a kernel may write there at any time."""

    address: int
    cell: Any

    def taken(self) -> bool:
        """Whether something failed since this was asked last."""
        if not self.cell.value:
            return False
        self.cell.value = 0
        return True


_lock = Lock()
_free: list[int] = []
_watches: WeakSet[Watch] = WeakSet()


def word(cuda: Driver) -> FailureWord:
    """A word of its own, holding 0. A GPU's context must be current."""
    with _lock:
        if not _free:
            page = cuda.pinned(PAGE)
            ctypes.memset(page, 0, PAGE)
            _free.extend(range(page, page + PAGE, 4))
        address = _free.pop()
    return FailureWord(address, ctypes.c_int32.from_address(address))


Copies = Callable[[], "list[Any] | None"]  # a call's arguments as NumPy arrays, if they are still alive


class Watch:
    """The failures of one program's calls on one GPU."""

    def __init__(self, program: Program, cuda: Driver, device: int) -> None:
        self.program, self.device = program, device
        self.word = word(cuda)
        self.recent: deque[tuple[Copies, Sequence[int]]] = deque(maxlen=RECENT)
        _watches.add(self)

    @property
    def address(self) -> int:
        return self.word.address

    def look(self) -> None:
        """Raise what an earlier call met."""
        if self.word.cell.value and self.word.taken():
            raise self._earlier()

    def note(self, copies: Copies, explicit: Sequence[int]) -> None:
        """A call was launched; `copies` must not keep its arguments alive."""
        self.recent.append((copies, explicit))

    def finished(self, copies: Copies, explicit: Sequence[int]) -> None:
        """Raise what this call met, once all that it launched is done."""
        if self.word.cell.value and self.word.taken():
            error = interpreted(self.program, copies, explicit)
            raise self._earlier() if error is None else error

    def _earlier(self) -> AxonError:
        where = f"in an earlier call of `{self.program.name}`"
        while self.recent:
            error = interpreted(self.program, *self.recent.pop())
            if error is not None:
                self.recent.clear()
                return type(error)(tuple(replace(d, message=f"{d.message}, {where}") for d in error.diagnostics))
        notes = ("an index computed from data was out of bounds, or integer arithmetic had no result",)
        helps = (
            "the arguments of that call are gone: keep them until `axon.synchronize()`, and the error says which index it was",
            'or run it with target="cpu"',
        )
        message = f"a kernel stopped, {where}"
        return AxonError((Diagnostic("AX0511", message, notes=notes, suggestions=tuple(map(Suggestion, helps))),))


def interpreted(program: Program, copies: Copies, explicit: Sequence[int]) -> AxonError | None:
    """What the interpreter raises for these arguments."""
    inputs = copies()
    if inputs is None:
        return None
    from axon.interpret import run

    try:
        run(program, inputs, explicit)
    except AxonError as error:
        return error
    return None


def synchronize() -> None:
    """Wait until every GPU on which something may fail is done, and raise what failed first that is found."""
    watches = list(_watches)
    for device in sorted({watch.device for watch in watches}):
        cuda = driver()
        with cuda.entered(cuda.context(device)):
            cuda.wait()
    for watch in watches:
        watch.look()
