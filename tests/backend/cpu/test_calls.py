"""The CPU backend as a user meets it: the corpus, errors, sizes, layouts, threads, and what is compiled when."""

import _thread
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Timer
from time import monotonic

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.backend.cpu import build, executable, host, launch, run
from axon.base.errors import AxonError
from axon.interpret import run as interpret
from tests.corpus.test_values import CASES, module, same


@pytest.mark.parametrize("part", range(12))
def test_the_corpus_compiled(part):
    for path, dims, arguments, answer in CASES[part::12]:
        file, name = path.split(".")
        function = module(file)[name]
        function = function[dims] if dims else function
        got = function(*arguments, target="cpu")
        same(got, answer(*arguments))
        same(got, function(*arguments, target="interpret"))


ERRORS = {
    "an index from data": ("fun f x ids = for i => x[ids[i]]", np.arange(5.0, dtype=np.float32), np.array([1, 7, 9], np.int32)),
    "a negative index": ("fun f x ids = for i => x[ids[i]]", np.arange(5.0, dtype=np.float32), np.array([1, -1], np.int32)),
    "an empty table": ("fun f (x : f32[n]) ids = for i => x[ids[i]]", np.zeros(0, np.float32), np.array([0], np.int32)),
    "division": ("fun f (x : i32[n]) (y : i32[n]) = x / y", np.array([1, 2], np.int32), np.array([1, 0], np.int32)),
    "remainder": ("fun f (x : i8[n]) (y : i8[n]) = x % y", np.array([1, 2], np.int8), np.array([0, 1], np.int8)),
    "a power": ("fun f (x : i32[n]) (y : i32[n]) = x ** y", np.array([1, 2], np.int32), np.array([1, -1], np.int32)),
    "nothing to compare": (
        "fun f (x : i32[n]) (m : bool[n]) = max for i where m[i] => x[i]",
        np.ones(2, np.int32),
        np.zeros(2, bool),
    ),
    "in a loop": (
        "fun f (x : f32[n]) (k : i32) = loop (s = 0.0) for t < k => s + x[t]",
        np.ones(3, np.float32),
        5,
    ),
    "a coercion": ("fun f (x : f32[n]) (y : f32[m]) = x + (y as f32[n])", np.ones(2, np.float32), np.ones(3, np.float32)),
}


@pytest.mark.parametrize("case", ERRORS, ids=lambda c: c.replace(" ", "-"))
def test_errors_are_those_of_the_interpreter(case):
    source, *arguments = ERRORS[case]
    function = axon.compile(source).f
    raised = []
    for target in ("interpret", "cpu"):
        with pytest.raises(axon.AxonError) as error:
            function(*arguments, target=target)
        raised.append((type(error.value), str(error.value)))
    assert raised[0] == raised[1]


def test_code_that_is_not_taken_cannot_fail():
    source = "fun f (x : i32[n]) (y : i32[n]) = for i => if y[i] <> 0 andalso x[i] / y[i] > 1 then x[x[i]] else 0"
    x, y = np.array([4, 2, 0, 9, 1], np.int32), np.array([0, 1, 0, 9, 0], np.int32)
    function = axon.compile(source).f
    assert function(x, y, target="cpu").tolist() == function(x, y, target="interpret").tolist() == [0, 0, 0, 0, 0]


def test_one_artifact_serves_all_sizes(monkeypatch):
    compiled = []
    original = build.compile_source
    monkeypatch.setattr(build, "compile_source", lambda source: compiled.append(source) or original(source))
    m = axon.compile("fun sizes_of_all (x : f32[n, m]) = for i j => x[i, j] * 3.25 - sum k => x[i, k]")
    for n, k in [(0, 0), (0, 3), (1, 1), (2, 0), (1, 7), (3, 5), (17, 1), (33, 4097), (1000, 63), (4097, 9)]:
        x = np.random.default_rng(n).standard_normal((n, k)).astype(np.float32)
        got = m.sizes_of_all(x, target="cpu")
        assert got.shape == (n, k)
        np.testing.assert_allclose(got, x * np.float32(3.25) - x.sum(1, keepdims=True), rtol=1e-4, atol=1e-4)
    assert len(compiled) == 1


