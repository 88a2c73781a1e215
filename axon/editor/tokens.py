"""What each word of a file is, for colours that a grammar of regular expressions cannot give."""

from __future__ import annotations

from dataclasses import dataclass

from axon.editor.analysis import Analysis, shifted
from axon.editor.chunks import Chunk
from axon.editor.names import Binding, Free, Kind, Occurrence
from axon.editor.places import Part, parts, resolve, whole
from axon.grammar.lexer import END, Token

TYPES = (
    "namespace", "type", "typeParameter", "function", "variable", "parameter", "property", "keyword", "number", "operator",
    "comment", "dimension", "index",
)  # fmt: skip
MODIFIERS = ("declaration", "defaultLibrary", "readonly")

_KINDS = {
    Kind.FUNCTION: "function", Kind.VALUE: "variable", Kind.PARAMETER: "parameter", Kind.INDEX: "index", Kind.RUN: "index",
    Kind.DIMENSION: "dimension", Kind.SHAPE: "dimension", Kind.ELEMENT: "type", Kind.TYPE_VARIABLE: "typeParameter",
    Kind.TYPE: "type", Kind.MODULE: "namespace", Kind.FIELD: "property", Kind.BUILTIN: "function",
}  # fmt: skip
_PUNCTUATION = {"(", ")", "[", "]", "{", "}", "[|", "|]", ",", ":", ".", "|", "..", "?"}


@dataclass(frozen=True, slots=True)
class Word:
    """A piece of one line: where it is in the file, and what it is."""

    start: int
    end: int
    type: str
    modifiers: tuple[str, ...] = ()


def words(analysis: Analysis) -> list[Word]:
    """The words of a file in order. Pieces never cross the end of a line."""
    kinds: dict[Free, Kind | None] = {}
    out: list[Word] = []
    for chunk, start in zip(analysis.chunks, analysis.starts, strict=True):
        out += [Word(w.start + start, w.end + start, w.type, w.modifiers) for w in _of_chunk(analysis, chunk, kinds)]
    return out


def _of_chunk(analysis: Analysis, chunk: Chunk, kinds: dict[Free, Kind | None]) -> list[Word]:
    named = _named(analysis, chunk)
    out: list[Word] = []
    for token in chunk.lexed.tokens:
        if token.kind == END or token.start >= len(chunk.text):
            continue
        word = _word(token)
        at = token.end - len(token.text.lstrip(".'"))
        if at in named:
            part, occurrence = named[at]
            kind = _kind(analysis, part, occurrence, kinds)
            if kind is not None:
                language = isinstance(occurrence.target, Free) and kind in (Kind.BUILTIN, Kind.ELEMENT)
                marks = (("declaration",) if occurrence.defines else ()) + (("defaultLibrary",) if language else ())
                word = Word(token.start, token.end, _KINDS[kind], marks)
        if word is not None:
            out.append(word)
    for comment in chunk.lexed.comments:
        line_start = comment.start
        for line in comment.text.splitlines(keepends=True):
            text = line.rstrip("\r\n")
            if text.strip():
                out.append(Word(line_start, min(line_start + len(text), len(chunk.text)), "comment"))
            line_start += len(line)
    return sorted(out, key=lambda w: w.start)


def _word(token: Token) -> Word | None:
    if token.kind in ("INT", "FLOAT", "PROJ"):
        return Word(token.start, token.end, "number")
    if token.kind == "TYVAR":
        return Word(token.start, token.end, "typeParameter")
    if token.kind in ("NAME", "RUN") or token.kind in _PUNCTUATION:
        return None
    return Word(token.start, token.end, "keyword" if token.kind.isidentifier() else "operator")


def _named(analysis: Analysis, chunk: Chunk) -> dict[int, tuple[Part, Occurrence]]:
    """The names of a chunk by where they begin; in one that does not parse, those that are still where they were."""
    out: dict[int, tuple[Part, Occurrence]] = {}
    source = whole(chunk).source
    for part in parts(analysis, chunk):
        for occurrence in part.names.occurrences:
            if occurrence.span.file is not source:
                continue
            at: int | None = occurrence.span.start
            if chunk.former is not None:
                at = shifted(occurrence.span.start, chunk.former.text, chunk.text)
                if at is None or not chunk.text.startswith(occurrence.span.text, at):
                    continue
            if at is not None:
                out[at] = (part, occurrence)
    return out


def _kind(analysis: Analysis, part: Part, occurrence: Occurrence, kinds: dict[Free, Kind | None]) -> Kind | None:
    target = occurrence.target
    if isinstance(target, Binding):
        return target.kind
    if target not in kinds:
        found = resolve(analysis, part, target)
        kinds[target] = found.kind if found is not None else None
    return kinds[target]
