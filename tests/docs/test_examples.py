"""What the documentation shows is true: every code block is run, or marked. docs/examples.md says how."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import ROOT
from tests.docs.documents import NEEDS, PAGES, Block, Reader, blocks, lacking

BLOCKS = {page: blocks(page) for page in PAGES}
NEEDING = [block for page in PAGES for block in BLOCKS[page] if block.needs]


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reader]:
    """An empty directory, but for the folders of the repository that pages mention."""
    for folder in ("examples", "stdlib", "benchmarks"):
        (tmp_path / folder).symlink_to(ROOT / folder)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    before = set(sys.modules)
    yield Reader()
    for name in set(sys.modules) - before:  # what a page imported from there must not be found by the next
        if str(getattr(sys.modules[name], "__file__", "")).startswith(str(tmp_path)) or name.partition(".")[0] == "models":
            del sys.modules[name]


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_page(page: Path, reader: Reader) -> None:
    """Every block of a page, in order, but those that need more than every machine has."""
    for block in BLOCKS[page]:
        if not block.needs and not block.elsewhere:
            _run(reader, block)


@pytest.mark.parametrize("block", NEEDING, ids=lambda block: block.place)
def test_block_that_needs(block: Block, reader: Reader) -> None:
    """One that needs a library or a GPU, after the programs and the Python above it."""
    if reason := lacking(block.needs):
        pytest.skip(reason)
    for before in BLOCKS[ROOT / block.page]:
        if before is block:
            break
        if before.language in ("axon", "python", "pycon") and not before.elsewhere and not lacking(before.needs):
            _run(reader, before)
    _run(reader, block)


def _run(reader: Reader, block: Block) -> None:
    try:
        reader.run(block)
    except Exception as error:
        raise AssertionError(f"{block.place}: {error}") from error


@pytest.mark.parametrize("block", [b for page in PAGES for b in BLOCKS[page] if b.elsewhere], ids=lambda block: block.place)
def test_what_other_tests_hold(block: Block) -> None:
    assert block.elsewhere
    assert not block.needs
    text = (ROOT / block.elsewhere).read_text(encoding="utf-8")
    assert any(word in text for word in (Path(block.page).name, '"errors"')), f"{block.elsewhere} does not read {block.page}"


def test_marks_are_described() -> None:
    described = (ROOT / "docs" / "examples.md").read_text(encoding="utf-8")
    for mark in (*NEEDS, "shown", "error"):
        assert f"`{mark}`" in described, mark


def test_little_is_only_shown() -> None:
    """What nothing runs is the exception: diagrams, other programs' settings, commands that never end."""
    found = [block for page in PAGES for block in BLOCKS[page]]
    shown = [block for block in found if "shown" in block.marks]
    assert len(found) > 250
    assert len(shown) <= len(found) // 8, [block.place for block in shown]


# ── the runner itself ───────────────────────────────────────────────────────────────────────────────────────────────────

WRONG = {
    "axon": "fun f x = y\n",
    "axon error": "fun f x = x\n",
    "axon stated": "fun f x = x + 1  (* sig f : f32 -> f32 *)\n",
    "axon doctest": "(* >>> f 1\n   3 *)\nfun f x = x + 1\n",
    "text": "a diagram\n",
    "text error": "error[AX0401]: there is no value `y` here\n",
    "python": "assert False\n",
    "python error": "1\n",
    "pycon": ">>> 1 + 1\n3\n",
    "console": "$ axon explain AX9999\n",
    "sh": "rm nothing\n",
    "json": "{\n",
    "lua": "x = 1\n",
    "": "plain\n",
    "axon unheard": "fun f x = x\n",
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_false_block_is_found(kind: str, reader: Reader) -> None:
    language, *marks = kind.split() or [""]
    marks = [mark for mark in marks if mark not in ("stated", "doctest")]
    with pytest.raises(AssertionError):
        _run(reader, Block("page.md", 1, language, tuple(marks), WRONG[kind]))
