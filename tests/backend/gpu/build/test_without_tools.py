"""Without the extra `cuda`: what needs no compiler of NVIDIA's works, and what does says which package to install."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests import ROOT

# A process in which the extra's packages are not installed.
WITHOUT = """
import importlib.metadata, sys
from importlib.abc import MetaPathFinder

EXTRA = ("numba-cuda", "cuda-core", "cuda-bindings", "cuda-pathfinder")

class Nothing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba_cuda", "cuda"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

def version(name, real=importlib.metadata.version):
    if name in EXTRA or name.startswith("nvidia-"):
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)

sys.meta_path.insert(0, Nothing())
importlib.metadata.version = version
from axon.tools.cli import main
for arguments in COMMANDS:
    print("status", main(arguments), flush=True)
"""


def ran(folder: Path, *commands: list[str]) -> str:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "AXON_CACHE": str(folder / "cache")}
    text = f"COMMANDS = {list(commands)!r}\n{WITHOUT}"
    done = subprocess.run([sys.executable, "-c", text], cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert not done.returncode, done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.axon").write_text("fun f (x : bf16[n, k]) (w : bf16[k, m]) = x @ w\nfun total (x : f32[n]) = sum i => x[i]\n")
    return tmp_path


def test_what_needs_none(folder: Path) -> None:
    total = ["run", "a.axon:total", "x=[1.0, 2.5]"]
    said = ran(
        folder,
        *([*total, "--target", target] for target in ("cpu", "interpret", "simulate")),
        ["emit", "a.axon:f", "--stage", "cpu"],
        ["view", "a.axon:f"],
    )
    assert said.count("3.5 : f32\nstatus 0\n") == 3
    assert said.count("status 0") == 5


def test_what_does(folder: Path) -> None:
    said = ran(folder, ["run", "a.axon:total", "x=[1.0]", "--target", "cuda"], ["emit", "a.axon:f", "--stage", "ptx"])
    assert said.count("error[AX0604]: the GPU path lacks the Python package `numba-cuda`") == 2, said
    assert said.count("pip install '.[cuda]'") == 2


def test_the_base_has_nothing_of_nvidias() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert not [d for d in project["dependencies"] if "cuda" in d or "nvidia" in d]
