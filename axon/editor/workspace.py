"""The modules that are open or imported, and the loader that reads them: from editors' buffers first, then from disk."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

from axon.diagnostics import Diagnostic, Edit
from axon.editor.analysis import Analysis, AnalysisSession, Guard, needs_trial
from axon.loader import SUFFIX, FileLoader, stdlib_root
from axon.source import SourceFile

_MAX_TRIED = 2


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
            return
        yield from AnalysisSession(self.loader, self.analyses, self.guard).steps(source)

    def analysis(self, path: str) -> Analysis | None:
        """The module, up to date; None if it cannot be read."""
        for _ in self.steps(path):
            pass
        return self.analyses.get(path)

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

    # ── suggestions ────────────────────────────────────────────────────────────────────────────────────────────────────

    def untried(self, analysis: Analysis) -> list[Diagnostic]:
        """Diagnostics with suggestions that the checker has still to accept."""
        found = (d for checked in analysis.current() for d in checked.diagnostics)
        return [d for d in found if needs_trial(d) and d not in analysis.tried]

    def try_suggestions(self, analysis: Analysis, diagnostic: Diagnostic) -> None:
        """Keep those suggested changes after which the checker finds less to say, and mark those after which it is content."""
        before = sum(d.severity == "error" for d in analysis.diagnostics())
        kept = []
        for suggestion in diagnostic.suggestions:
            if not suggestion.edits:
                kept.append(suggestion)
            elif sum(bool(s.edits) for s in kept) < _MAX_TRIED:
                left = self.errors_after(analysis, suggestion.edits)
                if left is not None and left < before:
                    kept.append(replace(suggestion, checked=left == 0))
        analysis.tried[diagnostic] = replace(diagnostic, suggestions=tuple(kept))

    def errors_after(self, analysis: Analysis, edits: tuple[Edit, ...]) -> int | None:
        """How many errors a module has after edits; None if they are not edits of it."""
        text = self.edited(analysis, edits)
        if text is None:
            return None
        fork = analysis.fork(text)
        loader = EditorLoader()
        loader._overlay = {**self.loader._overlay, analysis.path: SourceFile(analysis.path, text)}
        session = AnalysisSession(loader, {**self.analyses, analysis.path: fork}, self.guard)
        return sum(d.severity == "error" for d in session.check(loader._overlay[analysis.path]).diagnostics)

    @staticmethod
    def edited(analysis: Analysis, edits: tuple[Edit, ...]) -> str | None:
        """The module's text after edits; None if one of them lies elsewhere."""
        text = analysis.text
        places = [(analysis.place(e.span), e.text) for e in edits]
        for place, new in sorted(places, key=lambda p: p[0] or (0, 0), reverse=True):
            if place is None:
                return None
            text = text[: place[0]] + new + text[place[1] :]
        return text
