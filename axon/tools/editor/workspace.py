"""The modules that are open or imported, and the loader that reads them: from editors' buffers first, then from disk."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from functools import partial
from pathlib import Path

from axon.base.data import replace
from axon.base.diagnostics import Diagnostic, Edit, Suggestion
from axon.base.errors import AxonError
from axon.base.source import SourceFile, Span
from axon.checker.check import asked, solutions
from axon.checker.loader import SUFFIX, FileLoader, stdlib_root
from axon.grammar import syntax as S
from axon.suggest.tried import Attempt, Generality, generality, needs_trial, tried
from axon.tools.editor.analysis import Analysis, AnalysisSession, Guard

_MAX_TESTED = 256  # suggestions whose answer is kept
_HEADER = re.compile(r"\(\*(?:[^*(]|\*(?!\))|\((?!\*))*\*\)\n\n")  # the comment that a module begins with


class EditorLoader(FileLoader):
    """Files by absolute paths, and buffers that stand for files. A path in `<>` is a buffer that has no file."""

    def __init__(self) -> None:
        super().__init__()

    def hold(self, path: str, text: str) -> SourceFile:
        """Let a text stand for the file at a path."""
        held = self._overlay.get(path)
        if held is None or held.text != text:
            held = self._overlay[path] = SourceFile(path, text)
        return held

    def release(self, path: str) -> None:
        self._overlay.pop(path, None)

    def is_held(self, path: str) -> bool:
        return path in self._overlay

    def _roots(self, importer: SourceFile) -> list[tuple[Path, str]]:
        library = (stdlib_root().resolve(), str(stdlib_root().resolve()))
        if importer.path.startswith("<"):
            return [library]
        beside = Path(importer.path).parent
        return [library] if beside == library[0] else [(beside, str(beside)), library]


class Workspace:
    """What an editor has open, and what that imports. Not safe for threads."""

    def __init__(self, guard: Guard = nullcontext) -> None:  # type: ignore[assignment]
        self.loader = EditorLoader()
        self.guard = guard
        self.analyses: dict[str, Analysis] = {}
        self.tested: dict[tuple[tuple[tuple[str, str], ...], str, Suggestion], bool] = {}  # what `helps` has answered
        self.declared: dict[str, SourceFile] | None = None  # the standard library, once somebody has asked for a value

    def open(self, path: str, text: str) -> None:
        """Open a file, or change its text."""
        self.loader.hold(path, text)

    def close(self, path: str) -> None:
        self.loader.release(path)
        self.analyses.pop(path, None)

    def steps(self, path: str) -> Iterator[None]:
        """Bring a module and its imports up to date, stopping between declarations; to be dropped when a text changes."""
        source = self.loader.read(path)
        if isinstance(source, Diagnostic):
            self.analyses.pop(path, None)
            return
        session = AnalysisSession(self.loader, self.analyses, self.guard)
        session.declared = self.declared
        yield from session.steps(source)
        self.declared = session.declared

    def analysis(self, path: str) -> Analysis | None:
        """The module, up to date; None if it cannot be read."""
        for _ in self.steps(path):
            pass
        return self.analyses.get(path)

    def unreadable(self, path: str) -> Diagnostic | None:
        """Why a file has no analysis: it cannot be read, or it is larger than a source file may be."""
        found = self.loader.read(path)
        return found if isinstance(found, Diagnostic) else None

    def neighbours(self, path: str) -> list[str]:
        """The files that may import a module: those beside it."""
        if path.startswith("<"):
            return []
        folder = os.path.dirname(path)
        try:
            found = [os.path.join(folder, n) for n in sorted(os.listdir(folder)) if n.endswith(SUFFIX)]
        except OSError:
            found = []
        held = [p for p in self.analyses if self.loader.is_held(p) and os.path.dirname(p) == folder]
        return [p for p in dict.fromkeys([*found, *held]) if p != path]

    def fork(self, texts: Mapping[str, str]) -> Workspace:
        """One in which some files have other texts, with everything that is known of this one."""
        other = Workspace(self.guard)
        other.loader._overlay = {**self.loader._overlay, **{path: SourceFile(path, text) for path, text in texts.items()}}
        other.analyses = {p: a if p not in texts and a.lasting else a.fork() for p, a in self.analyses.items()}
        other.declared = self.declared
        return other

    # ── suggestions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def untried(self, analysis: Analysis) -> list[Diagnostic]:
        """Diagnostics with suggestions that the checker has still to accept."""
        found = (d for checked in analysis.current() for d in checked.diagnostics)
        return [d for d in found if needs_trial(d) and d not in analysis.tried]

    def try_suggestions(self, analysis: Analysis, diagnostic: Diagnostic) -> None:
        """Keep those suggested changes after which the checker finds less to say, and mark those after which it is content."""
        whole = analysis.source
        moved = [(s, _moved(analysis, whole, s.edits)) for s in diagnostic.suggestions]
        pairs = [(s, replace(s, edits=edits)) for s, edits in moved if edits is not None]  # as it was made, and in this text
        here = tuple(s for _, s in pairs)
        others = [replace(d, suggestions=()) for d in analysis.diagnostics() if d.labels[:1] != diagnostic.labels[:1]]
        recheck, solve = partial(self._recheck, analysis), partial(solutions, whole, self.loader, {})
        found = tried((replace(diagnostic, suggestions=here), *others), whole, recheck, solve)[0]
        known = {s.edits: original for original, s in pairs}
        blanks = {s.edits[0].span: original for original, s in pairs if s.blank}
        kept = (
            replace(known.get(s.edits) or blanks[s.edits[0].span].filled(s.edits[0].text), text=s.text, checked=s.checked)
            for s in found.suggestions
        )
        analysis.tried[diagnostic] = replace(diagnostic, suggestions=tuple(kept))

    def helps(self, analysis: Analysis, diagnostic: Diagnostic, suggestion: Suggestion) -> bool:
        """Whether there are fewer errors once a suggestion is followed; of a warning, fewer warnings and no more errors.

        The answers are kept: editors ask again wherever the cursor goes.
        """
        key = (_texts(analysis), diagnostic.severity, suggestion)
        if key not in self.tested:
            if len(self.tested) >= _MAX_TESTED:
                self.tested.clear()
            self.tested[key] = suggestion.checked or self._helps(analysis, diagnostic.severity == "error", suggestion)
        return self.tested[key]

    def _helps(self, analysis: Analysis, is_error: bool, suggestion: Suggestion) -> bool:
        trial = self.fork({analysis.path: applied(analysis, suggestion.edits)})
        try:
            after = trial.analysis(analysis.path)
        except AxonError:
            return False
        learned = {path: found for path, found in trial.analyses.items() if path not in self.analyses and found.lasting}
        self.analyses |= learned  # an `import` that is tried need not be read again when it is written
        errors, warnings = _counts(analysis)
        left, warned = (errors, warnings) if after is None else _counts(after)
        return left < errors if is_error else left <= errors and warned < warnings

    def _recheck(self, analysis: Analysis, changed: SourceFile, _: int | None) -> Attempt | None:
        """What the checker says of a module with another text."""
        trial = self.fork({analysis.path: changed.text})
        try:
            fork = trial.analysis(analysis.path)
        except AxonError:
            return None
        assert fork is not None
        spans = asked(scheme for c in fork.current() for scheme in c.schemes.values())
        places = [place for span in spans if (place := fork.place(span)) is not None]
        errors = sum(d.severity == "error" for d in fork.diagnostics())
        found = tuple(_in_whole(fork, changed, d) for c in fork.current() for d in c.diagnostics)
        return Attempt(errors, tuple(Span(changed, *place) for place in places), found, partial(_generality, fork))


def _generality(analysis: Analysis) -> Generality:
    """How much the declarations of a module leave to who calls them."""
    parts = (generality(c.schemes.values(), c.state) for c in analysis.current())
    return tuple(map(sum, zip(*parts, strict=True)))


def _texts(analysis: Analysis) -> tuple[tuple[str, str], ...]:
    """The path and the text of a module, and those of all that it imports: what is said of it depends on nothing else."""
    found = {analysis: (analysis.path, analysis.text)}
    todo = [analysis]
    while todo:
        for other in todo.pop().imports.values():
            if other not in found:
                found[other] = (other.path, other.text)
                todo.append(other)
    return tuple(found.values())


def _counts(analysis: Analysis) -> tuple[int, int]:
    """How many errors and how many warnings a module has."""
    errors = [d.severity == "error" for d in analysis.diagnostics()]
    return sum(errors), len(errors) - sum(errors)


def _in_whole(analysis: Analysis, whole: SourceFile, diagnostic: Diagnostic) -> Diagnostic:
    """A diagnostic of a chunk as one of the file; what lies elsewhere keeps its place."""
    found = analysis.in_whole(whole, diagnostic)
    edits = [(s, _moved(analysis, whole, s.edits)) for s in found.suggestions]
    return replace(found, suggestions=tuple(replace(s, edits=e) for s, e in edits if e is not None))


def _moved(analysis: Analysis, whole: SourceFile, edits: tuple[Edit, ...]) -> tuple[Edit, ...] | None:
    """Edits of chunks as edits of the file; None if one of them lies elsewhere."""
    places = [in_file(analysis, edit) for edit in edits]
    moved = tuple(Edit(Span(whole, start, end), text) for start, end, text in (p for p in places if p is not None))
    return moved if len(moved) == len(edits) else None


def in_file(analysis: Analysis, edit: Edit) -> tuple[int, int, str] | None:
    """The offsets that an edit replaces in the file, and with what; None if it lies elsewhere. An import goes to the others, or to
    the top."""
    place = analysis.place(edit.span)
    if place is None or not edit.text.startswith("import ") or edit.span.end > 0:
        return None if place is None else (*place, edit.text)
    for chunk, begin in zip(analysis.chunks, analysis.starts, strict=True):
        if chunk.decls and isinstance(chunk.decls[0], S.Import):
            at = begin + chunk.decls[0].span.start
            return at, at, edit.text
    header = _HEADER.match(analysis.text)
    at = header.end() if header is not None else 0
    return at, at, f"{edit.text}\n"


def applied(analysis: Analysis, edits: tuple[Edit, ...]) -> str:
    """A module's text after edits of it."""
    text = analysis.text
    for edit in sorted(_moved(analysis, analysis.source, edits) or (), key=lambda e: -e.span.start):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text
