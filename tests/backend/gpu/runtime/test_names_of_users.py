"""Tensors, sizes and indices may be called as what a kernel's writer makes up, as the functions it calls, and as Python's words."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests.backend.gpu.runtime.emulated import emulated
from tests.sample import drawn

MADE_UP = [f"{stem}{n}" for stem in ("v", "t", "j_", "i_", "acc", "s") for n in range(8) if n == 0 or drawn(f"{stem}{n}", 3)]
OWN = ["kernel", "thread", "block", "place", "turn", "shared", "bad", "flip", "ptx", "cuda", "range", "row", "member"]
CALLED = ["select", "add", "mul", "both", "as_i64", "as_i32", "fetch_f32", "fetch_f32_4", "store_f32", "lt_int", "f32", "i32"]
PYTHONS = ["class", "lambda", "pass", "del", "None_", "print", "int"]
NAMES = [*MADE_UP, *OWN, *CALLED, "unsigned_divide", "count_4", "select2", "size", "size2", *PYTHONS]
PROGRAM = """
fun mean (NAME : f32[n, m]) = for i => (sum j => NAME[i, j]) / cast f32 m
fun size (x : f32[n, NAME]) = for i => (sum j => x[i, j]) / cast f32 NAME
fun index (x : f32[n, m]) = for j NAME => if NAME < 2 then x[NAME, j] + cast f32 NAME else x[NAME, j] * 2.0
fun both (NAME : f32[n, m]) (x : f32[n, m]) = for i j => if NAME[i, j] > 0.0 then NAME[i, j] - x[i, j] else x[i, j]
fun out (x : f32[n, m]) = let val NAME = for i => sum j => x[i, j] in (NAME, for i j => x[i, j] - NAME[i]) end
"""


@pytest.mark.parametrize("name", NAMES)
def test_names(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    try:
        m = axon.compile(PROGRAM.replace("NAME", name))
    except axon.AxonError:
        pytest.skip("no name in Axon")
    x, y = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    calls: list[tuple[Any, tuple[Any, ...]]] = [(m.mean, (x,)), (m.size, (x,)), (m.index, (x,)), (m.both, (x, y)), (m.out, (x,))]
    for function, given in calls:
        got, want = function(*given, target="cuda"), function(*given, target="interpret")
        for one, other in zip(got if isinstance(got, tuple) else (got,), want if isinstance(want, tuple) else (want,), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_a_table_that_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    f = axon.compile(f"""
val table = [| {", ".join(f"[| {', '.join(str(i * j % 5) for j in range(5))} |]" for i in range(4))} |]
fun f (x : i32) = (table, x)""").f
    table, x = f(3, target="cuda")
    assert table.tolist() == [[i * j % 5 for j in range(5)] for i in range(4)]
    assert x == 3
