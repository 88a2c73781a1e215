"""Random numbers have the bits of JAX's and the distributions of their names.

Keys are fixed, so that nothing here is left to chance. AXON_SOAK=1 draws many more numbers, from several keys.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import axon
from axon.checker.loader import stdlib_root
from tests.library.library_case import Array
from tests.oracle.soak import emulation

SOAK = bool(os.environ.get("AXON_SOAK"))
TARGETS = ("interpret", "cpu")
TARGET = "cpu" if SOAK else "interpret"  # it compiles what is then drawn a hundred times as often
DRAWS = 1_000_000 if SOAK else 20_000
SEEDS = range(6) if SOAK else range(1)
TABLE = json.loads(Path(__file__).with_name("jax_random.json").read_text(encoding="utf-8"))

BITS = """
import random
fun words (key : u32[2]) (at : i64[m]) =
  (for i => random.bits key at[i], for i => random.bits64 key at[i], for i => random.split key at[i],
   for i => random.fold_in key at[i], for i => random.randint 0 (6000000000000000000 : i64) key at[i])
fun floats {n} (key : u32[2]) : (f64[n], f32[n], f16[n], bf16[n], f32[n], bool[n]) =
  (for i < n => random.uniform key i, for i < n => random.uniform key i, for i < n => random.uniform key i,
   for i < n => random.uniform key i, for i < n => random.uniform_between (-3.0) 5.0 key i,
   for i < n => random.bernoulli (0.3 : f32) key i)
fun logs {n} (key : u32[2]) : (f64[n], f32[n], f32[n]) =
  (for i < n => random.normal key i, for i < n => random.normal key i, for i < n => random.exponential key i)
