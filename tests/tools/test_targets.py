"""GPU kernels from the command line and from Python, without a GPU: stages, mappings, the simulator, what is missing."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend import needs
from axon.base.element import Element

Cli = Callable[..., Any]

PROGRAM = """\
fun product a b = for i j => sum k => a[i, k] * b[k, j]
fun biased (a : bf16[m, k]) (b : bf16[k, n]) (c : bf16[n]) = for i j => max ((a @ b)[i, j] + c[j]) 0.0
fun heads {h} (x : bf16[m, h * 8]) (w : bf16[h * 8, n]) = x @ w
fun shared (p : { a : f16[m, k], b : f16[k, n] }) = let val y = p.a @ p.b in { y = y, again = y } end
fun wave x = sin x
"""
A, B = "a=randn(bf16[24, 64])", "b=randn(bf16[64, 16])"


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What one test has built, others find."""
    return tmp_path_factory.mktemp("kernels")


@pytest.fixture(autouse=True)
def _program(here: Path, kernels: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (here / "p.axon").write_text(PROGRAM)
    monkeypatch.setenv("AXON_CACHE", str(kernels))


def random(*shape: int, element: Element = Element.BF16, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(element.dtype)


# ── emit and explain ────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("stage", "words"),
    [("tile", "acc += left"), ("roles", "retire all"), ("barriers", "arrive ring.full"), ("kernel", "def kernel(a_map, b_map")],
)
def test_stages(axon_cli: Cli, stage: str, words: str) -> None:
    general = axon_cli("emit", "p.axon:biased", "--stage", stage)
    given = axon_cli("emit", "p.axon:product", "--stage", stage, "a=randn(bf16[4096, 4096])", "b=randn(bf16[4096, 4096])")
    assert (general.status, given.status) == (0, 0)
    assert words in general.out
    assert words in given.out


def test_machine_code(axon_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda import pathfinder

    if pathfinder.find_nvidia_binary_utility("nvdisasm"):
        assert "HGMMA" in axon_cli("emit", "p.axon:product", "--stage", "sass", A, B).out
    monkeypatch.setattr(pathfinder, "find_nvidia_binary_utility", lambda name: None)
    without = axon_cli("emit", "p.axon:product", "--stage", "sass", A, B)
    assert (without.status, "error[AX0604]" in without.out, "cuda-toolkit[nvdisasm]" in without.out) == (1, True, True)


def test_explain(axon_cli: Cli) -> None:
    ran = axon_cli("explain", "p.axon:biased", "a=randn(bf16[8192, 4096])", "b=randn(bf16[4096, 14336])", "c=randn(bf16[14336])")
    lines = ran.out.splitlines()
    assert lines[0] == "contraction over (i, j, k) = 8192 × 14336 × 4096: 962,072,674,304 FLOPs, moves 419,459,072 bytes"
    assert "registers for each thread" in lines[1]
    assert lines[2].lstrip().startswith("chosen")
    assert "µs predicted" in lines[2]
    assert len(lines) > 3
    assert "64 × 16 × 24" in axon_cli("explain", "p.axon:heads", "h=3", "x=randn(bf16[64, 24])", "w=randn(bf16[24, 16])").out
    assumed, first, *_ = axon_cli("explain", "p.axon:biased").out.splitlines()
    assert assumed == "with 4096 for m, k and n, which no argument gives"
    assert first.startswith("contraction over (i, j, k) = 4096 × 4096 × 4096: ")


def test_what_has_no_elements(axon_cli: Cli) -> None:
    given = ["p.axon:product", "a=zeros(bf16[0, 8])", "b=zeros(bf16[8, 8])"]
    assert axon_cli("explain", *given).out == "contraction over (i, j, k) = 0 × 8 × 8: no elements, so nothing is launched\n"
    ran = axon_cli("emit", "--stage", "tile", *given)
    assert (ran.status, "no elements" in ran.out) == (1, True)
    assert ran.out.startswith("error[AX0603]")


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["p.axon:product", A, "b=randn(bf16[63, 16])"], "AX0501", "must be 64"),
        (["p.axon:product", A], "AX0505", "lacks `b`"),
        (["p.axon:heads", "h=2", "x=randn(bf16[64, 24])", "w=randn(bf16[24, 16])"], "AX0501", "must be 16"),
        (["p.axon:nothing"], "AX0507", "declares no `nothing`"),
    ],
)
def test_what_has_no_kernel(axon_cli: Cli, arguments: list[str], code: str, words: str) -> None:
    for command in (["emit", "--stage", "tile"], ["explain"]):
        ran = axon_cli(*command, *arguments)
        assert ran.status == 1
        assert ran.out.startswith(f"error[{code}]")
        assert words in ran.out


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["p.axon:wave", "x=randn(f32[3])"], "map over (i) = 3"),
        (["p.axon:product"], "4096 × 4096"),
        (["p.axon:product", "a=randn(f32[8, 8])", "b=randn(f32[8, 8])"], "8 × 8"),
        (["p.axon:product", "a=randn(bf16[8, 33])", "b=randn(bf16[33, 8])"], "8 × 8"),
        (["p.axon:product", "a=zeros(bf16[8, 0])", "b=zeros(bf16[0, 8])"], "8 × 8"),
    ],
)
def test_what_has_plain_kernels(axon_cli: Cli, arguments: list[str], words: str) -> None:
    """What does not suit the tensor cores: no operands for them, rows of odd lengths, nothing to sum."""
    emitted = axon_cli("emit", "--stage", "tile", *arguments)
    assert emitted.status == 0
    assert emitted.out.startswith("plain: one role, no barriers")
    explained = axon_cli("explain", *arguments)
    assert explained.status == 0
    assert words in explained.out


