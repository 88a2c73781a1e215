"""Sizes that an error names as the nearest that fit do fit, and those between do not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import axon
from axon.base.nearest import MAX_DISTANCE, MAX_SIZE, legal_sizes


def zeros(*shape: int, element: type = np.int8) -> np.ndarray:
    return np.broadcast_to(np.zeros((), element), shape)


def message(program: str, sizes: tuple[int, ...], *arguments: np.ndarray) -> str:
    f = axon.compile(program).f
    with pytest.raises(axon.ShapeError) as caught:
        (f[sizes] if sizes else f)(*arguments)
    return str(caught.value)


def test_the_root_of_the_largest_size() -> None:
    assert "the nearest that fits is k = 46,340\n" in message("fun f {k} = for i < k * k => 1.0", (100_000,))


def test_a_product_of_sizes() -> None:
    found = message("fun f {k} (x : i8[n]) = for i < k * n => x[i % n]", (100_000,), zeros(100_000))
    assert "the nearest that fits is k = 21,474\n" in found
    assert "the nearest that fits is 21,474 for dimension 1 of `x`\n" in found
    found = message("fun f (x : i8[n]) (y : i8[m]) = for (i, j) => x[i] + y[j]", (), zeros(100_000), zeros(100_000))
    for name in "xy":
        assert f"the nearest that fits is 21,474 for dimension 1 of `{name}`\n" in found


def test_beside_other_facts() -> None:
    program = "fun f {k} (x : i8[n]) where n % 7 = 3 = for i < k * k * n => x[i % n]"
    found = message(program, (1000,), zeros(98_003))
    assert "the nearest that fits is k = 148\n" in found
    assert "the nearest that fits is 2,145 for dimension 1 of `x`\n" in found  # at most 2,147, and 3 modulo 7


def test_far_from_an_inequality() -> None:
    found = message("fun f {k} (x : i8[n]) = for i < k - n => x[i % n]", (1000,), zeros(100_000))
    assert "the nearest that fits is k = 100,000\n" in found
    assert "the nearest that fits is 1,000 for dimension 1 of `x`\n" in found


def test_two_sizes_together() -> None:
    """Of 3 * n = 2 * m with n = 9 there is no m, and with m = 5 no n."""
    program = "fun f (x : i8[n]) (y : i8[m]) where n * 3 = m * 2 = x"
    found = message(program, (), zeros(9), zeros(5))
    assert "the nearest that fit together are 4 for dimension 1 of `x` and 6 for dimension 1 of `y`\n" in found
    (error,) = axon.check(f"{program} fun g (x : i8[9]) (y : i8[5]) = f x y")
    assert error.notes == ("the nearest that fit together are n = 4 and m = 6",)


WHOLE = [
    ("n * m = 12, n < m", "n m", (4, 3), "3 for dimension 1 of `x` and 4 for dimension 2 of `x`"),
    ("h % 16 = 0, w % 16 = 0, h = w", "h w", (30, 40), "32 for dimension 1 of `x` and 32 for dimension 2 of `x`"),
    ("n % 1000003 = 0, n >= 1", "n", (5,), "1,000,003 for dimension 1 of `x`"),
    ("n % 1000 = 17, n % 1001 = 18", "n", (5,), "17 + 1000"),
    ("n = m, m = k, k % 64 = 0", "n m k", (3, 100, 90), "64 for dimension 1 of `x`, 64 for dimension 2 of `x` and 64 for"),
    ("n >= 1000000, m = 2 * n", "n m", (3, 100), "1,000,000 for dimension 1 of `x` and 2,000,000 for dimension 2 of `x`"),
    ("n + m + k = 100, n * m = k, n <= m", "n m k", (3, 100, 90), "0 for dimension 1 of `x` and 0 for dimension 3 of `x`"),
]


@pytest.mark.parametrize(("where", "names", "sizes", "expected"), WHOLE, ids=[where for where, *_ in WHOLE])
def test_what_is_named_satisfies_the_whole_contract(where: str, names: str, sizes: tuple[int, ...], expected: str) -> None:
    found = message(f"fun f (x : i8[{', '.join(names.split())}]) where {where} = x", (), zeros(*sizes))
    if expected == "17 + 1000":
        expected = f"{17 + 1000 * next(i for i in range(1001) if (17 + 1000 * i) % 1001 == 18):,} for dimension 1 of `x`"
    assert (expected in found) if expected else "nearest" not in found, found


def test_sizes_that_no_formula_has_fit_together_too() -> None:
    program = "fun f (x : i8[2 * n]) (y : i8[2 * m]) = x"
    found = message(program, (), zeros(5), zeros(3))
    assert "the nearest that fit together are 4 for dimension 1 of `x` and 2 for dimension 1 of `y`\n" in found
    (error,) = axon.check(
        "fun f (x : i8[h, w]) where h % 16 = 0, w % 16 = 0, h = w = x\nfun g (x : i8[30, 40]) = f x",
    )
    assert not [note for note in error.notes if "h = 40" in note or "w = 30" in note]


def test_extents_that_lie_far_apart() -> None:
    found = message("fun f (x : i8[n * (n + 1) / 2]) = for i < n => x[i]", (), zeros(100_000_000))
    assert "the nearest that fit are 99,991,011 and 100,005,153\n" in found
    found = message("fun f (x : i8[n * n]) where n % 2 = 0 = for i < n => x[i]", (), zeros(99_990_000))
    assert "the nearest that fits is 100,000,000\n" in found


@given(st.integers(0, MAX_SIZE), st.integers(0, MAX_SIZE), st.integers(1, 50), st.booleans())
def test_legal_sizes(actual: int, edge: int, step: int, below: bool) -> None:
    """The multiples of `step` on one side of an edge; 0 where there is no other."""

    def bound(n: int) -> bool:
        return n <= edge if below else n >= edge

    found = legal_sizes(actual, lambda n: bound(n) and n % step == 0, bound)
    least = 0 if below else -(-edge // step) * step
    most = edge // step * step if below else MAX_SIZE // step * step
    lower, upper = min((actual - 1) // step * step, most), max((actual // step + 1) * step, least)
    wanted = ((lower,) if lower >= least else ()) + ((upper,) if upper <= most else ())
    assert found == (wanted[1:] if wanted[1:] and wanted[0] == 0 else wanted)


def test_without_a_bound_only_near_sizes_are_sought() -> None:
    assert legal_sizes(10_000, lambda n: n in (10_000 - MAX_DISTANCE, 5)) == (10_000 - MAX_DISTANCE,)
