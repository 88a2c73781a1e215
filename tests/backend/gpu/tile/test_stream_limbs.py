"""Streams of f32, whose factors and weights are in limbs: which programs take this way, what they compute, and what is built."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend.gpu.build import cubin
from axon.backend.gpu.build.recipe import stages, traits
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.proof.accumulate import cut_off
from axon.backend.gpu.report.show import explain, show
from axon.backend.gpu.runtime import simulated, ways
from axon.backend.gpu.runtime.executable import Executable
from axon.backend.gpu.runtime.prepare import prepare
from axon.backend.gpu.runtime.simulated import run
from axon.backend.gpu.runtime.ways import plan
from axon.backend.gpu.tile.families import Kernel
from axon.backend.gpu.tile.schedule import candidates, choose
from axon.backend.gpu.tile.stream import Stream
from axon.backend.needs import Missing
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.core.ir import Program
from tests.backend.gpu import streams
from tests.backend.gpu.runtime.emulated import emulated
from tests.backend.gpu.streams import error, expected, inputs
from tests.sample import ALL, SOAK

ATTENTION = """fun f (q : f32[b, s, d]) (k : f32[b, t, d]) (v : f32[b, t, e]) =
  let val x = for b i j => (sum c => q[b, i, c] * k[b, j, c]) * rsqrt (cast f32 d)
      val z = for b i j => let val m = max l => x[b, i, l] val y = sum l => exp (x[b, i, l] - m) in exp (x[b, i, j] - m) / y end
  in z @ v end"""

AGAIN = ("linear", "unnormalized")  # without statistics of their own: none in f32


def program(source: str) -> Program:
    return compiler.lower(compiler.check_text(source), "f", None)


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stream, however little there is to do."""
    monkeypatch.setattr(ways, "better_apart", lambda *_: None)


def families(kernels: tuple[Kernel, ...]) -> list[type]:
    return [type(kernel) for kernel in kernels]


def attention(q: Any, k: Any, v: Any, kind: Any = np.float64) -> Any:
    q, k, v = (x.astype(kind) for x in (q, k, v))
    x = q @ k.swapaxes(1, 2) * kind(q.shape[-1] ** -0.5)
    w = np.exp(x - x.max(-1, keepdims=True))
    return (w / w.sum(-1, keepdims=True)) @ v


def one_by_one(q: Any, k: Any, v: Any) -> Any:
    """The same in f32, of which every sum over keys runs on, key by key."""
    x = (q @ k.swapaxes(1, 2)) * np.float32(q.shape[-1] ** -0.5)
    w = np.exp(x - x.max(-1, keepdims=True))
    w /= np.cumsum(w, axis=-1)[..., -1:]
    return np.cumsum(w[..., None] * v[:, None], axis=2)[:, :, -1]


def row_error(got: Any, exact: Any) -> float:
    """The greatest relative error of a row."""
    return float((np.linalg.norm(got - exact, axis=-1) / np.linalg.norm(exact, axis=-1)).max())


def drawn(*shapes: tuple[int, ...], seed: int = 0) -> list[Any]:
    chance = np.random.default_rng(seed)
    return [chance.standard_normal(shape).astype(np.float32) for shape in shapes]


# ── which programs ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_each_factor_is_split_once() -> None:
    made = plan(program(ATTENTION), HOPPER).kernels
    assert families(made) == [Nest, Nest, Nest, Stream]
    stream = made[-1]
    assert isinstance(stream, Stream)
    assert [len(limbs) for limbs in stream.limbs] == [3, 3, 3]
    assert {operand.value.element for operand in stream.operands} == {Element.BF16}
    itself = ATTENTION.replace("(k : f32[b, t, d]) ", "").replace("k[b, j, c]", "q[b, j, c]").replace("[b, t", "[b, s")
    assert families(plan(program(itself), HOPPER).kernels) == [Nest, Nest, Stream]


@pytest.mark.parametrize(
    ("rows", "keys", "head", "stream"),
    [
        (4096, 4096, 64, True),
        (1024, 1024, 64, True),
        (8192, 8192, 128, True),
        (1, 4096, 128, False),
        (16, 64, 64, False),
        (1024, 1024, 192, False),  # no tile of three limbs holds such a head
    ],
)
def test_sizes_decide(rows: int, keys: int, head: int, stream: bool) -> None:
    core = program(ATTENTION)
    sizes = core.contract.bind((), [(16, rows, head), (16, keys, head), (16, keys, head)])
    planned = Executable(core).serving({}, sizes).planned
    assert (Stream in families(planned.kernels)) == stream
    assert bool(planned.way.apart) != stream
    assert not planned.way.divided