def test_without_the_tools(axon_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(needs, "_PACKAGES", ("numba-cuda-of-another-world",))
    monkeypatch.setenv("AXON_CACHE", "cache")
    needs.toolchain.cache_clear()
    ran = axon_cli("emit", "p.axon:product", "--stage", "tile", A, B)
    needs.toolchain.cache_clear()
    assert ran.status == 1
    assert "error[AX0604]: the GPU path lacks the Python package `numba-cuda-of-another-world`" in ran.out
    assert "pip install '.[cuda]'" in ran.out


def test_without_a_cache(axon_cli: Cli, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE", str(here / "p.axon" / "inside"))
    assert "error[AX0604]" in axon_cli("emit", "p.axon:product", "--stage", "tile", A, B).out


# ── simulate ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_simulate_prints_what_cpu_prints(axon_cli: Cli) -> None:
    cpu, simulated = (axon_cli("run", "p.axon:product", A, B, "--target", target) for target in ("cpu", "simulate"))
    assert (simulated.status, simulated.out) == (0, cpu.out)
    plain = [axon_cli("run", "p.axon:wave", "x=1.5", "--target", target).out for target in ("cpu", "simulate")]
    assert plain == ["0.997495 : f32\n"] * 2


def test_simulate_from_python() -> None:
    m = axon.load("p.axon")
    a, b, c = random(40, 64), random(64, 24, seed=1), random(24, seed=2)
    want = m.biased(a, b, c).astype(np.float32)
    got = m.biased(a, b, c, target="simulate")
    assert got.dtype == Element.BF16.dtype
    np.testing.assert_allclose(got.astype(np.float32), want, rtol=2**-7, atol=2**-7)
    assert m.heads[2](random(8, 16), random(16, 8), target="simulate").shape == (8, 8)
    assert m.product(random(0, 8), random(8, 16), target="simulate").shape == (0, 16)
    with pytest.raises(axon.ShapeError):
        m.biased(a, b, random(23), target="simulate")


def test_simulated_results_are_fresh() -> None:
    p = {"a": random(8, 8, element=Element.F16), "b": random(8, 8, element=Element.F16)}
    result = axon.load("p.axon").shared(p, target="simulate")
    assert np.array_equal(result["y"], result["again"])
    assert not np.shares_memory(result["y"], result["again"])


# ── cuda ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_cuda_says_what_is_missing(axon_cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver

    def no_library(flags: int) -> Any:
        raise RuntimeError("libcuda cannot be loaded")

    needs.gpu.cache_clear(), needs.driver.cache_clear()
    monkeypatch.setattr(driver, "cuInit", no_library)
    monkeypatch.setenv("AXON_CACHE", "cache")
    ran = axon_cli("run", "p.axon:product", A, B, "--target", "cuda")
    assert (ran.status, "error[AX0604]: the GPU path lacks an NVIDIA driver" in ran.out) == (1, True)
    assert "the program's kernels are built" in ran.out
    assert len(list(Path("cache").glob("*.cubin"))) == 1
    with pytest.raises(axon.AxonError, match="AX0604"):
        axon.load("p.axon").product(random(8, 8), random(8, 8), target="cuda")


@pytest.mark.parametrize(
    ("status", "words"),
    [("CUDA_ERROR_NO_DEVICE", "CUDA_VISIBLE_DEVICES"), ("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH", "restart the machine"), ("", "7.0")],
)
def test_gpus_that_cannot_be_used(status: str, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from cuda.bindings import driver

    needs.gpu.cache_clear(), needs.driver.cache_clear()
    monkeypatch.setattr(driver, "cuInit", lambda flags: (getattr(driver.CUresult, status or "CUDA_SUCCESS"),))
    monkeypatch.setattr(driver, "cuDeviceGet", lambda number: (driver.CUresult.CUDA_SUCCESS, 0))
    capability = {"MAJOR": 7, "MINOR": 0}
    monkeypatch.setattr(driver, "cuDeviceGetAttribute", lambda kind, _: (0, capability[kind.name.rpartition("_")[2]]))
    with pytest.raises(axon.AxonError, match="AX0604") as caught:
        needs.gpu()
    assert words in str(caught.value)
    needs.gpu.cache_clear(), needs.driver.cache_clear()


def test_nothing_of_cuda_is_imported_early() -> None:
    code = "import json, sys; from axon.tools.cli import main; main(['check', 'p.axon']); main(['run', 'p.axon:wave', 'x=1.5'])"
    late = ("numba", "cuda", "llvmlite", "torch", "axon.backend.gpu.runtime.executable")
    report = f"print(json.dumps([m for m in {late} if m in sys.modules]))"
    ran = subprocess.run([sys.executable, "-c", f"{code}\n{report}"], capture_output=True, text=True, check=True, timeout=60)
    assert json.loads(ran.stdout.splitlines()[-1]) == []
