"""What of a step of a loop is kept for the loop that runs backwards: products by weights, not scores, and nothing twice."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.base.element import Element
from axon.core.ir import Block, Compute, Loop, Read
from axon.core.passes.cse import deduplicated
from axon.core.walk import nodes, scalars
from axon.shapes.pretty import render
from tests.checked import checked

TEXT = """
fun swish x = x / (1.0 + exp (-x))

(* A layer: products, the first with a bias; `x` plus the second one is read by a norm and by the result. *)
fun layer (w1 : E[f, d], c : E[f], w2 : E[d, f], v : E[d, d]) (x : E[b, d]) =
  let val h = for i j => (sum k => x[i, k] * w1[j, k]) + c[j]
      val a = for i j => swish h[i, j]
      val y = for i k => x[i, k] + (sum j => a[i, j] * w2[k, j])
      val z = for i k => y[i, k] / (1.0 + (sum k => y[i, k] * y[i, k]))
  in for i k => y[i, k] + swish (sum e => z[i, e] * v[k, e]) end
fun layers (w1 : E[n, f, d], c : E[n, f], w2 : E[n, d, f], v : E[n, d, d], x : E[b, d]) =
  let val s = loop (s = x) for t < n => layer (w1[t, ..], c[t, ..], w2[t, ..], v[t, ..]) s in sum i k => s[i, k] * s[i, k] end

(* Attention, of one matrix for queries, keys and values: scores are made again, their statistics are kept. *)
fun attention (w : E[n, d, d], x : E[s, d]) =
  let val y = loop (y = x) for t < n =>
    let val q = for i k => sum e => y[i, e] * w[t, k, e]
        val a = for i j => sum k => q[i, k] * q[j, k]
        val top = for i => max j => a[i, j]
        val p = for i j => exp (a[i, j] - top[i])
        val z = for i => sum j => p[i, j]
    in for i k => y[i, k] + (sum j => p[i, j] * q[j, k]) / z[i] end
  in sum i k => y[i, k] * y[i, k] end

(* Attention over heads that lie side by side in one tensor, before and after. *)
fun over_heads (w : E[d, 3 * d], u : E[d, d]) (y : E[s, d]) where d % 2 = 0 =
  let val all = for i k => sum e => y[i, e] * w[e, k]
      val qkv = for part < 3, h < 2, i c => all[i, (part, h, c)]
      val a = for h i j => sum c => qkv[0, h, i, c] * qkv[1, h, j, c]
      val top = for h i => stop_gradient (max j => a[h, i, j])
      val z = for h i => sum j => exp (a[h, i, j] - top[h, i])
      val o = for h i c => sum j => exp (a[h, i, j] - top[h, i]) / z[h, i] * qkv[2, h, j, c]
      val merged = for i (h, c) => o[h, i, c]
  in for i k => y[i, k] + (sum e => merged[i, e] * u[e, k]) end
fun heads (w : E[n, d, 3 * d], u : E[n, d, d], x : E[s, d]) where d % 2 = 0 =
  let val y = loop (y = x) for t < n => over_heads (w[t, ..], u[t, ..]) y in sum i k => y[i, k] * y[i, k] end
fun three (w : E[3, d, 3 * d], u : E[3, d, d], x : E[s, d]) where d % 2 = 0 =
  let val y = x |> over_heads (w[0, ..], u[0, ..]) |> over_heads (w[1, ..], u[1, ..]) |> over_heads (w[2, ..], u[2, ..])
  in sum i k => y[i, k] * y[i, k] end

(* A logarithm of a sum, with which weights are made. *)
fun logarithm (w : E[n, d, d], x : E[s, d]) =
  let val y = loop (y = x) for t < n =>
    let val q = for i k => sum e => y[i, e] * w[t, k, e]
        val a = for i j => sum k => q[i, k] * q[j, k]
        val top = for i => stop_gradient (max j => a[i, j])
        val l = for i => top[i] + log (sum j => exp (a[i, j] - top[i]))
    in for i k => y[i, k] + (sum j => exp (a[i, j] - l[i]) * q[j, k]) end
  in sum i k => y[i, k] * y[i, k] end

(* All states are results, of which the last ones are read as well. *)
fun states (w : E[d, d], x : E[n, b, d]) =
  let val s = unfold (s = x[0, ..]) for t < n => for i k => swish (sum e => s[i, e] * w[k, e]) + x[t, i, k]
  in sum t i k => s[t, i, k] * cast E (t + 1) end

