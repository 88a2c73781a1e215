"""Solving equations between dimensions.

`solve` eliminates flexible variables, in an order that keeps answers unique where they are: first equations `v = expr` with a unit
coefficient; then linear ones over the integers; then those that equations between products have together, or one whose other
factors are never 0; then `c * v = expr` with a polynomial c, which gives `v = expr / c` and the condition that c divides. An
equation that holds by the facts disappears; one that cannot hold, or only in a degenerate way, becomes a Conflict with a minimal
set of reasons; the others are residual, for the caller to judge.

Note [Degenerate]
    An equation between sizes that forces one of them to be 0 or 1 (`4 * d = 3 * d`, `n = n + m`, `n * n = n`) is refuted: nobody
    means it. Unless the program says so elsewhere: a literal `v = 1` is fine, and so is what follows from it. And unless it is no
    one's size that becomes 1, but one that inference makes up and nothing else decides: how far an index runs that has no bound,
    `n = n * j` of `for i < n, j => x[(i, j)]`. Then 1 is the answer. It is not where a parameter has that size too, for nobody
    passes a tensor whose dimension can only be 1; nor is 0, for nobody writes a loop that never runs. A size that the type of a
    called function has only as a factor is such a size too; and where the other factor is given in braces, as by `f {c} x` with
    an `x` of c and an `f` that takes g * o, the call itself divides: then 1 is right also where something is passed that has it.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from operator import attrgetter, or_

from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.shapes.algebra.budget import Budget
from axon.shapes.algebra.minimal import minimal
from axon.shapes.algebra.polynomials import Ideal, exact_quotient, factors, triangular
from axon.shapes.algebra.prove import Answer, Facts, nonnegative, positive, prove, proves, reduced, unsatisfiable
from axon.shapes.algebra.refute import residue
from axon.shapes.dimension import Dim, DimensionTooLarge, Monomial, Quotient, atom_key, dim_sum, divided, without
from axon.shapes.relation import Relation

_ZERO = Dim.of(0)
_AGE = attrgetter("id")  # of a variable: its place among others
_STEPS = 60_000  # of a system, after which nothing is looked at in depth …
_MINIMISE = 60_000  # … and to find what is to blame for conflicts
_EQUATION = 2  # steps that an equation takes whose variable is eliminated
_FEW = 12
_MAX_JUDGED = 200  # relations of one system that are looked at in depth
_MAX_COMBINED = 8  # times that equations between products are combined …
_MAX_CURVED = 8  # … so many at most
_COMBINING = 2_000  # steps of that
_MAX_FORCED = 20  # variables forced to be 0 or 1 for which it is looked whether the rest of the system says so too


@dataclass(frozen=True, slots=True)
class Equation:
    """left = right, needed where all of `given` hold; `reason` is the caller's and only handed back."""

    left: Dim
    right: Dim
    reason: object
    given: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Conflict:
    """Equations that cannot hold together: a set of their reasons, minimal where those to blame are looked for, and what they
    boil down to."""

    reasons: tuple[object, ...]
    relation: Relation


@dataclass(frozen=True, slots=True)
class Residual:
    """An equation over what stays free, neither proved nor refuted; needed where all of `given` hold."""

    relation: Relation
    reasons: tuple[object, ...]
    given: tuple[Relation, ...] = ()


@dataclass(frozen=True, slots=True)
class Condition:
    """What must hold for a solution to be one: of a division, or that solved variables, which it is `of`, are at least 0.

    `guarded`: the equations that ask for it are needed only where their guards hold.
    """

    relation: Relation
    system: tuple[Equation, ...]
    used: _Trace
    of: frozenset[Symbol]
    guarded: bool

    @property
    def reasons(self) -> tuple[object, ...]:
        """Those of the equations that ask for it."""
        return tuple(self.system[i].reason for i in sorted(self.used.equations()))

    def last(self, among: int = -1) -> object | None:
        """The reason of the last of those equations, or of those whose bits are in `among`; None if there is none. In a chain of
        sizes there are as many as came before, of which mostly this one is asked for."""
        found = self.used.bits & among
        return self.system[found.bit_length() - 1].reason if found else None


