"""Axes through which a kernel steps as one, and their steps through memory: what views, copies and pixels are made of."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from axon.backend.gpu.layout.unsupported import Unsupported
from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis
from axon.shapes.dimension import Dim

ZERO, ONE = Dim.of(0), Dim.of(1)


class ScatteredAxes(Unsupported):
    """Memory does not step through several axes as one; a copy of their elements could lie so."""


@dataclass(frozen=True, slots=True)
class Merge:
    """An axis that stands for several, the outermost first."""

    axis: Axis
    parts: tuple[Axis, ...]

    @property
    def symbols(self) -> tuple[Symbol, ...]:
        return tuple(part.symbol for part in self.parts)

    @property
    def indices(self) -> dict[Symbol, Dim]:
        """Where each of the several is, by the one."""
        index, found = Dim.of(self.axis.symbol), {}
        for part in reversed(self.parts[1:]):
            found[part.symbol], index = index % part.extent, index // part.extent
        return {**found, self.parts[0].symbol: index}

    def within(self, axes: Sequence[Symbol]) -> tuple[Symbol, ...] | None:
        """These axes with the one in place of the several; None if these are not side by side among them, in their order."""
        if self.symbols[0] not in axes:
            return None
        start = axes.index(self.symbols[0])
        end = start + len(self.parts)
        return (*axes[:start], self.axis.symbol, *axes[end:]) if tuple(axes[start:end]) == self.symbols else None


def merge(axes: Sequence[Axis]) -> Merge:
    """A new axis in place of several, the outermost first."""
    extent = prod((axis.extent for axis in axes), start=ONE)
    return Merge(Axis(fresh("_".join(axis.symbol.name for axis in axes)), extent), tuple(axes))


@dataclass(frozen=True, slots=True)
class AxisPart:
    """One of the axes that a merged axis stands for: how far it goes, and its step in each dimension of the source. Beyond what is
    `there` are zeros, whatever memory has there."""

    extent: Dim
    step: tuple[Dim, ...]
    there: Dim | None = None


def stepped(parts: Sequence[tuple[int, int]]) -> tuple[int, int] | None:
    """The extent and the stride of an axis from those of its parts, the outermost first; None where they do not go on as one."""
    extent, stride = parts[-1]
    for times, step in reversed(parts[:-1]):
        if extent == 1 < times:
            stride = step
        elif times > 1 and extent and step != extent * stride:
            return None
        extent *= times
    return extent, stride


def only(part: AxisPart) -> int:
    """The dimension that an axis steps through. Raises `Unsupported` where it is not one."""
    found = [d for d, step in enumerate(part.step) if step != ZERO]
    if len(found) != 1:
        raise Unsupported("a window that moves along several dimensions at once")
    return found[0]
