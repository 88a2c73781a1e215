"""The same source gives the same texts in every process: signatures, errors, core, plans, emitted text, machine code.

Processes differ in how they hash strings and symbols, what is in memory, how often garbage is collected, how many Symbols there
were before, and in the order of files (see `texts.disturb`). `AXON_SOAK=1` compares all of the corpus, with a processor that is
busy beside, else a sample.
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import permutations
from pathlib import Path

import pytest

from axon import compiler
from axon.base import names
from axon.checker.loader import FileLoader
from axon.host.call import Session
from tests import ROOT
from tests.determinism import texts

HERE = Path(__file__).parent
FAMILIES = str(HERE / "families.axon")
SMALL = str(ROOT / "tests/corpus/accepted/affine_accesses.axon")
SOAK = "AXON_SOAK" in os.environ
HOST = "core,plan,cpu"
KERNELS = "core,plan,cpu,tile,roles,barriers,kernel"


def _every(pattern: str, step: int) -> list[str]:
    return sorted(str(path) for path in ROOT.glob(pattern))[:: 1 if SOAK else step]


SOURCES = [
    *_every("tests/corpus/accepted/*.axon", 30),
    *_every("tests/corpus/rejected/*.axon", 90),
    *(_every("stdlib/*.axon", 1) + _every("examples/**/*.axon", 1) if SOAK else []),
]
SETS = {
    "sources": (HOST, SOURCES),
    "families": (KERNELS, [FAMILIES, *(_every("tests/corpus/accepted/*.axon", 1) if SOAK else [])]),
}


def _started(seed: int, stages: str, files: list[str], **more: str) -> subprocess.Popen[str]:
    mixed = random.Random(seed).sample(files, len(files)) if seed else files
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "PYTHONPATH": str(ROOT), **more}
    command = [sys.executable, str(HERE / "texts.py"), str(seed), stages, *mixed]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)


def _made(started: list[subprocess.Popen[str]]) -> list[dict[str, dict[str, str]]]:
    answers = [process.communicate()[0] for process in started]
    assert [process.returncode for process in started] == [0] * len(started)
    return [json.loads(answer) for answer in answers]


def difference(one: str, other: str) -> str:
    """The first lines that differ."""
    a, b = [*one.split("\n"), "(end)"], [*other.split("\n"), "(end)"]
    return next((f"{x!r} / {y!r}" for x, y in zip(a, b, strict=False) if x != y), "")


def differences(first: dict[str, dict[str, str]], other: dict[str, dict[str, str]]) -> dict[str, str]:
    """By file and text, what differs."""
    assert first.keys() == other.keys()
    pairs = ((file, what) for file in first for what in {**first[file], **other[file]})
    both = ((f"{file}: {what}", first[file].get(what, ""), other[file].get(what, "")) for file, what in pairs)
    return {place: difference(one, another) for place, one, another in both if one != another}


def _told(differ: dict[str, str]) -> str:
    return "\n".join(f"{place} {lines}" for place, lines in differ.items())


@contextmanager
def _busy() -> Iterator[None]:
    """Something else takes a processor, in the soak."""
    spinning = [subprocess.Popen([sys.executable, "-c", "while True: pass"])] if SOAK else []
    try:
        yield
    finally:
        for process in spinning:
            process.kill()
            process.wait()


@pytest.mark.parametrize("which", SETS)
def test_every_process_gives_the_same_texts(which: str) -> None:
    stages, files = SETS[which]
    assert files
    with _busy():
        first, *others = _made([_started(seed, stages, files) for seed in range(4 if SOAK else 2)])
    for other in others:
        assert not (found := differences(first, other)), _told(found)


def test_what_depends_on_a_process_is_found() -> None:
    first, other = _made([_started(seed, "core", [SMALL], AXON_PLANTED="1") for seed in (0, 1)])
    assert [place.partition(": ")[2] for place in differences(first, other)] == list(texts.planted())


def test_texts_that_one_process_alone_has_differ() -> None:
    one, other = {"f": {"core": "a\nb"}}, {"f": {"core": "a\nc", "plan": "p"}}
    assert differences(one, other) == {"f: core": "'b' / 'c'", "f: plan": "'' / 'p'"}


def test_every_process_builds_the_same_machine_code(tmp_path: Path) -> None:
    """Compiled anew by each, from LTO-IR to cubins: what differs on the way would show there."""
    pytest.importorskip("numba.cuda")
    which = FAMILIES if SOAK else f"{FAMILIES}:pointwise,rows"
    with _busy():
        _made([_started(seed, "kernel,cubin", [which], AXON_CACHE=str(tmp_path / str(seed))) for seed in (0, 1)])
    first, other = (
        {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in (tmp_path / str(seed)).glob("*.cubin")}
        for seed in (0, 1)
    )
    assert len(first) >= (8 if SOAK else 2)
    assert first == other


BEFORE = ("stream", "running")
HISTORIES = [past for count in range(len(BEFORE) + 1) for past in permutations(BEFORE, count)]


@pytest.mark.parametrize("name", ["product", "rows", "total", "pointwise"] if SOAK else ["product", "total"])
def test_every_history_gives_the_same_texts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """After other functions, of which none, one, or several were compiled in this process and session."""
    from axon.backend.gpu.runtime import algorithms, building, steps

    for module in (building, algorithms, steps):
        monkeypatch.setattr(module, "build_all", module.build_all)  # put back what `without_compiler` changes
    monkeypatch.setattr(building, "known", building.known)
    texts.without_compiler()
    chance, found = random.Random(0), []
    for past in HISTORIES:
        names.begin_at(names.fresh("now").id + chance.randrange(1, 1_000_000))  # further, for caches may hold older ones
        session = Session(compiler.check(FileLoader(), FAMILIES))
        for before in past:
            texts.of_function(session, FAMILIES, before, ["kernel"])
        found.append(texts.of_function(session, FAMILIES, name, KERNELS.split(",")))
    for past, made in zip(HISTORIES, found, strict=True):
        assert not (differ := differences({name: found[0]}, {name: made})), f"after {past}: {_told(differ)}"
