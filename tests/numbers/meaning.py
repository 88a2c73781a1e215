"""What a generated program means: its own tree, read as docs/reference.md has it, one element at a time.

Integers are Python's, wrapped by hand, floats are intervals (`intervals`). Nothing of Axon is asked. `Stops`: the program has no
result. `Unsure`: whether it has one hangs on rounding, or on what the reference leaves open.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cmp_to_key, reduce
from itertools import product
from typing import Any

import numpy as np

from tests.numbers import functions, intervals
from tests.numbers import tree as t
from tests.numbers.formats import DTYPES, FLOATS, WHOLE
from tests.numbers.intervals import Float

Value = Any  # an int, a bool, a Float, None; an array of these; a dict of values
Env = dict[str, Value]


class Stops(Exception):
    """With the code of the error."""


class Unsure(Exception):
    pass


@dataclass(eq=False)
class Failed:
    """A value that could not be computed, and whether anybody asked for it."""

    error: Stops
    touched: bool = False


INDEX, ARITHMETIC = "AX0502", "AX0503"

# ── elements ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def _floor_divided(f: Callable[[int, int], int]) -> Callable[[int, int], int]:
    def apply(x: int, y: int) -> int:
        if y == 0:
            raise Stops(ARITHMETIC)
        return f(x, y)

    return apply


def _power(x: int, y: int) -> int:
    if y < 0:
        raise Stops(ARITHMETIC)
    return pow(x, y, 2**64)


INTEGERS: dict[str, Callable[..., int]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _floor_divided(operator.floordiv),
    "%": _floor_divided(operator.mod), "**": _power, "pow": _power, "max": max, "min": min, "bit_and": operator.and_,
    "bit_or": operator.or_, "bit_xor": operator.xor,
}  # fmt: skip
INTEGER: dict[str, Callable[[int], int]] = {
    "-": operator.neg, "abs": abs, "sign": lambda x: (x > 0) - (x < 0), "bit_not": operator.invert,
}  # fmt: skip
REALS: dict[str, Callable[..., Float | None]] = {
    "+": intervals.add, "-": intervals.subtract, "*": intervals.multiply, "/": intervals.divide, "%": intervals.remainder,
    "max": intervals.maximum, "min": intervals.minimum, "**": functions.power, "pow": functions.power, "atan2": functions.angle,
}  # fmt: skip
REAL: dict[str, Callable[[Float], Float | None]] = {
    "-": intervals.negated, "abs": intervals.magnitude, "sign": intervals.sign, "floor": intervals.floor, "ceil": intervals.ceil,
    "round": intervals.round_,
}  # fmt: skip
COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MAY_STOP = {"/", "%", "**", "pow"}  # on integers


def applied(op: str, element: str, arguments: Sequence[Value]) -> Value:
    """An operation on elements of one type."""
    if any(x is None for x in arguments):
        if element in WHOLE and op in MAY_STOP:
            raise Unsure
        return None
    if element in FLOATS:
        if op in COMPARISONS:
            return intervals.compared(op, *arguments)
        if len(arguments) == 2:
            return REALS[op](element, *arguments)
        return REAL[op](*arguments) if op in REAL else functions.apply(op, element, *arguments)
    if op in COMPARISONS:
        return COMPARISONS[op](*arguments)
    if op == "not":
        return not arguments[0]
    whole = WHOLE[element]
    if op in ("shift_left", "shift_right"):
        return whole.wrapped(_shifted(op, *arguments, whole.bits))
    return whole.wrapped((INTEGERS if len(arguments) == 2 else INTEGER)[op](*arguments))


def _shifted(op: str, x: int, amount: int, bits: int) -> int:
    far = not 0 <= amount < bits
    if op == "shift_left":
        return 0 if far else x << amount
    return x >> (bits if far else amount)


def cast(target: str, source: str, x: Value) -> Value:
    if x is None or source == target:
        return x
    if source in FLOATS:
        return _from_float(target, x)
    if target in FLOATS:
        return intervals.rounded(target, intervals.point(FLOATS[target].nearest(Fraction(int(x)))))
    return x != 0 if target == "bool" else WHOLE[target].wrapped(int(x))


def _from_float(target: str, x: Float) -> Value:
    if target in FLOATS:
        return intervals.rounded(target, x)
    if target == "bool":
        return intervals.compared("<>", x, intervals.point(0.0))
    if x.nan:
        return 0
    whole = WHOLE[target]
    low, high = (
        (whole.greatest if end > 0 else whole.least) if math.isinf(end) else max(whole.least, min(whole.greatest, math.trunc(end)))
        for end in (x.low, x.high)
    )
    return low if low == high else None


def either(a: Value, b: Value) -> Value:
    """What is known of a value that is one of two."""
    if isinstance(a, dict):
        return {name: either(a[name], b[name]) for name in a}
    if isinstance(a, np.ndarray):
        return mapped(either, a, b)
    if isinstance(a, Float) and isinstance(b, Float):
        return intervals.union(a, b)
    return a if a == b else None


# ── tensors ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def filled(shape: Sequence[int], values: Sequence[Value]) -> np.ndarray:
    out = np.empty(len(values), object)
    out[:] = values
    return out.reshape(shape)


def mapped(f: Callable[..., Value], *values: Value) -> Value:
    """A function of elements at every place, scalars standing for all and shapes agreeing from the end."""
    if not any(isinstance(v, np.ndarray) for v in values):
        return f(*values)
    shape = np.broadcast_shapes(*(v.shape for v in values if isinstance(v, np.ndarray)))
    wide = [np.broadcast_to(v, shape).ravel() if isinstance(v, np.ndarray) else [v] * math.prod(shape) for v in values]
    return filled(shape, [f(*at) for at in zip(*wide, strict=True)])


def given(kind: t.Type, x: Any) -> Value:
    """An argument as values."""
    if isinstance(kind, t.Record):
        parts = x if isinstance(x, dict) else {str(n): part for n, part in enumerate(x, 1)}
        return {name: given(inner, parts[name]) for name, inner in kind.parts}
    convert = (lambda v: intervals.point(float(v))) if kind.element in FLOATS else bool if kind.element == "bool" else int
    array = np.asarray(x)
    values = [convert(v) for v in array.ravel()]
    return filled(array.shape, values) if kind.shape else values[0]


# ── the evaluator ───────────────────────────────────────────────────────────────────────────────────────────────────────


class Machine:
    def __init__(self) -> None:
        self.failed: list[Failed] = []

    def run(self, program: t.Program) -> Value:
        env = {name: given(kind, x) for (name, kind), x in zip(program.parameters, program.arguments, strict=True)}
        kinds = [kind for _, kind in program.parameters]
        env |= {size.text: size.value for kind in kinds if isinstance(kind, t.Tensor) for size in kind.shape}
        value = self.eval(program.body, env)
        if any(not f.touched for f in self.failed):
            raise Unsure  # whether anybody asks may be decided in another way
        return value

    def eval(self, e: t.Expr, env: Env) -> Value:
        return getattr(self, f"_{type(e).__name__.lower()}")(e, env)

    def later(self, e: t.Expr, env: Env) -> Value:
        """A value that fails only where somebody asks for it."""
        try:
            return self.eval(e, env)
        except Stops as error:
            self.failed.append(Failed(error))
            return self.failed[-1]

    def asked(self, value: Value) -> Value:
        if isinstance(value, Failed):
            value.touched = True
            raise value.error
        return value

    def _literal(self, e: t.Literal, env: Env) -> Value:
        assert isinstance(e.type, t.Tensor)
        if e.type.element in FLOATS:
            return e.value if isinstance(e.value, Float) else intervals.settled(e.type.element, e.value, e.value)
        return e.value

    def _name(self, e: t.Name, env: Env) -> Value:
        return self.asked(env[e.name])

    def _apply(self, e: t.Apply, env: Env) -> Value:
        if e.op in ("andalso", "orelse"):
            return self.connected(e, env)
        arguments = [self.eval(x, env) for x in e.arguments]
        first = e.arguments[0].type
        assert isinstance(first, t.Tensor)
        if e.op == "@":
            return self.product(first.element, *arguments)
        return mapped(lambda *xs: applied(e.op, first.element, xs), *arguments)

    def connected(self, e: t.Apply, env: Env) -> Value:
        decided = e.op == "orelse"
        left = self.eval(e.arguments[0], env)
        if left is decided:
            return decided
        if left is not None:
            return self.eval(e.arguments[1], env)
        right = self.perhaps(e.arguments[1], env)
        return decided if right is decided else None

    def perhaps(self, e: t.Expr, env: Env) -> Value:
        """What may or may not be evaluated."""
        try:
            return self.eval(e, env)
        except Stops:
            raise Unsure from None

    def product(self, element: str, a: np.ndarray, b: np.ndarray) -> Value:
        shape = (a.shape[0], b.shape[1])
        cells = [self.total("sum", element, self.times(element, a[i], b[:, j])) for i, j in np.ndindex(shape)]
        return filled(shape, cells)

    def times(self, element: str, xs: Sequence[Value], ys: Sequence[Value]) -> list[Value]:
        wide = element if element not in FLOATS or element == "f64" else "f32"  # factors are multiplied there
        return [applied("*", wide, (x, y)) for x, y in zip(xs, ys, strict=True)]

    def _if(self, e: t.If, env: Env) -> Value:
        condition = self.eval(e.condition, env)
        if condition is None:
            return either(self.perhaps(e.then, env), self.perhaps(e.otherwise, env))
        return self.eval(e.then if condition else e.otherwise, env)

    def _cast(self, e: t.Cast, env: Env) -> Value:
        source, target = e.value.type, e.type
        assert isinstance(source, t.Tensor)
        assert isinstance(target, t.Tensor)
        return mapped(lambda x: cast(target.element, source.element, x), self.eval(e.value, env))

    def _read(self, e: t.Read, env: Env) -> Value:
        tensor = self.eval(e.tensor, env)
        at = [self.eval(s, env) for s in e.subscripts]
        inside = all(i is None or 0 <= i < n for i, n in zip(at, tensor.shape, strict=True))
        if None in at and inside:
            if e.default is None:
                raise Unsure
            return None
        if inside:
            return tensor[tuple(at)]
        if e.default is None:
            raise Stops(INDEX)
        return self.eval(e.default, env)

    def _slice(self, e: t.Slice, env: Env) -> Value:
        start, stop = (None if end is None else end.value for end in (e.start, e.stop))
        return self.eval(e.tensor, env)[start : stop : e.step]

    def _for(self, e: t.For, env: Env) -> Value:
        shape = tuple(n.value for _, n in e.indices)
        names = [i for i, _ in e.indices]
        cells = [self.eval(e.body, {**env, **dict(zip(names, at, strict=True))}) for at in product(*map(range, shape))]
        return self.stacked(shape, e.body.type, cells)

    def stacked(self, shape: tuple[int, ...], kind: t.Type, cells: Sequence[Value]) -> Value:
        if isinstance(kind, t.Record):
            return {name: self.stacked(shape, inner, [c[name] for c in cells]) for name, inner in kind.parts}
        inner_shape = tuple(s.value for s in kind.shape)
        values = [v for c in cells for v in c.ravel()] if kind.shape else list(cells)
        return filled((*shape, *inner_shape), values)

    def _reduce(self, e: t.Reduce, env: Env) -> Value:
        assert isinstance(e.body.type, t.Tensor)
        element, found = e.body.type.element, []
        unknown = False
        for i in range(e.bound.value):
            inner = {**env, e.index: i}
            kept = e.where is None or self.eval(e.where, inner)
            if kept is None:
                self.perhaps(e.body, inner)
                unknown = True
            elif kept:
                found.append((i, self.eval(e.body, inner)))
        if unknown:
            if e.kind in ("max", "min", "argmax", "argmin") and not found:
                raise Unsure
            return None
        if e.kind in ("argmax", "argmin"):
            return self.best(e.kind, element, found)
        return self.total(e.kind, element, [x for _, x in found])

    def total(self, kind: str, element: str, values: Sequence[Value]) -> Value:
        if kind in ("any", "all"):
            decided = kind == "any"
            return decided if decided in values else None if None in values else not decided
        if kind in ("max", "min"):
            return self.extreme(kind, element, values)
        if any(v is None for v in values):
            return None
        if element in FLOATS:
            made = (intervals.total if kind == "sum" else intervals.product)(element, values)
            return made
        start, op = (0, operator.add) if kind == "sum" else (1, operator.mul)
        return WHOLE[element].wrapped(reduce(op, values, start))

    def extreme(self, kind: str, element: str, values: Sequence[Value]) -> Value:
        if not values:
            if element not in FLOATS:
                raise Stops(ARITHMETIC)
            most = math.inf if FLOATS[element].infinite else float(FLOATS[element].largest)
            return intervals.point(-most if kind == "max" else most)
        return reduce(lambda x, y: applied(kind, element, (x, y)), values)

    def best(self, kind: str, element: str, found: Sequence[tuple[int, Value]]) -> Value:
        if not found:
            raise Stops(ARITHMETIC)
        if any(x is None or (isinstance(x, Float) and not x.point) for _, x in found):
            return None
        numbers = [(i, x.low if isinstance(x, Float) else x) for i, x in found]
        for i, x in numbers:
            if x != x:
                return i
        return (max if kind == "argmax" else min)(numbers, key=lambda one: one[1])[0]

    def _scan(self, e: t.Scan, env: Env) -> Value:
        assert isinstance(e.body.type, t.Tensor)
        element = e.body.type.element
        kind = {"+": "sum", "*": "prod"}.get(e.op, e.op)
        values = [self.eval(e.body, {**env, e.index: i}) for i in range(e.bound.value)]
        unit = self.eval(e.unit, env)

        def of(part: Sequence[Value]) -> Value:
            if kind in ("sum", "prod") or element in FLOATS:
                return self.total(kind, element, part)
            return reduce(lambda x, y: applied(e.op, element, (x, y)), part, unit)

        return filled((len(values),), [of(values[: n + 1]) for n in range(len(values))]) if e.whole else of(values)

    def _loop(self, e: t.Loop, env: Env) -> Value:
        names = [name for name, _ in e.states]
        states = [self.eval(x, env) for _, x in e.states]
        kept: list[list[Value]] = []

        def going() -> bool:
            if e.condition is None:
                return True
            holds = self.eval(e.condition, {**env, **dict(zip(names, states, strict=True))})
            if holds is None:
                raise Unsure
            return bool(holds)

        on = going()
        for i in range(e.bound.value):
            if not on:
                break
            inner = {**env, **dict(zip(names, states, strict=True)), e.index: i}
            states = [self.eval(x, inner) for x in e.body]
            kept.append(states)
            on = going()
        if e.stacked:
            stacks = [self.stacked((len(kept),), x.type, [k[n] for k in kept]) for n, (_, x) in enumerate(e.states)]
            states = stacks
        return states[0] if len(states) == 1 else {str(n): x for n, x in enumerate(states, 1)}

    def _part(self, e: t.Part, env: Env) -> Value:
        return self.asked(self.eval(e.value, env)[e.name])

    def _build(self, e: t.Build, env: Env) -> Value:
        assert isinstance(e.type, t.Record)
        return {name: self.later(x, env) for (name, _), x in zip(e.type.parts, e.parts, strict=True)}

    def _let(self, e: t.Let, env: Env) -> Value:
        if not any(isinstance(x, t.Name) and x.name == e.name for x in t.nodes(e.body)):
            return self.eval(e.body, env)
        return self.eval(e.body, {**env, e.name: self.later(e.value, env)})

    def _call(self, e: t.Call, env: Env) -> Value:
        arguments = [self.later(x, env) for x in e.arguments]
        own = dict(zip(e.function.dims, (d.value for d in e.dims), strict=True))

        def apply(*xs: Value) -> Value:
            return self.eval(e.function.body, {**own, **dict(zip(e.function.parameters, xs, strict=True))})

        lifted = isinstance(e.function.body.type, t.Tensor) and not e.function.body.type.shape
        return mapped(apply, *arguments) if lifted else apply(*arguments)

    def _each(self, e: t.Each, env: Env) -> Value:
        arguments = [self.eval(x, env) for x in e.arguments]
        results = []
        for path, body in e.leaves:
            at = [_at(x, path) for x in arguments]
            results.append(self.eval(body, {**env, **dict(zip(e.parameters, at, strict=True))}))
        if e.unit is None:
            assert isinstance(e.type, t.Record)
            return _rebuilt(e.type, "", dict(zip((path for path, _ in e.leaves), results, strict=True)))
        assert isinstance(e.type, t.Tensor)
        element = e.type.element
        ordered = [x for _, x in sorted(zip((path for path, _ in e.leaves), results, strict=True), key=lambda one: one[0])]
        return reduce(lambda x, y: applied(e.op, element, (x, y)), ordered, self.eval(e.unit, env))

    def _sort(self, e: t.Sort, env: Env) -> Value:
        value = self.eval(e.value, env)
        if any(x is None or (isinstance(x, Float) and not x.point) for x in value):
            return filled(value.shape, [None] * value.size)
        key = [x.low if isinstance(x, Float) else x for x in value]
        order = sorted(range(len(key)), key=cmp_to_key(lambda a, b: _before(key[a], key[b])))
        return filled(value.shape, order if e.kind == "argsort" else [value[n] for n in order])


def _before(x: Any, y: Any) -> int:
    """Ascending, NaN last."""
    if x != x or y != y:
        return int(x != x) - int(y != y)
    return int(x > y) - int(x < y)


def _at(value: Value, path: str) -> Value:
    for name in path.split("."):
        value = value[name]
    return value


def _rebuilt(kind: t.Record, path: str, leaves: dict[str, Value]) -> Value:
    return {
        name: _rebuilt(inner, f"{path}{name}.", leaves) if isinstance(inner, t.Record) else leaves[path + name]
        for name, inner in kind.parts
    }


# ── beside a result ─────────────────────────────────────────────────────────────────────────────────────────────────────


def different(kind: t.Type, known: Value, seen: Any, path: str = "result") -> str:
    """Why a result is not what is known of it; "" if it may be."""
    if isinstance(kind, t.Record):
        parts = seen if isinstance(seen, dict) else {str(n): part for n, part in enumerate(seen, 1)}
        whys = (different(inner, known[name], parts[name], f"{path}.{name}") for name, inner in kind.parts)
        return next((why for why in whys if why), "")
    array, wanted = np.asarray(seen), tuple(s.value for s in kind.shape)
    if array.dtype != DTYPES[kind.element] or array.shape != wanted:
        return f"{path}: {array.dtype}{list(array.shape)}, not {kind.element}{list(wanted)}"
    for at in np.ndindex(wanted):
        one = known[at] if wanted else known
        if not _may_be(kind.element, one, array[at]):
            return f"{path}{list(at) or ''}: {array[at]}, not {one}"
    return ""


def _may_be(element: str, known: Value, seen: Any) -> bool:
    if known is None:
        return True
    if element not in FLOATS:
        return bool(int(seen) == int(known))
    stored = intervals.rounded(element, known)
    if stored is None:
        return True
    x = float(seen)
    if stored.nan or math.isnan(x):
        return stored.nan and math.isnan(x)
    return intervals._key(stored.low) <= intervals._key(x) <= intervals._key(stored.high)


def settled(kind: t.Type, known: Value) -> tuple[int, int]:
    """How many elements of a result are known, and how many there are."""
    if isinstance(kind, t.Record):
        counts = [settled(inner, known[name]) for name, inner in kind.parts]
        return sum(a for a, _ in counts), sum(b for _, b in counts)
    values = list(known.ravel()) if kind.shape else [known]
    return sum(v is not None for v in values), len(values)
