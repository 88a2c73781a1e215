"""`loop … while`: the steps that Python's `while` makes, and at most so many, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import axon

PROGRAM = """\
fun halved (x : f64[n]) most = loop (s = x, c = 0) while (sum i => s[i]) > 1.0 andalso c < 7 for _ < most => (s * 0.5, c + 1)
fun gcd (a : i32) (b : i32) = (loop (x = a, y = b) while y <> 0 for _ < 64 => (y, x % y)).1
fun gcds (a : i32[n]) (b : i32[n]) = for i => gcd a[i] b[i]
fun triangle (x : f64[n]) = for i => loop (s = x[i]) while s < 10.0 for j < i => s * 2.0
fun nested (x : f64[n]) =
  loop (s = x) while (max i => s[i]) > 1.0 for j < 50 =>
    loop (t = s) while (sum i => t[i]) > 2.0 for k < 3 => for i => t[i] * 0.9
fun guarded (p : bool[n]) (x : i32[n]) = for i => if p[i] then loop (s = x[i]) while 100 / s > 3 for _ < 9 => s + 1 else 0
fun outside (x : f64[n]) (limit : f64[n]) = for i => loop (s = x) while s[0] < limit[i] for _ < 5 => for j => s[j] + 1.0
fun found (x : i32[n]) (key : i32) = loop (k = 0) while x[k] <> key for _ < n - 1 => k + 1
fun failing (x : i32) = loop (s = x) while 6 / s > 1 for _ < 3 => s - 1
"""
TARGETS = ("interpret", "cpu", "simulate")
RNG = np.random.default_rng(7)


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("most", [0, 1, 4, 100])
def test_before_each_step(m: Any, target: str, most: int) -> None:
    for scale in (0.0, 0.3, 50.0):
        x = RNG.random(6) * scale
        want, steps = x, 0
        while steps < most and want.sum() > 1.0 and steps < 7:
            want, steps = want * 0.5, steps + 1
        got, count = m.halved(x, most, target=target)
        np.testing.assert_allclose(got, want)
        assert count == steps


@pytest.mark.parametrize("target", TARGETS)
def test_each_index_ends_by_itself(m: Any, target: str) -> None:
    a, b = RNG.integers(0, 1000, (2, 40)).astype(np.int32)
    np.testing.assert_array_equal(m.gcds(a, b, target=target), np.gcd(a, b))
    assert m.gcd(48, 18, target=target) == 6
    x, want = RNG.random(9) * 3, []
    for i, s in enumerate(x):
        steps = 0
        while steps < i and s < 10.0:
            s, steps = s * 2.0, steps + 1
        want.append(s)
    np.testing.assert_allclose(m.triangle(x, target=target), want)
    start, limit = RNG.random(3), np.array([-1.0, 2.5, 99.0])
    steps = [max(0, min(5, int(np.ceil(most - start[0])))) for most in limit]
    np.testing.assert_allclose(m.outside(start, limit, target=target), [start + k for k in steps])
    empty = np.zeros(0)
    assert m.gcds(a[:0], b[:0], target=target).shape == m.triangle(empty, target=target).shape == (0,)


@pytest.mark.parametrize("target", TARGETS)
def test_loops_in_loops(m: Any, target: str) -> None:
    x = want = RNG.random(5) * 20
    for _ in range(50):
        if not want.max() > 1.0:
            break
        for _ in range(3):
            if want.sum() > 2.0:
                want = want * 0.9
    np.testing.assert_allclose(m.nested(x, target=target), want)


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_condition_may_not_do(m: Any, target: str) -> None:
    p, x = np.array([True, False, True]), np.array([20, 0, 99], np.int32)
    np.testing.assert_array_equal(m.guarded(p, x, target=target), [26, 0, 99])  # 0 is divided by in a branch that is not taken
    assert m.found(np.array([5, 3, 9, 3], np.int32), 9, target=target) == 2
    assert m.failing(7, target=target) == 7
    with pytest.raises(axon.AxonError, match="AX05"):  # 3, 2, 1, and then 6 / 0 is asked after the last step
        m.failing(3, target=target)


@pytest.mark.parametrize("size", [4, 200_000])
def test_small_and_large_steps_of_the_processor(m: Any, size: int) -> None:
    """One native function, and step by step by the host."""
    x = np.full(size, 40.0 / size)
    got, count = m.halved(x, 100, target="cpu")
    np.testing.assert_allclose(got, x * 0.5**6)
    assert count == 6