@dataclass(frozen=True, slots=True)
class Solution:
    """What is known of the flexible variables (`substitution`, fully applied), and what must hold besides."""

    substitution: dict[Symbol, Dim]
    conditions: tuple[Condition, ...]
    residual: tuple[Residual, ...]
    conflicts: tuple[Conflict, ...]


def solve(
    equations: Iterable[Equation],
    flexible: Sequence[Symbol],
    facts: Facts,
    kept: frozenset[Symbol] = frozenset(),
    blame: bool = True,
    loose: frozenset[Symbol] = frozenset(),
    quotients: frozenset[Symbol] = frozenset(),
) -> Solution:
    """Eliminates flexible variables (later ones first) from equations that hold under facts. May raise DimensionTooLarge.

    Those to be `kept` are eliminated only where they equal another variable, as long as there is a choice. Without `blame` the
    equations to blame for a conflict are not looked for, which costs much more than the solution. `loose` and
    `quotients` may be 1, see Note [Degenerate].
    """
    system = tuple(equations)
    start = _Start(flexible, facts, loose, kept, quotients)
    solver = _Solver(system, start)
    solver.kept = kept
    solver.run()
    conflicts: list[Conflict] = []
    blamed: set[int] = set()
    budget = Budget(_MINIMISE)
    strict = replace(start, loose=frozenset())  # where something else is wrong, what makes a size 1 is likely to be
    for used, relation in solver.conflicts:
        core, what = _minimal(system, used, relation, strict, budget) if blame else (used, relation)
        if blamed.isdisjoint(core):  # else another conflict of the same mistake
            blamed.update(core)
            conflicts.append(Conflict(tuple(system[i].reason for i in sorted(core)), what))
    return Solution(
        solver.substitution(),
        tuple(solver.conditions),
        tuple(Residual(r, tuple(system[i].reason for i in sorted(used)), given) for r, used, given in solver.residual),
        tuple(conflicts),
    )


def _minimal(
    system: tuple[Equation, ...],
    used: frozenset[int],
    relation: Relation,
    start: _Start,
    budget: Budget,
) -> tuple[frozenset[int], Relation]:
    """A subset of the equations from which none can be left out without losing the conflict."""

    def conflict(subset: Sequence[int]) -> tuple[list[int], Relation] | None:
        solver = _Solver(tuple(system[i] for i in subset), start, budget)
        try:
            solver.run()
        except DimensionTooLarge:
            return None
        if not solver.conflicts:
            return None
        first, what = solver.conflicts[0]
        return [subset[i] for i in sorted(first)], what

    if budget.spent:
        return used, relation
    kept = sorted(used)
    found = conflict(kept)
    if found is None and len(system) <= 500:  # what was used of the conditions that other equations made is not recorded
        kept = list(range(len(system)))
        found = conflict(kept)
    if found is None:
        return used, relation
    if (fewer := conflict(found[0])) is not None:
        kept, found = found[0], fewer
    if len(kept) <= _FEW:  # often one equation is wrong by itself, which is quick to see
        for i in kept:
            if (alone := conflict([i])) is not None:
                return frozenset((i,)), alone[1]
    kept, (_, relation) = minimal(kept, found, conflict, budget)
    return frozenset(kept), relation


class _Trace:
    """Which equations made something: one of the system's, or other things; and `by` which others sizes were replaced in it.

    A graph, since chains can be long. Each part remembers which equations it comes to, as bits of a number, so that it is walked
    once, and not by everything further along a chain.
    """

    __slots__ = ("_bits", "_said", "by", "others", "own")

    def __init__(self, own: int | None, others: tuple[_Trace, ...] = (), by: tuple[_Trace, ...] = ()) -> None:
        self.own, self.others, self.by = own, others, by
        self._bits: int | None = None
        self._said: int | None = None

    @property
    def bits(self) -> int:
        """All equations, as bits."""
        if self._bits is None:
            todo = [self]
            while todo:
                trace = todo[-1]
                behind = (*trace.others, *trace.by)
                new = [other for other in behind if other._bits is None]
                if new:
                    todo += new
                    continue
                todo.pop()
                trace._bits = reduce(or_, (other._bits for other in behind if other._bits), _bit(trace.own))
        assert self._bits is not None
        return self._bits

    @property
    def _bits_said(self) -> int:
        if self._said is None:
            todo = [self]
            while todo:
                trace = todo[-1]
                new = [other for other in trace.others if other._said is None]
                if new:
                    todo += new
                    continue
                todo.pop()
                trace._said = reduce(or_, (other._said for other in trace.others if other._said), _bit(trace.own))
        assert self._said is not None
        return self._said

    def equations(self) -> frozenset[int]:
        """All of them."""
        return frozenset(_ones(self.bits))

    def said(self) -> frozenset[int]:
        """Those that it says: where one of them is needed, so is this, whatever sizes were chosen elsewhere."""
        return frozenset(_ones(self._bits_said))


