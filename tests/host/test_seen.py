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


READY = {
    "a product": ("fun f a b = for i j => sum k => a[i, k] * b[k, j]", lambda a, b: a @ b),
    "its rows": ("fun f a b = for i => sum j k => a[i, k] * b[k, j]", lambda a, b: (a @ b).sum(1)),
    "small ones that follow each other": (
        "fun f a b = let val c = for i j => sum k => a[i, k] * b[k, j] in for i j => c[i, j] - max k => c[i, k] end",
        lambda a, b: a @ b - (a @ b).max(1, keepdims=True, initial=-np.inf),
    ),
    "two results": ("fun f a b = (for i j => a[i, j] + b[i, j], for i j => a[j, i])", lambda a, b: (a + b, a.T)),
    "an argument as it is": ("fun f (a : f32[n, n]) (b : f32[n, n]) = (a, for i j => a[i, j] + b[i, j])", lambda a, b: (a, a + b)),
    "a loop of the host's": (
        "fun f a (b : f32[n, n]) = loop (s = a) for _ < 3 => for i j => sum k => s[i, k] * b[k, j]",
        lambda a, b: a @ b @ b @ b,
    ),
}


@pytest.mark.parametrize("name", READY)
@pytest.mark.parametrize("n", [0, 1, 5, 150])
def test_ready_calls_give_what_the_first_did(name, n):
    text, wanted = READY[name]
    f, earlier = axon.compile(text).f, []
    for turn in range(5):
        a, b = f32(n, n) + turn, f32(n, n) - turn
        if turn == 4:  # not in one piece, and read only
            a, b = np.asfortranarray(a), b[:, :]
            b.flags.writeable = False
        results = f(a, b, target="cpu")
        for got, want in zip(*((x if isinstance(x, tuple) else (x,)) for x in (results, wanted(a, b))), strict=True):
            np.testing.assert_allclose(got, want, rtol=2e-4, atol=2e-4 * n)
            earlier.append((got, got.copy()))
    for got, was in earlier:  # and no later call wrote into it
        assert np.array_equal(got, was)


def test_a_ready_call_is_not_asked_anything(monkeypatch):
    f = axon.compile(READY["a product"][0]).f
    a = f32(4, 4)
    for _ in range(2):
        f(a, a, target="cpu")
    asked, call = [], axon.host.call.Session.call
    monkeypatch.setattr(axon.host.call.Session, "call", lambda *x, **y: asked.append(1) or call(*x, **y))
    np.testing.assert_allclose(f(a + 1, a, target="cpu"), (a + 1) @ a, rtol=1e-5)
    assert not asked
    f(a.astype(">f4").astype("f4"), a, target="cpu")
    assert not asked
    with pytest.raises(AxonError, match="AX0504"):
        f(a.astype(np.float64), a, target="cpu")
    with pytest.raises(ShapeError):
        f(a, a[:3], target="cpu")
    assert len(asked) == 2


def test_a_ready_call_that_stops_says_why(monkeypatch):
    f = axon.compile("fun f (a : f32[n]) (i : i32[m]) = for j => a[i[j]]").f
    a, i = f32(5), np.array([0, 4, 2], np.int32)
    for _ in range(4):
        assert np.array_equal(f(a, i, target="cpu"), a[i])
    for _ in range(2):
        with pytest.raises(ShapeError, match=r"(?s)AX0502.*in a call of `f`"):
            f(a, i + 1, target="cpu")
    assert np.array_equal(f(a, i, target="cpu"), a[i])
    monkeypatch.setenv("AXON_THREADS", "none")
    g = axon.compile("fun f (a : f32[n, m]) = for i => sum j => exp(a[i, j])").f
    with pytest.raises(AxonError, match="AX0505"):
        g(f32(5, 5), target="cpu")
