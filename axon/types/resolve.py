"""Names to Symbols: scopes, what a name can stand for, and the errors of names.

Values, indices and dimensions share one name space; shape variables and runs of indices (`..s`) have their own,
and so have types and type variables. Inner scopes shadow outer ones.
"""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping
from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import Span
from axon.chance.model import Model
from axon.grammar import syntax as S
from axon.shapes.dimension import Dim
from axon.types.type import ElementType, Row, Scheme, Tensor, TypeVar

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
    by_default: tuple[tuple[Span, Tensor], ...] = ()  # the `val`s, perhaps its own, from which it has an element type by default


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


@dataclass(frozen=True, slots=True, eq=False)
class ModelName:
    """A model, whose functions are values beside it: `schools.log_density` is one name."""

    model: Model


Entity: TypeAlias = "ValueName | BuiltinName | ModuleName | ModelName | BrokenName"


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
    values: MutableMapping[str, Entity] = field(default_factory=dict)
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


def alias_names(scope: Scope) -> IdentityMap[S.TypeDecl, str]:
    """What a `sig` at the end of a module calls each type that it can name."""
    names = IdentityMap((alias.decl, name) for name, alias in scope.aliases.items())
    for prefix, entity in scope.values.items():
        if isinstance(entity, ModuleName):
            names.update((alias.decl, f"{prefix}.{name}") for name, alias in entity.module.aliases.items())
    return names


OF_NAMES = ("AX0401", "AX0405", "AX0407")  # the errors of names that nothing introduces
ANONYMOUS_RUN = ".."  # the key of a `..` binder among the runs of a scope
