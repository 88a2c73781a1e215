"""The examples of examples/chance: what they print is so, by SciPy, the forward algorithm, integrals over a grid and what was left
out."""

from __future__ import annotations

import importlib
import sys
from typing import Any

import numpy as np
import pytest
from scipy import stats

import axon
from tests import ROOT
from tests.sample import SOAK

FOLDER = ROOT / "examples" / "chance"


def example(name: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(FOLDER))
    sys.modules.pop("shown", None)
    return importlib.import_module(name)


def test_the_nile(monkeypatch: pytest.MonkeyPatch) -> None:
    m = example("nile", monkeypatch)
    share, evidence = m.fallen(4000, seed=1, target="interpret")
    chance, total, wanted = np.array([1.0, 0.0]), 0.0, []
    for flow in m.FLOW:
        chance = np.array([chance[0] * (1 - m.FALL), chance[0] * m.FALL + chance[1]])
        chance = chance * stats.norm.pdf(flow, m.LEVELS, m.SPREAD)
        total += np.log(chance.sum())
        chance = chance / chance.sum()
        wanted.append(chance[1])
    np.testing.assert_allclose(share, wanted, atol=0.1)
    assert evidence == pytest.approx(total, abs=0.5)
    picture = m.over_years(m.YEARS, m.FLOW, share)
    assert picture.count("<circle") == len(m.FLOW)


