"""Distributions of vectors and matrices, and of places in a vector: their transforms, that they are 1 in all, and what is drawn."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy import stats

import axon
from tests.library.library_case import TARGET, Array
from tests.library.test_dist import agree
from tests.sample import SOAK

DRAWS = 100_000 if SOAK else 2_000
SUPPORTS = ("reals", "sum_to_zero", "simplex", "ordered", "positive_ordered", "cholesky_corr")
PARTS = {"sum_to_zero": 3, "simplex": 3, "cholesky_corr": 6}  # of unbounded numbers for 4; as many as 4 else


@cache
def compiled() -> axon.Module:
    text = "import dist\n"
    for name in SUPPORTS:
        text += f"""
fun {name} (u : 'a[{PARTS.get(name, 4)}]) =
  let val s = dist.{name} {{4}}
      val x = s.constrain u
  in (x, s.unconstrain x, s.log_jacobian u, s.contains x) end
"""
    return axon.compile(
        text
        + """
fun dirichlet (a : f64[3]) (u : f64[n, 2]) =
  let val d = dist.dirichlet a in for i => d.log_density (d.support.constrain u[i, :]) + d.support.log_jacobian u[i, :] end
fun lkj (eta : f64) (u : f64[n, 3]) =
  let val d = dist.lkj_cholesky {3} eta in for i => d.log_density (d.support.constrain u[i, :]) + d.support.log_jacobian u[i, :] end
fun uphill (mu : f64[n]) (l : f64[n, n]) (x : f64[n]) = grad (dist.multivariate_normal mu l).log_density x
fun uphill_by_precision (mu : f64[n]) (l : f64[n, n]) (x : f64[n]) =
  grad (dist.multivariate_normal_precision mu (for i j => sum k => l[i, k] * l[j, k])).log_density x
fun shares {m} (key : u32[2]) = for i < m => (dist.dirichlet [| 0.5, 2.0, 3.5 |]).sample key i
fun factors {m} (key : u32[2]) = for i < m => ((dist.lkj_cholesky {4} 1.5).sample key i : f32[4, 4])
fun normals {m} (mu : f32[n]) (l : f32[n, n]) (key : u32[2]) = for i < m => (dist.multivariate_normal mu l).sample key i
fun by_precision {m} (mu : f32[n]) (l : f32[n, n]) (key : u32[2]) =
  for i < m => (dist.multivariate_normal_precision mu (for i j => sum k => l[i, k] * l[j, k])).sample key i
fun heavy {m} (mu : f32[n]) (l : f32[n, n]) (key : u32[2]) = for i < m => (dist.multivariate_student_t 4.0 mu l).sample key i
fun walks {m} (key : u32[2]) = for i < m => ((dist.gaussian_random_walk {3} 0.5).sample key i : f32[3])
fun counts {m} (key : u32[2]) = for i < m => ((dist.multinomial 12 [| 1.0, 0.0, 2.0, 1.0 |]).sample key i : i32[4])
fun places {m} (key : u32[2]) = for i < m => ((dist.categorical [| 1.0, 0.0, 3.0 |]).sample key i : i32)
fun places_by_logits {m} (key : u32[2]) = for i < m => ((dist.categorical_logit [| 0.0, 1.0, 2.0 |]).sample key i : i32)
fun classes {m} (key : u32[2]) = for i < m => ((dist.ordered_logistic 0.5 [| -1.0, 1.0 |]).sample key i : i32)
fun mixed {m} (key : u32[2]) =
  for i < m => (dist.mixture [| 0.0, 0.0 |] (fn k => dist.normal (if k = 0 then -2.0 else 2.0) 1.0)).sample key i
fun moved {m} (key : u32[2]) = for i < m => (dist.affine 1.0 2.0 (dist.exponential 1.0)).sample key i
"""
    )


U = np.array([0.3, -1.2, 0.7, 0.1, -0.4, 1.5])
KEY = np.array([3, 1701], np.uint32)
MU, FACTOR = np.array([1.0, -2.0, 0.5]), np.array([[2.0, 0, 0], [0.5, 1, 0], [-1, 0.3, 0.4]])


@pytest.mark.parametrize("name", SUPPORTS)
def test_transforms(name: str) -> None:
    """They come back; the Jacobian is the determinant of what is free in the result, by differences."""
    call, u = getattr(compiled(), name), U[: PARTS.get(name, 4)]
    _, back, jacobian, inside = call(u, target=TARGET)
    np.testing.assert_allclose(back, u, rtol=1e-12, atol=1e-12)
    assert inside

    def free(v: Array) -> Array:
        found = call(v, target=TARGET)[0]
        return np.asarray(found[np.tril_indices(4, -1)] if found.ndim == 2 else found[: len(u)])

    steps = 1e-5 * np.eye(len(u))
    slopes = np.array([(free(u + s) - free(u - s)) / 2e-5 for s in steps])
    if name == "sum_to_zero":  # the distances are kept
        full = np.array([(call(u + s, target=TARGET)[0] - call(u - s, target=TARGET)[0]) / 2e-5 for s in steps])
        np.testing.assert_allclose(full @ full.T, np.eye(3), atol=1e-9)
    else:
        assert jacobian == pytest.approx(np.linalg.slogdet(slopes)[1], abs=1e-7)


@pytest.mark.parametrize("name", ["sum_to_zero", "simplex", "cholesky_corr"])
def test_far_out(name: str) -> None:
    """What is made is inside, and the Jacobian finite, in f32."""
    for signs in ([1, 1, 1, 1, 1, 1], [-1, 1, -1, 1, -1, 1], [-1, -1, -1, -1, -1, -1]):
        _, _, jacobian, inside = getattr(compiled(), name)(np.array(80 * np.array(signs[: PARTS[name]]), np.float32), target=TARGET)
        assert inside
        assert np.isfinite(jacobian)


def grid(last: float, step: float, rank: int) -> Array:
    line = np.arange(-last, last + step / 2, step)
    return np.stack(np.meshgrid(*[line] * rank, indexing="ij"), -1).reshape(-1, rank)


def test_they_are_1_in_all() -> None:
    u = grid(24, 0.4, 2)
    assert np.exp(compiled().dirichlet(np.array([0.8, 1, 2.5]), u, target=TARGET)).sum() * 0.4**2 == pytest.approx(1, abs=1e-6)
    u = grid(7, 0.4, 3)
    assert np.exp(compiled().lkj(2.0, u, target=TARGET)).sum() * 0.4**3 == pytest.approx(1, abs=1e-5)


def test_slopes_of_normal_vectors() -> None:
    x = np.array([0.4, 0.1, 3.0])
    covariance = FACTOR @ FACTOR.T
    found = compiled().uphill(MU, FACTOR, x, target=TARGET)
    np.testing.assert_allclose(found, np.linalg.solve(covariance, MU - x), rtol=1e-12)
    found = compiled().uphill_by_precision(MU, FACTOR, x, target=TARGET)
    np.testing.assert_allclose(found, covariance @ (MU - x), rtol=1e-12)


def drawn(name: str, *given: Array) -> Array:
    found: Array = getattr(compiled(), name)[DRAWS](*given, KEY, target=TARGET)
    return found.astype(np.float64) if found.dtype == np.float32 else found


LEAST = 1e-4


def test_numbers_of_vectors() -> None:
    """Each part has the distribution that follows for it."""
    x = drawn("shares")
    np.testing.assert_allclose(x.sum(-1), 1, atol=1e-6)
    for j, a in enumerate((0.5, 2.0, 3.5)):
        assert stats.kstest(x[:, j], stats.beta(a, 6 - a).cdf).pvalue > LEAST
    factors = drawn("factors")
    correlations = factors @ factors.transpose(0, 2, 1)
    np.testing.assert_allclose(correlations[:, range(4), range(4)], 1, atol=1e-5)
    for i, j in zip(*np.tril_indices(4, -1), strict=True):
        assert stats.kstest((correlations[:, i, j] + 1) / 2, stats.beta(2.5, 2.5).cdf).pvalue > LEAST
    mu, factor = MU.astype(np.float32), FACTOR.astype(np.float32)
    whitened = (drawn("normals", mu, factor) - MU) @ np.linalg.inv(FACTOR).T
    by_precision = (drawn("by_precision", mu, factor) - MU) @ FACTOR
    for z in (whitened, by_precision):
        assert stats.kstest(z.ravel(), stats.norm().cdf).pvalue > LEAST
        assert abs(np.corrcoef(z.T) - np.eye(3)).max() < 4.5 / np.sqrt(DRAWS)
    heavy = (drawn("heavy", mu, factor) - MU) @ np.linalg.inv(FACTOR).T
    assert stats.kstest((heavy**2).sum(-1) / 3, stats.f(3, 4).cdf).pvalue > LEAST
    walks = np.diff(drawn("walks"), axis=-1, prepend=0)
    assert stats.kstest(walks.ravel(), stats.norm(0, 0.5).cdf).pvalue > LEAST


def test_numbers_of_places() -> None:
    x = drawn("counts")
    assert (x.sum(-1) == 12).all()
    for j, p in enumerate((0.25, 0, 0.5, 0.25)):
        assert agree(x[:, j], stats.binom(12, p), True) > LEAST if p else (x[:, j] == 0).all()
    e = np.exp([0, 1, 2])
    below = 1 / (1 + np.exp([1.5, -0.5]))
    for name, shares in (("places", [0.25, 0, 0.75]), ("places_by_logits", e / e.sum()), ("classes", np.diff([0, *below, 1]))):
        assert agree(drawn(name), stats.rv_discrete(values=([0, 1, 2], shares)), True) > LEAST
    assert stats.kstest(drawn("mixed"), lambda t: (stats.norm(-2).cdf(t) + stats.norm(2).cdf(t)) / 2).pvalue > LEAST
    assert stats.kstest(drawn("moved"), stats.expon(1, 2).cdf).pvalue > LEAST
