"""Sizes that are needed only where a condition holds: what it says decides them."""

from __future__ import annotations

import numpy as np
import pytest

import axon

SQUARE = "fun sq (x : f32[p * p]) = for i < p, j < p => x[i * p + j]\nfun tri (x : f32[p * (p + 1) / 2]) = for i < p => x[i]\n"


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    ("program", "given", "signature", "wanted"),
    [
        ("fun f (x : f32[n]) = if n = 4 then (sq x)[1, 0] else 0.0", None, "f32[n] -> f32", lambda n, k: 3.0 if n == 4 else 0.0),
        ("fun f {k} (x : f32[n]) = if n = k * k then sum i => sum j => (sq x)[i, j] else -1.0", 4, "{k} -> f32[n] -> f32",
         lambda n, k: n * (n + 1) / 2 if n == k * k else -1.0),
        ("fun f {k} (x : f32[n]) = if k * k = n andalso k > 1 then (sq x)[k - 1, k - 1] else -1.0", 4, "{k} -> f32[n] -> f32",
         lambda n, k: n if n == k * k and k > 1 else -1.0),
        ("fun f {k} (x : f32[n]) = if 2 * n = k * (k + 1) then sum i => (tri x)[i] else -1.0", 5, "{k} -> f32[n] -> f32",
         lambda n, k: k * (k + 1) / 2 if 2 * n == k * (k + 1) else -1.0),
    ],
)  # fmt: skip
def test_what_a_condition_says_decides_a_size(program: str, given: int | None, signature: str, wanted, target: str) -> None:  # type: ignore[no-untyped-def]
    m = axon.compile(SQUARE + program)
    assert str(m.f.signature).removeprefix("sig f : ") == signature
    for n in range(12):
        for k in range(given or 1):
            x = np.arange(1, n + 1, dtype=np.float32)
            f = m.f[k] if given else m.f
            assert float(f(x, target=target)) == wanted(n, k), (n, k)


@pytest.mark.parametrize(
    ("program", "said"),
    [
        # what is passed has a size of its own
        ("fun both (a : f32[p * p]) (b : f32[p]) = a[0] * b[0]\nfun f (x : f32[n]) y = if n = 4 then both x y else 0.0",
         "f32[n] -> f32[p] -> f32 where p * p = n"),
        # other conditions than equations say nothing of the size
        ("fun f (x : f32[n]) = if n < 4 then (sq x)[0, 0] else 0.0", "f32[n] -> f32 where p >= 1, p * p = n"),
        # neither does one that leaves a choice
        ("fun f {k} (x : f32[n]) = if n * n = k then (sq x)[0, 0] else 0.0", "{k} -> f32[n] -> f32 where p * p = n"),
    ],
)  # fmt: skip
def test_where_it_does_not(program: str, said: str) -> None:
    assert str(axon.compile(SQUARE + program).f.signature).removeprefix("sig f : ").startswith(said)


def test_triangular_numbers_are_told_apart() -> None:
    m = axon.compile(SQUARE + "fun f (x : f32[n * (n + 1) / 2]) (y : f32[n]) = for i => (tri x)[i] + y[i]")
    assert str(m.f.signature) == "sig f : f32[(n * n + n) / 2] -> f32[n] -> f32[n]"
    x, y = np.arange(10, dtype=np.float32), np.ones(4, np.float32)
    assert m.f(x, y).tolist() == [1, 2, 3, 4]


def test_products_are_taken_apart_together() -> None:
    """h * d = m and h * d + h = n have h = n - m."""
    m = axon.compile(
        "fun g (x : f32[h * d]) (y : f32[h * d + h]) = for i < h, j < d => x[i * d + j] + y[i]\n"
        "fun f (x : f32[m]) (y : f32[n]) = g x y"
    )
    assert m.f(np.zeros(12, np.float32), np.arange(16, dtype=np.float32)).shape == (4, 3)
    with pytest.raises(axon.ShapeError):
        m.f(np.zeros(12, np.float32), np.zeros(17, np.float32))
