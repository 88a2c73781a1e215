"""How far expressions over indices reach: their largest or smallest values over the ranges of the indices.

Indices are eliminated one after the other, the innermost first, each in the first way that applies:

    monotone      what never falls as the index grows is largest at the end of its range: i / 2 + i, i - min (i + 1) 3
    alternatives  the largest value of a maximum is the largest of its parts' largest: max i (n - 1 - i)
    clamped       what knows the index by a minimum alone is seen from end to end of that: max 0 (min (i - 1) (n - 1))
    in digits     over a range of n * m, `i` is n * q + r with independent q < m and r < n: what reads i / n and i % n
    in blocks     over any other range, what grows from one i / n to the next is largest in the last, which may be cut short, and
                  what falls in the first
    remainder     (i + k) % n takes every value below n over a range of n or more, and up to min (range - 1 + k) (n - 1) over a
                  shorter one, where k < n

All of them give what is reached if no range is empty and no condition stands around. Conditions come first: one that says what an
index is, or what it leaves when it is divided, is put in; one that bounds i / n or i % n takes i apart into these two indices; one
that bounds an index moves the end of its range.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from math import gcd

from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.shapes.algebra.polynomials import exact_quotient
from axon.shapes.algebra.prove import Facts, proves, reduced
from axon.shapes.dimension import (
    Atom,
    Dim,
    DimLike,
    Minimum,
    Monomial,
    Quotient,
    atom_key,
    maximum,
    minimum,
    parts,
    rebuilt,
    replaced,
    variables_of,
)
from axon.shapes.relation import Relation

_ZERO, _ONE = Dim.of(0), Dim.of(1)
_MAX_PARTS = 8  # alternatives that are looked at
_MAX_SAID = 4  # conditions that a contract says, …
_MAX_MINIMA = 4  # … and minima in them: of alternatives


@dataclass(frozen=True, slots=True)
class _Step:
    """Bounds of what an expression changes by as an index grows by 1; None is unbounded."""

    least: Dim | None
    most: Dim | None

    def __add__(self, other: _Step) -> _Step:
        least = None if self.least is None or other.least is None else self.least + other.least
        return _Step(least, None if self.most is None or other.most is None else self.most + other.most)

    def times(self, factor: Dim, falls: bool) -> _Step:
        """The step of factor * expression, of a factor that is at least 0 or (`falls`) at most 0."""
        least, most = (None if d is None else d * factor for d in (self.least, self.most))
        return _Step(most, least) if falls else _Step(least, most)


@dataclass(frozen=True, slots=True)
class Reach:
    """What indices run over (0 <= index < extent, the outermost first), and what is known: facts, and conditions around."""

    facts: Facts
    ranges: Mapping[Symbol, Dim]
    guards: tuple[Relation, ...] = ()
    conditional: bool = False

    def extreme(self, dim: Dim, upper: bool) -> Dim | None:
        """The largest or smallest value over the indices in it; None if that is not clear."""
        reach, dim = self.solved(dim)
        for symbol, extent in reversed(list(reach.ranges.items())):
            found = reach._eliminated(dim, symbol, extent, upper)
            if found is None:
                return None
            dim = self._rounded(found)
        return dim if dim.variables.isdisjoint(reach.ranges) else None

    def solved(self, dim: Dim) -> tuple[Reach, Dim]:
        """With what guards make of indices put in: e for i where i = e, and c * q + r where i % c = r."""
        reach = self
        while (found := reach._solution()) is not None:
            guard, symbol, image, blocks = found
            extent = reach.ranges[symbol]
            ranges = {s: e.substitute({symbol: image}) for s, e in reach.ranges.items() if s != symbol}
            more = [Relation(image, ">=", _ZERO), Relation(image, "<", extent)]
            if blocks is not None:
                q, count = blocks
                ranges = dict((q, count) if s == symbol else (s, ranges[s]) for s in reach.ranges)
                more = [Relation(image.substitute({q: _ZERO}), "<", extent)]
            guards = (*(g.substitute({symbol: image}) for g in reach.guards if g is not guard), *more)
            reach = replace(reach, ranges=ranges, guards=tuple(g for g in guards if g.trivial is not True))
            dim = dim.substitute({symbol: image})
        pairs = ((s, d) for g in reach.guards for s in reversed(list(reach.ranges)) for d in reach._divisors(g.slack, s))
        for symbol, divisor in pairs:
            apart = reach._apart(dim, symbol, divisor)
            if apart is not None:
                return apart[0].solved(apart[1])
        return reach, dim

    def _apart(self, dim: Dim, symbol: Symbol, divisor: Dim) -> tuple[Reach, Dim] | None:
        """With an index i as divisor * q + r, for guards that say of q or of r how far it goes.

        Of a range that is no multiple of the divisor, the last q comes with fewer r: then guards may not exclude r = 0.
        """
        if not self._at_least(divisor, 1):
            return None
        q, r = fresh(symbol.name), fresh(symbol.name)

        def image(part: Dim) -> Dim:
            return _in_parts(part, symbol, divisor, q, r)

        guards = tuple(_without_end(Relation(image(g.left), g.op, image(g.right)), r, divisor) for g in self.guards)
        bounds = [_bound(g, r) if q not in g.variables else None for g in guards if r in g.variables]
        extent = self.ranges[symbol]
        whole = self._whole(extent, divisor)
        if None in bounds or (whole is None and not all(bound and bound[1] for bound in bounds)):
            return None
        count, block = whole, divisor
        if count is None:
            count, block = (extent + divisor - 1) // divisor, minimum(divisor, extent - divisor * Dim.of(q))
        ranges: dict[Symbol, Dim] = {}
        for s, e in self.ranges.items():
            ranges |= {q: count, r: block} if s == symbol else {s: image(e)}
        return replace(self, ranges=ranges, guards=guards), image(dim)

    def _solution(self) -> tuple[Relation, Symbol, Dim, tuple[Symbol, Dim] | None] | None:
        """A guard that gives an index a value, and the value; of i % c = r, it is c * q + r, with q and its extent."""
        for guard in self.guards:
            symbol = next((s for s in reversed(list(self.ranges)) if s in guard.variables), None)
            if symbol is None or guard.op not in ("=", "<>"):
                continue
            split = guard.slack.linear_in(symbol)
            if split is not None and guard.op == "=" and split[0].constant in (1, -1):
                return guard, symbol, -split[0] * split[1], None
            for divisor in self._divisors(guard.slack, symbol):
                q, r, slack = _taken_apart(guard.slack, symbol, divisor)
                c, rest = slack.linear_in(r) or (_ZERO, _ZERO)
                value = -c * rest if guard.op == "=" else _ONE + c * rest if divisor == Dim.of(2) else None
                if c.constant not in (1, -1) or value is None or value.variables & {q, *self.ranges}:
                    continue
                if self._at_least(divisor, 1) and self._at_least(value, 0) and self._at_least(divisor - value, 1):
                    extent = (self.ranges[symbol] + divisor - 1 - value) // divisor
                    return guard, symbol, divisor * Dim.of(q) + value, (q, extent)
        return None

    def _rounded(self, dim: Dim) -> Dim:
        """With (m - 1) / b as m / b - 1, of a multiple m of b: ends of ranges are one below such."""
        for atom in sorted(dim.quotients, key=atom_key):
            below, divisor = -atom.dividend.offset, atom.divisor
            whole = atom.dividend + below
            if below < 1 or (below > 1 and not self._at_least(divisor, below)):
                continue
            defined = self.facts.assume(Relation(divisor, ">=", _ONE))
            if whole == _ZERO or proves(defined, Relation(whole % divisor, "=", _ZERO)):
                exact = exact_quotient(whole, divisor)
                dim = replaced(dim, atom, (whole // divisor if exact is None else exact) - 1)
        return dim

    def _eliminated(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        if symbol not in dim.variables:
            return dim
        rising = self._rising(dim, symbol)
        if rising is not None:
            return dim.substitute({symbol: self._end(symbol, extent, high=rising == upper)})
        found = self._of_alternatives(dim, symbol, extent, upper)
        if found is None:
            found = self._of_clamped(dim, symbol, extent, upper)
        if found is not None or any(symbol in g.variables for g in self.guards):
            return found
        for way in (self._in_digits, self._in_blocks, self._of_remainder):
            if (found := way(dim, symbol, extent, upper)) is not None:
                break
        return found

    # ── monotone ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _rising(self, dim: Dim, symbol: Symbol) -> bool | None:
        """Whether a size never falls (True) or never rises (False) as a variable grows; None if neither is seen."""
        split = dim.linear_in(symbol)
        if split is not None:
            return self._sign(split[0])
        parts, _ = _alternatives(dim, symbol)
        if parts:
            found = {self._rising(part, symbol) for part in parts if symbol in part.variables}
            return found.pop() if len(found) == 1 else None
        step = _Step(_ZERO, _ZERO)
        for monomial, c in dim.mapping.items():
            inside = [a for a in monomial if symbol in variables_of(a)]
            if inside:
                step += self._step(c, monomial, inside, symbol)
        if step.least is not None and self._sign(step.least) is True:
            return True
        return False if step.most is not None and self._sign(-step.most) is True else None

    def _step(self, c: int, monomial: Monomial, inside: list[Atom], symbol: Symbol) -> _Step:
        """By what one term changes, of whose atoms those `inside` mention the index."""
        rest = list(monomial)
        for atom in inside:
            rest.remove(atom)
        factor = Dim({tuple(rest): c})
        if inside == [symbol]:
            return _Step(factor, factor)
        rises = self._sign(factor)
        if rises is None:
            return _Step(None, None)
        if len(inside) == 1:
            step = self._step_of(inside[0], symbol)
        else:  # a product of what is not negative and never falls
            grows = all(self._at_least(Dim({(a,): 1}), 0) and self._step_of(a, symbol).least == _ZERO for a in inside)
            step = _Step(_ZERO if grows else None, None)
        return step.times(factor, not rises)

    def _step_of(self, atom: Atom, symbol: Symbol) -> _Step:
        match atom:
            case Symbol():
                return _Step(_ZERO, _ONE)  # exactly 1, which nobody needs here
            case Quotient(dividend, divisor):
                defined = replace(self, facts=self.facts.assume(Relation(divisor, "<>", _ZERO)))
                if symbol in divisor.variables or not defined._at_least(divisor, 1):
                    return _Step(None, None)
                split, k = dividend.linear_in(symbol), divisor.constant
                if split is not None and (a := split[0].constant) is not None and k is not None:
                    return _Step(Dim.of(a // k), Dim.of(-(-a // k)))
                rises = self._rising(dividend, symbol)
                whole = None if split is None else split[0]  # a / b is at most a, and at least a if that is negative
                return _Step(_ZERO, whole) if rises else _Step(None, None) if rises is None else _Step(whole, _ZERO)
            case Minimum(items):
                found = {self._rising(item, symbol) for item in items if symbol in item.variables}
                rises = found.pop() if len(found) == 1 else None
                return _Step(_ZERO if rises is True else None, _ZERO if rises is False else None)

    def _sign(self, c: Dim) -> bool | None:
        """Whether a coefficient is at least 0 (True) or at most 0 (False), where its divisors are at least 1, as they must be."""
        facts = self.facts
        if not self.conditional:
            facts = facts.assume(
                *(Relation(q.divisor, ">=", _ONE) for q in sorted(c.quotients, key=atom_key) if q.divisor.constant is None)
            )
        if proves(facts, Relation(c, ">=", _ZERO)):
            return True
        return False if proves(facts, Relation(c, "<=", _ZERO)) else None

    def _at_least(self, dim: Dim, least: DimLike) -> bool:
        return proves(self.facts, Relation(dim, ">=", Dim.of(least)))

    def _end(self, symbol: Symbol, extent: Dim, high: bool) -> Dim:
        """The last or first value of an index, by its range and the guards that bound it directly."""
        end = extent - 1 if high else _ZERO
        for guard in self.guards:
            bound = _bound(guard, symbol)
            if bound is None or bound[1] != high:
                continue
            within = Relation(bound[0], "<=" if high else ">=", end)
            limit = minimum if high else maximum
            end = bound[0] if proves(self.facts, within) else limit(end, bound[0])
        return end

    def conditions(self, relation: Relation) -> list[Relation] | None:
        """What guards say of sizes alone; None if one says more of the relation's indices than that they have ends.

        What excludes single values, i <> j, does not count, nor what other indices are compared with: a few more of them are
        never evaluated, as where a range is empty. But where no index is left to count, some must satisfy the guard.
        """
        found: list[Relation] = []
        within = relation.variables & self.ranges.keys()
        for guard in self.guards:
            indices = guard.variables & self.ranges.keys()
            if not indices:
                found.append(guard)
            elif guard.op == "<>" and not guard.slack.quotients:
                continue
            elif not within:
                most = None if guard.op in ("=", "<>") else replace(self, guards=()).extreme(guard.slack, upper=True)
                if most is None:
                    return None
                found.append(Relation(most, ">=", _ZERO))
            elif indices & within and all(_bound(guard, symbol) is None for symbol in indices & within):
                return None
        return found

    def of_sizes(self) -> list[Relation]:
        """The guards that mention no index."""
        return [guard for guard in self.guards if guard.variables.isdisjoint(self.ranges)]

    # ── what is not monotone ────────────────────────────────────────────────────────────────────────────────────────────

    def _of_alternatives(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        """The largest value of a maximum, or the smallest of a minimum."""
        parts, largest = _alternatives(dim, symbol)
        if not parts or largest != upper:
            return None
        found = [self._eliminated(part, symbol, extent, upper) for part in parts]
        out = found[0]
        for other in found[1:]:
            if out is None or other is None:
                return None
            out = maximum(out, other) if upper else minimum(out, other)
        return out

    def _of_clamped(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        """Of what knows the index by a minimum alone, also inside others: max 0 (min (i - 1) (n - 1)), from end to end of that."""
        minima = (a for a in dim.atoms if isinstance(a, Minimum) and symbol in variables_of(a))
        for inner in sorted(minima, key=lambda a: (len(a.items), atom_key(a))):
            itself, within = Dim({(inner,): 1}), fresh(symbol.name)
            new = _by_inner(dim, inner, within)
            slopes = {None if (split := item.linear_in(symbol)) is None else split[0].constant for item in inner.items}
            if symbol in new.variables or not (slopes <= {0, 1} or slopes <= {0, -1}):
                continue  # it might leave out values from end to end
            low, high = (self._eliminated(itself, symbol, extent, end) for end in (False, True))
            if low is not None and high is not None:
                low, high = reduced(self.facts, low), reduced(self.facts, high)
                return self._over(within, high - low + 1).extreme(new.substitute({within: low + Dim.of(within)}), upper)
        return None

    def _in_digits(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        """Of a range that is a multiple of what the index is divided by."""
        for divisor in self._divisors(dim, symbol):
            size = self._whole(extent, divisor)
            if size is not None and self._at_least(size, 0):
                q, r, new = _taken_apart(dim, symbol, divisor)
                return Reach(self.facts, {q: size, r: divisor}, (), self.conditional).extreme(new, upper)
        return None

    def _whole(self, extent: Dim, divisor: Dim) -> Dim | None:
        """How often a divisor goes into a multiple of it."""
        size = exact_quotient(extent, divisor)
        multiple = size is None and proves(self.facts, Relation(extent % divisor, "=", _ZERO))
        return extent // divisor if multiple else size

    def _in_blocks(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        """Of c * (i / n) + what i % n decides: its end is in the first block, or in the last if the others cannot make up for c."""
        for divisor in self._divisors(dim, symbol):
            q, r, new = _taken_apart(dim, symbol, divisor)
            split = new.linear_in(q)
            if split is None or r in split[0].variables or (rises := self._sign(split[0])) is None:
                continue
            c, inside = split
            if c == _ZERO or rises != upper:
                return self._over(r, minimum(divisor, extent)).extreme(inside, upper)
            block = self._over(r, divisor)
            high, low = block.extreme(inside, upper=True), block.extreme(inside, upper=False)
            if high is None or low is None or self._sign((c if rises else -c) + low - high) is not True:
                continue
            last = (extent - 1) // divisor
            end = self._over(r, extent - divisor * last).extreme(inside, upper)
            if end is not None:
                return c * last + end
        return None

    def _divisors(self, dim: Dim, symbol: Symbol) -> list[Dim]:
        """What an index itself is divided by."""
        found = (q.divisor for q in sorted(dim.quotients, key=atom_key) if q.dividend.symbol == symbol)
        return [divisor for divisor in found if not divisor.variables & self.ranges.keys()]

    def _over(self, symbol: Symbol, extent: Dim) -> Reach:
        return Reach(self.facts, {symbol: extent}, (), self.conditional)

    def _of_remainder(self, dim: Dim, symbol: Symbol, extent: Dim, upper: bool) -> Dim | None:
        """Of c * ((± i + k) % n) + rest, where nothing else mentions the index i."""
        for atom in sorted(dim.atoms, key=atom_key):
            if not isinstance(atom, Quotient) or symbol in atom.divisor.variables or (split := dim.split(atom)) is None:
                continue
            a, b = atom.dividend, atom.divisor
            c, inner = exact_quotient(-split[0], b), a.linear_in(symbol)
            if c is None or inner is None or symbol in (rest := split[1] - c * a).variables:
                continue
            rises = self._sign(c)
            n, k = inner[0].constant, b.constant
            if rises is None or n is None or (n not in (1, -1) and (k is None or gcd(n, k) > 1)):
                continue
            if rises != upper and a.symbol == symbol:
                return rest
            if proves(self.facts, Relation(extent, ">=", b)):
                return rest + c * (b - 1) if rises == upper else rest
            first = inner[1]  # what i = 0 gives, if it is below the divisor
            rising = rises == upper and n == 1
            least = _ONE if rising and first == _ONE else first + 1  # min (range) (n - 1) is right also for n = 1
            if not self._at_least(first, 0) or not (least == _ONE or self._at_least(b, least)):
                continue
            if rising:
                return rest + c * minimum(extent - 1 + first, b - 1)
            if rises != upper and n in (-1, k and k - 1):
                return rest + c * maximum(first + 1 - extent, _ZERO)
        return None


def only_where(conditions: Sequence[Relation], relation: Relation, facts: Facts, sized: bool) -> Relation | None:
    """That a relation holds where conditions on sizes do, as one relation; None if that takes more than one of them to say.

    Of what a size depends on (`sized`), which nothing compares while running, up to four of them are said, the plainest. What is
    divided by may be 0 in a call for which the conditions do not hold, or another fact does not: it is then divided by 1 instead.
    """
    open_ = list(dict.fromkeys(conditions))
    everywhere = {r: _with_sizes(r, facts) for r in (*conditions, relation)}  # k / k = 1 does not say that k <> 0
    for c in reversed(open_):
        rest = [other for other in open_ if other != c]
        known = facts.assume(*(everywhere[other] for other in rest))
        if proves(known, everywhere[c]) or proves(facts.assume(everywhere[c].negated), everywhere[relation]):
            open_ = rest
    below = {q.divisor for r in (relation, *conditions) for q in r.slack.quotients if q.divisor.constant is None}
    least = map(_positive, sorted(below, key=lambda d: d.sort_key))
    if not sized and any(proves(facts.assume(*conditions), r) and not proves(facts, r) for r in least):
        return None
    if not open_:
        return everywhere[relation] if conditions else relation
    if relation.op == "=" and sized:
        relation = Relation(minimum(relation.slack, -relation.slack), ">=", _ZERO)
    if relation.op in ("=", "<>") or (len(open_) > 1 and not sized):
        return None
    told: list[Relation] = []  # under some of the conditions it is asked more often than needed, but not of every call
    for c in sorted(open_, key=_minima):
        told += [c] if len(told) < _MAX_SAID and sum(map(_minima, told), _minima(c)) <= _MAX_MINIMA else []
    otherwise = [alternative for c in told for alternative in _otherwise(c, sized)]
    if not otherwise:
        return None
    slack, others = _defined(relation.slack, facts), [_defined(o, facts) for o in otherwise]
    if len(others) == 1 and slack + others[0] == Dim.of(-2):  # n >= k + 1 or n <= k - 1
        return Relation(slack + 1, "<>", _ZERO)
    return Relation(reduce(maximum, others, slack), ">=", _ZERO)


def _minima(relation: Relation) -> int:
    """How many minima are written in a relation."""
    found, todo = 0, [*relation.slack.atoms]
    while todo:
        atom = todo.pop()
        found += isinstance(atom, Minimum)
        todo += [a for part in parts(atom) for a in part.atoms] if not isinstance(atom, Symbol) else []
    return found


def _otherwise(condition: Relation, sized: bool) -> tuple[Dim, ...]:
    """Sizes of which one is at least 0 where a condition does not hold; of an equation none that nothing needs to say."""
    if condition.op not in ("=", "<>"):
        return (condition.negated.slack,)
    slack = condition.slack
    if not sized:
        return ()
    return (slack - 1, -slack - 1) if condition.op == "=" else (minimum(slack, -slack),)


def _positive(divisor: Dim) -> Relation:
    return Relation(divisor, ">=", _ONE)


def _with_sizes(relation: Relation, facts: Facts) -> Relation:
    """The same relation wherever all divisors are at least 1, and one that says no more of them."""
    return Relation(_defined(relation.left, facts), relation.op, _defined(relation.right, facts))


def _defined(dim: Dim, facts: Facts) -> Dim:
    """The same size wherever all divisors are at least 1, and a size everywhere."""

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        part = rebuilt(atom, whole)
        if not isinstance(atom, Quotient) or proves(facts, _positive(atom.divisor)):
            return part
        return whole(atom.dividend) // maximum(whole(atom.divisor), 1)

    def whole(part: Dim) -> Dim:
        return part.rewrite(image)

    return whole(dim)


def _bound(guard: Relation, symbol: Symbol) -> tuple[Dim, bool] | None:
    """The most (True) or the least that a guard lets an index be: from n - c * i >= 0, i <= n / c."""
    split = guard.slack.linear_in(symbol) if guard.op not in ("=", "<>") else None
    c = None if split is None else split[0].constant
    if split is None or not c:
        return None
    return (split[1] // -c, True) if c < 0 else (-(split[1] // c), False)


def _taken_apart(dim: Dim, symbol: Symbol, divisor: Dim) -> tuple[Symbol, Symbol, Dim]:
    """An index as divisor * q + r, and the Dim of those."""
    q, r = fresh(symbol.name), fresh(symbol.name)
    return q, r, _in_parts(dim, symbol, divisor, q, r)


def _in_parts(dim: Dim, symbol: Symbol, divisor: Dim, q: Symbol, r: Symbol) -> Dim:
    """With divisor * q + r for an index, and q for its quotient."""
    new = replaced(dim, Quotient(Dim.of(symbol), divisor), Dim.of(q))
    return new.substitute({symbol: divisor * Dim.of(q) + Dim.of(r)})


def _without_end(guard: Relation, index: Symbol, extent: Dim) -> Relation:
    """i < n - 1 for i <> n - 1, and i >= 1 for i <> 0, of an index i < n."""
    split = guard.slack.linear_in(index) if guard.op == "<>" else None
    if split is not None and split[0].constant in (1, -1):
        value = -split[0] * split[1]
        if value == extent - 1:
            return Relation(Dim.of(index), "<", value)
        if value == _ZERO:
            return Relation(Dim.of(index), ">=", _ONE)
    return guard


def _by_inner(dim: Dim, inner: Minimum, within: Symbol) -> Dim:
    """A Dim by a minimum in it, which is also a part of larger ones: of min n m, min n (min m 1) is min w 1."""

    def image(atom: Atom) -> Dim:
        if not isinstance(atom, Minimum) or not set(inner.items) <= set(atom.items):
            return Dim.of(atom) if isinstance(atom, Symbol) else rebuilt(atom, lambda part: part.rewrite(image))
        least = Dim.of(within)
        for item in atom.items:
            least = least if item in inner.items else minimum(least, item)
        return least

    return dim.rewrite(image)


def _alternatives(dim: Dim, symbol: Symbol) -> tuple[tuple[Dim, ...], bool]:
    """What a Dim is the largest (True) or the smallest of, by a minimum in it: k - min a b is max (k - a) (k - b)."""
    for monomial, c in dim.mapping.items():
        if len(monomial) == 1 and isinstance(atom := monomial[0], Minimum) and symbol in variables_of(atom):
            split = dim.split(atom)
            if split is not None and split[0].constant is not None and len(atom.items) <= _MAX_PARTS:
                return tuple(split[1] + item * c for item in atom.items), c < 0
    return (), False
