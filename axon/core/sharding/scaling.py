"""By which factors of a row an expression is scaled, and under which condition it adds nothing to a sum or a maximum.

`exp (s[i, j] - m[i]) / l[i] * v[j]` is `exp (-m)` and `1 / l` times what mentions neither, so a sum over j that was made with
another m and with l = 1 is mended by a factor for each i. What mentions `m` or `l` in any other way is not scaled by them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeAlias

from axon.base.names import Symbol
from axon.core.ir import Binary, Bind, Compute, Const, Convert, Index, Read, Scalar, Select, Unary
from axon.core.walk import children, nodes, scalars
from axon.shapes.dimension import Dim

Weights: TypeAlias = "dict[tuple[Symbol, tuple[Dim, ...]], int]"  # how often it has the factor of a maximum or a sum, and where
Pairs: TypeAlias = "Mapping[Symbol, tuple[Symbol, Symbol]]"  # the row and the column of operations, by what they give


def scaled(op: Compute, inner: Mapping[Symbol, Compute], kinds: Mapping[Symbol, str]) -> Weights | None:
    """The factors of a reduction, over its own axes, of the maxima and sums in `kinds`; None where it mentions them otherwise.
    `inner` makes the values that it reads."""
    return _of(op, inner, kinds)


def _of(op: Compute, inner: Mapping[Symbol, Compute], kinds: Mapping[Symbol, str]) -> Weights | None:
    if op.reduction is not None:
        conditions = [c for c in (op.reduction.where, op.reduction.asked) if c is not None]
        if any(_scalar(c, inner, kinds) != {} for c in conditions):
            return None
    found = _scalar(op.body[0], inner, kinds)
    if found and op.reduction is not None:
        reduced = {a.symbol for a in op.reduction.axes}
        if op.reduction.monoid.kind != "sum" or any(not s.variables.isdisjoint(reduced) for _, at in found for s in at):
            return None
    return found


def _scalar(scalar: Scalar, inner: Mapping[Symbol, Compute], kinds: Mapping[Symbol, str]) -> Weights | None:
    def of(part: Scalar) -> Weights | None:
        return _scalar(part, inner, kinds)

    match scalar:
        case Read(tensor=tensor) if tensor in kinds:
            return None
        case Read(tensor=tensor, subscripts=subscripts) if tensor in inner:
            below = inner[tensor]
            found = _of(below, inner, kinds)
            if not found:
                return found
            dims = {a.symbol: s for a, s in zip(below.axes, subscripts, strict=True) if isinstance(s, Dim)}
            if len(dims) < len(subscripts):
                return None
            return {(s, tuple(d.substitute(dims) for d in at)): power for (s, at), power in found.items()}
        case Unary(op="exp", operand=Binary(op="sub", left=left, right=Read() as right)) if kinds.get(right.tensor) == "max":
            return _times(of(left), right, 1) if of(left) == {} else None
        case Binary(op="div", left=left, right=Read() as right) if kinds.get(right.tensor) == "sum":
            return _times(of(left), right, 1)
        case Binary(op="div", left=left, right=right):
            return of(left) if of(right) == {} else None
        case Binary(op="mul", left=left, right=right):
            a, b = of(left), of(right)
            return None if a is None or b is None else {key: a.get(key, 0) + b.get(key, 0) for key in (*a, *b)}
        case Binary(op="add" | "sub", left=left, right=right):
            return _alike(left, right, of(left), of(right))
        case Unary(op="neg", operand=operand) | Convert(operand=operand):
            return of(operand)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return _alike(then, otherwise, of(then), of(otherwise)) if of(condition) == {} else None
        case Bind(bindings=bindings, body=body):
            return of(body) if all(of(value) == {} for _, value in bindings) else None
        case _:
            return {} if all(of(child) == {} for child in children(scalar)) else None


def _times(found: Weights | None, by: Read, power: int) -> Weights | None:
    if found is None or not all(isinstance(s, Dim) for s in by.subscripts):
        return None
    key = (by.tensor, tuple(s for s in by.subscripts if isinstance(s, Dim)))
    return found | {key: found.get(key, 0) + power}


def _alike(left: Scalar, right: Scalar, a: Weights | None, b: Weights | None) -> Weights | None:
    if _is(left, 0):
        return b
    return a if _is(right, 0) or a == b else None


def _is(scalar: Scalar, number: float) -> bool:
    return isinstance(scalar, Const) and scalar.value == number


# ── what is masked ──────────────────────────────────────────────────────────────────────────────────────────────────────


def masks(inner: Mapping[Symbol, Compute], pairs: Pairs, row: Symbol, column: Symbol) -> Iterator[Dim]:
    """The conditions on rows and columns under which values are something else, as Dims that are at least 0 where they are not."""
    seen: dict[Dim, None] = {}
    for symbol, op in inner.items():
        for node in (n for s in scalars(op) for n in nodes(s) if isinstance(n, Select)):
            if (found := _mask(node.condition, op, pairs[symbol], row, column)) is not None:
                seen[found] = None
    yield from seen


def _mask(condition: Scalar, op: Compute, pair: tuple[Symbol, Symbol], row: Symbol, column: Symbol) -> Dim | None:
    match condition:
        case Binary(op="le" | "lt" | "ge" | "gt" as kind, left=Index(dim=left), right=Index(dim=right)):
            slack = right - left if kind in ("le", "lt") else left - right
            slack = slack - 1 if kind in ("lt", "gt") else slack
        case _:
            return None
    others = {a.symbol for a in op.axes} - {*pair}
    if not slack.variables >= {*pair} or not slack.variables.isdisjoint(others):
        return None
    return slack.substitute({pair[0]: Dim.of(row), pair[1]: Dim.of(column)})


def vanishes(
    op: Compute,
    pair: tuple[Symbol, Symbol],
    inner: Mapping[Symbol, Compute],
    pairs: Pairs,
    mask: Dim,
    row: Symbol,
    column: Symbol,
) -> bool:
    """Whether a sum gets zeros, and a maximum -inf, where a mask is below 0."""
    looked: dict[Symbol, float | None] = {}

    def value(scalar: Scalar, op: Compute, pair: tuple[Symbol, Symbol]) -> float | None:
        """0, -inf, or what is not known."""

        def of(part: Scalar) -> float | None:
            return value(part, op, pair)

        match scalar:
            case Const(value=number):
                return float(number) if number in (0, float("-inf")) else None
            case Read(tensor=tensor) if tensor in inner:
                if tensor not in looked:
                    below = inner[tensor]
                    found = value(below.body[0], below, pairs[tensor])
                    kept = below.reduction is None or (found == 0 and below.reduction.monoid.kind == "sum")
                    looked[tensor] = found if kept else None
                return looked[tensor]
            case Select(condition=condition, then=then, otherwise=otherwise):
                if _mask(condition, op, pair, row, column) == mask:
                    return of(otherwise)
                return of(then) if of(then) == of(otherwise) else None
            case Unary(op="exp", operand=operand):
                return 0.0 if of(operand) == float("-inf") else None
            case Unary(op="neg", operand=operand) | Convert(operand=operand):
                return 0.0 if of(operand) == 0 else None
            case Binary(op="mul", left=left, right=right):
                return 0.0 if 0 in (of(left), of(right)) else None
            case Binary(op="div", left=left):
                return 0.0 if of(left) == 0 else None
            case Binary(op="sub", left=left) if of(left) == float("-inf"):
                return float("-inf")
            case Binary(op="add" | "sub", left=left, right=right):
                return 0.0 if of(left) == of(right) == 0 else None
            case _:
                return None

    assert op.reduction is not None
    return value(op.body[0], op, pair) == (0 if op.reduction.monoid.kind == "sum" else float("-inf"))
