"""Threads that share a kernel in machine code: each item is computed once, by nobody who comes late, and what stops, stops all."""

import ctypes
from concurrent.futures import ThreadPoolExecutor
from threading import Thread

import numpy as np
import pytest

import axon
from axon.backend.cpu import build, launch, threads
from axon.backend.kernel.taking import AWAY, LISTENING, Offer, Taking
from axon.base.element import Element

COUNTS = """
def f(out, stop, first, last):
    for i in range(first, last):
        store_i64(out, i, load_i64(out, i) + 1)
        if i == stop:
            return 1
    return 0
"""


@pytest.fixture(scope="module")
def counts():
    return build.build(build.ModuleSource("f", COUNTS, (Element.I64, None, None, None)))


def offered(counts, out, taking, stop=-1):
    return Offer(threads.address("work 2"), counts.address, [out.ctypes.data if out is not None else 0, stop], taking)


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("items", [1, 2, 9, 64, 1001])
def test_each_item_once(counts, monkeypatch, count, items):
    monkeypatch.setenv("AXON_THREADS", str(count))
    for _ in range(20):
        out = np.zeros(items, np.int64)
        assert threads.share_kernel(counts, lambda _, out=out: [out.ctypes.data, -1], items, 10**8) == 0
        assert (out == 1).all()


def test_calls_of_several_threads_at_once(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "3")

    def one(_):
        out = np.zeros(500, np.int64)
        assert threads.share_kernel(counts, lambda _: [out.ctypes.data, -1], 500, 10**8) == 0
        return out

    with ThreadPoolExecutor(4) as pool:
        assert all((out == 1).all() for out in pool.map(one, range(200)))


def test_kernels_and_work_of_the_host_in_turns(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "3")
    for items in range(40, 100):
        out = np.zeros(items, np.int64)

        def work(thread, first, last, out=out):
            out[first:last] += 1
            return 0

        assert threads.share_kernel(counts, lambda _, out=out: [out.ctypes.data, -1], items, 10**8) == 0
        assert threads.share(work, items, 10**8) == 0
        assert (out == 2).all()


def test_each_thread_has_its_own_arguments(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "3")
    out = np.zeros((3, 5000), np.int64)
    assert threads.share_kernel(counts, lambda thread: [out[thread].ctypes.data, -1], 5000, 10**8) == 0
    assert (out.sum(0) == 1).all()


@pytest.mark.parametrize(("shape", "least"), [((600, 4096), 4), ((2000, 1100), 3), ((9000, 100), 1), ((40, 40_000), 10)])
def test_columns_are_cut_in_strips_for_all_threads(monkeypatch, shape, least):
    monkeypatch.setenv("AXON_THREADS", "2")
    seen, share = [], threads.share_kernel
    monkeypatch.setattr(threads, "share_kernel", lambda *given: seen.append(given[2]) or share(*given))
    x = np.random.default_rng(0).integers(-9, 9, shape).astype(np.float32)
    got = axon.compile("fun f (x : f32[n, m]) = for j => sum i => x[i, j]").f(x, target="cpu")
    np.testing.assert_array_equal(got, x.sum(0))
    assert seen == [least]


@pytest.mark.skipif(not launch.FIELDS, reason="machine code does not read these arrays")
@pytest.mark.parametrize("size", [30_000, 3_000_000])
def test_what_would_be_shared_is_called_at_once_where_there_is_one_thread(monkeypatch, size):
    """As it is by each call, since how many there are may change between two; but what takes long leaves Python's lock."""
    seen, share = [], threads.share_kernel
    monkeypatch.setattr(threads, "share_kernel", lambda *given: seen.append(given[2]) or share(*given))
    f = axon.compile("fun f (x : f32[n]) = for i => tanh x[i] * 3.0").f
    x = np.linspace(-9, 9, size, dtype=np.float32)
    for _ in range(3):  # from the third call on, what is done is kept for the sizes
        f(x, target="cpu")
    found, shared = [], []
    for count in ("2", "1", "1", "2"):
        monkeypatch.setenv("AXON_THREADS", count)
        seen.clear()
        found.append(f(x, target="cpu"))
        shared.append(bool(seen))
    assert shared == ([True, False, False, True] if size == 30_000 else [True] * 4)
    for one in found:
        np.testing.assert_allclose(one, 3 * np.tanh(x.astype(np.float64)), rtol=3e-7)
        np.testing.assert_array_equal(one, found[0])


def test_what_stops_stops_all(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "2")
    for stop in (0, 5, 99):
        out = np.zeros(10**6, np.int64)
        assert threads.share_kernel(counts, lambda _, out=out, stop=stop: [out.ctypes.data, stop], len(out), 10**8) == 1
        assert out[stop] == 1
        assert out.max() == 1
    assert out[len(out) // 2 :].sum() < len(out) // 2


class Helper:
    """One that listens to a box of its own."""

    def __init__(self, offer):
        self.memory = (ctypes.c_int64 * 1)()
        self.box = ctypes.addressof(self.memory)
        self.thread = Thread(target=lambda: threads._taking("serve")(offer.address, self.box))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.thread.join(20)
        assert not self.thread.is_alive()
        assert self.memory[0] == AWAY


def test_who_comes_late_computes_nothing(counts):
    out = np.zeros(8, np.int64)
    taking = Taking(len(out), 4)
    assert taking.left
    mine = offered(counts, out, taking)
    threads._taking("begin")(mine.address, 0, 0, 0)
    assert (out == 1).all()
    assert not taking.left
    assert not taking.at_work
    with Helper(offered(counts, None, taking)):  # an address that it must not touch
        pass
    assert taking.answer == 0


def test_a_helper_computes_what_it_is_told_and_leaves(counts):
    out = np.zeros(8, np.int64)
    taking = Taking(len(out), 4)
    with Helper(offered(counts, out, taking)):
        pass
    assert (out == 1).all()
    assert not taking.at_work


def test_an_offer_to_nobody_is_taken_back(counts):
    """To one that is away, and to one that listens and does not come."""
    for box, after in ((AWAY, AWAY), (LISTENING, LISTENING)):
        out, memory = np.zeros(8, np.int64), (ctypes.c_int64 * 1)(box)
        taking = Taking(len(out), 4)
        mine, to_it = offered(counts, out, taking), offered(counts, None, taking)
        boxes, offers = (ctypes.c_int64 * 1)(ctypes.addressof(memory)), (ctypes.c_int64 * 1)(to_it.address)
        threads._taking("begin")(mine.address, ctypes.addressof(boxes), ctypes.addressof(offers), 1)
        assert (out == 1).all()
        assert memory[0] == after
        assert not taking.at_work


def test_one_that_is_dismissed_leaves(counts):
    memory = (ctypes.c_int64 * 1)(LISTENING)
    threads._taking("dismiss")(ctypes.addressof(memory))
    assert memory[0] not in (LISTENING, AWAY)
    memory[0] = AWAY
    threads._taking("dismiss")(ctypes.addressof(memory))
    assert memory[0] == AWAY


def test_a_call_that_is_interrupted_waits_for_who_is_at_work(counts, monkeypatch):
    taking = Taking(8, 4)
    taking.words[8] = 1
    asked = []

    def interrupted(seconds):
        asked.append(seconds)
        if len(asked) == 1:
            raise KeyboardInterrupt
        taking.words[8] = 0

    monkeypatch.setattr(threads.time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        threads._wait(taking)
    assert len(asked) == 2
    assert not taking.left
