"""Integers of every type: what operations on them give at the ends of their ranges, alike on every target that this machine has."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

import axon
from axon.base.element import INT, Element

ELEMENTS = sorted((e.value for e in INT), key=lambda name: (name[0], int(name[1:])))
TARGETS = ("interpret", "cpu")
SOURCE = """
fun sums (x : 'a[n]) y = (x + y, x - y, x * y, -x, abs x, sign x, max x y, min x y)
fun quotients (x : 'a[n]) (y : 'a[n]) = (x / y, x % y)
fun powers (x : 'a[n]) (y : 'a[n]) = x ** y
fun compared (x : 'a[n]) y = (x < y, x <= y, x = y, x > y)
fun reduced (x : 'a[n]) = (max i => x[i], min i => x[i], sum i => x[i], prod i => x[i], argmax i => x[i], argmin i => x[i])
fun running (x : 'a[n]) = (scan (op +, 0) i => x[i], scan (max, 0) i => x[i])
fun sorted (x : 'a[n]) = (sort x, argsort x)
fun floats (x : 'a[n]) = (cast f64 x, cast f32 x, cast f16 x, cast bf16 x)
fun whole (x : 'a[n]) = (cast u64 x, cast u32 x, cast u16 x, cast u8 x, cast i64 x, cast i32 x, cast i16 x, cast i8 x)
fun gathered (x : f32[n]) ids = for i => x[ids[i] | -1.0]
fun strict (x : f32[n]) ids = for i => x[ids[i]]
fun counted (ids : 'a[m]) = for b < 6 => sum for i where ids[i] = cast _ b => 1
"""


@cache
def module() -> axon.Module:
    return axon.compile(SOURCE)


@cache
def indexing(element: str) -> axon.Module:
    return axon.compile(SOURCE.replace(" ids = ", f" (ids : {element}[m]) = "))


def values(element: str) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The ends, the middle, and numbers that floats do not have, each beside others."""
    dtype = Element(element).dtype
    low, high = Element(element).limits
    given = [low, low + 1, 0, 1, 2, 3, 5, 7, 100, high // 3, high // 2, high // 2 + 1, high - 1, high]
    halfway = (2**k + 2 ** (k - 8) + 1 for k in (14, 24, 30, 53, 62, 63))
    given += [x for x in halfway if x <= high]
    x = np.array(given, dtype)
    return np.tile(x, 3), np.concatenate([np.roll(x, k) for k in (1, 4, 9)])


def alike(function: str, *arguments: Any, of: axon.Module | None = None) -> Any:
    """The result, which every target gives."""
    want, *others = (getattr(of or module(), function)(*arguments, target=target) for target in TARGETS)
    for got in others:
        for a, b in zip(want, got, strict=True) if isinstance(want, tuple) else ((want, got),):
            a, b = np.asarray(a), np.asarray(b)
            assert a.dtype == b.dtype
            assert a.tobytes() == b.tobytes(), (function, a, b)
    return want


@pytest.mark.parametrize("element", ELEMENTS)
def test_arithmetic(element: str) -> None:
    x, y = values(element)
    low, _ = Element(element).limits
    span = 2 ** Element(element).bits

    def wrapped(exact: list[int]) -> list[int]:
        return [(v - low) % span + low for v in exact]

    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    found = alike("sums", x, y)
    meant = (
        lambda a, b: a + b, lambda a, b: a - b, lambda a, b: a * b, lambda a, b: -a, lambda a, b: abs(a),
        lambda a, b: (a > 0) - (a < 0), max, min,
    )  # fmt: skip
    for got, exact in zip(found, meant, strict=True):
        assert got.tolist() == wrapped([exact(a, b) for a, b in pairs])
    divisors = np.where(y == 0, y.dtype.type(3), y)
    pairs = list(zip(x.tolist(), divisors.tolist(), strict=True))
    for got, exact in zip(alike("quotients", x, divisors), ([a // b for a, b in pairs], [a % b for a, b in pairs]), strict=True):
        assert got.tolist() == wrapped(exact)
    exponents = np.where(y < 0, y.dtype.type(2), y)
    exact = [pow(int(a), int(b), span) for a, b in zip(x, exponents, strict=True)]
    assert alike("powers", x, exponents).tolist() == wrapped(exact)


@pytest.mark.parametrize("element", ELEMENTS)
def test_order(element: str) -> None:
    x, y = values(element)
    pairs = list(zip(x.tolist(), y.tolist(), strict=True))
    meant = ([a < b for a, b in pairs], [a <= b for a, b in pairs], [a == b for a, b in pairs], [a > b for a, b in pairs])
    for got, want in zip(alike("compared", x, y), meant, strict=True):
        assert got.tolist() == want
    first, second, total, product, at, least = alike("reduced", y)
    assert (int(first), int(second), at, least) == (max(y), min(y), int(np.argmax(y)), int(np.argmin(y)))
    assert int(total) == int(y.sum(dtype=y.dtype))
    assert int(product) == int(y.prod(dtype=y.dtype))
    alike("running", y)
    ordered, places = alike("sorted", y)
    assert ordered.tolist() == sorted(y.tolist())
    assert places.tolist() == np.argsort(y, kind="stable").tolist()


@pytest.mark.parametrize("element", ELEMENTS)
def test_conversions(element: str) -> None:
    x, _ = values(element)
    wide, *_ = alike("floats", x)
    assert wide.tolist() == [float(v) for v in x.tolist()]
    for got in alike("whole", x):
        bits, low = 8 * got.itemsize, np.iinfo(got.dtype).min
        assert got.tolist() == [(v - low) % 2**bits + low for v in x.tolist()]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_floats_saturate(dtype: Any) -> None:
    given = [0.0, -0.0, 1.5, -1.5, 0.99, -0.99, -1, -129, 255, 256, 65535.5, 65536, 2.0**31, 2.0**32, 2.0**63, 2.0**64, -(2.0**63)]
    x = np.array([*given, 2.0**70, -(2.0**70), np.nan, np.inf, -np.inf], dtype)
    for got in alike("whole", x):
        low, high = np.iinfo(got.dtype).min, np.iinfo(got.dtype).max
        want = [0 if v != v else high if v >= high else low if v <= low else int(v) for v in x.tolist()]
        assert got.tolist() == want


@pytest.mark.parametrize("element", ELEMENTS)
def test_indices(element: str) -> None:
    """Of any type; a large one is outside, and does not wrap into the tensor."""
    low, high = Element(element).limits
    x, ids = np.arange(5, dtype=np.float32), np.array([0, 4, 5, high, low, high // 2 + 1, 3], Element(element).dtype)
    got = alike("gathered", x, ids, of=indexing(element))
    assert got.tolist() == [float(i) if 0 <= i < 5 else -1.0 for i in ids.tolist()]
    assert alike("counted", ids).tolist() == [ids.tolist().count(b) for b in range(6)]
    for target in TARGETS:
        with pytest.raises(axon.ShapeError, match=f"index {min(high, 2**63 - 1)}"):
            indexing(element).strict(x, ids[3:4], target=target)
