"""Plain kernels on a real GPU against the interpreter: every family of nests, by lanes and by rows, in all element types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

SOURCE = """
import nn
fun gelu (x : T[n, d]) = for i j => 0.5 * x[i, j] * (1.0 + erf (x[i, j] * 0.7071))
fun softmax (x : T[n, d]) = for i j =>
  let val m = max k => x[i, k]
      val z = sum k => exp (x[i, k] - m)
  in exp (x[i, j] - m) / z end
fun layer_norm (x : T[n, d]) (g : T[d]) (c : T[d]) = nn.layer_norm {scale = g, shift = c} x
fun rowsum (x : T[n, d]) = for i => sum j => x[i, j]
fun colsum (x : T[n, d]) = for j => sum i => x[i, j]
fun total (x : T[n, d]) = sum i j => x[i, j]
fun shift (x : T[n, d]) = for i j => x[i, j - 1 | 0.0] + x[i, j]
fun cum (x : T[n, d]) = for i => scan (op +, 0.0) j => x[i, j]
fun cumcol (x : T[n, d]) = for i j => let val c = for j => scan (op +, 0.0) i => x[i, j] in c[j, i] end
fun best (x : T[n, d]) = for i => argmax j => x[i, j]
fun worst (x : T[n, d]) = for i => argmin for j where j % 3 <> 0 => x[i, j]
fun embed (x : T[n, d]) = for i < n, j => x[(i * 7) % n, j]
fun transpose (x : T[n, d]) = for j i => x[i, j]
fun mask (x : T[n, d]) = for i j => if j <= i then x[i, j] else -1.0
fun lower (x : T[n, d]) = for i => sum for j where j <= i => x[i, j]
fun outer (x : T[n, d]) = for i j, k < 3 => x[i, j] * cast _ k
fun variance (x : T[n, d]) = for i => let val m = (sum j => x[i, j]) / cast _ d in sum j => (x[i, j] - m) ** 2.0 end
fun twice (x : T[n, d]) = (for i => max j => x[i, j], for i => min j => x[i, j])
fun wide (x : T[n, d]) = nn.softmax x
fun averages (x : T[n, d]) = for i => scan (fn a b => a * 0.0 + b, 0.0) j => x[i, j]
fun turned (x : T[n, d]) = for i, j < 2 * (d / 2) => if j < d / 2 then -x[i, j + d / 2] else x[i, j - d / 2]
fun product (x : T[n, d]) = for i j => sum k => x[i, k] * x[j, k]
fun neighbours (x : T[n, d]) = for i => let val e = for j => exp x[i, j] in sum for j where j >= 1 => e[j] * e[j - 1] end
fun anyall (x : T[n, d]) = (for i => any j => x[i, j] > 1.0, for i => all j => x[i, j] < 3.0)
fun counts (x : T[n, d]) = for i => sum j => if x[i, j] > 0.0 then 1 else 0
fun halves (x : T[n, d]) = for i, j < d / 2 => x[i, j] * x[i, j + d / 2] - x[i, 2 * j]
fun custom (x : T[n, d]) = for i => reduce (fn a b => max a b, -inf) j => x[i, j]
fun choose (x : T[n, d]) = for i < n, j => if i > 0 andalso x[i - 1, j] > 0.0 then x[i - 1, j] else 0.0
"""
INTEGERS = """
fun add (x : T[n, d]) = for i j => x[i, j] * 3 - x[i, d - 1 - j]
fun sums (x : T[n, d]) = (for i => sum j => x[i, j], for j => max i => x[i, j])
fun quotients (x : T[n, d]) = for i j => x[i, j] / 3 + x[i, j] % 5
fun floats (x : T[n, d]) = for i j => cast f32 x[i, j] * 0.5
fun powers (x : T[n, d]) = for i j => x[i, j] ** 3
"""
NAMES = tuple(line.split()[1] for line in SOURCE.splitlines() if line.startswith("fun "))
WHOLE = tuple(line.split()[1] for line in INTEGERS.splitlines() if line.startswith("fun "))
TORCH = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64}
TOLERANCE = {"f32": 2e-5, "bf16": 3e-2, "f16": 4e-3, "f64": 1e-12}
SIZES = ((64, 256), (5, 37), (1, 1), (0, 8), (7, 0), (33, 4096), (3, 20001), (2, 131072))


def check(source: str, name: str, element: str, size: tuple[int, int]) -> None:
    function = getattr(axon.compile(source.replace("T[", element + "[")), name)
    host = axon.compile(source.replace("T[", element + "["), target="interpret")
    chance = np.random.default_rng(sum(size))
    x = chance.standard_normal(size) if element in TOLERANCE else chance.integers(-100, 100, size)
    given = [torch.from_numpy(np.asarray(x)).to(TORCH[element])]
    if name == "layer_norm":
        given += [torch.from_numpy(chance.standard_normal(size[1])).to(TORCH[element]) for _ in range(2)]
    try:
        want = function(*given, target="interpret")
    except axon.AxonError as refused:
        with pytest.raises(axon.AxonError, match=str(refused).split(":")[0][:14]):
            function(*(g.cuda() for g in given))
        return
    got = function(*(g.cuda() for g in given))
    for one, other in zip(_flat(got), _flat(want), strict=True):
        mine, theirs = one.cpu().double().numpy(), other.double().numpy()
        assert mine.shape == theirs.shape
        scale = max(1.0, float(np.abs(theirs[np.isfinite(theirs)]).max(initial=0)))
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE.get(element, 0) * scale, rtol=0, equal_nan=True)


def _flat(x: Any) -> list[Any]:
    return [leaf for part in x for leaf in _flat(part)] if isinstance(x, tuple) else [x]


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", NAMES)
def test_floats(name: str, size: tuple[int, int]) -> None:
    for element in ("f32", "bf16") if size != (33, 4096) else TOLERANCE:
        check(SOURCE, name, element, size)


@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("name", WHOLE)
def test_integers(name: str, size: tuple[int, int]) -> None:
    for element in ("i32", "i64"):
        check(INTEGERS, name, element, size)


def test_strided_and_transposed_arguments() -> None:
    function = axon.compile("fun f (x : f32[n, d]) = for i => sum j => x[i, j]").f
    base = torch.randn(300, 500, device="cuda")
    for x in (base[::2, 1:], base.T, base[:, ::3], base[10:, 100:101]):
        assert torch.allclose(function(x), x.sum(1), atol=1e-3)
