"""Contracts: what a call must satisfy, and how its dimensions are computed from what is passed."""

from __future__ import annotations

from dataclasses import dataclass, field

from axon.names import Symbol
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation
from axon.source import Span


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

    `explicit` are the dimension parameters given by position; the others are found in the parameters' shapes.
    """

    explicit: tuple[Symbol, ...]
    shapes: tuple[ParameterShape, ...]
    facts: tuple[ContractFact, ...] = ()
