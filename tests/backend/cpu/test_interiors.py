"""Indices that wrap around and are clamped, whose loops are cut at borders: random forms and sizes against NumPy, by place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError
from tests.sample import SOAK

Array = Any
CASES = 300 if SOAK else 12
SIZES = (1, 2, 3, 15, 16, 17, 31, 33, 64, 200)
# By a place, an offset and a size: how it is written, and the index that it is.
FORMS = {
    "({p} + {o} + 2 * {n}) % {n}": lambda p, o, n: (p + o + 2 * n) % n,
    "({p} - {o}) % {n}": lambda p, o, n: (p - o) % n,
    "({p} + {n} / 2 + {o}) % {n}": lambda p, o, n: (p + n // 2 + o) % n,
    "(2 * {p} + {o}) % {n}": lambda p, o, n: (2 * p + o) % n,
    "({n} - 1 - ({p} + {o}) % {n})": lambda p, o, n: n - 1 - (p + o) % n,
    "(min (max ({p} + {o} - 2) 0) ({n} - 1))": lambda p, o, n: np.clip(p + o - 2, 0, n - 1),
    "(max (min ({p} - {o}) ({n} - 1)) 0)": lambda p, o, n: np.clip(p - o, 0, n - 1),
    "(min ({p} + {o}) ({n} - 1))": lambda p, o, n: np.minimum(p + o, n - 1),
    "(max ({p} - {o}) 0)": lambda p, o, n: np.maximum(p - o, 0),
    "({p} / {k} % {n})": lambda p, o, n: p // 3 % n,
}


class Drawn:
    """A sum over offsets, or a map of a few reads, of a tensor of two dimensions."""

    def __init__(self, number: int) -> None:
        rng = np.random.default_rng((31, number))
        pick = lambda of: of[rng.integers(len(of))]
        self.summed = rng.random() < 0.5
        self.forms = [(pick(list(FORMS)), pick(list(FORMS))) for _ in range(1 if self.summed else 3)]
        self.size = pick(SIZES), pick(SIZES)
        self.window = int(rng.integers(1, 4)), int(rng.integers(1, 5))
        self.offsets = [(int(rng.integers(0, 4)), int(rng.integers(0, 4))) for _ in self.forms]
        dtype = pick((np.float32, np.float64, np.int32, np.uint8))
        self.x = rng.integers(0, 9, self.size).astype(dtype)

    def text(self) -> str:
        reads = []
        for (row, column), (a, b) in zip(self.forms, self.offsets, strict=True):
            at = [
                form.format(p=p, o=o if self.summed else number, n=n, k="k")
                for form, p, o, n, number in ((row, "i", "a", "n", a), (column, "j", "b", "m", b))
            ]
            reads.append(f"x[{', '.join(at)}]")
        body = " + 2 * ".join(reads) if self.x.dtype.kind != "f" else " + 2.0 * ".join(reads)
        r, s = self.window
        body = f"sum for a < {r}, b < {s} => {body}" if self.summed else body
        element = {"f4": "f32", "f8": "f64", "i4": "i32", "u1": "u8"}[self.x.dtype.str[1:]]
        return f"fun f {{k}} (x : {element}[n, m]) where k >= 1, n >= 1, m >= 1 = for i < n, j < m => {body}"

    def true(self) -> Array:
        n, m = self.size
        total = np.zeros(self.size, self.x.dtype)
        i, j = np.arange(n), np.arange(m)
        for number, ((row, column), own) in enumerate(zip(self.forms, self.offsets, strict=True)):
            for a, b in np.ndindex(self.window) if self.summed else [own]:
                part = self.x[np.ix_(FORMS[row](i, a, n), FORMS[column](j, b, m))]
                total += part * np.array(1 if number == 0 else 2, self.x.dtype)
        return total


@pytest.mark.parametrize("number", range(CASES))
def test_random_windows_that_wrap_around_or_are_clamped(number: int) -> None:
    drawn = Drawn(number)
    found = axon.compile(drawn.text()).f[3](drawn.x, target="cpu")
    np.testing.assert_allclose(found, drawn.true(), rtol=1e-6, err_msg=drawn.text())


def test_an_index_that_a_limit_lets_out_still_stops() -> None:
    m = axon.compile("fun f (x : f32[n]) (y : f32[m]) = for j < m => y[j] + x[max (j - 2) 0]")
    x, y = np.arange(50, dtype=np.float32), np.zeros(52, np.float32)
    np.testing.assert_array_equal(m.f(x, y, target="cpu"), x[np.maximum(np.arange(52) - 2, 0)])
    with pytest.raises(AxonError):
        m.f(x, np.zeros(53, np.float32), target="cpu")


def test_steps_that_follow_one_another_in_a_block_of_lanes() -> None:
    """What one step makes and another reads lies in one buffer, in an interior and beside it."""
    m = axon.compile(
        "fun f (x : f32[n, m]) = for i < n, j < m =>"
        " let val t = x[i, (j + 1) % m] val u = sum a => t * x[a, (j + 1) % m] in u / (1.0 + abs t) + t end"
    )
    x = np.random.default_rng(0).standard_normal((5, 70)).astype(np.float32)
    t = np.roll(x, -1, 1)
    np.testing.assert_allclose(m.f(x, target="cpu"), t * t.sum(0) / (1 + abs(t)) + t, rtol=1e-4, atol=1e-5)
