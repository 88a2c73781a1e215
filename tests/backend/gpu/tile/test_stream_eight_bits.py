"""Streams of 8-bit floats: which products are of these, what they compute, how far off, what is proved and built."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build import cubin
from axon.backend.gpu.build.recipe import Stages, stages, traits
from axon.backend.gpu.intrinsics.ptx_tiles import short_words
from axon.backend.gpu.layout.assumptions import Granted
from axon.backend.gpu.layout.products import INTERLEAVED, PROMOTED, Precision, error_bound, key_of
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.accumulate import cut_off
from axon.backend.gpu.proof.findings import Proof
from axon.backend.gpu.proof.prove import verify
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.roles import barriers as b
from axon.backend.gpu.runtime import ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.ways import Planned, Way, plan
from axon.backend.gpu.tile import ir as t
from axon.backend.gpu.tile.schedule import TileMapping, candidates, check
from axon.backend.gpu.tile.schedule_file import Schedule, parse
from axon.backend.gpu.tile.stream import Stream
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.source import SourceFile
from axon.core.ir import Program
from axon.core.passes.parts import parts, straights
from tests.backend.gpu.proof.mutants import drop, exchanged, mutate, refused, sites, turned_over, twice
from tests.backend.gpu.runtime.emulated import emulated
from tests.sample import SOAK

ATTENTION = """import nn
fun f (q : {q}[b, h, s, d]) (k : {k}[b, h, t, d]) (v : {v}[b, h, t, e]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h, j, c]) * rsqrt (cast f32 d)
      val p = nn.softmax x
  in for b h i c => sum j => {p} * cast f32 v[b, h, j, c] end"""
P, SHORT = "p[b, h, i, j]", "cast f32 (cast f8e4m3 p[b, h, i, j])"
E4M3 = {"q": "f8e4m3", "k": "f8e4m3", "v": "f8e4m3"}
PLAIN, ROUNDED = ATTENTION.format(**E4M3, p=P), ATTENTION.format(**E4M3, p=SHORT)
# Scales of a tensor, of rows and of heads for the queries, of keys for these, and of a head for values; one mask, shared heads.
SCALED = """import nn
fun f (q : f8e4m3[b, 2 * g, s, d]) (k : f8e5m2[b, g, s, d]) (v : f8e4m3[b, g, s, e])
      (all : f32) (rows : f32[b, 2 * g, s]) (keys : f32[b, g, s]) (head : f32[g]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / 2, j, c])
        * all * rows[b, h, i] * keys[b, h / 2, j] * rsqrt (cast f32 d)
      val p = nn.softmax (for b h i j => if j <= i then x[b, h, i, j] else -inf)
  in for b h i c => cast bf16 (sum j => cast f32 (cast f8e4m3 p[b, h, i, j]) * (cast f32 v[b, h / 2, j, c] * head[h / 2])) end"""
DECODING = """import nn
fun f (q : bf16[b, 4 * g, s, d]) (k : f8e4m3[b, g, t, d]) (v : f8e4m3[b, g, t, e]) (ks : f32[b, g, t]) (vs : f32[b, g, t]) =
  let val x = for b h i j => (sum c => cast f32 q[b, h, i, c] * cast f32 k[b, h / 4, j, c]) * ks[b, h / 4, j] * rsqrt (cast f32 d)
      val p = nn.softmax x
  in for b h i c => cast bf16 (sum j => p[b, h, i, j] * vs[b, h / 4, j] * cast f32 v[b, h / 4, j, c]) end"""
ONE = TileMapping(64, 64, 128, 2, consumers=1, cluster=1, keys=128)
TWO = TileMapping(128, 64, 128, 2, consumers=2, cluster=1, keys=128, turns=True)
WAITS = replace(TWO, in_flight=0, turns=False)


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


def planned(source: str, way: Way | None = None) -> Planned:
    (part,) = straights(parts(program(source)).body)
    return plan(part.program, HOPPER, way or Way())


def the_stream(source: str, way: Way | None = None) -> Stream:
    *_, kernel = planned(source, way).kernels
    assert isinstance(kernel, Stream)
    return kernel


def made(source: str, mapping: TileMapping, way: Way | None = None) -> Stages:
    found = planned(source, way)
    *_, kernel = found.kernels
    assert isinstance(kernel, Stream)
    return stages(kernel, mapping, HOPPER, found.values, Granted(frozenset(r.place.symbol for r in kernel.results)))


def allowing(text: str = 'precision = "fast"') -> Schedule:
    return parse(SourceFile("model.schedule", f"[f]\n{text}"), "model.axon", ["f"])["f"]


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream of 8 bits, however little there is to do."""
    monkeypatch.setattr(ways, "better_one_by_one", lambda *_: None)
    monkeypatch.setattr(ways, "better_widened", lambda *_: None)


