"""`infer`'s steps against NumPy; what only many draws show is in test_infer.py."""

from __future__ import annotations

import numpy as np
from scipy import special

from tests.library.library_case import ELSEWHERE, Array, Comparison, Drawn, case, of
from tests.library.random_cases import normal, uniform

ELSEWHERE |= dict.fromkeys(
    [
        *("infer.particle_filter", "infer.bootstrap", "infer.scattered", "infer.moved", "infer.untuned", "infer.learned"),
        *("infer.climbed", "infer.sampled", "infer.without", "infer.hmc", "infer.chees", "infer.tempered"),
    ],
    "test_infer.py",
)


def weights(d: Drawn, low: int = 0) -> Array:
    """Logarithms, -inf and NaN among them, but not alone."""
    w = d.real(d.size(low), scale=3.0)
    for i in range(1, len(w)):
        if d.size(0, 3) == 0:
            w[i] = (-np.inf, np.nan)[d.size(0, 1)]
    return w


def key(d: Drawn) -> Array:
    return d.rng.integers(0, 2**32, 2, np.uint32)


def plain(w: Array) -> Array:
    return np.exp(np.where(np.isnan(w), -np.inf, w).astype(np.float64))


@case("infer.weight", "fun f x = for i => infer.weight x[i]")
def _(d: Drawn) -> Comparison:
    w = weights(d)
    return of(w, wanted=np.where(np.isnan(w), -np.inf, w).astype(w.dtype), slack=0)


@case("infer.log_mean")
def _(d: Drawn) -> Comparison:
    w = weights(d)
    with np.errstate(divide="ignore"):
        return of(w, wanted=np.log(plain(w).mean()) if len(w) else -np.inf)


@case("infer.effective")
def _(d: Drawn) -> Comparison:
    w = weights(d)
    p = plain(w)
    return of(w, wanted=p.sum() ** 2 / (p**2).sum() if len(w) else 0.0)


@case("infer.shares")
def _(d: Drawn) -> Comparison:
    w = weights(d)
    p = plain(w)
    return of(w, wanted=(p / p.sum() if len(w) else p).astype(w.dtype))


@case("infer.resample")
def _(d: Drawn) -> Comparison:
    """Each as often as the points (i + u) / n hit its piece of the whole; the last piece also has what rounding left out."""
    w, k = weights(d, 1), key(d)
    ends = np.cumsum(plain(w - np.nanmax(w)).astype(w.dtype).astype(np.float64))
    points = (np.arange(len(w)) + 1 - uniform(k, 0, np.float64)) / len(w) * ends[-1]
    places = [next(i for i, end in enumerate(ends) if point <= end) for point in points]
    return of(w, k, wanted=np.array(places, np.int32))


@case(
    "infer.importance",
    """
import random
fun f {n} (a : 'a[k]) key =
  infer.importance {n} (fn key i => let val x = for j < k => random.normal key (i * k + j) in (x, sum j => -0.5 * x[j] * x[j]) end)
    (fn x => sum j => a[j] * x[j]) key""",
)
def _(d: Drawn) -> Comparison:
    k, n, a = key(d), d.size(1), d.real(d.size())
    x = np.array([[normal(k, i * len(a) + j, d.element) for j in range(len(a))] for i in range(n)], d.element).reshape(n, len(a))
    w = x @ a + 0.5 * (x**2).sum(1)
    p = plain(w)
    wanted = {"draws": x, "weights": w, "evidence": special.logsumexp(w) - np.log(n), "effective": p.sum() ** 2 / (p**2).sum()}
    return of(a, k, wanted=wanted, sizes=(n,), slack=10)


@case("infer.begun", "fun f a u = infer.begun (value_and_grad (fn x => sum j => a[j] * x[j] ** 2.0)) u")
def _(d: Drawn) -> Comparison:
    a, u = d.real(d.size()), d.size()
    x = d.real(u, len(a))
    return of(a, x, wanted={"u": x, "density": (a * x**2).sum(1), "slope": 2 * a * x}, slack=3)


