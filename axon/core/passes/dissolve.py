"""Core to core: pointwise operations dissolve into those that read them; copies, equal operations and what nobody needs disappear.

    dissolve    a program -> one with the same results, in which each remaining operation is worth a step of its own

A pointwise operation is computed where it is read if that costs less than keeping its values. Note [Dissolving] says when. Values
that fail (a checked index, an integer division) are computed as often as they were: what may stop the program does not disappear,
and moves only where one operation reads each of its values once.

Note [Dissolving]
    A read recomputes if an axis of the reader does not occur in its subscripts: then one value is computed for many points. A
    pointwise value dissolves into all of its readers if every read is symbolic and unchecked (or, of a value that is another
    tensor's, converted, at indices that are as much inside of that one), and
      trivial   it is a read, a literal or an index, perhaps converted: always;
      single    it is read at one place that does not recompute;
      cheap     it costs at most CHEAP additions, at all places where it is read at most as many as MANY times that, and none of
                these recomputes. What does not vary along its last axis (`rsqrt (v[b] + 1e-5)` of a normalization) costs
                nothing: a reader finds it once for a row, or for the neighbours that it makes together.
    Anything else stays. A read with padding becomes a choice between the value's expression and the padding.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from math import prod
from operator import eq, ge, gt, le, lt, ne

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.base.passes import verified
from axon.base.source import Span
from axon.core.ir import (
    Binary,
    Bind,
    Block,
    Compute,
    Const,
    Convert,
    Index,
    Loop,
    Op,
    Program,
    Read,
    Scalar,
    Scan,
    Select,
    Sort,
    Unary,
    Value,
)
from axon.core.operands import with_tensors
from axon.core.scalar_facts import (
    at_least_0,
    bare,
    certain,
    conjunction,
    freshened,
    is_trivial,
    mapped,
    may_fail,
    may_stop,
    operands,
    relabelled,
    renamed,
    size,
    substitute,
    weight,
)
from axon.core.verify import verify_rewritten
from axon.core.walk import all_axes, converted, nodes, outs_of, rewrite, scalars, tensors_of
from axon.shapes.dimension import Dim, DimensionTooLarge

CHEAP = 4
MANY = 4
FEW = 8
LARGE = 400  # nodes of one expression, which dissolving never passes

_OF_ONE = ("sum", "prod", "max", "min", "any", "all")  # whose value of one is that one
_COMPARED = {"eq": eq, "ne": ne, "lt": lt, "le": le, "gt": gt, "ge": ge}


@verified("dissolve", verify_rewritten)
def dissolve(program: Program) -> Program:
    return replace(program, block=_block(program.block, {v.symbol: v.shape for v in program.inputs}))


def _block(block: Block, around: Mapping[Symbol, tuple[Dim, ...]]) -> Block:
    """`around` are the tensors that stand before the block, with their shapes."""
    ops, results, shapes = _without_copies(block, around)
    for position in reversed(range(len(ops))):
        op = ops[position]
        if isinstance(op, Compute) and op.reduction is None:
            ops[position : position + 1] = _split(op)
    slots: list[Op | None] = [*ops]
    readers: defaultdict[Symbol, set[int]] = defaultdict(set)
    for position, op in enumerate(ops):
        for symbol in tensors_of(op):
            readers[symbol].add(position)

    def put(position: int, old: Op, new: Op | None) -> None:
        slots[position] = new
        before, after = tensors_of(old), tensors_of(new) if new is not None else frozenset()
        for symbol in before - after:
            readers[symbol].discard(position)
        for symbol in after - before:
            readers[symbol].add(position)

    for position in reversed(range(len(ops))):
        op = ops[position]
        later = [(n, other) for n in sorted(set().union(*(readers[out.symbol] for out in outs_of(op)))) if (other := slots[n])]
        reading = [other for _, other in later]
        single = isinstance(op, Compute) and op.reduction is None and len(op.outs) == 1
        if isinstance(op, Compute) and single and _dissolves(op, reading, results, shapes):
            for n, other in later:
                put(n, other, _inlined(other, op))
            put(position, op, None)
        elif not _needed(op, reading, results):
            put(position, op, None)
    return Block(tuple(op for op in slots if op is not None), results)


def _split(op: Compute) -> list[Op]:
    """Pointwise results that are independent, as operations of their own."""
    if len(op.outs) == 1:
        return [op]
    parts: list[Op] = []
    for out, body in zip(op.outs, op.body, strict=True):
        part = replace(op, outs=(out,), body=(freshened(body),))
        parts.append(renamed(part, {axis.symbol: fresh(axis.symbol.name) for axis in op.axes}))
    return parts


# ── copies ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _without_copies(
    block: Block, around: Mapping[Symbol, tuple[Dim, ...]]
) -> tuple[list[Op], tuple[Symbol, ...], Mapping[Symbol, tuple[Dim, ...]]]:
    """Operations that only copy a tensor are left out, and the tensor read instead. The bodies of loops are dissolved too. With the
    shapes of all tensors."""
    same: dict[Symbol, Symbol] = {}
    shapes = dict(around)
    known: dict[Op, tuple[Value, ...]] = {}  # operations by what they compute
    kept: list[Op] = []
    for op in block.ops:
        op = at_one_index(_counted(with_tensors(op, same)))
        shapes.update((out.symbol, out.shape) for out in outs_of(op))
        if isinstance(op, Loop):
            inside = shapes | {state.symbol: state.shape for state in op.states} | {op.counter: ()}
            op = replace(op, body=_block(op.body, inside))
        source = copied(op)
        if isinstance(op, Compute) and source is not None and shapes.get(source) == op.outs[0].shape:
            same[op.outs[0].symbol] = source
            continue
        meaning = _meaning(op)
        if meaning is not None and meaning in known:
            same.update((mine.symbol, first.symbol) for mine, first in zip(outs_of(op), known[meaning], strict=True))
            continue
        if meaning is not None:
            known[meaning] = outs_of(op)
        kept.append(op)
    return kept, tuple(same.get(symbol, symbol) for symbol in block.results), shapes


def _counted(op: Op) -> Op:
    """A sum of one whole number over ranges (`sum for ..i < ..s => 1`) as that number times how many there are, modulo 2^bits."""
    if not isinstance(op, Compute) or op.reduction is None or len(op.outs) != 1 or len(op.body) != 1:
        return op
    (body,), (out,), reduction = op.body, op.outs, op.reduction
    own = {axis.symbol for axis in reduction.axes}
    free = all(own.isdisjoint(axis.extent.variables) for axis in reduction.axes)
    if reduction.monoid.kind != "sum" or reduction.where is not None or not isinstance(body, Const) or not free:
        return op
    if not out.element.is_integer or body.element is not out.element:
        return op
    try:
        count = prod((at_least_0(axis.extent) for axis in reduction.axes), start=Dim.of(1))
    except DimensionTooLarge:
        return op
    many = converted(Index(count, Element.I64), out.element)
    return replace(op, reduction=None, body=(Binary("mul", many, body) if body.value != 1 else many,))


def at_one_index(op: Op) -> Op:
    """A reduction along a few indices of which the condition takes one (`sum i < 2 where i < 1 => x[i]`, the derivative by what an
    index says the place of) at that index. A product of 16 bits stays a sum: that does not round its factors."""
    if not isinstance(op, Compute) or op.reduction is None or len(op.outs) != 1 or op.reduction.monoid.kind not in _OF_ONE:
        return op
    (body,), (out,), reduction = op.body, op.outs, op.reduction
    exact = out.element.is_float and out.element.bits < 32 and isinstance(body, Binary) and body.op == "mul"
    conditions = [] if reduction.where is None else list(operands("and", reduction.where))
    for axis in reduction.axes:
        extent = axis.extent.constant
        if extent is None or not 1 <= extent <= FEW:
            continue
        decided = {n for n, one in enumerate(conditions) if _holds(one, axis.symbol, 0) is not None}
        taken = [k for k in range(extent) if all(_holds(conditions[n], axis.symbol, k) for n in decided)]
        rest = conjunction(tuple(one for n, one in enumerate(conditions) if n not in decided))
        others = tuple(other for other in reduction.axes if other is not axis)
        if len(taken) != 1 or ((rest is not None or exact) and not others):
            continue
        left = tuple(replace(other, extent=other.extent.substitute({axis.symbol: Dim.of(taken[0])})) for other in others)
        made = replace(op, reduction=replace(reduction, where=rest, axes=left) if left else None)
        return at_one_index(_at(made, axis.symbol, taken[0]))
    return op


def _at(op: Compute, axis: Symbol, index: int) -> Op:
    """The operation at an index of an axis that it does not go along any more."""
    return mapped(op, lambda scalar: substitute(scalar, {axis: Dim.of(index)}))


def _holds(condition: Scalar, axis: Symbol, index: int) -> bool | None:
    """Whether a condition holds at an index of an axis, if that alone decides it."""
    match condition:
        case Unary(op="not", operand=operand):
            inner = _holds(operand, axis, index)
            return None if inner is None else not inner
        case Binary(op="and" | "or" as op, left=left, right=right):
            both = [_holds(left, axis, index), _holds(right, axis, index)]
            return None if None in both else all(both) if op == "and" else any(both)
        case Binary(op=op, left=left, right=right) if op in _COMPARED:
            a, b = _whole(left, axis, index), _whole(right, axis, index)
            return None if a is None or b is None else bool(_COMPARED[op](a, b))
        case _:
            return None


def _whole(scalar: Scalar, axis: Symbol, index: int) -> int | None:
    """The number that an index or a literal is."""
    match scalar:
        case Const(value=int(value)):
            return value
        case Index(dim=dim) if dim.variables <= {axis}:
            return dim.substitute({axis: Dim.of(index)}).constant
        case _:
            return None


def _meaning(op: Op) -> Op | None:
    """A Compute without what does not matter to its values: axes and `let` names stand for their places, results for nothing."""
    if not isinstance(op, Compute) or (op.reduction is not None and op.reduction.monoid.kind == "custom"):
        return None
    if sum(size(s, LARGE) for s in scalars(op)) >= LARGE:
        return None
    names = {axis.symbol: Symbol("axis", -1 - i) for i, axis in enumerate(all_axes(op))}
    bound = [s for scalar in scalars(op) for node in nodes(scalar) if isinstance(node, Bind) for s, _ in node.bindings]
    locals = {symbol: Symbol("let", -1000 - i) for i, symbol in enumerate(bound)}
    return replace(mapped(renamed(op, names), lambda scalar: relabelled(scalar, locals)), outs=())


def copied(op: Op) -> Symbol | None:
    """The tensor that an operation copies, if it does nothing else."""
    if not isinstance(op, Compute) or op.reduction is not None or len(op.outs) != 1:
        return None
    (body,) = op.body
    if not isinstance(body, Read) or body.padding is not None or body.checked is not None:
        return None
    return body.tensor if tuple(map(bare, body.subscripts)) == tuple(axis.symbol for axis in op.axes) else None


# ── dissolving ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def _dissolves(
    op: Compute, later: list[Op], results: tuple[Symbol, ...], shapes: Mapping[Symbol, tuple[Dim, ...]]
) -> bool:
    """Whether a pointwise operation should be computed where it is read. See Note [Dissolving]."""
    (out,) = op.outs
    (body,) = op.body
    within = {axis.symbol: axis.extent for axis in op.axes}
    if out.symbol in results or (may_fail(body, within) and not _moves_alone(op, later)):
        return False
    uses: set[tuple[int, Read]] = set()
    recomputes = False
    largest = 0
    for position, other in enumerate(later):
        if out.symbol not in tensors_of(other):
            continue
        if not isinstance(other, Compute | Scan):
            return False
        monoid = other.monoid if isinstance(other, Scan) else other.reduction.monoid if other.reduction else None
        if monoid and any(_mentions(s, out.symbol) for s in (*monoid.units, *monoid.combine)):
            return False
        axes = frozenset(axis.symbol for axis in all_axes(other))
        for s in scalars(other):
            for node in nodes(s):
                if not isinstance(node, Read) or node.tensor != out.symbol:
                    continue
                known = node.checked is None and all(isinstance(x, Dim) for x in node.subscripts)
                if not known and not _reads_as_well(op, node, other, shapes):
                    return False
                used = frozenset().union(*(x.variables for x in node.subscripts if isinstance(x, Dim)))
                recomputes |= not axes <= used
                uses.add((position, node))
        largest = max(largest, sum(size(s, LARGE) for s in scalars(other)))
    if not uses:
        return False
    own = size(body, LARGE)
    if largest + own * len(uses) > LARGE and not is_trivial(body):
        return False
    if is_trivial(body):
        return True
    if recomputes:
        return False
    return len(uses) == 1 or is_cheap(weight(body, frozenset(axis.symbol for axis in op.axes[-1:])), len(uses))


def is_cheap(work: int, times: int) -> bool:
    """Whether what costs so many additions is cheaply made so many times. See Note [Dissolving]."""
    return work <= CHEAP and work * times <= CHEAP * MANY


def _converted(scalar: Scalar) -> Read | None:
    """What an expression reads, if it does nothing else but convert it."""
    while isinstance(scalar, Convert):
        scalar = scalar.operand
    plain = isinstance(scalar, Read) and scalar.padding is None and scalar.checked is None
    return scalar if plain and isinstance(scalar, Read) and all(isinstance(x, Dim) for x in scalar.subscripts) else None


def _reads_as_well(op: Compute, read: Read, reader: Compute | Scan, shapes: Mapping[Symbol, tuple[Dim, ...]]) -> bool:
    """Whether a read at indices from data, or checked ones, can be of what the operation converts: it has each such index for a
    dimension of its own, as long as the axis, and all others are the reader's axes."""
    source = _converted(op.body[0])
    if source is None or read.padding is not None or source.tensor not in shapes:
        return False
    extents = {axis.symbol: axis.extent for axis in all_axes(reader)}
    for axis, subscript in zip(op.axes, read.subscripts, strict=True):
        if isinstance(subscript, Dim):
            place = bare(subscript)
            if place is None or extents.get(place) != axis.extent:
                return False
            continue
        at = [n for n, s in enumerate(source.subscripts) if isinstance(s, Dim) and axis.symbol in s.variables]
        if len(at) != 1 or bare(source.subscripts[at[0]]) != axis.symbol or shapes[source.tensor][at[0]] != axis.extent:
            return False
    return True


