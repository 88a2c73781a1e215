"""The programs that the editor's tests look at: examples, the library, and the corpus of accepted and rejected ones."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

from axon.tools.editor.analysis import Analysis
from axon.tools.editor.workspace import Workspace
from tests import ROOT

SOAK = bool(os.environ.get("AXON_SOAK"))
EXAMPLES = sorted((ROOT / "examples").rglob("*.axon"))
LIBRARY = sorted((ROOT / "stdlib").glob("*.axon"))
ACCEPTED = sorted((ROOT / "tests" / "corpus" / "accepted").glob("*.axon"))
REJECTED = sorted((ROOT / "tests" / "corpus" / "rejected").glob("*.axon"))


def text_of(file: Path) -> str:
    return file.read_bytes().decode("utf-8", "surrogatepass")


@cache
def _library() -> dict[str, Analysis]:
    workspace = Workspace()
    workspace.open("<library>", "import nn\n")
    workspace.analysis("<library>")
    workspace.close("<library>")
    return workspace.analyses


def informed() -> Workspace:
    """One that has seen `nn`, as an editor's has after the first file: its check takes longer than most tests."""
    workspace = Workspace()
    workspace.analyses |= _library()
    return workspace


def analysed(text: str, path: str = "<buffer>", workspace: Workspace | None = None) -> Analysis:
    """A module that is open with this text, up to date."""
    workspace = workspace or informed()
    workspace.open(path, text)
    analysis = workspace.analysis(path)
    assert analysis is not None
    return analysis


def cursor(marked: str) -> tuple[str, int]:
    """A text without its `▮`, and where that was."""
    at = marked.index("▮")
    return marked.replace("▮", ""), at
