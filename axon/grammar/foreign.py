"""Files that are no programs, given to a command by mistake: what is in them decides, and their name where that is a program's."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from axon.base.diagnostics import Diagnostic
from axon.base.source import SourceFile

_SUFFIX = ".axon"
_DECLARATION = re.compile(r"^\s*(?:fun|val|type|sig)\s+\S", re.MULTILINE)


def no_program(source: SourceFile, found: Iterable[Diagnostic]) -> Diagnostic | None:
    """AX0408 for a file with errors that is not named as a program and in which nothing begins like a declaration: what else there
    is to say of it would help nobody."""
    first = next((d for d in found if d.severity == "error"), None)
    if first is None or source.path.endswith(_SUFFIX) or _DECLARATION.search(source.text) or not os.path.isfile(source.path):
        return None
    line = f" in line {source.position(first.span.start)[0]}" if first.span is not None and first.span.file is source else ""
    notes = f"nothing in it is declared; read as a program, its first error{line} is: {first.message}", f"programs end in {_SUFFIX}"
    return Diagnostic("AX0408", f"`{source.path}` is no program of Axon", notes=notes)
