"""The server: what editors open, kept up to date, and their questions answered.

An edit cancels the check that is under way and starts another, which stops between declarations to let messages in. A question
first finishes that check, so an answer is always about the text that the editor shows.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from contextlib import suppress
from time import monotonic
from typing import Any

from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pygls.lsp.server import LanguageServer
from pygls.protocol import LanguageServerProtocol, lsp_method

from axon import __version__, compiler
from axon.base.data import dataclass
from axon.base.errors import AxonError
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.workspace import Workspace
from axon.tools.lsp.convert import Converter, path_of

_SLICE = 0.02  # seconds of checking between two looks at what else has come in
_PARTIAL = 0.03  # seconds after which what has been found so far is shown
_IDLE = 1.0  # seconds without a message after which memory is tidied up
_THAW = 200  # tidyings after which everything is looked through, not only what is new


class Protocol(LanguageServerProtocol):
    """The protocol without a second copy of every document: `Server` keeps the texts."""

    @lsp_method(lsp.TEXT_DOCUMENT_DID_OPEN)
    def lsp_text_document__did_open(self, params: lsp.DidOpenTextDocumentParams) -> Iterator[Any]:
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_OPEN], (params,), None

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CHANGE)
    def lsp_text_document__did_change(self, params: lsp.DidChangeTextDocumentParams) -> Iterator[Any]:
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CHANGE], (params,), None

    @lsp_method(lsp.TEXT_DOCUMENT_DID_CLOSE)
    def lsp_text_document__did_close(self, params: lsp.DidCloseTextDocumentParams) -> Iterator[Any]:
        yield self.fm.features[lsp.TEXT_DOCUMENT_DID_CLOSE], (params,), None


@dataclass(slots=True, eq=False)
class Document:
    """A text that an editor has open."""

    uri: str
    path: str
    text: str
    version: int
    shown: tuple[int, list[lsp.Diagnostic]] | None = None  # the diagnostics that the editor has, and of which version


class Server(LanguageServer):
    def __init__(self) -> None:
        super().__init__("axon", __version__, text_document_sync_kind=lsp.TextDocumentSyncKind.Incremental, protocol_cls=Protocol)
        self.axon = Workspace(compiler.guarded)
        self.documents: dict[str, Document] = {}
        self.converter = Converter(self.axon)
        self.converter.documents = self._at_path
        self.refreshing: asyncio.Task[None] | None = None
        self.tidying = 0
        self.semantic: dict[str, tuple[str, list[int]]] = {}  # by URI: the last result's name and numbers

    def report_server_error(self, error: Exception, source: Any) -> None:
        """A mistake of ours goes to the log; people are not interrupted. What is refused has been answered."""
        if isinstance(error, JsonRpcException) and error.code == lsp.LSPErrorCodes.RequestFailed.value:
            return
        with suppress(Exception):
            text = f"{type(error).__name__}: {error}"
            self.window_log_message(lsp.LogMessageParams(lsp.MessageType.Error, text))

    # ── texts ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def opened(self, uri: str, text: str, version: int) -> None:
        document = Document(uri, path_of(uri), text, version)
        self.documents[uri] = document
        self.axon.open(document.path, text)
        self.refresh(document)

    def changed(self, uri: str, changes: list[lsp.TextDocumentContentChangeEvent], version: int) -> None:
        """Apply changes. Those of a version that is not newer than the last are late, and dropped."""
        from axon.tools.lsp.positions import Positions

        document = self.documents.get(uri)
        if document is None or version <= document.version:
            return
        for change in changes:
            document.text = Positions(document.text, self.converter.encoding).change(change)
        document.version = version
        self.axon.open(document.path, document.text)
        self.refresh(document)

    def closed(self, uri: str) -> None:
        document = self.documents.pop(uri, None)
        if document is not None:
            self.axon.close(document.path)
            self.semantic.pop(uri, None)
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(uri, []))
            self.refresh(None)

    def _at_path(self, path: str) -> tuple[str, int] | None:
        """The URI and version of the open document that is a file."""
        return next(((d.uri, d.version) for d in self.documents.values() if d.path == path), None)

    def analysis(self, uri: str) -> Analysis | None:
        """The module of an open document, up to date; None if it is not open, or too deep to look at."""
        document = self.documents.get(uri)
        if document is None:
            return None
        try:
            found = self.axon.analysis(document.path)
        except AxonError as error:
            self.report_server_error(error, None)
            return None
        if (
            document.shown is None or document.shown[0] != document.version
        ):  # what is wrong is shown before any question is answered
            self.publish(document)
        return found

    # ── checking ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def refresh(self, first: Document | None) -> None:
        """Check what is open again, beginning with what was edited."""
        if self.refreshing is not None:
            self.refreshing.cancel()
        documents = sorted(self.documents.values(), key=lambda d: d is not first)
        self.refreshing = asyncio.ensure_future(self._refresh(documents))

    async def _refresh(self, documents: list[Document]) -> None:
        for document in documents:
            await self._check(document)
        for document in documents:
            await self._try_suggestions(document)
        await asyncio.sleep(_IDLE)
        self._tidy()

    async def _check(self, document: Document) -> None:
        began = monotonic()
        slice_began = began
        try:
            for _ in self.axon.steps(document.path):
                if monotonic() - slice_began > _SLICE:
                    if monotonic() - began > _PARTIAL and self.axon.analyses[document.path].edit_is_checked:
                        self.publish(document)
                    await asyncio.sleep(0)
                    slice_began = monotonic()
        except AxonError as error:  # the file as a whole is too much for this machine
            self.report_server_error(error, None)
            return
        self.publish(document)

    async def _try_suggestions(self, document: Document) -> None:
        analysis = self.axon.analyses.get(document.path)
        waiting = self.axon.untried(analysis) if analysis is not None else []
        for diagnostic in waiting:
            await asyncio.sleep(0)
            assert analysis is not None
            with suppress(AxonError):
                self.axon.try_suggestions(analysis, diagnostic)
        if waiting:
            self.publish(document)

    def publish(self, document: Document) -> None:
        """Show the diagnostics of a document, if they are not what is shown already."""
        analysis = self.axon.analyses.get(document.path)
        if analysis is not None and analysis.text == document.text:
            found = [self.converter.diagnostic(analysis, d) for d in analysis.diagnostics()]
        elif (why := self.axon.unreadable(document.path)) is not None:
            found = [self.converter.diagnostic(None, why)]
        else:
            return
        key = (document.version, found)
        if key != document.shown:
            document.shown = key
            self.text_document_publish_diagnostics(lsp.PublishDiagnosticsParams(document.uri, found, document.version))

    def _tidy(self) -> None:
        """Collect garbage while nobody waits. What survives is not looked at again for a while."""
        self.tidying += 1
        if self.tidying % _THAW == 0:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
