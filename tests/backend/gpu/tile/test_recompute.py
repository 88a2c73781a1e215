"""Gradients of attention make their scores again: no tensor of queries by keys is stored, and the numbers are those of core."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.ways import Planned, following, plan
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.families import family_of, results_of
from axon.backend.gpu.tile.recompute import recomputed
from axon.backend.gpu.tile.schedule import TileMapping
from axon.base.element import Element
from axon.core.ir import Compute, Program
from axon.core.passes.parts import parts, straights
from axon.core.walk import outs_of, tensors_of
from tests.backend.gpu.proof.mutants import Change, drop, mutate, refused, sites, twice
from tests.checked import checked

CROSS = "(q : E[b, t, d]) (k : E[b, s, d]) (v : E[b, s, e]) (dy : E[b, t, e])"
SELF = "(q : E[b, h, t, d]) (k : E[b, h, t, d]) (v : E[b, h, t, d]) (dy : E[b, h, t, d])"
CHANGED = "vjp (fn (q, k, v) => nn.attention_with ({change}) q k v) (q, k, v) dy"
TURNED = """fun turned (x : E[..b, t, d]) =
  let val pairs = for ..b i j, part < 2 => cast f32 x[..b, i, (j, part)]
      val turned = for ..b i j =>
        let val angle = cast f32 i / cast f32 (j + 1)
            val (re, im) = (pairs[..b, i, j, 0], pairs[..b, i, j, 1])
        in [| re * cos angle - im * sin angle, re * sin angle + im * cos angle |] end
  in for ..b i (j, part) => cast E turned[..b, i, j, part] end"""
PROGRAMS = {
    "full": (CROSS, "vjp (fn (q, k, v) => nn.attention q k v) (q, k, v) dy"),
    "causal": (SELF, "vjp (fn (q, k, v) => nn.causal_attention q k v) (q, k, v) dy"),
    "soft cap": (
        SELF,
        CHANGED.format(change="fn s => for b h i j => if j <= i then 5.0 * tanh (s[b, h, i, j] / 5.0) else -inf"),
    ),
    "alibi": (
        f"(slope : f32[h]) {SELF}",
        CHANGED.format(
            change="fn s => for b h i j => if j <= i then s[b, h, i, j] - cast E (slope[h] * cast f32 (i - j)) else -inf"
        ),
    ),
    "window": (SELF, CHANGED.format(change="nn.sliding 40")),
    "bias": (f"(bias : E[h, t, t]) {SELF}", CHANGED.format(change="fn s => for b h i j => s[b, h, i, j] + bias[h, i, j]")),
    "documents": (f"(ids : i32[t]) {SELF}", CHANGED.format(change="fn s => s |> nn.documents ids |> nn.causal")),
    "grouped heads": (
        "(q : E[b, 2 * n, t, d]) (k : E[b, n, t, d]) (v : E[b, n, t, d]) (dy : E[b, 2 * n, t, d])",
        "vjp (fn (q, k, v) => nn.causal_attention q (for b, h < 2 * n, j c => k[b, h / 2, j, c])"
        " (for b, h < 2 * n, j c => v[b, h / 2, j, c])) (q, k, v) dy",
    ),
    "in f32": (
        SELF,
        "vjp (fn (q, k, v) => let val w = nn.softmax (nn.causal (for b h i j =>"
        " (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)))"
        " in for b h i c => cast E (sum j => w[b, h, i, j] * cast f32 v[b, h, j, c]) end) (q, k, v) dy",
    ),
    "groups of two indices": (
        "(q : E[b, n, m, t, d]) (k : E[b, n, t, d]) (v : E[b, n, t, d]) (dy : E[b, n, m, t, d])",
        "vjp (fn (q, k, v) => let val w = nn.softmax (nn.causal (for b n m i j =>"
        " (sum c => cast f32 q[b, n, m, i, c] * cast f32 k[b, n, j, c]) * rsqrt (cast f32 d)))"
        " in for b n m i c => cast E (sum j => w[b, n, m, i, j] * cast f32 v[b, n, j, c]) end) (q, k, v) dy",
    ),
    "groups, merged heads": (
        "(q : E[b, h, t, d]) (k : E[b, n, t, d]) (v : E[b, t, n * d]) (dy : E[b, t, h * d])",
        "vjp (fn (q, k, v) => let val w = nn.softmax (nn.causal (for b group member i j =>"
        " (sum c => q[b, (group, member), i, c] * k[b, group, j, c]) * rsqrt (cast E d)))"
        " in for b i (group, member, c) => sum j => w[b, group, member, i, j] * v[b, j, (group, c)] end) (q, k, v) dy",
    ),
    "pairs that are turned": (
        SELF,
        "vjp (fn (q, k, v) => nn.causal_attention (turned q) (turned k) v) (q, k, v) dy",
    ),
    "a loss": (SELF, "grad (fn (q, k, v) => sum for ..i => (nn.causal_attention q k v)[..i] * dy[..i]) (q, k, v)"),
}


def source(name: str, element: str) -> str:
    parameters, body = PROGRAMS[name]
    return f"import nn\n{TURNED}\nfun f {parameters} = {body}".replace("E[", f"{element}[").replace("cast E", f"cast {element}")


def planned(text: str) -> Planned:
    (part,) = straights(parts(compiler.lower(checked(text), "f", None)).body)
    return plan(part.program, HOPPER)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_scores_are_stored(name: str) -> None:
    made = planned(source(name, "bf16"))
    streams = [kernel for kernel in made.kernels if family_of(kernel) == "stream"]
    assert len(streams) == 4
    for kernel in made.kernels:
        for value in results_of(kernel):
            sizes = [d.symbol.name for d in value.shape[-2:] if d.symbol]
            assert sizes not in (["t", "s"], ["s", "t"], ["t", "t"]), value.symbol


@pytest.mark.parametrize(
    ("name", "element", "long"),
    [("full", "bf16", 70), ("causal", "f16", 150), ("soft cap", "bf16", 66), ("alibi", "bf16", 66), ("bias", "f16", 65),
     ("documents", "bf16", 70), ("window", "bf16", 140), ("grouped heads", "bf16", 70), ("a loss", "f16", 129),
     ("in f32", "bf16", 129), ("groups of two indices", "bf16", 67),
     ("groups, merged heads", "bf16", 70), ("pairs that are turned", "bf16", 65)],
)  # fmt: skip
def test_simulated_gradients_are_those_of_core(name: str, element: str, long: int) -> None:
    """Against the interpreter in f64, relative to the greatest."""
    narrow = axon.compile(source(name, element))
    exact = axon.compile(source(name, "f64").replace("f32", "f64"))
    sizes = {"b": 1, "h": 2, "n": 1, "m": 3, "t": long, "s": 131, "d": 24, "e": 16}
    chance = np.random.default_rng(0)
    program = compiler.lower(checked(source(name, element)), "f", None)
    given: list[Any] = []
    for value in program.inputs:
        shape = tuple(d.evaluate({s: sizes[s.name] for s in d.variables}) for d in value.shape)
        ids = value.element is Element.I32
        given.append(np.sort(chance.integers(0, 3, shape)) if ids else chance.standard_normal(shape))
        given[-1] = given[-1].astype(value.element.dtype)
    by_name = {value.symbol.name: x for value, x in zip(program.inputs, given, strict=True)}
    arguments = [by_name[p.name] for p in program.params]
    got = flat(narrow.f(*arguments, target="simulate"))
    want = flat(exact.f(*[x if x.dtype == np.int32 else x.astype(np.float64) for x in arguments], target="interpret"))
    for one, other in zip(got, want, strict=True):
        assert np.abs(np.asarray(one, np.float64) - other).max() <= 1e-2 * np.abs(other).max()


def flat(results: Any) -> list[Any]:
    return [leaf for x in results for leaf in flat(x)] if isinstance(results, tuple) else [results]


def straight(text: str) -> Program:
    (part,) = straights(parts(compiler.lower(checked(text), "f", None)).body)
    return part.program


def test_scores_that_something_else_needs_stay() -> None:
    text = f"""import nn
