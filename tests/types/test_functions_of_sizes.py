"""A call of a function of sizes is the size that its body is: everything is inferred as if it were written out."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import axon

FUNCTIONS = """
fun half n = n / 2
fun grown n k = n + 2 * half k
fun smaller a b = if a < b then a else b
fun last (x : 'a[n]) = n - 1
fun length (x : 'a[n, ..s]) = let val m = last (for i < n => 0) in m + 1 end
fun data (k : i32) (x : f32[n]) = if k = 3 then n else k
fun iota {n} = for i < n => i
"""
X = "fun f (x : f32[n]) (y : f32[m]) = "


@pytest.mark.parametrize(
    ("called", "written"),
    [
        ("for i < half n => x[i]", "for i < n / 2 => x[i]"),
        ("x[half n]", "x[n / 2]"),
        ("x[half n : grown n 0]", "x[n / 2 : n]"),
        ("for i => x[grown i 4]", "for i => x[i + 4]"),
        ("for i < smaller n m => x[i] * y[i]", "for i < min n m => x[i] * y[i]"),
        ("x[last x]", "x[n - 1]"),
        ("unfold (s = 0.0) for t < half (n + m) => s", "unfold (s = 0.0) for t < (n + m) / 2 => s"),
        ("let val h = half n in x[h :] end", "let val h = n / 2 in x[h :] end"),
        ("iota {last x}", "iota {n - 1}"),
        ("iota {2 * half (n + m) + last y}", "iota {2 * ((n + m) / 2) + m - 1}"),
        ("for i < n => if grown i 2 < n then x[i + 2] else 0.0", "for i < n => if i + 2 < n then x[i + 2] else 0.0"),
    ],
)
def test_written_out(called: str, written: str) -> None:
    one, other = (axon.compile(FUNCTIONS + X + text) for text in (called, written))
    assert str(one.f.signature) == str(other.f.signature)
    x, y = np.arange(7, dtype=np.float32), np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(one.f(x, y), other.f(x, y))


@pytest.mark.parametrize("called", ["for i < data m x => x[i]", "iota {data m x}", "for i < half (cast i32 x[0]) => x[0]"])
def test_what_is_no_arithmetic_on_sizes_is_none(called: str) -> None:
    (error,) = axon.check(FUNCTIONS + X + called)
    assert error.code == "AX0308"


def test_a_coercion_in_an_argument_is_asked() -> None:
    m = axon.compile(FUNCTIONS + "fun f {k} (x : f32[n]) = last (x as f32[k])")
    assert m.f[3](np.zeros(3, np.float32)) == 2
    with pytest.raises(axon.ShapeError, match="AX0501"):
        m.f[4](np.zeros(3, np.float32))


def test_functions_of_another_module(tmp_path: Path) -> None:
    (tmp_path / "sizes.axon").write_text("fun half n = n / 2\nfun iota {n} = for i < n => i\n")
    (tmp_path / "user.axon").write_text("import sizes\nfun f (x : f32[n]) = for i < sizes.half n => x[i]\n")
    m = axon.load(tmp_path / "user.axon")
    assert "f32[n / 2]" in str(m.f.signature)
