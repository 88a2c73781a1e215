"""Which range each index has, by the language's priority of what decides one (docs/reference.md, section 9):

1. a stated bound;                 2. unguarded bare uses, `a[i]`, which must agree;
3. the declared result;            4. unguarded affine uses in which the index is the only unknown, `a[s * i + r]`;
5. guarded bare uses, which must agree.

With them, how dimensions stretch: both wait for what the other decides.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from axon.base.data import dataclass, replace
from axon.base.names import Symbol
from axon.shapes.algebra.prove import proves
from axon.shapes.constraint import Equal, Obligation, Range, Reason, Side, Stretch, Use
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving.reach import Reach
from axon.shapes.solving.sizes import SettledSizes, not_negative
from axon.shapes.solving.trouble import Unknown

_ZERO, _ONE = Dim.of(0), Dim.of(1)


@dataclass(frozen=True, slots=True)
class Found:
    """Indices without a range, and what ranges that were computed ask for."""

    unknown: tuple[Unknown, ...]
    owed: tuple[Obligation, ...]


def find_ranges(sizes: SettledSizes) -> Found:
    """Put an equation for every range that something decides to those of `sizes`, and solve them.

    Raises DimensionTooLarge.
    """
    return _Ranges(sizes).run()


class _Ranges:
    def __init__(self, sizes: SettledSizes) -> None:
        self.s = sizes
        self.resolve = sizes.problem.resolve
        self.stretches = list(sizes.problem.stretches)
        self.known = {r.symbol for r in sizes.problem.ranges if r.stated}
        self.unknown: list[Unknown] = []
        self.owed: list[Obligation] = []

    def run(self) -> Found:
        open_ = [r for r in self.s.problem.ranges if not r.stated]
        by_index: dict[Symbol, list[Use]] = {r.symbol: [] for r in open_}
        for use in self.s.uses:
            for symbol in use.index.variables:
                if symbol in by_index:
                    by_index[symbol].append(use)
        for r in open_:
            bare = [u for u in by_index[r.symbol] if u.index.symbol == r.symbol and not _guarded(u, r)]
            if bare:
                self._agree(r, [*bare, *(u for u in by_index[r.symbol] if u.index.symbol == r.symbol and _by_data(u, r, bare))])
            elif r.declared is not None:
                text = f"the declared result gives the range of `{r.symbol.name}`"
                self._decide(r, self.resolve(r.declared), Reason(r.span, text))
        self.s.solve()
        decide = (
            self._stretch,
            lambda: self._equate(self._settled(open_)),
            lambda: self._affine_ranges(open_, by_index),
            lambda: self._guarded_ranges(open_, by_index),
            lambda: self._equate(self.stretches),
        )
        while any(step() for step in decide):  # the first that finds something, then from the start with what follows from it
            self.s.solve()
        missing = (Unknown(r) for r in open_ if r.symbol not in self.known)
        return Found((*self.unknown, *missing), tuple(self.owed))

    def _affine_ranges(self, ranges: list[Range], uses: dict[Symbol, list[Use]]) -> bool:
        waiting = [r for r in ranges if r.symbol not in self.known]
        unknown = {r.symbol for r in waiting}
        open_ = self._undecided()
        found = False
        for r in waiting:
            if self._ready(uses[r.symbol], open_) and self._affine(r, uses[r.symbol], unknown):
                unknown.remove(r.symbol)
                found = True
        return found

    def _guarded_ranges(self, ranges: list[Range], uses: dict[Symbol, list[Use]]) -> bool:
        found = False
        open_ = self._undecided()
        for r in ranges:
            if r.symbol in self.known:
                continue
            bare = [u for u in uses[r.symbol] if u.index.symbol == r.symbol]
            if bare and self._ready(uses[r.symbol], open_):
                self._agree(r, bare)
                found = True
        return found

    def _undecided(self) -> set[Symbol]:
        """The sizes that broadcasting has still to decide."""
        return {s.out for s in self.stretches}

    def _ready(self, uses: list[Use], open_: set[Symbol]) -> bool:
        """Whether what an index runs over has none of these sizes."""
        return not open_ or not any(self.s.now(u.target).variables & open_ for u in uses)

    def _agree(self, r: Range, uses: Iterable[Use]) -> None:
        """Bare uses of one index: all the dimensions it runs over are equal."""
        name = r.symbol.name
        first: Use | None = None
        for use in uses:
            here = Side(use.span, f"{use.axis} of `{use.base}` is {{}}", use.base)
            if first is None:
                whole = Side(r.span, f"`{name}` must run to {{}}")
                self.s.equals.append(
                    Equal(r.extent, use.target, Reason(use.span, f"`{name}` runs over this", (whole, here)), use.context)
                )
                first = use
                continue
            there = Side(first.span, f"{first.axis} of `{first.base}` is {{}}", first.base)
            text = f"`{name}` has one range, so what it indexes must have one size"
            self.s.equals.append(Equal(first.target, use.target, Reason(use.span, text, (there, here)), use.context))
        self.known.add(r.symbol)

    def _decide(self, r: Range, extent: Dim, reason: Reason) -> None:
        self.s.equals.append(Equal(r.extent, extent, reason, r.context))
        self.known.add(r.symbol)

    def _affine(self, r: Range, uses: list[Use], unknown: set[Symbol]) -> bool:
        """Decide a range by the affine uses in which it is the only unknown one."""
        candidates: list[tuple[Dim, Use]] = []
        for use in uses:
            if _guarded(use, r) or use.padded or use.index.symbol == r.symbol or (use.index.variables & unknown) - {r.symbol}:
                continue
            bounds = self._bounds(r.symbol, use)
            if bounds is None:
                return False
            candidates += ((self.s.now(extent), use) for extent in bounds)
        if not candidates:
            return False
        least = next((c for c in candidates if all(proves(self.s.facts, Relation(c[0], "<=", o)) for o, _ in candidates)), None)
        if least is None:
            self.unknown.append(Unknown(r, tuple(dict.fromkeys(c for c, _ in candidates))))
            self.known.add(r.symbol)
            return True
        extent, use = least
        if r.extent.symbol in self.s.order:  # a computed range has no name to give to other sizes
            del self.s.order[r.extent.symbol]
            self.s.order[r.extent.symbol] = None
        text = f"the largest range of `{r.symbol.name}` that stays inside `{use.base}`"
        if extent.constant is not None and extent.constant < 0:  # then the first index leaves the tensor, and is refused for that
            self._decide(r, _ONE, Reason(use.span, text))
            return True
        self._decide(r, extent, Reason(use.span, text))
        need = f"`{use.base}` must be large enough for this: {{}}"
        self.owed.append(Obligation(not_negative(extent), r.context, Reason(use.span, need), sized=True))
        return True

    def _bounds(self, symbol: Symbol, use: Use) -> tuple[Dim, ...] | None:
        """The extents of an index for which an access just stays inside: none if it says nothing, None if that is not clear."""
        reach = self.s.reach(use.context)
        following = _following(symbol, self.s.now(use.index), reach.ranges)
        if following:
            return self._worst_bounds(symbol, use, reach, following)
        split = use.index.linear_in(symbol)
        if split is None:
            return ()
        c, rest = split
        falls = c.constant is not None and c.constant < 0
        end = reach.extreme(rest, upper=not falls)
        if end is None or c.variables & reach.ranges.keys():
            return ()
        if c.constant is None:
            text = f"the coefficient of `{symbol.name}` must be positive: {{}}"
            self.owed.append(Obligation(Relation(c, ">=", _ONE), use.context, Reason(use.span, text)))
        return (_count(end if falls else self.s.now(use.target) - 1 - end, -c if falls else c),)

    def _worst_bounds(self, symbol: Symbol, use: Use, reach: Reach, following: frozenset[Symbol]) -> tuple[Dim, ...] | None:
        """The same where ranges of other indices in the access follow this index.

        They are seen at their ends, which depend on it: of a[i + j] with j < i + 1, 2 * i stays inside, and of one with j < n - i,
        n - 1, which says nothing of i. What is found is the largest range if no range that follows is empty for the first index
        that it leaves out: else the access is not evaluated there, and may be further on.
        """
        others = replace(reach, ranges={s: e for s, e in reach.ranges.items() if s != symbol})
        found: list[Dim] = []
        for upper in (True, False):
            end = others.extreme(self.s.now(use.index), upper)
            room = None if end is None else self.s.now(use.target) - 1 - end if upper else end
            split = None if room is None else room.linear_in(symbol)
            if split is None:
                return None
            c, rest = -split[0], split[1]
            if proves(self.s.facts, Relation(c, "<=", _ZERO)):
                continue
            extent = _count(rest, c)
            first = extent if extent.constant is None else Dim.of(max(extent.constant, 0))  # that leaves the tensor
            if not proves(self.s.facts, Relation(c, ">=", _ONE)) or not self._never_empty(following, others, {symbol: first}):
                return None
            found.append(extent)
        return tuple(found)

    def _never_empty(self, symbols: frozenset[Symbol], reach: Reach, value: dict[Symbol, Dim]) -> bool:
        """Whether some indices have values wherever those around them do, at one value of another index."""
        facts = self.s.facts.assume(*(Relation(v, ">=", _ZERO) for v in value.values()))
        there = replace(reach, facts=facts, ranges={s: e.substitute(value) for s, e in reach.ranges.items()})
        least = (there.extreme(there.ranges[s], upper=False) for s in symbols)
        return all(extent is not None and proves(facts, Relation(extent, ">=", _ONE)) for extent in least)

    def _stretch(self) -> bool:
        """A dimension stretches only if it is known to be 1 after all equalities."""
        before, self.stretches = self.stretches, []
        for s in before:
            left, right = self.s.now(s.left), self.s.now(s.right)
            out = right if self._is_one(left) else left if self._is_one(right) or left == right else None
            if out is not None:
                self.s.equals.append(Equal(Dim.of(s.out), out, Reason(s.reason.span, s.reason.text), s.context))
            else:
                self.stretches.append(s)
        return len(self.stretches) < len(before)

    def _settled(self, ranges: list[Range]) -> list[Stretch]:
        """The stretches whose sizes depend on no range that is still to be found: not known to be 1 now, they will not be."""
        open_ = frozenset[Symbol]().union(*(self.s.now(r.extent).variables for r in ranges if r.symbol not in self.known))
        settled = self.stretches
        while open_:
            blocked = [s for s in settled if (self.s.now(s.left).variables | self.s.now(s.right).variables) & open_]
            if not blocked:
                break
            out = {s.out for s in blocked}
            settled = [s for s in settled if s.out not in out]
            open_ = frozenset(out)
        return settled

    def _equate(self, stretches: list[Stretch]) -> bool:
        """Dimensions that do not stretch are equal: all at once, for none makes another one 1."""
        for s in stretches:
            self.s.equals.append(Equal(self.resolve(s.left), self.resolve(s.right), s.reason, s.context, stretch=s))
            # What comes out is neither side that the reason speaks of.
            here = Reason(s.reason.span, s.reason.text)
            self.s.equals.append(Equal(Dim.of(s.out), self.resolve(s.left), here, s.context, stretch=s))
        done = {s.out for s in stretches}
        self.stretches = [s for s in self.stretches if s.out not in done]
        return bool(stretches)

    def _is_one(self, dim: Dim) -> bool:
        return dim == _ONE or (dim.constant is None and proves(self.s.facts, Relation(dim, "=", _ONE)))


def _count(room: Dim, c: Dim) -> Dim:
    """How many i from 0 on have c * i <= room."""
    return room + 1 if c == _ONE else room // c + 1


def _following(symbol: Symbol, index: Dim, ranges: Mapping[Symbol, Dim]) -> frozenset[Symbol]:
    """The indices in an index, and those that they range by, whose ranges depend on another one, directly or through others."""
    after = {symbol}
    for s, extent in ranges.items():
        if after & extent.variables:
            after.add(s)
    after.remove(symbol)
    found = frozenset[Symbol]()
    new = index.variables & after
    while new:
        found |= new
        new = frozenset[Symbol]().union(*(ranges[s].variables for s in new)) & after - found
    return found


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
