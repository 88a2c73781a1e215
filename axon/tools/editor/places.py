"""From an offset in a file to the name there, to what it stands for, and to every place that stands for the same."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

from axon.base.data import dataclass
from axon.base.source import SourceFile, Span
from axon.checker.check import binds
from axon.grammar import syntax as S
from axon.tools.editor.analysis import Analysis, Checked, shifted
from axon.tools.editor.chunks import Chunk
from axon.tools.editor.facts import Facts
from axon.tools.editor.names import ELEMENTS, Binding, DeclarationNames, Free, Kind, Occurrence, Target, names_of
from axon.tools.editor.workspace import Workspace
from axon.types import builtins
from axon.types.type import Function

_MARK = re.compile(r"\.\.|'")
_BUILTINS = {*builtins.NAMES, *builtins.REDUCTIONS, "reduce", "scan"}


@dataclass(frozen=True, slots=True, eq=False)
class DeclarationPart:
    """A declaration of a chunk with what is known of it: no facts for an import, or a `sig` alone."""

    decl: S.Decl
    names: DeclarationNames
    facts: Facts | None


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """An offset as facts know it: in a chunk that parses, or in what stood there when it last did."""

    analysis: Analysis
    chunk: Chunk
    file: SourceFile
    offset: int
    part: DeclarationPart | None
    occurrence: Occurrence | None


@dataclass(frozen=True, slots=True, eq=False)
class Definition:
    """What a name stands for. `span` is where it is bound; nowhere for what the language has. `analysis` is the module it is in."""

    kind: Kind
    name: str
    target: Target
    analysis: Analysis | None = None
    span: Span | None = None
    part: DeclarationPart | None = None
    checked: Checked | None = None


def whole(chunk: Chunk) -> Chunk:
    """The chunk, or what stood there when it last parsed."""
    return chunk.former or chunk


def parts(analysis: Analysis, chunk: Chunk) -> list[DeclarationPart]:
    """The declarations of a chunk, or of what it last was."""
    return [_part(analysis, whole(chunk), decl) for decl in whole(chunk).decls]


def _part(analysis: Analysis, chunk: Chunk, decl: S.Decl) -> DeclarationPart:
    checked = next((c for c in analysis.of_chunk.get(chunk, ()) if c.decl is decl), None)
    if checked is None and isinstance(decl, S.Sig):
        checked = next((c for c in declarations(analysis) if decl in c.sigs), None)
    return (
        DeclarationPart(decl, names_of(decl), None)
        if checked is None
        else DeclarationPart(decl, checked.facts.names, checked.facts)
    )


def declarations(analysis: Analysis) -> Iterator[Checked]:
    for found in analysis.of_chunk.values():
        yield from found


def spot(analysis: Analysis, offset: int) -> Spot | None:
    """What is known at an offset; None in text that has no facts yet."""
    if not analysis.chunks:
        return None
    chunk, local = analysis.chunk_at(offset)
    moved: int | None = local
    if chunk.former is not None:
        moved = shifted(local, chunk.text, chunk.former.text)
    if moved is None:
        return None
    file = whole(chunk).source
    around: DeclarationPart | None = None
    for part in parts(analysis, chunk):
        if around is None or part.decl.span.start <= moved:
            around = part
    return Spot(analysis, chunk, file, moved, around, _named(around, file, moved) if around is not None else None)


def _named(part: DeclarationPart, file: SourceFile, offset: int) -> Occurrence | None:
    """The name at an offset, or behind the mark there that it is written with: `'a`, `..s`."""
    found = part.names.at(file, offset)
    mark = _MARK.match(file.text, max(offset - 1, 0)) or _MARK.match(file.text, offset)
    if found is not None or mark is None or mark.end() <= offset:
        return found
    behind = part.names.at(file, mark.end())
    return behind if behind is not None and behind.span.start == mark.end() else None


def resolve(analysis: Analysis, part: DeclarationPart | None, target: Target) -> Definition | None:
    """What a name in a module stands for; None if nobody knows. The order is that of scopes, from the inside out."""
    if isinstance(target, Binding):
        return Definition(target.kind, target.name, target, analysis, target.span, part)
    if target.owner:
        module = analysis.imports.get(target.owner)
        if module is not None:
            return of_module(module, Free(target.name, target.is_type))
    if target.owner is not None:
        return Definition(Kind.FIELD, target.name, target, analysis)
    found = of_module(analysis, target)
    if found is not None:
        return found
    if not target.is_type and target.name in analysis.imports:
        module = analysis.imports[target.name]
        return Definition(Kind.MODULE, target.name, target, module)
    if target.is_type and target.name in ELEMENTS:
        return Definition(Kind.ELEMENT, target.name, target)
    if not target.is_type and target.name in _BUILTINS:
        return Definition(Kind.BUILTIN, target.name, target)
    return None


def of_module(analysis: Analysis, target: Free) -> Definition | None:
    """A declaration of a module by name."""
    checked = analysis.table.get((target.is_type, target.name))
    if checked is None:
        return None
    span = next(span for name, span in binds(checked.decl) if name == target.name)
    kind = Kind.TYPE if target.is_type else Kind.FUNCTION if is_function(checked, target.name) else Kind.VALUE
    return Definition(
        kind, target.name, target, analysis, span, DeclarationPart(checked.decl, checked.facts.names, checked.facts), checked
    )


def is_function(checked: Checked, name: str) -> bool:
    scheme = checked.schemes.get(name)
    return isinstance(checked.decl, S.Fun) or (scheme is not None and isinstance(checked.state.prune(scheme.type), Function))


def definition(analysis: Analysis, offset: int) -> Definition | None:
    """What the name at an offset stands for."""
    at = spot(analysis, offset)
    if at is None or at.occurrence is None:
        return None
    return resolve(analysis, at.part, at.occurrence.target)


def of_types(analysis: Analysis, fields: frozenset[str], name: str) -> list[tuple[Analysis, Span]]:
    """Where `type` declarations of a module and its imports list a field, in records with exactly these fields."""
    out: list[tuple[Analysis, Span]] = []
    for module in (analysis, *analysis.imports.values()):
        for checked in declarations(module):
            if isinstance(checked.decl, S.TypeDecl):
                for record in records(checked.decl.type):
                    listed = {n.text: n.span for n, _ in record.fields}
                    if name in listed and (not fields or listed.keys() == fields):
                        out.append((module, listed[name]))
    return out


def records(t: S.Type) -> Iterator[S.TypeRecord]:
    match t:
        case S.TypeRecord(fields):
            yield t
            for _, inner in fields:
                yield from records(inner)
        case S.TypeTuple(items):
            for inner in items:
                yield from records(inner)
        case S.TypeFun(param, result):
            yield from records(param)
            yield from records(result)


def references(workspace: Workspace, found: Definition, everywhere: bool = True) -> list[tuple[Analysis, Occurrence]]:
    """Every place that stands for the same, in the module and, if `everywhere`, in those that import it."""
    analysis = found.analysis
    if isinstance(found.target, Binding):
        assert analysis is not None
        own = found.part.names.occurrences if found.part is not None else ()
        return [(analysis, o) for o in own if o.target is found.target]
    if analysis is None:
        return []
    out = [(analysis, o) for o in occurrences(analysis, found.target)]
    if not everywhere or found.kind not in (Kind.FUNCTION, Kind.VALUE, Kind.TYPE):
        return out
    stem = os.path.splitext(os.path.basename(analysis.path))[0]
    abroad = Free(found.target.name, found.target.is_type, stem)
    importers = {*workspace.neighbours(analysis.path), *(p for p in workspace.analyses if workspace.loader.is_held(p))}
    for path in sorted(importers - {analysis.path}):
        other = workspace.analysis(path)
        if other is not None and other.imports.get(stem) is analysis:
            out += [(other, o) for o in occurrences(other, abroad)]
    return out


def occurrences(analysis: Analysis, target: Free) -> list[Occurrence]:
    """The places of a module where this very name is left open by its declaration."""
    seen: set[DeclarationNames] = set()
    out: list[Occurrence] = []
    for chunk in analysis.chunks:
        for part in parts(analysis, chunk):
            if part.names not in seen:
                seen.add(part.names)
                out += [o for o in part.names.occurrences if o.target == target]
    return out
