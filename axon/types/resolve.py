"""Names to Symbols: scopes, what a name can stand for, and the errors of names.

Values, indices and dimensions share one name space; shape variables and runs of indices (`..s`) have their own,
and so have types and type variables. Inner scopes shadow outer ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from axon.base.diagnostics import Diagnostic, Edit, Label, Suggestion
from axon.base.names import Symbol
from axon.base.nearest import nearest, one_slip
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.dimension import Dim
from axon.types.type import ElementType, Function, RecordType, Row, Scheme, TypeVar

# ── what a name can stand for ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class ValueName:
    """A value or function. `dim` is set when it is an i32 that is symbolic: a dimension, an index, or arithmetic on those."""

    symbol: Symbol
    scheme: Scheme
    span: Span
    dim: Dim | None = None
    is_dimension: bool = False  # a bare name that a type's bracket may mention
    literal: int | None = None  # an integer that a `val` names: each use is the literal, of any number type


@dataclass(frozen=True, slots=True, eq=False)
class BuiltinName:
    """A function or constant of the language."""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class ModuleName:
    module: Module


@dataclass(frozen=True, slots=True, eq=False)
class BrokenName:
    """A declaration that did not check: its uses say nothing more."""


Entity: TypeAlias = "ValueName | BuiltinName | ModuleName | BrokenName"


@dataclass(frozen=True, slots=True, eq=False)
class RunName:
    """`..i`: `symbol` is set for a run of indices; a shape variable has only its row."""

    row: Row
    symbol: Symbol | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Alias:
    """A `type` declaration; its scope is that of its definition. What uses a broken one says nothing more."""

    decl: S.TypeDecl
    scope: Scope
    broken: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class Module:
    """What importing a module makes available."""

    name: str
    values: Mapping[str, Entity]
    aliases: Mapping[str, Alias]


@dataclass(slots=True, eq=False)
class Scope:
    parent: Scope | None = None
    values: dict[str, Entity] = field(default_factory=dict)
    runs: dict[str, RunName] = field(default_factory=dict)
    aliases: dict[str, Alias] = field(default_factory=dict)
    variables: dict[str, ElementType | TypeVar] = field(default_factory=dict)

    def child(self) -> Scope:
        return Scope(self)

    def value(self, name: str) -> Entity | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.values:
                return scope.values[name]
            scope = scope.parent
        return None

    def run(self, name: str) -> RunName | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.runs:
                return scope.runs[name]
            scope = scope.parent
        return None

    def alias(self, name: str) -> Alias | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.aliases:
                return scope.aliases[name]
            scope = scope.parent
        return None

    def variable(self, name: str) -> ElementType | TypeVar | None:
        scope: Scope | None = self
        while scope is not None:
            if name in scope.variables:
                return scope.variables[name]
            scope = scope.parent
        return None

    def names(self) -> list[str]:
        """Every value name in scope, inner ones first."""
        found: dict[str, None] = {}
        scope: Scope | None = self
        while scope is not None:
            found |= dict.fromkeys(scope.values)
            scope = scope.parent
        return list(found)


OF_NAMES = ("AX0401", "AX0405", "AX0407")  # the errors of names that nothing introduces
_MAX_LABELS, _MAX_EDITS = 12, 1000  # of the uses of one such name
_NOT_IMPORTED = "is a module that is not imported"
ANONYMOUS_RUN = ".."  # the key of a `..` binder among the runs of a scope

# ── errors of names ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _did_you_mean(near: str | None, span: Span) -> tuple[Suggestion, ...]:
    return (Suggestion(f"did you mean `{near}`?", (Edit(span, near),)),) if near else ()


def unknown(what: str, name: str, span: Span, known: Iterable[str], code: str = "AX0401", note: str = "") -> Diagnostic:
    """`what` is in words: "value", "type", "shape variable"."""
    help_ = _did_you_mean(nearest(name, known), span)
    return Diagnostic(code, f"there is no {what} `{name}` here", (Label(span, "not defined"),), (note,) if note else (), help_)


def unknown_member(module: Module, name: S.Name) -> Diagnostic:
    near = nearest(name.text, module.values)
    help_ = _did_you_mean(near, name.span)
    has = ", ".join(f"`{n}`" for n in sorted(module.values)[:12])
    more = ", …" if len(module.values) > 12 else ""
    notes = (f"it has {has}{more}",) if has and not near else ()
    if name.text in module.aliases:
        message = f"`{module.name}.{name.text}` is a type, not a value"
        help_ = _taking(module, name.text)
        return Diagnostic("AX0405", message, (Label(name.span, "used as a value"),), (), help_)
    message = f"the module `{module.name}` has no `{name.text}`"
    return Diagnostic("AX0405", message, (Label(name.span, "not defined there"),), notes, help_)


def _taking(module: Module, type_: str) -> tuple[Suggestion, ...]:
    """The functions of a module whose first parameter is a record with the fields of a type."""
    written: S.Type = module.aliases[type_].decl.type
    for _ in module.aliases:  # `linear` is `linear_of[f32, …]`
        alias = module.aliases.get(written.name[0].text) if isinstance(written, S.TypeName) and len(written.name) == 1 else None
        written = alias.decl.type if alias is not None else written
    names = {name.text for name, _ in written.fields} if isinstance(written, S.TypeRecord) else set()
    taking = []
    for name, entity in module.values.items():
        t = entity.scheme.type if isinstance(entity, ValueName) else None
        if isinstance(t, Function) and isinstance(t.param, RecordType) and {n for n, _ in t.param.fields} == names:
            taking.append(f"`{module.name}.{name}`")
    return (Suggestion(f"what takes a record of this type: {', '.join(taking)}"),) if taking else ()


def missing_import(name: str, span: Span) -> Diagnostic:
    """A module is named that could be imported; see `once_per_name`."""
    put = Suggestion(f"write `import {name}` at the top of the file", (Edit(Span(span.file, 0, 0), f"import {name}\n"),))
    return Diagnostic("AX0401", f"`{name}` {_NOT_IMPORTED}", (Label(span, "not defined here"),), (), (put,))


def once_per_name(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Of a file's diagnostics, one for each name that nothing introduces, with all its uses: one slip has broken them all. Who
    mistypes an `import` hears of it there."""
    out: list[Diagnostic] = []
    first: dict[object, int] = {}
    found = list(diagnostics)
    misspelt = [d.span.text for d in found if d.code == "AX0402" and d.span is not None]
    for diagnostic in found:
        if diagnostic.code in OF_NAMES:
            name = diagnostic.span.text if diagnostic.span is not None else ""
            if misspelt and diagnostic.message.endswith(_NOT_IMPORTED) and (one_slip(name, misspelt) or nearest(name, misspelt)):
                continue
            key = (diagnostic.message, diagnostic.notes, tuple(s.text for s in diagnostic.suggestions))
            if key in first:
                out[first[key]] = with_use(out[first[key]], diagnostic)
                continue
            first[key] = len(out)
        out.append(diagnostic)
    return out


def with_use(first: Diagnostic, again: Diagnostic) -> Diagnostic:
    """What is said of a name that nothing introduces, also about another use of it; what mends it mends all uses. (An `import`
    that is missing is one line, wherever the module is named.)"""
    if first.message.endswith(_NOT_IMPORTED):
        return first
    known = {label.span for label in first.labels}
    labels = tuple(replace(label, text="") for label in again.labels if label.span not in known)
    theirs = {s.text: s.edits for s in again.suggestions}
    suggestions = tuple(replace(s, edits=(*s.edits, *theirs.get(s.text, ()))[:_MAX_EDITS]) for s in first.suggestions)
    return replace(first, labels=(*first.labels, *labels)[:_MAX_LABELS], suggestions=suggestions)


def duplicate(name: S.Name, first: Span) -> Diagnostic:
    return Diagnostic(
        "AX0404",
        f"`{name.text}` is defined twice in this file",
        (Label(name.span, "the second definition"), Label(first, "the first")),
        suggestions=(Suggestion("give one of them another name"),),
    )