fun f {CROSS} = let val s = nn.attention_scores q k
  val (y, by) = vjp (fn (q, k, v) => nn.attention q k v) (q, k, v) dy in (y, by, s) end"""
    given = straight(text.replace("E[", "bf16["))
    made = recomputed(given)
    assert made.program is given
    assert not made.kept


def test_projections_are_in_memory() -> None:
    """Keys that are a product themselves are read, not made again for each row."""
    text = """import nn
fun f (x : E[b, t, m]) (wq : E[m, d]) (wk : E[m, d]) (wv : E[m, d]) (dy : E[b, t, d]) =
  vjp (fn (wq, wk, wv) => nn.causal_attention (x @ wq) (x @ wk) (x @ wv)) (wq, wk, wv) dy"""
    families = [family_of(kernel) for kernel in planned(text.replace("E[", "bf16[")).kernels]
    assert families.count("stream") == 4
    assert families.count("contraction") == 6


BLOCK = f"""import nn
{TURNED}
type block[d, h, n, c, f] = {{
  norm1 : E[d], q : E[d, h * c], k : E[d, n * c], v : E[d, n * c], out : E[h * c, d], norm2 : E[d], ff : nn.gated_of[E, d, f]
}}
fun attention {{h, n}} (p : block[d, h, n, c, f]) (x : E[b, t, d]) =
  let val q = turned (nn.split_heads {{h}} (x @ p.q))
      val k = turned (nn.split_heads {{n}} (x @ p.k))
      val v = nn.split_heads {{n}} (x @ p.v)
      val scores = for b group member i j => (sum c => q[b, (group, member), i, c] * k[b, group, j, c]) * rsqrt (cast E c)
      val weights = nn.softmax (nn.causal scores)
  in (for b i (group, member, c) => sum j => weights[b, group, member, i, j] * v[b, group, j, c]) @ p.out end
