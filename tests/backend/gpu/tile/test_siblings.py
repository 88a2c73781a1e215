"""Products that share a factor and meet in one result: which are one kernel, what it computes, its proof, and its machine code."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.build import cubin as build
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.steps import Ordered
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import TileMapping, candidates
from axon.backend.gpu.tile.siblings import MOST
from axon.base.element import Element
from axon.core.ir import Program
from tests.backend.gpu.proof.mutants import Change, drop, mutate, refused, sites, turned_over, twice, with_field

GATED = """import nn
fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) =
  for i j => nn.silu (sum k => x[i, k] * a[k, j]) * sum k => x[i, k] * b[k, j]"""
TURNED = """fun f (x : bf16[n, d]) (a : bf16[h, d]) (b : bf16[d, h]) =
  for i j => (sum k => x[i, k] * a[j, k]) - (sum k => b[k, j] * x[i, k])"""
ROWS = """fun f (x : bf16[n, d]) (y : bf16[n, d]) (w : bf16[d, h]) =
  for i j => max (sum k => x[i, k] * w[k, j]) 0.0 + (sum k => y[i, k] * w[k, j])"""
THREE = """fun f (x : f16[n, d]) (a : f16[d, h]) (b : f16[d, h]) (c : f16[d, h]) (u : f16[h]) =
  for i j => max (x @ a)[i, j] ((x @ b)[i, j] + u[j]) - (x @ c)[i, j]"""
BATCH = """import nn
fun f (x : bf16[l, n, d]) (a : bf16[d, h]) (b : bf16[d, h]) =
  for z i j => nn.silu (sum k => x[z, i, k] * a[k, j]) * sum k => x[z, i, k] * b[k, j]"""
STORED = """fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) =
  let val g = x @ a val u = x @ b in (g, for i j => g[i, j] * u[i, j]) end"""
SCALED = """fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) (s : f32[n]) =
  for i j => (sum k => cast f32 x[i, k] * cast f32 a[k, j] * s[i]) * (sum k => cast f32 x[i, k] * cast f32 b[k, j])"""


def silu(x: Any) -> Any:
    return x / (1 + np.exp(-x))


# What a program gives, in float64, and how its factors' extents follow from n, d and h.
CASES: dict[str, tuple[str, Callable[..., Any]]] = {
    "gated": (GATED, lambda x, a, b: silu(x @ a) * (x @ b)),
    "one of them transposed": (TURNED, lambda x, a, b: x @ a.T - x @ b),
    "of the same columns": (ROWS, lambda x, y, w: np.maximum(x @ w, 0) + y @ w),
    "three": (THREE, lambda x, a, b, c, u: np.maximum(x @ a, x @ b + u) - x @ c),
    "a batch": (BATCH, lambda x, a, b: silu(x @ a) * (x @ b)),
    "one of them stored": (STORED, lambda x, a, b: (x @ a, (x @ a) * (x @ b))),
    "with factors of their own": (SCALED, lambda x, a, b, s: (x @ a) * s[:, None] * (x @ b)),
}
SMALL = TileMapping(128, 128, 64, stages=3, cluster=2, slots=2)
MAPPINGS = (
    SMALL,
    replace(SMALL, in_flight=2, stages=4, cluster=1),
    TileMapping(64, 64, 64, stages=2, in_flight=0, consumers=1, cluster=1),
    TileMapping(256, 64, 64, stages=4, cluster_over="columns"),
    TileMapping(128, 64, 64, stages=4, cluster=1, specialized=False),
    TileMapping(64, 64, 64, stages=3, cluster=1, turns=True),
)


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


def sized(made: Program, sizes: dict[str, int]) -> dict[Any, int]:
    variables = {s for v in made.inputs for extent in v.shape for s in extent.variables}
    return {symbol: sizes[symbol.name] for symbol in variables}


def normal(made: Program, sizes: dict[str, int], seed: int) -> list[Any]:
    chance, known = np.random.default_rng(seed), sized(made, sizes)
    return [chance.standard_normal([d.evaluate(known) for d in v.shape]).astype(v.element.dtype) for v in made.inputs]


def forms(source: str, mapping: TileMapping, sizes: dict[str, int]) -> Stages:
    made = program(source)
    planned, known = plan(made, HOPPER), sized(made, sizes)
    (kernel,) = planned.kernels
    assert isinstance(kernel, MatrixProduct)
    assert kernel.siblings
    ready = prepare(kernel, planned.lying(known), known)
    return stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted)


# ── which products ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", CASES)
def test_they_are_one_kernel(name: str) -> None:
    kernels = [k for k in plan(program(CASES[name][0]), HOPPER).kernels if isinstance(k, MatrixProduct)]
    assert len(kernels) == 1
    assert len(kernels[0].products) == (3 if name == "three" else 2)
    assert kernels[0].shared == ("right" if name == "of the same columns" else "left")


APART = {
    "never meet": "fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) = (x @ a, x @ b)",
    "other extents": "fun f (x : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, g]) = ((x @ a), (x @ b))",
    "no factor in common": """fun f (x : bf16[n, d]) (y : bf16[n, d]) (a : bf16[d, h]) (b : bf16[d, h]) =
  for i j => (x @ a)[i, j] * (y @ b)[i, j]""",
    "one follows from the other": """fun f (x : bf16[n, n]) (a : bf16[n, n]) =
  let val y = x @ a in for i j => y[i, j] + (x @ y)[i, j] end""",
    "at other places": """fun f (x : bf16[n, d]) (a : bf16[d, n]) (b : bf16[d, n]) =
  for i j => (x @ a)[i, j] * (x @ b)[j, i]""",
}


@pytest.mark.parametrize("name", APART)
def test_others_are_kernels_of_their_own(name: str) -> None:
    kernels = [k for k in plan(program(APART[name]), HOPPER).kernels if isinstance(k, MatrixProduct)]
    assert len(kernels) == 2
    assert not any(kernel.siblings or kernel.alone for kernel in kernels)


def test_more_than_a_tile_has_room_for_are_not_one_kernel() -> None:
    names = "pqrst"
    factors = " ".join(f"({n} : bf16[d, h])" for n in names)
    source = f"fun f (x : bf16[n, d]) {factors} = for i j => " + " * ".join(f"(x @ {n})[i, j]" for n in names)
    kernels = [k for k in plan(program(source), HOPPER).kernels if isinstance(k, MatrixProduct)]
    assert max(len(kernel.products) for kernel in kernels) == MOST
    assert sum(len(kernel.products) for kernel in kernels) == len(names)


def test_factors_in_limbs_are_apart_and_explain_says_so() -> None:
    source = GATED.replace("bf16", "f32")
    made = program(source)
    text = explain(made, sized(made, {"n": 2048, "d": 2048, "h": 2048}))
    assert "apart from a product that shares a factor with it: factors of f32 come in limbs" in text
    made = program(GATED)
    assert "2 products that share their left factor" in explain(made, sized(made, {"n": 2048, "d": 2048, "h": 2048}))


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", CASES)
def test_results_are_those_of_float64(name: str) -> None:
    source, expected = CASES[name]
    made, chance = program(source), Random(name)
    for turn in range(2):
        # Rows that bulk copies read lie at multiples of 16 bytes.
        draw = chance.randint
        sizes = {"l": draw(1, 3), "n": draw(1, 300), "d": 8 * draw(1, 25), "h": 8 * draw(1, 20)}
        mapping = chance.choice(MAPPINGS if name not in ("three", "of the same columns") else (MAPPINGS[2], MAPPINGS[-1]))
        arrays = normal(made, sizes, turn)
        got = run(made, arrays, seed=turn, mapping=mapping)
        want = expected(*(a.astype(np.float64) for a in arrays))
        for mine, true in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
            assert np.abs(mine.astype(np.float64) - true).max() <= 8e-3 * np.abs(true).max(), (sizes, mapping)


# ── their proof ─────────────────────────────────────────────────────────────────────────────────────────────────────────

SIZES = {"n": 512, "d": 256, "h": 256, "l": 2}


@pytest.mark.parametrize("mapping", MAPPINGS, ids=str)
@pytest.mark.parametrize("source", [GATED, TURNED], ids=["gated", "transposed"])
def test_what_the_compiler_makes_is_proved(source: str, mapping: TileMapping) -> None:
    assert isinstance(verify(forms(source, mapping, SIZES).barriers), Proof)


@pytest.mark.parametrize("mapping", [SMALL, TileMapping(64, 128, 64, stages=4, consumers=1, cluster=1)], ids=str)
def test_those_of_the_same_columns_are_proved(mapping: TileMapping) -> None:
    assert isinstance(verify(forms(ROWS, mapping, SIZES).barriers), Proof)


def of_the_other_factor(op: b.Op) -> tuple[b.Op, ...]:
    """A product of the right factor of the other sum."""
    assert isinstance(op, b.Product)
    return (replace(op, right=replace(op.right, field=3 - op.right.field)),)


MUTANTS: list[tuple[str, type, Change, set[str]]] = [
    ("a dropped product", b.Product, drop, {"content"}),
    ("a doubled product", b.Product, twice, {"content"}),
    ("a product of the other sum's factor", b.Product, of_the_other_factor, {"content"}),
    ("a product that keeps what it must not", b.Product, turned_over, {"content"}),
    ("a dropped product fence", b.ProductFence, drop, {"fence"}),
    ("a dropped copy", b.Copy, drop, {"layout"}),
    ("a copy into another factor's place", b.Copy, with_field("field", lambda n: (n + 1) % 3), {"content", "layout"}),
    ("a dropped release", b.Release, drop, {"deadlock", "exit"}),
    ("a dropped write", b.Write, drop, {"buffer", "content"}),
    ("a dropped store", b.Send, drop, {"content", "buffer"}),
]


@pytest.mark.parametrize(("name", "kind", "change", "allowed"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_changed_operation_is_refused(name: str, kind: type, change: Change, allowed: set[str]) -> None:
    made = forms(GATED, replace(SMALL, cluster=1), SIZES).barriers
    places = list(sites(made, kind))
    assert places
    for number, op in places:
        refused(mutate(made, number, change), allowed, f"{name}: {op} at {number}")


def test_exchanged_sums_are_refused() -> None:
    """Each accumulator with the other's factor: every operation by itself is one that a step has."""
    made = forms(GATED, replace(SMALL, cluster=1), SIZES).barriers
    for number, _ in sites(made, b.Product):
        made = mutate(made, number, of_the_other_factor)
    refused(made, {"content"}, "exchanged factors")


