"""Deciding relations under facts.

`prove` is sound: PROVED and REFUTED hold for every assignment that the facts admit. Everything is bounded: out of budget is
UNKNOWN. The cheap ways come first (normal form, signs, one fact that suffices, two small assignments that disagree); then the
facts that matter, with what defines each quotient and minimum, are refuted together with the goal's negation, in three steps:

    linear      monomials as unknowns; a product of nonnegative atoms is nonnegative
    products    rows multiplied by what makes their monomials meet: from a <= b and c >= 0, a * c <= b * c
    cases       each minimum is one of its items; each `<>` is `<` or `>`

Equalities between products that are still open are reduced by a Gröbner basis of the known ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from axon.names import Symbol
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Minimum, Monomial, Quotient, atom_key, parts, without
from axon.shapes.groebner import Basis
from axon.shapes.linear import Budget, OutOfBudget, Row, infeasible
from axon.shapes.relation import Relation

_STEPS = 20_000  # of one query
_SECONDS = 0.4
_MAX_FACTS = 48  # that one query looks at
_MAX_ROWS = 160
_MAX_CASES = 12

_ONE = Dim.of(1)


class Answer(Enum):
    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


_Claim: TypeAlias = "tuple[str, Dim]"  # ("=", p): p = 0; (">=", p): p >= 0; ("<>", p): p <> 0


def _claims(relation: Relation) -> tuple[_Claim, ...]:
    """What a fact says, and what its being defined says: a divisor is not 0."""
    kind = relation.op if relation.op in ("=", "<>") else ">="
    claims: list[_Claim] = [(kind, relation.slack)]
    for quotient in relation.left.quotients | relation.right.quotients:
        if quotient.divisor.constant is None:
            claims.append(("<>", quotient.divisor))
    return tuple(claims)


class _Log:
    """The claims of a growing chain of Facts, which share one log as long as each extends the newest."""

    __slots__ = ("by_variable", "claims", "relations")

    def __init__(self, relations: Iterable[Relation] = ()) -> None:
        self.relations: list[Relation] = []
        self.claims: list[_Claim] = []
        self.by_variable: dict[Symbol, list[int]] = {}
        for relation in relations:
            self.add(relation)

    def add(self, relation: Relation) -> None:
        self.relations.append(relation)
        try:
            claims = _claims(relation)
        except DimensionTooLarge:
            return  # nothing is lost but what it would prove
        for claim in claims:
            for variable in claim[1].variables:
                self.by_variable.setdefault(variable, []).append(len(self.claims))
            if not claim[1].variables and Relation(claim[1], claim[0], Dim.of(0)).trivial is False:
                self.by_variable.setdefault(_NOWHERE, []).append(len(self.claims))
            self.claims.append(claim)


_NOWHERE = Symbol("false", 0)  # under it stand the claims that are false whatever the variables are


class Facts:
    """An immutable set of relations. Every variable is at least 0."""

    __slots__ = ("_answers", "_claims", "_length", "_log", "_signs")

    def __init__(self) -> None:
        self._set(_Log())

    def _set(self, log: _Log) -> None:
        self._log = log
        self._length = len(log.relations)
        self._claims = len(log.claims)
        self._answers: dict[_Claim, Answer] = {}
        self._signs: dict[Dim, bool] = {}

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(self._log.relations[: self._length])

    def assume(self, *relations: Relation) -> Facts:
        """These facts and more."""
        new = [r for r in relations if r.trivial is not True or r.left.quotients or r.right.quotients]
        if not new:
            return self
        log = self._log
        if len(log.relations) != self._length:
            log = _Log(log.relations[: self._length])
        for relation in new:
            log.add(relation)
        result = Facts.__new__(Facts)
        result._set(log)
        return result

    def index(self, symbol: Symbol, extent: Dim) -> Facts:
        """These facts and 0 <= symbol < extent."""
        return self.assume(Relation(Dim.of(symbol), "<", extent))

    # ── for the prover ──────────────────────────────────────────────────────────────────────────────────────────────────

    def about(self, variables: Iterable[Symbol]) -> Iterator[_Claim]:
        """The claims that mention one of the variables."""
        seen: set[int] = set()
        for variable in variables:
            for i in self._log.by_variable.get(variable, ()):
                if i < self._claims and i not in seen:
                    seen.add(i)
                    yield self._log.claims[i]

    def relevant(self, variables: Iterable[Symbol], limit: int) -> list[_Claim]:
        """The claims connected with the variables, the closest first; also each one that is plainly false."""
        found: list[_Claim] = [*self.about((_NOWHERE,))]
        seen: set[int] = set()
        reached = set(variables)
        edge = sorted(reached, key=lambda v: v.id)
        while edge and len(found) < limit:
            layer = sorted({i for v in edge for i in self._log.by_variable.get(v, ()) if i < self._claims} - seen)
            seen.update(layer)
            found += [self._log.claims[i] for i in layer]
            edge = sorted({v for i in layer for v in self._log.claims[i][1].variables} - reached, key=lambda v: v.id)
            reached.update(edge)
        return found[:limit]

    @property
    def variables(self) -> frozenset[Symbol]:
        return frozenset(v for relation in self.relations for v in relation.variables)


def prove(facts: Facts, relation: Relation) -> Answer:
    """Whether the relation holds, fails, or neither is shown, for all assignments that the facts admit and where it is defined."""
    try:
        claim: _Claim = (relation.op if relation.op in ("=", "<>") else ">=", relation.slack)
    except DimensionTooLarge:
        return Answer.UNKNOWN
    return _decide(facts, claim, Budget(_STEPS, _SECONDS))


def nonnegative(facts: Facts, dim: Dim) -> bool:
    """Whether a Dim is known to be at least 0."""
    return _nonnegative(facts, dim, Budget(_STEPS, _SECONDS))


def positive(facts: Facts, dim: Dim) -> bool:
    """Whether a Dim is known to be at least 1."""
    return _nonnegative(facts, dim - 1, Budget(_STEPS, _SECONDS))


def unsatisfiable(facts: Facts, near: Iterable[Symbol] | None = None) -> bool:
    """Whether it is shown that no assignment satisfies the facts (or those connected with the variables `near`)."""
    budget = Budget(4 * _STEPS, _SECONDS)
    left = set(facts.variables if near is None else near)
    try:
        if any(True for _ in facts.about((_NOWHERE,))):
            return True
        while left:
            variable = min(left, key=lambda v: v.id)
            claims = facts.relevant((variable,), 2 * _MAX_FACTS)
            left -= {variable}.union(*(p.variables for _, p in claims))
            if _Refutation(facts, budget).run(claims):
                return True
    except (OutOfBudget, DimensionTooLarge):
        return False
    return False


# ── cheap ways ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _decide(facts: Facts, claim: _Claim, budget: Budget) -> Answer:
    kind, slack = claim
    trivial = Relation(slack, kind, Dim.of(0)).trivial
    if trivial is not None:
        return Answer.PROVED if trivial else Answer.REFUTED
    if kind == "<>":
        return _OPPOSITE[_decide(facts, ("=", slack), budget)]
    known = facts._answers.get(claim)
    if known is None:
        facts._answers[claim] = Answer.UNKNOWN  # while it is being decided
        known = facts._answers[claim] = _search(facts, kind, slack, budget)
    return known


_OPPOSITE = {Answer.PROVED: Answer.REFUTED, Answer.REFUTED: Answer.PROVED, Answer.UNKNOWN: Answer.UNKNOWN}


def _search(facts: Facts, kind: str, slack: Dim, budget: Budget) -> Answer:
    try:
        if kind == ">=":
            if _plainly_nonnegative(facts, slack, budget) or _follows_from_one(facts, slack, budget):
                return Answer.PROVED
            if _plainly_nonnegative(facts, -slack - 1, budget) or _follows_from_one(facts, -slack - 1, budget):
                return Answer.REFUTED
        claims = facts.relevant(slack.variables, _MAX_FACTS)
        can_hold, can_fail = _sampled(claims, kind, slack)
        refutation = _Refutation(facts, budget)
        if kind == ">=":
            if not can_fail and refutation.run(claims, (">=", -slack - 1)):
                return Answer.PROVED
            if not can_hold and refutation.run(claims, (">=", slack)):
                return Answer.REFUTED
            return Answer.UNKNOWN
        if not can_fail:
            if _reduces_to_zero(facts, claims, slack, budget):
                return Answer.PROVED
            if refutation.run(claims, (">=", slack - 1)) and refutation.run(claims, (">=", -slack - 1)):
                return Answer.PROVED
        if not can_hold and refutation.run(claims, ("=", slack)):
            return Answer.REFUTED
        return Answer.UNKNOWN
    except (OutOfBudget, DimensionTooLarge):
        return Answer.UNKNOWN


def _nonnegative(facts: Facts, dim: Dim, budget: Budget) -> bool:
    return _decide(facts, (">=", dim), budget) is Answer.PROVED


def _plainly_nonnegative(facts: Facts, dim: Dim, budget: Budget) -> bool:
    """Whether it is a sum of positive multiples of products of nonnegative atoms."""
    if any(c < 0 for c in dim.mapping.values()):
        return False
    return all(_nonnegative_atom(facts, a, budget) for m in dim.mapping for a in m if not isinstance(a, Symbol))


def _nonnegative_atom(facts: Facts, atom: Atom, budget: Budget) -> bool:
    match atom:
        case Symbol():
            return True
        case Quotient(dividend, divisor):
            return _positive(facts, divisor, budget) and _sign(facts, dividend, budget)
        case Minimum(items):
            return all(_sign(facts, item, budget) for item in items)


def _positive(facts: Facts, dim: Dim, budget: Budget) -> bool:
    """Whether it is at least 1: also when it is at least 0 and a fact says that it is not 0."""
    if dim.constant is not None:
        return dim.constant >= 1
    return _sign(facts, dim - 1, budget)


def _sign(facts: Facts, dim: Dim, budget: Budget) -> bool:
    known = facts._signs.get(dim)
    if known is None:
        facts._signs[dim] = False  # while it is being found, which ends circles
        known = facts._signs[dim] = _nonnegative(facts, dim, budget)
    return known


def _follows_from_one(facts: Facts, slack: Dim, budget: Budget) -> bool:
    """Whether one fact p >= 0, with slack - p plainly nonnegative, suffices."""
    for i, (kind, p) in enumerate(facts.about(slack.variables)):
        if i == 24:
            break
        if len(p.mapping) > len(slack.mapping) + 2:
            continue
        if kind != "<>" and _plainly_nonnegative(facts, slack - p, budget):
            return True
        if kind == "=" and _plainly_nonnegative(facts, slack + p, budget):
            return True
        if kind == "<>" and _plainly_nonnegative(facts, slack - p + 1, budget) and _plainly_nonnegative(facts, p, budget):
            return True
    return False


_POOLS = ((1,), (2,), (0,), (3, 5, 2, 7, 4, 11), (64, 32, 16, 8, 4, 2), (1, 4, 12, 48, 96), (2, 3, 6, 12, 24, 48), (7, 1, 9, 2))


def _sampled(claims: list[_Claim], kind: str, slack: Dim) -> tuple[bool, bool]:
    """Whether the slack's relation was seen to hold, and to fail, at assignments that satisfy the claims."""
    variables = sorted(slack.variables.union(*(p.variables for _, p in claims)), key=lambda v: v.id)
    can_hold = can_fail = False
    for pool in _POOLS:
        values = {v: pool[i % len(pool)] for i, v in enumerate(variables)}
        try:
            holds = _holds(kind, slack, values)
            if (can_hold if holds else can_fail) or not all(_holds(k, p, values) for k, p in claims):
                continue
        except ZeroDivisionError:
            continue
        can_hold, can_fail = can_hold or holds, can_fail or not holds
        if can_hold and can_fail:
            break
    return can_hold, can_fail


