"""What the command line shows of a kernel, without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from axon import compiler
from axon.backend.show import explain, show
from axon.backend.unsupported import Unsupported
from axon.core import Program


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AXON_CACHE", str(tmp_path))


def program(text: str) -> Program:
    return compiler.lower(compiler.check_text(text), "f", None)


PRODUCT = "fun f (a : bf16[m, k]) (b : bf16[k, n]) = a @ b"


@pytest.mark.parametrize(
    ("stage", "words"),
    [
        ("tile", "acc += left · right over k"),
        ("roles", "retire all but 1"),
        ("barriers", "arrive ring.full, expect 49152 bytes"),
        ("kernel", "def kernel(a_map, b_map"),
        ("ptx", ".visible .entry kernel(\n\t.param .align 64 .b8 a_map[128],"),
        ("ptx", "wgmma.mma_async.sync.aligned"),
    ],
)
def test_stages_of_a_source_program(stage: str, words: str) -> None:
    assert words in show(program(PRODUCT), stage)


def test_explain_names_the_choice_and_what_it_was_preferred_to() -> None:
    core = program(PRODUCT)
    m, k = (d.symbol for d in core.inputs[0].shape)
    assert m is not None
    assert k is not None
    lines = explain(core, {m: 16, k: 14336}).splitlines()
    assert lines[0] == "contraction over (i, j, k) = 16 × 4096 × 14336"
    assert "registers" in lines[1]
    assert "bytes of shared memory" in lines[1]
    assert lines[2].startswith("  chosen")
    assert "tile 64×64×128" in lines[2]
    assert len(lines) > 5


def test_what_has_no_kernel_says_so() -> None:
    with pytest.raises(Unsupported, match="follows no contraction"):
        show(program("fun f (x : f32[n]) = exp x"), "tile")
    with pytest.raises(Unsupported, match="only unconditional sums"):
        show(program("fun f (x : f32[n, m]) = for i => max j => x[i, j]"), "tile")
