"""Reductions of a block: named monoids, argmax and argmin, and custom ones.

Each kind reduces one block of the reduced axes to a `State`, merges the states of blocks in order, and turns the last into results.
A state's arrays have dimension 0 spare and then the domain's axes (of size 1 where they do not depend on one).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeAlias

import numpy as np

from axon.core.ir import Monoid, Scalar, element_of, identity
from axon.interpret.arithmetic import FOLDS, Array, convert, narrow, widen
from axon.interpret.frame import Frame, Masks
from axon.interpret.scalar import evaluate, product

State: TypeAlias = "list[Array]"


class Reducer(Protocol):
    """How a reduction goes about one block. `inner` evaluates over domain and reduced axes, `outer` over the domain alone."""

    def partial(self, inner: Frame, outer: Frame, masks: Masks) -> State:
        """The reduction over the reduced axes of one block, of the points where the masks hold."""

    def merge(self, first: State, second: State, outer: Frame) -> State:
        """Of two parts, the first of which comes before the second."""

    def finish(self, state: State, outer: Frame, asked: Array | None) -> list[Array]:
        """The results, of the dtypes of the operation's values; errors are raised only for those that are asked for."""

    def nothing(self, outer: Frame) -> State:
        """The reduction of nothing."""


def reducer(monoid: Monoid, bodies: tuple[Scalar, ...]) -> Reducer:
    match monoid.kind:
        case "custom":
            return Custom(monoid, bodies)
        case "argmax" | "argmin":
            return Best(monoid.kind, bodies)
        case kind:
            return Named(kind, bodies[0])


def front(value: Array, inner: Frame, outer: Frame) -> Array:
    """A value over all axes with the reduced ones flattened into dimension 0, where it is full; the domain's stay as they are."""
    full = spread(value, inner, outer)[0]
    domain = outer.rank - 1
    order = [*range(domain, full.ndim), *range(domain)]
    flat: Array = full.transpose(order).reshape(-1, *full.shape[:domain])
    return flat


def spread(value: Array, inner: Frame, outer: Frame) -> Array:
    """A value over all axes, full along the reduced ones."""
    sizes = list(value.shape)
    for axis in inner.axes.values():
        if axis.position >= outer.rank:
            sizes[axis.position] = axis.high - axis.low
    return np.broadcast_to(value, sizes)


def all_of(masks: Masks) -> Array:
    kept: Array = masks[0]
    for mask in masks[1:]:
        kept = np.logical_and(kept, mask)
    return kept


class Named:
    """sum prod max min any all, in the accumulator of the element type."""

    def __init__(self, kind: str, body: Scalar) -> None:
        self.kind, self.body = kind, body
        self.element = element_of(body)
        self.fold = FOLDS[kind]
        self.unit = identity(kind, self.element)
        self.partly = kind in ("max", "min") and self.element.is_integer  # has no identity of its own

    def addend(self, frame: Frame, masks: Masks) -> Array:
        """The body's values in the accumulator."""
        if self.kind == "sum":
            return product(self.body, frame, masks)
        return widen(evaluate(self.body, frame, masks), self.element)

    def partial(self, inner: Frame, outer: Frame, masks: Masks) -> State:
        value = self.addend(inner, masks)
        some: Array = np.ones((1,) * outer.rank, np.bool_)
        if masks:
            kept = all_of(masks)
            value = np.where(kept, value, value.dtype.type(self.unit))
            if self.partly:
                some = np.logical_or.reduce(front(kept, inner, outer), axis=0, keepdims=True)
        axes = tuple(range(outer.rank, inner.rank))
        reduced = self.fold.reduce(spread(value, inner, outer), axis=axes, dtype=value.dtype)
        return [np.asarray(reduced), some]

    def merge(self, first: State, second: State, outer: Frame) -> State:
        return [self.fold(first[0], second[0]), first[1] | second[1]]

    def finish(self, state: State, outer: Frame, asked: Array | None) -> list[Array]:
        if self.partly and not _answered(state[1], asked):
            unit = f"give it a unit that none is {'below' if self.kind == 'max' else 'above'}, `reduce ({self.kind}, unit) i => …`"
            outer.fail("AX0503", f"the {self.kind} of no integers", help=f"{unit}, or {_ASKED}")
        return [narrow(state[0], self.element)]

    def nothing(self, outer: Frame) -> State:
        unit = np.full((1,) * outer.rank, self.unit, self.element.accumulator.dtype)
        return [unit, np.zeros((1,) * outer.rank, np.bool_)]


_ASKED = "ask before whether there is any, `if any i => … then … else …`"


