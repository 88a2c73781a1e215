"""The kernels of sort and compress, run as Python: what they compute is what the interpreter computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from axon.backend.gpu.layout.memory import DeviceTensor
from axon.backend.gpu.layout.target import HOPPER
from axon.backend.gpu.runtime import algorithms
from axon.backend.gpu.runtime.algorithms import Algorithms
from axon.backend.gpu.sorting.steps import kernels
from axon.base.element import Element
from axon.interpret.arithmetic import widen
from tests.backend.gpu.runtime.fake import aligned
from tests.backend.gpu.runtime.parted import PlayedDriver, built, small
from tests.sample import drawn


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> PlayedDriver:
    small(monkeypatch)
    monkeypatch.setattr(algorithms, "build_all", built)
    return PlayedDriver()


def tensor(array: Any, element: Element) -> DeviceTensor:
    return DeviceTensor(array.ctypes.data, array.shape, tuple(s // array.itemsize for s in array.strides), element)


def launched(bound: Any, *addresses: int) -> None:
    room = np.full(bound.room + 8, 0xEE, np.uint8)
    bound.launches([*addresses, room.ctypes.data, 7])


def values(element: Element, shape: tuple[int, ...], seed: int) -> Any:
    """Few different values, so that many are equal, and of floats those that are special."""
    chance = np.random.default_rng(seed)
    if element.is_float:
        special = np.array([np.nan, -0.0, 0.0, np.inf, -np.inf, 1.5, -1.5, 2.0, -0.0625, 3e5, -3e5])
        with np.errstate(all="ignore"):
            return chance.choice(special, shape).astype(element.dtype)
    low, high = (0, 2) if element is Element.BOOL else (np.iinfo(element.dtype).min, np.iinfo(element.dtype).max)
    special = np.array([low, high - 1, high, 0, 1, 5, low + 1] if element is not Element.BOOL else [0, 1], element.dtype)
    return chance.choice(special, shape).astype(element.dtype)


@pytest.mark.parametrize("element", list(Element))
@pytest.mark.parametrize("length", [1, 2, 5, 16, 17, 100, 128, 129, 300])
def test_sort(element: Element, length: int, device: PlayedDriver) -> None:
    x = values(element, (3, length), length)
    order, out = aligned(x.shape, Element.I32), aligned(x.shape, element)
    bound = Algorithms(HOPPER).sort(device, 0, tensor(x, element))
    launched(bound, x.ctypes.data, out.ctypes.data, order.ctypes.data)
    want = np.argsort(widen(x, element), axis=-1, kind="stable")
    np.testing.assert_array_equal(order, want)
    assert out.tobytes() == np.take_along_axis(x, want, axis=-1).tobytes()


@pytest.mark.parametrize("shape", [(4, 3, 9), (2, 2, 2, 33), (70,), (0, 4), (5, 1, 16)])
def test_strided_input(shape: tuple[int, ...], device: PlayedDriver) -> None:
    whole = np.random.default_rng(0).integers(-9, 9, [2 * n for n in reversed(shape)]).astype(np.int32)
    x = whole.T[tuple(slice(None, n) for n in shape)] if len(shape) > 1 else whole[::2][: shape[0]]
    assert x.shape == shape
    if 0 in shape:
        return
    order, out = aligned(shape, Element.I32), aligned(shape, Element.I32)
    bound = Algorithms(HOPPER).sort(device, 0, tensor(x, Element.I32))
    launched(bound, x.ctypes.data, out.ctypes.data, order.ctypes.data)
    np.testing.assert_array_equal(order, np.argsort(x, axis=-1, kind="stable"))
    np.testing.assert_array_equal(out, np.sort(x, axis=-1))


@pytest.mark.parametrize("length", [1, 15, 16, 17, 100, 200])
@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
def test_compress(length: int, share: float, device: PlayedDriver) -> None:
    whole = np.random.default_rng(length).random(2 * length) < share
    for mask in (whole[:length].copy(), whole[::2]):
        found = Algorithms(HOPPER).compress(device, 0, tensor(mask, Element.BOOL))
        room = np.full(found.count.room, 0xEE, np.uint8)
        found.count.launches([mask.ctypes.data, room.ctypes.data, 7])
        size = int(room[found.total : found.total + 4].view(np.int32)[0])
        want = np.flatnonzero(mask)
        assert size == len(want)
        out = np.full(size + 1, -7, np.int32)
        found.write.launches([mask.ctypes.data, out.ctypes.data, room.ctypes.data, 7])
        np.testing.assert_array_equal(out, [*want, -7])


def test_what_is_bound_is_kept(device: PlayedDriver) -> None:
    made, x = Algorithms(HOPPER), values(Element.F32, (2, 40), 0)
    assert made.sort(device, 0, tensor(x, Element.F32)) is made.sort(device, 0, tensor(x.copy(), Element.F32))
    assert made.sort(device, 0, tensor(x.T, Element.F32)) is not made.sort(device, 0, tensor(x, Element.F32))


def test_every_kernel_compiles() -> None:
    """One of each kind, for elements of each way to become a key: of f32 all, of the others some."""
    from axon.backend.gpu.build.cubin import compile_source

    for element, rank in ((Element.F32, 1), (Element.F64, 3), (Element.I8, 2)):
        for plain in kernels(element, rank, HOPPER):
            if element is not Element.F32 and not drawn(plain.source.text, 3):
                continue
            assert compile_source(plain.source, HOPPER).cubin.startswith(b"\x7fELF")
    for plain in kernels(None, 1, HOPPER):
        assert compile_source(plain.source, HOPPER).spilled == 0
