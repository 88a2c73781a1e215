"""The same source gives the same texts in every process: signatures, errors, core, plans, and what is emitted for CPU and GPU.

Two processes differ in how they hash strings, what is in memory, how often garbage is collected, how many Symbols there were
before, and in the order of files. `AXON_SOAK=1` compares all of the corpus, else a sample.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SOAK = "AXON_SOAK" in os.environ
HOST = "core,plan,cpu"
KERNELS = "core,plan,cpu,tile,roles,barriers,kernel"


def _every(pattern: str, step: int) -> list[str]:
    return sorted(str(path) for path in ROOT.glob(pattern))[:: 1 if SOAK else step]


SETS = {
    "accepted": (HOST, _every("tests/corpus/accepted/*.axon", 15)),
    "rejected": ("core", _every("tests/corpus/rejected/*.axon", 30)),
    "libraries": (HOST, [*_every("stdlib/*.axon", 5), *_every("examples/**/*.axon", 12)]),
    "families": (KERNELS, [str(HERE / "families.axon"), *(_every("tests/corpus/accepted/*.axon", 1) if SOAK else [])]),
}


def _started(seed: int, stages: str, files: list[str]) -> subprocess.Popen[str]:
    mixed = random.Random(seed).sample(files, len(files)) if seed else files
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(HERE / "texts.py"), str(seed), stages, *mixed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def difference(one: str, other: str) -> str:
    """The first lines that differ."""
    a, b = [*one.split("\n"), "(end)"], [*other.split("\n"), "(end)"]
    return next((f"{x!r} / {y!r}" for x, y in zip(a, b, strict=False) if x != y), "")


@pytest.mark.parametrize("which", SETS)
def test_every_process_gives_the_same_texts(which: str) -> None:
    stages, files = SETS[which]
    assert files
    started = [_started(seed, stages, files) for seed in range(4 if SOAK else 2)]
    first, *others = (json.loads(process.communicate()[0]) for process in started)
    assert all(process.returncode == 0 for process in started)
    differ = [
        f"{file} {what}: {difference(text, other[file].get(what, ''))}"
        for other in others
        for file, texts in first.items()
        for what, text in texts.items()
        if other[file].get(what) != text
    ]
    assert not differ, "\n".join(differ)
