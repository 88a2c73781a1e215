"""Programs that are streams: attention and its relatives, written in the ways in which people write them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from axon import compiler
from axon.base.element import Element
from axon.core.ir import Program
from axon.interpret import run as interpret
from tests.checked import checked

SOURCE = """
import nn

fun softmax x = for ..i j =>
  let val m = max k => x[..i, k]
      val z = sum k => exp (x[..i, k] - m)
  in exp (x[..i, j] - m) / z end

fun scores (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) =
  for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)

fun apply (x : f32[b, h, s, t]) (v : bf16[b, h, t, e]) =
  let val p = softmax x in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) end

fun full (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e]) = apply (scores q k) v

fun causal (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if j <= i then x[b, h, i, j] else -inf) v end

fun softcap (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e]) =
  let val x = scores q k in apply (for b h i j => 30.0 * tanh (x[b, h, i, j] / 30.0)) v end

fun alibi (slope : f32[h]) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if j <= i then x[b, h, i, j] + slope[h] * cast f32 (j - i) else -inf) v end

fun window (w : i32) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if j <= i andalso i - j < w then x[b, h, i, j] else -inf) v end

fun grouped {g} (q : bf16[b, n * g, s, d]) (k : bf16[b, n, s, d]) (v : bf16[b, n, s, e]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / g, j, c]) * rsqrt (cast f32 d)
      val p = softmax (for b h i j => if j <= i then x[b, h, i, j] else -inf)
  in for b h i e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, h / g, j, e]) end

fun documents (doc : i32[b, s]) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if doc[b, i] = doc[b, j] then x[b, h, i, j] else -inf) v end

fun prefix (n : i32) (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k in apply (for b h i j => if j <= i orelse j < n then x[b, h, i, j] else -inf) v end

fun linear (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  for b h i e => cast bf16 (sum j =>
    (if j <= i then (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) else 0.0) * cast f32 v[b, h, j, e])

fun unnormalized (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e]) =
  let val x = scores q k
      val w = for b h i j => exp x[b, h, i, j]
      val z = for b h i => sum j => w[b, h, i, j]
      val o = for b h i e => sum j => w[b, h, i, j] * cast f32 v[b, h, j, e]
  in for b h i e => cast bf16 (o[b, h, i, e] / z[b, h, i]) end

fun logsumexp (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e]) =
  let val x = scores q k
      val m = for b h i => max j => x[b, h, i, j]
      val l = for b h i => m[b, h, i] + log (sum j => exp (x[b, h, i, j] - m[b, h, i]))
  in for b h i e => cast bf16 (sum j => exp (x[b, h, i, j] - l[b, h, i]) * cast f32 v[b, h, j, e]) end

fun conditional (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k
      val m = for b h i => max for j where j <= i => x[b, h, i, j]
      val z = for b h i => sum for j where j <= i => exp (x[b, h, i, j] - m[b, h, i])
  in for b h i e => cast bf16 (sum for j where j <= i =>
       exp (x[b, h, i, j] - m[b, h, i]) / z[b, h, i] * cast f32 v[b, h, j, e]) end

fun weighted (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k
      val m = for b h i => max for j where j <= i => x[b, h, i, j]
      val p = for b h i j => if j <= i then exp (x[b, h, i, j] - m[b, h, i]) else 0.0
  in for b h i e => cast bf16 ((sum j => p[b, h, i, j] * cast f32 v[b, h, j, e]) / (sum j => p[b, h, i, j])) end

fun library (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) = nn.causal_attention q k v
fun plain (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) = nn.attention q k v

fun bias (bias : f32[h, s, t]) (q : bf16[b, h, s, d]) (k : bf16[b, h, t, d]) (v : bf16[b, h, t, e]) =
  let val x = scores q k in apply (for b h i j => x[b, h, i, j] + bias[h, i, j]) v end

fun ranked (q : bf16[b, h, s, d]) (k : bf16[b, h, s, d]) (v : bf16[b, h, s, e]) =
  let val x = scores q k
      val masked = for b h i j => if j <= i then x[b, h, i, j] else -inf
  in apply (for b h i j => masked[b, h, i, j] * cast f32 i) v end

fun layout (q : bf16[b, s, h, d]) (k : bf16[b, s, h, d]) (v : bf16[b, s, h, e]) =
  let val p = softmax (for b h i j =>
        if j <= i then (sum c => cast f32 q[b, i, h, c] * cast f32 k[b, j, h, c]) / sqrt (cast f32 d) else -inf)
  in for b i h e => cast bf16 (sum j => p[b, h, i, j] * cast f32 v[b, j, h, e]) end
"""
NAMES = tuple(line.split()[1] for line in SOURCE.splitlines() if line.startswith("fun "))[3:]
EXACT = SOURCE.replace("bf16", "f64").replace("f32", "f64")


def program(name: str, element: Element = Element.BF16) -> Program:
    return compiler.lower(checked(SOURCE.replace("bf16", element.value)), name, None)


def in_8_bits() -> Program:
    """Causal attention of 8-bit floats, which rounds its weights to these."""
    weight = "p[b, h, i, j]"
    short = SOURCE.replace("bf16[", "f8e4m3[").replace(f"{weight} *", f"cast f32 (cast f8e4m3 {weight}) *")
    own = [part for part in short.split("\nfun ") if part.split()[0] in ("softmax", "scores", "apply", "causal")]
    return compiler.lower(checked("\nfun ".join(["", *own])), "causal", None)


@dataclass(frozen=True)
class Inputs:
    """Arguments for a program at some sizes, random normal; `whole` is what integer scalars are."""

    program: Program
    sizes: dict[Any, int]
    arrays: list[Any]


def inputs(made: Program, sizes: dict[str, int], seed: int = 0, whole: int = 70) -> Inputs:
    chance = np.random.default_rng(seed)
    symbols = {s for v in made.inputs for d in v.shape for s in d.variables} | set(made.explicit)
    known = {s: sizes[s.name] for s in symbols}
    arrays = []
    for value in made.inputs:
        shape = tuple(d.evaluate(known) for d in value.shape)
        if value.element.is_float:
            array = chance.standard_normal(shape)
            arrays.append((np.abs(array) * 0.1 if value.symbol.name == "slope" else array).astype(value.element.dtype))
        else:
            arrays.append(np.asarray(whole if not shape else chance.integers(0, 3, shape), value.element.dtype))
    return Inputs(made, known, arrays)


def expected(name: str, given: Inputs) -> Any:
    """The result in float64, of the same program with f64 for every float."""
    exact = compiler.lower(checked(EXACT), name, None)
    wide = [a.astype(np.float64) if v.element.is_float else a for v, a in zip(given.program.inputs, given.arrays, strict=True)]
    explicit = [given.sizes[s] for s in given.program.explicit]
    return np.asarray(interpret(exact, wide, explicit)[0], np.float64)


def error(got: Any, want: Any) -> float:
    """The greatest difference, relative to the greatest value."""
    got = np.asarray(got, np.float64)
    same = np.isnan(got) & np.isnan(want)
    return float(np.abs(np.where(same, 0, got - want)).max() / max(1e-30, np.abs(np.where(same, 0, want)).max()))
