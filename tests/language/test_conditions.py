"""What stands under a condition on sizes is asked where it holds, and only there: random programs against Python."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

import axon
from tests.language.conditions import Outside, Reading, branch
from tests.sample import SOAK

PROGRAMS, PARTS = (1200, 12) if SOAK else (12, 4)


@pytest.mark.parametrize("part", range(PARTS))
def test_calls_are_refused_where_python_says_so(part: int) -> None:
    """A definition may be refused: what is needed can hold only for sizes of 0 or 1, or by an equation."""
    for seed in range(part, PROGRAMS, PARTS):
        compared(seed, branch(Random(seed)))


@pytest.mark.parametrize("seed", range(700_010, 700_026))
def test_under_alternatives(seed: int) -> None:
    compared(seed, branch(Random(seed), alternatives=True))


def compared(seed: int, meant: Reading) -> None:
    try:
        f = axon.compile(f"fun f {{k, m}} (x : f32[n]) = {meant.text}").f
    except axon.AxonError as error:
        assert "AX0001" not in str(error)
        return
    for n, k, m in product(range(4), repeat=3):
        x = np.arange(1, n + 1, dtype=np.float32)
        try:
            wanted = float(meant.value({"n": n, "k": k, "m": m}, list(x)))
        except Outside:
            wanted = None
        try:
            found = float(f[k, m](x, target="interpret"))
        except axon.AxonError:
            found = None
        assert found == wanted, (seed, meant.text, {"n": n, "k": k, "m": m}, f.signature)
