"""Deciding relations under facts.

`prove` is sound: PROVED and REFUTED hold for every assignment that the facts admit. Everything is bounded: out of budget is
UNKNOWN. The cheap ways come first (normal form, signs, one fact that suffices, two small assignments that disagree); then the
facts that matter, with what defines each quotient and minimum, are refuted together with the goal's negation, in three steps:

    linear      monomials as unknowns; a product of nonnegative atoms is nonnegative
    products    rows multiplied by what makes their monomials meet: from a <= b and c >= 0, a * c <= b * c
    cases       each minimum is one of its items; each `<>` is `<` or `>`; a quotient in a product is 0 or at least 1

Equalities between products that are still open are reduced by a Gröbner basis of the known ones.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from itertools import islice, product
from operator import attrgetter

from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget, OutOfBudget
from axon.shapes.algebra.counterexample import counterexample
from axon.shapes.algebra.divisibility import divides, divisibility
from axon.shapes.algebra.facts import Answer, Claim, Facts, claim_holds, claims_of
from axon.shapes.algebra.grid import seen
from axon.shapes.algebra.known import keep, known, question
from axon.shapes.algebra.polynomials import Ideal, exact_quotient, factors
from axon.shapes.algebra.refute import Refutation, lowest_terms
from axon.shapes.algebra.remainders import beside_all_sums, without_remainder
from axon.shapes.algebra.single import never
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Minimum, Quotient, atom_key, rebuilt
from axon.shapes.relation import Relation

__all__ = ["Answer", "Facts", "counterexample", "nonnegative", "positive", "prove", "reduced", "unsatisfiable"]

_STEPS = 2_500  # of one query
_QUERY = 8  # steps that one takes besides those of its search
_SATURATION = 400  # of a Gröbner basis
_MAX_FACTS = 48  # that one query looks at
_MAX_REDUCED = 200  # leaves of a Dim that is looked at for simplification
_FEW_FACTS = 10  # that it looks at before
_MAX_ALONE = 24  # facts that are looked at as the one that suffices
_MAX_ENDS = 6  # indices that are put where their ranges end
_FEW_ENDS = 3  # facts about an index that are looked at for its end
_MAX_DEPTH = 3  # of queries about signs inside queries
_AGE = attrgetter("id")  # of a variable
_UNLIMITED = 2**60  # steps, which are only counted


def prove(facts: Facts, relation: Relation) -> Answer:
    """Whether the relation holds, fails, or neither is shown, for all assignments that the facts admit and where it is defined."""
    try:
        claim: Claim = (relation.op if relation.op in ("=", "<>") else ">=", relation.slack)
    except DimensionTooLarge:
        return Answer.UNKNOWN
    return _Prover(facts).decide(claim)


def proves(facts: Facts, relation: Relation) -> bool:
    return prove(facts, relation) is Answer.PROVED


def nonnegative(facts: Facts, dim: Dim) -> bool:
    """Whether a Dim is known to be at least 0."""
    return _Prover(facts).at_least_zero(dim)


def positive(facts: Facts, dim: Dim) -> bool:
    """Whether a Dim is known to be at least 1."""
    return _Prover(facts).at_least_one(dim)


def unsatisfiable(facts: Facts, near: Iterable[Symbol] | None = None) -> bool:
    """Whether it is shown that no assignment satisfies the facts (or those connected with the variables `near`)."""
    if any(True for _ in facts.false()) or _plainly_unsatisfiable(facts.relations):
        return True
    prover = _Prover(facts, 4)
    left = set(facts.variables if near is None else near)
    connected: list[list[Claim]] = []
    found = 0
    while left and found < _STEPS:  # each costs at least a step
        variable = min(left, key=_AGE)
        claims = facts.relevant((variable,), 2 * _MAX_FACTS)
        left -= {variable}.union(*(p.variables for _, p in claims))
        connected.append(claims)
        found += len(claims)
    try:
        return any(
            not _satisfied(claims) and Refutation(prover, prover.budget).run(claims) for claims in sorted(connected, key=_weight)
        )
    except (OutOfBudget, DimensionTooLarge):
        return False


def plainly_satisfiable(relations: Iterable[Relation]) -> bool:
    """Whether one of a few assignments satisfies the relations."""
    return _satisfied([claim for r in relations for claim in claims_of(r)])


def _satisfied(claims: list[Claim]) -> bool:
    """Whether one of a few assignments satisfies the claims, which spares the search for a contradiction."""
    variables = sorted({v for _, p in claims for v in p.variables}, key=_AGE)
    for pool in _POOLS:
        values = {v: pool[i % len(pool)] for i, v in enumerate(variables)}
        with suppress(ZeroDivisionError):
            if all(claim_holds(claim, values) for claim in claims):
                return True
    return False


def _weight(claims: list[Claim]) -> int:
    return sum(p.weight for _, p in claims)


def _plainly_unsatisfiable(relations: Iterable[Relation]) -> bool:
    """Whether what is not linear cannot be: equations, or relations of one variable."""
    curved = [r for r in relations if r.slack.degree > 1 or r.slack.depth]
    if any(without_remainder(r.slack) or beside_all_sums(r.slack) for r in curved if r.op == "="):
        return True
    alone = {v for r in curved if len(r.variables) == 1 for v in r.variables}
    return any(never(v, [r for r in relations if r.variables == {v}]) for v in alone)


def reduced(facts: Facts, dim: Dim) -> Dim:
    """The Dim, simpler where the facts allow: (n * m) / m is n, h * (d / h) is d if h divides d, and min n m is n if n <= m."""
    return _reduced(dim, lambda: _Prover(facts))


def _reduced(dim: Dim, asked: Callable[[], _Prover]) -> Dim:
    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        whole = rebuilt(atom, lambda part: _reduced(part, asked))
        match whole.atom:
            case Quotient() as quotient:
                return lowest_terms(quotient, lambda part: asked().at_least_one(part))
            case Minimum(items):
                for item in items:
                    if all(asked().at_least_zero(other - item) for other in items if other is not item):
                        return item
        return whole

    if all(isinstance(atom, Symbol) for atom in dim.atoms) or dim.weight > _MAX_REDUCED:
        return dim
    dim = dim.rewrite(image)
    for atom in sorted(dim.atoms, key=atom_key):  # a size is written in one way
        if isinstance(atom, Quotient):
            split = dim.split(atom)
            factor = split and exact_quotient(split[0], atom.divisor)
            if split and factor and factor.mapping:
                itself = Dim({(atom,): 1})
                if asked().decide(("=", atom.dividend - atom.divisor * itself)) is Answer.PROVED:
                    dim = factor * atom.dividend + split[1]
    return dim


# ── cheap ways ──────────────────────────────────────────────────────────────────────────────────────────────────────────


_OPPOSITE = {Answer.PROVED: Answer.REFUTED, Answer.REFUTED: Answer.PROVED, Answer.UNKNOWN: Answer.UNKNOWN}
_POOLS = ((1,), (2,), (0,), (3, 5, 2, 7, 4, 11), (64, 32, 16, 8, 4, 2), (1, 4, 12, 48, 96), (2, 3, 6, 12, 24, 48), (7, 1, 9, 2))


_MAX_CORNERS = 4  # indices whose ends are tried together
_LARGEST, _APART = 2**40, 14  # the oldest size, and how many powers of 2 the next one is smaller


class _Prover:
    """One query: facts and what is left of its budget."""

    def __init__(self, facts: Facts, generosity: int = 1) -> None:
        self.facts = facts
        self.generosity = generosity
        self._budget: Budget | None = None
        self._local: dict[Claim, Answer] = {}
        self._depth = 0  # of queries about signs inside queries
        self._first = False  # whether nothing was asked before the query at hand

    @property
    def budget(self) -> Budget:
        if self._budget is None:  # most queries need none
            self._budget = Budget(self.generosity * _STEPS, self.facts.budget)
        return self._budget

    def decide(self, claim: Claim) -> Answer:
        kind, slack = claim
        if kind == ">=":
            constant = slack.constant
            trivial = None if constant is None else constant >= 0
        else:
            trivial = Relation(slack, kind, Dim.of(0)).trivial
        if trivial is not None:
            return Answer.PROVED if trivial else Answer.REFUTED
        if kind == "<>":
            return _OPPOSITE[self.decide(("=", slack))]
        known = self.facts.answers.get(claim) or self._local.get(claim)
        if known is None:
            if self._depth == 0:
                self._first = not self._local and self._budget is None
                if self.facts.budget is not None:
                    self.facts.budget.charge(_QUERY)
            self._local[claim] = Answer.UNKNOWN  # while it is being decided, which ends circles
            whole = self._budget
            if whole is not None:  # a query about a sign, inside another, may take only a part
                self._budget = whole.part(_STEPS // 8)
            self._depth += 1
            known = self._search(kind, slack)
            self._depth -= 1
            if whole is not None:
                self._budget = whole
            # What a nested query did not find, one of its own may.
            answers = self.facts.answers if known is not Answer.UNKNOWN or self._depth == 0 else self._local
            answers[claim] = known
        return known

    # ── signs ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def at_least_zero(self, dim: Dim) -> bool:
        return self.decide((">=", dim)) is Answer.PROVED

    def at_least_one(self, dim: Dim) -> bool:
        return self.decide((">=", dim - 1)) is Answer.PROVED

    def nonnegative_atom(self, atom: Atom) -> bool:
        """Whether it is at least 0, seen from its parts."""
        match atom:
            case Symbol():
                return True
            case Quotient(dividend, divisor):
                return self.at_least_one(divisor) and self.at_least_zero(dividend)
            case Minimum(items):
                return all(self.at_least_zero(item) for item in items)

    def _plainly_nonnegative(self, dim: Dim) -> bool:
        """Whether it is a sum of positive multiples of products of nonnegative atoms."""
        for c in dim.mapping.values():
            if c < 0:
                return False
        return not dim.compound or all(self.nonnegative_atom(a) for m in dim.mapping for a in m if not isinstance(a, Symbol))

    # ── the search ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _search(self, kind: str, slack: Dim) -> Answer:
        try:
            if kind == ">=":
                if self._plainly_nonnegative(slack) or self._follows_from_one(slack):
                    return Answer.PROVED
                below = (-slack).plus(1, -1)
                if self._plainly_nonnegative(below) or self._follows_from_one(below):
                    return Answer.REFUTED
                if self._at_ends(slack):
                    return Answer.PROVED
            if self._depth > _MAX_DEPTH:
                return Answer.UNKNOWN
            claims = self.facts.relevant(slack.variables, _MAX_FACTS)
            if self._depth == 1 and self._first and self._budget is None and len(claims) < _MAX_FACTS:
                return self._known(claims, (kind, slack))  # all that is connected with the claim
            return self._sought(claims, (kind, slack))
        except (OutOfBudget, DimensionTooLarge):
            pass
        return Answer.UNKNOWN

    def _known(self, claims: list[Claim], goal: Claim) -> Answer:
        """The answer to a question by itself, as it was found before, or sought."""
        facts = self.facts
        asked = question(goal, claims, self.generosity, facts.simplifying, facts.hides)
        found = known(asked)
        if found is not None:
            if facts.budget is not None:
                facts.budget.charge(found[1])
            return found[0]
        meter = Budget(_UNLIMITED, facts.budget)
        self.facts = facts.charged_to(meter)
        try:
            answer = self._sought(claims, goal)
        except (OutOfBudget, DimensionTooLarge):
            answer = Answer.UNKNOWN
        self.facts, self._budget = facts, None
        keep(asked, answer, _UNLIMITED - meter.left)
        return answer

    def _sought(self, claims: list[Claim], goal: Claim) -> Answer:
        kind, slack = goal
        can_hold, can_fail = _sampled(claims, goal)
        if not can_fail and (self._shown(claims, goal) or self._by_parts(kind, slack)):
            return Answer.PROVED
        if self._depth == 1:
            self._budget = None  # the other direction gets its own
            if not can_fail and self._otherwise(claims, goal):
                return Answer.PROVED
        if not can_hold and self._refutes(claims, goal):
            return Answer.REFUTED
        return Answer.UNKNOWN

    def _otherwise(self, claims: list[Claim], goal: Claim) -> bool:
        """What has not been seen and does not seem to fail: in simpler words, and without facts, which may be in the way."""
        kind, slack = goal
        if self.facts.simplifying:
            return False
        whole, self.facts.simplifying = self.budget, True
        self._budget = whole.part(_STEPS // 2)
        try:
            simpler = _reduced(slack, lambda: self)
            if simpler != slack and _Prover(self.facts).decide((kind, simpler)) is Answer.PROVED:
                return True
            return bool(claims) and self._shown([], goal)
        finally:
            self._budget, self.facts.simplifying = whole, False

    def _shown(self, claims: list[Claim], goal: Claim) -> bool:
        """Whether the goal's negation contradicts the claims."""
        kind, slack = goal
        try:
            if kind == ">=":
                return self._refutes(claims, (">=", -slack - 1))
            if _divides(claims, slack) or self._reduces_to_zero(claims, slack):
                return True
            return self._refutes(claims, (">=", slack - 1)) and self._refutes(claims, (">=", -slack - 1))
        except OutOfBudget:
            return False

    def _refutes(self, claims: list[Claim], goal: Claim) -> bool:
        """Whether the goal contradicts the claims; the first few are tried by themselves, since that is cheap."""
        few = claims[:_FEW_FACTS]
        refutation = Refutation(self, self.budget)
        if len(few) < len(claims) and refutation.run(few, goal):
            return True
        return self._without_quotients(claims, goal) or refutation.run(claims, goal)

    def _without_quotients(self, claims: list[Claim], goal: Claim) -> bool:
        """Whether a goal without quotients contradicts the claims without them: soon seen, where the others are in the way."""
        plain = [claim for claim in claims if not claim[1].quotients]
        if goal[1].quotients or len(plain) in (0, len(claims)):
            return False
        whole = self.budget
        self._budget = whole.part(_STEPS // 8)
        try:
            return Refutation(self, self._budget).run(plain, goal)
        except OutOfBudget:
            return False
        finally:
            self._budget = whole

    def _by_parts(self, kind: str, slack: Dim) -> bool:
        """Whether what is known of its one variable leaves no size that breaks it, or its factors show it, as of a square."""
        if len(slack.variables) == 1:
            (v,) = slack.variables
            alone = [Relation(p, k, Dim.of(0)) for k, p in self.facts.about((v,)) if p.variables == {v}]
            if never(v, [*alone, Relation(slack, kind, Dim.of(0)).negated]):
                return True
        each = Counter(factors(slack, self.budget)) if kind == ">=" and slack.terms[0][0] > 0 else {slack: 1}
        return each != {slack: 1} and all(count % 2 == 0 or self.at_least_zero(p) for p, count in each.items())

    def _follows_from_one(self, slack: Dim) -> bool:
        """Whether one fact p >= 0, with slack - p plainly nonnegative, suffices."""
        # It takes away what is negative: so it speaks of each variable of that, of which the rarest may be in few facts.
        near = sorted(slack.variables, key=_AGE)
        taken = [m[0] for m, c in slack.mapping.items() if c < 0 and len(m) == 1 and isinstance(m[0], Symbol)]
        if taken and len(near) > 1:
            near = [min(taken, key=lambda v: (self.facts.count(v), v.id))]
        most = len(slack.mapping) + 2
        for i, (kind, p) in enumerate(self.facts.about(near)):
            if i == _MAX_ALONE:
                return self.facts.says_at_least_zero(slack)
            if len(p.mapping) > most:
                continue
            if kind != "<>" and _covers(slack, p, 1) and self._plainly_nonnegative(slack - p):
                return True
            if kind == "=" and _covers(slack, p, -1) and self._plainly_nonnegative(slack + p):
                return True
            if kind == "<>" and self._plainly_nonnegative(slack - p + 1) and self._plainly_nonnegative(p):
                return True
        return False

    def _at_ends(self, slack: Dim) -> bool:
        """Whether it is seen with indices where their ranges end: each that lowers it, the youngest first, is put where a fact
        p >= 0 ends it, which takes a multiple of p away."""
        rest, put = slack, set[Symbol]()
        while len(put) < _MAX_ENDS:
            lowering = [m[0] for m, c in rest.mapping.items() if c < 0 and len(m) == 1 and isinstance(m[0], Symbol)]
            last = max((v for v in lowering if v not in put), key=_AGE, default=None)
            if last is None:
                break
            put.add(last)
            ends = (p for kind, p in islice(self.facts.about((last,)), _FEW_ENDS) if kind != "<>" and p.mapping.get((last,)) == -1)
            if (end := next(ends, None)) is not None:
                rest = rest.plus(end, rest.mapping[(last,)])
                if all(c >= 0 for c in rest.mapping.values()):
                    return self._plainly_nonnegative(rest)
        return rest is not slack and all(isinstance(a, Symbol) for a in rest.atoms) and self._follows_from_one(rest)

    def _reduces_to_zero(self, claims: list[Claim], slack: Dim) -> bool:
        """Whether slack = 0 follows from the known equalities as polynomials."""
        known = [p for kind, p in claims if kind == "="]
        if not known or max(p.degree for p in (slack, *known)) < 2:
            return False
        if any(slack.plain_quotient(p) is not None for p in known):  # a multiple of one of them
            return True
        ideal = Ideal(known, [slack], Budget(_SATURATION, self.facts.budget))
        return ideal.consequence(slack, self.budget) is not None


def _covers(slack: Dim, p: Dim, sign: int) -> bool:
    """Whether slack - sign * p has no negative coefficient: seen without making it."""
    given, less = slack.mapping, p.mapping
    for m, c in less.items():
        if c * sign > given.get(m, 0):
            return False
    return all(c >= 0 or m in less for m, c in given.items())


def _divides(claims: list[Claim], slack: Dim) -> bool:
    """Whether slack = 0 is a divisibility that the claims add up to."""
    wanted = divisibility(Relation(slack, "=", Dim.of(0)))
    if wanted is None:
        return False
    equal = [Relation(p, "=", Dim.of(0)) for kind, p in claims if kind == "="]
    known = [(r.left, divisibility(r)) for r in equal]
    return divides(*wanted, [found for _, found in known if found], [p for p, found in known if not found])


def _sampled(claims: list[Claim], goal: Claim) -> tuple[bool, bool]:
    """Whether the goal was seen to hold, and to fail, at assignments that satisfy the claims."""
    variables = sorted(goal[1].variables.union(*[p.variables for _, p in claims]), key=_AGE)
    can_hold, can_fail = _at_corners(claims, goal, variables) if claims else (False, False)
    if can_hold and can_fail:
        return True, True
    bounded = [v for v in variables if any(kind == ">=" and p.mapping.get((v,), 0) < 0 for kind, p in claims)]
    for least in (False, True) if bounded else (False,):
        for pool in _POOLS:
            values = {v: pool[i % len(pool)] for i, v in enumerate(variables)}
            if least:  # what has an upper bound, such as an index, is 0
                values.update(dict.fromkeys(bounded, 0))
            try:
                holds = claim_holds(goal, values)
                if (can_hold if holds else can_fail) or not all(claim_holds(claim, values) for claim in claims):
                    continue
            except ZeroDivisionError:
                continue
            can_hold, can_fail = can_hold or holds, can_fail or not holds
            if can_hold and can_fail:
                return True, True
    holds, fails = seen(claims, goal, tuple(variables))  # thousands of assignments
    return can_hold or holds, can_fail or fails


def _at_corners(claims: list[Claim], goal: Claim, variables: list[Symbol]) -> tuple[bool, bool]:
    """The same where sizes are far apart, the older ones the larger, or the oldest as small as facts let it be, and each index is
    at one of the ends of its range: in a chain of windows, `d - 100 * r + 99` of them, nothing is found among small sizes."""
    least = [p for kind, p in claims if kind == ">="]
    last: dict[Symbol, list[Dim]] = {}  # of an index, how far it may be from each of its ends
    for p in least:
        own = p.pattern[1]
        if own and p.mapping.get(own[-1:]) == -1:
            last.setdefault(own[-1], []).append(p)
    sizes = {v for own, ends in last.items() for p in ends for v in p.variables if v != own}
    sizes |= {m[0] for p in least for m, c in p.mapping.items() if c < -1 and len(m) == 1 and isinstance(m[0], Symbol)}
    indices = [v for v in variables if v in last and v not in sizes]
    if len(indices) > _MAX_CORNERS:
        return False, False
    others = [v for v in variables if v not in indices]
    of_sizes, of_indices = list[Claim](), list[Claim]()
    for claim in claims:
        (of_sizes if claim[1].variables.isdisjoint(indices) else of_indices).append(claim)
    far_apart = {v: max(_LARGEST >> _APART * i, 1) for i, v in enumerate(others)}
    can_hold = can_fail = False
    for small in (False, True) if others else (False,):
        admitted: bool | None = None  # whether the sizes are those of facts
        for corner in product((False, True), repeat=len(indices)):
            values = {**far_apart, **dict.fromkeys(indices, 0)}
            try:
                if small:
                    oldest = others[0]
                    values[oldest] = 0
                    below = (p for p in least if p.mapping.get((oldest,)) == 1 and p.variables.isdisjoint(indices))
                    values[oldest] = max((0, *(-p.evaluate(values) for p in below)))
                for v, at_end in zip(indices, corner, strict=True):
                    if at_end:
                        values[v] = max(min(p.evaluate(values) for p in last[v]), 0)
                holds = claim_holds(goal, values)
                if can_hold if holds else can_fail:
                    continue
                if admitted is None:
                    admitted = all(claim_holds(claim, values) for claim in of_sizes)
                if not admitted or not all(claim_holds(claim, values) for claim in of_indices):
                    continue
            except ZeroDivisionError:
                continue
            can_hold, can_fail = can_hold or holds, can_fail or not holds
            if can_hold and can_fail:
                return True, True
    return can_hold, can_fail
