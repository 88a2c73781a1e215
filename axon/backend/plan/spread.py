"""Few long rows in several kernels: what each row reduces in parts, by many blocks at once, then what is made of its elements.

    spread   a Nest -> the nests that take its place

    m[n] = sum c i => x[n, c, i];   v[n] = sum c i => (x[n, c, i] - m[n]) ** 2;   y[n, c, i] = (x[n, c, i] - m[n]) / v[n]

becomes

    p[n, c] = sum i => x[n, c, i];   m[n] = sum c => p[n, c];   q[n, c] = sum i => …;   v[n] = sum c => q[n, c];   y[n, c, i] = …

and, of scans, which are made in slices,

    y[n, i] = scan i => x[n, i];   z[n, i] = f y[n, i]

becomes, with m elements in a slice (see Note [Slices] of `plan.ir`),

    p[n, c] = sum i' => x[n, c m + i'];   b[n, c] = scan c => p[n, c];   y[n, c m + i'] = b[n, c - 1] + scan i' => x[n, c m + i']; …

A team of one block would go through a row alone while the rest of the chip waits. What one step makes at an element for another is
made again where it is read. Parts of a 16- or 8-bit sum are kept as f32. The order in which elements are combined stays: a slice's
scan begins with what stands before it, and of that a part's elements were combined in order, and the parts in theirs. A row
without rows beside it, a long vector, is spread if it has steps that `split` leaves whole.

A custom monoid's parts are joined by its own function. Of the places of the best (`argmax`) a part has its best value and the first
place of that in the part: the first part that has the best has the place. An extreme of integers under a condition may be one of
nothing in a part: it is joined where the part has any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from functools import lru_cache

from axon.backend.plan.ir import Nest, Reason, Slices
from axon.backend.plan.lanes import inner, reduced
from axon.backend.plan.split import GRAIN, KINDS, halves, needs_some, with_axes
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Const, Index, Monoid, Read, Reduction, Scalar, Scan, Value, element_of
from axon.core.scalar_facts import ends_early, mapped, substitute
from axon.core.walk import converted, nodes, rewrite, scalars, tensors_of
from axon.shapes.dimension import Dim, maximum, minimum

NOBODY = Const(False, Element.BOOL)  # asks for an extreme of nothing
SLACK = 4  # times fewer parts than wanted, with which axes that are there will do


@dataclass(frozen=True, slots=True)
class Cut:
    """How a row is cut: each index of the first `whole` of the axes that a step reduces is a part, and of the next one each of so
    many `pieces`."""

    whole: int
    pieces: int = 1

    @staticmethod
    def of(extents: Sequence[int], parts: int) -> Cut:
        """About so many parts of a row with these extents; where axes alone give a quarter of them, none is cut."""
        many = 1
        for whole, extent in enumerate(extents):
            rest = parts // many
            if whole and rest <= SLACK:
                return Cut(whole)
            if extent > rest or whole + 1 == len(extents):
                return Cut(whole, max(1, min(extent, 1 << (max(1, rest).bit_length() - 1))))
            many *= extent
        raise AssertionError("a row without axes")


def can_spread(nest: Nest) -> bool:
    """Whether a nest has steps that are made for each element, or go through a row, over a range that is the same for all rows and
    all of these steps: it has rows, or what `split` leaves whole."""
    rows = {axis.symbol for axis in nest.rows}
    extents = set[tuple[Dim, ...]]()
    for step in nest.steps:
        if ends_early(step):
            return False
        own, along = inner(step, len(nest.rows)), reduced(step)
        if any(not rows.isdisjoint(axis.extent.variables) for axis in (*own, *along)):
            return False
        if isinstance(step, Scan):
            if len(own) != 1:
                return False
            extents.add((own[0].extent,))
        elif along:
            symbols = {axis.symbol for axis in along}
            if own or any(not symbols.isdisjoint(axis.extent.variables) for axis in along):
                return False
            extents.add(tuple(axis.extent for axis in along))
    # All are cut alike, so all go through a row in the same way.
    return len(extents) == 1 and (bool(nest.rows) or any(map(in_any_parts, nest.steps)))


def spread(nest: Nest, cut: Cut) -> Iterator[Nest]:
    """See above; for a nest that can be spread."""
    rest = list(_inlined(nest))
    made = {out.symbol for step in rest for out in step.outs}
    why = nest.reasons
    while rest:
        pending = set(made)
        ready = [s for s in rest if (reduced(s) or isinstance(s, Scan)) and pending.isdisjoint(tensors_of(s))]
        joined: list[Compute | Scan] = []
        scans: list[tuple[Scan, Before]] = []
        if ready:
            some = any(isinstance(step, Scan) or in_any_parts(step) or needs_some(step) for step in ready)
            parts: list[Compute] = []
            for step in ready:
                along = _cut(reduced(step) or inner(step, len(nest.rows)), cut, some)
                if isinstance(step, Scan):
                    found = before(step, along)
                    own: list[Compute] = found.totals
                    joined.append(found.scan)
                    scans.append((step, found))
                else:
                    own, after = parted(step, along)
                    joined += after
                parts += own
            axes = parts[0].axes
            stored = tuple(out.symbol for part in parts for out in part.outs)
            reason = Reason("{0}: each row by many blocks, since there are few", (ready[0].outs[0].symbol,))
            yield Nest(axes, tuple(with_axes(part, axes) for part in parts), stored, (reason,))
        rest = [step for step in rest if step not in ready]
        pending -= {out.symbol for step in ready if not isinstance(step, Scan) for out in step.outs}
        later: list[Compute | Scan] = []
        for step in rest:  # in order: values of rows that follow
            apart = reduced(step) or inner(step, len(nest.rows))
            free = pending.isdisjoint(tensors_of(step)) and not apart
            (joined if free else later).append(step)
            pending -= {out.symbol for out in step.outs} if free else set()
        wanted = frozenset(nest.stored).union(*(tensors_of(step) for step in later))
        wanted |= {read.tensor for _, found in scans for read in found.reads}
        if joined:
            yield Nest(nest.rows, tuple(joined), tuple(o.symbol for step in joined for o in step.outs if o.symbol in wanted), why)
            why = ()
        if scans:
            slices = _slices(nest, scans, later, cut, pending)
            own_steps = {out.symbol for step in slices.steps for out in step.outs}
            later = [step for step in later if own_steps.isdisjoint(out.symbol for out in step.outs)]
            wanted = frozenset(nest.stored).union(*map(tensors_of, later))
            yield replace(slices, stored=tuple(s for s in slices.stored if s in wanted))
            pending -= own_steps
        maps = [s for s in later if not (reduced(s) or isinstance(s, Scan)) and pending.isdisjoint(tensors_of(s))]
        rest = [step for step in later if step not in maps]
        for step in maps:
            yield Nest(step.axes, (step,), tuple(out.symbol for out in step.outs), why)
            why = ()
        made = {out.symbol for step in rest for out in step.outs}


def _slices(
    nest: Nest, scans: Sequence[tuple[Scan, Before]], later: Sequence[Compute | Scan], cut: Cut, pending: Set[Symbol]
) -> Nest:
    """Scans in slices, and what is made of their elements one by one. See Note [Slices] of `plan.ir`."""
    first = scans[0][0].axes[-1]
    along = _cut((first,), cut, True)
    (part,), (within,), at = along.apart, along.within, along.at[first.symbol]
    rows = tuple(Dim.of(axis.symbol) for axis in nest.rows)
    steps: list[Compute | Scan] = []
    made = {out.symbol for scan, _ in scans for out in scan.outs}

    def follows(step: Compute | Scan) -> bool:
        """Whether a step is made of elements of these at its own place, and nothing else that is not there."""
        axes = inner(step, len(nest.rows))
        if isinstance(step, Scan) or reduced(step) or len(axes) != 1 or axes[0].extent != first.extent:
            return False
        if made.isdisjoint(tensors_of(step)) or not pending.isdisjoint(tensors_of(step) - made):
            return False
        here = (*rows, Dim.of(axes[0].symbol))
        found = (node for scalar in scalars(step) for node in nodes(scalar) if isinstance(node, Read) and node.tensor in made)
        return all(read.subscripts == here for read in found)

    def placed(step: Compute | Scan) -> Compute | Scan:
        names = {step.axes[-1].symbol: at}
        changed = mapped(step, lambda scalar: substitute(scalar, names))
        return replace(changed, axes=(*nest.rows, part, within))

    for scan, _ in scans:
        steps.append(placed(scan))
    for step in later:
        if follows(step):
            steps.append(placed(step))
            made |= {out.symbol for out in step.outs}
    # Of all scans the parts are of one axis, under its first name.
    begun = {scan.outs[0].symbol: _of_part(found.reads, part) for scan, found in scans}
    reason = Reason("{0}: slices of each row, since there are few", (scans[0][0].outs[0].symbol,))
    stored = tuple(out.symbol for step in steps for out in step.outs)
    return Nest((*nest.rows, part), tuple(steps), stored, (reason,), slices=Slices(part.symbol, (*rows, at), tuple(begun.items())))


def _of_part(reads: tuple[Read, ...], part: Axis) -> tuple[Read, ...]:
    """Reads of what stands before a slice, by another axis of slices."""
    last = maximum(Dim.of(part.symbol) - 1, 0)
    return tuple(replace(read, subscripts=(*read.subscripts[:-1], last)) for read in reads)


def _inlined(nest: Nest) -> Iterator[Compute | Scan]:
    """The steps of a nest, without those whose elements only it reads: these are made again where they are read."""
    known: dict[Symbol, tuple[Compute, Scalar]] = {}

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in known:
            return None
        step, body = known[node.tensor]
        at = {axis.symbol: s for axis, s in zip(step.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        return substitute(body, at)

    for step in nest.steps:
        changed = mapped(step, lambda scalar: rewrite(scalar, visit))
        own = {out.symbol for out in step.outs}
        if not isinstance(changed, Compute):
            yield changed
        elif (
            changed.reduction is None
            and inner(step, len(nest.rows))
            and own.isdisjoint(nest.stored)
            and _read_at_indices(nest, own)
        ):
            known |= {out.symbol: (changed, body) for out, body in zip(changed.outs, changed.body, strict=True)}
        else:
            yield changed


def _read_at_indices(nest: Nest, tensors: set[Symbol]) -> bool:
    """Whether tensors are read at sums of indices and sizes alone, inside of them."""
    found = (n for step in nest.steps for s in scalars(step) for n in nodes(s) if isinstance(n, Read) and n.tensor in tensors)
    return all(read.padding is None and read.checked is None and all(isinstance(s, Dim) for s in read.subscripts) for read in found)


# ── parts and slices ────────────────────────────────────────────────────────────────────────────────────────────────────


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
    """What makes the parts of a reduction, and the steps that join them. Parts stand over the axes of the result, then their own;
    none is empty where extremes need that."""
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
    """What makes a scan in slices along its last axis. See Note [Slices] of `plan.ir`."""
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


def _cut(axes: tuple[Axis, ...], cut: Cut, some: bool) -> Parted:
    """How axes of a step are cut; with `some`, no part is empty."""
    apart, within = axes[: cut.whole], axes[cut.whole :]
    at: dict[Symbol, Dim] = {}
    begin: dict[Symbol, Dim] = {}
    if cut.pieces > 1:
        first, *others = within
        unit = 1 if others else GRAIN  # pieces begin at aligned elements
        length = (first.extent + (cut.pieces * unit - 1)) // (cut.pieces * unit) * unit
        count = (first.extent + maximum(length, 1) - 1) // maximum(length, 1) if some else Dim.of(cut.pieces)
        part, place = Axis(fresh("part"), count), fresh(first.symbol.name)
        begin = {first.symbol: Dim.of(part.symbol) * length}
        at = {first.symbol: begin[first.symbol] + Dim.of(place)}
        apart = (*apart, part)
        within = (Axis(place, minimum(length, first.extent - begin[first.symbol])), *others)
    return Parted(apart, within, at, begin)
