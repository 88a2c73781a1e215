"""Whole programs on an emulated GPU give what the interpreter gives: what tests/gpu does on a real one, and at small sizes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from math import prod
from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon import compiler
from axon.backend import libraries
from axon.backend.gpu.report.show import explain
from axon.backend.gpu.runtime import arrays, binding, kept_graphs
from axon.backend.gpu.runtime.stepped_call import HostCall
from axon.backend.gpu.runtime.steps import Stepped
from axon.backend.gpu.tile import schedule
from axon.backend.plan.ir import Nest
from axon.base.element import Element
from axon.base.errors import AxonError
from axon.base.names import Symbol
from axon.checker.loader import FileLoader, library_modules, stdlib_root
from axon.core.ir import Program
from axon.core.printer import print_program
from axon.core.verify import CoreInvalid
from axon.interpret import run
from axon.tools.commands.doctest import run_file
from tests import ROOT
from tests.backend.gpu.oracle import NARROW, corpus, different, outcome
from tests.backend.gpu.runtime.emulated import EmulatedDriver, emulated
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary
from tests.backend.gpu.tile.pages import call, drawn
from tests.backend.gpu.tile.test_windows import pixels
from tests.core.arguments import admitted
from tests.core.random_programs import Generator
from tests.sample import ALL, chosen, some

__all__ = ["pixels"]  # a fixture
SOAK = bool(os.environ.get("AXON_SOAK"))
PROGRAMS = 2_000 if SOAK else 60
LARGE = 1 << 40 if ALL else 1 << 15  # the product of all of a program's sizes


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    monkeypatch.setattr(binding, "IN_RESULTS", 1)  # small results are room, too
    return emulated(monkeypatch)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> FakeLibrary:
    made = FakeLibrary()
    monkeypatch.setitem(libraries._by_type, DeviceArray, made)
    kept_graphs._graphs.clear()
    return made


def wrong(got: Any, want: Any, program: Program) -> str:
    """Why results differ by more than the narrowest float of a program rounds."""
    text = print_program(program)
    return different(got, want, max(error for name, error in (*NARROW.items(), ("", 0.0)) if name in text))


@pytest.mark.parametrize("name", [name for name in library_modules() if chosen(stdlib_root() / f"{name}.axon", 2)])
def test_examples_of_the_library(name: str, gpu: EmulatedDriver) -> None:
    done = run_file(FileLoader(), str(stdlib_root() / f"{name}.axon"), target="cuda")
    assert not done.failures
    assert done.passed


def test_the_accepted_programs(gpu: EmulatedDriver, library: FakeLibrary) -> None:
    """With arrays of NumPy, then with a GPU library's, which lie anyhow; the second call of these is a replay."""
    bad, equal = [], 0
    for name, (program, (explicit, inputs, sizes)) in corpus(6).items():
        try:
            want = outcome(run, program, inputs, explicit)
        except CoreInvalid:
            continue
        got = [outcome(HostCall(Stepped(program), [x.copy() for x in inputs], sizes, None), inputs, None)]
        got += called(program, inputs, sizes, Random(name))
        bad += [f"{name}, call {n}: {why}" for n, one in enumerate(got) if (why := wrong(one, want, program))]
        equal += not isinstance(want, tuple)
    assert not bad, f"{len(bad)} calls differ\n" + "\n".join(bad[:5])
    assert equal > (300 if ALL else 30)
    assert gpu.replayed
    assert gpu.ran.keys() == {"plain", "sort"}


def test_a_number_that_nothing_uses(gpu: EmulatedDriver, library: FakeLibrary) -> None:
    f = axon.compile("fun f (x : f32[n]) (unused : i32) (y : f32[n]) = for i => x[i] - y[i]").f
    x, y = np.arange(5, dtype=np.float32), np.ones(5, np.float32)
    for number in (3, 4):
        assert f(DeviceArray(x), number, DeviceArray(y)).array.tolist() == [-1, 0, 1, 2, 3]


RESHAPED = """
fun f (x : bf16[n, k]) (w : bf16[k, g, h, c]) (o : bf16[g * h * c, m]) =
  let val y = for i p j l => sum a => x[i, a] * w[a, p, j, l]
      val flat = for i (p, j, l) => {read}
  in {result} end
"""


