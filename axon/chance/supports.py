"""The distributions of `dist` that allow the same values whatever their parameters are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from axon.chance.sites import head_of, leaves_of
from axon.grammar import syntax as S

InLibrary: TypeAlias = Callable[[S.Expr], "str | None"]  # the function of `dist` that an expression names, if it names one

FIXED = frozenset([
    "normal", "half_normal", "log_normal", "student_t", "half_student_t", "cauchy", "half_cauchy", "laplace",
    "logistic", "gumbel", "exponential", "gamma", "inverse_gamma", "beta", "chi_squared", "weibull", "kumaraswamy",
    "von_mises", "skew_normal", "exponentially_modified_normal", "inverse_gaussian", "beta_prime", "f", "bernoulli",
    "bernoulli_logit", "poisson", "poisson_log", "geometric", "negative_binomial", "categorical", "categorical_logit",
    "ordered_logistic", "dirichlet", "multivariate_normal", "multivariate_normal_precision", "multivariate_student_t",
    "gaussian_random_walk", "lkj_cholesky",
])  # fmt: skip


def is_fixed(site: S.Expr, in_library: InLibrary) -> bool:
    """Whether a site's support follows from its text alone: all branches are of one such distribution."""
    first, *others = (in_library(head_of(leaf)) for leaf in leaves_of(site))
    return first in FIXED and all(other == first for other in others)
