"""Random core programs whose floats are f64, with derivatives by all of them; and what they are at random directions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

from axon.base.data import replace
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import fresh
from axon.core.gradients.forward import Forward
from axon.core.gradients.operations import NoDerivative
from axon.core.gradients.reverse import Reverse
from axon.core.ir import Leaf, Param, Program, Scalar, TupleOf, Unary, Value
from axon.core.verify import CoreInvalid, verify
from axon.core.walk import outs_of
from axon.interpret import run
from axon.lower.needed import needed
from axon.shapes.algebra.prove import Facts
from axon.shapes.contracts.contract import ParameterShape
from tests.core.build import custom, lit, op
from tests.core.random_programs import Generator, Scope

F64 = Element.F64
SMOOTH = ("exp", "sin", "tanh", "atan", "erf", "sinh", "asinh", "expm1")


class Smooth(Generator):
    """Of the element types of floats only f64, and inputs at which hardly anything has a kink."""

    of_a_size = F64

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self.normal = np.random.default_rng(random.getrandbits(32))

    def pick(self, *items):
        found = super().pick(*items)
        return F64 if isinstance(found, Element) and found.is_float else found

    def values(self, value: Value):
        if value.element.is_float:
            shape = [self.size(d) for d in value.shape]
            return self.normal.normal(size=shape).astype(value.element.dtype)
        return super().values(value)

    def scalar(self, element: Element, scope: Scope, depth: int = 3) -> Scalar:
        if element is F64 and depth and self.chance(20):
            return Unary(self.pick(*SMOOTH), self.scalar(element, scope, depth - 1))
        return super().scalar(element, scope, depth)

    def monoid(self, kind: str, scope: Scope, reduced: int):
        if kind == "custom" and self.chance(80):
            return self.affine(), [self.scalar(F64, scope.plus([])) for _ in range(2)]
        return super().monoid(kind, scope, reduced)

    def affine(self):
        compose = lambda f, g: (op("mul", f[0], g[0]), op("add", op("mul", f[1], g[0]), g[1]))
        return custom((lit(1.0, F64), lit(0.0, F64)), compose)


def by(program: Program) -> list[int]:
    return [n for n, value in enumerate(program.inputs) if value.element is F64]


def of(program: Program) -> list[Value]:
    made = {value.symbol: value for value in (*program.inputs, *(out for op in program.block.ops for out in outs_of(op)))}
    return [made[s] for s in program.block.results if made[s].element is F64]


def _given(program: Program, extra: list[Value]) -> Program:
    """The program with more inputs, of the shapes of others."""
    inputs = (*program.inputs, *extra)
    params = tuple(Param(f"p{n}", Leaf(n)) for n in range(len(inputs)))
    more = tuple(ParameterShape(f"e{n}", v.shape) for n, v in enumerate(extra))
    contract = replace(program.contract, shapes=(*program.contract.shapes, *more))
    return replace(program, params=params, inputs=inputs, contract=contract)


def _like(value: Value) -> Value:
    return Value(fresh("w"), value.element, value.shape)


def backwards(program: Program) -> Program:
    """The adjoints of the float inputs, from more inputs: those of the float results."""
    inputs, results = [program.inputs[n] for n in by(program)], of(program)
    seeds = [_like(r) for r in results]
    reverse = Reverse(program.block.ops, inputs, Facts(), {v.symbol: v.shape for v in program.inputs})
    reverse.run([(r.symbol, s) for r, s in zip(results, seeds, strict=True)])
    found = tuple(reverse.adjoint(value).symbol for value in inputs)
    block = replace(program.block, ops=(*program.block.ops, *reverse.ops), results=found)
    whole = TupleOf(tuple(Leaf(n) for n in range(len(found))))
    return replace(_given(program, seeds), block=block, result=whole)


def forwards(program: Program) -> Program:
    """The tangents of the float results, from more inputs: those of the float inputs."""
    inputs, results = [program.inputs[n] for n in by(program)], of(program)
    tangents = [_like(v) for v in inputs]
    forward = Forward(program.block.ops, inputs, Facts(), {v.symbol: v.shape for v in program.inputs})
    forward.run({v.symbol: t for v, t in zip(inputs, tangents, strict=True)})
    found = tuple(forward.of(value).symbol for value in results)
    block = replace(program.block, ops=tuple(forward.ops), results=found)
    whole = TupleOf(tuple(Leaf(n) for n in range(len(found))))
    return replace(_given(program, tangents), block=block, result=whole)


def slopes_of_slopes(program: Program, inputs: Sequence[Any], explicit: Sequence[int] = (), seed: int = 0) -> Slopes | None:
    """The same of a program's gradient, by either mode of what reverse mode makes."""
    if not by(program) or not of(program):
        return None
    normal = np.random.default_rng(seed)
    try:
        first, results = _needed(backwards(program)), list(run(program, inputs, explicit) if explicit else run(program, inputs))
    except (NoDerivative, AxonError, CoreInvalid):
        return None
    kept = {value.symbol for value in of(program)}
    seeds = [normal.normal(size=x.shape) for s, x in zip(program.block.results, results, strict=True) if s in kept]
    return slopes(first, [*inputs, *seeds], explicit, seed)


