"""Core to GPU kernels: which operations become one kernel, and of which family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeAlias

from axon.backend.contraction import Contraction, contraction
from axon.backend.epilogue import Group
from axon.backend.stream import Found, Stream, stream
from axon.backend.unsupported import Unsupported
from axon.core import Compute, Local, Op, Program, Value
from axon.core_cse import deduplicated
from axon.core_walk import nodes, reads
from axon.names import Symbol

Kernel: TypeAlias = "Contraction | Stream"


def kernels(program: Program) -> tuple[Kernel, ...]:
    """The kernels of a program, in order. Raises `Unsupported` for an operation that no family here takes."""
    program = deduplicated(program)
    ops = program.block.ops
    values = {v.symbol: v for v in program.inputs}
    values |= {out.symbol: out for op in ops if isinstance(op, Compute) for out in op.outs}
    makers = {out.symbol: n for n, op in enumerate(ops) if isinstance(op, Compute) for out in op.outs}
    found: list[Kernel] = []
    taken: set[int] = set()
    streams, refused = _streams(program, values)
    for number, op in enumerate(ops):
        if number in taken or any(number in inner and number != last for last, (_, inner) in streams.items()):
            continue
        if not isinstance(op, Compute):
            raise Unsupported(f"`{type(op).__name__.lower()}` has no kernel family", getattr(op, "span", None))
        known: tuple[tuple[Symbol, tuple[Symbol, ...], Local], ...] = ()
        members = {number}
        if number in streams:
            made, inner = streams[number]
            known = made.statistics
            group: Group[Kernel] = Group(made.stream, known)
            members |= inner
        else:
            try:
                group = Group(contraction(op, values))
            except Unsupported as reason:
                raise refused or reason from None
        for later in range(number + 1, len(ops)):
            candidate = ops[later]
            if later in taken or not isinstance(candidate, Compute):
                continue
            # What it reads must be there when this kernel runs: `x @ b + x` is no epilogue of the kernel that makes x.
            if all(makers.get(s, number) in taken | members for s in _tensors(candidate)) and group.absorb(candidate):
                members.add(later)
        taken |= members
        wanted = set(program.block.results)
        wanted |= {s for i, other in enumerate(ops) if i not in members for s in _tensors(other)}
        for tensor, _, _ in known:
            if tensor in wanted:
                raise Unsupported(f"`{tensor.name}`, which has one value per row, is needed outside its kernel", op.span)
        finished = group.finish(wanted)
        found.append(_pruned(finished) if isinstance(finished, Stream) else finished)
    return tuple(found)


def _streams(program: Program, values: Mapping[Symbol, Value]) -> tuple[dict[int, tuple[Found, set[int]]], Unsupported | None]:
    """The streams by the number of their last operation, with the operations inside; and why the first that is none is none."""
    ops = program.block.ops
    producers = {out.symbol: op for op in ops if isinstance(op, Compute) for out in op.outs}
    numbers = {out.symbol: i for i, op in enumerate(ops) if isinstance(op, Compute) for out in op.outs}
    found: dict[int, tuple[Found, set[int]]] = {}
    refused: Unsupported | None = None
    for number, op in enumerate(ops):
        if not isinstance(op, Compute) or op.reduction is None:
            continue
        try:
            made = stream(op, producers, values)
        except Unsupported as reason:
            if reason.near and refused is None:
                refused = reason
            continue
        shared, inner = _shared(made, number, program, numbers)
        if shared:
            others = [o for i, o in enumerate(ops) if i not in inner and i != number and set(_tensors(o)) & shared]
            made = stream(op, producers, values, [o for o in others if isinstance(o, Compute) and o.reduction])
            shared, inner = _shared(made, number, program, numbers)
        if shared:
            names = ", ".join(f"`{s.name}`" for s in sorted(shared, key=lambda s: s.id))
            refused = refused or Unsupported(f"{names} is needed outside the one pass that makes it", op.span)
            continue
        found[number] = (made, inner)
    return found, refused


def _shared(found: Found, last: int, program: Program, numbers: Mapping[Symbol, int]) -> tuple[set[Symbol], set[int]]:
    """What a stream makes on its way that something else needs, and the operations that it takes in beside its last."""
    ops = program.block.ops
    inner = {numbers[s] for s in found.used}
    outside = [op for i, op in enumerate(ops) if i not in inner and i != last]
    needed = {s for op in outside for s in _tensors(op)} | set(program.block.results)
    rows = {tensor for tensor, _, _ in found.statistics}
    return {out.symbol for i in inner for out in _outs(ops[i]) if out.symbol in needed and out.symbol not in rows}, inner


def _pruned(kernel: Stream) -> Stream:
    """Without the row values that no result uses."""
    used = {n.symbol for r in kernel.results for n in nodes(r.expression) if isinstance(n, Local)}
    return replace(kernel, finals=tuple((symbol, value) for symbol, value in kernel.finals if symbol in used))


def _outs(op: Op) -> tuple[Value, ...]:
    return op.outs if isinstance(op, Compute) else ()


def _tensors(op: Op) -> Iterator[Symbol]:
    if isinstance(op, Compute):
        scalars = list(op.body)
        if op.reduction and op.reduction.where is not None:
            scalars.append(op.reduction.where)
        for scalar in scalars:
            yield from (r.tensor for r in reads(scalar))
