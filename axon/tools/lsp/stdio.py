"""Messages on standard input and output. Whatever comes in, the server goes on: bad headers are skipped, bad bodies answered.

Nothing but messages reaches standard output: what anything else prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from pygls.io_ import StdoutWriter
from pygls.protocol import JsonRPCProtocol

MAX_MESSAGE = 64 << 20  # bytes; a source file has at most one MiB
_PIECE = 1 << 20
_LENGTH = re.compile(rb"Content-Length[ \t]*:[ \t]*(\d{1,18})[ \t]*\r?\n", re.IGNORECASE)
_LONGEST = 256  # bytes that the line of a length may have
_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS, _INTERNAL_ERROR = -32700, -32600, -32602, -32603


def private_streams() -> tuple[BinaryIO, BinaryIO]:
    """Standard input and output for messages alone; `print` writes to standard error from here on."""
    source, target = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    sys.stdout = sys.stderr
    return os.fdopen(source, "rb"), os.fdopen(target, "wb")


async def serve(protocol: JsonRPCProtocol, source: BinaryIO, target: BinaryIO) -> None:
    """Handle messages until the input ends or the protocol is told to exit."""
    writer = StdoutWriter(target)
    protocol.set_writer(writer)
    loop = asyncio.get_running_loop()
    messages = Messages(source)
    with ThreadPoolExecutor(1) as reader:
        while True:
            body = await loop.run_in_executor(reader, messages.next)
            if body is None:
                return
            _handle(protocol, body)


class Messages:
    """The bodies of the messages that come in.

    A header that is wrong is skipped. A body that is shorter than its header says would swallow those after it; but JSON cannot
    hold the line of a header, since its strings hold no line ends: so where one stands inside a body, that body ends.
    """

    def __init__(self, source: BinaryIO) -> None:
        self._source = source
        self._read = bytearray()

    def next(self) -> bytes | None:
        """The body of the next message, b"" for one that is too large to be one; None at the end of the input."""
        length = 0
        while length == 0:
            found = self._header()
            if found is None:
                return None
            length = found
        return self._body(length)

    def _more(self) -> bool:
        """Read on; whether there was something."""
        piece: bytes = self._source.read1(_PIECE)  # type: ignore[attr-defined]
        self._read += piece
        return bool(piece)

    def _header(self) -> int | None:
        """The length that the next header says."""
        while (found := _LENGTH.search(self._read)) is None:
            del self._read[:-_LONGEST]
            if not self._more():
                return None
        length = int(found[1])
        del self._read[: found.end()]
        while True:  # its other lines, up to an empty one
            while (end := self._read.find(b"\n")) < 0:
                del self._read[:-_PIECE]  # of a line that is none
                if not self._more():
                    return None
            line = bytes(self._read[: end + 1])
            del self._read[: end + 1]
            if not line.strip():
                return length
            if (again := _LENGTH.search(line)) is not None:
                length = int(again[1])

    def _body(self, length: int) -> bytes | None:
        left, seen = length, 0
        while True:
            header = _LENGTH.search(self._read, max(seen - _LONGEST, 0), left + _LONGEST)
            if header is not None and header.start() < left:
                left = header.start()
            if len(self._read) >= left:
                body = bytes(self._read[:left]) if length <= MAX_MESSAGE else b""
                del self._read[:left]
                return body
            if length > MAX_MESSAGE and len(self._read) > _PIECE:
                left -= len(self._read) - _LONGEST
                del self._read[:-_LONGEST]
            seen = len(self._read)
            if not self._more():
                return None


def _handle(protocol: JsonRPCProtocol, body: bytes) -> None:
    try:
        plain = json.loads(body, parse_constant=_no_json)
    except (ValueError, RecursionError):
        _refuse(protocol, None, _PARSE_ERROR, "this is no JSON")
        return
    if not isinstance(plain, dict) or not isinstance(plain.get("method", ""), str):
        _refuse(protocol, None, _INVALID_REQUEST, "a message is one object")
        return
    if not _is_identity(plain.get("id")):
        _refuse(protocol, None, _INVALID_REQUEST, "an `id` is an integer or a string")
        return
    try:
        unknown = "method" in plain and protocol.get_message_type(plain["method"]) is None
        message = protocol.structure_message({"jsonrpc": "2.0", **({"params": None} if unknown else {}), **plain})
    except Exception:
        if "id" in plain and "method" in plain:
            why = f"`{plain['method']}` does not have the form that the protocol asks for"
            _refuse(protocol, plain["id"], _INVALID_PARAMS, why)
        return
    try:
        protocol.handle_message(message)
    except BrokenPipeError:  # there is nobody left to answer
        raise
    except Exception as error:
        if "id" in plain and "method" in plain:
            _refuse(protocol, plain["id"], _INTERNAL_ERROR, f"{type(error).__name__}: {error}")


def _no_json(constant: str) -> Any:
    """What Python alone reads as a number: NaN and the infinities."""
    raise ValueError(constant)


def _is_identity(value: object) -> bool:
    return value is None or (isinstance(value, int | str) and not isinstance(value, bool))


def _refuse(protocol: JsonRPCProtocol, identity: int | str | None, code: int, why: str) -> None:
    error = {"jsonrpc": "2.0", "id": identity, "error": {"code": code, "message": why}}
    text = json.dumps(error)
    assert protocol.writer is not None
    protocol.writer.write(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