def drawn(*shapes: tuple[int, ...], seed: int = 0, element: Element = Element.F8E4M3) -> list[Any]:
    chance = np.random.default_rng(seed)
    return [chance.standard_normal(shape).astype(element.dtype) for shape in shapes]


def attention(q: Any, k: Any, v: Any, factor: Any = 1.0, causal: bool = False) -> tuple[Any, Any, Any]:
    """In float64: the result, that of absolute values, and the products of the absolute values of queries and keys, scaled."""
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    scale = factor * q.shape[-1] ** -0.5
    x, mass = (a @ c.swapaxes(-1, -2) * scale for a, c in ((q, k), (abs(q), abs(k))))
    if causal:
        x = np.where(np.tri(*x.shape[-2:], dtype=bool), x, -np.inf)
    w = np.exp(x - x.max(-1, keepdims=True))
    p = w / w.sum(-1, keepdims=True)
    return p @ v, p @ abs(v), mass


# ── which products ──────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("source", "way", "scores", "values", "copies"),
    [
        (PLAIN, Way(), "f8e4m3", "bf16", 1),
        (ROUNDED, Way(), "f8e4m3", "f8e4m3", 2),
        (PLAIN, Way(precision=Precision.FAST), "f8e4m3", "f8e4m3", 2),
        (ATTENTION.format(q="f8e5m2", k="f8e4m3", v="bf16", p=P), Way(), "f8e5m2", "bf16", 0),
        (ATTENTION.format(q="bf16", k="f8e4m3", v="f8e4m3", p=P), Way(), "bf16", "bf16", 2),
        (ATTENTION.format(q="f16", k="f8e4m3", v="f8e5m2", p=P), Way(), "f16", "f16", 2),
        (ATTENTION.format(q="bf16", k="bf16", v="f8e5m2", p=SHORT), Way(), "bf16", "f8e5m2", 2),
        (ATTENTION.format(q="bf16", k="bf16", v="bf16", p=SHORT), Way(), "bf16", "bf16", 0),
    ],
)
def test_weights_are_rounded_to_8_bits_where_someone_says_so(source: str, way: Way, scores: str, values: str, copies: int) -> None:
    found = planned(source, way).kernels
    kernel = the_stream(source, way)
    assert (kernel.query.value.element.value, kernel.value.value.element.value) == (scores, values)
    assert len(found) == 1 + copies
    assert kernel.interleaved == (values.startswith("f8"))
    assert kernel.promotion == (PROMOTED if kernel.interleaved and not way.precision else 0)


def test_weights_that_are_not_known_to_be_at_most_1_keep_their_bits() -> None:
    """Those that a scale of each key multiplies, for example."""
    source = ROUNDED.replace("(v :", "(u : f32[t]) (v :").replace(SHORT, "cast f32 (cast f8e4m3 (p[b, h, i, j] * u[j]))")
    kernel = the_stream(source)
    assert (kernel.query.value.element, kernel.value.value.element) == (Element.F8E4M3, Element.BF16)


def test_values_that_two_streams_read_are_copied_once() -> None:
    twin = ROUNDED.replace("fun f", "fun g").replace("(q :", "(r : f8e4m3[b, h, s, d]) (q :")
    both = twin.replace("p[b, h, i, j]) *", "p[b, h, i, j]) *") + "\nfun f r q k v = (g r q k v, g q r k v)"
    found = planned(both).kernels
    assert [type(kernel) for kernel in found].count(Nest) == 2
    assert [type(kernel) for kernel in found].count(Stream) == 2


def test_streams_of_gradients_have_no_factors_of_8_bits() -> None:
    source = (
        PLAIN.replace("fun f", "fun g")
        + """
fun f (q : f8e4m3[b, h, s, d]) (k : f8e4m3[b, h, t, d]) (v : f8e4m3[b, h, t, e]) (dy : f32[b, h, s, e]) =
  grad (fn v => sum for b h i c => (g q k v)[b, h, i, c] * dy[b, h, i, c]) v"""
    )
    for kernel in planned(source).kernels:
        assert not isinstance(kernel, Stream) or all(operand.value.element.bits > 8 for operand in kernel.operands)


