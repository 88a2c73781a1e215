"""The oracle itself: programs whose values are known by hand, among them those of docs/reference.md."""

from __future__ import annotations

import numpy as np
import pytest

from axon import compiler
from axon.host.call import Session
from tests.oracle.arithmetic import Arithmetic, Stops
from tests.oracle.definitional import run

F, N = np.float32, np.int32


def f32(*values):
    return np.array(values, F)


def i32(*values):
    return np.array(values, N)


COLUMNS = """
fun f (p : f32[h]) (q : f32[h]) (r : f32[h]) (u : f32[h, l]) = for c =>
  let val x = exp p[c] * q[c]
      val y = x - r[c]
      val w = y * x + r[c]
      val (a, b, d, e) = reduce (fn (a, b, c, d) (e, f, g, h) => (a + e, b + f, c + g, d + h), (0.0, 0.0, 0.0, 0.0)) t =>
        (w * u[c, t], y * u[c, t], w - u[c, t], x * y * u[c, t])
  in a - b + d * e end
"""
AFTER = "fun after (a, b) (c, d) = (a * c, b * c + d)\n"

KNOWN = [
    (
        "fun f (x : i32[n]) = (scan (fn (a, b) (c, d) => (a + c, b + d), (0, 0)) for j < n => (x[j], x[j] / 2)).2",
        [i32(1, 2, 3)],
        i32(0, 1, 2),
    ),
    ("fun f r = pi * r ** 2", [F(1)], F(3.1415927)),
    ("fun f (x : 'a[n]) (k : 'a[r]) = for p => sum r => x[p + r] * k[r]", [f32(1, 2, 3, 4), f32(1, 10)], f32(21, 32, 43)),
    ("fun f (x : f32[n]) = for i => x[2 * i]", [f32(0, 1, 2, 3, 4)], f32(0, 2, 4)),
    ("fun f (x : f32[n]) = for i < n => (x[i - 1 | 0.0] + x[i] + x[i + 1 | 0.0])", [f32(1, 2, 3)], f32(3, 6, 5)),
    ("fun f (x : f32[2 * n]) = for i < 2 * n => if i < n then -x[i + n] else x[i - n]", [f32(1, 2, 3, 4)], f32(-3, -4, 1, 2)),
    ("fun f (a : i32[n, n]) = for i => sum for j < i + 1 => a[i, j]", [i32(*range(9)).reshape(3, 3)], i32(0, 7, 21)),
    ("fun f x = for (i, j) => x[i, j]", [i32(*range(6)).reshape(2, 3)], i32(*range(6))),
    ("fun f (x : 'a[n]) = for i < 2, j => x[(i, j)]", [i32(*range(6))], i32(*range(6)).reshape(2, 3)),
    (
        "fun f (x : i32[n, m]) = for i => scan (op +, 0) j => x[i, j]",
        [i32(*range(6)).reshape(2, 3)],
        i32(0, 1, 3, 3, 7, 12).reshape(2, 3),
    ),
    (
        AFTER + "fun f (a : f32[n]) (b : f32[n]) = (scan (after, (1.0, 0.0)) t => (a[t], b[t])).2",
        [f32(2, 3, 4), f32(1, 1, 1)],
        f32(1, 4, 17),
    ),
    (AFTER + "fun f (a : f64[n]) = reduce (after, (1.0, 0.0)) t => (a[t], a[t])", [np.zeros(0)], (np.float64(1), np.float64(0))),
    ("fun f n = (loop (a = 0, b = 1) for _ < n => (b, a + b)).1", [N(10)], N(55)),
    ("fun f (x : f32[n]) = unfold (s = 0.0) for t => s + x[t]", [f32(1, 2, 3)], f32(1, 3, 6)),
    ("fun f (x : f32[n]) = unfold (s = 0.0) for t => s + x[t]", [f32()], f32()),
    ("fun f (x : 'a[n]) = x[0 : n : 2]", [f32(0, 1, 2, 3, 4)], f32(0, 2, 4)),
    ("fun f (x : i32[n, m]) = argmax i j => x[i, j]", [i32(1, 5, 5, 2).reshape(2, 2)], (N(0), N(1))),
    ("fun f x y = (x / y, x % y)", [N(-7), N(2)], (N(-4), N(1))),
    ("fun f (x : i32) = x * x", [N(2**20)], N(0)),
    ("fun f x = cast i32 x", [F(-2.7)], N(-2)),
    ("fun f (x : f32[n]) = for i => { r = x[i], p = x[i] > 0.0 }", [f32(-1, 1)], {"r": f32(-1, 1), "p": np.array([False, True])}),
    ("fun f (d : i32) = let val q = 10 / d in 3 end", [N(0)], N(3)),
    ("fun f (d : i32) = if d <> 0 then 10 / d else 1", [N(0)], N(1)),
    ("fun f (x : f64[n]) = for i => if x[i] > 0.0 then 1.0 else x[i]", [np.array([1.0, 2.0])], np.array([1.0, 1.0])),
    ("fun f (x : f64[n]) = sum i => x[i]", [np.zeros(0)], np.float64(0)),
    ("fun f (x : f32[n]) = max i => x[i]", [f32()], F(-np.inf)),
    (
        "fun f { re = x, im = y } (a, b) = { s = x * a, t = (y, b) }",
        [{"re": F(2), "im": F(3)}, (F(5), F(7))],
        {"s": F(10), "t": (F(3), F(7))},
    ),
    ("fun f a b = a @ b", [f32(1, 2, 3, 4).reshape(2, 2), f32(1, 1).reshape(2, 1)], f32(3, 7).reshape(2, 1)),
    ("fun iota {n} = for i < n => i\nfun f (x : f32[n]) = iota {2 * n}", [f32(0, 0)], i32(0, 1, 2, 3)),
    ("fun f (x : f32[n]) = x |> max 0.0 |> (fn t => t / 2.0)", [f32(-1, 3)], f32(0, 1.5)),
    ("fun f (ids : i32[n]) = for b < 3 => sum for i where ids[i] = b => 1", [i32(0, 2, 2, 2)], i32(1, 0, 3)),
]


