"""Sums over several indices are products over one that is merged of them, read as it lies or copied first."""

from __future__ import annotations

from math import inf, prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.layout.axes import AxisPart, ScatteredAxes
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.views import View
from axon.backend.gpu.runtime import packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Value
from axon.shapes.dimension import Dim
from tests.checked import checked

SOURCE = """
fun two (a : bf16[m, h, c]) (b : bf16[h, c, n]) = for i j => sum h c => a[i, h, c] * b[h, c, j]
fun exchanged (a : bf16[m, h, c]) (b : bf16[h, c, n]) = for i j => sum c h => a[i, h, c] * b[h, c, j]
fun turned (a : bf16[h, c, m]) (b : bf16[n, c, h]) = for i j => sum h c => a[h, c, i] * b[j, c, h]
fun apart (a : bf16[h, m, c]) (b : bf16[h, c, n]) = for i j => sum h c => a[h, i, c] * b[h, c, j]
fun three (a : bf16[p, m, h, c]) (b : bf16[h, n, c, p]) = for i j => sum p h c => a[p, i, h, c] * b[h, j, c, p]
fun heads (o : bf16[b, t, h, c]) (w : bf16[h, c, n]) = for b t n =>
  cast bf16 (sum h c => cast f32 o[b, t, h, c] * cast f32 w[h, c, n])
fun windows (x : bf16[m + 3, c]) (w : bf16[4, c, n]) = for i < m, j => sum r c => x[i + r, c] * w[r, c, j]
fun reach (x : bf16[m + 7]) (w : bf16[4, 4, n]) = for i < m, j => sum r c => x[i + r + c] * w[r, c, j]
fun scaled (a : bf16[m, h, c]) (b : bf16[h, c, n]) (s : f32[n]) = for i j => s[j] * cast f32 (sum h c => a[i, h, c] * b[h, c, j])
fun in_f32 (a : f32[m, h, c]) (b : f32[h, c, n]) = for i j => sum h c => a[i, h, c] * b[h, c, j]
"""
MODULE = axon.compile(SOURCE)
COPIED, WHOLE = "plain", "tensor cores"


