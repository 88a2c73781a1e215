"""The prompt's commands, such as `:type softmax x`: each takes an interactive module and the text after its name, and gives text.

They know nothing of terminals, except that some have narrow lines. What is wrong is an AxonError.
"""

from __future__ import annotations

import os
import re
import shlex
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING

from axon import compiler
from axon.base.data import dataclass, replace
from axon.base.diagnostics import Diagnostic, Suggestion, counted
from axon.base.errors import AxonError
from axon.base.nearest import meant
from axon.base.output import write_text
from axon.base.source import SourceFile
from axon.host.call import Session
from axon.tools.commands import listing
from axon.tools.prompt.interactive import Defined, Expression, Interactive
from axon.types import builtins

if TYPE_CHECKING:
    from axon.core import ir as core

MARK = ":"
TIMED_SECONDS = 1.0  # of runs that `:time` adds to the first
TIMED_RUNS = 1_000
_CODE = re.compile(r"ax[0-9]+", re.IGNORECASE)


class Leave(Exception):
    """`:quit`."""


@dataclass(frozen=True, slots=True)
class Command:
    usage: str
    help: str
    run: Callable[[Interactive, SourceFile, int], str | Defined]  # the text after the command's name begins at this offset
    takes: str = ""  # what to complete: expression, name, file, stage, command
    is_prose: bool = False  # what it says may be broken into lines of any width


def is_command(text: str) -> bool:
    return text.lstrip().startswith(MARK)


def run(module: Interactive, source: SourceFile) -> str | Defined:
    """Run a command; what it says, as text or as what became of declarations. Raises AxonError, and Leave."""
    start = source.text.index(MARK)
    name = source.text[start:].split(maxsplit=1)[0].rstrip("!")
    found = command_of(name)
    rest = _rest(source, start + len(name))
    if " " not in found.usage and rest:
        raise AxonError((Diagnostic("AX0510", f"nothing follows `{found.usage}`, and here is `{rest}`"),))
    return found.run(module, source, start + len(name))


def fitted(text: str, said: str, columns: int) -> str:
    """What a command said, in lines that are no wider, if they are prose: cut between words, and indented as they begin."""
    name = text.split(maxsplit=1)[0].rstrip("!")
    return "\n".join(_wrapped(line, columns) for line in said.split("\n")) if command_of(name).is_prose else said


