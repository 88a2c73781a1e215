"""Fields of records. Records are one type wherever they have the same fields: a field is known by all the names in its record."""

from __future__ import annotations

from collections.abc import Iterator

from axon.base.source import Span
from axon.checker.loader import stdlib_root
from axon.grammar import syntax as S
from axon.tools.editor.analysis import Analysis
from axon.tools.editor.complete import nodes
from axon.tools.editor.names import Free, Occurrence
from axon.tools.editor.places import DeclarationPart, of_types, parts, spot
from axon.tools.editor.workspace import Workspace
from axon.types.type import RecordType

Fields = frozenset[str]


def fields_at(analysis: Analysis, offset: int) -> Fields:
    """The fields of the record one of whose fields is named at an offset; none where that is not known."""
    at = spot(analysis, offset)
    if at is None or at.part is None or at.occurrence is None:
        return frozenset()
    return next((fields for o, fields in _named(analysis, at.part) if o is at.occurrence and fields is not None), frozenset())


def field_references(workspace: Workspace, analysis: Analysis, fields: Fields, name: str) -> list[tuple[Analysis, Occurrence]]:
    """Every place that names a field of the records with these fields, in a module and those that it is joined to by imports."""
    return [
        (module, occurrence)
        for module in _joined(workspace, analysis)
        for part in _parts(module)
        for occurrence, found in _named(module, part)
        if found == fields and isinstance(occurrence.target, Free) and occurrence.target.name == name
    ]


def field_places(analysis: Analysis, offset: int, name: str) -> list[tuple[Analysis, Span]]:
    """Where the field that is named at an offset is listed: in `type` declarations of the module and its imports; if there are
    none, in the annotations of its declaration, else of others; else where such records are made."""
    fields = fields_at(analysis, offset)
    declared = of_types(analysis, fields, name)
    if declared:
        return declared
    at = spot(analysis, offset)
    mine = [at.part] if at is not None and at.part is not None else []
    others = list(_parts(analysis))
    for kind, where in ((S.TypeRecord, mine), (S.TypeRecord, others), (S.Record, mine), (S.Record, others)):
        found = [
            (analysis, member.span)
            for part in where
            for node in nodes(part.decl)
            if isinstance(node, kind) and (not fields or {n.text for n, _ in node.fields} == fields)
            for member, _ in node.fields
            if member.text == name
        ]
        if found:
            return found
    return []


def undecided(workspace: Workspace, analysis: Analysis, name: str) -> bool:
    """Whether some place names a field of this name, and nobody knows of which record."""
    return any(
        fields is None and isinstance(occurrence.target, Free) and occurrence.target.name == name
        for module in _joined(workspace, analysis)
        for part in _parts(module)
        for occurrence, fields in _named(module, part)
    )


def _parts(analysis: Analysis) -> Iterator[DeclarationPart]:
    for chunk in analysis.chunks:
        yield from parts(analysis, chunk)


def _named(analysis: Analysis, part: DeclarationPart) -> Iterator[tuple[Occurrence, Fields | None]]:
    """The names of fields in a declaration, each with the fields of its record; None where these are not known."""
    by_place = {
        (o.span.start, o.span.end): o
        for o in part.names.occurrences
        if isinstance(o.target, Free) and o.target.owner is not None and o.target.owner not in analysis.imports
    }
    for node in nodes(part.decl):
        named: list[tuple[Span, Fields | None]]
        match node:
            case S.TypeRecord(listed) | S.Record(listed) | S.PatternRecord(listed):
                fields = frozenset(name.text for name, _ in listed)
                named = [(name.span, fields) for name, _ in listed]
            case S.Field(record, member):
                t = part.facts.type_at(record.span) if part.facts is not None else None
                t = part.facts.state.prune(t) if part.facts is not None and t is not None else None
                known = frozenset(n for n, _ in t.fields) if isinstance(t, RecordType) else None
                named = [(member.span, known)]
            case _:
                continue
        for span, found in named:
            occurrence = by_place.get((span.start, span.end))
            if occurrence is not None:
                yield occurrence, found


def _joined(workspace: Workspace, analysis: Analysis) -> list[Analysis]:
    """The modules of the user's that exchange values with this one, by imports in either direction."""
    held = (p for p in workspace.analyses if workspace.loader.is_held(p))
    library = str(stdlib_root().resolve())
    paths = {*workspace.neighbours(analysis.path), *held} - {analysis.path}
    waiting = [m for p in sorted(paths) if not p.startswith(library) and (m := workspace.analysis(p)) is not None]
    found = [analysis]
    for module in found:  # grows meanwhile
        near = [m for m in waiting if m in module.imports.values() or module in m.imports.values()]
        waiting = [m for m in waiting if m not in near]
        found += near
    return found