@pytest.mark.parametrize(
    ("read", "result", "saved"),
    [
        ("y[i, p, j, l]", "for i j => sum a => flat[i, a] * o[a, j]", 1),
        ("y[i, p, j, l]", "(for i j => sum a => flat[i, a] * o[a, j], for i p j => sum l => exp y[i, p, j, l])", 1),
        ("y[i, p, j, l]", "(flat, for i j => sum a => flat[i, a] * o[a, j])", 0),  # a result
        ("y[i, p, j, c - 1 - l]", "for i j => sum a => flat[i, a] * o[a, j]", 0),  # in another order
    ],
)
def test_what_only_shows_another_shape_is_no_launch(read: str, result: str, saved: int, gpu: EmulatedDriver) -> None:
    program = compiler.lower(compiler.check_text(RESHAPED.format(read=read, result=result)), "f", None)
    chance = np.random.default_rng(3)
    bf16 = Element.BF16.dtype
    shapes = (128, 64), (64, 2, 4, 32), (256, 64)
    arrays_ = [chance.standard_normal(shape).astype(bf16) for shape in shapes]
    sizes = program.contract.bind((), shapes)
    stepped = Stepped(program)
    assert stepped.straight is not None
    kernels = stepped.straight.serving({}, sizes).planned.kernels
    got = outcome(HostCall(stepped, arrays_, sizes, None), arrays_, None)
    assert not wrong(got, outcome(run, program, arrays_, []), program)
    assert sum(gpu.ran.values()) == len(kernels) - saved
    assert ("in another shape, so nothing is launched" in explain(program, sizes)) is bool(saved)


def test_what_dies_before_a_result_is_made_lies_in_it(gpu: EmulatedDriver, library: FakeLibrary) -> None:
    """Not where the caller gives the room: that may be an argument's, which is read after it."""
    text = "fun g x y = for i j => tanh (x @ y)[i, j]\nfun f (x : f64[n, n]) = g (g (g x x) x) x"
    program = compiler.lower(compiler.check_text(text), "f", None)
    x = np.random.default_rng(0).standard_normal((16, 16)) / 4
    (want,) = run(program, [x], [])
    sizes = program.contract.bind((), [x.shape])
    for out in (None, DeviceArray(np.zeros_like(x))):
        room = None if out is None else [("out", out)]
        call = arrays.prepare(Stepped(program), [("x", DeviceArray(x))], [x], sizes, room)
        assert call.room == x.nbytes * (1 if out is None else 2)  # the second product's, which the last one reads
        (got,) = call([DeviceArray(x)], None if out is None else [out])
        np.testing.assert_allclose(got.array, want, rtol=1e-9)


def called(program: Program, inputs: Sequence[Any], sizes: dict[Symbol, int], chance: Random, times: int = 3) -> list[Any]:
    """What calls give with arrays that lie on the GPU, each time elsewhere, but in the same way."""
    ways = [(chance.sample(range(x.ndim), x.ndim), [chance.choice((0, 0, 1, 8)) for _ in x.shape]) for x in inputs]
    starts = [chance.choice((0, 0, 1)) for _ in inputs]
    numbers = [x.ndim == 0 and chance.random() < 0.5 for x in inputs]
    made = None
    found = []
    for _ in range(times):
        laid = [lying(x, *way, start) for x, way, start in zip(inputs, ways, starts, strict=True)]
        given = [x.item() if number else DeviceArray(x) for x, number in zip(laid, numbers, strict=True)]
        try:
            made = made or arrays.prepare(Stepped(program), [(f"x{n}", x) for n, x in enumerate(given)], list(inputs), sizes, None)
            results = made(given, None)
            axon.synchronize()
            found.append([x.array if isinstance(x, DeviceArray) else x for x in results])
        except AxonError as error:
            later = f", in an earlier call of `{program.name}`"
            found.append(tuple(replace(d, message=d.message.replace(later, "")) for d in error.diagnostics))
    return found


def lying(x: Any, order: Sequence[int], more: Sequence[int], start: int) -> Any:
    """The same values, with dimensions in another order in memory, longer rows, and from another address on."""
    shape = [x.shape[d] + more[d] for d in order]
    room = np.zeros(start + int(np.prod(shape)) + 64, x.dtype)
    skip = -room.ctypes.data % 64 // x.itemsize + start
    laid = room[skip : skip + int(np.prod(shape))].reshape(shape).transpose(np.argsort(order))
    out = laid[..., *(slice(n) for n in x.shape)]
    out[...] = x
    return out


@pytest.mark.parametrize("part", range(4))
def test_generated_programs(part: int, gpu: EmulatedDriver, library: FakeLibrary) -> None:
    bad = []
    for seed in range(part, PROGRAMS, 4):
        program, inputs = Generator(Random(seed)).program()
        sizes = program.contract.bind([], [x.shape for x in inputs])
        try:
            want = outcome(run, program, inputs)
        except CoreInvalid:  # the generator reads outside a tensor without a check
            continue
        got = [outcome(HostCall(Stepped(program), [x.copy() for x in inputs], sizes, None), inputs, None)]
        got += called(program, inputs, sizes, Random(seed))
        bad += [f"seed {seed}, call {n}: {why}" for n, one in enumerate(got) if (why := wrong(one, want, program))]
    assert not bad, f"{len(bad)} calls differ\n" + "\n".join(bad[:3])


