"""What a check has made as plain data, and back (`base.plain`): the nodes of schemes and typed declarations.

What the checker's state knows is put in, so that what is read needs no state: except what shape variables that stand alone are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.plain import ELEMENT, Forms, Kind, Malformed, NotPlain, as_list, never
from axon.base.plain import Reader as PlainReader
from axon.base.plain import Writer as PlainWriter
from axon.base.source import SourceFile, Span
from axon.chance.model import Model, Site, Unsummed
from axon.grammar import syntax as S
from axon.shapes.constraint import Context
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, Quotient
from axon.shapes.plain import DIM
from axon.shapes.relation import Relation
from axon.types import type as Y
from axon.types import typed as T
from axon.types.resolve import ModelName, ValueName
from axon.types.unify import State

__all__ = ["FORMS", "Malformed", "NotPlain", "Reader", "Writer"]


class Writer(PlainWriter):
    """Rows for the nodes of one part of a module."""

    def __init__(self, state: State, source: SourceFile, foreign: Mapping[Symbol, tuple[str, str, int]]) -> None:
        """`foreign` are the symbols of what is imported: of which module, in which of its names, and at which place there."""
        self.forms = FORMS
        super().__init__()
        self.state, self.source, self.foreign = state, source, foreign
        self.symbols: dict[Symbol, list[Any]] = {}  # the module's own, as they are met, with their rows
        self.alone: dict[Y.Row, Y.Shape] = {}  # shape variables that stand in no shape, and what they are

    def node(self, value: Any) -> int:
        match value:
            case Y.TypeVar():
                value = self.state.prune(value)
            case Y.ElementVar():
                value = self.state.element(value)
            case Dim():
                value = self.state.dimension(value)
            case Y.Row() if value.symbol in self.state.rows:
                self.alone[value] = self.state.shape((value,))
        return super().node(value)

    def symbol(self, symbol: Symbol) -> list[Any]:
        if symbol in self.foreign:
            return list(self.foreign[symbol])
        return self.symbols.setdefault(symbol, [0])  # its number is known when all are

    def span(self, span: Span) -> list[Any]:
        if span.file is not self.source:
            raise NotPlain(f"a place in {span.file.path}")
        return [span.start, span.end]

    def shape(self, shape: Y.Shape) -> list[int]:
        return [self.node(item) for item in self.state.shape(shape)]

    def alias(self, decl: S.TypeDecl) -> str:
        name = self.state.aliases.get(decl)
        if name is None:
            raise NotPlain(f"the type {decl.name.text}, which has no name here")
        return name


class Reader(PlainReader):
    """The nodes of one part of a module, from their rows."""

    refused = (*PlainReader.refused, DimensionTooLarge)

    def __init__(
        self, source: SourceFile, own: Callable[[int], Symbol], foreign: Callable[[str, str, int], Symbol],
        alias: Callable[[str], S.TypeDecl],
    ) -> None:  # fmt: skip
        """With what the numbers of symbols and the names of types stand for."""
        super().__init__()
        self.forms = FORMS
        self.source, self.own, self.foreign, self.alias = source, own, foreign, alias

    def symbol(self, rest: list[Any]) -> Symbol:
        return self.own(*rest) if len(rest) == 1 else self.foreign(*rest)

    def span(self, rest: list[Any]) -> Span:
        start, end = rest
        if type(start) is not int or type(end) is not int or not 0 <= start <= end <= len(self.source.text):
            raise Malformed(f"no place {rest}")
        return Span(self.source, start, end)

    def shape(self, plain: object) -> Y.Shape:
        return tuple(self.node(item, (Dim, Y.Row)) for item in as_list(plain))


class NotKept:
    """Stands for the definition of a scheme, which is not kept: the scheme that a module makes available has one."""

    def whole(self) -> Any:
        raise AssertionError("no definition was kept with a scheme")

    def inside(self, function: Symbol) -> Any:
        return self.whole()

    written = whole


_OTHERS: dict[str, type] = {
    cls.__name__: cls for cls in (Symbol, Span, Element, Dim, Quotient, Minimum, Relation, Context, Model, Site, Unsummed)
}


def _named(cls: type, name: str) -> object:
    """What a name stands for in an annotation of surface syntax, or of types and typed syntax."""
    if cls.__module__ == S.__name__:
        return vars(S).get(name)
    if name == "Poison":  # there is none in what has no errors
        return never(Y.Poison)
    return vars(T).get(name) or vars(Y).get(name) or _OTHERS.get(name)


# The classes of what is kept.
FORMS = Forms(
    {Symbol: Kind(Writer.symbol, Reader.symbol), Span: Kind(Writer.span, Reader.span), Element: ELEMENT, Dim: DIM},
    (
        Quotient, Minimum, Relation, Context, ValueName, ModelName, Model, Site, Unsummed,
        Y.ElementVar, Y.Row, Y.TypeVar, Y.Tensor, Y.Function, Y.TupleType, Y.Written, Y.RecordType, Y.Exists,
        Y.SchemeFact, Y.SchemeLiteral, Y.OrScalar, Y.Scheme,
        T.Instance, T.Literal, T.Dimension, T.Variable, T.Builtin, T.Call, T.Unary, T.Binary, T.MatMul, T.Tuple, T.Record, T.Field,
        T.Project, T.At, T.IndexRun, T.Keep, T.Slice, T.Access, T.Cast, T.Coerce, T.Let, T.Fn, T.If, T.Indices, T.For, T.Reduce,
        T.Loop, T.Array, T.Open, T.PatternName, T.PatternTuple, T.PatternRecord, T.Val, T.Fun,
        S.Name, S.DimName, S.DimInt, S.DimNegate, S.DimBinary, S.DimCall, S.ShapeRun, S.TypeName, S.TypeVar, S.TypeFun,
        S.TypeDimFun, S.TypeExists, S.TypeOrScalar, S.TypeTuple, S.TypeRecord, S.TypeDecl,
    ),
    _named,
    {
        "Shape": Kind(Writer.shape, Reader.shape, (tuple,)),
        "S.TypeDecl": Kind(Writer.alias, lambda r, plain: r.alias(plain)),
        "Definition | None": Kind(lambda _, definition: definition is not None, lambda _, plain: NotKept() if plain else None),
    },
)  # fmt: skip
