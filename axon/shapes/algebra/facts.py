"""Facts: what is assumed about variables, indexed by variable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import TypeAlias

from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget
from axon.shapes.dimension import Dim, DimensionTooLarge
from axon.shapes.relation import Relation


class Answer(Enum):
    PROVED = "proved"
    REFUTED = "refuted"
    UNKNOWN = "unknown"


Claim: TypeAlias = "tuple[str, Dim]"  # ("=", p): p = 0; (">=", p): p >= 0; ("<>", p): p <> 0


def claims_of(relation: Relation) -> tuple[Claim, ...]:
    """What a fact says, and what its being defined says: a divisor is not 0."""
    kind = relation.op if relation.op in ("=", "<>") else ">="
    claims: list[Claim] = [(kind, relation.slack)]
    divisors = {q.divisor for q in relation.left.quotients | relation.right.quotients if q.divisor.constant is None}
    claims += [("<>", divisor) for divisor in sorted(divisors, key=lambda d: d.sort_key)]  # a search within a budget sees the order
    return tuple(claims)


class _Log:
    """The claims of a growing chain of Facts, which share one log as long as each extends the newest."""

    __slots__ = ("by_relation", "by_variable", "claims", "owners", "relations")

    def __init__(self, relations: Iterable[Relation] = ()) -> None:
        self.relations: list[Relation] = []
        self.claims: list[Claim] = []
        self.owners: list[int] = []  # which relation makes each claim
        self.by_variable: dict[Symbol, list[int]] = {}
        self.by_relation: dict[Relation, list[int]] = {}
        for relation in relations:
            self.add(relation)

    def add(self, relation: Relation) -> None:
        self.by_relation.setdefault(relation, []).append(len(self.relations))
        self.relations.append(relation)
        try:
            claims = claims_of(relation)
        except DimensionTooLarge:
            return  # nothing is lost but what it would prove
        for claim in claims:
            for variable in claim[1].variables:
                self.by_variable.setdefault(variable, []).append(len(self.claims))
            if not claim[1].variables and Relation(claim[1], claim[0], Dim.of(0)).trivial is False:
                self.by_variable.setdefault(_NOWHERE, []).append(len(self.claims))
            self.claims.append(claim)
            self.owners.append(len(self.relations) - 1)


_NOWHERE = Symbol("false", 0)  # under it stand the claims that are false whatever the variables are


class Facts:
    """An immutable set of relations. Every variable is at least 0."""

    __slots__ = ("_claims", "_hidden", "_length", "_log", "answers", "budget", "equations", "simplifying")

    def __init__(self, budget: Budget | None = None) -> None:
        """No facts. What is asked about them and about those that are added is charged to the budget."""
        self._set(_Log(), budget)

    def _set(self, log: _Log, budget: Budget | None, hidden: frozenset[int] = frozenset()) -> None:
        self._log = log
        self._length = len(log.relations)
        self._claims = len(log.claims)
        self.budget = budget
        self._hidden = hidden  # relations of the log that are not assumed here
        self.answers: dict[Claim, Answer] = {}  # of earlier queries; the prover's
        self.equations: object = None  # the solver's, for substitution
        self.simplifying = False  # the prover simplifies a claim, and asks about its parts

    @property
    def relations(self) -> tuple[Relation, ...]:
        return tuple(r for i, r in enumerate(self._log.relations[: self._length]) if i not in self._hidden)

    def assume(self, *relations: Relation) -> Facts:
        """These facts and more."""
        new = [r for r in relations if r.trivial is not True or r.left.quotients or r.right.quotients]
        if not new:
            return self
        log = self._log
        if len(log.relations) != self._length or self._hidden:
            log = _Log(self.relations)
        for relation in new:
            log.add(relation)
        return _facts(log, self.budget)

    def charged_to(self, budget: Budget) -> Facts:
        """These facts, where questions are charged to a budget, and by it to that of these."""
        facts = _facts(self._log, budget, self._hidden)
        facts._length, facts._claims = self._length, self._claims
        facts.answers = self.answers
        return facts

    def without(self, relation: Relation) -> Facts:
        """These facts except one."""
        log, hidden = self._log, self._hidden
        if len(log.relations) != self._length:  # others have made it longer
            log, hidden = _Log(self.relations), frozenset()
        return _facts(log, self.budget, hidden.union(log.by_relation.get(relation, ())))

    def index(self, symbol: Symbol, extent: Dim) -> Facts:
        """These facts and 0 <= symbol < extent."""
        return self.assume(Relation(Dim.of(symbol), "<", extent))

    # ── for the prover ──────────────────────────────────────────────────────────────────────────────────────────────────

    def about(self, variables: Iterable[Symbol]) -> Iterator[Claim]:
        """The claims that mention one of the variables."""
        seen: set[int] = set()
        for variable in variables:
            for i in self._mentioning(variable):
                if i not in seen:
                    seen.add(i)
                    yield self._log.claims[i]

    def _mentioning(self, variable: Symbol) -> Iterator[int]:
        for i in self._log.by_variable.get(variable, ()):
            if i < self._claims and self._log.owners[i] not in self._hidden:
                yield i

    def false(self) -> Iterator[Claim]:
        """The claims that are false whatever the variables are."""
        return self.about((_NOWHERE,))

    def relevant(self, variables: Iterable[Symbol], limit: int) -> list[Claim]:
        """The claims connected with the variables, the closest first; also each one that is plainly false."""
        found: list[Claim] = [*self.false()]
        seen: set[int] = set()
        reached = set(variables)
        edge = sorted(reached, key=lambda v: v.id)
        while edge and len(found) < limit:
            layer = sorted({i for v in edge for i in self._mentioning(v)} - seen)
            seen.update(layer)
            found += [self._log.claims[i] for i in layer]
            edge = sorted({v for i in layer for v in self._log.claims[i][1].variables} - reached, key=lambda v: v.id)
            reached.update(edge)
        return found[:limit]

    @property
    def variables(self) -> frozenset[Symbol]:
        return frozenset(v for relation in self.relations for v in relation.variables)


def _facts(log: _Log, budget: Budget | None, hidden: frozenset[int] = frozenset()) -> Facts:
    facts = Facts.__new__(Facts)
    facts._set(log, budget, hidden)
    return facts


def claim_holds(claim: Claim, values: Mapping[Symbol, int]) -> bool:
    """Whether a claim holds for these values. ZeroDivisionError where it is undefined."""
    value = claim[1].evaluate(values)
    return value >= 0 if claim[0] == ">=" else (value == 0) == (claim[0] == "=")
