"""Long reductions with few results, in two kernels: parts of each in parallel, then the parts together.

    split     a Nest -> the nests that take its place, itself alone if it is wide enough as it is
    parting   a reduction that was split -> how it is cut at some sizes

    s[j] = sum i => x[i, j]    becomes    p[c, j] = sum i' < min(m, n - c m) => x[c m + i', j]     and     s[j] = sum c => p[c, j]

The number of parts follows from the sizes, as a dimension expression: so many that the chip is full, none so short that starting it
costs more than it does. Of several reduced axes the first ones are cut first, into single indices if need be, until that is enough:
one that is short, as a batch often is, makes no parts alone. Parts of a 16- or 8-bit sum are kept as f32.

As a formula for all sizes every axis is cut. At the sizes of a call most of them have one part: these stay whole (`parting`), so
that memory goes through them as one with the axis before; and where no axis has several, nothing is split.

    s[j] = argmax i => x[i, j]    becomes    b[c, j] = max i' => x[c m + i', j];   p[c, j] = argmax i' => x[c m + i', j]
                                  and        q[j] = argmax c => b[c, j];           s[j] = q[j] m + p[q[j], j]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod

from axon.backend.plan.argmax import is_plain
from axon.backend.plan.ir import Divided, Nest, Parting, PartKind, Reason
from axon.backend.plan.lanes import by_lanes, inner, reduced
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    Axis,
    Binary,
    Compute,
    Const,
    Convert,
    Index,
    Monoid,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Value,
    element_of,
)
from axon.core.passes.loop_order import ordered
from axon.core.scalar_facts import above_0, ends_early, mapped, substitute
from axon.core.walk import converted, rewrite, tensors_of
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum

COLUMNS = 132 * 256  # threads side by side that fill the chip, where some share each column
PARTS = 1024  # at most
BLOCKS = 132 * 4  # likewise
LANES = 4  # neighbours that one thread takes, about
SHORTEST = 32  # elements of a part of a column
LONGEST = 4096  # of a part where there are no columns, if that makes parts enough
GRAIN = 64  # parts are multiples of this, so that they begin at aligned elements
UNCUT: frozenset[PartKind] = frozenset({"one", "whole"})
NO_PARTINGS: Mapping[Symbol, Parting] = {}
KINDS: frozenset[MonoidKind] = frozenset({"sum", "prod", "any", "all", "max", "min"})


def narrowed(nest: Nest, ones: Set[Symbol]) -> Nest:
    """A nest of reductions by lanes whose last row axis has one index, if that size is among these: it goes by rows along the axis
    before, as if the last one were not there. By rows it does no harm; nor does it where lanes would go along the axis before, as
    then they do anyway."""
    rows = nest.rows
    while len(rows) > 1 and (rows[-1].extent.constant == 1 or rows[-1].extent.symbol in ones):
        rows = rows[:-1]
    if rows == nest.rows or not any(map(reduced, nest.steps)) or not by_lanes(nest):
        return nest
    gone = {Dim.of(axis.symbol) for axis in nest.rows[len(rows) :]}

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or not node.subscripts or node.subscripts[-1] not in gone:
            return None
        return rewrite(replace(node, subscripts=node.subscripts[:-1]), visit)

    steps = tuple(replace(mapped(s, lambda scalar: rewrite(scalar, visit)), axes=s.axes[: len(rows)]) for s in nest.steps)
    alone = all(len(step.axes) == len(nest.rows) for step in nest.steps)
    return nest if alone and by_lanes(replace(nest, rows=rows, steps=steps)) else replace(nest, rows=rows)


def in_memory_order(nest: Nest) -> Nest:
    """A nest with reductions that go through their axes as memory lies, but for those that data end: the last axis says where."""

    def along(step: Compute | Scan) -> Compute | Scan:
        return step if isinstance(step, Scan) or ends_early(step) else ordered(step, KINDS)

    return replace(nest, steps=tuple(map(along, nest.steps)))


def split(nest: Nest, partings: Mapping[Symbol, Parting] = NO_PARTINGS) -> Iterator[Nest]:
    """See above. Reductions that depend on earlier ones of the nest are split after them. `partings` say of some results how their
    axes are cut."""
    first = _first(nest, partings)
    if first is None:
        yield nest
        return
    group = [step for step in nest.steps if _splits(step, nest, partings) and _cut(step, partings) == first]
    ready = _independent(nest, group)
    if not ready:
        yield nest
        return
    extents, parting = first
    made = [_best_halves(step, nest, parting) if is_plain(step) else _halves(step, nest, parting) for step in ready]
    parts, joined = [part for own, _ in made for part in own], [chain for _, chain in made]
    axes = parts[0].axes[: len(parts[0].axes) - len(nest.rows)]
    stored = tuple(out.symbol for part in parts for out in part.outs)
    why = Reason("{0}: many parts at once, since there are few results", (ready[0].outs[0].symbol,))
    steps = tuple(with_axes(p, parts[0].axes) for p in parts)
    divided = Divided(tuple(step.outs[0].symbol for step in ready), nest.rows, extents, parting)
    yield Nest((*axes, *nest.rows), steps, stored, (why,), divided)
    before = [step for chain in joined for step in chain]
    rest = [step for step in nest.steps if step not in ready]
    # What the rest reads of what was made by now lies in memory or in the same nest.
    yield from split_rest(Nest(nest.rows, (*before, *rest), nest.stored, nest.reasons), len(before), partings)


def split_rest(nest: Nest, done: int, partings: Mapping[Symbol, Parting]) -> Iterator[Nest]:
    """The nest after its first steps, which are short, are left as they are: what is long in the rest is split once more."""
    later = nest.steps[done:]
    if not any(_splits(step, nest, partings) for step in later):
        yield nest
        return
    # The first steps, and what follows from them pointwise, as a kernel of its own that stores what the rest reads.
    head, tail = [*nest.steps[:done]], list[Compute | Scan]()
    for step in later:
        behind = {out.symbol for other in tail for out in other.outs}
        long = inner(step, len(nest.rows)) or reduced(step) or not behind.isdisjoint(tensors_of(step))
        (tail if long else head).append(step)
    wanted = frozenset().union(*map(tensors_of, tail)) | set(nest.stored)
    stored = tuple(out.symbol for step in head for out in step.outs if out.symbol in wanted)
    yield Nest(nest.rows, tuple(head), stored, nest.reasons)
    yield from split(Nest(nest.rows, tuple(tail), tuple(s for s in nest.stored if s not in stored), ()), partings)


def _first(nest: Nest, partings: Mapping[Symbol, Parting]) -> tuple[tuple[Dim, ...], Parting] | None:
    """The extents of the first reduction that splits, and how they are cut."""
    if nest.rows and not by_lanes(nest):
        return None
    return next((_cut(step, partings) for step in nest.steps if _splits(step, nest, partings)), None)


def _cut(step: Compute | Scan, partings: Mapping[Symbol, Parting]) -> tuple[tuple[Dim, ...], Parting]:
    extents = _extents(step)
    return extents, partings.get(step.outs[0].symbol) or _every(len(extents))


def _every(axes: int) -> Parting:
    """All axes cut, as it is done for any size."""
    each: PartKind = "each"
    return (*((each,) * (axes - 1)), "several") if axes > 1 else ("many",)


def parting(divided: Divided, sizes: Mapping[Symbol, int]) -> Parting | None:
    """How a reduction that was split is to be cut at these sizes; None where it is cut so. The last loop is the one that threads
    share: last axes of a single index are no loops."""
    extents = [max(0, extent.evaluate(sizes)) for extent in divided.extents]
    wanted, found = _wanted(divided.rows).evaluate(sizes), list[PartKind]()
    for position, extent in enumerate(extents):
        kind: PartKind = "each"
        if position and prod(extents[position:]) == 1:
            kind = "one"
        elif wanted <= 1 or extent <= 1 or prod(extents) < 2 * SHORTEST:
            kind = "whole"
        elif prod(extents[position + 1 :]) == 1:
            kind = "several" if any(before not in UNCUT for before in found) else "many"
        elif not divided.rows and extent >= wanted * GRAIN:
            kind = "several"
        found.append(kind)
        count, _ = _part(Dim.of(extent), Dim.of(wanted), kind, divided.rows)
        wanted = (wanted - 1) // max(1, count.evaluate({})) + 1
    made = tuple(found)
    return None if made == divided.parting else made


def _extents(step: Compute | Scan) -> tuple[Dim, ...]:
    """Of the axes of a reduction that are cut: all, if each has one range; else the first."""
    axes = reduced(step)
    known = [axis.extent.variables.isdisjoint(other.symbol for other in axes) for axis in axes]
    return tuple(axis.extent for axis in (axes if all(known) else axes[:1]))


def _splits(step: Compute | Scan, nest: Nest, partings: Mapping[Symbol, Parting]) -> bool:
    """Whether a step is a reduction whose parts can be joined in any order, over a range that is the same for all results."""
    if not isinstance(step, Compute) or step.reduction is None or inner(step, len(nest.rows)) or len(step.outs) != 1:
        return False
    kind = step.reduction.monoid.kind
    if not is_plain(step) and kind not in KINDS:
        return False
    if needs_some(step) and step.reduction.where is not None:  # a part of which nothing is asked has no extreme
        return False
    own = partings.get(step.outs[0].symbol)
    if own is not None and UNCUT.issuperset(own):
        return False
    extents = _extents(step)
    if ends_early(step):
        return False
    whole = prod(extents, start=Dim.of(1)).constant
    if whole is not None and whole < 2 * SHORTEST:
        return False
    moving = {axis.symbol for axis in (*nest.rows, *step.reduction.axes)}
    return all(extent.variables.isdisjoint(moving) for extent in extents)


def needs_some(step: Compute) -> bool:
    """Whether there is no result of no elements: so no part may be empty."""
    assert step.reduction is not None
    return step.reduction.monoid.kind in ("max", "min", "argmax", "argmin") and element_of(step.body[0]).is_integer


def _independent(nest: Nest, group: list[Compute | Scan]) -> list[Compute]:
    """Those of a group that read nothing that the nest makes."""
    made = {out.symbol for step in nest.steps for out in step.outs}
    return [step for step in group if isinstance(step, Compute) and made.isdisjoint(tensors_of(step))]


def _wanted(rows: tuple[Axis, ...]) -> Dim:
    """How many parts of a reduction fill the chip."""
    if not rows:
        return Dim.of(BLOCKS)
    items = prod((axis.extent for axis in rows[:-1]), start=Dim.of(1)) * (rows[-1].extent // LANES + 1)
    return minimum(Dim.of(COLUMNS) // (items + 1) + 1, PARTS)


def _part(extent: Dim, wanted: Dim, kind: PartKind, rows: tuple[Axis, ...]) -> tuple[Dim, Dim]:
    """Into how many parts an extent is cut, and how long they are."""
    if kind in UNCUT:
        return Dim.of(1), extent
    if kind == "each":  # each index may be a part: small formulas, since all that follows repeats them
        count = minimum(extent, wanted)
        return count, (extent + count - 1) // maximum(count, 1)
    if rows:
        count = minimum(extent // SHORTEST + 1, wanted)
        return count, (extent + count - 1) // count
    count = minimum(extent // (LONGEST if kind == "many" else GRAIN) + 1, wanted)
    return count, (extent // (count * GRAIN) + 1) * GRAIN


def parts_of(rows: tuple[Axis, ...], extents: Sequence[Dim], parting: Parting | None = None) -> list[tuple[Dim, Dim]]:
    """Into how many parts each of the extents is cut, and how long they are. Raises `DimensionTooLarge`."""
    wanted, found = _wanted(rows), list[tuple[Dim, Dim]]()
    kinds = parting or _every(len(extents))
    for position, (extent, kind) in enumerate(zip(extents, kinds, strict=True)):
        count, length = _part(extent, wanted, kind, rows)
        found.append((count, length))
        if kind not in UNCUT and position + 1 < len(extents):
            wanted = (wanted - 1) // maximum(count, 1) + 1
    return found


@dataclass(frozen=True, slots=True)
class _Piece:
    """An axis in parts: the axis of parts, that of the places in one, and where in the whole that is."""

    part: Axis
    within: Axis
    place: Dim

    @staticmethod
    def of(axis: Axis, count: Dim, length: Dim) -> _Piece:
        part, within = Axis(fresh("part"), count), fresh(axis.symbol.name)
        begin = Dim.of(part.symbol) * length
        return _Piece(part, Axis(within, minimum(length, axis.extent - begin)), begin + Dim.of(within))


def _pieces(step: Compute, nest: Nest, parting: Parting) -> dict[Symbol, _Piece]:
    """The axes that are cut: all that may be, or the first alone where formulas of the others would be too long."""
    extents = _extents(step)
    try:
        parts = parts_of(nest.rows, extents, parting)
    except DimensionTooLarge:
        parts, parting = parts_of(nest.rows, extents[:1]), _every(1)
    found = {}
    for axis, (count, length), kind in zip(reduced(step), parts, parting, strict=False):
        if kind not in UNCUT:
            if needs_some(step):  # as many parts as have an element
                count = (axis.extent + maximum(length, 1) - 1) // maximum(length, 1)
            found[axis.symbol] = _Piece.of(axis, count, length)
    return found


def _halves(step: Compute, nest: Nest, parting: Parting) -> tuple[list[Compute], list[Compute]]:
    """A reduction's parts, and the steps that join them."""
    assert step.reduction is not None
    pieces, axes = _pieces(step, nest, parting), step.reduction.axes
    alone = {axis.symbol for axis, kind in zip(axes, parting, strict=False) if kind == "one"}
    at = {symbol: piece.place for symbol, piece in pieces.items()} | dict.fromkeys(alone, Dim.of(0))
    parts = [piece.part for piece in pieces.values()]
    within = tuple(
        pieces[axis.symbol].within if axis.symbol in pieces else Axis(axis.symbol, axis.extent.substitute(at))
        for axis in axes
        if axis.symbol not in alone
    )
    first, joined = halves(step, (*parts, *step.axes), parts, within, at, fresh(f"{step.outs[0].symbol.name}_parts"))
    return [first], joined


