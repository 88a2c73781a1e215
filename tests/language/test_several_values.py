"""Reductions and scans of several values: each value is its own, at every compilation."""

from __future__ import annotations

import gc

import numpy as np

import axon
from tests.sample import SOAK

FOUR = """
fun f (p : f32[h]) (q : f32[h]) (r : f32[h]) (u : f32[h, l]) = for c =>
  let val x = exp p[c] * q[c]
      val y = x - r[c]
      val w = y * x + r[c]
      val (a, b, d, e) = reduce (fn (a, b, c, d) (e, f, g, h) => (a + e, b + f, c + g, d + h), (0.0, 0.0, 0.0, 0.0)) t =>
        (w * u[c, t], y * u[c, t], w - u[c, t], x * y * u[c, t])
  in a - b + d * e end
"""
TWO = "fun g (x : i32[n]) = scan (fn (a, b) (c, d) => (a + c, b + d), (0, 0)) for j < n => (x[j], x[j] / 2)"


def test_one_right_answer_in_many_compilations() -> None:
    p, q, r = (np.array([value], np.float32) for value in (1, 2, 3))
    u = np.ones((1, 3), np.float32)
    x = np.exp(1) * 2
    y = x - 3
    w = y * x + 3
    right = 3 * w - 3 * y + (3 * w - 3) * (3 * x * y)
    seen = set()
    for number in range(200 if SOAK else 60):
        if number % 10 == 0:
            gc.collect()  # what has died is forgotten, and its addresses are taken again
        seen.add(axon.compile(FOUR).f(p, q, r, u, target="interpret").tobytes())
    assert len(seen) == 1
    np.testing.assert_allclose(np.frombuffer(seen.pop(), np.float32), [right], rtol=1e-6)


def test_a_scan_of_two_values() -> None:
    for _ in range(20):
        sums, halves = axon.compile(TWO).g(np.array([1, 2, 3], np.int32), target="interpret")
        assert (sums.tolist(), halves.tolist()) == ([1, 3, 6], [0, 1, 2])
