"""The declarations of an interactive module: each as the pieces of text that it was written in, and in what order they stand."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from axon import compiler
from axon.base.data import dataclass, fields, is_dataclass
from axon.base.diagnostics import counted
from axon.base.errors import AxonError
from axon.base.identity import IdentitySet
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as S
from axon.tools.commands.listing import declared

if TYPE_CHECKING:
    from axon.checker.module import CheckedModule


@dataclass(frozen=True, slots=True)
class Unit:
    """A declaration with its `sig`, as the pieces of text that it was written in; a `sig` without its declaration waits."""

    names: tuple[str, ...]  # a type's begin with "type ", which is no part of a value's name
    pieces: tuple[Span, ...]
    uses: frozenset[str]
    decl: S.Decl | None = None  # None while only the `sig` is known


def units_of(source: SourceFile) -> tuple[Unit, ...]:
    """The declarations of a text, each with the comments before it and on its last line. Raises AxonError for syntax errors."""
    program, problems = compiler.parse(source)
    errors = tuple(d for d in problems if d.severity == "error")
    if errors:
        raise AxonError(errors)
    units: list[Unit] = []
    start = 0
    for number, decl in enumerate(program.decls):
        end = _end_of_line(source, decl.span.end) if number + 1 < len(program.decls) else len(source.text)
        piece, start = source.span(start, end), end
        units.append(Unit(_own_names(decl), (piece,), frozenset(names_in(decl)), None if isinstance(decl, S.Sig) else decl))
    return tuple(units)


def _end_of_line(source: SourceFile, end: int) -> int:
    """The end of the comments that follow on a line, if nothing else does."""
    rest = source.text[end:].split("\n", 1)[0]
    return end + len(rest.rstrip()) if _COMMENTS.fullmatch(rest) else end


_COMMENTS = re.compile(r"(\s*\(\*((?!\(\*|\*\)).)*\*\))*\s*")


def _own_names(decl: S.Decl) -> tuple[str, ...]:
    return tuple(f"type {n}" if isinstance(decl, S.TypeDecl) else n for n in declared(decl))


def merged(old: Iterable[Unit], new: tuple[Unit, ...]) -> tuple[tuple[Unit, ...], tuple[str, ...]]:
    """All units, in an order in which each stands after what it uses, and the names that are gone."""
    old = list(old)
    known = {n for u in old if u.decl is not None for n in u.names}
    defined = {n for u in new if u.decl is not None for n in u.names}
    stated = {n for u in new if u.decl is None for n in u.names}
    kept: list[Unit] = []
    forgotten: list[str] = []
    for unit in old:
        names = set(unit.names)
        if names & defined:
            if unit.decl is not None:
                forgotten += [n for n in unit.names if n not in defined]
            elif not names & known:  # a `sig` that waited for its declaration
                kept.append(unit)
        elif unit.decl is None and names & stated:
            continue
        else:
            kept.append(unit)
    return _ordered([*kept, *new]), tuple(forgotten)


def _ordered(units: list[Unit]) -> tuple[Unit, ...]:
    """A stable topological order. Where units use each other in a circle the checker says so."""
    by_name: dict[str, list[Unit]] = {}
    for unit in units:
        for name in unit.names:
            by_name.setdefault(name, []).append(unit)
    out: list[Unit] = []
    entered: IdentitySet[Unit] = IdentitySet()

    def visit(unit: Unit) -> Iterator[Unit]:
        """The units to visit before this one."""
        for name in sorted(unit.uses):
            for key in (name, f"type {name}"):
                yield from (u for u in by_name.get(key, ()) if u.decl is not None)

    for root in units:
        stack: list[tuple[Unit, Iterator[Unit]]] = []
        if root not in entered:
            entered.add(root)
            stack.append((root, visit(root)))
        while stack:  # not recursive: a session may define thousands of names
            unit, before = stack[-1]
            following = next((u for u in before if u not in entered), None)
            if following is None:
                stack.pop()
                out.append(unit)
            else:
                entered.add(following)
                stack.append((following, visit(following)))
    return tuple(out)


def lines_of(unit: Unit, checked: CheckedModule) -> Iterator[str]:
    """What the user is told of a new declaration."""
    match unit.decl:
        case None:
            (name,) = unit.names
            if name not in checked.signatures:
                yield f"sig {name}: waits for its declaration"
        case S.Import(name=name):
            module = checked.imports.get(name.text)
            yield f"import {name.text}: {counted(len(module.signatures) if module else 0, 'declaration')}"
        case S.TypeDecl(name=name):
            yield f"type {name.text}"
        case _:
            for name in unit.names:
                model = checked.model(name)
                if model is not None:
                    yield f"{name} : model of {', '.join(map(str, model.sites))}"
                elif name in checked.signatures and "." not in name:
                    yield f"{name} : {checked.signatures[name]}"


def is_from(unit: Unit, path: str) -> bool:
    return any(piece.file.path == path for piece in unit.pieces)


def names_in(tree: Any) -> set[str]:
    """The names that a tree mentions, bound inside it or not: of values, types and modules."""
    found: set[str] = set()
    work: list[Any] = [tree]
    while work:
        node = work.pop()
        if isinstance(node, tuple):
            work += node
            continue
        if not is_dataclass(node) or isinstance(node, Span | S.Name):
            continue
        if isinstance(node, S.Var | S.DimName):
            found.add(node.name)
        elif isinstance(node, S.TypeName):
            found.add(node.name[0].text)
        work += [getattr(node, f.name) for f in fields(node)]
    return found
