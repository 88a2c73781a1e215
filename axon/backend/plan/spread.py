"""Few long rows in several kernels: what each row reduces in parts, by many blocks at once, then what is made of its elements.

    spread   a Nest -> the nests that take its place

    m[n] = sum c i => x[n, c, i];   v[n] = sum c i => (x[n, c, i] - m[n]) ** 2;   y[n, c, i] = (x[n, c, i] - m[n]) / v[n]

becomes

    p[n, c] = sum i => x[n, c, i];   m[n] = sum c => p[n, c];   q[n, c] = sum i => …;   v[n] = sum c => q[n, c];   y[n, c, i] = …

A team of one block would go through a row alone while the rest of the chip waits. What one step makes at an element for another is
made again where it is read. Parts of a 16- or 8-bit sum are kept as f32.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from axon.backend.plan.ir import Nest, Reason
from axon.backend.plan.lanes import inner, reduced
from axon.backend.plan.split import GRAIN, KINDS, halves, needs_some, with_axes
from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Compute, Read, Scalar, Scan
from axon.core.scalar_facts import ends_early, mapped, substitute
from axon.core.walk import nodes, rewrite, scalars, tensors_of
from axon.shapes.dimension import Dim, maximum, minimum

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
    """Whether a nest has rows, and steps that are made for each element, or reduce a row in any order, over a range that is the
    same for all rows and all of these steps."""
    rows = {axis.symbol for axis in nest.rows}
    for step in nest.steps:
        if isinstance(step, Scan) or ends_early(step):
            return False
        if any(not rows.isdisjoint(axis.extent.variables) for axis in (*inner(step, len(nest.rows)), *reduced(step))):
            return False
        if step.reduction is None:
            continue
        kind, own = step.reduction.monoid.kind, {axis.symbol for axis in reduced(step)}
        if kind not in KINDS or len(step.outs) != 1 or inner(step, len(nest.rows)):
            return False
        if needs_some(step) and step.reduction.where is not None:
            return False
        if any(not own.isdisjoint(axis.extent.variables) for axis in reduced(step)):
            return False
    # All are cut alike, so all go through a row in the same way.
    return bool(nest.rows) and len({tuple(axis.extent for axis in reduced(step)) for step in nest.steps if reduced(step)}) == 1


def spread(nest: Nest, cut: Cut) -> Iterator[Nest]:
    """See above; for a nest that can be spread."""
    rest = list(_inlined(nest))
    made = {out.symbol for step in rest for out in step.outs}
    why = nest.reasons
    while rest:
        pending = set(made)
        ready = [step for step in rest if reduced(step) and pending.isdisjoint(tensors_of(step))]
        joined: list[Compute] = []
        if ready:
            some = any(needs_some(step) for step in ready)
            parts, joins = zip(*(_halves(step, cut, some) for step in ready), strict=True)
            axes = parts[0].axes
            stored = tuple(out.symbol for part in parts for out in part.outs)
            reason = Reason("{0}: each row by many blocks, since there are few", (ready[0].outs[0].symbol,))
            yield Nest(axes, tuple(with_axes(part, axes) for part in parts), stored, (reason,))
            joined = [step for join in joins for step in join]
        rest = [step for step in rest if step not in ready]
        pending -= {out.symbol for step in ready for out in step.outs}
        later: list[Compute] = []
        for step in rest:  # in order: values of rows that follow
            free = pending.isdisjoint(tensors_of(step)) and not reduced(step) and not inner(step, len(nest.rows))
            (joined if free else later).append(step)
            pending -= {out.symbol for out in step.outs} if free else set()
        maps = [step for step in later if not reduced(step) and pending.isdisjoint(tensors_of(step))]
        rest = [step for step in later if step not in maps]
        wanted = frozenset(nest.stored).union(*(tensors_of(step) for step in (*maps, *rest)))
        if joined:
            yield Nest(nest.rows, tuple(joined), tuple(o.symbol for step in joined for o in step.outs if o.symbol in wanted), why)
            why = ()
        for step in maps:
            yield Nest(step.axes, (step,), tuple(out.symbol for out in step.outs), why)
            why = ()
        made = {out.symbol for step in rest for out in step.outs}


def _inlined(nest: Nest) -> Iterator[Compute]:
    """The steps of a nest, without those whose elements only it reads: these are made again where they are read."""
    known: dict[Symbol, tuple[Compute, Scalar]] = {}

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in known:
            return None
        step, body = known[node.tensor]
        at = {axis.symbol: s for axis, s in zip(step.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        return substitute(body, at)

    for step in nest.steps:
        assert isinstance(step, Compute)
        changed = mapped(step, lambda scalar: rewrite(scalar, visit))
        assert isinstance(changed, Compute)
        own = {out.symbol for out in step.outs}
        if step.reduction is None and inner(step, len(nest.rows)) and own.isdisjoint(nest.stored) and _read_at_indices(nest, own):
            known |= {out.symbol: (changed, body) for out, body in zip(changed.outs, changed.body, strict=True)}
        else:
            yield changed


def _read_at_indices(nest: Nest, tensors: set[Symbol]) -> bool:
    """Whether tensors are read at sums of indices and sizes alone, inside of them."""
    found = (n for step in nest.steps for s in scalars(step) for n in nodes(s) if isinstance(n, Read) and n.tensor in tensors)
    return all(read.padding is None and read.checked is None and all(isinstance(s, Dim) for s in read.subscripts) for read in found)


def _halves(step: Compute, cut: Cut, some: bool) -> tuple[Compute, list[Compute]]:
    """A reduction's parts, and the steps that join them; with `some`, no part is empty."""
    (out,), axes = step.outs, reduced(step)
    apart, within = axes[: cut.whole], axes[cut.whole :]
    at: dict[Symbol, Dim] = {}
    if cut.pieces > 1:
        first, *others = within
        unit = 1 if others else GRAIN  # pieces begin at aligned elements
        length = (first.extent + (cut.pieces * unit - 1)) // (cut.pieces * unit) * unit
        count = (first.extent + maximum(length, 1) - 1) // maximum(length, 1) if some else Dim.of(cut.pieces)
        part, place = Axis(fresh("part"), count), fresh(first.symbol.name)
        at = {first.symbol: Dim.of(part.symbol) * length + Dim.of(place)}
        apart = (*apart, part)
        within = (Axis(place, minimum(length, first.extent - Dim.of(part.symbol) * length)), *others)
    return halves(step, (*step.axes, *apart), apart, within, at, _symbol(out.symbol))


@lru_cache(maxsize=4096)
def _symbol(out: Symbol) -> Symbol:
    """Of the parts of what is made: the same in everything that is made of one program."""
    return fresh(f"{out.name}_parts")
