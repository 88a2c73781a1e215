"""Streams of few rows and many keys (decoding): rows that share keys are one tile's, parts of the keys are streams of their own.

    divided   a Stream -> one that leaves the state of each part's rows, and the operations that make its results of those

A block that goes over all keys alone leaves a chip idle whose tiles are few. But the state of a running sum is repaired when its
maximum grows (`online_softmax`), and so are the states of several parts: with M the greatest of their maxima m[p],

    total = sum p => total[p] * exp (bias M - bias m[p])

and likewise the products (Flash-Decoding, Dao et al. 2023, is this for softmax). A part is a further outer index p and a condition,
`p * length <= j < (p + 1) * length`, by which `bounds` finds the pieces that it goes over.

Where several query heads share a head of keys, h / g of `k[b, h / g, j, c]`, or an index stands in the queries alone, their rows
are rows of one tile: `h` is g * h' + member, and (member, i) is one index. So keys are loaded once for all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache, partial
from math import inf
from typing import TypeAlias

from axon.backend.gpu.layout.axes import AxisPart, Merge, merge
from axon.backend.gpu.layout.unsupported import Unsupported
from axon.backend.gpu.layout.views import View, itself, through
from axon.backend.gpu.tile.epilogue import EpilogueOperand, Result, bare
from axon.backend.gpu.tile.online_softmax import both, local_symbols, loosened, substituted
from axon.backend.gpu.tile.stream import RowResult, Stream, Term
from axon.base.data import dataclass, replace
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Const, Convert, Local, Monoid, Read, Reduction, Scalar, Select, Unary, Value
from axon.core.scalar_facts import comparison, substitute
from axon.core.walk import converted, reads, renewed, rewrite
from axon.shapes.dimension import Dim, Quotient, maximum, minimum

PIECE = 128  # parts are multiples of so many keys, so that few tiles of keys lie on their edges
LEAST = 512  # keys of a part, if there are more
ROWS = 64  # of a tile
NOTHING = Const(-inf, Element.F32)  # the peak of no keys


Rename: TypeAlias = "Callable[[Scalar], Scalar]"
Join: TypeAlias = "Callable[[Read, Mapping[Symbol, Dim]], Scalar]"  # of a part's state, and where it is read


@dataclass(frozen=True, slots=True)
class Division:
    """How a stream is divided: its keys into parts that are at most so many `tiles` in all, if any; rows that share keys are
    `grouped` into one tile's, if they are."""

    tiles: int | None
    grouped: bool


@dataclass(frozen=True, slots=True)
class Divided:
    """A stream that leaves the states of its parts, and what is done with these, in one nest."""

    stream: Stream
    after: tuple[Compute, ...]


