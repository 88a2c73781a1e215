"""`axon new`: a project whose tests pass as they are."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests import ROOT

Cli = Callable[..., Any]


def test_a_new_project(axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = axon_cli("new", "Two-Words")
    assert (ran.status, ran.out) == (0, "")
    project = here / "Two-Words"
    written = {str(path.relative_to(project)) for path in project.rglob("*") if path.is_file()}
    assert written == {
        *("README.md", "pyproject.toml", ".gitignore", "two_words/__init__.py", "two_words/model.axon", "tests/test_model.py")
    }
    assert ran.err.count("wrote ") == len(written)
    assert tomllib.loads((project / "pyproject.toml").read_text())["project"]["name"] == "two-words"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    monkeypatch.chdir(project)
    tests = subprocess.run([sys.executable, "-m", "pytest", "-q"], capture_output=True, text=True, timeout=300)
    assert tests.returncode == 0, tests.stdout
    assert "4 passed" in tests.stdout
    assert axon_cli("fmt", "--check", ".").status == 0
    ruff = subprocess.run([sys.executable, "-m", "ruff", "check", "."], capture_output=True, text=True, timeout=60)
    assert ruff.returncode == 0, ruff.stdout
    # What the README says can be typed.
    for line in (project / "README.md").read_text().splitlines():
        if line.startswith("axon ") and "bench" not in line:
            assert axon_cli(*line.partition("#")[0].split()[1:]).status == 0, line


@pytest.mark.parametrize("name", ["2x", "json", "axon", "class", "ä", "there", "file", "torch"])
def test_refusals(axon_cli: Cli, here: Path, name: str) -> None:
    (here / "there").mkdir()
    (here / "there" / "a.txt").write_text("mine")
    (here / "file").write_text("mine")
    before = sorted(here.rglob("*"))
    ran = axon_cli("new", name)
    assert (ran.status, "AX0408" in ran.out) == (1, True)
    assert sorted(here.rglob("*")) == before
    assert ("it is a word of the language" in ran.out) == (name == "class")