def _best_halves(step: Compute, nest: Nest, parting: Parting) -> tuple[list[Compute], list[Compute]]:
    """The best value of each part and its place there; and the steps that find the first part that has the best, and the place in
    the whole. What a part without elements has nobody looks at."""
    assert step.reduction is not None
    (out,), (value, _), reduction = step.outs, step.body, step.reduction
    (axis,), (piece,) = reduction.axes, _pieces(step, nest, parting).values()
    axes = (piece.part, *step.axes)
    shape = tuple(a.extent for a in axes)
    here = substitute(value, {axis.symbol: piece.place})
    best = Value(fresh(f"{out.symbol.name}_best"), element_of(value), shape)
    place = Value(fresh(f"{out.symbol.name}_parts"), out.element, shape)
    extreme = Reduction((piece.within,), Monoid("max" if reduction.monoid.kind == "argmax" else "min"))
    first = Reduction((piece.within,), reduction.monoid, None, above_0(piece.within.extent))
    parts = [
        Compute((best,), axes, extreme, (here,), step.span),
        Compute((place,), axes, first, (here, Index(Dim.of(piece.within.symbol))), step.span),
    ]
    again, rows = Axis(fresh("part"), piece.part.extent), tuple(Dim.of(a.symbol) for a in step.axes)
    chosen = Value(fresh("part"), out.element, out.shape)
    over = Reduction((again,), reduction.monoid, None, reduction.asked)
    found = Read(best.symbol, (Dim.of(again.symbol), *rows), best.element)
    picked = Read(chosen.symbol, rows, out.element)
    length = piece.place.substitute({piece.part.symbol: Dim.of(1), piece.within.symbol: Dim.of(0)})
    begin = Binary("mul", picked, converted(Index(length, Element.I64), out.element))
    whole = Binary("add", begin, Read(place.symbol, (picked, *rows), out.element))
    return parts, [
        Compute((chosen,), step.axes, over, (found, Index(Dim.of(again.symbol))), step.span),
        Compute((out,), step.axes, None, (Select(above_0(axis.extent), whole, Const(0, out.element)),), step.span),
    ]


