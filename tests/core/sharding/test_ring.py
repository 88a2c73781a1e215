"""Attention of which queries and keys are split over one axis: blocks of keys and values go round, the same is computed."""

from __future__ import annotations

import sys
from random import Random

import numpy as np
import pytest

from axon.core.sharding import Sharded, collectives, print_sharded
from axon.core.sharding.layouts import Rates
from axon.core.sharding.report import computed, costs, report
from tests.core.sharding.whole import arguments, bound, compare, mesh, nvlink, of, sharded
from tests.sample import SOAK

# Of devices whose links are as fast as their memory: what may go round does.
LINKED = Rates("linked", 1e12, 1e-9, 1e12, 1e12)
TEXT = """
import nn
fun scores (q : f32[b, h, s, c]) (k : f32[b, h, t, c]) =
  for b h i j => (sum c => q[b, h, i, c] * k[b, h, j, c]) * rsqrt (cast f32 c)
fun means (w : f32[b, h, s, t]) (v : f32[b, h, t, c]) = for b h i c => sum j => w[b, h, i, j] * v[b, h, j, c]
fun attend (q : f32[b, h, s, c]) (k : f32[b, h, s, c]) (v : f32[b, h, s, c]) = means (nn.softmax (nn.causal (scores q k))) v
fun full (q : f32[b, h, s, c]) (k : f32[b, h, t, c]) (v : f32[b, h, t, c]) = means (nn.softmax (scores q k)) v
fun back (q : f32[b, h, s, c]) (k : f32[b, h, s, c]) (v : f32[b, h, s, c]) y = vjp (fn (q, k, v) => attend q k v) (q, k, v) y
fun full_back (q : f32[b, h, s, c]) (k : f32[b, h, t, c]) (v : f32[b, h, t, c]) y = vjp (fn (q, k, v) => full q k v) (q, k, v) y
fun shown (q : f32[b, h, s, c]) (k : f32[b, h, t, c]) (v : f32[b, h, t, c]) =
  let val w = nn.softmax (scores q k) in (w, means w v) end
fun product (x : f32[s, c]) (y : f32[t, c]) (z : f32[t, d]) =
  let val w = for i j => sum c => x[i, c] * y[j, c] in for i k => sum j => w[i, j] * z[j, k] end
"""
SIZES = {"b": 2, "h": 2, "s": 8, "t": 8, "c": 4, "d": 3}


def made(name: str, split: dict[str, str], rates: Rates = LINKED, scale: int = 256, **axes: int) -> Sharded:
    program = of(TEXT, name)
    dims = bound(program, **SIZES)
    large = {s: n * scale if s.name in ("s", "t") else n for s, n in dims.items()}
    found = sharded(program, mesh(**axes), split, large, rates)
    compare(found, arguments(program, dims), dims, 1e-5)
    return found


def shifts(found: Sharded) -> list[str]:
    return [f"{c.kind} {c.source.name}" for c in collectives(found.steps)]


# Under a causal mask devices share pairs of blocks: half of the rows goes where the columns are, and what they come to comes back.
SHARED = ["shift k", "shift v", "shift q", "shift max", "shift sum", "shift sum"]


@pytest.mark.parametrize("devices", [2, 4])
def test_forward_keys_and_values_go_round_once(devices: int) -> None:
    """The maximum, the sum and the means are one loop."""
    found = made("full", {"s": "m", "t": "m"}, m=devices)
    assert shifts(found) == ["shift k", "shift v"]
    assert "loop of" in print_sharded(found)
    assert " once < (min (" not in print_sharded(found)


@pytest.mark.parametrize("devices", [2, 4])
def test_under_a_mask_devices_share_pairs(devices: int) -> None:
    """A pair of blocks of which no key is seen is left out, and all devices have as much to do."""
    found = made("attend", {"s": "m"}, m=devices)
    assert shifts(found) == SHARED
    assert " once < (min (" in print_sharded(found)
    dims = bound(found.source, **SIZES | {"s": 64})
    count = [computed(found.steps, found.environment(dims, place), {}) for place in found.mesh.coordinates()]
    assert max(count) < 1.05 * min(count)  # where blocks are left out, nothing is joined


@pytest.mark.parametrize("size", [1, 3])
def test_blocks_of_an_odd_number_of_rows(size: int) -> None:
    program = of(TEXT, "attend")
    dims = bound(program, **SIZES | {"s": 3 * size})
    large = {s: n * 256 if s.name == "s" else n for s, n in dims.items()}
    found = sharded(program, mesh(m=3), {"s": "m"}, large, LINKED)
    assert shifts(found) == SHARED
    compare(found, arguments(program, dims), dims, 1e-5)


