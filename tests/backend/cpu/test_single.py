"""Functions of f32 that are computed in f32: their polynomials against mpmath, and their results over a sample of all floats."""

from collections.abc import Callable
from typing import Any

import mpmath
import numpy as np
import pytest
from scipy import special

from axon.backend.cpu import build
from axon.backend.cpu.executable import CpuExecutable
from axon.backend.cpu.run import run as call
from axon.backend.kernel import elementary, polynomials, single
from axon.base.element import Element
from axon.core.ir import Unary
from axon.shapes.dimension import Dim
from tests.backend.cpu.test_vector_functions import computed
from tests.core.build import Build, at, ix, op

Array = Any
LOG_2 = 0.3466  # half of it
TURNED = 0.0295  # s**2 of (1 + s) / (1 - s) = sqrt 2


def _root(of: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda z: of(mpmath.sqrt(z))


@pytest.mark.parametrize(
    ("coefficients", "low", "high", "of", "within"),
    [
        (single.EXPM1, -LOG_2, LOG_2, lambda r: (mpmath.expm1(r) - r) / r**2, 6e-9),
        (single.SINH, 0, LOG_2**2, _root(lambda r: (mpmath.sinh(r) / r - 1) / r**2), 2e-7),
        (single.COSH, 0, LOG_2**2, _root(lambda r: (mpmath.cosh(r) - 1) / r**2), 7e-9),
        (single.EXP_TWICE, -LOG_2 / 2, LOG_2 / 2, lambda r: mpmath.exp(2 * r), 4e-9),
        (single.TANH, 0, 0.55**2, _root(lambda x: (mpmath.tanh(x) / x - 1) / x**2), 8e-7),
        (polynomials.LOG, -0.25, 0.5, lambda f: (mpmath.log1p(f) - f + f**2 / 2) / f**3, 5e-6),
        (single.SERIES, 0, TURNED, _root(lambda s: (mpmath.atanh(s) / s - 1 - s**2 / 3) / s**4), 4e-6),
        (single.ATAN, 0, 1, _root(lambda z: (mpmath.atan(z) / z - 1) / z**2), 2e-6),
        (single.ASIN, 0, 0.25, _root(lambda s: (mpmath.asin(s) / s - 1) / s**2), 6e-6),
        (single.INVERSE_CBRT, -0.1028, 0.1028, lambda e: ((1 - e) ** (-mpmath.mpf(1) / 3) - 1) / e, 2e-4),
        (elementary.SERIES, 0, TURNED, _root(lambda s: (2 * mpmath.atanh(s) / s - 2 - s**2 * 2 / 3) / s**4), 3e-16),
    ],
)  # fmt: skip
def test_polynomials_are_what_they_say(
    coefficients: tuple[float, ...], low: float, high: float, of: Callable[[Any], Any], within: float
) -> None:
    with mpmath.workprec(200):
        for n in range(100):
            x = mpmath.mpf(low) + (mpmath.mpf(high) - low) * (2 * n + 1) / 200
            assert abs(mpmath.polyval(list(coefficients), x) / of(x) - 1) < within, float(x)


# Units in the last place, against NumPy's functions of f64.
EXACT: dict[str, tuple[Callable[[Array], Array], float]] = {
    "exp": (np.exp, 2), "log": (np.log, 1), "sin": (np.sin, 1), "cos": (np.cos, 1), "tanh": (np.tanh, 2), "erf": (special.erf, 2),
    "expm1": (np.expm1, 1), "log1p": (np.log1p, 1), "cbrt": (np.cbrt, 1), "asin": (np.arcsin, 1), "acos": (np.arccos, 1),
    "atan": (np.arctan, 1), "sinh": (np.sinh, 1), "cosh": (np.cosh, 1), "asinh": (np.arcsinh, 1), "acosh": (np.arccosh, 1),
    "atanh": (np.arctanh, 1), "erfc": (special.erfc, 1), "erfinv": (lambda x: np.copysign(special.erfinv(x), x), 1),
    "atan2": (np.arctan2, 1), "pow": (np.power, 1),
}  # fmt: skip
EDGES = np.array([0, 2.0**-149, 2.0**-126, 0.25, 0.5, 0.55, 0.75, 1, 1.5, 9.5, 87, 88, 89, 2.0**60, 2.0**126, 2.0**128 - 2.0**104])


def floats() -> Array:
    """One in 9,973 of all bits, NaN of many among them; infinities, and about where formulas change."""
    with np.errstate(over="ignore"):
        edges = np.concatenate([np.nextafter(EDGES.astype(np.float32), np.float32(to)) for to in (0, np.inf)])
    edges = np.concatenate([edges, EDGES.astype(np.float32), np.array([np.inf], np.float32)])
    return np.concatenate([np.arange(0, 1 << 32, 9973, dtype=np.uint64).astype(np.uint32).view(np.float32), edges, -edges])


def pairs(name: str) -> tuple[Array, Array]:
    chance = np.random.default_rng(0)
    about_1 = [chance.standard_normal(200_000), 2 ** chance.uniform(-2, 2, 200_000)]
    x = np.concatenate([floats(), *(part.astype(np.float32) for part in about_1)])
    y = chance.permutation(x)
    if name == "pow":
        y[-200_000:] = chance.uniform(-88, 88, 200_000) / np.log(x[-200_000:])
    return x, y


@pytest.mark.parametrize("name", EXACT)
def test_functions_of_f32_over_a_sample_of_all_floats(name: str) -> None:
    exact, units = EXACT[name]
    given = pairs(name) if name in ("atan2", "pow") else (floats(),)
    actual = computed(name, *given)
    with np.errstate(all="ignore"):
        true = exact(*(x.astype(np.float64) for x in given))
        rounded = true.astype(np.float32)
        unlike = ~np.isfinite(rounded) | (rounded == 0)
        same = (actual == rounded) & (np.signbit(actual) == np.signbit(rounded)) | np.isnan(actual) & np.isnan(rounded)
        assert same[unlike].all(), [x[unlike & ~same][:5] for x in given]
        error = np.abs(actual[~unlike] - true[~unlike]) / np.spacing(np.abs(rounded[~unlike]))
    worst = np.argmax(np.where(np.isnan(error), np.inf, error))
    assert error[worst] <= units, [x[~unlike][worst] for x in given]


def _sources(monkeypatch: pytest.MonkeyPatch) -> list[build.ModuleSource]:
    """What is compiled from now on."""
    sources: list[build.ModuleSource] = []
    compile_source = build.compile_source
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "kept", lambda key, make: make())
    monkeypatch.setattr(build, "compile_source", lambda source: (sources.append(source), compile_source(source))[1])
    return sources


