"""What could be written at a place: names in scope, members, fields, dimensions, types, keywords."""

from __future__ import annotations

import os
from collections.abc import Iterator
from enum import Enum, auto

from axon.base.data import dataclass, replace
from axon.checker.check import binds
from axon.checker.loader import SUFFIX, library_modules
from axon.grammar import syntax as S
from axon.grammar.lexer import Token
from axon.tools.editor.analysis import Analysis, Checked, shifted
from axon.tools.editor.facts import Facts
from axon.tools.editor.hover import builtin_signature
from axon.tools.editor.names import ELEMENTS, Binding, Kind, names_of, place
from axon.tools.editor.places import declarations, is_function, parts, records, whole
from axon.tools.editor.repair import HOLE, Mended, mend, partial
from axon.tools.editor.workspace import Workspace
from axon.types import builtins
from axon.types.resolve import ModelName
from axon.types.show import signature
from axon.types.symbolic import tells_sizes
from axon.types.type import Function, RecordType, Tensor, TupleType, Type

_DECLARING = ("fun", "val", "type", "sig", "import")
_RUNS = (Kind.RUN, Kind.SHAPE)
_EXPRESSION = ("let", "if", "fn", "for", "loop", "unfold", "cast", "not", "op")

_AFTER = (
    ("in", "let"), ("val", "let"), ("fun", "let"), ("observe", "let"), ("end", "in"), ("then", "if"), ("else", "then"),
    ("while", "loop"),
)  # fmt: skip


class _Where(Enum):
    EXPRESSION = auto()
    DIMENSION = auto()
    TYPE = auto()
    FIELD = auto()  # the name of a field of a record that is made or taken apart
    NEW = auto()  # a name that is being introduced


@dataclass(frozen=True, slots=True)
class Item:
    """`rank` orders items: what is bound nearest comes first."""

    label: str
    kind: Kind | None  # None: a keyword
    detail: str = ""
    rank: int = 5
    owner: str = ""  # the path of the module that declares it


def complete(workspace: Workspace, analysis: Analysis, offset: int) -> list[Item]:
    """The items that fit at an offset, whatever has been typed of a name before it."""
    chunk, local = analysis.chunk_at(offset)
    before = analysis.text[offset - local : offset]
    if any(c.start < local < c.end or (c.start < local and not c.text.endswith("*)")) for c in chunk.lexed.comments):
        return []
    word = partial(before)
    tokens = [t for t in chunk.lexed.tokens if t.end <= local - len(word) and t.kind != "$END"]
    last = tokens[-1] if tokens else None
    if last is None:
        return [Item(k, None) for k in _DECLARING]
    if last.kind == "import":
        return _modules(analysis)
    mended = mend(analysis.path, before)
    facts = facts_of(analysis, mended) if mended is not None else None
    if last.kind == "." and last.end == local - len(word):
        return _members(analysis, tokens, mended, facts)
    if before[: local - len(word)].endswith(".."):
        return [Item(b.name, b.kind) for b in _visible(analysis, offset, mended) if b.kind in _RUNS and b.name != ".."]
    if before[: local - len(word)].endswith("'"):
        return [Item(b.name, b.kind) for b in _visible(analysis, offset, mended) if b.kind is Kind.TYPE_VARIABLE]
    visible = _visible(analysis, offset, mended)
    if last.kind == "cast":
        return [*_elements(), *(Item(f"'{b.name}", b.kind) for b in visible if b.kind is Kind.TYPE_VARIABLE)]
    at_margin = not before[: local - len(word)].rpartition("\n")[2].strip()
    declaring = [Item(k, None) for k in _DECLARING] if at_margin else []
    where = _where(mended) if mended is not None else _Where.EXPRESSION
    match where:
        case _Where.NEW:
            return declaring
        case _Where.DIMENSION:
            named = [Item(b.name, b.kind, rank=1) for b in visible if b.kind in (Kind.DIMENSION, Kind.INDEX)]
            fields = _fields(analysis, mended, facts) if mended is not None else []  # `f { …` may become a record
            functions = [item for item, checked in _declarations(analysis, offset) if _of_sizes(checked, item.label)]
            return [*fields, *named, *functions, Item("min", Kind.BUILTIN), Item("max", Kind.BUILTIN)]
        case _Where.FIELD:
            return (_fields(analysis, mended, facts) if mended is not None else []) or _all_fields(analysis)
        case _Where.TYPE:
            variables = [Item(f"'{b.name}", b.kind, rank=1) for b in visible if b.kind is Kind.TYPE_VARIABLE]
            return [*variables, *_elements(), *_types(analysis), *(Item(m, Kind.MODULE) for m in analysis.imports)]
        case _Where.EXPRESSION:
            own = [_local(b, facts) for b in visible if b.kind not in (Kind.RUN, Kind.SHAPE, Kind.TYPE_VARIABLE, Kind.TYPE)]
            keywords = [Item(k, None, rank=8) for k in (*_EXPRESSION, *_words_after(tokens))]
            return _unique([*own, *_values(analysis, offset), *_language(), *keywords, *declaring])


