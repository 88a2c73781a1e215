"""What can stand where someone is typing in a prompt or a notebook: what an editor would offer there, and commands."""

from __future__ import annotations

import os
from collections.abc import Iterable
from threading import Lock

from axon import compiler
from axon.base.data import dataclass, field
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.checker.loader import SUFFIX
from axon.tools.commands.listing import STAGES
from axon.tools.editor.complete import Item, complete
from axon.tools.editor.repair import partial
from axon.tools.editor.workspace import Workspace
from axon.tools.prompt.commands import COMMANDS, is_command
from axon.tools.prompt.interactive import Interactive

_TYPED = "typed__"  # the function around an expression, whose parameters are the data
_ASKING = (".", "[", "'", "import")  # what is completed before a name has begun


@dataclass(frozen=True, slots=True)
class Completion:
    """Text that may replace what stands before the cursor from an offset on, and what it is."""

    start: int
    text: str
    about: str


@dataclass
class Completer:
    """Completes texts; what it has checked once is not checked again for the next."""

    _workspace: Workspace = field(default_factory=lambda: Workspace(compiler.guarded))
    _lock: Lock = field(default_factory=Lock)  # a prompt completes in threads

    def __call__(self, module: Interactive, before: str) -> list[Completion]:
        """For the text before the cursor, the likeliest first."""
        command, space, rest = before.lstrip().partition(" ")
        if not is_command(before):
            return self._names(module, before, len(before))
        if not space:
            return _starting(command, [(name, c.help) for name, c in COMMANDS.items()], len(before) - len(command))
        takes = next((c.takes for name, c in COMMANDS.items() if name.startswith(command.rstrip("!"))), "")
        if takes == "file":
            return _files(rest.lstrip(), len(before))
        if takes == "stage" and " " not in rest:
            return _starting(rest, [(s, "stage") for s in STAGES], len(before) - len(rest))
        if takes == "command":
            return _starting(rest, [(name, c.help) for name, c in COMMANDS.items()], len(before) - len(rest))
        return self._names(module, rest.partition(" ")[2] if takes == "stage" else rest, len(before))

    def _names(self, module: Interactive, before: str, cursor: int) -> list[Completion]:
        word = partial(before)
        if not word and not before.rstrip(" ").endswith(_ASKING):
            return []
        path = os.path.abspath(module.session.assembly.path)
        text = f"{module.text}\n{_in_module(module, before)}"
        try:
            with self._lock:
                self._workspace.open(path, text + "\n")
                analysis = self._workspace.analysis(path)
                found = complete(self._workspace, analysis, len(text)) if analysis is not None else []
        except AxonError:  # more than can be looked at while somebody waits
            return []
        fits = (item for item in found if item.label.startswith(word) and item.label != _TYPED)
        return [Completion(cursor - len(word), i.label, _about(i)) for i in sorted(fits, key=lambda i: (i.rank, i.label))]


def _in_module(module: Interactive, before: str) -> str:
    """What is typed as the last declaration of a module: expressions in a function that takes the data."""
    from axon.host.show_value import type_of

    parts = compiler.entries(SourceFile("<input>", before))
    if not parts or compiler.entry(parts[-1]).kind != "expression":
        return before
    declared = [p.text for p in parts[:-1] if compiler.entry(p).kind != "expression"]
    parameters = " ".join(f"({name} : {type_of(value)})" for name, value in module.data.items()) or "()"
    return "\n".join([*declared, f"fun {_TYPED} {parameters} =", "  " + parts[-1].text.replace("\n", "\n  ")])


def _about(item: Item) -> str:
    return item.detail or ("keyword" if item.kind is None else item.kind.value)


def _starting(prefix: str, names: Iterable[tuple[str, str]], start: int) -> list[Completion]:
    found = {name: about for name, about in names if name.startswith(prefix)}
    return [Completion(start, name, found[name]) for name in sorted(found)]


def _files(path: str, cursor: int) -> list[Completion]:
    """Directories and `.axon` files."""
    folder, name = os.path.split(path)
    try:
        entries = sorted(os.scandir(os.path.expanduser(folder) or "."), key=lambda e: e.name)
    except OSError:
        return []
    found = [(e.name + ("/" if e.is_dir() else ""), "") for e in entries if e.is_dir() or e.name.endswith(SUFFIX)]
    return _starting(name, [f for f in found if name.startswith(".") or not f[0].startswith(".")], cursor - len(name))
