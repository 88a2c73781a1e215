"""The exceptions that the public API raises: diagnostics, with their rendered text."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic


class AxonError(Exception):
    """What the public API raises for a program that is wrong. `str()` is the rendered text."""

    def __init__(self, diagnostics: tuple[Diagnostic, ...]) -> None:
        super().__init__(diagnostics)
        self.diagnostics = diagnostics

    def __str__(self) -> str:
        from axon.base.render import render_all  # most programs have no errors

        return render_all(self.diagnostics)


class ShapeError(AxonError):
    """A contract broken at a call, or by an index computed from data inside one."""
