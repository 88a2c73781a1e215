"""The questions of the protocol, each answered by one module of `axon.tools.editor`."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Protocol, TypeVar

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException

from axon import compiler
from axon.base.data import replace
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.tools.editor import tokens
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.complete import Item, complete
from axon.tools.editor.fields import field_places, field_references, fields_at
from axon.tools.editor.hints import Hint, hints
from axon.tools.editor.hover import documentation, hover
from axon.tools.editor.names import Free, Kind
from axon.tools.editor.outline import Entry, enclosing, folds, outline
from axon.tools.editor.places import Definition, definition, occurrences, of_module, references, spot
from axon.tools.editor.rename import Refused, rename, renamed_at
from axon.tools.editor.signatures import signature_help
from axon.tools.lsp.convert import ITEM_KINDS, SYMBOL_KINDS
from axon.tools.lsp.positions import Positions
from axon.tools.lsp.server import Server

_LEGEND = lsp.SemanticTokensLegend(list(tokens.TYPES), list(tokens.MODIFIERS))
_T = TypeVar("_T")


def register(server: Server) -> None:
    """Tell a server what it can do."""
    for method, handler, options in _FEATURES:
        server.feature(method, options)(_bound(server, handler))


def _bound(server: Server, handler: Callable[[Server, _T], object]) -> Callable[[_T], object]:
    def handle(params: _T) -> object:
        with compiler.guarded("answering an editor"):
            answer = handler(server, params)
        if isinstance(answer, Refused):
            raise JsonRpcException(str(answer), code=lsp.LSPErrorCodes.RequestFailed.value)
        return answer

    return handle


class _Place(Protocol):
    """What every question about a place has."""

    @property
    def text_document(self) -> lsp.TextDocumentIdentifier: ...
    @property
    def position(self) -> lsp.Position: ...


def _at(server: Server, params: _Place) -> tuple[Analysis, int] | None:
    """The module and the offset that a question is about."""
    analysis = server.analysis(params.text_document.uri)
    return None if analysis is None else (analysis, server.converter.positions(analysis).offset(params.position))


# ── the life of a document ──────────────────────────────────────────────────────────────────────────────────────────────


def _initialize(server: Server, params: lsp.InitializeParams) -> None:
    agreed = server.protocol.workspace.position_encoding  # a name as the editor sent it, if it did
    server.converter.encoding = agreed.value if isinstance(agreed, lsp.PositionEncodingKind) else agreed or "utf-16"
    workspace = params.capabilities.workspace
    if workspace is not None and workspace.workspace_edit is not None and workspace.workspace_edit.document_changes:
        server.converter.versioned = True


def _opened(server: Server, params: lsp.DidOpenTextDocumentParams) -> None:
    document = params.text_document
    server.opened(document.uri, document.text, document.version)


def _changed(server: Server, params: lsp.DidChangeTextDocumentParams) -> None:
    server.changed(params.text_document.uri, list(params.content_changes), params.text_document.version)


def _closed(server: Server, params: lsp.DidCloseTextDocumentParams) -> None:
    server.closed(params.text_document.uri)


def _disk_changed(server: Server, params: object) -> None:
    server.refresh(None)


# ── pointing ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _hover(server: Server, params: lsp.HoverParams) -> lsp.Hover | None:
    found = _at(server, params)
    shown = hover(*found) if found is not None else None
    if found is None or shown is None:
        return None
    content = lsp.MarkupContent(lsp.MarkupKind.Markdown, shown.markdown)
    return lsp.Hover(content, server.converter.range(found[0], shown.span))


def _definition(server: Server, params: lsp.DefinitionParams) -> list[lsp.Location] | None:
    at = _at(server, params)
    found = definition(*at) if at is not None else None
    if at is None or found is None:
        return None
    if found.kind is Kind.FIELD:
        places = field_places(*at, found.name)
        return [x for module, span in places if (x := server.converter.location(module, span))] or None
    if found.kind is Kind.MODULE and found.analysis is not None:
        return [lsp.Location(server.converter.uri(found.analysis.path), lsp.Range(lsp.Position(0, 0), lsp.Position(0, 0)))]
    if found.analysis is None or found.span is None:
        return None
    place = server.converter.location(found.analysis, found.span)
    return [place] if place is not None else None


def _references(server: Server, params: lsp.ReferenceParams) -> list[lsp.Location] | None:
    at = _at(server, params)
    found = definition(*at) if at is not None else None
    if at is None or found is None:
        return None
    fields = fields_at(*at) if found.kind is Kind.FIELD else frozenset()
    if fields:
        places = field_references(server.axon, at[0], fields, found.name)
    else:
        places = references(server.axon, _in_module(found, at[0]))
    wanted = [(a, o) for a, o in places if params.context.include_declaration or not o.defines]
    return [x for analysis, o in wanted if (x := server.converter.location(analysis, o.span))]


def _in_module(found: Definition, analysis: Analysis | None) -> Definition:
    """A name that is of no module (of the language, or a field) is looked for in the module where it stands."""
    if found.kind is Kind.MODULE or found.analysis is None:
        return replace(found, analysis=analysis)
    return found


def _highlights(server: Server, params: lsp.DocumentHighlightParams) -> list[lsp.DocumentHighlight] | None:
    at = _at(server, params)
    found = definition(*at) if at is not None else None
    if at is None or found is None:
        return None
    analysis = at[0]
    here = spot(*at)
    target = here.occurrence.target if here is not None and here.occurrence is not None else found.target
    if isinstance(target, Free):  # as it is written here, be it of another module
        own = [(analysis, o) for o in occurrences(analysis, target)]
    else:
        own = references(server.axon, found, everywhere=False)
    ranges = [(server.converter.range(a, o.span), o.defines) for a, o in own if a is analysis]
    kinds = {True: lsp.DocumentHighlightKind.Write, False: lsp.DocumentHighlightKind.Read}
    return [lsp.DocumentHighlight(r, kinds[defines]) for r, defines in ranges if r is not None]


# ── renaming ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _prepare_rename(server: Server, params: lsp.PrepareRenameParams) -> lsp.PrepareRenamePlaceholder | Refused | None:
    at = _at(server, params)
    if at is None:
        return None
    try:
        found, occurrence = renamed_at(*at)
    except Refused as refusal:
        return refusal
    where = server.converter.range(at[0], occurrence.span)
    return lsp.PrepareRenamePlaceholder(where, found.name) if where is not None else None


def _rename(server: Server, params: lsp.RenameParams) -> lsp.WorkspaceEdit | Refused | None:
    at = _at(server, params)
    if at is None:
        return None
    try:
        changes = rename(server.axon, *at, params.new_name.strip())
    except Refused as refusal:
        return refusal
    edits: dict[str, list[lsp.TextEdit]] = {}
    for change in changes:
        where = server.converter.positions(change.analysis).range(change.start, change.end)
        edits.setdefault(change.analysis.path, []).append(lsp.TextEdit(where, change.text))
    return server.converter.edit(edits)


# ── writing ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _completion(server: Server, params: lsp.CompletionParams) -> lsp.CompletionList:
    at = _at(server, params)
    items = complete(server.axon, *at) if at is not None else []
    return lsp.CompletionList(False, [_item(item) for item in items])


def _item(item: Item) -> lsp.CompletionItem:
    return lsp.CompletionItem(
        item.label,
        kind=lsp.CompletionItemKind.Keyword if item.kind is None else ITEM_KINDS[item.kind],
        detail=item.detail or None,
        sort_text=f"{item.rank}{item.label}",
        filter_text=item.label,
        data={"path": item.owner, "type": item.kind is Kind.TYPE} if item.owner else None,
    )


def _resolve(server: Server, item: lsp.CompletionItem) -> lsp.CompletionItem:
    data = item.data if isinstance(item.data, dict) else {}
    analysis = server.axon.analyses.get(str(data.get("path", "")))
    found = of_module(analysis, Free(item.label, bool(data.get("type")))) if analysis is not None else None
    if found is not None and found.checked is not None:
        text = "\n\n".join(documentation(found.checked.chunk, found.checked.decl))
        item.documentation = lsp.MarkupContent(lsp.MarkupKind.Markdown, text) if text else None
    return item


def _signature_help(server: Server, params: lsp.SignatureHelpParams) -> lsp.SignatureHelp | None:
    at = _at(server, params)
    found = signature_help(*at) if at is not None else None
    if found is None:
        return None
    parameters = [lsp.ParameterInformation(_units(server, found.label, p)) for p in found.parameters]
    doc = lsp.MarkupContent(lsp.MarkupKind.Markdown, "\n\n".join(found.text)) if found.text else None
    active = found.active if found.active is not None else len(parameters)  # older editors take no null, which would mean none
    return lsp.SignatureHelp([lsp.SignatureInformation(found.label, doc, parameters, active)], 0, active)


def _units(server: Server, label: str, piece: tuple[int, int]) -> tuple[int, int]:
    """Offsets in a label count UTF-16 units, whatever was agreed on for documents."""
    return (len(label[: piece[0]].encode("utf-16-le")) // 2, len(label[: piece[1]].encode("utf-16-le")) // 2)


def _actions(server: Server, params: lsp.CodeActionParams) -> list[lsp.CodeAction]:
    """The edits that diagnostics in a range suggest, each tried: after it there is less to say."""
    analysis = server.analysis(params.text_document.uri)
    if analysis is None or (params.context.only and not any("quickfix".startswith(k) for k in map(_text, params.context.only))):
        return []
    positions = server.converter.positions(analysis)
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    for diagnostic in server.axon.untried(analysis):
        place = analysis.place(diagnostic.labels[0].span)
        if place is not None and place[0] <= end and start <= place[1]:
            server.axon.try_suggestions(analysis, diagnostic)
    out: list[lsp.CodeAction] = []
    for diagnostic in analysis.diagnostics():
        place = analysis.place(diagnostic.labels[0].span) if diagnostic.labels else None
        if place is None or place[0] > end or place[1] < start:
            continue
        fixes = [s for s in diagnostic.suggestions if s.edits and server.axon.helps(analysis, diagnostic, s)]
        sure = next((s for s in fixes if s.checked or len(fixes) == 1), None)
        for suggestion in fixes:
            action = server.converter.quick_fix(analysis, diagnostic, suggestion, suggestion is sure)
            if action is not None:
                out.append(action)
    return out


def _text(kind: object) -> str:
    return str(getattr(kind, "value", kind))


# ── looking ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _inlay_hints(server: Server, params: lsp.InlayHintParams) -> list[lsp.InlayHint]:
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return []
    positions = server.converter.positions(analysis)
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    out: list[lsp.InlayHint] = []
    for chunk, begin in zip(analysis.chunks, analysis.starts, strict=True):
        if begin + len(chunk.text) < start or begin > end:
            continue
        for checked in analysis.of_chunk.get(chunk.former or chunk, ()):
            for hint in hints(checked.facts):
                place = analysis.place(hint.at)
                at = place[0 if hint.before else 1] if place is not None else -1
                if start <= at <= end:
                    out.append(_inlay(positions.position(at), hint))
    return out


def _inlay(at: lsp.Position, hint: Hint) -> lsp.InlayHint:
    kind = lsp.InlayHintKind.Type if hint.kind == "type" else lsp.InlayHintKind.Parameter
    return lsp.InlayHint(at, hint.label, kind=kind, tooltip=hint.full or None)


def _symbols(server: Server, params: lsp.DocumentSymbolParams) -> list[lsp.DocumentSymbol]:
    analysis = server.analysis(params.text_document.uri)
    return [] if analysis is None else [s for e in outline(analysis) if (s := _symbol(server, analysis, e))]


def _symbol(server: Server, analysis: Analysis, entry: Entry) -> lsp.DocumentSymbol | None:
    whole, name = server.converter.range(analysis, entry.span), server.converter.range(analysis, entry.name_span)
    if whole is None or name is None:
        return None
    children = [s for e in entry.children if (s := _symbol(server, analysis, e))]
    return lsp.DocumentSymbol(entry.name, SYMBOL_KINDS[entry.kind], whole, name, entry.detail or None, children=children)


def _workspace_symbols(server: Server, params: lsp.WorkspaceSymbolParams) -> list[lsp.WorkspaceSymbol]:
    """The declarations of all modules that are open or imported, by part of their name."""
    out: list[lsp.WorkspaceSymbol] = []
    wanted = params.query.lower()
    for analysis in list(server.axon.analyses.values()):
        for entry in outline(analysis):
            where = server.converter.location(analysis, entry.name_span)
            if wanted in entry.name.lower() and entry.kind is not Kind.MODULE and where is not None:
                out.append(lsp.WorkspaceSymbol(where, entry.name, SYMBOL_KINDS[entry.kind], container_name=analysis.path))
    return out[:500]


def _folds(server: Server, params: lsp.FoldingRangeParams) -> list[lsp.FoldingRange]:
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return []
    positions = server.converter.positions(analysis)
    out = []
    for start, end, is_comment in folds(analysis):
        first, last = positions.position(start).line, positions.position(end).line
        if last > first:
            out.append(lsp.FoldingRange(first, last, kind=lsp.FoldingRangeKind.Comment if is_comment else None))
    return out


def _selections(server: Server, params: lsp.SelectionRangeParams) -> list[lsp.SelectionRange] | None:
    analysis = server.analysis(params.text_document.uri)
    if analysis is None or not analysis.chunks:
        return None
    positions = server.converter.positions(analysis)
    out = []
    for position in params.positions:
        found: lsp.SelectionRange | None = None
        last = (0, 0)
        for place in reversed(enclosing(analysis, positions.offset(position))):
            if found is None or (last[0] <= place[0] and place[1] <= last[1]):
                found, last = lsp.SelectionRange(positions.range(*place), found), place
        out.append(found or lsp.SelectionRange(lsp.Range(position, position)))
    return out


# ── semantic tokens ─────────────────────────────────────────────────────────────────────────────────────────────────────


def _numbers(server: Server, analysis: Analysis, wanted: lsp.Range | None = None) -> list[int]:
    positions = server.converter.positions(analysis)
    data: list[int] = []
    line = column = 0
    for chunk, start, found in tokens.by_chunk(analysis):
        at = positions.position(start)
        numbers, last_line, last_column = _of_chunk(found, chunk.text, positions.encoding)
        if not numbers or (wanted is not None and not (at.line <= wanted.end.line and wanted.start.line <= at.line + last_line)):
            continue
        first_line, first_column = at.line + numbers[0], numbers[1] + (0 if numbers[0] else at.character)
        step = first_line - line
        data += (step, first_column - (0 if step else column), *numbers[2:])
        line, column = at.line + last_line, last_column + (0 if last_line else at.character)
    return data


def _of_chunk(found: tokens.ChunkWords, text: str, encoding: str) -> tuple[list[int], int, int]:
    """The numbers of a chunk's words, of which the first is placed from the chunk's beginning, and where the last one is."""
    if encoding not in found.kept:
        positions = Positions(text, encoding)
        data: list[int] = []
        line = column = 0
        for word in found.words:
            at = positions.position(word.start)
            marks = sum(1 << tokens.MODIFIERS.index(m) for m in word.modifiers)
            step = at.line - line
            width = positions.width(word.start, word.end)
            data += (step, at.character - (0 if step else column), width, tokens.TYPES.index(word.type), marks)
            line, column = at.line, at.character
        found.kept[encoding] = data, line, column
    return found.kept[encoding]


def _semantic_full(server: Server, params: lsp.SemanticTokensParams) -> lsp.SemanticTokens | None:
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return None
    data = _numbers(server, analysis)
    return lsp.SemanticTokens(data, _remember(server, params.text_document.uri, data))


def _semantic_range(server: Server, params: lsp.SemanticTokensRangeParams) -> lsp.SemanticTokens | None:
    analysis = server.analysis(params.text_document.uri)
    return None if analysis is None else lsp.SemanticTokens(_numbers(server, analysis, params.range))


def _semantic_delta(
    server: Server, params: lsp.SemanticTokensDeltaParams
) -> lsp.SemanticTokens | lsp.SemanticTokensDelta | None:  # fmt: skip
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return None
    before = server.semantic.get(params.text_document.uri)
    data = _numbers(server, analysis)
    name = _remember(server, params.text_document.uri, data)
    if before is None or before[0] != params.previous_result_id:
        return lsp.SemanticTokens(data, name)
    old = before[1]
    a = 0
    while a < min(len(old), len(data)) and old[a] == data[a]:
        a += 1
    b = 0
    while b < min(len(old), len(data)) - a and old[-1 - b] == data[-1 - b]:
        b += 1
    edits = [lsp.SemanticTokensEdit(a, len(old) - a - b, data[a : len(data) - b])] if len(old) != len(data) or a < len(old) else []
    return lsp.SemanticTokensDelta(edits, name)


def _remember(server: Server, uri: str, data: list[int]) -> str:
    last = server.semantic.get(uri)
    name = str(int(last[0]) + 1) if last is not None else "1"
    server.semantic[uri] = (name, data)
    return name


# ── formatting ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _format(server: Server, params: lsp.DocumentFormattingParams) -> list[lsp.TextEdit] | None:
    """The edits that lay a file out in the standard way; none while it has syntax errors."""
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return None
    return _laid_out(server, analysis, 0, analysis.text)


def _format_range(server: Server, params: lsp.DocumentRangeFormattingParams) -> list[lsp.TextEdit] | None:
    """As `_format`, of the declarations that a range touches."""
    analysis = server.analysis(params.text_document.uri)
    if analysis is None:
        return None
    positions = server.converter.positions(analysis)
    start, end = positions.offset(params.range.start), positions.offset(params.range.end)
    out: list[lsp.TextEdit] = []
    for chunk, begin in zip(analysis.chunks, analysis.starts, strict=True):
        if begin <= end and start < begin + len(chunk.text) and not chunk.broken:
            kept = chunk.text.rstrip()
            out += _laid_out(server, analysis, begin, kept, end="") or []
    return out


def _laid_out(server: Server, analysis: Analysis, begin: int, text: str, end: str = "\n") -> list[lsp.TextEdit] | None:
    try:
        formatted = compiler.format_text(SourceFile(analysis.path, text))
    except AxonError:
        return None
    new = formatted if end else formatted.rstrip("\n")
    old_lines, new_lines = text.splitlines(keepends=True), new.splitlines(keepends=True)
    starts = [0]
    for line in old_lines:
        starts.append(starts[-1] + len(line))
    positions = server.converter.positions(analysis)
    return [
        lsp.TextEdit(positions.range(begin + starts[a], begin + starts[b]), "".join(new_lines[c:d]))
        for tag, a, b, c, d in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes()
        if tag != "equal"
    ]


_FEATURES: list[tuple[str, Callable[..., object], object]] = [
    (lsp.INITIALIZE, _initialize, None),
    (lsp.TEXT_DOCUMENT_DID_OPEN, _opened, None),
    (lsp.TEXT_DOCUMENT_DID_CHANGE, _changed, None),
    (lsp.TEXT_DOCUMENT_DID_CLOSE, _closed, None),
    (lsp.TEXT_DOCUMENT_DID_SAVE, _disk_changed, None),
    (lsp.WORKSPACE_DID_CHANGE_WATCHED_FILES, _disk_changed, None),
    (lsp.TEXT_DOCUMENT_HOVER, _hover, None),
    (lsp.TEXT_DOCUMENT_DEFINITION, _definition, None),
    (lsp.TEXT_DOCUMENT_REFERENCES, _references, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_HIGHLIGHT, _highlights, None),
    (lsp.TEXT_DOCUMENT_PREPARE_RENAME, _prepare_rename, None),
    (lsp.TEXT_DOCUMENT_RENAME, _rename, lsp.RenameOptions(prepare_provider=True)),
    (lsp.TEXT_DOCUMENT_COMPLETION, _completion, lsp.CompletionOptions(trigger_characters=[".", "'"], resolve_provider=True)),
    (lsp.COMPLETION_ITEM_RESOLVE, _resolve, None),
    (lsp.TEXT_DOCUMENT_SIGNATURE_HELP, _signature_help, lsp.SignatureHelpOptions([" ", "(", "{"], [" ", ","])),
    (lsp.TEXT_DOCUMENT_CODE_ACTION, _actions, lsp.CodeActionOptions([lsp.CodeActionKind.QuickFix])),
    (lsp.TEXT_DOCUMENT_INLAY_HINT, _inlay_hints, None),
    (lsp.TEXT_DOCUMENT_DOCUMENT_SYMBOL, _symbols, None),
    (lsp.WORKSPACE_SYMBOL, _workspace_symbols, None),
    (lsp.TEXT_DOCUMENT_FOLDING_RANGE, _folds, None),
    (lsp.TEXT_DOCUMENT_SELECTION_RANGE, _selections, None),
    (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL, _semantic_full, _LEGEND),
    (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_RANGE, _semantic_range, _LEGEND),
    (lsp.TEXT_DOCUMENT_SEMANTIC_TOKENS_FULL_DELTA, _semantic_delta, _LEGEND),
    (lsp.TEXT_DOCUMENT_FORMATTING, _format, None),
    (lsp.TEXT_DOCUMENT_RANGE_FORMATTING, _format_range, None),
]
