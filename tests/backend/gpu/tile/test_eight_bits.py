"""Products of 8-bit floats and integers on tensor cores: which they are, how far off, their scales, proofs and machine code."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.chips import named
from axon.backend.gpu.build import cubin
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.products import MULTIPLIED, PROMOTED, Precision, error_bound
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.accumulate import cut_off, wrapped
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.runtime import merging, packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.ways import Planned, Way, plan
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile import limbs
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import TileMapping, candidates
from axon.backend.gpu.tile.schedule_file import NOTHING, Schedule, parse
from axon.backend.plan.codes import with_codes
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.core.ir import Program
from axon.core.passes.parts import parts, straights
from axon.core.printer import print_program
from tests.backend.gpu.proof.mutants import drop, exchanged, mutate, refused, sites, turned_over, twice
from tests.backend.gpu.runtime.emulated import emulated
from tests.sample import SOAK, drawn

F8 = (Element.F8E4M3, Element.F8E5M2)
WHOLE = (Element.I8, Element.U8)
NT = "fun f (a : {l}[m, k]) (b : {r}[n, k]) = for i j => {result} (sum c => cast {wide} a[i, c] * cast {wide} b[j, c])"
NN = "fun f (a : f8e4m3[m, k]) (b : f8e5m2[k, n]) = for i j => sum c => cast f32 a[i, c] * cast f32 b[c, j]"
CODES = NT.format(l="f8e4m3", r="f8e4m3", wide="f32", result="")
NUMBERS = NT.format(l="i8", r="u8", wide="i32", result="")
# Scales: by rows and blocks of both, by single columns, by blocks twice as long and a batch, and what multiplies codes before.
BLOCKS = """fun f (a : f8e4m3[m, k]) (s : f32[m, (k + 127) / 128]) (b : f8e4m3[n, k]) (u : f32[(n + 127) / 128, (k + 127) / 128]) =
  for i j => sum c => (cast f32 a[i, c] * s[i, c / 128]) * (cast f32 b[j, c] * u[j / 128, c / 128])"""
COLUMNS = """fun f (a : f8e4m3[m, k]) (s : f32[m, (k + 127) / 128]) (b : f8e5m2[n, k]) (u : f32[n, (k + 127) / 128]) =
  for i j => sum c => (cast f32 a[i, c] * s[i, c / 128]) * (cast f32 b[j, c] * u[j, c / 128])"""
WITH_A_BATCH = """fun f (a : f8e4m3[g, m, k]) (s : f32[g, (k + 255) / 256]) (b : f8e4m3[g, k, n]) (u : f32[(k + 127) / 128, n, g]) =
  for h i j => (sum c => cast f32 a[h, i, c] * (s[h, c / 256] * u[c / 128, j, h]) * cast f32 b[h, c, j])"""
DEQUANTIZED = """import quant
fun f (a : f8e4m3[m, k]) (s : f32[m, (k + 127) / 128]) (b : f8e4m3[n, k]) (u : f32[n]) =
  let val x = quant.dequantize_blocks {128} a s
      val y = quant.dequantize b u
  in for i j => cast bf16 (max (sum c => x[i, c] * y[j, c]) 0.0) end"""


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


def planned(source: str, way: Way | None = None) -> Planned:
    (part,) = straights(parts(program(source)).body)
    return plan(part.program, HOPPER, way or Way())


def product_of(source: str, way: Way | None = None) -> MatrixProduct:
    (kernel,) = planned(source, way).kernels
    assert isinstance(kernel, MatrixProduct), kernel
    return kernel


def allowing(text: str = 'precision = "fast"') -> Schedule:
    return parse(SourceFile("model.schedule", f"[f]\n{text}"), "model.axon", ["f"])["f"]


def made(source: str, mapping: TileMapping, way: Way | None = None) -> Stages:
    found = planned(source, way)
    *_, kernel = found.kernels
    assert isinstance(kernel, MatrixProduct)
    results = frozenset(result.place.symbol for result in kernel.results)
    return stages(kernel, mapping, HOPPER, found.values, Granted(results, results))


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tensor cores are worth it, however little there is to do."""
    for where in (merging, packed, limbs):
        monkeypatch.setattr(where, "without_tensor_cores", lambda *_: inf)


