"""The table of derivatives against mpmath, which differentiates numerically in many digits."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from axon.base.element import Element
from axon.base.functions import BINARY as FUNCTIONS_OF_TWO
from axon.base.functions import BITS
from axon.base.functions import UNARY as FUNCTIONS_OF_ONE
from axon.core.gradients import rules
from axon.core.ir import Binary, Scalar, Unary
from tests.core.build import Build, at, call

F64 = Element.F64
POINTS = (-3.7, -2.3, -0.83, -0.4, 0.3, 0.62, 0.95, 1.7, 4.2, 9.5, 23.0)
REFERENCE = {
    "neg": lambda x: -x, "rsqrt": lambda x: 1 / mp.sqrt(x), "lgamma": lambda x: mp.log(abs(mp.gamma(x))), "digamma": mp.digamma,
    "abs": abs, "cbrt": lambda x: mp.sign(x) * mp.cbrt(abs(x)), "log1p": lambda x: mp.log(1 + x), "expm1": lambda x: mp.exp(x) - 1,
}  # fmt: skip
OF_TWO = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "mod": lambda a, b: a - mp.floor(a / b) * b, "pow": lambda a, b: a**b, "max": max, "min": min, "atan2": mp.atan2,
}  # fmt: skip


def value(scalar, *given: float) -> float:
    """An expression of reads of inputs at numbers."""
    build = Build()
    inputs = [build.input(f"x{n}", F64) for n in range(len(given))]
    made = build.compute([], scalar(*(at(x) for x in inputs)))
    with np.errstate(all="ignore"):
        return float(call(build, made, *(np.float64(g) for g in given)))


def near(found: float, wanted: mp.mpf) -> None:
    assert abs(found - wanted) <= 1e-12 * max(1, abs(wanted)), (found, wanted)


def test_every_function_has_a_row() -> None:
    floats = {name for name, allowed in FUNCTIONS_OF_ONE.items() if F64 in allowed} | {"neg"}
    assert rules.UNARY.keys() == floats
    assert rules.BINARY.keys() == (FUNCTIONS_OF_TWO.keys() - {*BITS}) | {"add", "sub", "mul", "div", "mod"}


@pytest.mark.parametrize("op", [op for op, rule in rules.UNARY.items() if rule is not None])
def test_of_one(op: str) -> None:
    rule, exact = rules.UNARY[op], REFERENCE.get(op) or getattr(mp, op)
    assert rule is not None
    tried = 0
    for x in POINTS:
        if op == "erfinv" and abs(x) > 1:
            continue
        there = exact(mp.mpf(x))
        if not isinstance(there, mp.mpf) or not mp.isfinite(there):  # outside of where it is real
            continue
        slope = lambda read: rule(read, Unary(op, read))
        near(value(slope, x), mp.diff(exact, mp.mpf(x)))
        tried += 1
    assert tried >= 2


@pytest.mark.parametrize("op", rules.BINARY)
@pytest.mark.parametrize("side", [0, 1])
def test_of_two(op: str, side: int) -> None:
    exact = OF_TWO[op]
    for a in (0.4, 1.7, 5.25) if op == "pow" else POINTS:
        for b in (-1.3, 0.7, 2.0):
            slope = lambda x, y: rules.BINARY[op][side](x, y, Binary(op, x, y))
            near(value(slope, a, b), mp.diff(exact, (mp.mpf(a), mp.mpf(b)), (1 - side, side)))


@pytest.mark.parametrize(
    ("op", "a", "b", "wanted"),
    [
        ("max", 2.0, 2.0, (1, 0)), ("min", 2.0, 2.0, (1, 0)), ("max", float("nan"), 1.0, (1, 0)),
        ("max", 1.0, float("nan"), (0, 1)),
        ("pow", 0.0, 0.0, (0, 0)), ("pow", 0.0, 2.0, (0, 0)), ("pow", 3.0, 0.0, (0, float(mp.log(3)))),
    ],
)  # fmt: skip
def test_points_without_a_derivative(op: str, a: float, b: float, wanted: tuple[float, float]) -> None:
    for side in (0, 1):
        slope = lambda x, y: rules.BINARY[op][side](x, y, Binary(op, x, y))  # noqa: B023
        assert value(slope, a, b) == pytest.approx(wanted[side])


def test_at_zero() -> None:
    def slope(op: str):
        rule = rules.UNARY[op]
        assert rule is not None
        found = rule

        def expression(read: Scalar) -> Scalar:
            return found(read, Unary(op, read))

        return expression

    assert value(slope("abs"), 0.0) == 0.0
    assert value(slope("sqrt"), 0.0) == float("inf")
    assert value(slope("cbrt"), 0.0) == float("inf")
