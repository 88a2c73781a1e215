"""What expressions evaluate to while compiling: tensors that know how to read an element of themselves, and functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from axon.base.data import dataclass, field
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Scalar
from axon.shapes.dimension import Dim
from axon.types.typed import Expr, Pattern
from axon.types.unify import State

Subscripts: TypeAlias = "tuple[Dim | Scalar, ...]"


@dataclass(frozen=True, slots=True, eq=False)
class TensorValue:
    """`at` gives the element at subscripts. `lazy`: that computes something, so it is stored before it is read more than once.

    `guarded`: reading it is only right where the guards of its making hold.
    """

    element: Element
    shape: tuple[Dim, ...]
    at: Callable[[Subscripts], Scalar]
    lazy: bool = False
    guarded: bool = False
    symbol: Symbol | None = None  # of the core value that it is as a whole
    span: Span | None = None  # where one is written that is no core value yet


@dataclass(frozen=True, slots=True, eq=False)
class TupleValue:
    items: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RecordValue:
    fields: dict[str, Value]


@dataclass(frozen=True, slots=True, eq=False)
class Closure:
    """A function of the program with the arguments it has got so far."""

    params: tuple[Pattern, ...]
    body: Expr
    env: Env
    given: tuple[Value, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Primitive:
    """A function of the language with the arguments it has got so far."""

    name: str
    arity: int
    given: tuple[Value, ...] = ()


Value: TypeAlias = "TensorValue | TupleValue | RecordValue | Closure | Primitive"


@dataclass(slots=True, eq=False)
class Frame:
    """What the variables of one activation of a function stand for: element types, shape variables, dimensions."""

    state: State
    elements: dict[Symbol, Element] = field(default_factory=dict)
    rows: dict[Symbol, tuple[Dim, ...]] = field(default_factory=dict)
    dims: dict[Symbol, Dim] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Env:
    """The values of names. Indices and runs of indices are what they are in the comprehension that is being lowered."""

    frame: Frame
    values: dict[Symbol, Value] = field(default_factory=dict)
    dims: dict[Symbol, Dim] = field(default_factory=dict)
    runs: dict[Symbol, tuple[Dim, ...]] = field(default_factory=dict)

    def with_values(self, new: dict[Symbol, Value]) -> Env:
        return Env(self.frame, {**self.values, **new}, self.dims, self.runs)

    def with_indices(self, dims: dict[Symbol, Dim], runs: dict[Symbol, tuple[Dim, ...]]) -> Env:
        return Env(self.frame, self.values, {**self.dims, **dims}, {**self.runs, **runs})

    def in_frame(self, frame: Frame) -> Env:
        return Env(frame, self.values, self.dims, self.runs)
