"""Sums of one whole number are a count; 0 where there is nothing."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute
from axon.core.passes.dissolve import dissolve

SOURCE = """
fun many (x : f32[n, c, ..s]) = for k < c => 3 * (sum for ..i < ..s => 1) + k
fun few (x : f32[n, m]) = sum for i < n - 5, j < m => 7
fun uneven (x : f32[n, m]) = sum for i < n, j < i => 1
fun least (x : f32[n]) = argmin i => x[i]
fun some (x : f32[n, m]) = sum for i < n, j < m where x[i, j] > 0.0 => 1
"""


def reductions(name: str) -> int:
    core = dissolve(compiler.lower(compiler.check_text(SOURCE), name, None))
    return sum(isinstance(op, Compute) and op.reduction is not None for op in core.block.ops)


@pytest.mark.parametrize(("name", "left"), [("many", 0), ("few", 0), ("uneven", 1), ("some", 1), ("least", 1)])
def test_sums_that_are_left(name: str, left: int) -> None:
    assert reductions(name) == left


@pytest.mark.parametrize("shape", [(9, 37), (5, 3), (3, 4), (6, 0)])
def test_counts(shape: tuple[int, int]) -> None:
    m, x = axon.compile(SOURCE), np.zeros(shape, np.float32)
    for target in ("cpu", "interpret"):
        assert int(m.few(x, target=target)) == 7 * max(0, shape[0] - 5) * shape[1]
        assert m.many(np.zeros((*shape, 2, 3), np.float32), target=target).tolist() == [18 + k for k in range(shape[1])]