def codes(element: Element, *extents: int, seed: int = 0) -> Any:
    chance = np.random.default_rng(seed)
    if element.is_float:
        return chance.standard_normal(extents).astype(element.dtype)
    low, high = element.limits
    return chance.integers(low, high + 1, extents).astype(element.dtype)


def scales(*extents: int, seed: int = 0) -> Any:
    return np.exp2(np.random.default_rng(seed).uniform(-3, 3, extents)).astype(np.float32)


# ── which products ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("pair", [(x, y) for pairs in (F8, WHOLE) for x in pairs for y in pairs], ids=str)
def test_all_pairs_of_one_kind_are_multiplied(pair: tuple[Element, Element]) -> None:
    left, right = pair
    wide = "f32" if left.is_float else "i32"
    kernel = product_of(NT.format(l=left.value, r=right.value, wide=wide, result=""))
    assert [operand.value.element for operand in kernel.operands] == [left, right]
    assert kernel.sum.value == wide
    assert kernel.promotion == (PROMOTED if left.is_float else 0)
    fast = product_of(NT.format(l=left.value, r=right.value, wide=wide, result=""), Way(precision=Precision.FAST))
    assert fast.promotion == 0


@pytest.mark.parametrize(
    ("left", "right", "wide", "why"),
    [
        ("i8", "bf16", "f32", ""),
        ("f8e4m3", "f8e4m3", "f64", "not over products"),
        ("i8", "i8", "i64", "not over products"),
        ("i8", "i32", "i32", "not i32"),
    ],
)
def test_other_pairs_are_none(left: str, right: str, wide: str, why: str) -> None:
    found = planned(NT.format(l=left, r=right, wide=wide, result="")).kernels
    assert all(isinstance(kernel, Nest) for kernel in found)
    assert why in str([kernel.reasons for kernel in found if isinstance(kernel, Nest)]) or wide in ("f64", "i64")


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize(
    ("left", "right", "limbs"),
    [("f8e4m3", "bf16", (1, 1)), ("f16", "f8e5m2", (2, 1)), ("f8e5m2", "f32", (1, 3)), ("f32", "f8e4m3", (3, 1))],
)
def test_beside_wider_factors_8_bits_are_one_bf16_value(left: str, right: str, limbs: tuple[int, int]) -> None:
    """Which holds all of them, so that the product is as exact as without them."""
    source = f"fun f (a : {left}[m, k]) (b : {right}[k, n]) = for i j => sum c => cast f32 a[i, c] * cast f32 b[c, j]"
    *_, kernel = planned(source).kernels
    assert isinstance(kernel, MatrixProduct)
    assert (len(kernel.lefts), len(kernel.rights)) == limbs
    assert {operand.value.element for operand in kernel.operands} == {Element.BF16}
    a, c = (codes(Element(e), *shape, seed=n) for n, (e, shape) in enumerate(((left, (66, 100)), (right, (100, 72)))))
    (got,) = run(program(source), [a, c])
    np.testing.assert_allclose(got, a.astype(np.float64) @ c.astype(np.float64), atol=1e-5)


def test_beside_wider_factors_few_rows_are_left_to_a_plain_kernel() -> None:
    core = program("fun f (a : f8e4m3[m, k]) (b : f32[k, n]) = for i j => sum c => cast f32 a[i, c] * b[c, j]")
    for rows, plain in ((2, True), (2048, False)):
        sizes = core.contract.bind((), [(rows, 4096), (4096, 4096)])
        assert bool(Executable(core).serving({}, sizes).planned.way.plain) == plain


def test_what_wraps_in_8_bits_is_not_multiplied_in_32() -> None:
    """Of a product that is made in 8 bits, the factors are not seen through its conversion."""
    source = "fun f (a : i8[m, k]) (b : i8[n, k]) = for i j => sum c => cast i32 (a[i, c] * b[j, c])"
    (kernel,) = planned(source).kernels
    assert isinstance(kernel, Nest)
    a, c = codes(Element.I8, 9, 20), codes(Element.I8, 8, 20, seed=1)
    (got,) = run(program(source), [a, c])
    np.testing.assert_array_equal(got, (a[:, None].astype(np.int8) * c[None]).astype(np.int64).sum(-1))


