"""Frozen data as plain data, and back: nodes as lists of numbers and texts, which JSON holds.

A node is a row, the number of its class in a table and then its fields; a field that is a node is the number of an earlier row. So
what is shared stays shared, and reading is one pass without recursion. How a field is written follows from its annotation in the
class (`Forms`). Whatever is read is held against that: a row of another class, form or length than the annotation says is
Malformed. Nothing is evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypeAlias, get_args, get_origin

from axon.base.data import dataclass, fields
from axon.base.element import Element
from axon.base.identity import IdentityMap
from axon.base.names import Symbol

_ATOMS = {"bool": bool, "int": int, "float": float, "str": str, "None": type(None)}


class Malformed(Exception):
    """Data that no writer has written."""


class NotPlain(Exception):
    """Something that cannot be kept."""


Row: TypeAlias = list[Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How values of an annotation are written and read; `takes` are their classes, of which a union chooses by."""

    write: Callable[[Any, Any], Any]
    read: Callable[[Any, Any], Any]
    takes: tuple[type, ...] = (object,)


class Forms:
    """The classes of some data, each with how its fields are written."""

    def __init__(
        self, own: Mapping[type, Kind], classes: Iterable[type], named: Callable[[type, str], object], special: Mapping[str, Kind]
    ) -> None:
        """`own` are classes whose rows are written in ways of their own; equal ones are one row. `named` is what a name in an
        annotation of a class stands for, `special` are annotations that are written in ways of their own."""
        self.own = own
        self.classes = (*own, *classes)
        self.number = {cls: n for n, cls in enumerate(self.classes, 1)}
        self._named, self._special = named, special
        self._kinds: dict[tuple[type, str], Kind] = {}
        self._known: dict[type, dict[str, Kind]] = {}
        self._reading: dict[int, tuple[tuple[str, ...], tuple[Callable[[Any, Any], Any], ...]]] = {}

    def of(self, cls: Any) -> Mapping[str, Kind]:
        """The fields of a class, and how each is written. Raises NotPlain for an annotation that has no form."""
        if cls not in self._known:
            self._known[cls] = {f.name: self._kind(cls, str(f.type)) for f in fields(cls) if f.init}
        return self._known[cls]

    def all(self) -> Mapping[type, Mapping[str, Kind]]:
        """The fields of every class that has some, for a test that each is known."""
        return {cls: self.of(cls) for cls in self.classes[len(self.own) :]}

    def reading(self, number: int) -> tuple[tuple[str, ...], tuple[Callable[[Any, Any], Any], ...]]:
        """Of a class: the fields that are given by name, which are its first, and how each field is read."""
        if number not in self._reading:
            cls: Any = self.classes[number - 1]
            keywords = tuple(f.name for f in fields(cls) if f.init and f.kw_only)
            form = self.of(cls)
            assert keywords == tuple(form)[: len(keywords)]
            self._reading[number] = keywords, tuple(kind.read for kind in form.values())
        return self._reading[number]

    def _kind(self, cls: type, text: str) -> Kind:
        if text in self._special:
            return self._special[text]
        if (cls, text) not in self._kinds:
            options = [self._option(cls, option) for option in _parts(text, "|")]
            self._kinds[cls, text] = options[0] if len(options) == 1 else _union(options)
        return self._kinds[cls, text]

    def _option(self, cls: type, text: str) -> Kind:
        found = re.fullmatch(r"(\w+)\[(.*)\]", text)
        if found is not None:
            inner = _parts(found[2], ",")
            kinds = [self._kind(cls, part) for part in inner if part != "..."]
            match found[1], inner:
                case "tuple", [_, "..."]:
                    return _many(kinds[0], tuple)
                case "tuple", _:
                    return _pair(kinds)
                case "Mapping", [_, _]:
                    pairs = _many(_pair(kinds), dict)
                    return Kind(lambda w, value: pairs.write(w, value.items()), pairs.read, (Mapping,))
                case "frozenset", [_]:
                    each = _many(kinds[0], frozenset)
                    return Kind(lambda w, value: each.write(w, sorted(value, key=_order)), each.read, (frozenset,))
        elif text in _ATOMS:
            return _atom(_ATOMS[text])
        else:
            named: Any = self._named(cls, text)
            if isinstance(named, str):
                return self._kind(cls, named)
            if named in self.number:
                return _node(named)
            if isinstance(named, Kind):
                return named
            if get_origin(named) is Literal:
                return _word(get_args(named))
        raise NotPlain(f"a field of {text}")


