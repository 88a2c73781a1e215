"""Distributions by their definitions, in as many digits as are asked for, and by SciPy: what `dist` is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mpmath import mp
from scipy import special, stats

Number = Any  # of mpmath, or a float


@dataclass(frozen=True)
class Law:
    """A family of distributions of one number. The first of its parameters are ordinary ones, from which is drawn too."""

    name: str
    domain: str  # a letter for each parameter, see WRONG
    parameters: list[tuple[float, ...]]
    log_density: Callable[..., Number]  # by its definition, of a number that may be, and of parameters
    scipy: Callable[..., Any]
    support: Callable[..., tuple[float, float]] = lambda *_: (-np.inf, np.inf)
    edges: tuple[float, ...] = ()  # numbers at which the density may be looked at besides quantiles
    discrete: bool = False


LAWS: dict[str, Law] = {}

# What parameters cannot be: a number, a number or infinity, one above 0, from 0 on, from 0 to 1, above 0 and up to 1; an integer
# from 0 on, any integer.
WRONG: dict[str, tuple[float, ...]] = {
    "r": (np.nan,),
    "f": (np.nan,),
    "p": (0, -1, np.inf, np.nan),
    "n": (-1, np.inf, np.nan),
    "u": (-0.1, 1.1, np.nan),
    "v": (0, -0.1, 1.1, np.nan),
    "i": (-1,),
    "j": (),
}


def law(name: str, domain: str, parameters: list[tuple[float, ...]], log_density: Any, scipy: Any, **more: Any) -> None:
    LAWS[name] = Law(name, domain, parameters, log_density, scipy, **more)


def above_0(*_: float) -> tuple[float, float]:
    return (0, np.inf)


@cache
def log_gamma(x: Number, digits: int) -> Number:
    return mp.loggamma(x)


def lgamma(x: Number) -> Number:
    return log_gamma(x, mp.dps)


@dataclass(frozen=True)
class Folded:
    """The absolute value of what has a distribution around 0."""

    whole: Any

    def cdf(self, x: Any) -> Any:
        return 1 - 2 * self.whole.sf(x)

    def logpdf(self, x: Any) -> Any:
        return np.log(2) + self.whole.logpdf(x)

    def ppf(self, q: Any) -> Any:
        return self.whole.isf((1 - q) / 2)

    def isf(self, q: float) -> Any:
        return self.whole.isf(q / 2)


@dataclass(frozen=True)
class Kumaraswamy:
    a: float
    b: float

    def cdf(self, x: Any) -> Any:
        return -np.expm1(self.b * np.log1p(-(x**self.a)))

    def logpdf(self, x: Any) -> Any:
        return np.log(self.a * self.b) + (self.a - 1) * np.log(x) + (self.b - 1) * np.log1p(-(x**self.a))

    def ppf(self, q: Any) -> Any:
        return (-np.expm1(np.log1p(-q) / self.b)) ** (1 / self.a)

    def isf(self, q: float) -> Any:
        return (1 - q ** (1 / self.b)) ** (1 / self.a)


@dataclass(frozen=True)
class ZeroInflated:
    p: float
    rest: Any

    def pmf(self, k: Any) -> Any:
        return (k == 0) * self.p + (1 - self.p) * self.rest.pmf(k)

    def logpmf(self, k: Any) -> Any:
        return special.logsumexp([np.where(k == 0, np.log(self.p), -np.inf), np.log1p(-self.p) + self.rest.logpmf(k)], 0)

    def ppf(self, q: Any) -> Any:
        return self.rest.ppf(np.maximum(0, (q - self.p) / (1 - self.p)))

    def isf(self, q: float) -> Any:
        return self.rest.isf(q / (1 - self.p))


def log_normal(z: Number) -> Number:
    return -z * z / 2 - mp.log(2 * mp.pi) / 2


def log_between(a: Number, b: Number) -> Number:
    """The logarithm of the share of the normal distribution between two numbers."""
    low, high = (-b, -a) if a > 0 else (a, b)
    return mp.log((mp.erfc(-high / mp.sqrt(2)) - mp.erfc(-low / mp.sqrt(2))) / 2)


def log_t(z: Number, nu: Number) -> Number:
    part = lgamma((nu + 1) / 2) - lgamma(nu / 2) - mp.log(nu * mp.pi) / 2
    return part - (nu + 1) / 2 * mp.log1p(z * z / nu)


def log_gamma_density(x: Number, a: Number, rate: Number) -> Number:
    return a * mp.log(rate) - lgamma(a) + power(x, a - 1) - rate * x


def power(x: Number, a: Number) -> Number:
    """log (x ** a), also of 0 ** 0."""
    if x == 0:
        return mp.mpf(0) if a == 0 else -mp.inf * mp.sign(a)
    return a * mp.log(x)


def log_beta(a: Number, b: Number) -> Number:
    return lgamma(a) + lgamma(b) - lgamma(a + b)


TAIL = (1e-30, 1e-6, 1e4, 1e12)

law(
    "normal",
    "rp",
    [(0, 1), (-3, 2.5), (1000, 0.001), (2, 1e6)],
    lambda x, m, s: log_normal((x - m) / s) - mp.log(s),
    stats.norm,
    edges=(-1e5, 1e9),
)
law(
    "half_normal",
    "p",
    [(1,), (0.03,), (700,)],
    lambda x, s: log_normal(x / s) + mp.log(2) - mp.log(s),
    lambda s: stats.halfnorm(scale=s),
    support=above_0,
    edges=(0, 1e-30, 1e5),
)
law(
    "log_normal",
    "rp",
    [(0, 1), (1, 0.25), (-5, 3)],
    lambda x, m, s: log_normal((mp.log(x) - m) / s) - mp.log(s) - mp.log(x),
    lambda m, s: stats.lognorm(s, scale=np.exp(m)),
    support=above_0,
    edges=TAIL,
)
law(
    "student_t",
    "prp",
    [(3, 0, 1), (12.5, 1, 0.5), (0.4, -1, 2), (1e6, 0, 1), (19.9, 0, 1)],
    lambda x, n, m, s: log_t((x - m) / s, n) - mp.log(s),
    stats.t,
    edges=(-1e25, 1e4),
)
law(
    "half_student_t",
    "pp",
    [(3, 1), (50, 0.1), (1, 4)],
    lambda x, n, s: log_t(x / s, n) + mp.log(2) - mp.log(s),
    lambda n, s: Folded(stats.t(n, 0, s)),
    support=above_0,
    edges=(0, *TAIL),
)
law(
    "cauchy",
    "rp",
    [(0, 1), (3, 0.1)],
    lambda x, m, s: -mp.log(mp.pi) - mp.log(s) - mp.log1p(((x - m) / s) ** 2),
    stats.cauchy,
    edges=(-1e25, 1e5),
)
law(
    "half_cauchy",
    "p",
    [(1,), (25,)],
    lambda x, s: mp.log(2) - mp.log(mp.pi) - mp.log(s) - mp.log1p((x / s) ** 2),
    lambda s: stats.halfcauchy(scale=s),
    support=above_0,
    edges=(0, 1e25, *TAIL),
)
law(
    "laplace",
    "rp",
    [(0, 1), (1, 0.2)],
    lambda x, m, s: -abs(x - m) / s - mp.log(2 * s),
    stats.laplace,
    edges=(-1e9, 1e3),
)
law(
    "logistic",
    "rp",
    [(0, 1), (-2, 5)],
    lambda x, m, s: -(x - m) / s - mp.log(s) - 2 * mp.log1p(mp.exp(-(x - m) / s)),
    stats.logistic,
    edges=(-1e3, 0, 1e3),
)
law(
    "gumbel",
    "rp",
    [(0, 1), (4, 0.5)],
    lambda x, m, s: -(x - m) / s - mp.exp(-(x - m) / s) - mp.log(s),
    stats.gumbel_r,
    edges=(-5, 1e4),
)
law(
    "exponential",
    "p",
    [(1,), (50,), (1e-4,)],
    lambda x, r: mp.log(r) - r * x,
    lambda r: stats.expon(scale=1 / r),
    support=above_0,
    edges=(0, *TAIL),
)
law(
    "gamma",
    "pp",
    [(2, 1), (1, 3), (0.3, 0.5), (9.9, 2), (15, 4), (1e6, 10)],
    log_gamma_density,
    lambda a, r: stats.gamma(a, scale=1 / r),
    support=above_0,
    edges=TAIL,
)
law(
    "inverse_gamma",
    "pp",
    [(3, 1), (0.5, 2), (30, 4), (1e5, 1e5)],
    lambda x, a, s: log_gamma_density(1 / x, a, s) - 2 * mp.log(x),
    lambda a, s: stats.invgamma(a, scale=s),
    support=above_0,
    edges=(1e-3, 1e12),
)
law(
    "chi_squared",
    "p",
    [(4,), (1,), (300,)],
    lambda x, n: log_gamma_density(x, n / 2, mp.mpf(1) / 2),
    stats.chi2,
    support=above_0,
    edges=TAIL,
)
law(
    "beta",
    "pp",
    [(2, 2), (0.5, 0.5), (1, 30), (12, 40), (1e5, 1e5), (3, 1e5)],
    lambda x, a, b: power(x, a - 1) + power(1 - x, b - 1) - log_beta(a, b),
    stats.beta,
    support=lambda *_: (0, 1),
    edges=(1e-30, 1e-6, 0.5, 0.99999),
)
law(
    "uniform",
    "rr",
    [(0, 1), (-3, 5)],
    lambda x, low, high: -mp.log(high - low),
    lambda low, high: stats.uniform(low, high - low),
    support=lambda low, high: (low, high),
    edges=(0, 0.5),
)

law(
    "weibull",
    "pp",
    [(1.5, 2), (1, 1), (0.4, 3), (20, 0.1)],
    lambda x, k, s: mp.log(k / s) + power(x / s, k - 1) - (x / s) ** k,
    lambda k, s: stats.weibull_min(k, scale=s),
    support=above_0,
    edges=(1e-6, 0.3, 50),
)
law(
    "pareto",
    "pp",
    [(1, 3), (0.01, 0.5)],
    lambda x, m, a: mp.log(a) + a * mp.log(m) - (a + 1) * mp.log(x),
    lambda m, a: stats.pareto(a, scale=m),
    support=lambda m, a: (m, np.inf),
    edges=(1, 1e12),
)
law(
    "kumaraswamy",
    "pp",
    [(2, 3), (0.5, 0.5), (1, 1), (40, 7)],
    lambda x, a, b: mp.log(a * b) + power(x, a - 1) + power(1 - x**a, b - 1),
    lambda a, b: Kumaraswamy(a, b),
    support=lambda *_: (0, 1),
    edges=(1e-30, 1e-6, 0.5, 0.99999),
)
law(
    "von_mises",
    "rn",
    [(0, 1.5), (0, 20), (1, 0.3), (-2, 7.9), (0.5, 1e5)],
    lambda x, m, k: k * mp.cos(x - m) - mp.log(2 * mp.pi * mp.besseli(0, k)),
    lambda m, k: stats.vonmises(k, loc=m),
    support=lambda *_: (-np.pi, np.pi),
    edges=(-3, 0, 1e-9, 2),
)
law(
    "triangular",
    "rrr",
    [(0, 1, 3), (-1, -1, 2), (0, 4, 4)],
    lambda x, low, m, high: mp.log(2 / (high - low) * ((x - low) / (m - low) if x < m else (high - x) / (high - m))),
    lambda low, m, high: stats.triang((m - low) / (high - low), low, high - low),
    support=lambda low, m, high: (low, high),
    edges=(0.5, 1.5),
)
law(
    "truncated_normal",
    "rpff",
    [(0, 1, -1, 2), (0, 1, 2, np.inf), (1, 2, -np.inf, -3), (0, 1, 8, 9), (0, 3, -np.inf, np.inf), (5, 1, -8, -7.5)],
    lambda x, m, s, low, high: log_normal((x - m) / s) - mp.log(s) - log_between((low - m) / s, (high - m) / s),
    lambda m, s, low, high: stats.truncnorm((low - m) / s, (high - m) / s, m, s),
    support=lambda m, s, low, high: (low, high),
    edges=(0, -3, 8),
)
law(
    "skew_normal",
    "rpr",
    [(0, 1, 2), (1, 3, -5), (0, 1, 0)],
    lambda x, m, s, a: mp.log(2) + log_normal((x - m) / s) - mp.log(s) + mp.log(mp.erfc(-a * (x - m) / s / mp.sqrt(2)) / 2),
    lambda m, s, a: stats.skewnorm(a, m, s),
    edges=(-10, -2, 10),
)
law(
    "exponentially_modified_normal",
    "rpp",
    [(0, 1, 1), (2, 0.5, 3), (0, 1, 40), (-1, 2, 0.001)],
    lambda x, m, s, r: (
        mp.log(r / 2) + r / 2 * (2 * m + r * s * s - 2 * x) + mp.log(mp.erfc((m + r * s * s - x) / (mp.sqrt(2) * s)))
    ),
    lambda m, s, r: stats.exponnorm(1 / (s * r), m, s),
    edges=(-20, 0, 30),
)
law(
    "inverse_gaussian",
    "pp",
    [(1, 1), (3, 0.2), (0.5, 500)],
    lambda x, m, s: (mp.log(s) - mp.log(2 * mp.pi) - 3 * mp.log(x)) / 2 - s * (x - m) ** 2 / (2 * m * m * x),
    lambda m, s: stats.invgauss(m / s, scale=s),
    support=above_0,
    edges=(1e-3, 1e4),
)
law(
    "beta_prime",
    "pp",
    [(2, 3), (0.5, 0.5), (50, 40), (1e4, 3)],
    lambda x, a, b: power(x, a - 1) - (a + b) * mp.log1p(x) - log_beta(a, b),
    stats.betaprime,
    support=above_0,
    edges=TAIL,
)
law(
    "f",
    "pp",
    [(3, 8), (1, 1), (40, 60)],
    lambda x, d, e: power(d * x / e, d / 2 - 1) - (d + e) / 2 * mp.log1p(d * x / e) - log_beta(d / 2, e / 2) + mp.log(d / e),
    stats.f,
    support=above_0,
    edges=TAIL,
)


# ── of integers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def choices(n: Number, k: Number) -> Number:
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1)


def log_poisson(k: Number, rate: Number) -> Number:
    return power(rate, k) - rate - lgamma(k + 1)


def log_bernoulli(k: Number, p: Number) -> Number:
    return mp.log(p if k else 1 - p)


def inverse_logit(x: Number) -> Number:
    return 1 / (1 + mp.exp(-x))


def from_0(*_: float) -> tuple[float, float]:
    return (0, np.inf)


def up_to(n: float, *_: float) -> tuple[float, float]:
    return (0, n)


def bits(*_: float) -> tuple[float, float]:
    return (0, 1)


law("bernoulli", "u", [(0.3,), (0.9,), (1e-9,)], log_bernoulli, stats.bernoulli, support=bits, edges=(0, 1), discrete=True)
law(
    "bernoulli_logit",
    "r",
    [(0.3,), (-2,), (50,), (-80,)],
    lambda k, x: log_bernoulli(k, inverse_logit(x)),
    lambda x: stats.bernoulli(special.expit(x)),
    support=bits,
    edges=(0, 1),
    discrete=True,
)
law(
    "binomial",
    "iu",
    [(10, 0.3), (60, 0.7), (1_000_000, 0.25), (1000, 1e-6), (0, 0.5)],
    lambda k, n, p: choices(n, k) + power(p, k) + power(1 - p, n - k),
    stats.binom,
    support=up_to,
    edges=(0, 10, 1000),
    discrete=True,
)
law(
    "binomial_logit",
    "ir",
    [(10, -0.8), (60, 0.7), (1_000_000, -1), (1000, -30)],
    lambda k, n, x: choices(n, k) + power(inverse_logit(x), k) + power(inverse_logit(-x), n - k),
    lambda n, x: stats.binom(n, special.expit(x)),
    support=up_to,
    edges=(0, 10, 1000),
    discrete=True,
)
law("poisson", "n", [(3.5,), (40,), (1e6,), (1e-9,)], log_poisson, stats.poisson, support=from_0, edges=(0, 1, 50), discrete=True)
law(
    "poisson_log",
    "r",
    [(1,), (4,), (13.8,), (-30,)],
    lambda k, x: k * x - mp.exp(x) - lgamma(k + 1),
    lambda x: stats.poisson(np.exp(x)),
    support=from_0,
    edges=(0, 1, 50),
    discrete=True,
)
law(
    "geometric",
    "v",
    [(0.3,), (0.02,), (0.999,)],
    lambda k, p: mp.log(p) + k * mp.log1p(-p),
    lambda p: stats.geom(p, loc=-1),
    support=from_0,
    edges=(0, 100),
    discrete=True,
)
law(
    "negative_binomial",
    "pp",
    [(4, 1.5), (30, 20), (5, 1e8), (1e5, 1e3), (0.01, 0.01)],
    lambda k, m, d: lgamma(k + d) - lgamma(d) - lgamma(k + 1) + d * mp.log(d / (d + m)) + k * mp.log(m / (d + m)),
    lambda m, d: stats.nbinom(d, d / (d + m)),
    support=from_0,
    edges=(0, 50),
    discrete=True,
)
law(
    "beta_binomial",
    "ipp",
    [(10, 2, 3), (60, 0.5, 0.7), (1000, 1e5, 2e5), (30, 400, 300)],
    lambda k, n, a, b: choices(n, k) + log_beta(k + a, n - k + b) - log_beta(a, b),
    stats.betabinom,
    support=up_to,
    edges=(0, 10),
    discrete=True,
)
law(
    "hypergeometric",
    "iii",
    [(20, 7, 12), (300, 100, 50), (100_000, 40_000, 3_000), (5, 5, 5)],
    lambda k, n, good, draws: choices(good, k) + choices(n - good, draws - k) - choices(n, draws),
    stats.hypergeom,
    support=lambda n, good, draws: (max(0, draws + good - n), min(good, draws)),
    discrete=True,
)
law(
    "discrete_uniform",
    "jj",
    [(1, 6), (-5, 20)],
    lambda k, low, high: -mp.log(high - low + 1),
    lambda low, high: stats.randint(low, high + 1),
    support=lambda low, high: (low, high),
    discrete=True,
)
law(
    "zero_inflated_poisson",
    "un",
    [(0.3, 2.5), (0.05, 20), (1e-9, 600)],
    lambda k, p, rate: mp.log(1 - p) + log_poisson(k, rate) if k else mp.log(p + (1 - p) * mp.exp(-rate)),
    lambda p, rate: ZeroInflated(p, stats.poisson(rate)),
    support=from_0,
    edges=(0, 1),
    discrete=True,
)
