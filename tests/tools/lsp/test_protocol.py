"""What no editor should send: the server answers, or goes on as if nothing had been said."""

from __future__ import annotations

import io
import json
import subprocess
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lsprotocol import types as lsp

from axon.tools.lsp.positions import Positions
from axon.tools.lsp.stdio import MAX_MESSAGE, Messages
from tests.tools.lsp.session import COMMAND

INITIALIZE = {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": None, "capabilities": {}}}
TEXT = "fun f x = y\n"
OPEN = {
    "method": "textDocument/didOpen",
    "params": {"textDocument": {"uri": "file:///tmp/f.axon", "languageId": "axon", "version": 1, "text": TEXT}},
}
HOVER = {
    "id": 7,
    "method": "textDocument/hover",
    "params": {"textDocument": {"uri": "file:///tmp/f.axon"}, "position": {"line": 0, "character": 4}},
}
LEAVE: list[Any] = [{"id": 9, "method": "shutdown"}, {"method": "exit"}]


def framed(message: object) -> bytes:
    body = message if isinstance(message, bytes) else json.dumps({"jsonrpc": "2.0", **message}).encode()  # type: ignore[dict-item]
    return b"Content-Length: %d\r\n\r\n%s" % (len(body), body)


def talk(*pieces: object, leave: bool = True) -> tuple[list[dict[str, Any]], subprocess.CompletedProcess[bytes]]:
    """What a server says to these bytes and messages, then to a farewell."""
    sent = b"".join(p if isinstance(p, bytes) else framed(p) for p in [*pieces, *(LEAVE if leave else [])])
    done = subprocess.run(COMMAND, input=sent, capture_output=True, timeout=60, check=False)
    stream = io.BytesIO(done.stdout)
    heard, messages = [], Messages(stream)
    while (body := messages.next()) is not None:
        heard.append(json.loads(body))
    assert stream.tell() == len(done.stdout), "nothing but messages"
    return heard, done


def answer(heard: list[dict[str, Any]], identity: object) -> dict[str, Any]:
    return next(m for m in heard if m.get("id") == identity and "method" not in m)


NOISE = [
    b"Content-Length: abc\r\n\r\n",
    b"Content-Length: -5\r\n\r\n",
    b"Content-Length: 99999999999999999999999\r\n\r\n",
    b"Content-Length 5\r\n\r\n",
    b"\r\n\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: here\r\n\r\n",
    b"X" * 20_000 + b"\r\n",
    b"\xff\xfe\x00\x01\r\n\r\n",
]


def test_bad_headers_are_skipped() -> None:
    asked = [(noise, {**HOVER, "id": 100 + n}) for n, noise in enumerate(NOISE)]
    heard, done = talk(INITIALIZE, OPEN, *(piece for pair in asked for piece in pair))
    for noise, question in asked:
        assert "fun f" in answer(heard, question["id"])["result"]["contents"]["value"], noise
    assert done.returncode == 0
    assert done.stderr == b""


BODIES = [
    (b"{", -32700),
    (b"\xff\xff", -32700),
    (b"[" * 100_000, -32700),
    (b"[1, 2]", -32600),
    (b"5", -32600),
    (b'{"jsonrpc":"2.0","id":3,"method":5}', -32600),
    (b'{"jsonrpc":"2.0","id":3,"method":"textDocument/hover","params":{"position":"there"}}', -32602),
    (b'{"jsonrpc":"2.0","id":[1],"method":"shutdown"}', -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"shutdown"}', -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"axon/dance"}', -32600),
    (b'{"jsonrpc":"2.0","id":NaN,"method":"shutdown"}', -32700),
    (b'{"jsonrpc":"2.0","id":[1],"result":1}', -32600),
    (b'{"jsonrpc":"2.0","id":{"a":1},"error":{"code":1,"message":"x"}}', -32600),
]


def test_bad_bodies_are_answered() -> None:
    heard, done = talk(INITIALIZE, OPEN, *(framed(body) for body, _ in BODIES), HOVER)
    assert [m["error"]["code"] for m in heard if "error" in m] == [code for _, code in BODIES]
    assert answer(heard, 7)["result"]
    assert done.returncode == 0
    assert done.stderr == b""


IGNORED = [
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":[1]}}',
    b'{"jsonrpc":"2.0","method":"$/cancelRequest","params":{"id":{"a":1}}}',
    b'{"jsonrpc":"2.0","method":"$/cancelRequest"}',
    b'{"jsonrpc":"2.0","id":null,"result":1}',
    b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}',
    b'{"jsonrpc":"2.0","id":55,"error":5}',
    b'{"jsonrpc":[],"method":"initialized","params":{}}',
    b'{"jsonrpc":"2.0","method":"textDocument/didOpen","params":[]}',
    b"{}",
]


