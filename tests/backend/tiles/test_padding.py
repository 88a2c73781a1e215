"""Copies with padding, each remainder a run of its own: random boxes of random tensors against NumPy."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from axon.backend.cpu.windows import Shown, _by_phases
from axon.base.element import Element
from tests.sample import SOAK

Array = Any
KINDS = (
    (np.float32, Element.F32), (np.float64, Element.F64), (ml_dtypes.bfloat16, Element.F32), (np.int32, Element.F32),
    (np.float32, Element.F64),
)  # fmt: skip


def laid(x: Array, how: str) -> Array:
    """The same values, as they may lie in memory."""
    if how == "turned":
        return np.ascontiguousarray(x.T).T
    if how == "backwards":
        return np.ascontiguousarray(x[..., ::-1])[..., ::-1]
    if how == "apart":
        return np.repeat(x, 3, axis=-1)[..., ::3]
    if how == "unaligned":
        memory = np.zeros(x.nbytes + 1, np.uint8)
        there = memory[1:].view(x.dtype).reshape(x.shape)
        there[...] = x
        return there
    return x


@pytest.mark.parametrize("number", range(200 if SOAK else 25))
def test_copies(number: int) -> None:
    rng = np.random.default_rng(number)
    dtype, held = KINDS[number % len(KINDS)]
    rank, step = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    sizes = [int(rng.integers(1, 9)) for _ in range(rank - 1)] + [int(rng.integers(1, 40))]
    shown = []
    for _ in sizes:
        gap, count = int(rng.integers(1, 3)), int(rng.integers(1, 50))
        shown.append(Shown(int(rng.integers(-6, 9)), gap, min(count, 12) if len(shown) < rank - 1 else count, {}, 0))
    x = rng.integers(1, 100, sizes).astype(dtype)
    order = tuple(rng.permutation(rank)) if number % 2 else tuple(range(rank))
    operand = _by_phases(shown, sizes, step, 7.0, held, order)
    shown = [shown[n] for n in order]
    width = -(-shown[-1].count // step)
    wanted = np.full([*[one.count for one in shown[:-1]], step, width], 7.0, held.dtype)
    for index in product(*[range(one.count) for one in shown]):
        at = [one.low + one.gap * i for one, i in zip(shown, index, strict=True)]
        if all(0 <= a < sizes[n] for a, n in zip(at, order, strict=True)):
            *outer, last = index
            wanted[(*outer, last % step, last // step)] = x.transpose(order)[tuple(at)]
    for how in ("plain", "turned", "backwards", "apart", "unaligned"):
        got = np.asarray(operand.of(laid(x, how)))
        assert got.dtype == held.dtype
        got = got[: prod(wanted.shape)]  # behind it vectors may be read
        used = np.arange(step)[:, None] + step * np.arange(width) < shown[-1].count  # what no window reads may be anything
        got = got.reshape(wanted.shape)
        np.testing.assert_array_equal(got[..., used], wanted[..., used], err_msg=how)
