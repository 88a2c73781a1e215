"""The editor's side of a session."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from itertools import count
from pathlib import Path

from lsprotocol import types as lsp
from pytest_lsp import LanguageClient

from axon.tools.lsp.positions import Positions

PATIENCE = 100.0  # seconds after which what has not come never will
COMMAND = [sys.executable, "-m", "axon", "lsp"]
_names = count(1)


class Shown:
    """What a server has published for each document and version: the last, and a sign that something came."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, int | None], Sequence[lsp.Diagnostic]] = {}
        self.came = asyncio.Event()


def shown(client: LanguageClient) -> Shown:
    features = client.protocol.fm.features
    if not hasattr(client, "axon_shown"):
        known = Shown()
        client.axon_shown = known  # type: ignore[attr-defined]
        before = features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS]

        def published(params: lsp.PublishDiagnosticsParams) -> None:
            known.last[params.uri, params.version] = params.diagnostics
            known.came.set()
            before(params)

        features[lsp.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS] = published
    return client.axon_shown  # type: ignore[attr-defined, no-any-return]


class File:
    """A document that is open in the editor."""

    def __init__(self, client: LanguageClient, uri: str, content: str) -> None:
        self.client, self.uri, self.content = client, uri, content
        self.version = 1
        self.identifier = lsp.TextDocumentIdentifier(uri)

    def position(self, before: str) -> lsp.Position:
        """Where a piece of the text begins; of a name, its first place."""
        return Positions(self.content).position(self.content.index(before))

    def range(self, piece: str) -> lsp.Range:
        at = self.content.index(piece)
        return Positions(self.content).range(at, at + len(piece))

    @property
    def everything(self) -> lsp.Range:
        return Positions(self.content).range(0, len(self.content))

    async def edit(self, old: str, new: str) -> None:
        assert self.content.count(old) == 1
        await self.replace(self.range(old), new)

    async def insert(self, at: lsp.Position, text: str) -> None:
        await self.replace(lsp.Range(at, at), text)

    async def replace(self, where: lsp.Range, new: str) -> None:
        self.content = self.with_edits([lsp.TextEdit(where, new)])
        await self._send(lsp.TextDocumentContentChangePartial(where, new))

    async def change(self, text: str) -> None:
        self.content = text
        await self._send(lsp.TextDocumentContentChangeWholeDocument(text))

    async def _send(self, change: lsp.TextDocumentContentChangeEvent) -> None:
        self.version += 1
        where = lsp.VersionedTextDocumentIdentifier(self.version, self.uri)
        self.client.text_document_did_change(lsp.DidChangeTextDocumentParams(where, [change]))

    async def close(self) -> None:
        self.client.text_document_did_close(lsp.DidCloseTextDocumentParams(self.identifier))

    async def shows(self, *codes: str, saying: str = "") -> list[lsp.Diagnostic]:
        """Those of this version, once they are of these codes, and one of them says that.

        What a server shows before may be of a check that has not come to its end, or of one before an edit of another document.
        """
        known = shown(self.client)

        async def so() -> list[lsp.Diagnostic]:
            while True:
                known.came.clear()
                found = known.last.get((self.uri, self.version))
                if found is not None and tuple(d.code for d in found) == codes and saying in "\n".join(d.message for d in found):
                    return list(found)
                await known.came.wait()

        try:
            return await asyncio.wait_for(so(), PATIENCE)
        except TimeoutError:
            found = known.last.get((self.uri, self.version))
            raise AssertionError(f"not shown: {codes} {saying!r}, but {found}") from None

    def with_edits(self, edits: Sequence[object]) -> str:
        positions = Positions(self.content)
        text = self.content
        found = [e for e in edits if isinstance(e, lsp.TextEdit)]
        for edit in sorted(found, key=lambda e: -positions.offset(e.range.start)):
            text = text[: positions.offset(edit.range.start)] + edit.new_text + text[positions.offset(edit.range.end) :]
        return text

    def applied(self, edit: lsp.WorkspaceEdit | None) -> str:
        """The text after a workspace's edit, which is one of this version of it."""
        assert edit is not None
        if edit.changes is not None:
            return self.with_edits(edit.changes[self.uri])
        (change,) = (
            c for c in edit.document_changes or () if isinstance(c, lsp.TextDocumentEdit) and c.text_document.uri == self.uri
        )
        assert change.text_document.version == self.version
        return self.with_edits(change.edits)


class Session:
    """Opens documents in a folder of its own."""

    def __init__(self, client: LanguageClient, folder: Path) -> None:
        self.client, self.folder = client, folder
        shown(client)

    async def open(self, content: str, name: str = "", uri: str = "") -> File:
        path = self.folder / (name or f"file{next(_names)}.axon")
        file = File(self.client, uri or path.as_uri(), content)
        item = lsp.TextDocumentItem(file.uri, "axon", file.version, content)
        self.client.text_document_did_open(lsp.DidOpenTextDocumentParams(item))
        return file

    @staticmethod
    def text(where: lsp.Range, content: str) -> str:
        positions = Positions(content)
        return content[positions.offset(where.start) : positions.offset(where.end)]
