"""The process that computes for the prompt: it gives what is computed here, and goes when it is told to, whatever it does."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from axon import compiler
from axon.base.errors import AxonError, ShapeError
from axon.base.source import SourceFile
from axon.core.printer import print_program
from axon.tools.prompt.computing import Computing
from axon.tools.prompt.interactive import Evaluated, Interactive
from tests import ROOT

PROGRAMS = [*sorted((ROOT / "examples").rglob("*.axon")), *sorted((ROOT / "stdlib").glob("*.axon"))]
SLOW = "fun slow (n : i32) = loop (r = 1.0) for i < n => sin (exp (cos (sin (exp (cos (sin (exp (cos r))))))))"
FOREVER = "slow 2000000000"


def is_alive(pid: int) -> bool:
    """A process that ended and that nobody has waited for counts as gone."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False


def is_gone(pid: int) -> bool:
    deadline = time.monotonic() + 30.0
    while is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not is_alive(pid)


@pytest.fixture
def process() -> Iterator[Computing]:
    made = Computing()
    yield made
    made.stop()


def pid(process: Computing) -> int:
    assert process._process is not None
    return process._process.pid


def value(module: Interactive, text: str) -> str:
    found = module.enter(SourceFile("<input>", text))
    return str(found.value) if isinstance(found, Evaluated) else ""


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda p: p.name)
def test_programs_arrive_as_they_are(path: Path) -> None:
    checked = compiler.check_text(path.read_text(), str(path))
    for name in checked.signatures:
        try:
            program = compiler.lower(checked, name, None)
        except AxonError:  # what has no most general arguments
            continue
        assert print_program(pickle.loads(pickle.dumps(program))) == print_program(program)


def test_it_computes_what_is_computed_here(process: Computing) -> None:
    there, here = Interactive(process), Interactive()
    for module in (there, here):
        value(module, "fun f (x : f32[n, m]) = sum ..i => x[..i] * x[..i]")
        value(module, "fun pick (x : f32[n]) i = x[i]")
        module.bind("x", (np.arange(60_000) % 3 == 0).astype(np.float32).reshape(300, 200))
        module.bind("y", np.arange(5.0, dtype=np.float32))
    for text in ("f x", "x @ (for i j => x[j, i])", "{ a = x, b = (1, y) }", "it.b.2", "val z = y + 1.0", "z", "sort y"):
        assert value(there, text) == value(here, text)
    said = []
    for module in (there, here):
        with pytest.raises(ShapeError) as caught:
            value(module, "pick y 9")
        said.append(str(caught.value))
    assert said[0] == said[1]
    first = pid(process)
    assert there.arguments(["a=ones(f32[2])"])["a"].tolist() == [1.0, 1.0]
    with pytest.raises(AxonError, match="makes no arrays"):
        there.arguments(["a=onse(f32[2])"])
    assert pid(process) == first


def test_an_interruption_ends_it_in_the_middle_of_machine_code(process: Computing, ctrl_c: None) -> None:
    module = Interactive(process)
    value(module, SLOW)
    value(module, "slow 3000000")
    running = pid(process)
    threading.Timer(1.0, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        value(module, FOREVER)
    assert not is_alive(running)
    assert value(module, "slow 0") == "1.0"
    assert pid(process) != running


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="signals are blocked with it")
def test_the_terminals_ctrl_c_does_not_reach_it(process: Computing) -> None:
    process.start()
    os.kill(pid(process), signal.SIGINT)
    module = Interactive(process)
    assert value(module, "20 + 1") == "21"


def test_who_is_killed_says_so_and_another_takes_its_place(process: Computing) -> None:
    module = Interactive(process)
    value(module, SLOW)
    process.start()
    running = pid(process)
    threading.Timer(1.0, lambda: os.kill(running, signal.SIGKILL)).start()
    with pytest.raises(AxonError, match=r"AX0002\]: the process that computes ended"):
        value(module, FOREVER)
    assert value(module, "slow 0") == "1.0"


def test_it_ends_with_who_started_it(tmp_path: Path) -> None:
    """Also when that one is killed, in the middle of a computation."""
    script = f"""
from axon.tools.prompt.computing import Computing
from axon.tools.prompt.interactive import Interactive
from axon.base.source import SourceFile
process = Computing()
process.start()
print(process._process.pid, flush=True)
module = Interactive(process)
for text in ({SLOW!r}, {FOREVER!r}):
    module.enter(SourceFile("<input>", text))
"""
    parent = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    running = int(parent.stdout.readline())
    time.sleep(1.5)
    assert is_alive(running)
    parent.kill()
    parent.wait()
    assert is_gone(running)
