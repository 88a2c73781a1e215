"""Ctrl-C while something runs: in Python, in machine code, in an import."""

from __future__ import annotations

import ctypes
import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from axon.interrupt import Abandoned, apart, interruptible, is_running


def interrupt_after(seconds: float) -> None:
    threading.Timer(seconds, lambda: os.kill(os.getpid(), signal.SIGINT)).start()


def test_what_runs_is_interrupted() -> None:
    begin = time.monotonic()
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt), interruptible():
        time.sleep(60.0)
    assert time.monotonic() - begin < 30.0
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_import_comes_to_its_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numba takes a second to import, and half of it cannot be used nor imported again."""
    (tmp_path / "slow_package.py").write_text("import time\nfor _ in range(40):\n    time.sleep(0.01)\nwhole = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def run() -> None:
        assert importlib.import_module("slow_package").whole
        time.sleep(60.0)

    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt), interruptible():
        run()
    assert sys.modules.pop("slow_package").whole


# ── apart ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_apart_is_like_here() -> None:
    assert apart(lambda: threading.current_thread() is threading.main_thread()) is False
    with pytest.raises(ZeroDivisionError):
        apart(lambda: 1 // 0)
    assert apart(lambda: apart(lambda: 3)) == 3


def test_python_apart_stops_at_once() -> None:
    steps = 0

    def run() -> None:
        nonlocal steps
        while True:
            steps += 1
            time.sleep(0.001)

    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt) as caught:
        apart(run)
    assert caught.type is KeyboardInterrupt
    seen = steps
    time.sleep(0.1)
    assert seen == steps
    assert not is_running()


def test_machine_code_is_left_behind_and_its_caller_stops() -> None:
    """A `sleep` that holds no lock, as kernels hold none, stands for one that runs long."""
    library = ctypes.CDLL(None)
    after: list[str] = []

    def run() -> None:
        library.usleep(1_500_000)
        after.append("the next step")

    begin = time.monotonic()
    interrupt_after(0.1)
    with pytest.raises(Abandoned):
        apart(run)
    assert time.monotonic() - begin < 1.4
    assert is_running()
    assert apart(lambda: 1 + 1) == 2, "others compute beside it"
    deadline = time.monotonic() + 30.0
    while is_running():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    assert not after


def test_an_import_apart_comes_to_its_end_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "slower_package.py").write_text("import time\nfor _ in range(40):\n    time.sleep(0.01)\nwhole = True\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def run() -> None:
        assert importlib.import_module("slower_package").whole
        while True:
            time.sleep(0.01)

    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt):
        apart(run)
    assert sys.modules.pop("slower_package").whole
