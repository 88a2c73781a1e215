"""`axon watch` checks when something changes, and only then."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from axon.tools.cli import main
from axon.tools.commands.watch import watch


def watched(paths: list[str], *edits: Callable[[], object]) -> None:
    """Watch while edits are made one after the other, each two looks after the one before; then interrupt."""
    left = [None, *(step for edit in edits for step in (edit, None))]

    def pause(_: float) -> None:
        if not left:
            raise KeyboardInterrupt
        step = left.pop(0)
        if step is not None:
            step()

    with pytest.raises(KeyboardInterrupt):
        watch(paths, pause)


def test_watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    lib, top = Path("lib.axon"), Path("main.axon")
    lib.write_text("val one = 1\n")
    top.write_text("import lib\nval two = lib.one + lib.one\n")
    watched(
        ["main.axon"],
        lambda: top.write_text("import lib\nval two = lib.two\n"),
        lambda: lib.write_text("val one = 1\nval two = 2\n"),  # a module that is imported, not named
        lambda: top.unlink(),
        lambda: top.write_text("val two = 2\n"),
    )
    captured = capsys.readouterr()
    said = [line.split(" ", 1)[1] for line in captured.err.splitlines()]
    assert said == [
        "checked 1 file: no errors; watching",
        "checked 1 file: 1 error; watching",
        "checked 1 file: no errors; watching",
        "checked 1 file: 1 error; watching",
        "checked 1 file: no errors; watching",
    ]
    assert "error[AX0405]" in captured.out
    assert "there is no such file" in captured.out


def test_a_directory_in_which_files_appear(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    watched(["."], lambda: Path("a.axon").write_text("val a = 1\n"), lambda: Path("b.axon").write_text("val b = \n"))
    said = [line.split(" ", 1)[1] for line in capsys.readouterr().err.splitlines()]
    assert said == [
        "nothing to check yet; watching",
        "checked 1 file: no errors; watching",
        "checked 2 files: 1 error; watching",
    ]


def test_a_path_that_names_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.axon").write_text("val a = 1\n")
    assert main(["watch", "a.axon", "nope"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "error[AX0408]: cannot read `nope`\n  = there is no such file\n"
    assert "watching" not in captured.err


def test_as_a_command(tmp_path: Path) -> None:
    (tmp_path / "a.axon").write_text("val a = 1\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "axon", "watch", "a.axon"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # a shell starts background jobs deaf to it
    )
    assert process.stderr is not None
    assert "no errors" in process.stderr.readline()
    time.sleep(0.1)
    (tmp_path / "a.axon").write_text("val a = b\n")
    assert "1 error" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "error[AX0401]" in out
    assert "Traceback" not in err
