"""Sorts whose places nobody asks for: the same values, bit for bit, as those in which equal ones keep their order."""

from __future__ import annotations

import numpy as np
import pytest

import axon

M = axon.compile("""
fun values x = sort x
fun both x = (sort x, argsort x)
""")


@pytest.mark.parametrize("kind", ["plain", "zeros", "nan", "equal"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.uint8])
def test_values_alone(kind: str, dtype: type) -> None:
    rng = np.random.default_rng(5)
    x = (
        (rng.standard_normal((7, 3000)) * 50).astype(np.int32).astype(dtype)
        if kind == "equal"
        else rng.integers(0, 99, (7, 3000)).astype(dtype)
    )
    if np.dtype(dtype).kind == "f":
        if kind == "plain":
            x = rng.standard_normal((7, 3000)).astype(dtype)
        if kind == "zeros":
            x = np.where(rng.random(x.shape) < 0.4, np.copysign(0, rng.standard_normal(x.shape)), x).astype(dtype)
        if kind == "nan":
            x = np.where(rng.random(x.shape) < 0.1, np.copysign(np.nan, rng.standard_normal(x.shape)), x).astype(dtype)
    wanted = np.take_along_axis(x, np.argsort(x, axis=-1, kind="stable"), axis=-1)
    bits = f"u{x.itemsize}"
    np.testing.assert_array_equal(np.asarray(M.values(x, target="cpu")).view(bits), wanted.view(bits))
    values, places = M.both(x, target="cpu")
    np.testing.assert_array_equal(np.asarray(values).view(bits), wanted.view(bits))
    np.testing.assert_array_equal(places, np.argsort(x, axis=-1, kind="stable"))
