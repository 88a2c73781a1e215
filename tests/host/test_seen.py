"""Calls like an earlier one are not matched again, and what differs in anything that matching asks is."""

import numpy as np
import pytest

import axon
from axon.base.errors import AxonError, ShapeError
from axon.host import seen, values


def f32(*shape):
    return np.random.default_rng(0).standard_normal(shape).astype(np.float32)


@pytest.fixture
def matched(monkeypatch):
    """How many calls were matched."""
    calls, match = [], values.Matcher.match
    monkeypatch.setattr(values.Matcher, "match", lambda self, *x: calls.append(1) or match(self, *x))
    return calls


def test_the_second_call_is_not_matched(matched):
    f = axon.compile("fun f a b = for i j => sum k => a[i, k] * b[k, j]").f
    for n in range(3):
        a, b = f32(3, 4) * (n + 1), f32(4, 5) - n
        np.testing.assert_allclose(f(a, b, target="cpu"), a @ b, rtol=1e-5)
        np.testing.assert_allclose(f(a[:, ::-1], b), a[:, ::-1] @ b, rtol=1e-5)
    assert len(matched) == 1
    a = f32(4, 4)
    for _ in range(2):
        np.testing.assert_allclose(f(a, a), a @ a, rtol=1e-5)  # one array twice
    assert len(matched) == 2


def test_tensors_are_known_too(matched):
    torch = pytest.importorskip("torch")
    f = axon.compile("fun f (a : 'a[n]) b = for i => a[i] + b").f
    x, y = torch.arange(3.0), torch.tensor(2.0)
    for n in range(3):
        assert torch.equal(f(x + n, y), x + n + y)
        assert list(f((x + n).numpy(), y.numpy())) == [n + 2, n + 3, n + 4]
    assert len(matched) == 1
    with pytest.raises(AxonError, match="AX0504"):
        f(x, y.double())
    assert torch.equal(f(x[:2], y), x[:2] + y)
    assert len(matched) == 3


def test_other_sizes_types_and_kinds_are_matched():
    f = axon.compile("fun f (a : 't[n]) (b : 't[n]) = for i => a[i] + b[i]").f
    assert list(f(f32(3), f32(3), target="cpu")) == list(f32(3) * 2)
    with pytest.raises(ShapeError):
        f(f32(3), f32(4))
    with pytest.raises(AxonError, match="AX0504"):
        f(f32(3), np.zeros(3))
    assert f(np.zeros(3), np.ones(3)).dtype == np.float64
    assert list(f([1, 2, 3], np.ones(3, np.int32))) == [2, 3, 4]
    assert list(f(b=np.ones(3, np.int32), a=np.array([1, 2, 3], np.int32))) == [2, 3, 4]


def test_an_error_of_data_names_the_call(matched):
    f = axon.compile("fun f (a : i32[n]) (b : i32[n]) = for i => a[i] / b[i]").f
    ones = np.ones(3, np.int32)
    assert list(f(ones, ones)) == [1, 1, 1]
    with pytest.raises(AxonError, match="in a call of `f`"):
        f(ones, ones * 0)
    assert len(matched) == 1


def test_how_many_are_kept(monkeypatch):
    monkeypatch.setattr(seen, "MOST", 4)
    f = axon.compile("fun f (a : f32[n]) = sum i => a[i]").f
    for n in [*range(1, 11), *range(1, 11)]:
        assert f(np.ones(n, np.float32)) == n
    assert len(f._session._seen._calls) <= 4
