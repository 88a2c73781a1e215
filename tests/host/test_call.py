"""What a call finds out from its arguments."""

from __future__ import annotations

import numpy as np
import pytest

import axon


def ramp(*shape: int) -> np.ndarray:
    return np.arange(int(np.prod(shape)), dtype=np.float32).reshape(shape)


def test_a_later_argument_tells_how_a_shape_is_split() -> None:
    m = axon.compile("fun f x y = for ..i ..j => x[..i, ..j] * y[..j]")
    assert m.f(ramp(2, 3), ramp(3)).tolist() == (ramp(2, 3) * ramp(3)).tolist()
    assert m.f(ramp(3), ramp(3)).tolist() == [0, 1, 4]
    with pytest.raises(axon.AxonError):
        m.f(ramp(3), ramp(3, 1))


def test_a_shape_that_nothing_tells_how_to_split() -> None:
    with pytest.raises(axon.AxonError):
        axon.compile("fun f (x : f32[..s, ..t]) = x").f(ramp(2, 3))


def test_a_shape_variable_twice_in_one_parameter() -> None:
    m = axon.compile("fun f (x : f32[..s, n, ..s]) = n")
    assert m.f(ramp(3, 2, 3)) == 2
    assert m.f(ramp(4)) == 4
    with pytest.raises(axon.AxonError):
        m.f(ramp(3, 2))
    with pytest.raises(axon.ShapeError):
        m.f(ramp(3, 2, 4))