def test_scores_that_are_made_again_are_none_of_f32() -> None:
    """The gradient's streams have several products of scores, and no statistics."""
    source = (
        ATTENTION.replace("fun f", "fun g")
        + """
fun f (q : f32[b, s, d]) (k : f32[b, t, d]) (v : f32[b, t, e]) (dy : f32[b, s, e]) =
  grad (fn (q, k, v) => sum for b i c => (g q k v)[b, i, c] * dy[b, i, c]) (q, k, v)"""
    )
    found = [kernel for kernel in plan(program(source), HOPPER).kernels if isinstance(kernel, Stream)]
    assert all(not kernel.others for kernel in found)


def test_explain_says_what_becomes_of_the_factors(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)  # nothing is compiled
    core = program(ATTENTION)
    told = explain(core, core.contract.bind((), [(16, 1024, 64)] * 3))
    assert "6 products of bf16 values that add up to the factors, 18,874,368 bytes, and to the weights, twice" in told
    assert "q as the sum of 3 bf16 values" in told


# ── what they compute ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.usefixtures("always")
def test_as_exact_as_a_plain_evaluation_in_f32() -> None:
    given = drawn((2, 130, 64), (2, 200, 64), (2, 200, 48))
    (got,) = run(program(ATTENTION), given)
    exact = attention(*given)
    assert abs(got - exact).max() < 2 * abs(attention(*given, np.float32) - exact).max()


@pytest.mark.usefixtures("always")
def test_sums_that_are_cut_off_are_as_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """A row's sum runs on in f32, whatever the tensor cores cut off in a step: its error is below that of sums in f32 that run on,
    and does not grow with the keys."""
    monkeypatch.setattr(simulated, "verify", lambda _: None)
    found = []
    for keys in (128, 1024):
        q, k, v = drawn((1, 64, 64), (1, keys, 64), (1, keys, 64))
        exact = attention(q, k, v)
        (got,) = run(program(ATTENTION), [q, k, v], accumulate=cut_off)
        found.append(row_error(got, exact))
    assert found[1] < 1.5 * found[0]
    assert found[1] < row_error(one_by_one(q, k, v), exact)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("name", streams.NAMES)
