"""Half-typed programs: every prefix is opened and asked about without an exception, and a typo does not flood.

Prefixes that end between two words are looked at for every example; AXON_SOAK=1 looks at every byte of every one, and adds edits in
the middle.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from lsp_programs import ACCEPTED, EXAMPLES, LIBRARY, SOAK, text_of

from axon import compiler
from axon.editor.analysis import Analysis
from axon.editor.complete import complete
from axon.editor.hints import hints
from axon.editor.hover import hover
from axon.editor.outline import enclosing, folds, outline
from axon.editor.places import declarations, definition
from axon.editor.signatures import signature_help
from axon.editor.tokens import words
from axon.editor.workspace import Workspace
from axon.grammar.lexer import tokenize
from axon.grammar.table import load
from axon.lsp.convert import Converter
from axon.source import SourceFile

FILES = [*EXAMPLES, *LIBRARY, *(ACCEPTED if SOAK else [])]
INTERNAL = ("AX0001", "AX0002")


@pytest.fixture(autouse=True)
def _show_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_DEBUG", "1")  # an exception stays one


def ends(file: Path, text: str, most: int) -> list[int]:
    """The ends of words at which a text is cut off, at most so many, spread evenly."""
    if SOAK:
        return list(range(len(text) + 1))
    found = [t.end for t in tokenize(SourceFile(str(file), text), load()).tokens]
    return found[:: max(1, len(found) // most)]


def ask(workspace: Workspace, analysis: Analysis, offset: int) -> None:
    """Everything that an editor asks while somebody types."""
    converter = Converter(workspace)
    for diagnostic in analysis.diagnostics():
        assert diagnostic.code not in INTERNAL, diagnostic
        converter.diagnostic(analysis, diagnostic)
    hover(analysis, offset)
    hover(analysis, max(offset - 1, 0))
    definition(analysis, offset)
    complete(workspace, analysis, offset)
    signature_help(analysis, offset)
    enclosing(analysis, offset)


def ask_all(analysis: Analysis) -> None:
    for checked in declarations(analysis):
        hints(checked.facts)
    outline(analysis)
    words(analysis)
    list(folds(analysis))


@pytest.mark.parametrize("file", FILES, ids=lambda f: f.stem)
def test_typing_a_program(file: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """A file grows word by word, as it does when it is written."""
    text = text_of(file)
    workspace = Workspace(compiler.guarded)
    for number, end in enumerate(ends(file, text, 14)):
        workspace.open(str(file), text[:end])
        analysis = workspace.analysis(str(file))
        assert analysis is not None
        ask(workspace, analysis, end)
        if number % 12 == 0:
            ask_all(analysis)
        errors = [d for d in analysis.diagnostics() if d.severity == "error"]
        assert len(errors) <= 3, [d.message for d in errors]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("file", FILES[:: 1 if SOAK else 4], ids=lambda f: f.stem)
def test_opening_a_prefix(file: Path) -> None:
    """Without what was good before."""
    text = text_of(file)
    workspace = Workspace(compiler.guarded)
    for end in ends(file, text, 4):
        workspace.close(str(file))
        workspace.open(str(file), text[:end])
        analysis = workspace.analysis(str(file))
        assert analysis is not None
        ask(workspace, analysis, end)
        ask_all(analysis)


@pytest.mark.parametrize("file", FILES[:: 1 if SOAK else 3], ids=lambda f: f.stem)
def test_cutting_words_out_of_a_whole_program(file: Path) -> None:
    """One word is deleted from a program without errors: few errors, and what stands below keeps its types."""
    text = text_of(file)
    rng = random.Random(len(text))
    tokens = tokenize(SourceFile(str(file), text), load()).tokens[:-1]
    workspace = Workspace(compiler.guarded)
    workspace.open(str(file), text)
    whole = workspace.analysis(str(file))
    assert whole is not None
    hints_before = sum(len(hints(c.facts)) for c in declarations(whole))
    for token in tokens if SOAK else rng.sample(tokens, min(len(tokens), 5)):
        workspace.open(str(file), text[: token.start] + text[token.end :])
        analysis = workspace.analysis(str(file))
        assert analysis is not None
        ask(workspace, analysis, token.start)
        broken = any(c.broken for c in analysis.chunks)
        if broken:
            errors = [d.message for d in analysis.diagnostics() if d.severity == "error"]
            assert len(errors) <= 4, (token, errors)
            assert sum(len(hints(c.facts)) for c in declarations(analysis)) >= hints_before - 25
        workspace.open(str(file), text)
        workspace.analysis(str(file))
