"""Surface syntax: what `grammar/build.py` makes of a parse tree and `grammar/format.py` prints.

Spans are not compared, so two programs are equal when they mean the same text up to layout. Parentheses are not kept: the
formatter puts back those that are needed. Nothing here is resolved: names are text.
"""

from __future__ import annotations

from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.source import Span


@dataclass(frozen=True, slots=True)
class Name:
    text: str
    span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    span: Span = field(compare=False, repr=False)


# ── dimensions and facts ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class DimName(Node):
    name: str


@dataclass(frozen=True, slots=True)
class DimInt(Node):
    value: int


@dataclass(frozen=True, slots=True)
class DimNegate(Node):
    operand: Dim


@dataclass(frozen=True, slots=True)
class DimBinary(Node):
    op: str  # + - * / %
    left: Dim
    right: Dim


@dataclass(frozen=True, slots=True)
class DimCall(Node):
    function: Name  # min or max; in the braces of a call any function of sizes
    args: tuple[Dim, ...]


Dim: TypeAlias = "DimName | DimInt | DimNegate | DimBinary | DimCall"


@dataclass(frozen=True, slots=True)
class Fact(Node):
    left: Dim
    relation: str  # = <> < <= > >=
    right: Dim


# ── types ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ShapeRun(Node):
    """`..s` among the arguments of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class TypeName(Node):
    """`f32`, `f32[b, n]`, `linear[d, k]`, `nn.linear[d, k]`. No brackets: args is None; `f32[]`: args is ()."""

    name: tuple[Name, ...]  # one or two parts
    args: tuple[TypeArg, ...] | None


@dataclass(frozen=True, slots=True)
class TypeVar(Node):
    """`'a`, `'a[n]`; the name includes its quote."""

    name: str
    args: tuple[TypeArg, ...] | None


@dataclass(frozen=True, slots=True)
class TypeFun(Node):
    param: Type
    result: Type


@dataclass(frozen=True, slots=True)
class TypeDimFun(Node):
    """`{h, k} -> t`"""

    names: tuple[Name, ...]
    result: Type


@dataclass(frozen=True, slots=True)
class TypeExists(Node):
    """`?k <= n. t`"""

    name: Name
    bound: Dim | None
    body: Type


@dataclass(frozen=True, slots=True)
class TypeOrScalar(Node):
    """`t?`, of a parameter: a tensor, or one scalar that stands for all of it."""

    whole: Type


@dataclass(frozen=True, slots=True)
class TypeTuple(Node):
    items: tuple[Type, ...]  # () is the unit type; never one item


@dataclass(frozen=True, slots=True)
class TypeRecord(Node):
    fields: tuple[tuple[Name, Type], ...]


Type: TypeAlias = "TypeName | TypeVar | TypeFun | TypeDimFun | TypeExists | TypeOrScalar | TypeTuple | TypeRecord"
TypeArg: TypeAlias = "Dim | ShapeRun | TypeVar"


# ── patterns ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class PatternName(Node):
    name: str  # "_" binds nothing


@dataclass(frozen=True, slots=True)
class PatternTuple(Node):
    items: tuple[Pattern, ...]  # () is unit; never one item


@dataclass(frozen=True, slots=True)
class PatternRecord(Node):
    fields: tuple[tuple[Name, Pattern], ...]


@dataclass(frozen=True, slots=True)
class PatternTyped(Node):
    pattern: Pattern
    type: Type


Pattern: TypeAlias = "PatternName | PatternTuple | PatternRecord | PatternTyped"


@dataclass(frozen=True, slots=True)
class DimParams(Node):
    """`{h, k}` among the parameters of a `fun`."""

    names: tuple[Name, ...]


Param: TypeAlias = "Pattern | DimParams"


# ── binders and subscripts ──────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class IndexBinder(Node):
    name: str  # "_" is anonymous


@dataclass(frozen=True, slots=True)
class RunBinder(Node):
    """`..i`, a run of indices over a shape variable; `..` alone has no name."""

    name: str | None


@dataclass(frozen=True, slots=True)
class ProductBinder(Node):
    """`(i, j, …)`, one dimension that is the product of several."""

    names: tuple[Name, ...]


Binder: TypeAlias = "IndexBinder | RunBinder | ProductBinder"


@dataclass(frozen=True, slots=True)
class BinderGroup(Node):
    """What stands between two commas: some binders, or one binder with its bound."""

    binders: tuple[Binder, ...]
    bound: Expr | ShapeRun | None  # `i < n` or `..i < ..s`


@dataclass(frozen=True, slots=True)
class IndexAt(Node):
    """`e`"""

    value: Expr


@dataclass(frozen=True, slots=True)
class IndexSplit(Node):
    """`(i, c)` in an access: one dimension, split."""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class IndexRun(Node):
    """`..i` in an access."""

    name: str


@dataclass(frozen=True, slots=True)
class IndexRest(Node):
    """`..` in an access: the dimensions that are left, kept whole."""


@dataclass(frozen=True, slots=True)
class IndexSlice(Node):
    """`a : b : step`, each of which may be missing."""

    start: Expr | None
    stop: Expr | None
    step: Expr | None


Subscript: TypeAlias = "IndexAt | IndexSplit | IndexRun | IndexRest | IndexSlice"


# ── expressions ─────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Var(Node):
    name: str


@dataclass(frozen=True, slots=True)
class Int(Node):
    value: int


@dataclass(frozen=True, slots=True)
class Float(Node):
    value: float


@dataclass(frozen=True, slots=True)
class Operator(Node):
    """`(op +)`"""

    op: str


@dataclass(frozen=True, slots=True)
class Apply(Node):
    function: Expr
    argument: Expr


@dataclass(frozen=True, slots=True)
class ApplyDims(Node):
    """`f {8, n}`"""

    function: Expr
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class Unary(Node):
    op: str  # - not
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Node):
    op: str  # |> orelse andalso = <> < <= > >= + - * / % @ **
    left: Expr
    right: Expr
    op_span: Span = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Tuple(Node):
    items: tuple[Expr, ...]  # () is unit; never one item


@dataclass(frozen=True, slots=True)
class Record(Node):
    fields: tuple[tuple[Name, Expr], ...]


@dataclass(frozen=True, slots=True)
class Field(Node):
    """`r.w`, and also `nn.gelu` until names are resolved."""

    record: Expr
    name: Name


@dataclass(frozen=True, slots=True)
class Project(Node):
    """`t.1`, counted from 1."""

    value: Expr
    position: int


@dataclass(frozen=True, slots=True)
class Access(Node):
    """`x[i, j]`, or `x[i, j | default]`."""

    base: Expr
    subscripts: tuple[Subscript, ...]
    default: Expr | None


@dataclass(frozen=True, slots=True)
class Ascribe(Node):
    """`(e : t)`"""

    value: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Coerce(Node):
    """`e as t`"""

    value: Expr
    type: Type


@dataclass(frozen=True, slots=True)
class Cast(Node):
    """`cast f16 e`; the element is a name, a type variable with its quote, or `_`. Without an argument it is a function."""

    element: Name
    value: Expr | None


@dataclass(frozen=True, slots=True)
class Let(Node):
    decls: tuple[Decl, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Fn(Node):
    params: tuple[Pattern, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class If(Node):
    condition: Expr
    then: Expr
    otherwise: Expr


@dataclass(frozen=True, slots=True)
class For(Node):
    """A comprehension."""

    groups: tuple[BinderGroup, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Reduce(Node):
    """`sum k => e`, `sum for k < n where p => e`, `reduce (f, unit) k => e`, `scan (f, unit) k => e`."""

    kind: Name  # sum prod max min any all argmax argmin reduce scan
    monoid: Expr | None  # the (function, unit) of reduce and scan
    groups: tuple[BinderGroup, ...]
    where: Expr | None
    body: Expr


@dataclass(frozen=True, slots=True)
class Loop(Node):
    """`loop (s = init, …) while p s for i < n => body`; `unfold` keeps the state after every step."""

    kind: str  # loop unfold
    states: tuple[tuple[Pattern, Expr], ...]
    condition: Expr | None
    groups: tuple[BinderGroup, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class Array(Node):
    """`[| 1, 2 |]`"""

    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Like(Node):
    """A value, of the type that another expression has, which is not evaluated. No text says it: models are made of it, whose
    latents and data are of the types that their distributions draw."""

    value: Expr
    drawn: Expr
    observed: bool  # whether the value is data


Expr: TypeAlias = (
    "Var | Int | Float | Operator | Apply | ApplyDims | Unary | Binary | Tuple | Record | Field | Project | Access | Ascribe"
    " | Coerce | Cast | Let | Fn | If | For | Reduce | Loop | Array | Like"
)


# ── declarations ────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Val(Node):
    pattern: Pattern
    value: Expr


@dataclass(frozen=True, slots=True)
class Fun(Node):
    name: Name
    params: tuple[Param, ...]
    result: Type | None
    where: tuple[Fact, ...]
    body: Expr


@dataclass(frozen=True, slots=True)
class TypeDecl(Node):
    name: Name
    params: tuple[DimName | ShapeRun | TypeVar, ...]
    type: Type


@dataclass(frozen=True, slots=True)
class Sig(Node):
    name: Name
    type: Type
    where: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class Import(Node):
    name: Name


@dataclass(frozen=True, slots=True)
class Draw(Node):
    """`val theta ~ for i < n => dist.normal mu tau`: a latent of a model, and its site."""

    pattern: Pattern
    site: Expr


@dataclass(frozen=True, slots=True)
class Observe(Node):
    """`observe y ~ for i => dist.normal theta[i] sigma[i]`"""

    name: Name
    site: Expr


Decl: TypeAlias = "Val | Fun | TypeDecl | Sig | Import | Draw | Observe"


@dataclass(frozen=True, slots=True)
class Program(Node):
    decls: tuple[Decl, ...]
