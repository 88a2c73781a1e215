"""Messages on standard input and output. Whatever comes in, the server goes on: bad headers are skipped, bad bodies answered.

Nothing but messages reaches standard output: what anything else prints goes to standard error.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any, BinaryIO

from pygls.io_ import StdoutWriter
from pygls.protocol import JsonRPCProtocol

MAX_MESSAGE = 64 << 20  # bytes; a source file has at most one MiB
_MAX_HEADER = 4096
_PARSE_ERROR, _INVALID_REQUEST, _INVALID_PARAMS = -32700, -32600, -32602


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
    with ThreadPoolExecutor(1) as reader:
        while True:
            body = await loop.run_in_executor(reader, read_message, source)
            if body is None:
                return
            _handle(protocol, body)


def read_message(source: BinaryIO) -> bytes | None:
    """The body of the next message, b"" for one that is too large to be one; None at the end of the input."""
    length = 0
    while True:
        line = source.readline(_MAX_HEADER)
        if not line:
            return None
        name, colon, value = line.partition(b":")
        if colon and name.strip().lower() == b"content-length" and value.strip().isdigit() and len(value) < 20:
            length = int(value)
        elif not line.strip() and length:
            break
    if length <= MAX_MESSAGE:
        body = source.read(length)
        return body if len(body) == length else None
    while length > 0:
        piece = source.read(min(length, 1 << 20))
        if not piece:
            return None
        length -= len(piece)
    return b""


def _handle(protocol: JsonRPCProtocol, body: bytes) -> None:
    try:
        plain = json.loads(body)
    except (ValueError, RecursionError):
        _refuse(protocol, None, _PARSE_ERROR, "this is no JSON")
        return
    if not isinstance(plain, dict) or not isinstance(plain.get("method", ""), str):
        _refuse(protocol, None, _INVALID_REQUEST, "a message is one object")
        return
    try:
        unknown = "method" in plain and protocol.get_message_type(plain["method"]) is None
        message = protocol.structure_message({"jsonrpc": "2.0", **({"params": None} if unknown else {}), **plain})
    except Exception:
        if "id" in plain and "method" in plain:
            why = f"`{plain['method']}` does not have the form that the protocol asks for"
            _refuse(protocol, plain["id"], _INVALID_PARAMS, why)
        return
    protocol.handle_message(message)


def _refuse(protocol: JsonRPCProtocol, identity: Any, code: int, why: str) -> None:
    answered = identity if isinstance(identity, int | str) else None
    error = {"jsonrpc": "2.0", "id": answered, "error": {"code": code, "message": why}}
    text = json.dumps(error)
    assert protocol.writer is not None
    protocol.writer.write(f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
