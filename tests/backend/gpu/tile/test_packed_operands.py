"""Factors that bulk copies cannot read as they lie are copied first, where that is worth it."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations, product
from math import inf, prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.runtime import packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.ways import Planned, plan
from axon.backend.gpu.tile.schedule import ranked
from axon.backend.plan.ir import Nest
from axon.core.ir import Block
from axon.interpret.program import _block as interpret
from tests.checked import checked

SOURCE = """
fun product (a : bf16[m, k]) (b : bf16[k, n]) = a @ b
fun part (a : bf16[m, 2 * k + 1]) (b : bf16[k, n]) = for i j => sum c => a[i, k + 1 + c] * b[c, j]
fun square (a : bf16[m, m]) = a @ a
fun chain (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n, o]) = (a @ b) @ c
fun batched (a : bf16[2, 2, 2, 2, m, k]) (b : bf16[k, n]) = for p q r s i j => sum c => a[p, q, r, s, i, c] * b[c, j]
fun inside (a : bf16[m, k, h]) (b : bf16[k, n, h]) = for p i j => sum c => a[i, c, p] * b[c, j, p]
fun batches (a : bf16[h, m, k]) (b : bf16[h, k, n]) = a @ b
fun attention (q : bf16[h, s, d]) (k : bf16[h, t, d]) (v : bf16[h, t, d]) =
  let val w = for h i j => sum c => cast f32 q[h, i, c] * cast f32 k[h, j, c]
      val m = for h i => max j => w[h, i, j]
      val z = for h i => sum j => exp (w[h, i, j] - m[h, i])
  in for h i d => cast bf16 (sum j => exp (w[h, i, j] - m[h, i]) / z[h, i] * cast f32 v[h, j, d]) end
fun weights (a : bf16[m, k]) = for i c => exp a[i, c] / (sum c => exp a[i, c])
fun between (a : bf16[m, k]) (b : bf16[k, n]) (u : bf16[m, n]) =
  let val w = weights a in (w @ b, for c j => sum i => w[i, c] * u[i, j]) end
fun beside (a : bf16[m, k]) (b : bf16[k, n]) (u : bf16[m, n]) =
  let val w = weights a in (w @ b, for c j => sum i => w[i, c] * u[i, j], w) end
fun merged (a : bf16[m, k]) (b : bf16[k, n]) (v : bf16[m * k, 8]) =
  let val w = weights a in (w @ b, for (i, c) => w[i, c] + v[i * k + c, 0]) end
