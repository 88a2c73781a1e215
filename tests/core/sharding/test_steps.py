"""Which steps programs become: what is exchanged, and what is not; each with the results of the unsharded program."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from axon.core.sharding import Sharded, collectives
from tests import ROOT
from tests.core.sharding.whole import arguments, compare, mesh, of, sharded

TEXT = """
fun product (x : f32[b, h]) (w : f32[h, k]) = for i j => sum c => x[i, c] * w[c, j]
fun turned (x : f32[n, n]) = for i j => x[j, i]
fun window (x : f32[n, k]) = for j => sum for i < n - 2 => x[i, j] * x[i + 2, j] - x[i + 1, j]
fun centred (x : f32[n]) = for i < n => x[i - 1 | 0.0] + 2.0 * x[i] + x[i + 1 | 0.0]
fun heads (x : f32[b, h * 4]) = for i, k < h, c < 4 => x[i, k * 4 + c]
fun merged (x : f32[b, h, c]) = for i, (j, k) => x[i, j, k]
fun picked (x : f32[n, k]) (ids : i32[b]) = for i j => x[ids[i], j]
fun sorted (x : f32[b, n]) = for i => sort x[i, ..]
fun running (x : i32[b, n]) = for i => scan (op +, 0) j => x[i, j]
fun highest (x : i32[n]) = scan (max, 0 - 100) j => x[j]
fun best (x : f32[b, n]) = for i => argmax j => x[i, j]
fun least (x : i32[n]) = min i => x[i]
fun every (x : i32[n]) = all i => x[i] < 5
fun kept (x : i32[n]) = nonzero (for i => x[i] > 0)
fun scaled (x : f32[b, h]) (w : f32[h, k]) (s : f32) = for i j => s * (sum c => x[i, c] * w[c, j]) - (sum c => x[i, c])
fun narrow (x : bf16[b, h]) = for i => sum c => x[i, c]
fun triangle (x : f32[n]) = for i < n => sum for j < i + 1 => x[j]
fun ahead (x : i32[n]) = for i < n => sum for j < n - i => x[i + j] * j
fun later (x : i32[n]) = loop (y = x) for t < 3 => for i < n => x[i + t | 0] + y[i - t | 1]
fun counted (x : i32[n]) =
  let val (k : i32[c]) = nonzero (for i => x[i] > 0)
      val longer = for i < n + 2 * c => x[i % n]
  in (sum i => longer[i] * i, loop (y = x) for _ < c => for i < n => y[i - 1 | 0] + (sum j => y[j])) end
fun powers (x : f32[n, n]) (k : i32) = loop (y = x) for _ < k => for i j => sum c => y[i, c] * x[c, j]
"""
SIZES = {"b": 4, "h": 8, "k": 4, "n": 8, "c": 2}


def made(name: str, split: dict[str, str], scale: int = 1, **axes: int) -> Sharded:
    program = of(TEXT, name)
    dims = {symbol: SIZES[symbol.name] for symbol in {*program.explicit, *program.contract.determined()}}
    found = sharded(program, mesh(**axes), split, dims, scale=scale)
    compare(found, arguments(program, dims), dims)
    return found


def kinds(found: Sharded, **more: bool) -> list[str]:
    return [c.kind for c in collectives(found.steps, **more)]


@pytest.mark.parametrize(
    ("name", "split", "expected"),
    [
        ("product", {"b": "m"}, []),
        ("product", {"k": "m"}, []),
        ("product", {"h": "m"}, ["all_reduce"]),
        ("turned", {"n": "m"}, ["all_to_all"]),
        ("centred", {"n": "m"}, ["halo"]),
        ("window", {"n": "m"}, ["halo", "all_reduce"]),
        ("heads", {"h": "m"}, []),
        ("merged", {"h": "m"}, []),
        ("picked", {"n": "m"}, ["all_gather"]),
        ("picked", {"b": "m"}, []),
        ("sorted", {"n": "m"}, ["all_gather"]),
        ("sorted", {"b": "m"}, []),
        ("running", {"n": "m"}, ["all_gather"]),
        ("highest", {"n": "m"}, ["all_gather"]),
        ("best", {"n": "m"}, ["all_gather", "all_gather"]),
        ("least", {"n": "m"}, ["all_reduce"]),
        ("every", {"n": "m"}, ["all_reduce"]),
        ("kept", {"n": "m"}, ["all_gather"]),
        ("scaled", {"h": "m"}, ["all_reduce"]),
        ("narrow", {"h": "m"}, ["all_reduce"]),
    ],
)
@pytest.mark.parametrize("devices", [2, 4])
def test_what_is_exchanged(name: str, split: dict[str, str], expected: list[str], devices: int) -> None:
    assert kinds(made(name, split, scale=1 << 12, m=devices)) == expected


def test_borders_are_as_wide_on_all_devices() -> None:
    """However far the extent of an index, which mentions where the device stands, lets each of them reach."""
    assert kinds(made("ahead", {"n": "m"}, scale=1 << 12, m=2)) == ["halo"]
    assert kinds(made("ahead", {"n": "m"}, scale=1 << 12, m=4)) == ["all_gather"]


@pytest.mark.parametrize("scale", [1, 1 << 12])
def test_borders_are_as_wide_in_all_steps(scale: int) -> None:
    """Where it is a step of a loop that says how far an index reaches, there is none."""
    assert "halo" not in kinds(made("later", {"n": "m"}, scale=scale, m=2))


@pytest.mark.parametrize("scale", [1, 1 << 12])
def test_sizes_that_data_decide_are_known_where_their_indices_are_not_read(scale: int) -> None:
    made("counted", {"n": "m"}, scale=scale, m=2)


def test_every_process_decides_alike() -> None:
    """Whatever the seed of its hashes is: devices exchange what each of them has decided by itself."""
    asks = (
        "from tests.core.sharding.test_steps import made; from axon.core.sharding import print_sharded;"
        "print(print_sharded(made('scaled', {'h': 'm', 'b': 'd'}, scale=4096, d=2, m=2)))"
    )
    texts = set()
    for seed in "12":
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        ran = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, cwd=ROOT, env=environment, check=True)
        texts.add(ran.stdout)
    assert len(texts) == 1
    assert "all_reduce over m" in texts.pop()
