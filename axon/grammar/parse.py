"""Parse a file: every syntax error is reported, and the declarations without one are returned."""

from __future__ import annotations

from typing import Any, cast

from axon import syntax
from axon.diagnostics import Diagnostic, Label
from axon.grammar.build import Builder
from axon.grammar.lexer import END, tokenize
from axon.grammar.machine import MAX_DEPTH, Machine
from axon.grammar.table import load
from axon.source import SourceFile


def parse(source: SourceFile) -> tuple[syntax.Program, tuple[Diagnostic, ...]]:
    """The declarations of a file that have no syntax error, and all errors and warnings. Never raises on bad text."""
    decls, diagnostics = _run(source, "program")
    return syntax.Program(tuple(decls or ()), span=source.span()), diagnostics


def parse_type(source: SourceFile) -> tuple[syntax.Type | None, tuple[Diagnostic, ...]]:
    """The type that is the whole text, or None when the text has errors."""
    value, diagnostics = _run(source, "type_only")
    return cast("syntax.Type | None", value), diagnostics


def parse_expression(source: SourceFile) -> tuple[syntax.Expr | None, tuple[Diagnostic, ...]]:
    """The expression that is the whole text, or None when the text has errors."""
    value, diagnostics = _run(source, "expr_only")
    return cast("syntax.Expr | None", value), diagnostics


def _run(source: SourceFile, start: str) -> tuple[Any, tuple[Diagnostic, ...]]:
    table = load()
    lexed = tokenize(source, table)
    builder = Builder(source, lexed.blanked)
    machine = Machine(table, start, builder)
    at = machine.run(lexed.tokens, 0)
    diagnostics = [*lexed.diagnostics, *builder.diagnostics]
    if at is not None:
        token = lexed.tokens[at]
        span = source.span(token.start, token.end)
        if machine.too_deep:
            diagnostics.append(Diagnostic("AX0108", f"this nests more than {MAX_DEPTH} levels deep", (Label(span),)))
        else:
            found = "the end of the text" if token.kind == END else f"`{token.text}`"
            diagnostics.append(Diagnostic("AX0101", f"{found} was not expected here", (Label(span),)))
        return None, tuple(diagnostics)
    return machine.values[-1], tuple(diagnostics)
