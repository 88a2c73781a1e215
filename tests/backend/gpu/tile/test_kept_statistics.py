"""Attention in loops: the loop forwards stores what it gives and the statistics of its rows, in f32; the one backwards reads them,
and no stream of it goes over the scores to make them again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime.ways import Planned, plan
from axon.backend.gpu.tile.families import results_of
from axon.backend.gpu.tile.stream import Stream
from axon.base.element import Element
from axon.core.passes.parts import HostLoop, Straight, parts
from tests.checked import checked

ONE_BY_ONE = """
fun model (wq : E[n, h, d, e]) (wk : E[n, KEYS, d, e]) (wv : E[n, KEYS, d, e]) (wo : E[n, e, h, d]) EXTRA (x : E[b, t, e]) =
  let val y = loop (y = x) for layer < n =>
    let val q = for b l j c => sum k => y[b, j, k] * wq[layer, l, c, k]
        val k = for b l j c => sum k => y[b, j, k] * wk[layer, l, c, k]
        val v = for b l j c => sum k => y[b, j, k] * wv[layer, l, c, k]
        val o = ATTENTION
    in for b j k => y[b, j, k] + (sum l c => o[b, l, j, c] * wo[layer, k, l, c]) end
  in sum b j k => cast f32 y[b, j, k] * cast f32 y[b, j, k] end
fun f wq wk wv wo EXTRAS x = grad (fn (wq, wk, wv, wo, x) => model wq wk wv wo EXTRAS x) (wq, wk, wv, wo, x)
"""
CHANGED = "nn.attention_with (fn s => for b h i j => {}) q k v"
EACH = {  # what the attention is, and what else it reads
    "full": ("nn.attention q k v", ""),
    "causal": ("nn.causal_attention q k v", ""),
    "soft cap": (CHANGED.format("if j <= i then 5.0 * tanh (s[b, h, i, j] / 5.0) else -inf"), ""),
    "alibi": (CHANGED.format("if j <= i then s[b, h, i, j] - cast E (a[h] * cast f32 (i - j)) else -inf"), "(a : f32[h])"),
    "bias": (CHANGED.format("s[b, h, i, j] + a[h, i, j]"), "(a : E[h, t, t])"),
    "window": ("nn.attention_with (nn.sliding 40) q k v", ""),
    "documents": ("nn.attention_with (fn s => s |> nn.documents a |> nn.causal) q k v", "(a : i32[t])"),
    "in f32": (
        "(let val w = nn.softmax (nn.causal (for b h i j =>"
        " (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)))"
        " in for b h i c => cast E (sum j => w[b, h, i, j] * cast f32 v[b, h, j, c]) end)",
        "",
    ),
    "grouped heads": (
        "nn.causal_attention q (for b, h < 2 * g, j c => k[b, h / 2, j, c]) (for b, h < 2 * g, j c => v[b, h / 2, j, c])",
        "",
    ),
    "groups of two indices, in f32": (
        "(let val w = nn.softmax (nn.causal (for b, n < g, m < 2, i j =>"
        " (sum c => cast f32 q[b, (n, m), i, c] * cast f32 k[b, n, j, c]) * rsqrt (cast f32 d)))"
        " in for b (n, m) i c => cast E (sum j => w[b, n, m, i, j] * cast f32 v[b, n, j, c]) end)",
        "",
    ),
}
TOGETHER = """
fun model (w : E[n, e, 3 * e]) (wo : E[n, e, e]) (x : E[b, t, e]) where e % 2 = 0 =
  let val y = loop (y = x) for layer < n =>
    let val all = for b j k => sum i => y[b, j, i] * w[layer, i, k]
        val qkv = for part < 3, b, h < 2, i c => all[b, i, (part, h, c)]
        val o = nn.causal_attention qkv[0, ..] qkv[1, ..] qkv[2, ..] |> nn.merge_heads
    in for b j k => y[b, j, k] + (sum i => o[b, j, i] * wo[layer, i, k]) end
  in sum b j k => cast f32 y[b, j, k] * cast f32 y[b, j, k] end
fun f w wo x = grad (fn (w, wo, x) => model w wo x) (w, wo, x)
"""
ALONE = """
fun model (x : E[b, h, t, d]) (w : E[n]) =
  let val y = loop (y = x) for layer < n => STEP in sum b h j k => cast f32 y[b, h, j, k] * cast f32 y[b, h, j, k] end
