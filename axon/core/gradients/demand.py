"""Where an adjoint can be other than 0: what a branch makes gets nothing in a call that takes the other.

Tensors are made whichever branch is taken; only where they are read, their numbers are chosen. So backwards a tensor that one
branch alone reads gets zeros in a call that takes the other, and what it is made of would get 0 times a slope, which is NaN where
that is not finite: `if c then (sum i => sqrt x[i]) else 0.0`. Such a tensor has a demand, the condition under which anything reads
it, over its own indices. Where it does not hold, what the tensor gives to others is 0 without a look at slopes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from axon.base.data import dataclass
from axon.base.names import Symbol, fresh
from axon.core.gradients.rules import BOUNDED
from axon.core.gradients.scalars import tidied
from axon.core.ir import Binary, Bind, Compute, Const, Local, Op, Read, Scalar, Scan, Select, Unary, Value
from axon.core.scalar_facts import axes_of, bare, conjunction, may_fail, size, substitute
from axon.core.walk import children, nodes, tensors_of
from axon.shapes.dimension import Dim

_MAX_CONDITIONS = 4  # under which a tensor is read
_MAX_NODES = 60  # of one


@dataclass(frozen=True, slots=True)
class Demand:
    """A condition over the indices `places` of a tensor."""

    places: tuple[Symbol, ...]
    condition: Scalar

    def at(self, where: Sequence[Dim]) -> Scalar:
        return substitute(self.condition, dict(zip(self.places, where, strict=True)))


def demands(source: Sequence[Op], active: Mapping[Symbol, Value], always: Collection[Symbol]) -> dict[Symbol, Demand]:
    """The demands of tensors that operations make, as far as they have one; there is `always` demand for some, as for results."""
    return _Readers(source, active, always).run()


def is_bounded(op: Compute | Scan) -> bool:
    """Whether what an operation gives of finite numbers to finite numbers is finite, but for an overflow."""
    if isinstance(op, Scan):
        return op.monoid.kind == "sum" and all(map(_bounded, op.body))
    linear = op.reduction is None or op.reduction.monoid.kind in ("sum", "max", "min")
    return linear and all(map(_bounded, op.body))


def _bounded(scalar: Scalar) -> bool:
    return all(map(_is_bounded, nodes(scalar)))


def _is_bounded(node: Scalar) -> bool:
    match node:
        case Binary(op="div", right=Const(value=divisor)):
            return divisor != 0
        case Binary(op="pow", right=Const(value=power)):
            return power >= 1 and power == int(power)
        case Unary(op=op) | Binary(op=op):
            return op in BOUNDED
        case _:
            return True


class _Readers:
    """`ways` are the conditions under which each tensor is read, over its `places`; None of what is read without one."""

    def __init__(self, source: Sequence[Op], active: Mapping[Symbol, Value], always: Collection[Symbol]) -> None:
        self.source, self.active = source, active
        self.ways: dict[Symbol, list[Scalar] | None] = {}
        self.places: dict[Symbol, tuple[Symbol, ...]] = {}
        self.running: set[Symbol] = set()  # tensors of which an element goes into all that come after it
        for op in source:
            for out in op.outs if isinstance(op, Compute | Scan) else ():
                if out.symbol in active and out.symbol not in always:
                    self.ways[out.symbol] = []
                    self.places[out.symbol] = tuple(fresh("u") for _ in out.shape)
            if isinstance(op, Scan):
                self.running |= {out.symbol for out in op.outs}

    def run(self) -> dict[Symbol, Demand]:
        found: dict[Symbol, Demand] = {}
        for op in reversed(self.source):
            if not isinstance(op, Compute | Scan):
                self.ways |= dict.fromkeys(self.ways.keys() & tensors_of(op))
                continue
            for out in op.outs:
                if ways := self.ways.get(out.symbol):
                    found[out.symbol] = Demand(self.places[out.symbol], disjunction(ways))
            self.read(op, found)
        return found

    def read(self, op: Compute | Scan, found: Mapping[Symbol, Demand]) -> None:
        outs = [out for out in op.outs if out.symbol in self.active and self.ways.get(out.symbol) != []]
        if not outs:
            return  # nothing gets an adjoint from it
        path: list[Scalar] = []
        if all(out.symbol in found for out in outs):
            path.append(disjunction([found[out.symbol].at([Dim.of(a.symbol) for a in op.axes]) for out in outs]))
        axes = op.axes
        if isinstance(op, Compute) and op.reduction is not None:
            axes = (*axes, *op.reduction.axes)
            path += [c for c in (op.reduction.asked, op.reduction.where) if c is not None]
        if not path and not any(isinstance(node, Select) for body in op.body for node in nodes(body)):
            self.ways |= dict.fromkeys([s for s in tensors_of(op) if s in self.ways])  # read without a condition
            return
        extents = {axis.symbol: axis.extent for axis in axes}
        for body in op.body:
            self.walk(body, tuple(path), (), extents)

    def walk(
        self, scalar: Scalar, path: tuple[Scalar, ...], names: tuple[tuple[Symbol, Scalar], ...], extents: Mapping[Symbol, Dim]
    ) -> None:
        """Reads under the conditions of a path; `names` are those around."""
        match scalar:
            case Select(condition=condition, then=then, otherwise=otherwise):
                if any(isinstance(node, Local) for node in nodes(condition)):
                    condition = tidied(Bind(names, condition))
                self.walk(then, (*path, condition), names, extents)
                self.walk(otherwise, (*path, Unary("not", condition)), names, extents)
            case Bind(bindings=bindings, body=body):
                for symbol, value in bindings:
                    self.walk(value, path, names, extents)
                    names = (*names, (symbol, value))
                self.walk(body, path, names, extents)
            case Read(padding=padding):
                self.is_read(scalar, path, extents)
                if padding is not None:
                    self.walk(padding, path, names, extents)
            case _:
                for child in children(scalar):
                    self.walk(child, path, names, extents)

    def is_read(self, read: Read, path: tuple[Scalar, ...], extents: Mapping[Symbol, Dim]) -> None:
        ways = self.ways.get(read.tensor)
        if ways is None:
            return
        image: dict[Symbol, Dim] = {}
        shape, places = self.active[read.tensor].shape, self.places[read.tensor]
        for n, (subscript, place) in enumerate(zip(read.subscripts, places, strict=True)):
            axis = bare(subscript)
            if axis is not None and extents.get(axis) == shape[n] and not (read.tensor in self.running and n == len(shape) - 1):
                image[axis] = Dim.of(place)
        kept: list[Scalar] = []
        for condition in path:  # the inner ones may be evaluated only where the outer ones hold
            if may_fail(condition) or not axes_of(condition, frozenset(extents)) <= image.keys():
                break
            kept.append(substitute(condition, image))
        way = conjunction(tuple(dict.fromkeys(kept)))
        if way is None or size(way, _MAX_NODES) == _MAX_NODES or (way not in ways and len(ways) == _MAX_CONDITIONS):
            self.ways[read.tensor] = None
        elif way not in ways:
            ways.append(way)


def disjunction(conditions: Sequence[Scalar]) -> Scalar:
    """That any of some conditions holds."""
    found, *others = dict.fromkeys(conditions)
    for other in others:
        found = Binary("or", found, other)
    return found
