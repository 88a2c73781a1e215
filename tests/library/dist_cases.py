"""`dist` against SciPy, at ordinary parameters; test_dist.py has the others, slopes and draws."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy import special, stats

from tests.library.dist_laws import LAWS, Law
from tests.library.library_case import Array, Comparison, Drawn, case, of
from tests.library.random_cases import counter, keyed, uniform


def of_law(law: Law) -> None:
    kinds = {f"p{k}": "i32" if letter in "ij" else "'a" for k, letter in enumerate(law.domain)}
    typed = " ".join(f"({p} : {kind})" for p, kind in kinds.items())
    number, result = ("i32", "f32" if "'a" not in kinds.values() else "'a") if law.discrete else ("'a", "'a")
    program = f"fun f (x : {number}[n]) {typed} : {result}[n] = for i => (dist.{law.name} {' '.join(kinds)}).log_density x[i]"

    @case(f"dist.{law.name}", program)
    def _(d: Drawn) -> Comparison:
        row = law.parameters[d.size(0, 1)]
        parameters = [np.int32(p) if kind == "i32" else d.element(p) for p, kind in zip(row, kinds.values(), strict=True)]
        family = law.scipy(*(p.item() for p in parameters))
        x = np.asarray(family.ppf(d.rng.uniform(0.01, 0.99, d.size())), np.int32 if law.discrete else d.element)
        wanted = family.logpmf(x) if law.discrete else family.logpdf(x.astype(np.float64))
        return of(x, *parameters, wanted=wanted, slack=10, single=result == "f32")


for found in LAWS.values():
    of_law(found)

SUPPORTS = {
    "real": ("()", lambda u: u),
    "positive": ("()", np.exp),
    "nonnegative": ("()", np.exp),
    "unit": ("()", special.expit),
    "greater": ("2.0", lambda u: 2 + np.exp(u)),
    "at_least": ("2.0", lambda u: 2 + np.exp(u)),
    "less": ("2.0", lambda u: 2 - np.exp(u)),
    "interval": ("(-1.0) 3.0", lambda u: -1 + 4 * special.expit(u)),
    "between": ("(-1.0) inf", lambda u: -1 + np.exp(u)),
}


def of_support(name: str) -> None:
    given, constrained = SUPPORTS[name]

    @case(f"dist.{name}", f"fun f (u : 'a[n]) = for i => (dist.{name} {given}).constrain u[i]")
    def _(d: Drawn) -> Comparison:
        u = d.real(d.size())
        return of(u, wanted=constrained(u.astype(np.float64)))


for support in SUPPORTS:
    of_support(support)


@case("dist.above")
def _(d: Drawn) -> Comparison:
    x = d.element(d.rng.choice([0, -1, 2.5, np.inf, np.nan]))
    return of(x, wanted=x if 0 < x < np.inf else np.nan)


@case("dist.outside")
def _(d: Drawn) -> Comparison:
    x = d.element(d.rng.choice([0, 2.5, np.nan]))
    return of(x, wanted=x if np.isnan(x) else -np.inf)


@case("dist.open_uniform", "fun f (key : u32[2]) (i : i64) (x : 'a[1]) : 'a[1] = [| dist.open_uniform key i |]")
def _(d: Drawn) -> Comparison:
    key, i = keyed(d), counter(d)
    middle = float(np.finfo(d.element).eps) / 2
    return of(key, np.int64(i), d.real(1), wanted=np.array([uniform(key, i, d.element) + middle]), slack=0)


def of_probability(name: str, arguments: str, wanted: Callable[..., float], *low: float) -> None:
    @case(f"dist.{name}", f"fun f (p : 'a[3]) = dist.{name} {arguments}")
    def _(d: Drawn) -> Comparison:
        p = np.array([low[0] + d.size(0, 20), low[1] + d.size(0, 20), d.rng.uniform(0.1, 0.9)], d.element)
        return of(p, wanted=wanted(*map(float, p)), slack=10)


of_probability("probability", "p[2]", lambda k, n, p: p, 0, 0)
of_probability("from_0", "p[2]", lambda k, n, p: p, 0, 0)
of_probability("log_binomial", "p[0] p[1] p[2] (1.0 - p[2])", lambda k, n, p: stats.binom.logpmf(k, k + n, p), 0, 0)
of_probability("log_poisson", "p[0] p[1]", lambda k, rate, p: stats.poisson.logpmf(k, rate), 0, 1)


@case(
    "dist.categorical",
    "fun f (w : 'a[n]) where n >= 1 = let val d = dist.categorical w in for j => d.log_density d.support.values[j] end",
)
def _(d: Drawn) -> Comparison:
    w = d.uniform(d.size(1), low=0.1)
    return of(w, wanted=np.log(w / w.sum(dtype=np.float64)))


@case(
    "dist.categorical_logit",
    "fun f (w : 'a[n]) where n >= 1 = let val d = dist.categorical_logit w in for j => d.log_density d.support.values[j] end",
)
def _(d: Drawn) -> Comparison:
    w = d.real(d.size(1), scale=30)
    return of(w, wanted=special.log_softmax(w.astype(np.float64)))


@case(
    "dist.ordered_logistic",
    "fun f (eta : 'a) (cuts : 'a[n]) ="
    " let val d = dist.ordered_logistic eta cuts in for j => d.log_density d.support.values[j] end",
)
def _(d: Drawn) -> Comparison:
    eta, cuts = d.real(), np.sort(d.real(d.size(), scale=3))
    below = np.concatenate([[0], special.expit(cuts.astype(np.float64) - float(eta)), [1]])
    return of(eta, cuts, wanted=np.log(np.diff(below)), slack=100)


@case(
    "dist.zero_inflated",
    "fun f (k : i32[n]) p (rate : 'a) = for i => (dist.zero_inflated p (dist.geometric rate)).log_density k[i]",
)
def _(d: Drawn) -> Comparison:
    k, p, rate = d.integers(d.size(), high=3), d.uniform(), d.uniform(low=0.1)
    return of(k, p, rate, wanted=np.log((k == 0) * float(p) + (1 - float(p)) * stats.geom(float(rate), loc=-1).pmf(k)), slack=10)


@case("dist.multinomial", "fun f (x : i32[n]) (w : 'a[n]) = (dist.multinomial (sum i => x[i]) w).log_density x")
def _(d: Drawn) -> Comparison:
    x = d.integers(d.size(1), high=40)
    w = d.uniform(len(x), low=0.1)
    return of(x, w, wanted=stats.multinomial(x.sum(), w / w.sum(dtype=np.float64)).logpmf(x), slack=10)


@case("dist.dirichlet", "fun f (a : 'a[n]) (x : 'a[n]) where n >= 1 = (dist.dirichlet a).log_density x")
def _(d: Drawn) -> Comparison:
    a = d.uniform(d.size(2), low=0.5, high=30)
    x = (a / a.sum()).astype(np.float64) ** 1.1
    x = (x / x.sum()).astype(d.element)
    return of(a, x, wanted=stats.dirichlet(a.astype(np.float64)).logpdf(x / x.sum(dtype=np.float64)), slack=30)


def factor(d: Drawn, n: int) -> Array:
    """A Cholesky factor."""
    return np.asarray(np.tril(d.real(n, n) / 2, -1) + np.diag(np.exp(d.real(n) / 2)), d.element)


def of_vectors(name: str, call: str, density: Callable[[Array, Array, Array], float]) -> None:
    @case(f"dist.{name}", f"fun f (x : 'a[n]) (mu : 'a[n]) (l : 'a[n, n]) = ({call}).log_density x")
    def _(d: Drawn) -> Comparison:
        n = d.size(1)
        x, mu, low = d.real(n), d.real(n), factor(d, n)
        return of(x, mu, low, wanted=density(*(part.astype(np.float64) for part in (x, mu, low))), slack=300)


of_vectors(
    "multivariate_normal",
    "dist.multivariate_normal mu l",
    lambda x, mu, low: stats.multivariate_normal(mu, low @ low.T).logpdf(x),
)
of_vectors(
    "multivariate_normal_precision",
    "dist.multivariate_normal_precision mu (for i j => sum k => l[i, k] * l[j, k])",
    lambda x, mu, low: stats.multivariate_normal(mu, np.linalg.inv(low @ low.T)).logpdf(x),
)
of_vectors(
    "multivariate_student_t",
    "dist.multivariate_student_t 3.5 mu l",
    lambda x, mu, low: stats.multivariate_t(mu, low @ low.T, 3.5).logpdf(x),
)


@case("dist.gaussian_random_walk", "fun f (x : 'a[n]) = (dist.gaussian_random_walk {n} 0.5).log_density x")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size())
    return of(x, wanted=stats.norm(0, 0.5).logpdf(np.diff(x.astype(np.float64), prepend=0)).sum(), slack=10)


@case(
    "dist.lkj_cholesky",
    "fun f (u : 'a[3]) eta = let val d = dist.lkj_cholesky {3} eta in d.log_density (d.support.constrain u) end",
)
def _(d: Drawn) -> Comparison:
    """By the density of correlations, and how much of them there is for each factor (Stan's reference manual, 24.1)."""
    u, eta = d.real(3), d.uniform(low=0.5, high=4)
    low, e = corr_factor(u.astype(np.float64)), float(eta)
    whole = sum(k * np.log(np.pi) / 2 + special.gammaln(e + (2 - k) / 2) - special.gammaln(e + 1) for k in (1, 2))
    return of(u, eta, wanted=(e - 1) * np.linalg.slogdet(low @ low.T)[1] + np.log(low[1, 1]) - whole, slack=10)


def corr_factor(u: Array) -> Array:
    z = np.tanh(u)
    rows = [[1, 0, 0], [z[0], np.sqrt(1 - z[0] ** 2), 0], [z[1], z[2] * np.sqrt(1 - z[1] ** 2), 0]]
    rows[2][2] = np.sqrt(1 - rows[2][0] ** 2 - rows[2][1] ** 2)
    return np.array(rows)


@case("dist.cholesky_corr", "fun f (u : 'a[3]) = (dist.cholesky_corr {3}).constrain u")
def _(d: Drawn) -> Comparison:
    u = d.real(3)
    return of(u, wanted=corr_factor(u.astype(np.float64)), slack=10)


def of_vector_support(name: str, size: str, constrained: Callable[[Array], Array]) -> None:
    @case(f"dist.{name}", f"fun f (u : 'a[n]) = (dist.{name} {{{size}}}).constrain u")
    def _(d: Drawn) -> Comparison:
        u = d.real(d.size())
        return of(u, wanted=constrained(u.astype(np.float64)), slack=10)


def sum_to_zero(u: Array) -> Array:
    """Householder's reflection of (u, 0) that takes the last axis to the vector of equal numbers."""
    n = len(u) + 1
    v = np.full(n, n**-0.5) + np.eye(n)[-1]
    padded = np.append(u, 0)
    return padded - 2 * v * (v @ padded) / (v @ v)


of_vector_support("reals", "n", lambda u: u)
of_vector_support("sum_to_zero", "n + 1", sum_to_zero)
of_vector_support("simplex", "n + 1", lambda u: special.softmax(sum_to_zero(u)))
of_vector_support("ordered", "n", lambda u: np.cumsum(np.where(np.arange(len(u)) == 0, u, np.exp(u))))
of_vector_support("positive_ordered", "n", lambda u: np.cumsum(np.exp(u)))


@case(
    "dist.mixture",
    "fun f (x : 'a[m]) (w : 'a[n]) (mu : 'a[n]) where n >= 1 ="
    " for i => (dist.mixture w (fn k => dist.normal mu[k] 2.0)).log_density x[i]",
)
def _(d: Drawn) -> Comparison:
    x, w = d.real(d.size()), d.real(d.size(1))
    mu = d.real(len(w))
    shares = special.log_softmax(w.astype(np.float64))
    wanted = special.logsumexp(shares + stats.norm(mu.astype(np.float64), 2).logpdf(x.astype(np.float64)[:, None]), -1)
    return of(x, w, mu, wanted=wanted, slack=3)


@case("dist.affine", "fun f (x : 'a[n]) (shift : 'a) = for i => (dist.affine shift 3.0 (dist.exponential 1.0)).log_density x[i]")
def _(d: Drawn) -> Comparison:
    shift = d.real()
    x = np.asarray(shift + d.uniform(d.size(), low=0.1, high=9), d.element)
    return of(x, shift, wanted=stats.expon(float(shift), 3).logpdf(x.astype(np.float64)), slack=10)
