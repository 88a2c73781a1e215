"""Kernels of a native loop are compiled as others are."""

from __future__ import annotations

import numpy as np

import axon
from tests.clock import at_most

REFUSED = """
import random
fun f {steps} (x : f64[c, d]) (y : f64[c, d]) key =
  loop (x = x) for t < steps =>
    let val k = random.fold_in key t
        val total = for i => sum j => x[i, j] * y[i, j]
    in for i => if log (random.uniform k i) < total[i] then y[i, ..] else x[i, ..] end
"""


def test_what_an_inner_index_does_not_change_is_compiled_in_seconds(own_cache: None) -> None:
    """It took LLVM more than ten minutes: see Note [Apart] of `backend.cpu.build`. This takes one second of processor time."""
    x, y = np.full((4, 10), -1.0), np.ones((4, 10))
    with at_most(60):
        found = axon.compile(REFUSED).f[3](x, y, np.array([0, 1], np.uint32), target="cpu")
    assert {*map(tuple, found)} <= {tuple(x[0]), tuple(y[0])}
