"""How long after an edit an editor sees its diagnostics, in a file of a thousand lines.

python benchmarks/lsp.py [EDITS]       (`make bench` also keeps what it prints under benchmarks/results)

A server is started as an editor starts it. Edits of several kinds are made at random places, one at a time, each undone by the
next; the time runs from the moment an edit is written to the server until diagnostics for that version have been read. Where an
edit changes a type that the rest of the file uses, those of the edited declaration come first. Processor time is the server's own,
which other work on the machine hardly lengthens. The exit code is 1 when a target is missed.
"""

from __future__ import annotations

import json
import os
import platform
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import IO, Any, NamedTuple

from check import ROOT, generated

LINES = 1000
EDITS = 400
MEDIAN_TARGET, P99_TARGET = 0.060, 0.200  # seconds by the clock
URI = "file:///tmp/generated.axon"


class Server:
    """A server with one document open."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "axon", "lsp"]
        self.process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.input: IO[bytes] = self.process.stdin
        self.output: IO[bytes] = self.process.stdout
        self.version = 0
        self.say("initialize", {"processId": None, "rootUri": None, "capabilities": {}}, 1)
        self.hear(lambda m: m.get("id") == 1)
        self.say("initialized", {})

    def say(self, method: str, params: object, identity: int | None = None) -> None:
        message = {"jsonrpc": "2.0", "method": method, "params": params} | ({"id": identity} if identity is not None else {})
        body = json.dumps(message).encode()
        self.input.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.input.flush()

    def hear(self, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        while True:
            length = 0
            while (line := self.output.readline()) != b"\r\n":
                name, _, value = line.partition(b":")
                length = int(value) if name.lower() == b"content-length" else length
            message: dict[str, Any] = json.loads(self.output.read(length))
            if wanted(message):
                return message

    def published(self) -> list[dict[str, Any]]:
        """The diagnostics of the version that was sent last."""
        found = self.hear(lambda m: m.get("method") == "textDocument/publishDiagnostics" and m["params"]["version"] == self.version)
        return found["params"]["diagnostics"]

    def open(self, text: str) -> list[dict[str, Any]]:
        self.version = 1
        document = {"uri": URI, "languageId": "axon", "version": 1, "text": text}
        self.say("textDocument/didOpen", {"textDocument": document})
        return self.published()

    def replace(self, line: int, start: int, end: int, text: str) -> list[dict[str, Any]]:
        self.version += 1
        where = {"start": {"line": line, "character": start}, "end": {"line": line, "character": end}}
        change = {"textDocument": {"uri": URI, "version": self.version}, "contentChanges": [{"range": where, "text": text}]}
        self.say("textDocument/didChange", change)
        return self.published()

    def settle(self) -> None:
        """Wait until everything that the last edit reaches has been checked: a question is answered no sooner."""
        where = {"textDocument": {"uri": URI}, "position": {"line": 0, "character": 0}}
        self.say("textDocument/hover", where, 3)
        self.hear(lambda m: m.get("id") == 3)

    def cpu(self) -> float:
        """Seconds of processor time so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def leave(self) -> None:
        self.say("shutdown", None, 2)
        self.hear(lambda m: m.get("id") == 2)
        self.say("exit", None)
        self.process.wait(10)


class Edit(NamedTuple):
    """What somebody does to a line, as (start, end, text), and whether an error must come of it."""

    name: str
    make: Callable[[str], tuple[int, int, str]]
    wrong: bool | None  # None: it depends on what comes below


def _at_end(text: str) -> Callable[[str], tuple[int, int, str]]:
    return lambda line: (len(line), len(line), text)


def _after_equals(text: str) -> Callable[[str], tuple[int, int, str]]:
    return lambda line: (line.rindex("= ") + 2, line.rindex("= ") + 2, text)


EDITS_MADE = [
    Edit("types a space", _at_end(" "), False),
    Edit("begins an expression", _at_end(" +"), True),
    Edit("opens a bracket", _after_equals("("), True),
    Edit("misspells a name", _at_end(" + nowhere"), True),
    Edit("changes a type for all below", lambda line: (0, 0, ""), None),
    Edit("adds a line", lambda line: (0, 0, "fun another x = x + 1.0\n"), False),
]


def main() -> int:
    edits = int(sys.argv[1]) if len(sys.argv) > 1 else EDITS
    rng = random.Random(7)
    text = generated(LINES)
    lines = text.splitlines()
    server = Server()
    began = time.perf_counter()
    assert server.open(text) == []
    opened = time.perf_counter() - began
    clocks: dict[str, list[float]] = {}
    settled: list[float] = []
    cpu = server.cpu()
    for number in range(edits // 2):
        edit = EDITS_MADE[number % len(EDITS_MADE)]
        if edit.name.startswith("changes"):  # the type of a `step`, which every later `step` uses
            row = 8 * rng.randrange(LINES // 8) + 7
            line = lines[row]
            start, end, new = line.index(" x ") + 1, line.index(" x ") + 2, "(x : f32[n])"
        else:
            row = rng.randrange(LINES)
            line = lines[row] if " = " in lines[row] else lines[0]
            start, end, new = edit.make(line)
            row = row if line is lines[row] else 0
        before = time.perf_counter()
        found = server.replace(row, start, end, new)
        clocks.setdefault(edit.name, []).append(time.perf_counter() - before)
        if edit.name.startswith("changes"):
            server.settle()
            settled.append(time.perf_counter() - before)
        assert edit.wrong is None or bool(found) == edit.wrong, (edit.name, found)
        more = new.count("\n")
        before = time.perf_counter()
        if more:
            server.version += 1
            where = {"start": {"line": row, "character": 0}, "end": {"line": row + more, "character": 0}}
            change = {"textDocument": {"uri": URI, "version": server.version}, "contentChanges": [{"range": where, "text": ""}]}
            server.say("textDocument/didChange", change)
            found = server.published()
        else:
            found = server.replace(row, start, start + len(new), line[start:end])
        clocks.setdefault("and back", []).append(time.perf_counter() - before)
        server.settle()
        assert found == [] or edit.wrong is None, (edit.name, row, found)
    spent = (server.cpu() - cpu) / (edits // 2 * 2)
    server.leave()
    every = sorted(t for times in clocks.values() for t in times)
    median, p99 = statistics.median(every), every[min(len(every) - 1, int(len(every) * 0.99))]
    print(f"from an edit to its diagnostics, milliseconds, {len(text.splitlines())} lines, {len(every)} edits: {date.today()}, "
          f"Python {platform.python_version()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")  # fmt: skip
    print(f"{'':32} {'median':>8} {'99th':>8}")
    for name, times in clocks.items():
        times.sort()
        print(f"{name:32} {1e3 * statistics.median(times):8.1f} {1e3 * times[min(len(times) - 1, int(len(times) * 0.99))]:8.1f}")
    name = "until all below is checked"
    print(f"{name:32} {1e3 * statistics.median(settled):8.1f} {1e3 * max(settled):8.1f}")
    missed = median > MEDIAN_TARGET or p99 > P99_TARGET
    print(f"{'all':32} {1e3 * median:8.1f} {1e3 * p99:8.1f}   targets {1e3 * MEDIAN_TARGET:.0f} and {1e3 * P99_TARGET:.0f}"
          f"{'  missed' if missed else ''}")  # fmt: skip
    print(f"{'processor time of an edit':32} {1e3 * spent:8.1f}")
    print(f"{'opening the file':32} {1e3 * opened:8.1f}")
    return int(missed)


if __name__ == "__main__":
    raise SystemExit(main())
