"""`grad` and its like in programs, on every target, against derivatives that NumPy or algebra gives."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import axon
from axon.base.errors import AxonError

TARGETS = ("interpret", "cpu", "simulate")
R = np.random.default_rng(11)
X, W, M = R.normal(size=5), R.normal(size=5), R.normal(size=(3, 5))

PROGRAM = """
fun products (a : f64[n, k]) (b : f64[k, m]) = grad (fn (a, b) => sum i j => (sum l => a[i, l] * b[l, j]) ** 2.0) (a, b)
fun normalized (x : f64[n]) (w : f64[n]) = grad (fn x =>
  let val m = max i => x[i] val e = for i => exp (x[i] - m) val s = sum i => e[i] in sum i => w[i] * e[i] / s end) x
fun windows (x : f64[n]) (w : f64[k]) = grad (fn (x, w) => sum i => (sum r => x[i + r] * w[r]) ** 2.0) (x, w)
fun strided (x : f64[n]) (w : f64[m]) = grad (fn x => sum i => w[i] * x[2 * i + 1]) x
fun doubled (x : f64[n]) (w : f64[m]) = grad (fn x => sum i => w[i] * x[i / 2]) x
fun flat (x : f64[n, m]) (w : f64[n * m]) = grad (fn x => sum k => w[k] * x[k / m, k % m] ** 2.0) x
fun padded (x : f64[n]) (w : f64[n]) = grad (fn x => sum i => w[i] * (x[i - 1 | 0.0] + x[i + 1 | x[0]])) x
fun gathered (x : f64[n]) (ids : i32[k]) = grad (fn x => sum i => x[ids[i]] ** 3.0) x
fun guarded (x : f64[n]) = grad (fn x => sum i => if x[i] > 0.0 then sqrt x[i] else 0.0) x
fun triangle (x : f64[n]) = grad (fn x => sum for i < n => sum for j < i => x[j]) x
fun multiplied (x : f64[n]) = grad (fn x => prod i => x[i]) x
fun factors (x : f64[n]) (w : f64[n]) = grad (fn x => prod i =>
  let val v = sin x[i] val u = tanh (if w[i] > 0.0 then v else v) in if w[i] > -1.0 then u else v end) x
fun largest (x : f64[n]) = grad (fn x => max i => x[i]) x
fun sorted (x : f64[n]) (w : f64[n]) = grad (fn x => let val s = sort x in sum i => w[i] * s[i] end) x
fun kept (x : f64[n]) = grad (fn x => let val y = filter (x > 0.0) x in sum k => y[k] ** 2.0 end) x
fun running (x : f64[n]) (w : f64[n]) = grad (fn x => let val s = scan (op +, 0.0) i => x[i] in sum i => w[i] * s[i] ** 2.0 end) x
fun highest (x : f64[n]) (w : f64[n]) = grad (fn x => let val s = scan (max, -inf) i => x[i] in sum i => w[i] * s[i] end) x
fun log_sum (x : f64[n]) = grad (fn x =>
  let val (m, s) = reduce (fn (a, s) (b, t) => let val m = max a b in (m, s * exp (a - m) + t * exp (b - m)) end, (-1.0e30, 0.0))
        i => (x[i], 1.0)
  in m + log s end) x
fun recurrent (w : f64) (x : f64[t]) = grad (fn w => loop (h = 0.0) for i < t => tanh (w * h + x[i])) w
fun states (w : f64) (x : f64[t]) = grad (fn w =>
  let val h = unfold (h = 0.0) for i < t => tanh (w * h + x[i]) in sum i => h[i] end) w
