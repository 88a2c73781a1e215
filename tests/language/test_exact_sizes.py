"""Sizes are compared exactly, however large they are, and indices with what they index: on every backend."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler

MOST = 2**31 - 1
X = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    ("source", "sizes", "expected"),
    [
        ("fun f {a} (x : f32[n]) = if a + 1 <= n then x[a] else 7.0", (MOST,), 7),
        ("fun f {a} (x : f32[n]) = if a + 1 <= n then x[a] else 7.0", (2,), 2),
        ("fun f {a, b} (x : f32[n]) = if a + b <= n then sum for i < a => x[i + b] else 7.0", (MOST, MOST), 7),
        ("fun f {a} (x : f32[n]) = for i < n => if i + a < n then x[i + a] else 7.0", (MOST,), [7, 7, 7, 7]),
        ("fun f {a} (x : f32[n]) = for i < n => if i + a >= a then x[i] else x[i + 1]", (MOST,), [0, 1, 2, 3]),
        ("fun f {a} (x : f32[n]) = for i < n => if a - 2 * i > 1 orelse i >= 1 then 1.0 else 0.0", (MOST,), [1, 1, 1, 1]),
        ("fun f {a, b} (x : f32[n]) = if a * b = n then 1.0 else 7.0", (65536, 65536), 7),
        ("fun f {a} (x : f32[n]) = sum for i where i + a > a => x[i]", (MOST,), 6),
    ],
)
def test_guards(source: str, sizes: tuple[int, ...], expected: object, target: str) -> None:
    f = axon.compile(source)["f"]
    assert np.asarray(f[sizes](X, target=target)).tolist() == expected


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    "source",
    [
        "fun f {a, b, c} (x : f32[n]) = for i < n => if i * a * b * c < n then x[i * a * b * c] else 7.0",
        "fun f {a, b, c} (x : f32[n]) = for i < n => x[i * a * b * c | 7.0]",
        "fun f {a, b, c} (x : f32[n]) = for i < n => x[min (i * a * b * c) i]",
        "fun f {a, b, c} (x : f32[n]) = sum for i < a * b => if i < n then x[i] else 0.0",
    ],
)
def test_what_64_bits_may_not_hold_is_refused(source: str, target: str) -> None:
    f = axon.compile(source)["f"]
    assert f[1, 1, 1](X, target=target) is not None
    with pytest.raises(axon.ShapeError) as caught:
        f[2**20, 2**20, 2**24](X, target=target)
    assert "AX0501" in str(caught.value)


def test_what_fits_costs_nothing() -> None:
    """Sums, differences and products of two sizes need no check at entry."""
    m = axon.compile(
        "fun f {a, b} (x : f32[n]) = for i < n => if i * a + b < n then x[i * a + b] else 0.0\n"
        "fun g (x : f32[n]) = for i => if i > 0 then x[i] - x[i - 1] else x[i]"
    )
    for name in "fg":
        assert compiler.lower(m._session.checked, name, None).contract.limits == ()


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("index", [-1, -(2**31), MOST, 4])
@pytest.mark.parametrize(
    "source",
    [
        "fun f (x : f32[n]) (k : i32) where n >= 4 = x[4 : n][k]",
        "fun f (x : f32[n]) (k : i32) = x[0 : n : 2][k]",
        "fun f (x : f32[n]) (k : i32) = (for i < n / 2 => x[2 * i])[k]",
        "fun f (x : f32[n]) (k : i32) = (for i < n / 2 => x[n - 1 - i])[k]",
        "fun f (x : f32[n]) (k : i32) = (for i < n / 2, j < 1 => x[2 * i])[k, 0]",
    ],
)
def test_a_computed_index_stays_inside_the_slice_that_it_is_of(source: str, index: int, target: str) -> None:
    f = axon.compile(source).f
    y = np.arange(8, dtype=np.float32)
    assert f(y, 3, target=target) is not None
    with pytest.raises(axon.ShapeError) as caught:
        f(y, index, target=target)
    assert "AX0502" in str(caught.value)
    assert str(index) in str(caught.value)


def test_a_computed_index_of_a_part_reads_it_where_it_is() -> None:
    """A row, or what is shifted in another dimension, is not copied for a gather."""
    m = axon.compile(
        "fun f (x : f32[l, n, d]) (ids : i32[s]) = for i j k => x[i, ids[j], k]\n"
        "fun g (x : f32[n, d]) (ids : i32[s]) where d >= 1 = let val y = x[:, 1 : d] in for j k => y[ids[j], k] end"
    )
    for name in "fg":
        assert len(compiler.lower(m._session.checked, name, None).block.ops) == 1
