"""Few long rows in several kernels: what they are, and that they compute what one kernel does."""

from __future__ import annotations

from math import prod
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.runtime import spreading
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.plan.ir import Nest
from axon.backend.plan.spread import SLACK, Cut
from axon.core.verify import CoreInvalid
from axon.interpret import run
from tests.backend.gpu.oracle import different, outcome
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated
from tests.core.random_programs import Generator
from tests.sample import SOAK

PROGRAMS = 2_000 if SOAK else 60
SOURCE = """
import nn
fun layer (p : { scale : f32[c, h, w], shift : f32[c, h, w] }) (x : f32[n, c, h, w]) =
  let val m = for n => (sum c h w => x[n, c, h, w]) / cast f32 (c * h * w)
      val v = for n => (sum c h w => (x[n, c, h, w] - m[n]) ** 2) / cast f32 (c * h * w)
  in for n c h w => (x[n, c, h, w] - m[n]) * rsqrt (v[n] + 1e-5) * p.scale[c, h, w] + p.shift[c, h, w] end
fun soft (x : f32[n, d]) = nn.softmax x
fun rms (x : f16[n, d]) = for i => sqrt (sum j => x[i, j] * x[i, j])
fun both (x : f32[n, c, d]) = (for i => max j k => x[i, j, k], for i => sum j k => x[i, j, k], for i => any j k => x[i, j, k] > 2.0)
fun kept (x : f32[n, d]) =
  let val y = for i j => exp x[i, j]
      val s = for i => sum j => y[i, j]
  in (y, for i j => y[i, j] / s[i]) end
fun some (x : f32[n, d]) = for i => sum for j where j % 3 = i % 3 => x[i, j]
fun wide (x : i32[n, d]) = for i => (sum j => x[i, j], max j => x[i, j])
fun unlike (x : f32[n, c, d]) (z : f32[n, m]) =
  let val a = for n => sum c d => x[n, c, d]
      val b = for n => sum m => z[n, m] * a[n]
  in (a, b) end
fun first (x : f32[n, d]) = for i => argmax j => x[i, j]
"""
SHAPES: dict[str, tuple[tuple[int, ...], ...]] = {
    "soft": ((2, 300),), "rms": ((3, 257),), "both": ((2, 3, 130),), "kept": ((1, 200),), "some": ((2, 190),), "wide": ((2, 150),),
    "first": ((2, 150),),
}  # fmt: skip


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    """Where rows are long that have sixteen elements, and every team goes through rows again."""
    for name, value in (("LONG", 16), ("PART", 4)):
        monkeypatch.setattr(spreading, name, value)
    monkeypatch.setattr(spreading, "_held", lambda *_: False)
    monkeypatch.setattr(spreading, "_worth", lambda *_: True)
    return emulated(monkeypatch)


def kernels(name: str, *shapes: tuple[int, ...]) -> list[tuple[str, int]]:
    """The family of each kernel, and how many rows it has."""
    core = compiler.lower(compiler.check_text(SOURCE), name, None)
    sizes = core.contract.bind((), shapes)
    nests = Executable(core).serving({}, sizes).planned.kernels
    return [(nest.family, prod(axis.extent.evaluate(sizes) for axis in nest.rows)) for nest in nests if isinstance(nest, Nest)]


def test_what_is_spread() -> None:
    image = (64, 256, 256)
    assert [family for family, _ in kernels("layer", image, image, (2, *image))] == ["reduce", "reduce", "reduce", "reduce", "map"]
    assert len(kernels("layer", image, image, (256, *image))) == 5  # there are rows enough, but the cache holds none of one
    image = (64, 24, 24)
    assert len(kernels("layer", image, image, (256, *image))) == 1
    assert len(kernels("soft", (2, 100_000))) == 1  # a cluster holds a row
    for shape in ((2, 4_000_000), (3, 16_000_000), (131, 1_000_000)):
        made = kernels("soft", shape)
        assert len(made) == 5
        assert made[0][1] >= 132
    assert len(kernels("unlike", (2, 60, 4000), (2, 4_000_000))) == 1  # two ways through a row
    assert [family for family, _ in kernels("first", (2, 4_000_000))] == ["reduce", "reduce"]


@pytest.mark.parametrize("seed", range(200))
def test_how_rows_are_cut(seed: int) -> None:
    chance = Random(seed)
    extents = [round(4 ** (6 * chance.random())) for _ in range(chance.choice([1, 2, 3, 4]))]
    wanted = min(chance.choice([2, 10, 100, 500]), prod(extents))
    cut = Cut.of(extents, wanted)
    assert 0 <= cut.whole < len(extents)
    assert 1 <= cut.pieces <= extents[cut.whole]
    assert wanted / (2 * SLACK) < prod(extents[: cut.whole]) * cut.pieces <= wanted


@pytest.mark.parametrize("name", [*SHAPES, "layer"])
def test_what_is_computed(name: str, gpu: EmulatedDriver) -> None:
    chance = np.random.default_rng(0)
    shapes = SHAPES.get(name, ((2, 3, 5, 7),))
    given: list[Any] = [(chance.standard_normal(shape) * 2).astype("f2" if name == "rms" else "f4") for shape in shapes]
    if name == "wide":
        given = [x.astype(np.int32) for x in given]
    if name == "layer":
        given = [{k: chance.standard_normal(shapes[0][1:]).astype("f4") for k in ("scale", "shift")}, *given]
    f = getattr(axon.compile(SOURCE), name)
    before = gpu.ran.get("plain", 0)
    got, want = (f(*given, target=target) for target in ("cuda", "interpret"))
    assert gpu.ran["plain"] - before > 1
    for mine, true in zip(*(x if isinstance(x, tuple) else (x,) for x in (got, want)), strict=True):
        np.testing.assert_allclose(mine, true, rtol=2e-3 if name == "rms" else 2e-6, atol=1e-6)


@pytest.mark.parametrize("part", range(2))
def test_generated_programs(part: int, gpu: EmulatedDriver) -> None:
    bad = []
    for seed in range(part, PROGRAMS, 2):
        program, inputs = Generator(Random(seed)).program()
        sizes = program.contract.bind([], [x.shape for x in inputs])
        try:
            want = outcome(run, program, inputs)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        got = outcome(HostCall(Stepped(program), [x.copy() for x in inputs], sizes, None), inputs, None)
        if different(got, want):
            bad.append((seed, got, want))
    assert not bad
