"""Neighbouring axes of a nest as one, where no access tells them apart: a map over a whole tensor is one loop, whatever its rank,
and so is the sum over several axes.

    s[b] = sum c h w => x[b, c, h, w]        is    s[b] = sum k => x[b, k]                 of x, its last three dimensions as one
    s[b, g] = sum c h => x[b, g * n + c, h]  is    s[b, g] = sum k => x[b, g * n * m + k]  of x, its last two, the last of m
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from axon.backend.plan.ir import Nest
from axon.backend.plan.lanes import inner, reduced
from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Index, Read, Scalar, Scan, Value
from axon.core.scalar_facts import mapped
from axon.core.walk import all_axes, nodes, rewrite, scalars
from axon.shapes.dimension import Dim

Step: TypeAlias = "Compute | Scan"
Pair: TypeAlias = "tuple[Axis, Axis]"
Dimensions: TypeAlias = "tuple[tuple[int, ...], ...]"  # of a tensor: which of its own each one is


@dataclass(frozen=True, slots=True)
class Collapsed:
    """A nest over fewer axes, its tensors with fewer dimensions, and which of their own each is, of those that have fewer."""

    nest: Nest
    values: Mapping[Symbol, Value]
    dimensions: Mapping[Symbol, Dimensions]


def collapsed(
    nest: Nest,
    values: Mapping[Symbol, Value],
    beside: Callable[[Symbol, int], bool] = lambda tensor, dimension: True,
    *,
    rows: bool = True,
    loops: bool = False,
) -> Collapsed:
    """Neighbouring axes, of the `rows` or of the `loops` inside, that every access takes together become one.

    `beside` says of a tensor from outside whether memory goes on from a dimension into the next, both as they were given.
    """
    made = Collapsed(nest, values, {})
    position = 0
    while rows and position + 1 < len(made.nest.rows):
        first, second = made.nest.rows[position : position + 2]
        merged = _merge(made, [(first, second)] * len(made.nest.steps), beside)
        if merged is None:
            position += 1
        else:
            made = merged
    position = 0
    while loops and position + 1 < max(len(_loops(step, made.nest)) for step in made.nest.steps):
        merged = _merge(made, [_pair(step, made.nest, position) for step in made.nest.steps], beside)
        if merged is None:
            position += 1
        else:
            made = merged
    return made


def _loops(step: Step, nest: Nest) -> tuple[Axis, ...]:
    """The axes of a step inside of the rows: those of its result, or those that it reduces."""
    own, gone = inner(step, len(nest.rows)), reduced(step)
    return () if own and gone else (*own, *gone)


def _pair(step: Step, nest: Nest, position: int) -> Pair | None:
    axes = _loops(step, nest)
    return (axes[position], axes[position + 1]) if position + 1 < len(axes) else None


def _merge(made: Collapsed, pairs: Sequence[Pair | None], beside: Callable[[Symbol, int], bool]) -> Collapsed | None:
    """With a pair of neighbouring axes of each step as one, if no access tells them apart."""
    nest, values = made.nest, made.values
    inside = {out.symbol for step in nest.steps for out in step.outs}
    places: dict[Symbol, int] = {}  # where in a tensor both are; -1 if they are not in it
    for step, pair in zip(nest.steps, pairs, strict=True):
        own = set() if pair is None else {axis.symbol for axis in pair}
        if isinstance(step, Scan) and step.axes[-1].symbol in own:
            return None
        if any(not axis.extent.variables.isdisjoint(own) for axis in all_axes(step)):
            return None
        at = next((n for n, axis in enumerate(step.axes) if axis.symbol in own), -1)
        if any(places.setdefault(out.symbol, at) != at for out in step.outs):
            return None
        for node in (n for s in scalars(step) for n in nodes(s)):
            if isinstance(node, Index) and not node.dim.variables.isdisjoint(own):
                return None
            if isinstance(node, Read):
                start = _place(node, pair, values, node.tensor in inside)
                if start is None or places.setdefault(node.tensor, start) != start:
                    return None
    taken = {symbol: start for symbol, start in places.items() if start >= 0}
    dimensions = {s: made.dimensions.get(s) or tuple((d,) for d in range(len(values[s].shape))) for s in taken}
    outside = (s for s in taken if s not in inside or s in nest.stored)
    if not taken or not all(beside(s, dimensions[s][taken[s]][-1]) for s in outside):
        return None
    whole = {pair: _whole(pair) for pair in pairs if pair is not None}
    changed = {s: _reshaped(values[s], start) for s, start in taken.items()}
    steps = tuple(
        step if pair is None else _changed(step, pair, whole[pair], taken, changed)
        for step, pair in zip(nest.steps, pairs, strict=True)
    )
    rows = next((_replaced(nest.rows, pair, one) for pair, one in whole.items() if pair[0] in nest.rows), nest.rows)
    fewer = {s: (*d[:n], d[n] + d[n + 1], *d[n + 2 :]) for (s, d), n in zip(dimensions.items(), taken.values(), strict=True)}
    return Collapsed(replace(nest, rows=rows, steps=steps), {**values, **changed}, {**made.dimensions, **fewer})


def _place(read: Read, pair: Pair | None, values: Mapping[Symbol, Value], inside: bool) -> int | None:
    """Where a read has both axes of a pair side by side, -1 if it has neither; None if it tells them apart. Of a tensor from
    outside the first axis may begin anywhere; the second goes through all of its dimension."""
    if pair is None:
        return -1
    own = {axis.symbol for axis in pair}
    mentioned = [n for n, s in enumerate(read.subscripts) if isinstance(s, Dim) and not s.variables.isdisjoint(own)]
    if not mentioned:
        return -1
    first, second = pair
    start = mentioned[0]
    if mentioned != [start, start + 1] or read.subscripts[start + 1] != Dim.of(second.symbol):
        return None
    extents, begin = values[read.tensor].shape[start : start + 2], _begin(read, start, first)
    if extents[1] != second.extent or begin is None or not begin.variables.isdisjoint(own):
        return None
    whole = begin == Dim.of(0) and extents[0] == first.extent
    return start if whole or (not inside and read.padding is None and read.checked is None) else None


def _begin(read: Read, start: int, first: Axis) -> Dim | None:
    """Where the first axis of a pair begins in its dimension."""
    subscript = read.subscripts[start]
    return subscript - Dim.of(first.symbol) if isinstance(subscript, Dim) else None


def _whole(pair: Pair) -> Axis:
    first, second = pair
    return Axis(_one(first.symbol, second.symbol), first.extent * second.extent)


@lru_cache(maxsize=1 << 12)
def _one(first: Symbol, second: Symbol) -> Symbol:
    """The symbol of two axes as one, the same each time a nest is looked at: mappings that name it are compared."""
    return fresh(f"{first.name}{second.name}")


def _replaced(axes: tuple[Axis, ...], pair: Pair, whole: Axis) -> tuple[Axis, ...]:
    at = axes.index(pair[0])
    return (*axes[:at], whole, *axes[at + 2 :])


def _reshaped(value: Value, start: int) -> Value:
    shape = value.shape
    return replace(value, shape=(*shape[:start], shape[start] * shape[start + 1], *shape[start + 2 :]))


def _changed(step: Step, pair: Pair, whole: Axis, taken: Mapping[Symbol, int], values: Mapping[Symbol, Value]) -> Step:
    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read):
            return None
        padding = None if node.padding is None else rewrite(node.padding, visit)
        subscripts = [s if isinstance(s, Dim) else rewrite(s, visit) for s in node.subscripts]
        start = taken.get(node.tensor)
        if start is not None:
            begin = _begin(node, start, pair[0])
            assert begin is not None
            subscripts[start : start + 2] = [begin * pair[1].extent + Dim.of(whole.symbol)]
        return replace(node, subscripts=tuple(subscripts), padding=padding)

    made = mapped(step, lambda scalar: rewrite(scalar, visit))
    outs = tuple(values.get(out.symbol, out) for out in made.outs)
    if pair[0] in made.axes:
        return replace(made, axes=_replaced(made.axes, pair, whole), outs=outs)
    assert isinstance(made, Compute), "a scan has no loop but along its result"
    assert made.reduction is not None
    reduction = replace(made.reduction, axes=_replaced(made.reduction.axes, pair, whole))
    return replace(made, reduction=reduction, outs=outs)
