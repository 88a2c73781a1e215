"""Functions run by several processes that know each other: forked from one that has imported what takes long.

    python -m tests.host.devices.processes FOLDER

runs all that `cases` lists and leaves what each process returned, or the error that it met, in files of the folder. Forking a
test's own process would copy the threads that other tests have started.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
import traceback
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

LONGEST = 120  # seconds, after which a process that is left is ended


def begin(folder: Path, name: str, count: int, work: Callable[[int], Any]) -> list[int]:
    """So many processes, which leave in files `NAME.RANK` what `work` returns, or why it does not."""
    import torch
    import torch.distributed as dist

    store = folder / f"{name}.store"
    children = []
    for rank in range(count):
        if child := os.fork():
            children.append(child)
            continue
        code = 1
        try:
            torch.set_num_threads(1)
            dist.init_process_group("gloo", f"file://{store}", timedelta(seconds=LONGEST), count, rank)
            try:
                found: Any = work(rank)
            except Exception as error:
                found = error if type(error).__module__.startswith("axon") else traceback.format_exc()
            (folder / f"{name}.{rank}").write_bytes(pickle.dumps(found))
            code = 0
        finally:
            os._exit(code)
    return children


def finish(children: list[int]) -> None:
    """Wait for processes, though not for ever."""
    began, left = time.monotonic(), {*children}
    while left:
        left = {child for child in left if os.waitpid(child, os.WNOHANG) == (0, 0)}
        if time.monotonic() - began > LONGEST:
            for child in left:
                os.kill(child, signal.SIGKILL)
        time.sleep(0.02)


def together(folder: Path, name: str, count: int, work: Callable[[int], Any]) -> None:
    finish(begin(folder, name, count, work))


def results(folder: Path, name: str, count: int) -> list[Any]:
    """What each process returned; None of one that died."""
    files = [folder / f"{name}.{rank}" for rank in range(count)]
    return [pickle.loads(file.read_bytes()) if file.exists() else None for file in files]


def main() -> None:
    import axon.host.devices.function  # noqa: F401
    from tests.host.devices.cases import GROUPS, in_one_process

    folder = Path(sys.argv[1])
    (folder / "whole.0").write_bytes(pickle.dumps(in_one_process()))
    finish([child for name, (count, work) in GROUPS.items() for child in begin(folder, name, count, work)])


if __name__ == "__main__":
    main()
