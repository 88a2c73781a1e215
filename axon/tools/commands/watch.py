"""`axon watch PATH…` checks on save: whenever a file changes that was read, or one appears or goes."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence

from axon.base import render
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.tools.commands.batch import Report, check_files

PAUSE = 0.2  # seconds between looks at the files
_CLEAR = "\x1b[2J\x1b[3J\x1b[H"


def watch(paths: Sequence[str], pause: Callable[[float], None] = time.sleep) -> None:
    """Check the files that the paths name now and after each change. Ends with an interruption, or when nobody reads any more.

    Raises AxonError for a path that names nothing at first, which is a slip; what goes later may come back.
    """
    missing = [path for path in paths if not os.path.lexists(path)]
    if missing:
        raise AxonError(tuple(Diagnostic("AX0408", f"cannot read `{path}`", notes=("there is no such file",)) for path in missing))
    known: object = None
    while True:
        before = _stamps(paths, frozenset())
        report = _checked(paths)
        _say(report)
        read = frozenset() if isinstance(report, AxonError) else report.read
        known = before | _stamps((), read - before.keys())  # what changed while it was read is seen as a change
        while known == _stamps(paths, read):
            pause(PAUSE)


def _checked(paths: Sequence[str]) -> Report | AxonError:
    try:
        return check_files(paths)
    except AxonError as error:  # a directory without files: one may come
        return error


def _say(report: Report | AxonError) -> None:
    if sys.stdout.isatty():
        sys.stdout.write(_CLEAR)
    render.write(report.diagnostics, sys.stdout)
    sys.stdout.flush()
    said = "nothing to check yet" if isinstance(report, AxonError) else report.summary
    print(f"{time.strftime('%H:%M:%S')} {said}; watching", file=sys.stderr, flush=True)


def _stamps(paths: Sequence[str], more: frozenset[str] | set[str]) -> dict[str, tuple[int, int, int]]:
    """What tells whether files have changed: of those that the paths name now, and of some more."""
    from axon.tools.commands.batch import files_of

    try:
        files = set(files_of(paths))
    except AxonError:
        files = set()
    out = {}
    for file in files | more:
        try:
            found = os.stat(file)
            out[file] = (found.st_mtime_ns, found.st_size, found.st_ino)
        except (OSError, ValueError):
            out[file] = (0, 0, 0)
    return out
