"""Windows of few channels: an index of the window and the channels as one, in copies of both factors.

    out[o, p, q] = sum c i j => x[c, p + i, q + j] * k[o, c, i, j]

becomes, with g = c's extent · i + c,

    rows[p, w, g] = x[g % c, p + g / c, w]
    taps[o, j, g] = k[o, g % c, g / c, j]
    out[o, p, q]  = sum g j => rows[p, q + j, g] * taps[o, j, g]

Copies of pixels bring so many channels of each place as a row of shared memory has, and zeros where there are fewer: three channels
are mostly zeros, three rows of a window with three channels each are not. The first copy has each element once for each index of
the window that is stacked, as in Im2win (Lu et al. 2021).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache

from axon.backend.gpu.tile.contraction import Image, factors_of, images
from axon.base.data import dataclass, replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Binary, Compute, Const, Read, Scalar, Value
from axon.core.scalar_facts import bare, substitute
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Stacked:
    """What makes the copies of the image and of the other factor, and the sum of their products."""

    rows: Compute
    taps: Compute
    product: Compute


def stackable(op: Compute) -> Iterator[int]:
    """The summed axes, by number, that may be stacked with channels."""
    for number, _ in enumerate(op.reduction.axes if op.reduction is not None else ()):
        if _found(op, number) is not None:
            yield number


def stacked(op: Compute, number: int, values: Mapping[Symbol, Value]) -> Stacked:
    """See above, of the summed axis with this number, one of those that are `stackable`."""
    found = _found(op, number)
    assert found is not None
    assert op.reduction is not None
    image, read, other, place, along = found
    axis, channels = op.reduction.axes[number], image.channels
    mine, theirs, both = (Axis(fresh("g"), axis.extent * channels.extent) for _ in range(3))

    def inside(index: Dim) -> dict[Symbol, Dim]:
        return {axis.symbol: index // channels.extent, channels.symbol: index % channels.extent}

    source, own, at = values[read.tensor], list[Axis](), list[Dim]()
    for d, subscript in enumerate(map(_dim, read.subscripts)):
        if bare(subscript) == channels.symbol:
            at.append(Dim.of(mine.symbol) % channels.extent)
            continue
        own.append(Axis(fresh("p" if d == place else "w"), along.extent if d == place else source.shape[d]))
        here = Dim.of(own[-1].symbol)
        at.append(subscript.substitute({along.symbol: here, **inside(Dim.of(mine.symbol))}) if d == place else here)
    rows = _made(op.outs[0].symbol, number, 0, read, (*own, mine), replace(read, subscripts=tuple(at)), op)

    extents = {a.symbol: a for a in (*op.axes, *op.reduction.axes)}
    mentioned = dict.fromkeys(s for subscript in map(_dim, other.subscripts) for s in extents if s in subscript.variables)
    kept = [extents[s] for s in mentioned if s not in (axis.symbol, channels.symbol)]
    renamed = {a.symbol: Axis(fresh(a.symbol.name), a.extent) for a in kept}
    names = {s: Dim.of(a.symbol) for s, a in renamed.items()}
    element = substitute(other, {**names, **inside(Dim.of(theirs.symbol))})
    taps = _made(op.outs[0].symbol, number, 1, other, (*renamed.values(), theirs), element, op)

    left = [s if d != place else Dim.of(along.symbol) for d, s in enumerate(map(_dim, read.subscripts))]
    left = [s for s in left if bare(s) != channels.symbol]
    first: Scalar = Read(rows.outs[0].symbol, (*left, Dim.of(both.symbol)), read.element, read.padding)
    second: Scalar = Read(taps.outs[0].symbol, (*(Dim.of(a.symbol) for a in kept), Dim.of(both.symbol)), other.element)
    axes = tuple(both if a is channels else a for a in op.reduction.axes if a is not axis)
    body: Scalar = Binary("mul", first, second) if image.factor == 0 else Binary("mul", second, first)
    for factor in factors_of(op)[1]:
        body = Binary("mul", body, factor)
    return Stacked(rows, taps, replace(op, reduction=replace(op.reduction, axes=axes), body=(body,)))


_Found = tuple[Image, Read, Read, int, Axis]  # the image, the factors, in which dimension windows move, and with which axis


def _found(op: Compute, number: int) -> _Found | None:
    assert op.reduction is not None
    axis, deep = op.reduction.axes[number], factors_of(op)[0]
    moving = {a.symbol for a in (*op.axes, *op.reduction.axes)}
    if op.reduction.where is not None or len(op.outs) != 1 or any(a.extent.variables & moving for a in op.reduction.axes):
        return None
    for image in images(op, deep):
        read, other = _plain(deep[image.factor]), _plain(deep[1 - image.factor])
        if read is None or other is None or other.padding is not None or axis == image.channels:
            continue
        subscripts = list(map(_dim, read.subscripts))
        places = [d for d, subscript in enumerate(subscripts) if axis.symbol in subscript.variables]
        holding = [s for s in subscripts if image.channels.symbol in s.variables]
        if len(places) != 1 or [bare(s) for s in holding] != [image.channels.symbol]:
            continue
        along = [a for a in op.axes if a.symbol in subscripts[places[0]].variables]
        if subscripts[places[0]].variables & moving != {axis.symbol, *(a.symbol for a in along)}:
            continue
        steps = [subscripts[places[0]].linear_in(a.symbol) for a in (axis, *along)]
        alone = sum(a.symbol in s.variables for a in along for s in subscripts) == 1
        if len(along) == 1 and alone and all(step is not None and step[0].constant for step in steps):
            return image, read, other, places[0], along[0]
    return None


def _plain(factor: Scalar) -> Read | None:
    """A factor that is a read at indices; of one that is padded, with zeros."""
    if not isinstance(factor, Read) or factor.checked is not None or not all(isinstance(s, Dim) for s in factor.subscripts):
        return None
    zeros = factor.padding is None or (isinstance(factor.padding, Const) and factor.padding.value == 0)
    return factor if zeros else None


def _dim(subscript: Dim | Scalar) -> Dim:
    assert isinstance(subscript, Dim)
    return subscript


def _made(out: Symbol, number: int, side: int, source: Read, axes: tuple[Axis, ...], body: Scalar, op: Compute) -> Compute:
    value = Value(_symbol(out, number, side, source.tensor.name), source.element, tuple(axis.extent for axis in axes))
    return Compute((value,), axes, None, (body,), op.span)


@lru_cache(maxsize=4096)
def _symbol(out: Symbol, number: int, side: int, name: str) -> Symbol:
    """Of a copy: the same in everything that is made of one program."""
    return fresh(f"{name}_{('rows', 'taps')[side]}")
