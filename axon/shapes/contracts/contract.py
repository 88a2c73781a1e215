"""Contracts: what a call must satisfy, how its dimensions are computed from what is passed, and what follows for later phases.

A Contract is data. `determine` plans how its variables are found, once; `guard` compiles that to one function, which `bind` runs at
every call.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.contracts.determine import Determination, plan
from axon.shapes.contracts.guard import ContractBroken, Guard, compiled, explain_broken, rounded
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.shapes.solving.simplify import normal

__all__ = ["Contract", "ContractBroken", "ContractFact", "ParameterShape"]


@dataclass(frozen=True, slots=True)
class ParameterShape:
    """The shape of one tensor among the parameters; `path` is what a user would call it: `x`, `p.w`, `p.1`."""

    path: str
    dims: tuple[Dim, ...]


@dataclass(frozen=True, slots=True)
class ContractFact:
    """A relation that must hold, and why."""

    relation: Relation
    reason: str
    span: Span | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Contract:
    """What binds a function's dimensions and what must hold of them.

    `explicit` are the dimension parameters given by position; the others are found in the parameters' shapes. `limits` keep the
    arithmetic on sizes exact: a call checks them too, but no signature shows them. `idle` are sizes of what is never evaluated, for
    the conditions around it never hold: nothing says what they are, and they are 0.
    """

    explicit: tuple[Symbol, ...]
    shapes: tuple[ParameterShape, ...]
    facts: tuple[ContractFact, ...] = ()
    limits: tuple[ContractFact, ...] = ()
    idle: tuple[Symbol, ...] = ()
    _plans: list[Determination] = field(
        default_factory=list, init=False, compare=False, repr=False
    )  # at most one, as in the next three
    _guards: list[Guard | None] = field(default_factory=list, init=False, compare=False, repr=False)
    _known: list[Facts] = field(default_factory=list, init=False, compare=False, repr=False)

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without what is found out again."""
        return Contract, (self.explicit, self.shapes, self.facts, self.limits, self.idle)

    @property
    def variables(self) -> frozenset[Symbol]:
        """The explicit dimensions and all that the shapes and facts mention."""
        dims = [dim.variables for shape in self.shapes for dim in shape.dims]
        return frozenset(self.explicit).union(*dims, *(fact.relation.variables for fact in self.facts))

    def determined(self) -> frozenset[Symbol]:
        """The dimension variables that a call can compute."""
        return frozenset(self.determination.order)

    def undetermined(self) -> frozenset[Symbol]:
        return self.variables - self.determined()

    def needs(self) -> tuple[tuple[Symbol, Relation], ...]:
        """What must hold besides so that a call can compute its dimensions, each with one that needs it: h >= 1 for c in h * c."""
        if not self.determination.needs:
            return ()
        facts, found = self.proven(), []
        for symbol, needed in self.determination.needs:
            for relation in normal(needed):
                if not proves(facts, relation):
                    found.append((symbol, relation))
                    facts = facts.assume(relation)
        return tuple(found)

    def divides(self) -> tuple[Relation, ...]:
        """What must hold besides so that nothing is divided by 0 in the sizes of what is passed: m >= 1 for n / m."""
        said = {q.divisor for f in self.facts for side in (f.relation.left, f.relation.right) for q in side.quotients}
        facts = Facts().assume(*(f.relation for f in self.facts))  # not also n / m >= 0, which says that m is not 0
        found: list[Relation] = []
        for dim in dict.fromkeys(dim for shape in self.shapes for dim in shape.dims):
            for divisor in sorted({q.divisor for q in dim.quotients} - said, key=lambda d: d.sort_key):
                for relation in normal(Relation(divisor, ">=", Dim.of(1))):
                    if not proves(facts, relation):
                        found.append(relation)
                        facts = facts.assume(relation)
        return tuple(found)

    def bind(self, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> dict[Symbol, int]:
        """All dimensions of a call, checked. `shapes` are in the order of `self.shapes`. Raises ContractBroken.

        The contract must determine all of its variables.
        """
        guard = self._guard()
        if guard is not None:
            try:
                if (found := guard(explicit, shapes)) is not None:
                    return self._whole(found)
            except (ValueError, ZeroDivisionError):
                pass
        if len(explicit) != len(self.explicit):
            raise ValueError(f"the contract has {len(self.explicit)} explicit dimensions")
        return self._whole(explain_broken(self, self.determination, explicit, shapes))

    def _whole(self, found: dict[Symbol, int]) -> dict[Symbol, int]:
        return found | dict.fromkeys(self.idle, 0) if self.idle else found

    def _guard(self) -> Guard | None:
        if not self._guards:
            if missing := self.undetermined():
                raise ValueError(f"the contract does not determine {sorted(s.name for s in missing)}")
            self._guards.append(compiled(self, self.determination))
        return self._guards[0]

    def admits(self, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> bool:
        """Whether `bind` accepts a call."""
        try:
            guard = self._guard()
            if guard is not None:
                return guard(explicit, shapes) is not None
            self.bind(explicit, shapes)
        except (ContractBroken, ValueError, ZeroDivisionError):
            return False
        return True

    def roughly(self, explicit: Sequence[int], shapes: Sequence[Sequence[int]]) -> dict[Symbol, int] | None:
        """All dimensions of a call that is perhaps broken: those that no size is a solution of are rounded down."""
        return rounded(self, self.determination, explicit, shapes)

    @property
    def determination(self) -> Determination:
        """How a call finds its dimensions."""
        if not self._plans:
            equalities = [(i, f.relation) for i, f in enumerate(self.facts) if f.relation.op == "="]
            self._plans.append(plan(self.explicit, [shape.dims for shape in self.shapes], equalities, self.proven))
        return self._plans[0]

    # ── for later phases ────────────────────────────────────────────────────────────────────────────────────────────────

    def proven(self) -> Facts:
        """What holds of every call that `bind` accepts."""
        if not self._known:
            facts = Facts().assume(*(fact.relation for fact in self.facts))
            extents = [Relation(dim, ">=", Dim.of(0)) for shape in self.shapes for dim in shape.dims if dim.symbol is None]
            self._known.append(facts.assume(*extents))
        return self._known[0]


def not_implied(facts: Sequence[Relation], more: Sequence[Relation]) -> list[Relation]:
    """The facts that still say something beside more of them: n <= k * n does not beside k >= 1."""
    kept = list(facts)
    for fact in facts if more else ():
        others = Facts().assume(*(other for other in kept if other != fact), *more)
        divisors = {q.divisor for side in (fact.left, fact.right) for q in side.quotients}
        if all(proves(others, said) for said in (fact, *(Relation(d, ">=", Dim.of(1)) for d in divisors))):
            kept.remove(fact)
    return kept
