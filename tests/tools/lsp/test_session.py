"""Sessions as an editor has them: a server of its own process, every feature asked over the protocol."""

from __future__ import annotations

from pathlib import Path

import pytest
import pytest_lsp
from lsprotocol import types as lsp
from pygls.exceptions import JsonRpcException
from pytest_lsp import ClientServerConfig, LanguageClient, client_capabilities

from tests import ROOT
from tests.tools.lsp.session import COMMAND, Session

pytestmark = pytest.mark.asyncio(loop_scope="module")

MLP = "fun mlp (x : f32[b, d]) (w1 : f32[d, 4 * d]) (w2 : f32[3 * d, d]) =\n  (x @ w1) @ w2\n"
NET = """\
import nn

(* Twice as much. *)
fun twice x = x + x

fun net (p : nn.linear[d, k]) x =
  let val hidden = nn.dense p x
  in twice (nn.softmax hidden) end
"""


@pytest_lsp.fixture(scope="module", config=ClientServerConfig(server_command=COMMAND))
async def client(lsp_client: LanguageClient):  # type: ignore[no-untyped-def]
    parameters = lsp.InitializeParams(capabilities=client_capabilities("visual-studio-code"))
    await lsp_client.initialize_session(parameters)
    yield
    await lsp_client.shutdown_session()


@pytest.fixture
def editor(client: LanguageClient, tmp_path: Path) -> Session:
    return Session(client, tmp_path)


async def test_diagnostics_with_related_places_and_a_fix_that_works(editor: Session) -> None:
    file = await editor.open(MLP)
    (found,) = await file.shows("AX0301", saying="(checked: the file then passes)")
    assert found.source == "axon"
    assert found.severity == lsp.DiagnosticSeverity.Error
    assert "4 * d = 3 * d" in found.message
    assert {editor.text(r.location.range, MLP) for r in found.related_information or ()} >= {"w2"} or found.related_information
    actions = await editor.client.text_document_code_action_async(
        lsp.CodeActionParams(file.identifier, found.range, lsp.CodeActionContext([found]))
    )
    assert actions
    action = actions[0]
    assert isinstance(action, lsp.CodeAction)
    assert action.is_preferred
    await file.change(file.applied(action.edit))
    await file.shows()


async def test_only_fixes_that_help_are_offered(editor: Session) -> None:
    file = await editor.open("fun f (part : f32) = aprt * 2.0\n")
    for text, titles in (("= aprt * 2.0", ["did you mean `part`?"]), ("= aprt + true", [])):
        if text not in file.content:
            await file.edit("= aprt * 2.0", text)
        found = await file.shows("AX0401")
        actions = await editor.client.text_document_code_action_async(
            lsp.CodeActionParams(file.identifier, file.everything, lsp.CodeActionContext(found))
        )
        assert [a.title for a in actions or ()] == titles


async def test_one_fix_of_several_is_preferred(editor: Session) -> None:
    file = await editor.open("fun bad (q : f32[s, d]) (k : f32[t, d]) = q @ k\n")
    (found,) = await file.shows("AX0301")
    asked = lsp.CodeActionParams(file.identifier, found.range, lsp.CodeActionContext([found]))
    actions = await editor.client.text_document_code_action_async(asked)
    preferred = [a.is_preferred for a in actions or () if isinstance(a, lsp.CodeAction)]
    assert len(preferred) > 1
    assert preferred == [True, *[False] * (len(preferred) - 1)]


async def test_a_diagnostic_goes_when_its_cause_does(editor: Session) -> None:
    file = await editor.open("fun f x = y\n")
    await file.shows("AX0401")
    await file.edit("y", "x")
    await file.shows()
    await file.edit("= x", "= x +")
    await file.shows("AX0101")


async def test_hover(editor: Session) -> None:
    file = await editor.open(NET)
    found = await editor.client.text_document_hover_async(lsp.HoverParams(file.identifier, file.position("hidden")))
    assert found is not None
    assert isinstance(found.contents, lsp.MarkupContent)
    assert "hidden : f32[..b, k]" in found.contents.value
    assert found.range == file.range("hidden")


async def test_inlay_hints(editor: Session) -> None:
    file = await editor.open(NET)
    found = await editor.client.text_document_inlay_hint_async(lsp.InlayHintParams(file.identifier, file.everything))
    labels = {str(h.label) for h in found or ()}
    assert {"(", " : 'a[..s])", " : 'a[..s]", " : f32[..b, k]"} <= labels


async def test_definition(editor: Session) -> None:
    file = await editor.open(NET)
    for name, target in (("twice (", (file.uri, "twice")), ("dense", ((ROOT / "stdlib" / "nn.axon").as_uri(), "dense"))):
        found = await editor.client.text_document_definition_async(lsp.DefinitionParams(file.identifier, file.position(name)))
        assert isinstance(found, tuple | list)
        (place,) = found
        assert isinstance(place, lsp.Location)
        assert place.uri == target[0]
        source = NET if place.uri == file.uri else (ROOT / "stdlib" / "nn.axon").read_text()
        assert editor.text(place.range, source) == target[1]