fun roots (a : f64[n]) = for i => grad (fn a => loop (x = a) while abs (x * x - a) > 1e-13 for _ < 50 => 0.5 * (x + a / x)) a[i]
fun each_row (x : f64[b, n]) (w : f64[n]) = for i => grad (fn w => (sum j => w[j] * x[i, j]) ** 2.0) w
fun descended (x : f64[n]) = loop (x = x) for _ < 10 => x - 0.1 * grad (fn x => sum i => x[i] ** 4.0) x
fun hessian (x : f64[n]) = for i => grad (fn y => (grad (fn z => prod j => z[j]) y)[i]) x
fun third (x : f64) = grad (fn x => grad (fn x => grad (fn x => sin x * x ** 3.0) x) x) x
fun constant (x : f64[n]) = grad (fn x => sum i => x[i] * (stop_gradient x)[i]) x
fun clipped x = with_vjp (fn x => max (-1.0) (min 1.0 x)) (fn _ dy => dy) x
fun through (x : f64[n]) = grad (fn x => sum i => clipped x[i] * x[i]) x
fun through_forward (x : f64[n]) (dx : f64[n]) = (jvp (fn x => for i => clipped x[i] * x[i]) x dx).2
fun cubed x = with_vjp (fn x => loop (y = x) for _ < 2 => y * x) (fn x dy => 3.5 * x * x * dy) x
fun cubed_forward (x : f64) = jvp cubed x 2.0
fun cubed_twice (x : f64) =
  (grad (fn x => grad cubed x) x, (jvp (fn x => grad cubed x) x 1.0).2, grad (fn x => (jvp cubed x 1.0).2) x)
fun in_a_loop_forward (x : f64) = (jvp (fn x =>
  loop (s = x) for _ < 3 => with_vjp (fn s => s * s) (fn s dy => 2.0 * s * dy) s) x 1.0).2
fun pair_forward (x : f64) (y : f64) =
  let fun both p = with_vjp (fn (x, y) => (x * y, x + y)) (fn (x, y) (a, b) => (y * a + b, x * a + b)) p
  in (jvp both (x, y) (1.0, 10.0)).2 end
fun picked_forward (x : f64[n]) (ids : i32[k]) =
  (jvp (fn x => with_vjp (fn x => for i => x[ids[i]]) (fn x dy => for j < n => sum i => if ids[i] = j then dy[i] else 0.0) x) x x).2
fun rule_in_a_rule (x : f64) =
  let fun straight x = with_vjp round (fn _ dy => dy) x
      fun f x = with_vjp (fn x => 0.5 * x * x) (fn x dy => dy * straight x * stop_gradient x) x
  in (grad (fn x => grad f x) x, (jvp (fn x => grad f x) x 1.0).2) end
fun shared_by_indices (x : f64[n]) (w : f64[m]) =
  grad (fn x => sum j => w[j] * with_vjp (fn x => sum i => x[i] ** 2.0) (fn x dy => for i => 2.0 * dy * x[i]) x) x
fun of_each_index (x : f64[n]) (w : f64[m]) =
  let fun f (x, t) = t * sum i => x[i] ** 2.0
      fun back (x, t) dy = (for i => 2.0 * dy * t * x[i], dy * sum i => x[i] ** 2.0)
  in grad (fn x => sum j => w[j] * with_vjp f back (x, w[j])) x end
fun cubes (x : f64) = grad (fn x => loop (s = x) for _ < 3 => with_vjp (fn s => s * s) (fn s dy => 2.0 * s * dy) s) x
fun stacked (w : f64[n, d, d]) (x : f64[b, d]) = grad (fn w =>
  let val y = loop (x = x) for i => tanh (x @ w[i, ..]) in sum i j => y[i, j] end) w
fun one_row (w : f64[n, d]) (x : f64[b, d]) where n >= 2 = grad (fn w => sum i => (sum j => x[i, j] * w[n - 2, j]) ** 2.0) w
fun slope f x = grad f x
fun used (x : f64[n]) = slope (fn x => sum i => x[i] * x[i]) x
fun moved (x : f64[n]) (dx : f64[n]) = jvp (fn x => for i => sin x[i] * x[0]) x dx
fun pulled (x : f64[n]) (dy : f64[n]) = vjp (fn x => for i => sin x[i] * x[0]) x dy
fun steps (a : f64) (k : i32) = jvp (fn a => loop (x = a) for _ < k => x * a) a 1.0

