"""Calls with arrays of a GPU library: what is allocated, launched, kept and replayed, and that results are right."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.gpu.runtime import kept_graphs
from axon.base.element import Element
from tests.backend.gpu.runtime.conftest import random
from tests.backend.gpu.runtime.fake import Builds, DeviceArray, FakeDriver, FakeLibrary, Full

PROGRAM = """\
fun product a b = for i j => sum k => a[i, k] * b[k, j]
fun twice (a : bf16[m, m]) = let val x = a @ a in x @ a + x end
fun three (a : bf16[m, m]) (b : bf16[m, m]) =
  let val x = a @ b val y = x @ b val z = y @ a in { z = z, x = x, again = z } end
fun scaled (a : bf16[m, k]) (b : bf16[k, n]) (s : f32) = for i j => (sum c => cast f32 a[i, c] * cast f32 b[c, j]) * s
fun pair (p : { w : bf16[k, n], b : bf16[n] }) (x : bf16[m, k]) = (for i j => (x @ p.w)[i, j] + p.b[j], x @ p.w)
fun chain (a : bf16[m, m]) (s : f32) =
  let val x = a @ a in for i j => (sum c => cast f32 x[i, c] * cast f32 a[c, j]) * s + cast f32 x[i, j] end
"""


@pytest.fixture
def m() -> Any:
    return axon.compile(PROGRAM)


def near(got: Any, want: Any) -> None:
    """Equal but for rounding on the way, of values between the kernels too."""
    got, want = (np.asarray(x, np.float32) for x in (got, want))
    assert got.shape == want.shape
    np.testing.assert_allclose(got, want, rtol=0, atol=2**-6 * np.abs(want).max(initial=1e-3))


def test_results_are_made_by_the_library_on_its_stream(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = random(24, 64), random(64, 16, seed=1)
    got = m.product(DeviceArray(a), DeviceArray(b))
    assert isinstance(got, DeviceArray)
    assert got.array.dtype == Element.BF16.dtype
    near(got.array, m.product(a, b))
    assert library.made == [(24, 16)]
    assert [stream for _, stream in fake.launched] == [77]


def test_seen_arguments_ask_nothing_again(
    m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, again = (DeviceArray(random(24, 64, seed=s)) for s in (0, 1))
    b = DeviceArray(random(64, 16, seed=2))
    m.product(first, b)
    monkeypatch.setattr(type(m._session), "call", None)  # the slow way is closed
    library.current_stream = 5
    for x, y in ((again, b), (first, DeviceArray(random(64, 16, seed=3)))):
        near(m.product(x, y).array, np.asarray(x.array, np.float32) @ np.asarray(y.array, np.float32))
        near(m.product(b=y, a=x).array, np.asarray(x.array, np.float32) @ np.asarray(y.array, np.float32))
    assert [stream for _, stream in fake.launched] == [77, 5, 5, 5, 5]
    with pytest.raises(TypeError):  # other sizes take the slow way
        m.product(DeviceArray(random(32, 64)), b)


def test_contracts_hold_however_often_a_call_was_seen(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = DeviceArray(random(24, 64)), DeviceArray(random(64, 16))
    for _ in range(3):
        m.product(a, b)
        with pytest.raises(axon.ShapeError):
            m.product(b, b)
        with pytest.raises(axon.AxonError, match="AX0504"):
            m.product(a, DeviceArray(random(64, 16, element=Element.F16)))


def test_what_a_library_records_is_not_lost(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """Also of an argument that was seen before, in a record, and as `out`; refused before anything is launched."""
    x, w, b = (DeviceArray(random(*shape)) for shape in ((24, 64), (64, 16), (16,)))
    outs = DeviceArray(random(24, 16)), DeviceArray(random(24, 16))
    for _ in range(3):
        m.pair({"w": w, "b": b}, x)
        launched = len(fake.launched)
        for array, words in ((w, r'`p` holds a recorded array; pass p\["w"\]\.plain'), (outs[1], r"`out` holds .*pass out\[1\]")):
            library.recorded = [array]
            with pytest.raises(axon.AxonError, match=f"AX0505.*{words}"):
                m.pair({"w": w, "b": b}, x, out=outs)
        library.recorded = []
        assert len(fake.launched) == launched
        m.pair({"w": w, "b": b}, x, out=outs)


def test_several_kernels_become_a_graph(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a = DeviceArray(random(32, 32))
    want = m.twice(a.array)
    near(m.twice(a).array, want)
    assert (len(fake.launched), fake.replayed) == (2, [])
    out = DeviceArray(random(32, 32, seed=9))
    for _ in range(2):  # the first makes the graph
        assert m.twice(a, out=out) is out
    out.array[...] = 0
    m.twice(a, out=out)
    assert m.twice(a, out=out) is out
    near(out.array, want)
    replays = len(fake.replayed)
    assert replays >= 2
    before = fake.pointed
    m.twice(a, out=out)  # the same addresses: no node is touched
    assert fake.pointed == before
    other = DeviceArray(random(32, 32, seed=4))
    m.twice(a, out=other)  # another result: the last kernel alone
    near(other.array, want)
    assert fake.pointed == before + 1


def test_graphs_are_for_one_stream_and_not_while_it_is_recorded(
    m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary
) -> None:
    a = DeviceArray(random(32, 32))
    for _ in range(3):
        m.twice(a)
    assert fake.replayed == [77, 77]
    library.current_stream = 78
    m.twice(a)
    assert fake.replayed == [77, 77, 78]
    assert len(fake.graphs) == 2
    fake.recording.add(78)
    launched = len(fake.launched)
    near(m.twice(a).array, m.twice(a.array))
    assert len(fake.launched) == launched + 2
    assert fake.replayed == [77, 77, 78]


def test_old_graphs_go(fake: FakeDriver, builds: Builds, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_graphs, "KEPT_GRAPHS", 1)
    m = axon.compile(PROGRAM)
    for size in (16, 24, 16):
        a = DeviceArray(random(size, size))
        for _ in range(3):
            near(m.twice(a).array, m.twice(a.array))
    gc.collect()
    assert len(kept_graphs._graphs) == 1
    assert fake.dropped == 2


def test_graphs_go_when_memory_runs_out(
    fake: FakeDriver, builds: Builds, library: FakeLibrary, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The memory that they hold is what the call lacks; they are made again when there is room."""
    m = axon.compile(PROGRAM)
    small, large = (DeviceArray(random(size, size)) for size in (16, 32))
    for _ in range(3):
        m.twice(small)
    assert len(kept_graphs._graphs) == 1

    made = library._empty

    def empty(shape: tuple[int, ...], element: Element, device: int) -> DeviceArray:
        if kept_graphs._graphs:
            raise Full("out of memory")
        return made(shape, element, device)

    monkeypatch.setattr(library, "_empty", empty)
    near(m.twice(large).array, m.twice(large.array))
    gc.collect()
    assert not kept_graphs._graphs
    assert fake.dropped == 1
    monkeypatch.setattr(library, "_empty", made)
    for _ in range(3):
        near(m.twice(small).array, m.twice(small.array))
    assert len(kept_graphs._graphs) == 1
    library.room = 0
    with pytest.raises(axon.AxonError, match="AX0613"):
        m.twice(large)
    assert not kept_graphs._graphs


