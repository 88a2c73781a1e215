"""Renaming: every place that stands for the same gets the new name, if every name then stands for what it stood for before."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable

from axon.base.data import dataclass
from axon.base.diagnostics import Diagnostic
from axon.checker.check import declared_names
from axon.checker.loader import stdlib_root
from axon.grammar import syntax as S
from axon.grammar.table import load
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.chunks import Chunk, read
from axon.tools.editor.fields import Fields, field_references, fields_at, undecided
from axon.tools.editor.names import ELEMENTS, Binding, Free, Kind, Occurrence, names_of
from axon.tools.editor.places import Definition, of_module, references, resolve, spot
from axon.tools.editor.workspace import Workspace
from axon.types import builtins

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FIXED = {
    Kind.BUILTIN: "belongs to the language", Kind.ELEMENT: "belongs to the language",
    Kind.MODULE: "is the name of a file: rename the file",
}  # fmt: skip
_PREFIXES = {Kind.SHAPE: "..", Kind.RUN: "..", Kind.TYPE_VARIABLE: "'"}  # which may be written, or left out


class Refused(Exception):
    """Why something is not renamed, in words."""


@dataclass(frozen=True, slots=True)
class Change:
    """Replace what stands between two offsets of a module."""

    analysis: Analysis
    start: int
    end: int
    text: str


def renamed_at(analysis: Analysis, offset: int) -> tuple[Definition, Occurrence]:
    """What would be renamed at an offset, and the name there. Raises Refused."""
    at = spot(analysis, offset)
    if at is None or at.occurrence is None:
        raise Refused("there is no name here")
    found = resolve(analysis, at.part, at.occurrence.target)
    if found is None:
        raise Refused(f"nothing says what `{at.occurrence.span.text}` stands for")
    if found.kind in _FIXED or found.name == "..":
        raise Refused(f"`{found.name}` {_FIXED.get(found.kind, 'has no name')}")
    if found.analysis is not None and found.analysis.path.startswith(str(stdlib_root().resolve())):
        raise Refused(f"`{found.name}` belongs to the standard library")
    if found.kind is Kind.FIELD and not fields_at(analysis, offset):
        raise Refused(f"nothing says what record `{found.name}` is a field of")
    return found, at.occurrence


def rename(workspace: Workspace, analysis: Analysis, offset: int, new: str) -> list[Change]:
    """The changes that give the name at an offset another name everywhere. Raises Refused where that would change a meaning."""
    found, _ = renamed_at(analysis, offset)
    new = new.removeprefix(_PREFIXES.get(found.kind, ""))
    _require_name(found, new)
    if new == found.name:
        return []
    assert found.analysis is not None
    if found.kind is Kind.FIELD:
        return _field(workspace, analysis, fields_at(analysis, offset), found.name, new)
    free = isinstance(found.target, Free)
    if free and (of_module(found.analysis, Free(new, found.kind is Kind.TYPE)) or new in found.analysis.imports):
        raise Refused(f"the module declares `{new}` already")
    if found.kind is not Kind.TYPE and new in (*builtins.NAMES, *builtins.REDUCTIONS) and found.kind is not Kind.TYPE_VARIABLE:
        raise Refused(f"`{new}` is a function of the language, which the new name would hide")
    changes = []
    for module, occurrence in references(workspace, found):
        place = module.place(occurrence.span)
        if place is None:
            raise Refused("a declaration that mentions it does not parse at the moment")
        changes.append(Change(module, *place, new))
    if free and found.kind is not Kind.TYPE:
        changes += _in_doctests(found.analysis, found.name, new)
    changes = list({(c.analysis.path, c.start): c for c in changes}.values())
    for _, module in _touched(changes):
        _require_same_meaning(module, [c for c in changes if c.analysis is module], found, new)
    again = _new_error(workspace, changes)  # as of two parameters of one name that nothing uses
    if again is not None:
        raise Refused(f"with `{new}` the program would be wrong: {again.message}")
    return changes


def _field(workspace: Workspace, analysis: Analysis, fields: Fields, old: str, new: str) -> list[Change]:
    """The changes that rename a field of all records with these fields."""
    if new in fields:
        raise Refused(f"the record has a field `{new}` already")
    if undecided(workspace, analysis, old):
        raise Refused(f"nothing says what record `{old}` is a field of in a declaration with errors")
    changes = []
    for module, occurrence in field_references(workspace, analysis, fields, old):
        place = module.place(occurrence.span)
        if place is None:
            raise Refused("a declaration that mentions it does not parse at the moment")
        changes.append(Change(module, *place, new))
    changes = list({(c.analysis.path, c.start): c for c in changes}.values())
    if _new_error(workspace, changes) is not None:  # the library may take such records too
        raise Refused("the records go to a module in which the field keeps its name")
    return changes


def _require_name(found: Definition, new: str) -> None:
    keywords = {s for s in load().literals if s.isidentifier()}
    if not _NAME.fullmatch(new) or new == "_":
        raise Refused(f"`{new}` is not a name: names are made of a-z, A-Z, 0-9 and _, and do not begin with a digit")
    if new in keywords:
        raise Refused(f"`{new}` is a word of the language")
    if found.kind in (Kind.TYPE, Kind.DIMENSION) and new in ELEMENTS:
        raise Refused(f"`{new}` is an element type")


def _in_doctests(analysis: Analysis, old: str, new: str) -> list[Change]:
    """The name in the examples that comments hold."""
    out = []
    for chunk, start in zip(analysis.chunks, analysis.starts, strict=True):
        for comment in chunk.lexed.comments:
            for line in re.finditer(r"^(?:\(\*)?\s*>>>.*$", comment.text, re.MULTILINE):
                for word in re.finditer(rf"(?<![\w.']){re.escape(old)}\b", line[0]):
                    at = start + comment.start + line.start() + word.start()
                    out.append(Change(analysis, at, at + len(old), new))
    return out


# ── the check ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def _new_error(workspace: Workspace, changes: list[Change]) -> Diagnostic | None:
    """What the checker says after the changes of files that they touch, and did not say before."""
    trial = workspace.fork(
        {path: _after(module, [c for c in changes if c.analysis is module]) for path, module in _touched(changes)}
    )
    for path, module in _touched(changes):
        after = trial.analysis(path)
        if after is None:
            continue
        known = Counter(d.code for d in module.diagnostics())
        for diagnostic in after.diagnostics():
            known[diagnostic.code] -= 1
            if known[diagnostic.code] < 0:
                return diagnostic
    return None


def _touched(changes: list[Change]) -> Iterable[tuple[str, Analysis]]:
    return {c.analysis.path: c.analysis for c in changes}.items()


def _after(analysis: Analysis, changes: list[Change]) -> str:
    text = analysis.text
    for change in sorted(changes, key=lambda c: -c.start):
        text = text[: change.start] + change.text + text[change.end :]
    return text


def _require_same_meaning(analysis: Analysis, changes: list[Change], found: Definition, new: str) -> None:
    """Raises Refused if some name stands for something else once the changes are made."""
    after = read(analysis.path, _after(analysis, changes), analysis.chunks).chunks
    before = analysis.chunks
    if len(after) != len(before) or any(a.broken and not b.broken for a, b in zip(after, before, strict=True)):
        raise Refused(f"with `{new}` the file would no longer parse")
    own: Free | None = None
    if isinstance(found.target, Free):
        owner = None if analysis is found.analysis else stem(found.analysis)
        own = Free(found.target.name, found.target.is_type, owner)
    if _meaning(before, own, new) != _meaning(after, None, new):
        raise Refused(f"`{new}` is another name here, which would then mean something else")


def _meaning(chunks: list[Chunk], renamed: Free | None, new: str) -> list[object]:
    """What each name stands for, in order: which binding of its declaration, or which name of the module."""
    sigs: dict[str, list[S.Sig]] = {}
    decls = [decl for chunk in chunks for decl in chunk.decls]
    for decl in decls:
        if isinstance(decl, S.Sig):
            sigs.setdefault(decl.name.text, []).append(decl)
    out: list[object] = []
    for decl in decls:
        mine = () if isinstance(decl, S.Sig | S.TypeDecl) else tuple(s for n in declared_names(decl) for s in sigs.get(n, ()))
        names = names_of(decl, mine)
        order = {binding: n for n, binding in enumerate(names.bindings)}
        for occurrence in names.occurrences:
            match occurrence.target:
                case Binding() as binding:
                    out.append((order[binding], binding.kind))
                case Free() as free:
                    out.append((new if free == renamed else free.name, free.is_type, free.owner))
    return out


def stem(analysis: Analysis | None) -> str:
    """What imports call a module."""
    return "" if analysis is None else os.path.splitext(os.path.basename(analysis.path))[0]
