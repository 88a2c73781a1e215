"""Long reductions with few results, in two kernels: parts of each in parallel, then the parts together.

    split   a Nest -> the nests that take its place, itself alone if it is wide enough as it is

    s[j] = sum i => x[i, j]    becomes    p[c, j] = sum i' < min(m, n - c m) => x[c m + i', j]     and     s[j] = sum c => p[c, j]

The number of parts follows from the sizes, as a dimension expression: so many that the chip is full, none so short that starting it
costs more than it does. Of several reduced axes the first ones are cut first, into single indices if need be, until that is enough:
one that is short, as a batch often is, makes no parts alone. Parts of a 16- or 8-bit sum are kept as f32.

    s[j] = argmax i => x[i, j]    becomes    b[c, j] = max i' => x[c m + i', j];   p[c, j] = argmax i' => x[c m + i', j]
                                  and        q[j] = argmax c => b[c, j];           s[j] = q[j] m + p[q[j], j]
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from math import prod

from axon.backend.plan.argmax import is_plain
from axon.backend.plan.ir import Nest, Reason
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
from axon.core.walk import converted, tensors_of
from axon.shapes.dimension import Dim, DimensionTooLarge, maximum, minimum

COLUMNS = 132 * 256  # threads side by side that fill the chip, where some share each column
PARTS = 1024  # at most
BLOCKS = 132 * 4  # likewise
LANES = 4  # neighbours that one thread takes, about
SHORTEST = 32  # elements of a part of a column
LONGEST = 4096  # of a part where there are no columns, if that makes parts enough
GRAIN = 64  # parts are multiples of this, so that they begin at aligned elements
KINDS: frozenset[MonoidKind] = frozenset({"sum", "prod", "any", "all", "max", "min"})


def narrowed(nest: Nest, ones: Set[Symbol]) -> Nest:
    """A nest of reductions whose last row axis has one index, if that size is among these: it goes along the axis before, by rows
    or by lanes (see `lanes`), as if the last one were not there."""
    rows = nest.rows
    while len(rows) > 1 and (rows[-1].extent.constant == 1 or rows[-1].extent.symbol in ones):
        rows = rows[:-1]
    return replace(nest, rows=rows) if rows != nest.rows and any(map(reduced, nest.steps)) else nest


def in_memory_order(nest: Nest) -> Nest:
    """A nest with reductions that go through their axes as memory lies, but for those that data end: the last axis says where."""

    def along(step: Compute | Scan) -> Compute | Scan:
        return step if isinstance(step, Scan) or ends_early(step) else ordered(step, KINDS)

    return replace(nest, steps=tuple(map(along, nest.steps)))


def split(nest: Nest) -> Iterator[Nest]:
    """See above. Reductions that depend on earlier ones of the nest are split after them."""
    first = _first(nest)
    if first is None:
        yield nest
        return
    group = [step for step in nest.steps if _splits(step, nest) and _extents(step) == first]
    ready = _independent(nest, group)
    if not ready:
        yield nest
        return
    made = [_best_halves(step, nest) if is_plain(step) else _halves(step, nest) for step in ready]
    parts, joined = [part for own, _ in made for part in own], [chain for _, chain in made]
    axes = parts[0].axes[: len(parts[0].axes) - len(nest.rows)]
    stored = tuple(out.symbol for part in parts for out in part.outs)
    why = Reason("{0}: many parts at once, since there are few results", (ready[0].outs[0].symbol,))
    yield Nest((*axes, *nest.rows), tuple(with_axes(p, parts[0].axes) for p in parts), stored, (why,))
    before = [step for chain in joined for step in chain]
    rest = [step for step in nest.steps if step not in ready]
    # What the rest reads of what was made by now lies in memory or in the same nest.
    yield from split_rest(Nest(nest.rows, (*before, *rest), nest.stored, nest.reasons), len(before))


def split_rest(nest: Nest, done: int) -> Iterator[Nest]:
    """The nest after its first steps, which are short, are left as they are: what is long in the rest is split once more."""
    later = nest.steps[done:]
    if not any(_splits(step, nest) for step in later):
        yield nest
        return
    # The first steps, and what follows from them pointwise, as a kernel of its own that stores what the rest reads.
    head = [*nest.steps[:done]]
    tail = [step for step in later if inner(step, len(nest.rows)) or reduced(step)]
    head += [step for step in later if step not in tail and tensors_of(step).isdisjoint(o.symbol for t in tail for o in t.outs)]
    tail = [step for step in later if step not in head]
    wanted = frozenset().union(*map(tensors_of, tail)) | set(nest.stored)
    stored = tuple(out.symbol for step in head for out in step.outs if out.symbol in wanted)
    yield Nest(nest.rows, tuple(head), stored, nest.reasons)
    yield from split(Nest(nest.rows, tuple(tail), tuple(s for s in nest.stored if s not in stored), ()))


def _first(nest: Nest) -> tuple[Dim, ...] | None:
    """The extents of the first reduction that splits."""
    if nest.rows and not by_lanes(nest):
        return None
    return next((_extents(step) for step in nest.steps if _splits(step, nest)), None)


def _extents(step: Compute | Scan) -> tuple[Dim, ...]:
    """Of the axes of a reduction that are cut: all, if each has one range; else the first."""
    axes = reduced(step)
    known = [axis.extent.variables.isdisjoint(other.symbol for other in axes) for axis in axes]
    return tuple(axis.extent for axis in (axes if all(known) else axes[:1]))


def _splits(step: Compute | Scan, nest: Nest) -> bool:
    """Whether a step is a reduction whose parts can be joined in any order, over a range that is the same for all results."""
    if not isinstance(step, Compute) or step.reduction is None or inner(step, len(nest.rows)) or len(step.outs) != 1:
        return False
    kind, element = step.reduction.monoid.kind, step.outs[0].element
    best = is_plain(step) and element_of(step.body[0]).is_float
    if not best and (kind not in KINDS or (kind in ("max", "min") and element.is_integer)):
        return False
    extents = _extents(step)
    if ends_early(step):
        return False
    whole = prod(extents, start=Dim.of(1)).constant
    if whole is not None and whole < 2 * SHORTEST:
        return False
    moving = {axis.symbol for axis in (*nest.rows, *step.reduction.axes)}
    return all(extent.variables.isdisjoint(moving) for extent in extents)


def _independent(nest: Nest, group: list[Compute | Scan]) -> list[Compute]:
    """Those of a group that read nothing that the nest makes."""
    made = {out.symbol for step in nest.steps for out in step.outs}
    return [step for step in group if isinstance(step, Compute) and made.isdisjoint(tensors_of(step))]


def parts_of(rows: tuple[Axis, ...], extents: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Into how many parts each of the extents is cut, and how long they are. Raises `DimensionTooLarge`."""
    *outer, last = extents
    if rows:
        items = prod((axis.extent for axis in rows[:-1]), start=Dim.of(1)) * (rows[-1].extent // LANES + 1)
        wanted = minimum(Dim.of(COLUMNS) // (items + 1) + 1, PARTS)
    else:
        wanted = Dim.of(BLOCKS)
    found: list[tuple[Dim, Dim]] = []
    for extent in outer:  # of which each index may be a part: small formulas, since all that follows repeats them
        count = minimum(extent, wanted)
        found.append((count, (extent + count - 1) // maximum(count, 1)))
        wanted = (wanted - 1) // maximum(count, 1) + 1
    if rows:
        count = minimum(last // SHORTEST + 1, wanted)
        return [*found, (count, (last + count - 1) // count)]
    count = minimum(last // (GRAIN if outer else LONGEST) + 1, wanted)
    return [*found, (count, (last // (count * GRAIN) + 1) * GRAIN)]


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


def _pieces(step: Compute, nest: Nest) -> list[_Piece]:
    """The axes that are cut: all that may be, or the first alone where formulas of the others would be too long."""
    extents = _extents(step)
    try:
        parts = parts_of(nest.rows, extents)
    except DimensionTooLarge:
        parts = parts_of(nest.rows, extents[:1])
    return [_Piece.of(axis, *part) for axis, part in zip(reduced(step), parts, strict=False)]


def _halves(step: Compute, nest: Nest) -> tuple[list[Compute], list[Compute]]:
    """A reduction's parts, and the steps that join them."""
    assert step.reduction is not None
    pieces, axes = _pieces(step, nest), step.reduction.axes
    at = {axis.symbol: piece.place for axis, piece in zip(axes, pieces, strict=False)}
    others = (Axis(axis.symbol, axis.extent.substitute(at)) for axis in axes[len(pieces) :])
    parts, within = [piece.part for piece in pieces], (*(piece.within for piece in pieces), *others)
    first, joined = halves(step, (*parts, *step.axes), parts, within, at, fresh(f"{step.outs[0].symbol.name}_parts"))
    return [first], joined


def _best_halves(step: Compute, nest: Nest) -> tuple[list[Compute], list[Compute]]:
    """The best value of each part and its place there; and the steps that find the first part that has the best, and the place in
    the whole. What a part without elements has nobody looks at."""
    assert step.reduction is not None
    (out,), (value, _), reduction = step.outs, step.body, step.reduction
    (axis,), (piece,) = reduction.axes, _pieces(step, nest)
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
    first = Compute((made,), axes, Reduction(within, reduction.monoid, where), (substitute(value, at),), step.span)
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
