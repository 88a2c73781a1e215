"""What the models are of: Rubin's schools, and numbers drawn from the models themselves by fixed seeds."""

from __future__ import annotations

import numpy as np

Array = np.ndarray


def of(name: str) -> dict[str, Array]:
    """The data of a model, by the names of its parameters."""
    rng = np.random.default_rng([ord(c) for c in name])
    return MAKERS[name](rng)


def schools(rng: np.random.Generator) -> dict[str, Array]:
    return {"sigma": np.array([15.0, 10, 16, 11, 9, 11, 10, 18]), "y": np.array([28.0, 8, -3, 7, -1, 1, 18, 12])}


def columns(rng: np.random.Generator, n: int, k: int) -> Array:
    """Columns that have something in common, as those of surveys have."""
    return (rng.normal(size=(n, k)) + rng.normal(size=(n, 1))) / np.sqrt(2)


def coin(rng: np.random.Generator, logit: Array) -> Array:
    return (rng.random(len(logit)) < 1 / (1 + np.exp(-logit))).astype(np.int32)


def linear(rng: np.random.Generator) -> dict[str, Array]:
    x = columns(rng, 200, 6)
    return {"x": x, "y": 1 + x @ rng.normal(size=6) + 0.8 * rng.normal(size=200)}


def logistic(rng: np.random.Generator) -> dict[str, Array]:
    x = columns(rng, 1000, 20)
    return {"x": x, "y": coin(rng, -0.5 + x @ rng.normal(size=20) / 2)}


def grouped(rng: np.random.Generator) -> dict[str, Array]:
    w, x, group = rng.normal(size=30), rng.normal(size=(600, 4)), rng.integers(0, 30, 600).astype(np.int32)
    theta = 0.3 + 0.7 * w + 0.6 * rng.normal(size=30)
    return {"w": w, "x": x, "group": group, "y": coin(rng, theta[group] + x @ np.array([0.5, -0.5, 1, 0]))}


def counts(rng: np.random.Generator) -> dict[str, Array]:
    x = rng.normal(size=(400, 5))
    mean = np.exp(1 + x @ np.array([0.3, -0.2, 0.5, 0, 0.1]))
    return {"x": x, "y": rng.poisson(mean * rng.gamma(2.0, 0.5, 400)).astype(np.int32)}


def autoregression(rng: np.random.Generator) -> dict[str, Array]:
    y = np.zeros(205)
    for s in range(5, 205):
        y[s] = 0.2 + y[s - 5 : s][::-1] @ np.array([0.5, 0.2, 0.1, -0.1, 0.1]) + 0.3 * rng.normal()
    return {"lags": np.stack([y[4 - j : 204 - j] for j in range(5)], 1), "y": y[5:]}


def volatility(rng: np.random.Generator) -> dict[str, Array]:
    h = np.zeros(150)
    h[0] = -1
    for s in range(1, 150):
        h[s] = -1 + 0.9 * (h[s - 1] + 1) + 0.5 * rng.normal()
    return {"y": np.exp(0.5 * h) * rng.normal(size=150)}


def mixture(rng: np.random.Generator) -> dict[str, Array]:
    left = rng.random(300) < 0.4
    return {"y": np.where(left, rng.normal(-1.5, 0.8, 300), rng.normal(1.5, 1.2, 300))}


def process(rng: np.random.Generator) -> dict[str, Array]:
    x = np.sort(rng.uniform(-3, 3, 24))
    return {"x": x, "y": np.sin(1.5 * x) + 0.2 * rng.normal(size=24)}


def sparse(rng: np.random.Generator) -> dict[str, Array]:
    x, b = rng.normal(size=(100, 20)), np.zeros(20)
    b[:3] = 1.5, -1.0, 0.5
    return {"x": x, "y": x @ b + 0.5 * rng.normal(size=100)}


MAKERS = {f.__name__: f for f in (schools, linear, logistic, grouped, counts, autoregression, volatility, mixture, process, sparse)}
