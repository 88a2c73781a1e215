"""Packages that only some faces need."""

from __future__ import annotations

from importlib import import_module

from axon.base.diagnostics import Diagnostic, Suggestion
from axon.base.errors import AxonError


def require(package: str, extra: str, what: str) -> None:
    """Raises AxonError unless a package can be imported that `what` needs; it says which extra of Axon to install."""
    try:
        import_module(package)
    except ImportError:
        message = f"{what} needs the package `{package}`"
        help_ = Suggestion(f"pip install '.[{extra}]' in a clone of Axon")
        raise AxonError((Diagnostic("AX0003", message, suggestions=(help_,)),)) from None