@pytest.mark.parametrize(
    ("name", "shapes", "wanted"),
    [
        ("two", [(70, 3, 8), (3, 8, 72)], [WHOLE]),
        ("two", [(70, 1, 8), (1, 8, 72)], [WHOLE]),
        ("exchanged", [(70, 3, 8), (3, 8, 72)], [WHOLE]),  # in the order of memory
        ("turned", [(3, 8, 72), (72, 8, 3)], [COPIED, WHOLE]),
        ("apart", [(3, 70, 8), (3, 8, 72)], [COPIED, WHOLE]),
        ("three", [(2, 70, 3, 8), (3, 72, 8, 2)], [COPIED, COPIED, WHOLE]),
        ("heads", [(2, 70, 3, 8), (3, 8, 72)], [WHOLE]),
        ("windows", [(73, 8), (4, 8, 72)], [WHOLE]),  # they overlap in memory
        ("reach", [(77,), (4, 4, 72)], [COPIED, WHOLE]),
        ("scaled", [(70, 3, 8), (3, 8, 72), (72,)], [WHOLE]),
        ("in_f32", [(512, 4, 128), (4, 128, 512)], [COPIED, COPIED, WHOLE]),  # limbs
    ],
)
def test_as_the_interpreter(name: str, shapes: list[tuple[int, ...]], wanted: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever copies cost."""
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: inf)
    program = compiler.lower(checked(SOURCE), name, None)
    planned = Executable(program).serving({}, program.contract.bind((), shapes)).planned
    assert ["plain" if isinstance(kernel, Nest) else "tensor cores" for kernel in planned.kernels] == wanted
    if max(map(prod, shapes)) > 1 << 16:
        return  # too large to simulate
    rng = np.random.default_rng(0)
    kinds = [np.float32 if value.element is Element.F32 else ml_dtypes.bfloat16 for value in program.inputs]
    given = [rng.standard_normal(shape).astype(kind) for shape, kind in zip(shapes, kinds, strict=True)]
    want, got = (np.asarray(MODULE[name](*given, target=target), np.float64) for target in ("interpret", "simulate"))
    np.testing.assert_allclose(got, want, atol=1e-2 * abs(want).max())


@pytest.mark.parametrize(
    ("shapes", "wanted"),
    [([(3, 20, 8), (3, 8, 24)], ["plain"]), ([(8, 1024, 64), (8, 64, 1024)], [COPIED, WHOLE])],
)
def test_copied_where_it_pays(shapes: list[tuple[int, ...]], wanted: list[str]) -> None:
    program = compiler.lower(checked(SOURCE), "apart", None)
    planned = Executable(program).serving({}, program.contract.bind((), shapes)).planned
    assert ["plain" if isinstance(kernel, Nest) else "tensor cores" for kernel in planned.kernels] == wanted


def test_ranges_that_move_are_not_merged() -> None:
    source = "fun f (a : bf16[m, h, h]) (b : bf16[h, h, n]) = for i j => sum for p < h, q < p + 1 => a[i, p, q] * b[p, q, j]"
    program = compiler.lower(checked(source), "f", None)
    *_, kernel = Executable(program).serving({}, program.contract.bind((), [(64, 8, 8), (8, 8, 64)])).planned.kernels
    assert isinstance(kernel, Nest)
    assert any("the reduced range depends on another index" in why.worded({}) for why in kernel.reasons)


@pytest.mark.parametrize("seed", range(60))
def test_a_merged_axis_is_one_in_memory_or_refused(seed: int) -> None:
    """Against NumPy: its own copy of the same elements has them, and if it made none, then the view is not refused."""
    chance = Random(seed)
    shape = tuple(chance.choice((1, 2, 3, 5)) for _ in range(4))
    order = chance.sample(range(4), 4)
    array = np.arange(prod(shape), dtype=np.int64).reshape(shape).transpose(order)
    dims = tuple(map(Dim.of, array.shape))
    unit = [tuple(Dim.of(int(d == k)) for d in range(4)) for k in range(4)]
    cut = sorted(chance.sample(range(1, 4), chance.randint(0, 2)))
    groups = [range(a, b) for a, b in zip([0, *cut], [*cut, 4], strict=True)]
    parts = tuple(tuple(AxisPart(dims[k], unit[k]) for k in group) for group in groups)
    axes = tuple(fresh("a") for _ in groups)
    merged = tuple(prod(array.shape[k] for k in group) for group in groups)
    source = fresh("t")
    view = View(Value(fresh("v"), Element.I64, tuple(map(Dim.of, merged))), source, axes, parts, (Dim.of(0),) * 4)
    want = array.reshape(merged)
    for at in np.ndindex(*merged):
        places = [p.evaluate(dict(zip(axes, at, strict=True))) for p in view.places]
        assert array[tuple(places)] == want[at]
    tensor = DeviceTensor(0, array.shape, tuple(s // 8 for s in array.strides), Element.I64)
    try:
        lying = view.of(tensor, {})
    except ScatteredAxes:
        assert not np.shares_memory(want, array)
        return
    held: Any = np.lib.stride_tricks.as_strided(array, lying.shape, [s * 8 for s in lying.strides])
    np.testing.assert_array_equal(held, want)


def test_copies_of_windows_are_bounded() -> None:
    """What has an element thousands of times is not written out, but computed by register tiles."""
    program = compiler.lower(checked(SOURCE.replace("4, 4, n", "k, k, n").replace("m + 7", "m + k + k")), "reach", None)
    sizes = program.contract.bind((), [(200_000 + 512,), (256, 256, 64)])
    (kernel,) = Executable(program).serving({}, sizes).planned.kernels
    assert isinstance(kernel, Nest)
