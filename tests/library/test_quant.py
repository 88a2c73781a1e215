"""Codes that are floats, against ml_dtypes; and rounding by chance: to one of two neighbours, in the mean to the number itself."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon

FORMATS = {
    "bf16": (8, -126, ml_dtypes.bfloat16),
    "f16": (11, -14, np.float16),
    "f8e4m3": (4, -6, ml_dtypes.float8_e4m3fn),
    "f8e5m2": (3, -14, ml_dtypes.float8_e5m2),
}
PROGRAM = """
import quant
fun integers {n} (x : f32) key = for i < n => quant.stochastic x key i
"""
FLOATS = "import quant\nfun rounded (x : f32[n]) (key : u32[2]) = for i => quant.stochastic_float ({}) ({}) x[i] key i"
KEY = np.array([0, 7], np.uint32)


@pytest.mark.parametrize("x", [0.25, -3.75, 5.0, 0.0])
def test_the_mean_of_integers_is_the_number(x: float) -> None:
    found = axon.compile(PROGRAM).integers[20_000](np.float32(x), KEY)
    assert {*found} <= {np.floor(x), np.ceil(x)}
    assert abs(found.mean(dtype=np.float64) - x) <= 4 * np.sqrt((x % 1) * (1 - x % 1) / 20_000)


def neighbours(x: float, element: Any) -> tuple[float, float]:
    """The floats of a type below and above a number, by search in all of them."""
    every = np.arange(2 ** (8 * np.dtype(element).itemsize), dtype=np.uint32).astype(f"u{np.dtype(element).itemsize}").view(element)
    wide = np.unique(every[np.isfinite(every)].astype(np.float64))
    return float(wide[wide <= x].max()), float(wide[wide >= x].min())


@pytest.mark.parametrize("name", FORMATS)
def test_the_mean_of_floats_is_the_number(name: str) -> None:
    digits, least, element = FORMATS[name]
    rounded = axon.compile(FLOATS.format(digits, least)).rounded
    tiny = 2.0**least
    below = np.nextafter(np.float32(2.0), np.float32(0.0))
    for x in (1.0, 2.0, 3.3, -100.7, float(below), 8.0, tiny, tiny * 0.6, -tiny / 2 ** (digits - 1), tiny / 2**digits):
        x = float(np.float32(x))
        low, high = neighbours(x, element)
        found = rounded(np.full(4000, x, np.float32), KEY).astype(np.float64)
        assert {*found} <= {low, high}, x
        share = (x - low) / (high - low) if high > low else 0.0
        assert abs((found == high).mean() - (share if high > low else 1.0)) <= 4 * np.sqrt(share * (1 - share) / 4000), x
        np.testing.assert_array_equal(found.astype(element).astype(np.float64), found)


def test_what_is_no_number_stays() -> None:
    special = np.array([np.inf, -np.inf, np.nan, 0.0], np.float32)
    np.testing.assert_array_equal(axon.compile(FLOATS.format(8, -126)).rounded(special, KEY), special)


@pytest.mark.parametrize(("name", "limit"), [("f8e4m3", 448.0), ("f8e5m2", 57344.0)])
def test_codes_that_are_floats(name: str, limit: float) -> None:
    module = axon.compile(f"import quant\nfun f (x : f32[m, n]) = quant.quantize_blocks {{4}} (fn x => cast {name} x) {limit} x")
    x = (np.random.default_rng(3).standard_normal((5, 10)) * 10.0 ** np.arange(5)[:, None]).astype(np.float32)
    codes, scales = module.f(x)
    largest = np.stack([np.abs(x[:, k : k + 4]).max(1) for k in range(0, 10, 4)], 1)
    np.testing.assert_array_equal(scales, largest / np.float32(limit))
    np.testing.assert_array_equal(codes, (x / np.repeat(scales, 4, 1)[:, :10]).astype(FORMATS[name][2]))
    assert np.isfinite(codes.astype(np.float32)).all()
