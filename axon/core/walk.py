"""Walking core: what operations name, and their scalar expressions walked and rewritten."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import is_
from typing import Any, assert_never

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Check,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Local,
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
    element_of,
)
from axon.shapes.dimension import Dim

# ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def outs_of(op: Op) -> tuple[Value, ...]:
    """The tensors that an operation makes."""
    match op:
        case Compute() | Scan() | Loop():
            return op.outs
        case Sort(values=values, indices=indices):
            return values, indices
        case Compress(out=out):
            return (out,)
        case Check():
            return ()
        case _:
            assert_never(op)


def results_of(program: Program) -> tuple[Value, ...]:
    """The tensors that a program gives."""
    made = {value.symbol: value for value in (*program.inputs, *(out for op in program.block.ops for out in outs_of(op)))}
    return tuple(made[symbol] for symbol in program.block.results)


def scalars(op: Compute | Scan) -> tuple[Scalar, ...]:
    """Every scalar expression of an operation."""
    if isinstance(op, Scan):
        return (*op.body, *op.monoid.units, *op.monoid.combine)
    if op.reduction is None:
        return op.body
    conditions = tuple(c for c in (op.reduction.where, op.reduction.asked) if c is not None)
    return (*op.body, *op.reduction.monoid.units, *op.reduction.monoid.combine, *conditions)


def all_axes(op: Compute | Scan) -> tuple[Axis, ...]:
    """An operation's axes, the reduced ones last."""
    return (*op.axes, *op.reduction.axes) if isinstance(op, Compute) and op.reduction else op.axes


def tensors_of(op: Op) -> frozenset[Symbol]:
    """The tensors that an operation names; of a loop with its own states, and what its body makes."""
    try:
        return op.tensors_
    except AttributeError:
        found = _tensors_of(op)
        object.__setattr__(op, "tensors_", found)
        return found


def _tensors_of(op: Op) -> frozenset[Symbol]:
    match op:
        case Compute() | Scan():
            return frozenset([node.tensor for node in names_of(op) if isinstance(node, Read)])
        case Loop(initial=initial, trip=trip, body=body):
            count = (n.tensor for n in nodes(trip) if isinstance(n, Read))
            return frozenset((*initial, *count, *body.results)).union(*map(tensors_of, body.ops))
        case Sort(input=input):
            return frozenset((input,))
        case Compress(mask=mask):
            return frozenset((mask,))
        case Check():
            return frozenset()
        case _:
            assert_never(op)


def dimensions_of(op: Op) -> frozenset[Symbol]:
    """The dimensions that an operation mentions; of a loop those of its body too, with what these define."""
    match op:
        case Compute() | Scan():
            found = {v for out in op.outs for d in out.shape for v in d.variables}
            found |= {v for axis in all_axes(op) for v in axis.extent.variables}
            for node in (n for s in scalars(op) for n in nodes(s)):
                found |= _dims(node)
            return frozenset(found) - {axis.symbol for axis in all_axes(op)}
        case Loop(trip=trip, body=body, counter=counter):
            own = frozenset(v for out in (*op.outs, *op.states) for d in out.shape for v in d.variables)
            return own.union(*map(_dims, nodes(trip)), *map(dimensions_of, body.ops)) - {counter}
        case Sort(values=values):
            return frozenset(v for d in values.shape for v in d.variables)
        case Compress():
            return frozenset()
        case Check(left=left, right=right, given=given):
            return (left.variables | right.variables).union(*(relation.variables for relation in given))
        case _:
            assert_never(op)


def needs_of(op: Op) -> frozenset[Symbol]:
    """The tensors and dimensions that an operation names; of a loop with its own states, and what its body makes."""
    try:
        return op.needs_
    except AttributeError:
        found = _needs_of(op)
        object.__setattr__(op, "needs_", found)
        return found


