"""A file cut into pieces that can be parsed and checked one by one: its declarations, each with the comments before it.

Note [Cutting]
    A declaration begins with a keyword at the margin, outside comments. Texts that parse without errors piece by piece parse to
    the same declarations as a whole, since the grammar reduces a declaration alike before a keyword and at the end. Two things
    can make a piece wrong that is not: a `let` whose own declarations stand at the margin is put together again (`_glued`), and
    a comment that never ends would swallow everything, so it ends before the next declaration. What stands at the margin behind a
    declaration and is none, such as `fum f x = x`, is a piece of its own: the one above has nothing to do with it.

A chunk is a source file of its own. Its spans stay true when other chunks grow or move: only where it begins in the file changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Generator, Mapping
from functools import cached_property
from itertools import takewhile

from axon.base.data import dataclass, field, replace
from axon.base.diagnostics import Diagnostic
from axon.base.nearest import one_slip
from axon.base.source import SourceFile
from axon.grammar import syntax as S
from axon.grammar.extent import DECLARATIONS
from axon.grammar.lexer import Tokens, tokenize
from axon.grammar.mistakes import DECLARING
from axon.grammar.parse import parse
from axon.grammar.table import load

_MARK = re.compile(r"^(?:fun|val|type|sig|import)\b|\(\*|\*\)", re.MULTILINE)
_WORD = re.compile(r"[A-Za-z_]\w*")
_HEAD = re.compile(r"\s*(?:(fun|val|type|sig|import)\s+\(?\s*)?([A-Za-z_]\w*)(?:\s+\(?\s*([A-Za-z_]\w*))?")
_RENAMING = re.compile(r"\s*import\s+\w+\s+as\s+([A-Za-z_]\w*)")
_NEXT = re.compile(r"\s*(fun|val|type|sig|import)\b")
_TOKEN = re.compile(r"\s+(?:\w+|\S)")
_BRACKET = re.compile(r"\b(?:let|end)\b|[()\[\]{}]")
_OPENING = {"let", "(", "[", "{"}
_MAX_MENDED = 20  # comments without an end that are cut short, in one file


@dataclass(frozen=True, eq=False)
class Chunk:
    """One piece of a file, without the space after it. `decls` are those without syntax errors: usually one, none where the piece
    is not a declaration yet. The source of a broken chunk goes on into what follows, whose keyword its errors may mention.
    """

    text: str
    source: SourceFile
    decls: tuple[S.Decl, ...]
    problems: tuple[Diagnostic, ...]
    former: Chunk | None = field(default=None, repr=False)  # what stood here when it last had no syntax error, if this one has

    @cached_property
    def broken(self) -> bool:
        return any(d.severity == "error" for d in self.problems)

    @cached_property
    def lexed(self) -> Tokens:
        return tokenize(self.source, load())

    @cached_property
    def words(self) -> frozenset[str]:
        """Every name in it, outside comments."""
        return frozenset(_WORD.findall(self.lexed.blanked[: len(self.text)]))

    @cached_property
    def head(self) -> str:
        """The name that it seems to declare, also if it does not parse; "" if that cannot be seen."""
        found = _HEAD.match(self.lexed.blanked, 0, len(self.text))
        if found is None:
            return ""
        keyword, first, second = found.groups()
        if keyword == "import" and (renaming := _RENAMING.match(self.lexed.blanked)) is not None:
            return renaming[1]
        if keyword is not None:
            return first
        if _meant(first):
            return second or ""
        return first if "=" in self.lexed.blanked[: len(self.text)] else ""  # `f x = …`

    @cached_property
    def is_type(self) -> bool:
        """Whether it seems to declare a type."""
        found = _HEAD.match(self.lexed.blanked, 0, len(self.text))
        return found is not None and (found[1] or _meant(found[2])) == "type"

    @cached_property
    def balance(self) -> int:
        """How many brackets and `let`s it leaves open; negative if it closes more."""
        return sum(1 if m[0] in _OPENING else -1 for m in _BRACKET.finditer(self.lexed.blanked, 0, len(self.text)))


def _meant(word: str) -> str | None:
    """What keyword somebody meant by a word that is none."""
    return DECLARING.get(word) or one_slip(word, DECLARATIONS)


def cut(text: str) -> list[int]:
    """Where the pieces of a text begin: 0, then where each declaration does, or the comments that lead it."""
    keywords, comments = _scan(text)
    starts = [0]
    remaining = comments[::-1]
    before: list[tuple[int, int]] = []  # comments between the last keyword and this one
    for keyword in keywords:
        while remaining and remaining[-1][0] < keyword:
            before.append(remaining.pop())
        begin = _led(text, keyword, before)
        before.clear()
        if begin > starts[-1]:
            starts.append(begin)
    return starts


def _scan(text: str) -> tuple[list[int], list[tuple[int, int]]]:
    """The keywords at the margin outside comments, and the comments."""
    keywords: list[int] = []
    comments: list[tuple[int, int]] = []
    at = 0
    for _ in range(_MAX_MENDED):
        depth, opened = 0, -1
        for mark in _MARK.finditer(text, at):
            if mark[0] == "(*":
                opened = opened if depth else mark.start()
                depth += 1
            elif mark[0] == "*)":
                depth -= depth > 0
                if depth == 0 and opened >= at:
                    comments.append((opened, mark.end()))
                    opened = -1
            elif depth == 0:
                keywords.append(mark.start())
        if depth == 0:
            break
        following = next((m.start() for m in _MARK.finditer(text, opened + 2) if m[0][0] not in "(*"), None)
        if following is None:
            break
        at = following
    return keywords, comments


@dataclass(frozen=True, slots=True)
class Pieces:
    """A text as chunks, and where each of them begins."""

    chunks: list[Chunk]
    starts: list[int]


def read(path: str, text: str, known: list[Chunk]) -> Pieces:
    """The chunks of a text, with those of an earlier text that are unchanged."""
    steps = reading(path, text, known, [])
    while True:
        try:
            next(steps)
        except StopIteration as done:
            pieces: Pieces = done.value
            return pieces


def reading(path: str, text: str, known: list[Chunk], parsed: list[Chunk]) -> Generator[None, None, Pieces]:
    """As `read`, stopping after each chunk that is parsed. They go into `parsed`: none need be again if this is given up."""
    starts = cut(text)
    ends = [*starts[1:], len(text)]
    by_text: dict[str, list[Chunk]] = {}
    for chunk in reversed(known):
        by_text.setdefault(chunk.source.text, []).append(chunk)
    out = Pieces([], [])
    work = list(zip(reversed(starts), reversed(ends), strict=True))
    while work:
        start, end = work.pop()
        piece = text[start:end].rstrip()
        same = by_text.get(piece)
        if not same:
            keyword, after = _keyword(text, end)
            broken = text[start:after]
            same = by_text.get(broken)
            chunk = same.pop() if same else _parsed(path, piece, broken, keyword - start)
            stray = _stray(chunk)
            if stray:
                work += [(start + stray, end), (start, start + stray)]
                continue
            if chunk.broken and any(_goes_on(chunk, d) for d in chunk.decls):
                chunk = replace(chunk, decls=())
            parsed.append(chunk)
            yield
        else:
            chunk = same.pop()
        out.chunks.append(chunk)
        out.starts.append(start)
    return _glued(path, text, out, by_text)


def _stray(chunk: Chunk) -> int:
    """Where text at the margin begins that follows a declaration and is none, or the comments that lead it; 0 without such."""
    wrong = next((d.span for d in chunk.problems if d.severity == "error"), None)
    above = [d.span.end for d in chunk.decls if wrong is not None and d.span.end <= wrong.start]
    if wrong is None or not above or chunk.text[wrong.start - 1 : wrong.start] != "\n":
        return 0
    comments = [(c.start, c.end) for c in chunk.lexed.comments if max(above) <= c.start and c.end <= wrong.start]
    return _led(chunk.text, wrong.start, comments)


def _goes_on(chunk: Chunk, decl: S.Decl) -> bool:
    """Whether another declaration follows inside a line: they stood in a `let` that is none any more, and neither is meant so."""
    found = _NEXT.match(chunk.lexed.blanked, decl.span.end)
    return found is not None and chunk.text[found.start(1) - 1 : found.start(1)] != "\n"


def _led(text: str, keyword: int, comments: list[tuple[int, int]]) -> int:
    """Where the lines begin that hold only comments, and lead to a keyword. Takes these comments from the list."""
    begin = keyword
    while comments and not text[comments[-1][1] : begin].strip():
        line = text.rfind("\n", 0, comments[-1][0]) + 1
        if text[line : comments[-1][0]].strip():
            break
        begin = line
        comments.pop()
    return begin


def _parsed(path: str, text: str, longer: str = "", keyword: int = 0) -> Chunk:
    """A piece; if it is wrong, as what it looks like with what follows, of which errors may mention what is before `keyword`."""
    source = SourceFile(path, text)
    program, problems = parse(source)
    if len(longer) > len(text) and any(d.severity == "error" for d in problems):
        source = SourceFile(path, longer)
        again, found = parse(source)
        found = tuple(d for d in found if d.span is None or d.span.start < keyword)
        if any(d.severity == "error" for d in found):
            return Chunk(text, source, tuple(d for d in again.decls if d.span.end <= len(text)), found)
        source = SourceFile(path, text)
        program, problems = parse(source)
    return Chunk(text, source, program.decls, problems)


def _keyword(text: str, at: int) -> tuple[int, int]:
    """Where the keyword ends that begins the declaration of a piece, and the word after it; for errors may be found at the keyword,
    and what is wrong about a text that ends is found at its last word. At the end of the text, where the keyword begins."""
    found = next((m for m in _MARK.finditer(text, at) if m[0][0] not in "(*"), None)
    if found is None:
        return at, at
    following = _TOKEN.match(text, found.end())
    return (found.end(), following.end()) if following is not None else (found.start(), found.end())


def _glued(path: str, text: str, pieces: Pieces, known: Mapping[str, list[Chunk]]) -> Pieces:
    """Join pieces that were cut inside a `let` or bracket, if they parse together. See Note [Cutting]."""
    chunks, starts = pieces.chunks, pieces.starts
    out = Pieces([], [])
    at = 0
    while at < len(chunks):
        chunk, end = chunks[at], at + 1
        if chunk.broken and chunk.balance > 0:
            depth = chunk.balance
            while end < len(chunks) and depth > 0:
                depth += chunks[end].balance
                end += 1
            joined = (
                _joined(path, text[starts[at] : starts[end] if end < len(starts) else len(text)], known) if depth == 0 else None
            )
            chunk, end = (joined, end) if joined is not None else (chunk, at + 1)
        out.chunks.append(chunk)
        out.starts.append(starts[at])
        at = end
    return out


def _joined(path: str, text: str, known: Mapping[str, list[Chunk]]) -> Chunk | None:
    found = known.get(text.rstrip())
    joined = found.pop() if found else _parsed(path, text.rstrip())
    return None if joined.broken else joined


def succeed(old: list[Chunk], new: list[Chunk]) -> list[Chunk]:
    """The new chunks, each broken one with what stood there when it was last whole."""
    if not any(c.broken and c.former is None for c in new):
        return new
    a = b = 0
    while a < min(len(old), len(new)) and old[a] is new[a]:
        a += 1
    while b < min(len(old), len(new)) - a and old[-1 - b] is new[-1 - b]:
        b += 1
    gone, come = old[a : len(old) - b], new[a : len(new) - b]
    paired = dict(zip(come, gone, strict=True)) if len(gone) == len(come) else {}
    heads = {c.head: c for c in reversed(gone) if c.head}
    staying = Counter(c.head for c in come)
    out = list(new)
    for at, chunk in enumerate(come, a):
        if chunk.broken and chunk.former is None:
            staying[chunk.head] -= 1  # what stood here may go by the name that this one seems to declare
            here = paired.get(chunk) or (gone[0] if gone and at == a else None)
            was = heads.get(chunk.head) or (here if here is not None and not staying[here.head] else None)
            former = _whole(gone, was, staying) if was is not None else None
            staying[chunk.head] += 1
            if former is not None and former.decls:
                out[at] = Chunk(chunk.text, chunk.source, chunk.decls, chunk.problems, former)
    return out


def _whole(gone: list[Chunk], was: Chunk, staying: Counter[str]) -> Chunk | None:
    """What stood at a chunk when it last parsed, with the declarations after it that are now part of its text: who deletes the
    keyword of one has joined it to the one before."""
    at = next(n for n, c in enumerate(gone) if c is was)
    swallowed = list(takewhile(lambda c: not c.broken and not staying[c.head], gone[at + 1 :]))
    former = was.former if was.broken else was
    if former is None or not swallowed:
        return former
    joined = _parsed(was.source.path, "\n\n".join(c.text for c in (former, *swallowed)))
    return former if joined.broken else joined
