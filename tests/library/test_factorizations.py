"""Derivatives of Cholesky factors and of triangular systems, by rules of their own, beside differences and PyTorch's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon

TARGETS = ("interpret", "cpu", "simulate")
PROGRAM = """
import linalg
fun factor (a : f64[n, n]) = linalg.cholesky a
fun pulled (a : f64[n, n]) (w : f64[n, n]) = (vjp factor a w).2
fun pushed (a : f64[n, n]) (da : f64[n, n]) = (jvp factor a da).2
fun forward_over_reverse w a da = (jvp (fn a => pulled a w) a da).2
fun reverse_over_reverse w a da = grad (fn a => sum i j => da[i, j] * (pulled a w)[i, j]) a
fun reverse_over_forward w a da = grad (fn a => sum i j => w[i, j] * (pushed a da)[i, j]) a
fun narrow (a : f32[n, n]) (w : f32[n, n]) = (vjp (fn a => linalg.cholesky a) a w).2
fun each (a : f64[b, n, n]) (w : f64[b, n, n]) = for c => pulled a[c, :, :] w[c, :, :]

fun solved (l : f64[n, n], x : f64[n]) = linalg.solve_lower l x
fun solved_pulled (l : f64[n, n]) (x : f64[n]) (w : f64[n]) = (vjp solved (l, x) w).2
fun solved_pushed (l : f64[n, n]) (x : f64[n]) dl dx = (jvp solved (l, x) (dl, dx)).2

fun density (a : f64[n, n]) (x : f64[n]) =
  let val l = linalg.cholesky a val z = linalg.solve_lower l x in -0.5 * (sum i => z[i] ** 2.0) - sum i => log l[i, i] end
fun density_gradient (a : f64[n, n]) (x : f64[n]) = grad (fn a => density a x) a
fun density_bends (a : f64[n, n]) (x : f64[n]) (da : f64[n, n]) = (jvp (fn a => density_gradient a x) a da).2
"""
NAN = np.triu(np.full((6, 6), np.nan), 1)


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


def definite(n: int) -> Any:
    x = np.random.default_rng(n).normal(size=(n, n))
    return x @ x.T + 0.1 * (n + 1) * np.eye(n)


def weights(n: int, seed: int) -> Any:
    return np.random.default_rng([n, seed]).normal(size=(n, n))


def mirrored(a: Any) -> Any:
    """What the part on and below the diagonal says of the whole."""
    return np.tril(a) + np.tril(a, -1).T


def by_differences(f: Any, a: Any, step: float = 1e-6) -> Any:
    slope = np.zeros_like(a)
    for place in np.ndindex(a.shape):
        e = np.zeros_like(a)
        e[place] = step
        slope[place] = (f(a + e) - f(a - e)) / (2 * step)
    return slope


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [0, 1, 2, 6])
def test_a_factor_by_differences(m: Any, n: int, target: str) -> None:
    a, w, da = definite(n), weights(n, 1), weights(n, 2)

    def f(a: Any) -> Any:
        return (w * np.tril(np.linalg.cholesky(mirrored(a)))).sum() if n else 0.0

    np.testing.assert_allclose(m.pulled(a, w, target=target), by_differences(f, a), rtol=1e-6, atol=1e-7)
    given = a + (NAN if n == 6 else 0.0)  # nobody looks above the diagonal
    np.testing.assert_array_equal(m.pulled(given, w, target=target), m.pulled(a, w, target=target))
    moved = np.linalg.cholesky(mirrored(a + 1e-6 * da)) - np.linalg.cholesky(mirrored(a - 1e-6 * da)) if n else da
    np.testing.assert_allclose(m.pushed(a, da, target=target), moved / 2e-6, rtol=1e-6, atol=1e-7)


def test_each_of_many_and_in_f32(m: Any) -> None:
    a, w = np.stack([definite(5), 2.0 * definite(5)]), np.stack([weights(5, 1), weights(5, 2)])
    wanted = np.stack([m.pulled(*one) for one in zip(a, w, strict=True)])
    np.testing.assert_allclose(m.each(a, w), wanted, rtol=1e-13, atol=1e-14)
    assert m.narrow(a[0].astype(np.float32), w[0].astype(np.float32)) == pytest.approx(wanted[0], rel=2e-4, abs=2e-5)


@pytest.mark.parametrize("n", [1, 2, 7, 15])
def test_a_factor_as_in_pytorch_to_the_second_order(m: Any, n: int) -> None:
    torch = pytest.importorskip("torch")
    a, w, da = definite(n), weights(n, 1), weights(n, 2)

    def factor(a: Any) -> Any:
        return torch.linalg.cholesky(torch.tril(a) + torch.tril(a, -1).T)

    at, weight, step = (torch.tensor(x, requires_grad=x is a) for x in (a, w, da))
    (slope,) = torch.autograd.grad((factor(at) * weight).sum(), at, create_graph=True)
    (bend,) = torch.autograd.grad((slope * step).sum(), at)
    _, moved = torch.func.jvp(factor, (at.detach(),), (step,))

    def same(found: Any, wanted: Any) -> None:
        np.testing.assert_allclose(found, wanted.detach().numpy(), rtol=1e-10, atol=1e-11)

    same(m.pulled(a, w), slope)
    same(m.pushed(a, da), moved)
    same(m.forward_over_reverse(w, a, da), bend)
    same(m.reverse_over_reverse(w, a, da), bend)
    same(m.reverse_over_forward(w, a, da), bend)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("n", [1, 2, 6])
def test_a_triangular_system_by_differences(m: Any, n: int, target: str) -> None:
    low, dl = np.linalg.cholesky(definite(n)), weights(n, 3)
    x, w, dx = weights(n, 4)[0], weights(n, 5)[0], weights(n, 6)[0]
    found = m.solved_pulled(low, x, w, target=target)
    np.testing.assert_allclose(
        found[0], by_differences(lambda low: w @ np.linalg.solve(np.tril(low), x), low), rtol=1e-6, atol=1e-7
    )
    np.testing.assert_allclose(found[1], by_differences(lambda x: w @ np.linalg.solve(low, x), x), rtol=1e-6, atol=1e-7)
    sides = [np.linalg.solve(np.tril(low + s * dl), x + s * dx) for s in (1e-6, -1e-6)]
    np.testing.assert_allclose(m.solved_pushed(low, x, dl, dx, target=target), (sides[0] - sides[1]) / 2e-6, rtol=1e-6, atol=1e-7)


def test_the_density_of_a_normal_vector_has_the_gradient_that_algebra_gives(m: Any) -> None:
    """By the whole of a symmetric covariance it is (v v^T - inverse) / 2, for v = inverse x; half of that is above the diagonal."""
    n = 8
    a, x, da = definite(n), weights(n, 1)[0], mirrored(weights(n, 2))

    def gradient(a: Any) -> Any:
        inverse = np.linalg.inv(a)
        v = inverse @ x
        whole = (np.outer(v, v) - inverse) / 2
        return 2 * np.tril(whole) - np.diag(np.diag(whole))

    np.testing.assert_allclose(m.density_gradient(a, x), gradient(a), rtol=1e-9, atol=1e-11)
    bends = (gradient(a + 1e-6 * da) - gradient(a - 1e-6 * da)) / 2e-6
    np.testing.assert_allclose(m.density_bends(a, x, da), bends, rtol=1e-5, atol=1e-6)


def test_what_is_not_definite_has_nan(m: Any) -> None:
    a = np.array([[1.0, 2.0], [2.0, 1.0]])
    assert np.isnan(m.factor(a)[1, 1])
    assert np.isnan(m.pulled(a, np.ones((2, 2)))).any()
