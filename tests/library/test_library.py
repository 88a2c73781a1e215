"""Every function of the standard library does what an independent implementation does; its signature is a golden."""

from __future__ import annotations

import os
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import axon
from axon.checker.loader import library_modules, stdlib_root
from tests.library import (  # noqa: F401  (cases register themselves)
    dist_cases,
    fft_cases,
    hmm_cases,
    image_cases,
    infer_cases,
    linalg_cases,
    nn_cases,
    optim_cases,
    quant_cases,
    random_cases,
    special_cases,
    stats_cases,
    tensor_cases,
)
from tests.library.library_case import CASES, ELSEWHERE, Case, Drawn, check

EXAMPLES = 500 if os.environ.get("AXON_SOAK") else 10
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
    assert sorted(wanted) == sorted([*(case.name for case in CASES), *ELSEWHERE])
    for name, file in ELSEWHERE.items():
        assert name in Path(__file__).with_name(file).read_text(encoding="utf-8")


def test_signatures() -> None:
    """What a user reads first, and what programs rely on. AXON_UPDATE=1 writes them anew."""
    if os.environ.get("AXON_UPDATE"):
        SIGNATURES.write_text(signatures(), encoding="utf-8")
    assert signatures() == SIGNATURES.read_text(encoding="utf-8")


