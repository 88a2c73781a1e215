"""Facts of one variable in a normal form: an interval, a congruence and exceptions.

Where it has a value, a Dim of one variable v is, from some v on, a polynomial in each residue class of v by some period: `v / 2` is
t for v = 2 * t and for v = 2 * t + 1. So which sizes satisfy a fact is known by trying the first of them, and one for each class
after that. The sizes that satisfy all facts are then said anew, in one way:

    m / 2 = 0, m >= 1            m = 1                  n - n / 2 >= 3            n >= 5
    m / 3 = 2, m % 3 = 1         m = 7                  n % 4 = 0, n % 6 = 0      n % 12 = 0
    n <= 7, n <> 7, 2 * n >= 3   n >= 2, n <= 6

Sets that cannot be said so keep the facts that make them, without those that the others imply. Facts whose period, or beginning, is
beyond a limit stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import lcm
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.algebra.polynomials import roots_of
from axon.shapes.dimension import Dim, Minimum, Quotient
from axon.shapes.relation import Relation

_MAX_PERIOD = 240
_MAX_START = 600
_MAX_DEGREE = 6
_MAX_HOLES = 2  # sizes that are said to be excepted

_Join: TypeAlias = "Callable[[_Poly, _Poly], _Poly]"
_Fact: TypeAlias = "tuple[Relation, _Sizes]"
_Poly: TypeAlias = "tuple[int, ...]"  # coefficients of the powers of t, the constant first; the last is not 0


def of_one_variable(variable: Symbol, relations: Sequence[Relation], order: Sequence[Relation]) -> list[Relation]:
    """What relations of one variable alone say together; as they are where that is not known, or nothing satisfies them.

    `order` are the same in the order in which they rather stay.
    """
    known = _known(variable, order)
    if known is None or (first := known[0].first()) is None:
        return list(relations)
    whole, curved, opaque = known
    itself, start, period = Dim.of(variable), whole.start, whole.period
    last = whole.last()
    if first == last:
        return [Relation(itself - first, "=", Dim.of(0)), *opaque]
    said, kept = whole.said(itself, first, last), _kept(whole, curved, first, last)
    if said is None or (len(said) > len(kept) and said[0].op == "<>"):
        said = [r for r, _ in kept]
    sizes_said = [s for r in said if (s := _sizes(r, variable)) is not None]
    start, period = max([start, *(s.start for s in sizes_said)]), lcm(period, *(s.period for s in sizes_said))
    rest = _Whole(0, None, tuple(sizes_said), start, period)
    least, most = _ends(rest, (whole.low, first), (whole.high, last))
    found = [Relation(itself - least, ">=", Dim.of(0))] if least else []
    if most is not None:
        found.append(Relation(Dim.of(most) - itself, ">=", Dim.of(0)))
    return [*found, *said, *opaque]


def never(variable: Symbol, relations: Sequence[Relation]) -> bool:
    """Whether it is known that no size satisfies relations of one variable."""
    known = _known(variable, relations)
    return known is not None and known[0].first() is None


def _known(variable: Symbol, relations: Sequence[Relation]) -> tuple[_Whole, list[_Fact], list[Relation]] | None:
    """Which sizes satisfy relations, those of them that are more than a bound, and those of which it is not known."""
    low, high = 0, None
    curved: list[_Fact] = []
    opaque: list[Relation] = []
    for r in relations:
        slack = r.slack
        if r.op != "<>" and slack.mapping.keys() <= {(variable,), ()}:
            c, d = slack.mapping.get((variable,), 0), slack.offset
            if not c or (r.op == "=" and d % c):
                return None
            if r.op == "=" or c > 0:
                low = max(low, -(d // c))
            if r.op == "=" or c < 0:
                high = d // -c if high is None else min(high, d // -c)
        elif r.op == "=" and (roots := roots_of(slack)) is not None and len(roots) < 2:
            root = roots[0] if roots else -1
            low, high = max(low, root), root if high is None else min(high, root)
        elif (sizes := _sizes(r, variable)) is not None:
            curved.append((r, sizes))
        else:
            opaque.append(r)
    start = max((s.start for _, s in curved), default=0)
    period = lcm(*(s.period for _, s in curved))
    return None if period > _MAX_PERIOD else (_Whole(low, high, tuple(s for _, s in curved), start, period), curved, opaque)


def _ends(rest: _Whole, low: tuple[int, int], high: tuple[int | None, int | None]) -> tuple[int, int | None]:
    """The bounds to be said besides the rest: none where that has no more sizes; those that were given where they do; the ends."""
    (given, first), (bound, last) = low, high
    least = 0
    most: int | None = None
    if any(rest.has(n) for n in (*range(min(first, rest.start + rest.period)), *range(max(first - rest.period, 0), first))):
        least = first if any(rest.has(n) for n in range(given, min(first, given + rest.start + rest.period))) else given
    if last is not None and any(rest.has(n) for n in range(last + 1, max(last, rest.start) + rest.period + 1)):
        more = bound is None or any(rest.has(n) for n in range(last + 1, min(bound, last + rest.start + rest.period) + 1))
        most = last if more else bound
    return least, most


def _kept(whole: _Whole, facts: Sequence[_Fact], first: int, last: int | None) -> list[_Fact]:
    """The facts that are needed between the first and the last size; the later ones rather go."""
    kept = list(facts)
    for fact in reversed(facts):
        rest = [f for f in kept if f is not fact]
        fewer = _Whole(first, last, tuple(s for _, s in rest), whole.start, whole.period)
        if all(fewer.has(n) == whole.has(n) for n in whole.window(first, last)):
            kept = rest
    return kept


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Which sizes satisfy a fact: those before `start` one by one, from then on by residue classes."""

    early: tuple[bool, ...]
    late: tuple[bool, ...]  # by the remainder by the period

    @property
    def start(self) -> int:
        return len(self.early)

    @property
    def period(self) -> int:
        return len(self.late)

    def has(self, n: int) -> bool:
        return self.early[n] if n < len(self.early) else self.late[n % len(self.late)]