def _wrapped(line: str, columns: int) -> str:
    if len(line) <= columns:
        return line
    lead = re.match(r"(?:\S+ )*\S+ {2,}|[ *-]*", line)  # of a table its first column
    indent = " " * (len(lead[0]) if lead is not None and len(lead[0]) < columns / 2 else 4)
    return textwrap.fill(line, columns, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def command_of(name: str) -> Command:
    """The command of a name, or of the one name that begins so."""
    fits = [c for c in COMMANDS if c.startswith(name)] if len(name) > 1 else []
    if name in COMMANDS or len(fits) == 1:
        return COMMANDS[name if name in COMMANDS else fits[0]]
    help = meant(name, COMMANDS) or (Suggestion("`:help` lists them"),)
    message = f"`{name}` could be {' or '.join(f'`{f}`' for f in fits)}" if fits else f"there is no command `{name}`"
    raise AxonError((Diagnostic("AX0510", message, suggestions=help),))


def _rest(source: SourceFile, start: int) -> str:
    return source.text[start:].strip()


def _needs(command: str, text: str) -> None:
    if not text:
        raise AxonError(
            (Diagnostic("AX0510", f"`{command}` is not complete", notes=(f"it is written `{COMMANDS[command].usage}`",)),)
        )


def _blanked(source: SourceFile, start: int) -> SourceFile:
    """The text after a command's name, at the place where it was written."""
    return SourceFile(source.path, " " * start + source.text[start:])


# ── what they do ────────────────────────────────────────────────────────────────────────────────────────────────────────


def _type(module: Interactive, source: SourceFile, start: int) -> str:
    text = _rest(source, start)
    _needs(":type", text)
    return f"{text} : {module.expression(source, start).type}"


def _shapes(module: Interactive, source: SourceFile, start: int) -> str:
    name = _rest(source, start)
    _needs(":shapes", name)
    if name in module.types and name not in module.signatures:
        return module.types[name]
    found = _declared(module, name)
    if found is not None and found[0] is not module.session:
        return listing.types_of(found[0].checked, found[1])
    listing.require_name(module.session.checked, None, name)
    return module.shapes(name)


def _load(module: Interactive, source: SourceFile, start: int) -> Defined:
    path = _rest(source, start)
    _needs(":load", path)
    return module.load(os.path.expanduser(path))


def _reload(module: Interactive, source: SourceFile, start: int) -> Defined:
    if not module.files:
        raise AxonError((Diagnostic("AX0510", "nothing was loaded", notes=(f"it is written `{COMMANDS[':load'].usage}`",)),))
    return module.reload()


def _time(module: Interactive, source: SourceFile, start: int) -> str:
    _needs(":time", _rest(source, start))
    began = perf_counter()
    expression = module.expression(source, start)
    checked = perf_counter()
    if not expression.is_value:
        raise AxonError((Diagnostic("AX0510", "a function takes no time until it is called", notes=(expression.type,)),))
    first, runs = _timed(expression.timed)
    best, middle = min(runs), sorted(runs)[len(runs) // 2]
    lines = [
        f"checking    {_seconds(checked - began)}",
        f"first run   {_seconds(first)}, which makes it ready for these element types and ranks",
        f"each run    {_seconds(middle)} in the middle of {counted(len(runs), 'run')}, {_seconds(best)} at best",
    ]
    return "\n".join(lines)


def _timed(run: Callable[[], float]) -> tuple[float, list[float]]:
    """The seconds of a first run and of others."""
    first, began = run(), perf_counter()
    runs: list[float] = []
    while len(runs) < TIMED_RUNS and perf_counter() - began < TIMED_SECONDS:
        runs.append(run())
    return first, runs


def _seconds(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e6:.3g} µs"


def _emit(module: Interactive, source: SourceFile, start: int) -> str:
    stage, _, rest = _rest(source, start).partition(" ")
    _needs(":emit", stage)
    listing.require_stage(stage)
    _needs(":emit", rest.strip())
    words = _words(rest)
    session = module.session
    if (found := _declared(module, words[0])) is not None and all("=" in word for word in words[1:]):
        owner, name = found
        with session.assembly.moving():
            match stage:
                case "ast":
                    return listing.syntax_of(owner.checked.source, name)
                case "types":
                    return module.shapes(name) if owner is session else listing.types_of(owner.checked, name)
                case _:
                    return listing.stage_of(owner, owner.callee(name), stage, words[1:])
    after = source.text.index(stage, start) + len(stage)
    if stage == "ast":
        tree, problems = compiler.parse_expression(_blanked(source, after))
        if tree is None:
            raise AxonError(problems)
        from axon.grammar.dump import outline

        return outline(tree)
    expression = module.expression(source, after)
    if stage == "types":
        return f"{rest.strip()} : {expression.type}"
    return _of_expression(expression, stage)


def _of_expression(expression: Expression, stage: str) -> str:
    session, callee = expression.session, expression.callee
    with session.assembly.moving():
        if not expression.is_value and stage == "explain":
            return listing.of_kernels(session, callee, (), compiler.explain)
        if not expression.is_value:
            return listing.stage_of(session, callee, stage, ())
        given = {p.name: value for p, value in zip(callee.parameters, expression.arguments, strict=True)}
        if stage == "core":
            from axon.core.printer import print_program

            return print_program(_without_units(session.program(callee, (), given))).rstrip()
        program, sizes = session.example(callee, (), given)
        program = _without_units(program)
        made = compiler.explain(program, sizes) if stage == "explain" else compiler.emit(program, stage, sizes)
        return made.rstrip()


def _without_units(program: core.Program) -> core.Program:
    """Without parameters that hold nothing: an expression that uses no data has only the `()` that was put there."""
    from axon.core.ir import TupleOf

    return replace(program, params=tuple(p for p in program.params if p.structure != TupleOf(())))


def _explain(module: Interactive, source: SourceFile, start: int) -> str:
    text = _rest(source, start)
    _needs(":explain", text)
    words = _words(text)
    session = module.session
    found = _declared(module, words[0])
    if found is None or not all("=" in word for word in words[1:]):
        if _CODE.fullmatch(text):
            return listing.code_page(text).rstrip()
        if words[0] in module.types:
            raise AxonError((Diagnostic("AX0507", f"`{words[0]}` is a type, and kernels are made of functions and values"),))
        if text.isidentifier() and text not in builtins.NAMES and text not in module.data:
            listing.require_name(session.checked, None, text)
        return _of_expression(module.expression(source, start), "explain")
    owner, name = found
    with session.assembly.moving():
        return listing.of_kernels(owner, owner.callee(name), words[1:], compiler.explain)


def _declared(module: Interactive, name: str) -> tuple[Session, str] | None:
    """What declares a name, or a member of a module that is imported, and what it is called there."""
    if name in module.signatures:
        return module.session, name
    owner, _, member = name.partition(".")
    known = module.modules.get(owner)
    return (Session(known), member) if known is not None and member in known.signatures else None


def _words(text: str) -> list[str]:
    """Words as a shell cuts them, except that blanks inside brackets do not cut: `p={w = 1.0} x=randn(f32[2, 3])` is two."""
    out: list[str] = []
    depth = 0
    for word in text.split(" ") if not {'"', "'"} & set(text) else _shell(text):
        if depth or (out and not word):
            out[-1] += f" {word}"
        elif word:
            out.append(word)
        depth += sum(map(word.count, "([{")) - sum(map(word.count, ")]}"))
    return [word.strip() for word in out]


def _shell(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # a quote that is not closed, or 'a
        return text.split(" ")


def _bind(module: Interactive, source: SourceFile, start: int) -> str:
    text = _rest(source, start)
    _needs(":bind", text)
    lines = []
    for name, value in module.arguments(_words(text)).items():
        lines.append(f"{name} : {module.bind(name, value)}")
    return "\n".join(lines)


def _save(module: Interactive, source: SourceFile, start: int) -> str:
    words = _rest(source, start)
    force, path = words.startswith("!"), os.path.expanduser(words.removeprefix("!").strip())
    _needs(":save", path)
    if os.path.isdir(path):
        raise AxonError((Diagnostic("AX0510", f"`{path}` is a directory: name a file in it"),))
    if not force and os.path.exists(path) and path not in module.files:
        help = Suggestion(f"to replace it, write `:save! {path}`")
        raise AxonError((Diagnostic("AX0510", f"there is a file `{path}` already", suggestions=(help,)),))
    write_text(Path(path), module.text)
    return f"wrote {path}: {counted(module.size, 'declaration')}" + (", without the data" if module.data else "")


def _names(module: Interactive, source: SourceFile, start: int) -> str:
    return "\n".join(_listed(module)) or "nothing is defined"


def _listed(module: Interactive) -> Iterator[str]:
    from axon.host.show_value import type_of

    for name in module.modules:
        yield f"import {name}"
    yield from module.types.values()
    for name, signature in module.signatures.items():
        yield f"{name} : {signature}"
    if module.data:
        yield "(* data *)"
        for name, value in module.data.items():
            yield f"{name} : {type_of(value)}"


def _help(module: Interactive, source: SourceFile, start: int) -> str:
    asked = _rest(source, start)
    if asked:
        command = command_of(asked if asked.startswith(MARK) else MARK + asked)
        return f"{command.usage}\n  {command.help}"
    width = max(len(c.usage) for c in COMMANDS.values())
    rows = [f"{c.usage:<{width}}  {c.help}" for c in COMMANDS.values()]
    return "\n".join([INTRODUCTION, "", *rows])


def _quit(module: Interactive, source: SourceFile, start: int) -> str:
    raise Leave


INTRODUCTION = """\
fun f x = x + 1.0     declares f; a new declaration of a name replaces the old one
f [| 1.0, 2.0 |]      is evaluated; `it` is the last value
Enter ends what is complete, and begins a new line in what is not; Alt-Enter always begins one.
Ctrl-C gives up what is typed or interrupts what runs; Ctrl-D leaves."""

COMMANDS: dict[str, Command] = {
    ":type": Command(":type EXPRESSION", "its inferred type and contract; nothing runs", _type, "expression"),
    ":shapes": Command(":shapes NAME", "the types of all names inside a declaration; or a type", _shapes, "name"),
    ":load": Command(":load FILE", "add a file's declarations", _load, "file"),
    ":reload": Command(":reload", "load again what was loaded", _reload),
    ":bind": Command(":bind NAME=VALUE…", "data for expressions, as in x=randn(f32[2, 3]) or x=file.npy", _bind),
    ":time": Command(":time EXPRESSION", "how long it takes to check and to run", _time, "expression"),
    ":emit": Command(":emit STAGE NAME [ARG=…] | EXPRESSION", f"what a phase makes: {', '.join(listing.STAGES)}", _emit, "stage"),
    ":explain": Command(
        ":explain NAME [ARG=…] | EXPRESSION | CODE",
        "how it becomes GPU kernels; or an error such as AX0301",
        _explain,
        "name",
        True,
    ),
    ":names": Command(":names", "everything that is defined", _names),
    ":save": Command(":save FILE", "write the declarations as a program; `:save! FILE` replaces a file", _save, "file"),
    ":help": Command(":help [COMMAND]", "this", _help, "command", True),
    ":quit": Command(":quit", "leave, as does Ctrl-D", _quit),
}
