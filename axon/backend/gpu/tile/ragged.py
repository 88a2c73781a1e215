"""Contractions of which one factor is read at an index that data give for each row: tiles of rows of one group each.

    y[i, j] = sum k => x[i, k] * w[e[i], k, j]

Note [Ragged tiles]
    Rows of which e gives the same form a *group*, which has one matrix of w. Tiles are cut so that none has rows of two groups, and
    w is loaded once for a tile, not once for each row. Plain kernels make, before the product's own:

      member[i]         = e[i]; the first group, where that is none (core stops there, and so does the kernel that asks, see below)
      start[g]          = how many rows have a group before g
      before[g]         = how many tiles they have: each group's rows are divided by those of a tile, rounded up
      group[t]          = which group a tile is of
      first[t], last[t] = its rows in the order of groups: from first until last, of which it has as many as a tile has

    and, where rows are not known to stand in that order,

      count[g, i]       = how many of the rows until i have group g
      place[p]          = which group the p-th row in that order has
      order[p]          = which row that is: the count[…] of its group passes its number there, found by bisection
      rows[p, k]        = x[order[p], k]

    There are at most rows / tile + groups tiles, whatever the groups are; how many there are is before[groups], which the kernel
    reads, as it reads of each of its tiles the group, which is a coordinate of w's copies, and the rows. Results are stored where
    their rows are, order[p], so nothing is padded in memory, and a group without rows costs nothing. Copies of x may bring rows of
    the next group into a tile: what is made of these is not stored.

    An index that may be none of w's is asked for in a kernel of its own, once for each row, if there is a product at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
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
from axon.core.scalar_facts import at_least_0, axes_of, conjunction, may_fail, substitute, with_data
from axon.core.walk import all_axes, converted, mentions
from axon.shapes.dimension import Dim

I32 = Element.I32
STEPS = (64, 128, 256)  # rows of a tile
BITS = 31  # of a number of rows
_ROW = fresh("row")  # in place of a product's own indices, where products with the same groups are to share tables
_AXES = tuple(fresh("axis") for _ in range(32))

Table: TypeAlias = "Compute | Scan"


@dataclass(frozen=True, slots=True)
class Ragged:
    """How the rows of a product are divided: `group` is the index that is one for a whole tile of `step` rows, below `groups`. See
    Note [Ragged tiles]; `order` is missing where rows stand in the order of their groups. `made` are the operations that make
    the tables, and a factor's rows in that order."""

    group: Symbol
    groups: Dim
    step: int
    before: Value
    member: Value
    tile_group: Value
    first: Value
    last: Value
    order: Value | None
    made: tuple[Table, ...] = field(compare=False, repr=False)
    rows: Value | None = None

    @property
    def tables(self) -> tuple[Value, ...]:
        """What the product's kernel reads beside factors."""
        own = (self.before, self.tile_group, self.first, self.last)
        return own if self.order is None else (*own, self.order)

    @property
    def tiles(self) -> Dim:
        """How many there are at most."""
        return self.first.shape[0]

    @property
    def copies(self) -> tuple[Value, ...]:
        """Of factors, with rows in the order of groups."""
        return () if self.rows is None else (self.rows,)

    @property
    def kept(self) -> frozenset[Value]:
        """What is made for it and stays in memory: also what only stops the program."""
        asked = (op.outs[0] for op in self.made if any(may_fail(scalar) for scalar in op.body))
        return frozenset((*self.tables, *asked, *self.copies))


@dataclass(frozen=True, slots=True)
class Grouped:
    """A product of which the factor with this number, that of columns, is read at an `index` that depends on `row` alone, as
    dimension `place`."""

    factor: int
    read: Read
    place: int
    index: Scalar
    row: Axis


def grouped(op: Compute, deep: Sequence[Scalar]) -> Grouped | None:
    """A sum of products of two factors as one whose rows have groups; None if it is none."""
    if len(deep) != 2 or op.reduction is None:
        return None
    axes = {axis.symbol: axis for axis in all_axes(op)}
    if any(not axis.extent.variables.isdisjoint(axes) for axis in axes.values()):
        return None
    for number, factor in enumerate(deep):
        if not isinstance(factor, Read) or factor.padding is not None:
            continue
        computed = [d for d, s in enumerate(factor.subscripts) if not isinstance(s, Dim)]
        if len(computed) != 1:
            continue
        (place,) = computed
        index = factor.subscripts[place]
        assert not isinstance(index, Dim)
        own = axes_of(index, frozenset(axes))
        row = next((a for a in op.axes if own == {a.symbol}), None)
        others = [s for d, s in enumerate(factor.subscripts) if d != place]
        column, other = op.axes[-1].symbol, deep[1 - number]
        if row is None or not mentions(factor, column) or mentions(other, column) or not mentions(other, row.symbol):
            continue
        if any(isinstance(s, Dim) and row.symbol in s.variables for s in others):
            continue
        return Grouped(number, factor, place, index, row)
    return None