(* What a rule of its own makes is not looked into. *)
fun ruled (w : E[n, d, d], x : E[b, d]) =
  let fun rule (w, x) dy = (for i j => sum b => dy[b, i] * x[b, j], for b j => sum i => dy[b, i] * w[i, j])
      val apply = with_vjp (fn (w, x) => for b i => sum j => w[i, j] * x[b, j]) rule
      val y = loop (y = x) for t < n => for b i => swish (apply (w[t, ..], y))[b, i]
  in sum b i => y[b, i] * y[b, i] end
"""
SHAPES = {
    "layers": ((3, 5, 4), (3, 5), (3, 4, 5), (3, 4, 4), (2, 4)),
    "attention": ((3, 4, 4), (5, 4)),
    "heads": ((3, 4, 12), (3, 4, 4), (5, 4)),
    "logarithm": ((3, 4, 4), (5, 4)),
    "states": ((4, 4), (3, 2, 4)),
    "ruled": ((3, 4, 4), (2, 4)),
}
GIVEN = dict.fromkeys(SHAPES, "(w, x)") | {"layers": "(w1, c, w2, v, x)", "heads": "(w, u, x)"}
for name, given in GIVEN.items():
    TEXT += f"fun d_{name} {given[1:-1].replace(',', '')} = value_and_grad {name} {given}\n"


def loops(name: str, element: str = "f32") -> list[Loop]:
    program = deduplicated(
        compiler.lower(checked(TEXT.replace("E[", f"{element}[").replace("cast E", f"cast {element}")), f"d_{name}", None)
    )
    return [op for op in program.block.ops if isinstance(op, Loop)]


def kept(loop: Loop) -> list[str]:
    """The shapes of what a loop keeps, in the order in which it is made: of states that no step reads."""
    read = {
        n.tensor for op in loop.body.ops if isinstance(op, Compute) for s in scalars(op) for n in nodes(s) if isinstance(n, Read)
    }
    return ["".join(render(d) for d in state.shape) for state in loop.states if state.symbol not in read]


def test_products_are_kept() -> None:
    forwards, _ = loops("layers")
    assert kept(forwards) == ["bf", "bf", "bd", "bd", "bd"]  # h, a, y, z and the last product; not what is without its bias


def test_scores_are_made_again() -> None:
    forwards, _ = loops("attention")
    assert sorted(kept(forwards)) == ["s", "s", "sd", "sd"]


@pytest.mark.parametrize("element", ["bf16", "f16"])
@pytest.mark.parametrize("name", ["attention", "heads", "logarithm"])
def test_statistics_are_kept_in_f32(name: str, element: str) -> None:
    """As kernels have them. The function and its gradient still have one loop forwards together."""
    forwards, _ = loops(name, element)
    wide = [state for state in forwards.states if state.element is Element.F32]
    assert [len(state.shape) for state in wide] == [2, 2] if name == "heads" else [1, 1]
    assert {state.element for state in forwards.states} == {Element(element), Element.F32}


def test_heads_that_lie_side_by_side() -> None:
    """Sums with values are no larger than what queries, keys and values lie in; they are kept once, merged."""
    forwards, _ = loops("heads")
    assert kept(forwards) == ["s3 * d", "2s", "2s", "s2 * (d / 2)"]


def test_what_is_made_of_statistics() -> None:
    """A logarithm of a sum is made again of it."""
    forwards, _ = loops("logarithm")
    assert sorted(kept(forwards)) == ["s", "s", "sd"]


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize("element", ["bf16", "f16"])
def test_no_digit_is_lost(element: str, target: str) -> None:
    """What is kept gives bit for bit the gradient of three layers that stand there one after the other."""
    text = TEXT + "fun d_three w u x = value_and_grad three (w, u, x)\n"
    module, chance = axon.compile(text.replace("E[", f"{element}[").replace("cast E", f"cast {element}")), np.random.default_rng(0)
    given = [(chance.standard_normal(shape) / 2).astype(Element(element).dtype) for shape in ((3, 8, 24), (3, 8, 8), (9, 8))]
    _, kept = module.d_heads(*given, target=target)
    _, straight = module.d_three(*given, target=target)
    for one, other in zip(kept, straight, strict=True):
        np.testing.assert_array_equal(one, other)


def test_states_that_are_results() -> None:
    forwards, _ = loops("states")
    assert forwards.stacked
    assert kept(forwards) == ["bd"]


def test_loops_with_loops_run_once() -> None:
    """They are not seen to be the same, so the outer one, which gives all its states, keeps no more of a step."""
    text = """
