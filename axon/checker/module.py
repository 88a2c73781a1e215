"""A module after checking: what others see of it. Whether it was checked, or read as it was kept, shows in no text."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from axon.base.data import dataclass, field
from axon.base.diagnostics import Diagnostic
from axon.base.names import Symbol
from axon.base.source import SourceFile, Span
from axon.chance.model import Model
from axon.types import typed as T
from axon.types.resolve import ModelName, Module
from axon.types.type import Scheme, Type
from axon.types.unify import State

if TYPE_CHECKING:
    from axon.checker.unchanged import CheckedDeclaration
    from axon.explain.origin import Trail


@dataclass(frozen=True, slots=True, eq=False)
class CheckedModule:
    """A module after checking; `ok` says that it has no errors (its imports neither)."""

    source: SourceFile
    diagnostics: tuple[Diagnostic, ...]
    signatures: Mapping[str, str]  # what `axon sig` prints, of each declaration without errors, in source order
    declarations: Mapping[str, T.Decl]  # of the same names
    schemes: Mapping[str, Scheme]
    symbols: Mapping[str, Symbol]
    state: State
    imports: Mapping[str, CheckedModule]
    names: tuple[tuple[str, Span, Type], ...] = field(default=())  # every name that is bound, also inside declarations
    exports: Module | None = None
    trail: Callable[[T.Decl], Trail] | None = None  # where the sizes of a declaration come from
    filled: Mapping[Span, tuple[str, ...]] = field(default_factory=dict)  # what sizes that were left blank turned out to be
    steps: tuple[CheckedDeclaration, ...] = ()  # its declarations one by one, for whoever checks it with a change

    def inner(self, names: Sequence[str], within: Span) -> Iterator[tuple[str, Span, str]]:
        """Every name that is bound within a declaration of these names, and its type as text: sizes are called what the
        declaration's signature calls them."""
        from axon.types.show import Namer, dimension_names, show_type

        namer = Namer(self.state, aliases=self.state.aliases)
        for name in names:
            namer.names |= dimension_names(self.state, self.schemes[name])
        namer.taken |= set(namer.names.values())
        for name, span, t in sorted(self.names, key=lambda entry: entry[1].start):
            if span.file is self.source and within.start <= span.start < within.end and name not in names:
                yield name, span, show_type(namer, t)

    def __repr__(self) -> str:
        return f"<{self.source.path} as it was checked>"

    @property
    def ok(self) -> bool:
        return not any(d.severity == "error" for d in self.diagnostics)

    def model(self, name: str) -> Model | None:
        """The model that has a name, which is no value: its functions are."""
        entity = self.exports.values.get(name) if self.exports is not None else None
        return entity.model if isinstance(entity, ModelName) else None

    @property
    def was_read(self) -> bool:
        """Whether it has only what those see that import it."""
        return self.trail is None
