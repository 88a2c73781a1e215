"""Typed syntax: what inference makes of a declaration and `lower` turns into core.

Names are Symbols, implicit things are explicit: what a polymorphic name stands for at each use, the ranges of indices, which
integers are symbolic sizes. Types still mention the checker's variables; `unify.State` says what they became.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from axon.base.data import dataclass, fields
from axon.base.functions import MonoidKind
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import Context
from axon.shapes.dimension import Dim
from axon.types.type import ElementType, Row, Scheme, Shape, Type


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """What the quantified variables of a scheme stand for at one use."""

    types: Mapping[Symbol, Type]
    elements: Mapping[Symbol, ElementType]
    rows: Mapping[Symbol, Shape]
    dims: Mapping[Symbol, Dim]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Node:
    type: Type
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Node):
    value: float | int | bool


@dataclass(frozen=True, slots=True, eq=False)
class Dimension(Node):
    """An i32 that is symbolic: over dimensions and indices."""

    dim: Dim


@dataclass(frozen=True, slots=True, eq=False)
class Variable(Node):
    symbol: Symbol
    instance: Instance | None


@dataclass(frozen=True, slots=True, eq=False)
class Builtin(Node):
    """A function of the language as a value: exp, max, +, @, nonzero, …"""

    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Call(Node):
    """A function applied to some arguments at once. Functions of scalars lift: where an argument's rank is not 0, pointwise."""

    function: Expr
    arguments: tuple[Expr, ...]
    scalars: tuple[int, ...] = ()  # positions of those that may be of rank 0 and stand for a whole tensor


@dataclass(frozen=True, slots=True, eq=False)
class Unary(Node):
    """Pointwise neg, not; `folded` is the value of arithmetic on integer literals alone."""

    op: str
    operand: Expr
    folded: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Binary(Node):
    """Pointwise, with broadcasting; `op` is a Binary of core; `folded` as in Unary."""

    op: str
    left: Expr
    right: Expr
    folded: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class MatMul(Node):
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Tuple(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Record(Node):
    fields: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Field(Node):
    record: Expr
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Project(Node):
    value: Expr
    position: int  # from 1


@dataclass(frozen=True, slots=True, eq=False)
class At:
    """One index. `sizes` of a split: the dimension is their product, and the values are the indices into each."""

    values: tuple[Expr, ...]
    sizes: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class IndexRun:
    """A run of indices over a shape variable."""

    symbol: Symbol
    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class Keep:
    """Dimensions kept whole."""

    row: Row


@dataclass(frozen=True, slots=True, eq=False)
class Slice:
    """From `start` up to `stop` (the end, if None) in steps of `step`."""

    start: Dim
    stop: Dim | None
    step: Dim


Subscript: TypeAlias = "At | IndexRun | Keep | Slice"


@dataclass(frozen=True, slots=True, eq=False)
class Access(Node):
    """`context` is where it stands, for the proof that it stays inside."""

    base: Expr
    subscripts: tuple[Subscript, ...]
    default: Expr | None
    context: Context


@dataclass(frozen=True, slots=True, eq=False)
class Cast(Node):
    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Coerce(Node):
    """`as`: the value's dimensions are compared with the type's at run time."""

    value: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Let(Node):
    decls: tuple[Decl, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Fn(Node):
    params: tuple[Pattern, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class If(Node):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Indices:
    """Some index variables that make one dimension of a comprehension: usually one, several for a product."""

    symbols: tuple[Symbol, ...]
    extents: tuple[Dim, ...]


Binder: TypeAlias = "Indices | IndexRun"


@dataclass(frozen=True, slots=True, eq=False)
class For(Node):
    binders: tuple[Binder, ...]
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Reduce(Node):
    kind: MonoidKind  # "custom" for reduce and scan
    scan: bool
    monoid: Expr | None
    binders: tuple[Binder, ...]
    where: Expr | None
    body: Expr
    context: Context


@dataclass(frozen=True, slots=True, eq=False)
class Loop(Node):
    stacked: bool
    states: tuple[tuple[Pattern, Expr], ...]
    condition: Expr | None
    counter: Symbol
    trip: Expr
    body: Expr


@dataclass(frozen=True, slots=True, eq=False)
class Array(Node):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Open(Node):
    """A value of existential type; its size is the dimension `symbol` from here on."""

    value: Expr
    symbol: Symbol
    inner: Symbol


Expr: TypeAlias = (
    "Literal | Dimension | Variable | Builtin | Call | Unary | Binary | MatMul | Tuple | Record | Field | Project | Access"
    " | Cast | Coerce | Let | Fn | If | For | Reduce | Loop | Array | Open"
)


# ── patterns and declarations ───────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True, eq=False)
class PatternName(Node):
    symbol: Symbol


@dataclass(frozen=True, slots=True, eq=False)
class PatternTuple(Node):
    items: tuple[Pattern, ...]


@dataclass(frozen=True, slots=True, eq=False)
class PatternRecord(Node):
    fields: tuple[tuple[str, Pattern], ...]


Pattern: TypeAlias = "PatternName | PatternTuple | PatternRecord"


@dataclass(frozen=True, slots=True, eq=False)
class Val:
    pattern: Pattern
    value: Expr
    scheme: Scheme | None = None  # of a name bound to a function, which is generalized


@dataclass(frozen=True, slots=True, eq=False)
class Fun:
    symbol: Symbol
    params: tuple[Pattern, ...]
    body: Expr
    scheme: Scheme


Decl: TypeAlias = "Val | Fun"


# ── what stands in an expression ──────────────────────────────────────────────────────────────────────────────────────────


def indices_used(e: Expr) -> set[Symbol]:
    """The indices that stand alone in an access somewhere inside an expression."""
    values = (v for node in nodes(e) if isinstance(node, At) for v in node.values)
    return {v.dim.symbol for v in values if isinstance(v, Dimension) and v.dim.symbol is not None}


def bound(pattern: Pattern) -> Iterator[Symbol]:
    """The names of a pattern."""
    match pattern:
        case PatternName(symbol=symbol):
            yield symbol
        case PatternTuple(items=items):
            for item in items:
                yield from bound(item)
        case PatternRecord(fields=members):
            for _, item in members:
                yield from bound(item)


def variables(e: Expr) -> Iterator[Variable]:
    return (node for node in nodes(e) if isinstance(node, Variable))


def nodes(e: Expr) -> Iterator[object]:
    """An expression and all that stands in it."""
    stack: list[object] = [e]
    while stack:
        node = stack.pop()
        yield node
        if isinstance(node, tuple):
            stack += node
        elif isinstance(node, Node | Val | Fun | At | Slice):
            stack += [getattr(node, name) for name in names_of_children(node)]


CHILDREN = {
    "function", "arguments", "operand", "left", "right", "items", "fields", "record", "value", "base", "subscripts", "values",
    "default", "decls", "body", "condition", "then", "otherwise", "monoid", "where", "states", "trip",
}  # fmt: skip


_names: dict[type, tuple[str, ...]] = {}


def names_of_children(node: Node | Val | Fun | At | Slice) -> tuple[str, ...]:
    """Which fields of a node hold what stands in it."""
    names = _names.get(type(node))
    if names is None:
        names = _names[type(node)] = tuple(f.name for f in fields(node) if f.name in CHILDREN)
    return names
