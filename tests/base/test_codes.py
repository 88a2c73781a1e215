"""Every code has a page, and the pages are true: blocks that are marked as errors, or stand below `Wrong:`, show the code."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import axon
from axon.base.codes import CODES, page
from tests import ROOT

FENCE = re.compile(r"(^Wrong:\n\n)?^```(axon|python)( error)?( [\w.]+)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ERRORS = ROOT / "docs" / "errors"

# Codes that no program by itself can show: internal ones, and those of files and of the command line.
WITHOUT_EXAMPLE = {
    *("AX0001", "AX0002", "AX0003", "AX0106", "AX0107", "AX0108", "AX0109"),
    *("AX0408", "AX0409", "AX0410", "AX0411", "AX0507", "AX0508", "AX0509", "AX0510", "AX0602", "AX0604", "AX0605"),
    *("AX0511", "AX0512", "AX0513", "AX0603", "AX0611", "AX0612", "AX0613", "AX0614", "AX0701", "AX0702", "AX0703"),
    "AX0901",
    "AX0902",
    "AX0903",
}


def blocks() -> Iterator[tuple[str, str, bool, str, str]]:
    """Code, language, whether it is an error, file name and text of each block."""
    for code in CODES:
        for heading, language, wrong, name, text in FENCE.findall(page(code) or ""):
            yield code, language, bool(heading or wrong), name.strip() or "main.axon", text


BLOCKS = list(blocks())


@pytest.mark.parametrize("code", CODES)
def test_page(code: str) -> None:
    text = page(code)
    assert text is not None, f"docs/errors/{code}.md is missing"
    assert text.startswith(f"# {code}: {CODES[code]}\n"), "the heading is the title in the table of codes"
    if code not in WITHOUT_EXAMPLE:
        mine = [wrong for c, _, wrong, _, _ in BLOCKS if c == code]
        assert True in mine, "an example of the mistake"
        assert False in mine, "its mend"


def test_every_page_has_a_code() -> None:
    assert {file.stem for file in ERRORS.glob("*.md")} == set(CODES)


@pytest.mark.parametrize(("code", "language", "wrong", "name", "text"), BLOCKS, ids=[f"{b[0]}-{i}" for i, b in enumerate(BLOCKS)])
def test_example(tmp_path: Path, code: str, language: str, wrong: bool, name: str, text: str) -> None:
    if language == "python":
        found = [d.code for d in _run(text)]
    else:
        (tmp_path / name).write_text(text, encoding="utf-8")
        try:
            axon.load(tmp_path / name)
            found = [d.code for d in axon.check(text)] if name == "main.axon" else []  # warnings too
        except axon.AxonError as error:
            found = [d.code for d in error.diagnostics]
    assert found == ([code] if wrong else []), found


def _run(text: str) -> tuple[axon.Diagnostic, ...]:
    try:
        exec(compile(text, "example", "exec"), {"axon": axon})
    except axon.AxonError as error:
        return error.diagnostics
    return ()
