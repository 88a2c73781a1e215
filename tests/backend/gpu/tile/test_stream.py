"""Streams: which programs are one pass, that their barrier programs compute what the interpreter does, and what is refused."""

from __future__ import annotations

import random
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.proof.simulate import simulate
from axon.backend.gpu.report.show import show
from axon.backend.gpu.roles.barriers import BarrierProgram
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile.bounds import bounds
from axon.backend.gpu.tile.contraction import MatrixProduct
from axon.backend.gpu.tile.families import kernels, results_of
from axon.backend.gpu.tile.limbs import counts
from axon.backend.gpu.tile.schedule import ScheduleProblem, TileMapping, check, choose, predict
from axon.backend.gpu.tile.stream import Stream
from axon.backend.needs import Missing
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.names import fresh
from axon.core.ir import Binary, Const, Index, Local, Program, Scalar, Select, Unary
from axon.core.passes.cse import deduplicated
from axon.core.walk import nodes
from axon.shapes.dimension import Dim
from tests.backend.gpu.streams import NAMES, error, expected, inputs, program
from tests.checked import checked

ONE = TileMapping(64, 64, 64, 2, consumers=1, cluster=1, keys=64)
TWO = TileMapping(128, 64, 64, 2, consumers=2, cluster=1, keys=48, turns=True)
APART = TileMapping(128, 64, 64, 2, in_flight=0, consumers=2, cluster=1, keys=64)
THREE = TileMapping(192, 64, 64, 3, consumers=3, cluster=1, keys=32, turns=True, slots=2)
MAPPINGS = {"one consumer": ONE, "two in turn": TWO, "nothing overlaps": APART, "three in turn": THREE}
SIZES = {"b": 2, "h": 2, "s": 200, "t": 150, "d": 48, "e": 40, "n": 2, "g": 2}


def the_stream(name: str) -> Stream:
    (kernel,) = kernels(program(name))
    assert isinstance(kernel, Stream)
    return kernel


def simulated_forms(kernel: Stream, mapping: TileMapping, made: Program) -> BarrierProgram:
    """A kernel as a barrier program."""
    stored = results_of(kernel)
    granted = Granted(frozenset(value.symbol for value in stored))
    return stages(kernel, mapping, HOPPER, (*made.inputs, *stored), granted).barriers


def simulated(name: str, mapping: TileMapping, sizes: dict[str, int], *, seed: int = 0, whole: int = 70) -> float:
    """The error of a simulated run against float64."""
    made = program(name)
    (kernel,) = kernels(made)
    given = inputs(made, sizes, seed, whole)
    held = {v.symbol: a for v, a in zip(made.inputs, given.arrays, strict=True)}
    for result in kernel.results:
        held[result.value.symbol] = np.zeros([d.evaluate(given.sizes) for d in result.value.shape], result.value.element.dtype)
    assert isinstance(kernel, Stream)
    barriers = simulated_forms(kernel, mapping, made)
    assert isinstance(verify(barriers), Proof)
    with np.errstate(all="ignore"):
        simulate(barriers, held, given.sizes, seed=seed)
        return error(held[made.block.results[0]], expected(name, given))


@pytest.mark.parametrize("name", NAMES)
def test_every_way_to_write_it_is_one_stream(name: str) -> None:
    assert simulated(name, ONE, SIZES) < 1.2e-2


@pytest.mark.parametrize("keys", [64, 72, 96, 136, 160, 192])
def test_keys_that_lie_along_the_streamed_index(keys: int) -> None:
    """Their tiles are made of whole panels, at every size."""
    source = """fun f (q : bf16[s, d]) (k : bf16[d, t]) (v : bf16[t, e]) =
      let val x = for i j => (sum c => cast f32 q[i, c] * cast f32 k[c, j])
          val m = for i => max j => x[i, j]
          val z = for i => sum j => exp (x[i, j] - m[i])
      in for i c => cast bf16 (sum j => exp (x[i, j] - m[i]) / z[i] * cast f32 v[j, c]) end"""
    chance = np.random.default_rng(keys)
    q, k, v = (chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((40, 16), (16, keys), (keys, 24)))
    module = axon.compile(source)
    got, want = (module.f(q, k, v, target=target).astype(float) for target in ("simulate", "interpret"))
    np.testing.assert_allclose(got, want, atol=3e-2)


