"""Loops whose states are those of many that never look at each other, such as chains or examples: threads share the many.

    independent    a Repeat -> the size of which each index goes its own way, and which tensors have it; None if there is none

Each thread then runs the whole loop for a range of the indices, as if there were no more of them: the same native function, with
that size smaller. Of tensors that the host knows it gets addresses further on; what the loop makes in between lies in its part of
the same memory, or, if it does not have the size, in memory of the thread's own, where each thread computes it alike.

Note [Its own way]
    So it is where every operation of the body has at most one axis of that size, which is neither reduced nor scanned along nor
    looked at as a number, and reads every tensor that has the size at that axis alone. Tensors from outside, and what is needed
    afterwards, have the size first: a range of them lies in one piece.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from axon.backend.plan.ir import Contraction, Kernel, Kernels, Nest, Repeat, Whole
from axon.base.data import dataclass
from axon.base.names import Symbol
from axon.core.ir import Compute, Index, Read, Scalar, Scan, Value
from axon.core.walk import all_axes, nodes, outs_of, scalars
from axon.shapes.dimension import Dim


@dataclass(frozen=True, slots=True)
class Independent:
    """The size, and the tensors of the loop that have it."""

    size: Symbol
    tensors: frozenset[Symbol]


def independent(kernel: Repeat, values: Mapping[Symbol, Value]) -> Independent | None:
    """See Note [Its own way]."""
    op = kernel.op
    if op.stacked or not op.states:
        return None
    firsts = dict.fromkeys(state.shape[0].symbol for state in op.states if state.shape)
    made = {value.symbol for value in _made(kernel.body)} | {value.symbol for value in op.states}
    for size in firsts:
        if size is None or not all(_apart(inner, size, values) for inner in _kernels(kernel)):
            continue
        named = {symbol: values[symbol] for symbol in _named(kernel) if symbol in values}
        having = {symbol: value for symbol, value in named.items() if any(size in dim.variables for dim in value.shape)}
        outside = [value for symbol, value in having.items() if symbol not in made]
        if all(_once(value, size) for value in having.values()) and all(v.shape[0].symbol == size for v in outside):
            return Independent(size, frozenset(having))
    return None


def _once(value: Value, size: Symbol) -> bool:
    """Whether one dimension has the size, and no other speaks of it."""
    return sum(size in dim.variables for dim in value.shape) == sum(dim.symbol == size for dim in value.shape) <= 1


def _apart(kernel: Kernel, size: Symbol, values: Mapping[Symbol, Value]) -> bool:
    match kernel:
        case Nest(steps=steps):
            return all(_keeps(step, size, values) for step in steps)
        case Contraction(op=op, epilogue=epilogue):
            return all(_keeps(step, size, values) for step in (op, *epilogue))
        case Repeat(op=op):
            return not isinstance(op.trip, Index) or size not in op.trip.dim.variables
        case Whole():
            return False


def _keeps(op: Compute | Scan, size: Symbol, values: Mapping[Symbol, Value]) -> bool:
    """Whether an operation keeps to its own index of the size."""
    along = [axis for axis in all_axes(op) if size in axis.extent.variables]
    mixed = op.axes[-1:] if isinstance(op, Scan) else op.reduction.axes if op.reduction is not None else ()
    if len(along) > 1 or any(axis in mixed or axis.extent.symbol != size for axis in along):
        return False
    own = along[0].symbol if along else None
    foreign = {size} if own is None else {size, own}
    for scalar in scalars(op):
        for node in nodes(scalar):
            if isinstance(node, Index) and not foreign.isdisjoint(node.dim.variables):
                return False
            if isinstance(node, Read) and not _reads_own(node, size, own, values[node.tensor]):
                return False
    return True


def _reads_own(read: Read, size: Symbol, own: Symbol | None, value: Value) -> bool:
    for subscript, extent in zip(read.subscripts, value.shape, strict=True):
        named: Iterable[Symbol] = subscript.variables if isinstance(subscript, Dim) else ()
        if size in extent.variables:
            if own is None or not isinstance(subscript, Dim) or subscript.symbol != own:
                return False
        elif size in named or (own is not None and own in named):
            return False
    return True


def _kernels(kernel: Repeat) -> Iterator[Kernel]:
    yield kernel
    for inner in kernel.body.kernels:
        if isinstance(inner, Repeat):
            yield from _kernels(inner)
        else:
            yield inner


def _made(kernels: Kernels) -> Iterator[Value]:
    """What is made inside, in each step anew."""
    for kernel in kernels.kernels:
        match kernel:
            case Nest(steps=steps):
                yield from (out for step in steps for out in step.outs)
            case Contraction(op=op, epilogue=epilogue):
                yield from (out for step in (op, *epilogue) for out in step.outs)
            case Repeat(op=op, body=body):
                yield from (*op.outs, *op.states)
                yield from _made(body)
            case Whole(op=whole):
                yield from outs_of(whole)


def _named(kernel: Repeat) -> Iterator[Symbol]:
    """Every tensor that a loop speaks of."""
    for inner in _kernels(kernel):
        match inner:
            case Nest(steps=steps):
                ops: tuple[Compute | Scan, ...] = steps
            case Contraction(op=op, epilogue=epilogue):
                ops = (op, *epilogue)
            case Repeat(op=loop, body=body):
                yield from (*(value.symbol for value in (*loop.outs, *loop.states)), *loop.initial, *body.results)
                yield from _tensors((loop.trip,))
                continue
            case Whole():
                continue
        for step in ops:
            yield from (out.symbol for out in step.outs)
            yield from _tensors(scalars(step))


def _tensors(found: Iterable[Scalar]) -> Iterator[Symbol]:
    return (node.tensor for scalar in found for node in nodes(scalar) if isinstance(node, Read))
