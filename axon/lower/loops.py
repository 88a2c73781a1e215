"""Lowering of reductions, scans and loops: to reductions of core where elements are scalars, else step by step."""

from __future__ import annotations

from math import prod

from axon.base.data import replace
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import Axis, Const, Index, Local, Monoid, Scalar, Select
from axon.core.scalar_facts import conjunction
from axon.lower.builder import Context
from axon.lower.indexing import Indexing
from axon.lower.scalars import integer, recognized, zero
from axon.lower.tensors import ONE, choice, leaves, ordered, rebuild, scalar_value, unit_of, widened
from axon.lower.value import Env, TensorValue, TupleValue, Value
from axon.shapes.dimension import Dim
from axon.types import typed as T


class Loops(Indexing):
    # ── reductions ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _reduce(self, env: Env, e: T.Reduce, c: Context) -> Value:
        inner, axes, _ = self._axes(env, e.binders, c)
        inside = c.with_axes(axes)
        before = self.b.risk
        where = None
        if e.where is not None:
            where = self.scalar(inner, e.where, inside)
            where = None if isinstance(where, Const) and where.value is True else where
            inside = inside if where is None else inside.guarded(where)
        if e.kind == "custom":
            return self._reduce_by(env, inner, axes, e, c, inside, where, before)
        body = self.eval(inner, e.body, inside)
        assert isinstance(body, TensorValue)
        own = [Axis(fresh("i"), extent) for extent in body.shape]
        scalar = body.at(tuple(Dim.of(a.symbol) for a in own))
        risky = self.b.risk > before or body.guarded
        if e.kind in ("argmax", "argmin"):
            positions = [Index(Dim.of(a.symbol)) for a in axes]
            names = [e.kind] * len(axes)
            found = self.b.compute(own, (scalar, *positions), c, risky, names, (axes, Monoid(e.kind), where), e.span)
            return found[0] if len(found) == 1 else TupleValue(tuple(found))
        if not axes:  # over a shape variable that stands for no dimensions: one element
            return body if where is None else choice(where, body, unit_of(e.kind, body))
        return self.b.compute(own, (scalar,), c, risky, (e.kind,), (axes, Monoid(e.kind), where), e.span)[0]

    def _reduce_by(
        self, env: Env, inner: Env, axes: list[Axis], e: T.Reduce, c: Context, inside: Context, where: Scalar | None, before: int
    ) -> Value:  # fmt: skip
        assert e.monoid is not None
        monoid = self.eval(env, e.monoid, c)
        assert isinstance(monoid, TupleValue)
        f, unit = monoid.items
        body = self.eval(inner, e.body, inside)
        parts = leaves(ordered(body, unit))
        if not axes and where is None:
            return body
        if any(p.shape for p in parts) or not axes:
            return self._fold(axes, f, unit, body, where, e, c)
        left, right = ([fresh(n) for _ in parts] for n in ("a", "b"))
        elements = [p.element for p in parts]

        def locals_(symbols: list[Symbol]) -> Value:
            return rebuild(unit, [scalar_value(Local(s, x), x) for s, x in zip(symbols, elements, strict=True)])

        combined = self.apply(f, [locals_(left), locals_(right)], Context(), e.span)
        results = tuple(p.at(()) for p in leaves(ordered(combined, unit)))
        units = tuple(p.at(()) for p in leaves(unit))
        form = recognized(Monoid("custom", units, tuple(left), tuple(right), results))
        scalars = [p.at(()) for p in parts]
        risky = self.b.risk > before
        names = ["r"] * len(parts)
        if e.scan:
            return rebuild(unit, self.b.scan(axes[0], scalars, form, c, risky, names, e.span))
        return rebuild(unit, self.b.compute((), scalars, c, risky, names, (axes, form, where), e.span))

    def _fold(self, axes: list[Axis], f: Value, unit: Value, body: Value, where: Scalar | None, e: T.Reduce, c: Context) -> Value:
        """A reduction or scan of tensors, one element after the other."""
        count = prod((a.extent for a in axes), start=ONE)
        counter = fresh("n")
        elements = self._collect(body, axes, c, True, e.span)
        chosen = None if where is None else self._collected(scalar_value(where, Element.BOOL), axes, c, True, e.span)
        rest, at = Dim.of(counter), []
        for axis in reversed(axes):
            at.append(rest % axis.extent if axis is not axes[0] else rest)
            rest = rest // axis.extent
        position = tuple(reversed(at))
        shapes = [leaf.shape[len(axes) :] for leaf in leaves(elements)]

        def step(states: list[TensorValue], c: Context) -> list[TensorValue]:
            here = [
                TensorValue(x.element, shape, lambda s, x=x: x.at((*position, *s)))  # type: ignore[misc]
                for x, shape in zip(leaves(elements), shapes, strict=True)
            ]
            old = rebuild(unit, states)
            new = self.apply(f, [old, rebuild(unit, here)], c, e.span)
            after = leaves(ordered(new, unit))
            if chosen is None:
                return after
            taken = chosen.at(position)
            return [choice(taken, a, b) for a, b in zip(after, states, strict=True)]

        first = [widened(leaf, shape) for leaf, shape in zip(leaves(unit), shapes, strict=True)]
        found = self.b.loop(first, Index(count), count, counter, e.scan, c, e.span, step)
        return rebuild(unit, found)

    # ── loops ──────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _loop(self, env: Env, e: T.Loop, c: Context) -> Value:
        risk = self.b.risk
        starts = [self.eval(env, init, c) for _, init in e.states]
        whole: Value = starts[0] if len(starts) == 1 else TupleValue(tuple(starts))
        first = [replace(x, guarded=True) for x in leaves(whole)] if self.b.risk > risk else leaves(whole)
        before = self.b.risk
        trip = self.scalar(env, e.trip, c)
        counter = fresh(e.counter.name if e.counter.name != "_" else "n")
        size = integer(trip)
        extent = size if size is not None else Dim.of(fresh("trip"))
        guard = conjunction(c.guards)
        if size is not None:
            self.b.note(size, c)
        elif self.b.risk > before and guard is not None:
            trip = Select(guard, trip, zero(Element.I32))
        inner = env.with_indices({e.counter: Dim.of(counter)}, {})

        def bound(scope: Env, states: list[TensorValue]) -> Env:
            old = rebuild(whole, states)
            parts = old.items if len(starts) > 1 and isinstance(old, TupleValue) else (old,)
            for (pattern, _), part in zip(e.states, parts, strict=True):
                scope = scope.with_values(self.bind(scope, pattern, part))
            return scope

        def step(states: list[TensorValue], c: Context) -> list[TensorValue]:
            new = self.eval(bound(inner, states), e.body, c)
            return leaves(ordered(new, whole))

        def going(states: list[TensorValue], c: Context) -> Scalar:
            assert e.condition is not None
            return self.scalar(bound(env, states), e.condition, c)

        test = going if e.condition is not None else None
        return rebuild(whole, self.b.loop(first, trip, extent, counter, e.stacked, c, e.span, step, test))
