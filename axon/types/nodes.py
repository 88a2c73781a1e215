"""Walking typed expressions: everything that stands in one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from axon.base.names import Symbol
from axon.types import typed as T


def indices_used(e: T.Expr) -> set[Symbol]:
    """The indices that stand alone in an access somewhere inside an expression."""
    values = (v for node in nodes(e) if isinstance(node, T.At) for v in node.values)
    return {v.dim.symbol for v in values if isinstance(v, T.Dimension) and v.dim.symbol is not None}


def variables(e: T.Expr) -> Iterator[T.Variable]:
    return (node for node in nodes(e) if isinstance(node, T.Variable))


def nodes(e: T.Expr) -> Iterator[object]:
    """An expression and all that stands in it."""
    stack: list[object] = [e]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, T.Node | T.Val | T.Fun | T.At | T.Slice):
            stack += [getattr(node, f.name) for f in fields(node) if f.name in CHILDREN]


CHILDREN = {
    "function", "arguments", "operand", "left", "right", "items", "fields", "record", "value", "base", "subscripts", "values",
    "default", "decls", "body", "condition", "then", "otherwise", "monoid", "where", "states", "trip",
}  # fmt: skip
