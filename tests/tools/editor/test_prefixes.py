"""Half-typed programs: every prefix is opened, edited and asked about without an exception, and a typo does not flood.

Every other prefix of an example that ends at a token; AXON_SOAK=1 looks at every byte of every program, and asks all at each.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from axon import compiler
from axon.base.source import SourceFile
from axon.grammar.lexer import tokenize
from axon.grammar.table import load
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.complete import complete
from axon.tools.editor.hints import hints
from axon.tools.editor.hover import hover
from axon.tools.editor.outline import enclosing, folds, outline
from axon.tools.editor.places import declarations, definition
from axon.tools.editor.signatures import signature_help
from axon.tools.editor.tokens import words
from axon.tools.editor.workspace import Workspace
from axon.tools.lsp.convert import Converter
from tests.clock import at_most
from tests.sample import thinned
from tests.tools.editor.programs import ACCEPTED, EXAMPLES, LIBRARY, SOAK, informed, text_of

FILES = [*EXAMPLES, *LIBRARY, *(ACCEPTED if SOAK else [])]
INTERNAL = ("AX0001", "AX0002")
LONGEST = 5.0  # seconds of the processor for one edit: more would be a hang


@pytest.fixture(autouse=True)
def _show_what_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_DEBUG", "1")  # an exception stays one


@pytest.fixture(scope="module")
def workspace() -> Workspace:
    """One for all files, as in an editor: the library is checked once."""
    return Workspace(compiler.guarded)


@pytest.fixture
def buffers(workspace: Workspace) -> Iterator[Callable[[Path, str], Analysis]]:
    """Gives a buffer beside a file a text, and brings it up to date."""
    opened: set[str] = set()

    def edit(file: Path, text: str, name: str = "") -> Analysis:
        path = str(file.with_name(name or file.name))
        opened.add(path)
        workspace.open(path, text)
        with at_most(LONGEST):
            analysis = workspace.analysis(path)
        assert analysis is not None
        return analysis

    yield edit
    for path in opened:
        workspace.close(path)


def token_ends(file: Path, text: str) -> list[int]:
    return sorted({t.end for t in tokenize(SourceFile(str(file), text), load()).tokens})


def ends(file: Path, text: str) -> list[int]:
    """Where a text is cut off: after every other token of an example, after some of the library; in the soak at every byte."""
    if SOAK:
        return list(range(len(text) + 1))
    found = token_ends(file, text)
    return thinned(found, text, 2) if file in EXAMPLES else found[:: len(found) // 14]


def check(analysis: Analysis, converter: Converter) -> None:
    """What is shown after each edit."""
    found = analysis.diagnostics()
    for diagnostic in found:
        assert diagnostic.code not in INTERNAL, diagnostic
        converter.diagnostic(analysis, diagnostic)
    errors = [d.message for d in found if d.severity == "error"]
    assert len(errors) <= 3, errors


def ask(workspace: Workspace, analysis: Analysis, offset: int) -> None:
    """What an editor asks where somebody types."""
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
def test_typing_a_program(
    file: Path, workspace: Workspace, buffers: Callable[..., Analysis], capfd: pytest.CaptureFixture[str]
) -> None:
    """A file grows piece by piece, as it does when it is written; and each prefix is opened, with nothing good before it.

    A prefix that parses has no past, so only those that do not are opened apart, in a buffer that has held no more than the
    declarations above.
    """
    text = text_of(file)
    converter = Converter(workspace)
    for number, end in enumerate(ends(file, text)):
        typed = buffers(file, text[:end])
        check(typed, converter)
        asked = SOAK or number % 8 == 0
        if asked:
            ask(workspace, typed, end)
        if number % 25 == 0:
            ask_all(typed)
        if typed.chunks[-1].former is not None:
            buffers(file, text[: typed.starts[-1]], "opened.axon")
            opened = buffers(file, text[:end], "opened.axon")
            assert opened.chunks[-1].former is None
            check(opened, converter)
            if asked:
                ask(workspace, opened, end)
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("file", FILES if SOAK else FILES[::9], ids=lambda f: f.stem)
def test_opening_a_prefix(file: Path) -> None:
    """In an editor that knows the library, and nothing yet of the file."""
    text = text_of(file)
    found = token_ends(file, text)
    for end in found[:: 20 if SOAK else len(found) // 4]:
        workspace = informed(text, guard=compiler.guarded)
        workspace.open(str(file), text[:end])
        analysis = workspace.analysis(str(file))
        assert analysis is not None
        check(analysis, Converter(workspace))
        ask(workspace, analysis, end)
        ask_all(analysis)


@pytest.mark.parametrize("file", FILES[:: 1 if SOAK else 3], ids=lambda f: f.stem)
def test_cutting_words_out_of_a_whole_program(file: Path, buffers: Callable[..., Analysis], workspace: Workspace) -> None:
    """One word is deleted from a program without errors: few errors, and what stands below keeps its types."""
    text = text_of(file)
    rng = random.Random(len(text))
    tokens = tokenize(SourceFile(str(file), text), load()).tokens[:-1]
    whole = buffers(file, text)
    hints_before = sum(len(hints(c.facts)) for c in declarations(whole))
    for token in tokens if SOAK else rng.sample(tokens, min(len(tokens), 5)):
        analysis = buffers(file, text[: token.start] + text[token.end :])
        ask(workspace, analysis, token.start)
        broken = any(c.broken for c in analysis.chunks)
        if broken:
            errors = [d.message for d in analysis.diagnostics() if d.severity == "error"]
            assert len(errors) <= 4, (token, errors)
            assert sum(len(hints(c.facts)) for c in declarations(analysis)) >= hints_before - 25
        buffers(file, text)