def test_a_sum_of_nothing_is_not_divided_after_the_pass() -> None:
    """Where a row may have no element that counts, 0 is the sum: one pass would divide 0 by 0."""
    source = """fun f {t} (q : bf16[s, d]) (k : bf16[s, d]) =
      let val x = for i j => (sum c => cast f32 q[i, c] * cast f32 k[j, c])
          val m = for i => max for j where i - j > t => x[i, j]
          val z = for i => sum for j where i - j > t => exp (x[i, j] - m[i])
      in for i c => cast bf16 (sum for j where i - j > t => exp (x[i, j] - m[i]) / z[i] * cast f32 k[j, c]) end"""
    found = kernels(compiler.lower(compiler.check_text(source), "f", None))
    assert not any(isinstance(kernel, Stream) for kernel in found)
    q = np.random.default_rng(0).standard_normal((40, 16)).astype(ml_dtypes.bfloat16)
    module = axon.compile(source)
    got, want = (module.f[3](q, q, target=target).astype(float) for target in ("simulate", "interpret"))
    np.testing.assert_allclose(got, want, atol=2e-2)
    assert not got[:4].any()


@pytest.mark.parametrize("mapping", MAPPINGS)
@pytest.mark.parametrize("name", ["causal", "window", "grouped", "linear"])
def test_mappings_change_no_result(name: str, mapping: str) -> None:
    assert simulated(name, MAPPINGS[mapping], SIZES, seed=3) < 1.2e-2


@pytest.mark.parametrize("part", range(4))
def test_random_sizes(part: int) -> None:
    chance = random.Random(part)
    for number in range(3):
        sizes = {"b": chance.randint(1, 2), "h": chance.randint(1, 3), "n": 2, "g": chance.randint(1, 3)}
        sizes |= {"s": chance.randint(1, 300), "t": chance.randint(1, 300), "d": chance.randint(1, 64), "e": chance.randint(1, 64)}
        name, mapping = chance.choice(NAMES), chance.choice(list(MAPPINGS.values()))
        found = simulated(name, mapping, sizes, seed=number, whole=chance.randint(1, 200))
        assert found < 1.5e-2, (name, mapping, sizes)


@pytest.mark.parametrize(("weight", "streams"), [("w[i, j] / z[i]", False), ("p[i, j]", True), ("p[i, j] * 1e2", True)])
def test_weights_of_32_bits_that_f16_may_not_hold(weight: str, streams: bool) -> None:
    """Powers of scores may not be held, before they are divided by their sum; powers below the greatest are."""
    source = f"""import nn
    fun f (q : f16[s, d]) (k : f16[t, d]) (v : f16[t, e]) =
      let val x = for i j => sum c => cast f32 q[i, c] * cast f32 k[j, c]
          val w = for i j => exp x[i, j]
          val z = for i => sum j => w[i, j]
          val p = nn.softmax x
      in for i e => cast f16 (sum j => {weight} * cast f32 v[j, e] * 1e-3) end"""
    found = kernels(compiler.lower(compiler.check_text(source), "f", None))
    assert any(isinstance(kernel, Stream) for kernel in found) == streams
    chance = np.random.default_rng(0)
    q, k, v = (chance.standard_normal(shape).astype(np.float16) for shape in ((20, 16), (30, 16), (30, 24)))
    got, want = (axon.compile(source).f(q, k, v, target=target).astype(float) for target in ("simulate", "interpret"))
    np.testing.assert_allclose(got, want, rtol=2e-2, atol=1e-4)


