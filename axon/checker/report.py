"""Diagnostics as they are collected: each once, and one for each name that nothing introduces, with all its uses."""

from __future__ import annotations

from collections.abc import Iterable

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic
from axon.base.nearest import nearest, one_slip
from axon.types.inference import Inference
from axon.types.resolve import OF_NAMES
from axon.types.trouble import Trouble

NOT_IMPORTED = "is a module that is not imported"
_MAX_COMPARED = 100  # earlier diagnostics that one is compared with
_MAX_LABELS, _MAX_EDITS = 12, 1000  # of the uses of one name


def words(inf: Inference, trouble: Trouble) -> None:
    """Say what is wrong. The modules that word it are imported when there is the first trouble: most programs have none."""
    from axon.checker.said import said

    for diagnostic in said(inf, trouble):
        report(inf, diagnostic)


def report(inf: Inference, diagnostic: Diagnostic) -> None:
    """Say that something is wrong, once, as of an alias used twice; that nothing introduces a name once in a declaration."""
    if diagnostic.code in OF_NAMES:
        if diagnostic.message in inf.unknown:
            inf.consequences += 1
            inf.diagnostics[:] = [with_use(d, diagnostic) if d.message == diagnostic.message else d for d in inf.diagnostics]
            return
        inf.unknown.add(diagnostic.message)
    if diagnostic.code == "AX0211":  # a type variable that is wrongly general is so once in a declaration
        if diagnostic.message in inf.unknown:
            inf.consequences += 1
            return
        inf.unknown.add(diagnostic.message)
    if diagnostic in inf.diagnostics[-_MAX_COMPARED:]:
        inf.consequences += 1
        return
    inf.diagnostics.append(diagnostic)


def once_per_name(diagnostics: Iterable[Diagnostic]) -> list[Diagnostic]:
    """Of a file's diagnostics, one for each name that nothing introduces, with all its uses: one slip has broken them all. Who
    mistypes an `import` hears of it there."""
    out: list[Diagnostic] = []
    first: dict[object, int] = {}
    found = list(diagnostics)
    misspelt = [d.span.text for d in found if d.code == "AX0402" and d.span is not None]
    for diagnostic in found:
        if diagnostic.code in OF_NAMES:
            name = diagnostic.span.text if diagnostic.span is not None else ""
            if misspelt and diagnostic.message.endswith(NOT_IMPORTED) and (one_slip(name, misspelt) or nearest(name, misspelt)):
                continue
            key = (diagnostic.message, diagnostic.notes, tuple(s.text for s in diagnostic.suggestions))
            if key in first:
                out[first[key]] = with_use(out[first[key]], diagnostic)
                continue
            first[key] = len(out)
        out.append(diagnostic)
    return out


def with_use(first: Diagnostic, again: Diagnostic) -> Diagnostic:
    """What is said of a name that nothing introduces, also about another use of it; what mends it mends all uses. (An `import`
    that is missing is one line, wherever the module is named.)"""
    if first.message.endswith(NOT_IMPORTED):
        return first
    known = {label.span for label in first.labels}
    labels = tuple(replace(label, text="") for label in again.labels if label.span not in known)
    theirs = {s.text: s.edits for s in again.suggestions}
    suggestions = tuple(replace(s, edits=(*s.edits, *theirs.get(s.text, ()))[:_MAX_EDITS]) for s in first.suggestions)
    return replace(first, labels=(*first.labels, *labels)[:_MAX_LABELS], suggestions=suggestions)
