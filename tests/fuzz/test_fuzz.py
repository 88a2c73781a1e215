"""Texts near well-formed programs: no crash, hang or traceback. `make fuzz` looks for more of them, guided by coverage."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from random import Random

import pytest

from tests import ROOT
from tests.fuzz.fuzz_check import shrunk
from tests.fuzz.fuzz_target import check
from tests.fuzz.mutate import mutated, seeds, tokens

SOAK = bool(os.environ.get("AXON_SOAK"))
HERE = Path(__file__).parent
FOUND = sorted((HERE / "found").glob("*.axon"))


@pytest.mark.parametrize("path", FOUND, ids=lambda p: p.stem)
def test_found(path: Path) -> None:
    """What fuzzing found once."""
    check(path.read_text())


@pytest.mark.parametrize("part", range(4))
def test_mutations(part: int) -> None:
    for seed in range(part, 20_000 if SOAK else 160, 4):
        chance = Random(seed)
        text = mutated(chance.choice(seeds()), chance)
        try:
            check(text)
        except Exception as error:
            raise AssertionError(f"seed {seed}:\n{text}") from error


def test_tokens_are_the_text() -> None:
    for text in seeds():
        assert "".join(tokens(text)) == text


def test_shrinking_keeps_what_fails() -> None:
    assert shrunk("val a = 1 + 2\nval broken = 3", lambda t: "broken" in t) == "broken"


@pytest.mark.skipif(find_spec("atheris") is None, reason="needs the extra `fuzz`")
@pytest.mark.skipif(not (SOAK or os.environ.get("CI")), reason="in CI for 20 s, in the soak for an hour: make fuzz")
def test_guided_by_coverage(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.fuzz.fuzz_check", "--seconds", "20", "--work", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=300, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
