"""`dist` against SciPy, at ordinary parameters; test_dist.py has the others, slopes and draws."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.library.dist_laws import LAWS, Law
from tests.library.library_case import Comparison, Drawn, case, of
from tests.library.random_cases import counter, keyed, uniform


def of_law(law: Law) -> None:
    names = [f"p{k}" for k in range(len(law.domain))]
    typed = " ".join(f"({p} : 'a)" for p in names)
    number = "i32" if law.discrete else "'a"

    @case(f"dist.{law.name}", f"fun f (x : {number}[n]) {typed} = for i => (dist.{law.name} {' '.join(names)}).log_density x[i]")
    def _(d: Drawn) -> Comparison:
        parameters = [d.element(p) for p in law.parameters[d.size(0, 1)]]
        family = law.scipy(*map(float, parameters))
        x = np.asarray(family.ppf(d.rng.uniform(0.01, 0.99, d.size())), np.int32 if law.discrete else d.element)
        wanted = family.logpmf(x) if law.discrete else family.logpdf(x.astype(np.float64))
        return of(x, *parameters, wanted=wanted, slack=10)


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
