"""A file of a user's as it was kept, with all that it imports: a process that only calls its functions checks nothing.

What is kept of a file is what is kept of a module of the library (`kept`): all that those see who import it, and calls ask no more.
Tools ask for bodies, inner names and the origins of sizes; they have the file checked.
"""

from __future__ import annotations

from functools import partial

from axon.base.source import SourceFile
from axon.checker.kept import LIBRARY, imports_the_same, keep, read
from axon.checker.loader import Loader, is_library
from axon.checker.module import CheckedModule
from axon.grammar import syntax as S


def read_module(loader: Loader, path: str) -> CheckedModule | None:
    """The module at a path as it was kept, with all that it imports; None if something of it is not kept as it is now."""
    source = loader.read(path)
    return _Program(loader).module(source) if isinstance(source, SourceFile) else None


def keep_all(checked: CheckedModule) -> None:
    """Keep a module and those that it imports besides the library, if there is nothing to say of them and they were not read."""
    for module in checked.imports.values():
        keep_all(module)
    if not is_library(checked.source) and not checked.was_read and not checked.diagnostics:
        keep(checked)


class _Program:
    """A module and all that it imports, each read once."""

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.modules: dict[SourceFile, CheckedModule | None] = {}

    def module(self, source: SourceFile) -> CheckedModule | None:
        if source not in self.modules:
            self.modules[source] = None  # while it is read: what imports itself is not kept
            known = LIBRARY.get(source.path) if is_library(source) else None
            if known is None or known.source is not source or not imports_the_same(known, self.loader, self.module):
                known = read(source, partial(self._imported, source), partial(_whole, self.loader, source))
            self.modules[source] = known
        return self.modules[source]

    def _imported(self, by: SourceFile, name: str) -> CheckedModule | None:
        found = self.loader.find(S.Name(name, by.span(0, 0)))
        return self.module(found) if isinstance(found, SourceFile) else None


def _whole(loader: Loader, source: SourceFile, anew: bool) -> CheckedModule:
    from axon.checker.check import checked_whole

    return checked_whole(loader, source, anew)
