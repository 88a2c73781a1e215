"""Making operations of derivatives: what both modes need."""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Iterable, Mapping, MutableMapping, Sequence
from typing import cast

from axon.base.data import replace
from axon.base.element import Element
from axon.base.functions import MonoidKind
from axon.base.names import Symbol, fresh
from axon.base.source import Span
from axon.core.gradients.operations import (
    NoDerivative,
    UserRule,
    active_outs,
    apart,
    at,
    axes_of,
    derivative,
    duplicate,
    rule_of,
    through_rules,
)
from axon.core.gradients.rules import number
from axon.core.gradients.scalars import Active, tidied
from axon.core.ir import (
    Axis,
    Binary,
    Compute,
    Const,
    Index,
    Monoid,
    Op,
    Reduction,
    Scalar,
    Select,
    Value,
    element_of,
)
from axon.core.scalar_facts import above_0, conjunction
from axon.core.walk import outs_of, reads
from axon.shapes.algebra.prove import Facts, proves
from axon.shapes.dimension import Dim
from axon.shapes.relation import Relation

Shapes = Mapping[Symbol, tuple[Dim, ...]]


def layered(own: Shapes, around: Shapes) -> Shapes:
    """Shapes of some tensors and of those around, which are looked up and not copied."""
    return ChainMap(cast("MutableMapping[Symbol, tuple[Dim, ...]]", own), cast("MutableMapping[Symbol, tuple[Dim, ...]]", around))


class Maker:
    """Makes operations from others. `active` are the tensors that move with what derivatives are taken by; `stopped` never do."""

    def __init__(
        self,
        source: Sequence[Op],
        by: Iterable[Value],
        known: Facts,
        shapes: Mapping[Symbol, tuple[Dim, ...]],
        stopped: frozenset[Symbol] = frozenset(),
        rules: Sequence[UserRule] = (),
    ) -> None:
        self.source, self.known, self.stopped, self.rules = tuple(source), known, stopped, tuple(rules)
        self.shapes = layered({out.symbol: out.shape for op in source for out in outs_of(op)}, shapes)
        self.active: dict[Symbol, Value] = {value.symbol: value for value in by}
        self.ops: list[Op] = []
        self.fills: dict[Symbol, Const] = {}  # of tensors whose elements are all one number: which
        self.scalars: dict[Symbol, Scalar] = {}  # what tensors of rank 0 are: trip counts of loops are some
        for op in source:
            if isinstance(op, Compute) and not op.axes and op.reduction is None:
                self.scalars |= {out.symbol: body for out, body in zip(op.outs, op.body, strict=True)}
            moved = through_rules(op, self.active, self.rules)
            found = active_outs(op, self.active, stopped) if moved is None else moved
            self.active |= {out.symbol: out for out in found if out.symbol not in stopped}

    def own(self, locals_: Iterable[Symbol] = ()) -> Active:
        return Active(self.active.keys(), frozenset(locals_), self.shapes)

    def compute(self, name: str, axes: Sequence[Axis], body: Scalar, reduction: Reduction | None = None) -> Value:
        """A tensor over new axes of the extents of some."""
        out, body = Value(fresh(name), element_of(body), tuple(a.extent for a in axes)), tidied(body)
        self.ops.append(apart(Compute((out,), tuple(axes), reduction, (body,))))
        if reduction is None and isinstance(body, Const):
            self.fills[out.symbol] = body
        return out

    def read(self, value: Value, places: Sequence[Axis | Dim]) -> Scalar:
        """An element of a tensor; a number, if all are one."""
        return self.fills.get(value.symbol) or at(value, places)

    def constant(self, like: Value, value: float) -> Value:
        return self.compute(derivative(like), axes_of(like), number(value, like.element))

    def copy(self, value: Value) -> Value:
        axes = axes_of(value)
        return self.compute(value.symbol.name, axes, self.read(value, axes))

    def others(self, op: Compute, reduction: Reduction) -> Scalar:
        """The product of all elements but one. What is 0 is counted, and left out of the product, instead of divided by."""
        (body,), (out,) = op.body, op.outs
        zero = Binary("eq", body, number(0, body))
        count = Select(zero, Const(1, Element.I32), Const(0, Element.I32))
        zeros = self.compute("zeros", op.axes, count, replace(reduction, monoid=Monoid("sum")))
        rest = Select(zero, number(1, body), body)
        product = self.compute("product", op.axes, rest, replace(reduction, monoid=Monoid("prod")))
        many, p = at(zeros, op.axes), at(product, op.axes)

        def so_many(n: int) -> Scalar:
            return Binary("eq", many, Const(n, Element.I32))

        alone = Select(so_many(1), p, number(0, out.element))
        return Select(zero, alone, Select(so_many(0), Binary("div", p, body), number(0, out.element)))

    def best(self, op: Compute, reduction: Reduction) -> Scalar:
        """Whether an element is the extreme: the first best. Of nothing, nobody asks for it."""
        shape = tuple(a.extent for a in op.axes)
        kind: MonoidKind = "argmax" if reduction.monoid.kind == "max" else "argmin"
        outs = tuple(Value(fresh(kind), Element.I32, shape) for _ in reduction.axes)
        body = (op.body[0], *(Index(Dim.of(a.symbol)) for a in reduction.axes))
        made = replace(reduction, monoid=Monoid(kind), asked=self.something(op, reduction))
        self.ops.append(apart(Compute(outs, op.axes, made, body)))
        places = zip(outs, reduction.axes, strict=True)
        found = conjunction(tuple(Binary("eq", Index(Dim.of(a.symbol)), at(b, op.axes)) for b, a in places))
        assert found is not None
        return found

    def something(self, op: Compute, reduction: Reduction) -> Scalar | None:
        """Whether there is anything to reduce, where that is not known."""
        asked = () if reduction.asked is None else (reduction.asked,)
        open_ = [a.extent for a in reduction.axes if not proves(self.known, Relation(a.extent, ">", Dim.of(0)))]
        own = {a.symbol for a in reduction.axes}
        if reduction.where is None and all(own.isdisjoint(e.variables) for e in open_):
            return conjunction((*asked, *(above_0(e) for e in open_)))
        any_ = self.compute("any", op.axes, Const(True, Element.BOOL), replace(reduction, monoid=Monoid("any"), asked=None))
        return conjunction((*asked, at(any_, op.axes)))

    def rule_of(self, op: Op) -> UserRule | None:
        return rule_of(op, self.rules)

    def again(self, ops: Sequence[Op], names: Mapping[Symbol, Symbol]) -> tuple[tuple[Op, ...], dict[Symbol, Symbol]]:
        """Operations once more, under names of their own, with the marks that they have; `names` are what others call what they
        read."""
        made, known = duplicate(ops, names)
        self.stopped |= {known[s] for s in self.stopped if s in known}
        self.rules += tuple(rule.at(known) for rule in self.rules if any(s in known for s in rule.inside))
        return made, known

    def marked_as(self, other: Maker) -> None:
        """What another one has made is marked here, too."""
        self.stopped |= other.stopped
        self.rules = other.rules

    def closed(self, monoid: Monoid, span: Span | None) -> None:
        if any(r.tensor in self.active for s in (*monoid.combine, *monoid.units) for r in reads(s)):
            what = "the function of a `reduce` or `scan` that reads what the derivative is taken by"
            raise NoDerivative(what, span, "let it read what it combines alone: make that a part of the elements")
