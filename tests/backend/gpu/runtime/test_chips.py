"""Whole programs on emulated GPUs of other chips: plain kernels alone, without clusters and bulk copies."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.layout.target import CHIPS, CLUSTERS, Target
from axon.backend.gpu.runtime.steps import Stepped
from axon.checker.loader import FileLoader, stdlib_root
from axon.core.verify import CoreInvalid
from axon.interpret import run
from axon.tools.commands.doctest import run_file
from tests.backend.gpu.oracle import corpus, different, outcome
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated
from tests.backend.gpu.runtime.test_emulated import wrong
from tests.sample import ALL

EARLIER = [chip for chip in CHIPS if not chip.has(CLUSTERS)]


def plain(driver: EmulatedDriver, chip: Target) -> None:
    """What ran takes nothing that the chip does not have."""
    assert driver.ran.get("plain")
    assert "roles" not in driver.ran
    for plan, _, _ in driver.plans.values():
        source = plan.stages.source
        assert source.cluster == 1
        assert source.shared <= chip.shared_per_block
        for instruction in ("bring_", "ask_", "cluster_", "remote_", "barrier_"):
            assert instruction not in source.text


@pytest.mark.parametrize("chip", EARLIER if ALL else EARLIER[1:2], ids=lambda chip: chip.name)
def test_examples_of_the_library(chip: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    driver = emulated(monkeypatch, chip=chip)
    done = run_file(FileLoader(), str(stdlib_root() / ("nn.axon" if ALL else "stats.axon")), target="cuda")
    assert not done.failures
    assert done.passed
    plain(driver, chip)


@pytest.mark.parametrize("chip", EARLIER[:2], ids=lambda chip: chip.name)
def test_the_accepted_programs(chip: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    driver, equal, bad = emulated(monkeypatch, chip=chip), 0, []
    for name, (program, (explicit, inputs, sizes)) in corpus(1 if ALL else 40).items():
        try:
            want = outcome(run, program, inputs, explicit)
        except CoreInvalid:
            continue
        stepped = Stepped(program, chip)

        def compute(stepped: Any = stepped, inputs: Any = inputs, sizes: Any = sizes) -> Any:
            from axon.backend.gpu.runtime import arrays

            given = [(f"x{n}", x) for n, x in enumerate(inputs)]
            return arrays.prepare(stepped, given, list(inputs), sizes, None)(list(inputs), None)

        got = outcome(compute)
        equal += not different(got, want)
        if why := wrong(got, want, program):
            bad.append(f"{name}: {why}")
    assert not bad
    assert equal >= 3
    plain(driver, chip)


ROWS = """
import nn
fun sums (x : i32[n, m]) = (for i => sum j => x[i, j], for j => sum i => x[i, j], sum i j => x[i, j])
fun product (a : i64[n, k]) (b : i64[k, m]) = a @ b
fun turned (x : f32[n, m]) = for j i => x[i, j]
fun soft (x : f32[n, m]) = nn.softmax x
fun logits (x : bf16[n, k]) (w : bf16[k, m]) = x @ w
"""


@pytest.mark.parametrize("chip", EARLIER if ALL else EARLIER[:1], ids=lambda chip: chip.name)
def test_rows_that_clusters_would_hold(chip: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    """Long rows, few of them, and products, of which integers are exact. A chip that is named is taken on a later one, too."""
    driver = emulated(monkeypatch, chip=CHIPS[-1])
    m = axon.compile(ROWS, chip=chip.name)
    chance = np.random.default_rng(Random(chip.name).randrange(100))
    x = chance.integers(-1000, 1000, (3, 20_000 if ALL else 4_000)).astype(np.int32)
    for got, want in zip(m.sums(x, target="cuda"), (x.sum(1), x.sum(0), x.sum()), strict=True):
        assert np.array_equal(got, want.astype(np.int32))
    a, b = (chance.integers(-9, 9, shape).astype(np.int64) for shape in ((24, 40), (40, 20)))
    assert np.array_equal(m.product(a, b, target="cuda"), a @ b)
    y = chance.standard_normal((40, 33)).astype(np.float32)
    assert np.array_equal(m.turned(y, target="cuda"), y.T)
    long = chance.standard_normal((2, 40_000) if ALL else (1, 17_000)).astype(np.float32)
    np.testing.assert_allclose(m.soft(long, target="cuda"), m.soft(long, target="interpret"), rtol=1e-5, atol=1e-9)
    narrow = [chance.standard_normal(shape).astype(m.logits(np.zeros((1, 1), "bfloat16"), np.zeros((1, 1), "bfloat16")).dtype)
              for shape in ((16, 32), (32, 16))]  # fmt: skip
    np.testing.assert_allclose(
        m.logits(*narrow, target="cuda").astype(float), narrow[0].astype(float) @ narrow[1].astype(float), rtol=2e-2, atol=2e-2
    )
    plain(driver, chip)