# ── what derivatives are, three ways ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Slopes:
    """The derivative of a weighted sum of a program's results in one direction: by either mode, and by differences."""

    forward: float
    reverse: float | None  # None where reverse mode says that it has none
    scale: float  # what they are sums of, without signs
    difference: float  # NaN where it is not clear: at a kink, or outside of where the program runs


def slopes(program: Program, inputs: Sequence[Any], explicit: Sequence[int] = (), seed: int = 0) -> Slopes | None:
    """None where nothing is differentiable, or the program fails on these inputs, or it or its derivative is not finite."""
    numbers, results = by(program), {value.symbol for value in of(program)}
    known = frozenset(program.explicit).union(*(d.variables for v in program.inputs for d in v.shape))
    if not numbers or not results or any(not d.variables <= known for v in of(program) for d in v.shape):
        return None  # a size that the data decide is no input's

    def ran(p: Program, given: Sequence[Any]) -> list[Any]:
        with np.errstate(all="ignore"):
            return list(run(p, given, explicit)) if explicit else list(run(p, given))

    kept = [n for n, s in enumerate(program.block.results) if s in results]
    try:
        whole = ran(program, inputs)
    except (AxonError, CoreInvalid):
        return None
    if not all(np.isfinite(whole[n]).all() for n in kept):
        return None
    normal = np.random.default_rng(seed)
    weights = [normal.normal(size=whole[n].shape) for n in kept]
    way = [normal.normal(size=inputs[n].shape) for n in numbers]
    moved = ran(_needed(forwards(program)), [*inputs, *way])
    forward, scale = _dot(weights, moved), _dot(map(np.abs, weights), map(np.abs, moved))
    try:
        found = ran(_needed(backwards(program)), [*inputs, *weights])
        reverse: float | None = _dot(way, found)
        scale += _dot(map(np.abs, way), map(np.abs, found))
    except NoDerivative:
        reverse = None
    if not np.isfinite(forward):
        return None

    def difference(step: float) -> float:
        sides = []
        for sign in (1, -1):
            here = list(inputs)
            for n, v in zip(numbers, way, strict=True):
                here[n] = inputs[n] + sign * step * v
            try:
                sides.append([x[n] for x in (ran(program, here),) for n in kept])
            except (AxonError, CoreInvalid):
                return float("nan")
        with np.errstate(all="ignore"):
            return _dot(weights, [(a - b) / (2 * step) for a, b in zip(*sides, strict=True)])

    wide, narrow = difference(1e-6), difference(1e-7)
    rounding = 1e-16 / 1e-6 * _dot(map(np.abs, weights), (np.abs(whole[n]) for n in kept))  # of what differences are taken of
    clear = np.isfinite(wide) and abs(wide - narrow) < 1e-4 * abs(wide) + 1e-7 and rounding < 1e-4 * abs(wide) + 1e-6
    return Slopes(forward, reverse, scale, wide if clear else float("nan"))


def agree(found: Slopes) -> None:
    if found.reverse is not None:
        assert abs(found.forward - found.reverse) <= 1e-9 * found.scale + 1e-12, found
    if found.difference == found.difference:
        assert abs(found.difference - found.forward) <= 1e-3 * (abs(found.forward) + abs(found.difference)) + 1e-5, found


def _dot(a: Iterable[Any], b: Iterable[Any]) -> float:
    with np.errstate(all="ignore"):
        return float(sum((x * y).sum() for x, y in zip(a, b, strict=True)))


def _needed(program: Program) -> Program:
    program = replace(program, block=needed(program.block))
    verify(program)
    return program
