"""Threads that share a kernel in machine code: each item is computed once, by nobody who comes late, and what stops, stops all."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from axon.backend.cpu import build, threads
from axon.backend.kernel.taking import Taking
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


@pytest.mark.parametrize("count", [1, 2, 3, 7])
@pytest.mark.parametrize("items", [1, 2, 9, 64, 1001])
def test_each_item_once(counts, monkeypatch, count, items):
    monkeypatch.setenv("AXON_THREADS", str(count))
    for _ in range(20):
        out = np.zeros(items, np.int64)
        arguments = [out.ctypes.data, -1]
        assert threads.share_kernel(counts, lambda arguments=arguments: arguments, items, 10**8) == 0
        assert (out == 1).all()


def test_calls_of_several_threads_at_once(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "3")

    def one(_):
        out = np.zeros(500, np.int64)
        assert threads.share_kernel(counts, lambda: [out.ctypes.data, -1], 500, 10**8) == 0
        return out

    with ThreadPoolExecutor(4) as pool:
        assert all((out == 1).all() for out in pool.map(one, range(200)))


def test_what_stops_stops_all(counts, monkeypatch):
    monkeypatch.setenv("AXON_THREADS", "2")
    for stop in (0, 5, 99):
        out = np.zeros(10**6, np.int64)
        assert threads.share_kernel(counts, lambda out=out, stop=stop: [out.ctypes.data, stop], len(out), 10**8) == 1
        assert out[stop] == 1
        assert out.max() == 1
    assert out[len(out) // 2 :].sum() < len(out) // 2


def test_who_comes_late_computes_nothing(counts):
    out = np.zeros(8, np.int64)
    taking = Taking(threads._taker(2), counts.address, len(out), 4)
    assert taking.left
    taking.take([out.ctypes.data, -1], began=True)
    assert (out == 1).all()
    assert not taking.left
    assert not taking.at_work
    taking.take([0, 0], began=False)  # an address that it must not touch
    assert taking.answer == 0


def test_nothing_begins_after_a_stop(counts):
    out = np.zeros(8, np.int64)
    taking = Taking(threads._taker(2), counts.address, len(out), 4)
    taking.stop()
    taking.take([out.ctypes.data, -1], began=True)
    assert not out.any()


def test_a_helper_that_fails_says_so_and_leaves_the_pieces_to_the_others(counts):
    """Such as one for which there is no memory."""
    out = np.zeros(2000, np.int64)

    def nothing():
        raise MemoryError

    task = threads._KernelTask(Taking(threads._taker(2), counts.address, len(out), 4), nothing)
    task.help_out(1)
    assert isinstance(task.raised, MemoryError)
    assert task.done.get() is None
    task.state.take([out.ctypes.data, -1], began=True)
    assert (out == 1).all()
