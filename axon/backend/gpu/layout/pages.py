"""Rows in pages that data name: a tensor that is only a gather of pages, and how its source is read in its place.

    gathered    an operation that copies rows in pages -> what it reads, and where
    Paging      such a tensor as a kernel reads it -> its source, at indices of pages that a table has

A cache in pages lies in blocks of as many rows, wherever there was room, and a table says which of them are a sequence's:

    k[b, h, j, c] = keys[page[b, j / 16], j % 16, h, c]

Within a page rows lie in steps, so a box of them is one copy, whose place along pages is a number that the table has for it. The
index may be any expression over tables, as long as it is one for all rows of a page.

Note [Rows in pages]
    A box never lies in two pages: its rows divide a page's, and it begins at a multiple of them. A page that is none of the
    source's is outside of the tensor, where copies bring zeros: so a padding of 0 needs nothing more, and a checked index, which
    stops the program, reads nothing that is not there. Of a page behind the last, which the table does not have, nothing is asked;
    it is taken to be page -1.

    What stands in a page behind the last row that is read is not the tensor's, and may be infinite or NaN: it may not even be
    multiplied by 0. Where an extent, or a condition of the gather, ends inside of a page, boxes end there too. They read
    their source through a view in which two dimensions move along its rows, view[f, d] = x[f + d - REACH] with d below REACH: of a
    box from row s on of which n rows are to come, f is s + n and d is REACH - n, so that what follows is outside. (It is Note
    [Segments of a sum] the other way round.)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from math import copysign

from axon.backend.gpu.layout.axes import AxisPart
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, Views, through
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Index, Read, Scalar, Select, Value, element_of
from axon.core.scalar_facts import axes_of, conjunction, may_fail, substitute, with_dims
from axon.core.walk import nodes, reads
from axon.shapes.dimension import Dim, Quotient, replaced

REACH = 256  # rows of a box at most
NUMBERS = frozenset({Element.I64, Element.I32, Element.I16, Element.I8, Element.U16, Element.U8})  # of which a table may be


@dataclass(frozen=True, slots=True)
class Pages:
    """Which page each row of a streamed axis is in: `index`, over outer indices and `number`, of as many `rows`; there are `count`
    numbers, and rows before `extent`. `page` is the index of pages at which sources are read. Where rows may end inside of a page,
    at their extent or before `until`, sources are read at `front`, too. See Note [Rows in pages]."""

    page: Symbol
    number: Symbol
    rows: Dim
    count: Dim
    extent: Dim
    index: Scalar
    front: Symbol | None = None
    until: Scalar | None = None

    @property
    def own(self) -> tuple[Symbol, ...]:
        """The indices of copies that it says."""
        return (self.page,) if self.front is None else (self.page, self.front)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """What a kernel computes of it."""
        return (self.index,) if self.until is None else (self.index, self.until)


@dataclass(frozen=True, slots=True)
class Gathered:
    """A tensor that is its `source` at `read`, over `axes`: data say the subscript number `place`. Where `given` does not hold, its
    elements are 0 and nothing is read."""

    value: Value
    axes: tuple[Axis, ...]
    read: Read
    source: Value
    place: int
    given: Scalar | None = None
    span: Span | None = None

    @property
    def index(self) -> Scalar:
        found = self.read.subscripts[self.place]
        assert not isinstance(found, Dim)
        return found


def gathered(op: Compute, values: Mapping[Symbol, Value]) -> Iterator[Gathered]:
    """What an operation only gathers, at one index that data say."""
    for out, body in zip(op.outs, op.body, strict=True) if op.reduction is None else ():
        given: Scalar | None = None
        if isinstance(body, Select) and _is_zero(body.otherwise):
            given, body = body.condition, body.then
        if not isinstance(body, Read) or body.tensor not in values or not (body.padding is None or _is_zero(body.padding)):
            continue
        computed = [s for s in body.subscripts if not isinstance(s, Dim)]
        within = {axis.symbol: axis.extent for axis in op.axes}
        sure = not any(may_fail(scalar, within) for scalar in (*computed, *(() if given is None else (given,))))
        if len(computed) == 1 and sure:
            place = next(d for d, s in enumerate(body.subscripts) if not isinstance(s, Dim))
            yield Gathered(out, op.axes, body, values[body.tensor], place, given, op.span)


def _is_zero(scalar: Scalar) -> bool:
    return isinstance(scalar, Const) and scalar.value == 0 and copysign(1.0, scalar.value) > 0


def _asking(op: Compute, found: Gathered) -> tuple[object, ...]:
    """What an operation asks, whatever its axes are called and which tensor it is of."""
    (body,) = op.body
    body = substitute(body, {axis.symbol: Dim.of(own) for axis, own in zip(op.axes, _AXES, strict=False)})
    condition, read = (body.condition, body.then) if isinstance(body, Select) else (None, body)
    assert isinstance(read, Read)
    extents = tuple(axis.extent for axis in op.axes)
    return extents, condition, read.subscripts[found.place], found.source.shape[found.place]


def _together(ops: Sequence[Compute]) -> Compute:
    """Operations over axes of the same extents as one."""
    first, *others = ops
    outs, body = list(first.outs), list(first.body)
    for op in others:
        names = {axis.symbol: Dim.of(own.symbol) for axis, own in zip(op.axes, first.axes, strict=True)}
        outs += op.outs
        body += (substitute(scalar, names) for scalar in op.body)
    return replace(first, outs=tuple(outs), body=tuple(body))


@lru_cache(maxsize=4096)
def _asked_symbol(gathered: Symbol) -> Symbol:
    """The same in everything that is made of one program."""
    return fresh(f"{gathered.name}_asked")


def asked(found: Gathered, axis: Symbol, rows: Dim) -> Compute | None:
    """Stops the program as core does where the index of a page is none, of those along an axis in pages of so many `rows`: one
    read of each page that is read; None if no index is asked for."""
    if found.read.checked is None:
        return None
    number = fresh("number")
    index = found.index
    extents = {each.symbol: each.extent for each in found.axes}
    mine = [each for each in found.axes if each.symbol != axis and _varies(found, each.symbol)]
    own = {each.symbol: fresh(each.symbol.name) for each in mine}
    names = {symbol: Dim.of(mine) for symbol, mine in own.items()} | {axis: rows * Dim.of(number)}
    axes = (*(Axis(own[each.symbol], each.extent) for each in mine), Axis(number, pages_of(extents[axis], rows)))
    index = substitute(numbered(index, axis, rows, number), names)
    at = tuple(index if d == found.place else Dim.of(0) for d in range(len(found.read.subscripts)))
    others = (each.extent for each in found.axes if each.symbol != axis and each not in mine)
    there: list[Scalar] = [Binary("gt", Index(extent), Const(0, Element.I32)) for extent in others if extent.constant is None]
    if found.given is not None:
        there.append(substitute(found.given, names))
    asked_for = conjunction(tuple(there))
    read = replace(found.read, subscripts=at)
    value: Scalar = read if asked_for is None else Select(asked_for, read, Const(0.0, read.element))
    out = _asked_symbol(found.value.symbol)
    return Compute((Value(out, read.element, tuple(each.extent for each in axes)),), axes, None, (value,), found.span)


def _varies(found: Gathered, symbol: Symbol) -> bool:
    """Whether the index, or where it is asked for, varies along an axis."""
    both = (found.index, *(() if found.given is None else (found.given,)))
    return any(axes_of(scalar, frozenset((symbol,))) for scalar in both)


def pages_of(extent: Dim, rows: Dim) -> Dim:
    """How many pages of so many rows an extent has."""
    whole = extent.plain_quotient(rows)
    return (extent + rows - 1) // rows if whole is None else whole


def rows_of(found: Gathered, axis: Symbol) -> tuple[Dim, int] | None:
    """Of how many rows along an axis the pages are, and which of the source's dimensions these rows are; None if it does not read
    pages along this axis. Where an index is the same for all rows, there is one page, of all."""
    divisors: set[Dim] = set()
    for node in nodes(found.index):
        dims = node.subscripts if isinstance(node, Read) else (node.dim,) if isinstance(node, Index) else ()
        for dim in dims:
            if isinstance(dim, Dim) and axis in dim.variables:
                for atom in (atom for monomial in dim.mapping for atom in monomial):
                    if atom == axis:
                        return None
                    if isinstance(atom, Quotient) and axis in Dim({(atom,): 1}).variables:
                        if atom.dividend != Dim.of(axis) or axis in atom.divisor.variables:
                            return None
                        divisors.add(atom.divisor)
    along = [d for d, s in enumerate(found.read.subscripts) if isinstance(s, Dim) and axis in s.variables]
    if len(along) != 1 or len(divisors) > 1:
        return None
    (slot,) = along
    rows = next(iter(divisors), found.source.shape[slot])
    within = Dim.of(axis) % rows if divisors else Dim.of(axis)
    return (rows, slot) if found.read.subscripts[slot] == within else None


def numbered(index: Scalar, axis: Symbol, rows: Dim, number: Symbol) -> Scalar:
    """An index of pages along an axis by the number of the page."""
    own = (Dim.of(axis) // rows).atom
    return index if own is None else with_dims(index, lambda dim: replaced(dim, own, Dim.of(number)))


class Paging:
    """Operands of one kernel that are read in pages along its axis `keys`. Views of sources and tables are made on the way, pages
    with the same table are the same; what subscripts derive is, too."""

    def __init__(
        self, keys: Axis, values: Mapping[Symbol, Value], extents: Mapping[Symbol, Dim], derived: Iterable[tuple[Symbol, Dim]]
    ) -> None:
        self.keys, self.values, self.extents = keys, values, dict(extents)
        self.tables = Views(values, ())
        self.tables.by_dim = {dim: symbol for symbol, dim in derived}
        self.shown: list[View] = []
        self.asks: dict[tuple[object, ...], Compute] = {}  # by what they ask: keys and values mostly ask the same
        self.known: dict[tuple[Dim, Dim, Scalar, Scalar | None], Pages] = {}

    @property
    def views(self) -> tuple[View, ...]:
        return (*self.tables.all, *dict.fromkeys(self.shown))

    @property
    def derived(self) -> tuple[tuple[Symbol, Dim], ...]:
        """The indices that follow from others, and how."""
        return self.tables.derived

    @property
    def asked(self) -> tuple[Compute, ...]:
        """What stops the program where a page is none: one operation of those that go over the same pages."""
        alike: dict[tuple[Dim, ...], list[Compute]] = {}
        for op in self.asks.values():
            alike.setdefault(tuple(axis.extent for axis in op.axes), []).append(op)
        return tuple(_together(ops) for ops in alike.values())

    def read(self, found: Gathered, at: tuple[Dim, ...]) -> tuple[Pages, View]:
        """A gathered tensor, which is read at these places over the kernel's indices, by its pages, and what is read of its
        source. Raises `Unsupported` where it is not in pages along the keys."""
        places = {axis.symbol: place for axis, place in zip(found.axes, at, strict=True)}
        along = next((symbol for symbol, place in places.items() if place == Dim.of(self.keys.symbol)), None)
        if along is None or any(self.keys.symbol in p.variables for symbol, p in places.items() if symbol != along):
            raise Unsupported("what is gathered is not read along its own rows", found.span)
        known = rows_of(found, along)
        if known is None:
            raise Unsupported("what is gathered does not lie in pages along the keys", found.span)
        rows, slot = known
        extents = {axis.symbol: axis.extent for axis in found.axes}
        pages = self.pages(found, places, along, rows, extents[along])
        self.inside(found, slot, rows)
        subscripts = [s.substitute(places) if isinstance(s, Dim) else Dim.of(pages.page) for s in found.read.subscripts]
        subscripts[slot] = Dim.of(self.keys.symbol)
        views = Views(self.values, ())
        views.by_dim = self.tables.by_dim
        views.extents = self.extents | {self.keys.symbol: rows, pages.page: found.source.shape[found.place]}
        seen = views.seen(Read(found.source.symbol, tuple(subscripts), found.source.element))
        if seen is None:
            raise Unsupported("what is gathered is read at more than indices", found.span)
        view = views.view(seen)
        if pages.front is not None:
            view = self.fronted(view, pages.front, rows)
        if view.source != view.value.symbol:
            view = next((known for known in self.shown if _alike(known, view)), view)
            self.shown.append(view)
        asks = asked(found, along, rows)
        if asks is not None:
            self.asks.setdefault(_asking(asks, found), asks)
        return pages, view

    def pages(self, found: Gathered, places: Mapping[Symbol, Dim], along: Symbol, rows: Dim, extent: Dim) -> Pages:
        """Which pages they are; those that are there already, of the same table."""
        until = None if found.given is None else _below(found.given, along)
        if found.given is not None and until is None:
            raise Unsupported("rows that are read under a condition other than one that ends them", found.span)
        whole = substitute(numbered(found.index, along, rows, _NUMBER), places)
        key = rows, extent, whole, until and substitute(until, places)
        if key not in self.known:
            number, count = fresh("number"), pages_of(extent, rows)
            index = self.bare(substitute(whole, {_NUMBER: Dim.of(number)}), found, {number: count})
            until = None if until is None else self.bare(substitute(until, places), found, {})
            cut = until is not None or extent.plain_quotient(rows) is None
            self.known[key] = Pages(
                fresh("page"), number, rows, count, extent, index, fresh("front") if cut else None, until
            )  # fmt: skip
        return self.known[key]

    def bare(self, scalar: Scalar, found: Gathered, more: Mapping[Symbol, Dim]) -> Scalar:
        """An expression with its reads at bare indices, of a value that a kernel can compute as one for a page."""
        self.tables.extents = {**self.extents, **more}
        conditions = (isinstance(n, Select) or (isinstance(n, Binary) and n.op in ("and", "or")) for n in nodes(scalar))
        guarded = any(conditions) or (found.given is not None and not _of_data(found.given))
        if guarded and not all(map(self.tables.inside, reads(scalar))):
            raise Unsupported("a table of pages is read where only a condition keeps it inside", found.span)
        made = self.tables.bare(scalar)
        if self.keys.symbol in axes_in(made) or not all(map(_is_bare, reads(made))):
            raise Unsupported("a table of pages is read at more than indices", found.span)
        if element_of(made) not in NUMBERS:
            raise Unsupported(f"a table of pages of {element_of(made).value}", found.span)
        return made

    def inside(self, found: Gathered, slot: int, rows: Dim) -> None:
        """Raises `Unsupported` unless what is read besides the page is inside for certain. An index that no axis moves, as a loop's
        counter, has been found to be, unless the read is padded or stands under a condition."""
        row = fresh("slot")
        whole = found.read.subscripts[slot]
        paged = isinstance(whole, Dim) and whole.symbol is None  # and not one page for all
        axes = {axis.symbol for axis in found.axes}
        strict = found.read.padding is not None or found.given is not None
        shape: list[Dim] = []
        at: list[Dim] = []
        for d, subscript in enumerate(found.read.subscripts):
            if isinstance(subscript, Dim) and (strict or not subscript.variables.isdisjoint(axes)):
                at.append(Dim.of(row) if d == slot and paged else subscript)
                shape.append(found.source.shape[d])
        own = Value(found.source.symbol, found.source.element, tuple(shape))
        views = Views({own.symbol: own}, (*found.axes, Axis(row, rows)))
        if not views.inside(Read(own.symbol, tuple(at), own.element)):
            raise Unsupported("what is gathered may be outside of its pages", found.span)

    def fronted(self, view: View, front: Symbol, rows: Dim) -> View:
        """What a view shows of pages, with an index more in front of that of keys: see Note [Rows in pages]."""
        along: dict[Symbol, tuple[AxisPart, ...]] = {}
        start = list(view.start)
        for axis, parts in zip(view.axes, view.parts, strict=True):
            if axis == self.keys.symbol:
                (part,) = parts
                along |= {front: (AxisPart(rows + 1, part.step),), axis: (AxisPart(Dim.of(REACH), part.step),)}
                start = [begin - step * REACH for begin, step in zip(start, part.step, strict=True)]
            else:
                along[axis] = parts
        return replace(through(view, along, view.value.element), start=tuple(start))


# In place of a page's own, and of axes, where pages with the same table are to be found, and what asks the same.
_NUMBER = fresh("number")
_AXES = tuple(fresh("axis") for _ in range(8))


def is_cut(view: View, front: Symbol, rows: Symbol) -> bool:
    """Whether boxes of a view end where rows do: see Note [Rows in pages]."""
    along = dict(zip(view.axes, view.parts, strict=True))
    if front not in along or rows not in along:
        return False
    (fronts,), (own,) = along[front], along[rows]
    before = all(begin == -REACH * step for begin, step in zip(view.start, own.step, strict=True) if step != Dim.of(0))
    return fronts.step == own.step and own.extent == Dim.of(REACH) and before


def axes_in(scalar: Scalar) -> frozenset[Symbol]:
    """The variables of all indices in an expression."""
    found = [s for node in nodes(scalar) if isinstance(node, Read) for s in node.subscripts if isinstance(s, Dim)]
    found += [node.dim for node in nodes(scalar) if isinstance(node, Index)]
    return frozenset().union(*(dim.variables for dim in found))


def _is_bare(read: Read) -> bool:
    plain = read.padding is None and read.checked is None
    return plain and all(isinstance(s, Dim) and s.symbol is not None for s in read.subscripts)


def _alike(one: View, other: View) -> bool:
    return replace(one, value=other.value) == other and one.value.shape == other.value.shape


def _below(condition: Scalar, axis: Symbol) -> Scalar | None:
    """Below what a condition asks an index to be; None if it asks for anything else."""
    match condition:
        case Binary(op="lt", left=left, right=right) if _is_index(left, axis) and not axes_of(right, frozenset((axis,))):
            return right
        case Binary(op="gt", left=left, right=right) if _is_index(right, axis) and not axes_of(left, frozenset((axis,))):
            return left
        case _:
            return None


def _of_data(condition: Scalar) -> bool:
    """Whether a condition compares an index with what data say alone, of which nobody knows how far indices go where it holds."""
    match condition:
        case Binary(op="lt", right=limit) | Binary(op="gt", left=limit):
            while isinstance(limit, Convert):
                limit = limit.operand
            return isinstance(limit, Read)
        case _:
            return False


def _is_index(scalar: Scalar, axis: Symbol) -> bool:
    return isinstance(scalar, Index) and scalar.dim == Dim.of(axis) and scalar.element in (Element.I32, Element.I64)
