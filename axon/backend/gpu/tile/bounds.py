"""Which pieces of the streamed axis a mask leaves: for a tile of rows, where it may hold and where it holds for all of them.

A condition over a row index i, a streamed index j and values that one tile has one of is turned into two intervals of j: outside
`some` it holds for no row of the tile, inside `every` it holds for all of them. A comparison that is affine in i and j gives half
an interval each; `and`, `or` and `not` combine them. Of a comparison that data decide tables may say it (see `reach`); what else
a condition is made of may hold anywhere, and for certain nowhere.

Integers of a condition wrap, and then it is not affine. Bounds are computed in 64 bits, where nothing here wraps, and where a value
of the tile might be outside of its element type, they decide nothing: every element is compared, in its own arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, TypeAlias

from axon.base.data import dataclass, field, replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core import integer_ranges as ranges
from axon.core.integer_ranges import MOST, Range
from axon.core.ir import Binary, Compute, Const, Convert, Index, Local, Read, Scalar, Select, Unary, Value, element_of
from axon.core.walk import nodes
from axon.shapes.dimension import Dim

Interval = tuple[Scalar, Scalar]  # first, and one past the last
Compared: TypeAlias = "tuple[str, Scalar, Scalar]"  # a comparison: how, and what

BLOCK = 64  # neighbouring rows of which tables say something; the tiles of all mappings are made of such blocks


@dataclass(frozen=True, slots=True)
class Reach:
    """What a table says of a comparison for each BLOCK of rows, at `axes` outside: the four numbers of its last dimension are the
    interval of the streamed index in which it may hold for some row of the block, and that in which it holds for all. `made` are
    the operations that make it. See Note [Reach]."""

    compared: Compared
    axes: tuple[Symbol, ...]
    table: Value
    made: tuple[Compute, ...] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Lookup:
    """Locals of a tile: what of a Reach holds for all of its blocks of rows."""

    table: Value
    axes: tuple[Symbol, ...]
    locals: tuple[Symbol, Symbol, Symbol, Symbol]

    # Of several blocks some row has what some row of one has, and all have what all of each have.
    GREATEST: ClassVar = (False, True, True, False)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Intervals of the streamed index as expressions over the tile's `first_row` and `last_row` and what is `looked` up in tables
    for it, which are locals."""

    first_row: Symbol
    last_row: Symbol
    some: Interval
    every: Interval
    looked: tuple[Lookup, ...] = ()

    @property
    def uneven(self) -> bool:
        """Whether tiles of some rows may have more to do than others."""
        rows = {self.first_row, self.last_row}
        return any(isinstance(n, Local) and n.symbol in rows for end in self.some for n in nodes(end))


def bounds(
    condition: Scalar | None,
    rows: Symbol,
    keys: Symbol,
    extent: Dim,
    uniform: Callable[[Read], bool],
    reaches: Sequence[Reach] = (),
) -> Bounds:
    """The bounds of a condition (None: it always holds). `uniform` says whether a read has one value for a whole tile, `reaches`
    what tables say of comparisons."""
    first_row, last_row = fresh("first_row"), fresh("last_row")
    known = {reach.compared: _lookup(reach) for reach in reaches}
    finder = _Finder(rows, keys, extent, first_row, last_row, uniform, known)
    some, every = finder.everywhere if condition is None else finder.find(condition, negated=False)
    looked = tuple(known[compared] for compared in dict.fromkeys(finder.asked) if compared in known)
    return Bounds(first_row, last_row, some, every, looked)


def undecided(
    condition: Scalar | None, rows: Symbol, keys: Symbol, extent: Dim, uniform: Callable[[Read], bool]
) -> tuple[Compared, ...]:
    """The comparisons of a condition, or their negations where these count, of which arithmetic says nothing."""
    finder = _Finder(rows, keys, extent, fresh("first_row"), fresh("last_row"), uniform, {})
    if condition is not None:
        finder.find(condition, negated=False)
    return tuple(dict.fromkeys(finder.asked))


def _lookup(reach: Reach) -> Lookup:
    found = (fresh("reach_from"), fresh("reach_to"), fresh("all_reach_from"), fresh("all_reach_to"))
    return Lookup(reach.table, reach.axes, found)


# Each comparison and its negation.
_COMPARISONS = {
    "lt": ("lt", "ge"), "le": ("le", "gt"), "gt": ("gt", "le"), "ge": ("ge", "lt"), "eq": ("eq", "ne"), "ne": ("ne", "eq"),
}  # fmt: skip
_ZERO = Const(0, Element.I32)


