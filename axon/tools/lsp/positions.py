"""Offsets and the protocol's positions: lines from 0, and columns in UTF-16 units unless another encoding was agreed on."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from functools import cached_property

from lsprotocol import types as lsp

_LINE_END = re.compile(r"\r\n|\n|\r")
_UNITS: dict[str, Callable[[str], int]] = {
    "utf-8": lambda c: len(c.encode("utf-8", "surrogatepass")),
    "utf-16": lambda c: 1 + (ord(c) > 0xFFFF),
    "utf-32": lambda c: 1,
}


class Positions:
    """The lines of one text. Positions that lie outside are moved to the nearest place inside, as the protocol asks."""

    def __init__(self, text: str, encoding: str = "utf-16") -> None:
        self.text = text
        self.encoding = encoding

    @cached_property
    def starts(self) -> list[int]:
        return [0, *(m.end() for m in _LINE_END.finditer(self.text))]

    def line(self, number: int) -> str:
        """A line without its end."""
        start = self.starts[number]
        end = self.starts[number + 1] if number + 1 < len(self.starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    def offset(self, position: lsp.Position) -> int:
        if position.line < 0:
            return 0
        if position.line >= len(self.starts):
            return len(self.text)
        line = self.line(position.line)
        start = self.starts[position.line]
        if line.isascii() or self.encoding == "utf-32":
            return start + min(max(position.character, 0), len(line))
        units = _UNITS[self.encoding]
        column = 0
        for n, character in enumerate(line):
            if column >= position.character:
                return start + n
            column += units(character)
        return start + len(line)

    def position(self, offset: int) -> lsp.Position:
        offset = min(max(offset, 0), len(self.text))
        number = bisect_right(self.starts, offset) - 1
        before = self.text[self.starts[number] : offset]
        width = len(before) if before.isascii() else sum(map(_UNITS[self.encoding], before))
        return lsp.Position(number, width)

    def range(self, start: int, end: int) -> lsp.Range:
        return lsp.Range(self.position(start), self.position(end))

    def width(self, start: int, end: int) -> int:
        """How wide a piece of one line is."""
        piece = self.text[start:end]
        return len(piece) if piece.isascii() else sum(map(_UNITS[self.encoding], piece))

    def change(self, change: lsp.TextDocumentContentChangeEvent) -> str:
        """The text after a change that an editor reports."""
        if isinstance(change, lsp.TextDocumentContentChangeWholeDocument):
            return change.text
        start, end = self.offset(change.range.start), self.offset(change.range.end)
        return self.text[: min(start, end)] + change.text + self.text[max(start, end) :]
