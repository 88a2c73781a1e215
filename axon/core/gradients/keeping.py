"""What of a step of a loop is kept for the loop that runs backwards: what would take more work to make again than to read.

Making a sum of products again takes as long as it took; what follows it, element by element, costs no more than reading it. So of
a layer of a network its products are kept, and norms, sums with the layer's input and what else lies between them are made again
where they are read. What another product reads is in memory once anyway, and kept as well, such as activations. Instead of what one
operation alone reads, element by element, its result is kept, if that is all the loop that runs backwards reads: a sum with a bias.

Scores of an attention, of queries by keys, are made again too, however much work they are: they would take far more memory than
what they are made of. Kept is what is not larger than that, such as statistics of their rows; and a product by weights, in which
each index of the weights that is not summed is one of the result's alone, as each layer has it. Statistics of 16 bits are made
again: kernels hold them in 32, and would lose digits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from math import prod

from axon.base.names import Symbol
from axon.core.gradients.making import layered
from axon.core.ir import Compress, Compute, Loop, Op, Read, Scan, Sort, Value
from axon.core.scalar_facts import dims_variables
from axon.core.walk import nodes, outs_of, scalars, tensors_of
from axon.shapes.dimension import Dim

Shape = tuple[Dim, ...]


def worth_keeping(op: Loop, shapes: Mapping[Symbol, Shape]) -> tuple[Value, ...]:
    """The tensors that a step makes, besides what it results in, that are to be kept of every step; with the shapes of the tensors
    around the loop."""
    made = (out for each in op.body.ops for out in outs_of(each))
    shapes = layered({value.symbol: value.shape for value in (*op.states, *made)}, shapes)
    inside = frozenset({op.counter, *(each.size for each in op.body.ops if isinstance(each, Compress))})
    moving = {state.symbol for state in op.states}  # what a step makes of its states; the rest is as good as from outside
    readers = Counter(symbol for each in op.body.ops for symbol in tensors_of(each))
    kept: dict[Symbol, Value] = {}
    near: dict[Symbol, Value] = {}  # what is made of that element by element
    far: dict[Symbol, frozenset[Symbol]] = {}  # what takes work to make again, and what is there that it is made of
    for each in op.body.ops:
        read = tensors_of(each)
        weights = isinstance(each, Compute) and _by_weights(each, moving)
        if not moving.isdisjoint(read):
            moving |= {out.symbol for out in outs_of(each)}
        work = _own_work(each, [shapes.get(s, ()) for s in read])
        there = frozenset[Symbol]().union(*(far.get(symbol, (symbol,)) for symbol in read))
        if work:
            kept |= {symbol: near[symbol] for symbol in read & near.keys()}
        for out in outs_of(each):
            fits = any(_no_larger(out.shape, shapes.get(s, ())) for s in there)
            lasting = out.element.is_float and all(extent.variables.isdisjoint(inside) for extent in out.shape)
            if not work and far.keys().isdisjoint(read):
                if not _combines(each) and fits and lasting and not (kept.keys() | near.keys()).isdisjoint(read):
                    near[out.symbol] = out
                    if any(readers[s] == 1 and kept[s].element.bits >= out.element.bits for s in read & kept.keys()):
                        kept[out.symbol] = out
            elif _combines(each) and (fits or weights) and lasting and (work or out.element.bits > 16):
                kept[out.symbol] = out
            else:
                far[out.symbol] = there
    return tuple(value for symbol, value in kept.items() if symbol not in op.body.results)


def _combines(op: Op) -> bool:
    """Whether an operation is more than what is computed element by element, which is as well made again of what is kept."""
    return isinstance(op, Scan | Sort) or (isinstance(op, Compute) and op.reduction is not None)


def _own_work(op: Op, read: Sequence[Shape]) -> bool:
    """Whether making an operation's results takes longer than going through what it reads, with the shapes of that."""
    match op:
        case Loop() | Sort():
            return True
        case Compute(reduction=reduction) if reduction is not None:
            extents = tuple(axis.extent for axis in (*op.axes, *reduction.axes))
            return not any(_no_larger(extents, shape) for shape in read)
        case _:
            return False


def _by_weights(op: Compute, moving: Set[Symbol]) -> bool:
    """Whether an operation sums products with tensors that do not move, each of whose indices is summed, or nobody else's."""
    if op.reduction is None:
        return False
    summed = {axis.symbol for axis in op.reduction.axes}
    read = [node for scalar in scalars(op) for node in nodes(scalar) if isinstance(node, Read)]
    outer = [node for node in read if node.tensor not in moving]
    inner = frozenset[Symbol]().union(*(dims_variables(node) for node in read if node.tensor in moving))
    indices = frozenset(axis.symbol for axis in op.axes)
    varying = [node for node in outer if not dims_variables(node).isdisjoint(summed)]
    return bool(varying) and all(
        all(isinstance(s, Dim) for s in node.subscripts) and (dims_variables(node) & indices).isdisjoint(inner) for node in varying
    )


def _no_larger(shape: Sequence[Dim], other: Sequence[Dim]) -> bool:
    """Whether a tensor surely has no more elements than another one, which has some: but for numbers, its extents are among the
    other's."""
    rest = list(other)
    more = 1
    for extent in shape:
        if extent in rest:
            rest.remove(extent)
        elif extent.constant is not None:
            more *= extent.constant
        else:
            return False
    return more <= prod(extent.constant for extent in rest if extent.constant is not None)