def is_inside(found: Grouped, op: Compute, shape: Sequence[Dim]) -> bool:
    """Whether the other subscripts of the grouped factor, which has this shape, are inside: each is an axis that goes as far."""
    extents = {axis.symbol: axis.extent for axis in all_axes(op)}
    pairs = ((s, size) for d, (s, size) in enumerate(zip(found.read.subscripts, shape, strict=True)) if d != found.place)
    return all(isinstance(s, Dim) and s.symbol is not None and extents.get(s.symbol) == size for s, size in pairs)


def ragged(
    found: Grouped, op: Compute, deep: Sequence[Scalar], shape: tuple[Dim, ...], step: int, *, ascending: bool, bare: bool
) -> tuple[Ragged, tuple[Scalar, Scalar]]:
    """The groups of a product's rows, in tiles of `step`, and its factors: one read at the group, one at rows in their order.

    `shape` is that of the grouped factor. Rows may be known to be `ascending`, and their factor to be read at `bare` indices.
    """
    rows, groups, span = at_least_0(found.row.extent), shape[found.place], op.span
    assert op.reduction is not None
    reached = [axis.extent for axis in (*op.axes, *op.reduction.axes) if axis != found.row]  # where some is 0 nothing is read
    index = substitute(found.index, {found.row.symbol: Dim.of(_ROW)})
    fails = may_fail(index)
    known = _known(index, rows, groups, tuple(reached) if fails else (), step)
    ops: list[Table] = []
    there = conjunction(tuple(Binary("gt", Index(extent), Const(0, I32)) for extent in reached if extent.constant is None))
    ops.append(_members(index, known.member, groups, there if fails else None, span))
    if found.read.checked is not None:
        ops.append(_asked(found, index, known.member, there, span))
    ops += known.tables(span)
    if not ascending:
        ops += known.ordering(span)
    group = known.group
    read = replace(
        found.read,
        subscripts=tuple(Dim.of(group) if d == found.place else s for d, s in enumerate(found.read.subscripts)),
        checked=None,
    )
    other = deep[1 - found.factor]
    copied: Value | None = None
    if not (ascending and bare):
        axes = tuple(a for a in all_axes(op) if mentions(other, a.symbol))
        key = substitute(other, {a.symbol: Dim.of(_ROW if a == found.row else s) for a, s in zip(axes, _AXES, strict=False)})
        copied = Value(table_symbol("rows", key, known.member.symbol), element_of(other), tuple(a.extent for a in axes))
        own = {a.symbol: Dim.of(fresh(a.symbol.name)) for a in axes}
        made = tuple(Axis(_of(own[a.symbol]), a.extent) for a in axes)
        body = substitute(other, own)
        if not ascending:
            place = own[found.row.symbol]
            body = with_data(body, {_of(place): Read(known.order.symbol, (place,), I32)})
        ops.append(Compute((copied,), made, None, (body,), span))
        other = Read(copied.symbol, tuple(Dim.of(a.symbol) for a in axes), copied.element)
    kept = Ragged(
        group, groups, step, known.before, known.member, known.tile_group, known.first, known.last,
        None if ascending else known.order, tuple(ops), copied,
    )  # fmt: skip
    return kept, (read, other) if found.factor == 0 else (other, read)


def _of(dim: Dim) -> Symbol:
    assert dim.symbol is not None
    return dim.symbol


@lru_cache(maxsize=4096)
def table_symbol(name: str, *_key: object) -> Symbol:
    """Of a table: the same for all products that have it, in everything that is made of one program."""
    return fresh(name)


@lru_cache(maxsize=4096)
def _known(index: Scalar, rows: Dim, groups: Dim, guard: tuple[Dim, ...], step: int) -> GroupTables:
    return GroupTables(rows, groups, step)


def _members(index: Scalar, member: Value, groups: Dim, there: Scalar | None, span: Span | None) -> Compute:
    """The group of each row, or the first where the index is none. It is not evaluated where nothing is `there`."""
    element, row = element_of(index), fresh("i")
    index = substitute(index, {_ROW: Dim.of(row)})
    bound = Local(fresh("index"), element)
    inside = Binary("and", Binary("ge", bound, Const(0, element)), Binary("lt", bound, Index(groups, element)))
    value = Select(inside, converted(bound, I32), Const(0, I32))
    asked = index if there is None else Select(there, index, Const(0, element))
    return Compute((member,), (Axis(row, member.shape[0]),), None, (Bind(((bound.symbol, asked),), value),), span)


def _asked(found: Grouped, index: Scalar, member: Value, there: Scalar | None, span: Span | None) -> Compute:
    """Stops the program as core does where the index of a row is no group: a read of the factor for each row."""
    row = fresh("i")
    index = substitute(index, {_ROW: Dim.of(row)})
    at = tuple(index if d == found.place else Dim.of(0) for d in range(len(found.read.subscripts)))
    read = replace(found.read, subscripts=at)
    value: Scalar = read if there is None else Select(there, read, Const(0.0, read.element))
    out = Value(table_symbol("asked", found.read.tensor, member.symbol), read.element, member.shape)
    return Compute((out,), (Axis(row, member.shape[0]),), None, (value,), span)