type layer[n, m] = { w : f64[n, m], b : f64[m] }
fun of_record (p : layer[n, m]) (x : f64[k, n]) =
  value_and_grad (fn p => sum i j => tanh ((sum l => x[i, l] * p.w[l, j]) + p.b[j])) p
fun mixed (x : f32[n]) (y : f64[n]) = grad (fn (x, y) => sum i => cast f64 x[i] * y[i]) (x, y)
"""


def numerically(f: Any, *given: Any) -> list[Any]:
    """The derivative of a function of arrays by each of them, by central differences."""
    found = []
    for n, x in enumerate(given):
        slope = np.zeros_like(x)
        for i in np.ndindex(np.shape(x)):
            sides = []
            for step in (1e-6, -1e-6):
                moved = np.array(x)
                moved[i] += step
                sides.append(f(*given[:n], moved, *given[n + 1 :]))
            slope[i] = (sides[0] - sides[1]) / 2e-6
        found.append(slope)
    return found


def softmax(x: Any) -> float:
    e = np.exp(x - x.max())
    return float((W * e / e.sum()).sum())


def recurrence(w: Any) -> list[float]:
    found, h = [], 0.0
    for x in X:
        h = np.tanh(w * h + x)
        found.append(h)
    return found


def layers(w: Any) -> Any:
    x = M
    for matrix in w:
        x = np.tanh(x @ matrix)
    return x


def shifted(x: Any) -> float:
    return float((W * (np.append(0, x[:-1]) + np.append(x[1:], x[0]))).sum())


A, B, LONG, WIDE = R.normal(size=(3, 4)), R.normal(size=(4, 2)), R.normal(size=9), R.normal(size=10)
IDS, ONE, ZERO = np.array([0, 3, 3, 1], np.int32), np.array(0.7), np.array([1.3, 0.0, -2.0, 0.5])
STACK, ROWS = np.random.default_rng(2).normal(size=(4, 5, 5)), np.random.default_rng(3).normal(size=(6, 4))
P = {"w": R.normal(size=(5, 2)), "b": R.normal(size=2)}
TANH = 1 - np.tanh(M @ P["w"] + P["b"]) ** 2
CASES: dict[str, tuple[tuple[Any, ...], Any]] = {
    "products": ((A, B), tuple(numerically(lambda a, b: ((a @ b) ** 2).sum(), A, B))),
    "normalized": ((X, W), numerically(softmax, X)[0]),
    "windows": ((LONG, W[:3]), tuple(numerically(lambda x, w: (np.correlate(x, w, "valid") ** 2).sum(), LONG, W[:3]))),
    "strided": ((LONG, W[:4]), numerically(lambda x: (W[:4] * x[1::2]).sum(), LONG)[0]),
    "doubled": ((X, WIDE), WIDE.reshape(5, 2).sum(1)),
    "flat": ((M, R.normal(size=15)), None),
    "padded": ((X, W), numerically(shifted, X)[0]),
    "gathered": ((X, IDS), numerically(lambda x: (x[IDS] ** 3).sum(), X)[0]),
    "guarded": ((np.array([-1.0, 0.0, 4.0]),), np.array([0.0, 0.0, 0.25])),
    "triangle": ((X,), np.arange(4.0, -1.0, -1.0)),
    "multiplied": ((ZERO,), np.array([0.0, 1.3 * -2.0 * 0.5, 0.0, 0.0])),
    "factors": ((X, W), numerically(lambda x: np.where(W > -1.0, np.tanh(np.sin(x)), np.sin(x)).prod(), X)[0]),
    "largest": ((np.array([1.0, 3.0, 3.0]),), np.array([0.0, 1.0, 0.0])),
    "sorted": ((X, W), W[np.argsort(np.argsort(X))]),
    "kept": ((X,), np.where(X > 0, 2 * X, 0)),
    "running": ((X, W), numerically(lambda x: (W * np.cumsum(x) ** 2).sum(), X)[0]),
    "highest": ((X, W), numerically(lambda x: (W * np.maximum.accumulate(x)).sum(), X)[0]),
    "log_sum": ((X,), np.exp(X) / np.exp(X).sum()),
    "recurrent": ((0.7, X), numerically(lambda w: recurrence(w)[-1], ONE)[0]),
    "states": ((0.7, X), numerically(lambda w: sum(recurrence(w)), ONE)[0]),
    "roots": ((np.array([2.0, 3.0, 9.0]),), 0.5 / np.sqrt([2.0, 3.0, 9.0])),
    "each_row": ((M, W), 2 * (M @ W)[:, None] * M),
    "descended": ((X,), None),
    "hessian": ((ZERO + 1.5,), None),
    "third": ((0.7,), -(0.7**3) * np.cos(0.7) - 9 * 0.7**2 * np.sin(0.7) + 18 * 0.7 * np.cos(0.7) + 6 * np.sin(0.7)),
    "constant": ((X,), X),
    "through": ((3 * X,), 3 * X + np.clip(3 * X, -1, 1)),
    "through_forward": ((3 * X, W), W * (3 * X + np.clip(3 * X, -1, 1))),
    "cubed_forward": ((1.1,), (1.1**3, 7 * 1.1**2)),
    "cubed_twice": ((1.1,), (7 * 1.1,) * 3),
    "in_a_loop_forward": ((1.1,), 8 * 1.1**7),
    "pair_forward": ((2.0, 3.0), (23.0, 11.0)),
    "picked_forward": ((X, IDS), X[IDS]),
    "rule_in_a_rule": ((1.75,), (1.75, 1.75)),
    "shared_by_indices": ((X, W[:3]), 2 * X * W[:3].sum()),
    "of_each_index": ((X, W[:3]), 2 * X * (W[:3] ** 2).sum()),
    "cubes": ((1.1,), 8 * 1.1**7),
    "stacked": ((STACK, M), numerically(lambda w: float(layers(w).sum()), STACK)[0]),
    "one_row": ((A, ROWS), np.outer([0, 1, 0], 2 * (ROWS @ A[1]) @ ROWS)),
    "used": ((X,), 2 * X),
    "moved": ((X, W), (np.sin(X) * X[0], np.cos(X) * W * X[0] + np.sin(X) * W[0])),
    "pulled": ((X, W), None),
    "steps": ((1.5, 3), (1.5**4, 4 * 1.5**3)),
    "of_record": ((P, M), (np.tanh(M @ P["w"] + P["b"]).sum(), {"w": M.T @ TANH, "b": TANH.sum(0)})),
    "mixed": ((X.astype(np.float32), W), (W.astype(np.float32), X.astype(np.float32).astype(np.float64))),
}  # fmt: skip


def step(x: Any) -> Any:
    for _ in range(10):
        x = x - 0.4 * x**3
    return x


FLAT = CASES["flat"][0][1]
CASES["flat"] = ((M, FLAT), 2 * FLAT.reshape(3, 5) * M)
CASES["descended"] = ((X,), step(X))
H = ZERO + 1.5
CASES["hessian"] = ((H,), np.where(np.eye(4), 0.0, H.prod() / np.outer(H, H)))
PULLED = W * np.cos(X) * X[0]
PULLED[0] += (W * np.sin(X)).sum()
CASES["pulled"] = ((X, W), (np.sin(X) * X[0], PULLED))


def same(found: Any, wanted: Any) -> None:
    if isinstance(wanted, dict):
        assert found.keys() == wanted.keys()
        for name, part in wanted.items():
            same(found[name], part)
    elif isinstance(wanted, tuple):
        for one, other in zip(found, wanted, strict=True):
            same(one, other)
    else:
        np.testing.assert_allclose(np.asarray(found), wanted, rtol=2e-6, atol=1e-7)


@pytest.fixture(scope="module")
def m() -> Any:
    return axon.compile(PROGRAM)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", CASES)
def test_derivatives(m: Any, name: str, target: str) -> None:
    given, wanted = CASES[name]
    same(getattr(m, name)(*given, target=target), wanted)


BRANCHES = """
fun root (x : f64[n]) = if (sum i => x[i]) > 0.0 then (sum i => sqrt x[i]) else 0.0
fun named (x : f64[n]) =
  if (sum i => x[i]) > 0.0
  then let val t = for i => sqrt x[i] val u = for i => t[i] * 2.0 + log x[i] in sum i => u[i] * t[i] end
  else x[0]