# ── their machine code ──────────────────────────────────────────────────────────────────────────────────────────────────


ALONG = GATED.replace("[d, h]", "[h, d]").replace("a[k, j]", "a[j, k]").replace("b[k, j]", "b[j, k]")


@pytest.mark.parametrize(
    ("source", "columns", "depth", "joined"),
    [
        (GATED, 128, 64, True),
        (GATED, 64, 128, True),  # panels of columns lie behind each other
        (ALONG, 128, 64, True),
        (ALONG, 64, 128, False),  # a panel of the first factor lies between two of the second
        (TURNED, 128, 64, False),
        (ROWS, 64, 64, False),
    ],
)
def test_right_factors_behind_each_other_are_one_instruction(source: str, columns: int, depth: int, joined: bool) -> None:
    text = forms(source, TileMapping(128, columns, depth, stages=2, cluster=1), SIZES).source.text
    assert ("acc_0, acc2_0 = multiply(acc_0, acc2_0, left, right, int32(k > 0))" in text) == joined


def test_kernels_are_built() -> None:
    made = [forms(GATED, SMALL, SIZES), forms(ROWS, TileMapping(64, 128, 64, stages=3, consumers=1, cluster=1), SIZES)]
    facts = traits(plan(program(GATED), HOPPER).kernels[0])  # type: ignore[arg-type]
    assert (facts.sums, facts.element) == (2, Element.BF16)
    assert all(mapping.rows * mapping.columns <= 128 * 128 for mapping in candidates(HOPPER, facts))
    for built in build.build_all(made, HOPPER):
        assert isinstance(built, build.LinkedKernel)
        assert not built.spilled


