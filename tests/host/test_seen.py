"""Calls like an earlier one are not matched again, and what differs in anything that matching asks is."""

import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

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
    "a loop": (
        "fun f a (b : f32[n, n]) = (loop (s = a, t = b) for _ < n => (for i j => 0.5 * s[i, j] + t[i, j], for i j => t[j, i])).1",
        lambda a, b: _turned(a, b),
    ),
    "a loop that data end": (
        "fun f a (b : f32[n, n]) = (loop (s = a, k = 0.0) while k < 3.0 for _ < 9 => (for i j => s[i, j] + b[i, j], k + 1.0)).1",
        lambda a, b: a + 3 * b,
    ),
    "sorts": (
        "fun f (a : f32[n, n]) (b : f32[n, n]) = (sort (for i j => a[i, j] + b[i, j]), for i j => (sort a)[i, j] * b[i, j])",
        lambda a, b: (np.sort(a + b), np.sort(a) * b),
    ),
    "what no step changes": (
        "fun f (a : f32[n, n]) (b : f32[n, n]) = loop (s = a) for i < n - n => for i j => s[i, j] * b[i, j]",
        lambda a, b: a,
    ),
    "a loop of the host's": (
        "fun f a (b : f32[n, n]) = loop (s = a) for _ < 3 => for i j => sum k => s[i, k] * b[k, j]",
        lambda a, b: a @ b @ b @ b,
    ),
}


AS_IT_IS = ("an argument as it is",)  # which nothing makes


def _turned(a, b):
    for _ in range(len(a)):
        a, b = a / 2 + b, b.T
    return a


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
    assert any(f._session._seen._ready.values()) == (name not in AS_IT_IS)


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


@pytest.fixture
def asked(monkeypatch):
    """How many calls were not ready."""
    calls, call = [], axon.host.call.Session.call
    monkeypatch.setattr(axon.host.call.Session, "call", lambda *x, **y: calls.append(1) or call(*x, **y))
    return calls


class Pair(NamedTuple):
    first: Any
    second: Any


@dataclass
class Layer:
    w: Any
    scale: Any


MANY = """
fun f (p : { w : 'a[n], scale : 'a }) (q : ('b[n], 'b)) (k : i32) (on : bool) =
  (for i => (if on then p.w[i] * p.scale else p.w[i]), for i => q.1[i] + q.2, for i < 3 => k + i)
"""


def _many(p, q, k, on):
    w, scale = (p.w, p.scale) if isinstance(p, Layer) else (p["w"], p["scale"])
    return w * np.asarray(scale, w.dtype) if on else w, q[0] + np.asarray(q[1], q[0].dtype), np.arange(3, dtype=np.int32) + k


def test_numbers_and_records_by_any_way_of_passing_them_are_ready(asked):
    f = axon.compile(MANY).f
    ways = [
        lambda w, s, b, c: f({"w": w, "scale": s}, (b, c), 4, True, target="cpu"),
        lambda w, s, b, c: f({"scale": s, "w": w}, Pair(b, c), 5, False, target="cpu"),
        lambda w, s, b, c: f(Layer(w, s), Pair(b, c), np.int32(6), True, target="cpu"),
        lambda w, s, b, c: f(on=True, k=7, q=(b, c), p=Layer(w, s), target="cpu"),
        lambda w, s, b, c: f(Layer(w, s), on=False, q=(b, c), k=8, target="cpu"),
    ]
    for way, k, on in zip(ways, (4, 5, 6, 7, 8), (True, False, True, True, False), strict=True):
        for turn, (s, c) in enumerate([(2.5, 3), (0.1, -7), (1 / 3, 2**60 + 1), (7.0, 0)]):
            w, b = f32(5) + turn, np.arange(5.0) - turn
            before = len(asked)
            for got, want in zip(way(w, s, b, c), _many({"w": w, "scale": s}, (b, c), k, on), strict=True):
                assert got.dtype == want.dtype
                assert np.array_equal(got, want), (turn, s)
            assert turn < 2 or len(asked) == before


def test_of_one_kind_of_number_a_call_that_is_ready_knows_each_value(asked):
    """Integers for floats are rounded once, from all of their bits; those that do not fit are refused as in a first call."""
    m = axon.compile("fun f (x : f32[n]) (s : f32) = for i => x[i] * s\nfun g (x : i8[n]) (s : i8) = for i => x[i] * s")
    x, y = np.ones(4, np.float32), np.ones(4, np.int8)
    for s in (3, 2**53 + 1, 2**63 - 513, 2**64 - 1, -5, 0):
        assert list(m.f(x, s, target="cpu")) == [np.asarray(s).astype(np.float32)] * 4
    for s in (1e30, float("inf"), -0.0):
        assert list(m.f(x, s, target="cpu")) == [np.float32(s)] * 4
    for s in (127, -128, 5):
        assert list(m.g(y, s, target="cpu")) == [s] * 4
    texts = {}
    for fresh in (axon.compile(m._session.checked.source.text), m):
        for name, call in {
            "a float": lambda m: m.f(x, 1e39, target="cpu"),
            "an integer": lambda m: m.f(x, 2**64, target="cpu"),
            "too large": lambda m: m.g(y, 128, target="cpu"),
            "too small": lambda m: m.g(y, -129, target="cpu"),
            "of 64 bits": lambda m: m.g(y, 2**63, target="cpu"),
            "no integer": lambda m: m.g(y, 1.0, target="cpu"),
            "a bool": lambda m: m.g(y, True, target="cpu"),
            "a bool for a float": lambda m: m.f(x, True, target="cpu"),
            "another size": lambda m: m.f(x[None], 1.0, target="cpu"),
        }.items():
            with pytest.raises(AxonError) as error:
                call(fresh)
            assert texts.setdefault(name, str(error.value)) == str(error.value)


