"""What a program's inputs are known to hold is read there, and not made again.

    known: m is m0                                       y[i] = sum j => exp (s[i, j] - m0[i])
    s[i, j] = sum c => q[i, c] * k[j, c]          ->     s[i, j] = sum c => q[i, c] * k[j, c]
    m[i] = max j => s[i, j]
    y[i] = sum j => exp (s[i, j] - m[i])

A pass that finds out what a tensor is, statistics of rows for instance, looks at the program before; kernels are made of what comes
out. Operations that only what is known needed go too; what data may stop stays.
"""

from __future__ import annotations

from collections.abc import Sequence

from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.ir import Block, Compute, Op, Program
from axon.core.operands import with_tensors
from axon.core.scalar_facts import data_may_stop
from axon.core.walk import outs_of, tensors_of


def present(program: Program) -> Program:
    """The program that reads what is `known` from its inputs."""
    if not program.known:
        return program
    names, before = dict(program.known), list(program.block.ops)
    results = tuple(names.get(symbol, symbol) for symbol in program.block.results)
    ops = [with_tensors(op, names) for op in before]
    needed = _read(before, program.block.results)
    while True:
        now = _read(ops, results)
        kept = [op for op in ops if not _idle(op, now, needed)]
        if len(kept) == len(ops):
            return replace(program, block=Block(tuple(ops), results), known=())
        ops = kept


def _read(ops: Sequence[Op], results: Sequence[Symbol]) -> set[Symbol]:
    return set(results).union(*map(tensors_of, ops))


def _idle(op: Op, now: set[Symbol], before: set[Symbol]) -> bool:
    """Whether nobody needs any more what an operation makes."""
    if not isinstance(op, Compute) or data_may_stop(op):
        return False
    outs = {out.symbol for out in outs_of(op)}
    return bool(outs & before) and not outs & now
