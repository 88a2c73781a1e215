"""The layout of diagnostics, each case as a snapshot to be read."""

from __future__ import annotations

import io
import json

import pytest
from syrupy.assertion import SnapshotAssertion

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.errors import AxonError
from axon.base.render import MAX_SHOWN, MAX_WIDTH, render, render_all, to_json, visible, width, write
from axon.base.source import SourceFile

MLP = SourceFile(
    "mlp.axon",
    "import nn\nfun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =\n  nn.relu (x @ w1) @ w2\n",
)


def label(file: SourceFile, marked: str, text: str = "", nth: int = 0) -> Label:
    at = -1
    for _ in range(nth + 1):
        at = file.text.index(marked, at + 1)
    return Label(file.span(at, at + len(marked)), text)


def shown(*labels: Label) -> str:
    return render(Diagnostic("AX0301", "a message", labels))


def test_the_bar(snapshot: SnapshotAssertion) -> None:
    """The example of the design."""
    sizes = Diagnostic(
        "AX0301",
        "these sizes cannot agree",
        (
            label(MLP, "@", "`@` needs as many rows on its right as columns on its left", 1),
            label(MLP, "4 * d", "`x @ w1` has 4 * d columns"),
            label(MLP, "3 * d", "`w2` has 3 * d rows"),
        ),
        ("4 * d = 3 * d holds only for d = 0; for d = 64 it would be 256 = 192",),
        (Suggestion("make it `w2 : f32[4 * d, d]`", (Edit(label(MLP, "3 * d").span, "4 * d"),), True),),
    )
    assert render(sizes) == snapshot
    assert json.loads(to_json([sizes])) == snapshot


LINES = SourceFile("lines.axon", "fun f x =\n  let val y = x\n  in y end\n\nfun g x =\n  f x\n\n\n\n\nfun h x = g x\n")
TABS = SourceFile("tabs.axon", "fun f x =\n\tlet val 日本 = x\n\tin 日本 + 😀 e\u0301y end\n")
CASES = {
    "three_on_a_line": (label(MLP, "w2", "third"), label(MLP, "w1", "second"), label(MLP, "x", "first")),
    "nested": (label(MLP, "w1", "inner", 1), label(MLP, "x @ w1", "outer")),
    "same_place": (label(MLP, "w1", "one"), label(MLP, "w1", "two")),
    "adjacent": (label(MLP, "mlp", "a name"), label(MLP, "fun ", "a keyword")),
    "no_text": (label(MLP, "w1"), label(MLP, "w2", "with text")),
    "text_of_two_lines": (label(MLP, "w1", "a label\nof two lines"),),
    "far_lines": (label(LINES, "g x", "used here", 1), label(LINES, "f x", "defined here"), label(LINES, "g x", "declared here")),
    "one_line_between": (label(LINES, "end", "the end"), label(LINES, "f x", "the start")),
    "many_lines": (label(LINES, "let val y = x\n  in y end", "all of this"),),
    "many_lines_from_the_margin": (label(LINES, "fun g x =\n  f x\n", "a declaration"),),
    "nested_many_lines": (
        label(LINES, "let val y = x\n  in y end", "the inner\none"),
        label(LINES, "fun f x =\n  let val y = x\n  in y end\n\nfun g", "the outer one"),
        label(LINES, "x", "a name", 1),
    ),
    "two_end_on_a_line": (
        label(LINES, "val y = x\n  in y end", "inner"),
        label(LINES, "fun f x =\n  let val y = x\n  in y end", "outer"),
    ),
    "two_files": (label(MLP, "nn.relu", "used here"), label(LINES, "h x", "declared here")),
    "tabs_and_wide_characters": (
        label(TABS, "y end", "after wide ones"),
        label(TABS, "日本", "wide"),
        label(TABS, "x", "plain", 1),
    ),
    "empty_span": (Label(MLP.span(14, 14), "nothing"),),
    "end_of_file": (Label(MLP.span(len(MLP.text)), "the end"),),
    "end_of_file_without_line_end": (Label(SourceFile("f.axon", "fun f").span(5), "the end"),),
    "empty_file": (Label(SourceFile("empty.axon", "").span(), "nothing there"),),
    "carriage_returns": (label(SourceFile("dos.axon", "fun f x =\r\n  y\r\n"), "y", "unknown"),),
    "outside_the_file": (Label(MLP.span(10_000, 20_000), "past the end"),),
    "controls": (label(SourceFile("\x1b[31m.axon", "val a = \x1b[0m\x00\u202e\udcff b\n"), "b", "after \x07 controls"),),
}