@pytest.mark.parametrize("copies", [0, 1, 2])
def test_a_factor_across_what_is_summed_is_copied_first(copies: int) -> None:
    a, b = ("a[i, c]" if copies < 2 else "a[c, i]"), ("b[j, c]" if copies < 1 else "b[c, j]")
    core = program(f"fun f (a : i8[n, n]) (b : i8[n, n]) = for i j => sum c => cast i32 {a} * cast i32 {b}")
    sizes = core.contract.bind((), [(2048, 2048)] * 2)
    kernels = Executable(core).serving({}, sizes).planned.kernels
    assert [type(kernel) for kernel in kernels] == [Nest] * copies + [MatrixProduct]


def test_codes_in_integers_go_to_the_tensor_cores_with_their_scales() -> None:
    """`quant.linear_codes` as it is written."""
    kernel = product_of("import quant\nfun f (x : i8[m, k]) (s : f32[m]) (w : i8[n, k]) (u : f32[n]) = quant.linear_codes x s w u")
    assert kernel.sum is Element.I32
    assert kernel.results[0].value.element is Element.F32


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("always")
def test_random_layouts_and_sizes() -> None:
    """A batch or none, factors and results in any order of their indices, of any kind, with any result."""
    chance = Random(0)
    for seed in range(400 if SOAK else 8):
        outer = chance.choice(["", "", "b"])
        left, right, out = ("".join(chance.sample(own, len(own))) for own in (f"{outer}ik", f"{outer}jk", f"{outer}ij"))
        drawn_size = {c: chance.choice([1, 3, 16, 64, 65, 130, 257, chance.randrange(1, 300)]) for c in "ijk"}
        size = {"b": chance.choice([1, 2]), **drawn_size}
        elements = [chance.choice(kind) for kind in (chance.choice([F8, WHOLE]),) for _ in range(2)]
        wide = "f32" if elements[0].is_float else "i32"
        result = chance.choice(["", "cast bf16", "cast f32", "cast f16"][: 3 if wide == "i32" else 4])
        head = " ".join(
            f"({name} : {e.value}[{', '.join('n' + c for c in own)}])"
            for name, own, e in zip("xy", (left, right), elements, strict=True)
        )
        reads = " * ".join(f"cast {wide} {name}[{', '.join(own)}]" for name, own in (("x", left), ("y", right)))
        core = program(f"fun f {head} = for {' '.join(out)} => {result} (sum k => {reads})")
        arrays = [
            codes(e, *(size[c] for c in own), seed=2 * seed + n)
            for n, (own, e) in enumerate(zip((left, right), elements, strict=True))
        ]
        (got,) = run(core, arrays, seed=seed)
        axes = f"{left},{right}->{out}"
        exact, mass = (np.einsum(axes, *(f(x.astype(np.float64)) for x in arrays)) for f in (lambda x: x, abs))
        unit = {"cast bf16": 2.0**-8, "cast f16": 2.0**-11}.get(result, 2.0**-22 if wide == "f32" or result else 0)
        assert (abs(got.astype(np.float64) - exact) <= unit * abs(exact) + unit * mass).all(), (axes, size, elements, result)


def test_integers_wrap_as_the_language_says() -> None:
    left, right = np.full((3, 2), 127, np.float32), np.full((2, 2), -128, np.float32)
    total = np.full((3, 2), -(2**31) + 5, np.int32)
    np.testing.assert_array_equal(
        wrapped(total, left, right, 32), np.full((3, 2), 2**31 + 5 - 2 * 127 * 128, np.int64).astype(np.int32)
    )
    left[0, 0] = np.nan
    with pytest.raises(ValueError, match="no copy has brought"):
        wrapped(None, left, right, 32)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("element", F8, ids=str)
def test_how_far_off_with_short_sums(element: Element) -> None:
    """As tensor cores sum: within the stated errors, and promoted far less off than not."""
    core = program(NT.format(l=element.value, r=element.value, wide="f32", result=""))
    a, c = abs(codes(element, 64, 700).astype(np.float32)).astype(element.dtype), codes(element, 64, 700, seed=1)
    c = abs(c.astype(np.float32)).astype(element.dtype)
    exact = a.astype(np.float64) @ c.astype(np.float64).T
    off = {}
    for promoted, schedule in ((PROMOTED, NOTHING), (0, allowing())):
        (got,) = run(core, [a, c], schedule=schedule, accumulate=cut_off)
        off[promoted] = abs(got - exact) / exact
        assert (off[promoted] <= error_bound(700, promoted)).all()
    assert off[PROMOTED].max() < 3e-3
    assert off[0].mean() > 3 * off[PROMOTED].mean()


