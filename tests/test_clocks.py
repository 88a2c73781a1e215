"""No clock decides what Axon answers: what reads one is listed here, with what it wants of it.

A signature, an error, a plan or a result that depends on how long something took is another on a busy machine. Searches are
given up after steps of work: `axon.shapes.algebra.budget`.
"""

from __future__ import annotations

import ast
from pathlib import Path

from tests import ROOT

PACKAGE = ROOT / "axon"
MAY = {
    "backend/cpu/threads.py": "pauses between two looks at threads that still work after Ctrl-C",
    "backend/gpu/build/cubin.py": "waits for what other processes are making",
    "host/devices/watch.py": "how long processes wait for one another, which only ends them",
    "host/inference/run.py": "the sampling time, which ArviZ shows beside draws",
    "base/disk.py": "the age of files, of which the oldest go first",
    "tools/commands/bench.py": "`axon bench` is asked for times",
    "tools/commands/batch.py": "says that it is looking for files when that takes long",
    "tools/prompt/commands.py": "`:time` is asked for times",
    "tools/prompt/computing.py": "how long a computation took, for `:time`",
    "tools/prompt/interactive.py": "how long a computation took, for `:time`",
    "tools/lsp/server.py": "lets messages in while it checks, and shows what it has found so far",
    "tools/commands/watch.py": "pauses between two looks at files",
}


def clocks(path: Path) -> list[str]:
    """The lines of a file that name the `time` or `datetime` module or something of it."""
    found, text = [], path.read_text(encoding="utf-8")
    for node in ast.walk(ast.parse(text)) if "time" in text else ():  # all three names have it in them
        match node:
            case ast.Import(names=names) if any(n.name.split(".")[0] in ("time", "datetime", "timeit") for n in names):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: import {', '.join(n.name for n in names)}")
            case ast.ImportFrom(module=("time" | "datetime" | "timeit") as module, level=0):
                found.append(f"{path.relative_to(PACKAGE)}:{node.lineno}: from {module} import …")
    return found


def test_no_clock_decides() -> None:
    """And the list has no files that are gone, or read none any more."""
    named = {str(path.relative_to(PACKAGE)): found for path in PACKAGE.rglob("*.py") if (found := clocks(path))}
    assert named.keys() == MAY.keys(), {file: found for file, found in named.items() if file not in MAY}
