"""What lowering, planning and writing kernels made of a declaration, on disk, so that another process need not make it.

A file (`base.disk`) holds a program in core, the plans by which it ran and the texts of the functions that were launched, as plain
data (`base.plain`). It is written after a call whose machine code is kept too, and again when another call needed other functions.
Its key is a digest of all that decides what is made: the sources of the module and of what it imports, those of Axon, the
declaration, and the element types and ranks of its arguments. What is not there, not whole, or of another form is as if it were not
kept: it is made anew, and nothing is said.

Note [As if lowered]
    Symbols of the declaration's signature are found again in the scheme, since errors of contracts call sizes what the signature
    does. All others are new, as old among each other as they were, and younger than those. Places are in the files that were
    checked. What is read was verified before it was written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from axon.backend.cpu import function as F
from axon.backend.cpu.executable import WrittenProgram
from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.backend.plan import ir as P
from axon.base import disk
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol, fresh_numbers
from axon.base.plain import ELEMENT, Forms, Kind, Malformed, NotPlain, Reader, Writer
from axon.base.source import SourceFile, Span
from axon.core import ir as C
from axon.core.ir import Program
from axon.core.passes.orders import OrderChoice, Shape
from axon.shapes.contracts.contract import Contract, ContractFact, ParameterShape
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, Quotient
from axon.shapes.plain import DIM
from axon.shapes.relation import Relation

FOLDERS = ("core", "lower", "backend/plan", "backend/kernel", "backend/cpu")  # whose sources decide it, beside those of a check


@dataclass(frozen=True, slots=True)
class CachePlace:
    """Where what was made of a declaration is kept: by a key, which is of all that decides what is made. `files` are those that it
    was checked with, in an order that follows from the key, and `given` the symbols of its signature, likewise."""

    key: str
    files: Sequence[SourceFile]
    given: Callable[[], Sequence[Symbol]]


@dataclass(frozen=True, slots=True)
class Kept:
    """A program, the sums whose order sizes decide, and what was made for each order that was asked for."""

    program: Program
    choices: tuple[OrderChoice, ...]
    made: tuple[WrittenProgram, ...]


def find(place: CachePlace) -> Kept | None:
    """What was kept; None if it was not."""
    try:
        found = disk.read(_file(place), place.key)
        return None if found is None else _Reader(place).kept(json.loads(found[1]))
    except (disk.CannotKeep, Malformed, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None


def keep(place: CachePlace, kept: Kept) -> None:
    """Keep it, if that can be done."""
    with suppress(disk.CannotKeep, DimensionTooLarge, NotPlain, OSError, RecursionError):
        text = json.dumps(_Writer(place).kept(kept), separators=(",", ":"))
        disk.write(_file(place), place.key, {}, text.encode(), disk.limit())


def _file(place: CachePlace) -> Path:
    return disk.directory() / f"{place.key}.program"


class _Writer(Writer):
    def __init__(self, place: CachePlace) -> None:
        self.forms = FORMS
        super().__init__()
        self.files = {file: n for n, file in enumerate(place.files)}
        self.given = {symbol: n for n, symbol in enumerate(place.given())}
        self.own: dict[Symbol, list[Any]] = {}  # as they are met, with their rows

    def kept(self, kept: Kept) -> dict[str, Any]:
        number = self.node(kept)
        own = sorted(self.own, key=lambda symbol: symbol.id)
        used = [symbol.id for symbol in self._values if isinstance(symbol, Symbol) and symbol in self.given]
        if own and own[0].id < max(used, default=0):
            raise NotPlain("a symbol that is older than the signature's")
        for n, symbol in enumerate(own):
            self.own[symbol][1] = n
        return {"symbols": [symbol.name for symbol in own], "rows": self.rows, "kept": number}

    def symbol(self, symbol: Symbol) -> list[Any]:
        if symbol in self.given:
            return [self.given[symbol], True]
        return self.own.setdefault(symbol, [0])  # its number is known when all are

    def span(self, span: Span) -> list[Any]:
        if span.file not in self.files:
            raise NotPlain(f"a place in {span.file.path}")
        return [self.files[span.file], span.start, span.end]


class _Reader(Reader):
    refused = (*Reader.refused, DimensionTooLarge)

    def __init__(self, place: CachePlace) -> None:
        super().__init__()
        self.forms = FORMS
        self.place = place
        self.own: list[Symbol] = []
        self.given: Sequence[Symbol] = ()

    def kept(self, part: Any) -> Kept:
        """Raises Malformed."""
        names = part["symbols"]
        if type(names) is not list or not all(type(name) is str for name in names):
            raise Malformed("a name")
        self.given = self.place.given()  # which are made before those of the program
        self.own = [Symbol(name, number) for name, number in zip(names, fresh_numbers(len(names)), strict=True)]
        self.read(part["rows"])
        found: Kept = self.node(part["kept"], Kept)
        return found

    def symbol(self, rest: list[Any]) -> Symbol:
        number, *given = rest
        if type(number) is not int or number < 0 or given not in ([], [True]):
            raise Malformed(f"no symbol {rest}")
        return (self.given if given else self.own)[number]

    def span(self, rest: list[Any]) -> Span:
        number, start, end = rest
        if any(type(n) is not int for n in rest) or number < 0:
            raise Malformed(f"no place {rest}")
        file = self.place.files[number]
        if not 0 <= start <= end <= len(file.text):
            raise Malformed(f"no place {rest}")
        return Span(file, start, end)


# ── forms ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _tree(plain: object) -> Any:
    """An order of multiplications: the number of a factor, or two of them."""
    match plain:
        case int() if type(plain) is int and plain >= 0:
            return plain
        case [left, right]:
            return _tree(left), _tree(right)
    raise Malformed(f"no order {plain!r}")


def _named(cls: type, name: str) -> object:
    """What a name stands for in an annotation of a class: what it does in its module."""
    return vars(sys.modules[cls.__module__]).get(name)


# The classes of what is kept.
FORMS = Forms(
    {Symbol: Kind(_Writer.symbol, _Reader.symbol), Span: Kind(_Writer.span, _Reader.span), Element: ELEMENT, Dim: DIM},
    (
        Quotient, Minimum, Relation, Contract, ContractFact, ParameterShape,
        C.Const, C.Index, C.Local, C.Read, C.Unary, C.Binary, C.Select, C.Convert, C.Bind, C.Value, C.Axis, C.Monoid, C.Reduction,
        C.Compute, C.Scan, C.Loop, C.Sort, C.Compress, C.Check, C.Block, C.Leaf, C.TupleOf, C.RecordOf, C.Param, C.Known, C.Program,
        P.Reason, P.Divided, P.Slices, P.Nest, P.Factor, P.Contraction, P.Repeat, P.Whole, P.Kernels, P.Plan,
        PointerParameter, F.BufferParameter, ExtentParameter, F.LanesParameter, F.WorkAmount, F.Function, F.LoopFunction,
        Shape, OrderChoice, WrittenProgram, Kept,
    ),
    _named,
    {"Tree": Kind(lambda _, tree: tree, lambda _, plain: _tree(plain))},
)  # fmt: skip