def test_messages_that_ask_nothing_are_survived() -> None:
    heard, done = talk(INITIALIZE, OPEN, *(framed(body) for body in IGNORED), HOVER)
    assert answer(heard, 7)["result"]
    assert not [m for m in heard if "error" in m]
    assert done.returncode == 0
    assert done.stderr == b""


LIARS = [
    b"Content-Length: 999999999999999\r\n\r\n",
    b"Content-Length: 70000000\r\n\r\n{}",
    b"Content-Length: 60000000\r\n\r\n",
    b'Content-Length: 40\r\n\r\n{"jsonrpc":"2.0"}',
    b'Content-Length: 2\r\n\r\n{"jsonrpc":"2.0"}',
    b'Content-Length: 9\r\nContent-Length: 17\r\nContent-Type: x\r\n\r\n{"jsonrpc":"2.0"}',
]


def test_lengths_that_are_not_true_cost_their_own_message_alone() -> None:
    asked = [(liar, {**HOVER, "id": 100 + n}) for n, liar in enumerate(LIARS)]
    heard, done = talk(INITIALIZE, OPEN, *(piece for pair in asked for piece in pair))
    for liar, question in asked:
        assert "fun f" in answer(heard, question["id"])["result"]["contents"]["value"], liar
    assert done.returncode == 0
    assert done.stderr == b""


@given(st.lists(st.binary(max_size=40).map(lambda body: body.replace(b":", b"")), max_size=6), st.integers(1, 7))
def test_messages_come_through_whatever_pieces_they_come_in(bodies: list[bytes], size: int) -> None:
    class Slow(io.BytesIO):
        def read1(self, _: int | None = -1) -> bytes:
            return self.read(size)

    messages = Messages(Slow(b"".join(framed(body) for body in bodies)))
    assert [messages.next() for _ in bodies if _] == [body for body in bodies if body]
    assert messages.next() is None


def test_unknown_methods() -> None:
    cancel = {"method": "$/cancelRequest", "params": {"id": 77}}
    heard, done = talk(INITIALIZE, {"id": 3, "method": "axon/dance"}, {"method": "axon/dance"}, cancel, OPEN, HOVER)
    assert answer(heard, 3)["error"]["code"] == -32601
    assert answer(heard, 7)["result"]
    assert done.returncode == 0


def test_giant_messages() -> None:
    """A document larger than a file may be gets what `axon check` says of such a file, and no analysis; a message beyond all
    measure is skipped."""
    large = {"uri": "file:///tmp/large.axon", "languageId": "axon", "version": 1, "text": "val a = 1\n" * 500_000}
    opened = {"method": "textDocument/didOpen", "params": {"textDocument": large}}
    importing = {**OPEN["params"]["textDocument"], "text": "import large\n" + TEXT}  # type: ignore[index]
    beside = {"method": "textDocument/didOpen", "params": {"textDocument": importing}}
    below = {**HOVER, "params": {**HOVER["params"], "position": {"line": 1, "character": 4}}}  # type: ignore[dict-item]
    heard, done = talk(INITIALIZE, opened, framed(b" " * (MAX_MESSAGE + 1)), beside, below)
    assert "fun f" in answer(heard, 7)["result"]["contents"]["value"]
    published = {m["params"]["uri"]: m["params"]["diagnostics"] for m in heard if m.get("method", "").endswith("Diagnostics")}
    (said,) = published[large["uri"]]
    assert (said["code"], said["range"]["start"]["line"]) == ("AX0408", 0)
    assert said["message"] == "cannot read `/tmp/large.axon`\nit holds 5,000,000 bytes; a source file may hold 1,048,576"
    assert "AX0408" in [d["code"] for d in published[importing["uri"]]]
    assert done.stderr == b""


@pytest.mark.parametrize("tail", [b"", b"Content-Length: 50\r\n\r\n{"])
def test_an_editor_that_vanishes(tail: bytes) -> None:
    _, done = talk(INITIALIZE, OPEN, tail, leave=False)
    assert done.stderr == b""


def test_exit_without_shutdown() -> None:
    _, done = talk(INITIALIZE, {"method": "exit"}, leave=False)
    assert done.returncode == 1


