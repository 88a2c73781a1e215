"""Functions that compute a kernel: their text, what they take, about how much they compute, and into how many items of work a
kernel can be cut."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import TypeAlias

from axon.backend.kernel.parameters import ExtentParameter, PointerParameter
from axon.base.data import dataclass
from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import Compute, Scan, Value
from axon.core.scalar_facts import weight
from axon.core.walk import all_axes, scalars
from axon.shapes.dimension import Atom, Dim, DimensionTooLarge, Quotient, maximum, rebuilt

FEW = 64  # lanes, the least that are worth a thread
STRIP = 512  # the same where memory decides, which is read in runs of so many elements
AGAIN = 2  # what a function returns that came back before its end
COMPUTES = 8  # additions for each point, from which computing and not memory decides


@dataclass(frozen=True, slots=True)
class BufferParameter:
    """A pointer to memory of the calling thread alone, for so many elements; `like` says what for. If it has some for each of
    so many `lanes`, a block of fewer needs less."""

    like: str
    element: Element
    size: Dim
    lanes: int = 0


@dataclass(frozen=True, slots=True)
class LanesParameter:
    """How many lanes a block has, as i64; the host chooses."""


# Tensors are contiguous, so that a pointer is all that is told of one.
Parameter: TypeAlias = "PointerParameter | BufferParameter | ExtentParameter | LanesParameter"


@dataclass(frozen=True, slots=True)
class WorkAmount:
    """About how much there is to do: `whole`, and products of so many sizes that a Dim does not hold them multiplied out."""

    whole: Dim
    products: tuple[tuple[Dim, ...], ...] = ()

    @classmethod
    def of(cls, *factors: Dim | int) -> WorkAmount:
        """The product of some sizes."""
        dims = tuple(Dim.of(factor) for factor in factors)
        try:
            return cls(prod(dims, start=Dim.of(1)))
        except DimensionTooLarge:
            return cls(Dim.of(0), (dims,))

    @property
    def constant(self) -> int | None:
        return None if self.products else self.whole.constant

    @property
    def variables(self) -> frozenset[Symbol]:
        return frozenset(self.whole.variables).union(*(dim.variables for factors in self.products for dim in factors))

    def __add__(self, other: WorkAmount) -> WorkAmount:
        products = (*self.products, *other.products)
        try:
            return WorkAmount(self.whole + other.whole, products)
        except DimensionTooLarge:
            return WorkAmount(self.whole, (*products, (other.whole,)))

    def __mul__(self, times: Dim) -> WorkAmount:
        return WorkAmount.of(self.whole, times) + WorkAmount(Dim.of(0), tuple((*factors, times) for factors in self.products))

    def evaluate(self, dims: Mapping[Symbol, int]) -> int:
        return self.whole.evaluate(dims) + sum(prod(dim.evaluate(dims) for dim in factors) for factors in self.products)


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
    cost: WorkAmount
    points: WorkAmount
    how: str  # in words, for the printed plan

    def pieces(self, dims: Mapping[Symbol, int], threads: int, cost: int) -> tuple[int, int]:
        """How many items of work there are, and how many lanes make a block: fewer where each thread has something to do then."""
        rows = self.rows.evaluate(dims)
        if self.lane is None or rows <= 0:
            return rows, 0
        extent, lanes = self.lane.evaluate(dims), self.most
        if extent <= 0:
            return 0, 0
        blocks = -(-extent // lanes)
        if rows * blocks < threads:
            few = FEW if cost >= COMPUTES * self.points.evaluate(dims) else STRIP
            lanes = min(lanes, max(few, -(-extent // (2 * threads * FEW)) * FEW))
            blocks = -(-extent // lanes)
        return rows * blocks, min(lanes, extent)


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """`function.cost` is about that of one step. `made` are the tensors that the host allocates before a launch, `progress` among
    them; `helpers` the functions of the text that the entry calls, with the element types of their pointers (None for an i64).

    `first` is not used, and `last` is how many steps there are.
    """

    function: Function
    made: tuple[Value, ...]
    progress: Value
    helpers: tuple[tuple[str, tuple[Element | None, ...]], ...]


def work(steps: Sequence[Compute | Scan]) -> tuple[WorkAmount, WorkAmount]:
    """About how many additions all rows of some steps take, and at how many points."""
    total, everywhere = WorkAmount.of(0), WorkAmount.of(0)
    for step in steps:
        axes = all_axes(step)
        bounds: dict[Symbol, Dim] = {}
        for axis in axes:
            bounds[axis.symbol] = _in_the_mean(axis.extent, bounds)
        symbols = frozenset(axis.symbol for axis in axes)
        points = WorkAmount.of(*bounds.values())
        everywhere = everywhere + points
        total = total + points * Dim.of(1 + sum(weight(s, symbols or None) for s in scalars(step)))
    return total, everywhere


def _in_the_mean(extent: Dim, bounds: dict[Symbol, Dim]) -> Dim:
    """An extent that may differ along axes around it, between that of their first and of their last index, rounded up: where
    sixty-four blocks share forty elements, each has one."""
    own = {symbol: bound for symbol, bound in bounds.items() if symbol in extent.variables}
    if not own:
        return extent
    extent = _divisible(extent, own.keys())
    first = extent.substitute(dict.fromkeys(own, Dim.of(0)))
    last = extent.substitute({symbol: bound - 1 for symbol, bound in own.items()})
    return (first + last + 1) // 2


def _divisible(dim: Dim, symbols: Collection[Symbol]) -> Dim:
    """With every divisor that these are in at least 1: at an index that no point has it may be 0."""

    def image(atom: Atom) -> Dim:
        if isinstance(atom, Symbol):
            return Dim.of(atom)
        if isinstance(atom, Quotient) and not atom.divisor.variables.isdisjoint(symbols):
            return _divisible(atom.dividend, symbols) // maximum(_divisible(atom.divisor, symbols), 1)
        return rebuilt(atom, lambda part: _divisible(part, symbols))

    return dim.rewrite(image)
