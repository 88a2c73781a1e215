"""Hostile source texts through `axon check`: accepted and right, or one clear diagnostic, quickly and in little memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.hostile import ATTACKS, SEVERAL
from tests.attacks.process import Axon


@pytest.mark.parametrize("attack", ATTACKS)
def test_check(attack: str, axon: Axon, tmp_path: Path) -> None:
    text, codes = ATTACKS[attack]
    (tmp_path / "a.axon").write_bytes(text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass"))
    outcome = axon("check", "a.axon")
    assert set(outcome.errors) == set(codes)
    assert len(outcome.errors) == len(codes) or attack in SEVERAL
    assert len(outcome.out) < 500_000