def test_the_bounds_are_those_of_the_note() -> None:
    assert error_bound(128, PROMOTED) == 136 * 2**-13 + 2 * 2**-24
    assert error_bound(4096, PROMOTED) == 136 * 2**-13 + 33 * 2**-24
    assert error_bound(4096, 0) == 34 * 128 * 2**-13


@pytest.mark.usefixtures("always")
def test_infinities_and_nan() -> None:
    core = program(NT.format(l="f8e5m2", r="f8e4m3", wide="f32", result=""))
    a, c = codes(Element.F8E5M2, 64, 200), codes(Element.F8E4M3, 64, 200, seed=1)
    a[3, 5], a[4, 1], a[6, 2], a[6, 150], c[9, 7], c[3, 5] = np.inf, np.nan, -np.inf, np.inf, np.nan, 0
    (got,) = run(core, [a, c])
    with np.errstate(invalid="ignore"):
        want = a.astype(np.float32) @ c.astype(np.float32).T
    finite = np.isfinite(want)
    assert 0.8 < finite.mean() < 1
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    np.testing.assert_array_equal(got[~finite], want[~finite])
    np.testing.assert_allclose(got[finite], want[finite], atol=1e-3)


@pytest.mark.usefixtures("always")
def test_epilogues() -> None:
    source = """fun f (a : i8[m, k]) (s : f32[m]) (b : u8[n, k]) (u : f32[n]) (z : bf16[m, n]) =
      let val p = for i j => sum c => cast i32 a[i, c] * cast i32 b[j, c]
      in (for i j => cast bf16 (max (cast f32 p[i, j] * (s[i] * u[j]) + cast f32 z[i, j]) 0.0), p) end"""
    kernel = product_of(source)
    assert {result.value.element for result in kernel.results} == {Element.BF16, Element.I32}
    a, c = codes(Element.I8, 66, 90), codes(Element.U8, 40, 90, seed=1)
    s, u, z = scales(66), scales(40, seed=1), codes(Element.F8E4M3, 66, 40).astype(Element.BF16.dtype)
    got, p = run(program(source), [a, s, c, u, z])
    whole = a.astype(np.int64) @ c.astype(np.int64).T
    np.testing.assert_array_equal(p, whole)
    np.testing.assert_allclose(got.astype(float), np.maximum(whole * (s[:, None] * u) + z.astype(float), 0), rtol=2**-7)


@pytest.mark.usefixtures("always")
def test_products_that_share_a_factor() -> None:
    """Of integers one kernel makes both; of 8-bit floats each has its own, since it has a second sum."""
    source = """fun f (x : {e}[m, k]) (a : {e}[n, k]) (b : {e}[n, k]) = for i j =>
      cast f32 (sum c => cast {w} x[i, c] * cast {w} a[j, c]) * cast f32 (sum c => cast {w} x[i, c] * cast {w} b[j, c])"""
    for element, wide, several in (("i8", "i32", 1), ("f8e4m3", "f32", 2)):
        text = source.format(e=element, w=wide)
        kernels = planned(text).kernels
        assert len(kernels) == several
        x, a, c = (codes(kernels[0].operands[0].value.element, n, 64, seed=n) for n in (70, 40, 40))  # type: ignore[union-attr]
        (got,) = run(program(text), [x, a, c])
        wanted = (x.astype(float) @ a.astype(float).T) * (x.astype(float) @ c.astype(float).T)
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-3)
    assert any("promoted" in kernel.alone for kernel in planned(text).kernels if isinstance(kernel, MatrixProduct))


@pytest.mark.usefixtures("always")
def test_rows_in_groups() -> None:
    source = """fun f (x : f8e4m3[m, k]) (e : i32[m]) (w : f8e4m3[g, n, k]) =
      for i j => sum c => cast f32 x[i, c] * cast f32 w[e[i], j, c]"""
    x, w = codes(Element.F8E4M3, 90, 160), codes(Element.F8E4M3, 3, 40, 160, seed=1)
    e = np.random.default_rng(0).integers(0, 3, 90).astype(np.int32)
    (got,) = run(program(source), [x, e, w])
    np.testing.assert_allclose(got, np.einsum("ik,ijk->ij", x.astype(float), w.astype(float)[e]), atol=1e-3)


