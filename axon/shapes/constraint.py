"""What stage one leaves for stage two: equations, ranges of indices and obligations between dimensions, each with its reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from axon.base.data import dataclass, field
from axon.base.diagnostics import Suggestion
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation


@dataclass(frozen=True, slots=True)
class Side:
    """Where one of two sizes comes from. In `text`, `{}` stands for the size as the user would write it.

    `about` names the tensor, where the span is not that tensor itself.
    """

    span: Span
    text: str
    about: str = ""


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something must hold: the place that demands it, in words, and where the two sizes come from.

    `field` is the part of a record that it is about: `up.w`; `leaf` the leaf at which `each` applies a function: `.up.w`.
    """

    span: Span
    text: str
    sides: tuple[Side, ...] = ()
    field: str = ""
    leaf: str = ""

    def within(self, field: str) -> Reason:
        """The same of a field of a record."""
        return Reason(self.span, self.text, self.sides, f"{self.field}.{field}" if self.field else field) if self.sides else self

    def at(self, place: str) -> Reason:
        """The same of one dimension among several: "this has 8 as its last dimension"."""
        if self.field:
            place = f"{place.replace('its ', 'the ')} of `{self.field}`"
        sides = tuple(Side(s.span, s.text.replace("{}", f"{{}} as {place}", 1), s.about) for s in self.sides)
        return Reason(self.span, self.text, sides, self.field)


@dataclass(frozen=True, slots=True)
class Context:
    """What is known where an expression stands: the indices in scope (0 <= symbol < extent) and the guards that hold.

    `conditions`: how many conditions stand around it. `doubtful`: some guard is more than those relations say, so that code may
    not run where they hold.
    """

    indices: tuple[tuple[Symbol, Dim], ...] = ()
    guards: tuple[Relation, ...] = ()
    conditions: int = 0
    doubtful: bool = False


NOWHERE = Context()


@dataclass(frozen=True, slots=True)
class Equal:
    """left = right, needed only where the guards of its context hold.

    `asked`: as a fact of a called function's contract; `stretch`: since neither side of that is known to be 1.
    """

    left: Dim
    right: Dim
    reason: Reason
    context: Context = NOWHERE
    asked: Obligation | None = field(default=None, compare=False)
    stretch: Stretch | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Broadcasting of one dimension: out is the other side where a side is known to be 1, else all three are equal.

    `longer`: "left" or "right", the operand that has more dimensions than the other, if one has.
    """

    left: Dim
    right: Dim
    out: Symbol
    reason: Reason
    context: Context = NOWHERE
    longer: str = ""


@dataclass(frozen=True, slots=True)
class Use:
    """An access to a dimension of size `target` with a symbolic index. A padded one asks nothing but ranges."""

    index: Dim
    target: Dim
    context: Context
    span: Span
    base: str  # how to call what is accessed
    axis: str  # "dimension 2", "the last dimension"
    padded: bool


@dataclass(slots=True, eq=False)
class Range:
    """The range of one index variable, to be found: extent is a Dim over a flexible symbol unless a bound is stated."""

    symbol: Symbol
    extent: Dim
    span: Span
    stated: bool
    context: Context = NOWHERE  # where the index is bound
    declared: Dim | None = None  # the size that a declared result asks for


@dataclass(frozen=True, slots=True)
class Obligation:
    """A relation that must hold in its context; what cannot be proved becomes part of the contract.

    `use` is the access that it comes from; `subject` says what the dimensions of a called function's contract are at the call.
    """

    relation: Relation
    context: Context
    reason: Reason
    use: Use | None = None
    sized: bool = False  # a size of a type depends on it, so it cannot be left to run time
    subject: tuple[tuple[str, Dim], ...] = ()
    asked: tuple[Relation, tuple[Symbol, ...]] | None = None  # the contract's own relation, and its variables as in `subject`


@dataclass(frozen=True, slots=True)
class Callee:
    """A dimension of a parameter of a function, as its body's equations know it before they are solved.

    `apart`: other dimensions of its parameters, which the call gives other sizes but the function's type makes equal to this one.
    """

    name: str
    size: Dim
    apart: tuple[Dim, ...]
    equals: tuple[Equal, ...]
    flexible: tuple[Symbol, ...]
    inside: Callable[[Equal], Callee | None]  # of an argument's equation in the body: the function called there
    others: Callable[[], Iterable[Callee]]  # the functions to which the body passes something that has this size there
    changes: Callable[[Reason], tuple[Suggestion, ...]]  # of the body, at what an equation's reason speaks of


@dataclass(frozen=True, slots=True)
class Problem:
    """All that stage one collected for a declaration. `flexible` may be solved for; `outer` belongs to a declaration around."""

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
    loose: frozenset[Symbol] = frozenset()  # those that no one passes: see Note [Degenerate]
    quotients: frozenset[Symbol] = frozenset()  # what calls make by dividing by what they are given: see there too
    passed: tuple[Dim, ...] = ()  # sizes of parameters
    promised: tuple[tuple[Dim, Span], ...] = ()  # sizes of the result, and what it is made by
    blame: bool = True  # whether it matters why something is wrong, or only that it is
