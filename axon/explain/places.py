"""What stands where in a declaration: expressions by their places, accesses by their indices, what names stand for, annotations.

`Trail` follows sizes through these; changes of the source that are proposed look up in them what they change.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeAlias

from axon.base.data import dataclass, fields
from axon.base.diagnostics import Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import Reason
from axon.shapes.dimension import Dim
from axon.types import typed as T
from axon.types.holes import parts
from axon.types.inference import Binding
from axon.types.type import RecordType, Row, Shape, ShapeItem, Tensor, Type
from axon.types.typed import CHILDREN, indices_used, variables
from axon.types.unify import State

_MAX_BEHIND = 200  # values that one is computed from
_MAX_NESTED = 64  # annotated patterns that one may stand in, or that begin between it and a name

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


@dataclass(frozen=True, slots=True)
class Inner:
    """What makes a dimension of a function's result, in its body or in that of a function which it calls.

    `kind` is that of `explain.origin`; `moved`: it is not the same dimension of what the function is given; `changes` of the body
    may make another one of it. `parameter`: it is the function's dimension parameter at this position.
    """

    span: Span
    kind: str
    why: str
    moved: bool
    parameter: int | None
    changes: Callable[[], tuple[Suggestion, ...]]


# Of a function: a dimension of its result, the rank that has at a call, the way to the part of it.
MadeBy: TypeAlias = "Callable[[Symbol, int, int, tuple[int | str, ...]], Inner | None]"


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a name stands for that a call gives."""

    span: Span  # its pattern, with its annotation if it has one


Definition = tuple[T.Expr, tuple[int | str, ...]]  # a value, and the way to the part of it that a name stands for


