"""Loops backwards: what each step reads at a place of its own, what is kept and not computed again, and what adjoints share."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Block, Compute, Loop, Unary
from axon.core.walk import nodes, scalars
from axon.interpret import run
from tests.checked import checked

TEXT = """
fun sigmoid x = 1.0 / (1.0 + exp (-x))

(* Every tensor is read at a place of each step: the loop backwards gives parts. *)
fun parts (x : f64[n, h], y : f64[n, h]) =
  let val s = loop (s = for j < h => 0.3) for t < n => for j => tanh (s[j] * x[t, j]) + y[n - 1 - t, (h - 1 - j)]
  in sum j => s[j] * s[j] end

(* The states are results, and one tensor is read by every step. *)
fun sums (x : f64[n, h], w : f64[h]) =
  let val s = unfold (s = w) for t < n => for j => sigmoid (s[j] * w[j] + x[t, j])
  in sum t j => s[t, j] * cast f64 (t + 1) end

(* At two places, and at none that differs from step to step. *)
fun places (x : f64[n, h], y : f64[n, h]) =
  let val s = loop (s = for j < h => 0.3) for t < n => for j => sin (s[j] + x[t, j] * x[n - 1 - t, j]) * y[t / 2, j]
  in sum j => s[j] end

(* A loop in a loop, both of which keep more than one state. *)
fun layers (w : f64[l, 2, h], c : f64[l, h], x : f64[n, h]) =
  let fun layer (w : f64[2, h]) x c = let val c = for j => tanh (w[0, j] * x[j] + c[j]) in (for j => w[1, j] * sin c[j], c) end
      fun step c x = unfold (y = x, k = for j < h => 0.0) for i < l => layer w[i, ..] y c[i, ..]
      val s = unfold (y = for i < l, j < h => 0.0, c = c) for t < n => step c x[t, ..]
  in sum t j => s.1[t, l - 1, j] * s.2[t, 0, j] end
"""
SHAPES = {
    "parts": ((3, 2), (3, 2)),
    "sums": ((4, 2), (2,)),
    "places": ((4, 2), (4, 2)),
    "layers": ((2, 2, 3), (2, 3), (3, 3)),
}


GIVEN = {"parts": "(x, y)", "sums": "(x, w)", "places": "(x, y)", "layers": "(w, c, x)"}
TEXT += "".join(f"fun d_{name} {given[1:-1].replace(',', '')} = grad {name} {given}\n" for name, given in GIVEN.items())


@pytest.mark.parametrize("steps", [None, 0, 1])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_differences(name: str, steps: int | None, target: str) -> None:
    module, chance = axon.compile(TEXT), np.random.default_rng(len(name))
    shapes = [*SHAPES[name]]
    for n, shape in enumerate(shapes):
        if steps is not None and len(shape) == 2 and (name, n) != ("layers", 1):
            shapes[n] = (steps, shape[1])
    given = [chance.standard_normal(shape) for shape in shapes]
    found = getattr(module, f"d_{name}")(*given, target=target)

    def value() -> float:
        return float(getattr(module, name)(tuple(given), target="interpret"))

    for array, slope in zip(given, found, strict=True):
        wanted = np.zeros_like(array)
        for place in np.ndindex(array.shape):
            at = array[place]
            ends = []
            for array[place] in (at + 1e-6, at - 1e-6):
                ends.append(value())
            array[place] = at
            wanted[place] = (ends[0] - ends[1]) / 2e-6
        np.testing.assert_allclose(slope, wanted, rtol=1e-7, atol=1e-8)


def loops(block: Block, depth: int = 0) -> Iterator[tuple[Loop, int]]:
    for op in block.ops:
        if isinstance(op, Loop):
            yield op, depth
            yield from loops(op.body, depth + 1)


def calls(block: Block, function: str) -> int:
    """How often a function stands in the operations of a block, loops aside."""
    ops = [op for op in block.ops if isinstance(op, Compute)]
    return sum(isinstance(n, Unary) and n.op == function for op in ops for s in scalars(op) for n in nodes(s))


def test_nothing_is_computed_again() -> None:
    """Of the layers, states are kept, also those of the loop inside: backwards there is one loop in the loop."""
    program = compiler.lower(checked(TEXT), "d_layers", None)
    assert [depth for _, depth in loops(program.block)] == [0, 1, 0, 1]
    *_, (backwards, _) = loops(program.block)
    assert [calls(backwards.body, f) for f in ("tanh", "sin", "cos")] == [1, 1, 1]  # for slopes, and none for states
    layers = program.inputs[0].shape[0]
    assert all(layers not in out.shape for op in backwards.body.ops if isinstance(op, Compute) for out in op.outs)


def test_adjoints_share() -> None:
    """`exp` stands once in the step, and once in the adjoints of the three that it reads."""
    program = compiler.lower(checked(TEXT), "d_sums", None)
    forwards, backwards = (loop for loop, _ in loops(program.block))
    assert calls(forwards.body, "exp") == calls(backwards.body, "exp") == 1


def test_a_long_expression() -> None:
    """Of 300 names that are each read several times: what reads get is made for each tensor, and not for each read."""
    names = "".join(f"val a{n + 1} = sin a{n} * a{max(0, n - 1)} + x\n" for n in range(300))
    text = f"fun f (x : f64) = let val a0 = x\n{names} in a300 end\nfun d (x : f64) = grad f x"
    program = compiler.lower(checked(text), "d", None)
    (body,) = (op.body[0] for op in program.block.ops if isinstance(op, Compute))
    assert sum(1 for _ in nodes(body)) < 20_000
    (found,) = run(program, [np.float64(0.3)], [])
    values, slopes = [0.3], [1.0]
    for n in range(300):
        a, b, da, db = values[n], values[max(0, n - 1)], slopes[n], slopes[max(0, n - 1)]
        values.append(np.sin(a) * b + 0.3)
        slopes.append(np.cos(a) * da * b + np.sin(a) * db + 1.0)
    np.testing.assert_allclose(found, slopes[-1], rtol=1e-9)


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_a_place_outside_that_a_step_does_not_read(target: str) -> None:
    """The first step, or the last ones, read nothing of the tensor: its part is not read there either."""
    m = axon.compile("""
fun after (p : f64[n, d]) (x : f64[d]) =
  grad (fn p => sum i => (loop (s = x) for t < n => for i < d => if t = 0 then s[i] else s[i] * p[t - 1, i])[i]) p
fun before (p : f64[n, d]) (x : f64[d]) =
  grad (fn p => sum i => (loop (s = x) for t < n + 2 => for i < d => if t >= n then s[i] else s[i] * p[t, i])[i]) p
""")
    p = np.arange(1.0, 7.0).reshape(3, 2)
    np.testing.assert_array_equal(m.after(p, np.ones(2), target=target), [[3, 4], [1, 2], [0, 0]])
    np.testing.assert_array_equal(m.before(p, np.ones(2), target=target), [[15, 24], [5, 12], [3, 8]])
