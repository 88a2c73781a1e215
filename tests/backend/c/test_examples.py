"""The programs of examples/c, built by their Makefile, print what Python computes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon
from tests import ROOT


@pytest.fixture(scope="module")
def printed(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    if any(shutil.which(tool) is None for tool in ("make", "cc", "c++")):
        pytest.skip("there is no make, or no compiler")
    pytest.importorskip("sklearn")
    warnings = "FLAGS=-Wall -Wextra -Werror"
    settings = [f"BUILD={tmp_path_factory.mktemp('examples')}", f"PYTHON={sys.executable}", f"AXON={sys.executable} -m axon"]
    command = ["make", "-s", "-C", str(ROOT / "examples" / "c"), "run", "CXX=c++", f"C{warnings}", f"CXX{warnings}", *settings]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout.splitlines()


class Numbers:
    """The generator of gpt2_block.cpp."""

    def __init__(self) -> None:
        self.state = np.uint64(1)

    def __call__(self, shape: tuple[int, ...], scale: float, middle: float = 0) -> Any:
        count = int(np.prod(shape))
        with np.errstate(over="ignore"):
            powers = np.cumprod(np.full(count, 6364136223846793005, np.uint64))
            sums = np.cumsum(np.concatenate([np.ones(1, np.uint64), powers[:-1]]))
            states = powers * self.state + sums * np.uint64(1442695040888963407)
        self.state = states[-1]
        unit = (states >> np.uint64(40)).astype(np.float32) / np.float32(8388608) - np.float32(1)
        return (np.float32(middle) + np.float32(scale) * unit).reshape(shape)


def test_digits(printed: list[str]) -> None:
    assert printed[0] == "447 of 450 held-out images are classified correctly: 99.33%"
    assert printed[1] == "error[AX0501]: dimension 2 of `images` is 4, and must be 8, in a call of `classify`"


def test_a_block_of_gpt2(printed: list[str]) -> None:
    numbers, d, heads, tokens = Numbers(), 768, 12, 128

    def norm() -> dict[str, Any]:
        return {"scale": numbers((d,), 0.1, 1.0), "shift": numbers((d,), 0.1)}

    def linear(i: int, o: int) -> dict[str, Any]:
        return {"w": numbers((i, o), 0.03), "b": numbers((o,), 0.1)}

    p = {"norm1": norm(), "attention": {"qkv": linear(d, 3 * d), "out": linear(d, d)}, "norm2": norm()}
    p |= {"up": linear(d, 4 * d), "down": linear(4 * d, d)}
    y = axon.load(Path(ROOT, "examples", "gpt2_block.axon")).block[heads](p, numbers((tokens, d), 0.03))
    line = next(line for line in printed if line.startswith("[128, 768] "))
    assert np.allclose([float(number) for number in line.split()[2:]], [y[0, 0], y[1, 0], y[-1, -1]], atol=2e-4)
    assert any(line.startswith("error[AX0501]: the contract `d % heads = 0` does not hold") for line in printed)
