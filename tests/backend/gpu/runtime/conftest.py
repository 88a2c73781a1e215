from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from axon.backend import chips, libraries, needs
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime import arrays, building, failures, kept_graphs, stepped_call, steps
from axon.backend.gpu.runtime import executable as runtime
from axon.backend.gpu.runtime.binding import Binder
from axon.base.element import Element
from tests.backend.gpu.runtime.fake import Builds, DeviceArray, FakeDriver, FakeLibrary, aligned, recorded


@pytest.fixture(autouse=True)
def _cache(own_cache: None) -> None:
    pass


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> FakeDriver:
    """A GPU and its driver, played by the simulator."""
    made = FakeDriver()
    monkeypatch.setattr(runtime, "driver", lambda: made)
    monkeypatch.setattr(arrays, "driver", lambda: made)
    monkeypatch.setattr(stepped_call, "driver", lambda: made)
    monkeypatch.setattr(failures, "driver", lambda: made)
    monkeypatch.setattr(failures, "_free", [])  # its memory goes with it
    monkeypatch.setattr(arrays, "gpu", lambda device=0: (9, 0))
    monkeypatch.setattr(needs, "gpu", lambda device=0: (9, 0))
    monkeypatch.setattr(chips, "of_device", lambda device: HOPPER)
    monkeypatch.setattr(Binder, "launch", recorded(made, Binder.launch))
    return made


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Builds:
    """Kernels without a compiler."""
    made = Builds()
    monkeypatch.setattr(building, "build_all", made)
    monkeypatch.setattr(steps, "build_all", made)
    monkeypatch.setattr(building, "known", made.known)
    return made


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeLibrary]:
    """An array library whose arrays are `DeviceArray`s."""
    made = FakeLibrary()
    monkeypatch.setitem(libraries._by_type, DeviceArray, made)
    kept_graphs._graphs.clear()
    yield made
    kept_graphs._graphs.clear()


def random(*shape: int, element: Element = Element.BF16, seed: int = 0) -> Any:
    """Random numbers at an aligned address."""
    made = aligned(shape, element)
    made[...] = np.random.default_rng(seed).standard_normal(shape).astype(element.dtype)
    return made
