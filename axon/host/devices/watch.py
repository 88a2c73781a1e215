"""What the processes of a mesh tell one another beside their tensors: where each is, who has ended, and what stopped all of them.

A collective that one process does not join never ends, and a process that died says nothing. So each writes into the store that
`torch.distributed` has anyway, from a thread: a beat, and where its program is. Who waits reads it, and ends with an error that
names the process at fault; what the first to find out writes there is the error of all.

Note [How long it takes]
~~~~~~~~~~~~~~~~~~~~~~~~
A process writes every BEAT seconds. Who has waited for SUSPECT seconds begins to read what the others write: one that has ended
is at fault at once; one whose beat stands still for `silence` seconds has died or is stopped; one that beats
and yet is behind for `timeout` seconds hangs. A connection that breaks is evidence, so that a third of the silence will do.

Note [On a GPU]
~~~~~~~~~~~~~~~
A collective is waited for on the stream, so that a program may stand where it waits for its GPU, and no exception reaches it: at
`x.item()`, or at a CUDA graph that is replayed. So each call, also one that a graph has recorded, counts on the GPU where it begins
and where it ends, in memory that the thread reads. If the two differ for SUSPECT seconds, the thread looks whether a process has
died; nothing more, for a call may take as long as it likes. Then the processes are stopped, and one whose GPU still waits ends
LINGER seconds later; SILENCE later still if all that is known is that the store is gone, which may be with a program that was done.

Note [What is compared]
~~~~~~~~~~~~~~~~~~~~~~~
Backends do not notice that two processes call different collectives: they give each what the other sent, or wait for ever. So every
call begins with one of its own, 16 bytes on a group that is for this alone, and none of the program's begins before that one has
ended: the least of a digest, and of its negative, over all processes. What differs is then told through the store. It is under way
while the first local program runs.
"""

from __future__ import annotations

import atexit
import json
import os
import socket
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from threading import Event, Thread
from time import monotonic, sleep
from typing import Any

import torch
import torch.distributed as dist

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError

BEAT = 0.5  # seconds
SUSPECT = 1.0
SILENCE = 12.0  # at most: a shorter timeout makes it shorter
MANY = 16  # processes at which one looks at a time
GRACE = 3.0  # what a process that hangs has after it was blamed, before it is ended
LINGER = 10.0  # what any process has in which a call does not hear that all are stopped, for it waits where nothing reaches it
FAULT = "AX0903"
DISAGREE = "AX0902"


@dataclass(frozen=True, slots=True)
class Status:
    """Where a process is. Calls of functions over the mesh are counted, and steps within one."""

    call: int = 0
    step: int = 0
    state: str = "idle"  # between calls; running, waiting; ended
    said: str = ""  # which call it is: of what, at which sizes; of what has ended, why
    what: str = ""  # the step
    beat: int = 0
    host: str = ""


