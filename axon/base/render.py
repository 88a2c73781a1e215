"""Diagnostics for people (text, as docs/errors.md shows it) and for programs (JSON).

The layout of one diagnostic:

    error[AX0301]: these sizes cannot agree            headline
      ┌─ mlp.axon:3:20                                 the file, and where the primary label is
    2 │ fun mlp (x : f32[b, d]) (w : f32[3 * d, d]) =  lines that have labels
      │                              ----- `w` has …   secondary labels are underlined with -, the primary one with ^
    3 │   x @ w
      │     ^ `@` needs as many rows …
      = a note
      = help: a suggestion   (checked: the file then passes)

Columns are those of the display: a tab runs to the next multiple of 4, wide characters take two. What could drive a terminal
(control characters, bidirectional controls, lone surrogates) is shown as an escape.
"""

from __future__ import annotations

import json
import os
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, TextIO

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Label
from axon.base.source import SourceFile, Span

TAB = 4
MAX_WIDTH = 120  # display columns of a source line; longer ones are cut around their labels
MAX_SHOWN = 100  # diagnostics rendered by render_all; the rest are counted

Piece = tuple[str, str]  # text and style: "" gutter error warning secondary help bold
Line = list[Piece]


def render(diagnostic: Diagnostic) -> str:
    """One diagnostic as plain text, without a final line end."""
    return _plain(layout(diagnostic))


def render_all(diagnostics: Iterable[Diagnostic], limit: int = MAX_SHOWN) -> str:
    """Diagnostics as plain text with an empty line between them; those after the first `limit` are only counted."""
    return _plain(layout_all(diagnostics, limit))


def layout_all(diagnostics: Iterable[Diagnostic], limit: int = MAX_SHOWN) -> list[Line]:
    """The lines of `render_all`, in pieces that carry their style."""
    known = tuple(diagnostics)
    lines: list[Line] = []
    for diagnostic in known[:limit]:
        if lines:
            lines.append([])
        lines += layout(diagnostic)
    if len(known) > limit:
        lines += [[], [(f"… and {len(known) - limit:,} more", "bold")]]
    return lines


def to_json(diagnostics: Iterable[Diagnostic]) -> str:
    """A JSON array with one object per diagnostic; the schema is docs/json.md and stable."""
    body = ",\n".join(json.dumps(as_dict(d)) for d in diagnostics)
    return f"[\n{body}\n]" if body else "[]"


def as_dict(diagnostic: Diagnostic) -> dict[str, Any]:
    """A diagnostic as plain data. Lines and columns count from 1, offsets from 0; all count characters, not bytes."""
    return {
        "code": diagnostic.code,
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "labels": [{**_place(label.span), "text": label.text} for label in diagnostic.places],
        "notes": list(diagnostic.notes),
        "suggestions": [
            {
                "text": suggestion.text,
                "checked": suggestion.checked,
                "edits": [{**_place(edit.span), "text": edit.text} for edit in suggestion.edits],
            }
            for suggestion in diagnostic.suggestions
        ],
    }


def _place(span: Span) -> dict[str, Any]:
    def at(offset: int) -> dict[str, int]:
        line, column = span.file.position(offset)
        return {"line": line, "column": column, "offset": offset}

    return {"path": span.file.path, "start": at(span.start), "end": at(span.end)}


# ── characters ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def visible(text: str) -> str:
    """Text with everything that could drive a terminal as escapes. Joiners inside emoji stay."""
    return text if text.isascii() and text.isprintable() else "".join(map(_visible, text))


def _visible(char: str) -> str:
    if char.isprintable() or char in "\u200d\u00ad" or char == "\u3000":
        return char
    code = ord(char)
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{{{code:x}}}"


def width(text: str) -> int:
    """Display columns of visible text."""
    return len(text) if text.isascii() else sum(map(_width, text))


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


@dataclass(frozen=True, slots=True)
class _Shown:
    """A source line as it is displayed: cells[i] is the column at which its i-th character begins, cells[-1] its width."""

    text: str
    cells: tuple[int, ...]
    first: int  # the character of the line that cells[0] stands for: a long line is cut


def _too_long(line: str) -> bool:
    return len(line) > MAX_WIDTH or width(visible(line).expandtabs(TAB)) > MAX_WIDTH


