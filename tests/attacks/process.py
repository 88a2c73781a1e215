"""Running the command line in a process of its own, within limits."""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

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


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_CPU, (20, 20))
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEMORY, 4 * MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


Axon = Callable[..., Outcome]


def runner(folder: Path) -> Axon:
    """Run `axon ARGUMENTS` in a folder; fails on a traceback, a wrong exit code, more than 5 s of CPU or 1 GiB."""

    def run(*arguments: str) -> Outcome:
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OPENBLAS_NUM_THREADS": "1"}
        started = subprocess.Popen(
            [sys.executable, "-m", "axon", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=environment,
            preexec_fn=_limits,
            text=True,
            encoding="utf-8",
        )
        assert started.stdout is not None
        assert started.stderr is not None
        found: dict[str, str] = {}
        streams = {"out": started.stdout, "err": started.stderr}
        readers = [threading.Thread(target=lambda n=n, s=s: found.update({n: s.read()})) for n, s in streams.items()]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join()
        _, status, used = os.wait4(started.pid, 0)
        started.returncode = os.waitstatus_to_exitcode(status)
        for stream in streams.values():
            stream.close()
        outcome = Outcome(started.returncode, found["out"], found["err"])
        shown = f"{outcome.out[:2000]}\n{outcome.err[-2000:]}"
        assert outcome.code != -signal.SIGXCPU, "it does not end"
        assert "Traceback" not in outcome.out + outcome.err, shown
        assert not {"AX0001"} & set(outcome.errors), shown
        assert outcome.code == (1 if outcome.errors else 0), shown
        assert used.ru_utime + used.ru_stime < CPU_S, f"{used.ru_utime + used.ru_stime:.1f} s\n{shown}"
        assert used.ru_maxrss * 1024 < MEMORY, f"{used.ru_maxrss // 1024} MiB\n{shown}"
        return outcome

    return run
