"""Sizes whose values a declaration reads: as numbers, as bounds, where something ends. One that nothing determines has none.

A type may well mention a size that nothing determines: that of what a function takes which is never applied. So types read
nothing. What stands in a `fn` reads no size that a tensor among its parameters has: where it is applied, such a tensor was made.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from types import MappingProxyType

from axon.base.names import Symbol
from axon.base.source import Span
from axon.grammar import syntax as S
from axon.shapes.constraint import Stretch
from axon.shapes.dimension import Dim, Quotient
from axon.types import typed as T
from axon.types.inference import Body
from axon.types.trouble import KnownByProduct, SquareByBroadcast
from axon.types.type import Function, RecordType, Scheme, Tensor, TupleType, Type
from axon.types.typed import names_of_children
from axon.types.unify import State


def read(state: State, body: T.Expr) -> dict[Symbol, Span]:
    """The variables among the sizes that an expression reads, and the first place of each."""
    found: dict[Symbol, Span] = {}
    for dim, span, own in _reads(state, body):
        for symbol in sorted(state.dimension(dim).variables - own, key=lambda s: s.id):
            found.setdefault(symbol, span)
    return found


def _reads(state: State, body: T.Expr) -> Iterator[tuple[Dim, Span, frozenset[Symbol]]]:
    stack: list[tuple[object, Span, frozenset[Symbol]]] = [(body, body.span, frozenset())]
    while stack:
        node, span, own = stack.pop()
        match node:
            case tuple():
                stack += [(part, span, own) for part in reversed(node)]
                continue
            case T.Fn(params=params):
                own = own.union(*(of_tensors(state, p.type) for p in params))
            case T.Dimension(dim=dim, span=at):
                yield dim, at, own
            case T.For(binders=binders, span=at) | T.Reduce(binders=binders, span=at):
                for binder in binders:
                    extents = binder.extents if isinstance(binder, T.Indices) else (i for i in state.shape((binder.row,)))
                    yield from ((extent, at, own) for extent in extents if isinstance(extent, Dim))
            case T.Coerce(type=t, span=at):
                yield from ((Dim.of(symbol), at, own) for symbol in sorted(of_tensors(state, t), key=lambda s: s.id))
            case T.At(sizes=sizes):
                yield from ((size, span, own) for size in sizes)
            case T.Slice(start=start, stop=stop, step=step):
                yield from ((size, span, own) for size in (start, stop, step) if size is not None)
            case _:
                pass
        if isinstance(node, T.Node | T.Val | T.Fun | T.At | T.Slice):
            at = node.span if isinstance(node, T.Node) else span
            stack += [(getattr(node, name), at, own) for name in reversed(names_of_children(node))]


def of_tensors(state: State, t: Type) -> frozenset[Symbol]:
    """The variables in sizes of the tensors that a value of a type holds."""
    found: set[Symbol] = set()
    stack = [t]
    while stack:
        match state.prune(stack.pop()):
            case Tensor(shape=shape):
                found.update(*(state.dimension(item).variables for item in state.shape(shape) if isinstance(item, Dim)))
            case TupleType(items):
                stack += items
            case RecordType(parts):
                stack += [part for _, part in parts]
            case _:
                pass
    return frozenset(found)


def known_by_product(state: State, scheme: Scheme, params: Sequence[S.Pattern]) -> Iterator[KnownByProduct]:
    """Of every parameter without an annotation: the dimensions of which the function's type knows the product alone.

    `flat[n, (i, j, k)]` of a `flat` that is made of x[n, i, j, k] asks of x only that its last three dimensions have so many
    elements together as the other sizes say: whoever passes them in another order is not told.
    """
    t: Type = scheme.type
    for param in params:
        if not isinstance(t, Function):
            return
        given = state.prune(t.param)
        shape = state.shape(given.shape) if isinstance(param, S.PatternName) and isinstance(given, Tensor) else ()
        for n, item in enumerate(shape):
            found = _product(item) if isinstance(item, Dim) else None
            factors, divisor = found or ((), frozenset[Symbol]())
            own = [i for i, other in enumerate(shape) if isinstance(other, Dim) and other.symbol in divisor]
            if found is not None and len(own) == len(divisor) and isinstance(param, S.PatternName) and isinstance(given, Tensor):
                yield KnownByProduct(scheme, param, given, tuple(sorted([*own, n])), factors)
        t = state.prune(t.result)


def square_by_broadcast(scheme: Scheme, params: Sequence[S.Pattern], body: Body) -> Iterator[SquareByBroadcast]:
    """Of every parameter without an annotation: two dimensions that are equal for no other reason than broadcasting.

    In `x / total`, with a total of each row of x, the last dimension of x meets the rows: right for square matrices alone, and
    hardly meant. What makes two sizes one is followed from equation to equation, once without those.
    """
    uneven = list(dict.fromkeys(e.stretch for e in body.equals if e.stretch is not None and e.stretch.longer))
    if not uneven:
        return
    state, groups = body.by.state, _Groups()
    for e in body.equals:
        if e.stretch is None or not e.stretch.longer:
            groups.join(e.left, e.right)
    for s in uneven:  # what comes out has the dimensions of the longer operand
        groups.join(Dim.of(s.out), s.left if s.longer == "left" else s.right)
    for param, typed in zip(params, body.params, strict=True):
        t = state.prune(typed.type)
        shape = state.shape(t.shape) if isinstance(param, S.PatternName) and isinstance(t, Tensor) else ()
        for (i, one), (j, other) in combinations([(n, d) for n, d in enumerate(shape) if isinstance(d, Dim)], 2):
            same = state.dimension(one) == state.dimension(other) and state.dimension(one).symbol is not None
            if same and isinstance(param, S.PatternName) and isinstance(t, Tensor) and not groups.joined(one, other):
                stretch = next((s for s in uneven if groups.with_(s).joined(one, other)), None)
                if stretch is not None:
                    yield SquareByBroadcast(scheme, param, t, (i, j), stretch, body.params, body.expr)
                    break


class _Groups:
    """Sizes of a name each that are found to be one."""

    def __init__(self, of: Mapping[Symbol, Symbol] = MappingProxyType({})) -> None:
        self._of = dict(of)

    def _first(self, symbol: Symbol) -> Symbol:
        while symbol in self._of:
            symbol = self._of[symbol]
        return symbol

    def join(self, one: Dim, other: Dim) -> None:
        if one.symbol is not None and other.symbol is not None and not self.joined(one, other):
            self._of[self._first(one.symbol)] = self._first(other.symbol)

    def joined(self, one: Dim, other: Dim) -> bool:
        return one.symbol is not None and other.symbol is not None and self._first(one.symbol) == self._first(other.symbol)

    def with_(self, s: Stretch) -> _Groups:
        found = _Groups(self._of)
        found.join(s.left, s.right)
        return found


def _product(size: Dim) -> tuple[tuple[Symbol, ...], frozenset[Symbol]] | None:
    """Of a * b / (i * j), what is multiplied and what divides it."""
    atom = next((a for a in size.atoms), None) if len(size.mapping) == 1 else None
    if not isinstance(atom, Quotient) or size != Dim({(atom,): 1}):
        return None
    factors, divisor = _factors(atom.dividend), _factors(atom.divisor)
    return (factors, frozenset(divisor)) if factors is not None and divisor is not None and len(factors) > 1 else None


def _factors(dim: Dim) -> tuple[Symbol, ...] | None:
    """Those of a product of sizes, the oldest first."""
    if len(dim.mapping) != 1:
        return None
    ((factors, coefficient),) = dim.mapping.items()
    symbols = tuple(f for f in factors if isinstance(f, Symbol))
    return symbols if coefficient == 1 and len(symbols) == len(factors) else None