@dataclass(frozen=True, slots=True)
class _Affine:
    """j · keys + i · rows + rest, where `rest` is between the numbers `range`, and nothing wraps if all `checks` hold."""

    keys: int
    rows: int
    rest: Scalar
    range: Range
    checks: tuple[Scalar, ...] = ()

    @property
    def whole(self) -> Range:
        ends = [(0, k * MOST) for k in (self.keys, self.rows)]
        return sum(map(min, ends), self.range[0]), sum(map(max, ends), self.range[1])

    def plus(self, other: _Affine) -> _Affine:
        range_ = self.range[0] + other.range[0], self.range[1] + other.range[1]
        rest = _add(self.rest, other.rest)
        return _Affine(self.keys + other.keys, self.rows + other.rows, rest, range_, self.checks + other.checks)

    def minus(self, other: _Affine) -> _Affine:
        return self.plus(other.scaled(-1))

    def scaled(self, k: int) -> _Affine:
        ends = self.range[0] * k, self.range[1] * k
        return _Affine(self.keys * k, self.rows * k, _mul(self.rest, k), (min(ends), max(ends)), self.checks)


class _Finder:
    def __init__(
        self,
        rows: Symbol,
        keys: Symbol,
        extent: Dim,
        first_row: Symbol,
        last_row: Symbol,
        uniform: Callable[[Read], bool],
        known: Mapping[Compared, Lookup],
    ) -> None:
        self.rows, self.keys, self.uniform, self.known = rows, keys, uniform, known
        self.asked: list[Compared] = []  # what arithmetic does not decide
        self.row = (Local(first_row, Element.I32), Local(last_row, Element.I32))
        self.end: Scalar = Index(extent)

    @property
    def everywhere(self) -> tuple[Interval, Interval]:
        return (_ZERO, self.end), (_ZERO, self.end)

    @property
    def anywhere(self) -> tuple[Interval, Interval]:
        return (_ZERO, self.end), (self.end, _ZERO)

    def find(self, condition: Scalar, *, negated: bool) -> tuple[Interval, Interval]:
        """The intervals in which a condition, or its negation, holds for some row and for every row."""
        match condition:
            case Const(value=value):
                return self.everywhere if bool(value) != negated else ((self.end, _ZERO), (self.end, _ZERO))
            case Unary(op="not", operand=operand):
                return self.find(operand, negated=not negated)
            case Binary(op="and" | "or" as op, left=left, right=right):
                (a_some, a_every), (b_some, b_every) = (self.find(side, negated=negated) for side in (left, right))
                if (op == "and") != negated:
                    return _meet(a_some, b_some), _meet(a_every, b_every)
                return _hull(a_some, b_some), _longer(a_every, b_every)
            case Binary(op=op, left=left, right=right) if op in _COMPARISONS and element_of(left).is_integer:
                a, b = self.affine(left), self.affine(right)
                if a is None or b is None:
                    return self.looked_up((_COMPARISONS[op][negated], left, right))
                difference = a.minus(b)
                if not _narrow(difference.whole):
                    return self.anywhere
                some, every = self.compared(_COMPARISONS[op][negated], difference)
                for check in dict.fromkeys(difference.checks):
                    some, every = (_either(check, x, y) for x, y in zip((some, every), self.anywhere, strict=True))
                return some, every
            case _:
                return self.anywhere

    def looked_up(self, compared: Compared) -> tuple[Interval, Interval]:
        """What tables say of a comparison."""
        self.asked.append(compared)
        if compared not in self.known:
            return self.anywhere
        some, to, every, until = (Local(symbol, Element.I32) for symbol in self.known[compared].locals)
        return (some, to), (every, until)

    def compared(self, op: str, difference: _Affine) -> tuple[Interval, Interval]:
        """Where `difference op 0` holds."""
        match op:
            case "ge":
                return self.at_least(difference)
            case "gt":
                return self.at_least(difference.plus(_constant(-1)))
            case "le" | "lt":
                return self.compared({"le": "ge", "lt": "gt"}[op], difference.scaled(-1))
            case "eq":
                (a_some, a_every), (b_some, b_every) = (self.compared(side, difference) for side in ("ge", "le"))
                return _meet(a_some, b_some), _meet(a_every, b_every)
            case _:
                return self.anywhere

    def at_least(self, form: _Affine) -> tuple[Interval, Interval]:
        """Where j · keys + i · rows + rest >= 0: j · keys >= -rest - i · rows."""
        least, most = self.row if form.rows >= 0 else self.row[::-1]
        some, every = (self.from_least(form.keys, _add(form.rest, _mul(row, form.rows))) for row in (most, least))
        return some, every

    def from_least(self, keys: int, value: Scalar) -> Interval:
        """Where j · keys + value >= 0."""
        if keys == 0:
            return _when(Binary("ge", value, _ZERO), _ZERO, self.end), self.end
        if keys > 0:  # j >= ceil (-value / keys) = -floor (value / keys)
            return _mul(_div(value, keys), -1), self.end
        return _ZERO, _add(_div(value, -keys), Const(1, Element.I32))

    def affine(self, scalar: Scalar) -> _Affine | None:
        """An integer expression as an affine form, with checks that no value of it wraps in the tile."""
        form = self.form(scalar)
        if form is None or not _narrow(form.whole):
            return None
        element = element_of(scalar)
        if ranges.fits(form.whole, element):
            return form
        low, high = ranges.of_element(element)
        ends = (_ZERO, _add(self.end, Const(-1, Element.I32)))
        least, most = (
            _add(_add(form.rest, _mul(ends[(form.keys > 0) == up], form.keys)), _mul(self.row[(form.rows > 0) == up], form.rows))
            for up in (False, True)
        )
        checks = (Binary("ge", least, Const(low, Element.I64)), Binary("le", most, Const(high, Element.I64)))
        return replace(form, checks=(*form.checks, *checks))

    def form(self, scalar: Scalar) -> _Affine | None:
        """Its exact value, if the parts of it do not wrap."""
        match scalar:
            case Const(value=value):
                return _constant(int(value))
            case Index(dim=dim):
                keys, rows, rest = 0, 0, dim
                for symbol in (self.keys, self.rows):
                    split = rest.linear_in(symbol)
                    if split is None or split[0].constant is None:
                        return None
                    keys, rows = (split[0].constant, rows) if symbol == self.keys else (keys, split[0].constant)
                    rest = split[1]
                return _Affine(keys, rows, Index(rest), ranges.of_dim(rest))
            case Read() if self.uniform(scalar) and scalar.element.is_integer:
                return _Affine(0, 0, scalar, ranges.of_element(scalar.element))
            case Convert(operand=operand, element=element) if element.is_integer and element_of(operand).is_integer:
                return self.affine(operand)
            case Unary(op="neg", operand=operand):
                inner = self.affine(operand)
                return None if inner is None else inner.scaled(-1)
            case Binary(op="add" | "sub" as op, left=left, right=right):
                a, b = self.affine(left), self.affine(right)
                return None if a is None or b is None else a.plus(b) if op == "add" else a.minus(b)
            case Binary(op="mul", left=left, right=Const(value=value)) | Binary(op="mul", left=Const(value=value), right=left):
                inner = self.affine(left)
                return None if inner is None else inner.scaled(int(value))
            case _:
                return None


