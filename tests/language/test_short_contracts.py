"""Contracts say the least that is needed: what an equation beside them says already is left out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import axon


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("fun f {h, k} (x : f32[n]) where n = h * k = for i < h => x[i * k]", "k >= 1, h * k = n"),
        ("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h)]", "h <= n, n % h = 0"),
        ("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h) + n / h - 1]", "h <= n, n % h = 0"),
        ("fun f (x : f32[n]) where n % 4 = 0 = for i < 4 => x[i * (n / 4)]", "n >= 4, n % 4 = 0"),
        ("fun f (x : f32[n]) (y : f32[m]) where n % m = 0, m >= 1 = for j < n => y[j / (n / m)]", "n % m = 0"),
    ],
)
def test_beside_an_equation(source: str, facts: str) -> None:
    assert axon.compile(source)["f"].signature.partition(" where ")[2] == facts


@pytest.mark.parametrize(
    ("facts", "body", "expected"),
    [
        ("n % m = k, m % k = 0", "x[n / m, 0, 0]", "m % k = 0, k = n % m"),
        ("n % m = k, m % k = 0, n / 2 = m", "x[n / m, 0, 0]", "m = n / 2, m % k = 0, k = n % m"),
        ("m % k = 0, n % m = 0, (n - m) % k = 0", "for i < n / m => x[i * m, 0, 0]", "n % m = 0, m % k = 0"),
        ("n / m >= 1, m % k = 0, min n m >= 1", "x[n - m, m - k, 0]", "n / m >= 1, m % k = 0"),
        ("n % m = 0, m % k = 0, n / k <= m", "x[n - m, m - k, 0]", "m <= n, n / k <= m, n % m = 0, m % k = 0"),
    ],
)
def test_in_any_order(facts: str, body: str, expected: str) -> None:
    for order in permutations(facts.split(", ")):
        source = f"fun f (x : f32[n, m, k]) where {', '.join(order)} = {body}"
        assert axon.compile(source)["f"].signature.partition(" where ")[2] == expected, source


def test_what_is_left_keeps_every_access_inside() -> None:
    f = axon.compile("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h) + n / h - 1]").f
    for h in range(5):
        for n in range(9):
            fits = h >= 1 and n % h == 0 and n >= h
            x = np.arange(n, dtype=np.float32)
            if fits:
                assert f[h](x, target="interpret").tolist() == [(i + 1) * (n // h) - 1 for i in range(h)]
            else:
                with pytest.raises(axon.AxonError, match="AX0501"):
                    f[h](x, target="interpret")
