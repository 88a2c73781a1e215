"""Parts of pages that are made from what they list: a test compares them, and AXON_UPDATE=1 writes them anew."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tests import ROOT

sys.path.insert(0, str(ROOT / "docs" / "_ext"))


def check_list(page: Path, heading: str, made: str, what: str) -> None:
    """The section under a heading, after its introduction up to the first `### `, is what was made."""
    text = page.read_text(encoding="utf-8")
    before, found, section = text.partition(heading)
    assert found
    wanted = before + heading + section.split("### ")[0] + made
    if os.environ.get("AXON_UPDATE"):
        page.write_text(wanted, encoding="utf-8")
        text = wanted
    assert text == wanted, f"{what}: AXON_UPDATE=1 pytest tests/docs writes the list anew"
