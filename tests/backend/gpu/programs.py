"""Core programs built by hand, for tests of the backend that need no front end."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from axon.backend.gpu.layout.assumptions import Granted
from axon.base.element import Element
from axon.base.names import Symbol, fresh
from axon.core.ir import (  # noqa: F401  (tests build expressions from these)
    Axis,
    Binary,
    Block,
    Compute,
    Const,
    Convert,
    Index,
    Leaf,
    Monoid,
    Program,
    Read,
    Reduction,
    Scalar,
    Select,
    Unary,
    Value,
)
from axon.shapes.contracts.contract import Contract
from axon.shapes.dimension import Dim

# How a kernel stores its results: what it is granted of how they lie.
STORES: dict[str, Callable[[frozenset[Symbol]], Granted]] = {
    "boxes": Granted,
    "rows": lambda results: Granted(dense=results),
    "elements": lambda _: Granted(),
}


def add(left: Scalar, right: Scalar) -> Scalar:
    return Binary("add", left, right)


def mul(left: Scalar, right: Scalar) -> Scalar:
    return Binary("mul", left, right)


def gelu(x: Scalar, element: Element) -> Scalar:
    """x Φ(x), with the error function."""
    half, one, root = (Const(c, element) for c in (0.5, 1.0, 0.7071067811865476))
    return mul(mul(x, half), add(one, Unary("erf", mul(x, root))))


@dataclass(frozen=True)
class Case:
    """A program and what its result should be, in float64, from its inputs' arrays."""

    program: Program
    axes: str  # einsum over the two factors
    extra: tuple[Value, ...] = ()

    @property
    def result(self) -> Value:
        last = self.program.block.ops[-1]
        assert isinstance(last, Compute)
        return last.outs[0]


def contraction(
    axes: str, element: Element = Element.BF16, result: Element | None = None, epilogue: Any = None, extra: str = ""
) -> Case:
    """`axes` is an einsum such as `ik,kj->ij` with one reduced index.

    `epilogue(read, reads, axes)` makes the stored scalar from the product's and the extra operands' reads; `extra` gives those
    operands' axes, separated by commas.
    """
    factors, out = axes.split("->")
    left, right = factors.split(",")
    letters = dict.fromkeys(left + right)
    size = {c: fresh(c.upper()) for c in letters}
    first = {c: fresh(c) for c in letters}
    (reduced,) = [c for c in letters if c not in out]
    made = result or element

    def value(name: str, at: str, kind: Element) -> Value:
        return Value(fresh(name), kind, tuple(Dim.of(size[c]) for c in at))

    def read(v: Value, at: str, index: dict[str, Symbol]) -> Read:
        return Read(v.symbol, tuple(Dim.of(index[c]) for c in at), v.element)

    a, b = value("a", left, element), value("b", right, element)
    factors_read: list[Scalar] = [read(a, left, first), read(b, right, first)]
    if made != element:
        factors_read = [Convert(f, made) for f in factors_read]
    product = value("product", out, made)
    reduction = Reduction((Axis(first[reduced], Dim.of(size[reduced])),), Monoid("sum"))
    domain = tuple(Axis(first[c], Dim.of(size[c])) for c in out)
    ops = [Compute((product,), domain, reduction, (mul(*factors_read),))]
    more = tuple(value(f"x{n}", at, made) for n, at in enumerate(extra.split(",")) if at)
    if epilogue is not None:
        second = {c: fresh(c) for c in out}
        reads = [read(v, at, second) for v, at in zip(more, extra.split(","), strict=False)]
        body = epilogue(read(product, out, second), reads, {c: Index(Dim.of(s)) for c, s in second.items()})
        stored = value("out", out, made)
        ops.append(Compute((stored,), tuple(Axis(second[c], Dim.of(size[c])) for c in out), None, (body,)))
    program = Program("f", (), (), (a, b, *more), Contract((), ()), Block(tuple(ops), (ops[-1].outs[0].symbol,)), Leaf(0))
    return Case(program, axes, more)


def inputs(case: Case, sizes: dict[str, int], seed: int = 0) -> dict[Symbol, Any]:
    """Random normal arrays for every input, and a result full of NaN. `sizes` is by the letters of the einsum."""
    rng = np.random.default_rng(seed)
    out: dict[Symbol, Any] = {}
    for v in (*case.program.inputs, case.result):
        shape = tuple(sizes[s.name.lower()] for s in _symbols(v))
        out[v.symbol] = rng.standard_normal(shape).astype(v.element.dtype)
    out[case.result.symbol] = np.full(out[case.result.symbol].shape, np.nan, case.result.element.dtype)
    return out


def _symbols(v: Value) -> list[Symbol]:
    found = [d.symbol for d in v.shape]
    assert all(s is not None for s in found)
    return [s for s in found if s is not None]


def dimensions(case: Case, arrays: dict[Symbol, Any]) -> dict[Symbol, int]:
    """Every dimension variable's value."""
    return {s: n for v in case.program.inputs for s, n in zip(_symbols(v), arrays[v.symbol].shape, strict=True)}


def expected(case: Case, arrays: dict[Symbol, Any]) -> Any:
    """The product of the first two inputs in float64."""
    a, b = (arrays[v.symbol].astype(np.float64) for v in case.program.inputs[:2])
    return np.einsum(case.axes, a, b, optimize=True)


def error(got: Any, want: Any) -> float:
    """‖got - want‖ / ‖want‖; infinite if anything is not a number."""
    difference = got.astype(np.float64) - want
    return float(np.linalg.norm(difference) / np.linalg.norm(want)) if np.isfinite(difference).all() else float("inf")
