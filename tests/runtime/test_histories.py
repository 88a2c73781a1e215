"""Earlier sizes may choose a variant of a kernel, but what docs/runtime.md calls fixed stays: bits are those of a first call."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest

import axon
from axon import libraries
from axon.backend import arrays
from tests.runtime.emulated import emulated
from tests.runtime.fake import DeviceArray, FakeLibrary

PROGRAM = """
fun total (x : f32[n, m]) = sum i j => x[i, j]
fun largest (x : f32[n, m]) = max i j => x[i, j]
"""
CALLS: dict[str, list[list[tuple[int, int]]]] = {
    "total": [[(7, 100)], [(300, 50)], [(3, 9)]],
    "largest": [[(7, 100)], [(300, 50)], [(3, 9)]],
}


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    monkeypatch.setitem(libraries._by_type, DeviceArray, FakeLibrary())
    arrays._graphs.clear()


def _bits(result: Any) -> bytes:
    return np.asarray(getattr(result, "array", result)).tobytes()


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", CALLS)
def test_bits_of_fixed_orders_do_not_depend_on_earlier_sizes(name: str) -> None:
    rng = np.random.default_rng(0)
    given = [[DeviceArray(rng.standard_normal(shape).astype(np.float32)) for shape in shapes] for shapes in CALLS[name]]
    first = [_bits(getattr(axon.compile(PROGRAM), name)(*arguments)) for arguments in given]
    for order in list(permutations(range(len(given))))[1::2]:
        function = getattr(axon.compile(PROGRAM), name)
        for which in order:
            assert _bits(function(*given[which])) == first[which], f"{CALLS[name][which]} in {order}"
