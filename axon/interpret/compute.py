"""Compute and Scan: a domain of indices, filled block by block."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from axon.base.names import Symbol
from axon.base.source import Span
from axon.core.ir import Axis, Compute, Reduction, Scan, element_of
from axon.interpret.arithmetic import Array, widen
from axon.interpret.box import OPERAND, Block, Box, allocate, box_of, points
from axon.interpret.frame import Frame, Masks, size_of
from axon.interpret.products import ProductPlan, contract, plan
from axon.interpret.reduction import State, accumulate, all_of, front, reducer, rounded
from axon.interpret.scalar import depends, evaluate, product

Dims = Mapping[Symbol, int]
Tensors = Mapping[Symbol, Array]


def compute(op: Compute, dims: Dims, tensors: Tensors) -> list[Array]:
    """The operation's values."""
    box = box_of(op.axes, dims, op.span)
    outs = [allocate(box.sizes, out.element.dtype) for out in op.outs]
    if box.empty:
        return outs
    if op.reduction is not None:
        _reduce(op, op.reduction, box, outs, dims, tensors)
        return outs
    for block in box.blocks(box.chunk([range(len(box.sizes))], points(op.body))):
        frame = box.frame(block, dims, tensors, op.span)
        _store(outs, block, [evaluate(body, frame) for body in op.body])
    return outs


def _store(outs: Sequence[Array], block: Block, values: Sequence[Array]) -> None:
    """Put values of the block, with dimension 0 spare, where they belong."""
    place = (np.newaxis, *[slice(low, high) for low, high in block])
    for out, value in zip(outs, values, strict=True):
        out[place] = value


# ── reductions ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _reduce(op: Compute, reduction: Reduction, domain: Box, outs: list[Array], dims: Dims, tensors: Tensors) -> None:
    """Fill `outs` over a domain that is not empty."""
    box, ragged = _hull(reduction, domain, dims, tensors, op.span)
    how = None
    if reduction.monoid.kind == "sum" and not box.empty:
        symbols = frozenset(box.symbols)
        masked = frozenset().union(*[axis.extent.variables & symbols | {axis.symbol} for axis in ragged])
        if reduction.where is not None:
            masked |= depends(reduction.where, symbols, {})
        how = plan(op.body[0], masked, len(domain.sizes), box)
    if how is None or not _fill(op, reduction, domain, box, ragged, how, outs, dims, tensors):
        _fill(op, reduction, domain, box, ragged, None, outs, dims, tensors)


def _hull(reduction: Reduction, domain: Box, dims: Dims, tensors: Tensors, span: Span | None) -> tuple[Box, tuple[Axis, ...]]:
    """Domain and reduced axes as a box that holds all their points, and the axes whose extents vary inside it."""
    box = domain
    ragged: tuple[Axis, ...] = ()
    for axis in reduction.axes:
        if axis.extent.variables.isdisjoint(box.symbols):
            size = size_of(axis.extent, dims, span)
        elif box.empty:
            size = 0
        else:
            frame = box.frame(tuple((0, n) for n in box.sizes), dims, tensors, span)
            masks = _inside(ragged, frame)
            extents = frame.index(axis.extent, masks)
            size = int(np.where(all_of(masks), extents, 0).max() if masks else extents.max())
            ragged = (*ragged, axis)
        box = Box((*box.symbols, axis.symbol), (*box.sizes, max(0, size)))
    return box, ragged


def _inside(ragged: tuple[Axis, ...], frame: Frame) -> Masks:
    """Where indices are below extents that vary; conditions that hold everywhere are left out."""
    masks: Masks = ()
    for axis in ragged:
        inside = frame.ramp(axis.symbol) < frame.index(axis.extent, masks)
        if not inside.all():
            masks = (*masks, inside)
    return masks


def _fill(
    op: Compute,
    reduction: Reduction,
    domain: Box,
    box: Box,
    ragged: tuple[Axis, ...],
    how: ProductPlan | None,
    outs: list[Array],
    dims: Dims,
    tensors: Tensors,
) -> bool:
    """Reduce block by block, with a plan as matrix products. False if the plan does not fit these values."""
    rank = len(domain.sizes)
    reduce = reducer(reduction.monoid, op.body)
    chunk = box.chunk([range(len(box.sizes))], points(op.body)) if how is None else box.chunk(how.groups, OPERAND)
    reduced = Box(box.symbols[rank:], box.sizes[rank:])
    for block in domain.blocks(chunk[:rank]):
        outer = domain.frame(block, dims, tensors, op.span)
        nothing = reduce.nothing(outer)  # a unit that fails stops the program, whether or not there is something to reduce
        state: State | None = None
        for piece in reduced.blocks(chunk[rank:]):
            inner = box.frame((*block, *piece), dims, tensors, op.span)
            masks = _inside(ragged, inner)
            if reduction.where is not None:
                kept = evaluate(reduction.where, inner, masks)
                if not kept.any():
                    continue  # a guard that does not hold, however large the range is
                if not kept.all():
                    masks = (*masks, kept)
            if how is None:
                part = reduce.partial(inner, outer, masks)
            else:
                total = contract(op.body[0], how, inner, rank, masks)
                if total is None:
                    return False
                part = [total, np.ones((1,) * outer.rank, np.bool_)]
            state = part if state is None else reduce.merge(state, part, outer)
        asked = None if reduction.asked is None else evaluate(reduction.asked, outer)
        results = reduce.finish(nothing if state is None else state, outer, asked)
        _store(outs, block, results)
    return True


# ── scans ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


def scan(op: Scan, dims: Dims, tensors: Tensors) -> list[Array]:
    """The operation's values."""
    box = box_of(op.axes, dims, op.span)
    outs = [allocate(box.sizes, out.element.dtype) for out in op.outs]
    domain = Box(box.symbols[:-1], box.sizes[:-1])
    if op.monoid.units and not domain.empty:  # one that fails stops the program, as in a reduction
        for block in domain.blocks(domain.chunk([range(len(domain.sizes))], points(op.monoid.units))):
            frame = domain.frame(block, dims, tensors, op.span)
            for unit in op.monoid.units:
                evaluate(unit, frame)
    if box.empty:
        return outs
    running = Box(box.symbols[-1:], box.sizes[-1:])
    chunk = box.chunk([range(len(box.sizes))], points(op.body))
    for block in domain.blocks(chunk[:-1]):
        outer = domain.frame(block, dims, tensors, op.span)
        carry: State | None = None
        for piece in running.blocks(chunk[-1:]):
            inner = box.frame((*block, *piece), dims, tensors, op.span)
            values = [front(value, inner, outer) for value in _addends(op, inner)]
            state = accumulate(op.monoid, values, carry, outer)
            carry = [s[-1:] for s in state]
            results = [np.moveaxis(r, 0, -1)[np.newaxis] for r in rounded(state, op.body)]
            _store(outs, (*block, *piece), results)
    return outs


def _addends(op: Scan, frame: Frame) -> list[Array]:
    """The bodies' values, those of a named monoid in its accumulator."""
    match op.monoid.kind:
        case "custom":
            return [evaluate(body, frame) for body in op.body]
        case "sum":
            return [product(op.body[0], frame, ())]
        case _:
            return [widen(evaluate(op.body[0], frame), element_of(op.body[0]))]
