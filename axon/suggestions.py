"""Suggestions are tried before they are shown: a change of the source is kept only if the checker finds less to say after it.

Each kind of error proposes changes, the likeliest first; two that pass are enough for a reader.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from time import thread_time

from axon.diagnostics import Diagnostic, Edit, Suggestion
from axon.source import SourceFile, Span

SECONDS = 1.5  # of work on the suggestions of one file
MAX_KEPT = 2  # suggestions with edits of one diagnostic
_BOUNDS = ("AX0302", "AX0303")  # where a call may well be asked whether a range is empty
TRIED = ("AX02", "AX03")  # the codes of types and sizes; a misspelt name is corrected in any case


@dataclass(frozen=True, slots=True)
class Attempt:
    """What the checker says of a changed file: how many errors there are, and where facts of contracts come from."""

    errors: int
    facts: tuple[Span, ...]


def tried(
    diagnostics: Sequence[Diagnostic], source: SourceFile, recheck: Callable[[SourceFile], Attempt | None], cost: float
) -> tuple[Diagnostic, ...]:
    """The diagnostics of a file with the suggestions that help. `recheck` checks a changed file, in about `cost` seconds."""
    out: list[Diagnostic] = []
    deadline = thread_time() + SECONDS
    errors = sum(d.severity == "error" for d in diagnostics)
    for diagnostic in diagnostics:
        if not diagnostic.code.startswith(TRIED):
            out.append(diagnostic)
            continue
        kept: list[Suggestion] = []
        for suggestion in diagnostic.suggestions:
            if not suggestion.edits or len(kept) == MAX_KEPT or thread_time() + cost > deadline:
                continue
            if any(set(s.edits) < set(suggestion.edits) for s in kept):
                continue  # a part of it is enough
            left = _errors_after(source, suggestion.edits, recheck, diagnostic.code not in _BOUNDS)
            if left is not None and left < errors:
                kept.append(replace(suggestion, checked=left == 0))
        general = () if kept else tuple(s for s in diagnostic.suggestions if not s.edits)
        out.append(replace(diagnostic, suggestions=(*kept, *general)))
    return tuple(out)


def _errors_after(
    source: SourceFile, edits: tuple[Edit, ...], recheck: Callable[[SourceFile], Attempt | None], settled: bool
) -> int | None:
    """How many errors a file has after edits; None if they do not apply or, where that is asked (`settled`), leave it to a call."""
    text = source.text
    for edit in sorted(edits, key=lambda e: -e.span.start):
        if edit.span.file is not source:
            return None
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    changed = SourceFile(source.path, text)
    attempt = recheck(changed)
    if attempt is None or (settled and any(_edited(span, changed, edits) for span in attempt.facts)):
        return None
    return attempt.errors


def _edited(span: Span, changed: SourceFile, edits: tuple[Edit, ...]) -> bool:
    """Whether a place of a changed file lies within the new text of an edit, unless that states a fact."""
    moved = 0
    for edit in sorted(edits, key=lambda e: e.span.start):
        start = edit.span.start + moved
        moved += len(edit.text) - (edit.span.end - edit.span.start)
        inside = span.file is changed and start <= span.start and span.end <= start + len(edit.text)
        if inside and not edit.text.startswith(("where ", ", ")):
            return True
    return False
