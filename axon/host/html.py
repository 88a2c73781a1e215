"""Axon's texts as HTML: source in colours, diagnostics with the same carets as in a terminal, signatures.

Styles are inline, for notebooks keep no style sheets, and their colours can be read on white and on black.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from html import escape
from typing import TYPE_CHECKING

from axon.base.diagnostics import Diagnostic
from axon.base.render import layout_all

if TYPE_CHECKING:
    from collections.abc import Mapping

_PRE = (
    "margin:0;padding:0.3em 0.6em;line-height:1.3;white-space:pre;overflow-x:auto;font-family:ui-monospace,Menlo,Consolas,monospace"
)
_BORDER = {"error": "#dc3040", "warning": "#b7791f"}
_STYLES = {
    "error": "color:#dc3040;font-weight:bold",
    "warning": "color:#b7791f;font-weight:bold",
    "secondary": "color:#0e8a9b;font-weight:bold",
    "gutter": "color:#8a8f98",
    "help": "color:#2e8b57;font-weight:bold",
    "bold": "font-weight:bold",
}
# Of Pygments' kinds of tokens, the most special first.
_KINDS = (
    ("Comment", "color:#8a8f98;font-style:italic"),
    ("Keyword.Type", "color:#0e8a9b"),
    ("Keyword.Constant", "color:#b7791f"),
    ("Keyword", "color:#a3479b"),
    ("Operator.Word", "color:#a3479b"),
    ("Name.Function", "color:#3273c8;font-weight:bold"),
    ("Name.Class", "color:#3273c8;font-weight:bold"),
    ("Name.Builtin", "color:#3273c8"),
    ("Name.Decorator", "color:#0e8a9b"),
    ("Name.Label", "color:#0e8a9b"),
    ("Literal.Number", "color:#b7791f"),
    ("Error", "color:#dc3040"),
)


def diagnostics(found: Iterable[Diagnostic]) -> str:
    """Diagnostics as a terminal shows them."""
    known = tuple(found)
    lines = ["".join(_piece(text, _STYLES.get(style, "")) for text, style in line) for line in layout_all(known)]
    worst = "error" if any(d.severity == "error" for d in known) else "warning"
    return block("\n".join(lines), _BORDER[worst])


def source(text: str) -> str:
    """Axon's source or a signature in colours, to stand inside a `pre`."""
    return "".join(_piece(piece, style) for piece, style in coloured(text))


def paragraph(text: str) -> str:
    return f"<p>{escape(text)}</p>"


def line(text: str) -> str:
    """`name : type` in colours; another line as it is."""
    name, colon, type = text.partition(" : ")
    return f"<b>{escape(name)}</b>{source(colon + type)}" if colon else escape(text)


def coloured(text: str) -> Iterator[tuple[str, str]]:
    """The pieces of a text with the style of each."""
    from axon.host.lexer import AxonLexer

    for _, kind, piece in AxonLexer().get_tokens_unprocessed(text):
        name = str(kind).removeprefix("Token.")
        yield piece, next((style for prefix, style in _KINDS if name.startswith(prefix)), "")


def block(inner: str, border: str = "#c8ccd2") -> str:
    """Lines of HTML, kept as they are."""
    return f'<pre style="{_PRE};border-left:3px solid {border}">{inner}</pre>'


def signatures(of: Mapping[str, str], title: str = "") -> str:
    """Names with their types, one on each line."""
    lines = [line(f"{name} : {signature}") for name, signature in of.items()]
    head = [f'<span style="{_STYLES["gutter"]}">{escape(title)}</span>'] if title else []
    return block("\n".join([*head, *lines]))


def _piece(text: str, style: str) -> str:
    shown = escape(text)
    return f'<span style="{style}">{shown}</span>' if style and text.strip() else shown
