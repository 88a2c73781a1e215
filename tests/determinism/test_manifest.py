"""The committed digests are of what the compiler makes now. `AXON_SOAK=1` compares all of them, else a sample."""

from __future__ import annotations

import os

import pytest

from tests.determinism import manifest

SOAK = "AXON_SOAK" in os.environ


@pytest.mark.parametrize("stages", manifest.SETS if SOAK else [manifest.HOST, manifest.KERNELS])
def test_texts_are_those_of_the_table(stages: str) -> None:
    """A change that is meant to change texts writes the table anew: python -m tests.determinism.manifest --write."""
    paths = manifest.files(stages)[:: 1 if SOAK else 60]
    wrong = manifest.differing(manifest.digests(manifest.made(stages, paths)), stages.split(","))
    assert not wrong, "\n".join(wrong)


def test_machine_code_is_compared_without_names() -> None:
    text = "\t.dword\tkernel_a\n        /*0010*/                   IADD3 R1, R2, RZ, RZ ;    /* 0x000fe */\n.L_x_1:\n"
    assert manifest.machine(text) == "IADD3 R1, R2, RZ, RZ ;"
