"""Many files at once: what `axon check` and `axon watch` share, and the files that a command's paths name."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from time import monotonic
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic, counted
from axon.base.errors import AxonError
from axon.base.progress import progress
from axon.checker.loader import SUFFIX, FileLoader, schedule_beside

if TYPE_CHECKING:
    from axon.checker.module import CheckedModule

_SLOW = 1.0  # seconds to look for files in silence
_SYSTEM = ("/dev", "/proc", "/sys")  # hold no programs, and may have no end


@dataclass(frozen=True, slots=True)
class Report:
    """What there is to say of some files, each thing once; `read` are they and every file that they import."""

    files: tuple[str, ...]
    diagnostics: tuple[Diagnostic, ...]
    read: frozenset[str]

    @property
    def summary(self) -> str:
        """`checked 3 files: 1 error, 2 warnings`"""
        errors = sum(d.severity == "error" for d in self.diagnostics)
        warnings = len(self.diagnostics) - errors
        counts = [counted(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n] or ["no errors"]
        return f"checked {counted(len(self.files), 'file')}: {', '.join(counts)}"


def check_files(paths: Sequence[str], overlay: dict[str, str] | None = None) -> Report:
    """Check the files that the paths name, with the text of some of them. Raises AxonError for a directory without any."""
    loader = FileLoader(overlay)
    found: dict[tuple[Any, ...], Diagnostic] = {}  # a module that several files import is reported once
    files = files_of(paths)
    read = set(files)
    with progress("checking", len(files)) as step:
        for file in files:
            diagnostics: tuple[Diagnostic, ...] = ()
            try:
                checked = compiler.check(loader, file)
                diagnostics = checked.diagnostics
                read |= _imported(checked)
                schedule = schedule_beside(file)
                if schedule and checked.ok:
                    from axon.host.call import Session  # few files have one

                    read.add(schedule)
                    Session(checked).schedules()
            except AxonError as error:
                diagnostics = (*diagnostics, *error.diagnostics)
            for diagnostic in diagnostics:
                span = diagnostic.span
                place = (span.file.path, span.start, span.end) if span else (file,)
                found.setdefault((diagnostic.code, diagnostic.message, *place), diagnostic)
            step()
    return Report(tuple(files), tuple(found.values()), frozenset(read))


def _imported(checked: CheckedModule) -> set[str]:
    """The paths of what a module imports, directly or not."""
    out: set[str] = set()
    work = list(checked.imports.values())
    while work:
        module = work.pop()
        if module.source.path not in out:
            out.add(module.source.path)
            work += module.imports.values()
    return out


def files_of(paths: Sequence[str], slow: Callable[[str], None] = lambda path: None) -> list[str]:
    """The files that the paths name; a directory stands for every .axon file in it, hidden directories and the system's own left
    out. Of the first one whose files take a second to find, `slow` is told."""
    out: list[str] = []
    begun, told = monotonic(), False
    for path in paths:
        if not os.path.isdir(path):
            out.append(path)
            continue
        found: list[str] = []
        for folder, inner, names in os.walk(path):
            inner[:] = sorted(name for name in inner if not name.startswith(".") and os.path.join(folder, name) not in _SYSTEM)
            if not told and monotonic() - begun > _SLOW:
                slow(path)
                told = True
            found += [os.path.normpath(os.path.join(folder, name)) for name in sorted(names) if name.endswith(SUFFIX)]
        if not found:
            raise AxonError((Diagnostic("AX0408", f"there is no {SUFFIX} file in `{path}`"),))
        out += found
    return list(dict.fromkeys(out))
