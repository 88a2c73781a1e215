"""What a program's inputs are known to hold is read there, and not made again.

    known: m is m0                                       y[i] = sum j => exp (s[i, j] - m0[i])
    s[i, j] = sum c => q[i, c] * k[j, c]          ->     s[i, j] = sum c => q[i, c] * k[j, c]
    m[i] = max j => s[i, j]
    y[i] = sum j => exp (s[i, j] - m[i])

What an input holds at some of its places, as of one step of a loop, is read there. A pass that finds out what a tensor is,
statistics of rows for instance, looks at the program before; kernels are made of what comes out. Operations that only what is known
needed go too; what data may stop stays.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Block, Compute, Known, Op, Program, Read, Scalar, Scan
from axon.core.operands import with_tensors
from axon.core.scalar_facts import data_may_stop, mapped
from axon.core.walk import outs_of, rewrite, tensors_of
from axon.shapes.dimension import Dim


def present(program: Program) -> Program:
    """The program that reads what is `known` from its inputs."""
    if not program.known:
        return program
    names = {known.made: known.holds for known in program.known if not known.places}
    parts = {known.made: known for known in program.known if known.places}
    before = [_copied(op, parts) for op in program.block.ops]
    results = tuple(names.get(symbol, symbol) for symbol in program.block.results)
    ops = [_read_there(with_tensors(op, names), parts) for op in before]
    needed = _read(program.block.ops, program.block.results) | {known.made for known in program.known}
    while True:
        now = _read(ops, results)
        kept = [op for op in ops if not _idle(op, now, needed)]
        if len(kept) == len(ops):
            return replace(program, block=Block(tuple(ops), results), known=())
        ops = kept


def _copied(op: Op, parts: Mapping[Symbol, Known]) -> Op:
    """A part of an input, by an operation that copies it in place of one that makes it."""
    if not isinstance(op, Compute) or len(op.outs) > 1 or op.outs[0].symbol not in parts:
        return op
    known, (out,) = parts[op.outs[0].symbol], op.outs
    axes = tuple(Axis(fresh(symbol.name), extent) for symbol, extent in zip(known.axes, out.shape, strict=True))
    return Compute(op.outs, axes, None, (_held(known, [Dim.of(axis.symbol) for axis in axes], out.element),), op.span)


def _held(known: Known, at: Sequence[Dim], element: Element) -> Read:
    places = dict(zip(known.axes, at, strict=True))
    return Read(known.holds, tuple(place.substitute(places) for place in known.places), element)


def _read_there(op: Op, parts: Mapping[Symbol, Known]) -> Op:
    """An operation that reads parts of inputs where these lie, if it reads elements of them that are there."""

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in parts or node.padding is not None or node.checked is not None:
            return None
        at = [s for s in node.subscripts if isinstance(s, Dim)]
        return _held(parts[node.tensor], at, node.element) if len(at) == len(node.subscripts) else None

    return mapped(op, lambda scalar: rewrite(scalar, visit)) if parts and isinstance(op, Compute | Scan) else op


def _read(ops: Sequence[Op], results: Sequence[Symbol]) -> set[Symbol]:
    return set(results).union(*map(tensors_of, ops))


def _idle(op: Op, now: set[Symbol], before: set[Symbol]) -> bool:
    """Whether nobody needs any more what an operation makes."""
    if not isinstance(op, Compute) or data_may_stop(op):
        return False
    outs = {out.symbol for out in outs_of(op)}
    return bool(outs & before) and not outs & now
