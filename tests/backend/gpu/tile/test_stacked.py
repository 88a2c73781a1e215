"""An index of a window stacked with channels: the program computes the same, and of what is no window nothing is stacked."""

from __future__ import annotations

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.tile.contraction import Merging
from axon.backend.gpu.tile.regroup import regrouped
from axon.backend.gpu.tile.stacked import stackable
from axon.core.ir import Compute
from axon.interpret import run

LAYERS = {
    "plain": ("x[n, c, p + i, q + j] * k[o, c, i, j]", 2),
    "padded": ("x[n, c, p + i - 1, q + j - 2 | 0.0] * k[o, c, i, j]", 2),
    "strided": ("x[n, c, 2 * p + i, 3 * q + 2 * j] * k[o, c, i, j]", 2),
    "backwards": ("x[n, c, p - i + 2, q + j] * k[o, c, i, j]", 2),
    "filter first": ("k[o, c, i, j] * x[n, c, p + i, q + j]", 2),
    "scaled": ("x[n, c, p + i, q + j] * k[o, c, i, j] * cast f32 o", 2),
    "padded by ones": ("x[n, c, p + i - 1, q + j | 1.0] * k[o, c, i, j]", 0),
    "padded filter": ("x[n, c, p + i, q + j] * k[o, c, i + 1, j | 0.0]", 0),
    "channels that move": ("x[n, c + i, p, q + j] * k[o, c, i, j]", 0),
    "along both": ("x[n, c, p + i, q + i + j] * k[o, c, i, j]", 0),
}


@pytest.mark.parametrize("name", LAYERS)
def test_the_same_sum(name: str) -> None:
    body, ways = LAYERS[name]
    text = f"""
fun f (x : f32[a, {5 if name == "channels that move" else 3}, 11, 13]) (k : f32[4, 3, 3, 2]) =
  for n < a, o < 4, p < 5, q < 4 => sum for c < 3, i < 3, j < 2 => {body}
"""
    core = compiler.lower(compiler.check_text(text), "f", None)
    op = next(op for op in core.block.ops if isinstance(op, Compute) and op.reduction is not None)
    chance = np.random.default_rng(len(body))
    shapes = [[d.evaluate(dict.fromkeys(d.variables, 2)) for d in v.shape] for v in core.inputs]
    given = [chance.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    (want,) = run(core, given)
    numbers = list(stackable(op))
    assert len(numbers) == ways
    for number in numbers:
        (got,) = run(regrouped(core, {op.outs[0].symbol: Merging(stacked=number)}), given)
        np.testing.assert_array_equal(got, want)
