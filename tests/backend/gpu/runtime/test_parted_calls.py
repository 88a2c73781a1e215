"""Calls of programs in parts: loops, sorts, compresses and checks around straight parts, on a device that is played."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.runtime import failures, stepping
from axon.backend.gpu.runtime.given import downloaded
from axon.base.element import Element
from axon.base.errors import AxonError
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary, aligned
from tests.backend.gpu.runtime.parted import PlayedDriver, PlayedExecutable, played

PROGRAM = """\
fun power (a : f32[n, n]) steps = loop (p = a) for t < steps => p @ a
fun sums (x : f32[n]) = unfold (s = x, c = 0) for t < 4 => (for i => s[i] + cast _ t, c + t)
fun rows {k} (x : f32[n]) = unfold (s = x) for t < k => for i => s[i] * 2.0
fun swap (x : f32[n]) (y : f32[n]) steps = loop (a = x, b = y) for t < steps => (b, a)
fun keep (x : f32[n]) steps = loop (a = x, b = 1) for t < steps => (a, b * 2)
fun picked (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in for i => exp x[ix[i]] end
fun chosen (x : f32[n]) = let val (ix : i32[k]) = nonzero (for i => x[i] > 0.0) in (ix, sum i => x[ix[i]]) end
fun ordered (x : f32[n, m]) = (sort x, argsort x)
fun running (x : f32[n]) = loop (s = 0.0) for t < n => s + x[t] * cast _ t
fun triangle (x : f32[n]) = loop (s = x) for t < n => for i => s[i] + sum for j < t => x[j]
fun nested (x : f32[n]) = loop (s = x) for t < 3 => loop (r = s) for u < t + 1 => for i => r[i] + cast _ (10 * t + u)
fun tables (x : f32[n]) = unfold (s = x) for t < 3 => loop (r = s) for u < 2 => for i => r[i] + 1.0
fun coerced {m} (x : f32[n]) = exp (x as f32[m])
fun pick (x : f32[n]) (ids : i32[k]) = for i => x[ids[i]]
fun walk (x : f32[n]) (ids : i32[k]) = loop (s = 0.0) for t < k => s + x[ids[t]]
fun both (x : f32[n]) = (loop (s = x) for t < 3 => for i => s[i] + 1.0, loop (s = x) for t < 2 => for i => s[i] * 2.0)
fun counted (x : f32[n]) (ids : i32[k]) = loop (s = 0.0) for t < (sum i => ids[i]) => s + x[ids[t]]
fun ended (x : f32[n]) most = loop (s = x, c = 0) while (sum i => s[i]) > 1.0 for t < most => (for i => s[i] * 0.5, c + 1)
fun each_ended (x : f32[n]) = for i => (loop (s = x[i], c = 0) while s > 1.0 for t < 20 => (s * 0.5, c + 1)).2
fun stages (x : f32[n]) =
  let val a = loop (s = for i j => x[i] * x[j]) for t < 2 => for i j => s[j, i] + 1.0
      val b = loop (s = for i j, k < 3 => a[i, j] + cast _ k) for t < 2 => for i j k => s[j, i, k] * 0.5
      val c = loop (s = for i j, k < 5 => b[i, j, 0] + cast _ k) for t < 2 => for i j k => s[j, i, k] - 1.0
  in loop (s = for i j, k < 7 => c[i, j, 0] + cast _ k) for t < 2 => for i j k => s[j, i, k] * 2.0 end
fun divided (a : i32) (b : i32) = (loop (x = a, y = b) while y <> 0 for _ < 64 => (y, x % y)).1
"""


@pytest.fixture
def m() -> Any:
    return axon.compile(PROGRAM)


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    return played(monkeypatch)


def on(x: Any) -> DeviceArray:
    made = aligned(x.shape, {"f": Element.F32, "i": Element.I32}[x.dtype.kind])
    made[...] = x
    return DeviceArray(made)


def random(*shape: int, seed: int = 0) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def host(value: Any) -> Any:
    if isinstance(value, tuple):
        return tuple(map(host, value))
    return np.asarray(value.array if isinstance(value, DeviceArray) else value)


def check(function: Any, *args: Any, times: int = 2) -> Any:
    """A function on the played device gives what the interpreter gives, at the first call, at the next, and for NumPy's arrays."""
    want = function(*args, target="interpret")
    given = [on(x) if isinstance(x, np.ndarray) else x for x in args]
    for _ in range(times):
        made = function(*given)
        _same(host(made), host(want))
    _same(host(function(*args, target="cuda")), host(want))
    for x, y in zip(args, given, strict=True):
        if isinstance(x, np.ndarray):
            np.testing.assert_array_equal(x, y.array, err_msg="an argument was written")
    return made


def _same(got: Any, want: Any) -> None:
    if isinstance(want, tuple):
        for a, b in zip(got, want, strict=True):
            _same(a, b)
        return
    assert got.shape == want.shape
    assert got.dtype == want.dtype or not got.shape  # Python's numbers
    np.testing.assert_allclose(got, want, rtol=1e-5)


@pytest.mark.parametrize("steps_", [0, 1, 2, 5])
def test_loops(m: Any, cuda: PlayedDriver, library: FakeLibrary, steps_: int) -> None:
    check(m.power, random(4, 4), steps_)
    check(m.swap, random(5), random(5, seed=1), steps_)
    check(m.keep, random(5), steps_)
    check(m.rows[steps_], random(4))  # states at multiples of 16 bytes
    check(m.rows[steps_], random(5))  # and elsewhere


def test_loops_of_other_shapes(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    for n in (0, 1, 4, 7):
        check(m.sums, random(n))
        check(m.running, random(n))
        check(m.triangle, random(n))
        check(m.nested, random(n))
        check(m.tables, random(n))


@pytest.mark.parametrize("most", [0, 1, 3, 100])
def test_a_condition_ends_a_loop(m: Any, cuda: PlayedDriver, library: FakeLibrary, most: int) -> None:
    """Also before the first step, and where a step more would fail; the host waits once for each test."""
    for scale in (0.0, 1.0, 9.0):
        x = abs(random(5)) * np.float32(scale)
        check(m.ended, x, most)
        cuda.waited = 0
        _, steps_ = m.ended(on(x), most)
        assert cuda.waited == min(int(host(steps_)) + 1, most)
    check(m.each_ended, abs(random(7)) * 30)
    check(m.each_ended, random(0))
    assert m.divided(on(np.array(48, np.int32)), on(np.array(18, np.int32))).array == 6


def test_a_number_decides_how_many_steps_without_waiting(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    a = on(random(4, 4))
    m.power(a, 6)
    assert cuda.waited == 0
    want = m.power(a.array, 3, target="interpret")
    _same(host(m.power(a, on(np.array(3, np.int32)))), want)
    assert cuda.waited == 1


def test_sizes_decide_how_many_steps_without_waiting(cuda: PlayedDriver, library: FakeLibrary) -> None:
    """Also where no dimension says it; one that stops the program is the interpreter's to word."""
    m = axon.compile("""
fun halved (x : f32[n]) =
  let val c = sum for k < 8 where 2 ** k <= n => 1 in loop (s = x) for _ < c => for i => 0.5 * s[i] end
fun each (x : f32[n]) = loop (s = x) for t < 3 =>
  let val c = sum for k < 2 + t where k * k <= n => 1 in loop (r = s) for _ < c => for i => 0.5 * r[i] end
fun read (x : f32[n]) = let val c = sum for i where x[i] > 0.0 => 1 in loop (s = x) for _ < c => for i => 0.5 * s[i] end
fun stops (x : f32[n]) = let val c = 2 ** (n - 3) in loop (s = x) for _ < c => for i => 0.5 * s[i] end""")
    for n in (0, 1, 4, 7):
        check(m.halved, random(n))
        check(m.each, random(n))
        check(m.read, random(n))
    check(m.stops, random(5))
    cuda.waited = 0
    for f in (m.halved, m.each, m.stops):
        f(on(random(7)))
    assert cuda.waited == 0
    m.read(on(random(7)))
    assert cuda.waited == 1
    with pytest.raises(axon.AxonError, match="AX0503"):
        m.stops(random(2), target="cuda")


def test_a_counter_binds_nothing_anew(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x = on(random(40))
    m.running(x)
    first = PlayedExecutable.log.count("bind")
    assert first <= 3
    assert PlayedExecutable.log.count("launch") >= 40
    m.running(on(random(40, seed=3)))
    assert PlayedExecutable.log.count("bind") == first
    m.triangle(x)
    assert PlayedExecutable.log.count("bind") > 40  # the extent of its sum is the counter
    before = PlayedExecutable.log.count("bind")
    m.triangle(x)
    assert PlayedExecutable.log.count("bind") == before


def test_memory_of_states_alternates(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    a = on(random(16, 16))
    m.power(a, 50)
    assert len(library.made) <= 4, library.made
    assert library.made.count((16, 16)) == 1


def test_results_are_written_where_the_caller_wants_them(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    a = random(4, 4)
    for steps_ in (0, 1, 4):
        out = on(np.zeros_like(a))
        assert m.power(on(a), steps_, out=out) is out
        assert library.written.pop() is out
        _same(out.array, m.power(a, steps_, target="interpret"))
    given = on(a)
    with pytest.raises(AxonError, match="shares memory"):
        m.power(given, 2, out=given)
    x = random(12)
    want = m.picked(x, target="interpret")
    out = on(np.zeros_like(want))
    m.picked(on(x), out=out)
    _same(out.array, want)
    with pytest.raises(AxonError, match=r"must be .* of f32\[\d+\]"):
        m.picked(on(x), out=on(np.zeros(len(want) + 1, np.float32)))
    out = np.zeros_like(want)
    assert m.picked(x, target="cuda", out=out) is out
    _same(out, want)


def test_room_is_refused_before_anything_runs(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """Where sizes tell that it does not fit, and where it shares memory with what is read or written."""
    x = on(random(12))
    m.both(x)
    wide = on(np.zeros(24, np.float32))
    half, crossing = DeviceArray(wide.array[:12]), DeviceArray(wide.array[4:16])
    short = on(np.zeros(11, np.float32))
    for _ in range(2):
        PlayedExecutable.log.clear()
        for second, words in ((x, "shares memory"), (crossing, "shares memory"), (short, r"of f32\[12\]")):
            with pytest.raises(AxonError, match=words):
                m.both(x, out=(half, second))
            assert "launch" not in PlayedExecutable.log
            assert not wide.array.any()
            assert not library.written


def test_sorts_and_compresses(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    for shape in ((3, 40), (1, 1), (0, 5), (5, 0), (4, 16)):
        check(m.ordered, random(*shape))
    for n in (0, 1, 50):
        check(m.picked, random(n))
        check(m.chosen, random(n))
    check(m.picked, -np.abs(random(20)))


def test_checks(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x = random(6)
    check(m.coerced[6], x)
    for given in (on(x), x):
        with pytest.raises(axon.ShapeError) as raised:
            m.coerced[5](given, target="cuda")
        with pytest.raises(axon.ShapeError) as wanted:
            m.coerced[5](x, target="cpu")
        assert str(raised.value) == str(wanted.value)


def test_a_failure_is_worded_as_on_the_cpu(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x, good, bad = random(5), np.array([0, 4, 2], np.int32), np.array([0, 9, 2], np.int32)
    for function in (m.pick, m.walk):
        check(function, x, good)
        with pytest.raises(AxonError) as wanted:
            function(x, bad, target="cpu")
        with pytest.raises(AxonError) as raised:
            function(x, bad, target="cuda")
        assert str(raised.value) == str(wanted.value)
        assert type(raised.value) is type(wanted.value)
        check(function, x, good)


def test_a_failure_found_by_a_later_call(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    x, good, bad = on(random(5)), on(np.array([0, 4, 2], np.int32)), on(np.array([0, 9, 2], np.int32))
    m.walk(x, good)
    m.walk(x, bad)
    with pytest.raises(axon.ShapeError, match="in an earlier call of `walk`") as raised:
        m.walk(x, good)
    assert raised.value.diagnostics[0].code == "AX0502"
    m.walk(x, good)
    m.walk(x, bad)
    with pytest.raises(axon.ShapeError, match="in an earlier call of `walk`"):
        axon.synchronize()
    axon.synchronize()
    m.walk(x, on(np.array([0, 9, 2], np.int32)))
    gc.collect()
    with pytest.raises(AxonError, match="AX0511"):
        axon.synchronize()
    m.walk(x, good)


def test_a_failure_found_where_the_host_waits(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    """`x[ids[t]]` fails in the first steps of an earlier call; here the trip count is read back."""
    x, ids = on(random(5)), on(np.array([1, 1, 9], np.int32))
    m.counted(x, ids)
    with pytest.raises(axon.ShapeError, match="AX0502"):
        m.counted(x, ids)


def test_recording(m: Any, cuda: PlayedDriver, library: FakeLibrary) -> None:
    a = on(random(4, 4))
    cuda.recording.add(77)
    m.power(a, 3)
    with pytest.raises(AxonError, match="cannot be part of a stream capture"):
        m.power(a, on(np.array(3, np.int32)))
    with pytest.raises(AxonError, match="cannot be part of a stream capture"):
        m.picked(on(random(4)))


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    yield
    failures._watches.clear()


@pytest.mark.parametrize("element", list(Element))
def test_copies_for_the_interpreter(element: Element, cuda: PlayedDriver) -> None:
    x = np.arange(12).reshape(3, 4).astype(element.dtype)
    for shape, strides, want in (((3, 4), (4, 1), x), ((4, 3), (1, 4), x.T), ((), (), x[0, 0]), ((0, 2), (2, 1), x[:0, :2])):
        got = downloaded(cuda, DeviceTensor(x.ctypes.data, shape, strides, element))  # type: ignore[arg-type]
        assert (got.dtype, got.shape) == (element.dtype, want.shape)
        assert got.tobytes() == np.asarray(want).tobytes()


def test_large_blocks_go_back_to_an_allocator_that_orders_by_streams(
    monkeypatch: pytest.MonkeyPatch, m: Any, cuda: PlayedDriver, library: FakeLibrary
) -> None:
    """What is held at once is what lives at once: blocks of one size serve others of another, and results. A script's memory, which
    is planned, is no more than that, but for results, which are there from the start."""
    monkeypatch.setattr(stepping, "LARGE", 1 << 12)
    held = {"now": 0, "most": 0}
    empty = FakeLibrary._empty

    def counted(self: FakeLibrary, shape: tuple[int, ...], element: Element, device: int) -> DeviceArray:
        made = empty(self, shape, element, device)
        held["now"] += made.array.nbytes
        held["most"] = max(held["now"], held["most"])
        weakref.finalize(made, lambda size: held.update(now=held["now"] - size), made.array.nbytes)
        return made

    monkeypatch.setattr(FakeLibrary, "_empty", counted)
    x = random(64)

    def peak(ordered: bool) -> int:
        monkeypatch.setattr(FakeLibrary, "ordered", ordered, raising=False)
        held["most"] = held["now"]
        before = held["now"]
        made = m.stages(on(x))
        _same(host(made), host(m.stages(x, target="interpret")))
        del made
        gc.collect()
        return held["most"] - before

    peak(True)
    played = peak(True)
    cuda.recording.add(77)  # so that it is walked
    walked = peak(True)
    assert walked < 0.6 * peak(False)
    assert played <= 1.1 * (walked + host(m.stages(on(x))).nbytes)
