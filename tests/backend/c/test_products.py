"""Products of libraries against NumPy's: any strides, windows, padding, directions, element types; on any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from tests.backend.c.native import built, close, same_bits

rng = np.random.default_rng(2)
BF16 = np.dtype(ml_dtypes.bfloat16)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def windows(x: Any, places: Any) -> Any:
    """x[n, c, places[p, i]], and 0.5 outside."""
    inside = (places >= 0) & (places < x.shape[2])
    return np.where(inside, x[:, :, np.clip(places, 0, x.shape[2] - 1)], 0.5)


def convolved(x: Any, w: Any, places: Any) -> Any:
    return np.einsum("ncpi,oci->nop", windows(x.astype(np.float64), places), w.astype(np.float64))


P, R = np.arange(40)[:, None], np.arange(4)[None]
# A program, its arguments, what NumPy gives in f64, and a rounding.
CASES: dict[str, tuple[str, tuple[Any, ...], Callable[..., Any], float]] = {
    "batch": (
        "fun f (a : f32[b, i, k]) (c : f32[b, j, k]) = for b j i => sum k => a[b, i, k] * c[b, j, k]",
        (f32(3, 130, 33), f32(3, 60, 33)),
        lambda a, c: np.einsum("bik,bjk->bji", a, c),
        1e-5,
    ),
    "two sums": (
        "fun f (a : f64[i, k, l]) (c : f64[l, j, k]) = for j i => sum k l => a[i, k, l] * c[l, j, k]",
        (f32(20, 7, 90).astype(np.float64), f32(90, 30, 7).astype(np.float64)),
        lambda a, c: np.einsum("ikl,ljk->ji", a, c),
        1e-12,
    ),
    "dilated": (
        "fun f (x : f32[n, c, h]) (w : f32[o, c, r]) =\n"
        "  for n o, p < (h - 2 * r + 1) / 3 => sum c i => x[n, c, 3 * p + 2 * i] * w[o, c, i]",
        (f32(2, 5, 60), f32(8, 5, 4)),
        lambda x, w: convolved(x, w, 3 * P[:17] + 2 * R),
        1e-5,
    ),
    "padded, backwards": (
        "fun f (x : f32[n, c, h]) (w : f32[o, c, r]) = for n o, p < h => sum c i => x[n, c, 2 * p - i - 1 | 0.5] * w[o, c, i]",
        (f32(2, 5, 40), f32(8, 5, 4)),
        lambda x, w: convolved(x, w, 2 * P - R - 1),
        1e-5,
    ),
    "narrow": (
        "fun f (a : bf16[i, n]) (c : f32[n, j]) = for i j => sum for k < n => cast f32 a[i, n - 1 - k] * c[k, j]",
        (f32(31, 300).astype(BF16), f32(300, 37)),
        lambda a, c: a.astype(np.float64)[:, ::-1] @ c,
        1e-5,
    ),
    "large": ("fun f (a : f32[i, k]) (c : f32[k, j]) = a @ c", (f32(301, 611), f32(611, 577)), lambda a, c: a @ c, 1e-5),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_product(case: str, tmp_path: Path) -> None:
    text, given, numpy, rounding = CASES[case]
    library = built(tmp_path, axon.compile(text), "f")
    assert "ax_multiply_" in (tmp_path / "axon_f.c").read_text().split("static int ax_run")[1]
    expected = numpy(*(x if x.dtype == BF16 else x.astype(np.float64) for x in given))
    found = []
    for threads in (1, 2, 5):
        library.threads(threads)
        found.append(library.call(np.empty(expected.shape, np.float64 if rounding < 1e-9 else np.float32), *given))
    assert all(same_bits(other, found[0]) for other in found)
    assert close(found[0], expected.astype(found[0].dtype), rounding)