def test_wide_programs_in_bf16(gpu: EmulatedDriver) -> None:
    """The corpus again where the tensor cores serve: in bf16, and at sizes that are multiples of 8."""
    bad = []
    for file in some(sorted((ROOT / "tests" / "corpus" / "accepted").glob("*.axon")), 6):
        checked = compiler.check_text(file.read_text().replace("f32", "bf16"))
        for name in checked.signatures:
            with suppress(AxonError, CoreInvalid):  # without a program for all sizes
                program = compiler.lower(checked, name, None)
                stepped = Stepped(program)
                found = admitted(program, Random(name), sizes=(8, 16))
                if found is not None and prod(found[2].values()) > LARGE:
                    found = admitted(program, Random(name), sizes=(8,)) or found
                if found is not None and not all(isinstance(kernel, Nest) for kernel in stepped.kernels):
                    explicit, inputs, sizes = found
                    want = run(program, inputs, explicit)
                    got = HostCall(stepped, [x.copy() for x in inputs], sizes, None)(inputs, None)
                    bad += [f"{file.stem}.{name}: {why}" for why in [wrong(got, want, program)] if why]
    assert not bad, f"{len(bad)} calls differ\n" + "\n".join(bad[:5])
    assert gpu.ran["roles"] > (20 if ALL else 1)


@pytest.mark.parametrize("target", ["cuda", "simulate"])
def test_a_stream_reads_by_the_counter_of_a_loop(target: str, gpu: EmulatedDriver) -> None:
    f = axon.compile("""
fun f (w : bf16[n, d, 4 * d]) (u : bf16[n, 4 * d, d]) (b : bf16[n, 4 * d]) (x : bf16[m, d]) = loop (y = x) for t < n =>
  let val h = for i j => max 0.0 (b[t, j] + sum c => y[i, c] * w[t, c, j])
  in for i j => y[i, j] + sum c => h[i, c] * u[t, c, j] end""").f
    chance = np.random.default_rng(0)
    w, u, b, x = (chance.standard_normal(s) * 0.3 for s in ((3, 16, 64), (3, 64, 16), (3, 64), (24, 16)))
    given = [a.astype(Element.BF16.dtype) for a in (w, u, b, x)]
    got, want = (f(*given, target=t).astype(float) for t in (target, "interpret"))
    np.testing.assert_allclose(got, want, rtol=0, atol=0.03 * np.abs(want).max())


@pytest.mark.parametrize(
    "body",
    [
        "loop (t = v) for j < 2 => v",
        "unfold (t = v) for j < 2 => v",
        "loop (t = v, u = v) for j < 2 => (u, v)",
        "loop (t = v) for j < 2 => loop (s = v) for k < 2 => v",
    ],
)
def test_a_loop_that_gives_back_what_it_began_with(body: str, gpu: EmulatedDriver) -> None:
    f = axon.compile(f"fun f (x : i32[n]) = let val v = for i => x[i] + 1 in {body} end").f
    got, want = (f(np.array([1, 2, 3], np.int32), target=target) for target in ("cuda", "interpret"))
    np.testing.assert_array_equal(got, want)


def test_copies_of_pixels(gpu: EmulatedDriver, pixels: list[Random]) -> None:
    """The view begins behind the copy's address where rows of windows do, and its descriptor follows the copy."""
    for seed, (stride, padding, channels) in enumerate(((1, 1, 8), (2, 0, 4), (1, 2, 64))):
        pixels[:] = [Random(seed)]
        f = axon.compile(f"""
fun f (x : bf16[n, c, h, w]) (k : bf16[o, c, 3, 3]) where h > 4, w > 4 =
  for n o, p < h / {stride} - 2, q < w / {stride} - 2 =>
    sum c i j => x[n, c, {stride} * p + i + 1 - {padding}, {stride} * q + j + 1 - {padding} | 0] * k[o, c, i, j]""").f
        chance = np.random.default_rng(seed)
        x, k = (chance.standard_normal(s).astype("f4") for s in ((2, channels, 9, 10), (4, channels, 3, 3)))
        x, k = x.astype(Element.BF16.dtype), k.astype(Element.BF16.dtype)
        before = gpu.ran.get("roles", 0)
        got, want = (np.asarray(f(x, k, target=target), np.float64) for target in ("cuda", "interpret"))
        assert gpu.ran["roles"] > before
        np.testing.assert_allclose(got, want, atol=2e-2 * abs(want).max())


