"""`infer` against what can be computed exactly: Kalman's filter, the forward algorithm, integrals over grids. Keys are fixed."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

import axon
from tests.library.library_case import Array

# ── particle filters: infer.particle_filter, infer.bootstrap ─────────────────────────────────────────────────────────────

FILTERS = """
import infer
import random

val root = 0.9189385332046727
fun log_normal (x : f64) mean scale = let val z = (x - mean) / scale in -0.5 * z * z - log scale - cast f64 root end

(* x walks by 0.9 x + 0.5 e from a start that is normal, and is seen with noise 0.7. *)
fun walk {keys, n} (y : f64[t]) (seed : u32[2]) =
  let fun step (t : i32) key i (x : f64[1]) = for j => 0.9 * x[j] + 0.5 * random.normal key i
      fun seen (t : i32) (x : f64[1]) = log_normal y[t] x[0] 0.7
      fun one key =
        let val start = for i < n, j < 1 => random.normal (random.split key 0) i
        in infer.particle_filter {t} (infer.bootstrap step seen) (fn x => x) start (random.split key 1) end
  in for k < keys => one (random.split seed k) end

(* The same, guided by the best proposal that there is: x given the last x and y. *)
fun guided {keys, n} (y : f64[t]) (seed : u32[2]) =
  let fun move (t : i32) key (i : i32) (x : f64[1]) =
        let val gain = 0.25 / (0.25 + 0.49)
            val mean = 0.9 * x[0]
            val next = for j < 1 => mean + gain * (y[t] - mean) + sqrt (gain * 0.49) * random.normal key i
        in (next, log_normal y[t] mean (sqrt (0.25 + 0.49))) end
      fun one key =
        let val start = for i < n, j < 1 => random.normal (random.split key 0) i
        in infer.particle_filter {t} move (fn x => x) start (random.split key 1) end
  in for k < keys => one (random.split seed k) end

(* A hidden Markov chain, whose state is a number of the rows of `next`. *)
fun hidden {keys, n} (next : f64[s, s]) (means : f64[s]) (y : f64[t]) (seed : u32[2]) =
  let fun step (t : i32) key i (x : f64[1]) =
        let val state = cast i32 x[0] in for j < 1 => cast f64 (random.categorical (for k => log next[state, k]) key i) end
      fun seen (t : i32) (x : f64[1]) = log_normal y[t] means[cast i32 x[0]] 1.0
      fun share (x : f64[1]) = for k < s => if cast i32 x[0] = k then 1.0 else (0.0 : f64)
      fun one key =
        infer.particle_filter {t} (infer.bootstrap step seen) share (for i < n, j < 1 => 0.0) (random.split key 1)
  in for k < keys => one (random.split seed k) end
"""
KEYS = 24


@cache
def filters() -> axon.Module:
    return axon.compile(FILTERS)


def observed(steps: int) -> Array:
    rng = np.random.default_rng(3)
    x, y = rng.normal(), []
    for _ in range(steps):
        x = 0.9 * x + 0.5 * rng.normal()
        y.append(x + 0.7 * rng.normal())
    return np.array(y)


def kalman(y: Array) -> tuple[float, Array]:
    mean, variance, evidence, means = 0.0, 1.0, 0.0, []
    for value in y:
        mean, variance = 0.9 * mean, 0.81 * variance + 0.25
        evidence += stats.norm.logpdf(value, mean, np.sqrt(variance + 0.49))
        gain = variance / (variance + 0.49)
        mean, variance = mean + gain * (value - mean), variance * (1 - gain)
        means.append(mean)
    return float(evidence), np.array(means)


def unbiased(found: dict[str, Any], evidence: float, means: Array) -> float:
    """The evidence's exponential is right in the mean, and so are filtered means; how much the evidence varies."""
    ratio = np.exp(found["evidence"] - evidence)
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(len(ratio))
    np.testing.assert_allclose(found["evidences"].sum(1), found["evidence"])
    error = found["means"].std(0, ddof=1) / np.sqrt(len(ratio))
    assert (abs(found["means"].mean(0) - means) < 5 * error + 0.02).all()
    return float(np.std(found["evidence"]))


def test_evidence_is_that_of_kalmans_filter() -> None:
    y = observed(12)
    evidence, means = kalman(y)
    blind = unbiased(filters().walk[KEYS, 100](y, np.array([0, 5], np.uint32), target="interpret"), evidence, means[:, None])
    guided = unbiased(filters().guided[KEYS, 100](y, np.array([0, 6], np.uint32), target="interpret"), evidence, means[:, None])
    assert guided < 0.8 * blind < 0.8


