"""Obligations: what is proved, what is wrong, and what is asked of every call instead.

Note [Worst case]
    An obligation that cannot be proved as it stands is put into the contract without its indices: each is replaced by the end of
    its range that is worst for the relation. Of what that comes to, nothing is asked that the conditions around it say, or that no
    range around it is empty: `x[i / (p + q)]` over i < q divides by 0 nowhere; and where a condition on sizes stands around it,
    only that it holds where that does: `if k <= n then x[k]` needs k <> n. Where an index cannot be eliminated so, conditions say
    more of it than its ends, or no one fact says what is needed, nothing is claimed here: lowering proves what it can again, and
    compares the others with their sizes at run time.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence

from axon.base.data import dataclass, field, replace
from axon.base.names import Symbol
from axon.shapes.algebra.divisibility import inequalities
from axon.shapes.algebra.form import divisors
from axon.shapes.algebra.prove import Answer, Facts, prove, proves
from axon.shapes.algebra.questions import form
from axon.shapes.constraint import NOWHERE, Context, Obligation, Reason, Use
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, variables_of
from axon.shapes.relation import Relation
from axon.shapes.solving.reach import Reach, only_where
from axon.shapes.solving.simplify import normal
from axon.shapes.solving.sizes import SettledSizes, contradict, impossible, not_negative
from axon.shapes.solving.trouble import Refuted, TooLarge, Trouble, Unprovable

_ZERO, _ONE = Dim.of(0), Dim.of(1)
_MAX_APART = 4  # conditions that something is not a size which are taken apart


@dataclass(slots=True)
class Judged:
    """What obligations come to, other than proved: wrong, owed by the declaration around, or asked of every call.

    `of_accesses`: what only accesses ask.
    """

    troubles: list[Trouble] = field(default_factory=list)
    owed: list[Obligation] = field(default_factory=list)
    asked: list[tuple[Relation, Reason]] = field(default_factory=list)
    of_accesses: frozenset[Relation] = frozenset()


def prove_obligations(
    sizes: SettledSizes, owed: Iterable[Obligation], said: Iterable[Relation], rangeless: frozenset[Symbol]
) -> Judged:
    """Judge the obligations of a declaration, of its accesses, and those `owed` by what solved it, where `said` holds.

    Accesses by indices that have no range are not looked at.
    """
    return _Judge(sizes).run(owed, said, rangeless)


class _Judge:
    def __init__(self, sizes: SettledSizes) -> None:
        self.s = sizes
        self.p = sizes.problem
        self.out = Judged()

    def run(self, owed: Iterable[Obligation], said: Iterable[Relation], rangeless: frozenset[Symbol]) -> Judged:
        uses = (u for u in self.s.uses if not u.padded and not u.index.variables & rangeless and not self._bare(u))
        plain, divided = self.s.bounds()
        facts = self.s.facts.assume(*plain, *said)
        of_data = facts.assume(*divided)
        doubted: list[tuple[Obligation, Facts, list[Trouble]]] = []
        by_accesses = 0
        for obligation in (*self.p.obligations, *owed, *(o for use in uses for o in _inside(use))):
            by_accesses = by_accesses if obligation.use else len(self.out.asked)
            base = of_data if self._about_data(obligation) else facts
            try:
                self._judge(obligation, base)
            except DimensionTooLarge:
                self.out.troubles.append(TooLarge(obligation.reason))
            if self.out.troubles:
                doubted.append((obligation, base, self.out.troubles))
                self.out.troubles = []
        blamed: set[int] = set()
        bases = [base for _, base, _ in doubted]
        asked, asked_of_data = (self._with_what_is_asked(b) if any(b is base for base in bases) else None for b in (facts, of_data))
        for obligation, base, troubles in doubted:
            at = obligation.reason.span.start
            if at not in blamed and not self._follows(obligation, asked_of_data if base is of_data else asked):
                self.out.troubles += troubles
                blamed.add(at)
        others = {r for r, _ in self.out.asked[:by_accesses]}
        self.out.of_accesses = frozenset(r for r, _ in self.out.asked[by_accesses:] if r not in others)
        self._prove_promised(facts)
        return self.out

    def _with_what_is_asked(self, base: Facts) -> Facts | None:
        """Facts and what is asked of every call; None if nothing is, or if that cannot be."""
        known = (*(r for r, _ in self.out.asked), *(o.relation for o in self.out.owed))
        return base.assume(*known) if known and not contradict(known, base) else None

    def _follows(self, obligation: Obligation, asked: Facts | None) -> bool:
        """Whether what could not be is proved by what is asked of every call, without it. See Note [Doubtful equations]."""
        if asked is None:
            return False
        before, self.out = self.out, Judged()
        try:
            self._judge(obligation, asked)
            return not (self.out.troubles or self.out.asked or self.out.owed)
        except DimensionTooLarge:
            return False
        finally:
            self.out = before

    def _prove_promised(self, facts: Facts) -> None:
        """A size of the result is one in every call, also where what makes it stands in a range that is empty."""
        passed = (Relation(size, ">=", _ZERO) for size in map(self.s.now, self.p.passed) if not size.variables & self.p.data)
        known = facts.assume(*(r for r in passed if r.trivial is None), *(r for r, _ in self.out.asked))
        told = {self.s.relation(o.relation).slack: o.reason for o in reversed(self.p.obligations)} if self.p.promised else {}
        for dim, span in self.p.promised:
            size = self.s.now(dim)
            if size.variables & self.p.data:
                continue
            divisors = sorted((q.divisor for q in size.quotients if q.divisor.constant is None), key=lambda d: d.sort_key)
            for relation in (*(Relation(d, ">=", _ONE) for d in divisors), not_negative(size)):
                if not proves(known, relation):
                    reason = told.get(relation.slack, Reason(span, "a size of the result cannot be negative: {}"))
                    self.out.asked += said_in_parts(relation, reason)
                    known = known.assume(relation)

    def _about_data(self, obligation: Obligation) -> bool:
        context = obligation.context
        relations = [self.s.relation(r) for r in (obligation.relation, *context.guards)]
        sizes = frozenset[Symbol]().union(*(r.variables for r in relations), *(self.s.now(e).variables for _, e in context.indices))
        return bool(sizes & self.p.data)

    def _bare(self, use: Use) -> bool:
        """Whether an access is by an index that runs over just this dimension: nothing to prove."""
        symbol = use.index.symbol
        extent = next((e for s, e in use.context.indices if s == symbol), None)
        return extent is not None and self.s.now(extent) == self.s.now(use.target)

    def _judge(self, obligation: Obligation, base: Facts) -> None:
        relation = self.s.relation(obligation.relation)
        if relation.trivial is True:
            return
        context = obligation.context
        proved = base.found("proved")
        key = None if context.guards or obligation.sized or proved.idle else self._form(relation, context, base)
        if key is not None and proved.get(key):
            return  # as it was of other indices
        facts = base
        if context.indices or context.guards:
            guards = [self.s.relation(g) for g in context.guards]
            mentioned = relation.variables.union(*(g.variables for g in guards))
            for symbol, extent in ((symbol, self.s.now(extent)) for symbol, extent in context.indices):
                if obligation.sized and symbol not in mentioned:
                    continue  # a slice is asked for its ends also where a range is empty
                if all(q.divisor != relation.slack + 1 for q in extent.quotients):  # else it would say so itself: d >= 1
                    facts = facts.index(symbol, extent)
            facts = facts.assume(*guards)
        divided = sorted((d for d in divisors(relation) if not d.variables & self.p.data), key=lambda d: d.sort_key)
        if proves(facts.assume(*(Relation(d, ">=", _ONE) for d in divided)), relation):  # which is asked wherever something divides
            if key is not None:
                proved.keep(key, True)
            return
        reach = self.s.reach(context)
        ranges = reach.ranges
        if relation.op in ("=", "<>") and relation.variables & ranges.keys():
            return
        if obligation.use is not None and (cases := self._cases(obligation)) and prove(facts, relation) is not Answer.REFUTED:
            self._judge_cases(cases, base)
            return
        within, slack = reach.solved(relation.slack)
        reached = Relation(slack, ">=", _ZERO) if slack != relation.slack else relation
        worst = _worst(reached, within)
        of_data = worst is not None and bool(worst.variables & self.p.data)
        if (obligation.subject or obligation.sized) and worst is not None and of_data and not proves(facts, worst):
            self.out.troubles.append(Unprovable(obligation, worst))
            return
        if worst is None or worst.variables & self.p.data or worst.variables & ranges.keys():
            return  # see Note [Worst case]
        if worst.trivial is True or proves(base, worst):
            return
        if context.doubtful and obligation.use is not None:
            return  # while running, accesses are compared with their sizes; sizes and contracts are compared with nothing
        around = within.conditions(reached)
        if around is None and obligation.use is not None:
            return
        never = obligation.use is not None and prove(facts, relation) is Answer.REFUTED  # inside, wherever it is evaluated
        if never or impossible(base, worst, around or ()):
            indices = slack.variables & within.ranges.keys()
            troubled = any(variables_of(q) & indices for g in within.guards for q in g.slack.quotients)
            if never or not troubled:  # `if i % w < w - 1` may keep away from the end that is reached without it
                self.out.troubles.append(self._refuted(obligation, worst, reach))
            return
        asked: list[tuple[Relation, Reason]] = []
        if obligation.use is None:
            for part, why in said_in_parts(worst, obligation.reason):
                known = within.of_sizes() if around is None else around  # one fact may say too much
                asked += said_in_parts(self._only_where(known, part, base, sized=True) or part, why)
        elif (needed := self._only_where(around, worst, base, sized=False)) is not None:
            asked = said_in_parts(needed, obligation.reason)
        if worst.variables <= self.p.outer and self.p.outer:
            self.out.owed += [Obligation(part, NOWHERE, why) for part, why in asked]
        else:
            self.out.asked += [part for part in asked if obligation.sized or not proves(facts, part[0])]

    def _form(self, relation: Relation, context: Context, base: Facts) -> Hashable | None:
        """What is asked of a relation between indices, up to the names of these."""
        extents = [self.s.now(extent) for _, extent in context.indices]
        asked = form([symbol for symbol, _ in context.indices], [relation.left, relation.right, *extents], base)
        return None if asked is None else (relation.op, asked)

    def _only_where(self, around: Sequence[Relation] | None, relation: Relation, base: Facts, sized: bool) -> Relation | None:
        """What is asked of sizes alone, if that can be said; see `only_where`."""
        needed = only_where(around or (), relation, base, sized)
        return None if needed is None or needed.variables & self.p.data else needed

    def _cases(self, obligation: Obligation) -> list[Obligation]:
        """Under a condition that an index is not some size: that it is below, and that it is above."""
        context = obligation.context
        indices = {symbol for symbol, _ in context.indices}
        apart = next((g for g in context.guards if g.op == "<>" and self.s.relation(g).variables & indices), None)
        if apart is None or sum(g.op == "<>" for g in context.guards) > _MAX_APART:
            return []
        others = tuple(g for g in context.guards if g is not apart)
        sides = (Relation(apart.left, op, apart.right) for op in "<>")
        return [replace(obligation, context=replace(context, guards=(*others, side))) for side in sides]

    def _judge_cases(self, cases: Sequence[Obligation], base: Facts) -> None:
        """What one side alone makes impossible, and what takes more than one fact to say, is looked at while running."""
        troubles, asked = len(self.out.troubles), len(self.out.asked)
        asking = 0
        for case in cases:
            before = len(self.out.asked)
            self._judge(case, base)
            asking += len(self.out.asked) > before
        del self.out.troubles[troubles:]
        if asking > 1:
            del self.out.asked[asked:]

    def _refuted(self, obligation: Obligation, worst: Relation, reach: Reach) -> Refuted:
        use = obligation.use
        if use is None:
            return Refuted(obligation, worst)
        reached = reach.extreme(self.s.now(use.index), upper=obligation.relation.op == "<")
        ends = tuple((s, e) for s, e in reach.ranges.items() if s in use.index.variables)
        return Refuted(obligation, worst, reached, self.s.now(use.target), ends)


def said_in_parts(relation: Relation, reason: Reason) -> list[tuple[Relation, Reason]]:
    """A relation as a contract says it: what a minimum has together is taken apart before its divisions are."""
    whole = normal(relation) if any(isinstance(a, Minimum) for a in relation.slack.atoms) else (relation,)
    return [(part, why) for each in whole for r, why in inequalities(each, reason) for part in normal(r)]


def _inside(use: Use) -> tuple[Obligation, ...]:
    what = f"{use.axis} of `{use.base}`"
    low = Reason(use.span, f"this index of {what} can be negative: it needs {{}}")
    high = Reason(use.span, f"this index can pass the end of {what}: it needs {{}}")
    return (
        Obligation(Relation(use.index, ">=", _ZERO), use.context, low, use),
        Obligation(Relation(use.index, "<", use.target), use.context, high, use),
    )


def _worst(relation: Relation, reach: Reach) -> Relation | None:
    """The relation in its worst case over the indices, which are gone from it."""
    if not relation.variables & reach.ranges.keys():
        return relation
    slack = reach.extreme(relation.slack, upper=False)
    return None if slack is None else Relation(slack, ">=", _ZERO)
