"""Progress: on a terminal, after a second, and gone afterwards."""

from __future__ import annotations

import io
import sys
import time

import pyte
import pytest

from axon.base import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_it_shows_when_it_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER", 0.05)
    monkeypatch.setenv("TERM", "xterm")
    for variable in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(variable, raising=False)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress("building kernels", 3) as step:
        step()
        deadline = time.time() + 20
        while "1/3" not in terminal.getvalue() and time.time() < deadline:
            time.sleep(0.02)
        step()
    assert "building kernels" in terminal.getvalue()
    assert "1/3" in terminal.getvalue()


def test_it_is_quiet_when_it_is_quick_or_nobody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress("building", 1) as step:
        step()
    monkeypatch.setattr(progress, "AFTER", 0.0)
    file = io.StringIO()
    monkeypatch.setattr(sys, "stderr", file)
    with progress.progress("building", 1) as step:
        time.sleep(0.05)
        step()
    assert (terminal.getvalue(), file.getvalue()) == ("", "")


def test_what_is_inside_has_a_line_of_its_own_and_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "AFTER", 0.0)
    monkeypatch.setenv("TERM", "xterm")
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    with progress.progress("computing"), progress.progress("building kernels", 7) as step:
        step()
        deadline = time.time() + 20
        while not ("computing" in terminal.getvalue() and "1/7" in terminal.getvalue()) and time.time() < deadline:
            time.sleep(0.02)
    assert "computing" in terminal.getvalue()
    assert "1/7" in terminal.getvalue()
    shown = pyte.Screen(100, 20)
    pyte.Stream(shown).feed(terminal.getvalue().replace("\n", "\r\n"))
    assert not any(line.strip() for line in shown.display), "nothing stays"
