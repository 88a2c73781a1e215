"""Where in the program what a kernel computes is written, as comments of the kernel's source.

They are no part of what a machine code is found by: see `build._key`.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import PurePath

from axon.base.source import Span

_WIDEST = 72  # characters of a program's text in a comment


def placed(names: Iterable[str], span: Span | None) -> str:
    """What is computed, where it is written, and the beginning of its text: `total  model.axon:3:25  sum i j => x[i, j]`."""
    what = ", ".join(names)
    if span is None:
        return what
    line, column = span.file.position(span.start)
    text = " ".join(span.text.split())
    shown = text if len(text) <= _WIDEST else f"{text[: _WIDEST - 1]}…"
    return f"{what}  {PurePath(span.file.path).name}:{line}:{column}  {shown}"
