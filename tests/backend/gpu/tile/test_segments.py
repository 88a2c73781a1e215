"""Products that sum the rows of each group: of whatever groups there are, as the definition says, whatever stands in other rows."""

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
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime import merging, packed, segmenting, simulated, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.segmenting import decided
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import views_of
from axon.backend.gpu.tile.schedule import TileMapping
from axon.backend.gpu.tile.segments import REACH
from axon.core.passes.parts import choices_of, parts, straights
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
fun in_f32 (x : f32[n, k]) (w : f32[g, k, j]) (e : i32[n]) = for i j => sum k => x[i, k] * w[e[i], k, j]
fun heads (x : bf16[n, h, k]) (w : bf16[g, h, k, j]) (e : i32[n]) = for h i j => sum k => x[i, h, k] * w[e[i], h, k, j]
fun across (x : bf16[k, n]) (w : bf16[g, k, j]) (e : i32[n]) = for i j => sum k => x[k, i] * w[e[i], k, j]

fun d_product x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (product x w e)[i, j]) w
fun d_ordered x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (ordered x w e)[i, j]) w
fun d_gathered x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (gathered x w e)[i, j]) w
fun d_turned x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (turned x w e)[i, j]) w
fun d_in_f32 x w e dy = grad (fn w => sum i j => dy[i, j] * (in_f32 x w e)[i, j]) w
fun d_heads x w e dy = grad (fn w => sum h i j => cast f32 dy[h, i, j] * cast f32 (heads x w e)[h, i, j]) w
fun d_across x w e dy = grad (fn w => sum i j => cast f32 dy[i, j] * cast f32 (across x w e)[i, j]) w

fun direct (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i where e[i] = a => x[i, k] * y[i, j])
fun ascending (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) = let val s = sort e in direct x y s w end
fun few (x : bf16[n, k]) (y : bf16[n, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i where e[i] = a andalso i % 3 = 0 => x[i, k] * y[i, j])
fun several (x : bf16[n, m, k]) (y : bf16[n, m, j]) (e : i32[n]) (w : f32[g]) =
  for a k j => w[a] * cast f32 (sum for i c where e[i] = a => x[i, c, k] * y[i, c, j])
"""
MODULE = axon.compile(SOURCE)
GRADIENTS = ("product", "ordered", "gathered", "turned", "in_f32", "heads", "across")
DIRECT = ("direct", "ascending", "few")


@pytest.fixture(autouse=True)
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever other kernels cost."""
    monkeypatch.setattr(segmenting, "_is_product", lambda *_: True)
    monkeypatch.setattr(merging, "for_each_group", lambda *_: inf)
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
    shapes = {
        "heads": ((n, 2, k), (g, 2, k, j), (2, n, j)),
        "turned": ((n, k), (g, j, k), (n, j)),
        "across": ((k, n), (g, k, j), (n, j)),
    }
    x, w, dy = shapes.get(name, ((n, k), (g, k, j), (n, j)))
    first, last = (rng.standard_normal(shape).astype(element) for shape in (x, dy))
    if name in DIRECT:
        return [first, last, groups, rng.standard_normal(g).astype(np.float32)]
    return [first, np.zeros(w, element), groups, last]


def wanted(name: str, groups: int, x: Any, second: Any, e: Any, last: Any) -> Any:
    """In float64, group by group."""
    y, scale = (second, np.asarray(last, np.float64)) if name in DIRECT else (last, np.ones(groups))
    x, y = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if name in ("ordered", "gathered", "ascending"):
        x, e = x[np.argsort(e, kind="stable")] if name == "gathered" else x, np.sort(e)
    form = {"heads": "ihk,hij->hkj", "turned": "ik,ij->jk", "across": "ki,ij->kj"}.get(name, "ik,ij->kj")
    made = []
    for group in range(groups):
        mine = (e == group) & ((np.arange(len(e)) % 3 == 0) | (name != "few"))
        left, right = x[:, mine] if name == "across" else x[mine], y[:, mine] if name == "heads" else y[mine]
        made.append(scale[group] * np.einsum(form, left, right))
    return np.array(made)


def function(name: str) -> str:
    return name if name in DIRECT else f"d_{name}"


def kernels(name: str, shapes: list[tuple[int, ...]]) -> tuple[Any, list[MatrixProduct], Any]:
    """What runs of the part with the product: the plan, and sizes."""
    program = compiler.lower(checked(SOURCE), name, None)
    sizes = program.contract.bind((), shapes)
    *_, part = straights(parts(program, decided(program, choices_of(program), sizes, HOPPER)).body)
    planned = Executable(part.program).serving({}, sizes).planned
    return planned, [kernel for kernel in planned.kernels if isinstance(kernel, MatrixProduct)], sizes


def close(got: Any, want: Any, name: str) -> None:
    within = (1e-5 if name == "in_f32" else 2e-2) * max(1e-9, abs(want).max())
    np.testing.assert_allclose(np.asarray(got, np.float64), want, atol=within)


@pytest.mark.parametrize("seed", range(400 if SOAK else 20))
def test_random_groups(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    chance = Random(seed)
    names = (*GRADIENTS, *DIRECT)
    name = names[seed % len(names)]
    n, g, k = chance.choice([1, 7, 64, 65, 150, 300]), chance.choice([1, 2, 5, 20]), chance.choice([8, 64, 72, 203])
    j = chance.choice([8, 64, 72, 200, 203])
    arguments = given(name, np.random.default_rng(seed), n, g, k, j, drawn(chance, n, g))
    got = MODULE[function(name)](*arguments, target="simulate")
    close(got, wanted(name, g, *arguments), name)
    _, products, _ = kernels(function(name), [a.shape for a in arguments])
    assert [kernel.segments is not None for kernel in products] == [True]