async def test_references_and_highlights(editor: Session) -> None:
    file = await editor.open(NET)
    context = lsp.ReferenceContext(include_declaration=True)
    found = await editor.client.text_document_references_async(
        lsp.ReferenceParams(context, file.identifier, file.position("hidden"))
    )
    assert found is not None
    assert [editor.text(x.range, NET) for x in found] == ["hidden", "hidden"]
    lit = await editor.client.text_document_document_highlight_async(
        lsp.DocumentHighlightParams(file.identifier, file.position("hidden"))
    )
    assert [h.kind for h in lit or ()] == [lsp.DocumentHighlightKind.Write, lsp.DocumentHighlightKind.Read]


async def test_rename(editor: Session) -> None:
    file = await editor.open("fun f (x : f32[n]) = (sum i => x[i]) / cast f32 n\n")
    at = file.position("n]")
    prepared = await editor.client.text_document_prepare_rename_async(lsp.PrepareRenameParams(file.identifier, at))
    assert isinstance(prepared, lsp.PrepareRenamePlaceholder)
    assert prepared.placeholder == "n"
    edit = await editor.client.text_document_rename_async(lsp.RenameParams(file.identifier, at, "rows"))
    assert file.applied(edit) == "fun f (x : f32[rows]) = (sum i => x[i]) / cast f32 rows\n"
    with pytest.raises(JsonRpcException, match="word of the language"):
        await editor.client.text_document_rename_async(lsp.RenameParams(file.identifier, at, "let"))


async def test_a_field_is_known_by_its_record(editor: Session) -> None:
    text = "type t = { w : f32, b : f32 }\nfun f (p : t) = p.w + p.b\nfun g (q : { w : f32 }) = q.w\n"
    file = await editor.open(text)
    at = file.position("w : ")
    found = await editor.client.text_document_references_async(lsp.ReferenceParams(lsp.ReferenceContext(True), file.identifier, at))
    assert [place.range.start.line for place in found or ()] == [0, 1]
    edit = await editor.client.text_document_rename_async(lsp.RenameParams(file.identifier, at, "weight"))
    assert file.applied(edit) == text.replace("{ w : f32, b", "{ weight : f32, b").replace("p.w", "p.weight")


async def test_completion(editor: Session) -> None:
    file = await editor.open(NET + "fun more x = nn.")
    at = lsp.Position(9, len("fun more x = nn."))
    found = await editor.client.text_document_completion_async(lsp.CompletionParams(file.identifier, at))
    assert isinstance(found, lsp.CompletionList)
    items = {i.label: i for i in found.items}
    assert "softmax" in items
    resolved = await editor.client.completion_item_resolve_async(items["softmax"])
    assert isinstance(resolved.documentation, lsp.MarkupContent)
    assert "sums to 1" in resolved.documentation.value
    assert "->" in str(resolved.detail)


async def test_signature_help(editor: Session) -> None:
    file = await editor.open(NET + "fun more p x = nn.dense p ")
    at = lsp.Position(9, len("fun more p x = nn.dense p "))
    found = await editor.client.text_document_signature_help_async(lsp.SignatureHelpParams(file.identifier, at))
    assert found is not None
    assert found.signatures[0].label.startswith("nn.dense (p : ")
    assert found.active_parameter == 1


async def test_symbols(editor: Session) -> None:
    file = await editor.open(NET)
    found = await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(file.identifier))
    assert [s.name for s in found or ()] == ["nn", "twice", "net"]
    assert isinstance(found[2], lsp.DocumentSymbol)  # type: ignore[index]
    assert [c.name for c in found[2].children or ()] == ["hidden"]  # type: ignore[index, union-attr]
    everywhere = await editor.client.workspace_symbol_async(lsp.WorkspaceSymbolParams("softmax"))
    assert "softmax" in [s.name for s in everywhere or ()]


async def test_semantic_tokens_and_what_changes_in_them(editor: Session) -> None:
    file = await editor.open(NET)
    whole = await editor.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(file.identifier))
    assert whole is not None
    assert len(whole.data) % 5 == 0
    part = await editor.client.text_document_semantic_tokens_range_async(
        lsp.SemanticTokensRangeParams(file.identifier, lsp.Range(lsp.Position(3, 0), lsp.Position(3, 99)))
    )
    assert part is not None
    assert 0 < len(part.data) < len(whole.data)
    await file.edit("x + x", "x * 2.0")
    delta = await editor.client.text_document_semantic_tokens_full_delta_async(
        lsp.SemanticTokensDeltaParams(file.identifier, str(whole.result_id))
    )
    assert isinstance(delta, lsp.SemanticTokensDelta)
    data = list(whole.data)
    for edit in delta.edits:
        data[edit.start : edit.start + edit.delete_count] = edit.data or ()
    again = await editor.client.text_document_semantic_tokens_full_async(lsp.SemanticTokensParams(file.identifier))
    assert again is not None
    assert data == list(again.data)


