"""What a check has made as plain data, and back: the nodes of schemes and typed declarations as lists of numbers and texts.

A node is a row, the number of its class in a table and then its fields; a field that is a node is the number of an earlier row. So
what is shared stays shared, and reading is one pass without recursion. How a field is written follows from its annotation in the
class. Whatever is read is held against that: a row of another class, form or length than the annotation says is Malformed.

What the checker's state knows is put in, so that what is read needs no state: except what shape variables that stand alone are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any

from axon.base.data import dataclass, fields
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol
from axon.base.source import SourceFile, Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Context
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, Quotient
from axon.shapes.relation import Relation
from axon.types import type as Y
from axon.types import typed as T
from axon.types.resolve import ValueName
from axon.types.unify import State

# The classes of what is kept; a row names one by its place here, counted from 1. The first four are written in ways of their own.
CLASSES: tuple[type, ...] = (
    Symbol, Span, Element, Dim,
    Quotient, Minimum, Relation, Context, ValueName,
    Y.ElementVar, Y.Row, Y.TypeVar, Y.Tensor, Y.Function, Y.TupleType, Y.Written, Y.RecordType, Y.Exists,
    Y.SchemeFact, Y.SchemeLiteral, Y.OrScalar, Y.Scheme,
    T.Instance, T.Literal, T.Dimension, T.Variable, T.Builtin, T.Call, T.Unary, T.Binary, T.MatMul, T.Tuple, T.Record, T.Field,
    T.Project, T.At, T.Run, T.Keep, T.Slice, T.Access, T.Cast, T.Coerce, T.Let, T.Fn, T.If, T.Indices, T.For, T.Reduce, T.Loop,
    T.Array, T.Open, T.PatternName, T.PatternTuple, T.PatternRecord, T.Val, T.Fun,
    S.Name, S.DimName, S.DimInt, S.DimNegate, S.DimBinary, S.DimCall, S.ShapeRun, S.TypeName, S.TypeVar, S.TypeFun, S.TypeDimFun,
    S.TypeExists, S.TypeOrScalar, S.TypeTuple, S.TypeRecord, S.TypeDecl,
)  # fmt: skip
_NUMBER = {cls: n for n, cls in enumerate(CLASSES, 1)}
_ATOMS = {"bool": bool, "int": int, "float": float, "str": str, "None": type(None)}


class Malformed(Exception):
    """Data that no writer has written."""


class NotPlain(Exception):
    """Something that cannot be kept: it is no part of one module."""


class Writer:
    """Rows for the nodes of one part of a module."""

    def __init__(self, state: State, source: SourceFile, foreign: Mapping[Symbol, tuple[str, str, int]]) -> None:
        """`foreign` are the symbols of what is imported: of which module, in which of its names, and at which place there."""
        self.state, self.source, self.foreign = state, source, foreign
        self.rows: list[list[Any]] = []
        self.symbols: dict[Symbol, list[Any]] = {}  # the module's own, as they are met, with their rows
        self.alone: dict[Y.Row, Y.Shape] = {}  # shape variables that stand in no shape, and what they are
        self._numbers: IdentityMap[object, int] = IdentityMap()
        self._values: dict[Symbol | Element | Dim, int] = {}  # … and of what is compared by value

    def node(self, value: Any) -> int:
        """The number of the row of a value."""
        match value:
            case Y.TypeVar():
                value = self.state.prune(value)
            case Y.ElementVar():
                value = self.state.element(value)
            case Dim():
                value = self.state.dimension(value)
            case Y.Row() if value.symbol in self.state.rows:
                self.alone[value] = self.state.shape((value,))
        known = self._values if isinstance(value, Symbol | Element | Dim) else self._numbers
        if value not in known:
            row = self._row(value)
            known[value] = len(self.rows)
            self.rows.append(row)
        return known[value]

    def _row(self, value: Any) -> list[Any]:
        number = _NUMBER.get(type(value))
        match value:
            case Symbol():
                return self._symbol(value)
            case Span(file, start, end):
                if file is not self.source:
                    raise NotPlain(f"a place in {file.path}")
                return [number, start, end]
            case Element():
                return [number, value.value]
            case Dim():
                return [number, *([c, *(self.node(atom) for atom in monomial)] for monomial, c in value.mapping.items())]
        if number is None:
            raise NotPlain(f"a {type(value).__name__}")
        return [number, *(kind.write(self, getattr(value, name)) for name, kind in _form(number).items())]

    def _symbol(self, symbol: Symbol) -> list[Any]:
        if symbol in self.foreign:
            return [_NUMBER[Symbol], *self.foreign[symbol]]
        self.symbols[symbol] = [_NUMBER[Symbol], 0]  # its number is known when all are
        return self.symbols[symbol]

    def shape(self, shape: Y.Shape) -> list[int]:
        return [self.node(item) for item in self.state.shape(shape)]

    def alias(self, decl: S.TypeDecl) -> str:
        name = self.state.aliases.get(decl)
        if name is None:
            raise NotPlain(f"the type {decl.name.text}, which has no name here")
        return name


class Reader:
    """The nodes of one part of a module, from their rows."""

    def __init__(
        self, source: SourceFile, own: Callable[[int], Symbol], foreign: Callable[[str, str, int], Symbol],
        alias: Callable[[str], S.TypeDecl],
    ) -> None:  # fmt: skip
        """With what the numbers of symbols and the names of types stand for."""
        self.source, self.own, self.foreign, self.alias = source, own, foreign, alias
        self.made: list[Any] = []

    def read(self, rows: object) -> None:
        """Make the node of each row. Raises Malformed."""
        try:
            for row in _list(rows):
                self.made.append(self._node(_list(row)))
        except (ArithmeticError, AttributeError, DimensionTooLarge, LookupError, TypeError, ValueError) as error:
            raise Malformed(str(error)) from error

    def node(self, number: object, wanted: type | tuple[type, ...]) -> Any:
        """A node that has been made, of a class that is wanted."""
        if type(number) is not int or not 0 <= number < len(self.made) or not isinstance(self.made[number], wanted):
            raise Malformed(f"no {wanted} is {number!r}")
        return self.made[number]

    def shape(self, plain: object) -> Y.Shape:
        return tuple(self.node(item, (Dim, Y.Row)) for item in _list(plain))

    def _node(self, row: list[Any]) -> Any:
        number, *rest = row
        if type(number) is not int or number < 1:
            raise Malformed(f"no class {number!r}")
        cls = CLASSES[number - 1]
        if cls is Symbol:
            return self.own(*rest) if len(rest) == 1 else self.foreign(*rest)
        if cls is Span:
            start, end = rest
            if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(self.source.text):
                raise Malformed(f"no place {rest}")
            return Span(self.source, start, end)
        if cls is Element:
            (name,) = rest
            return Element(name)
        if cls is Dim:
            terms = {tuple(self.node(atom, (Symbol, Quotient, Minimum)) for atom in atoms): c for c, *atoms in map(_list, rest)}
            if len(terms) != len(rest) or not all(type(c) is int and c for c in terms.values()):
                raise Malformed(f"no dimension {rest}")
            return Dim(terms)
        keywords, readers = _reading(number)
        values = [read(self, plain) for read, plain in zip(readers, rest, strict=True)]
        return cls(*values[len(keywords) :], **dict(zip(keywords, values, strict=False)))


def _list(plain: object) -> list[Any]:
    if type(plain) is not list:
        raise Malformed(f"{plain!r} is no list")
    return plain


# ── fields ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Kind:
    """How values of an annotation are written and read; `takes` are their classes, of which a union chooses by."""

    write: Callable[[Writer, Any], Any]
    read: Callable[[Reader, Any], Any]
    takes: tuple[type, ...] = (object,)


@cache
def _form(number: int) -> dict[str, _Kind]:
    """The fields of a class, and how each is written."""
    cls: Any = CLASSES[number - 1]
    return {f.name: _kind(str(f.type), cls.__module__ == S.__name__) for f in fields(cls) if f.init}


@cache
def _reading(number: int) -> tuple[tuple[str, ...], tuple[Callable[[Reader, Any], Any], ...]]:
    """Of a class: the fields that are given by name, which are its first, and how each field is read."""
    cls: Any = CLASSES[number - 1]
    keywords = tuple(f.name for f in fields(cls) if f.init and f.kw_only)
    form = _form(number)
    assert keywords == tuple(form)[: len(keywords)]
    return keywords, tuple(kind.read for kind in form.values())


def forms() -> Mapping[type, Mapping[str, Any]]:
    """The fields of every class that has some, for a test that each is known."""
    return {cls: _form(_NUMBER[cls]) for cls in CLASSES[4:]}


@cache
def _kind(text: str, syntax: bool) -> _Kind:
    """How a field of an annotation is written; names are those of surface syntax, or of types and typed syntax."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    options = [_option(option, syntax) for option in _parts(text, "|")]
    return options[0] if len(options) == 1 else _union(options)


