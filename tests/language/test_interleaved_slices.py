"""Slices that an index starts, within a step that divides the whole: all have one length."""

from __future__ import annotations

import numpy as np
import pytest

import axon


@pytest.mark.parametrize("target", ["interpret", "cpu"])
@pytest.mark.parametrize(
    ("program", "signature", "step", "rows"),
    [
        ("fun f (x : f32[n]) where n % 2 = 0 = for i < 2 => x[i : n : 2]", "f32[n] -> f32[2, n / 2] where n % 2 = 0", 2, 2),
        ("fun f (x : f32[n]) = for i < 3 => x[i : : 3]", "f32[n] -> f32[3, n / 3] where n % 3 = 0", 3, 3),
        ("fun f (x : f32[4 * n]) = for i < 3 => x[i : 4 * n : 4]", "f32[4 * n] -> f32[3, n]", 4, 3),
        ("fun f (x : f32[n]) = unfold (s = x[: n / 2]) for i < 2 => x[i : n : 2]", "f32[n] -> f32[2, n / 2] where n % 2 = 0", 2, 2),
    ],
)  # fmt: skip
def test_by_numbers(program: str, signature: str, step: int, rows: int, target: str) -> None:
    f = axon.compile(program).f
    assert str(f.signature) == f"sig f : {signature}"
    for n in (0, step, 4 * step):
        x = np.arange(n, dtype=np.float32)
        assert f(x, target=target).tolist() == [x[i::step].tolist() for i in range(rows)]
    if "4 *" not in program:
        with pytest.raises(axon.ShapeError):
            f(np.zeros(step + 1, np.float32), target=target)


def test_by_a_size() -> None:
    f = axon.compile("fun f {k} (x : f32[n * k]) = loop (s = 0.0 * x[: n]) for i < k => s + x[i : n * k : k]").f
    assert str(f.signature) == "sig f : {k} -> f32[k * n] -> f32[n] where k >= 1"
    x = np.arange(12, dtype=np.float32)
    for target in ("interpret", "cpu"):
        assert f[3](x, target=target).tolist() == x.reshape(4, 3).sum(1).tolist()


@pytest.mark.parametrize("body", ["for i < 3 => x[i : n : 2]", "for i < 2, j < 2 => x[i + 2 * j : n : 4]", "for i < n => x[i : n]",
                                  "for i < 2 => x[2 * i : n : 2]", "for i < 2 => x[i : n + i : 3]"])  # fmt: skip
def test_others_have_lengths_that_depend_on_the_index(body: str) -> None:
    with pytest.raises(axon.AxonError, match=r"AX0308|AX0303"):
        axon.compile(f"fun f (x : f32[n]) = {body}")
