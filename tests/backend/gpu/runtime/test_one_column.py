"""A matrix times one column, and other sums whose last index is one: they go along rows."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.plan.ir import Nest
from tests.backend.gpu.runtime.emulated import emulated

SOURCE = """
fun product a b = for i j => sum k => a[i, k] * b[k, j]
fun greatest (x : f64[n, c, d]) = for i k => max j => x[i, j, k]
fun standard (x : f32[n, c, d]) =
  let val m = for i k => (sum j => x[i, j, k]) / cast f32 c in for i j k => x[i, j, k] - m[i, k] end
fun kept (x : f32[a, b]) (w : f32[a]) =
  let val y = for i j => x[i, j] + w[i] in (for i j => abs y[i, j], y) end
"""
SHAPES = {"product": ((40, 300), (300, 1)), "greatest": ((30, 50, 1),), "standard": ((5, 70, 1),), "kept": ((64, 1), (64,))}


def rows(name: str, *shapes: tuple[int, ...]) -> list[int]:
    """How many axes of rows each plain kernel with sums has."""
    core = compiler.lower(compiler.check_text(SOURCE), name, None)
    planned = Executable(core).serving({}, core.contract.bind((), shapes)).planned
    return [len(kernel.rows) for kernel in planned.kernels if isinstance(kernel, Nest) and kernel.family == "reduce"]


def test_what_goes_by_rows() -> None:
    assert rows("product", (2048, 4096), (4096, 1)) == [1]
    assert rows("product", (2048, 40), (40, 2)) == [2]
    assert rows("greatest", (64, 4096, 1)) == [1]
    assert rows("greatest", (64, 4096, 2)) == [3, 2]  # parts of columns, and these together


@pytest.mark.parametrize("name", SHAPES)
def test_what_is_computed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    chance = np.random.default_rng(0)
    element = np.float64 if name == "greatest" else np.float32
    given = [chance.standard_normal(shape).astype(element) for shape in SHAPES[name]]
    f = getattr(axon.compile(SOURCE), name)
    got, want = (f(*given, target=target) for target in ("cuda", "interpret"))
    for mine, true in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(mine, true, rtol=1e-5, atol=1e-5)
