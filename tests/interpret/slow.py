"""The meaning of core once more, as plainly as possible: Python loops, one element at a time, Python numbers.

It shares no code with the interpreter but the conversion to narrow floats, which test_core_arithmetic.py checks by itself. A sum or
a product that is not exact depends on the order of its terms; `Slow.inexact` then says so.
"""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np

from axon.base.element import Element
from axon.base.names import Symbol
from axon.core.ir import (
    Axis,
    Binary,
    Bind,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Convert,
    Index,
    Local,
    Loop,
    Monoid,
    Program,
    Read,
    Scalar,
    Scan,
    Select,
    Sort,
    Unary,
    element_of,
)
from axon.shapes.dimension import Dim

Number = float | int | bool


class Fails(Exception):
    """The program stops with a diagnostic of this code, or, with "bug", reads where it must not."""


class Nothing(Fails):
    """An extreme of nothing has no value."""


def rounded(value: Number, element: Element) -> Number:
    """A number as the nearest one of an element type; integers wrap."""
    if element is Element.BOOL:
        return bool(value)
    if element.is_integer:
        modulus = 2**element.bits
        value = int(value) % modulus
        return value - modulus if not element.is_unsigned and value >= modulus // 2 else value
    with np.errstate(all="ignore"):
        wide = np.float64(value)
        if element.bits <= 16:
            wide = wide.astype(np.float32)
        return float(wide.astype(element.dtype))


def convert(value: Number, source: Element, target: Element) -> Number:
    if target.is_integer and source.is_float:
        if math.isnan(value):
            return 0
        least, greatest = target.limits
        return max(least, min(greatest, math.trunc(value))) if math.isfinite(value) else (greatest if value > 0 else least)
    return bool(value != 0) if target is Element.BOOL else rounded(value, target)


def maximum(x: Number, y: Number) -> Number:
    return math.nan if x != x or y != y else max(x, y)


def minimum(x: Number, y: Number) -> Number:
    return math.nan if x != x or y != y else min(x, y)


def divide(x: float, y: float) -> float:
    if y == 0 or math.isinf(x) or math.isinf(y) or x != x or y != y:
        with np.errstate(all="ignore"):
            return float(np.float64(x) / np.float64(y))
    return x / y


def numpy(function: str, *args: Number) -> float:
    with np.errstate(all="ignore"):
        return float(getattr(np, function)(*map(np.float64, args)))


