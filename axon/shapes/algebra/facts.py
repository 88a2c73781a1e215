"""Facts: what is assumed about variables, indexed by variable."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from enum import Enum
from heapq import merge
from itertools import chain, islice
from operator import attrgetter, itemgetter
from typing import Any, TypeAlias

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
    if not relation.left.compound and not relation.right.compound:
        return tuple(claims)
    divisors = {q.divisor for q in relation.left.quotients | relation.right.quotients if q.divisor.constant is None}
    claims += [("<>", divisor) for divisor in sorted(divisors, key=lambda d: d.sort_key)]  # a search within a budget sees the order
    return tuple(claims)


class _Log:
    """The claims of a growing chain of Facts, which share one log as long as each extends the newest.

    One that branches off an older one, as each question does that assumes something for itself, shares what that one had: its log
    goes on where the stretches `before` end.
    """

    __slots__ = ("by_relation", "by_variable", "claims", "first_claim", "first_relation", "owners", "relations", "strongest")

    def __init__(self, before: tuple[_Stretch, ...] = ()) -> None:
        self.first_relation = sum(s.relations for s in before)
        self.first_claim = sum(s.claims for s in before)
        self.relations: list[Relation] = []
        self.claims: list[Claim] = []
        self.owners: list[int] = []  # which relation makes each claim
        self.by_variable: dict[Symbol, list[int]] = {}  # these and the next in ascending order, counted from the first of all logs
        self.by_relation: dict[Relation, list[int]] = {}
        self.strongest: _Strongest | None = None  # of many claims; made when it is asked

    def add(self, relation: Relation, claims: Iterable[Claim] | None = None) -> None:
        number = self.first_relation + len(self.relations)
        self.by_relation.setdefault(relation, []).append(number)
        self.relations.append(relation)
        if claims is None:
            try:
                claims = claims_of(relation)
            except DimensionTooLarge:
                return  # nothing is lost but what it would prove
        for claim in claims:
            here = self.first_claim + len(self.claims)
            for variable in claim[1].variables:
                self.by_variable.setdefault(variable, []).append(here)
            if not claim[1].variables and Relation(claim[1], claim[0], Dim.of(0)).trivial is False:
                self.by_variable.setdefault(_NOWHERE, []).append(here)
            self.claims.append(claim)
            self.owners.append(number)


class _Strongest:
    """Of the claims p >= 0 and p = 0 of a log that differ by a number alone, the one that says most: p >= 0 says p + 1 >= 0."""

    def __init__(self) -> None:
        self._looked_at = 0
        self._least: dict[Dim, tuple[list[int], list[int]]] = {}  # of each p without its number: of which claims on, and the number

    def least(self, log: _Log, form: Dim, end: int) -> int | None:
        """The least number c for which a claim of the log before `end` says that form + c is at least 0."""
        for n, (kind, p) in enumerate(islice(log.claims, self._looked_at, None), log.first_claim + self._looked_at):
            if kind != "<>":
                self._put(p - p.offset, n, p.offset)
            if kind == "=":
                self._put(p.offset - p, n, -p.offset)
        self._looked_at = len(log.claims)
        claims, numbers = self._least.get(form, ((), ()))
        at = bisect_left(claims, end)
        return numbers[at - 1] if at else None

    def _put(self, form: Dim, claim: int, number: int) -> None:
        claims, numbers = self._least.setdefault(form, ([], []))
        if not numbers or number < numbers[-1]:
            claims.append(claim)
            numbers.append(number)


class _Stretch:
    """So many relations and claims from the start of a log."""

    __slots__ = ("claims", "log", "relations")

    def __init__(self, log: _Log, relations: int, claims: int) -> None:
        self.log, self.relations, self.claims = log, relations, claims

    @property
    def end(self) -> int:
        """The number of the claim after its last one."""
        return self.log.first_claim + self.claims


def _joined(stretches: tuple[_Stretch, ...]) -> tuple[_Stretch, ...]:
    """The same claims in stretches each of which is longer than the next: they are few, and each claim is copied few times."""
    found = [*stretches]
    while len(found) > 1 and found[-1].relations >= found[-2].relations:
        last, second = found.pop(), found.pop()
        log = _Log(tuple(found))
        for stretch in (second, last):
            claims: dict[int, list[Claim]] = {}
            for owner, claim in zip(stretch.log.owners[: stretch.claims], stretch.log.claims, strict=False):
                claims.setdefault(owner, []).append(claim)
            for n, relation in enumerate(stretch.log.relations[: stretch.relations], stretch.log.first_relation):
                log.add(relation, claims.get(n, ()))
        found.append(_Stretch(log, len(log.relations), len(log.claims)))
    return tuple(found)


class Found:
    """Answers by questions. Where hardly any question is asked again, only one of eight is looked for: to say what it is costs a
    tenth of the answer."""

    __slots__ = ("_answers", "_passed", "_worth")

    def __init__(self) -> None:
        self._answers: dict[Hashable, Any] = {}
        self._worth = _PATIENCE  # the more, the more often an answer was known
        self._passed = 0

    @property
    def idle(self) -> bool:
        """Whether the next question is better not looked for."""
        if self._worth > 0:
            return False
        self._passed += 1
        return self._passed % 8 != 0

    def get(self, asked: Hashable) -> Any:
        """The answer; None if it is not known."""
        answer = self._answers.get(asked)
        self._worth = self._worth - 1 if answer is None else min(self._worth + 4, 2 * _PATIENCE)
        return answer

    def keep(self, asked: Hashable, answer: Any) -> None:
        self._answers[asked] = answer


_PATIENCE = 50  # questions
_AGE = attrgetter("id")  # of a variable
_NUMBER = itemgetter(0)  # of a numbered claim
_NOWHERE = Symbol("false", 0)  # under it stand the claims that are false whatever the variables are


class Facts:
    """An immutable set of relations. Every variable is at least 0."""

    __slots__ = ("_found", "_hidden", "_parts", "answers", "budget", "equations", "simplifying")

    _found: dict[str, Found]  # by the kind of question; made when it is first asked for

    def __init__(self, budget: Budget | None = None) -> None:
        """No facts. What is asked about them and about those that are added is charged to the budget."""
        self._set((_Stretch(_Log(), 0, 0),), budget)

    def _set(self, parts: tuple[_Stretch, ...], budget: Budget | None, hidden: frozenset[int] = frozenset()) -> None:
        self._parts = parts  # the last in a log that may grow
        self.budget = budget
        self._hidden = hidden  # relations, by number, that are not assumed here
        self.answers: dict[Claim, Answer] = {}  # of earlier queries; the prover's
        self.equations: object = None  # the solver's, for substitution
        self.simplifying = False  # the prover simplifies a claim, and asks about its parts

    @property
    def relations(self) -> tuple[Relation, ...]:
        all_ = (r for part in self._parts for r in part.log.relations[: part.relations])
        return tuple(all_) if not self._hidden else tuple(r for i, r in enumerate(all_) if i not in self._hidden)

    def assume(self, *relations: Relation) -> Facts:
        """These facts and more."""
        new = [r for r in relations if r.trivial is not True or r.left.quotients or r.right.quotients]
        if not new:
            return self
        if self._hidden:
            return Facts(self.budget).assume(*self.relations, *new)
        last = self._parts[-1]
        before, log = self._parts[:-1], last.log
        if len(log.relations) != last.relations:  # others have made it longer
            before = self._parts = _joined(self._parts)
            log = _Log(before)
        for relation in new:
            log.add(relation)
        return _facts((*before, _Stretch(log, len(log.relations), len(log.claims))), self.budget)

    def charged_to(self, budget: Budget) -> Facts:
        """These facts, where questions are charged to a budget, and by it to that of these."""
        facts = _facts(self._parts, budget, self._hidden)
        facts.answers, facts.simplifying = self.answers, self.simplifying
        return facts

    def without(self, relation: Relation) -> Facts:
        """These facts except one."""
        numbers = (n for part in self._parts for n in part.log.by_relation.get(relation, ()))
        return _facts(self._parts, self.budget, self._hidden.union(numbers))

    def index(self, symbol: Symbol, extent: Dim) -> Facts:
        """These facts and 0 <= symbol < extent."""
        return self.assume(Relation(Dim.of(symbol), "<", extent))

    def found(self, kind: str) -> Found:
        """What was found under these facts of questions of a kind, by what was asked (see `questions`)."""
        try:
            all_ = self._found
        except AttributeError:
            all_ = self._found = {}
        found = all_.get(kind)
        if found is None:
            found = all_[kind] = Found()
        return found

    def mentions(self, variable: Symbol) -> bool:
        """Whether a claim speaks of a variable."""
        return any(part.log.by_variable.get(variable) for part in self._parts) and self.count(variable) > 0

    @property
    def hides(self) -> bool:
        """Whether these are others' facts except some."""
        return bool(self._hidden)

    # ── for the prover ──────────────────────────────────────────────────────────────────────────────────────────────────

    def about(self, variables: Iterable[Symbol]) -> Iterator[Claim]:
        """The claims that mention one of the variables."""
        seen: set[int] = set()
        for variable in variables:
            for part in self._parts:
                log = part.log
                numbers = log.by_variable.get(variable)
                if numbers is None:
                    continue
                end, first = part.end, log.first_claim
                for i in numbers:
                    if i >= end:
                        break
                    if i not in seen and not (self._hidden and log.owners[i - first] in self._hidden):
                        seen.add(i)
                        yield log.claims[i - first]

    def _mentioning(self, variable: Symbol) -> Iterator[tuple[int, Claim]]:
        """The claims that mention a variable, with their numbers, which ascend."""
        for part in self._parts:
            log, end = part.log, part.end
            for i in log.by_variable.get(variable, ()):
                if i >= end:
                    break
                at = i - log.first_claim
                if not self._hidden or log.owners[at] not in self._hidden:
                    yield i, log.claims[at]

    def count(self, variable: Symbol) -> int:
        """How many claims mention a variable, the hidden ones too."""
        count = 0
        for part in self._parts:
            if (numbers := part.log.by_variable.get(variable)) is not None:
                count += bisect_left(numbers, part.end)
        return count

    def says_at_least_zero(self, slack: Dim) -> bool:
        """Whether one claim p >= 0 or p = 0 says it whose difference to it is a number: found at once among many."""
        if self._hidden:
            return False
        form = slack - slack.offset
        for part in self._parts:
            if part.log.strongest is None:
                part.log.strongest = _Strongest()
            least = part.log.strongest.least(part.log, form, part.end)
            if least is not None and least <= slack.offset:
                return True
        return False

    def false(self) -> Iterator[Claim]:
        """The claims that are false whatever the variables are."""
        return self.about((_NOWHERE,))

    def relevant(self, variables: Iterable[Symbol], limit: int) -> list[Claim]:
        """The claims connected with the variables, the closest first; also each one that is plainly false.

        Where already those that mention one of the variables are too many, the claims of those that few mention come first: how far
        an index runs, before all that is known of a size.
        """
        found: list[Claim] = [*self.false()]
        seen: set[int] = set()
        reached = set(variables)
        edge = sorted(reached, key=_AGE)
        if len(found) + sum(map(self.count, edge)) > limit:
            rare = [v for v in edge if self.count(v) <= limit // 4]
            for i, claim in merge(*map(self._mentioning, rare), key=_NUMBER):
                if i not in seen:
                    seen.add(i)
                    found.append(claim)
        while edge and len(found) < limit:
            layer: list[Claim] = []
            for i, claim in self._in_order(edge, limit, len(seen)):
                if i not in seen:
                    seen.add(i)
                    layer.append(claim)
                    if len(found) + len(layer) == limit:  # there may be many more
                        return found + layer
            found += layer
            edge = sorted({v for _, p in layer for v in p.variables} - reached, key=_AGE)
            reached.update(edge)
        return found[:limit]

    def _in_order(self, variables: Sequence[Symbol], few: int, known: int) -> Iterable[tuple[int, Claim]]:
        """The claims that mention one of some variables, by their numbers, which ascend; if there are many, at least so few more
        than are known."""
        if len(variables) == 1:
            return self._mentioning(variables[0])
        every: Iterable[Iterable[tuple[int, Claim]]] = map(self._mentioning, variables)
        if sum(map(self.count, variables)) > 2 * few:  # the first of all are among the first of each
            every = [islice(each, few + known) for each in every]
        return sorted(chain.from_iterable(every), key=_NUMBER)

    @property
    def variables(self) -> frozenset[Symbol]:
        return frozenset(v for relation in self.relations for v in relation.variables)


def _facts(parts: tuple[_Stretch, ...], budget: Budget | None, hidden: frozenset[int] = frozenset()) -> Facts:
    facts = Facts.__new__(Facts)
    facts._set(parts, budget, hidden)
    return facts


def claim_holds(claim: Claim, values: Mapping[Symbol, int]) -> bool:
    """Whether a claim holds for these values. ZeroDivisionError where it is undefined."""
    value = claim[1].evaluate(values)
    return value >= 0 if claim[0] == ">=" else (value == 0) == (claim[0] == "=")