def test_a_loop_calls_a_function_of_vectors_once_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several vectors in a turn, all but one would wait in memory for the function to come back."""
    sources = _sources(monkeypatch)
    written = Build("roots")
    x = written.input("x", Element.F32, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    body = op("mul", Unary("cbrt", at(x, i)), at(x, i))
    numbers = np.linspace(-9, 9, 1001).astype(np.float32)
    (found,) = call(CpuExecutable(written.program(written.compute([i], body))), [numbers])
    np.testing.assert_allclose(found, np.cbrt(numbers.astype(np.float64)) * numbers, rtol=3e-7)
    (source,) = sources
    entry, module = build.optimized(source, build.this_machine())
    blocks = str(module.get_function(entry)).split("\n\n")
    often = [block.count("@axon.cbrt.f32.v") for block in blocks]
    assert max(often) == 1, often


@pytest.mark.parametrize("element", [Element.F32, Element.F64])
def test_a_sine_and_a_cosine_of_one_angle_are_one_call(element: Element, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = _sources(monkeypatch)
    written = Build("tangent")
    x = written.input("x", element, Dim.of(ix("n", 1).symbol))
    i = ix("i", x.shape[0])
    body = op("div", Unary("sin", at(x, i)), Unary("cos", at(x, i)))
    numbers = np.linspace(-9, 9, 1001).astype(element.dtype)
    (found,) = call(CpuExecutable(written.program(written.compute([i], body))), [numbers])
    np.testing.assert_allclose(found, np.tan(numbers.astype(np.float64)), rtol=4 * float(np.finfo(element.dtype).eps))
    (source,) = sources
    entry, module = build.optimized(source, build.this_machine())
    called = [line.split(" = ")[1] for line in str(module.get_function(entry)).splitlines() if "@axon.sincos" in line]
    assert any(".v" in text for text in called), called
    assert len(called) == len(set(called)), called
