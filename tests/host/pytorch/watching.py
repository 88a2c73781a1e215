"""A program for the tests of operators, and what watches its calls."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import axon

torch = pytest.importorskip("torch")
modes = pytest.importorskip("torch.utils._python_dispatch")

PROGRAM = """
import nn
type linear['a, d, k] = { w : 'a[d, k], b : 'a[k] }
fun dense (p : linear['a, d, k]) x = tanh (x @ p.w + p.b)
fun product (a : 'a[n, k]) (b : 'a[k, m]) = a @ b
fun cube (x : 'a[n]) = for i => x[i] ** 3
fun scaled k x = k * x
fun adds x y = x + y
fun heads {h} (x : 'a[h * n]) = for i < h, j => x[(i, j)] * x[(i, j)]
fun windows {r, s} (x : 'a[h]) where r <= h, s >= 1 = for i < (h - r) / s + 1 => sum for j < r => x[s * i + j]
fun square (x : 'a[n * n]) = for i < n, j < n => x[(i, j)]
fun least (x : 'a[n]) (y : 'a[m]) = for i < min n m => x[i] + y[i]
fun kept (x : 'a[n]) = filter (x > 0.0) x
fun counted (x : 'a[n]) = { total = sum i => x[i] * x[i], signs = (for i => x[i] > 0.0, argmax i => x[i]) }
fun fixed (x : f32[n]) (i : i32) = x[i] * 2.0
fun chosen (b : bool[n]) (x : i64[n]) = for i => if b[i] then x[i] else 0
fun half (x : bf16[n]) = x + x
fun same (x : 'a[n]) = x
fun grid {h, w} = for i < h, j < w => i + j
fun both {h} (k : f32) = (for i < h => k, h)
fun power (n : i32) (x : f64) = loop (x = x) for _ < n => x * x
val turn = 6.28125
"""


@cache
def module() -> axon.Module:
    return axon.compile(PROGRAM)


class Watch(modes.TorchDispatchMode):  # type: ignore[misc, name-defined]
    """A mode that sees operators as they are called."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...]]] = []

    def __torch_dispatch__(self, operator: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if operator.namespace == "axon":
            self.calls.append((operator, args))
        return operator(*args, **(kwargs or {}))


def operator_of(function: Any, *args: Any) -> tuple[Any, tuple[Any, ...]]:
    """The operator of a call, and what it is given."""
    with Watch() as watch, torch.no_grad():
        function(*args)
    (found,) = watch.calls
    return found


def compiled(function: Any, backend: Any = "aot_eager", **options: Any) -> Any:
    torch._dynamo.reset()
    return torch.compile(function, backend=backend, fullgraph=True, **options)