def _moves_alone(op: Compute, later: list[Op]) -> bool:
    """Whether a value is read by one pointwise operation, once and at every index: it is computed for the same ones there."""
    if len(later) != 1 or not isinstance(other := later[0], Compute) or other.reduction is not None or len(other.outs) != 1:
        return False
    found = [node for node in nodes(other.body[0]) if isinstance(node, Read) and node.tensor == op.outs[0].symbol]
    extents = {axis.symbol: axis.extent for axis in other.axes}
    at = [bare(s) for node in found for s in node.subscripts]
    if len(found) != 1 or {*at} != extents.keys() or len(at) != len(extents) or found[0].checked or found[0].padding:
        return False
    same = all(s is not None and extents[s] == axis.extent for s, axis in zip(at, op.axes, strict=True))
    return same and found[0] in certain(other.body[0])


def _mentions(scalar: Scalar, tensor: Symbol) -> bool:
    return any(isinstance(node, Read) and node.tensor == tensor for node in nodes(scalar))


def _inlined(reader: Op, op: Compute) -> Op:
    if not isinstance(reader, Compute | Scan):
        return reader
    (out,) = op.outs
    (body,) = op.body

    def visit(node: Scalar) -> Scalar | None:
        if not isinstance(node, Read) or node.tensor != out.symbol:
            return None
        dims = {axis.symbol: s for axis, s in zip(op.axes, node.subscripts, strict=True) if isinstance(s, Dim)}
        value = substitute(freshened(body), dims)
        if node.checked is not None or len(dims) < len(op.axes):
            data = {axis.symbol: s for axis, s in zip(op.axes, node.subscripts, strict=True) if not isinstance(s, Dim)}
            return rewrite(value, lambda part: _at_data(part, data, node.checked))
        if node.padding is None:
            return value
        return Select(_inside(node, out), value, rewrite(node.padding, visit))

    return mapped(reader, lambda scalar: rewrite(scalar, visit)) if out.symbol in tensors_of(reader) else reader