def test_evidence_is_that_of_the_forward_algorithm() -> None:
    y = observed(10) * 2
    following, means = np.array([[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.0, 0.4, 0.6]]), np.array([-2.0, 0.0, 2.0])
    shares, evidence, filtered = np.array([1.0, 0, 0]), 0.0, []
    for value in y:
        joint = shares @ following * stats.norm.pdf(value, means)
        evidence += float(np.log(joint.sum()))
        shares = joint / joint.sum()
        filtered.append(shares)
    found = filters().hidden[KEYS, 100](following, means, y, np.array([0, 7], np.uint32), target="interpret")
    assert unbiased(found, evidence, np.array(filtered)) < 1


def test_an_observation_that_cannot_be() -> None:
    """The evidence says so, and nothing becomes NaN."""
    y = observed(4)
    y[2] = np.inf
    found = filters().walk[2, 10](y, np.array([0, 5], np.uint32), target="interpret")
    assert (found["evidence"] == -np.inf).all()
    assert not np.isnan(found["means"]).any()


# ── Hamiltonian Monte Carlo: infer.sampled is made of infer.moved and infer.learned; infer.hmc, infer.chees, infer.without ──

CHAINS = """
import infer
import random

(* Rubin's eight schools, not centered, and beside them a normal vector that is correlated, of several scales. *)
fun density (y : f64[8]) (sigma : f64[8]) (p : f64[3, 3]) (u : f64[13]) =
  let val (mu, tau) = (u[8], exp u[9])
      val prior = -0.5 * (mu / 5.0) ** 2.0 - log1p ((tau / 5.0) ** 2.0) + u[9] - 0.5 * sum for j < 8 => u[j] ** 2.0
      val data = -0.5 * sum for j < 8 => ((y[j] - mu - tau * u[j]) / sigma[j]) ** 2.0
      val normal = -0.5 * sum for i < 3, j < 3 => u[10 + i] * p[i, j] * u[10 + j]
  in prior + data + normal end
fun run {steps} y sigma p length target rate warmup (u : f64[c, 13]) key =
  infer.sampled {steps} (value_and_grad (density y sigma p)) target rate warmup 0 u (infer.untuned {13, 0} length) key
fun dense {steps} y sigma p length target rate warmup (u : f64[c, 13]) key =
  infer.sampled {steps} (value_and_grad (density y sigma p)) target rate warmup 0 u (infer.untuned {13, 13} length) key

fun one (u : 'a[2]) = -0.5 * (u[0] ** 2.0 + (u[1] / 10.0) ** 2.0)
fun hmc {warmup, draws} (u : f64[c, 2]) key = infer.hmc {warmup, draws} one 2.0 u key
fun chees {warmup, draws} (u : f64[c, 2]) key = infer.chees {warmup, draws} one u key
fun either {steps} length target rate warmup (u : f64[c, 2]) key =
  infer.sampled {steps} (value_and_grad one) target rate warmup 0 u (infer.untuned {2, 0} length) key
fun later {steps, d} warmup first (u : f64[c, 2]) tuning key =
  infer.sampled {steps} (value_and_grad one) 0.8 0.0 warmup first u tuning key
fun scattered (u : 'a[c, 2]) key = infer.scattered (value_and_grad (fn u => if u[0] > 0.0 then log u[0] else -inf)) u key
fun narrow (u : 'a[2]) = -0.5 * ((u[0] / 0.001) ** 2.0 + ((u[1] - u[0]) / 0.01) ** 2.0)
fun to_narrow (u : 'a[c, 2]) = infer.begun (value_and_grad narrow) (for i => infer.climbed (value_and_grad narrow) u[i, ..])
fun funnel (u : 'a[9]) = -0.5 * ((u[0] / 3.0) ** 2.0 + sum j => if j > 0 then exp (-u[0]) * u[j] ** 2.0 + u[0] else 0.0)
fun to_funnel (u : 'a[c, 9]) = infer.begun (value_and_grad funnel) (for i => infer.climbed (value_and_grad funnel) u[i, ..])
fun to_wall (u : 'a[c, 1]) =
  for i => infer.climbed (value_and_grad (fn v => if v[0] > 0.0 then log v[0] - v[0] else -inf)) u[i, ..]
fun walls (u : 'a[c, 1]) key =
  let val start = infer.begun (value_and_grad (fn u => u[0])) u
  in infer.moved (value_and_grad (fn u => if u[0] > 1.0 then -inf else u[0])) 1.0 [| 1.0 |] [| [| 1.0 |] |] 1 start key end
"""
Y, SIGMA = np.array([28.0, 8, -3, 7, -1, 1, 18, 12]), np.array([15.0, 10, 16, 11, 9, 11, 10, 18])
COVARIANCE = np.array([[1.0, 0.95, 0.0], [0.95, 1.0, 0.3], [0.0, 0.3, 1.0]]) * np.outer([1e-3, 1, 50], [1e-3, 1, 50])