def _constant(value: int) -> _Affine:
    return _Affine(0, 0, Const(value, Element.I32), (value, value))


def _narrow(range_: Range) -> bool:
    """Whether 64 bits hold what is computed of such values."""
    return range_[0] > -ranges.WIDE and range_[1] < ranges.WIDE


def _either(condition: Scalar, then: Interval, otherwise: Interval) -> Interval:
    return _when(condition, then[0], otherwise[0]), _when(condition, then[1], otherwise[1])


# ── integer expressions ─────────────────────────────────────────────────────────────────────────────────────────────────


def _number(scalar: Scalar) -> int | None:
    match scalar:
        case Const(value=value):
            return int(value)
        case Index(dim=dim):
            return dim.constant
        case _:
            return None


def _add(a: Scalar, b: Scalar) -> Scalar:
    match _number(a), _number(b):
        case int(x), int(y):
            return Const(x + y, Element.I32)
        case 0, _:
            return b
        case _, 0:
            return a
    if isinstance(a, Index) and isinstance(b, Index):
        return Index(a.dim + b.dim)
    return Binary("add", a, b)


def _sub(a: Scalar, b: Scalar) -> Scalar:
    return _add(a, _mul(b, -1))


def _mul(a: Scalar, k: int) -> Scalar:
    number = _number(a)
    if number is not None:
        return Const(number * k, Element.I32)
    if k == 1:
        return a
    if k == 0:
        return _ZERO
    if isinstance(a, Index):
        return Index(a.dim * k)
    return Unary("neg", a) if k == -1 else Binary("mul", a, Const(k, Element.I32))


def _div(a: Scalar, k: int) -> Scalar:
    """Floor division by a positive number."""
    number = _number(a)
    if number is not None:
        return Const(number // k, Element.I32)
    return a if k == 1 else Binary("div", a, Const(k, Element.I32))


def _least(a: Scalar, b: Scalar) -> Scalar:
    return a if a == b else Binary("min", a, b)


def _greatest(a: Scalar, b: Scalar) -> Scalar:
    return a if a == b else Binary("max", a, b)


def _meet(a: Interval, b: Interval) -> Interval:
    return _greatest(a[0], b[0]), _least(a[1], b[1])


def _hull(a: Interval, b: Interval) -> Interval:
    """The least interval that holds both; an empty one may widen it, which costs time and nothing else."""
    return _least(a[0], b[0]), _greatest(a[1], b[1])


def _longer(a: Interval, b: Interval) -> Interval:
    return _either(Binary("ge", _sub(a[1], a[0]), _sub(b[1], b[0])), a, b)


def _when(condition: Scalar, then: Scalar, otherwise: Scalar) -> Scalar:
    return then if then == otherwise else Select(condition, then, otherwise)