@pytest.mark.parametrize("name", CASES)
def test_layout(name: str, snapshot: SnapshotAssertion) -> None:
    assert shown(*CASES[name]) == snapshot


def test_long_lines_are_cut_around_their_labels(snapshot: SnapshotAssertion) -> None:
    long = SourceFile("long.axon", "x" * 1_000 + " + wrong + " + "z" * 100_000)
    near, far = label(long, "wrong", "here"), Label(long.span(50_000, 50_003), "far away")
    assert shown(near, far, Label(long.span(2, 3), "before")) == snapshot
    start = SourceFile("start.axon", "wrong" + "日" * 1_000)
    assert shown(label(start, "wrong", "here")) == snapshot
    assert shown(Label(start.span(1_004), "at the end")) == snapshot
    for text in (shown(near), shown(far), shown(label(start, "wrong"))):
        assert all(width(line) <= MAX_WIDTH + 12 for line in text.splitlines())


def test_huge_lines_take_no_time() -> None:
    huge = SourceFile("huge.axon", "x" * 4_000_000)
    assert len(shown(Label(huge.span(2_000_000, 2_000_001), "here"))) < 1_000


def test_notes_and_help(snapshot: SnapshotAssertion) -> None:
    plain = Diagnostic("AX0408", "cannot read `a\x00b`", (), ("one\nof two lines", "two"), (Suggestion("do this"),), "warning")
    assert render_all([plain, plain]) == snapshot


def test_only_the_first_are_shown() -> None:
    many = [Diagnostic("AX0101", f"number {i}") for i in range(10_000)]
    text = render_all(many)
    assert text.count("error[") == MAX_SHOWN
    assert text.endswith(f"… and {10_000 - MAX_SHOWN:,} more")


def test_str_of_an_error() -> None:
    assert str(AxonError((Diagnostic("AX0001", "a message"),))) == "error[AX0001]: a message"


def test_visible() -> None:
    assert visible("plain") == "plain"
    assert visible("日本 😀 é") == "日本 😀 é"
    assert visible("a\x1b\x00\x7f\u202e\u2066\ufeff\udcff") == "a\\x1b\\x00\\x7f\\u{202e}\\u{2066}\\u{feff}\\u{dcff}"


@pytest.mark.parametrize(("text", "columns"), [("abc", 3), ("日本", 4), ("e\u0301", 1), ("😀", 2), ("👩\u200d🔬", 4), ("", 0)])
def test_width(text: str, columns: int) -> None:
    assert width(text) == columns


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_colour_only_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    sample = [Diagnostic("AX0301", "a message [with] brackets", (label(MLP, "w1", "[red]here[/red]"),))]
    monkeypatch.setenv("TERM", "xterm-256color")
    terminal, file = Terminal(), io.StringIO()
    write(sample, file)
    assert file.getvalue() == render_all(sample) + "\n"
    monkeypatch.delenv("NO_COLOR", raising=False)
    write(sample, terminal)
    assert "\x1b[" in terminal.getvalue()
    assert "[red]here[/red]" in terminal.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    terminal = Terminal()
    write(sample, terminal)
    assert terminal.getvalue() == render_all(sample) + "\n"


def test_json_of_nothing() -> None:
    assert json.loads(to_json([])) == []


def test_a_parameter_that_help_says_to_annotate_is_shown_once_and_only_while_the_help_is() -> None:
    own, parameter = label(MLP, "x @ w1", "here"), label(MLP, "x").span
    help_ = Suggestion("annotate `x`", annotates=(parameter, own.span))
    found = Diagnostic("AX0301", "a message", (own,), (), (help_, help_))
    assert [at.span for at in found.places] == [own.span, parameter]
    assert found.places[1].text == "`x` is annotated here"
    assert found.places[1].text in render(found)
    assert [at["text"] for at in json.loads(to_json([found]))[0]["labels"]] == ["here", "`x` is annotated here"]
    assert Diagnostic("AX0301", "a message", (own,)).places == (own,)


def test_all_places_of_a_diagnostic_move_with_its_text() -> None:
    at = label(MLP, "x").span
    found = Diagnostic("AX0301", "a message", (Label(at),), (), (Suggestion("do", (Edit(at, "y"),), annotates=(at,)),))
    (suggestion,) = (moved := found.moved(lambda span: MLP.span(span.start + 1, span.end + 1))).suggestions
    assert {label.span.start for label in moved.places} == {at.start + 1}
    assert suggestion.edits[0].span.start == suggestion.annotates[0].start == at.start + 1
