"""Tables of what people write who come from other languages, and what Axon has instead."""

from __future__ import annotations

# Operators of other languages: what the parser reads instead ("" for nothing), and why.
OPERATORS: dict[str, tuple[str, str]] = {
    "==": ("=", "equality is a single `=`"),
    "!=": ("<>", "inequality is `<>`"),
    "/=": ("<>", "inequality is `<>`, and nothing is assigned to"),
    "&&": ("andalso", "the logical operators are words"),
    "||": ("orelse", "the logical operators are words"),
    ":=": ("=", "a value is bound once, with `=`"),
    "+=": ("+", "nothing is assigned to; a sum over an index is `sum i => …`"),
    "-=": ("-", "nothing is assigned to"),
    "*=": ("*", "nothing is assigned to"),
    "=<": ("<=", "less than or equal is `<=`"),
}

# Symbols that look or mean alike: what the parser reads instead.
LOOKALIKES: dict[str, str] = {
    "−": "-", "–": "-", "—": "-", "×": "*", "·": "*", "÷": "/", "≤": "<=", "≥": ">=", "≠": "<>", "→": "->", "⇒": "=>",
    "…": "..", "∧": "andalso", "∨": "orelse", "¬": "not", "∑": "sum", "∏": "prod", "∞": "inf",
}  # fmt: skip