class GroupTables:
    """The tables of rows whose groups are `member`, by their names, for tiles of `step` rows if there are any. See Note [Ragged
    tiles]."""

    def __init__(self, rows: Dim, groups: Dim, step: int) -> None:
        self.rows, self.groups, self.step = rows, groups, step
        self.tiles = (rows + (step - 1)) // step + groups if step else groups
        self.group = fresh("group")

        def table(name: str, *shape: Dim) -> Value:
            return Value(fresh(name), I32, shape)

        self.member = table("member", rows)
        self.start, self.before = table("start", groups + 2), table("before", groups + 2)
        self.tile_group, self.first, self.last = (table(name, self.tiles) for name in ("tile_group", "first", "last"))
        self.count, self.place, self.order = table("count", groups, rows), table("place", rows), table("order", rows)

    def starts(self, span: Span | None) -> Compute:
        """How many rows have a group before each."""
        g, i = Axis(fresh("g"), self.groups + 2), Axis(fresh("i"), self.rows)
        less = Binary("lt", self.at(self.member, Dim.of(i.symbol)), Index(Dim.of(g.symbol)))
        return Compute((self.start,), (g,), _sum(i, less), (Const(1, I32),), span)

    def tables(self, span: Span | None) -> list[Table]:
        g, h = Axis(fresh("g"), self.groups + 2), Axis(fresh("h"), self.groups)
        own = Binary("sub", self.at(self.start, Dim.of(h.symbol) + 1), self.at(self.start, Dim.of(h.symbol)))
        cut = Binary("div", Binary("add", own, Const(self.step - 1, I32)), Const(self.step, I32))
        earlier = Binary("lt", Index(Dim.of(h.symbol)), Index(Dim.of(g.symbol)))
        before = Compute((self.before,), (g,), _sum(h, earlier), (cut,), span)
        return [self.starts(span), before, self.passed(self.tile_group, self.before, span), self.ends(span)]

    def passed(self, out: Value, bounds: Value, span: Span | None) -> Compute:
        """Of each place the group whose bounds it is between."""
        axis, h = Axis(fresh("t"), out.shape[0]), fresh("h")
        behind = Binary("le", self.at(bounds, Dim.of(h) + 1), Index(Dim.of(axis.symbol)))
        return Compute((out,), (axis,), _sum(Axis(h, self.groups), behind), (Const(1, I32),), span)

    def ends(self, span: Span | None) -> Compute:
        axis = Axis(fresh("t"), self.tiles)
        tile = Index(Dim.of(axis.symbol))
        group = self.at(self.tile_group, Dim.of(axis.symbol))
        within = Binary("sub", tile, Read(self.before.symbol, (group,), I32))
        first = Binary("add", Read(self.start.symbol, (group,), I32), Binary("mul", within, Const(self.step, I32)))
        last = Read(self.start.symbol, (Binary("add", group, Const(1, I32)),), I32)
        return Compute((self.first, self.last), (axis,), None, (first, last), span)

    def ordering(self, span: Span | None) -> list[Table]:
        g, i, p = (fresh(name) for name in "gip")
        mine = Binary("eq", self.at(self.member, Dim.of(i)), Index(Dim.of(g)))
        body = Select(mine, Const(1, I32), Const(0, I32))
        count = Scan((self.count,), (Axis(g, self.groups), Axis(i, self.rows)), Monoid("sum"), (body,), span)
        place = self.passed(self.place, self.start, span)
        group = self.at(self.place, Dim.of(p))
        number = Binary("sub", Index(Dim.of(p)), Read(self.start.symbol, (group,), I32))
        bindings: list[tuple[Symbol, Scalar]] = []
        below: Scalar = Const(0, I32)
        for bit in reversed(range(min(BITS, (self.rows.constant or 1 << BITS).bit_length()))):
            further = Binary("add", below, Const(1 << bit, I32)) if bindings else Const(1 << bit, I32)
            last = Binary("add", below, Const((1 << bit) - 1, I32)) if bindings else Const((1 << bit) - 1, I32)
            less = Binary("le", Read(self.count.symbol, (group, last), I32), number)
            # `below` is less than the rows there are, so that a sum that is too great would be negative.
            there = Binary("and", Binary("gt", further, Const(0, I32)), Binary("le", further, Index(self.rows)))
            bindings.append((fresh("below"), Select(Binary("and", there, less), further, below)))
            below = Local(bindings[-1][0], I32)
        return [count, place, Compute((self.order,), (Axis(p, self.rows),), None, (Bind(tuple(bindings), below),), span)]

    def at(self, table: Value, place: Dim) -> Read:
        return Read(table.symbol, (place,), I32)


def _sum(axis: Axis, where: Scalar) -> Reduction:
    return Reduction((axis,), Monoid("sum"), where)