def test_a_loop_has_two_artifacts_for_all_sizes(monkeypatch):
    """One for the whole loop, where steps are small, and one for its kernel, where they are large: docs/cpu.md says why. Rows look
    at each other, so that threads do not share the loop."""
    compiled = []
    original = build.compile_source
    monkeypatch.setattr(build, "compile_source", lambda source: compiled.append(source.entry) or original(source))
    m = axon.compile(
        "fun f {n} (x : f32[h, w]) = loop (u = x) for t < n => for i < h, j => u[h - 1 - i, j] * 0.8125 + max k => x[k, j]"
    )
    for size in [(0, 3), (1, 1), (3, 5), (63, 65), (400, 500), (2, 7), (1001, 300), (5, 0)]:
        x = np.random.default_rng(0).standard_normal(size).astype(np.float32)
        wanted = x
        for _ in range(3):
            wanted = wanted[::-1] * np.float32(0.8125) + x.max(0, initial=-np.inf)
        np.testing.assert_allclose(m.f[3](x, target="cpu"), wanted, rtol=1e-5, atol=1e-5)
    assert compiled.count("loop") == 1
    assert len(compiled) == len(set(compiled)) <= 3  # the loop, its kernel, and what no step changes


@pytest.mark.parametrize("sizes", [(0, 5), (1, 1), (3, 4096), (5, 4097), (2, 9001), (4100, 3)])
def test_large_and_odd_sizes(sizes):
    """Sums along both dimensions, running ones, best ones and chains, over block boundaries, on all threads."""
    m = axon.compile(
        """
        fun f (x : f32[n, m]) =
          let val columns = for j => sum i => x[i, j]
              val rows = for i => max j => x[i, j] * 2.0
              val running = for i => (scan (op +, 0.0) for j => x[i, j])
              val chain = for i j => exp (x[i, j] - rows[i]) + columns[j]
          in (columns, rows, chain) end
        fun running (x : f32[n, m]) = for i => (scan (op +, 0.0) for j => x[i, j])
        fun best (x : f32[n, m]) = for j => argmax i => x[i, j]
    """
    )
    x = np.random.default_rng(0).standard_normal(sizes).astype(np.float32)
    columns, rows, chain = m.f(x, target="cpu")
    largest = 2 * x.max(1, initial=-np.inf)
    np.testing.assert_allclose(columns, x.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(rows, largest, rtol=1e-6)
    np.testing.assert_allclose(chain, np.exp(x - largest[:, None]) + x.sum(0), rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(m.running(x, target="cpu"), x.cumsum(1, dtype=np.float64), rtol=1e-4, atol=1e-3)
    if sizes[0]:
        assert m.best(x, target="cpu").tolist() == x.argmax(0).tolist()


@pytest.mark.parametrize(
    "source",
    [
        "fun f (x : f32[n, a, b, c]) = for i => sum j k l => x[i, j, k, l]",
        "fun f (x : f32[n, a, b, c]) = for i => sum j k l => x[i, j, k, l] * x[i, j, k, l]",
        "fun f (x : f32[n, a, b, c]) = for i, t < 5 => sum j k l => x[i, j, k, l] * (1.0 + cast f32 t)",
        "fun f (x : f32[n, a, b, c]) = for i => sum for j < a, k < b, l < c where x[i, j, k, l] > 3.0 => x[i, j, k, l]",
    ],
)
def test_sums_over_several_axes_keep_their_digits(source):
    """Of 300,000 numbers about 3, in runs of 8: one accumulator for all of them would be wrong by 1e-5 and more."""
    f = axon.compile(source).f
    x = np.random.default_rng(0).standard_normal((2, 200, 190, 8)).astype(np.float32) * np.float32(0.1) + np.float32(3)
    got = f(x, target="cpu")
    exact = axon.compile(source.replace("f32", "f64")).f(x.astype(np.float64), target="cpu")
    np.testing.assert_allclose(got, exact, rtol=5e-7)


@pytest.mark.parametrize(
    "source",
    [
        "fun f (x : f32[n, d]) = for j => sum i => x[i, j]",
        "fun f (x : f32[n, d]) = let val y = for j i => x[i, j] in for j => sum i => y[j, i] end",
        "fun f (x : f32[n, d]) = for j => sum for i < n where x[i, j] > 3.0 => x[i, j]",
        "fun f (x : f32[n, d]) = for j => sum i => exp (x[i, j] - 3.0)",
        "fun f (x : f32[n, d]) = sum i => x[i, 0]",
        "fun f (x : f32[n, d]) = for j, t < 5 => sum i => x[i, j] + cast f32 t",
    ],
)
@pytest.mark.parametrize("n", [1, 127, 128, 129, 2048, 2049, 5000, 300_001])
def test_sums_over_one_axis_keep_their_digits(source, n):
    """Of 300,001 numbers about 3: one accumulator would be wrong by 1e-5 and more."""
    f = axon.compile(source).f
    x = np.random.default_rng(n).standard_normal((n, 9)).astype(np.float32) * np.float32(0.1) + np.float32(3)
    got = f(x, target="cpu")
    exact = axon.compile(source.replace("f32", "f64")).f(x.astype(np.float64), target="cpu")
    np.testing.assert_allclose(got, exact, rtol=8e-7)


def test_layouts_of_arguments():
    """Transposed, strided, reversed, read-only and unaligned arrays; none is written to, and no result shares their memory."""
    m = axon.compile("fun f (x : f32[n, m]) (y : f32[m, k]) = (x @ y, for i j => x[i, j] + 1.0, x)")
    rng = np.random.default_rng(0)
    raw = np.frombuffer(b"\0" + rng.standard_normal(12).astype(np.float32).tobytes(), np.uint8)[1:].view(np.float32).reshape(3, 4)
    base = rng.standard_normal((8, 8)).astype(np.float32)
    for x in (base[:4, :3].T, base[::2, ::2][:3], base[::-1, ::-1][:3, :4], raw, np.asfortranarray(base[:3, :4])):
        x.flags.writeable = False
        y = base[: x.shape[1], :2]
        before = x.tobytes()
        product, plus, again = m.f(x, y, target="cpu")
        np.testing.assert_allclose(product, x @ y, rtol=1e-5)
        assert np.array_equal(plus, x + np.float32(1))
        assert np.array_equal(again, x)
        assert x.tobytes() == before
        for result in (product, plus, again):
            assert result.flags.writeable
            assert result.flags.c_contiguous
            assert not np.may_share_memory(result, x)


def test_results_are_fresh_from_call_to_call():
    """Memory is used again, but never that of a result."""
    m = axon.compile("fun f (x : f32[n, m]) = let val h = for i j => sum k => x[i, k] * x[j, k] in (h @ x, h) end")
    first = np.ones((200, 300), np.float32)
    kept = m.f(first, target="cpu")
    for scale in (2, 3):
        m.f(first * scale, target="cpu")
    assert (kept[0] == 300 * 200).all()
    assert (kept[1] == 300).all()


def test_many_threads_call_at_once():
    m = axon.compile("fun f (x : f32[n, m]) = for i j => exp (x[i, j] - max k => x[i, k]) / (sum k => exp x[i, k]) ")
    x = np.random.default_rng(0).standard_normal((300, 500)).astype(np.float32)
    wanted = np.exp(x - x.max(1, keepdims=True)) / np.exp(x).sum(1, keepdims=True)
    with ThreadPoolExecutor(8) as pool:
        for got in pool.map(lambda _: m.f(x, target="cpu"), range(40)):
            np.testing.assert_allclose(got, wanted, rtol=1e-4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_computes():
    """Threads of the pool do not survive a fork: the child starts its own."""
    m = axon.compile("fun f (x : f32[n, m]) = for i j => tanh x[i, j] * 2.0")
    x = np.ones((1000, 1000), np.float32)
    wanted = m.f(x, target="cpu")
    child = os.fork()
    if child == 0:
        os._exit(0 if np.array_equal(m.f(x, target="cpu"), wanted) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_sizes_alone_decide_what_is_interpreted():
    m = axon.compile("fun f (x : f32[n]) = for i => x[i] * 7.0 + 1.5")
    program = m._session.program(m._session.callee("f"), (np.ones(3, np.float32),), {})
    tiny, large = [np.ones(3, np.float32)], [np.ones(host.TINY + 1, np.float32)]
    here = host.Host(program)
    here(tiny)
    assert not here._executables
    here(large)
    made, here._executables = here._executables, {}
    assert made is not None
    here(tiny)
    assert not here._executables  # also after a large one
    here = host.Host(program)
    here(tiny, compiled=True)
    assert here._executables


HISTORIES = {
    "map": "fun f (x : f32[n]) = for i => exp (sin x[i]) / (1.0 + x[i] * x[i])",
    "sum": "fun f (x : f32[n]) = sum i => exp x[i] * 0.1",
    "softmax": "import nn\nfun f (x : f32[n]) = nn.softmax x",
    "scan": "fun f (x : f32[n]) = scan (op +, 0.0) k => tanh x[k]",
    "product": "fun f (x : f32[n]) = sum i => (sum j => x[i] * x[j] * 0.01) * x[i]",
}


@pytest.mark.parametrize("text", HISTORIES.values(), ids=HISTORIES)
def test_results_do_not_depend_on_what_was_called_before(text):
    """Sizes decide what is interpreted and what is compiled: neither larger calls before nor many of them change a bit."""
    rng = np.random.default_rng(3)
    calls = [rng.standard_normal(n).astype(np.float32) for n in (3, 700, host.TINY + 5, 17)]
    alone = [axon.compile(text).f(x) for x in calls]
    for order in ((2, 0, 1, 3), (0, 0, 3, 2, 1, 0), (*(0, 3) * 25, 2, *(1, 0, 3) * 5)):
        f = axon.compile(text).f
        for i in order:
            assert np.asarray(f(calls[i])).tobytes() == np.asarray(alone[i]).tobytes(), (order, i)


def test_work_is_estimated_through_loops():
    m = axon.compile("fun f {n} (x : f32[]) = loop (s = x) for t < n => s * 0.5")
    program = m._session.program(m._session.callee("f"), (np.float32(1),), {})
    assert host.Host(program)._work([np.ones((), np.float32)], [3]) <= host.TINY
    assert host.Host(program)._work([np.ones((), np.float32)], [100_000]) > host.TINY


def test_many_calls_on_little_data_are_told_once_what_is_quicker(monkeypatch):
    m = axon.compile("fun f (x : f32[n]) = for i => x[i] * 7.0 + 1.5")
    monkeypatch.setattr(host, "MANY", 1_000)
    x = np.ones(3, np.float32)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        for _ in range(100):
            m.f(x)
    assert ["calls of `f` on little data are interpreted" in str(warning.message) for warning in said] == [True]


LOOPS = """
fun power {n} (a : f32[k, k]) = loop (s = a) for t < n => s @ a
fun swap {n} (x : f32[k]) (y : f32[k]) = loop (a = x, b = y) for t < n => (b, a)
fun keep {n} (x : f32[k]) = unfold (a = x) for t < n => a
fun fixed {n} (x : f32[k]) (y : f32[k]) = loop (a = x) for t < n => y
fun nested {n} (x : f32[k]) = loop (a = x) for t < n => loop (b = a) for u < t => for i => b[i] + cast f32 u * x[i]
fun states {n} (x : f32[k]) = unfold (a = x, c = 0) for t < n => (for i => a[i] * 0.5 + cast f32 t, c + t)
fun until (k : i32) (x : f32) = loop (a = x) for t < k => a + 1.0
fun data {n} (c : i32[k]) = loop (s = c) for t < n => loop (a = s) for u < c[t % 4] => for i => a[i] * 3 + u
fun deep {n} (x : f32[k]) =
  loop (s = x, m = 0.0) for t < n =>
    let
      val one = loop (a = s) for u < t => loop (b = a) for v < u + 1 => for i => b[i] * 0.5 + cast f32 (u + v)
      val top = max i => one[i]
      val all = unfold (a = one) for u < 3 => for i => a[i] / (1.0 + abs top)
      val two = loop (a = all[1, ..]) for u < 2 => loop (b = a) for v < t => for i => b[k - 1 - i] + x[i]
    in
      (for i => two[i] - top + all[0, i], m + top)
    end
"""


@pytest.mark.parametrize("way", ["native", "native, back after each step", "native, back after some", "stepped"])
@pytest.mark.parametrize("steps", [0, 1, 2, 5])
def test_loops(way, steps, monkeypatch):
    """Small steps in one native function and large ones step by step give the same: here small ones both ways."""
    monkeypatch.setattr(run, "SMALL_STEP", -1 if way == "stepped" else 10**9)
    monkeypatch.setattr(executable, "SMALL", 0 if way == "stepped" else executable.SMALL)
    if "back" in way:
        monkeypatch.setattr(run, "LONG", 1 if "each" in way else 23)
    m = axon.compile(LOOPS)
    rng = np.random.default_rng(0)
    a, x, y = (rng.standard_normal(s).astype(np.float32) for s in ((3, 3), 4, 4))
    calls = {"power": (a,), "swap": (x, y), "keep": (x,), "fixed": (x, y), "nested": (x,), "states": (x,), "deep": (x,)}
    calls["data"] = (np.array([2, 0, 3, -1], np.int32),)
    for name, arguments in calls.items():
        function = m[name][steps]
        got, wanted = (function(*arguments, target=target) for target in ("cpu", "interpret"))
        for g, w in zip(*[(v if isinstance(v, tuple) else (v,)) for v in (got, wanted)], strict=True):
            assert np.asarray(g).dtype == np.asarray(w).dtype
            np.testing.assert_allclose(g, w, rtol=1e-5, atol=1e-6, err_msg=name)
            assert not any(np.may_share_memory(g, argument) for argument in arguments)
    assert m.until(steps, 1.5, target="cpu") == 1.5 + steps
    assert m.until(-3, 1.5, target="cpu") == 1.5


INTERRUPTED = {
    "of cheap steps": "fun f (x : f32) k = loop (s = x) for t < k => s * 0.5 + x",
    "in one that runs as often as data say": "fun f (x : f32) k = loop (s = x) for t < k => loop (a = s) for u < k => a * 0.5 + x",
    "after an empty one": "fun f (x : f32) k = loop (s = x) for t < k => (loop (a = s) for u < t / k => a * 0.5) * 0.5 + x",
    "of three": "fun f (x : f32) k = loop (s = x) for t < k => loop (a = s) for u < 2 => loop (b = a) for v < k => b * 0.5 + x",
    "of steps that grow": "fun f (x : f32) k = loop (s = x) for t < k => s * 0.5 + x - 0.0 * sum for i < t => sin (s + cast f32 i)",
    "of dear steps": "fun f (x : f32) k = loop (s = x) for t < k => " + "sin (" * 60 + "s" + ")" * 60,
}


@pytest.mark.parametrize("case", INTERRUPTED, ids=lambda c: c.replace(" ", "-"))
def test_a_native_loop_can_be_interrupted(case, monkeypatch, ctrl_c):
    """Each of these would run for minutes, or for years."""
    m = axon.compile(INTERRUPTED[case])
    known = m.f(1.0, 3, target="cpu")
    launch, longest = run.CpuRun.launch, [0.0]

    def measured(self, *given):
        begin = monotonic()
        came_back = launch(self, *given)
        longest.append(monotonic() - begin)
        return came_back

    monkeypatch.setattr(run.CpuRun, "launch", measured)
    timer = Timer(0.5, _thread.interrupt_main)
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        m.f(1.0, 2**31 - 1, target="cpu")
    timer.join()
    assert max(longest) < 5, "about half a second on a machine that does nothing else"
    assert m.f(1.0, 3, target="cpu") == known


def test_a_long_loop_of_large_steps_keeps_no_memory():
    import tracemalloc

    m = axon.compile("fun f (x : f32[n]) = loop (s = x) for t < 200 => for i => s[i] * 0.5 + x[i]")
    x = np.ones(300_000, np.float32)
    m.f(x, target="cpu")
    tracemalloc.start()
    m.f(x, target="cpu")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 20 * x.nbytes


def test_narrow_element_types_round_like_the_interpreter():
    m = axon.compile("fun f (x : 'a[n, k]) (y : 'a[k, m]) = (x @ y, for i => sum j => x[i, j], for i j => x[i, j] / 3.0 + x[i, j])")
    rng = np.random.default_rng(0)
    for dtype in (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        x, y = rng.standard_normal((5, 70)).astype(dtype), rng.standard_normal((70, 3)).astype(dtype)
        for got, wanted in zip(m.f(x, y, target="cpu"), m.f(x, y, target="interpret"), strict=True):
            assert got.dtype == dtype
            tolerance = 0.07 if np.dtype(dtype).itemsize == 1 else 0.01
            np.testing.assert_allclose(got.astype(np.float32), wanted.astype(np.float32), rtol=tolerance, atol=0.02)


def test_the_interpreter_stays_the_oracle():
    m = axon.compile("fun f (x : f64[n]) = for i => x[i] / 3.0")
    x = np.arange(5.0)
    program = m._session.program(m._session.callee("f"), (x,), {})
    assert np.array_equal(m.f(x, target="interpret"), interpret(program, [x])[0])


def test_names_of_a_program_do_not_clash_with_those_of_its_code():
    """A tensor may be called as an operation of emitted code is, as a variable of it, or as a word of Python."""
    words = ["exp", "load_f32", "mul", "copy", "v1", "r1", "start_1", "kernel_1", "lambda", "__debug__", "_2", "range"]
    terms = " + ".join(f"power ({word}[j] * mul[i])" for word in words)
    text = f"fun power x = exp x\nfun f {' '.join(words)} = for i => sum j => {terms}\n"
    text += "fun g copy store_i32 first = loop (kernel_1 = copy, last = first) for as_i32 < 30 =>\n"
    text += "  (for i => kernel_1[i] * 0.5 + store_i32[i], for i => last[i] * 0.5)\n"
    text += "fun h (x : f32[__debug__]) = (for __debug__ => x[__debug__] * 2.0, cast f32 __debug__, scan (op +, 0.0) i => x[i])\n"
    module = axon.compile(text)
    rng = np.random.default_rng(0)
    arguments = [rng.normal(size=6).astype(np.float32) / 4 for _ in words]
    np.testing.assert_allclose(module.f(*arguments, target="cpu"), module.f(*arguments, target="interpret"), rtol=1e-5)
    for mine, exact in zip(module.g(*arguments[:3], target="cpu"), module.g(*arguments[:3], target="interpret"), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-7)
    for mine, exact in zip(module.h(arguments[0], target="cpu"), module.h(arguments[0], target="interpret"), strict=True):
        np.testing.assert_allclose(mine, exact, rtol=1e-5, atol=1e-7)


def test_names_of_what_kernels_call():
    """Tensors and sizes may be called as what their kernel calls, as its variables, and as what Python has under a name."""
    names = ("select", "load_f32", "store_f32", "range", "item", "bad", "v1", "a2", "start_1", "last", "inf", "f32_", "gt_float")
    given = " ".join(f"({name} : f32[both, add])" for name in names)
    total = " + ".join(f"{name}[i, j]" for name in names)
    source = f"fun f {given} = for i => max j => if select[i, j] > 0.5 then exp ({total}) else -1.0 / 0.0"
    rng = np.random.default_rng(3)
    arrays = [rng.random((3, 5)).astype(np.float32) for _ in names]
    f = axon.compile(source).f
    np.testing.assert_allclose(f(*arrays, target="cpu"), f(*arrays, target="interpret"), rtol=1e-5)


@pytest.mark.parametrize("value", ["0", "-1", "two", "1e3", "100000"])
def test_a_number_of_threads_that_is_none(monkeypatch, value):
    monkeypatch.setenv("AXON_THREADS", value)
    with pytest.raises(AxonError, match="AXON_THREADS must be a number from 1 to 1024"):
        axon.compile("fun f x = for i => sum j => x[i, j]").f(np.ones((1000, 1000), np.float32), target="cpu")


def test_results_that_no_memory_holds():
    with pytest.raises(AxonError, match=r"AX0002(.|\n)*1000000, 1000000"):
        axon.compile("fun f {n} = for i < n, j < n => 0.0").f[10**6](target="cpu")


def test_threads_that_ask_at_once_for_what_calls_a_kernel_get_what_stays(monkeypatch):
    """A function of Python's in C speaks of its method by its address: one that a second thread made must not be forgotten."""
    both = Barrier(2, timeout=60)
    monkeypatch.setattr(launch, "_methods", {}, raising=False)
    monkeypatch.setattr(launch.threads, "address", lambda name: both.wait() and 0)
    with ThreadPoolExecutor(2) as pool:
        first, second = pool.map(lambda _: launch._method("alone 3 16"), range(2))
    assert first is second is launch._method("alone 3 16")
