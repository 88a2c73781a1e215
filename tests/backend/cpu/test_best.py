"""The first place of the best: against a loop in Python, and by vectors."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon.backend.cpu import build

SOURCE = """
fun rows_most (x : 'a[n, m]) where m >= 1 = for i => argmax j => x[i, j]
fun rows_least (x : 'a[n, m]) where m >= 1 = for i => argmin j => x[i, j]
fun shifted (x : 'a[n, m]) where m >= 3 = for i => argmax for j < m - 2 => x[i, j + 2]
fun squares (x : 'a[n, m]) where m >= 1 = for i => argmin j => x[i, j] * x[i, j]
fun most (x : 'a[n]) where n >= 1 = argmax i => x[i]
fun least (x : 'a[n]) where n >= 1 = argmin i => x[i]
fun far (x : 'a[n]) where n >= 1 = argmax i => x[n - 1 - i]
"""
M = axon.compile(SOURCE)


def first_best(values: list[float], better: str) -> int:
    """By the definition: the first that is no number, else the first that none is better than."""
    for place, value in enumerate(values):
        if value != value:
            return place
    best = max(values) if better == "most" else min(values)
    return next(place for place, value in enumerate(values) if value == best)


def drawn(rng: np.random.Generator, shape: tuple[int, ...], dtype: type) -> np.ndarray:
    """Few numbers, so that the best is there often; infinities, zeros of both signs, and sometimes what is no number."""
    if np.issubdtype(dtype, np.integer):
        return rng.integers(0, 1 + rng.integers(1, 200), shape).astype(dtype)
    usual = rng.choice([-np.inf, -2.0, -0.0, 0.0, 1.5, *([np.inf] if rng.random() < 0.3 else [])], shape)
    usual[rng.random(shape) < (0.001 if rng.random() < 0.5 else 0.0)] = np.nan
    return usual.astype(dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.uint8])
def test_the_first_of_the_best(dtype: type) -> None:
    rng = np.random.default_rng(np.dtype(dtype).num)
    for n, m in [(3, 1), (2, 7), (4, 64), (3, 1000), (2, 1024), (2, 1025), (1, 5000), (3, 2048)]:
        x = drawn(rng, (n, m), dtype)
        assert M.rows_most(x, target="cpu").tolist() == [first_best(row, "most") for row in x.tolist()]
        assert M.rows_least(x, target="cpu").tolist() == [first_best(row, "least") for row in x.tolist()]
        if m >= 3:
            assert M.shifted(x, target="cpu").tolist() == [first_best(row, "most") for row in x[:, 2:].tolist()]
        squares = (x * x).tolist()
        assert M.squares(x, target="cpu").tolist() == [first_best(row, "least") for row in squares]
        row = x[0]
        assert M.most(row, target="cpu") == first_best(row.tolist(), "most")
        assert M.least(row, target="cpu") == first_best(row.tolist(), "least")
        assert M.far(row, target="cpu") == first_best(row[::-1].tolist(), "most")


@pytest.mark.parametrize("element", ["f32", "f64", "i32"])
def test_both_loops_are_of_vectors(element: str, monkeypatch: pytest.MonkeyPatch, own_cache: None) -> None:
    """What LLVM makes of a row's loops: the best value, and its first place."""
    sources = []
    make = build.compile_source
    monkeypatch.setattr(build, "_loaded", {})
    monkeypatch.setattr(build, "compile_source", lambda source: sources.append(source) or make(source))
    own = axon.compile(f"fun f (x : {element}[n, m]) where m >= 1 = for i => argmax j => x[i, j]")
    own.f(np.zeros((3, 40), {"f32": np.float32, "f64": np.float64, "i32": np.int32}[element]), target="cpu")
    with build.alone:
        _, module = build.optimized(sources[-1], build.machine_of())
    text = str(module)
    assert "llvm.vector.reduce.smax" in text
    assert "llvm.vector.reduce.smin.v" in text


EXTREMES = axon.compile("""
fun most (x : 'a[n, m]) = for i => max j => x[i, j]
fun least (x : 'a[n, m]) = for i => min j => x[i, j]
fun most_where (x : 'a[n, m]) = for i => max for j < m where x[i, j] < 1.0 => x[i, j]
fun sizes (x : 'a[n, m]) = for i => max for j < m => abs (x[i, j])
fun all_of_it (x : 'a[n]) = max j => x[j]
""")


@pytest.mark.parametrize("element", ["float32", "float64", "float16", "bfloat16", "float8_e4m3fn"])
def test_extremes_are_those_of_the_definition(element: str) -> None:
    """Also of zeros of both signs, of infinities, where nothing is taken, and where something is no number."""
    rng = np.random.default_rng(7)
    dtype = np.dtype(element) if hasattr(np, element) else np.dtype(getattr(pytest.importorskip("ml_dtypes"), element))
    for n in (1, 3, 8, 17, 64, 1000):
        x = drawn(rng, (5, n), np.float32).astype(dtype)
        for name in ("most", "least", "most_where", "sizes"):
            found, wanted = (np.asarray(EXTREMES[name](x, target=target)).astype(np.float64) for target in ("cpu", "interpret"))
            np.testing.assert_array_equal(found, wanted)
            number = ~np.isnan(wanted)
            np.testing.assert_array_equal(np.signbit(found)[number], np.signbit(wanted)[number])
        wanted = float(EXTREMES.most(x, target="interpret")[0])
        np.testing.assert_array_equal(float(EXTREMES.all_of_it(x[0], target="cpu")), wanted)

