"""Adjoints of what is read at indices that go round (`x[(i + r) % n]`) are gathers: each place is read by one index."""

from __future__ import annotations

import numpy as np
import pytest

import axon
from axon import compiler
from axon.core.ir import Compute
from tests.checked import checked

CROSS = "fun f (x : f64[3]) (y : f64[3]) (z : f64[3]) = vjp (fn x => for i < 3 => x[(i + 1) % 3] * y[(i + 2) % 3]) x z"
CIRCULAR = "fun f x w (z : f64[n]) where n > 0 = vjp (fn x => for i < n => sum k => w[k] * x[(i + k) % n]) (x : f64[n]) z"
BACKWARD = "fun f (x : f64[n]) (z : f64[n]) where n > 0 = vjp (fn x => for i < n => x[(4 - i) % n] ** 2.0) x z"
FEWER = "fun f (x : f64[n]) (z : f64[m]) where n > 0, m <= n = vjp (fn x => for i < m => x[(i + 3) % n] ** 2.0) x z"
MORE = "fun f (x : f64[n]) (z : f64[m]) where n > 0 = vjp (fn x => for i < m => x[(i + 3) % n] ** 2.0) x z"
BESIDE = "fun f (x : f64[n + 2]) (z : f64[n]) where n > 0 = vjp (fn x => for i < n => x[(i + 1) % n + 2] ** 2.0) x z"


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape)


def differences(f, x, z):
    """Of a function of x that is at most quadratic: exact but for rounding."""
    ones = np.eye(x.size)
    return np.array([((f(x + e) - f(x - e)) / 2 * z).sum() for e in ones])


def turned(n, m, at):
    return lambda x: np.array([x[at(i) % n] ** 2 for i in range(m)])


@pytest.mark.parametrize("text", [CROSS, CIRCULAR, BACKWARD, FEWER, BESIDE])
def test_none_is_a_scatter(text: str) -> None:
    program = compiler.lower(checked(text), "f", None)
    sums = [op.reduction for op in program.block.ops if isinstance(op, Compute) and op.reduction is not None]
    assert all(found.where is None for found in sums)
    assert all(len(found.axes) == 1 for found in sums)  # over the window, never over the places too


@pytest.mark.parametrize("target", ["interpret", "cpu"])
def test_numbers(target: str) -> None:
    x, y, z = random(3), random(3) + 1, random(3) - 1
    found = axon.compile(CROSS).f(x, y, z, target=target)[1]
    i = np.arange(3)
    np.testing.assert_allclose(found, differences(lambda x: x[(i + 1) % 3] * y[(i + 2) % 3], x, z), rtol=1e-12)
    for n, r in ((1, 1), (4, 2), (3, 5), (7, 7)):
        x, w, z = random(n), random(r) + 1, random(n) - 1
        found = axon.compile(CIRCULAR).f(x, w, z, target=target)[1]
        convolved = lambda x, w=w, n=n, r=r: np.array([sum(w[k] * x[(i + k) % n] for k in range(r)) for i in range(n)])
        np.testing.assert_allclose(found, differences(convolved, x, z), rtol=1e-12, atol=1e-13)
    for n, m in ((1, 1), (2, 1), (5, 5), (6, 2), (6, 0), (3, 8)):
        x, z = random(n), random(m) + 1
        wanted = differences(turned(n, m, lambda i: i + 3), x, z)
        np.testing.assert_allclose(axon.compile(MORE).f(x, z, target=target)[1], wanted, rtol=1e-12, atol=1e-13)
        if m <= n:
            np.testing.assert_allclose(axon.compile(FEWER).f(x, z, target=target)[1], wanted, rtol=1e-12, atol=1e-13)
    for n in (1, 2, 5):
        x, z = random(n), random(n) + 1
        found = axon.compile(BACKWARD).f(x, z, target=target)[1]
        np.testing.assert_allclose(found, differences(turned(n, n, lambda i: 4 - i), x, z), rtol=1e-12)
        long = np.concatenate([random(2), x])
        shifted = lambda x, n=n: np.array([x[(i + 1) % n + 2] ** 2 for i in range(n)])
        np.testing.assert_allclose(axon.compile(BESIDE).f(long, z, target=target)[1], differences(shifted, long, z), rtol=1e-12)
