"""Products that sum the rows of each group, on a GPU: of drawn groups, element types, sizes and layouts, against float64."""

from __future__ import annotations

import os
from random import Random
from typing import Any

import pytest

import axon
from axon.backend.gpu.runtime import merging, packed, ways

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

CASES = 1000 if os.environ.get("AXON_SOAK") else 60
SOURCE = """
fun product (x : T[n, k]) (w : T[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun turned (x : T[n, k]) (w : T[g, j, k]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], j, k]
fun heads (x : T[n, h, k]) (w : T[g, h, k, j]) (e : i32[n]) = for h i j => sum k => x[i, h, k] * w[e[i], h, k, j]
fun d_product x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w e)[i, j]) w
fun d_ordered x w e dy = let val s = sort e in grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w s)[i, j]) w end
fun d_turned x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (turned x w e)[i, j]) w
fun d_heads x w e dy = grad (fn w => sum h i j => cast f32 dy[h, i, j] * cast f32 (heads x w e)[h, i, j]) w
fun few (x : T[n, k]) (y : T[n, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i where e[i] = a andalso i % 3 <> 1 => x[i, k] * y[i, j])
"""
TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32}
NAMES = ("d_ordered", "d_product", "d_ordered", "d_turned", "d_heads", "few")
MODULES: dict[str, Any] = {}


def module(element: str) -> Any:
    if element not in MODULES:
        MODULES[element] = axon.compile(SOURCE.replace("T[", f"{element}["))
    return MODULES[element]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other kernels cost."""
    monkeypatch.setattr(merging, "is_product", lambda *_: True)
    monkeypatch.setattr(merging, "for_each_group", lambda *_: float("inf"))
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: float("inf"))
    monkeypatch.setattr(ways, "dearer", lambda *_: None)


def drawn(chance: Random, n: int, g: int) -> Any:
    how = chance.choice(("any", "one", "few", "skewed", "long"))
    if how == "one":
        found = torch.full((n,), chance.randrange(g))
    elif how == "few":
        found = torch.randint(max(1, g // 4), (n,)) * 3 % g
    elif how == "skewed":
        found = (torch.rand(n) ** 4 * g).long()
    elif how == "long":  # segments of about a step
        found = (torch.arange(n) // chance.choice((63, 64, 65, 128))) % g
    else:
        found = torch.randint(g, (n,))
    return found.int().cuda()


def want_of(name: str, x: Any, y: Any, e: Any, g: int) -> Any:
    """In float64, group by group."""
    x, y, e = x.double(), y.double(), e.sort().values if name == "d_ordered" else e
    form = {"d_turned": "ik,ij->jk", "d_heads": "ihk,hij->hkj"}.get(name, "ik,ij->kj")
    keep = (torch.arange(len(e), device="cuda") % 3 != 1) | (name != "few")
    made = []
    for group in range(g):
        mine = (e == group) & keep
        made.append(torch.einsum(form, x[mine], y[:, mine] if name == "d_heads" else y[mine]))
    return torch.stack(made)


@pytest.mark.parametrize("seed", range(CASES))
def test_drawn(seed: int) -> None:
    chance = Random(seed)
    torch.manual_seed(seed)
    name, element = NAMES[seed % len(NAMES)], chance.choice(tuple(TYPES))
    n, g = int(10 ** chance.uniform(0, 3.7)), chance.choice((1, 2, 7, 40))
    k, j = chance.choice((8, 64, 200, 203, 512)), chance.choice((8, 64, 72, 203, 1032))
    e = drawn(chance, n, g)
    ways_to_lie = {"d_heads": ((n, 2, k), (2, n, j), (g, 2, k, j)), "d_turned": ((n, k), (n, j), (g, j, k))}
    one, other, w = ways_to_lie.get(name, ((n, k), (n, j), (g, k, j)))
    x, y = (torch.randn(shape, device="cuda").to(TYPES[element]) for shape in (one, other))
    if len(one) == 2 and chance.random() < 0.2:
        x = x.T.contiguous().T  # side by side along what is summed
    rest = (y, e, torch.ones(g, device="cuda")) if name == "few" else (torch.zeros(w, device="cuda").to(TYPES[element]), e, y)
    f = getattr(module(element), name)
    got = f(x, *rest)
    want = want_of(name, x, y, e, g)
    error = (got.double() - want).abs()
    within = {"bf16": 2**-8, "f16": 2**-10, "f32": 2**-18}[element] * float(want.abs().max() + 1)
    assert float(error.max()) <= 2 * within, (name, element, n, g, k, j)
    assert torch.equal(f(x, *rest), got)


@pytest.mark.parametrize("element", TYPES)
def test_other_groups_do_not_come(element: str) -> None:
    """Infinities and NaN stay in the group that has them, and a group without rows is 0."""
    n, g, k, j = 1000, 9, 136, 136
    e = torch.randint(g - 1, (n,), device="cuda", dtype=torch.int32).sort().values
    e[e == 2] = 1
    x, y = (torch.randn(n, width, device="cuda").to(TYPES[element]) for width in (k, j))
    x[e == 3], y[e == 5] = torch.inf, torch.nan
    w = torch.zeros(g, k, j, device="cuda").to(TYPES[element])
    for name in ("d_ordered", "d_product"):
        got = getattr(module(element), name)(x, w, e, y)
        finite = torch.isfinite(got).flatten(1).all(1).tolist()
        assert finite == [group not in (3, 5) for group in range(g)]
        assert not got[2].any()
        assert not got[8].any()