def test_what_differs_in_a_record_is_matched_again(asked):
    f = axon.compile("fun f (p : { w : 'a[n], b : 'a[n] }) (s : 'a) = for i => p.w[i] * s + p.b[i]").f
    w, b = f32(4), f32(4) + 1
    for turn in range(3):
        np.testing.assert_allclose(f({"w": w, "b": b}, 2.0 + turn, target="cpu"), w * (2 + turn) + b, rtol=1e-6)
    both = f({"w": w, "b": w}, 2.0, target="cpu")  # one array twice, and then two
    np.testing.assert_allclose(both, w * 3, rtol=1e-6)
    np.testing.assert_allclose(f({"w": b, "b": w}, 2.0, target="cpu"), b * 2 + w, rtol=1e-6)
    assert len(asked) == 2
    for p, code in [
        ({"w": w}, "AX0505"),
        ({"w": w, "b": b, "c": b}, "AX0505"),
        ({"w": w, "b": b[:3]}, "AX0501"),
        ({"w": w, "b": b.astype(np.float64)}, "AX0504"),
        ({"w": w, "b": [1, 2, 3, "x"]}, "AX0504"),
        ((w, b), "AX0505"),
    ]:
        with pytest.raises(AxonError, match=code):
            f(p, 2.0, target="cpu")
    with pytest.raises(AxonError, match="AX0505"):
        f({"w": w, "b": b}, 2.0, t=3, target="cpu")
    np.testing.assert_allclose(f({"w": [1, 2, 3, 4], "b": b}, 2.0, target="cpu"), np.arange(1, 5) * 2 + b, rtol=1e-6)
    np.testing.assert_allclose(f({"w": w[::-1], "b": b}, 2.0, target="cpu"), w[::-1] * 2 + b, rtol=1e-6)


def test_raw_bytes_are_given_their_element_type_in_each_call():
    """As NumPy's files keep bf16, also a single one."""
    import ml_dtypes

    f = axon.compile("fun f (x : bf16[n]) (s : bf16) = for i => cast f32 (x[i] * s)").f
    for n in range(4):
        x, s = np.full(3, n, ml_dtypes.bfloat16), np.array(2, ml_dtypes.bfloat16)
        assert list(f(x.view("V2"), s.view("V2"), target="cpu")) == [2 * n] * 3


SAME = [
    lambda x: x[:, ::-1],
    lambda x: x.T,
    lambda x: x[:2],
    lambda x: x[::2],
    lambda x: x.astype(np.float64),
    lambda x: x.view(type("Own", (np.ndarray,), {})),
    lambda x: x.tolist(),
    lambda x: np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1).reshape(x.shape),  # out of step
    lambda x: np.lib.stride_tricks.as_strided(x, (4, 4), (0, 4)),
    lambda x: x[:0],
]


@pytest.mark.parametrize("other", SAME)
def test_arrays_that_differ_from_those_of_the_last_call_are_seen(other):
    f = axon.compile("fun f (a : 'a[n, m]) = for i => sum j => a[i, j]").f
    x = f32(4, 4)
    x -= x.mean()
    for _ in range(5):
        np.testing.assert_allclose(f(x, target="cpu"), x.sum(1), rtol=1e-4, atol=1e-6)
    given = other(x)
    for n in range(4):
        np.testing.assert_allclose(f(given, target="cpu"), np.asarray(given, np.float64).sum(1), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(f(x + n, target="cpu"), (x + n).sum(1), rtol=1e-4, atol=1e-6)
    for wrong in ((x, x), (), (x[0],), (x, 1.0)):
        with pytest.raises(AxonError):
            f(*wrong, target="cpu")


def test_a_call_like_the_last_one_by_another_target_or_by_name():
    f = axon.compile("fun f (a : 'a[n]) = for i => exp a[i]").f
    x = f32(4)
    for target in ("cpu", "cpu", "cpu", "cpu", "interpret", None, "cpu", None):
        np.testing.assert_allclose(f(x, target=target), np.exp(x), rtol=1e-6)
        np.testing.assert_allclose(f(a=x + 1, target=target), np.exp(x + 1), rtol=1e-6)
    with pytest.raises(AxonError):
        f(x, target="moon")


def test_what_is_called_alone_keeps_and_loses_no_object():
    f = axon.compile("fun f (a : f32[n, m]) (b : f32[m]) = for i => sum j => exp a[i, j] * b[j]").f
    a, b = f32(5, 7), f32(7)
    for _ in range(5):
        f(a, b, target="cpu")
    assert f._last is not None
    before = [sys.getrefcount(x) for x in (a, b, a.dtype)]
    for _ in range(1000):
        f(a, b, target="cpu")
    assert [sys.getrefcount(x) for x in (a, b, a.dtype)] == before
    results = [f(a, b, target="cpu") for _ in range(1000)]
    assert [sys.getrefcount(x) for x in results] == [3] * len(results)  # the list's, the loop's, and the call's


def test_threads_call_alone_at_once():
    """Each with buffers of its own."""
    f = axon.compile("fun f (a : f32[n, m]) = for i j => exp a[i, j] / (sum k => exp a[i, k])").f
    inputs = [f32(9, 33) * n for n in range(4)]
    expected = [np.exp(x) / np.exp(x).sum(1, keepdims=True) for x in inputs]
    for _ in range(4):
        f(inputs[0], target="cpu")

    def work(n):
        return all(np.allclose(f(inputs[n], target="cpu"), expected[n], rtol=1e-5) for _ in range(500))

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(4)))
