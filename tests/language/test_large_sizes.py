"""Sizes beyond what can be reasoned about are one error of the program; divisors are at least 1, whatever their names are."""

import numpy as np
import pytest

import axon

_SQUARES = " ".join("val z = for (i, j) => z[i] * z[j]" for _ in range(6))
_HALVES = "(" * 64 + "n" + " / 2)" * 64
_MANY = [f"j{i}" for i in range(70)]


@pytest.mark.parametrize(
    "text",
    [
        f"fun f (x : f32[n, m]) = let val z = for (i, j) => x[i, j] {_SQUARES} in z end",
        f"fun f (x : f32[n, m]) = let val z = for (i, j) => x[i, j] {_SQUARES} in z end\nfun g x = f x\nfun h (x : f32[n]) = x",
        "fun sq (x : f32[n]) = for (i, j) => x[i] * x[j]\nfun f (x : f32[n]) = x" + " |> sq" * 9,
        f"fun f (x : f32[n]) = for i < {_HALVES} => 1.0",
        f"fun f (x : f32[n]) = x[0 : {' * '.join(['n'] * 66)}]",
        f"fun f (x : f32[n]) = for ({', '.join(_MANY)}) => {' + '.join(f'x[{j}]' for j in _MANY)}",
        f"fun f (x : f32[n]) = for {', '.join(f'{j} < 2' for j in _MANY)} => x[({', '.join(_MANY)})]",
        f"fun g (x : f32[n]) (y : f32[{' * '.join(['n'] * 40)}]) = x\nfun f (x : f32[n * n]) y = g x y",
    ],
    ids=range(8),
)
def test_too_large(text: str) -> None:
    assert [d.code for d in axon.check(text)] == ["AX0309"]


@pytest.mark.parametrize(("m", "k"), [("m", "k"), ("k", "m")])
def test_a_difference_divides_whatever_its_names_are(m: str, k: str) -> None:
    head = f"fun f (x : f32[n, {m}, {k}])"
    assert axon.compile(f"{head} = for i < n / (3 - m) => i")["f"].signature.endswith("-> i32[n / (3 - m)] where m <= 2")
    split = axon.compile(f"{head} where k > m = for i < k - m, j => x[(i, j), 0, 0]")
    assert split["f"].signature.endswith("-> f32[k - m, n / (k - m)] where m >= 1, n % (k - m) = 0")
    sizes = {"m": 1, "k": 3}
    assert split.f(np.zeros((4, sizes[m], sizes[k]), np.float32)).shape == (2, 2)
    assert axon.compile(f"{head} where k > m = for i => x[i * (k - m), 0, 0]")["f"].signature.endswith(
        "[(n - 1) / (k - m) + 1] where m >= 1, m < k"
    )


@pytest.mark.parametrize(
    "text",
    [
        "fun f (x : f32[n / (3 - m)]) (y : f32[n, m]) where n >= 1 = y[0, 3]",
        "fun f (x : f32[n, m, k]) where n % (k - m) >= 0 = x[0, m - k - 1, 0]",
        "fun f (x : f32[n / (0 - m)]) (y : f32[n, m]) = x",
    ],
)
def test_a_written_divisor_is_at_least_1(text: str) -> None:
    assert next(d.code for d in axon.check(text)) in ("AX0305", "AX0310")
