"""A module put together from pieces of other texts, and the way back from it to them."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from contextlib import contextmanager

from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError, ShapeError
from axon.base.source import SourceFile, Span


class Assembly:
    """The pieces are `add`ed in order, with `glue` between them; then `source` is the module's file."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._parts: list[str] = []
        self._size = 0
        self._pieces: list[tuple[int, Span]] = []  # where a piece begins in the text
        self._source: SourceFile | None = None

    def add(self, piece: Span) -> None:
        self._pieces.append((self._size, piece))
        self.glue(piece.text)

    def glue(self, text: str) -> None:
        """Text that nobody wrote: places in it are those of the piece that follows it, or of the last one."""
        assert self._source is None
        self._parts.append(text)
        self._size += len(text)

    @property
    def text(self) -> str:
        return "".join(self._parts)

    @property
    def source(self) -> SourceFile:
        if self._source is None:
            self._source = SourceFile(self.path, self.text)
        return self._source

    def moved(self, diagnostic: Diagnostic) -> Diagnostic:
        """A diagnostic of the module with its places in the texts that the pieces are from."""
        return diagnostic.moved(self.back)

    def back(self, span: Span) -> Span:
        """A place of the module, or of another file it knows, where it was written."""
        if span.file.path != self.path or not self._pieces:
            return span
        starts = [at for at, _ in self._pieces]
        number = max(bisect_right(starts, span.start) - 1, 0)
        at, piece = self._pieces[number]
        if span.start > at + len(piece.text) and number + 1 < len(self._pieces):  # in the glue before the next piece
            piece = self._pieces[number + 1][1]
            return piece
        if not at <= span.start <= at + len(piece.text):
            return piece
        start = piece.start + span.start - at
        return Span(piece.file, start, min(max(start, piece.start + span.end - at), piece.end))

    @contextmanager
    def moving(self) -> Iterator[None]:
        """Errors raised inside have their places where they were written."""
        try:
            yield
        except AxonError as error:
            kind = ShapeError if isinstance(error, ShapeError) else AxonError
            raise kind(tuple(map(self.moved, error.diagnostics))) from error.__cause__