class Best:
    """argmax and argmin: the state is the best value, its indices, and whether there is one."""

    def __init__(self, kind: str, bodies: tuple[Scalar, ...]) -> None:
        self.kind, self.bodies = kind, bodies
        self.element = element_of(bodies[0])
        self.better = np.greater if kind == "argmax" else np.less

    def partial(self, inner: Frame, outer: Frame, masks: Masks) -> State:
        value = front(widen(evaluate(self.bodies[0], inner, masks), self.element), inner, outer)
        some = np.ones((1,) * outer.rank, np.bool_)
        if not masks:
            find = np.argmax if self.kind == "argmax" else np.argmin  # both take the first NaN, and else the first best
            at = find(value, axis=0, keepdims=True)
        else:
            kept = front(all_of(masks), inner, outer)
            fold = FOLDS[self.kind.removeprefix("arg")]
            filled = np.where(kept, value, value.dtype.type(identity(self.kind, self.element)))
            best = fold.reduce(filled, axis=0, keepdims=True)
            hit = kept & ((filled == best) | (filled != filled))
            some = hit.any(axis=0, keepdims=True)
            at = np.argmax(hit, axis=0, keepdims=True)
        values = [value, *[front(evaluate(body, inner, masks), inner, outer) for body in self.bodies[1:]]]
        return [*[_along(v, at) for v in values], some]

    def merge(self, first: State, second: State, outer: Frame) -> State:
        a, b, has_a, has_b = first[0], second[0], first[-1], second[-1]
        wins = has_b & (~has_a | self.better(b, a) | ((b != b) & (a == a)))  # never over a NaN
        chosen = [np.where(wins, y, x) for x, y in zip(first[:-1], second[:-1], strict=True)]
        return [*chosen, has_a | has_b]

    def finish(self, state: State, outer: Frame, asked: Array | None) -> list[Array]:
        if not _answered(state[-1], asked):
            outer.fail("AX0503", f"the {self.kind} of nothing", help=_ASKED)
        return state[1:-1]

    def nothing(self, outer: Frame) -> State:
        shape = (1,) * outer.rank
        dtypes = [self.element.accumulator.dtype, *[element_of(body).dtype for body in self.bodies[1:]], np.bool_]
        return [np.zeros(shape, dtype) for dtype in dtypes]


def _answered(some: Array, asked: Array | None) -> bool:
    """Whether there was something to reduce wherever a result is asked for."""
    return bool((some if asked is None else some | ~asked).all())


def _along(value: Array, at: Array) -> Array:
    """value[at[i…], i…] for a value that may not vary along some of the domain's axes."""
    shape = np.broadcast_shapes(value.shape[1:], at.shape[1:])
    places = np.broadcast_to(at, (1, *shape))
    return np.take_along_axis(np.broadcast_to(value, (len(value), *shape)), places, axis=0)


class Custom:
    """A user's associative function: combined pairwise in a tree, which keeps the order."""

    def __init__(self, monoid: Monoid, bodies: tuple[Scalar, ...]) -> None:
        self.monoid, self.bodies = monoid, bodies

    def combine(self, left: State, right: State, outer: Frame) -> State:
        """Of arrays with several elements along dimension 0, element by element."""
        return combine(self.monoid, left, right, outer)

    def partial(self, inner: Frame, outer: Frame, masks: Masks) -> State:
        values = [evaluate(body, inner, masks) for body in self.bodies]
        if masks:
            kept = all_of(masks)
            units = [np.expand_dims(u, tuple(range(outer.rank, inner.rank))) for u in self.nothing(outer)]
            values = [np.where(kept, v, u) for v, u in zip(values, units, strict=True)]
        parts = together([front(value, inner, outer) for value in values])
        while len(parts[0]) > 1:
            pairs = len(parts[0]) // 2
            combined = self.combine([p[0 : 2 * pairs : 2] for p in parts], [p[1 : 2 * pairs : 2] for p in parts], outer)
            if len(parts[0]) % 2:
                combined = [np.concatenate((c, p[-1:])) for c, p in zip(combined, parts, strict=True)]
            parts = combined
        return parts

    def merge(self, first: State, second: State, outer: Frame) -> State:
        return self.combine(together(first), together(second), outer)

    def finish(self, state: State, outer: Frame, asked: Array | None) -> list[Array]:
        return state

    def nothing(self, outer: Frame) -> State:
        return [evaluate(unit, outer) for unit in self.monoid.units]


def together(values: Sequence[Array]) -> State:
    """The values broadcast to one shape."""
    shape = np.broadcast_shapes(*[v.shape for v in values])
    return [np.broadcast_to(v, shape) for v in values]


def combine(monoid: Monoid, left: Sequence[Array], right: Sequence[Array], outer: Frame) -> State:
    """A custom monoid's results for the values of its two sides, broadcast to one shape."""
    frame = Frame(outer.dims, outer.tensors, outer.axes, outer.rank, outer.span, ramps=outer.ramps)
    frame.locals.update(zip(monoid.left, left, strict=True))
    frame.locals.update(zip(monoid.right, right, strict=True))
    shape = np.broadcast_shapes(*[v.shape for v in (*left, *right)])
    results = [evaluate(result, frame) for result in monoid.combine]
    full = np.broadcast_shapes(shape, *[r.shape for r in results])
    return [np.broadcast_to(r, full) for r in results]


def accumulate(monoid: Monoid, values: Sequence[Array], carry: State | None, outer: Frame) -> State:
    """The running combinations of values along dimension 0, after a carry: those of a named monoid in its accumulator."""
    if monoid.kind != "custom":
        fold = FOLDS[monoid.kind]
        running = fold.accumulate(values[0], axis=0, dtype=values[0].dtype)
        return [running if carry is None else fold(carry[0], running)]
    parts, step = together(values), 1
    while step < len(parts[0]):  # Hillis and Steele: after a step, each element combines the last 2 * step
        later = combine(monoid, [p[:-step] for p in parts], [p[step:] for p in parts], outer)
        parts = [np.concatenate((np.broadcast_to(p[:step], (step, *x.shape[1:])), x)) for p, x in zip(parts, later, strict=True)]
        step *= 2
    return parts if carry is None else combine(monoid, carry, parts, outer)


def rounded(values: Sequence[Array], bodies: Sequence[Scalar]) -> State:
    """Accumulated values in the element types of the bodies."""
    elements = [element_of(body) for body in bodies]
    return [convert(v, e.accumulator, e) if v.dtype != e.dtype else v for v, e in zip(values, elements, strict=True)]
