"""Literal tables as data: a tensor that a program states in full is made once, by the interpreter, and not compiled.

    t = [| 0.5, 0.25, … |]     in core a tree of choices, as long as the table; compiling it costs milliseconds for each element

A pointwise operation is a table if it depends on nothing but its own axes, their extents are constant, and its expression is longer
than the tensor that it makes. What is computed from a formula stays code, however large it is.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

from axon.backend.scalar_facts import may_fail, size
from axon.core import Block, Compute, Index, Loop, Op, Program, Read, Scalar, Value
from axon.core_walk import nodes
from axon.names import Symbol

FEW = 16  # elements, below which choices are as quick as memory


def without_tables(program: Program) -> tuple[Program, dict[Symbol, Any]]:
    """The program with its tables as further inputs, and their values."""
    found: list[Compute] = []
    block = _without(program.block, found)
    if not found:
        return program, {}
    from axon.interpret.compute import compute

    made: dict[Symbol, Any] = {}
    values: list[Value] = []
    with np.errstate(all="ignore"):
        for op in found:
            values += op.outs
            made.update(zip((out.symbol for out in op.outs), map(np.ascontiguousarray, compute(op, {}, {})), strict=True))
    return replace(program, inputs=(*program.inputs, *values), block=block), made


def _without(block: Block, found: list[Compute]) -> Block:
    kept: list[Op] = []
    for op in block.ops:
        if isinstance(op, Compute) and _is_table(op):
            found.append(op)
        else:
            kept.append(replace(op, body=_without(op.body, found)) if isinstance(op, Loop) else op)
    return Block(tuple(kept), block.results)


def _is_table(op: Compute) -> bool:
    extents = [axis.extent.constant for axis in op.axes]
    if op.reduction is not None or any(extent is None for extent in extents):
        return False
    points = prod(extent for extent in extents if extent is not None)
    own = frozenset(axis.symbol for axis in op.axes)
    return points >= FEW and all(size(s, points + 1) > points and _is_closed(s, own) and not may_fail(s) for s in op.body)


def _is_closed(scalar: Scalar, axes: frozenset[Symbol]) -> bool:
    return all(not isinstance(n, Read) and not (isinstance(n, Index) and not n.dim.variables <= axes) for n in nodes(scalar))