def _needs_of(op: Op) -> frozenset[Symbol]:
    match op:
        case Compute() | Scan():  # as both say, in one walk
            found = {v for out in op.outs for d in out.shape for v in d.variables}
            for axis in all_axes(op):
                found |= axis.extent.variables
            named: set[Symbol] = set()
            for node in names_of(op):
                if isinstance(node, Index):
                    found |= node.dim.variables
                    continue
                named.add(node.tensor)
                for s in node.subscripts:
                    if isinstance(s, Dim):
                        found |= s.variables
            found.difference_update([axis.symbol for axis in all_axes(op)])
            return frozenset(found | named)
        case Loop(body=body, counter=counter):
            mine = around_of(op).union(*map(needs_of, body.ops))
            return mine if counter in tensors_of(op) else mine - {counter}
        case _:
            return tensors_of(op) | dimensions_of(op)


def names_of(op: Compute | Scan) -> list[Read | Index]:
    """The parts of an operation's expressions that name tensors or dimensions, in no particular order."""
    found: list[Read | Index] = []
    pending = [*scalars(op)]
    while pending:
        node = pending.pop()
        if isinstance(node, Read):
            found.append(node)
            if node.padding is not None:
                pending.append(node.padding)
            for s in node.subscripts:
                if not isinstance(s, Dim):
                    pending.append(s)
        elif isinstance(node, Binary):
            pending += (node.left, node.right)
        elif isinstance(node, Index):
            found.append(node)
        elif node.__class__ not in _LEAVES:
            pending += children(node)
    return found


def is_curved(op: Compute | Scan) -> bool:
    """Whether an index that an operation computes, or reads at, may need more than 32 bits, or is compared with a size."""
    try:
        return op.curved_
    except AttributeError:
        found = any(map(_is_curved, names_of(op)))
        object.__setattr__(op, "curved_", found)
        return found


def _is_curved(node: Read | Index) -> bool:
    if isinstance(node, Index):
        return node.element is Element.I64 or bool(node.dim.compound)
    if node.padding is not None or node.checked is not None:
        return True
    return any(bool(s.compound) for s in node.subscripts if isinstance(s, Dim))


def around_of(op: Loop) -> frozenset[Symbol]:
    """The tensors and dimensions that a loop names, but for those that operations of its body do."""
    found = {*op.initial, *op.body.results}
    for value in (*op.outs, *op.states):
        for d in value.shape:
            found |= d.variables
    for node in nodes(op.trip):
        found |= _dims(node)
        if isinstance(node, Read):
            found.add(node.tensor)
    return frozenset(found)


def _dims(node: Scalar) -> frozenset[Symbol]:
    match node:
        case Index(dim=dim):
            return dim.variables
        case Read(subscripts=subscripts):
            return frozenset(v for s in subscripts if isinstance(s, Dim) for v in s.variables)
        case _:
            return frozenset()


# ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────────


def children(scalar: Scalar) -> tuple[Scalar, ...]:
    """The expressions that an expression is made of, from left to right."""
    return _CHILDREN[scalar.__class__](scalar)


def _inside_read(read: Read) -> tuple[Scalar, ...]:
    computed = tuple([s for s in read.subscripts if not isinstance(s, Dim)])
    return (*computed, read.padding) if read.padding is not None else computed


_CHILDREN: dict[type, Callable[[Any], tuple[Scalar, ...]]] = {  # asked for more often than a `match` would be worth
    Const: lambda _: (),
    Index: lambda _: (),
    Local: lambda _: (),
    Read: _inside_read,
    Unary: lambda unary: (unary.operand,),
    Convert: lambda convert: (convert.operand,),
    Binary: lambda binary: (binary.left, binary.right),
    Select: lambda select: (select.condition, select.then, select.otherwise),
    Bind: lambda bind: (*[value for _, value in bind.bindings], bind.body),
}


_LEAVES: frozenset[type] = frozenset((Const, Index, Local))


def nodes(scalar: Scalar) -> Iterator[Scalar]:
    """Every part of an expression, the outer ones first, from left to right; in linear time however deep it is."""
    pending = [scalar]
    while pending:
        node = pending.pop()
        yield node
        kind = node.__class__  # asked for more often than `isinstance` would be worth
        if kind is Read:
            assert isinstance(node, Read)
            if node.padding is not None:
                pending.append(node.padding)
            for s in node.subscripts:
                if s.__class__ is not Dim:
                    pending += [s for s in reversed(node.subscripts) if not isinstance(s, Dim)]
                    break
        elif kind is Binary:
            assert isinstance(node, Binary)
            pending += (node.right, node.left)
        elif kind not in _LEAVES:
            pending.extend(reversed(children(node)))


