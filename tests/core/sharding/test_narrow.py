"""Sums of 16-bit floats over a split index: each device's part is rounded to what the sum is of, and goes over the link as that."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from axon.core.ir import Program
from axon.core.sharding import Sharded, collectives, shard
from axon.core.sharding.interpret import run
from axon.core.sharding.report import costs, report
from tests.core.sharding.test_models import BACK, MODELS
from tests.core.sharding.whole import SLOW, arguments, bound, compare, mesh, nvlink, of

TEXT = """
fun product (x : bf16[b, k]) (w : bf16[k, d]) = x @ w
fun half (x : f16[b, k]) (w : f16[k, d]) = x @ w
fun both (x : bf16[b, k]) (w : bf16[k, d]) (v : bf16[k, d]) = for i j => (x @ w)[i, j] + (x @ v)[i, j]
fun eighth (x : f8e5m2[b, k]) = for i => sum j => x[i, j]
fun times (x : bf16[b, k]) = for i => prod j => x[i, j]
fun wide (x : bf16[b, k]) (w : bf16[k, d]) = for i j => cast bf16 (sum c => cast f32 x[i, c] * cast f32 w[c, j])
"""
SIZES = {"b": 4, "k": 12, "d": 8}


def made(name: str, wide: bool = False, devices: int = 4, scale: int = 1) -> tuple[Program, Sharded]:
    program = of(TEXT, name)
    dims = {s: n * scale for s, n in bound(program, **SIZES).items()}
    return program, shard(program, mesh(m=devices), {"k": "m"}, dims, SLOW, wide=wide)


@pytest.mark.parametrize(("name", "element"), [("product", "bf16"), ("half", "f16"), ("both", "bf16"), ("eighth", "f32"),
                                               ("times", "f32"), ("wide", "f32")])  # fmt: skip
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_whole_numbers_are_exact(name: str, element: str, devices: int) -> None:
    for wide in (False, True):
        program, found = made(name, wide, devices)
        sums = [c for c in collectives(found.steps) if c.monoid in ("sum", "prod")]
        assert {c.result.element.value for c in sums} == {"f32" if wide else element}
        dims = bound(program, **SIZES)
        compare(found, arguments(program, dims), dims)


def test_what_is_linear_in_sums_is_combined_once() -> None:
    """As of wide floats: a layer's derivative by what enters it is one sum of several."""
    _, found = made("both", scale=256)
    assert len(list(collectives(found.steps))) == 1


@pytest.mark.parametrize("devices", [2, 3, 4])
def test_within_the_bound_of_what_is_rounded(devices: int) -> None:
    """A rounding for each device, and one of the sum; of wide sums that one alone."""
    normal = np.random.default_rng(devices)
    program, narrow = made("product", devices=devices)
    x, w = (normal.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((4, 12), (12, 8)))
    exact = x.astype(np.float64) @ w.astype(np.float64)
    parts = np.split(x.astype(np.float64), devices, 1), np.split(w.astype(np.float64), devices, 0)
    rounded = sum(np.abs(a @ b) for a, b in zip(*parts, strict=True))
    unit = 2.0**-8
    (found,) = run(narrow, [x, w])
    assert (np.abs(found.astype(np.float64) - exact) <= unit * (rounded + np.abs(exact)) * (1 + unit) + 1e-6).all()
    (found,) = run(made("product", True, devices)[1], [x, w])
    assert (np.abs(found.astype(np.float64) - exact) <= unit * np.abs(exact) + 1e-5).all()
    assert program.inputs[0].element.value == "bf16"


def test_explain_says_it() -> None:
    dims = bound(of(TEXT, "product"), **SIZES)
    for wide, told in ((False, "each device's part is rounded to bf16"), (True, "each device's part is sent as f32")):
        program = of(TEXT, "product")
        dims = bound(program, **SIZES)
        assert told in report(shard(program, mesh(m=4), {"k": "m"}, dims, SLOW, wide=wide), dims, SLOW)


def narrow(text: str) -> str:
    gated = "{ gate : f32[..l, d, f], up : f32[..l, d, f], down : f32[..l, f, d] }"
    return text.replace("nn.gated[..l, d, f]", gated).replace("f32", "bf16")


def test_a_block_of_a_transformer_in_bf16_sends_the_bytes_of_megatron() -> None:
    """Two bytes for each activation, in as many all-reduces as of f32."""
    text = narrow((MODELS / "llama3.axon").read_text(encoding="utf-8") + BACK)
    half = 2 * 3 * 2 * 8 * 4096 * 4096 // 4
    for name, count in (("block", 2), ("back", 3)):  # backward with the one of attention, computed again
        program = of(text, name)
        dims = bound(program, b=8, i=4096, d=4096, h=32, g=8, c=128, f=14336)
        found = shard(program, mesh(model=4), dict.fromkeys(("h", "g", "f"), "model"), dims, nvlink())
        assert [(cost.step.kind, cost.bytes) for cost in costs(found, dims, nvlink())] == [("all_reduce", half)] * count
