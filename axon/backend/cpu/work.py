"""About how much some steps compute, as a polynomial of sizes."""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.cpu.function import WorkAmount
from axon.base.names import Symbol
from axon.core.ir import Compute, Scan
from axon.core.scalar_facts import weight
from axon.core.walk import all_axes, scalars
from axon.shapes.dimension import Dim


def work(steps: Sequence[Compute | Scan]) -> tuple[WorkAmount, WorkAmount]:
    """About how many additions all rows of some steps take, and at how many points."""
    total, everywhere = WorkAmount.of(0), WorkAmount.of(0)
    for step in steps:
        axes = all_axes(step)
        bounds: dict[Symbol, Dim] = {}
        for axis in axes:
            bounds[axis.symbol] = axis.extent.substitute(bounds)
        symbols = frozenset(axis.symbol for axis in axes)
        points = WorkAmount.of(*bounds.values())
        everywhere = everywhere + points
        total = total + points * Dim.of(1 + sum(weight(s, symbols or None) for s in scalars(step)))
    return total, everywhere
