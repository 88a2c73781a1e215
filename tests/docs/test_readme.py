"""The README leads somewhere. That what it shows is true is held by tests/docs/test_examples.py."""

from __future__ import annotations

import re

from tests import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_links() -> None:
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_page_is_reached() -> None:
    """From the README or the index, which it links to."""
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert "](docs/index.md)" in README
    for page in (ROOT / "docs").glob("*.md"):
        assert f"]({page.name})" in index or page.name == "index.md", page