fun rows (m : f64[r]) (x : f64[r, n]) =
  let val y = for r => if m[r] > 0.0 then (let val t = for i => log x[r, i] in prod i => t[i] end) else x[r, 0]
  in sum r => y[r] * y[r] end
fun product (w : f64[n, k]) (x : f64[n]) =
  if (sum i => x[i]) > 0.0
  then let val t = for i => log x[i] val h = for j => sum i => t[i] * w[i, j] in sum j => h[j] * h[j] end
  else 0.0
fun linear_at_last (x : f64[n]) =
  if (sum i => x[i]) > 0.0 then (let val t = for i => x[i] + 1.0 val u = for i => 1.0 / (t[i] - 1.0) in sum i => u[i] end) else 0.0
fun one_of_two (a : f64) (x : f64[n]) =
  let val t = for i => sqrt x[i] in if a > 1.0 then (sum i => t[i]) else if a > 0.0 then (sum i => t[i] ** 3.0) else x[0] end
fun read_elsewhere (x : f64[n]) =
  let val t = for i => x[i] * x[i] in (if (sum i => x[i]) > 0.0 then (sum i => sqrt t[i]) else 0.0) + (sum i => t[i]) end
fun masked (x : f64[n]) = let val r = for i => sqrt x[i] in sum i => if x[i] > 0.0 then r[i] else 0.0 end
fun named_number (x : f64[n]) = sum i => if x[i] > 0.0 then (let val r = 1.0 / x[i] val s = log r in r * r + s * r end) else x[i]
fun running (x : f64[n]) =
  let val s = scan (op +, 0.0) i => log x[i] in if (sum i => x[i]) > 0.0 then (sum i => s[i] * x[i]) else x[0] end
