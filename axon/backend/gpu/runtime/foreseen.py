"""What can be said of the parts of a program before a call: the tensors between them, and sizes at which their kernels are built or
explained: of what data decide the most there can be, of a loop its middle.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from axon.backend.plan.walk import Lives, lives
from axon.base.names import Symbol
from axon.core.ir import Check, Compress, Compute, Program, Scan, Sort, Value
from axon.core.passes.parts import HostLoop, Part, Parts, PartsBody, Straight
from axon.core.walk import outs_of, tensors_of
from axon.shapes.dimension import Dim

TYPICAL_TRIP = 8  # steps of a loop of which data decide how many there are


def typical(body: PartsBody, sizes: dict[Symbol, int], values: Mapping[Symbol, Value]) -> Iterator[tuple[Part, dict[Symbol, int]]]:
    """Every part but loops, whose parts come in their place, with all sizes that are known there."""
    for part in body.parts:
        match part:
            case Straight() | Sort() | Check():
                yield part, dict(sizes)
            case HostLoop():
                trip = part.trip.evaluate(sizes) if isinstance(part.trip, Dim) else TYPICAL_TRIP
                yield from typical(part.body, {**sizes, part.op.counter: max(0, trip) // 2}, values)
            case Compress(size=size, mask=mask):
                yield part, dict(sizes)
                sizes[size] = values[mask].shape[0].evaluate(sizes)
            case _:
                assert_never(part)


def values_between(split: Parts) -> dict[Symbol, Value]:
    """Every tensor that lies between parts, or is an input or a table."""
    found = {value.symbol: value for value in split.rest.inputs}

    def visit(body: PartsBody) -> None:
        for part in body.parts:
            if isinstance(part, HostLoop):
                found.update((state.symbol, state) for state in part.op.states)
                visit(part.body)
            found.update((value.symbol, value) for value in made(part))

    visit(split.body)
    return found


def made(part: Part) -> tuple[Value, ...]:
    """The tensors that a part leaves in memory."""
    return part.results if isinstance(part, Straight) else outs_of(part.op if isinstance(part, HostLoop) else part)


def reads(part: Part) -> frozenset[Symbol]:
    """The tensors that a part needs from outside, and what its steps need."""
    match part:
        case Straight(program=program):
            return frozenset(value.symbol for value in program.inputs)
        case HostLoop(op=op, trip=trip, body=body):
            count = frozenset() if isinstance(trip, Dim) else frozenset((trip,))
            return count.union(op.initial, body.results, *map(reads, body.parts))
        case Sort() | Compress() | Check():
            return tensors_of(part)
        case _:
            assert_never(part)


def mentioned(part: Part, counts: Mapping[Symbol, Program]) -> frozenset[Symbol]:
    """The dimensions on which anything in a part depends; of some trip counts that are tensors it is known what computes them."""
    match part:
        case Straight(program=program):
            return frozenset(program.explicit)
        case HostLoop(op=op, trip=trip, body=body):
            own = trip.variables if isinstance(trip, Dim) else frozenset(counts[trip].explicit if trip in counts else ())
            shapes = (d.variables for value in (*op.states, *op.outs) for d in value.shape)
            return own.union(*shapes, *(mentioned(inner, counts) for inner in body.parts))
        case Sort() | Compress():
            return frozenset(v for value in outs_of(part) for d in value.shape for v in d.variables)
        case Check():
            return part.left.variables | part.right.variables
        case _:
            assert_never(part)


def lives_of(body: PartsBody) -> Lives:
    """What of a body lives how long."""
    return lives(body.parts, body.results, reads, lambda part: [value.symbol for value in made(part)])


def of_extents(program: Program) -> frozenset[Symbol]:
    """The dimensions on which a shape or an extent depends."""
    found = {v for value in program.inputs for d in value.shape for v in d.variables}
    for op in program.block.ops:
        assert isinstance(op, Compute | Scan), "a straight part is straight"
        axes = op.axes if isinstance(op, Scan) or op.reduction is None else (*op.axes, *op.reduction.axes)
        found |= {v for axis in axes for v in axis.extent.variables}
    return frozenset(found)
