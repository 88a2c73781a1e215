"""Programs as people write them who have read nothing but the documentation: all are accepted, and right by NumPy.

They stand as they were first written, but for patterns of records in `beam_search` and `top_k_experts` and the types of parameters
of `lru`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise, product
from math import erf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import axon

PROGRAMS = Path(__file__).parent / "first_programs"
ORACLES: dict[str, Callable[[Any, np.random.Generator], None]] = {}


def oracle(f: Callable[[Any, np.random.Generator], None]) -> Callable[[Any, np.random.Generator], None]:
    ORACLES[f.__name__] = f
    return f


@pytest.mark.parametrize("name", sorted(p.stem for p in PROGRAMS.glob("*.axon")))
def test_first_program(name: str) -> None:
    ORACLES[name](axon.load(PROGRAMS / f"{name}.axon"), np.random.default_rng(0))


def close(got: Any, want: Any, tolerance: float = 1e-9) -> None:
    assert np.shape(got) == np.shape(want)
    np.testing.assert_allclose(np.asarray(got, float), np.asarray(want, float), rtol=tolerance, atol=tolerance)


def arrays(rng: np.random.Generator, **shapes: tuple[int, ...]) -> dict[str, Any]:
    """Normal numbers in f32."""
    return {name: rng.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}


def sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


# ── networks ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@oracle
def gru(m: Any, rng: np.random.Generator) -> None:
    d, h = 3, 4
    p = arrays(rng, **{f"{part}{gate}": {"w": (d, h), "u": (h, h), "b": (h,)}[part] for part in "wub" for gate in "zrn"})
    xs, s = arrays(rng, xs=(5, 2, d), s=(2, h)).values()
    want, start = [], s
    for x in xs:
        z = sigmoid(x @ p["wz"] + s @ p["uz"] + p["bz"])
        r = sigmoid(x @ p["wr"] + s @ p["ur"] + p["br"])
        s = (1 - z) * np.tanh(x @ p["wn"] + (r * s) @ p["un"] + p["bn"]) + z * s
        want.append(s)
    close(m.run(p, xs, start), want, 1e-5)


@oracle
def t5_bias(m: Any, rng: np.random.Generator) -> None:
    buckets, s, t = 32, 40, 50
    table, q, k, v = arrays(rng, table=(buckets, 2), q=(2, 2, s, 4), k=(2, 2, t, 4), v=(2, 2, t, 4)).values()
    relative = np.arange(t) - np.arange(s)[:, None]
    half, exact, distance = buckets // 2, buckets // 4, abs(relative)
    single = np.maximum(distance, 1).astype(np.float32)  # of what a logarithm is taken decides the bucket where it is whole
    far = np.log(single / np.float32(exact)) / np.log(np.float32(128 / exact)) * np.float32(half - exact)
    bucket = (relative > 0) * half + np.where(distance < exact, distance, np.minimum(exact + far.astype(int), half - 1))
    scores = np.einsum("bhid,bhjd->bhij", q, k) + table[bucket].transpose(2, 0, 1)
    close(m.attention(table, q, k, v), softmax(scores) @ v, 1e-4)


@oracle
def top_k_experts(m: Any, rng: np.random.Generator) -> None:
    p = arrays(rng, router=(4, 5), up=(5, 4, 6), down=(5, 6, 4))
    (x,) = arrays(rng, x=(7, 4)).values()
    want = np.zeros((7, 4))
    for i, logits in enumerate(x @ p["router"]):
        best = np.argsort(-logits)[:2]
        for weight, expert in zip(softmax(logits[best]), best, strict=True):
            hidden = x[i] @ p["up"][expert]
            want[i] += weight * ((hidden * sigmoid(hidden)) @ p["down"][expert])
    close(m.moe[2](p, x), want, 1e-4)


@oracle
def rotary(m: Any, rng: np.random.Generator) -> None:
    (x,) = arrays(rng, x=(2, 5, 6)).values()
    angle = np.arange(5)[:, None] * 10000.0 ** (-np.arange(3) / 3)
    cos, sin, a, b = np.cos(angle), np.sin(angle), x[..., :3], x[..., 3:]
    close(m.rope(10000.0, x), np.concatenate([a * cos - b * sin, b * cos + a * sin], -1), 1e-5)


@oracle
def s4d(m: Any, rng: np.random.Generator) -> None:
    h, n, length = 2, 3, 9
    p = arrays(rng, log_dt=(h,), log_re=(h, n), im=(h, n), c_re=(h, n), c_im=(h, n), skip=(h,))
    (u,) = arrays(rng, u=(2, h, length)).values()
    p["log_dt"] -= 2
    dt, a = np.exp(p["log_dt"])[:, None], -np.exp(p["log_re"]) + 1j * p["im"]
    b = (p["c_re"] + 1j * p["c_im"]) * (np.exp(dt * a) - 1) / a
    kernel = 2 * (b[..., None] * np.exp((dt * a)[..., None] * np.arange(length))).sum(1).real
    want = [[np.convolve(kernel[i], x[i])[:length] + p["skip"][i] * x[i] for i in range(h)] for x in u]
    close(m.s4d(p, u), want, 1e-4)


@oracle
def lru(m: Any, rng: np.random.Generator) -> None:
    d, n = 3, 4
    p = arrays(rng, nu=(n,), theta=(n,), b_re=(n, d), b_im=(n, d), c_re=(d, n), c_im=(d, n), skip=(d,))
    (u,) = arrays(rng, u=(6, d)).values()
    turn = np.exp(-np.exp(p["nu"]) + 1j * np.exp(p["theta"]))
    state, want = np.zeros(n, complex), []
    for x in u:
        state = turn * state + np.sqrt(1 - abs(turn) ** 2) * ((p["b_re"] + 1j * p["b_im"]) @ x)
        want.append(((p["c_re"] + 1j * p["c_im"]) @ state).real + p["skip"] * x)
    close(m.lru(p, u), want, 1e-4)


@oracle
def adam_over_a_record(m: Any, rng: np.random.Generator) -> None:
    shapes = {"w1": (2, 3), "b1": (3,), "w2": (3, 4), "b2": (4,)}
    p, g, mean, square = (arrays(rng, **shapes) for _ in range(4))
    square = {n: abs(x) for n, x in square.items()}
    new, means, squares = m.adam(0.01, 3, p, g, mean, square)
    for n in shapes:
        a, b = 0.9 * mean[n] + 0.1 * g[n], 0.999 * square[n] + 0.001 * g[n] ** 2
        close(means[n], a, 1e-5)
        close(squares[n], b, 1e-5)
        close(new[n], p[n] - 0.01 * (a / (1 - 0.9**3)) / (np.sqrt(b / (1 - 0.999**3)) + 1e-8), 1e-4)


@oracle
def momentum(m: Any, rng: np.random.Generator) -> None:
    p = {"up": arrays(rng, w=(3, 5), b=(5,)), "down": arrays(rng, w=(5, 4), b=(4,))}
    (x,), labels = arrays(rng, x=(6, 3)).values(), rng.integers(0, 4, 6).astype(np.int32)
    loss, gradient = m.loss_and_gradient(p, x, labels)
    eps = 1e-2
    for path in (("up", "w"), ("up", "b"), ("down", "w"), ("down", "b")):
        moved = [{k: dict(v) for k, v in p.items()} for _ in range(2)]
        for sign, q in zip((1, -1), moved, strict=True):
            q[path[0]][path[1]] = (p[path[0]][path[1]] + sign * eps * gradient[path[0]][path[1]]).astype(np.float32)
        slope = (m.loss_and_gradient(moved[0], x, labels)[0] - m.loss_and_gradient(moved[1], x, labels)[0]) / (2 * eps)
        close(slope, float((gradient[path[0]][path[1]] ** 2).sum()), 2e-2)
    trained = m.train(0.1, 0.9, 20, p, x, labels)
    assert {k: v.shape for k, v in trained["down"].items()} == {"w": (5, 4), "b": (4,)}
    assert m.loss_and_gradient(trained, x, labels)[0] < 0.7 * loss


# ── statistics ──────────────────────────────────────────────────────────────────────────────────────────────────────────


@oracle
def gaussian_process(m: Any, rng: np.random.Generator) -> None:
    x, y, new = rng.standard_normal((8, 2)), rng.standard_normal(8), rng.standard_normal((5, 2))

    def kernel(a: Any, b: Any) -> Any:
        return 1.3 * np.exp(-0.5 * ((a[:, None] - b) ** 2).sum(-1) / 0.7**2)

    a, cross = kernel(x, x) + 0.1 * np.eye(8), kernel(new, x)
    mean, covariance = m.posterior(1.3, 0.7, 0.1, x, y, new)
    close(mean, cross @ np.linalg.solve(a, y))
    close(covariance, kernel(new, new) - cross @ np.linalg.solve(a, cross.T))
    want = -0.5 * y @ np.linalg.solve(a, y) - 0.5 * np.linalg.slogdet(a)[1] - 4 * np.log(2 * np.pi)
    close(m.log_likelihood(1.3, 0.7, 0.1, x, y), want)


@oracle
def kalman(m: Any, rng: np.random.Generator) -> None:
    f, h, q, r = 0.4 * rng.standard_normal((3, 3)), rng.standard_normal((2, 3)), 0.1 * np.eye(3), 0.2 * np.eye(2)
    x, p, zs = rng.standard_normal(3), np.eye(3), rng.standard_normal((6, 2))
    means, covariances = m.filtered({"f": f, "h": h, "q": q, "r": r}, x, p, zs)
    for n, z in enumerate(zs):
        x, p = f @ x, f @ p @ f.T + q
        gain = p @ h.T @ np.linalg.inv(h @ p @ h.T + r)
        x, p = x + gain @ (z - h @ x), p - gain @ h @ p
        close(means[n], x)
        close(covariances[n], p)


@oracle
def viterbi(m: Any, rng: np.random.Generator) -> None:
    s, o = 4, 3
    first, step, sees = (np.log(rng.dirichlet(np.ones(n), size=r)).astype(np.float32) for n, r in ((s, None), (s, s), (o, s)))
    seen = rng.integers(0, o, 7).astype(np.int32)

    def score(path: tuple[int, ...]) -> float:
        moves = sum(step[a, b] for a, b in pairwise(path))
        return float(first[path[0]] + moves + sum(sees[a, x] for a, x in zip(path, seen, strict=True)))

    best = max(product(range(s), repeat=7), key=score)
    path, total = m.viterbi(first, step, sees, seen)
    assert tuple(path) == best
    close(total, score(best), 1e-5)


@oracle
def gaussian_mixture(m: Any, rng: np.random.Generator) -> None:
    x = np.concatenate([rng.standard_normal((15, 2)), rng.standard_normal((15, 2)) + 4])
    weight, mean, covariance = np.array([0.5, 0.5]), x[[0, -1]].copy(), np.stack([np.eye(2)] * 2)
    found = m.em(5, {"weight": weight, "mean": mean, "covariance": covariance}, x)
    for _ in range(5):
        density = []
        for w, mu, c in zip(weight, mean, covariance, strict=True):
            square = np.einsum("ni,ij,nj->n", x - mu, np.linalg.inv(c), x - mu)
            density.append(np.log(w) - 0.5 * (square + np.linalg.slogdet(c)[1] + 2 * np.log(2 * np.pi)))
        share = softmax(np.stack(density, 1))
        total = share.sum(0)
        mean = share.T @ x / total[:, None]
        covariance = np.stack([((x - mean[c]) * share[:, [c]]).T @ (x - mean[c]) / total[c] for c in range(2)])
        weight = total / 30
    close(found["weight"], weight, 1e-8)
    close(found["mean"], mean, 1e-8)
    close(found["covariance"], covariance, 1e-8)


@oracle
def kmeans(m: Any, rng: np.random.Generator) -> None:
    x = rng.standard_normal((20, 2))
    centres = x[:3].copy()
    found, labels = m.kmeans(6, x, centres)
    for _ in range(6):
        nearest = ((x[:, None] - centres) ** 2).sum(-1).argmin(1)
        centres = np.stack([x[nearest == j].mean(0) if (nearest == j).any() else centres[j] for j in range(3)])
    close(found, centres)
    assert (labels == ((x[:, None] - centres) ** 2).sum(-1).argmin(1)).all()


@oracle
def sinkhorn(m: Any, rng: np.random.Generator) -> None:
    a, b, cost = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(5)), rng.random((4, 5))
    kernel, v = np.exp(-cost / 0.1), np.ones(5)
    for _ in range(50):
        u = a / (kernel @ v)
        v = b / (kernel.T @ u)
    close(m.sinkhorn(0.1, 50, a, b, cost), u[:, None] * kernel * v)


# ── numerics ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@oracle
def nbody(m: Any, rng: np.random.Generator) -> None:
    mass, x, v = rng.random(5), rng.standard_normal((5, 3)), rng.standard_normal((5, 3))

    def acceleration(x: Any) -> Any:
        d = x - x[:, None]
        return (mass[:, None] * d / ((d**2).sum(-1) + 0.01)[..., None] ** 1.5).sum(1)

    d = x - x[:, None]
    pairs = np.triu(mass[:, None] * mass / np.sqrt((d**2).sum(-1) + 0.01), 1).sum()
    close(m.energy(1.0, 0.1, mass, x, v), 0.5 * (mass[:, None] * v**2).sum() - pairs)
    got = m.leapfrog(1.0, 0.1, 0.01, 10, mass, x, v)
    for _ in range(10):
        half = v + 0.005 * acceleration(x)
        x = x + 0.01 * half
        v = half + 0.005 * acceleration(x)
    close(got[0], x)
    close(got[1], v)


@oracle
def pagerank(m: Any, rng: np.random.Generator) -> None:
    links = (rng.random((6, 6)) < 0.4) * 1.0
    links[2] = 0
    out, rank = links.sum(1, keepdims=True), np.ones(6) / 6
    step = np.where(out > 0, links / np.maximum(out, 1), 1 / 6)
    for _ in range(20):
        rank = 0.15 / 6 + 0.85 * rank @ step
    close(m.pagerank(0.85, 20, links), rank)


@oracle
def conjugate_gradients(m: Any, rng: np.random.Generator) -> None:
    a, b = rng.standard_normal((6, 6)), rng.standard_normal(6)
    a = a @ a.T + np.eye(6)
    x, steps = m.cg(100, 1e-10, a, b)
    close(x, np.linalg.solve(a, b), 1e-7)
    assert steps < 30


@oracle
def heat(m: Any, rng: np.random.Generator) -> None:
    u = rng.standard_normal((5, 6))
    got = m.heat(0.1, 0.5, 0.9, 7, u)
    for _ in range(7):
        padded = np.pad(u, ((1, 1), (0, 0)), mode="edge")
        new = u[:, 1:-1] + 0.05 / 0.81 * (padded[:-2] + padded[2:] - 4 * u)[:, 1:-1] + 0.05 / 0.81 * (u[:, :-2] + u[:, 2:])
        u = np.concatenate([u[:, :1], new, u[:, -1:]], 1)
    close(got, u)


@oracle
def runge_kutta(m: Any, rng: np.random.Generator) -> None:
    def f(t: float, y: Any) -> Any:
        return np.array([y[1], -np.sin(y[0]) + 0.1 * np.cos(t)])

    start = y = rng.standard_normal(2)
    for i in range(10):
        t = 0.1 * i
        k1 = f(t, y)
        k2 = f(t + 0.05, y + 0.05 * k1)
        k3 = f(t + 0.05, y + 0.05 * k2)
        y = y + 0.1 / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + 0.1, y + 0.1 * k3))
    close(m.swing(0.1, 10, start), y)


@oracle
def euler(m: Any, rng: np.random.Generator) -> None:
    start = y = rng.standard_normal((2, 3))
    for i in range(10):
        y = y + 0.1 * (-0.5 * y * np.cos(0.1 * i))
    close(m.solved(0.1, 10, start), y)
    close(m.solved(0.1, 10, float(start[0, 0])), y[0, 0], 1e-5)


# ── other things ────────────────────────────────────────────────────────────────────────────────────────────────────────


@oracle
def edit_distance(m: Any, rng: np.random.Generator) -> None:
    for _ in range(10):
        a, b = (rng.integers(0, 3, rng.integers(0, 8)).astype(np.int32) for _ in range(2))
        d = np.add.outer(np.arange(len(a) + 1), np.arange(len(b) + 1))
        for i, j in product(range(len(a)), range(len(b))):
            d[i + 1, j + 1] = min(d[i, j + 1] + 1, d[i + 1, j] + 1, d[i, j] + (a[i] != b[j]))
        assert m.distance(a, b) == d[-1, -1]


@oracle
def beam_search(m: Any, rng: np.random.Generator) -> None:
    logp = np.log(rng.dirichlet(np.ones(5), size=5)).astype(np.float32)
    beams: list[tuple[tuple[int, ...], float]] = [((), 0.0)]
    for _ in range(4):
        grown = [((*s, w), score + logp[s[-1] if s else 2, w]) for s, score in beams for w in range(5)]
        beams = sorted(grown, key=lambda beam: -beam[1])[:3]
    tokens, scores = m.beam_search[3, 4](logp, 2)
    assert [tuple(row) for row in tokens] == [s for s, _ in beams]
    close(scores, [score for _, score in beams], 1e-5)


@oracle
def black_scholes(m: Any, rng: np.random.Generator) -> None:
    spot = np.linspace(80, 120, 5)
    below = np.vectorize(lambda x: 0.5 * (1 + erf(x / 2**0.5)))

    def price(s: Any, k: float, r: float, sigma: float, t: float) -> Any:
        d = (np.log(s / k) + (r + 0.5 * sigma**2) * t) / (sigma * t**0.5)
        return s * below(d) - k * np.exp(-r * t) * below(d - sigma * t**0.5)

    at = [spot, 100.0, 0.05, 0.2, 1.5]
    found = m.call(*at)
    close(found["price"], price(*at), 1e-6)
    for place, name, sign in ((0, "delta", 1), (3, "vega", 1), (2, "rho", 1), (4, "theta", -1)):
        up, down = ([x + e if n == place else x for n, x in enumerate(at)] for e in (1e-5, -1e-5))
        close(found[name], sign * (price(*up) - price(*down)) / 2e-5, 1e-4)
    close(found["gamma"], (price(spot + 0.01, *at[1:]) - 2 * price(*at) + price(spot - 0.01, *at[1:])) / 1e-4, 1e-4)
