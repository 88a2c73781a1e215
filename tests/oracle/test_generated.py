"""Generated programs mean on every target, at every compilation, what the definitional oracle reads off their syntax."""

from __future__ import annotations

import os

import pytest

from tests.oracle.generate import generate
from tests.oracle.soak import blocks, soak

SOAK = bool(os.environ.get("AXON_SOAK"))
PROGRAMS, COMPILED, EMULATED = (20_000, 20_000, 2_000) if SOAK else (40, 8, 4)
PARTS = 40 if SOAK else 1

pytestmark = pytest.mark.usefixtures("module_cache")


def agree(seeds: range, *targets: str, times: int = 3) -> None:
    result = soak(seeds, targets, times)
    assert not result.found, f"{len(result.found)} programs differ\n" + "\n".join(result.found[:5])
    assert result.counts["several"] * 2 >= result.counts["programs"] or len(seeds) < 40
    assert result.counts["equal"] >= 0.9 * sum(result.counts[name] for name in ("equal", "rejected", "refused"))


@pytest.mark.parametrize("part", range(PARTS))
def test_every_compilation(part: int) -> None:
    agree(range(part * PROGRAMS // PARTS, (part + 1) * PROGRAMS // PARTS), "interpret")


@pytest.mark.parametrize("part", range(PARTS))
def test_compiled(part: int) -> None:
    agree(range(part * COMPILED // PARTS, (part + 1) * COMPILED // PARTS), "cpu", times=1)


@pytest.mark.parametrize("part", range(PARTS))
def test_in_small_blocks(part: int) -> None:
    with blocks():
        agree(range(10**6 + part * EMULATED // PARTS, 10**6 + (part + 1) * EMULATED // PARTS), "interpret", "cpu", times=1)


@pytest.mark.parametrize("part", range(PARTS))
def test_on_an_emulated_gpu(part: int) -> None:
    agree(range(2 * 10**6 + part * EMULATED // PARTS, 2 * 10**6 + (part + 1) * EMULATED // PARTS), "cuda", times=1)


def test_a_seed_is_a_program() -> None:
    assert generate(7).text == generate(7).text
