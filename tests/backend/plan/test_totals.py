"""Reductions of everything, which are made in blocks so that threads share them."""

import numpy as np
import pytest

import axon
from axon.backend.cpu import threads
from axon.backend.cpu.plan import POLICY
from axon.backend.plan.fuse import fuse
from axon.backend.plan.ir import Nest
from axon.backend.plan.totals import BLOCKS, split_totals
from axon.backend.plan.verify import verify_plan
from axon.base.element import Element
from axon.compiler import lower
from axon.lower import TensorType

SOURCE = """
fun total (x : 'a[n]) = sum i => x[i]
fun of_two (x : 'a[n, m]) = sum i j => x[i, j]
fun triangle (x : 'a[n, n]) = sum for i < n, j < i + 1 => x[i, j]
fun some (x : f32[n]) = sum for i where x[i] > 0.0 => x[i] ** 2.0
fun extremes (x : f32[n]) = (max i => x[i], min i => abs x[i], prod i => 1.0 + x[i] * 0.001, sum i => x[i])
fun logic (x : f32[n]) = (any i => x[i] > 2.0, all i => x[i] < 3.0, max i => cast i32 x[i])
fun spread (x : f32[n]) = let val m = (sum i => x[i]) / cast f32 n in sqrt ((sum i => (x[i] - m) ** 2.0) / cast f32 n) end
fun ratio (x : f32[n]) = (sum i => x[i]) / (1.0 + max i => abs x[i])
fun apart (x : f32[n]) (y : f32[m]) = (sum i => x[i], sum i => y[i])
fun lookup (x : f32[n]) (ids : i32[m]) = sum i => x[ids[i]]
fun place (x : f32[n]) = argmax i => x[i]
fun one_row (x : f32[n]) = let val m = max i => x[i] in for i => x[i] - m end
"""
M = axon.compile(SOURCE)


def plan_of(name, *types):
    return split_totals(fuse(lower(M._session.checked, name, types), POLICY))


F32 = TensorType(Element.F32, 1)


@pytest.mark.parametrize("n", [0, 1, 2, 63, 64, 65, 127, 1000, 100_003])
def test_every_size(n):
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n).astype(np.float32)
    calls = [("total", x), ("total", x.astype(np.float64)), ("total", rng.integers(-(2**31), 2**31, n).astype(np.int32))]
    calls += [("total", rng.integers(0, 256, n).astype(np.uint8)), ("total", x.astype(np.float16)), ("some", x), ("extremes", x)]
    calls += [("of_two", rng.standard_normal((n % 300, 7))), ("of_two", rng.standard_normal((3, n))), ("spread", x), ("ratio", x)]
    calls += [("triangle", rng.standard_normal((n % 101,) * 2)), ("of_two", np.zeros((n, 0)))]
    calls += [("logic", x), ("place", x)] if n else []
    for name, argument in calls:
        with np.errstate(all="ignore"):
            got, wanted = (M[name](argument, target=target) for target in ("cpu", "interpret"))
        # Roundings of a product add up as a random walk does, in an order that the vectors of the processor decide.
        near = 2e-3 if argument.dtype == np.float16 else max(1e-5, 4 * argument.size**0.5 * 2.0**-24)
        for g, w in zip(*(v if isinstance(v, tuple) else (v,) for v in (got, wanted)), strict=True):
            np.testing.assert_allclose(g, w, rtol=near, atol=1e-5, err_msg=name)


def test_nan_and_errors():
    x = np.ones(1000, np.float32)
    x[777] = np.nan
    assert np.isnan(M.extremes(x, target="cpu")[0])
    assert np.isnan(M.total(x, target="cpu"))
    for target in ("cpu", "interpret"):
        with pytest.raises(axon.ShapeError, match="index 1000 is outside"):
            M.lookup(x, np.array([3, 1000], np.int32), target=target)
    assert M.lookup(x, np.zeros(0, np.int32), target="cpu") == 0


def test_plans():
    """Each reduction is cut, those that read another as well; what is not cut stays one kernel, and so do those of one range."""
    shapes = {"total": [1, 0], "some": [1, 0], "extremes": [1, 0], "ratio": [1, 0], "spread": [1, 0] * 2}
    shapes |= {"place": [0], "one_row": [1, 0, 1]}
    for name, ranks in shapes.items():
        plan = plan_of(name, F32)
        verify_plan(plan)
        assert [len(nest.rows) for nest in plan.body.kernels if isinstance(nest, Nest)] == ranks, name
    assert len(plan_of("apart", F32, F32).body.kernels) == 4
    half = plan_of("total", TensorType(Element.F16, 1))  # its sum is kept in f32, and its parts would not be
    assert len(half.body.kernels) == 1
    assert len(plan_of("triangle", TensorType(Element.F64, 2)).body.kernels) == 2


def test_the_blocks_are_shared(monkeypatch):
    seen = []
    share = threads.share_kernel
    monkeypatch.setattr(threads, "share_kernel", lambda *given: seen.append(given[2:]) or share(*given))
    assert M.total(np.ones(3_000_000, np.float32), target="cpu") == 3_000_000
    assert seen[0][0] == BLOCKS
    assert seen[0][1] > 2 * threads.WORTH_SHARING