"""


@cache
def compiled(source: str) -> axon.Module:
    return axon.compile(source)


@pytest.mark.parametrize("target", TARGETS)
def test_bits_of_jax(target: str) -> None:
    """Bits, keys and uniform numbers are equal, also for counters and seeds beyond 32 bits."""
    m, random = compiled(BITS), axon.load(stdlib_root() / "random.axon")
    for row in TABLE["rows"]:
        key = np.array(row["key"], np.uint32)
        np.testing.assert_array_equal(random.key(np.int64(row["seed"])), key)
        bits, bits64, split, _, _ = m.words(key, np.array([0, 1, 2, 77, 1000000]), target=target)
        assert bits.tolist() == row["bits"]
        assert bits64[:4].tolist() == row["bits64"]
        assert split[:3].tolist() == row["split"]
        far = np.array([0, 2**32 - 1, 2**32, 2**40 + 5, -1])
        assert m.words(key, far, target=target)[2].tolist() == row["block"]
        assert m.words(key, np.array([0, 1, 123456789, 2**32 - 1]), target=target)[3].tolist() == row["fold_in"]
        *uniform, between, true = m.floats[8](key, target=target)
        for name, dtype, got in zip(
            ("f64", "f32", "f16", "bf16"), (np.uint64, np.uint32, np.uint16, np.uint16), uniform, strict=True
        ):
            assert got[:4].view(dtype).tolist() == row[f"uniform_{name}"], name
        assert between[:4].tolist() == row["between"]
        assert true.tolist() == row["bernoulli"]


def test_numbers_of_jax() -> None:
    """What goes through functions is as near as JAX's polynomials are: its f32 normals are exact to 6e-6 of a number, its f64
    ones to 8e-13."""
    for row in TABLE["rows"]:
        double, single, exponential = compiled(BITS).logs[4](np.array(row["key"], np.uint32), target="interpret")
        np.testing.assert_allclose(double, row["normal_f64"], rtol=8e-13)
        np.testing.assert_allclose(single, row["normal_f32"], rtol=6e-6)
        np.testing.assert_allclose(exponential, row["exponential"], rtol=5e-7)


def same(results: list[tuple[Array, ...]]) -> None:
    for one, other in zip(*results, strict=True):
        assert one.dtype == other.dtype
        assert one.tobytes() == other.tobytes()


def test_same_bits_on_every_target() -> None:
    """Of many counters; a fifth of the integers is drawn a second time, or more often."""
    m, key = compiled(BITS), np.array([7, 8], np.uint32)
    at = np.random.default_rng(0).integers(-(2**63), 2**63, 500)
    same([m.words(key, at, target=t) for t in TARGETS])
    same([m.floats[500](key, target=t) for t in TARGETS])


def test_same_bits_on_an_emulated_gpu() -> None:
    m, key = compiled(BITS), np.array([7, 8], np.uint32)
    at = np.array([0, 1, 5, -1, 2**32, 2**50])
    with emulation():
        same([m.words(key, at, target=t) for t in ("interpret", "cuda")])
        same([m.floats[6](key, target=t) for t in ("interpret", "cuda")])


# ── distributions ───────────────────────────────────────────────────────────────────────────────────────────────────────

CONTINUOUS: dict[str, tuple[str, Any]] = {
    "uniform": ("(random.uniform key i : f32)", stats.uniform()),
    "uniform in f64": ("(random.uniform key i : f64)", stats.uniform()),
    "uniform between": ("random.uniform_between (-2.0) 1.5 key i", stats.uniform(-2, 3.5)),
    "normal": ("(random.normal key i : f32)", stats.norm()),
    "normal in f64": ("(random.normal key i : f64)", stats.norm()),
    "truncated": ("random.truncated_normal (-0.5) 2.0 key i", stats.truncnorm(-0.5, 2)),
    "truncated, all": ("random.truncated_normal (-inf) inf key i", stats.norm()),
    "truncated tail": ("random.truncated_normal 6.0 inf key i", stats.truncnorm(6, np.inf)),
    "truncated left tail": ("random.truncated_normal (-3.0) (-1.2) key i", stats.truncnorm(-3, -1.2)),
    "exponential": ("(random.exponential key i : f32)", stats.expon()),
    "gumbel": ("(random.gumbel key i : f32)", stats.gumbel_r()),
    "gamma 0.3": ("random.gamma 0.3 key i", stats.gamma(0.3)),
    "gamma 1": ("random.gamma 1.0 key i", stats.gamma(1)),
    "gamma 7.5": ("random.gamma (7.5 : f64) key i", stats.gamma(7.5)),
    "gamma 10000": ("random.gamma 10000.0 key i", stats.gamma(10000)),
    "log gamma": ("random.log_gamma 0.01 key i", stats.loggamma(0.01)),
    "beta": ("random.beta 0.5 2.5 key i", stats.beta(0.5, 2.5)),
    "dirichlet": ("(random.dirichlet [| 0.5, 1.5, 3.0 |] key i)[1]", stats.beta(1.5, 3.5)),
}
DISCRETE: dict[str, tuple[str, Any]] = {
    "bernoulli": ("(if random.bernoulli (0.3 : f32) key i then 1 else 0)", stats.bernoulli(0.3)),
    "categorical": ("random.categorical [| 0.0, -1.0, -inf, 1.5 |] key i", None),
    "randint": ("random.randint (-3) 10 key i", stats.randint(-3, 10)),
    "poisson 0.2": ("random.poisson 0.2 key i", stats.poisson(np.float32(0.2))),
    "poisson 9.5": ("random.poisson 9.5 key i", stats.poisson(9.5)),
    "poisson 10": ("random.poisson 10.0 key i", stats.poisson(10)),
    "poisson 1000": ("random.poisson 1000.0 key i", stats.poisson(1000)),
    "binomial 20": ("random.binomial 20 (0.25 : f64) key i", stats.binom(20, 0.25)),
    "binomial 12": ("random.binomial 12 (0.75 : f64) key i", stats.binom(12, 0.75)),
    "binomial 50": ("random.binomial 50 (0.5 : f64) key i", stats.binom(50, 0.5)),
    "binomial 5000": ("random.binomial 5000 (0.9 : f64) key i", stats.binom(5000, 0.9)),
    "permutation": ("(let val p = random.permutation {4} key i in p[0] + 4 * p[1] + 16 * p[2] end)", None),
}
LEAST = 1e-3 / len(SEEDS) / (len(CONTINUOUS) + len(DISCRETE))  # Bonferroni


def numbers(call: str, seed: int, n: int = DRAWS) -> Array:
    module = compiled(f"import random\nfun f {{n}} (key : u32[2]) = for i < n => {call}")
    found: Array = module.f[n](np.array([seed, 1701], np.uint32), target=TARGET)
    return found


@pytest.mark.parametrize("name", CONTINUOUS)
def test_distribution(name: str) -> None:
    """The Kolmogorov-Smirnov test; mean and variance are within what their own errors allow."""
    call, law = CONTINUOUS[name]
    for seed in SEEDS:
        x = numbers(call, seed).astype(np.float64)
        assert stats.kstest(x, law.cdf).pvalue > LEAST
        mean, variance, kurtosis = (float(m) for m in law.stats("mvk"))
        assert abs(x.mean() - mean) < 4.5 * np.sqrt(variance / len(x))
        assert abs(x.var() - variance) < 4.5 * variance * np.sqrt((kurtosis + 2) / len(x))


def expected(name: str) -> Callable[[Array], Array]:
    if name == "categorical":
        weights = np.exp([0, -1, -np.inf, 1.5])
        return lambda k: np.asarray((weights / weights.sum())[k])
    if name == "permutation":
        return lambda k: np.full(len(k), 1 / 24)
    pmf: Callable[[Array], Array] = DISCRETE[name][1].pmf
    return pmf


@pytest.mark.parametrize("name", DISCRETE)
def test_frequencies(name: str) -> None:
    """The chi-square test; what is expected too seldom is counted together."""
    for seed in SEEDS:
        values, counted = np.unique(numbers(DISCRETE[name][0], seed), return_counts=True)
        wanted = DRAWS * expected(name)(values)
        assert (wanted > 0).all()  # nothing was drawn that cannot be
        often = wanted >= 10
        counts, means = counted[often], wanted[often]
        rest = DRAWS - means.sum()
        if rest >= 10:
            counts, means = np.append(counts, counted[~often].sum()), np.append(means, rest)
        else:
            means = means * counts.sum() / means.sum()
        assert stats.chisquare(counts, means).pvalue > LEAST


def test_numbers_of_large_rates() -> None:
    """Their mean and variance, where neither f32 nor an i32 would hold them."""
    for call, mean, variance in [
        ("(random.poisson (5.0e9 : f64) key i : i64)", 5e9, 5e9),
        ("random.binomial (8000000000 : i64) (0.25 : f64) key i", 2e9, 1.5e9),
    ]:
        x = numbers(call, 3, 2000).astype(np.float64) - mean
        assert abs(x.mean()) < 4.5 * np.sqrt(variance / 2000)
        assert abs(x.var() / variance - 1) < 4.5 * np.sqrt(2 / 2000)


def test_what_is_no_parameter() -> None:
    """Floats are NaN; of integers the line that the error shows says what is wrong."""
    for call in (
        "random.gamma 0.0 key i",
        "random.log_gamma (-0.5) key i",
        "random.gamma nan key i",
        "random.beta 1.0 (-1.0) key i",
        "random.truncated_normal 1.0 0.5 key i",
    ):
        assert np.isnan(numbers(call, 0, 5)).all(), call
    for call, message in (
        ("random.poisson (-1.0) key i", "the rate must be 0 or more, and finite"),
        ("random.poisson nan key i", "the rate must be 0 or more, and finite"),
        ("random.poisson inf key i", "the rate must be 0 or more, and finite"),
        ("random.binomial 3 1.5 key i", "there must be 0 or more trials, and p be between 0 and 1"),
        ("random.binomial (-3) 0.5 key i", "there must be 0 or more trials, and p be between 0 and 1"),
        ("random.binomial 3 nan key i", "there must be 0 or more trials, and p be between 0 and 1"),
        ("random.randint 3 3 key i", "low must be below high"),
        ("random.randint 3 (-3) key i", "low must be below high"),
    ):
        with pytest.raises(axon.AxonError, match=message):
            numbers(call, 0, 5)


def test_ends() -> None:
    """Of ranges as large as there are, and of parameters for which nothing is left to chance."""
    for call, want in (
        ("random.poisson 0.0 key i", 0),
        ("random.binomial 0 0.5 key i", 0),
        ("random.binomial 7 0.0 key i", 0),
        ("random.binomial 7 1.0 key i", 7),
        ("random.randint (-128 : i8) (-127) key i", -128),
        ("random.truncated_normal 2.0 2.0 key i", 2),
    ):
        assert (numbers(call, 0, 50) == want).all(), call
    x = numbers("random.randint (-9223372036854775807) (9223372036854775807 : i64) key i", 0)
    assert x.min() < -(2**62) < 2**62 < x.max()
    assert stats.kstest(x / 2**63, stats.uniform(-1, 2).cdf).pvalue > LEAST


# ── bits ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def birthday_spacings(bits: Array) -> float:
    """Marsaglia's: how many of the distances between 512 birthdays in a year of 2 ** 24 days are equal is Poisson of 2."""
    days = np.sort((bits[: len(bits) // 512 * 512] >> 8).reshape(-1, 512).astype(np.int64), -1)
    spacings = np.sort(np.diff(days, axis=-1, prepend=0), -1)
    equal = int((np.diff(spacings, axis=-1) == 0).sum())
    mean = 2.0 * len(days)
    return float(2 * min(stats.poisson.cdf(equal, mean), stats.poisson.sf(equal - 1, mean)))


def runs(bits: Array) -> float:
    """Wald and Wolfowitz's: how often two neighbours lie on different sides of the middle."""
    above = bits >= 2**31
    n, ones = len(bits), int(above.sum())
    mean = 2 * ones * (n - ones) / n + 1
    found = int((above[1:] != above[:-1]).sum()) + 1
    return float(2 * stats.norm.sf(abs(found - mean) / np.sqrt((mean - 1) * (mean - 2) / (n - 1))))


def correlation(bits: Array) -> float:
    """Of neighbours, and of those at distances that loops and blocks have."""
    x = bits.astype(np.float64)
    found = [stats.pearsonr(x[:-d], x[d:]).pvalue for d in (1, 2, 3, 7, 32, 256, 1024)]
    return float(min(1, len(found) * min(found)))


def gaps(bits: Array) -> float:
    """Knuth's: how long it takes until a number lies in one sixteenth again is geometric."""
    between = np.diff(np.flatnonzero(bits >> 28 == 3)) - 1
    counts = np.bincount(np.minimum(between, 60), minlength=61)
    law = stats.geom(1 / 16, loc=-1)
    return float(stats.chisquare(counts, len(between) * np.append(law.pmf(np.arange(60)), law.sf(59))).pvalue)


def balance(bits: Array) -> float:
    """How often each of the 32 bits is set."""
    ones = np.array([int((bits >> np.uint32(k) & 1).sum()) for k in range(32)])
    return float(stats.chi2.sf((((ones - len(bits) / 2) ** 2) / (len(bits) / 4)).sum(), 32))


def pairs(bits: Array) -> float:
    """Knuth's serial test: how often each pair of high bytes follows upon each other."""
    high = (bits >> 26).astype(np.int64)
    return float(stats.chisquare(np.bincount(high[0:-1:2] * 64 + high[1::2], minlength=64**2)).pvalue)


BATTERY = (birthday_spacings, runs, correlation, gaps, balance, pairs)
STREAMS = {
    "counters": "random.bits key i",
    "keys that are split": "random.bits (random.split key i) 0",
    "numbers folded in": "random.bits (random.fold_in (random.key i) 5) 0",
    "seeds": "random.bits (random.key i) 0",
    "strides": "random.bits key (cast i64 i * 4294967296)",
    "low words": "cast u32 (random.bits64 key i)",
}


@pytest.mark.parametrize("stream", STREAMS)
def test_battery(stream: str) -> None:
    n = 4_000_000 if SOAK else 100_000
    for seed in SEEDS if "key " in STREAMS[stream] else range(1):
        bits = numbers(STREAMS[stream], seed, n)
        for test in BATTERY:
            assert test(bits) > 1e-3 / len(BATTERY) / len(STREAMS) / len(SEEDS), test.__name__
