"""Changes of the syntax tree of a file, written back as edits of its text.

A changed tree is made of nodes of the file and of new ones, whose place is `NEW`. New ones are printed as the formatter does it,
with the parentheses that they need where they stand; those of the file are copied as they were written, with their layout and
comments. So whoever changes a program says what is to stand where, and never how that is spelt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import cache, cached_property
from typing import Any, TypeVar, assert_never, cast

from axon.base.data import fields, replace
from axon.base.diagnostics import Edit
from axon.base.identity import IdentityMap
from axon.base.source import SourceFile, Span, once
from axon.grammar import printer
from axon.grammar import syntax as s
from axon.grammar.doc import Comment, Doc, Fresh, Group, Headed, Hug, Line, Nest, Placed
from axon.grammar.lexer import blanked
from axon.grammar.parse import parse, parse_expression, parse_type

NEW = SourceFile("", "").span()  # the place of what is not in the file
Change = tuple[s.Node, s.Node]  # a node of the file, and what is to stand in its place
Piece = tuple[str, Span | None]  # a piece of text, and the place in a file that it is a copy of
N = TypeVar("N", bound=s.Node)
_ONE_WORD = re.compile(r"'?[A-Za-z]\w*")
_WORD = re.compile(r"[\w.]+|=>|\|>|[^\w\s]")


class NotWritten(LookupError):
    """A place of a program at which no such node is written."""


def made(node: N, **parts: Any) -> N:
    """A node of the file with other parts."""
    return replace(node, span=NEW, **parts)


def name(text: str) -> s.Name:
    return s.Name(text, NEW)


def var(text: str) -> s.Expr:
    """A name, or one of a module: `linalg.transpose`."""
    owner, _, member = text.rpartition(".")
    return s.Field(var(owner), name(member), span=NEW) if owner else s.Var(text, span=NEW)


def quoted(text: str, **parts: s.Node) -> s.Expr:
    """The expression of a text, in which nodes stand for some names. Raises NotWritten for a text that is none."""
    return cast("s.Expr", _filled(parse_expression(_quotation(text))[0], parts))


def quoted_type(text: str) -> s.Type:
    """The type of a text. Raises NotWritten for a text that is none."""
    if _ONE_WORD.fullmatch(text):  # an element type, as most are
        return s.TypeVar(text, None, span=NEW) if text[0] == "'" else s.TypeName((name(text),), None, span=NEW)
    return cast("s.Type", _filled(parse_type(_quotation(text))[0], {}))


def quoted_dim(text: str, **parts: s.Node) -> s.Dim:
    (size,) = cast("s.TypeName", _filled(parse_type(_quotation(f"f32[{text}]"))[0], parts)).args or ()
    return cast("s.Dim", size)


def _quotation(text: str) -> SourceFile:
    return SourceFile("", text)


def _filled(part: Any, parts: Mapping[str, s.Node]) -> Any:
    """What was read of a text, as new."""
    match part:
        case None:
            raise NotWritten
        case tuple():
            return tuple(_filled(p, parts) for p in part)
        case s.Var(name=of) | s.DimName(name=of) if of in parts:
            return parts[of]
        case s.Node():
            values = {f.name: getattr(part, f.name) for f in fields(part) if f.name not in _PLACES}
            return made(part, **{n: v if v is None else _filled(v, parts) for n, v in values.items()})
    return part


def call(function: s.Expr, *arguments: s.Expr) -> s.Expr:
    for argument in arguments:
        function = s.Apply(function, argument, span=NEW)
    return function


@once
def tree(file: SourceFile) -> Tree:
    """The tree of a file that is being looked at."""
    return Tree(file)


class Tree:
    """The nodes of a file by their places, and what is around each."""

    def __init__(self, file: SourceFile) -> None:
        self.file = file
        self.decls = parse(file)[0].decls
        self._waiting = list(self.decls)  # of which nobody has asked anything
        self._at: dict[tuple[int, int], list[s.Node]] = {}
        self._around = IdentityMap[s.Node, s.Node]()

    @cached_property
    def text(self) -> str:
        """The text of the file with its comments blanked."""
        return blanked(self.file)

    # ── looking up ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def at(self, span: Span, kind: type[N]) -> N:
        """The node of a kind at a place. Raises NotWritten."""
        self._reach(span.start, span.end)
        found = self._at.get((span.start, span.end), ()) if span.file is self.file else ()
        for node in reversed(found):
            if isinstance(node, kind):
                return node
        raise NotWritten(span)

    def beginning(self, start: int, kind: type[N]) -> N:
        """The largest node of a kind that begins at an offset. Raises NotWritten."""
        self._reach(start, start)
        at_offset = [n for (begin, _), nodes in self._at.items() if begin == start for n in nodes if isinstance(n, kind)]
        return self._largest(at_offset, start)

    def ending(self, end: int, kind: type[N]) -> N:
        """The largest node of a kind that ends at an offset. Raises NotWritten."""
        self._reach(end, end)
        at_offset = [n for (_, stop), nodes in self._at.items() if stop == end for n in nodes if isinstance(n, kind)]
        return self._largest(at_offset, end)

    def _largest(self, nodes: list[N], at: int) -> N:
        if not nodes:
            raise NotWritten(at)
        return max(nodes, key=lambda n: n.span.end - n.span.start)

    def declaration(self, span: Span) -> s.Decl:
        """The declaration of the file around a place. Raises NotWritten."""
        for decl in self.decls:
            if span.file is self.file and decl.span.start <= span.start and span.end <= decl.span.end:
                return decl
        raise NotWritten(span)

    def has_import(self, module: str) -> bool:
        return any(isinstance(d, s.Import) and d.name.text == module for d in self.decls)

    def expr(self, span: Span) -> s.Expr:
        """The expression at a place. Raises NotWritten where a pattern binds a name there, or a type is written."""
        found = self.at(span, s.Node)
        if not isinstance(found, _EXPRESSIONS):
            raise NotWritten(span)
        return found

    def around(self, node: s.Node, kind: type[N]) -> N:
        """The innermost node of a kind around one. Raises NotWritten."""
        for outer in self._outwards(node):
            if isinstance(outer, kind):
                return outer
        raise NotWritten(node.span)

    def within(self, span: Span) -> Iterator[s.Node]:
        """The nodes at a place, and those in them."""
        stack = [self.at(span, s.Node)]
        while stack:
            yield (node := stack.pop())
            stack += parts_of(node)

    def enclosing(self, span: Span) -> list[s.Node]:
        """The nodes around a place, the outermost first; none outside declarations."""
        try:
            here: s.Node | None = self.declaration(span)
        except NotWritten:
            return []
        found: list[s.Node] = []
        while here is not None:
            found.append(here)
            here = next((n for n in parts_of(here) if n.span.start <= span.start and span.end <= n.span.end), None)
        return found

    def outer(self, node: s.Node) -> s.Node | None:
        """What a node is a part of."""
        return self._around.get(node)

    def _outwards(self, node: s.Node) -> Iterator[s.Node]:
        while (outer := self._around.get(node)) is not None:
            yield outer
            node = outer

    def _reach(self, start: int, end: int) -> None:
        """Have read the declarations around a stretch of the text."""
        for decl in [d for d in self._waiting if d.span.start <= start and end <= d.span.end]:
            self._waiting.remove(decl)
            self._read(decl)

    def _read(self, decl: s.Decl) -> None:
        stack: list[tuple[s.Node, s.Node | None]] = [(decl, None)]
        while stack:
            node, outer = stack.pop()
            self._at.setdefault((node.span.start, node.span.end), []).append(node)
            if outer is not None:
                self._around[node] = outer
            stack += [(part, node) for part in parts_of(node)]

    def enclosed(self, node: s.Node) -> Span:
        """The place of a node with the parentheses that stand around it alone."""
        outer = self._around.get(node)
        span = node.span
        while outer is not None:
            before, after = span.start, span.end
            while before > outer.span.start and self.text[before - 1].isspace():
                before -= 1
            while after < min(outer.span.end, len(self.text)) and self.text[after].isspace():
                after += 1
            if before == outer.span.start or self.text[before - 1] != "(" or not self.text.startswith(")", after, outer.span.end):
                break
            span = Span(self.file, before - 1, after + 1)
        return span

    # ── writing ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def edits(self, *changes: Change) -> tuple[Edit, ...]:
        """The edits of some changes: each puts a whole node in the place of another."""
        return tuple(Edit(old.span, self._standing(old, new)) for old, new in changes)

    def grown(self, old: s.Node, new: s.Node) -> tuple[Edit, ...]:
        """The edits of a change that leaves parts of a node as they were: of what stands between those."""
        out: list[Edit] = []
        whole, at, text = old.span, old.span.start, ""
        around = self._needs_parentheses(old, new) and self.enclosed(old) == whole
        inside = self._pieces(new, None, old)
        pieces: list[Piece] = [("(", None), *inside, (")", None)] if around else inside
        for piece, kept in pieces:
            if kept is None or kept.file is not self.file or kept.start < at or kept.end > whole.end:
                text += piece
                continue
            out += self._between(at, kept.start, text)
            at, text = kept.end, ""
        out += self._between(at, whole.end, text)
        return tuple(out)

    def _between(self, start: int, end: int, new: str) -> Iterator[Edit]:
        """The edit, if any, that makes a stretch of the file another text: of the words that differ, whatever the spaces."""
        if self.text[start:end].strip() == new.strip():  # as is most of what grows
            return
        before, after = list(_WORD.finditer(self.text, start, end)), list(_WORD.finditer(new))
        if [m[0] for m in before] == [m[0] for m in after]:
            return
        same = _alike(before, after)
        last = _alike(before[same:][::-1], after[same:][::-1])
        first, begin = (before[same - 1].end(), after[same - 1].end()) if same else (start, 0)
        until, stop = (before[-last].start(), after[-last].start()) if last else (end, len(new))
        put = new[begin:stop]
        if not self.text[first:until].strip() and self.file.text[first:until].strip():  # a comment stays
            first, put = until, put.lstrip()
        yield Edit(Span(self.file, first, until), put)

    def shown(self, node: s.Node, changes: tuple[Change, ...] = (), most: int | None = None) -> str:
        """A node after some changes on one line; of what is in the file, so many characters."""
        return " ".join(self.written(self.applied(node, changes), most).split())

    def applied(self, node: s.Node, changes: tuple[Change, ...]) -> s.Node:
        """A node after changes of what stands in it."""
        if not changes:
            return node
        news = IdentityMap(changes)
        touched = IdentityMap((outer, None) for old, _ in changes for outer in (old, *self._outwards(old)))

        def walk(part: Any) -> Any:
            if isinstance(part, tuple):
                return tuple(map(walk, part))
            if part in news:
                return news[part]
            if part not in touched:
                return part
            return made(part, **{f.name: walk(getattr(part, f.name)) for f in fields(part) if f.name not in _PLACES})

        return cast("s.Node", walk(node))

    def written(self, node: s.Node, most: int | None = None, old: s.Node | None = None) -> str:
        """The text of a node; in the place of an `old` one, whose parentheses stay around it."""
        if node.span is not NEW:
            return self._copied(node, most)
        return "".join(text for text, _ in self._pieces(node, most, old))

    def _pieces(self, node: s.Node, most: int | None, old: s.Node | None) -> list[Piece]:
        return _pieces(printed(node), lambda part, enclosed: self._placed(part, enclosed, most, part is old))

    def _placed(self, node: s.Node, enclosed: bool, most: int | None, bare: bool) -> list[Piece]:
        """A node of the file as it was written, in the parentheses that it has or needs."""
        if node.span is NEW:
            return []
        text = self._copied(node, most)
        place = node.span if bare else self.enclosed(node)
        if place != node.span:
            return [(f"({text})", place)]
        return [("(", None), (text, place), (")", None)] if enclosed else [(text, place)]

    def _copied(self, node: s.Node, most: int | None) -> str:
        text = node.span.text
        if most is None:
            return text
        text = " ".join(text.split())
        return text if len(text) <= most else text[: most - 1] + "…"

    def _standing(self, old: s.Node, new: s.Node) -> str:
        """The text of a new node in the place of an old one: in parentheses, if it needs some and there are none."""
        text = self.written(new, None, old)
        return f"({text})" if self._needs_parentheses(old, new) and self.enclosed(old) == old.span else text

    def _needs_parentheses(self, old: s.Node, new: s.Node) -> bool:
        """Whether a node needs parentheses where another stands, by what is around that."""
        if isinstance(new, _ATOMS) or old not in self._around:
            return False
        stack = [self._printed_in_place(old, new)]
        while stack:
            match stack.pop():
                case Placed(node=node, doc=doc, enclosed=enclosed):
                    if node is new:
                        return enclosed
                    stack.append(doc)
                case tuple() as parts:
                    stack += parts
                case Nest(doc=doc) | Group(doc=doc) | Hug(doc=doc):
                    stack.append(doc)
                case Headed(head=head, body=body):
                    stack += (head, body)
        return False

    def _printed_in_place(self, old: s.Node, new: s.Node) -> Doc:
        """A node in the place of another, with what is around that as far as it matters for parentheses."""
        inner, outer = old, new
        for around in self._outwards(old):
            if isinstance(around, s.Fun | s.Fn) and isinstance(new, s.PatternTyped):  # whatever other parameters there are
                return printer.param(new)
            inner, outer = around, _with(around, inner, outer)
            if isinstance(around, s.Val | s.Fun) or not _ends_open(new):  # what extends to the right may meet what is farther out
                break
        return printed(outer)


_PLACES = ("span", "op_span")
_ATOMS = (
    s.Var, s.Int, s.Float, s.Access, s.Tuple, s.Array, s.DimName, s.DimInt, s.ShapeRun,
    s.IndexAt, s.IndexSplit, s.IndexRun, s.IndexRest, s.IndexSlice, s.IndexBinder, s.ProductBinder,
)  # fmt: skip
_BLANK = s.Var("_", span=NEW)


def parts_of(node: s.Node) -> list[s.Node]:
    """The nodes that a node is made of, from the last to the first."""
    found: list[s.Node] = []
    stack: list[object] = [getattr(node, name) for name in _written_fields(cast("Any", type(node)))]
    while stack:
        part = stack.pop()
        if isinstance(part, s.Node):
            found.append(part)
        elif isinstance(part, tuple):
            stack += part
    return found


@cache
def _written_fields(kind: Any) -> tuple[str, ...]:
    """The fields of a kind of node in which others may stand."""
    return tuple(f.name for f in fields(kind) if f.name not in _PLACES and f.type not in ("str", "int", "float", "bool"))


def _ends_open(node: s.Node) -> bool:
    """Whether a node ends with what extends as far to the right as it can."""
    while isinstance(node, s.Binary | s.Unary):
        node = node.right if isinstance(node, s.Binary) else node.operand
    return isinstance(node, s.For | s.Reduce | s.Fn | s.If | s.Loop)


def _with(around: s.Node, inner: s.Node, new: s.Node) -> s.Node:
    """A node with one part replaced, and blanks for the other expressions in it."""

    def walk(part: Any) -> Any:
        if part is inner:
            return new
        if isinstance(part, tuple):
            return tuple(map(walk, part))
        return _BLANK if isinstance(part, _EXPRESSIONS) else part

    return made(around, **{name: walk(getattr(around, name)) for name in _written_fields(cast("Any", type(around)))})


_EXPRESSIONS = (
    s.Var, s.Int, s.Float, s.Operator, s.Apply, s.ApplyDims, s.Unary, s.Binary, s.Tuple, s.Record, s.Field, s.Project, s.Access,
    s.Ascribe, s.Coerce, s.Cast, s.Let, s.Fn, s.If, s.For, s.Reduce, s.Loop, s.Array,
)  # fmt: skip


def printed(node: s.Node) -> Doc:
    """What the printer makes of a node of any kind."""
    match node:
        case s.Val() | s.Fun() | s.TypeDecl() | s.Sig() | s.Import():
            return printer.declaration(node)
        case s.DimName() | s.DimInt() | s.DimNegate() | s.DimBinary() | s.DimCall():
            return printer.dim(node)
        case s.PatternName() | s.PatternTuple() | s.PatternRecord() | s.PatternTyped():
            return printer.pattern(node)
        case s.BinderGroup():
            return printer.group(node)
        case s.IndexAt() | s.IndexSplit() | s.IndexRun() | s.IndexRest() | s.IndexSlice():
            return printer.subscript(node)
        case s.ShapeRun():
            return printer.type_arg(node)
        case s.TypeName() | s.TypeVar() | s.TypeTuple() | s.TypeRecord() | s.TypeOrScalar():
            return printer.type_(node)
        case s.TypeFun() | s.TypeDimFun() | s.TypeExists():
            return printer.type_(node)
        case _:
            return printer.expr(cast("s.Expr", node))


def _alike(one: list[re.Match[str]], other: list[re.Match[str]]) -> int:
    """How many words two texts begin with alike."""
    pairs = zip(one, other, strict=False)
    return next((n for n, (a, b) in enumerate(pairs) if a[0] != b[0]), min(len(one), len(other)))


def _pieces(doc: Doc, copied: Callable[[s.Node, bool], list[Piece]]) -> list[Piece]:
    """A document on one line, with copies of nodes that stand in the file."""
    out: list[Piece] = []
    stack: list[Doc] = [doc]
    while stack:
        match part := stack.pop():
            case str() as text:
                out.append((text, None))
            case tuple() as parts:
                stack += reversed(parts)
            case Placed(node=node, doc=inner, enclosed=enclosed):
                copy = copied(node, enclosed)
                out += copy
                if not copy:
                    stack.append(inner)
            case Line(flat=flat):
                out.append((flat, None))
            case Nest(doc=inner) | Group(doc=inner):
                stack.append(inner)
            case Hug(doc=inner):
                stack += (inner, " ")
            case Headed(head=head, body=body):
                stack += (body, head)
            case Fresh() | Comment():
                out.append((" ", None))
            case _:
                assert_never(part)
    return out
