"""Streams of 8-bit floats on a real GPU, against float64. Skipped without a Hopper GPU and PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axon
from axon.backend.gpu.layout.products import PROMOTED, error_bound
from axon.backend.gpu.runtime import ways

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

F8 = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2, "bf16": torch.bfloat16}
CHANGES = {"full": "x[b, h, i, j]", "causal": "if j <= i then x[b, h, i, j] else -inf"}
SOURCE = """import nn
fun f (q : {q}[b, 2 * g, s, d]) (k : {k}[b, g, t, d]) (v : {v}[b, g, t, e]) (rows : f32[b, 2 * g, s]) (keys : f32[b, g, t]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / 2, j, c])
        * rows[b, h, i] * keys[b, h / 2, j] * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => {change})
  in for b h i c => sum j => {weight} * cast f32 v[b, h / 2, j, c] end"""
WEIGHTS = {"scores": "p[b, h, i, j]", "weights": "cast f32 (cast f8e4m3 p[b, h, i, j])", "fast": "p[b, h, i, j]"}
SIZES = [(1, 1, 512, 512, 128, 128), (2, 2, 200, 331, 64, 64), (1, 2, 1000, 1000, 48, 80), (1, 1, 64, 4096, 128, 64)]


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of 8 bits, however little there is to do."""
    monkeypatch.setattr(ways, "better_one_by_one", lambda *_: None)
    monkeypatch.setattr(ways, "better_widened", lambda *_: None)


def function(elements: tuple[str, str, str], kind: str, change: str, folder: Path) -> Any:
    file = folder / "model.axon"
    q, k, v = elements
    file.write_text(SOURCE.format(q=q, k=k, v=v, change=CHANGES[change], weight=WEIGHTS[kind]), encoding="utf-8")
    if kind == "fast":
        file.with_suffix(".schedule").write_text('[f]\nprecision = "fast"\n', encoding="utf-8")
    return axon.load(file).f


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    "elements", [("f8e4m3",) * 3, ("f8e5m2", "f8e4m3", "f8e5m2"), ("bf16", "f8e4m3", "f8e4m3")], ids=["e4m3", "e5m2", "bf16"]
)
def test_attention(elements: tuple[str, str, str], sizes: tuple[int, ...], change: str, kind: str, tmp_path: Path) -> None:
    b, g, s, t, d, e = sizes
    if elements[0] == "bf16" and kind == "fast":
        pytest.skip("a product of two 8-bit floats is what a schedule is about")
    torch.manual_seed(0)
    shapes = ((b, 2 * g, s, d), (b, g, t, d), (b, g, t, e))
    q, k, v = (torch.randn(*shape, device="cuda").to(F8[kind_of]) for shape, kind_of in zip(shapes, elements, strict=True))
    rows, keys = (torch.rand(*shape, device="cuda") + 0.5 for shape in ((b, 2 * g, s), (b, g, t)))
    got = function(elements, kind, change, tmp_path)(q, k, v, rows, keys).double()
    wide, over = (x.double().repeat_interleave(2, 1) for x in (k, v))
    scale = rows.double()[..., None] * keys.double().repeat_interleave(2, 1)[:, :, None] * d**-0.5
    x, mass = q.double() @ wide.mT * scale, (q.double().abs() @ wide.abs().mT * scale)
    if change == "causal":
        x = x.masked_fill(torch.ones_like(x, dtype=torch.bool).triu(1), -float("inf"))
    p = torch.softmax(x, -1)
    want, most = p @ over, p @ over.abs()
    off = (2 * error_bound(d, 0) * mass.amax(-1, keepdim=True)).expm1()
    if kind == "scores" or (elements[0] == "bf16" and kind != "weights"):
        bound = (off + 2.0**-7) * most
    else:
        bound = (off + 2.0**-4 + 2.0**-8 + error_bound(t, 0 if kind == "fast" else PROMOTED)) * most
        bound = bound + 2.0**-18 * p.amax(-1, keepdim=True) * over.abs().sum(-2, keepdim=True)
    assert bool(((got - want).abs() <= bound + 1e-5).all())
    # What was simulated is a small part of the bound.
    assert float((got - want).norm() / want.norm()) < {"scores": 6e-3, "weights": 0.05, "fast": 0.08}[kind]
