"""What of a step of a loop is kept for the loop that runs backwards: what would take more work to make again than to read.

Making a sum of products again takes as long as it took; what follows it, element by element, costs no more than reading it. So of
a layer of a network its products are kept, and norms, sums with the layer's input and what else lies between them are made again
where they are read. What another product reads is in memory once anyway, and kept as well, such as activations. Instead of what one
operation alone reads, element by element, its result is kept, if that is all the loop that runs backwards reads: a sum with a bias.

Scores of an attention, of queries by keys, are made again too, however much work they are: they would take far more memory than
what they are made of. Kept is what is not larger than that, such as statistics of their rows and their sums with values; and a
product by weights, in which each index of the weights that is not summed is one of the result's alone, as each layer has it.
Statistics of 16 bits are kept in their accumulator, f32, and rounded where they are read: kernels that read them do not round.
What is made of statistics alone is made again of these, such as a logarithm of a sum: a kernel has them at hand.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence, Set

from axon.base.data import replace
from axon.base.names import Symbol
from axon.core.gradients.making import layered
from axon.core.ir import Axis, Compress, Compute, Loop, Op, Read, Scan, Sort, Value
from axon.core.scalar_facts import certain, dims_variables
from axon.core.walk import all_axes, nodes, outs_of, scalars, tensors_of
from axon.shapes.dimension import Dim, no_larger

Shape = tuple[Dim, ...]


def worth_keeping(op: Loop, shapes: Mapping[Symbol, Shape]) -> tuple[Value, ...]:
    """The tensors that a step makes, besides what it results in, that are to be kept of every step; in the element types in which
    they are to be kept. With the shapes of the tensors around the loop."""
    made = (out for each in op.body.ops for out in outs_of(each))
    shapes = layered({value.symbol: value.shape for value in (*op.states, *made)}, shapes)
    inside = frozenset({op.counter, *(each.size for each in op.body.ops if isinstance(each, Compress))})
    moving = {state.symbol for state in op.states}  # what a step makes of its states; the rest is as good as from outside
    readers = Counter(symbol for each in op.body.ops for symbol in tensors_of(each))
    kept: dict[Symbol, Value] = {}
    near: dict[Symbol, Value] = {}  # what is made of that element by element
    far: dict[Symbol, frozenset[Symbol]] = {}  # what takes work to make again, and what is there that it is made of
    apart: dict[Symbol, set[Shape]] = {}  # the extents of indices each of which reads another element
    rows: set[Symbol] = set()  # statistics that are kept, and what is made of these alone
    fixed = _fixed(op)
    for each in op.body.ops:
        read = tensors_of(each)
        for symbol, extents in _read_apart(each):
            apart.setdefault(symbol, set()).add(extents)
        weights = isinstance(each, Compute) and _by_weights(each, moving)
        if not moving.isdisjoint(read):
            moving |= {out.symbol for out in outs_of(each)}
        of_rows = not rows.isdisjoint(read) and rows >= read & moving
        work = _own_work(each, [shapes.get(s, ()) for s in read])
        there = frozenset[Symbol]().union(*(far.get(symbol, (symbol,)) for symbol in read))
        if work:
            kept |= {symbol: near[symbol] for symbol in read & near.keys()}
        for out in outs_of(each):
            fits = any(no_larger(out.shape, shape) for s in there for shape in (shapes.get(s, ()), *apart.get(s, ())))
            lasting = out.element.is_float and all(extent.variables.isdisjoint(inside) for extent in out.shape)
            if not work and of_rows:
                rows.add(out.symbol)
            elif not work and far.keys().isdisjoint(read):
                if not _combines(each) and fits and lasting and not (kept.keys() | near.keys()).isdisjoint(read):
                    near[out.symbol] = out
                    if any(readers[s] == 1 and kept[s].element.bits >= out.element.bits for s in read & kept.keys()):
                        kept[out.symbol] = out
            elif _combines(each) and (fits or weights) and lasting and (work or out.element.accumulator is out.element):
                kept[out.symbol] = out
                rows |= set() if work else {out.symbol}
            elif isinstance(each, Compute) and _combines(each) and fits and lasting and out.symbol not in fixed:
                kept[out.symbol] = replace(out, element=out.element.accumulator)
                rows.add(out.symbol)
            else:
                far[out.symbol] = there
    return tuple(value for symbol, value in kept.items() if symbol not in op.body.results)


def _combines(op: Op) -> bool:
    """Whether an operation is more than what is computed element by element, which is as well made again of what is kept."""
    return isinstance(op, Scan | Sort) or (isinstance(op, Compute) and op.reduction is not None)


def _fixed(op: Loop) -> set[Symbol]:
    """The tensors of a step whose element types cannot change: its results, what no sum or its like makes, and what loops and their
    like read."""
    fixed = set(op.body.results)
    for each in op.body.ops:
        if not isinstance(each, Compute):
            fixed |= tensors_of(each)
        elif each.reduction is None or each.reduction.monoid.kind not in ("sum", "prod", "max", "min"):
            fixed |= {out.symbol for out in each.outs}
    return fixed


def _read_apart(op: Op) -> Iterator[tuple[Symbol, Shape]]:
    """The tensors of which an operation reads another element for each of some indices, and how far these go: of `t[i, h * 64 + c]`
    with c below 64, those of i, h and c. The tensor has at least as many elements."""
    if not isinstance(op, Compute) or (op.reduction is not None and op.reduction.where is not None):
        return
    axes = {axis.symbol: axis for axis in all_axes(op)}
    for node in (node for scalar in op.body for node in certain(scalar)):
        if not isinstance(node, Read) or node.padding is not None:
            continue
        places = [s for s in node.subscripts if isinstance(s, Dim)]
        found = [[axes[s] for s in sorted(place.variables & axes.keys(), key=lambda s: s.id)] for place in places]
        every = [axis for each in found for axis in each]
        boxed = all(axis.extent.variables.isdisjoint(axes) for axis in every)
        if boxed and len(set(every)) == len(every) and all(map(_are_digits, places, found)):
            yield node.tensor, tuple(axis.extent for axis in every)


def _are_digits(subscript: Dim, axes: Sequence[Axis]) -> bool:
    """Whether a subscript is another number for other values of these indices, as their digits are in it."""
    left, unit = list(axes), Dim.of(1)
    while left:
        found = next((a for a in left if (split := subscript.linear_in(a.symbol)) is not None and split[0] == unit), None)
        if found is None:
            return False
        left.remove(found)
        unit *= found.extent
    return True


def _own_work(op: Op, read: Sequence[Shape]) -> bool:
    """Whether making an operation's results takes longer than going through what it reads, with the shapes of that."""
    match op:
        case Loop() | Sort():
            return True
        case Compute(reduction=reduction) if reduction is not None:
            extents = tuple(axis.extent for axis in (*op.axes, *reduction.axes))
            return not any(no_larger(extents, shape) for shape in read)
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
