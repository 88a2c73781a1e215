"""Products whose rows have groups: tiles of one group each, of whatever groups there are, as the definition says."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Violation
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime import merging, packed, simulated, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.errors import AxonError
from axon.core.passes.parts import parts, straights
from tests.backend.gpu.runtime.emulated import emulated
from tests.checked import checked
from tests.sample import SOAK

SOURCE = """
fun product (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun ordered (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) =
  let val s = sort e in for i j => sum k => x[i, k] * w[s[i], k, j] end
fun gathered (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) =
  let val s = sort e val order = argsort e in for p j => sum k => x[order[p], k] * w[s[p], k, j] end
fun turned (x : bf16[n, k]) (w : bf16[g, j, k]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], j, k]
fun shifted (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[(e[i] + 1) % g, k, j]
fun biased (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) (s : f32[n]) (y : f32[n, j]) =
  for i j => cast f32 i * 0.5 + s[i] * y[i, j] * tanh (sum k => cast f32 x[i, k] * cast f32 w[e[i], k, j])
fun in_f32 (x : f32[n, k]) (w : f32[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun heads (x : bf16[n, h, k]) (w : bf16[g, h, k, j]) (e : i32[n]) = for h i j => sum k => x[i, h, k] * w[e[i], h, k, j]
fun shared (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[n]) (v : bf16[g, k, j]) =
  for i j => (sum k => x[i, k] * w[e[i], k, j]) * (sum c => x[i, c] * v[e[i], c, j])
fun columns (x : bf16[n, k]) (w : bf16[g, k, j]) (e : i32[j]) = for i j => sum k => x[i, k] * w[e[j], k, j]
"""
MODULE = axon.compile(SOURCE)


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a plain kernel costs."""
    monkeypatch.setattr(merging, "for_each_row", lambda *_: inf)
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: inf)
    monkeypatch.setattr(ways, "dearer", lambda *_: None)


def drawn(chance: Random, rows: int, groups: int) -> Any:
    """Groups of rows: any, of one alone, of few, most of the last."""
    how = chance.choice(["any", "one", "few", "skewed"])
    some = [chance.randrange(groups) for _ in range({"any": groups, "one": 1, "few": 2, "skewed": 1}[how])]
    found = [chance.choice(some) if how != "skewed" or chance.random() < 0.8 else groups - 1 for _ in range(rows)]
    return np.array(found, np.int32)


def given(name: str, rng: Any, n: int, g: int, k: int, j: int, groups: Any) -> list[Any]:
    element = np.float32 if name == "in_f32" else ml_dtypes.bfloat16
    x, w = ((n, 2, k), (g, 2, k, j)) if name == "heads" else ((n, k), (g, j, k) if name == "turned" else (g, k, j))
    made = [rng.standard_normal(shape).astype(element) for shape in (x, w)] + [groups]
    if name == "biased":
        made += [rng.standard_normal(n).astype(np.float32), rng.standard_normal((n, j)).astype(np.float32)]
    return made + [rng.standard_normal((g, k, j)).astype(element)] * (name == "shared")


def wanted(name: str, x: Any, w: Any, e: Any, *rest: Any) -> Any:
    """In float64, as written."""
    x, w, *rest = (np.asarray(v, np.float64) for v in (x, w, *rest))
    if name in ("ordered", "gathered"):
        x, e = x[np.argsort(e, kind="stable")] if name == "gathered" else x, np.sort(e)
    form = {"turned": "ik,ijk->ij", "heads": "ihk,ihkj->hij"}.get(name, "ik,ikj->ij")
    product = np.einsum(form, x, w[(e + 1) % len(w) if name == "shifted" else e])
    if name == "biased":
        return np.arange(len(x))[:, None] * 0.5 + rest[0][:, None] * rest[1] * np.tanh(product)
    return product * np.einsum(form, x, rest[0][e]) if name == "shared" else product


def kernels(name: str, shapes: list[tuple[int, ...]]) -> tuple[Any, Any, Any]:
    """What runs of the part with the product: the plan, and sizes."""
    program = compiler.lower(checked(SOURCE), name, None)
    *_, part = straights(parts(program).body)
    sizes = program.contract.bind((), shapes)
    planned = Executable(part.program).serving({}, sizes).planned
    return planned, [kernel for kernel in planned.kernels if isinstance(kernel, MatrixProduct)], sizes


NAMES = ("product", "ordered", "gathered", "turned", "shifted", "biased", "in_f32", "heads", "shared")


@pytest.mark.parametrize("seed", range(400 if SOAK else 18))
def test_random_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    chance = Random(seed)
    name = NAMES[seed % len(NAMES)]
    n, g, k = chance.choice([1, 7, 64, 65, 150, 300]), chance.choice([1, 2, 5, 20]), chance.choice([8, 64, 72])
    j = chance.choice([8, 64, 72, 200, 203])
    arguments = given(name, np.random.default_rng(seed), n, g, k, j, drawn(chance, n, g))
    want = wanted(name, *arguments)
    got = np.asarray(MODULE[name](*arguments, target="simulate"), np.float64)
    np.testing.assert_allclose(got, want, atol=(1e-5 if name == "in_f32" else 2e-2) * abs(want).max())
    _, products, _ = kernels(name, [a.shape for a in arguments])
    assert products
    assert all(kernel.ragged is not None for kernel in products)


def test_what_is_known_to_be_sorted_stays_where_it_is() -> None:
    shapes = [(300, 64), (5, 64, 64), (300,)]
    found = {name: kernels(name, shapes)[1][0].ragged for name in ("product", "ordered", "gathered")}
    assert [found[name].order is None for name in found] == [False, True, True]
    assert [found[name].rows is None for name in found] == [False, True, False]


def test_tables_are_made_once_for_products_of_the_same_groups() -> None:
    planned, products, _ = kernels("shared", [(300, 64), (5, 64, 64), (300,), (5, 64, 64)])
    first, second = (kernel.ragged for kernel in products)
    assert first.tables == second.tables
    assert first.rows == second.rows
    stored = [symbol for kernel in planned.kernels for symbol in getattr(kernel, "stored", ())]
    assert len(stored) == len(set(stored))


def test_columns_have_no_groups() -> None:
    assert kernels("columns", [(300, 64), (5, 64, 64), (64,)])[1] == []


def test_explain_says_what_was_chosen() -> None:
    shapes = [(300, 64), (5, 64, 64), (300,)]
    program = compiler.lower(checked(SOURCE), "product", None)
    told = compiler.explain(program, program.contract.bind((), shapes))
    assert "rows have 5 groups, not known to be sorted: at most 10 tiles of 64 rows of one group each" in told
    assert "for tiles that have rows of one group each" in told


def test_few_rows_are_not_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()  # of what the fixture does
    planned, products, _ = kernels("product", [(4, 64), (5, 64, 64), (4,)])
    assert not products
    reasons = [reason.text for kernel in planned.kernels for reason in kernel.reasons]
    assert any("tiles of one group of rows each are not worth it here" in text for text in reasons)
    assert kernels("product", [(4096, 1024), (8, 1024, 2048), (4096,)])[1]


@pytest.mark.parametrize("empty", ["n", "g", "k", "j"])
def test_sizes_of_0(empty: str) -> None:
    sizes = {"n": 70, "g": 3, "k": 64, "j": 64} | {empty: 0}
    n, g, k, j = sizes.values()
    arguments = [np.ones((n, k), ml_dtypes.bfloat16), np.ones((g, k, j), ml_dtypes.bfloat16), np.full(n, 9, np.int32)]
    if empty == "g":
        with pytest.raises(AxonError):
            MODULE.product(*arguments, target="simulate")
        return
    got = np.asarray(MODULE.product(*arguments, target="simulate"), np.float64)  # of nothing, no index is asked for
    assert got.shape == (n, j)
    assert not got.any()


@pytest.mark.parametrize("index", [-1, 5])
def test_an_index_that_is_no_group_stops_the_program(index: int) -> None:
    groups = np.zeros(70, np.int32)
    groups[40] = index
    arguments = [np.ones((70, 64), ml_dtypes.bfloat16), np.ones((5, 64, 64), ml_dtypes.bfloat16), groups]
    said = []
    for target in ("interpret", "simulate"):
        with pytest.raises(AxonError) as caught:
            MODULE.product(*arguments, target=target)
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_on_an_emulated_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    arguments = given("gathered", np.random.default_rng(3), 70, 3, 16, 72, drawn(Random(5), 70, 3))
    want = wanted("gathered", *arguments)
    got = np.asarray(MODULE.gathered(*arguments, target="cuda"), np.float64)
    np.testing.assert_allclose(got, want, atol=2e-2 * abs(want).max())


# ── the proof ───────────────────────────────────────────────────────────────────────────────────────────────────────────


def barriers(mapping: TileMapping) -> BarrierProgram:
    planned, (kernel,), sizes = kernels("product", [(4096, 512), (8, 512, 1024), (4096,)])
    ready = prepare(kernel, planned.lying(sizes), sizes)
    return stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).barriers


@pytest.mark.parametrize("name", ["product", "gathered", "biased", "heads"])
def test_tiles_in_turn(name: str) -> None:
    """A consumer reads from tables what its own tiles have, and how many steps it passes by does not depend on them."""
    arguments = given(name, np.random.default_rng(1), 300, 5, 136, 72, drawn(Random(2), 300, 5))
    program = compiler.lower(checked(SOURCE), name, None)
    mapping = TileMapping(64, 64, 64, 3, 1, 2, 1, "rows", turns=True)
    (got,) = simulated.run(program, arguments, mapping=mapping)
    want = wanted(name, *arguments)
    np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=2e-2 * abs(want).max())


def test_mutants_are_found() -> None:
    made = barriers(TileMapping(128, 128, 64, 4, 1, 2, 2, "columns"))
    assert not isinstance(verify(made), Violation)
    ragged, order = made.order.ragged, made.order
    assert ragged is not None
    mutants = [
        replace(made, order=replace(order, cluster_over="rows")),
        replace(made, order=replace(order, ragged=replace(ragged, step=64))),
        replace(made, order=replace(order, paired=True)),
        replace(made, derived=()),  # the group is that of no tile
        replace(made, tensors=tuple(v for v in made.tensors if v != ragged.last)),
    ]
    for mutant in mutants:
        found = verify(mutant)
        assert isinstance(found, Violation), mutant.order
        assert found.kind in ("content", "layout"), found
