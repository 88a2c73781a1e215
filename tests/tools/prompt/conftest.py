"""A prompt in a terminal of its own: what is typed reaches it through a pty, and what it draws is seen on a screen."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pexpect = pytest.importorskip("pexpect")
pyte = pytest.importorskip("pyte")

COLUMNS, ROWS = 100, 40
PATIENCE = float(os.environ.get("AXON_PATIENCE", "30"))  # seconds: other tests run beside this one


class Screen:
    """`axon repl` in a terminal."""

    def __init__(self, folder: Path, *arguments: str, **environment: str) -> None:
        known = {**os.environ, "TERM": "xterm-256color", "AXON_HISTORY": str(folder / "history"), **environment}
        known.pop("NO_COLOR", None)
        command = [sys.executable, "-m", "axon", "repl", *arguments]
        self.process = pexpect.spawn(
            command[0],
            command[1:],
            env=known,
            cwd=str(folder),
            dimensions=(ROWS, COLUMNS),
            timeout=PATIENCE,
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell starts background jobs deaf to it
        )
        self.screen = pyte.HistoryScreen(COLUMNS, ROWS, history=1_000)
        self.screen.write_process_input = self.process.send  # answers where the cursor is
        self.stream = pyte.ByteStream(self.screen)
        self.until(lambda text: "axon>" in text)

    @property
    def text(self) -> str:
        lines = [*self.screen.display]
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def drain(self, seconds: float = 0.05) -> None:
        try:
            self.stream.feed(self.process.read_nonblocking(1 << 16, timeout=seconds))
        except pexpect.TIMEOUT:
            pass
        except pexpect.EOF:
            time.sleep(seconds)

    def rest(self, seconds: float) -> None:
        """Let time pass; the terminal goes on to answer, for a late answer says where the cursor no longer is."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.drain()

    def until(self, seen: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + PATIENCE
        while not seen(self.text):
            assert time.monotonic() < deadline, f"not seen within {PATIENCE} s:\n{self.text}"
            self.drain()
        return self.text

    def type(self, text: str, *wanted: str) -> str:
        """Send keys, and wait until all of some texts are on the screen."""
        self.process.send(text)
        return self.until(lambda shown: all(w in shown for w in wanted))

    def enter(self, text: str, *wanted: str) -> str:
        """Type a line and Enter, and wait for an answer and for the next prompt."""
        self.clear()
        self.process.send(text + "\r")
        return self.until(lambda shown: all(w in shown for w in wanted) and shown.splitlines()[-1:] == ["axon>"])

    def clear(self) -> None:
        """Wait until nothing more is drawn, and wipe the screen."""
        self.drain(0.2)
        self.process.send("\x0c")  # Ctrl-L
        self.until(lambda text: text.startswith("axon>"))

    def leave(self) -> int | None:
        self.process.send("\x04")
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus


@pytest.fixture
def prompt(tmp_path: Path) -> Iterator[Callable[..., Screen]]:
    opened: list[Screen] = []

    def start(*arguments: str, **environment: str) -> Screen:
        opened.append(Screen(tmp_path, *arguments, **environment))
        return opened[-1]

    yield start
    for screen in opened:
        if screen.process.isalive():
            screen.process.close(force=True)