def test_batting_averages(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density is SciPy's. In the soak: what is inferred is nearer to the rest of the season than 45 times at bat are."""
    m = example("batting", monkeypatch)
    apart = np.linspace(-1, 2, 18)
    at = {"mu": -1.2, "tau": 0.3, "apart": apart}
    found = axon.load(FOLDER / "batting.axon").batting.log_density(np.full(18, 45, np.int32), m.HITS, at, target="interpret")
    wanted = stats.norm.logpdf(-1.2, -1, 1) + stats.halfnorm.logpdf(0.3, 0, 0.5) + stats.norm.logpdf(apart).sum()
    wanted += stats.binom.logpmf(m.HITS, 45, 1 / (1 + np.exp(1.2 - 0.3 * apart))).sum()
    assert float(found) == pytest.approx(wanted)
    assert m.intervals(list(m.PLAYERS), np.stack([m.REST, m.REST + 0.1]), m.REST).count("<text") == 18 + 2
    if SOAK:
        assert m.error(m.averages(key=1).mean(0)) < 0.75 * m.error(m.HITS / 45)


def test_schools(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean of all effects, which is that of mu, by integrals over mu and tau."""
    pytest.importorskip("arviz")
    m = example("schools", monkeypatch)
    mu, tau = np.meshgrid(np.linspace(-20, 30, 201), np.linspace(0.01, 60, 600), indexing="ij")
    density = stats.norm.logpdf(mu, 0, 5) + stats.halfcauchy.logpdf(tau, 0, 5)
    density += sum(stats.norm.logpdf(y, mu, np.hypot(s, tau)) for y, s in zip(m.Y, m.SIGMA, strict=True))
    weight = np.exp(density - density.max())
    first = (m.Y[0] / m.SIGMA[0] ** 2 + mu / tau**2) / (1 / m.SIGMA[0] ** 2 + 1 / tau**2)
    draws = m.effects(method="hmc", chains=4, draws=60, warmup=100, target="interpret")
    assert draws[:, 0].mean() == pytest.approx((weight * first).sum() / weight.sum(), abs=2.0)


def test_warming(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density is SciPy's, and the bands are those of the normal distribution given what is known, from its whole covariance."""
    m = example("warming", monkeypatch)
    x, y, at = m.decades(m.YEARS[:24:3]), m.CELSIUS[:24:3], m.decades(m.YEARS[1:24:5])
    reach, height, noise = np.array([1.5, 3.0]), np.array([0.4, 0.9]), np.array([0.1, 0.3])

    def covariance(a: Any, b: Any, n: int) -> Any:
        return height[n] ** 2 * np.exp(-0.5 * ((a[:, None] - b) / reach[n]) ** 2)

    program = axon.load(FOLDER / "warming.axon")
    known = covariance(x, x, 0) + noise[0] ** 2 * np.eye(len(x))
    wanted = stats.multivariate_normal(np.zeros(len(x)), known).logpdf(y) + stats.invgamma(5, scale=10).logpdf(1.5)
    wanted += stats.halfnorm(0, 1).logpdf(0.4) + stats.halfnorm(0, 0.5).logpdf(0.1)
    found = program.warming.log_density(x, y, {"reach": 1.5, "height": 0.4, "noise": 0.1}, target="interpret")
    assert float(found) == pytest.approx(wanted)
    mean, spread = program.bands(x, y, at, reach, height, noise, target="interpret")
    for n in range(2):
        known = covariance(x, x, n) + noise[n] ** 2 * np.eye(len(x))
        across = covariance(at, x, n) @ np.linalg.inv(known)
        left = covariance(at, at, n) + noise[n] ** 2 * np.eye(len(at)) - across @ covariance(x, at, n)
        np.testing.assert_allclose(mean[n], across @ y, rtol=1e-8, atol=1e-10)
        np.testing.assert_allclose(spread[n], np.sqrt(np.diag(left)), rtol=1e-8)
    new = np.array([m.CELSIUS - 1, m.CELSIUS + 1])
    assert (m.inside(new), m.inside(new + 2)) == (1, 0)
    assert m.bands(m.YEARS, m.CELSIUS, m.KNOWN, new).count("<circle") == len(m.YEARS) == len(m.CELSIUS)
    if SOAK:
        assert 0.82 < m.inside(m.predicted(m.latents(key=1, chains=4, draws=250, warmup=250), 200)) < 0.98


def test_the_pound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Deviations and evidence are those of the forward algorithm over a grid of what the logarithm of the variance may be."""
    m = example("pound", monkeypatch)
    months, change = m.changes()
    count = [int(year) * 12 + int(month) for year, month in (text.split("-") for text in months)]
    assert np.all(np.diff(count) == 1)
    change = change[:48]
    stays, level = 0.9, np.log(np.var(change)) - m.WIDE**2 / 2
    h = np.linspace(level - 5, level + 5, 400)
    step = stats.norm(level + stays * (h - level), m.WIDE * np.sqrt(1 - stays**2)).pdf(h[:, None]) * (h[1] - h[0])
    share, total, wanted = stats.norm(level, m.WIDE).pdf(h) * (h[1] - h[0]), 0.0, []
    for now in change:
        share = step @ share * stats.norm(0, np.exp(h / 2)).pdf(now)
        total += np.log(share.sum())
        share = share / share.sum()
        wanted.append(np.exp(h / 2) @ share)
    deviation, evidence = m.volatility(change, stays, 4000, seed=1, target="interpret")
    np.testing.assert_allclose(deviation, wanted, rtol=0.1)
    assert evidence == pytest.approx(total, abs=0.5)
    assert m.constant(change) == pytest.approx(stats.norm(0, change.std()).logpdf(change).sum())


def test_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The density is SciPy's. In the soak: what the documentation says of both kinds of weights."""
    pytest.importorskip("sklearn")
    m = example("network", monkeypatch)
    x, y, others, labels = m.digits()
    assert (x.shape, others.shape) == ((m.KNOWN, 16), (450, 16))
    draw = np.random.default_rng(5)
    shapes = {"into": ((16, 8), 5.0), "shift": (8, 1.0), "out": ((8, 10), 10.0), "usual": (10, 1.0)}
    at = {name: draw.normal(0, 0.3 * wide, shape).astype(np.float32) for name, (shape, wide) in shapes.items()}
    score = at["usual"] + np.tanh(at["shift"] + x[:9] @ at["into"]) @ at["out"]
    share = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    wanted = np.log(share[np.arange(9), y[:9]]).sum()
    wanted += sum(stats.norm(0, wide).logpdf(at[name]).sum() for name, (_, wide) in shapes.items())
    found = axon.load(FOLDER / "network.axon").network.log_density(x[:9], y[:9], at, target="interpret")
    assert float(found) == pytest.approx(wanted, rel=1e-5)
    np.testing.assert_allclose(m.chances([at], x[:9], target="interpret"), share, rtol=1e-4, atol=1e-6)
    sure = np.array([[0.9, 0.1], [0.9, 0.1], [0.3, 0.7], [0.45, 0.55]])
    right, surprise, error = m.judged(sure, np.array([0, 1, 1, 1]))
    assert (right, error) == (0.75, pytest.approx((0.8 + 0.3 + 0.45) / 4))
    assert surprise == pytest.approx(-np.log([0.9, 0.1, 0.7, 0.55]).mean())
    assert m.reliability({"a": sure, "b": sure}, np.array([0, 1, 1, 1])).count("<circle") == 6
    if SOAK:
        best, drawn = (m.judged(m.chances(m.weights(x, y, **how), others), labels) for how in (m.BEST, m.DRAWN))
        assert drawn[1] < best[1]  # of this prior, chosen for it; see docs/inference.md