def test_memory_between_kernels_is_given_back(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    m.twice(DeviceArray(random(32, 32)))
    assert library.made == [(32, 32), (32 * 32 * 2,)]


def test_results_share_no_memory(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = random(32, 32), random(32, 32, seed=1)
    want = m.three(a, b)
    for _ in range(3):
        got = m.three(DeviceArray(a), DeviceArray(b))
        assert list(got) == ["z", "x", "again"]
        for name in want:
            near(got[name].array, want[name])
        made = [x.array for x in got.values()] + [a, b]
        assert not any(np.shares_memory(x, y) for i, x in enumerate(made) for y in made[:i])


def test_numbers_are_given_by_value(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = random(24, 64), random(64, 16)
    for s in (2.0, 2.0, -0.5, 3):
        near(m.scaled(DeviceArray(a), DeviceArray(b), s).array, m.scaled(a, b, float(s)))
        near(m.scaled(DeviceArray(a), DeviceArray(b), np.float32(s)).array, m.scaled(a, b, float(s)))
    lying = DeviceArray(np.full((), 1.5, np.float32))
    near(m.scaled(DeviceArray(a), DeviceArray(b), lying).array, m.scaled(a, b, 1.5))
    square = random(32, 32)
    for s in (1.0, 0.5, 0.25, 4.0):  # with a graph
        near(m.chain(DeviceArray(square), s).array, m.chain(square, s))
    assert fake.replayed
    for _ in range(2):
        with pytest.raises(axon.AxonError, match="AX0504"):
            m.scaled(DeviceArray(a), DeviceArray(b), 1e39)


def test_structures(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    w, b, x = random(64, 16), random(16, seed=1), random(8, 64, seed=2)
    want = m.pair({"w": w, "b": b}, x)
    for record in ({"w": w, "b": b}, {"b": b, "w": w}) * 2:
        y, plain = m.pair({name: DeviceArray(v) for name, v in record.items()}, DeviceArray(x))
        near(y.array, want[0])
        near(plain.array, want[1])
    for _ in range(2):
        outs = DeviceArray(random(8, 16)), DeviceArray(random(8, 16))
        assert m.pair({"b": DeviceArray(b), "w": DeviceArray(w)}, DeviceArray(x), out=outs) is outs
        near(outs[0].array, want[0])
        near(outs[1].array, want[1])


def test_out(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = DeviceArray(random(24, 64)), DeviceArray(random(64, 16))
    want = m.product(a.array, b.array)
    wide = random(24, 40)
    for room in (random(24, 16), wide[:, 4:20], wide[:, 8:24], random(16, 24).T):  # also strided, and at odd addresses
        for _ in range(2):
            target = DeviceArray(room)
            assert m.product(a, b, out=target) is target
            near(room, want)
    refusals = [
        (DeviceArray(random(24, 17)), "must be an array of fake of bf16[24, 16]"),
        (DeviceArray(random(24, 16, element=Element.F16)), "bf16[24, 16]"),
        (random(24, 16), "not a NumPy array"),
        ((DeviceArray(random(24, 16)),), "not a value of the Python type tuple"),
        (DeviceArray(random(24, 16), 1), "on GPU 0"),
        (DeviceArray(a.array.reshape(-1)[: 24 * 16].reshape(24, 16)), "shares memory"),
        (DeviceArray(np.broadcast_to(random(16), (24, 16))), "several indices at one place"),
        (DeviceArray(np.lib.stride_tricks.as_strided(random(24, 40), (24, 16), (2, 2))), "several indices at one place"),
    ]
    for room, words in refusals:
        for _ in range(2):
            with pytest.raises(axon.AxonError) as caught:
                m.product(a, b, out=room)
            assert [d.code for d in caught.value.diagnostics] == ["AX0505"]
            assert words in caught.value.diagnostics[0].message


def test_arrays_that_cannot_be_written(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    library.writable = False
    a, b = DeviceArray(random(24, 64)), DeviceArray(random(64, 16))
    near(m.product(a, b).array, m.product(a.array, b.array))
    with pytest.raises(axon.AxonError, match="never written"):
        m.product(a, b, out=DeviceArray(random(24, 16)))


def test_layouts(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """Transposed views are read where they lie."""
    a, b = random(64, 24).T, random(16, 64).T
    for _ in range(2):
        near(m.product(DeviceArray(a), DeviceArray(b)).array, m.product(a, b))


def test_places(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = random(8, 16), random(16, 8)
    near(m.product(DeviceArray(a, 1), DeviceArray(b, 1)).array, m.product(a, b))  # not the current GPU
    assert library.entered == [1]
    assert fake.contexts[-1] == 1001
    refusals: list[tuple[Any, Any, str]] = [
        (DeviceArray(a), b, "`b` must be an array of fake on GPU 0, as `a` is, not a NumPy array"),
        (DeviceArray(a), DeviceArray(b, None), "`b` must lie on a GPU"),
        (DeviceArray(a), DeviceArray(b, 1), "`b` must be an array of fake on GPU 0, as `a` is"),
    ]
    for x, y, words in refusals:
        with pytest.raises(axon.AxonError) as caught:
            m.product(x, y)
        (diagnostic,) = caught.value.diagnostics
        assert diagnostic.code == "AX0505"
        assert words in diagnostic.message
        assert "in a call of `product`" in diagnostic.message


def test_numpy_is_copied_when_it_is_asked_for(m: Any, fake: FakeDriver, builds: Builds) -> None:
    a, b = random(24, 64), random(64, 16)
    got = m.product(a, b, target="cuda")
    assert isinstance(got, np.ndarray)
    near(got, m.product(a, b))
    out = random(24, 16)
    assert m.product(a.copy(), b, target="cuda", out=out) is out
    near(out, got)
    p = {"w": b, "b": random(16)}
    for x, y in zip(m.pair(p, a, target="cuda"), m.pair(p, a), strict=True):
        near(x, y)
    near(m.scaled(a, b, 2.0, target="cuda"), m.scaled(a, b, 2.0))
    assert m.product(random(0, 8), random(8, 16), target="cuda").shape == (0, 16)
    assert fake.held == {}  # everything was freed
    with pytest.raises(axon.AxonError, match="must be a NumPy array of bf16"):
        m.product(a, b, target="cuda", out=random(24, 15))
    fake.fail["launch"] = [2]
    with pytest.raises(axon.AxonError, match="AX0613"):
        m.product(a, b, target="cuda")
    assert fake.held == {}


def test_out_on_the_cpu(m: Any) -> None:
    a, b, out = random(24, 64), random(64, 16), random(24, 16)
    assert m.product(a, b, out=out) is out
    near(out, m.product(a, b))
    for wrong in (random(24, 15), random(24, 16, element=Element.F16), 3.0, (out,)):
        with pytest.raises(axon.AxonError, match="AX0505"):
            m.product(a, b, out=wrong)


def test_a_thread_without_a_context_gets_one(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = DeviceArray(random(24, 64)), DeviceArray(random(64, 16))
    m.product(a, b)
    fake.fail["launch"] = [201]
    near(m.product(a, b).array, m.product(a.array, b.array))
    assert fake.contexts == [1000]


def test_failures_are_diagnostics(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    a, b = DeviceArray(random(24, 64)), DeviceArray(random(64, 16))
    for _ in range(2):
        m.product(a, b)
        fake.fail["launch"] = [700]
        with pytest.raises(axon.AxonError) as caught:
            m.product(a, b)
        assert caught.value.diagnostics[0].code == "AX0612"
        assert "launched earlier failed" in str(caught.value)
        assert "CUDA_LAUNCH_BLOCKING=1" in str(caught.value)
    library.room = 10
    for arrays_ in ((a, b), (DeviceArray(random(32, 64)), b)):
        with pytest.raises(axon.AxonError) as caught:
            m.product(*arrays_)
        assert caught.value.diagnostics[0].code == "AX0613"
        assert "tried to allocate 5 GiB" in str(caught.value)


def test_empty_results(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    for _ in range(2):
        assert m.product(DeviceArray(random(0, 8)), DeviceArray(random(8, 16))).array.shape == (0, 16)
    assert fake.launched == []


def test_threads(m: Any, fake: FakeDriver, builds: Builds, library: FakeLibrary) -> None:
    """Calls of several threads use arguments of their own."""
    inputs = [DeviceArray(random(32, 32, seed=s)) for s in range(8)]
    wanted = [np.asarray(m.twice(x.array), np.float32) for x in inputs]

    def work(number: int) -> None:
        for _ in range(3):
            near(m.twice(inputs[number]).array, wanted[number])

    with ThreadPoolExecutor(8) as pool:
        for future in [pool.submit(work, n) for n in range(8)]:
            future.result()
    assert len(builds.made) == 2
