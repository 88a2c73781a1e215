"""What a check came to, declaration by declaration, for a check of the same file with a change in it.

Note [Unchanged declarations]
    A declaration depends on its text, its `sig`s and what the names in it stand for. Where all of that is as it was, so is what it
    declares and what is said of it: it is put in scope again, and not checked. What is said of it speaks of the file as it was, and
    who counts errors does not mind. So to try a change costs what the change reaches, as an edit does in an editor (which keeps
    its declarations as files of their own, for their places must stay true; see `axon.tools.editor.analysis`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic
from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.types import typed as T
from axon.types.inference import Inference
from axon.types.resolve import Alias, BrokenName, Entity, Scope, ValueName
from axon.types.unify import State

_WORD = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True, eq=False)
class CheckedDeclaration:
    """A declaration after checking."""

    texts: tuple[str, ...]  # its own, and those of its `sig`s
    names: tuple[str, ...]  # that it puts in scope
    typed: tuple[T.Decl, ...]
    diagnostics: tuple[Diagnostic, ...]
    explained: bool  # whether these say all that is wrong; see Note [Tried changes]
    alias: Alias | None
    values: Mapping[str, Entity | None]
    checker: Inference
    written: tuple[tuple[int, int], ...]  # which of what annotations say, in the lists of the checker, stands in it
    circular: tuple[S.TypeDecl, ...]

    @property
    def places(self) -> set[tuple[bool, str]]:
        """Its names, each with whether it is a type's: types and values have name spaces of their own."""
        return {(self.alias is not None, name) for name in self.names}

    @property
    def ok(self) -> bool:
        return not any(d.severity == "error" for d in self.diagnostics)

    @cached_property
    def words(self) -> frozenset[str]:
        return frozenset(word for text in self.texts for word in _WORD.findall(text))

    @cached_property
    def entities(self) -> dict[str, Entity]:
        return {name: closed(entity, self.checker.state) for name, entity in self.values.items()}

    @property
    def parameters(self) -> dict[Symbol, tuple[T.Pattern, ...]]:
        return {t.symbol: t.params for t in self.typed if isinstance(t, T.Fun)}

    def again(self, checker: Inference, scope: Scope) -> None:
        """Put what was declared in scope for another checker."""
        checker.diagnostics += self.diagnostics
        checker.circular += self.circular
        checker.parameters |= self.parameters
        for mine, former, (start, end) in zip(_written(checker), _written(self.checker), self.written, strict=True):
            mine += former[start:end]
        checker.written_fields |= self.checker.written_fields
        scope.values.update(self.entities)
        if self.alias is not None:
            scope.aliases[self.names[0]] = self.alias


def closed(entity: Entity | None, state: State) -> Entity:
    """What a name stands for, without variables that only its own state knows."""
    if not isinstance(entity, ValueName):  # a model, or what is broken
        return entity or BrokenName()
    return replace(entity, scheme=replace(entity.scheme, type=state.zonk(entity.scheme.type)))


def _written(checker: Inference) -> tuple[list[object], ...]:
    return checker.origins, checker.expanded_origins, checker.annotations  # type: ignore[return-value]


class Recorder:
    """Notes what the check of a declaration adds to a checker and its scope."""

    def __init__(self, checker: Inference) -> None:
        self._checker = checker
        self._said, self._circular = len(checker.diagnostics), len(checker.circular)
        self._lengths = [len(found) for found in _written(checker)]

    def step(
        self, decl: S.Decl, sigs: Sequence[S.Sig], names: Iterable[str], typed: tuple[T.Decl, ...], scope: Scope
    ) -> CheckedDeclaration:
        checker, is_type = self._checker, isinstance(decl, S.TypeDecl)
        names = tuple(names)
        return CheckedDeclaration(
            texts(decl, sigs),
            names,
            typed,
            tuple(checker.diagnostics[self._said :]),
            checker.explains,
            scope.aliases.get(names[0]) if is_type else None,
            {} if is_type else {name: scope.values.get(name) for name in names},
            checker,
            tuple((start, len(found)) for start, found in zip(self._lengths, _written(checker), strict=True)),
            tuple(checker.circular[self._circular :]),
        )


def texts(decl: S.Decl, sigs: Sequence[S.Sig]) -> tuple[str, ...]:
    return decl.span.text, *(s.span.text for s in sigs)


class Unchanged:
    """The declarations of an earlier check that need none: those that mention nothing that has changed. Asked in their order."""

    def __init__(self, steps: Iterable[CheckedDeclaration], changed: Iterable[str], blanks: Sequence[Span], explains: bool) -> None:
        """`changed` are the names that are imported or declared in one of the two files alone."""
        self._steps = {step.texts: step for step in steps}
        self._changed = set(changed)
        self._blanks = blanks
        self._explains = explains

    def find(self, decl: S.Decl, sigs: Sequence[S.Sig], names: Iterable[str]) -> CheckedDeclaration | None:
        """What an earlier check of a declaration came to; None if it is to be checked."""
        step = self._steps.get(texts(decl, sigs))
        blank = any(d.span.start <= b.start < d.span.end for d in (decl, *sigs) for b in self._blanks)
        known = step is not None and (step.ok or step.explained or not self._explains)
        if step is not None and known and not blank and self._changed.isdisjoint(step.words):
            return step
        self._changed.update(names)
        return None
