"""Literal tables as data: a tensor that a program states in full is made once, by the interpreter, and not compiled.

    t = [| 0.5, 0.25, … |]     in core a tree of choices, as long as the table; compiling it costs milliseconds for each element

A pointwise operation is a table if it depends on nothing but its own axes, their extents are constant, and its expression is longer
than the tensor that it makes. What is computed from a formula stays code, however large it is. A table is a further input of the
program, wherever it stands: what a loop states is not made in each of its steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.core.ir import Axis, Block, Compute, Index, Loop, Op, Program, Read, Scalar, Value
from axon.core.scalar_facts import may_fail, size
from axon.core.verify import CoreInvalid, verify_piece, verify_rewritten
from axon.core.walk import nodes
from axon.shapes.contracts.contract import Contract
from axon.shapes.dimension import Dim

FEW = 16  # elements, below which choices are as quick as memory


def _verify(made: tuple[Program, tuple[Compute, ...]], given: Program, **_: bool) -> None:
    """The program keeps the rules of core with its tables as further inputs, and they need nothing of it."""
    rest, tables = made
    if rest is given:
        return
    outs = tuple(out for op in tables for out in op.outs)
    if rest.inputs != (*given.inputs, *outs):
        raise CoreInvalid("the inputs are not those of the program and its tables")
    verify_piece(
        replace(given, explicit=(), inputs=(), contract=Contract((), ()), block=Block(tables, tuple(v.symbol for v in outs)))
    )
    verify_rewritten(rest, replace(given, inputs=rest.inputs))


@verified("tables", _verify)
def without_tables(program: Program, *, results_apart: bool = False) -> tuple[Program, tuple[Compute, ...]]:
    """The program with its tables as further inputs, and the operations that make them.

    With `results_apart` no result is a table: one that would be is a tensor of its own, to which the program copies the table.
    """
    found: list[Compute] = []
    block = _without(program.block, frozenset(program.block.results) if results_apart else frozenset(), found)
    if not found:
        return program, ()
    return replace(program, inputs=(*program.inputs, *(out for op in found for out in op.outs)), block=block), tuple(found)


def values_of(tables: Sequence[Compute]) -> dict[Symbol, Any]:
    """The arrays that tables are, each in rows."""
    if not tables:
        return {}
    from axon.interpret.compute import compute

    with np.errstate(all="ignore"):
        made = [(op.outs, compute(op, {}, {})) for op in tables]
    return {out.symbol: np.ascontiguousarray(array) for outs, arrays in made for out, array in zip(outs, arrays, strict=True)}


def _without(block: Block, apart: frozenset[Symbol], found: list[Compute]) -> Block:
    kept: list[Op] = []
    for op in block.ops:
        if isinstance(op, Compute) and _is_table(op):
            own = {out.symbol: replace(out, symbol=fresh(out.symbol.name)) for out in op.outs if out.symbol in apart}
            found.append(replace(op, outs=tuple(own.get(out.symbol, out) for out in op.outs)))
            kept += [_copied(op, out, own[out.symbol]) for out in op.outs if out.symbol in own]
        else:
            kept.append(replace(op, body=_without(op.body, frozenset(), found)) if isinstance(op, Loop) else op)
    return Block(tuple(kept), block.results)


def _copied(op: Compute, out: Value, table: Value) -> Compute:
    axes = tuple(Axis(fresh(axis.symbol.name), axis.extent) for axis in op.axes)
    here = tuple(Dim.of(axis.symbol) for axis in axes)
    return Compute((out,), axes, None, (Read(table.symbol, here, table.element),), op.span)


def _is_table(op: Compute) -> bool:
    extents = [axis.extent.constant for axis in op.axes]
    if op.reduction is not None or any(extent is None for extent in extents):
        return False
    points = prod(extent for extent in extents if extent is not None)
    own = frozenset(axis.symbol for axis in op.axes)
    return points >= FEW and all(size(s, points + 1) > points and _is_closed(s, own) and not may_fail(s) for s in op.body)


def _is_closed(scalar: Scalar, axes: frozenset[Symbol]) -> bool:
    return all(not isinstance(n, Read) and not (isinstance(n, Index) and not n.dim.variables <= axes) for n in nodes(scalar))
