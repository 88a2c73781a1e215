"""Products that round to tf32 on a real GPU, against float64 and the stated error. Skipped without a Hopper GPU and PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.proof.simulate import to_tf32
from axon.backend.gpu.tile.limbs import tf32_error_bound as error_bound

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

SOURCE = """
fun nt (a : f32[m, k]) (b : f32[n, k]) = for i j => sum c => a[i, c] * b[j, c]
fun nn (a : f32[m, k]) (b : f32[k, n]) = for i j => sum c => a[i, c] * b[c, j]
fun tt (a : f32[k, m]) (b : f32[n, k]) = for i j => sum c => a[c, i] * b[j, c]
"""


@pytest.fixture
def module(tmp_path: Path) -> Any:
    file = tmp_path / "model.axon"
    file.write_text(SOURCE, encoding="utf-8")
    text = "".join(f'[{name}]\nprecision = "tf32"\n' for name in ("nt", "nn", "tt"))
    file.with_suffix(".schedule").write_text(text, encoding="utf-8")
    return axon.load(file)


def factors(layout: str, m: int, n: int, k: int) -> tuple[Any, Any, Any, Any]:
    """As they are given, and as m × k and k × n."""
    chance = np.random.default_rng(0)
    a, b = chance.standard_normal((m, k)).astype(np.float32), chance.standard_normal((k, n)).astype(np.float32)
    given = (a if layout[0] == "n" else a.T, b if layout[1] == "n" else b.T)
    return *(torch.from_numpy(np.ascontiguousarray(x)).cuda() for x in given), a, b


@pytest.mark.parametrize("layout", ["nt", "nn", "tt"])
@pytest.mark.parametrize("sizes", [(512, 768, 1024), (1000, 1000, 1000), (130, 4096, 4096), (2048, 2048, 2048)])
def test_within_the_stated_error(layout: str, sizes: tuple[int, int, int], module: Any) -> None:
    x, y, a, b = factors(layout, *sizes)
    got = module[layout](x, y).double().cpu().numpy()
    wide, mass = a.astype(np.float64) @ b, abs(a.astype(np.float64)) @ abs(b)
    assert (abs(got - wide) <= error_bound(sizes[2]) * 2.0**-10 * mass).all()


def test_rounded_to_nearest_with_ties_to_even_and_summed_in_f32(module: Any) -> None:
    """What the copies make of values: by a matrix of ones on the diagonal, which nothing else rounds."""
    n = 512
    chance = np.random.default_rng(1)
    a = chance.standard_normal((n, n)).astype(np.float32) * np.exp2(chance.integers(-40, 40, (n, n))).astype(np.float32)
    a[0, :4] = 1 + 2.0**-11, 1 + 3 * 2.0**-11, 1 + 2.0**-11 + 2.0**-23, -(1 + 2.0**-11)
    one = torch.eye(n, device="cuda")
    got = module.nt(torch.from_numpy(a).cuda(), one).cpu().numpy()
    np.testing.assert_array_equal(got, to_tf32(a))


def test_infinities_and_nan(module: Any) -> None:
    x, y, *_ = factors("nt", 512, 512, 512)
    x[3, 5], x[4, 1], x[6, 2], x[6, 3], y[9, 11] = (float(v) for v in ("inf", "nan", "-inf", "inf", "-inf"))
    got = module.nt(x, y).cpu().numpy()
    with np.errstate(invalid="ignore"):
        want = to_tf32(x.cpu().numpy()) @ to_tf32(y.cpu().numpy()).T
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-3, atol=1e-3)