def test_deep_programs_do_not_stop_the_server() -> None:
    deep = "val x = " + "(" * 50_000 + "1" + ")" * 50_000 + "\n"
    opened = {**OPEN, "params": {"textDocument": {**OPEN["params"]["textDocument"], "text": deep}}}  # type: ignore[index]
    heard, done = talk(INITIALIZE, opened, HOVER)
    assert "result" in answer(heard, 7)
    assert done.returncode == 0
    assert done.stderr == b""


# ── positions ───────────────────────────────────────────────────────────────────────────────────────────────────────────

TEXTS = st.text(st.sampled_from("ab🙂é\n\r\u2028\t\x0c"), max_size=30)


@pytest.mark.parametrize(
    ("offered", "agreed", "codec"),
    [
        (["utf-8", "utf-16"], "utf-8", "utf-8"),
        (["utf-32", "utf-16"], "utf-32", "utf-32-le"),
        (["utf-7", "utf-16"], "utf-16", "utf-16-le"),
        (["utf-7"], "utf-16", "utf-16-le"),
        (None, "utf-16", "utf-16-le"),
    ],
)
def test_columns_are_counted_in_the_encoding_that_was_agreed_on(offered: list[str] | None, agreed: str, codec: str) -> None:
    size = {"utf-8": 1, "utf-16-le": 2, "utf-32-le": 4}[codec]

    def column(text: str, piece: str) -> int:
        return len(text[: text.index(piece)].encode(codec)) // size

    def hovered(text: str, identity: int) -> dict[str, Any]:
        return {**HOVER, "id": identity, "params": {**HOVER["params"], "position": place(text, "piece")}}  # type: ignore[dict-item]

    def place(text: str, piece: str) -> dict[str, int]:
        return {"line": 0, "character": column(text, piece)}

    before = "(* 😀é→ *) fun f x = (* 😀 *) for piece => x[piece] (* é *) + 1.0\n"
    after = before.replace("1.0", "2.0 * 3.0").replace("(* 😀 *)", "(* 😀😀 *)")
    capabilities = {} if offered is None else {"general": {"positionEncodings": offered}}
    document = {"uri": "file:///tmp/f.axon", "version": 2}
    change = {"textDocument": document, "contentChanges": [
        {"range": {"start": place(before, "1.0"), "end": place(before, "\n")}, "text": "2.0 * 3.0"},
        {"range": {"start": place(before, " *) for"), "end": place(before, " *) for")}, "text": "😀"},
    ]}  # fmt: skip
    opened = {**OPEN, "params": {"textDocument": {**OPEN["params"]["textDocument"], "text": before}}}  # type: ignore[dict-item]
    heard, _ = talk(
        {**INITIALIZE, "params": {**INITIALIZE["params"], "capabilities": capabilities}},  # type: ignore[dict-item]
        opened, hovered(before, 20), {"method": "textDocument/didChange", "params": change}, hovered(after, 21),
    )  # fmt: skip
    assert answer(heard, 1)["result"]["capabilities"]["positionEncoding"] == agreed
    for text, identity in ((before, 20), (after, 21)):
        found = answer(heard, identity)["result"]
        assert "piece : i32" in found["contents"]["value"]
        assert found["range"] == {"start": place(text, "piece"), "end": place(text, " => x")}


@given(TEXTS, st.sampled_from(["utf-8", "utf-16", "utf-32"]))
def test_offsets_and_positions_are_inverse(text: str, encoding: str) -> None:
    positions = Positions(text, encoding)
    for offset in range(len(text) + 1):
        inside = text[offset - 1 : offset + 1] == "\r\n"  # between the two there is no position
        at = positions.offset(positions.position(offset))
        assert at == offset or inside or text[at:offset] in ("\r", "\n")


@given(TEXTS, TEXTS, st.data())
def test_changes_are_applied_as_an_editor_means_them(text: str, new: str, data: st.DataObject) -> None:
    """Against a model that counts UTF-16 code units in the encoded text."""
    positions = Positions(text)
    a, b = sorted(data.draw(st.tuples(st.integers(0, len(text)), st.integers(0, len(text)))))
    where = lsp.Range(positions.position(a), positions.position(b))
    a, b = positions.offset(where.start), positions.offset(where.end)
    assert positions.change(lsp.TextDocumentContentChangePartial(where, new)) == text[:a] + new + text[b:]


@given(TEXTS, st.integers(0, 40), st.integers(0, 40))
def test_positions_outside_are_moved_inside(text: str, line: int, character: int) -> None:
    assert 0 <= Positions(text).offset(lsp.Position(line, character)) <= len(text)
