"""Tensors of which each step of a loop reads a part of its own: `layers[t, …]` in step t.

What such a tensor gets from a step is as large as that part. So the part becomes a tensor of the step, and the loop that runs
backwards gives the part's adjoint, instead of adding zeros for all others to a sum over steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.core.gradients.operations import axes_of
from axon.core.gradients.reads import within
from axon.core.gradients.rules import number
from axon.core.ir import Block, Check, Compress, Compute, Loop, Op, Read, Scalar, Scan, Select, Sort, Value
from axon.core.scalar_facts import bare, conjunction, mapped
from axon.core.walk import all_axes, nodes, rewrite, scalars
from axon.shapes.algebra.prove import Facts
from axon.shapes.dimension import Dim


def place_in_step(ops: Sequence[Op], results: Iterable[Symbol], tensor: Symbol, counter: Symbol) -> Dim | None:
    """The first index at which a step reads a tensor, if it is one alone, in every step another."""
    places: set[Dim] = set()
    inside: set[Symbol] = set()
    whole = tensor in results
    for op in _all(ops):
        match op:
            case Compute() | Scan():
                inside |= {axis.symbol for axis in all_axes(op)}
                for node in (node for scalar in scalars(op) for node in nodes(scalar)):
                    if isinstance(node, Read) and node.tensor == tensor:
                        first = node.subscripts[0] if node.subscripts else None
                        whole |= node.padding is not None or node.checked is not None or not isinstance(first, Dim)
                        if isinstance(first, Dim):
                            places.add(first)
            case Loop():
                inside.add(op.counter)
                counted = any(isinstance(node, Read) and node.tensor == tensor for node in nodes(op.trip))
                whole |= counted or tensor in op.initial or tensor in op.body.results
            case Sort():
                whole |= op.input == tensor
            case Compress():
                whole |= op.mask == tensor
            case Check():
                pass
    if whole or len(places) != 1:
        return None
    (place,) = places
    split = place.linear_in(counter)
    if split is None or split[0].constant not in (1, -1) or not place.variables.isdisjoint(inside):
        return None
    return place


def with_part(ops: Sequence[Op], value: Value, place: Dim, known: Facts) -> tuple[Value, Compute, tuple[Op, ...]]:
    """The part of a tensor at a first index as a tensor, what makes it, and operations that read it instead. A step that only reads
    it under conditions may have a place outside: there the part is 0."""
    part = Value(fresh(value.symbol.name), value.element, value.shape[1:])
    axes = axes_of(part)
    read: Scalar = Read(value.symbol, (place, *(Dim.of(a.symbol) for a in axes)), value.element)
    inside = conjunction(tuple(within(place, value.shape[0], known)))
    made = Compute((part,), axes, None, (read if inside is None else Select(inside, read, number(0, read)),))

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor != value.symbol:
            return None
        rest = tuple(s if isinstance(s, Dim) else rewrite(s, visit) for s in node.subscripts[1:])
        return replace(node, tensor=part.symbol, subscripts=rest)

    return part, made, _changed(ops, lambda scalar: rewrite(scalar, visit))


def in_place(ops: Sequence[Op]) -> tuple[Op, ...]:
    """Operations that read parts of tensors where these lie: no product on a GPU, which steps through memory, then has one copied
    first. What else reads a part, such as a sort, still has it."""
    parts: dict[Symbol, tuple[Symbol, Dim]] = {}
    made: list[Op] = []
    for op in ops:
        if parts:
            (op,) = _changed((op,), lambda scalar: _of_wholes(scalar, parts))
        made.append(op)
        if isinstance(op, Compute) and (found := _part(op)) is not None:
            parts[op.outs[0].symbol] = found
    return tuple(made)


def _of_wholes(scalar: Scalar, parts: Mapping[Symbol, tuple[Symbol, Dim]]) -> Scalar:
    """An expression that reads the wholes of parts, each at its first index."""

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor not in parts:
            return None
        whole, place = parts[node.tensor]
        rest = (s if isinstance(s, Dim) else _of_wholes(s, parts) for s in node.subscripts)
        padding = None if node.padding is None else _of_wholes(node.padding, parts)
        return replace(node, tensor=whole, subscripts=(place, *rest), padding=padding)

    return rewrite(scalar, visit)


def _part(op: Compute) -> tuple[Symbol, Dim] | None:
    """The tensor of which an operation copies all of a part, and at which first index that is."""
    read = op.body[0]
    if op.reduction is not None or len(op.outs) > 1 or not isinstance(read, Read) or read.padding is not None or read.checked:
        return None
    axes = tuple(axis.symbol for axis in op.axes)
    if len(read.subscripts) != len(axes) + 1 or tuple(map(bare, read.subscripts[1:])) != axes:
        return None
    place = read.subscripts[0]
    return (read.tensor, place) if isinstance(place, Dim) and place.variables.isdisjoint(axes) else None


def _all(ops: Sequence[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        if isinstance(op, Loop):
            yield from _all(op.body.ops)


def _changed(ops: Sequence[Op], change: Callable[[Scalar], Scalar]) -> tuple[Op, ...]:
    def changed(op: Op) -> Op:
        match op:
            case Compute() | Scan():
                return mapped(op, change)
            case Loop():
                return replace(op, body=Block(_changed(op.body.ops, change), op.body.results))
            case _:
                return op

    return tuple(map(changed, ops))
