"""Functions that compute a kernel: their text, what they take, and into how many items of work a kernel can be cut."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from axon.backend.kernel.code import Code
from axon.backend.kernel.ir import Constant, Expression, Name
from axon.backend.kernel.printer import written as printed
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.shapes.dimension import Dim

FEW = 64  # lanes, the least that are worth a thread
COMPUTES = 8  # additions for each point, from which computing and not memory decides


@dataclass(frozen=True, slots=True)
class TensorParameter:
    """A pointer to the first element of a contiguous tensor."""

    tensor: Symbol


@dataclass(frozen=True, slots=True)
class BufferParameter:
    """A pointer to memory of the calling thread alone, for so many elements; `like` says what for."""

    like: str
    element: Element
    size: Dim


@dataclass(frozen=True, slots=True)
class SizeParameter:
    """The value of a dimension, as i64."""

    size: Dim


@dataclass(frozen=True, slots=True)
class LanesParameter:
    """How many lanes a block has, as i64; the host chooses."""


Parameter: TypeAlias = "TensorParameter | BufferParameter | SizeParameter | LanesParameter"


@dataclass(frozen=True, slots=True)
class Function:
    """`rows` is how many rows there are, `lane` what a block of lanes is cut from, of at most `most` lanes; `cost` is about how
    many additions all of it takes, and `points` at how many points."""

    name: str
    text: str
    parameters: tuple[Parameter, ...]
    rows: Dim
    lane: Dim | None
    most: int
    cost: Dim
    points: Dim
    how: str  # in words, for the printed plan

    def pieces(self, dims: Mapping[Symbol, int], threads: int, cost: int) -> tuple[int, int]:
        """How many items of work there are, and how many lanes make a block: fewer where all threads have something to compute."""
        rows = self.rows.evaluate(dims)
        if self.lane is None or rows <= 0:
            return rows, 0
        extent, lanes = self.lane.evaluate(dims), self.most
        if extent <= 0:
            return 0, 0
        blocks = -(-extent // lanes)
        if rows * blocks < threads and cost >= COMPUTES * self.points.evaluate(dims):
            lanes = min(lanes, max(FEW, -(-extent // (2 * threads))))
            blocks = -(-extent // lanes)
        return rows * blocks, lanes


class Parameters:
    """What a function takes, gathered while it is written, under readable names."""

    def __init__(self) -> None:
        self.code = Code()
        self.parameters: dict[Name, Parameter] = {}
        self.sizes: dict[Dim, Name] = {}
        self.pointers: dict[Symbol, Name] = {}

    def parameter(self, like: str, parameter: Parameter) -> Name:
        name = self.code.named(like)
        self.parameters[name] = parameter
        return name

    def pointer(self, symbol: Symbol) -> Name:
        if symbol not in self.pointers:
            self.pointers[symbol] = self.parameter(symbol.name, TensorParameter(symbol))
        return self.pointers[symbol]

    def size(self, dim: Dim) -> Expression:
        if dim.constant is not None:
            return Constant(dim.constant)
        if dim not in self.sizes:
            self.sizes[dim] = self.parameter(dim.symbol.name if dim.symbol else "size", SizeParameter(dim))
        return self.sizes[dim]

    def buffer(self, stem: str, element: Element, size: Dim) -> Name:
        return self.parameter(stem, BufferParameter(stem, element, size))

    def lanes_parameter(self) -> Name:
        return self.parameter("lanes", LanesParameter())

    def written(self, name: str, comments: Sequence[str]) -> tuple[tuple[Parameter, ...], str]:
        """The parameters in their order, and the function's text: the last two, `first` and `last`, are its range of work items."""
        order = (TensorParameter, BufferParameter, SizeParameter, LanesParameter)
        given = sorted(self.parameters.items(), key=lambda pair: order.index(type(pair[1])))
        code = self.code
        ends = code.local("first"), code.local("last")
        lines = printed(code.function(name, [*(own for own, _ in given), *ends])).lines
        return tuple(parameter for _, parameter in given), "\n".join([*(f"# {line}" for line in comments), *lines, ""])
