"""Operations of core as a device runs them: over its blocks, with the indices of the whole.

An axis that is cut runs over the block; where its index is a number it is the whole's, `c * B + i`. A read of a split tensor is at
the local index, behind the elements of the block before. What lies beyond the extent is not evaluated: a result there is 0, a
reduction leaves it out. A padded read that may leave the whole tensor asks for that itself, since the block does not end there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    Axis,
    Binary,
    Compute,
    Const,
    Index,
    Local,
    Monoid,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Value,
    element_of,
)
from axon.core.scalar_facts import comparison, conjunction, freshened, mapped, renamed, substitute
from axon.core.sharding.access import ZERO, Cut, Grid, placed, shifted, unwound
from axon.core.sharding.ir import Layout
from axon.core.sharding.strategies import Key, Strategy, key_of
from axon.core.walk import converted, rewrite, widened
from axon.shapes.dimension import Dim

COMBINE = {"sum": "add", "prod": "mul", "max": "max", "min": "min", "any": "or", "all": "and"}
ONE = Dim.of(1)


@dataclass(frozen=True, slots=True)
class Held:
    """A tensor in the layout in which an operation reads it: as it is in the whole, and as the device has it."""

    whole: Value
    layout: Layout
    local: Value


class Localizer:
    """Rewrites one operation. `held` says of each read what it reads."""

    def __init__(self, strategy: Strategy, held: Mapping[Key, Held], grid: Grid) -> None:
        self.strategy, self.held, self.grid = strategy, held, grid
        self.moved = shifted(strategy.cuts)
        self.cuts = {c.axis: c for c in strategy.cuts}

    def scalar(self, scalar: Scalar) -> Scalar:
        return rewrite(scalar, self._node)

    def axes(self, axes: Sequence[Axis]) -> tuple[Axis, ...]:
        return tuple(
            Axis(a.symbol, self.cuts[a.symbol].block if a.symbol in self.cuts else a.extent.substitute(self.moved)) for a in axes
        )

    def monoid(self, monoid: Monoid) -> Monoid:
        return replace(monoid, units=tuple(map(self.scalar, monoid.units)), combine=tuple(map(self.scalar, monoid.combine)))

    def beyond(self, axes: Sequence[Axis]) -> Scalar | None:
        """The condition that cut axes have not left the extent; None where they cannot."""
        cuts = [self.cuts[a.symbol] for a in axes if a.symbol in self.cuts]
        return conjunction(tuple(comparison("lt", c.begin + c.axis, c.extent) for c in cuts if c.beyond))

    def _node(self, node: Scalar) -> Scalar | None:
        match node:
            case Index(dim=dim):
                return replace(node, dim=dim.substitute(self.moved))
            case Read():
                return self._read(node)
            case _:
                return None

    def _read(self, read: Read) -> Scalar:
        held = self.held[key_of(read)]
        subscripts: list[Dim | Scalar] = []
        asked: list[Scalar] = []
        for subscript, extent, split in zip(read.subscripts, held.whole.shape, held.layout.splits, strict=True):
            if not isinstance(subscript, Dim):
                subscripts.append(self.scalar(subscript))
                continue
            index = subscript.substitute(self.moved)
            if split is None:
                subscripts.append(index)
                continue
            block = self.grid.block(extent, split.axis)
            assert block is not None
            if split.left != ZERO or split.right != ZERO or not self.grid.exact(extent, split.axis):
                asked += [comparison("ge", index, ZERO), comparison("lt", index, extent)]
            if split.around and (turned := unwound(subscript, extent)) is not None:
                index = turned.substitute(self.moved)
            local = placed(index, block, split.axis, self.grid)
            if local is None:  # it asks where the whole ends
                local = index - block * self.grid.coordinate(split.axis)
            subscripts.append(local + split.left)
        padding = None if read.padding is None else self.scalar(read.padding)
        made = Read(held.local.symbol, tuple(subscripts), held.local.element, padding, read.checked)
        condition = conjunction(tuple(asked))
        return made if padding is None or condition is None else Select(condition, made, padding)


def zero(element: Element) -> Const:
    return Const(False if element is Element.BOOL else 0, element)


def operation(op: Compute | Scan, outs: tuple[Value, ...], localizer: Localizer) -> Compute | Scan:
    """The operation on a device's blocks, for `outs` there; of a cut reduction, the device's part."""
    axes = localizer.axes(op.axes)
    body = tuple(map(localizer.scalar, op.body))
    outer = localizer.beyond(op.axes if isinstance(op, Compute) else op.axes[:-1])
    if isinstance(op, Scan):
        return Scan(outs, axes, localizer.monoid(op.monoid), _guarded(outer, body), op.span)
    if op.reduction is None:
        return Compute(outs, axes, None, _guarded(outer, body), op.span)
    reduction = op.reduction
    inside = localizer.beyond((*op.axes, *reduction.axes))
    where = _both(inside, None if reduction.where is None else localizer.scalar(reduction.where))
    asked = None if reduction.asked is None else localizer.scalar(reduction.asked)
    if reduction.monoid.kind in ("max", "min", "argmax", "argmin"):
        asked = _both(outer, asked)
    if outs[0].element is not op.outs[0].element:  # each device's part, unrounded
        wide = widened if reduction.monoid.kind == "sum" else partial(converted, element=outs[0].element)
        body = tuple(map(wide, body))
    made = Reduction(localizer.axes(reduction.axes), localizer.monoid(reduction.monoid), where, asked)
    return Compute(outs, axes, made, body, op.span)


def _guarded(condition: Scalar | None, body: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
    return body if condition is None else tuple(Select(condition, b, zero(element_of(b))) for b in body)


def _both(first: Scalar | None, second: Scalar | None) -> Scalar | None:
    return conjunction(tuple(c for c in (first, second) if c is not None))


# ── what is combined at once ────────────────────────────────────────────────────────────────────────────────────────────


def parts(op: Compute, axes: tuple[Axis, ...], localizer: Localizer) -> tuple[tuple[Compute, ...], tuple[Value, ...]]:
    """What a device's block comes to, by a reduction whose values are combined at once, as a row; and the rows."""
    assert op.reduction is not None
    row = Axis(fresh("row"), ONE)
    shape = (ONE, *(a.extent for a in axes))
    kind = op.reduction.monoid.kind
    name = op.outs[0].symbol.name
    outs = tuple(Value(fresh(name), element_of(b), shape) for b in op.body)
    if kind == "custom":
        made = operation(op, outs, localizer)
        assert isinstance(made, Compute)
        return (replace(made, axes=(row, *made.axes)),), outs
    best = operation(op, outs[1:], localizer)
    assert isinstance(best, Compute)
    assert best.reduction is not None
    names = {a.symbol: fresh(a.symbol.name) for a in (*best.axes, *best.reduction.axes)}
    monoid = Monoid("max" if kind == "argmax" else "min")
    value = replace(best, outs=outs[:1], body=best.body[:1], reduction=replace(best.reduction, monoid=monoid))
    value = renamed(mapped(value, freshened), names)  # type: ignore[assignment]
    return (replace(value, axes=(Axis(fresh("row"), ONE), *value.axes)), replace(best, axes=(row, *best.axes))), outs


