"""Text to tokens, in two linear passes: blank the comments (they nest), then cut what is left.

Neither pass stops at bad text: it is reported, and what stands in its place lets the parser go on.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.source import SourceFile, Span, once
from axon.grammar.mistakes import LOOKALIKES, OPERATORS
from axon.grammar.table import Table

MAX_CHARACTERS = 1024 * 1024
MAX_ERRORS = 100
END = "$END"


class Token(NamedTuple):
    """`kind` is a terminal's name (NAME, INT, …), or the text itself for keywords and symbols, or $END."""

    kind: str
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Tokens:
    """What a file is made of. All offsets are those of its text."""

    tokens: tuple[Token, ...]  # the last is $END
    comments: tuple[Span, ...]
    blanked: str  # the text with spaces for comments
    wrong: tuple[int, ...]  # where what was read is not what is written
    left_out: tuple[int, ...]  # those of them where text was dropped that may have meant something
    diagnostics: tuple[Diagnostic, ...]


def tokenize(file: SourceFile, table: Table) -> Tokens:
    diagnostics: list[Diagnostic] = []
    if len(file.text) > MAX_CHARACTERS:
        message = f"this file is too large: {len(file.text):,} characters, and at most {MAX_CHARACTERS:,} are read"
        diagnostics.append(Diagnostic("AX0109", message, (Label(file.span(0, 0)),)))
        return Tokens((Token(END, "", 0, 0),), (), "", (0,), (0,), tuple(diagnostics))
    diagnostics += _unreadable(file)
    blanked, comments = _blank_comments(file, diagnostics)
    tokens, wrong, left_out = _cut(file, blanked, table, diagnostics)
    return Tokens(tuple(tokens), comments, blanked, tuple(wrong), tuple(left_out), tuple(diagnostics))


@once
def blanked(file: SourceFile) -> str:
    """The text of a file with its comments blanked, as far as it is read."""
    return _blank_comments(file, [])[0] if len(file.text) <= MAX_CHARACTERS else ""


# ── characters that no text may hold, not even a comment ─────────────────────────────────────────────────────────────

_UNREADABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")


def _unreadable(file: SourceFile) -> list[Diagnostic]:
    """One diagnostic for each kind of such characters, at the first place; NULs in a binary file would otherwise flood."""
    found: dict[str, Diagnostic] = {}
    for match in _UNREADABLE.finditer(file.text):
        character = ord(match[0][0])
        label = (Label(file.span(match.start(), match.end())),)
        if character == 0:
            new = Diagnostic("AX0106", "this file holds a NUL character (U+0000): is it text?", label)
        elif 0xD800 <= character <= 0xDFFF:
            message = f"half of a surrogate pair (U+{character:04X}) stands here alone: save the file as UTF-8"
            new = Diagnostic("AX0106", message, label)
        elif character < 0x80:
            new = Diagnostic("AX0106", f"a control character (U+{character:04X}) stands here: delete it", label)
        else:
            message = f"an invisible character (U+{character:04X}) changes the direction of the text here: delete it"
            note = "such characters can make code look like other code, so they are refused everywhere, also in comments"
            new = Diagnostic("AX0107", message, label, (note,))
        found.setdefault(new.message, new)
    return list(found.values())


# ── comments ─────────────────────────────────────────────────────────────────────────────────────────────────────────

_COMMENT_MARK = re.compile(r"\(\*|\*\)")
_NOT_LINE_END = re.compile(r"[^\r\n]")


def _blank_comments(file: SourceFile, diagnostics: list[Diagnostic]) -> tuple[str, tuple[Span, ...]]:
    """The text with a space for every character of a comment. Outside a comment `*)` is left alone: it may end `(op *)`."""
    text = file.text
    pieces: list[str] = []
    comments: list[Span] = []
    copied = opened_at = depth = 0
    nested = False
    if text.startswith("\ufeff"):  # a byte order mark at the very start is a habit of some editors
        pieces.append(" ")
        copied = 1
    for mark in _COMMENT_MARK.finditer(text):
        if mark[0] == "(*":
            if depth == 0:
                opened_at = mark.start()
                pieces.append(text[copied:opened_at])
            nested = depth > 0
            depth += 1
        elif depth > 0:
            depth -= 1
            if depth == 0:
                copied = mark.end()
                comments.append(file.span(opened_at, copied))
                pieces.append(_NOT_LINE_END.sub(" ", text[opened_at:copied]))
    if depth > 0:
        copied = len(text)
        comments.append(file.span(opened_at, copied))
        pieces.append(_NOT_LINE_END.sub(" ", text[opened_at:copied]))
        inner = f", and {depth - 1:,} more inside it" if depth > 1 else ""
        message = f"this comment is never closed{inner}: expected `*)`"
        notes = ("comments nest: each `(*` inside one needs a `*)` of its own",) if nested else ()
        diagnostics.append(Diagnostic("AX0103", message, (Label(file.span(opened_at, opened_at + 2)),), notes))
    return "".join(pieces) + text[copied:], tuple(comments)


# ── tokens ───────────────────────────────────────────────────────────────────────────────────────────────────────────

_WORD = r"[^\W\d]\w*"  # with letters of any script
_FOREIGN = ("WORD", "STRING", "LINE_COMMENT", "OPERATOR", "LOOKALIKE", "OTHER")


