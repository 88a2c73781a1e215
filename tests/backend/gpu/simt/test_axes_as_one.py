"""Plain kernels over several axes as one, rectangles with a short side, and maps in rows, against the interpreter."""

from __future__ import annotations

from math import prod
from random import Random

import numpy as np
import pytest

from axon import compiler
from tests.backend.gpu.simt.plain_cases import choices, compare, expected, plain, side_by_side
from tests.sample import ALL

SOURCE = """
fun turned (x : bf16[a, b, c]) = for a c b => x[a, b, c]
fun to_front (x : f32[a, b, c]) = for c a b => x[a, b, c]
fun reversed (x : u8[a, b, c]) = for c b a => x[a, b, c]
fun total (x : f32[a, b, c, d]) = for a => sum b c d => x[a, b, c, d]
fun centred (x : f32[a, b, c, d]) (g : f32[b]) = for a b c d => (x[a, b, c, d] - (sum b c d => x[a, b, c, d])) * g[b]
fun doubled (x : bf16[a, b, c]) = for b a c => x[a, b, c] + x[a, b, c]
fun scaled (x : bf16[a, b, c]) (y : bf16[c]) = for a b c => x[a, b, c] * y[c]
fun first_best (x : f32[a, b, c]) = for a => max b c => x[a, b, c]
fun grouped (x : f32[a, 3 * b, c, d]) = for n < a, g < 3 => sum for k < b, i < c, j < d => x[n, g * b + k, i, j]
fun between (x : f32[a + 2, b]) = for i < a, j < b => x[i + 1, j] * 2.0
"""
MOST = 1 << 16 if ALL else 1 << 11  # elements
MODULE = compiler.check_text(SOURCE)
NAMES = ("turned", "to_front", "reversed", "total", "centred", "doubled", "scaled", "first_best", "grouped", "between")


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", NAMES)
def test_as_the_interpreter(name: str, seed: int) -> None:
    chance = Random(f"{name} {seed}")
    core = compiler.lower(MODULE, name, None)
    symbols = dict.fromkeys(symbol for v in core.inputs for d in v.shape for symbol in d.variables)
    extents = dict.fromkeys(symbols, MOST)
    while prod(extents.values()) > MOST:
        extents = {symbol: chance.choice([1, 2, 3, 5, 8, 11, 16, 33]) for symbol in symbols}
    shapes = [tuple(dim.evaluate(extents) for dim in value.shape) for value in core.inputs]
    drawn = np.random.default_rng(seed)
    arrays = [drawn.uniform(0, 9, shape).astype(v.element.dtype) for shape, v in zip(shapes, core.inputs, strict=True)]
    given = side_by_side(plain(core), arrays, core.contract.bind((), shapes))
    want = expected(given)
    every = choices(given)
    for mappings in (every[0], *chance.sample(every, min(3 if ALL else 2, len(every)))):
        compare(given, mappings, want)


def test_loops_over_several_axes_are_one() -> None:
    """So a block shares all of a row, not its last axis alone."""
    core = compiler.lower(MODULE, "total", None)
    given = side_by_side(plain(core), [np.zeros((2, 64, 8, 8), np.float32)], core.contract.bind((), [(2, 64, 8, 8)]))
    assert str(choices(given)[0][0]).startswith("128 threads of a block for each row · 4 neighbours at a time")


def test_a_part_of_an_axis_and_those_behind_it_are_one() -> None:
    core = compiler.lower(MODULE, "grouped", None)
    given = side_by_side(plain(core), [np.zeros((2, 192, 8, 8), np.float32)], core.contract.bind((), [(2, 192, 8, 8)]))
    assert str(choices(given)[0][0]).startswith("128 threads of a block for each row · 4 neighbours at a time")
