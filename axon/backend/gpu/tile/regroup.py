"""Contractions whose result's indices tiles cannot be cut along as they stand: made in another order, and put in their own after.

    out[i, j, b] = sum k => a[i, k, b] * c[k, j, b]    becomes    made[b, i, j] = sum …    and    out[i, j, b] = made[b, i, j]

Tiles are cut along rows, columns, or several of them merged (`Merging`). Bulk copies store such a tile where merged indices stand
side by side and the columns last. Also a factor that does not depend on what is summed is multiplied after: where nothing else is
to be done, the product's own kernel takes that in again (see `epilogue`).

A factor that is computed on the way (see `computed`) is made of all that pointwise operations make of what it reads.

Where a result is small and its sums are long, few tiles would have all the work: parts of a sum, in f32, are tiles of their own.

    out[i, j] = sum k < 8 * n => a[i, k] * b[k, j]    becomes    made[p, i, j] = sum r < n => a[i, n * p + r] * b[n * p + r, j]
                                                      and        out[i, j] = sum p < 8 => made[p, i, j]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import lru_cache

from axon.backend.gpu.tile.computed import MOST_DEPTH, inlined, joined
from axon.backend.gpu.tile.contraction import APART, Merging, factors_of, sides_of
from axon.backend.gpu.tile.stacked import stacked
from axon.backend.plan.residues import by_residues, made_by_residues
from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Binary, Block, Compute, Op, Program, Read, Reduction, Scalar, Value
from axon.core.scalar_facts import may_stop
from axon.core.verify import verify_rewritten
from axon.core.walk import converted, nodes, outs_of, rename, renewed, tensors_of
from axon.shapes.dimension import Dim


@verified("regroup", verify_rewritten)
def regrouped(program: Program, merging: Mapping[Symbol, Merging]) -> Program:
    """The program with the contractions that make these in an order of indices in which their sides can be merged so."""
    if not merging:
        return program
    ops: list[Op] = []
    values = {value.symbol: value for value in program.inputs}
    values |= {out.symbol: out for op in program.block.ops for out in outs_of(op)}
    producers = pointwise(program.block.ops)
    for op in program.block.ops:
        chosen = merging.get(op.outs[0].symbol) if isinstance(op, Compute) else None
        if chosen is not None and chosen.beside is not None and isinstance(op, Compute):
            ops += in_order(inlined(op, *factors_of(op), chosen.beside, producers), chosen)
        else:
            ops += [op] if chosen is None or not isinstance(op, Compute) else _made(op, chosen, values)
    read = {symbol for op in program.block.ops for symbol in tensors_of(op)}
    return replace(program, block=Block(_needed(ops, read, program.block.results), program.block.results))


def pointwise(ops: Iterable[Op]) -> dict[Symbol, Compute]:
    """The pointwise operations, by what they make."""
    return {out.symbol: op for op in ops if isinstance(op, Compute) and op.reduction is None for out in op.outs}


def _needed(ops: Sequence[Op], read: Set[Symbol], results: tuple[Symbol, ...]) -> tuple[Op, ...]:
    """The operations without pointwise ones that nobody reads any longer."""
    wanted = set(results)
    kept: list[Op] = []
    for op in reversed(ops):
        outs = {out.symbol for out in outs_of(op)}
        unread = outs.isdisjoint(wanted) and not outs.isdisjoint(read)
        if not (unread and isinstance(op, Compute) and op.reduction is None and not may_stop(op)):
            kept.append(op)
            wanted |= set(tensors_of(op))
    return tuple(reversed(kept))


def _made(op: Compute, merging: Merging, values: Mapping[Symbol, Value]) -> tuple[Compute, ...]:
    """A contraction by residues, of copies with stacked axes, in an order of indices in which its sides can be merged so: what of
    that the merging asks for, each of what the one before leaves."""
    if merging.residues:
        split = by_residues(op)
        assert split is not None, "a sum that was split by residues before"
        return (*_made(split.first, replace(merging, residues=False), values), split.last)
    if merging.stacked is not None:
        made = stacked(op, merging.stacked, values)
        return (made.rows, made.taps, *in_order(made.product, replace(merging, stacked=None)))
    return in_order(op, merging)


def named(merging: Mapping[Symbol, Merging]) -> dict[Symbol, Merging]:
    """The same by what is made after contractions are put in order, too."""
    found: dict[Symbol, Merging] = {}
    for out, chosen in merging.items():
        chosen = replace(chosen, stacked=None)
        within, rest = (made_by_residues(out), replace(chosen, residues=False)) if chosen.residues else (out, chosen)
        found |= {out: chosen, within: rest, _symbol(within, rest): rest}
    return found


def in_order(op: Compute, merging: Merging) -> tuple[Compute, ...]:
    """A contraction of two factors in an order of indices in which its sides can be merged so; and what is left to do after it."""
    assert op.reduction is not None
    if merging.ragged or merging.segments:
        return (op,)
    deep, shallow = factors_of(op)
    if merging.beside is not None:
        if merging.parts == 1:
            return (op,)
        deep = [deep[0], joined(deep[1:])]
    axes = op.axes if merging.beside is not None else _order(op, deep, merging)
    if merging.parts == 1 and axes == op.axes and (not shallow or merging == APART):
        return (op,)
    (out,) = op.outs
    narrow = out.element.bits < Element.F32.bits and (shallow or merging.parts > 1)
    element = Element.F32 if narrow else out.element
    reduction, cut, part = _cut(op.reduction, merging) if merging.parts > 1 else (op.reduction, {}, ())
    left, right = (converted(rename(factor, cut), element) for factor in deep)
    made = Value(_symbol(out.symbol, merging), element, tuple(axis.extent for axis in (*part, *axes)))
    first = Compute((made,), (*part, *axes), reduction, (Binary("mul", left, right),), op.span)
    own, at = renewed(op.axes)
    product: Scalar = Read(made.symbol, tuple(at[axis.symbol] for axis in axes), element)
    ops = [first]
    if part:
        each = Axis(fresh("part"), part[0].extent)
        whole = Value(fresh(out.symbol.name), element, out.shape)
        added = replace(op.reduction, axes=(each,), where=None)
        parts = Read(made.symbol, (Dim.of(each.symbol), *(at[axis.symbol] for axis in axes)), element)
        ops.append(Compute((whole,), own, added, (parts,), op.span))
        own, at = renewed(op.axes)
        product = Read(whole.symbol, tuple(at.values()), element)
    for factor in shallow:
        product = Binary("mul", product, converted(rename(factor, at), element))
    return *ops, Compute((out,), own, None, (converted(product, out.element),), op.span)


def _cut(reduction: Reduction, merging: Merging) -> tuple[Reduction, dict[Symbol, Dim], tuple[Axis]]:
    """The sum over one of the parts, where in the whole one is, and the axis of parts."""
    axis = reduction.axes[merging.along]
    unit = MOST_DEPTH if merging.beside is not None else 1  # of quotients those of each part are their own
    extent = unit * (axis.extent // (unit * merging.parts))
    part, inside = Axis(fresh("part"), Dim.of(merging.parts)), Axis(fresh(axis.symbol.name), extent)
    axes = tuple(inside if each == axis else each for each in reduction.axes)
    at = inside.extent * Dim.of(part.symbol) + Dim.of(inside.symbol)
    return replace(reduction, axes=axes), {axis.symbol: at}, (part,)


def _order(op: Compute, deep: Sequence[Scalar], merging: Merging) -> tuple[Axis, ...]:
    """The axes of a contraction's result as tiles of merged sides can be stored: its own order, if that will do."""
    sides = sides_of(op, deep)
    left, right = reversed(deep) if sides.swapped else deep
    rows, columns = sides.tiled(merging)
    if _beside(rows, op.axes) and columns and op.axes[-len(columns) :] == columns:
        return op.axes
    rows, columns = _as_read(rows, left), _as_read(columns, right)
    return (*(a for a in op.axes if a not in rows and a not in columns), *rows, *columns)


def _beside(some: tuple[Axis, ...], axes: tuple[Axis, ...]) -> bool:
    return not some or axes[(start := axes.index(some[0])) : start + len(some)] == some


def _as_read(axes: tuple[Axis, ...], factor: Scalar) -> tuple[Axis, ...]:
    """Axes in the order in which a factor's subscripts mention them."""
    subscripts = list(_subscripts(factor))
    return tuple(sorted(axes, key=lambda axis: next(n for n, dim in enumerate(subscripts) if axis.symbol in dim.variables)))


def _subscripts(factor: Scalar) -> Iterator[Dim]:
    return (s for node in nodes(factor) if isinstance(node, Read) for s in node.subscripts if isinstance(s, Dim))


@lru_cache(maxsize=4096)
def _symbol(out: Symbol, merging: Merging) -> Symbol:
    """Of what is made in another order: the same in everything that is made of one program."""
    return fresh(out.name)