fun layer {{h, n}} (p : block[d, h, n, c, f]) (x : E[b, t, d]) =
  let val x = x + attention {{h, n}} p (nn.rms_norm p.norm1 x) in x + nn.swiglu p.ff (nn.rms_norm p.norm2 x) end
fun f {{h, n}} (p : block[d, h, n, c, f]) (x : E[b, t, d]) (dy : E[b, t, d]) = vjp (fn (p, x) => layer {{h, n}} p x) (p, x) dy"""


def test_a_block_stores_no_scores() -> None:
    """Beside norms and products that share no scores with it, attention is decided by itself; and they stay as they are."""
    text = BLOCK.replace("E[", "bf16[").replace("cast E", "cast bf16").replace("of[E", "of[bf16")
    made = planned(text)
    assert [family_of(kernel) for kernel in made.kernels].count("stream") == 4
    for kernel in made.kernels:
        for value in results_of(kernel):
            assert [d.symbol.name for d in value.shape[-2:] if d.symbol] != ["t", "t"], value.symbol
    given = straight(text)
    after = set(recomputed(given).program.block.ops)
    weights = {v.symbol for v in given.inputs if v.symbol.name.startswith("p_")}
    others = [op for op in given.block.ops if tensors_of(op) & weights or outs_of(op)[0].symbol in given.block.results]
    assert sum(isinstance(op, Compute) and op.reduction is not None for op in others) == 3 * 7 + 2  # of 7 weights, 2 norms
    assert after.issuperset(others)


def test_each_attention_is_decided_by_itself() -> None:
    """Scores of one that something else needs are stored, those of another are not."""
    text = f"""import nn
fun attend {CROSS} = vjp (fn (q, k, v) => nn.attention q k v) (q, k, v) dy
fun f {CROSS} (k2 : E[b, u, d]) (v2 : E[b, u, e]) = (attend q k v dy, attend q k2 v2 dy, nn.attention_scores q k2)"""
    made = planned(text.replace("E[", "bf16["))
    stored = [[d.symbol.name for d in v.shape[-2:] if d.symbol] for kernel in made.kernels for v in results_of(kernel)]
    assert [family_of(kernel) for kernel in made.kernels].count("stream") == 4
    assert ["t", "s"] not in stored
    assert ["t", "u"] in stored


def test_a_sum_that_a_stream_needs_is_not_made_beside_it() -> None:
    """Weights that are given: each row's sum over scores is read by the stream over these scores, so it is made before."""
    text = """fun f (p : bf16[h, t, s]) (g : bf16[h, t, e]) (v : bf16[h, s, e]) (k : bf16[h, s, d]) =
  let val dp = for h i j => sum e => g[h, i, e] * v[h, j, e]
      val delta = for h i => sum j => dp[h, i, j] * p[h, i, j]
      val apart = for h i => 2.0 * delta[h, i]
  in for h i d => sum j => p[h, i, j] * (dp[h, i, j] - apart[h, i]) * k[h, j, d] end"""
    chance = np.random.default_rng(1)
    given = [chance.standard_normal(shape) for shape in ((2, 40, 50), (2, 40, 24), (2, 50, 24), (2, 50, 16))]
    narrow = [x.astype(Element.BF16.dtype) for x in given]
    got = np.asarray(axon.compile(text).f(*narrow, target="simulate"), np.float64)
    p, g, v, k = (x.astype(np.float64) for x in narrow)
    dp = g @ v.transpose(0, 2, 1)
    want = (p * (dp - 2.0 * (dp * p).sum(2, keepdims=True))) @ k
    assert np.abs(got - want).max() <= 2e-2 * np.abs(want).max()