def _words_after(tokens: list[Token]) -> Iterator[str]:
    """Keywords that go on with what is open."""
    kinds = [t.kind for t in tokens]
    for word, opened in _AFTER:
        if opened in kinds:
            yield word
    yield from ("andalso", "orelse", "as", "where")


def _unique(items: list[Item]) -> list[Item]:
    """The first of those with one label: what is bound inside hides what is outside."""
    return list({item.label: item for item in reversed(items)}.values())[::-1]


# ── what is in scope ────────────────────────────────────────────────────────────────────────────────────────────────────


def facts_of(analysis: Analysis, mended: Mended) -> Facts | None:
    """What the checker makes of a declaration that ends at the cursor."""
    if isinstance(mended.decl, S.Import | S.Sig):
        return None
    checked = analysis.check_apart(mended.decl, mended.source)
    return checked.facts if checked is not None else None


def _visible(analysis: Analysis, offset: int, mended: Mended | None) -> list[Binding]:
    """The bindings inside the declaration that can be named at an offset: of the text so far, and of what last stood there."""
    found: dict[tuple[bool, str], Binding] = {}
    chunk, local = analysis.chunk_at(offset)
    at = shifted(local, chunk.text, chunk.former.text) if chunk.former is not None else local
    if at is not None:
        for part in parts(analysis, chunk):
            found |= part.names.visible(whole(chunk).source, at)
    if mended is not None:
        now = names_of(mended.decl).visible(mended.source, mended.hole)
        found = {**{k: b for k, b in found.items() if b.kind in (Kind.DIMENSION, Kind.SHAPE, Kind.TYPE_VARIABLE)}, **now}
    return [b for b in found.values() if HOLE not in b.name]


def _local(binding: Binding, facts: Facts | None) -> Item:
    detail = ""
    if facts is not None:
        range_ = facts.ranges.get(next((b for b in facts.names.bindings if place(b.span) == place(binding.span)), binding))
        t = facts.bound.get(place(binding.span))
        if range_ is not None:
            detail = f"< {facts.show_extent(range_[1])}"
        elif t is not None and facts.known(t):
            detail = facts.show(t)
    return Item(binding.name, binding.kind, detail or binding.kind.value, rank=1)


def _values(analysis: Analysis, offset: int) -> list[Item]:
    """What the module declares before a place, and what it imports."""
    out = [item for item, _ in _declarations(analysis, offset)]
    return [*out, *(Item(m, Kind.MODULE, "module", rank=3) for m in analysis.imports)]


def _declarations(analysis: Analysis, offset: int) -> Iterator[tuple[Item, Checked]]:
    for chunk, start in zip(analysis.chunks, analysis.starts, strict=True):
        if start + len(chunk.text) >= offset:  # nothing can use itself
            break
        for decl in whole(chunk).decls:
            for name, _ in binds(decl) if isinstance(decl, S.Fun | S.Val) else ():
                if "." in name:  # a function of a model, which that offers
                    continue
                checked = analysis.table.get((False, name))
                if checked is not None:
                    yield _declared(checked, name, analysis), checked


def _of_sizes(checked: Checked, name: str) -> bool:
    """Whether a function may be called in a size."""
    scheme = checked.schemes.get(name)
    return scheme is not None and not scheme.explicit and tells_sizes(checked.state, scheme)


def _declared(checked: Checked, name: str, module: Analysis) -> Item:
    scheme = checked.schemes.get(name)
    detail = signature(checked.state, scheme) if scheme is not None else ""
    return Item(name, Kind.FUNCTION if is_function(checked, name) else Kind.VALUE, detail, 2, module.path)


def _types(analysis: Analysis) -> list[Item]:
    return [Item(name, Kind.TYPE, "type", 2, analysis.path) for is_type, name in analysis.table if is_type]


