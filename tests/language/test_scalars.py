"""Scalars where a tensor could stand: a call with one gives what a call with the stretched tensor gives, on every target."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import axon
from tests import ROOT

TARGETS = ("interpret", "cpu", "simulate")
NAMES = ("a", "b", "c")


@st.composite
def pointwise(draw: st.DrawFn, depth: int = 3) -> str:
    """An expression that uses its names as operands of pointwise operations alone, none of which may overflow."""
    if depth == 0 or draw(st.integers(0, 5)) == 0:
        return draw(st.sampled_from((*NAMES, "2.0", "0.5")))
    left, right = draw(pointwise(depth - 1)), draw(pointwise(depth - 1))
    form = draw(st.sampled_from(("({l} + {r})", "({l} - {r})", "(0.25 * {l} * tanh {r})", "(max {l} {r})", "(blend {l} {r} a)")))
    return form.format(l=left, r=right)


def call(source: str, target: str, *arguments: Any) -> np.ndarray[Any, Any]:
    return np.asarray(axon.compile(source).f(*arguments, target=target))


@given(pointwise(), st.sets(st.sampled_from(NAMES), max_size=2), st.sampled_from(TARGETS), st.booleans(), st.data())
@settings(max_examples=25, deadline=None)
def test_a_scalar_is_the_tensor_that_it_stands_for(
    body: str, scalars: set[str], target: str, known: bool, data: st.DataObject
) -> None:
    whole = "c" if known else ""
    source = "fun blend x y t = x + t * (y - x)\n"
    text = f"0.0 * a + 0.0 * b + 0.0 * c + {body}"  # each is used, and says what rank it has
    source += f"fun f a b {'(c : f32[n, m])' if known else 'c'} = {text}\n"
    numbers = data.draw(st.lists(st.floats(-2, 2, width=32), min_size=18, max_size=18))
    tensors = dict(zip(NAMES, np.array(numbers, np.float32).reshape(3, 2, 3), strict=True))
    given_ = {n: np.float32(t[0, 0]) if n in scalars and n != whole else t for n, t in tensors.items()}
    stretched = {n: np.broadcast_to(v, (2, 3)).copy() for n, v in given_.items()}
    np.testing.assert_array_equal(call(source, target, *given_.values()), call(source, target, *stretched.values()))
    inside = " ".join(f"({float(v)!r} : f32)" if np.ndim(v) == 0 else n for n, v in given_.items())
    wrapped = f"{source}fun g {' '.join(f'({n} : f32[2, 3])' for n in NAMES)} = f {inside}\n"
    found = axon.compile(wrapped).g(*tensors.values(), target=target)
    np.testing.assert_allclose(found, call(source, target, *given_.values()), rtol=1e-5, atol=1e-6)


STEP = "fun step dt x v = x + dt * v\n"
X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dt", [0.5, np.float32(0.5), np.array(0.5, np.float32), 1], ids=str)
def test_numbers_of_python_will_do(target: str, dt: Any) -> None:
    found = axon.compile(STEP).step(dt, X, 2.0, target=target)
    np.testing.assert_array_equal(found, X + np.float32(dt) * 2)
    assert found.dtype == np.float32


def test_scalars_alone_give_a_scalar() -> None:
    assert axon.compile(STEP).step(0.5, 1.0, 2.0) == 2.0


def test_element_types_are_as_without_it() -> None:
    with pytest.raises(axon.AxonError, match="AX0504"):
        axon.compile(STEP).step(np.float64(0.5), X, X)
    assert axon.compile(STEP).step(2, X.astype(np.int32), X.astype(np.int32)).dtype == np.int32


def test_rows_are_not_stretched() -> None:
    with pytest.raises(axon.ShapeError, match="AX0506"):
        axon.compile(STEP).step(0.5, X, X[0])
    with pytest.raises(axon.ShapeError, match="AX0501"):
        axon.compile(STEP).step(0.5, X, X[:1])


def test_something_tells_the_shape() -> None:
    module = axon.compile("fun f a b = let val z = a * b in sum i => z[i] end")
    np.testing.assert_allclose(module.f(0.5, X[0]), 1.5)
    with pytest.raises(axon.ShapeError, match="`a` or `b` must be whole"):
        module.f(0.5, 1.0)


def test_rank_0_is_another_choice_of_ranks() -> None:
    step = axon.compile(STEP).step
    (found,) = step.solve(ranks={"dt": 0}, x=(3, 4))
    assert found.arguments == {"dt": (), "x": (3, 4), "v": (3, 4)}
    assert step.cost(dt=(), x=(3, 4)).bytes == 3 * 48 + 4
    assert step.cost(dt=(3, 4), x=(3, 4)).bytes == 4 * 48


NUMBERS = ROOT / "tests" / "corpus" / "accepted" / "unannotated_numbers.axon"


def runge_kutta(f: Any, dt: float, steps: int, y: Any) -> Any:
    for i in range(steps):
        t = i * dt
        k1 = f(t, y)
        k2 = f(t + dt / 2, y + dt / 2 * k1)
        k3 = f(t + dt / 2, y + dt / 2 * k2)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + f(t + dt, y + dt * k3))
    return y


@pytest.mark.parametrize("target", TARGETS)
def test_a_time_beside_a_state(target: str) -> None:
    m = axon.load(NUMBERS)
    start = np.array([1.0, 0.5])

    def pendulum(t: float, y: Any) -> Any:
        return np.array([y[1], -np.sin(y[0]) + 0.1 * np.cos(t)])

    middle = start + 0.1 * pendulum(0.05, start + 0.05 * pendulum(0.0, start))
    np.testing.assert_allclose(m.swing(7, start, target=target), runge_kutta(pendulum, 0.1, 7, middle), rtol=1e-12)


@pytest.mark.parametrize("target", TARGETS)
def test_functions_that_are_passed_take_scalars(target: str) -> None:
    m = axon.load(NUMBERS)
    y = want = np.arange(6.0).reshape(2, 3)
    for i in range(5):
        want = want + 0.1 * (-0.5 * want * np.cos(0.1 * i))
    np.testing.assert_allclose(m.decays(5, y, target=target), want, rtol=1e-12)
    np.testing.assert_allclose(m.handed(X[1], target=target), X[1] * np.float32(1.1), rtol=1e-6)


def test_some_arguments_now_and_the_others_later() -> None:
    source = "fun affine a b x = a * x + b\nfun twice f x = f (f x)\n"
    source += "fun f (x : f32[n, m]) = twice (affine 0.5 (sum i j => exp x[i, j])) x\n"
    np.testing.assert_allclose(axon.compile(source).f(X), 0.25 * X + 1.5 * np.exp(X).sum(), rtol=1e-6)


def test_beside_an_index_what_nothing_indexes() -> None:
    m = axon.load(NUMBERS)
    np.testing.assert_array_equal(m.scaled(2.0, X[0]), 2 * X[0])
    np.testing.assert_array_equal(m.rows(X[1], X), X[1] * X)
    first, second = m.both(2.0, X, X[0])
    np.testing.assert_array_equal(first, 2 * X)
    np.testing.assert_array_equal(second, 2 * X[0])
    with pytest.raises(axon.ShapeError, match="AX0506"):
        m.scaled(X[0], X[0])


def test_a_scalar_is_made_of_scalars() -> None:
    m = axon.load(NUMBERS)
    assert m.searched.signature == "sig searched : ('a[i] -> 'a) -> ('a[i] -> 'a[i]) -> 'a -> 'a -> i32 -> 'a[i] -> 'a[i]"
    np.testing.assert_allclose(m.minimum(np.array([3.0, -1.0])), 0, atol=1e-4)
