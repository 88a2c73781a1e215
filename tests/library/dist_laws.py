"""Distributions by their definitions, in as many digits as are asked for, and by SciPy: what `dist` is held to."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from mpmath import mp
from scipy import stats

Number = Any  # of mpmath, or a float



@dataclass(frozen=True)
class Law:
    """A family of distributions of one number. The first of its parameters are ordinary ones, from which is drawn too."""

    name: str
    domain: str  # a letter for each parameter: `r` any number, `p` above 0
    parameters: list[tuple[float, ...]]
    log_density: Callable[..., Number]  # by its definition, of a number that may be, and of parameters
    scipy: Callable[..., Any]
    support: Callable[..., tuple[float, float]] = lambda *_: (-np.inf, np.inf)
    edges: tuple[float, ...] = ()  # numbers at which the density may be looked at besides quantiles
    discrete: bool = False


LAWS: dict[str, Law] = {}


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


def log_normal(z: Number) -> Number:
    return -z * z / 2 - mp.log(2 * mp.pi) / 2


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