def same(right, seen):
    if isinstance(right, tuple):
        return isinstance(seen, tuple) and all(same(a, b) for a, b in zip(right, seen, strict=True))
    if isinstance(right, dict):
        return right.keys() == seen.keys() and all(same(right[k], seen[k]) for k in right)
    return np.shape(right) == np.shape(seen) and right.dtype == seen.dtype and bool(np.all(right == seen))


@pytest.mark.parametrize(("text", "arguments", "right"), KNOWN, ids=[t.strip().splitlines()[-1][:60] for t, _, _ in KNOWN])
def test_known_values(text, arguments, right):
    seen = run(text, "f", arguments)
    assert same(right, seen), f"{seen!r}, not {right!r}"


@pytest.mark.parametrize(("text", "arguments", "right"), KNOWN, ids=range(len(KNOWN)))
def test_the_interpreter_knows_them(text, arguments, right):
    session = Session(compiler.check_text(text))
    seen = session.call(session.callee("f"), (), arguments, target="interpret", numbers=False)
    assert same(right, seen), f"{seen!r}, not {right!r}"


def test_a_column_of_sums():
    seen = run(COLUMNS, "f", [f32(1), f32(2), f32(3), np.ones((1, 3), F)])
    np.testing.assert_allclose(seen, [1859.1033], rtol=1e-6)


@pytest.mark.parametrize(
    ("text", "arguments"),
    [
        ("fun f (x : i32[n]) (d : i32) = for i => x[i] / d", [i32(1), N(0)]),
        ("fun f (x : i32[n]) (d : i32) = x[d]", [i32(1), N(1)]),
        ("fun f (x : i32[n]) = max for i where x[i] > 0 => x[i]", [i32(-1)]),
        ("fun f (x : i32) = x ** (-1)", [N(2)]),
    ],
)
def test_what_has_no_value_stops(text, arguments):
    with pytest.raises(Stops):
        run(text, "f", arguments)


@pytest.mark.parametrize(("value", "exact"), [(0.5, True), (0.1, False), (16777216.0, True)])
def test_exactness(value, exact):
    arithmetic = Arithmetic()
    run("fun f x = x + x * 0.5", "f", [F(value)], arithmetic=arithmetic)
    assert arithmetic.exact == exact
