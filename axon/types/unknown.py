"""What to say of a name that nothing in scope introduces, when it is known from elsewhere: a reduction, a function of a module
that is not named, or a word of another language."""

from __future__ import annotations

from dataclasses import replace

from axon import builtins
from axon.diagnostics import Diagnostic, Edit, Suggestion
from axon.element import Element
from axon.grammar.mistakes import IN_EXPRESSIONS, LOGICAL, VALUES
from axon.resolve import ModuleName, Scope, unknown
from axon.source import Span


def unknown_value(name: str, span: Span, scope: Scope, library: list[str]) -> Diagnostic:
    """AX0401; `library` are the modules of the standard library that declare the name."""
    note = f"a dimension is a value where an annotation names it: `(x : f32[{name}])`" if len(name) == 1 else ""
    found = unknown("value", name, span, scope.names(), note=note)
    return replace(found, suggestions=(*found.suggestions, *_known_elsewhere(name, span, scope, library)))


def _known_elsewhere(name: str, span: Span, scope: Scope, library: list[str]) -> tuple[Suggestion, ...]:
    imported = {n: e.module for n in scope.names() if isinstance(e := scope.value(n), ModuleName)}
    holders = [n for n, module in imported.items() if name in module.values]
    if holders:
        return tuple(Suggestion(f"`{n}` has a `{name}`: write `{n}.{name}`", (Edit(span, f"{n}.{name}"),)) for n in holders)
    if library:
        return tuple(Suggestion(f"`{n}` has a `{name}`: write `import {n}` and `{n}.{name}`") for n in library if n not in imported)
    if name in builtins.REDUCTIONS:
        return (Suggestion(f"reductions are written over indices: `{name} i => x[i]`, or `{name} i j => x[i, j]`"),)
    if name in LOGICAL:
        return (Suggestion(f"write `{LOGICAL[name]}`", (Edit(span, LOGICAL[name]),)),)
    if any(name == e.value for e in Element):
        return (Suggestion(f"to convert, write `cast {name} x`"),)
    meant = VALUES.get(name) or IN_EXPRESSIONS.get(name)
    return (Suggestion(meant),) if meant else ()
