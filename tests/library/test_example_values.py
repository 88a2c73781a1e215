"""The examples compute what they are about: each against NumPy, SciPy, scikit-learn or a solution in closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon
from tests import ROOT
from tests.library.nn_cases import attended, convolved, distance, kept, published_slopes, standardized

EXAMPLES = ROOT / "examples"
RNG = np.random.default_rng(0)


def load(name: str) -> axon.Module:
    return axon.load(EXAMPLES / f"{name}.axon")


def real(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def near(got: Any, wanted: Any, slack: float = 1.0) -> None:
    np.testing.assert_allclose(got, wanted, rtol=1e-4 * slack, atol=1e-4 * slack)


@pytest.mark.parametrize(("heads", "sequence"), [(1, 5), (4, 7), (2, 1)])
def test_gpt2_block(heads: int, sequence: int) -> None:
    d, n = 8, 3

    def linear(k: int, o: int) -> dict[str, np.ndarray]:
        return {"w": real(k, o) / np.float32(3), "b": real(o)}

    def norm() -> dict[str, np.ndarray]:
        return {"scale": real(d), "shift": real(d)}

    p: dict[str, Any] = {
        "norm1": norm(), "attention": {"qkv": linear(d, 3 * d), "out": linear(d, d)},
        "norm2": norm(), "up": linear(d, 4 * d), "down": linear(4 * d, d),
    }  # fmt: skip

    def normed(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
        return np.asarray(standardized(x, -1) * p["scale"] + p["shift"])

    def dense(p: dict[str, np.ndarray], x: np.ndarray) -> np.ndarray:
        return np.asarray(x @ p["w"] + p["b"])

    x = real(n, sequence, d)
    qkv = dense(p["attention"]["qkv"], normed(p["norm1"], x)).reshape(n, sequence, 3, heads, d // heads).transpose(2, 0, 3, 1, 4)
    mixed = attended(*qkv, lambda scores: kept(scores, distance(scores) >= 0)).transpose(0, 2, 1, 3).reshape(x.shape)
    y = x + dense(p["attention"]["out"], mixed)
    hidden = dense(p["up"], normed(p["norm2"], y))
    gelu = hidden / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (hidden + 0.044715 * hidden**3)))
    near(load("gpt2_block").block[heads](p, x), y + dense(p["down"], gelu))


@pytest.mark.parametrize("size", [(6, 8), (7, 5), (1, 2)])
def test_resnet_blocks(size: tuple[int, int]) -> None:
    def step(o: int, c: int, r: int) -> dict[str, Any]:
        statistics = {"scale": real(o), "shift": real(o), "mean": real(o), "variance": np.exp(real(o))}
        return {"k": real(o, c, r, r) / np.float32(3), "norm": statistics}

    def run(p: dict[str, Any], x: np.ndarray, stride: int) -> np.ndarray:
        y = convolved(x, p["k"], stride, p["k"].shape[-1] // 2)
        n = {name: value[:, None, None] for name, value in p["norm"].items()}
        return np.asarray((y - n["mean"]) / np.sqrt(n["variance"] + 1e-5) * n["scale"] + n["shift"])

    def relu(x: np.ndarray) -> np.ndarray:
        return np.maximum(x, 0)

    m, x = load("resnet_block"), real(2, 3, *size)
    p = {"first": step(3, 3, 3), "second": step(3, 3, 3)}
    near(m.block(p, x), relu(x + run(p["second"], relu(run(p["first"], x, 1)), 1)))
    p = {"first": step(6, 3, 3), "second": step(6, 6, 3), "shortcut": step(6, 3, 1)}
    near(m.halving_block(p, x), relu(run(p["shortcut"], x, 2) + run(p["second"], relu(run(p["first"], x, 2)), 1)))


def test_score_changes() -> None:
    m, n = load("score_changes"), 9
    q, k, v = real(2, 4, n, 8), real(2, 4, n, 8), real(2, 4, n, 5)
    behind = np.subtract.outer(np.arange(n), np.arange(n))
    ids = np.array([0, 0, 0, 1, 1, 2, 2, 2, 2], np.int32)
    slopes, bias = np.array(published_slopes(4))[:, None, None], real(4, 7)
    wanted = {
        "gemma": lambda s: kept(50 * np.tanh(s / 50), (behind >= 0) & (behind < 3)),
        "prefix_lm": lambda s: kept(s, (behind >= 0) | (np.arange(n) < 4)),
        "sparse": lambda s: kept(s, (behind >= 0) & (behind % 2 == 0)),
        "packed": lambda s: kept(s, (behind >= 0) & (ids[:, None] == ids)),
        "t5": lambda s: s + bias[:, np.clip(3 - behind, 0, 6)],
        "bloom": lambda s: kept(s - slopes * behind, behind >= 0),
    }
    given: dict[str, tuple[Any, ...]] = {
        "gemma": (3,),
        "prefix_lm": (4,),
        "sparse": (2,),
        "packed": (ids,),
        "t5": (bias,),
        "bloom": (),
    }
    for name, change in wanted.items():
        near(m[name](*given[name], q, k, v), attended(q, k, v, change))


def test_heat() -> None:
    """A product of sines is an eigenvector of the step, and the border stays."""
    m, n, rate, steps = load("heat"), 17, 0.2, 50
    t = np.pi * np.arange(n) / (n - 1)
    start = np.outer(np.sin(t), np.sin(2 * t))
    factor = 1 - 4 * rate * (np.sin(t[1] / 2) ** 2 + np.sin(t[1]) ** 2)
    np.testing.assert_allclose(m.heat(steps, rate, start), factor**steps * start, atol=1e-12)
    film = m.film[3](steps, rate, start)
    np.testing.assert_allclose(film, [factor ** (steps * k) * start for k in (1, 2, 3)], atol=1e-12)
    hot = np.zeros((5, 5))
    hot[0] = 1
    steady = m.heat(1000, 0.25, hot)
    np.testing.assert_allclose(steady[1:-1, 1:-1].sum(), 9 / 4, rtol=1e-9)  # by symmetry: four plates, one hot side each, are 1
    np.testing.assert_array_equal(steady[0], hot[0])


def test_mandelbrot() -> None:
    def steps(c: complex) -> int:
        z, n = c, 0
        while n < 60 and abs(z) <= 2:
            z, n = z * z + c, n + 1
        return n

    centre, width, shape = -0.6 + 0.1j, 2.5, (7, 11)
    pixel = width / shape[1]
    points = [[centre + pixel * complex(j - 5, 3 - i) for j in range(shape[1])] for i in range(shape[0])]
    wanted = [[steps(c) for c in row] for row in points]
    got = load("mandelbrot").mandelbrot[shape](60, {"re": centre.real, "im": centre.imag}, width)
    assert (got != np.array(wanted)).mean() < 0.05  # the numbers are f32; at the border that decides


def test_kalman() -> None:
    """Against the batch solution: the last estimate is the mean of the last state given all measurements."""
    n, m, t = 3, 2, 4
    rng = np.random.default_rng(1)
    motion, view = rng.normal(size=(n, n)), rng.normal(size=(m, n))
    drift, noise, before = np.diag([0.1, 0.2, 0.3]), np.array([[0.5, 0.1], [0.1, 0.4]]), 2 * np.eye(n)
    start, measured = rng.normal(size=n), rng.normal(size=(t, m))
    means, covariances = load("kalman").filtered(
        {"motion": motion, "drift": drift, "view": view, "noise": noise}, start, before, measured
    )
    # All states are linear in (start, w1, ..., wt), which are independent.
    maps, powers = [], np.zeros((n, n * (t + 1)))
    powers[:, :n] = np.eye(n)
    for k in range(t):
        powers = motion @ powers
        powers[:, n * (k + 1) : n * (k + 2)] += np.eye(n)
        maps.append(powers.copy())
    prior = np.zeros((n * (t + 1), n * (t + 1)))
    for k in range(t + 1):
        prior[n * k : n * (k + 1), n * k : n * (k + 1)] = drift if k else before
    mean = np.concatenate([start, np.zeros(n * t)])
    seen = np.concatenate([view @ a for a in maps])
    s = seen @ prior @ seen.T + np.kron(np.eye(t), noise)
    gain = maps[-1] @ prior @ seen.T @ np.linalg.inv(s)
    np.testing.assert_allclose(means[-1], maps[-1] @ mean + gain @ (measured.ravel() - seen @ mean), rtol=1e-8)
    np.testing.assert_allclose(
        covariances[-1], maps[-1] @ prior @ maps[-1].T - gain @ seen @ prior @ maps[-1].T, rtol=1e-8, atol=1e-8
    )


def test_page_rank() -> None:
    n, follow = 8, 0.85
    links = RNG.random((n, n)) < 0.3
    links[2] = False
    out = links.sum(1)
    steps = np.where(out[:, None] > 0, links / np.maximum(out, 1)[:, None], 1 / n)
    values, vectors = np.linalg.eig((follow * steps + (1 - follow) / n).T)
    wanted = np.real(vectors[:, np.argmax(np.real(values))])
    near(load("pagerank").page_rank(100, follow, links), wanted / wanted.sum())


@pytest.mark.parametrize("n", [1, 2, 5, 16])
def test_fourier(n: int) -> None:
    m, x = load("fourier"), RNG.standard_normal(n) + 1j * RNG.standard_normal(n)
    wanted = np.fft.fft(x)
    got = m.transform({"re": x.real.copy(), "im": x.imag.copy()})
    np.testing.assert_allclose(got["re"] + 1j * got["im"], wanted, atol=1e-12)
    back = m.inverse(got)
    np.testing.assert_allclose(back["re"] + 1j * back["im"], x, atol=1e-12)
    np.testing.assert_allclose(m.power(x.real.copy()), np.abs(np.fft.rfft(x.real)) ** 2, atol=1e-11)


def test_spectrogram() -> None:
    x, window, hop = RNG.standard_normal(50), 12, 5
    fade = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(window) / window)
    wanted = [np.abs(np.fft.rfft(fade * x[p : p + window])) ** 2 for p in range(0, 50 - window + 1, hop)]
    np.testing.assert_allclose(load("fourier").spectrogram[window, hop](x), wanted, atol=1e-11)


def test_neighbours() -> None:
    from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor  # slow to import, in every worker

    m, points, queries = load("neighbours"), real(40, 3), real(25, 3)
    labels, values = RNG.integers(0, 4, 40).astype(np.int32), real(40)
    wanted = KNeighborsClassifier(5).fit(points, labels)
    np.testing.assert_array_equal(m.nearest[5](points, queries), wanted.kneighbors(queries, return_distance=False))
    np.testing.assert_array_equal(m.classified[5, 4](points, labels, queries), wanted.predict(queries))
    near(m.regressed[5](points, values, queries), KNeighborsRegressor(5).fit(points, values).predict(queries))


def test_filters() -> None:
    m, x = load("filters"), RNG.random((3, 12, 17)).astype(np.float32)
    grey = np.einsum("chw,c->hw", x, [0.2126, 0.7152, 0.0722])
    near(m.sepia(x), np.minimum(grey * np.array([1.07, 0.87, 0.63])[:, None, None], 1))
    near(m.posterized(4, x), np.minimum(np.floor(x * 4), 3) / 3)
    assert m.drawn(np.full_like(x, 0.3)).max() < 1e-5
    near(m.embossed(np.full_like(x, 0.3)), np.full((12, 17), 0.5))
    pixelated = m.pixelated[5](x)
    assert {len(np.unique(plane)) for plane in pixelated} == {2 * 3}
    near(m.miniature(0.5, x)[:, 6], x[:, 6])  # in focus


def test_training_digits() -> None:
    """A step of training goes down the gradient that differences give, and updates as AdamW does."""
    m = load("train_digits/train")
    rng = np.random.default_rng(5)

    def layer(**shapes: tuple[int, ...]) -> dict[str, Any]:
        return {n: (0.3 * rng.normal(size=s)).astype(np.float32) for n, s in shapes.items()}

    weights = {
        "conv1": layer(k=(16, 1, 3, 3), b=(16,)),
        "conv2": layer(k=(32, 16, 3, 3), b=(32,)),
        "hidden": layer(w=(128, 64), b=(64,)),
        "out": layer(w=(64, 10), b=(10,)),
    }
    images, labels = rng.random((4, 8, 8)).astype(np.float32), np.array([3, 1, 4, 1], np.int32)
    value, g = m.loss.value_and_grad("p")(weights, images, labels)
    near(value, m.loss(weights, images, labels))
    for layer_name, name, place in (
        ("out", "b", (3,)),
        ("hidden", "w", (7, 5)),
        ("conv2", "k", (3, 2, 1, 0)),
        ("conv1", "b", (4,)),
    ):
        sides = []
        for step in (1e-2, -1e-2):
            moved = {n: dict(p) for n, p in weights.items()}
            moved[layer_name][name] = moved[layer_name][name].copy()
            moved[layer_name][name][place] += step
            sides.append(m.loss(moved, images, labels))
        assert abs((sides[0] - sides[1]) / 2e-2 - g[layer_name][name][place]) < 2e-2 * (1 + abs(g[layer_name][name][place]))
    _, after = m.step(0.01, 0.1, 100, 1, m.start(weights), images, labels)
    b, slope = weights["out"]["b"], g["out"]["b"]
    wanted = b - 0.01 * (slope / (np.abs(slope) + 1e-8) + 0.1 * b)
    np.testing.assert_allclose(after["weights"]["out"]["b"], wanted, rtol=1e-4, atol=1e-6)
