"""The codes of syntax errors and what each is about; docs/errors has a page for each."""

from __future__ import annotations

SYNTAX_CODES: dict[str, str] = {
    "AX0101": "unexpected text",
    "AX0102": "never closed",
    "AX0103": "comment never closed",
    "AX0104": "character that means nothing",
    "AX0105": "letter that names may not have",
    "AX0106": "unreadable character",
    "AX0107": "character that changes the direction of text",
    "AX0108": "nested too deeply",
    "AX0109": "file too large",
    "AX0110": "lopsided minus",
    "AX0111": "number too large",
    "AX0112": "comparisons do not chain",
    "AX0113": "borrowed from another language",
    "AX0114": "`=>` after something that is not a reduction",
    "AX0115": "not an index",
    "AX0116": "bound for more than one index",
    "AX0117": "`if` without `then` or `else`",
    "AX0118": "looks like a definition, is a comparison",
}