def _bit(equation: int | None) -> int:
    return 0 if equation is None else 1 << equation


def _ones(bits: int) -> Iterator[int]:
    """The places of the bits that are 1, in ascending order."""
    while bits:
        low = bits & -bits
        yield low.bit_length() - 1
        bits ^= low


@dataclass(frozen=True, slots=True)
class _Open:
    """left = right, and the equations that made it."""

    left: Dim
    right: Dim
    used: _Trace

    @property
    def slack(self) -> Dim:
        return self.left - self.right


@dataclass(frozen=True, slots=True)
class _Start:
    """What is known before any equation; of the flexible ones, which may be 1, which a parameter has, and which a call makes by
    dividing. See Note [Degenerate]."""

    flexible: Sequence[Symbol]
    facts: Facts
    loose: frozenset[Symbol] = frozenset()
    passed: frozenset[Symbol] = frozenset()
    quotients: frozenset[Symbol] = frozenset()


class _Solver:
    """The state of one elimination."""

    def __init__(self, system: tuple[Equation, ...], start: _Start, budget: Budget | None = None) -> None:
        self._system = system
        self._guarded = any(e.given for e in system)
        self._start = start
        self._rank = {v: i for i, v in enumerate(start.flexible)}
        self.kept: frozenset[Symbol] = frozenset()
        self._loose, self._passed, self._parts = set(start.loose), set(start.passed), set(start.quotients)  # and what equals one
        self._budget = Budget(_STEPS, start.facts.budget) if budget is None else budget
        self._facts = start.facts.charged_to(self._budget)
        self._images: dict[Symbol, tuple[Dim, _Trace]] = {}
        self._replaced: set[Symbol] = set()  # the keys of that
        self._queue = deque(_Open(e.left, e.right, _Trace(i)) for i, e in enumerate(system))
        self._waiting: dict[int, _Open] = {}  # equations without a unit to eliminate
        self._watchers: dict[Symbol, set[int]] = {}  # which of them mention a flexible variable
        self._true: set[tuple[Dim, Dim]] = set()  # what was seen to be equal: networks say most of it many times
        self._count = 0
        self._judged = 0
        self._combined = 0
        self._divided: list[tuple[Relation, _Trace]] = []
        self._quotients: set[Symbol] = set()
        self._forced: list[tuple[Symbol, _Trace, Relation]] = []
        self.conditions: list[Condition] = []
        self.residual: list[tuple[Relation, frozenset[int], tuple[Relation, ...]]] = []
        self.conflicts: list[tuple[frozenset[int], Relation]] = []

    def run(self, judge_degenerate: bool = True) -> None:
        self._eliminate_units()
        while self._waiting and (self._reduce_linear() or self._combine() or self._factor() or self._suppose() or self._divide()):
            self._eliminate_units()
        self._judge_conditions()
        self._judge_residual()
        if judge_degenerate:
            self._judge_forced()

    def learn(self, relation: Relation) -> bool:
        """One more equation, of which only what can be substituted is used. False if the others substituted make it true."""
        equation = self._resolved(_Open(relation.left, relation.right, _Trace(None)))
        self._queue.append(equation)
        self._eliminate_units()
        return bool(equation.slack.mapping)

    def reduced(self, dim: Dim) -> Dim:
        """The Dim by what has been substituted."""
        return self._resolve(dim)[0]

    def substitution(self) -> dict[Symbol, Dim]:
        return {v: reduced(self._facts, self._current(v)[0]) for v in sorted(self._images, key=lambda v: self._rank[v])}

    # ── substitution ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _resolve(self, dim: Dim) -> tuple[Dim, tuple[_Trace, ...]]:
        """The Dim over variables that are still free, and what made the replacements."""
        bound = self._bound(dim)
        if not bound:
            return dim, ()
        if len(bound) == 1:
            image, used = self._current(bound[0])
            return dim.substitute({bound[0]: image}), (used,)
        images = {v: self._current(v) for v in bound}
        return dim.substitute({v: image for v, (image, _) in images.items()}), tuple(used for _, used in images.values())

    def _bound(self, dim: Dim) -> list[Symbol]:
        """The variables in a Dim that were replaced, by age."""
        found = dim.variables & self._replaced  # of two sets: neither asks Python for the hash of a symbol
        return sorted(found, key=_AGE) if len(found) > 1 else list(found)

    def _current(self, variable: Symbol) -> tuple[Dim, _Trace]:
        """What a variable was replaced by, over those that are still free, and what made it."""
        images = self._images
        if not self._bound(images[variable][0]):  # mostly
            return images[variable]
        todo = [variable]
        while todo:  # bring the images up to date, innermost first: chains can be long
            v = todo[-1]
            image, used = images[v]
            inner = self._bound(image)
            stale = [w for w in inner if self._bound(images[w][0])]
            if stale:
                todo += stale
                continue
            todo.pop()
            if inner:
                image = image.substitute({w: images[w][0] for w in inner})
                images[v] = image, _Trace(None, (used,), tuple(images[w][1] for w in inner))
        return images[variable]

    def _resolved(self, equation: _Open) -> _Open:
        left, by_left = self._resolve(equation.left)
        right, by_right = self._resolve(equation.right)
        if not by_left and not by_right:
            return equation
        return _Open(left, right, _Trace(None, (equation.used,), (*by_left, *by_right)))

    def _bind(self, variable: Symbol, value: Dim, equation: _Open) -> None:
        constant = value.constant
        loose = constant == 1 and (variable in self._parts or (variable in self._loose and variable not in self._passed))
        if constant in (0, 1) and not loose and equation.left.constant is None and equation.right.constant is None:
            self._forced.append((variable, equation.used, Relation(equation.left, "=", equation.right)))
        if value.symbol is not None:
            for those in (self._loose, self._passed, self._parts):
                if variable in those:
                    those.add(value.symbol)
        self._images[variable] = (value, equation.used)
        self._replaced.add(variable)
        for number in sorted(self._watchers.pop(variable, ())):
            waiting = self._waiting.pop(number, None)
            if waiting is not None:
                self._queue.append(waiting)

    def _wait(self, equation: _Open) -> None:
        self._count += 1
        self._waiting[self._count] = equation
        for v in equation.left.variables | equation.right.variables:
            if v in self._rank:
                self._watchers.setdefault(v, set()).add(self._count)

    def _free(self, dim: Dim) -> list[Symbol]:
        """Its flexible variables, those to eliminate first at the front."""
        return sorted((v for v in dim.variables if v in self._rank), key=lambda v: -self._rank[v])

    # ── elimination ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _eliminate_units(self) -> None:
        """v = expr, wherever v has coefficient 1 or -1."""
        while self._queue:
            raw = self._queue.popleft()
            self._budget.charge(_EQUATION)
            if (said := (raw.left, raw.right)) in self._true:
                continue
            equation = self._resolved(raw)
            slack = cancelled(equation.slack)
            if not slack.mapping:
                self._true.add(said)
                continue
            if Relation(slack, "=", _ZERO).trivial is False:
                self.conflicts.append((equation.used.equations(), Relation(equation.left, "=", equation.right)))
                continue
            free = [] if _made_a_number(slack, equation) else self._free(slack)
            if self.kept and len(slack.mapping) > 1 + (len(free) == 2 and len(slack.variables) == 2 and not slack.offset):
                free.sort(key=self.kept.__contains__)
            if any(self._bind_unit(v, slack, equation) for v in free):
                self._true.add(said)
            else:
                self._wait(equation)

    def _reduce_linear(self) -> bool:
        """Integer elimination between waiting equations that are linear in all their flexible variables: echelon form."""
        linear = [(n, e, slack) for n, e in self._waiting.items() if self._is_linear(slack := cancelled(e.slack), e)]
        shared = [v for v, count in Counter(v for _, _, slack in linear for v in self._free(slack)).items() if count > 1]
        linear = [item for item in linear if not item[2].variables.isdisjoint(shared)]
        order = sorted({v for _, _, slack in linear for v in self._free(slack)}, key=lambda v: -self._rank[v])
        made = triangular([[slack.mapping.get((v,), 0) for v in order] for _, _, slack in linear]) if shared else None
        if made is None or all(sum(map(abs, row)) == 1 for row in made):
            return False
        for number, _, _ in linear:
            del self._waiting[number]
        for row in made:
            parts = [(c, e, slack) for c, (_, e, slack) in zip(row, linear, strict=True) if c]
            left, right = sides(dim_sum(slack * c for c, _, slack in parts))
            self._queue.append(_Open(left, right, _Trace(None, tuple(e.used for _, e, _ in parts))))
        return True

    def _is_linear(self, slack: Dim, equation: _Open) -> bool:
        free = self._free(slack)
        alone: set[Monomial] = {(v,) for v in free}
        if not free or any(m not in alone and not Dim({m: 1}).variables.isdisjoint(free) for m in slack.mapping):
            return False
        return not _made_a_number(slack, equation)

    def _factor(self) -> bool:
        """v * v = k * k is v = k, for v + k is 0 only if both are: a product is 0 where the one factor is that can be."""
        for number, equation in list(self._waiting.items()):
            factor = self._deciding(cancelled(equation.slack))
            if factor is not None:
                del self._waiting[number]
                self._queue.append(_Open(*sides(factor), equation.used))
                return True
        return False

    def _deciding(self, slack: Dim) -> Dim | None:
        """The one factor of several that can be 0."""
        each = factors(_without_exact_quotients(slack), self._budget) if self._free(slack) else (slack,)
        left = list(dict.fromkeys(p for p in each if not self._sign(p))) if len(each) > 1 else []
        return left[0] if len(left) == 1 else None

    def _suppose(self) -> bool:
        """v * v = n, needed only where n = 4, is v = 2 if nothing else says what v is: elsewhere it may be anything."""
        for equation in self._waiting.values() if self._guarded else ():
            slack = _without_exact_quotients(cancelled(equation.slack))
            given = [r.slack for r in self._given(equation.used) if r.op == "="]
            alone = [v for v in self._free(slack) if v not in self._passed and self._watched(v) == 1] if given else []
            if not alone:
                continue
            said = [max(single, key=lambda v: v.id) for g in given if (single := _linear(g))]  # n of n = k * k
            for found in Ideal([slack, *given], [], self._budget.part(_COMBINING), [*alone, *said]).consequences():
                factor = self._deciding(found.zero) if found.used != (0,) else None
                if factor is not None and any(self._bind_unit(v, factor, equation) for v in alone):
                    return True
        return False

    def _watched(self, variable: Symbol) -> int:
        """How many waiting equations mention a variable."""
        return sum(number in self._waiting for number in self._watchers.get(variable, ()))

    def _bind_unit(self, variable: Symbol, slack: Dim, equation: _Open) -> bool:
        """variable := what slack = 0 says that it is, if its coefficient is 1 or -1."""
        split = slack.linear_in(variable)
        if split is None or split[0].constant not in (1, -1):
            return False
        self._bind(variable, -split[1] if split[0].constant == 1 else split[1], equation)
        return True

    def _combine(self) -> bool:
        """What equations say together of the product of flexible variables: h * d = m and h * d + h = n, that h = n - m."""
        curved = [e for e in self._waiting.values() if self._multiplies(cancelled(e.slack))]
        if self._combined >= _MAX_COMBINED or not 1 < len(curved) <= _MAX_CURVED:
            return False
        self._combined += 1
        slacks = [cancelled(e.slack) for e in curved]
        free = sorted({v for slack in slacks for v in self._free(slack)}, key=lambda v: -self._rank[v])
        for found in Ideal(slacks, [], self._budget.part(_COMBINING), free).consequences():
            zero = cancelled(found.zero)
            for v in self._free(zero):
                split = zero.linear_in(v)
                if split is not None and split[0].constant in (1, -1):
                    used = _Trace(None, tuple(curved[i].used for i in found.used))
                    self._queue.append(_Open(*sides(zero), used))
                    return True
        return False

    def _multiplies(self, slack: Dim) -> bool:
        """Whether there is a product of flexible variables in it."""
        return any(sum(a in self._rank for a in m if isinstance(a, Symbol)) > 1 for m in slack.mapping)

    def _divide(self) -> bool:
        """c * v = expr: v = expr / c. Number coefficients and equations with few undetermined variables come first."""
        candidates: list[tuple[tuple[bool, bool, int, int, int], int, Symbol]] = []
        for number, equation in self._waiting.items():
            slack = cancelled(equation.slack)
            free = self._free(slack)
            last = _made_a_number(slack, equation)
            for v in free:
                split = slack.linear_in(v)
                if split is not None and self._sign(split[0]):
                    known = split[0].constant is not None
                    candidates.append(((last, not known, len(self._free(split[0])), len(free), -self._rank[v]), number, v))
        if not candidates:
            return False
        bar = min(candidates)[0][:3]
        for cost, number, v in sorted(candidates):
            if cost[:3] == bar and number in self._waiting:  # else an earlier one has changed it
                equation = self._waiting.pop(number)
                split = cancelled(equation.slack).linear_in(v)
                assert split is not None
                self._bind_quotient(v, *split, equation)
        return True

    def _sign(self, dim: Dim) -> int:
        """1 if it is never negative, and positive for all sizes that are not degenerate; -1 if its negative is; else 0."""
        if dim.mapping and _sum_of_sizes(dim):
            return 1
        wide = self._facts.assume(*(Relation(Dim.of(v), ">=", Dim.of(2)) for v in sorted(dim.variables, key=lambda v: v.id)))
        for sign in (1, -1):
            if nonnegative(self._facts, dim * sign) and positive(wide, dim * sign):
                return sign
        return 0

    def _bind_quotient(self, variable: Symbol, coefficient: Dim, rest: Dim, equation: _Open) -> None:
        """variable := -rest / coefficient, with its conditions."""
        if self._sign(coefficient) < 0:
            coefficient, rest = -coefficient, -rest
        exact = exact_quotient(-rest, coefficient)
        if exact is not None:
            self._bind(variable, exact, equation)
            return
        factor = 1
        if coefficient.constant is None:
            self._divided.append((Relation(coefficient, ">=", Dim.of(1)), equation.used))
        else:  # it is coprime to the number that all terms of the rest share, which it therefore need not divide
            factor = rest.content
            rest = divided(rest, factor)
        self._divided.append((Relation(-rest % coefficient, "=", _ZERO), equation.used))
        self._divided.append((Relation(-rest, ">=", _ZERO), equation.used))  # then so is the quotient
        self._quotients.add(variable)
        self._bind(variable, -rest // coefficient * factor, equation)

    # ── judgement ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _judge_conditions(self) -> None:
        """Divisions are possible and solved variables are at least 0: by the facts, or by a condition, or not at all."""
        wanted: dict[Relation, list[_Trace]] = {}
        for relation, used in sorted(self._divided, key=lambda item: item[0].op == "="):  # divisors first
            left, by = self._resolve(relation.left)
            wanted.setdefault(Relation(left, relation.op, relation.right), []).append(_Trace(None, (used,), by))
        divisions = frozenset(wanted)
        about: dict[Relation, set[Symbol]] = {}
        for variable in [v for v in self._images if v not in self._quotients]:
            value, trace = self._current(variable)
            if not _sum_of_sizes(value):
                relation = Relation(value, ">=", _ZERO)
                wanted.setdefault(relation, []).append(_Trace(None, (trace,)))
                about.setdefault(relation, set()).add(variable)
        for relation, traces in wanted.items():
            needed = [trace for trace in traces if not self._holds_where_needed(relation, trace)]
            answer = self._judge(relation) if needed else Answer.PROVED
            if answer is Answer.REFUTED:
                blamed = needed[0].equations()
                self.conflicts.append((blamed, self._origin(blamed, relation)))
            elif answer is Answer.UNKNOWN:
                guarded = relation not in divisions and all(map(self._given, needed))
                of = frozenset(about.get(relation, ()))
                self.conditions.append(Condition(relation, self._system, needed[0], of, guarded))
                if not guarded:
                    self._facts = self._facts.assume(relation)

    def _origin(self, used: frozenset[int], relation: Relation) -> Relation:
        """The equation that made a condition, when it is one alone."""
        if len(used) == 1:
            (i,) = used
            return Relation(self._system[i].left, "=", self._system[i].right)
        return relation

    def _judge_residual(self) -> None:
        resolved = [self._resolved(equation) for equation in self._waiting.values()]
        if len(resolved) <= _MAX_JUDGED:  # what says it directly is blamed, and not what follows from it
            resolved.sort(key=lambda equation: len(equation.used.equations()))
        for equation in resolved:
            relation = Relation(equation.left, "=", equation.right)
            if not _stated(self._start.facts).reduced(equation.slack).mapping:
                continue
            slack = cancelled(equation.slack)
            answer = Answer.PROVED if self._holds_where_needed(relation, equation.used) else self._judge(relation)
            if answer is Answer.UNKNOWN and slack != equation.slack and self._judge(Relation(slack, "=", _ZERO)) is Answer.PROVED:
                answer = Answer.PROVED
            if answer is Answer.REFUTED:
                self.conflicts.append((equation.used.equations(), relation))
            elif answer is Answer.UNKNOWN:
                given = tuple(self._given(equation.used)) if self._guarded else ()
                self.residual.append((relation, equation.used.equations(), given))
                if not given:  # where its conditions hold it may follow from what is asked, and elsewhere not
                    self._facts = self._facts.assume(relation)

    def _holds_where_needed(self, relation: Relation, used: _Trace) -> bool:
        """Whether it follows from the conditions under which the equations that made it are needed; elsewhere nobody asks."""
        if not self._guarded or self._budget.spent:
            return False
        given = self._given(used)
        return bool(given) and proves(self._facts.assume(*given), relation)

    def _given(self, used: _Trace) -> list[Relation]:
        """The conditions under which something is needed: those of every equation that it says."""
        first, *others = [self._system[i].given for i in sorted(used.said())] or [()]
        given = [r for r in dict.fromkeys(first) if all(r in other for other in others)]
        return [Relation(self._resolve(r.left)[0], r.op, self._resolve(r.right)[0]) for r in given]

    def _judge(self, relation: Relation) -> Answer:
        """As `prove`, where what only degenerate sizes satisfy is refuted. See Note [Degenerate]."""
        self._judged += 1
        if self._judged > _MAX_JUDGED or self._budget.spent:  # nobody writes so many; they must not cost too much
            trivial = relation.trivial
            return Answer.UNKNOWN if trivial is None else Answer.PROVED if trivial else Answer.REFUTED
        answer = prove(self._facts, relation)
        return Answer.REFUTED if answer is Answer.UNKNOWN and self._only_degenerate(relation) else answer

    def _only_degenerate(self, relation: Relation) -> bool:
        """Whether it holds only with some variable at 0 or 1, although the facts allow that variable more."""
        divides = any(q.dividend.constant is None and q.divisor.constant is None for q in relation.slack.quotients)
        literal = relation.left.constant is not None or relation.right.constant is not None
        if relation.op != "=" or (literal and not divides):  # the 0 of n % (n + 1) = 0 is no one's
            return False
        wide = [Relation(Dim.of(v), ">=", Dim.of(2)) for v in sorted(relation.variables, key=lambda v: v.id)]
        if prove(self._facts.assume(*wide), relation) is Answer.UNKNOWN:
            return False
        facts = self._facts
        for bound in wide:
            more = facts.assume(bound)
            if not unsatisfiable(more, bound.variables):
                facts = more
        return prove(facts, relation) is Answer.REFUTED

    def _judge_forced(self) -> None:
        """Variables that an equation made 0 or 1: right only if the facts or the other equations say so too."""
        for examined, (variable, used, relation) in enumerate(self._forced):
            value = self._resolve(Dim.of(variable))[0]
            if proves(self._start.facts, Relation(Dim.of(variable), "=", value)):
                continue
            equations = used.equations()
            others = [e for i, e in enumerate(self._system) if i not in equations]
            if others and examined < _MAX_FORCED:
                again = _Solver(tuple(others), self._start, self._budget)
                again.run(judge_degenerate=False)
                if again._resolve(Dim.of(variable))[0] == value:
                    continue
            self.conflicts.append((equations, relation))


def _stated(facts: Facts) -> _Solver:
    """The equations among facts, to be substituted: chains of them may be longer than the prover looks."""
    if not isinstance(facts.equations, _Solver):
        facts.equations = _substitutions(r for r in facts.relations if r.op == "=")
    return facts.equations


def _substitutions(equations: Iterable[Relation]) -> _Solver:
    """What equations say that can be substituted, the newest variables first."""
    system = tuple(Equation(r.left, r.right, None) for r in equations)
    variables = sorted({v for e in system for v in e.left.variables | e.right.variables}, key=lambda v: v.id)
    solver = _Solver(system, _Start(variables, Facts()))
    solver._eliminate_units()
    return solver


def without_repetition(relations: list[Relation]) -> list[Relation]:
    """Those that are not trivial, without equations that the ones before them make true."""
    relations = [r for r in relations if r.trivial is not True]
    variables = sorted({v for r in relations for v in r.variables}, key=lambda v: v.id)
    known = _Solver((), _Start(variables, Facts()))
    return [r for r in relations if r.op != "=" or known.learn(r)]


def cancelled(slack: Dim) -> Dim:
    """The slack without the number and the variables that all its terms share. See Note [Degenerate]."""
    if len(slack.mapping) < 2:
        return slack
    step = slack.content
    shared = next(iter(slack.mapping))
    for m in slack.mapping:
        shared = tuple(a for a in shared if isinstance(a, Symbol) and a in m)
    if step == 1 and not shared:
        return slack
    for atom in dict.fromkeys(shared):
        one: Monomial = (atom,)
        while all(atom in m for m in slack.mapping):
            slack = Dim({left: c for m, c in slack.mapping.items() if (left := without(m, one)) is not None})
    return Dim({m: c // step for m, c in slack.mapping.items()})


def _sum_of_sizes(dim: Dim) -> bool:
    """Whether it has only positive terms, of sizes."""
    for monomial, c in dim.mapping.items():
        if c < 0:
            return False
        for atom in monomial:
            if not isinstance(atom, Symbol):
                return False
    return True


def _made_a_number(slack: Dim, equation: _Open) -> bool:
    """Of s * k = s, whether it would make k a number: it is right only if nothing else says what k is, and blamed if so."""
    return len(slack.variables) == 1 and slack.degree < equation.slack.degree


def _without_exact_quotients(slack: Dim) -> Dim:
    """A multiple of the slack without those quotients whose remainder is the same for all sizes: n * (n + 1) / 2."""
    for q in sorted((a for a in slack.atoms if isinstance(a, Quotient)), key=atom_key):
        rest, split = residue(q.dividend, q.divisor), slack.split(q)
        if rest is not None and split is not None:
            slack = split[0] * (q.dividend - rest) + split[1] * q.divisor
    return slack


def _linear(slack: Dim) -> list[Symbol]:
    """The variables with a number for their coefficient."""
    splits = ((v, slack.linear_in(v)) for v in sorted(slack.variables, key=lambda v: v.id))
    return [v for v, split in splits if split is not None and split[0].constant is not None]


def sides(slack: Dim) -> tuple[Dim, Dim]:
    """slack = 0 with no negative term on either side."""
    left = Dim({m: c for m, c in slack.mapping.items() if c > 0})
    return left, left - slack
