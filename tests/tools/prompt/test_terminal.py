"""The prompt as someone sees it: keys go in through a pty, and the screen is looked at."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Prompt = Callable[..., Any]


def test_a_session(prompt: Prompt) -> None:
    """One prompt, for it takes a while to start."""
    screen = prompt()
    # The type shows while one types, before Enter.
    assert "f : f32[n] -> f32[n]" in screen.type("fun f (x : f32[n]) = x + 1.0", "f : f32[n] -> f32[n]")
    screen.enter("", "f : f32[n] -> f32[n]")

    # A shape error shows while one types, and Enter gives the whole of it; nothing is lost.
    screen.clear()
    screen.type("f [| [| 1.0 |] |]", "[AX0")
    screen.enter("", "error[AX0", "┌─ <input 2>:1:3", "^")
    screen.enter("f [| 1.0 |]", "[| 2.0 |] : f32[1]")

    # What is begun goes on, indented; an empty line ends it whatever it is.
    screen.clear()
    screen.type("fun g x =\r", "  ...")
    screen.type("f x * 2.0", "  ...   f x * 2.0")
    screen.enter("", "g : f32[n] -> f32[n]")
    screen.clear()
    screen.type("let val a = 1\r\r", "error[AX01")

    # Completion, history, commands.
    screen.enter("import nn", "import nn:")
    screen.clear()
    screen.type("nn.softm\t", "nn.softmax")
    screen.type("\x03", "axon>")
    screen.clear()
    screen.type("\x1b[A", "import nn")
    screen.type("\x03", "axon>")
    screen.enter(":type nn.softmax", "nn.softmax : 'a[..")
    screen.enter(":help", ":shapes NAME", "Ctrl-D leaves")
    assert screen.leave() == 0


def test_pasting(prompt: Prompt) -> None:
    screen = prompt()
    pasted = "fun f x =\n  x + 1.0\n\nf 2.0\n(* two *)\nf 3.0"
    screen.process.send(f"\x1b[200~{pasted}\x1b[201~")
    screen.enter("", "f : 'a[..s] -> 'a[..s]", "3.0 : f32", "4.0 : f32")
    huge = "val a = " + " + ".join(["1.0"] * 300)
    screen.process.send(f"\x1b[200~{huge}\x1b[201~")
    screen.enter("", "a : f32")


def test_interruptions_lose_nothing(prompt: Prompt) -> None:
    screen = prompt()
    screen.enter("fun slow n = loop (s = 0.0) for i < n => s + exp (sin (0.0 * s))", "slow : i32 -> f32")  # a minute, not a second
    screen.clear()
    screen.process.send("slow 2000000000\r")
    screen.rest(1.5)
    screen.process.send("\x03")
    screen.until(lambda text: "interrupted; nothing was changed" in text)
    screen.enter("slow 3", "3.0 : f32")
    # Ctrl-C gives up what is typed, over several lines too; an unclosed bracket is no trap.
    screen.clear()
    screen.type("val x = (\r(\r", "  ...")
    screen.type("\x03", "axon>")
    screen.enter("slow 4", "4.0 : f32")
    screen.enter("val é = 🙂", "error[AX010")
    screen.enter("slow 5", "5.0 : f32")
    assert screen.leave() == 0


def processes(screen: Any) -> list[str]:
    """Those that the prompt has started and that run."""
    return Path(f"/proc/{screen.process.pid}/task/{screen.process.pid}/children").read_text().split()


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are looked up there")
def test_compiled_code_is_interrupted_and_gone(prompt: Prompt) -> None:
    """The loop takes minutes, in machine code: it stops at once, and the prompt goes on."""
    screen = prompt()
    screen.enter(
        "fun slow n = loop (r = 1.0) for i < n => sin (exp (cos (sin (exp (cos (sin (exp (cos r))))))))", "slow : i32 -> f32"
    )
    screen.enter("slow 3000000", " : f32")  # which compiles it
    before = processes(screen)
    screen.clear()
    screen.type("slow 2000000000", "slow 2000000000")
    screen.process.send("\r")
    screen.rest(3.0)
    began = time.monotonic()
    screen.process.send("\x03")
    screen.until(lambda text: "interrupted; nothing was changed" in text)
    assert time.monotonic() - began < 5.0
    assert len(before) == 1
    assert not set(before) & set(processes(screen))
    screen.enter("20 + 1", "21 : i32")
    screen.enter("sum k => [| 1.0, 2.0 |][k]", "3.0 : f32")
    screen.enter(":names", "it : f32")
    after = processes(screen)
    assert screen.leave() == 0
    assert not any(Path(f"/proc/{number}").exists() for number in after)


def test_files_and_a_history_that_stays(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "model.axon").write_text("fun double x = x * 2\n")
    screen = prompt("model.axon", "nowhere.axon")
    assert "double : 'a[..s] -> 'a[..s]" in screen.text
    assert "cannot read `nowhere.axon`" in screen.text
    (tmp_path / "model.axon").write_text("fun double x = x * 2\nfun four x = double (double x)\n")
    screen.enter(":reload", "four : 'a[..s] -> 'a[..s]")
    screen.enter("four 10", "40 : i32")
    assert screen.leave() == 0
    again = prompt()
    again.type("\x1b[A", "four 10")


def test_what_was_entered_is_searched(prompt: Prompt) -> None:
    """The screen stands still while one looks at what was found, and Enter, twice, enters it."""
    screen = prompt()
    screen.enter("fun double x = x + x", "double : 'a[..s] -> 'a[..s]")
    screen.enter("double 4 + 1", "9 : i32")
    screen.enter("1", "1 : i32")
    screen.clear()
    screen.type("\x12", "search")
    screen.type("ble 4", "double 4 + 1")
    screen.rest(1.0)
    began, drawn = time.monotonic(), 0
    while time.monotonic() < began + 1.0:
        try:
            drawn += len(screen.process.read_nonblocking(1 << 16, timeout=0.1))
        except Exception:  # nothing came
            continue
    assert drawn < 200, "nothing changes, so nothing is drawn"
    screen.type("\r", "axon> double 4 + 1")
    screen.enter("", "9 : i32")
    # A line that is complete is handed over wherever the cursor is; one that is not is broken there.
    screen.clear()
    screen.type("20 + 1\x1b[D\x1b[D", "20 + 1")
    screen.enter("", "21 : i32")
    # Ctrl-Z is no text.
    screen.clear()
    screen.type("3\x1a", "axon> 3")
    screen.enter("", "3 : i32")


def test_without_colours_and_history(prompt: Prompt, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    screen = prompt(NO_COLOR="1", AXON_HISTORY=str(tmp_path / "file" / "history"))
    screen.enter("1 + 1", "2 : i32")
    screen.enter("nothing", "error[AX0401]")


def test_without_its_packages(tmp_path: Path) -> None:
    """Without prompt_toolkit `axon repl` says what to install, and everything else goes on."""
    (tmp_path / "prompt_toolkit.py").write_text("raise ImportError('no')\n")
    (tmp_path / "a.axon").write_text("val a = 1\n")
    import pty

    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-m", "axon"]
    ran = subprocess.run([*command, "repl"], stdin=follower, capture_output=True, text=True, env=environment, timeout=60)
    os.close(leader)
    os.close(follower)
    assert ran.returncode == 1
    assert "error[AX0003]: `axon repl` needs the package `prompt_toolkit`" in ran.stdout
    assert "pip install '.[repl]'" in ran.stdout
    checked = subprocess.run(
        [*command, "check", "a.axon"], cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert checked.returncode == 0
    piped = subprocess.run(
        [*command, "repl"], input="1 + 1\n", capture_output=True, text=True, env=environment, timeout=60, check=False
    )
    assert piped.stdout == "2 : i32\n"
