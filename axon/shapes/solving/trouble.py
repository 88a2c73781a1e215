"""What stage two finds wrong with a declaration, as data: `explain` words it."""

from __future__ import annotations

from axon.base.data import dataclass, field
from axon.base.names import Symbol
from axon.base.source import Span
from axon.shapes.constraint import Equal, Obligation, Range, Reason
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation


@dataclass(frozen=True, slots=True)
class Clash:
    """Equations that cannot hold together, and what they come to. `asked`: facts of the contract, those of accesses apart."""

    equals: tuple[Equal, ...]
    relation: Relation
    kind: str  # "conflict" | "named" (sizes the user named would have to be equal) | "data" (decided by data)
    again: tuple[Span, ...] = ()  # other places at which the same is wrong
    around: tuple[Equal, ...] = field(default=(), compare=False, repr=False)  # all equations of the declaration
    asked: tuple[Relation, ...] = field(default=(), compare=False, repr=False)


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
