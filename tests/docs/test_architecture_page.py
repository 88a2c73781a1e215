"""docs/architecture.md names every module of the package once, and says of it what its docstring says."""

from __future__ import annotations

import os
import sys

from tests import ROOT

PAGE = ROOT / "docs" / "architecture.md"
HEADING = "## Every module\n"
sys.path.insert(0, str(ROOT / "docs" / "_ext"))

import axon_pages  # noqa: E402


def test_every_module() -> None:
    text = PAGE.read_text(encoding="utf-8")
    before, heading, section = text.partition(HEADING)
    assert heading
    introduction = section.split("### ")[0]
    wanted = before + heading + introduction + axon_pages.modules()
    if os.environ.get("AXON_UPDATE"):
        PAGE.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, "a module came, went or changed its docstring: AXON_UPDATE=1 pytest tests/docs writes the list anew"


def test_none_is_left_out() -> None:
    """Independently of what makes the list."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(HEADING)
    for file in (ROOT / "axon").rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        assert section.count(f"| `{name}` |") == 1, name
