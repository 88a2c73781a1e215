"""Functions that compute a kernel: their text, what they take, and into how many items of work a kernel can be cut."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from axon.element import Element
from axon.names import Symbol
from axon.shapes.dimension import Dim, Quotient, maximum

FEW = 64  # lanes, the least that are worth a thread
COMPUTES = 8  # additions for each point, from which computing and not memory decides


@dataclass(frozen=True, slots=True)
class TensorParameter:
    """A pointer to the first element of a contiguous tensor."""

    name: str
    tensor: Symbol


@dataclass(frozen=True, slots=True)
class BufferParameter:
    """A pointer to memory of the calling thread alone, for so many elements."""

    name: str
    element: Element
    size: Dim


@dataclass(frozen=True, slots=True)
class SizeParameter:
    """The value of a dimension, as i64."""

    name: str
    size: Dim


@dataclass(frozen=True, slots=True)
class LanesParameter:
    """How many lanes a block has, as i64; the host chooses."""

    name: str


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


def at_least_0(extent: Dim) -> Dim:
    """An extent as a count: sizes are at least 0, but n - 5 may be less."""
    positive = all(c > 0 for c in extent.mapping.values()) and all(isinstance(a, Symbol | Quotient) for a in extent.atoms)
    return extent if positive else maximum(extent, 0)
