"""A process that compiles kernels: `python -m axon.backend.worker`, which one process that builds several starts for each core.

A line of JSON in, a line out; it ends with its input. No state of the parent comes along: a script needs no guard around its main
part.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from types import TracebackType
from typing import Any


class Worker:
    """A compiling process, as its parent sees it. Raises OSError or ValueError where the process does not answer."""

    def __init__(self) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "axon.backend.worker"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment
        )

    def send(self, job: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()

    def receive(self) -> tuple[bytes, str]:
        """The cubin of the last job and the linker's log. Raises RuntimeError with what the compiler said, if it failed."""
        assert self.process.stdout is not None
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return base64.b64decode(answer["cubin"]), str(answer["log"])

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is not None:
            self.process.kill()
        self.process.communicate()


def main() -> None:
    """Compile what standard input asks for. Whatever a compiler prints goes to standard error."""
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    from axon.backend.build import link
    from axon.backend.target import HOPPER

    for line in sys.stdin:
        job = json.loads(line)
        try:
            cubin, log = link(job["text"], tuple(job["kinds"]), tuple(job["bounds"]), HOPPER)
            answer = {"cubin": base64.b64encode(cubin).decode(), "log": log}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(answer), file=out, flush=True)


if __name__ == "__main__":
    main()