"""
MODULE = axon.compile(SOURCE)


def made(name: str, **sizes: int) -> tuple[Executable, dict[Any, int]]:
    program = compiler.lower(checked(SOURCE), name, None)
    named = {s: sizes[s.name] for v in program.inputs for d in v.shape for s in d.variables}
    return Executable(program), named


def served(name: str, **sizes: int) -> tuple[Planned, dict[Any, int]]:
    executable, own = made(name, **sizes)
    return executable.serving({}, own).planned, own


def families(planned: Planned) -> list[str]:
    return ["plain" if isinstance(kernel, Nest) else "tensor cores" for kernel in planned.kernels]


@pytest.mark.parametrize(
    ("name", "shapes"),
    [
        ("product", [(70, 65), (65, 67)]),
        ("product", [(70, 64), (64, 67)]),
        ("part", [(70, 67), (33, 67)]),
        ("square", [(67, 67)]),
        ("chain", [(70, 65), (65, 67), (67, 66)]),
        ("batched", [(2, 2, 2, 2, 66, 64), (64, 67)]),
        ("inside", [(70, 64, 8), (64, 67, 8)]),
        ("inside", [(7, 8, 3), (8, 2, 3)]),
        ("attention", [(2, 70, 33)] * 3),
        ("between", [(70, 65), (65, 64), (70, 64)]),
        ("beside", [(70, 65), (65, 64), (70, 64)]),
        ("merged", [(70, 65), (65, 64), (70 * 65, 8)]),
    ],
)
def test_what_is_computed(name: str, shapes: list[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    given = [(rng.standard_normal(shape) / 4).astype(ml_dtypes.bfloat16) for shape in shapes]
    wanted, found = (MODULE[name](*given, target=target) for target in ("interpret", "simulate"))
    for one, other in zip(*(x if isinstance(x, tuple) else (x,) for x in (wanted, found)), strict=True):
        want, got = np.asarray(one, np.float64), np.asarray(other, np.float64)
        np.testing.assert_allclose(got, want, atol=1e-2 * abs(want).max())


@pytest.mark.parametrize(
    ("name", "sizes", "wanted"),
    [
        ("product", {"m": 512, "k": 512, "n": 512}, ["tensor cores"]),
        ("product", {"m": 512, "k": 511, "n": 512}, ["plain", "tensor cores"]),  # b has rows of n
        ("product", {"m": 512, "k": 511, "n": 509}, ["plain", "plain", "tensor cores"]),
        ("product", {"m": 512, "k": 512, "n": 509}, ["plain", "tensor cores"]),
        ("product", {"m": 8, "k": 511, "n": 512}, ["plain"]),  # too few rows to be worth it
        ("square", {"m": 511}, ["plain", "tensor cores"]),  # one copy for both
        ("part", {"m": 512, "k": 512, "n": 512}, ["plain", "tensor cores"]),
        ("inside", {"h": 8, "m": 512, "k": 512, "n": 512}, ["plain", "plain", "tensor cores"]),  # tiles have one batch each
        ("inside", {"h": 8, "m": 16, "k": 64, "n": 64}, ["plain"]),
        ("inside", {"h": 1, "m": 64, "k": 64, "n": 64}, ["tensor cores"]),  # a dimension of one index lies anywhere
        ("attention", {"h": 2, "s": 512, "t": 512, "d": 65}, ["plain", "plain", "plain", "tensor cores"]),
    ],
)
def test_which_are_copied(name: str, sizes: dict[str, int], wanted: list[str]) -> None:
    planned, own = served(name, **sizes)
    assert families(planned) == wanted
    copies = [kernel.stored[0] for kernel in planned.kernels if isinstance(kernel, Nest)]
    if "tensor cores" in wanted:
        assert all(planned.lying(own)[copy].copyable is None for copy in copies)


def test_what_is_between_kernels_is_stored_in_rows_that_can_be_read() -> None:
    """Once, for both products that read it; a result lies as results do, and is copied once for both."""
    sizes = {"m": 512, "k": 511, "n": 512}
    planned, own = served("between", **sizes)
    assert families(planned) == ["plain", "tensor cores", "tensor cores"]
    (space,) = planned.spaced
    assert planned.lying(own)[space].copyable is None
    assert planned.lying(own)[space].strides == (512, 1)
    beside, _ = served("beside", **sizes)
    assert families(beside) == ["plain", "plain", "tensor cores", "tensor cores"]
    assert len(beside.copies) == 1
    assert not beside.spaced


def test_a_copy_is_the_same_in_every_plan() -> None:
    """So that what knows its place for one can use it for another."""
    planned, _ = served("product", m=512, k=511, n=509)
    assert plan(planned.program, HOPPER, planned.way).copies == planned.copies


def test_a_copy_of_many_dimensions() -> None:
    """Bulk copies read at most five, but of merged ones only one."""
    planned, _ = served("batched", m=64, k=1023, n=1024)
    assert families(planned) == ["plain", "tensor cores"]


def test_arguments_that_lie_anyhow() -> None:
    executable, own = made("product", m=512, k=512, n=512)
    tensors = executable.planned.lying(own)
    a, _ = (v.symbol for v in executable.program.inputs)
    for strides in ((1, 512), (512, 2), (513, 1), (0, 1)):
        lying = {**tensors, a: replace(tensors[a], strides=strides)}
        planned = executable.serving(lying, own).planned
        # Rows and columns may be exchanged, anything else is copied.
        assert families(planned) == (["tensor cores"] if strides == (1, 512) else ["plain", "tensor cores"])


SMALL = list(product((1, 2, 8, 16), repeat=4))  # h, m, k, n


def test_batches_of_every_small_size_have_a_kernel() -> None:
    executable, own = made("batches", h=8, m=64, k=64, n=64)
    names = {symbol.name: symbol for symbol in own}
    for sizes in SMALL:
        assert executable.wanted({names[name]: size for name, size in zip("hmkn", sizes, strict=True)}, exact=True) is not None


@pytest.mark.parametrize(("h", "m", "k", "n"), [(2, 8, 1, 1), (8, 1, 1, 16), (2, 1, 16, 1), *Random(0).sample(SMALL, 20)])
def test_batches_of_small_sizes(h: int, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((h, m, k), (h, k, n)))
    got = np.asarray(MODULE.batches(a, b, target="simulate"), np.float32)
    np.testing.assert_allclose(got, a.astype(np.float32) @ b.astype(np.float32), rtol=1e-2, atol=1e-2)


def lying_as(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """The strides of a tensor whose dimensions lie in this order in memory."""
    return tuple(prod(shape[other] for other in order[order.index(d) + 1 :]) for d in range(len(shape)))


def run(planned: Planned, own: dict[Any, int], arrays: dict[Any, Any], lying: dict[Any, DeviceTensor]) -> dict[Any, Any]:
    """The kernels one after the other on arrays that lie like these: barrier programs, and what is plain by the interpreter."""
    lying = planned.lying(own) | lying
    held = dict(arrays)
    for kernel in planned.kernels:
        if isinstance(kernel, Nest):
            interpret(Block(kernel.steps, ()), own, held)
            continue
        held |= {r.value.symbol: np.zeros(lying[r.value.symbol].shape, r.value.element.dtype) for r in kernel.results}
        ready = prepare(kernel, lying, own)
        mapping = ranked(ready.problem, traits(ready.kernel), HOPPER)[0]
        simulate(stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted).barriers, held, own, seed=0)
    return held


@pytest.mark.parametrize("right", list(permutations(range(3))), ids=str)
@pytest.mark.parametrize("left", list(permutations(range(3))), ids=str)
def test_batches_that_lie_in_any_order(left: tuple[int, ...], right: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """A factor is copied if, and only if, its batch is what lies side by side; whatever that costs."""
    monkeypatch.setattr(packed, "without_tensor_cores", lambda *_: inf)
    executable, own = made("batches", h=8, m=64, k=72, n=80)
    a, b = executable.program.inputs
    shapes = {a.symbol: (8, 64, 72), b.symbol: (8, 72, 80)}
    orders = {a.symbol: left, b.symbol: right}
    lying = {s: DeviceTensor(256, shapes[s], lying_as(shapes[s], orders[s]), a.element) for s in shapes}
    planned = executable.serving(lying, own).planned
    assert families(planned) == ["plain"] * sum(order[-1] == 0 for order in orders.values()) + ["tensor cores"]
    if left != right:  # a few of them
        return
    rng = np.random.default_rng(0)
    arrays = {s: rng.standard_normal(shape).astype(ml_dtypes.bfloat16) for s, shape in shapes.items()}
    want = arrays[a.symbol].astype(np.float32) @ arrays[b.symbol].astype(np.float32)
    got = run(planned, own, arrays, lying)[executable.program.block.results[0]]
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2e-2, atol=0.2)
