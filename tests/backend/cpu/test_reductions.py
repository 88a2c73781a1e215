"""Reductions of rows and of columns: the first place of the best, and sums in their order, against loops in Python."""

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
fun columns (x : 'a[n, m]) = for j => sum i => x[i, j]
fun columns_of_two (x : 'a[n, k, m]) = for j => sum i k => x[i, k, j]
fun products (x : 'a[n, m]) = for j => prod i => x[i, j]
fun highest (x : f32[n, m]) = for j => max i => x[i, j]
fun columns_most (x : 'a[n, m]) where n >= 1 = for j => argmax i => x[i, j]
fun affine (x : f32[n, m]) =
  for j => reduce (fn (a, b) (c, d) => (a * c, b * c + d), (1.0, 0.0)) i => (x[i, j], 1.0)
fun triangle (x : f32[n, n]) = for j => sum for i < n, k < i => x[i, j] - x[k, j]
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
    assert "llvm.vector.reduce." + ("smax" if element == "i32" else "fmaximum") in text
    assert "llvm.vector.reduce.smin.v" in text


def in_order(rows: np.ndarray, operation: np.ufunc, unit: float) -> np.ndarray:
    """One row after the other, rounded each time."""
    found = np.full(rows.shape[1:], unit, rows.dtype)
    for row in rows:
        found = operation(found, row)
    return found


def test_columns_are_reduced_in_their_order() -> None:
    """Bit for bit, wherever in a block a column is, and however many rows are taken in at once."""
    rng = np.random.default_rng(5)
    for n, m in [(0, 5), (1, 9), (7, 3), (8, 8), (9, 1000), (16, 17), (23, 5000), (41, 40)]:
        x = rng.standard_normal((n, m)).astype(np.float32)
        np.testing.assert_array_equal(M.columns(x, target="cpu"), in_order(x, np.add, 0))
        np.testing.assert_array_equal(M.products(x, target="cpu"), in_order(x, np.multiply, 1))
        np.testing.assert_array_equal(M.highest(x, target="cpu"), in_order(x, np.maximum, -np.inf))
        left, right = np.ones(m, np.float32), np.zeros(m, np.float32)
        for row in x:
            left, right = left * row, right * row + np.float32(1)
        got = M.affine(x, target="cpu")
        np.testing.assert_array_equal(got[0], left)
        np.testing.assert_allclose(got[1], right, rtol=1e-4, atol=1e-4)
        if n:
            few = drawn(rng, (n, m), np.float32)
            assert M.columns_most(few, target="cpu").tolist() == [first_best(column, "most") for column in few.T.tolist()]
            y = rng.standard_normal((3, n, m)).astype(np.float32)
            np.testing.assert_array_equal(M.columns_of_two(y, target="cpu"), in_order(y.reshape(3 * n, m), np.add, 0))
            square = rng.standard_normal((n, n)).astype(np.float32)
            pairs = sum((square[i] - square[k] for i in range(n) for k in range(i)), np.zeros(n, np.float32))
            np.testing.assert_allclose(M.triangle(square, target="cpu"), pairs, rtol=1e-3, atol=1e-3)
