"""Pieces of a program as a suggestion shows them, cut where they are long."""

from __future__ import annotations

from collections.abc import Callable

from axon.base.source import Span

_LINE = 88  # characters of a suggestion, after `= help: `
_MENTION = 40  # of an expression that is only mentioned


def fitting(write: Callable[[int], str]) -> str:
    """A text with its code whole, for whoever types it, where that fits on a line; else long pieces of code are cut."""
    whole = write(_LINE)
    return whole if len(whole) <= _LINE else write(_MENTION)


def short(span: Span, most: int = _MENTION) -> str:
    """The text of an expression on one line, cut after so many characters."""
    text = " ".join(span.text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