def _elements() -> list[Item]:
    return [Item(name, Kind.ELEMENT, "element type", 3) for name in sorted(ELEMENTS)]


def _language() -> list[Item]:
    names = (*builtins.NAMES, *builtins.REDUCTIONS, "reduce", "scan")
    return [Item(n, Kind.BUILTIN, builtin_signature(n).removeprefix(f"{n} : "), 4) for n in dict.fromkeys(names)]


def _modules(analysis: Analysis) -> list[Item]:
    beside: list[str] = []
    if not analysis.path.startswith("<"):
        try:
            beside = [n.removesuffix(SUFFIX) for n in os.listdir(os.path.dirname(analysis.path)) if n.endswith(SUFFIX)]
        except OSError:
            beside = []
    own = os.path.basename(analysis.path).removesuffix(SUFFIX)
    names = sorted({*beside, *library_modules()} - {own})
    return [Item(n, Kind.MODULE, "beside this file" if n in beside else "standard library") for n in names if n.isidentifier()]


# ── members ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _members(analysis: Analysis, tokens: list[Token], mended: Mended | None, facts: Facts | None) -> list[Item]:
    """What can stand after a dot: declarations of a module, fields of a record, parts of a tuple."""
    before = tokens[-2] if len(tokens) > 1 else None
    if before is not None and before.kind in ("INT", "FLOAT") and before.end == tokens[-1].start:
        return []  # the point of a number
    owner = before.text if before is not None else ""
    functions = list(_of_model(analysis, tokens))
    if functions and (mended is None or not _is_bound(mended, owner)):
        return functions
    module = analysis.imports.get(owner)
    if module is not None and (mended is None or not _is_bound(mended, owner)):
        in_type = mended is not None and _where(mended) is _Where.TYPE
        if in_type:
            return _types(module)
        return [_declared(c, name, module) for (is_type, name), c in module.table.items() if not is_type and "." not in name]
    record = _record(mended) if mended is not None else None
    found = _typed(analysis, facts, record) if facts is not None and record is not None else None
    match found:
        case of, RecordType() as t:
            return [Item(name, Kind.FIELD, of.show(inner), 1) for name, inner in t.fields]
        case of, TupleType(items):
            return [Item(str(n), Kind.FIELD, of.show(inner), 1) for n, inner in enumerate(items, 1)]
        case _, Tensor() | Function():
            return []
    return _all_fields(analysis)


def _of_model(analysis: Analysis, tokens: list[Token]) -> Iterator[Item]:
    """The functions of the model before a dot, `schools.` or `lib.schools.`."""
    *before, name = [t.text for t in tokens[-4:-1] if t.kind == "NAME"] or [""]
    dotted = len(tokens) > 3 and tokens[-3].kind == "."
    module = analysis.imports.get(before[-1]) if dotted and before else analysis if not dotted else None
    checked = module.table.get((False, name)) if module is not None else None
    entity = checked.entities.get(name) if checked is not None else None
    if module is not None and checked is not None and isinstance(entity, ModelName):
        for function in entity.model.functions:
            yield replace(_declared(checked, f"{name}.{function}", module), label=function)


def _typed(analysis: Analysis, facts: Facts, e: S.Expr) -> tuple[Facts, Type] | None:
    """The type of what a dot follows. The checker keeps nothing of an operand beside an error, and the name that is being
    typed is one: then the type is that of the name that `e` begins with, and of the fields after that."""
    t = facts.type_at(e.span)
    if t is not None:
        return facts, facts.state.prune(t)
    match e:
        case S.Var(name):
            occurrence = facts.names.at(e.span.file, e.span.start)
            if occurrence is not None and isinstance(occurrence.target, Binding):
                t = facts.type_at(occurrence.target.span)
                return None if t is None else (facts, facts.state.prune(t))
            checked = analysis.table.get((False, name))
            scheme = checked.schemes.get(name) if checked is not None else None
            return None if checked is None or scheme is None else (checked.facts, checked.state.prune(scheme.type))
        case S.Field(record, member):
            match _typed(analysis, facts, record):
                case of, RecordType(fields):
                    return next(((of, of.state.prune(inner)) for n, inner in fields if n == member.text), None)
    return None


def _is_bound(mended: Mended, name: str) -> bool:
    return (False, name) in names_of(mended.decl).visible(mended.source, mended.hole)