@cache
def chains() -> axon.Module:
    return axon.compile(CHAINS)


def schools() -> tuple[float, float, float, float]:
    """The means of mu and tau and their deviations: without the schools, two numbers are left to integrate over."""
    mu, log_tau = np.linspace(-25, 35, 601), np.linspace(-9, 5.5, 1451)
    m, t = np.meshgrid(mu, log_tau, indexing="ij")
    tau = np.exp(t)
    density = stats.norm.logpdf(m, 0, 5) + stats.halfcauchy.logpdf(tau, 0, 5) + t
    density += sum(stats.norm.logpdf(y, m, np.sqrt(s**2 + tau**2)) for y, s in zip(Y, SIGMA, strict=True))
    weight = np.exp(density - density.max())
    weight /= weight.sum()
    means = [float((weight * x).sum()) for x in (m, tau)]
    return (*means, *(float(np.sqrt((weight * (x - mean) ** 2).sum())) for x, mean in zip((m, tau), means, strict=True)))


@pytest.mark.parametrize("method", ["hmc", "chees", "dense"])
def test_moments(method: str) -> None:
    """Means within 4 Monte Carlo errors, deviations within 10%; the metric, the step and the length are found."""
    warmup, draws = 300, 500
    count = {"hmc": 4, "chees": 8, "dense": 8}[method]
    settings = {"hmc": (2.0, 0.8, 0.0)}.get(method, (1.0, 0.651, 0.025))
    start = np.random.default_rng(1).uniform(-2, 2, (count, 13))
    start[:, 10] *= 1e-3
    start[:, 12] *= 25 if method == "dense" else 1
    found = (chains().dense if method == "dense" else chains().run)[warmup + draws](
        Y, SIGMA, np.linalg.inv(COVARIANCE), *settings, np.int32(warmup), start, np.array([0, 1], np.uint32), target="cpu"
    )
    u = found["draws"][warmup:]
    mu, tau, mu_scale, tau_scale = schools()
    wanted = [(u[..., 8], mu, mu_scale), (np.exp(u[..., 9]), tau, tau_scale)]
    wanted += [(u[..., 10 + j], 0.0, np.sqrt(COVARIANCE[j, j])) for j in range(3)]
    for x, mean, scale in wanted:
        parts = x.reshape(10, -1, count).mean((1,))  # of a chain, ten parts that hardly depend on each other
        error = parts.std(ddof=1) / np.sqrt(parts.size)
        assert abs(x.mean() - mean) < 4 * error < scale
        assert abs(x.std() / scale - 1) < 0.1
    assert np.corrcoef(u[..., 10].ravel(), u[..., 11].ravel())[0, 1] == pytest.approx(0.95, abs=0.02)
    assert found["diverging"][warmup:].mean() < 0.01
    assert 0.7 < found["chance"][warmup:].mean() < 0.99
    small, _, large = found["tuning"]["scale"][10:]
    assert large > 1000 * small
    if method == "dense":
        root = found["tuning"]["root"]
        np.testing.assert_allclose(np.diag(root @ root.T), 1)
        assert (root @ root.T)[10, 11] == pytest.approx(0.95, abs=0.05)
        assert found["steps"][warmup:].mean() < 30  # a diagonal metric takes 110


def test_methods_are_one_sampler() -> None:
    """hmc and chees are `sampled` with their settings, without the warm-up; chunks of it are the whole."""
    key, u = np.array([0, 3], np.uint32), np.ones((3, 2))
    m = chains()
    for name, settings in {"hmc": (2.0, 0.8, 0.0), "chees": (1.0, 0.651, 0.025)}.items():
        whole = m.either[7](*settings, np.int32(4), u, key, target="interpret")
        part = getattr(m, name)[4, 3](u, key, target="interpret")
        for field in ("draws", "density", "chance", "energy", "diverging", "steps"):
            np.testing.assert_array_equal(part[field], whole[field][4:])
    whole = m.either[25](2.0, 0.8, 0.0, np.int32(22), u, key, target="interpret")
    begin = m.either[7](2.0, 0.8, 0.0, np.int32(22), u, key, target="interpret")
    end = m.later[18, 2](np.int32(22), np.int32(7), begin["draws"][-1], begin["tuning"], key, target="interpret")
    np.testing.assert_allclose(np.concatenate([begin["draws"], end["draws"]]), whole["draws"], rtol=1e-12)
    assert (whole["tuning"]["scale"] != 1).all()


