"""What must hold of every text: it is checked in time, and what comes of it is diagnostics that can be printed."""

from __future__ import annotations

import time
from functools import cache

from axon import compiler
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.base.render import render
from axon.base.source import SourceFile
from axon.checker.loader import FileLoader
from axon.checker.module import CheckedModule

PATIENCE = 5.0  # seconds of this process's time
LIBRARY = ("dist", "fft", "image", "linalg", "nn", "optim", "quant", "random", "special", "stats", "tensor")


class Hang(Exception):
    """A text that takes too long."""


class _Loader(FileLoader):
    """One loader for all texts: it gives the library's files as the same objects every time, by which modules are known."""

    text = ""

    def read(self, path: str) -> SourceFile | Diagnostic:
        return SourceFile(compiler.TEXT, self.text) if path == compiler.TEXT else super().read(path)


_loader = _Loader()


@cache
def library() -> dict[SourceFile, CheckedModule]:
    """The standard library, checked once."""
    _loader.text = "".join(f"import {name}\n" for name in LIBRARY)
    checked = compiler.check(_loader, compiler.TEXT)
    assert checked.ok
    return {m.source: m for m in checked.imports.values()}


def check(text: str, patience: float = PATIENCE) -> None:
    """Raises what a bug raises, and Hang."""
    known = library()
    _loader.text = text
    began = time.process_time()
    try:
        found = compiler.check(_loader, compiler.TEXT, known).diagnostics
    except AxonError as error:
        found = error.diagnostics
    for diagnostic in found:
        if diagnostic.code == "AX0001":  # what a traceback becomes, unless AXON_DEBUG keeps it
            raise AssertionError(render(diagnostic))
        assert render(diagnostic)
    took = time.process_time() - began
    if took > patience:
        raise Hang(f"{took:.1f} s")