@dataclass(frozen=True, slots=True)
class _Whole:
    """The sizes in an interval that satisfy facts, whose classes begin at `start` and have a common `period`."""

    low: int
    high: int | None
    facts: tuple[_Sizes, ...]
    start: int
    period: int

    def has(self, n: int) -> bool:
        return n >= self.low and (self.high is None or n <= self.high) and all(f.has(n) for f in self.facts)

    def first(self) -> int | None:
        return next((n for n in range(self.low, max(self.low, self.start) + self.period) if self.has(n)), None)

    def last(self) -> int | None:
        """The greatest; None if there are always greater ones. There is at least one."""
        if self.high is None:
            if any(self.has(n) for n in range(self.beyond, self.beyond + self.period)):
                return None
            return next(n for n in range(self.beyond, -1, -1) if self.has(n))
        return next(n for n in range(self.high, -1, -1) if self.has(n))

    @property
    def beyond(self) -> int:
        return max(self.low, self.start)

    def window(self, first: int, last: int | None) -> range:
        """Sizes from the first on that show what is true up to the last."""
        end = max(first, self.start) + self.period
        return range(first, (end if last is None else min(end, last)) + 1)

    def said(self, itself: Dim, first: int, last: int | None) -> list[Relation] | None:
        """The sizes from the first to the last as a congruence or by exceptions; None if they are neither."""
        window = self.window(first, last)
        members = [n for n in window if self.has(n)]
        if len(members) == len(window):
            return []
        step = members[1] - members[0] if len(members) > (1 if last is None else 2) else 0
        if step > 1 and [n for n in window if (n - first) % step == 0] == members and (last is None or (last - first) % step == 0):
            short = last is not None and last <= window[-1]
            if short or self.period % step == 0:
                return [Relation((itself - first) % step, "=", Dim.of(0))]
        holes = [n for n in window if not self.has(n)]
        if len(holes) <= _MAX_HOLES and all(self.has(n) for n in window if n >= self.start):
            return [Relation(itself - n, "<>", Dim.of(0)) for n in holes]
        return None


def _sizes(relation: Relation, variable: Symbol) -> _Sizes | None:
    """Which sizes satisfy a relation, if that is known."""
    slack = relation.slack
    if slack.degree > _MAX_DEGREE or slack.weight > 60:
        return None
    values = _eventually(slack, variable)
    if values is None:
        return None
    late = []
    start = values.start
    for poly in values.polys:
        sign, begin = _sign(poly)
        late.append(sign == 0 if relation.op == "=" else sign != 0 if relation.op == "<>" else sign >= 0)
        start = max(start, values.period * (begin + 1))
    if start > _MAX_START:
        return None
    return _Sizes(tuple(_satisfied(relation, variable, n) for n in range(start)), tuple(late))


def _satisfied(relation: Relation, variable: Symbol, n: int) -> bool:
    try:
        return relation.holds({variable: n})
    except ZeroDivisionError:
        return False


