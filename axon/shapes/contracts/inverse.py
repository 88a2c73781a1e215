"""All sizes that satisfy relations: the assignments themselves, sorted; or a family of them; or that there are none; or *unknown*.

What is found is exact. Equations are solved first for sizes that occur in them to the first degree, which takes nothing away and
adds nothing: h = c * d gives h, and 2 * n = 3 * m gives n = 3 * m / 2 where 3 * m % 2 = 0. The sizes that are left, `free`, are
searched: their ranges are narrowed (see `narrow`), then one is tried at each of its sizes, or its range is split. A search that
comes to its end has found every assignment. If there are too many, or it ends before (the budget is in steps), one that it did
find shows that the family is not empty; if it found none, the prover is asked whether there are any.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isqrt

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.base.nearest import MAX_SIZE
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.algebra.minimal import minimal
from axon.shapes.algebra.polynomials import roots_of
from axon.shapes.algebra.prove import Facts, proves, unsatisfiable
from axon.shapes.contracts.legal import satisfied
from axon.shapes.contracts.narrow import Box, Empty, narrow
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation

STEPS = 60_000  # of one search, of some 10 µs
_CORE = 60_000  # of finding what contradicts
_LOOK = 20_000  # of a look at sizes up to …
_SMALL = 40
_WHOLE = 512  # sizes of a range that are tried one by one; a longer one is split
_DIVISORS = 10**12  # what is taken apart by trial division
_SIMPLIFIED = 24  # relations of a family that are compared with one another

Values = dict[Symbol, int]


@dataclass(frozen=True, slots=True)
class Every:
    """All assignments there are, in the order of the variables."""

    values: tuple[Values, ...]


@dataclass(frozen=True, slots=True)
class Family:
    """The assignments in which the `free` sizes satisfy the relations, and the others are these Dims of them, none larger than a
    size can be. `example` is one."""

    free: tuple[Symbol, ...]
    sizes: Mapping[Symbol, Dim]
    relations: tuple[Relation, ...]
    example: Values


@dataclass(frozen=True, slots=True)
class Nothing:
    """There is none: these relations, by their numbers, contradict one another."""

    core: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Unknown:
    """The budget was spent before anything was shown."""


Answer = Every | Family | Nothing | Unknown


def inverse(relations: Sequence[Relation], variables: Sequence[Symbol], most: int, steps: int = STEPS) -> Answer:
    """What sizes from 0 to 2^31 - 1 the variables may be so that all relations hold, with divisors of at least 1.

    The relations mention only these variables. If there are more than `most` assignments, they are a family.
    """
    budget = Budget(steps)
    try:
        system = _System(relations, variables)
        found = _Search(system, most, budget)
    except (Empty, DimensionTooLarge) as error:
        return Nothing(_core(relations, variables)) if isinstance(error, Empty) else Unknown()
    if found.complete:
        whole = [system.whole(values) for values in found.values]
        if not whole:
            return Nothing(_core(relations, variables))
        return Every(tuple(sorted(whole, key=lambda values: [values[v] for v in variables])))
    if found.values:
        for least in (2, 1):  # sizes of nothing at all, or of one, are seldom meant
            if better := found.some(least, Budget(_LOOK, budget)):
                found.values = [better]
                break
        example = min((system.whole(v) for v in found.values), key=lambda values: _plainness(values, variables))
        return Family(tuple(system.free), dict(system.sizes), _simplified(system.relations), example)
    facts = Facts(Budget(steps)).assume(*system.relations)
    return Nothing(_core(relations, variables)) if unsatisfiable(facts) else Unknown()


def _plainness(values: Values, variables: Iterable[Symbol]) -> tuple[object, ...]:
    """Few sizes of nothing at all or of one, then small ones."""
    sizes = [values[v] for v in variables]
    return sum(n == 0 for n in sizes), sum(n == 1 for n in sizes), sizes


# ── equations ───────────────────────────────────────────────────────────────────────────────────────────────────────────


class _System:
    """Relations between the `free` sizes; the others are `sizes`, Dims of them."""

    def __init__(self, relations: Iterable[Relation], variables: Sequence[Symbol]) -> None:
        """Raises Empty where a contradiction is plain."""
        self.order = {v: i for i, v in enumerate(variables)}
        self.free = list(variables)
        self.sizes: dict[Symbol, Dim] = {}
        self.relations: list[Relation] = []
        self._add(relations)
        self.relations += self._divisors(self.relations)
        while self._next():
            pass
        self.relations = list(dict.fromkeys(self.relations))

    def whole(self, values: Mapping[Symbol, int]) -> Values:
        """All sizes, of values for the free ones."""
        return {v: self.sizes[v].evaluate(values) if v in self.sizes else values[v] for v in self.order}

    def _divisors(self, relations: Iterable[Relation]) -> list[Relation]:
        found = {q.divisor for r in relations for side in (r.left, r.right) for q in side.quotients}
        varying = sorted((d for d in found if d.constant is None), key=lambda d: d.sort_key)
        return [Relation(d, ">=", Dim.of(1)) for d in varying]

    def _add(self, relations: Iterable[Relation]) -> None:
        for r in relations:
            holds = r.trivial
            if holds is False or any(q.divisor.constant == 0 for q in r.left.quotients | r.right.quotients):
                raise Empty
            if holds is None or r.left.quotients or r.right.quotients:
                self.relations.append(r)

    def _next(self) -> bool:
        """Solve one equation for one size, if there is one that can be: by what is plainest, and rather for the last size."""
        ways: list[tuple[tuple[int, ...], Relation, Symbol, Dim]] = []
        for r in self.relations:
            if r.op != "=":
                continue
            if len(r.variables) == 1:
                (v,) = r.variables
                roots = roots_of(r.slack)
                if roots is not None and len(roots) == 0:
                    raise Empty
                if roots is not None and len(roots) == 1:
                    ways.append(((0, 0, 0), r, v, Dim.of(roots[0])))
                    continue
            for v in r.variables:
                split = r.slack.linear_in(v)
                c = split[0].constant if split is not None else None
                if split is not None and c:
                    value = -split[1] if c > 0 else split[1]
                    ways.append(((abs(c), value.weight, -self.order[v]), r, v, value // abs(c)))
        if not ways:
            return False
        _, relation, symbol, value = min(ways, key=lambda way: way[0])
        self._solve(relation, symbol, value)
        return True

    def _solve(self, relation: Relation, symbol: Symbol, value: Dim) -> None:
        """A size is what an equation says it is: a size, and without remainder."""
        image = {symbol: value}
        before, self.relations = self.relations, []
        self.free.remove(symbol)
        self.sizes = {v: dim.substitute(image) for v, dim in self.sizes.items()} | {symbol: value}
        self._add([relation.substitute(image), *(r.substitute(image) for r in before if r != relation)])
        self._add([Relation(value, ">=", Dim.of(0)), Relation(value, "<=", Dim.of(MAX_SIZE))])


# ── the search ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Search:
    """Assignments of the free sizes; `complete` if there are no others."""

    def __init__(self, system: _System, most: int, budget: Budget) -> None:
        self.system, self.most = system, most
        self.values: list[Values] = []
        self._about: dict[Symbol, list[Relation]] = {v: [] for v in system.free}
        for r in system.relations:
            for v in sorted(r.variables, key=lambda s: s.id):
                self._about[v].append(r)
        self.complete = self._search(0, MAX_SIZE, budget)
        if not self.complete and not self.values:  # one among small sizes shows that there are any
            self._search(0, _SMALL, Budget(_LOOK, budget))

    def some(self, least: int, budget: Budget) -> Values | None:
        """One with free sizes from a least one on, if a short search finds it."""
        before, most, self.values, self.most = self.values, self.most, [], 0
        self._search(least, MAX_SIZE, budget)
        found, self.values, self.most = self.values, before, most
        return found[0] if found else None

    def _search(self, least: int, largest: int, budget: Budget) -> bool:
        """Whether everything was looked at between these sizes."""
        self.budget = budget
        box = Box(dict.fromkeys(self.system.free, (least, largest)))
        try:
            narrow(box, self._about, self.system.relations, budget)
            return self._visit(box)
        except OutOfBudget:
            return False
        except Empty:
            return True

    def _visit(self, box: Box) -> bool:
        """Everything in a box that is narrowed, unless there is too much."""
        waiting = [box]  # the sizes below come first, and a deep search does not recur
        while waiting:
            box = waiting.pop()
            open_ = [v for v in self.system.free if box.ranges[v][0] < box.ranges[v][1]]
            if not open_:
                self._try({v: low for v, (low, _) in box.ranges.items()})
                if len(self.values) > self.most:
                    return False
                continue
            variable = min(open_, key=lambda v: (box.ranges[v][1] - box.ranges[v][0], self.system.order[v]))
            for low, high in reversed(self._parts(variable, box)):
                self.budget.spend()
                part = Box(box.ranges)
                try:
                    part.limit(variable, low, high)
                    narrow(part, self._about, self._about[variable], self.budget)
                except Empty:
                    continue
                waiting.append(part)
        return True

    def _try(self, values: Values) -> None:
        self.budget.spend(1 + len(self.system.relations) // 8)
        if all(satisfied(r, values) for r in self.system.relations):
            self.values.append(values)

    def _parts(self, variable: Symbol, box: Box) -> list[tuple[int, int]]:
        """Into what a range is split: single sizes if they are few, or if the size divides a number; else two halves."""
        low, high = box.ranges[variable]
        if high - low >= _WHOLE:
            divided = self._divides(variable, box)
            if divided is not None:
                return [(n, n) for n in divided if low <= n <= high]
            middle = max(low, min(2 * low + 15, (low + high) // 2))  # small sizes are wanted more often than large ones
            return [(low, middle), (middle + 1, high)]
        return [(n, n) for n in range(low, high + 1)]

    def _divides(self, variable: Symbol, box: Box) -> list[int] | None:
        """The divisors of a number of which a size must be one: n * (m + 2) = 60."""
        known = {v: Dim.of(low) for v, (low, high) in box.ranges.items() if low == high}
        for r in self._about[variable]:
            if r.op != "=":
                continue
            slack = r.slack.substitute(known)
            number = abs(slack.offset)
            if 0 < number <= _DIVISORS and all(variable in m for m in slack.mapping if m):
                self.budget.spend(isqrt(number) // 500)
                small = [n for n in range(1, isqrt(number) + 1) if number % n == 0]
                return sorted({*small, *(number // n for n in small)})
        return None


# ── what is said of it ──────────────────────────────────────────────────────────────────────────────────────────────────


def _core(relations: Sequence[Relation], variables: Sequence[Symbol]) -> tuple[int, ...]:
    """Relations that already contradict one another, by number: as few as are found."""
    budget = Budget(_CORE)

    def wrong(numbers: Sequence[int]) -> bool | None:
        part = budget.part(_CORE // 8)
        kept = [relations[i] for i in numbers]
        try:
            part.spend(len(kept))
            found = _Search(_System(kept, variables), 0, part)
        except Empty:
            return True
        except (DimensionTooLarge, OutOfBudget):
            return None
        if found.complete and not found.values:
            return True
        if found.values:
            return None
        return True if unsatisfiable(Facts(part).assume(*kept)) else None

    kept, _ = minimal(range(len(relations)), True, wrong, budget)
    return tuple(kept)


def _simplified(relations: Sequence[Relation]) -> tuple[Relation, ...]:
    """The relations without those that sizes satisfy anyway, and those that the others imply."""
    relations = sorted(relations, key=lambda r: bool(r.left.quotients | r.right.quotients))  # what divisors are comes first
    kept = [r for r in relations if not _plain(r) and not (r.op == "<=" and r.right.constant == MAX_SIZE)]
    if len(kept) > _SIMPLIFIED:
        return tuple(kept)
    least = {q.divisor - 1 for r in kept for side in (r.left, r.right) for q in side.quotients}  # stays: without it, who divides?
    for r in sorted((r for r in kept if r.slack not in least), key=lambda r: (r.op == "=", -r.slack.weight)):
        others = Facts().assume(*(o for o in kept if o is not r))
        divisors = {q.divisor for side in (r.left, r.right) for q in side.quotients if q.divisor.constant is None}
        if all(proves(others, said) for said in (r, *(Relation(d, ">=", Dim.of(1)) for d in divisors))):
            kept = [o for o in kept if o is not r]
    return tuple(kept)


def _plain(relation: Relation) -> bool:
    """That a sum is at least 0."""
    slack = relation.slack
    if relation.op in ("=", "<>") or any(not isinstance(a, Symbol) for a in slack.atoms):
        return False
    return all(c > 0 for c in slack.mapping.values())