def _show(line: str, around: Sequence[int]) -> _Shown:
    """Cut a line that is too long around the characters `around` (the first matters most), expand tabs, escape controls."""
    first, last = 0, len(line)
    if _too_long(line):
        room = MAX_WIDTH // 2
        near = [c for c in around if abs(c - around[0]) <= room] or [0]
        first = max(0, min(near) - room // 2)
        last = min(len(line), first + MAX_WIDTH)
    out, cells, column = [], [], 0
    if first > 0:
        out, column = ["…"], 1
    for char in line[first:last]:
        cells.append(column)
        shown = " " * (TAB - column % TAB) if char == "\t" else _visible(char)
        if column + width(shown) > MAX_WIDTH:
            last = first + len(cells) - 1
            cells.pop()
            break
        out.append(shown)
        column += width(shown)
    cells.append(column)
    if last < len(line):
        out.append("…")
    return _Shown("".join(out), tuple(cells), first)


def _column(shown: _Shown, character: int) -> int:
    """The display column of a character of the line; of one that is cut away, that of the cut."""
    return shown.cells[min(max(character - shown.first, 0), len(shown.cells) - 1)]


# ── layout ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Mark:
    """A label on its place: lines counted from 1, characters of a line from 0; `end` is after the last one marked."""

    label: Label
    primary: bool
    line: int
    start: int
    last_line: int
    end: int

    @property
    def multi(self) -> bool:
        return self.last_line > self.line


def layout(diagnostic: Diagnostic) -> list[Line]:
    """One diagnostic as lines of styled pieces."""
    style = diagnostic.severity
    lines: list[Line] = [[(f"{style}[{diagnostic.code}]", style), (f": {_text(diagnostic.message)}", "bold")]]
    marks = [_mark(label, i == 0) for i, label in enumerate(diagnostic.places)]
    gutter = len(str(max((m.last_line for m in marks), default=1)))
    files = list(dict.fromkeys(m.label.span.file for m in marks))
    for file in files:
        lines += _excerpt(file, [m for m in marks if m.label.span.file is file], gutter, style)
    lines += [line for note in diagnostic.notes for line in _hanging(gutter, "", note)]
    for suggestion in diagnostic.suggestions:
        checked = "   (checked: the file then passes)" if suggestion.checked else ""
        if suggestion.text:
            lines += _hanging(gutter, "help: ", suggestion.text + checked)
    return lines


def _mark(label: Label, primary: bool) -> _Mark:
    span = label.span
    file, size = span.file, len(span.file.text)
    start = min(max(span.start, 0), size)
    end = min(max(span.end, start), size)
    if start == end == size and size and file.text.endswith("\n"):
        start = end = size - 1  # the end of the file: after its last character, not on an empty line
    line, column = file.position(start)
    last, end_column = file.position(end)
    if last > line and end_column == 1:  # a span that ends with a line feed marks the line before it
        last, end_column = last - 1, len(file.line(last - 1)) + 1
    if last == line:
        end_column = max(end_column, column + 1)
    return _Mark(label, primary, line, column - 1, last, end_column - 1)


def _excerpt(file: SourceFile, marks: list[_Mark], gutter: int, style: str) -> list[Line]:
    first = marks[0]
    where = f"{visible(file.path)}:{first.line}:{first.start + 1}"
    lines: list[Line] = [[(" " * gutter + " ┌─ ", "gutter"), (where, "")]]
    # Each label over several lines has a rail, a column of its own between the gutter and the text; outer ones to the left.
    rails = sorted((m for m in marks if m.multi), key=lambda m: (m.line, -m.last_line))
    numbers = sorted({n for m in marks for n in (m.line, m.last_line)})
    previous = 0
    for number in numbers:
        if previous and number == previous + 2:
            lines.append(_source(file, number - 1, [], rails, gutter, style)[1])
        elif previous and number > previous + 2:
            lines.append(_trimmed([(" " * gutter + " · ", "gutter"), *_rails(rails, previous + 1, style)]))
        for group in _groups(file.line(number), [m for m in marks if number in (m.line, m.last_line)]):
            lines += _marked(file, number, group, rails, gutter, style)
        previous = number
    return lines


def _groups(line: str, here: list[_Mark]) -> list[list[_Mark]]:
    """The labels of a line, together if what they mark fits beside one another; a line that is too long is shown once for each."""
    here = sorted(here, key=lambda m: not m.primary)
    if any(m.multi for m in here) or not _too_long(line):
        return [here]
    groups: list[list[_Mark]] = []
    while here:
        shown = _show(line, [c for m in here for c in (m.start, m.end)])
        last = shown.first + len(shown.cells) - 1
        group = [m for m in here if m is here[0] or (shown.first <= m.start and m.end <= last)]
        groups.append(group)
        here = [m for m in here if m not in group]
    return sorted(groups, key=lambda group: min(m.start for m in group))


def _source(file: SourceFile, number: int, here: list[_Mark], rails: list[_Mark], gutter: int, style: str) -> tuple[_Shown, Line]:
    around = [c for m in here for c in ([m.start] if m.line == number else []) + ([m.end] if m.last_line == number else [])]
    shown = _show(file.line(number), around or [0])
    body = [(shown.text, "")] if shown.text else []
    line: Line = [(f"{number:>{gutter}} │ ", "gutter"), *_rails(rails, number, style, source=True), *body]
    return shown, _trimmed(line)


def _marked(file: SourceFile, number: int, marks: list[_Mark], rails: list[_Mark], gutter: int, style: str) -> list[Line]:
    """A source line with the underlines and texts of its labels below."""
    here = sorted(marks, key=lambda m: not m.primary)
    shown, source = _source(file, number, here, rails, gutter, style)
    lines = [source]
    margin: Line = [(" " * gutter + " │ ", "gutter")]

    single = [m for m in here if not m.multi]
    if single:
        spots = [(_column(shown, m.start), max(_column(shown, m.end), _column(shown, m.start) + 1), m) for m in single]
        lines += [_trimmed([*margin, *_rails(rails, number, style), *row]) for row in _underlines(spots, style)]
    closed: list[_Mark] = []
    for mark in reversed(rails):
        if mark.last_line == number:
            lead = _rails(rails, number, style, closed=closed, closing=mark)
            closed.append(mark)
            reach = max(_column(shown, mark.end) - 1, 0)
            arm = "─" * reach + ("^" if mark.primary else "-")
            texts = _text(mark.label.text).split("\n")
            lines.append(_trimmed([*margin, *lead, (f"{arm} {texts[0]}", _style(mark, style))]))
            lead = [*margin, *_rails(rails, number, style, closed=closed), (" " * (reach + 2), "")]
            lines += [_trimmed([*lead, (text, _style(mark, style))]) for text in texts[1:]]
    return lines


def _underlines(spots: list[tuple[int, int, _Mark]], style: str) -> list[Line]:
    """The rows below a source line: its underlines, the text of the rightmost label beside them, the others' hanging below."""
    size = max(end for _, end, _ in spots)
    row: list[Piece] = [(" ", "")] * size
    for start, end, mark in sorted(spots, key=lambda s: (s[2].primary, s[0] - s[1])):  # the primary one is drawn over the others
        row[start:end] = [("^" if mark.primary else "-", _style(mark, style))] * (end - start)
    rows = [_joined(row)]

    pending = sorted((s for s in spots if s[2].label.text), key=lambda s: (s[0], s[1], s[2].primary))
    if pending and pending[-1][1] == size and "\n" not in pending[-1][2].label.text:
        start, _, mark = pending[-1]
        if all(end <= start or not m.label.text or m is mark for _, end, m in spots):
            rows[0].append((f" {_text(mark.label.text)}", _style(mark, style)))
            pending.pop()
    while pending:
        start, _, mark = pending.pop()
        for text in _text(mark.label.text).split("\n"):
            hang: list[Piece] = [(" ", "")] * start
            for other, _, m in pending:
                if other < start:
                    hang[other] = ("│", _style(m, style))
            rows.append([*_joined(hang), (text, _style(mark, style))])
    return rows


def _rails(
    rails: list[_Mark],
    number: int,
    style: str,
    *,
    source: bool = False,
    closed: Sequence[_Mark] = (),
    closing: _Mark | None = None,
) -> Line:
    """The rails beside line `number` (`source`) or beside a row below it, on which `closing` ends with an arm to the right."""
    out: Line = []
    arm: _Mark | None = None
    for mark in rails:
        runs = mark.line <= number <= mark.last_line and mark not in closed
        if mark is closing:
            out.append(("╰─", _style(mark, style)))
            arm = mark
        elif source and mark.line == number:
            out.append(("╭ ", _style(mark, style)))
        elif runs:
            out += [("│", _style(mark, style)), ("─", _style(arm, style)) if arm else (" ", "")]
        else:
            out.append(("──", _style(arm, style)) if arm else ("  ", ""))
    return out


def _hanging(gutter: int, prefix: str, text: str) -> list[Line]:
    first, *rest = _text(text).split("\n")
    lead = (" " * gutter + " = ", "gutter")
    head: Line = [lead, (prefix, "help"), (first, "")] if prefix else [lead, (first, "")]
    return [head, *([(" " * (gutter + 3) + line, "")] for line in rest)]


def _text(text: str) -> str:
    """A message, which may have several lines, made visible."""
    return "\n".join(visible(line) for line in text.split("\n"))


def _style(mark: _Mark, style: str) -> str:
    return style if mark.primary else "secondary"


def _joined(row: list[Piece]) -> Line:
    """Runs of one style made one piece."""
    return [("".join(text for text, _ in run), style) for style, run in groupby(row, key=lambda piece: piece[1])]


def _trimmed(line: Line) -> Line:
    """A line without trailing blanks."""
    out = list(line)
    while out:
        text, style = out.pop()
        if text.rstrip():
            return [*out, (text.rstrip(), style)]
    return out


def write(diagnostics: Iterable[Diagnostic], stream: TextIO) -> None:
    """Render onto a stream: in colour if it is a terminal and the environment does not set NO_COLOR."""
    lines = layout_all(diagnostics)
    if not lines:
        return
    if not stream.isatty() or os.environ.get("NO_COLOR"):
        stream.write(_plain(lines) + "\n")
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True)
    for line in lines:
        console.print(Text.assemble(*((text, _COLOURS.get(name, "")) for text, name in line)))


_COLOURS = {
    "error": "bold red",
    "warning": "bold yellow",
    "secondary": "bold cyan",
    "gutter": "blue",
    "help": "bold green",
    "bold": "bold",
}


def _plain(lines: list[Line]) -> str:
    return "\n".join("".join(text for text, _ in line) for line in lines)