@pytest.mark.parametrize("keys", [1, 5])
def test_a_sum_of_an_operand_is_no_statistic_of_a_row(keys: int) -> None:
    """It runs over as many as the streamed index, but has one value for each index that the scores are summed over."""
    source = """import nn
    fun f (q : bf16[b, s, d]) (k : bf16[b, t, d]) (v : bf16[b, t, e]) (wo : bf16[e, m]) =
      let val s = nn.attention_scores q k
          val values = for b j e => v[b, j, e] * rsqrt ((sum z => v[b, j, z] ** 2) + 0.5)
          val p = nn.softmax s
          val o = for b i e => sum j => p[b, i, j] * values[b, j, e]
      in for b i m => sum e => o[b, i, e] * wo[e, m] end"""
    chance = np.random.default_rng(0)
    shapes = ((1, 40, 8), (1, keys, 8), (1, keys, 24), (24, 16))
    given = [chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    got, want = (axon.compile(source).f(*given, target=target).astype(float) for target in ("simulate", "interpret"))
    np.testing.assert_allclose(got, want, atol=3e-2 * abs(want).max())


@pytest.mark.parametrize(
    "value", ["let val r = tanh u[i, e] in o[i, e] * (1.0 - r * r) end", "let val r = o[i, e] + 1.0 in r * r end"]
)
def test_a_name_in_what_follows_attention(value: str) -> None:
    source = f"""import nn
    fun f (u : bf16[s, e]) (q : bf16[s, d]) (k : bf16[t, d]) (v : bf16[t, e]) =
      let val o = nn.attention q k v in for i e => {value} end"""
    (kernel,) = kernels(compiler.lower(compiler.check_text(source), "f", None))
    assert isinstance(kernel, Stream)
    chance = np.random.default_rng(0)
    given = [chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((20, 24), (20, 16), (33, 16), (33, 24))]
    got, want = (axon.compile(source).f(*given, target=target).astype(float) for target in ("simulate", "interpret"))
    np.testing.assert_allclose(got, want, atol=3e-2 * abs(want).max())


@pytest.mark.parametrize(
    "weight",
    ["if s[i, j] > 0.0 then 1.0 else 0.0", "max s[i, j] 0.0", "if s[i, j] > -0.3 then exp s[i, j] else 0.0", "clipped"],
)
def test_scores_decide_which_elements_count(weight: str) -> None:
    """A condition over scores is asked of each of them; it bounds no pieces."""
    source = f"""import nn
    fun f (q : bf16[s, d]) (k : bf16[t, d]) (v : bf16[t, e]) =
      let val s = for i j => (sum c => cast f32 q[i, c] * cast f32 k[j, c]) * 0.3
          val clipped = nn.softmax (for i j => if s[i, j] > -0.3 then s[i, j] else -inf)
      in for i e => cast bf16 (sum j => ({weight if weight != "clipped" else "clipped[i, j]"}) * cast f32 v[j, e]) end
    fun g q k v dy = vjp (fn (q, k, v) => f q k v) (q, k, v) dy"""
    chance = np.random.default_rng(0)
    shapes = ((20, 16), (30, 16), (30, 16), (20, 16))
    given = [chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes]
    module = axon.compile(source)
    got, want = (module.g(*given, target=target) for target in ("simulate", "interpret"))
    for mine, true in zip((got[0], *got[1]), (want[0], *want[1]), strict=True):
        mine, true = mine.astype(float), true.astype(float)
        np.testing.assert_allclose(mine, true, atol=3e-2 * max(1e-6, abs(true).max()))


@pytest.mark.parametrize("weight", ["p[i, j]", "p[i, j] / (1.0 + z[i])", "p[i, j] * 3.0 / z[i]"])
def test_a_row_that_a_mask_empties_is_not_a_number_however_it_is_scaled(weight: str) -> None:
    source = f"""fun f (q : bf16[s, d]) (k : bf16[t, d]) (v : bf16[t, e]) =
      let val x = for i, j => (sum c => cast f32 q[i, c] * cast f32 k[j, c])
          val y = for i, j => if j < 10 * i then x[i, j] else -inf
          val m = for i => max j => y[i, j]
          val p = for i, j => exp (y[i, j] - m[i])
          val z = for i => sum j => p[i, j]
      in for i, e => cast bf16 (sum j => {weight} * cast f32 v[j, e]) end"""
    found = kernels(compiler.lower(compiler.check_text(source), "f", None))
    assert [type(kernel) for kernel in found] == [Stream]
    chance = np.random.default_rng(0)
    q, k, v = (chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((3, 16), (100, 16), (100, 16)))
    module = axon.compile(source)
    got, want = (module.f(q, k, v, target=target).astype(float) for target in ("simulate", "interpret"))
    assert np.isnan(want[0]).all()
    np.testing.assert_allclose(got, want, atol=3e-2 * np.nanmax(abs(want)))


def test_a_row_that_a_mask_empties_is_not_a_number_as_in_the_definition() -> None:
    assert simulated("window", TWO, SIZES, whole=0) == 0.0


# ── the algebra ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_mask_times_an_index_is_not_a_number_in_the_first_row() -> None:
    # -inf * 0: a mask leaves a product only if the other factor is above 0, and an index begins at 0.
    assert simulated("ranked", ONE, SIZES | {"t": 200}) < 0.02


def test_what_scales_scores_leaves_the_maximum() -> None:
    kernel = the_stream("full")
    assert kernel.change == Local(kernel.score, Element.F32)  # not multiplied by 1 / sqrt d element by element
    assert kernel.totals[0][1] == kernel.weight  # the same exponentials for the sum and the product
    assert len(kernel.finals) == 1  # one reciprocal per row


def test_a_soft_cap_keeps_its_factor_out_of_the_elements() -> None:
    kernel = the_stream("softcap")
    assert isinstance(kernel.change, Unary)
    assert kernel.change.op == "tanh"
    assert kernel.weight.scale == Const(30.0, Element.F32)


def test_masks_that_cannot_be_decided_by_tiles_still_mask() -> None:
    assert the_stream("documents").condition is not None
    assert the_stream("full").condition is None


def test_nothing_depends_on_names() -> None:
    text = """
fun zog (a : bf16[p, u, w]) (b : bf16[p, z, w]) (c : bf16[p, z, y]) =
  let val m = for p u => max z => (sum w => cast f32 a[p, u, w] * cast f32 b[p, z, w])
      val r = for p u => sum z => exp ((sum w => cast f32 a[p, u, w] * cast f32 b[p, z, w]) - m[p, u])
  in for p u y => cast bf16 ((sum z =>
       exp ((sum w => cast f32 a[p, u, w] * cast f32 b[p, z, w]) - m[p, u]) * cast f32 c[p, z, y]) / r[p, u]) end
"""
    found = kernels(deduplicated(compiler.lower(compiler.check_text(text), "zog", None)))
    assert [type(k).__name__ for k in found] == ["Stream"]


REFUSED = {
    "two maxima": (
        "let val m = for i => max j => x[i, j] val n = for i => max j => 0.0 - x[i, j] in"
        " for i e => cast bf16 (sum j => exp (x[i, j] - m[i] - n[i]) * cast f32 v[j, e]) end",
        "two maxima",
    ),
}


# Of these the second product takes its factor in limbs: it is on the tensor cores all the same, and nothing is said.
IN_LIMBS = {
    "no running correction": (
        "let val m = for i => max j => x[i, j] val p = for i j => exp (x[i, j] / m[i]) in"
        " for i e => cast bf16 (sum j => p[i, j] * cast f32 v[j, e]) end"
    ),
    "scores needed elsewhere": (
        "let val m = for i => max j => x[i, j] val p = for i j => exp (x[i, j] - m[i]) in"
        " (for i e => cast bf16 (sum j => p[i, j] * cast f32 v[j, e]), p) end"
    ),
}


def attention(body: str) -> Program:
    head = (
        "fun f (q : bf16[s, d]) (k : bf16[t, d]) (v : bf16[t, e]) =\n"
        "  let val x = for i j => sum c => cast f32 q[i, c] * cast f32 k[j, c] in\n"
    )
    return compiler.lower(compiler.check_text(f"{head}{body} end"), "f", None)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_says_why(name: str) -> None:
    body, reason = REFUSED[name]
    found = kernels(attention(body))
    assert not any(isinstance(kernel, Stream) for kernel in found)
    assert any(reason in why.text for kernel in found if isinstance(kernel, Nest) for why in kernel.reasons)


@pytest.mark.parametrize("body", IN_LIMBS.values(), ids=IN_LIMBS)
def test_what_is_no_stream_may_be_a_product_of_limbs(body: str) -> None:
    found = kernels(attention(body))
    assert not any(isinstance(kernel, Stream) for kernel in found)
    assert [counts(kernel) for kernel in found if isinstance(kernel, MatrixProduct)] == [(0, 0), (3, 0)]


# ── what a mask leaves ──────────────────────────────────────────────────────────────────────────────────────────────────


def conditions(chance: random.Random, i: Dim, j: Dim, depth: int = 2) -> Scalar:
    if depth and chance.random() < 0.6:
        if chance.random() < 0.25:
            return Unary("not", conditions(chance, i, j, depth - 1))
        return Binary(chance.choice(["and", "or"]), conditions(chance, i, j, depth - 1), conditions(chance, i, j, depth - 1))
    left = Index(i * chance.randint(-2, 2) + j * chance.randint(-3, 3) + chance.randint(-9, 9))
    return Binary(chance.choice(["lt", "le", "gt", "ge", "eq", "ne"]), left, Index(Dim.of(chance.randint(-20, 20))))


def value(scalar: Scalar, known: dict[object, int]) -> int:
    match scalar:
        case Const(value=number):
            return int(number)
        case Index(dim=dim):
            return dim.evaluate(known)  # type: ignore[arg-type]
        case Local(symbol=symbol):
            return known[symbol]
        case Unary(op=op, operand=operand):
            return int(not value(operand, known)) if op == "not" else -value(operand, known)
        case Select(condition=condition, then=then, otherwise=otherwise):
            return value(then if value(condition, known) else otherwise, known)
        case Binary(op=op, left=left, right=right):
            a, b = value(left, known), value(right, known)
            table = {
                "add": a + b, "sub": a - b, "mul": a * b, "min": min(a, b), "max": max(a, b), "lt": a < b, "le": a <= b,
                "gt": a > b, "ge": a >= b, "eq": a == b, "ne": a != b, "and": a and b, "or": a or b, "div": a // b if b else 0,
            }  # fmt: skip
            return int(table[op])
    raise AssertionError(scalar)


def test_bounds_against_enumeration() -> None:
    """Outside `some` no row keeps an index, inside `every` all rows do, for random conditions and tiles of rows."""
    chance = random.Random(0)
    rows, keys = fresh("i"), fresh("j")
    sharp = 0
    for _ in range(600):
        condition = conditions(chance, Dim.of(rows), Dim.of(keys))
        made = bounds(condition, rows, keys, Dim.of(24), lambda read: False)
        first = chance.randint(0, 20)
        last = first + chance.randint(0, 6)
        known: dict[object, int] = {made.first_row: first, made.last_row: last}
        some = range(max(0, value(made.some[0], known)), min(24, value(made.some[1], known)))
        every = range(max(0, value(made.every[0], known)), min(24, value(made.every[1], known)))
        for j in range(24):
            holds = [bool(value(condition, {rows: i, keys: j})) for i in range(first, last + 1)]
            assert any(holds) <= (j in some), condition
            assert (j in every) <= all(holds), condition
        sharp += len(some) < 24
    assert sharp > 150  # and they do leave something out


# ── mappings ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_model_picks_legal_mappings_that_hold_the_heads() -> None:
    facts = traits(the_stream("causal"))
    for head in (40, 64, 96, 128, 192, 256):
        for sequence in (1, 100, 1024, 16384):
            picked = choose(ScheduleProblem(sequence, head, head, 32, sequence, True), facts, HOPPER)
            assert check(picked, HOPPER, facts) == ()
            assert min(picked.columns, picked.depth) >= head


def test_a_head_that_is_too_wide_for_one_tile_has_no_mapping() -> None:
    assert predict(TWO, ScheduleProblem(128, 72, 64, 1, 128), HOPPER) == float("inf")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cluster": 2}, "do not share"), ({"rows": 256}, "rows for each consumer"), ({"keys": 40}, "keys must be a multiple"),
        ({"keys": 0}, "keys are for streams"), ({"columns": 256, "keys": 256}, "registers"), 
        ({"consumers": 1, "rows": 64}, "no turns"), ({"specialized": False}, "a producer of its own"),
    ],
)  # fmt: skip
def test_mappings_that_do_not_fit_are_told_why(change: dict[str, int], words: str) -> None:
    assert any(words in text for text in check(replace(TWO, **change), HOPPER, traits(the_stream("full"))))


