"""The examples of examples/chance: what they print is so, by the forward algorithm, integrals over a grid and the season's rest."""

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
