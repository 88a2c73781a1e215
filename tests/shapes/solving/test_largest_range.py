"""Ranges that are inferred where those of inner indices depend on them: the largest that stays inside, by enumeration, or none."""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError
from tests.shapes.generate import sets

LONGEST = 30  # no range here that ends is as long
Affine = Callable[[int, int, int], int]


@pytest.mark.parametrize(
    ("body", "result"),
    [
        ("for i => sum for j < i + 1 => a[j + i]", "f64[(n + 1) / 2]"),
        ("for i => sum for j < i => a[j + i]", "f64[n / 2 + 1]"),
        ("for i => sum for j < i + 1 => a[2 * i + j]", "f64[(n + 2) / 3]"),
        ("for i => sum for j < i + 1 => a[i - j]", "f64[n]"),
        ("for i => sum for j < i + 1 => sum for k < j + 1 => a[i + j + k]", "f64[(n + 2) / 3]"),
        ("for i => sum for j < 3 => sum for k < j + 1 => a[i + j + k]", "f64[n - 4] where n >= 4"),
        ("for i => sum for j < i + 1, k < 2 => a[i + j + k]", "f64[n / 2]"),
        ("for i => sum for j < n - i => a[i + j] * a[3 * i]", "f64[(n + 2) / 3]"),  # another access decides
        ("for k < n => sum for i < n - k => a[i] * a[i + k]", "f64[n]"),
    ],
)
def test_the_largest_range_and_no_contract(body: str, result: str) -> None:
    f = axon.compile(f"fun f (a : f64[n]) = {body}").f
    assert f"f64[n] -> {result}>" in repr(f)


@pytest.mark.parametrize(
    ("parameters", "body"),
    [
        ("(a : f64[n])", "for i => sum for j < n - i => a[j] * a[j + i]"),
        ("(a : f64[n, n])", "for i => max for j < n - i => a[j, j + i]"),
        ("(a : f64[n])", "for i => sum for j < n - i => a[j + i]"),
        ("(a : f64[n])", "for i => max for j < n - 2 * i => a[i + j]"),
        ("(a : f64[n])", "for i => sum for j < n - i, k < n - i - j => a[i + j + k]"),
    ],
)
def test_an_access_that_stays_inside_for_every_index_bounds_none(parameters: str, body: str) -> None:
    with pytest.raises(AxonError) as caught:
        axon.compile(f"fun f {parameters} = {body}")
    shown = str(caught.value)
    assert "AX0302" in shown
    assert "state the bound: `i < n`   (checked: the file then passes)" in shown


@pytest.mark.parametrize(
    "body",
    [
        "for i => sum for j < min m (i + 1) => a[i + j] * b[j]",
        "for i => sum for j < i * i => a[i + j]",
        "for i => sum for j < i / 2 + 1 => a[i + j]",
        "for i => sum for j < n - i => a[2 * i + j]",  # 1 for n >= 2, and no end for n = 1
        "for i => sum for j < i - 3 => a[i + j]",  # the first that leaves may be one for which nothing is read
    ],
)
def test_what_has_no_exact_answer_is_not_known(body: str) -> None:
    with pytest.raises(AxonError, match="AX0302"):
        axon.compile(f"fun f (a : f64[n]) (b : f64[m]) = {body}")


def test_the_autocorrelation() -> None:
    f = axon.compile("fun auto (a : f64[n]) = for k < n => sum for i < n - k => a[i] * a[i + k]").auto
    assert f(np.arange(5.0)).tolist() == [30, 20, 11, 4, 0]


def test_what_is_inferred_is_the_largest_range() -> None:
    chosen, accepted = random.Random(7), 0
    for _ in range(sets(150)):
        c = (chosen.choice([-1, 1, 1, 2, 3]), chosen.choice([-2, -1, 1, 1, 2]), chosen.choice([0, 0, 1]), chosen.randint(-1, 2))
        d = (chosen.choice([-2, -1, 1, 1, 2]), 0, chosen.choice([0, 0, 1]), chosen.randint(-1, 2))
        index, bound = (affine(*terms) for terms in (c, d))
        body = f"for i => sum for j < {written(*d)} => a[{written(*c)}]"
        try:
            f = axon.compile(f"fun f (a : f64[n]) = {body}").f
        except AxonError:
            continue
        accepted += 1
        for n in range(7):
            expected = largest(index, bound, n)
            try:
                found = len(f(np.zeros(n), target="interpret"))
            except AxonError:  # an index is asked for at the ends of its range, also where that is empty
                assert expected == 0 or any(bound(i, 0, n) <= 0 for i in range(min(expected, LONGEST) + 1)), body
            else:
                assert found == expected, (body, n)
    assert accepted > 30


def affine(i: int, j: int, n: int, rest: int) -> Affine:
    return lambda at_i, at_j, size: i * at_i + j * at_j + n * size + rest


def written(i: int, j: int, n: int, rest: int) -> str:
    return (
        f"{rest} + {i} * i + {j} * j + {n} * n".replace("+ -", "- ").replace(" + 0 * j", "")
        if rest >= 0
        else (f"{written(i, j, n, 0)} - {-rest}")
    )


def largest(index: Affine, bound: Affine, n: int) -> int:
    """The first `i` for which an access leaves a tensor of n elements."""
    leaves = (i for i in range(LONGEST) if any(not 0 <= index(i, j, n) < n for j in range(bound(i, 0, n))))
    return next(leaves, LONGEST)
