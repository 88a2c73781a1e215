"""The text of a module with what is known at each place: what editors show where one points, as data for a page."""

from __future__ import annotations

import os

from axon.base.data import dataclass
from axon.host.html import coloured
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.hover import Hover, hover
from axon.tools.editor.workspace import Workspace

MAX_PLACES = 20_000  # at which a page says what it knows; of a longer text those that come first


@dataclass(frozen=True, slots=True)
class Piece:
    """Some text in one colour; `tip` is the number of what is known about it."""

    text: str
    style: str
    start: int
    tip: int | None


def analysed(path: str, text: str) -> Analysis | None:
    """What an editor knows of a module. It may import from beside its path."""
    workspace = Workspace()
    place = path if path.startswith("<") else os.path.abspath(path)
    workspace.open(place, text)
    return workspace.analysis(place)


def pieces(path: str, text: str) -> tuple[list[Piece], list[Hover]]:
    """The pieces of a module's text, in order, and what they say. The module may import from beside its path."""
    analysis = analysed(path, text)
    out: list[Piece] = []
    tips: dict[tuple[object, ...], int] = {}
    known: list[Hover] = []
    at = 0
    for piece, style in coloured(text):
        tip = None
        if (
            analysis is not None
            and piece.strip()
            and not piece.startswith(("(*", "*)"))
            and "italic" not in style
            and len(out) < MAX_PLACES
        ):
            found = hover(analysis, at)
            if found is not None:
                key = (found.code, found.text)
                if key not in tips:
                    tips[key] = len(known)
                    known.append(found)
                tip = tips[key]
        out.append(Piece(piece, style, at, tip))
        at += len(piece)
    return out, known