def test_a_kernel_has_no_branch_for_what_it_does_not_mask() -> None:
    """Inside a mask elements are not compared with it: the plain branch applies no function."""
    made = program("causal")
    (kernel,) = kernels(made)
    forms = stages(kernel, ONE, HOPPER, (*made.inputs, *(r.value for r in kernel.results)), Granted())
    assert "changed_0 = scores_0" in forms.source.text
    assert any(isinstance(n, Select) for n in nodes(kernel.change))


def test_machine_code_without_a_gpu() -> None:
    """A cubin whose matrix products run on tensor cores, fed by bulk copies, with registers moved between roles."""
    made = program("causal")
    known = {"b": 16, "h": 32, "s": 1024, "d": 64, "e": 64}
    sizes = {symbol: known[symbol.name] for v in made.inputs for d in v.shape for symbol in d.variables}
    show(made, "kernel", sizes)  # builds: raises for spills, and for products that the compiler has serialized
    try:
        sass = show(made, "sass", sizes)
    except Missing as missing:  # the disassembler is no part of the tools that build
        pytest.skip(str(missing))
    for instruction in ("HGMMA", "UTMALDG", "USETMAXREG"):
        assert instruction in sass


def test_pages_of_a_cache_are_gathered_before() -> None:
    """Keys and values at computed rows are copied once, before sizes say anything else; attention is then a stream."""
    source = """import nn
    fun f (page : i32[b, m]) (q : bf16[b, h, s, d]) (keys : bf16[p, 16, h, d]) (values : bf16[p, 16, h, e]) =
      let val k = for b h, j < 16 * m, c => keys[page[b, j / 16], j % 16, h, c]
          val v = for b h, j < 16 * m, c => values[page[b, j / 16], j % 16, h, c]
      in nn.attention q k v end"""
    *before, kernel = plan(compiler.lower(compiler.check_text(source), "f", None), HOPPER).kernels
    assert isinstance(kernel, Stream)
    assert len(before) == 2
    chance = np.random.default_rng(0)
    page = chance.permutation(12).reshape(2, 6).astype(np.int32)
    shapes = ((2, 2, 3, 32), (12, 16, 2, 32), (12, 16, 2, 24))
    q, keys, values = (chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    got = axon.compile(source).f(page, q, keys, values, target="simulate").astype(float)
    k, v = (cache.astype(float)[page].reshape(2, 96, 2, -1).swapaxes(1, 2) for cache in (keys, values))
    scores = q.astype(float) @ k.swapaxes(-1, -2) / np.sqrt(32)
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    np.testing.assert_allclose(got, weights / weights.sum(-1, keepdims=True) @ v, atol=3e-2)


# Heads that share keys stand behind positions: both are indices of queries alone.
GROUPED = """fun f (q : bf16[b, t, g, m, d]) (k : bf16[b, s, g, d]) (v : bf16[b, s, g, e]) =
  let val w = for b g m i j => sum d => q[b, i, g, m, d] * k[b, j, g, d]
      val top = for b g m i => max j => w[b, g, m, i, j]
      val z = for b g m i => sum j => exp (w[b, g, m, i, j] - top[b, g, m, i])
  in (for b i g m e => sum j => exp (w[b, g, m, i, j] - top[b, g, m, i]) / z[b, g, m, i] * v[b, j, g, e], top, z) end"""


@pytest.mark.parametrize(("positions", "members", "rows"), [(2048, 4, "t"), (2, 32, "m"), (96, 96, "m")])
def test_tiles_have_rows_of_the_longer_index(positions: int, members: int, rows: str) -> None:
    """By the sizes of a call, where the program leaves it open; statistics are results, so no rows become one."""
    made = compiler.lower(checked(GROUPED), "f", None)
    sizes = {"b": 1, "t": positions, "s": 2048, "g": 2, "m": members, "d": 64, "e": 64}
    bound = {symbol: sizes[symbol.name] for value in made.inputs for dim in value.shape for symbol in dim.variables}
    planned = Executable(made).serving({}, bound).planned
    (kernel,) = (kernel for kernel in planned.kernels if isinstance(kernel, Stream))
    assert kernel.rows.extent.symbol is not None
    assert kernel.rows.extent.symbol.name == rows


def test_tiles_of_self_attention_have_rows_of_positions() -> None:
    """Whatever the sizes are, before they are known: what the mask proves of a row is known of positions."""
    made = compiler.lower(checked(GROUPED.replace("bf16[b, t, g", "bf16[b, s, g")), "f", None)
    (kernel,) = (kernel for kernel in kernels(made) if isinstance(kernel, Stream))
    assert kernel.rows.extent == kernel.keys.extent


@pytest.mark.parametrize(("positions", "members"), [(40, 3), (3, 70)])
def test_either_index_may_be_that_of_rows(positions: int, members: int) -> None:
    chance = np.random.default_rng(0)
    shapes = (1, positions, 2, members, 16), (1, 90, 2, 16), (1, 90, 2, 24)
    q, k, v = (chance.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in shapes)
    got, top, z = axon.compile(GROUPED).f(q, k, v, target="simulate")
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    w = np.einsum("bigmd,bjgd->bgmij", q, k)
    weights = np.exp(w - w.max(-1, keepdims=True))
    want = np.einsum("bgmij,bjge->bigme", weights / weights.sum(-1, keepdims=True), v)
    assert error(got, want) < 1.2e-2
    assert error(top, w.max(-1)) < 1.2e-2
    assert error(z, weights.sum(-1)) < 4e-2  # of the greatest, which is rounded
