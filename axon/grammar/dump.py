"""Surface syntax as an indented outline, for `axon emit --stage ast`. Spans are left out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from axon.base.data import fields, is_dataclass
from axon.base.source import Span
from axon.grammar.syntax import Name


def outline(node: Any) -> str:
    """One node per line; a node's simple fields stand beside its name, the others below it."""
    return "\n".join("  " * depth + text for depth, text in _lines(node))


def _lines(root: Any) -> Iterator[tuple[int, str]]:
    work: list[tuple[int, str, Any]] = [(0, "", root)]  # an explicit stack: chains of operators are long
    while work:
        depth, label, value = work.pop()
        prefix = f"{label}: " if label else ""
        if isinstance(value, tuple):
            yield depth, f"{label or 'group'}"
            work += [(depth + 1, "", item) for item in reversed(value)]
            continue
        if not is_dataclass(value) or isinstance(value, Name):
            yield depth, prefix + _simple(value)
            continue
        parts = [(f.name, getattr(value, f.name)) for f in fields(value)]
        parts = [(name, part) for name, part in parts if not isinstance(part, Span) and part is not None and part != ()]
        beside = [f"{name}={_simple(part)}" for name, part in parts if _is_simple(part)]
        yield depth, prefix + " ".join([type(value).__name__, *beside])
        work += [(depth + 1, name, part) for name, part in reversed(parts) if not _is_simple(part)]


def _is_simple(value: Any) -> bool:
    return isinstance(value, str | int | float | Name) or (
        isinstance(value, tuple) and all(isinstance(item, Name) for item in value)
    )


def _simple(value: Any) -> str:
    if isinstance(value, Name):
        return value.text
    if isinstance(value, tuple):
        return "(" + ", ".join(item.text for item in value) + ")"
    if isinstance(value, int) and not isinstance(value, bool) and value.bit_length() > 256:
        return hex(value)[:40] + "…"  # Python refuses to print an integer of many digits in decimal
    return str(value)
