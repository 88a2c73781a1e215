"""A process that compiles kernels: `python -m axon.backend.gpu.build.worker`. What builds kernels starts one for each core.

A line of JSON in, a line out. No state of the parent comes along: a script needs no guard around its main part. A compiler runs in
machine code, which Ctrl-C cannot stop, for seconds: here it can be killed. A worker never hears of Ctrl-C itself, and ends with its
input, so with its parent, also in the middle of a kernel.
"""

from __future__ import annotations

import atexit
import base64
import json
import os
import selectors
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from typing import Any

from axon.backend.gpu.build.link import assembly, link
from axon.base.interrupt import without_interruptions

IDLE = 60.0  # seconds after which a worker that nobody asks for anything ends


class Worker:
    """A compiling process, as its parent sees it. Raises OSError or ValueError where the process does not answer."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        with without_interruptions():
            self.process = subprocess.Popen(
                [sys.executable, "-m", "axon.backend.gpu.build.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env=environment,
            )

    @property
    def runs(self) -> bool:
        return self.process.poll() is None

    def send(self, job: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> tuple[bytes, str]:
        """The cubin, or the PTX, of a job and the log. Raises RuntimeError with what the compiler said, if it failed."""
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return base64.b64decode(answer["made"]), str(answer["log"])

    def fileno(self) -> int:
        """What can be read when the last job is done, or the process has ended."""
        assert self.process.stdout is not None
        return self.process.stdout.fileno()

    def stop(self) -> None:
        """Kill the process, whatever it does; one that has ended leaves its pipes, which are closed."""
        self.process.kill()
        self.forget()
        self.process.wait()

    def forget(self) -> None:
        """Close what leads to the process, which is another's."""
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with suppress(OSError):  # of what was not sent any more
                pipe.close()


def answering(workers: Sequence[Worker], seconds: float | None) -> list[Worker]:
    """Those that have an answer, or have ended; waits for one, but no longer than this."""
    with selectors.DefaultSelector() as selector:
        for worker in workers:
            selector.register(worker, selectors.EVENT_READ)
        return [key.fileobj for key, _ in selector.select(seconds) if isinstance(key.fileobj, Worker)]


_kept: list[Worker] = []  # at most one, which has imported the compiler: the next kernel need not wait for that


@contextmanager
def crew(count: int) -> Iterator[list[Worker]]:
    """So many workers; none where no process can be started. They are killed if what is inside is interrupted, or fails."""
    workers: list[Worker] = []
    try:
        with suppress(IndexError):
            workers.append(_kept.pop())
        if workers and not workers[0].runs:  # it was idle for too long
            workers.pop().stop()
        if sys.executable:
            with suppress(OSError):  # no memory, or no room for processes
                while len(workers) < count:
                    workers.append(Worker())
        yield workers
        if not _kept and workers and workers[0].runs:
            _kept.append(workers.pop(0))
    finally:
        for worker in workers:
            worker.stop()


@atexit.register
def _stop() -> None:
    while _kept:
        _kept.pop().stop()


def _forget() -> None:
    """A process that was forked has no part in its parent's worker, which must not wait for it either."""
    while _kept:
        worker = _kept.pop()
        worker.forget()
        worker.process.returncode = 0  # it is no child of this process: nobody is to wait for it


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


# ── inside the process ──────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Compile what standard input asks for. Whatever a compiler prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    requests: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_read, args=(requests,), daemon=True, name="axon-requests").start()
    while True:
        try:
            job = json.loads(requests.get(timeout=IDLE))
        except Empty:
            os._exit(0)
        try:
            given = job["text"], tuple(job["kinds"]), tuple(job["bounds"]), tuple(job["chip"])
            made, log = assembly(*given) if job.get("stage") == "ptx" else link(*given, tuple(job["linked"]))
            answer = {"made": base64.b64encode(made).decode(), "log": log}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        try:
            print(json.dumps(answer), file=out, flush=True)
        except OSError:  # nobody waits for it any more
            os._exit(0)


def _read(requests: SimpleQueue[bytes]) -> None:
    """Read what is asked. The input ends with the parent, and with it this process, whatever it compiles."""
    for line in sys.stdin.buffer:
        if not line.endswith(b"\n"):  # the parent ended while it wrote
            break
        requests.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
