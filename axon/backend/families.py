"""Core to GPU kernels: which operations become one kernel, and of which family."""

from __future__ import annotations

from collections.abc import Iterator

from axon.backend.contraction import Contraction, Group, contraction
from axon.backend.unsupported import Unsupported
from axon.core import Compute, Op, Program, Value
from axon.core_walk import reads
from axon.names import Symbol


def kernels(program: Program) -> tuple[Contraction, ...]:
    """The kernels of a program, in order. Raises `Unsupported` for an operation that no family here takes."""
    ops = program.block.ops
    values = {v.symbol: v for v in program.inputs}
    values |= {out.symbol: out for op in ops for out in _outs(op)}
    found: list[Contraction] = []
    taken: set[int] = set()
    for number, op in enumerate(ops):
        if number in taken:
            continue
        if not isinstance(op, Compute):
            raise Unsupported(f"`{type(op).__name__.lower()}` has no kernel family", getattr(op, "span", None))
        group = Group(contraction(op, values))
        members = {number}
        for later in range(number + 1, len(ops)):
            candidate = ops[later]
            if later not in taken and isinstance(candidate, Compute) and group.absorb(candidate):
                members.add(later)
        taken |= members
        wanted = set(program.block.results)
        wanted |= {s for i, other in enumerate(ops) if i not in members for s in _tensors(other)}
        found.append(group.finish(wanted))
    return tuple(found)


def _outs(op: Op) -> tuple[Value, ...]:
    match op:
        case Compute():
            return op.outs
        case _:
            return ()


def _tensors(op: Op) -> Iterator[Symbol]:
    if isinstance(op, Compute):
        scalars = list(op.body)
        if op.reduction and op.reduction.where is not None:
            scalars.append(op.reduction.where)
        for scalar in scalars:
            yield from (r.tensor for r in reads(scalar))
