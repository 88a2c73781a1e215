"""Shells complete: bash, fish and zsh themselves are asked, where they are."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT

MODEL = """\
fun double x = x + x
fun dot {h} (a : 'a[h]) (b : 'a[h]) = sum i => a[i] * b[i]
val half = 0.5
type pair = { a : f32 }
"""
# What is typed, and what may follow, where bash takes a colon for the end of a word.
LINES = [
    ("axon be", ["bench"]),
    ("axon sig m", ["model.axon", "models/"]),
    ("axon sig model.axon:d", ["dot", "double"]),
    ("axon sig models/inner.axon:", ["inside"]),
    ("axon check mo", ["model.axon", "models/"]),
    ("axon run model.axon:dot ", ["a=", "b=", "h="]),
    ("axon run model.axon:dot b=1 ", ["a=", "h="]),
    ("axon emit model.axon:dot --stage t", ["tile", "types"]),
    ("axon explain AX051", [f"AX051{i}" for i in range(4)]),
    ("axon bench model.axon:dot --against ", ["bin/", "models/", "peer.py"]),
    ("axon test --target s", ["simulate"]),
    ("axon run model.axon:dot --se", ["--seed"]),
    ("axon run broken.axon:f ", []),
    ("axon sig nothing.axon:", []),
]


@pytest.fixture
def environment(here: Path) -> dict[str, str]:
    """Files, and an `axon` that is this checkout's."""
    (here / "model.axon").write_text(MODEL)
    (here / "broken.axon").write_text("fun f x = \n")
    (here / "peer.py").write_text("")
    (here / "models").mkdir()
    (here / "models" / "inner.axon").write_text("val inside = 1\n")
    tool = here / "bin" / "axon"
    tool.parent.mkdir()
    tool.write_text(f'#!/bin/sh\nexec {sys.executable} -m axon "$@"\n')
    tool.chmod(0o755)
    path = f"{tool.parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": str(ROOT), "HOME": str(here)}


def ran(shell: str, text: str, environment: dict[str, str]) -> str:
    command = [shell, *(["--norc", "--noprofile"] if shell == "bash" else []), "-c", text]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120)
    assert not done.stderr, done.stderr
    return done.stdout


def need(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")


ASKING = """\
eval "$(axon completion bash)"
ask() {
    COMP_LINE="$1" COMP_POINT=${#1} COMP_TYPE=9
    COMPREPLY=()
    _python_argcomplete axon
    echo "$(printf '%s\\n' "${COMPREPLY[@]}" | LC_ALL=C sort | tr '\\n' ' ')"
}
"""


def test_bash(environment: dict[str, str]) -> None:
    need("bash")
    lines = ran("bash", ASKING + "\n".join(f"ask '{line}'" for line, _ in LINES), environment).splitlines()
    for (line, expected), found in zip(LINES, lines, strict=True):
        assert found.split() == expected, line


def test_fish(environment: dict[str, str]) -> None:
    need("fish")
    lines = [LINES[i] for i in (0, 2, 5, 7)]
    text = "axon completion fish | source\n" + "\n".join(f"complete -C '{line}'; echo END" for line, _ in lines)
    for (line, expected), found in zip(lines, ran("fish", text, environment).split("END\n"), strict=False):
        words = [word.split("\t")[0].rpartition(":")[2] for word in found.splitlines() if word.strip()]
        assert sorted(words) == expected, line


def test_zsh(environment: dict[str, str]) -> None:
    need("zsh")
    pexpect = pytest.importorskip("pexpect")
    shell = pexpect.spawn("zsh", ["-f"], env={**environment, "TERM": "dumb"}, encoding="utf-8", dimensions=(30, 160), timeout=60)
    try:
        shell.sendline("""autoload -U compinit; compinit -u; eval "$(axon completion zsh)"; echo rea''dy""")
        shell.expect("ready")
        for line, completed in (("axon sig model.axon:dou", "model.axon:double"), ("axon ben", "axon bench")):
            shell.send(f"{line}\t")
            shell.expect(re.escape(completed))
            shell.send("\x15")
    finally:
        shell.close(force=True)


def test_nothing_is_completed_of_what_nobody_asked(environment: dict[str, str]) -> None:
    """The usage is unchanged, and argcomplete is not imported by a command."""
    text = "import axon.tools.cli as cli, sys\ncli.main(['check', 'model.axon'])\nassert 'argcomplete' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", text], env=environment, timeout=60, capture_output=True).returncode == 0