@pytest.mark.parametrize("element", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("size", [1, 100, 5000])
@pytest.mark.parametrize("scale", [0.01, 1.0, 60.0])
@pytest.mark.parametrize("far", [1.0, 100.0])
def test_normalizations_in_16_bits(element: type, size: int, scale: float, far: float) -> None:
    """Sums of squares would leave the range of f16, and single squares sink below it; the means do neither. A mean that is large
    beside the distances from it has too few digits, and is taken off in two parts."""
    nn = axon.load(stdlib_root() / "nn.axon")
    x = (scale * np.random.default_rng(size).standard_normal((3, size)) + far * scale).astype(element)
    ones, zeros = np.ones(size, element), np.zeros(size, element)
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True)
    by_variance = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
    near = 0.01 if element == np.float16 else 0.06
    channels = np.ascontiguousarray(x[:, None])
    p = {"scale": ones[:1], "shift": zeros[:1]}
    small = (wide / far).astype(element)  # its mean square is in the range of f16
    by_square = small.astype(np.float64) / np.sqrt((small.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
    for got, wanted in [
        (nn.layer_norm({"scale": ones, "shift": zeros}, x, target="interpret"), by_variance),
        (nn.rms_norm(ones, small, target="interpret"), by_square),
        (nn.group_norm[1](p, channels, target="interpret")[:, 0], by_variance),
        (nn.global_average_pool(channels, target="interpret")[:, 0], wide.mean(-1)),
    ]:
        assert got.dtype == element
        np.testing.assert_allclose(got.astype(np.float64), wanted, rtol=near, atol=near)


def test_means_of_nothing() -> None:
    """NaN, as in NumPy and PyTorch; of a sample of one too."""
    nn, stats = (axon.load(stdlib_root() / f"{name}.axon") for name in ("nn", "stats"))
    for target in ("interpret", "cpu"):
        for element in (np.float16, np.float32, np.float64):
            for n in (0, 1):
                x = np.ones((2, n), element)
                assert np.isnan(stats.sample_variance(x, target=target)).all()
                assert np.isnan(stats.covariance(x.T, target=target)).all()
            for found in (stats.mean, stats.variance, stats.standard_deviation):
                assert np.isnan(found(np.ones((2, 0), element), target=target)).all()
            assert np.isnan(nn.cross_entropy(np.ones((0, 3), element), np.zeros(0, np.int32), target=target))
            assert np.isnan(nn.global_average_pool(np.ones((2, 3, 0), element), target=target)).all()
        assert np.isnan(nn.accuracy(np.zeros(0, np.int32), np.zeros(0, np.int32), target=target))


def test_means_keep_their_digits() -> None:
    """Of many pixels far from 0, and of losses whose sum f16 does not hold."""
    nn = axon.load(stdlib_root() / "nn.axon")
    x = (np.random.default_rng(0).standard_normal((2, 3, 64, 64)) + 1000).astype(np.float32)
    losses = np.full((5000, 2), (0, 40), np.float16)
    for target in ("interpret", "cpu"):
        wanted = x.mean((2, 3), dtype=np.float64).astype(np.float32)
        np.testing.assert_array_equal(nn.global_average_pool(x, target=target), wanted)
        assert nn.cross_entropy(losses, np.zeros(5000, np.int32), target=target) == 40


def test_windows_of_nothing_are_refused() -> None:
    nn = axon.load(stdlib_root() / "nn.axon")
    image, signal = np.ones((1, 1, 4, 4), np.float32), np.ones((1, 1, 4), np.float32)
    for name, x in [("max_pool_with", image), ("average_pool_with", image), ("max_pool1d", signal), ("average_pool1d", signal)]:
        for window, padding in [(0, 0), (1, 1), (2, 3)]:
            with pytest.raises(axon.ShapeError, match="contract `padding < window` does not hold"):
                nn[name][window, 1, padding](x)
    for name in ("max_pool", "average_pool"):
        with pytest.raises(axon.ShapeError, match="contract `s >= 1` does not hold"):
            nn[name][0](image)


@pytest.mark.parametrize("q", [-0.01, 1.5])
def test_shares_that_are_none(q: float) -> None:
    """The line that the error shows says what is wrong."""
    stats = axon.load(stdlib_root() / "stats.axon")
    for target in ("interpret", "cpu"):
        with pytest.raises(axon.ShapeError, match="q must be between 0 and 1"):
            stats.quantile(q, [1.0, 2.0, 3.0], target=target)
        with pytest.raises(axon.ShapeError, match="q must be between 0 and 1"):
            stats.quantile(q, [1.0], target=target)
    assert np.isnan(stats.quantile(np.nan, [1.0, 2.0]))


TARGETS = ("interpret", "cpu")
FLOATS = (np.float16, ml_dtypes.bfloat16, np.float32, np.float64)


def module(name: str) -> axon.Module:
    return axon.load(stdlib_root() / f"{name}.axon")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", FLOATS)
def test_covariances_of_large_numbers(element: type, target: str) -> None:
    """Sums of products that f16 does not hold."""
    stats = module("stats")
    x = np.random.default_rng(0).normal(300, 100, (500, 3))
    x[:, 1] += x[:, 0]
    x = x.astype(element).astype(np.float64)
    near = {np.float16: 1e-3, ml_dtypes.bfloat16: 5e-3}.get(element, 1e-6)
    given = x.astype(element)
    np.testing.assert_allclose(stats.covariance(given, target=target).astype(np.float64), np.cov(x.T), rtol=near)
    np.testing.assert_allclose(stats.correlation(given, target=target).astype(np.float64), np.corrcoef(x.T), rtol=near)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("element", "scale"), [(np.float32, 1e-25), (np.float32, 1e30), (np.float64, 1e-200), (np.float64, 1e200)])
def test_correlations_at_any_scale(element: type, scale: float, target: str) -> None:
    x = np.random.default_rng(0).normal(0, 1, (50, 3))
    got = module("stats").correlation((x * scale).astype(element), target=target)
    np.testing.assert_allclose(got, np.corrcoef(x.T), rtol=1e-5 if element == np.float32 else 1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_lengths_beyond_the_element_type(target: str) -> None:
    linalg = module("linalg")
    for element, value in [(np.float32, 3e38), (np.float32, 1e-45), (np.float64, 1.5e308), (np.float64, 5e-324), (np.float16, 6e4)]:
        got = linalg.normalized(np.full(2, value, element), target=target)
        np.testing.assert_allclose(got, np.full(2, 0.5**0.5), rtol=1e-3 if element == np.float16 else 1e-6)
    many = np.full(70_000, 0.5, np.float16)
    np.testing.assert_allclose(linalg.norm(many, target=target), 0.5 * 70_000**0.5, rtol=1e-3)
    np.testing.assert_allclose(linalg.normalized(many, target=target), 70_000**-0.5, rtol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shift", [-(2**31), 1 - 2**31, 2**31 - 1, 2**31 - 3])
def test_any_shift(shift: int, target: str) -> None:
    tensor, nn, x = module("tensor"), module("nn"), np.arange(5)
    np.testing.assert_array_equal(tensor.roll(shift, x, target=target), np.roll(x, shift))
    assert tensor.roll(shift, x[:0], target=target).shape == (0,)
    seen = nn.causal_from(shift, np.ones((3, 3)), target=target) == 1
    np.testing.assert_array_equal(seen, np.full((3, 3), shift > 0))


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("element", FLOATS)
def test_many_numbers_between(element: type, target: str) -> None:
    """More of them than the element type has integers."""
    low, high = np.array(-0.1, element), np.array(3.3, element)
    got = module("tensor").linspace[70_000](low, high, target=target)
    wanted = np.linspace(float(low), float(high), 70_000)
    assert got[0] == low
    assert got[-1] == high
    np.testing.assert_allclose(got.astype(np.float64), wanted.astype(element).astype(np.float64), rtol=1e-6, atol=1e-15)
    counted = module("stats").histogram[70_000](low, high, np.array([low, high], element), target=target)
    assert counted.sum() == 2


def test_windows_without_steps_are_refused() -> None:
    nn = module("nn")
    with pytest.raises(axon.ShapeError, match="contract `dilation >= 1` does not hold"):
        nn.conv1d_with[1, 0, 0, 1](np.ones((1, 1, 3)), np.ones((1, 1, 2)))
    for name, sizes in [("conv2d_with", (1, 0, 0, 1)), ("conv2d_transpose_with", (1, 0, 0, 1, 0))]:
        with pytest.raises(axon.ShapeError, match="contract `dilation >= 1` does not hold"):
            nn[name][sizes](np.ones((1, 1, 3, 3)), np.ones((1, 1, 2, 2)))


def test_images_of_nothing_are_not_resized() -> None:
    image = module("image")
    for name in ("resize_nearest", "resize", "resize_smooth"):
        for shape, fact in [((0, 3), "h >= 1"), ((3, 0), "w >= 1")]:
            with pytest.raises(axon.ShapeError, match=f"contract `{fact}` does not hold"):
                image[name][2, 2](np.ones(shape))


def test_volumes_on_processors() -> None:
    """As many points as the transposed convolution has are a product of too many sizes for one Dim."""
    rng = np.random.default_rng(0)
    x, k = rng.standard_normal((2, 4, 3, 2, 3)), rng.standard_normal((4, 3, 2, 3, 2))
    found = [module("nn").conv3d_transpose_with[2, 1, 2, 2, 1](x, k, target=target) for target in TARGETS]
    np.testing.assert_allclose(*found, rtol=1e-12, atol=1e-12)