def test_backward_what_is_summed_for_keys_goes_with_them() -> None:
    found = made("full_back", {"s": "m", "t": "m"}, m=4)
    assert sorted(shifts(found)) == sorted(["shift k", "shift v"] * 3 + ["shift d_k", "shift d_v"])


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_backward_under_a_mask_devices_share_pairs(devices: int) -> None:
    """What is summed for keys stays with them, and what rows of another device come to is sent there."""
    program = of(TEXT, "back")
    for rows in (1, 2, 3):
        dims = bound(program, **SIZES | {"s": rows * devices})
        large = {s: n * 256 if s.name == "s" else n for s, n in dims.items()}
        found = sharded(program, mesh(m=devices), {"s": "m"}, large, LINKED)
        compare(found, arguments(program, dims), dims, 1e-5)
    assert [kind for kind in shifts(found) if kind in ("shift d_v", "shift d_k", "shift d_q", "shift y")] == [
        "shift y", "shift d_v", "shift y", "shift d_q", "shift d_k"
    ]  # fmt: skip
    dims = bound(program, **SIZES | {"s": 16 * devices})
    count = [computed(found.steps, found.environment(dims, place), {}) for place in found.mesh.coordinates()]
    assert max(count) < 1.05 * min(count)


def test_beside_rows_and_heads() -> None:
    for split in ({"s": "m", "b": "d"}, {"s": "m", "h": "d"}):
        assert shifts(made("attend", split, m=2, d=2)) == SHARED
        assert {kind[:5] for kind in shifts(made("back", split, m=2, d=2))} == {"shift"}


def test_without_a_softmax() -> None:
    assert shifts(made("product", {"s": "m", "t": "m"}, m=4)) == ["shift y", "shift z"]


@pytest.mark.parametrize("read", ["if j < k then u[i, j] else 0.0", "if j < 3 then e[j] * x[i, 0] else y[i, 0]", "u[i, j % k]"])
def test_columns_of_what_is_not_split(read: str) -> None:
    """What has an index of columns in a dimension that no split size makes is there whole."""
    text = f"""
fun f (x : f32[s, c]) (y : f32[s, c]) (u : f32[s, k]) (e : f32[3]) where k <= s, s >= 3, k >= 1, c >= 1 =
  let val w = for i j => (sum c => x[i, c] * y[j, c]) + ({read})
  in for i c => sum j => w[i, j] * y[j, c] end
"""
    program = of(text, "f")
    dims = bound(program, s=8, c=4, k=3)
    found = sharded(program, mesh(m=2), {"s": "m"}, {s: n * 256 if s.name == "s" else n for s, n in dims.items()}, LINKED)
    compare(found, arguments(program, dims), dims)
    assert "shift y" in shifts(found)


RAGGED = """
fun f (x : f32[s, c]) (y : f32[s, c]) =
  let val w = for i < s, j < s => WEIGHT
  in for i c => sum j => w[i, j] * y[j, c] end
"""


