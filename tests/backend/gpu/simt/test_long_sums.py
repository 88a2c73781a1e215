"""Sums of many elements by threads that have a column each keep their digits."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from axon import compiler
from axon.backend.gpu.simt.mapping import Mapping
from axon.backend.plan import split
from tests.backend.gpu.simt.plain_cases import emulated, form, plain, side_by_side

SOURCE = """
fun columns (x : f32[n, d]) = for j => sum i => x[i, j]
fun where_large (x : f32[n, d]) = for j => sum for i < n where x[i, j] > 3.0 => x[i, j] * 2.0
fun narrow (x : bf16[n, d]) = for j => sum i => cast f32 x[i, j]
"""
MODULE = compiler.check_text(SOURCE)


MAPPINGS = {"alone": Mapping("lanes"), "two": Mapping("lanes", 2), "shared": Mapping("lanes", team=4)}


@pytest.mark.parametrize("name", ["columns", "where_large", "narrow"])
@pytest.mark.parametrize("n", [255, 256, 257, 3001])
@pytest.mark.parametrize("by", MAPPINGS)
def test_long_columns(name: str, n: int, by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 3,001 numbers about 3 one accumulator would be wrong by 1e-6 and more. There are as many columns as fill the chip."""
    monkeypatch.setattr(split, "COLUMNS", 1)
    core = compiler.lower(MODULE, name, None)
    (value,) = core.inputs
    x = np.random.default_rng(n).normal(3, 0.1, (n, 2)).astype(np.float32).astype(value.element.dtype)
    given = side_by_side(plain(core), [x], core.contract.bind((), [x.shape]))
    long, short = given.todo
    found = emulated(given, [form(given, long, MAPPINGS[by]), form(given, short, given.ready(short).wanted)], Random(n))
    assert found is not None
    wide = x.astype(np.float64)
    want = {"columns": wide, "narrow": wide, "where_large": np.where(wide > 3, 2 * wide, 0)}[name].sum(0)
    np.testing.assert_allclose(found[0], want, rtol=4.5e-7)
