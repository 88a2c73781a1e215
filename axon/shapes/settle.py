"""Stage two for one declaration: find the ranges of its indices, solve its equations, prove its obligations.

What comes in is what stage one collected; what goes out is a substitution, the facts that become the contract, and the problems as
data, which `explain` words. The priority of what decides a range is the language's (docs/reference.md, section 9):

1. a stated bound;                 2. unguarded bare uses, `a[i]`, which must agree;
3. the declared result;            4. unguarded affine uses in which the index is the only unknown, `a[s * i + r]`;
5. guarded bare uses, which must agree.

Note [Worst case]
    An obligation that cannot be proved as it stands is put into the contract without its indices: each is replaced by the end of
    its range that is worst for the relation. Of what that comes to, nothing is asked that the conditions around it say, or that no
    range around it is empty: `x[i / (p + q)]` over i < q divides by 0 nowhere; and where a condition on sizes stands around it,
    only that it holds where that does: `if k <= n then x[k]` needs k <> n. Where an index cannot be eliminated so, conditions say
    more of it than its ends, or no one fact says what is needed, nothing is claimed here: lowering proves what it can again, and
    compares the others with their sizes at run time.

Note [Equations in contracts]
    An equation that is left is part of the contract in two cases: it says that something divides something, `h * (d / h) = d` or
    `n % 4 = 1`; or it speaks of a size that nobody named, which each call decides. Any other is one between sizes that the user
    named apart. What all its terms share is not looked at, for it could only be 0: `s * (c / 2) = s` is `c / 2 = 1`, also where
    nobody named s. A contract of a called function is judged in the same way, and so are equations that several inequalities make.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from axon.names import Symbol
from axon.shapes.alike import exchanged
from axon.shapes.constraint import NOWHERE, Context, Equal, Obligation, Range, Reason, Side, Stretch, Use
from axon.shapes.core import core
from axon.shapes.cycles import made_equal
from axon.shapes.dimension import Dim, DimensionTooLarge, Minimum, atom_key, variables_of
from axon.shapes.divisibility import divisibilities, inequalities, is_divisibility
from axon.shapes.given import given
from axon.shapes.named import forced, same_roots
from axon.shapes.prove import Answer, Facts, prove, reduced, unsatisfiable
from axon.shapes.reach import Reach, only_where
from axon.shapes.relation import Relation
from axon.shapes.simplify import in_order, independent, normal
from axon.shapes.solve import Equation, Solution, cancelled, solve
from axon.source import Span

_ZERO, _ONE = Dim.of(0), Dim.of(1)


@dataclass(frozen=True, slots=True)
class Problem:
    """What stage one collected for a declaration. `flexible` may be solved for; `outer` belongs to a declaration around it."""

    equals: tuple[Equal, ...]
    stretches: tuple[Stretch, ...]
    ranges: tuple[Range, ...]
    uses: tuple[Use, ...]
    obligations: tuple[Obligation, ...]
    assumed: tuple[tuple[Relation, Reason], ...]  # the user's `where`, and bounds of sizes that only data decide
    flexible: tuple[Symbol, ...]
    outer: frozenset[Symbol]
    data: frozenset[Symbol]  # sizes that only the data decide
    resolve: Callable[[Dim], Dim]  # puts in what earlier declarations solved
    kept: frozenset[Symbol] = frozenset()  # of `flexible`: the sizes that parameters have by themselves
    loose: frozenset[Symbol] = frozenset()  # those that inference made up, for indices: see Note [Degenerate]
    passed: tuple[Dim, ...] = ()  # sizes of parameters
    promised: tuple[tuple[Dim, Span], ...] = ()  # sizes of the result, and what it is made by


@dataclass(frozen=True, slots=True)
class Clash:
    """Equations that cannot hold together, and what they boil down to."""

    equals: tuple[Equal, ...]
    relation: Relation
    kind: str  # "conflict" | "named" (sizes the user named would have to be equal) | "data" (decided by data)
    again: tuple[Span, ...] = ()  # other places at which the same is wrong
    around: tuple[Equal, ...] = field(default=(), compare=False, repr=False)  # all equations of the declaration


@dataclass(frozen=True, slots=True)
class Unknown:
    """An index whose range nothing decides. `candidates` are ranges that affine uses ask for, if there are several."""

    range: Range
    candidates: tuple[Dim, ...] = ()


@dataclass(frozen=True, slots=True)
class Refuted:
    """An obligation that cannot hold."""

    obligation: Obligation
    relation: Relation
    reach: Dim | None = None  # of an access: the index that it reaches
    size: Dim | None = None
    ends: tuple[tuple[Symbol, Dim], ...] = ()  # the extents of the indices in it
    also: tuple[Refuted, ...] = ()  # the same access, in its other dimensions


@dataclass(frozen=True, slots=True)
class Unprovable:
    """A contract on a size that only the data decide: it can neither be proved nor be checked at entry."""

    obligation: Obligation
    relation: Relation


@dataclass(frozen=True, slots=True)
class Hopeless:
    """Facts of the contract that no sizes satisfy together; or only those with an equation between sizes that the user named."""

    facts: tuple[tuple[Relation, Reason], ...]
    only: Relation | None = None


@dataclass(frozen=True, slots=True)
class TooLarge:
    reason: Reason


Trouble = Clash | Unknown | Refuted | Unprovable | Hopeless | TooLarge


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


class _Settler:
    def __init__(self, problem: Problem) -> None:
        self.p = problem
        self.out = Outcome()
        self.equals = [replace(e, left=problem.resolve(e.left), right=problem.resolve(e.right)) for e in problem.equals]
        self.uses = [
            Use(problem.resolve(u.index), problem.resolve(u.target), u.context, u.span, u.base, u.axis, u.padded)
            for u in problem.uses
        ]
        assumed, _ = given((r for r, _ in problem.assumed), problem.data, problem.resolve, frozenset(problem.flexible))
        self.facts = Facts().assume(*in_order(assumed), *(equation for equation, _ in made_equal(assumed)))
        self.solution = Solution({}, (), (), ())
        self.solved = 0  # how many equations the solution is of
        self.stretches = list(problem.stretches)
        self.known: set[Symbol] = set()  # indices whose range is decided
        self.order = list(problem.flexible)  # what is solved for: the last first
        self.asked: list[tuple[Relation, Reason]] = []  # by obligations, for the contract

    def run(self) -> Outcome:
        try:
            self._ranges()
        except DimensionTooLarge:
            self._blame_size()
            return self.out
        self._conclude()
        self._prove_obligations()
        if not self.out.troubles:  # a declaration with errors has no contract
            self._contract()
            if (more := self._made_equal()) and not self.out.troubles:
                return settle(replace(self.p, equals=(*self.p.equals, *more)))
        self.out.equals = tuple(self.equals)
        return self.out

    def _blame_size(self) -> None:
        heaviest = max(self.equals, key=lambda e: e.left.weight + e.right.weight)
        self.out.troubles.append(TooLarge(heaviest.reason))

    # ── ranges ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ranges(self) -> None:
        open_ = [r for r in self.p.ranges if not r.stated]
        self.known = {r.symbol for r in self.p.ranges if r.stated}
        by_index: dict[Symbol, list[Use]] = {r.symbol: [] for r in open_}
        for use in self.uses:
            for symbol in use.index.variables:
                if symbol in by_index:
                    by_index[symbol].append(use)
        for r in open_:
            bare = [u for u in by_index[r.symbol] if u.index.symbol == r.symbol and not _guarded(u, r)]
            if bare:
                self._agree(r, [*bare, *(u for u in by_index[r.symbol] if u.index.symbol == r.symbol and _by_data(u, r, bare))])
            elif r.declared is not None:
                self._decide(
                    r, self.p.resolve(r.declared), Reason(r.span, f"the declared result gives the range of `{r.symbol.name}`")
                )
        self._solve()
        decide = (
            self._stretch,
            lambda: self._equate(self._settled(open_)),
            lambda: self._affine_ranges(open_, by_index),
            lambda: self._guarded_ranges(open_, by_index),
            lambda: self._equate(self.stretches),
        )
        while any(step() for step in decide):  # the first that finds something, then from the start with what follows from it
            self._solve()
        self.out.troubles.extend(Unknown(r) for r in open_ if r.symbol not in self.known)

    def _affine_ranges(self, ranges: list[Range], uses: dict[Symbol, list[Use]]) -> bool:
        waiting = [r for r in ranges if r.symbol not in self.known]
        decided = [self._affine(r, uses[r.symbol], waiting) for r in waiting if self._ready(uses[r.symbol])]
        return any(decided)

    def _guarded_ranges(self, ranges: list[Range], uses: dict[Symbol, list[Use]]) -> bool:
        found = False
        for r in ranges:
            bare = [u for u in uses[r.symbol] if u.index.symbol == r.symbol]
            if r.symbol not in self.known and bare and self._ready(uses[r.symbol]):
                self._agree(r, bare)
                found = True
        return found

    def _ready(self, uses: list[Use]) -> bool:
        """Whether what an index runs over has sizes that no broadcasting has still to decide."""
        open_ = {s.out for s in self.stretches}
        return not open_ or not any(self._now(u.target).variables & open_ for u in uses)

    def _agree(self, r: Range, uses: Iterable[Use]) -> None:
        """Bare uses of one index: all the dimensions it runs over are equal."""
        name = r.symbol.name
        first: Use | None = None
        for use in uses:
            here = Side(use.span, f"{use.axis} of `{use.base}` is {{}}", use.base)
            if first is None:
                whole = Side(r.span, f"`{name}` must run to {{}}")
                self.equals.append(
                    Equal(r.extent, use.target, Reason(use.span, f"`{name}` runs over this", (whole, here)), use.context)
                )
                first = use
                continue
            there = Side(first.span, f"{first.axis} of `{first.base}` is {{}}", first.base)
            text = f"`{name}` has one range, so what it indexes must have one size"
            self.equals.append(Equal(first.target, use.target, Reason(use.span, text, (there, here)), use.context))
        self.known.add(r.symbol)

    def _decide(self, r: Range, extent: Dim, reason: Reason) -> None:
        self.equals.append(Equal(r.extent, extent, reason, r.context))
        self.known.add(r.symbol)

    def _affine(self, r: Range, uses: list[Use], waiting: list[Range]) -> bool:
        """Decide a range by the affine uses in which it is the only unknown."""
        unknown = {w.symbol for w in waiting if w.symbol not in self.known} - {r.symbol}
        candidates: list[tuple[Dim, Use]] = []
        for use in uses:
            if _guarded(use, r) or use.padded or use.index.symbol == r.symbol or use.index.variables & unknown:
                continue
            extent = self._largest(r.symbol, use)
            if extent is not None:
                candidates.append((self._now(extent), use))
        if not candidates:
            return False
        least = next((c for c in candidates if all(self._proved(Relation(c[0], "<=", o), self.facts) for o, _ in candidates)), None)
        if least is None:
            self.out.troubles.append(Unknown(r, tuple(dict.fromkeys(c for c, _ in candidates))))
            self.known.add(r.symbol)
            return True
        extent, use = least
        if r.extent.symbol in self.order:  # a computed range has no name to give to other sizes
            self.order.remove(r.extent.symbol)
            self.order.append(r.extent.symbol)
        text = f"the largest range of `{r.symbol.name}` that stays inside `{use.base}`"
        self._decide(r, extent, Reason(use.span, text))
        need = f"`{use.base}` must be large enough for this: {{}}"
        self.out.owed.append(Obligation(self._not_negative(extent), r.context, Reason(use.span, need), sized=True))
        return True

    @staticmethod
    def _not_negative(extent: Dim) -> Relation:
        """extent >= 0; of `q / s + c` without the division: q >= -c * s."""
        for quotient in extent.quotients:
            rest = extent - quotient.dividend // quotient.divisor
            if rest.constant is not None:
                return Relation(quotient.dividend, ">=", -rest * quotient.divisor)
        return Relation(extent, ">=", _ZERO)

    def _largest(self, symbol: Symbol, use: Use) -> Dim | None:
        """The extent of an index for which an access just stays inside: from c * i + rest <= target - 1 in the worst case."""
        split = use.index.linear_in(symbol)
        if split is None:
            return None
        c, rest = split
        reach = self._reach(use.context)
        if c.constant is not None and c.constant < 0:
            low = reach.extreme(rest, upper=False)
            return None if low is None else low // -c + 1
        high = reach.extreme(rest, upper=True)
        if high is None or c.variables & reach.ranges.keys():
            return None
        if c.constant is None:
            text = f"the coefficient of `{symbol.name}` must be positive: {{}}"
            self.out.owed.append(Obligation(Relation(c, ">=", _ONE), use.context, Reason(use.span, text)))
        room = self._now(use.target) - 1 - high
        return room + 1 if c == _ONE else room // c + 1

    def _reach(self, context: Context) -> Reach:
        """How far what stands in a context reaches, by what is known now."""
        guards = tuple(self._relation(g) for g in context.guards)
        return Reach(self.facts, {s: self._now(e) for s, e in context.indices}, guards, bool(context.conditions))

    # ── equations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def _solve(self) -> None:
        if self.solved == len(self.equals):
            return
        self.solved = len(self.equals)
        system = [Equation(e.left, e.right, e, self._guards(e.context)) for e in self.equals]
        self.solution = solve(system, self.order, self.facts, self.p.kept, loose=self.p.loose)

    def _guards(self, context: Context) -> tuple[Relation, ...]:
        """What the conditions around something say, and of the indices that they mention, how far those run."""
        guards = [Relation(self.p.resolve(g.left), g.op, self.p.resolve(g.right)) for g in context.guards]
        mentioned = frozenset[Symbol]().union(*(g.variables for g in guards))
        indices = [Relation(Dim.of(s), "<", self.p.resolve(e)) for s, e in context.indices if s in mentioned]
        return (*guards, *indices)

    def _now(self, dim: Dim) -> Dim:
        return self.p.resolve(dim).substitute(self.solution.substitution)

    def _stretch(self) -> bool:
        """A dimension stretches only if it is known to be 1 after all equalities."""
        decided: list[Stretch] = []
        for s in self.stretches:
            left, right = self._now(s.left), self._now(s.right)
            out = right if self._is_one(left) else left if self._is_one(right) or left == right else None
            if out is not None:
                self.equals.append(Equal(Dim.of(s.out), out, Reason(s.reason.span, s.reason.text), s.context))
                decided.append(s)
        self.stretches = [s for s in self.stretches if s not in decided]
        return bool(decided)

    def _settled(self, ranges: list[Range]) -> list[Stretch]:
        """The stretches whose sizes depend on no range that is still to be found: not known to be 1 now, they will not be."""
        open_ = frozenset[Symbol]().union(*(self._now(r.extent).variables for r in ranges if r.symbol not in self.known))
        settled = self.stretches
        while open_:
            blocked = [s for s in settled if (self._now(s.left).variables | self._now(s.right).variables) & open_]
            if not blocked:
                break
            settled = [s for s in settled if s not in blocked]
            open_ = frozenset(s.out for s in blocked)
        return settled

    def _equate(self, stretches: list[Stretch]) -> bool:
        """Dimensions that do not stretch are equal: all at once, for none makes another one 1."""
        for s in stretches:
            self.equals.append(Equal(self.p.resolve(s.left), self.p.resolve(s.right), s.reason, s.context))
            # What comes out is neither side that the reason speaks of.
            self.equals.append(Equal(Dim.of(s.out), self.p.resolve(s.left), Reason(s.reason.span, s.reason.text), s.context))
        self.stretches = [s for s in self.stretches if s not in stretches]
        return bool(stretches)

    def _is_one(self, dim: Dim) -> bool:
        return dim == _ONE or (dim.constant is None and self._proved(Relation(dim, "=", _ONE), self.facts))

    def _conclude(self) -> None:
        """Sort what the equations leave: solved, contradictory, for the contract, or for the declaration around."""
        self.out.solved = dict(self.solution.substitution)
        for conflict in self.solution.conflicts:
            equals = tuple(r for r in conflict.reasons if isinstance(r, Equal))
            data = conflict.relation.variables & self.p.data
            self._clash(equals, conflict.relation, "data" if data else "conflict")
        for relation, reasons in self.solution.residual:
            equals = tuple(r for r in reasons if isinstance(r, Equal))
            variables = relation.variables
            if variables & self.p.data:
                self._clash(equals, relation, "data")
            elif variables and variables <= self.p.outer:
                self.out.floating.append(Equal(relation.left, relation.right, equals[-1].reason))
            elif self._open(relation) or self._says_divisors(relation):
                self._keep(relation, equals)
            else:
                self._clash(equals, relation, "named")
        for relation, reasons in self.solution.conditions:
            equals = tuple(r for r in reasons if isinstance(r, Equal))
            if relation.variables & self.p.data and relation.op == ">=" and equals:  # a size that was solved for
                self.out.owed.append(Obligation(relation, NOWHERE, equals[-1].reason, sized=True))
            elif relation.variables & self.p.data:
                self._clash(equals, relation, "data")
            elif relation.op == ">=" and self._impossible(relation, self.facts):
                reason = (equals or self.equals)[-1].reason
                self.out.owed.append(Obligation(relation, NOWHERE, Reason(reason.span, "a size cannot be negative: {}")))
            else:
                self._keep(relation, equals)

    def _open(self, relation: Relation) -> bool:
        """Whether a contract may say an equation. See Note [Equations in contracts]."""
        equation = Relation(cancelled(relation.slack), "=", _ZERO)
        return bool(equation.variables & self._free()) or is_divisibility(equation)

    def _says_divisors(self, relation: Relation) -> bool:
        """Whether an equation holds wherever nothing in it is divided by 0: n / n = 1."""
        divisors = sorted((q for q in relation.slack.quotients if q.divisor.constant is None), key=atom_key)
        return bool(divisors) and self._proved(relation, self.facts.assume(*(Relation(q.divisor, ">=", _ONE) for q in divisors)))

    def _free(self) -> frozenset[Symbol]:
        """The sizes that nobody named for this declaration."""
        return self.p.outer.union(self.p.flexible, self.p.data)

    def _clash(self, equals: tuple[Equal, ...], relation: Relation, kind: str) -> None:
        self.out.troubles.append(Clash(equals, relation, kind, around=tuple(self.equals)))

    def _keep(self, relation: Relation, equals: tuple[Equal, ...]) -> None:
        told = [e for e in equals if len(e.reason.sides) == 2 and not e.reason.sides[0].text.endswith("must run to {}")]
        reason = (told or equals or self.equals)[-1].reason
        if relation.variables <= self.p.outer:
            self.out.owed.append(Obligation(relation, NOWHERE, reason))
        else:
            self.out.contract.append((relation, reason))

    # ── obligations ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _proved(self, relation: Relation, facts: Facts) -> bool:
        return prove(facts, relation) is Answer.PROVED

    def _prove_obligations(self) -> None:
        owed, self.out.owed = self.out.owed, []
        broken = {t.range.symbol for t in self.out.troubles if isinstance(t, Unknown)}
        for use in self.uses:
            if not use.padded and not use.index.variables & broken and not self._bare(use):
                owed.extend(self._inside(use))
        bounds = (r for r, _ in self.p.assumed if r.variables & self.p.data)
        plain, divided = given(bounds, self.p.data, self._now, frozenset(self.p.flexible))  # in terms of what is solved
        facts = self.facts.assume(*plain, *(r for r, _ in self.out.contract))
        of_data = facts.assume(*divided)
        blamed: set[int] = set()
        for obligation in [*self.p.obligations, *owed]:
            if obligation.reason.span.start in blamed:
                continue
            before = len(self.out.troubles)
            try:
                self._judge(obligation, of_data if self._about_data(obligation) else facts)
            except DimensionTooLarge:
                self.out.troubles.append(TooLarge(obligation.reason))
            if len(self.out.troubles) > before:
                blamed.add(obligation.reason.span.start)
        self._prove_promised(facts)

    def _prove_promised(self, facts: Facts) -> None:
        """A size of the result is one in every call, also where what makes it stands in a range that is empty."""
        passed = (Relation(size, ">=", _ZERO) for size in map(self._now, self.p.passed) if not size.variables & self.p.data)
        known = facts.assume(*(r for r in passed if r.trivial is None), *(r for r, _ in self.asked))
        told = {self._relation(o.relation).slack: o.reason for o in reversed(self.p.obligations)} if self.p.promised else {}
        for dim, span in self.p.promised:
            size = self._now(dim)
            if size.variables & self.p.data:
                continue
            divisors = sorted((q.divisor for q in size.quotients if q.divisor.constant is None), key=lambda d: d.sort_key)
            for relation in (*(Relation(d, ">=", _ONE) for d in divisors), self._not_negative(size)):
                if not self._proved(relation, known):
                    reason = told.get(relation.slack, Reason(span, "a size of the result cannot be negative: {}"))
                    self.asked += _parts(relation, reason)
                    known = known.assume(relation)

    def _about_data(self, obligation: Obligation) -> bool:
        context = obligation.context
        relations = [self._relation(r) for r in (obligation.relation, *context.guards)]
        sizes = frozenset[Symbol]().union(*(r.variables for r in relations), *(self._now(e).variables for _, e in context.indices))
        return bool(sizes & self.p.data)

    def _bare(self, use: Use) -> bool:
        """Whether an access is by an index that runs over just this dimension: nothing to prove."""
        symbol = use.index.symbol
        extent = next((e for s, e in use.context.indices if s == symbol), None)
        return extent is not None and self._now(extent) == self._now(use.target)

    @staticmethod
    def _inside(use: Use) -> tuple[Obligation, ...]:
        what = f"{use.axis} of `{use.base}`"
        low = Reason(use.span, f"this index of {what} can be negative: it needs {{}}")
        high = Reason(use.span, f"this index can pass the end of {what}: it needs {{}}")
        return (
            Obligation(Relation(use.index, ">=", _ZERO), use.context, low, use),
            Obligation(Relation(use.index, "<", use.target), use.context, high, use),
        )

    def _judge(self, obligation: Obligation, base: Facts) -> None:
        relation = self._relation(obligation.relation)
        if relation.trivial is True:
            return
        context = obligation.context
        facts = base
        if context.indices or context.guards:
            for symbol, extent in context.indices:
                facts = facts.index(symbol, self._now(extent))
            facts = facts.assume(*(self._relation(g) for g in context.guards))
        if self._proved(relation, facts):
            return
        reach = self._reach(context)
        ranges = reach.ranges
        if relation.op in ("=", "<>") and relation.variables & ranges.keys():
            return
        within, slack = reach.solved(relation.slack)
        reached = Relation(slack, ">=", _ZERO) if slack != relation.slack else relation
        worst = self._worst(reached, within)
        of_data = worst is not None and bool(worst.variables & self.p.data)
        if (obligation.subject or obligation.sized) and worst is not None and of_data and not self._proved(worst, facts):
            self.out.troubles.append(Unprovable(obligation, worst))
            return
        if worst is None or worst.variables & self.p.data or worst.variables & ranges.keys():
            return  # see Note [Worst case]
        if worst.trivial is True or self._proved(worst, base):
            return
        if context.doubtful and obligation.use is not None:
            return  # while running, accesses are compared with their sizes; sizes and contracts are compared with nothing
        around = within.conditions(reached)
        if around is None and obligation.use is not None:
            return
        never = obligation.use is not None and prove(facts, relation) is Answer.REFUTED  # inside, wherever it is evaluated
        if never or self._impossible(worst, base.assume(*(around or ()))):
            indices = slack.variables & within.ranges.keys()
            troubled = any(variables_of(q) & indices for g in within.guards for q in g.slack.quotients)
            if never or not troubled:  # `if i % w < w - 1` may keep away from the end that is reached without it
                self.out.troubles.append(self._refuted(obligation, worst, reach))
            return
        needed = only_where(around or (), worst, base)
        if needed is not None and not needed.variables & self.p.data:
            worst = needed
        elif obligation.use is not None:
            return
        if worst.variables <= self.p.outer and self.p.outer:
            self.out.owed.append(Obligation(worst, NOWHERE, obligation.reason))
        else:
            parts = _parts(worst, obligation.reason)
            self.asked += [part for part in parts if obligation.sized or not self._proved(part[0], facts)]

    def _refuted(self, obligation: Obligation, worst: Relation, reach: Reach) -> Refuted:
        use = obligation.use
        if use is None:
            return Refuted(obligation, worst)
        reached = reach.extreme(self._now(use.index), upper=obligation.relation.op == "<")
        ends = tuple((s, e) for s, e in reach.ranges.items() if s in use.index.variables)
        return Refuted(obligation, worst, reached, self._now(use.target), ends)

    def _relation(self, relation: Relation) -> Relation:
        return Relation(self._now(relation.left), relation.op, self._now(relation.right))

    @staticmethod
    def _worst(relation: Relation, reach: Reach) -> Relation | None:
        """The relation in its worst case over the indices, which are gone from it."""
        if not relation.variables & reach.ranges.keys():
            return relation
        slack = reach.extreme(relation.slack, upper=False)
        return None if slack is None else Relation(slack, ">=", _ZERO)

    def _impossible(self, relation: Relation, facts: Facts) -> bool:
        """Refuted, or possible only with some size at 0 or 1."""
        if prove(facts, relation) is Answer.REFUTED:
            return True
        variables = relation.variables
        large = facts.assume(*(Relation(Dim.of(v), ">=", Dim.of(2)) for v in variables))
        return prove(large, relation) is Answer.REFUTED

    # ── the contract ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _contract(self) -> None:
        """Simplify the facts, with the user's own in front, and see that sizes exist that satisfy them."""
        stated = [(self._relation(r), reason) for r, reason in self.p.assumed if not r.variables & self.p.data]
        stated = [x for r, reason in stated for x in divisibilities(r, reason)]
        found = [*(part for r, reason in self.out.contract for part in _parts(r, reason)), *self.asked]
        reasons: dict[Relation, Reason] = {}
        for relation, reason in [*((part, why) for r, why in stated for part in normal(r)), *found]:
            reasons.setdefault(relation, reason)
        made: dict[Relation, Relation] = {}
        kept = independent(reasons, Facts(), made)
        self.out.contract = [(r, self._reason(r, reasons, made)) for r in kept]
        if kept and unsatisfiable(Facts().assume(*exchanged(kept)[0])):
            self.out.troubles.append(Hopeless(tuple((r, reasons[r]) for r in core(reasons))))
            return
        only = forced(kept, reasons.__contains__, self._free(), self.p.outer | self.p.data, self.facts) if found else None
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
        found += [Equal(Dim.of(v), Dim.of(w), equations[r]) for v, w, r in same_roots(equations, free, self._free())]
        asked = {(e.left, e.right) for e in self.equals}
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


def _parts(relation: Relation, reason: Reason) -> list[tuple[Relation, Reason]]:
    """A relation as a contract says it: what a minimum has together is taken apart before its divisions are."""
    whole = normal(relation) if any(isinstance(a, Minimum) for a in relation.slack.atoms) else (relation,)
    return [(part, why) for each in whole for r, why in inequalities(each, reason) for part in normal(r)]


def _guarded(use: Use, r: Range) -> bool:
    """Whether a condition stands between an index and an access by it."""
    return use.context.conditions > r.context.conditions


def _by_data(use: Use, r: Range, others: Iterable[Use]) -> bool:
    """Whether only data decide if an access is evaluated: no condition compares its index, or the sizes that it should run over."""
    own, around = use.context, r.context
    if not _guarded(use, r) or own.doubtful:
        return False
    compared = frozenset[Symbol]().union(*(g.variables for g in own.guards[len(around.guards) :]))
    return compared.isdisjoint({r.symbol, *use.target.variables, *(s for other in others for s in other.target.variables)})
