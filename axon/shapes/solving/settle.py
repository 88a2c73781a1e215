"""Stage two for one declaration: find the ranges of its indices, solve its equations, prove its obligations.

What comes in is what stage one collected; what goes out is a substitution, the facts that become the contract, and the problems as
data, which `explain` words. Each step has its file: `ranges`, `solve`, `obligations` and `simplify`.

Note [Equations in contracts]
    An equation that is left is part of the contract in two cases: it says that something divides something, `h * (d / h) = d` or
    `n % 4 = 1`; or it speaks of a size that nobody named, which each call decides. Any other is one between sizes that the user
    named apart. What all its terms share is not looked at, for it could only be 0: `s * (c / 2) = s` is `c / 2 = 1`, also where
    nobody named s. A contract of a called function is judged in the same way, and so are equations that several inequalities make.

Note [Doubtful equations]
    Before an equation between sizes is refused it is tried with all that the contract asks, wherever in the text that is asked:
    `4 * (n / 4) = 6 * (n / 6)` follows from n % 4 = 0 and n % 6 = 0, which called functions need. Nothing circular comes of it:
    the doubtful equation is set aside, unknown to all that is judged before it; so what proves it was not dropped for its sake, and
    stands in the contract, whose facts are all asked of every call. Obligations are tried again in the same way. What is asked must
    itself be possible, also with the sizes that the user named apart: `n <= m` and `m <= n` are no reason for n = m.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol
from axon.shapes.algebra.alike import exchanged
from axon.shapes.algebra.divisibility import divisibilities, is_divisibility
from axon.shapes.algebra.form import divisors
from axon.shapes.algebra.prove import Facts, plainly_satisfiable, proves, reduced, unsatisfiable
from axon.shapes.constraint import NOWHERE, Context, Equal, Obligation, Problem, Reason
from axon.shapes.dimension import Dim, DimensionTooLarge, atom_key
from axon.shapes.relation import Relation
from axon.shapes.solving.equations import cancelled
from axon.shapes.solving.named import forced, same_roots
from axon.shapes.solving.obligations import prove_obligations, said_in_parts
from axon.shapes.solving.ranges import find_ranges
from axon.shapes.solving.simplify import independent, normal
from axon.shapes.solving.sizes import SettledSizes, contradict, impossible
from axon.shapes.solving.trouble import Clash, Hopeless, TooLarge, Trouble
from axon.shapes.solving.unsatisfiable import core

_ZERO, _ONE = Dim.of(0), Dim.of(1)


@dataclass(slots=True)
class Outcome:
    solved: dict[Symbol, Dim] = field(default_factory=dict)
    contract: list[tuple[Relation, Reason]] = field(default_factory=list)
    floating: list[Equal] = field(default_factory=list)  # equations between sizes of the declaration around
    owed: list[Obligation] = field(default_factory=list)  # and obligations on those
    equals: tuple[Equal, ...] = ()  # all that was solved, also for ranges
    troubles: list[Trouble] = field(default_factory=list)


def settle(problem: Problem) -> Outcome:
    """Solve a declaration's constraints on sizes."""
    return _Settler(problem).run()


def simpler(dim: Dim, facts: Iterable[Relation]) -> Dim:
    """A size as short as facts allow: h * (d / h) is d where d % h = 0."""
    return reduced(Facts().assume(*facts), dim) if any(not isinstance(a, Symbol) for a in dim.atoms) else dim


@dataclass(frozen=True, slots=True)
class _Doubt:
    """An equation, needed where `given` holds, that is a conflict unless what is asked of every call says it."""

    clash: Clash
    given: tuple[Relation, ...] = ()


