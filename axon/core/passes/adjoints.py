"""Adjoints of windows as windows: conditions of a sum of products become paddings of what it reads, and remainders of its indices.

    dx[u] = sum r < 3 where u - r + 1 >= 0 and u - r + 1 < n => dy[u - r + 1] * k[r]
    dx[u] = sum r < 3 => dy[u - r + 1 | 0] * k[r]

    dx[u] = sum r < 3 where (u - r + 1) % 2 = 0 and … => dy[(u - r + 1) / 2] * k[r]          of every second place
    dx[u] = sum i < 2 => dy[(u + 1) / 2 - i | 0] * k[(u + 1) % 2 + 2 * i | 0]

    dx[u] = sum c where u % 2 = 0 => dy[u / 2, c] * k[c]                                      of every second place alone
    made[q] = sum c => dy[q, c] * k[c]        dx[u] = if u % 2 = 0 then made[u / 2] else 0

A condition that a subscript is inside its tensor is what a padding of 0 says. One that an index has a remainder leaves of a window
every so many-th index: r = (u + 1) % 2 + 2 * i; where it is an index of the result, the others are 0. So what is left is what a
convolution, or a transposed one, is written as, and runs as these do. A condition that is none of these stays, and with it the sum.
So does one on which something depends that is no factor read at an index: what stands under no condition must be there, or padded.

What is multiplied with a padding is left out of the sum by the condition: where a factor beside it is not finite, 0 times it is
NaN. That is so in the places at a border which such a factor would reach from outside; as in what cuDNN and others compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial, reduce
from math import gcd

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.integer_ranges import of_dim
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Compute,
    Const,
    Convert,
    Index,
    Loop,
    Op,
    Program,
    Read,
    Reduction,
    Scalar,
    Select,
    Value,
)
from axon.core.passes.dissolve import at_one_index
from axon.core.scalar_facts import comparison, conjunction, data_may_stop, index_of, is_inside, operands, substitute
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import outs_of, reads
from axon.shapes.dimension import Dim, Quotient

ZERO = Dim.of(0)


@verified("adjoints", verify_rewritten)
def as_windows(program: Program) -> Program:
    """The program with such sums of products without conditions."""
    return replace(program, block=_block(program.block, {v.symbol: v for v in program.inputs}))


def _block(block: Block, around: Mapping[Symbol, Value]) -> Block:
    values, ops = dict(around), list[Op]()
    for op in block.ops:
        op = at_one_index(op)
        if isinstance(op, Compute):
            made = _window(op, values)
            values |= {out.symbol: out for first in made[:-1] for out in first.outs}
            ops += made[:-1]
            op = made[-1]
        elif isinstance(op, Loop):
            inside = _block(op.body, {**values, **{state.symbol: state for state in op.states}})
            op = op if unchanged(inside.ops, op.body.ops) else replace(op, body=inside)
        ops.append(op)
        values |= {out.symbol: out for out in outs_of(op)}
    return block if unchanged(ops, block.ops) else Block(tuple(ops), block.results)


def _window(op: Compute, values: Mapping[Symbol, Value]) -> tuple[Compute, ...]:
    """An operation without conditions, perhaps in front of one that puts what it makes in its places; or as it was."""
    reduction = op.reduction
    if reduction is None or reduction.monoid.kind != "sum" or reduction.where is None or reduction.asked is not None:
        return (op,)
    if len(op.body) != 1 or not op.outs[0].element.is_float or data_may_stop(op):
        return (op,)
    if any(not axis.extent.variables.isdisjoint(a.symbol for a in (*op.axes, *reduction.axes)) for axis in reduction.axes):
        return (op,)
    found = _Sum(reduction.axes, list(operands("mul", op.body[0])), list(operands("and", reduction.where)))
    while (fewer := found.fewer()) is not None:
        found = fewer
    guards = [guard for condition in found.conditions if (guard := _guard(condition)) is not None and not _holds(guard)]
    left = [condition for condition in found.conditions if _guard(condition) is None]
    extents = {axis.symbol: axis.extent for axis in (*op.axes, *found.axes)}
    factors = found.padded([*guards, *found.ends], left, values, extents)
    if factors is None:
        return (op,)
    body = reduce(partial(Binary, "mul"), factors)
    return _apart(replace(op, body=(body,), reduction=Reduction(found.axes, reduction.monoid, conjunction(tuple(left)))), left)


def _apart(op: Compute, conditions: Sequence[Scalar]) -> tuple[Compute, ...]:
    """A sum whose conditions all ask for a remainder of an index of the result, one each, at those places alone."""
    places: dict[Symbol, tuple[int, int]] = {}  # p is a remainder + a number * q
    for condition in conditions:
        found = _divided(condition)
        symbols = [] if found is None else [a.symbol for a in op.axes if found[0].variables == {a.symbol}]
        split = found[0].linear_in(symbols[0]) if found is not None and symbols else None
        if found is None or split is None or split[0].constant != 1 or split[1].constant is None or symbols[0] in places:
            return (op,)
        places[symbols[0]] = -split[1].constant % found[1], found[1]
    if not places:
        return (op,)
    assert op.reduction is not None
    own = {a.symbol: Axis(fresh(a.symbol.name), a.extent) for a in op.axes}
    for symbol, (first, by) in places.items():
        own[symbol] = replace(own[symbol], extent=(own[symbol].extent + (by - 1 - first)) // by)
    names = {s: Dim.of(a.symbol) * places[s][1] + places[s][0] if s in places else Dim.of(a.symbol) for s, a in own.items()}
    (out,) = op.outs
    made = Value(fresh(out.symbol.name), out.element, tuple(a.extent for a in own.values()))
    reduction = replace(op.reduction, where=None)
    body = (substitute(op.body[0], names),)
    last = tuple(Axis(fresh(a.symbol.name), a.extent) for a in op.axes)
    at = {a.symbol: Dim.of(b.symbol) for a, b in zip(op.axes, last, strict=True)}
    where = conjunction(tuple(comparison("eq", at[s] % by, Dim.of(first)) for s, (first, by) in places.items()))
    assert where is not None
    subscripts = tuple((at[s] - places[s][0]) // places[s][1] if s in places else at[s] for s in own)
    value = Select(where, Read(made.symbol, subscripts, out.element), Const(0.0, out.element))
    return Compute((made,), tuple(own.values()), reduction, body, op.span), Compute((out,), last, None, (value,), op.span)


Guard = tuple[Dim, Dim | None]  # 0 <= the first, or the first < the second


@dataclass(frozen=True, slots=True)
class _Sum:
    """A sum of products: what it goes along, its factors, and when they count. `ends` are guards of new indices."""

    axes: tuple[Axis, ...]
    factors: list[Scalar]
    conditions: list[Scalar]
    ends: tuple[Guard, ...] = ()

    def fewer(self) -> _Sum | None:
        """With every so many-th index of an axis, where a condition says that it has a remainder; None if none does."""
        return next((made for condition in self.conditions if (made := self.without(condition)) is not None), None)

    def without(self, condition: Scalar) -> _Sum | None:
        dividend = _divided(condition)
        for axis in self.axes if dividend is not None else ():
            assert dividend is not None
            dim, by = dividend
            split = dim.linear_in(axis.symbol)
            if split is None or split[0].constant is None or gcd(split[0].constant, by) != 1:
                continue
            own = Axis(fresh(axis.symbol.name), (axis.extent + (by - 1)) // by)
            first = split[1] * (-pow(split[0].constant, -1, by) % by) % by
            index = first + Dim.of(own.symbol) * by
            names = {axis.symbol: index}
            ends = [(dim.substitute(names), end) for dim, end in self.ends]
            return _Sum(
                tuple(own if a == axis else a for a in self.axes),
                [substitute(factor, names) for factor in self.factors],
                [substitute(c, names) for c in self.conditions if c != condition],
                (*ends, *([(index, axis.extent)] if axis.extent % by != ZERO else [])),
            )
        return None

    def padded(
        self, guards: Sequence[Guard], left: Sequence[Scalar], values: Mapping[Symbol, Value], extents: Mapping[Symbol, Dim]
    ) -> list[Scalar] | None:
        """The factors without guards, padded with 0 where they may be outside their tensors then. None where a guard says something
        else than that a factor is inside, or where anything else may be outside without it, also in conditions that are `left`."""
        if not all(any(_says(factor, dim, end, values) for factor in self.factors) for dim, end in guards):
            return None
        guarded = frozenset[Symbol]().union(*(dim.variables for dim, _ in guards))

        def may_be_outside(read: Read) -> bool:
            moved = any(not isinstance(s, Dim) or not guarded.isdisjoint(s.variables) for s in read.subscripts)
            return moved and read.padding is None and not is_inside(read, values[read.tensor], extents)

        factors: list[Scalar] = []
        for factor in self.factors:
            read = _read(factor)
            if read is not None and may_be_outside(read):
                factor = _with_padding(factor)
            factors.append(factor)
        return None if any(may_be_outside(read) for scalar in (*factors, *left) for read in reads(scalar)) else factors


def _divided(condition: Scalar) -> tuple[Dim, int] | None:
    """What a condition says to be a multiple of a number: `2 * ((u + r) / 2) - r = u`, which says that u + r is one of 2."""
    match condition:
        case Binary(op="eq", left=left, right=right):
            a, b = _index(left), _index(right)
            if a is None or b is None:
                return None
            for quotient in (atom for atom in (a - b).atoms if isinstance(atom, Quotient)):
                by, split = quotient.divisor.constant, (a - b).split(quotient)
                if by is None or split is None or split[0].constant not in (by, -by):
                    continue
                if (split[1] if split[0].constant == by else -split[1]) + quotient.dividend == ZERO:
                    return quotient.dividend, by
            return None
        case _:
            return None


def _guard(condition: Scalar) -> Guard | None:
    match condition:
        case Binary(op="ge", left=left, right=right):
            a, b = _index(left), _index(right)
            return None if a is None or b != ZERO else (a, None)
        case Binary(op="lt", left=left, right=right):
            a, b = _index(left), _index(right)
            return None if a is None or b is None else (a, b)
        case _:
            return None


def _holds(guard: Guard) -> bool:
    """Whether an index is never below 0, whatever the sizes are."""
    return guard[1] is None and of_dim(guard[0])[0] >= 0


def _index(scalar: Scalar) -> Dim | None:
    """The index that an expression is, whatever its width."""
    inner = scalar.operand if isinstance(scalar, Convert) and isinstance(scalar.operand, Index) else scalar
    return index_of(inner)


def _read(factor: Scalar) -> Read | None:
    """What a factor reads, perhaps into a wider type, if it may be padded with 0."""
    inner = factor.operand if isinstance(factor, Convert) else factor
    if not isinstance(inner, Read) or inner.checked is not None or not inner.element.is_float:
        return None
    return inner if inner.padding is None or (isinstance(inner.padding, Const) and inner.padding.value == 0) else None


def _says(factor: Scalar, dim: Dim, end: Dim | None, values: Mapping[Symbol, Value]) -> bool:
    """Whether a factor reads a tensor at this index, of a dimension that ends there."""
    read = _read(factor)
    shape = () if read is None else values[read.tensor].shape
    return read is not None and any(s == dim and end in (None, extent) for s, extent in zip(read.subscripts, shape, strict=True))


def _with_padding(factor: Scalar) -> Scalar:
    read = _read(factor)
    assert read is not None
    padded = replace(read, padding=Const(0.0, read.element))
    return replace(factor, operand=padded) if isinstance(factor, Convert) else padded
