"""`axon repl`: the prompt. It reads, hands what it read to `interactive` and `commands`, and prints; with a terminal through
prompt_toolkit, otherwise line by line, so that a script can be piped into it."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

from axon import __version__, compiler
from axon.base import extras, interrupt, render
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.tools.prompt import commands
from axon.tools.prompt.computing import Computing
from axon.tools.prompt.interactive import Defined, Evaluated, Interactive

if TYPE_CHECKING:
    from axon.tools.prompt.terminal import Terminal


def main(paths: Sequence[str]) -> int:
    """Load files and read until the end. The exit status is 1 if something that was piped in was wrong."""
    process = Computing()
    process.start()
    try:
        return _read_all(Reader(Interactive(process)), paths)
    finally:
        process.stop()


def _read_all(reader: Reader, paths: Sequence[str]) -> int:
    if not sys.stdin.isatty():
        for path in paths:
            reader.load(path)
        for text in _piped(sys.stdin):
            if not reader.enter(text):
                break
        return int(reader.failed)
    extras.require("prompt_toolkit", "repl", "`axon repl`")
    from axon.tools.prompt.terminal import Terminal

    print(f"Axon {__version__}. :help lists the commands, Ctrl-D leaves.")
    for path in paths:
        reader.load(path)
    terminal = Terminal(lambda: reader.module)
    while (entered := _read(terminal)) is not None and reader.enter(entered):
        pass
    return 0


def _read(terminal: Terminal) -> str | None:
    """What is entered next; None at the end."""
    while True:
        try:
            return terminal.read()
        except KeyboardInterrupt:  # gives up what was typed
            continue
        except EOFError:
            return None


_DECLARES = re.compile(r"(fun|val|type|sig)\s+(\w+)")


def _piped(lines: Iterable[str]) -> Iterator[str]:
    """A stream's entries, as soon as the line after each shows that it has ended. Declarations that follow each other are one,
    up to one of a name that has been declared in it, which replaces the other as it does where entries are typed."""
    text = ""
    names: set[tuple[str, str]] = set()
    for line in lines:
        declares = _DECLARES.match(line)
        name = (declares[1].replace("fun", "val"), declares[2]) if declares is not None else None
        if text.strip() and line[:1].strip():
            parts = compiler.entries(SourceFile("<input>", text + line))
            if len(parts) > 1 or (parts and commands.is_command(line)) or commands.is_command(text) or name in names:
                last = parts[-1].text
                begin = min(len(last) - len(last.lstrip()), len(text)) if len(parts) > 1 else len(text)
                yield text[:begin]
                text = text[begin:]  # the comments before what comes now
                names.clear()
        if name is not None:
            names.add(name)
        text += line
    if text.strip():
        yield text


class Reader:
    """Enters texts and prints what becomes of them."""

    def __init__(self, module: Interactive) -> None:
        self.module = module
        self.failed = False
        self._numbers = count(1)

    def load(self, path: str) -> None:
        self._guarded(lambda: self._show(self.module.load(path)))

    def enter(self, text: str) -> bool:
        """Carry out what was typed; False if that was to leave."""
        if not text.strip():
            return True
        source = SourceFile(f"<input {next(self._numbers)}>", text)
        return self._guarded(lambda: self._enter(source))

    def _enter(self, source: SourceFile) -> None:
        if commands.is_command(source.text):
            said = commands.run(self.module, source)
            self._show(said) if isinstance(said, Defined) else print(_coloured(_fitted(source.text, said)))
            return
        for part in compiler.entries(source):
            self._show(self.module.enter(part))

    def _guarded(self, action: Callable[[], None]) -> bool:
        """Whatever goes wrong is printed, and nothing is lost; False if the reading ends here."""
        try:
            with interrupt.interruptible():
                action()
        except AxonError as error:
            self.failed = True
            render.write(error.diagnostics, sys.stdout)
        except KeyboardInterrupt:
            self.failed = True
            print("interrupted; nothing was changed")
        except commands.Leave:
            return False
        except Exception as error:
            if os.environ.get("AXON_DEBUG"):
                raise
            self.failed = True
            render.write([compiler.internal_error(error, "carrying out what was entered")], sys.stdout)
        sys.stdout.flush()
        return True

    def _show(self, answer: Defined | Evaluated) -> None:
        render.write(answer.warnings, sys.stdout)
        if isinstance(answer, Evaluated):
            print(_coloured(shown(answer)))
            return
        if answer.lines:
            print(_coloured("\n".join(answer.lines)))
        for note in answer.notes:
            print(note)
        if answer.broken:
            print("What was declared before no longer fits, and cannot be used until it does:\n")
            render.write(answer.broken, sys.stdout)


def shown(answer: Evaluated) -> str:
    """A value with its type; of a function, its type."""
    from axon.host.show_value import show

    return show(answer.value) if answer.is_value else f"fn : {answer.type}"


def _fitted(text: str, said: str) -> str:
    return commands.fitted(text, said, shutil.get_terminal_size().columns) if sys.stdout.isatty() else said


def _coloured(text: str) -> str:
    if not sys.stdout.isatty() or os.environ.get("NO_COLOR"):
        return text
    from axon.tools.prompt.terminal import coloured

    return coloured(text)
