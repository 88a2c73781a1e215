"""Pieces of a program as a suggestion shows them: as an operand or an argument, cut where they are long."""

from __future__ import annotations

import re
from collections.abc import Callable

from axon.base.source import Span

_LINE = 88  # characters of a suggestion, after `= help: `
_MENTION = 40  # of an expression that is only mentioned
_SIMPLE = re.compile(r"[A-Za-z_][\w.]*(\[[^\[\]]*\])?|\d[\w.]*|\(.*\)|\[\|.*\|\]")


def operand(span: Span) -> str:
    """The text of an expression, in parentheses if it needs them as an argument."""
    text = span.text
    return text if _SIMPLE.fullmatch(text) and _balanced(text) else f"({text})"


def _balanced(text: str) -> bool:
    """Whether a text that begins with a parenthesis ends with its partner."""
    if not text.startswith("("):
        return True
    depth = 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return n == len(text) - 1
    return False


def fitting(write: Callable[[int], str]) -> str:
    """A text with its code whole, for whoever types it, where that fits on a line; else long pieces of code are cut."""
    whole = write(_LINE)
    return whole if len(whole) <= _LINE else write(_MENTION)


def shown(span: Span, most: int = _MENTION) -> str:
    """The text of an expression as it is shown as an argument or before `[`."""
    return short(span, most) if operand(span) == span.text else f"({short(span, most)})"


def short(span: Span, most: int = _MENTION) -> str:
    """The text of an expression on one line, cut after so many characters."""
    text = " ".join(span.text.split())
    return text if len(text) <= most else text[: most - 1] + "…"