def test_every_change_of_scores(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks, slopes, soft caps, biases, heads that share keys, sums without a maximum."""
    monkeypatch.setattr(simulated, "verify", lambda _: None)  # of many alike, which others prove
    made = streams.program(name, Element.F32)
    assert (Stream in families(plan(made, HOPPER).kernels)) == (name not in AGAIN)
    given = inputs(made, {"b": 1, "h": 2, "n": 1, "g": 2, "s": 70, "t": 70, "d": 24, "e": 40}, whole=30)
    (got,) = run(made, given.arrays, [given.sizes[s] for s in made.explicit])
    assert error(got, expected(name, given)) < 4e-6


@pytest.mark.usefixtures("always")
def test_random_sizes_and_layouts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(simulated, "verify", lambda _: None)
    chance = Random(0)
    for seed in range(200 if SOAK else 5):
        rows, keys, depth, columns = (chance.choice([1, 7, 64, 65, chance.randrange(1, 140)]) for _ in range(4))
        depth, columns = min(depth, 128), min(columns, 128)
        axes = [chance.sample(own, 3) for own in (["b", "s", "d"], ["b", "t", "d"], ["b", "t", "e"])]
        names = {"s": "i", "t": "j", "d": "c", "e": "u", "b": "b"}
        source = ATTENTION.replace("z @ v", "for b i u => sum j => z[b, i, j] * v[b, j, u]")
        for tensor, own in zip("qkv", axes, strict=True):
            plain = {"q": "b, i, c", "k": "b, j, c", "v": "b, j, u"}[tensor]
            source = source.replace(f"{tensor}[{plain}]", f"{tensor}[{', '.join(names[a] for a in own)}]")
            written = {"q": "b, s, d", "k": "b, t, d", "v": "b, t, e"}[tensor]
            source = source.replace(f"({tensor} : f32[{written}])", f"({tensor} : f32[{', '.join(own)}])")
        size = {"b": 2, "s": rows, "t": keys, "d": depth, "e": columns}
        given = drawn(*(tuple(size[a] for a in own) for own in axes), seed=seed)
        (got,) = run(program(source), given, seed=seed)
        order = (x.transpose([own.index(a) for a in want]) for x, own, want in zip(given, axes, ("bsd", "btd", "bte"), strict=True))
        want = attention(*order)
        assert abs(got - want).max() < 3e-6 * max(1, abs(want).max()), (size, axes)


@pytest.mark.usefixtures("always")
def test_infinities_and_nan_come_out_where_f32_has_them() -> None:
    q, k, v = drawn((1, 66, 64), (1, 70, 64), (1, 70, 32))
    q[0, 3, 5], q[0, 7, 2], k[0, 9, 1] = np.nan, np.inf, -np.inf
    v[0, 11, 4], v[0, 12, 6], v[0, 13, 6], v[0, 14, 8] = np.inf, np.inf, -np.inf, np.nan
    (got,) = run(program(ATTENTION), [q, k, v])
    with np.errstate(all="ignore"):
        want = attention(q, k, v, np.float32)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    finite = np.isfinite(want)
    np.testing.assert_array_equal(got[~finite], want[~finite])
    assert 0.05 < finite.mean() < 0.95
    np.testing.assert_allclose(got[finite], want[finite], atol=2e-6)


@pytest.mark.usefixtures("always")
def test_scores_and_values_of_every_magnitude() -> None:
    """Rows scaled by 2^±40, cancelling values, and denormal ones."""
    chance = np.random.default_rng(3)
    q, k, v = drawn((1, 64, 64), (1, 96, 64), (1, 96, 64), seed=3)
    scale = np.exp2(chance.integers(-40, 41, (1, 1, 64))).astype(np.float32)
    for values in (
        v * scale,
        np.concatenate([v[:, :48], -v[:, :48] * np.float32(1 + 2.0**-12)], axis=1),
        v * np.float32(2.0**-120),
    ):
        (got,) = run(program(ATTENTION), [q, k, values])
        exact, mass = attention(q, k, values), attention(q, k, abs(values))
        assert (abs(got - exact) <= 8 * 2.0**-23 * mass + 2.0**-130).all()


@pytest.mark.usefixtures("always")
def test_a_call_on_a_gpu_splits_and_streams(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = emulated(monkeypatch)
    given = drawn((1, 66, 64), (1, 70, 64), (1, 70, 64))
    got = axon.compile(ATTENTION).f(*given, target="cuda")
    assert abs(got - attention(*given)).max() < 2e-6
    assert gpu.ran == {"plain": 3, "roles": 1}


# ── machine code ────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("head", [64, 128] if ALL else [128])
def test_machine_code(head: int) -> None:
    """The mapping that is chosen fits its registers, products run on their own, nothing spills."""
    core = program(ATTENTION)
    planned = plan(core, HOPPER)
    sizes = core.contract.bind((), [(16, 4096, head)] * 3)
    ready = prepare(planned.kernels[-1], planned.lying(sizes), sizes)  # type: ignore[arg-type]
    facts = traits(ready.kernel)
    mapping = choose(ready.problem, facts, HOPPER)
    assert mapping.consumers == 2
    assert len(candidates(HOPPER, facts)) > 4
    made = cubin.build(stages(ready.kernel, mapping, HOPPER, planned.values, ready.granted), HOPPER)
    assert not made.spilled


def test_sums_are_left_alone_where_the_peak_stays() -> None:
    """What repairs them is 2 to the difference of two products, equal ones where a step has no greater score. Fused with one of
    them, the subtraction gives what rounding took from the other: a factor beside 1 in every step, which the oldest weights take
    as often as there are steps."""
    core = program(ATTENTION)
    try:
        sass = show(core, "sass", core.contract.bind((), [(16, 4096, 64)] * 3))
    except Missing as missing:  # the disassembler is no part of the tools that build
        pytest.skip(str(missing))
    written: dict[str, tuple[str, str]] = {}  # registers, by what and of what
    powers = []
    for name, operands in re.findall(r"\b([A-Z][A-Z0-9.]*) (R\d+\b[^;]*);", sass):
        to, *given = re.split(r", *", operands.strip())
        if name == "MUFU.EX2":
            powers.append(written[given[0]])
        written[to] = name, ", ".join(given)
    assert sum(name == "FADD" for name, _ in powers) == 2
    assert all(name == "FFMA" and "-" not in given for name, given in powers if name != "FADD")
