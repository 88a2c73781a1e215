"""Windows in register tiles: random forms and sizes against their definition, in float64 and tap by tap."""

from __future__ import annotations

from itertools import product
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.backend.cpu import products, windows
from axon.backend.tiles import microkernel
from tests.sample import SOAK

Array = Any
CASES = 300 if SOAK else 10
NAMES = (("p", "i"), ("q", "j"), ("u", "l"))


class Drawn:
    """A convolution: its text, what it is given, and what its definition gives."""

    def __init__(self, number: int) -> None:
        rng = self.rng = np.random.default_rng((20, number))
        pick = lambda *of: of[rng.integers(len(of))]
        self.rank = pick(1, 2, 2, 3)
        self.last, self.flipped = rng.random() < 0.3, rng.random() < 0.25
        self.grouped = not self.last and rng.random() < 0.4
        self.dtype = np.dtype(pick(np.float32, np.float32, np.float64, np.float64, ml_dtypes.bfloat16))
        self.groups = pick(2, 3, 5) if self.grouped else 1
        self.into, self.out, self.batch = pick(2, 3, 8), pick(2, 3, 7, 20), pick(1, 2)
        self.window = [int(rng.integers(2, 5)), *(int(rng.integers(1, 5)) for _ in range(self.rank - 1))]
        self.stride = [pick(1, 1, 2, 3) for _ in range(self.rank)]
        self.dilation = [pick(1, 1, 2) for _ in range(self.rank)]
        self.before = [pick(0, 0, 1, 3) for _ in range(self.rank)]
        most = {1: 120, 2: 34, 3: 12}[self.rank]
        self.places = [int(rng.integers(1, most)) for _ in range(self.rank)]
        reach = [(p - 1) * s + (r - 1) * d for p, s, r, d in zip(self.places, self.stride, self.window, self.dilation, strict=True)]
        over = [pick(0, 0, 1, 4) for _ in range(self.rank)]  # how far windows reach beyond the end
        self.size = [max(1, n + 1 - b - o) for n, b, o in zip(reach, self.before, over, strict=True)]

    def text(self) -> str:
        subscripts = []
        for (p, i), s, d, b, r in zip(NAMES, self.stride, self.dilation, self.before, self.window, strict=False):
            tap = f"{d * (r - 1)} - {i} * {d}" if self.flipped else f"{i} * {d}"
            subscripts.append(f"{p} * {s} + {tap} - {b}")
        own, taps = [p for p, _ in NAMES[: self.rank]], [i for _, i in NAMES[: self.rank]]
        bounds = [f"{p} < {n}" for p, n in zip(own, self.places, strict=True)]
        ranges = [f"{i} < {r}" for i, r in zip(taps, self.window, strict=True)]
        if self.last:
            return (
                f"fun f x k = for n, {', '.join(bounds)}, o => sum for {', '.join(ranges)}, c => "
                f"x[n, {', '.join(subscripts)}, c | 0] * k[{', '.join(taps)}, c, o]"
            )
        channel, filter = ("(g, c)", "(g, o)") if self.grouped else ("c", "o")
        group = f"g < {self.groups}, " if self.grouped else ""
        limits = (f"o < {self.out}", f"c < {self.into}")
        return (
            f"fun f x k = for n, {group}{limits[0]}, {', '.join(bounds)} => sum for {limits[1]}, {', '.join(ranges)} => "
            f"x[n, {channel}, {', '.join(subscripts)} | 0] * k[{filter}, c, {', '.join(taps)}]"
        )

    def arrays(self) -> tuple[Array, Array]:
        x = self.rng.standard_normal((self.batch, self.groups * self.into, *self.size))
        k = self.rng.standard_normal((self.groups * self.out, self.into, *self.window))
        if self.last:
            x, k = np.moveaxis(x, 1, -1), np.moveaxis(k, (0, 1), (-1, -2))
        return np.ascontiguousarray(x).astype(self.dtype), np.ascontiguousarray(k).astype(self.dtype)

    def definition(self, x: Array, k: Array) -> Array:
        """Tap by tap: each adds the product of a part of the images with the filter's matrix."""
        x, k = x.astype(np.float64), k.astype(np.float64)
        if self.last:
            x, k = np.moveaxis(x, -1, 1), np.moveaxis(k, (-1, -2), (0, 1))
        around = [(b, 60) for b in self.before]
        x = np.pad(x, ((0, 0), (0, 0), *around))
        x = x.reshape(self.batch, self.groups, self.into, *x.shape[2:])
        k = k.reshape(self.groups, self.out, self.into, *self.window)
        total = np.zeros((self.batch, self.groups, self.out, *self.places))
        for tap in product(*map(range, self.window)):
            at = [d * (r - 1 - t if self.flipped else t) for d, r, t in zip(self.dilation, self.window, tap, strict=True)]
            part = tuple(slice(a, a + (n - 1) * s + 1, s) for a, n, s in zip(at, self.places, self.stride, strict=True))
            total += np.einsum("ngc...,goc->ngo...", x[(..., *part)], k[(..., *tap)])
        return np.moveaxis(total[:, 0], 1, -1) if self.last else total if self.grouped else total[:, 0]


