"""What the documentation shows is true: its ```axon blocks check, and its ```axon error blocks do not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import axon

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^```(axon[^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks() -> Iterator[tuple[str, str, str]]:
    """The place, the kind (`axon`, `axon error`) and the text of each block."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 2
            yield f"{page.relative_to(ROOT)}:{line}", match[1].strip(), match[2]


BLOCKS = list(blocks())


@pytest.mark.parametrize(("kind", "text"), [b[1:] for b in BLOCKS], ids=[b[0] for b in BLOCKS])
def test_block(kind: str, text: str) -> None:
    assert kind in ("axon", "axon error")
    found = [d for d in axon.check(text) if d.severity == "error"]
    if kind == "axon":
        assert not found, str(axon.AxonError(tuple(found)))
    else:
        assert len(found) == 1, "one mistake gives one error"


STATED = re.compile(r"\(\* (sig (\w+) : .*?) \*\)")


@pytest.mark.parametrize("text", [pytest.param(text, id=place) for place, _, text in BLOCKS if STATED.search(text)])
def test_signatures_in_comments(text: str) -> None:
    """A comment `(* sig f : t *)` is what `axon sig` prints."""
    module = axon.compile(text)
    for line, name in STATED.findall(text):
        assert module[name].signature == line


def test_there_are_enough() -> None:
    assert len(BLOCKS) >= 40
