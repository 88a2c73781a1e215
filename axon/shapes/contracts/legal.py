"""Legal sizes near some that are not: what must hold of all of them, with one of them changed, or as few as possible together.

Sizes are sought outwards from what they are. What every legal one must be, whatever else holds, is read off the facts: `n % 64 = 3`
leaves each 64th size, `n * m = 12` beside m = 4 a single one, `n <= m` none above m, and where `n * n >= 100000` begins to hold is
found by bisection. Nothing at all, 0, is taken only where no other size, or no others together, will do.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from itertools import combinations
from math import gcd
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.nearest import MAX_SIZE, edge, legal_sizes
from axon.shapes.dimension import Dim, DimensionTooLarge, atom_key
from axon.shapes.relation import Relation

Values: TypeAlias = "Mapping[Symbol, int]"
Progression: TypeAlias = "tuple[int, int]"  # (r, k): r, r + k, …; k = 0: r alone

_EVERY: Progression = (0, 1)
_MAX_TOGETHER = 4  # sizes that are changed together
_MAX_VARIABLES = 10  # among which those are chosen
_MAX_STEPS = 6_000  # sizes that are tried
_MAX_TRIED = 48  # for one dimension, while others are still to be chosen


def _any(_: object) -> bool:
    return True


def satisfied(relation: Relation, values: Values) -> bool:
    """Whether a relation holds of sizes, and each of its divisors is at least 1."""
    try:
        if any(q.divisor.evaluate(values) < 1 for q in relation.left.quotients | relation.right.quotients):
            return False
        return relation.holds(values)
    except ZeroDivisionError:
        return False


def alone(symbol: Symbol, values: Values, facts: Iterable[Relation], also: Callable[[int], bool] = _any) -> tuple[int, ...]:
    """The nearest sizes below and above for which all facts hold, and `also` something else; the others stay."""
    known = [f for f in facts if f.variables <= values.keys()]
    about = [f for f in known if symbol in f.variables]
    progression = _progression(symbol, values, about)
    if progression is None or not all(satisfied(f, values) for f in known if symbol not in f.variables):
        return ()
    actual, changed = values[symbol], dict(values)

    def fits(n: int) -> bool:
        changed[symbol] = n
        return all(satisfied(f, changed) for f in about) and also(n)

    broken = [f for f in about if _begins_to_hold(f) and not satisfied(f, values)]

    def bound(n: int) -> bool:
        changed[symbol] = n
        return all(satisfied(f, changed) for f in broken)

    return legal_sizes(actual, fits, bound if broken else None, progression)


def together(values: Values, facts: Iterable[Relation], also: Callable[[Values], bool] = _any) -> dict[Symbol, int] | None:
    """All sizes with as few as possible changed so that all facts hold, and `also` something else; and by as little as possible."""
    known = [f for f in facts if f.variables <= values.keys()]
    broken = [f for f in known if not satisfied(f, values)]
    if not broken:
        return dict(values) if also(values) else None
    search = _Search(values, known, also)
    near = _connected(broken, known)
    for count in range(1, min(_MAX_TOGETHER, len(near)) + 1):
        search.steps = _MAX_STEPS
        for chosen in combinations(near, count):
            if all(not f.variables.isdisjoint(chosen) for f in broken):
                search.choose(chosen)
        if search.best is not None:
            return search.best
    return None


def _connected(broken: Sequence[Relation], facts: Sequence[Relation]) -> list[Symbol]:
    """The variables of broken facts and of those connected with them, the nearest first."""
    found: dict[Symbol, None] = {}
    layer = {v for f in broken for v in f.variables}
    while layer and len(found) < _MAX_VARIABLES:
        found.update(dict.fromkeys(sorted(layer, key=lambda v: v.id)))
        layer = {v for f in facts if not f.variables.isdisjoint(layer) for v in f.variables} - found.keys()
    return list(found)[:_MAX_VARIABLES]


@dataclass(frozen=True, slots=True)
class _Way:
    """What a variable can be beside those that are known: some of a progression from `low` to `high`; `about` says the rest."""

    progression: Progression
    low: int
    high: int
    about: tuple[Relation, ...]

    @property
    def freedom(self) -> tuple[int, int, int]:
        """By how much it leaves open what the size is: nothing at all first."""
        (_, k), room = self.progression, self.high - self.low
        return (0, 0, 0) if k == 0 else (1, room // k, -k)


class _Search:
    """Sizes for some variables, the others as they are: backtracking outwards, bounded by the best that was found."""

    def __init__(self, values: Values, facts: Sequence[Relation], also: Callable[[Values], bool]) -> None:
        self.given = values
        self.values = dict(values)
        self.facts = facts
        self.also = also
        self.best: dict[Symbol, int] | None = None
        self._least = 2 * MAX_SIZE * _MAX_TOGETHER
        self.steps = 0

    def choose(self, open_: Sequence[Symbol], distance: int = 0) -> None:
        if not open_:
            if all(satisfied(f, self.values) for f in self.facts) and self.also(self.values):
                self.best, self._least = dict(self.values), distance
            return
        known = self.values.keys() - set(open_)
        ways: list[tuple[Symbol, _Way]] = []
        for v in open_:
            way = self._way(v, known)
            if way is None:
                return
            ways.append((v, way))
        if distance + sum(_least_cost(self.given[v], way.low, way.high) for v, way in ways) >= self._least:
            return
        variable, way = min(ways, key=lambda found: found[1].freedom)
        actual, rest = self.given[variable], [v for v in open_ if v != variable]
        tried = 0
        for n in _outwards(actual, way, self._starts(variable, way)):
            self.steps -= 1
            cost = distance + _cost(actual, n)
            if self.steps < 0 or cost >= self._least:
                break
            if tried == _MAX_TRIED and n:  # nothing at all is tried after them
                continue
            self.values[variable] = n
            if all(satisfied(f, self.values) for f in way.about):
                tried += 1
                self.choose(rest, cost)
        self.values[variable] = actual

    def _way(self, variable: Symbol, known: set[Symbol]) -> _Way | None:
        """What a variable can be beside those that are known; None if nothing is left."""
        about = tuple(f for f in self.facts if variable in f.variables and f.variables - {variable} <= known)
        progression = _progression(variable, self.values, about)
        low, high = _bounds(variable, self.values, known, self.facts)
        return None if progression is None or low > high else _Way(progression, low, high, about)

    def _starts(self, variable: Symbol, way: _Way) -> list[int]:
        """The size as it is, or the nearest within its bounds, and where inequalities begin to hold that do not there."""
        actual = self.given[variable]
        starts = [min(max(actual, way.low), way.high)]
        values = dict(self.values)
        values[variable] = actual
        for fact in way.about:
            if _begins_to_hold(fact) and not satisfied(fact, values):

                def holds(n: int, fact: Relation = fact) -> bool:
                    return satisfied(fact, {**values, variable: n})

                found = (edge(actual, step, holds) for step in (-1, 1))
                starts += [n for n in found if n is not None]
        return starts


def _cost(actual: int, n: int) -> int:
    """How far a size is from what it was; nothing at all is further than anything else."""
    return abs(n - actual) + (MAX_SIZE if n == 0 < actual else 0)


def _least_cost(actual: int, low: int, high: int) -> int:
    return max(low - actual, actual - high, 0)


def _outwards(actual: int, way: _Way, starts: Iterable[int]) -> Iterator[int]:
    """The sizes of a progression within bounds, from some starts in both directions, each once, the nearest to the actual first."""
    (r, k), found = way.progression, set[int]()
    if k == 0:
        found.add(r)
    for start in starts if k else ():
        below = start - (start - r) % k
        for sizes in (range(below, -1, -k), range(below + k, MAX_SIZE + 1, k)):
            found.update(sizes[: 2 * _MAX_TRIED])
    found.update([0] if k and r == 0 else ())
    yield from sorted((n for n in found if way.low <= n <= way.high), key=lambda n: (_cost(actual, n), n))


def _bounds(symbol: Symbol, values: Values, known: Set[Symbol], facts: Iterable[Relation]) -> tuple[int, int]:
    """Between which sizes a variable must lie, whatever those are that are not known: of a + b <= 2 neither is more than 2."""
    low, high = 0, MAX_SIZE
    for fact in facts:
        if fact.op == "<>" or fact.left.quotients or fact.right.quotients or symbol not in fact.variables:
            continue
        try:
            slack = fact.slack.substitute({v: Dim.of(values[v]) for v in fact.variables if v != symbol and v in known})
        except DimensionTooLarge:
            continue
        for most in (slack, -slack) if fact.op == "=" else (slack,):  # at least 0
            c = most.mapping.get((symbol,), 0)
            others = (m for m in most.mapping if m not in ((symbol,), ()))
            if any(most.mapping[m] > 0 or not all(isinstance(v, Symbol) for v in m) for m in others):
                continue
            if c == 0 and most.offset < 0:
                return 1, 0
            if c > 0:
                low = max(low, -(most.offset // c))
            elif c < 0:
                high = min(high, most.offset // -c)
    return low, high


def _begins_to_hold(fact: Relation) -> bool:
    """Whether a fact is an inequality that rounds nothing, which holds for no size of a variable or for all from some size on."""
    return fact.op not in ("=", "<>") and not fact.left.quotients and not fact.right.quotients


def _progression(symbol: Symbol, values: Values, facts: Iterable[Relation]) -> Progression | None:
    """Where a variable must lie by the equations and divisibilities of one unknown among facts; None if they contradict."""
    r, k = _EVERY
    for fact in facts:
        if fact.op != "=":
            continue
        try:
            slack = fact.slack.substitute({v: Dim.of(values[v]) for v in fact.variables if v != symbol})
        except DimensionTooLarge:
            continue
        found = _congruence(slack, symbol)
        if found is None:
            continue
        c, d, modulus = found  # c * n + d is a multiple of the modulus; of 0 it is 0
        if modulus == 0:
            if d % c:
                return None
            n = -d // c
            if (n - r) % k if k else n != r:
                return None
            r, k = n, 0
            continue
        step = gcd(c, modulus)
        if d % step:
            return None
        m = modulus // step
        s = -(d // step) * pow(c // step, -1, m) % m if m > 1 else 0
        joined = _both((r, k), (s, m))
        if joined is None:
            return None
        if joined[1] <= MAX_SIZE or joined[1] == 0:
            r, k = joined
        else:
            r, k = joined[0], 0
    return r, k


def _both(a: Progression, b: Progression) -> Progression | None:
    """What two progressions share: the Chinese remainder theorem."""
    (r, k), (s, m) = a, b
    if k == 0:
        return a if (r - s) % m == 0 else None
    step = gcd(k, m)
    if (s - r) % step:
        return None
    whole = k // step * m
    t = (s - r) // step * pow(k // step, -1, m // step) if m > step else 0
    return (r + k * t) % whole, whole


def _congruence(slack: Dim, symbol: Symbol) -> tuple[int, int, int] | None:
    """(c, d, k) of slack = 0 that says c * symbol + d = 0 (k = 0), or (c * symbol + d) % k = 0."""
    one = (symbol,)
    if slack.mapping.keys() <= {one, ()}:
        c = slack.mapping.get(one, 0)
        return (c, slack.offset, 0) if c else None
    for q in sorted(slack.quotients, key=atom_key):
        k = q.divisor.constant
        if k is None or k < 1 or not q.dividend.mapping.keys() <= {one, ()}:
            continue
        remainder = q.dividend % k
        for rest in (slack - remainder, slack + remainder):
            if rest.constant is not None and one in q.dividend.mapping:
                r = -rest.constant if rest == slack - remainder else rest.constant
                return (q.dividend.mapping[one], q.dividend.offset - r, k) if 0 <= r < k else (0, 1, k)
    return None
