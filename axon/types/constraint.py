"""Constraints of stage one that wait until more is known of a type: its rank, or whether it is a record or a tensor."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.source import Span
from axon.shapes.constraint import Context, Reason
from axon.types.trouble import Argument
from axon.types.type import Row, Shape, Type


@dataclass(frozen=True, slots=True, eq=False)
class Broadcast:
    """`out` is the shape that two shapes have together. Default: they are equal."""

    left: Shape
    right: Shape
    out: Row
    reason: Reason


@dataclass(frozen=True, slots=True, eq=False)
class Product:
    """`out` is the shape of `left @ right`. Default: the right side has the left side's batch dimensions."""

    left: Shape
    right: Shape
    out: Row
    reason: Reason
    spans: tuple[Span, Span]


@dataclass(frozen=True, slots=True, eq=False)
class Prepend:
    """`out` is `body` with dimensions put before those of its tensors. Default: the body is a tensor."""

    items: Shape
    body: Type
    out: Type
    span: Span
    what: str


@dataclass(frozen=True, slots=True, eq=False)
class Indexed:
    """An access to something that may be a tensor or a record of tensors. Default: a tensor."""

    base: Type
    access: Callable[[Type], Type]
    out: Type
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Member:
    """A field (by name) or a part (by position) of a record or tuple. There is no default: it is an error."""

    value: Type
    member: str | int
    out: Type
    span: Span


@dataclass(frozen=True, slots=True, eq=False)
class Lift:
    """A function of scalars applied to arguments of which some may be tensors. Default: they are scalars."""

    params: tuple[Type, ...]
    result: Type
    arguments: tuple[Type, ...]
    out: Type
    reasons: tuple[Reason, ...]
    context: Context


@dataclass(frozen=True, slots=True, eq=False)
class SpreadArgument:
    shape: Shape
    reason: Reason
    meant: Argument


@dataclass(frozen=True, slots=True, eq=False)
class Spread:
    """Arguments for parameters of one shape, each of which may be a scalar instead. `told`: something else says the shape.

    Default: they are of this shape.
    """

    shape: Shape
    arguments: tuple[SpreadArgument, ...]
    told: bool
    scalars: tuple[SpreadArgument, ...] = ()  # others that turned out to be


Deferred: TypeAlias = "Broadcast | Product | Prepend | Indexed | Member | Lift | Spread"