def test_what_is_no_stream_leaves_all_of_it_as_it_is() -> None:
    given = straight(source("causal", "bf16"))
    made = recomputed(given)
    last = made.program.block.results[-1]
    assert made.kept
    assert recomputed(given, frozenset({last})).program is given


@pytest.mark.parametrize(("heads", "long", "again"), [(16, 4096, True), (1, 1024, False)])
def test_sizes_decide(heads: int, long: int, again: bool) -> None:
    """Few tiles leave multiprocessors idle, and small scores are soon read."""
    made = planned(source("causal", "bf16"))
    named = {"b": 1, "h": heads, "t": long, "d": 64}
    sizes = {s: named[s.name] for v in made.program.inputs for d in v.shape for s in d.variables}
    way = following(made, {}, sizes, lambda number, ready: 0.0, HOPPER)
    assert bool(way.apart) != again
    if not again:
        assert all("better kept" in why for _, why in way.why)


# ── the proof of what is new ────────────────────────────────────────────────────────────────────────────────────────────

SIZES = {"b": 2, "t": 200, "s": 150, "d": 64, "e": 64}
MAPPING = TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=64)


@cache
def lowered(number: int) -> BarrierProgram:
    """The streams of full attention's gradient, in their order."""
    made = planned(source("full", "bf16"))
    sizes = {s: SIZES[s.name] for v in made.program.inputs for d in v.shape for s in d.variables}
    streams = [kernel for kernel in made.kernels if family_of(kernel) == "stream"]
    ready = prepare(streams[number], made.lying(sizes), sizes)
    return stages(ready.kernel, MAPPING, HOPPER, made.values, ready.granted).barriers


@pytest.mark.parametrize("number", range(4))
def test_what_the_compiler_makes_is_proved(number: int) -> None:
    assert isinstance(verify(lowered(number)), Proof)


MUTANTS: list[tuple[str, int, type, Change, set[str]]] = [
    ("a row value that is not stored", 0, t.StoreRows, drop, {"content"}),
    ("a row value that is stored twice", 0, t.StoreRows, twice, {"content"}),
    ("rows that are not finished", 0, t.Finish, drop, {"content"}),
    ("a product of scores that is missing", 2, b.Product, drop, {"content", "phase"}),
    ("scores that are not waited for", 2, b.Retire, drop, {"registers", "overwrite", "read"}),
    ("a fold of too few scores", 2, t.Fold, drop, {"content"}),
    ("a ring that is not given back", 2, b.Release, drop, {"deadlock", "exit"}),
    ("a ring that is not waited for", 2, b.Await, drop, {"read", "overwrite", "phase"}),
]


@pytest.mark.parametrize(("name", "stream", "kind", "change", "kinds"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_changed_operation_is_refused(name: str, stream: int, kind: type, change: Change, kinds: set[str]) -> None:
    made = lowered(stream)
    places = list(sites(made, kind))
    assert places
    waits = [op for _, op in places if isinstance(op, b.Retire)]
    for number, op in places:
        if isinstance(op, b.Retire) and waits.count(op) < len(waits) and second(made, number):
            continue  # the second of two waits for one group
        refused(mutate(made, number, change), kinds, f"{name}: {op} at {number}")


def second(made: BarrierProgram, number: int) -> bool:
    """Whether an operation stands beside another of its kind, which does what it would do."""
    ops = [op for role in made.roles for op in b.operations(role.body)]
    return isinstance(ops[number - 1], b.Retire) or isinstance(ops[number + 1], b.Retire)


def test_memory_is_that_of_the_operands() -> None:
    """All tensors between the kernels together take less than one of queries by keys."""
    made = planned(source("full", "bf16"))
    named = {"b": 4, "t": 2048, "s": 2048, "d": 64, "e": 64}
    sizes = {s: named[s.name] for v in made.program.inputs for d in v.shape for s in d.variables}
    stored = [value for kernel in made.kernels for value in results_of(kernel)]
    taken = sum(prod(d.evaluate(sizes) for d in value.shape) * value.element.bits // 8 for value in stored)
    assert taken < 2 * 4 * 2048 * 2048 / 4
