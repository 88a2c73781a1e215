"""About how much some steps compute, as a polynomial of sizes."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from axon.backend.cpu.function import WorkAmount
from axon.base.names import Symbol
from axon.core.ir import Compute, Scan
from axon.core.scalar_facts import weight
from axon.core.walk import all_axes, scalars
from axon.shapes.dimension import Atom, Dim, Quotient, maximum, rebuilt


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
