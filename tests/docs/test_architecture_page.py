"""docs/architecture.md names every module of the package once, and says of it what its docstring says."""

from __future__ import annotations

from tests import ROOT
from tests.docs.lists import check_list

import axon_pages  # isort: skip  # which `lists` has made known

PAGE = ROOT / "docs" / "architecture.md"
HEADING = "## Every module\n"


def test_every_module() -> None:
    check_list(PAGE, HEADING, axon_pages.modules(), "a module came, went or changed its docstring")


def test_none_is_left_out() -> None:
    """Independently of what makes the list."""
    _, _, section = PAGE.read_text(encoding="utf-8").partition(HEADING)
    for file in (ROOT / "axon").rglob("*.py"):
        parts = file.relative_to(ROOT).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        assert section.count(f"| `{name}` |") == 1, name
