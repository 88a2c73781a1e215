"""What stretches: a dimension that is known to be 1 after all equalities of the declaration, also where a range decides it."""

import numpy as np
import pytest

import axon

_X = np.array([1, 2], np.float32)
_Y = np.array([10, 20, 30], np.float32)


@pytest.mark.parametrize(
    ("text", "signature"),
    [
        ("fun f (x : f32[2]) = let val a = for i => x[i + 1] in a + x end", "f32[2] -> f32[2]"),
        ("fun f (x : f32[2]) (y : f32[n]) = (for i => x[i + 1]) + y * 2.0 + y", "f32[2] -> f32[n] -> f32[n]"),
        ("fun f (x : f32[1]) (y : f32[n]) c = (for i => if c then x[i] else 0.0) + y", "f32[1] -> f32[n] -> bool -> f32[n]"),
        # a range that is found in what has stretched, and one in what has not
        ("fun f (x : f32[2]) = let val z = (for i => x[i + 1]) + x in x + (for i => z[i + 1]) end", "f32[2] -> f32[2]"),
        ("fun f (x : f32[n]) y = let val z = x + y in for i => z[i + 1] end", "f32[n] -> f32[n]? -> f32[n - 1] where n >= 1"),
    ],
)  # fmt: skip
def test_ranges_are_found_before_what_stretches(text: str, signature: str) -> None:
    assert axon.compile(text)["f"].signature == f"sig f : {signature}"


def test_what_has_stretched_is_read_again_and_again() -> None:
    m = axon.compile("fun f (x : f32[2]) (y : f32[n]) = let val a = for i => x[i + 1] in a + y end")
    for target in ("interpret", "cpu"):
        assert m["f"](_X, _Y, target=target).tolist() == [12, 22, 32]


def test_sizes_that_are_not_known_to_be_1_are_equal() -> None:
    m = axon.compile("fun f x y = (for i => x[i + 1] + 0.0) + (for i => y[i + 2] * 1.0)")
    assert m["f"].signature == "sig f : 'a[n] -> 'a[n + 1] -> 'a[n - 1] where n >= 1"
