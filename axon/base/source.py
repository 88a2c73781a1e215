"""Source text and places in it."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property, wraps
from typing import TypeVar, cast

from axon.base.data import dataclass, field

V = TypeVar("V")


@dataclass(frozen=True, eq=False)
class SourceFile:
    """One file of source text. `path` is what messages call it; offsets count characters of `text` from 0."""

    path: str
    text: str

    @cached_property
    def line_starts(self) -> tuple[int, ...]:
        """The offset at which each line begins. Lines end at a line feed alone, as editors count them."""
        return (0, *(i + 1 for i, c in enumerate(self.text) if c == "\n"))

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column of an offset, both counted from 1."""
        line = bisect_right(self.line_starts, offset)
        return line, offset - self.line_starts[line - 1] + 1

    def line(self, number: int) -> str:
        """The text of a line counted from 1, without its line end."""
        start = self.line_starts[number - 1]
        end = self.line_starts[number] - 1 if number < len(self.line_starts) else len(self.text)
        return self.text[start:end].removesuffix("\r")

    def span(self, start: int = 0, end: int | None = None) -> Span:
        return Span(self, start, len(self.text) if end is None else end)


def once(make: Callable[[SourceFile], V]) -> Callable[[SourceFile], V]:
    """A function of a file that is evaluated once for each: what it gave stays with the file, for as long as that is there."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def made(source: SourceFile) -> V:
        known = vars(source)
        if name not in known:
            known[name] = make(source)
        return cast("V", known[name])

    return made


@dataclass(frozen=True, slots=True)
class Span:
    """The characters `start` to `end` (exclusive) of a file."""

    file: SourceFile = field(repr=False)
    start: int
    end: int

    def to(self, other: Span) -> Span:
        """The smallest span that covers both."""
        return Span(self.file, min(self.start, other.start), max(self.end, other.end))

    @property
    def text(self) -> str:
        return self.file.text[self.start : self.end]

    @property
    def excerpt(self) -> str:
        """A few words of it, on one line."""
        text = " ".join(self.text.split())
        return text if len(text) <= 40 else text[:37] + "…"

    def covers(self, other: Span) -> bool:
        return self.file is other.file and self.start <= other.start and other.end <= self.end

    def followed(self, by: str) -> bool:
        """Whether this text comes next, after any white space."""
        return self.file.text[self.end :].lstrip().startswith(by)

    def __str__(self) -> str:
        line, column = self.file.position(self.start)
        return f"{self.file.path}:{line}:{column}"


def type_around(size: Span) -> Span:
    """The type in whose brackets a size is written; the size itself where it stands in none."""
    text, start, depth = size.file.text, size.start, 0
    while start and (depth or text[start - 1] != "["):
        depth += (text[start - 1] in ")]}") - (text[start - 1] in "([{")
        start -= 1
    named = re.search(r"['\w.]*\[$", text[:start])
    end = text.find("]", size.end)
    return Span(size.file, named.start(), end + 1) if named is not None and end >= 0 and "\n" not in text[start:end] else size
