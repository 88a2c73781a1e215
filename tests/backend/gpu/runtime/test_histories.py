"""Earlier sizes may choose a variant of a kernel, and with it the order of some sums, and nothing else (see docs/runtime.md)."""

from __future__ import annotations

from random import Random
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.backend import libraries
from axon.backend.gpu.runtime import kept_graphs
from tests.backend.gpu.runtime.emulated import emulated
from tests.backend.gpu.runtime.fake import DeviceArray, FakeLibrary
from tests.backend.gpu.runtime.histories import SUBJECTS, TEXT, compare, history, leaves
from tests.sample import ALL

DTYPES = {"int32": np.int32, "float32": np.float32, "bfloat16": ml_dtypes.bfloat16}


@pytest.fixture
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    emulated(monkeypatch)
    monkeypatch.setitem(libraries._by_type, DeviceArray, FakeLibrary())
    kept_graphs._graphs.clear()


def call(function: Any, arguments: list[Any], element: str) -> list[Any]:
    return leaves(function(*[DeviceArray(a.astype(DTYPES[element])) for a in arguments]), lambda part: getattr(part, "array", part))


@pytest.mark.usefixtures("_gpu")
@pytest.mark.parametrize("name", SUBJECTS)
def test_results_do_not_depend_on_earlier_sizes(name: str) -> None:
    subject, chance = SUBJECTS[name], Random(name)
    given = history(chance, subject, 4, 1_000 if ALL else 400, 500)
    first = [call(axon.compile(TEXT)[name], arguments, subject.element) for arguments in given]
    for _ in range(2):
        order = chance.sample(range(len(given)), len(given))
        function = axon.compile(TEXT)[name]
        for which in order:
            got = call(function, given[which], subject.element)
            shapes = [given[n][0].shape for n in order[: order.index(which) + 1]]
            assert not (why := compare(subject, given[which], got, first[which])), f"{why} after {shapes}"
