"""`axon explain PATH:NAME --mesh data=2,model=4 --shard b=data,h=model b=8`: what devices exchange, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from axon import compiler
from axon.base.diagnostics import Diagnostic, Label
from axon.base.errors import AxonError
from axon.base.nearest import hint
from axon.base.source import SourceFile

if TYPE_CHECKING:
    from axon.base.names import Symbol
    from axon.core import ir as core
    from axon.host.call import Callee, Session

CODE = "AX0901"
TYPICAL = 1024  # of a size that is not given, or the next multiple of its axis
MOST = 1 << 20  # devices
_MESH = "a mesh is written data=2,model=4: axes by name, each with its devices"
_SHARD = "what is split is written b=data,h=model: sizes by name, each with one axis of the mesh"


def on_mesh(
    session: Session, callee: Callee, mesh: str | None, split: str | None, arguments: Sequence[str], link: str, wide: bool
) -> str:
    """How a function is shared. `arguments` are sizes by name, `b=8`, or arguments as a call has them."""
    if mesh is None:
        raise AxonError((Diagnostic(CODE, "there is no mesh: `--shard` stands beside `--mesh`", notes=(_MESH,)),))
    axes = {name: _devices(mesh, name, number) for name, number in _pairs(mesh, _MESH).items()}
    over = _pairs(split, _SHARD) if split else {}
    known = _sizes(session, callee, arguments)
    if known is None:
        program, dims = _called(session, callee, arguments)
    else:
        program = compiler.lower(session.checked, callee.name, None)
        dims = _filled(program, known, axes, over)
    return compiler.shared(program, axes, over, dims, link, wide).rstrip()


def _pairs(text: str, form: str) -> dict[str, str]:
    """`a=1,b=2` by name."""
    found: dict[str, str] = {}
    at = 0
    for part in text.split(","):
        name, equals, value = part.partition("=")
        name, value = name.strip(), value.strip()
        if not equals or not name.isidentifier() or not value:
            said = f"`{part.strip()}` is no name with a value, NAME=VALUE" if part.strip() else "nothing is said here"
            raise _wrong(text, at, at + len(part), said, form)
        if name in found:
            raise _wrong(text, at, at + len(part), f"`{name}` is given twice", form)
        found[name] = value
        at += len(part) + 1
    return found


def _devices(text: str, name: str, number: str) -> int:
    if not number.isdecimal() or not 1 <= int(number) <= MOST:
        at = text.index(name)
        raise _wrong(text, at, len(text), f"the devices of `{name}` are a number from 1 to {MOST:,}, not `{number}`", _MESH)
    return int(number)


def _sizes(session: Session, callee: Callee, arguments: Sequence[str]) -> dict[str, int] | None:
    """Sizes that are given by name; None if other arguments are."""
    parameters = {p.name for p in callee.parameters}
    found: dict[str, int] = {}
    for text in arguments:
        name, _, value = text.partition("=")
        if name.strip() in parameters or not value.strip().isdecimal():
            return None
        found[name.strip()] = int(value)
    return found


def _called(session: Session, callee: Callee, arguments: Sequence[str]) -> tuple[core.Program, dict[Symbol, int]]:
    from axon.host.command_arguments import parse_arguments

    given = parse_arguments(list(arguments), seed=None)
    sizes = [given.pop(size) for size in callee.dimensions if size in given]
    return session.example(callee, sizes, given)


def _filled(
    program: core.Program, known: Mapping[str, int], axes: Mapping[str, int], split: Mapping[str, str]
) -> dict[Symbol, int]:
    """A value for every size: the one given, or a typical one."""
    symbols = sorted({*program.explicit, *program.contract.determined(), *program.contract.idle}, key=lambda s: s.id)
    names = {s.name for s in symbols}
    for name in known:
        if name not in names:
            has = ", ".join(f"`{n}`" for n in sorted(names) if n)
            message = f"`{program.name}` has no size `{name}`{hint(name, names)}"
            raise AxonError((Diagnostic("AX0505", message, notes=(f"its sizes are {has}",)),))
    found = {}
    for symbol in symbols:
        devices = axes.get(split.get(symbol.name, ""), 1)
        found[symbol] = known.get(symbol.name, -(-TYPICAL // devices) * devices)
    return found


def _wrong(text: str, start: int, end: int, message: str, note: str) -> AxonError:
    return AxonError((Diagnostic(CODE, message, (Label(SourceFile("<command line>", text).span(start, end)),), (note,)),))