def combined(op: Compute, outs: tuple[Value, ...], gathered: Sequence[Value], devices: int, localizer: Localizer) -> Compute:
    """The devices' values, gathered as rows, combined in their order."""
    assert op.reduction is not None
    axes = localizer.axes(op.axes)
    line = Axis(fresh("device"), Dim.of(devices))
    places = (Dim.of(line.symbol), *(Dim.of(a.symbol) for a in axes))
    body = tuple(Read(g.symbol, places, g.element) for g in gathered)
    asked = None if op.reduction.asked is None else localizer.scalar(op.reduction.asked)
    if op.reduction.monoid.kind != "custom":
        asked = _both(localizer.beyond(op.axes), asked)
    monoid = localizer.monoid(op.reduction.monoid)
    return Compute(outs, axes, Reduction((line,), monoid, None, asked), body, op.span)


def totals(op: Scan, made: tuple[Value, ...], localizer: Localizer) -> tuple[Compute, tuple[Value, ...]]:
    """What a device's block of a scan comes to, as a row: its last elements."""
    *batch, last = localizer.axes(op.axes)
    own = [Axis(fresh(a.symbol.name), a.extent) for a in batch]
    row = Axis(fresh("row"), ONE)
    places = (*(Dim.of(a.symbol) for a in own), last.extent - 1)
    outs = tuple(Value(fresh(v.symbol.name), v.element, (ONE, *(a.extent for a in own))) for v in made)
    some = comparison("gt", last.extent, ZERO)
    body = tuple(Select(some, Read(v.symbol, places, v.element), zero(v.element)) for v in made)
    return Compute(outs, (row, *own), None, body, op.span), outs


def prefixes(op: Scan, gathered: Sequence[Value], coordinate: Symbol, localizer: Localizer) -> tuple[Compute, tuple[Value, ...]]:
    """What the blocks before a device's come to."""
    batch = localizer.axes(op.axes[:-1])
    line = Axis(fresh("device"), Dim.of(coordinate))
    places = (Dim.of(line.symbol), *(Dim.of(a.symbol) for a in batch))
    outs = tuple(Value(fresh(g.symbol.name), g.element, tuple(a.extent for a in batch)) for g in gathered)
    body = tuple(Read(g.symbol, places, g.element) for g in gathered)
    asked = comparison("gt", Dim.of(coordinate), ZERO) if op.monoid.kind in ("max", "min") else None
    return Compute(outs, batch, Reduction((line,), localizer.monoid(op.monoid), None, asked), body, op.span), outs


def fixed(
    op: Scan, outs: tuple[Value, ...], before: Sequence[Value], made: Sequence[Value], coordinate: Symbol, localizer: Localizer
) -> Compute:
    """A device's block of a scan: what is before it, combined with its own."""
    axes = tuple(Axis(fresh(a.symbol.name), a.extent) for a in localizer.axes(op.axes))
    places = tuple(Dim.of(a.symbol) for a in axes)
    lefts = [Read(v.symbol, places[:-1], v.element) for v in before]
    rights = [Read(v.symbol, places, v.element) for v in made]
    if op.monoid.kind == "custom":
        names: dict[Symbol, Scalar] = dict(zip((*op.monoid.left, *op.monoid.right), (*lefts, *rights), strict=True))
        old = {a.symbol: Dim.of(b.symbol) for a, b in zip(op.axes, axes, strict=True)}
        combine = [substitute(localizer.scalar(c), old) for c in op.monoid.combine]
        body = tuple(rewrite(freshened(c), lambda n: names.get(n.symbol) if isinstance(n, Local) else None) for c in combine)
    else:
        body = (Binary(COMBINE[op.monoid.kind], lefts[0], rights[0]),)
    some = comparison("gt", Dim.of(coordinate), ZERO)
    body = tuple(Select(some, b, r) for b, r in zip(body, rights, strict=True))
    return Compute(outs, axes, None, body, op.span)


def cut_of(localizer: Localizer) -> Cut:
    assert localizer.strategy.joined is not None
    return localizer.strategy.joined
