"""Between which numbers sizes lie that satisfy relations: what one relation leaves of them, and all together.

Each size has a range. A relation between Dims is read from the outside in (hull consistency: F. Benhamou and others, "Revising hull
and box consistency", 1999): what a sum must be bounds its terms, what a term must be bounds its factors, and so down to the
sizes. What is left out never satisfies the relation; what is left may.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import gcd, prod

from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget
from axon.shapes.dimension import Atom, Dim, Minimum, Quotient
from axon.shapes.relation import Relation, integer_root

Range = tuple[int, int]

_FAR = 2**5_000  # beyond what any Dim of sizes is: of what is not known
_ANY: Range = (-_FAR, _FAR)
_LONG = 128  # bits of a root that is found
_MOST = 400  # times that one relation is read before the sizes are split instead


class Empty(Exception):
    """No sizes in these ranges satisfy the relations."""


class Box:
    """A range for each size. Cheap to copy."""

    __slots__ = ("changed", "ranges")

    def __init__(self, ranges: Mapping[Symbol, Range]) -> None:
        self.ranges = dict(ranges)
        self.changed: set[Symbol] = set()

    def limit(self, symbol: Symbol, low: int, high: int) -> None:
        """Raises Empty."""
        before = self.ranges[symbol]
        low, high = max(low, before[0]), min(high, before[1])
        if low > high:
            raise Empty
        if (low, high) != before:
            self.ranges[symbol] = low, high
            self.changed.add(symbol)

    # ── what a Dim is there ─────────────────────────────────────────────────────────────────────────────────────────────

    def of(self, dim: Dim) -> Range:
        low = high = 0
        for monomial, c in dim.mapping.items():
            least, most = self._of_term(c, monomial)
            low, high = low + least, high + most
        return low, high

    def _of_term(self, c: int, monomial: Sequence[Atom]) -> Range:
        term = (c, c)
        for atom in monomial:
            term = _times(term, self.of_atom(atom))
        return term

    def of_atom(self, atom: Atom) -> Range:
        match atom:
            case Symbol():
                return self.ranges[atom]
            case Quotient(dividend, divisor):
                above, below = self.of(dividend), self.of(divisor)
                if below[0] < 1:
                    return _ANY
                found = [a // b for a, b in product(above, below)]
                return min(found), max(found)
            case Minimum(items):
                ranges = [self.of(item) for item in items]
                return min(low for low, _ in ranges), min(high for _, high in ranges)

    # ── what a Dim must be ──────────────────────────────────────────────────────────────────────────────────────────────

    def require(self, dim: Dim, low: int, high: int) -> None:
        """Leave out sizes for which a Dim is not from `low` to `high`. Raises Empty."""
        terms = [(c, m, self._of_term(c, m)) for m, c in dim.mapping.items()]
        least, most = sum(t[0] for _, _, t in terms), sum(t[1] for _, _, t in terms)
        if least > high or most < low:
            raise Empty
        if low <= least and most <= high:
            return
        if low == high:
            step = gcd(*(c for c, _, (a, b) in terms if a < b))
            if step > 1 and (low - sum(a for _, _, (a, b) in terms if a == b)) % step:
                raise Empty
        for c, monomial, (a, b) in terms:
            if monomial:
                below, above = low - (most - b), high - (least - a)
                if below > a or above < b:
                    self._require_product(monomial, *_divided(below, above, c))

    def _require_product(self, monomial: Sequence[Atom], low: int, high: int) -> None:
        for atom in dict.fromkeys(monomial):
            power = monomial.count(atom)
            ranges = [self.of_atom(other) for other in monomial if other != atom]
            own = self.of_atom(atom)
            if own[0] < 0 or any(r[0] < 0 for r in ranges):
                if len(monomial) == 1:
                    self._require_atom(atom, low, high)
                continue
            if high < 0:
                raise Empty
            least, most = prod(r[0] for r in ranges), prod(r[1] for r in ranges)
            if low > 0 and most == 0:
                raise Empty
            upper = _root_below(high // least, power) if least > 0 else _FAR
            lower = _root_above(-(-low // most), power) if low > 0 else 0
            self._require_atom(atom, lower, upper)

    def _require_atom(self, atom: Atom, low: int, high: int) -> None:
        match atom:
            case Symbol():
                self.limit(atom, low, high)
            case Quotient(dividend, divisor):
                least, most = self.of(divisor)
                if least < 1:
                    return
                over = self.of(dividend)
                self.require(dividend, min(low * least, low * most), max((high + 1) * least, (high + 1) * most) - 1)
                if low > 0:
                    self.require(divisor, -_FAR, over[1] // low)
                if high >= 0 and over[0] >= 0:
                    self.require(divisor, over[0] // (high + 1) + 1, _FAR)
            case Minimum(items):
                for item in items:
                    self.require(item, low, _FAR)
                below = [item for item in items if self.of(item)[0] <= high]
                if not below:
                    raise Empty
                if len(below) == 1:
                    self.require(below[0], low, high)


def narrow(box: Box, about: Mapping[Symbol, Sequence[Relation]], first: Iterable[Relation], budget: Budget) -> None:
    """Leave out of a box what the relations leave out, as far as that is seen; `first` are those to begin with, `about` those that
    mention a size. Raises Empty, and OutOfBudget."""
    waiting = dict.fromkeys(first)
    counts: dict[Relation, int] = {}
    while waiting:
        relation = next(iter(waiting))
        del waiting[relation]
        counts[relation] = counts.get(relation, 0) + 1
        if counts[relation] > _MOST:
            continue
        slack = relation.slack
        budget.spend(1 + len(slack.mapping) // 2)
        box.changed.clear()
        if relation.op == "=":
            box.require(slack, 0, 0)
        elif relation.op == "<>":
            if box.of(slack) == (0, 0):
                raise Empty
        else:
            box.require(slack, 0, _FAR)
        for symbol in sorted(box.changed, key=lambda s: s.id):
            waiting.update(dict.fromkeys(about.get(symbol, ())))


def _times(a: Range, b: Range) -> Range:
    if a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], a[1] * b[1]
    found = (a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1])
    return min(found), max(found)


def _divided(low: int, high: int, c: int) -> Range:
    """Between which numbers x lies if c * x is from `low` to `high`."""
    if c < 0:
        low, high, c = -high, -low, -c
    return -(-low // c), high // c


def _root_below(value: int, power: int) -> int:
    """An integer of which no larger one has a power of at most the value; the least one, unless it is large."""
    if power == 1:
        return value
    return integer_root(value, power) if value < 1 << _LONG * power else _FAR


def _root_above(value: int, power: int) -> int:
    """An integer from 0 of which no smaller one has a power of at least the value; the greatest one, unless it is large."""
    if value <= 0 or power == 1:
        return max(value, 0)
    if value >= 1 << _LONG * power:
        return 1 << _LONG
    root: int = integer_root(value, power)
    return root if value == root**power else root + 1