def _holds(kind: str, slack: Dim, values: Mapping[Symbol, int]) -> bool:
    value = slack.evaluate(values)
    return value >= 0 if kind == ">=" else (value == 0) == (kind == "=")


def _reduces_to_zero(facts: Facts, claims: list[_Claim], slack: Dim, budget: Budget) -> bool:
    """Whether slack = 0 follows from the known equalities as polynomials."""
    known = [p for kind, p in claims if kind == "="]
    if not known or max(p.degree for p in (slack, *known)) < 2:
        return False
    return not Basis(known, Budget(2_000, 0.05)).reduce(slack, budget).mapping


# ── refutation ──────────────────────────────────────────────────────────────────────────────────────────────────────────


class _Refutation:
    """Shows that claims contradict one another. Collects them with what they bring in, and asks `linear`."""

    def __init__(self, facts: Facts, budget: Budget) -> None:
        self._facts = facts
        self._budget = budget

    def run(self, claims: Iterable[_Claim], *goal: _Claim) -> bool:
        claims = [c for claim in (*goal, *claims) for c in self._stripped(claim)]
        claims += self._definitions(p for _, p in claims)
        if self._contradictory(claims):
            return True
        more = self._products(claims)
        if more and self._contradictory(claims + more):
            return True
        return self._by_cases(claims + more, _MAX_CASES)

    def _stripped(self, claim: _Claim) -> list[_Claim]:
        """The claim, without the factors that all its terms share, where those are known to be positive."""
        kind, p = claim
        if len(p.mapping) < 2 or () in p.mapping:
            if kind == "=" and len(p.mapping) == 1 and len(next(iter(p.mapping))) > 1:
                ((monomial, _),) = p.mapping.items()
                left = tuple(a for a in monomial if not self._at_least_one(a))
                return [(kind, Dim({left: 1}))]
            return [claim]
        first, *others = p.mapping
        shared = [a for a in dict.fromkeys(first) if all(a in m for m in others)]
        for atom in shared:
            while self._at_least_one(atom) and all(atom in m for m in p.mapping):
                p = Dim({_drop(m, atom): c for m, c in p.mapping.items()})
        return [(kind, p)]

    def _at_least_one(self, atom: Atom) -> bool:
        return _positive(self._facts, Dim({(atom,): 1}), self._budget)

    def _definitions(self, dims: Iterable[Dim]) -> list[_Claim]:
        """What every quotient and minimum in the dims is known to satisfy."""
        found: list[_Claim] = []
        todo = list(dims)
        seen: set[Atom] = set()
        while todo and len(found) < _MAX_ROWS:
            for atom in sorted(todo.pop().atoms - seen, key=atom_key):
                if isinstance(atom, Symbol):
                    continue
                seen.add(atom)
                itself = Dim({(atom,): 1})
                new: list[Dim] = []
                match atom:
                    case Quotient(a, b):
                        if _positive(self._facts, b, self._budget):
                            new = [a - b * itself, b * itself + b - 1 - a]
                    case Minimum(items):
                        new = [item - itself for item in items]
                found += [(">=", p) for p in new]
                todo += [*parts(atom), *new]
        return found

    def _contradictory(self, claims: list[_Claim]) -> bool:
        numbers: dict[Monomial, int] = {}
        equalities: list[Row] = []
        inequalities: list[Row] = []
        for kind, p in claims:
            row = {numbers.setdefault(m, len(numbers)): c for m, c in p.mapping.items() if m}, p.offset
            if kind == "=":
                equalities.append(row)
            elif kind == ">=":
                inequalities.append(row)
            elif not p.mapping:
                return True
        inequalities += [({i: 1}, 0) for m, i in numbers.items() if self._nonnegative_monomial(m)]
        return infeasible(equalities, inequalities, self._budget)

    def _nonnegative_monomial(self, monomial: Monomial) -> bool:
        odd = (a for i, a in enumerate(monomial) if monomial.index(a) == i and monomial.count(a) % 2)
        return all(_nonnegative_atom(self._facts, a, self._budget) for a in odd)

    def _products(self, claims: list[_Claim]) -> list[_Claim]:
        """Consequences of the claims that concern their nonlinear monomials."""
        found: dict[_Claim, None] = {}
        monomials = {m for _, p in claims for m in p.mapping}
        for _ in range(2):
            wanted = sorted((m for m in monomials if len(m) > 1), key=len)
            if not wanted:
                break
            candidates: list[tuple[int, int, _Claim]] = []
            for kind, p in [*claims, *found]:
                if kind == "<>" or len(p.mapping) > 8:
                    continue
                tried: set[Monomial] = set()
                for m in wanted:
                    for t in p.mapping:
                        over = without(m, t) if t else None
                        if not over or over in tried:
                            continue
                        tried.add(over)
                        if kind == "=" or self._nonnegative_monomial(over):
                            self._budget.spend(2)
                            new = p * Dim({over: 1})
                            unseen = sum(m not in monomials for m in new.mapping)
                            if unseen <= 2:
                                candidates.append((unseen, len(candidates), (kind, new)))
            for m in wanted:
                candidates += [(0, len(candidates), claim) for claim in self._pairwise(m, claims)]
            candidates.sort(key=lambda c: c[:2])
            before = len(found)
            for _, _, claim in candidates[:_MAX_ROWS]:
                if claim not in found:
                    found[claim] = None
                    monomials.update(claim[1].mapping)
            if len(found) == before:
                break
        return list(found)[: 2 * _MAX_ROWS]

    def _pairwise(self, monomial: Monomial, claims: list[_Claim]) -> list[_Claim]:
        """For a product x * y: (x - a) * (y - b) >= 0 from bounds x >= a and y >= b, or both upper; for a square, x * x >= x."""
        if len(monomial) != 2:
            return []
        x, y = monomial
        if x == y:
            return [(">=", Dim({(x, x): 1, (x,): -1}))]
        return [
            (">=", p * q)
            for p in self._bounds(x, claims)
            for q in self._bounds(y, claims)
            if (p.mapping[(x,)] > 0) == (q.mapping[(y,)] > 0)
        ]

    def _bounds(self, atom: Atom, claims: list[_Claim]) -> list[Dim]:
        """Up to three claims p >= 0 about this atom alone, or it and another, with something added or taken away."""
        found = [p for kind, p in claims if kind == ">=" and (atom,) in p.mapping and 1 < len(p.mapping) <= 3 and p.degree == 1]
        return sorted(found, key=lambda p: len(p.mapping))[:3]

    def _by_cases(self, claims: list[_Claim], cases: int) -> bool:
        """Whether the claims are contradictory in each case of a minimum or a disequality."""
        for kind, p in claims:
            if kind == "<>":
                rest = [c for c in claims if c != (kind, p)]
                ways = [[(">=", p - 1)], [(">=", -p - 1)]]
                return self._all_contradictory(rest, ways, cases)
        minima = {a for _, p in claims for m in p.mapping for a in m if isinstance(a, Minimum)}
        for atom in sorted(minima, key=lambda a: len(a.items)):
            itself = Dim({(atom,): 1})
            if not any(kind == "=" and p in (item - itself for item in atom.items) for kind, p in claims):
                return self._all_contradictory(claims, [[("=", item - itself)] for item in atom.items], cases)
        return False

    def _all_contradictory(self, claims: list[_Claim], ways: list[list[_Claim]], cases: int) -> bool:
        if len(ways) > cases:
            return False
        for way in ways:
            extended = claims + way
            if not (
                self._contradictory(extended)
                or ((more := self._products(extended)) and self._contradictory(extended + more))
                or self._by_cases(extended, cases // len(ways))
            ):
                return False
        return True


def _drop(monomial: Monomial, atom: Atom) -> Monomial:
    i = monomial.index(atom)
    return monomial[:i] + monomial[i + 1 :]


# ── counterexamples ─────────────────────────────────────────────────────────────────────────────────────────────────────

_SIZES = (2, 3, 4, 5, 6, 7, 8, 1, 0, 9, 10, 12, 16, 24, 32, 64)
_MAX_NODES = 6_000


def counterexample(facts: Facts, relation: Relation, wish: Mapping[Symbol, int] | None = None) -> dict[Symbol, int] | None:
    """A small assignment that satisfies the facts and not the relation, if a short search finds one.

    Sizes are distinct and at least 2 where they can be; `wish` is tried first. Only variables connected with the relation get
    values.
    """
    goal = relation.negated
    claims = [*_claims(goal), *facts.relevant(goal.variables, 4 * _MAX_FACTS)]
    variables = sorted(goal.variables.union(*(p.variables for _, p in claims)), key=lambda v: v.id)
    return _satisfy(claims, variables, dict(wish or {}))


def _satisfy(claims: list[_Claim], variables: list[Symbol], wish: Mapping[Symbol, int]) -> dict[Symbol, int] | None:
    """Backtracking over small sizes; an equation with one variable left, linear in it, gives its value."""
    waiting: dict[Symbol, list[_Claim]] = {v: [] for v in variables}
    for claim in claims:
        for v in claim[1].variables:
            waiting[v].append(claim)
    values: dict[Symbol, int] = {}
    budget = Budget(_MAX_NODES, _SECONDS)

    def consistent(variable: Symbol) -> bool:
        for kind, p in waiting[variable]:
            if p.variables <= values.keys():
                try:
                    if not _holds(kind, p, values):
                        return False
                except ZeroDivisionError:
                    return False
        return True

    def forced() -> tuple[Symbol, int] | None:
        for kind, p in claims:
            if kind == "=":
                open_ = p.variables - values.keys()
                if len(open_) == 1:
                    (variable,) = open_
                    split = p.linear_in(variable)
                    if split is not None:
                        try:
                            a, b = (part.evaluate(values) for part in split)
                        except ZeroDivisionError:
                            return variable, -1
                        if a:
                            return variable, -b // a if b % a == 0 else -1
        return None

    def search() -> bool:
        if len(values) == len(variables):
            return True
        determined = forced()
        candidates: tuple[int, ...]
        if determined is not None:
            variable, candidates = determined[0], (determined[1],)
        else:
            variable = next(v for v in variables if v not in values)
            used = set(values.values())
            sizes = sorted(_SIZES, key=lambda n: (n < 2, n in used))
            candidates = (*([wish[variable]] if variable in wish else ()), *sizes)
        for value in candidates:
            budget.spend()
            if value >= 0:
                values[variable] = value
                if consistent(variable) and search():
                    return True
                del values[variable]
        return False

    try:
        return values if search() else None
    except OutOfBudget:
        return None