def test_starts_and_walls() -> None:
    """`scattered` tries until the density is finite; a move to where it is not is refused and counted."""
    m = chains()
    start = m.scattered(np.zeros((50, 2)), np.array([0, 3], np.uint32), target="interpret")
    assert (start["u"][:, 0] > 0).all()
    assert (abs(start["u"]) <= 2).all()
    assert np.isfinite(start["density"]).all()
    np.testing.assert_allclose(start["slope"][:, 0], 1 / start["u"][:, 0])
    u = np.linspace(-3, 1, 40)[:, None]
    moved = m.walls(u, np.array([0, 3], np.uint32), target="interpret")
    outside = moved["proposed"][:, 0] > 1
    assert 0 < outside.sum() < 40
    np.testing.assert_array_equal(moved["diverging"], outside)
    assert (moved["chance"][outside] == 0).all()
    np.testing.assert_array_equal(moved["chains"]["u"][outside], u[outside])
    assert (moved["chains"]["u"] <= 1).all()


def test_chains_climb_to_where_draws_are() -> None:
    """From where the density is a million lower to where a draw may be, not into the neck of a funnel; who begins well stays."""
    m, rng = chains(), np.random.default_rng(0)
    found = m.to_narrow(rng.uniform(-2, 2, (20, 2)), target="interpret")
    assert (found["density"] > -20).all()  # -1 on average of draws
    start = rng.uniform(-2, 2, (50, 9))
    found = m.to_funnel(start, target="interpret")
    assert (found["u"][:, 0] > -6).all()
    assert (found["u"][:, 0] < 6).all()
    at = np.array([[1.5], [-1.0], [1e-9]])
    found = m.to_wall(at, target="interpret")
    np.testing.assert_array_equal(found[:2], at[:2])
    assert 1e-6 < found[2, 0] < 10


# ── tempering: infer.tempered ────────────────────────────────────────────────────────────────────────────────────────────

TEMPERED = """
import infer
import random

fun log_normal (x : f64) mean scale = let val z = (x - mean) / scale in -0.5 * z * z - log scale - 0.9189385332046727 end
fun run {keys, n} (y : f64[d]) (noise : f64) (stages : i32) (seed : u32[2]) =
  let fun one key =
        let val start = for i < n, j < d => random.normal (random.split key 0) (cast i64 i * cast i64 d + cast i64 j)
            fun prior (u : f64[d]) = sum j => log_normal u[j] 0.0 1.0
            fun likelihood (u : f64[d]) = sum j => if u[j] > 4.0 then -inf else log_normal y[j] u[j] noise
        in infer.tempered prior likelihood 3 stages start (random.split key 1) end
  in for k < keys => one (random.split seed k) end
"""


@cache
def tempering() -> axon.Module:
    return axon.compile(TEMPERED)


def test_tempered_particles_have_the_evidence_and_the_posterior_of_normal_numbers() -> None:
    """Eight deviations away from where they begin; what is 4 and more, a posterior chance of 1e-15, is impossible."""
    y, noise, keys = np.array([1.0, -4.0, 0.5]), 0.3, 24
    found = tempering().run[keys, 200](y, noise, np.int32(50), np.array([0, 5], np.uint32), target="interpret")
    ratio = np.exp(found["evidence"] - stats.norm.logpdf(y, 0, np.hypot(1, noise)).sum())
    assert abs(ratio.mean() - 1) < 4 * ratio.std(ddof=1) / np.sqrt(keys) < 0.5
    assert (found["exponent"] == 1).all()
    assert (found["stages"] > 3).all()
    means, scale = y / (1 + noise**2), noise / np.hypot(1, noise)
    error = found["draws"].mean(1).std(0, ddof=1) / np.sqrt(keys)
    assert (abs(found["draws"].mean((0, 1)) - means) < 4 * error).all()
    np.testing.assert_allclose(found["draws"].std((0, 1)), scale, rtol=0.1)
    wanted = stats.norm.logpdf(y, found["draws"], noise).sum(-1)
    np.testing.assert_allclose(found["likelihood"], wanted)


def test_tempering_that_cannot_end() -> None:
    """Stages that are too few are told by the exponent; an impossible observation by the evidence."""
    key = np.array([0, 5], np.uint32)
    found = tempering().run[2, 50](np.array([-4.0]), 0.1, np.int32(2), key, target="interpret")
    assert ((found["exponent"] > 0) & (found["exponent"] < 1)).all()
    found = tempering().run[2, 50](np.array([np.inf]), 0.1, np.int32(50), key, target="interpret")
    assert (found["evidence"] == -np.inf).all()
    assert np.isfinite(found["draws"]).all()
