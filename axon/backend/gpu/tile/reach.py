"""Which keys the rows of a tile may see where data decide it: documents in one sequence, rows with keys of their own.

Note [Reach]
    A condition may compare what data say of a row with what they say of a key, or with its index,

        doc[i] = doc[j]        j < last[i]

    of which arithmetic (`bounds`) leaves nothing out. But a row and a key meet in one comparison alone, so it holds for some of
    several rows where it holds between the least and the greatest of what they have, and for all where it holds of both. A plain
    kernel finds, of each block of 64 rows,

        low, high = the least and the greatest of the rows' side
        some      = from the first to the last key of which the comparison holds for a value from low to high
        every     = from the first to the last of which it holds for low and high, if it does for all that lie between

    in rows / 64 times keys steps. A tile of several blocks takes the hull of the one and what is common of the other, so that one
    table serves all mappings. Nothing is taken for granted of data: documents that are not sorted, or lie in several places, get
    wider intervals, never wrong ones. What is left inside of an interval is compared element by element, as without tables.

    Values of at most 32 bits are compared, in f64, which holds them all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

from axon.backend.gpu.tile.bounds import BLOCK, Compared, Reach, undecided
from axon.backend.gpu.tile.epilogue import bare
from axon.backend.gpu.tile.stream import Stream
from axon.base.data import replace
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import fresh
from axon.core.ir import (
    Axis,
    Binary,
    Compute,
    Const,
    Convert,
    Index,
    Local,
    Monoid,
    Read,
    Reduction,
    Scalar,
    Select,
    Value,
    element_of,
)
from axon.core.scalar_facts import at_least_0, axes_of, conjunction, may_fail, substitute
from axon.core.walk import nodes, reads, rewrite
from axon.shapes.dimension import Dim, minimum

I32, F64 = Element.I32, Element.F64
ZERO = Const(0.0, F64)
SWAPPED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le", "eq": "eq", "ne": "ne"}
# Whether a comparison of a value from low to high with a key holds for some, and for all: with which ends, how.
Holds: TypeAlias = "Mapping[str, tuple[tuple[str, str], ...]]"
SOME: Holds = {
    "eq": (("low", "le"), ("high", "ge")), "lt": (("low", "lt"),), "le": (("low", "le"),), "gt": (("high", "gt"),),
    "ge": (("high", "ge"),),
}  # fmt: skip
EVERY: Holds = {
    "eq": (("low", "eq"), ("high", "eq")), "lt": (("high", "lt"),), "le": (("high", "le"),), "gt": (("low", "gt"),),
    "ge": (("low", "ge"),),
}  # fmt: skip
# In place of a stream's own indices: streams that compare the same share tables.
_ROW, _KEY = fresh("row"), fresh("key")
_OUTER = tuple(fresh("outer") for _ in range(32))


def reaching(kernel: Stream) -> Stream:
    """The stream with tables for what data compare in its condition; as it is, if there is nothing of that form."""
    uniform = frozenset([*(a.symbol for a in kernel.outer), *(symbol for symbol, _ in kernel.derived)])
    rows, keys = kernel.rows.symbol, kernel.keys.symbol
    asked = undecided(kernel.condition, rows, keys, kernel.keys.extent, lambda read: set(bare(read) or ()) <= uniform)
    found = (_reach(kernel, compared) for compared in asked)
    return replace(kernel, reaches=tuple(reach for reach in found if reach is not None))


def _reach(kernel: Stream, compared: Compared) -> Reach | None:
    """Tables for one comparison; None if it is not of what a row has with what a key has."""
    op, *sides = compared
    views = {view.value.symbol: view for view in kernel.views}

    def source(node: Scalar) -> Scalar | None:
        view = views.get(node.tensor) if isinstance(node, Read) else None
        if view is None or not isinstance(node, Read):
            return None
        names = {axis: s for axis, s in zip(view.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        return Read(view.source, tuple(place.substitute(names) for place in view.places), node.element)

    left, right = (substitute(rewrite(side, source), dict(kernel.derived)) for side in sides)
    both = frozenset((kernel.rows.symbol, kernel.keys.symbol))
    mine, theirs = axes_of(left, both), axes_of(right, both)
    if kernel.keys.symbol in mine or kernel.rows.symbol in theirs:
        left, right, mine, theirs, op = right, left, theirs, mine, SWAPPED[op]
    if kernel.keys.symbol in mine or kernel.rows.symbol in theirs or op not in SOME or not (_known(left) and _known(right)):
        return None
    outer = [a for a in kernel.outer if axes_of(left, frozenset((a.symbol,))) | axes_of(right, frozenset((a.symbol,)))]
    if any(not axis.extent.variables.isdisjoint(a.symbol for a in kernel.outer) for axis in outer):
        return None
    names = {kernel.rows.symbol: Dim.of(_ROW), kernel.keys.symbol: Dim.of(_KEY)}
    names |= {axis.symbol: Dim.of(symbol) for axis, symbol in zip(outer, _OUTER, strict=False)}
    left, right = substitute(left, names), substitute(right, names)
    extents = tuple(axis.extent for axis in outer)
    made = _tables(op, left, right, kernel.rows.extent, kernel.keys.extent, extents)
    return Reach(compared, tuple(axis.symbol for axis in outer), made.out, made.ops)


def _known(side: Scalar) -> bool:
    """Whether it is made of whole numbers that f64 holds, and cannot fail."""
    if may_fail(side) or any(isinstance(node, Local) for node in nodes(side)):
        return False
    numbers = [element_of(node) for node in nodes(side)]
    plain = all(read.padding is None and read.checked is None for read in reads(side))
    return plain and all(e.is_integer or e is Element.BOOL for e in numbers) and element_of(side).bits <= 32


@lru_cache(maxsize=4096)
def _tables(op: str, left: Scalar, right: Scalar, rows: Dim, keys: Dim, outer: tuple[Dim, ...]) -> _Tables:
    return _Tables(op, left, right, rows, keys, outer)


class _Tables:
    """The tables of a comparison of `left`, of _ROW, with `right`, of _KEY, in as many outer dimensions as their extents."""

    def __init__(self, op: str, left: Scalar, right: Scalar, rows: Dim, keys: Dim, outer: tuple[Dim, ...]) -> None:
        self.op, self.left, self.right, self.rows, self.keys = op, left, right, at_least_0(rows), keys
        self.shape = (*outer, (self.rows + (BLOCK - 1)) // BLOCK)
        self.ends = {name: self.table(name) for name in ("low", "high")}
        self.out = Value(fresh("reach"), I32, (*self.shape, Dim.of(4)))
        self.ops = tuple(self.made())

    def table(self, name: str) -> Value:
        return Value(fresh(name), F64, self.shape)

    def made(self) -> Iterator[Compute]:
        yield self.end("min", self.ends["low"])
        yield self.end("max", self.ends["high"])
        axes, at = self.axes()
        keys = Convert(Index(self.keys), F64)
        found: list[Scalar] = []
        for holds in (SOME, EVERY):
            behind, until, count = (self.table(name) for name in ("behind", "until", "count"))
            yield self.reduced("max", holds, behind, lambda key: self.keys - key)
            yield self.reduced("max", holds, until, lambda key: key + 1)
            to: Scalar = Read(until.symbol, at, F64)
            first: Scalar = Binary("sub", keys, Read(behind.symbol, at, F64))
            if holds is EVERY:  # with nothing between them of which it does not hold
                yield self.reduced("sum", holds, count, lambda _: Dim.of(1))
                whole = Binary("eq", Binary("sub", to, first), Read(count.symbol, at, F64))
                first, to = Select(whole, first, keys), Select(whole, to, ZERO)
            found += [first, to]
        which = Axis(fresh("which"), Dim.of(4))
        body = found[-1]
        for number in reversed(range(3)):
            body = Select(Binary("eq", Index(Dim.of(which.symbol)), Const(number, I32)), found[number], body)
        yield Compute((self.out,), (*axes, which), None, (Convert(body, I32),))

    def axes(self) -> tuple[tuple[Axis, ...], tuple[Dim, ...]]:
        names = (*("outer",) * (len(self.shape) - 1), "block")
        axes = tuple(Axis(fresh(name), extent) for name, extent in zip(names, self.shape, strict=True))
        return axes, tuple(Dim.of(axis.symbol) for axis in axes)

    def end(self, kind: MonoidKind, out: Value) -> Compute:
        """The least or the greatest of what the rows of a block have. Where a block is not full it has its last row again."""
        axes, (*outer, block) = self.axes()
        row = Axis(fresh("r"), Dim.of(BLOCK))
        place = minimum(block * BLOCK + Dim.of(row.symbol), self.rows - 1)
        value = substitute(self.left, {_ROW: place, **dict(zip(_OUTER, outer, strict=False))})
        return Compute((out,), axes, Reduction((row,), Monoid(kind)), (Convert(value, F64),))

    def reduced(self, kind: MonoidKind, holds: Holds, out: Value, number: Callable[[Dim], Dim]) -> Compute:
        """The greatest, or the sum, of a number of each key where the comparison holds, else 0."""
        axes, at = self.axes()
        key = Axis(fresh("j"), self.keys)
        value = substitute(self.right, {_KEY: Dim.of(key.symbol), **dict(zip(_OUTER, at, strict=False))})
        theirs = Convert(value, F64)
        there = conjunction(tuple(Binary(how, Read(self.ends[end].symbol, at, F64), theirs) for end, how in holds[self.op]))
        assert there is not None
        body = Select(there, Convert(Index(number(Dim.of(key.symbol))), F64), ZERO)
        return Compute((out,), axes, Reduction((key,), Monoid(kind)), (body,))