fun in_a_loop (x : f64[n]) =
  let val s = loop (s = x) for _ < 2 => (let val t = for i => sqrt s[i] in if s[0] > 0.0 then (for i => s[i] + t[i]) else s end)
  in sum i => s[i] end

fun d_root x = grad root x
fun d_named x = grad named x
fun d_rows m x = grad (rows m) x
fun d_product w x = grad (fn (w, x) => product w x) (w, x)
fun d_linear_at_last x = grad linear_at_last x
fun d_one_of_two a x = grad (one_of_two a) x
fun d_read_elsewhere x = grad read_elsewhere x
fun d_masked x = grad masked x
fun d_named_number x = grad named_number x
fun d_running x = grad running x
fun d_in_a_loop x = grad in_a_loop x
fun dd_root (x : f64[n]) = grad (fn x => sum i => (grad root x)[i]) x
"""
POSITIVE, NOWHERE, SIGNS = np.array([1.0, 4.0, 9.0]), np.zeros(3), np.array([1.0, -1.0])
MIXED_ROWS = np.array([[2.0, 4.0, 5.0], [0.0, -1.0, 0.0]])
FIRST = np.array([1.0, 0.0, 0.0])
NOT_TAKEN: dict[str, tuple[tuple[Any, ...], Any]] = {
    "root": ((NOWHERE,), NOWHERE),
    "named": ((NOWHERE,), FIRST),
    "rows": ((SIGNS, MIXED_ROWS), None),
    "product": ((np.ones((3, 2)), NOWHERE), (np.zeros((3, 2)), NOWHERE)),
    "linear_at_last": ((NOWHERE,), NOWHERE),
    "one_of_two": ((-1.0, NOWHERE), FIRST),
    "read_elsewhere": ((NOWHERE,), NOWHERE),
    "masked": ((np.array([0.0, 4.0]),), np.array([0.0, 0.25])),
    "named_number": ((NOWHERE,), np.ones(3)),
    "running": ((NOWHERE,), FIRST),
    "in_a_loop": ((NOWHERE,), np.ones(3)),
}


@pytest.fixture(scope="module")
def branches() -> Any:
    return axon.compile(BRANCHES)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NOT_TAKEN)
def test_what_a_branch_makes_that_is_not_taken_gives_nothing(branches: Any, name: str, target: str) -> None:
    given, wanted = NOT_TAKEN[name]
    found = getattr(branches, f"d_{name}")(*given, target=target)
    if wanted is None:  # one row takes each branch: no difference can be taken where log has no value
        logs, (first, _, _) = np.log(MIXED_ROWS[0]), MIXED_ROWS[1]
        wanted = np.array([2 * logs.prod() ** 2 / logs / MIXED_ROWS[0], 2 * first * FIRST])
    same(found, wanted)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", NOT_TAKEN)
def test_the_branch_that_is_taken_has_its_derivative(branches: Any, name: str, target: str) -> None:
    first = {"rows": (SIGNS + 2.0,), "product": (R.normal(size=(3, 2)),), "one_of_two": (0.5,)}.get(name, ())
    x = np.stack([POSITIVE, POSITIVE + 2.5]) if name == "rows" else POSITIVE
    by = 0 if name == "product" else len(first)
    wanted = numerically(lambda *given: getattr(branches, name)(*first[:by], *given, target="interpret"), *first[by:], x)
    found = getattr(branches, f"d_{name}")(*first, x, target=target)
    same(found if name == "product" else (found,), tuple(wanted))


def test_of_the_second_order_a_branch_gives_nothing_either(branches: Any) -> None:
    same(branches.dd_root(NOWHERE), NOWHERE)
    same(branches.dd_root(POSITIVE), -0.25 * POSITIVE**-1.5)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("fun f (x : f64) (k : i32) = grad (fn x => loop (s = x) for _ < k => s * x) x", "a number of steps that the data decide"),
        ("fun f (x : f64) (k : i32) = grad (fn x => with_vjp (fn s => s * x) (fn s dy => dy) x) x", "captures"),
        ("fun f (x : f64) (k : i32) = jvp (fn x => with_vjp (fn s => s) (fn s dy => max 0.0 dy) x) x 1.0", "not linear"),
        (
            "fun f (x : f64[n]) (k : i32) = grad (fn x => reduce (fn a b => a + b + 0.0 * x[0], 0.0) i => x[i]) x",
            "reads what the derivative is taken by",
        ),
    ],
)
def test_what_has_none_is_named(text: str, says: str) -> None:
    m = axon.compile(text)
    with pytest.raises(AxonError, match="AX0220") as raised:
        m.f(np.ones(2) if "f64[n]" in text else 1.5, 2)
    assert says in str(raised.value)


def test_what_a_step_of_a_loop_reads_of_a_stack_is_differentiated_alone() -> None:
    """The adjoint of one layer's weights is a product for this layer, and none for every layer."""
    m = axon.compile(PROGRAM)
    once, more = (m.stacked.cost({"n": n, "d": 64, "b": 64}).flops for n in (8, 16))
    assert more < 2.1 * once


@pytest.mark.parametrize("target", TARGETS)
def test_what_a_coercion_makes_wider_is_summed_before_it_is_rounded(target: str) -> None:
    """With addends and sums that f32 has: the derivative is the bf16 next to the sum, not a sum of addends in bf16."""
    source = "fun f (x : bf16[k]) (w : f32[n, k]) = grad (fn x => sum i j => cast f32 x[j] * w[i, j]) x"
    w = np.random.default_rng(5).integers(-4095, 4096, (64, 9)) / 4096
    got = axon.compile(source).f(np.ones(9, ml_dtypes.bfloat16), w.astype(np.float32), target=target)
    assert got.dtype == ml_dtypes.bfloat16
    assert np.array_equal(got, w.sum(0).astype(ml_dtypes.bfloat16))
    assert not np.array_equal(got, w.astype(ml_dtypes.bfloat16).sum(0, dtype=np.float32).astype(ml_dtypes.bfloat16))
