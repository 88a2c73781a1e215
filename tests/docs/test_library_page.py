"""docs/library.md names every function of the standard library, and says of it what its comment says."""

from __future__ import annotations

import re

from tests import ROOT
from tests.docs.lists import check_list

import axon_pages  # isort: skip  # which `lists` has made known

PAGE = ROOT / "docs" / "library.md"
HEADING = "## Every function\n"


def test_every_function() -> None:
    check_list(PAGE, HEADING, axon_pages.library_names(), "a function came, went or says something else")


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
