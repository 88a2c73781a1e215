"""What a graph computes, step by step, after its shapes have folded: each step is one expression of the program to be."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TypeAlias

from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.shapes.dimension import Dim
from axon.tools.onnx.graph import Path
from axon.tools.onnx.scalars import Scalar
from axon.tools.onnx.views import View

Shape: TypeAlias = "tuple[Dim, ...]"


@dataclass(frozen=True, slots=True)
class Step:
    """`op` is what `expressions` writes; `data` what it needs besides operands and numbers in braces."""

    op: str
    operands: tuple[int, ...]  # earlier steps
    shape: Shape
    element: str
    home: Path  # the module that it stands in
    data: tuple[Hashable, ...] = ()
    sizes: tuple[Dim, ...] = ()  # which may differ where a module is used again
    layer: Path | None = None  # the record of weights, or the weight, that it reads
    source: str = ""  # the node of the graph that asked for it


@dataclass(frozen=True, slots=True)
class Places:
    """A tensor of which each element is a scalar of its place."""

    axes: tuple[Symbol, ...]
    shape: Shape
    value: Scalar
    element: str


Value: TypeAlias = "View | Places"


class Refused(Exception):
    """What a node asks for has no translation, in words."""


class Flow:
    """The steps, in an order in which they can be computed."""

    def __init__(self) -> None:
        self.steps: list[Step] = []

    def add(self, step: Step) -> int:
        self.steps.append(step)
        return len(self.steps) - 1

    def shape(self, number: int) -> Shape:
        return self.steps[number].shape


def product(shape: Sequence[Dim]) -> Dim:
    """How many elements a shape has."""
    total = Dim.of(1)
    for extent in shape:
        total *= extent
    return total
