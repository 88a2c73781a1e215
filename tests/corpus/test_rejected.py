"""Programs that are wrong, each in one way: the whole rendered error is a golden, to be read as a tired user would.

A program is given to `axon check`, or to the command in its first line: `(* $ axon run … *)`.
"""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import axon
from axon.base.codes import CODES
from tests.corpus.goldens import compare, run_axon

REJECTED = Path(__file__).parent / "rejected"
PROGRAMS = sorted(REJECTED.glob("*.axon"))

# What a file of reasonable size cannot show.
GENERATED = {
    "generated_nested": f"val deep = {'(' * 100_000}1{')' * 100_000}\n",
    "generated_too_large": "val a = 1\n" * 500_000,
    "generated_many_errors": "".join(f"val v{n} = missing{n}\n" for n in range(10_000)),
}

# Bugs in Axon itself and what depends on the machine (tests of `axon.compiler` make them happen), what a machine lacks
# (tests/tools/test_targets.py), what its GPU refuses (tests/gpu), and commands of the prompt (tests of `axon.tools.prompt.repl`).
NOT_PROGRAMS = {"AX0001", "AX0002", "AX0003", "AX0510", "AX0511", "AX0604", "AX0611", "AX0612", "AX0613"} | {
    *("AX0512", "AX0513", "AX0614", "AX0701", "AX0702", "AX0703", "AX0901", "AX0902", "AX0903"),
}


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(REJECTED)


def command(program: Path) -> list[str]:
    first = program.read_text(encoding="utf-8", errors="replace").split("\n", 1)[0]
    given = re.fullmatch(r"\(\* \$ axon (.+) \*\)", first)
    return shlex.split(given[1]) if given else ["check", program.name]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.stem)
def test_error(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = run_axon(command(program), capsys)
    compare(program.with_suffix(".txt"), out)
    assert code == (1 if re.search(r"^error", out, re.MULTILINE) else 0)
    assert re.search(r"^(error|warning)\[AX\d{4}\]", out)
    assert "Traceback" not in out


@pytest.mark.parametrize("name", GENERATED)
def test_generated(name: str) -> None:
    """Text from memory, as an editor or a notebook gives it."""
    found = axon.check(GENERATED[name])
    compare(REJECTED / f"{name}.txt", str(axon.AxonError(tuple(found))) + "\n")


def test_every_code_has_a_program() -> None:
    seen = {c for golden in REJECTED.glob("*.txt") for c in re.findall(r"AX\d{4}", golden.read_text(encoding="utf-8"))}
    assert set(CODES) - NOT_PROGRAMS <= seen


def test_there_are_enough() -> None:
    assert len(PROGRAMS) >= 250
