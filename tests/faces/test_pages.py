"""The pages of the Python API and of the command line show what really happens."""

from __future__ import annotations

import doctest
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FILE = re.compile(r"`(\w+\.axon)`:\n\n```axon\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def page(name: str, here: Path) -> str:
    """The text of a page, whose programs are written where they can be run."""
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    for file, program in FILE.findall(text):
        (here / file).write_text(program)
    return text


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_python(here: Path) -> None:
    shown = blocks(page("python.md", here), "pycon")
    test = doctest.DocTestParser().get_doctest("\n".join(shown), {}, "python.md", "docs/python.md", 0)
    assert len(test.examples) > 20
    complaints: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=complaints.append)
    assert not complaints, "".join(complaints)


def test_command_line(axon_cli: Callable[..., Any], here: Path) -> None:
    commands = [c for block in blocks(page("cli.md", here), "console") for c in block.split("$ axon ")[1:]]
    assert len(commands) > 10
    for command in commands:
        line, _, expected = command.partition("\n")
        ran = axon_cli(*shlex.split(line))
        assert (ran.status, ran.out) == (0, expected), line


@pytest.mark.parametrize("name", ["python.md", "cli.md"])
def test_it_is_linked(name: str) -> None:
    assert f"docs/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")
    assert f"({name})" in (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
