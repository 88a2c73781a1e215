"""Every function of the standard library does what an independent implementation does; its signature is a golden."""

from __future__ import annotations

import os
from pathlib import Path

import image_cases  # noqa: F401
import linalg_cases  # noqa: F401
import ml_dtypes
import nn_cases  # noqa: F401
import numpy as np
import pytest
import stats_cases  # noqa: F401
import tensor_cases  # noqa: F401
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from library_case import CASES, Case, Drawn, check

import axon
from axon.loader import library_modules, stdlib_root

EXAMPLES = 500 if os.environ.get("AXON_SOAK") else 15
SIGNATURES = Path(__file__).with_name("signatures.txt")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_function(case: Case) -> None:
    @settings(max_examples=EXAMPLES, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(st.data())
    def compare(data: st.DataObject) -> None:
        check(case, Drawn(data.draw))

    compare()


def signatures() -> str:
    parts = []
    for name in library_modules():
        module = axon.load(stdlib_root() / f"{name}.axon")
        parts.append("\n".join([f"(* {name} *)", *(module[function].signature for function in module)]))
    return "\n\n".join(parts) + "\n"


def test_every_function_has_a_case() -> None:
    wanted = {f"{name}.{function}" for name in library_modules() for function in axon.load(stdlib_root() / f"{name}.axon")}
    assert sorted(wanted) == sorted(case.name for case in CASES)


def test_signatures() -> None:
    """What a user reads first, and what programs rely on. AXON_UPDATE=1 writes them anew."""
    if os.environ.get("AXON_UPDATE"):
        SIGNATURES.write_text(signatures(), encoding="utf-8")
    assert signatures() == SIGNATURES.read_text(encoding="utf-8")


@pytest.mark.parametrize("element", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [1, 100, 5000])
@pytest.mark.parametrize("scale", [0.01, 1.0, 60.0])
def test_normalizations_in_16_bits(element: type, size: int, scale: float) -> None:
    """Sums of squares would leave the range of f16, and single squares sink below it; the means do neither."""
    nn = axon.load(stdlib_root() / "nn.axon")
    x = (scale * np.random.default_rng(size).standard_normal((3, size)) + scale).astype(element)
    ones, zeros = np.ones(size, element), np.zeros(size, element)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    by_variance = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    by_square = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-5)
    near = 0.01 if element == np.float16 else 0.06
    channels = np.ascontiguousarray(x[:, None])
    p = {"scale": ones[:1], "shift": zeros[:1]}
    for got, wanted in [
        (nn.layer_norm({"scale": ones, "shift": zeros}, x, target="interpret"), by_variance),
        (nn.rms_norm(ones, x, target="interpret"), by_square),
        (nn.group_norm[1](p, channels, target="interpret")[:, 0], by_variance),
        (nn.global_average_pool(channels, target="interpret")[:, 0], wide.mean(-1)),
    ]:
        assert got.dtype == element
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=near, atol=near)
