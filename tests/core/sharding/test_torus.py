"""What is read around the ends of a tensor, or behind a border that is repeated, is borders that neighbours exchange."""

from __future__ import annotations

import pytest

from axon.core.sharding import Mesh, collectives, print_sharded, shard
from axon.core.sharding.report import costs, report
from tests.core.sharding.whole import SLOW, arguments, bound, compare, mesh, nvlink, of, sharded

TEXT = """
fun life (cells : i32[n, m]) =
  let val around = for i < n, j < m => sum for a < 3, b < 3 => cells[(i + a - 1) % n, (j + b - 1) % m]
  in for i < n, j < m => if around[i, j] = 3 orelse (around[i, j] = 4 andalso cells[i, j] = 1) then 1 else 0 end
fun lives (cells : i32[n, m]) = loop (cells = cells) for _ < 4 => life cells
fun ring (x : f32[n, m]) = for i < n, j => x[(i - 1) % n, j] + 2.0 * x[i, j] - 4.0 * x[(i + 2) % n, j]
fun edges (x : f32[n, m]) = for i < n, j => x[max 0 (i - 1), j] + 2.0 * x[i, j] - 4.0 * x[min (i + 2) (n - 1), j]
fun blur (x : f32[n, m]) =
  for i < n, j < m => sum for a < 3, b < 3 => x[max 0 (min (i + a - 1) (n - 1)), max 0 (min (j + b - 1) (m - 1))]
fun ring_back (x : f32[n, m]) (y : f32[n, m]) = grad (fn x => sum i j => (ring x)[i, j] * y[i, j] * x[i, j]) x
fun edges_back (x : f32[n, m]) (y : f32[n, m]) = grad (fn x => sum i j => (edges x)[i, j] * y[i, j]) x
fun blur_back (x : f32[n, m]) (y : f32[n, m]) = grad (fn x => sum i j => (blur x)[i, j] * y[i, j]) x
fun fewer (x : f32[n, m]) where n >= 2 =
  let val w = for i < n - 1, j => x[i + 1, j] in for i < n - 1, j => w[(i + 1) % (n - 1), j] end
fun most (x : f32[n, m]) = for i < n, j => x[(i + n / 2) % n, j]
"""
MESHES = [mesh(a=2), mesh(a=3), mesh(a=4), mesh(a=2, b=2)]
NAMES = ["life", "lives", "ring", "edges", "blur", "ring_back", "edges_back", "blur_back"]


@pytest.mark.parametrize("on", MESHES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_borders_are_exchanged(name: str, on: Mesh) -> None:
    program = of(TEXT, name)
    dims = bound(program, n=12, m=8)
    made = sharded(program, on, {"n": "a", "m": "b"} if len(on.axes) > 1 else {"n": "a"}, dims, scale=1 << 10)
    assert {c.kind for c in collectives(made.steps)} == {"halo"}, print_sharded(made)
    compare(made, arguments(program, dims), dims)


def test_a_border_is_all_that_is_sent() -> None:
    program = of(TEXT, "life")
    dims = bound(program, n=4096, m=4096)
    made = shard(program, mesh(a=8), {"n": "a"}, dims, nvlink())
    assert [(cost.step.kind, cost.bytes) for cost in costs(made, dims, nvlink())] == [("halo", 2 * 4096 * 4)]
    assert "1 before and 1 behind, around the ends" in report(made, dims, nvlink())


@pytest.mark.parametrize("name", ["fewer", "most"])
def test_what_lies_in_no_equal_blocks_or_far_away_is_gathered(name: str) -> None:
    program = of(TEXT, name)
    dims = bound(program, n=12, m=8)
    for scale in (1, 1 << 10):
        made = sharded(program, mesh(a=3), {"n": "a"}, dims, SLOW, scale)
        compare(made, arguments(program, dims), dims)
        kinds = [c.kind for c in collectives(made.steps)]
        assert "all_gather" in kinds, print_sharded(made)


def test_borders_of_more_than_a_block_are_not_those_of_neighbours() -> None:
    program = of(TEXT, "ring")
    dims, small = bound(program, n=1 << 20, m=8), bound(program, n=4, m=8)
    made = shard(program, mesh(a=4), {"n": "a"}, dims, SLOW)
    assert made.serves(dims)
    assert not made.serves(small)  # 2 behind, of blocks of 1
    compare(shard(program, mesh(a=4), {"n": "a"}, small, SLOW), arguments(program, small), small)
