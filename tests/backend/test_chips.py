"""Which chip kernels are made for: that of a GPU, as its driver describes it, or one that is named."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend import chips, needs
from axon.backend.gpu.layout.target import BF16, CHIPS, HOPPER, WGMMA

H200 = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132, "CLOCK_RATE": 1_980_000,
    "L2_CACHE_SIZE": 62_914_560, "MEMORY_CLOCK_RATE": 3_201_000, "GLOBAL_MEMORY_BUS_WIDTH": 6144,
}  # fmt: skip
H100 = H200 | {
    "MULTIPROCESSOR_COUNT": 114, "CLOCK_RATE": 1_755_000, "MEMORY_CLOCK_RATE": 1_593_000, "GLOBAL_MEMORY_BUS_WIDTH": 5120,
    "L2_CACHE_SIZE": 52_428_800,
}  # fmt: skip
ORIN = {"COMPUTE_CAPABILITY_MAJOR": 8, "COMPUTE_CAPABILITY_MINOR": 7, "MULTIPROCESSOR_COUNT": 16, "CLOCK_RATE": 1_300_000}
V100 = {"COMPUTE_CAPABILITY_MAJOR": 7, "COMPUTE_CAPABILITY_MINOR": 0}
A100 = {"COMPUTE_CAPABILITY_MAJOR": 8, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 108, "CLOCK_RATE": 1_410_000}


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Says which GPUs this machine has, each by what its driver says."""
    from cuda.bindings import driver

    def with_gpus(*gpus: dict[str, int]) -> None:
        no_device = driver.CUresult.CUDA_ERROR_NO_DEVICE
        fine = driver.CUresult.CUDA_SUCCESS
        monkeypatch.setattr(driver, "cuInit", lambda flags: (fine if gpus else no_device,))
        monkeypatch.setattr(driver, "cuDeviceGet", lambda number: (fine, number))

        def attribute(kind: Any, handle: int) -> tuple[Any, int]:
            known = gpus[handle].get(kind.name.removeprefix("CU_DEVICE_ATTRIBUTE_"))
            return (driver.CUresult.CUDA_ERROR_INVALID_VALUE, 0) if known is None else (fine, known)

        monkeypatch.setattr(driver, "cuDeviceGetAttribute", attribute)
        needs.gpu.cache_clear(), needs.driver.cache_clear()
        chips.of_device.cache_clear()

    yield with_gpus
    needs.gpu.cache_clear(), needs.driver.cache_clear()
    chips.of_device.cache_clear()


def test_the_chip_of_a_gpu(machine: Any) -> None:
    machine(H200, H100, A100)
    assert chips.made_for() == HOPPER
    assert chips.made_for(device=0) == HOPPER  # what the driver says differs by little from the row
    smaller = chips.made_for(device=1)
    assert (smaller.multiprocessors, smaller.l2, smaller.compute_capability) == (114, 52_428_800, (9, 0, "a"))
    assert smaller.dram == pytest.approx(2.04e12, rel=0.01)
    assert smaller.f32 == pytest.approx(51.2e12, rel=0.02)  # as NVIDIA states it of the H100 PCIe
    assert chips.made_for(device=2) == CHIPS[1]  # what a driver does not say is the row's


def test_a_chip_that_nothing_is_known_of(machine: Any) -> None:
    """It gets the instructions of the nearest before it, and one warning."""
    machine(ORIN)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = chips.made_for()
        assert chips.made_for(device=0) == found
    (text,) = (str(one.message) for one in said)
    assert text == "Axon knows nothing of sm_87, and makes kernels for GPU 0 as for sm_86"
    assert (found.name, found.linked, found.multiprocessors) == ("sm_86", (8, 7, ""), 16)
    assert found.has(BF16)
    assert not found.has(WGMMA)


def test_a_gpu_that_is_too_old(machine: Any) -> None:
    machine(V100)
    assert chips.made_for() is HOPPER
    with pytest.raises(needs.Missing, match=r"compute capability 7\.5 or later\n.*GPU 0 has 7\.0"):
        needs.gpu(0)


def test_a_chip_by_name(machine: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    machine()
    assert chips.made_for("sm_80") is CHIPS[1]
    machine(A100)
    assert (chips.made_for("sm_75", 0).name, chips.made_for("sm_75", 0).linked) == ("sm_75", (8, 0, ""))
    assert chips.made_for("sm_80", 0) == CHIPS[1]
    assert chips.made_for("sm_90") is HOPPER  # to be looked at, or built
    with pytest.raises(needs.Missing, match=r"lacks a GPU that runs kernels for sm_90\n.*GPU 0 is of sm_80"):
        chips.made_for("sm_90", 0)
    with pytest.raises(axon.AxonError, match="there is no chip `sm_81`"):
        chips.made_for("sm_81")
    monkeypatch.setenv("AXON_CHIP", "sm_75")
    assert chips.made_for().name == "sm_75"
    assert chips.made_for("sm_80").name == "sm_80"


def test_modules_for_a_chip(tmp_path: Path) -> None:
    """A module carries its chip to its functions, their derivatives, and where it is unpickled."""
    text = "fun f (x : f32[n]) = sum i => x[i] * x[i]"
    (tmp_path / "m.axon").write_text(text, encoding="utf-8")
    for m in (axon.compile(text, chip="sm_80"), axon.load(tmp_path / "m.axon", chip="sm_80")):
        again = pickle.loads(pickle.dumps(m))
        function = pickle.loads(pickle.dumps(m.f))
        chips_ = [one._session.chip for one in (m.f, m.f.grad(), again.f, function)]
        assert chips_ == ["sm_80"] * 4
        assert function(np.arange(4, dtype=np.float32)) == 14.0
    assert axon.compile(text).f._session.chip is None
    for make in (lambda: axon.compile(text, chip="sm_1"), lambda: axon.load(tmp_path / "m.axon", chip="sm_1")):
        with pytest.raises(axon.AxonError, match="AX0601"):
            make()
    with pytest.raises(TypeError, match="a chip's name, a str, not int"):
        axon.compile(text, chip=80)  # type: ignore[arg-type]


def test_kernels_are_made_for_the_chip(own_cache: None, machine: Any) -> None:
    """Without a GPU: by `warmup`, and by a call that then finds none. What is kept of one chip is not another's."""
    machine()
    text = "fun f (x : f32[n, m]) = for i => max j => x[i, j]"
    made = []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for chip in ("sm_75", "sm_89", None):
            m = axon.compile(text, chip=chip)
            m.f.warmup("f32[64, 64]")
            with pytest.raises(axon.AxonError, match="AX0604"):
                m.f(np.zeros((64, 64), np.float32), target="cuda")
            made += [o.target.name for by_chip in m.f._session._executables.values() for o in by_chip.values()]
    assert made == ["sm_75", "sm_89", "sm_90"]
