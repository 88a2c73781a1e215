"""Infinities, NaN, zeros of both signs and limits: every function and operator of floats, interpreted and compiled."""

from __future__ import annotations

import math
import warnings
from functools import cache

import numpy as np
import pytest

import axon
from axon.base.element import FLOAT, Element
from axon.types import builtins

SPECIAL = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 2.0, 3.0, -3.0, 448.0, 1e-4, 100.0]
SPECIAL += [-100.0, 1e30, -1e30, 1e-40, 1e300]
EXPONENTS = [0.5, -0.5, 0.0, -0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, 1.5, math.inf, -math.inf, math.nan]
UNARY = (*(name for name, taken in builtins.UNARY.items() if taken >= FLOAT), "-")
BINARY = (*(f"x[i] {op} y[j]" for op in ("+", "-", "*", "/", "%", "**")), "max x[i] y[j]", "min x[i] y[j]", "atan2 x[i] y[j]")
CLOSE = {"f64": 1e-13, "f32": 1e-6, "f16": 2e-3, "bf16": 1.6e-2, "f8e4m3": 0.26, "f8e5m2": 0.3}  # two units in the last place


def values(numbers: list[float], element: Element) -> np.ndarray:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.array(numbers).astype(element.dtype)


def differences(a: np.ndarray, b: np.ndarray, element: Element) -> list[tuple[int, ...]]:
    """Where two results are of another kind or sign, or farther apart than rounding explains."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    kinds = [np.isnan(a) != np.isnan(b), np.isinf(a) != np.isinf(b), (np.signbit(a) != np.signbit(b)) & ~np.isnan(a)]
    with np.errstate(all="ignore"):
        far = np.isfinite(a) & np.isfinite(b) & (np.abs(a - b) > CLOSE[element.value] * np.maximum(np.abs(a), np.abs(b)) + 1e-44)
    return [tuple(map(int, at)) for at in np.argwhere(np.logical_or.reduce([*kinds, far]))]


def literal(value: float) -> str:
    return "nan" if math.isnan(value) else f"({'-' if value < 0 else ''}inf)" if math.isinf(value) else f"({value!r})"


@cache
def module() -> axon.Module:
    """One function for each shape of program; what it computes is a tuple, so that its parts are compiled together."""
    return axon.compile(f"""
    fun unary (x : 'a[n]) = ({", ".join(f"for i => {op} x[i]" for op in UNARY)})
    fun binary (x : 'a[n]) (y : 'a[m]) = ({", ".join(f"for i j => {op}" for op in BINARY)})
    fun powers (x : 'a[n]) = ({", ".join(f"for i => x[i] ** {literal(e)}" for e in EXPONENTS)})
    fun bases (x : 'a[n]) = ({", ".join(f"for i => {literal(e)} ** x[i]" for e in EXPONENTS)})
    fun power (x : 'a[n]) (p : 'a) = for i => x[i] ** p
    """)


@pytest.mark.parametrize("element", sorted(FLOAT, key=str), ids=str)
@pytest.mark.parametrize("name", ["unary", "binary", "powers", "bases"])
def test_interpreted_and_compiled_agree(name: str, element: Element) -> None:
    x = values(SPECIAL, element)
    f = getattr(module(), name)
    arguments = (x, x) if name == "binary" else (x,)
    results = [f(*arguments, target=target) for target in ("interpret", "cpu")]
    found = {n: at for n, pair in enumerate(zip(*results, strict=True)) if (at := differences(*pair, element))}
    assert not found


@pytest.mark.parametrize("element", [Element.F64, Element.F32], ids=str)
@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
def test_powers_are_those_of_c(target: str, element: Element) -> None:
    """IEEE 754 and C, wherever the exponent stands: NumPy takes a square root for a single 0.5, which -inf and -0 do not have."""
    x = values(SPECIAL, element)
    for exponent in EXPONENTS:
        given = element.dtype.type(exponent)
        want = values([_pow(float(v), exponent) for v in x], element)
        assert not differences(want, module().power(x, given, target=target), element), exponent
    powers = module().powers(x, target=target)
    for exponent, result in zip(EXPONENTS, powers, strict=True):
        assert not differences(values([_pow(float(v), exponent) for v in x], element), result, element), exponent


def _pow(base: float, exponent: float) -> float:
    """C's `pow`, where Python raises instead of giving an infinity or NaN."""
    try:
        return math.pow(base, exponent)
    except OverflowError:
        return math.inf
    except ValueError:
        odd = exponent % 2 == 1
        return math.nan if base else math.copysign(math.inf, base) if odd else math.inf
