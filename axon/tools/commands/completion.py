"""What shells complete: commands and options, files, the functions of a file behind a colon, the arguments of a function.

`axon completion bash` prints what a shell needs to ask; it then runs `axon` for every Tab, which answers from what argparse knows,
through argcomplete.
"""

from __future__ import annotations

import argparse
import glob
import os
from collections.abc import Iterable

import argcomplete
from argcomplete.shell_integration import shellcode

from axon import compiler
from axon.base.diagnostics import Diagnostic
from axon.base.errors import AxonError
from axon.checker.loader import SUFFIX, FileLoader
from axon.tools.commands.listing import STAGES, declared


def script(shell: str) -> str:
    """What a shell runs at its start, in order to complete."""
    text = shellcode(["axon"], shell=shell)
    return text if text.endswith("\n") else f"{text}\n"


def answer(parser: argparse.ArgumentParser) -> None:
    """Answer a shell, and end the process; returns where no shell asks."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in action.choices.values():
                for inner in command._actions:
                    found = _COMPLETERS.get(inner.metavar if isinstance(inner.metavar, str) else "")
                    if found is not None:
                        inner.completer = found  # where argcomplete looks for it
    argcomplete.autocomplete(parser, always_complete_options=False)


def _programs(prefix: str, **_: object) -> list[str]:
    """Programs and folders that a path begins."""
    return _files(prefix, SUFFIX)


def _files(prefix: str, suffix: str) -> list[str]:
    found = glob.glob(f"{glob.escape(prefix)}*")
    return [f"{path}/" if os.path.isdir(path) else path for path in found if os.path.isdir(path) or path.endswith(suffix)]


def _functions(prefix: str, **_: object) -> list[str]:
    """Programs; behind a colon, the names that one declares."""
    path, colon, name = prefix.rpartition(":")
    if not colon or not os.path.isfile(path):
        return _programs(prefix)
    return [f"{path}:{known}" for known in _declared(path) if known.startswith(name)]


def _declared(path: str) -> list[str]:
    source = FileLoader().read(path)
    if isinstance(source, Diagnostic):
        return []
    return [name for decl in compiler.parse(source)[0].decls for name in declared(decl) if _is_value(decl)]


def _is_value(decl: object) -> bool:
    from axon.grammar.syntax import Fun, Val

    return isinstance(decl, Fun | Val)


def _arguments(prefix: str, parsed_args: argparse.Namespace, **_: object) -> list[str]:
    """The arguments of the function that was named which are not given yet: `x=`."""
    text = getattr(parsed_args, "path", None) or getattr(parsed_args, "code", None) or ""
    path, _colon, name = text.rpartition(":")
    if "=" in prefix or not os.path.isfile(path):
        return []
    from axon.host.call import Session
    from axon.tools.commands.listing import the_function

    try:
        checked = compiler.check(FileLoader(), path)
        callee = the_function(Session(checked), path, name) if checked.ok else None
    except AxonError:
        return []
    if callee is None:
        return []
    given = {argument.partition("=")[0] for argument in getattr(parsed_args, "arguments", None) or ()}
    names = [*callee.dimensions, *(p.name.removeprefix("argument ") for p in callee.parameters)]
    return [f"{name}=" for name in names if name not in given]


def _stages(prefix: str, **_: object) -> Iterable[str]:
    return STAGES


def _codes(prefix: str, **_: object) -> list[str]:
    from axon.base.codes import CODES

    return [*(code for code in CODES if prefix and code.startswith(prefix.upper())), *_functions(prefix)]


def _peers(prefix: str, **_: object) -> list[str]:
    return _files(prefix, ".py")


# By what stands for an argument in the usage.
_COMPLETERS = {
    "PATH": _programs,
    "FILE": _programs,
    "PATH[:NAME]": _functions,
    "CODE|PATH[:NAME]": _codes,
    "NAME=VALUE": _arguments,
    "NAME=SIZES": _arguments,
    "STAGE": _stages,
    "PEER.py[:NAME]": _peers,
}