fun f (w : f32[d, d]) (x : f32[n, b, d]) =
  let fun inner s = loop (s = s) for t < 3 => for i k => tanh (sum e => s[i, e] * w[k, e])
      val s = unfold (s = x[0, ..]) for t < n => for i k => (inner (for i k => sum e => s[i, e] * w[k, e]))[i, k] + x[t, i, k]
  in sum t i k => s[t, i, k] end
fun d (w : f32[d, d]) (x : f32[n, b, d]) = grad (fn w => f w x) w
"""
    program = deduplicated(compiler.lower(checked(text), "d", None))
    assert sum(isinstance(op, Loop) for op in program.block.ops) == 2


def test_rules_are_not_looked_into() -> None:
    forwards, _ = loops("ruled")
    assert kept(forwards) == []


@pytest.mark.parametrize("name", ["layers", "attention", "states"])
def test_no_product_is_made_again(name: str) -> None:
    """Backwards there are two for each product by weights, for both of its factors; and the scores, with their own."""
    forwards, backwards = loops(name)
    assert products(backwards.body) == 2 * products(forwards.body) + (name == "attention")


def products(block: Block) -> int:
    """The matrices of sums over products of two reads."""
    sums = [op for op in block.ops if isinstance(op, Compute) and op.reduction is not None and len(op.axes) == 2]
    return sum(len({n for s in op.body for n in nodes(s) if isinstance(n, Read)}) == 2 for op in sums)


@pytest.mark.parametrize("name", SHAPES)
def test_parts_are_read_where_they_lie(name: str) -> None:
    _, backwards = loops(name)
    for op in backwards.body.ops:
        if isinstance(op, Compute) and op.reduction is None and isinstance(op.body[0], Read):
            assert len(op.body[0].subscripts) <= len(op.axes), op


@pytest.mark.parametrize("steps", [None, 0, 1])
@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_differences(name: str, steps: int | None, target: str) -> None:
    module, chance = axon.compile(TEXT.replace("E[", "f64[").replace("cast E", "cast f64")), np.random.default_rng(len(name))
    shapes = [*SHAPES[name]]
    if steps is not None:
        shapes = [(steps, *shape[1:]) if shape[0] == 3 and (name, steps) != ("states", 0) else shape for shape in shapes]
    given = [chance.standard_normal(shape) / 2 for shape in shapes]
    value, found = getattr(module, f"d_{name}")(*given, target=target)

    def at() -> float:
        return float(getattr(module, name)(tuple(given), target="interpret"))

    assert abs(value - at()) <= 1e-12 * max(1.0, abs(at()))
    for array, slope in zip(given, found, strict=True):
        for place in np.ndindex(array.shape):
            before, ends = array[place], []
            for array[place] in (before + 1e-6, before - 1e-6):
                ends.append(at())
            array[place] = before
            np.testing.assert_allclose(slope[place], (ends[0] - ends[1]) / 2e-6, rtol=1e-6, atol=1e-7)


TWICE = """
fun along_layers w r (c, w2, v, x) = sum t i j => (grad (fn w => layers (w, c, w2, v, x)) w)[t, i, j] * r[t, i, j]
fun along_states w r x = sum i j => (grad (fn w => states (w, x)) w)[i, j] * r[i, j]
fun twice_layers w r rest = grad (fn w => along_layers w r rest) w
fun twice_states w r rest = grad (fn w => along_states w r rest) w
"""


@pytest.mark.parametrize("name", ["layers", "states"])
def test_second_derivatives(name: str) -> None:
    """By differences of the first ones."""
    module = axon.compile((TEXT + TWICE).replace("E[", "f64[").replace("cast E", "cast f64"))
    chance = np.random.default_rng(1)
    w, r, *rest = (chance.standard_normal(shape) / 2 for shape in (SHAPES[name][0], *SHAPES[name]))
    others = tuple(rest) if len(rest) > 1 else rest[0]
    found = getattr(module, f"twice_{name}")(w, r, others, target="cpu")
    for place in list(np.ndindex(w.shape))[::3]:
        before, ends = w[place], []
        for w[place] in (before + 1e-5, before - 1e-5):
            ends.append(float(getattr(module, f"along_{name}")(w, r, others, target="interpret")))
        w[place] = before
        np.testing.assert_allclose(found[place], (ends[0] - ends[1]) / 2e-5, rtol=1e-5, atol=1e-6)