def test_windows_have_no_factors_of_8_bits() -> None:
    source = """fun f (x : i8[n, h, w, c]) (k : i8[r, s, c, o]) =
      for b p q o => sum i j c => cast i32 x[b, p + i, q + j, c] * cast i32 k[i, j, c, o]"""
    x, k = codes(Element.I8, 1, 5, 6, 8), codes(Element.I8, 3, 3, 8, 9, seed=1)
    (got,) = run(program(source), [x, k])
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int64), (3, 3), (1, 2))
    np.testing.assert_array_equal(got, np.einsum("bpqcij,ijco->bpqo", windows, k.astype(np.int64)))


# ── scales ──────────────────────────────────────────────────────────────────────────────────────────────────────────────


def spread(values: Any, axis: int, block: int, extent: int) -> Any:
    return values.astype(np.float64).repeat(block, axis).take(range(extent), axis)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sizes", [(66, 40, 130), (130, 300, 257), (5, 129, 1000), (64, 1, 128)])
def test_scales_of_blocks(sizes: tuple[int, int, int]) -> None:
    m, n, k = sizes
    blocks = -(-k // 128)
    a, c, s = codes(Element.F8E4M3, m, k), codes(Element.F8E4M3, n, k, seed=1), scales(m, blocks)
    left = a.astype(float) * spread(s, 1, 128, k)
    for source, u in ((BLOCKS, scales(-(-n // 128), blocks, seed=1)), (COLUMNS, scales(n, blocks, seed=1))):
        kernel = product_of(source)
        assert [scale.per for scale in kernel.scales] == [128, 128]
        own = c.astype(kernel.right.value.element.dtype)
        wide = spread(spread(u, 1, 128, k), 0, 128, n) if source == BLOCKS else spread(u, 1, 128, k)
        right = own.astype(float) * wide
        for accumulate, bound in ((None, 2.0**-20), (cut_off, error_bound(k, PROMOTED))) if k < 200 else ((None, 2.0**-20),):
            (got,) = run(program(source), [a, s, own, u], **({"accumulate": accumulate} if accumulate else {}))
            assert (abs(got - left @ right.T) <= bound * (abs(left) @ abs(right).T)).all()


@pytest.mark.usefixtures("always")
def test_scales_of_a_batch() -> None:
    g, m, n, k = 2, 40, 70, 300
    a, c = codes(Element.F8E4M3, g, m, k), codes(Element.F8E4M3, g, k, n, seed=1)
    s, u = scales(g, 2), scales(3, n, g, seed=1)
    assert {scale.per for scale in product_of_scaled(WITH_A_BATCH).scales} == {128, 256}
    (got,) = run(program(WITH_A_BATCH), [a, s, c, u])
    along = spread(s, 1, 256, k)[:, None, :, None] * spread(u, 0, 128, k).transpose(2, 0, 1)[:, None]
    want = np.einsum("hic,hcj,hicj->hij", a.astype(float), c.astype(float), np.broadcast_to(along, (g, m, k, n)))
    np.testing.assert_allclose(got, want, rtol=1e-4, atol=2e-2)


def product_of_scaled(source: str) -> MatrixProduct:
    *_, kernel = planned(source).kernels
    assert isinstance(kernel, MatrixProduct)
    return kernel


@pytest.mark.usefixtures("always")
def test_dequantized_factors_are_seen_through() -> None:
    kernel = product_of(DEQUANTIZED)
    assert [operand.value.element for operand in kernel.operands] == [Element.F8E4M3] * 2
    assert len(kernel.scales) == 1  # that of rows is multiplied after
    m, n, k = 70, 40, 290
    a, c, s, u = codes(Element.F8E4M3, m, k), codes(Element.F8E4M3, n, k, seed=1), scales(m, 3), scales(n, seed=1)
    (got,) = run(program(DEQUANTIZED), [a, s, c, u])
    want = np.maximum((a.astype(float) * spread(s, 1, 128, k)) @ (c.astype(float) * u[:, None]).T, 0)
    np.testing.assert_allclose(got.astype(float), want, rtol=2**-7, atol=1e-2)


@pytest.mark.parametrize(
    "source",
    [
        BLOCKS.replace("127", "31").replace("128", "32"),
        BLOCKS.replace("f32[m, (k", "bf16[m, (k").replace("* s[", "* cast f32 s["),
        """fun f (a : f8e4m3[m, k]) (b : bf16[n, k]) (s : f32[m, k]) =
  for i j => sum c => cast f32 a[i, c] * s[i, c] * cast f32 b[j, c]""",
    ],
    ids=["blocks of 32", "scales in bf16", "one code"],
)  # fmt: skip
def test_what_no_promotion_can_scale_is_made_before_as_ever(source: str) -> None:
    *_, kernel = planned(source).kernels
    assert isinstance(kernel, MatrixProduct)
    assert not kernel.scales
    assert {operand.value.element for operand in kernel.operands} == {Element.BF16}  # limbs of what is multiplied before


def test_a_program_over_codes_reads_so() -> None:
    (part,) = straights(parts(program(DEQUANTIZED)).body)
    text = print_program(with_codes(part.program, lambda _: True))
    assert "cast f32 a[i, c] * s[i, c / 128] * cast f32 b[j, c] * u[j]" in text
    assert print_program(with_codes(part.program, lambda _: False)) == print_program(part.program)


# ── what a schedule and explain say ─────────────────────────────────────────────────────────────────────────────────────


def test_explain_says_how_sums_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)  # nothing is compiled
    core = program(CODES)
    sizes = core.contract.bind((), [(128, 4096), (256, 4096)])
    told = explain(core, sizes)
    assert "sums of 8-bit floats, of 14 bits, are promoted: added up in f32 after every 128 of the depth" in told
    assert "an element is off by 0.017 · (|A| · |B|) at most" in told
    assert "are not promoted, as the schedule allows" in explain(core, sizes, allowing())
    assert "promoted" not in explain(program(NUMBERS), program(NUMBERS).contract.bind((), [(128, 4096), (256, 4096)]))


def test_a_precision_that_cannot_be_is_refused() -> None:
    arrays = [codes(Element.F8E4M3, 8, 16)] * 2
    with pytest.raises(AxonError, match="sm_80 cannot sum products of 8-bit floats"):
        run(program(CODES), arrays, schedule=allowing(), target=named("sm_80"))
    with pytest.raises(AxonError, match="`f` has no product of 8-bit floats"):
        run(program(CODES.replace("f8e4m3", "bf16")), [x.astype(Element.BF16.dtype) for x in arrays], schedule=allowing())
    with pytest.raises(AxonError, match="`f` has no product that could be rounded to tf32"):
        run(program(NUMBERS), [codes(Element.I8, 8, 16), codes(Element.U8, 8, 16)], schedule=allowing('precision = "tf32"'))


def test_a_mapping_beside_it_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    core = program(CODES)
    sizes = core.contract.bind((), [(256, 256), (256, 256)])
    for text, depth in (("rows = 64", 128), ('rows = 64\ndepth = 256\nprecision = "fast"', 256)):
        (ready,) = Executable(core, schedule=allowing(text)).built({}, sizes)[1].values()
        assert (ready.mapping.rows, ready.mapping.depth) == (64, depth)
    with pytest.raises(AxonError, match="depth = 256"):
        Executable(core, schedule=allowing("depth = 256")).built({}, sizes)


@pytest.mark.usefixtures("always")
def test_a_call_on_a_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "model.axon"
    file.write_text(NN.replace("fun f", "fun g") + "\n" + BLOCKS + "\n" + NUMBERS.replace("fun f", "fun h"), encoding="utf-8")
    gpu = emulated(monkeypatch)
    module = axon.load(file)
    a, c = codes(Element.F8E4M3, 66, 40), codes(Element.F8E5M2, 40, 72, seed=1)
    np.testing.assert_allclose(module.g(a, c, target="cuda"), a.astype(float) @ c.astype(float), atol=1e-3)
    assert gpu.ran == {"plain": 2, "roles": 1}
    a, c, s, u = codes(Element.F8E4M3, 66, 256), codes(Element.F8E4M3, 72, 256, seed=1), scales(66, 2), scales(1, 2, seed=1)
    want = (a.astype(float) * spread(s, 1, 128, 256)) @ (c.astype(float) * spread(u, 1, 128, 256)).T
    np.testing.assert_allclose(module.f(a, s, c, u, target="cuda"), want, rtol=1e-4, atol=2e-2)
    x, y = codes(Element.I8, 66, 48), codes(Element.U8, 72, 48, seed=1)
    np.testing.assert_array_equal(module.h(x, y, target="cuda"), x.astype(np.int64) @ y.astype(np.int64).T)


# ── proofs and machine code ─────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "way"),
    [(CODES, Way()), (CODES, Way(precision=Precision.FAST)), (NUMBERS, Way()), (BLOCKS, Way())],
    ids=["promoted", "fast", "integers", "scales"],
)
def test_every_candidate_is_proved(source: str, way: Way) -> None:
    found = candidates(HOPPER, traits(product_of(source, way)))
    assert len(found) > 10
    assert {mapping.depth for mapping in found} == ({128} if product_of(source, way).promotion else {128, 256})
    for mapping in found:
        if drawn(str(mapping), 3):  # a short ring: how many stages there are, is proved of 16 bits, too
            mapping = replace(mapping, stages=2)
            assert isinstance(verify(made(source, mapping, way).barriers), Proof), mapping


SMALL = TileMapping(128, 64, 128, stages=3, in_flight=0)


def test_a_sum_that_is_not_promoted_as_it_must_is_refused() -> None:
    whole = made(BLOCKS, SMALL).barriers
    for number, op in sites(whole, (t.Promote, t.ReadScales)):
        refused(mutate(whole, number, drop), {"content"}, f"without {op} at {number}")
        refused(mutate(whole, number, twice), {"content"}, f"{op} twice at {number}")
    for number, _ in sites(whole, t.Promote):
        refused(mutate(whole, number, exchanged), {"content"}, f"an exchange at {number}")
        unscaled = mutate(whole, number, lambda op: (replace(op, scales=None),))  # type: ignore[type-var]
        refused(unscaled, {"content"}, f"a sum without its scales at {number}")
    for number, _ in sites(whole, b.Product):
        refused(mutate(whole, number, turned_over), {"content"}, f"a sum that goes on at {number}")
    for number, _ in sites(whole, t.ReadScales):

        def finer(op: Any) -> tuple[Any, ...]:
            return (replace(op, scales=tuple(replace(scale, per=64) for scale in op.scales)),)

        refused(mutate(whole, number, finer), {"content"}, "scales that change within a step")


def test_a_step_of_more_than_is_promoted_is_refused() -> None:
    kernel = product_of(CODES)
    (result,) = kernel.results
    values = planned(CODES).values
    assert MULTIPLIED[Element.F8E4M3].promoted == PROMOTED
    deep = replace(kernel, promotion=256)
    forms = stages(
        deep, TileMapping(128, 64, 256, stages=2, in_flight=0), HOPPER, values, Granted(frozenset((result.place.symbol,)))
    )
    refused(forms.barriers, {"content"}, "256 of the depth promoted at once")


def test_factors_of_other_kinds_are_refused() -> None:
    whole = made(NUMBERS, replace(SMALL, in_flight=1)).barriers
    for number, _ in sites(whole, b.Product):

        def in_f32(op: Any) -> tuple[Any, ...]:
            return (replace(op, accumulator=replace(op.accumulator, element=Element.F32)),)

        refused(mutate(whole, number, in_f32), {"content", "registers"}, f"integers summed in f32 at {number}")


def test_machine_code() -> None:
    """Asynchronous products of 8 bits, and nothing spills: the largest tiles, all kinds of scales, a role alone."""
    alone = TileMapping(64, 64, 128, stages=4, in_flight=1, consumers=1, cluster=1, specialized=False)
    fast = Way(precision=Precision.FAST)
    for source, mapping, way, kind in (
        (CODES, TileMapping(128, 192, 128, in_flight=0), None, "'e4m3'"),
        (CODES, TileMapping(128, 256, 128), fast, "'e4m3'"),
        (NN.replace("c, j", "j, c").replace("k, n", "n, k"), replace(alone, in_flight=0), None, "'e4m3.e5m2'"),
        (NUMBERS, TileMapping(128, 256, 128), None, "'s8.u8'"),
        (NUMBERS, alone, None, "'s8.u8'"),
        (BLOCKS, TileMapping(128, 128, 128, in_flight=0), None, "'e4m3'"),
        (COLUMNS, TileMapping(128, 128, 128, in_flight=0), None, "'e4m3.e5m2'"),
    ):
        if not drawn(f"{source}{mapping}", 2):
            continue
        forms = made(source, mapping, way)
        assert kind in forms.source.text
        assert not cubin.build(forms, HOPPER).spilled, (source, mapping)