def _record(mended: Mended) -> S.Expr | None:
    found = next((n for n in nodes(mended.decl) if isinstance(n, S.Field) and n.name.text == HOLE), None)
    return found.record if found is not None else None


def _all_fields(analysis: Analysis) -> list[Item]:
    """The fields of every record type that is declared, where nothing says which one it is."""
    found: dict[str, Item] = {}
    for module in (analysis, *analysis.imports.values()):
        for checked in declarations(module):
            if isinstance(checked.decl, S.TypeDecl):
                for record in records(checked.decl.type):
                    found |= {n.text: Item(n.text, Kind.FIELD, f"of {checked.decl.name.text}", 3) for n, _ in record.fields}
    return list(found.values())


def _fields(analysis: Analysis, mended: Mended, facts: Facts | None) -> list[Item]:
    """The fields that are left of the record in which the hole is, as what it is given to declares them."""
    for node in nodes(mended.decl):
        match node:
            case S.ApplyDims(function, (S.DimName(name),)) if name == HOLE:
                given: set[str] = set()
                wanted = _parameter(analysis, mended, facts, function)
            case S.Record(fields) if any(name.text == HOLE for name, _ in fields):
                given = {name.text for name, _ in fields}
                wanted = _wanted(analysis, mended, facts, node)
            case _:
                continue
        match wanted:
            case of, RecordType() as t:
                return [Item(name, Kind.FIELD, of.show(inner), 1) for name, inner in t.fields if name not in given]
    return []


def _wanted(analysis: Analysis, mended: Mended, facts: Facts | None, e: S.Expr) -> tuple[Facts, Type] | None:
    """The type that an argument has to have, by its function; or a field's value, by the record that it is in."""
    for node in nodes(mended.decl):
        match node:
            case S.Apply(function, argument) if argument is e:
                return _parameter(analysis, mended, facts, function)
            case S.Record(fields) if any(value is e for _, value in fields):
                field = next(name.text for name, value in fields if value is e)
                match _wanted(analysis, mended, facts, node):
                    case of, RecordType() as t:
                        return next(((of, of.state.prune(inner)) for n, inner in t.fields if n == field), None)
    return None


def _parameter(analysis: Analysis, mended: Mended, facts: Facts | None, function: S.Expr) -> tuple[Facts, Type] | None:
    """The type of the next argument of a function, which may have been given some already."""
    number = 0
    while isinstance(function, S.Apply):
        function, number = function.function, number + 1
    known = _function(analysis, mended, facts, function.function if isinstance(function, S.ApplyDims) else function)
    if known is None:
        return None
    of, t = known
    for _ in range(number):
        t = of.state.prune(t.result) if isinstance(t, Function) else t
    return (of, of.state.prune(t.param)) if isinstance(t, Function) else None


def _function(analysis: Analysis, mended: Mended, facts: Facts | None, e: S.Expr) -> tuple[Facts, Type] | None:
    match e:
        case S.Var(name) if not _is_bound(mended, name):
            checked = analysis.table.get((False, name))
        case S.Field(S.Var(owner), member) if owner in analysis.imports and not _is_bound(mended, owner):
            checked = analysis.imports[owner].table.get((False, member.text))
        case _:
            return _typed(analysis, facts, e) if facts is not None else None
    scheme = checked.schemes.get(e.name if isinstance(e, S.Var) else e.name.text) if checked is not None else None
    return None if checked is None or scheme is None else (checked.facts, checked.state.prune(scheme.type))


# ── where the hole is ───────────────────────────────────────────────────────────────────────────────────────────────────


def _where(mended: Mended) -> _Where:
    for node in nodes(mended.decl):
        match node:
            case S.Var(name) | S.Field(_, S.Name(name)) if name == HOLE:
                return _Where.EXPRESSION
            case S.Record(fields) | S.PatternRecord(fields) if any(name.text == HOLE for name, *_ in fields):
                return _Where.FIELD
            case S.DimName(name) if name == HOLE:
                return _Where.DIMENSION
            case S.TypeName(parts) if parts[-1].text == HOLE:
                return _Where.TYPE
    return _Where.NEW


def nodes(decl: S.Decl) -> Iterator[S.Node]:
    stack: list[object] = [decl]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += reversed(item)
        elif isinstance(item, S.Node):
            yield item
            stack += [getattr(item, name) for name in reversed(item.__dataclass_fields__) if name not in ("span", "op_span")]