class Places:
    """The places of one declaration. `tree` are its typed bodies; `written` and `annotated` say where annotations mention what, and
    `expanded` where types that they name do: a size, its place, where the type is named, and in which field the size is.
    """

    def __init__(
        self,
        state: State,
        tree: Iterable[T.Expr | T.Decl],
        params: Sequence[T.Pattern],
        binders: dict[Symbol, Binding],
        written: Sequence[tuple[Dim, Span]],
        expanded: Sequence[tuple[Dim, Span, Span, tuple[str, ...]]],
        annotated: Sequence[Span],
        fields: Iterable[Span],
        signed: dict[Span, Span],
        made: MadeBy,
    ) -> None:
        self._state = state
        self._binders = binders
        self._written = [(state.dimension(dim), span) for dim, span in written]
        self._expanded = expanded
        self._annotated = sorted(annotated, key=lambda s: (s.start, -s.end))
        self._starts = [s.start for s in self._annotated]
        self._fields = fields
        self._signed = signed
        self._made_by = made
        self._params = params
        self._kept: list[tuple[T.Access, int]] = []  # the accesses that keep it, and by which subscript
        self._passed: list[tuple[T.Expr, int, int, tuple[int | str, ...]]] = []  # the calls that the last size followed passes
        self._defined: dict[Symbol, Definition | Parameter] = {}
        self._indexed: dict[Span, tuple[T.Access, int]] = {}  # indices, and the dimension that each is of
        self._reads: dict[Symbol, list[tuple[T.Access, int, int]]] = {}  # accesses by an index alone: dimension, position in it
        self._calls: dict[T.Expr, T.Call] = {}  # by the function called
        self._local: dict[str, set[Symbol]] = {}  # the indices that accesses inside each local function use
        self._products: set[Symbol] = set()  # indices of a flattening, which take no bound
        self.values: list[T.Pattern] = []  # of the `val`s inside
        self._spans: dict[tuple[int, int], list[T.Expr]] = {}
        for pattern in params:
            self._bind_parameter(pattern)
        for node in tree:
            self._walk(node)

    # ── looking up ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def at(self, span: Span) -> T.Expr | None:
        """The typed expression at a place."""
        found = self._spans.get((span.start, span.end), [])
        return next((e for e in found if e.span.file is span.file), None)

    def read(self, span: Span) -> tuple[T.Access, int] | None:
        """The access that an index at this place belongs to, and its dimension, counted from 0."""
        return self._indexed.get(span)

    def index_at(self, span: Span) -> Symbol | None:
        """The index that stands by itself at a place of an access."""
        found = self.read(span)
        values = (v for s in found[0].subscripts if isinstance(s, T.At) for v in s.values) if found is not None else ()
        return next((v.dim.symbol for v in values if v.span == span and isinstance(v, T.Dimension)), None)

    def indices(self, within: Span) -> Iterator[tuple[T.Access, int, Dim]]:
        """The symbolic indices of accesses within a place, each with the dimension that it is of."""
        for span, (access, axis) in self._indexed.items():
            if span.file is within.file and within.start <= span.start and span.end <= within.end:
                value = next((v for s in access.subscripts if isinstance(s, T.At) for v in s.values if v.span == span), None)
                if isinstance(value, T.Dimension):
                    yield access, axis, value.dim

    def indexed_elsewhere(self, index: Symbol, but: T.Access) -> Iterator[Dim]:
        """The sizes of the dimensions that an index stands for by itself in other accesses."""
        for access, axis, _ in self._reads.get(index, ()):
            size = self.size(access.base, axis) if access is not but else None
            if size is not None:
                yield size

    def is_summed(self, index: Symbol) -> bool:
        """Whether an access is by an index together with another: `x[i + u]`."""
        values = (v for access, _ in self._indexed.values() for s in access.subscripts if isinstance(s, T.At) for v in s.values)
        return any(isinstance(v, T.Dimension) and index in v.dim.variables and len(v.dim.variables) > 1 for v in values)

    def binding(self, index: Symbol) -> Binding | None:
        return self._binders.get(index)

    def in_product(self, index: Symbol) -> bool:
        return index in self._products

    def is_read(self, index: Symbol) -> bool:
        """Whether an access is by an index, alone or among others, or its value is used."""
        used = (v for v in self.expressions() if isinstance(v, T.Dimension))
        return index in self._reads or any(index in v.dim.variables for v in used)

    def compared_with(self, index: Symbol) -> list[T.Expr]:
        """What an index is compared with: the other sides of the comparisons in which it stands."""
        comparisons = [e for e in self.expressions() if isinstance(e, T.Binary) and e.op in _COMPARISONS]
        sides = [pair for e in comparisons for pair in ((e.left, e.right), (e.right, e.left))]
        return [other for own, other in sides if isinstance(own, T.Dimension) and index in own.dim.variables]

    def bounded_locally(self, index: Symbol) -> str:
        """The local function in which an index is used by itself, as when its uses are not seen outside."""
        return next((name for name, used in self._local.items() if index in used), "")

    def unannotated(self, symbol: Symbol) -> Span | None:
        """Where a parameter without a type is bound."""
        found = self._defined.get(symbol)
        return found.span if isinstance(found, Parameter) and re.fullmatch(r"[A-Za-z_]\w*", found.span.text) else None

    def known_before(self, symbol: Symbol, place: Span) -> bool:
        """Whether a name stands for something at a place: a parameter, or what is defined before."""
        found = self._defined.get(symbol)
        return isinstance(found, Parameter) or (isinstance(found, tuple) and found[0].span.end <= place.start)

    def named_parameters(self) -> tuple[T.PatternName, ...]:
        """The parameters that are one name each."""
        return tuple(p for p in self._params if isinstance(p, T.PatternName))

    def sizes(self, t: Type) -> list[Dim]:
        """The sizes of a tensor's dimensions; none of what is none, or has shape variables."""
        shape = self.shape(t) or ()
        return [self._state.dimension(i) for i in shape if isinstance(i, Dim)] if all(isinstance(i, Dim) for i in shape) else []

    def known_at(self, e: T.Expr, place: Span) -> bool:
        """Whether what a name stands for is defined before a place."""
        found = self._defined.get(e.symbol) if isinstance(e, T.Variable) else None
        return not isinstance(found, tuple) or found[0].span.end <= place.start

    def around(self, size: Span) -> Span:
        """The annotated pattern, or the field of a type, in which a size is written."""
        fields = (f for f in self._fields if f.file is size.file and f.start <= size.start and size.end <= f.end)
        return self._annotation_of(size) or min(fields, key=lambda f: f.end - f.start, default=size)

    def is_field(self, place: Span) -> bool:
        """Whether a place is a field of a type."""
        return place in self._fields

    def is_guarded(self, index: Symbol) -> bool:
        """Whether a condition stands before an access by an index: its uses do not tell how far it was meant to run."""
        return any(a.context.conditions for a, _ in self._indexed.values() if index in {s for s, _ in a.context.indices})

    def first_use(self, e: T.Expr, axis: int) -> str:
        """How a parameter is used in a dimension, in words, where that says how large it is."""
        if not isinstance(e, T.Variable):
            return ""
        for access, at in sorted(self._indexed.values(), key=lambda r: r[0].span.start):
            if at == axis and isinstance(access.base, T.Variable) and access.base.symbol == e.symbol:
                return f"`{access.span.excerpt}`"
        for call in sorted(self._calls.values(), key=lambda c: c.span.start):
            for argument in call.arguments:
                if isinstance(argument, T.Variable) and argument.symbol == e.symbol:
                    return f"`{call.span.excerpt}`"
        for found in self.expressions():
            operands = (found.left, found.right) if isinstance(found, T.MatMul | T.Binary) else ()
            if any(isinstance(o, T.Variable) and o.symbol == e.symbol for o in operands):
                return f"`{found.span.excerpt}`"
        return ""

    def expressions(self) -> Iterator[T.Expr]:
        for found in self._spans.values():
            yield from found

    def opened(self) -> Iterator[tuple[Symbol, str]]:
        """The sizes that only the data decide and to which an annotation gives a name, `val (kept : f32[q]) = …`."""
        for size, span in self._written:
            if size.symbol is not None and size.symbol in self._state.data_sizes and span.text.isidentifier():
                yield size.symbol, span.text

    def passed(self, reason: Reason) -> tuple[T.Variable, int] | None:
        """The function to which an expression is an argument, where a reason speaks of the two, and which argument it is."""
        if len(reason.sides) != 2:
            return None
        at = reason.span, reason.sides[1].span
        return next(((f, n) for f, n, argument in self.arguments() if (argument.span, f.span) == at), None)

    def arguments(self) -> Iterator[tuple[T.Variable, int, T.Expr]]:
        """Every function that is called by its name, with each of its arguments and its position."""
        for call in self._calls.values():
            if isinstance(call.function, T.Variable):
                for n, argument in enumerate(call.arguments):
                    yield call.function, n, argument

    def given_with(self, argument: Span) -> Iterator[T.Expr]:
        """The other arguments of the calls that one at a place is given to."""
        for call in self._calls.values():
            if any(a.span == argument for a in call.arguments):
                yield from (a for a in call.arguments if a.span != argument)

    def values_behind(self, span: Span) -> tuple[Span, ...]:
        """The values that the expression at a place is computed from by their names, and those behind them."""
        found: dict[Span, None] = {}
        expr = self.at(span)
        todo = [] if expr is None else [expr]
        while todo and len(found) < _MAX_BEHIND:
            for used in variables(todo.pop()):
                match self._defined.get(used.symbol):
                    case (value, _) if value.span not in found:
                        found[value.span] = None
                        todo.append(value)
        return tuple(found)

    def fields(self, e: T.Expr) -> tuple[str, ...]:
        """The names of a record's fields."""
        t = self._state.prune(e.type)
        return tuple(name for name, _ in t.fields) if isinstance(t, RecordType) else ()

    def shape(self, t: Type) -> Shape | None:
        t = self._state.prune(t)
        return self._state.shape(t.shape) if isinstance(t, Tensor) else None

    def size(self, e: T.Expr, axis: int) -> Dim | None:
        """The size of a dimension of a tensor, as far as it is known."""
        shape = self.shape(e.type)
        return self._size(shape[axis]) if shape is not None and axis < len(shape) else None

    def _size(self, item: ShapeItem) -> Dim | None:
        return None if isinstance(item, Row) else self._state.dimension(item)

    # ── reading the tree ───────────────────────────────────────────────────────────────────────────────────────────────

    def _bind_parameter(self, pattern: T.Pattern) -> None:
        match pattern:
            case T.PatternName(symbol=symbol, span=span):
                self._defined[symbol] = Parameter(self._signed.get(span) or self._annotation_of(span) or span)
            case T.PatternTuple(items=items):
                for item in items:
                    self._bind_parameter(item)
            case T.PatternRecord(fields=parts):
                for _, item in parts:
                    self._bind_parameter(item)

    def _annotation_of(self, name: Span) -> Span | None:
        """The innermost annotated pattern around a name."""
        last = bisect_right(self._starts, name.start) - 1
        for n in range(last, max(last - _MAX_NESTED, -1), -1):
            found = self._annotated[n]
            if found.file is name.file and name.end <= found.end:
                return found
        return None

    def _bind(self, pattern: T.Pattern, value: T.Expr, way: tuple[int | str, ...] = ()) -> None:
        match pattern:
            case T.PatternName(symbol=symbol, span=span):
                if self._annotation_of(span) is not None:
                    self._bind_parameter(pattern)
                else:
                    self._defined[symbol] = value, way
            case T.PatternTuple(items=items):
                for n, item in enumerate(items, 1):
                    self._bind(item, value, (*way, n))
            case T.PatternRecord(fields=parts):
                for name, item in parts:
                    self._bind(item, value, (*way, name))

    def _walk(self, root: object) -> None:
        stack = [root]
        while stack:
            node = stack.pop()
            match node:
                case T.Val(pattern=pattern, value=value):
                    self._bind(pattern, value)
                    self.values.append(pattern)
                case T.Fun(symbol=symbol, params=params, body=body):
                    for param in params:
                        self._bind_parameter(param)
                    if node is not root:
                        self._local[symbol.name] = indices_used(body)
                case T.Fn(params=params):
                    for param in params:
                        self._bind_parameter(param)
                case T.Loop(states=states):
                    for pattern, value in states:
                        self._bind(pattern, value)
                case T.For(binders=binders) | T.Reduce(binders=binders):
                    parts = [b.symbols for b in binders if isinstance(b, T.Indices) and len(b.symbols) > 1]
                    self._products.update(*parts)
                case T.Access():
                    self._note_access(node)
                case T.Call(function=function):
                    self._calls[function] = node
            if isinstance(node, T.Node):
                self._spans.setdefault((node.span.start, node.span.end), []).append(node)  # type: ignore[arg-type]
            if isinstance(node, tuple):
                stack += reversed(node)
            elif isinstance(node, T.Node | T.Val | T.Fun | T.At | T.Slice):
                stack += [getattr(node, f.name) for f in reversed(fields(node)) if f.name in CHILDREN]

    def _note_access(self, access: T.Access) -> None:
        axis = 0
        for position, subscript in enumerate(access.subscripts):
            if isinstance(subscript, T.At):
                for value in subscript.values:
                    self._indexed[value.span] = access, axis
                    if isinstance(value, T.Dimension) and value.dim.symbol is not None:
                        self._reads.setdefault(value.dim.symbol, []).append((access, axis, position))
            if isinstance(subscript, T.IndexRun):
                self._reads.setdefault(subscript.symbol, []).append((access, axis, position))
            axis += len(self._state.shape((subscript.row,))) if isinstance(subscript, T.IndexRun | T.Keep) else 1


def subscripts(access: T.Access) -> list[Span]:
    """The places of an access's subscripts, where each stands for itself."""
    file, start = access.span.file, access.base.span.end
    start = file.text.find("[", start) + 1
    end = access.span.end - 1 if access.default is None else file.text.rfind("|", start, access.default.span.start)
    found = [p for p in parts(Span(file, start, end)) if p.text] if 0 < start <= end else []
    return found if len(found) == len(access.subscripts) else []


def single(access: T.Access) -> list[Span]:
    """The subscripts of an access by single indices, beside runs of indices; none if it has others."""
    spans = [s.values[0].span for s in access.subscripts if isinstance(s, T.At) and len(s.values) == 1]
    others = [s for s in access.subscripts if not isinstance(s, T.IndexRun)]
    return spans if len(spans) == len(others) else []
