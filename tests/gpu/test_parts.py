"""Programs in parts on a real GPU: loops, sorts, compresses, checks, failures. Skipped where there is no Hopper GPU."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.element import Element
from axon.base.errors import AxonError

torch = pytest.importorskip("torch")
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    pytest.skip("needs a Hopper GPU", allow_module_level=True)

PROGRAM = """\
fun power (a : 'a[n, n]) (b : 'a[n, n]) steps = loop (p = a) for t < steps => p @ b
fun sums (x : f32[n]) = unfold (s = x, c = 0) for t < 4 => (for i => s[i] + cast _ t, c + t)
fun rows {k} (x : f32[n]) = unfold (s = x) for t < k => for i => s[i] * 2.0
fun swap (x : f32[n]) (y : f32[n]) steps = loop (a = x, b = y) for t < steps => (b, a)
fun picked (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in (ix, for i => exp x[ix[i]]) end
fun ordered x = (sort x, argsort x)
fun running (x : f32[n]) = loop (s = 0.0) for t < n => s + x[t] * cast _ t
fun triangle (x : f32[n]) = loop (s = x) for t < n => for i => s[i] + sum for j < t => x[j]
fun windows {w} (x : f32[n]) = unfold (s = 0.0) for t < n - w + 1 => sum for j < w => x[t + j]
fun nested (x : f32[n]) = loop (s = x) for t < 3 => loop (r = s) for u < t + 1 => for i => r[i] + cast _ (10 * t + u)
fun coerced {m} (x : f32[n]) = exp (x as f32[m])
fun pick (x : f32[n]) (ids : i32[k]) = for i => x[ids[i]]
fun walk (x : f32[n]) (ids : i32[k]) = loop (s = 0.0) for t < k => s + x[ids[t]]
fun counted (x : f32[n]) (ids : i32[k]) = loop (s = 0.0) for t < (sum i => ids[i]) => s + x[t % n]
fun lstm (w : f32[d, 4 * h]) (u : f32[h, 4 * h]) (x : f32[t, b, d]) =
  unfold (hidden = for i < b, j < h => 0.0, cell = for i < b, j < h => 0.0) for s =>
    let val gates = x[s, ..] @ w + hidden @ u
        val next = for i < b, j < h => cell[i, j] * (1.0 / (1.0 + exp (-gates[i, j]))) + tanh gates[i, j + h] * gates[i, j + 2 * h]
    in (for i < b, j < h => tanh next[i, j] * gates[i, j + 3 * h], next) end
"""


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def on(x: Any) -> Any:
    return torch.from_numpy(x).cuda() if isinstance(x, np.ndarray) else x


def host(value: Any) -> Any:
    return tuple(map(host, value)) if isinstance(value, tuple) else np.asarray(torch.as_tensor(value).cpu())


def same(got: Any, want: Any, tolerance: float = 1e-5) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            same(a, b, tolerance)
        return
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(np.asarray(got, np.float64), np.asarray(want, np.float64), rtol=tolerance, atol=tolerance)


def check(function: Any, *args: Any, tolerance: float = 1e-5) -> None:
    want = function(*args, target="interpret")
    given = [on(x) for x in args]
    for _ in range(2):
        same(host(function(*given)), want, tolerance)
    same(host(function(*args, target="cuda")), want, tolerance)
    for x, y in zip(args, given, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y.cpu().numpy(), err_msg="an argument was written")


@pytest.mark.parametrize("steps", [0, 1, 5])
def test_loops(m: Any, steps: int) -> None:
    a, b = random(48, 48) / 7, random(48, 48, seed=1) / 7
    check(m.power, a, b, steps, tolerance=1e-3)
    check(m.swap, random(5), random(5, seed=1), steps)
    check(m.rows[steps], random(8))
    check(m.rows[steps], random(5))


def test_products_in_a_loop(m: Any) -> None:
    """On the tensor cores, with `out=` and a strided start."""
    a, b = (torch.randn(256, 256, device="cuda").to(torch.bfloat16) / 16 for _ in range(2))
    want = a
    for _ in range(4):
        want = want @ b
    out = torch.empty_like(a)
    for _ in range(2):
        assert m.power(a, b, 4, out=out) is out
        torch.testing.assert_close(out, want, rtol=3e-2, atol=3e-2)
    torch.testing.assert_close(m.power(a.T, b, 4), ((a.T @ b) @ b) @ b @ b, rtol=3e-2, atol=3e-2)
    steps = torch.tensor(4, dtype=torch.int32, device="cuda")
    torch.testing.assert_close(m.power(a, b, steps), want, rtol=3e-2, atol=3e-2)


def test_steps_that_are_graphs(m: Any) -> None:
    """Hundreds of steps, with states that lie elsewhere in each call, a condition, a counter, a loop in each step, and slices: the
    bits of a walk, which a recorded stream has."""
    steps = """
fun plain (x : f32[n]) = loop (s = x, r = x) for t < 300 =>
  (sort (for i => s[n - 1 - i] - 0.5 * r[i]), sort (for i => 0.5 * r[i] - 0.25 * s[i]))
fun counted (x : f32[n]) = loop (s = x, r = x) for t < 300 =>
  (sort (for i => s[n - 1 - i] - 0.5 * r[i]), sort (for i => 0.5 * r[i] - 0.001 * cast _ t))
fun sliced (x : f32[n]) = unfold (s = x, r = x) for t < 300 =>
  (sort (for i => s[n - 1 - i] - 0.5 * r[i]), sort (for i => 0.5 * r[i] - 0.25 * s[i]))
fun inside (x : f32[n]) = loop (s = x) for t < 100 =>
  loop (r = s) for u < 5 + t % 3 => sort (for i => 0.5 * (sort r)[n - 1 - i] + 0.25 * s[i])"""
    module = axon.compile(steps)
    for n in (37, 4096):
        x = torch.randn(n, device="cuda")
        for f in (module.plain, module.counted, module.sliced, module.inside):
            made = [f(x.clone()) for _ in range(3)]
            graph, recorded = torch.cuda.CUDAGraph(), None
            with torch.cuda.graph(graph):
                recorded = f(x)
            graph.replay()
            torch.cuda.synchronize()
            for one in made:
                pairs = zip(one, recorded, strict=True) if isinstance(one, tuple) else ((one, recorded),)
                assert all(torch.equal(a, b) for a, b in pairs)
    ended = axon.compile("""
fun f (x : f32[n]) = loop (s = x, c = 0) while s[n - 1] > 0.01 for t < 1000 =>
  (sort (for i => 0.9 * (sort (for j => 0.99 * s[n - 1 - j]))[i]), c + 1)""").f
    for scale in (0.001, 1.0, 1e6):
        check(ended, np.sort(abs(random(33))) * np.float32(scale))


def test_counters(m: Any) -> None:
    for n in (0, 1, 33):
        check(m.sums, random(n))
        check(m.running, random(n), tolerance=1e-3)
        check(m.triangle, random(n), tolerance=1e-3)
        check(m.nested, random(n))
    for w in (1, 3, 4, 8):
        check(m.windows[w], random(40))
    check(m.lstm, random(6, 32) / 4, random(8, 32) / 4, random(7, 3, 6), tolerance=1e-3)
    check(m.counted, random(5), np.array([3, 4, 2], np.int32))


def test_compress(m: Any) -> None:
    for n in (0, 1, 50, 5000, 300_001):
        x = random(n)
        got = m.picked(on(x))
        want = np.flatnonzero(x > 0)
        np.testing.assert_array_equal(got[0].cpu().numpy(), want)
        same(host(got[1]), np.exp(x[want]))
    check(m.picked, -np.abs(random(20)))
    big = torch.rand(70_000_001, device="cuda") - 0.7
    torch.testing.assert_close(m.picked(big)[0].long(), (big > 0).nonzero()[:, 0])


@pytest.mark.parametrize("element", list(Element))
def test_sort(m: Any, element: Element) -> None:
    chance = np.random.default_rng(0)
    for shape in ((1,), (3, 7), (2, 3, 2048), (5, 2049), (2, 100_003)):
        if element.is_float:
            special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5, -1.5, 2.0, 3e5])
            x = np.where(chance.random(shape) < 0.2, chance.choice(special, shape), chance.standard_normal(shape))
            with np.errstate(all="ignore"):
                x = x.astype(element.dtype)
        else:
            low, high = (0, 1) if element is Element.BOOL else (np.iinfo(element.dtype).min, np.iinfo(element.dtype).max)
            x = chance.integers(low, high, shape, endpoint=True, dtype=element.dtype)
        wide = x.astype(np.float32) if element.bits < 32 and element.is_float else x
        order = np.argsort(wide, axis=-1, kind="stable")
        values, indices = m.ordered(x, target="cuda")
        np.testing.assert_array_equal(indices, order)
        assert np.asarray(values).tobytes() == np.take_along_axis(x, order, axis=-1).tobytes()


def test_large_sorts(m: Any) -> None:
    for shape in ((5_000_011,), (3000, 1000), (70, 20_000)):
        x = torch.randn(shape, device="cuda")
        want = torch.sort(x, dim=-1, stable=True)
        values, indices = m.ordered(x)
        assert torch.equal(values, want.values)
        assert torch.equal(indices.long(), want.indices)
    x = torch.randint(0, 9, (400, 3000), device="cuda", dtype=torch.int32).T  # a view, sorted where it lies
    values, indices = m.ordered(x)
    want = torch.sort(x, dim=-1, stable=True)
    assert torch.equal(values, want.values)
    assert torch.equal(indices.long(), want.indices)


def test_checks(m: Any) -> None:
    x = random(6)
    check(m.coerced[6], x)
    with pytest.raises(axon.ShapeError) as wanted:
        m.coerced[5](x, target="cpu")
    for given in (on(x), x):
        with pytest.raises(axon.ShapeError) as raised:
            m.coerced[5](given, target="cuda")
        assert str(raised.value) == str(wanted.value)


def test_failures(m: Any) -> None:
    x, good, bad = random(5), np.array([0, 4, 2], np.int32), np.array([0, 9, 2], np.int32)
    for function in (m.pick, m.walk):
        check(function, x, good)
        with pytest.raises(AxonError) as wanted:
            function(x, bad, target="cpu")
        with pytest.raises(AxonError) as raised:
            function(x, bad, target="cuda")
        assert str(raised.value) == str(wanted.value)
        assert type(raised.value) is type(wanted.value)
        kept = on(x), on(bad)
        function(*kept)
        with pytest.raises(axon.ShapeError, match=r"AX0502[\s\S]*in an earlier call of"):
            axon.synchronize()
        function(*kept)
        torch.cuda.synchronize()
        with pytest.raises(axon.ShapeError, match="in an earlier call of"):
            function(on(x), on(good))
        check(function, x, good)
        function(on(x), on(bad))
        with pytest.raises(AxonError, match="AX0511"):
            axon.synchronize()


def test_threads_and_streams(m: Any) -> None:
    inputs = [on(random(64, seed=n)) for n in range(8)]

    def call(x: Any) -> Any:
        with torch.cuda.stream(torch.cuda.Stream()):
            out = [m.picked(x)[1], m.nested(x), m.ordered(x)[0]]
            torch.cuda.current_stream().synchronize()
            return out

    torch.cuda.synchronize()
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(call, inputs))
    for x, (picked, nested, ordered) in zip(inputs, results, strict=True):
        torch.testing.assert_close(picked, torch.exp(x[x > 0]))
        torch.testing.assert_close(ordered, torch.sort(x).values)
        same(host(nested), m.nested(x.cpu().numpy(), target="interpret"))


def test_recording(m: Any) -> None:
    """A loop whose steps the caller gives is recorded like any call; a size that is read back says that it cannot be."""
    x = on(random(64))
    want = m.nested(x)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        got = m.nested(x)
    graph.replay()
    torch.testing.assert_close(got, want)
    m.picked(x)
    with pytest.raises(AxonError, match="cannot be part of a stream capture"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        m.picked(x)
