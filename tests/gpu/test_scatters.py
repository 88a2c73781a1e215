"""Sums by an index that data decide, on a GPU: as they stand and of segments, whatever sizes would decide."""

from __future__ import annotations

import os
from random import Random

import numpy as np
import pytest

import axon
from axon.core.passes.segments import SegmentedScatter

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

MANY = 60 if os.environ.get("AXON_SOAK") else 16
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "i32": torch.int32, "f64": torch.float64}


@pytest.mark.parametrize("segments", [True, False])
@pytest.mark.parametrize("seed", range(MANY))
def test_drawn(seed: int, segments: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SegmentedScatter, "is_worth", lambda self, sizes: segments and self.positions.evaluate(sizes) > 1)
    chance, rng = Random(seed), np.random.default_rng(seed)
    element, kind = chance.choice(list(TYPES)), chance.choice(("sum", "sum", "max"))
    n, v, d = int(10 ** chance.uniform(0, 5.2)), int(10 ** chance.uniform(0, 3)), chance.choice((1, 2, 7, 64))
    n = min(n, 4_000_000 // d)
    index = (v * rng.random(n) ** chance.choice((0.2, 1.0, 9.0))).astype(np.int32)
    index[rng.random(n) < 0.05] = -1
    x = torch.from_numpy(rng.integers(-8, 9, (n, d)).astype(np.float32)).cuda().to(TYPES[element])
    keep = torch.from_numpy(rng.random(n) < 0.7).cuda()
    condition = chance.choice(("", " andalso keep[i]"))
    f = axon.compile(
        f"fun f {{v}} (ids : i32[n]) (x : {element}[n, d]) (keep : bool[n]) = "
        f"for b < v, j => {kind} for i where ids[i] = b{condition} => x[i, j]"
    ).f
    ids = torch.from_numpy(index).cuda()
    taken = (ids >= 0) & keep if condition else ids >= 0
    wide = x.double()[taken]
    if kind == "sum":
        want = torch.zeros((v, d), dtype=torch.float64, device="cuda").index_add_(0, ids[taken].long(), wide)
    else:
        want = torch.full((v, d), -torch.inf, dtype=torch.float64, device="cuda")
        want = want.scatter_reduce_(0, ids[taken].long()[:, None].expand(-1, d), wide, "amax")
        if element == "i32" and bool(want.isinf().any()):  # an extreme of nothing stops the program
            f[v](ids, x, keep)  # and the error is raised once it is known
            with pytest.raises(axon.AxonError):
                axon.synchronize()
            return
    found = f[v](ids, x, keep)
    assert found.dtype is TYPES[element]
    # Small integers: sums are exact, until they are rounded to the element type.
    torch.testing.assert_close(found, want.to(TYPES[element]), rtol=0, atol=0)
    assert torch.equal(f[v](ids, x, keep), found)


def test_sizes_decide() -> None:
    """One function, called with few places and with many."""
    f = axon.compile("fun f {v} (ids : i32[n]) (x : f32[n, d]) = for b < v, j => sum for i where ids[i] = b => x[i, j]").f
    for n, v, d in ((1000, 2, 4), (5000, 20_000, 64), (1000, 2, 4), (5000, 30_000, 64)):
        ids = torch.randint(0, v, (n,), device="cuda", dtype=torch.int32)
        x = torch.randint(-4, 5, (n, d), device="cuda").float()
        want = torch.zeros((v, d), device="cuda").index_add_(0, ids, x)
        assert torch.equal(f[v](ids, x), want)


@pytest.mark.parametrize("element", ["f32", "bf16"])
def test_ragged_rows(element: str) -> None:
    """A condition on data that bounds the index of a loop ends it."""
    text = f"fun f (x : {element}[n, d]) (k : i32[n]) = for i => sum for j where j < k[i] => x[i, j]"
    turned = f"fun f (x : {element}[n, d]) (k : i32[d]) = for j => sum for i where i < k[j] => x[i, j]"
    for n, d in ((1, 1), (3, 1000), (300, 77), (5000, 64), (140_000, 24), (2, 100_000)):
        x = torch.randint(-3, 4, (n, d), device="cuda").to(TYPES[element])
        for source, length, other in ((text, n, d), (turned, d, n)):
            k = torch.randint(-2, other + 3, (length,), device="cuda", dtype=torch.int32)
            inside = torch.arange(other, device="cuda")[None, :] < k[:, None]
            inside = inside if source is text else inside.T
            want = torch.where(inside, x.double(), 0.0).sum(1 if source is text else 0)
            torch.testing.assert_close(axon.compile(source).f(x, k), want.to(TYPES[element]), rtol=0, atol=0)
