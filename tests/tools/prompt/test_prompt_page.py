"""The page of the prompt shows what really happens."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from axon.tools.prompt.interactive import Interactive
from axon.tools.prompt.repl import Reader
from tests import ROOT

PAGE = (ROOT / "docs" / "prompt.md").read_text(encoding="utf-8")


def entered() -> Iterator[tuple[str, str]]:
    """What is typed in the sessions on the page, and what is shown."""
    for block in re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL):
        for part in block.split("axon> ")[1:]:
            lines = part.splitlines(keepends=True)
            typed = [lines.pop(0)]
            while lines and lines[0].startswith("  ..."):
                typed.append(lines.pop(0).removeprefix("  ... "))
            yield "".join(typed), "".join(lines)


def test_sessions(capsys: pytest.CaptureFixture[str]) -> None:
    reader = Reader(Interactive())
    examples = list(entered())
    assert len(examples) > 5
    for typed, shown in examples:
        reader.enter(typed)
        said = capsys.readouterr().out
        if shown.startswith("error"):  # the rest of a diagnostic is for others to keep
            said, shown = ("\n".join(text.splitlines()[:2]) for text in (said, shown))
        assert said == shown, typed


def test_every_command_is_described() -> None:
    from axon.tools.prompt.commands import COMMANDS

    assert all(f"`{name}" in PAGE for name in COMMANDS)
