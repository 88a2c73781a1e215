"""Products of 8-bit floats and integers on a real GPU, against float64. Skipped without a Hopper GPU and PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import axon
from axon.backend.gpu.layout.products import PROMOTED, error_bound

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

F8 = {"f8e4m3": torch.float8_e4m3fn, "f8e5m2": torch.float8_e5m2}
WHOLE = {"i8": torch.int8, "u8": torch.uint8}
READS = {"nt": ("[m, k]", "a[i, c]", "[n, k]", "b[j, c]"), "nn": ("[m, k]", "a[i, c]", "[k, n]", "b[c, j]"),
         "tn": ("[k, m]", "a[c, i]", "[k, n]", "b[c, j]")}  # fmt: skip
SIZES = [(512, 768, 1024), (1000, 1000, 1000), (130, 4096, 4096), (2048, 2048, 2048), (33, 65, 97)]
BLOCKS = """fun f (a : f8e4m3[m, k]) (s : f32[m, (k + 127) / 128]) (b : f8e4m3[n, k]) (u : f32[{of_u}, (k + 127) / 128]) =
  for i j => sum c => (cast f32 a[i, c] * s[i, c / 128]) * (cast f32 b[j, c] * u[{at_u}, c / 128])"""


def function(left: str, right: str, layout: str, wide: str, folder: Path, precision: str = "") -> Any:
    of_a, a, of_b, b = READS[layout]
    file = folder / "model.axon"
    text = f"fun f (a : {left}{of_a}) (b : {right}{of_b}) = for i j => sum c => cast {wide} {a} * cast {wide} {b}"
    file.write_text(text, encoding="utf-8")
    if precision:
        file.with_suffix(".schedule").write_text(f'[f]\nprecision = "{precision}"\n', encoding="utf-8")
    return axon.load(file).f


def lying(layout: str, a: Any, b: Any) -> tuple[Any, Any]:
    """Factors of m × k and n × k as a function takes them."""
    return (a if layout[0] == "n" else a.t().contiguous()), (b if layout[1] == "t" else b.t().contiguous())


@pytest.mark.parametrize("precision", ["", "fast"], ids=["promoted", "fast"])
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("left", "right", "layout"),
    [("f8e4m3", "f8e4m3", "nt"), ("f8e4m3", "f8e5m2", "nt"), ("f8e5m2", "f8e5m2", "nn"), ("f8e5m2", "f8e4m3", "tn")],
)
def test_floats(left: str, right: str, layout: str, sizes: tuple[int, int, int], precision: str, tmp_path: Path) -> None:
    m, n, k = sizes
    torch.manual_seed(0)
    a, b = torch.randn(m, k, device="cuda").to(F8[left]), torch.randn(n, k, device="cuda").to(F8[right])
    got = function(left, right, layout, "f32", tmp_path, precision)(*lying(layout, a, b)).double()
    exact, mass = a.double() @ b.double().t(), a.double().abs() @ b.double().abs().t()
    assert bool(((got - exact).abs() <= error_bound(k, 0 if precision else PROMOTED) * mass).all())
    if not precision:  # what was measured is a small part of the bound
        assert float((got - exact).norm() / exact.norm()) < 2e-3


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize(
    ("left", "right", "layout"), [("i8", "i8", "nt"), ("i8", "u8", "nn"), ("u8", "i8", "tn"), ("u8", "u8", "nt")]
)
def test_integers(left: str, right: str, layout: str, sizes: tuple[int, int, int], tmp_path: Path) -> None:
    m, n, k = sizes
    torch.manual_seed(0)
    low = {"i8": -128, "u8": 0}
    a, b = (
        torch.randint(low[e], low[e] + 256, shape, device="cuda").to(WHOLE[e]) for e, shape in ((left, (m, k)), (right, (n, k)))
    )
    got = function(left, right, layout, "i32", tmp_path)(*lying(layout, a, b))
    assert got.dtype == torch.int32
    assert bool((got.double() == a.double() @ b.double().t()).all())


def test_integers_wrap(tmp_path: Path) -> None:
    k = 1 << 18
    a = torch.full((64, k), 127, device="cuda", dtype=torch.int8)
    got = function("i8", "i8", "nt", "i32", tmp_path)(a, a)
    whole = 127 * 127 * k
    assert bool((got == (whole + 2**31) % 2**32 - 2**31).all())


@pytest.mark.parametrize("sizes", [(512, 768, 1024), (130, 300, 1000), (2048, 2048, 2048)])
@pytest.mark.parametrize("columns", [128, 1])
def test_scales_of_blocks(columns: int, sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    torch.manual_seed(0)
    of_u, at_u = ("n", "j") if columns == 1 else ("(n + 127) / 128", "j / 128")
    f = axon.compile(BLOCKS.format(of_u=of_u, at_u=at_u)).f
    blocks = -(-k // 128)
    a, b = (torch.randn(extent, k, device="cuda").to(torch.float8_e4m3fn) for extent in (m, n))
    s, u = torch.rand(m, blocks, device="cuda") + 0.5, torch.rand(-(-n // columns), blocks, device="cuda") + 0.5
    left = a.double() * s.double().repeat_interleave(128, 1)[:, :k]
    right = b.double() * u.double().repeat_interleave(columns, 0)[:n].repeat_interleave(128, 1)[:, :k]
    got, exact = f(a, s, b, u).double(), left @ right.t()
    assert bool(((got - exact).abs() <= error_bound(k, PROMOTED) * (left.abs() @ right.abs().t())).all())
    assert float((got - exact).norm() / exact.norm()) < 2e-3
