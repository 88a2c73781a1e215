"""`if a < b then a else b` of sizes is a size: the smaller one, however it is written, and whatever both have besides."""

from __future__ import annotations

import numpy as np
import pytest

import axon


@pytest.mark.parametrize(
    ("chosen", "shown"),
    [
        ("if k < n then k else n", "min k n"),
        ("if k <= n then k else n", "min k n"),
        ("if n > k then k else n", "min k n"),
        ("if k >= n then n else k", "min k n"),
        ("if k + 1 <= n then k else n", "min k n"),
        ("if k - 1 < n then k else n", "min k n"),
        ("if k > n then k else n", "max k n"),
        ("if k < n then n else k", "max k n"),
        ("if k > n then 0 else n - k", "max 0 (n - k)"),
        ("if k < n then 2 * k + 1 else n + k + 1", "k + min k n + 1"),
        ("if k <= 3 then k else 3", "min 3 k"),
    ],
)
def test_the_smaller_or_the_larger(chosen: str, shown: str) -> None:
    for text in (f"for i < ({chosen}) => x[i | 0.0]", f"let val w = {chosen} in for i < w => x[i | 0.0] end"):
        f = axon.compile(f"fun f {{k}} (x : f32[n]) = {text}").f
        assert f.signature == f"sig f : {{k}} -> f32[n] -> f32[{shown}]"
    value = axon.compile(f"fun f {{k}} (x : f32[n]) = {chosen}").f
    for n in range(5):
        for k in range(5):
            branches = {"k": k, "n": n}
            condition, then = chosen.removeprefix("if ").split(" then ")
            then, otherwise = then.split(" else ")
            wanted = eval(then if eval(condition, branches) else otherwise, branches)
            assert int(value[k](np.zeros(n, np.float32))) == wanted
            assert f[k](np.zeros(n, np.float32)).shape == (wanted,)


@pytest.mark.parametrize(
    "chosen",
    ["if k < n then 0 else 1", "if k < n then k else n + 2", "if k + 2 < n then k else n", "if k = n then k else n", "g x"],
)
def test_what_is_neither_is_not_called_data(chosen: str) -> None:
    text = f"fun g (x : f32[n]) = if n = 3 then 1 else 2  fun f {{k}} (x : f32[n]) = let val w = {chosen} in x[: w] end"
    (error,) = axon.check(text)
    assert error.code == "AX0308"
    assert error.labels[0].text == "a size is made of dimensions and numbers, by + - * / %, min and max alone"


@pytest.mark.parametrize("bound", ["d[0]", "d[0] + k", "c", "sum i => d[i]"])
def test_what_is_data_is_called_so(bound: str) -> None:
    (error,) = axon.check(f"fun f {{k}} (d : i32[n]) (c : i32) (x : f32[m]) = x[: {bound}]")
    assert error.labels[0].text == "its value is known only when the program runs"


def test_a_divisor_that_the_condition_keeps_from_0() -> None:
    """What is taken out of the branches is evaluated always."""
    f = axon.compile("fun f {k} (x : f32[n]) = if k > 0 then k + n / k else 1 + n / max k 1").f
    assert [int(f[k](np.zeros(6, np.float32))) for k in (0, 1, 3)] == [7, 7, 5]


def test_a_slice_with_a_step_whose_length_depends_on_an_index() -> None:
    (error,) = axon.check("fun f (x : f32[n]) where n % 2 = 0 = for i < 3 => x[i : n : 2]")
    (help_,) = error.suggestions
    assert help_.text == "name each element, with a bound that is a size: `for j < … => x[i + 2 * j]`"
    m = axon.compile("fun f (x : f32[n]) where n % 2 = 0 = for i < 2, j < n / 2 => x[i + 2 * j]")
    assert m.f(np.arange(4, dtype=np.float32)).tolist() == [[0, 2], [1, 3]]


@pytest.mark.parametrize(
    "body", ["x[: n / (-2)]", "for i < n / (-2) => x[i]", "for i => x[i] + cast _ (i / (-2))", "x[0 : n % (1 - 3)]"]
)
def test_a_size_divided_by_a_number_below_1_is_one_error(body: str) -> None:
    (error,) = axon.check(f"fun f (x : f32[n]) = {body}")
    assert (error.code, error.message) == ("AX0305", "a size is divided by -2: a divisor must be at least 1")


@pytest.mark.parametrize(
    ("size", "asked"),
    [("b / a", "a >= 1"), ("max 4 (b / a)", "a >= 1"), ("min 4 (b % a)", "a >= 1"), ("max 4 (b / (a - 2))", "a >= 3"),
     ("b / 2", "")],
)  # fmt: skip
def test_what_a_size_in_braces_divides_by_is_at_least_1_in_every_call(size: str, asked: str) -> None:
    m = axon.compile(f"fun given {{p}} = p\nfun f (x : f32[a]) (y : f32[b]) = given {{{size}}}")
    assert str(m.f.signature) == "sig f : f32[a] -> f32[b] -> i32" + (f" where {asked}" if asked else "")
    if asked:
        with pytest.raises(axon.ShapeError, match="AX0501"):
            m.f(np.zeros(0, np.float32), np.zeros(5, np.float32))
