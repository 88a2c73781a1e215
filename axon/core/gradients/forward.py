"""Forward mode on operations: how what a block makes moves, given how what it reads does.

Every operation that moves is followed by one of the same form for its tangent; a reduction or scan by a function of the program,
and a loop, become ones over values and tangents together. Nothing is kept for later, so any loop has a derivative this way.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, TypeVar

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.gradients.making import Maker
from axon.core.gradients.operations import (
    NoDerivative,
    UserRule,
    apart,
    as_function,
    at,
    axes_of,
    derivative,
    moving_states,
    scan_apart,
)
from axon.core.gradients.reverse import Reverse
from axon.core.gradients.rules import number, times
from axon.core.gradients.scalars import Active, tangent
from axon.core.ir import (
    Block,
    Check,
    Compress,
    Compute,
    Local,
    Loop,
    Monoid,
    Op,
    Read,
    Reduction,
    Scalar,
    Scan,
    Select,
    Sort,
    Value,
    element_of,
)
from axon.core.passes.live import live
from axon.core.walk import outs_of, tensors_of
from axon.shapes.dimension import Dim

T = TypeVar("T")
Subscripts: TypeAlias = "tuple[Dim | Scalar, ...]"


class Forward(Maker):
    """`ops` are all operations: those of the source, some of which carry tangents along, and those of tangents."""

    tangents: dict[Symbol, Value]

    def run(self, tangents: Mapping[Symbol, Value]) -> None:
        self.tangents = dict(tangents)
        rules = [self.rule_of(op) for op in self.source]
        for n, op in enumerate(self.source):
            rule = rules[n]
            if rule is not None:
                self.ops.append(op)
                if rule not in rules[n + 1 :]:
                    self.by_rule(rule)
                continue
            if isinstance(op, Loop) and any(out.symbol in self.active for out in op.outs):
                self.loop(op)
                continue
            self.ops.append(op)
            if any(out.symbol in self.active for out in outs_of(op)):
                self.along(op)

    def of(self, value: Value) -> Value:
        """How a tensor moves."""
        return self.tangents.get(value.symbol) or self.constant(value, 0.0)

    def along(self, op: Op) -> None:
        match op:
            case Compute(reduction=None):
                for out, body in zip(op.outs, op.body, strict=True):
                    if out.symbol in self.active:
                        self.tangents[out.symbol] = self.compute(derivative(out), op.axes, self.tangent(body))
            case Compute():
                self.reduction(apart(op))
            case Scan():
                self.scan(op)
            case Sort(values=values, indices=indices, input=input):
                axes = axes_of(values)
                places: Subscripts = (*(Dim.of(a.symbol) for a in axes[:-1]), at(indices, axes))
                moved = Read(self.tangents[input].symbol, places, values.element)
                self.tangents[values.symbol] = self.compute(derivative(values), axes, moved)
            case Loop() | Compress() | Check():
                raise AssertionError(op)

    def by_rule(self, rule: UserRule) -> None:
        """The tangents of what a function with a rule gives, once all of it is made. A rule is linear in the adjoints, and the
        transpose of the slope; so tangents go through its own adjoints, whatever the adjoints are that it is taken at."""
        if not any(result.symbol in self.active for result in rule.results):
            return
        seeds = [replace(seed, symbol=fresh(seed.symbol.name)) for seed in rule.seeds]
        names = {old.symbol: new.symbol for old, new in zip(rule.seeds, seeds, strict=True)}
        ops, names = self.again(rule.ops, names)
        shapes = {**self.shapes, **{seed.symbol: seed.shape for seed in seeds}}
        transposed = Reverse(ops, seeds, self.known, shapes, self.stopped, self.rules)
        pairs = [(names.get(a.symbol, a.symbol), self.tangents.get(v.symbol)) for v, a in zip(rule.by, rule.adjoints, strict=True)]
        transposed.run([(adjoint, moved) for adjoint, moved in pairs if moved is not None])
        found = [transposed.adjoint(seed) for seed in seeds]
        block = _needed((*ops, *transposed.ops), tuple(value.symbol for value in found))
        if not {seed.symbol for seed in seeds}.isdisjoint(frozenset().union(*map(tensors_of, block.ops))):
            what = "a function whose rule is not linear in what it gets, in forward mode"
            raise NoDerivative(what, rule.span, "use `vjp` or `grad`")
        self.ops += block.ops
        self.marked_as(transposed)
        self.tangents |= {result.symbol: moved for result, moved in zip(rule.results, found, strict=True)}

    def tangent(self, body: Scalar, locals_: Mapping[Symbol, Scalar] | None = None) -> Scalar:
        locals_ = locals_ or {}
        places = {s: Read(moved.symbol, (), moved.element) for s, moved in self.tangents.items()}
        return tangent(body, {**places, **locals_}, Active(self.tangents.keys(), frozenset(locals_), self.shapes))

    def reduction(self, op: Compute) -> None:
        reduction = op.reduction
        assert reduction is not None
        out, moved = op.outs[0], self.tangent(op.body[0])
        summed = replace(reduction, monoid=Monoid("sum"))
        match reduction.monoid.kind:
            case "sum":
                pass
            case "prod":
                moved = times(moved, self.others(op, reduction))
            case "max" | "min":
                moved = Select(self.best(op, reduction), moved, number(0, moved))
            case "custom":
                self.closed(reduction.monoid, op.span)
                monoid, moving = self.dual(reduction.monoid, [element_of(b) for b in op.body])
                tangents = [self.tangent(op.body[n]) for n in moving]
                outs = self.renewed(op.outs, moving)
                made = Reduction(reduction.axes, monoid, reduction.where, reduction.asked)
                self.ops.append(apart(Compute(outs, op.axes, made, (*op.body, *tangents))))
                return
            case "any" | "all" | "argmax" | "argmin":
                raise AssertionError("what makes no float has no derivative")
        self.tangents[out.symbol] = self.compute(derivative(out), op.axes, moved, summed)

    def scan(self, op: Scan) -> None:
        op = scan_apart(op)
        if op.monoid.kind == "sum":
            out = op.outs[0]
            moved = Value(fresh(derivative(out)), out.element, out.shape)
            self.ops.append(scan_apart(Scan((moved,), op.axes, op.monoid, (self.tangent(op.body[0]),), op.span)))
            self.tangents[out.symbol] = moved
            return
        self.closed(op.monoid, op.span)
        monoid, moving = self.dual(as_function(op.monoid, element_of(op.body[0])), [element_of(b) for b in op.body])
        tangents = [self.tangent(op.body[n]) for n in moving]
        outs = self.renewed(op.outs, moving)
        self.ops.append(scan_apart(Scan(outs, op.axes, monoid, (*op.body, *tangents), op.span)))

    def renewed(self, outs: Sequence[Value], moving: Sequence[int]) -> tuple[Value, ...]:
        """New results for an operation on values and tangents; the tangents are those of the old ones."""
        moved = tuple(Value(fresh(derivative(outs[n])), outs[n].element, outs[n].shape) for n in moving)
        self.tangents |= {outs[n].symbol: value for n, value in zip(moving, moved, strict=True)}
        return (*(Value(fresh(out.symbol.name), out.element, out.shape) for out in outs), *moved)

    @staticmethod
    def dual(monoid: Monoid, elements: Sequence[Element]) -> tuple[Monoid, tuple[int, ...]]:
        """A monoid on values and how those that are floats move."""
        moving = tuple(n for n, e in enumerate(elements) if e.is_float)
        locals_: dict[Symbol, Scalar] = {}
        sides: list[tuple[Symbol, ...]] = []
        for side in (monoid.left, monoid.right):
            own = tuple(fresh(f"d_{side[n].name}") for n in moving)
            locals_ |= {side[n]: Local(s, elements[n]) for n, s in zip(moving, own, strict=True)}
            sides.append((*side, *own))
        active = Active(frozenset(), frozenset(locals_))
        combine = (*monoid.combine, *(tangent(monoid.combine[n], locals_, active) for n in moving))
        units = (*monoid.units, *(number(0, elements[n]) for n in moving))
        return Monoid("custom", units, sides[0], sides[1], combine), moving

    def loop(self, op: Loop) -> None:
        moving = moving_states(op, self.active, self.stopped)
        states = {n: Value(fresh(derivative(op.states[n])), op.states[n].element, op.states[n].shape) for n in moving}
        starts = []
        for n in moving:
            known = self.tangents.get(op.initial[n])
            starts.append((known or self.constant(op.states[n], 0.0)).symbol)
        by = [value for value in self.active.values() if value.symbol in self.tangents]
        inner = Forward(op.body.ops, [*by, *(op.states[n] for n in moving)], self.known, self.shapes, self.stopped, self.rules)
        inner.run({**self.tangents, **{op.states[n].symbol: state for n, state in states.items()}})
        self.marked_as(inner)
        results = []
        for n in moving:
            result, like = op.body.results[n], op.states[n]
            results.append(inner.of(Value(result, like.element, like.shape)).symbol)
        outs = [Value(fresh(derivative(op.outs[n])), op.outs[n].element, op.outs[n].shape) for n in moving]
        self.tangents |= {op.outs[n].symbol: out for n, out in zip(moving, outs, strict=True)}
        last = len(op.outs) - op.conditional  # where the condition stands, if there is one: it stays the last state

        def joined(old: Sequence[T], new: Sequence[T]) -> tuple[T, ...]:
            return (*old[:last], *new, *old[last:])

        self.ops.append(
            replace(
                op,
                outs=joined(op.outs, outs),
                initial=joined(op.initial, starts),
                states=joined(op.states, [*states.values()]),
                body=Block(tuple(inner.ops), joined(op.body.results, results)),
            )
        )


def _needed(ops: Sequence[Op], results: tuple[Symbol, ...]) -> Block:
    """What results are made of, and nothing else: what may stop an operation whose result nobody needs has nothing to stop."""
    needed, kept = set(results), list[Op]()
    for op in reversed(ops):
        if any(out.symbol in needed for out in outs_of(op)):
            kept.append(op)
            needed |= tensors_of(op)
    return live(Block(tuple(reversed(kept)), results))