def _parts(text: str, separator: str) -> list[str]:
    """A text cut where a separator stands in no brackets."""
    out, depth = [""], 0
    for c in text:
        depth += (c == "[") - (c == "]")
        if c == separator and not depth:
            out.append("")
        else:
            out[-1] += c
    return [part.strip() for part in out]


def _option(text: str, syntax: bool) -> _Kind:
    found = re.fullmatch(r"(\w+)\[(.*)\]", text)
    if found is not None:
        inner = _parts(found[2], ",")
        kinds = [_kind(part, syntax) for part in inner if part != "..."]
        match found[1], inner:
            case "tuple", [_, "..."]:
                return _many(kinds[0], tuple)
            case "tuple", _:
                return _pair(kinds)
            case "Mapping", [_, _]:
                pairs = _many(_pair(kinds), dict)
                return _Kind(lambda w, value: pairs.write(w, value.items()), pairs.read, (Mapping,))
            case "frozenset", [_]:
                each = _many(kinds[0], frozenset)
                return _Kind(lambda w, value: each.write(w, sorted(value, key=_order)), each.read, (frozenset,))
    elif text in _ATOMS:
        return _atom(_ATOMS[text])
    else:
        named = vars(S).get(text) if syntax else vars(T).get(text) or vars(Y).get(text) or _OTHERS.get(text)
        if isinstance(named, str):
            return _kind(named, syntax)
        if named in _NUMBER:
            return _node(named)
        if named is Y.Poison:  # there is none in what has no errors
            return _Kind(_never, _never, (Y.Poison,))
    raise NotPlain(f"a field of {text}")