@pytest.mark.parametrize(
    ("source", "shapes", "streams", "short"),
    [
        (ROUNDED, [(1, 16, 4096, 128)] * 3, True, True),
        (ROUNDED, [(1, 16, 4096, 256)] * 3, True, False),  # scores of so deep a sum would have to be promoted
        (DECODING, [(8, 32, 1, 128), (8, 8, 8192, 128), (8, 8, 8192, 128), (8, 8, 8192), (8, 8, 8192)], False, False),
        (DECODING, [(1, 32, 4096, 128), (1, 8, 4096, 128), (1, 8, 4096, 128), (1, 8, 4096), (1, 8, 4096)], True, False),
    ],
    ids=["f8", "wide heads", "decoding", "many queries"],
)
def test_sizes_decide(
    source: str, shapes: list[tuple[int, ...]], streams: bool, short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few rows plain kernels read 8-bit keys and values as they lie; copies in 16 bits would move five times as much."""
    emulated(monkeypatch)
    core = program(source)
    found = Executable(core).serving({}, core.contract.bind((), shapes)).planned.kernels
    kernels = [kernel for kernel in found if isinstance(kernel, Stream)]
    assert bool(kernels) == streams
    assert all(kernel.interleaved == short for kernel in kernels)
    if source == DECODING and not streams:
        assert all(operation.outs[0].element.bits != 16 for kernel in found[:-1] for operation in kernel.steps)  # type: ignore[union-attr]


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_registers_hold_weights_as_matrix_instructions_take_them() -> None:
    """By what PTX says of both: where a warpgroup's thread has its sums, and where its factors of 8 bits (wgmma, m64k32)."""
    columns = 64
    for lane in range(32):
        quad, t4 = divmod(lane, 4)
        of_sum = [(quad + 8 * (n % 4 // 2), 8 * (n // 4) + 2 * t4 + n % 2) for n in range(columns // 2)]
        for number, word in enumerate(short_words(columns)):
            block, register = divmod(number, 4)
            for byte, value in enumerate(word):
                row = quad + 8 * (register % 2)
                place = 32 * block + 4 * t4 + byte + 16 * (register // 2)
                assert of_sum[value] == (row, key_of(place))
    assert sorted(map(key_of, range(2 * INTERLEAVED))) == list(range(2 * INTERLEAVED))


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sizes", [(70, 200, 128, 64), (64, 131, 64, 128), (130, 17, 48, 40), (1, 1, 16, 16)])
def test_scores_of_8_bits_and_weights_of_16(sizes: tuple[int, int, int, int]) -> None:
    s, n, d, e = sizes
    q, k, v = drawn((2, 2, s, d), (2, 2, n, d), (2, 2, n, e))
    (got,) = run(program(PLAIN), [q, k, v])
    want, mass, _ = attention(q, k, v)
    assert (abs(got - want) <= 2.0**-8 * mass + 1e-6).all()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("kind", ["program", "schedule"])
@pytest.mark.parametrize("sizes", [(70, 200, 128, 64), (64, 131, 64, 128), (130, 300, 48, 40), (3, 1, 16, 16)])
def test_weights_of_8_bits(sizes: tuple[int, int, int, int], kind: str) -> None:
    s, n, d, e = sizes
    q, k, v = drawn((1, 2, s, d), (1, 2, n, d), (1, 2, n, e))
    source, schedule = (ROUNDED, Schedule()) if kind == "program" else (PLAIN, allowing())
    (got,) = run(program(source), [q, k, v], schedule=schedule)
    want, mass, _ = attention(q, k, v)
    wide = abs(v.astype(float)).sum(-2, keepdims=True)
    assert (abs(got - want) <= (2.0**-4 + 2.0**-10) * mass + 2.0**-18 * wide + 1e-6).all()
    if n > 1:  # the greatest that the bound allows is far from what is there
        assert np.linalg.norm(got - want) < 0.06 * np.linalg.norm(want)
        assert np.linalg.norm(got - want) > 2.0**-9 * np.linalg.norm(want)


@pytest.mark.usefixtures("always")
def test_weights_of_8_bits_are_no_further_off_than_the_programs_own() -> None:
    q, k, v = drawn((1, 1, 64, 64), (1, 1, 500, 64), (1, 1, 500, 64))
    (got,) = run(program(ROUNDED), [q, k, v])
    want, *_ = attention(q, k, v)
    own = np.asarray(axon.compile(ROUNDED).f(q, k, v, target="interpret"), float)
    assert np.linalg.norm(got - want) < 0.5 * np.linalg.norm(own - want)


@pytest.mark.usefixtures("always")
def test_sums_that_are_cut_off_are_promoted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positive values, of which sums lose something in one direction: what 128 keys add up to, and not what all do."""
    monkeypatch.setattr("axon.backend.gpu.runtime.simulated.verify", lambda _: None)
    errors = []
    for keys in (128, 1024):
        q, k, v = drawn((1, 1, 64, 64), (1, 1, keys, 64), (1, 1, keys, 64))
        q, v = np.zeros_like(q), abs(v.astype(float)).astype(v.dtype)  # all weights are 1, which rounding leaves alone
        want, *_ = attention(q, k, v)
        for schedule in (Schedule(), allowing()):
            (got,) = run(program(ROUNDED), [q, k, v], accumulate=cut_off, schedule=schedule)
            errors.append(float(np.linalg.norm(got - want) / np.linalg.norm(want)))
            most = error_bound(keys, 0 if schedule.precision else PROMOTED)
            assert (abs(got - want) <= most * want + 1e-6).all()
    promoted, fast = errors[2:]
    assert promoted < 1.5 * errors[0]
    assert fast > 3 * promoted


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("sizes", [(70, 128), (200, 64), (129, 48)])
def test_scales_masks_and_shared_heads(sizes: tuple[int, int]) -> None:
    s, d = sizes
    chance = np.random.default_rng(0)
    q, k, v = drawn((1, 4, s, d), (1, 2, s, d), (1, 2, s, d))
    k = k.astype(float).astype(Element.F8E5M2.dtype)
    every = np.float32(0.7)
    rows, keys, head = (np.exp2(chance.uniform(-1, 1, shape)).astype(np.float32) for shape in ((1, 4, s), (1, 2, s), (2,)))
    kernel = the_stream(SCALED)
    assert (kernel.query.value.element, kernel.key.value.element) == (Element.F8E4M3, Element.F8E5M2)
    assert kernel.interleaved
    (got,) = run(program(SCALED), [q, k, v, every, rows, keys, head])
    of_group = [x.repeat(2, 1) for x in (k, v, keys)]
    factor = every * rows[..., None].astype(float) * of_group[2][:, :, None]
    want, mass, _ = attention(q, of_group[0], of_group[1], factor, causal=True)
    scale = head.repeat(2)[None, :, None, None].astype(float)
    assert (abs(got.astype(float) - want * scale) <= (2.0**-4 + 2.0**-7) * mass * scale + 2e-3).all()
    assert np.linalg.norm(got.astype(float) - want * scale) < 0.04 * np.linalg.norm(want * scale)


@pytest.mark.usefixtures("always")
def test_random_sizes_and_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("axon.backend.gpu.runtime.simulated.verify", lambda _: None)
    chance = Random(0)
    names = {"b": "b", "h": "h", "s": "i", "t": "j", "d": "c", "e": "c"}
    for seed in range(100 if SOAK else 6):
        size = {"b": chance.randint(1, 2), "h": chance.randint(1, 2)}
        size |= {axis: chance.choice([1, 16, 65, chance.randrange(1, 300)]) for axis in "st"}
        size |= {axis: chance.choice([16, 128, chance.randrange(1, 129)]) for axis in "de"}
        elements = [chance.choice(["f8e4m3", "f8e5m2"]) for _ in range(3)]
        source = ATTENTION.format(q=elements[0], k=elements[1], v=elements[2], p=chance.choice([P, SHORT]))
        arrays, order = [], []
        for tensor, own, kind in zip("qkv", ("bhsd", "bhtd", "bhte"), elements, strict=True):
            axes = chance.sample(own, 4)
            source = source.replace(f"({tensor} : {kind}[{', '.join(own)}])", f"({tensor} : {kind}[{', '.join(axes)}])", 1)
            source = source.replace(
                f"{tensor}[{', '.join(names[a] for a in own)}]", f"{tensor}[{', '.join(names[a] for a in axes)}]"
            )
            (array,) = drawn(tuple(size[a] for a in axes), seed=seed + len(arrays), element=Element(kind))
            arrays.append(array)
            order.append(array.transpose([axes.index(a) for a in own]))
        (got,) = run(program(source), arrays, seed=seed)
        want, mass, _ = attention(*order)
        wide = abs(order[2].astype(float)).sum(-2, keepdims=True)
        bound = 2.0**-4 if SHORT in source else 2.0**-8
        assert (abs(got - want) <= (bound + 2.0**-10) * mass + 2.0**-18 * wide + 1e-6).all(), (size, source)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("source", [PLAIN, ROUNDED], ids=["16 bits", "8 bits"])
def test_nan_and_infinities_come_out_where_f32_has_them(source: str) -> None:
    q, k, v = drawn((1, 1, 66, 64), (1, 1, 70, 64), (1, 1, 70, 32))
    source = source.replace("v : f8e4m3", "v : f8e5m2")
    v = v.astype(float).astype(Element.F8E5M2.dtype)
    q[0, 0, 3, 5], v[0, 0, 11, 4], v[0, 0, 12, 6] = np.nan, np.inf, np.nan
    (got,) = run(program(source), [q, k, v])
    assert np.isnan(got[0, 0, 3]).all()
    assert np.isposinf(np.delete(got[0, 0, :, 4], 3)).all()
    assert np.isnan(got[0, 0, :, 6]).all()
    rest = np.delete(np.delete(got[0, 0], 3, 0), [4, 6], 1)
    assert np.isfinite(rest).all()


@pytest.mark.usefixtures("always")
def test_8_bit_keys_and_values_beside_queries_of_16() -> None:
    shapes = ((1, 8, 3, 64), (1, 2, 150, 64), (1, 2, 150, 48))
    (q,) = drawn(shapes[0], element=Element.BF16)
    k, v = drawn(*shapes[1:], seed=1)
    ks, vs = (np.exp2(np.random.default_rng(n).uniform(-2, 2, (1, 2, 150))).astype(np.float32) for n in range(2))
    (got,) = run(program(DECODING), [q, k, v, ks, vs])
    wide = (k.astype(float) * ks[..., None]).repeat(4, 1), (v.astype(float) * vs[..., None]).repeat(4, 1)
    want, mass, _ = attention(q, *wide)
    assert (abs(got.astype(float) - want) <= 2.0**-6 * mass + 1e-6).all()


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("precision", ["", 'precision = "fast"'])
def test_a_call_on_a_gpu(precision: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = emulated(monkeypatch)
    file = tmp_path / "model.axon"
    file.write_text(PLAIN if precision else ROUNDED, encoding="utf-8")
    if precision:
        file.with_suffix(".schedule").write_text(f"[f]\n{precision}\n", encoding="utf-8")
    q, k, v = drawn((1, 1, 66, 64), (1, 1, 170, 64), (1, 1, 170, 64))
    got = axon.load(file).f(q, k, v, target="cuda")
    want, *_ = attention(q, k, v)
    assert np.linalg.norm(got - want) < 0.06 * np.linalg.norm(want)
    assert gpu.ran == {"plain": 2, "roles": 1}


# ── what is said, proved and built ──────────────────────────────────────────────────────────────────────────────────────


def test_explain_says_how_products_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)  # nothing is compiled
    core = program(ROUNDED)
    sizes = core.contract.bind((), [(1, 16, 4096, 128)] * 3)
    told = explain(core, sizes)
    assert "scores are products of 8-bit floats, of 14 bits: off by 0.017 · (|A| · |B|) at most" in told
    assert "weights are rounded to e4m3, as the program rounds them: off by 2⁻⁴ of themselves at most" in told
    assert "are promoted: added up in f32 after every 128 keys" in told
    assert "with its keys in the order of weights of 8 bits" in told
    core = program(PLAIN)
    sizes = core.contract.bind((), [(1, 16, 4096, 128)] * 3)
    fast = explain(core, sizes, allowing())
    assert "weights are rounded to e4m3, as the schedule allows" in fast
    assert "are not promoted, as the schedule allows" in fast
    assert "weights are rounded" not in explain(core, sizes)


def test_a_mapping_of_a_schedule_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    core = program(ROUNDED)
    sizes = core.contract.bind((), [(1, 2, 256, 128)] * 3)
    ready = Executable(core, schedule=allowing("turns = true\nkeys = 128")).built({}, sizes)[1]
    (mapping,) = (one.mapping for one in ready.values() if isinstance(one.kernel, Stream))
    assert (mapping.keys, mapping.turns) == (128, True)
    with pytest.raises(AxonError, match="keys = 96"):
        Executable(core, schedule=allowing("keys = 96\nrows = 128")).built({}, sizes)


def test_tiles_that_no_product_of_8_bits_has() -> None:
    facts = traits(the_stream(ROUNDED))
    assert candidates(HOPPER, facts)
    assert "keys can be at most 128, of which sums are promoted" in check(replace(TWO, keys=256), HOPPER, facts)
    deep = check(replace(TWO, depth=256), HOPPER, replace(facts, promotion=0))
    assert any("have a depth of at most 128" in text for text in deep)
    assert {mapping.depth for mapping in candidates(HOPPER, replace(facts, promotion=0))} == {128}


MAPPINGS = {"one": ONE, "two in turn": TWO, "nothing in flight": WAITS}
WAYS = {"promoted": (ROUNDED, Way()), "fast": (PLAIN, Way(precision=Precision.FAST)), "wide weights": (PLAIN, Way())}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mapping", MAPPINGS)
def test_what_the_compiler_makes_is_proved(mapping: str, way: str) -> None:
    assert isinstance(verify(made(WAYS[way][0], MAPPINGS[mapping], WAYS[way][1]).barriers), Proof)


@pytest.mark.parametrize("mapping", ["two in turn", "nothing in flight"])
def test_a_sum_that_is_not_promoted_as_it_must_is_refused(mapping: str) -> None:
    whole = made(ROUNDED, MAPPINGS[mapping]).barriers
    for kind in (t.Promote, t.Hold, t.Narrow, t.Fold):
        for number, op in sites(whole, kind):
            refused(mutate(whole, number, drop), {"content"}, f"without {op} at {number}")
            refused(mutate(whole, number, twice), {"content"}, f"{op} twice at {number}")
    for number, _ in sites(whole, t.Promote):
        refused(mutate(whole, number, exchanged), {"content", "registers"}, f"an exchange at {number}")
        uncorrected = mutate(whole, number, lambda op: (replace(op, correction=None),))  # type: ignore[type-var]
        refused(uncorrected, {"content"}, f"a sum that is not corrected at {number}")
    for number, _ in sites(whole, b.Product):
        refused(mutate(whole, number, turned_over), {"content"}, f"a sum that goes on at {number}")
    for number, _ in sites(whole, b.Clear):
        refused(mutate(whole, number, drop), {"content"}, f"a sum that does not begin anew at {number}")


@pytest.mark.parametrize("way", ["promoted", "fast"])
def test_values_whose_keys_are_in_another_order_are_refused(way: str) -> None:
    whole = made(WAYS[way][0], TWO, WAYS[way][1]).barriers

    def in_order(ring: b.Ring) -> b.Ring:
        fields = tuple(replace(f, load=replace(f.load, interleaved=not f.load.interleaved)) for f in ring.fields)
        return replace(ring, fields=fields)

    for number, op in sites(whole, b.Product):
        assert isinstance(op, b.Product)

        def other(op: Any) -> tuple[Any, ...]:
            return (replace(op, right=replace(op.right, ring=in_order(op.right.ring))),)

        refused(mutate(whole, number, other), {"layout"}, f"a factor in another order at {number}")
        if isinstance(op.left, t.Tile):

            def wide(op: Any) -> tuple[Any, ...]:
                return (replace(op, left=replace(op.left, element=Element.BF16)),)

            refused(mutate(whole, number, wide), {"content", "layout"}, f"weights of 16 bits at {number}")


def test_what_nobody_allowed_is_no_kernel() -> None:
    """A pass that rounded weights by itself, or did not promote their sums, would not get far."""
    from axon.backend.gpu.tile.eight_bits import EightBits, verify_eight_bits
    from axon.base.passes import FormInvalid

    (part,) = straights(parts(program(ROUNDED)).body)
    found = plan(part.program, HOPPER).kernels
    *before, kernel = found
    assert isinstance(kernel, Stream)
    verify_eight_bits(EightBits(found, {}), found, part.program)
    for wrong in (replace(kernel, rounds=False), replace(kernel, promotion=0), replace(kernel, interleaved=False)):
        with pytest.raises(FormInvalid):
            verify_eight_bits(EightBits((*before, wrong), {}), found, part.program)


@pytest.mark.parametrize("way", WAYS)
def test_machine_code(way: str) -> None:
    """The largest tile has its products of 8 bits run on their own, and nothing spills."""
    source, how = WAYS[way]
    mapping = TileMapping(128, 128, 128, 2, consumers=2, cluster=1, keys=128)
    built = cubin.build(made(source, mapping, how), HOPPER)
    assert not built.spilled
