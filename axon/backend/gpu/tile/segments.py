"""Contractions that sum the rows of each group: what they reduce is a segment of rows, whose ends a table says.

    y[g, k, j] = sum i where e[i] = g => a[i, k] * b[i, j]

Note [Segments of a sum]
    So the gradient of rows in groups (Note [Ragged tiles]) by their matrices is written. In the order of groups the rows of each
    are a *segment*, from start[g] until start[g + 1]. A tile of the result has one g; its steps go over that segment alone, so
    many rows at a time. Small plain kernels make, before the product's own:

      member[i]    = e[i], if a group; -1 if it is less (of rows in that order), and else as many as groups there are
      start[g]     = how many rows have a member before g

    and, where rows are not known to stand in that order,

      order[p]     = which row is the p-th in it, as for ragged tiles; those of no group are behind all others
      rows[p, k]   = a[order[p], k], and b's likewise

    A segment begins at any row, and is no multiple of a step. Its last step ends where it does, so that its first may begin in the
    rows of another group. These may be infinite or NaN, and 0 times that is none: they must not come at all. So bulk copies leave
    them out. They read a factor through a view of which two dimensions move along the same one,

      view[f, d, k] = a[f + d, k]            d < REACH

    A step that begins at row r of a segment that begins at s copies from f = max(r, s) and d = r - f, which is 0, or below 0 for
    the rows before s: d outside of the view is 0 in shared memory, and is not read in memory. Behind its end a step has none. A
    group without rows has one step, which is outside as a whole, so that its sums are 0. Nothing is padded, and a product in
    whichever order rows are has the same sums as often as it is made.

    Elements must lie side by side along the result's rows or columns: what lies so along i is copied first, as what bulk copies
    cannot read (`runtime.packed`).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from axon.backend.gpu.layout.axes import AxisPart
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.layout.views import View, through
from axon.backend.gpu.tile.ragged import GroupTables, Table, table_symbol
from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Bind, Compute, Const, Index, Local, Read, Scalar, Select, Value, element_of
from axon.core.scalar_facts import (
    at_least_0,
    axes_of,
    conjunction,
    may_fail,
    operands,
    present,
    scatter,
    substitute,
    with_data,
)
from axon.core.walk import all_axes, converted, mentions
from axon.shapes.dimension import Dim

I32 = Element.I32
REACH = HOPPER.box_extent  # rows of a step, at most
_ROW = fresh("row")  # in place of a product's own index, where products with the same groups are to share tables
_AXES = tuple(fresh("axis") for _ in range(32))


@dataclass(frozen=True, slots=True)
class Segments:
    """Which rows a product sums for each index of `group`, one of its outer axes: those from `start[group]` until
    `start[group + 1]`. A step's first row that is one of these is at the index `front`, see Note [Segments of a sum]. `order` is
    missing where rows stand in the order of their groups. `made` are the operations that make the tables, and the `copies` of
    factors with rows in that order."""

    group: Symbol
    front: Symbol
    start: Value
    order: Value | None
    made: tuple[Table, ...] = field(compare=False, repr=False)
    copies: tuple[Value, ...] = ()

    @property
    def tables(self) -> tuple[Value, ...]:
        """What the product's kernel reads beside factors."""
        return (self.start,)

    @property
    def kept(self) -> frozenset[Value]:
        """What is made for it and stays in memory."""
        return frozenset((*self.tables, *self.copies))


@dataclass(frozen=True, slots=True)
class GroupedSum:
    """A sum of products over `row`, of those whose `index` is that of the result along `group`. `given` are the sizes that must not
    be 0, and `folded` what else must hold of a row."""

    group: Axis
    row: Axis
    index: Scalar
    given: Scalar | None
    folded: Scalar | None


def grouped_sum(op: Compute, deep: Sequence[Scalar]) -> GroupedSum | None:
    """A sum of products of two factors as one over rows in groups; None if it is none."""
    found = scatter(op)
    if found is None or op.reduction is None or op.reduction.monoid.kind != "sum" or len(op.body) != 1 or len(deep) != 2:
        return None
    axes = {axis.symbol: axis for axis in all_axes(op)}
    if len(op.reduction.axes) != 1 or any(not axis.extent.variables.isdisjoint(axes) for axis in axes.values()):
        return None
    (row,) = op.reduction.axes
    own = frozenset((row.symbol,))
    conditions = tuple(operands("and", found.also)) if found.also is not None else ()
    given = tuple(c for c in conditions if present(c) is not None)
    folded = tuple(c for c in conditions if c not in given)
    if any(axes_of(c, frozenset(axes)) != own or may_fail(c) for c in folded) or may_fail(found.index):
        return None
    if axes_of(found.index, frozenset(axes)) != own:
        return None
    if any(mentions(factor, found.axis.symbol) or not mentions(factor, row.symbol) for factor in deep):
        return None
    return GroupedSum(found.axis, row, found.index, conjunction(given), conjunction(folded))