def _node(cls: type) -> _Kind:
    def read(r: Reader, plain: Any) -> Any:
        if type(plain) is int and plain >= 0:
            value = r.made[plain]
            if isinstance(value, cls):
                return value
        raise Malformed(f"no {cls.__name__} is {plain!r}")

    return _Kind(lambda w, value: w.node(value), read, (cls,))


def _never(_: object, value: object) -> Any:
    raise NotPlain(f"{value!r}")


_OTHERS: dict[str, type] = {cls.__name__: cls for cls in (Symbol, Span, Element, Dim, Quotient, Minimum, Relation, Context)}


def _order(value: Symbol | Element) -> int | str:
    return value.id if isinstance(value, Symbol) else value.value


def _atom(cls: type) -> _Kind:
    def read(_: Reader, plain: object) -> object:
        if type(plain) is not cls:
            raise Malformed(f"{plain!r} is no {cls.__name__}")
        return plain

    return _Kind(lambda _, value: value, read, (cls,))


def _many(kind: _Kind, make: Callable[[Iterable[Any]], Any]) -> _Kind:
    write, read = kind.write, kind.read
    return _Kind(
        lambda w, values: [write(w, v) for v in values], lambda r, plain: make([read(r, p) for p in _list(plain)]), (tuple,)
    )  # fmt: skip


def _pair(kinds: list[_Kind]) -> _Kind:
    return _Kind(
        lambda w, values: [k.write(w, v) for k, v in zip(kinds, values, strict=True)],
        lambda r, plain: tuple(k.read(r, p) for k, p in zip(kinds, _list(plain), strict=True)),
        (tuple,),
    )


def _union(options: list[_Kind]) -> _Kind:
    """One of several: nodes, atoms, and at most one that is a list."""
    atoms = tuple(cls for option in options for cls in option.takes if cls in _ATOMS.values())
    lists = [option for option in options if option.takes in ((tuple,), (Mapping,), (frozenset,))]
    nodes = tuple(cls for option in options for cls in option.takes if cls in _NUMBER)

    def write(w: Writer, value: Any) -> Any:
        if isinstance(value, atoms):
            return value
        return lists[0].write(w, value) if lists and isinstance(value, lists[0].takes) else w.node(value)

    def read(r: Reader, plain: Any) -> Any:
        if type(plain) in atoms:
            return plain
        return lists[0].read(r, plain) if lists and type(plain) is list else r.node(plain, nodes)

    assert len(lists) < 2, options
    assert not nodes or int not in atoms, options  # a number would be either
    return _Kind(write, read, (*atoms, *nodes))


class NotKept:
    """Stands for the definition of a scheme, which is not kept: the scheme that a module makes available has one."""

    def whole(self) -> Any:
        raise AssertionError("no definition was kept with a scheme")

    written = whole


_SPECIAL = {
    "Shape": _Kind(Writer.shape, Reader.shape, (tuple,)),
    "S.TypeDecl": _Kind(Writer.alias, lambda r, plain: r.alias(plain)),
    "Definition | None": _Kind(lambda _, definition: definition is not None, lambda _, plain: NotKept() if plain else None),
}