class Watch:
    """Of the processes `ranks`, in `rank`, which is one of them. `names` says what each is called: `rank 2 (data 1, model 0)`."""

    def __init__(self, store: Any, rank: int, ranks: Sequence[int], names: Callable[[int], str], timeout: float) -> None:
        """`store` is for this watch alone, and for use from two threads."""
        self.rank, self.ranks, self.names, self.timeout = rank, tuple(ranks), names, timeout
        self.status = Status(host=f"process {os.getpid()} on {socket.gethostname()}")
        self._store, self._beating = store, store.clone() if hasattr(store, "clone") else store
        self._stopped: Diagnostic | None = None
        self._raised = False  # whether this program has heard so
        self._group: Any = None
        self._asked: tuple[dict[str, str], Any] | None = None
        self._asking: Any = None  # under way
        self._compared = 0
        self.busy: Callable[[], int | None] = lambda: None  # which call is under way on the GPU, by number; see Note [On a GPU]
        self._end = Event()
        self._thread = Thread(target=self._beat, name="axon-watch", daemon=True)
        self._thread.start()
        atexit.register(self._leave)

    @property
    def silence(self) -> float:
        return min(SILENCE, max(self.timeout / 2, 3 * BEAT))

    # ── where this process is ───────────────────────────────────────────────────────────────────────────────────────────

    def begin(self, said: str) -> None:
        """A call begins. Raises what stopped the processes before."""
        self.raise_stopped()
        self.status = replace(self.status, call=self.status.call + 1, step=0, state="running", said=said, what="")

    def at(self, step: int, what: str) -> None:
        self.status = replace(self.status, step=step, what=what)

    def finish(self) -> None:
        self.status = replace(self.status, state="idle", what="")

    def raise_stopped(self) -> None:
        if self._stopped is not None:
            self._raised = True
            raise AxonError((self._stopped,))

    def heard(self, error: BaseException) -> bool:
        """Whether an error is raised in all processes."""
        return isinstance(error, AxonError) and any(d == self._stopped or d.code == DISAGREE for d in error.diagnostics)

    # ── waiting ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def wait(self, work: Any) -> None:
        """Wait for a collective that other processes join. Raises AxonError where one does not."""
        before, self.status = self.status, replace(self.status, state="waiting")
        looking = _Looking(monotonic())
        while True:
            done = work.is_completed()
            try:
                work.wait(timedelta(seconds=BEAT))
                break
            except RuntimeError as error:
                if done:
                    self.broken(error)
            self._look(looking)
        self.status = before

    def ask(self, facts: dict[str, str]) -> None:
        """Begin to compare what this process is about to do with what the others are; `settle` ends it."""
        text = json.dumps(facts, sort_keys=True)
        number = int(_digest(text)[:15], 16)
        self._asked = facts, torch.tensor([number, -number])
        try:
            self._asking = dist.all_reduce(self._asked[1], dist.ReduceOp.MIN, group=self._meet(), async_op=True)
        except RuntimeError as error:
            self.broken(error)

    def settle(self) -> list[dict[str, str]] | None:
        """Whether all processes asked with the same facts: None, or those of each, in the order of `ranks`. Once for each `ask`."""
        if self._asked is None:
            return None
        (facts, found), self._asked = self._asked, None
        self.wait(self._asking)
        self._compared += 1
        if int(found[0]) == -int(found[1]):
            return None
        store, place = _Guarded(self._store), f"facts/{self._compared}"
        store.set(f"{place}/{self.rank}", json.dumps(facts))
        looking, keys = _Looking(monotonic()), [f"{place}/{rank}" for rank in self.ranks]
        while not store.check(keys):
            self._look(looking)
            sleep(0.01)
        return [json.loads(store.get(key)) for key in keys]

    def _meet(self) -> Any:
        """The processes as a group that nothing else uses, on their processors."""
        if self._group is None:
            longest, looking = timedelta(seconds=self.timeout), _Looking(monotonic())
            try:
                self._group = dist.new_group([*self.ranks], longest, "gloo", use_local_synchronization=True, group_desc="axon")
            except RuntimeError as error:
                looking.began = monotonic() - self.timeout - BEAT  # the group's own timeout has passed
                self._look(looking)
                self.broken(error)
        return self._group

    # ── what is wrong ───────────────────────────────────────────────────────────────────────────────────────────────────

    def stop(self, found: Diagnostic) -> AxonError:
        """Tell all processes why none goes on; the first to tell is heard. Gives the error to raise."""
        if self._stopped is None:
            store = _Guarded(self._store)
            try:
                if store.add("stop/told", 1) == 1:
                    store.set("stop", json.dumps([found.code, found.message, list(found.notes)]))
                while not store.check(["stop"]):
                    sleep(0.01)
                self._stopped = _told(store.get("stop"))
            except AxonError as error:
                self._stopped = error.diagnostics[0]
        self._raised = True
        return AxonError((self._stopped,))

    def failed(self, error: BaseException) -> AxonError:
        """What this process met in a call, where the others wait for it."""
        said = error.diagnostics[0] if isinstance(error, AxonError) else None
        text = f"{said.code}: {said.message}" if said else f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        notes = (text, *(said.notes if said else ()), self._where(self.status))
        return self.stop(Diagnostic(FAULT, f"{self.names(self.rank)} failed", notes=notes))

    def broken(self, error: Exception) -> None:
        """A connection broke: find out whose process is gone."""
        looking = _Looking(monotonic(), patience=self.silence / 3 + 2 * BEAT)
        while monotonic() - looking.began < looking.patience + 4 * BEAT:
            self._look(looking)
            sleep(BEAT / 2)
        text = " ".join(str(error).split())[:200]
        raise self.stop(Diagnostic(FAULT, f"{self.names(self.rank)} lost its connection", notes=(text, self._where(self.status))))

    def _look(self, looking: _Looking, *, ever: bool = False) -> None:
        """Raise AxonError if a process keeps this one waiting that will not come; with `ever`, only one that is no more."""
        if not ever:
            self.raise_stopped()
        now = monotonic()
        if now - looking.began < SUSPECT and not looking.patience:
            return
        store, waited, behind = _Guarded(self._store), now - looking.began, list[tuple[int, Status]]()
        for rank in looking.next(self.rank, self.ranks, everyone=waited > self.timeout and not ever):
            status = self._read(store, rank)
            beat, since = looking.beats.get(rank, (-1, now))
            if beat != (status.beat if status else 0):
                since = now
                looking.beats[rank] = (status.beat if status else 0, now)
            mine, name = self.status, self.names(rank)
            if status is None:
                if waited > self.timeout and not ever:
                    raise self._fault(f"{name} has not begun", f"nothing was heard of it for {waited:.0f} s")
                continue
            if status.state == "ended" and ever:
                continue  # perhaps it had no more to do
            if status.state == "ended":
                raise self._fault(f"{name} has ended its program", *([status.said] if status.said else []), status.host)
            if now - since > (looking.patience or self.silence):
                how = f"nothing was heard of it for {now - since:.0f} s"
                raise self._fault(f"{name} has died, or is stopped", how, status.host, self._where(status))
            if status.state != "waiting" or (status.call, status.step) < (mine.call, mine.step):
                behind.append((rank, status))
        if waited > self.timeout and not ever:
            if not behind:
                raise self._fault("no process is behind, and yet a collective does not end", self._where(self.status))
            rank, status = min(behind, key=lambda b: (b[1].call, b[1].step, b[1].state == "waiting", b[0]))
            keeps = f"the others have waited for {waited:.0f} s"
            raise self._fault(f"{self.names(rank)} hangs", keeps, status.host, self._where(status), blamed=rank)

    def _fault(self, message: str, *notes: str, blamed: int | None = None) -> AxonError:
        if blamed is not None:
            _Guarded(self._store).set("stop/blamed", str(blamed))
        return self.stop(Diagnostic(FAULT, message, notes=tuple(note for note in notes if note)))

    def _where(self, status: Status) -> str:
        """What a process does, in words."""
        if status.state == "idle":
            return f"it is between calls, of which it has made {status.call}"
        return f"it is in call {status.call}, {status.said}" + (f", at step {status.step}: {status.what}" if status.what else "")

    def _read(self, store: Any, rank: int) -> Status | None:
        key = f"status/{rank}"
        return Status(**json.loads(store.get(key))) if store.check([key]) else None

    # ── the thread ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _beat(self) -> None:
        store, beat, since, blamed, alone = _Guarded(self._beating), 0, 0.0, False, False
        call, looking = self.busy(), _Looking(monotonic())
        while not self._end.wait(BEAT if beat else 0):
            beat += 1
            if (now := self.busy()) != call or now is None:
                call, looking = now, _Looking(monotonic())
            try:
                if not alone:
                    blamed = self._beaten(store, beat, looking if call is not None else None)
            except AxonError as error:  # the store is gone
                self._stopped, alone = self._stopped or error.diagnostics[0], True
            if self._stopped is None:
                continue
            since = since or monotonic()
            away = not self._raised and (blamed or self.status.state != "idle")
            longest = GRACE if blamed else LINGER if away or not alone else LINGER + SILENCE
            if (away or call is not None) and monotonic() - since > longest:
                print(f"error[{self._stopped.code}]: {self._stopped.message}; this process ends", file=sys.stderr, flush=True)
                os._exit(70)  # it hangs where no exception reaches it

    def _beaten(self, store: _Guarded, beat: int, looking: _Looking | None) -> bool:
        """Write that this process lives, and hear what stopped all. Whether it is this one that is to blame."""
        self._write(store, replace(self.status, beat=beat))
        if self._stopped is None and store.check(["stop"]):
            self._stopped = _told(store.get("stop"))
        if self._stopped is None and looking is not None:
            with suppress(AxonError):  # the program has not heard of it
                self._look(looking, ever=True)
            self._raised = False
        return self._stopped is not None and store.check(["stop/blamed"]) and store.get("stop/blamed") == str(self.rank).encode()

    def _write(self, store: _Guarded, status: Status) -> None:
        store.set(f"status/{self.rank}", json.dumps({name: getattr(status, name) for name in _FIELDS}))

    def _leave(self) -> None:
        """The program ends: nobody need wait for it."""
        self.close(_last_words())

    def close(self, why: str = "") -> None:
        """Stop watching, and say that this process has ended."""
        if self._end.is_set():
            return
        self._end.set()
        atexit.unregister(self._leave)
        self._thread.join(2 * BEAT)
        ended = replace(self.status, state="ended", said=why, beat=self.status.beat + 1)
        with suppress(AxonError):  # the store may be gone
            self._write(_Guarded(self._store), ended)