@pytest.mark.parametrize("body", ["(1 : i64)", "cast i64 (3 * k + j0)", "cast i64 x[j0, 0 | 2]"])
def test_a_loop_that_reads_nothing_along_it_is_cut_where_it_ends(body: str, gpu: EmulatedDriver) -> None:
    """Neighbours of a row that are stored together go with neighbours of a sum only if it has a multiple of them."""
    f = axon.compile(f"fun f {{p}} (x : i32[n, m]) = for j0 < n, j < m => cast i64 x[j0, j] + sum for k < p + j0 => {body}").f
    for m, p in ((8, 4), (8, 5), (8, 3), (7, 4)):
        x = np.arange(3 * m, dtype=np.int32).reshape(3, m)
        got, want = (f[p,](x, target=target) for target in ("cuda", "interpret"))
        np.testing.assert_array_equal(got, want)


LAYERS = """
import nn
fun attended (w : bf16[3, d, d]) (x : bf16[b, s, d]) =
  let val y = for p < 3, b i k => sum c => x[b, i, c] * w[p, k, c]
      val a = for b i j => (sum k => y[0, b, i, k] * y[1, b, j, k]) * 0.125
  in for b i k => sum j => (nn.softmax a)[b, i, j] * y[2, b, j, k] end
fun layer (w : bf16[3, d, d]) (up : bf16[f, d]) (c : bf16[f]) (down : bf16[d, f]) (x : bf16[b, s, d]) =
  let val y = for b i k => x[b, i, k] + (attended w x)[b, i, k]
      val h = for b i j => (sum k => y[b, i, k] * up[j, k]) + c[j]
      val a = nn.gelu h
  in for b i k => y[b, i, k] + (sum j => a[b, i, j] * down[k, j]) end
fun run (w : bf16[n, 3, d, d], up : bf16[n, f, d], c : bf16[n, f], down : bf16[n, d, f]) (x : bf16[b, s, d]) =
  loop (y = x) for t < n => layer w[t, ..] up[t, ..] c[t, ..] down[t, ..] y
fun slopes (w, up, c, down) x =
  value_and_grad (fn p => let val y = run p x in sum b i k => cast f32 y[b, i, k] * cast f32 y[b, i, k] end) (w, up, c, down)
"""


def test_gradients_of_layers(gpu: EmulatedDriver) -> None:
    """What the loop forwards keeps is read by products and streams of the one backwards, step by step, where it lies."""
    chance = np.random.default_rng(2)
    n, b, s, d, f = 3, 2, 24, 64, 128
    shapes = ((n, 3, d, d), (n, f, d), (n, f), (n, d, f))
    given = tuple((chance.standard_normal(shape) / 12).astype(ml_dtypes.bfloat16) for shape in shapes)
    x = chance.standard_normal((b, s, d)).astype(ml_dtypes.bfloat16)
    m = axon.compile(LAYERS)
    (value, got), (wanted, want) = (m.slopes(given, x, target=target) for target in ("cuda", "interpret"))
    assert gpu.ran["roles"] > 10 * n
    assert abs(value / wanted - 1) < 1e-2
    for mine, theirs in zip(got, want, strict=True):
        mine, theirs = mine.astype(np.float64), theirs.astype(np.float64)
        assert np.linalg.norm(mine - theirs) < 2e-2 * np.linalg.norm(theirs)


@pytest.mark.parametrize("seed", range(4 if ALL else 2))
def test_caches_in_pages(seed: int, gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the device's own memory, in which nothing lies in front of the first page; a page that is none stops the program."""
    for name in ("PAGE_WAIT", "BOX_COPY"):
        monkeypatch.setattr(schedule, name, 0.0)
    chance = Random(seed)
    form = replace(drawn(chance, (8, 16, 64, 24)[seed]), kind=("guarded", "checked")[seed % 2], table="page[b, j / {rows}]")
    made = call(form, chance, 2, 2, 3, 150 // form.rows, 64, 40)
    f = axon.compile(form.source).f
    f = f[tuple(made.explicit)] if made.explicit else f
    for _ in range(2):  # the second call is a replay
        with np.errstate(all="ignore"):
            got = f(*made.arguments, target="cuda").astype(np.float64)
        np.testing.assert_allclose(got, made.expected, atol=2e-2)
    assert gpu.ran["roles"] == 2
    page, lengths = made.arguments[3:]
    page[1, 0], lengths[1] = -1, 1
    with pytest.raises(AxonError, match="-1"):
        f(*made.arguments, target="cuda")
