"""Contracts say the least that is needed: what an equation beside them says already is left out."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

import axon
from tests.clock import at_most


@pytest.mark.parametrize(
    ("source", "facts"),
    [
        ("fun f {h, k} (x : f32[n]) where n = h * k = for i < h => x[i * k]", "k >= 1, h * k = n"),
        ("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h)]", "h <= n, n % h = 0"),
        ("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h) + n / h - 1]", "h <= n, n % h = 0"),
        ("fun f (x : f32[n]) where n % 4 = 0 = for i < 4 => x[i * (n / 4)]", "n >= 4, n % 4 = 0"),
        ("fun f (x : f32[n]) (y : f32[m]) where n % m = 0, m >= 1 = for j < n => y[j / (n / m)]", "n % m = 0"),
    ],
)
def test_beside_an_equation(source: str, facts: str) -> None:
    assert axon.compile(source)["f"].signature.partition(" where ")[2] == facts


@pytest.mark.parametrize(
    ("facts", "body", "expected"),
    [
        ("n % m = k, m % k = 0", "x[n / m, 0, 0]", "m % k = 0, k = n % m"),
        ("n % m = k, m % k = 0, n / 2 = m", "x[n / m, 0, 0]", "m = n / 2, m % k = 0, k = n % m"),
        ("m % k = 0, n % m = 0, (n - m) % k = 0", "for i < n / m => x[i * m, 0, 0]", "n % m = 0, m % k = 0"),
        ("n / m >= 1, m % k = 0, min n m >= 1", "x[n - m, m - k, 0]", "n / m >= 1, m % k = 0"),
        ("n % m = 0, m % k = 0, n / k <= m", "x[n - m, m - k, 0]", "m <= n, n / k <= m, n % m = 0, m % k = 0"),
    ],
)
def test_in_any_order(facts: str, body: str, expected: str) -> None:
    for order in permutations(facts.split(", ")):
        source = f"fun f (x : f32[n, m, k]) where {', '.join(order)} = {body}"
        assert axon.compile(source)["f"].signature.partition(" where ")[2] == expected, source


def test_what_is_left_keeps_every_access_inside() -> None:
    f = axon.compile("fun f {h} (x : f32[n]) where n % h = 0 = for i < h => x[i * (n / h) + n / h - 1]").f
    for h in range(5):
        for n in range(9):
            fits = h >= 1 and n % h == 0 and n >= h
            x = np.arange(n, dtype=np.float32)
            if fits:
                assert f[h](x, target="interpret").tolist() == [(i + 1) * (n // h) - 1 for i in range(h)]
            else:
                with pytest.raises(axon.AxonError, match="AX0501"):
                    f[h](x, target="interpret")


THREE = "fun f (x : f32[n]) (y : f32[m]) (z : f32[k])"


@pytest.mark.parametrize(
    ("facts", "expected"),
    [
        ("n - n / 2 >= 3", "n >= 5"),
        ("n <= n / 2", "n = 0"),
        ("n <= n * 0", "n = 0"),
        ("n <= n % 2", "n <= 1"),
        ("n % 2 <= 0", "n % 2 = 0"),
        ("k * k <= k, k >= 1, k * k <= m", "k = 1, m >= 1"),
        ("m / 2 = 0, m >= 1", "m = 1"),
        ("m / 3 = 2, m % 3 = 1", "m = 7"),
        ("m <> n, m <= n", "m < n"),
        ("min m k <= 0", "min m k = 0"),
        ("n = 1, max (n - m) 0 = 1", "m = 0, n = 1"),
        ("m = 2, m < k", "m = 2, k >= 3"),
        ("max n m = k", "max n m = k"),
        ("max n m >= k, n <= k, m <= k", "max n m = k"),
        ("n = m, m % 16 = 0, n % 16 = 0", "n = m, n % 16 = 0"),
        ("n + m <= 0", "n = 0, m = 0"),
        ("min n (min m k) <= 2, n >= 3, k >= 5", "n >= 3, m <= 2, k >= 5"),
        ("n % (m - k) = 0", "n % (m - k) = 0"),  # each divisor is at least 1
        ("n < m + max 0 (k - m), n < m + max 0 (m - k)", "n < m"),  # one of the two is n < m, and says so
        ("max (n - 3) (m - k) >= 0, max (n - 3) (2 * n - m + k - 6) >= 0", "n >= 3"),
        ("max (n - 3) (m - k) >= 0, max (n - 3) (k - m + 1) >= 0", "max (n - 3) (m - k) >= 0, max (n - 3) (k - m + 1) >= 0"),
        # as they are written
        ("m % (k / 2) = 0", "m % (k / 2) = 0"),
        ("(min n m + (m - n)) % n = 0", "(m + min n m) % n = 0"),
        ("(m % 2 + max n k) % (k / n) = 0", "(m % 2 + max n k) % (k / n) = 0"),
    ],
)
def test_is_simplified_in_any_order(facts: str, expected: str) -> None:
    for order in permutations(facts.split(", ")):
        signature = axon.compile(f"{THREE} where {', '.join(order)} = 0")["f"].signature
        assert signature.partition(" where ")[2] == expected
        assert axon.compile(f"sig {signature.removeprefix('sig ')}\n{THREE} = 0")["f"].signature == signature, "printed again"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("fun f (x : f32[n]) (y : f32[m]) = x[min m n]", "m < n"),
        ("fun f (x : f32[n]) = x[min n 2]", "n >= 3"),
        ("fun f (x : f32[n]) (y : f32[m]) (z : f32[k]) = x[min m k]", "min m k < n"),
    ],
)
def test_an_index_that_is_a_minimum(source: str, expected: str) -> None:
    assert axon.compile(source)["f"].signature.partition(" where ")[2] == expected


def test_indices_that_are_halves_of_sizes_of_a_ring() -> None:
    """As short as each access asks by itself, though 30 facts with cases stand beside each other: nothing makes two sizes equal."""
    count = 10
    parameters = " ".join(f"(x{i} : i32[n{i}])" for i in range(count))
    around = [[f"n{(i + j) % count}" for j in range(4)] for i in range(count)]
    body = " + ".join(f"x{i}[max {b} (min {c} {d}) / 2]" for i, (_, b, c, d) in enumerate(around))
    with at_most(4):  # of about 0.7, on a machine that does nothing else; without what is seen by form, 8
        f = axon.compile(f"fun f {parameters} = {body}")["f"]
    needed = f.signature.partition(" where ")[2].split(", ")
    least = (f"min {' '.join(sorted((c, d)))} < 2 * {a}" for a, _, c, d in around)
    assert set(needed) == {*(f"{b} < 2 * {a}" for a, b, _, _ in around), *least}


@pytest.mark.parametrize("count", [3, 5, 20, 60, 400])
def test_sizes_that_a_cycle_makes_equal(count: int) -> None:
    parameters = " ".join(f"(x{i} : f32[n{i}])" for i in range(count))
    facts = [f"n{i} <= n{(i + 1) % count}" for i in range(count)]
    signature = axon.compile(f"fun f {parameters} where {', '.join(facts)} = x0 + x{count - 1}")["f"].signature
    assert signature.partition(" where ")[2] == ", ".join(f"n0 = n{i}" for i in range(1, count))


@pytest.mark.parametrize(
    ("callee", "caller", "signature"),
    [
        (
            "{a} (x : f32[n]) where n % a = 0 = for i < n / a => 1.0",
            "(x : f32[2 * n]) = g {n} x",
            "f32[2 * n] -> f32[2] where n >= 1",
        ),
        (
            "{a} (x : f32[n]) where n % a = 0 = x",
            "{k, m} (x : f32[k * m]) = g {k} x",
            "{k, m} -> f32[k * m] -> f32[k * m] where k >= 1",
        ),
        ("{a} (x : f32[n]) where n % a = 0 = x", "{k} (x : f32[n]) = g {k} x", "{k} -> f32[n] -> f32[n] where n % k = 0"),
        ("(y : f32[a]) (x : f32[n]) where n % a = 0 = x", "(x : f32[n]) = g x x", "f32[n] -> f32[n] where n >= 1"),
        ("{a} (x : f32[n]) where n / a = 1 = x", "(x : f32[n]) = g {n} x", "f32[n] -> f32[n] where n >= 1"),
        ("{a} (x : f32[n]) where n / a = 2 = x", "(x : f32[2 * n]) = g {n} x", "f32[2 * n] -> f32[2 * n] where n >= 1"),
    ],
)
def test_a_call_keeps_what_a_division_asks(callee: str, caller: str, signature: str) -> None:
    """A divisor is at least 1, also where the division is gone for the sizes of a call."""
    assert axon.compile(f"fun g {callee}\nfun f {caller}")["f"].signature == f"sig f : {signature}"


def test_a_divisor_of_0_breaks_a_callees_contract() -> None:
    with pytest.raises(axon.AxonError, match="needs a >= 1, and a is 0 here"):
        axon.compile("fun g {a} (x : f32[n]) where n % a = 0 = x\nfun f (x : f32[n]) = g {0} x")


@pytest.mark.parametrize("least", ["a * a", "a * a * a", "a * a * a * a", "a * a * a * b + a", "b * a * a * b + a"])
def test_a_power_is_no_less_than_its_root(least: str) -> None:
    f = axon.compile(f"fun f {{a, b}} (x : f32[n]) = if {least} < n then x[a] else 0.0").f
    assert str(f.signature) == "sig f : {a, b} -> f32[n] -> f32"


SQUARES = "fun diagonal (v : f32[p * p]) = for i < p => v[i * p + i]\nfun cube (v : f32[p * p * p]) = for i < p => v[i]\n"


@pytest.mark.parametrize(
    ("source", "signature"),
    [
        ("fun f {k} (x : f32[n]) where n = k * k = sum i => (diagonal x)[i]", "{k} -> f32[n] -> f32 where k * k = n"),
        ("fun f {k} (x : f32[n]) where n = k * k = diagonal x", "{k} -> f32[n] -> f32[k] where k * k = n"),
        ("fun f {k} (x : f32[n]) where n = k * k * k = cube x", "{k} -> f32[n] -> f32[k] where k * k * k = n"),
        ("fun f (x : f32[n]) (y : f32[m]) = (diagonal x, diagonal y)",
         "f32[n] -> f32[m] -> (f32[p], f32[k]) where p * p = n, k * k = m"),
    ],
)  # fmt: skip
def test_a_root_that_has_a_name_is_called_by_it(source: str, signature: str) -> None:
    f = axon.compile(SQUARES + source).f
    assert str(f.signature) == f"sig f : {signature}"
    if "{k}" in signature:
        power = 3 if "cube" in source else 2
        f[2](np.ones(2**power, np.float32))
        with pytest.raises(axon.AxonError, match="AX0501"):
            f[2](np.ones(3**power, np.float32))
