"""The programs that the editor's tests look at: examples, the library, and the corpus of accepted and rejected ones."""

from __future__ import annotations

import os
import re
from functools import cache
from pathlib import Path
from typing import Any

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
def _library(module: str) -> dict[str, Analysis]:
    workspace = Workspace()
    if module != "nn":
        workspace.analyses |= _library("nn")
    workspace.open("<library>", f"import {module}\n")
    workspace.analysis("<library>")
    workspace.close("<library>")
    return workspace.analyses


def informed(text: str = "", **settings: Any) -> Workspace:
    """One that has seen `nn` and what a text imports, as an editor's has after the first file: it takes longer than most tests."""
    workspace = Workspace(**settings)
    for module in sorted({"nn", *re.findall(r"^import (\w+)", text, re.MULTILINE)} & {file.stem for file in LIBRARY}):
        workspace.analyses |= _library(module)
    return workspace


def analysed(text: str, path: str = "<buffer>", workspace: Workspace | None = None) -> Analysis:
    """A module that is open with this text, up to date."""
    workspace = workspace or informed(text)
    workspace.open(path, text)
    analysis = workspace.analysis(path)
    assert analysis is not None
    return analysis


def cursor(marked: str) -> tuple[str, int]:
    """A text without its `▮`, and where that was."""
    at = marked.index("▮")
    return marked.replace("▮", ""), at
