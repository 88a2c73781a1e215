"""Which declaration a dimension belongs to, and what dimension parameters may be."""

from __future__ import annotations

import numpy as np
import pytest

import axon


def codes(text: str) -> list[str]:
    return [d.code for d in axon.check(text)]


def test_a_size_that_a_val_names_is_not_the_next_declarations() -> None:
    m = axon.compile("val (c : i32[n]) = [| 1, 2, 3 |]  fun f (x : f32[n]) = x")
    assert m.f.signature == "sig f : f32[n] -> f32[n]"


def test_a_val_that_is_a_function_mentions_sizes() -> None:
    m = axon.compile("val f = fn (x : f32[n]) => n  val a = ([| 1.0 |] : f32[n])")
    assert m.f(np.zeros(4, np.float32)) == 4
    assert codes("val f = fn (x : f32[n]) (y : f32[m]) => x + y") == ["AX0301"]


def test_a_local_function_mentions_sizes_of_its_own() -> None:
    m = axon.compile("fun f (x : f32[n]) = let val h = fn (y : 'a[p]) => p in h x + h [| 1, 2 |] end")
    assert m.f(np.zeros(3, np.float32)) == 5


def test_a_dimension_parameter_is_not_negative() -> None:
    iota = "fun iota {n} = for i < n => i\n"
    assert codes(iota + "val z = iota {-1}") == ["AX0305"]
    m = axon.compile(iota + "fun f (x : f32[n]) = iota {n - 1}")
    assert m.f.signature == "sig f : f32[n] -> i32[n - 1] where n >= 1"
    with pytest.raises(axon.ShapeError):
        m.f(np.zeros(0, np.float32))


def test_a_val_that_names_a_function_of_sizes() -> None:
    m = axon.compile("""
        fun length (x : f32[n]) = n
        val count = length
        fun outside (x : f32[n]) = count x
        fun inside (x : f32[n]) = let val size = length in size x + size [| 1.0 |] end
    """)
    assert m.count(np.zeros(3, np.float32)) == 3
    assert m.outside(np.zeros(4, np.float32)) == 4
    assert m.inside(np.zeros(4, np.float32)) == 5


def test_a_stated_size_of_one_stretches() -> None:
    m = axon.compile("fun f (x : f32[n, m]) (y : f32[n, k]) where k = 1 = x + y")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert np.array_equal(m.f(x, x[:, :1]), x + x[:, :1])
    with pytest.raises(axon.ShapeError):
        m.f(x, x)


def test_names_of_a_tuple_pattern_may_have_sigs() -> None:
    assert axon.check("sig low : f32\nsig high : f32[2]\nval (low, high) = (1.0, [| 2.0, 3.0 |])") == []
    assert [d.code for d in axon.check("sig low : i32\nval (low, high) = (1.0, 2.0)")] == ["AX0202"]
    assert [d.code for d in axon.check("sig lo : f32\nval (low, high) = (1.0, 2.0)")] == ["AX0218"]


def test_a_printed_sig_captures_nothing_of_the_body() -> None:
    text = "fun g (x : 'b[n]) y =\n  let fun twice (z : 'a[m]) = z + z\n  in (x, y + 1, sum i => (twice [| 1.0, 2.0 |])[i]) end"
    shown = str(axon.compile(text)["g"].signature)
    assert "'a" not in shown
    assert axon.check(f"{shown}\n{text}") == []
