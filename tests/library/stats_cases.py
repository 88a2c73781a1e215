"""`stats` against NumPy, SciPy and scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import special
from scipy.spatial.distance import cdist

from tests.library.library_case import Array, Comparison, Drawn, case, of


def over_rows(name: str, least: int, f: Any, slack: float = 3.0) -> None:
    @case(f"stats.{name}")
    def _(d: Drawn) -> Comparison:
        x = d.real(*d.shape(2), d.size(least, 9), scale=3)
        return of(x, wanted=f(x.astype(np.float64)), slack=slack)


over_rows("mean", 1, lambda x: x.mean(-1))
over_rows("variance", 1, lambda x: x.var(-1))
over_rows("sample_variance", 2, lambda x: x.var(-1, ddof=1))
over_rows("standard_deviation", 1, lambda x: x.std(-1))
over_rows("median", 1, lambda x: np.median(x, -1))
over_rows("cumulative_sum", 0, lambda x: x.cumsum(-1))
over_rows("cumulative_product", 0, lambda x: x.cumprod(-1), slack=10)
over_rows("cumulative_max", 0, lambda x: np.maximum.accumulate(x, -1), slack=0)
over_rows("cumulative_min", 0, lambda x: np.minimum.accumulate(x, -1), slack=0)
over_rows("softmin", 1, lambda x: special.softmax(-x, -1))


def over_axes(name: str, f: Any) -> None:
    """Over the first dimension, and over all of them."""

    @case(f"stats.{name}_first")
    def _(d: Drawn) -> Comparison:
        x = d.real(d.size(1, 9), *d.shape(2), scale=3)
        return of(x, wanted=f(x.astype(np.float64), 0), slack=3)

    @case(f"stats.{name}_all")
    def _(d: Drawn) -> Comparison:
        x = d.real(*(d.size(1, 4) for _ in range(d.size(0, 3))), scale=3)
        return of(x, wanted=f(x.astype(np.float64), None), slack=3)


over_axes("mean", np.mean)
over_axes("variance", np.var)
over_axes("standard_deviation", np.std)


@case("stats.covariance")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(2, 9), d.size(1))
    return of(x, wanted=np.cov(x.astype(np.float64), rowvar=False).reshape(x.shape[1], x.shape[1]), slack=3)


@case("stats.correlation")
def _(d: Drawn) -> Comparison:
    x = d.real(d.size(3, 9), d.size(1))
    return of(x, wanted=np.corrcoef(x.astype(np.float64), rowvar=False).reshape(x.shape[1], x.shape[1]), slack=100)


@case("stats.quantile")
def _(d: Drawn) -> Comparison:
    x, q = d.real(*d.shape(2), d.size(1, 9)), float(d.rng.choice([0, 0.25, 0.5, 1, d.rng.random()]))
    x[d.rng.random(x.shape) < 0.05] = np.nan
    return of(q, x, wanted=np.quantile(x.astype(np.float64), q, -1))


@case("stats.counts")
def _(d: Drawn) -> Comparison:
    ids, n = d.integers(d.size(0, 20), low=-2, high=8), d.size(0, 6)
    return of(ids, wanted=np.bincount(ids[ids >= 0], minlength=n)[:n].astype(np.int32), sizes=(n,))


@case("stats.histogram")
def _(d: Drawn) -> Comparison:
    bins, x = d.size(1, 8), d.uniform(d.size(0, 30), low=-0.2, high=1.2)
    x = np.concatenate([x, np.asarray([0, 0.5, 1, 1, np.nan], x.dtype)])
    edges = np.linspace(0, 1, bins + 1).astype(x.dtype)
    return of(0.0, 1.0, x, wanted=np.histogram(x, edges)[0].astype(np.int32), sizes=(bins,))


def between_rows(name: str, f: Any, slack: float = 3.0) -> None:
    @case(f"stats.{name}")
    def _(d: Drawn) -> Comparison:
        n = d.size(1)
        x, y = d.real(d.size(1), n), d.real(d.size(1), n)
        return of(x, y, wanted=f(x.astype(np.float64), y.astype(np.float64)), slack=slack)


def by(metric: Any) -> Any:
    def distances(x: Array, y: Array) -> Array:
        return np.asarray(cdist(x, y, metric))

    return distances


between_rows("squared_distances", by("sqeuclidean"))
between_rows("distances", by("euclidean"))
between_rows("manhattan_distances", by("cityblock"))


def cosines(x: Array, y: Array) -> Array:
    from sklearn.metrics.pairwise import cosine_similarity  # slow to import, in every worker

    return cosine_similarity(x, y)


between_rows("cosines", cosines)
