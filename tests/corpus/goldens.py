"""Golden files: text that a person has read once, and that a test holds from then on. AXON_UPDATE=1 writes them anew."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from axon.tools.cli import main


def compare(golden: Path, text: str) -> None:
    """Fail unless the file holds exactly the text."""
    if os.environ.get("AXON_UPDATE"):
        golden.write_text(text, encoding="utf-8")
    assert golden.is_file(), f"{golden.name} is missing; AXON_UPDATE=1 writes it"
    assert text == golden.read_text(encoding="utf-8")


def run_axon(arguments: Sequence[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """The exit code and standard output of `axon ARGUMENTS`."""
    capsys.readouterr()
    code = main(list(arguments))
    return code, capsys.readouterr().out
