"""Products of f32 in limbs: which programs take this way, what their kernels are, and how exact they are, on hard factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.accumulate import Accumulate, cut_off, rounded
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile import limbs
from axon.backend.gpu.tile.contraction import MatrixProduct, terms
from axon.backend.gpu.tile.limbs import error_bound
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.core.ir import Program
from tests.backend.gpu.runtime.emulated import emulated

NN = "fun f (a : f32[m, k]) (b : f32[k, n]) = a @ b"
TT = "fun f (a : f32[k, m]) (b : f32[n, k]) = for i j => sum c => a[c, i] * b[j, c]"
BATCH = "fun f (a : f32[l, m, k]) (b : f32[k, n]) = for h i j => sum c => a[h, i, c] * b[c, j]"
BIAS = "fun f (a : f32[m, k]) (b : f32[k, n]) (x : f32[n]) = for i j => max ((sum c => a[i, c] * b[c, j]) + x[j]) 0.0"
MIXED = "fun f (a : bf16[m, k]) (b : f32[k, n]) = for i j => sum c => cast f32 a[i, c] * b[c, j]"
HALVES = "fun f (a : f16[m, k]) (b : bf16[k, n]) = for i j => sum c => cast f32 a[i, c] * cast f32 b[c, j]"


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Factors are split also where that costs more than it saves."""
    monkeypatch.setattr(limbs, "dearer", lambda *_: None)
    monkeypatch.setattr("axon.backend.gpu.runtime.ways.dearer", lambda *_: None)


