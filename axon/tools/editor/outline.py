"""The declarations of a file as a tree, and the text that belongs together around a place."""

from __future__ import annotations

from collections.abc import Iterator
from weakref import WeakKeyDictionary

from axon.base.data import dataclass
from axon.base.identity import IdentityMap
from axon.base.source import Span
from axon.checker.check import binds
from axon.grammar import syntax as S
from axon.tools.editor.analysis import Analysis, Checked
from axon.tools.editor.names import Kind
from axon.tools.editor.places import declarations, is_function, whole
from axon.types.show import signature


@dataclass(frozen=True, slots=True)
class Entry:
    """A declaration; `name_span` lies in `span`. `detail` is its signature, as far as it is known."""

    name: str
    kind: Kind
    detail: str
    span: Span
    name_span: Span
    children: tuple[Entry, ...] = ()


def outline(analysis: Analysis) -> list[Entry]:
    """What a file declares, in order; of text that does not parse, what it last declared."""
    by_decl = IdentityMap((checked.decl, checked) for checked in declarations(analysis))
    out: list[Entry] = []
    for chunk in analysis.chunks:
        for decl in whole(chunk).decls:
            checked = by_decl.get(decl)
            out += _kept(checked) if checked is not None else entries(decl, None)
    return out


_entries: WeakKeyDictionary[Checked, tuple[Entry, ...]] = WeakKeyDictionary()  # of what did not change since it was asked last


def _kept(checked: Checked) -> tuple[Entry, ...]:
    found = _entries.get(checked)
    if found is None:
        found = _entries[checked] = tuple(entries(checked.decl, checked))
    return found


def entries(decl: S.Decl, checked: Checked | None) -> Iterator[Entry]:
    """What a declaration declares."""
    if isinstance(decl, S.Import):
        yield Entry(decl.name.text, Kind.MODULE, "", decl.span, decl.name.span)
    if isinstance(decl, S.Import | S.Sig):
        return
    children = tuple(_local(decl.body if isinstance(decl, S.Fun) else decl.value)) if isinstance(decl, S.Fun | S.Val) else ()
    for name, span in binds(decl):
        if "." in name:  # a function that a model is made into
            continue
        detail = ""
        kind = Kind.TYPE if isinstance(decl, S.TypeDecl) else Kind.FUNCTION if isinstance(decl, S.Fun) else Kind.VALUE
        if checked is not None and kind is not Kind.TYPE:
            scheme = checked.schemes.get(name)
            detail = signature(checked.state, scheme) if scheme is not None else ""
            kind = Kind.FUNCTION if is_function(checked, name) else kind
        yield Entry(name, kind, detail, decl.span, span, children)


def _local(e: S.Expr) -> Iterator[Entry]:
    """The declarations of the `let`s of an expression."""
    for node in _nodes(e):
        if isinstance(node, S.Let):
            for decl in node.decls:
                yield from entries(decl, None)


def _nodes(e: S.Expr) -> Iterator[S.Node]:
    """The expressions inside one, in order, without those inside declarations."""
    stack: list[object] = [e]
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += reversed(item)
        elif isinstance(item, S.Node) and not isinstance(item, S.Fun | S.Val | S.TypeDecl | S.Sig):
            yield item
            stack += [getattr(item, name) for name in reversed(item.__dataclass_fields__) if name not in ("span", "op_span")]


def folds(analysis: Analysis) -> Iterator[tuple[int, int, bool]]:
    """What can be folded: from and to which offset, and whether it is a comment."""
    for chunk, start in zip(analysis.chunks, analysis.starts, strict=True):
        for comment in chunk.lexed.comments:
            yield start + comment.start, start + min(comment.end, len(chunk.text)), True
        for decl in chunk.decls:
            yield start + decl.span.start, start + decl.span.end, False


def enclosing(analysis: Analysis, offset: int) -> list[tuple[int, int]]:
    """The pieces of syntax around an offset, from the smallest to the file, each larger than the one before."""
    chunk, local = analysis.chunk_at(offset)
    base = offset - local
    found: list[tuple[int, int]] = []
    stack: list[object] = list(chunk.decls)
    while stack:
        item = stack.pop()
        if isinstance(item, tuple):
            stack += item
        elif isinstance(item, S.Node | S.Name) and item.span.start <= local <= item.span.end:
            found.append((base + item.span.start, base + item.span.end))
            fields = item.__dataclass_fields__ if isinstance(item, S.Node) else ()
            stack += [getattr(item, name) for name in fields if name not in ("span", "op_span")]
    around = [*found, (base, base + len(chunk.text)), (0, len(analysis.text))]
    return sorted(set(around), key=lambda p: p[1] - p[0])
