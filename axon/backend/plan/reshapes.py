"""Kernels that only show a tensor in another shape: memory stays as it is, and is made in that shape from the start.

made[n, g, o] = …    t[n, g_o] = made[n, g_o / o, g_o % o]    where `made` lies, `t` lies
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from axon.backend.plan.ir import Nest
from axon.base.names import Symbol
from axon.core.ir import Compute, Read, Value
from axon.shapes.dimension import Dim, DimensionTooLarge

NO_SIZES: Mapping[Symbol, int] = {}


def reshapes(
    kernels: Iterable[tuple[object, Sequence[Value]]], results: Collection[Symbol], sizes: Mapping[Symbol, int] = NO_SIZES
) -> dict[Symbol, Value]:
    """What else is what a kernel makes: by its symbol, the tensor of another shape in the same memory, in the order in which they
    are made. The `kernels` stand in order, each with what it makes; `results` stay as they are. At these `sizes`, or at all."""
    known = {symbol: Dim.of(size) for symbol, size in sizes.items()}
    found: dict[Symbol, Value] = {}
    values: dict[Symbol, Value] = {}
    for kernel, made in kernels:
        values |= {value.symbol: value for value in made}
        read = _copied(kernel) if isinstance(kernel, Nest) else None
        if read is None or read.tensor not in values or read.tensor in found or read.tensor in results:
            continue
        (step,) = kernel.steps  # type: ignore[attr-defined]
        (out,) = step.outs
        source = values[read.tensor]
        subscripts = [s for s in read.subscripts if isinstance(s, Dim)]
        here = _flat([Dim.of(axis.symbol) for axis in step.axes], out.shape, known)
        there = _flat(subscripts, source.shape, known)
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


def _flat(subscripts: Sequence[Dim], shape: Sequence[Dim], known: Mapping[Symbol, Dim]) -> Dim | None:
    """The place of an element in memory."""
    found = Dim.of(0)
    try:
        for subscript, extent in zip(subscripts, shape, strict=True):
            found = found * extent.substitute(known) + subscript.substitute(known)
    except DimensionTooLarge:
        return None
    return found