def divided(kernel: Stream, division: Division) -> Divided:
    """See above. Raises `Unsupported` where a stream cannot be divided so."""
    if kernel.peak is not None and not kernel.vanishing:
        raise Unsupported("a masked sum beside a maximum that the mask does not bound", kernel.span)
    if kernel.others or kernel.row_results:
        raise Unsupported("further scores, or statistics that are results", kernel.span)
    if any(result.view is not None for result in kernel.results):
        raise Unsupported("a result that is stored through a view", kernel.span)
    tiled, places = _grouped(kernel) if division.grouped else (kernel, {})
    part = None
    if division.tiles is not None:
        length = _length(tiled, division.tiles)
        part = Axis(fresh("part"), (tiled.keys.extent + length - 1) // length)
        tiled = _of_part(tiled, part, length)
    states = _States(kernel, tiled, part, places)
    return Divided(states.stream, tuple(states.after()))


# ── rows that share keys ────────────────────────────────────────────────────────────────────────────────────────────────


def _grouped(kernel: Stream) -> tuple[Stream, dict[Symbol, Dim]]:
    """The stream in which rows that share keys are one tile's, and where each of its axes is, by those of the other."""
    loaded = kernel.by_keys
    whole: list[Axis] = []
    cut: dict[Symbol, tuple[Axis, Axis]] = {}  # an outer axis: what stands for it in the keys, and the rest
    for axis in kernel.outer:
        found = [(symbol, dim) for symbol, dim in kernel.derived if axis.symbol in dim.variables]
        if axis.symbol in loaded or axis.symbol not in kernel.query.axes:
            continue
        if not found:
            whole.append(axis)
        elif len(found) == 1 and isinstance(atom := found[0][1].atom, Quotient) and atom.dividend.symbol == axis.symbol:
            shared = Axis(found[0][0], axis.extent // atom.divisor)
            cut[axis.symbol] = shared, Axis(fresh("member"), atom.divisor)
    if not whole and not cut:
        raise Unsupported("no rows share keys", kernel.span)
    one = merge([*whole, *(member for _, member in cut.values()), kernel.rows])
    inside = _indices(one)
    names = {axis.symbol: inside[axis.symbol] for axis in (*whole, kernel.rows)}
    names |= {symbol: member.extent * Dim.of(shared.symbol) + inside[member.symbol] for symbol, (shared, member) in cut.items()}
    query = _merged_rows(kernel, one, cut)

    def renamed(scalar: Scalar) -> Scalar:
        changed = substitute(scalar, names)
        if any(read.subscripts and bare(read) is None for read in reads(changed)):
            raise Unsupported("what is read for each row does not go along rows that share keys", kernel.span)
        return changed

    outer = tuple(cut[a.symbol][0] if a.symbol in cut else a for a in kernel.outer if a not in whole)
    found_by = {shared.symbol for shared, _ in cut.values()}
    tiled = replace(
        kernel, rows=one.axis, outer=outer, change=renamed(kernel.change),
        totals=tuple((symbol, _mapped(term, renamed)) for symbol, term in kernel.totals), weight=_mapped(kernel.weight, renamed),
        condition=None if kernel.condition is None else renamed(kernel.condition),
        query=EpilogueOperand(query.value, query.axes, tuple(range(len(query.axes)))),
        views=(*(v for v in kernel.views if v.value != kernel.query.value), query),
        derived=tuple((symbol, dim) for symbol, dim in kernel.derived if symbol not in found_by),
        made=None,  # its rows are chosen: those of several axes
    )  # fmt: skip
    place = Dim.of(0)
    at = {symbol: Dim.of(symbol) for symbol in one.symbols}
    at |= {member.symbol: Dim.of(symbol) % member.extent for symbol, (_, member) in cut.items()}
    for each in one.parts:
        place = place * each.extent + at[each.symbol]
    quotients = {shared.symbol: Dim.of(symbol) // member.extent for symbol, (shared, member) in cut.items()}
    return tiled, {one.axis.symbol: place, **quotients}


def _indices(one: Merge) -> dict[Symbol, Dim]:
    """Where each of several axes is, by the one that stands for them; where one has no elements nothing is computed."""
    extents = ((each, each.extent if each.extent.constant else maximum(each.extent, 1)) for each in one.parts)
    return replace(one, parts=tuple(Axis(each.symbol, extent) for each, extent in extents)).indices


def _merged_rows(kernel: Stream, one: Merge, cut: Mapping[Symbol, tuple[Axis, Axis]]) -> View:
    """The queries with one index for the several of `one`, where the last of these stood."""
    operand = kernel.query
    seen = next((v for v in kernel.views if v.value == operand.value), None) or itself(operand.value, operand.axes)
    along: dict[Symbol, tuple[AxisPart, ...]] = {}
    for axis, parts in zip(seen.axes, seen.parts, strict=True):
        if axis in cut:
            shared, member = cut[axis]
            (part,) = parts
            along[shared.symbol] = (AxisPart(shared.extent, tuple(step * member.extent for step in part.step)),)
            along[member.symbol] = (AxisPart(member.extent, part.step),)
        else:
            along[axis] = parts
    last = max(one.symbols, key=[*along].index)
    whole = tuple(part for symbol in one.symbols for part in along[symbol])
    shown = {
        one.axis.symbol if axis == last else axis: whole if axis == last else parts
        for axis, parts in along.items()
        if axis == last or axis not in one.symbols
    }
    return through(seen, shown, operand.value.element)


def _mapped(term: Term, change: Rename) -> Term:
    scale = None if term.scale is None else change(term.scale)
    return replace(term, scale=scale, bias=change(term.bias), factor=change(term.factor))


# ── parts of the keys ───────────────────────────────────────────────────────────────────────────────────────────────────


def _length(kernel: Stream, most: int) -> Dim:
    """How many keys a part has: sizes decide, so that one kernel serves all."""
    tiles = (kernel.rows.extent + (ROWS - 1)) // ROWS
    for axis in kernel.outer:
        tiles = tiles * axis.extent
    keys = kernel.keys.extent
    parts = maximum(minimum(Dim.of(most) // maximum(tiles, 1), keys // LEAST), 1)
    return (keys + PIECE * parts - 1) // (PIECE * parts) * PIECE


def _of_part(kernel: Stream, part: Axis, length: Dim) -> Stream:
    """The stream over one part of the keys."""
    begin, end = fresh("begin"), fresh("end")
    key = Dim.of(kernel.keys.symbol)
    inside = Binary("and", comparison("ge", key, Dim.of(begin)), comparison("lt", key, Dim.of(end)))
    change = kernel.change
    if kernel.peak is not None:
        if kernel.condition is not None:
            assert isinstance(change, Select), "a mask that is not where the maximum is taken"
            change = change.then
        change = Select(both(inside, kernel.condition) or inside, change, NOTHING)
    return replace(
        kernel, outer=(part, *kernel.outer), part=length, change=change, condition=both(inside, kernel.condition),
        derived=(*kernel.derived, (begin, Dim.of(part.symbol) * length), (end, (Dim.of(part.symbol) + 1) * length)),
    )  # fmt: skip


@dataclass(frozen=True, slots=True)
class _State:
    """What a row holds at the end of a part: the local that it is, and the tensor in which all parts leave theirs."""

    local: Symbol
    value: Value


class _States:
    """What the parts of a stream leave, and what is made of it. `places` are the axes of the tiled stream by those of the other."""

    def __init__(self, kernel: Stream, tiled: Stream, part: Axis | None, places: Mapping[Symbol, Dim]) -> None:
        self.kernel, self.part, self.places = kernel, part, places
        self.axes = (*kernel.outer, kernel.rows, kernel.columns)
        self.views = {view.value.symbol: view for view in kernel.views}
        self.derived = dict(kernel.derived)
        self.terms = dict(kernel.totals)
        used = self.used()
        peak = kernel.peak if kernel.peak is not None and (part is not None or kernel.peak in used) else None
        whole = (*tiled.outer, tiled.rows)
        by_part = whole if part is None else (*whole[1:], part)  # so that what a row's parts leave lies side by side
        self.rows, self.by_part = (tuple(a.symbol for a in axes) for axes in (whole, by_part))
        places_of = {axes: tuple(a.extent for a in axes) for axes in (whole, by_part)}
        kept = [symbol for symbol in (peak, *self.terms) if symbol is not None and (symbol == peak or symbol in used)]
        out = kernel.results[0].value.symbol
        names = {symbol: f"{out.name}_{name}" for symbol, name in zip(kept, _names(kept, peak), strict=True)}
        self.by_row = {symbol: _State(fresh(symbol.name), _held(out, names[symbol], places_of[by_part])) for symbol in kept}
        self.product = _State(kernel.product, _held(out, f"{out.name}_parts", (*places_of[whole], tiled.columns.extent)))
        self.held = {**self.by_row, kernel.product: self.product}
        self.made: dict[Symbol, Value] = {}  # of the parts together
        rows = tuple(RowResult(s.value, self.by_part, s.local) for s in self.by_row.values())
        product = Result(self.product.value, (*self.rows, tiled.columns.symbol), Local(kernel.product, Element.F32))
        finals = tuple((s.local, Local(symbol, Element.F32)) for symbol, s in self.by_row.items())
        self.stream = replace(tiled, finals=finals, results=(product,), row_results=rows)

    def used(self) -> set[Symbol]:
        """The statistics that the results depend on."""
        finals = dict(self.kernel.finals)
        mentioned = {symbol for result in self.kernel.results for symbol in local_symbols(result.expression)}
        return {s for final in mentioned & finals.keys() for s in local_symbols(finals[final])}

    def after(self) -> Iterator[Compute]:
        """The operations that make the results of what the parts leave. All go over the elements of the results, which are few:
        what is the same for a row is made for each of them, rather than by a kernel of its own."""
        if self.part is not None:
            if self.kernel.peak in self.by_row:
                yield self.joined(self.part, self.kernel.peak, "max", lambda read, _: read)
            for symbol, term in self.terms.items():
                if symbol in self.by_row:
                    yield self.joined(self.part, symbol, "sum", partial(self.repaired, term))
            yield self.joined(self.part, self.kernel.product, "sum", partial(self.repaired, self.kernel.weight))
        axes = {a.symbol: a for a in self.axes}
        for result in self.kernel.results:
            own, at = renewed(tuple(axes[symbol] for symbol in result.axes))
            value = converted(self.strict(result.expression, at), result.value.element)
            yield Compute((result.value,), own, None, (value,), result.span or self.kernel.span)

    def joined(self, part: Axis, symbol: Symbol, kind: MonoidKind, change: Join) -> Compute:
        """The parts of a state put together, of which each is changed first."""
        own, at = renewed(self.axes)
        self.made[symbol] = Value(fresh(symbol.name), Element.F32, tuple(a.extent for a in own))
        each = Axis(fresh("part"), part.extent)
        at = at | {part.symbol: Dim.of(each.symbol)}
        body = change(self.state(self.held[symbol], at), at)
        return Compute((self.made[symbol],), own, Reduction((each,), Monoid(kind)), (body,), self.kernel.span)

    def state(self, state: _State, at: Mapping[Symbol, Dim]) -> Read:
        """What a part left, of the row at some axes of the undivided stream."""
        axes = (*self.rows, self.kernel.columns.symbol) if state is self.product else self.by_part
        return Read(state.value.symbol, tuple(self.places.get(a, Dim.of(a)).substitute(at) for a in axes), Element.F32)

    def repaired(self, term: Term, sum_: Scalar, at: Mapping[Symbol, Dim]) -> Scalar:
        """A part's sum, which began with its own peak, as if it had begun with the greatest of all; that of nothing is 0."""
        peak = self.kernel.peak
        if peak is None or term.scale is None or peak not in local_symbols(term.bias):
            return sum_
        mine = self.state(self.by_row[peak], at)
        whole, own = self.strict(term.bias, at), self.strict(substituted(term.bias, {peak: mine}), at)
        factor = Unary("exp", Binary("sub", whole, own))
        return Binary("mul", sum_, Select(Binary("gt", mine, NOTHING), factor, Const(1.0, Element.F32)))

    def strict(self, scalar: Scalar, at: Mapping[Symbol, Dim]) -> Scalar:
        """An expression of the stream as core has it: at other axes, finished values as what was made of the parts, views as what
        they show, floats as f32."""
        finals = dict(self.kernel.finals)
        here = tuple(Dim.of(a.symbol) for a in self.axes)

        def visit(node: Scalar) -> Scalar | None:
            match node:
                case Local(symbol=symbol) if symbol in self.made:
                    return Read(self.made[symbol].symbol, here, Element.F32)
                case Local(symbol=symbol) if symbol in finals:
                    return rewrite(loosened(finals[symbol]), visit)
                case Local(symbol=symbol) if symbol in self.held:
                    return self.state(self.held[symbol], {})
                case Read():
                    return self.source(node)
                case _:
                    return None

        shown = rewrite(loosened(scalar), visit)
        if any(read.element is Element.F64 for read in reads(shown)):
            raise Unsupported("a statistic is made of numbers of 64 bits", self.kernel.span)
        return substitute(substitute(rewrite(shown, _wide), self.derived), at)

    def source(self, read: Read) -> Read | None:
        """What a read of a view is a read of."""
        view = self.views.get(read.tensor)
        if view is None:
            return None
        names = {axis: s for axis, s in zip(view.axes, read.subscripts, strict=True) if isinstance(s, Dim)}
        return Read(view.source, tuple(place.substitute(names) for place in view.places), read.element)


def _wide(node: Scalar) -> Scalar | None:
    """Floats that are read, or made of integers, in 32 bits."""
    match node:
        case Read(element=element) if element.is_float and element is not Element.F32:
            return Convert(node, Element.F32)
        case Convert(operand=operand, element=element) if element.is_float and element is not Element.F32:
            return Convert(rewrite(operand, _wide), Element.F32)
        case _:
            return None


def _names(kept: list[Symbol], peak: Symbol | None) -> Iterator[str]:
    """What tensors of these statistics are called."""
    yield from ("peaks" if symbol == peak else f"totals{number or ''}" for number, symbol in enumerate(kept, -(peak in kept)))


def _held(out: Symbol, name: str, shape: tuple[Dim, ...]) -> Value:
    return Value(_symbol(out, name), Element.F32, shape)


@lru_cache(maxsize=4096)
def _symbol(out: Symbol, name: str) -> Symbol:
    """Of what the parts leave of a result: the same each time that its stream is divided."""
    return fresh(name)


def state_of(out: Symbol) -> Symbol:
    """The tensor in which the parts of a stream leave their products, by its first result."""
    return _symbol(out, f"{out.name}_parts")
