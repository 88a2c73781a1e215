"""Kernels that only show a tensor in another shape: memory stays as it is, and is made in that shape from the start.

made[n, g, o] = …    t[n, g_o] = made[n, g_o / o, g_o % o]    where `made` lies, `t` lies
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.backend.plan.ir import Kernels, Nest, values_of
from axon.base.names import Symbol
from axon.core.ir import Compute, Read, Value
from axon.shapes.dimension import Dim, DimensionTooLarge


def reshapes(kernels: Kernels) -> dict[Symbol, Value]:
    """What else is what a kernel of the block makes: by its symbol, the tensor of another shape in the same memory."""
    values = {value.symbol: value for kernel in kernels.kernels for value in values_of(kernel)}
    found: dict[Symbol, Value] = {}
    for kernel in kernels.kernels:
        read = _copied(kernel) if isinstance(kernel, Nest) else None
        if read is None or read.tensor not in values or read.tensor in found or read.tensor in kernels.results:
            continue
        (step,) = kernel.steps  # type: ignore[union-attr]
        (out,) = step.outs
        source = values[read.tensor]
        subscripts = [s for s in read.subscripts if isinstance(s, Dim)]
        here = _flat([Dim.of(axis.symbol) for axis in step.axes], out.shape)
        there = _flat(subscripts, source.shape)
        if here is not None and here == there and source.element is out.element and out.symbol not in found.values():
            found[read.tensor] = out
    return found


def _copied(nest: Nest) -> Read | None:
    """What a nest reads that is no more than this read."""
    if len(nest.steps) != 1 or not isinstance(nest.steps[0], Compute):
        return None
    step = nest.steps[0]
    if step.reduction is not None or len(step.body) != 1 or not isinstance(step.body[0], Read):
        return None
    read = step.body[0]
    plain = read.padding is None and read.checked is None and all(isinstance(s, Dim) for s in read.subscripts)
    return read if plain else None


def _flat(subscripts: Sequence[Dim], shape: Sequence[Dim]) -> Dim | None:
    """The place of an element in memory."""
    found = Dim.of(0)
    try:
        for subscript, extent in zip(subscripts, shape, strict=True):
            found = found * extent + subscript
    except DimensionTooLarge:
        return None
    return found