class _Settler:
    def __init__(self, problem: Problem) -> None:
        self.p = problem
        self.s = SettledSizes(problem)
        self.out = Outcome()
        self.doubts: list[_Doubt] = []
        self.lifted: list[Clash] = []  # those that hold by what is asked of every call

    def run(self) -> Outcome:
        try:
            found = find_ranges(self.s)
        except DimensionTooLarge:
            heaviest = max(self.s.equals, key=lambda e: e.left.weight + e.right.weight)
            self.out.troubles.append(TooLarge(heaviest.reason))
            return self.out
        self.out.troubles += found.unknown
        owed = (*found.owed, *self._conclude())
        rangeless = frozenset(u.range.symbol for u in found.unknown)
        judged = prove_obligations(self.s, owed, (r for r, _ in self.out.contract), rangeless)
        if self.doubts:  # see Note [Doubtful equations]
            asked = (*(r for r, _ in (*self.out.contract, *judged.asked)), *(o.relation for o in judged.owed))
            self._judge_doubts(tuple(dict.fromkeys(asked)), judged.of_accesses)
        self.out.troubles += judged.troubles
        self.out.owed += judged.owed
        if not self.out.troubles:  # a declaration with errors has no contract
            self._contract(judged.asked)
            if self.lifted and any(isinstance(t, Hopeless) for t in self.out.troubles):
                self.out.troubles = [*self.lifted]
            if (more := self._made_equal()) and not self.out.troubles:
                return settle(replace(self.p, equals=(*self.p.equals, *more)))
        self.out.equals = tuple(self.s.equals)
        return self.out

    def _conclude(self) -> list[Obligation]:
        """Sort what the equations leave: solved, contradictory, for the contract, for the declaration around, or to be proved."""
        owed: list[Obligation] = []
        self.out.solved = dict(self.s.solution.substitution)
        wrong: list[tuple[Equal, ...]] = []
        for conflict in self.s.solution.conflicts:
            equals = tuple(_equals(conflict.reasons))
            wrong.append(equals)
            data = conflict.relation.variables & self.p.data
            self.out.troubles.append(self._clash(equals, conflict.relation, "data" if data else "conflict"))
        for residual in self.s.solution.residual:
            relation = residual.relation
            equals = tuple(_equals(residual.reasons))
            if any(conflict and all(e in equals for e in conflict) for conflict in wrong):
                continue  # n = 0, where n = 2 * n is refused
            variables = relation.variables
            if variables & self.p.data:
                self._doubt(equals, relation, "data", residual.given)
            elif variables and variables <= self.p.outer:
                self.out.floating.append(Equal(relation.left, relation.right, equals[-1].reason))
            elif self._open(relation) or self._says_divisors(relation):
                owed += self._keep(relation, self._told(equals))
            else:
                self._doubt(equals, relation, "named", residual.given)
        within = {r.extent.symbol: r.context for r in self.p.ranges}
        telling = sum(1 << n for n, equal in enumerate(self.s.equals) if _tells(equal))
        for condition in self.s.solution.conditions:
            relation = condition.relation
            last = _equal(condition.last())
            told = (_equal(condition.last(telling)) or last or self.s.equals[-1]).reason
            if relation.variables & self.p.data and relation.op == ">=" and last:  # a size that was solved for
                owed.append(Obligation(relation, NOWHERE, last.reason, sized=True))
            elif relation.variables & self.p.data:
                self._doubt(tuple(_equals(condition.reasons)), relation, "data")
            elif condition.guarded and condition.of <= within.keys() and last:  # how far indices run, under conditions
                for v in sorted(condition.of, key=lambda v: v.id):
                    owed += self._size_within(relation, within[v], told)
            elif relation.op == ">=" and impossible(self.s.facts, relation):
                reason = (last or self.s.equals[-1]).reason
                owed.append(Obligation(relation, NOWHERE, Reason(reason.span, "a size cannot be negative: {}")))
            else:
                owed += self._keep(relation, told)
        return owed

    def _open(self, relation: Relation) -> bool:
        """Whether a contract may say an equation. See Note [Equations in contracts]."""
        equation = Relation(cancelled(relation.slack), "=", _ZERO)
        return bool(equation.variables & self.s.free()) or is_divisibility(equation)

    def _says_divisors(self, relation: Relation) -> bool:
        """Whether an equation holds wherever nothing in it is divided by 0: n / n = 1."""
        divisors = sorted((q for q in relation.slack.quotients if q.divisor.constant is None), key=atom_key)
        return bool(divisors) and proves(self.s.facts.assume(*(Relation(q.divisor, ">=", _ONE) for q in divisors)), relation)

    def _clash(self, equals: tuple[Equal, ...], relation: Relation, kind: str) -> Clash:
        return Clash(equals, relation, kind, around=tuple(self.s.equals))

    def _doubt(self, equals: tuple[Equal, ...], relation: Relation, kind: str, given: tuple[Relation, ...] = ()) -> None:
        self.doubts.append(_Doubt(self._clash(equals, relation, kind), given))

    def _judge_doubts(self, asked: tuple[Relation, ...], of_accesses: Collection[Relation]) -> None:
        """Refuse the equations that do not follow from what is asked of every call, and say no divisibility beside that either."""
        told = tuple(r for r in asked if r not in of_accesses)  # which the same mistake may have made
        known = self.s.facts.assume(*self.s.bounds()[0])
        known = known if contradict(asked, known) else known.assume(*asked)
        for doubt in self.doubts:
            clash, relation = doubt.clash, doubt.clash.relation
            if proves(known.assume(*doubt.given), relation):
                self.lifted.append(replace(clash, asked=told))
                continue
            shorter = Relation(reduced(known, relation.left), "=", reduced(known, relation.right))
            if clash.kind == "named" and shorter != relation and not shorter.variables <= self.p.outer and self._open(shorter):
                self._keep(shorter, self._told(clash.equals))
                self.lifted.append(replace(clash, asked=told))
                known = known.assume(shorter)
            else:
                self.out.troubles.append(replace(clash, asked=told))

    def _keep(self, relation: Relation, reason: Reason) -> list[Obligation]:
        """Put a relation into the contract; one between sizes of the declaration around is for that to prove."""
        if relation.variables <= self.p.outer:
            return [Obligation(relation, NOWHERE, reason)]
        self.out.contract.append((relation, reason))
        return []

    def _size_within(self, relation: Relation, context: Context, told: Reason) -> Iterator[Obligation]:
        """That a size is one, and that its divisors are at least 1, where a context's conditions hold."""
        span = told.sides[-1].span if told.sides else told.span
        for divisor in sorted(divisors(relation), key=lambda d: d.sort_key):
            yield Obligation(Relation(divisor, ">=", _ONE), context, Reason(span, "the divisor must be at least 1: {}"), sized=True)
        yield Obligation(relation, context, Reason(span, "a size cannot be negative: {}"), sized=True)

    def _told(self, equals: tuple[Equal, ...]) -> Reason:
        """The reason that says why a relation must hold."""
        told = [e for e in equals if _tells(e)]
        return (told or equals or self.s.equals)[-1].reason

    def _contract(self, asked: list[tuple[Relation, Reason]]) -> None:
        """Simplify the facts, with the user's own in front, and see that sizes exist that satisfy them."""
        stated = [(self.s.relation(r), reason) for r, reason in self.p.assumed if not r.variables & self.p.data]
        stated = [x for r, reason in stated for x in divisibilities(r, reason)]
        found = [*(part for r, reason in self.out.contract for part in said_in_parts(r, reason)), *asked]
        reasons: dict[Relation, Reason] = {}
        for relation, reason in [*((part, why) for r, why in stated for part in normal(r)), *found]:
            reasons.setdefault(relation, reason)
        made: dict[Relation, Relation] = {}
        kept = independent(reasons, Facts(), made)
        self.out.contract = [(r, self._reason(r, reasons, made)) for r in kept]
        if kept and not plainly_satisfiable(kept) and unsatisfiable(Facts().assume(*exchanged(kept)[0])):
            self.out.troubles.append(Hopeless(tuple((r, reasons[r]) for r in core(reasons))))
            return
        only = forced(kept, reasons.__contains__, self.s.free(), self.p.outer | self.p.data, self.s.facts) if found else None
        if only is not None:  # what is stated alone is meant
            told = [(r, reason) for r, reason in reasons.items() if r.op != "=" and only.variables <= r.variables]
            sides = [(r, reason) for r, reason in told if r in kept or r.left in (only.left, -only.left)]
            told = sides if len(sides) > 1 else told
            shorter = ((Relation(cancelled(r.slack), ">=", _ZERO) if r.op == ">=" else r, reason) for r, reason in told)
            self.out.troubles.append(Hopeless(tuple(shorter), only))

    def _made_equal(self) -> list[Equal]:
        """Sizes that inequalities make equal, n <= m and m <= n, where one is free to be solved for; also p of p * p = k * k."""
        free = set(self.p.flexible) - self.out.solved.keys()
        found = [
            Equal(r.left, r.right, reason)
            for r, reason in self.out.contract
            if r.op == "=" and any((split := r.slack.linear_in(v)) and split[0].constant in (1, -1) for v in r.variables & free)
        ]
        equations = {r: reason for r, reason in self.out.contract if r.op == "="}
        found += [Equal(Dim.of(v), Dim.of(w), equations[r]) for v, w, r in same_roots(equations, free, self.s.free())]
        asked = {(e.left, e.right) for e in self.s.equals}
        return [e for e in found if (e.left, e.right) not in asked]

    @staticmethod
    def _reason(relation: Relation, reasons: dict[Relation, Reason], made: dict[Relation, Relation]) -> Reason:
        """Why a relation must hold, also of one that was made of others: because of one of those."""
        seen: set[Relation] = set()
        while relation not in reasons and relation in made and relation not in seen:
            seen.add(relation)
            relation = made[relation]
        speaking = (reason for r, reason in reasons.items() if relation.variables <= r.variables)
        return reasons[relation] if relation in reasons else next(speaking, next(iter(reasons.values())))


def _equals(reasons: Iterable[object]) -> Iterator[Equal]:
    return (r for r in reasons if isinstance(r, Equal))


def _equal(reason: object | None) -> Equal | None:
    return reason if isinstance(reason, Equal) else None


def _tells(equal: Equal) -> bool:
    """Whether an equation says why a relation must hold that follows from it and others."""
    return len(equal.reason.sides) == 2 and not equal.reason.sides[0].text.endswith("must run to {}")