def test_windows_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    in_tiles = 0
    whole = products.tiled

    def counted(*arguments: Any) -> Any:
        nonlocal in_tiles
        found = whole(*arguments)
        in_tiles += found is not None
        return found

    def few(rows: int, vectors: int, deep: int) -> tuple[tuple[int, int, int, int], ...]:
        """Two kinds of tiles alone: each is compiled."""
        return ((0, rows // 3 * 3, 3, 2), (rows // 3 * 3, rows, 1, 2))

    monkeypatch.setattr(products, "tiled", counted)
    monkeypatch.setattr(windows, "_by_blas", lambda *_: float("inf"))
    monkeypatch.setattr(microkernel, "tiling", few)
    monkeypatch.setattr("axon.backend.cpu.executable.SMALL_PRODUCT", 0)  # none is machine code of its own
    for number in range(CASES):
        case = Drawn(number)
        x, k = case.arrays()
        wanted = case.definition(x, k)
        got = np.asarray(axon.compile(case.text()).f(x, k, target="cpu")).astype(np.float64)
        scale = 1 + np.abs(wanted).max()
        error = {8: 1e-14, 4: 4e-6, 2: 2e-2}[case.dtype.itemsize]
        assert got.shape == wanted.shape, case.text()
        assert np.abs(got - wanted).max() <= error * scale, (number, case.text())
    assert in_tiles >= CASES // 2


def test_the_depth_is_added_in_parts() -> None:
    """A sum of more than what is added up in registers, rows that fill no tile, and vectors that run across rows."""
    rng = np.random.default_rng(3)
    x, k = rng.standard_normal((2, 70, 9, 9)).astype(np.float32), rng.standard_normal((13, 70, 3, 3)).astype(np.float32)
    m = axon.compile("import nn\nfun f (x : f32[n, c, h, w]) k = nn.conv2d_with {1, 1, 1, 1} x k")
    got = m.f(x, k, target="cpu")
    np.testing.assert_array_equal(m.f(x, k, target="cpu"), got)  # replayed
    np.testing.assert_array_equal(m.f(x, k, target="cpu", out=np.empty_like(got)), got)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    wanted = sum(
        np.einsum("ncpq,oc->nopq", padded[:, :, i : i + 9, j : j + 9], k[:, :, i, j].astype(np.float64))
        for i in range(3)
        for j in range(3)
    )
    np.testing.assert_allclose(got, wanted, rtol=0, atol=4e-6 * float(np.abs(wanted).max()))


def test_infinite_values_stay_where_they_are() -> None:
    """Lanes that are left out and padding take no part: 0 · inf would be NaN."""
    x = np.ones((1, 2, 20, 21), np.float32)
    x[0, 1, 5, 20], x[0, 0, 19, 3] = np.inf, np.nan
    k = np.ones((3, 2, 3, 3), np.float32)
    got = np.asarray(axon.compile("import nn\nfun f (x : f32[n, c, h, w]) k = nn.conv2d_same x k").f(x, k, target="cpu"))
    wanted = np.zeros((20, 21), np.float64)
    padded = np.pad(x[0].astype(np.float64), ((0, 0), (1, 1), (1, 1)))
    for c, i, j in product(range(2), range(3), range(3)):
        wanted += padded[c, i : i + 20, j : j + 21]
    np.testing.assert_array_equal(got, np.broadcast_to(wanted, (1, 3, 20, 21)))
