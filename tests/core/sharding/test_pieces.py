"""All-gathers beside products: in pieces where that pays, the same is computed, bit for bit."""

from __future__ import annotations

from random import Random

import pytest

from axon.core.sharding import Sharded, collectives, print_sharded
from axon.core.sharding.ir import Local
from axon.core.sharding.layouts import Rates
from tests.core.sharding.whole import arguments, bound, compare, mesh, nvlink, of, sharded
from tests.sample import SOAK

SLOW = Rates("slow", 1e9, 1e-9, 1e9, 1e12)  # of devices where computing and exchanging take long, and messages do not
TEXT = """
fun beside (w : f32[d, f]) (x : f32[s, d]) = for j i => sum c => w[c, j] * x[i, c]
fun gated (w : f32[d, f]) (x : f32[s, d]) (y : f32[f, s]) = for j i => max 0.0 (sum c => w[c, j] * x[i, c]) * y[j, i]
fun twice (w : f32[d, f]) (x : f32[s, d]) = let val p = for j i => sum c => w[c, j] * x[i, c] in (p, for j i => p[j, i] * 2.0) end
fun again (w : f32[d, f]) (x : f32[s, d]) = (for j i => sum c => w[c, j] * x[i, c], for j => max i => x[i, 0] + w[0, j])
fun rows (x : f32[s, d]) (y : f32[d, e]) (z : f32[f, e]) = for j i => sum k => (sum c => x[i, c] * y[c, k]) * z[j, k]
fun far (w : f32[d, f]) (x : f32[s, d]) = for j i => sum c => w[c, j] * x[s - 1 - i, c]
fun inside (w : f32[d, f]) (x : f32[s, d]) =
  loop (y = x) for t < 2 => for i c => y[i, c] + sum j => (sum k => w[k, j] * y[i, k]) * w[c, j]
"""
SIZES = {"d": 6, "e": 5, "f": 8, "s": 12}


def made(name: str, split: dict[str, str], rates: Rates = SLOW, scale: int = 1 << 12, **axes: int) -> Sharded:
    program = of(TEXT, name)
    dims = bound(program, **SIZES)
    found = sharded(program, mesh(**axes), split, {s: n * scale for s, n in dims.items()}, rates)
    compare(found, arguments(program, dims), dims, 1e-5)
    return found


def parts(found: Sharded) -> int:
    return sum(isinstance(step, Local) and step.part is not None for step in found.steps)


def kinds(found: Sharded) -> list[str]:
    return [c.kind for c in collectives(found.steps)]


@pytest.mark.parametrize("devices", [2, 4])
def test_every_block_makes_its_part(devices: int) -> None:
    found = made("beside", {"s": "m", "f": "m"}, m=devices)
    assert kinds(found) == ["shift"] * (devices - 1)
    assert parts(found) == devices


def test_what_is_done_to_each_element_is_done_in_the_part() -> None:
    found = made("gated", {"s": "m", "f": "m"}, m=2)
    assert (kinds(found), parts(found)) == (["shift"], 2)
    assert "all_gather" not in print_sharded(found)


def test_what_others_read_is_whole() -> None:
    """A product with two readers is joined before them; a gather with two is one."""
    assert parts(made("twice", {"s": "m", "f": "m"}, m=2)) == 2
    assert parts(made("again", {"s": "m", "f": "m"}, m=2)) == 0


def test_blocks_that_are_read_otherwise_are_gathered() -> None:
    assert parts(made("far", {"s": "m", "f": "m"}, m=2)) == 0


def test_of_two_products_that_which_reads_the_gathered() -> None:
    made("rows", {"s": "m", "f": "m"}, m=2)


def test_in_a_loop() -> None:
    made("inside", {"s": "m", "f": "m"}, m=2)


def test_by_cost() -> None:
    """Few elements are gathered at once."""
    assert parts(made("beside", {"s": "m", "f": "m"}, nvlink(), 1, m=2)) == 0
    assert parts(made("beside", {"s": "m", "f": "m"}, nvlink(), 1 << 11, m=2)) == 2


@pytest.mark.parametrize("seed", range(60 if SOAK else 3))
def test_drawn(seed: int) -> None:
    chance = Random(seed)
    name = chance.choice(["beside", "gated", "twice", "again", "rows", "inside"])
    names = ["s", "f"] if name != "rows" else ["s", "f", "e"]
    split = {n: chance.choice(["m", "o"]) for n in names if chance.random() < 0.8} or {"s": "m"}
    made(name, split, m=chance.choice([2, 4]), o=chance.choice([1, 2]))