# ── what a Dim is from some size on ─────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Eventually:
    """The values of a Dim from `start` on: of v = period * t + r, the polynomial in t at place r."""

    start: int
    polys: tuple[_Poly, ...]

    @property
    def period(self) -> int:
        return len(self.polys)

    def refined(self, period: int) -> tuple[_Poly, ...]:
        """The polynomials for a multiple of the period."""
        k = period // self.period
        if k == 1:
            return self.polys
        return tuple(_composed(self.polys[r % self.period], k, r // self.period) for r in range(period))


def _eventually(dim: Dim, variable: Symbol) -> _Eventually | None:
    total = _Eventually(0, ((),))
    for coefficient, monomial in dim.terms:
        term: _Eventually | None = _Eventually(0, ((coefficient,),))
        for atom in monomial:
            factor = _of_atom(atom, variable)
            term = None if factor is None or term is None else _joined(term, factor, _times)
            if term is None:
                return None
        joined = _joined(total, term, _plus) if term is not None else None
        if joined is None:
            return None
        total = joined
    return total


def _of_atom(atom: Symbol | Quotient | Minimum, variable: Symbol) -> _Eventually | None:
    match atom:
        case Symbol():
            return _Eventually(0, ((0, 1),)) if atom == variable else None
        case Quotient(dividend, divisor):
            above = _eventually(dividend, variable)
            if above is None:
                return None
            if divisor.constant is not None:
                return _divided(above, divisor.constant) if divisor.constant > 0 else None
            below = _eventually(divisor, variable)
            return None if below is None else _of_larger(above, below)
        case Minimum(items):
            least = _eventually(items[0], variable)
            for item in items[1:]:
                other = _eventually(item, variable)
                least = None if least is None or other is None else _least(least, other)
            return least


def _aligned(a: _Eventually, b: _Eventually) -> tuple[int, list[tuple[_Poly, _Poly]]] | None:
    """A period of both, and the polynomials of both in each place of it."""
    period = lcm(a.period, b.period)
    return None if period > _MAX_PERIOD else (period, list(zip(a.refined(period), b.refined(period), strict=True)))


def _joined(a: _Eventually, b: _Eventually, join: _Join) -> _Eventually | None:
    both = _aligned(a, b)
    if both is None:
        return None
    polys = tuple(join(x, y) for x, y in both[1])
    return _Eventually(max(a.start, b.start), polys) if max(map(len, polys)) <= 2 * _MAX_DEGREE else None


def _least(a: _Eventually, b: _Eventually) -> _Eventually | None:
    both = _aligned(a, b)
    if both is None:
        return None
    start, polys = max(a.start, b.start), []
    period, pairs = both
    for x, y in pairs:
        sign, begin = _sign(_plus(x, tuple(-c for c in y)))
        polys.append(x if sign <= 0 else y)
        start = max(start, period * (begin + 1))
    return _Eventually(start, tuple(polys)) if start <= _MAX_START else None


def _divided(a: _Eventually, k: int) -> _Eventually | None:
    """Floor division by a number: of t = k * s + j, the coefficients of s are multiples of k."""
    if a.period * k > _MAX_PERIOD:
        return None
    return _Eventually(a.start, tuple(_poly(c // k for c in poly) for poly in a.refined(a.period * k)))


def _of_larger(a: _Eventually, b: _Eventually) -> _Eventually | None:
    """Floor division by what grows faster: 0 or -1."""
    both = _aligned(a, b)
    if both is None:
        return None
    start, polys = max(a.start, b.start), []
    period, pairs = both
    for x, y in pairs:
        if len(x) >= len(y):
            return None
        (over, first), (under, second) = _sign(x), _sign(y)
        third = _sign(_plus(y if under > 0 else tuple(-c for c in y), x))[1]
        fourth = _sign(_plus(y if under > 0 else tuple(-c for c in y), tuple(-c for c in x)))[1]
        polys.append(() if over * under >= 0 else (-1,))
        start = max(start, period * (max(first, second, third, fourth) + 1))
    return _Eventually(start, tuple(polys)) if start <= _MAX_START else None


# ── polynomials ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def _poly(coefficients: Iterable[int]) -> _Poly:
    found = list(coefficients)
    while found and not found[-1]:
        found.pop()
    return tuple(found)


def _plus(a: _Poly, b: _Poly) -> _Poly:
    size = max(len(a), len(b))
    return _poly((a[i] if i < len(a) else 0) + (b[i] if i < len(b) else 0) for i in range(size))


def _times(a: _Poly, b: _Poly) -> _Poly:
    found = [0] * max(len(a) + len(b) - 1, 0)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            found[i + j] += x * y
    return _poly(found)


def _composed(a: _Poly, k: int, j: int) -> _Poly:
    """The polynomial of k * s + j, in s."""
    found: _Poly = ()
    for c in reversed(a):
        found = _plus(_times(found, (j, k)), (c,))
    return found


def _sign(a: _Poly) -> tuple[int, int]:
    """The sign of a polynomial from some t on, and that t: beyond all roots (Cauchy's bound)."""
    if not a:
        return 0, 0
    lead = abs(a[-1])
    return (1 if a[-1] > 0 else -1), 2 + max((abs(c) for c in a[:-1]), default=0) // lead if len(a) > 1 else 0
