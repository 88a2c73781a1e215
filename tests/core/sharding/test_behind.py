"""All-reduces and reduce-scatters behind products: in pieces where that pays, the same is computed, bit for bit."""

from __future__ import annotations

from random import Random

import pytest

from axon.core.sharding import Sharded, collectives, print_sharded
from axon.core.sharding.ir import Collective, Local, Repeat, Step
from axon.core.sharding.layouts import Rates
from axon.core.sharding.report import costs, report
from tests.core.sharding.whole import arguments, bound, compare, mesh, nvlink, of, sharded
from tests.sample import SOAK

SLOW = Rates("slow", 1e9, 1e-9, 1e9, 1e12)  # of devices where computing and exchanging take long, and messages do not
TEXT = """
fun alone (x : f32[b, k]) (w : f32[k, d]) = x @ w
fun after (x : f32[b, k]) (w : f32[k, d]) (y : f32[b, d]) = for i j => max 0.0 (y[i, j] + sum c => x[i, c] * w[c, j])
fun rounded (x : bf16[b, k]) (w : bf16[k, d]) (y : bf16[b, d]) = for i j => y[i, j] + sum c => x[i, c] * w[c, j]
fun two (x : f32[b, k]) (w : f32[k, d]) (z : f32[b, k]) (v : f32[k, d]) = for i j => 2.0 * ((x @ w)[i, j] + (z @ v)[i, j])
fun turned (x : f32[b, k]) (w : f32[k, d]) = for j i => sum c => x[i, c] * w[c, j]
fun scattered (x : f32[k, b]) (w : f32[k, d]) =
  let val y = for i j => sum c => x[c, i] * w[c, j] in for i j => y[i, j] * y[i, j] end
fun twice (x : f32[b, k]) (w : f32[k, d]) = let val y = x @ w in (y, for i => sum j => y[i, j], for i j => y[i, j] - y[0, j]) end
fun inside (x : f32[b, k]) (w : f32[k, d]) (v : f32[d, k]) =
  loop (x = x) for t < 2 => let val y = x @ w in for i c => x[i, c] - sum j => y[i, j] * v[j, c] end
"""
SIZES = {"b": 12, "k": 12, "d": 8}


def made(name: str, split: dict[str, str], rates: Rates = SLOW, scale: int = 1 << 10, wide: bool = False, **axes: int) -> Sharded:
    program = of(TEXT, name)
    dims = bound(program, **SIZES)
    found = sharded(program, mesh(**axes), split, {s: n * scale for s, n in dims.items()}, rates, wide=wide)
    compare(found, arguments(program, dims), dims)
    return found


def pieces(steps: tuple[Step, ...]) -> list[tuple[str, tuple[int, int]]]:
    """Those of the collectives, in order."""
    found = []
    for step in steps:
        match step:
            case Collective(piece=tuple() as piece):
                found.append((step.kind, piece))
            case Repeat(steps=inner):
                found += pieces(inner)
            case _:
                pass
    return found


@pytest.mark.parametrize("name", ["alone", "after", "rounded", "two", "turned", "inside"])
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_each_piece_is_combined_while_the_next_is_computed(name: str, devices: int) -> None:
    found = made(name, {"k": "m"}, m=devices)
    many = pieces(found.steps)
    assert many, print_sharded(found)
    assert [kind for kind, _ in many] == ["all_reduce"] * len(many)
    assert [piece for _, piece in many] == [(t, many[0][1][1]) for t in range(many[0][1][1])] * (len(many) // many[0][1][1])
    kinds = [type(step) if not isinstance(step, Collective) else step.piece for step in found.steps]
    if name != "inside":  # a program, a piece, the next program, …
        assert kinds[: 2 * len(many)] == [each for t in range(len(many)) for each in (Local, (t, len(many)))]


def test_of_which_each_gets_a_block() -> None:
    found = made("scattered", {"b": "m", "k": "m"}, m=4)
    assert {kind for kind, _ in pieces(found.steps)} == {"reduce_scatter"}, print_sharded(found)


def test_what_others_read_is_whole() -> None:
    assert pieces(made("twice", {"k": "m"}, m=2).steps)


def test_wide_sums_are_rounded_in_pieces() -> None:
    found = made("rounded", {"k": "m"}, wide=True, m=2)
    assert pieces(found.steps)
    assert {c.result.element.value for c in collectives(found.steps)} == {"f32"}


def test_by_cost_and_with_as_many_bytes() -> None:
    program = of(TEXT, "after")
    for size, many in ((64, 1), (8192, 4)):
        dims = bound(program, b=size, k=size, d=size)
        found = sharded(program, mesh(m=4), {"k": "m"}, dims, nvlink())
        (cost,) = costs(found, dims, nvlink())
        assert (cost.pieces, cost.bytes) == (many, 2 * 3 * 4 * size * size // 4)
    assert "all_reduce over m: sum of sum, in 4 pieces" in report(found, dims, nvlink())


@pytest.mark.parametrize("seed", range(60 if SOAK else 4))
def test_drawn(seed: int) -> None:
    chance = Random(seed)
    name = chance.choice(["alone", "after", "rounded", "two", "turned", "scattered", "twice", "inside"])
    split = {n: chance.choice(["m", "o"]) for n in ("b", "d") if chance.random() < 0.5} | {"k": "m"}
    made(name, split, wide=chance.random() < 0.3, m=chance.choice([2, 4]), o=chance.choice([1, 2]))
