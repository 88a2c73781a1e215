"""Ranges whose bound depends on an outer index, in whatever way: inner operations leave with room for the largest, or for more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import axon

Bound = Callable[[int, int], int]

BOUNDS: list[tuple[str, Bound]] = [
    ("min i 3", lambda i, n: min(i, 3)),
    ("i / 2", lambda i, n: i // 2),
    ("i % 3", lambda i, n: i % 3),
    ("i * i", lambda i, n: i * i),
    ("n / (i + 1)", lambda i, n: n // (i + 1)),
    ("6 / (max n 1 - i)", lambda i, n: 6 // (max(n, 1) - i)),  # by 0 where i is n
    ("6 / (i + 2 - n / 7)", lambda i, n: 6 // (i + 2 - n // 7)),
    ("max (3 - i) 0", lambda i, n: max(3 - i, 0)),
    ("i * (n - i)", lambda i, n: i * (n - i)),
    ("(7 - i) % 3 * i", lambda i, n: (7 - i) % 3 * i),
    ("min (i * i) n - i % 2", lambda i, n: min(i * i, n) - i % 2),
    ("5 - i / 2 * i", lambda i, n: 5 - i // 2 * i),  # may be negative
]


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(("bound", "meant"), BOUNDS)
def test_reductions_in_reductions(bound: str, meant: Bound, target: str) -> None:
    f = axon.compile(f"fun f (x : f32[n]) = for i < n => sum for j < {bound} => sum for k < j => x[k | 2.0]").f
    let = axon.compile(
        f"fun f (x : f32[n]) = for i < n => sum for j < {bound} => let val s = sum for k < j => x[k | 2.0] in s end"
    ).f
    for n in (0, 1, 2, 7):
        x = np.arange(n, dtype=np.float32)
        padded = np.concatenate([x, np.full(60, 2, np.float32)])
        expected = [sum(float(padded[:j].sum()) for j in range(meant(i, n))) for i in range(n)]
        assert f(x, target=target).tolist() == expected
        assert let(x, target=target).tolist() == expected


@pytest.mark.parametrize("target", ["interpret", "cpu", "simulate"])
@pytest.mark.parametrize(
    ("body", "meant"),
    [
        # what the innermost range divides by is 0 past the end of the one around it
        ("sum for j < i * (3 - i) => sum for k < 12 / (3 - j) => x[k | 1.0]", [0, 4 + 6, 4 + 6]),
        # how often a loop runs is read where the range around it ends
        ("sum for j < i * (n - i) / 2 => loop (s = 0.0) for t < d[j] => s + 1.0", [0, 2, 2]),
        ("sum for j < i * (3 - i) => (scan (op +, 0.0) for k => x[k] + x[j])[j]", [0, 0 + 3, 0 + 3]),
        ("sum for j < i * (3 - i) => (sort (for k => 0.0 - x[k] - x[j]))[0]", [0, -2 - 3, -2 - 3]),
        ("sum for j < i * (3 - i), l < j * i => sum for k < j + l => x[k]", [0, 0, 0 + 1]),
    ],
)
def test_what_leaves_has_room_to_spare(body: str, meant: list[float], target: str) -> None:
    f = axon.compile(f"fun f (x : f32[n]) (d : i32[m]) where n = 3 = for i < n => {body}").f
    assert f(np.arange(3, dtype=np.float32), np.array([2], np.int32), target=target).tolist() == meant
