"""What each word of a file is, for colours that a grammar of regular expressions cannot give."""

from __future__ import annotations

from axon.base.data import dataclass, field
from axon.grammar.lexer import END, Token
from axon.tools.editor.analysis import Analysis, shifted
from axon.tools.editor.chunks import Chunk
from axon.tools.editor.names import Binding, DeclarationNames, Free, Kind, Occurrence
from axon.tools.editor.places import DeclarationPart, parts, resolve, whole

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


@dataclass(frozen=True, slots=True, eq=False)
class ChunkWords:
    """The words of a chunk, placed from its beginning, and what that follows from: the names in it, and what those stand for that
    it does not bind itself. `kept` is for who makes something of them."""

    words: tuple[Word, ...]
    names: tuple[DeclarationNames, ...]
    free: tuple[tuple[Free, int, Kind | None], ...]  # each with the number of a part that names it
    kept: dict[str, tuple[list[int], int, int]] = field(default_factory=dict)


def words(analysis: Analysis) -> list[Word]:
    """The words of a file in order. Pieces never cross the end of a line."""
    return [
        Word(w.start + start, w.end + start, w.type, w.modifiers) for _, start, found in by_chunk(analysis) for w in found.words
    ]


def by_chunk(analysis: Analysis) -> list[tuple[Chunk, int, ChunkWords]]:
    """The chunks of a file, where they begin, and their words; those of most are known from the last time."""
    kinds: dict[Free, Kind | None] = {}
    out: list[tuple[Chunk, int, ChunkWords]] = []
    for chunk, start in zip(analysis.chunks, analysis.starts, strict=True):
        found = parts(analysis, chunk)
        known = analysis.words.get(chunk)
        if known is None or not _holds(analysis, known, found, kinds):
            known = _of_chunk(analysis, chunk, found, kinds)
        out.append((chunk, start, known))
    analysis.words = {chunk: found for chunk, _, found in out}
    return out


def _holds(analysis: Analysis, known: ChunkWords, found: list[DeclarationPart], kinds: dict[Free, Kind | None]) -> bool:
    """Whether what was known of a chunk's words is still true."""
    if len(known.names) != len(found) or any(part.names is not names for part, names in zip(found, known.names, strict=True)):
        return False
    return all(_stands_for(analysis, found[number], target, kinds) is kind for target, number, kind in known.free)


def _of_chunk(analysis: Analysis, chunk: Chunk, found: list[DeclarationPart], kinds: dict[Free, Kind | None]) -> ChunkWords:
    named = _named(chunk, found)
    free: dict[Free, tuple[int, Kind | None]] = {}
    out: list[Word] = []
    for token in chunk.lexed.tokens:
        if token.kind == END or token.start >= len(chunk.text):
            continue
        word = _word(token)
        at = token.end - len(token.text.lstrip(".'"))
        if at in named:
            number, occurrence = named[at]
            target = occurrence.target
            if isinstance(target, Binding):
                kind: Kind | None = target.kind
            else:
                kind = _stands_for(analysis, found[number], target, kinds)
                free[target] = number, kind
            if kind is not None:
                language = isinstance(target, Free) and kind in (Kind.BUILTIN, Kind.ELEMENT)
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
    ordered = tuple(sorted(out, key=lambda w: w.start))
    return ChunkWords(ordered, tuple(part.names for part in found), tuple((t, n, k) for t, (n, k) in free.items()))


def _word(token: Token) -> Word | None:
    if token.kind in ("INT", "FLOAT", "PROJ"):
        return Word(token.start, token.end, "number")
    if token.kind == "TYVAR":
        return Word(token.start, token.end, "typeParameter")
    if token.kind in ("NAME", "RUN") or token.kind in _PUNCTUATION:
        return None
    return Word(token.start, token.end, "keyword" if token.kind.isidentifier() else "operator")


def _named(chunk: Chunk, found: list[DeclarationPart]) -> dict[int, tuple[int, Occurrence]]:
    """The names of a chunk by where they begin, with the number of their part; in one that does not parse, those that are still
    where they were."""
    out: dict[int, tuple[int, Occurrence]] = {}
    source = whole(chunk).source
    for number, part in enumerate(found):
        for occurrence in part.names.occurrences:
            if occurrence.span.file is not source:
                continue
            at: int | None = occurrence.span.start
            if chunk.former is not None:
                at = shifted(occurrence.span.start, chunk.former.text, chunk.text)
                if at is None or not chunk.text.startswith(occurrence.span.text, at):
                    continue
            if at is not None:
                out[at] = (number, occurrence)
    return out


def _stands_for(analysis: Analysis, part: DeclarationPart, target: Free, kinds: dict[Free, Kind | None]) -> Kind | None:
    if target not in kinds:
        found = resolve(analysis, part, target)
        kinds[target] = found.kind if found is not None else None
    return kinds[target]
