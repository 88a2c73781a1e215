"""Facts to what the protocol calls them."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path

from lsprotocol import types as lsp
from pygls.uris import from_fs_path, to_fs_path

from axon.base.diagnostics import Diagnostic, Label, Suggestion
from axon.base.source import Span
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.names import Kind
from axon.tools.editor.workspace import Workspace, in_file
from axon.tools.lsp.positions import Positions

SOURCE = "axon"

SYMBOL_KINDS = {
    Kind.FUNCTION: lsp.SymbolKind.Function, Kind.VALUE: lsp.SymbolKind.Constant, Kind.TYPE: lsp.SymbolKind.Struct,
    Kind.MODULE: lsp.SymbolKind.Module, Kind.FIELD: lsp.SymbolKind.Field, Kind.PARAMETER: lsp.SymbolKind.Variable,
}  # fmt: skip

ITEM_KINDS = {
    Kind.FUNCTION: lsp.CompletionItemKind.Function, Kind.VALUE: lsp.CompletionItemKind.Constant,
    Kind.PARAMETER: lsp.CompletionItemKind.Variable, Kind.INDEX: lsp.CompletionItemKind.Variable,
    Kind.RUN: lsp.CompletionItemKind.Variable, Kind.DIMENSION: lsp.CompletionItemKind.TypeParameter,
    Kind.SHAPE: lsp.CompletionItemKind.TypeParameter, Kind.TYPE_VARIABLE: lsp.CompletionItemKind.TypeParameter,
    Kind.ELEMENT: lsp.CompletionItemKind.Class, Kind.TYPE: lsp.CompletionItemKind.Struct,
    Kind.MODULE: lsp.CompletionItemKind.Module, Kind.FIELD: lsp.CompletionItemKind.Field,
    Kind.BUILTIN: lsp.CompletionItemKind.Function,
}  # fmt: skip


def path_of(uri: str) -> str:
    """What a document is called: the path of a file, or its URI in `<>` if it is none."""
    try:
        path = to_fs_path(uri) if uri.startswith("file:") else None
    except ValueError:
        path = None
    return os.path.normpath(path) if path and "\0" not in path else f"<{uri}>"


def uri_of(path: str) -> str:
    if path.startswith("<"):
        return path[1:-1]
    return from_fs_path(path) or Path(path).as_uri()


class Converter:
    """Knows the texts of the modules, whose lines it counts, and the encoding that was agreed on."""

    def __init__(self, workspace: Workspace, encoding: str = "utf-16") -> None:
        self.workspace = workspace
        self.encoding = encoding
        self.documents: Callable[[str], tuple[str, int] | None] = lambda path: None  # an open document's URI and version
        self.versioned = False  # whether the editor wants edits to say the version that they are of
        self._positions: dict[str, Positions] = {}

    def positions(self, analysis: Analysis) -> Positions:
        known = self._positions.get(analysis.path)
        if known is None or known.text is not analysis.text:
            known = self._positions[analysis.path] = Positions(analysis.text, self.encoding)
        return known

    def range(self, analysis: Analysis, span: Span) -> lsp.Range | None:
        """The range of a span that lies in this module."""
        place = analysis.place(span)
        return None if place is None else self.positions(analysis).range(*place)

    def location(self, analysis: Analysis, span: Span) -> lsp.Location | None:
        """The place of a span in this module or any other that is known."""
        for module in (analysis, *self.workspace.analyses.values()):
            found = self.range(module, span)
            if found is not None:
                return lsp.Location(self.uri(module.path), found)
        return None

    def uri(self, path: str) -> str:
        """A file's URI, as the editor writes it if it has the file open."""
        known = self.documents(path)
        return known[0] if known is not None else uri_of(path)

    def edit(self, changes: Mapping[str, Sequence[lsp.TextEdit]]) -> lsp.WorkspaceEdit:
        """Edits of files by their paths. Where the editor takes versions, it refuses edits of a text that has changed."""
        if not self.versioned:
            return lsp.WorkspaceEdit(changes={self.uri(path): list(edits) for path, edits in changes.items()})
        listed: list[lsp.TextDocumentEdit | lsp.CreateFile | lsp.RenameFile | lsp.DeleteFile] = []
        for path, edits in changes.items():
            known = self.documents(path)
            version = known[1] if known is not None else None
            listed.append(lsp.TextDocumentEdit(lsp.OptionalVersionedTextDocumentIdentifier(self.uri(path), version), list(edits)))
        return lsp.WorkspaceEdit(document_changes=listed)

    # ── diagnostics ────────────────────────────────────────────────────────────────────────────────────────────────────

    def diagnostic(self, analysis: Analysis | None, d: Diagnostic) -> lsp.Diagnostic:
        """A diagnostic of a module; of a file that has none, at its beginning."""
        where = self.range(analysis, d.labels[0].span) if analysis is not None and d.labels else None
        severity = lsp.DiagnosticSeverity.Error if d.severity == "error" else lsp.DiagnosticSeverity.Warning
        page = _page(d.code)
        return lsp.Diagnostic(
            range=where or lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)),
            message=message(d),
            severity=severity,
            code=d.code,
            code_description=lsp.CodeDescription(href=page) if page else None,
            source=SOURCE,
            related_information=self._related(analysis, d.places[1:]) if analysis is not None else None,
        )

    def _related(self, analysis: Analysis, labels: Sequence[Label]) -> list[lsp.DiagnosticRelatedInformation] | None:
        found = ((self.location(analysis, label.span), label.text or "here") for label in labels)
        return [lsp.DiagnosticRelatedInformation(where, text) for where, text in found if where is not None] or None

    def quick_fix(self, analysis: Analysis, d: Diagnostic, suggestion: Suggestion, preferred: bool) -> lsp.CodeAction | None:
        """The edits of a suggestion, if it has some."""
        edits = [in_file(analysis, e) for e in suggestion.edits]
        if not edits or None in edits:
            return None
        range_ = self.positions(analysis).range
        changes = [lsp.TextEdit(range_(start, end), text) for start, end, text in (e for e in edits if e is not None)]
        return lsp.CodeAction(
            title=suggestion.text.strip() or _title(suggestion),
            kind=lsp.CodeActionKind.QuickFix,
            diagnostics=[self.diagnostic(analysis, d)],
            is_preferred=preferred,
            edit=self.edit({analysis.path: changes}),
        )


def message(d: Diagnostic) -> str:
    """The whole of a diagnostic in the words of the command line, without its excerpt."""
    lines = [d.message]
    if d.labels and d.labels[0].text:
        lines.append(d.labels[0].text)
    lines += d.notes
    lines += [f"help: {s.text}" + ("   (checked: the file then passes)" if s.checked else "") for s in d.suggestions if s.text]
    return "\n".join(lines)


def _title(suggestion: Suggestion) -> str:
    """What edits do that the message has put in words."""
    edit = suggestion.edits[0]
    if not edit.text.strip():
        return f"remove `{edit.span.text}`"
    return f"write `{edit.text.strip()}` for `{edit.span.text}`" if edit.span.text else f"write `{edit.text.strip()}`"


@cache
def _page(code: str) -> str | None:
    """Where the long text of a code is."""
    import axon

    package = Path(axon.__file__).parent
    for folder in (package / "_errors", package.parent / "docs" / "errors"):
        if (folder / f"{code}.md").is_file():
            return (folder / f"{code}.md").as_uri()
    return None
