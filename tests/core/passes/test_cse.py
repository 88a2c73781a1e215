"""Common subexpressions: what is equal is computed once, results keep their names, and the meaning stays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.core.ir import Loop, Program
from axon.core.passes.cse import deduplicated
from axon.core.verify import verify
from axon.interpret import run
from axon.lower import TensorType

PROGRAMS = [  # with the operations before and after
    ("fun f (x : f32[n, n]) = (x @ x, x @ x)", 2, 2),  # two results stay two
    ("fun f (x : f32[n, n]) = (for i j => (x @ x)[i, j] + 1.0, x @ x)", 3, 2),
    ("fun f (x : f32[n, n]) = (x @ x, for i j => (x @ x)[i, j] + 1.0)", 3, 2),
    ("fun f (x : f32[n, n]) = (for i j => (x @ x)[i, j] + 1.0, x @ x, for i j => (x @ x)[i, j] * 2.0, x @ x)", 6, 4),
    ("fun f (x : f32[n, n]) = let val y = x @ x val z = x @ x in (y @ z, z @ y) end", 4, 3),
    ("fun f (x : f32[n, n]) = let val y = x @ x val z = x @ x in (sum for i, j where z[i, j] > y[i, i] => y[i, j], z) end", 3, 2),
]


@pytest.mark.parametrize(("text", "before", "after"), PROGRAMS)
def test_programs(text: str, before: int, after: int) -> None:
    program: Program = compiler.lower(compiler.check_text(text), "f", (TensorType(Element.F32, 2),))
    merged = deduplicated(program)
    verify(merged)
    assert (len(program.block.ops), len(merged.block.ops)) == (before, after)
    assert merged.block.results == program.block.results
    x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    for got, want in zip(run(merged, [x], []), run(program, [x], []), strict=True):
        assert np.array_equal(got, want)
    again: Any = deduplicated(merged)
    assert again.block == merged.block


LOOPS = [  # with the operations of the loop's body before and after
    ("fun f (x : f32[n, n]) = loop (s = x) for t < 3 => for i j => (s @ x)[i, j] + (s @ x)[j, i]", 4, 3),
    ("fun f (x : f32[n, n]) = let val y = x @ x in loop (s = y) for t < 3 => for i j => s[i, j] + (x @ x)[j, i] end", 3, 2),
    ("fun f (x : f32[n, n]) = let val y = x @ x in (y, loop (s = x) for t < 3 => x @ x) end", 2, 1),  # a state is its own
    ("fun f (x : f32[n, n]) = let val y = x @ x val z = x @ x in loop (s = y) for t < 3 => s @ z end", 2, 2),
]


@pytest.mark.parametrize(("text", "before", "after"), LOOPS)
def test_loops(text: str, before: int, after: int) -> None:
    program: Program = compiler.lower(compiler.check_text(text), "f", (TensorType(Element.F32, 2),))
    merged = deduplicated(program)
    verify(merged)
    assert (inside(program), inside(merged)) == (before, after)
    x = np.random.default_rng(0).standard_normal((5, 5)).astype(np.float32)
    for got, want in zip(run(merged, [x], []), run(program, [x], []), strict=True):
        assert np.array_equal(got, want)
    assert inside(deduplicated(merged)) == after


def inside(program: Program) -> int:
    (loop,) = (op for op in program.block.ops if isinstance(op, Loop))
    return len(loop.body.ops)


def test_sorts_of_one_tensor_are_one() -> None:
    program = compiler.lower(axon.compile("fun f (x : f32[n]) = (sort x, argsort x, sort x)")._session.checked, "f", None)
    made = deduplicated(program)
    assert [type(op).__name__ for op in made.block.ops].count("Sort") == 2  # two results are never one tensor
    x = np.array([3.0, 1.0, 2.0], np.float32)
    for found, wanted in zip(run(made, [x]), run(program, [x]), strict=True):
        np.testing.assert_array_equal(found, wanted)


SEVERAL = """
fun steps (x : f64[n]) (k : i32[n]) =
  loop (y = x, p = k) for t < 3 => (for i => y[p[i]] * y[n - 1 - i] + cast f64 t, for i => p[p[i]])
fun f (x : f64[n]) (k : i32[n]) (d : f64[n]) = (jvp (fn x => (steps x k).1) x d, {other})
"""


@pytest.mark.parametrize(("other", "loops"), [("(steps x k).1", 1), ("(steps x k).2", 1), ("(steps d k).1", 2)])
def test_a_loop_is_a_part_of_another(other: str, loops: int) -> None:
    """A derivative's loop has the states of its function's."""
    text = SEVERAL.format(other=f"let val y = {other} in for i => y[i] + y[i] end")
    program: Program = compiler.lower(compiler.check_text(text), "f", None)
    merged = deduplicated(program)
    verify(merged)
    assert sum(isinstance(op, Loop) for op in merged.block.ops) == loops
    x, d = np.random.default_rng(0).standard_normal((2, 5))
    for k in (np.array([3, 1, 0, 2, 4], np.int32), np.array([3, 5, 0, 2, 4], np.int32)):
        try:
            wanted = run(program, [x, k, d], [])
        except AxonError as error:
            with pytest.raises(AxonError, match=error.diagnostics[0].code):
                run(merged, [x, k, d], [])
            continue
        for got, want in zip(run(merged, [x, k, d], []), wanted, strict=True):
            assert np.array_equal(got, want)


KEPT = """
fun steps {t} (w : f32[t, n, n]) (x : f32[n]) =
  loop (y = x, z = 1.0) for k < t => (for i => tanh (sum j => w[k, i, j] * y[j]), z * 0.5)
fun loss {t} (w : f32[t, n, n]) (x : f32[n]) = sum i => (steps {t} w x).1[i] ** 2.0 + (steps {t} w x).2
fun f {t} (w : f32[t, n, n]) (x : f32[n]) = value_and_grad (fn w => loss {t} w x) w
"""


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_a_loop_whose_states_are_kept_runs_once(steps: int) -> None:
    """A gradient reads what its function's loop had before each step; the function's value is that of the last."""
    program: Program = compiler.lower(compiler.check_text(KEPT), "f", None)
    merged = deduplicated(program)
    verify(merged)
    forward = [op for op in program.block.ops if isinstance(op, Loop)]
    left = [op for op in merged.block.ops if isinstance(op, Loop)]
    assert (len(forward), len(left)) == (4, 2)
    assert all(op.stacked for op in left)
    chance = np.random.default_rng(0)
    given = [chance.standard_normal((steps, 5, 5)).astype(np.float32), chance.standard_normal(5).astype(np.float32)]
    for got, want in zip(run(merged, given, [steps]), run(program, given, [steps]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-6)
