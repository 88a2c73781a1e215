"""Programs of every family with their meaning in NumPy, for calls in several orders of sizes.

What docs/runtime.md says may vary with the sizes of earlier calls is the order of some sums. So bits are those of a first call
where a program has no such sum, and elsewhere each result is as near the float64 value as any other.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np

Sizes = dict[str, int]

TEXT = """
fun sums (x : i32[n, m]) = (sum i j => x[i, j], for i => sum j => x[i, j], for j => sum i => x[i, j])
fun extremes (x : f32[n, m]) = (max i j => x[i, j], for i => argmax j => x[i, j], for j => min i => x[i, j])
fun pairs (x : i32[n, m]) = for i =>
  reduce (fn (a, b) (c, d) => (a * c % 251, (b * c + d) % 251), (1, 0)) j => (x[i, j] % 7 + 1, x[i, j] % 5)
fun running (x : i32[n, m]) = for i => scan (fn a b => a + b, 0) j => x[i, j]
fun ordered (x : i32[n, m]) = sort (for j => sum i => x[i, j])
fun counted (x : i32[n, m]) = for i j =>
  (sum k => if x[i, k] < x[i, j] then 1 else 0) + m * (sum for k < i => x[k, j] % 3)
fun total (x : f32[n, m]) = sum i j => x[i, j]
fun normal (x : f32[n, m]) = for i j => x[i, j] / (sum k => exp x[i, k]) - (sum k => x[k, j])
fun product (x : bf16[n, m]) (y : bf16[n, m]) = for i j => sum k => cast f32 x[i, k] * cast f32 y[j, k]
fun attend (q : bf16[n, 64]) (k : bf16[m, 64]) =
  let val w = for i j => sum c => cast f32 q[i, c] * cast f32 k[j, c]
      val h = for i => max j => w[i, j]
      val z = for i => sum j => exp (w[i, j] - h[i])
  in for i c => cast bf16 (sum j => exp (w[i, j] - h[i]) / z[i] * cast f32 k[j, c]) end
"""


@dataclass(frozen=True)
class Subject:
    """A function of `TEXT`: the shapes and element type of its arguments, what it means, and how far a result may be off.

    `off` is a part of the largest magnitude; 0 where nothing rounds or only the maximum of what was given is taken.
    """

    shapes: Callable[[Sizes], list[tuple[int, ...]]]
    meaning: Callable[..., Any]
    element: str = "int32"
    off: float = 0.0


def _rows(sizes: Sizes) -> list[tuple[int, ...]]:
    return [(sizes["n"], sizes["m"])]


def _folded(x: Any) -> Any:
    rows = []
    for row in x.tolist():
        a, b = 1, 0
        for v in row:
            c, d = v % 7 + 1, v % 5
            a, b = a * c % 251, (b * c + d) % 251
        rows.append((a, b))
    return tuple(np.array(column, np.int32) for column in zip(*rows, strict=True))


def _counted(x: Any) -> Any:
    before = np.cumsum(x % 3, 0) - x % 3
    return (x[:, None, :] < x[:, :, None]).sum(2) + x.shape[1] * before


def _attend(q: Any, k: Any) -> Any:
    s = q @ k.T
    e = np.exp(s - s.max(1, keepdims=True))
    return e @ k / e.sum(1, keepdims=True)


SUBJECTS: Mapping[str, Subject] = {
    "sums": Subject(_rows, lambda x: (x.sum(), x.sum(1), x.sum(0))),
    "extremes": Subject(_rows, lambda x: (x.max(), x.argmax(1), x.min(0)), "float32"),
    "pairs": Subject(_rows, _folded),
    "running": Subject(_rows, lambda x: np.cumsum(x, 1)),
    "ordered": Subject(_rows, lambda x: np.sort(x.sum(0))),
    "counted": Subject(_rows, _counted),
    "total": Subject(_rows, lambda x: x.sum(), "float32", 1e-5),
    "normal": Subject(_rows, lambda x: x / np.exp(x).sum(1, keepdims=True) - x.sum(0), "float32", 1e-5),
    "product": Subject(lambda s: 2 * _rows(s), lambda x, y: x @ y.T, "bfloat16", 1e-5),
    "attend": Subject(lambda s: [(s["n"], 64), (s["m"], 64)], _attend, "bfloat16", 2e-2),
}


def history(chance: Random, subject: Subject, calls: int, largest: int, longest: int) -> list[list[Any]]:
    """The arguments of some calls, each with other sizes: flat, tall, small and large ones; as float64 of what elements hold.

    A matrix has at most `largest` elements, a row or column `longest`.
    """
    made = []
    for _ in range(calls):
        area = largest ** (0.3 + 0.7 * chance.random())
        n = max(1, min(round(area ** chance.random()), longest))
        sizes = {"n": n, "m": max(1, min(round(area / n), longest))}
        rng = np.random.default_rng(chance.randrange(2**32))
        if subject.element == "int32":
            made.append([rng.integers(0, 100, shape).astype(np.float64) for shape in subject.shapes(sizes)])
        else:
            made.append([np.round(rng.standard_normal(shape) * 8) / 16 for shape in subject.shapes(sizes)])
    return made


def leaves(result: Any, to_numpy: Callable[[Any], Any]) -> list[Any]:
    parts = result if isinstance(result, tuple) else (result,)
    return [np.asarray(to_numpy(part)) for part in parts]


def compare(subject: Subject, arguments: list[Any], got: list[Any], first: list[Any]) -> str:
    """What is wrong with a call's result, beside what it means and what a first call of its sizes gave; nothing if it is right."""
    integral = subject.element == "int32"
    wanted = leaves(subject.meaning(*[a.astype(np.int64) if integral else a for a in arguments]), lambda part: part)
    for place, (value, want, alone) in enumerate(zip(got, wanted, first, strict=True), 1):
        if not subject.off and value.tobytes() != alone.tobytes():
            return f"result {place} has other bits than in a first call"
        if value.shape != want.shape:
            return f"result {place} has shape {value.shape}"
        added = sum(np.abs(a).sum() for a in arguments) if want.ndim == 0 else 0.0  # what cancels in a sum of everything
        scale = max(np.abs(want).max(initial=1.0), added)
        off = np.abs(value.astype(np.float64) - want).max(initial=0.0)
        if off > subject.off * scale:
            return f"result {place} is off by {off:.3g} of {scale:.3g}"
    return ""
