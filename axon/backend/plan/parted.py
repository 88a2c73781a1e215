"""Reductions of any monoid in parts, and scans in slices: what each part comes to, and what is made of that.

    parted    a reduction, and how its axes are cut -> what makes its parts, and the steps that join them, in order
    before    a scan, and how its axis is cut -> what each slice comes to, and what all before each come to: see Note [Slices]

A custom monoid's parts are joined by its own function, in their order. Of the places of the best (`argmax`) a part has its best
value and the first place of that in the part: the first part that has the best has the place. An extreme of integers under a
condition may be one of nothing in a part: it is joined where the part has any. Parts of a 16- or 8-bit sum are kept as f32.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from axon.backend.plan.split import KINDS, halves, needs_some
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Const, Index, Monoid, Read, Reduction, Scalar, Scan, Value, element_of
from axon.core.scalar_facts import substitute
from axon.core.walk import converted
from axon.shapes.dimension import Dim, maximum

NOBODY = Const(False, Element.BOOL)  # asks for an extreme of nothing


@dataclass(frozen=True, slots=True)
class Parted:
    """How the axes of a reduction are cut: each index of those `apart` is a part, which reduces those `within`. `at` says where in
    the whole an index is that is cut, `begin` where its part begins."""

    apart: tuple[Axis, ...]
    within: tuple[Axis, ...]
    at: Mapping[Symbol, Dim]
    begin: Mapping[Symbol, Dim]


def in_any_parts(step: Compute | Scan) -> bool:
    """Whether a step is made in parts here alone, and not by `split`."""
    if isinstance(step, Scan) or step.reduction is None:
        return isinstance(step, Scan)
    return step.reduction.monoid.kind not in KINDS or (needs_some(step) and step.reduction.where is not None)


def parted(step: Compute, cut: Parted) -> tuple[list[Compute], list[Compute]]:
    """See above. The parts stand over the axes of the result, then those of the parts; none is empty where extremes need that."""
    assert step.reduction is not None
    match step.reduction.monoid.kind:
        case "custom":
            return _of_states(step, cut)
        case "argmax" | "argmin":
            return _of_places(step, cut)
    if in_any_parts(step):
        return _of_some(step, cut)
    first, joined = halves(step, (*step.axes, *cut.apart), cut.apart, cut.within, cut.at, _symbol(step.outs[0].symbol, "parts"))
    return [first], joined


def _of_states(step: Compute, cut: Parted) -> tuple[list[Compute], list[Compute]]:
    """Of several values at once, and in order."""
    reduction, axes = step.reduction, (*step.axes, *cut.apart)
    assert reduction is not None
    made = tuple(_value(out.symbol, "parts", out.element, axes) for out in step.outs)
    body = tuple(substitute(scalar, cut.at) for scalar in step.body)
    first = Compute(made, axes, Reduction(cut.within, reduction.monoid, _where(reduction, cut)), body, step.span)
    again, at = _again(step, cut)
    read = tuple(Read(value.symbol, at, value.element) for value in made)
    return [first], [Compute(step.outs, step.axes, Reduction(again, reduction.monoid, None, reduction.asked), read, step.span)]


def _of_places(step: Compute, cut: Parted) -> tuple[list[Compute], list[Compute]]:
    reduction, axes = step.reduction, (*step.axes, *cut.apart)
    assert reduction is not None
    value, *indices = (substitute(scalar, cut.at) for scalar in step.body)
    where = _where(reduction, cut)
    kind = reduction.monoid.kind
    best = _value(step.outs[0].symbol, "best", element_of(value), axes)
    extreme = Reduction(cut.within, Monoid("max" if kind == "argmax" else "min"), where, NOBODY)
    # Indices of the axes are those within the part, so that it need not be taken in order.
    plain = step.body[1:] == tuple(Index(Dim.of(axis.symbol)) for axis in reduction.axes)
    held = tuple(Index(Dim.of(axis.symbol)) for axis in cut.within) if plain else tuple(indices)
    names = [axis.symbol for axis in cut.within] if plain else [out.symbol for out in step.outs]
    places = tuple(
        Value(_numbered(step.outs[0].symbol, n), element_of(index), tuple(axis.extent for axis in axes))
        for n, index in enumerate(held)
    )
    first = Reduction(cut.within, reduction.monoid, where, reduction.asked if where is None else NOBODY)
    parts = [
        Compute((best,), axes, extreme, (value,), step.span),
        Compute(places, axes, first, (value, *held), step.span),
    ]
    again, at = _again(step, cut)
    found: list[Scalar] = [Read(place.symbol, at, place.element) for place in places]
    if plain:
        inside = dict(zip(names, found, strict=True))
        renamed = {mine.symbol: Dim.of(other.symbol) for mine, other in zip(cut.apart, again, strict=True)}
        found = [_whole(axis, cut, inside, renamed) for axis in reduction.axes]
    body = (Read(best.symbol, at, best.element), *found)
    some, there = _some(step, cut, where, at)
    joined = Reduction(again, reduction.monoid, there, reduction.asked)
    return [*parts, *some], [Compute(step.outs, step.axes, joined, body, step.span)]


def _whole(axis: Axis, cut: Parted, inside: Mapping[Symbol, Scalar], renamed: Mapping[Symbol, Dim]) -> Scalar:
    """The index of an axis, of that within a part."""
    if axis.symbol not in cut.at:
        return inside[axis.symbol] if axis.symbol in inside else Index(renamed[axis.symbol])
    (within,) = (other.symbol for other in cut.within if other.symbol in cut.at[axis.symbol].variables)
    begin = cut.begin[axis.symbol].substitute(renamed)
    return Binary("add", converted(Index(begin, Element.I64), Element.I32), inside[within])


def _of_some(step: Compute, cut: Parted) -> tuple[list[Compute], list[Compute]]:
    """An extreme under a condition, of integers."""
    reduction, (out,), axes = step.reduction, step.outs, (*step.axes, *cut.apart)
    assert reduction is not None
    where = _where(reduction, cut)
    made = _value(out.symbol, "parts", out.element, axes)
    body = substitute(step.body[0], cut.at)
    first = Compute((made,), axes, Reduction(cut.within, reduction.monoid, where, NOBODY), (body,), step.span)
    again, at = _again(step, cut)
    some, there = _some(step, cut, where, at)
    joined = Reduction(again, reduction.monoid, there, reduction.asked)
    return [first, *some], [Compute((out,), step.axes, joined, (Read(made.symbol, at, made.element),), step.span)]


def _some(step: Compute, cut: Parted, where: Scalar | None, at: tuple[Dim, ...]) -> tuple[list[Compute], Scalar | None]:
    """What makes whether each part has anything that is reduced, where a condition says that; and the condition that one has."""
    if where is None:
        return [], None
    axes = (*step.axes, *cut.apart)
    made = _value(step.outs[0].symbol, "some", Element.BOOL, axes)
    return [Compute((made,), axes, Reduction(cut.within, Monoid("any")), (where,), step.span)], Read(made.symbol, at, made.element)


def _where(reduction: Reduction, cut: Parted) -> Scalar | None:
    return None if reduction.where is None else substitute(reduction.where, cut.at)


def _again(step: Compute | Scan, cut: Parted) -> tuple[tuple[Axis, ...], tuple[Dim, ...]]:
    """Axes that go through the parts once more, and where these lie."""
    again = tuple(Axis(fresh(axis.symbol.name), axis.extent) for axis in cut.apart)
    rows = step.axes if isinstance(step, Compute) else step.axes[:-1]
    return again, tuple(Dim.of(axis.symbol) for axis in (*rows, *again))


@dataclass(frozen=True, slots=True)
class Before:
    """What makes the total of each slice, and the scan of these; and of each state a read of what stands before a slice."""

    totals: list[Compute]
    scan: Scan
    reads: tuple[Read, ...]


def before(step: Scan, cut: Parted) -> Before:
    """See above; of slices along the last axis."""
    rows, (part,), axis = step.axes[:-1], cut.apart, step.axes[-1]
    shape = tuple(row.extent for row in rows)
    whole = tuple(Value(_symbol(out.symbol, "slices"), out.element, shape) for out in step.outs)
    totals, _ = parted(Compute(whole, rows, Reduction((axis,), step.monoid), step.body, step.span), cut)
    held = totals[0].outs
    (again,), at = _again(step, cut)
    made = tuple(
        Value(_symbol(out.symbol, "before"), total.element, (*shape, part.extent))
        for out, total in zip(step.outs, held, strict=True)
    )
    read = tuple(Read(total.symbol, at, total.element) for total in held)
    there = (*(Dim.of(row.symbol) for row in rows), maximum(Dim.of(part.symbol) - 1, 0))
    return Before(
        totals,
        Scan(made, (*rows, again), step.monoid, read, step.span),
        tuple(Read(value.symbol, there, value.element) for value in made),
    )


def _value(out: Symbol, what: str, element: Element, axes: tuple[Axis, ...]) -> Value:
    return Value(_symbol(out, what), element, tuple(axis.extent for axis in axes))


@lru_cache(maxsize=4096)
def _symbol(out: Symbol, what: str) -> Symbol:
    """Of what is made on the way to a tensor: the same in everything that is made of one program."""
    return fresh(f"{out.name}_{what}")


@lru_cache(maxsize=4096)
def _numbered(out: Symbol, number: int) -> Symbol:
    return fresh(f"{out.name}_parts{number or ''}")
