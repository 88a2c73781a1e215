"""`optim` against the formulas of its papers in NumPy, one step at a time; `test_optim` holds whole runs to PyTorch."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.library.library_case import Array, Comparison, Drawn, case, of


def several(d: Drawn, count: int) -> list[Array]:
    shape = d.shape()
    return [d.real(*shape) for _ in range(count)]


def stepping(name: str, numbers: tuple[Any, ...], count: int, f: Any) -> None:
    """A function of numbers, and of tensors of one shape."""

    @case(f"optim.{name}")
    def _(d: Drawn) -> Comparison:
        tensors = several(d, count)
        return of(*numbers, *tensors, wanted=f(*(x.astype(np.float64) for x in tensors)), slack=3)


stepping("sgd", (0.3,), 2, lambda w, g: w - 0.3 * g)
stepping("momentum", (0.9,), 2, lambda v, g: 0.9 * v + g)
stepping("nesterov", (0.9,), 2, lambda v, g: g + 0.9 * v)
stepping("average", (0.8,), 2, lambda m, g: m + 0.2 * (g - m))
stepping("average_square", (0.8,), 2, lambda v, g: v + 0.2 * (g**2 - v))
stepping("sum_square", (), 2, lambda v, g: v + g**2)
stepping("penalized", (0.1,), 2, lambda w, g: g + 0.1 * w)
stepping("clip", (0.5,), 1, lambda g: np.clip(g, -0.5, 0.5))


def squared(name: str, numbers: tuple[Any, ...], f: Any) -> None:
    """One whose second last tensor is a mean or sum of squares."""

    @case(f"optim.{name}")
    def _(d: Drawn) -> Comparison:
        shape = d.shape()
        w, x, squares = d.real(*shape), d.real(*shape), d.uniform(*shape, low=0.01)
        last = (squares, x) if "ad" not in name or name == "adagrad" else (x, squares)
        return of(*numbers, w, *last, wanted=f(*(t.astype(np.float64) for t in (w, *last))), slack=10)


def adam(w: Array, m: Array, v: Array, decay: float = 0.0) -> Array:
    corrected, square = m / (1 - 0.9**7), v / (1 - 0.99**7)
    return np.asarray(w * (1 - 0.1 * decay) - 0.1 * corrected / (np.sqrt(square) + 1e-3))


squared("adam", (0.1, (0.9, 0.99), 1e-3, 7), adam)
squared("adamw", (0.1, (0.9, 0.99), 1e-3, 0.2, 7), lambda w, m, v: adam(w, m, v, 0.2))
squared("rmsprop", (0.1, 1e-3), lambda w, v, g: w - 0.1 * g / (np.sqrt(v) + 1e-3))
squared("adagrad", (0.1, 1e-3), lambda w, v, g: w - 0.1 * g / (np.sqrt(v) + 1e-3))


@case("optim.correction")
def _(d: Drawn) -> Comparison:
    t, beta = d.size(1, 2000), d.uniform(low=0.5, high=0.999)
    return of(beta, t, wanted=-np.expm1(t * np.log(np.float64(beta))))


@case("optim.square_sum")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), scale=9)
    return of(x, wanted=np.linalg.norm(x.astype(np.float64)) ** 2, double=True)


@case("optim.clip_factor")
def _(d: Drawn) -> Comparison:
    norm = [0.0, 0.5, 2.0, 8.0][d.size(0, 3)]
    return of(2.0, norm**2, wanted=2.0 / max(norm, 2.0), double=True)


@case("optim.scaled")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(0.25, x, wanted=0.25 * x.astype(np.float64))


def schedule(name: str, f: Any, *numbers: float) -> None:
    """A factor by the number of steps so far, of so many in all."""
    typed = "".join(f" ({x} : f64)" for x in numbers)

    @case(f"optim.{name}", f"fun f (steps : i32) (t : i32) : f64 = optim.{name}{typed} steps t")
    def _(d: Drawn) -> Comparison:
        steps, t = d.size(1, 40), d.size(0, 50)
        return of(steps, t, wanted=f(steps, t), double=True)


def one_cycle(steps: int, t: int) -> float:
    """PyTorch's phases, of which the first ends at 0.3 * steps - 1 and the second at steps - 1."""
    top = 0.3 * steps - 1

    def cosine(low: float, high: float, part: float) -> float:
        return high + (low - high) / 2 * (1 + np.cos(np.pi * part))

    if t <= top:
        return cosine(0.04, 1.0, t / top if top > 0 else 1.0)
    return cosine(1.0, 4e-6, min(1.0, (t - top) / (steps - 1 - top)))


schedule("warmup", lambda n, t: min(1.0, (t + 1) / n))
schedule("linear", lambda n, t: 1 - min(t, n) / n)
schedule("cosine", lambda n, t: np.cos(np.pi / 2 * min(t, n) / n) ** 2)
schedule("stairs", lambda n, t: 0.7 ** (t // n), 0.7)
schedule("one_cycle", one_cycle, 0.04, 4e-6, 0.3)


@case("optim.exponential")
def _(d: Drawn) -> Comparison:
    t, decay = d.size(0, 50), d.uniform(low=0.8)
    return of(decay, t, wanted=np.float64(decay) ** t)
