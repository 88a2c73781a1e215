"""Core to core: a tensor that is the same all along a dimension loses it.

    narrowed    a program -> one with the same results, in which only what varies along a dimension has it

Under a `for`, a function's arguments are copied for each of its indices, and what it computes of them with them: in
`for k => (jvp f x (unit k)).2` that is `f x` for each k, and a loop has each of its states for each k. Such a dimension is dropped
from the operation that makes the copies, from those that read them at its index alone, and from the states of loops.

Note [Kept]
    Which dimensions go is found by guessing that all do along which an operation does not vary, and states where their initial
    values lose them. Where that does not fit (a state varies after a step; who reads a tensor may ask more of a subscript than
    that it is inside) the dimension is kept, and all is guessed anew. What is kept grows, so this ends. Results keep theirs.

Note [Nothing along it]
    Without the dimension an operation is computed though the dimension may have no index. So it must not fail, and read inside of
    its tensors, or the dimension must be known to have one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol
from axon.base.passes import verified
from axon.core.ir import Axis, Block, Compress, Compute, Index, Loop, Monoid, Op, Program, Read, Scalar, Scan, Sort, Value
from axon.core.scalar_facts import bare, is_inside, may_stop
from axon.core.verify import unchanged, verify_rewritten
from axon.core.walk import all_axes, nodes, outs_of, reads, rewrite, scalars
from axon.shapes.dimension import Dim
from axon.shapes.width import of_dim

T = TypeVar("T")
Positions = frozenset[int]
Place = tuple[Symbol, int]  # a tensor, and the position of one of its dimensions

NONE: Positions = frozenset()


@verified("narrow", verify_rewritten)
def narrowed(program: Program) -> Program:
    """The program without the dimensions along which its tensors do not vary."""
    values = {value.symbol: value for value in program.inputs}
    kept: set[Place] = {(s, p) for s, value in values.items() for p in range(len(value.shape))}
    finder = _Finder(values, kept)
    finder.block(program.block)
    finder.keep(program.block.results)
    while True:
        before = len(kept)
        finder.dropped = {}
        finder.guess(program.block)
        if len(kept) == before:
            break
    if not any(finder.dropped.values()):
        return program
    return replace(program, block=_Narrow(finder.dropped).block(program.block))


class _Finder:
    """`kept` are dimensions that tensors keep, `dropped` those that they lose. See Note [Kept]."""

    def __init__(self, values: dict[Symbol, Value], kept: set[Place]) -> None:
        self.values, self.kept = values, kept
        self.dropped: dict[Symbol, Positions] = {}

    # ── what readers ask ────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case Compute() | Scan():
                    extents = {axis.symbol: axis.extent for axis in all_axes(op)}
                    for scalar in scalars(op):
                        self.asked(reads(scalar), extents)
                case Loop():
                    self.values[op.counter] = Value(op.counter, Element.I32, ())
                    self.values.update((state.symbol, state) for state in op.states)
                    self.asked(reads(op.trip), {})
                    self.block(op.body)
                    if op.stacked:
                        self.kept.update((out.symbol, 0) for out in op.outs)
                case Sort(input=input):
                    self.keep((input,))
                case Compress(mask=mask):
                    self.keep((mask,))
                case _:
                    pass
            for out in outs_of(op):
                self.values[out.symbol] = out
                if isinstance(op, Sort | Compress):
                    self.keep((out.symbol,))

    def asked(self, found: Iterable[Read], extents: Mapping[Symbol, Dim]) -> None:
        """A subscript that is computed, compared or padded is more than a place, unless it is an index of just that range."""
        for read in found:
            shape = self.values[read.tensor].shape
            for position, (subscript, extent) in enumerate(zip(read.subscripts, shape, strict=True)):
                own = bare(subscript)
                plain = isinstance(subscript, Dim) and read.checked is None and read.padding is None
                if not plain and (own is None or extents.get(own) != extent):
                    self.kept.add((read.tensor, position))

    def keep(self, tensors: Iterable[Symbol]) -> None:
        for symbol in tensors:
            self.kept.update((symbol, p) for p in range(len(self.values[symbol].shape)))

    # ── guesses ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def guess(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case Compute() | Scan():
                    found = frozenset(p for p, axis in enumerate(op.axes) if self.uniform(op, axis))
                    for out in op.outs:
                        found = frozenset(p for p in found if (out.symbol, p) not in self.kept)
                    self.dropped.update((out.symbol, found) for out in op.outs)
                case Loop():
                    self.loop(op)
                case _:
                    pass

    def loop(self, op: Loop) -> None:
        for initial, state in zip(op.initial, op.states, strict=True):
            found = self.of(initial)
            self.dropped[state.symbol] = frozenset(p for p in found if (state.symbol, p) not in self.kept)
        self.guess(op.body)
        shift = 1 if op.stacked else 0
        for initial, state, result, out in zip(op.initial, op.states, op.body.results, op.outs, strict=True):
            last = frozenset(p - shift for p in range(shift, len(out.shape)) if (out.symbol, p) in self.kept)
            agreed = self.of(state.symbol) & self.of(initial) & self.of(result) - last
            for symbol in (initial, state.symbol, result):
                self.kept.update((symbol, p) for p in self.of(symbol) - agreed)
            self.dropped[out.symbol] = frozenset(p + shift for p in agreed)

    def of(self, symbol: Symbol) -> Positions:
        return self.dropped.get(symbol, NONE)

    def uniform(self, op: Compute | Scan, axis: Axis) -> bool:
        """Whether an operation does not vary along one of its axes, and may be computed without it."""
        if isinstance(op, Scan) and axis is op.axes[-1]:
            return False
        if any(axis.symbol in other.extent.variables for other in all_axes(op)):
            return False
        return not any(self.varies(scalar, axis.symbol) for scalar in scalars(op)) and self.may_be_empty(op, axis)

    def varies(self, scalar: Scalar, axis: Symbol) -> bool:
        for node in nodes(scalar):
            if isinstance(node, Index) and axis in node.dim.variables:
                return True
            if isinstance(node, Read):
                gone = self.of(node.tensor)
                if any(isinstance(s, Dim) and axis in s.variables for p, s in enumerate(node.subscripts) if p not in gone):
                    return True
        return False

    def may_be_empty(self, op: Compute | Scan, axis: Axis) -> bool:
        """See Note [Nothing along it]."""
        if of_dim(axis.extent)[0] >= 1:
            return True
        if may_stop(op):
            return False
        extents = {other.symbol: other.extent for other in all_axes(op)}
        return all(is_inside(read, self.values[read.tensor], extents) for scalar in scalars(op) for read in reads(scalar))


class _Narrow:
    """The program without what is dropped."""

    def __init__(self, dropped: Mapping[Symbol, Positions]) -> None:
        self.dropped = dropped

    def block(self, block: Block) -> Block:
        ops = [self.op(op) for op in block.ops]
        return block if unchanged(ops, block.ops) else Block(tuple(ops), block.results)

    def value(self, value: Value) -> Value:
        gone = self.dropped.get(value.symbol, NONE)
        return replace(value, shape=_without(value.shape, gone)) if gone else value

    def op(self, op: Op) -> Op:
        match op:
            case Compute():
                gone, reduction = self.dropped.get(op.outs[0].symbol, NONE), op.reduction
                if reduction is not None:
                    where, asked = self.condition(reduction.where), self.condition(reduction.asked)
                    reduction = replace(reduction, monoid=self.monoid(reduction.monoid), where=where, asked=asked)
                body = tuple(map(self.scalar, op.body))
                outs, axes = tuple(map(self.value, op.outs)), _without(op.axes, gone)
                return replace(op, outs=outs, axes=axes, reduction=reduction, body=body)
            case Scan():
                gone = self.dropped.get(op.outs[0].symbol, NONE)
                outs, body = tuple(map(self.value, op.outs)), tuple(map(self.scalar, op.body))
                return replace(op, outs=outs, axes=_without(op.axes, gone), monoid=self.monoid(op.monoid), body=body)
            case Loop():
                outs, states = (tuple(map(self.value, some)) for some in (op.outs, op.states))
                return replace(op, outs=outs, states=states, trip=self.scalar(op.trip), body=self.block(op.body))
            case _:
                return op

    def monoid(self, monoid: Monoid) -> Monoid:
        return replace(monoid, units=tuple(map(self.scalar, monoid.units)), combine=tuple(map(self.scalar, monoid.combine)))

    def scalar(self, scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if not isinstance(node, Read) or not (gone := self.dropped.get(node.tensor)):
                return None
            subscripts = tuple(s if isinstance(s, Dim) else rewrite(s, visit) for s in _without(node.subscripts, gone))
            padding = None if node.padding is None else rewrite(node.padding, visit)
            return replace(node, subscripts=subscripts, padding=padding)

        return rewrite(scalar, visit)

    def condition(self, scalar: Scalar | None) -> Scalar | None:
        return None if scalar is None else self.scalar(scalar)


def _without(items: tuple[T, ...], gone: Positions) -> tuple[T, ...]:
    return tuple(item for position, item in enumerate(items) if position not in gone)
