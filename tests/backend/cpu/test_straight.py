"""Small kernels that follow each other are one native function, large ones are not: the same results, and the same failures."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon.backend.cpu import executable
from axon.backend.cpu.run import CpuRun
from axon.base.errors import AxonError

SOURCE = """
fun several (a : f64[n, m]) (b : f64[m, k]) (x : f64[k]) =
  let val c = a @ b
      val s = for i => sum j => c[i, j] * x[j]
      val most = max ..i => abs c[..i]
      val last = loop (y = s) for t < 3 => for i => 0.5 * y[i] + 0.1 * y[n - 1 - i]
      val ranks = sort last
  in (c, for i => last[i] / (1.0 + abs most), ranks, sum i => ranks[i] * s[i]) end

fun checked (x : i32[n]) (places : i32[k]) =
  let val total = sum i => x[i]
      val found = for j => x[places[j]] / (total - 3)
      val running = unfold (s = 0) for j => s + found[j]
  in (running, max j => running[j] + 1) end
"""


@pytest.fixture(scope="module")
def module() -> axon.Module:
    return axon.compile(SOURCE)


def launches(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    seen: list[object] = []
    original = CpuRun.launch

    def launch(self, compiled, steps=None):  # type: ignore[no-untyped-def]
        seen.append(compiled)
        return original(self, compiled, steps)

    monkeypatch.setattr(CpuRun, "launch", launch)
    return seen


@pytest.mark.parametrize("sizes", [(3, 4, 5), (1, 1, 1), (2, 0, 3), (0, 2, 2), (300, 40, 200)])
def test_the_same_as_one_by_one(module, sizes, monkeypatch):
    n, m, k = sizes
    rng = np.random.default_rng(0)
    given = rng.standard_normal((n, m)), rng.standard_normal((m, k)), rng.standard_normal(k)
    wanted = module.several(*given, target="interpret")
    for small in (executable.SMALL, 0, 10**9):
        monkeypatch.setattr(executable, "SMALL", small)
        monkeypatch.setattr(executable, "SMALL_PRODUCT", small)
        again = axon.compile(SOURCE).several
        for _ in range(2):
            for got, want in zip(again(*given, target="cpu"), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)


def test_sizes_decide_how_many_are_launched(module, monkeypatch):
    seen = launches(monkeypatch)

    def count(n):
        seen.clear()
        module.several(np.ones((n, n)), np.ones((n, n)), np.ones(n), target="cpu")
        return len(seen)

    assert count(4) == 2  # what stands before the sort, and after it
    assert count(500) > 2


@pytest.mark.parametrize(("x", "places"), [([1, 2, 3], [0, 2]), ([1, 2, 3], [3]), ([1, 2], [0]), ([], []), ([4], [-1]), ([4], [])])
def test_failures_are_those_of_the_interpreter(module, x, places):
    given = np.array(x, np.int32), np.array(places, np.int32)

    def outcome(target):
        try:
            return [np.asarray(part).tolist() for part in module.checked(*given, target=target)]
        except AxonError as error:
            return [str(error)]

    assert outcome("cpu") == outcome("interpret")
