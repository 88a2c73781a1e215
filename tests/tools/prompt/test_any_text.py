"""Whatever is typed, the answer is a value, a declaration or an AxonError that is no defect of Axon's; and nothing is lost."""

from __future__ import annotations

import os

from hypothesis import given, settings
from hypothesis import strategies as st

from axon import compiler
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.tools.prompt.completion import Completer
from axon.tools.prompt.interactive import Interactive
from tests import ROOT

PROGRAM = (ROOT / "examples" / "attention.axon").read_text()
WORDS = [
    "val",
    "fun",
    "let",
    "in",
    "end",
    "x",
    "f",
    "(",
    ")",
    "[|",
    "|]",
    "=",
    "=>",
    "sum",
    "i",
    "1",
    ":",
    "\n",
    "(*",
    "*)",
    ",",
    "@",
    "it",
    "🙂",
]
DEEP = 20 if os.environ.get("AXON_SOAK") else 1
COMPLETE = Completer()


def entered(text: str) -> None:
    module = Interactive()
    module.define(SourceFile("<kept>", "val kept = 1"))
    for part in compiler.entries(SourceFile("<input>", text)):
        try:
            module.enter(part)
        except AxonError as error:
            assert all(d.code != "AX0001" for d in error.diagnostics), str(error)
            assert str(error)
    assert "kept" in module.signatures or "kept" in text
    COMPLETE(module, text)


@settings(max_examples=60 * DEEP, deadline=None)
@given(st.text(max_size=80))
def test_any_text(text: str) -> None:
    entered(text)


@settings(max_examples=80 * DEEP, deadline=None)
@given(st.lists(st.sampled_from(WORDS), max_size=25))
def test_any_words(words: list[str]) -> None:
    entered(" ".join(words))


@settings(max_examples=40 * DEEP, deadline=None)
@given(st.integers(0, len(PROGRAM)), st.text(max_size=3))
def test_half_a_program(end: int, more: str) -> None:
    entered(PROGRAM[:end].replace("import nn", "") + more)


@settings(max_examples=60 * DEEP, deadline=None)
@given(st.lists(st.sampled_from([*WORDS, *PROGRAM.split("\n")]), max_size=30).map("\n".join))
def test_entries_make_up_the_text(text: str) -> None:
    """Nothing that was typed is in no part or in two, and it stays at its place."""
    parts = compiler.entries(SourceFile("<input>", text))
    kept = [" " if c not in "\r\n" else c for c in text]
    for part in parts:
        for i, c in enumerate(part.text):
            if not c.isspace():
                assert (text[i], kept[i]) == (c, " ")
                kept[i] = c
    written = "".join(kept)
    assert written == "".join(c if not c.isspace() or c in "\r\n" else " " for c in text) or not parts
