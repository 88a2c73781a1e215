"""The states of a loop keep their shape where only the contract makes that of the next step equal to it."""

from __future__ import annotations

import numpy as np
import pytest

import axon

START = "fun f (x : f32[n, k]) where n >= 6 =\n  let val y = for i < min n 5, j => 2.0 * x[i, j]\n  in "


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    ("loop", "wanted"),
    [
        ("loop (y = y) for _ < 3 => for i j => y[i, j] - 1.0", lambda y: y - 3),
        ("loop (y = y) while y[0, 0] > 0.0 for _ < 9 => for i j => y[i, j] - 1.0", lambda y: y - y[0, 0]),
        ("unfold (y = y) for _ < 3 => for i j => y[i, j] - 1.0", lambda y: np.stack([y - 1, y - 2, y - 3])),
    ],
)
def test_a_state_of_as_many_rows_as_the_contract_says(loop: str, wanted, target: str) -> None:
    x = np.arange(1, 15, dtype=np.float32).reshape(7, 2)
    got = axon.compile(f"{START}{loop} end\n").f(x, target=target)
    np.testing.assert_array_equal(got, wanted(2 * x[:5]))
