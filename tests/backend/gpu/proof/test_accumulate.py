"""Sums as tensor cores make them: what is cut off, by sums that are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from axon.backend.gpu.proof.accumulate import cut_off, rounded

DEPTH = 16


def summed(total: float, products: list[float]) -> float:
    """One instruction after the other, of one element: the total and then so many products."""
    ones = np.ones((1, len(products)), np.float32)
    (((made,),)) = cut_off(np.array([[total]], np.float32), np.array([products], np.float32), ones, DEPTH)
    return float(made)


@pytest.mark.parametrize(
    ("total", "products", "wanted"),
    [
        (1.0, [2.0**-23], 1 + 2.0**-23),
        (1.0, [1.5 * 2.0**-23], 1 + 2.0**-23),  # an f32 cut off, where it would be rounded up
        (-1.0, [-1.5 * 2.0**-23], -1 - 2.0**-23),  # towards zero
        (1.0, [2.0**-25] * 4, 1 + 2.0**-23),  # two bits more than f32 has
        (1.0, [2.0**-26] * 16, 1.0),  # each below the last bit, though not all together
        (1.0, [-(2.0**-26)], 1.0),  # of each, not of their sum, which is below 1
        (1.0, [-(2.0**-25)], 1 - 2.0**-24),
        (2.0**-26, [1.0, -1.0], 0.0),  # the total, too, is aligned to the greatest
        (0.0, [1.0, -1.0], 0.0),
        (2.0**-26, [1.0, -1.0] + [0.0] * 14 + [2.0**-26], 2.0**-26),  # the second instruction has another greatest
        (0.0, [2.0**-130], 2.0**-130),
        (float("inf"), [1.0], float("inf")),
        (0.0, [3.0] * 40, 120.0),
    ],
)
def test_what_is_cut_off(total: float, products: list[float], wanted: float) -> None:
    assert summed(total, products) == wanted


def test_what_is_no_number() -> None:
    assert np.isnan(summed(float("inf"), [float("-inf")]))
    assert np.isnan(summed(float("nan"), [1.0]))


def test_matrices() -> None:
    """Of whole numbers nothing is cut off; of others a little, towards zero."""
    chance = np.random.default_rng(0)
    left, right = (chance.integers(-9, 10, (rows, 40)).astype(np.float32) for rows in (5, 7))
    for total in (None, np.ones((5, 7), np.float32)):
        np.testing.assert_array_equal(cut_off(total, left, right, DEPTH), rounded(total, left, right, DEPTH))
    left, right = (chance.random((rows, 256)).astype(np.float32) for rows in (5, 7))
    made, exact = cut_off(None, left, right, DEPTH), left.astype(np.float64) @ right.T
    off = (made - exact) / exact
    assert (off < 0).all()
    assert (off > -256 / DEPTH * 2.0**-22).all()