def halves(
    step: Compute, axes: tuple[Axis, ...], parts: Sequence[Axis], within: tuple[Axis, ...], at: Mapping[Symbol, Dim], name: Symbol
) -> tuple[Compute, list[Compute]]:
    """A reduction of one thing, made in parts: what makes these, called so, over the axes of the result and of the parts in some
    order; and the steps that join them. A part reduces `within` it; `at` says where in the whole that is."""
    reduction = step.reduction
    assert reduction is not None
    (out,), (body,) = step.outs, step.body
    # An extreme needs no more bits than its elements, and of nothing it is theirs.
    held = out.element if reduction.monoid.kind in ("max", "min") else out.element.accumulator
    value: Scalar = body if element_of(body) is held else Convert(body, held)
    made = Value(name, held, tuple(axis.extent for axis in axes))
    where = None if reduction.where is None else substitute(reduction.where, at)
    asked = reduction.asked if needs_some(step) else None
    first = Compute((made,), axes, Reduction(within, reduction.monoid, where, asked), (substitute(value, at),), step.span)
    again = {part.symbol: Axis(fresh(part.symbol.name), part.extent) for part in parts}
    read = Read(made.symbol, tuple(Dim.of(again.get(axis.symbol, axis).symbol) for axis in axes), held)
    joined = Reduction(tuple(again.values()), Monoid(reduction.monoid.kind), None, reduction.asked)
    if held is out.element:
        return first, [Compute((out,), step.axes, joined, (read,), step.span)]
    wide = Value(fresh(out.symbol.name), held, out.shape)
    back = Read(wide.symbol, tuple(Dim.of(a.symbol) for a in step.axes), held)
    return first, [
        Compute((wide,), step.axes, joined, (read,), step.span),
        Compute((out,), step.axes, None, (Convert(back, out.element),), step.span),
    ]


def with_axes(step: Compute, axes: tuple[Axis, ...]) -> Compute:
    """The step over the same rows and parts as the first one's."""
    names = {mine.symbol: Dim.of(theirs.symbol) for mine, theirs in zip(step.axes, axes, strict=True) if mine != theirs}
    if not names:
        return step
    changed = mapped(step, lambda scalar: substitute(scalar, names))
    assert isinstance(changed, Compute)
    assert changed.reduction is not None
    inside = tuple(Axis(a.symbol, a.extent.substitute(names)) for a in changed.reduction.axes)
    return replace(changed, axes=axes, reduction=replace(changed.reduction, axes=inside))
