"""Sums and extremes over windows: random forms and sizes against their definition, tap by tap in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import axon
from axon.backend.cpu import pooling
from tests.sample import SOAK

Array = Any
CASES = 200 if SOAK else 12
JOIN = {"max": np.maximum, "min": np.minimum, "sum": np.add}
PADDING = {"max": "-inf", "min": "inf", "sum": "0"}


class Drawn:
    """A reduction over windows: its text, what it is given, and what its definition gives."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng((21, number))
        pick = lambda *of: of[rng.integers(len(of))]
        self.kind, self.last = pick("max", "min", "sum"), rng.random() < 0.25
        rank = pick(1, 2, 3)
        draw = lambda *of: [pick(*of) for _ in range(rank)]
        self.window, self.stride, self.dilation = draw(1, 2, 3, 4, 5), draw(1, 1, 2, 3, 5), draw(1, 1, 2)
        self.before, self.padding = draw(0, 0, 1, 3), pick(PADDING[self.kind], "7")
        size = [int(rng.integers(20, {1: 3000, 2: 70, 3: 24}[rank])) for _ in range(rank)]
        reach = [n + 2 * b - d * (w - 1) - 1 for n, b, d, w in zip(size, self.before, self.dilation, self.window, strict=True)]
        self.places = [n // s + 1 for n, s in zip(reach, self.stride, strict=True)]
        shape = (2, *size, 9) if self.last else (2, 5, *size)
        self.x = rng.standard_normal(shape).astype(pick(np.float32, np.float64))
        if number % 4 == 0:
            self.x.flat[::97] = np.nan

    def text(self) -> str:
        moved = zip("pqu", "ijl", self.stride, self.dilation, self.before, strict=False)
        subscripts = ", ".join(f"{p} * {s} + {i} * {d} - {b}" for p, i, s, d, b in moved)
        bounds = ", ".join(f"{p} < {n}" for p, n in zip("pqu", self.places, strict=False))
        window = ", ".join(f"{i} < {n}" for i, n in zip("ijl", self.window, strict=False))
        if self.last:
            return f"fun f x = for n, {bounds}, c => {self.kind} for {window} => x[n, {subscripts}, c | {self.padding}]"
        return f"fun f x = for n c, {bounds} => {self.kind} for {window} => x[n, c, {subscripts} | {self.padding}]"

    def definition(self) -> Array:
        x = np.moveaxis(self.x, -1, 1) if self.last else self.x
        around = [(0, 0), (0, 0), *((b, b) for b in self.before)]
        x = np.pad(x.astype(np.float64), around, constant_values=float(self.padding))
        parts = []
        for tap in product(*map(range, self.window)):
            moved = zip(tap, self.dilation, self.places, self.stride, strict=True)
            parts.append(x[(..., *(slice(t * d, t * d + (n - 1) * s + 1, s) for t, d, n, s in moved))])
        found = JOIN[self.kind].reduce(parts)
        return np.moveaxis(found, 1, -1) if self.last else found


def test_pooling_is_right(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = 0
    run = pooling.Pooling.run

    def counted(self: pooling.Pooling, *arguments: Any) -> None:
        nonlocal runs
        runs += 1
        run(self, *arguments)

    monkeypatch.setattr(pooling.Pooling, "run", counted)
    for number in range(CASES):
        case = Drawn(number)
        wanted = case.definition()
        f = axon.compile(case.text()).f
        error = 0.0 if case.kind != "sum" else {4: 2e-5, 8: 1e-13}[case.x.itemsize] * len(wanted)
        got = np.asarray(f(case.x, target="cpu"))
        np.testing.assert_allclose(got, wanted.astype(got.dtype), rtol=0, atol=error * 10, err_msg=case.text())
        np.testing.assert_array_equal(f(case.x, target="cpu"), got)
        turned = np.asfortranarray(case.x)
        np.testing.assert_array_equal(f(turned, target="cpu"), got)
    assert runs >= CASES, runs


SUM = "sum for i < 3, j < 3 => x[n, c, p + i, q + j]"
MEANS = [
    f"fun f x = for n c, p < 12, q < 40 => ({SUM}) / 9.0",
    f"fun f x = for n c, p < 12, q < 40 => let val s = {SUM} in (s, exp (s / 9.0)) end",
    f"fun f x y = for n c, p < 12, q < 40 => let val s = {SUM} val t = s / 9.0 in (t, t * y[n, c, p, q] + s) end",
]


@pytest.mark.parametrize("text", MEANS)
def test_what_follows_a_sum_over_windows_is_computed_of_it(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[Any] = []
    run = pooling.Pooling.run
    monkeypatch.setattr(pooling.Pooling, "run", lambda self, *given: runs.append(given) or run(self, *given))
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((2, 5, 14, 42)).astype(np.float32), rng.standard_normal((2, 5, 12, 40)).astype(np.float32)
    s = sum(x[:, :, i : i + 12, j : j + 40].astype(np.float64) for i, j in product(range(3), range(3)))
    wanted = ((s / 9,), (s, np.exp(s / 9)), (s / 9, s / 9 * y + s))[MEANS.index(text)]
    f = axon.compile(text).f
    for n in range(4):  # the ordinary way, and as it is kept
        found = f(x, y, target="cpu") if " x y " in text else f(x, target="cpu")
        assert len(runs) == n + 1
        for one, true in zip(found if isinstance(found, tuple) else (found,), wanted, strict=True):
            np.testing.assert_allclose(one, true, rtol=1e-4, atol=1e-5)
