"""Adjoints of what is read at merged indices (`x[i, (h, c)]`) are sums over whole ranges, put into their places after."""

from __future__ import annotations

import numpy as np

import axon
from axon import compiler
from axon.core.ir import Compute
from tests.checked import checked

TEXT = """
fun f (x : f64[s, 3 * (h * d)]) (y : f64[h, s, s]) = vjp (fn x =>
  let val part = for p < 3, k < h, i, c < d => x[i, (p, k, c)]
  in for k i j => sum c => part[0, k, i, c] * part[1, k, j, c] end) x y
"""


def test_no_sum_has_a_condition() -> None:
    program = compiler.lower(checked(TEXT), "f", None)
    sums = [op for op in program.block.ops if isinstance(op, Compute) and op.reduction is not None]
    assert len(sums) == 3
    assert all(op.reduction is not None and op.reduction.where is None for op in sums)


PAIRS = """
fun f (x : f64[s, h * c]) (y : f64[s, g, h / g, c / 2]) where c % 2 = 0, h % g = 0 = vjp (fn x =>
  let val odd = for k < h, i, j < c / 2 => x[i, c * k + 2 * j + 1]
  in for i group, member < h / g, j => odd[(group, member), i, j] end) x y
"""


def test_digits_with_a_stride_are_no_sum() -> None:
    """What stands at every second place of a head, `c * k + 2 * j + 1`, and heads in groups: each index is known."""
    program = compiler.lower(checked(PAIRS), "f", None)
    assert all(op.reduction is None for op in program.block.ops if isinstance(op, Compute))
    x, y = np.zeros((3, 24)), np.arange(36.0).reshape(3, 2, 2, 3)
    wanted = np.zeros((3, 2, 2, 3, 2))
    wanted[..., 1] = y
    _, by = axon.compile(PAIRS).f(x, y, target="interpret")
    np.testing.assert_array_equal(by, wanted.reshape(3, -1))


def test_the_numbers() -> None:
    chance = np.random.default_rng(0)
    s, h, d = 5, 3, 4
    x, y = chance.standard_normal((s, 3 * h * d)), chance.standard_normal((h, s, s))
    q, k, _ = x.reshape(s, 3, h, d).transpose(1, 2, 0, 3)
    value, by = axon.compile(TEXT).f(x, y, target="interpret")
    wanted = np.zeros((3, h, s, d))
    wanted[0] = np.einsum("hij,hjc->hic", y, k)
    wanted[1] = np.einsum("hij,hic->hjc", y, q)
    np.testing.assert_allclose(value, np.einsum("hic,hjc->hij", q, k))
    np.testing.assert_allclose(by, wanted.transpose(2, 0, 1, 3).reshape(s, -1))
