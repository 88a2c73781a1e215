"""Parameters for which one scalar will do, as for `dt` of `fun step dt x v = x + dt * v`: which of a function's they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.grammar import syntax as S
from axon.types import typed as T
from axon.types.generalize import contract_of
from axon.types.type import Function, OrScalar, Row, Scheme, Shape, ShapeItem, Tensor, Type, function, parameters, scalar
from axon.types.unify import State, subtypes


def pointwise(params: tuple[T.Pattern, ...], body: T.Expr) -> set[int]:
    """The parameters that the body uses as operands of pointwise operations alone, or hands on where one scalar will do."""
    positions = {p.symbol: n for n, p in enumerate(params) if isinstance(p, T.PatternName)}
    used: Counter[Symbol] = Counter()
    for node in T.nodes(body):
        if isinstance(node, T.Variable):
            used[node.symbol] += 1
        for operand in _operands(node):
            if isinstance(operand, T.Variable):
                used[operand.symbol] -= 1
    return {n for symbol, n in positions.items() if symbol in used and not used[symbol]}


def _operands(node: object) -> Iterable[T.Expr]:
    match node:
        case T.Unary(operand=operand) | T.Cast(value=operand):
            return (operand,)
        case T.Binary(left=left, right=right):
            return left, right
        case T.Call(arguments=arguments, scalars=scalars):
            return [arguments[n] for n in scalars]
    return ()


def or_scalar(state: State, scheme: Scheme, wanted: set[int]) -> tuple[OrScalar, ...]:
    """Those of the wanted parameters of a function for which a scalar will do, by shape: something else must tell that.

    What tells a shape are the parameters that are always whole and dimension parameters; else at least one of several parameters of
    this shape must be whole, or it is a shape variable alone, which stands for no dimensions if all of them are scalars.
    """
    types = parameters(scheme.type)
    rows = set(scheme.rows)
    shapes: dict[int, Shape] = {}
    for n in sorted(wanted):
        t = types[n]
        if isinstance(t, Tensor) and t.shape and all(i.symbol in rows for i in t.shape if isinstance(i, Row)):
            shapes[n] = t.shape
    while shapes:
        told = _told(state, scheme, [t for n, t in enumerate(types) if n not in shapes])
        groups: dict[Shape, list[int]] = {}
        for n, shape in shapes.items():
            groups.setdefault(shape, []).append(n)
        open_ = [ns for shape, ns in groups.items() if not _variables(state, shape) <= told]
        untold = [ns for ns in open_ if len(ns) == 1 or not _tells_itself(state, scheme, types, shapes, ns[0])]
        if not untold:
            return tuple(OrScalar(tuple(ns), ns not in open_) for ns in groups.values())
        for n in max(untold, key=lambda ns: len(shapes[ns[0]])):  # which may tell the others
            del shapes[n]
    return ()


def _tells_itself(state: State, scheme: Scheme, types: Sequence[Type], shapes: dict[int, Shape], one: int) -> bool:
    whole = [t for n, t in enumerate(types) if n not in shapes or n == one]
    return _variables(state, shapes[one]) <= _told(state, scheme, whole)


def _told(state: State, scheme: Scheme, whole: list[Type]) -> set[Symbol]:
    """The shape variables and sizes that parameters of these types tell, beside those that are given."""
    reduced = replace(scheme, type=function(tuple(whole), scalar(Element.F32)))
    told = set(contract_of(state, reduced).determined())
    shapes = [part.shape for t in whole if not isinstance(t, Function) for part in subtypes(state, t) if isinstance(part, Tensor)]
    while True:
        open_ = [{i.symbol for i in shape if isinstance(i, Row)} - told for shape in shapes]
        if not (lone := [rows for rows in open_ if len(rows) == 1]):
            return told
        told.update(*lone)


def _variables(state: State, shape: Shape) -> set[Symbol]:
    """The shape variables of a shape, and the sizes in it that are the function's own."""

    def of(item: ShapeItem) -> Iterable[Symbol]:
        if isinstance(item, Row):
            return (item.symbol,)
        return [s for s in item.variables if state.levels.get(s, 0) > state.level]

    return {s for item in shape for s in of(item)}


def marks(params: Iterable[S.Param], sig: S.Sig | None) -> tuple[tuple[int, S.TypeOrScalar], ...]:
    """Where a declaration and its `sig` mark parameters with `?`, with the positions of these."""
    patterns = [p for p in params if not isinstance(p, S.DimParams)]
    types = [p.type if isinstance(p, S.PatternTyped) else None for p in patterns]
    t, signed = sig.type if sig is not None else None, list[S.Type]()
    while isinstance(t, S.TypeDimFun | S.TypeFun):
        signed += [t.param] if isinstance(t, S.TypeFun) else []
        t = t.result
    return tuple((n, t) for n, t in (*enumerate(types), *enumerate(signed)) if isinstance(t, S.TypeOrScalar))