def test_factors_that_are_computed_are_not_shared() -> None:
    """Of a factor that is made on the way each sum has a kernel of its own."""
    text = """
fun f {i} (x : bf16[m, n, d]) (y : bf16[m, n, d]) (p : bf16[m, h, d]) (q : bf16[l, m, h, d]) where i < l, i >= 0 =
  let val w = for b j k => p[b, j, k] + q[i, b, j, k]
      val g = for b r j => sum k => x[b, r, k] * w[b, j, k]
      val u = for b r j => sum k => y[b, r, k] * w[b, j, k]
      val s = for b r => sum j => u[b, r, j]
  in (for b r j => g[b, r, j] * u[b, r, j], for b r k => sum j => u[b, r, j] * s[b, r] * w[b, j, k]) end"""
    program = compiler.lower(compiler.check_text(text), "f", None)
    given = {"m": 8, "n": 2048, "d": 64, "h": 2048, "l": 4, "i": 2}
    mentioned = {s for value in program.inputs for dim in value.shape for s in dim.variables} | {*program.explicit}
    sizes = {symbol: given[symbol.name] for symbol in mentioned}
    stepped = Ordered(program).at(sizes)
    assert stepped.straight is not None
    products = [k for k in stepped.straight.serving({}, sizes).planned.kernels if isinstance(k, MatrixProduct)]
    assert len(products) == 3
    assert not any(product.siblings for product in products)
