"""docs/library.md names every function of the standard library, and says of it what its comment says."""

from __future__ import annotations

import os
import re
import sys

from tests import ROOT

PAGE = ROOT / "docs" / "library.md"
HEADING = "## Every function\n"
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import axon_pages  # noqa: E402


def test_every_function() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, section = text.partition(HEADING)
    assert heading
    wanted = before + heading + section.split("### ")[0] + axon_pages.library_names()
    if os.environ.get("AXON_UPDATE"):
        PAGE.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "a function came, went or says something else: AXON_UPDATE=1 pytest tests/docs writes the list anew"


def test_none_is_left_out() -> None:
    """Independently of what makes the list."""
    text = PAGE.read_text(encoding="utf-8")
    modules = text.partition("\n## Axes")[0]
    section = text.partition(HEADING)[2]
    for file in (ROOT / "stdlib").glob("*.axon"):
        table = section.partition(f"### `{file.stem}`\n")[2].partition("### ")[0]
        assert f"| [{file.stem}](../stdlib/{file.name}) |" in modules
        for name in re.findall(r"^fun (\w+)", file.read_text(encoding="utf-8"), re.MULTILINE):
            assert table.count(f"| `{name}` |") == 1, (file.stem, name)
