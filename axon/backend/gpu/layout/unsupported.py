"""What the GPU path refuses."""

from __future__ import annotations

from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.source import Span


class Unsupported(AxonError):
    """What the GPU path cannot compile yet, and why."""

    def __init__(self, reason: str, span: Span | None = None, *notes: str, near: bool = True) -> None:
        """`near`: it came close enough to a family for the reason to be worth saying."""
        labels = (Label(span, reason),) if span else ()
        super().__init__((Diagnostic("AX0603", f"there is no GPU kernel for this: {reason}", labels, notes),))
        self.reason, self.near = reason, near

    def __str__(self) -> str:
        return self.diagnostics[0].message
