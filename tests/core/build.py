"""A small helper that builds core programs by hand."""

from __future__ import annotations

import numpy as np
import pytest

from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol, fresh
from axon.base.source import SourceFile
from axon.core.ir import (
    Axis,
    Binary,
    Block,
    Check,
    Compress,
    Compute,
    Const,
    Index,
    Leaf,
    Local,
    Loop,
    Monoid,
    Op,
    Param,
    Program,
    Read,
    Reduction,
    Scalar,
    Scan,
    Sort,
    Structure,
    TupleOf,
    Value,
    element_of,
)
from axon.core.verify import verify
from axon.interpret import run
from axon.shapes.contracts.contract import Contract, ParameterShape
from axon.shapes.dimension import Dim

F64, F32, F16, BF16, F8E4M3, F8E5M2, I64, I32, I16, I8, U64, U32, U16, U8, BOOL = Element


def ix(name: str, extent: Dim | int) -> Axis:
    """A new axis."""
    return Axis(fresh(name), Dim.of(extent))


def dim(axis: Axis | Symbol | Dim | int) -> Dim:
    return Dim.of(axis.symbol if isinstance(axis, Axis) else axis)


def at(value: Value, *subscripts: Axis | Dim | int | Scalar, padding: Scalar | None = None, checked=None) -> Read:
    """A read; axes, Dims and numbers are symbolic subscripts, scalars computed ones."""
    subs = tuple(dim(s) if isinstance(s, Axis | Dim | int) else s for s in subscripts)
    return Read(value.symbol, subs, value.element, padding, checked)


def lit(value: float | int | bool, element: Element = F32) -> Const:
    return Const(value, element)


def index(value: Axis | Dim | int, element: Element = I32) -> Index:
    return Index(dim(value), element)


def op(name: str, left: Scalar, right: Scalar) -> Binary:
    return Binary(name, left, right)


def local(symbol: Symbol, element: Element = F32) -> Local:
    return Local(symbol, element)


def custom(units: tuple[Scalar, ...], combine) -> Monoid:
    """A monoid from a function of two tuples of Locals."""
    elements = [element_of(unit) for unit in units]
    left, right = (tuple(fresh(side) for _ in units) for side in "ab")
    sides = [tuple(Local(s, e) for s, e in zip(symbols, elements, strict=True)) for symbols in (left, right)]
    return Monoid("custom", units, left, right, tuple(combine(*sides)))


class Build:
    """Collects dimensions, inputs and operations, then makes a verified program of them."""

    def __init__(self, name: str = "f") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.ops: list[Op] = []
        self.explicit: list[Symbol] = []

    def param(self, name: str) -> Dim:
        """An explicit dimension."""
        self.explicit.append(fresh(name))
        return Dim.of(self.explicit[-1])

    def input(self, name: str, element: Element, *shape: Dim | int) -> Value:
        self.inputs.append(Value(fresh(name), element, tuple(map(Dim.of, shape))))
        return self.inputs[-1]

    def compute(self, axes, *body, over=(), by=None, where=None, asked=None, name="y", span=None):
        """A Compute; `by` is the kind or the Monoid of a reduction over the axes `over`."""
        axes = tuple(axes)
        monoid = Monoid(by) if isinstance(by, str) else by
        reduction = None if monoid is None else Reduction(tuple(over), monoid, where, asked)
        values = body[1:] if monoid is not None and monoid.kind in ("argmax", "argmin") else body
        outs = self._outs(name, [element_of(b) for b in values], tuple(axis.extent for axis in axes))
        self.ops.append(Compute(outs, axes, reduction, tuple(body), span))
        return outs[0] if len(outs) == 1 else outs

    def scan(self, axes, *body, by, name="y"):
        axes = tuple(axes)
        outs = self._outs(name, [element_of(b) for b in body], tuple(axis.extent for axis in axes))
        self.ops.append(Scan(outs, axes, Monoid(by) if isinstance(by, str) else by, tuple(body)))
        return outs[0] if len(outs) == 1 else outs

    def loop(self, initial: list[Value], trip: Scalar, step, stacked=False, name="y", conditional=False):
        """`step(inner, counter, states)` builds the body in `inner` and returns its results."""
        states = tuple(Value(fresh(v.symbol.name), v.element, v.shape) for v in initial)
        counter = Value(fresh("t"), I32, ())
        inner = Build()
        results = step(inner, counter, states)
        leading = (trip.dim,) if stacked else ()
        outs = tuple(Value(fresh(name), v.element, leading + v.shape) for v in initial)
        body = Block(tuple(inner.ops), tuple(r.symbol for r in results))
        first = tuple(v.symbol for v in initial)
        self.ops.append(Loop(outs, first, states, counter.symbol, trip, body, stacked, conditional))
        return outs[0] if len(outs) == 1 else outs

    def sort(self, value: Value):
        values = Value(fresh("sorted"), value.element, value.shape)
        indices = Value(fresh("order"), I32, value.shape)
        self.ops.append(Sort(values, indices, value.symbol))
        return values, indices

    def compress(self, mask: Value) -> Value:
        size = fresh("k")
        out = Value(fresh("ix"), I32, (Dim.of(size),))
        self.ops.append(Compress(out, size, mask.symbol))
        return out

    def check(self, left, relation: str, right, message: str = "sizes differ", span=None) -> None:
        self.ops.append(Check(Dim.of(left), relation, Dim.of(right), message, span))

    def _outs(self, name, elements, shape):
        return tuple(Value(fresh(name), element, shape) for element in elements)

    def program(self, *results: Value, result: Structure | None = None, facts=()) -> Program:
        params = tuple(Param(value.symbol.name, Leaf(i)) for i, value in enumerate(self.inputs))
        shapes = tuple(ParameterShape(value.symbol.name, value.shape) for value in self.inputs)
        contract = Contract(tuple(self.explicit), shapes, tuple(facts))
        if result is None:
            leaves = tuple(Leaf(i) for i in range(len(results)))
            result = leaves[0] if len(leaves) == 1 else TupleOf(leaves)
        block = Block(tuple(self.ops), tuple(value.symbol for value in results))
        return Program(self.name, tuple(self.explicit), params, tuple(self.inputs), contract, block, result)


# ── running ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

SOURCE = SourceFile("test.axon", "x[ids[i]] / n")
R = np.random.default_rng(7)
X = R.standard_normal((4, 5)).astype(np.float32)


def sizes(names: str) -> tuple[Dim, ...]:
    return tuple(Dim.of(fresh(name)) for name in names)


def call(build: Build, result, *inputs):
    """The results of a program, verified first."""
    results = result if isinstance(result, tuple) else (result,)
    program = build.program(*results)
    verify(program)
    outs = run(program, inputs)
    for value, out in zip(results, outs, strict=True):
        assert out.dtype == value.element.dtype
    return outs if isinstance(result, tuple) else outs[0]


def code_of(error: pytest.ExceptionInfo[AxonError]) -> str:
    (diagnostic,) = error.value.diagnostics
    return diagnostic.code


def matrix(element: Element = F32):
    b = Build()
    n, m = sizes("nm")
    x = b.input("x", element, n, m)
    return b, x, ix("i", n), ix("j", m)


def gather():
    b = Build()
    n, k = sizes("nk")
    x, ids, i = b.input("x", F32, n), b.input("ids", I32, k), ix("i", k)
    return b, i, ids, at(x, at(ids, i), checked=SOURCE.span(2, 8))


def like(*axes: Axis) -> tuple[Axis, ...]:
    """New axes of the same names and extents."""
    return tuple(ix(axis.symbol.name, axis.extent) for axis in axes)
