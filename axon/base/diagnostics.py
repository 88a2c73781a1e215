"""Diagnostics: errors and warnings as frozen data. Wording belongs to whoever makes one; layout to `render`.

The table of codes is in `codes.py`; a code's long text is docs/errors/CODE.md, which `axon explain CODE` prints.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Literal

from axon.base.data import dataclass, replace
from axon.base.source import Span

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Label:
    """A place in the source and what it has to do with the problem. The primary label is the first of a diagnostic."""

    span: Span
    text: str = ""


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the characters of a span."""

    span: Span
    text: str


class Change(Enum):
    """What a suggestion changes, where that decides which others it stands before or beside."""

    SIZE = "another size where one is written"
    FACT = "a fact that is stated"
    BOUND = "a bound of an index"
    INDEX = "another index in an access"
    MOVED = "an index at another place of its access"
    SWAPPED = "two indices of an access in each other's place"
    ARRANGED = "indices in the order of the dimensions, or these in theirs"
    ROWS = "indices for what was applied to a whole tensor"
    GROUPED = "other groups of the indices of a `for`"
    ZEROS = "zeros outside a tensor"
    SLIP = "what was meant, hardly anything else"
    EXCHANGED = "two values in each other's place"
    TRANSPOSED = "a matrix transposed"
    CAST = "a number made one of another kind"
    TOLD = "the element type of a `val` that has one by default"
    PARENTHESES = "parentheses where an expression is read otherwise than it is meant"


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A help line; with edits, one that an editor can apply, and that the checker may have accepted (`checked`).

    The text is empty where the message has said it already: then there is no help line, and the edits are for editors.
    """

    text: str
    edits: tuple[Edit, ...] = ()
    checked: bool = False
    asks: bool = False  # it may well leave it to calls whether sizes fit, as a bounded index does
    blank: bool = False  # what to write is still to be found: `{}` stands for it in the text and in the only edit
    change: Change | None = None
    annotates: tuple[Span, ...] = ()  # the parameters that it says to annotate: each is shown, see `Diagnostic.places`

    def filled(self, text: str) -> Suggestion:
        """A blank one with what to write."""
        return replace(self, text=self.text.replace("{}", text), edits=(replace(self.edits[0], text=text),), blank=False)


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """`message` is the one-line headline, without its code; `labels[0]` is where the problem is; `notes` follow the excerpt."""

    code: str  # AX0301
    message: str
    labels: tuple[Label, ...] = ()
    notes: tuple[str, ...] = ()
    suggestions: tuple[Suggestion, ...] = ()
    severity: Severity = "error"

    @property
    def span(self) -> Span | None:
        return self.labels[0].span if self.labels else None

    @property
    def places(self) -> tuple[Label, ...]:
        """What is shown of the source: the labels, and each parameter that a suggestion says to annotate where none stands yet."""
        known = dict.fromkeys(span for s in self.suggestions for span in s.annotates)
        own = {(label.span.file.path, label.span.start, label.span.end) for label in self.labels}
        more = (span for span in known if (span.file.path, span.start, span.end) not in own)
        return (*self.labels, *(Label(span, f"`{span.text}` {_ANNOTATED[span.followed(':')]}") for span in more))

    def moved(self, place: Callable[[Span], Span]) -> Diagnostic:
        """The diagnostic of a text that is part of another, or made of others, with all of its places there."""
        return replace(
            self,
            labels=tuple(replace(label, span=place(label.span)) for label in self.labels),
            suggestions=tuple(
                replace(
                    s,
                    edits=tuple(replace(e, span=place(e.span)) for e in s.edits),
                    annotates=tuple(map(place, s.annotates)),
                )
                for s in self.suggestions
            ),
        )


_ANNOTATED = {False: "has no annotation", True: "is annotated here"}


def counted(number: int, noun: str) -> str:
    """`1 file`, `2,000 files`"""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
