"""A size of a function's result is one in every call that its contract admits, also where the range around it is empty."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product

import numpy as np
import pytest

import axon

Shape = Callable[[int, int], tuple[int, ...] | None]  # None: refused

CASES: list[tuple[str, str, Shape]] = [
    ("for i < n => x[1 :]", "n >= 1", lambda n, m: (n, n - 1) if n else None),
    ("for i < n => for j < n - 1 => x[j]", "n >= 1", lambda n, m: (n, n - 1) if n else None),
    ("for i < n => for j < n - 2 => x[j] * y[i]", "n <= m, n >= 2", lambda n, m: (n, n - 2) if 2 <= n <= m else None),
    ("for i < n => for j < m / n => x[i]", "n >= 1", lambda n, m: (n, m // n) if n else None),
    ("for i < n => x[: n / 2]", "", lambda n, m: (n, n // 2)),
    ("for i < n => for j < m => x[1 : n - 1]", "n >= 2", lambda n, m: (n, m, n - 2) if n >= 2 else None),
    ("let fun g (v : f32[p]) = for i < p => v[1 :] in g x end", "n >= 1", lambda n, m: (n, n - 1) if n else None),
    ("if m > 2 then (for i < n => x[1 :]) else (for i < n => x[: n - 1])", "n >= 1",
     lambda n, m: (n, n - 1) if n else None),
    # what is used up inside is asked for where it is used
    ("for i < n => sum for j < n - 1 => x[j]", "", lambda n, m: (n,)),
    ("for i < n => sum for j < m / n => x[i] + y[j]", "", lambda n, m: (n,)),
]  # fmt: skip


@pytest.mark.parametrize(("body", "where", "shape"), CASES, ids=[body for body, _, _ in CASES])
def test_results_have_the_sizes_that_are_promised(body: str, where: str, shape: Shape) -> None:
    f = axon.compile(f"fun f (x : f32[n]) (y : f32[m]) = {body}").f
    assert str(f.signature).partition(" where ")[2] == where
    for target, (n, m) in product(("interpret", "cpu"), product(range(4), range(4))):
        try:
            found = np.shape(f(np.ones(n, np.float32), np.ones(m, np.float32), target=target))
        except axon.ShapeError as error:
            assert error.diagnostics[0].code == "AX0501"
            found = None
        assert found == shape(n, m), (n, m)


def test_a_size_that_a_parameter_has_is_one() -> None:
    f = axon.compile("fun f (x : f32[n]) (y : f32[n - 1]) = for i < n => y").f
    assert str(f.signature) == "sig f : f32[n] -> f32[n - 1] -> f32[n, n - 1]"
    with pytest.raises(axon.ShapeError):
        f(np.ones(0, np.float32), np.ones(0, np.float32))


def test_parts_of_records_and_of_pairs() -> None:
    f = axon.compile("fun f (x : f32[n]) (y : f32[m]) = { a = for i < n => x[1 :], b = (m, for i < n => y[: m - 2]) }").f
    assert str(f.signature) == "sig f : f32[n] -> f32[m] -> { a : f32[n, n - 1], b : (i32, f32[n, m - 2]) } where n >= 1, m >= 2"


def test_the_message_says_what_makes_the_size() -> None:
    f = axon.compile("fun f (x : f32[n]) = for i < n => x[1 :]").f
    with pytest.raises(axon.ShapeError) as caught:
        f(np.ones(0, np.float32))
    assert "the slice of dimension 1 of `x` ends before it starts" in str(caught.value)