class Writer:
    """Rows for nodes."""

    forms: Forms

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self._numbers: IdentityMap[object, int] = IdentityMap()
        self._values: dict[Any, int] = {}  # … and of what is compared by value
        self._by_value = tuple(self.forms.own)

    def node(self, value: Any) -> int:
        """The number of the row of a value. Raises NotPlain."""
        known: Any = self._values if isinstance(value, self._by_value) else self._numbers
        number: int | None = known.get(value)
        if number is None:
            row = self._row(value)
            number = known[value] = len(self.rows)
            self.rows.append(row)
        return number

    def _row(self, value: Any) -> Row:
        cls = type(value)
        number = self.forms.number.get(cls)
        if number is None:
            raise NotPlain(f"a {cls.__name__}")
        if cls in self.forms.own:
            row: Row = self.forms.own[cls].write(self, value)
            row.insert(0, number)
            return row
        return [number, *(kind.write(self, getattr(value, name)) for name, kind in self.forms.of(cls).items())]


class Reader:
    """Nodes, from their rows."""

    forms: Forms
    refused: tuple[type[Exception], ...] = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)

    def __init__(self) -> None:
        self.made: list[Any] = []

    def read(self, rows: object) -> None:
        """Make the node of each row. Raises Malformed."""
        try:
            for row in as_list(rows):
                self.made.append(self._node(as_list(row)))
        except self.refused as error:  # what the classes raise for fields that make no node
            raise Malformed(str(error)) from error

    def node(self, number: object, wanted: type | tuple[type, ...]) -> Any:
        """A node that has been made, of a class that is wanted."""
        if type(number) is not int or not 0 <= number < len(self.made) or not isinstance(self.made[number], wanted):
            raise Malformed(f"no {wanted} is {number!r}")
        return self.made[number]

    def _node(self, row: Row) -> Any:
        number, *rest = row
        if type(number) is not int or number < 1:
            raise Malformed(f"no class {number!r}")
        cls = self.forms.classes[number - 1]
        if cls in self.forms.own:
            return self.forms.own[cls].read(self, rest)
        keywords, readers = self.forms.reading(number)
        values = [read(self, plain) for read, plain in zip(readers, rest, strict=True)]
        return cls(*values[len(keywords) :], **dict(zip(keywords, values, strict=False)))


def as_list(plain: object) -> list[Any]:
    """Raises Malformed for what is none."""
    if type(plain) is not list:
        raise Malformed(f"{plain!r} is no list")
    return plain


def _read_element(_: Reader, rest: Row) -> Element:
    (name,) = rest
    return Element(name)


ELEMENT = Kind(lambda _, element: [element.value], _read_element)


def never(cls: type) -> Kind:
    """Of what is in no data that are kept."""

    def refuse(_: object, value: object) -> Any:
        raise NotPlain(f"{value!r}")

    return Kind(refuse, refuse, (cls,))


# ── kinds ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def _node(cls: type) -> Kind:
    def read(r: Reader, plain: Any) -> Any:
        if type(plain) is int and plain >= 0:
            value = r.made[plain]
            if isinstance(value, cls):
                return value
        raise Malformed(f"no {cls.__name__} is {plain!r}")

    return Kind(lambda w, value: w.node(value), read, (cls,))


def _order(value: Symbol | Element) -> int | str:
    return value.id if isinstance(value, Symbol) else value.value


def _atom(cls: type) -> Kind:
    def read(_: Reader, plain: object) -> object:
        if type(plain) is not cls:
            raise Malformed(f"{plain!r} is no {cls.__name__}")
        return plain

    return Kind(lambda _, value: value, read, (cls,))


def _word(words: tuple[str, ...]) -> Kind:
    def read(_: Reader, plain: object) -> object:
        if plain not in words:
            raise Malformed(f"{plain!r} is none of {', '.join(words)}")
        return plain

    return Kind(lambda _, value: value, read, (str,))


def _many(kind: Kind, make: Callable[[Iterable[Any]], Any]) -> Kind:
    write, read = kind.write, kind.read
    return Kind(
        lambda w, values: [write(w, v) for v in values], lambda r, plain: make([read(r, p) for p in as_list(plain)]), (tuple,)
    )  # fmt: skip


def _pair(kinds: list[Kind]) -> Kind:
    return Kind(
        lambda w, values: [k.write(w, v) for k, v in zip(kinds, values, strict=True)],
        lambda r, plain: tuple(k.read(r, p) for k, p in zip(kinds, as_list(plain), strict=True)),
        (tuple,),
    )


def _union(options: list[Kind]) -> Kind:
    """One of several: nodes, atoms, and at most one that is a list."""
    atoms = tuple(cls for option in options for cls in option.takes if cls in _ATOMS.values())
    lists = [option for option in options if option.takes in ((tuple,), (Mapping,), (frozenset,))]
    nodes = tuple(cls for option in options for cls in option.takes if cls not in (*atoms, tuple, Mapping, frozenset))

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
    return Kind(write, read, (*atoms, *nodes))
