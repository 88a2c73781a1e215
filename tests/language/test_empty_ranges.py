"""What is taken out of a range runs only if the range has an index: an empty `for` computes nothing, and so cannot fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon

TARGETS = ("interpret", "cpu")


def i32(*shape: int) -> np.ndarray[Any, Any]:
    return np.arange(1, np.prod(shape, dtype=int) + 1, dtype=np.int32).reshape(shape)


# A function `f`, arguments for which a range in it is empty, and the shape of what it gives.
EMPTY: list[tuple[str, tuple[Any, ...], tuple[int, ...]]] = [
    ("fun f (x : i32[n, m]) = for i < n => for j < m => j % n", (i32(0, 2),), (0, 2)),
    ("fun f (x : i32[n, m]) = for i < m => for j < n => j / m", (i32(2, 0),), (0, 2)),
    ("fun f (x : i32[n, m]) = for i < m => sum for j < n => j / m", (i32(2, 0),), (0,)),
    ("fun f (x : i32[n, m]) = for i < m => for j < n => n / m", (i32(2, 0),), (0, 2)),
    ("fun f (x : i32[n, m]) = for i < m => scan (op +, 0) for j < n => j % m", (i32(2, 0),), (0, 2)),
    ("fun f (x : i32[n]) (y : i32[m]) = for i < n => argmax for j < m => x[j % n] * y[j]", (i32(0), i32(3)), (0,)),
    ("fun f (x : i32[n]) (y : i32[m]) = for i < n => max for j < m => x[j % n] * y[j]", (i32(0), i32(3)), (0,)),
    (
        "fun f (x : i32[h]) (y : i32[m]) = for i < m => min for j < h => (if max j 1 < m then y[max j 1] else -3)",
        (i32(2), i32(0)),
        (0,),
    ),
    ("fun f (x : i32[n]) (q : i32) = for i < n => for j < 3 => j / q", (i32(0), 0), (0, 3)),
    ("fun f (x : i32[n]) (y : i32[m]) = for i < n => for j < 3 => y[x[0] + j]", (i32(0), i32(2)), (0, 3)),
    ("fun f (x : i32[n]) = for i < n => sum for k < i / 2 => sum for j < 3 => j / (i / 2)", (i32(2),), (2,)),
    ("fun f (x : i32[n]) = for i < n => loop (s = 1) for t < 7 / n => s", (i32(0),), (0,)),
    ("fun f (x : i32[n]) = for i < n => unfold (s = 1) for t < 3 => s / n", (i32(0),), (0, 3)),
    ("fun f (x : i32[n]) = for i < n => let val s = 7 / n in for j < 3 => s + j end", (i32(0),), (0, 3)),
    ("fun f (x : i32[n]) = for i < n => reduce (fn a b => a + b, 7 / n) for j < 3 => j", (i32(0),), (0,)),
    ("fun f (x : i32[n]) = for i < n => (for j < 3 => (if j > 0 then 7 / n else 8 / n))[1]", (i32(0),), (0,)),
    ("fun f (x : i32[n]) = for i < n => argmax for k < 3 => argmax for j < 2 => k * j / n", (i32(0),), (0,)),
    ("fun f (x : i32[n]) = for j < n - 5 => sum for i < n - j => sum k => x[5 - min i 5] * x[k]", (i32(5),), (0,)),
    ("fun f (x : i32[n]) = sum for i < n => for j < 3 => (if j % n = 0 then j else 0)", (i32(0),), (3,)),
    ("fun f (x : i32[n]) = for i < n => loop (s = 1) for t < n => s / n", (i32(0),), (0,)),
    ("fun f (x : i32[n]) = for i < n => let val t = [| 7 / n, 8 / n |] in t[0] + t[1] + i end", (i32(0),), (0,)),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "arguments", "shape"), EMPTY, ids=[text.split("=", 1)[1].strip() for text, _, _ in EMPTY])
def test_an_empty_range_computes_nothing(text: str, arguments: tuple[Any, ...], shape: tuple[int, ...], target: str) -> None:
    found = axon.compile(text).f(*arguments, target=target)
    assert found.shape == shape


# The same holds of a branch that is not taken: `f` gives 1, or ones.
NOT_TAKEN: list[tuple[str, tuple[Any, ...]]] = [
    ("fun f (x : i32[n]) (p : bool) (d : i32) = if p then 1 else max i => x[i] / d", (i32(3), True, 0)),
    ("fun f (x : i32[n]) (p : bool) (k : i32) = if p then 1 else argmax i => x[i] + x[k]", (i32(3), True, 1)),
    ("fun f (x : i32[n]) (d : i32) = for i => if x[i] > 0 then 1 else min j => x[j] / d", (i32(3), 0)),
    (
        "fun f (x : i32[n]) (d : i32) = for i < n => sum for j < i => (if x[j] > 0 then 0 else argmax k => x[k] / d) - j + 1",
        (i32(2), 0),
    ),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("text", "arguments"), NOT_TAKEN, ids=[text.split("=", 1)[1].strip() for text, _ in NOT_TAKEN])
def test_a_branch_that_is_not_taken_asks_for_no_extreme(text: str, arguments: tuple[Any, ...], target: str) -> None:
    found = axon.compile(text).f(*arguments, target=target)
    assert np.ravel(found)[-1] == 1


@pytest.mark.parametrize("target", TARGETS)
def test_an_extreme_of_a_dependent_range_is_asked_for_only_inside_it(target: str) -> None:
    text = "fun f (x : i32[n, m]) (y : i32[n, m]) = for i => sum for k < i => argmax j => x[i, j] * y[k, j]"
    x, y = i32(4, 3), i32(4, 3)[::-1] % 5
    right = [sum(int(np.argmax(x[i] * y[k])) for k in range(i)) for i in range(4)]
    assert axon.compile(text).f(x, y, target=target).tolist() == right
