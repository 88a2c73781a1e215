"""`axon doctor`: what machines have, lack, and what that costs."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from axon.backend import chips, needs
from axon.backend.gpu.layout.target import CHIPS, HOPPER, Target
from axon.base.data import replace
from axon.tools.commands import doctor

Cli = Callable[..., Any]


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch, own_cache: None) -> Callable[..., None]:
    """Has these GPUs; none is one without a driver."""

    def with_gpus(*found: tuple[str, Target | needs.Missing]) -> None:
        def gpu(device: int = 0) -> tuple[int, int]:
            if not found:
                raise needs.Missing(
                    "an NVIDIA driver with a GPU", "`cpu` and `simulate` run everywhere", "libcuda is not installed"
                )
            chip = found[device][1]
            if isinstance(chip, needs.Missing):
                raise chip
            return chip.linked[:2]

        def gpus() -> tuple[str, tuple[chips.Gpu, ...]]:
            if not found:
                gpu()
            return "13.0", tuple(chips.Gpu(name, 80 << 30, chip) for name, chip in found)

        monkeypatch.setattr(needs, "gpu", gpu)
        monkeypatch.setattr(chips, "gpus", gpus)
        monkeypatch.setattr(chips, "of_device", lambda device: found[device][1])

    return with_gpus


def examined(cli: Cli, *arguments: str) -> tuple[str, dict[str, Any]]:
    text, data = cli("doctor", *arguments), cli("doctor", "--format", "json", *arguments)
    assert (text.status, data.status) == (0, 0)
    return text.out, json.loads(data.out)


def lacking(found: dict[str, Any]) -> set[str]:
    return {fact["name"] for fact in found["facts"] if fact["costs"]}


def test_without_a_gpu(axon_cli: Cli, machine: Callable[..., None]) -> None:
    machine()
    text, found = examined(axon_cli)
    assert "  lacks GPU  none: an NVIDIA driver with a GPU (libcuda is not installed)\n" in text
    assert 'programs run on the processor, and `target="cuda"` is an error (AX0604)' in text
    assert "Kernels are made for sm_90 (Hopper; no GPU is here, but they can be looked at and built)" in text
    assert "GPU" in lacking(found)
    assert (found["device"], found["chip"]["name"]) == (None, "sm_90")
    assert text.rstrip().splitlines()[-1].endswith(" lacking")


def test_a_hopper_gpu(axon_cli: Cli, machine: Callable[..., None]) -> None:
    machine(("NVIDIA H200", HOPPER), ("Quadro P400", needs.Missing("a GPU of compute capability 7.5 or later", "", "it has 6.1")))
    text, found = examined(axon_cli)
    assert (
        "  ok    driver  of CUDA 13.0\n  ok    GPU 0   NVIDIA H200, 80 GiB, 132 multiprocessors, compute capability 9.0\n" in text
    )
    assert "no kernels run on it: a GPU of compute capability 7.5 or later (it has 6.1)" in text
    assert "Kernels are made for sm_90 (Hopper; GPU 0)" in text
    assert all(one["taken"] for one in found["kernels"])
    assert "GPU 1" in lacking(found)
    assert "GPU 0" not in lacking(found)


def test_another_chip(axon_cli: Cli, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """What it does not take is said with what is done instead; one that nothing is known of lacks figures."""
    ada, orin = replace(CHIPS[3], multiprocessors=58), CHIPS[2].on((8, 7, ""))
    machine(("NVIDIA L4", ada), ("Orin", orin))
    text, found = examined(axon_cli)
    assert found["chip"]["name"] == "sm_89"
    taken = {one["family"]: one["taken"] for one in found["kernels"]}
    assert taken == {kernels.family: kernels.taken for kernels in doctor.kernels_of(ada)}
    assert list(taken.values()) == [True, True, True, False, False, False, False, False]
    assert "  yes  products and convolutions of bf16 and f16 on the tensor cores\n" in text
    assert "  no   products of f64 on the tensor cores\n       instead: register tiles, at most 1.3 TFLOP/s\n" in text
    assert "Axon has no figures of this chip: kernels are made as for sm_86 (RTX 3090)" in text
    monkeypatch.setenv("AXON_CHIP", "sm_75")
    assert examined(axon_cli)[1]["chip"]["name"] == "sm_75"
    monkeypatch.setenv("AXON_CHIP", "sm_1")
    text, found = examined(axon_cli)
    assert "AXON_CHIP" in lacking(found)
    assert "there is no chip `sm_1`" in text


def test_what_else_there_is_not(
    axon_cli: Cli, machine: Callable[..., None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Each thing that is taken away is lacking then, with what it costs, and nothing else is."""
    machine(("NVIDIA H200", HOPPER))
    before = lacking(examined(axon_cli)[1])
    kept = doctor._version
    (tmp_path / "file").write_text("")

    def no_tools() -> None:
        raise needs.Missing("NVIDIA's library `nvvm`", "pip install '.[cuda]'")

    changes: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
        "llvmlite": lambda here: here.setattr(doctor, "_version", lambda package: "" if package == "llvmlite" else kept(package)),
        "pygls": lambda here: here.setattr(doctor, "_version", lambda package: "" if package == "pygls" else kept(package)),
        "C compiler": lambda here: here.setenv("CC", "no-such-compiler"),
        "tools": lambda here: here.setattr(needs, "toolchain", no_tools),
        "nvdisasm": lambda here: here.setattr(needs, "disassembler", lambda: None),
        "cache": lambda here: here.setenv("AXON_CACHE", str(tmp_path / "file" / "inside")),
        "threads": lambda here: here.setenv("AXON_THREADS", "many"),
    }
    for name, change in changes.items():
        with monkeypatch.context() as here:
            change(here)
            text, found = examined(axon_cli)
        (fact,) = (fact for fact in found["facts"] if fact["name"] == name)
        assert fact["costs"], name
        assert fact["costs"] in text
        assert lacking(found) == before | {name}