fun f x w = grad (fn x => model x w) x
"""
STEPS = {
    "alone": "nn.causal_attention y y y",
    "beside": "for b h i c => y[b, h, i, c] + (nn.causal_attention y y y)[b, h, i, c]",
}
NAMES = (*EACH, "merged heads", *STEPS)


def source(name: str, element: str) -> str:
    if name == "merged heads":
        text = TOGETHER
    elif name in STEPS:
        text = ALONE.replace("STEP", STEPS[name])
    else:
        attention, extra = EACH[name]
        text = ONE_BY_ONE.replace("ATTENTION", attention).replace("EXTRAS", "a" if extra else "").replace("EXTRA", extra)
        if "group" in name:
            text = text.replace("n, h, d, e]", "n, 2 * g, d, e]").replace("e, h, d]", "e, 2 * g, d]")
        text = text.replace("KEYS", "g" if "group" in name else "h")
    return ("import nn\n" + text).replace("E[", f"{element}[").replace("cast E", f"cast {element}")


def plans(text: str) -> list[Planned]:
    """The kernels of a step of each loop."""
    split = parts(compiler.lower(checked(text), "f", None))
    steps = (part.body.parts for part in split.body.parts if isinstance(part, HostLoop))
    return [plan(straight.program, HOPPER) for (straight,) in steps if isinstance(straight, Straight)]


def streams(made: Planned) -> list[Stream]:
    return [kernel for kernel in made.kernels if isinstance(kernel, Stream)]


def square(made: Planned) -> Iterator[str]:
    """What is stored that has an element for each pair of positions."""
    for value in (value for kernel in made.kernels for value in results_of(kernel)):
        if [d.symbol.name for d in value.shape if d.symbol].count("t") > 1:
            yield value.symbol.name


# Weights of 32 bits are no factors of f16: see `stream`.
@pytest.mark.parametrize(
    ("name", "element"),
    [(name, element) for name in NAMES for element in ("bf16", "f16") if (name[-3:], element) != ("f32", "f16")],
)
def test_nothing_is_made_again(name: str, element: str) -> None:
    forwards, backwards = plans(source(name, element))
    (stream,) = streams(forwards)
    assert [row.value.element for row in stream.row_results] == [Element.F32, Element.F32]
    assert [again.peak for again in streams(backwards)] == [None, None, None]
    assert not any(again.totals for again in streams(backwards))
    assert not [*square(forwards), *square(backwards)]


def test_what_attention_gives_is_stored_once() -> None:
    """As the next product reads it: no other order of it is stored beside."""
    forwards, _ = plans(source("merged heads", "bf16"))
    (stream,) = streams(forwards)
    assert [len(result.value.shape) for result in stream.results] == [3]


@pytest.mark.parametrize("element", ["bf16", "f32"])
def test_logarithms_of_sums_are_made_of_statistics(element: str) -> None:
    """What is made of the statistics of a row alone is not stored: a stream that has to is none."""
    text = ONE_BY_ONE.replace(
        "ATTENTION",
        """(let val s = nn.causal (for b h i j => (sum c => q[b, h, i, c] * k[b, h, j, c]))
             val z = for b h i => nn.log_sum_exp s[b, h, i, ..]
         in for b h i c => sum j => exp (s[b, h, i, j] - z[b, h, i]) * v[b, h, j, c] end)""",
    )
    text = "import nn\n" + text.replace("EXTRAS", "").replace("EXTRA", "").replace("KEYS", "h").replace("E[", f"{element}[")
    forwards, _ = plans(text)
    assert len(streams(forwards)) == 1


@pytest.mark.parametrize(
    ("name", "element", "long"),
    [("causal", "bf16", 70), ("soft cap", "f16", 66), ("alibi", "bf16", 66), ("in f32", "bf16", 70),
     ("groups of two indices, in f32", "bf16", 65), ("merged heads", "bf16", 70), ("beside", "f16", 70)],
)  # fmt: skip
def test_simulated_gradients_are_those_of_core(name: str, element: str, long: int) -> None:
    """Against the interpreter in f64, relative to the greatest."""
    narrow = axon.compile(source(name, element))
    exact = axon.compile(source(name, "f64").replace("f32", "f64"))
    sizes = {"b": 1, "n": 3, "h": 2, "g": 1, "t": long, "d": 16, "e": 32}
    chance = np.random.default_rng(0)
    program = compiler.lower(checked(source(name, element)), "f", None)
    given = {}
    for value in program.inputs:
        shape = tuple(d.evaluate({s: sizes[s.name] for s in d.variables}) for d in value.shape)
        drawn = chance.standard_normal(shape) * (0.5 if value.symbol.name == "x" else 0.1)
        given[value.symbol.name] = drawn.astype(value.element.dtype)
    arguments = [given[param.name] for param in program.params]
    got = flat(narrow.f(*arguments, target="simulate"))
    want = flat(exact.f(*[x.astype(np.float64) for x in arguments], target="interpret"))
    for one, other in zip(got, want, strict=True):
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 1.5e-2 * np.abs(other).max()


def flat(results: Any) -> list[Any]:
    return [leaf for x in results for leaf in flat(x)] if isinstance(results, tuple) else [results]