def _at_data(read: Scalar, data: Mapping[Symbol, Scalar], checked: Span | None) -> Scalar | None:
    """What an operation converts, read at indices from data in place of its axes."""
    if not isinstance(read, Read):
        return None
    own = [bare(s) if isinstance(s, Dim) else None for s in read.subscripts]
    at = tuple(s if axis is None else data.get(axis, s) for axis, s in zip(own, read.subscripts, strict=True))
    return replace(read, subscripts=at, checked=checked)


def _inside(read: Read, value: Value) -> Scalar:
    """The condition that a read is inside its tensor."""
    condition: Scalar | None = None
    for subscript, extent in zip(read.subscripts, value.shape, strict=True):
        assert isinstance(subscript, Dim)
        index = Index(subscript, Element.I64)
        parts = [Binary("le", Const(0, Element.I64), index), Binary("lt", index, Index(extent, Element.I64))]
        for part in parts:
            condition = part if condition is None else Binary("and", condition, part)
    return Const(True, Element.BOOL) if condition is None else condition


# ── what nobody needs ───────────────────────────────────────────────────────────────────────────────────────────────────


def _needed(op: Op, later: list[Op], results: tuple[Symbol, ...]) -> bool:
    match op:
        case Compute() | Scan():
            if may_stop(op):
                return True
        case Sort():
            pass
        case _:
            return True  # a loop may fail inside, a compress defines a dimension, and a check is a check
    outs = {op.values.symbol, op.indices.symbol} if isinstance(op, Sort) else {out.symbol for out in op.outs}
    return any(symbol in outs for symbol in results) or any(not outs.isdisjoint(tensors_of(other)) for other in later)
