"""A sum of ones is a size: of empty ranges, of integers that wrap, under conditions and along outer indices, as the sum is."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute

SOURCE = """
fun below {k} (x : f32[n]) = for i < n => (sum for j < i + k => 1, sum for j < n - k, l < i => 1.0)
fun all (x : f32[n]) = (sum for i < n, j < n, k < n, l < n => 1, sum for i < n => cast u8 1, sum for i < n => cast f16 1.0)
fun some (x : f32[n]) = sum for i < n where i % 2 = 0 => 1
fun asked (x : f32[n]) = for i => if x[i] > 0.0 then sum for j < n - 3 => 1 else 0
"""


def test_no_sum_is_left() -> None:
    checked = compiler.check_text(SOURCE)
    for name, left in (("below", 0), ("all", 2), ("some", 1), ("asked", 0)):
        ops = compiler.lower(checked, name, None).block.ops
        assert sum(isinstance(op, Compute) and op.reduction is not None for op in ops) == left


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_counts(target: str) -> None:
    m = axon.compile(SOURCE)
    x = np.array([1, -1, 2, 0], np.float32)
    for k in (0, 3, 6):
        ints, floats = m.below[k,](x, target=target)
        assert ints.tolist() == [i + k for i in range(4)]
        assert floats.tolist() == [max(0, 4 - k) * i for i in range(4)]
    whole, byte, half = m.all(np.zeros(300, np.float32), target=target)
    assert whole == np.array(300**4).astype(np.int32)
    assert (byte, half) == (300 % 256, 300)
    assert m.some(x, target=target) == 2
    assert m.asked(x, target=target).tolist() == [1, 0, 1, 0]
    assert m.asked(x[:2], target=target).tolist() == [0, 0]