def segments(
    found: GroupedSum, op: Compute, deep: Sequence[Scalar], *, ascending: bool, bare: Sequence[bool]
) -> tuple[Segments, tuple[Scalar, ...]]:
    """The segments of a sum, and its factors with rows in their order. Rows may be known to be `ascending`, and factors to be read
    at `bare` indices."""
    rows, groups, span = at_least_0(found.row.extent), at_least_0(found.group.extent), op.span
    index, folded = (
        None if scalar is None else substitute(scalar, {found.row.symbol: Dim.of(_ROW)}) for scalar in (found.index, found.folded)
    )
    assert index is not None
    ascending = ascending and folded is None
    known = _known(index, folded, rows, groups, ascending)
    ops: list[Table] = [_members(index, folded, known.member, groups, span, ascending=ascending), known.starts(span)]
    if not ascending:
        ops += known.ordering(span)
    factors: list[Scalar] = []
    copies: list[Value] = []
    for factor, is_bare in zip(deep, bare, strict=True):
        if ascending and is_bare:
            factors.append(factor)
            continue
        copied, made, read = _in_order(factor, found, op, known, groups, ascending=ascending)
        ops.append(made)
        copies.append(copied)
        factors.append(read)
    order = None if ascending else known.order
    front = _front(known.member.symbol)
    return Segments(found.group.symbol, front, known.start, order, tuple(ops), tuple(copies)), tuple(factors)


@lru_cache(maxsize=4096)
def _known(index: Scalar, folded: Scalar | None, rows: Dim, groups: Dim, ascending: bool) -> GroupTables:
    return GroupTables(rows, groups + 1, 0)  # the last group is of rows that have none


@lru_cache(maxsize=4096)
def _front(member: Symbol) -> Symbol:
    return fresh("front")


def _members(index: Scalar, folded: Scalar | None, member: Value, groups: Dim, span: Span | None, *, ascending: bool) -> Compute:
    """The group of each row. Of rows that are ascending those before the first group stay before it."""
    element, row = element_of(index), fresh("i")
    index = substitute(index, {_ROW: Dim.of(row)})
    bound = Local(fresh("index"), element)
    there: list[Scalar] = [Binary("ge", bound, Const(0, element)), Binary("lt", bound, Index(groups, element))]
    there += [] if folded is None else [substitute(folded, {_ROW: Dim.of(row)})]
    inside = conjunction(tuple(there))
    assert inside is not None
    none: Scalar = Index(groups)
    if ascending:
        none = Select(Binary("lt", bound, Const(0, element)), Const(-1, I32), none)
    value = Select(inside, converted(bound, I32), none)
    return Compute((member,), (Axis(row, member.shape[0]),), None, (Bind(((bound.symbol, index),), value),), span)


def _in_order(
    factor: Scalar, found: GroupedSum, op: Compute, known: GroupTables, groups: Dim, *, ascending: bool
) -> tuple[Value, Compute, Read]:
    """A copy of a factor's rows in the order of groups; and the factor as a read of it. What may fail is asked of rows in groups
    alone, as core does."""
    axes = tuple(sorted((a for a in all_axes(op) if mentions(factor, a.symbol)), key=lambda a: a != found.row))
    key = substitute(factor, {a.symbol: Dim.of(_ROW if a == found.row else s) for a, s in zip(axes, _AXES, strict=False)})
    copied = Value(table_symbol("rows", key, known.member.symbol), element_of(factor), tuple(at_least_0(a.extent) for a in axes))
    own = {a.symbol: fresh(a.symbol.name) for a in axes}
    body = substitute(factor, {symbol: Dim.of(mine) for symbol, mine in own.items()})
    place = own[found.row.symbol]
    if not ascending:
        body = with_data(body, {place: Read(known.order.symbol, (Dim.of(place),), I32)})
    if may_fail(body):
        ends = (Read(known.start.symbol, (at,), I32) for at in (Dim.of(0), groups))
        first, last = (Binary(how, Index(Dim.of(place)), end) for how, end in zip(("ge", "lt"), ends, strict=True))
        asked = conjunction((first, last) if found.given is None else (found.given, first, last))
        assert asked is not None
        body = Select(asked, body, Const(0.0, element_of(factor)))
    made = Compute((copied,), tuple(Axis(own[a.symbol], a.extent) for a in axes), None, (body,), op.span)
    return copied, made, Read(copied.symbol, tuple(Dim.of(a.symbol) for a in axes), copied.element)


def has_front(view: View, front: Symbol, rows: Symbol) -> bool:
    """Whether rows count from the front in the same steps through memory as it does from the first, and as far as they must."""
    along = dict(zip(view.axes, view.parts, strict=True))
    if front not in along or rows not in along:
        return False
    (fronts,), (own,) = along[front], along[rows]
    return fronts.step == own.step and own.extent == Dim.of(REACH)


def even_starts(places: int, rows: int) -> list[int]:
    """A table of where groups of about one size begin, for a kernel that is looked at without data: see `GroupTables.start`."""
    groups = max(1, places - 3)
    return [min(rows, rows * place // groups) for place in range(places)]


@lru_cache(maxsize=4096)
def fronted(seen: View, rows: Symbol, front: Symbol) -> View:
    """What a view shows, with an index more in front of that of `rows`, which counts from there: see Note [Segments of a sum]."""
    along: dict[Symbol, tuple[AxisPart, ...]] = {}
    for axis, parts in zip(seen.axes, seen.parts, strict=True):
        if axis == rows:
            (part,) = parts
            along |= {front: (part,), rows: (AxisPart(Dim.of(REACH), part.step),)}
        else:
            along[axis] = parts
    return through(seen, along, seen.value.element)