@lru_cache(maxsize=1)
def _master(table: Table) -> tuple[re.Pattern[str], frozenset[str]]:
    """One pattern whose groups are kinds of tokens, and the keywords. What other languages write is cut like tokens."""
    keywords = frozenset(s for s in table.literals if s.isidentifier())
    symbols = [s for s in table.literals if s not in keywords]
    parts = [
        ("SPACE", r"[ \t\r\n]+"),
        ("WORD", rf"(?=\w*[^\x00-\x7f\W]){_WORD}"),
        ("OPERATOR", "|".join(re.escape(s) for s in sorted(OPERATORS, key=len, reverse=True))),
        ("STRING", r"\"[^\"\r\n]*\"?|'\w*'"),
        ("LINE_COMMENT", r"#[^\r\n]*|//[^\r\n]*"),
        *table.patterns,
        ("SYMBOL", "|".join(re.escape(s) for s in symbols)),
        ("LOOKALIKE", f"[{re.escape(''.join(LOOKALIKES))}]"),
        ("UNREADABLE", _UNREADABLE.pattern),
        ("OTHER", r"(?P<SAME>.)(?P=SAME)*"),
    ]
    return re.compile("|".join(f"(?P<{name}>{pattern})" for name, pattern in parts)), keywords


def _cut(file: SourceFile, text: str, table: Table, diagnostics: list[Diagnostic]) -> tuple[list[Token], list[int], list[int]]:
    """Tokens, where they are not what is written, and where they leave something out."""
    master, keywords = _master(table)
    tokens: list[Token] = []
    wrong: list[int] = [d.labels[0].span.start for d in diagnostics]
    left_out = [d.labels[0].span.start for d in diagnostics if d.code == "AX0103"]  # a comment that takes the rest of the text
    names: set[str] = set()  # that were complained of
    enough = len(diagnostics) + MAX_ERRORS
    for match in master.finditer(text):
        kind = match.lastgroup or ""
        if kind == "SPACE" or kind == "UNREADABLE":
            continue
        piece = match[0]
        if kind == "SYMBOL" or (kind == "NAME" and piece in keywords) or (piece == "~" and tokens and _may_be_drawn(tokens[-1])):
            kind = piece
        elif kind in _FOREIGN:
            diagnostic, piece = _foreign(kind, piece, file.span(match.start(), match.end()))
            wrong.append(match.start())
            if kind != "WORD" or piece not in names:
                diagnostics.append(diagnostic)
                names.add(piece)
            if len(diagnostics) == enough:  # the rest of such a text is not worth reading
                break
            if not piece:
                left_out += [match.start()] * (match[0] != ";")
                continue
            if kind == "STRING" and (len(match[0]) == 1 or match[0][0] != match[0][-1]):
                left_out.append(match.start())  # it takes the rest of the line
            kind = "NAME" if piece == "_" or (piece[0].isalpha() and piece not in keywords) else piece
        tokens.append(Token(kind, piece, match.start(), match.end()))
    tokens.append(Token(END, "", len(text), len(text)))
    return tokens, wrong, left_out


def _may_be_drawn(before: Token) -> bool:
    """Whether a `~` after this token stands before a site, and is no mistake: after what may end a pattern or its type."""
    return before.kind in ("NAME", "TYVAR", ")", "}", "]", "?")


def _write(span: Span, meant: str) -> tuple[Suggestion, ...]:
    """An edit that the message has said already."""
    letters = meant.isalpha()
    around = span.file.text[span.start - 1 : span.start], span.file.text[span.end : span.end + 1]
    before, after = (" " if letters and (c.isalnum() or c == "_") else "" for c in around)
    return (Suggestion("", (Edit(span, f"{before}{meant}{after}"),)),)


def _foreign(kind: str, text: str, span: Span) -> tuple[Diagnostic, str]:
    """What to say of text that Axon has not, and the token that stands for it ("" for none)."""
    label = (Label(span),)
    match kind:
        case "WORD":
            character = next(c for c in text if not c.isascii())
            message = f"names are made of a-z, A-Z, 0-9 and _, so `{character}` (U+{ord(character):04X}) cannot be part of one"
            return Diagnostic("AX0105", message, label), text
        case "STRING":
            return Diagnostic("AX0113", "Axon has no strings: a program is made of numbers, tensors and functions", label), "_"
        case "LINE_COMMENT":
            mark = "#" if text.startswith("#") else "//"
            note = ("to divide, write `/`: on integers it is floor division",) if mark == "//" else ()
            return Diagnostic("AX0113", f"`{mark}` does not begin a comment here: write `(* … *)`", label, note), ""
        case "OPERATOR":
            meant, why = OPERATORS[text]
            return Diagnostic("AX0113", f"Axon has no `{text}`: {why}", label, suggestions=_write(span, meant)), meant
        case "LOOKALIKE":
            meant = LOOKALIKES[text]
            message = f"`{text}` (U+{ord(text):04X}) is not a symbol of Axon: write `{meant}`"
            return Diagnostic("AX0104", message, label, suggestions=_write(span, meant)), meant
        case _:
            code = f"U+{ord(text[0]):04X}"
            message = f"`{text[:20]}` ({code}) means nothing in Axon" if text.isprintable() else f"{code} means nothing in Axon"
            return Diagnostic("AX0104", message, label), ""
