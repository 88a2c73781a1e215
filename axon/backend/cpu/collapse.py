"""Neighbouring row axes of a nest as one: a map over a whole tensor is one loop, whatever its rank."""

from __future__ import annotations

from axon.backend.plan.ir import Nest
from axon.base.data import replace
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Index, Read, Scalar, Value
from axon.core.scalar_facts import mapped
from axon.core.walk import all_axes, nodes, rewrite, scalars
from axon.shapes.dimension import Dim


def collapsed(nest: Nest, values: dict[Symbol, Value]) -> tuple[Nest, dict[Symbol, Value]]:
    """Neighbouring row axes that every access takes together become one: a map over a whole tensor is one loop."""
    position = 0
    while position + 1 < len(nest.rows):
        merged = _merge(nest, values, position)
        if merged is None:
            position += 1
        else:
            nest, values = merged
    return nest, values


def _merge(nest: Nest, values: dict[Symbol, Value], at: int) -> tuple[Nest, dict[Symbol, Value]] | None:
    """The nest with row axes `at` and `at + 1` as one, if no access tells them apart."""
    first, second = nest.rows[at : at + 2]
    pair = {first.symbol, second.symbol}
    places: dict[Symbol, int] = {out.symbol: at for step in nest.steps for out in step.outs}
    for step in nest.steps:
        if any(not axis.extent.variables.isdisjoint(pair) for axis in all_axes(step)):
            return None
        for node in (n for s in scalars(step) for n in nodes(s)):
            if isinstance(node, Index) and not node.dim.variables.isdisjoint(pair):
                return None
            if not isinstance(node, Read):
                continue
            mentioned = [i for i, s in enumerate(node.subscripts) if isinstance(s, Dim) and not s.variables.isdisjoint(pair)]
            if not mentioned:
                if places.get(node.tensor, -1) >= 0:
                    return None
                places[node.tensor] = -1
                continue
            start = mentioned[0]
            here = node.subscripts[start : start + 2]
            if mentioned != [start, start + 1] or here != (Dim.of(first.symbol), Dim.of(second.symbol)):
                return None
            if values[node.tensor].shape[start : start + 2] != (first.extent, second.extent):
                return None
            if places.setdefault(node.tensor, start) != start:
                return None
    both = Axis(fresh(f"{first.symbol.name}{second.symbol.name}"), first.extent * second.extent)

    def reshaped(value: Value) -> Value:
        start = places.get(value.symbol, -1)
        if start < 0:
            return value
        return replace(value, shape=(*value.shape[:start], both.extent, *value.shape[start + 2 :]))

    def change(scalar: Scalar) -> Scalar:
        def visit(node: Scalar) -> Scalar | None:
            if not isinstance(node, Read):
                return None
            padding = None if node.padding is None else rewrite(node.padding, visit)
            subscripts = [s if isinstance(s, Dim) else rewrite(s, visit) for s in node.subscripts]
            start = places.get(node.tensor, -1)
            if start >= 0:
                subscripts[start : start + 2] = [Dim.of(both.symbol)]
            return replace(node, subscripts=tuple(subscripts), padding=padding)

        return rewrite(scalar, visit)

    steps = []
    for step in nest.steps:
        changed = mapped(step, change)
        axes = (*changed.axes[:at], both, *changed.axes[at + 2 :])
        steps.append(replace(changed, axes=axes, outs=tuple(map(reshaped, changed.outs))))
    rows = (*nest.rows[:at], both, *nest.rows[at + 2 :])
    return replace(nest, rows=rows, steps=tuple(steps)), {symbol: reshaped(value) for symbol, value in values.items()}