@pytest.mark.parametrize("weight", [
    "sum for k < s - j => x[i, k / s]", "sum for k < j + 1 => cast f32 k * x[i, k % c]", "sum for k < i + j => x[i, k % c]",
    "max for k < j + 1 => x[i, (k + i) % c]", "sum for k < j + 1, l < k + i => x[i, l % c] + y[j, k % c]",
])  # fmt: skip
def test_sums_whose_ranges_end_at_a_column(weight: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The range ends where the block that came has its column, in the whole."""
    module = sys.modules["axon.core.sharding.shard"]
    forms = module._forms
    monkeypatch.setattr(module, "_forms", lambda block, grid: list(forms(block, grid))[-1:])
    program = of(RAGGED.replace("WEIGHT", weight), "f")
    for devices in (2, 3):
        dims = bound(program, s=6, c=3)
        found = sharded(program, mesh(m=devices), {"s": "m"}, dims, LINKED)
        assert {kind[:5] for kind in shifts(found)} == {"shift"}, print_sharded(found)
        compare(found, arguments(program, dims), dims)


@pytest.mark.parametrize(("rows", "columns"), [
    ("s", "s - 1"), ("s - 1", "s"), ("s - 1", "s - 1"), ("s", "s - i"), ("s", "i + 1"), ("s", "s / 2"), ("s", "c"), ("s", "3"),
])  # fmt: skip
def test_some_of_the_columns_are_no_blocks(rows: str, columns: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sum over fewer than all of them, for all rows or for fewer, is no trip round; by cost nor otherwise."""
    text = f"""
fun f (x : f32[s, c]) (y : f32[s, c]) where s >= 3, c <= s =
  let val w = for i < s, j < s => (sum k => x[i, k] * y[j, k])
  in for i < {rows}, c => sum for j < {columns} => w[i, j] * y[j, c] end
"""
    program = of(text, "f")
    dims = bound(program, s=6, c=3)
    module = sys.modules["axon.core.sharding.shard"]
    forms = module._forms
    for form in (0, -1):
        monkeypatch.setattr(module, "_forms", lambda block, grid, form=form: [list(forms(block, grid))[form]])
        for devices in (2, 3):
            found = sharded(program, mesh(m=devices), {"s": "m"}, dims, LINKED)
            assert "shift" not in "".join(shifts(found)), print_sharded(found)
            compare(found, arguments(program, dims), dims)


def test_weights_that_are_a_result_are_whole_rows() -> None:
    assert "shift" not in "".join(shifts(made("shown", {"s": "m", "t": "m"}, m=2)))


def test_by_cost_few_positions_are_gathered() -> None:
    """A step of a ring waits for a message; only with enough to compute it is not waited for."""
    assert "shift" not in "".join(shifts(made("attend", {"s": "m"}, nvlink(), 1, m=4)))
    assert shifts(made("attend", {"s": "m"}, nvlink(), 1 << 14, m=4)) == SHARED


def test_explained() -> None:
    found = made("full", {"s": "m", "t": "m"}, m=4)
    dims = bound(found.source, **SIZES | {"s": 64, "t": 64})
    assert [(c.times, c.bytes) for c in costs(found, dims, LINKED)] == [(3, 4 * 2 * 2 * 16 * 4)] * 2
    text = report(found, dims, LINKED)
    assert "shift over m: k, in each of 4 steps" in text
    assert "blocks of `k` go round the 4 devices of m, each of which computes with one while the next is under way" in text


MASKS = (
    "w",
    "nn.causal w",
    "for ..b i j => if j < i then w[..b, i, j] else -inf",
    "for ..b i j => if j <= i + 2 then w[..b, i, j] else -inf",
    "for ..b i j => if i - j < 3 then w[..b, i, j] else -inf",
    "for ..b i j => w[..b, i, j] - 0.1 * cast ELEMENT (i - j)",
)
WEIGHTS = (
    "nn.softmax (mask w)",
    "let val w = mask w in for ..b i j => tanh w[..b, i, j] end",
    "let val w = mask w in for ..b i j => exp (w[..b, i, j] - 2.0) end",
    "let val w = mask w val m = for ..b i => max j => w[..b, i, j] in for ..b i j => exp (w[..b, i, j] - m[..b, i]) end",
    "let val l = for ..b i => 1.0 + sum j => w[..b, i, j] ** 2.0 in for ..b i j => w[..b, i, j] / l[..b, i] end",
)
RANDOM = """
import nn
fun mask (w : ELEMENT[..b, s, t]) = MASK
fun weights (w : ELEMENT[..b, s, t]) = WEIGHTS
fun attend (q : ELEMENT[b, g, m, s, c]) (k : ELEMENT[b, g, t, c]) (v : ELEMENT[b, g, t, c]) =
  let val w = weights (for b g m i j => sum c => q[b, g, m, i, c] * k[b, g, j, c])
  in for b g m i c => sum j => w[b, g, m, i, j] * v[b, g, j, c] end
fun back (q : ELEMENT[b, g, m, s, c]) (k : ELEMENT[b, g, t, c]) (v : ELEMENT[b, g, t, c]) y =
  vjp (fn (q, k, v) => attend q k v) (q, k, v) y
"""


@pytest.mark.parametrize("seed", range(60 if SOAK else 5))
def test_random_attention(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks that leave whole blocks or whole rows out, weights that are scaled and that are not; forward and backward. Blocks go
    round whatever it costs."""
    module = sys.modules["axon.core.sharding.shard"]
    forms = module._forms
    monkeypatch.setattr(module, "_forms", lambda block, grid: list(forms(block, grid))[-1:])
    random = Random(seed)
    element, devices, weights = random.choice(("f32", "f64")), random.choice((2, 3, 4)), random.choice(WEIGHTS)
    text = RANDOM.replace("MASK", random.choice(MASKS)).replace("WEIGHTS", weights).replace("ELEMENT", element)
    name = random.choice(("attend", "back"))
    program = of(text, name)
    dims = bound(program, b=2, g=2, m=2, s=2 * devices, t=random.choice((1, 2)) * devices, c=3)
    two = random.random() < 0.4
    split = {"s": "r", "t": "r"} | ({random.choice("bg"): "d"} if two else {})
    found = sharded(program, mesh(d=2, r=devices) if two else mesh(r=devices), split, dims, LINKED, scale=64)
    if name == "attend" or "val m" not in weights:  # the slope of a maximum that is no softmax's asks where it is
        assert {kind[:5] for kind in shifts(found)} == {"shift"}, print_sharded(found)
    given = arguments(program, dims)
    compare(found, [np.random.default_rng(seed).standard_normal(x.shape).astype(x.dtype) for x in given], dims, 1e-4)
