"""A process that computes: what the prompt has computed outside itself, for machine code can be stopped in no other way.

`python -m axon.tools.prompt.computing` takes programs of core with their inputs, and gives results. Whatever Ctrl-C interrupts, the
process is killed, and the next computation starts another; so it is if the system ends it, for want of memory. It ends with the
prompt.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from queue import SimpleQueue
from time import perf_counter
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base import names
from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError
from axon.base.interrupt import without_interruptions

if TYPE_CHECKING:
    from axon.core import ir as core

_STACK = 64 << 20  # bytes; programs may nest deeply
_FIRST_SYMBOL = 1 << 40  # of those that the process makes; the prompt makes none as high


class Computing:
    """The process, as the prompt sees it. Not safe to use from several threads."""

    def __init__(self) -> None:
        self.seconds = 0.0  # that the last answer took to compute
        self._process: subprocess.Popen[bytes] | None = None
        self._sent: core.Program | None = None  # the program that the process has

    def run(self, program: core.Program, inputs: Sequence[Any], explicit: Sequence[int], *, compiled: bool = False) -> list[Any]:
        """What `compiler.run` gives. Raises what it raises, and AX0002 if the process is killed."""
        self.start()
        text = None
        if program is not self._sent:
            with compiler.guarded("running"):
                text = pickle.dumps(program)
        answer: list[Any] = self._ask(("run", text, inputs, explicit, compiled))
        self._sent = program
        return answer

    def arguments(self, words: list[str]) -> dict[str, Any]:
        """What `arguments.parse_arguments` gives."""
        self.start()
        answer: dict[str, Any] = self._ask(("arguments", words))
        return answer

    def start(self) -> None:
        """Have the process begin, if it does not run: that takes a moment, for which nobody need wait."""
        if self._process is None or self._process.poll() is not None:
            self._sent = None
            environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
            with without_interruptions():
                self._process = subprocess.Popen(
                    [sys.executable, "-P", "-m", "axon.tools.prompt.computing"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    env=environment,
                    creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
                )

    def stop(self) -> int | None:
        """Kill the process, whatever it does; its exit status."""
        process, self._process, self._sent = self._process, None, None
        if process is None:
            return None
        process.kill()
        assert process.stdin is not None
        assert process.stdout is not None
        with suppress(OSError):  # of what was not sent any more
            process.stdin.close()
        process.stdout.close()
        return process.wait()

    def _ask(self, request: tuple[Any, ...]) -> Any:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            body = pickle.dumps(request, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.write(len(body).to_bytes(8, "little") + body)
            self._process.stdin.flush()
            error, answer, self.seconds = pickle.load(self._process.stdout)
        except (OSError, EOFError, pickle.UnpicklingError):
            self._process.poll()
            ended = self.stop()
            note = f"its exit status is {ended}; the system kills what takes too much memory" if ended else "it ended by itself"
            help = Suggestion("nothing was changed: go on with something smaller")
            raise AxonError(
                (Diagnostic("AX0002", "the process that computes ended", notes=(note,), suggestions=(help,)),)
            ) from None
        except BaseException:
            self.stop()
            raise
        if error is not None:
            raise error(answer)
        return answer


# ── inside the process ──────────────────────────────────────────────────────────────────────────────────────────────────


def main() -> None:
    """Answer what standard input asks; whatever is printed goes to standard error. The input ends with the prompt, and with it
    this process, also in the middle of a computation: that is why another thread computes."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    names.begin_at(_FIRST_SYMBOL)
    requests: SimpleQueue[bytes] = SimpleQueue()

    def work() -> None:
        import axon.interpret  # noqa: F401 (while nobody waits for it)

        host: Any = None
        answer: tuple[type[AxonError] | None, Any, float]
        while True:
            body = requests.get()
            began = perf_counter()
            try:
                request = pickle.loads(body)  # here, since it imports modules, and two threads must not import the same at once
                if request[0] == "arguments":
                    from axon.host.command_arguments import parse_arguments

                    answer = (None, parse_arguments(request[1], seed=0), perf_counter() - began)
                else:
                    _, text, inputs, explicit, compiled = request
                    if text is not None:
                        with compiler.guarded("running"):
                            host = compiler.host(pickle.loads(text))
                    began = perf_counter()
                    answer = (None, compiler.run(host, inputs, explicit, compiled=compiled), perf_counter() - began)
            except AxonError as error:
                answer = (type(error), error.diagnostics, perf_counter() - began)
            except Exception as error:
                answer = (AxonError, (compiler.internal_error(error, "running"),), perf_counter() - began)
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            answers.flush()

    threading.stack_size(_STACK)
    threading.Thread(target=work, daemon=True, name="axon-computing").start()
    while True:
        size = int.from_bytes(sys.stdin.buffer.read(8), "little")
        body = sys.stdin.buffer.read(size)
        if not size or len(body) < size:  # the end, or what an interruption left unfinished
            os._exit(0)
        requests.put(body)


if __name__ == "__main__":
    main()
