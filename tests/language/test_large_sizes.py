"""Sizes beyond what can be reasoned about are one error of the program; divisors are at least 1, whatever their names are."""

import numpy as np
import pytest

import axon
from axon import compiler

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


_QUOTIENT = """
fun flattened x (g : f32[c, h, w]) =
  let val flat = for n (i, j, k) => x[n, i, j, k]
      val mean = for n => sum i => flat[n, i]
  in for n i j k => flat[n, (i, j, k)] - mean[n] + g[i, j, k] end
"""


def test_a_quotient_of_sizes_is_as_large_as_it_is() -> None:
    """Not as large as what is divided: of the sizes of a layer normalization, c * h * w * i * j would be beyond 2^31."""
    program = axon.compile(_QUOTIENT).flattened
    wide, image = np.broadcast_to(np.float32(1), (1, 3, 2**16, 1)), np.broadcast_to(np.float32(2), (2**16, 3, 1))
    assert program(wide, image).shape == (1, 2**16, 3, 1)


@pytest.mark.parametrize(
    ("text", "shape", "code"),
    [
        ("fun f {a, b} (x : f32[n]) where b >= 1 = sum for i < a * n / b => 1.0", (3, 2**30, 2**30), None),
        ("fun f {a, b} (x : f32[n]) where b >= 1 = sum for i < a * n / b => 1.0", (3, 2**30, 1), "AX0501"),
        ("fun f {a, b} (x : f32[n]) where a >= 1, b >= 1 = for i < a * (n / b) => x[i / a]", (3, 2**30, 4), None),
        ("fun f {a, b} (x : f32[n]) where n >= 1 = if b >= 1 then sum for i < a / b => x[0] else 0.0", (3, 2**30, 0), None),
    ],
)
def test_what_a_quotient_makes_is_limited(text: str, shape: tuple[int, int, int], code: str | None) -> None:
    n, a, b = shape
    program = axon.compile(text).f
    if code is None:
        program[a, b](np.ones(n, np.float32))
    else:
        with pytest.raises(axon.AxonError) as caught:
            program[a, b](np.ones(n, np.float32))
        assert [d.code for d in caught.value.diagnostics] == [code]


def test_a_size_that_was_compared_before_it_is_a_range_is_limited_as_one():
    text = "fun f {a, b} (x : f32[n]) = let val t = for i < n => if a * b > 5 then x[i] else 0.0 in for i < a * b => t[i % n] end"
    program = compiler.lower(compiler.check_text(text), "f", None)
    assert [str(limit.relation) for limit in program.contract.limits] == ["a * b <= 2147483647"]
