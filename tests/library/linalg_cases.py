"""`linalg` against NumPy and SciPy."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from tests.library.library_case import Array, Comparison, Drawn, case, of


@case("linalg.dot")
def _(d: Drawn) -> Comparison:
    n = d.size(0, 9)
    a, b = d.real(n), d.real(n)
    return of(a, b, wanted=np.dot(a, b))


@case("linalg.outer")
def _(d: Drawn) -> Comparison:
    a, b = d.integers(d.size()), d.integers(d.size())
    return of(a, b, wanted=np.outer(a, b))


@case("linalg.cross")
def _(d: Drawn) -> Comparison:
    a, b = d.real(3), d.real(3)
    return of(a, b, wanted=np.cross(a, b))


@case("linalg.kronecker")
def _(d: Drawn) -> Comparison:
    a, b = d.real(d.size(), d.size()), d.real(d.size(), d.size())
    return of(a, b, wanted=np.kron(a, b))


@case("linalg.norm")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), scale=float(d.rng.choice([1e-30, 1.0, 1e30])))
    return of(x, wanted=np.linalg.norm(x.astype(np.float64).ravel()))


def lengths(name: str, axis: int) -> None:
    @case(f"linalg.{name}")
    def _(d: Drawn) -> Comparison:
        x = d.real(*(d.size() for _ in range(d.size(1, 3))), scale=float(d.rng.choice([1e-30, 1.0, 1e30])))
        return of(x, wanted=np.linalg.norm(x.astype(np.float64), axis=axis))


lengths("norms", -1)
lengths("norms_first", 0)


@case("linalg.norm1")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(x, wanted=np.linalg.norm(x.ravel(), 1))


@case("linalg.norm_max")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape())
    return of(x, wanted=np.abs(x).max(initial=0))


@case("linalg.normalized")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(), scale=float(d.rng.choice([0.0, 1.0, 1e30])))
    length = np.linalg.norm(x.astype(np.float64).ravel())
    return of(x, wanted=x / (length or 1.0))


@case("linalg.matvec")
def _(d: Drawn) -> Comparison:
    a = d.real(d.size(), d.size())
    x = d.real(a.shape[1])
    return of(a, x, wanted=a @ x)


@case("linalg.matmul")
def _(d: Drawn) -> Comparison:
    a = d.real(d.size(), d.size())
    b = d.real(a.shape[1], d.size())
    return of(a, b, wanted=a @ b)


@case("linalg.transpose")
def _(d: Drawn) -> Comparison:
    a = d.real(*d.shape(2), d.size(), d.size())
    return of(a, wanted=np.swapaxes(a, -1, -2), slack=0)


def square(d: Drawn, rank: int = 2) -> Array:
    n = d.size()
    return d.real(*d.shape(rank), n, n)


@case("linalg.diagonal")
def _(d: Drawn) -> Comparison:
    a = square(d)
    return of(a, wanted=np.diagonal(a, axis1=-2, axis2=-1), slack=0)


@case("linalg.trace")
def _(d: Drawn) -> Comparison:
    a = square(d)
    return of(a, wanted=np.trace(a, axis1=-2, axis2=-1))


@case("linalg.diagonal_matrix")
def _(d: Drawn) -> Comparison:
    x = d.real(*d.shape(2), d.size())
    return of(x, wanted=x[..., None] * np.eye(x.shape[-1], dtype=x.dtype), slack=0)


@case("linalg.identity")
def _(d: Drawn) -> Comparison:
    n = d.size()
    return of(wanted=np.eye(n), sizes=(n,), slack=0, single=True)


@case("linalg.lower")
def _(d: Drawn) -> Comparison:
    a = d.integers(*d.shape(2), d.size(), d.size())
    return of(a, wanted=np.tril(a))


@case("linalg.upper")
def _(d: Drawn) -> Comparison:
    a = d.real(*d.shape(2), d.size(), d.size())
    return of(a, wanted=np.triu(a), slack=0)


@case("linalg.band")
def _(d: Drawn) -> Comparison:
    a, below, above = d.real(*d.shape(2), d.size(), d.size()), d.size(-1), d.size(-1)
    return of(below, above, a, wanted=np.triu(np.tril(a, above), -below), slack=0)


@case("linalg.lower_mask")
def _(d: Drawn) -> Comparison:
    n, m = d.size(), d.size()
    return of(wanted=np.tri(n, m, dtype=bool), sizes=(n, m))


@case("linalg.upper_mask")
def _(d: Drawn) -> Comparison:
    n, m = d.size(), d.size()
    return of(wanted=np.triu(np.ones((n, m), bool)), sizes=(n, m))


def definite(d: Drawn, n: int) -> Array:
    """A symmetric matrix whose eigenvalues are 1, 2, …, in some basis."""
    q = np.linalg.qr(d.rng.standard_normal((n, n)))[0] if n else np.zeros((0, 0))
    return np.asarray(q @ np.diag(np.arange(1.0, n + 1)) @ q.T, d.element)


@case("linalg.power_iteration")
def _(d: Drawn) -> Comparison:
    n = d.size(1)
    a, steps = definite(d, n), d.size(0, 4)
    start = d.real(n)
    wanted = np.linalg.matrix_power(a.astype(np.float64), steps) @ start
    return of(steps, a, start, wanted=wanted / np.linalg.norm(wanted) if steps else start, slack=10)


@case("linalg.rayleigh")
def _(d: Drawn) -> Comparison:
    n = d.size(1)
    values, vectors = np.linalg.eigh(definite(d, n).astype(np.float64))
    a = np.asarray(vectors @ np.diag(values) @ vectors.T, d.element)
    return of(a, np.asarray(3 * vectors[:, 0], d.element), wanted=values[0], slack=10)


@case("linalg.conjugate_gradient")
def _(d: Drawn) -> Comparison:
    n = d.size()
    a, b, start = definite(d, n), d.real(n), d.real(n)
    return of(2 * n + 3, a, b, start, wanted=np.linalg.solve(a.astype(np.float64), b), slack=10)


@case("linalg.conjugate_gradient_of", "fun f steps (x : 'a[n]) b s = linalg.conjugate_gradient_of steps (fn p => p * x) b s")
def _(d: Drawn) -> Comparison:
    n = d.size()
    x, b, start = d.uniform(n, low=0.5, high=2), d.real(n), d.real(n)
    return of(2 * n + 3, x, b, start, wanted=b / x, slack=10)


@case("linalg.solve")
def _(d: Drawn) -> Comparison:
    n = d.size(0, 7)
    a = np.asarray(d.rng.permutation(definite(d, n)), d.element)  # well conditioned, and in need of pivots
    b = d.real(n, d.size())
    return of(a, b, wanted=np.linalg.solve(a.astype(np.float64), b), slack=10)


@case("linalg.inverse")
def _(d: Drawn) -> Comparison:
    a = np.asarray(d.rng.permutation(definite(d, d.size(0, 7))), d.element)
    return of(a, wanted=np.linalg.inv(a.astype(np.float64)), slack=10)


@case("linalg.cholesky")
def _(d: Drawn) -> Comparison:
    a = definite(d, d.size(0, 7))
    wanted = scipy.linalg.cholesky(a.astype(np.float64), lower=True) if len(a) else a
    return of(np.asarray(np.tril(a) + np.triu(np.full_like(a, np.nan), 1)), wanted=wanted, slack=10)


def triangle(d: Drawn, n: int) -> Array:
    """A lower triangular matrix, with NaN above the diagonal, where nobody looks."""
    low = np.tril(d.real(n, n) / 2, -1) + np.diag(np.exp(d.real(n) / 2)) + np.triu(np.full((n, n), np.nan), 1)
    return np.asarray(low, d.element)


@case("linalg.inverse_lower")
def _(d: Drawn) -> Comparison:
    low = triangle(d, d.size(0, 7))
    return of(low, wanted=np.linalg.inv(np.tril(low).astype(np.float64)), slack=100)


@case("linalg.solve_lower")
def _(d: Drawn) -> Comparison:
    n = d.size(0, 7)
    low, x = triangle(d, n), d.real(n)
    return of(low, x, wanted=np.linalg.solve(np.tril(low).astype(np.float64), x), slack=100)


@case("linalg.det")
def _(d: Drawn) -> Comparison:
    n = d.size()
    a = d.few(*d.shape(1), n, n) if d.size(0, 1) else d.real(*d.shape(1), n, n)  # some are singular
    return of(a, wanted=np.linalg.det(a.astype(np.float64)), slack=100)