def normal(*extents: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(extents).astype(np.float32)


def off(got: Any, a: Any, b: Any) -> float:
    """The largest error in units of 2⁻²³ · (|A| · |B|), beside what the smallest limb cannot hold."""
    a, b = a.astype(np.float64), b.astype(np.float64)
    tiny = 2.0**-134 * (np.abs(a).sum(1, keepdims=True) + np.abs(b).sum(0, keepdims=True))
    mass = np.abs(a) @ np.abs(b) * 2.0**-23
    return float(((np.abs(got - a @ b) - tiny) / np.maximum(mass, 2.0**-149)).max())


# ── which products ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_products_of_limbs_come_small_first() -> None:
    assert terms(3, 3)[3:] == ((0, 1), (1, 0), (0, 0))
    assert set(terms(3, 3)[:3]) == {(0, 2), (1, 1), (2, 0)}
    assert terms(1, 3) == ((0, 2), (0, 1), (0, 0))
    assert terms(1, 1) == ((0, 0),)


@pytest.mark.parametrize(
    ("source", "counts"), [(NN, (3, 3)), (MIXED, (1, 3)), (HALVES, (2, 1)), (NN.replace("f32", "bf16"), (1, 1))]
)
def test_a_factor_has_as_many_limbs_as_its_values_need(source: str, counts: tuple[int, int]) -> None:
    kernel = plan(program(source), HOPPER).kernels[-1]
    assert isinstance(kernel, MatrixProduct)
    assert (len(kernel.lefts), len(kernel.rights)) == counts
    assert {operand.value.element for operand in kernel.operands} == {Element.BF16}


def test_a_factor_of_two_products_is_split_once() -> None:
    source = "fun f (a : f32[m, k]) (b : f32[k, n]) (c : f32[k, o]) = (a @ b, a @ c)"
    made = plan(program(source), HOPPER).kernels
    assert [type(kernel) for kernel in made].count(Nest) == 3
    square = plan(program("fun f (a : f32[n, n]) = a @ a"), HOPPER).kernels
    assert [type(kernel) for kernel in square] == [Nest, MatrixProduct]


@pytest.mark.parametrize(
    ("extents", "reason"),
    [
        ((96, 4096, 4096), ""),
        ((64, 4096, 4096), "done sooner"),  # by register tiles 116 µs were measured, by limbs 108
        ((4096, 16, 4096), "done sooner"),  # 52 and 108
        ((8, 4096, 4096), "done sooner"),  # 35 and 109
        ((1, 4096, 4096), "done sooner"),
        ((256, 256, 256), "done sooner"),
        ((128, 128, 32), "done sooner"),
        ((65536, 65536, 32768), "bytes"),
        ((1024, 1024, 1024), ""),
        ((128, 8192, 4096), ""),
    ],
)
def test_sizes_decide_before_anything_is_built(extents: tuple[int, int, int], reason: str) -> None:
    m, n, k = extents
    core = program(NN)
    executable = Executable(core)
    way = executable.serving({}, core.contract.bind((), [(m, k), (k, n)])).planned.way
    assert bool(way.plain) == bool(reason)
    assert all(reason in why for _, why in way.why)
    assert not executable.made()


@pytest.mark.parametrize(
    ("shapes", "plain"),
    [
        (((27, 12, 298, 12), (790, 27, 12)), False),  # 53 µs were measured with merged columns, 85 by register tiles
        (((27, 12, 1, 3576), (790, 27, 12)), False),
        (((2, 12, 298, 2), (79, 2, 12)), True),
    ],
)
def test_register_tiles_have_all_axes_of_a_side(shapes: tuple[tuple[int, ...], tuple[int, ...]], plain: bool) -> None:
    core = program("fun f (x : f32[d, e, a, b]) (y : f32[c, d, e]) = for a c b => sum d e => x[d, e, a, b] * y[c, d, e]")
    assert bool(Executable(core).serving({}, core.contract.bind((), shapes)).planned.way.plain) == plain


def test_explain_says_what_becomes_of_the_factors() -> None:
    core = program(NN)
    told = explain(core, core.contract.bind((), [(128, 4096), (4096, 4096)]))
    assert "6 products of bf16 values that add up to the factors, 103,809,024 bytes" in told
    assert "an element is off by 56 · 2⁻²³ · (|A| · |B|) at most" in told
    assert "b as the sum of 3 bf16 values" in told
    few = explain(core, core.contract.bind((), [(16, 256), (256, 256)]))
    assert "not on the tensor cores: at these sizes it is done sooner" in few


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "source", [NN, TT, BATCH, BIAS, MIXED, HALVES], ids=["nn", "tt", "batch", "bias", "bf16 by f32", "f16 by bf16"]
)
def test_the_simulator_runs_them(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    m, n, k = 70, 136, 150
    core = program(source)
    sizes = {"m": m, "n": n, "k": k, "l": 2}
    arrays = [
        normal(*(sizes[d.symbol.name] for d in v.shape if d.symbol), seed=i).astype(v.element.dtype)
        for i, v in enumerate(core.inputs)
    ]
    (got,) = run(core, arrays)
    a, b = (x.astype(np.float32) for x in arrays[:2])
    if source == TT:
        a, b = a.T, b.T
    if source == BIAS:
        assert np.abs(got - np.maximum(a.astype(np.float64) @ b + arrays[2], 0)).max() < 1e-4
        return
    rows = zip(got, a, strict=True) if source == BATCH else [(got, a)]
    assert all(off(one, left, b) < error_bound(k) / 4 for one, left in rows)


@pytest.mark.parametrize("accumulate", [rounded, cut_off], ids=["rounded", "cut off"])
def test_hard_factors(accumulate: Accumulate, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scaled, cancelling, denormal, and near the largest: one product of blocks, each 64 rows and columns."""
    always(monkeypatch)
    a, b = normal(64, 128), normal(128, 64, seed=1)
    chance = np.random.default_rng(2)
    scaled = a * np.exp2(chance.integers(-40, 41, (64, 1))).astype(np.float32)
    cancelling = np.concatenate([a[:, :64], a[:, :64]], axis=1), np.concatenate([b[:64], -b[:64] * np.float32(1 + 2.0**-12)])
    largest, small = a * np.float32(0.001), b * np.float32(0.001)
    largest[:, 0], small[0] = np.finfo(np.float32).max, np.sign(small[0]) / 4096
    factors = {
        "scaled": (scaled, b * np.exp2(chance.integers(-40, 41, (1, 64))).astype(np.float32)),
        "cancelling": cancelling,
        "denormal": (a * np.float32(2.0**-130), b * np.float32(2.0**100)),
        "near the largest": (largest, small),
    }
    for name, (left, right) in factors.items():
        (got,) = run(program(NN), [left, right], accumulate=accumulate)
        assert np.isfinite(got).all(), name
        assert off(got, left, right) < error_bound(128) / 4, name


def test_infinities_and_nan_come_out_where_a_sum_in_f32_has_them(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    a, b = normal(64, 96), normal(96, 64, seed=1)
    a[3, 5], a[4, 1], a[6, 2], a[6, 3], a[8, 7] = np.inf, np.nan, -np.inf, np.inf, -np.inf
    b[7, 9], b[5, 3], b[9, 11] = 0, 0, np.inf
    (got,) = run(program(NN), [a, b])
    with np.errstate(invalid="ignore"):
        want = a @ b
    finite = np.isfinite(want)
    assert 0.8 < finite.mean() < 1
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], rtol=1e-4, atol=1e-4)


def test_infinity_times_the_least_values_is_infinity(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first limb of what is not 0 is not 0, and the second takes away again what that adds."""
    always(monkeypatch)
    a, b = np.zeros((64, 64), np.float32), np.zeros((64, 64), np.float32)
    a[0, 0], a[1, 1], a[2, 2] = np.inf, -np.inf, 1
    tiny = np.float32([2.0**-149, -(2.0**-149), 2.0**-135, 0.0, 1.4 * 2.0**-134, 2.0**-133])
    b[:3, :6] = tiny
    (got,) = run(program(NN), [a, b])
    with np.errstate(invalid="ignore"):
        want = a @ b
    np.testing.assert_array_equal(got[:2], want[:2])
    assert list(got[0, :3]) == [np.inf, -np.inf, np.inf]
    assert np.isnan(got[0, 3])
    assert np.abs(got[2, :6] - tiny).max() <= 2.0**-134


def test_a_call_on_a_gpu_splits_and_multiplies(monkeypatch: pytest.MonkeyPatch) -> None:
    always(monkeypatch)
    gpu = emulated(monkeypatch)
    a, b = normal(66, 40), normal(40, 72, seed=1)
    got = axon.compile(NN).f(a, b, target="cuda")
    assert off(got, a, b) < error_bound(40) / 4
    assert gpu.ran == {"plain": 2, "roles": 1}
