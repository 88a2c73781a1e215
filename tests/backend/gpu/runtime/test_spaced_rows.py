"""Tensors between kernels whose rows are spaced: which those are, and that programs give what they gave, on an emulated GPU.

There every tensor between kernels is spaced, whether that helps or not; where rows end, memory holds what was there before.
"""

from __future__ import annotations

import os
from math import inf
from random import Random
from typing import Any

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.report.plain import time_of
from axon.backend.gpu.runtime import binding, packed
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.plain_variants import prepare as prepare_nest
from axon.backend.gpu.runtime.prepare import Prepared, fit
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.gpu.runtime.ways import Planned
from axon.backend.gpu.tile.families import results_of
from axon.backend.plan.ir import Nest, reads_of
from axon.core.passes.parts import parts
from axon.core.verify import CoreInvalid
from axon.interpret import run
from tests.backend.gpu.oracle import outcome
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated
from tests.backend.gpu.runtime.test_emulated import wrong
from tests.core.random_programs import Generator
from tests.sample import ALL

PROGRAMS = 400 if os.environ.get("AXON_SOAK") else 60 if ALL else 30
SOURCE = """
fun losses (x : bf16[b, t, d]) (w : bf16[v, d]) =
  let val z = for b t, j < v => sum k => x[b, t, k] * w[j, k]
      val m = for b t => max j => z[b, t, j]
  in for b t => log (sum j => exp (cast f32 z[b, t, j] - cast f32 m[b, t])) + cast f32 (m[b, t] - z[b, t, 0]) end
fun trained (x : bf16[n, d]) (w : bf16[v, d]) (label : i32[n]) =
  let val z = for i, j < v => sum k => x[i, k] * w[j, k]
      val m = for i => max j => z[i, j]
      val s = for i => sum j => exp (cast f32 z[i, j] - cast f32 m[i])
      val g = for i, j => cast bf16 (exp (cast f32 z[i, j] - cast f32 m[i]) / s[i] - (if cast i32 j = label[i] then 1.0 else 0.0))
  in (for i, k => sum j => g[i, j] * w[j, k], for j k => sum i => g[i, j] * x[i, k], for i => m[i]) end
fun choices (x : bf16[n, d]) (w : bf16[v, d]) =
  let val z = for i, j < v => sum k => x[i, k] * w[j, k]
  in (for i => argmax j => z[i, j], for i => sum j => cast f32 z[i, j] * cast f32 z[i, j]) end
fun columns (x : bf16[n, d]) (w : bf16[v, d]) =
  let val z = for i, j < v => sum k => x[i, k] * w[j, k]
  in for j => sum i => cast f32 z[i, j] end
fun running (x : bf16[n, d]) (w : bf16[v, d]) =
  let val z = for i, j < v => sum k => x[i, k] * w[j, k]
      val c = for i => scan (op +, 0.0) j => cast f32 z[i, j]
  in for i => max j => c[i, j] * cast f32 z[i, j] end
fun twice (x : bf16[n, d]) (w : bf16[v, d]) (u : bf16[v, e]) =
  let val h = for i, j < v => sum k => x[i, k] * w[j, k]
  in (for i c => sum j => h[i, j] * u[j, c], for i => argmax j => h[i, j]) end
fun kept (x : bf16[n, d]) (w : bf16[v, d]) (u : bf16[v, e]) =
  let val z = for i, j < v => sum k => x[i, k] * w[j, k] in (z, for i c => sum j => z[i, j] * u[j, c]) end
fun scaled (x : f32[n, d]) =
  let val z = for i => scan (op +, 0.0) j => x[i, j]
      val s = sum i j => z[i, j]
  in for i j => z[i, j] / s end
"""
SMALL = {"b": 2, "t": 20, "d": 64, "v": 77, "n": 40, "e": 72}


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    monkeypatch.setattr(binding, "IN_RESULTS", 1)
    for name, value in (("GAIN", -inf), ("PART", -inf), ("LONGER", 0)):
        monkeypatch.setattr(packed, name, value)
    return emulated(monkeypatch)


def given(name: str, sizes: dict[str, int]) -> tuple[Any, list[Any]]:
    program = compiler.lower(compiler.check_text(SOURCE), name, None)
    chance = np.random.default_rng(0)
    arrays = []
    for value in program.inputs:
        shape = [d.evaluate({s: sizes[s.name] for s in d.variables}) for d in value.shape]
        x = chance.standard_normal(shape) if value.element.is_float else chance.integers(0, 5, shape)
        arrays.append((x / 4 if value.element.is_float else x).astype(value.element.dtype))
    return program, arrays


def served(name: str, **sizes: int) -> tuple[Planned, dict[Any, int]]:
    """The straight program at sizes, as it runs there."""
    program = compiler.lower(compiler.check_text(SOURCE), name, None)
    straight = parts(program).straight
    assert straight is not None
    own = {s: sizes[s.name] for s in {s for v in straight.inputs for d in v.shape for s in d.variables} | {*straight.explicit}}
    return Executable(straight).serving({}, own).planned, own