class _Looking:
    """One wait: since when, and what was seen of the others' beats. With `patience`, a shorter silence is enough."""

    def __init__(self, began: float, patience: float = 0.0) -> None:
        self.began, self.patience, self._first = began, patience, 0
        self.beats: dict[int, tuple[int, float]] = {}  # of each: the last, and when it was first seen

    def next(self, own: int, ranks: Sequence[int], *, everyone: bool) -> list[int]:
        """At whom to look now: at all others, or in turn at some where they are many, for all ask the same store."""
        others = [rank for rank in ranks if rank != own]
        if everyone or len(others) <= MANY:
            return others
        first, self._first = self._first, (self._first + MANY) % len(others)
        return [*others, *others][first : first + MANY]


class _Guarded:
    """A store; where it does not answer, that is the error."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def asked(*args: Any) -> Any:
            try:
                return method(*args)
            except RuntimeError as error:
                notes = ("rank 0 keeps it, or torchrun", " ".join(str(error).split())[:200])
                found = Diagnostic(FAULT, "the process that keeps the store of the others has ended", notes=notes)
                raise AxonError((found,)) from None

        return asked


_FIELDS = ("call", "step", "state", "said", "what", "beat", "host")


def _told(text: bytes) -> Diagnostic:
    code, message, notes = json.loads(text)
    return Diagnostic(code, message, notes=tuple(notes))


def _digest(text: str) -> str:
    from hashlib import sha256

    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _last_words() -> str:
    """The exception that ends this program, if one does."""
    error = getattr(sys, "last_value", None)
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}" if error is not None else ""