async def test_formatting(editor: Session) -> None:
    file = await editor.open("fun  f x=x+1.0\n\nfun g   y = y\n")
    options = lsp.FormattingOptions(2, True)
    edits = await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(file.identifier, options))
    assert file.with_edits(edits or ()) == "fun f x = x + 1.0\n\nfun g y = y\n"
    second = lsp.Range(lsp.Position(2, 0), lsp.Position(2, 3))
    edits = await editor.client.text_document_range_formatting_async(
        lsp.DocumentRangeFormattingParams(file.identifier, second, options)
    )
    assert file.with_edits(edits or ()) == "fun  f x=x+1.0\n\nfun g y = y\n"
    await file.edit("x+1.0", "(x+1.0")
    assert not await editor.client.text_document_formatting_async(lsp.DocumentFormattingParams(file.identifier, options))


async def test_folding_and_selection(editor: Session) -> None:
    file = await editor.open(NET)
    folds = await editor.client.text_document_folding_range_async(lsp.FoldingRangeParams(file.identifier))
    assert [(f.start_line, f.end_line) for f in folds or ()] == [(5, 7)]
    found = await editor.client.text_document_selection_range_async(
        lsp.SelectionRangeParams(file.identifier, [file.position("hidden)")])
    )
    assert found
    sizes = []
    step: lsp.SelectionRange | None = found[0]
    while step is not None:
        sizes.append(editor.text(step.range, NET))
        step = step.parent
    assert sizes[0] == "hidden"
    assert sizes[-1] == NET


async def test_an_edit_of_an_import_shows_in_its_users(editor: Session) -> None:
    base = await editor.open("fun f x = x + 1.0\n", "base.axon")
    user = await editor.open("import base\nfun g (m : f32[n]) = base.f m\n", "user.axon")
    await user.shows()
    await base.edit("x + 1.0", "for i => x[i, 0]")
    await user.shows("AX0203")
    await base.close()
    await user.shows("AX0402")


async def test_columns_count_utf16_units(editor: Session) -> None:
    text = "(* 🙂🙂 *) fun f x = yy\n"
    file = await editor.open(text)
    (found,) = await file.shows("AX0401")
    assert (found.range.start.character, found.range.end.character) == (21, 23)
    hovered = await editor.client.text_document_hover_async(lsp.HoverParams(file.identifier, lsp.Position(0, 17)))
    assert hovered is not None
    assert hovered.range == lsp.Range(lsp.Position(0, 17), lsp.Position(0, 18))
    await file.replace(lsp.Range(lsp.Position(0, 21), lsp.Position(0, 23)), "x")
    await file.shows()


async def test_late_changes_are_dropped(editor: Session) -> None:
    file = await editor.open("fun f x = x\n")
    await file.change("fun f x = y\n")
    await file.shows("AX0401")
    whole = lsp.TextDocumentContentChangeWholeDocument("fun f x = x\n")
    for version in (-1, 0, 1, file.version):
        stale = lsp.VersionedTextDocumentIdentifier(version, file.uri)
        editor.client.text_document_did_change(lsp.DidChangeTextDocumentParams(stale, [whole]))
    symbols = await editor.client.text_document_document_symbol_async(lsp.DocumentSymbolParams(file.identifier))
    assert symbols
    assert [d.code for d in editor.client.diagnostics[file.uri]] == ["AX0401"]


async def test_questions_about_nothing(editor: Session) -> None:
    nowhere = lsp.TextDocumentIdentifier("file:///no/such/file.axon")
    far = lsp.Position(10_000, 10_000)
    assert await editor.client.text_document_hover_async(lsp.HoverParams(nowhere, far)) is None
    file = await editor.open("")
    await file.shows()
    assert await editor.client.text_document_hover_async(lsp.HoverParams(file.identifier, far)) is None
    assert not await editor.client.text_document_definition_async(lsp.DefinitionParams(file.identifier, far))
    found = await editor.client.text_document_completion_async(lsp.CompletionParams(file.identifier, far))
    assert isinstance(found, lsp.CompletionList)
    assert {"fun", "val"} <= {i.label for i in found.items}
    untitled = await editor.open("import nn\nfun f x = nn.relu x\n", uri="untitled:Untitled-1")
    await untitled.shows()


async def test_edits_that_come_faster_than_checks(editor: Session) -> None:
    """Every keystroke of a word is sent at once; what is shown at the end is about the end."""
    file = await editor.open("fun f x = \n")
    for character in "exp x + yy":
        await file.insert(lsp.Position(0, len(file.content) - 1), character)
    assert file.content == "fun f x = exp x + yy\n"
    assert [editor.text(d.range, file.content) for d in await file.shows("AX0401")] == ["yy"]


async def test_nothing_went_wrong_meanwhile(editor: Session) -> None:
    assert not [m.message for m in editor.client.log_messages if m.type == lsp.MessageType.Error]
    assert not editor.client.messages
