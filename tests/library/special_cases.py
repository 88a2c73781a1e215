"""`special` against SciPy and mpmath."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from mpmath import mp
from scipy import special

from tests.library.library_case import Array, Comparison, Drawn, case, of


def over_reals(name: str, f: Callable[..., Any], *ranges: tuple[float, float], slack: float = 1.0) -> None:
    """Of numbers in ranges; where both ends are positive, of all orders of magnitude."""
    names = [f"x{k}" for k in range(len(ranges))]
    typed = " ".join(f"({x} : 'a[n])" for x in names)

    @case(f"special.{name}", f"fun f {typed} = for i => special.{name} {' '.join(f'{x}[i]' for x in names)}")
    def _(d: Drawn) -> Comparison:
        n = d.size()
        given = [np.asarray(spread(d, n, low, high), d.element) for low, high in ranges]
        return of(*given, wanted=np.asarray(f(*(x.astype(np.float64) for x in given)), np.float64), slack=slack)


def spread(d: Drawn, n: int, low: float, high: float) -> Array:
    if low > 0:
        return np.exp(d.rng.uniform(np.log(low), np.log(high), n))
    return d.rng.choice([d.rng.uniform(low, high, n), np.full(n, d.rng.choice([low, high, 0.0])).clip(low, high)])


def exact(f: Callable[..., Any]) -> Callable[..., Array]:
    """A function of mpmath's numbers in 60 digits, of arrays."""

    def of_arrays(*columns: Array) -> Array:
        with mp.workdps(60):
            return np.array([float(f(*(mp.mpf(float(x)) for x in row))) for row in zip(*columns, strict=True)])

    return of_arrays


def stirling(x: Any) -> Any:
    return mp.loggamma(x) - ((x - 0.5) * mp.log(x) - x + mp.log(2 * mp.pi) / 2)


def log_beta(a: Any, b: Any) -> Any:
    return mp.loggamma(a) + mp.loggamma(b) - mp.loggamma(a + b)


over_reals("xlogy", special.xlogy, (0, 3), (0, 3))
over_reals("xlog1py", special.xlog1py, (0, 3), (-1, 3))
over_reals("expit", special.expit, (-90, 90))
over_reals("log_expit", special.log_expit, (-90, 90))
over_reals("log1mexp", exact(lambda x: mp.log(-mp.expm1(x))), (-90, -1e-9))
over_reals("log_add_exp", np.logaddexp, (-900, 900), (-900, 900))
over_reals("log1p_square", exact(lambda x: mp.log1p(x * x)), (1e-30, 1e30))
over_reals("log1p_square_of", exact(lambda x, s: mp.log1p((x / s) ** 2)), (1e-30, 1e30), (1e-30, 1e30), slack=10)
over_reals("stirling", exact(stirling), (1e-3, 1e9))
over_reals("stirling_beyond", exact(stirling), (10, 1e9))
over_reals("deviance", exact(lambda x, m: (x and x * mp.log(x / m)) + m - x), (1, 1e3), (1, 1e3), slack=10)
over_reals("log_beta", exact(log_beta), (1e-3, 1e9), (1e-3, 1e9))
over_reals("gamma_term", exact(lambda a, t: a * mp.log(t) - t - mp.loggamma(a)), (1e-3, 1e6), (1e-3, 1e6), slack=3)
over_reals("log_mills", exact(lambda x: mp.log(mp.ncdf(x)) + x * x / 2), (-30, 0), slack=3)
over_reals("log_ndtr", exact(lambda x: mp.log(mp.ncdf(x))), (-30, 9))
over_reals("log_i0e", exact(lambda x: mp.log(mp.besseli(0, x)) - x), (1e-3, 1e5))


@case(
    "special.sloped",
    "fun g (x : 'a) = let fun f t = special.sloped (t * t * t) (t ** 3.0) in (f x, grad f x, grad (grad f) x) end"
    " fun f (x : 'a[n]) = for i => let val (y, first, second) = g x[i] in y + 10.0 * first + 100.0 * second end",
)
def _(d: Drawn) -> Comparison:
    """The value and both derivatives of a cube."""
    x = d.real(d.size())
    return of(x, wanted=x.astype(np.float64) ** 3 + 30 * x.astype(np.float64) ** 2 + 600 * x.astype(np.float64), slack=3)


@case("special.log_sum_exp")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(), scale=100)
    return of(x, wanted=special.logsumexp(x.astype(np.float64)) if len(x) else -np.inf, slack=3)


def of_beta(name: str, arguments: str, result: str, low: float, wanted: Callable[[Any, Any, Any], Any]) -> None:
    """Functions of two numbers from `low` on and of x and 1 - x, near the quotient of the first and their sum."""

    @case(f"special.{name}", f"fun f (a : 'a[n]) (b : 'a[n]) (x : 'a[n]) : {result}[n] = for i => special.{name} {arguments}")
    def _(d: Drawn) -> Comparison:
        a, b = (np.asarray(spread(d, n, low, 1e6), d.element) for n in (3, 3))
        x = np.asarray((a / (a + b)).astype(np.float64) ** d.rng.uniform(0.7, 1.3), d.element)
        return of(a, b, x, wanted=wanted(a, b, x), slack=300)


def beta_term(a: Any, b: Any, x: Any) -> Any:
    return a * mp.log(x) + b * mp.log(1 - x) - log_beta(a, b)


def is_near(a: Array, b: Array, x: Array) -> Array:
    return (a >= 10) & (b >= 10) & ((a + b) * x > 0.01 * a) & ((a + b) * (1 - x) > 0.01 * b)


of_beta("beta_term", "a[i] b[i] x[i] (1.0 - x[i]) (log x[i]) (log1p (-x[i]))", "'a", 0.01, exact(beta_term))
of_beta("beta_saddle", "a[i] b[i] x[i] (1.0 - x[i])", "'a", 10, exact(beta_term))
of_beta("beta_is_near", "a[i] b[i] x[i] (1.0 - x[i])", "bool", 1, is_near)


@case("special.little")
def _(d: Drawn) -> Comparison:
    return of(d.real(), wanted=np.finfo(d.element).eps ** 3, slack=0)
