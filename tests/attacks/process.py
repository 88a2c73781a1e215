"""Running the command line in a process of its own, within limits.

Such a process is a copy of one that has imported what it needs and has run once, so that a test costs what its attack costs.
"""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

CPU_S = 10.0
MEMORY = 1 << 30  # bytes, resident
_ERROR = re.compile(r"^error\[(AX\d{4})\]", re.MULTILINE)


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def errors(self) -> list[str]:
        return _ERROR.findall(self.out)


Axon = Callable[..., Outcome]


class Forge:
    """A process that makes others."""

    def __init__(self) -> None:
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment, text=True
        )

    def run(self, folder: Path, arguments: tuple[str, ...], out: Path, err: Path) -> tuple[int, float, int]:
        """The status of `axon ARGUMENTS…` in a folder, its seconds of CPU and its KiB; what it prints goes into files."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(json.dumps([str(folder), list(arguments), str(out), str(err)]), file=self.process.stdin, flush=True)
        status, seconds, memory = json.loads(self.process.stdout.readline())
        return os.waitstatus_to_exitcode(status), seconds, memory

    def stop(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


@contextmanager
def forge() -> Iterator[Forge]:
    made = Forge()
    try:
        yield made
    finally:
        made.stop()


def runner(forge: Forge, folder: Path, printed: Path) -> Axon:
    """Run `axon ARGUMENTS` in a folder; fails on a traceback, a wrong exit code, more than 10 s of CPU or 1 GiB."""

    def run(*arguments: str) -> Outcome:
        out, err = printed / "out.txt", printed / "err.txt"
        code, seconds, memory = forge.run(folder, arguments, out, err)
        outcome = Outcome(code, out.read_text("utf-8"), err.read_text("utf-8"))
        shown = f"{outcome.out[:2000]}\n{outcome.err[-2000:]}"
        assert outcome.code != -signal.SIGXCPU, "it does not end"
        assert "Traceback" not in outcome.out + outcome.err, shown
        assert not {"AX0001"} & set(outcome.errors), shown
        assert outcome.code == (1 if outcome.errors else 0), shown
        assert seconds < CPU_S, f"{seconds:.1f} s\n{shown}"
        assert memory * 1024 < MEMORY, f"{memory // 1024} MiB\n{shown}"
        return outcome

    return run


# ── inside the process ──────────────────────────────────────────────────────────────────────────────────────────────────


def _become(folder: str, out: str, err: str, *, limited: bool) -> None:
    if limited:
        resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
        resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY, 4 * MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.chdir(folder)
    for path, flags, at in ((os.devnull, os.O_RDONLY, 0), (out, os.O_WRONLY, 1), (err, os.O_WRONLY, 2)):
        opened = os.open(path, flags | os.O_CREAT | os.O_TRUNC if at else flags)
        os.dup2(opened, at)
        os.close(opened)


def _serve() -> list[str]:
    """Answer what standard input asks; in a copy of this process, the arguments that it is to run with."""
    from axon.tools.cli import main

    asked, answers = os.fdopen(os.dup(0), "r", encoding="utf-8"), os.dup(1)
    _become("/", os.devnull, os.devnull, limited=False)
    with TemporaryDirectory() as warm:
        (Path(warm) / "a.axon").write_text("fun f (x : f32[n]) = sum i => x[i]\n")
        for value in ("[1.0]", "1.0"):  # a result, and an error
            main(["run", f"{warm}/a.axon:f", f"x={value}"])
    for line in asked:
        folder, arguments, out, err = json.loads(line)
        child = os.fork()
        if not child:
            os.close(answers)
            _become(folder, out, err, limited=True)
            given: list[str] = arguments
            return given
        _, status, used = os.wait4(child, 0)
        answer: list[Any] = [status, used.ru_utime + used.ru_stime, used.ru_maxrss]
        os.write(answers, f"{json.dumps(answer)}\n".encode())
    os._exit(0)


if __name__ == "__main__":
    from axon.tools.cli import main

    sys.exit(main(_serve()))
