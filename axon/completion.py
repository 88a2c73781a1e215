"""What can stand where someone is typing in a prompt or a notebook."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from axon import builtins
from axon.commands import COMMANDS, is_command
from axon.element import Element
from axon.interactive import Interactive
from axon.listing import STAGES
from axon.loader import SUFFIX, library_modules

_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
_DOTTED = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)\.([A-Za-z0-9_]*)$")
_KEYWORDS = (
    *(
        "val",
        "fun",
        "type",
        "sig",
        "import",
        "let",
        "in",
        "end",
        "fn",
        "if",
        "then",
        "else",
        "for",
        "where",
        "loop",
        "unfold",
        "cast",
    ),
    *("andalso", "orelse", "not"),
)


@dataclass(frozen=True, slots=True)
class Completion:
    """Text that may replace what stands before the cursor from an offset on, and what it is."""

    start: int
    text: str
    about: str


def completions(module: Interactive, before: str) -> list[Completion]:
    """For the text before the cursor, by name."""
    command, space, rest = before.lstrip().partition(" ")
    if is_command(before) and not space:
        return _starting(command, [(name, c.help) for name, c in COMMANDS.items()], len(before) - len(command))
    if is_command(before):
        takes = next((c.takes for name, c in COMMANDS.items() if name.startswith(command.rstrip("!"))), "")
        if takes == "file":
            return _files(rest.lstrip(), len(before))
        if takes == "stage" and " " not in rest:
            return _starting(rest, [(s, "stage") for s in STAGES], len(before) - len(rest))
        if takes == "command":
            return _starting(rest, [(name, c.help) for name, c in COMMANDS.items()], len(before) - len(rest))
    if dotted := _DOTTED.search(before):
        return _starting(dotted[2], _members(module, dotted[1]), dotted.start(2))
    word = _WORD.search(before)
    if word is None:
        return []
    if re.search(r"\bimport\s+\w*$", before):
        return _starting(word[0], [(name, "module") for name in _modules()], word.start())
    return _starting(word[0], _names(module, before), word.start())


def _starting(prefix: str, names: Iterable[tuple[str, str]], start: int) -> list[Completion]:
    found = {name: about for name, about in names if name.startswith(prefix)}
    return [Completion(start, name, found[name]) for name in sorted(found)]


def _names(module: Interactive, before: str) -> Iterator[tuple[str, str]]:
    from axon.show_value import type_of

    for name in _KEYWORDS:
        yield name, "keyword"
    for name in (*builtins.NAMES, *builtins.REDUCTIONS, "reduce", "scan"):
        yield name, "builtin"
    for element in Element:
        yield element.value, "element type"
    for name in module.modules:
        yield name, "module"
    for name in set(re.findall(r"[A-Za-z_][A-Za-z0-9_]*(?=\W)", before)):  # parameters and names in the text itself
        yield name, "here"
    for name, signature in module.signatures.items():
        yield name, signature
    for name, value in module.data.items():
        yield name, type_of(value)


def _members(module: Interactive, base: str) -> Iterator[tuple[str, str]]:
    """Of a module, its declarations; of a record among the data, its fields."""
    from axon.show_value import type_of

    if base in module.modules:
        yield from module.modules[base].signatures.items()
    value = module.data.get(base)
    if isinstance(value, dict):
        for name, item in value.items():
            yield name, type_of(item)


def _modules() -> list[str]:
    try:
        beside = [name.removesuffix(SUFFIX) for name in os.listdir(".") if name.endswith(SUFFIX)]
    except OSError:
        beside = []
    return [*beside, *library_modules()]


def _files(path: str, cursor: int) -> list[Completion]:
    """Directories and `.axon` files."""
    folder, name = os.path.split(path)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda e: e.name)
    except OSError:
        return []
    found = [(e.name + ("/" if e.is_dir() else ""), "") for e in entries if e.is_dir() or e.name.endswith(SUFFIX)]
    return _starting(name, [f for f in found if name.startswith(".") or not f[0].startswith(".")], cursor - len(name))
