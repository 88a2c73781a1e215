"""Ctrl-C while something runs in the main thread: in Python, in an import. For machine code see test_computing.py."""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
import time
from pathlib import Path

import pytest

from axon.base.interrupt import interruptible

pytestmark = pytest.mark.usefixtures("ctrl_c")


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

    begin = time.monotonic()
    interrupt_after(0.1)
    with pytest.raises(KeyboardInterrupt), interruptible():
        run()
    assert time.monotonic() - begin < 30.0  # what runs after the import, and waits, does not come to its end
    assert sys.modules.pop("slow_package").whole