@pytest.mark.parametrize("name", ["losses", "trained", "choices", "columns", "running", "twice", "scaled"])
@pytest.mark.parametrize("odd", [77, 65, 8])
def test_forms(name: str, odd: int, gpu: EmulatedDriver) -> None:
    program, arrays = given(name, {**SMALL, "v": odd, "d": odd if name == "scaled" else 64})
    sizes = program.contract.bind([], [x.shape for x in arrays])
    assert bool(served(name, **{**SMALL, "v": odd, "d": odd if name == "scaled" else 64})[0].spaced) == (odd % 8 > 0)
    got = outcome(HostCall(Stepped(program), [x.copy() for x in arrays], sizes, None), arrays, None)
    assert not wrong(got, outcome(run, program, arrays), program)


@pytest.mark.parametrize(
    ("name", "sizes", "wanted"),
    [
        ("losses", {"b": 8, "t": 1024, "v": 50257, "d": 768}, 1),
        ("losses", {"b": 8, "t": 1024, "v": 50256, "d": 768}, 0),  # rows of 16 bytes anyhow
        ("losses", {"b": 8, "t": 1024, "v": 7, "d": 768}, 0),  # more would be added than an eighth
        ("losses", {"b": 1, "t": 16, "v": 77, "d": 64}, 0),  # nothing is gained
        ("trained", {"n": 8192, "v": 50257, "d": 768}, 2),
        ("choices", {"n": 8192, "v": 50257, "d": 768}, 1),
        ("columns", {"n": 8192, "v": 50257, "d": 768}, 1),
        ("running", {"n": 8192, "v": 5025, "d": 768}, 1),
        ("twice", {"n": 8192, "v": 50257, "d": 768, "e": 512}, 1),  # its second product reads it by bulk copies
        ("scaled", {"n": 8192, "d": 50257}, 0),  # one long row is better
        ("scaled", {"n": 819200, "d": 3}, 0),
    ],
)
def test_which_rows_are_spaced(name: str, sizes: dict[str, int], wanted: int) -> None:
    """Where they are, every product stores them by bulk copies, and every plain kernel moves neighbours together."""
    planned, own = served(name, **sizes)
    lying = planned.lying(own)
    assert len(planned.spaced) == wanted
    assert not planned.copies
    assert not planned.spaced.keys() & {*planned.program.block.results, *(v.symbol for v in planned.program.inputs)}
    for kernel in planned.kernels:
        if isinstance(kernel, Nest):
            mapping = prepare_nest(kernel, planned.known, lying, own, HOPPER).wanted
            assert mapping.tail == (not planned.spaced.keys().isdisjoint({*reads_of(kernel), *kernel.stored}))
        elif not {value.symbol for value in results_of(kernel)}.isdisjoint(planned.spaced):
            ready = fit(kernel, lying, own)
            assert isinstance(ready, Prepared)
            assert ready.granted.boxed == {result.place.symbol for result in kernel.results}


def test_results_lie_as_results_do() -> None:
    planned, own = served("kept", n=8192, v=50257, d=768, e=512)
    assert planned.spaced
    assert all(planned.lying(own)[symbol].strides in ((50257, 1), (512, 1)) for symbol in planned.program.block.results)


@pytest.mark.parametrize("name", ["losses", "trained", "choices", "columns", "running"])
def test_nothing_takes_longer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the model of plain kernels has it that `explain` shows."""

    def seconds(**sizes: int) -> float:
        planned, own = served(name, **sizes)
        lying = planned.lying(own)
        nests = (kernel for kernel in planned.kernels if isinstance(kernel, Nest))
        return sum(time_of(nest, planned.known, lying, own, HOPPER).seconds for nest in nests)

    for rows in (64, 8192):
        for v in (129, 1001, 32003, 50257):
            sizes = {"b": 8, "t": rows // 8, "n": rows, "v": v, "d": 256}
            found = seconds(**sizes)
            with monkeypatch.context() as without:
                without.setattr(packed, "GAIN", inf)
                assert found <= seconds(**sizes) * 1.001, sizes


@pytest.mark.parametrize("part", range(3))
def test_generated_programs(part: int, gpu: EmulatedDriver) -> None:
    bad = []
    for seed in range(1000 + part, 1000 + PROGRAMS, 3):
        program, inputs = Generator(Random(seed)).program()
        sizes = program.contract.bind([], [x.shape for x in inputs])
        try:
            want = outcome(run, program, inputs)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        got = outcome(HostCall(Stepped(program), [x.copy() for x in inputs], sizes, None), inputs, None)
        bad += [f"seed {seed}: {why}" for why in [wrong(got, want, program)] if why]
    assert not bad, f"{len(bad)} calls differ\n" + "\n".join(bad[:3])