UNARY = {
    "neg": lambda x: -x,
    "not": lambda x: not x,
    "abs": abs,
    "sign": lambda x: x if x != x or x == 0 else 1 if x > 0 else -1,
    "erf": math.erf,
    "round": lambda x: numpy("rint", x),
    "rsqrt": lambda x: divide(1.0, numpy("sqrt", x)),
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "max": maximum,
    "min": minimum,
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


class Slow:
    def __init__(self) -> None:
        self.dims: dict[Symbol, int] = {}
        self.tensors: dict[Symbol, Any] = {}
        self.locals: dict[Symbol, Number] = {}
        self.inexact = False

    def run(self, program: Program, inputs: list[Any], explicit: tuple[int, ...] = ()) -> list[Any]:
        self.dims = dict(program.contract.bind(explicit, [x.shape for x in inputs]))
        self.tensors = {value.symbol: x for value, x in zip(program.inputs, inputs, strict=True)}
        self.block(program.block)
        return [self.tensors[symbol] for symbol in program.block.results]

    # ── scalar expressions ──────────────────────────────────────────────────────────────────────────────────────────────

    def dim(self, dim: Dim) -> int:
        try:
            return dim.evaluate(self.dims)
        except ZeroDivisionError:
            raise Fails("AX0503") from None

    def scalar(self, scalar: Scalar) -> Number:
        match scalar:
            case Const(value, element):
                return rounded(value, element)
            case Index(d, element):
                return rounded(self.dim(d), element)
            case Local(symbol, _):
                return self.locals[symbol]
            case Read():
                return self.read(scalar)
            case Unary(op, operand):
                x = self.scalar(operand)
                result = UNARY[op](x) if op in UNARY else numpy(op, x)
                return rounded(result, element_of(operand))
            case Binary(op, left, right):
                return self.binary(op, left, right)
            case Select(condition, then, otherwise):
                return self.scalar(then if self.scalar(condition) else otherwise)
            case Convert(operand, element):
                return convert(self.scalar(operand), element_of(operand), element)
            case Bind(bindings, body):
                for symbol, value in bindings:
                    self.locals[symbol] = self.scalar(value)
                return self.scalar(body)

    def binary(self, op: str, left: Scalar, right: Scalar) -> Number:
        element = element_of(left)
        x = self.scalar(left)
        if op in ("and", "or"):
            return x if x == (op == "or") else self.scalar(right)
        y = self.scalar(right)
        if op in ("eq", "ne", "lt", "le", "gt", "ge"):
            return BINARY[op](x, y)
        if element.is_integer and ((op in ("div", "mod") and y == 0) or (op == "pow" and y < 0)):
            raise Fails("AX0503")
        match op:
            case "div":
                result = x // y if element.is_integer else divide(x, y)
            case "mod":
                result = x % y if element.is_integer else numpy("mod", x, y)
            case "pow":
                result = pow(x, y, 2**64) if element.is_integer else numpy("power", x, y)
            case _:
                result = BINARY[op](x, y)
        return rounded(result, element)

    def read(self, read: Read) -> Number:
        tensor = self.tensors[read.tensor]
        place = tuple(self.dim(s) if isinstance(s, Dim) else int(self.scalar(s)) for s in read.subscripts)
        if all(0 <= i < n for i, n in zip(place, tensor.shape, strict=True)):
            value = tensor[place]
            return value.item() if isinstance(value.item(), float | int | bool) else float(value)
        if read.padding is not None:
            return self.scalar(read.padding)
        raise Fails("AX0502" if read.checked else "bug")

    # ── operations ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case Compute():
                    self.compute(op)
                case Scan():
                    self.scan(op)
                case Loop():
                    self.loop(op)
                case Sort(values, indices, symbol):
                    self.sort(values.symbol, indices.symbol, self.tensors[symbol])
                case Compress(out, size, mask):
                    found = [i for i, b in enumerate(self.tensors[mask]) if b]
                    self.tensors[out.symbol] = np.array(found, np.int32)
                    self.dims[size] = len(found)
                case Check(left, relation, right):
                    a, b = self.dim(left), self.dim(right)
                    table = {"=": a == b, "<>": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}
                    if not table[relation]:
                        raise Fails("AX0501")

    def axes(self, axes: tuple[Axis, ...]):
        """Runs through the indices of some axes, whose extents may mention those before."""
        if not axes:
            yield ()
            return
        for i in range(self.dim(axes[0].extent)):
            self.dims[axes[0].symbol] = i
            for rest in self.axes(axes[1:]):
                yield (i, *rest)

    def empty(self, op: Compute | Scan) -> list[Any]:
        sizes = [max(0, self.dim(axis.extent)) for axis in op.axes]
        return [np.zeros(sizes, out.element.dtype) for out in op.outs]

    def compute(self, op: Compute) -> None:
        outs = self.empty(op)
        for place in self.axes(op.axes):
            try:
                values = [self.scalar(b) for b in op.body] if op.reduction is None else self.reduce(op)
            except Nothing:
                if op.reduction.asked is None or self.scalar(op.reduction.asked):
                    raise
                values = [0] * len(outs)  # any values do
            for out, value in zip(outs, values, strict=True):
                out[place] = value
        self.tensors.update(zip((out.symbol for out in op.outs), outs, strict=True))

    def reduce(self, op: Compute) -> list[Number]:
        monoid, kind = op.reduction.monoid, op.reduction.monoid.kind
        points = []
        for _ in self.axes(op.reduction.axes):
            if op.reduction.where is None or self.scalar(op.reduction.where):
                points.append(self.values(kind, op.body))
        if kind in ("argmax", "argmin"):
            return self.best(kind, points)
        if kind != "custom" and not points:
            return [self.identity(kind, element_of(op.body[0]))]
        if kind == "custom" and not points:
            return [self.scalar(unit) for unit in monoid.units]
        total = points[0]
        for point in points[1:]:
            total = self.combine(monoid, total, point, op.body)
        return [rounded(t, element_of(b)) for t, b in zip(total, op.body, strict=True)]

    def values(self, kind: str, bodies: tuple[Scalar, ...]) -> list[Number]:
        """The bodies' values; an addend of narrow floats is a product in f32."""
        if kind == "sum" and element_of(bodies[0]).accumulator is not element_of(bodies[0]):
            return [self.product(bodies[0])]
        return [self.scalar(b) for b in bodies]

    def product(self, scalar: Scalar) -> Number:
        match scalar:
            case Binary("mul", left, right):
                return self.exact(self.product(left) * self.product(right), Element.F32)
            case Bind(bindings, body):
                for symbol, value in bindings:
                    self.locals[symbol] = self.scalar(value)
                return self.product(body)
        return self.scalar(scalar)

    def exact(self, value: Number, element: Element) -> Number:
        result = rounded(value, element)
        if element.is_float and result != value and value == value:
            self.inexact = True
        return result

    def identity(self, kind: str, element: Element) -> Number:
        if kind in ("max", "min"):
            if element.is_integer:
                raise Nothing("AX0503")
            infinity = 448.0 if element is Element.F8E4M3 else math.inf
            return -infinity if kind == "max" else infinity
        return {"sum": 0, "prod": 1, "any": False, "all": True}[kind]

    def best(self, kind: str, points: list[list[Number]]) -> list[Number]:
        if not points:
            raise Nothing("AX0503")
        chosen = points[0]
        for point in points[1:]:
            old, new = chosen[0], point[0]
            if old == old and (new != new or (new > old if kind == "argmax" else new < old)):
                chosen = point
        return chosen[1:]

    def combine(self, monoid: Monoid, a: list[Number], b: list[Number], bodies: tuple[Scalar, ...]) -> list[Number]:
        if monoid.kind == "custom":
            self.locals.update(zip(monoid.left, a, strict=True))
            self.locals.update(zip(monoid.right, b, strict=True))
            return [self.scalar(c) for c in monoid.combine]
        element = element_of(bodies[0]).accumulator
        match monoid.kind:
            case "sum":
                return [self.exact(a[0] + b[0], element)]
            case "prod":
                return [self.exact(a[0] * b[0], element)]
            case "max":
                return [maximum(a[0], b[0])]
            case "min":
                return [minimum(a[0], b[0])]
            case "any":
                return [a[0] or b[0]]
            case _:
                return [a[0] and b[0]]

    def scan(self, op: Scan) -> None:
        outs = self.empty(op)
        for place in self.axes(op.axes[:-1]):
            total = None
            for (i,) in self.axes(op.axes[-1:]):
                point = self.values(op.monoid.kind, op.body)
                total = point if total is None else self.combine(op.monoid, total, point, op.body)
                for out, value, body in zip(outs, total, op.body, strict=True):
                    out[(*place, i)] = rounded(value, element_of(body))
        self.tensors.update(zip((out.symbol for out in op.outs), outs, strict=True))

    def loop(self, op: Loop) -> None:
        trip = max(0, int(self.scalar(op.trip)))
        states = [self.tensors[symbol] for symbol in op.initial]
        history = []
        for i in range(trip):
            if op.conditional and not bool(states[-1]):
                break
            self.dims[op.counter] = i
            self.tensors[op.counter] = np.array(i, np.int32)
            self.tensors.update(zip((s.symbol for s in op.states), states, strict=True))
            self.block(op.body)
            states = [self.tensors[symbol] for symbol in op.body.results]
            history.append(states)
        for n, out in enumerate(op.outs):
            stack = np.array([step[n] for step in history], out.element.dtype)
            self.tensors[out.symbol] = stack.reshape(trip, *states[n].shape) if op.stacked else states[n]

    def sort(self, values: Symbol, indices: Symbol, source: Any) -> None:
        order = np.zeros(source.shape, np.int32)
        for place in np.ndindex(source.shape[:-1]):
            row = [float(x) for x in source[place]]
            key = lambda i, row=row: (row[i] != row[i], 0 if row[i] != row[i] else row[i])
            order[place] = sorted(range(len(row)), key=key)
        self.tensors[indices] = order
        sorted_values = np.zeros(source.shape, source.dtype)
        for place in product(*map(range, source.shape)):
            sorted_values[place] = source[(*place[:-1], order[place])]
        self.tensors[values] = sorted_values
