"""Conditions that a `val` names, or a function computes, say what they say where they are written out."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import axon

# (the body with a named condition, the same with the condition written out)
SAME = [
    (
        "for i < n => sum for d < 3 => let val j = i + d - 1 val inside = j >= 0 andalso j < n in if inside then x[j] else 0.0 end",
        "for i < n => sum for d < 3 => if i + d - 1 >= 0 andalso i + d - 1 < n then x[i + d - 1] else 0.0",
    ),
    ("let val ok = n > 0 in if ok then x[0] else 0.0 end", "if n > 0 then x[0] else 0.0"),
    ("let val ok = n > 0 val too = k < n in if ok andalso too then x[k] else 0.0 end", "if n > 0 andalso k < n then x[k] else 0.0"),
    ("let val ok = n > k val ok = ok andalso m > k in if ok then x[k] * y[k] else 0.0 end",
     "if n > k andalso m > k then x[k] * y[k] else 0.0"),
    ("let val none = n = 0 in if none then 0.0 else x[n - 1] end", "if n = 0 then 0.0 else x[n - 1]"),
    ("let val none = n = 0 in if not none then x[n - 1] else 0.0 end", "if n = 0 then 0.0 else x[n - 1]"),
    ("if (n > k) = true then x[k] else 0.0", "if n > k then x[k] else 0.0"),
    ("if false = (n > k) then 0.0 else x[k]", "if n > k then x[k] else 0.0"),
    ("if (n > k) <> true then 0.0 else x[k]", "if n > k then x[k] else 0.0"),
    ("if (if n > k then true else false) then x[k] else 0.0", "if n > k then x[k] else 0.0"),
    ("if (if n <= k then false else m > k) then x[k] * y[k] else 0.0", "if n > k andalso m > k then x[k] * y[k] else 0.0"),
    ("if (let val ok = n > k in ok end) then x[k] else 0.0", "if n > k then x[k] else 0.0"),
    ("let val (ok, too) = (n > k, m > k) in if ok andalso too then x[k] * y[k] else 0.0 end",
     "if n > k andalso m > k then x[k] * y[k] else 0.0"),
    ("let val inside = k < n in sum for i < m where inside => x[k] * y[i] end", "sum for i < m where k < n => x[k] * y[i]"),
    ("sum for i < m where (let val j = i + k in j < n end) => x[i + k]", "sum for i < m where i + k < n => x[i + k]"),
    # the inner name is another one
    ("let val ok = n > k in let val ok = m > k in if ok then y[k] else 0.0 end end", "if m > k then y[k] else 0.0"),
    # an alternative says nothing by itself: what is read is looked at while running
    ("let val any = n > 0 orelse m > 0 in if any then x[0] else 0.0 end", "if n > 0 orelse m > 0 then x[0] else 0.0"),
    ("let val ok = n > k in if ok = (m > k) then x[k] else 0.0 end",
     "if (n > k andalso m > k) orelse (n <= k andalso m <= k) then x[k] else 0.0"),
    ("if (if m > 2 then n > k else n > 0) then x[k] else 0.0",
     "if (m > 2 andalso n > k) orelse (m <= 2 andalso n > 0) then x[k] else 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("named", "inline"), SAME, ids=[named for named, _ in SAME])
def test_a_named_condition_says_what_it_says_inline(named: str, inline: str) -> None:
    f, g = (axon.compile(f"fun f {{k}} (x : f32[n]) (y : f32[m]) = {body}").f for body in (named, inline))
    assert str(f.signature) == str(g.signature)
    for n, m, k in product(range(4), range(4), range(3)):
        x, y = np.arange(1, n + 1, dtype=np.float32), np.arange(2, m + 2, dtype=np.float32)
        assert _outcome(f, k, x, y, "interpret") == _outcome(g, k, x, y, "interpret"), (n, m, k)
    for n, m, k in ((0, 0, 0), (3, 1, 2), (1, 3, 1)):
        x, y = np.arange(1, n + 1, dtype=np.float32), np.arange(2, m + 2, dtype=np.float32)
        assert _outcome(f, k, x, y, "cpu") == _outcome(g, k, x, y, "interpret"), (n, m, k)


FUNCTIONS = """
fun under n a = a < n
fun inside n a = a >= 0 andalso under n a
fun fits {n} a = a < n * n
fun has (x : f32[n]) a = a < n
fun outside n a = not (inside n a)
fun later n a = let val j = a in j < n end
fun next n a = a + 1 < n
fun some n a = a < n orelse a = 0
fun same n a = n = a
"""

# (the body with a condition that a function computes, the same with the condition written out)
CALLED = [
    ("if under n k then x[k] else 0.0", "if k < n then x[k] else 0.0"),
    ("for i < n => if inside n (i + k - 1) then x[i + k - 1] else 0.0",
     "for i < n => if i + k - 1 >= 0 andalso i + k - 1 < n then x[i + k - 1] else 0.0"),
    ("if outside n k then 0.0 else x[k]", "if k < n then x[k] else 0.0"),
    ("if has x k then x[k] else 0.0", "if k < n then x[k] else 0.0"),
    ("if has y k andalso has x k then x[k] * y[k] else 0.0", "if k < m andalso k < n then x[k] * y[k] else 0.0"),
    ("if later n k then x[k] else 0.0", "if k < n then x[k] else 0.0"),
    ("let val ok = under n k in if ok then x[k] else 0.0 end", "if k < n then x[k] else 0.0"),
    ("let fun ok a = a < n in if ok k then x[k] else 0.0 end", "if k < n then x[k] else 0.0"),
    ("let fun both a = under n a andalso a < m in if both k then x[k] * y[k] else 0.0 end",
     "if k < n andalso k < m then x[k] * y[k] else 0.0"),
    ("sum for i < m where inside n (i + k) => x[i + k]", "sum for i < m where i + k < n => x[i + k]"),
    ("if same n m then sum i => x[i] * y[i] else 0.0", "if n = m then sum i => x[i] * y[i] else 0.0"),
    ("if not (same n m) then 0.0 else sum i => x[i] * y[i]", "if n <> m then 0.0 else sum i => x[i] * y[i]"),
    # an alternative says nothing by itself, and so does what may wrap: what is read is looked at while running
    ("if some n k then x[0] else 0.0", "if k < n orelse k = 0 then x[0] else 0.0"),
    ("if next n k then x[k] else 0.0", "if k < n orelse k = n + 1 then x[k] else 0.0"),
]  # fmt: skip


@pytest.mark.parametrize(("called", "inline"), CALLED, ids=[called for called, _ in CALLED])
def test_a_condition_that_a_function_computes_says_what_it_says_inline(called: str, inline: str) -> None:
    f, g = (axon.compile(f"{FUNCTIONS}fun f {{k}} (x : f32[n]) (y : f32[m]) = {body}").f for body in (called, inline))
    assert str(f.signature) == str(g.signature)
    same = "next" not in called
    for n, m, k in product(range(4), range(4), range(4)):
        x, y = np.arange(1, n + 1, dtype=np.float32), np.arange(2, m + 2, dtype=np.float32)
        found = _outcome(f, k, x, y, "interpret")
        assert not same or found == _outcome(g, k, x, y, "interpret"), (n, m, k)
        if (n, m, k) in ((0, 0, 0), (3, 1, 2), (1, 3, 1)):
            assert _outcome(f, k, x, y, "cpu") == found, (n, m, k)


def test_a_comparison_that_may_wrap_says_nothing() -> None:
    """a * a of 65,536 is 0 in 32 bits: whatever a function makes of it, nothing is read outside."""
    m = axon.compile("fun small n a = a * a < n\nfun f {a} (x : f32[n]) = if small n a then x[a * a] else 0.0")
    x = np.arange(3, dtype=np.float32)
    for target in ("interpret", "cpu"):
        assert [float(m.f[a](x, target=target)) for a in (1, 2, 65_536)] == [1.0, 0.0, 0.0]


def _outcome(f: axon.Function, k: int, x: object, y: object, target: str) -> object:
    try:
        return np.asarray(f[k](x, y, target=target)).tolist()
    except axon.ShapeError as error:
        return error.diagnostics[0].code


def test_a_name_of_data_says_nothing() -> None:
    with pytest.raises(axon.AxonError, match="AX0303"):
        axon.compile("fun f (x : f32[n]) (j : i32) = for i < n => let val ok = j < n in if ok then x[i + 1] else 0.0 end")


def test_names_made_of_names_twice_are_looked_up_once() -> None:
    names = " ".join(f"val b{i + 1} = b{i} andalso b{i}" for i in range(200))
    f = axon.compile(f"fun f (x : f32[n]) = let val b0 = n > 0 {names} in if b200 then x[0] else 0.0 end").f
    assert str(f.signature) == "sig f : f32[n] -> f32"
