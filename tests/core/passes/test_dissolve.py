"""Sums of one whole number are a count, 0 where there is nothing; reductions of which a condition takes one index are that."""

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
fun first (x : f32[n, 2]) = for i => sum for j < 2 where j < 1 => x[i, j]
fun last (x : f32[n, 3]) = for i => max for j < 3 where not (j < 2) => x[i, j] * x[i, j]
fun second (x : f32[n, 4, m]) = for i => sum for j < 4, k < m where k < 3 andalso j = 1 => x[i, j, k]
fun alone (x : f32[n, 1]) = for i => prod for j < 1 => x[i, j]
fun either (x : f32[n, 3]) = for i => sum for j < 3 where j < 1 orelse j > 1 => x[i, j]
fun data (x : f32[n, 2]) = for i => sum for j < 2 where j < 1 andalso x[i, j] > 0.0 => x[i, j]
fun rounded (x : bf16[n, 2]) = for i => sum for j < 2 where j < 1 => x[i, j] * x[i, j]
fun wide (x : f32[n, 9]) = for i => sum for j < 9 where j < 1 => x[i, j]
"""


def reductions(name: str) -> int:
    core = dissolve(compiler.lower(compiler.check_text(SOURCE), name, None))
    return sum(isinstance(op, Compute) and op.reduction is not None for op in core.block.ops)


@pytest.mark.parametrize(("name", "left"), [("many", 0), ("few", 0), ("uneven", 1), ("some", 1), ("least", 1),
    ("first", 0), ("last", 0), ("second", 1), ("alone", 0), ("either", 1), ("data", 1), ("rounded", 1), ("wide", 1)])  # fmt: skip
def test_sums_that_are_left(name: str, left: int) -> None:
    assert reductions(name) == left


@pytest.mark.parametrize("shape", [(9, 37), (5, 3), (3, 4), (6, 0)])
def test_counts(shape: tuple[int, int]) -> None:
    m, x = axon.compile(SOURCE), np.zeros(shape, np.float32)
    for target in ("cpu", "interpret"):
        assert int(m.few(x, target=target)) == 7 * max(0, shape[0] - 5) * shape[1]
        assert m.many(np.zeros((*shape, 2, 3), np.float32), target=target).tolist() == [18 + k for k in range(shape[1])]


@pytest.mark.parametrize("target", ["cpu", "interpret"])
def test_at_one_index(target: str) -> None:
    m, x = axon.compile(SOURCE), np.arange(1, 97, dtype=np.float32)
    pairs, threes, cubes = x.reshape(48, 2), x.reshape(32, 3), x.reshape(4, 4, 6)
    assert m.first(pairs, target=target).tolist() == pairs[:, 0].tolist()
    assert m.last(threes, target=target).tolist() == (threes[:, 2] ** 2).tolist()
    assert m.second(cubes, target=target).tolist() == cubes[:, 1, :3].sum(1).tolist()
    assert m.second(cubes[:, :, :2], target=target).tolist() == cubes[:, 1, :2].sum(1).tolist()
    assert m.alone(x.reshape(96, 1), target=target).tolist() == x.tolist()
    assert m.either(threes, target=target).tolist() == (threes[:, 0] + threes[:, 2]).tolist()
    assert m.data(pairs - 50, target=target).tolist() == np.maximum(pairs[:, 0] - 50, 0).tolist()