def reads(scalar: Scalar) -> Iterator[Read]:
    return (node for node in nodes(scalar) if isinstance(node, Read))


def with_children(scalar: Scalar, parts: Sequence[Scalar]) -> Scalar:
    """The expression with other `children`, as many and in the same order."""
    match scalar:
        case Const() | Index() | Local():
            return scalar
        case Read(subscripts=subscripts, padding=padding):
            rest = iter(parts)
            computed = tuple(s if isinstance(s, Dim) else next(rest) for s in subscripts)
            return replace(scalar, subscripts=computed, padding=None if padding is None else next(rest))
        case Unary(op=op):
            return Unary(op, *parts)
        case Convert(element=element):
            (operand,) = parts
            return Convert(operand, element)
        case Binary(op=op):
            return Binary(op, *parts)
        case Select():
            return Select(*parts)
        case Bind(bindings=bindings):
            *values, body = parts
            return Bind(tuple((name, value) for (name, _), value in zip(bindings, values, strict=True)), body)
        case _:
            assert_never(scalar)


def rewrite(scalar: Scalar, visit: Callable[[Scalar], Scalar | None]) -> Scalar:
    """The expression with every node for which `visit` gives another replaced by it, from the top; without any it is itself."""
    changed = visit(scalar)
    if changed is not None:
        return changed
    match scalar:
        case Const() | Index() | Local():
            return scalar
        case Binary(op=op, left=left, right=right):
            new_left, new_right = rewrite(left, visit), rewrite(right, visit)
            return scalar if new_left is left and new_right is right else Binary(op, new_left, new_right)
        case _:
            old = children(scalar)
            new = [rewrite(child, visit) for child in old]
            return scalar if all(map(is_, new, old)) else with_children(scalar, new)


def rename(scalar: Scalar, names: Mapping[Symbol, Dim]) -> Scalar:
    def visit(node: Scalar) -> Scalar | None:
        match node:
            case Read(subscripts=subscripts) if all(isinstance(s, Dim) for s in subscripts):
                return replace(node, subscripts=tuple(s.substitute(names) for s in subscripts if isinstance(s, Dim)))
            case Index(dim=dim):
                return replace(node, dim=dim.substitute(names))
            case _:
                return None

    return rewrite(scalar, visit)


def renewed(axes: Sequence[Axis]) -> tuple[tuple[Axis, ...], dict[Symbol, Dim]]:
    """New axes for another operation over the same, and where each old one is."""
    own = tuple(Axis(fresh(axis.symbol.name), axis.extent) for axis in axes)
    return own, {old.symbol: Dim.of(new.symbol) for old, new in zip(axes, own, strict=True)}


def mentions(scalar: Scalar, axis: Symbol) -> bool:
    for node in nodes(scalar):
        match node:
            case Read(subscripts=subscripts) if any(isinstance(s, Dim) and axis in s.variables for s in subscripts):
                return True
            case Index(dim=dim) if axis in dim.variables:
                return True
    return False


def converted(scalar: Scalar, element: Element) -> Scalar:
    return scalar if element_of(scalar) == element else Convert(scalar, element)


def widened(scalar: Scalar) -> Scalar:
    """An addend of a sum in its accumulator: its factors are multiplied there, and not rounded before."""
    match scalar:
        case Binary(op="mul", left=left, right=right):
            return replace(scalar, left=widened(left), right=widened(right))
        case Bind(body=body):
            return replace(scalar, body=widened(body))
        case _:
            return converted(scalar, element_of(scalar).accumulator)


def trip_of(op: Loop) -> Dim | Symbol:
    """A loop's trip count, once it is a dimension or a tensor of rank 0."""
    if isinstance(op.trip, Index):
        return op.trip.dim
    assert isinstance(op.trip, Read), "a trip count that is computed is a tensor of its own"
    return op.trip.tensor