@case(
    "infer.leapfrog",
    """fun f a step scale root n u p =
      infer.leapfrog (value_and_grad (fn x => sum j => a[j] * x[j] ** 2.0)) step scale root n u p (2.0 * a * u)""",
)
def _(d: Drawn) -> Comparison:
    """Half a kick, then drifts and kicks in turn, the last of which is half of one (Verlet); in a metric that is dense in part."""
    k, n = d.size(), d.size()
    a, u, p, scale, step = d.real(k), d.real(k), d.real(k), d.uniform(k, low=0.5), d.uniform(low=0.1, high=0.4)
    x, q = u.astype(np.float64), p.astype(np.float64)
    r = d.size(0, k)
    root = np.tril(d.real(r, r, scale=0.3))
    metric = np.diag(scale.astype(np.float64)) @ np.block([[root, np.zeros((r, k - r))], [np.zeros((k - r, r)), np.eye(k - r)]])
    for _ in range(n):
        q = q + step / 2 * metric.T @ (2 * a * x)
        x = x + step * metric @ q
        q = q + step / 2 * metric.T @ (2 * a * x)
    return of(a, step, scale, root, np.int32(n), u, p, wanted=tuple(y.astype(u.dtype) for y in (x, q, 2 * a * x)), slack=10)


def rooted(d: Drawn) -> tuple[Array, Array]:
    """A matrix, and a vector that may be longer than its sides."""
    k = d.size()
    r = d.size(0, k)
    return d.real(r, r), d.real(k)


@case("infer.turned")
def _(d: Drawn) -> Comparison:
    root, p = rooted(d)
    return of(root, p, wanted=np.append(root @ p[: len(root)], p[len(root) :]))


@case("infer.turned_back")
def _(d: Drawn) -> Comparison:
    root, p = rooted(d)
    return of(root, p, wanted=np.append(root.T @ p[: len(root)], p[len(root) :]))


@case("infer.rooted")
def _(d: Drawn) -> Comparison:
    """A matrix that has no factor, or whose factor nobody wants, gives the other."""
    k, kind = d.size(1), d.size(0, 2)
    root, other = np.tril(d.real(k, k, scale=0.3)) + np.eye(k, dtype=d.element), d.real(k, k)
    a = root @ root.T if kind else -root @ root.T
    return of(np.bool_(kind != 2), a, other, wanted=np.linalg.cholesky(a) if kind == 1 else other, slack=100)


@case("infer.jitter")
def _(d: Drawn) -> Comparison:
    """A half and Halton's sequence of base 2: the digits of t + 1, from the point to the right."""
    t = d.size(0, 1000)
    return of(np.int32(t), wanted=np.float32(0.5 + halton(t)), single=True)


def halton(t: int) -> float:
    return int(f"{t + 1:b}"[::-1], 2) / 2 ** len(f"{t + 1:b}")


@case("infer.steps_of")
def _(d: Drawn) -> Comparison:
    step, length, t = np.log(d.uniform(low=0.01, high=1.0)), np.log(d.uniform(low=0.1, high=20.0)), d.size(0, 50)
    steps = np.ceil((0.5 + halton(t)) * np.exp(length - step))
    return of(step, length, np.int32(t), wanted=np.int32(min(1000, max(1, steps))))


def ends(warmup: int) -> list[int]:
    """Where windows end, as Stan's reference manual tells it: 30, 20, 40, 80, …, 50, of which the last is stretched."""
    found, at, size = [], 30, 20
    while at < warmup - 50:
        at = at + size if at + size + 2 * size <= warmup - 50 else warmup - 50
        found.append(at)
        size *= 2
    return found


@case("infer.windows", "fun f {n} = for t < n => infer.windows n t")
def _(d: Drawn) -> Comparison:
    n = d.rng.integers(150, 2000)
    rows = np.full(n, 30, np.int32), np.full(n, n - 50, np.int32), np.isin(np.arange(n) + 1, ends(n))
    return of(wanted=rows, sizes=(int(n),))


PEAK = """
fun density (a : 'a[d, d]) (m : 'a[d]) (x : 'a[d]) = -0.5 * sum i j => (x[i] - m[i]) * a[i, j] * (x[j] - m[j])
"""


def bent(d: Drawn) -> tuple[Array, Array]:
    """A positive matrix and a place."""
    n = d.size(1, 4)
    root = d.real(n, n, scale=0.3) + np.eye(n, dtype=d.element)
    return (root @ root.T).astype(np.float64), d.real(n).astype(np.float64)


@case("infer.peak", PEAK + "fun f a m u = infer.peak (fn x => -log1p (-density a m x)) 200 u")
def _(d: Drawn) -> Comparison:
    """A density that is no quadratic: steps of Newton's alone would leave it."""
    a, m = bent(d)
    return of(a, m, m + d.rng.normal(size=len(m)), wanted=m, slack=1e7, double=True)


@case("infer.laplace", PEAK + "fun f a m = infer.laplace (density a m) m")
def _(d: Drawn) -> Comparison:
    a, m = bent(d)
    covariance = np.linalg.inv(a)
    evidence = 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    wanted = {"covariance": covariance, "root": np.linalg.cholesky(covariance), "evidence": evidence}
    return of(a, m, wanted=wanted, slack=1e4, double=True)
